-- EXPLAIN in every format.
CREATE SCHEMA explains;
SET search_path = explains, public;
CREATE TABLE t AS SELECT i AS id, i % 10 AS a, 'x' || i % 4 AS b, (i / 2.0)::numeric(8,1) AS n FROM generate_series(1, 1000) i;
ANALYZE t;
SET gpuscan.force = on;
EXPLAIN (COSTS OFF) SELECT id FROM t WHERE a = 3;
EXPLAIN (COSTS OFF) SELECT count(*), sum(n) FROM t WHERE a = 3;
EXPLAIN (COSTS OFF) SELECT a, count(*) FROM t WHERE b = 'x1' GROUP BY a HAVING count(*) > 3 ORDER BY 2 DESC LIMIT 2;
EXPLAIN (COSTS OFF) SELECT id FROM t WHERE a = 3 AND b LIKE quote_ident(id || '%');
EXPLAIN (COSTS OFF, VERBOSE) SELECT a + 1, count(*) FILTER (WHERE b = 'x1'), avg(n) FROM t WHERE id < 500 GROUP BY a + 1;
EXPLAIN (COSTS OFF, VERBOSE) SELECT id, n FROM t WHERE a IN (1, 2, 3) OR b = 'x2';
EXPLAIN (COSTS OFF) SELECT * FROM (SELECT a, count(*) AS n FROM t GROUP BY a) q JOIN t USING (a) WHERE q.n > 3;
EXPLAIN (COSTS OFF) SELECT (SELECT count(*) FROM t u WHERE u.a = t.id) FROM t WHERE a = 1;
-- Numbers of work done change from run to run: their lines stay, their digits go, as does the device's name.
-- What only a GPU has goes altogether.
CREATE FUNCTION masked(query text, options text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE line text;
BEGIN
  FOR line IN EXECUTE format('EXPLAIN (%s) %s', options, query) LOOP
    RETURN QUERY SELECT regexp_replace(regexp_replace(x, '(\mDevice"?: "?)' || gpuscan_test.device() || '[^"]*', '\1own'), '\d+(\.\d+)?', 'N', 'g')
      FROM string_to_table(line, E'\n') x WHERE x !~ '^ *("?Kernel"?|Bus Traffic):';
  END LOOP;
END $$;
SELECT masked('SELECT a, count(*) FROM t WHERE b = ''x1'' GROUP BY a', 'ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF');
SELECT masked('SELECT id FROM t WHERE a = 3', 'ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF');
SELECT masked('SELECT a, count(*) FROM t WHERE b = ''x1'' GROUP BY a', 'ANALYZE, VERBOSE, COSTS OFF, TIMING OFF, SUMMARY OFF');
SELECT masked('SELECT a, count(*) FROM t WHERE b = ''x1'' GROUP BY a', 'ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, FORMAT JSON');
SELECT masked('SELECT id FROM t WHERE a = 3', 'ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, FORMAT YAML');
SELECT masked('SELECT a, count(*) FROM t GROUP BY a', 'COSTS OFF, FORMAT XML');
SELECT masked('SELECT id FROM t WHERE a = 3', 'COSTS OFF, FORMAT JSON');
-- never executed, executed twice
SELECT masked('SELECT (SELECT count(*) FROM t WHERE a = id + k) FROM (VALUES (1), (2)) v(k)', 'ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF');
SELECT masked('SELECT count(*) FROM t WHERE a = 3 AND (SELECT false)', 'ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF');
-- the replaced plan ran
SELECT masked('SELECT a * ''-0''::float8, count(*) FROM t WHERE a = 0 GROUP BY 1', 'ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF');
SET gpuscan.inject_fault = 'device-error:begin';
-- (how far it had read when it heard of the fault varies)
SELECT * FROM masked('SELECT count(*) FROM t WHERE a = 3', 'ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF') line WHERE line NOT LIKE '%Blocks %';
SELECT masked('SELECT id FROM t WHERE a = 3', 'ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, FORMAT JSON');
RESET gpuscan.inject_fault;
-- off, and not worth it
SET gpuscan.enabled = off;
EXPLAIN (COSTS OFF) SELECT count(*) FROM t WHERE a = 3;
SET gpuscan.enabled = on;
RESET gpuscan.force;
EXPLAIN (COSTS OFF) SELECT count(*) FROM t WHERE a = 3;
-- a large table is worth it, without being forced; a selective index scan is not
CREATE TABLE large AS SELECT i AS id, i % 1000 AS a, i * 0.5 AS f FROM generate_series(1, 500000) i;
CREATE INDEX ON large (id);
VACUUM ANALYZE large;
SELECT gpuscan_test.nodes('SELECT a, count(*), sum(f) FROM large GROUP BY a') AS grouped, gpuscan_test.nodes('SELECT count(*) FROM large WHERE id = 5') AS by_index;
-- what a device does is no reason to compile the rest
CREATE FUNCTION compiled(query text) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE plan json;
BEGIN
  EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO plan;
  RETURN plan->0->'JIT' IS NOT NULL;
END $$;
SET jit = on;
SET jit_above_cost = 1000;
SELECT compiled('SELECT a, count(*) FROM large GROUP BY a') AS grouped, compiled('SELECT id FROM large WHERE a = 3') AS scanned;
SELECT compiled('SELECT a, count(*) FROM large GROUP BY a, f') = pg_jit_available() AS many_groups;
SET gpuscan.enabled = off;
SELECT compiled('SELECT a, count(*) FROM large GROUP BY a') = pg_jit_available() AS off;
