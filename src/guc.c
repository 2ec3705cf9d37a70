/*
 * guc.c
 *	  aion's configuration parameters, as a table.
 *
 * A parameter's variable belongs to the file that uses it.
 */
#include "postgres.h"

#include <limits.h>

#include "miscadmin.h"
#include "utils/guc.h"

#include "guc.h"
#include "store/area.h"
#include "stream/stream.h"
#include "worker/scheduler.h"
#include "worker/worker.h"

/* An integer parameter; its default is the variable's initial value. */
typedef struct IntParameter
{
	const char *name;
	const char *summary;
	const char *detail;
	int		   *variable;
	int			min;
	int			max;
	GucContext	context;
	int			flags;
} IntParameter;

static const IntParameter int_parameters[] =
{
	{
		"aion.memory",
		"Sets the shared memory for events and what else grows with data.",
		"It is a cache: when it is full, events are kept in tables alone.",
		&aion_memory, 4096, INT_MAX / 2, PGC_POSTMASTER, GUC_UNIT_KB
	},
	{
		"aion.late_interval",
		"Sets the least time between two executions of a window because of late events.",
		"0 means no limit, -1 that late events are taken in by the final firing alone.",
		&aion_late_interval, -1, INT_MAX, PGC_SIGHUP, GUC_UNIT_MS
	},
	{
		"aion.initial_lateness",
		"Sets the allowed lateness of streams that do not set their own.",
		NULL,
		&aion_initial_lateness, 0, INT_MAX, PGC_SIGHUP, GUC_UNIT_S
	},
	{
		"aion.executors",
		"Sets the most processes per database that execute windows at the same time.",
		"0 means that the scheduler executes them itself, one after the other.",
		&aion_executors, 0, 64, PGC_SIGHUP, 0
	},
};

void
guc_init(void)
{
	DefineCustomBoolVariable("aion.prestage",
							 "Has compressed blocks read before an execution that needs them can be foreseen.",
							 "Off, an execution asks for them when it begins.",
							 &aion_prestage, true, PGC_SIGHUP, 0, NULL, NULL, NULL);
	for (int i = 0; i < lengthof(int_parameters); i++)
	{
		const IntParameter *parameter = &int_parameters[i];

		if (parameter->context == PGC_POSTMASTER && !process_shared_preload_libraries_in_progress)
			continue;
		DefineCustomIntVariable(parameter->name, parameter->summary, parameter->detail,
								parameter->variable, *parameter->variable,
								parameter->min, parameter->max, parameter->context,
								parameter->flags, NULL, NULL, NULL);
	}
	MarkGUCPrefixReserved("aion");
}
