-- Expressions over rows that no device computes: PostgreSQL evaluates them once for each row, and they are cached.
CREATE SCHEMA expression_columns;
SET search_path = expression_columns, public;
CREATE COLLATION ignore_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE TYPE mood AS ENUM ('low', 'high');
CREATE TABLE t (id int, gone text, a text, b varchar(20), email text, ci text COLLATE ignore_case, ch char(6), price numeric(10,2), plain numeric, y int, m int, d int, ts timestamp, tz timestamptz, f float8, bin bytea, j jsonb, u uuid, big text, mood mood) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT i, 'gone', CASE WHEN i % 13 > 0 THEN 'a' || i END, CASE WHEN i % 17 > 0 THEN 'B' || i % 1000 END, 'User' || i || '@Example' || i % 700 || '.com', CASE WHEN i % 2 = 0 THEN 'ab' ELSE 'AB' END || i % 5000, 'c' || i % 6000,
  i % 100000 / 100.0, i / 10 ^ (i % 3), 2000 + i % 20, 1 + i % 12, 1 + i % 28, timestamp '2020-01-01' + i * interval '1 hour', timestamptz '2020-03-29 00:00+00' + i * interval '10 min', i / 8.0, decode(md5(i::text), 'hex'),
  jsonb_build_object('k', i % 50, 's', 'x' || i, 'n', nullif(i % 9, 0)), md5(i::text)::uuid, CASE WHEN i % 900 = 0 THEN repeat(md5(i::text), 400) ELSE 'small' || i END, CASE WHEN i % 3 = 0 THEN 'low'::mood ELSE 'high' END FROM generate_series(1, 12000) i;
ALTER TABLE t DROP COLUMN gone;
VACUUM ANALYZE t;
SET gpuscan.force = on;
-- where the input of a query came from, and how many rows PostgreSQL evaluated expressions for
CREATE FUNCTION source(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  plan text := gpuscan_test.plan(query, 'ANALYZE, TIMING off,');
  cached int := (regexp_match(plan, '"Blocks Cached": (\d+)'))[1];
  read int := (regexp_match(plan, '"Blocks Read": (\d+)'))[1];
BEGIN
  RETURN CASE WHEN plan LIKE '%Replaced Plan%' THEN 'replaced' WHEN cached IS NULL THEN 'not ours' WHEN read = 0 THEN 'cached' WHEN cached = 0 THEN 'read' ELSE 'cached and read' END
    || coalesce(', evaluated ' || nullif((regexp_match(plan, '"Tuples Evaluated": (\d+)'))[1], '0'), '');
END $$;
CREATE TABLE queries (n int GENERATED ALWAYS AS IDENTITY, query text);
INSERT INTO queries (query) VALUES
  ('SELECT split_part(email, ''@'', 2), count(*), min(id) FROM t GROUP BY 1'), ('SELECT count(*) FROM t WHERE lower(email) = ''user77@example77.com'''), ('SELECT a || b, count(*), min(id) FROM t GROUP BY 1'), ('SELECT count(*), sum(price) FROM t WHERE email ~ ''7@'''), ('SELECT count(*) FROM t WHERE email LIKE ''%7@%'' OR a IS NULL'),
  ('SELECT make_date(y, m, d), count(*), sum(price) FROM t GROUP BY 1'), ('SELECT count(*) FROM t WHERE price::text LIKE ''%9'''), ('SELECT date_trunc(''month'', ts + interval ''3 days''), count(*) FROM t GROUP BY 1'), ('SELECT date_trunc(''day'', tz AT TIME ZONE ''Europe/Berlin''), count(*) FROM t GROUP BY 1'), ('SELECT sum((j ->> ''k'')::int), count(j ->> ''n''), max((j ->> ''n'')::float8) FROM t'),
  ('SELECT (j ->> ''k'')::numeric(6,2), count(*) FROM t GROUP BY 1'), ('SELECT sum((j ->> ''k'')::numeric), avg(round(plain / 3, 2)) FROM t'), ('SELECT count(*) FROM t WHERE j ->> ''s'' IN (''x77'', ''x88'', NULL)'), ('SELECT sum(length(a || b)), max(length(a || b)) FROM t'), ('SELECT bool_and(a || b ~ ''B''), bool_or(u > ''ff000000-0000-0000-0000-000000000000'') FROM t'),
  ('SELECT sum(trunc(sqrt(id + f))), max(sqrt(id + f)), max(atan2(id, f)) FROM t'), ('SELECT (id + f)::float4 / 3, count(*) FROM t GROUP BY 1'), ('SELECT count(DISTINCT a || ''x''), count(DISTINCT upper(ch)) FROM t'), ('SELECT count(*) FILTER (WHERE a < b), count(*) FILTER (WHERE a > email COLLATE "C") FROM t'), ('SELECT count(*) FROM t WHERE ci = ''AB77'''), ('SELECT count(*) FROM t WHERE ci < ''ab2'' AND ci || a COLLATE "C" > ''AB'''),
  ('SELECT sum(CASE lower(email) WHEN ''user1@example1.com'' THEN 1 WHEN ''user2@example2.com'' THEN 2 ELSE id % 2 END) FROM t'), ('SELECT CASE WHEN email ~ ''1@'' THEN substr(email, 5, 1) ELSE coalesce(a || b, ''none'') END, count(*) FROM t GROUP BY 1'), ('SELECT nullif(split_part(email, ''@'', 2), ''Example1.com''), count(*) FROM t GROUP BY 1'), ('SELECT count(*) FROM t WHERE (email ~ ''^User1'') IS NOT TRUE AND (a ~ ''9'') IS NULL'),
  ('SELECT md5(big), count(*) FROM t GROUP BY 1'), ('SELECT sum(length(big || a)) FROM t'), ('SELECT right(big, 3), count(*) FROM t WHERE big LIKE ''%f'' GROUP BY 1'), ('SELECT (string_to_array(email, ''@''))[2], count(*) FROM t GROUP BY 1'), ('SELECT count(*), max(id) FROM t WHERE hashtext(email) % 7 = 1'), ('SELECT DISTINCT left(reverse(email), 6) FROM t'), ('SELECT bpchar(a || b) = ch, count(*) FROM t GROUP BY 1'), ('SELECT count(*) FROM t WHERE encode(bin, ''hex'') LIKE ''0%''');
-- The first time from rows, then from the cache
SELECT u.n, o.*, source(query) FROM queries u, LATERAL gpuscan_test.check(query) o ORDER BY u.n;
SELECT source('SELECT count(*), sum(id) FROM t WHERE regexp_replace(email, ''[0-9]'', '''', ''g'') = ''User@Example.com''') FROM generate_series(1, 2);
SELECT "column", encoding, blocks_cached > 0 AS cached FROM gpuscan_cache WHERE relation = 't'::regclass AND "column" ~ '[^a-z]' AND "column" ~ 'email|price' ORDER BY 1;
SELECT attnum, count(*) > 20 FROM gpuscan_cache() WHERE relid = 't'::regclass AND attnum IS NULL GROUP BY 1;

-- Blocks that change are read again, and no others; rows that others do not see
CREATE TABLE v (id int, a text, b text, n int) WITH (autovacuum_enabled = off);
INSERT INTO v SELECT i, 'a' || i, 'b' || i % 7, i FROM generate_series(1, 30000) i;
VACUUM ANALYZE v;
PREPARE compare AS SELECT * FROM gpuscan_test.check('SELECT b || a, count(*), sum(n) FROM v GROUP BY 1', 'SELECT count(*), sum(id) FROM v WHERE a || b ~ ''9b'' AND n > 5');
EXECUTE compare;
EXECUTE compare;
UPDATE v SET a = 'changed' WHERE id = 5;
DELETE FROM v WHERE id = 29000;
EXECUTE compare;
SELECT source('SELECT count(*), sum(id) FROM v WHERE a || b ~ ''9b'' AND n > 5') ~ '^cached and read, evaluated \d{2,3}$';
VACUUM v;
EXECUTE compare;
SELECT source('SELECT count(*), sum(id) FROM v WHERE a || b ~ ''9b'' AND n > 5');
BEGIN;
INSERT INTO v VALUES (40000, 'mine', NULL, 1), (40001, 'mine', 'b9b', 6);
EXECUTE compare;
ROLLBACK;
EXECUTE compare;
TRUNCATE v;
EXECUTE compare;
INSERT INTO v SELECT i, NULL, 'b', i FROM generate_series(1, 1000) i;
VACUUM v;
EXECUTE compare;

-- What changes in a table's shape
ALTER TABLE v ADD COLUMN c text DEFAULT 'first';
SELECT * FROM gpuscan_test.check('SELECT b || c, count(*) FROM v GROUP BY 1');
BEGIN;
ALTER TABLE v DROP COLUMN c;
ALTER TABLE v ADD COLUMN c text DEFAULT 'second';
SELECT * FROM gpuscan_test.check('SELECT b || c, count(*) FROM v GROUP BY 1');
ROLLBACK;
BEGIN;
ALTER TABLE v ADD COLUMN e text DEFAULT 'third';
SELECT * FROM gpuscan_test.check('SELECT b || e, count(*) FROM v GROUP BY 1');
ROLLBACK;
ALTER TABLE v ADD COLUMN e text DEFAULT 'fourth';
SELECT * FROM gpuscan_test.check('SELECT b || e, count(*) FROM v GROUP BY 1');
ALTER TABLE v RENAME COLUMN b TO bb;
SELECT * FROM gpuscan_test.check('SELECT bb || e, count(*) FROM v GROUP BY 1');
SELECT source('SELECT bb || e, count(*) FROM v GROUP BY 1');
ALTER TABLE v ALTER COLUMN e TYPE varchar(10);
SELECT * FROM gpuscan_test.check('SELECT bb || e, count(*) FROM v GROUP BY 1');
ALTER TABLE v ALTER COLUMN n TYPE numeric USING n / 10.0;
SELECT * FROM gpuscan_test.check('SELECT n::text || bb, count(*) FROM v GROUP BY 1', 'SELECT count(n || bb) FROM v');
ALTER TABLE v ALTER COLUMN bb TYPE text COLLATE "C" USING upper(bb);
SELECT * FROM gpuscan_test.check('SELECT bb || e, count(*) FROM v GROUP BY 1');

-- Partitions whose columns lie elsewhere, and have other default values; several processes
CREATE TABLE p (k int, s text, x text) PARTITION BY RANGE (k);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10000);
CREATE TABLE p2 (x text, gone int, k int, s text);
ALTER TABLE p2 DROP COLUMN gone;
ALTER TABLE p ATTACH PARTITION p2 FOR VALUES FROM (10000) TO (20000);
CREATE TABLE p3 PARTITION OF p DEFAULT;
INSERT INTO p SELECT i, nullif('s' || i, 's7'), CASE WHEN i < 10000 THEN 'low' ELSE 'high' || i % 7 END FROM generate_series(1, 25000) i;
VACUUM ANALYZE p;
UPDATE p SET s = 'updated' WHERE k % 5000 = 3;
PREPARE parts AS SELECT * FROM gpuscan_test.check('SELECT s || x, count(*), min(k) FROM p GROUP BY 1', 'SELECT count(*), sum(k) FROM p WHERE s || x ~ ''1high[2-4]''', 'SELECT left(x || s, 5), sum(k) FROM p WHERE k > 9000 AND k < 12000 GROUP BY 1', 'SELECT count(*) FROM p2 WHERE x || s ~ ''9$''');
EXECUTE parts;
EXECUTE parts;
SELECT gpuscan_evict('p') > 0, gpuscan_evict('t') > 0;
SET force_parallel_mode = on;
EXECUTE parts;
SELECT * FROM gpuscan_test.check('SELECT a || b, count(*), min(id) FROM t GROUP BY 1', 'SELECT sum(1000 / (id - 77)) FROM t WHERE sqrt(id + f) > 1', 'SELECT sum(sqrt(id - 11000 + f * 0)) FROM t');
RESET force_parallel_mode;
EXECUTE parts;

-- An error is raised where PostgreSQL raises it
SELECT * FROM gpuscan_test.check('SELECT sum(sqrt(id - 100 + f)) FROM t', 'SELECT max(make_date(y, m, d + 3)) FROM t', 'SELECT max(make_date(y, m, d + 3)) FROM t WHERE m <> 2', 'SELECT sum((j ->> ''s'')::int) FROM t', 'SELECT count(*) FROM t WHERE id < 0 AND (j ->> ''s'')::int = 1', 'SELECT count(*) FROM t WHERE id < 100 OR (j ->> ''s'')::int = 1', 'SELECT sum(CASE WHEN id < 0 THEN (j ->> ''s'')::int END) FROM t', 'SELECT count(*) FROM t WHERE email ~ ''(''', 'SELECT count(*) FROM t WHERE id < 0 AND email ~ ''(''', 'SELECT count(length(repeat(email, 100000000))) FROM t');
SELECT source('SELECT sum(sqrt(id - 100 + f)) FROM t WHERE id > 200');
-- also one that is not the query's, for rows that PostgreSQL does not look at: too much memory, damaged values
CREATE TABLE damaged (id int, n int, a text, doc text) WITH (autovacuum_enabled = off);
ALTER TABLE damaged ALTER doc SET STORAGE EXTERNAL;
INSERT INTO damaged SELECT i, CASE WHEN i = 7 THEN 33555 ELSE 1 END, 'd' || i, CASE WHEN i = 9 THEN repeat('x', 10000) ELSE 'small' END FROM generate_series(1, 1000) i;
VACUUM ANALYZE damaged;
DO $$ DECLARE toast regclass := (SELECT reltoastrelid FROM pg_class WHERE oid = 'damaged'::regclass);
BEGIN
  UPDATE pg_class SET relkind = 'r' WHERE oid = toast;
  EXECUTE format('DELETE FROM %s WHERE chunk_seq = 1', toast);
  UPDATE pg_class SET relkind = 't' WHERE oid = toast;
END $$;
PREPARE damage AS SELECT * FROM gpuscan_test.check('SELECT count(*) FROM damaged WHERE id > 10 AND repeat(repeat(a, 4000), n) ~ ''1$''', 'SELECT count(*) FROM damaged WHERE id > 10 AND doc || id ~ ''1$''', 'SELECT count(DISTINCT doc), count(DISTINCT n || a) FROM damaged WHERE id > 10', 'SELECT repeat(repeat(a, 20), n), count(*) FROM damaged WHERE id > 10 GROUP BY 1');
EXECUTE damage;
SET force_parallel_mode = on;
EXECUTE damage;
RESET force_parallel_mode;
SELECT count(*) FROM damaged WHERE id > 10 AND doc || id ~ '1$';
-- numerics with digits that no register holds; quotients always have them
SELECT * FROM gpuscan_test.check('SELECT sum(f::numeric / 7 + id) FROM t', 'SELECT sum((f::text)::numeric) FROM t', 'SELECT sum((j ->> ''k'' || ''.12345678'')::numeric) FROM t', 'SELECT sum(f::numeric) FROM t', 'SELECT count(*) FROM t WHERE price / 7 > 100');

-- Results too large for the batch of a range are not cached, and one too large for a batch is not read
CREATE TABLE wide AS SELECT i AS id, md5(i::text) AS s FROM generate_series(1, 3000) i;
VACUUM ANALYZE wide;
SELECT * FROM gpuscan_test.check('SELECT repeat(s, 20) || id, count(*) FROM wide GROUP BY 1', 'SELECT count(*) FROM wide WHERE repeat(s, 20) || id = ''x''', 'SELECT sum(id) FROM wide WHERE repeat(s, 20) || id ~ ''5$''', 'SELECT count(DISTINCT repeat(s, CASE id WHEN 2999 THEN 30000 ELSE 1 END)) FROM wide');
SELECT source('SELECT repeat(s, 20) || id, count(*) FROM wide GROUP BY 1');
-- many expressions of a table: those used least recently are dropped
DO $$ BEGIN FOR i IN 1 .. 300 LOOP EXECUTE format('SELECT count(*) FROM wide WHERE s ~ %L', i); END LOOP; END $$;
SELECT count(*) BETWEEN 250 AND 260 FROM gpuscan_cache WHERE relation = 'wide'::regclass AND "column" LIKE '(s ~ %';
SELECT * FROM gpuscan_test.check('SELECT count(*) FROM wide WHERE s ~ ''300''', 'SELECT count(*) FROM wide WHERE s ~ ''7''');

-- Not what PostgreSQL may answer in another way at another time: by a setting, by what a user can change
SELECT * FROM gpuscan_test.check('SELECT count(*) FROM t WHERE f::text || a ~ ''5''', 'SELECT count(*) FROM t WHERE bin::text || a ~ ''5''', 'SELECT count(*) FROM t WHERE quote_ident(email) || a ~ ''5''', 'SELECT count(*) FROM t WHERE point(f, id)::text ~ ''5''', 'SELECT count(*) FROM t WHERE to_tsvector(''english'', email) @@ to_tsquery(''english'', ''user'')', 'SELECT count(*) FROM t WHERE ts::text ~ ''5''', 'SELECT count(*) FROM t WHERE to_char(ts, ''DD'') || a ~ ''5''', 'SELECT count(*) FROM t WHERE age(tz, timestamptz ''2025-12-01 02:00+00'') <> ''1 mon''', 'SELECT count(*) FROM t WHERE date_trunc(''day'', tz) + interval ''1 h'' > tz', 'SELECT count(*) FROM t WHERE mood::text || a ~ ''low''', 'SELECT count(*) FROM t WHERE mood > ''low''', 'SELECT count(*) FROM t WHERE t::text ~ ''x''', 'SELECT count(*) FROM t WHERE ctid > ''(0,1)''', 'SELECT count(*) FROM t WHERE tableoid::text || a ~ ''5''', 'SELECT count(*) FROM t WHERE random() < length(email)');
-- nor by a text search configuration that a column names
CREATE TEXT SEARCH CONFIGURATION changing (COPY = simple);
CREATE TABLE searched AS SELECT 'changing'::regconfig::oid::bigint AS cfg, ARRAY['changing'::regconfig] AS cfgs, 'running ' || i AS body FROM generate_series(1, 1000) i;
VACUUM ANALYZE searched;
PREPARE search AS SELECT * FROM gpuscan_test.check('SELECT count(*) FROM searched WHERE to_tsvector(cfg::regconfig, body) @@ ''run''::tsquery', 'SELECT count(*) FROM searched WHERE to_tsvector(cfgs[1], body) @@ ''run''::tsquery', 'SELECT count(*) FROM searched WHERE to_tsvector(CASE WHEN body > ''r'' THEN cfg END::regconfig, body) @@ ''run''::tsquery');
EXECUTE search;
ALTER TEXT SEARCH CONFIGURATION changing ALTER MAPPING REPLACE simple WITH english_stem;
EXECUTE search;
-- nor by functions of a user that compare values of PostgreSQL's types by default
CREATE TABLE compared AS SELECT to_json(i) AS a, to_json('x' || i) AS b, i AS n FROM generate_series(1, 1000) i;
VACUUM ANALYZE compared;
CREATE FUNCTION json_order(json, json) RETURNS int IMMUTABLE LANGUAGE sql AS $$ SELECT bttextcmp($1::text, $2::text) $$;
CREATE FUNCTION json_equal(json, json) RETURNS bool IMMUTABLE LANGUAGE sql AS $$ SELECT $1::text = $2::text $$;
CREATE OPERATOR = (LEFTARG = json, RIGHTARG = json, FUNCTION = json_equal);
CREATE OPERATOR CLASS json_ops DEFAULT FOR TYPE json USING btree AS OPERATOR 3 =, FUNCTION 1 json_order;
PREPARE compare_json AS SELECT * FROM gpuscan_test.check('SELECT json_typeof(greatest(a, b)), count(*) FROM compared GROUP BY 1', 'SELECT count(*) FROM compared WHERE ARRAY[a] > ARRAY[b]', 'SELECT count(*) FROM compared WHERE ROW(b::text, n) > ROW(''"x5"'', 7)');
EXECUTE compare_json;
CREATE OR REPLACE FUNCTION json_order(json, json) RETURNS int IMMUTABLE LANGUAGE sql AS $$ SELECT -bttextcmp($1::text, $2::text) $$;
EXECUTE compare_json;
SET timezone_abbreviations = 'Default';
SELECT * FROM gpuscan_test.check('SELECT max(ts AT TIME ZONE ''EST'') FROM t', 'SELECT max(ts AT TIME ZONE ''IST'') FROM t');
SET timezone_abbreviations = 'India';
SELECT * FROM gpuscan_test.check('SELECT max(ts AT TIME ZONE ''EST'') FROM t', 'SELECT max(ts AT TIME ZONE ''IST'') FROM t');
RESET timezone_abbreviations;
-- a parameter that is no constant
PREPARE by_pattern(text) AS SELECT count(*) FROM t WHERE email ~ $1;
EXECUTE by_pattern('7@');
EXPLAIN (COSTS OFF) EXECUTE by_pattern('7@');
SET plan_cache_mode = force_generic_plan;
EXPLAIN (COSTS OFF) EXECUTE by_pattern('7@');
RESET plan_cache_mode;

-- Unlogged and temporary tables are not cached, but read
CREATE UNLOGGED TABLE un AS SELECT id, a, b FROM t;
CREATE TEMP TABLE tmp AS SELECT id, a, b FROM t;
SELECT * FROM gpuscan_test.check('SELECT a || b, count(*) FROM un GROUP BY 1', 'SELECT a || b, count(*) FROM tmp GROUP BY 1');
SELECT source('SELECT a || b, count(*) FROM un GROUP BY 1');

-- Which plan costs less: ours, and far less with the expression in the cache
RESET gpuscan.force;
SELECT gpuscan_evict('t') > 0;
CREATE FUNCTION cost(query text) RETURNS float8 LANGUAGE sql AS $$ SELECT (regexp_match(gpuscan_test.plan(query, ''), '"Total Cost": ([0-9.]+)'))[1]::float8 $$;
SET gpuscan.request_cost = 1;
CREATE TABLE costs AS SELECT cost('SELECT count(*) FROM t WHERE email ~ ''7@''') AS first;
EXPLAIN (COSTS OFF) SELECT count(*) FROM t WHERE email ~ '7@';
SELECT count(*) FROM t WHERE email ~ '7@';
SELECT first > 2 * cost('SELECT count(*) FROM t WHERE email ~ ''7@''') FROM costs;
SELECT source('SELECT count(*) FROM t WHERE email ~ ''7@''');
-- of partitions too, when it is asked for again
CREATE TABLE parts (id int, email text) PARTITION BY RANGE (id);
CREATE TABLE parts1 PARTITION OF parts FOR VALUES FROM (0) TO (5000);
CREATE TABLE parts2 PARTITION OF parts FOR VALUES FROM (5000) TO (20000);
INSERT INTO parts SELECT id, email FROM t;
VACUUM ANALYZE parts;
EXPLAIN (COSTS OFF) SELECT right(email, 7), count(*) FROM parts GROUP BY 1;
EXPLAIN (COSTS OFF) SELECT right(email, 7), count(*) FROM parts GROUP BY 1;
SELECT source('SELECT right(email, 7), count(*) FROM parts GROUP BY 1') FROM generate_series(1, 2);
RESET gpuscan.request_cost;

-- A session that has met an error does not evaluate that again, until something has happened to the table
SET gpuscan.explain_rejected = on;
CREATE FUNCTION failed_before(query text) RETURNS bool LANGUAGE sql AS $$ SELECT gpuscan_test.plan(query, '') LIKE '%an expression failed for a row before%' $$;
ALTER TABLE t SET (fillfactor = 100);
SELECT failed_before('SELECT max(make_date(y, m, d + 3)) FROM t');
SET gpuscan.force = on;
SELECT max(make_date(y, m, d + 3)) FROM t;
SELECT failed_before('SELECT max(make_date(y, m, d + 3)) FROM t');
RESET gpuscan.force;
SELECT failed_before('SELECT max(make_date(y, m, d + 3)) FROM t'), failed_before('SELECT max(make_date(y, m, d)) FROM t'), failed_before('SELECT max(make_date(y, m, d + 3)), max(lower(email)) FROM t');
SELECT max(make_date(y, m, d + 3)) FROM t;
ALTER TABLE t SET (fillfactor = 100);
SELECT failed_before('SELECT max(make_date(y, m, d + 3)) FROM t');
RESET gpuscan.explain_rejected;

-- Rows that a user may not see are not looked at; nor functions called that he may not call
SET gpuscan.force = on;
CREATE ROLE gpuscan_expressions_user;
GRANT USAGE ON SCHEMA expression_columns, gpuscan_test TO gpuscan_expressions_user;
GRANT SELECT ON t TO gpuscan_expressions_user;
CREATE VIEW barrier WITH (security_barrier) AS SELECT * FROM t WHERE id > 100;
GRANT SELECT ON barrier TO gpuscan_expressions_user;
SELECT * FROM gpuscan_test.check('SELECT count(*) FROM t WHERE sqrt(id - 100 + f * 0) > 3 AND id > 100', 'SELECT count(*) FROM barrier WHERE sqrt(id - 100 + f * 0) > 3', 'SELECT count(*) FROM barrier WHERE lower(email) > ''v''', 'SELECT count(*), sum(f) FROM barrier');
SELECT count(*) FROM t WHERE lower(email) = 'user77@example77.com';
BEGIN;
REVOKE EXECUTE ON FUNCTION pg_catalog.lower(text) FROM PUBLIC;
SET ROLE gpuscan_expressions_user;
SELECT count(*) FROM t WHERE lower(email) = 'user77@example77.com';
ROLLBACK;
DROP OWNED BY gpuscan_expressions_user;
DROP ROLE gpuscan_expressions_user;
RESET gpuscan.force;
