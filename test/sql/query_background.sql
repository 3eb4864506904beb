--
-- Queries in the background: the answer is that of the query run plainly, as
-- the role and with the settings of the submitter
--
\set ECHO none
\getenv srcdir PG_ABS_SRCDIR
\set helpers :srcdir '/helpers.sql'
\i :helpers
\set ECHO all
CREATE SCHEMA background_test;
SET search_path = background_test, test, public;
CREATE TABLE t (a int PRIMARY KEY, b text NOT NULL, c int NOT NULL);
INSERT INTO t SELECT i, md5(i::text), i % 97 FROM generate_series(1, 20000) i;
CREATE VIEW v AS SELECT c, count(*) AS n, min(b) AS low FROM t GROUP BY c;
ANALYZE t;

-- in a statement of its own: what a submit has written keeps the next one here
PREPARE submit(text, text[], jsonb) AS
	SELECT peek_query($1, $2, '{"background": true}'::jsonb || $3) AS h;
CREATE FUNCTION state(h uuid) RETURNS text LANGUAGE sql AS
	$$SELECT concat_ws('|', s.state, s.kind, s.driver, s.workers, s.positions, s.num_rows, s.sqlstate, s.error) FROM peek_wait(h) w, peek_status(h) s$$;

--
-- Rows and their order
--
EXECUTE submit('SELECT * FROM t ORDER BY b', NULL, '{"stash_threshold": 10000}') \gset
SELECT state(:'h');
SELECT count(*), bool_and(r = p) FROM (SELECT f, row_number() OVER () FROM peek_fetch(NULL::t, :'h') f) r (r, i)
	JOIN (SELECT t, row_number() OVER (ORDER BY b) FROM t) p (p, i) USING (i);
EXECUTE submit('SELECT c, n, low FROM v WHERE n > $1 AND low < $2 ORDER BY c', '{206,00b}', '{}') \gset
SELECT state(:'h');
SELECT * FROM peek_fetch_record(:'h') r (c int, n bigint, low text) EXCEPT SELECT * FROM v WHERE n > 206 AND low < '00b';
EXECUTE submit('WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000) SELECT i FROM n WHERE i IN (SELECT a FROM t WHERE c = 5)', NULL, '{}') \gset
SELECT state(:'h');
SELECT array_agg(i) FROM peek_fetch_record(:'h') r (i int);
EXECUTE submit('SELECT x.a, y.b FROM t x JOIN LATERAL (SELECT b FROM t WHERE a = x.c + 1) y ON true WHERE x.a <= 3', NULL, '{}') \gset
SELECT state(:'h');
SELECT r = (SELECT b FROM t WHERE a = x + 1) AS same FROM peek_fetch_record(:'h') r (x int, r text);
EXECUTE submit('SELECT a FROM t WHERE false', NULL, '{}') \gset
SELECT state(:'h');
EXECUTE submit('SELECT FROM t WHERE a < 4', NULL, '{}') \gset
SELECT state(:'h');

--
-- The submitter's settings, role and times
--
SET TimeZone = 'Asia/Tokyo';
SET DateStyle = 'SQL, DMY';
BEGIN;
SELECT now() AS start \gset
EXECUTE submit('SELECT current_setting(''TimeZone''), now()::text, current_user::text, session_user::text', NULL, '{}') \gset
SELECT state(:'h');
SELECT z, n = :'start' AS same_time, u = current_user AS same_role, s = session_user AS same_session
	FROM peek_fetch_record(:'h') r (z text, n text, u text, s text);
COMMIT;
RESET TimeZone;
RESET DateStyle;
CREATE ROLE regress_peek_background NOLOGIN;
GRANT USAGE ON SCHEMA background_test, test TO regress_peek_background;
SET ROLE regress_peek_background;
SELECT test.error('SELECT peek_query(''SELECT * FROM t'', NULL, ''{"background": true}'')');
RESET ROLE;
GRANT SELECT ON t TO regress_peek_background;
ALTER TABLE t ENABLE ROW LEVEL SECURITY;
CREATE POLICY p ON t USING (c = 3 AND current_user = 'regress_peek_background');
SET ROLE regress_peek_background;
EXECUTE submit('SELECT count(*), min(c), max(c), current_user::text FROM t', NULL, '{}') \gset
SELECT state(:'h');
SELECT * FROM peek_fetch_record(:'h') r (n bigint, low int, high int, u text);
RESET ROLE;
ALTER TABLE t DISABLE ROW LEVEL SECURITY;

--
-- Limits and errors are those of the query
--
EXECUTE submit('SELECT 1 / (a - 15000) FROM t', NULL, '{"stash_threshold": 100}') \gset
SELECT state(:'h');
SELECT test.error(format('SELECT * FROM peek_fetch_record(%L) r (x int)', :'h'));
EXECUTE submit('SELECT b FROM t', NULL, '{"max_result_size": "64kB", "stash_threshold": 100}') \gset
SELECT state(:'h');
SELECT count(*) FROM peekstash.batch WHERE handle = :'h';
EXECUTE submit('SELECT b FROM t', NULL, '{"enable_stash": false}') \gset
SELECT state(:'h');
EXECUTE submit('SELECT b FROM t', NULL, '{"row_iteration_limit": 1}') \gset
SELECT state(:'h');

--
-- Where it cannot run in a worker it does not run
--
SELECT test.error('SELECT peek_query(''SELECT pg_backend_pid()'', NULL, ''{"background": true}'')');
CREATE TEMP TABLE mine (a int);
SELECT test.error('SELECT peek_query(''SELECT * FROM t, mine'', NULL, ''{"background": true}'')');
BEGIN;
INSERT INTO t VALUES (0, '', 0);
SELECT test.error('SELECT peek_query(''SELECT 1'', NULL, ''{"background": true}'')');
ROLLBACK;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT test.error('SELECT peek_query(''SELECT 1'', NULL, ''{"background": true}'')');
ROLLBACK;
BEGIN;
LOCK TABLE t IN ROW EXCLUSIVE MODE;
SELECT test.error('SELECT peek_query(''SELECT c FROM v'', NULL, ''{"background": true}'')');
ROLLBACK;
CREATE DOMAIN positive AS int CHECK (VALUE > 0);
SELECT test.error('SELECT peek_query(''SELECT a::positive FROM t'', NULL, ''{"background": true}'')');
SELECT test.error('SELECT * FROM peek_query_page(''SELECT 1'', NULL, 1, ''{"background": true}'')');

-- nothing is left of one that is rolled back
BEGIN;
EXECUTE submit('SELECT * FROM t', NULL, '{"stash_threshold": 0, "handle": "b0000000-0000-4000-8000-000000000001"}') \gset
SELECT state(:'h');
SELECT count(*) FROM peek_fetch(NULL::t, :'h');
ROLLBACK;
SELECT test.error(format('SELECT peek_wait(%L)', :'h'));
DO $$
BEGIN
	FOR i IN 1..600 LOOP
		EXIT WHEN (SELECT slots_in_use = 0 FROM peekstash.stat);
		PERFORM pg_sleep(0.1);
	END LOOP;
END
$$;
SELECT count(*) FROM peekstash.batch WHERE handle = :'h';
SELECT count(*) FROM peekstash.outcome WHERE handle = :'h';
SELECT stash_bytes = (SELECT sum(stored_bytes) FROM peekstash.outcome) AS adds_up, permits_in_use, permit_queue_depth FROM peekstash.stat;

SELECT count(peek_release(handle)) > 0 AS released FROM peekstash.peeks;
DROP SCHEMA background_test CASCADE;
DROP OWNED BY regress_peek_background;
DROP ROLE regress_peek_background;
