--
-- The stash: when an answer leaves memory, what it is measured by, what is
-- left of it when its reading, its savepoint or its transaction ends.
--
\set ECHO none
\getenv srcdir PG_ABS_SRCDIR
\set helpers :srcdir '/helpers.sql'
\i :helpers
\set ECHO all
CREATE SCHEMA stash_test;
GRANT USAGE ON SCHEMA stash_test TO PUBLIC;
SET search_path = stash_test, test, public;

-- By the ruler: 4 bytes of data and 16 for the entry, so 20 a row
CREATE TABLE narrow (k int PRIMARY KEY);
INSERT INTO narrow SELECT generate_series(1, 1000);

-- 16 bytes of data, 32 a row; padded apart, to be told apart
CREATE TABLE even (k int PRIMARY KEY, v text);
INSERT INTO even SELECT i, lpad(i::text, 11, '0') FROM generate_series(1, 500) i;

-- What a query did: its rows, where its answer was, and what that took.
-- "now" is what lies in the stash at its end.
CREATE FUNCTION did(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	a peekstash.stat;
	b peekstash.stat;
	num_rows bigint;
	said text;
BEGIN
	SELECT * INTO a FROM peekstash.stat;
	BEGIN
		EXECUTE format('SELECT count(*) FROM (%s) q', query) INTO num_rows;
		said := format('%s rows', num_rows);
	EXCEPTION WHEN OTHERS THEN
		said := format('%s %s', SQLSTATE, SQLERRM);
	END;
	SELECT * INTO b FROM peekstash.stat;
	RETURN format('%s: %s%s%s, %s bytes, %s positions, %s batches, %s now',
		said,
		repeat('memory', (b.answers_memory - a.answers_memory)::int),
		repeat('stashed', (b.answers_stashed - a.answers_stashed)::int),
		repeat('failed', (b.answers_failed - a.answers_failed)::int),
		b.answer_bytes - a.answer_bytes, b.positions - a.positions,
		b.batches_written - a.batches_written,
		(SELECT count(*) FROM peekstash.batch));
END $$;

CREATE FUNCTION did(tab text, arguments text, options jsonb) RETURNS text
LANGUAGE sql AS $$
	SELECT did(format('SELECT * FROM peek(NULL::%s, %s options => %L)', tab,
		CASE WHEN arguments <> '' THEN arguments || ',' ELSE '' END, options));
$$;

-- The same on the three paths: held, stashed from the first row on, and left
-- memory in mid-answer.
CREATE FUNCTION paths(tab text, arguments text, more jsonb DEFAULT '{}') RETURNS SETOF text
LANGUAGE sql AS $$
	SELECT did(tab, arguments, options || more)
	FROM (VALUES (1, '{"stash_threshold": "512MB"}'::jsonb),
				 (2, '{"stash_threshold": 0, "stash_batch_size": 1}'),
				 (3, '{"stash_threshold": 250, "stash_batch_size": 100}')) p(i, options)
	ORDER BY i;
$$;

-- The batches there are, without their handles
CREATE FUNCTION batches() RETURNS SETOF text LANGUAGE sql AS $$
	SELECT format('rows %s to %s, %s bytes', first_row, first_row + num_rows - 1, answer_bytes)
	FROM peekstash.batch ORDER BY handle, worker, first_row;
$$;

--
-- Nothing is created while the threshold is not crossed (semantics 17).  This
-- comes first: the session has not written to the stash yet.
--
SELECT pg_table_size('peekstash.batch') AS size_before \gset
BEGIN;
SELECT count(*) FROM peek(NULL::narrow);
SELECT count(*) FROM (SELECT peek(NULL::narrow, options => '{"stash_threshold": 20000}')) q;
SELECT pg_current_xact_id_if_assigned() IS NULL AS no_transaction_id;
SELECT count(*) FROM peekstash.batch;
SELECT n_tup_ins FROM pg_stat_xact_user_tables WHERE relid = 'peekstash.batch'::regclass;
SELECT count(*) FROM pg_backend_memory_contexts WHERE ident LIKE '%INTO peekstash.batch%';
SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND relation = 'peekstash.batch'::regclass AND mode <> 'AccessShareLock';
COMMIT;
SELECT pg_table_size('peekstash.batch') <= :size_before AS its_file_has_not_grown;

-- And the same looks see something when it is
BEGIN;
SELECT count(*) FROM (SELECT peek(NULL::narrow, options => '{"stash_threshold": 19999}')) q;
SELECT pg_current_xact_id_if_assigned() IS NULL AS no_transaction_id;
SELECT count(*) FROM peekstash.batch;
SELECT n_tup_ins, n_tup_del FROM pg_stat_xact_user_tables WHERE relid = 'peekstash.batch'::regclass;
SELECT count(*) > 0 FROM pg_backend_memory_contexts WHERE ident LIKE '%INTO peekstash.batch%';
COMMIT;

--
-- The threshold (semantics 13 to 15)
--
-- Equal stays in memory: 5 rows are 100 bytes
SELECT did('narrow', 'row_limit => 5', '{"stash_threshold": 100}');
SELECT did('narrow', 'row_limit => 5', '{"stash_threshold": 99}');
-- A row that fills a batch and completes the limit goes to the stash
SELECT did('narrow', 'row_limit => 6', '{"stash_threshold": 100}');
SELECT did('narrow', 'lower => 995', '{"stash_threshold": 120}');
SELECT did('narrow', 'lower => 995', '{"stash_threshold": 119}');
-- 0 stashes every answer that is not empty
SELECT did('narrow', 'row_limit => 1', '{"stash_threshold": 0}');
SELECT did('narrow', 'key => 0', '{"stash_threshold": 0}');
SELECT did('narrow', 'row_limit => 0', '{"stash_threshold": 0}');
SELECT did('narrow', 'row_offset => 1000', '{"stash_threshold": 0}');
SELECT did('narrow', 'filter => $f$k < 0$f$', '{"stash_threshold": 0}');
SELECT did('narrow', 'order_by => $f$-k$f$, filter => $f$k < 0$f$', '{"stash_threshold": 0}');
-- One row wider than the threshold reaches the stash
CREATE TABLE wide (k int PRIMARY KEY, v text);
INSERT INTO wide VALUES (1, repeat('w', 1000));
SELECT did('wide', '', '{"stash_threshold": 500}');
SELECT did('wide', '', '{"stash_threshold": "512MB"}');
-- The default is 1 MB
SELECT did('SELECT * FROM peek(NULL::narrow)');

--
-- Batches (semantics 16, 19, 36, 49).  Of 20 rows of 20 bytes the first six
-- exceed 100; the five closed ones are cut up by 60.  Then every fourth
-- exceeds 60, and three are a batch.  Rows 17 to 19 are the tail.
--
BEGIN;
DECLARE c CURSOR FOR SELECT peek(NULL::narrow, row_limit => 20,
	options => '{"stash_threshold": 100, "stash_batch_size": 60}');
FETCH 1 FROM c;
SELECT * FROM batches();
SELECT count(DISTINCT handle) AS handles, bool_and(substr(handle::text, 15, 1) = '7') AS version_7,
	min(worker), max(worker) FROM peekstash.batch;
MOVE FORWARD ALL FROM c;
SELECT * FROM batches();
COMMIT;

-- A tail larger than the threshold, or than the reader holds, is a last batch
BEGIN;
DECLARE c CURSOR FOR SELECT peek(NULL::narrow, row_limit => 8,
	options => '{"stash_threshold": 0, "stash_batch_size": 1000}');
DECLARE d CURSOR FOR SELECT peek(NULL::narrow, row_limit => 20,
	options => '{"stash_threshold": 100, "stash_batch_size": 60, "read_batch_size": 59}');
FETCH 1 FROM c;
SELECT * FROM batches();
MOVE FORWARD ALL FROM c;
FETCH 1 FROM d;
SELECT * FROM batches();
-- Two answers at once have two handles
DECLARE e CURSOR FOR SELECT peek(NULL::narrow, row_limit => 1, options => '{"stash_threshold": 0}');
FETCH 1 FROM e;
SELECT count(DISTINCT handle) FROM peekstash.batch;
COMMIT;
SELECT count(*) FROM peekstash.batch;

-- Rows larger than a batch are a batch each; a batch is larger than its size
-- only by a single row
BEGIN;
INSERT INTO wide SELECT i, repeat('w', 500 + i) FROM generate_series(2, 5) i;
DECLARE c CURSOR FOR SELECT peek(NULL::wide, options => '{"stash_threshold": 0, "stash_batch_size": 600}');
FETCH 1 FROM c \g /dev/null
SELECT * FROM batches();
ROLLBACK;

--
-- One ruler on every path, and as many positions (semantics 1, 19, 43)
--
SELECT * FROM paths('narrow', '');
SELECT * FROM paths('even', 'backward => true, row_offset => 3');
SELECT * FROM paths('even', 'filter => $f$k % 7 = 0$f$');
SELECT * FROM paths('even', 'row_limit => 101, row_offset => 99');
SELECT * FROM paths('even', 'order_by => $f$k % 10$f$');
SELECT * FROM paths('even', 'order_by => $f$k % 10$f$, row_limit => 50, row_offset => 50');
SELECT * FROM paths('even', 'keys => ARRAY[5, 3, 3, 0, 500, 501]', '{"yield_granularity": 1}');

-- Where the batches are cut does not change the size
SELECT did('even', '', jsonb_build_object('stash_threshold', t, 'stash_batch_size', b))
FROM unnest('{0, 31, 32, 33, 15999}'::int[]) t, unnest('{1, 32, 100, 10000}'::int[]) b
ORDER BY t, b;

--
-- The cap is exact, and at the same row on every path (semantics 20, 22, 25)
--
-- 32 rows are 1024 bytes, and pass
SELECT * FROM paths('even', 'row_limit => 32', '{"max_result_size": 1}');
SELECT * FROM paths('even', 'row_limit => 33', '{"max_result_size": 1}');
SELECT * FROM paths('even', '', '{"max_result_size": 1}');
-- One byte more in the last of them
CREATE TABLE uneven (LIKE even INCLUDING INDEXES);
INSERT INTO uneven SELECT k, CASE WHEN k = 32 THEN v || 'x' ELSE v END FROM even;
SELECT * FROM paths('uneven', 'row_limit => 32', '{"max_result_size": 1}');
SELECT * FROM paths('uneven', 'row_limit => 32, order_by => $f$-k$f$, upper => 32', '{"max_result_size": 1}');
-- Skipped rows, and those past the limit, are no size
SELECT * FROM paths('even', 'row_limit => 32, row_offset => 400', '{"max_result_size": 1}');
SELECT * FROM paths('even', 'row_limit => 1', '{"max_result_size": 1}');
-- Those that a sort drops neither; without a limit rows count as they enter
SELECT * FROM paths('even', 'row_limit => 32, order_by => $f$-k$f$', '{"max_result_size": 1}');
SELECT * FROM paths('even', 'row_limit => 33, order_by => $f$-k$f$', '{"max_result_size": 1}');
SELECT * FROM paths('even', 'order_by => $f$-k$f$', '{"max_result_size": 1}');
-- A cap of 0 passes nothing but nothing
SELECT * FROM paths('even', 'row_limit => 1', '{"max_result_size": 0}');
SELECT * FROM paths('even', 'key => 0', '{"max_result_size": 0}');

--
-- Errors keep their SQLSTATE on every path, and nothing of what was stashed
-- before them stays (semantics 11, 12, 25, 26)
--
SELECT * FROM paths('even', 'filter => $f$1 / (k - 300) < 2$f$');
SELECT * FROM paths('even', 'filter => $f$1 / (k - 300) < 2$f$, order_by => $f$v$f$');
SELECT * FROM paths('even', '', '{"row_iteration_limit": 500}');
SELECT * FROM paths('even', '', '{"row_iteration_limit": 499}');

--
-- Copies (semantics 23, 43): once by size, n times by row, limit and offset
--
CREATE TABLE copies (k int);
CREATE INDEX copies_k ON copies (k);
INSERT INTO copies SELECT i / 100 FROM generate_series(100, 999) i;
SELECT * FROM paths('copies', $$'copies_k'$$);
SELECT * FROM paths('copies', $$'copies_k', row_offset => 50, row_limit => 651$$);
SELECT * FROM paths('copies', $$'copies_k', order_by => 'k DESC', row_offset => 50, row_limit => 651$$);
SELECT same('copies', $$'copies_k', row_offset => 50, row_limit => 651$$, 'ORDER BY k OFFSET 50 LIMIT 651');
SELECT same('copies', $$'copies_k', order_by => 'k DESC', row_offset => 50$$, 'ORDER BY k DESC OFFSET 50');
BEGIN;
DECLARE c CURSOR FOR SELECT peek(NULL::copies, 'copies_k', options => '{"stash_threshold": 40, "stash_batch_size": 40}');
FETCH 1 FROM c;
SELECT * FROM batches();
COMMIT;

--
-- Shapes of rows (semantics 42)
--
-- No columns: by a type without attributes, and by a table without any
CREATE TYPE nothing AS ();
SELECT same($$SELECT * FROM peek(NULL::nothing, 'copies_k')$$, 'SELECT FROM copies');
SELECT did('nothing', $$'copies_k'$$, '{"stash_threshold": 0}');
SELECT did('nothing', $$'copies_k'$$, '{"stash_threshold": 16}');
SELECT did('nothing', $$'copies_k'$$, '{"stash_threshold": 15}');
SELECT count(*), min(p::text), max(p::text) FROM (SELECT peek(NULL::nothing, 'copies_k', options => '{"stash_threshold": 0}')) q(p);
CREATE TABLE bare ();
CREATE INDEX bare_expr ON bare ((1));
INSERT INTO bare DEFAULT VALUES;
INSERT INTO bare DEFAULT VALUES;
SELECT same($$SELECT * FROM peek(NULL::bare, 'bare_expr')$$, 'SELECT FROM bare');

-- NULLs in every place
CREATE TABLE nulls (a int, b text, c bigint, d bool, e numeric);
CREATE INDEX nulls_a ON nulls (a, b);
INSERT INTO nulls SELECT nullif(i % 4, 0), CASE WHEN i % 3 > 0 THEN 'b' || i END,
	CASE WHEN i % 5 > 0 THEN i END, CASE WHEN i % 7 > 0 THEN i % 2 = 0 END, NULL
	FROM generate_series(1, 200) i;
INSERT INTO nulls SELECT FROM generate_series(1, 50);
SELECT same($$SELECT * FROM peek(NULL::nulls, 'nulls_a', order_by => 'a, b, c, d')$$, 'SELECT * FROM nulls ORDER BY a, b, c, d');
SELECT same($$SELECT count(*), count(a), count(b), count(c), count(d), count(e) FROM peek(NULL::nulls, 'nulls_a')$$,
	'SELECT count(*), count(a), count(b), count(c), count(d), count(e) FROM nulls');

-- As many columns as a table has, with and without NULLs
DO $$
BEGIN
	EXECUTE (SELECT 'CREATE TABLE columns (' || string_agg(format('c%s int', i), ', ' ORDER BY i) || ')'
		FROM generate_series(1, 1600) i);
END $$;
CREATE INDEX columns_c1 ON columns (c1);
DO $$
BEGIN
	FOR j IN 1 .. 5 LOOP
		EXECUTE (SELECT 'INSERT INTO columns VALUES (' || string_agg(CASE WHEN i = 1 THEN j::text WHEN i % j = 0 THEN (i * j)::text ELSE 'NULL' END, ', ' ORDER BY i) || ')'
			FROM generate_series(1, 1600) i);
	END LOOP;
END $$;
SELECT same('columns', $$'columns_c1'$$, 'ORDER BY c1');
SELECT did('columns', $$'columns_c1', row_limit => 1$$, '{"stash_threshold": 0}');

-- Rows of a megabyte, out of line or compressed; gone from the table before
-- they are read
CREATE TABLE large (k int PRIMARY KEY, plain text, packed text);
ALTER TABLE large ALTER COLUMN plain SET STORAGE EXTERNAL;
INSERT INTO large SELECT i, string_agg(md5((i + j * 100)::text), ''), repeat('p' || i, 100000)
	FROM generate_series(1, 4) i, generate_series(1, 32768) j GROUP BY i;
SELECT same($$SELECT * FROM peek(NULL::large)$$, 'SELECT * FROM large ORDER BY k');
SELECT same($$SELECT * FROM peek(NULL::large, order_by => 'md5(plain)')$$, 'SELECT * FROM large ORDER BY md5(plain)');
CREATE TEMP TABLE digest AS SELECT k, md5(plain) AS plain, md5(packed) AS packed FROM large;
BEGIN;
DECLARE c CURSOR FOR
	SELECT (p).k, (SELECT md5((p).plain) = d.plain AND md5((p).packed) = d.packed FROM digest d WHERE d.k = (p).k) AS same
	FROM (SELECT peek(NULL::large, options => '{"stash_threshold": 0, "read_batch_size": 1}') AS p OFFSET 0) q;
FETCH 1 FROM c;
TRUNCATE large;
FETCH ALL FROM c;
COMMIT;
SELECT count(*) FROM peekstash.batch;

-- Values that bring their own shape: composites, arrays, ranges, domains
CREATE TYPE pair AS (a int, b text);
CREATE DOMAIN small_pair AS pair CHECK ((VALUE).a < 1000);
CREATE TABLE shaped (k int PRIMARY KEY, p pair, ps pair[], d small_pair, r int4range, m int8multirange, a int[], j jsonb, t timestamptz, n numeric[]);
INSERT INTO shaped SELECT i, ROW(i, repeat('b', i * 30))::pair, array_fill(ROW(i, 'x')::pair, ARRAY[2, i % 3]), ROW(i, NULL)::pair, int4range(i, i * 2),
	int8multirange(int8range(i, i + 1), int8range(i + 5, NULL)), ARRAY[[i, NULL], [3, 4]], jsonb_build_object('i', i), timestamptz '2024-01-01' + i * interval '1 h', ARRAY[i / 7.0, NULL]
	FROM generate_series(1, 100) i;
SELECT same('SELECT * FROM peek(NULL::shaped)', 'SELECT * FROM shaped ORDER BY k');

-- Dropped and added columns
ALTER TABLE even DROP COLUMN v, ADD COLUMN w int DEFAULT 7, ADD COLUMN v text DEFAULT 'later';
INSERT INTO even VALUES (501, NULL, 'new');
SELECT same('SELECT * FROM peek(NULL::even)', 'SELECT * FROM even ORDER BY k');
SELECT * FROM paths('even', 'lower => 500');

-- Some of the columns, and sorts below and beyond work_mem
SELECT same($$SELECT k, v FROM peek_record('even_pkey', '{v,k}') AS r(v text, k int)$$, 'SELECT k, v FROM even ORDER BY k');
SELECT same('narrow', $$order_by => 'k % 13 DESC, k'$$, 'ORDER BY k % 13 DESC, k');
SET work_mem = '64kB';
SELECT same('even', $$order_by => 'k % 13 DESC, k'$$, 'ORDER BY k % 13 DESC, k');
SELECT same('narrow', $$order_by => 'k % 13 DESC, k', row_limit => 900, row_offset => 90$$, 'ORDER BY k % 13 DESC, k LIMIT 900 OFFSET 90');
SELECT * FROM paths('narrow', $$order_by => 'k % 13 DESC'$$);
RESET work_mem;

--
-- answer_bytes and stored_bytes are two numbers (semantics 24)
--
CREATE FUNCTION sizes(compression text) RETURNS TABLE (answer bigint, stored bigint, in_table bigint)
LANGUAGE plpgsql AS $$
DECLARE
	a peekstash.stat;
	b peekstash.stat;
	c refcursor;
BEGIN
	PERFORM set_config('peekstash.stash_compression', compression, true),
		set_config('peekstash.stash_threshold', '0', true);
	SELECT * INTO a FROM peekstash.stat;
	OPEN c FOR SELECT peek(NULL::narrow);
	MOVE c;
	SELECT * INTO b FROM peekstash.stat;
	-- a value's header is 4 bytes
	RETURN QUERY SELECT b.answer_bytes - a.answer_bytes, b.stored_bytes - a.stored_bytes,
		(SELECT sum(octet_length(payload) + 4)::bigint FROM peekstash.batch);
	CLOSE c;
	PERFORM set_config('peekstash.stash_compression', 'none', true),
		set_config('peekstash.stash_threshold', '1MB', true);
END $$;
-- Two batches, as the threshold is 0: a header of 4 and a head of 32 bytes each.
-- For a row, 2 bytes of copies and length, 6 of its header, and its data.
SELECT * FROM sizes('none');
-- Compressed by default where the server can
SELECT coalesce(max('lz4'), 'none') AS codec FROM pg_settings
WHERE name = 'peekstash.stash_compression' AND 'lz4' = ANY (enumvals) \gset
SELECT boot_val = :'codec' AS is_default FROM pg_settings WHERE name = 'peekstash.stash_compression';
SELECT answer, stored = in_table AS as_in_table, stored < CASE :'codec' WHEN 'lz4' THEN 12072 ELSE 12073 END AS smaller FROM sizes(:'codec');
SELECT count(*) FROM peekstash.batch;

--
-- Not to the stash: spooled, complete, up to the cap (semantics 18)
--
SELECT did('narrow', '', '{"stash_threshold": 0, "enable_stash": false}');
SELECT did('narrow', '', '{"stash_threshold": 300, "stash_batch_size": 100, "enable_stash": false, "max_result_size": 19}');
SET peekstash.enable_stash = off;
SELECT same('narrow', $$lower => 10$$, 'WHERE k >= 10 ORDER BY k');
SELECT did('narrow', '', '{"stash_threshold": 0}');
BEGIN;
SELECT count(*), sum((p).k) FROM (SELECT peek(NULL::narrow, options => '{"stash_threshold": 0}') AS p) q;
SELECT pg_current_xact_id_if_assigned() IS NULL AS no_transaction_id;
COMMIT;
RESET peekstash.enable_stash;
BEGIN READ ONLY;
SELECT count(*), sum((p).k) FROM (SELECT peek(NULL::narrow, options => '{"stash_threshold": 0}') AS p) q;
SELECT count(*), sum(k) FROM peek(NULL::narrow, options => '{"stash_threshold": 250, "stash_batch_size": 100}');
SELECT count(*) FROM peek(NULL::narrow, options => '{"stash_threshold": 0, "max_result_size": 19}');
ROLLBACK;
BEGIN READ ONLY;
SELECT count(*) FROM peek(NULL::narrow, order_by => '-k', options => '{"stash_threshold": 0}');
SELECT pg_current_xact_id_if_assigned() IS NULL AS no_transaction_id;
COMMIT;

--
-- Damage: an error (XX001), never fewer rows
--
-- Reads some rows of an answer of 10 batches of 5 rows and a tail of 3, lets
-- the owner of the stash do something, and reads on.
CREATE FUNCTION damaged(damage text, first_rows int DEFAULT 1) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	c refcursor;
	r record;
	num_rows int := 0;
	hit bigint;
	said text;
BEGIN
	BEGIN
		OPEN c FOR SELECT peek(NULL::narrow, row_limit => 53,
			options => '{"stash_threshold": 100, "stash_batch_size": 100, "read_batch_size": 100, "stash_compression": "none"}');
		FOR i IN 1 .. first_rows LOOP
			FETCH c INTO r;
			num_rows := num_rows + 1;
		END LOOP;
		EXECUTE damage;
		GET DIAGNOSTICS hit = ROW_COUNT;
		LOOP
			FETCH c INTO r;
			EXIT WHEN NOT FOUND;
			num_rows := num_rows + 1;
		END LOOP;
		said := format('%s rows, no error', num_rows);
	EXCEPTION WHEN OTHERS THEN
		said := format('%s after %s rows: %s', SQLSTATE, num_rows,
			regexp_replace(SQLERRM, '[0-9a-f-]{36}', 'HANDLE'));
		GET STACKED DIAGNOSTICS damage = PG_EXCEPTION_DETAIL;
		said := said || E'\n  ' || damage;
	END;
	RETURN format('%s hit; %s', hit, said);
END $$;

SELECT damaged('SELECT');
SELECT damaged('SELECT FROM peekstash.batch');
-- Rows of the stash that are gone
SELECT damaged('DELETE FROM peekstash.batch WHERE first_row = 5');
SELECT damaged('DELETE FROM peekstash.batch WHERE first_row = 25');
SELECT damaged('DELETE FROM peekstash.batch WHERE first_row = 45');
SELECT damaged('DELETE FROM peekstash.batch');
SELECT damaged('TRUNCATE peekstash.batch');
SELECT damaged('DELETE FROM peekstash.batch WHERE first_row = 45', 44);
-- Numbers that are wrong
SELECT damaged('UPDATE peekstash.batch SET first_row = 26 WHERE first_row = 25');
SELECT damaged('UPDATE peekstash.batch SET num_rows = 4 WHERE first_row = 25');
SELECT damaged('UPDATE peekstash.batch SET num_rows = 6 WHERE first_row = 25');
SELECT damaged('UPDATE peekstash.batch SET worker = 1 WHERE first_row = 25');
SELECT damaged('UPDATE peekstash.batch SET handle = gen_random_uuid() WHERE first_row = 25');
SELECT damaged('DELETE FROM peekstash.batch WHERE first_row = 45; UPDATE peekstash.batch SET num_rows = 10 WHERE first_row = 40');
-- Payloads that are wrong: a bit flipped at each place, cut, longer, of
-- another answer
SELECT damaged(format('UPDATE peekstash.batch SET payload = set_bit(payload, %1$s, 1 - get_bit(payload, %1$s)) WHERE first_row = 25', i))
FROM unnest('{0, 31, 32, 40, 48, 64, 96, 128, 192, 256, 300, 400}'::int[]) i;
SELECT damaged(format('UPDATE peekstash.batch SET payload = substr(payload, 1, %s) WHERE first_row = 25', i))
FROM unnest('{0, 1, 31, 32, 33, 60}'::int[]) i;
SELECT damaged('UPDATE peekstash.batch SET payload = payload || payload WHERE first_row = 25');
SELECT damaged($$UPDATE peekstash.batch SET payload = payload || '\x00' WHERE first_row = 25$$);
SELECT damaged($$UPDATE peekstash.batch SET payload = repeat(E'\\000', 100)::bytea WHERE first_row = 25$$);
-- None of the undamaged ones is in the way of the next answer
SELECT count(*) FROM peekstash.batch;
SELECT damaged('SELECT');

-- In one FETCH, psql gets no rows before the error
BEGIN;
DECLARE c CURSOR FOR SELECT peek(NULL::narrow, row_limit => 53, options => '{"stash_threshold": 0, "stash_batch_size": 100, "read_batch_size": 1}');
FETCH 1 FROM c;
DELETE FROM peekstash.batch WHERE first_row = 51;
\set VERBOSITY sqlstate
FETCH ALL FROM c;
\set VERBOSITY default
ROLLBACK;
SELECT count(*) FROM peekstash.batch;

--
-- Early ends: deleted before the commit, whatever they leave until then
-- (semantics 46, 48)
--
\set stashed '''{"stash_threshold": 0, "stash_batch_size": 100, "read_batch_size": 1}'''
SELECT peek(NULL::narrow, options => :stashed) LIMIT 1;
SELECT count(*) FROM peekstash.batch;
SELECT * FROM peek(NULL::narrow, options => :stashed) LIMIT 1;
SELECT count(*) FROM peekstash.batch;
SELECT EXISTS (SELECT peek(NULL::narrow, options => :stashed));
SELECT count(*) FROM peekstash.batch;
SELECT g, (SELECT peek(NULL::narrow, lower => g, options => :stashed) LIMIT 1) FROM generate_series(1, 3) g;
SELECT count(*) FROM peekstash.batch;
SELECT g, p FROM generate_series(1, 3) g, LATERAL (SELECT peek(NULL::narrow, lower => g, options => :stashed) LIMIT 2) l(p);
SELECT count(*) FROM peekstash.batch;
SELECT g, k FROM generate_series(1, 3) g, LATERAL peek(NULL::narrow, lower => 998 + g, options => :stashed);
SELECT count(*) FROM peekstash.batch;

-- In a transaction they stay until its end
BEGIN;
SELECT peek(NULL::narrow, row_limit => 8, options => :stashed) LIMIT 1;
SELECT * FROM batches();
COMMIT;
SELECT count(*) FROM peekstash.batch;
BEGIN;
SELECT peek(NULL::narrow, options => :stashed) LIMIT 1;
ROLLBACK;
SELECT count(*) FROM peekstash.batch;

-- A cursor that is closed, and one that is not; the reader fetches no more
-- than it is asked for
SELECT batches_read AS read_before FROM peekstash.stat \gset
BEGIN;
DECLARE c CURSOR FOR SELECT peek(NULL::narrow, options => :stashed);
FETCH 7 FROM c;
CLOSE c;
SELECT batches_read - :read_before AS batches_read FROM peekstash.stat;
SELECT count(*) FROM peekstash.batch;
DECLARE c CURSOR FOR SELECT peek(NULL::narrow, options => :stashed);
FETCH 1 FROM c;
CLOSE ALL;
DECLARE c CURSOR FOR SELECT peek(NULL::narrow, options => :stashed);
FETCH 1 FROM c;
COMMIT;
SELECT count(*) FROM peekstash.batch;

-- A scrollable one reads backward from a store of the server's
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT peek(NULL::narrow, row_limit => 20, options => :stashed);
FETCH LAST FROM c;
FETCH PRIOR FROM c;
FETCH FIRST FROM c;
COMMIT;
SELECT count(*) FROM peekstash.batch;

-- An error in what is done with a later row
SELECT 1 / (3 - (p).k) FROM (SELECT peek(NULL::narrow, options => :stashed) AS p OFFSET 0) q;
SELECT count(*) FROM peekstash.batch;

-- A peek inside of a filter of a peek, both stashed
CREATE FUNCTION sum_to(k int) RETURNS bigint STABLE LANGUAGE sql AS $$
	SELECT sum(n.k) FROM peek(NULL::narrow, upper => $1, options => '{"stash_threshold": 0}') n
$$;
SELECT count(*) FROM peek(NULL::narrow, upper => 20, filter => 'sum_to(k) > 100', options => :stashed);
SELECT count(*) FROM peekstash.batch;

-- Twice in one query, and once in a statement that is executed twice
SELECT count(*) FROM (SELECT peek(NULL::narrow, options => :stashed) a, peek(NULL::narrow, options => :stashed) b) q WHERE a = b;
WITH p AS MATERIALIZED (SELECT peek(NULL::narrow, options => :stashed) AS r) SELECT count(*) FROM p a JOIN p b ON a.r = b.r;
PREPARE s AS SELECT sum(k) FROM peek(NULL::narrow, lower => $1::int, options => :stashed);
EXECUTE s(1);
EXECUTE s(1000);
DEALLOCATE s;
SELECT count(*) FROM peekstash.batch;

--
-- Savepoints
--
-- Rolled back: the answer that was made in it is gone, and says so
BEGIN;
DECLARE c CURSOR FOR SELECT peek(NULL::narrow, row_limit => 53, options => :stashed);
SAVEPOINT a;
FETCH 1 FROM c;
SELECT count(*) FROM peekstash.batch;
ROLLBACK TO a;
SELECT count(*) FROM peekstash.batch;
SAVEPOINT b;
FETCH ALL FROM c;
ROLLBACK TO b;
SELECT count(*) FROM peekstash.batch;
COMMIT;

-- Rolled back: the answer that was made before is there
BEGIN;
DECLARE c CURSOR FOR SELECT peek(NULL::narrow, row_limit => 53, options => :stashed);
FETCH 1 FROM c;
SAVEPOINT a;
MOVE 30 FROM c;
ROLLBACK TO a;
FETCH 2 FROM c;
SELECT count(*) FROM peekstash.batch;
MOVE FORWARD ALL FROM c;
SELECT count(*) FROM peekstash.batch;
COMMIT;

-- Read to its end in a savepoint: the deletion that is rolled back with it is
-- done again before the commit
BEGIN;
DECLARE c CURSOR FOR SELECT peek(NULL::narrow, row_limit => 53, options => :stashed);
FETCH 1 FROM c;
SAVEPOINT a;
SAVEPOINT b;
MOVE FORWARD ALL FROM c;
SELECT count(*) FROM peekstash.batch;
RELEASE b;
SELECT count(*) FROM peekstash.batch;
ROLLBACK TO a;
SELECT count(*) FROM peekstash.batch;
FETCH 1 FROM c;
COMMIT;
SELECT count(*) FROM peekstash.batch;

-- Released: as if there had been none
BEGIN;
DECLARE c CURSOR FOR SELECT peek(NULL::narrow, row_limit => 53, options => :stashed);
SAVEPOINT a;
SAVEPOINT b;
FETCH 1 FROM c;
RELEASE b;
RELEASE a;
MOVE 50 FROM c;
FETCH ALL FROM c;
SELECT count(*) FROM peekstash.batch;
COMMIT;

-- Early ends in savepoints, of which some are rolled back
BEGIN;
SAVEPOINT a;
SELECT peek(NULL::narrow, options => :stashed) LIMIT 1;
SAVEPOINT b;
SELECT peek(NULL::narrow, options => :stashed) LIMIT 1;
SELECT count(DISTINCT handle) FROM peekstash.batch;
ROLLBACK TO b;
SELECT count(DISTINCT handle) FROM peekstash.batch;
RELEASE a;
SAVEPOINT c;
SELECT peek(NULL::narrow, options => :stashed) LIMIT 1;
COMMIT;
SELECT count(*) FROM peekstash.batch;

-- PL/pgSQL blocks that catch: errors of the peek, of its rows, and an early
-- end that is rolled back
CREATE FUNCTION catch(query text, times int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	caught int := 0;
	state text := '';
BEGIN
	FOR i IN 1 .. times LOOP
		BEGIN
			EXECUTE query;
			RAISE EXCEPTION USING ERRCODE = 'ZZ001';
		EXCEPTION WHEN OTHERS THEN
			caught := caught + 1;
			state := SQLSTATE;
		END;
	END LOOP;
	RETURN format('%s times %s, %s batches, %s locks on the table', caught, state,
		(SELECT count(*) FROM peekstash.batch),
		(SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND relation = 'narrow'::regclass));
END $$;
SELECT catch($$SELECT peek(NULL::narrow, options => '{"stash_threshold": 0, "stash_batch_size": 100, "max_result_size": 1}')$$, 200);
SELECT catch($$SELECT peek(NULL::narrow, filter => '1 / (900 - k) < 2', options => '{"stash_threshold": 0}')$$, 200);
SELECT catch($$SELECT 1 / (60 - (peek(NULL::narrow, options => '{"stash_threshold": 0}')).k)$$, 200);
SELECT catch($$SELECT peek(NULL::narrow, options => '{"stash_threshold": 0}') LIMIT 1$$, 200);
SELECT catch($$SELECT peek(NULL::narrow, row_limit => 10, options => '{"stash_threshold": 0}')$$, 200);
SELECT count(*) FROM peekstash.batch;

-- A cursor of an outer block, first read in a block that fails
CREATE FUNCTION first_read_inside() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	c refcursor;
	r record;
BEGIN
	OPEN c FOR SELECT peek(NULL::narrow, row_limit => 53, options => '{"stash_threshold": 0, "read_batch_size": 1, "stash_batch_size": 100}');
	BEGIN
		FETCH c INTO r;
		PERFORM 1 / 0;
	EXCEPTION WHEN division_by_zero THEN
		NULL;
	END;
	FOR i IN 1 .. 60 LOOP
		FETCH c INTO r;
		EXIT WHEN NOT FOUND;
	END LOOP;
	RETURN 'no error';
END $$;
SELECT error('SELECT first_read_inside()');
SELECT count(*) FROM peekstash.batch;

--
-- Isolation levels
--
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM narrow;
SELECT count(*), sum((p).k) FROM (SELECT peek(NULL::narrow, options => :stashed) AS p) q;
SELECT count(*) FROM peekstash.batch;
SELECT peek(NULL::narrow, options => :stashed) LIMIT 1;
SELECT count(*) > 0 FROM peekstash.batch;
COMMIT;
SELECT count(*) FROM peekstash.batch;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT count(*), sum((p).k) FROM (SELECT peek(NULL::narrow, options => :stashed) AS p) q;
SELECT peek(NULL::narrow, options => :stashed) LIMIT 1;
COMMIT;
SELECT count(*) FROM peekstash.batch;

-- A transaction that becomes read only after it has stashed deletes it all the
-- same, and stays read only
BEGIN;
DECLARE c CURSOR FOR SELECT peek(NULL::narrow, row_limit => 53, options => :stashed);
FETCH 1 FROM c;
SET TRANSACTION READ ONLY;
MOVE FORWARD ALL FROM c;
SELECT count(*) FROM peekstash.batch;
SHOW transaction_read_only;
SELECT count(*) FROM peek(NULL::narrow, options => :stashed);
INSERT INTO narrow VALUES (0);
ROLLBACK;
BEGIN;
SELECT peek(NULL::narrow, options => :stashed) LIMIT 1;
SET TRANSACTION READ ONLY;
COMMIT;
SELECT count(*) FROM peekstash.batch;
BEGIN;
DECLARE c CURSOR FOR SELECT peek(NULL::narrow, row_limit => 53, options => :stashed);
FETCH 1 FROM c;
SAVEPOINT a;
SET TRANSACTION READ ONLY;
MOVE FORWARD ALL FROM c;
SELECT count(*) FROM peekstash.batch;
ROLLBACK TO a;
SHOW transaction_read_only;
SELECT count(*) > 0 FROM peekstash.batch;
COMMIT;
SELECT count(*) FROM peekstash.batch;

--
-- WITH HOLD: the rest is read at the commit, then the batches are deleted
--
BEGIN;
DECLARE c CURSOR WITH HOLD FOR SELECT peek(NULL::narrow, row_limit => 53, options => :stashed);
DECLARE d CURSOR WITH HOLD FOR SELECT peek(NULL::narrow, row_limit => 53, options => :stashed);
FETCH 1 FROM c;
COMMIT;
SELECT count(*) FROM peekstash.batch;
MOVE 50 FROM c;
FETCH ALL FROM c;
MOVE 51 FROM d;
FETCH ALL FROM d;
CLOSE ALL;

-- A deferred trigger peeks at the commit
CREATE TABLE watched (i int);
CREATE FUNCTION peek_late() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
	r record;
BEGIN
	FOR r IN SELECT peek(NULL::narrow, options => '{"stash_threshold": 0}') LOOP
		EXIT;
	END LOOP;
	RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER late AFTER INSERT ON watched DEFERRABLE INITIALLY DEFERRED
	FOR EACH ROW EXECUTE FUNCTION peek_late();
INSERT INTO watched VALUES (1), (2);
SELECT count(*) FROM peekstash.batch;

-- A procedure that commits between peeks, and inside of a loop over one
CREATE PROCEDURE commits() LANGUAGE plpgsql AS $$
DECLARE
	r record;
	num_rows int := 0;
BEGIN
	FOR r IN SELECT (p).k FROM (SELECT peek(NULL::narrow, row_limit => 53, options => '{"stash_threshold": 0, "stash_batch_size": 100, "read_batch_size": 1}') AS p) q LOOP
		num_rows := num_rows + 1;
		IF num_rows % 20 = 0 THEN
			COMMIT;
		END IF;
	END LOOP;
	RAISE INFO '% rows, % batches', num_rows, (SELECT count(*) FROM peekstash.batch);
END $$;
CALL commits();
SELECT count(*) FROM peekstash.batch;

-- Where user ids may not be changed
CREATE MATERIALIZED VIEW kept AS SELECT (p).k FROM (SELECT peek(NULL::stash_test.narrow, options => '{"stash_threshold": 0}') AS p) q;
REFRESH MATERIALIZED VIEW kept;
SELECT count(*) FROM kept;
SELECT count(*) FROM peekstash.batch;

--
-- Rights
--
CREATE ROLE regress_stash_user;
CREATE ROLE regress_stash_owner;
GRANT SELECT ON narrow TO regress_stash_user;
SELECT relname, relkind, relpersistence, acl.grantee::regrole, acl.privilege_type
FROM pg_class LEFT JOIN LATERAL aclexplode(relacl) acl ON acl.grantee <> relowner
WHERE relnamespace = 'peekstash'::regnamespace AND relname IN ('batch', 'stat') ORDER BY relname;
SELECT attname, attstorage FROM pg_attribute WHERE attrelid = 'peekstash.batch'::regclass AND attname = 'payload';

-- A role without any right on the stash has answers stashed, and can neither
-- look at them nor hang anything on them
GRANT CREATE ON SCHEMA stash_test TO regress_stash_user;
SET ROLE regress_stash_user;
SELECT count(*), sum((p).k) FROM (SELECT peek(NULL::narrow, options => :stashed) AS p) q;
SELECT current_user;
SELECT count(*) FROM peekstash.batch;
INSERT INTO peekstash.batch VALUES (gen_random_uuid(), 0, 0, 1, 1, '');
DELETE FROM peekstash.batch;
TRUNCATE peekstash.batch;
BEGIN;
LOCK TABLE peekstash.batch IN ACCESS SHARE MODE;
ROLLBACK;
CREATE FUNCTION stash_trap() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'trapped as %', current_user; END $$;
CREATE TRIGGER trap BEFORE INSERT ON peekstash.batch FOR EACH ROW EXECUTE FUNCTION stash_trap();
CREATE RULE trap AS ON INSERT TO peekstash.batch DO INSTEAD NOTHING;
CREATE POLICY trap ON peekstash.batch USING (true);
CREATE INDEX trap ON peekstash.batch (first_row);
CREATE TABLE trap () INHERITS (peekstash.batch);
CREATE UNLOGGED TABLE trap (h uuid, w int, f bigint, FOREIGN KEY (h, w, f) REFERENCES peekstash.batch);
CREATE TABLE trap (LIKE peekstash.batch);
ALTER TABLE peekstash.batch ADD CHECK (false);
GRANT SELECT ON peekstash.batch TO PUBLIC;
CREATE TABLE peekstash.trap (i int);
CREATE VIEW trap AS SELECT * FROM peekstash.batch;
SELECT count(*) FROM trap;
DROP VIEW trap;

-- What the caller puts first into the search path is not used for the stash
CREATE FUNCTION evil(uuid, uuid) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'evil as %', current_user; END $$;
CREATE FUNCTION evil(int, int) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'evil as %', current_user; END $$;
CREATE FUNCTION evil(bigint, bigint) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'evil as %', current_user; END $$;
CREATE OPERATOR stash_test.= (LEFTARG = uuid, RIGHTARG = uuid, FUNCTION = evil);
CREATE OPERATOR stash_test.= (LEFTARG = int, RIGHTARG = int, FUNCTION = evil);
CREATE OPERATOR stash_test.= (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = evil);
CREATE DOMAIN stash_test.uuid AS pg_catalog.text;
CREATE DOMAIN stash_test.bytea AS pg_catalog.text;
CREATE TEMP TABLE batch (handle pg_catalog.uuid);
SET search_path = stash_test, pg_temp, pg_catalog, public;
SELECT gen_random_uuid() = gen_random_uuid();
SELECT count(*) FROM (SELECT peek(NULL::narrow, options => :stashed) AS p) q;
SELECT peek(NULL::narrow, options => :stashed) LIMIT 1;
BEGIN;
SAVEPOINT a;
SELECT peek(NULL::narrow, options => :stashed) LIMIT 1;
RELEASE a;
COMMIT;
RESET ROLE;
SELECT pg_catalog.count(*) FROM peekstash.batch;

-- The same in a session that has no plans yet, with the stash in the hands of
-- an owner who is no superuser
\c -
SET search_path = stash_test, pg_temp, pg_catalog, public;
SET client_min_messages = warning;
CREATE FUNCTION stash_belongs_to(owner text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	tab regclass;
BEGIN
	FOR tab IN SELECT c.oid FROM pg_class c WHERE c.relkind OPERATOR(pg_catalog.=) 'r'
		AND c.relnamespace OPERATOR(pg_catalog.=) 'peekstash'::regnamespace
	LOOP
		EXECUTE format('ALTER TABLE %s OWNER TO %I', tab, owner);
	END LOOP;
END $$;
SELECT stash_belongs_to('regress_stash_owner');
ALTER TABLE peekstash.batch ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
SET ROLE regress_stash_user;
SELECT count(*) FROM (SELECT peek(NULL::narrow, options => :stashed) AS p) q;
SELECT peek(NULL::narrow, options => :stashed) LIMIT 1;
RESET ROLE;
SELECT count(*) FROM peekstash.batch;
ALTER TABLE peekstash.batch DISABLE ROW LEVEL SECURITY, NO FORCE ROW LEVEL SECURITY;
SELECT stash_belongs_to(current_user);
SET ROLE regress_stash_user;
DROP OPERATOR stash_test.= (pg_catalog.uuid, pg_catalog.uuid);
DROP OPERATOR stash_test.= (int, int);
DROP OPERATOR stash_test.= (bigint, bigint);
DROP DOMAIN stash_test.uuid, stash_test.bytea;
RESET ROLE;
SET search_path = stash_test, test, public;

-- Functions of the caller run as the caller, between two writes to the stash,
-- too, also below a function that changes the user
CREATE FUNCTION who() RETURNS text STABLE LANGUAGE plpgsql AS $$ BEGIN RETURN current_user; END $$;
CREATE FUNCTION as_owner(asked text) RETURNS bigint SECURITY DEFINER LANGUAGE sql AS $$
	SELECT count(*) FROM (SELECT peek(NULL::stash_test.narrow, filter => 'stash_test.who() = $1', args => ARRAY[asked],
		options => '{"stash_threshold": 0, "stash_batch_size": 1, "yield_granularity": 1}')) q
$$;
GRANT SELECT ON narrow TO regress_stash_owner;
ALTER FUNCTION as_owner(text) OWNER TO regress_stash_owner;
SET ROLE regress_stash_user;
SELECT count(*) FROM (SELECT peek(NULL::narrow, filter => 'who() = $1', args => '{regress_stash_user}',
	options => '{"stash_threshold": 0, "stash_batch_size": 1, "yield_granularity": 1}')) q;
SELECT as_owner('regress_stash_owner');
SELECT current_user;
RESET ROLE;
SELECT count(*) FROM peekstash.batch;

-- An error inside of a write gives the user back
ALTER TABLE peekstash.batch ADD CONSTRAINT broken CHECK (num_rows < 5);
SET ROLE regress_stash_user;
SELECT count(*) FROM (SELECT peek(NULL::narrow, options => '{"stash_threshold": 0, "stash_batch_size": 60}')) q;
\set VERBOSITY sqlstate
SELECT count(*) FROM (SELECT peek(NULL::narrow, options => '{"stash_threshold": 0, "stash_batch_size": 150}')) q;
\set VERBOSITY default
SELECT current_user;
BEGIN;
SAVEPOINT a;
\set VERBOSITY sqlstate
SELECT count(*) FROM (SELECT peek(NULL::narrow, options => '{"stash_threshold": 0, "stash_batch_size": 150}')) q;
\set VERBOSITY default
ROLLBACK TO a;
SELECT current_user;
SELECT count(*) FROM (SELECT peek(NULL::narrow, options => '{"stash_threshold": 0, "stash_batch_size": 60}')) q;
COMMIT;
RESET ROLE;
ALTER TABLE peekstash.batch DROP CONSTRAINT broken;
SELECT count(*) FROM peekstash.batch;

--
-- The extension is dropped in the transaction that has stashed
--
SELECT current_database() AS old_database \gset
CREATE DATABASE regress_stash_drop;
\c regress_stash_drop
SET client_min_messages = warning;
CREATE EXTENSION peekstash;
CREATE TABLE narrow (k int PRIMARY KEY);
INSERT INTO narrow SELECT generate_series(1, 1000);
BEGIN;
SELECT peek(NULL::narrow, options => :stashed) LIMIT 1;
DROP EXTENSION peekstash;
COMMIT;
-- Made again, it works on, in a session that had plans for the old tables
CREATE EXTENSION peekstash;
SELECT count(*) FROM (SELECT peek(NULL::narrow, options => :stashed)) q;
BEGIN;
DECLARE c CURSOR FOR SELECT peek(NULL::narrow, options => :stashed);
FETCH 1 FROM c;
SAVEPOINT a;
DROP EXTENSION peekstash;
\set VERBOSITY sqlstate
FETCH ALL FROM c;
\set VERBOSITY default
ROLLBACK TO a;
SELECT count(*) FROM (SELECT peek(NULL::narrow, options => :stashed)) q;
COMMIT;
SELECT count(*) FROM peekstash.batch;
-- Made in the transaction that uses it
DROP EXTENSION peekstash;
BEGIN;
CREATE EXTENSION peekstash;
SELECT count(*) FROM (SELECT peek(NULL::narrow, options => :stashed)) q;
SELECT peek(NULL::narrow, options => :stashed) LIMIT 1;
COMMIT;
SELECT count(*) FROM peekstash.batch;
\c :old_database
DROP DATABASE regress_stash_drop;

SET client_min_messages = warning;
DROP SCHEMA stash_test CASCADE;
DROP ROLE regress_stash_user, regress_stash_owner;
