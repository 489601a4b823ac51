-- Parallel workers that feed one request
CREATE SCHEMA feeders;
SET search_path = feeders, public;
SET gpuscan.force = on;
SET max_parallel_workers_per_gather = 2;

CREATE TABLE f (id int, k int, t text, n numeric(10,2));
INSERT INTO f SELECT i, i % 1000, 'text ' || i % 77, i * 0.25 FROM generate_series(1, 60000) i;
INSERT INTO f SELECT i, 5, repeat(md5(i::text), 300), NULL FROM generate_series(1, 200) i;
VACUUM (FREEZE, ANALYZE) f;
DELETE FROM f WHERE id % 97 = 0;
UPDATE f SET k = k + 1 WHERE id % 101 = 0;

CREATE TABLE fp (id int, k int, t text) PARTITION BY RANGE (id);
CREATE TABLE fp1 PARTITION OF fp FOR VALUES FROM (0) TO (20000);
CREATE TABLE fp2 (t text, k int, id int);
ALTER TABLE fp ATTACH PARTITION fp2 FOR VALUES FROM (20000) TO (70000);
INSERT INTO fp SELECT id, k, t FROM f;
ANALYZE fp;

-- whether EXPLAIN ANALYZE counted workers; how many depends on the device
CREATE FUNCTION workers(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE line text; found text := 'no workers';
BEGIN
  FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) ' || query LOOP
    IF line LIKE '%Workers Launched%' THEN
      found := 'workers';
    END IF;
  END LOOP;
  RETURN found;
END $$;

-- a table with options, which leave it to others how many there are
CREATE TABLE options (id int, t text) WITH (fillfactor = 10, autovacuum_enabled = off);
INSERT INTO options SELECT i, repeat('x', 400) FROM generate_series(1, 1500) i;
SELECT workers('SELECT count(*) FROM options WHERE t || id ~ ''7'''), workers('SELECT count(*) FROM options WHERE id = 7');

-- a small table is read by one process
SELECT workers('SELECT k, count(*) FROM f GROUP BY k');
SET force_parallel_mode = on;
SELECT workers('SELECT k, count(*) FROM f GROUP BY k');
SELECT gpuscan_test.same('SELECT k, count(*), sum(n), max(id), avg(id) FROM f GROUP BY k');
SELECT gpuscan_test.same('SELECT t, count(*) FROM f GROUP BY t');
SELECT gpuscan_test.same('SELECT count(*), count(DISTINCT k), sum(n) FROM f WHERE id > 50');
SELECT gpuscan_test.same('SELECT k, count(*), max(id) FROM fp GROUP BY k');
SELECT workers('SELECT k, count(*), max(id) FROM fp GROUP BY k');
SELECT gpuscan_test.same('SELECT k, count(*) FROM f WHERE k < 0 GROUP BY k');

-- our own changes: workers see them as we do
BEGIN;
UPDATE f SET k = -1 WHERE id < 100;
SAVEPOINT s;
DELETE FROM f WHERE id BETWEEN 200 AND 300;
INSERT INTO f VALUES (1, -2, 'new', 1);
UPDATE f SET k = -3 WHERE k = -2;
SELECT gpuscan_test.same('SELECT k, count(*), sum(n) FROM f GROUP BY k');
ROLLBACK TO s;
SELECT gpuscan_test.same('SELECT k, count(*), sum(n) FROM f GROUP BY k');
ROLLBACK;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT gpuscan_test.same('SELECT k, count(*), sum(n) FROM f GROUP BY k');
COMMIT;

-- a table made in this transaction
BEGIN;
CREATE TABLE fnew AS SELECT * FROM f;
SELECT gpuscan_test.same('SELECT k, count(*), sum(n) FROM fnew GROUP BY k');
SELECT workers('SELECT k, count(*), sum(n) FROM fnew GROUP BY k');
ROLLBACK;

-- no worker: a temporary table, a table that asks for none, a session that wants none
CREATE TEMP TABLE ft AS SELECT * FROM f;
SELECT workers('SELECT k, count(*) FROM ft GROUP BY k');
SELECT gpuscan_test.same('SELECT k, count(*), sum(n) FROM ft GROUP BY k');
SET max_parallel_workers_per_gather = 0;
SELECT workers('SELECT k, count(*) FROM f GROUP BY k');
SET max_parallel_workers_per_gather = 2;
SET max_parallel_workers = 0;
SELECT workers('SELECT k, count(*) FROM f GROUP BY k');
SELECT gpuscan_test.same('SELECT k, count(*), sum(n) FROM f GROUP BY k');
RESET max_parallel_workers;

-- inside a function, in a loop, and under a writing query
CREATE TABLE fsum AS SELECT k, count(*) AS n FROM f GROUP BY k;
SELECT sum(n) FROM fsum;
DO $$
DECLARE r record;
BEGIN
  FOR i IN 1 .. 3 LOOP
    FOR r IN SELECT k, count(*) AS n FROM f WHERE id > i GROUP BY k HAVING count(*) > 59 LOOP
      INSERT INTO fsum VALUES (-r.k, r.n);
    END LOOP;
  END LOOP;
END $$;
SELECT count(*), sum(n) FROM fsum WHERE k < 0;

-- a failed request: the replaced plan runs, and the workers end
SET gpuscan.inject_fault = 'device-error:push:3';
SELECT workers('SELECT k, count(*) FROM f GROUP BY k');
SELECT gpuscan_test.same('SELECT k, count(*), sum(n) FROM f GROUP BY k');
RESET gpuscan.inject_fault;

-- an error in the leader, and one in a worker's part
SELECT gpuscan_test.same('SELECT k, sum(1000000000 + id) FROM f GROUP BY k');
SELECT gpuscan_test.same('SELECT k, sum(2147483647 - 30000 + id) FROM f GROUP BY k');
SET statement_timeout = '1ms';
SELECT k, count(*), sum(n) FROM f GROUP BY k;
RESET statement_timeout;
