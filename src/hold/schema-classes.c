/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kinds of definitions, as queries of the server's catalogs. What tells two versions of one apart is taken from the catalogs as they are: the
 * functions that put a definition into words may wait for locks, so they are asked inside only, where nothing is locked against oneself.
 */
#include "hold/schema-sql.h"
#include "hold/schema.h"

const struct schema_class schema_classes[] = {
	{
		.from = "pg_namespace n WHERE " USERS ITS_OWN("pg_namespace", "n.oid"),
		.catalog = "pg_namespace",
		.key = "n.oid",
		.label = "format('%I', n.nspname)",
		.print = "n.nspname::text",
		.facts = OWNER("n.nspowner") ", 'privileges', n.nspacl::text",
		.drop = "'DROP SCHEMA ' || quote_ident(n.nspname)",
		.create = "'CREATE SCHEMA ' || quote_ident(n.nspname)",
		.alter = "'ALTER SCHEMA ' || quote_ident(n.nspname)",
	},
	{
		.from = "pg_extension x",
		.key = "x.oid",
		.is_parent = true,
		.label = "format('%I', x.extname)",
		.print = "concat_ws(' ', x.extname, x.extversion)",
		.facts = OWNER(
			"x.extowner") ", 'schema', (SELECT quote_ident(n.nspname) FROM pg_namespace n WHERE n.oid = x.extnamespace), "
				      "'configuration tables', x.extconfig::text",
		.drop = "'DROP EXTENSION ' || quote_ident(x.extname)",
		.create = "format('CREATE EXTENSION %I VERSION %L', x.extname, x.extversion)",
		.alter = "format('ALTER EXTENSION %I UPDATE TO %L', x.extname, x.extversion)",
	},
	{
		.from = "pg_type t" OF_NAMESPACE(
			"t.typnamespace") " WHERE t.typtype IN ('e', 'd') AND " USERS ITS_OWN("pg_type", "t.oid"),
		.catalog = "pg_type",
		.key = "t.oid",
		.label = "format('%I.%I', n.nspname, t.typname)",
		.facts = OWNER("t.typowner") ", 'privileges', t.typacl::text",
		.print = "concat(" WHOLE(
			"t",
			" - 'typowner' - 'typacl'") ", (SELECT string_agg(e.enumlabel, ',' ORDER BY e.enumsortorder) FROM pg_enum e WHERE e.enumtypid = t.oid), "
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
		.catalog = "pg_class",
		.key = "c.oid",
		.label = RELATION,
		.print =
			"concat_ws(' ', n.nspname, c.relname, (SELECT string_agg(concat_ws(' ', a.attname, format_type(a.atttypid, a.atttypmod), a.attcollation), ',' "
			"ORDER BY a.attnum) FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped))",
		.facts = RELATION_FACTS,
		.drop = "'DROP TYPE ' || " RELATION,
		.create = "concat('CREATE TYPE ', " RELATION ", ' AS (', " COLUMNS ", ')')",
	},
	{
		.from = "pg_class c" OF_NAMESPACE(
			"c.relnamespace") " WHERE c.relkind IN ('r', 'p', 'f') AND " USERS ITS_OWN("pg_class", "c.oid"),
		.catalog = "pg_class",
		.key = "c.oid",
		.is_parent = true,
		.label = RELATION,
		.print = "concat_ws(' ', n.nspname, c.relname, md5(c.relpartbound::text))",
		.facts = TABLE_FACTS,
		.drop = "'DROP TABLE ' || " RELATION,
		.create =
			"concat('CREATE ', CASE c.relpersistence WHEN 'u' THEN 'UNLOGGED ' END, CASE c.relkind WHEN 'f' THEN 'FOREIGN ' END, 'TABLE ', " RELATION
			", CASE WHEN c.relispartition THEN concat(' PARTITION OF ', " PARENTS
			", ' ', pg_get_expr(c.relpartbound, c.oid)) "
			"ELSE concat(' (', concat_ws(', ', " COLUMNS ", " CONSTRAINTS
			"), ')', ' INHERITS (' || " PARENTS " || ')') END, "
			"CASE c.relkind WHEN 'p' THEN ' PARTITION BY ' || pg_get_partkeydef(c.oid) END)",
		.alter =
			"concat('ALTER TABLE ', " RELATION
			", CASE WHEN c.relispartition THEN ' ATTACH PARTITION ' || pg_get_expr(c.relpartbound, c.oid) END)",
	},
	{
		.from = ATTRIBUTES OF_RELATION "a.attrelid" OF_NAMESPACE(
			"c.relnamespace") " WHERE c.relkind IN ('r', 'p', 'f') AND a.attnum > 0 AND NOT a.attisdropped AND " USERS
			ITS_OWN("pg_class", "c.oid"),
		.key = "concat(a.attrelid, '.', a.attnum)",
		.is_parent = true,
		.parent = "a.attrelid",
		.with_parent = true,
		.label = RELATION " || format('.%I', a.attname)",
		.version = "concat_ws(' ', " ROW_VERSION("a") ", " ROW_VERSION("d") ")",
		.print =
			"concat_ws(' ', a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attidentity, to_jsonb(a)->>'attgenerated', "
			"md5(d.adbin::text))",
		.facts =
			"'privileges', a.attacl::text, "
			"'generated', CASE to_jsonb(a)->>'attgenerated' WHEN 's' THEN 'stored' WHEN 'v' THEN 'virtual' END, "
			"'identity', CASE a.attidentity WHEN 'a' THEN 'ALWAYS' WHEN 'd' THEN 'BY DEFAULT' END, "
			"'options', " OPTIONS_OF_COLUMN ", "
			"'collation', (SELECT quote_ident(o.collname) FROM pg_collation o, pg_type y WHERE o.oid = a.attcollation "
			"AND y.oid = a.atttypid AND y.typcollation <> a.attcollation), "
			"'storage', " STORAGE_OF_COLUMN ", "
			"'foreign options', a.attfdwoptions::text, 'compression', " COMPRESSION_OF_COLUMN
			", 'statistics', " STATISTICS_OF_COLUMN,
		.drop = "format('ALTER TABLE %I.%I DROP COLUMN %I', n.nspname, c.relname, a.attname)",
		.create = "concat('ALTER TABLE ', " RELATION ", ' ADD COLUMN ', " COLUMN ")",
		.alter =
			"format('ALTER TABLE %I.%I ALTER COLUMN %I TYPE %s, ALTER COLUMN %I %s NOT NULL', n.nspname, c.relname, a.attname, "
			"format_type(a.atttypid, a.atttypmod), a.attname, CASE WHEN a.attnotnull THEN 'SET' ELSE 'DROP' END) || "
			"CASE WHEN a.attidentity <> '' THEN format(', ALTER COLUMN %I SET GENERATED %s', a.attname, "
			"CASE a.attidentity WHEN 'a' THEN 'ALWAYS' ELSE 'BY DEFAULT' END) "
			"WHEN COALESCE(to_jsonb(a)->>'attgenerated', '') <> '' THEN "
			"format(', ALTER COLUMN %I SET EXPRESSION AS (%s)', a.attname, pg_get_expr(d.adbin, d.adrelid)) "
			"ELSE format(', ALTER COLUMN %I ', a.attname) || "
			"COALESCE('SET DEFAULT ' || pg_get_expr(d.adbin, d.adrelid), 'DROP DEFAULT') END",
	},
	{
		.from = "pg_constraint k" OF_RELATION "k.conrelid" OF_NAMESPACE(
			"c.relnamespace") " WHERE k.contype IN ('c', 'f', 'n', 'p', 'u', 'x') AND " USERS,
		.key = "k.oid",
		.parent = "concat(k.conrelid, CASE WHEN " IS_PLAIN_NOT_NULL " THEN '.' || k.conkey[1] END)",
		.with_parent = true,
		.label = "format('%I ON ', k.conname) || " RELATION,
		.version = "concat_ws(' ', " ROW_VERSION("k") ", (SELECT concat_ws(' ', " ROW_VERSION(
			"x") ") FROM pg_class x WHERE x.oid = " INDEX_OF_CONSTRAINT "), "
			     "(SELECT concat_ws(' ', " ROW_VERSION(
				     "h") ") FROM pg_inherits h WHERE h.inhrelid = " INDEX_OF_CONSTRAINT "), "
					  "(SELECT string_agg(concat_ws(' ', " ROW_VERSION(
						  "a") "), ',' ORDER BY a.attnum) FROM pg_attribute a WHERE a.attrelid = " INDEX_OF_CONSTRAINT
						       "))",
		.print = "concat_ws(' ', " WHOLE("k", " - 'conindid'") ", " INDEX_COLUMNS(INDEX_OF_CONSTRAINT) ")",
		.facts = "'options', (SELECT x.reloptions::text FROM pg_class x WHERE x.oid = " INDEX_OF_CONSTRAINT
			 "), " INDEX_FACTS(INDEX_OF_CONSTRAINT),
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
		.print = "concat_ws(' ', n.nspname, c.relname, c.reloptions, " INDEX_COLUMNS(
			"c.oid") ", " WHOLE("i", " - 'indcheckxmin' - 'indisclustered'") ")",
		.facts = INDEX_FACTS("c.oid"),
		.drop = "'DROP INDEX ' || " RELATION,
		.create = "pg_get_indexdef(i.indexrelid)",
	},
	{
		.from = "pg_sequence s" OF_RELATION
			"s.seqrelid" OF_NAMESPACE("c.relnamespace") " WHERE " USERS ITS_OWN("pg_class", "c.oid"),
		.catalog = "pg_class",
		.key = "c.oid",
		.parent = "(SELECT concat(e.refobjid, '.', e.refobjsubid) FROM pg_depend e WHERE " OF_IDENTITY ")",
		.with_parent = true,
		.label = RELATION,
		.print = "concat_ws(' ', n.nspname, c.relname, " WHOLE("s", "") ")",
		.facts = RELATION_FACTS
		", 'logging', CASE c.relpersistence WHEN 'u' THEN 'off: unlogged' END, 'owned by', (SELECT format('%I.%I.%I', q.nspname, m.relname, a.attname) FROM pg_depend e JOIN pg_class m ON m.oid = e.refobjid "
		"JOIN pg_namespace q ON q.oid = m.relnamespace JOIN pg_attribute a ON a.attrelid = m.oid AND a.attnum = e.refobjsubid "
		"WHERE e.classid = 'pg_class'::regclass AND e.objid = c.oid AND e.refclassid = 'pg_class'::regclass AND e.deptype = 'a')",
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
		.catalog = "pg_class",
		.key = "c.oid",
		.is_parent = true,
		.label = RELATION,
		.print =
			"concat_ws(' ', n.nspname, c.relname, (SELECT md5(w.ev_action::text) FROM pg_rewrite w "
			"WHERE w.ev_class = c.oid AND w.rulename = '_RETURN'), "
			"(SELECT string_agg(concat_ws(' ', a.attname, md5(d.adbin::text)), ',' ORDER BY a.attnum) FROM " ATTRIBUTES
			" WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped))",
		.facts = TABLE_FACTS
		", 'default values of columns', (SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum) "
		"FROM pg_attribute a WHERE a.attrelid = c.oid AND a.atthasdef), "
		"'privileges of columns', " EACH_COLUMN("a.attacl::text") ", 'options of columns', " EACH_COLUMN(OPTIONS_OF_COLUMN) ", 'statistics of columns', " EACH_COLUMN(
			STATISTICS_OF_COLUMN) ", "
					      "'storage of columns', " EACH_COLUMN(
						      STORAGE_OF_COLUMN) ", 'compression of columns', " EACH_COLUMN(COMPRESSION_OF_COLUMN),
		.drop = "format('DROP %sVIEW ', CASE c.relkind WHEN 'm' THEN 'MATERIALIZED ' END) || " RELATION,
		.create = "format('CREATE %sVIEW ', CASE c.relkind WHEN 'm' THEN 'MATERIALIZED ' END) || " RELATION
			  " || ' AS ' || pg_get_viewdef(c.oid)",
		.alter =
			"format('CREATE OR REPLACE %sVIEW ', CASE c.relkind WHEN 'm' THEN 'MATERIALIZED ' END) || " RELATION
			" || ' AS ' || pg_get_viewdef(c.oid)",
	},
	{
		.from = "pg_proc p" OF_NAMESPACE("p.pronamespace") " WHERE " USERS ITS_OWN("pg_proc", "p.oid"),
		.catalog = "pg_proc",
		.key = "p.oid",
		.label = "format('%I.%I(%s)', n.nspname, p.proname, pg_get_function_identity_arguments(p.oid))",
		.print = WHOLE(
			"p",
			" - 'proowner' - 'proacl'") " || COALESCE((SELECT md5(v::text) FROM pg_aggregate v WHERE v.aggfnoid = p.oid), '')",
		.facts = OWNER("p.proowner") ", 'privileges', p.proacl::text",
		.drop = "format('DROP ROUTINE %I.%I(%s)', n.nspname, p.proname, pg_get_function_identity_arguments(p.oid))",
		.create =
			"CASE WHEN 'a' = to_jsonb(p)->>'prokind' OR 'true' = to_jsonb(p)->>'proisagg' THEN (SELECT format('CREATE AGGREGATE %I.%I(%s) (SFUNC = %s, STYPE = %s%s%s)', n.nspname, "
			"p.proname, pg_get_function_identity_arguments(p.oid), v.aggtransfn, format_type(v.aggtranstype, NULL), "
			"CASE WHEN v.aggfinalfn <> 0 THEN ', FINALFUNC = ' || v.aggfinalfn::text ELSE '' END, "
			"COALESCE(', INITCOND = ' || quote_literal(v.agginitval), '')) FROM pg_aggregate v WHERE v.aggfnoid = p.oid) ELSE pg_get_functiondef(p.oid) END",
	},
	{
		.from = "pg_trigger g" OF_RELATION
			"g.tgrelid" OF_NAMESPACE("c.relnamespace") " WHERE NOT g.tgisinternal AND " USERS,
		.key = "g.oid",
		.parent = "g.tgrelid",
		.label = "format('%I ON ', g.tgname) || " RELATION,
		.print = WHOLE("g", " - 'tgenabled'"),
		.facts = FIRES("g.tgenabled"),
		.drop = "format('DROP TRIGGER %I ON %I.%I', g.tgname, n.nspname, c.relname)",
		.create = "pg_get_triggerdef(g.oid)",
	},
	{
		.from = "pg_rewrite w" OF_RELATION
			"w.ev_class" OF_NAMESPACE("c.relnamespace") " WHERE w.rulename <> '_RETURN' AND " USERS,
		.key = "w.oid",
		.parent = "w.ev_class",
		.label = "format('%I ON ', w.rulename) || " RELATION,
		.print = WHOLE("w", " - 'ev_enabled'"),
		.facts = FIRES("w.ev_enabled"),
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
			"concat(format('CREATE POLICY %I ON %I.%I AS %s FOR %s TO %s', y.polname, n.nspname, c.relname, "
			"CASE WHEN y.polpermissive THEN 'PERMISSIVE' ELSE 'RESTRICTIVE' END, CASE y.polcmd WHEN 'r' THEN 'SELECT' WHEN 'a' THEN 'INSERT' "
			"WHEN 'w' THEN 'UPDATE' WHEN 'd' THEN 'DELETE' ELSE 'ALL' END, (SELECT string_agg(CASE o WHEN 0 THEN 'PUBLIC' "
			"ELSE quote_ident(pg_get_userbyid(o)) END, ', ' ORDER BY o) FROM unnest(y.polroles) o)), ' USING (' || pg_get_expr(y.polqual, y.polrelid) || ')', "
			"' WITH CHECK (' || pg_get_expr(y.polwithcheck, y.polrelid) || ')')",
	},
	{
		.from = "pg_event_trigger e WHERE e.oid >= " FIRST_OWN,
		.key = "e.oid",
		.label = "quote_ident(e.evtname)",
		.print = WHOLE("e", " - 'evtenabled' - 'evtowner'"),
		.facts = OWNER("e.evtowner") ", " FIRES("e.evtenabled"),
		.drop = "'DROP EVENT TRIGGER ' || quote_ident(e.evtname)",
		.create =
			"format('CREATE EVENT TRIGGER %I ON %s %sEXECUTE FUNCTION %s()', e.evtname, e.evtevent, "
			"(SELECT 'WHEN TAG IN (' || string_agg(quote_literal(o), ', ') || ') ' FROM unnest(e.evttags) o), e.evtfoid::regproc)",
	},
	{
		.from = "pg_publication u",
		.key = "u.oid",
		.label = "quote_ident(u.pubname)",
		.print =
			"concat(u.pubname, ' ', u.puballtables, (SELECT string_agg(concat(r.prrelid, to_jsonb(r)->>'prattrs', to_jsonb(r)->>'prqual'), ',' "
			"ORDER BY r.prrelid) FROM pg_publication_rel r WHERE r.prpubid = u.oid))",
		.facts = OWNER(
			"u.pubowner") ", 'publish', NULLIF(concat_ws(', ', CASE WHEN u.pubinsert THEN 'insert' END, CASE WHEN u.pubupdate THEN 'update' END, "
				      "CASE WHEN u.pubdelete THEN 'delete' END, CASE to_jsonb(u)->>'pubtruncate' WHEN 'true' THEN 'truncate' END), "
				      "'insert, update, delete, truncate'), 'via the partition root', NULLIF(to_jsonb(u)->>'pubviaroot', 'false'), "
				      "'generated columns', NULLIF(to_jsonb(u)->>'pubgencols', 'n')",
		.drop = "'DROP PUBLICATION ' || quote_ident(u.pubname)",
		.create =
			"concat('CREATE PUBLICATION ', quote_ident(u.pubname), CASE WHEN u.puballtables THEN ' FOR ALL TABLES' END, "
			"' FOR TABLE ' || (SELECT string_agg(concat(r.prrelid::regclass, ' (' || (SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum) "
			"FROM pg_attribute a WHERE a.attrelid = r.prrelid AND a.attnum::text = ANY (regexp_split_to_array(to_jsonb(r)->>'prattrs', '[^0-9]+'))) || ')', "
			"CASE WHEN to_jsonb(r)->>'prqual' IS NOT NULL THEN ' WHERE ' || COALESCE((SELECT to_jsonb(o)->>'rowfilter' FROM pg_publication_tables o "
			"WHERE o.pubname = u.pubname AND format('%I.%I', o.schemaname, o.tablename)::regclass = r.prrelid LIMIT 1), '(…)') END), ', ' ORDER BY r.prrelid) "
			"FROM pg_publication_rel r WHERE r.prpubid = u.oid))",
	},
	{
		.from = "pg_cast k WHERE k.oid >= " FIRST_OWN ITS_OWN("pg_cast", "k.oid"),
		.catalog = "pg_cast",
		.key = "k.oid",
		.label =
			"format('cast from %s to %s', format_type(k.castsource, NULL), format_type(k.casttarget, NULL))",
		.print = WHOLE("k", ""),
		.drop = "format('DROP CAST (%s AS %s)', format_type(k.castsource, NULL), format_type(k.casttarget, NULL))",
		.create =
			"format('CREATE CAST (%s AS %s) %s%s', format_type(k.castsource, NULL), format_type(k.casttarget, NULL), CASE k.castmethod "
			"WHEN 'i' THEN 'WITH INOUT' WHEN 'b' THEN 'WITHOUT FUNCTION' ELSE 'WITH FUNCTION ' || k.castfunc::regprocedure::text END, "
			"CASE k.castcontext WHEN 'i' THEN ' AS IMPLICIT' WHEN 'a' THEN ' AS ASSIGNMENT' ELSE '' END)",
	},
	{
		.from = "pg_collation o" OF_NAMESPACE("o.collnamespace") " WHERE " USERS ITS_OWN("pg_collation",
												 "o.oid"),
		.catalog = "pg_collation",
		.key = "o.oid",
		.label = "format('%I.%I', n.nspname, o.collname)",
		.print = WHOLE("o", " - 'collowner'"),
		.facts = OWNER("o.collowner"),
		.drop = "format('DROP COLLATION %I.%I', n.nspname, o.collname)",
		.create =
			"format('CREATE COLLATION %I.%I (PROVIDER = %s, LOCALE = %L)', n.nspname, o.collname, CASE o.collprovider WHEN 'i' THEN 'icu' "
			"WHEN 'b' THEN 'builtin' WHEN 'd' THEN 'default' ELSE 'libc' END, COALESCE(to_jsonb(o)->>'collcollate', to_jsonb(o)->>'colllocale', "
			"to_jsonb(o)->>'colliculocale'))",
	},
	{
		.from = "pg_operator o" OF_NAMESPACE("o.oprnamespace") " WHERE " USERS ITS_OWN("pg_operator", "o.oid"),
		.catalog = "pg_operator",
		.key = "o.oid",
		.label =
			"format('%I.%s (%s, %s)', n.nspname, o.oprname, format_type(NULLIF(o.oprleft, 0), NULL), format_type(o.oprright, NULL))",
		.print = WHOLE("o", " - 'oprowner'"),
		.facts = OWNER("o.oprowner"),
		.drop = "format('DROP OPERATOR %I.%s (%s, %s)', n.nspname, o.oprname, COALESCE(format_type(NULLIF(o.oprleft, 0), NULL), 'NONE'), "
			"format_type(o.oprright, NULL))",
		.create =
			"format('CREATE OPERATOR %I.%s (FUNCTION = %s%s, RIGHTARG = %s)', n.nspname, o.oprname, o.oprcode, "
			"COALESCE(', LEFTARG = ' || format_type(NULLIF(o.oprleft, 0), NULL), ''), format_type(o.oprright, NULL))",
	},
	{
		.from = "pg_statistic_ext e" OF_NAMESPACE("e.stxnamespace") " WHERE " USERS,
		.key = "e.oid",
		.parent = "e.stxrelid",
		.label = "format('%I.%I', n.nspname, e.stxname)",
		.print = WHOLE("e", " - 'stxowner' - 'stxstattarget'"),
		.facts = OWNER("e.stxowner") ", 'statistics', NULLIF(to_jsonb(e)->>'stxstattarget', '-1')",
		.drop = "format('DROP STATISTICS %I.%I', n.nspname, e.stxname)",
		.create = "pg_get_statisticsobjdef(e.oid)",
	},
	{
		.from = "pg_ts_config f" OF_NAMESPACE("f.cfgnamespace") " WHERE " USERS ITS_OWN("pg_ts_config",
												"f.oid"),
		.catalog = "pg_ts_config",
		.key = "f.oid",
		.label = "format('%I.%I', n.nspname, f.cfgname)",
		.print = "concat(" WHOLE(
			"f",
			" - 'cfgowner'") ", (SELECT md5(string_agg(m::text, ',' ORDER BY m.maptokentype, m.mapseqno)) FROM pg_ts_config_map m WHERE m.mapcfg = f.oid))",
		.facts = OWNER("f.cfgowner"),
		.drop = "format('DROP TEXT SEARCH CONFIGURATION %I.%I', n.nspname, f.cfgname)",
		.create =
			"concat(format('CREATE TEXT SEARCH CONFIGURATION %I.%I (PARSER = %s)', n.nspname, f.cfgname, (SELECT format('%I.%I', q.nspname, p.prsname) "
			"FROM pg_ts_parser p JOIN pg_namespace q ON q.oid = p.prsnamespace WHERE p.oid = f.cfgparser)), (SELECT string_agg(concat(' MAPPING FOR ', "
			"k.alias, ' WITH ', (SELECT string_agg(m.mapdict::regdictionary::text, ', ' ORDER BY m.mapseqno) FROM pg_ts_config_map m "
			"WHERE m.mapcfg = f.oid AND m.maptokentype = k.tokid)), ',' ORDER BY k.tokid) FROM ts_token_type(f.cfgparser) k "
			"WHERE EXISTS (SELECT 1 FROM pg_ts_config_map m WHERE m.mapcfg = f.oid AND m.maptokentype = k.tokid)))",
	},
	{
		.from = "pg_foreign_data_wrapper w WHERE w.oid >= " FIRST_OWN ITS_OWN("pg_foreign_data_wrapper",
										      "w.oid"),
		.catalog = "pg_foreign_data_wrapper",
		.key = "w.oid",
		.label = "quote_ident(w.fdwname)",
		.print = WHOLE("w", " - 'fdwowner' - 'fdwacl' - 'fdwoptions'"),
		.facts = OWNER("w.fdwowner") ", 'privileges', w.fdwacl::text, 'options', w.fdwoptions::text",
		.drop = "'DROP FOREIGN DATA WRAPPER ' || quote_ident(w.fdwname)",
		.create =
			"concat('CREATE FOREIGN DATA WRAPPER ', quote_ident(w.fdwname), ' HANDLER ' || NULLIF(w.fdwhandler, 0)::regproc::text, "
			"' VALIDATOR ' || NULLIF(w.fdwvalidator, 0)::regproc::text)",
	},
	{
		.from = "pg_foreign_server v",
		.key = "v.oid",
		.label = "quote_ident(v.srvname)",
		.print = WHOLE("v", " - 'srvowner' - 'srvacl' - 'srvoptions'"),
		.facts = OWNER("v.srvowner") ", 'privileges', v.srvacl::text, 'options', v.srvoptions::text",
		.drop = "'DROP SERVER ' || quote_ident(v.srvname)",
		.create =
			"concat('CREATE SERVER ', quote_ident(v.srvname), ' TYPE ' || quote_literal(v.srvtype), ' VERSION ' || quote_literal(v.srvversion), "
			"' FOREIGN DATA WRAPPER ' || (SELECT quote_ident(w.fdwname) FROM pg_foreign_data_wrapper w WHERE w.oid = v.srvfdw))",
	},
	{
		.from = "pg_default_acl q",
		.key = "q.oid",
		.label =
			"concat('default privileges of ', quote_ident(pg_get_userbyid(q.defaclrole)), ' on ', CASE q.defaclobjtype WHEN 'r' THEN 'tables' "
			"WHEN 'S' THEN 'sequences' WHEN 'f' THEN 'functions' WHEN 'T' THEN 'types' ELSE 'schemas' END, "
			"' in ' || (SELECT quote_ident(nspname) FROM pg_namespace WHERE oid = q.defaclnamespace))",
		.print = "''",
		.facts = "'privileges', q.defaclacl::text",
		.drop = "'ALTER DEFAULT PRIVILEGES: none'",
		.create = "'ALTER DEFAULT PRIVILEGES'",
	},
	{
		.from = "pg_description x WHERE (x.objoid >= " FIRST_OWN " OR x.classoid = 'pg_namespace'::regclass)",
		.key = "concat(x.classoid, '.', x.objoid, '.', x.objsubid)",
		.parent = "CASE WHEN x.classoid = 'pg_class'::regclass THEN x.objoid END",
		.label = "'comment on ' || pg_describe_object(x.classoid, x.objoid, x.objsubid)",
		.print = "md5(x.description)",
		.drop = "concat('COMMENT ON ', pg_describe_object(x.classoid, x.objoid, x.objsubid), ' IS NULL')",
		.create =
			"format('COMMENT ON %s IS %L', pg_describe_object(x.classoid, x.objoid, x.objsubid), x.description)",
	},
	{
		.from = "pg_roles r",
		.key = "r.oid",
		.is_parent = true,
		.label = "'role ' || quote_ident(r.rolname)",
		.print = "r.rolname::text",
		.facts =
			"'superuser', NULLIF(r.rolsuper, false), 'may create roles', NULLIF(r.rolcreaterole, false), 'may create databases', "
			"NULLIF(r.rolcreatedb, false), 'may log in', NULLIF(r.rolcanlogin, false), 'replication', NULLIF(r.rolreplication, false), "
			"'inherits privileges', NULLIF(r.rolinherit, true), 'bypasses row level security', NULLIF(r.rolbypassrls, false), 'connection limit', NULLIF(r.rolconnlimit, -1), "
			"'valid until', r.rolvaliduntil::text, 'member of', (SELECT string_agg(concat(quote_ident(pg_get_userbyid(m.roleid)), "
			"CASE WHEN m.admin_option THEN ' WITH ADMIN OPTION' END, CASE to_jsonb(m)->>'inherit_option' WHEN 'false' THEN ' WITH INHERIT FALSE' END, "
			"CASE to_jsonb(m)->>'set_option' WHEN 'false' THEN ' WITH SET FALSE' END), ', ' ORDER BY m.roleid, m.grantor) "
			"FROM pg_auth_members m WHERE m.member = r.oid)",
		.drop = "'DROP ROLE ' || quote_ident(r.rolname)",
		.create = "'CREATE ROLE ' || quote_ident(r.rolname)",
		.alter = "'ALTER ROLE ' || quote_ident(r.rolname)",
	},
	{
		.from = "pg_db_role_setting z",
		.key = "concat(z.setdatabase, '.', z.setrole)",
		.label =
			"concat_ws(' ', 'settings of', 'role ' || (SELECT quote_ident(rolname) FROM pg_roles WHERE oid = z.setrole), "
			"'database ' || (SELECT quote_ident(datname) FROM pg_database WHERE oid = z.setdatabase))",
		.print = "''",
		.facts = "'settings', z.setconfig::text",
		.drop = "'RESET ALL'",
		.create = "'SET'",
	},
	{
		.from = "pg_authid r",
		.needs = "pg_authid",
		.key = "r.oid",
		.parent = "r.oid",
		.with_parent = true,
		.label = "'password of role ' || quote_ident(r.rolname)",
		.print = "md5(r.rolpassword)",
		.drop = "''",
		.create = "CASE WHEN r.rolpassword IS NULL THEN 'removed' ELSE 'set' END",
	},
	{
		.from = "pg_database b",
		.key = "b.oid",
		.label = "'database ' || quote_ident(b.datname)",
		.print = "b.datname::text",
		.facts = OWNER(
			"b.datdba") ", 'privileges', b.datacl::text, 'connection limit', NULLIF(b.datconnlimit, -1), "
				    "'connections', CASE WHEN NOT b.datallowconn THEN 'refused' END, 'template', NULLIF(b.datistemplate, false), "
				    "'tablespace', b.dattablespace::text, 'collation version', to_jsonb(b)->>'datcollversion'",
		.drop = "'DROP DATABASE ' || quote_ident(b.datname)",
		.create = "'CREATE DATABASE ' || quote_ident(b.datname)",
		.alter = "'ALTER DATABASE ' || quote_ident(b.datname)",
	},
	{
		.from = "pg_tablespace b",
		.key = "b.oid",
		.label = "'tablespace ' || quote_ident(b.spcname)",
		.print = "b.spcname::text",
		.facts = OWNER("b.spcowner") ", 'privileges', b.spcacl::text, 'options', b.spcoptions::text",
		.drop = "'DROP TABLESPACE ' || quote_ident(b.spcname)",
		.create = "'CREATE TABLESPACE ' || quote_ident(b.spcname)",
		.alter = "'ALTER TABLESPACE ' || quote_ident(b.spcname)",
	},
	{
		.from = "pg_shdescription x",
		.key = "concat(x.classoid, '.', x.objoid)",
		.label = "'comment on ' || pg_describe_object(x.classoid, x.objoid, 0)",
		.print = "md5(x.description)",
		.drop = "concat('COMMENT ON ', pg_describe_object(x.classoid, x.objoid, 0), ' IS NULL')",
		.create = "format('COMMENT ON %s IS %L', pg_describe_object(x.classoid, x.objoid, 0), x.description)",
	},
	{
		.from = "pg_user_mappings u",
		.key = "u.umid",
		.label = "format('user mapping for %I server %I', u.usename, u.srvname)",
		.print = "md5(u.umoptions::text)",
		.drop = "format('DROP USER MAPPING FOR %I SERVER %I', u.usename, u.srvname)",
		.create = "format('CREATE USER MAPPING FOR %I SERVER %I', u.usename, u.srvname)",
		.alter = "format('ALTER USER MAPPING FOR %I SERVER %I', u.usename, u.srvname)",
	},
	{
		.from = "pg_type t" OF_NAMESPACE(
			"t.typnamespace") " WHERE t.typtype IN ('b', 'm', 'p', 'r') AND NOT EXISTS (SELECT 1 FROM pg_type e "
					  "WHERE e.typarray = t.oid) AND " USERS ITS_OWN("pg_type", "t.oid"),
		.catalog = "pg_type",
		.key = "t.oid",
		.is_parent = true,
		.parent =
			"(SELECT r.rngtypid FROM pg_range r WHERE to_jsonb(r)->>'rngmultitypid' = t.oid::text)", /* since version 14 */
		.with_parent = true,
		.label = "format('%I.%I', n.nspname, t.typname)",
		.print = WHOLE("t", " - 'typowner' - 'typacl'"),
		.facts = OWNER("t.typowner") ", 'privileges', t.typacl::text",
		.drop = "format('DROP TYPE %I.%I', n.nspname, t.typname)",
		.create = "format('CREATE TYPE %I.%I', n.nspname, t.typname)",
		.alter = "format('ALTER TYPE %I.%I', n.nspname, t.typname)",
	},
	NAMED("pg_ts_dict", ""),
	NAMED("pg_ts_parser", ""),
	NAMED("pg_ts_template", ""),
	NAMED("pg_language", ""),
	NAMED("pg_conversion", ""),
	NAMED("pg_am", ""),
	NAMED("pg_transform", ""),
	NAMED("pg_opclass", ""),
	NAMED("pg_opfamily",
	      ", (SELECT md5(string_agg(m::text, ',' ORDER BY m.oid)) FROM pg_amop m WHERE m.amopfamily = x.oid), "
	      "(SELECT md5(string_agg(m::text, ',' ORDER BY m.oid)) FROM pg_amproc m WHERE m.amprocfamily = x.oid)"),
	{
		.from = "pg_depend e JOIN pg_extension x ON x.oid = e.refobjid WHERE e.refclassid = 'pg_extension'::regclass AND e.deptype IN ('e', 'x') "
			/* Since version 18 the types of a table and of arrays are members of their own. */
			"AND NOT (e.classid = 'pg_type'::regclass AND EXISTS (SELECT 1 FROM pg_type y LEFT JOIN pg_class c ON c.oid = y.typrelid "
			"WHERE y.oid = e.objid AND ((y.typcategory = 'A' AND y.typelem <> 0) OR c.relkind <> 'c')))",
		.key = "concat(e.classid::regclass, '.', e.objid, CASE e.deptype WHEN 'x' THEN '.' || e.refobjid END)",
		.lists_members = true,
		.parent = "x.oid",
		.with_parent = true,
		.label = "format('%s of extension %I', pg_describe_object(e.classid, e.objid, e.objsubid), x.extname)",
		.print = "concat(e.deptype, x.oid)",
		.drop = "CASE e.deptype WHEN 'x' THEN format('ALTER %s NO DEPENDS ON EXTENSION %I', pg_describe_object(e.classid, e.objid, e.objsubid), x.extname) "
			"ELSE format('ALTER EXTENSION %I DROP %s', x.extname, pg_describe_object(e.classid, e.objid, e.objsubid)) END",
		.create =
			"CASE e.deptype WHEN 'x' THEN format('ALTER %s DEPENDS ON EXTENSION %I', pg_describe_object(e.classid, e.objid, e.objsubid), x.extname) "
			"ELSE format('ALTER EXTENSION %I ADD %s', x.extname, pg_describe_object(e.classid, e.objid, e.objsubid)) END",
	},
};
const size_t schema_classes_count = sizeof schema_classes / sizeof *schema_classes;
