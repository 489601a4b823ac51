-- Makes the rows 1 to :rows of clicks, the same on every run; session :session
-- of :sessions takes its turn at every 10,000 of them.
--
-- Every value is a function of the row's number through PostgreSQL's own hash,
-- so nothing depends on random()'s state.  A few users, categories and
-- countries have most of the rows; time runs with the physical order, nearly.

-- The Nth number of row i, in (0, 1).
CREATE FUNCTION pg_temp.u(i bigint, n bigint) RETURNS float8
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	AS 'SELECT hashint8extended(i, n) * 5.42101086242752e-20::float8 + 0.5::float8';

\set countries `tr '\n' ' ' < countries.txt`

INSERT INTO clicks
SELECT 1 + floor(1000000 * pg_temp.u(i, 1) ^ 2)::int8 * 7919 % 1000000,
	   timestamp '2026-01-01'
		   + make_interval(secs => 90 * 86400 * (i::float8 / :rows) + 120 * pg_temp.u(i, 2)),
	   floor(500 * pg_temp.u(i, 3) ^ 2),
	   CASE WHEN i % 100 <> 99 THEN -45 * ln(pg_temp.u(i, 4)) END,
	   150 / (pg_temp.u(i, 5) + 0.005),
	   CASE WHEN i % 20 <> 9 THEN floor(-4500 * ln(pg_temp.u(i, 6)))::int * 0.01 END,
	   countries[1 + floor(200 * pg_temp.u(i, 7) ^ 3)::int]
FROM generate_series(:session * 10000, :rows - 1, :sessions * 10000) turn,
	 generate_series(turn + 1, least(turn + 10000, :rows)) i,
	 string_to_array(trim(:'countries'), ' ') countries;
