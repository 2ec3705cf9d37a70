/*
 * area.h
 *	  The fixed area of shared memory that holds whatever grows with data.
 */
#ifndef AION_AREA_H
#define AION_AREA_H

#include "postgres.h"

/* GUC aion.memory, in kilobytes; fixed at server start. */
extern int	aion_memory;

/* GUC aion.memory_high, percent: memory is short when more of it is used. */
extern int	aion_memory_high;

/* Bytes of pages in use and in total, for pressure and inspection. */
extern void area_usage(int64 *used, int64 *total);

/* To be called from the shmem hooks, in a library that is being preloaded. */
extern void area_shmem_request(void);
extern void area_shmem_startup(void);

/* False in a server that has not preloaded the library. */
extern bool area_exists(void);

/* The number of this life of shared memory, for this database: a journal tuple that carries it has a chunk. */
extern uint64 area_generation(void);

#endif							/* AION_AREA_H */
