-- Compares the rows of pg_temp.off and pg_temp.on, which have the same columns.
--
-- Floats may differ by 1e-12 of their size, as two plans of PostgreSQL's own
-- do; everything else is equal to the digit.  Rows are paired in the order of
-- all the other columns, so two rows that differ in a float alone must not
-- both be there: the queries' keys see to that.

DO $$
DECLARE
	keys	text;
	differs	text;
	pairs	bigint;
	wrong	bigint;
BEGIN
	SELECT string_agg(quote_ident(attname) || '::text COLLATE "C"', ', ' ORDER BY attnum)
			   FILTER (WHERE atttypid <> 'float8'::regtype),
		   string_agg(CASE WHEN atttypid = 'float8'::regtype
				   THEN format('a.%1$I IS DISTINCT FROM b.%1$I AND '
							   'coalesce(abs(a.%1$I - b.%1$I) > 1e-12 * abs(a.%1$I), true)', attname)
				   ELSE format('a.%1$I::text IS DISTINCT FROM b.%1$I::text', attname) END,
			   ' OR ' ORDER BY attnum)
	INTO keys, differs
	FROM pg_attribute WHERE attrelid = 'pg_temp.off'::regclass AND attnum > 0;

	EXECUTE format('SELECT count(*), count(*) FILTER (WHERE a.n IS NULL OR b.n IS NULL OR %2$s)
		FROM (SELECT *, row_number() OVER (ORDER BY %1$s) n FROM pg_temp.off) a
		FULL JOIN (SELECT *, row_number() OVER (ORDER BY %1$s) n FROM pg_temp.on) b USING (n)',
		keys, differs) INTO pairs, wrong;
	IF wrong > 0 THEN
		RAISE EXCEPTION '% of % rows differ', wrong, pairs;
	END IF;
	RAISE INFO '% rows, equal off and on', pairs;
END
$$;
