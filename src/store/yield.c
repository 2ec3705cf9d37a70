/*
 * yield.c
 *	  Where longer jobs of the store let urgent work go first.
 */
#include "postgres.h"

#include "store/yield.h"

void		(*store_yield_hook) (void) = NULL;
