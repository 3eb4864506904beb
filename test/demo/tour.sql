/*
 * tour.sql
 *		A tour of peek(), run by test/demo/show.
 *
 * Each stop is a peek, shown and run, and the plain SQL that means the same.
 * The text of both goes to files (\w), from which check.sql runs them again
 * and compares: what is checked is what was shown.
 */

CREATE TYPE name_and_size AS (name text, size bigint);

CREATE TEMP TABLE answers
(
	answer		text,
	peek_rows	bigint,
	peek_order	text,
	peek_bytes	text,
	sql_rows	bigint,
	sql_order	text,
	sql_bytes	text
);

CREATE TEMP TABLE refusals
(
	refusal		text,
	wanted		text,
	got			text
);

/*
 * What tells one answer from another: the number of rows; the keys in the
 * order they came in; the whole rows in any order, as nothing says how rows
 * of equal keys are to follow each other.
 */
CREATE FUNCTION pg_temp.digest(query text, keys text,
	OUT num_rows bigint, OUT key_hash text, OUT row_hash text)
LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format(
		'SELECT count(*), md5(string_agg(k, E''\n'' ORDER BY n)),
			md5(string_agg(r, E''\n'' ORDER BY r COLLATE "C"))
		FROM (SELECT row_number() OVER () AS n, ROW(%s)::text AS k,
				q::text AS r
			FROM (%s) AS q) AS answer', keys, query)
	INTO num_rows, key_hash, row_hash;
END
$$;

\echo
\echo 'peekstash reads an index, from one bound to another, once.  Here it reads'
\echo 'Debian\'s package index:'
\echo
SELECT 'packages' AS "table", count(*) AS rows,
	'what there is: name, version, section, sizes' AS "what it holds"
FROM packages
UNION ALL
SELECT 'edges', count(*), 'who needs, suggests or excludes whom'
FROM edges;

\echo '--- 1. One row, by its key --------------------------------------------------'
\echo
\echo 'peek() takes a row type (what a row looks like), an index, and what to read.'
\echo
SELECT name, version, section, size
FROM peek(NULL::packages, 'packages_pkey', key => 'bash')
\p \w :notes/by_peek \g
SELECT name, version, section, size
FROM packages WHERE name = 'bash'
\w :notes/by_sql \r
\set answer '1. one row' \set keys 'name'
\i check.sql

\echo '--- 2. A prefix of the key --------------------------------------------------'
\echo
\echo 'The index is on (package, relation); the key gives the first of them.'
\echo
SELECT relation, target, op, version
FROM peek(NULL::edges, 'edges_package_relation', key => 'bash')
\p \w :notes/by_peek \g
SELECT relation, target, op, version
FROM edges WHERE package = 'bash' ORDER BY relation
\w :notes/by_sql \r
\set answer '2. prefix' \set keys 'relation'
\i check.sql

\echo '--- 3. A range --------------------------------------------------------------'
\echo
\echo 'Bounds go on after the key.  The second column is descending: rows come in'
\echo 'the order of the index, bounds are given in the order of the values.'
\echo
SELECT section, installed_size, name
FROM peek(NULL::packages, 'packages_section_installed_size',
          key => 'shells', lower => 5000, upper => 16422, bounds => '[)')
\p \w :notes/by_peek \g
SELECT section, installed_size, name
FROM packages
WHERE section = 'shells' AND installed_size >= 5000 AND installed_size < 16422
ORDER BY section, installed_size DESC NULLS LAST
\w :notes/by_sql \r
\set answer '3. range' \set keys 'section, installed_size'
\i check.sql

\echo '--- 4. Many keys ------------------------------------------------------------'
\echo
\echo 'Sorted first, each looked up once; one that is not there does no harm.'
\echo
SELECT name, version
FROM peek(NULL::packages, 'packages_pkey',
          keys => ARRAY['zsh', 'bash', 'no-such-shell', 'dash', 'bash'])
\p \w :notes/by_peek \g
SELECT name, version
FROM packages WHERE name IN ('zsh', 'bash', 'no-such-shell', 'dash')
ORDER BY name
\w :notes/by_sql \r
\set answer '4. many keys' \set keys 'name'
\i check.sql

\echo '--- 5. A filter -------------------------------------------------------------'
\echo
\echo 'Any expression over the columns; its parameters travel apart from it.'
\echo
SELECT name, installed_size, size
FROM peek(NULL::packages, 'packages_section_installed_size',
          key => 'shells',
          filter => 'architecture = $1 AND size > $2',
          args => ARRAY['all', '100000'])
\p \w :notes/by_peek \g
SELECT name, installed_size, size
FROM packages
WHERE section = 'shells' AND architecture = 'all' AND size > 100000
ORDER BY section, installed_size DESC NULLS LAST
\w :notes/by_sql \r
\set answer '5. filter' \set keys 'installed_size'
\i check.sql

\echo '--- 6. The largest of all ---------------------------------------------------'
\echo
\echo 'Another order than the index has, and only its first rows.  With no index'
\echo 'named, the primary key of the row type\'s table is read.'
\echo
SELECT name, section, installed_size
FROM peek(NULL::packages,
          order_by => 'installed_size DESC NULLS LAST, name', row_limit => 4)
\p \w :notes/by_peek \g
SELECT name, section, installed_size
FROM packages ORDER BY installed_size DESC NULLS LAST, name LIMIT 4
\w :notes/by_sql \r
\set answer '6. top rows' \set keys 'installed_size, name'
\i check.sql

\echo '--- 7. Backward -------------------------------------------------------------'
\echo
\echo 'The last names there are, but for the very last two.'
\echo
SELECT name, section
FROM peek(NULL::packages, 'packages_pkey',
          backward => true, row_offset => 2, row_limit => 3)
\p \w :notes/by_peek \g
SELECT name, section
FROM packages ORDER BY name DESC OFFSET 2 LIMIT 3
\w :notes/by_sql \r
\set answer '7. backward' \set keys 'name'
\i check.sql

\echo '--- 8. Some of the columns --------------------------------------------------'
\echo
\echo 'A composite type picks columns by name.  This one is (name text, size bigint).'
\echo
SELECT *
FROM peek(NULL::name_and_size, 'packages_pkey',
          lower => 'postgresql', row_limit => 3)
\p \w :notes/by_peek \g
SELECT name, size
FROM packages WHERE name >= 'postgresql' ORDER BY name LIMIT 3
\w :notes/by_sql \r
\set answer '8. composite type' \set keys 'name'
\i check.sql

\echo '--- 9. Some of the columns, without a type ----------------------------------'
\echo
\echo 'A key of two columns is a ROW.'
\echo
SELECT *
FROM peek_record('edges_target_relation_package', ARRAY['package', 'op', 'version'],
                 key => ROW('libtinfo6', 'Pre-Depends'))
     AS needs(package text, op text, version text)
\p \w :notes/by_peek \g
SELECT package, op, version
FROM edges WHERE target = 'libtinfo6' AND relation = 'Pre-Depends'
ORDER BY package
\w :notes/by_sql \r
\set answer '9. record' \set keys 'package'
\i check.sql

\echo '--- 10. An index on an expression -------------------------------------------'
\echo
\echo 'packages_source is on coalesce(source, name), what a package was built from.'
\echo
SELECT name, coalesce(source, name) AS built_from
FROM peek(NULL::packages, 'packages_source', key => 'bash')
\p \w :notes/by_peek \g
SELECT name, coalesce(source, name) AS built_from
FROM packages WHERE coalesce(source, name) = 'bash' ORDER BY name
\w :notes/by_sql \r
\set answer '10. expression' \set keys 'built_from, name'
\i check.sql

\echo '--- 11. An index on part of the table ---------------------------------------'
\echo
\echo 'edges_upper_bounded has only edges that allow no newer version: a peek gives'
\echo 'what the index leads to, no more.'
\echo
SELECT target, package, relation, op, version
FROM peek(NULL::edges, 'edges_upper_bounded', key => 'bash-completion')
\p \w :notes/by_peek \g
SELECT target, package, relation, op, version
FROM edges WHERE target = 'bash-completion' AND op IN ('<<', '<=', '=')
ORDER BY target, package
\w :notes/by_sql \r
\set answer '11. part of a table' \set keys 'target, package'
\i check.sql

\echo '--- 12. Everything ----------------------------------------------------------'
\echo
\echo 'A peek is a table like any other to the query around it.'
\echo
SELECT count(*) AS edges, count(DISTINCT target) AS targets
FROM peek(NULL::edges, 'edges_target_relation_package')
\p \w :notes/by_peek \g
SELECT count(*) AS edges, count(DISTINCT target) AS targets
FROM edges
\w :notes/by_sql \r
\set answer '12. everything' \set keys 'edges, targets'
\i check.sql

\echo '--- 13. No answer is larger than you allow ----------------------------------'
\echo
\echo 'The server has peekstash.max_result_size, one call can ask for less (in kB).'
\echo 'An answer that would be larger is an error, not a part of the answer.'
\echo
SELECT count(*)
FROM peek(NULL::edges, 'edges_package_relation',
          options => '{"max_result_size": 64}')
\p
\set ON_ERROR_STOP off
\g
\set got :SQLSTATE
\set ON_ERROR_STOP on
INSERT INTO refusals VALUES ('13. answer too large', '53400', :'got');

\echo
\echo 'What is not part of the answer does not count: the same limit, few rows.'
\echo
SELECT relation, count(*)
FROM peek(NULL::edges, 'edges_package_relation', filter => 'package = ''zsh''',
          options => '{"max_result_size": 64}')
GROUP BY relation ORDER BY relation
\p \w :notes/by_peek \g
SELECT relation, count(*)
FROM edges WHERE package = 'zsh' GROUP BY relation ORDER BY relation
\w :notes/by_sql \r
\set answer '13. small under a cap' \set keys 'relation'
\i check.sql

\echo '--- 14. No read is longer than you allow ------------------------------------'
\echo
\echo 'This one would look at every package to find a few: the index is not sorted'
\echo 'by section.  row_iteration_limit stops it after 1000 of them.'
\echo
SELECT name
FROM peek(NULL::packages, 'packages_pkey', filter => $$section = 'shells'$$,
          options => '{"row_iteration_limit": 1000, "yield_granularity": 100}')
\p
\set ON_ERROR_STOP off
\g
\set got :SQLSTATE
\set ON_ERROR_STOP on
INSERT INTO refusals VALUES ('14. too many rows looked at', '53400', :'got');

/*
 * Not shown, only checked: larger answers, whole rows, and what indexes are
 * prone to get wrong: NULLs in front and at the end, both directions, bounds
 * of several columns against mixed directions.
 */
SELECT * FROM peek(NULL::packages)
\w :notes/by_peek \r
SELECT * FROM packages ORDER BY name
\w :notes/by_sql \r
\set answer 'all packages' \set keys 'name'
\i check.sql

SELECT * FROM peek(NULL::edges, 'edges_target_relation_package')
\w :notes/by_peek \r
SELECT * FROM edges ORDER BY target, relation, package
\w :notes/by_sql \r
\set answer 'all edges, by target' \set keys 'target, relation, package'
\i check.sql

SELECT * FROM peek(NULL::edges, 'edges_op_relation', backward => true)
\w :notes/by_peek \r
SELECT * FROM edges ORDER BY op ASC NULLS LAST, relation DESC
\w :notes/by_sql \r
\set answer 'all edges, by op, backward' \set keys 'op, relation'
\i check.sql

SELECT * FROM peek(NULL::packages, 'packages_multi_arch_size')
\w :notes/by_peek \r
SELECT * FROM packages ORDER BY multi_arch NULLS FIRST, size DESC
\w :notes/by_sql \r
\set answer 'NULLs in front' \set keys 'multi_arch, size'
\i check.sql

SELECT * FROM peek(NULL::packages, 'packages_multi_arch_size',
	filter => 'multi_arch IS NULL AND size BETWEEN $1 AND $2',
	args => ARRAY['1000', '100000'], backward => true)
\w :notes/by_peek \r
SELECT * FROM packages
WHERE multi_arch IS NULL AND size BETWEEN 1000 AND 100000
ORDER BY size
\w :notes/by_sql \r
\set answer 'only NULLs, backward' \set keys 'multi_arch, size'
\i check.sql

SELECT * FROM peek(NULL::packages, 'packages_section_installed_size',
	lower => ROW('libs', 500), upper => ROW('net', 20000), bounds => '()')
\w :notes/by_peek \r
SELECT * FROM packages
WHERE (section, installed_size) > ('libs', 500)
	AND (section, installed_size) < ('net', 20000)
ORDER BY section, installed_size DESC NULLS LAST
\w :notes/by_sql \r
\set answer 'bounds of two columns' \set keys 'section, installed_size'
\i check.sql

SELECT * FROM peek(NULL::edges, 'edges_target_relation_package',
	keys => ARRAY[ROW('libc6', 'Pre-Depends'), ROW('perl', 'Depends'),
		ROW('bash', 'Suggests'), ROW('libc6', 'Pre-Depends')],
	filter => 'op = $1 OR op IS NULL', args => ARRAY['>='])
\w :notes/by_peek \r
SELECT * FROM edges
WHERE (target, relation) IN (('libc6', 'Pre-Depends'), ('perl', 'Depends'),
		('bash', 'Suggests'))
	AND (op = '>=' OR op IS NULL)
ORDER BY target, relation, package
\w :notes/by_sql \r
\set answer 'keys of two columns' \set keys 'target, relation, package'
\i check.sql

SELECT * FROM peek(NULL::packages, 'packages_size', lower => 1000000,
	order_by => 'section, length(name) DESC, name', row_offset => 5, row_limit => 500)
\w :notes/by_peek \r
SELECT * FROM packages WHERE size >= 1000000
ORDER BY section, length(name) DESC, name OFFSET 5 LIMIT 500
\w :notes/by_sql \r
\set answer 'top 500 after 5' \set keys 'section, name'
\i check.sql

\echo
\echo '--- Is it true? -------------------------------------------------------------'
\echo
\echo 'The same queries once more, against plain SQL: the keys in the order they'
\echo 'came in, and all rows, by hash.  Those without a number were not shown.'
\echo
SELECT answer, peek_rows, sql_rows,
	CASE WHEN peek_order = sql_order THEN 'same' ELSE 'DIFFERENT' END AS "key order",
	CASE WHEN peek_bytes = sql_bytes THEN 'same' ELSE 'DIFFERENT' END AS rows
FROM answers;

SELECT refusal, wanted AS "SQLSTATE wanted", got,
	CASE WHEN got = wanted THEN 'same' ELSE 'DIFFERENT' END AS "error"
FROM refusals;

/* An empty answer would be the same as any other empty one: no proof. */
DO $$
DECLARE
	wrong	text;
BEGIN
	SELECT string_agg(answer, ', ') INTO wrong FROM answers
	WHERE peek_rows = 0
		OR (peek_rows, peek_order, peek_bytes)
			IS DISTINCT FROM (sql_rows, sql_order, sql_bytes);
	IF wrong IS NOT NULL THEN
		RAISE EXCEPTION 'answers differ from plain SQL or are empty: %', wrong;
	END IF;

	SELECT string_agg(refusal, ', ') INTO wrong FROM refusals
	WHERE got IS DISTINCT FROM wanted;
	IF wrong IS NOT NULL THEN
		RAISE EXCEPTION 'limits were not kept: %', wrong;
	END IF;
END
$$;

\echo 'Every answer is that of plain SQL, and both limits were kept.'
