-- Row-level security and security barriers: a hidden row never raises an error nor reaches a user's function.
CREATE SCHEMA rls;
SET search_path = rls, public;
CREATE ROLE gpuscan_rls_user;
GRANT USAGE ON SCHEMA rls, gpuscan_test TO gpuscan_rls_user;
CREATE TABLE t (id int, owner name, d int, v numeric(8,2));
INSERT INTO t SELECT i, CASE i % 2 WHEN 0 THEN 'gpuscan_rls_user' ELSE 'other' END, CASE i % 2 WHEN 0 THEN 2 ELSE 0 END, i FROM generate_series(1, 1000) i;
ALTER TABLE t ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON t USING (owner = current_user);
CREATE TABLE n (id int, visible bool, d int);
INSERT INTO n SELECT i, i % 2 = 0, i % 2 FROM generate_series(1, 1000) i;
ALTER TABLE n ENABLE ROW LEVEL SECURITY;
CREATE POLICY visible ON n USING (visible);
CREATE VIEW barrier WITH (security_barrier) AS SELECT * FROM n WHERE visible;
CREATE FUNCTION leak(int) RETURNS bool LANGUAGE plpgsql COST 0.0001 AS $$ BEGIN RAISE NOTICE 'saw %', $1; RETURN true; END $$;
GRANT SELECT ON ALL TABLES IN SCHEMA rls TO gpuscan_rls_user;
SET ROLE gpuscan_rls_user;
SELECT * FROM gpuscan_test.check('SELECT count(*), sum(v) FROM t', 'SELECT id FROM t WHERE id < 20', 'SELECT count(*) FROM t WHERE 10 / d = 5', 'SELECT sum(10 / d) FROM t', 'SELECT d, count(*) FROM t GROUP BY d',
  'SELECT count(*), sum(id) FROM n', 'SELECT id FROM n WHERE id < 10', 'SELECT count(*) FROM n WHERE 10 / (d - 1) = -10', 'SELECT sum(10 / (d - 1)) FROM n', 'SELECT d, count(*) FROM n GROUP BY d', 'SELECT count(*) FROM barrier WHERE 10 / (d - 1) = -10', 'SELECT d, count(*) FROM barrier GROUP BY d');
SET gpuscan.force = on;
SELECT id FROM n WHERE leak(id) AND id < 5;
SELECT count(*) FROM barrier WHERE leak(id) AND id < 5;
RESET ROLE;
SELECT count(*) FROM n;
-- A cached plan follows the role.
SET plan_cache_mode = force_generic_plan;
PREPARE q AS SELECT count(*) FROM n;
EXECUTE q;
SET ROLE gpuscan_rls_user;
EXECUTE q;
RESET ROLE;
EXECUTE q;
-- Privileges are checked as ever, by column.
REVOKE SELECT ON t FROM gpuscan_rls_user;
GRANT SELECT (id) ON t TO gpuscan_rls_user;
SET ROLE gpuscan_rls_user;
SELECT sum(v) FROM t;
SELECT count(*) FROM t WHERE v > 1;
SELECT max(id) FROM t WHERE id < 100;
RESET ROLE;
DROP SCHEMA rls CASCADE;
REVOKE ALL ON SCHEMA gpuscan_test FROM gpuscan_rls_user;
DROP ROLE gpuscan_rls_user;
