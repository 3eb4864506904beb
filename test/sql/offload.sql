--
-- Walks in the background: the rows, their order, the counts and the errors
-- are those of a walk in the session, and where a walk cannot leave it, it
-- says why.
--
\set ECHO none
\getenv srcdir PG_ABS_SRCDIR
\set helpers :srcdir '/helpers.sql'
\i :helpers
\set ECHO all
CREATE SCHEMA offload_test;
SET search_path = offload_test, test, public;
GRANT USAGE ON SCHEMA offload_test TO PUBLIC;
CREATE ROLE regress_peek_offload;

CREATE FUNCTION h(n int) RETURNS uuid LANGUAGE sql IMMUTABLE AS
	$$SELECT ('d0000000-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid$$;
CREATE FUNCTION o(n int, more jsonb DEFAULT '{}') RETURNS jsonb LANGUAGE sql IMMUTABLE AS
	$$SELECT jsonb_build_object('handle', offload_test.h(n)) || more$$;
CREATE FUNCTION bg(n int, more jsonb DEFAULT '{}') RETURNS jsonb LANGUAGE sql IMMUTABLE AS
	$$SELECT offload_test.o(n, '{"background": true}' || more)$$;

-- By the ruler 4 + 11 + 1 + 16 = 32 bytes a row; some six leaf pages
CREATE TABLE t (k int PRIMARY KEY, v text);
INSERT INTO t SELECT i, lpad(i::text, 11, '0') FROM generate_series(1, 2000) i;
CREATE INDEX t_mod ON t ((k % 10), k DESC);
-- Equal neighbours, which fold: 40 kinds of row, 100 copies each, and pages
-- of the index that end in the midst of them
CREATE TABLE dup (k int, v text);
INSERT INTO dup SELECT k, 'x' FROM generate_series(1, 40) k, generate_series(1, 100);
CREATE INDEX dup_k ON dup (k) WITH (deduplicate_items = off);
-- Wide rows: 1 kB, not to be compressed in line
CREATE TABLE wide (k int PRIMARY KEY, v text);
ALTER TABLE wide ALTER v SET STORAGE EXTERNAL;
INSERT INTO wide SELECT i, repeat(chr(65 + i % 26), 1000) FROM generate_series(1, 1200) i;
GRANT SELECT ON ALL TABLES IN SCHEMA offload_test TO PUBLIC;
ANALYZE t, dup, wide;

-- What has been walked for has been counted, and is settled
CREATE PROCEDURE settle() LANGUAGE plpgsql AS $$
BEGIN
	COMMIT;
	FOR i IN 1 .. 6000 LOOP
		EXIT WHEN (SELECT slots_in_use = 0 FROM peekstash.stat);
		PERFORM pg_sleep(0.01);
	END LOOP;
	IF (SELECT slots_in_use > 0 FROM peekstash.stat) THEN
		RAISE 'slots are still in use';
	END IF;
END $$;

-- A submit in the session and the same in the background, against a query.
-- Each is a transaction of its own: one that has written stays where it is.
CREATE PROCEDURE offloaded(tab text, arrangement text, arguments text, plain text) LANGUAGE plpgsql AS $$
DECLARE
	path jsonb;
	here uuid;
	there uuid;
	wanted bytea[];
	found bytea[];
	a record;
	b record;
BEGIN
	EXECUTE format('SELECT coalesce(array_agg(record_send(q)), %L) FROM (%s) q', '{}', plain) INTO wanted;
	FOR path IN SELECT * FROM jsonb_array_elements('[
		{"stash_threshold": "512MB", "read_batch_size": "512MB", "background": true},
		{"stash_threshold": 0, "stash_batch_size": 500, "stash_compression": "none", "enable_offload": true, "inline_budget": 1},
		{"stash_threshold": 2000, "stash_batch_size": 1000, "enable_offload": true, "inline_budget": 700, "yield_granularity": 7}]')
	LOOP
		EXECUTE format('SELECT peek_submit(%L, %s options => $1)', arrangement, CASE WHEN arguments <> '' THEN arguments || ',' ELSE '' END)
			INTO here USING path - '{background,enable_offload,inline_budget}'::text[];
		COMMIT;
		EXECUTE format('SELECT peek_submit(%L, %s options => $1)', arrangement, CASE WHEN arguments <> '' THEN arguments || ',' ELSE '' END)
			INTO there USING path;
		COMMIT;
		PERFORM peek_wait(there);
		SELECT * INTO a FROM peek_status(here);
		SELECT * INTO b FROM peek_status(there);
		EXECUTE format('SELECT coalesce(array_agg(record_send(q)), %L) FROM peek_fetch(NULL::%s, $1) q', '{}', tab) INTO found USING there;
		RAISE NOTICE '%', format('%s: %s, %s rows, %s of them by the submitter, %s', CASE WHEN path ? 'background' THEN 'background' ELSE 'after ' || (path ->> 'inline_budget') END,
				concat_ws(' ', b.driver, b.inline_reason), a.num_rows, (SELECT CASE sum(num_rows) WHEN a.num_rows THEN 'all' ELSE 'some' END FROM peek_batches(there) WHERE worker = 0 HAVING count(*) > 0
					UNION ALL SELECT 'none' LIMIT 1), b.kind) ||
			CASE WHEN found = wanted THEN '' ELSE ', DIFFERENT' END ||
			CASE WHEN (a.state, a.kind, a.positions, a.num_rows, a.answer_bytes, a.stash_reason, a.column_definitions) IS NOT DISTINCT FROM
				(b.state, b.kind, b.positions, b.num_rows, b.answer_bytes, b.stash_reason, b.column_definitions) THEN '' ELSE format(', OTHER COUNTS %s %s', a, b) END ||
			CASE WHEN (SELECT (sum(c.num_rows)::bigint, sum(c.answer_bytes)::bigint, sum(c.stored_bytes)::bigint, count(c.batch)) FROM peek_batches(there) c) =
				(b.num_rows, b.answer_bytes, b.stored_bytes, b.batches) THEN '' ELSE ', batches DO NOT ADD UP' END;
		PERFORM peek_release(here), peek_release(there);
		COMMIT;
	END LOOP;
END $$;

CALL offloaded('t', 't', '', 'SELECT * FROM t ORDER BY k');
CALL offloaded('t', 't', 'backward => true', 'SELECT * FROM t ORDER BY k DESC');
CALL offloaded('t', 't', 'lower => 301, upper => 1700, row_offset => 450, row_limit => 800', 'SELECT * FROM t WHERE k BETWEEN 301 AND 1700 ORDER BY k LIMIT 800 OFFSET 450');
-- offset and limit reached before the hand-over, after it, never
CALL offloaded('t', 't', 'row_offset => 3, row_limit => 5', 'SELECT * FROM t ORDER BY k LIMIT 5 OFFSET 3');
CALL offloaded('t', 't', 'row_offset => 1995, row_limit => 9223372036854775807', 'SELECT * FROM t ORDER BY k OFFSET 1995');
CALL offloaded('t', 't', $$filter => 'k % $1 = 0 AND v LIKE $2', args => '{3,%1%}'$$, $$SELECT * FROM t WHERE k % 3 = 0 AND v LIKE '%1%' ORDER BY k$$);
CALL offloaded('t', 't', $$order_by => 'k % 7, v DESC'$$, 'SELECT * FROM t ORDER BY k % 7, v DESC');
CALL offloaded('t', 't', $$order_by => 'k % 7, v DESC', row_offset => 2, row_limit => 40$$, 'SELECT * FROM t ORDER BY k % 7, v DESC LIMIT 40 OFFSET 2');
-- lists of keys: present, absent, twice; on a prefix of two columns
CALL offloaded('t', 't', 'keys => ARRAY(SELECT i FROM generate_series(4000, -1000, -2) i, generate_series(1, 2))', 'SELECT * FROM t WHERE k % 2 = 0 ORDER BY k');
CALL offloaded('t', 't_mod', $$keys => '{7,11,3,7}'::int[], upper => 1990$$, 'SELECT * FROM t WHERE k % 10 IN (3, 7) AND k <= 1990 ORDER BY k % 10, k DESC');
CALL offloaded('t', 't_mod', 'key => 4, backward => true', 'SELECT * FROM t WHERE k % 10 = 4 ORDER BY k');
-- copies go on folding in the worker, and are cut and limited as they were
CALL offloaded('dup', 'dup_k', '', 'SELECT * FROM dup ORDER BY k');
CALL offloaded('dup', 'dup_k', 'row_offset => 450, row_limit => 2101', 'SELECT * FROM dup ORDER BY k LIMIT 2101 OFFSET 450');
CALL offloaded('dup', 'dup_k', $$order_by => 'k DESC'$$, 'SELECT * FROM dup ORDER BY k DESC');
CALL offloaded('wide', 'wide', '', 'SELECT * FROM wide ORDER BY k');
-- nothing is found; nothing is asked for, so there is no walk
CALL offloaded('t', 't', 'lower => 5000', 'SELECT * FROM t WHERE false');
CALL offloaded('t', 't', 'row_limit => 0', 'SELECT * FROM t WHERE false');
CALL settle();

-- enable_offload: off, no walk leaves for its budget, but for "background";
-- on, one does that has not ended within it, and no other
SHOW peekstash.enable_offload;
SHOW peekstash.inline_budget;
SELECT peek_submit('t', options => o(1, '{"inline_budget": 1}')) = h(1);
SELECT state, driver, workers, inline_reason, estimated_positions FROM peek_status(h(1));
SELECT peek_submit('t', options => bg(2)) = h(2);
SELECT peek_wait(h(2));
SELECT state, driver, workers, inline_reason, estimated_positions FROM peek_status(h(2));
SELECT state, driver, workers, inline_reason, estimated_positions FROM peekstash.peeks WHERE handle = h(2);
SET peekstash.enable_offload = on;
SELECT peek_submit('t', row_limit => 1024, options => o(3)) = h(3);
SELECT peek_wait(h(3));
SELECT driver, workers, inline_reason, estimated_positions FROM peek_status(h(3));
SELECT peek_submit('t', options => o(4)) = h(4);
SELECT peek_wait(h(4));
SELECT driver, workers, inline_reason FROM peek_status(h(4));
-- the budget counts positions, also of rows that are not wanted
SELECT peek_submit('t', filter => 'k % 1000 = 0', options => o(5)) = h(5);
SELECT peek_wait(h(5));
SELECT driver, num_rows FROM peek_status(h(5));
-- direct peeks and first pages stay
SELECT count(*) FROM peek(NULL::t, options => '{"inline_budget": 1}');
SELECT count(*), max(num_rows) FROM peek_page(NULL::t, options => o(6, '{"inline_budget": 1}'));
SELECT driver, inline_reason FROM peek_status(h(6));
SELECT error('SELECT * FROM peek_page(NULL::t, options => bg(7))');
RESET peekstash.enable_offload;
-- budgets below 1 are refused
SELECT error('SET peekstash.inline_budget = 0');
SELECT error($$SELECT peek_submit('t', options => bg(7, '{"inline_budget": 0}'))$$);
-- a large answer is stashed in the background as it is here
SELECT peek_submit('wide', options => bg(7, '{"stash_threshold": "256kB"}')) = h(7);
SELECT peek_wait(h(7));
SELECT kind, driver, stash_reason, batches > 10 AS batches FROM peek_status(h(7));
-- without a stash up to 1MB are held, there as here
SELECT peek_submit('t', options => bg(8, '{"enable_stash": false, "stash_threshold": 0}')) = h(8);
SELECT peek_wait(h(8));
SELECT kind, driver, num_rows, batches FROM peek_status(h(8));
SELECT peek_submit('wide', options => bg(9, '{"enable_stash": false}')) = h(9);
SELECT peek_wait(h(9));
SELECT error('SELECT * FROM peek_fetch(NULL::wide, h(9))');
SELECT count(peek_release(handle)) FROM peekstash.peeks;
CALL settle();

-- Who may ask for what: workers are bounded by max_workers, the kill switch is
-- the administrator's, "background" is everybody's
SET peekstash.max_workers = 2;
SELECT peek_submit('t', options => bg(1, '{"workers": 8, "stash_threshold": 0, "stash_batch_size": 500}')) = h(1);
SELECT peek_wait(h(1));
SELECT driver, workers, positions, num_rows, answer_bytes FROM peek_status(h(1));
SELECT count(*), count(DISTINCT k), sum(k) FROM peek_fetch(NULL::t, h(1));
-- an order, and a list of keys, have one
SELECT peek_submit('t', order_by => 'v', options => bg(2, '{"workers": 2}')) = h(2);
SELECT peek_wait(h(2));
SELECT workers FROM peek_status(h(2));
SELECT peek_submit('t', keys => '{1,2}'::int[], options => bg(3, '{"workers": 2}')) = h(3);
SELECT peek_wait(h(3));
SELECT workers FROM peek_status(h(3));
RESET peekstash.max_workers;
SELECT error($$SELECT peek_submit('t', options => '{"workers": 0}')$$);
SELECT error($$SELECT peek_submit('t', options => '{"workers": 17}')$$);
SELECT error($$SELECT peek_submit('t', options => '{"permits": 1}')$$);
SET ROLE regress_peek_offload;
SELECT error($$SELECT peek_submit('offload_test.t', options => '{"enable_offload": true}')$$);
SELECT error($$SELECT peek_submit('offload_test.t', options => '{"max_workers": 9}')$$);
SELECT error($$SET peekstash.enable_offload = on$$);
SELECT error($$SET peekstash.max_workers = 9$$);
SELECT error($$SET peekstash.permits = 9$$);
SELECT peek_submit('t', options => bg(4, '{"enable_offload": false, "workers": 2}')) = h(4);
SELECT peek_wait(h(4));
SELECT owner, driver, workers FROM peek_status(h(4));
RESET ROLE;
SELECT owner, charged_to = session_user AS charged_to FROM peekstash.peeks WHERE handle = h(4);
SELECT count(peek_release(handle)) FROM peekstash.peeks;
CALL settle();

-- What keeps a walk here.  With "background" it is an error that says why;
-- without it stands in inline_reason, and the answer is the same.
CREATE FUNCTION unsafe(int) RETURNS bool LANGUAGE plpgsql STABLE AS 'BEGIN RETURN $1 > 0; END';
CREATE FUNCTION inlined(int) RETURNS bool LANGUAGE sql STABLE AS 'SELECT $1 > 0';
CREATE FUNCTION restricted(int) RETURNS bool LANGUAGE plpgsql STABLE PARALLEL RESTRICTED AS 'BEGIN RETURN $1 > 0; END';
CREATE FUNCTION safe(int) RETURNS bool LANGUAGE plpgsql STABLE PARALLEL SAFE AS 'BEGIN RETURN $1 > 0; END';
CREATE FUNCTION unsafe_key(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN $1; END';
CREATE TABLE other (k int);
CREATE TABLE odd (k int);
INSERT INTO odd SELECT generate_series(1, 2000);
CREATE INDEX odd_key ON odd (unsafe_key(k));
CREATE INDEX odd_part ON odd (k) WHERE unsafe_key(k) > 0;
CREATE TEMP TABLE mine (k int PRIMARY KEY);
INSERT INTO mine SELECT generate_series(1, 2000);
SET peekstash.inline_budget = 1;
BEGIN;
INSERT INTO other VALUES (1);
SELECT inline_reason, num_rows FROM peek_status(peek_submit('t', options => '{"enable_offload": true}'));
SELECT error($$SELECT peek_submit('t', options => '{"background": true}')$$);
ROLLBACK;
-- also if a savepoint has taken it back
BEGIN;
SAVEPOINT s;
INSERT INTO other VALUES (1);
ROLLBACK TO s;
SELECT inline_reason, num_rows FROM peek_status(peek_submit('t', options => '{"enable_offload": true}'));
ROLLBACK;
-- what a first submit has written counts for the second
BEGIN;
SELECT peek_submit('t', options => bg(1)) = h(1);
SELECT inline_reason FROM peek_status(peek_submit('t', options => '{"enable_offload": true}'));
SELECT error($$SELECT peek_submit('t', options => bg(1))$$);
SELECT error($$SELECT peek_submit('t', options => bg(2))$$);
ROLLBACK;
BEGIN;
LOCK TABLE t IN ROW EXCLUSIVE MODE;
SELECT error($$SELECT peek_submit('t', options => '{"background": true}')$$);
ROLLBACK;
BEGIN;
LOCK TABLE t IN SHARE ROW EXCLUSIVE MODE;
SELECT inline_reason, num_rows FROM peek_status(peek_submit('t', options => '{"enable_offload": true}'));
ROLLBACK;
-- a lock on another table is none, and one for reading is none
BEGIN;
LOCK TABLE other IN ROW EXCLUSIVE MODE;
LOCK TABLE t IN ROW SHARE MODE;
SELECT peek_submit('t', options => bg(1)) = h(1);
SELECT peek_wait(h(1));
ROLLBACK;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT error($$SELECT peek_submit('t', options => '{"background": true}')$$);
SELECT inline_reason, num_rows FROM peek_status(peek_submit('t', options => '{"enable_offload": true}'));
ROLLBACK;
SELECT error($$SELECT peek_submit('mine', options => '{"background": true}')$$);
SELECT inline_reason, num_rows FROM peek_status(peek_submit('mine', options => '{"enable_offload": true}'));
SELECT error($$SELECT peek_submit('t', filter => 'unsafe(k)', options => '{"background": true}')$$);
SELECT inline_reason, num_rows FROM peek_status(peek_submit('t', filter => 'unsafe(k)', options => '{"enable_offload": true}'));
SELECT inline_reason, num_rows FROM peek_status(peek_submit('t', filter => 'restricted(k)', options => '{"enable_offload": true}'));
SELECT inline_reason, num_rows FROM peek_status(peek_submit('t', order_by => 'restricted(k)', options => '{"enable_offload": true}'));
SELECT inline_reason, num_rows FROM peek_status(peek_submit('odd_key', options => '{"enable_offload": true}'));
SELECT inline_reason, num_rows FROM peek_status(peek_submit('odd_part', options => '{"enable_offload": true}'));
SELECT peek_submit('t', filter => 'safe(k)', order_by => 'safe(k), k', options => bg(1)) = h(1);
SELECT peek_wait(h(1));
SELECT driver FROM peek_status(h(1));
-- a function that is replaced by what it says is not called
SELECT peek_submit('t', filter => 'inlined(k)', options => bg(5)) = h(5);
SELECT peek_wait(h(5));
SELECT driver, num_rows FROM peek_status(h(5));
-- the client's handle replaces an answer that has expired
SELECT peek_submit('t', options => o(2)) = h(2);
UPDATE peekstash.outcome SET expires_at = now() - interval '1 s' WHERE handle = h(2);
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT peek_submit('t', options => o(2, '{"enable_offload": true}')) = h(2);
SELECT inline_reason, num_rows FROM peek_status(h(2));
COMMIT;
UPDATE peekstash.outcome SET expires_at = now() - interval '1 s' WHERE handle = h(2);
SELECT error($$SELECT peek_submit('t', options => bg(2))$$);
-- likewise where the submit would sweep it
BEGIN;
SELECT peek_submit('t', options => o(2, '{"enable_offload": true}')) = h(2);
SELECT peek_wait(h(2), '5 s');
SELECT inline_reason, num_rows FROM peek_status(h(2));
COMMIT;
-- a sort that has gone to disk before the budget was spent cannot move; one
-- that begins in the worker may do so there
SET work_mem = '64kB';
SELECT peek_submit('wide', order_by => 'k % 7, k', options => o(3, '{"enable_offload": true, "inline_budget": 1000}')) = h(3);
SELECT inline_reason, num_rows FROM peek_status(h(3));
SELECT peek_submit('wide', order_by => 'k % 7, k', options => bg(4)) = h(4);
SELECT peek_wait(h(4));
SELECT driver, num_rows FROM peek_status(h(4));
SELECT (SELECT array_agg(w) FROM peek_fetch(NULL::wide, h(3)) w) = (SELECT array_agg(w) FROM peek_fetch(NULL::wide, h(4)) w);
RESET work_mem;
SELECT count(peek_release(handle)) FROM peekstash.peeks;
CALL settle();

-- Where orphans of a restart, or of another installation, may still be, their
-- sweep must come first; REPEATABLE READ does not sweep
SELECT current_database() AS here \gset
CREATE DATABASE regress_peek_offload;
\c regress_peek_offload
CREATE EXTENSION peekstash;
CREATE TABLE t AS SELECT generate_series(1, 2000) AS k;
ALTER TABLE t ADD PRIMARY KEY (k);
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT inline_reason, num_rows FROM peek_status(peek_submit('t', options => '{"enable_offload": true}'));
ROLLBACK;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT peek_submit('t', options => '{"background": true}');
ROLLBACK;
SELECT peek_submit('t', options => '{"background": true}') AS u \gset
SELECT peek_wait(:'u');
\c :here
DROP DATABASE regress_peek_offload WITH (FORCE);
SET search_path = offload_test, test, public;

-- Errors are those of a walk in the session: state, message, detail
CREATE FUNCTION outcome(n int, OUT waited text, OUT state text, OUT sqlstate text, OUT error text, OUT driver text, OUT positions bigint, OUT fetched text) LANGUAGE plpgsql AS $$
BEGIN
	waited := peek_wait(h(n));
	SELECT s.state, s.sqlstate, s.error, s.driver, s.positions INTO state, sqlstate, error, driver, positions FROM peek_status(h(n)) s;
	BEGIN
		fetched := test.error(format('SELECT * FROM peek_fetch_record(%L) AS r(k int, v text)', h(n)));
	EXCEPTION WHEN query_canceled THEN
		fetched := SQLSTATE || ': ' || SQLERRM;
	END;
END $$;
SELECT error($$SELECT peek_submit('t', filter => '1 / (k - 1500) < 9')$$);
SELECT peek_submit('t', filter => '1 / (k - 1500) < 9', options => bg(1)) = h(1);
SELECT * FROM outcome(1);
SELECT peek_submit('t', filter => '1 / (k - 1500) < 9', options => o(2, '{"enable_offload": true, "stash_threshold": 0, "stash_batch_size": 500}')) = h(2);
SELECT * FROM outcome(2);
SELECT stored_bytes > 0, batches, num_rows, (SELECT count(*) FROM peekstash.batch WHERE worker > 0) FROM peek_status(h(2));
-- the cap, at the same row: 2000 rows are 64000 bytes
SELECT error($$SELECT peek_submit('t', options => '{"max_result_size": "62kB"}')$$);
SELECT peek_submit('t', options => bg(3, '{"max_result_size": "62kB"}')) = h(3);
SELECT * FROM outcome(3);
SELECT peek_submit('t', options => o(4, '{"enable_offload": true, "inline_budget": 900, "max_result_size": "62kB", "stash_threshold": 1000}')) = h(4);
SELECT * FROM outcome(4);
SELECT peek_submit('t', options => bg(5, '{"max_result_size": "63kB"}')) = h(5);
SELECT waited, positions, fetched FROM outcome(5);
-- positions count on through the hand-over: L pass, L + 1 fail
SELECT error($$SELECT peek_submit('t', options => '{"row_iteration_limit": 1999}')$$);
SELECT peek_submit('t', options => o(6, '{"enable_offload": true, "inline_budget": 900, "row_iteration_limit": 1999}')) = h(6);
SELECT * FROM outcome(6);
SELECT peek_submit('t', options => o(7, '{"enable_offload": true, "inline_budget": 900, "row_iteration_limit": 2000}')) = h(7);
SELECT waited, positions, fetched FROM outcome(7);
-- a detail, and a function that says what it likes
CREATE FUNCTION complain(int) RETURNS bool LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
BEGIN
	IF $1 = 1200 THEN
		RAISE 'no more' USING ERRCODE = 'PK001', DETAIL = 'It is ' || $1 || '.', HINT = 'Stop before.';
	END IF;
	RETURN true;
END $$;
SELECT peek_submit('t', filter => 'complain(k)', options => bg(8)) = h(8);
SELECT * FROM outcome(8);
-- a failed answer is there until it is released, and can be submitted again
SELECT peek_submit('t', filter => 'complain(k)', options => bg(8)) = h(8);
SELECT error($$SELECT peek_submit('t', options => bg(8))$$);
SELECT count(*), count(peek_release(handle)) FROM peekstash.peeks WHERE state = 'failed';
SELECT error('SELECT peek_wait(h(8))');
SELECT peek_submit('t', options => bg(8)) = h(8);
SELECT waited, fetched FROM outcome(8);
SELECT count(peek_release(handle)) FROM peekstash.peeks;
CALL settle();

-- The submitter's own transaction reads the answer at once, whatever its
-- isolation; and takes it back
BEGIN;
SELECT peek_submit('t', options => bg(1, '{"stash_threshold": 500, "stash_batch_size": 500}')) = h(1);
SELECT peek_wait(h(1));
SELECT state, kind, num_rows FROM peek_status(h(1));
SELECT count(*), sum(k) FROM peek_fetch(NULL::t, h(1));
SELECT jsonb_array_length(peek_fetch_json(h(1), 1990) -> 'rows');
ROLLBACK;
SELECT error('SELECT * FROM peek_fetch(NULL::t, h(1))');
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT peek_submit('t', options => bg(1, '{"stash_threshold": 500, "stash_batch_size": 500}')) = h(1);
SELECT peek_wait(h(1));
SELECT count(*), sum(k) FROM peek_fetch(NULL::t, h(1));
COMMIT;
SELECT count(*), sum(k) FROM peek_fetch(NULL::t, h(1));
-- and releases it: after its end, and in flight
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT peek_submit('t', options => bg(2, '{"stash_threshold": 500, "stash_batch_size": 500}')) = h(2);
SELECT peek_wait(h(2));
SELECT peek_release(h(2)), peek_release(h(2));
SELECT error('SELECT * FROM peek_fetch(NULL::t, h(2))'), error('SELECT peek_wait(h(2))');
COMMIT;
CREATE FUNCTION gate(int) RETURNS bool LANGUAGE plpgsql STABLE PARALLEL SAFE SET lock_timeout = 0 AS $$
BEGIN
	IF $1 = 1500 THEN
		PERFORM pg_advisory_xact_lock_shared(20);
	END IF;
	RETURN true;
END $$;
CREATE PROCEDURE at_gate() LANGUAGE plpgsql AS $$
BEGIN
	COMMIT;
	FOR i IN 1 .. 6000 LOOP
		EXIT WHEN EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = 20 AND NOT granted);
		PERFORM pg_sleep(0.01);
	END LOOP;
	RAISE NOTICE 'a worker waits at the gate: %', EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = 20 AND NOT granted);
END $$;
SELECT pg_advisory_lock(20) \g /dev/null
SELECT peek_submit('t', filter => 'gate(k)', options => bg(3, '{"stash_threshold": 0, "yield_granularity": 100}')) = h(3);
-- the same request again is the same peek, walked once; another is not
SELECT peek_submit('t', filter => 'gate(k)', options => bg(3, '{"stash_threshold": 0, "yield_granularity": 100}')) = h(3);
SELECT error($$SELECT peek_submit('t', options => bg(3))$$);
CALL at_gate();
SELECT peek_wait(h(3), '10 ms');
SELECT error('SELECT * FROM peek_fetch(NULL::t, h(3))');
SELECT state, phase, kind, driver, workers, positions, num_rows, estimated_positions, finished_at FROM peek_status(h(3));
SELECT state, phase, kind, driver, workers, positions, num_rows, estimated_positions, finished_at FROM peekstash.peeks WHERE handle = h(3);
SELECT peek_release(h(3));
SELECT error('SELECT peek_wait(h(3))'), peek_cancel(h(3)), peek_release(h(3));
-- in a transaction that takes the release back the walk goes on
BEGIN;
SELECT peek_submit('t', filter => 'gate(k)', options => bg(4)) = h(4);
SAVEPOINT s;
SELECT peek_release(h(4));
SELECT error('SELECT peek_wait(h(4))');
ROLLBACK TO s;
COMMIT;
SELECT pg_advisory_unlock(20);
SELECT peek_wait(h(4));
SELECT count(*) FROM peek_fetch(NULL::t, h(4));
-- a savepoint that is rolled back takes the walk with it, one that is released
-- does not
SELECT pg_advisory_lock(20) \g /dev/null
BEGIN;
SAVEPOINT s;
SELECT peek_submit('t', filter => 'gate(k)', options => bg(5)) = h(5);
ROLLBACK TO s;
SELECT error('SELECT peek_wait(h(5))');
COMMIT;
SELECT pg_advisory_unlock(20);
BEGIN;
SAVEPOINT s;
SELECT peek_submit('t', options => bg(5)) = h(5);
SELECT peek_wait(h(5));
ROLLBACK TO s;
SELECT error('SELECT * FROM peek_fetch(NULL::t, h(5))');
COMMIT;
BEGIN;
SAVEPOINT s;
SELECT peek_submit('t', options => bg(6)) = h(6);
RELEASE s;
COMMIT;
SELECT peek_wait(h(6));
SELECT count(*) FROM peek_fetch(NULL::t, h(6));
-- PREPARE would leave it to nobody
BEGIN;
SELECT peek_submit('t', options => bg(7)) = h(7);
PREPARE TRANSACTION 'offload';
-- cancelled in flight
SELECT pg_advisory_lock(20) \g /dev/null
SELECT peek_submit('t', filter => 'gate(k)', options => bg(8, '{"stash_threshold": 0, "yield_granularity": 100}')) = h(8);
CALL at_gate();
SELECT peek_cancel(h(8));
SELECT * FROM outcome(8);
CALL settle();
SELECT peek_cancel(h(8));
SELECT pg_advisory_unlock(20);
-- what is left is what was kept
SELECT count(*) FROM peekstash.handle;
SELECT count(*) FROM peekstash.outcome WHERE handle NOT IN (SELECT handle FROM peekstash.handle);
SELECT count(*) FROM peekstash.batch WHERE handle NOT IN (SELECT handle FROM peekstash.outcome WHERE state = 'done');
SELECT stash_bytes = (SELECT sum(stored_bytes) FROM peekstash.outcome) FROM peekstash.stat;
SELECT count(peek_release(handle)) FROM peekstash.peeks;

-- The worker is the submitter, as far as a filter can tell: times, roles,
-- settings; search_path is that of the parse
SET ROLE regress_peek_offload;
SET offload.word = 'said here';
SET TimeZone = 'Asia/Kolkata';
SET DateStyle = 'German';
SET IntervalStyle = 'iso_8601';
BEGIN;
SET LOCAL extra_float_digits = -10;
SELECT peek_submit('t', filter => $$now()::text = $1 AND statement_timestamp() >= now()
	AND current_user = $2 AND session_user = $3 AND current_setting('role') = $2 AND current_setting('offload.word') = 'said here'
	AND now()::text ~ ' IST$' AND (k * interval '1 day')::text = 'P' || k || 'D' AND pi()::text = $4$$,
	args => ARRAY[now()::text, current_user, session_user, pi()::text], options => bg(1)) = h(1);
SELECT peek_wait(h(1));
SELECT driver, num_rows, error FROM peek_status(h(1));
COMMIT;
RESET TimeZone;
RESET DateStyle;
RESET IntervalStyle;
RESET ROLE;
CREATE SCHEMA offload_other;
GRANT USAGE ON SCHEMA offload_other TO PUBLIC;
CREATE FUNCTION offload_other.word() RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$SELECT 'other'::text$$;
CREATE FUNCTION word() RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$SELECT 'word'::text$$;
CREATE FUNCTION find_word(int) RETURNS text LANGUAGE plpgsql STABLE PARALLEL SAFE AS 'BEGIN RETURN word(); END';
SET search_path = offload_other, offload_test, test, public;
SELECT peek_submit('t', filter => $$word() = 'other' AND find_word(k) = 'other' AND current_schema = 'offload_other'$$, options => bg(2)) = h(2);
SELECT peek_wait(h(2));
SELECT driver, num_rows, error FROM peek_status(h(2));
SET search_path = offload_test, test, public;

-- Counters: what has ended is counted once, what was cancelled elsewhere
CALL settle();
SELECT peekstash_stat_reset();
SELECT peek_submit('t', options => bg(10)) = h(10);
SELECT peek_submit('t', options => bg(11, '{"stash_threshold": 0}')) = h(11);
SELECT peek_submit('t', options => o(12, '{"enable_offload": true, "inline_budget": 900, "stash_threshold": 0, "stash_batch_size": 6400, "stash_compression": "none"}')) = h(12);
SELECT peek_submit('t', filter => '1 / (k - 1500) < 9', options => bg(13)) = h(13);
SELECT peek_submit('t', options => o(14)) = h(14);
SELECT count(peek_wait(h(n))) FROM generate_series(10, 14) n;
CALL settle();
SELECT walks_inline, walks_offloaded, answers_memory, answers_stashed, answers_failed, answers_cancelled, permits_in_use, permit_queue_depth, slots_in_use FROM peekstash.stat;
-- the tails are stored in the outcomes and count with the rest
SELECT sum(s.num_rows) = max(c.rows) AS rows, sum(s.positions) = max(c.positions) AS positions, sum(s.answer_bytes) = max(c.answer_bytes) AS answer_bytes,
	sum(s.batches) = max(c.batches_written) AS batches, sum(s.stored_bytes) = max(c.stored_bytes) AS stored_bytes
	FROM peekstash.stat c, generate_series(10, 14) n, peek_status(h(n)) s;
-- histograms are cumulative; each phase of a peek is one observation, however
-- many slices it had; a failed one has queued and walked
CREATE FUNCTION phases() RETURNS TABLE (phase text, observed bigint, cumulative bool, adds_up bool) LANGUAGE sql AS $$
	SELECT phase, max(count) FILTER (WHERE le = 'Infinity'), bool_and(count >= before AND (le < 'Infinity' OR count = total)),
		abs(max(sum_seconds) - (SELECT CASE phase WHEN 'queue' THEN queue_seconds WHEN 'walk' THEN walk_seconds WHEN 'write' THEN write_seconds ELSE read_seconds END FROM peekstash.stat)) < 0.000001
	FROM (SELECT *, lag(count, 1, 0::bigint) OVER w AS before, max(count) OVER (PARTITION BY phase) AS total
		FROM peekstash.stat_phase WINDOW w AS (PARTITION BY phase ORDER BY le)) p
	GROUP BY phase ORDER BY phase $$;
SELECT * FROM phases();
SELECT count(*) FROM peek_fetch(NULL::t, h(12), 900, 200);
SELECT phase, observed, adds_up FROM phases() WHERE phase = 'read';
-- one that was admitted, and cancelled then: it has queued, but not walked
SELECT pg_advisory_lock(20) \g /dev/null
SELECT peek_submit('t', filter => 'gate(k)', options => bg(15)) = h(15);
CALL at_gate();
SELECT permits_in_use, permit_queue_depth, slots_in_use FROM peekstash.stat;
SELECT peek_cancel(h(15));
SELECT peek_wait(h(15));
SELECT pg_advisory_unlock(20);
CALL settle();
SELECT walks_inline, walks_offloaded, answers_memory, answers_stashed, answers_failed, answers_cancelled, permits_in_use, permit_queue_depth, slots_in_use FROM peekstash.stat;
SELECT phase, observed FROM phases() WHERE phase IN ('queue', 'walk');
-- and one whose transaction is rolled back
SELECT pg_advisory_lock(20) \g /dev/null
BEGIN;
SELECT peek_submit('t', filter => 'gate(k)', options => bg(16)) = h(16);
ROLLBACK;
CALL settle();
SELECT pg_advisory_unlock(20);
SELECT walks_inline, walks_offloaded, answers_memory, answers_stashed, answers_failed, permits_in_use, permit_queue_depth, slots_in_use FROM peekstash.stat;
SELECT count(peek_release(handle)) FROM peekstash.peeks;
CALL settle();
SELECT count(*) FROM peekstash.batch;

SET client_min_messages = warning;
DROP SCHEMA offload_test, offload_other CASCADE;
DROP ROLE regress_peek_offload;
