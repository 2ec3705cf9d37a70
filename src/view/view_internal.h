/*
 * view_internal.h
 *	  What the files of the view layer share.
 */
#ifndef AION_VIEW_INTERNAL_H
#define AION_VIEW_INTERNAL_H

#include "postgres.h"
#include "datatype/timestamp.h"
#include "executor/spi.h"
#include "nodes/parsenodes.h"
#include "nodes/pg_list.h"
#include "utils/tuplestore.h"

#include "store/accounted.h"
#include "view/view.h"

/* Columns of aion.view_def. */
enum
{
	VIEW_DEF_VIEW = 1,
	VIEW_DEF_STREAM,
	VIEW_DEF_DEFINITION,
	VIEW_DEF_RESULTS,
	VIEW_DEF_WINDOW_SIZE,
	VIEW_DEF_WINDOW_SLIDE,
	VIEW_DEF_WINDOW_ORIGIN,
	VIEW_DEF_EARLY,
	VIEW_DEF_ALLOWED_LATENESS,
	VIEW_DEF_STALENESS,
	VIEW_DEF_RETAIN,
	VIEW_DEF_BACKFILL,
	VIEW_DEF_PAUSED,
	VIEW_DEF_SETTINGS,
	VIEW_DEF_NATTS = VIEW_DEF_SETTINGS
};

/* The columns that precede the query's own in a results table: hidden key, window_start, window_end. */
#define RESULTS_KEY_ATTNUM		1
#define RESULTS_START_ATTNUM	2
#define RESULTS_END_ATTNUM		3
#define RESULTS_FIRST_ATTNUM	4

/* A row of aion.view_def as it stands, without the stream's defaults. */
typedef struct ViewRow
{
	Oid			view;
	Oid			stream;
	Oid			definition;
	Oid			results;
	WindowSpec	window;
	Interval   *early;			/* NULL: no early firings */
	char	   *allowed_lateness;	/* NULL: the stream's */
	double		staleness;		/* negative: as aion.staleness says */
	Interval   *retain;			/* NULL: results stay for ever */
	bool		backfill;
	bool		paused;
	List	   *settings;		/* of char *, "name=value" */
} ViewRow;

/* catalog.c */
extern bool view_catalog_exists(void);
extern ViewRow *view_row_read(Oid view);
extern List *view_rows_of_stream(Oid stream);
extern bool view_is_definition(Oid relid);
extern int	view_uses_of_relation(Oid relid);
extern void view_row_insert(const ViewRow *row);
extern void view_row_update(const ViewRow *row);
extern bool view_row_delete(Oid view);
extern void view_state_delete(Oid view);
extern Lateness view_lateness(const char *text);

/* define.c */
extern void view_check_early(const Interval *early);
extern void view_check_staleness(double bound);
extern void view_check_retain(const Interval *retain);

/* window_spec.c */
extern bool view_interval_usecs(const Interval *interval, int64 *usecs);
extern char *view_interval_text(const Interval *interval);
extern NullableDatum view_lateness_argument(const NullableDatum *interval);
extern WindowSpec view_window_from_datum(Datum composite);

/* query_check.c */
extern void view_push_query_context(ErrorContextCallback *callback, const char *query);
extern void view_pop_query_context(const ErrorContextCallback *callback);
extern RawStmt *view_parse_query(const char *query);
extern void view_check_columns(RawStmt *raw, const char *query);
extern void view_check_persistent(Oid definition);
extern Oid	view_check_definition(const char *definition_name, const char *view_name);

/* relations.c */
#define RESULTS_SCHEMA "aion_results"	/* where definitions and results are */

typedef struct ViewRelations
{
	Oid			view;
	Oid			definition;
	Oid			results;
} ViewRelations;
extern bool view_relations_being_made(void);
extern bool view_claim_name(const char *name, Oid schema);
extern Oid	view_make_definition(Oid view_schema, const char *view_name, RawStmt *raw, const char *query);
extern Oid	view_make_results(Oid view_schema, const char *view_name, Oid definition, Oid time_type);
extern Oid	view_make_view(Oid schema, const char *view_name, Oid results);
extern bool view_has_dependencies(const ViewRelations *relations);
extern void view_record_dependencies(const ViewRelations *relations, Oid stream);
extern char *view_qualified_name(Oid relid);
extern char *view_results_condition(Oid results, const char *operator);

/* identity.c */
typedef struct OwnerContext
{
	Oid			userid;
	int			sec_context;
	int			guc_level;
} OwnerContext;
extern void view_become_owner(OwnerContext *saved, Oid owner, List *settings, int elevel);
extern void view_become_self(const OwnerContext *saved);
extern List *view_current_settings(void);

/* results.c */
extern int64 results_replace(const ViewRow *row, EventTime start, EventTime end,
							 int64 expected_events, Accounted *set);
extern void results_forget_plans(Oid view);
extern void results_sweep_plans(void);

/* fire.c */
extern bool view_lock_for_failure(Oid view);
extern ViewRow *view_lock_for_work(Oid view, Oid journal, Oid *owner);
extern FiringOutcome view_outcome_of_error(const ErrorData *error);
extern void view_be_impatient(void);
extern ErrorData *view_clean_up_after_error(MemoryContext context);

/* stage_size.c */
extern Size view_stage_ahead(SPIPlanPtr plan);
extern void results_delete_all(const ViewRow *row);

/* stop.c */
#define VIEW_ENTRY_LOCK RowExclusiveLock	/* on the view, for a moment: work for it that begins */
#define VIEW_STOP_LOCK ShareRowExclusiveLock	/* keeps such work from beginning; what has begun goes on, as do readers */
extern void view_stop_work(Oid view);
extern void view_stop_dropped(const DropStmt *statement);
extern void view_enter(Oid view);
extern bool view_stopped(void);
extern void view_execution_begins(void);
extern void view_execution_ends(void);

/* drop_extension.c */
extern void view_drop_init(void);

#endif							/* AION_VIEW_INTERNAL_H */
