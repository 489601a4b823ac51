-- The extension's objects and settings.
SELECT extname, extrelocatable FROM pg_extension WHERE extname = 'gpuscan';
SELECT classid::regclass, count(*) > 0 AS some FROM pg_depend
WHERE refclassid = 'pg_extension'::regclass AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'gpuscan')
GROUP BY 1 ORDER BY 1::text;

-- Every setting has a description, and sizes have units.
SELECT name, unit, context, vartype, category FROM pg_settings WHERE name LIKE 'gpuscan.%' ORDER BY name COLLATE "C";
SELECT name FROM pg_settings WHERE name LIKE 'gpuscan.%' AND short_desc = '' ORDER BY 1;

-- The prefix is reserved.
SET gpuscan.no_such_setting = 1;
-- Values are checked.
SET gpuscan.enabled = 'maybe';
SET gpuscan.tuple_cost = -1;
SET gpuscan.query_memory_limit = -1;
SET gpuscan.inject_fault = 'nonsense';
ALTER SYSTEM SET gpuscan.device = 'gpu';
ALTER SYSTEM SET gpuscan.device = 'cuda:1, cuda:';
ALTER SYSTEM SET gpuscan.device = 'auto, cpu';
ALTER SYSTEM SET gpuscan.device = 'cuda,CPU , cuda:0';
ALTER SYSTEM SET gpuscan.device = '';

-- Only a superuser injects faults.
CREATE ROLE gpuscan_plain;
SET ROLE gpuscan_plain;
SET gpuscan.inject_fault = 'device-error:begin';
SET gpuscan.enabled = off;
SET gpuscan.enabled = on;
SET gpuscan.explain_rejected = on;
RESET ROLE;
DROP ROLE gpuscan_plain;

-- A device serves, and says what it has.
SELECT count(*) > 0 AS some, bool_and(state = 'running') AS running, bool_and(memory_total > 0) AS total, bool_and(memory_limit > 0) AS "limit", bool_and(memory_used <= memory_limit) AS used, min(failures) AS failures FROM gpuscan_devices;

-- No request is held while no query runs.
SELECT count(*) FROM gpuscan_activity WHERE pid = pg_backend_pid();
