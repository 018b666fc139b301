-- Run directly and through the proxy: both must say the same. Nothing here depends on time, names of the database or what is documented as different.
\set VERBOSITY verbose
\set SHOW_CONTEXT always
CREATE TABLE item (id int PRIMARY KEY, name text NOT NULL, price numeric(10,2) CHECK (price >= 0), tags text[], data jsonb);
INSERT INTO item SELECT g, 'item ' || g, g * 1.25, ARRAY['a', 'b' || g], jsonb_build_object('n', g) FROM generate_series(1, 20) g;
SELECT * FROM item ORDER BY id LIMIT 3;
INSERT INTO item VALUES (1, 'twice', 1, NULL, NULL);
INSERT INTO item VALUES (100, NULL, 1, NULL, NULL);
INSERT INTO item VALUES (101, 'cheap', -1, NULL, NULL);
SELECT count(*) FROM item;
SELECT 1/0;
SELECT * FROM nowhere;
SELEC 1;
SELECT 'unterminated;
';
SELECT 'ü', U&'\00fc', E'\u00fc', $$a;b$$, $q$it's$q$, 'it''s; fine';
-- several statements in one string
SELECT 1 AS a \; SELECT 2 AS b;
INSERT INTO item VALUES (200, 'x', 1) \; INSERT INTO item VALUES (1, 'y', 1);
SELECT count(*) FROM item WHERE id = 200;
BEGIN \; INSERT INTO item VALUES (201, 'x', 1) \; COMMIT \; SELECT count(*) FROM item WHERE id = 201;
INSERT INTO item VALUES (202, 'x', 1) \; ROLLBACK \; SELECT count(*) FROM item WHERE id = 202;
INSERT INTO item VALUES (203, 'x', 1) \; COMMIT \; SELECT 1/0;
SELECT count(*) FROM item WHERE id = 203;
-- transactions
BEGIN;
BEGIN;
UPDATE item SET price = price + 1 WHERE id < 3 RETURNING id, price;
SAVEPOINT a;
DELETE FROM item;
SAVEPOINT a;
SELECT count(*) FROM item;
ROLLBACK TO a;
RELEASE a;
ROLLBACK TO a;
SELECT count(*) FROM item;
ROLLBACK TO nowhere;
SELECT 1;
SAVEPOINT b;
COMMIT;
SELECT price FROM item WHERE id = 1;
COMMIT;
ROLLBACK;
SAVEPOINT x;
RELEASE x;
ROLLBACK TO x;
START TRANSACTION READ ONLY;
INSERT INTO item VALUES (300, 'x', 1);
ABORT;
START TRANSACTION READ ONLY;
COMMIT AND CHAIN;
INSERT INTO item VALUES (300, 'x', 1);
ABORT;
BEGIN ISOLATION LEVEL READ COMMITTED, READ WRITE;
INSERT INTO item VALUES (301, 'x', 1);
COMMIT AND CHAIN;
INSERT INTO item VALUES (302, 'x', 1);
ROLLBACK;
COMMIT AND CHAIN;
SELECT id FROM item WHERE id > 300;
END;
-- settings
SET search_path = pg_catalog;
SHOW search_path;
RESET search_path;
SHOW search_path;
SET LOCAL work_mem = '1MB';
SHOW work_mem;
BEGIN;
SET LOCAL work_mem = '2MB';
SET statement_timeout = '10s';
SHOW work_mem;
ROLLBACK;
SHOW work_mem;
SHOW statement_timeout;
BEGIN;
SET work_mem = '3MB';
SAVEPOINT s;
SET work_mem = '5MB';
ROLLBACK TO s;
SHOW work_mem;
COMMIT;
SHOW work_mem;
SELECT set_config('search_path', '', false);
SHOW search_path;
RESET ALL;
SHOW search_path;
SHOW work_mem;
SET nonsense = 1;
SET standard_conforming_strings = off;
SET escape_string_warning = off;
SELECT 'a\'b;c';
RESET standard_conforming_strings;
SELECT 'a\';
-- prepared statements
PREPARE one (int) AS SELECT name FROM item WHERE id = $1;
EXECUTE one(3);
EXECUTE one(4) \; EXECUTE one(5);
PREPARE one AS SELECT 1;
EXPLAIN (COSTS OFF) EXECUTE one(3);
CREATE TEMP TABLE made AS EXECUTE one(6);
SELECT * FROM made;
DEALLOCATE one;
EXECUTE one(3);
DEALLOCATE ALL;
-- cursors
DECLARE c CURSOR FOR SELECT 1;
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT id FROM item WHERE id < 10 ORDER BY id;
FETCH 2 FROM c;
FETCH BACKWARD 1 FROM c;
MOVE 3 IN c;
FETCH ALL FROM c;
CLOSE c;
FETCH c;
ROLLBACK;
BEGIN;
DECLARE c CURSOR FOR SELECT 1;
COMMIT;
FETCH c;
DECLARE h CURSOR WITH HOLD FOR SELECT id FROM item WHERE id < 4 ORDER BY id;
FETCH ALL FROM h;
CLOSE h;
-- copy
COPY item (id, name, price) FROM STDIN;
400	four hundred	4.00
401	four hundred one	\N
\.
COPY item (id, name) FROM STDIN;
402	x
1	twice
\.
COPY (SELECT id, name FROM item WHERE id >= 400 ORDER BY id) TO STDOUT WITH (FORMAT csv, HEADER);
COPY nowhere FROM STDIN;
COPY (SELECT 1/0) TO STDOUT;
-- functions, rules, triggers, procedures
CREATE FUNCTION twice(int) RETURNS int RETURN $1 * 2;
CREATE FUNCTION body(int) RETURNS int LANGUAGE sql BEGIN ATOMIC SELECT 1; SELECT CASE WHEN $1 > 1 THEN $1 ELSE 0 END; END;
SELECT twice(4), body(3), body(0);
CREATE FUNCTION raises() RETURNS void LANGUAGE plpgsql AS $$BEGIN RAISE NOTICE 'a notice'; RAISE EXCEPTION 'an error; with semicolon' USING HINT = 'none', ERRCODE = 'P0042'; END$$;
SELECT raises();
CREATE FUNCTION catches() RETURNS text LANGUAGE plpgsql AS $$BEGIN PERFORM 1/0; RETURN 'no'; EXCEPTION WHEN division_by_zero THEN RETURN 'caught'; END$$;
SELECT catches();
CREATE PROCEDURE proc() LANGUAGE plpgsql AS $$BEGIN INSERT INTO item VALUES (500, 'proc', 1); END$$;
CALL proc();
DO $$BEGIN INSERT INTO item VALUES (501, 'do', 1); END$$;
CREATE RULE r AS ON DELETE TO item WHERE old.id = 500 DO ALSO (SELECT 'rule'; SELECT 'again');
DELETE FROM item WHERE id = 500;
DROP RULE r ON item;
-- deferred constraints
CREATE TABLE parent (id int PRIMARY KEY);
CREATE TABLE child (id int REFERENCES parent DEFERRABLE INITIALLY DEFERRED, other int UNIQUE DEFERRABLE);
BEGIN;
INSERT INTO child VALUES (1);
COMMIT;
BEGIN;
INSERT INTO child VALUES (1, 1), (1, 2);
INSERT INTO parent VALUES (1);
COMMIT;
UPDATE child SET other = 3 - other;
BEGIN;
SET CONSTRAINTS child_other_key DEFERRED;
INSERT INTO child VALUES (1, 1);
SET CONSTRAINTS ALL IMMEDIATE;
ROLLBACK;
SELECT count(*) FROM child;
-- locks and what sessions hold
BEGIN;
LOCK TABLE item IN SHARE MODE;
COMMIT;
LOCK TABLE item;
SELECT pg_try_advisory_xact_lock(1), pg_advisory_lock(2), pg_advisory_unlock(2), pg_advisory_unlock(3);
CREATE SEQUENCE s;
SELECT nextval('s'), currval('s'), lastval();
PREPARE x AS SELECT 1;
SET work_mem = '9MB';
DISCARD ALL;
EXECUTE x;
SHOW work_mem;
SELECT * FROM made;
BEGIN;
DISCARD ALL;
ROLLBACK;
\d item
DROP TABLE child, parent, item;
