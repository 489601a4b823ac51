/* sql/gpuscan--0.1.0.sql */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION gpuscan" to load this file. \quit

CREATE FUNCTION gpuscan_activity(
    OUT pid pg_catalog.int4,
    OUT state pg_catalog.text,
    OUT device pg_catalog.text,
    OUT tuples pg_catalog.int8,
    OUT memory_limit pg_catalog.int8,
    OUT opened pg_catalog.timestamptz)
RETURNS SETOF pg_catalog.record
AS 'MODULE_PATHNAME', 'gpuscan_activity'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;

CREATE FUNCTION gpuscan_devices(
    OUT device pg_catalog.text,
    OUT name pg_catalog.text,
    OUT state pg_catalog.text,
    OUT memory_total pg_catalog.int8,
    OUT memory_limit pg_catalog.int8,
    OUT memory_used pg_catalog.int8,
    OUT running pg_catalog.int4,
    OUT served pg_catalog.int8,
    OUT failures pg_catalog.int8)
RETURNS SETOF pg_catalog.record
AS 'MODULE_PATHNAME', 'gpuscan_devices'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;

CREATE FUNCTION gpuscan_service(
    OUT pid pg_catalog.int4,
    OUT starts pg_catalog.int8)
RETURNS pg_catalog.record
AS 'MODULE_PATHNAME', 'gpuscan_service'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;

CREATE VIEW gpuscan_activity AS
    SELECT a.pid, a.state, a.device, a.tuples, a.memory_limit, a.opened,
           pg_catalog.now() OPERATOR(pg_catalog.-) a.opened AS age
    FROM @extschema@.gpuscan_activity() a;

CREATE VIEW gpuscan_devices AS
    SELECT d.device, d.name, d.state, d.memory_total, d.memory_limit, d.memory_used,
           d.running, d.served, d.failures
    FROM @extschema@.gpuscan_devices() d;

CREATE VIEW gpuscan_service AS
    SELECT s.pid, s.starts FROM @extschema@.gpuscan_service() s;

-- statistics are for administrators and monitoring
REVOKE ALL ON FUNCTION gpuscan_activity() FROM PUBLIC;
REVOKE ALL ON FUNCTION gpuscan_devices() FROM PUBLIC;
REVOKE ALL ON FUNCTION gpuscan_service() FROM PUBLIC;
REVOKE ALL ON gpuscan_activity, gpuscan_devices, gpuscan_service FROM PUBLIC;
GRANT EXECUTE ON FUNCTION gpuscan_activity() TO pg_monitor;
GRANT EXECUTE ON FUNCTION gpuscan_devices() TO pg_monitor;
GRANT EXECUTE ON FUNCTION gpuscan_service() TO pg_monitor;
GRANT SELECT ON gpuscan_activity, gpuscan_devices, gpuscan_service TO pg_monitor;
