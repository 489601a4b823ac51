-- Scans and cached columns: which blocks are read, and that the rows stay PostgreSQL's, in its order.
CREATE SCHEMA scan_cache;
SET search_path = scan_cache, public;
SET gpuscan.force = on;
SET enable_indexscan = off;
SET enable_bitmapscan = off;
SET max_parallel_workers_per_gather = 0;

-- Before and after the query ran twice: what was read, and whether it answers as PostgreSQL does.
CREATE FUNCTION try(query text, OUT first text, OUT outcome text, OUT again text, OUT last text)
LANGUAGE plpgsql AS $$
BEGIN
  first := gpuscan_test.scanned(query);
  outcome := gpuscan_test.same(query);
  again := gpuscan_test.scanned(query);
  last := gpuscan_test.same(query);
END $$;

CREATE TABLE t (id int, k int, v bigint, n numeric(10,2), d timestamp, s text, b bool, pad text DEFAULT repeat('x', 200)) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT i, nullif(i % 10, 3), i::bigint * 1000003 % 99991, i % 1000 * 0.01, timestamp '2026-01-01' + i * interval '1 min',
  CASE WHEN i % 7 > 0 THEN 'key ' || i % 400 END, i % 3 = 0 FROM generate_series(1, 30000) i;

-- Nothing is all-visible yet, then it is loaded by scans, and by aggregations for them
SELECT * FROM try('SELECT * FROM t WHERE v = 1004');
VACUUM t;
SELECT * FROM try('SELECT * FROM t WHERE v = 1004');
SELECT * FROM try('SELECT * FROM t WHERE v IN (1004, 1005, 77777)');
SELECT sum(n), max(d) FROM t;
SELECT * FROM try('SELECT id, s FROM t WHERE d = timestamp ''2026-01-05''');
SELECT * FROM try('SELECT id, s FROM t WHERE d > timestamp ''2026-01-21 19:00'' AND n > 5');
SELECT * FROM try('SELECT id FROM t WHERE n = 20.01');
SELECT * FROM try('SELECT id FROM t WHERE id < 0');
SELECT * FROM try('SELECT id FROM t WHERE id > 0');
SELECT * FROM try('SELECT count(*) FROM (SELECT FROM t WHERE k IS NULL OFFSET 0) q');
SELECT * FROM try('SELECT * FROM t WHERE s = ''key 17'' AND id BETWEEN 2000 AND 12000');
SELECT * FROM try('SELECT * FROM t WHERE (s LIKE ''%y 399'' OR s IS NULL) AND v = 1004 * 9');
SELECT * FROM try('SELECT * FROM t WHERE (b OR k = 5) AND v = 77');
-- beside conditions that are PostgreSQL's
SELECT * FROM try('SELECT * FROM t WHERE v < 500 AND md5(s) > ''8''');
-- Errors: PostgreSQL looks at the rows, and finds them, or does not
SELECT * FROM try('SELECT id FROM t WHERE 1 / (v - 1004) = 1');
SELECT * FROM try('SELECT id FROM t WHERE v > 99000 AND 1 / (v - 1004) = 0 AND id < 1000');
SELECT * FROM try('SELECT id FROM t WHERE CASE WHEN v <> 1004 THEN 1 / (v - 1004) = 1 ELSE id > 0 END');
-- System columns, whole rows, and the order of rows
SELECT * FROM try('SELECT ctid, tableoid::regclass, xmin, t FROM t WHERE v = 1004');
SELECT * FROM try('SELECT array_agg(id) FROM (SELECT id FROM t WHERE v % 1000 = 7 OFFSET 0) q');
-- Parameters, rescans, a LIMIT
SELECT * FROM try('SELECT x, q.* FROM generate_series(1003, 1007) x, LATERAL (SELECT id, s FROM t WHERE v = x OFFSET 0) q');
SELECT * FROM try('SELECT x, (SELECT id FROM t WHERE v > x LIMIT 1) FROM generate_series(99000, 99990, 330) x');
SELECT * FROM try('SELECT id FROM t WHERE v > 1000 LIMIT 3');
SET plan_cache_mode = force_generic_plan;
PREPARE q(int) AS SELECT id FROM t WHERE v = $1;
EXECUTE q(1004);
EXECUTE q(1003);
EXECUTE q(NULL);
DEALLOCATE q;
RESET plan_cache_mode;
-- Locked rows
SELECT * FROM try('SELECT id FROM t WHERE v = 1004 FOR UPDATE');
SELECT * FROM try('SELECT id FROM t WHERE v = 1004');

-- Changes, ours and not yet committed, committed, rolled back
BEGIN;
UPDATE t SET v = 1004 WHERE id = 15000;
SELECT * FROM try('SELECT * FROM t WHERE v = 1004');
SAVEPOINT a;
DELETE FROM t WHERE v = 1004;
SELECT * FROM try('SELECT * FROM t WHERE v = 1004');
ROLLBACK TO a;
INSERT INTO t (id, v) SELECT i, 1004 FROM generate_series(1, 3) i;
SELECT * FROM try('SELECT * FROM t WHERE v = 1004');
-- a cursor goes on with what was there when it was opened
DECLARE c CURSOR FOR SELECT id, v FROM t WHERE v = 1004;
FETCH 1 FROM c;
INSERT INTO t (id, v) VALUES (-1, 1004);
UPDATE t SET v = 1006 WHERE v = 1004;
SELECT count(*), sum(id) FROM t WHERE v = 1004;
FETCH ALL FROM c;
ROLLBACK;
SELECT * FROM try('SELECT * FROM t WHERE v = 1004');
DELETE FROM t WHERE id BETWEEN 7000 AND 7100;
UPDATE t SET v = 1004 WHERE id IN (8000, 9000);
SELECT * FROM try('SELECT * FROM t WHERE v = 1004');
VACUUM t;
SELECT * FROM try('SELECT * FROM t WHERE v = 1004');
VACUUM FREEZE t;
SELECT * FROM try('SELECT * FROM t WHERE v = 1004');
-- the map's LSN moves, and most pages have not changed
UPDATE t SET v = 1005 WHERE id = 8000;
VACUUM t;
SELECT * FROM try('SELECT * FROM t WHERE v = 1005');
DELETE FROM t WHERE id > 20000;
VACUUM t;
SELECT * FROM try('SELECT * FROM t WHERE v = 1005');
INSERT INTO t (id, k, v) SELECT i, 12, i FROM generate_series(1, 20000) i;
SELECT * FROM try('SELECT * FROM t WHERE v = 1005');
VACUUM t;
SELECT * FROM try('SELECT * FROM t WHERE v = 1005');

-- Another file, another shape
VACUUM FULL t;
SELECT * FROM try('SELECT * FROM t WHERE v = 1005');
VACUUM t;
SELECT * FROM try('SELECT * FROM t WHERE v = 1005');
ALTER TABLE t ADD COLUMN a int DEFAULT 5;
SELECT * FROM try('SELECT id FROM t WHERE a = 5 AND v = 1005');
BEGIN;
ALTER TABLE t ADD COLUMN c int DEFAULT 6;
SELECT * FROM try('SELECT id FROM t WHERE c = 6 AND v = 1005');
ROLLBACK;
ALTER TABLE t ADD COLUMN c int DEFAULT 7;
SELECT * FROM try('SELECT id FROM t WHERE c = 6 AND v = 1005');
SELECT * FROM try('SELECT id FROM t WHERE c = 7 AND v = 1005');
BEGIN;
TRUNCATE t;
INSERT INTO t (id, v) VALUES (1, 1005), (2, 1);
SELECT * FROM try('SELECT id FROM t WHERE v = 1005');
ROLLBACK;
SELECT * FROM try('SELECT id FROM t WHERE v = 1005');

-- Never cached
CREATE UNLOGGED TABLE u AS SELECT i FROM generate_series(1, 2000) i;
CREATE TEMPORARY TABLE temp AS SELECT i FROM generate_series(1, 2000) i;
VACUUM u, temp;
SELECT * FROM try('SELECT * FROM u WHERE i = 77');
SELECT * FROM try('SELECT * FROM temp WHERE i = 77');
CREATE TABLE never AS SELECT i FROM generate_series(1, 2000) i;
SECURITY LABEL FOR gpuscan ON TABLE never IS 'never cache';
VACUUM never;
SELECT * FROM try('SELECT * FROM never WHERE i = 77');

-- Values that cannot be cached: those ranges are read
CREATE TABLE w (id int, big text, n numeric) WITH (autovacuum_enabled = off);
INSERT INTO w SELECT i, CASE WHEN i = 500 THEN repeat('x', 100000) ELSE 'short ' || i || repeat(' ', 300) END, CASE WHEN i = 19000 THEN 'NaN'::numeric ELSE i END FROM generate_series(1, 20000) i;
VACUUM w;
SELECT * FROM try('SELECT id, length(big) FROM w WHERE big = ''short 1000'' || repeat('' '', 300)');
SELECT * FROM try('SELECT id FROM w WHERE n > 19998');

-- Partitions whose columns lie in another order, and children
CREATE TABLE p (id int, v int, pad text DEFAULT repeat('x', 100)) PARTITION BY RANGE (id);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (5000);
CREATE TABLE p2 (v int, gone int, pad text, id int);
ALTER TABLE p2 DROP COLUMN gone;
ALTER TABLE p ATTACH PARTITION p2 FOR VALUES FROM (5000) TO (100000);
INSERT INTO p SELECT i, i * 7 % 10007 FROM generate_series(1, 10000) i;
VACUUM p1, p2;
SELECT * FROM try('SELECT p, tableoid::regclass FROM p WHERE v = 77 OR v = 177');
SELECT gpuscan_test.scanned('SELECT * FROM p1 WHERE v = 77 OR v = 177'), gpuscan_test.scanned('SELECT * FROM p2 WHERE v = 77 OR v = 177');
CREATE TABLE parent (id int, v int) WITH (autovacuum_enabled = off);
CREATE TABLE child (pad text) INHERITS (parent) WITH (autovacuum_enabled = off);
INSERT INTO parent SELECT i, i FROM generate_series(1, 10000) i;
INSERT INTO child SELECT i, i, repeat('x', 100) FROM generate_series(1, 10000) i;
VACUUM parent, child;
SELECT * FROM try('SELECT parent FROM parent WHERE v IN (77, 9000)');
UPDATE child SET v = 77 WHERE id = 5000;
SELECT * FROM try('SELECT parent FROM parent WHERE v IN (77, 9000)');

-- Some ranges are answered at once, the others by the LSNs of their pages
CREATE TABLE m (id int, v int, w int, pad text DEFAULT repeat('x', 1000)) WITH (autovacuum_enabled = off);
INSERT INTO m SELECT i, i, i FROM generate_series(1, 30000) i;
VACUUM m;
SELECT * FROM try('SELECT id FROM m WHERE v IN (10, 28000, 30001)');
UPDATE m SET v = 30001 WHERE id = 25000;
VACUUM m;
SELECT id FROM m WHERE w = 5 LIMIT 1;
SELECT gpuscan_test.same('SELECT id FROM m WHERE v IN (10, 28000, 30001)');
SELECT * FROM try('SELECT id FROM m WHERE v IN (10, 28000, 30001)');

-- Security barriers: what a policy hides is not seen by a function that leaks
CREATE FUNCTION leak(int) RETURNS bool LANGUAGE plpgsql COST 0.0001 AS $$ BEGIN RAISE NOTICE 'saw %', $1; RETURN true; END $$;
CREATE VIEW barrier WITH (security_barrier) AS SELECT * FROM parent WHERE v = 77;
SELECT gpuscan_test.scanned('SELECT * FROM barrier WHERE leak(id)');
SELECT * FROM barrier WHERE leak(id);

-- Whatever fails, PostgreSQL goes on: with the replaced plan, or after the first row by itself
CREATE TABLE f (id int, v int, pad text DEFAULT repeat('x', 300)) WITH (autovacuum_enabled = off);
INSERT INTO f SELECT i, i % 100 FROM generate_series(1, 40000) i;
VACUUM f;
SELECT * FROM try('SELECT id FROM f WHERE v = 3');
CREATE FUNCTION points(VARIADIC names text[]) RETURNS TABLE (fault text, outcome text, limited text) LANGUAGE plpgsql AS $$
BEGIN
  FOREACH fault IN ARRAY names LOOP
    PERFORM set_config('gpuscan.inject_fault', fault, true);
    RETURN QUERY SELECT fault, gpuscan_test.same('SELECT id FROM f WHERE v = 3'), gpuscan_test.same('SELECT id FROM f WHERE v = 3 LIMIT 20');
  END LOOP;
END $$;
SELECT * FROM points('device-error:begin', 'device-error:push', 'device-error:push:2', 'device-error:push:3');
SELECT * FROM try('SELECT id FROM f WHERE v = 3');

-- The planner knows: these queries are PostgreSQL's while their columns are not cached, or where an index is cheaper, or where all is read.
CREATE FUNCTION whose(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE plan text;
BEGIN
  EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO plan;
  RETURN CASE WHEN plan LIKE '%GpuScan%' THEN 'ours' WHEN plan LIKE '%Index%' THEN 'an index''s' ELSE 'PostgreSQL''s' END;
END $$;
CREATE FUNCTION whose_queries() RETURNS TABLE (query text, whose text) LANGUAGE sql AS $$
  SELECT query, whose(query) FROM unnest(ARRAY['SELECT * FROM f WHERE v = 3 AND id < 1000', 'SELECT * FROM f WHERE id = 300', 'SELECT * FROM f WHERE v > 3', 'SELECT * FROM f WHERE id % 10000 = 7', 'SELECT * FROM f WHERE v > 3 LIMIT 1']) query
$$;
ANALYZE f;
SET gpuscan.force = off;
-- of a GPU a fifth counts
SELECT CASE WHEN bool_and(device LIKE 'cuda%') THEN 5 ELSE 1 END AS scale FROM gpuscan_devices \gset
SELECT 0.05 * :scale AS tuple_cost, 0.0002 * :scale AS operator_cost \gset
SET gpuscan.tuple_cost = :tuple_cost;
SET gpuscan.operator_cost = :operator_cost;
SET gpuscan.request_cost = 10;
SELECT gpuscan_evict('f') > 0 AS evicted;
SELECT * FROM whose_queries();
SELECT gpuscan_prewarm('f', '{id,v}');
SELECT * FROM whose_queries();
CREATE INDEX ON f (id);
RESET enable_indexscan;
SELECT * FROM whose_queries();
