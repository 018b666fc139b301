/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kinds of definitions, as queries of the server's catalogs. What tells two versions of one apart is taken from the catalogs as they are: the
 * functions that put a definition into words may wait for locks, so they are asked inside only, where nothing is locked against oneself.
 */
#include "hold/schema.h"

#define USERS "n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'"
#define RELATION "format('%I.%I', n.nspname, c.relname)"
#define OF_RELATION " JOIN pg_class c ON c.oid = "
#define OF_NAMESPACE(column) " JOIN pg_namespace n ON n.oid = " column
/* What an extension has brought along is the extension's. */
#define ITS_OWN(catalog, oid)                                                                                     \
	" AND NOT EXISTS (SELECT 1 FROM pg_depend e WHERE e.classid = '" catalog "'::regclass AND e.objid = " oid \
	" AND e.deptype = 'e')"
#define WHOLE(row, but) "md5((to_jsonb(" row ")" but ")::text)"

/* Identity since version 10, generated columns since 12. */
#define COLUMN                                                                                                                                   \
	"format('%I %s', a.attname, format_type(a.atttypid, a.atttypmod)) || "                                                                   \
	"CASE WHEN a.attidentity <> '' THEN ' GENERATED ' || CASE a.attidentity WHEN 'a' THEN 'ALWAYS' ELSE 'BY DEFAULT' END || ' AS IDENTITY' " \
	"WHEN d.adbin IS NULL THEN '' WHEN COALESCE(to_jsonb(a)->>'attgenerated', '') <> '' THEN ' GENERATED ALWAYS AS (' || "                   \
	"pg_get_expr(d.adbin, d.adrelid) || ') STORED' ELSE ' DEFAULT ' || pg_get_expr(d.adbin, d.adrelid) END || "                              \
	"CASE WHEN a.attnotnull THEN ' NOT NULL' ELSE '' END"
#define ATTRIBUTES "pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum"
#define COLUMNS                                                                   \
	"(SELECT string_agg(" COLUMN ", ', ' ORDER BY a.attnum) FROM " ATTRIBUTES \
	" WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped)"
#define CONSTRAINTS                                                                                                                        \
	"(SELECT string_agg(format('CONSTRAINT %I %s', k.conname, pg_get_constraintdef(k.oid)), ', ' ORDER BY k.contype DESC, k.conname) " \
	"FROM pg_constraint k WHERE k.conrelid = c.oid AND k.contype IN ('c', 'f', 'p', 'u', 'x'))"
#define PARENTS \
	"(SELECT string_agg(h.inhparent::regclass::text, ', ' ORDER BY h.inhseqno) FROM pg_inherits h WHERE h.inhrelid = c.oid)"
#define OPTIONS                                                                                                  \
	"concat_ws(', ', CASE c.relpersistence WHEN 'u' THEN 'unlogged' END, 'options ' || c.reloptions::text, " \
	"CASE WHEN c.relrowsecurity THEN 'row security' END, 'privileges ' || c.relacl::text)"

const struct schema_class schema_classes[] = {
	{
		.from = "pg_namespace n WHERE " USERS ITS_OWN("pg_namespace", "n.oid"),
		.key = "n.oid",
		.label = "format('%I', n.nspname)",
		.print = WHOLE("n", ""),
		.drop = "'DROP SCHEMA ' || quote_ident(n.nspname)",
		.create = "'CREATE SCHEMA ' || quote_ident(n.nspname)",
		.alter = "concat('ALTER SCHEMA ', quote_ident(n.nspname), ': privileges ' || n.nspacl::text)",
	},
	{
		.from = "pg_extension x",
		.key = "x.oid",
		.label = "format('%I', x.extname)",
		.print = WHOLE("x", ""),
		.drop = "'DROP EXTENSION ' || quote_ident(x.extname)",
		.create = "format('CREATE EXTENSION %I VERSION %L', x.extname, x.extversion)",
		.alter = "format('ALTER EXTENSION %I UPDATE TO %L', x.extname, x.extversion)",
	},
	{
		.from = "pg_type t" OF_NAMESPACE(
			"t.typnamespace") " WHERE t.typtype IN ('e', 'd') AND " USERS ITS_OWN("pg_type", "t.oid"),
		.key = "t.oid",
		.label = "format('%I.%I', n.nspname, t.typname)",
		.print = "concat(" WHOLE(
			"t",
			"") ", (SELECT string_agg(e.enumlabel, ',' ORDER BY e.enumsortorder) FROM pg_enum e WHERE e.enumtypid = t.oid), "
			    "(SELECT md5(string_agg(k::text, ',' ORDER BY k.oid)) FROM pg_constraint k WHERE k.contypid = t.oid))",
		.drop = "format('DROP %s %I.%I', CASE t.typtype WHEN 'd' THEN 'DOMAIN' ELSE 'TYPE' END, n.nspname, t.typname)",
		.create =
			"CASE t.typtype WHEN 'd' THEN format('CREATE DOMAIN %I.%I AS %s', n.nspname, t.typname, format_type(t.typbasetype, t.typtypmod)) || "
			"CASE WHEN t.typnotnull THEN ' NOT NULL' ELSE '' END || COALESCE(' DEFAULT ' || t.typdefault, '') || "
			"COALESCE((SELECT string_agg(format(' CONSTRAINT %I %s', k.conname, pg_get_constraintdef(k.oid)), '' ORDER BY k.conname) "
			"FROM pg_constraint k WHERE k.contypid = t.oid AND k.contype = 'c'), '') "
			"ELSE format('CREATE TYPE %I.%I AS ENUM (%s)', n.nspname, t.typname, (SELECT string_agg(quote_literal(e.enumlabel), ', ' "
			"ORDER BY e.enumsortorder) FROM pg_enum e WHERE e.enumtypid = t.oid)) END",
	},
	{
		.from = "pg_class c" OF_NAMESPACE(
			"c.relnamespace") " WHERE c.relkind = 'c' AND " USERS ITS_OWN("pg_class", "c.oid"),
		.key = "c.oid",
		.label = RELATION,
		.print =
			"(SELECT string_agg(format('%s %s', a.attname, format_type(a.atttypid, a.atttypmod)), ',' ORDER BY a.attnum) "
			"FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped)",
		.drop = "'DROP TYPE ' || " RELATION,
		.create = "concat('CREATE TYPE ', " RELATION ", ' AS (', " COLUMNS ", ')')",
	},
	{
		.from = "pg_class c" OF_NAMESPACE(
			"c.relnamespace") " WHERE c.relkind IN ('r', 'p', 'f') AND " USERS ITS_OWN("pg_class", "c.oid"),
		.key = "c.oid",
		.is_relation = true,
		.label = RELATION,
		.print =
			"concat_ws(' ', n.nspname, c.relname, c.relowner, c.relpersistence, c.reloptions, c.relrowsecurity, c.relforcerowsecurity, "
			"c.relreplident, c.relacl, md5(c.relpartbound::text))",
		.drop = "'DROP TABLE ' || " RELATION,
		.create =
			"concat('CREATE ', CASE c.relpersistence WHEN 'u' THEN 'UNLOGGED ' END, CASE c.relkind WHEN 'f' THEN 'FOREIGN ' END, 'TABLE ', " RELATION
			", CASE WHEN c.relispartition THEN concat(' PARTITION OF ', " PARENTS
			", ' ', pg_get_expr(c.relpartbound, c.oid)) "
			"ELSE concat(' (', concat_ws(', ', " COLUMNS ", " CONSTRAINTS
			"), ')', ' INHERITS (' || " PARENTS " || ')') END, "
			"CASE c.relkind WHEN 'p' THEN ' PARTITION BY ' || pg_get_partkeydef(c.oid) END)",
		.alter = "concat('ALTER TABLE ', " RELATION ", ': now ', " OPTIONS ")",
	},
	{
		.from = ATTRIBUTES OF_RELATION "a.attrelid" OF_NAMESPACE(
			"c.relnamespace") " WHERE c.relkind IN ('r', 'p', 'f') AND a.attnum > 0 AND NOT a.attisdropped AND " USERS
			ITS_OWN("pg_class", "c.oid"),
		.key = "concat(a.attrelid, '.', a.attnum)",
		.parent = "a.attrelid",
		.with_parent = true,
		.label = RELATION " || format('.%I', a.attname)",
		.print =
			"concat_ws(' ', a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attidentity, to_jsonb(a)->>'attgenerated', "
			"a.attcollation, a.attacl, a.attoptions, md5(d.adbin::text))",
		.drop = "format('ALTER TABLE %I.%I DROP COLUMN %I', n.nspname, c.relname, a.attname)",
		.create = "concat('ALTER TABLE ', " RELATION ", ' ADD COLUMN ', " COLUMN ")",
		.alter =
			"format('ALTER TABLE %I.%I ALTER COLUMN %I TYPE %s, ALTER COLUMN %I %s NOT NULL', n.nspname, c.relname, a.attname, "
			"format_type(a.atttypid, a.atttypmod), a.attname, CASE WHEN a.attnotnull THEN 'SET' ELSE 'DROP' END) || "
			"CASE WHEN a.attidentity <> '' OR COALESCE(to_jsonb(a)->>'attgenerated', '') <> '' THEN '' ELSE format(', ALTER COLUMN %I ', a.attname) || "
			"COALESCE('SET DEFAULT ' || pg_get_expr(d.adbin, d.adrelid), 'DROP DEFAULT') END || COALESCE(': privileges ' || a.attacl::text, '')",
	},
	{
		.from = "pg_constraint k" OF_RELATION "k.conrelid" OF_NAMESPACE(
			"c.relnamespace") " WHERE k.contype IN ('c', 'f', 'p', 'u', 'x') AND " USERS,
		.key = "k.oid",
		.parent = "k.conrelid",
		.with_parent = true,
		.label = "format('%I ON ', k.conname) || " RELATION,
		.print = WHOLE("k", " - 'conindid'"),
		.drop = "format('ALTER TABLE %I.%I DROP CONSTRAINT %I', n.nspname, c.relname, k.conname)",
		.create =
			"format('ALTER TABLE %I.%I ADD CONSTRAINT %I %s', n.nspname, c.relname, k.conname, pg_get_constraintdef(k.oid))",
	},
	{
		.from = "pg_index i" OF_RELATION "i.indexrelid" OF_NAMESPACE(
			"c.relnamespace") " WHERE NOT EXISTS (SELECT 1 FROM pg_constraint k WHERE k.conindid = i.indexrelid AND k.contype IN ('p', 'u', 'x')) AND " USERS,
		.key = "i.indexrelid",
		.parent = "i.indrelid",
		.label = RELATION,
		.print = "concat_ws(' ', c.relname, c.reloptions, " WHOLE("i",
									  " - 'indcheckxmin' - 'indisclustered'") ")",
		.drop = "'DROP INDEX ' || " RELATION,
		.create = "pg_get_indexdef(i.indexrelid)",
	},
	{
		.from = "pg_sequence s" OF_RELATION "s.seqrelid" OF_NAMESPACE(
			"c.relnamespace") " WHERE NOT EXISTS (SELECT 1 FROM pg_depend e WHERE e.classid = 'pg_class'::regclass AND e.objid = c.oid AND e.deptype IN ('e', 'i')) AND " USERS,
		.key = "c.oid",
		.label = RELATION,
		.print = "concat_ws(' ', n.nspname, c.relname, c.relacl, " WHOLE("s", "") ")",
		.drop = "'DROP SEQUENCE ' || " RELATION,
		.create =
			"format('CREATE SEQUENCE %I.%I AS %s INCREMENT BY %s MINVALUE %s MAXVALUE %s START WITH %s CACHE %s%s', n.nspname, c.relname, "
			"format_type(s.seqtypid, NULL), s.seqincrement, s.seqmin, s.seqmax, s.seqstart, s.seqcache, CASE WHEN s.seqcycle THEN ' CYCLE' ELSE '' END)",
		.alter =
			"format('ALTER SEQUENCE %I.%I AS %s INCREMENT BY %s MINVALUE %s MAXVALUE %s START WITH %s CACHE %s %s', n.nspname, c.relname, "
			"format_type(s.seqtypid, NULL), s.seqincrement, s.seqmin, s.seqmax, s.seqstart, s.seqcache, CASE WHEN s.seqcycle THEN 'CYCLE' ELSE 'NO CYCLE' END)",
	},
	{
		.from = "pg_class c" OF_NAMESPACE(
			"c.relnamespace") " WHERE c.relkind IN ('v', 'm') AND " USERS ITS_OWN("pg_class", "c.oid"),
		.key = "c.oid",
		.is_relation = true,
		.label = RELATION,
		.print =
			"concat_ws(' ', n.nspname, c.relname, c.reloptions, c.relacl, (SELECT md5(w.ev_action::text) FROM pg_rewrite w "
			"WHERE w.ev_class = c.oid AND w.rulename = '_RETURN'))",
		.drop = "format('DROP %sVIEW ', CASE c.relkind WHEN 'm' THEN 'MATERIALIZED ' END) || " RELATION,
		.create = "format('CREATE %sVIEW ', CASE c.relkind WHEN 'm' THEN 'MATERIALIZED ' END) || " RELATION
			  " || ' AS ' || pg_get_viewdef(c.oid)",
		.alter =
			"format('CREATE OR REPLACE %sVIEW ', CASE c.relkind WHEN 'm' THEN 'MATERIALIZED ' END) || " RELATION
			" || ' AS ' || pg_get_viewdef(c.oid)",
	},
	{
		.from = "pg_proc p" OF_NAMESPACE("p.pronamespace") " WHERE " USERS ITS_OWN("pg_proc", "p.oid"),
		.key = "p.oid",
		.label = "format('%I.%I(%s)', n.nspname, p.proname, pg_get_function_identity_arguments(p.oid))",
		.print = WHOLE("p", ""),
		.drop = "format('DROP ROUTINE %I.%I(%s)', n.nspname, p.proname, pg_get_function_identity_arguments(p.oid))",
		.create =
			"CASE WHEN 'a' = to_jsonb(p)->>'prokind' OR 'true' = to_jsonb(p)->>'proisagg' THEN format('CREATE AGGREGATE %I.%I(%s)', n.nspname, "
			"p.proname, pg_get_function_identity_arguments(p.oid)) ELSE pg_get_functiondef(p.oid) END",
	},
	{
		.from = "pg_trigger g" OF_RELATION
			"g.tgrelid" OF_NAMESPACE("c.relnamespace") " WHERE NOT g.tgisinternal AND " USERS,
		.key = "g.oid",
		.parent = "g.tgrelid",
		.label = "format('%I ON ', g.tgname) || " RELATION,
		.print = WHOLE("g", ""),
		.drop = "format('DROP TRIGGER %I ON %I.%I', g.tgname, n.nspname, c.relname)",
		.create = "pg_get_triggerdef(g.oid)",
	},
	{
		.from = "pg_rewrite w" OF_RELATION
			"w.ev_class" OF_NAMESPACE("c.relnamespace") " WHERE w.rulename <> '_RETURN' AND " USERS,
		.key = "w.oid",
		.parent = "w.ev_class",
		.label = "format('%I ON ', w.rulename) || " RELATION,
		.print = WHOLE("w", ""),
		.drop = "format('DROP RULE %I ON %I.%I', w.rulename, n.nspname, c.relname)",
		.create = "pg_get_ruledef(w.oid)",
	},
	{
		.from = "pg_policy y" OF_RELATION "y.polrelid" OF_NAMESPACE("c.relnamespace") " WHERE " USERS,
		.key = "y.oid",
		.parent = "y.polrelid",
		.label = "format('%I ON ', y.polname) || " RELATION,
		.print = WHOLE("y", ""),
		.drop = "format('DROP POLICY %I ON %I.%I', y.polname, n.nspname, c.relname)",
		.create =
			"concat(format('CREATE POLICY %I ON %I.%I', y.polname, n.nspname, c.relname), ' USING (' || pg_get_expr(y.polqual, y.polrelid) || ')', "
			"' WITH CHECK (' || pg_get_expr(y.polwithcheck, y.polrelid) || ')')",
	},
};
const size_t schema_classes_count = sizeof schema_classes / sizeof *schema_classes;
