-- Every aggregate over every type that it takes, with and without GROUP BY and FILTER; over no input; with overflow.
CREATE SCHEMA aggregates;
SET search_path = aggregates, public;

-- Floats are multiples of 1/8, so that sums are exact in every order.
CREATE TABLE t AS SELECT i AS id, i % 4 AS k, (i % 50 - 25)::int2 AS int2, i - 500 AS int4, i * 4000000000 AS int8,
  (i % 64 * 0.125)::float4 AS float4, i * 0.125::float8 AS float8, (i / 7.0)::numeric(10,2) AS numeric, (i / 7.0)::numeric(30,8) AS big,
  date '2024-01-01' + i AS date, timestamp '2024-01-01' + i * interval '1 min' AS timestamp, timestamptz '2024-01-01' + i * interval '1 min' AS timestamptz,
  i % 3 = 0 AS bool, 'x' || i % 9 AS text FROM generate_series(1, 1000) i;
INSERT INTO t (id, k) SELECT i, 3 + i % 2 FROM generate_series(1001, 1010) i;     -- group 4 has NULLs alone
CREATE TABLE empty (LIKE t);

CREATE FUNCTION queries(aggregate text, type text) RETURNS text[] LANGUAGE sql AS $$
  SELECT ARRAY[format('SELECT %s(%s) FROM t', aggregate, type), format('SELECT k, %s(%s) FROM t GROUP BY k', aggregate, type),
    format('SELECT %s(%s) FILTER (WHERE id %% 7 = 1), count(*) FROM t', aggregate, type),
    format('SELECT k, %s(%s) FILTER (WHERE bool) FROM t GROUP BY k', aggregate, type),
    format('SELECT %s(%s) FROM t WHERE k = 4', aggregate, type), format('SELECT %s(%s) FROM t WHERE id = 7', aggregate, type),
    format('SELECT %s(%s) FROM empty', aggregate, type), format('SELECT k, %s(%s) FROM empty GROUP BY k', aggregate, type),
    format('SELECT %1$s(%2$s), %1$s(%2$s), %1$s(CASE WHEN k < 2 THEN %2$s END), count(%2$s) FROM t', aggregate, type)]
$$;
SELECT aggregate, type, s.* FROM (VALUES
  ('count', '{int2,int4,int8,float4,float8,numeric,big,date,timestamp,timestamptz,bool,text}'::text[]),
  ('sum', '{int2,int4,int8,float4,float8,numeric,big}'), ('avg', '{int2,int4,int8,float4,float8,numeric,big}'),
  ('min', '{int2,int4,int8,float4,float8,numeric,big,date,timestamp,timestamptz,text}'), ('max', '{int2,int4,int8,float4,float8,numeric,big,date,timestamp,timestamptz,text}'),
  ('stddev', '{int2,int4,int8,numeric,big}'), ('stddev_pop', '{int2,int4,int8,numeric,big}'), ('stddev_samp', '{int2,int4,int8,numeric,big}'),
  ('variance', '{int2,int4,int8,numeric,big}'), ('var_pop', '{int2,int4,int8,numeric,big}'), ('var_samp', '{int2,int4,int8,numeric,big}'),
  ('bool_and', '{bool}'), ('bool_or', '{bool}'), ('every', '{bool}'), ('bit_and', '{int2,int4,int8}'), ('bit_or', '{int2,int4,int8}'),
  ('bit_xor', '{int4}')) v(aggregate, types),
  unnest(types) type, gpuscan_test.summary(queries(aggregate, type)) s;

SELECT * FROM gpuscan_test.check('SELECT k, string_agg(text, '','' ORDER BY id), count(*) FROM t GROUP BY k', 'SELECT array_agg(int4 ORDER BY id), sum(int4) FROM t');

-- The variance of floats: the last digits depend on the order.
SET gpuscan.force = on;
SELECT f, e.x = o.x AS same FROM (VALUES ('stddev'), ('stddev_pop'), ('variance'), ('var_pop'), ('var_samp')) v(f),
  LATERAL (SELECT set_config('gpuscan.enabled', 'on', false)) s1,
  LATERAL (SELECT gpuscan_test.run(format('SELECT k, round(%s(float8)::numeric, 6), round(%1$s(float4)::numeric, 6) FROM t GROUP BY k', f)) AS x) e,
  LATERAL (SELECT set_config('gpuscan.enabled', 'off', false)) s2,
  LATERAL (SELECT gpuscan_test.run(format('SELECT k, round(%s(float8)::numeric, 6), round(%1$s(float4)::numeric, 6) FROM t GROUP BY k', f)) AS x) o;
RESET gpuscan.enabled;
SELECT gpuscan_test.nodes('SELECT k, stddev(float8), var_pop(float4) FROM t GROUP BY k');
SELECT gpuscan_test.replaced('SELECT k, stddev(float8), var_pop(float4) FROM t GROUP BY k') IS NULL AS on_device;

-- A float sum does not depend on the order, nor on the threads: the same digits again, whatever the rows' order.
CREATE TABLE floats AS SELECT i AS id, sin(i) * 10 ^ (i % 30 - 15) AS x FROM generate_series(1, 20000) i;
CREATE TABLE floats_sorted AS SELECT * FROM floats ORDER BY x;
SELECT count(DISTINCT s) AS sums, count(DISTINCT v) AS variances
FROM (SELECT sum(x)::text AS s, var_pop(x)::text AS v FROM floats UNION ALL SELECT sum(x)::text, var_pop(x)::text FROM floats_sorted
      UNION ALL SELECT sum(x)::text, var_pop(x)::text FROM floats) q;

-- Beyond a type: int8 sums are numeric, int4 sums are int8, numeric sums have no limit.
CREATE TABLE large AS SELECT 9223372036854775807 AS a, 2147483647 AS b, 1e30::numeric(38,0) AS c, 1.7e308::float8 AS d, 3e38::float4 AS e, i AS id
  FROM generate_series(1, 1000) i;
SELECT * FROM gpuscan_test.check(
  'SELECT sum(a), avg(a), sum(b), avg(b) FROM large', 'SELECT stddev(a), var_pop(a + 0 - id), variance(b) FROM large',
  'SELECT sum(c), avg(c) FROM large', 'SELECT sum(d) FROM large', 'SELECT avg(d) FROM large', 'SELECT sum(e) FROM large', 'SELECT avg(e) FROM large',
  'SELECT sum(a + id) FROM large', 'SELECT sum(b * 2) FROM large', 'SELECT id, sum(a), sum(d) FROM large GROUP BY id', 'SELECT sum(d) FROM large WHERE id = 1',
  'SELECT variance(d) FROM large', 'SELECT sum(c * c) FROM large', 'SELECT sum(CASE WHEN id % 2 = 0 THEN d ELSE -d END) FROM large');
