-- What is not eligible, with its reason.
CREATE SCHEMA rejected;
SET search_path = rejected, public;
SET gpuscan.force = on;
SET gpuscan.explain_rejected = on;
CREATE EXTENSION IF NOT EXISTS file_fdw;
CREATE COLLATION ignore_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE TABLE t AS SELECT i AS id, i % 10 AS a, 'x' || i % 4 AS b, (i % 4)::text COLLATE ignore_case AS ci, interval '1 day' * i AS v, ARRAY[i] AS arr, point(i, i) AS p FROM generate_series(1, 100) i;
CREATE SERVER files FOREIGN DATA WRAPPER file_fdw;
CREATE FOREIGN TABLE ft (id int) SERVER files OPTIONS (filename '/dev/null');
-- Our nodes and the reasons alone, without costs.
CREATE FUNCTION reasons(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE line text; found bool := false;
BEGIN
  FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
    IF line LIKE '%GpuScan Rejected%' THEN
      found := true;
    ELSIF found AND line !~ '^\s+\S' THEN
      CONTINUE;
    END IF;
    IF line LIKE '%Rejected%' OR line LIKE '%Custom Scan%' THEN
      RETURN NEXT regexp_replace(trim(line), '\d+\.\d+', 'N', 'g');
    END IF;
  END LOOP;
END $$;
SELECT q, reasons(q) FROM unnest(ARRAY[
  'SELECT id FROM t WHERE a = 1 FOR UPDATE', 'SELECT id FROM t TABLESAMPLE system (50) WHERE a = 1', 'SELECT id FROM t WHERE random() > 0.5', 'SELECT count(*) FROM t WHERE random() > 2', 'SELECT id FROM t WHERE ci = ''1''', 'SELECT ci, count(*) FROM t GROUP BY ci',
  'SELECT count(*) FROM ft', 'SELECT id FROM ft WHERE id = 1', 'SELECT v, count(*) FROM t GROUP BY v', 'SELECT sum(v) FROM t', 'SELECT count(arr) FROM t', 'SELECT id FROM t WHERE v::text > ''1 day''', 'SELECT id FROM t WHERE b LIKE quote_ident(a::text)', 'SELECT concat(b, a), count(*) FROM t GROUP BY 1', 'SELECT count(*) FROM t WHERE to_char(a + id, ''FM9'') > ''1''',
  'SELECT string_agg(b, '','') FROM t', 'SELECT max(b) FROM t', 'SELECT array_agg(id ORDER BY id) FROM t', 'SELECT sum(DISTINCT a) FROM t', 'SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY a) FROM t', 'SELECT a, count(*) FROM t GROUP BY ROLLUP (a)', 'SELECT id FROM t', 'SELECT count(*) FROM t LIMIT 0', 'SELECT count(*) FROM t WHERE false', 'SELECT id FROM t WHERE a = 1 LIMIT 0',
  'SELECT ctid, count(*) FROM t GROUP BY ctid', 'SELECT id FROM t WHERE ctid = ''(0,1)''', 'SELECT id FROM t WHERE tableoid = 1', 'SELECT xmin, count(*) FROM t GROUP BY xmin::text, xmin', 'SELECT count(DISTINCT v) FROM t', 'SELECT count(*) FROM generate_series(1, 3)', 'SELECT count(*) FROM (VALUES (1)) v', 'SELECT count(*) FROM t x JOIN t y USING (id)', 'SELECT s, count(*) FROM (SELECT id, a FROM t) s GROUP BY s',
  'SELECT a, (SELECT count(*) FROM t u WHERE u.a = t.a AND u.v > ''1 day'') FROM t WHERE id = 1', 'UPDATE t SET a = 1 WHERE a = 2', 'DELETE FROM t WHERE a = 2', 'SELECT count(*) FROM pg_stats WHERE tablename = ''t''']) q;
-- in a structured format, and off
EXPLAIN (COSTS OFF, FORMAT JSON) SELECT count(*) FROM t WHERE to_char(a + id, 'FM9') > '1';
SET gpuscan.explain_rejected = off;
EXPLAIN (COSTS OFF) SELECT count(*) FROM t WHERE to_char(a + id, 'FM9') > '1';
-- too small to be worth it
SET gpuscan.force = off;
SET gpuscan.explain_rejected = on;
SELECT reasons('SELECT count(*) FROM t');
SET gpuscan.enabled = off;
SELECT reasons('SELECT count(*) FROM t');
