/*
 * guc.h
 *	  aion's configuration parameters.
 */
#ifndef AION_GUC_H
#define AION_GUC_H

/* Defines all parameters; those fixed at server start only while the library is preloaded. */
extern void guc_init(void);

#endif							/* AION_GUC_H */
