-- What the other files use.  A query is "same" if it gives the same rows, or an
-- error with the same SQLSTATE, with gpuscan.enabled off, and on with
-- gpuscan.force; beside that stands which nodes of ours its plan has, and why a
-- replaced plan ran, or which device did if gpuscan.device asks for another.
CREATE EXTENSION gpuscan;
CREATE SCHEMA gpuscan_test;

-- The rows in a canonical order, or the error.
CREATE FUNCTION gpuscan_test.run(query text, OUT result text[], OUT error text)
LANGUAGE plpgsql AS $$
DECLARE
  r record;
BEGIN
  result := '{}';
  FOR r IN EXECUTE query LOOP
    result := result || r::text;
  END LOOP;
  result := ARRAY(SELECT x FROM unnest(result) x ORDER BY x COLLATE "C");
EXCEPTION WHEN OTHERS THEN
  result := NULL;
  error := SQLSTATE;
END $$;

CREATE FUNCTION gpuscan_test.plan(query text, options text DEFAULT '') RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
  plan json;
BEGIN
  EXECUTE format('EXPLAIN (%s FORMAT JSON) %s', options, query) INTO plan;
  RETURN plan;
EXCEPTION WHEN OTHERS THEN
  RETURN '';
END $$;

-- How much of a scan's table the cache answered, how much was read, and what was done for it.
CREATE FUNCTION gpuscan_test.scanned(query text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
  plan text := gpuscan_test.plan(query, 'ANALYZE, TIMING OFF, SUMMARY OFF,');
  cached bigint := substring(plan FROM '"Blocks Cached": (\d+)');
  read bigint := substring(plan FROM '"Blocks Read": (\d+)');
BEGIN
  IF plan NOT LIKE '%GpuScan%' THEN
    RETURN 'not ours';
  END IF;
  RETURN CASE WHEN cached = 0 THEN 'none' WHEN read <= cached THEN 'all' ELSE 'some' END || ' cached, '
    || CASE WHEN read = 0 THEN 'nothing' WHEN read * 10 < cached THEN 'few' WHEN read < cached THEN 'some' ELSE 'all' END || ' read'
    || CASE WHEN plan ~ '"Blocks Skipped": [1-9]' THEN ', skips' ELSE '' END
    || CASE WHEN plan ~ '"Blocks Loaded": [1-9]' THEN ', loads' ELSE '' END
    || CASE WHEN plan ~ '"Tuples Evaluated": [1-9]' THEN ', evaluates' ELSE '' END
    || CASE WHEN plan ~ '"Blocks Loose": [1-9]' THEN ', loose' ELSE '' END;
END $$;

-- Our nodes in the query's plan, planned under the current settings.
CREATE FUNCTION gpuscan_test.nodes(query text) RETURNS text
LANGUAGE sql AS $$
  SELECT coalesce(string_agg(DISTINCT m[1], ' and '), 'not ours')
  FROM regexp_matches(gpuscan_test.plan(query), '"Custom Plan Provider": "(\w+)"', 'g') m
$$;

-- How the names of the devices begin that may run a request.
CREATE FUNCTION gpuscan_test.device() RETURNS text
LANGUAGE sql AS $$
  SELECT replace(substring(current_setting('gpuscan.device') FROM '[a-z]+'), 'auto', '(cpu|cuda)')
$$;

-- Why the replaced plan ran, or which other device did, or NULL.
CREATE FUNCTION gpuscan_test.replaced(query text) RETURNS text
LANGUAGE sql AS $$
  SELECT string_agg(DISTINCT m[2], ' and ')
  FROM regexp_matches(gpuscan_test.plan(query, 'ANALYZE, TIMING OFF, SUMMARY OFF,'), '"(Replaced Plan|Device)": "([^"]+)"', 'g') m
  WHERE m[1] <> 'Device' OR m[2] !~ ('^' || gpuscan_test.device())
$$;

CREATE FUNCTION gpuscan_test.same(query text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
  enabled text := current_setting('gpuscan.enabled');
  force text := current_setting('gpuscan.force');
  off record;
  ours record;
  outcome text;
BEGIN
  PERFORM set_config('gpuscan.enabled', 'off', true);
  off := gpuscan_test.run(query);
  PERFORM set_config('gpuscan.enabled', 'on', true), set_config('gpuscan.force', 'on', true);
  ours := gpuscan_test.run(query);
  IF off IS DISTINCT FROM ours THEN
    outcome := format('DIFFERENT: %s gives %s, then %s', query, off, ours);
  ELSIF off.error IS NOT NULL THEN
    outcome := format('same (error %s), %s', off.error, gpuscan_test.nodes(query));
  ELSE
    outcome := format('same (%s rows), %s', cardinality(off.result), gpuscan_test.nodes(query))
      || coalesce(', replaced: ' || gpuscan_test.replaced(query), '');
  END IF;
  PERFORM set_config('gpuscan.enabled', enabled, true), set_config('gpuscan.force', force, true);
  RETURN outcome;
END $$;

CREATE FUNCTION gpuscan_test.check(VARIADIC queries text[]) RETURNS TABLE (n bigint, outcome text)
LANGUAGE sql AS $$
  SELECT n, gpuscan_test.same(q) FROM unnest(queries) WITH ORDINALITY AS u(q, n)
$$;

-- Many queries in few lines: outcomes without row counts, how often; a difference in full.
CREATE FUNCTION gpuscan_test.summary(queries text[]) RETURNS TABLE (outcome text, queries bigint)
LANGUAGE sql AS $$
  SELECT regexp_replace(gpuscan_test.same(q), '\(\d+ rows\)', '(rows)') COLLATE "C", count(*)
  FROM unnest(queries) q GROUP BY 1 ORDER BY 1
$$;

-- The service may still be starting.
CREATE FUNCTION gpuscan_test.wait_for_service() RETURNS text
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM set_config('gpuscan.force', 'on', true);
  FOR i IN 1 .. 300 LOOP
    IF gpuscan_test.replaced('SELECT count(*) FROM gpuscan_test.one') IS NULL THEN
      RETURN 'ready';
    END IF;
    PERFORM pg_sleep(0.1);
  END LOOP;
  RETURN gpuscan_test.replaced('SELECT count(*) FROM gpuscan_test.one');
END $$;

CREATE TABLE gpuscan_test.one AS SELECT 1 AS x;
SELECT gpuscan_test.wait_for_service();
SELECT gpuscan_test.same('SELECT count(*) FROM gpuscan_test.one');
