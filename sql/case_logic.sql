-- What PostgreSQL does not evaluate raises no error; what it does raises the same one.
CREATE SCHEMA case_logic;
SET search_path = case_logic, public;
CREATE TABLE t AS SELECT i AS id, i % 5 AS d, i::int8 AS v, (i % 5 - 2)::float8 AS f, i % 2 = 0 AS b FROM generate_series(1, 2000) i;
INSERT INTO t VALUES (2001, 0, 9223372036854775807, -1, NULL), (2002, NULL, NULL, NULL, NULL);
SELECT * FROM gpuscan_test.check(
  'SELECT sum(CASE WHEN d = 0 THEN 0 ELSE 100 / d END) FROM t', 'SELECT sum(CASE WHEN d <> 0 THEN 100 / d END) FROM t', 'SELECT sum(CASE d WHEN 0 THEN -1 ELSE 1000 % d END) FROM t', 'SELECT count(*) FROM t WHERE CASE WHEN d = 0 THEN false ELSE 10 / d > 4 END',
  'SELECT sum(CASE WHEN v < 9223372036854775807 THEN v + 1 ELSE 0 END) FROM t', 'SELECT CASE WHEN d = 0 THEN NULL ELSE 12 / d END, count(*) FROM t GROUP BY 1', 'SELECT count(*) FROM t WHERE coalesce(nullif(d, 0), 1) = 1 AND 100 / coalesce(nullif(d, 0), 1) = 100',
  'SELECT sum(100 / nullif(d, 0)) FROM t', 'SELECT sum(coalesce(d, 1 / (d - d))) FROM t WHERE id < 2002', 'SELECT sum(coalesce(1, 1 / d)) FROM t', 'SELECT d, sum(id) FILTER (WHERE d <> 0), sum(CASE WHEN d <> 0 THEN id / d ELSE 0 END) FROM t GROUP BY d',
  'SELECT count(*) FROM t WHERE d <> 0 AND 10 / d > 4', 'SELECT count(*) FROM t WHERE d = 0 OR 10 / d > 4', 'SELECT sum(10 / d) FROM t WHERE d <> 0', 'SELECT sum(10 / d) FILTER (WHERE d <> 0) FROM t', 'SELECT id, 10 / d FROM t WHERE d > 3 AND id < 50',
  'SELECT count(*) FROM t WHERE NOT (d = 0 OR 10 / d < 3)', 'SELECT count(*) FROM t WHERE (d <> 0 AND 10 / d > 4) IS NOT TRUE', 'SELECT count(*) FROM t WHERE CASE WHEN b THEN d > 2 AND 5 / (d - 1) > 0 ELSE d <> 0 AND 8 / d > 1 END', 'SELECT count(*) FROM t WHERE b OR d = 0 OR 10 / d = 2',
  'SELECT CASE WHEN d > 2 THEN CASE WHEN b THEN ''a'' END WHEN d > 1 THEN ''b'' END, count(*) FROM t GROUP BY 1', 'SELECT CASE d WHEN 1 THEN ''one'' WHEN NULL THEN ''null'' ELSE ''many'' END, count(*) FROM t GROUP BY 1', 'SELECT greatest(d, NULL, 2), least(d, 3), count(*) FROM t GROUP BY 1, 2', 'SELECT greatest(d, 10 / nullif(d, 0)) FROM t WHERE id < 20',
  -- errors
  'SELECT count(*) FROM t WHERE 10 / d > 4', 'SELECT count(*) FROM t WHERE 10 / d > 4 AND d <> 0', 'SELECT sum(10 / d) FROM t', 'SELECT 10 / d, count(*) FROM t GROUP BY 1', 'SELECT sum(v + 1) FROM t', 'SELECT count(*) FROM t WHERE v + 1 > 0', 'SELECT max(v * 2) FROM t', 'SELECT sum(1 / f) FROM t', 'SELECT id, 10 / d FROM t WHERE id < 20',
  'SELECT count(*) FROM t WHERE v::int4 > 0', 'SELECT count(*) FROM t WHERE id::int2 > 0 AND v::int2 > 0', 'SELECT count(10 / d) FROM t', 'SELECT count(DISTINCT 10 / d) FROM t', 'SELECT greatest(1, 10 / d) FROM t', 'SELECT count(*) FILTER (WHERE 10 / d > 1) FROM t', 'SELECT count(*) FROM t GROUP BY d HAVING 10 / d > 1',
  'SELECT count(*) FROM t HAVING 1 / (count(*) - 2002) > 0', 'SELECT count(*) / (sum(d) - sum(d)) FROM t', 'SELECT exp(1000) FROM t WHERE d = 7', 'SELECT count(*) FROM t WHERE d = 7 AND 1 / (d - d) > 0', 'SELECT count(*) FROM t WHERE 1 / 0 > d', 'SELECT sum(10 / d) FROM t WHERE false',
  -- a LIMIT stops before the row with the error
  'SELECT 10 / d FROM t WHERE id < 100 LIMIT 4', 'SELECT id FROM t WHERE 10 / d > 0 LIMIT 3', 'SELECT EXISTS (SELECT 1 FROM t WHERE 10 / d > 0)'
);
-- Constant filters.
SELECT * FROM gpuscan_test.check('SELECT count(*) FROM t WHERE false', 'SELECT count(*) FROM t WHERE NULL::bool', 'SELECT d, count(*) FROM t WHERE false GROUP BY d', 'SELECT count(*) FROM t WHERE 1 = (SELECT 1)', 'SELECT count(*) FROM t WHERE (SELECT false)', 'SELECT count(*), sum(d) FROM t WHERE current_setting(''search_path'') = ''nope''', 'SELECT id FROM t WHERE d = 3 AND current_setting(''search_path'') <> ''nope'' AND id < 20', 'SELECT id FROM t WHERE d = 3 AND (SELECT true) AND id < 20');
