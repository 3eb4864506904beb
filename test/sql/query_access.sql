--
-- Queries see what their role may see: privileges, row-level security, views
-- and functions of other owners, as the query run plainly.
--
\set ECHO none
\getenv srcdir PG_ABS_SRCDIR
\set helpers :srcdir '/helpers.sql'
\i :helpers
\set ECHO all
CREATE SCHEMA query_access_test;
SET search_path = query_access_test, test, public;
CREATE ROLE regress_query_owner;
CREATE ROLE regress_query_user;
CREATE ROLE regress_query_member IN ROLE regress_query_user;
CREATE ROLE regress_query_other;
CREATE ROLE regress_query_bypass BYPASSRLS;
GRANT ALL ON SCHEMA query_access_test TO PUBLIC;

-- The query run plainly, and its answer from memory and stashed: rows or error
CREATE FUNCTION seen(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	plain text;
	kept text;
	threshold text;
	u uuid;
BEGIN
	BEGIN
		EXECUTE format('SELECT coalesce(string_agg(row_to_json(q)::jsonb::text, '' ''), ''none'') FROM (%s) q', query) INTO plain;
	EXCEPTION WHEN OTHERS THEN
		plain := SQLSTATE || ': ' || SQLERRM;
	END;
	FOREACH threshold IN ARRAY '{1MB,0}'::text[] LOOP
		BEGIN
			u := peek_query(query, NULL, jsonb_build_object('stash_threshold', threshold));
			SELECT coalesce(string_agg(r::text, ' '), 'none') FROM jsonb_array_elements(peek_fetch_json(u) -> 'rows') r INTO kept;
			PERFORM peek_release(u);
		EXCEPTION WHEN OTHERS THEN
			kept := SQLSTATE || ': ' || SQLERRM;
		END;
		IF kept IS DISTINCT FROM plain THEN
			RETURN format('DIFFERENT: %s, plainly %s', kept, plain);
		END IF;
	END LOOP;
	RETURN plain;
END $$;

--
-- Privileges
--
SET ROLE regress_query_owner;
CREATE TABLE t (id int PRIMARY KEY, a int, secret text);
INSERT INTO t SELECT i, i % 2, 'secret ' || i FROM generate_series(1, 4) i;
CREATE FUNCTION not_for_all(int) RETURNS int LANGUAGE sql AS 'SELECT $1';
REVOKE EXECUTE ON FUNCTION not_for_all FROM PUBLIC;
SELECT seen('SELECT * FROM t');
SET ROLE regress_query_user;
SELECT seen('SELECT * FROM t');
SELECT seen('SELECT count(*) FROM t');
SELECT seen('SELECT 1 FROM t WHERE false');
SELECT seen('SELECT not_for_all(1)');
SELECT test.error($$SELECT * FROM peek_query_page('SELECT * FROM t')$$);
RESET ROLE;
GRANT SELECT (id, a) ON t TO regress_query_user;
SET ROLE regress_query_user;
SELECT seen('SELECT id FROM t ORDER BY a, id');
SELECT seen('SELECT id FROM t WHERE secret IS NULL');
SELECT seen('SELECT t FROM t');
SELECT seen('SELECT count(*) FROM t');
SELECT seen('SELECT id FROM t UNION SELECT a FROM t ORDER BY 1');
SET ROLE regress_query_member;
SELECT seen('SELECT max(id) FROM t');
RESET ROLE;
CREATE SCHEMA query_closed;
CREATE TABLE query_closed.t (x int);
GRANT SELECT ON query_closed.t TO PUBLIC;
SET ROLE regress_query_user;
SELECT seen('SELECT * FROM query_closed.t');
-- the schema of the stash is open, its tables are not
SELECT seen('SELECT count(*) FROM peekstash.batch');
SELECT seen('SELECT count(*) FROM peekstash.handle');
SELECT test.error($$SELECT peek_query('SELECT payload FROM peekstash.batch', NULL, '{"stash_threshold": 0}')$$);

--
-- Views and functions of another owner
--
SET ROLE regress_query_owner;
CREATE VIEW of_owner AS SELECT id, secret, current_user::text AS who FROM t;
CREATE VIEW of_invoker WITH (security_invoker) AS SELECT id, secret FROM t;
CREATE VIEW barrier WITH (security_barrier) AS SELECT id, secret FROM t WHERE id < 3;
GRANT SELECT ON of_owner, of_invoker, barrier TO regress_query_user;
CREATE FUNCTION definer() RETURNS SETOF t LANGUAGE sql SECURITY DEFINER AS 'SELECT * FROM query_access_test.t';
CREATE FUNCTION invoker() RETURNS SETOF t LANGUAGE sql SECURITY INVOKER AS 'SELECT * FROM query_access_test.t';
SET ROLE regress_query_user;
SELECT seen('SELECT * FROM of_owner ORDER BY id');
SELECT seen('SELECT * FROM of_invoker');
SELECT seen('SELECT * FROM barrier ORDER BY id');
SELECT seen('SELECT id, secret FROM definer() ORDER BY id');
SELECT seen('SELECT * FROM invoker()');
-- what leaks cannot look behind a barrier
CREATE FUNCTION leaks(text) RETURNS bool LANGUAGE plpgsql COST 0.0001 AS $$BEGIN RAISE NOTICE 'leaked: %', $1; RETURN true; END$$;
SELECT peek_fetch_json(peek_query('SELECT id FROM barrier WHERE leaks(secret)')) -> 'total';
SELECT seen('SELECT session_user = current_user AS same, current_user::text AS who');
-- a query inside of a function runs as the function does
SET ROLE regress_query_owner;
CREATE FUNCTION kept_by_definer() RETURNS uuid LANGUAGE sql SECURITY DEFINER AS
	$$SELECT public.peek_query('SELECT count(*), current_user::text AS who FROM query_access_test.t')$$;
SET ROLE regress_query_user;
SELECT kept_by_definer() AS h \gset
SELECT test.error(format('SELECT peek_fetch_json(%L)', :'h')) LIKE '42704: peek % does not exist%';
SET ROLE regress_query_owner;
SELECT peek_fetch_json(:'h');
SELECT owner FROM peek_status(:'h');

--
-- Row-level security: who sees which rows
--
RESET ROLE;
GRANT SELECT ON t TO regress_query_user, regress_query_other, regress_query_bypass;
SET ROLE regress_query_owner;
ALTER TABLE t ENABLE ROW LEVEL SECURITY;
CREATE POLICY odd ON t FOR SELECT TO regress_query_user USING (a = 1);
CREATE POLICY told ON t FOR SELECT TO regress_query_other USING (id::text = current_setting('my.id', true));
SELECT seen('SELECT id FROM t ORDER BY id');
SET ROLE regress_query_user;
SELECT seen('SELECT id FROM t ORDER BY id');
SELECT seen('SELECT count(*) FROM t x JOIN t y ON y.id >= x.id');
SELECT seen('SELECT id FROM of_owner ORDER BY id');
SELECT seen('SELECT id FROM of_invoker ORDER BY id');
SELECT seen('SELECT id FROM definer() ORDER BY id');
SELECT seen('SELECT id FROM invoker() ORDER BY id');
SELECT count(*) FROM peek_query_page('SELECT * FROM t');
-- a row that is filtered out is not shown to a function
SELECT peek_fetch_json(peek_query('SELECT id FROM t WHERE leaks(secret) ORDER BY id')) -> 'total';
-- a limit tells nothing of them
SELECT test.error($$SELECT peek_query('SELECT repeat(secret, 100) FROM t', NULL, '{"max_result_size": 2}')$$);
SET ROLE regress_query_member;
SELECT seen('SELECT id FROM t ORDER BY id');
SET ROLE regress_query_other;
SELECT seen('SELECT id FROM t ORDER BY id');
SET my.id = '2';
SELECT seen('SELECT id FROM t ORDER BY id');
SET ROLE regress_query_bypass;
SELECT seen('SELECT id FROM t ORDER BY id');
RESET ROLE;
SELECT seen('SELECT id FROM t ORDER BY id');
-- switched off means: an error rather than fewer rows
SET ROLE regress_query_user;
SET row_security = off;
SELECT seen('SELECT id FROM t ORDER BY id');
SET ROLE regress_query_bypass;
SELECT seen('SELECT id FROM t ORDER BY id');
RESET row_security;
-- the owner, forced
SET ROLE regress_query_owner;
ALTER TABLE t FORCE ROW LEVEL SECURITY;
SELECT seen('SELECT id FROM t ORDER BY id');
SET ROLE regress_query_user;
SELECT seen('SELECT id FROM of_owner ORDER BY id');
SELECT seen('SELECT id FROM definer() ORDER BY id');
SET ROLE regress_query_owner;
ALTER TABLE t NO FORCE ROW LEVEL SECURITY;

-- one session, one query, many roles, prepared: no plan of another role is used
RESET ROLE;
PREPARE p AS SELECT string_agg(r ->> 'id', ' ') FROM peek_query_page('SELECT id FROM query_access_test.t ORDER BY id');
SET ROLE regress_query_user;
EXECUTE p;
SET ROLE regress_query_other;
EXECUTE p;
SET ROLE regress_query_bypass;
EXECUTE p;
RESET ROLE;
EXECUTE p;

--
-- Handles of queries are their role's, as any
--
SET ROLE regress_query_user;
SELECT peek_query('SELECT id FROM t ORDER BY id', NULL, '{"handle": "c0000000-0000-4000-8000-000000000001"}') AS h \gset
SET ROLE regress_query_member;
SELECT peek_fetch_json(:'h') -> 'total';
SET ROLE regress_query_other;
SELECT test.error(format('SELECT peek_fetch_json(%L)', :'h')) LIKE '42704: peek % does not exist%';
SELECT left(test.error(format('SELECT peek_query(%L, NULL, %L)', 'SELECT id FROM t ORDER BY id', '{"handle": "c0000000-0000-4000-8000-000000000001"}')), 5);
SELECT count(*) FROM peekstash.peeks;
-- an answer given stays given; what was asked is seen by those who may read it
SET ROLE regress_query_user;
SELECT peek_grant(:'h', 'regress_query_other');
RESET ROLE;
REVOKE SELECT ON t FROM regress_query_user;
SET ROLE regress_query_user;
SELECT seen('SELECT secret FROM t');
SELECT peek_fetch_json(:'h') -> 'rows';
SET ROLE regress_query_other;
SELECT peek_fetch_json(:'h') -> 'rows';
SELECT request ->> 'query' FROM peekstash.peeks;

RESET ROLE;
SELECT count(peek_release(handle)) > 0 FROM peekstash.peeks;
\set ECHO none
SET client_min_messages = warning;
RESET my.id;
DROP SCHEMA query_access_test, query_closed CASCADE;
DROP ROLE regress_query_owner, regress_query_user, regress_query_member, regress_query_other, regress_query_bypass;
