--
-- helpers.sql
--	What the tests of test/sql share.  Each of them reads this file first, so
--	that each can also run alone.
--
SET client_min_messages = warning;
CREATE SCHEMA IF NOT EXISTS test;
GRANT USAGE ON SCHEMA test TO PUBLIC;

-- Do two queries give the same rows in the same order, byte for byte?  The
-- first one contains a peek; it is run three times, so that its answer comes
-- from memory, has left memory entirely, and has left it in part.
CREATE OR REPLACE FUNCTION test.same(peek text, plain text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
	path text[];
	wanted bytea[];
	wanted_text text;
	found bytea[];
	found_text text;
	old_threshold text := current_setting('peekstash.stash_threshold', true);
	old_batch_size text := current_setting('peekstash.stash_batch_size', true);
	old_yield text := current_setting('peekstash.yield_granularity', true);
BEGIN
	EXECUTE format(E'SELECT array_agg(record_send(q)), left(string_agg(q::text, '' ''), 1000) FROM (%s\n) q', plain)
		INTO wanted, wanted_text;
	FOREACH path SLICE 1 IN ARRAY
		'{{memory, 512MB, 128kB, 10000}, {out, 0, 500, 1}, {both, 200, 64, 7}}'::text[]
	LOOP
		PERFORM set_config('peekstash.stash_threshold', path[2], true),
			set_config('peekstash.stash_batch_size', path[3], true),
			set_config('peekstash.yield_granularity', path[4], true);
		EXECUTE format(E'SELECT array_agg(record_send(q)), left(string_agg(q::text, '' ''), 1000) FROM (%s\n) q', peek)
			INTO found, found_text;
		EXIT WHEN found IS DISTINCT FROM wanted;
	END LOOP;
	PERFORM set_config('peekstash.stash_threshold', coalesce(old_threshold, '1MB'), true),
		set_config('peekstash.stash_batch_size', coalesce(old_batch_size, '128kB'), true),
		set_config('peekstash.yield_granularity', coalesce(old_yield, '10000'), true);
	IF found IS DISTINCT FROM wanted THEN
		RETURN format(E'%s: DIFFERENT\n  peek  %s rows: %s\n  plain %s rows: %s',
			path[1], coalesce(cardinality(found), 0), found_text,
			coalesce(cardinality(wanted), 0), wanted_text);
	END IF;
	RETURN format('same: %s', coalesce(cardinality(wanted), 0));
END $$;

-- The same for one table: peek with these arguments against a WHERE and ORDER
-- BY clause.
CREATE OR REPLACE FUNCTION test.same(tab text, arguments text, clauses text) RETURNS text
LANGUAGE sql AS $$
	SELECT test.same(format('SELECT * FROM peek(NULL::%s, %s)', tab, arguments),
		format('SELECT * FROM %s %s', tab, clauses));
$$;

-- How many rows a peek gives, and how many positions it looked at.
CREATE OR REPLACE FUNCTION test.walk(peek text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
	num_rows bigint;
	before bigint := (SELECT positions FROM peekstash.stat);
BEGIN
	EXECUTE format('SELECT count(*) FROM (%s) q', peek) INTO num_rows;
	RETURN format('rows %s, positions %s', num_rows,
		(SELECT positions FROM peekstash.stat) - before);
END $$;

CREATE OR REPLACE FUNCTION test.walk(tab text, arguments text) RETURNS text
LANGUAGE sql AS $$
	SELECT test.walk(format('SELECT * FROM peek(NULL::%s, %s)', tab, arguments));
$$;

-- What a statement throws; "no error" and its number of rows if nothing.
CREATE OR REPLACE FUNCTION test.error(statement text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
	num_rows bigint;
	state text;
	message text;
	detail text;
	hint text;
BEGIN
	EXECUTE statement;
	GET DIAGNOSTICS num_rows = ROW_COUNT;
	RETURN format('no error, %s rows', num_rows);
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE,
		message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL,
		hint = PG_EXCEPTION_HINT;
	RETURN state || ': ' || message ||
		CASE WHEN detail <> '' THEN E'\n  DETAIL:  ' || detail ELSE '' END ||
		CASE WHEN hint <> '' THEN E'\n  HINT:  ' || hint ELSE '' END;
END $$;

CREATE OR REPLACE FUNCTION test.error(tab text, arguments text) RETURNS text
LANGUAGE sql AS $$
	SELECT test.error(format('SELECT * FROM peek(NULL::%s, %s)', tab, arguments));
$$;
RESET client_min_messages;
\set SHOW_CONTEXT never
\pset format unaligned
\pset tuples_only on
