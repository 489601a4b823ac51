-- Corners that were wrong once.
CREATE SCHEMA corner_cases;
SET search_path = corner_cases, public;
CREATE TABLE t AS SELECT i AS id, i % 10 AS a, 'x' || i % 4 AS c, (i % 500 * 0.25)::numeric(10,2) AS n, 0 AS b FROM generate_series(1, 500) i;
CREATE TABLE small (w numeric(18,23));
INSERT INTO small VALUES (0.000009), (0.000001);
CREATE MATERIALIZED VIEW empty AS SELECT * FROM t WITH NO DATA;

SELECT * FROM gpuscan_test.check(
  -- more digits behind the point than 64 bits hold as a power of ten
  'SELECT w::int, count(*) FROM small GROUP BY 1',
  'SELECT sum(w::int), sum(w::numeric(5,1)) FROM small',
  -- members of a list with many zeros, or beyond all digits
  'SELECT count(*) FROM t WHERE n IN (1.2500000000000000000000000000000000000000, 99999)',
  'SELECT count(*) FROM t WHERE n NOT IN (1.2500000000000000000000000000000000000001, ''NaN'')',
  'SELECT count(*) FROM t WHERE NULLIF(n, 1) <> ALL (ARRAY[0.001])',
  -- a materialized view that was not populated
  'SELECT count(*) FROM empty',
  -- GROUPING without grouping sets
  'SELECT a, grouping(a), count(*) FROM t GROUP BY a',
  'SELECT a FROM t GROUP BY a HAVING grouping(a) = 0');

-- the table of a tuple whose page was copied
CREATE TEMP TABLE temporary AS SELECT i AS id, i % 11 AS a FROM generate_series(1, 100) i;
SELECT * FROM gpuscan_test.check('SELECT ctid, tableoid::regclass FROM temporary WHERE a > 9');

SET gpuscan.force = on;

-- a parameter that PostgreSQL never evaluates
SET plan_cache_mode = force_generic_plan;
PREPARE setting(text) AS SELECT count(*) FROM t WHERE id > 0 OR c = current_setting($1);
EXECUTE setting('no.such');
RESET plan_cache_mode;

-- WHERE CURRENT OF, while a device runs the scan and while the replaced plan does
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM t WHERE a > 5;
FETCH 1 FROM c;
UPDATE t SET b = 1 WHERE CURRENT OF c RETURNING id, b;
CLOSE c;
SET LOCAL gpuscan.inject_fault = 'device-error:push';
DECLARE c CURSOR FOR SELECT id FROM t WHERE a > 5;
FETCH 2 FROM c;
UPDATE t SET b = 2 WHERE CURRENT OF c RETURNING id, b;
COMMIT;

-- a condition that may leak waits for the policy's, which stays with PostgreSQL
CREATE VIEW barrier WITH (security_barrier) AS SELECT * FROM t WHERE quote_ident(c || left(a::text, 0)) = 'x1';
EXPLAIN (COSTS OFF) SELECT id FROM barrier WHERE a + 0 < 3;
SELECT * FROM gpuscan_test.check('SELECT id FROM barrier WHERE a + 0 < 3');
