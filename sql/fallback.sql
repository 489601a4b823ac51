-- The replaced plan: run on a device's error and on values that are PostgreSQL's, before the first row; the reason is shown.
CREATE SCHEMA fallback;
SET search_path = fallback, public;
CREATE TABLE t AS SELECT i AS id, i % 10 AS a, 'x' || i % 4 AS b, (i / 2.0)::numeric(8,1) AS n, i * 0.5::float8 AS f FROM generate_series(1, 3000) i;
CREATE TABLE odd AS SELECT * FROM t;
-- many batches
CREATE TABLE large AS SELECT i AS id, i % 10 AS a, repeat('p', 300) AS pad FROM generate_series(1, 40000) i;
INSERT INTO odd VALUES (3001, 1, 'x1', 'NaN', '-0');
CREATE FUNCTION points(VARIADIC names text[]) RETURNS TABLE (fault text, n bigint, outcome text) LANGUAGE plpgsql AS $$
BEGIN
  FOREACH fault IN ARRAY names LOOP
    PERFORM set_config('gpuscan.inject_fault', fault, true);
    RETURN QUERY SELECT fault, c.* FROM gpuscan_test.check('SELECT count(*), sum(n) FROM t WHERE a = 3', 'SELECT a, count(DISTINCT b), avg(f) FROM t GROUP BY a', 'SELECT id, b FROM t WHERE a = 3', 'SELECT k, (SELECT count(*) FROM t WHERE a = k) FROM generate_series(1, 3) k') c;
  END LOOP;
  PERFORM set_config('gpuscan.inject_fault', '', true);
END $$;
SELECT * FROM points('device-error:begin', 'device-error:push', 'device-error:push:2', 'device-error:finish', 'device-error:fetch', 'device-error:fetch:2');
SET gpuscan.inject_fault = 'device-error:push:3';
SELECT * FROM gpuscan_test.check('SELECT count(*), sum(id) FROM large WHERE a = 3', 'SELECT a, count(*) FROM large GROUP BY a', 'SELECT id FROM large WHERE a = 3', 'SELECT id FROM large WHERE a = 3 ORDER BY id LIMIT 5');
RESET gpuscan.inject_fault;
-- afterwards all is well
SELECT * FROM points('');
-- values that a device leaves to PostgreSQL
SELECT * FROM gpuscan_test.check('SELECT sum(n) FROM odd', 'SELECT n, count(*) FROM odd GROUP BY n', 'SELECT f, count(*) FROM odd GROUP BY f', 'SELECT id FROM odd WHERE n > 1499', 'SELECT sum(n) FROM odd WHERE a = 2', 'SELECT sum(f) FROM odd', 'SELECT sum(1 / (a + 1)) FROM odd', 'SELECT sum(1 / a) FROM t', 'SELECT id FROM t WHERE 1 / a = 1 AND id < 5', 'SELECT id FROM t WHERE a > 0 AND 1 / a = 1 AND id < 50');
-- rescans after a failure, cursors over a replaced plan
SET gpuscan.force = on;
SET gpuscan.inject_fault = 'device-error:push';
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT id FROM t WHERE a = 3;
FETCH 2 FROM c;
FETCH BACKWARD 1 FROM c;
FETCH LAST FROM c;
COMMIT;
SELECT k, q.n FROM generate_series(1, 4) k, LATERAL (SELECT count(*) AS n FROM t WHERE a = k) q;
RESET gpuscan.inject_fault;
SELECT count(*) FROM gpuscan_activity WHERE pid = pg_backend_pid();
