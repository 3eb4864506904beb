--
-- The life of a kept answer: how long it lives, what ends it, what one is told
-- of it afterwards, and that a damaged or outdated one is never read.
--
\set ECHO none
\getenv srcdir PG_ABS_SRCDIR
\set helpers :srcdir '/helpers.sql'
\i :helpers
\set ECHO all
CREATE SCHEMA life_test;
SET search_path = life_test, test, public;
CREATE ROLE regress_peek_life;
GRANT ALL ON SCHEMA life_test TO PUBLIC;

CREATE FUNCTION h(n int) RETURNS uuid LANGUAGE sql IMMUTABLE AS
	$$SELECT ('b0000000-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid$$;
CREATE FUNCTION o(n int, more jsonb DEFAULT '{}') RETURNS jsonb LANGUAGE sql IMMUTABLE AS
	$$SELECT jsonb_build_object('handle', h(n)) || more$$;
-- 32 bytes a row
CREATE TABLE t (id int PRIMARY KEY, v text);
INSERT INTO t SELECT i, lpad(i::text, 11, '0') FROM generate_series(1, 100) i;
GRANT SELECT ON t TO PUBLIC;
CREATE FUNCTION submit(n int, more jsonb DEFAULT '{}') RETURNS bool LANGUAGE sql AS
	$$SELECT peek_submit('life_test.t', options => o(n, more)) = h(n)$$;
CREATE FUNCTION life(n int) RETURNS interval LANGUAGE sql AS
	'SELECT expires_at - finished_at FROM peek_status(h(n))';
CREATE FUNCTION fetched(n int) RETURNS text LANGUAGE sql AS
	$$SELECT error(format('SELECT * FROM peek_fetch(NULL::life_test.t, %L)', h(n)))$$;

--
-- Time to live: an option in seconds or with a unit, a setting, a maximum
--
SELECT submit(1), submit(2, '{"ttl": 90}'), submit(3, '{"ttl": "2d"}'), submit(4, '{"ttl": "7d"}');
SELECT life(n) FROM generate_series(1, 4) n;
SELECT error($$SELECT submit(5, '{"ttl": 0}')$$);
SELECT error($$SELECT submit(5, '{"ttl": -1}')$$);
SELECT error($$SELECT submit(5, '{"ttl": 604801}')$$);
SELECT error($$SELECT submit(5, '{"ttl": "8d"}')$$);
SELECT error($$SELECT submit(5, '{"ttl": "infinity"}')$$);
SELECT error($$SELECT submit(5, '{"ttl": null}')$$);
SELECT error($$SELECT submit(5, '{"ttl": 1.5}')$$);
SELECT error($$SELECT submit(5, '{"ttl": 9999999999}')$$);
SET peekstash.ttl = '10min';
SELECT submit(5), submit(6, '{"ttl": 1000}');
SELECT life(5), life(6);
SET peekstash.ttl = 0;
SET peekstash.ttl = 'infinity';
-- a setting beyond the maximum is refused when it is used
SET peekstash.ttl = '30d';
SELECT error('SELECT submit(7)');
SELECT error('SELECT peek_touch(h(1))');
RESET peekstash.ttl;
SET peekstash.max_ttl = '30min';
SELECT error('SELECT submit(7)');
SELECT submit(7, '{"ttl": 1800}'), life(7);
RESET peekstash.max_ttl;
-- an option lowers the maximum; only a superuser raises it
SELECT error($$SELECT submit(8, '{"max_ttl": 60}')$$);
SELECT submit(8, '{"max_ttl": 2592000, "ttl": "30d"}'), life(8);
SET ROLE regress_peek_life;
SELECT error($$SELECT submit(9, '{"max_ttl": 2592000, "ttl": "30d"}')$$);
SELECT error($$SET peekstash.max_ttl = '30d'$$);
SELECT submit(9, '{"max_ttl": 120, "ttl": 120}'), life(9), peek_release(h(9));
RESET ROLE;
-- a direct peek has no time to live, but the setting is one of its options
SELECT error('t', $$key => 0, options => '{"ttl": 0}'$$);

-- peek_touch counts from now on, for as long as one wants
CREATE FUNCTION touched(ttl interval) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	before timestamptz := clock_timestamp();
	until timestamptz := peek_touch(h(2), ttl);
BEGIN
	IF until <> (SELECT expires_at FROM peek_status(h(2))) THEN RETURN 'WRONG'; END IF;
	RETURN date_trunc('minute', until - before + '1 second');
END $$;
SELECT life(2);
SELECT touched(NULL);
SELECT touched('5 min');
SELECT touched('2 days');
SELECT touched('7 days');
SELECT touched('1 s');
SELECT touched('6 days 24:00');
SET peekstash.ttl = '20min';
SELECT touched(NULL);
RESET peekstash.ttl;
SELECT error($$SELECT touched('8 days')$$);
SELECT error($$SELECT touched('1 month')$$);
SELECT error($$SELECT touched('178000000 years')$$);
SELECT error($$SELECT touched('0')$$);
SELECT error($$SELECT touched('0.5 s')$$);
SELECT error($$SELECT touched('-1 h')$$);
SELECT error('SELECT peek_touch(h(99))');
SELECT error('SELECT peek_touch(NULL)');
SELECT touched('1 day');

--
-- Expired: an error of its own, everywhere.  It is made in a transaction that
-- is not committed, so that no sweeper comes in between.
--
BEGIN;
SELECT submit(20, '{"ttl": 1}'), submit(21, '{"ttl": 1, "stash_threshold": 0}');
SELECT count(*) FROM peek_fetch(NULL::t, h(20));
DECLARE c CURSOR FOR SELECT peek_fetch(NULL::t, h(21));
FETCH 1 FROM c;
SELECT FROM pg_sleep(1.05);
SELECT fetched(20);
SELECT fetched(21);
SELECT error('SELECT * FROM peek_fetch(NULL::t, h(20), 1000)');
SELECT error('SELECT * FROM peek_fetch(NULL::t, h(20), 0, 0)');
SELECT error('SELECT * FROM peek_fetch_record(h(20)) AS r(id int)');
SELECT error('SELECT peek_fetch_json(h(20))');
SELECT error('SELECT * FROM peek_columns(h(20))');
SELECT error('SELECT * FROM peek_batches(h(20))');
SELECT error('SELECT peek_touch(h(20))');
SELECT error('SELECT peek_grant(h(20), ''regress_peek_life'')');
-- looked at when a fetch starts
MOVE FORWARD ALL IN c;
-- what became of it can still be seen
SELECT error($$SELECT FROM peek_status(h(20)) WHERE state = 'done' AND num_rows = 100 AND expires_at <= clock_timestamp() AND column_definitions IS NULL$$);
SELECT peek_wait(h(20));
-- others learn nothing of that
SET ROLE regress_peek_life;
SELECT fetched(20);
RESET ROLE;
-- released once, and gone
SELECT peek_release(h(20)), peek_release(h(20));
SELECT fetched(20);
-- what has expired may be submitted again, whatever the request
SELECT peek_submit('t', key => 1, options => o(21)) = h(21);
SELECT fetched(21);
COMMIT;
SELECT fetched(21), life(21);

-- Released: false the second time, and the hint of an unknown handle
SELECT peek_release(h(21)), peek_release(h(21));
SELECT peek_release(h(21));
SELECT fetched(21);
SELECT error('SELECT peek_release(NULL)');
SELECT peek_cancel(h(21)), peek_cancel(h(1));
SELECT error('SELECT peek_cancel(NULL)');
SELECT peek_wait(h(1), '0'), peek_wait(h(1), NULL), peek_wait(h(1), '-1 day'), peek_wait(h(1));
SELECT error('SELECT peek_wait(h(21))');
SELECT error('SELECT peek_wait(h(21), ''0'')');
SELECT error('SELECT * FROM peek_status(h(21))');
SELECT error('SELECT * FROM peek_status(NULL)');
-- the hint says when a handle of our making was made
SET TimeZone = 'UTC';
SELECT error($$SELECT peek_touch('018bcfe5-6800-7abc-8def-0123456789ab')$$);
SELECT error($$SELECT peek_touch('018bcfe5-6800-4abc-8def-0123456789ab')$$);
SELECT error($$SELECT peek_touch('ffffffff-ffff-7fff-bfff-ffffffffffff')$$);
SELECT error($$SELECT peek_touch('00000000-0000-0000-0000-000000000000')$$);
RESET TimeZone;

--
-- Sweeps: peek_sweep takes all that has expired, each submit a few
--
CREATE FUNCTION expire(VARIADIC n int[]) RETURNS void LANGUAGE sql AS
	$$UPDATE peekstash.outcome SET expires_at = now() - interval '1 second' WHERE handle IN (SELECT h(i) FROM unnest(n) i)$$;
CREATE FUNCTION left_of(low int, high int) RETURNS text LANGUAGE sql AS
	$$SELECT format('%s handles, %s outcomes, %s batches',
		(SELECT count(*) FROM peekstash.handle WHERE handle BETWEEN h(low) AND h(high)),
		(SELECT count(*) FROM peekstash.outcome WHERE handle BETWEEN h(low) AND h(high)),
		(SELECT count(*) FROM peekstash.batch WHERE handle BETWEEN h(low) AND h(high)))$$;
SELECT count(submit(n, '{"stash_threshold": 0, "stash_batch_size": 4000}')) FROM generate_series(101, 350) n;
SELECT left_of(101, 350);
SELECT peek_sweep();
BEGIN;
SELECT FROM expire(101, 103);
SELECT swept_answers AS swept FROM peekstash.stat \gset
SELECT peek_sweep();
SELECT swept_answers - :swept FROM peekstash.stat;
SELECT left_of(101, 350);
SELECT fetched(101);
ROLLBACK;
SELECT left_of(101, 350);
SELECT fetched(101);
-- many at once
BEGIN;
SELECT expire(VARIADIC array_agg(i)) FROM generate_series(104, 350) i;
SELECT peek_sweep();
COMMIT;
SELECT left_of(101, 350);
-- a savepoint undoes it
BEGIN;
SELECT FROM expire(101, 102, 103);
SAVEPOINT a;
SELECT peek_sweep();
SELECT left_of(101, 350);
ROLLBACK TO a;
SELECT left_of(101, 350);
ROLLBACK;
-- on use: eight, the oldest first, in READ COMMITTED outside of savepoints
SELECT count(submit(n)) FROM generate_series(104, 120) n;
BEGIN;
SELECT FROM expire(VARIADIC ARRAY(SELECT generate_series(101, 120)));
UPDATE peekstash.outcome SET expires_at = now() - interval '1 day' WHERE handle BETWEEN h(113) AND h(120);
SELECT submit(400);
SELECT left_of(101, 112), left_of(113, 120);
SELECT submit(400);
SELECT left_of(101, 112);
SAVEPOINT a;
SELECT submit(401);
SELECT left_of(101, 112);
RELEASE a;
-- a page that keeps nothing is a submit, too; a direct peek is none
SELECT count(*) FROM peek(NULL::t);
SELECT left_of(101, 112);
SELECT count(*) FROM peek_page(NULL::t);
SELECT left_of(101, 112);
ROLLBACK;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT FROM expire(101, 102, 103);
SELECT submit(400);
SELECT left_of(101, 112);
SELECT peek_sweep();
SELECT left_of(101, 112);
ROLLBACK;
-- who does not own the database sweeps its own
BEGIN;
SET LOCAL ROLE regress_peek_life;
SELECT submit(400);
RESET ROLE;
SELECT FROM expire(101, 102, 400);
SET LOCAL ROLE regress_peek_life;
SELECT peek_sweep(), peek_sweep();
RESET ROLE;
SELECT left_of(101, 102), left_of(400, 400);
ROLLBACK;
SELECT count(peek_release(h(n))) FROM generate_series(101, 120) n;

-- Orphans, which a copy of the database or an upgrade leaves, cannot be read
BEGIN;
SELECT submit(410), submit(411);
UPDATE peekstash.handle SET database = 1 WHERE handle = h(410);
UPDATE peekstash.handle SET catalog_version = 1 WHERE handle = h(411);
SELECT fetched(410);
SELECT fetched(411);
SELECT error('SELECT state FROM peek_status(h(410))');
SELECT error('SELECT peek_wait(h(410), ''0'')');
-- their owner may use the handle again, or release it
SELECT submit(410);
SELECT fetched(410);
SELECT peek_release(h(411));
ROLLBACK;

--
-- Idempotent handles: the same request is not walked again
--
CREATE FUNCTION again(arguments text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	u uuid;
	before bigint := (SELECT walks_inline FROM peekstash.stat);
	said text := error(format('SELECT peek_submit(%s, options => o(30, ''{"label": "%s"}''))', arguments, before));
BEGIN
	RETURN said || CASE (SELECT walks_inline FROM peekstash.stat) - before WHEN 0 THEN ', no walk' ELSE ', a walk' END;
END $$;
SELECT again($$'t'$$);
SELECT again($$'t'$$);
-- the same in other words: index for table, columns spelled out, a literal,
-- other options, other settings
SELECT again($$'t_pkey'$$);
SELECT again($$'t', '{id,v}'$$);
SELECT again($$'t', lower => ROW(), bounds => '()', row_offset => 0, backward => NULL$$);
SET DateStyle = 'German'; SET peekstash.stash_threshold = 0;
SELECT again($$'t', row_limit => NULL$$);
RESET DateStyle; RESET peekstash.stash_threshold;
SELECT walk($$SELECT peek_submit('t', options => o(30, '{"ttl": 5, "stash_batch_size": 1, "row_iteration_limit": 1}'))$$);
-- rows that came meanwhile are not in it
BEGIN;
DELETE FROM t;
SELECT again($$'t'$$), fetched(30);
ROLLBACK;
-- another one: 42710
SELECT again($$'t', key => 1$$);
SELECT again($$'t', '{v,id}'$$);
SELECT again($$'t', '{id}'$$);
SELECT again($$'t', lower => 1$$);
SELECT again($$'t', upper => 1$$);
SELECT again($$'t', keys => '{1}'::int[]$$);
SELECT again($$'t', filter => 'id > 0'$$);
SELECT again($$'t', order_by => 'id'$$);
SELECT again($$'t', row_limit => 100$$);
SELECT again($$'t', row_offset => 1$$);
SELECT again($$'t', backward => true$$);
SELECT again($$'t', key => NULL$$);
-- what differs in the values alone
SELECT peek_submit('t', lower => 1, upper => 5, bounds => '[)', filter => 'id <> $1', args => '{3}', options => o(31)) = h(31);
SELECT error($$SELECT peek_submit('t', lower => 1, upper => 5, bounds => '[)', filter => 'id <> $1', args => '{3}', options => o(31))$$);
SELECT error($$SELECT peek_submit('t', lower => '1', upper => 5::text, bounds => '[)', filter => 'id <> $1', args => ARRAY['3'], options => o(31))$$);
SELECT left(error($$SELECT peek_submit('t', lower => 1, upper => 5, bounds => '[]', filter => 'id <> $1', args => '{3}', options => o(31))$$), 5);
SELECT left(error($$SELECT peek_submit('t', lower => 1, upper => 5, bounds => '[)', filter => 'id <> $1', args => '{4}', options => o(31))$$), 5);
SELECT left(error($$SELECT peek_submit('t', lower => 1, upper => 6, bounds => '[)', filter => 'id <> $1', args => '{3}', options => o(31))$$), 5);
SELECT left(error($$SELECT peek_submit('t', lower => 2, upper => 5, bounds => '[)', filter => 'id <> $1', args => '{3}', options => o(31))$$), 5);
-- keys are a set
SELECT peek_submit('t', keys => '{3,1,2}'::int[], options => o(32)) = h(32);
SELECT error($$SELECT peek_submit('t', keys => '{1,2,3,1}'::int[], options => o(32))$$);
SELECT left(error($$SELECT peek_submit('t', keys => '{1,2}'::int[], options => o(32))$$), 5);
-- of values with a type
SELECT left(error($$SELECT peek_submit('t', keys => '{1,2,3}'::bigint[], options => o(32))$$), 5);
-- foreign: the same error, and nothing is told of it
SET ROLE regress_peek_life;
SELECT again($$'life_test.t'$$);
SELECT fetched(30);
SELECT submit(33);
RESET ROLE;
SELECT again($$'t'$$);
SELECT error('SELECT submit(33)');
-- many in one statement
SELECT count(*), count(DISTINCT u) FROM (SELECT peek_submit('t', options => o(34)) u FROM generate_series(1, 3)) q;
-- a failed one leaves the handle free
SELECT left(error($$SELECT submit(35, '{"row_iteration_limit": 5}')$$), 5);
SELECT submit(35);
-- released, it is free, too
SELECT peek_release(h(35));
SELECT peek_submit('t', key => 1, options => o(35)) = h(35);

--
-- The view: label, request, and what came of it
--
SELECT peek_submit('t', '{v}', lower => 10, upper => 20, bounds => '(]', filter => 'v <> $1 AND v > $2', args => '{"a b",0}', order_by => 'v DESC',
	row_limit => 3, row_offset => 1, options => o(40, '{"label": "first \"label\""}')) = h(40);
SELECT peek_submit('t', keys => '{3,1,2}'::int[], backward => true, options => o(41, '{"label": null}')) = h(41);
SELECT peek_submit('t', key => '7', options => o(42, '{"label": ""}')) = h(42);
SELECT peek_submit('t', filter => 'v <> ' || quote_literal(repeat('é', 1000)), options => o(43)) = h(43);
SELECT peek_submit('t', keys => ARRAY(SELECT generate_series(1, 150)), options => o(44)) = h(44);
CREATE TABLE two (a int, b text, c date);
CREATE INDEX two_i ON two (a DESC, b, c);
SELECT peek_submit('two_i', key => ROW(1, NULL::text), lower => '2001-02-03', options => o(45)) = h(45);
SELECT peek_submit('two_i', key => 1, lower => ROW('b', '2001-02-03'), options => o(46)) = h(46);
SELECT peek_submit('two_i', filter => 'b = E''\t"\\''', options => o(47)) = h(47);
SELECT label, arrangement, num_rows, request FROM peekstash.peeks WHERE handle BETWEEN h(40) AND h(42) ORDER BY handle;
SELECT length(request ->> 'filter'), right(request ->> 'filter', 5) FROM peekstash.peeks WHERE handle = h(43);
SELECT jsonb_array_length(request -> 'keys'), request -> 'keys' -> 9, request -> 'num_keys' FROM peekstash.peeks WHERE handle = h(44);
SELECT arrangement, num_rows, request FROM peekstash.peeks WHERE handle BETWEEN h(45) AND h(47) ORDER BY handle;

--
-- Damaged: never fewer rows.  A superuser changes what is stored.
--
CREATE FUNCTION damage(statement text, VARIADIC queries text[]) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	query text;
BEGIN
	FOREACH query IN ARRAY queries LOOP
		BEGIN
			EXECUTE statement;
			RETURN NEXT error(query);
			RAISE division_by_zero;
		EXCEPTION WHEN division_by_zero THEN
		END;
	END LOOP;
END $$;
CREATE FUNCTION damage(n int, statement text) RETURNS SETOF text LANGUAGE sql AS $$
	SELECT damage(format(statement, format('handle = %L', h(n))),
		format('SELECT * FROM peek_fetch(NULL::life_test.t, %L)', h(n)),
		format('SELECT * FROM peek_fetch(NULL::life_test.t, %L, 45, 1)', h(n)),
		format('SELECT * FROM peek_fetch(NULL::life_test.t, %L, 97)', h(n)));
$$;
-- rows 0 to 30, 31 to 61 and 62 to 92 in batches, 93 to 99 in the tail
SELECT submit(50, '{"stash_threshold": 1000, "stash_batch_size": 1000}');
SELECT first_row, num_rows FROM peek_batches(h(50));
-- a batch is gone; pages that do not touch it are whole
SELECT damage(50, 'DELETE FROM peekstash.batch WHERE %s AND first_row = 0');
SELECT damage(50, 'DELETE FROM peekstash.batch WHERE %s AND first_row = 31');
SELECT damage(50, 'DELETE FROM peekstash.batch WHERE %s AND first_row = 62');
SELECT damage(50, 'DELETE FROM peekstash.batch WHERE %s');
-- a batch is elsewhere, or another one
SELECT damage(50, 'UPDATE peekstash.batch SET first_row = 32 WHERE %s AND first_row = 31');
SELECT damage(50, 'UPDATE peekstash.batch SET worker = 1 WHERE %s AND first_row = 31');
SELECT damage(50, 'UPDATE peekstash.batch SET num_rows = 30 WHERE %s AND first_row = 31');
SELECT damage(50, 'UPDATE peekstash.batch SET num_rows = 32 WHERE %s AND first_row = 31');
SELECT damage(50, 'UPDATE peekstash.batch SET payload = '''' WHERE %s AND first_row = 31');
SELECT damage(50, 'UPDATE peekstash.batch SET payload = set_byte(payload, length(payload) - 1, 255 - get_byte(payload, length(payload) - 1)) WHERE %s AND first_row = 31');
SELECT damage(50, 'UPDATE peekstash.batch SET payload = substr(payload, 1, length(payload) - 1) WHERE %s AND first_row = 31');
SELECT damage(50, 'UPDATE peekstash.batch SET payload = payload || ''\x00'' WHERE %s AND first_row = 31');
SELECT submit(51, '{"stash_threshold": 1000, "stash_batch_size": 500}');
SELECT damage(50, format('UPDATE peekstash.batch SET payload = (SELECT payload FROM peekstash.batch WHERE handle = %L AND first_row = 0) WHERE %%s AND first_row = 31', h(51)));
-- the outcome says something else
SELECT damage(50, 'UPDATE peekstash.outcome SET num_rows = 99 WHERE %s');
SELECT damage(50, 'UPDATE peekstash.outcome SET num_rows = 101 WHERE %s');
SELECT damage(50, 'UPDATE peekstash.outcome SET share_rows = ''{92}'', num_rows = 99 WHERE %s');
SELECT damage(50, 'UPDATE peekstash.outcome SET share_rows = ''{94}'', num_rows = 101 WHERE %s');
SELECT damage(50, 'UPDATE peekstash.outcome SET share_rows = ''{}'' WHERE %s');
SELECT damage(50, 'UPDATE peekstash.outcome SET share_rows = ''{46,47}'' WHERE %s');
SELECT damage(50, 'UPDATE peekstash.outcome SET tail_rows = NULL WHERE %s');
SELECT damage(50, 'UPDATE peekstash.outcome SET tail_rows = NULL, tail_num_rows = 0 WHERE %s');
SELECT damage(50, 'UPDATE peekstash.outcome SET tail_num_rows = 6, num_rows = 99 WHERE %s');
SELECT damage(50, 'UPDATE peekstash.outcome SET tail_rows = set_byte(tail_rows, 20, 255 - get_byte(tail_rows, 20)) WHERE %s');
-- rows of the stash are gone
SELECT damage(50, 'DELETE FROM peekstash.outcome WHERE %s');
SELECT damage(50, 'DELETE FROM peekstash.handle WHERE %s');
-- a walk that failed or was cancelled, as an offloaded one may
SELECT damage(50, $$UPDATE peekstash.outcome SET state = 'failed', sqlstate = '22012', error = 'division by zero', detail = 'Told by %%s.' WHERE %s$$);
SELECT damage(50, $$UPDATE peekstash.outcome SET state = 'failed', sqlstate = NULL, error = NULL WHERE %s$$);
BEGIN;
UPDATE peekstash.outcome SET state = 'cancelled' WHERE handle = h(50);
SELECT peek_wait(h(50));
SELECT * FROM peek_fetch(NULL::t, h(50), 1000);
ROLLBACK;
-- answers from memory
SELECT submit(52);
SELECT damage(52, 'UPDATE peekstash.outcome SET tail_rows = NULL WHERE %s');
SELECT damage(52, 'UPDATE peekstash.outcome SET num_rows = 0 WHERE %s');
SELECT damage(52, 'UPDATE peekstash.outcome SET tail_num_rows = 99, num_rows = 99 WHERE %s');
-- the other functions that read rows
SELECT damage(format('DELETE FROM peekstash.batch WHERE handle = %L AND first_row = 31', h(50)),
	'SELECT * FROM peek_fetch_record(h(50)) AS r(id int, v text)', 'SELECT peek_fetch_json(h(50))', 'SELECT peek_fetch(NULL::t, h(50))',
	'SELECT * FROM peek_page(NULL::t, page_rows => 50, options => o(50))', 'SELECT peek_fetch(NULL::t, h(50)) LIMIT 31');
-- it was all undone
SELECT fetched(50), fetched(52);

--
-- Types that change after the submit: an error, never garbage
--
CREATE TYPE pair AS (x int, y text);
CREATE TYPE outer_pair AS (p pair, n int);
CREATE TYPE mood AS ENUM ('sad', 'glad');
CREATE DOMAIN short AS varchar(20);
CREATE TYPE span AS RANGE (subtype = float8);
CREATE TABLE typed (id int PRIMARY KEY, p pair, a pair[], o outer_pair, m mood, d short, r span);
INSERT INTO typed SELECT i, ROW(i, 'p' || i)::pair, ARRAY[ROW(i, 'a')::pair, NULL], ROW(ROW(i, 'o'), i)::outer_pair, 'glad', 'd', '[1,2)' FROM generate_series(1, 3) i;
SELECT peek_submit('typed', '{id,p}', options => o(60)) = h(60), peek_submit('typed', '{id,a}', options => o(61)) = h(61),
	peek_submit('typed', '{id,o}', options => o(62)) = h(62), peek_submit('typed', '{id,m,d,r}', options => o(63)) = h(63);
CREATE FUNCTION fetch_typed() RETURNS SETOF text LANGUAGE sql AS $$
	SELECT error('SELECT * FROM peek_fetch_record(h(60)) AS r(id int, p pair)')
	UNION ALL SELECT error('SELECT * FROM peek_fetch_record(h(61)) AS r(id int, a pair[])')
	UNION ALL SELECT error('SELECT * FROM peek_fetch_record(h(62)) AS r(id int, o outer_pair)')
	UNION ALL SELECT error('SELECT * FROM peek_fetch_record(h(63)) AS r(id int, m mood, d short, r span)')
$$;
SELECT fetch_typed();
SELECT * FROM peek_fetch_record(h(60)) AS r(id int, p pair);
SELECT * FROM peek_fetch_record(h(61)) AS r(id int, a pair[]);
SELECT * FROM peek_fetch_record(h(62)) AS r(id int, o outer_pair);
SELECT * FROM peek_fetch_record(h(63)) AS r(id int, m mood, d short, r span);
-- labels, checks and names do not decide how a value is read
BEGIN;
ALTER TYPE mood ADD VALUE 'bad' BEFORE 'sad';
ALTER TYPE mood RENAME VALUE 'glad' TO 'happy';
ALTER DOMAIN short ADD CHECK (VALUE <> 'x');
ALTER TYPE pair RENAME TO couple;
ALTER TYPE couple RENAME ATTRIBUTE x TO z;
SELECT * FROM peek_fetch_record(h(63)) AS r(id int, m mood, d short, r span) LIMIT 1;
SELECT id, (p).z FROM peek_fetch_record(h(60)) AS r(id int, p couple) LIMIT 1;
SELECT column_definitions FROM peek_status(h(60));
ROLLBACK;
-- attributes do
BEGIN;
ALTER TYPE pair ADD ATTRIBUTE z int;
SELECT fetch_typed();
SELECT error('SELECT peek_fetch_json(h(60))');
SELECT error('SELECT * FROM peek_columns(h(60))');
ROLLBACK;
BEGIN;
ALTER TYPE pair DROP ATTRIBUTE y;
SELECT fetch_typed();
ROLLBACK;
BEGIN;
ALTER TYPE pair DROP ATTRIBUTE y, ADD ATTRIBUTE y text;
SELECT fetch_typed();
ROLLBACK;
BEGIN;
ALTER TYPE outer_pair ADD ATTRIBUTE z int;
SELECT fetch_typed();
ROLLBACK;
-- dropped, with the table that used them
BEGIN;
DROP TABLE typed;
SELECT fetch_typed();
DROP TYPE mood;
DROP TYPE pair CASCADE;
SELECT error('SELECT * FROM peek_fetch_record(h(60)) AS r(id int, p text)');
SELECT error('SELECT peek_fetch_json(h(60))');
SELECT error('SELECT peek_fetch_json(h(61))');
SELECT error('SELECT peek_fetch_json(h(62))');
SELECT error('SELECT peek_fetch_json(h(63))');
SELECT error('SELECT * FROM peek_columns(h(60))');
SELECT error('SELECT * FROM peek_fetch_record(h(60)) AS r(id int)');
SELECT count(*) FROM peek_batches(h(60));
SELECT state FROM peekstash.peeks WHERE handle = h(60);
-- a new type of the name is another type
CREATE TYPE pair AS (x int, y text);
SELECT error('SELECT * FROM peek_fetch_record(h(60)) AS r(id int, p pair)');
SELECT peek_release(h(60));
ROLLBACK;
SELECT fetch_typed();
-- a table's row type is such a type, too
CREATE TABLE item (n int, v text);
CREATE TABLE holder (id int PRIMARY KEY, i item);
INSERT INTO holder VALUES (1, ROW(1, 'one'));
SELECT peek_submit('holder', options => o(64)) = h(64);
SELECT * FROM peek_fetch(NULL::holder, h(64));
BEGIN;
ALTER TABLE item ADD COLUMN w int;
SELECT error('SELECT * FROM peek_fetch(NULL::holder, h(64))');
ROLLBACK;
BEGIN;
ALTER TABLE item DROP COLUMN v;
SELECT error('SELECT * FROM peek_fetch(NULL::holder, h(64))');
ROLLBACK;

--
-- An answer is a copy: what happens to its table, its index or the right to
-- read them does not close it
--
CREATE TABLE brief (id int PRIMARY KEY, v text, w varchar(10));
INSERT INTO brief VALUES (1, 'one', 'a'), (2, repeat('two', 5000), 'b');
CREATE INDEX brief_v ON brief (w);
GRANT SELECT ON brief TO regress_peek_life;
SET ROLE regress_peek_life;
SELECT peek_submit('brief_v', options => o(70, '{"stash_threshold": 0}')) = h(70);
RESET ROLE;
REVOKE SELECT ON brief FROM regress_peek_life;
SET ROLE regress_peek_life;
SELECT id, length(v), w FROM peek_fetch(NULL::brief, h(70));
SELECT error($$SELECT peek_submit('brief_v', options => o(71))$$);
-- not even to repeat it: that is a request
SELECT left(error($$SELECT peek_submit('brief_v', options => o(70))$$), 5);
RESET ROLE;
ALTER TABLE brief ALTER w TYPE varchar(20);
ALTER TABLE brief DROP COLUMN v, ADD COLUMN v int DEFAULT 7;
SET ROLE regress_peek_life;
SELECT error('SELECT * FROM peek_fetch(NULL::brief, h(70))');
SELECT id, length(v), w FROM peek_fetch_record(h(70)) AS r(id int, v text, w varchar(10));
RESET ROLE;
DROP INDEX brief_v;
SET ROLE regress_peek_life;
SELECT id, length(v), w FROM peek_fetch_record(h(70)) AS r(id int, v text, w varchar);
RESET ROLE;
DROP TABLE brief;
SET ROLE regress_peek_life;
SELECT id, length(v), w FROM peek_fetch_record(h(70), 1) AS r(id int, v text, w varchar);
SELECT column_definitions, arrangement::text ~ '^[0-9]+$' AS arrangement_is_gone, request -> 'index' FROM peek_status(h(70));
RESET ROLE;

-- A submit is repeated after a column's type has changed: the old answer cannot
-- be read any more, so a new one takes its place
CREATE TYPE shape AS (x int);
CREATE TABLE shaped (id int PRIMARY KEY, s shape);
INSERT INTO shaped VALUES (1, ROW(1)), (2, ROW(2));
SELECT peek_submit('shaped', options => o(72)) = h(72);
ALTER TYPE shape ADD ATTRIBUTE y int;
SELECT error('SELECT * FROM peek_fetch(NULL::shaped, h(72))');
SELECT state, num_rows, column_definitions FROM peek_status(h(72));
SELECT peek_submit('shaped', options => o(72)) = h(72);
SELECT * FROM peek_fetch(NULL::shaped, h(72));
SELECT state, num_rows, column_definitions FROM peek_status(h(72));

-- Batches that do not add up are not listed as if they did
SELECT peek_submit('shaped', options => o(73, '{"stash_threshold": 0}')) = h(73);
SELECT count(*) FROM peek_batches(h(73));
DELETE FROM peekstash.batch WHERE handle = h(73);
SELECT error('SELECT * FROM peek_batches(h(73))');

-- Nothing of all this stays
SELECT count(*) FROM peekstash.handle WHERE NOT peek_release(handle);
SELECT left_of(0, 999);

SET client_min_messages = warning;
DROP SCHEMA life_test CASCADE;
DROP ROLE regress_peek_life;
