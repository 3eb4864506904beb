--
-- Privileges: what a role must be allowed to read, and as whom user code runs.
--
\set ECHO none
\getenv srcdir PG_ABS_SRCDIR
\set helpers :srcdir '/helpers.sql'
\i :helpers
\set ECHO all
CREATE SCHEMA privileges_test;
SET search_path = privileges_test, test, public;
CREATE ROLE regress_peek_owner;
CREATE ROLE regress_peek_user;
CREATE ROLE regress_peek_other;
CREATE ROLE regress_peek_bypass BYPASSRLS;
GRANT ALL ON SCHEMA privileges_test TO PUBLIC;

SET ROLE regress_peek_owner;
CREATE TABLE t (id int PRIMARY KEY, a int, b int, secret text);
INSERT INTO t SELECT i, i % 4, i % 3, 'secret ' || i FROM generate_series(1, 12) i;
CREATE INDEX t_a ON t (a, id);
CREATE INDEX t_secret ON t (secret);
CREATE INDEX t_a_secret ON t (a, secret);
CREATE INDEX t_include ON t (a) INCLUDE (secret);
CREATE INDEX t_lower ON t (lower(secret));
CREATE INDEX t_partial ON t (id) WHERE secret > 'secret 5';
RESET ROLE;

-- No right at all (42501), as core says it
SET ROLE regress_peek_user;
SELECT error('t', 'NULL');
SELECT error('t', $$'t_a', key => 1$$);
SELECT error($$SELECT * FROM peek_record('t', '{id}') AS r(id int)$$);
SELECT error('SELECT * FROM t');
-- also where no row is asked for
SELECT error('t', 'row_limit => 0');
SELECT error('t', 'key => NULL');
CREATE TYPE z AS ();
SELECT error($$SELECT * FROM peek(NULL::z, 't')$$);
-- and the schema's
RESET ROLE;
REVOKE USAGE ON SCHEMA privileges_test FROM PUBLIC;
SET ROLE regress_peek_user;
SELECT test.error($$SELECT * FROM public.peek_record('privileges_test.t', '{id}') AS r(id int)$$);
RESET ROLE;
GRANT USAGE ON SCHEMA privileges_test TO PUBLIC;

-- The whole table
GRANT SELECT ON t TO regress_peek_user;
SET ROLE regress_peek_user;
SELECT same('t', $$'t_secret', lower => 'secret 7'$$, $$WHERE secret >= 'secret 7' ORDER BY secret$$);
RESET ROLE;
REVOKE SELECT ON t FROM regress_peek_user;
-- a right to write is no right to read
GRANT INSERT, UPDATE, DELETE ON t TO regress_peek_user;
SET ROLE regress_peek_user;
SELECT left(error('t', 'NULL'), 5);
RESET ROLE;
REVOKE ALL ON t FROM regress_peek_user;

-- Some columns: all that are returned, or named in filter or order_by, or that
-- the walk reads: key columns, expressions and predicate of the index
GRANT SELECT (id, a) ON t TO regress_peek_user;
SET ROLE regress_peek_user;
CREATE TYPE open AS (id int, a int);
SELECT * FROM peek(NULL::open, 't_a', key => 1);
SELECT * FROM peek_record('t_a', '{id}', key => 1) AS r(id int);
SELECT * FROM peek_record('t', '{a}', filter => 'a + id = 6', order_by => 'a') AS r(a int);
SELECT count(*) FROM peek(NULL::z, 't');
-- returned
SELECT left(error('t', $$'t_a'$$), 5);
SELECT left(error($$SELECT * FROM peek_record('t_a', '{id,secret}') AS r(id int, s text)$$), 5);
-- also a column that the query throws away
SELECT left(error($$SELECT id FROM peek(NULL::t, 't_a')$$), 5);
-- filter
SELECT left(error('open', $$'t', filter => 'b = 1'$$), 5);
SELECT left(error('open', $$'t', filter => 'id = 1 OR secret IS NULL'$$), 5);
SELECT left(error('open', $$'t', filter => 'false AND secret = $1', args => '{x}'$$), 5);
SELECT left(error('open', $$'t', filter => 't IS NULL'$$), 5);
SELECT left(error('open', $$'t', filter => '(t).id = 1'$$), 5);
-- order_by
SELECT left(error('open', $$'t', order_by => 'secret'$$), 5);
SELECT left(error('open', $$'t', order_by => 'id, length(secret)'$$), 5);
SELECT left(error('open', $$'t', order_by => 't'$$), 5);
-- key columns of the index, whether bounded or not
SELECT left(error('open', $$'t_secret'$$), 5);
SELECT left(error('open', $$'t_secret', key => 'secret 1'$$), 5);
SELECT left(error('open', $$'t_a_secret', key => 1$$), 5);
-- expression, predicate
SELECT left(error('open', $$'t_lower'$$), 5);
SELECT left(error('open', $$'t_partial'$$), 5);
-- not the INCLUDE columns: they are read only when they are asked for
SELECT count(*) FROM peek(NULL::open, 't_include', key => 1);
SELECT left(error('open', $$'t_include', filter => 'secret > $1', args => '{x}'$$), 5);
-- a column that is dropped meanwhile is nobody's
RESET ROLE;
ALTER TABLE t DROP COLUMN b;
SET ROLE regress_peek_user;
SELECT count(*) FROM peek(NULL::open, 't_a');
RESET ROLE;

-- Rights are looked at in each call, and are the current role's
SET ROLE regress_peek_user;
PREPARE p AS SELECT count(*) FROM peek(NULL::open, 't_a');
EXECUTE p;
SET ROLE regress_peek_other;
EXECUTE p;
SET ROLE regress_peek_owner;
EXECUTE p;
RESET ROLE;
REVOKE SELECT (id) ON t FROM regress_peek_user;
SET ROLE regress_peek_user;
EXECUTE p;
RESET ROLE;
GRANT SELECT (id) ON t TO regress_peek_user;
DEALLOCATE p;

-- SECURITY DEFINER: the definer's rights inside, the caller's outside
SET ROLE regress_peek_owner;
CREATE FUNCTION definer() RETURNS bigint LANGUAGE sql SECURITY DEFINER SET search_path = public
	AS $$SELECT count(*) FROM peek(NULL::privileges_test.t, key => 3)$$;
CREATE FUNCTION invoker() RETURNS bigint LANGUAGE sql SET search_path = public
	AS $$SELECT count(*) FROM peek(NULL::privileges_test.t, key => 3)$$;
SET ROLE regress_peek_other;
SELECT definer();
SELECT error('SELECT invoker()');
RESET ROLE;

-- Views: a peek inside of a view has the rights of who reads it, whatever the
-- view says
SET ROLE regress_peek_owner;
CREATE VIEW v AS SELECT id FROM peek(NULL::t, 't_a', key => 1);
CREATE VIEW v_invoker WITH (security_invoker) AS SELECT id FROM peek(NULL::t, 't_a', key => 1);
GRANT SELECT ON v, v_invoker TO PUBLIC;
SELECT * FROM v;
SET ROLE regress_peek_other;
SELECT error('SELECT * FROM v');
SELECT error('SELECT * FROM v_invoker');
RESET ROLE;

-- A role has the rights of the roles it is a member of
GRANT regress_peek_owner TO regress_peek_other;
SET ROLE regress_peek_other;
SELECT count(*) FROM peek(NULL::t);
RESET ROLE;
REVOKE regress_peek_owner FROM regress_peek_other;

-- Row-level security: refused, never passed by (0A000); with row_security off
-- as well
SET ROLE regress_peek_owner;
CREATE TABLE r (id int PRIMARY KEY, who name);
INSERT INTO r VALUES (1, 'regress_peek_user'), (2, 'regress_peek_other'), (3, 'regress_peek_user');
GRANT SELECT ON r TO PUBLIC;
CREATE POLICY own ON r USING (who = current_user);
ALTER TABLE r ENABLE ROW LEVEL SECURITY;
SET ROLE regress_peek_user;
SELECT error('r', 'NULL');
SELECT error('r', 'key => 1');
SELECT error($$SELECT * FROM peek_record('r_pkey', '{id}') AS r(id int)$$);
SELECT left(error('r', 'key => NULL'), 5);
SET row_security = off;
SELECT error('r', 'NULL');
RESET row_security;
-- the owner is not subject to policies, unless FORCE says so
SET ROLE regress_peek_owner;
SELECT same('r', 'NULL', 'ORDER BY id');
ALTER TABLE r FORCE ROW LEVEL SECURITY;
SELECT left(error('r', 'NULL'), 5);
SET row_security = off;
SELECT left(error('r', 'NULL'), 5);
RESET row_security;
-- BYPASSRLS, with both settings; a superuser
SET ROLE regress_peek_bypass;
SELECT same('r', 'NULL', 'ORDER BY id');
SET row_security = off;
SELECT same('r', 'NULL', 'ORDER BY id');
RESET row_security;
RESET ROLE;
SELECT same('r', 'NULL', 'ORDER BY id');
-- who bypasses does so in its own functions only
SET ROLE regress_peek_bypass;
CREATE FUNCTION bypass() RETURNS bigint LANGUAGE sql SECURITY DEFINER SET search_path = public
	AS 'SELECT count(*) FROM peek(NULL::privileges_test.r)';
SET ROLE regress_peek_user;
SELECT bypass();
SELECT left(error('r', 'NULL'), 5);
-- policies that are not enabled do nothing
SET ROLE regress_peek_owner;
ALTER TABLE r DISABLE ROW LEVEL SECURITY;
SET ROLE regress_peek_user;
SELECT same('r', 'NULL', 'ORDER BY id');
RESET ROLE;

-- User code runs as the caller (trap 18): a function in filter, in order_by,
-- a constant that is computed once, the check of a domain, the function of an
-- index expression, all of them the owner's
SET ROLE regress_peek_owner;
CREATE FUNCTION who(int) RETURNS int LANGUAGE plpgsql STABLE COST 1000 AS $$
BEGIN
	IF $1 <= 1 THEN
		RAISE NOTICE '% runs as % for %', 'who', current_user, session_user;
	END IF;
	RETURN $1;
END $$;
CREATE FUNCTION checked(int) RETURNS bool LANGUAGE plpgsql STABLE AS $$
BEGIN
	RAISE NOTICE 'check runs as %', current_user;
	RETURN true;
END $$;
CREATE DOMAIN watched AS int CHECK (checked(VALUE));
CREATE FUNCTION keyed(int) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
	RETURN current_user || $1;
END $$;
CREATE INDEX t_keyed ON t (keyed(id));
SET ROLE regress_peek_user;
SELECT id FROM peek(NULL::open, 't', key => 1, filter => 'who(id) = 1');
SELECT id FROM peek(NULL::open, 't', key => 1, order_by => 'who(id)');
SELECT id FROM peek(NULL::open, 't', filter => 'id = who(1)');
SELECT id FROM peek(NULL::open, 't', filter => 'id = $1::watched', args => '{1}');
SELECT id FROM peek(NULL::open, 't', key => 1, filter => 'keyed(id) = $1', args => ARRAY[current_user || '1']);
-- the stored key was made by who wrote the row
SELECT id FROM peek(NULL::open, 't_keyed', key => 'regress_peek_owner1');
RESET ROLE;

-- A function without the right to EXECUTE it (42501), also if it is only
-- computed once, or if no row is left for it
SET ROLE regress_peek_owner;
CREATE FUNCTION hidden(int) RETURNS int LANGUAGE plpgsql STABLE AS 'BEGIN RETURN $1; END';
REVOKE EXECUTE ON FUNCTION hidden(int) FROM PUBLIC;
SET ROLE regress_peek_user;
SELECT error('open', $$'t', filter => 'hidden(id) = 1'$$);
SELECT error('open', $$'t', filter => 'id = hidden(1)'$$);
SELECT error('open', $$'t', order_by => 'hidden(id)'$$);
SELECT error('open', $$'t', key => 0, filter => 'hidden(id) = 1'$$);
RESET ROLE;
-- or if the index has its values
REVOKE EXECUTE ON FUNCTION keyed(int) FROM PUBLIC;
SET ROLE regress_peek_user;
SELECT error('open', $$'t_keyed', filter => 'keyed(id) = $1', args => '{x}'$$);
SELECT error('open', $$'t_keyed', filter => 'keyed(id) IS NULL'$$);
SELECT error('SELECT id FROM t WHERE keyed(id) = current_user');
RESET ROLE;

-- Code in a filter cannot become somebody else: not with SET or RESET ROLE,
-- which a stable function may not use, nor with set_config inside of a
-- SECURITY DEFINER function
SET ROLE regress_peek_user;
CREATE FUNCTION escape1(int) RETURNS bool LANGUAGE plpgsql STABLE AS $$BEGIN RESET ROLE; RETURN true; END$$;
CREATE FUNCTION escape2(int) RETURNS bool LANGUAGE plpgsql STABLE AS $$BEGIN PERFORM set_config('role', 'regress_peek_owner', false); RETURN true; END$$;
CREATE FUNCTION escape3(int) RETURNS bool LANGUAGE plpgsql STABLE AS $$BEGIN PERFORM set_config('session_authorization', 'regress_peek_owner', false); RETURN true; END$$;
SET ROLE regress_peek_owner;
CREATE FUNCTION definer_filter(text) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = public
	AS $$BEGIN RETURN (SELECT count(*) FROM peek(NULL::privileges_test.t, filter => $1)); END$$;
SET ROLE regress_peek_other;
SELECT error($$SELECT definer_filter('privileges_test.escape1(id)')$$);
SELECT error($$SELECT definer_filter('privileges_test.escape2(id)')$$);
SELECT error($$SELECT definer_filter('privileges_test.escape3(id)')$$);
SELECT current_user;
RESET ROLE;

-- The counters: everybody may read, nobody may reset
SET ROLE regress_peek_user;
SELECT count(*) FROM peekstash.stat;
SELECT error('SELECT peekstash_stat_reset()');
SELECT error('CREATE TABLE peekstash.mine (id int)');
RESET ROLE;
SELECT peekstash_stat_reset();
SELECT walks_inline, positions, rows FROM peekstash.stat;
SELECT count(*) FROM peek(NULL::t, key => 1);
SELECT walks_inline, answers_memory, answers_failed, answers_cancelled, positions, rows, stats_reset <= now() FROM peekstash.stat;
GRANT EXECUTE ON FUNCTION peekstash_stat_reset() TO regress_peek_user;
SET ROLE regress_peek_user;
SELECT peekstash_stat_reset();
RESET ROLE;
REVOKE EXECUTE ON FUNCTION peekstash_stat_reset() FROM regress_peek_user;

-- What PUBLIC may do, of all that the extension made (design 3.6)
SELECT p.proname, has_function_privilege('regress_peek_user', p.oid, 'EXECUTE')
	FROM pg_proc p JOIN pg_depend d ON d.objid = p.oid AND d.classid = 'pg_proc'::regclass
	JOIN pg_extension e ON e.oid = d.refobjid AND d.refclassid = 'pg_extension'::regclass
	WHERE e.extname = 'peekstash' AND p.proname IN ('peek', 'peek_record', 'peekstash_stat', 'peekstash_stat_reset') ORDER BY 1;
SELECT has_schema_privilege('regress_peek_user', 'peekstash', 'USAGE'), has_schema_privilege('regress_peek_user', 'peekstash', 'CREATE'),
	has_table_privilege('regress_peek_user', 'peekstash.stat', 'SELECT'), has_table_privilege('regress_peek_user', 'peekstash.stat', 'INSERT, UPDATE, DELETE, TRUNCATE');

SET client_min_messages = warning;
DROP SCHEMA privileges_test CASCADE;
DROP ROLE regress_peek_owner, regress_peek_user, regress_peek_other, regress_peek_bypass;
