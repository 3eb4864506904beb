--
-- Types: each type that btree can index, as key and as column; values that are
-- stored out of line, compressed or nested; rows of unusual shape.
--
\set ECHO none
\getenv srcdir PG_ABS_SRCDIR
\set helpers :srcdir '/helpers.sql'
\i :helpers
\set ECHO all
CREATE SCHEMA types_test;
SET search_path = types_test, test, public;

CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE TYPE pair AS (x int, y text);
CREATE TYPE nested AS (p pair, ps pair[]);
CREATE TYPE text_range AS RANGE (subtype = text, collation = "C");
CREATE DOMAIN posint AS int CHECK (VALUE > 0);
CREATE DOMAIN shorts AS smallint[];
CREATE DOMAIN dpair AS pair;

CREATE TABLE kinds (typ text, vals text[]);
INSERT INTO kinds VALUES
	('int2', '{-32768, 0, 7, 32767}'),
	('int4', '{-2147483648, 0, 7, 2147483647}'),
	('int8', '{-9223372036854775808, 0, 7, 9223372036854775807}'),
	('float4', '{-Infinity, -0, 1.5, 3e38, Infinity, NaN}'),
	('float8', '{-Infinity, -0, 1e-300, 1.5, Infinity, NaN}'),
	('numeric', '{-Infinity, -1e50, 0, 0.1, 1.10, 12345678901234567890.12345, NaN, Infinity}'),
	('numeric(10,2)', '{-1, 0, 3.14}'),
	('money', '{-92233720368547758.08, 0, 12.34}'),
	('bool', '{f, t}'),
	('"char"', '{a, b, ""}'),
	('name', '{"", a, abc, a name}'),
	('char(5)', '{"", a, abc, "a  b"}'),
	('varchar', '{"", a, ä, z}'),
	('varchar(5)', '{"", a, abc}'),
	('text', '{"", a, "with, comma", ü}'),
	('text COLLATE "C"', '{"", a, B, ü}'),
	('bytea', '{"", "\\x00", "\\x00ff", "\\xff"}'),
	('date', '{-infinity, 4713-01-01 BC, 2000-01-01, 2024-02-29, infinity}'),
	('time', '{00:00, 12:34:56.789, 24:00}'),
	('time(2)', '{00:00, 12:34:56.78}'),
	('timetz', '{00:00+00, 12:34:56.789+02, 12:34:56.789-11}'),
	('timestamp', '{-infinity, 2000-01-01, 2024-02-29 12:00:00.123456, infinity}'),
	('timestamptz', '{-infinity, 2000-01-01+00, 2024-02-29 12:00:00.123456+05, infinity}'),
	('interval', '{-1 year, 0, 1 month, 30 days, 1 day 02:00, 178000000 years}'),
	('interval hour to minute', '{0, 02:30}'),
	('uuid', '{00000000-0000-0000-0000-000000000000, 3b241101-e2bb-4255-8caf-4136c566a962, ffffffff-ffff-ffff-ffff-ffffffffffff}'),
	('inet', '{10.0.0.1, 10.0.0.1/8, ::1, 192.168.0.0/16}'),
	('cidr', '{10.0.0.0/8, 192.168.0.0/16, ::/0}'),
	('macaddr', '{00:00:00:00:00:00, 08:00:2b:01:02:03}'),
	('macaddr8', '{00:00:00:00:00:00:00:00, 08:00:2b:01:02:03:04:05}'),
	('bit(3)', '{000, 101, 111}'),
	('varbit', '{"", 0, 101, 1111111111}'),
	('oid', '{0, 7, 4294967295}'),
	('oidvector', '{"", 1, 1 2 3}'),
	('regclass', '{pg_class, pg_type}'),
	('tid', '{"(0,1)", "(0,2)", "(4294967295,65535)"}'),
	('pg_lsn', '{0/0, 16/B374D848, FFFFFFFF/FFFFFFFF}'),
	('xid8', '{0, 7, 18446744073709551615}'),
	('mood', '{sad, ok, happy}'),
	('int[]', '{"{}", "{1}", "{1,NULL}", "{{1,2},{3,4}}", "[5:6]={1,2}"}'),
	('text[]', '{"{}", "{a,NULL,\"\"}"}'),
	('int4range', '{empty, "[1,5)", "[1,)", "(,)"}'),
	('numrange', '{empty, "[1.5,2.5]"}'),
	('tstzrange', '{"[2024-01-01 00:00+00,2024-01-02 00:00+00)"}'),
	('text_range', '{"[a,b)", "[abc,)"}'),
	('int4multirange', '{"{}", "{[1,3),[5,7)}"}'),
	('pair', '{"(,)", "(1,a)", "(1,\"b,c\")"}'),
	('nested', '{"(\"(1,a)\",\"{\"\"(1,a)\"\",\"\"(2,)\"\"}\")", "(,)"}'),
	('pair[]', '{"{\"(1,a)\",NULL}"}'),
	('tsvector', '{"", "''a'':1 ''b'':2"}'),
	('tsquery', '{"''a''", "''a'' & ''b''"}'),
	('jsonb', '{"null", "1", "\"a\"", "[1, 2]", "{\"a\": {\"b\": 1.50}}"}'),
	('posint', '{1, 2147483647}'),
	('shorts', '{"{1,2}"}'),
	('dpair', '{"(1,a)"}');

-- Every type: as key from the type itself, from text and from a literal, as
-- one of many, as bound, as result, from the heap tuple as it stands and
-- rearranged; each value finds what SQL finds
CREATE FUNCTION round_trip(typ text, vals text[]) RETURNS TABLE(what text, result text) LANGUAGE plpgsql AS $$
DECLARE
	base text := split_part(typ, ' COLLATE', 1);
	v text;
BEGIN
	EXECUTE format('CREATE TABLE one (k %s, id int)', typ);
	EXECUTE format('INSERT INTO one SELECT v::%s, i FROM unnest($1 || $1) WITH ORDINALITY u(v, i)', base) USING vals;
	INSERT INTO one (id) VALUES (-1);
	CREATE INDEX one_k ON one (k, id);
	CREATE INDEX one_desc ON one (k DESC, id DESC);
	RETURN QUERY SELECT 'all', same('one', $q$'one_k'$q$, 'ORDER BY k, id');
	RETURN QUERY SELECT 'all', same('one', $q$'one_desc'$q$, 'ORDER BY k DESC, id DESC');
	RETURN QUERY SELECT 'rearranged', same($q$SELECT * FROM peek_record('one_k', '{id,k,k}') AS r(a int, b $q$ || base || ', c ' || base || ')', 'SELECT id, k, k FROM one ORDER BY k, id');
	RETURN QUERY SELECT 'ordered', same('one', $q$'one_k', order_by => 'k DESC NULLS LAST, id'$q$, 'ORDER BY k DESC NULLS LAST, id');
	RETURN QUERY SELECT 'keys', same('one', format($q$'one_k', keys => (SELECT array_agg(ROW(v::%s)) FROM unnest(%L::text[]) v)$q$, base, vals), 'WHERE id > 0 ORDER BY k, id');
	FOREACH v IN ARRAY vals LOOP
		RETURN QUERY SELECT 'key typed', same('one', format($q$'one_k', key => %L::%s$q$, v, base), format('WHERE k = %L::%s ORDER BY k, id', v, base));
		RETURN QUERY SELECT 'key literal', same('one', format($q$'one_k', key => %L$q$, v), format('WHERE k = %L::%s ORDER BY k, id', v, base));
		RETURN QUERY SELECT 'key text', same('one', format($q$'one_k', key => ROW(%L::text)$q$, v), format('WHERE k = %L::%s ORDER BY k, id', v, base));
		RETURN QUERY SELECT 'bounds', same('one', format($q$'one_desc', lower => %L::%s$q$, v, base), format('WHERE k >= %L::%s ORDER BY k DESC, id DESC', v, base));
		RETURN QUERY SELECT 'filter', same('one', format($q$'one_k', filter => 'k > $1::%s', args => ARRAY[%L]$q$, base, v), format('WHERE k > %L::%s ORDER BY k, id', v, base));
	END LOOP;
	DROP TABLE one;
END $$;
SELECT typ, string_agg(DISTINCT CASE WHEN result ~ '^same' THEN 'same' ELSE what || ': ' || result END, E'\n')
	FROM kinds, round_trip(typ, vals) GROUP BY typ, kinds.ctid ORDER BY kinds.ctid;

-- All btree-indexable types of the server are above, but these
SELECT DISTINCT c.opcintype::regtype FROM pg_opclass c JOIN pg_am a ON a.oid = c.opcmethod
	WHERE a.amname = 'btree' AND c.opcnamespace = 'pg_catalog'::regnamespace AND c.opcintype::regtype::text NOT LIKE 'any%'
		AND NOT EXISTS (SELECT FROM kinds WHERE split_part(split_part(typ, '(', 1), ' COLLATE', 1)::regtype = c.opcintype) ORDER BY 1;

-- Types that no btree can index are columns like others
CREATE TABLE odd (id int PRIMARY KEY, j json, p point, b box, pth path, c circle, r regproc, l line, s lseg);
INSERT INTO odd VALUES (1, '{"a": 1}', '(1,2)', '(1,2),(3,4)', '((1,2),(3,4))', '<(1,2),3>', 'now', '{1,2,3}', '[(1,2),(3,4)]');
INSERT INTO odd (id) VALUES (2);
SELECT same('odd', 'NULL', 'ORDER BY id');

-- Values stored out of line, compressed in line, compressed out of line, with
-- a short header, and nested in each other (trap 1)
CREATE TABLE wide (id int PRIMARY KEY, t text, e text, c text, arr text[], comp pair, nest nested, comps pair[], rng text_range, dom dpair, j jsonb, b bytea);
ALTER TABLE wide ALTER e SET STORAGE EXTERNAL, ALTER c SET STORAGE MAIN;
CREATE FUNCTION noise(n int, seed bigint) RETURNS text LANGUAGE sql IMMUTABLE AS $$
	SELECT left(string_agg(md5(i::text || '/' || seed), ''), n) FROM generate_series(1, n / 32 + 1) i$$;
INSERT INTO wide
	SELECT i, noise(n, i), noise(n, i), repeat('c', n), ARRAY[noise(n, i), NULL, 'x'], ROW(i, noise(n, i))::pair,
		ROW(ROW(i, noise(n, i)), ARRAY[ROW(1, repeat('n', n)), NULL]::pair[])::nested, ARRAY[ROW(i, noise(n, i))]::pair[],
		text_range(noise(n, i), 'z' || noise(n, i)), ROW(i, noise(n, i))::dpair, jsonb_build_object('k', noise(n, i)), decode(noise(n, i), 'hex')
	FROM unnest(ARRAY[0, 2, 100, 126, 128, 1000, 2000, 4000, 30000, 200000]) WITH ORDINALITY u(n, i);
SELECT same('wide', 'NULL', 'ORDER BY id');
SELECT same($$SELECT * FROM peek_record('wide', '{b,nest,id,arr,rng}') AS r(b bytea, n nested, i int, a text[], r text_range)$$, 'SELECT b, nest, id, arr, rng FROM wide ORDER BY id');
SELECT same('wide', $$NULL, order_by => 'comp DESC'$$, 'ORDER BY comp DESC');
SELECT same('wide', $$NULL, order_by => 't', row_limit => 4$$, 'ORDER BY t LIMIT 4');
SELECT same('wide', $$NULL, filter => 'length(t) > 1000 AND (nest).p.y = e AND (comps[1]).y = t'$$, 'WHERE length(t) > 1000 ORDER BY id');
CREATE INDEX wide_hash ON wide (md5(t), c);
SELECT same('wide', $$'wide_hash', filter => 'length(c) < 3000'$$, 'WHERE length(c) < 3000 ORDER BY md5(t)');
-- what is compressed in line, in the index, is the same key
CREATE TABLE packed (k text, id int);
INSERT INTO packed SELECT repeat(x, 3000), i FROM unnest(ARRAY['a', 'b', 'a', 'c']) WITH ORDINALITY u(x, i);
CREATE INDEX packed_k ON packed (k, id);
SELECT same('packed', $$'packed_k', key => repeat('a', 3000)$$, $$WHERE k = repeat('a', 3000) ORDER BY id$$);
SELECT same('packed', $$'packed_k', keys => ARRAY[repeat('c', 3000), repeat('a', 3000)]$$, $$WHERE k IN (repeat('a', 3000), repeat('c', 3000)) ORDER BY k, id$$);
SELECT same('packed', $$'packed_k', filter => 'k > $1', args => ARRAY[repeat('a', 3000)]$$, $$WHERE k > repeat('a', 3000) ORDER BY k, id$$);
-- a key that lies out of line itself
SELECT same($$SELECT p.id FROM wide w, peek(NULL::wide, 'wide_hash', key => md5(w.t)) p ORDER BY 1$$, 'SELECT id FROM wide ORDER BY 1');
SELECT same($$SELECT p.id FROM packed q, peek(NULL::packed, 'packed_k', key => ROW(q.k, q.id)) p ORDER BY 1$$, 'SELECT id FROM packed ORDER BY 1');

-- An answer does not depend on what becomes of its table: half read, then the
-- rows are deleted, the table rewritten and dropped (trap 1)
CREATE TYPE brief AS (id int, t text, comp pair, arr text[]);
CREATE TABLE brief_md5 AS SELECT id, md5(ROW(id, t, comp, arr)::text) m FROM wide;
CREATE FUNCTION read_after(threshold text, ddl text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	c refcursor;
	r brief;
	n int := 0;
	good int := 0;
BEGIN
	PERFORM set_config('peekstash.stash_threshold', threshold, true);
	CREATE TABLE mortal (LIKE wide INCLUDING ALL);
	INSERT INTO mortal SELECT * FROM wide;
	OPEN c FOR EXECUTE $q$SELECT (p).* FROM (SELECT peek(NULL::brief, 'mortal_pkey') p OFFSET 0) q$q$;
	LOOP
		FETCH c INTO r;
		EXIT WHEN NOT FOUND;
		n := n + 1;
		good := good + (SELECT count(*) FROM brief_md5 b WHERE b.id = r.id AND m = md5(r::text));
		IF n = 2 THEN
			EXECUTE ddl;
		END IF;
	END LOOP;
	CLOSE c;
	IF ddl !~ '^DROP' THEN
		DROP TABLE mortal;
	END IF;
	RETURN format('%s of %s', good, n);
END $$;
SELECT th, ddl, read_after(th, ddl) FROM unnest(ARRAY['512MB', '10kB', '0']) th, unnest(ARRAY['DELETE FROM mortal', 'TRUNCATE mortal', 'DROP TABLE mortal']) ddl;

-- Columns that came and went (trap 6): dropped, added again, added with a
-- default that old rows do not hold, of another type
CREATE TABLE history (id int PRIMARY KEY, a int, b text, c int);
INSERT INTO history SELECT i, i, 'b' || i, i FROM generate_series(1, 3) i;
ALTER TABLE history DROP COLUMN b;
INSERT INTO history VALUES (4, 4, 4);
SELECT same('history', 'NULL', 'ORDER BY id');
ALTER TABLE history ADD COLUMN b int DEFAULT 17, ADD COLUMN d text DEFAULT 'default', ADD COLUMN e text DEFAULT repeat('x', 10), ADD COLUMN f int;
INSERT INTO history VALUES (5, 5, 5, 5, 'five', 'e', 5), (6, 6, 6, NULL, NULL, NULL, NULL);
SELECT * FROM peek(NULL::history);
SELECT same('history', 'NULL', 'ORDER BY id');
SELECT same('history', $$NULL, filter => 'd = $1 AND b = 17', args => '{default}', order_by => 'b, id'$$, $$WHERE d = 'default' AND b = 17 ORDER BY id$$);
CREATE INDEX history_b ON history (b, id);
SELECT same('history', $$'history_b', key => 17$$, 'WHERE b = 17 ORDER BY id');
-- a default is data like any: it is measured, and folds with what is stored
CREATE TABLE folded (k int);
INSERT INTO folded VALUES (1);
ALTER TABLE folded ADD COLUMN d int DEFAULT 5;
INSERT INTO folded VALUES (1, 5);
CREATE INDEX folded_k ON folded (k);
SELECT answer_bytes AS before FROM peekstash.stat \gset
SELECT * FROM peek(NULL::folded, 'folded_k');
SELECT answer_bytes - :before AS "one entry: 4 + 4 + 16" FROM peekstash.stat;
ALTER TABLE history DROP COLUMN a, DROP COLUMN c, DROP COLUMN d, ALTER e TYPE varchar(400);
SELECT same('history', 'NULL', 'ORDER BY id');
SELECT peek(NULL::history, key => 5);
SELECT same($$SELECT * FROM peek_record('history') AS r(id int, b int, e varchar, f int)$$, 'SELECT id, b, e, f FROM history ORDER BY id');
CREATE TABLE all_gone (id int PRIMARY KEY, a int);
ALTER TABLE all_gone DROP COLUMN a, ADD COLUMN a text DEFAULT 'again';
INSERT INTO all_gone VALUES (1);
SELECT same('all_gone', 'NULL', 'ORDER BY id');

-- A rowtype with dropped attributes that is not the table's
CREATE TYPE gaps AS (gone1 int, f int, gone2 text, id int, gone3 int);
ALTER TYPE gaps DROP ATTRIBUTE gone1, DROP ATTRIBUTE gone2, DROP ATTRIBUTE gone3;
SELECT same($$SELECT * FROM peek(NULL::gaps, 'history')$$, 'SELECT f, id FROM history ORDER BY id');
SELECT peek(NULL::gaps, 'history', key => 5);
-- of an inheritance child and of its parent
CREATE TABLE mother (id int PRIMARY KEY, a int, b text);
CREATE TABLE daughter (extra int, b text, a int, id int PRIMARY KEY);
ALTER TABLE daughter INHERIT mother;
INSERT INTO daughter (id, a, b, extra) VALUES (1, 2, 'x', 3);
SELECT same($$SELECT * FROM peek(NULL::mother, 'daughter_pkey')$$, 'SELECT * FROM mother');

-- Generated columns, identity, defaults
CREATE TABLE generated (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, a int, twice int GENERATED ALWAYS AS (a * 2) STORED, label text GENERATED ALWAYS AS ('n' || a) STORED);
INSERT INTO generated (a) SELECT i FROM generate_series(1, 5) i;
CREATE INDEX generated_twice ON generated (twice DESC) INCLUDE (label);
SELECT same('generated', $$'generated_twice', upper => 6, filter => 'label <> $1', args => '{n2}'$$, $$WHERE twice <= 6 AND label <> 'n2' ORDER BY twice DESC$$);

-- Rows of one column, of NULLs only, of 1600 columns, of 1600 with one dropped
CREATE TABLE single (k int);
INSERT INTO single VALUES (NULL), (1), (NULL);
CREATE INDEX single_k ON single (k);
SELECT same('single', $$'single_k'$$, 'ORDER BY k');
DO $$
BEGIN
	EXECUTE format('CREATE TABLE most (%s)', (SELECT string_agg('c' || i || CASE i % 3 WHEN 0 THEN ' int' WHEN 1 THEN ' bool' ELSE ' text' END, ', ') FROM generate_series(1, 1600) i));
	EXECUTE format('INSERT INTO most SELECT %s FROM generate_series(1, 3) r', (SELECT string_agg(CASE i % 3 WHEN 0 THEN 'r' WHEN 1 THEN 'r % 2 = 0' ELSE 'CASE WHEN r = 2 THEN ''x'' END' END, ', ') FROM generate_series(1, 1600) i));
	CREATE INDEX most_c3 ON most (c3);
END $$;
SELECT same($$SELECT md5(p::text) FROM peek(NULL::most, 'most_c3') p$$, 'SELECT md5(most::text) FROM most ORDER BY c3');
SELECT same($$SELECT md5(p::text) FROM peek(NULL::most, 'most_c3', order_by => 'c3 + c6 DESC, c1') p$$, 'SELECT md5(most::text) FROM most ORDER BY c3 DESC');
SELECT same($$SELECT * FROM peek_record('most_c3', '{c1600,c1,c3}') AS r(a bool, b bool, c int)$$, 'SELECT c1600, c1, c3 FROM most ORDER BY c3');
ALTER TABLE most DROP COLUMN c5;
SELECT same($$SELECT md5(p::text) FROM peek(NULL::most, 'most_c3') p$$, 'SELECT md5(most::text) FROM most ORDER BY c3');
-- the answer may have more columns than the table, but not more than a row
SELECT left(error('SELECT * FROM peek_record(''single_k'', array_fill(''k''::text, ARRAY[1600])) AS r(' || string_agg('k' || i || ' int', ', ') || ')'), 80) FROM generate_series(1, 1600) i;
SELECT error($$SELECT * FROM peek_record('single_k', array_fill('k'::text, ARRAY[1665])) AS r(k int)$$);

-- A row that holds rows: a table's row type as a column, and a domain over it
CREATE TABLE holder (id int PRIMARY KEY, p pair, w wide, ws wide[]);
INSERT INTO holder SELECT id, comp, w, ARRAY[w, NULL] FROM wide w WHERE id % 3 = 0;
SELECT same('holder', 'NULL', 'ORDER BY id');

-- How values look is the reader's setting
SET timezone = 'America/New_York';
SET datestyle = 'ISO';
CREATE TABLE stamps (t timestamptz PRIMARY KEY);
INSERT INTO stamps VALUES ('2024-01-01 00:00+00');
SELECT * FROM peek(NULL::stamps, key => '2024-01-01 00:00+00');
SELECT * FROM peek(NULL::stamps, key => '2023-12-31 19:00');
SET timezone = 'UTC';
SELECT * FROM peek(NULL::stamps);

SET client_min_messages = warning;
DROP SCHEMA types_test CASCADE;
