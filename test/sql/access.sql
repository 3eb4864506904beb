--
-- Access: who may do what with a handle, and that it is nobody else's
-- business; as whom statements and expressions run.
--
\set ECHO none
\getenv srcdir PG_ABS_SRCDIR
\set helpers :srcdir '/helpers.sql'
\i :helpers
\set ECHO all
CREATE SCHEMA access_test;
SET search_path = access_test, test, public;
GRANT ALL ON SCHEMA access_test TO PUBLIC;
CREATE ROLE regress_peek_owner;
CREATE ROLE regress_peek_member;
CREATE ROLE regress_peek_noinherit NOINHERIT;
CREATE ROLE regress_peek_stranger;
CREATE ROLE regress_peek_granted;
CREATE ROLE regress_peek_granted_member;
CREATE ROLE regress_peek_stats;
CREATE ROLE regress_peek_signal;
CREATE ROLE regress_peek_dba;
CREATE ROLE regress_peek_super SUPERUSER;
GRANT regress_peek_owner TO regress_peek_member, regress_peek_noinherit;
GRANT regress_peek_granted TO regress_peek_granted_member;
GRANT pg_read_all_stats TO regress_peek_stats;
GRANT pg_signal_backend TO regress_peek_signal;

CREATE FUNCTION h(n int) RETURNS uuid LANGUAGE sql IMMUTABLE AS
	$$SELECT ('d0000000-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid$$;
CREATE FUNCTION o(n int, more jsonb DEFAULT '{}') RETURNS jsonb LANGUAGE sql IMMUTABLE AS
	$$SELECT jsonb_build_object('handle', access_test.h(n)) || more$$;
CREATE TABLE t (id int PRIMARY KEY, v text);
INSERT INTO t SELECT i, 'v' || i FROM generate_series(1, 10) i;
GRANT SELECT ON t TO PUBLIC;

-- All that one can ask of a handle, and the SQLSTATEs or what it says
CREATE FUNCTION asked(n int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	query text;
	said text := '';
	result text;
BEGIN
	FOREACH query IN ARRAY ARRAY[
		'fetch: SELECT count(*) FROM peek_fetch(NULL::access_test.t, %L)',
		'record: SELECT count(*) FROM peek_fetch_record(%L) AS r(id int, v text)',
		'json: SELECT peek_fetch_json(%L) -> ''total''',
		'columns: SELECT count(*) FROM peek_columns(%L)',
		'batches: SELECT count(*) FROM peek_batches(%L)',
		'status: SELECT state || coalesce('' '' || column_definitions, '''') FROM peek_status(%L)',
		'wait: SELECT peek_wait(%L)',
		'view: SELECT count(*) FROM peekstash.peeks WHERE handle = %L',
		'touch: SELECT peek_touch(%L) > now()',
		'grant: SELECT peek_grant(%L, ''regress_peek_super'') IS NULL',
		'cancel: SELECT peek_cancel(%L)',
		'release: SELECT peek_release(%L)']
	LOOP
		BEGIN
			EXECUTE format(substr(query, strpos(query, ': ') + 2), access_test.h(n)) INTO result;
			RAISE division_by_zero;
		EXCEPTION WHEN division_by_zero THEN
			NULL;
		WHEN OTHERS THEN
			result := CASE WHEN SQLERRM = format('peek "%s" does not exist', access_test.h(n)) AND SQLSTATE = '42704' THEN 'unknown' ELSE SQLSTATE || ' ' || SQLERRM END;
		END;
		said := said || split_part(query, ':', 1) || ' ' || result || ', ';
	END LOOP;
	RETURN said;
END $$;

SET ROLE regress_peek_owner;
SELECT peek_submit('t', options => o(1)) = h(1), peek_submit('t', options => o(2, '{"stash_threshold": 0, "label": "secret"}')) = h(2);
RESET ROLE;

-- An unknown handle, and mine
SELECT asked(99);
SET ROLE regress_peek_owner;
SELECT asked(1);
-- a member has all the owner's rights; without INHERIT it must become it
SET ROLE regress_peek_member;
SELECT asked(1);
SET ROLE regress_peek_noinherit;
SELECT asked(1);
-- a stranger learns nothing: the answers are those for an unknown one
SET ROLE regress_peek_stranger;
SELECT asked(1);
SELECT asked(1) = asked(99);
SELECT asked(2) = asked(99);
SELECT error('SELECT * FROM peek_fetch(NULL::t, h(1))');
SELECT error('SELECT * FROM peek_fetch(NULL::t, h(99))');
SELECT error('SELECT peek_touch(h(1))');
-- but for a submit with this very uuid
SELECT error('SELECT peek_submit(''t'', options => o(1))');
SELECT error('SELECT peek_page(NULL::t, page_rows => 1, options => o(1))');
-- also when it has expired, or cannot be read for another reason
RESET ROLE;
BEGIN;
UPDATE peekstash.outcome SET expires_at = now() - interval '1 s' WHERE handle = h(1);
SET LOCAL ROLE regress_peek_stranger;
SELECT asked(1) = asked(99);
SELECT left(error('SELECT peek_submit(''t'', options => o(1))'), 5);
ROLLBACK;
BEGIN;
UPDATE peekstash.outcome SET state = 'failed', sqlstate = '22012', error = 'secret' WHERE handle = h(1);
DELETE FROM peekstash.batch WHERE handle = h(2);
SET LOCAL ROLE regress_peek_stranger;
SELECT asked(1) = asked(99), asked(2) = asked(99);
ROLLBACK;
-- statistics: sees that it is there, and no row
SET ROLE regress_peek_stats;
SELECT asked(1);
-- who may signal backends can cancel, nothing else
SET ROLE regress_peek_signal;
SELECT asked(1) = asked(99);
-- a superuser may do all
SET ROLE regress_peek_super;
SELECT asked(1);
RESET ROLE;
-- the database's owner may release
SELECT current_database() AS here, pg_get_userbyid(datdba) AS dba FROM pg_database WHERE datname = current_database() \gset
ALTER DATABASE :"here" OWNER TO regress_peek_dba;
SET ROLE regress_peek_dba;
SELECT asked(1);
RESET ROLE;
ALTER DATABASE :"here" OWNER TO :"dba";
SET ROLE regress_peek_dba;
SELECT asked(1) = asked(99);
RESET ROLE;

-- peek_grant: reading, until it expires; members of the role read, too
SET ROLE regress_peek_owner;
SELECT peek_grant(h(1), 'regress_peek_granted');
SELECT peek_grant(h(1), 'regress_peek_granted');
SET ROLE regress_peek_granted;
SELECT asked(1);
SELECT asked(2) = asked(99);
-- not even to repeat the submit
SELECT left(error('SELECT peek_submit(''t'', options => o(1))'), 5);
SET ROLE regress_peek_granted_member;
SELECT asked(1);
SET ROLE regress_peek_stranger;
SELECT asked(1) = asked(99);
RESET ROLE;
SELECT granted FROM (SELECT ARRAY(SELECT r::regrole FROM unnest(granted) r) AS granted FROM peekstash.handle WHERE handle = h(1)) q;
SET ROLE regress_peek_owner;
SELECT error('SELECT peek_grant(h(1), ''regress_peek_nobody'')');
SELECT error('SELECT peek_grant(h(1), NULL)');
SELECT error('SELECT peek_grant(NULL, ''regress_peek_granted'')');
SELECT error('SELECT peek_grant(h(99), ''regress_peek_granted'')');
-- a member may pass it on; with a savepoint it is taken back
SET ROLE regress_peek_member;
BEGIN;
SAVEPOINT a;
SELECT peek_grant(h(2), 'regress_peek_granted');
SET LOCAL ROLE regress_peek_granted;
SELECT count(*) FROM peek_fetch(NULL::t, h(2));
ROLLBACK TO a;
SET LOCAL ROLE regress_peek_granted;
SELECT error('SELECT count(*) FROM peek_fetch(NULL::t, h(2))');
ROLLBACK;
RESET ROLE;

-- The view shows one's own, what was granted, and all to who reads statistics
SET ROLE regress_peek_stranger;
SELECT peek_submit('t', options => o(3, '{"label": "mine"}')) = h(3);
CREATE FUNCTION leak(text) RETURNS bool LANGUAGE plpgsql COST 0.0001 AS $$BEGIN RAISE NOTICE 'label %', $1; RETURN true; END$$;
SELECT handle, owner, charged_to = session_user AS charged FROM peekstash.peeks WHERE leak(label);
SELECT handle, positions, application_name IS NOT NULL FROM peekstash_in_flight() LEFT JOIN pg_stat_activity USING (pid);
SET ROLE regress_peek_granted;
SELECT handle, owner FROM peekstash.peeks ORDER BY 1;
SET ROLE regress_peek_noinherit;
SELECT handle, owner FROM peekstash.peeks ORDER BY 1;
SET ROLE regress_peek_member;
SELECT handle, owner FROM peekstash.peeks ORDER BY 1;
SET ROLE regress_peek_stats;
SELECT handle, owner, label, num_rows FROM peekstash.peeks WHERE handle BETWEEN h(1) AND h(99) ORDER BY 1;
RESET ROLE;

-- SET ROLE and SECURITY DEFINER: the role that is current when it is called
SET ROLE regress_peek_owner;
CREATE FUNCTION definer_submit(n int) RETURNS bool LANGUAGE sql SECURITY DEFINER SET search_path = public AS
	$$SELECT peek_submit('access_test.t', options => access_test.o(n)) = access_test.h(n)$$;
CREATE FUNCTION definer_count(n int) RETURNS bigint LANGUAGE sql SECURITY DEFINER SET search_path = public AS
	$$SELECT count(*) FROM peek_fetch(NULL::access_test.t, access_test.h(n))$$;
SET ROLE regress_peek_stranger;
SELECT definer_submit(4), definer_count(4), definer_count(1);
SELECT error('SELECT * FROM peek_fetch(NULL::t, h(4))');
SELECT error('SELECT definer_count(3)');
RESET ROLE;
SELECT owner, charged_to = session_user AS charged FROM peek_status(h(4));
-- a view reads with the rights of who reads it
SET ROLE regress_peek_owner;
CREATE VIEW v AS SELECT * FROM peek_fetch(NULL::t, h(1), 0, 2);
GRANT SELECT ON v TO PUBLIC;
SELECT * FROM v;
SET ROLE regress_peek_stranger;
SELECT error('SELECT * FROM v');
RESET ROLE;
-- a cursor goes on with the rights it had when it began to read
BEGIN;
SET LOCAL ROLE regress_peek_owner;
DECLARE c CURSOR FOR SELECT peek_fetch(NULL::t, h(1));
FETCH 1 FROM c;
SET LOCAL ROLE regress_peek_stranger;
FETCH 1 FROM c;
COMMIT;

-- A role that was dropped and made again is another one
CREATE ROLE regress_peek_gone;
SET ROLE regress_peek_gone;
SELECT peek_submit('t', options => o(5)) = h(5);
RESET ROLE;
CREATE ROLE regress_peek_gone2;
SET ROLE regress_peek_owner;
SELECT peek_grant(h(1), 'regress_peek_gone2');
RESET ROLE;
DROP ROLE regress_peek_gone, regress_peek_gone2;
CREATE ROLE regress_peek_gone;
CREATE ROLE regress_peek_gone2;
SET ROLE regress_peek_gone;
SELECT asked(5) = asked(99), asked(1) = asked(99);
SELECT left(error('SELECT peek_submit(''t'', options => o(5))'), 5);
SELECT count(*) FROM peekstash.peeks;
SET ROLE regress_peek_gone2;
SELECT asked(1) = asked(99);
RESET ROLE;
SELECT owner ~ '^unknown \(OID=[0-9]+\)$', state FROM peek_status(h(5));
SELECT count(*) FROM peek_fetch(NULL::t, h(5));
SELECT peek_release(h(5));
DROP ROLE regress_peek_gone, regress_peek_gone2;

-- The tables of the stash: nobody has any right on them, nor on the schema but
-- for looking at the views
SELECT c.relname, c.relkind, p, has_table_privilege('regress_peek_stranger', c.oid, p) FROM pg_class c, unnest('{SELECT,INSERT,UPDATE,DELETE,TRUNCATE,REFERENCES,TRIGGER}'::text[]) p
	WHERE relnamespace = 'peekstash'::regnamespace AND relkind IN ('r', 'v') AND has_table_privilege('regress_peek_stranger', c.oid, p) ORDER BY 1;
SELECT relname, relpersistence, relrowsecurity FROM pg_class WHERE relnamespace = 'peekstash'::regnamespace AND relkind = 'r' ORDER BY 1;
SELECT has_schema_privilege('regress_peek_stranger', 'peekstash', 'USAGE'), has_schema_privilege('regress_peek_stranger', 'peekstash', 'CREATE');
SET ROLE regress_peek_stranger;
CREATE FUNCTION trap() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE NOTICE 'trapped as %', current_user; RETURN NEW; END$$;
SELECT error(statement) FROM (VALUES ('SELECT * FROM peekstash.handle'), ('SELECT * FROM peekstash.outcome'), ('SELECT handle FROM peekstash.batch'),
	('DELETE FROM peekstash.handle'), ('UPDATE peekstash.outcome SET expires_at = ''infinity'''), ('INSERT INTO peekstash.batch SELECT'), ('TRUNCATE peekstash.batch'), ('LOCK peekstash.handle IN ACCESS SHARE MODE'),
	('CREATE TRIGGER t BEFORE INSERT ON peekstash.handle FOR EACH ROW EXECUTE FUNCTION trap()'),
	('CREATE RULE r AS ON INSERT TO peekstash.handle DO ALSO SELECT 1'),
	('CREATE POLICY p ON peekstash.handle'), ('ALTER TABLE peekstash.handle ENABLE ROW LEVEL SECURITY'),
	('CREATE INDEX ON peekstash.handle (trap())'), ('CREATE STATISTICS s ON owner, pid FROM peekstash.handle'),
	('CREATE TABLE child () INHERITS (peekstash.handle)'), ('CREATE UNLOGGED TABLE ref (h uuid REFERENCES peekstash.handle)'),
	('COMMENT ON TABLE peekstash.handle IS ''x'''),
	('CREATE VIEW peekstash.v AS SELECT 1'), ('DROP TABLE peekstash.batch'), ('ALTER VIEW peekstash.peeks RENAME TO p'), ('DROP EXTENSION peekstash')) s(statement);
-- a view of one's own over them reads nothing
CREATE VIEW spy AS SELECT * FROM peekstash.handle;
SELECT error('SELECT * FROM spy');
DROP VIEW spy;
RESET ROLE;

-- Names in the caller's search_path are not picked up by the statements that
-- run as the owner of the tables: each of these would say so
CREATE ROLE regress_peek_evil;
CREATE SCHEMA evil AUTHORIZATION regress_peek_evil;
SET ROLE regress_peek_evil;
CREATE FUNCTION evil.hit(text) RETURNS bool LANGUAGE plpgsql AS $$BEGIN RAISE NOTICE '% as %', $1, current_user; RETURN true; END$$;
CREATE FUNCTION evil.eq(uuid, uuid) RETURNS bool LANGUAGE sql AS $$SELECT evil.hit('uuid')$$;
CREATE FUNCTION evil.eq(oid, oid) RETURNS bool LANGUAGE sql AS $$SELECT evil.hit('oid')$$;
CREATE FUNCTION evil.eq(int, int) RETURNS bool LANGUAGE sql AS $$SELECT evil.hit('int')$$;
CREATE FUNCTION evil.eq(bigint, bigint) RETURNS bool LANGUAGE sql AS $$SELECT evil.hit('bigint')$$;
CREATE FUNCTION evil.eq(text, text) RETURNS bool LANGUAGE sql AS $$SELECT evil.hit('text')$$;
CREATE FUNCTION evil.eq(timestamptz, timestamptz) RETURNS bool LANGUAGE sql AS $$SELECT evil.hit('timestamptz')$$;
DO $$
DECLARE
	t text;
	op text;
BEGIN
	FOREACH t IN ARRAY '{uuid,oid,int,bigint,text,timestamptz}'::text[] LOOP
		FOREACH op IN ARRAY '{=,<>,<,<=,>,>=}'::text[] LOOP
			EXECUTE format('CREATE OPERATOR evil.%s (FUNCTION = evil.eq, LEFTARG = %s, RIGHTARG = %2$s)', op, t);
		END LOOP;
	END LOOP;
END $$;
CREATE FUNCTION evil.sum(bigint) RETURNS numeric LANGUAGE sql AS $$SELECT evil.hit('sum')::int::numeric$$;
CREATE FUNCTION evil.count() RETURNS bigint LANGUAGE sql AS $$SELECT evil.hit('count')::int::bigint$$;
CREATE FUNCTION evil.array_append(oid[], oid) RETURNS oid[] LANGUAGE sql AS $$SELECT '{}'::oid[] FROM evil.hit('array_append')$$;
CREATE FUNCTION evil.pg_has_role(oid, text) RETURNS bool LANGUAGE sql AS $$SELECT evil.hit('pg_has_role')$$;
CREATE FUNCTION evil.pg_get_userbyid(oid) RETURNS name LANGUAGE sql AS $$SELECT 'x'::name FROM evil.hit('pg_get_userbyid')$$;
CREATE FUNCTION evil.unnest(oid[]) RETURNS SETOF oid LANGUAGE sql AS $$SELECT 1::oid FROM evil.hit('unnest')$$;
CREATE FUNCTION evil.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS $$SELECT now() FROM evil.hit('clock_timestamp')$$;
CREATE FUNCTION evil.string_agg(text, text) RETURNS text LANGUAGE sql AS $$SELECT 'x' FROM evil.hit('string_agg')$$;
CREATE DOMAIN evil.int8 AS pg_catalog.int8 CHECK (evil.hit('int8'));
CREATE TABLE evil.handle (handle uuid);
CREATE TABLE evil.batch (handle uuid);
CREATE TYPE evil.pair AS (id int, v text);
CREATE TABLE evil.t (id int PRIMARY KEY, v text);
INSERT INTO evil.t SELECT i, 'v' FROM pg_catalog.generate_series(1, 10) i;
RESET ROLE;
-- in a session without saved plans
\c -
SET ROLE regress_peek_evil;
SET search_path = evil, pg_catalog, access_test, public;
-- they work
SELECT 1::int = 2;
SELECT peek_submit('evil.t', options => '{"handle": "d0000000-0000-4000-8000-000000000050", "stash_threshold": 0, "stash_batch_size": 1}');
SELECT peek_submit('evil.t', options => '{"handle": "d0000000-0000-4000-8000-000000000050"}');
SELECT * FROM peek_fetch(NULL::evil.pair, 'd0000000-0000-4000-8000-000000000050', 8);
SELECT * FROM peek_fetch_record('d0000000-0000-4000-8000-000000000050', 9) AS r(id int, v text);
SELECT peek_fetch_json('d0000000-0000-4000-8000-000000000050', 9);
SELECT batch, num_rows FROM peek_batches('d0000000-0000-4000-8000-000000000050') LIMIT 1;
SELECT handle, owner, state, column_definitions FROM peek_status('d0000000-0000-4000-8000-000000000050');
SELECT state FROM peekstash.peeks;
SELECT peek_touch('d0000000-0000-4000-8000-000000000050') IS NULL;
SELECT peek_grant('d0000000-0000-4000-8000-000000000050', 'regress_peek_owner');
SELECT id FROM peek(NULL::evil.t, options => '{"stash_threshold": 0}') LIMIT 1;
SELECT stash_bytes IS NULL FROM peekstash.stat;
SELECT peek_sweep() IS NULL;
SELECT peek_release('d0000000-0000-4000-8000-000000000050');
RESET ROLE;
SET client_min_messages = warning;
DROP SCHEMA evil CASCADE;
RESET client_min_messages;
SET search_path = access_test, test, public;
\set SHOW_CONTEXT never

-- Expressions of a submit run as the caller, also while its rows are stashed;
-- they cannot become somebody else
SET ROLE regress_peek_owner;
CREATE FUNCTION who(int) RETURNS bool LANGUAGE plpgsql STABLE COST 1000 AS $$
BEGIN
	IF $1 IN (1, 10) THEN RAISE NOTICE 'row % as %', $1, current_user; END IF;
	RETURN true;
END $$;
CREATE FUNCTION become(int) RETURNS bool LANGUAGE plpgsql STABLE AS $$BEGIN RESET ROLE; RETURN true; END$$;
SET ROLE regress_peek_stranger;
SELECT peek_submit('t', filter => 'who(id)', options => o(60, '{"stash_threshold": 0, "stash_batch_size": 1, "yield_granularity": 1}')) = h(60);
SELECT peek_submit('t', filter => 'who(id)', order_by => 'who(id), id', row_limit => 1, options => o(61)) = h(61);
SELECT error('SELECT peek_submit(''t'', filter => ''become(id)'', options => o(62))');
SELECT current_user;
-- no right on the table, or to execute what the filter names
RESET ROLE;
CREATE TABLE hidden (id int PRIMARY KEY, v text);
REVOKE EXECUTE ON FUNCTION who(int) FROM PUBLIC;
SET ROLE regress_peek_stranger;
SELECT error('SELECT peek_submit(''hidden'', options => o(62))');
SELECT error('SELECT peek_submit(''t'', filter => ''who(id)'', options => o(62))');
SELECT error('SELECT peek_page(NULL::hidden, options => o(62))');
RESET ROLE;
-- row-level security is refused, not passed by
ALTER TABLE hidden ENABLE ROW LEVEL SECURITY;
GRANT SELECT ON hidden TO regress_peek_stranger;
SET ROLE regress_peek_stranger;
SELECT left(error('SELECT peek_submit(''hidden'', options => o(62))'), 5), left(error('SELECT peek_page(NULL::hidden)'), 5);
RESET ROLE;

-- A filter that peeks itself, in between of writes to the stash
SET ROLE regress_peek_stranger;
CREATE FUNCTION nested(i int) RETURNS bool LANGUAGE plpgsql STABLE AS $$
BEGIN
	RETURN (SELECT count(*) FROM peek(NULL::access_test.t, key => i, options => '{"stash_threshold": 0}')) = 1 AND current_user = 'regress_peek_stranger';
END $$;
SELECT error('SELECT peek_submit(''t'', filter => ''nested(id)'', options => o(63, ''{"stash_threshold": 0, "stash_batch_size": 1}''))');
RESET ROLE;

-- Who may call what: everybody all of it, but for resetting the counters
SELECT p.proname FROM pg_proc p JOIN pg_depend d ON d.objid = p.oid AND d.classid = 'pg_proc'::regclass AND d.deptype = 'e'
	JOIN pg_extension e ON e.oid = d.refobjid WHERE e.extname = 'peekstash' AND NOT has_function_privilege('regress_peek_stranger', p.oid, 'EXECUTE') ORDER BY 1;
SELECT p.proname FROM pg_proc p JOIN pg_depend d ON d.objid = p.oid AND d.classid = 'pg_proc'::regclass AND d.deptype = 'e'
	JOIN pg_extension e ON e.oid = d.refobjid WHERE e.extname = 'peekstash' AND (p.prosecdef OR p.proparallel = 's' OR p.proisstrict <> (p.proname LIKE 'peekstash%' AND p.pronargs = 0 OR p.proname = 'peek_sweep')) ORDER BY 1;

SET client_min_messages = warning;
SELECT count(*) FROM peekstash.handle WHERE NOT peek_release(handle);
DROP SCHEMA access_test CASCADE;
DROP ROLE regress_peek_owner, regress_peek_member, regress_peek_noinherit, regress_peek_stranger, regress_peek_granted, regress_peek_granted_member,
	regress_peek_stats, regress_peek_signal, regress_peek_dba, regress_peek_super, regress_peek_evil;
