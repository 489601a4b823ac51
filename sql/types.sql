-- One block for each type: filters, keys and aggregates over its extremes.
CREATE SCHEMA types;
SET search_path = types, public;
SET timezone = 'Europe/Berlin';

-- For a table t(id, x): what holds for every type.
CREATE FUNCTION queries(rel text, VARIADIC constants text[]) RETURNS text[] LANGUAGE sql AS $$
  SELECT array_agg(format(q, rel, c)) FROM unnest(constants) c, unnest(ARRAY[
    'SELECT id, x FROM %1$s WHERE x = %2$s', 'SELECT id, x FROM %1$s WHERE x <> %2$s',
    'SELECT id FROM %1$s WHERE x IS DISTINCT FROM %2$s', 'SELECT id FROM %1$s WHERE x IN (%2$s, NULL)',
    'SELECT id FROM %1$s WHERE NOT x = %2$s', 'SELECT id FROM %1$s WHERE (x = %2$s) IS NULL',
    'SELECT count(*) FROM %1$s WHERE x IS NULL OR x = %2$s', 'SELECT count(x), count(*) FROM %1$s WHERE x IS NOT NULL',
    'SELECT x, count(*), count(x) FROM %1$s GROUP BY x', 'SELECT count(DISTINCT x) FROM %1$s',
    'SELECT id %% 2, count(DISTINCT x), count(DISTINCT x) FILTER (WHERE x <> %2$s) FROM %1$s GROUP BY 1',
    'SELECT coalesce(x, %2$s), count(*) FROM %1$s GROUP BY 1', 'SELECT nullif(x, %2$s), count(*) FROM %1$s GROUP BY 1',
    'SELECT CASE WHEN x = %2$s THEN NULL ELSE x END, count(*) FROM %1$s GROUP BY 1']) q
$$;
CREATE FUNCTION ordered(rel text, VARIADIC constants text[]) RETURNS text[] LANGUAGE sql AS $$
  SELECT array_agg(format(q, rel, c)) FROM unnest(constants) c, unnest(ARRAY[
    'SELECT id FROM %1$s WHERE x < %2$s', 'SELECT id FROM %1$s WHERE x <= %2$s', 'SELECT id FROM %1$s WHERE x > %2$s',
    'SELECT id FROM %1$s WHERE %2$s <= x', 'SELECT id FROM %1$s WHERE x BETWEEN %2$s AND %2$s',
    'SELECT min(x), max(x) FROM %1$s', 'SELECT id %% 2, min(x), max(x) FROM %1$s WHERE x <> %2$s GROUP BY 1',
    'SELECT greatest(x, %2$s), least(%2$s, x) FROM %1$s WHERE x IS NULL OR x = %2$s',
    'SELECT max(greatest(x, %2$s)), min(least(x, %2$s, NULL)) FROM %1$s']) q
$$;

CREATE TABLE bools AS SELECT row_number() OVER () AS id, x FROM unnest(ARRAY[true, false, NULL, true, false, NULL, NULL]) x;
SELECT * FROM gpuscan_test.summary(queries('bools', 'true', 'false'));
SELECT * FROM gpuscan_test.check(
  'SELECT id FROM bools WHERE x', 'SELECT id FROM bools WHERE NOT x', 'SELECT id FROM bools WHERE x IS UNKNOWN',
  'SELECT id FROM bools WHERE x IS NOT TRUE', 'SELECT bool_and(x), bool_or(x), every(x) FROM bools',
  'SELECT x::int, sum(x::int) FROM bools GROUP BY 1', 'SELECT id FROM bools WHERE id::int::bool AND x');

CREATE TABLE int2s AS SELECT row_number() OVER () AS id, x FROM unnest('{0,1,-1,32767,-32768,NULL,32767,-32768,12}'::int2[]) x;
SELECT * FROM gpuscan_test.summary(queries('int2s', '32767', '''-32768''::int2', '1') || ordered('int2s', '0', '32767', '''-32768''::int2', '70000'));
CREATE TABLE int4s AS SELECT row_number() OVER () AS id, x FROM unnest('{0,1,-1,2147483647,-2147483648,NULL,2147483647,7}'::int4[]) x;
SELECT * FROM gpuscan_test.summary(queries('int4s', '2147483647', '-1') || ordered('int4s', '0', '2147483647', '-2147483648', '3000000000'));
CREATE TABLE int8s AS SELECT row_number() OVER () AS id, x
  FROM unnest('{0,1,-1,9223372036854775807,-9223372036854775808,NULL,9223372036854775807,4294967296}'::int8[]) x;
SELECT * FROM gpuscan_test.summary(queries('int8s', '9223372036854775807', '-1', '1::int2') || ordered('int8s', '0', '4294967296', '-9223372036854775808', '5::int4'));
SELECT * FROM gpuscan_test.check(
  'SELECT sum(x), avg(x), stddev(x), var_pop(x) FROM int2s', 'SELECT sum(x), avg(x), stddev(x), var_pop(x) FROM int4s',
  'SELECT sum(x), avg(x), stddev(x), var_pop(x) FROM int8s', 'SELECT bit_and(x), bit_or(x) FROM int2s',
  'SELECT bit_and(x), bit_or(x) FROM int4s WHERE x > 0', 'SELECT bit_and(x), bit_or(x) FROM int8s');

-- A zero of either sign is one key; which one is shown is left to PostgreSQL.
CREATE TABLE float4s AS SELECT row_number() OVER () AS id, x
  FROM unnest('{0,1.5,-1.5,NaN,Infinity,-Infinity,NULL,NaN,1e-45,-3.4e38,3.4e38,0.1,16777216}'::float4[]) x;
SELECT * FROM gpuscan_test.summary(queries('float4s', '''NaN''::float4', '0', '0.1', '''Infinity''::float8') || ordered('float4s', '0', '''NaN''::float4', '0.1', '0.1::float4', '16777217'));
CREATE TABLE float8s AS SELECT row_number() OVER () AS id, x
  FROM unnest('{0,1.5,-1.5,NaN,Infinity,-Infinity,NULL,NaN,5e-324,-1.7e308,1.7e308,0.1,9007199254740993}'::float8[]) x;
SELECT * FROM gpuscan_test.summary(queries('float8s', '''NaN''::float8', '0', '0.1', '''-Infinity''::float4') || ordered('float8s', '0', '''NaN''::float8', '0.1', '0.1::float4', '9007199254740993'));
CREATE TABLE zeros AS SELECT row_number() OVER () AS id, x FROM unnest('{0,-0,NULL,-0,0}'::float8[]) x;
SELECT * FROM gpuscan_test.summary(queries('zeros', '0', '''-0''::float8') || ordered('zeros', '0', '''-0''::float8'));
SELECT * FROM gpuscan_test.check(
  'SELECT sum(x), avg(x) FROM float4s', 'SELECT sum(x), avg(x) FROM float8s', 'SELECT stddev(x), var_pop(x) FROM float8s',
  'SELECT sum(x), avg(x), min(x), max(x) FROM float8s WHERE x BETWEEN -2 AND 2 AND x <> 0.1::float8 AND x <> 5e-324::float8',
  'SELECT sum(x), avg(x) FROM float4s WHERE x BETWEEN -2 AND 2 AND x <> 0.1::float4 AND x <> 1e-45::float4',
  'SELECT sum(x), count(*) FROM float8s WHERE x = ''Infinity''', 'SELECT sum(x) FROM float8s WHERE x > 1e308 AND x < ''Infinity''',
  'SELECT sum(x + x) FROM float8s WHERE x > 1e308', 'SELECT sum(x) FROM zeros', 'SELECT avg(x) FROM zeros WHERE id = 2');

CREATE TABLE dates AS SELECT row_number() OVER () AS id, x
  FROM unnest('{2024-01-01,2024-02-29,infinity,-infinity,4713-01-01 BC,5874897-12-31,NULL,2024-01-01,1999-12-31}'::date[]) x;
SELECT * FROM gpuscan_test.summary(queries('dates', '''2024-01-01''::date', '''infinity''::date') || ordered('dates', '''2024-01-01''::date', '''-infinity''::date', '''2024-02-29''::timestamp'));
CREATE TABLE timestamps AS SELECT row_number() OVER () AS id, x
  FROM unnest('{2024-01-01,2024-02-29 12:30:00.123456,infinity,-infinity,4713-01-01 BC,294276-12-31 23:59:59.999999,NULL,2024-01-01,1999-12-31 23:59:59.999999,2000-01-01}'::timestamp[]) x;
SELECT * FROM gpuscan_test.summary(queries('timestamps', '''2024-01-01''::timestamp', '''infinity''::timestamp') || ordered('timestamps', '''2000-01-01''::timestamp', '''-infinity''::timestamp', '''2024-02-29''::date'));
CREATE TABLE timestamptzs AS SELECT row_number() OVER () AS id, x
  FROM unnest('{2024-01-01,2024-03-31 02:30:00,infinity,-infinity,2024-10-27 02:30:00,NULL,2024-01-01,1999-12-31 23:59:59.999999}'::timestamptz[]) x;
SELECT * FROM gpuscan_test.summary(queries('timestamptzs', '''2024-01-01''::timestamptz', '''infinity''::timestamptz') || ordered('timestamptzs', '''2000-01-01''::timestamptz', '''2024-03-31''::date', '''2024-10-27 02:00''::timestamp'));
SELECT * FROM gpuscan_test.check(
  'SELECT id, x::timestamp FROM dates WHERE x::timestamp > ''2024-01-15''', 'SELECT x::date, count(*) FROM timestamps GROUP BY 1',
  'SELECT id FROM dates WHERE x + 1 > ''2024-01-02''', 'SELECT id FROM dates WHERE x - ''2024-01-01''::date > 10 AND isfinite(x)',
  'SELECT x - 1, count(*) FROM dates WHERE x > ''2000-01-01'' GROUP BY 1', 'SELECT x::date, count(*) FROM timestamptzs GROUP BY 1',
  'SELECT count(*) FROM timestamptzs WHERE x > now()', 'SELECT count(*) FROM dates WHERE x > current_date');

-- A domain, an enum, and types that we do not know between those we do.
CREATE DOMAIN positive AS int CHECK (VALUE > 0);
CREATE TYPE mood AS ENUM ('sad', 'happy');
CREATE TABLE others (p point, id int, u uuid, x positive, i interval, m mood, b bytea, y int8, arr int[], n name, z text, c "char", t time, w bit(9), s int2);
INSERT INTO others SELECT '(1,2)', i, md5(i::text)::uuid, 1 + i % 5, i * interval '1 min', CASE i % 2 WHEN 0 THEN 'sad' ELSE 'happy' END::mood,
  decode(md5(i::text), 'hex'), i, ARRAY[i, i], 'n' || i, 'z' || i % 3, 'c', '01:02', B'101010101', i % 4 FROM generate_series(1, 200) i;
INSERT INTO others (id, y, s) VALUES (201, 1, 2), (202, NULL, 3);
SELECT * FROM gpuscan_test.check(
  'SELECT id FROM others WHERE x = 3', 'SELECT x, count(*), sum(x) FROM others GROUP BY x', 'SELECT z, sum(y), max(s) FROM others GROUP BY z',
  'SELECT m, count(*) FROM others GROUP BY m', 'SELECT u, i, arr, n FROM others WHERE s = 2 AND z = ''z1''', 'SELECT count(*) FROM others WHERE i > ''1 hour''',
  'SELECT s, count(DISTINCT u) FROM others GROUP BY s');
