/*
 * Answers as handles: submit in one session, fetch in others, by row number.
 */
\set ON_ERROR_STOP on

\echo
\echo '--- 17. Submit now, fetch when and where you like -----------------------------'
\echo
\echo 'A handle stands for a whole answer.  No cursor, transaction or snapshot is'
\echo 'held for it.'
\echo
\echo 'SELECT peek_submit(''edges_target_relation_package'', filter => ''op = ''''>='''''','
\echo '	options => ''{"label": "lower bounds", "ttl": "10min", "stash_threshold": "64kB"}'') AS handle \\gset'
\echo
SELECT peek_submit('edges_target_relation_package', filter => 'op = ''>=''',
	options => '{"label": "lower bounds", "ttl": "10min", "stash_threshold": "64kB"}') AS handle \gset
SELECT label, state, kind, num_rows, batches, stored_bytes
FROM peek_status(:'handle');
SELECT num_rows AS total, num_rows / 2 AS middle FROM peek_status(:'handle') \gset

\echo 'Another session, as behind a connection pooler, reads from the middle:'
\echo
\connect
\echo 'SELECT package, target, version FROM peek_fetch(NULL::edges, handle, middle, 5);'
\echo
SELECT package, target, version
FROM peek_fetch(NULL::edges, :'handle', :middle, 5);

\echo 'Every page together is the answer, each row once:'
\echo
SELECT count(*) AS rows, count(DISTINCT page) AS pages
FROM generate_series(0, :total / 500) page,
	LATERAL peek_fetch(NULL::edges, :'handle', page * 500, 500);
SELECT (SELECT count(*) FROM peek_fetch(NULL::edges, :'handle'))
	= (SELECT count(*) FROM edges WHERE op = '>=') AS count_is_right,
	(SELECT md5(string_agg(md5(f::text), '' ORDER BY md5(f::text)))
		FROM peek_fetch(NULL::edges, :'handle') f)
	= (SELECT md5(string_agg(md5(e::text), '' ORDER BY md5(e::text)))
		FROM edges e WHERE op = '>=') AS rows_are_right \gset

\echo '--- 18. First page and handle in one round trip --------------------------------'
\echo
\echo 'SELECT handle IS NOT NULL AS kept, num_rows, pos, (r).name, (r).size'
\echo 'FROM peek_page(NULL::packages, ''packages_size'', backward => true, page_rows => 4);'
\echo
SELECT handle IS NOT NULL AS kept, num_rows, pos, (r).name, (r).size
FROM peek_page(NULL::packages, 'packages_size', backward => true, page_rows => 4);

\echo 'An answer of one page is not kept at all:'
\echo
SELECT handle IS NOT NULL AS kept, num_rows, pos, (r).name, (r).size
FROM peek_page(NULL::packages, key => 'bash');

\echo 'What is kept, and giving it back:'
\echo
SELECT label, arrangement, state, kind, num_rows, pg_size_pretty(stored_bytes) AS stored
FROM peekstash.peeks ORDER BY submitted_at;
SELECT count(peek_release(handle)) AS released FROM peekstash.peeks;
SELECT (SELECT count(*) FROM peekstash.handle) AS handles,
	(SELECT count(*) FROM peekstash.outcome) AS outcomes,
	(SELECT count(*) FROM peekstash.batch) AS batches;
SELECT NOT EXISTS (SELECT FROM peekstash.handle)
	AND NOT EXISTS (SELECT FROM peekstash.batch) AS all_is_released \gset

\if :rows_are_right
\else
	\echo 'The rows fetched by handle are not those of plain SQL.'
	SELECT 1/0;
\endif
\if :count_is_right
\else
	\echo 'The rows fetched by handle are not as many as those of plain SQL.'
	SELECT 1/0;
\endif
\if :all_is_released
\else
	\echo 'Something is left in the stash.'
	SELECT 1/0;
\endif
\echo 'Every page came from a handle, and nothing is left.'
