-- NULLs: three-valued logic in filters, NULL as a key and an argument, explicit against missing.
CREATE SCHEMA nulls;
SET search_path = nulls, public;
CREATE TABLE t AS SELECT row_number() OVER ()::int AS id, a, b, x, y FROM unnest('{t,f,NULL}'::bool[]) a, unnest('{t,f,NULL}'::bool[]) b, unnest('{0,1,NULL}'::int[]) x, unnest('{0,1,NULL}'::int[]) y;
SELECT * FROM gpuscan_test.summary(ARRAY(SELECT format('SELECT id, %s FROM t WHERE %1$s', c) FROM unnest(ARRAY['a AND b', 'a OR b', 'NOT a', 'NOT (a AND b)', 'NOT (a OR b)', 'a = b', 'a <> b', 'a IS TRUE', 'a IS NOT TRUE',
    'a IS FALSE', 'a IS NOT FALSE', 'a IS UNKNOWN', 'a IS NOT UNKNOWN', '(a AND b) IS UNKNOWN', '(a OR b) IS NOT TRUE', 'a IS DISTINCT FROM b', 'a IS NOT DISTINCT FROM b', 'x = y', 'x <> y', 'x < y', 'NOT x < y', '(x < y) IS NULL', '(x < y) IS NOT TRUE', 'x IS NULL OR y IS NULL',
    'x IS NULL AND y IS NOT NULL', 'x IS DISTINCT FROM y', 'x IS NOT DISTINCT FROM y', 'NOT (x IS DISTINCT FROM y)', 'x IN (0, NULL)', 'x NOT IN (0, NULL)', 'NOT x IN (0, 5)', 'x IN (y, 5)', 'x = ANY (ARRAY[y, 1])', 'coalesce(x, y, 1) = 1', 'nullif(x, y) IS NULL', 'coalesce(a, b)',
    'CASE WHEN a THEN b ELSE x = 1 END', 'CASE x WHEN NULL THEN true WHEN 1 THEN b END', 'greatest(x, y) = 1', 'least(x, y) = 0', 'x + y > 0', 'x BETWEEN 0 AND y', 'a AND x = 1 OR b AND y = 0', 'a AND (b OR x IS NULL)', 'NULL::bool', 'a AND NULL', 'a OR NULL', 'x = NULL', 'x IS DISTINCT FROM NULL']) c));
SELECT * FROM gpuscan_test.check(
  'SELECT x, count(*), count(x), sum(x), count(y), avg(y) FROM t GROUP BY x', 'SELECT x, y, a, count(*) FROM t GROUP BY x, y, a', 'SELECT x, min(y), max(y), bool_and(a), bool_or(b), every(b) FROM t GROUP BY x',
  'SELECT sum(x), avg(x), min(x), max(x), stddev(x), bit_and(x), bool_and(a), count(x), count(DISTINCT x), count(*) FROM t WHERE x IS NULL', 'SELECT sum(x) FILTER (WHERE a IS NULL), count(*) FILTER (WHERE NULL), count(*) FILTER (WHERE a) FROM t',
  'SELECT x, count(DISTINCT y) FROM t GROUP BY x', 'SELECT sum(x + y), sum(coalesce(x, 10)), sum(nullif(x, 1)) FROM t', 'SELECT NULL::int, count(*) FROM t GROUP BY 1', 'SELECT id FROM t WHERE (x, y) IS NULL', 'SELECT id FROM t WHERE ROW(x, y) = ROW(0, 1)');
-- NULL keys stay apart from what may stand for NULL inside.
CREATE TABLE sentinels AS SELECT * FROM unnest('{NULL,0,-1,-2147483648,2147483647,NULL}'::int[], '{NULL,0,-1,-9223372036854775808,9223372036854775807,0}'::int8[], '{NULL,0,NaN,-Infinity,Infinity,0}'::float8[], '{NULL,"","\\N","NULL","null",""}'::text[], '{NULL,infinity,-infinity,2000-01-01,1970-01-01,NULL}'::date[]) s(a, b, c, d, e);
SELECT * FROM gpuscan_test.check('SELECT a, count(*) FROM sentinels GROUP BY a', 'SELECT b, count(*) FROM sentinels GROUP BY b', 'SELECT c, count(*) FROM sentinels GROUP BY c', 'SELECT d, count(*) FROM sentinels GROUP BY d', 'SELECT e, count(*) FROM sentinels GROUP BY e', 'SELECT a, b, c, d, e, count(*) FROM sentinels GROUP BY a, b, c, d, e',
  'SELECT count(DISTINCT a), count(DISTINCT b), count(DISTINCT c), count(DISTINCT d), count(DISTINCT e) FROM sentinels', 'SELECT min(a), max(a), min(b), max(b), min(c), max(c), min(e), max(e) FROM sentinels');
