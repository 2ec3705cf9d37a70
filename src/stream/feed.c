/*
 * feed.c
 *	  aion.feed('stream'): a trigger that copies an ordinary table's new rows
 *	  into a stream.
 *
 * Columns go by name. Columns of the stream that the table lacks get their
 * default, so one that is NOT NULL without a default makes the insert fail;
 * columns of the table that the stream lacks are left out, and so are those
 * that are computed on read, which a trigger's row does not have. What the
 * stream computes itself (generated and GENERATED ALWAYS AS IDENTITY columns)
 * is never given.
 *
 * The copy is an INSERT with the rights of whoever inserts into the table, in
 * the same transaction: its errors are that statement's errors. Its plan is
 * kept per trigger and stream until the definition of either table changes.
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/namespace.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "executor/spi.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/varlena.h"

#include "stream/registry.h"

typedef struct FeedKey
{
	Oid			trigger;
	Oid			stream;
} FeedKey;

typedef struct Feed
{
	FeedKey		key;			/* two Oids: no padding */
	Oid			table;
	bool		valid;
	int			running;		/* nested executions of the plan */
	SPIPlanPtr	plan;			/* NULL: to be made */
	int			nargs;
	AttrNumber *attnums;		/* of the table's columns that are copied */
} Feed;

StaticAssertDecl(sizeof(FeedKey) == 2 * sizeof(Oid), "hash key has padding");

static HTAB *feeds = NULL;

PG_FUNCTION_INFO_V1(aion_feed);

/* Relcache callback: plans over relid, or all, have to be made anew. */
static void
invalidate_feeds(Datum arg, Oid relid)
{
	HASH_SEQ_STATUS status;
	Feed	   *feed;

	hash_seq_init(&status, feeds);
	while ((feed = hash_seq_search(&status)) != NULL)
		if (!OidIsValid(relid) || feed->table == relid || feed->key.stream == relid)
			feed->valid = false;
}

/* Makes the table of plans. */
static void
feeds_init(void)
{
	HASHCTL		control = {0};

	control.keysize = sizeof(FeedKey);
	control.entrysize = sizeof(Feed);
	feeds = hash_create("aion feeds", 16, &control, HASH_ELEM | HASH_BLOBS);
	CacheRegisterRelcacheCallback(invalidate_feeds, (Datum) 0);
}

/*
 * Errors out unless the call is by an AFTER INSERT ... FOR EACH ROW trigger
 * with one argument.
 */
static void
check_call(FunctionCallInfo fcinfo)
{
	TriggerData *data = (TriggerData *) fcinfo->context;

	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function \"aion.feed\" was not called by a trigger"),
				 errhint("CREATE TRIGGER ... AFTER INSERT ON table FOR EACH ROW EXECUTE FUNCTION aion.feed('stream').")));
	if (!TRIGGER_FIRED_AFTER(data->tg_event) || !TRIGGER_FIRED_FOR_ROW(data->tg_event) ||
		!TRIGGER_FIRED_BY_INSERT(data->tg_event))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("trigger \"%s\" must be AFTER INSERT FOR EACH ROW to call \"aion.feed\"",
						data->tg_trigger->tgname)));
	if (data->tg_trigger->tgnargs != 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("trigger \"%s\" must give function \"aion.feed\" one argument, the name of a stream",
						data->tg_trigger->tgname)));
}

/*
 * The stream that the trigger names, found as any name is. One without a schema that is not found is
 * looked for in the table's: subscriptions apply rows with an empty search_path.
 */
static Oid
target_stream(TriggerData *data)
{
	const char *argument = data->tg_trigger->tgargs[0];
	RangeVar   *name = makeRangeVarFromNameList(textToQualifiedNameList(cstring_to_text(argument)));
	Oid			stream = RangeVarGetRelid(name, NoLock, true);

	if (!OidIsValid(stream) && name->schemaname == NULL)
		stream = get_relname_relid(name->relname, RelationGetNamespace(data->tg_relation));
	if (!OidIsValid(stream))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation \"%s\" does not exist", argument),
				 errdetail("Trigger \"%s\" of table \"%s\" copies rows to a stream of that name.",
						   data->tg_trigger->tgname, RelationGetRelationName(data->tg_relation)),
				 errhint("Drop the trigger, or create it again with the stream's name, in its schema if need be.")));
	(void) stream_lookup(stream, false);
	if (stream == RelationGetRelid(data->tg_relation))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("stream \"%s\" cannot feed itself", get_rel_name(stream))));
	return stream;
}

/* The table's column that goes into a column of the stream; NULL if none does. */
static Form_pg_attribute
source_column(TupleDesc table, Form_pg_attribute target)
{
	if (target->attisdropped || target->attgenerated != '\0' ||
		target->attidentity == ATTRIBUTE_IDENTITY_ALWAYS)
		return NULL;
	for (int i = 0; i < table->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(table, i);

		if (!att->attisdropped && !attribute_is_virtual(att) &&
			strcmp(NameStr(att->attname), NameStr(target->attname)) == 0)
			return att;
	}
	return NULL;
}

/* Makes the plan of a feed. SPI is connected. */
static void
prepare(Feed *feed, Relation table)
{
	Relation	stream = table_open(feed->key.stream, AccessShareLock);
	TupleDesc	desc = RelationGetDescr(stream);
	StringInfoData columns;
	StringInfoData params;
	Oid		   *types = palloc(Max(desc->natts, 1) * sizeof(Oid));
	AttrNumber *attnums = palloc(Max(desc->natts, 1) * sizeof(AttrNumber));
	int			n = 0;
	SPIPlanPtr	plan;

	initStringInfo(&columns);
	initStringInfo(&params);
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = source_column(RelationGetDescr(table), TupleDescAttr(desc, i));

		if (att == NULL)
			continue;
		types[n] = att->atttypid;
		attnums[n++] = att->attnum;
		appendStringInfo(&columns, "%s%s", n > 1 ? ", " : "",
						 quote_identifier(NameStr(att->attname)));
		appendStringInfo(&params, "%s$%d", n > 1 ? ", " : "", n);
	}
	if (n == 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("table \"%s\" and stream \"%s\" have no column in common",
						RelationGetRelationName(table), RelationGetRelationName(stream)),
				 errdetail("\"aion.feed\" copies columns by name.")));

	feed->table = RelationGetRelid(table);
	feed->valid = true;
	plan = SPI_prepare(psprintf("INSERT INTO %s (%s) VALUES (%s)",
								quote_qualified_identifier(get_namespace_name(RelationGetNamespace(stream)),
														   RelationGetRelationName(stream)),
								columns.data, params.data),
					   n, types);
	if (plan == NULL)
		elog(ERROR, "SPI_prepare failed: %s", SPI_result_code_string(SPI_result));
	table_close(stream, AccessShareLock);

	feed->attnums = MemoryContextAlloc(TopMemoryContext, n * sizeof(AttrNumber));
	memcpy(feed->attnums, attnums, n * sizeof(AttrNumber));
	feed->nargs = n;
	SPI_keepplan(plan);
	feed->plan = plan;
}

/*
 * The feed of this trigger, with a plan that fits. A plan that an outer call
 * is executing is left alone: it is current as of that statement, and is
 * replaced later.
 */
static Feed *
find_feed(TriggerData *data, Oid stream)
{
	FeedKey		key = {data->tg_trigger->tgoid, stream};
	Feed	   *feed;
	bool		found;

	if (feeds == NULL)
		feeds_init();
	feed = hash_search(feeds, &key, HASH_ENTER, &found);
	if (!found)
		memset((char *) feed + sizeof(FeedKey), 0, sizeof(Feed) - sizeof(FeedKey));

	if (feed->plan != NULL && !feed->valid && feed->running == 0)
	{
		SPI_freeplan(feed->plan);
		pfree(feed->attnums);
		feed->plan = NULL;
		feed->attnums = NULL;
	}
	if (feed->plan == NULL)
		prepare(feed, data->tg_relation);

	return feed;
}

/* Inserts the trigger's row. SPI is connected. */
static void
insert_row(Feed *feed, TupleTableSlot *slot)
{
	Datum	   *values = palloc(feed->nargs * sizeof(Datum));
	char	   *nulls = palloc(feed->nargs);
	int			result;

	for (int i = 0; i < feed->nargs; i++)
	{
		bool		isnull;

		values[i] = slot_getattr(slot, feed->attnums[i], &isnull);
		nulls[i] = isnull ? 'n' : ' ';
	}

	feed->running++;
	PG_TRY();
	{
		result = SPI_execute_plan(feed->plan, values, nulls, false, 0);
	}
	PG_FINALLY();
	{
		feed->running--;
	}
	PG_END_TRY();
	if (result != SPI_OK_INSERT)
		elog(ERROR, "SPI_execute_plan failed: %s", SPI_result_code_string(result));
}

/* aion.feed('stream'): trigger function. */
Datum
aion_feed(PG_FUNCTION_ARGS)
{
	TriggerData *data = (TriggerData *) fcinfo->context;
	Oid			stream;

	check_call(fcinfo);
	stream = target_stream(data);

	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	insert_row(find_feed(data, stream), data->tg_trigslot);
	if (SPI_finish() != SPI_OK_FINISH)
		elog(ERROR, "SPI_finish failed");

	return PointerGetDatum(NULL);
}
