-- Tuples in every state and shape: HOT chains, dead and aborted ones, subtransactions, our own changes;
-- dropped, added, generated columns; NULL bitmaps; compressed and toasted values.
CREATE SCHEMA heap;
SET search_path = heap, public;
CREATE FUNCTION outcomes(OUT n bigint, OUT outcome text) RETURNS SETOF record LANGUAGE sql AS $$
  SELECT * FROM gpuscan_test.check('SELECT count(*), sum(id), sum(v), max(v) FROM t', 'SELECT v % 5, count(*), sum(id) FROM t GROUP BY 1', 'SELECT id, v FROM t WHERE v % 10 = 3')
$$;
CREATE TABLE t (id int, v int, pad text) WITH (fillfactor = 50, autovacuum_enabled = off);
INSERT INTO t SELECT i, i % 100, repeat('p', i % 40) FROM generate_series(1, 2000) i;
SELECT * FROM outcomes();
-- HOT updates, twice; plain updates; deletes; then the same pruned, vacuumed, frozen
UPDATE t SET v = v + 1 WHERE id % 3 = 0;
UPDATE t SET v = v + 1 WHERE id % 6 = 0;
SELECT * FROM outcomes();
UPDATE t SET pad = repeat('q', 200) WHERE id % 5 = 0;
DELETE FROM t WHERE id % 7 = 0;
SELECT * FROM outcomes();
VACUUM t;
SELECT * FROM outcomes();
INSERT INTO t SELECT i, i % 100, 'x' FROM generate_series(3001, 3300) i;
UPDATE t SET v = 13 WHERE id % 50 = 1;
SELECT * FROM outcomes();
VACUUM FREEZE t;
SELECT * FROM outcomes();
-- aborted
BEGIN; INSERT INTO t SELECT i, 3, 'aborted' FROM generate_series(5000, 5500) i; UPDATE t SET v = 3 WHERE id < 100; DELETE FROM t WHERE id > 3100; ROLLBACK;
SELECT * FROM outcomes();
-- our own changes, by command and by subtransaction
BEGIN;
UPDATE t SET v = 23 WHERE id < 300;
INSERT INTO t SELECT i, 33, 'own' FROM generate_series(6000, 6200) i;
SELECT * FROM outcomes();
SAVEPOINT a;
DELETE FROM t WHERE v = 33;
SELECT * FROM outcomes();
SAVEPOINT b;
INSERT INTO t VALUES (7000, 43, 'b');
SELECT * FROM outcomes();
ROLLBACK TO a;
SELECT * FROM outcomes();
RELEASE a;
-- a cursor does not see what comes later in its own transaction
SET LOCAL gpuscan.force = on;
DECLARE c CURSOR FOR SELECT count(*), sum(v) FROM t;
DECLARE d CURSOR FOR SELECT id FROM t WHERE v = 23 AND id % 20 = 0;
INSERT INTO t VALUES (7001, 23, 'later');
UPDATE t SET v = 24 WHERE id = 100;
FETCH ALL FROM c;
FETCH ALL FROM d;
SELECT count(*), sum(v) FROM t;
COMMIT;
SELECT * FROM outcomes();
-- a function's own changes
CREATE FUNCTION grow() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE n bigint; BEGIN INSERT INTO t VALUES (8000, 1, 'f'); SELECT count(*) INTO n FROM t WHERE id = 8000; DELETE FROM t WHERE id = 8000; RETURN n; END $$;
SET gpuscan.force = on;
SELECT grow(), grow();
RESET gpuscan.force;
-- prepared and rolled back
BEGIN; INSERT INTO t VALUES (9000, 53, 'prepared'); PREPARE TRANSACTION 'gpuscan_heap';
SELECT * FROM outcomes();
COMMIT PREPARED 'gpuscan_heap';
SELECT * FROM outcomes();
-- REPEATABLE READ sees what it saw
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM t;
UPDATE t SET v = 63 WHERE id = 3001;
SELECT * FROM outcomes();
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE;
SELECT * FROM outcomes();
COMMIT;
-- tuples that select for update marked
BEGIN; SELECT count(*) FROM (SELECT 1 FROM t WHERE id < 500 FOR UPDATE) q; SELECT * FROM outcomes(); COMMIT;
SELECT * FROM outcomes();
TRUNCATE t;
SELECT * FROM outcomes();
BEGIN; INSERT INTO t VALUES (1, 3, 'new'); TRUNCATE t; INSERT INTO t VALUES (2, 13, 'newer'); SELECT * FROM outcomes(); ROLLBACK;
SELECT * FROM outcomes();

-- Columns that come and go.
CREATE TABLE s (gone1 text, id int, gone2 int8, a int, b text);
INSERT INTO s SELECT 'g', i, i, i % 7, 'b' || i % 3 FROM generate_series(1, 300) i;
ALTER TABLE s DROP COLUMN gone1;
INSERT INTO s SELECT i, i, i % 7, 'b' || i % 3 FROM generate_series(301, 400) i;
ALTER TABLE s DROP COLUMN gone2, ADD COLUMN c int DEFAULT 42, ADD COLUMN d text DEFAULT 'dflt', ADD COLUMN e numeric(8,2), ADD COLUMN f float8 DEFAULT 1.5, ADD COLUMN h timestamp DEFAULT '2024-01-01', ADD COLUMN n numeric(6,1) DEFAULT 7.5;
INSERT INTO s VALUES (401, 1, 'b1', NULL, NULL, 1.25, NULL, NULL, NULL), (402, 2, 'b2', 5, 'other', 2.5, 2.5, '2025-01-01', 1.5);
SELECT * FROM gpuscan_test.check('SELECT c, d, count(*), sum(a), sum(e), sum(f), max(h), sum(n) FROM s GROUP BY c, d', 'SELECT id FROM s WHERE c IS NULL', 'SELECT id, c, d FROM s WHERE c = 42 AND a = 3', 'SELECT count(*) FROM s WHERE d = ''dflt'' AND e IS NULL', 'SELECT count(c), count(d), count(e), count(n) FROM s', 'SELECT b, count(*) FROM s GROUP BY b', 'SELECT s FROM s WHERE n > 7');
ALTER TABLE s ALTER COLUMN c SET DEFAULT 7, ALTER COLUMN d DROP DEFAULT;
ALTER TABLE s ADD COLUMN g int8 GENERATED ALWAYS AS (id * 2) STORED;
INSERT INTO s (id, a) VALUES (403, 3);
SELECT * FROM gpuscan_test.check('SELECT c, d, count(*), sum(g) FROM s GROUP BY c, d', 'SELECT id FROM s WHERE g = 806');
VACUUM FULL s;
SELECT gpuscan_test.same('SELECT c, d, count(*), sum(a), sum(e), sum(f), max(h), sum(n), sum(g) FROM s GROUP BY c, d');
ALTER TABLE s ALTER COLUMN a TYPE int8, ALTER COLUMN f TYPE float4;
SELECT * FROM gpuscan_test.check('SELECT a, sum(f), count(*) FROM s GROUP BY a', 'SELECT id FROM s WHERE a = 5');
-- no columns, one column, many NULLs, the 8th and 9th column, every alignment
CREATE TABLE none ();
INSERT INTO none SELECT FROM generate_series(1, 50);
CREATE TABLE aligned (c1 "char", i2 int2, b1 bool, i8 int8, t1 text, d date, b2 bool, f8 float8, c2 "char", n numeric(6,2), v varchar, ts timestamp, i4 int4);
INSERT INTO aligned SELECT 'x', i, i % 2 = 0, i, repeat('t', i % 9), date '2024-01-01' + i, i % 3 = 0, i, 'y', i, repeat('v', i % 7), timestamp '2024-01-01' + i * interval '1 s', i FROM generate_series(1, 500) i;
INSERT INTO aligned (i8, f8, i4) SELECT i, i, i FROM generate_series(1, 100) i;
INSERT INTO aligned (b1, v, n) SELECT true, 'v', i FROM generate_series(1, 100) i;
INSERT INTO aligned (i4) VALUES (NULL);
SELECT * FROM gpuscan_test.check('SELECT count(*) FROM none', 'SELECT i2, b1, sum(i8), max(d), sum(f8), sum(n), count(v), max(ts), sum(i4) FROM aligned GROUP BY i2, b1', 'SELECT aligned FROM aligned WHERE i4 % 50 = 1', 'SELECT v, t1, b2, count(*) FROM aligned GROUP BY v, t1, b2', 'SELECT sum(i4), count(ts), count(n) FROM aligned WHERE b1 AND v = ''v''');
-- 200 columns, some NULL
DO $$ BEGIN
EXECUTE 'CREATE TABLE wide (id int, ' || (SELECT string_agg(format('c%s int', i), ', ') FROM generate_series(1, 200) i) || ')';
EXECUTE 'INSERT INTO wide SELECT n, ' || (SELECT string_agg(format('nullif((n * %s) %% 13, %s)', i, i % 13), ', ') FROM generate_series(1, 200) i) || ' FROM generate_series(1, 100) n';
END $$;
SELECT * FROM gpuscan_test.check((SELECT 'SELECT ' || string_agg(format('sum(c%s)', i), ', ') || ' FROM wide' FROM generate_series(1, 200) i), 'SELECT c64, c65, count(*) FROM wide GROUP BY 1, 2', 'SELECT id FROM wide WHERE c200 = 7');
-- tuples near a page's limit, storage kinds, a table's row type
CREATE TABLE big (id int, p text, q text, v int);
ALTER TABLE big ALTER COLUMN p SET STORAGE PLAIN, ALTER COLUMN q SET STORAGE EXTERNAL;
INSERT INTO big SELECT i, repeat('p', 7900 + i % 100), repeat('q', i * 37 % 5000), i % 10 FROM generate_series(1, 120) i;
INSERT INTO big VALUES (121, repeat('p', 8100), NULL, 5), (122, '', '', 5), (123, repeat('p', 126), repeat('q', 127), 5), (124, repeat('p', 127), repeat('q', 126), 5);
SELECT * FROM gpuscan_test.check('SELECT count(*), sum(v) FROM big', 'SELECT v, count(DISTINCT p), count(DISTINCT q) FROM big GROUP BY v', 'SELECT id FROM big WHERE q = repeat(''q'', 37)', 'SELECT id, length(p), length(q) FROM big WHERE p = repeat(''p'', 7950) OR p = ''''', 'SELECT id FROM big WHERE p = repeat(''p'', 127) OR q = repeat(''q'', 127)', 'SELECT v, q = '''', count(*) FROM big GROUP BY 1, 2');
-- temporary, unlogged, made in this transaction, materialized
CREATE TEMP TABLE tmp AS SELECT i AS id, i % 9 AS a, 'x' || i % 3 AS b FROM generate_series(1, 1000) i;
CREATE UNLOGGED TABLE unl AS SELECT * FROM tmp;
CREATE MATERIALIZED VIEW matu AS SELECT a, b, count(*) AS n, sum(id) AS s FROM unl GROUP BY a, b;
SELECT * FROM gpuscan_test.check('SELECT a, b, count(*), sum(id) FROM tmp GROUP BY a, b', 'SELECT id FROM tmp WHERE a = 1 AND b = ''x1''', 'SELECT a, b, count(*), sum(id) FROM unl GROUP BY a, b', 'SELECT sum(n), count(*) FROM matu WHERE a < 5', 'SELECT count(*) FROM pg_class WHERE relkind = ''r'' AND relnatts < 5', 'SELECT relkind, count(*) FROM pg_class GROUP BY relkind');
UPDATE tmp SET a = 1 WHERE id % 100 = 0;
SELECT gpuscan_test.same('SELECT a, b, count(*), sum(id) FROM tmp GROUP BY a, b');
BEGIN;
CREATE TABLE fresh AS SELECT * FROM unl;
SELECT gpuscan_test.same('SELECT a, count(*) FROM fresh GROUP BY a');
TRUNCATE fresh;
COPY fresh FROM PROGRAM 'printf "1\t1\tx\n2\t2\ty\n"' (FREEZE);
SELECT gpuscan_test.same('SELECT a, count(*) FROM fresh GROUP BY a');
COMMIT;
SELECT gpuscan_test.same('SELECT a, count(*) FROM fresh GROUP BY a');
