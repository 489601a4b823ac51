-- Page views of a web shop over 90 days; rows.sql fills it.
CREATE TABLE clicks
(
	user_id		int NOT NULL,
	ts			timestamp NOT NULL,
	category	int NOT NULL,
	duration	float8,				-- seconds; NULL: the page was left open
	load_ms		int NOT NULL,
	price		numeric(10,2),		-- of what was bought; NULL: nothing
	country		text NOT NULL
);
CREATE EXTENSION pg_prewarm;
