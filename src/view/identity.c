/*
 * identity.c
 *	  Acting as a view's owner, under the settings that the view was made with.
 *
 * As REFRESH MATERIALIZED VIEW does: the owner's rights in a
 * security-restricted operation (no SET ROLE, no temporary tables, no deferred
 * triggers), search_path pinned.  Whatever the owner's code sets meanwhile is
 * undone with it.
 *
 * A setting may have become invalid: a text search configuration that was dropped, a
 * locale or time zone that this machine does not have.  A query must not be answered
 * under another one; results can be removed all the same.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/guc.h"

#include "view/view_internal.h"

/* Settings that can change what a query answers: kept as they were when the view was created. */
static const char *const kept_settings[] = {
	"TimeZone",
	"DateStyle",
	"IntervalStyle",
	"extra_float_digits",
	"bytea_output",
	"lc_monetary",
	"lc_numeric",
	"lc_time",
	"array_nulls",
	"default_text_search_config",
	"quote_all_identifiers",
	"xmlbinary",
	"xmloption"
};

/* The current values, as "name=value". Palloc'd list of char *. */
List *
view_current_settings(void)
{
	List	   *settings = NIL;

	for (int i = 0; i < lengthof(kept_settings); i++)
		settings = lappend(settings,
						   psprintf("%s=%s", kept_settings[i],
									GetConfigOption(kept_settings[i], false, false)));
	return settings;
}

/*
 * Sets a parameter until the current nest level of settings ends, unless it has that value. One that is
 * invalid is reported at "elevel", and left as it is if that is less than an error.
 */
static void
set_parameter(const char *name, const char *value, int elevel)
{
	const char *current = GetConfigOption(name, true, false);

	if (current == NULL || strcmp(current, value) != 0)
		(void) set_config_option(name, value, PGC_USERSET, PGC_S_SESSION,
								 GUC_ACTION_SAVE, true, elevel, false);
}

/* Applies one stored setting, if it is one of those that are kept. */
static void
apply_setting(const char *setting, int elevel)
{
	for (int i = 0; i < lengthof(kept_settings); i++)
	{
		Size		length = strlen(kept_settings[i]);

		if (strncmp(setting, kept_settings[i], length) == 0 && setting[length] == '=')
			set_parameter(kept_settings[i], setting + length + 1, elevel);
	}
}

/*
 * From here to view_become_self() the process acts as "owner", restricted, with
 * the settings given; invalid ones are reported at "elevel", and passed over if that is less
 * than an error. On an error the transaction's abort undoes all that.
 */
void
view_become_owner(OwnerContext *saved, Oid owner, List *settings, int elevel)
{
	ListCell   *lc;

	GetUserIdAndSecContext(&saved->userid, &saved->sec_context);
	SetUserIdAndSecContext(owner, saved->sec_context | SECURITY_RESTRICTED_OPERATION);
	saved->guc_level = NewGUCNestLevel();
	set_parameter("search_path", "pg_catalog, pg_temp", ERROR);
	foreach(lc, settings)
		apply_setting(lfirst(lc), elevel);
}

/* Undoes view_become_owner(). */
void
view_become_self(const OwnerContext *saved)
{
	AtEOXact_GUC(false, saved->guc_level);
	SetUserIdAndSecContext(saved->userid, saved->sec_context);
}
