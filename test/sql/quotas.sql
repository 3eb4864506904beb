--
-- Quotas: what is stored is counted exactly, whatever made it or took it away,
-- and no answer exceeds a limit.
--
\set ECHO none
\getenv srcdir PG_ABS_SRCDIR
\set helpers :srcdir '/helpers.sql'
\i :helpers
\set ECHO all
CREATE SCHEMA quotas_test;
SET search_path = quotas_test, test, public;
GRANT USAGE ON SCHEMA quotas_test TO PUBLIC;
CREATE ROLE regress_peek_quota1;
CREATE ROLE regress_peek_quota2;
GRANT regress_peek_quota2 TO regress_peek_quota1;

CREATE FUNCTION h(n int) RETURNS uuid LANGUAGE sql IMMUTABLE AS
	$$SELECT ('c0000000-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid$$;
CREATE FUNCTION o(n int, more jsonb DEFAULT '{}') RETURNS jsonb LANGUAGE sql IMMUTABLE AS
	$$SELECT jsonb_build_object('handle', quotas_test.h(n), 'stash_compression', 'none') || more$$;
CREATE TABLE t (id int PRIMARY KEY, v text);
INSERT INTO t SELECT i, repeat('x', 1000) FROM generate_series(1, 2000) i;
GRANT SELECT ON t TO PUBLIC;
CREATE FUNCTION submit(n int, rows int, more jsonb DEFAULT '{}') RETURNS bool LANGUAGE sql AS
	$$SELECT peek_submit('quotas_test.t', row_limit => rows, options => quotas_test.o(n, more)) = quotas_test.h(n)$$;
-- to the stash; in memory
\set stash '{"stash_threshold": 0}'
\set memory '{"stash_threshold": "512MB", "read_batch_size": "512MB"}'

-- Nothing is kept, and the tables take no space
SELECT count(peek_release(handle)) >= 0 FROM peekstash.handle;
TRUNCATE peekstash.handle, peekstash.outcome, peekstash.batch;
SELECT stash_bytes, stash_disk_bytes FROM peekstash.stat;

-- What is counted, less what this session sees in the tables; and whether the
-- outcomes say what the payloads are
CREATE FUNCTION counted() RETURNS text LANGUAGE sql AS $$
	SELECT CASE WHEN s.stash_bytes = o.bytes + b.direct THEN 'exact' ELSE format('%s more', s.stash_bytes - o.bytes - b.direct) END ||
		CASE WHEN o.bytes = o.tails + b.kept THEN '' ELSE ', outcomes are WRONG' END ||
		format(', %s kept%s', o.peeks, CASE WHEN s.stash_bytes = 0 THEN ', 0 bytes' END)
	FROM (SELECT stash_bytes FROM peekstash.stat) s,
		(SELECT count(*) AS peeks, coalesce(sum(stored_bytes), 0) AS bytes, coalesce(sum(4 + octet_length(tail_rows)), 0) AS tails FROM peekstash.outcome) o,
		(SELECT coalesce(sum(4 + octet_length(payload)) FILTER (WHERE h.handle IS NULL), 0) AS direct,
			coalesce(sum(4 + octet_length(payload)) FILTER (WHERE h.handle IS NOT NULL), 0) AS kept
			FROM peekstash.batch b LEFT JOIN peekstash.handle h USING (handle)) b;
$$;
SELECT coalesce(counted(), 'exact, 0');

-- Counted at once, before the commit and after it
BEGIN;
SELECT submit(1, 500, :'stash');
SELECT counted();
SELECT submit(2, 50, :'memory');
SELECT counted();
COMMIT;
SELECT counted();
SELECT submit(3, 0), submit(4, 2000);
SELECT counted();
SELECT stash_bytes > 2500000 AND stash_bytes < 2600000 FROM peekstash.stat;
-- a repetition stores nothing
SELECT submit(1, 500);
SELECT counted();

-- Given back right after an abort, of a statement, a transaction, a savepoint
SELECT error($$SELECT submit(10, 2000, '{"stash_threshold": 0, "row_iteration_limit": 1999}')$$);
SELECT counted();
SELECT error($$SELECT peek_submit('quotas_test.t', filter => '1 / (1999 - id) < 9', options => quotas_test.o(10, '{"stash_threshold": 0}'))$$);
SELECT counted();
BEGIN;
SELECT submit(10, 100, :'stash'), submit(11, 100, :'memory');
SELECT counted();
ROLLBACK;
SELECT counted();
BEGIN;
SELECT submit(10, 100, :'stash');
SAVEPOINT a;
SELECT submit(11, 200, :'stash');
SAVEPOINT b;
SELECT submit(12, 300, :'memory');
RELEASE b;
SELECT counted();
ROLLBACK TO a;
SELECT counted();
SAVEPOINT c;
SELECT submit(13, 400, :'stash');
RELEASE c;
RELEASE a;
SELECT counted();
COMMIT;
SELECT counted();
DO $$
BEGIN
	FOR i IN 1 .. 50 LOOP
		BEGIN
			PERFORM quotas_test.submit(20, 20, '{"stash_threshold": 0, "stash_batch_size": 1000}');
			IF i % 2 = 0 THEN RAISE division_by_zero; END IF;
			PERFORM peek_release(quotas_test.h(20));
		EXCEPTION WHEN division_by_zero THEN
		END;
	END LOOP;
END $$;
SELECT counted();

-- What is deleted is given back when that is committed: until then it may come
-- again
SELECT stored_bytes AS one FROM peekstash.outcome WHERE handle = h(1) \gset
BEGIN;
SELECT peek_release(h(1));
SELECT counted() = format('%s more, 5 kept', :one);
ROLLBACK;
SELECT counted();
BEGIN;
SAVEPOINT a;
SELECT peek_release(h(1));
ROLLBACK TO a;
SELECT counted();
SAVEPOINT b;
SELECT peek_release(h(2));
RELEASE b;
COMMIT;
SELECT counted();
SELECT peek_release(h(1));
SELECT counted();
-- submitted and released in one transaction
BEGIN;
SELECT submit(14, 500, :'stash'), peek_release(h(14)), peek_release(h(4));
COMMIT;
SELECT counted();
-- swept: by peek_sweep, and on use
UPDATE peekstash.outcome SET expires_at = now() WHERE handle = h(10);
SELECT peek_sweep() <= 1;
SELECT counted();
BEGIN;
UPDATE peekstash.outcome SET expires_at = now() - interval '1 s' WHERE handle = h(13);
SELECT submit(15, 10);
COMMIT;
SELECT counted();
-- replaced, when it has expired
BEGIN;
UPDATE peekstash.outcome SET expires_at = now() - interval '1 s' WHERE handle = h(15);
SAVEPOINT a;
SELECT submit(15, 20);
RELEASE a;
COMMIT;
SELECT counted();
-- touched or granted: nothing changes
SELECT peek_touch(h(15)) > now(), peek_grant(h(15), 'regress_peek_quota1');
SELECT counted();

-- Direct peeks count what they have in the stash, as long as they have it
BEGIN;
DECLARE c CURSOR FOR SELECT peek(NULL::t, options => '{"stash_threshold": 0}');
MOVE 1 IN c;
SELECT counted();
SELECT stash_bytes > 20000 FROM peekstash.stat;
CLOSE c;
COMMIT;
SELECT counted();
BEGIN;
DECLARE c CURSOR FOR SELECT peek(NULL::t, options => '{"stash_threshold": 0}');
MOVE FORWARD ALL IN c;
SELECT count(*) FROM peekstash.batch b WHERE NOT EXISTS (SELECT FROM peekstash.handle h WHERE h.handle = b.handle);
COMMIT;
SELECT counted();
BEGIN;
SELECT count(*) FROM (SELECT peek(NULL::t, options => '{"stash_threshold": 0}') LIMIT 3) q;
SAVEPOINT a;
SELECT count(*) FROM (SELECT peek(NULL::t, options => '{"stash_threshold": 0}') LIMIT 3) q;
SELECT counted();
ROLLBACK TO a;
SELECT counted();
ROLLBACK;
SELECT counted();
SELECT count(*) FROM peek(NULL::t, options => '{"stash_threshold": 0}');
SELECT counted();
SELECT error('t', $$options => '{"stash_threshold": 0, "row_iteration_limit": 1999}'$$);
SELECT counted();
-- and are not held to the limits from memory or from a spool
SELECT error('t', $$options => '{"stash_threshold": "512MB", "max_stash_size": 0}'$$);
SELECT error('t', $$options => '{"stash_threshold": 0, "enable_stash": false, "max_stash_size": 0}'$$);

-- The limit is exact: an answer of so many bytes fits into that many, and not
-- into a kB less, be it stashed or from memory.  TRUNCATE, because the disk that
-- deleted rows take is limited, too.
CREATE FUNCTION fits(paths text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	size bigint;
BEGIN
	PERFORM peek_release(handle) FROM peekstash.handle;
	PERFORM quotas_test.submit(30, 1500, paths::jsonb);
	size := (SELECT ceil(stored_bytes / 1024.0) FROM peekstash.outcome WHERE handle = quotas_test.h(30));
	IF size < 1400 THEN RETURN 'too small'; END IF;
	PERFORM peek_release(quotas_test.h(30));
	RETURN size;
END $$;
CREATE FUNCTION full_error(statement text) RETURNS text LANGUAGE sql AS
	$$SELECT regexp_replace(split_part(error(statement), E'\n', 1), '[0-9]+ kB', 'so many kB')$$;
SELECT fits(:'stash') AS size \gset
TRUNCATE peekstash.handle, peekstash.outcome, peekstash.batch;
SELECT counted();
SELECT error('t', $$options => '{"stash_threshold": 0, "max_stash_size": 1000, "stash_compression": "none"}'$$);
SELECT counted();
SELECT full_error(format('SELECT submit(30, 1500, %L || %L::jsonb)', :'stash'::jsonb, jsonb_build_object('max_stash_size', :size - 1)));
SELECT counted();
TRUNCATE peekstash.handle, peekstash.outcome, peekstash.batch;
SELECT submit(30, 1500, :'stash'::jsonb || jsonb_build_object('max_stash_size', :size));
SELECT counted();
-- it is full then, also for an answer from memory
SELECT full_error(format('SELECT submit(31, 1, %L || %L::jsonb)', :'stash'::jsonb, jsonb_build_object('max_stash_size', :size - 1)));
SELECT full_error(format('SELECT submit(31, 1, %L || %L::jsonb)', :'memory'::jsonb, jsonb_build_object('max_stash_size', :size - 1)));
SELECT submit(31, 1, :'memory'::jsonb || jsonb_build_object('max_stash_size', :size + 2));
-- and empty when that is released
SELECT peek_release(h(30)), peek_release(h(31));
TRUNCATE peekstash.handle, peekstash.outcome, peekstash.batch;
SELECT submit(30, 1500, :'stash'::jsonb || jsonb_build_object('max_stash_size', :size));
SELECT peek_release(h(30));
SELECT counted();
SELECT fits(:'memory') AS size \gset
TRUNCATE peekstash.handle, peekstash.outcome, peekstash.batch;
SELECT full_error(format('SELECT submit(30, 1500, %L || %L::jsonb)', :'memory'::jsonb, jsonb_build_object('max_stash_size', :size - 1)));
TRUNCATE peekstash.handle, peekstash.outcome, peekstash.batch;
SELECT submit(30, 1500, :'memory'::jsonb || jsonb_build_object('max_stash_size', :size));
SELECT peek_release(h(30));
TRUNCATE peekstash.handle, peekstash.outcome, peekstash.batch;
-- a repetition and a page of a full stash, reading, touching: all fine
SELECT submit(30, 1500, :'memory'::jsonb || jsonb_build_object('max_stash_size', :size));
SET peekstash.max_stash_size = 1000;
SELECT submit(30, 1500), peek_touch(h(30)) > now(), (SELECT count(*) FROM peek_fetch(NULL::t, h(30)));
SELECT count(*) FROM peek_page(NULL::t, row_limit => 100);
SELECT error('SELECT submit(31, 1)');
SELECT error('SELECT peek_page(NULL::t, page_rows => 99)');
-- nor is there room for an answer without rows, beyond the limit
SELECT full_error('SELECT submit(31, 0)');
RESET peekstash.max_stash_size;
SELECT submit(31, 0), peek_release(h(30));
-- disk that deleted answers still take: new ones are refused beyond twice the
-- limit, until VACUUM
SELECT stash_disk_bytes > 1500000 FROM peekstash.stat;
SELECT error('SELECT submit(30, 50, ''{"stash_threshold": 0, "max_stash_size": 100}'')');
SELECT error('SELECT submit(30, 50, ''{"max_stash_size": 100}'')');
SELECT peek_release(h(31));
TRUNCATE peekstash.handle, peekstash.outcome, peekstash.batch;
SELECT submit(30, 50, '{"stash_threshold": 0, "max_stash_size": 100}'), peek_release(h(30));

-- Limits of a session user: what one has under the role of another counts, too
SET SESSION AUTHORIZATION regress_peek_quota1;
SET search_path = quotas_test, test, public;
SELECT error($$SET peekstash.max_role_peeks = 3$$);
SELECT error($$SELECT submit(40, 1, '{"max_role_peeks": 20000}')$$);
SELECT error($$SELECT submit(40, 1, '{"max_role_peeks": 0}')$$);
SELECT submit(40, 1, '{"max_role_peeks": 3}');
SET ROLE regress_peek_quota2;
SELECT submit(41, 1, '{"max_role_peeks": 3}');
SELECT owner, charged_to FROM peek_status(h(41));
RESET ROLE;
SELECT submit(42, 1, '{"max_role_peeks": 3}');
SELECT error($$SELECT submit(43, 1, '{"max_role_peeks": 3}')$$);
SET ROLE regress_peek_quota2;
SELECT error($$SELECT submit(43, 1, '{"max_role_peeks": 3}')$$);
RESET ROLE;
-- a repetition is no further one, nor is a page that keeps nothing, nor a peek
SELECT submit(42, 1, '{"max_role_peeks": 3}');
SELECT count(*) FROM peek_page(NULL::t, row_limit => 5, options => '{"max_role_peeks": 1}');
SELECT error($$SELECT peek_page(NULL::t, row_limit => 5, page_rows => 4, options => '{"max_role_peeks": 1}')$$);
SELECT error('t', $$row_limit => 5, options => '{"max_role_peeks": 1}'$$);
-- exact after an abort, a release, a rollback of a savepoint
BEGIN;
SELECT peek_release(h(40));
SELECT error($$SELECT submit(43, 1, '{"max_role_peeks": 3}')$$);
COMMIT;
BEGIN;
SELECT submit(43, 1, '{"max_role_peeks": 3}');
ROLLBACK;
BEGIN;
SAVEPOINT a;
SELECT submit(43, 1, '{"max_role_peeks": 3}');
ROLLBACK TO a;
SELECT submit(44, 1, '{"max_role_peeks": 3}');
COMMIT;
SELECT left(error($$SELECT submit(43, 1, '{"max_role_peeks": 3}')$$), 39);
SELECT submit(43, 1, '{"max_role_peeks": 4}');
-- others are not affected
SET SESSION AUTHORIZATION regress_peek_quota2;
SET search_path = quotas_test, test, public;
SELECT submit(45, 1, '{"max_role_peeks": 1}');
SELECT left(error($$SELECT submit(46, 1, '{"max_role_peeks": 1}')$$), 39);
RESET SESSION AUTHORIZATION;
-- who releases it does not matter
SELECT peek_release(h(45));
SET SESSION AUTHORIZATION regress_peek_quota2;
SELECT quotas_test.submit(46, 1, '{"max_role_peeks": 1}');
RESET SESSION AUTHORIZATION;
UPDATE peekstash.outcome SET expires_at = now() - interval '1 s' WHERE handle = h(46);
SELECT peek_sweep() <= 1;
SET SESSION AUTHORIZATION regress_peek_quota2;
SELECT quotas_test.submit(47, 1, '{"max_role_peeks": 1}');
RESET SESSION AUTHORIZATION;
SELECT counted();
SELECT count(*) FROM peekstash.handle WHERE NOT peek_release(handle);
SELECT counted();

-- Bytes of a session user
SET SESSION AUTHORIZATION regress_peek_quota1;
SET search_path = quotas_test, test, public;
SELECT submit(50, 60, '{"stash_threshold": 0, "max_role_stash_size": 100}');
SELECT error($$SELECT submit(51, 60, '{"stash_threshold": 0, "max_role_stash_size": 100}')$$);
SET ROLE regress_peek_quota2;
SELECT error($$SELECT submit(51, 60, '{"max_role_stash_size": 100}')$$);
RESET ROLE;
SELECT submit(51, 60, '{"max_role_stash_size": 200}');
SELECT error('t', $$options => '{"stash_threshold": 0, "max_role_stash_size": 200, "stash_compression": "none"}'$$);
SET SESSION AUTHORIZATION regress_peek_quota2;
SET search_path = quotas_test, test, public;
SELECT submit(52, 60, '{"stash_threshold": 0, "max_role_stash_size": 100}');
RESET SESSION AUTHORIZATION;
SELECT counted();
SELECT peek_release(h(50));
SET SESSION AUTHORIZATION regress_peek_quota1;
SELECT quotas_test.submit(53, 30, '{"stash_threshold": 0, "max_role_stash_size": 100}');
RESET SESSION AUTHORIZATION;
SELECT count(*) FROM peekstash.handle WHERE NOT peek_release(handle);
SELECT counted();

--
-- A database that has counted nothing yet: what a transaction has in it when
-- the counting begins is counted once
--
SELECT current_database() AS here \gset
CREATE DATABASE regress_peek_quota;
\c regress_peek_quota
SET client_min_messages = warning;
CREATE EXTENSION peekstash;
CREATE TABLE t (id int PRIMARY KEY);
INSERT INTO t SELECT generate_series(1, 100);
CREATE FUNCTION counted() RETURNS bigint LANGUAGE sql AS
	'SELECT stash_bytes - (SELECT coalesce(sum(stored_bytes), 0) FROM peekstash.outcome) FROM peekstash.stat';
-- no sweep, which would count first, in a savepoint
BEGIN;
SAVEPOINT a;
SELECT count(peek_submit('t', options => '{"stash_threshold": 0}'));
COMMIT;
SELECT counted();
SELECT count(peek_submit('t', options => '{"max_role_peeks": 2}'));
SELECT count(peek_submit('t', options => '{"max_role_peeks": 2}'));
SELECT count(peek_release(handle)) FROM peekstash.handle;
SELECT stash_bytes FROM peekstash.stat;
SELECT count(peek_submit('t')) FROM generate_series(1, 3);
-- in a copy of it, the first thing is a release
\c :here
CREATE DATABASE regress_peek_quota_copy TEMPLATE regress_peek_quota;
\c regress_peek_quota_copy
SELECT count(peek_release(handle)) FROM (SELECT handle FROM peekstash.handle LIMIT 1) q;
SELECT counted();
SELECT peek_sweep();
SELECT counted(), stash_bytes FROM peekstash.stat;
\c :here
DROP DATABASE regress_peek_quota_copy;
DROP DATABASE regress_peek_quota;

SET client_min_messages = warning;
DROP SCHEMA quotas_test CASCADE;
DROP ROLE regress_peek_quota1, regress_peek_quota2;
