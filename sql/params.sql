-- Parameters: prepared statements, rescans, LATERAL, values of subqueries.
CREATE SCHEMA params;
SET search_path = params, public;
CREATE TABLE t AS SELECT i AS id, i % 10 AS a, i % 7 AS b, 'x' || i % 4 AS c, (i / 4.0)::numeric(8,2) AS n, i * 0.5::float8 AS f, date '2024-01-01' + i % 30 AS d FROM generate_series(1, 1500) i;
CREATE TABLE keys AS SELECT i AS k, CASE WHEN i % 3 = 0 THEN NULL ELSE 'x' || i % 4 END AS c FROM generate_series(0, 12) i;
ANALYZE t, keys;
SET gpuscan.force = on;

PREPARE agg(int, text) AS SELECT count(*), sum(id), sum(n) FROM t WHERE a = $1 AND c = $2;
PREPARE keyed(int) AS SELECT a + $1 AS k, count(*), sum(b * $1) FROM t GROUP BY a + $1 ORDER BY 1 LIMIT 3;
PREPARE scan(int, int[], date) AS SELECT id FROM t WHERE a = $1 AND b = ANY ($2) AND d <= $3 ORDER BY id LIMIT 5;
SET plan_cache_mode = force_custom_plan;
EXECUTE agg(3, 'x1');
EXECUTE keyed(2);
EXECUTE scan(4, '{1,2}', '2024-01-15');
SET plan_cache_mode = force_generic_plan;
EXPLAIN (COSTS OFF) EXECUTE agg(3, 'x1');
EXECUTE agg(3, 'x1');
EXECUTE agg(3, NULL);
EXECUTE agg(NULL, 'x1');
EXECUTE agg(8, 'x2');
EXECUTE keyed(2);
EXECUTE keyed(NULL);
EXECUTE keyed(2147483647);
EXECUTE scan(4, '{1,2}', '2024-01-15');
EXECUTE scan(4, '{}', '2024-01-15');
EXECUTE scan(4, NULL, '2024-01-15');
EXECUTE scan(4, '{1,NULL}', 'infinity');
SET plan_cache_mode = auto;
EXECUTE agg(1, 'x3'); EXECUTE agg(2, 'x0'); EXECUTE agg(3, 'x1'); EXECUTE agg(4, 'x2'); EXECUTE agg(5, 'x3'); EXECUTE agg(6, 'x0'); EXECUTE agg(7, 'x1');
-- The plan follows the settings and the table.
SET gpuscan.enabled = off;
EXECUTE agg(3, 'x1');
SET gpuscan.enabled = on;
ALTER TABLE t ADD COLUMN extra int DEFAULT 5;
EXECUTE agg(3, 'x1');
ALTER TABLE t ALTER COLUMN a TYPE int8;
EXECUTE agg(3, 'x1');
DEALLOCATE ALL;

SELECT * FROM gpuscan_test.check(
  'SELECT k, n, s FROM keys, LATERAL (SELECT count(*) AS n, sum(id) AS s FROM t WHERE a = k) q', 'SELECT k, n FROM keys LEFT JOIN LATERAL (SELECT count(*) AS n FROM t WHERE t.c = keys.c AND t.a < keys.k) q ON true', 'SELECT k, q.id FROM keys, LATERAL (SELECT id FROM t WHERE a = k ORDER BY id LIMIT 2) q',
  'SELECT k, q.* FROM keys, LATERAL (SELECT a, count(*) FROM t WHERE b = k GROUP BY a HAVING count(*) > k * 3) q', 'SELECT k, (SELECT sum(n) FROM t WHERE a = k) FROM keys', 'SELECT k, (SELECT max(id + k) FROM t WHERE b = k % 7) FROM keys', 'SELECT k, ARRAY(SELECT a + k FROM t WHERE id < 4) FROM keys',
  'SELECT count(*) FROM t WHERE a = (SELECT max(k) FROM keys WHERE k < 10)', 'SELECT count(*) FROM t WHERE id > (SELECT avg(id) FROM t)', 'SELECT a, count(*) FROM t WHERE n > (SELECT avg(n) FROM t) GROUP BY a HAVING count(*) > (SELECT min(k) FROM keys)', 'SELECT count(*) + (SELECT 1), (SELECT max(k) FROM keys) FROM t',
  'SELECT count(*) FROM t WHERE a = (SELECT k FROM keys WHERE k = 99)', 'SELECT k FROM keys WHERE k IN (SELECT a FROM t WHERE b = 3)', 'SELECT k FROM keys WHERE k NOT IN (SELECT a FROM t WHERE b = 3)', 'SELECT k FROM keys WHERE EXISTS (SELECT 1 FROM t WHERE a = k AND b = k)',
  'SELECT id FROM t WHERE a IN (SELECT k FROM keys WHERE keys.c = t.c) AND id < 60', 'SELECT x.k, y.k, (SELECT count(*) FROM t WHERE a = x.k AND b = y.k) FROM keys x, keys y WHERE x.k < 5', 'WITH RECURSIVE r(i, n) AS (SELECT 0, 0::bigint UNION ALL SELECT i + 1, (SELECT count(*) FROM t WHERE a = i) FROM r WHERE i < 9) SELECT * FROM r'
);
-- The inner side of a nested loop.
SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_material = off; SET enable_memoize = off;
SELECT * FROM gpuscan_test.check('SELECT count(*), sum(t.id) FROM keys JOIN t ON t.a = keys.k WHERE t.b > 2', 'SELECT k, t.id FROM keys LEFT JOIN t ON t.a = keys.k AND t.id < 20', 'SELECT count(*) FROM keys x JOIN (SELECT a, count(*) AS n FROM t GROUP BY a) q ON q.a = x.k');
RESET ALL;
SET search_path = params, public;
SET gpuscan.force = on;
-- PL/pgSQL: variables are parameters.
CREATE FUNCTION f(x int, y text) RETURNS TABLE (n bigint, s numeric) LANGUAGE plpgsql AS $$
BEGIN RETURN QUERY SELECT count(*), sum(t.n) FROM t WHERE a = x AND c = y; END $$;
SELECT i, f.* FROM generate_series(1, 9) i, f(i, 'x' || i % 4);
-- Beside parallel query.
SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; SET max_parallel_workers_per_gather = 2; SET force_parallel_mode = on;
SELECT * FROM gpuscan_test.check('SELECT a, count(*), sum(n) FROM t GROUP BY a', 'SELECT id FROM t WHERE a = 3 AND c = ''x1''', 'SELECT x.a, count(*) FROM t x JOIN t y USING (id) GROUP BY 1', 'SELECT count(*) FROM t WHERE a = (SELECT max(k) FROM keys WHERE k < 10)', 'SELECT k, (SELECT sum(n) FROM t WHERE a = k) FROM keys');
