/*
 * staleness_functions.c
 *	  The staleness trigger's arithmetic for SQL: what it plans, and when it
 *	  would have a window executed.
 *
 * The scheduler (worker/trigger.c) uses the same functions of the time layer.
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "time/late_forecast.h"
#include "view/view_internal.h"

PG_FUNCTION_INFO_V1(aion_staleness_plan);
PG_FUNCTION_INFO_V1(aion_lateness_clock);
PG_FUNCTION_INFO_V1(aion_late_firing_due);

#define MAX_CELLS		100000
#define MAX_EXECUTIONS	10000

/* Reads how late events are distributed: shares, in any unit, of equal parts of the allowed lateness. */
static double *
read_distribution(ArrayType *array, int *cells)
{
	Datum	   *values;
	bool	   *nulls;
	double	   *masses;
	double		total = 0;

	if (ARR_NDIM(array) > 1)
		ereport(ERROR,
				(errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
				 errmsg("a distribution must be an array of one dimension")));
	deconstruct_array(array, FLOAT8OID, sizeof(float8), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE,
					  &values, &nulls, cells);
	if (*cells == 0 || *cells > MAX_CELLS)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("a distribution must have 1 to %d parts", MAX_CELLS)));
	masses = palloc(sizeof(double) * *cells);
	for (int i = 0; i < *cells; i++)
	{
		masses[i] = nulls[i] ? -1 : DatumGetFloat8(values[i]);
		if (!(masses[i] >= 0 && isfinite(masses[i])))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("part %d of the distribution is not a share", i + 1),
					 errhint("Each must be a finite number, and not negative.")));
		total += masses[i];
	}
	if (!(total > 0 && isfinite(total)))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("a distribution must have a positive, finite sum")));
	return masses;
}

/*
 * aion.staleness_plan(distribution float8[], bound float8, since float8) returns float8[]
 *
 * NULL for the distribution: uniform.
 */
Datum
aion_staleness_plan(PG_FUNCTION_ARGS)
{
	double		bound;
	double		since;
	int			cells = 1;
	double	   *masses = NULL;
	ArrivalCurve curve;
	double	   *times = palloc(sizeof(double) * MAX_EXECUTIONS);
	Datum	   *result;
	int			n;

	if (PG_ARGISNULL(1) || PG_ARGISNULL(2))
		PG_RETURN_NULL();
	bound = PG_GETARG_FLOAT8(1);
	since = PG_GETARG_FLOAT8(2);
	view_check_staleness(bound);
	if (bound < 1.0 / ((double) MAX_EXECUTIONS * MAX_EXECUTIONS))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("no plan can keep staleness within %g", bound),
				 errdetail("A plan has at most %d executions.", MAX_EXECUTIONS)));
	if (!(since >= 0 && since < 1))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("a plan must begin at 0 or later, and before 1")));
	if (!PG_ARGISNULL(0))
		masses = read_distribution(PG_GETARG_ARRAYTYPE_P(0), &cells);
	arrival_curve_init(&curve, masses, cells, false, palloc(sizeof(double) * (cells + 1)));
	n = staleness_plan(&curve, since, bound, times, MAX_EXECUTIONS);
	result = palloc(sizeof(Datum) * n);
	for (int i = 0; i < n; i++)
		result[i] = Float8GetDatum(times[i]);
	PG_RETURN_ARRAYTYPE_P(construct_array(result, n, FLOAT8OID, sizeof(float8), FLOAT8PASSBYVAL,
										  TYPALIGN_DOUBLE));
}

/*
 * aion.lateness_clock(watermark timestamptz, stood_still bigint, stands_still_from timestamptz) returns timestamptz
 *
 * What lateness_clock() in trigger.c shows at the start of the transaction, from columns of aion.stream_state. NULL: there
 * is no W_e yet.
 */
Datum
aion_lateness_clock(PG_FUNCTION_ARGS)
{
	int64		stood_still = PG_ARGISNULL(1) ? 0 : PG_GETARG_INT64(1);

	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	if (!PG_ARGISNULL(2))
		stood_still = int64_add_saturating(stood_still,
										   Max(0, GetCurrentTransactionStartTimestamp() - PG_GETARG_TIMESTAMPTZ(2)));
	PG_RETURN_TIMESTAMPTZ(staleness_clock(PG_GETARG_TIMESTAMPTZ(0), stood_still));
}

/*
 * aion.late_firing_due(arrivals bytea, bound float8, lateness bigint, on_time timestamptz, fired timestamptz,
 *						clock timestamptz, window_end timestamptz, watermark timestamptz, late bigint,
 *						expected float8, unlimited boolean, now timestamptz, not_before timestamptz)
 *		returns timestamptz
 *
 * When a window that lacks so many late events is executed, as trigger.c has it while W_e, or the lateness clock without
 * it, moves as the clock does, but no sooner than "not_before"; by its final firing at the latest. on_time, fired and clock
 * are of the lateness clock. "arrivals" as in aion.view_state. NULL: at no time that could be shown.
 */
Datum
aion_late_firing_due(PG_FUNCTION_ARGS)
{
	double		bound = PG_GETARG_FLOAT8(1);
	int64		lateness = PG_GETARG_INT64(2);
	EventTime	clock = PG_GETARG_TIMESTAMPTZ(5);
	EventTime	fired = Min(PG_GETARG_TIMESTAMPTZ(4), clock);	/* see trigger_due() */
	EventTime	on_time = Min(PG_GETARG_TIMESTAMPTZ(3), fired);
	int64		late = PG_GETARG_INT64(8);
	double		expected = PG_GETARG_FLOAT8(9);
	int64		remaining = int64_sub_saturating(staleness_due(fired, late, bound, lateness, expected), clock);
	EventTime	due;
	ArrivalShape shape;
	double		planned;

	/* not strict, because what was learnt may be missing */
	for (int i = 1; i < PG_NARGS(); i++)
		if (PG_ARGISNULL(i))
			PG_RETURN_NULL();
	arrival_shape_init(&shape, DECAYED_COUNTS_FOREVER);
	if (!PG_ARGISNULL(0))
	{
		bytea	   *packed = PG_GETARG_BYTEA_PP(0);

		(void) arrival_shape_decode(&shape, (uint8 *) VARDATA_ANY(packed), VARSIZE_ANY_EXHDR(packed));
	}
	planned = arrival_shape_next(&shape, bound,
								 staleness_position(int64_sub_saturating(fired, on_time), lateness),
								 staleness_position(int64_sub_saturating(clock, on_time), lateness));
	if (planned < 1)
		remaining = Min(remaining, int64_sub_saturating(staleness_instant(on_time, lateness, planned), clock));
	if (!PG_GETARG_BOOL(10))
		remaining = Min(remaining, int64_sub_saturating(int64_add_saturating(PG_GETARG_TIMESTAMPTZ(6), lateness),
														PG_GETARG_TIMESTAMPTZ(7)));
	due = int64_add_saturating(PG_GETARG_TIMESTAMPTZ(11), Max(0, remaining));
	due = Max(due, PG_GETARG_TIMESTAMPTZ(12));
	if (!IS_VALID_TIMESTAMP(due))
		PG_RETURN_NULL();
	PG_RETURN_TIMESTAMPTZ(due);
}
