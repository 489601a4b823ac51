/* sql/gpuscan--0.1.0.sql */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION gpuscan" to load this file. \quit

CREATE FUNCTION gpuscan_activity(
    OUT pid pg_catalog.int4,
    OUT state pg_catalog.text,
    OUT device pg_catalog.text,
    OUT tuples pg_catalog.int8,
    OUT memory_limit pg_catalog.int8,
    OUT opened pg_catalog.timestamptz,
    OUT database pg_catalog.oid,
    OUT relid pg_catalog.oid,
    OUT blocks_done pg_catalog.int8,
    OUT blocks_total pg_catalog.int8)
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
    OUT cache_limit pg_catalog.int8,
    OUT cache_used pg_catalog.int8,
    OUT host_cache_used pg_catalog.int8,
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
           pg_catalog.now() OPERATOR(pg_catalog.-) a.opened AS age,
           d.datname AS database, k.oid::pg_catalog.regclass AS relation, a.blocks_done, a.blocks_total
    FROM @extschema@.gpuscan_activity() a
         LEFT JOIN pg_catalog.pg_database d ON d.oid OPERATOR(pg_catalog.=) a.database
         LEFT JOIN pg_catalog.pg_class k ON k.oid OPERATOR(pg_catalog.=) a.relid
             AND d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database();

CREATE VIEW gpuscan_devices AS
    SELECT d.device, d.name, d.state, d.memory_total, d.memory_limit, d.memory_used,
           d.cache_limit, d.cache_used, d.host_cache_used, d.running, d.served, d.failures
    FROM @extschema@.gpuscan_devices() d;

CREATE VIEW gpuscan_service AS
    SELECT s.pid, s.starts FROM @extschema@.gpuscan_service() s;

CREATE FUNCTION gpuscan_cache(
    OUT database pg_catalog.oid,
    OUT relid pg_catalog.oid,
    OUT attnum pg_catalog.int2,
    OUT encoding pg_catalog.text,
    OUT blocks pg_catalog.int8,
    OUT device pg_catalog.text,
    OUT device_bytes pg_catalog.int8,
    OUT host_bytes pg_catalog.int8,
    OUT hits pg_catalog.int8,
    OUT expression pg_catalog.text)
RETURNS SETOF pg_catalog.record
AS 'MODULE_PATHNAME', 'gpuscan_cache'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;

-- names, and what the last vacuum found, of relations in this database
CREATE VIEW gpuscan_cache AS
    SELECT d.datname AS database, k.oid::pg_catalog.regclass AS relation, coalesce(a.attname, c.expression) AS "column", c.encoding,
           c.blocks AS blocks_cached, k.relallvisible AS blocks_settled,
           greatest(k.relpages OPERATOR(pg_catalog.-) k.relallvisible, 0) AS blocks_loose,
           c.device, coalesce(c.device_bytes, 0) OPERATOR(pg_catalog.+) c.host_bytes AS bytes,
           c.device_bytes, c.host_bytes, c.hits
    FROM @extschema@.gpuscan_cache() c
         LEFT JOIN pg_catalog.pg_database d ON d.oid OPERATOR(pg_catalog.=) c.database
         LEFT JOIN pg_catalog.pg_class k ON k.oid OPERATOR(pg_catalog.=) c.relid
             AND d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()
         LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid OPERATOR(pg_catalog.=) k.oid
             AND a.attnum OPERATOR(pg_catalog.=) c.attnum;

CREATE FUNCTION gpuscan_evict(relation pg_catalog.regclass)
RETURNS pg_catalog.int8
AS 'MODULE_PATHNAME', 'gpuscan_evict'
LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;

CREATE FUNCTION gpuscan_prewarm(relation pg_catalog.regclass, columns pg_catalog.text[] DEFAULT NULL)
RETURNS pg_catalog.int8
AS 'MODULE_PATHNAME', 'gpuscan_prewarm'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

-- others pay for what is evicted
REVOKE ALL ON FUNCTION gpuscan_evict(pg_catalog.regclass) FROM PUBLIC;

-- statistics are for administrators and monitoring
REVOKE ALL ON FUNCTION gpuscan_activity() FROM PUBLIC;
REVOKE ALL ON FUNCTION gpuscan_devices() FROM PUBLIC;
REVOKE ALL ON FUNCTION gpuscan_service() FROM PUBLIC;
REVOKE ALL ON FUNCTION gpuscan_cache() FROM PUBLIC;
REVOKE ALL ON gpuscan_activity, gpuscan_devices, gpuscan_service, gpuscan_cache FROM PUBLIC;
GRANT EXECUTE ON FUNCTION gpuscan_activity() TO pg_monitor;
GRANT EXECUTE ON FUNCTION gpuscan_devices() TO pg_monitor;
GRANT EXECUTE ON FUNCTION gpuscan_service() TO pg_monitor;
GRANT EXECUTE ON FUNCTION gpuscan_cache() TO pg_monitor;
GRANT SELECT ON gpuscan_activity, gpuscan_devices, gpuscan_service, gpuscan_cache TO pg_monitor;
