-- A grouping that does not fit into memory runs in passes, on the device, with PostgreSQL's answer.
CREATE SCHEMA passes;
SET search_path = passes, public;
CREATE TABLE t AS SELECT i AS id, NULLIF(i % 5000, 17) AS k, i % 50 AS a, 'text ' || i % 20000 AS b, (i % 1000 / 8.0)::numeric(8,3) AS n, i * 0.125::float8 AS f, i % 3 = 0 AS c FROM generate_series(1, 60000) i;
-- with values that come back detoasted
CREATE TABLE wide AS SELECT i AS id, i % 100 AS a, CASE WHEN i % 1000 = 0 THEN repeat('wide ' || i, 2000) ELSE 'narrow ' || i END AS b FROM generate_series(1, 20000) i;
VACUUM ANALYZE t, wide;
-- The limit counts each thread's memory.
SET gpuscan.cpu_threads = 2;
CREATE FUNCTION passes(query text) RETURNS int LANGUAGE sql AS $$
  SELECT max(m[1]::int) FROM regexp_matches(gpuscan_test.plan(query, 'ANALYZE, TIMING OFF, SUMMARY OFF,'), '"Passes": (\d+)', 'g') m
$$;
CREATE FUNCTION in_passes(VARIADIC queries text[]) RETURNS TABLE (n bigint, outcome text, many bool) LANGUAGE plpgsql AS $$
BEGIN
  PERFORM set_config('gpuscan.force', 'on', true);
  RETURN QUERY SELECT u.n, gpuscan_test.same(q), passes(q) > 1 FROM unnest(queries) WITH ORDINALITY AS u(q, n);
END $$;
SET gpuscan.query_memory_limit = '1MB';
SELECT * FROM in_passes(
  'SELECT count(*), sum(m), sum(c), min(id) FROM (SELECT id, count(*) AS c, sum(n) AS m FROM t GROUP BY id) q',
  'SELECT count(*), sum(m), sum(hashtext(b)), sum(f), sum(c) FROM (SELECT b, a, sum(n) AS m, max(f) AS f, count(*) FILTER (WHERE c) AS c FROM t WHERE id > 100 GROUP BY b, a) q',
  'SELECT count(*), count(n), count(k), sum(s) FROM (SELECT n, k, b, sum(f) AS s FROM t GROUP BY n, k, b HAVING count(*) > 0) q',
  'SELECT count(*), sum(i), sum(j), sum(f) FROM (SELECT k, count(DISTINCT id) AS i, count(DISTINCT b) AS j, sum(f) AS f FROM t GROUP BY k) q',
  'SELECT count(*), sum(hashtext(b)), sum(length(b)) FROM (SELECT DISTINCT b, a FROM wide) q',
  'SELECT a, x.s FROM (VALUES (1), (2)) v(a), LATERAL (SELECT count(*) AS s FROM (SELECT id, b FROM t WHERE t.a <> v.a GROUP BY id, b) q) x');
-- without keys there is nothing to split, and with few groups no need
SELECT * FROM in_passes('SELECT count(DISTINCT id) FROM t', 'SELECT a, count(*) FROM t GROUP BY a', 'SELECT id FROM t WHERE id < 5');
-- what is left to PostgreSQL in a pass is left to it as a whole
SELECT * FROM in_passes('SELECT count(*), sum(s) FROM (SELECT id, sum(10 / (id - 59999)) AS s FROM t GROUP BY id) q');
-- the device's errors in all passes end in the replaced plan
SET gpuscan.inject_fault = 'device-error:push:2';
SELECT * FROM in_passes('SELECT count(*), sum(c) FROM (SELECT id, count(*) AS c FROM t GROUP BY id) q');
RESET gpuscan.inject_fault;
-- a result beyond work_mem, of several passes
SET work_mem = '64kB';
SELECT * FROM in_passes('SELECT count(*), sum(id), sum(c) FROM (SELECT id, b, count(*) AS c FROM t GROUP BY id, b) q');
-- with workers that feed each pass
SET force_parallel_mode = on;
SET max_parallel_workers_per_gather = 2;
SELECT * FROM in_passes('SELECT count(*), sum(id), sum(c) FROM (SELECT id, b, count(*) AS c FROM t GROUP BY id, b) q', 'SELECT count(*), sum(hashtext(b)), sum(length(b)) FROM (SELECT DISTINCT b, a FROM wide) q');
RESET force_parallel_mode;
RESET max_parallel_workers_per_gather;
-- what EXPLAIN shows
SET gpuscan.force = on;
CREATE FUNCTION explained(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
  line text;
BEGIN
  FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) ' || query LOOP
    CONTINUE WHEN line ~ '^ *(Kernel|Bus Traffic)';
    RETURN NEXT regexp_replace(line, '(Passes|Blocks Read|Blocks Loose|Device): .+', '\1: ...');
  END LOOP;
END $$;
SELECT * FROM explained('SELECT id, count(*) FROM t GROUP BY id');
