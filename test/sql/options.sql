--
-- Options and settings: the same knobs for one call and for a session.
--
\set ECHO none
\getenv srcdir PG_ABS_SRCDIR
\set helpers :srcdir '/helpers.sql'
\i :helpers
\set ECHO all
CREATE SCHEMA options_test;
SET search_path = options_test, test, public;
GRANT USAGE ON SCHEMA options_test TO PUBLIC;

CREATE TABLE t (id int PRIMARY KEY, s text);
INSERT INTO t SELECT i, repeat('x', 83) FROM generate_series(1, 100) i;
GRANT SELECT ON t TO PUBLIC;
-- 100 entries of 104 bytes: more than 10 kB, less than 11 kB
SELECT count(*) FROM peek(NULL::t);

-- The settings: unit, context, range, default
SELECT name, unit, context, vartype, boot_val, min_val, max_val FROM pg_settings
	WHERE name IN ('peekstash.stash_threshold', 'peekstash.stash_batch_size', 'peekstash.max_result_size',
		'peekstash.row_iteration_limit', 'peekstash.yield_granularity') ORDER BY name;

-- SET takes units
SET peekstash.stash_threshold = '2MB';
SHOW peekstash.stash_threshold;
SET peekstash.stash_threshold = 100;
SHOW peekstash.stash_threshold;
SET peekstash.stash_threshold = '512MB';
SET peekstash.stash_threshold = '513MB';
SET peekstash.stash_threshold = -1;
SET peekstash.stash_threshold = '1 week';
SET peekstash.stash_threshold = 'some';
RESET peekstash.stash_threshold;
SET peekstash.stash_batch_size = 0;
SET peekstash.stash_batch_size = '1kB';
SHOW peekstash.stash_batch_size;
RESET peekstash.stash_batch_size;
SET peekstash.max_result_size = 10;
SHOW peekstash.max_result_size;
SET peekstash.max_result_size = '2GB';
SHOW peekstash.max_result_size;
SET peekstash.max_result_size = -2;
SET peekstash.max_result_size = -1;
SHOW peekstash.max_result_size;
RESET peekstash.max_result_size;
SET peekstash.row_iteration_limit = -1;
SET peekstash.yield_granularity = 0;
SET peekstash.yield_granularity = -5;
SET peekstash.yield_granularity = 1;
RESET peekstash.yield_granularity;

-- The prefix is reserved: an unknown knob is an error (semantics 58)
SET peekstash.nonsense = 1;
SHOW peekstash.nonsense;

-- A setting is in force for the peeks of the session
SET peekstash.max_result_size = '10kB';
SELECT error('t', 'NULL');
RESET peekstash.max_result_size;
SET peekstash.row_iteration_limit = 99;
SELECT error('t', 'NULL');
SELECT error('t', 'row_limit => 99');
RESET peekstash.row_iteration_limit;
BEGIN;
SET LOCAL peekstash.row_iteration_limit = 1;
SELECT error('t', 'NULL');
ROLLBACK;
SELECT error('t', 'NULL');

-- An option is in force for one call: a number in the knob's base unit, a
-- string as SET takes it
SELECT o, split_part(error('t', format('options => %L', o)), E'\n', 1)
	FROM unnest(ARRAY['{}', '{"max_result_size": 10}', '{"max_result_size": 11}', '{"max_result_size": "10kB"}', '{"max_result_size": "11kB"}',
		'{"max_result_size": "0.01MB"}', '{"max_result_size": 1.1e1}', '{"max_result_size": "11264B"}', '{"max_result_size": -1}',
		'{"row_iteration_limit": 99}', '{"row_iteration_limit": 100}', '{"row_iteration_limit": "99"}', '{"row_iteration_limit": " 100 "}',
		'{"row_iteration_limit": 0}', '{"yield_granularity": 1, "stash_threshold": 0, "stash_batch_size": 1}', '{"stash_threshold": "512MB"}',
		'{"row_iteration_limit": 99, "max_result_size": 1}', '{"row_iteration_limit": 1, "row_iteration_limit": 100}']) o;
SELECT count(*) FROM peek_record('t', '{id}', options => '{"max_result_size": 2}') AS r(id int);
SELECT count(*) FROM peek_record('t', '{id}', options => '{"max_result_size": 1}') AS r(id int);

-- Bad values and unknown keys: 22023
SELECT o, error('t', format('options => %L', o))
	FROM unnest(ARRAY['{"nonsense": 1}', '{"Max_Result_Size": 1}', '{"peekstash.max_result_size": 1}', '{"": 1}', '{"max_result_size": 10, "x": null}',
		'{"max_result_size": -2}', '{"max_result_size": 2147483648}', '{"max_result_size": 1e100}', '{"max_result_size": 1.5}', '{"max_result_size": "1.5 parsecs"}',
		'{"max_result_size": ""}', '{"max_result_size": "much"}', '{"max_result_size": null}', '{"max_result_size": true}', '{"max_result_size": [1]}',
		'{"max_result_size": {"kB": 1}}', '{"yield_granularity": 0}', '{"yield_granularity": 1000001}', '{"stash_threshold": -1}',
		'{"stash_threshold": "513MB"}', '{"stash_batch_size": 0}', '{"row_iteration_limit": -1}']) o;
SELECT o, error('t', format('options => %L', o)) FROM unnest(ARRAY['[]', '1', '"x"', 'null', '[{"max_result_size": 1}]']) o;
-- also in a call that looks at nothing
SELECT error('t', $$row_limit => 0, options => '{"nonsense": 1}'$$);

-- An option goes before a setting, and does not stay
SET peekstash.row_iteration_limit = 10;
SELECT error('t', $$options => '{"row_iteration_limit": 1000}'$$);
SELECT split_part(error('t', 'NULL'), E'\n', 1);
RESET peekstash.row_iteration_limit;

-- Guards (max_result_size, row_iteration_limit): who is no superuser may only
-- lower them, and the value that means no limit is not lower
CREATE ROLE regress_peek_plain;
SET peekstash.max_result_size = '20kB';
SET peekstash.row_iteration_limit = 1000;
SET ROLE regress_peek_plain;
SELECT o, error('options_test.t', format('options => %L', o))
	FROM unnest(ARRAY['{"max_result_size": 20}', '{"max_result_size": 11}', '{"max_result_size": 10}', '{"max_result_size": 0}', '{"max_result_size": 21}', '{"max_result_size": -1}',
		'{"row_iteration_limit": 1000}', '{"row_iteration_limit": 99}', '{"row_iteration_limit": 1001}', '{"row_iteration_limit": 0}',
		'{"stash_threshold": "512MB", "stash_batch_size": "512MB", "yield_granularity": 1000000}']) o;
SET peekstash.max_result_size = '1kB';
SET peekstash.row_iteration_limit = 1;
SET peekstash.stash_threshold = '3MB';
RESET peekstash.stash_threshold;
RESET ROLE;
-- where there is no limit, any is lower
SET peekstash.max_result_size = -1;
SET peekstash.row_iteration_limit = 0;
SET ROLE regress_peek_plain;
SELECT o, split_part(error('options_test.t', format('options => %L', o)), E'\n', 1)
	FROM unnest(ARRAY['{"max_result_size": -1, "row_iteration_limit": 0}', '{"max_result_size": 2147483647, "row_iteration_limit": 2147483647}', '{"max_result_size": 10}', '{"row_iteration_limit": 99}']) o;
RESET ROLE;
-- a superuser may raise them
SET peekstash.max_result_size = '1kB';
SET peekstash.row_iteration_limit = 1;
SELECT error('t', $$options => '{"max_result_size": -1, "row_iteration_limit": 0}'$$);
SELECT error('t', $$options => '{"max_result_size": "1GB", "row_iteration_limit": 100}'$$);
RESET peekstash.max_result_size;
RESET peekstash.row_iteration_limit;
-- a guard that an administrator has set for a role holds for it
ALTER ROLE regress_peek_plain SET peekstash.row_iteration_limit = 5;
SELECT setconfig FROM pg_db_role_setting WHERE setrole = 'regress_peek_plain'::regrole;
GRANT SET ON PARAMETER peekstash.row_iteration_limit TO regress_peek_plain;
SET ROLE regress_peek_plain;
SET peekstash.row_iteration_limit = 5;
-- the right to SET is not the right to raise by an option
SELECT split_part(error('options_test.t', $$options => '{"row_iteration_limit": 6}'$$), E'\n', 1);
RESET ROLE;
RESET peekstash.row_iteration_limit;
REVOKE SET ON PARAMETER peekstash.row_iteration_limit FROM regress_peek_plain;
DROP ROLE regress_peek_plain;

-- A function's own setting is in force inside of it
CREATE FUNCTION limited() RETURNS bigint LANGUAGE sql SET peekstash.row_iteration_limit = 7
	AS 'SELECT count(*) FROM peek(NULL::options_test.t)';
SELECT error('SELECT limited()');

SET client_min_messages = warning;
DROP SCHEMA options_test CASCADE;
