/* SPDX-License-Identifier: Apache-2.0 */
/* Pieces of SQL of which the kinds of definitions (schema-classes.c) are made. */
#ifndef HOLD_SCHEMA_SQL_H
#define HOLD_SCHEMA_SQL_H

#define USERS "n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'"
#define RELATION "format('%I.%I', n.nspname, c.relname)"
#define OF_RELATION " JOIN pg_class c ON c.oid = "
#define OF_NAMESPACE(column) " JOIN pg_namespace n ON n.oid = " column
/* What an extension has brought along is the extension's. */
#define ITS_OWN(catalog, oid)                                                                                     \
	" AND NOT EXISTS (SELECT 1 FROM pg_depend e WHERE e.classid = '" catalog "'::regclass AND e.objid = " oid \
	" AND e.deptype = 'e')"
#define FIRST_OWN "16384" /* object ids below are the server's own */
/* A kind of which the diff lists the name alone. */
#define NAMED(table_name, members)                                                                      \
	{                                                                                               \
		.from = table_name " x WHERE true" ITS_OWN(table_name, "x.oid"), .catalog = table_name, \
		.key = "x.oid", .label = "pg_describe_object('" table_name "'::regclass, x.oid, 0)",    \
		.print = "concat(" WHOLE("x", "") members ")",                                          \
		.drop = "'DROP ' || pg_describe_object('" table_name "'::regclass, x.oid, 0)",          \
		.create = "'CREATE ' || pg_describe_object('" table_name "'::regclass, x.oid, 0)",      \
		.alter = "'ALTER ' || pg_describe_object('" table_name "'::regclass, x.oid, 0)",        \
	}
/* For kinds with very many objects: the version of an object is that of its catalog rows. Names of
 * other objects in its definition do not count: these objects have their own lines. */
#define ROW_VERSION(row) row ".ctid, " row ".xmin"
#define WHOLE(row, but) "md5((to_jsonb(" row ")" but ")::text)"

/* Identity since version 10, generated columns since 12. */
#define COLUMN                                                                                            \
	"format('%I %s', a.attname, format_type(a.atttypid, a.atttypmod)) || "                            \
	"CASE WHEN a.attidentity <> '' THEN ' GENERATED ' || CASE a.attidentity WHEN 'a' THEN 'ALWAYS' "  \
	"ELSE 'BY DEFAULT' END || ' AS IDENTITY' WHEN d.adbin IS NULL THEN '' "                           \
	"WHEN COALESCE(to_jsonb(a)->>'attgenerated', '') <> '' THEN ' GENERATED ALWAYS AS (' || "         \
	"pg_get_expr(d.adbin, d.adrelid) || CASE to_jsonb(a)->>'attgenerated' WHEN 'v' THEN ') VIRTUAL' " \
	"ELSE ') STORED' END ELSE ' DEFAULT ' || pg_get_expr(d.adbin, d.adrelid) END || "                 \
	"CASE WHEN a.attnotnull THEN ' NOT NULL' ELSE '' END"
#define ATTRIBUTES "pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum"
#define COLUMNS                                                                   \
	"(SELECT string_agg(" COLUMN ", ', ' ORDER BY a.attnum) FROM " ATTRIBUTES \
	" WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped)"
/* Since version 18 NOT NULL is a constraint with a name. If it is valid and inherited, the
 * definition of the column says all of it. */
#define IS_PLAIN_NOT_NULL "(k.contype = 'n' AND k.convalidated AND NOT k.connoinherit)"
#define CONSTRAINTS                                                                                                                        \
	"(SELECT string_agg(format('CONSTRAINT %I %s', k.conname, pg_get_constraintdef(k.oid)), ', ' ORDER BY k.contype DESC, k.conname) " \
	"FROM pg_constraint k WHERE k.conrelid = c.oid AND k.contype IN ('c', 'f', 'n', 'p', 'u', 'x') AND NOT " IS_PLAIN_NOT_NULL         \
	")"
#define PARENTS \
	"(SELECT string_agg(h.inhparent::regclass::text, ', ' ORDER BY h.inhseqno) FROM pg_inherits h WHERE h.inhrelid = c.oid)"
#define OWNER(column) "'owner', quote_ident(pg_get_userbyid(" column "))"
#define RELATION_FACTS                                               \
	OWNER("c.relowner")                                          \
	", 'privileges', c.relacl::text, 'privileges of its type', " \
	"(SELECT y.typacl::text FROM pg_type y WHERE y.oid = c.reltype)"
/* The sequence of an identity column belongs to the column. */
#define OF_IDENTITY \
	"e.classid = 'pg_class'::regclass AND e.objid = c.oid AND e.refclassid = 'pg_class'::regclass AND e.deptype = 'i'"
/* How a trigger or rule fires. */
#define FIRES(column)           \
	"'fires', CASE " column \
	" WHEN 'D' THEN 'never: disabled' WHEN 'R' THEN 'on a replica only' WHEN 'A' THEN 'always' END"
#define PARENT_NAMES                                                                                              \
	"(SELECT string_agg(format('%I.%I', q.nspname, m.relname), ', ' ORDER BY h.inhseqno) FROM pg_inherits h " \
	"JOIN pg_class m ON m.oid = h.inhparent JOIN pg_namespace q ON q.oid = m.relnamespace WHERE h.inhrelid = c.oid)"
#define TABLESPACE(column) "'tablespace', (SELECT quote_ident(b.spcname) FROM pg_tablespace b WHERE b.oid = " column ")"
#define TABLE_FACTS                                                                                                                                \
	RELATION_FACTS                                                                                                                             \
	", 'logging', CASE c.relpersistence WHEN 'u' THEN 'off: unlogged' END, 'options', c.reloptions::text, "                                    \
	"'row level security', CASE WHEN c.relrowsecurity THEN 'enabled' END, "                                                                    \
	"'row level security of the owner', CASE WHEN c.relforcerowsecurity THEN 'forced' END, "                                                   \
	"'replica identity', CASE c.relreplident WHEN 'f' THEN 'FULL' WHEN 'n' THEN 'NOTHING' WHEN 'i' THEN "                                      \
	"(SELECT 'USING INDEX ' || quote_ident(x.relname) FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid "                                \
	"WHERE i.indrelid = c.oid AND i.indisreplident) END, "                                                                                     \
	"'clustered on', (SELECT quote_ident(x.relname) FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid "                                  \
	"WHERE i.indrelid = c.oid AND i.indisclustered), " TABLESPACE(                                                                             \
		"c.reltablespace") ", 'access method', (SELECT quote_ident(m.amname) FROM pg_am m WHERE m.oid = c.relam AND m.amname <> 'heap'), " \
				   "'partition of', CASE WHEN c.relispartition THEN " PARENT_NAMES                                                 \
				   " END, 'inherits', CASE WHEN NOT c.relispartition THEN " PARENT_NAMES " END, "                                  \
				   "'of type', NULLIF(c.reloftype, 0)::regtype::text, "                                                            \
				   "'options of the TOAST table', (SELECT o.reloptions::text FROM pg_class o WHERE o.oid = c.reltoastrelid), "     \
				   "'foreign server', (SELECT concat_ws(' ', quote_ident(v.srvname), o.ftoptions::text) FROM pg_foreign_table o "  \
				   "JOIN pg_foreign_server v ON v.oid = o.ftserver WHERE o.ftrelid = c.oid), "                                     \
				   "'checks of foreign keys', (SELECT 'disabled' FROM pg_trigger g WHERE g.tgrelid = c.oid AND g.tgisinternal AND g.tgenabled = 'D' LIMIT 1)"
/* Facts of columns. The diff lists those of a view's columns with the view. Newer minor versions of
 * the server set the mark pg_attver themselves. */
#define OPTIONS_OF_COLUMN "(SELECT array_agg(o)::text FROM unnest(a.attoptions) o WHERE left(o, 10) <> 'pg_attver=')"
#define EACH_COLUMN(what)                                                                                \
	"(SELECT string_agg(concat(quote_ident(a.attname), ' ', " what "), ', ' ORDER BY a.attnum) "     \
	"FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND " what \
	" IS NOT NULL)"
#define STATISTICS_OF_COLUMN "NULLIF(to_jsonb(a)->>'attstattarget', '-1')"
#define STORAGE_OF_COLUMN                                                                                                    \
	"(SELECT CASE a.attstorage WHEN 'p' THEN 'PLAIN' WHEN 'e' THEN 'EXTERNAL' WHEN 'm' THEN 'MAIN' ELSE 'EXTENDED' END " \
	"FROM pg_type y WHERE y.oid = a.atttypid AND y.typstorage <> a.attstorage)"
#define COMPRESSION_OF_COLUMN "NULLIF(to_jsonb(a)->>'attcompression', '')"
/* Facts of an index, also of the index of a constraint. */
#define INDEX_FACTS(oid)                                                                                                                  \
	"'tablespace', (SELECT quote_ident(b.spcname) FROM pg_class x JOIN pg_tablespace b ON b.oid = x.reltablespace WHERE x.oid = " oid \
	"), "                                                                                                                             \
	"'partition of', (SELECT h.inhparent::regclass::text FROM pg_inherits h WHERE h.inhrelid = " oid "), "                            \
	"'statistics', (SELECT string_agg(concat('of column ', a.attnum, ': ', to_jsonb(a)->>'attstattarget'), ', ' ORDER BY a.attnum) "  \
	"FROM pg_attribute a WHERE a.attrelid = " oid " AND (to_jsonb(a)->>'attstattarget')::int >= 0)"
#define INDEX_OF_CONSTRAINT "CASE WHEN k.contype IN ('p', 'u', 'x') THEN k.conindid END"
#define INDEX_COLUMNS(oid) \
	"(SELECT string_agg(a.attname, ',' ORDER BY a.attnum) FROM pg_attribute a WHERE a.attrelid = " oid ")"

#endif
