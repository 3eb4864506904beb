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
-- Statistics
--

CREATE FUNCTION peekstash_stat(
	OUT scope text,
	OUT walks_inline bigint,
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
	OUT walk_seconds double precision,
	OUT write_seconds double precision,
	OUT read_seconds double precision,
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

CREATE FUNCTION peekstash_stat_reset()
RETURNS void
AS 'MODULE_PATHNAME', 'peekstash_stat_reset'
LANGUAGE C VOLATILE PARALLEL RESTRICTED STRICT;

COMMENT ON FUNCTION peekstash_stat_reset() IS
	'set the counters of peeks to zero';

REVOKE ALL ON FUNCTION peekstash_stat_reset() FROM PUBLIC;
