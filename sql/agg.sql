-- GpuAgg: with and without GROUP BY, and what may stand around it.
CREATE SCHEMA agg;
SET search_path = agg, public;
CREATE TABLE t (id int, a int, b int2, c text, d float8, e numeric(10,2), f timestamp, g bool);
INSERT INTO t SELECT i, i % 10, i % 300, 'k' || i % 5, i * 0.125, i % 1000 / 100.0,
  timestamp '2024-01-01' + i * interval '1 hour', i % 3 = 0 FROM generate_series(1, 5000) i;
INSERT INTO t SELECT NULL, i % 3, NULL, NULL, NULL, NULL, NULL, NULL FROM generate_series(1, 20) i;

SELECT * FROM gpuscan_test.check(
  'SELECT count(*) FROM t',
  'SELECT count(*), count(id), sum(id), avg(id), min(id), max(id) FROM t',
  'SELECT sum(d), avg(d), min(d), max(d) FROM t WHERE a = 3',
  'SELECT a, count(*) FROM t GROUP BY a',
  'SELECT a, c, count(*), sum(e), max(f) FROM t GROUP BY a, c',
  'SELECT c, count(*) FROM t WHERE b > 100 GROUP BY c HAVING count(*) > 10',
  'SELECT c, sum(id) FROM t GROUP BY c HAVING sum(id) > 1000 AND max(a) = 9',
  'SELECT count(*) FROM t HAVING count(*) > 10000',
  'SELECT 1 FROM t HAVING true',
  'SELECT count(*) FROM t WHERE a = 1000',
  'SELECT a, count(*) FROM t WHERE a = 1000 GROUP BY a',
  -- keys: not in the target list, twice, expressions, constants
  'SELECT count(*) FROM t GROUP BY a',
  'SELECT a, a, a + 1, count(*) FROM t GROUP BY a, a',
  'SELECT a + b, count(*) FROM t GROUP BY a + b',
  'SELECT (a + b) * 2, a + b FROM t GROUP BY a + b',
  'SELECT a % 3 AS k, CASE WHEN g THEN ''x'' ELSE c END AS l, sum(b) FROM t GROUP BY 1, 2',
  'SELECT 1 AS k, count(*) FROM t GROUP BY 1',
  'SELECT a, count(*) FROM t WHERE a = 4 GROUP BY a',
  'SELECT DISTINCT a, c FROM t',
  'SELECT DISTINCT a % 2 FROM t WHERE g',
  'SELECT a FROM t GROUP BY a',
  'SELECT f::date, count(*) FROM t GROUP BY f::date',
  'SELECT g, count(*), bool_and(g) FROM t GROUP BY g',
  'SELECT d, count(*) FROM t GROUP BY d',
  'SELECT e, count(*), sum(e) FROM t GROUP BY e',
  -- expressions in arguments and above aggregates
  'SELECT sum(a + b), sum(a * 2 - b), max(-a), avg(abs(a - 5)) FROM t',
  'SELECT sum(CASE WHEN g THEN a ELSE 0 END), count(CASE WHEN g THEN 1 END) FROM t',
  'SELECT count(*) * 100 / (1 + sum(a)), coalesce(max(id), 0) + min(a) FROM t',
  'SELECT c, count(*)::text || c, round(avg(e), 3) FROM t GROUP BY c',
  'SELECT c, lower(c), upper(max(a)::text) FROM t GROUP BY c',
  'SELECT sum(a) FILTER (WHERE g), count(*) FILTER (WHERE b > 10), max(f) FILTER (WHERE false) FROM t',
  'SELECT a, sum(b) FILTER (WHERE g), sum(b) FILTER (WHERE NOT g), sum(b) FROM t GROUP BY a',
  'SELECT sum(a), sum(a), avg(a), avg(a + 0), stddev(a), variance(a) FROM t',
  -- DISTINCT
  'SELECT count(DISTINCT a) FROM t',
  'SELECT count(DISTINCT a), count(DISTINCT c), count(*), sum(a) FROM t',
  'SELECT a, count(DISTINCT c), count(DISTINCT b) FILTER (WHERE g), avg(d) FROM t GROUP BY a',
  'SELECT count(DISTINCT a + b) FROM t',
  'SELECT count(DISTINCT a), count(DISTINCT b), count(DISTINCT c), count(DISTINCT d), count(DISTINCT e), count(DISTINCT f), count(DISTINCT g) FROM t',
  'SELECT sum(DISTINCT a) FROM t',
  -- around it
  'SELECT a, count(*) FROM t GROUP BY a ORDER BY 2 DESC, 1 LIMIT 3',
  'SELECT a, count(*), rank() OVER (ORDER BY count(*) DESC, a) FROM t GROUP BY a',
  'SELECT * FROM (SELECT a, count(*) AS n FROM t GROUP BY a) q WHERE n > 505',
  'SELECT n, count(*) FROM (SELECT a, count(*) AS n FROM t GROUP BY a) q GROUP BY n',
  'WITH w AS (SELECT c, sum(e) AS s FROM t GROUP BY c) SELECT x.c, y.s FROM w x JOIN w y USING (c)',
  'SELECT (SELECT max(id) FROM t), (SELECT count(*) FROM t WHERE a = 2)',
  'SELECT a FROM t GROUP BY a UNION SELECT b FROM t WHERE b < 20 GROUP BY b',
  'SELECT a, count(*) FROM t GROUP BY GROUPING SETS ((a), ())',
  'SELECT a, c, count(*) FROM t GROUP BY ROLLUP (a, c)',
  'SELECT id, count(*) FROM t GROUP BY id',
  'SELECT count(*) FROM (SELECT DISTINCT id, b FROM t) q',
  'SELECT count(*) FROM t x, (SELECT count(*) AS n FROM t) y WHERE x.a < 3',
  'SELECT count(*) FROM (SELECT * FROM t WHERE a < 5 LIMIT 10) q',
  'SELECT count(*) FROM (SELECT * FROM t WHERE a < 5 OFFSET 0) q WHERE b > 3'
);

-- Views, functions.
CREATE VIEW v AS SELECT a, count(*) AS n, sum(b) AS s FROM t GROUP BY a;
CREATE FUNCTION f_sql(int) RETURNS bigint LANGUAGE sql STABLE AS 'SELECT count(*) FROM t WHERE a = $1';
CREATE FUNCTION f_plpgsql(x int) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE n bigint; BEGIN SELECT sum(b) INTO n FROM t WHERE a = x; RETURN n; END $$;
SELECT * FROM gpuscan_test.check(
  'SELECT * FROM v WHERE a > 3',
  'SELECT f_sql(x), f_plpgsql(x) FROM generate_series(0, 9) x');

-- Many groups, wide rows, many aggregates.
CREATE TABLE wide AS SELECT i, i % 7919 AS k, i::text AS s FROM generate_series(1, 30000) i;
SELECT * FROM gpuscan_test.check(
  'SELECT i, count(*), sum(k), max(k) FROM wide GROUP BY i',
  'SELECT s, count(*), sum(i) FROM wide GROUP BY s',
  'SELECT k, s, i FROM wide GROUP BY k, s, i',
  'SELECT k, count(DISTINCT s) FROM wide GROUP BY k',
  (SELECT 'SELECT k % 5, ' || string_agg(format('sum(i + %s), count(*) FILTER (WHERE k > %s)', j, j), ', ') || ' FROM wide GROUP BY 1'
   FROM generate_series(1, 60) j));
