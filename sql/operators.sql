-- Every operator and cast that may be offloaded, over pairs of values with NULLs, extremes, NaN and infinities,
-- row by row, so that one error does not hide the others.
CREATE SCHEMA operators;
SET search_path = operators, public;

CREATE TABLE samples (type text, vals text[]);
INSERT INTO samples VALUES
  ('int2', '{0,1,-1,7,-7,32767,-32768,NULL}'), ('int4', '{0,1,-1,7,46341,2147483647,-2147483648,NULL}'),
  ('int8', '{0,1,-1,3037000500,9223372036854775807,-9223372036854775808,NULL}'),
  ('float4', '{0,1,-1.5,3e38,1e-45,NaN,Infinity,-Infinity,NULL}'), ('float8', '{0,1,-1.5,1.7e308,5e-324,NaN,Infinity,-Infinity,NULL}'),
  ('numeric(10,2)', '{0,1.00,-0.01,99999999.99,-99999999.99,12.34,NULL}'), ('numeric(30,10)', '{0,1.0000000001,99999999999999999999.9999999999,-5,NULL}'),
  ('numeric', '{0,1.50,1.5,NaN,Infinity,-Infinity,1e30,NULL}'),
  ('date', '{2024-01-01,2024-02-29,infinity,-infinity,4713-01-01 BC,5874897-12-31,NULL}');

-- One row of (a, b) for each pair; a query for each row and operator.
CREATE FUNCTION pairs(ltype text, rtype text, VARIADIC operators text[]) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
  rel text := format('%I', ltype || ' ' || rtype);
  n int;
  queries text[];
BEGIN
  EXECUTE format('CREATE TABLE IF NOT EXISTS %s AS SELECT (row_number() OVER ())::int AS id, l::%s AS a, r::%s AS b
    FROM samples x, samples y, unnest(x.vals) l, unnest(y.vals) r WHERE x.type = %L AND y.type = %L',
    rel, ltype, rtype, ltype, rtype);
  EXECUTE format('SELECT count(*) FROM %s', rel) INTO n;
  SELECT array_agg(format('SELECT sum(id), min(a %s b), count(a %1$s b) FROM %s WHERE id = %s', op, rel, i)) INTO queries
    FROM unnest(operators) op, generate_series(1, n) i WHERE op IN ('+', '-', '*', '/', '%');
  RETURN coalesce(queries, '{}') ||
    ARRAY(SELECT format('SELECT id, a %s b FROM %s WHERE a %1$s b', op, rel) FROM unnest(operators) op WHERE op IN ('=', '<>', '<', '<=', '>', '>=')) ||
    ARRAY(SELECT format('SELECT a %s b, count(*) FROM %s GROUP BY 1', op, rel) FROM unnest(operators) op WHERE op IN ('=', '<>', '<', '<=', '>', '>='));
END $$;

CREATE FUNCTION casts(ltype text, VARIADIC targets text[]) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
  rel text := format('%I', 'unary ' || ltype);
  n int;
BEGIN
  EXECUTE format('CREATE TABLE IF NOT EXISTS %s AS SELECT (row_number() OVER ())::int AS id, l::%s AS a FROM samples x, unnest(x.vals) l WHERE x.type = %L',
    rel, ltype, ltype);
  EXECUTE format('SELECT count(*) FROM %s', rel) INTO n;
  RETURN ARRAY(SELECT format('SELECT %s AS k, count(*) FROM %s WHERE id = %s GROUP BY 1', replace(target, '?', 'a'), rel, i)
    FROM unnest(targets) target, generate_series(1, n) i);
END $$;

SELECT l || ' ' || r AS types, s.* FROM (VALUES ('int2', 'int2'), ('int2', 'int4'), ('int4', 'int2'), ('int4', 'int4'),
  ('int2', 'int8'), ('int8', 'int2'), ('int4', 'int8'), ('int8', 'int4'), ('int8', 'int8')) v(l, r),
  gpuscan_test.summary(pairs(l, r, '+', '-', '*', '/', '=', '<>', '<', '<=', '>', '>=')) s;
SELECT l AS types, s.* FROM (VALUES ('int2'), ('int4'), ('int8')) v(l), gpuscan_test.summary(pairs(l, l, '%')) s;
SELECT l || ' ' || r AS types, s.* FROM (VALUES ('float4', 'float4'), ('float4', 'float8'), ('float8', 'float4'), ('float8', 'float8')) v(l, r),
  gpuscan_test.summary(pairs(l, r, '+', '-', '*', '/', '=', '<>', '<', '<=', '>', '>=')) s;
SELECT l || ' ' || r AS types, s.* FROM (VALUES ('numeric(10,2)', 'numeric(10,2)'), ('numeric(10,2)', 'numeric(30,10)'),
  ('numeric(30,10)', 'numeric(30,10)')) v(l, r),
  gpuscan_test.summary(pairs(l, r, '+', '-', '*', '=', '<>', '<', '<=', '>', '>=')) s;
SELECT l || ' ' || r AS types, s.* FROM (VALUES ('numeric', 'numeric'), ('numeric(10,2)', 'int4'), ('int8', 'numeric(10,2)')) v(l, r),
  gpuscan_test.summary(pairs(l, r, '+', '*', '=', '<', '>=')) s;
SELECT s.* FROM gpuscan_test.summary(pairs('date', 'date', '-', '=', '<>', '<', '<=', '>', '>=')) s;
SELECT s.* FROM gpuscan_test.summary(pairs('date', 'int4', '+', '-')) s;

-- Unary operators and casts; ? stands for the column.
SELECT l AS type, s.* FROM (VALUES
  ('int2', '{- ?,abs(?),?::int4,?::int8,?::float4,?::float8,?::numeric}'::text[]),
  ('int4', '{- ?,abs(?),?::int2,?::int8,?::float4,?::float8,?::numeric,?::bool}'),
  ('int8', '{- ?,abs(?),?::int2,?::int4,?::float4,?::float8,?::numeric}'),
  ('float4', '{- ?,abs(?),?::int2,?::int4,?::int8,?::float8}'),
  ('float8', '{- ?,abs(?),?::int2,?::int4,?::int8,?::float4}'),
  ('numeric(10,2)', '{- ?,abs(?),?::int2,?::int4,?::int8,?::float4,?::float8,"?::numeric(10,1)","?::numeric(4,2)","?::numeric(20,6)"}'),
  ('numeric(30,10)', '{- ?,abs(?),?::int8,?::float8,"?::numeric(20,2)","?::numeric(38,15)"}'),
  ('date', '{?::timestamp,?::timestamptz}')) v(l, targets),
  gpuscan_test.summary(casts(l, VARIADIC targets)) s;

-- Rounding halves: floats to even, numerics away from zero.
CREATE TABLE halves AS SELECT i, i / 2.0::float8 AS f, (i / 2.0::float4)::float4 AS f4, (i / 2.0)::numeric(10,1) AS n FROM generate_series(-9, 9) i;
SELECT * FROM gpuscan_test.check(
  'SELECT f::int4, f::int8, f::int2, f4::int4, f4::int8, count(*) FROM halves GROUP BY 1, 2, 3, 4, 5',
  'SELECT n::int4, n::int8, n::int2, count(*) FROM halves GROUP BY 1, 2, 3', 'SELECT n::numeric(10,0), count(*) FROM halves GROUP BY 1',
  'SELECT sum(i / 2), sum(i % 2), sum(i / -2), sum(i % -2) FROM halves');

-- = ANY, IN.
CREATE TABLE members AS SELECT i AS id, i AS a, i::int8 AS b, i::float8 AS c, i::numeric(8,2) AS d, 'x' || i AS e, date '2024-01-01' + i AS f
  FROM generate_series(1, 100) i;
INSERT INTO members (id) VALUES (101), (102);
SELECT * FROM gpuscan_test.check(
  'SELECT id FROM members WHERE a IN (1, 5, 7, 1000)', 'SELECT id FROM members WHERE a IN (1, NULL)', 'SELECT id FROM members WHERE a NOT IN (1, NULL)',
  'SELECT id FROM members WHERE (a IN (1, NULL)) IS NULL', 'SELECT id FROM members WHERE a = ANY (''{}''::int[])', 'SELECT id FROM members WHERE a <> ALL (''{}''::int[])',
  'SELECT count(*) FROM members WHERE a = ANY (''{}''::int[]) IS NULL', 'SELECT id FROM members WHERE a = ANY (NULL::int[])',
  'SELECT id FROM members WHERE NOT a = ANY (''{3,4}'')', 'SELECT id FROM members WHERE b IN (2, 4, 4)', 'SELECT id FROM members WHERE c IN (2, 4.5, ''NaN'')',
  'SELECT id FROM members WHERE d IN (2, 4.50, 7.001)', 'SELECT id FROM members WHERE e IN (''x1'', ''x10'', '''')', 'SELECT id FROM members WHERE f IN (''2024-01-05'', ''infinity'')',
  'SELECT id FROM members WHERE a = ANY (ARRAY[1, id])', 'SELECT id FROM members WHERE a <> ANY (''{3}'')', 'SELECT id FROM members WHERE a > ANY (''{90,95}'')',
  (SELECT 'SELECT count(*), sum(a) FROM members WHERE a IN (' || string_agg(i::text, ',') || ')' FROM generate_series(2, 3000, 2) i),
  'SELECT id FROM members WHERE a BETWEEN SYMMETRIC 9 AND 5', 'SELECT id FROM members WHERE a NOT BETWEEN 5 AND 98');
