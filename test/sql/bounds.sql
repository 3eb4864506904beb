--
-- Bounds: which rows lower, upper and the filter leave, in which order, and
-- how many positions the walk looks at for them.
--
\set ECHO none
\getenv srcdir PG_ABS_SRCDIR
\set helpers :srcdir '/helpers.sql'
\i :helpers
\set ECHO all
CREATE SCHEMA bounds_test;
SET search_path = bounds_test, test, public;

-- One column, all strings of bounds
CREATE TABLE t (a int);
INSERT INTO t SELECT nullif(i % 10, 9) FROM generate_series(1, 50) i;
CREATE INDEX t_asc ON t (a);
CREATE INDEX t_desc ON t (a DESC);
SELECT b, same('t', format($$'t_asc', lower => 3, upper => 6, bounds => %L$$, b),
		format('WHERE a %s 3 AND a %s 6 ORDER BY a', replace(replace(left(b, 1), '[', '>='), '(', '>'), replace(replace(right(b, 1), ']', '<='), ')', '<'))),
	-- by comparison of values whatever the index's direction (trap 3)
	same('t', format($$'t_desc', lower => 3, upper => 6, bounds => %L$$, b),
		format('WHERE a %s 3 AND a %s 6 ORDER BY a DESC', replace(replace(left(b, 1), '[', '>='), '(', '>'), replace(replace(right(b, 1), ']', '<='), ')', '<')))
	FROM unnest(ARRAY['[]', '[)', '(]', '()']) b;
-- one end; the bound of the other end does not matter
SELECT same('t', $$'t_asc', lower => 7$$, 'WHERE a >= 7 ORDER BY a');
SELECT same('t', $$'t_asc', lower => 7, bounds => '(]'$$, 'WHERE a > 7 ORDER BY a');
SELECT same('t', $$'t_asc', upper => 1$$, 'WHERE a <= 1 ORDER BY a');
SELECT same('t', $$'t_asc', upper => 1, bounds => '()'$$, 'WHERE a < 1 ORDER BY a');
SELECT same('t', $$'t_desc', upper => 1, backward => true$$, 'WHERE a <= 1 ORDER BY a');
-- one value, no value, crossed ends, ends that are not there
SELECT same('t', $$'t_asc', lower => 4, upper => 4$$, 'WHERE a = 4');
SELECT same('t', $$'t_asc', lower => 4, upper => 4, bounds => '[)'$$, 'WHERE false');
SELECT same('t', $$'t_asc', lower => 6, upper => 3$$, 'WHERE false');
SELECT same('t', $$'t_asc', lower => -100, upper => 100$$, 'WHERE a IS NOT NULL ORDER BY a');
SELECT same('t', $$'t_asc', lower => 100$$, 'WHERE false');
-- without bounds, NULL keys are walked as well
SELECT same('t', $$'t_asc'$$, 'ORDER BY a');
SELECT same('t', $$'t_desc'$$, 'ORDER BY a DESC');
-- NULL as bound, also inside a row, matches nothing
SELECT walk('t', $$'t_asc', lower => NULL$$);
SELECT walk('t', $$'t_asc', lower => 3, upper => NULL$$);
SELECT walk('t', $$'t_asc', lower => ROW(NULL)$$);
-- other types: by an operator of the family, by coercion, by input
SELECT same('t', $$'t_asc', lower => 3::smallint, upper => 5000000000$$, 'WHERE a >= 3 ORDER BY a');
SELECT same('t', $$'t_asc', lower => '3', upper => '6'::text$$, 'WHERE a BETWEEN 3 AND 6 ORDER BY a');
SELECT error('t', $$'t_asc', lower => 3.5$$);
SELECT error('t', $$'t_asc', lower => ROW(3, 4)$$);
-- what bounds is not
SELECT error('t', $$'t_asc', bounds => ''$$);
SELECT error('t', $$'t_asc', bounds => '['$$);
SELECT error('t', $$'t_asc', bounds => '[]]'$$);
SELECT error('t', $$'t_asc', bounds => ']['$$);
SELECT error('t', $$'t_asc', bounds => '  '$$);

-- Three columns, a quarter of each NULL, under mixes of ASC and DESC, NULLS
-- FIRST and LAST, forward and backward (traps 2 and 3).  Compared are the
-- sequence of keys, and the rows.
CREATE TABLE n (id int, a int, b int, c int);
INSERT INTO n
	SELECT i, CASE WHEN i * 7 % 4 > 0 THEN i * 7 % 5 END,
		CASE WHEN i / 4 % 4 > 0 THEN i / 3 % 4 END,
		CASE WHEN i / 16 % 4 > 0 THEN i / 11 % 5 END
	FROM generate_series(1, 160) i;
CREATE TABLE mix (name text, forward text, backward text);
DO $$
DECLARE
	d text[] := '{ASC, DESC}';
	r text[] := '{DESC, ASC}';
	f text[] := '{NULLS LAST, NULLS FIRST}';
	g text[] := '{NULLS FIRST, NULLS LAST}';
BEGIN
	FOR m IN 0 .. 7 LOOP
		INSERT INTO mix SELECT 'n_' || m,
			format('a %s %s, b %s %s, c %s %s', d[1 + x], f[1 + nx], d[1 + y], f[1 + ny], d[1 + z], f[1 + nz]),
			format('a %s %s, b %s %s, c %s %s', r[1 + x], g[1 + nx], r[1 + y], g[1 + ny], r[1 + z], g[1 + nz])
			FROM (SELECT m & 1, m >> 1 & 1, m >> 2, m >> 1 & 1, m >> 2, m & 1) v(x, y, z, nx, ny, nz);
		EXECUTE format('CREATE INDEX %I ON n (%s)', 'n_' || m, (SELECT forward FROM mix WHERE name = 'n_' || m));
	END LOOP;
END $$;
SELECT * FROM mix;
CREATE TABLE question (arguments text, clause text);
INSERT INTO question VALUES
	('key => 2', 'a = 2'),
	('key => ROW(2, 1)', 'a = 2 AND b = 1'),
	('key => ROW(1, 2, 3)', 'a = 1 AND b = 2 AND c = 3'),
	('key => 2, lower => 1', 'a = 2 AND b >= 1'),
	('key => 2, upper => 2, bounds => $$()$$', 'a = 2 AND b < 2'),
	('key => ROW(2, 1), lower => 1, upper => 3', 'a = 2 AND b = 1 AND c BETWEEN 1 AND 3'),
	('key => 2, lower => ROW(1, 2), upper => ROW(3, 1)', 'a = 2 AND (b, c) >= (1, 2) AND (b, c) <= (3, 1)'),
	('keys => ARRAY[3, 0, NULL, 3]', 'a IN (0, 3)'),
	('keys => ARRAY[ROW(3, 1), ROW(1, NULL), ROW(0, 2)]', '(a, b) IN ((3, 1), (0, 2))'),
	('keys => ARRAY[3, 0], lower => 1', 'a IN (0, 3) AND b >= 1'),
	('keys => ARRAY[3, 0], lower => ROW(1, 2), upper => ROW(2, 4), bounds => $$()$$', 'a IN (0, 3) AND (b, c) > (1, 2) AND (b, c) < (2, 4)'),
	('lower => ROW(1, NULL)', 'false'),
	('filter => $$a IS NULL$$', 'a IS NULL'),
	('filter => $$a IS NOT NULL$$', 'a IS NOT NULL'),
	('filter => $$a IS NULL AND b > 1$$', 'a IS NULL AND b > 1'),
	('filter => $$a IS NULL AND b IS NULL AND c < 3$$', 'a IS NULL AND b IS NULL AND c < 3'),
	('filter => $$a = 2 AND b IS NULL AND c >= 2$$', 'a = 2 AND b IS NULL AND c >= 2'),
	('filter => $$a = 2 AND b IS NOT NULL$$', 'a = 2 AND b IS NOT NULL'),
	('filter => $$b = 2$$', 'b = 2'),
	('filter => $$c IS NULL$$', 'c IS NULL'),
	('filter => $$a > 1 AND b = 2$$', 'a > 1 AND b = 2'),
	('filter => $$a > 1 AND b IS NULL$$', 'a > 1 AND b IS NULL'),
	('filter => $$a >= 1 AND a < 3 AND c IN (0, 4)$$', 'a >= 1 AND a < 3 AND c IN (0, 4)'),
	('filter => $$a IN (3, 1, NULL) AND b < 2$$', 'a IN (3, 1) AND b < 2'),
	('filter => $$a = 1 AND b IN (3, 0) AND c > 1$$', 'a = 1 AND b IN (3, 0) AND c > 1'),
	('filter => $$a IN (3, 1) AND b IN (3, 0)$$', 'a IN (3, 1) AND b IN (3, 0)'),
	('filter => $$a IN (3, 1) AND a > 1$$', 'a = 3'),
	('filter => $$a = 1 AND a = 2$$', 'false'),
	('filter => $$a = 1 AND a IS NULL$$', 'false'),
	('filter => $$2 > a$$', 'a < 2'),
	('filter => $$(a, b) > (1, 2)$$', '(a, b) > (1, 2)'),
	('filter => $$a = 1 OR b = 2$$', 'a = 1 OR b = 2'),
	('filter => $$NOT a = 1$$', 'NOT a = 1'),
	('filter => $$a <> ALL (ARRAY[1, 2])$$', 'a <> ALL (ARRAY[1, 2])'),
	('key => 2, filter => $$b = 1 AND c > 0$$', 'a = 2 AND b = 1 AND c > 0'),
	('key => 2, filter => $$b IN (0, 2)$$', 'a = 2 AND b IN (0, 2)'),
	('key => 2, filter => $$b IS NULL$$', 'a = 2 AND b IS NULL'),
	('key => 2, filter => $$a = 3$$', 'false'),
	('keys => ARRAY[3, 0], filter => $$b IN (0, 2)$$', 'a IN (3, 0) AND b IN (0, 2)'),
	('lower => 1, filter => $$a < 4 AND b = 2$$', 'a >= 1 AND a < 4 AND b = 2'),
	('lower => ROW(1, 2), filter => $$a = 2$$', '(a, b) >= (1, 2) AND a = 2'),
	('upper => ROW(2, 1, 2), filter => $$a IN (1, 2)$$', '(a, b, c) <= (2, 1, 2) AND a IN (1, 2)'),
	('lower => ROW(1, 1), upper => 3', '(a, b) >= (1, 1) AND a <= 3'),
	('lower => 1, upper => ROW(3, 1, 2), bounds => $$()$$', 'a > 1 AND (a, b, c) < (3, 1, 2)');
INSERT INTO question
	SELECT format('lower => %s, upper => %s, bounds => %L', l, u, b),
		format('(%s) %s %s AND (%s) %s %s', left('a,b,c', w), replace(replace(left(b, 1), '[', '>='), '(', '>'), l,
			left('a,b,c', w), replace(replace(right(b, 1), ']', '<='), ')', '<'), u)
	FROM unnest(ARRAY['[]', '[)', '(]', '()']) b,
		(VALUES (1, '1', '3'), (3, 'ROW(1, 2)', 'ROW(3, 1)'), (3, 'ROW(2, 1)', 'ROW(2, 3)'),
			(5, 'ROW(1, 2, 3)', 'ROW(2, 2, 1)'), (5, 'ROW(1, 2, 3)', 'ROW(1, 2, 4)')) v(w, l, u);
SELECT name, way, count(*), string_agg(DISTINCT result, E'\n')
	FROM mix, (VALUES ('forward'), ('backward')) w(way), question,
		LATERAL (SELECT same(
				format($q$SELECT string_agg(format('%%s %%s %%s', a, b, c), ', '), array_agg(id ORDER BY id) FROM peek(NULL::n, %L, %s, backward => %L)$q$,
					name, arguments, way = 'backward'),
				format($q$SELECT string_agg(format('%%s %%s %%s', a, b, c), ', '), array_agg(id ORDER BY id) FROM (SELECT * FROM n WHERE %s ORDER BY %s) q$q$,
					clause, CASE way WHEN 'forward' THEN forward ELSE backward END))) s(answer),
		LATERAL (SELECT CASE WHEN answer ~ '^same' THEN 'same' ELSE arguments || E'\n' || answer END) r(result)
	GROUP BY name, way ORDER BY name, way DESC;
-- the questions have answers; all but these
SELECT arguments FROM question WHERE walk('n', $$'n_0', $$ || arguments) ~ 'rows 0,';

-- How far the walk is bounded.  1000 entries, 10 values a column: each number
-- of positions follows from these alone.
CREATE TABLE w (a int, b int, c int);
INSERT INTO w SELECT i, j, k FROM generate_series(0, 9) i, generate_series(0, 9) j, generate_series(0, 9) k;
CREATE INDEX w_abc ON w (a, b, c);
CREATE INDEX w_mixed ON w (a, b DESC, c);
-- equality on a prefix, and a range on the next column, from key, lower,
-- upper and the filter alike
SELECT walk('w', $$'w_abc'$$);
SELECT walk('w', $$'w_abc', key => 3$$);
SELECT walk('w', $$'w_abc', filter => 'a = 3'$$);
SELECT walk('w', $$'w_abc', key => ROW(3, 4)$$);
SELECT walk('w', $$'w_abc', filter => 'b = 4 AND a = 3'$$);
SELECT walk('w', $$'w_abc', key => 3, filter => 'b = 4'$$);
SELECT walk('w', $$'w_abc', key => 3, lower => 4, upper => 5$$);
SELECT walk('w', $$'w_abc', key => 3, filter => 'b >= 4 AND b < 6'$$);
SELECT walk('w', $$'w_abc', filter => 'a = 3 AND b BETWEEN 4 AND 5'$$);
SELECT walk('w', $$'w_abc', filter => 'a = 3 AND b = 4 AND c > 7'$$);
SELECT walk('w', $$'w_abc', filter => 'a = 3 AND b = 4 AND c = 7'$$);
SELECT walk('w', $$'w_abc', key => 3, lower => 4, filter => 'b < 6'$$);
SELECT walk('w', $$'w_abc', lower => 3, filter => 'a < 5'$$);
SELECT walk('w', $$'w_abc', filter => 'a > 7'$$);
SELECT walk('w', $$'w_abc', lower => ROW(3, 4), upper => ROW(3, 6)$$);
SELECT walk('w', $$'w_abc', lower => ROW(3, 4, 5), upper => ROW(3, 4, 6)$$);
SELECT walk('w', $$'w_abc', key => 3, lower => ROW(4, 8), bounds => '(]', upper => ROW(5, 1)$$);
-- row bounds of mixed directions: the leading column bounds, the rest is tested
SELECT walk('w', $$'w_mixed', lower => ROW(3, 4), upper => ROW(3, 6)$$);
SELECT walk('w', $$'w_mixed', lower => ROW(3, 4), upper => ROW(4, 6), bounds => '()'$$);
-- the operands the other way round, computed, typed by a parameter, of another type
SELECT walk('w', $$'w_abc', filter => '3 = a AND 7 < b'$$);
SELECT walk('w', $$'w_abc', filter => 'a = 1 + abs(-2)'$$);
SELECT walk('w', $$'w_abc', filter => 'a = $1 AND b >= $2', args => '{3, 8}'$$);
SELECT walk('w', $$'w_abc', filter => 'a = 3::bigint AND b = 4::smallint'$$);
SELECT walk('w', $$'w_abc', filter => 'NOT (a <> 3)'$$);
SELECT walk('w', $$'w_abc', filter => 'a = extract(day FROM date_trunc($1, now()) - date_trunc($1, now()))::int + 3', args => '{day}'$$);
-- behind a range, or a gap, conditions bound nothing: each entry passed counts
SELECT walk('w', $$'w_abc', filter => 'a > 7 AND b = 4'$$);
SELECT walk('w', $$'w_abc', filter => 'a = 3 AND c = 5'$$);
SELECT walk('w', $$'w_abc', filter => 'b = 4'$$);
SELECT walk('w', $$'w_abc', filter => 'c IS NULL'$$);
SELECT walk('w', $$'w_abc', lower => 3, upper => 4, filter => 'b = 4'$$);
SELECT walk('w', $$'w_abc', filter => 'a = 3 AND b + 0 = 4'$$);
SELECT walk('w', $$'w_abc', filter => 'a = 1 OR a = 2'$$);
SELECT walk('w', $$'w_abc', filter => 'a = 3 AND b <> 4'$$);
-- a list right after an equality prefix is seeks
SELECT walk('w', $$'w_abc', filter => 'a IN (2, 5)'$$);
SELECT walk('w', $$'w_abc', filter => 'a = ANY ($1)', args => '{"{5,2,5,NULL,77}"}'$$);
SELECT walk('w', $$'w_abc', filter => 'a = 3 AND b IN (4, 6, 4, 99)'$$);
SELECT walk('w', $$'w_abc', filter => 'a IN (2, 5) AND b = 4'$$);
SELECT walk('w', $$'w_abc', filter => 'a IN (2, 5) AND b = 4 AND c > 7'$$);
SELECT walk('w', $$'w_abc', filter => 'a = 3 AND b = 4 AND c IN (1, 2)'$$);
SELECT walk('w', $$'w_abc', keys => ARRAY[2, 5], filter => 'b = 4'$$);
SELECT walk('w', $$'w_abc', key => 3, filter => 'b IN (4, 6)'$$);
SELECT walk('w', $$'w_abc', key => 3, filter => 'b IN (4, 6) AND c < 2'$$);
-- only one list is seeks, and only there
SELECT walk('w', $$'w_abc', filter => 'a IN (2, 5) AND b IN (4, 6)'$$);
SELECT walk('w', $$'w_abc', keys => ARRAY[2, 5], filter => 'b IN (4, 6)'$$);
SELECT walk('w', $$'w_abc', filter => 'a > 7 AND b IN (4, 6)'$$);
-- what contradicts itself, or is NULL, is not walked
SELECT walk('w', $$'w_abc', filter => 'a > 5 AND a < 2'$$);
SELECT walk('w', $$'w_abc', filter => 'a = NULL'$$);
SELECT walk('w', $$'w_abc', filter => 'a = $1', args => '{NULL}'$$);
SELECT walk('w', $$'w_abc', filter => 'a IN (NULL)'$$);
SELECT walk('w', $$'w_abc', filter => 'a = ANY ($1::int[])', args => '{"{}"}'$$);
SELECT walk('w', $$'w_abc', filter => 'false'$$);
SELECT walk('w', $$'w_abc', filter => 'NULL'$$);
SELECT walk('w', $$'w_abc', lower => 5, upper => 2$$);
-- backward looks at the same
SELECT walk('w', $$'w_abc', key => 3, lower => 4, upper => 5, backward => true$$);
SELECT walk('w', $$'w_abc', filter => 'a IN (2, 5) AND b = 4', backward => true$$);
-- the limit ends the walk, the offset is walked
SELECT walk('w', $$'w_abc', row_limit => 5$$);
SELECT walk('w', $$'w_abc', row_limit => 5, row_offset => 10$$);
SELECT walk('w', $$'w_abc', filter => 'b = 4', row_limit => 1$$);

-- NULL keys are never inside bounds, and not walked (trap 2)
CREATE TABLE nulls (k int);
INSERT INTO nulls SELECT NULL FROM generate_series(1, 3000);
INSERT INTO nulls SELECT i FROM generate_series(1, 10) i;
CREATE INDEX nulls_last ON nulls (k);
CREATE INDEX nulls_first ON nulls (k NULLS FIRST);
CREATE INDEX nulls_desc ON nulls (k DESC);
SELECT i, b, walk('nulls', format('%L, lower => 5, bounds => $$()$$, backward => %L', i, b)), walk('nulls', format('%L, upper => 5, backward => %L', i, b)),
		walk('nulls', format('%L, filter => $$k > 5$$, backward => %L', i, b)), walk('nulls', format('%L, filter => $$k IS NOT NULL$$, backward => %L', i, b)),
		walk('nulls', format('%L, filter => $$k IS NULL$$, backward => %L', i, b)), walk('nulls', format('%L, backward => %L', i, b))
	FROM unnest(ARRAY['nulls_last', 'nulls_first', 'nulls_desc']) i, unnest(ARRAY[false, true]) b
	ORDER BY i, b;

-- A boolean column is a condition by itself
CREATE TABLE f (flag bool, id int);
INSERT INTO f SELECT CASE i % 4 WHEN 0 THEN NULL WHEN 1 THEN false ELSE true END, i FROM generate_series(1, 100) i;
CREATE INDEX f_flag ON f (flag, id);
SELECT q, same('f', format($$'f_flag', filter => %L$$, q), format('WHERE %s ORDER BY flag, id', q)),
		walk('f', format($$'f_flag', filter => %L$$, q))
	FROM unnest(ARRAY['flag', 'NOT flag', 'flag = true', 'flag = false', 'flag IS TRUE', 'flag IS FALSE', 'flag AND id > 50',
		'NOT flag AND id <= 50', 'flag IS NULL', 'flag IS NOT NULL', 'flag IN (true, false) AND id = 5',
		-- these are no range of the index
		'flag IS UNKNOWN', 'flag IS NOT TRUE', 'flag IS NOT FALSE', 'flag OR id < 3']) q;
SELECT same('f', $$'f_flag', key => false, lower => 50$$, 'WHERE NOT flag AND id >= 50 ORDER BY id');

-- Expressions as index columns
CREATE TABLE e (s text, x int, y int);
INSERT INTO e SELECT 'Name' || i, i, i % 7 FROM generate_series(1, 100) i;
CREATE INDEX e_expr ON e (lower(s), (x + y));
CREATE INDEX e_mid ON e (y, (x % 10), x);
SELECT same('e', $$'e_expr', key => 'name42'$$, $$WHERE s = 'Name42'$$);
SELECT same('e', $$'e_expr', key => ROW('name42', 42)$$, $$WHERE s = 'Name42'$$);
SELECT same('e', $$'e_expr', lower => 'name98'$$, $$WHERE lower(s) >= 'name98' ORDER BY lower(s)$$);
SELECT walk('e', $$'e_expr', filter => 'lower(s) = $1', args => '{name42}'$$);
SELECT walk('e', $$'e_expr', filter => 'lower(s) > $1', args => '{name97}'$$);
SELECT walk('e', $$'e_expr', filter => 'lower(s) = $1 AND x + y > 41', args => '{name42}'$$);
SELECT walk('e', $$'e_expr', filter => 'x + y = 42'$$);
SELECT walk('e', $$'e_expr', filter => 'y + x = 42'$$);
SELECT walk('e', $$'e_mid', filter => 'y = 3 AND x % 10 = 5'$$);
SELECT walk('e', $$'e_mid', key => 3, lower => ROW(5, 40), upper => ROW(5, 70)$$);

-- A partial index gives the rows it covers and no others (trap 5)
CREATE INDEX w_partial ON w (c, b) WHERE a = 3;
SELECT same('w', $$'w_partial'$$, 'WHERE a = 3 ORDER BY c, b');
SELECT same('w', $$'w_partial', key => 4, filter => 'a = 3 AND b > 7'$$, 'WHERE a = 3 AND c = 4 AND b > 7 ORDER BY c, b');
SELECT walk('w', $$'w_partial', key => 4, filter => 'a = 3'$$);
SELECT walk('w', $$'w_partial', filter => 'a = 4'$$);

-- INCLUDE columns bound nothing
CREATE INDEX w_include ON w (a) INCLUDE (b);
SELECT same('w', $$'w_include', key => 3, filter => 'b = 4', order_by => 'c'$$, 'WHERE a = 3 AND b = 4 ORDER BY c');
SELECT walk('w', $$'w_include', key => 3, filter => 'b = 4'$$);
SELECT error('w', $$'w_include', key => 3, lower => 4$$);

-- A unique index and its NULLs; a constraint's index
CREATE TABLE u (k int UNIQUE, v int, EXCLUDE USING btree (v WITH =));
INSERT INTO u VALUES (NULL, 1), (NULL, 2), (1, 3);
SELECT same('u', $$'u_k_key'$$, 'ORDER BY k, v');
SELECT same('u', $$'u_v_excl', lower => 2$$, 'WHERE v >= 2 ORDER BY v');
CREATE TABLE u2 (k int, UNIQUE NULLS NOT DISTINCT (k));
INSERT INTO u2 VALUES (NULL), (1);
SELECT same('u2', $$'u2_k_key', filter => 'k IS NULL'$$, 'WHERE k IS NULL');

-- The order of a filter's comparison must be the index's: another collation
-- bounds nothing and is still right
CREATE COLLATION nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE TABLE s (t text);
INSERT INTO s VALUES ('a'), ('B'), ('b'), ('c'), ('C');
CREATE INDEX s_t ON s (t);
CREATE INDEX s_two ON s (t, t COLLATE nocase);
SELECT same('s', $$'s_t', filter => 't >= $1 COLLATE nocase', args => '{b}'$$, $$WHERE t >= 'b' COLLATE nocase ORDER BY t$$);
SELECT walk('s', $$'s_t', filter => 't >= $1 COLLATE nocase', args => '{b}'$$);
SELECT walk('s', $$'s_t', filter => 't >= $1', args => '{b}'$$);
SELECT same('s', $$'s_two', filter => 't COLLATE nocase = $1 AND t >= $1', args => '{b}'$$, $$WHERE t = 'b'$$);
SELECT same('s', $$'s_two', filter => 't COLLATE nocase = $1', args => '{b}'$$, $$WHERE t IN ('b', 'B') ORDER BY t$$);
-- and so must be its operator family
CREATE INDEX s_pattern ON s (t text_pattern_ops);
SELECT walk('s', $$'s_pattern', filter => 't = $1', args => '{b}'$$);
SELECT walk('s', $$'s_pattern', filter => 't ~>=~ $1', args => '{b}'$$);
SELECT walk('s', $$'s_pattern', filter => 't >= $1', args => '{b}'$$);

-- A walk over many pages, deduplicated and split, with dead entries
CREATE TABLE big (k int, v int) WITH (autovacuum_enabled = off);
INSERT INTO big SELECT i % 100, i FROM generate_series(1, 20000) i;
CREATE INDEX big_kv ON big (k, v);
CREATE INDEX big_k ON big (k);
DELETE FROM big WHERE v % 3 = 0;
UPDATE big SET v = v + 100000 WHERE v % 3 = 1;
SELECT same('big', $$'big_kv'$$, 'ORDER BY k, v');
SELECT same('big', $$'big_kv', backward => true$$, 'ORDER BY k DESC, v DESC');
SELECT same('SELECT * FROM peek(NULL::big, $$big_k$$, keys => ARRAY[5, 50, 95]) ORDER BY k, v', 'SELECT * FROM big WHERE k IN (5, 50, 95) ORDER BY k, v');

SET client_min_messages = warning;
DROP SCHEMA bounds_test CASCADE;
