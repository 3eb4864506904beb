/*
 * Any query as an answer: what one index cannot say, paged by handle.
 */
\set ON_ERROR_STOP on

\echo
\echo '--- 19. Any query, kept and paged by handle -------------------------------------'
\echo
\echo 'All that a package pulls in, over any number of steps, is no walk of an index.'
\echo 'It is a query; peek_query runs it once and keeps the answer.'
\echo
\set closure 'WITH RECURSIVE needs(package, steps) AS ( SELECT name, 0 FROM packages WHERE name = ANY ($1) UNION SELECT e.target, n.steps + 1 FROM needs n JOIN edges e ON e.package = n.package AND e.relation IN (\'Depends\', \'Pre-Depends\') AND e.choice = 1 WHERE n.steps < 6 ) SELECT p.name, min(n.steps) AS steps, p.size, sum(p.size) OVER (ORDER BY min(n.steps), p.name) AS so_far FROM needs n JOIN packages p ON p.name = n.package GROUP BY p.name ORDER BY steps, p.name'
\set roots '{bash,perl,python3,gcc,apache2,libreoffice,gnome,postgresql,default-jdk,texlive}'
\echo 'WITH RECURSIVE needs(package, steps) AS ('
\echo '    SELECT name, 0 FROM packages WHERE name = ANY ($1)'
\echo '    UNION SELECT e.target, n.steps + 1 FROM needs n JOIN edges e ON e.package = n.package'
\echo '        AND e.relation IN (''Depends'', ''Pre-Depends'') AND e.choice = 1 WHERE n.steps < 6)'
\echo 'SELECT p.name, min(n.steps) AS steps, p.size, sum(p.size) OVER (ORDER BY min(n.steps), p.name) AS so_far'
\echo 'FROM needs n JOIN packages p ON p.name = n.package GROUP BY p.name ORDER BY steps, p.name'
\echo
SELECT peek_query(:'closure', ARRAY[:'roots'],
	'{"label": "what they pull in", "ttl": "10min", "stash_threshold": "4kB", "stash_batch_size": "4kB"}') AS closure_handle \gset
SELECT label, state, kind, num_rows, batches, positions, request #>> '{plan,total_cost}' IS NOT NULL AS cost_is_known
FROM peek_status(:'closure_handle');
SELECT num_rows AS total, num_rows / 2 AS middle, column_definitions FROM peek_status(:'closure_handle') \gset

\echo 'Another session reads from the middle, as records:'
\echo
\connect
SELECT * FROM peek_fetch_record(:'closure_handle', :middle, 4) AS r(:column_definitions);

\echo 'In pages of 50, as JSON, until there is no next one:'
\echo
WITH RECURSIVE page(p) AS (
	SELECT peek_fetch_json(:'closure_handle', 0, 50)
	UNION ALL
	SELECT peek_fetch_json(:'closure_handle', (p ->> 'next')::bigint, 50) FROM page WHERE p ->> 'next' IS NOT NULL)
SELECT count(*) AS pages, sum(jsonb_array_length(p -> 'rows')) AS rows, min(p ->> 'total') AS total FROM page;

\echo '--- 20. A ranking: first page and handle in one round trip -----------------------'
\echo
\echo 'SELECT handle IS NOT NULL AS kept, num_rows, r FROM peek_query_page('
\echo '    ''SELECT rank() OVER (ORDER BY count(DISTINCT package) DESC), target, count(DISTINCT package) AS needed_by'
\echo '      FROM edges WHERE relation = $1 GROUP BY target ORDER BY 1, 2'', ''{Depends}'', page_rows => 5);'
\echo
\set ranking 'SELECT rank() OVER (ORDER BY count(DISTINCT package) DESC), target, count(DISTINCT package) AS needed_by FROM edges WHERE relation = $1 GROUP BY target ORDER BY 1, 2'
CREATE TEMP TABLE first_page AS
SELECT * FROM peek_query_page(:'ranking', '{Depends}', page_rows => 5);
SELECT handle IS NOT NULL AS kept, num_rows, r FROM first_page ORDER BY pos;
SELECT handle AS ranking_handle FROM first_page LIMIT 1 \gset
\echo 'And the next page, by handle:'
\echo
SELECT row FROM jsonb_array_elements(peek_fetch_json(:'ranking_handle', 5, 3) -> 'rows') AS row;

\echo 'What is not read is refused:'
\echo
\set ON_ERROR_STOP off
SELECT peek_query('DELETE FROM edges');
\set ON_ERROR_STOP on

-- The same by plain SQL, in the same order
SELECT (SELECT array_agg(r::text) FROM peek_fetch_record(:'closure_handle') AS r(:column_definitions))
	= (SELECT array_agg(q::text) FROM (
		WITH RECURSIVE needs(package, steps) AS (
			SELECT name, 0 FROM packages WHERE name = ANY (:'roots')
			UNION
			SELECT e.target, n.steps + 1 FROM needs n JOIN edges e ON e.package = n.package
				AND e.relation IN ('Depends', 'Pre-Depends') AND e.choice = 1
			WHERE n.steps < 6)
		SELECT p.name, min(n.steps) AS steps, p.size, sum(p.size) OVER (ORDER BY min(n.steps), p.name) AS so_far
		FROM needs n JOIN packages p ON p.name = n.package GROUP BY p.name ORDER BY steps, p.name) q)
	AS closure_is_right,
	(SELECT array_agg(r::text) FROM peek_fetch_record(:'ranking_handle') AS r(rank bigint, target text, needed_by bigint))
	= (SELECT array_agg(q::text) FROM (
		SELECT rank() OVER (ORDER BY count(DISTINCT package) DESC), target, count(DISTINCT package) AS needed_by
		FROM edges WHERE relation = 'Depends' GROUP BY target ORDER BY 1, 2) q)
	AS ranking_is_right \gset
SELECT count(peek_release(handle)) AS released FROM peekstash.peeks;
SELECT NOT EXISTS (SELECT FROM peekstash.handle)
	AND NOT EXISTS (SELECT FROM peekstash.batch) AS all_is_released \gset

\if :closure_is_right
\else
	\echo 'The rows of the dependency closure are not those of plain SQL.'
	SELECT 1/0;
\endif
\if :ranking_is_right
\else
	\echo 'The rows of the ranking are not those of plain SQL.'
	SELECT 1/0;
\endif
\if :all_is_released
\else
	\echo 'Something is left in the stash.'
	SELECT 1/0;
\endif
\echo 'Both queries gave what plain SQL gives, in the same order, and nothing is left.'
