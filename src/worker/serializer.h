/*
 * serializer.h
 *	  Serializers: processes that compress and decompress blocks.
 */
#ifndef AION_SERIALIZER_H
#define AION_SERIALIZER_H

/* GUC: the most of them in the server. */
extern int	aion_serializers;

/* At start, in every process: tasks can be posted (serialize_hook). */
extern void serializer_init(void);

#endif							/* AION_SERIALIZER_H */
