--
-- Expressions: filter with args, and order_by.  Errors are shown with their
-- positions, which point into the text that the user wrote.
--
\set ECHO none
\getenv srcdir PG_ABS_SRCDIR
\set helpers :srcdir '/helpers.sql'
\i :helpers
\set ECHO all
CREATE SCHEMA expression_test;
SET search_path = expression_test, test, public;

CREATE TABLE t (id int PRIMARY KEY, a int, s text, "Odd ""name" int, d date, j jsonb, p point);
INSERT INTO t
	SELECT i, nullif(i % 7, 3), chr(97 + i % 5) || i % 3, -i, date '2024-01-01' + i, jsonb_build_object('k', i % 4), point(i, i)
	FROM generate_series(1, 60) i;
CREATE TABLE other (id int);

-- Any boolean expression over the table's columns
SELECT f, same('t', format('NULL, filter => %L', f), format(E'WHERE %s\n ORDER BY id', f))
	FROM unnest(ARRAY['id > 50', 'a IS NULL OR id = 1', 's LIKE ''b%'' AND a <> 2', 'a IN (1, 2) AND NOT s = ''a0''', '"Odd ""name" < -55',
		't.id = 7', 't IS NOT NULL AND id < 4', '(t).id = 8', 'CASE WHEN a > 3 THEN s < ''c'' ELSE id % 2 = 0 END', 'coalesce(a, 0) = 0',
		'j @> ''{"k": 2}''', 'j->>''k'' = ''1''', 'd BETWEEN ''2024-01-05'' AND ''2024-01-09''', 'd > ''2024-02-20''::date - 10',
		'(id, a) < (10, 2)', 's COLLATE "C" > ''d''', 'ARRAY[a, id] && ARRAY[5, 60]', 'true', 'false', 'NULL', 'a = a', 's = current_user',
		'id < 5 -- a comment', 'id /* and */ < 5', E'id\n<\n5', 'extract(day FROM d) = 3', 'id::text ~ ''^5''', 'greatest(a, 5) = 6',
		'row(id, a) IS DISTINCT FROM row(1, 1) AND id < 4',
		'''yes''']) f;

-- Parameters are typed by the parser, as in a prepared statement
SELECT id FROM peek(NULL::t, filter => 'id = $1', args => '{7}');
SELECT id FROM peek(NULL::t, filter => 'd = $1', args => '{2024-01-08}');
SELECT id FROM peek(NULL::t, filter => 'id = any ($1)', args => ARRAY['{3,5}']);
SELECT id FROM peek(NULL::t, filter => 'id < $2 AND s = $1', args => '{a0,20}');
SELECT id FROM peek(NULL::t, filter => 'id = $1 OR id = $1 + 1', args => '{7}');
SELECT id FROM peek(NULL::t, filter => 'j = $1', args => ARRAY['{"k": 3}']) LIMIT 1;
SELECT id FROM peek(NULL::t, filter => '$1::int = id', args => '{7}');
SELECT count(*) FROM peek(NULL::t, filter => '$1', args => '{true}');
SELECT count(*) FROM peek(NULL::t, filter => '$1', args => '{NULL}');
SELECT count(*) FROM peek(NULL::t, filter => 's = $1', args => ARRAY[NULL]);
SELECT count(*) FROM peek(NULL::t, filter => 'a IS NOT DISTINCT FROM $1', args => ARRAY[NULL]);
-- text stays text: a value is never parsed as SQL
SELECT count(*) FROM peek(NULL::t, filter => 's = $1', args => ARRAY[$$x' OR true --$$]);
-- their number must be right, and none may be left out
SELECT error('t', $$filter => 'id = $1'$$);
SELECT error('t', $$filter => 'id = $1', args => '{}'$$);
SELECT error('t', $$filter => 'id = $1', args => '{1,2}'$$);
SELECT error('t', $$filter => 'id = $2', args => '{1,2}'$$);
SELECT error('t', $$filter => 'id = 1', args => '{1}'$$);
SELECT error('t', $$args => '{1}'$$);
SELECT error('t', $$filter => 'id = 1', args => '{}'$$);
SELECT error('t', $$args => '{}'$$);
-- what they hold must be readable as that type
SELECT error('t', $$filter => 'id = $1', args => '{x}'$$);
SELECT error('t', $$filter => 'd = $1', args => '{2024-02-30}'$$);
-- and the type must be known, and one
SELECT * FROM peek(NULL::t, filter => '$1 IS NULL', args => '{x}');
SELECT * FROM peek(NULL::t, filter => 'id = $1 AND s = $1', args => '{1}');
SELECT * FROM peek(NULL::t, filter => 'id = $0', args => '{1}');

-- One expression and nothing else: no text grows a clause, a second
-- expression or a second statement
SELECT * FROM peek(NULL::t, filter => 'id = 1 FROM other');
SELECT * FROM peek(NULL::t, filter => 'true FROM other WHERE true');
SELECT * FROM peek(NULL::t, filter => 'true WHERE id = 1');
SELECT * FROM peek(NULL::t, filter => 'true) UNION SELECT (1');
SELECT * FROM peek(NULL::t, filter => 'true UNION SELECT true');
SELECT * FROM peek(NULL::t, filter => 'true UNION ALL SELECT true FROM other');
SELECT * FROM peek(NULL::t, filter => 'true INTERSECT SELECT true');
SELECT * FROM peek(NULL::t, filter => 'true GROUP BY id');
SELECT * FROM peek(NULL::t, filter => 'true HAVING true');
SELECT * FROM peek(NULL::t, filter => 'true WINDOW w AS ()');
SELECT * FROM peek(NULL::t, filter => 'true ORDER BY id');
SELECT * FROM peek(NULL::t, filter => 'true LIMIT 1');
SELECT * FROM peek(NULL::t, filter => 'true OFFSET 1');
SELECT * FROM peek(NULL::t, filter => 'true FETCH FIRST 1 ROW ONLY');
SELECT * FROM peek(NULL::t, filter => 'true FOR UPDATE');
SELECT * FROM peek(NULL::t, filter => 'true INTO x');
SELECT * FROM peek(NULL::t, filter => 'DISTINCT true');
SELECT * FROM peek(NULL::t, filter => 'DISTINCT ON (id) true');
SELECT * FROM peek(NULL::t, filter => 'true, true');
SELECT * FROM peek(NULL::t, filter => 'id = 1, pg_sleep(100)');
SELECT * FROM peek(NULL::t, filter => 'true; DROP TABLE other');
SELECT * FROM peek(NULL::t, filter => 'true;');
SELECT * FROM peek(NULL::t, filter => '');
SELECT * FROM peek(NULL::t, filter => '  -- nothing');
SELECT * FROM peek(NULL::t, filter => 'FROM other');
SELECT * FROM peek(NULL::t, filter => 'WHERE true');
SELECT * FROM peek(NULL::t, filter => 'SELECT true');
SELECT * FROM peek(NULL::t, filter => 'TABLE other');
SELECT * FROM peek(NULL::t, filter => 'DELETE FROM other');
SELECT * FROM peek(NULL::t, filter => '*');
SELECT * FROM peek(NULL::t, filter => 't.*');
SELECT * FROM peek(NULL::t, filter => 'true AS x');
SELECT * FROM peek(NULL::t, filter => 'true x');
SELECT * FROM peek(NULL::t, filter => 'x := true');
SELECT * FROM peek(NULL::t, filter => 'id = ''1');
SELECT * FROM peek(NULL::t, filter => 'id = (1');
SELECT * FROM peek(NULL::t, filter => 'id = :x');

-- (SELECT ALL is the same as SELECT: nothing has grown)
SELECT count(*) FROM peek(NULL::t, filter => 'ALL id < 5');

-- What it refers to: the columns of this table
SELECT * FROM peek(NULL::t, filter => 'id = 1 AND nothing = 2');
SELECT * FROM peek(NULL::t, filter => 'other.id = 1');
SELECT * FROM peek(NULL::t, filter => 'expression_test.t.id = 1 AND expression_test.other.id = 1');
SELECT * FROM peek(NULL::t, filter => 'nothing(id)');
SELECT * FROM peek(NULL::t, filter => 'id ~~ 5');
SELECT * FROM peek(NULL::t, filter => 'id');
SELECT * FROM peek(NULL::t, filter => 'id + 1');
SELECT * FROM peek(NULL::t, filter => 'id = ''x''');
SELECT * FROM peek(NULL::t, filter => 'NEW.id = 1');
SELECT * FROM peek(NULL::t, filter => 'DEFAULT');
SELECT * FROM peek(NULL::t, filter => 'CURRENT OF c');
-- characters, not bytes, are counted
SELECT * FROM peek(NULL::t, filter => $$s = 'äöü' AND nothing$$);
SELECT * FROM peek(NULL::t, filter => E's = ''a''\n  AND nothing');

-- The SQLSTATEs of these
SELECT left(error('t', format('filter => %L', f)), 5)
	FROM unnest(ARRAY['true FROM other', 'true, true', 'true) UNION SELECT (1', 'true; SELECT 1', '', '*', 'nothing', 'other.id = 1', 'nothing(id)', 'id']) f;
SELECT left(error('t', format('order_by => %L', f)), 5)
	FROM unnest(ARRAY['id LIMIT 1', 'id UNION SELECT 1', '', 'nothing', 'p', '1']) f;

-- No system columns (0A000); no subquery, aggregate, window, set-returning or
-- volatile function (42P17)
\set VERBOSITY sqlstate
SELECT * FROM peek(NULL::t, filter => 'ctid = ''(0,1)''');
SELECT * FROM peek(NULL::t, filter => 'xmin::text = $1', args => '{1}');
SELECT * FROM peek(NULL::t, filter => 't.tableoid > 0');
SELECT * FROM peek(NULL::t, order_by => 'ctid');
SELECT * FROM peek(NULL::t, filter => 'EXISTS (SELECT 1)');
SELECT * FROM peek(NULL::t, filter => 'id IN (SELECT id FROM other)');
SELECT * FROM peek(NULL::t, filter => 'id = (SELECT 1)');
SELECT * FROM peek(NULL::t, filter => 'id = ALL (ARRAY(SELECT 1))');
SELECT * FROM peek(NULL::t, filter => 'count(*) > 1');
SELECT * FROM peek(NULL::t, filter => 'id = max(id)');
SELECT * FROM peek(NULL::t, filter => 'row_number() OVER () = 1');
SELECT * FROM peek(NULL::t, filter => 'sum(id) OVER (ORDER BY id) = 1');
SELECT * FROM peek(NULL::t, filter => 'generate_series(1, 3) = 1');
SELECT * FROM peek(NULL::t, filter => 'id = ANY (ARRAY[unnest(ARRAY[1])])');
SELECT * FROM peek(NULL::t, filter => 'random() < 2');
SELECT * FROM peek(NULL::t, filter => 'id < random()');
SELECT * FROM peek(NULL::t, filter => 'pg_sleep(0) IS NULL');
SELECT * FROM peek(NULL::t, filter => 'GROUPING(id) = 1');
SELECT * FROM peek(NULL::t, filter => '(peek(NULL::t)).id = 1');
SELECT * FROM peek(NULL::t, order_by => '(SELECT 1)');
SELECT * FROM peek(NULL::t, order_by => 'count(*)');
SELECT * FROM peek(NULL::t, order_by => 'random()');
SELECT * FROM peek(NULL::t, order_by => 'id, clock_timestamp()');
SELECT * FROM peek(NULL::t, order_by => 'row_number() OVER ()');
SELECT * FROM peek(NULL::t, order_by => 'generate_series(1, id)');
\set VERBOSITY default
SELECT * FROM peek(NULL::t, filter => 'id > 1 AND random() < 2');
SELECT * FROM peek(NULL::t, filter => 'id > 1 AND xmin IS NOT NULL');
SELECT * FROM peek(NULL::t, order_by => 'id, random()');
SELECT * FROM peek(NULL::t, order_by => 'id, xmin::text');

-- Volatile in other clothes: an operator, a cast, a casted boolean, a type's
-- input, a default argument
CREATE FUNCTION vol(int, int DEFAULT 1) RETURNS bool LANGUAGE sql VOLATILE AS 'SELECT true';
CREATE OPERATOR @@@ (LEFTARG = int, RIGHTARG = int, FUNCTION = vol);
CREATE TYPE box1 AS (x int);
CREATE FUNCTION to_bool(box1) RETURNS bool LANGUAGE sql VOLATILE AS 'SELECT true';
CREATE CAST (box1 AS bool) WITH FUNCTION to_bool(box1) AS IMPLICIT;
CREATE FUNCTION rnd(a int DEFAULT (random() * 0)::int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT a';
CREATE FUNCTION many(int) RETURNS SETOF int LANGUAGE sql STABLE AS 'SELECT $1';
CREATE OPERATOR ### (RIGHTARG = int, FUNCTION = many);
\set VERBOSITY sqlstate
SELECT * FROM peek(NULL::t, filter => 'id @@@ 1');
SELECT * FROM peek(NULL::t, filter => 'vol(id)');
SELECT * FROM peek(NULL::t, filter => 'ROW(1)::box1');
SELECT * FROM peek(NULL::t, filter => 'rnd() = 0');
SELECT * FROM peek(NULL::t, filter => '### id = 1');
SELECT * FROM peek(NULL::t, filter => 'id @@@ ANY (ARRAY[1])');
\set VERBOSITY default
-- stable functions are welcome, and see one snapshot and one now()
CREATE FUNCTION stab(int) RETURNS bool LANGUAGE sql STABLE AS 'SELECT EXISTS (SELECT FROM expression_test.other WHERE id = $1)';
INSERT INTO other VALUES (3), (5);
SELECT id FROM peek(NULL::t, filter => 'stab(id)');

-- An error while the filter runs keeps its SQLSTATE, from memory and spool
-- (semantics 12); rows that other conditions leave out are not evaluated
SELECT error('t', $$filter => '1 / (id - 30) > 5'$$);
SELECT error('t', $$filter => '1 / (id - 30) > -5', options => '{"stash_threshold": 0, "yield_granularity": 1}'$$);
SELECT error('t', $$filter => 's::int > 5'$$);
SELECT error('t', $$upper => 29, filter => '1 / (id - 30) <= 0'$$);
SELECT error('t', $$filter => 'id < 30 AND 1 / (id - 30) <= 0'$$);
CREATE FUNCTION pick(int) RETURNS bool LANGUAGE plpgsql STABLE AS $$
	BEGIN IF $1 = 20 THEN RAISE EXCEPTION 'row %', $1 USING ERRCODE = 'XY123', HINT = 'none'; END IF; RETURN true; END $$;
SELECT error('t', $$filter => 'pick(id)'$$);

-- order_by: any ORDER BY list over the table's columns; ties by the row
SELECT o, same($$SELECT * FROM peek(NULL::t, order_by => $$ || quote_literal(o) || ')', format('SELECT * FROM t ORDER BY %s', o))
	FROM unnest(ARRAY['id', 'id DESC', 'a, id', 'a DESC NULLS LAST, id DESC', 'a NULLS FIRST, id', 's COLLATE "C" DESC, id',
		'd - id, id', 'lower(s), "Odd ""name"', 'id USING >', 'a, a DESC, id', 't.id', '(id)', 'coalesce(a, 3), -id', 'j->''k'', id',
		'abs(id - 30), id -- nearest', 'CASE WHEN a > 3 THEN 1 ELSE 0 END, s, id', 'id NULLS FIRST']) o;
-- also by what is not returned, of a table with duplicates
SELECT same($$SELECT * FROM peek_record('t_pkey', '{a}', order_by => 's, id') AS r(a int)$$, 'SELECT a FROM t ORDER BY s, id');
SELECT same($$SELECT * FROM peek_record('t_pkey', '{a}', order_by => 's DESC, id', row_limit => 7, row_offset => 3) AS r(a int)$$,
	'SELECT a FROM t ORDER BY s DESC, id LIMIT 7 OFFSET 3');
SELECT same($$SELECT * FROM peek_record('t_pkey', '{a}', order_by => 'a % 2, a') AS r(a int)$$, 'SELECT a FROM t ORDER BY a % 2, a');
-- equal rows next to each other in the walk, with other sort keys
CREATE TABLE twice (k int PRIMARY KEY, v int);
INSERT INTO twice VALUES (1, 7), (2, 7), (3, 8), (4, 8), (5, 7);
SELECT same($$SELECT * FROM peek_record('twice_pkey', '{v}', order_by => 'k DESC') AS r(v int)$$, 'SELECT v FROM twice ORDER BY k DESC');
SELECT same($$SELECT * FROM peek_record('twice_pkey', '{v}', order_by => 'abs(k - 3), k', row_limit => 3) AS r(v int)$$,
	'SELECT v FROM twice ORDER BY abs(k - 3), k LIMIT 3');
-- with the other parameters
SELECT same('t', $$NULL, lower => 10, upper => 40, filter => 'a < 4', order_by => 's, id', row_limit => 5, row_offset => 2$$,
	'WHERE id BETWEEN 10 AND 40 AND a < 4 ORDER BY s, id LIMIT 5 OFFSET 2');
SELECT same('t', $$NULL, order_by => 's, id', backward => true$$, 'ORDER BY s, id');

-- order_by is an ORDER BY list and nothing else
SELECT * FROM peek(NULL::t, order_by => '');
SELECT * FROM peek(NULL::t, order_by => 'id LIMIT 1');
SELECT * FROM peek(NULL::t, order_by => 'id OFFSET 1');
SELECT * FROM peek(NULL::t, order_by => 'id FOR UPDATE');
SELECT * FROM peek(NULL::t, order_by => 'id) UNION SELECT (1');
SELECT * FROM peek(NULL::t, order_by => 'id UNION SELECT 1');
SELECT * FROM peek(NULL::t, order_by => 'id; DROP TABLE other');
SELECT * FROM peek(NULL::t, order_by => 'id FROM other');
SELECT * FROM peek(NULL::t, order_by => 'id AS x');
SELECT * FROM peek(NULL::t, order_by => 'id,');
SELECT * FROM peek(NULL::t, order_by => '*');
SELECT * FROM peek(NULL::t, order_by => 'ORDER BY id');
SELECT * FROM peek(NULL::t, order_by => 'nothing');
SELECT * FROM peek(NULL::t, order_by => 'id, other.id');
SELECT * FROM peek(NULL::t, order_by => 'id, nothing DESC');
SELECT * FROM peek(NULL::t, order_by => 'p');
-- the number of a column would be a constant
SELECT * FROM peek(NULL::t, order_by => '1');
SELECT * FROM peek(NULL::t, order_by => 'id, 2 DESC');
-- it has no parameters: args are the filter's
SELECT * FROM peek(NULL::t, order_by => 'id + $1', args => '{1}');
SELECT * FROM peek(NULL::t, filter => 'id = $1', args => '{1}', order_by => 'id + $1');

-- Each element of the list is evaluated once a row, as the caller
SELECT error('t', $$order_by => '1 / (id - 30)'$$);

-- Nothing of all this has touched the other table
SELECT id FROM other ORDER BY id;

SET client_min_messages = warning;
DROP SCHEMA expression_test CASCADE;
