/* sql/peekstash--1.0.sql */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION peekstash" to load this file. \quit

-- Tables and views live in schema peekstash, which nobody's search_path
-- should hold; functions live where the user wants to call them.
DO $$
BEGIN
	IF '@extschema@' = 'peekstash' THEN
		RAISE EXCEPTION 'extension "peekstash" cannot be created in schema "peekstash"'
			USING ERRCODE = 'invalid_schema_name',
				HINT = 'That schema is for its tables and views; choose another one for its functions.';
	END IF;
END
$$;

CREATE SCHEMA peekstash;
GRANT USAGE ON SCHEMA peekstash TO PUBLIC;

--
-- The stash.  Nothing is granted on it: only the functions of the extension
-- read and write it.
--
-- UNLOGGED because an answer need not survive a crash.  Payloads are stored
-- out of line and as they are: they come compressed, or shall not be.
-- Truncating pages at the end would lock readers out, so vacuum does not; it
-- comes early, because everything here is short-lived.
--

-- A submitted peek.  Columns as in src/stash/handle.c.
CREATE UNLOGGED TABLE peekstash.handle (
	handle uuid NOT NULL PRIMARY KEY,
	owner oid NOT NULL,				-- current role at submit
	charged_to oid NOT NULL,		-- session user at submit
	granted oid[] NOT NULL,			-- roles that may read
	label text,
	source text NOT NULL,			-- 'index', 'query'
	arrangement oid,
	request jsonb NOT NULL,			-- for people
	digest bytea NOT NULL,			-- of the request, for comparing
	column_names text[] NOT NULL,
	column_types oid[] NOT NULL,
	column_typmods integer[] NOT NULL,
	column_collations oid[] NOT NULL,
	fingerprint bigint NOT NULL,	-- of the types
	pid integer NOT NULL,
	application_name text,
	client_addr inet,
	submitted_at timestamptz NOT NULL,
	server_start timestamptz NOT NULL,
	database oid NOT NULL,
	catalog_version integer NOT NULL
) WITH (
	vacuum_truncate = off,
	autovacuum_vacuum_threshold = 1000,
	autovacuum_vacuum_scale_factor = 0,
	autovacuum_vacuum_insert_threshold = -1,
	toast.vacuum_truncate = off
);

-- How it ended.  Small answers are in tail_rows as a whole.
CREATE UNLOGGED TABLE peekstash.outcome (
	handle uuid NOT NULL PRIMARY KEY,
	stash uuid NOT NULL,			-- what batches and tail are known by
	state text NOT NULL,			-- 'done', 'failed', 'cancelled'
	kind text,						-- 'memory', 'stashed'
	num_rows bigint NOT NULL,
	answer_bytes bigint NOT NULL,	-- by the ruler
	stored_bytes bigint NOT NULL,	-- payloads and tail
	batches bigint NOT NULL,
	positions bigint,
	share_rows bigint[] NOT NULL,	-- rows in the batches of each worker
	tail_num_rows bigint NOT NULL,
	tail_rows bytea,
	stash_reason text,
	workers integer NOT NULL,		-- 0 = walked by the submitter
	inline_reason text,
	estimated_positions bigint,
	finished_at timestamptz NOT NULL,
	expires_at timestamptz NOT NULL,
	sqlstate text,
	error text,
	detail text
) WITH (
	vacuum_truncate = off,
	autovacuum_vacuum_threshold = 1000,
	autovacuum_vacuum_scale_factor = 0,
	autovacuum_vacuum_insert_threshold = -1,
	toast.vacuum_truncate = off,
	toast.autovacuum_vacuum_threshold = 10000,
	toast.autovacuum_vacuum_scale_factor = 0,
	toast.autovacuum_vacuum_insert_threshold = -1
);
ALTER TABLE peekstash.outcome ALTER COLUMN tail_rows SET STORAGE EXTERNAL;
CREATE INDEX outcome_expires_at ON peekstash.outcome (expires_at);

COMMENT ON TABLE peekstash.handle IS
	'submitted peeks; for the functions of the extension only';
COMMENT ON TABLE peekstash.outcome IS
	'how submitted peeks ended; for the functions of the extension only';

REVOKE ALL ON peekstash.handle, peekstash.outcome FROM PUBLIC;

CREATE UNLOGGED TABLE peekstash.batch (
	handle uuid NOT NULL,
	worker integer NOT NULL,
	first_row bigint NOT NULL,		-- of this worker's rows, from 0
	num_rows bigint NOT NULL,		-- copies counted
	answer_bytes bigint NOT NULL,	-- by the ruler
	payload bytea NOT NULL,
	PRIMARY KEY (handle, worker, first_row)
) WITH (
	vacuum_truncate = off,
	autovacuum_vacuum_threshold = 1000,
	autovacuum_vacuum_scale_factor = 0,
	autovacuum_vacuum_insert_threshold = -1,
	toast.vacuum_truncate = off,
	toast.autovacuum_vacuum_threshold = 10000,
	toast.autovacuum_vacuum_scale_factor = 0,
	toast.autovacuum_vacuum_insert_threshold = -1
);
ALTER TABLE peekstash.batch ALTER COLUMN payload SET STORAGE EXTERNAL;

-- default privileges may have granted what nobody shall have
DO $$
DECLARE
	r record;
BEGIN
	FOR r IN
		SELECT c.relname, a.grantee
		FROM pg_catalog.pg_class c, pg_catalog.aclexplode(c.relacl) a
		WHERE c.relnamespace = 'peekstash'::pg_catalog.regnamespace
			AND c.relkind = 'r' AND a.grantee NOT IN (0, c.relowner)
	LOOP
		EXECUTE pg_catalog.format('REVOKE ALL ON peekstash.%I FROM %I',
			r.relname, pg_catalog.pg_get_userbyid(r.grantee));
	END LOOP;
END
$$;

COMMENT ON TABLE peekstash.batch IS
	'rows of stashed answers; for the functions of the extension only';

REVOKE ALL ON peekstash.batch FROM PUBLIC;

--
-- Direct peeks: rows now
--

CREATE FUNCTION peek(
	rowtype anyelement,
	arrangement regclass DEFAULT NULL,
	key "any" DEFAULT ROW(),
	keys "any" DEFAULT ROW(),
	lower "any" DEFAULT ROW(),
	upper "any" DEFAULT ROW(),
	bounds text DEFAULT '[]',
	filter text DEFAULT NULL,
	args text[] DEFAULT NULL,
	order_by text DEFAULT NULL,
	row_limit bigint DEFAULT NULL,
	row_offset bigint DEFAULT 0,
	backward boolean DEFAULT false,
	options jsonb DEFAULT '{}')
RETURNS SETOF anyelement
AS 'MODULE_PATHNAME', 'peek'
LANGUAGE C VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
COST 1000 ROWS 1000;

COMMENT ON FUNCTION peek(anyelement, regclass, "any", "any", "any", "any", text, text, text[], text, bigint, bigint, boolean, jsonb) IS
	'read rows through one walk of a btree index, as values of a row type';

CREATE FUNCTION peek_record(
	arrangement regclass,
	columns text[] DEFAULT NULL,
	key "any" DEFAULT ROW(),
	keys "any" DEFAULT ROW(),
	lower "any" DEFAULT ROW(),
	upper "any" DEFAULT ROW(),
	bounds text DEFAULT '[]',
	filter text DEFAULT NULL,
	args text[] DEFAULT NULL,
	order_by text DEFAULT NULL,
	row_limit bigint DEFAULT NULL,
	row_offset bigint DEFAULT 0,
	backward boolean DEFAULT false,
	options jsonb DEFAULT '{}')
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'peek_record'
LANGUAGE C VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
COST 1000 ROWS 1000;

COMMENT ON FUNCTION peek_record(regclass, text[], "any", "any", "any", "any", text, text, text[], text, bigint, bigint, boolean, jsonb) IS
	'read rows through one walk of a btree index, as records of named columns';

--
-- Handles: an answer now, its rows when you like
--

CREATE FUNCTION peek_page(
	rowtype anyelement,
	arrangement regclass DEFAULT NULL,
	key "any" DEFAULT ROW(),
	keys "any" DEFAULT ROW(),
	lower "any" DEFAULT ROW(),
	upper "any" DEFAULT ROW(),
	bounds text DEFAULT '[]',
	filter text DEFAULT NULL,
	args text[] DEFAULT NULL,
	order_by text DEFAULT NULL,
	row_limit bigint DEFAULT NULL,
	row_offset bigint DEFAULT 0,
	backward boolean DEFAULT false,
	page_rows bigint DEFAULT 100,
	options jsonb DEFAULT '{}')
RETURNS TABLE(handle uuid, num_rows bigint, pos bigint, r anyelement)
AS 'MODULE_PATHNAME', 'peek_page'
LANGUAGE C VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
COST 1000 ROWS 100;

COMMENT ON FUNCTION peek_page(anyelement, regclass, "any", "any", "any", "any", text, text, text[], text, bigint, bigint, boolean, bigint, jsonb) IS
	'first page of an answer, and the handle of the rest';

CREATE FUNCTION peek_submit(
	arrangement regclass,
	columns text[] DEFAULT NULL,
	key "any" DEFAULT ROW(),
	keys "any" DEFAULT ROW(),
	lower "any" DEFAULT ROW(),
	upper "any" DEFAULT ROW(),
	bounds text DEFAULT '[]',
	filter text DEFAULT NULL,
	args text[] DEFAULT NULL,
	order_by text DEFAULT NULL,
	row_limit bigint DEFAULT NULL,
	row_offset bigint DEFAULT 0,
	backward boolean DEFAULT false,
	options jsonb DEFAULT '{}')
RETURNS uuid
AS 'MODULE_PATHNAME', 'peek_submit'
LANGUAGE C VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
COST 1000;

COMMENT ON FUNCTION peek_submit(regclass, text[], "any", "any", "any", "any", text, text, text[], text, bigint, bigint, boolean, jsonb) IS
	'walk, keep the answer, and return its handle';

CREATE FUNCTION peek_query(
	query text,
	args text[] DEFAULT NULL,
	options jsonb DEFAULT '{}')
RETURNS uuid
AS 'MODULE_PATHNAME', 'peek_query'
LANGUAGE C VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
COST 1000;

COMMENT ON FUNCTION peek_query(text, text[], jsonb) IS
	'run a query, keep its answer, and return the handle';

CREATE FUNCTION peek_query_page(
	query text,
	args text[] DEFAULT NULL,
	page_rows bigint DEFAULT 100,
	options jsonb DEFAULT '{}')
RETURNS TABLE(handle uuid, num_rows bigint, pos bigint, r jsonb)
AS 'MODULE_PATHNAME', 'peek_query_page'
LANGUAGE C VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
COST 1000 ROWS 100;

COMMENT ON FUNCTION peek_query_page(text, text[], bigint, jsonb) IS
	'first page of the answer of a query, as JSON, and the handle of the rest';

CREATE FUNCTION peek_fetch(
	rowtype anyelement,
	handle uuid,
	from_row bigint DEFAULT 0,
	max_rows bigint DEFAULT NULL,
	max_bytes bigint DEFAULT NULL)
RETURNS SETOF anyelement
AS 'MODULE_PATHNAME', 'peek_fetch'
LANGUAGE C STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
COST 100 ROWS 1000;

COMMENT ON FUNCTION peek_fetch(anyelement, uuid, bigint, bigint, bigint) IS
	'rows of a kept answer, from a row number on, as values of a row type';

CREATE FUNCTION peek_fetch_record(
	handle uuid,
	from_row bigint DEFAULT 0,
	max_rows bigint DEFAULT NULL,
	max_bytes bigint DEFAULT NULL)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'peek_fetch_record'
LANGUAGE C STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
COST 100 ROWS 1000;

COMMENT ON FUNCTION peek_fetch_record(uuid, bigint, bigint, bigint) IS
	'rows of a kept answer, from a row number on, as records';

CREATE FUNCTION peek_fetch_json(
	handle uuid,
	from_row bigint DEFAULT 0,
	max_rows bigint DEFAULT 100)
RETURNS jsonb
AS 'MODULE_PATHNAME', 'peek_fetch_json'
LANGUAGE C STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
COST 1000;

COMMENT ON FUNCTION peek_fetch_json(uuid, bigint, bigint) IS
	'rows of a kept answer, from a row number on, as JSON';

CREATE FUNCTION peek_columns(
	handle uuid,
	OUT ordinal integer,
	OUT name text,
	OUT type regtype,
	OUT typmod integer,
	OUT "collation" regcollation,
	OUT definition text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'peek_columns'
LANGUAGE C STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
COST 100 ROWS 10;

COMMENT ON FUNCTION peek_columns(uuid) IS
	'columns of a kept answer';

CREATE FUNCTION peek_batches(
	handle uuid,
	OUT batch integer,
	OUT worker integer,
	OUT first_row bigint,
	OUT num_rows bigint,
	OUT answer_bytes bigint,
	OUT stored_bytes bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'peek_batches'
LANGUAGE C STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
COST 100 ROWS 100;

COMMENT ON FUNCTION peek_batches(uuid) IS
	'how a kept answer is stored: its batches, and its tail as the last line';

CREATE FUNCTION peek_wait(
	handle uuid,
	timeout interval DEFAULT '60 s')
RETURNS text
AS 'MODULE_PATHNAME', 'peek_wait'
LANGUAGE C VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
COST 1000;

COMMENT ON FUNCTION peek_wait(uuid, interval) IS
	'wait for the end of a submitted peek, and return its state';

CREATE FUNCTION peek_cancel(handle uuid)
RETURNS boolean
AS 'MODULE_PATHNAME', 'peek_cancel'
LANGUAGE C VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT;

COMMENT ON FUNCTION peek_cancel(uuid) IS
	'ask a submitted peek in flight to stop';

CREATE FUNCTION peek_release(handle uuid)
RETURNS boolean
AS 'MODULE_PATHNAME', 'peek_release'
LANGUAGE C VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT;

COMMENT ON FUNCTION peek_release(uuid) IS
	'delete a kept answer';

CREATE FUNCTION peek_touch(
	handle uuid,
	ttl interval DEFAULT NULL)
RETURNS timestamptz
AS 'MODULE_PATHNAME', 'peek_touch'
LANGUAGE C VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT;

COMMENT ON FUNCTION peek_touch(uuid, interval) IS
	'let a kept answer live so long from now on';

CREATE FUNCTION peek_grant(
	handle uuid,
	to_role regrole)
RETURNS void
AS 'MODULE_PATHNAME', 'peek_grant'
LANGUAGE C VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT;

COMMENT ON FUNCTION peek_grant(uuid, regrole) IS
	'let a role read a kept answer';

CREATE FUNCTION peek_sweep()
RETURNS bigint
AS 'MODULE_PATHNAME', 'peek_sweep'
LANGUAGE C VOLATILE PARALLEL UNSAFE STRICT
COST 1000;

COMMENT ON FUNCTION peek_sweep() IS
	'delete kept answers that have expired';

--
-- Views
--

CREATE FUNCTION peekstash_in_flight(
	OUT handle uuid,
	OUT owner oid,
	OUT charged_to oid,
	OUT state text,
	OUT phase text,
	OUT driver text,
	OUT workers integer,
	OUT positions bigint,
	OUT estimated_positions bigint,
	OUT num_rows bigint,
	OUT answer_bytes bigint,
	OUT stored_bytes bigint,
	OUT pid integer,
	OUT submitted_at timestamptz)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'peekstash_in_flight'
LANGUAGE C VOLATILE PARALLEL RESTRICTED STRICT
COST 10 ROWS 10;

COMMENT ON FUNCTION peekstash_in_flight() IS
	'submitted peeks that are running; see the view peekstash.peeks';

-- The views read the tables with the rights of their owner, and show of them
-- what concerns the current role.  Each arm is a view of its own: the planner
-- flattens a UNION ALL, and with it the security barrier around it.
CREATE VIEW peekstash.peeks_kept (
	handle, owner, charged_to, label, arrangement, request, state, kind,
	phase, driver, workers, positions, estimated_positions, num_rows,
	answer_bytes, stored_bytes, batches, stash_reason, inline_reason, pid,
	application_name, client_addr, submitted_at, finished_at, expires_at,
	sqlstate, error)
	WITH (security_barrier) AS
	SELECT h.handle,
		coalesce(pg_catalog.pg_get_userbyid(h.owner), '') AS owner,
		coalesce(pg_catalog.pg_get_userbyid(h.charged_to), '') AS charged_to,
		h.label,
		h.arrangement::pg_catalog.regclass AS arrangement,
		h.request,
		o.state,
		o.kind,
		NULL::text AS phase,
		CASE WHEN o.workers OPERATOR(pg_catalog.>) 0
			THEN 'offloaded' ELSE 'inline' END AS driver,
		o.workers,
		o.positions,
		o.estimated_positions,
		o.num_rows,
		o.answer_bytes,
		o.stored_bytes,
		o.batches,
		o.stash_reason,
		o.inline_reason,
		h.pid,
		h.application_name,
		h.client_addr,
		h.submitted_at,
		o.finished_at,
		o.expires_at,
		o.sqlstate,
		o.error
	FROM peekstash.handle h
		JOIN peekstash.outcome o ON o.handle OPERATOR(pg_catalog.=) h.handle
	WHERE (pg_catalog.pg_has_role(h.owner, 'USAGE')
		OR EXISTS (SELECT FROM pg_catalog.unnest(h.granted) g(role)
			WHERE pg_catalog.pg_has_role(g.role, 'USAGE'))
		OR pg_catalog.pg_has_role('pg_read_all_stats', 'USAGE'))
		-- what came with a copy of the database cannot be read
		AND h.database OPERATOR(pg_catalog.=) (SELECT d.oid
			FROM pg_catalog.pg_database d
			WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database());

CREATE VIEW peekstash.peeks_in_flight (
	handle, owner, charged_to, label, arrangement, request, state, kind,
	phase, driver, workers, positions, estimated_positions, num_rows,
	answer_bytes, stored_bytes, batches, stash_reason, inline_reason, pid,
	application_name, client_addr, submitted_at, finished_at, expires_at,
	sqlstate, error)
	WITH (security_barrier) AS
	SELECT f.handle,
		coalesce(pg_catalog.pg_get_userbyid(f.owner), ''),
		coalesce(pg_catalog.pg_get_userbyid(f.charged_to), ''),
		NULL::text,
		NULL::pg_catalog.regclass,
		NULL::jsonb,
		f.state,
		NULL::text,
		f.phase,
		f.driver,
		f.workers,
		f.positions,
		f.estimated_positions,
		f.num_rows,
		f.answer_bytes,
		f.stored_bytes,
		NULL::bigint,
		NULL::text,
		NULL::text,
		f.pid,
		a.application_name,
		a.client_addr,
		f.submitted_at,
		NULL::timestamptz,
		NULL::timestamptz,
		NULL::text,
		NULL::text
	FROM @extschema@.peekstash_in_flight() f
		LEFT JOIN pg_catalog.pg_stat_activity a
			ON a.pid OPERATOR(pg_catalog.=) f.pid
	-- a worker's outcome can be seen before its submitter's handle
	WHERE NOT EXISTS (SELECT FROM peekstash.handle h
		JOIN peekstash.outcome o ON o.handle OPERATOR(pg_catalog.=) h.handle
		WHERE h.handle OPERATOR(pg_catalog.=) f.handle);

CREATE VIEW peekstash.peeks WITH (security_barrier) AS
	SELECT * FROM peekstash.peeks_kept
	UNION ALL
	SELECT * FROM peekstash.peeks_in_flight;

COMMENT ON VIEW peekstash.peeks IS
	'submitted peeks that the current role may see, running and kept';

GRANT SELECT ON peekstash.peeks TO PUBLIC;

CREATE FUNCTION peek_status(
	INOUT handle uuid,
	OUT owner name,
	OUT charged_to name,
	OUT label text,
	OUT arrangement regclass,
	OUT request jsonb,
	OUT state text,
	OUT kind text,
	OUT phase text,
	OUT driver text,
	OUT workers integer,
	OUT positions bigint,
	OUT estimated_positions bigint,
	OUT num_rows bigint,
	OUT answer_bytes bigint,
	OUT stored_bytes bigint,
	OUT batches bigint,
	OUT stash_reason text,
	OUT inline_reason text,
	OUT pid integer,
	OUT application_name text,
	OUT client_addr inet,
	OUT submitted_at timestamptz,
	OUT finished_at timestamptz,
	OUT expires_at timestamptz,
	OUT sqlstate text,
	OUT error text,
	OUT column_definitions text)
RETURNS record
AS 'MODULE_PATHNAME', 'peek_status'
LANGUAGE C STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
COST 100;

COMMENT ON FUNCTION peek_status(uuid) IS
	'the line of peekstash.peeks for a handle, and a column definition list';

--
-- Statistics
--

CREATE FUNCTION peekstash_stat(
	OUT scope text,
	OUT walks_inline bigint,
	OUT walks_offloaded bigint,
	OUT answers_memory bigint,
	OUT answers_stashed bigint,
	OUT answers_failed bigint,
	OUT answers_cancelled bigint,
	OUT positions bigint,
	OUT rows bigint,
	OUT answer_bytes bigint,
	OUT stored_bytes bigint,
	OUT batches_written bigint,
	OUT batches_read bigint,
	OUT queue_seconds double precision,
	OUT walk_seconds double precision,
	OUT write_seconds double precision,
	OUT read_seconds double precision,
	OUT permits_in_use integer,
	OUT permit_queue_depth integer,
	OUT slots_in_use integer,
	OUT reclaimed_batches bigint,
	OUT reclaim_failures bigint,
	OUT swept_answers bigint,
	OUT stash_bytes bigint,
	OUT stash_disk_bytes bigint,
	OUT stats_reset timestamptz)
RETURNS record
AS 'MODULE_PATHNAME', 'peekstash_stat'
LANGUAGE C VOLATILE PARALLEL RESTRICTED STRICT;

COMMENT ON FUNCTION peekstash_stat() IS
	'counters of peeks; see the view peekstash.stat';

CREATE VIEW peekstash.stat AS
	SELECT * FROM @extschema@.peekstash_stat();

COMMENT ON VIEW peekstash.stat IS
	'counters of peeks since stats_reset';

GRANT SELECT ON peekstash.stat TO PUBLIC;

CREATE FUNCTION peekstash_stat_phases(
	OUT phase text,
	OUT le double precision,
	OUT count bigint,
	OUT sum_seconds double precision)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'peekstash_stat_phases'
LANGUAGE C VOLATILE PARALLEL RESTRICTED STRICT
ROWS 32;

COMMENT ON FUNCTION peekstash_stat_phases() IS
	'histograms of the phases of peeks; see the view peekstash.stat_phase';

-- count is that of all that took no longer than le, as monitoring systems
-- want it.
CREATE VIEW peekstash.stat_phase AS
	SELECT * FROM @extschema@.peekstash_stat_phases();

COMMENT ON VIEW peekstash.stat_phase IS
	'how long the phases of peeks took since stats_reset, as histograms';

GRANT SELECT ON peekstash.stat_phase TO PUBLIC;

CREATE FUNCTION peekstash_stat_reset()
RETURNS void
AS 'MODULE_PATHNAME', 'peekstash_stat_reset'
LANGUAGE C VOLATILE PARALLEL RESTRICTED STRICT;

COMMENT ON FUNCTION peekstash_stat_reset() IS
	'set the counters of peeks to zero';

REVOKE ALL ON FUNCTION peekstash_stat_reset() FROM PUBLIC;
