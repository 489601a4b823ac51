-- Security labels that keep a table out of the cache, or in it.
CREATE SCHEMA label;
SET search_path = label, public;
SET gpuscan.force = on;
SET max_parallel_workers_per_gather = 0;

CREATE TABLE t (id int, v int) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT i, i % 10 FROM generate_series(1, 10000) i;
CREATE TABLE p (id int, v int) PARTITION BY RANGE (id);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (5000) PARTITION BY RANGE (v);
CREATE TABLE p1a PARTITION OF p1 FOR VALUES FROM (0) TO (100);
CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (5000) TO (100000);
INSERT INTO p SELECT i, i % 100 FROM generate_series(1, 10000) i;
VACUUM t, p;

-- Whether a relation's columns are cached, once it was read and evicted before.
CREATE FUNCTION is_cached(VARIADIC relations text[]) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
  result text;
BEGIN
  PERFORM gpuscan_evict('t'), gpuscan_evict('p');
  PERFORM gpuscan_test.run('SELECT sum(v), sum(id) FROM t'), gpuscan_test.run('SELECT sum(v), sum(id) FROM p');
  SELECT string_agg(r || CASE WHEN EXISTS (SELECT FROM gpuscan_cache() c WHERE c.relid = r::regclass) THEN ' yes' ELSE ' no' END, ', ' ORDER BY r)
  INTO result FROM unnest(relations) r;
  RETURN result;
END $$;

SELECT is_cached('t', 'p1a', 'p2');
SECURITY LABEL FOR gpuscan ON TABLE t IS 'never cache';
SELECT is_cached('t', 'p1a', 'p2');
SELECT gpuscan_test.same('SELECT v, count(*), sum(id) FROM t GROUP BY v');
-- What is there is not used either.
SECURITY LABEL FOR gpuscan ON TABLE t IS NULL;
SELECT is_cached('t');
SECURITY LABEL FOR gpuscan ON TABLE t IS 'never cache';
SELECT gpuscan_test.plan('SELECT sum(v) FROM t', 'ANALYZE, TIMING OFF, SUMMARY OFF,') ~ '"Blocks Cached": [1-9]' AS used;
BEGIN;
SECURITY LABEL FOR gpuscan ON TABLE t IS 'always cache';
SELECT is_cached('t');
ROLLBACK;
SELECT is_cached('t');
SECURITY LABEL FOR gpuscan ON TABLE t IS 'always cache';
SELECT is_cached('t');

-- Partitions
SECURITY LABEL FOR gpuscan ON TABLE p IS 'never cache';
SELECT is_cached('p1a', 'p2');
SECURITY LABEL FOR gpuscan ON TABLE p1 IS 'always cache';
SELECT is_cached('p1a', 'p2');
SECURITY LABEL FOR gpuscan ON TABLE p1a IS 'never cache';
SECURITY LABEL FOR gpuscan ON TABLE p2 IS 'always cache';
SELECT is_cached('p1a', 'p2');
SECURITY LABEL FOR gpuscan ON TABLE p1a IS NULL;
SECURITY LABEL FOR gpuscan ON TABLE p2 IS NULL;
SECURITY LABEL FOR gpuscan ON TABLE p1 IS NULL;
SELECT is_cached('p1a', 'p2');
ALTER TABLE p DETACH PARTITION p2;
SELECT gpuscan_test.run('SELECT sum(v), sum(id) FROM p2');
SELECT count(*) > 0 AS cached FROM gpuscan_cache() WHERE relid = 'p2'::regclass;
ALTER TABLE p ATTACH PARTITION p2 FOR VALUES FROM (5000) TO (100000);
SELECT is_cached('p1a', 'p2');

-- What is no label
SECURITY LABEL FOR gpuscan ON TABLE t IS 'sometimes cache';
\echo :SQLSTATE
SECURITY LABEL FOR gpuscan ON TABLE t IS '';
SECURITY LABEL FOR gpuscan ON COLUMN t.v IS 'never cache';
CREATE VIEW w AS SELECT 1 AS one;
SECURITY LABEL FOR gpuscan ON VIEW w IS 'never cache';
SECURITY LABEL FOR gpuscan ON SCHEMA label IS 'never cache';
CREATE MATERIALIZED VIEW m AS SELECT * FROM t;
SECURITY LABEL FOR gpuscan ON MATERIALIZED VIEW m IS 'never cache';

-- The owner's to set
CREATE ROLE gpuscan_label_owner;
CREATE ROLE gpuscan_label_other;
GRANT USAGE ON SCHEMA label TO gpuscan_label_owner, gpuscan_label_other;
ALTER TABLE t OWNER TO gpuscan_label_owner;
SET ROLE gpuscan_label_owner;
SECURITY LABEL FOR gpuscan ON TABLE t IS 'never cache';
SET ROLE gpuscan_label_other;
SECURITY LABEL FOR gpuscan ON TABLE t IS 'always cache';
RESET ROLE;
SELECT objname, label FROM pg_seclabels WHERE provider = 'gpuscan' ORDER BY 1;

DROP TABLE t, p CASCADE;
SELECT count(*) FROM pg_seclabels WHERE provider = 'gpuscan';
REVOKE ALL ON SCHEMA label FROM gpuscan_label_owner, gpuscan_label_other;
DROP ROLE gpuscan_label_owner, gpuscan_label_other;
