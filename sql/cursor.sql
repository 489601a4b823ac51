-- Cursors: partial reads, scrolling, WITH HOLD, several open at a time, closed early.
CREATE SCHEMA cursors;
SET search_path = cursors, public;
-- Requests of this session; those that were abandoned end without us, but soon.
CREATE FUNCTION requests_left() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE n bigint;
BEGIN
  FOR i IN 1 .. 100 LOOP
    n := (SELECT count(*) FROM gpuscan_activity WHERE pid = pg_backend_pid());
    EXIT WHEN n = 0;
    PERFORM pg_sleep(0.1);
  END LOOP;
  RETURN n;
END $$;
SET gpuscan.force = on;
CREATE TABLE t AS SELECT i AS id, i % 10 AS a, (i / 2.0)::numeric(8,1) AS n FROM generate_series(1, 5000) i;
BEGIN;
DECLARE scan CURSOR FOR SELECT id FROM t WHERE a = 3;
DECLARE agg CURSOR FOR SELECT a, count(*), sum(n) FROM t GROUP BY a ORDER BY a;
DECLARE scroll SCROLL CURSOR FOR SELECT id FROM t WHERE a = 7;
DECLARE held CURSOR WITH HOLD FOR SELECT a, max(id) FROM t GROUP BY a ORDER BY a DESC;
FETCH 3 FROM scan;
FETCH 2 FROM agg;
FETCH 2 FROM scroll;
FETCH BACKWARD 2 FROM scroll;
FETCH LAST FROM scroll;
FETCH RELATIVE -2 FROM scroll;
FETCH FIRST FROM scroll;
FETCH ABSOLUTE 100 FROM scroll;
FETCH 2 FROM scan;
CLOSE scan;
FETCH 2 FROM agg;
MOVE ALL FROM agg;
FETCH 1 FROM agg;
SAVEPOINT s;
DECLARE inner_one CURSOR FOR SELECT id FROM t WHERE a = 1;
FETCH 1 FROM inner_one;
ROLLBACK TO s;
FETCH 1 FROM inner_one;
ROLLBACK TO s;
FETCH 1 FROM scroll;
COMMIT;
FETCH 3 FROM held;
SELECT requests_left();
CLOSE held;
-- an error leaves nothing behind
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM t WHERE a = 3;
FETCH 1 FROM c;
SELECT 1 / 0;
ROLLBACK;
SELECT requests_left();
-- WHERE CURRENT OF
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM t WHERE a = 3;
FETCH 2 FROM c;
UPDATE t SET n = 0 WHERE CURRENT OF c;
SELECT id FROM t WHERE n = 0;
ROLLBACK;
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM t WHERE a = 3 FOR UPDATE;
FETCH 2 FROM c;
UPDATE t SET n = 0 WHERE CURRENT OF c;
SELECT id FROM t WHERE n = 0;
ROLLBACK;
-- in PL/pgSQL, with a loop that leaves early and one that changes the table
CREATE FUNCTION f() RETURNS int LANGUAGE plpgsql AS $$
DECLARE r record; total int := 0;
BEGIN
  FOR r IN SELECT id FROM t WHERE a = 4 ORDER BY id LOOP
    total := total + r.id;
    EXIT WHEN r.id > 50;
  END LOOP;
  FOR r IN SELECT id FROM t WHERE a = 5 LOOP
    UPDATE t SET a = 5 WHERE id = r.id + 1;
  END LOOP;
  RETURN total;
END $$;
SELECT f();
SELECT a, count(*) FROM t GROUP BY a ORDER BY a;
-- more open at a time than there are requests: the others run their replaced plans
CREATE FUNCTION many(n int) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE c refcursor[]; r record; total bigint := 0; one refcursor;
BEGIN
  FOR i IN 1 .. n LOOP
    one := NULL;
    OPEN one FOR SELECT id FROM t WHERE a = 2;
    c := c || one;
    FETCH one INTO r;
    total := total + r.id;
  END LOOP;
  RETURN total;
END $$;
SELECT many(200);
SELECT requests_left();
