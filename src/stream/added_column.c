/*
 * added_column.c
 *	  ADD COLUMN on a stream that holds events.
 *
 * Packed events are never rewritten. Those from before the column show what
 * its default was when it came: the expression is evaluated once, and its
 * value recorded as text in aion.added_column, in the transaction that adds
 * the column; it is read by stored_columns.c. What would need a value of its
 * own for each event (a volatile default, identity, a stored generated column)
 * is refused.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "executor/spi.h"
#include "nodes/makefuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parse_coerce.h"
#include "rewrite/rewriteHandler.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/typcache.h"

#include "stream/extension.h"
#include "stream/registry.h"

/* Refuses the column. */
static void
refuse_column(Relation rel, Form_pg_attribute att, const char *detail, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("cannot add column \"%s\" to stream \"%s\", which holds events",
					NameStr(att->attname), RelationGetRelationName(rel)),
			 errdetail("%s", detail),
			 errhint("%s", hint)));
}

/* The column's default as an expression; NULL if it is plainly NULL. */
static Node *
default_expression(Relation rel, Form_pg_attribute att)
{
	Node	   *expr;

	if (att->attidentity != '\0')
		refuse_column(rel, att, "Stored events have no identity value.",
					  "TRUNCATE the stream first.");
	if (att->attgenerated != '\0')
		refuse_column(rel, att, "Stored events have no value for a stored generated column.",
					  "TRUNCATE the stream first, or compute the value in queries.");

	expr = build_column_default(rel, att->attnum);
	if (expr == NULL && DomainHasConstraints(att->atttypid))
	{
		int32		typmod = att->atttypmod;
		Oid			base = getBaseTypeAndTypmod(att->atttypid, &typmod);

		expr = (Node *) makeNullConst(base, typmod, att->attcollation);
		expr = coerce_to_domain(expr, base, typmod, att->atttypid, COERCION_IMPLICIT,
								COERCE_IMPLICIT_CAST, -1, false);
	}
	if (expr == NULL)
		return NULL;

	expr = (Node *) expression_planner((Expr *) expr);
	if (contain_volatile_functions(expr))
		refuse_column(rel, att, "Its default is volatile: each stored event would have a value of its own.",
					  "Add the column without a default, then set the default for later events.");
	return expr;
}

/* Text form of the default's value of this moment; NULL for NULL. Runs the default. */
static char *
evaluate_default(Form_pg_attribute att, Node *expr)
{
	EState	   *estate = CreateExecutorState();
	ExprState  *state = ExecPrepareExpr((Expr *) expr, estate);
	bool		isnull;
	Datum		value;
	char	   *result = NULL;

	value = ExecEvalExpr(state, GetPerTupleExprContext(estate), &isnull);
	if (!isnull)
	{
		Oid			output;
		bool		varlena;
		int			level = extension_pin_output();

		getTypeOutputInfo(att->atttypid, &output, &varlena);
		result = OidOutputFunctionCall(output, value);
		AtEOXact_GUC(false, level);
	}
	FreeExecutorState(estate);

	return result;
}

/*
 * Records what stored events show for column "attnum" of the stream "rel",
 * just added, the "position"-th of those that are stored. The caller holds
 * AccessExclusiveLock on it. Errors out if the column can't be added.
 */
void
added_column_record(Relation rel, AttrNumber attnum, int position)
{
	Form_pg_attribute att = TupleDescAttr(RelationGetDescr(rel), attnum - 1);
	Node	   *expr = default_expression(rel, att);
	char	   *value = expr == NULL ? NULL : evaluate_default(att, expr);
	Oid			types[] = {REGCLASSOID, INT4OID, TEXTOID};
	Datum		values[3];
	char		nulls[] = {' ', ' ', value == NULL ? 'n' : ' '};
	ExtensionSave save;

	values[0] = ObjectIdGetDatum(RelationGetRelid(rel));
	values[1] = Int32GetDatum(position);
	values[2] = value == NULL ? (Datum) 0 : CStringGetTextDatum(value);

	extension_begin(&save);
	if (SPI_execute_with_args("INSERT INTO aion.added_column (stream, position, value)"
							  " VALUES ($1, $2, $3)",
							  3, types, values, nulls, false, 0) != SPI_OK_INSERT)
		elog(ERROR, "could not record a column of stream %u", RelationGetRelid(rel));
	extension_end(&save);

	/* The stream's cached definition lacks it. */
	CacheInvalidateRelcacheByRelid(RelationGetRelid(rel));
}
