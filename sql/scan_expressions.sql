-- Scans whose conditions have expressions that no device computes: the cache has them as columns, and says which blocks to read.
CREATE SCHEMA scan_expressions;
SET search_path = scan_expressions, public;
SET gpuscan.force = on;
SET enable_indexscan = off;
SET enable_bitmapscan = off;
SET max_parallel_workers_per_gather = 0;

CREATE FUNCTION try(query text, OUT outcome text, OUT again text, OUT last text)
LANGUAGE plpgsql AS $$
BEGIN
  outcome := gpuscan_test.same(query);
  again := gpuscan_test.scanned(query);
  last := gpuscan_test.same(query);
END $$;

CREATE TABLE t (id int, gone int, email text, a text, b varchar(20), doc jsonb, y int, n numeric(10,2), tz timestamptz, big text, pad text DEFAULT repeat('x', 150)) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT i, 0, 'User' || i || '@Example' || i % 700 || '.com', CASE WHEN i % 13 > 0 THEN 'a' || i % 1000 END, CASE WHEN i % 17 > 0 THEN 'B' || i / 1000 END,
  CASE WHEN i % 5 > 0 THEN jsonb_build_object('user', i % 10000, 'n', nullif(i % 9, 0), 'tags', jsonb_build_array(i, 'x')) END, i % 3000, i % 1000 * 0.01, timestamptz '2026-01-01 00:00+00' + i * interval '1 min',
  CASE WHEN i % 9000 = 77 THEN repeat(md5(i::text), 400) ELSE 'small ' || i END FROM generate_series(1, 30000) i;
ALTER TABLE t DROP COLUMN gone;

ANALYZE t;
-- Nothing is all-visible yet: PostgreSQL evaluates the conditions where they are
SELECT gpuscan_test.scanned('SELECT * FROM t WHERE lower(email) = ''user77@example77.com''') FROM generate_series(1, 2);
SELECT gpuscan_test.same('SELECT * FROM t WHERE lower(email) = ''user77@example77.com''');
VACUUM ANALYZE t;
-- first evaluated, then sought, by another constant too
SELECT gpuscan_test.scanned('SELECT * FROM t WHERE lower(email) = ''user77@example77.com''');
SELECT gpuscan_test.scanned('SELECT * FROM t WHERE lower(email) = ''user7777@example77.com''');
SELECT * FROM gpuscan_test.check('SELECT * FROM t WHERE lower(email) = ''user77@example77.com''', 'SELECT * FROM t WHERE lower(email) = ''User77@example77.com''', 'SELECT * FROM t WHERE lower(email) IN (''user5@example5.com'', ''user29000@example300.com'')');
EXPLAIN (COSTS OFF) SELECT id FROM t WHERE lower(email) = 'user77@example77.com' AND y > 5;
SELECT m[1] AS counter FROM regexp_matches(gpuscan_test.plan('SELECT count(*) FROM (SELECT FROM t WHERE a || b = ''none'' OFFSET 0) q', 'ANALYZE, TIMING OFF, SUMMARY OFF,'),
  '(Blocks (?:Cached|Read|Loaded|Loose|Skipped)": \d+|Tuples Evaluated": \d+)', 'g') m;
-- and one that an aggregation has loaded
SELECT count(*) FROM t WHERE reverse(email) = 'moc';
SELECT gpuscan_test.scanned('SELECT * FROM t WHERE reverse(email) = ''moc.77elpmaxE@7777resU''');
SELECT * FROM try('SELECT * FROM t WHERE a || b LIKE ''a77B1%''');
SELECT * FROM try('SELECT id FROM t WHERE a || b IS NULL AND y < 5');
SELECT * FROM try('SELECT id FROM t WHERE doc ->> ''user'' = ''17''');
SELECT * FROM try('SELECT id FROM t WHERE (doc ->> ''user'')::int BETWEEN 17 AND 19 AND doc ->> ''n'' IS NULL');
SELECT * FROM try('SELECT id FROM t WHERE doc @> ''{"tags": [1234]}''');
SELECT * FROM try('SELECT id FROM t WHERE (tz AT TIME ZONE ''Europe/Berlin'')::date = ''2026-01-05'' AND email ~ ''77@''');
SELECT * FROM try('SELECT id FROM t WHERE n::text || y = ''5.771577''');
SELECT * FROM try('SELECT id, length(big) FROM t WHERE md5(big) LIKE ''%ab12%''');
SELECT * FROM try('SELECT id FROM t WHERE length(big || a) > 1000');
SELECT * FROM try('SELECT id FROM t WHERE CASE WHEN y < 3 THEN lower(email) = ''user3000@example200.com'' ELSE a || b = ''a5B5'' END');
SELECT * FROM try('SELECT id FROM t WHERE a || b > ''a9'' OR lower(email) < ''user''');
SELECT * FROM try('SELECT id FROM t WHERE NOT (lower(email) ~ ''[0-8]@'') IS TRUE AND y = 2999');
-- beside conditions that stay PostgreSQL's, and are evaluated once a row
SELECT * FROM try('SELECT id FROM t WHERE a || b = ''a77B5'' AND quote_ident(email) ~ ''7''');
CREATE SEQUENCE calls;
CREATE FUNCTION called(int) RETURNS bool LANGUAGE plpgsql COST 10000 AS $$ BEGIN RETURN nextval('calls') > $1; END $$;
SELECT count(*) FROM t WHERE lower(email) = 'user77@example77.com' AND called(0);
SELECT last_value FROM calls;
-- System columns, whole rows, the order of rows, a LIMIT, parameters, rescans
SELECT * FROM try('SELECT ctid, tableoid::regclass, xmin, t FROM t WHERE a || b = ''a77B5''');
SELECT * FROM try('SELECT array_agg(id) FROM (SELECT id FROM t WHERE a || b ~ ''^a7.?.?B.7?$'' OFFSET 0) q');
SELECT * FROM try('SELECT id FROM t WHERE a || b ~ ''^a7.?.?B.7?$'' LIMIT 3');
SELECT * FROM try('SELECT x, q.* FROM generate_series(16, 18) x, LATERAL (SELECT id FROM t WHERE doc ->> ''user'' = x::text OFFSET 0) q');
SELECT * FROM try('SELECT x, (SELECT id FROM t WHERE a || b = x LIMIT 1) FROM unnest(''{a1B1,a2B2,none,NULL}''::text[]) x');
SET plan_cache_mode = force_generic_plan;
PREPARE q(text) AS SELECT id FROM t WHERE doc ->> 'user' = $1;
EXPLAIN (COSTS OFF) EXECUTE q('18');
EXECUTE q('18');
EXECUTE q(NULL);
DEALLOCATE q;
RESET plan_cache_mode;
SELECT * FROM try('SELECT t.id, u.id FROM t JOIN t u ON t.y = u.y AND t.id < u.id WHERE lower(t.email) ~ ''user77?@'' AND upper(u.email) ~ ''7@''');

-- Changes, ours and not yet committed, committed, rolled back
BEGIN;
UPDATE t SET doc = '{"user": 17}' WHERE id = 15000;
SELECT * FROM try('SELECT id FROM t WHERE doc ->> ''user'' = ''17''');
SAVEPOINT s;
DELETE FROM t WHERE doc ->> 'user' = '17';
SELECT * FROM try('SELECT id FROM t WHERE doc ->> ''user'' = ''17''');
ROLLBACK TO s;
INSERT INTO t (id, doc) SELECT -i, '{"user": 17}' FROM generate_series(1, 3) i;
DECLARE c CURSOR FOR SELECT id FROM t WHERE doc ->> 'user' = '17';
FETCH 1 FROM c;
INSERT INTO t (id, doc) VALUES (-4, '{"user": 17}');
UPDATE t SET doc = NULL WHERE doc ->> 'user' = '17';
FETCH ALL FROM c;
ROLLBACK;
SELECT * FROM try('SELECT id FROM t WHERE doc ->> ''user'' = ''17''');
UPDATE t SET doc = '{"user": 17}' WHERE id IN (8000, 9000);
DELETE FROM t WHERE id BETWEEN 7000 AND 7100;
SELECT * FROM try('SELECT id FROM t WHERE doc ->> ''user'' = ''17''');
VACUUM t;
SELECT gpuscan_test.scanned('SELECT id FROM t WHERE doc ->> ''user'' = ''17''');
SELECT * FROM try('SELECT id FROM t WHERE doc ->> ''user'' = ''17''');
VACUUM FREEZE t;
SELECT * FROM try('SELECT id FROM t WHERE doc ->> ''user'' = ''17''');
-- another file, another shape
VACUUM FULL t;
SELECT * FROM try('SELECT id FROM t WHERE doc ->> ''user'' = ''17''');
VACUUM t;
SELECT * FROM try('SELECT id FROM t WHERE doc ->> ''user'' = ''17''');
ALTER TABLE t ADD COLUMN c text DEFAULT 'first';
SELECT * FROM try('SELECT id FROM t WHERE a || c = ''a77first''');
BEGIN;
ALTER TABLE t DROP COLUMN c;
ALTER TABLE t ADD COLUMN c text DEFAULT 'second';
SELECT * FROM try('SELECT id FROM t WHERE a || c = ''a77first''');
SELECT * FROM try('SELECT id FROM t WHERE a || c = ''a77second''');
ROLLBACK;
ALTER TABLE t DROP COLUMN c;
ALTER TABLE t ADD COLUMN c text DEFAULT 'third';
SELECT * FROM try('SELECT id FROM t WHERE a || c = ''a77first''');
SELECT * FROM try('SELECT id FROM t WHERE a || c = ''a77third''');
ALTER TABLE t RENAME a TO aa;
SELECT gpuscan_test.scanned('SELECT id FROM t WHERE aa || c = ''a78third''');
TRUNCATE t;
SELECT * FROM try('SELECT id FROM t WHERE aa || c = ''a78third''');
CREATE TABLE empty (a text, b text);
SELECT * FROM try('SELECT * FROM empty WHERE a || b = ''x''');

-- An error is raised where PostgreSQL raises it; a range with one is evaluated once, and then read
CREATE TABLE e (id int, k int, s text, pad text DEFAULT repeat('x', 300)) WITH (autovacuum_enabled = off);
INSERT INTO e SELECT i, i % 2, CASE WHEN i IN (4000, 29999) THEN 'none' ELSE i::text END FROM generate_series(1, 30000) i;
VACUUM ANALYZE e;
SELECT * FROM try('SELECT id FROM e WHERE s::int = 77');
SELECT * FROM try('SELECT id FROM e WHERE id < 3000 AND s::int = 77');
SELECT gpuscan_test.scanned('SELECT id FROM e WHERE id NOT IN (4000, 29999) AND s::int = 77');
SELECT * FROM try('SELECT id FROM e WHERE id NOT IN (4000, 29999) AND s::int = 77');
SELECT * FROM try('SELECT id FROM e WHERE s <> ''none'' AND (s::int = 77 OR s::int > 29990)');
SELECT * FROM try('SELECT id FROM e WHERE s::int = 77 LIMIT 1');
SELECT * FROM try('SELECT id FROM e WHERE 1 / (length(s || k) - 2) = 1 AND id > 100');
-- by the device: such a block is read, and PostgreSQL says
SELECT * FROM try('SELECT id FROM e WHERE 1 / (length(s || k) - 2) = 1');
SELECT * FROM try('SELECT id FROM e WHERE id > 9 AND 10 / (length(s || k) - 2) = 3');
-- all of them
SELECT * FROM try('SELECT id FROM e WHERE id < 0 AND (''x'' || s)::int = 77');
SELECT gpuscan_test.scanned('SELECT id FROM e WHERE id < 0 AND (''x'' || s)::int = 77');
-- the only row of its range
CREATE TABLE one AS SELECT 1 AS id, 'none' AS s;
VACUUM ANALYZE one;
SELECT * FROM try('SELECT id FROM one WHERE (s || id)::int = 77');
SELECT * FROM try('SELECT id FROM one WHERE id > 1 AND (s || id)::int = 77');
-- those that are too large
SELECT * FROM try('SELECT id FROM e WHERE repeat(s || pad, CASE id WHEN 77 THEN 10000 ELSE 1 END) ~ ''^77x''');
SELECT * FROM try('SELECT id FROM e WHERE repeat(s || pad, 5) = repeat(''77'' || pad, 5)');
SELECT gpuscan_test.scanned('SELECT id FROM e WHERE repeat(s || pad, 5) = repeat(''77'' || pad, 5)');
-- several processes
SELECT gpuscan_evict('e') > 0 AS evicted;
SET force_parallel_mode = on;
SET max_parallel_workers_per_gather = 2;
SELECT * FROM try('SELECT id FROM e WHERE id NOT IN (4000, 29999) AND s::int = 77');
SELECT * FROM try('SELECT id FROM e WHERE s || k = ''771''');
RESET force_parallel_mode;
SET max_parallel_workers_per_gather = 0;
SELECT * FROM try('SELECT id FROM e WHERE id NOT IN (4000, 29999) AND s::int = 78');

-- Many partitions, for the planner below
CREATE TABLE many (id int, s text) PARTITION BY HASH (id);
DO $$
BEGIN
  FOR i IN 0..69 LOOP
    EXECUTE format('CREATE TABLE many%s PARTITION OF many FOR VALUES WITH (MODULUS 70, REMAINDER %s) WITH (autovacuum_enabled = off)', i, i);
  END LOOP;
END $$;
INSERT INTO many SELECT i, repeat('s' || i, 10) FROM generate_series(1, 70000) i;

-- Partitions whose columns lie elsewhere
CREATE TABLE p (id int, s text, x text) PARTITION BY RANGE (id);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (5000);
CREATE TABLE p2 (x text, gone int, id int, s text);
ALTER TABLE p2 DROP COLUMN gone;
ALTER TABLE p ATTACH PARTITION p2 FOR VALUES FROM (5000) TO (100000);
INSERT INTO p SELECT i, 's' || i % 3000, 'x' || i % 7 FROM generate_series(1, 20000) i;
VACUUM ANALYZE p1, p2;
SELECT * FROM try('SELECT p, tableoid::regclass FROM p WHERE s || x = ''s77x0''');
SELECT gpuscan_test.scanned('SELECT * FROM p2 WHERE s || x = ''s78x0''');

-- Not cached: PostgreSQL's
CREATE UNLOGGED TABLE u AS SELECT i, 'a' || i AS s FROM generate_series(1, 2000) i;
CREATE TABLE never AS SELECT i, 'a' || i AS s FROM generate_series(1, 2000) i;
SECURITY LABEL FOR gpuscan ON TABLE never IS 'never cache';
VACUUM u, never;
SELECT * FROM try('SELECT * FROM u WHERE s || i = ''a7777''');
SELECT * FROM try('SELECT * FROM never WHERE s || i = ''a7777''');
-- nor where a policy hides rows
CREATE VIEW barrier WITH (security_barrier) AS SELECT * FROM e WHERE id <> 4000;
EXPLAIN (COSTS OFF) SELECT id FROM barrier WHERE s::int = 77;

-- Whatever fails, PostgreSQL goes on: with the replaced plan, or after the first row by itself
CREATE FUNCTION points(VARIADIC names text[]) RETURNS TABLE (fault text, outcome text, limited text) LANGUAGE plpgsql AS $$
BEGIN
  FOREACH fault IN ARRAY names LOOP
    PERFORM set_config('gpuscan.inject_fault', fault, true);
    RETURN QUERY SELECT fault, gpuscan_test.same('SELECT id FROM e WHERE s || k = ''771'''), gpuscan_test.same('SELECT id FROM e WHERE s || k ~ ''^7.*1$'' LIMIT 20');
  END LOOP;
END $$;
SELECT * FROM points('device-error:begin', 'device-error:push', 'device-error:push:2');
SELECT gpuscan_evict('e') > 0 AS evicted;
SELECT * FROM points('device-error:push:2', 'device-error:push:10');

-- The planner: the first time it is PostgreSQL's plan, asked again it is ours, and by any other constant
CREATE FUNCTION whose(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE plan text;
BEGIN
  EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO plan;
  RETURN CASE WHEN plan ~ '"Gpu(Scan|Agg)"' THEN 'ours' ELSE 'PostgreSQL''s' END;
END $$;
VACUUM ANALYZE e;
SELECT gpuscan_evict('e') > 0 AS evicted;
RESET gpuscan.force;
SET gpuscan.request_cost = 10;
\c -
SET search_path = scan_expressions, public;
SET max_parallel_workers_per_gather = 0;
SET gpuscan.request_cost = 10;
SELECT whose('SELECT id FROM e WHERE s || k = ''771''');
SELECT whose('SELECT id FROM e WHERE s || k = ''781''');
SELECT id FROM e WHERE s || k = '771';
SELECT id FROM e WHERE s || k = '781';
SELECT whose('SELECT id FROM e WHERE s || k = ''791''');
-- one that finds something everywhere is read by PostgreSQL's plan
SELECT whose('SELECT id FROM e WHERE left(s, 0) || k = ''1''');
SELECT gpuscan_test.scanned('SELECT id FROM e WHERE left(s, 0) || k = ''1''');
SELECT whose('SELECT id FROM e WHERE left(s, 0) || k = ''0''');
-- one that cannot be cached is no investment in the end
SELECT whose('SELECT id FROM e WHERE (''x'' || s)::int = 77');
SELECT whose('SELECT id FROM e WHERE (''x'' || s)::int = 77');
CREATE FUNCTION runs(n int, query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE outcomes text[];
BEGIN
  FOR i IN 1..n LOOP
    BEGIN
      EXECUTE query;
      outcomes := outcomes || 'done'::text;
    EXCEPTION WHEN invalid_text_representation THEN
      outcomes := outcomes || 'error'::text;
    END;
  END LOOP;
  RETURN (SELECT string_agg(DISTINCT o, ' ') FROM unnest(outcomes) o);
END $$;
SELECT runs(15, 'SELECT id FROM e WHERE (''x'' || s)::int = 77'), whose('SELECT id FROM e WHERE (''x'' || s)::int = 77');
SELECT runs(1, 'SELECT id FROM e WHERE (''x'' || s)::int = 77'), whose('SELECT id FROM e WHERE (''x'' || s)::int = 77');
-- what is only planned counts for nothing, nor queries in which PostgreSQL evaluates it for few rows
SELECT whose('SELECT count(*) FROM e WHERE s || k || ''a'' > ''x''');
SELECT string_agg(DISTINCT whose('SELECT count(*) FROM e WHERE s || k || ''a'' > ''x'''), ' ') FROM generate_series(1, 40);
SELECT runs(20, 'SELECT id FROM e WHERE id < 0 AND s || k || ''b'' = ''x''');
SELECT whose('SELECT id FROM e WHERE s || k || ''b'' = ''x''');
-- nor those that have come into the cache, and are gone again
DO $$ BEGIN FOR i IN 1..20 LOOP PERFORM gpuscan_evict('e'), runs(2, 'SELECT id FROM e WHERE s || k = ''771'''); END LOOP; END $$;
SELECT gpuscan_evict('e') > 0 AS evicted, whose('SELECT id FROM e WHERE s || k = ''771''');
-- expressions of many partitions are known at once
VACUUM ANALYZE many;
SET gpuscan.request_cost = 0;
CREATE FUNCTION ours(query text) RETURNS bigint LANGUAGE sql AS $$ SELECT count(*) FROM regexp_matches(gpuscan_test.plan(query, ''), '"GpuScan"', 'g') $$;
SELECT ours('SELECT id FROM many WHERE md5(s || id) LIKE ''abcd%''');
SELECT ours('SELECT id FROM many WHERE md5(s || id) LIKE ''abcd%''');
SELECT gpuscan_test.same('SELECT id FROM many WHERE md5(s || id) LIKE ''abcd%''');
SET gpuscan.request_cost = 10;
-- where the device evaluates the other condition first, nothing is said against the plan
SET gpuscan.explain_rejected = on;
SELECT plan LIKE '%GpuScan"%' AS ours, plan LIKE '%it would cost%' AS rejected FROM unnest(ARRAY['SELECT id FROM e WHERE id = 77 AND s || id = ''7777''', 'SELECT id FROM e WHERE s || id = ''7777''']) q, gpuscan_test.plan(q) plan;
