-- The column cache: what it keeps, what it must not, and that answers stay PostgreSQL's.
CREATE SCHEMA cache;
SET search_path = cache, public;
SET gpuscan.force = on;
SET max_parallel_workers_per_gather = 0;

-- Blocks from the cache, of those that the query needs: all, some, none.
CREATE FUNCTION cached(query text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
  plan text := gpuscan_test.plan(query, 'ANALYZE, TIMING OFF, SUMMARY OFF,');
  total bigint[] := ARRAY(SELECT coalesce(sum(m[1]::bigint), 0) FROM unnest('{Cached,Read,Loaded,Loose,Skipped}'::text[]) WITH ORDINALITY x(name, n)
    LEFT JOIN LATERAL regexp_matches(plan, '"Blocks ' || name || '": (\d+)', 'g') m ON true GROUP BY n ORDER BY n);
BEGIN
  RETURN CASE WHEN total[1] = 0 THEN 'none' WHEN total[2] = 0 THEN 'all' ELSE 'some' END || ' cached'
    || CASE WHEN total[5] > 0 THEN ', skips' ELSE '' END
    || CASE WHEN total[3] > 0 THEN ', loads' ELSE '' END || CASE WHEN total[4] > 0 THEN ', loose' ELSE '' END;
END $$;

-- Before and after the query ran twice: what is cached, and whether it answers as PostgreSQL does.
CREATE FUNCTION try(query text, OUT first text, OUT outcome text, OUT again text, OUT last text)
LANGUAGE plpgsql AS $$
BEGIN
  first := cached(query);
  outcome := gpuscan_test.same(query);
  again := cached(query);
  last := gpuscan_test.same(query);
END $$;

CREATE TABLE t (id int, k int, v bigint, n numeric(10,2), d timestamp, s text, f float8, b bool) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT i, nullif(i % 10, 3), i::bigint * 1000003 % 99991, i % 1000 * 0.01, timestamp '2026-01-01' + i * interval '1 min',
  CASE WHEN i % 7 > 0 THEN 'key ' || i % 40 END, i * 0.25, i % 3 = 0 FROM generate_series(1, 30000) i;

-- Nothing is all-visible yet
SELECT * FROM try('SELECT k, count(*), sum(v), min(d), max(d) FROM t GROUP BY k');
VACUUM t;
SELECT * FROM try('SELECT k, count(*), sum(v), min(d), max(d) FROM t GROUP BY k');
SELECT * FROM try('SELECT s, count(*), sum(n), count(DISTINCT k) FROM t WHERE id > 100 GROUP BY s');
SELECT * FROM try('SELECT count(*) FROM t');
SELECT * FROM try('SELECT count(*), bool_and(b), bool_or(b), max(f), min(f) FROM t WHERE b');
SELECT * FROM try('SELECT k, s, b, count(*), sum(v), avg(n) FROM t WHERE d > timestamp ''2026-01-05'' AND concat(s, k) LIKE ''key 1%'' GROUP BY k, s, b');
SELECT * FROM try('SELECT count(*), sum(v) FROM t WHERE id = 777');
SELECT * FROM try('SELECT id % 5000, count(*), sum(v) FROM t GROUP BY 1');
-- Answers from the headers of chunks: which zero is the least depends on the order of rows
SELECT * FROM try('SELECT count(*), count(k), min(k), max(v), min(n), max(n), min(d), max(d), min(f), max(f), count(s), bool_and(b), bool_or(b) FROM t');
CREATE TABLE zero (f float8, g float4, h float8) WITH (autovacuum_enabled = off);
INSERT INTO zero SELECT i, -i, CASE WHEN i % 5 = 0 THEN 'NaN'::float8 ELSE -i END FROM generate_series(0, 9) i;
INSERT INTO zero VALUES (NULL, NULL, NULL);
VACUUM zero;
SELECT * FROM try('SELECT count(*), count(f), min(f), max(f), min(g), max(g), min(h), max(h) FROM zero');
UPDATE zero SET f = '-0' WHERE f = 5;
VACUUM zero;
SELECT * FROM try('SELECT count(*), min(f), max(f) FROM zero');
DROP TABLE zero;
-- Ranges without a row that passes
CREATE TABLE r (id int, d date, n numeric(8,2), v int) WITH (autovacuum_enabled = off);
INSERT INTO r SELECT i, date '2026-01-01' + i / 100, i * 0.01, nullif(i % 10, 0) FROM generate_series(1, 60000) i;
VACUUM r;
SELECT cached('SELECT sum(v), sum(id), max(d), sum(n) FROM r');
SELECT * FROM try('SELECT count(*), sum(v) FROM r WHERE id < 100 AND d < date ''2026-01-03'' AND n > 0.5');
SELECT * FROM try('SELECT count(*), sum(v) FROM r WHERE id BETWEEN 30000 AND 30010 OR id = 59999');
SELECT * FROM try('SELECT count(*), sum(v) FROM r WHERE id > 1000000');
SELECT * FROM try('SELECT count(*), sum(v) FROM r WHERE n >= 600.00');
SELECT * FROM try('SELECT count(*), sum(v) FROM r WHERE id < 0 AND 1 / (id - 30000) = 1');
SELECT * FROM try('SELECT count(*), sum(v) FROM r WHERE 1 / (id - 30000) = 1 AND id < 0');
SELECT * FROM try('SELECT count(*), sum(v) FROM r WHERE NOT id > 0');
SELECT * FROM try('SELECT v, count(*) FROM r WHERE d = date ''2026-03-01'' AND v IS NOT NULL GROUP BY v');
UPDATE r SET id = 30001 WHERE id = 5;
SELECT * FROM try('SELECT count(*), sum(v) FROM r WHERE id = 30001');
SELECT * FROM try('SELECT count(*), sum(v) FROM r WHERE id = 5');

-- Changes, ours and not yet committed, committed, rolled back
BEGIN;
UPDATE t SET v = 5 WHERE id = 15000;
SELECT * FROM try('SELECT k, count(*), sum(v), min(d), max(d) FROM t GROUP BY k');
SAVEPOINT a;
DELETE FROM t WHERE id < 3000;
SELECT * FROM try('SELECT k, count(*), sum(v), min(d), max(d) FROM t GROUP BY k');
ROLLBACK TO a;
SELECT * FROM try('SELECT k, count(*), sum(v), min(d), max(d) FROM t GROUP BY k');
ROLLBACK;
SELECT * FROM try('SELECT k, count(*), sum(v), min(d), max(d) FROM t GROUP BY k');
INSERT INTO t (id, k, v, s) SELECT i, 11, i, 'new' FROM generate_series(1, 500) i;
DELETE FROM t WHERE id BETWEEN 7000 AND 7100;
SELECT * FROM try('SELECT k, count(*), sum(v), min(d), max(d) FROM t GROUP BY k');
VACUUM t;
SELECT * FROM try('SELECT k, count(*), sum(v), min(d), max(d) FROM t GROUP BY k');
VACUUM FREEZE t;
SELECT * FROM try('SELECT k, count(*), sum(v), min(d), max(d) FROM t GROUP BY k');
DELETE FROM t WHERE id > 20000;
VACUUM t;
SELECT * FROM try('SELECT k, count(*), sum(v), min(d), max(d) FROM t GROUP BY k');
INSERT INTO t (id, k, v) SELECT i, 12, i FROM generate_series(1, 20000) i;
SELECT * FROM try('SELECT k, count(*), sum(v), min(d), max(d) FROM t GROUP BY k');
VACUUM t;
SELECT * FROM try('SELECT k, count(*), sum(v), min(d), max(d) FROM t GROUP BY k');

-- Another file, another shape
CREATE INDEX i ON t (id);
SELECT * FROM try('SELECT count(*), sum(id) FROM t');
CLUSTER t USING i;
SELECT * FROM try('SELECT count(*), sum(id) FROM t');
VACUUM t;
SELECT * FROM try('SELECT count(*), sum(id) FROM t');
VACUUM FULL t;
VACUUM t;
SELECT * FROM try('SELECT count(*), sum(id) FROM t');
ALTER TABLE t ADD COLUMN a int DEFAULT 5;
SELECT * FROM try('SELECT count(*), sum(id), sum(a) FROM t');
BEGIN;
ALTER TABLE t ADD COLUMN c int DEFAULT 6;
SELECT * FROM try('SELECT count(*), sum(c) FROM t');
ROLLBACK;
ALTER TABLE t ADD COLUMN c int DEFAULT 7;
SELECT * FROM try('SELECT count(*), sum(c) FROM t');
ALTER TABLE t DROP COLUMN a;
ALTER TABLE t ADD COLUMN a text DEFAULT 'deflt';
SELECT * FROM try('SELECT a, count(*), sum(id) FROM t GROUP BY a');
ALTER TABLE t ALTER v TYPE int;
VACUUM t;
SELECT * FROM try('SELECT count(*), sum(v) FROM t');
ALTER TABLE t ALTER n TYPE numeric(12,2), ALTER s TYPE varchar;
SELECT * FROM try('SELECT s, sum(n) FROM t GROUP BY s');
BEGIN;
TRUNCATE t;
INSERT INTO t (id) VALUES (1), (2);
SELECT * FROM try('SELECT count(*), sum(id) FROM t');
ROLLBACK;
SELECT * FROM try('SELECT count(*), sum(id) FROM t');
TRUNCATE t;
SELECT * FROM try('SELECT count(*), sum(id) FROM t');

-- Relations that are never cached: without WAL, temporary, catalogs, files of this transaction
CREATE UNLOGGED TABLE u AS SELECT i FROM generate_series(1, 2000) i;
CREATE TEMPORARY TABLE temp AS SELECT i FROM generate_series(1, 2000) i;
VACUUM u, temp;
SELECT * FROM try('SELECT count(*), sum(i) FROM u');
SELECT * FROM try('SELECT count(*), sum(i) FROM temp');
SELECT * FROM try('SELECT count(*) FROM pg_class');
-- whose rows VACUUM updates in place, while their pages stay all-visible
CREATE TABLE more (i int) WITH (autovacuum_enabled = off);
VACUUM pg_class;
SELECT outcome, again, last FROM try('SELECT sum(relpages) FROM pg_class');
INSERT INTO more SELECT generate_series(1, 100000);
VACUUM more;
SELECT outcome, again, last FROM try('SELECT sum(relpages) FROM pg_class');
DROP TABLE more;
ALTER TABLE u SET LOGGED;
VACUUM u;
SELECT * FROM try('SELECT count(*), sum(i) FROM u');
ALTER TABLE u SET UNLOGGED;
SELECT * FROM try('SELECT count(*), sum(i) FROM u');

\set path '/tmp/gpuscan_cache_regress.data'
COPY (SELECT i FROM generate_series(1, 1000) i) TO :'path';
BEGIN;
CREATE TABLE z (i int);
COPY z FROM :'path' (FREEZE);
SELECT * FROM try('SELECT count(*), sum(i) FROM z');
COPY (SELECT i FROM generate_series(1, 3) i) TO :'path';
-- into the last page, which is all-visible and stays so
COPY z FROM :'path' (FREEZE);
SELECT * FROM try('SELECT count(*), sum(i) FROM z');
COMMIT;
SELECT * FROM try('SELECT count(*), sum(i) FROM z');
BEGIN;
TRUNCATE z;
COPY z FROM :'path' (FREEZE);
SELECT * FROM try('SELECT count(*), sum(i) FROM z');
COPY z FROM :'path' (FREEZE);
SELECT * FROM try('SELECT count(*), sum(i) FROM z');
COMMIT;
SELECT * FROM try('SELECT count(*), sum(i) FROM z');

-- A worker does not know that its leader's transaction made the file.
CREATE FUNCTION count_y(leader int) RETURNS text LANGUAGE plpgsql PARALLEL SAFE AS $$
BEGIN
  RETURN (SELECT count(*) FROM y) || CASE WHEN pg_backend_pid() <> leader THEN ' rows, counted by a worker' ELSE ' rows' END;
END $$;
SELECT pg_backend_pid() AS leader \gset
COPY (SELECT i FROM generate_series(1, 1000) i) TO :'path';
BEGIN;
CREATE TABLE y (i int);
COPY y FROM :'path' (FREEZE);
COPY (SELECT i FROM generate_series(1, 3) i) TO :'path';
SET LOCAL force_parallel_mode = on;
SET LOCAL max_parallel_workers_per_gather = 2;
SELECT count_y(:leader);
SELECT count_y(:leader);
COPY y FROM :'path' (FREEZE);
SELECT count_y(:leader);
COMMIT;

-- Values that cannot be cached: out of line, NaN, malformed for the device; the others can
CREATE TABLE w (id int, big text, n numeric, m numeric) WITH (autovacuum_enabled = off);
INSERT INTO w SELECT i, CASE WHEN i % 500 = 0 THEN repeat('x', 100000) ELSE 'short' END, CASE WHEN i = 1000 THEN 'NaN'::numeric ELSE i END, i FROM generate_series(1, 2000) i;
VACUUM w;
SELECT * FROM try('SELECT count(*), sum(id) FROM w WHERE big <> ''x''');
SELECT * FROM try('SELECT count(*), sum(id) FROM w');
SELECT * FROM try('SELECT sum(n) FROM w');
SELECT * FROM try('SELECT sum(m) FROM w');

-- Partitions, some of them cached
CREATE TABLE p (id int, v int) PARTITION BY RANGE (id);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (5000);
CREATE TABLE p2 (v int, gone int, id int);
ALTER TABLE p2 DROP COLUMN gone;
ALTER TABLE p ATTACH PARTITION p2 FOR VALUES FROM (5000) TO (100000);
INSERT INTO p SELECT i, i % 100 FROM generate_series(1, 10000) i;
VACUUM p1;
SELECT * FROM try('SELECT v, count(*), sum(id) FROM p GROUP BY v');
VACUUM p2;
SELECT * FROM try('SELECT v, count(*), sum(id) FROM p GROUP BY v');
SELECT * FROM try('SELECT count(*), sum(id) FROM p WHERE id > 6000');

-- Workers that read what is not cached
CREATE TABLE fed (id int, v int) WITH (autovacuum_enabled = off);
INSERT INTO fed SELECT i, i % 10 FROM generate_series(1, 50000) i;
VACUUM fed;
DELETE FROM fed WHERE id BETWEEN 10000 AND 10010;
SET force_parallel_mode = on;
SET max_parallel_workers_per_gather = 2;
SELECT * FROM try('SELECT v, count(*), sum(id) FROM fed GROUP BY v');
RESET force_parallel_mode;
SET max_parallel_workers_per_gather = 0;

-- Whatever fails, the replaced plan runs
SET gpuscan.inject_fault = 'device-error:push';
SELECT * FROM try('SELECT count(*), sum(id) FROM p1');
SET gpuscan.inject_fault = 'device-error:finish';
SELECT * FROM try('SELECT count(*), sum(id) FROM p1');
RESET gpuscan.inject_fault;
SELECT * FROM try('SELECT count(*), sum(id) FROM p1');

-- What is there, and away with it
VACUUM ANALYZE fed, p1, p2;
SELECT relation, "column", encoding, blocks_cached > 0 AS cached, blocks_settled >= blocks_cached AS settled, blocks_loose, bytes > 0 AS bytes
FROM gpuscan_cache WHERE database = current_database() AND relation IN ('fed'::regclass, 'p1'::regclass, 'p2'::regclass) ORDER BY relation::text, "column";
SELECT gpuscan_evict('fed') > 0 AS evicted, gpuscan_evict('fed') AS again;
SELECT cached('SELECT count(*) FROM fed');
SELECT gpuscan_evict('p') > 0 AS evicted;
SELECT count(*) FROM gpuscan_cache WHERE relation IN ('fed'::regclass, 'p1'::regclass, 'p2'::regclass);
SELECT gpuscan_prewarm('p', '{id,v}'), gpuscan_prewarm('fed');
SELECT cached('SELECT sum(v) FROM p WHERE id > 0'), cached('SELECT sum(id) FROM fed WHERE v > 3');
-- The planner knows: these queries are PostgreSQL's while their columns are not cached.
CREATE FUNCTION whose(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE plan text;
BEGIN
  EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO plan;
  RETURN CASE WHEN plan LIKE '%GpuAgg%' THEN 'ours' ELSE 'PostgreSQL''s' END;
END $$;
VACUUM ANALYZE fed, p1, p2;
ALTER TABLE fed SET (parallel_workers = 8);
ALTER TABLE p1 SET (parallel_workers = 8);
ALTER TABLE p2 SET (parallel_workers = 8);
SELECT gpuscan_evict('p') + gpuscan_evict('fed') > 0 AS evicted;
SET gpuscan.force = off;
SET gpuscan.request_cost = 1;
SET gpuscan.tuple_cost = 0.05;
SET seq_page_cost = 100;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET max_parallel_workers_per_gather = 8;
SELECT whose('SELECT count(*) FROM fed'), whose('SELECT sum(v) FROM fed'), whose('SELECT sum(id) FROM fed'), whose('SELECT sum(v) FROM p');
SELECT gpuscan_prewarm('fed', '{v}'), gpuscan_prewarm('p', '{v}');
SELECT whose('SELECT count(*) FROM fed'), whose('SELECT sum(v) FROM fed'), whose('SELECT sum(id) FROM fed'), whose('SELECT sum(v) FROM p');
SELECT gpuscan_evict('p') + gpuscan_evict('fed') > 0 AS evicted;
SELECT whose('SELECT count(*) FROM fed'), whose('SELECT sum(v) FROM fed'), whose('SELECT sum(id) FROM fed'), whose('SELECT sum(v) FROM p');
SET gpuscan.force = on;
SET max_parallel_workers_per_gather = 0;
RESET gpuscan.request_cost;
RESET gpuscan.tuple_cost;
RESET seq_page_cost;
RESET parallel_setup_cost;
RESET parallel_tuple_cost;
SELECT gpuscan_prewarm('p', '{nothing}');
SELECT gpuscan_prewarm('p', '{NULL}');
CREATE ROLE gpuscan_cache_nobody;
GRANT USAGE ON SCHEMA cache TO gpuscan_cache_nobody;
SET ROLE gpuscan_cache_nobody;
SELECT gpuscan_prewarm('p', '{id}');
SELECT gpuscan_evict('p');
SELECT count(*) FROM gpuscan_cache;
RESET ROLE;
REVOKE USAGE ON SCHEMA cache FROM gpuscan_cache_nobody;
DROP ROLE gpuscan_cache_nobody;

DROP TABLE t, r, u, z, y, w, p, fed;
