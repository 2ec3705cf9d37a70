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
#include "store/serialize.h"
#include "stream/stream.h"
#include "view/view.h"
#include "worker/destage_plan.h"
#include "worker/scheduler.h"
#include "worker/serializer.h"
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
		"Sets the allowed lateness of windows where it is 'auto' and too little is known of late events.",
		"It is also the most that 'auto' allows.",
		&aion_initial_lateness, 0, INT_MAX, PGC_SIGHUP, GUC_UNIT_S
	},
	{
		"aion.executors",
		"Sets the most processes per database that execute windows at the same time.",
		"0 means that the scheduler executes them itself, one after the other.",
		&aion_executors, 0, 64, PGC_SIGHUP, 0
	},
	{
		"aion.memory_high",
		"Sets the percentage of aion.memory above which memory is short.",
		"What then leaves it depends on aion.destage_policy.",
		&aion_memory_high, 1, 99, PGC_SIGHUP, 0
	},
	{
		"aion.memory_critical",
		"Sets the percentage of aion.memory above which memory is relieved under any policy.",
		NULL,
		&aion_memory_critical, 1, 99, PGC_SIGHUP, 0
	},
	{
		"aion.serializers",
		"Sets the most processes in the server that compress and decompress blocks of events.",
		"0 means that whoever writes or reads a block does it.",
		&aion_serializers, 0, SERIALIZE_PROCESSES, PGC_SIGHUP, 0
	},
};

/* Parameters of other types, one each. Their defaults are the initial values, too. */
static void
define_others(void)
{
	DefineCustomEnumVariable("aion.destage_policy",
							 "Chooses which events leave shared memory, and when.",
							 "standard: past buckets; local: past and idle buckets, but for their bootstrap set; "
							 "global: when memory is short, the largest buckets but for their bootstrap set; "
							 "global-rate: the same, those that fill slowest first; "
							 "none: nothing, unless memory is critically short.",
							 &aion_destage_policy, aion_destage_policy, aion_destage_policies,
							 PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomRealVariable("aion.bootstrap_fraction",
							 "Sets the part of a bucket's events that stays in shared memory when the others leave it.",
							 "These are the first ones to arrive. It does not apply to the standard policy.",
							 &aion_bootstrap_fraction, aion_bootstrap_fraction, 0, 1,
							 PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomRealVariable("aion.staleness",
							 "Sets the bound on staleness of views that do not set their own.",
							 "The share of late events times the share of the allowed lateness that may pass before a window "
							 "is executed again; 0 means as soon as aion.late_interval allows, 1 by the final firing alone.",
							 &aion_staleness, aion_staleness, 0, 1,
							 PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomStringVariable("aion.idle_destage",
							   "Sets the time without an event after which the local policy takes a bucket for idle.",
							   "A time, in milliseconds if it has no unit, or \"auto\": three times the median of "
							   "what the last 101 executions of windows took, at least one second.",
							   &aion_idle_destage, aion_idle_destage,
							   PGC_SIGHUP, 0, destage_check_idle, destage_assign_idle, NULL);
}

void
guc_init(void)
{
	DefineCustomBoolVariable("aion.staging",
							 "Has the I/O worker read compressed blocks for executions of windows, one after the other.",
							 "Off, each execution reads what it needs by itself, several at the same time.",
							 &aion_staging, true, PGC_SIGHUP, 0, NULL, NULL, NULL);
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
	define_others();
	MarkGUCPrefixReserved("aion");
}
