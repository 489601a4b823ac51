-- numeric: exact, with PostgreSQL's scale, and left to PostgreSQL where a value does not fit.
CREATE SCHEMA numerics;
SET search_path = numerics, public;
CREATE TABLE t AS SELECT i AS id, i % 5 AS k, (i % 1000 / 100.0)::numeric(10,2) AS p, (i * 1.000001)::numeric(18,6) AS q,
  (i * 12345678901234567.0123456789)::numeric(38,10) AS w, (i * 1000)::numeric(4,-3) AS n, (i / 100000.0)::numeric(3,5) AS f,
  round(i / 3.0, i % 6) AS u FROM generate_series(1, 800) i;
INSERT INTO t (id) VALUES (9001), (9002);

SELECT * FROM gpuscan_test.check(
  'SELECT sum(p), avg(p), min(p), max(p), stddev(p), var_pop(p), count(p) FROM t',
  'SELECT sum(q), avg(q), min(q), max(q), stddev(q), var_pop(q) FROM t',
  'SELECT sum(w), avg(w), min(w), max(w) FROM t',
  'SELECT stddev(w), var_pop(w) FROM t',
  'SELECT sum(n), avg(n), min(n), max(n) FROM t',
  'SELECT sum(f), avg(f), min(f), max(f) FROM t',
  'SELECT sum(u), avg(u), count(u) FROM t',
  'SELECT min(u), max(u) FROM t WHERE id < 3',
  'SELECT k, sum(p), avg(q), max(w), sum(n), min(f) FROM t GROUP BY k',
  'SELECT p, count(*), sum(q) FROM t GROUP BY p', 'SELECT w, count(*) FROM t GROUP BY w', 'SELECT n, f, count(*) FROM t GROUP BY n, f',
  'SELECT u, count(*) FROM t WHERE id < 50 GROUP BY u',
  'SELECT count(DISTINCT p), count(DISTINCT w), count(DISTINCT n), count(DISTINCT u) FROM t',
  -- results' scales
  'SELECT sum(p * q), sum(p + q), sum(p - w), max(p * 2), min(-p), sum(abs(p - 5)) FROM t',
  'SELECT sum(p * (1 - f) * (1 + f)), avg(p * (1 - f)) FROM t',
  'SELECT sum(p * 1.500), sum(p + 0.0000), sum(p * 3), sum(3 - p) FROM t',
  'SELECT sum(p / 3), sum(p % 3) FROM t',
  'SELECT sum(w * w) FROM t', 'SELECT sum(w * w * w) FROM t',
  'SELECT sum(p::numeric(10,1)), sum(p::numeric(4,2)), max(q::numeric(10,3)) FROM t',
  'SELECT sum(p::numeric(3,2)) FROM t WHERE id < 900', 'SELECT sum(p::numeric(2,2)) FROM t',
  'SELECT sum(p::int), sum(q::int8), max(p::float8), sum(id::numeric), sum(id::numeric(10,2)), avg(k::numeric) FROM t',
  'SELECT p::int, count(*) FROM t GROUP BY 1', 'SELECT sum(n::int4), sum(n * p) FROM t',
  -- filters
  'SELECT id FROM t WHERE p = 1.5', 'SELECT id FROM t WHERE p = 1.50000', 'SELECT id FROM t WHERE p = 1.505', 'SELECT id FROM t WHERE p > 1.505 AND p < 2',
  'SELECT id FROM t WHERE w > 1e19', 'SELECT id FROM t WHERE w < 1e60', 'SELECT id FROM t WHERE p = ''NaN''', 'SELECT id FROM t WHERE p < ''NaN'' AND id < 5',
  'SELECT id FROM t WHERE p < ''Infinity'' AND id < 5', 'SELECT id FROM t WHERE p = k', 'SELECT id FROM t WHERE q > p AND id < 10', 'SELECT id FROM t WHERE n = 3000',
  'SELECT id FROM t WHERE u = 1', 'SELECT id FROM t WHERE p IN (1, 2.5, 3.333)', 'SELECT id FROM t WHERE p > 0.5::float8 AND id < 100', 'SELECT id FROM t WHERE p IS NULL',
  'SELECT count(*) FROM t WHERE coalesce(p, 0.123) < 0.5', 'SELECT coalesce(p, 0.123), count(*) FROM t WHERE id > 700 GROUP BY 1',
  'SELECT greatest(p, q), least(p, 1.5, k) FROM t WHERE k = 3', 'SELECT greatest(p, 2), count(*) FROM t GROUP BY 1', 'SELECT CASE WHEN k = 1 THEN p ELSE q END, count(*) FROM t GROUP BY 1'
);

-- Display scales of an unconstrained numeric: a sum has the largest, an equal minimum the last.
CREATE TABLE scales (id int, x numeric);
INSERT INTO scales VALUES (1, 1.0), (2, 1.00), (3, 1), (4, 2.000), (5, 2), (6, NULL), (7, 0), (8, 0.000);
SELECT * FROM gpuscan_test.check('SELECT sum(x), avg(x) FROM scales', 'SELECT min(x), max(x) FROM scales', 'SELECT x, count(*) FROM scales GROUP BY x',
  'SELECT id % 2, sum(x), max(x) FROM scales GROUP BY 1', 'SELECT count(DISTINCT x) FROM scales', 'SELECT sum(x) FROM scales WHERE x = 1', 'SELECT sum(x * x), sum(-x), sum(x + 1) FROM scales');

-- NaN, infinities and values of too many digits.
CREATE TABLE special (id int, x numeric, y numeric(10,2));
INSERT INTO special SELECT i, i, i FROM generate_series(1, 500) i;
INSERT INTO special VALUES (501, 'NaN', 'NaN'), (502, NULL, NULL);
SELECT * FROM gpuscan_test.check('SELECT sum(x), sum(y), max(y), min(y), count(y) FROM special', 'SELECT y, count(*) FROM special WHERE id > 495 GROUP BY y', 'SELECT id FROM special WHERE y > 499',
  'SELECT id FROM special WHERE y = ''NaN''', 'SELECT sum(y) FROM special WHERE id < 400', 'SELECT id FROM special WHERE x <> 3 AND id > 498', 'SELECT count(DISTINCT y) FROM special');
INSERT INTO special VALUES (503, 'Infinity', 5), (504, '-Infinity', 5), (505, 1e100, 5), (506, 1e-100, 5);
SELECT * FROM gpuscan_test.check('SELECT sum(x) FROM special', 'SELECT sum(x) FROM special WHERE id <= 500', 'SELECT max(x), min(x) FROM special WHERE id > 502', 'SELECT id FROM special WHERE x > 499', 'SELECT id FROM special WHERE x < 1',
  'SELECT count(*) FROM special WHERE x = 1e100', 'SELECT sum(x) FILTER (WHERE id < 10) FROM special', 'SELECT sum(CASE WHEN id < 10 THEN x END) FROM special');

-- Around 18 and 38 digits.
CREATE TABLE digits AS SELECT i AS id, s.x::numeric(18,0) AS a, (s.x::numeric * 10 + 9)::numeric(19,0) AS b, (s.x || repeat('9', 20))::numeric(38,0) AS c
  FROM unnest('{999999999999999999,-999999999999999999,999999999999999998,1,0}'::text[]) WITH ORDINALITY s(x, i);
SELECT * FROM gpuscan_test.check('SELECT sum(a), avg(a), min(a), max(a) FROM digits', 'SELECT sum(b), avg(b), min(b), max(b) FROM digits', 'SELECT sum(c), avg(c), min(c), max(c) FROM digits WHERE id <> 3',
  'SELECT sum(a + a), sum(a * 10), sum(a - 1) FROM digits', 'SELECT sum(a * a), sum(b * b) FROM digits', 'SELECT sum(c + c), sum(c * 10) FROM digits', 'SELECT id FROM digits WHERE a * a > b', 'SELECT id FROM digits WHERE c = 99999999999999999999',
  'SELECT a * 7, count(*) FROM digits GROUP BY 1', 'SELECT c, count(*) FROM digits GROUP BY c', 'SELECT var_pop(a), stddev(b), variance(c) FROM digits');
