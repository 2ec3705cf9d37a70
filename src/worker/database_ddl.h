/*
 * database_ddl.h
 *	  Statements that need a database without anyone connected to it.
 */
#ifndef AION_DATABASE_DDL_H
#define AION_DATABASE_DDL_H

/* Installs the ProcessUtility hook and the transaction callback; from worker_init(). */
extern void database_ddl_init(void);

#endif							/* AION_DATABASE_DDL_H */
