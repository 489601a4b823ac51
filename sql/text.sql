-- text, varchar, char(n): equality, membership, grouping, counting.
CREATE SCHEMA texts;
SET search_path = texts, public;
CREATE TABLE t AS SELECT row_number() OVER ()::int AS id, x AS t, x::varchar(12) AS v, x::char(5) AS c, x::varchar AS u
  FROM unnest('{"","a","A","a ","a  "," a","ab","abcde","abcdefghijkl","ä","日本","é","o''k","%","\\",NULL,"","ab",NULL}'::text[]) x;
INSERT INTO t SELECT i, 'k' || i % 20, 'v' || i % 30, 'c' || i % 40, repeat('u', i % 50) FROM generate_series(100, 900) i;
SELECT * FROM gpuscan_test.check(
  'SELECT id FROM t WHERE t = ''a''', 'SELECT id FROM t WHERE t = ''a ''', 'SELECT id FROM t WHERE t = ''''', 'SELECT id FROM t WHERE t <> ''a'' AND id < 50',
  'SELECT id FROM t WHERE c = ''a''', 'SELECT id FROM t WHERE c = ''a    ''', 'SELECT id FROM t WHERE c <> ''a '' AND id < 50', 'SELECT id FROM t WHERE c = ''''', 'SELECT id FROM t WHERE c::text = ''a''',
  'SELECT id FROM t WHERE v = ''ab''', 'SELECT id FROM t WHERE v = t AND id < 50', 'SELECT id FROM t WHERE c = t::char(5) AND id < 50', 'SELECT id FROM t WHERE c = t AND id < 50',
  'SELECT id FROM t WHERE t = ''ä'' OR t = ''日本''', 'SELECT id FROM t WHERE t IN (''k1'', ''k3'', '''', NULL)', 'SELECT id FROM t WHERE t NOT IN (''k1'', ''k3'') AND id < 120',
  'SELECT id FROM t WHERE c IN (''c1'', ''c1   '', ''a'')', 'SELECT id FROM t WHERE v = ANY (''{v1,v2,x}'')', 'SELECT id FROM t WHERE t IS NULL', 'SELECT id FROM t WHERE t IS DISTINCT FROM ''a'' AND id < 50',
  'SELECT t, count(*) FROM t GROUP BY t', 'SELECT v, count(*), count(DISTINCT t) FROM t GROUP BY v', 'SELECT c, count(*), sum(id) FROM t GROUP BY c', 'SELECT u, max(id) FROM t GROUP BY u', 'SELECT t, c, v, count(*) FROM t GROUP BY t, c, v',
  'SELECT c::text, count(*) FROM t GROUP BY 1', 'SELECT count(DISTINCT t), count(DISTINCT v), count(DISTINCT c), count(DISTINCT u) FROM t', 'SELECT count(t), count(c) FILTER (WHERE t = ''a''), count(*) FROM t',
  'SELECT CASE WHEN t = ''a'' THEN ''one'' WHEN t = ''ab'' THEN v ELSE ''rest'' END, count(*) FROM t GROUP BY 1', 'SELECT coalesce(t, ''none''), count(*) FROM t GROUP BY 1', 'SELECT nullif(t, ''''), count(*) FROM t GROUP BY 1', 'SELECT coalesce(v, c, t), count(*) FROM t GROUP BY 1',
  'SELECT min(t), max(v), min(c) FROM t', 'SELECT id FROM t WHERE t < ''b'' AND id < 50', 'SELECT id FROM t WHERE t LIKE ''a%''', 'SELECT length(t), count(*) FROM t GROUP BY 1', 'SELECT upper(t), count(*) FROM t GROUP BY 1'
);
-- Collations: bytewise equality is right for deterministic ones alone.
CREATE COLLATION ignore_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE TABLE collated AS SELECT id, t COLLATE "C" AS c, t COLLATE ignore_case AS i, t COLLATE "POSIX" AS p FROM t;
SELECT * FROM gpuscan_test.check('SELECT id FROM collated WHERE c = ''a''', 'SELECT id FROM collated WHERE i = ''a''', 'SELECT i, count(*) FROM collated WHERE id < 50 GROUP BY i', 'SELECT count(DISTINCT i) FROM collated',
  'SELECT p, count(*) FROM collated GROUP BY p', 'SELECT id FROM collated WHERE c COLLATE ignore_case = ''A''', 'SELECT i IN (''A'', ''AB''), count(*) FROM collated GROUP BY 1', 'SELECT count(i) FROM collated WHERE id > 3');
-- Long texts: inline, compressed, out of line; as keys and in filters.
CREATE TABLE long AS SELECT i AS id, i % 3 AS k, CASE i % 4 WHEN 0 THEN repeat('x', 100 + i % 2) WHEN 1 THEN repeat('ab', 2000 + i % 2) WHEN 2 THEN (SELECT string_agg(md5((i % 2 + j)::text), '') FROM generate_series(1, 200) j) END AS t,
  repeat('pad', i % 300) AS pad, i::numeric(10,2) AS n FROM generate_series(1, 400) i;
SELECT * FROM gpuscan_test.check('SELECT id FROM long WHERE t = repeat(''ab'', 2000)', 'SELECT id FROM long WHERE t <> repeat(''x'', 100) AND k = 1', 'SELECT md5(t), count(*) FROM long GROUP BY t', 'SELECT k, count(DISTINCT t), sum(n), max(id) FROM long GROUP BY k',
  'SELECT id, md5(t), n FROM long WHERE k = 2', 'SELECT sum(n) FROM long WHERE pad = ''padpad''', 'SELECT count(t) FROM long', 'SELECT id FROM long WHERE t IS NULL', 'SELECT k, t = repeat(''x'', 100), count(*) FROM long GROUP BY 1, 2');
