--
-- Handles: what is submitted can be fetched, by row number, as often as one
-- likes, and is the answer of a query.
--
\set ECHO none
\getenv srcdir PG_ABS_SRCDIR
\set helpers :srcdir '/helpers.sql'
\i :helpers
\set ECHO all
CREATE SCHEMA handles_test;
SET search_path = handles_test, test, public;

-- Handles of our own, so that the output is the same each time
CREATE FUNCTION h(n int) RETURNS uuid LANGUAGE sql IMMUTABLE AS
	$$SELECT ('a0000000-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid$$;
CREATE FUNCTION o(n int, more jsonb DEFAULT '{}') RETURNS jsonb LANGUAGE sql IMMUTABLE AS
	$$SELECT jsonb_build_object('handle', h(n)) || more$$;

-- By the ruler 4 + 11 + 1 + 16 = 32 bytes a row
CREATE TABLE t (id int PRIMARY KEY, v text);
INSERT INTO t SELECT i, lpad(i::text, 11, '0') FROM generate_series(1, 100) i;
-- Equal neighbours, which are stored once: k comes k times, its rows in two
-- kinds that do not alternate
CREATE TABLE dup (k int, v text);
INSERT INTO dup SELECT k, CASE WHEN i <= k / 2 THEN 'a' ELSE 'b' END FROM generate_series(1, 20) k, generate_series(1, k) i;
CREATE INDEX dup_k ON dup (k);
-- Values out of line, compressed, empty, NULL
CREATE TABLE wide (id int PRIMARY KEY, a text, b bytea, c int[], d numeric);
ALTER TABLE wide ALTER a SET STORAGE EXTERNAL;
INSERT INTO wide SELECT i, CASE WHEN i % 5 > 0 THEN repeat(chr(64 + i), i * 400) END, CASE WHEN i % 3 > 0 THEN repeat('12', i * 2000)::bytea END,
	CASE WHEN i % 2 > 0 THEN ARRAY(SELECT generate_series(1, i)) END, CASE WHEN i % 7 > 0 THEN i / 7.0 END FROM generate_series(0, 20) i;
INSERT INTO wide VALUES (21, '', '', '{}', 'NaN');

-- The answer of peek_submit on the three paths against a query: as a whole,
-- each row alone, and in pages of 1 to 9 rows and of all of them
CREATE FUNCTION kept(tab text, arrangement text, arguments text, plain text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	path text[];
	u uuid;
	num_rows int;
	wanted bytea[];
	whole bytea[];
	found bytea[];
	bad text;
BEGIN
	EXECUTE format('SELECT coalesce(array_agg(record_send(q)), %L) FROM (%s) q', '{}', plain) INTO wanted;
	FOREACH path SLICE 1 IN ARRAY
		'{{memory, 512MB, 128kB, lz4}, {stashed, 0, 1, none}, {stashed, 200, 64, lz4}, {stashed, 100, 2000, none}}'::text[]
	LOOP
		EXECUTE format('SELECT peek_submit(%L, %s options => $1)', arrangement, CASE WHEN arguments <> '' THEN arguments || ',' ELSE '' END)
			INTO u USING jsonb_build_object('stash_threshold', path[2], 'stash_batch_size', path[3], 'stash_compression', path[4]);
		SELECT s.num_rows INTO num_rows FROM peek_status(u) s;
		EXECUTE format('SELECT coalesce(array_agg(record_send(q)), %L) FROM peek_fetch(NULL::%s, $1) q', '{}', tab) INTO whole USING u;
		bad := CASE WHEN whole <> wanted THEN ' DIFFERENT' WHEN num_rows <> cardinality(wanted) THEN ' miscounted' ELSE '' END;
		EXECUTE format('SELECT coalesce(array_agg(record_send(r) ORDER BY i), %L)
			FROM generate_series(0, $2 + 2) i, LATERAL peek_fetch(NULL::%s, $1, i, 1) r', '{}', tab) INTO found USING u, num_rows;
		bad := bad || CASE WHEN found <> wanted THEN ', rows alone DIFFERENT' ELSE '' END;
		FOR page IN 2 .. 10 LOOP
			EXECUTE format('SELECT coalesce(array_agg(record_send(r) ORDER BY i), %L)
				FROM generate_series(0, $2, $3) i, LATERAL peek_fetch(NULL::%s, $1, i, $3) r', '{}', tab)
				INTO found USING u, num_rows, CASE page WHEN 10 THEN num_rows + 1 ELSE page END;
			bad := bad || CASE WHEN found <> wanted THEN format(', pages of %s DIFFERENT', page) ELSE '' END;
		END LOOP;
		SELECT bad || CASE WHEN sum(b.num_rows) = s.num_rows AND sum(b.answer_bytes) = s.answer_bytes AND sum(b.stored_bytes) = s.stored_bytes
				AND count(b.batch) = s.batches AND (s.batches > 0) = (s.kind = 'stashed') THEN '' ELSE ', batches DO NOT ADD UP' END
			INTO bad FROM peek_batches(u) b, peek_status(u) s GROUP BY s.num_rows, s.answer_bytes, s.stored_bytes, s.batches, s.kind;
		RETURN NEXT format('%s: %s rows%s', (SELECT kind FROM peek_status(u)), cardinality(wanted), bad);
		PERFORM peek_release(u);
	END LOOP;
END $$;

SELECT kept('t', 't', '', 'SELECT * FROM t ORDER BY id');
SELECT kept('t', 't', 'lower => 31, upper => 60, backward => true', 'SELECT * FROM t WHERE id BETWEEN 31 AND 60 ORDER BY id DESC');
SELECT kept('t', 't', $$filter => 'id % $1 = 0', args => '{7}', row_offset => 2, row_limit => 5$$, 'SELECT * FROM t WHERE id % 7 = 0 ORDER BY id LIMIT 5 OFFSET 2');
SELECT kept('t', 't', $$order_by => 'id % 10, id DESC', row_limit => 33$$, 'SELECT * FROM t ORDER BY id % 10, id DESC LIMIT 33');
SELECT kept('t', 't', $$keys => '{5,1,5,77,1000}'::int[]$$, 'SELECT * FROM t WHERE id IN (1, 5, 77) ORDER BY id');
SELECT kept('t', 't', 'row_limit => 1', 'SELECT * FROM t WHERE id = 1');
-- no rows: nothing is stashed
SELECT kept('t', 't', 'key => 0', 'SELECT * FROM t WHERE false');
SELECT kept('t', 't', 'row_limit => 0', 'SELECT * FROM t WHERE false');
-- copies: 1 + 2 + ... + 20 rows
SELECT kept('dup', 'dup_k', '', 'SELECT * FROM dup ORDER BY k, v');
SELECT kept('dup', 'dup_k', 'lower => 10, row_offset => 3, row_limit => 71', 'SELECT * FROM dup WHERE k >= 10 ORDER BY k, v LIMIT 71 OFFSET 3');
SELECT kept('dup', 'dup_k', $$order_by => 'v DESC'$$, $$SELECT * FROM dup ORDER BY v DESC, k$$);
SELECT kept('wide', 'wide', '', 'SELECT * FROM wide ORDER BY id');

-- Pages: max_rows NULL is all, 0 none; beyond the end is empty; negative
-- numbers are errors, NULL is the default
SELECT peek_submit('t', options => o(1, '{"stash_threshold": 0, "stash_batch_size": 320}')) = h(1);
SELECT state, kind, num_rows, answer_bytes, batches, positions, driver, workers, phase, stash_reason, owner = current_user AS owner, charged_to = session_user AS charged_to,
	arrangement, request, pid = pg_backend_pid() AS pid, application_name = current_setting('application_name') AS application, client_addr IS NULL AS local, expires_at - finished_at AS ttl, sqlstate, error,
	column_definitions FROM peek_status(h(1));
SELECT * FROM peek_fetch(NULL::t, h(1), 0, 2);
SELECT * FROM peek_fetch(NULL::t, h(1), 50, 2);
SELECT * FROM peek_fetch(NULL::t, h(1), 98, 2);
SELECT * FROM peek_fetch(NULL::t, h(1), 99, 2);
SELECT * FROM peek_fetch(NULL::t, h(1), 100, 2);
SELECT * FROM peek_fetch(NULL::t, h(1), 9223372036854775807, 9223372036854775807);
SELECT count(*), min(id), max(id) FROM peek_fetch(NULL::t, h(1), 90, 9223372036854775807);
SELECT count(*) FROM peek_fetch(NULL::t, h(1), 0, 0);
SELECT count(*), min(id) FROM peek_fetch(NULL::t, h(1), 10, NULL);
SELECT count(*), min(id) FROM peek_fetch(NULL::t, h(1), NULL, 3);
SELECT error('SELECT * FROM peek_fetch(NULL::t, h(1), -1)');
SELECT error('SELECT * FROM peek_fetch(NULL::t, h(1), 0, -1)');
SELECT error('SELECT * FROM peek_fetch(NULL::t, h(1), 0, 1, -1)');
SELECT error('SELECT * FROM peek_fetch(NULL::t, NULL)');
SELECT error('SELECT peek_fetch_json(h(1), -1)');
SELECT error('SELECT peek_fetch_json(h(1), 0, -1)');

-- max_bytes cuts by the ruler, at least one row, with max_rows the smaller of
-- both; copies are as long as their row
SELECT b, (SELECT count(*) FROM peek_fetch(NULL::t, h(1), 5, NULL, b)) FROM unnest('{0,1,32,63,64,95,96,3200,NULL}'::bigint[]) b;
SELECT count(*) FROM peek_fetch(NULL::t, h(1), 5, 2, 96);
SELECT count(*) FROM peek_fetch(NULL::t, h(1), 5, 0, 96);
SELECT count(*) FROM peek_fetch(NULL::t, h(1), 100, NULL, 0);
SELECT peek_submit('dup_k', key => 20, options => o(2)) = h(2);
-- 4 + 2 + 16 = 22
SELECT num_rows, answer_bytes FROM peek_status(h(2));
SELECT b, (SELECT count(*) FROM peek_fetch(NULL::dup, h(2), 8, NULL, b)) FROM unnest('{0,22,65,66}'::bigint[]) b;

-- How it is stored: 10 rows of 32 bytes a batch; nothing is left for a tail,
-- which is a line all the same
SELECT batch, worker, first_row, num_rows, answer_bytes, stored_bytes > 0 AS stored FROM peek_batches(h(1));
SELECT peek_submit('t', options => o(3, '{"stash_threshold": 1000, "stash_batch_size": 1000}')) = h(3);
SELECT batch, worker, first_row, num_rows, answer_bytes, stored_bytes > 0 AS stored FROM peek_batches(h(3));
SELECT batch, worker, first_row, num_rows, answer_bytes, stored_bytes > 0 AS stored FROM peek_batches(h(2));
-- a tail that the reader shall not hold at once is a last batch
SELECT peek_submit('t', options => o(4, '{"read_batch_size": 3199}')) = h(4);
SELECT kind, stash_reason, batches FROM peek_status(h(4));
SELECT batch, worker, first_row, num_rows, answer_bytes, stored_bytes > 0 AS stored FROM peek_batches(h(4));
SELECT count(*), count(DISTINCT id) FROM peek_fetch(NULL::t, h(4));
SELECT peek_submit('t', options => o(5, '{"read_batch_size": 3200}')) = h(5);
SELECT kind, stash_reason, batches FROM peek_status(h(5));
-- the reader's own setting is the one of the session that reads
SET peekstash.read_batch_size = 1;
SELECT count(*), count(DISTINCT id) FROM peek_fetch(NULL::t, h(3));
SELECT count(*), count(DISTINCT id) FROM peek_fetch(NULL::t, h(5));
RESET peekstash.read_batch_size;

-- Row types: the table's, any composite with the same types in the same
-- places, whatever the names
CREATE TYPE same AS (a int, b text);
SELECT * FROM peek_fetch(NULL::same, h(1), 7, 1);
SELECT peek_fetch(NULL::same, h(1), 7, 2);
-- a projection is what was submitted so
SELECT peek_submit('t', '{v}', key => 8, options => o(6)) = h(6);
CREATE TYPE v AS (v text);
SELECT * FROM peek_fetch(NULL::v, h(6));
SELECT * FROM peek_fetch_record(h(6)) AS r(x text);
SELECT peek_submit('t', '{v,id,v}', key => 8, options => o(7)) = h(7);
SELECT * FROM peek_fetch_record(h(7)) AS r(x text, y int, z text);
-- no columns at all
SELECT peek_submit('t', '{}', row_limit => 3, options => o(8)) = h(8);
CREATE TYPE nothing AS ();
SELECT count(*) FROM peek_fetch(NULL::nothing, h(8));
SELECT peek_fetch_json(h(8), 1);
-- dropped attributes are NULL, and not counted
CREATE TABLE holes (x int, a int, y text, b text, z int);
ALTER TABLE holes DROP x, DROP y, DROP z;
SELECT *, r IS NULL FROM peek_fetch(NULL::holes, h(1), 7, 2) r;
SELECT * FROM peek_fetch_record(h(1), 7, 2) AS r(a int, b text);
-- also of the table that was read
CREATE TABLE gone (x int, id int PRIMARY KEY, y text, v text);
INSERT INTO gone SELECT i, i, i, 'v' || i FROM generate_series(1, 3) i;
ALTER TABLE gone DROP x, DROP y;
SELECT peek_submit('gone', options => o(9)) = h(9);
SELECT * FROM peek_fetch(NULL::gone, h(9));
SELECT column_definitions FROM peek_status(h(9));

-- Anything else: 42804 with the first difference
CREATE TYPE few AS (a int);
CREATE TYPE many AS (a int, b text, c int);
CREATE TYPE other AS (a bigint, b varchar);
CREATE TYPE swapped AS (b text, a int);
SELECT error('SELECT * FROM peek_fetch(NULL::few, h(1))');
SELECT error('SELECT * FROM peek_fetch(NULL::many, h(1))');
SELECT error('SELECT * FROM peek_fetch(NULL::other, h(1))');
SELECT error('SELECT * FROM peek_fetch(NULL::swapped, h(1))');
SELECT error('SELECT * FROM peek_fetch(NULL::nothing, h(1))');
SELECT error('SELECT * FROM peek_fetch_record(h(1)) AS r(a int, b varchar)');
SELECT error('SELECT * FROM peek_fetch_record(h(1)) AS r(a int)');
SELECT error('SELECT * FROM peek_fetch_record(h(1)) AS r(a int, b text, c text)');
-- before anything is read, also where nothing would be
SELECT error('SELECT * FROM peek_fetch(NULL::few, h(1), 1000)');
SELECT error('SELECT * FROM peek_fetch(NULL::few, h(1), 0, 0)');
SELECT error('SELECT peek_fetch(NULL::int, h(1))');
SELECT error('SELECT peek_fetch(NULL, h(1))');
SELECT error('SELECT peek_fetch(NULL::record, h(1))');
SELECT error('SELECT peek_fetch_record(h(1))');
SELECT error('SELECT * FROM peek_fetch_record(h(1))');
-- typmods: where the reader gives one
CREATE TABLE mods (id numeric(6,2) PRIMARY KEY, c char(3), w varchar(5), p timestamp(3));
INSERT INTO mods VALUES (1.5, 'a', 'b', '2001-02-03 04:05:06.789');
SELECT peek_submit('mods', options => o(10)) = h(10);
SELECT * FROM peek_columns(h(10));
SELECT * FROM peek_fetch(NULL::mods, h(10));
SELECT * FROM peek_fetch_record(h(10)) AS r(id numeric, c bpchar, w varchar, p timestamp);
SELECT * FROM peek_fetch_record(h(10)) AS r(id numeric(6,2), c char(3), w varchar, p timestamp(3));
SELECT error('SELECT * FROM peek_fetch_record(h(10)) AS r(id numeric(6,3), c bpchar, w varchar, p timestamp)');
SELECT error('SELECT * FROM peek_fetch_record(h(10)) AS r(id numeric, c char(4), w varchar, p timestamp)');
SELECT error('SELECT * FROM peek_fetch_record(h(10)) AS r(id numeric, c bpchar, w varchar(6), p timestamp)');
SELECT error('SELECT * FROM peek_fetch_record(h(10)) AS r(id numeric, c bpchar, w varchar, p timestamp(2))');
-- a stored typmod -1 is no other's
SELECT error('SELECT * FROM peek_fetch_record(h(1)) AS r(a int, b numeric(1,1))');

-- peek_columns, and its definitions as a column definition list
CREATE TABLE "Odd ""one" ("select" int PRIMARY KEY, "a b" text COLLATE "C", "x-y" numeric(5,1)[], i interval second(2), n name);
INSERT INTO "Odd ""one" VALUES (1, 'x', '{1.5,NULL}', '1.234', 'n');
SELECT peek_submit('"Odd ""one"', options => o(11)) = h(11);
SELECT * FROM peek_columns(h(11));
SELECT error('SELECT * FROM peek_columns(h(99))');
SELECT format('SELECT * FROM peek_fetch_record(h(11)) AS r(%s)', column_definitions) FROM peek_status(h(11)) \gexec

-- peek_fetch_json
SELECT peek_fetch_json(h(1), 0, 2);
SELECT peek_fetch_json(h(1), 97, 3);
SELECT peek_fetch_json(h(1), 97, 2);
SELECT peek_fetch_json(h(1), 98, 10);
SELECT peek_fetch_json(h(1), 100);
SELECT peek_fetch_json(h(1), 5, 0);
SELECT peek_fetch_json(h(1), 1000, 0);
SELECT j -> 'next', j -> 'from', jsonb_array_length(j -> 'rows') FROM peek_fetch_json(h(1)) j;
SELECT j -> 'next', jsonb_array_length(j -> 'rows') FROM peek_fetch_json(h(1), NULL, NULL) j;
SELECT peek_fetch_json(h(11));
-- a column that comes twice would be there once
SELECT error('SELECT peek_fetch_json(h(7))');
-- next is what leads from page to page
WITH RECURSIVE pages AS (
	SELECT peek_fetch_json(h(2), 0, 7) j
	UNION ALL SELECT peek_fetch_json(h(2), (j ->> 'next')::bigint, 7) FROM pages WHERE j ->> 'next' IS NOT NULL)
	SELECT j ->> 'from', jsonb_array_length(j -> 'rows'), j ->> 'next', j ->> 'total' FROM pages;

-- Values look as the settings of the session that reads say
CREATE TABLE looks (id int PRIMARY KEY, z timestamptz, i interval, f float8, b bytea);
INSERT INTO looks VALUES (1, '2001-02-03 04:05:06+00', '1 day 2:03', 1.0/3, '\xff00');
SET TimeZone = 'Asia/Tokyo'; SET DateStyle = 'SQL, DMY'; SET IntervalStyle = 'iso_8601'; SET extra_float_digits = -5; SET bytea_output = 'escape';
SELECT peek_submit('looks', options => o(12)) = h(12);
SELECT * FROM peek_fetch(NULL::looks, h(12));
RESET TimeZone; RESET DateStyle; RESET IntervalStyle; RESET extra_float_digits; RESET bytea_output;
SELECT * FROM peek_fetch(NULL::looks, h(12));
SELECT peek_fetch_json(h(12));

-- Where a fetch can stand
SELECT (peek_fetch(NULL::t, h(1), 10, 3)).*;
SELECT id, peek_fetch(NULL::v, h(6)) FROM generate_series(1, 2) id;
SELECT i, r.* FROM generate_series(98, 101) i, LATERAL peek_fetch(NULL::t, h(1), i, 1) r;
SELECT i, r.* FROM generate_series(98, 101) i LEFT JOIN LATERAL peek_fetch(NULL::t, h(1), i, 1) r ON true;
SELECT * FROM peek_fetch(NULL::t, h(1)) LIMIT 2 OFFSET 60;
SELECT peek_fetch(NULL::t, h(1)) LIMIT 2 OFFSET 60;
SELECT EXISTS (SELECT peek_fetch(NULL::t, h(1)));
SELECT count(*) FROM peek_fetch(NULL::t, h(1)) a JOIN peek_fetch(NULL::t, h(3)) b USING (id, v);
SELECT t.id FROM t WHERE id IN (SELECT id FROM peek_fetch(NULL::t, h(1), 20, 2)) ORDER BY 1;
SELECT * FROM peek_fetch(NULL::t, h(1), 3, 2) WITH ORDINALITY;
SELECT * FROM ROWS FROM (peek_fetch(NULL::t, h(1), 3, 2), peek_fetch_record(h(6)) AS (x text));
SELECT peek_fetch(NULL::same, h(1), 3, 2), generate_series(1, 3);
WITH c AS (SELECT * FROM peek_fetch(NULL::t, h(1), 10, 5)) SELECT count(*), sum(a.id) FROM c a, c b;
WITH c AS MATERIALIZED (SELECT peek_fetch(NULL::t, h(1), 10, 5) r) SELECT count(*), sum((a.r).id), sum((b.r).id) FROM c a, c b;
SELECT error('SELECT 1 FROM t WHERE peek_fetch(NULL::t, h(1)) IS NULL');
SELECT error('SELECT CASE WHEN true THEN peek_fetch(NULL::t, h(1)) END');
-- submitted and fetched in one statement
SELECT count(*) FROM (SELECT peek_fetch(NULL::t, peek_submit('t', options => o(13)))) q;
SELECT count(*) FROM peek_submit('t', options => o(14)) u, LATERAL peek_fetch(NULL::t, u) r;
-- cursors: in a select list, in FROM, scrolled, held over the commit
BEGIN;
DECLARE c1 CURSOR FOR SELECT peek_fetch(NULL::t, h(1));
DECLARE c2 SCROLL CURSOR FOR SELECT * FROM peek_fetch(NULL::t, h(1), 90);
DECLARE c3 CURSOR WITH HOLD FOR SELECT peek_fetch(NULL::t, h(1), 97);
FETCH 2 FROM c1;
FETCH LAST FROM c2;
FETCH BACKWARD 2 FROM c2;
MOVE 96 IN c1;
FETCH 5 FROM c1;
CLOSE c1;
COMMIT;
FETCH ALL FROM c3;
CLOSE c3;
-- prepared, with the handle as an untyped parameter
PREPARE f AS SELECT id FROM peek_fetch(NULL::t, $1, $2, $3);
EXECUTE f (h(1), 3, 2);
EXECUTE f (h(3), 3, 2);
EXECUTE f (h(1), 1000, 2);
-- an ALTER TABLE in between makes it another type
BEGIN;
ALTER TABLE t ADD COLUMN w int;
SELECT error('EXECUTE f (h(1), 3, 2)');
ALTER TABLE t DROP COLUMN w;
EXECUTE f (h(1), 3, 2);
ROLLBACK;
EXECUTE f (h(1), 3, 2);
DEALLOCATE f;
-- in views
CREATE VIEW w AS SELECT * FROM peek_fetch(NULL::t, h(1), 40, 2);
SELECT * FROM w;
CREATE VIEW wr AS SELECT * FROM peek_fetch_record(h(1), 40, 2) AS r(id int, v text);
SELECT * FROM wr;
-- in functions
CREATE FUNCTION page(uuid, bigint) RETURNS SETOF t LANGUAGE sql AS 'SELECT * FROM peek_fetch(NULL::t, $1, $2, 2)';
SELECT * FROM page(h(1), 60);
CREATE FUNCTION loop() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE r t; n bigint := 0;
BEGIN
	FOR r IN SELECT * FROM peek_fetch(NULL::t, h(1)) LOOP n := n + r.id; END LOOP;
	FOR r IN SELECT (peek_fetch(NULL::t, h(1), 0, 10)).* LOOP EXIT WHEN r.id > 3; n := n + r.id; END LOOP;
	RETURN n;
END $$;
SELECT loop();

-- READ ONLY reads, and refuses what writes (25006)
BEGIN READ ONLY;
SELECT count(*) FROM peek_fetch(NULL::t, h(1));
SELECT count(*) FROM peek_fetch_record(h(3)) AS r(id int, v text);
SELECT peek_fetch_json(h(1), 99) -> 'next';
SELECT count(*) FROM peek_columns(h(1));
SELECT count(*) FROM peek_batches(h(1));
SELECT state FROM peek_status(h(1));
SELECT count(*) > 10 FROM peekstash.peeks;
SELECT peek_wait(h(1));
SELECT peek_cancel(h(1));
SELECT error($$SELECT peek_submit('t')$$);
SELECT error($$SELECT peek_submit('t', key => 0)$$);
SELECT error('SELECT peek_release(h(1))');
SELECT error('SELECT peek_touch(h(1))');
SELECT error('SELECT peek_grant(h(1), current_user::regrole)');
SELECT error('SELECT peek_sweep()');
SELECT error($$SELECT peek_page(NULL::t, page_rows => 99)$$);
SELECT handle, num_rows, count(*) FROM peek_page(NULL::t, page_rows => 100) GROUP BY 1, 2;
SELECT pg_current_xact_id_if_assigned() IS NULL;
COMMIT;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT peek_submit('t', options => o(15)) = h(15);
SELECT count(*) FROM peek_fetch(NULL::t, h(15));
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT peek_submit('t', options => o(16, '{"stash_threshold": 0}')) = h(16);
SELECT count(*) FROM peek_fetch(NULL::t, h(16));
COMMIT;
SELECT count(*) FROM peek_fetch(NULL::t, h(16));

-- The answer stays what it was
BEGIN;
DELETE FROM t WHERE id % 2 = 0;
UPDATE t SET v = 'new';
SELECT count(*), max(v), count(DISTINCT v) FROM peek_fetch(NULL::t, h(1));
ROLLBACK;
-- and sees what its own transaction did
BEGIN;
DELETE FROM t WHERE id > 3;
SELECT peek_submit('t', options => o(17)) = h(17);
SELECT * FROM peek_fetch(NULL::t, h(17));
ROLLBACK;
SELECT error('SELECT * FROM peek_fetch(NULL::t, h(17))');

-- With enable_stash off a submitted answer is held, up to 1 MB: 52428 rows of
-- 20 bytes, and not one more; and it says which setting that is
CREATE TABLE many_rows (k int PRIMARY KEY);
INSERT INTO many_rows SELECT generate_series(1, 60000);
SET peekstash.enable_stash = off;
SELECT peek_submit('many_rows', row_limit => 52428, options => o(20)) = h(20);
SELECT kind, num_rows, answer_bytes, batches FROM peek_status(h(20));
SELECT count(*), count(DISTINCT r.k), max(r.k) FROM peek_fetch(NULL::many_rows, h(20)) r;
SELECT error('SELECT peek_submit(''many_rows'', row_limit => 52429, options => o(21))');
SELECT error('SELECT peek_submit(''many_rows'', options => o(21, ''{"stash_threshold": 0, "read_batch_size": 1}''))');
SELECT peek_submit('many_rows', row_limit => 10, options => o(21, '{"stash_threshold": 0, "read_batch_size": 1}')) = h(21);
SELECT kind, batches FROM peek_status(h(21));
SELECT count(*) FROM peek_fetch(NULL::many_rows, h(21), 5);
SELECT error('SELECT peek_page(NULL::many_rows, page_rows => 52429)');
SELECT handle IS NULL, num_rows, count(*) FROM peek_page(NULL::many_rows, row_limit => 52428, page_rows => 52428) GROUP BY 1, 2;
SELECT handle = h(22), num_rows, count(*) FROM peek_page(NULL::many_rows, row_limit => 52428, page_rows => 10, options => o(22)) GROUP BY 1, 2;
-- stored answers are read all the same
SELECT count(*) FROM peek_fetch(NULL::t, h(1));
RESET peekstash.enable_stash;
SELECT error('SELECT peek_submit(''many_rows'', row_limit => 52429, options => o(23, ''{"enable_stash": false}''))');
SELECT peek_submit('many_rows', row_limit => 52429, options => o(23)) = h(23);
SELECT kind, num_rows, answer_bytes FROM peek_status(h(23));
SELECT count(*), count(DISTINCT r.k), max(r.k) FROM peek_fetch(NULL::many_rows, h(23)) r;

-- Limits fail a submit as they fail a peek, and nothing of it stays
SELECT error('SELECT peek_submit(''many_rows'', options => o(24, ''{"row_iteration_limit": 1000, "stash_threshold": 100}''))');
SELECT error('SELECT peek_submit(''many_rows'', options => o(24, ''{"max_result_size": 64, "stash_threshold": 100}''))');
SELECT error('SELECT peek_submit(''many_rows'', filter => ''1 / (59999 - k) < 9'', options => o(24, ''{"stash_threshold": 100}''))');
SELECT error('SELECT * FROM peek_fetch(NULL::many_rows, h(24))');
SELECT count(*) FROM peekstash.batch WHERE handle = h(24);
SELECT error('SELECT peek_submit(NULL)');
SELECT error('SELECT peek_submit(''t'', options => ''{"background": "yes"}'')');
SELECT error('SELECT peek_submit(''t'', options => ''{"handle": "x"}'')');
SELECT error('SELECT peek_submit(''t'', options => ''{"handle": 1}'')');
SELECT error('SELECT peek_submit(''t'', options => ''{"label": 1}'')');
SELECT error('SELECT peek_submit(''t'', options => ''{"nonsense": 1}'')');
-- these options are for functions that submit
SELECT error('t', $$options => '{"label": "x"}'$$);
-- a handle made here is a version 7 uuid of now
SELECT substr(u::text, 15, 1), substr(u::text, 20, 1) ~ '[89ab]',
	abs(extract(epoch FROM clock_timestamp()) * 1000 - ('x' || substr(replace(u::text, '-', ''), 1, 12))::bit(48)::bigint) < 60000, peek_release(u)
	FROM peek_submit('t') u;

-- Savepoints: what is rolled back was never there; what is released is
BEGIN;
SELECT peek_submit('t', options => o(30)) = h(30);
SAVEPOINT a;
SELECT peek_submit('t', options => o(31, '{"stash_threshold": 0}')) = h(31);
SELECT count(*) FROM peek_fetch(NULL::t, h(31));
ROLLBACK TO a;
SELECT error('SELECT * FROM peek_fetch(NULL::t, h(31))');
SELECT error('SELECT state FROM peek_status(h(31))');
SELECT error('SELECT peek_wait(h(31))');
SELECT peek_release(h(31));
SELECT count(*) FROM peek_fetch(NULL::t, h(30));
SELECT peek_submit('t', key => 1, options => o(31)) = h(31);
RELEASE a;
SAVEPOINT b;
SELECT peek_submit('t', options => o(32, '{"stash_threshold": 100}')) = h(32);
RELEASE b;
SAVEPOINT c;
SELECT peek_release(h(30));
SELECT error('SELECT * FROM peek_fetch(NULL::t, h(30))');
SELECT error('SELECT peek_wait(h(30))');
SELECT peek_release(h(30));
ROLLBACK TO c;
COMMIT;
SELECT n, (SELECT count(*) FROM peek_fetch(NULL::t, h(n))) FROM unnest('{30,31,32}'::int[]) n;
-- a cursor on an answer that goes with a savepoint: what has been read already,
-- or an error, never an early end
BEGIN;
DECLARE c CURSOR FOR SELECT peek_fetch(NULL::t, h(33));
SAVEPOINT a;
SELECT peek_submit('t', options => o(33, '{"stash_threshold": 0, "stash_batch_size": 100}')) = h(33);
SAVEPOINT b;
FETCH 2 FROM c;
ROLLBACK TO b;
FETCH 1 FROM c;
ROLLBACK TO a;
SELECT error('FETCH 100 FROM c');
ROLLBACK;
SET peekstash.read_batch_size = 1;
BEGIN;
DECLARE c CURSOR FOR SELECT peek_fetch(NULL::t, h(33));
SAVEPOINT a;
SELECT peek_submit('t', options => o(33, '{"stash_threshold": 0, "stash_batch_size": 100}')) = h(33);
FETCH 2 FROM c;
ROLLBACK TO a;
SELECT error('FETCH 100 FROM c');
ROLLBACK;
BEGIN;
SELECT peek_submit('t', options => o(33, '{"stash_threshold": 0, "stash_batch_size": 100}')) = h(33);
DECLARE c CURSOR FOR SELECT peek_fetch(NULL::t, h(33));
FETCH 2 FROM c;
SAVEPOINT a;
FETCH 1 FROM c;
ROLLBACK TO a;
CLOSE ALL;
SELECT count(*) FROM peek_fetch(NULL::t, h(33));
COMMIT;
RESET peekstash.read_batch_size;
-- PL/pgSQL: a block that fails takes its answers with it
CREATE FUNCTION tried(fail bool) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	BEGIN
		PERFORM peek_submit('t', options => o(34, '{"stash_threshold": 0}'));
		IF (SELECT count(*) FROM peek_fetch(NULL::t, h(34))) <> 100 THEN RETURN 'WRONG'; END IF;
		IF fail THEN RAISE division_by_zero; END IF;
	EXCEPTION WHEN division_by_zero THEN
	END;
	RETURN error('SELECT * FROM peek_fetch(NULL::t, h(34))');
END $$;
SELECT tried(true);
SELECT tried(false);
-- in which a limit can fail many times
DO $$
BEGIN
	FOR i IN 1 .. 200 LOOP
		BEGIN
			PERFORM peek_submit('many_rows', options => o(35, '{"max_result_size": 1, "stash_threshold": 100}'));
		EXCEPTION WHEN configuration_limit_exceeded THEN NULL;
		END;
	END LOOP;
END $$;
SELECT error('SELECT * FROM peek_fetch(NULL::t, h(35))');
SELECT slots_in_use FROM peekstash.stat;
-- a prepared transaction cannot hold them: their quota is a session's
BEGIN;
SELECT peek_submit('t', options => o(36, '{"stash_threshold": 0}')) = h(36);
PREPARE TRANSACTION 'regress_peek_handles';
SELECT error('SELECT * FROM peek_fetch(NULL::t, h(36))');
BEGIN;
SELECT peek_release(h(1));
PREPARE TRANSACTION 'regress_peek_handles';
SELECT count(*) FROM peek_fetch(NULL::t, h(1));
SELECT count(*) FROM pg_prepared_xacts;
SELECT stash_bytes = (SELECT sum(stored_bytes) FROM peekstash.outcome) FROM peekstash.stat;

-- Small pages are everything, and keep nothing
SELECT count(*) AS kept FROM peekstash.handle \gset
SELECT * FROM peek_page(NULL::t, lower => 98);
SELECT handle, num_rows, count(*), min(pos), max(pos) FROM peek_page(NULL::t, page_rows => 100) GROUP BY 1, 2;
SELECT * FROM peek_page(NULL::t, key => 0);
SELECT * FROM peek_page(NULL::t, row_limit => 1, page_rows => 1, options => o(40));
SELECT (r).id, (r).v FROM peek_page(NULL::t, key => 5, page_rows => NULL);
SELECT count(*) - :kept FROM peekstash.handle;
-- the page_rows'th row and one more: kept
SELECT handle = h(41), num_rows, pos, r FROM peek_page(NULL::t, lower => 98, page_rows => 2, options => o(41));
SELECT kind, num_rows, batches FROM peek_status(h(41));
SELECT * FROM peek_fetch(NULL::t, h(41), 2);
SELECT handle = h(42), num_rows, count(*), min(pos), max(pos) FROM peek_page(NULL::t, page_rows => 99, options => o(42, '{"stash_threshold": 320}')) GROUP BY 1, 2;
SELECT kind, num_rows FROM peek_status(h(42));
SELECT count(*) FROM peek_fetch(NULL::t, h(42));
-- stashed before it turned out to be one page: kept, too
SELECT handle = h(43), num_rows, count(*) FROM peek_page(NULL::t, page_rows => 100, options => o(43, '{"stash_threshold": 320}')) GROUP BY 1, 2;
-- a page of copies
SELECT handle = h(44), num_rows, pos, r FROM peek_page(NULL::dup, 'dup_k', key => 20, page_rows => 3, options => o(44));
SELECT handle, num_rows, count(*) FROM peek_page(NULL::dup, 'dup_k', key => 20, page_rows => 20) GROUP BY 1, 2;
-- a projection; a select list; a cursor that does not read to the end
SELECT handle = h(45), num_rows, pos, (r).v FROM peek_page(NULL::v, 't', page_rows => 1, options => o(45));
SELECT peek_page(NULL::v, 't', page_rows => 1, key => 3);
SELECT (peek_page(NULL::t, options => o(46), page_rows => 50)).pos LIMIT 2;
SELECT count(*) FROM peek_fetch(NULL::t, h(46));
-- the same handle again: the same page, nothing is walked; another page of it
SELECT walk($$SELECT * FROM peek_page(NULL::t, lower => 98, page_rows => 2, options => o(41))$$);
SELECT handle = h(41), num_rows, pos, r FROM peek_page(NULL::t, lower => 98, page_rows => 3, options => o(41));
SELECT handle = h(41), num_rows, count(*) FROM peek_page(NULL::t, lower => 98, options => o(41)) GROUP BY 1, 2;
SELECT peek_submit('t', lower => 98, options => o(41)) = h(41);
SELECT error('SELECT * FROM peek_page(NULL::t, lower => 97, options => o(41))');
SELECT error('SELECT * FROM peek_page(NULL::v, ''t'', lower => 98, options => o(41))');
-- no page of no rows
SELECT error('SELECT * FROM peek_page(NULL::t, page_rows => 0)');
SELECT error('SELECT * FROM peek_page(NULL::t, page_rows => -1)');
SELECT error('SELECT * FROM peek_page(NULL::few, ''t'')');
SELECT error('SELECT * FROM peek_page(NULL::swapped, ''t'')');
SELECT error('SELECT * FROM peek_page(NULL::t, options => ''{"background": true}'')');

-- A handle that is released and used again under a cursor is the end of what
-- the cursor reads: the rows of the other answer are never read as its rows
CREATE TABLE wide_bytes (v bytea PRIMARY KEY);
CREATE TABLE big_numbers (v bigint PRIMARY KEY);
INSERT INTO wide_bytes SELECT int8send(i) FROM generate_series(1, 100) i;
INSERT INTO big_numbers SELECT (i::bigint << 32) | (40000 << 2) FROM generate_series(1, 100) i;
SET peekstash.read_batch_size = 1;
BEGIN;
SELECT peek_submit('wide_bytes', options => o(47, '{"stash_threshold": 0, "stash_batch_size": 1}')) = h(47);
DECLARE reader CURSOR FOR SELECT (peek_fetch(NULL::wide_bytes, h(47))).v;
FETCH 2 FROM reader;
SELECT peek_release(h(47));
SELECT peek_submit('big_numbers', options => o(47, '{"stash_threshold": 0, "stash_batch_size": 1}')) = h(47);
SELECT error('FETCH 1 FROM reader');
ROLLBACK;
-- also where the columns are the same
BEGIN;
SELECT peek_submit('big_numbers', options => o(47, '{"stash_threshold": 0, "stash_batch_size": 1}')) = h(47);
DECLARE reader CURSOR FOR SELECT (peek_fetch(NULL::big_numbers, h(47))).v;
FETCH 1 FROM reader;
SELECT peek_release(h(47));
SELECT peek_submit('big_numbers', backward => true, options => o(47, '{"stash_threshold": 0, "stash_batch_size": 1}')) = h(47);
SELECT error('FETCH 1 FROM reader');
ROLLBACK;
RESET peekstash.read_batch_size;

-- Nothing is left of what was released
SELECT count(*) > 30 FROM peekstash.handle WHERE handle::text LIKE 'a0000000-0000-4000-8000-%';
SELECT count(*) FROM peekstash.handle WHERE NOT peek_release(handle);
SELECT (SELECT count(*) FROM peekstash.handle), (SELECT count(*) FROM peekstash.outcome), (SELECT count(*) FROM peekstash.batch);

SET client_min_messages = warning;
DROP SCHEMA handles_test CASCADE;
