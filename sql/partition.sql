-- Partitioned tables and inheritance: children's attribute numbers differ.
CREATE SCHEMA partition;
SET search_path = partition, public;
CREATE TABLE p (id int, a int, b text, c numeric(8,2), d date) PARTITION BY RANGE (id);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (1000);
CREATE TABLE p2 (d date, gone int8, c numeric(8,2), x point, b text, id int, a int);
ALTER TABLE p2 DROP COLUMN gone, DROP COLUMN x;
ALTER TABLE p ATTACH PARTITION p2 FOR VALUES FROM (1000) TO (2000);
CREATE TABLE p3 PARTITION OF p FOR VALUES FROM (2000) TO (3000) PARTITION BY LIST (a);
CREATE TABLE p3a PARTITION OF p3 FOR VALUES IN (0, 1, 2, 3);
CREATE TABLE p3b PARTITION OF p3 DEFAULT;
CREATE TABLE p4 PARTITION OF p DEFAULT;
INSERT INTO p SELECT i, i % 8, 'b' || i % 5, i / 10.0, date '2024-01-01' + i % 50 FROM generate_series(1, 2900) i;
SELECT * FROM gpuscan_test.check(
  'SELECT count(*), sum(a), sum(c), max(d) FROM p', 'SELECT a, count(*), avg(c) FROM p GROUP BY a', 'SELECT b, d, count(DISTINCT id), min(c) FROM p GROUP BY b, d', 'SELECT id, b, c FROM p WHERE a = 3 AND c < 50', 'SELECT tableoid::regclass, id FROM p WHERE a = 3', 'SELECT p FROM p WHERE a = 3 AND id > 2800',
  'SELECT count(*) FROM p WHERE id BETWEEN 500 AND 1500', 'SELECT b, count(*) FROM p WHERE id < 900 GROUP BY b', 'SELECT count(*) FROM p WHERE id > 100000', 'SELECT count(*), max(id) FROM p WHERE id = 1234', 'SELECT a, count(*) FROM p WHERE id >= 2000 AND a IN (1, 7) GROUP BY a', 'SELECT count(*) FROM p4', 'SELECT count(*) FROM p2 WHERE b = ''b1''',
  'SELECT x.b, count(*) FROM p x JOIN p y ON x.id = y.id WHERE y.a = 1 GROUP BY 1', 'SELECT a, count(*) FROM p GROUP BY a HAVING sum(c) > 50000', 'SELECT count(*) FILTER (WHERE b = ''b2'') FROM p', 'SELECT a, n FROM (VALUES (1), (2)) v(k), LATERAL (SELECT a, count(*) AS n FROM p WHERE p.a = v.k GROUP BY a) q');
-- Changes that reach some children.
UPDATE p SET id = id + 1000 WHERE id % 100 = 7;
ALTER TABLE p ADD COLUMN e int DEFAULT 11;
INSERT INTO p (id, a, e) VALUES (10, 1, NULL), (1010, 1, 1), (2010, 1, 2), (9999, 1, 3);
DELETE FROM p WHERE id % 50 = 3;
SELECT * FROM gpuscan_test.check('SELECT e, count(*), sum(a), sum(c) FROM p GROUP BY e', 'SELECT count(e), sum(e) FROM p WHERE a = 1', 'SELECT id FROM p WHERE e = 11 AND a = 7');
-- Partitionwise plans.
SET enable_partitionwise_aggregate = on; SET enable_partitionwise_join = on;
SELECT * FROM gpuscan_test.check('SELECT a, count(*), avg(c) FROM p GROUP BY a', 'SELECT id, count(*) FROM p GROUP BY id', 'SELECT count(*), sum(c) FROM p', 'SELECT count(*) FROM p x JOIN p y USING (id)');
RESET enable_partitionwise_aggregate; RESET enable_partitionwise_join;
-- Run-time pruning.
SET plan_cache_mode = force_generic_plan; SET gpuscan.force = on;
PREPARE q(int) AS SELECT count(*), sum(c) FROM p WHERE id = $1 OR id = $1 + 1;
EXECUTE q(1500); EXECUTE q(10); EXECUTE q(NULL);
PREPARE r(int) AS SELECT count(*), sum(c) FROM p WHERE id < $1;
EXECUTE r(100); EXECUTE r(-5); EXECUTE r(5000);
DEALLOCATE ALL; RESET plan_cache_mode; RESET gpuscan.force;

CREATE TABLE i (id int, a int, b text);
CREATE TABLE i1 (x int8, extra text) INHERITS (i);
CREATE TABLE i2 (b text, y point, a int, id int);
ALTER TABLE i2 INHERIT i;
INSERT INTO i SELECT n, n % 5, 'parent' FROM generate_series(1, 300) n;
INSERT INTO i1 SELECT n, n % 5, 'one', n, repeat('e', n % 20) FROM generate_series(301, 700) n;
INSERT INTO i2 SELECT 'two', '(1,1)', n % 5, n FROM generate_series(701, 1000) n;
SELECT * FROM gpuscan_test.check('SELECT count(*), sum(id) FROM i', 'SELECT count(*), sum(id) FROM ONLY i', 'SELECT b, a, count(*) FROM i GROUP BY b, a', 'SELECT id, b FROM i WHERE a = 2', 'SELECT tableoid::regclass, count(*) FROM i GROUP BY 1', 'SELECT i FROM i WHERE id % 100 = 1', 'SELECT id FROM i1 WHERE extra = ''eee''');
ALTER TABLE i2 NO INHERIT i;
SELECT gpuscan_test.same('SELECT b, count(*) FROM i GROUP BY b');
-- UNION ALL as a parent.
SELECT * FROM gpuscan_test.check('SELECT a, count(*) FROM (SELECT a, id FROM i UNION ALL SELECT a, id FROM p) u GROUP BY a', 'SELECT id FROM (SELECT a, id FROM i UNION ALL SELECT e, id FROM p) u WHERE a = 1 AND id < 50');
