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
 * aion.late_firing_due(arrivals bytea, bound float8, window_end timestamptz, lateness bigint,
 *						fired timestamptz, watermark timestamptz, late bigint, expected float8,
 *						unlimited boolean, now timestamptz, not_before timestamptz)
 *		returns timestamptz
 *
 * When a window that lacks so many late events is executed, as trigger.c has it while W_e moves as the clock does, but
 * no sooner than "not_before"; by its final firing at the latest. "arrivals" as in aion.view_state. NULL: at no time
 * that could be shown.
 */
Datum
aion_late_firing_due(PG_FUNCTION_ARGS)
{
	double		bound = PG_GETARG_FLOAT8(1);
	EventTime	end = PG_GETARG_TIMESTAMPTZ(2);
	int64		lateness = PG_GETARG_INT64(3);
	EventTime	watermark = PG_GETARG_TIMESTAMPTZ(5);
	EventTime	fired = Min(Max(PG_GETARG_TIMESTAMPTZ(4), end), watermark);	/* see trigger_due() */
	int64		late = PG_GETARG_INT64(6);
	double		expected = PG_GETARG_FLOAT8(7);
	EventTime	due = staleness_due(fired, late, bound, lateness, expected);
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
								 staleness_position(int64_sub_saturating(fired, end), lateness),
								 staleness_position(int64_sub_saturating(watermark, end), lateness));
	if (planned < 1)
		due = Min(due, staleness_instant(end, lateness, planned));
	if (!PG_GETARG_BOOL(8))
		due = Min(due, int64_add_saturating(end, lateness));
	due = int64_add_saturating(PG_GETARG_TIMESTAMPTZ(9), Max(0, int64_sub_saturating(due, watermark)));
	due = Max(due, PG_GETARG_TIMESTAMPTZ(10));
	if (!IS_VALID_TIMESTAMP(due))
		PG_RETURN_NULL();
	PG_RETURN_TIMESTAMPTZ(due);
}
