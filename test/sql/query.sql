--
-- Queries: the answer of any query can be kept, and fetched by row number; it
-- is what the query gives when it is run plainly.
--
\set ECHO none
\getenv srcdir PG_ABS_SRCDIR
\set helpers :srcdir '/helpers.sql'
\i :helpers
\set ECHO all
CREATE SCHEMA query_test;
SET search_path = query_test, test, public;

CREATE FUNCTION h(n int) RETURNS uuid LANGUAGE sql IMMUTABLE AS
	$$SELECT ('b0000000-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid$$;
CREATE FUNCTION o(n int, more jsonb DEFAULT '{}') RETURNS jsonb LANGUAGE sql IMMUTABLE AS
	$$SELECT jsonb_build_object('handle', h(n)) || more$$;

-- The answer of a query on its three ways against the query run plainly: its
-- rows, and the types of its columns
CREATE FUNCTION kept(query text, args text[] DEFAULT NULL, plain text DEFAULT NULL) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	path text[];
	u uuid;
	wanted bytea[];
	found bytea[];
	definitions text;
	kind text;
BEGIN
	EXECUTE format('SELECT coalesce(array_agg(record_send(q)), %L) FROM (%s) q', '{}', coalesce(plain, query)) INTO wanted;
	FOREACH path SLICE 1 IN ARRAY
		'{{memory, 512MB, 128kB, lz4, 10000}, {stashed, 0, 1, none, 1}, {stashed, 200, 64, lz4, 3}}'::text[]
	LOOP
		u := peek_query(query, args, jsonb_build_object('stash_threshold', path[2], 'stash_batch_size', path[3],
			'stash_compression', path[4], 'yield_granularity', path[5]));
		SELECT s.kind INTO kind FROM peek_status(u) s WHERE s.num_rows = cardinality(wanted);
		SELECT string_agg(format('c%s %s', ordinal, format_type(type, typmod)), ', ' ORDER BY ordinal) INTO definitions FROM peek_columns(u);
		EXECUTE format('SELECT coalesce(array_agg(record_send(q)), %L) FROM peek_fetch_record($1) q (%s)', '{}', definitions) INTO found USING u;
		PERFORM peek_release(u);
		IF found IS DISTINCT FROM wanted THEN
			RETURN format('%s: %s rows, wanted %s: DIFFERENT', path[1], cardinality(found), cardinality(wanted));
		ELSIF kind IS DISTINCT FROM path[1] AND path[2] IN ('0', '512MB') AND cardinality(wanted) > 0 THEN
			RETURN format('%s: was %s', path[1], kind);
		END IF;
	END LOOP;
	RETURN format('same: %s', cardinality(wanted));
END $$;

CREATE TABLE a (id int PRIMARY KEY, k int, v text);
INSERT INTO a SELECT i, i % 7, CASE WHEN i % 5 > 0 THEN lpad(i::text, 9, '0') END FROM generate_series(1, 200) i;
CREATE TABLE b (k int PRIMARY KEY, name varchar(20) COLLATE "C", n numeric(10, 2), at timestamptz);
INSERT INTO b SELECT i, 'name ' || i, i / 3.0, '2024-01-01 UTC'::timestamptz + i * interval '1 day' FROM generate_series(0, 5) i;
ANALYZE;

--
-- Kinds of queries
--
SELECT kept('SELECT * FROM a ORDER BY id');
SELECT kept('SELECT v, id FROM a ORDER BY k, id DESC');
SELECT kept('TABLE b');
SELECT kept('VALUES (1, ''x''), (2, NULL)');
SELECT kept('SELECT a.id, b.* FROM a JOIN b USING (k) ORDER BY a.id');
SELECT kept('SELECT a.id, b.name FROM a LEFT JOIN b USING (k) ORDER BY a.id; -- the end', NULL, 'SELECT a.id, b.name FROM a LEFT JOIN b USING (k) ORDER BY a.id');
SELECT kept('SELECT k, count(*), max(v) FROM a GROUP BY k ORDER BY k', NULL, 'SELECT k, count(*), max(v) FROM a GROUP BY k ORDER BY k');
SELECT kept('SELECT k, count(*) FROM a GROUP BY ROLLUP (k) HAVING count(*) > 28 ORDER BY k NULLS FIRST');
SELECT kept('SELECT id, row_number() OVER (PARTITION BY k ORDER BY id DESC), sum(id) OVER (ORDER BY id) FROM a ORDER BY id');
SELECT kept('SELECT DISTINCT ON (k) k, id FROM a ORDER BY k, id DESC');
SELECT kept('SELECT k FROM a UNION SELECT k + 100 FROM b ORDER BY 1');
SELECT kept('(SELECT k FROM a EXCEPT ALL SELECT k FROM b) ORDER BY 1 LIMIT 50');
SELECT kept('WITH x AS MATERIALIZED (SELECT * FROM a WHERE k = 1) SELECT x.id, y.id FROM x JOIN x y ON y.id = x.id + 7 ORDER BY 1');
SELECT kept('WITH RECURSIVE r(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM r WHERE n < 300) SELECT n, n::numeric / 7 FROM r');
SELECT kept('SELECT b.k, x.id FROM b, LATERAL (SELECT id FROM a WHERE a.k = b.k ORDER BY id LIMIT 3) x ORDER BY 1, 2');
SELECT kept('SELECT k, generate_series(1, k) FROM b ORDER BY k, 2');
SELECT kept('SELECT unnest(ARRAY[1, 2, 3]), regexp_split_to_table(''x y'', '' '')');
SELECT kept('SELECT * FROM ROWS FROM (generate_series(1, 3), json_to_recordset(''[{"z": 1}]'') AS (z int)) WITH ORDINALITY');
SELECT kept('SELECT (SELECT max(id) FROM a WHERE a.k = b.k), EXISTS (SELECT FROM a WHERE a.k = b.k) FROM b ORDER BY k');
SELECT kept('SELECT id FROM a ORDER BY id LIMIT 5 OFFSET 7');
SELECT kept('SELECT id FROM a ORDER BY k FETCH FIRST 3 ROWS WITH TIES');
SELECT kept('SELECT ctid, tableoid, id FROM a ORDER BY id');
SELECT kept('SELECT * FROM a TABLESAMPLE BERNOULLI (50) REPEATABLE (1) ORDER BY id');
SELECT kept('SELECT grouping(k), k FROM b GROUP BY CUBE (k) ORDER BY 1, 2');
SELECT kept('SELECT id FROM a WHERE false');
SELECT kept('SELECT oid, relname, relkind, reloptions FROM pg_class WHERE relname = ''pg_class''');
-- equal neighbours are kept once, and counted
SELECT kept('SELECT 1 AS one FROM generate_series(1, 5000)');
SELECT num_rows, answer_bytes FROM peek_status(peek_query('SELECT 1 AS one FROM generate_series(1, 5000)'));

-- views, partitions, inheritance, temporary tables, a materialized view
CREATE VIEW a_view AS SELECT k, array_agg(id ORDER BY id) AS ids FROM a GROUP BY k;
SELECT kept('SELECT * FROM a_view ORDER BY k');
CREATE TABLE parts (id int, v text) PARTITION BY RANGE (id);
CREATE TABLE part_1 PARTITION OF parts FOR VALUES FROM (0) TO (100);
CREATE TABLE part_2 (v text, gone int, id int);
ALTER TABLE part_2 DROP gone;
ALTER TABLE parts ATTACH PARTITION part_2 FOR VALUES FROM (100) TO (200);
INSERT INTO parts SELECT i, 'row ' || i FROM generate_series(0, 199) i;
SELECT kept('SELECT * FROM parts ORDER BY id');
SELECT kept('SELECT * FROM parts WHERE id BETWEEN $1 AND $2 ORDER BY id DESC', '{90,110}', 'SELECT * FROM parts WHERE id BETWEEN 90 AND 110 ORDER BY id DESC');
CREATE TABLE parent (x int);
CREATE TABLE child (y int, x int);
ALTER TABLE child INHERIT parent;
INSERT INTO parent VALUES (1);
INSERT INTO child VALUES (2, 3);
SELECT kept('SELECT * FROM parent ORDER BY x');
CREATE TEMP TABLE temporary AS SELECT i FROM generate_series(1, 50) i;
SELECT kept('SELECT * FROM temporary ORDER BY i');
CREATE MATERIALIZED VIEW mat AS SELECT * FROM a WHERE k = 3;
SELECT kept('SELECT * FROM mat ORDER BY id');

-- dropped, added and generated columns
CREATE TABLE changed (x int, gone text, y int);
INSERT INTO changed VALUES (1, 'g', 2);
ALTER TABLE changed DROP gone, ADD z int DEFAULT 7, ADD twice int GENERATED ALWAYS AS (x * 2) STORED;
INSERT INTO changed VALUES (3, 4, 5);
SELECT kept('SELECT * FROM changed ORDER BY x');
SELECT kept('SELECT c, c.twice FROM changed c ORDER BY x');

-- values of many kinds, out of line and compressed ones, and what is made by functions
CREATE TYPE pair AS (a int, b text);
CREATE DOMAIN small AS int CHECK (VALUE < 100);
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE TABLE kinds (id int, p pair, ps pair[], s small, m mood, r int4range, mr int4multirange, j jsonb, x xml, i interval, f float8, u uuid, big text, raw bytea);
ALTER TABLE kinds ALTER raw SET STORAGE EXTERNAL;
INSERT INTO kinds SELECT i, (i, 'p' || i)::pair, ARRAY[(i, 'x')::pair, NULL], i, (enum_range(NULL::mood))[1 + i % 3], int4range(i, i + 5),
	int4multirange(int4range(i, i + 1)), jsonb_build_object('i', i), NULL, i * interval '1 day 2 hours', i / 7.0, md5(i::text)::uuid,
	repeat(i::text, i * 3000), convert_to(repeat('r', i * 2500), 'UTF8')
	FROM generate_series(0, 9) i;
INSERT INTO kinds VALUES (NULL);
SELECT kept('SELECT * FROM kinds ORDER BY id');
SELECT kept('SELECT (p).*, ps[1], s::int, m::text, lower(r), mr, j -> ''i'', i * 2, f::numeric, big || big, raw FROM kinds ORDER BY id');
SELECT kept('SELECT array_agg(big ORDER BY id), array_agg(k.ps ORDER BY id) FILTER (WHERE id > 0), jsonb_agg(j ORDER BY id), xmlagg(x) FROM kinds k');
SELECT kept('SELECT id, p::pair, row(id, big)::pair, k FROM kinds k ORDER BY id');
-- they outlive their table
SELECT peek_query('SELECT big, raw, ps FROM kinds ORDER BY id', NULL, o(1, '{"stash_threshold": 0}'));
SELECT md5(string_agg(q::text, ' ')) AS before FROM (SELECT big, raw, ps FROM kinds ORDER BY id) q \gset
DROP TABLE kinds;
VACUUM;
SELECT md5(string_agg(q::text, ' ')) = :'before' FROM peek_fetch_record(h(1)) AS q (big text, raw bytea, ps pair[]);

--
-- Columns
--
CREATE FUNCTION columns(query text, args text[] DEFAULT NULL) RETURNS TABLE (ordinal int, name text, type text, "collation" text) LANGUAGE sql AS
	$$SELECT c.ordinal, c.name, format_type(c.type, c.typmod), c.collation::text FROM peek_columns(peek_query(query, args)) c ORDER BY 1$$;
SELECT * FROM columns('SELECT 1, 2, 3 AS "Odd name", b.name, b.n, b.n + 1, ''x'', NULL, count(*) OVER (), ARRAY[name], name::varchar(5), upper(name) FROM b');
SELECT * FROM columns('SELECT a.*, b.* FROM a JOIN b USING (k)');
SELECT * FROM columns('SELECT id FROM a ORDER BY v, k');
SELECT * FROM columns('VALUES (1, ''a''), (2.5, ''b'')');
SELECT * FROM columns('SELECT $1, $2::date, $3 + 1, $4 = ANY (ARRAY[1::bigint])', '{x,2024-01-01,4,5}');
SELECT * FROM columns('SELECT FROM a');
SELECT column_definitions FROM peek_status(peek_query('SELECT id AS "Id", n FROM a, b'));
-- no columns, with rows and without
SELECT peek_fetch_json(peek_query('SELECT'));
SELECT peek_fetch_json(peek_query('SELECT FROM a LIMIT 2'));
SELECT num_rows, answer_bytes, batches, kind FROM peek_status(peek_query('SELECT FROM a', NULL, '{"stash_threshold": 0}'));
-- names that come twice
SELECT peek_query('SELECT 1 AS x, 2 AS x', NULL, o(2));
SELECT * FROM peek_fetch_record(h(2)) AS (one int, other int);
SELECT test.error($$SELECT peek_fetch_json(h(2))$$);
-- what cannot be stored
SELECT test.error($$SELECT peek_query('SELECT ROW(1, 2) AS r')$$);
SELECT test.error($$SELECT peek_query('SELECT id, array_agg(ROW(id)) FROM a GROUP BY 1')$$);
SELECT test.error($$SELECT peek_query('SELECT pg_sleep(0)')$$);
SELECT kept('SELECT ROW(1, ''x'')::pair');

--
-- Parameters
--
SELECT kept('SELECT id, v FROM a WHERE id = $1 AND v > $2', '{7,0}', 'SELECT id, v FROM a WHERE id = 7 AND v > ''0''');
SELECT kept('SELECT * FROM a WHERE k = ANY ($1) ORDER BY id LIMIT $2 OFFSET $3', '{"{1,2}",5,2}', 'SELECT * FROM a WHERE k = ANY (''{1,2}'') ORDER BY id LIMIT 5 OFFSET 2');
SELECT kept('SELECT $1 || $2, $1', '{x,NULL}', 'SELECT ''x'' || NULL::text, ''x''::text');
SELECT kept('SELECT * FROM b WHERE at > $1 AND n < $2 AND name LIKE $3 ORDER BY k', '{2024-01-02,1.5,name%}', 'SELECT * FROM b WHERE at > ''2024-01-02'' AND n < 1.5 AND name LIKE ''name%'' ORDER BY k');
SELECT kept('SELECT $1::pair, $2::mood, $3::small, $4::jsonb, $5::bytea, $6::int4range, $7::uuid, $8::bool',
	ARRAY['(1,x)', 'ok', '5', '{"a": 1}', '\x00ff', '[1,5)', h(1)::text, 't'],
	$$SELECT '(1,x)'::pair, 'ok'::mood, 5::small, '{"a": 1}'::jsonb, '\x00ff'::bytea, '[1,5)'::int4range, h(1), true$$);
SELECT kept('SELECT 1', '{}');
SELECT test.error($$SELECT peek_query('SELECT $1::int', '{x}')$$);
SELECT test.error($$SELECT peek_query('SELECT $1::small', '{100}')$$);
SELECT test.error($$SELECT peek_query('SELECT $1, $2', '{x}')$$);
SELECT test.error($$SELECT peek_query('SELECT 1', '{x}')$$);
SELECT test.error($$SELECT peek_query('SELECT $2', '{x,y}')$$);
SELECT test.error($$SELECT peek_query('SELECT $1 IS NULL', '{x}')$$);

--
-- What is no query that is read
--
\set SHOW_CONTEXT errors
SELECT peek_query('');
SELECT peek_query(' ; -- nothing');
SELECT peek_query('SELECT 1; SELECT 2');
SELECT peek_query('SELEC 1');
SELECT peek_query('SELECT id, nothing FROM a');
SELECT peek_query('SELECT * FROM no_table');
SELECT peek_query('SELECT ''ä'', id FROM a WHERE nothing > 5');
SELECT peek_query('SELECT 1 AS x INTO made');
SELECT peek_query('SELECT 1 AS x INTO made UNION SELECT 2');
SELECT peek_query('SELECT * FROM a FOR UPDATE');
SELECT peek_query('SELECT 1 FOR KEY SHARE');
SELECT peek_query('SELECT * FROM (SELECT * FROM a FOR NO KEY UPDATE) x');
SELECT peek_query('WITH x AS (SELECT * FROM a FOR SHARE OF a) SELECT * FROM x');
SELECT peek_query('INSERT INTO a VALUES (0) RETURNING id');
SELECT peek_query('UPDATE a SET v = v');
SELECT peek_query('DELETE FROM a');
SELECT peek_query('MERGE INTO a USING b ON false WHEN NOT MATCHED THEN DO NOTHING');
SELECT peek_query('WITH x AS (SELECT 1), y AS (DELETE FROM a RETURNING id) SELECT * FROM y');
SELECT peek_query('SELECT * FROM (WITH y AS (UPDATE a SET k = 0 RETURNING id) SELECT * FROM y) z');
SELECT peek_query('SELECT 1 UNION (WITH y AS (DELETE FROM a RETURNING id) SELECT id FROM y)');
SELECT peek_query('WITH x AS (SELECT 1) INSERT INTO a SELECT * FROM x');
SELECT peek_query('CREATE TABLE made AS SELECT 1');
SELECT peek_query('EXPLAIN ANALYZE DELETE FROM a');
SELECT peek_query('SHOW search_path');
SELECT peek_query('FETCH c');
SELECT peek_query('EXECUTE p');
SELECT peek_query('COPY a TO STDOUT');
SELECT peek_query('BEGIN');
SELECT peek_query('SELECT sum(max(id)) FROM a');
SELECT peek_query(NULL);
\set SHOW_CONTEXT never
CREATE VIEW locking AS SELECT * FROM a FOR UPDATE;
SELECT test.error($$SELECT peek_query('SELECT * FROM locking')$$);
SELECT count(*) FROM a;
-- a column of an outer query cannot be seen
SELECT test.error($$SELECT peek_query('SELECT b.k') FROM b$$);

--
-- Options
--
SELECT test.error($$SELECT peek_query('SELECT 1', NULL, '{"background": true}')$$);
SELECT driver, inline_reason FROM peek_status(peek_query('SELECT 1', NULL, '{"enable_offload": true}'));
SELECT test.error($$SELECT peek_query('SELECT 1', NULL, '{"no_option": 1}')$$);
SELECT test.error($$SELECT peek_query('SELECT 1', NULL, '{"ttl": "8d"}')$$);
SELECT peek_query('SELECT id FROM a', NULL, o(10, '{"label": "a label", "ttl": 60}'));
SELECT label, arrangement, state, kind, phase, driver, workers, positions, num_rows, batches, stash_reason, expires_at - finished_at,
	request - 'plan', jsonb_typeof(request #> '{plan,total_cost}'), jsonb_typeof(request #> '{plan,rows}') FROM peek_status(h(10));
SELECT (SELECT to_jsonb(p) FROM peekstash.peeks p WHERE p.handle = h(10)) = (SELECT to_jsonb(s) - 'column_definitions' FROM peek_status(h(10)) s);
SELECT source, arrangement FROM peekstash.handle WHERE handle = h(10);
SELECT peek_query('SELECT $1::int AS x, $2::text', '{1,two}', o(11));
SELECT request - 'plan' FROM peek_status(h(11));
-- the planner's estimates
SELECT request #>> '{plan,rows}' FROM peek_status(h(10));
-- a long text is shortened for people
SELECT length(request ->> 'query'), request ->> 'args' FROM peek_status(peek_query('SELECT ' || repeat('1 + ', 1000) || '$1', '{1}'));
SELECT request - 'plan' - 'query' FROM peek_status(peek_query('SELECT ' || (SELECT string_agg('1 AS a_long_name_' || i, ', ') FROM generate_series(1, 1000) i)));

-- A handle of the client's own: the same query is not run again
CREATE SEQUENCE runs;
SELECT peek_query('SELECT nextval(''runs''), id FROM a WHERE id = $1', '{1}', o(12));
SELECT peek_query('SELECT nextval(''runs''), id FROM a WHERE id = $1', '{1}', o(12));
SELECT peek_query('SELECT nextval(''runs''), id FROM a WHERE id = $1', '{1}', o(12, '{"stash_threshold": 0, "label": "again"}'));
SELECT peek_fetch_json(h(12));
SELECT test.error($$SELECT peek_query('SELECT nextval(''runs''), id FROM a WHERE id = $1', '{2}', o(12))$$);
SELECT test.error($$SELECT peek_query('SELECT nextval(''runs''), id  FROM a WHERE id = $1', '{1}', o(12))$$);
SELECT test.error($$SELECT peek_submit('a_pkey', options => o(12))$$);
-- it is the meaning of names and literals that counts
CREATE SCHEMA query_other;
CREATE TABLE query_other.b (k int);
SELECT peek_query('SELECT count(*) FROM b WHERE k >= $1', '{0}', o(13));
SET search_path = query_test, test, query_other, public;
SELECT peek_query('SELECT count(*) FROM b WHERE k >= $1', '{0}', o(13));
SET search_path = query_other, query_test, test, public;
SELECT test.error($$SELECT peek_query('SELECT count(*) FROM b WHERE k >= $1', '{0}', o(13))$$);
SET search_path = query_test, test, public;
SELECT peek_query('SELECT date ''02/03/2024''', NULL, o(14));
SET datestyle = 'ISO, DMY';
SELECT test.error($$SELECT peek_query('SELECT date ''02/03/2024''', NULL, o(14))$$);
SELECT test.error($$SELECT peek_query('SELECT $1::date', '{02/03/2024}', o(15))$$);
RESET datestyle;
-- what a view says when the request is repeated is not asked
SELECT peek_query('SELECT * FROM a_view ORDER BY k', NULL, o(16));
CREATE OR REPLACE VIEW a_view AS SELECT k, array_agg(id ORDER BY id DESC) AS ids FROM a GROUP BY k;
SELECT peek_query('SELECT * FROM a_view ORDER BY k', NULL, o(16));
SELECT peek_fetch_json(h(16), 0, 1) #> '{rows,0,ids,0}';
-- released, it can be used again
SELECT peek_release(h(12)), peek_query('SELECT 1', NULL, o(12));

--
-- The first page
--
SELECT * FROM peek_query_page('SELECT id, v AS "V" FROM a WHERE id < $1 ORDER BY id', '{4}');
SELECT handle IS NOT NULL, num_rows, pos, r FROM peek_query_page('SELECT id FROM a ORDER BY id', NULL, 2);
SELECT * FROM peek_query_page('SELECT id FROM a ORDER BY id', page_rows => 1, options => o(20, '{"label": "paged"}'));
SELECT peek_fetch_json(h(20), 198);
SELECT label, num_rows, kind FROM peek_status(h(20));
-- repeated, and repeated as what peek_query does
SELECT * FROM peek_query_page('SELECT id FROM a ORDER BY id', page_rows => 1, options => o(20));
SELECT peek_query('SELECT id FROM a ORDER BY id', NULL, o(20));
-- not kept if it is all on the page, unless it was stashed
SELECT count(*), count(handle) FROM peek_query_page('SELECT id FROM a', page_rows => 200);
SELECT count(*), count(handle) FROM peek_query_page('SELECT id FROM a', page_rows => 199);
SELECT count(*), count(handle) FROM peek_query_page('SELECT id FROM a', page_rows => 300, options => '{"stash_threshold": 0}');
SELECT count(*) FROM peek_query_page('SELECT id FROM a', page_rows => 200, options => o(21));
SELECT test.error('SELECT peek_status(h(21))') LIKE '42704%';
SELECT * FROM peek_query_page('SELECT id FROM a WHERE false');
SELECT * FROM peek_query_page('SELECT FROM a LIMIT 2');
SELECT handle IS NULL, r FROM peek_query_page('SELECT 1 AS n, ''NaN''::numeric AS nan, NULL AS nothing, ARRAY[1, 2] AS list, ROW(1, ''x'')::pair AS p, ''{"a": [1]}''::jsonb AS j, now() IS NULL AS no');
SELECT r FROM peek_query_page('SELECT i % 2 AS r FROM generate_series(1, 6) i ORDER BY 1', page_rows => 4);
SELECT pos, r FROM peek_query_page('SELECT 5 AS same FROM generate_series(1, 3)');
SELECT (peek_query_page('SELECT 1 AS x')).r;
-- an object has each name once; nothing has been run then
SELECT test.error($$SELECT * FROM peek_query_page('SELECT nextval(''runs'') AS x, 1 AS x')$$);
SELECT currval('runs');
SELECT test.error($$SELECT * FROM peek_query_page('SELECT 1', page_rows => 0)$$);
SELECT test.error($$SELECT * FROM peek_query_page('SELECT 1', page_rows => -1)$$);
SELECT test.error($$SELECT * FROM peek_query_page(NULL)$$);
SELECT test.error($$SELECT * FROM peek_query_page('DELETE FROM a')$$);
SELECT test.error($$SELECT * FROM peek_query_page('SELECT 1', options => '{"background": true}')$$);
-- a page that is not read to its end
SELECT r FROM peek_query_page('SELECT id FROM a ORDER BY id') LIMIT 1;
SELECT EXISTS (SELECT peek_query_page('SELECT id FROM a'));

--
-- Limits
--
CREATE TABLE sized (id int, v text);
INSERT INTO sized SELECT i, lpad(i::text, 11, '0') FROM generate_series(1, 100) i;
-- 4 + 12 + 16 bytes a row by the ruler: 32 rows are 1024 bytes
SELECT num_rows, answer_bytes FROM peek_status(peek_query('SELECT * FROM sized LIMIT 32', NULL, '{"max_result_size": 1}'));
SELECT test.error($$SELECT peek_query('SELECT * FROM sized LIMIT 33', NULL, '{"max_result_size": 1}')$$);
SELECT test.error($$SELECT peek_query('SELECT * FROM sized LIMIT 33', NULL, '{"max_result_size": 1, "stash_threshold": 0, "stash_batch_size": 100}')$$);
SELECT test.error($$SELECT peek_query('SELECT v, id FROM sized ORDER BY id DESC LIMIT 33', NULL, '{"max_result_size": 1, "stash_threshold": 500}')$$);
SELECT test.error($$SELECT * FROM peek_query_page('SELECT * FROM sized LIMIT 33', options => '{"max_result_size": 1}')$$);
-- the very row: of 36 bytes each 28 fit; behind the 29th no row is asked for, neither from memory nor stashed
SELECT setval('runs', 1, false);
SELECT test.error($$SELECT peek_query('SELECT *, nextval(''runs'')::int FROM sized', NULL, '{"max_result_size": 1}')$$);
SELECT currval('runs') AS rows_asked_for;
SELECT setval('runs', 1, false);
SELECT test.error($$SELECT peek_query('SELECT *, nextval(''runs'')::int FROM sized', NULL, '{"max_result_size": 1, "stash_threshold": 0}')$$);
SELECT currval('runs') AS rows_asked_for;
-- positions are nobody's business here
SELECT test.error($$SELECT peek_query('SELECT count(*) FROM a', NULL, '{"row_iteration_limit": 10}')$$);
-- without the stash an answer can be no larger than 1 MB
SELECT num_rows, kind FROM peek_status(peek_query('SELECT i, repeat(''x'', 1000) FROM generate_series(1, 1000) i', NULL, '{"enable_stash": false}'));
SELECT test.error($$SELECT peek_query('SELECT i, repeat(''x'', 1000) FROM generate_series(1, 1100) i', NULL, '{"enable_stash": false}')$$);
SELECT test.error($$SELECT peek_query('SELECT i, repeat(''x'', 1000) FROM generate_series(1, 200) i', NULL, '{"max_result_size": 100, "enable_stash": false}')$$);
-- quotas
SELECT test.error($$SELECT peek_query('SELECT i, repeat(''x'', 1000) FROM generate_series(1, 1100) i', NULL, '{"max_role_stash_size": "16kB", "stash_compression": "none"}')$$);
SET peekstash.max_role_peeks = 1;
SELECT test.error($$SELECT peek_query('SELECT 1')$$);
RESET peekstash.max_role_peeks;

--
-- What the query does
--
-- volatile functions are called as in any query, once for each row
SELECT setval('runs', 1, false);
SELECT peek_fetch_json(peek_query('SELECT nextval(''runs'') AS n FROM generate_series(1, 3)', NULL, '{"stash_threshold": 0}'));
SELECT currval('runs');
-- functions may write, also where the query reads; it does not see it
CREATE TABLE log (n int);
CREATE FUNCTION note(n int) RETURNS int LANGUAGE sql VOLATILE AS 'INSERT INTO log VALUES (n) RETURNING n';
INSERT INTO log VALUES (1), (2);
SELECT num_rows FROM peek_status(peek_query('SELECT note(n + 10) FROM log', NULL, '{"stash_threshold": 0}'));
SELECT * FROM log;
-- it sees what its transaction did before, and not its own handle
BEGIN;
INSERT INTO log VALUES (3);
SELECT peek_query('SELECT n, (SELECT count(*) FROM peekstash.handle WHERE handle = ''' || h(30) || ''') FROM log WHERE n = 3', NULL, o(30, '{"stash_threshold": 0}'));
DELETE FROM log;
SELECT * FROM peek_fetch_record(h(30)) AS (n int, seen bigint);
ROLLBACK;
SELECT test.error('SELECT peek_status(h(30))') LIKE '42704%';
-- a function sees in each query what it has done so far
CREATE FUNCTION in_turns() RETURNS int[] LANGUAGE plpgsql AS $$
DECLARE
	counts int[];
BEGIN
	FOR i IN 1 .. 3 LOOP
		INSERT INTO log VALUES (100);
		counts := counts || (SELECT r ->> 'count' FROM peek_query_page('SELECT count(*) FROM log WHERE n = 100'))::int;
	END LOOP;
	RETURN counts;
END $$;
SELECT in_turns();
-- one statement, one snapshot: the second query does not see what the first wrote
SELECT (SELECT r FROM peek_query_page('SELECT note(200)')), (SELECT r FROM peek_query_page('SELECT count(*) FROM log WHERE n = 200'));
-- a stable function sees what the query sees
CREATE FUNCTION seen() RETURNS bigint LANGUAGE sql STABLE AS 'SELECT count(*) FROM log WHERE n = 300';
SELECT peek_fetch_json(peek_query('SELECT note(300), seen() FROM generate_series(1, 3)', NULL, '{"stash_threshold": 0}')) #> '{rows,2}';
-- savepoints of a function
CREATE FUNCTION careful(n int) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	RETURN 10 / (n % 3);
EXCEPTION WHEN division_by_zero THEN
	RETURN 'caught';
END $$;
SELECT kept('SELECT id, careful(id) FROM a ORDER BY id');
-- peeks inside of queries, and queries inside of queries
SELECT kept('SELECT * FROM peek(NULL::a, ''a_pkey'', lower => 50, upper => 150)', NULL, 'SELECT * FROM a WHERE id BETWEEN 50 AND 150 ORDER BY id');
SELECT peek_query('SELECT * FROM a ORDER BY id', NULL, o(31));
SELECT kept('SELECT p.id, b.name FROM peek_fetch(NULL::a, h(31), 100) p JOIN b USING (k) ORDER BY id', NULL, 'SELECT a.id, b.name FROM a JOIN b USING (k) WHERE a.id > 100 ORDER BY a.id');
SELECT kept('SELECT r FROM peek_query_page(''SELECT id FROM a ORDER BY id'', page_rows => 200)', NULL, 'SELECT jsonb_build_object(''id'', id) FROM a ORDER BY id');
SELECT peek_fetch_json(peek_query('SELECT peek_fetch_json(peek_query($q$SELECT ''deep'' AS x$q$)) AS outer')) #> '{rows,0,outer,rows,0,x}';

--
-- Transactions
--
SELECT count(*) AS before FROM peekstash.handle \gset
BEGIN;
SAVEPOINT s;
SELECT peek_query('SELECT * FROM a', NULL, o(40, '{"stash_threshold": 0}'));
ROLLBACK TO s;
SELECT test.error('SELECT peek_status(h(40))') LIKE '42704%';
SELECT peek_query('SELECT * FROM a', NULL, o(40, '{"stash_threshold": 0}'));
RELEASE s;
COMMIT;
SELECT num_rows, kind FROM peek_status(h(40));
-- errors on the way keep their SQLSTATE, and leave nothing
SELECT test.error($$SELECT peek_query('SELECT id, 1 / (id - 150) FROM a ORDER BY id')$$);
SELECT test.error($$SELECT peek_query('SELECT id, 1 / (id - 150) FROM a ORDER BY id', NULL, '{"stash_threshold": 0, "stash_batch_size": 100}')$$);
SELECT test.error($$SELECT * FROM peek_query_page('SELECT (''x'' || v)::int FROM a', options => '{"stash_threshold": 0}')$$);
SET statement_timeout = '100ms';
SELECT peek_query('SELECT count(*) FROM a, a b, a c, a d, a e');
RESET statement_timeout;
DO $$
BEGIN
	FOR i IN 1 .. 200 LOOP
		BEGIN
			PERFORM peek_query('SELECT id, 1 / (id - 150) FROM a ORDER BY id', NULL, '{"stash_threshold": 0, "stash_batch_size": 100}');
			RAISE 'no error';
		EXCEPTION WHEN division_by_zero THEN
		END;
	END LOOP;
END $$;
SELECT count(*) - :before AS kept FROM peekstash.handle;
SELECT count(*) FROM peekstash.batch b WHERE NOT EXISTS (SELECT FROM peekstash.handle h WHERE h.handle = b.handle);
-- read only: what is small needs no writing
BEGIN READ ONLY;
SELECT r FROM peek_query_page('SELECT id FROM a WHERE id = 5');
SAVEPOINT s;
SELECT peek_query('SELECT 1');
ROLLBACK TO s;
SELECT test.error($$SELECT peek_query_page('SELECT * FROM a', page_rows => 1)$$);
SELECT test.error($$SELECT peek_query_page('SELECT note(1)')$$);
COMMIT;
BEGIN;
SELECT count(*) FROM peek_query_page('SELECT id FROM a WHERE id < 50');
SELECT pg_current_xact_id_if_assigned();
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT num_rows, kind FROM peek_status(peek_query('SELECT * FROM a', NULL, '{"stash_threshold": 0}'));
COMMIT;
-- a cursor around it
BEGIN;
DECLARE c CURSOR FOR SELECT r FROM peek_query_page('SELECT id FROM a ORDER BY id', page_rows => 5);
FETCH 2 FROM c;
SELECT count(*) FROM peek_query_page('SELECT id FROM a');
FETCH 2 FROM c;
COMMIT;
-- prepared, and run again after a change of the table
PREPARE p(int) AS SELECT r FROM peek_query_page('SELECT * FROM changed WHERE x = $1', ARRAY[$1::text]);
EXECUTE p(1);
ALTER TABLE changed ADD w text DEFAULT 'new';
EXECUTE p(3);

--
-- Maintenance of somebody else's table is not the time to store anything
--
CREATE FUNCTION stores() RETURNS int LANGUAGE plpgsql VOLATILE AS $$BEGIN PERFORM public.peek_query('SELECT 1'); RETURN 1; END$$;
CREATE MATERIALIZED VIEW stored AS SELECT query_test.stores() WITH NO DATA;
SELECT test.error('REFRESH MATERIALIZED VIEW stored');

-- Statistics
SELECT walks_inline, answers_memory, answers_stashed, answers_failed, positions, rows FROM peekstash.stat \gset before_
SELECT num_rows FROM peek_status(peek_query('SELECT * FROM a'));
SELECT num_rows FROM peek_status(peek_query('SELECT * FROM a', NULL, '{"stash_threshold": 0}'));
SELECT test.error($$SELECT peek_query('SELECT 1 / (id - 150) FROM a')$$);
SELECT walks_inline - :before_walks_inline, answers_memory - :before_answers_memory, answers_stashed - :before_answers_stashed,
	answers_failed - :before_answers_failed, positions - :before_positions, rows - :before_rows FROM peekstash.stat;

SELECT count(peek_release(handle)) > 0 FROM peekstash.peeks;
SELECT (SELECT count(*) FROM peekstash.handle), (SELECT count(*) FROM peekstash.outcome), (SELECT count(*) FROM peekstash.batch);
\set ECHO none
SET client_min_messages = warning;
DROP SCHEMA query_test, query_other CASCADE;
DROP TABLE temporary;
