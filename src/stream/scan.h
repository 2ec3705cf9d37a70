/*
 * scan.h
 *	  What the planning of a stream's scan hands to its execution, in
 *	  ForeignScan.fdw_private; the bounding expressions are in fdw_exprs.
 */
#ifndef AION_SCAN_H
#define AION_SCAN_H

#define SCAN_PRIVATE_STRATEGIES 0	/* btree strategy of each bounding expression */
#define SCAN_PRIVATE_COLUMNS	1	/* attribute numbers looked at; 0 is the whole row */

#endif							/* AION_SCAN_H */
