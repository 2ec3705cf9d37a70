/*
 * staleness.h
 *	  How stale the result of a window may become while late events arrive,
 *	  and when to execute the window again so that it doesn't.
 *
 * Of two consecutive executions with t between them and n late events since
 * the first, the staleness is t * n / (T * N): T is the allowed lateness of
 * the window, N how many late events it will have in all (Aion paper, section
 * 3).  It is in [0, 1], and so is a bound on it.
 *
 * Plans count time in x = time since the on-time execution / T.  The on-time
 * execution, at 0, begins the first pair and isn't counted; the final one, at
 * 1, always happens and is.  Instants and durations elsewhere are microseconds
 * of whichever clock.  Nothing here allocates memory or keeps state.
 */
#ifndef AION_STALENESS_H
#define AION_STALENESS_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Which share of a window's late events has arrived by x, in cells of equal
 * width over [0, 1].  Inside a cell it grows linearly; or, stepwise, all that
 * belongs to a cell comes at its end, and only there can be executed, as if
 * the window was looked at so many times.
 */
typedef struct ArrivalCurve
{
	int			cells;			/* at least 1 */
	bool		stepwise;
	const double *shares;		/* at the cells + 1 edges, from 0 to 1 */
} ArrivalCurve;

extern void arrival_curve_init(ArrivalCurve *curve, const double *masses,
							   int cells, bool stepwise, double *shares);
extern double arrival_curve_share(const ArrivalCurve *curve, double x);

extern int	staleness_greedy(const ArrivalCurve *curve, double from,
							 double bound, double *times, int max_times);
extern int	staleness_balance(const ArrivalCurve *curve, double from,
							  double *times, int ntimes);
extern int	staleness_plan(const ArrivalCurve *curve, double from,
						   double bound, double *times, int max_times);
extern double staleness_max(const ArrivalCurve *curve, double from,
							const double *times, int ntimes);
extern int64_t staleness_clock(int64_t watermark, int64_t stood_still);
extern int64_t staleness_instant(int64_t on_time, int64_t lateness, double x);
extern double staleness_position(int64_t elapsed, int64_t lateness);

extern double staleness_now(int64_t elapsed, int64_t events, int64_t lateness,
							double expected);
extern int64_t staleness_due(int64_t last, int64_t events, double bound,
							 int64_t lateness, double expected);

#endif							/* AION_STALENESS_H */
