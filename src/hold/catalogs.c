/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Catalogs of the server in which the transaction has changed something that no kind of definition (schema-classes.c) shows: told by the
 * catalog's name, so that nothing lands unnamed.
 *
 * The server's counters say which catalogs the transaction has written to. What was rolled back to a savepoint counts there too, so
 * such a catalog is compared as a whole with what everybody else sees; one that this role may not read is named by the counters alone.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "hold/inside.h"

#define TRIES 3
#define OF_SERVER "x.oid < 16384"

/* Catalogs whose rows are compared as definitions, or follow from these; statistics; and large objects, which are not listed. */
static const char known[] =
	"'pg_aggregate', 'pg_am', 'pg_amop', 'pg_amproc', 'pg_attrdef', 'pg_auth_members', 'pg_constraint', 'pg_conversion', 'pg_database', "
	"'pg_db_role_setting', 'pg_default_acl', 'pg_depend', 'pg_enum', 'pg_event_trigger', 'pg_extension', 'pg_foreign_server', "
	"'pg_foreign_table', 'pg_index', 'pg_inherits', 'pg_init_privs', 'pg_language', 'pg_largeobject', 'pg_largeobject_metadata', 'pg_opclass', "
	"'pg_opfamily', 'pg_partitioned_table', 'pg_policy', 'pg_publication', 'pg_publication_rel', 'pg_range', 'pg_rewrite', 'pg_sequence', "
	"'pg_shdepend', 'pg_shdescription', 'pg_statistic', 'pg_statistic_ext', 'pg_statistic_ext_data', 'pg_tablespace', 'pg_transform', "
	"'pg_trigger', 'pg_ts_config_map', 'pg_ts_dict', 'pg_ts_parser', 'pg_ts_template', 'pg_user_mapping'";

/* Catalogs of which some rows only are compared as definitions: what tells the other rows apart. */
static const struct rest {
	const char *catalog, *text, *where;
} rests[] = {
	{ "pg_attribute", "concat_ws(' ', x.attrelid, x.attnum, x.attacl)", "x.attrelid < 16384" },
	{ "pg_authid", "''", "false" }, /* all is compared where it can be read */
	{ "pg_cast", "x::text", OF_SERVER },
	{ "pg_class", "concat_ws(' ', x.oid, x.relowner, x.relacl, x.reloptions)", OF_SERVER },
	{ "pg_collation", "x::text", "x.collnamespace = 'pg_catalog'::regnamespace" },
	{ "pg_description", "x::text", "x.objoid < 16384 AND x.classoid <> 'pg_namespace'::regclass" },
	{ "pg_foreign_data_wrapper", "x::text", OF_SERVER },
	{ "pg_namespace", "x::text", "x.nspname IN ('pg_catalog', 'pg_toast', 'information_schema')" },
	{ "pg_operator", "x::text", OF_SERVER },
	{ "pg_proc", "x::text", OF_SERVER },
	{ "pg_ts_config", "x::text", OF_SERVER },
	{ "pg_type", "x::text", OF_SERVER },
};

static char *comparison(const char *catalog)
{
	struct rest all = { catalog, "x::text", "true" };

	for (size_t i = 0; i < ARRAY_SIZE(rests); i++)
		if (strcmp(rests[i].catalog, catalog) == 0)
			all = rests[i];
	return str_format(
		"SELECT md5(string_agg(q.h, '' ORDER BY q.h)) FROM (SELECT md5(%s) AS h FROM %s x WHERE %s) q",
		all.text, catalog, all.where);
}

static bool is_same(const struct table *a, const struct table *b)
{
	const char *x = a->n_rows == 1 ? table_value(a, 0, 0) : NULL;
	const char *y = b->n_rows == 1 ? table_value(b, 0, 0) : NULL;

	return strcmp(x ? x : "", y ? y : "") == 0;
}

/* *ret_sure: it is not others who change it just now. */
static int compare(struct sides *s, const char *catalog, bool *ret_differs, bool *ret_sure, struct atoll_error *err)
{
	AUTO_FREE char *sql = comparison(catalog);
	int r = sql ? 0 : error_oom(err, "diff");

	*ret_sure = false;
	for (int i = 0; r >= 0 && i < TRIES && !*ret_sure; i++) {
		AUTO_TABLE before = { 0 };
		AUTO_TABLE inside = { 0 };
		AUTO_TABLE after = { 0 };

		r = sides_ask(s, false, sql, &before, err);
		if (r >= 0)
			r = sides_ask(s, true, sql, &inside, err);
		if (r >= 0)
			r = sides_ask(s, false, sql, &after, err);
		*ret_differs = !is_same(&before, &inside);
		*ret_sure = is_same(&before, &after);
	}
	return r;
}

static void print_one(const char *catalog, const char *note)
{
	AUTO_STRBUF label = STRBUF_INIT;

	strbuf_addf(&label, "catalog %s", catalog);
	putchar('o');
	output_field(stdout, strbuf_str(&label));
	output_field(stdout, note);
}

int catalogs_print(struct sides *s, struct atoll_error *err)
{
	AUTO_TABLE found = { 0 };
	AUTO_FREE char *sql = str_format(
		"SELECT quote_ident(relname), has_table_privilege(relid, 'SELECT') FROM pg_stat_xact_sys_tables WHERE schemaname = 'pg_catalog' "
		"AND n_tup_ins + n_tup_upd + n_tup_del > 0 AND relname NOT IN (%s) ORDER BY 1",
		known);
	int r = sql ? sides_ask(s, true, sql, &found, err) : error_oom(err, "diff");

	for (size_t i = 0; r >= 0 && i < found.n_rows; i++) {
		const char *catalog = table_value(&found, i, 0);
		bool readable = *table_value(&found, i, 1) == 't', differs = true, sure = false;

		if (readable)
			r = compare(s, catalog, &differs, &sure, err);
		if (r >= 0 && differs)
			print_one(catalog, sure ? "something that is not listed was changed in it"
						: "something that is not listed may have been changed in it");
	}
	return r;
}
