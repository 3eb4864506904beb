--
-- Keys: what may be given as key and keys, and what it is compared with.
--
\set ECHO none
\getenv srcdir PG_ABS_SRCDIR
\set helpers :srcdir '/helpers.sql'
\i :helpers
\set ECHO all
CREATE SCHEMA keys_test;
SET search_path = keys_test, test, public;

CREATE TABLE t (a int, b text, c numeric, d date);
INSERT INTO t
	SELECT nullif(i % 20, 0), nullif('b' || i % 3, 'b2'), i / 4.0, date '2024-01-01' + i % 5
	FROM generate_series(1, 200) i;
CREATE INDEX t_abc ON t (a, b, c);
CREATE INDEX t_c ON t (c);
CREATE INDEX t_d ON t (d DESC);

-- A scalar is one column; it fixes the first one whatever follows
SELECT same('t', $$'t_abc', key => 5$$, 'WHERE a = 5 ORDER BY a, b, c');
-- A row is a list of leading columns: one, two, all
SELECT same('t', $$'t_abc', key => ROW(5)$$, 'WHERE a = 5 ORDER BY a, b, c');
SELECT same('t', $$'t_abc', key => ROW(5, 'b1')$$, $$WHERE a = 5 AND b = 'b1' ORDER BY a, b, c$$);
SELECT same('t', $$'t_abc', key => (5, 'b1')$$, $$WHERE a = 5 AND b = 'b1' ORDER BY a, b, c$$);
SELECT same('t', $$'t_abc', key => ROW(5, 'b1', 6.25)$$, $$WHERE a = 5 AND b = 'b1' AND c = 6.25$$);
-- backward, and on a DESC index
SELECT same('t', $$'t_abc', key => 5, backward => true$$, 'WHERE a = 5 ORDER BY a DESC, b DESC, c DESC');
SELECT same('t', $$'t_d', key => date '2024-01-03'$$, $$WHERE d = '2024-01-03' ORDER BY ctid$$);
-- absent
SELECT same('t', $$'t_abc', key => 77$$, 'WHERE a = 77');
SELECT same('t', $$'t_abc', key => ROW(5, 'zz')$$, $$WHERE a = 5 AND b = 'zz'$$);
-- NULL, or NULL inside, matches nothing, as = does; also where the table has NULL
SELECT same('t', $$'t_abc', key => NULL::int$$, 'WHERE a = NULL');
SELECT same('t', $$'t_abc', key => ROW(NULL)$$, 'WHERE a = NULL');
SELECT same('t', $$'t_abc', key => ROW(5, NULL)$$, 'WHERE a = 5 AND b = NULL');
SELECT same('t', $$'t_abc', key => ROW(NULL, 'b1')$$, $$WHERE a = NULL AND b = 'b1'$$);
-- nothing is walked then
SELECT walk('t', $$'t_abc', key => ROW(5, NULL)$$);
-- a wrong type is an error also beside a NULL
SELECT error('t', $$'t_abc', key => ROW(NULL::int, 7)$$);

-- A list of scalars: sorted, doubles and NULLs left out (semantics 4, trap 2)
SELECT same('t', $$'t_abc', keys => ARRAY[7, 3, 5]$$, 'WHERE a IN (3, 5, 7) ORDER BY a, b, c');
SELECT same('t', $$'t_abc', keys => ARRAY[7, 3, 7, 3, 3]$$, 'WHERE a IN (3, 7) ORDER BY a, b, c');
SELECT same('t', $$'t_abc', keys => ARRAY[7, NULL, 3, 99, -1]$$, 'WHERE a IN (3, 7) ORDER BY a, b, c');
SELECT same('t', $$'t_abc', keys => ARRAY[NULL]::int[]$$, 'WHERE false');
SELECT same('t', $$'t_abc', keys => ARRAY[]::int[]$$, 'WHERE false');
SELECT same('t', $$'t_abc', keys => '{}'::int[]$$, 'WHERE false');
SELECT same('t', $$'t_abc', keys => ARRAY[[7, 3], [5, 3]]$$, 'WHERE a IN (3, 5, 7) ORDER BY a, b, c');
SELECT same('t', $$'t_abc', keys => '[5:7]={7,3,5}'::int[]$$, 'WHERE a IN (3, 5, 7) ORDER BY a, b, c');
SELECT same('t', $$'t_abc', keys => (SELECT array_agg(i) FROM generate_series(-1000, 1000) i)$$,
	'WHERE a IS NOT NULL ORDER BY a, b, c');
-- backward, and on a DESC index: the seeks follow the walk
SELECT same('t', $$'t_abc', keys => ARRAY[3, 7, 5], backward => true$$,
	'WHERE a IN (3, 5, 7) ORDER BY a DESC, b DESC, c DESC');
SELECT same('t', $$'t_d', keys => ARRAY[date '2024-01-02', '2024-01-04', '2024-01-01']$$,
	$$WHERE d IN ('2024-01-01', '2024-01-02', '2024-01-04') ORDER BY d DESC, ctid$$);
-- (btree returns equal entries in no promised order when it walks backward)
SELECT same($$SELECT d FROM peek(NULL::t, 't_d', keys => ARRAY[date '2024-01-02', '2024-01-04', '2024-01-01'], backward => true)$$,
	$$SELECT d FROM t WHERE d IN ('2024-01-01', '2024-01-02', '2024-01-04') ORDER BY d$$);
-- a list of rows
SELECT same('t', $$'t_abc', keys => ARRAY[ROW(7, 'b1'), ROW(3, 'b0'), ROW(7, 'b1')]$$,
	$$WHERE (a, b) IN ((7, 'b1'), (3, 'b0')) ORDER BY a, b, c$$);
SELECT same('t', $$'t_abc', keys => ARRAY[ROW(7, 'b1', 1.75), ROW(7, 'b1', 16.75)]$$,
	$$WHERE (a, b, c) IN ((7, 'b1', 1.75), (7, 'b1', 16.75)) ORDER BY a, b, c$$);
SELECT same('t', $$'t_abc', keys => ARRAY[ROW(7), ROW(3)]$$, 'WHERE a IN (3, 7) ORDER BY a, b, c');
SELECT same('t', $$'t_abc', keys => ARRAY[ROW(7, NULL), ROW(3, 'b0'), NULL, ROW(NULL, 'b1')]$$,
	$$WHERE (a, b) = (3, 'b0') ORDER BY a, b, c$$);
SELECT same('t', $$'t_abc', keys => ARRAY[ROW(NULL, NULL)]$$, 'WHERE false');
SELECT same('t', $$'t_abc', keys => (SELECT array_agg(ROW(a, b)) FROM t)$$,
	$$WHERE a IS NOT NULL AND b IS NOT NULL ORDER BY a, b, c$$);
-- one seek a key, absent ones are no positions
SELECT walk('t', $$'t_abc', keys => ARRAY[ROW(7, 'b1', 1.75), ROW(7, 'b1', 16.75), ROW(7, 'b1', 1.75), ROW(8, 'no', 1)]$$);
-- a list fixes columns; a range on the next one may follow
SELECT same('t', $$'t_abc', keys => ARRAY[7, 3], lower => 'b1'$$, $$WHERE a IN (3, 7) AND b >= 'b1' ORDER BY a, b, c$$);
SELECT same('t', $$'t_abc', keys => ARRAY[ROW(7, 'b1'), ROW(3, 'b0')], upper => 10, bounds => '()'$$,
	$$WHERE (a, b) IN ((7, 'b1'), (3, 'b0')) AND c < 10 ORDER BY a, b, c$$);
SELECT same('t', $$'t_abc', keys => ARRAY[7, 3], lower => ROW('b0', 10), upper => ROW('b1', 20)$$,
	$$WHERE a IN (3, 7) AND (b, c) >= ('b0', 10) AND (b, c) <= ('b1', 20) ORDER BY a, b, c$$);

-- Other types: an exact operator of the operator family
SELECT same('t', $$'t_abc', key => 5::smallint$$, 'WHERE a = 5 ORDER BY a, b, c');
SELECT same('t', $$'t_abc', key => 5::bigint$$, 'WHERE a = 5 ORDER BY a, b, c');
SELECT same('t', $$'t_abc', key => 5000000000$$, 'WHERE a = 5000000000');
SELECT same('t', $$'t_abc', keys => ARRAY[5000000000, 7, 3]$$, 'WHERE a IN (7, 3) ORDER BY a, b, c');
SELECT same('t', $$'t_d', key => timestamp '2024-01-03'$$, $$WHERE d = '2024-01-03' ORDER BY ctid$$);
SELECT same('t', $$'t_d', key => timestamp '2024-01-03 12:00'$$, 'WHERE false');
SELECT same('t', $$'t_d', keys => ARRAY[timestamptz '2024-01-03', '2024-01-01']$$,
	$$WHERE d = ANY (ARRAY[timestamptz '2024-01-03', '2024-01-01']) ORDER BY d DESC, ctid$$);
-- rows of one list may differ in type
SELECT same('t', $$'t_abc', keys => ARRAY[ROW(7), ROW(3::smallint), ROW('5'), ROW('6'::text)]$$, 'WHERE a IN (3, 5, 6, 7) ORDER BY a, b, c');
SELECT same('t', $$'t_abc', keys => ARRAY[ROW(7, 'b1'::varchar), ROW(3::smallint, 'b0'::text)]$$,
	$$WHERE (a, b) IN ((7, 'b1'), (3, 'b0')) ORDER BY a, b, c$$);

-- ... else one implicit coercion
SELECT same('t', $$'t_c', key => 7$$, 'WHERE c = 7');
SELECT same('t', $$'t_c', keys => ARRAY[7, 3]$$, 'WHERE c IN (3, 7) ORDER BY c');
SELECT same('t', $$'t_c', key => 7::bigint$$, 'WHERE c = 7');
-- what is no implicit coercion of the value to the column's type is an error:
-- the column is never coerced, that would not be the index's order
SELECT error('t', $$'t_abc', key => 5.0$$);
SELECT error('t', $$'t_abc', key => 5::float8$$);
SELECT error('t', $$'t_c', key => 5::float8$$);
SELECT error('t', $$'t_abc', key => true$$);
SELECT error('t', $$'t_abc', key => ROW(5, 7)$$);
SELECT error('t', $$'t_abc', key => ROW(5, date '2024-01-01')$$);
SELECT error('t', $$'t_abc', keys => ARRAY[5.0]$$);
SELECT split_part(error('t', $$'t_abc', key => ARRAY[5]$$), E'\n', 1);

-- A literal, and text for a column that is no string, goes through the input
-- function of the column's type
SELECT same('t', $$'t_abc', key => '5'$$, 'WHERE a = 5 ORDER BY a, b, c');
SELECT same('t', $$'t_abc', key => ' 5 '$$, 'WHERE a = 5 ORDER BY a, b, c');
SELECT same('t', $$'t_abc', key => '5'::text$$, 'WHERE a = 5 ORDER BY a, b, c');
SELECT same('t', $$'t_abc', key => '5'::varchar$$, 'WHERE a = 5 ORDER BY a, b, c');
SELECT same('t', $$'t_abc', key => ROW('5', 'b1', '6.25')$$, $$WHERE a = 5 AND b = 'b1' AND c = 6.25$$);
SELECT same('t', $$'t_abc', key => ROW('5'::text, 'b1'::text, '6.25'::text)$$, $$WHERE a = 5 AND b = 'b1' AND c = 6.25$$);
SELECT same('t', $$'t_abc', keys => '{5,3,NULL}'$$, 'WHERE a IN (3, 5) ORDER BY a, b, c');
SELECT same('t', $$'t_abc', keys => ARRAY['5', '3']$$, 'WHERE a IN (3, 5) ORDER BY a, b, c');
SELECT same('t', $$'t_abc', keys => ARRAY[ROW('5', 'b1'), ROW('3', 'b0')]$$,
	$$WHERE (a, b) IN ((5, 'b1'), (3, 'b0')) ORDER BY a, b, c$$);
SELECT same('t', $$'t_d', key => 'Jan 3, 2024'$$, $$WHERE d = '2024-01-03' ORDER BY ctid$$);
SELECT error('t', $$'t_abc', key => 'five'$$);
SELECT error('t', $$'t_abc', key => ROW('5', 'b1', 'x')$$);
SELECT error('t', $$'t_abc', keys => '{5,x}'$$);
SELECT error('t', $$'t_abc', keys => '5'$$);

-- Widths and combinations (22023)
SELECT error('t', $$'t_abc', key => ROW(1, 'b', 2, 3)$$);
SELECT error('t', $$'t_c', key => ROW(1, 2)$$);
SELECT error('t', $$'t_abc', keys => ARRAY[ROW(1, 'b', 2, 3)]$$);
SELECT error('t', $$'t_abc', keys => ARRAY[ROW(1, 'b'), ROW(2)]$$);
SELECT error('t', $$'t_abc', keys => ARRAY[ROW()]$$);
SELECT error('t', $$'t_abc', keys => 5$$);
SELECT error('t', $$'t_abc', keys => ROW(5, 6)$$);
SELECT error('t', $$'t_abc', key => 5, keys => ARRAY[5]$$);
SELECT error('t', $$'t_abc', key => NULL, keys => ARRAY[5]$$);
SELECT error('t', $$'t_abc', key => 5, keys => NULL$$);
SELECT error('t', $$'t_c', key => 5, lower => 5$$);
SELECT error('t', $$'t_c', keys => ARRAY[5], upper => 5$$);
SELECT error('t', $$'t_abc', key => ROW(5, 'b1'), lower => ROW(5, 6)$$);
-- INCLUDE columns are no key columns
CREATE INDEX t_include ON t (a) INCLUDE (c);
SELECT error('t', $$'t_include', key => ROW(5, 6)$$);
SELECT same('t', $$'t_include', key => 5$$, 'WHERE a = 5 ORDER BY ctid');

-- Domains compare as their base types, as key and as column
CREATE DOMAIN whole AS int CHECK (VALUE > 0);
CREATE DOMAIN words AS text;
CREATE TABLE dom (w whole, s words);
INSERT INTO dom SELECT i, 's' || i % 4 FROM generate_series(1, 20) i;
CREATE INDEX dom_w ON dom (w, s);
CREATE INDEX dom_s ON dom (s, w);
SELECT same('dom', $$'dom_w', key => 7$$, 'WHERE w = 7');
SELECT same('dom', $$'dom_w', key => 7::whole$$, 'WHERE w = 7');
SELECT same('dom', $$'dom_w', key => 7::bigint$$, 'WHERE w = 7');
SELECT same('dom', $$'dom_w', key => '7'$$, 'WHERE w = 7');
SELECT same('dom', $$'dom_w', key => ROW(7::whole, 's3'::words)$$, 'WHERE w = 7');
SELECT same('dom', $$'dom_w', keys => ARRAY[7, 8]::whole[]$$, 'WHERE w IN (7, 8) ORDER BY w');
SELECT same('dom', $$'dom_s', key => 's3'::words, lower => 10::whole$$, $$WHERE s = 's3' AND w >= 10 ORDER BY w$$);
SELECT same('t', $$'t_abc', key => 5::whole$$, 'WHERE a = 5 ORDER BY a, b, c');
-- a value that the domain would refuse is only not found
SELECT same('dom', $$'dom_w', key => -7$$, 'WHERE w = -7');
SELECT same('dom', $$'dom_w', key => '-7'$$, 'WHERE w = -7');

-- Enums
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE TABLE person (m mood, id int);
INSERT INTO person SELECT (enum_range(NULL::mood))[1 + i % 3], i FROM generate_series(1, 9) i;
CREATE INDEX person_m ON person (m, id);
SELECT same('person', $$'person_m', key => 'ok'$$, $$WHERE m = 'ok' ORDER BY id$$);
SELECT same('person', $$'person_m', key => 'ok'::mood$$, $$WHERE m = 'ok' ORDER BY id$$);
SELECT same('person', $$'person_m', key => 'ok'::text$$, $$WHERE m = 'ok' ORDER BY id$$);
SELECT same('person', $$'person_m', keys => '{happy,sad}'$$, $$WHERE m IN ('sad', 'happy') ORDER BY m, id$$);
SELECT same('person', $$'person_m', keys => ARRAY[ROW('happy', 2), ROW('sad', 3)]$$,
	$$WHERE (m, id) IN (('happy', 2), ('sad', 3)) ORDER BY m, id$$);
SELECT error('person', $$'person_m', key => 'glad'$$);
SELECT error('person', $$'person_m', key => 1$$);

-- A column of an array type: an array is one key, several are rows
CREATE TABLE arr (v int[], id int);
INSERT INTO arr SELECT CASE WHEN i % 5 > 0 THEN ARRAY[i % 3, i % 2] END, i FROM generate_series(1, 20) i;
CREATE INDEX arr_v ON arr (v, id);
SELECT same('arr', $$'arr_v', key => ARRAY[1, 0]$$, $$WHERE v = '{1,0}' ORDER BY id$$);
SELECT same('arr', $$'arr_v', key => '{1,0}'$$, $$WHERE v = '{1,0}' ORDER BY id$$);
SELECT same('arr', $$'arr_v', key => ROW(ARRAY[1, 0], 4)$$, $$WHERE v = '{1,0}' AND id = 4$$);
SELECT same('arr', $$'arr_v', keys => ARRAY[ROW(ARRAY[2, 1]), ROW(ARRAY[1, 0])]$$,
	$$WHERE v IN ('{1,0}', '{2,1}') ORDER BY v, id$$);
SELECT same('arr', $$'arr_v', keys => ARRAY[ROW('{2,1}'), ROW('{1,0}')]$$,
	$$WHERE v IN ('{1,0}', '{2,1}') ORDER BY v, id$$);
SELECT error('arr', $$'arr_v', keys => ARRAY[ARRAY[2, 1], ARRAY[1, 0]]$$);
SELECT split_part(error('arr', $$'arr_v', key => 5$$), E'\n', 1);
SELECT split_part(error('arr', $$'arr_v', key => ARRAY[5::bigint]$$), E'\n', 1);

-- A value of a named composite type is one scalar
CREATE TYPE pair AS (x int, y text);
CREATE TABLE pairs (p pair, id int);
INSERT INTO pairs SELECT ROW(i % 3, 'y' || i % 2)::pair, i FROM generate_series(1, 12) i;
CREATE INDEX pairs_p ON pairs (p, id);
SELECT same('pairs', $$'pairs_p', key => ROW(1, 'y0')::pair$$, $$WHERE p = ROW(1, 'y0')::pair ORDER BY id$$);
SELECT same('pairs', $$'pairs_p', key => '(1,y0)'$$, $$WHERE p = ROW(1, 'y0')::pair ORDER BY id$$);
SELECT same('pairs', $$'pairs_p', key => ROW(ROW(1, 'y0')::pair, 4)$$, $$WHERE p = ROW(1, 'y0')::pair AND id = 4$$);
SELECT same('pairs', $$'pairs_p', keys => ARRAY[ROW(2, 'y1'), ROW(1, 'y0')]::pair[]$$,
	$$WHERE p IN (ROW(1, 'y0')::pair, ROW(2, 'y1')::pair) ORDER BY p, id$$);
SELECT same('pairs', $$'pairs_p', keys => ARRAY[ROW(ROW(2, 'y1')::pair, 5), ROW(ROW(1, 'y0')::pair, 4)]$$,
	$$WHERE id IN (4, 5) AND p IN (ROW(1, 'y0')::pair, ROW(2, 'y1')::pair) ORDER BY p, id$$);
-- an anonymous row is a list of columns, also there
SELECT error('pairs', $$'pairs_p', key => ROW(1, 4)$$);

-- Strings: text, varchar, char and name among each other
CREATE TABLE str (t text, v varchar(10), c char(10), n name);
INSERT INTO str SELECT s, s, s, s FROM unnest(ARRAY['a', 'b', 'B', 'ab', 'a b']) s;
CREATE INDEX str_t ON str (t);
CREATE INDEX str_v ON str (v);
CREATE INDEX str_c ON str (c);
CREATE INDEX str_n ON str (n);
SELECT format('%s %s: %s', i, k, same('str', format('%L, key => %s', i, k), format('WHERE %s = %s', right(i, 1), k)))
	FROM unnest(ARRAY['str_t', 'str_v', 'str_c', 'str_n']) i,
		unnest(ARRAY[$$'ab'$$, $$'ab'::text$$, $$'ab'::varchar$$, $$'ab'::char(10)$$, $$'ab'::name$$, $$'zz'$$]) k
	-- name has no implicit cast to char(n)
	WHERE NOT (i = 'str_c' AND k LIKE '%name');
-- char(n) compares without trailing blanks
SELECT same('str', $$'str_c', key => 'ab   '$$, $$WHERE c = 'ab   '$$);
SELECT same('str', $$'str_c', keys => ARRAY['ab ', 'ab', 'a']$$, $$WHERE c IN ('ab', 'a') ORDER BY c$$);
SELECT same('str', $$'str_t', key => 'ab '$$, $$WHERE t = 'ab '$$);
SELECT same('str', $$'str_n', keys => '{b,a}'$$, $$WHERE n IN ('a', 'b') ORDER BY n$$);
SELECT same('str', $$'str_n', keys => ARRAY['b'::text, 'a']$$, $$WHERE n IN ('a', 'b') ORDER BY n$$);
SELECT error('str', $$'str_t', key => 5$$);

-- The collation is the index's, for equality and for order
CREATE COLLATION nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE INDEX str_nocase ON str (t COLLATE nocase);
SELECT t FROM peek(NULL::str, 'str_nocase', key => 'b'::text) ORDER BY t COLLATE "C";
SELECT t FROM peek(NULL::str, 'str_nocase', keys => ARRAY['B', 'b', 'b'::text]) ORDER BY t COLLATE "C";
SELECT t FROM peek(NULL::str, 'str_nocase', lower => 'B', upper => 'B') ORDER BY t COLLATE "C";
SELECT same('str', $$'str_t', key => 'b' COLLATE nocase$$, $$WHERE t = 'b' COLLATE "C"$$);
-- a type of an extension
SET client_min_messages = warning;
CREATE EXTENSION citext;
RESET client_min_messages;
CREATE TABLE ci (w citext);
INSERT INTO ci VALUES ('Abc'), ('aBC'), ('abd'), ('B');
CREATE INDEX ci_w ON ci (w);
SELECT same('ci', $$'ci_w', key => 'ABC'$$, $$WHERE w = 'ABC' ORDER BY ctid$$);
SELECT same('ci', $$'ci_w', key => 'ABC'::citext$$, $$WHERE w = 'ABC' ORDER BY ctid$$);
SELECT same('ci', $$'ci_w', keys => '{b,ABC,b,B}'$$, $$WHERE w IN ('b', 'abc') ORDER BY w, ctid$$);
DROP TABLE ci;
DROP EXTENSION citext;

-- No operator is found by search_path: one that lies in wait is not called
CREATE FUNCTION lie(int, int) RETURNS bool LANGUAGE sql IMMUTABLE AS 'SELECT true';
CREATE OPERATOR keys_test.= (LEFTARG = int, RIGHTARG = int, FUNCTION = lie);
SET search_path = keys_test, test, public, pg_catalog;
SELECT same('t', $$'t_abc', key => 5$$, 'WHERE a OPERATOR(pg_catalog.=) 5 ORDER BY a, b, c');
SELECT same('t', $$'t_abc', keys => ARRAY[5, 3]$$, 'WHERE a OPERATOR(pg_catalog.=) 5 OR a OPERATOR(pg_catalog.=) 3 ORDER BY a, b, c');
SET search_path = keys_test, test, public;

-- An index with an operator class of its own order
CREATE INDEX t_pattern ON t (b text_pattern_ops, a, c);
SELECT same('t', $$'t_pattern', key => 'b1'$$, $$WHERE b = 'b1' ORDER BY a, c$$);
SELECT same('t', $$'t_pattern', keys => ARRAY[ROW('b1', 5), ROW('b0'::varchar, 3)]$$,
	$$WHERE (b, a) IN (('b1', 5), ('b0', 3)) ORDER BY b, a, c$$);
CREATE FUNCTION int_desc(int, int) RETURNS int LANGUAGE sql IMMUTABLE STRICT AS 'SELECT btint4cmp($2, $1)';
CREATE OPERATOR CLASS desc_ops FOR TYPE int USING btree AS
	OPERATOR 1 >, OPERATOR 2 >=, OPERATOR 3 pg_catalog.=, OPERATOR 4 <=, OPERATOR 5 <,
	FUNCTION 1 int_desc(int, int);
CREATE TABLE own (a int);
INSERT INTO own SELECT i % 10 FROM generate_series(1, 20) i;
CREATE INDEX own_a ON own (a desc_ops);
SELECT same('own', $$'own_a', keys => ARRAY[3, 7, 3]$$, 'WHERE a OPERATOR(pg_catalog.=) 3 OR a OPERATOR(pg_catalog.=) 7 ORDER BY a DESC');
SELECT same('own', $$'own_a', key => 3$$, 'WHERE a OPERATOR(pg_catalog.=) 3');
-- the family has no operator for bigint, which has no implicit cast to int
SELECT error('own', $$'own_a', key => 3::bigint$$);

-- An untyped driver parameter is no key: it needs a cast
PREPARE p AS SELECT * FROM peek(NULL::t, 't_abc', key => ROW($1, $2));
PREPARE p AS SELECT count(*) FROM peek(NULL::t, 't_abc', key => ROW($1::int, $2::text));
EXECUTE p (5, 'b1');
PREPARE q (int[]) AS SELECT count(*) FROM peek(NULL::t, 't_abc', keys => $1);
EXECUTE q ('{5,6}');
DEALLOCATE ALL;

SET client_min_messages = warning;
DROP SCHEMA keys_test CASCADE;
