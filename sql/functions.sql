-- Expressions over one column that no device computes: PostgreSQL evaluates them once for each value.
CREATE SCHEMA functions;
SET search_path = functions, public;
CREATE COLLATION ignore_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE TABLE t (id int, country text, code varchar(10), ch char(4), ci text COLLATE ignore_case, small int2, n int, big int8, d date, ts timestamp, tz timestamptz, b bool, num numeric(8,2), f float8) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT i, (ARRAY['de', 'fr', 'us', 'uk', 'Ünder', 'de%', '', NULL])[i % 8 + 1], CASE WHEN i % 50 = 0 THEN 'x' ELSE (i % 7)::text END, (ARRAY['a', 'ab', 'ab ', NULL])[i % 4 + 1], (ARRAY['a', 'A', 'b'])[i % 3 + 1],
  i % 5, nullif(i % 30, 7) - 10, i % 9 * 10000000000, date '2023-12-25' + i % 40, timestamp '2024-01-01' + i % 60 * interval '17 hours', timestamptz '2024-03-30 00:00+00' + i % 48 * interval '1 hour', nullif(i % 3, 2) = 0, i % 20 / 4.0, i % 6 - 2
  FROM generate_series(1, 6000) i;
VACUUM ANALYZE t;
CREATE FUNCTION own(text) RETURNS text IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN RETURN upper($1); END $$;

-- Texts, under their collations, and NULL
SELECT * FROM gpuscan_test.check(
  'SELECT upper(country), count(*) FROM t WHERE country ~ ''^(de|fr)'' OR country LIKE ''u%'' GROUP BY 1', 'SELECT id FROM t WHERE country ~* ''^U'' AND n > 3', 'SELECT left(code, 1), count(*), sum(n) FROM t GROUP BY 1', 'SELECT substr(country, 2), max(d) FROM t GROUP BY 1', 'SELECT count(*) FROM t WHERE country COLLATE "C" < ''m''',
  'SELECT count(*) FROM t WHERE country < ''m'' COLLATE "C" AND country >= ''d''', 'SELECT count(*) FROM t WHERE length(country) > 2', 'SELECT id FROM t WHERE lower(country) = ''ünder''', 'SELECT length(country), octet_length(country), count(*) FROM t GROUP BY 1, 2', 'SELECT sum(length(country)), avg(length(code)) FROM t', 'SELECT count(DISTINCT lower(ci)), count(DISTINCT ci COLLATE "C") FROM t',
  'SELECT concat(country, ''!''), count(*) FROM t GROUP BY 1', 'SELECT count(*) FROM t WHERE concat(country, ''x'') = ''x''', 'SELECT quote_nullable(country), min(id) FROM t GROUP BY 1', 'SELECT md5(country), count(*) FROM t GROUP BY 1', 'SELECT count(*) FROM t WHERE country LIKE ANY (ARRAY[''d%'', ''u_''])', 'SELECT count(*) FROM t WHERE country NOT LIKE ''%\%'' AND country ILIKE ''D%''',
  'SELECT count(*) FROM t WHERE ci = ''a''', 'SELECT count(*) FROM t WHERE ci > ''A'' OR upper(ci) = ''A''', 'SELECT count(*) FROM t WHERE ci LIKE ''a''', 'SELECT ch || ''|'', count(*) FROM t GROUP BY 1', 'SELECT length(ch), count(*) FROM t GROUP BY 1', 'SELECT count(*) FROM t WHERE ch < ''ab''', 'SELECT upper(ch)::char(4), count(*) FROM t GROUP BY 1', 'SELECT (regexp_match(country, ''(.)$''))[1], count(*) FROM t GROUP BY 1',
  'SELECT CASE upper(country) WHEN ''DE'' THEN ''one'' WHEN ''FR'' THEN ''two'' ELSE lower(country) END, count(*) FROM t GROUP BY 1', 'SELECT count(*) FILTER (WHERE country ~ ''^d''), sum(n) FILTER (WHERE code !~ ''x'') FROM t', 'SELECT coalesce(upper(country), ''none''), nullif(lower(country), ''de''), count(*) FROM t GROUP BY 1, 2', 'SELECT count(*) FROM t WHERE (country || ''x'') IN (''dex'', ''frx'', NULL)', 'SELECT DISTINCT initcap(country) FROM t',
  'SELECT position(''e'' IN country), strpos(country, ''d''), count(*) FROM t WHERE (country ~ ''e'') IS NOT FALSE GROUP BY 1, 2', 'SELECT upper(country), lower(code), count(*) FROM t GROUP BY 1, 2 HAVING count(*) > 30');

-- Numbers, dates and truth values, in and out
SELECT * FROM gpuscan_test.check(
  'SELECT extract(year FROM d), count(*) FROM t GROUP BY 1', 'SELECT sum(extract(day FROM d)), max(extract(month FROM d)) FROM t WHERE extract(dow FROM d) = 1', 'SELECT date_part(''week'', d), count(*) FROM t GROUP BY 1', 'SELECT to_char(d, ''YYYY-MM''), count(*) FROM t GROUP BY 1', 'SELECT date_trunc(''month'', d), count(*) FROM t GROUP BY 1', 'SELECT date_trunc(''week'', ts), min(ts), count(*) FROM t GROUP BY 1', 'SELECT date_trunc(''day'', tz), count(*) FROM t GROUP BY 1',
  'SELECT tz::date, count(*) FROM t GROUP BY 1', 'SELECT extract(hour FROM ts), count(*) FROM t GROUP BY 1', 'SELECT extract(epoch FROM ts), count(*) FROM t GROUP BY 1', 'SELECT d + interval ''1 month'', count(*) FROM t GROUP BY 1', 'SELECT count(*) FROM t WHERE ts > timestamp ''2024-02-10'' - interval ''5 days'' AND to_char(ts, ''Dy'') = ''Mon''', 'SELECT n::text, count(*) FROM t GROUP BY 1', 'SELECT count(*) FROM t WHERE sqrt(abs(n)) > 2', 'SELECT max(sqrt(n + 10)), avg(small ^ 2) FROM t',
  'SELECT small << 2, small # 1::int2, count(*) FROM t GROUP BY 1, 2', 'SELECT big::text, to_hex(big), sum(big / 3) FROM t GROUP BY 1, 2', 'SELECT b::text, count(*) FROM t GROUP BY 1', 'SELECT bool_and(country ~ ''.''), bool_or(b::text = ''true'') FROM t', 'SELECT count(*) FROM t WHERE code ~ ''^\d+$'' AND (CASE WHEN code ~ ''^\d$'' THEN code::int END) > 3', 'SELECT max(length(country)), min(ascii(country)) FROM t', 'SELECT factorial(n + 10), count(*) FROM t WHERE n < 10 GROUP BY 1',
  'SELECT chr(65 + small), count(*) FROM t GROUP BY 1', 'SELECT round(n / 3.0, 1), count(*) FROM t GROUP BY 1', 'SELECT width_bucket(n, -10, 20, 5), count(*) FROM t GROUP BY 1', 'SELECT sum(hashtext(country)) FROM t', 'SELECT count(*) FROM t WHERE age(d, date ''2024-01-01'') < interval ''3 days''', 'SELECT make_date(2024, small + 1, 1), count(*) FROM t GROUP BY 1', 'SELECT count(*) FROM t WHERE (d, d + 1) OVERLAPS (date ''2024-01-01'', date ''2024-01-05'')');

-- Scales of numerics: one, or left to PostgreSQL unless a condition is evaluated whole; too many digits
SELECT * FROM gpuscan_test.check('SELECT power(n, 2.0), count(*) FROM t GROUP BY 1', 'SELECT trim_scale(n / 4.0), count(*) FROM t GROUP BY 1', 'SELECT count(*) FROM t WHERE trim_scale(n / 4.0) > 1.5', 'SELECT factorial(n + 11), count(*) FROM t GROUP BY 1', 'SELECT count(*) FROM t WHERE factorial(n + 11) > 1e30', 'SELECT sum(code::numeric) FROM t WHERE code <> ''x''', 'SELECT n ^ -0.5, count(*) FROM t WHERE n > 0 GROUP BY 1');

-- An error is raised where PostgreSQL raises it, for rows that it would evaluate
SELECT * FROM gpuscan_test.check(
  'SELECT sum(code::int) FROM t', 'SELECT id FROM t WHERE code::int = 3', 'SELECT count(*) FROM t WHERE code <> ''x'' AND code::int = 3', 'SELECT id FROM t WHERE code <> ''x'' AND code::int = 3 AND id < 100', 'SELECT sum(code::int) FROM t WHERE code <> ''x''', 'SELECT code::int, count(*) FROM t WHERE code ~ ''\d'' GROUP BY 1', 'SELECT sum(CASE WHEN code ~ ''\d'' THEN code::int ELSE -1 END) FROM t', 'SELECT count(*) FROM t WHERE country ~ ''(''', 'SELECT count(*) FROM t WHERE id < 0 AND country ~ ''(''',
  'SELECT ln(small), count(*) FROM t GROUP BY 1', 'SELECT max(ln(small)) FILTER (WHERE small > 0) FROM t', 'SELECT count(*) FROM t WHERE length(repeat(country, 1000000000)) > 5', 'SELECT max(make_date(2024, 2, n)) FROM t WHERE n BETWEEN 1 AND 29', 'SELECT max(make_date(2024, 2, n)) FROM t', 'SELECT count(*) FROM t WHERE small <> 0 AND log(small) > 0.5 OR id = 5');
DELETE FROM t WHERE code = 'x';
SELECT * FROM gpuscan_test.check('SELECT sum(code::int) FROM t', 'SELECT id FROM t WHERE code::int = 3 AND id < 100');

-- Blocks that are not cached have values that no other has
INSERT INTO t SELECT i, 'NEW' || i % 3, '12', 'new', 'new', 77, 77, 77, '1999-12-31', '1999-12-31 23:59', NULL, NULL, 7, 7 FROM generate_series(6001, 6100) i;
UPDATE t SET country = 'changed', d = '2030-01-01' WHERE id % 500 = 9;
SELECT * FROM gpuscan_test.check('SELECT lower(country), count(*) FROM t GROUP BY 1', 'SELECT id FROM t WHERE country ~ ''^(N|ch)'' AND id < 6050', 'SELECT extract(year FROM d), sum(code::int), count(*) FROM t GROUP BY 1', 'SELECT small::text, n::text, big::text, count(*) FROM t WHERE n > 15 GROUP BY 1, 2, 3');
BEGIN;
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ;
INSERT INTO t (id, country) VALUES (7000, 'mine');
SELECT * FROM gpuscan_test.check('SELECT upper(country), count(*) FROM t GROUP BY 1');
ROLLBACK;
VACUUM t;
SELECT * FROM gpuscan_test.check('SELECT lower(country), count(*) FROM t GROUP BY 1', 'SELECT upper(country), count(*) FROM t GROUP BY 1');
INSERT INTO t (id, country) VALUES (7001, repeat('long', 3000)), (7002, repeat(md5('long'), 100));
SELECT * FROM gpuscan_test.check('SELECT md5(country), count(*) FROM t GROUP BY 1', 'SELECT id FROM t WHERE length(country) > 100');
CREATE TABLE empty (LIKE t);
CREATE TABLE nulls AS SELECT NULL::text AS country FROM generate_series(1, 100);
SELECT * FROM gpuscan_test.check('SELECT upper(country), count(*) FROM empty GROUP BY 1', 'SELECT count(*), max(length(country)) FROM empty WHERE country ~ ''x''', 'SELECT upper(country), count(*) FROM nulls GROUP BY 1', 'SELECT count(*) FROM nulls WHERE concat(country, ''x'') = ''x''');

-- Parameters and rescans; a condition without columns
SET gpuscan.force = on;
SET plan_cache_mode = force_generic_plan;
PREPARE by_pattern(text, int) AS SELECT count(*), max(left(country, $2)) IS NULL FROM t WHERE country ~ $1;
PREPARE grouped(int) AS SELECT left(country, $1), count(*) FROM t WHERE id <= 6000 GROUP BY 1 ORDER BY 2, 1;
EXPLAIN (COSTS OFF) EXECUTE grouped(1);
EXECUTE grouped(1);
EXECUTE grouped(0);
EXECUTE grouped(NULL);
PREPARE matching(text) AS SELECT count(*) FROM t WHERE country ~ $1;
EXPLAIN (COSTS OFF) EXECUTE matching('^d');
EXECUTE matching('^d');
EXECUTE matching('^[du]');
EXECUTE matching(NULL);
EXECUTE matching('(');
RESET plan_cache_mode;
RESET gpuscan.force;
SELECT * FROM gpuscan_test.check('SELECT p, (SELECT count(*) FROM t WHERE country ~ p) FROM unnest(ARRAY[''^d'', ''e'', NULL, ''$'']) p', 'SELECT p, s.* FROM unnest(ARRAY[1, 2, 0]) p, LATERAL (SELECT left(country, p), count(*) FROM t GROUP BY 1) s', 'SELECT count(*) FROM t WHERE country ~ (SELECT min(country) FROM t WHERE country LIKE ''d%'')', 'SELECT count(*), upper(country) FROM t WHERE now() < ''2000-01-01'' GROUP BY 2',
  'SELECT x.id FROM t x JOIN t y ON x.id = y.id + 1 WHERE x.country ~ ''^f'' AND upper(y.country) = ''DE'' AND x.id < 200');

-- Partitions have values of their own
CREATE TABLE p (k int, s text) PARTITION BY RANGE (k);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (500);
CREATE TABLE p2 (gone int, s text, k int);
ALTER TABLE p2 DROP COLUMN gone;
ALTER TABLE p ATTACH PARTITION p2 FOR VALUES FROM (500) TO (1000);
CREATE TABLE p3 PARTITION OF p DEFAULT;
INSERT INTO p SELECT i, CASE WHEN i < 500 THEN 'low' ELSE 'high' || i % 3 END FROM generate_series(1, 999) i;
SELECT * FROM gpuscan_test.check('SELECT upper(s), count(*) FROM p GROUP BY 1', 'SELECT k FROM p WHERE s ~ ''1$''', 'SELECT count(*) FROM p WHERE k > 700 AND s ~ ''[12]$''', 'SELECT left(s, 1), sum(k) FROM p WHERE k < 300 GROUP BY 1');
SET force_parallel_mode = on;
SELECT * FROM gpuscan_test.check('SELECT upper(s), count(*) FROM p GROUP BY 1', 'SELECT upper(country), count(*) FROM t WHERE code ~ ''[1-4]'' GROUP BY 1');
RESET force_parallel_mode;

-- Left to PostgreSQL: functions that are not its own, stable ones of two columns, or volatile; not two columns, nor columns whose values differ where they are equal, see expression_columns.sql
SELECT * FROM gpuscan_test.check('SELECT count(*) FROM t WHERE country || code ~ ''x''', 'SELECT count(*) FROM t WHERE concat(country, code) ~ ''x''', 'SELECT own(country), count(*) FROM t GROUP BY 1', 'SELECT count(pg_get_viewdef(n::oid)) FROM t', 'SELECT count(*) FROM t WHERE random() < length(country)', 'SELECT num::text, count(*) FROM t GROUP BY 1', 'SELECT f::text, count(*) FROM t GROUP BY 1', 'SELECT regexp_split_to_array(country, ''''), count(*) FROM t GROUP BY 1', 'SELECT regexp_split_to_table(country, ''''), count(*) FROM t GROUP BY 1', 'SELECT count(*) FROM t WHERE t::text ~ ''x''', 'SELECT count(*) FROM t WHERE ctid::text ~ ''0,1''');

-- What EXPLAIN shows
SET gpuscan.force = on;
EXPLAIN (VERBOSE, COSTS OFF) SELECT upper(country), count(*) FROM t WHERE country ~ '^d' GROUP BY 1;
SELECT m[1] FROM regexp_matches(gpuscan_test.plan('SELECT upper(s), lower(s), count(*) FROM p WHERE k > -1 GROUP BY 1, 2', 'ANALYZE,'), '"Distinct Values Evaluated": (\d+)') m;

-- Not where values are many: then it is a column
CREATE TABLE many AS SELECT i AS id, i::text AS s FROM generate_series(1, 10000) i;
ANALYZE many;
SET gpuscan.explain_rejected = on;
EXPLAIN (COSTS OFF) SELECT count(*) FROM many WHERE s ~ '9$';
EXPLAIN (COSTS OFF) SELECT id FROM many WHERE quote_ident(s) ~ '9$';
SET gpuscan.explain_rejected = off;
-- more than statistics say
CREATE TABLE surprise AS SELECT 'x' AS s FROM generate_series(1, 1000);
ANALYZE surprise;
INSERT INTO surprise SELECT i::text FROM generate_series(1, 5000) i;
SELECT * FROM gpuscan_test.check('SELECT count(*) FROM surprise WHERE s ~ ''9$''', 'SELECT s FROM surprise WHERE s ~ ''99$''');
-- results that are too large
SELECT * FROM gpuscan_test.check('SELECT length(s), count(*) FROM (SELECT repeat(country, 50000) AS s FROM t WHERE id <= 6000) q GROUP BY 1', 'SELECT md5(country || repeat(''x'', 60000)), count(*) FROM t GROUP BY 1', 'SELECT count(DISTINCT country || repeat(''x'', 60000)) FROM t');
RESET gpuscan.force;

-- Row-level security: hidden values are not looked at
CREATE ROLE gpuscan_functions_user;
GRANT USAGE ON SCHEMA functions, gpuscan_test TO gpuscan_functions_user;
CREATE TABLE secret (id int, s text, mine bool);
INSERT INTO secret SELECT i, CASE WHEN i % 2 = 0 THEN '1' ELSE 'hidden' END, i % 2 = 0 FROM generate_series(1, 1000) i;
ALTER TABLE secret ENABLE ROW LEVEL SECURITY;
CREATE POLICY mine ON secret USING (mine);
GRANT SELECT ON secret TO gpuscan_functions_user;
SET ROLE gpuscan_functions_user;
SELECT * FROM gpuscan_test.check('SELECT upper(s), count(*) FROM secret GROUP BY 1', 'SELECT sum(s::int) FROM secret', 'SELECT id FROM secret WHERE s::int = 1', 'SELECT count(*) FROM secret');
RESET ROLE;
SELECT * FROM gpuscan_test.check('SELECT upper(s), count(*) FROM secret GROUP BY 1');
-- a function that is not the user's to call
REVOKE EXECUTE ON FUNCTION pg_catalog.initcap(text) FROM PUBLIC;
SET ROLE gpuscan_functions_user;
SELECT * FROM gpuscan_test.check('SELECT initcap(s), count(*) FROM secret GROUP BY 1');
RESET ROLE;
GRANT EXECUTE ON FUNCTION pg_catalog.initcap(text) TO PUBLIC;
DROP TABLE secret;
REVOKE ALL ON SCHEMA functions, gpuscan_test FROM gpuscan_functions_user;
DROP ROLE gpuscan_functions_user;
