--
-- Limits: row_limit and row_offset, the cap on an answer's size, the limit on
-- positions.  Numbers of semantics are those of the list of behaviour.
--
\set ECHO none
\getenv srcdir PG_ABS_SRCDIR
\set helpers :srcdir '/helpers.sql'
\i :helpers
\set ECHO all
CREATE SCHEMA limits_test;
SET search_path = limits_test, test, public;

CREATE TABLE t (id int PRIMARY KEY, v int, s text);
INSERT INTO t SELECT i, i % 7, 'row ' || i FROM generate_series(1, 200) i;
CREATE INDEX t_v ON t (v, id);

-- What a peek adds to the counters that are told below
CREATE FUNCTION counted(query text, OUT num_rows bigint, OUT positions bigint, OUT rows bigint, OUT answer_bytes bigint,
		OUT walks bigint, OUT failed bigint, OUT error text) LANGUAGE plpgsql AS $$
DECLARE
	a record;
	b record;
BEGIN
	SELECT * INTO a FROM peekstash.stat;
	BEGIN
		EXECUTE format('SELECT count(*) FROM (%s) q', query) INTO num_rows;
	EXCEPTION WHEN OTHERS THEN
		error := SQLSTATE || ': ' || SQLERRM;
	END;
	SELECT * INTO b FROM peekstash.stat;
	positions := b.positions - a.positions;
	rows := b.rows - a.rows;
	answer_bytes := b.answer_bytes - a.answer_bytes;
	walks := b.walks_inline - a.walks_inline;
	failed := b.answers_failed - a.answers_failed;
END $$;

-- row_limit and row_offset: 0, 1, around the number of rows, the largest
-- bigint, NULL (semantics 6, 8; trap 7)
SELECT l, o, same('t', format('NULL, row_limit => %s, row_offset => %s', l, o), format('ORDER BY id LIMIT %s OFFSET %s', l, o)),
		same('t', format($$NULL, order_by => 'v DESC, id', row_limit => %s, row_offset => %s$$, l, o), format('ORDER BY v DESC, id LIMIT %s OFFSET %s', l, o))
	FROM unnest(ARRAY['NULL', '0', '1', '199', '200', '201', '9223372036854775807']) WITH ORDINALITY l(l, i),
		unnest(ARRAY['NULL', '0', '1', '199', '200', '201', '9223372036854775807']) WITH ORDINALITY o(o, j) ORDER BY i, j;
SELECT same('t', $$'t_v', keys => ARRAY[2, 5], row_limit => 30, row_offset => 10, backward => true$$,
	'WHERE v IN (2, 5) ORDER BY v DESC, id DESC LIMIT 30 OFFSET 10');
-- a negative count is an error, as in LIMIT and OFFSET
SELECT error('t', 'row_limit => -1');
SELECT error('t', 'row_offset => -1');
SELECT error('t', 'row_limit => -9223372036854775808');
SELECT error('t', 'row_limit => 0, row_offset => -1');

-- LIMIT 0 looks at nothing; LIMIT n ends with row limit + offset (semantics 6)
SELECT walk('t', 'NULL, row_limit => 0');
SELECT walk('t', 'NULL, row_limit => 0, row_offset => 5');
SELECT walk('t', $$NULL, row_limit => 0, order_by => 'v'$$);
SELECT walk('t', 'NULL, row_limit => 1');
SELECT walk('t', 'NULL, row_limit => 7, row_offset => 11');
SELECT walk('t', $$NULL, filter => 'v = 3', row_limit => 2, row_offset => 1$$);
-- with order_by every row has to be looked at
SELECT walk('t', $$NULL, order_by => 'v', row_limit => 1$$);

-- Slices of 1, 2, 7 and many positions: the same answer, the same positions,
-- the same bytes (semantics 1, 2, 3)
SELECT DISTINCT counted(format($$SELECT * FROM peek(NULL::t, 't_v', filter => 'id %% 3 = 0', options => '{"yield_granularity": %s, "stash_threshold": %s}')$$, y, th))
	FROM unnest(ARRAY[1, 2, 7, 1000, 1000000]) y, unnest(ARRAY[0, 100, 1000000]) th;
SELECT DISTINCT counted(format($$SELECT * FROM peek(NULL::t, 't_v', keys => ARRAY[1, 3, 99, 3, 5], options => '{"yield_granularity": %s}')$$, y))
	FROM unnest(ARRAY[1, 2, 7, 1000, 1000000]) y;

-- k keys do k seeks; absent ones are no positions, so they do not count for
-- the limit on positions (semantics 4); many absent keys answer nothing, and
-- not nothing when some are there (semantics 5)
SELECT counted($$SELECT * FROM peek(NULL::t, keys => ARRAY[7, 500, 9, 7, 0], options => '{"row_iteration_limit": 2}')$$);
SELECT counted($$SELECT * FROM peek(NULL::t, keys => ARRAY[7, 500, 9, 7, 0], options => '{"row_iteration_limit": 1}')$$);
SELECT counted(format($$SELECT * FROM peek(NULL::t, keys => (SELECT array_agg(i) FROM generate_series(1000, 10999) i), options => '{"yield_granularity": %s, "row_iteration_limit": 1}')$$, y))
	FROM unnest(ARRAY[1, 7, 1000000]) y;
SELECT counted(format($$SELECT * FROM peek(NULL::t, keys => (SELECT array_agg(i) FROM generate_series(190, 10189) i), options => '{"yield_granularity": %s, "row_iteration_limit": 11}')$$, y))
	FROM unnest(ARRAY[1, 7, 1000000]) y;

-- The limit on positions: L succeed, one more fails, however the walk is
-- sliced and wherever the answer is (semantics 26)
SELECT l, counted(format($$SELECT * FROM peek(NULL::t, filter => 'v = 3', options => '{"row_iteration_limit": %s, "yield_granularity": %s, "stash_threshold": %s}')$$, l, y, th))
	FROM unnest(ARRAY[199, 200, 201]) l, (VALUES (1, 0), (7, 100), (1000000, 1000000)) v(y, th);
-- positions, not rows: filtered ones count, too; 0 is no limit
SELECT counted($$SELECT * FROM peek(NULL::t, filter => 'false OR id < 0', options => '{"row_iteration_limit": 50}')$$);
SELECT counted($$SELECT * FROM peek(NULL::t, options => '{"row_iteration_limit": 0}')$$);
-- the row limit may be reached first
SELECT counted($$SELECT * FROM peek(NULL::t, row_limit => 5, options => '{"row_iteration_limit": 5}')$$);
SELECT counted($$SELECT * FROM peek(NULL::t, row_limit => 6, options => '{"row_iteration_limit": 5}')$$);
SELECT error('t', $$options => '{"row_iteration_limit": 100}'$$);

-- The ruler (semantics 19): packed data + 16 an entry, whatever the path.  A
-- row of two ints packs into 8 bytes: 24.  text of n < 127 bytes adds n + 1.
CREATE TABLE narrow (a int, b int);
INSERT INTO narrow SELECT i, i FROM generate_series(1, 10) i;
CREATE INDEX narrow_a ON narrow (a);
SELECT counted($$SELECT * FROM peek(NULL::narrow, 'narrow_a')$$);
SELECT counted($$SELECT * FROM peek(NULL::narrow, 'narrow_a', options => '{"stash_threshold": 0}')$$);
SELECT counted($$SELECT * FROM peek(NULL::narrow, 'narrow_a', order_by => 'b DESC')$$);
SELECT counted($$SELECT * FROM peek(NULL::narrow, 'narrow_a', order_by => 'b DESC', row_limit => 4)$$);
SELECT counted($$SELECT * FROM peek_record('narrow_a', '{b}') AS r(b int)$$);
SELECT counted($$SELECT * FROM peek_record('narrow_a', '{b,a,b}') AS r(b int, a int, c int)$$);
SELECT counted($$SELECT * FROM peek(NULL::t, key => 7)$$) AS "4 + 4 + 6 + 16";
-- NULLs are no data
CREATE TABLE empty (a int, b int);
INSERT INTO empty VALUES (NULL, NULL), (11, NULL);
CREATE INDEX empty_a ON empty (a);
SELECT counted($$SELECT * FROM peek(NULL::empty, 'empty_a')$$) AS "4 + 16 + 16";

-- Equal neighbours fold into one entry: they count once by size and each by
-- number (semantics 23)
CREATE TABLE copies (a int, b int);
INSERT INTO copies SELECT i / 10, 7 FROM generate_series(0, 99) i;
INSERT INTO copies SELECT 10, i % 2 FROM generate_series(0, 9) i;
CREATE INDEX copies_a ON copies (a);
SELECT counted(format($$SELECT * FROM peek(NULL::copies, 'copies_a', upper => 9, options => '{"yield_granularity": %s, "stash_threshold": %s}')$$, y, th)) AS "100 rows, 10 entries"
	FROM (VALUES (1, 0), (7, 100), (1000000, 1000000)) v(y, th);
SELECT counted($$SELECT * FROM peek(NULL::copies, 'copies_a', upper => 9, row_limit => 15, row_offset => 7)$$) AS "15 rows, 3 entries";
-- rows that are not neighbours do not
SELECT counted($$SELECT * FROM peek(NULL::copies, 'copies_a', key => 10)$$) AS "10 rows, 10 entries";
-- with order_by, rows are measured as they enter if all of them also leave
SELECT counted($$SELECT * FROM peek(NULL::copies, 'copies_a', key => 10, order_by => 'b')$$) AS "10 rows, 10 entries";
SELECT counted($$SELECT * FROM peek(NULL::copies, 'copies_a', key => 10, order_by => 'b', row_limit => 1000)$$) AS "10 rows, 2 entries";
SELECT counted($$SELECT * FROM peek(NULL::copies, 'copies_a', key => 10, order_by => 'b', row_limit => 3, row_offset => 3)$$) AS "3 rows, 2 entries";
-- copies come out as rows
SELECT same($$SELECT * FROM peek(NULL::copies, 'copies_a', row_limit => 33, row_offset => 8)$$, 'SELECT * FROM copies ORDER BY a, ctid LIMIT 33 OFFSET 8');
SELECT same($$SELECT * FROM peek(NULL::copies, 'copies_a', order_by => 'b, a', row_limit => 33, row_offset => 8)$$, 'SELECT * FROM copies ORDER BY b, a LIMIT 33 OFFSET 8');

-- The cap is exact to the byte (semantics 20, trap 7).  An answer of 1024
-- entries of 64 (4 + 44 bytes of text + 16) measures 64 kB, and passes; one
-- byte more fails.  Every path says the same, at the same position.
CREATE TABLE exact (id int PRIMARY KEY, s text);
ALTER TABLE exact ALTER s SET STORAGE PLAIN;
INSERT INTO exact SELECT i, repeat('x', 43) FROM generate_series(1, 1024) i;
CREATE TABLE beyond (id int PRIMARY KEY, s text);
ALTER TABLE beyond ALTER s SET STORAGE PLAIN;
INSERT INTO beyond SELECT i, repeat('x', CASE i WHEN 1000 THEN 44 ELSE 43 END) FROM generate_series(1, 1024) i;
CREATE FUNCTION cap(tab text, arguments text) RETURNS TABLE(result text, paths bigint) LANGUAGE sql AS $$
	SELECT counted(format('SELECT * FROM peek(NULL::limits_test.%s, %s, options => ''{"max_result_size": 64, "yield_granularity": %s, "stash_threshold": %s, "stash_batch_size": %s}'')',
			tab, arguments, y, th, b))::text, count(*)
		FROM unnest(ARRAY[1, 2, 7, 1000, 1000000]) y, (VALUES (0, 3000), (100, 1000), (65535, 65535), (65536, 65536), (1048576, 131072)) v(th, b)
		GROUP BY 1;
$$;
SELECT cap('exact', 'NULL');
SELECT cap('exact', 'NULL, backward => true');
SELECT cap('exact', $$NULL, order_by => 's, id'$$);
SELECT cap('exact', $$NULL, order_by => 's, id DESC', row_limit => 1024$$);
SELECT cap('exact', $$NULL, order_by => 's, id DESC', row_limit => 9223372036854775807, row_offset => 0$$);
SELECT cap('beyond', 'NULL');
SELECT cap('beyond', 'NULL, backward => true');
SELECT cap('beyond', $$NULL, order_by => 's, id'$$);
SELECT cap('beyond', $$NULL, order_by => 's, id DESC', row_limit => 1024$$);
-- one row less, and it fits
SELECT cap('beyond', 'NULL, row_limit => 1023');
SELECT cap('beyond', 'NULL, row_offset => 1');
SELECT cap('beyond', 'NULL, row_limit => 9223372036854775807, row_offset => 1');
SELECT cap('beyond', $$NULL, order_by => 's DESC', row_offset => 1$$);
SELECT cap('beyond', $$NULL, order_by => 's, id DESC', row_limit => 1023$$);
-- a copy more costs nothing; one kB less fails at the entry that is too much,
-- the 1009th, whose first copy is the 2017th position
CREATE TABLE doubled (id int, s text);
ALTER TABLE doubled ALTER s SET STORAGE PLAIN;
INSERT INTO doubled SELECT id, s FROM exact UNION ALL SELECT id, s FROM exact;
CREATE INDEX doubled_id ON doubled (id);
SELECT cap('doubled', $$'doubled_id'$$);
SELECT counted(format($$SELECT * FROM peek(NULL::doubled, 'doubled_id', options => '{"max_result_size": 63, "stash_threshold": %s}')$$, th))
	FROM unnest(ARRAY[0, 1000, 1000000]) th;

-- What the error says, with sizes as pg_size_pretty writes them
SELECT error('exact', $$options => '{"max_result_size": 1}'$$);
SELECT error('exact', $$options => '{"max_result_size": 63}'$$);
SELECT error('exact', $$options => '{"max_result_size": 0}'$$);
CREATE TABLE wide (id int PRIMARY KEY, s text);
ALTER TABLE wide ALTER s SET STORAGE EXTERNAL;
INSERT INTO wide SELECT i, repeat(i::text, 100000) FROM generate_series(1, 20) i;
SELECT error('wide', $$options => '{"max_result_size": "1MB"}'$$);
SELECT error('wide', $$options => '{"max_result_size": "20kB"}'$$);
-- nothing, and rows without data, in the smallest cap
SELECT error('exact', $$key => 0, options => '{"max_result_size": 0}'$$);
SELECT error('exact', $$row_limit => 0, options => '{"max_result_size": 0}'$$);

-- Skipped, dropped by thinning, past the limit: no size (semantics 7, 22),
-- even if one such row alone exceeds the cap
SELECT count(*) FROM peek(NULL::exact, row_limit => 1, options => '{"max_result_size": 1}');
SELECT count(*) FROM peek(NULL::exact, row_offset => 1020, options => '{"max_result_size": 1}');
SELECT id FROM peek(NULL::exact, order_by => 's, id DESC', row_limit => 2, options => '{"max_result_size": 1}');
SELECT id FROM peek(NULL::exact, order_by => 's, id', row_limit => 2, row_offset => 1000, options => '{"max_result_size": 1}');
INSERT INTO wide VALUES (0, 'short'), (21, 'short, too');
SELECT id, length(s) FROM peek(NULL::wide, row_limit => 1, options => '{"max_result_size": 1}');
SELECT id, length(s) FROM peek(NULL::wide, row_limit => 1, backward => true, options => '{"max_result_size": 1}');
SELECT id, length(s) FROM peek(NULL::wide, row_offset => 21, options => '{"max_result_size": 1}');
SELECT id, length(s) FROM peek(NULL::wide, order_by => 'length(s), id', row_limit => 2, options => '{"max_result_size": 1}');
SELECT id, length(s) FROM peek(NULL::wide, order_by => 'length(s) DESC, id', row_limit => 2, row_offset => 20, options => '{"max_result_size": 1}');
SELECT id, length(s) FROM peek(NULL::wide, order_by => 'length(s) DESC, id', row_offset => 20, options => '{"max_result_size": 1}');
SELECT error('wide', $$order_by => 'length(s), id', row_limit => 3, options => '{"max_result_size": 1}'$$);

-- The top N is exact, ties broken by the row, in the array, thinned, and in a
-- sort that has outgrown work_mem (semantics 7)
CREATE TABLE many (id int PRIMARY KEY, v int, pad text);
INSERT INTO many SELECT i, i * 7919 % 1000, repeat('p', 20) || i FROM generate_series(1, 10000) i;
SET work_mem = '64kB';
SELECT n, o, same('many', format($$NULL, order_by => 'v DESC, id', row_limit => %s, row_offset => %s$$, n, o), format('ORDER BY v DESC, id LIMIT %s OFFSET %s', n, o))
	FROM unnest(ARRAY[1, 100, 3000]) n, unnest(ARRAY[0, 5, 2000]) o;
SELECT same('many', $$NULL, order_by => 'v DESC, id'$$, 'ORDER BY v DESC, id');
-- ties among rows that differ: which of them are taken does not depend on the
-- size of work_mem, the direction of the walk or the slices
SELECT count(DISTINCT a), min(n) FROM (SELECT array_agg(m.id) a, count(*) n FROM (VALUES ('64kB', 1, false), ('64kB', 1000, true), ('4MB', 1, true), ('100MB', 7, false)) w(mem, y, b),
	LATERAL (SELECT set_config('work_mem', mem, false)) c,
	LATERAL (SELECT id FROM peek(NULL::many, order_by => 'v % 10', row_limit => 1500, row_offset => 100, backward => b AND c IS NOT NULL, options => jsonb_build_object('yield_granularity', y)) p) m
	GROUP BY mem, y, b) q;
RESET work_mem;

-- The threshold is compared strictly: an answer as large as it stays in
-- memory (semantics 13), one row wider than it does not (14), nor one that
-- fills a batch and completes the limit (15).  Temporary files tell.
CREATE FUNCTION spooled(arguments text) RETURNS bool LANGUAGE plpgsql AS $$
BEGIN
	-- a spool of more than work_mem needs a file, which is forbidden here
	SET LOCAL transaction_read_only = on;
	SET LOCAL temp_file_limit = 0;
	SET LOCAL work_mem = '64kB';
	EXECUTE format('SELECT peek(NULL::limits_test.wide, %s)', arguments);
	RETURN false;
EXCEPTION WHEN configuration_limit_exceeded THEN
	RETURN SQLERRM ~ 'temporary file';
END $$;
-- an int, 100000 bytes with a header of 4, and 16: 100024
SELECT th, spooled(format($$key => 5, options => '{"stash_threshold": %s}'$$, th)) FROM unnest(ARRAY[0, 100023, 100024, 100025]) th;
SELECT th, spooled(format($$lower => 5, row_limit => 2, options => '{"stash_threshold": %s}'$$, th)) FROM unnest(ARRAY[0, 200047, 200048]) th;
SELECT spooled($$key => 99, options => '{"stash_threshold": 0}'$$);

-- Rows without columns: 16 bytes for all of them, and each is a row
CREATE TYPE z AS ();
SELECT counted($$SELECT * FROM peek(NULL::z, 'narrow_a')$$);
SELECT counted($$SELECT * FROM peek(NULL::z, 'narrow_a', row_limit => 3, options => '{"stash_threshold": 0}')$$);
SELECT counted($$SELECT * FROM peek(NULL::z, 'narrow_a', order_by => 'b', row_limit => 3)$$);
SELECT peek(NULL::z, 'narrow_a', row_limit => 2);

-- A failed walk leaves nothing that disturbs the next one
DO $$
BEGIN
	FOR i IN 1 .. 200 LOOP
		BEGIN
			PERFORM FROM peek(NULL::exact, options => '{"max_result_size": 1, "stash_threshold": 100}');
		EXCEPTION WHEN configuration_limit_exceeded THEN NULL;
		END;
	END LOOP;
END $$;
SELECT counted($$SELECT * FROM peek(NULL::exact)$$);

SET client_min_messages = warning;
DROP SCHEMA limits_test CASCADE;
