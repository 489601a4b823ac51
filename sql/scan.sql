-- GpuScan: filters, projections, rows in the heap's order.
CREATE SCHEMA scan;
SET search_path = scan, public;
CREATE TABLE t (id int, a int, b int8, c text, d float8, e numeric(8,2), f date, g jsonb);
INSERT INTO t SELECT i, i % 100, i * 1000000007::int8, 'text ' || i % 7, i / 8.0, i / 100.0, date '2024-01-01' + i % 400,
  jsonb_build_object('i', i) FROM generate_series(1, 3000) i;
INSERT INTO t (id) SELECT i FROM generate_series(3001, 3010) i;

SELECT * FROM gpuscan_test.check(
  'SELECT id FROM t WHERE a = 5',
  'SELECT * FROM t WHERE a < 3 AND d > 100',
  'SELECT t FROM t WHERE a = 99',
  'SELECT id, g->''i'', a + 1, c || ''x'' FROM t WHERE b > 2000000000000',
  'SELECT ctid, tableoid::regclass, id FROM t WHERE a = 1',
  'SELECT xmin IS NOT NULL, cmin IS NOT NULL FROM t WHERE a = 1',
  'SELECT 1 FROM t WHERE a = 1',
  'SELECT FROM t WHERE a = 1',
  'SELECT id FROM t WHERE a IS NULL',
  'SELECT id FROM t WHERE a = 1000',
  'SELECT id FROM t WHERE c = ''text 3'' OR f = ''2024-02-01''',
  'SELECT id FROM t WHERE e BETWEEN 1.5 AND 2.25',
  -- a part of the filter is PostgreSQL's
  'SELECT id FROM t WHERE a = 5 AND c LIKE ''text%''',
  'SELECT id FROM t WHERE a = 5 AND g->>''i'' = ''105''',
  'SELECT id FROM t WHERE a = 5 AND random() >= 0',
  'SELECT id FROM t WHERE a = 5 OR c LIKE ''%3''',
  -- above the scan
  'SELECT id FROM t WHERE a > 50 ORDER BY id DESC LIMIT 7',
  'SELECT id, row_number() OVER (ORDER BY id) FROM t WHERE a = 17',
  'SELECT DISTINCT c FROM t WHERE a > 3',
  'SELECT string_agg(c, '','' ORDER BY id) FROM t WHERE a = 1',
  'SELECT id FROM t WHERE a = 1 UNION ALL SELECT id FROM t WHERE a = 2',
  'SELECT x.id, y.id FROM t x JOIN t y ON x.id = y.a WHERE x.a = 5 AND y.d < 100',
  'SELECT id FROM t WHERE a IN (SELECT a FROM t WHERE d < 2)',
  'SELECT id FROM t WHERE NOT EXISTS (SELECT 1 FROM t u WHERE u.a = t.id) AND a < 5',
  'SELECT generate_series(1, a) FROM t WHERE a < 4',
  'WITH w AS MATERIALIZED (SELECT * FROM t WHERE a = 7) SELECT count(*), sum(id) FROM w'
);

-- Rows come in the heap's order.
SET gpuscan.force = on;
SELECT bool_and(id > prev) FROM (SELECT id, lag(id, 1, 0) OVER () AS prev FROM t WHERE a % 2 = 0) q;

-- Data-modifying statements read through our scans.
EXPLAIN (COSTS OFF) INSERT INTO t SELECT id + 10000, a FROM t WHERE a = 1;
BEGIN;
INSERT INTO t (id, a) SELECT id + 10000, a FROM t WHERE a = 1;
CREATE TABLE copy AS SELECT id, a FROM t WHERE a = 1;
SELECT count(*), sum(id) FROM copy;
UPDATE t SET b = (SELECT count(*) FROM t u WHERE u.a = 1) WHERE id = 1;
SELECT b FROM t WHERE id = 1;
DELETE FROM t WHERE a = 1;
SELECT count(*) FROM t WHERE a = 1;
ROLLBACK;

-- Empty, and never filled, relations.
CREATE TABLE empty (LIKE t);
SELECT * FROM gpuscan_test.check(
  'SELECT id FROM empty WHERE a = 1',
  'SELECT count(*), sum(a), min(d) FROM empty',
  'SELECT a, count(*) FROM empty GROUP BY a');
INSERT INTO empty SELECT * FROM t;
DELETE FROM empty;
SELECT gpuscan_test.same('SELECT count(*), max(id) FROM empty WHERE a = 1');
TRUNCATE empty;
SELECT gpuscan_test.same('SELECT count(*), max(id) FROM empty WHERE a = 1');

-- A condition with an effect happens once for each row, also where PostgreSQL evaluates the others again
CREATE TABLE toasted (id int, s text);
ALTER TABLE toasted ALTER s SET STORAGE EXTERNAL;
INSERT INTO toasted SELECT i, repeat('x', 3000) FROM generate_series(1, 300) i;
CREATE SEQUENCE evaluated;
EXPLAIN (COSTS OFF) SELECT id FROM toasted WHERE s <> 'q' AND nextval('evaluated') > id * 0;
SELECT count(*) FROM (SELECT id FROM toasted WHERE s <> 'q' AND nextval('evaluated') > id * 0 OFFSET 0) q;
SELECT last_value FROM evaluated;
DROP SEQUENCE evaluated;
DROP TABLE toasted;
