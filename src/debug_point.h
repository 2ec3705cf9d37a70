/*
 * debug_point.h
 *	  Named fault points, in test builds only.
 *
 * A test arms a point by writing the file aion_fault.NAME in the data
 * directory; its content says what happens when a process comes by: "crash"
 * (SIGKILL to itself), "error", or "wait" (creates aion_fault.NAME.waiting and
 * goes on when that file is removed). The file is taken away first, so a
 * point acts once per arming, also across a restart.
 *
 * Every name is listed in debug_points.inc, so that a test can walk through all.
 */
#ifndef AION_DEBUG_POINT_H
#define AION_DEBUG_POINT_H

#ifdef AION_FAULTS
extern void debug_point(const char *name);
#define DEBUG_POINT(name) debug_point(name)
#else
#define DEBUG_POINT(name) ((void) 0)
#endif

#endif							/* AION_DEBUG_POINT_H */
