/*
 * An answer that outgrows memory, as a direct peek: it is stashed while it is
 * walked, read back, and gone.  Every claim is checked at the end.
 */
\set ON_ERROR_STOP on

\echo
\echo '--- 15. An answer larger than memory should hold -----------------------------'
\echo
\echo 'Beyond "stash_threshold" the same walk goes on, and its rows go to a table,'
\echo 'batch by batch.  They are read back and deleted.  The statistics before:'
\echo
SELECT answers_memory, answers_stashed, batches_written, batches_read, stored_bytes
FROM peekstash.stat;
SELECT answers_stashed AS stashed_before, batches_written AS written_before
FROM peekstash.stat \gset

\echo SELECT count(*), sum(size) FROM peek(NULL::packages,
\echo '	options => ''{"stash_threshold": "64kB"}'');'
\echo
SELECT count(*), sum(size) FROM peek(NULL::packages,
	options => '{"stash_threshold": "64kB"}');
SELECT count(*) AS peek_count, sum(size) AS peek_sum FROM peek(NULL::packages,
	options => '{"stash_threshold": "64kB"}') \gset
SELECT count(*) AS sql_count, sum(size) AS sql_sum FROM packages \gset

\echo 'and after (asked twice, once to show and once to check):'
\echo
SELECT answers_memory, answers_stashed, batches_written, batches_read, stored_bytes
FROM peekstash.stat;
SELECT answers_stashed - :stashed_before = 2
	AND batches_written > :written_before + 2
	AND :peek_count = :sql_count AND :peek_sum = :sql_sum AS stash_is_right
FROM peekstash.stat \gset

\echo '--- 16. Whatever aborts leaves nothing behind ---------------------------------'
\echo
\echo 'A cursor has read one row of a stashed answer; its batches are there:'
\echo
BEGIN;
DECLARE c CURSOR FOR SELECT peek(NULL::packages,
	options => '{"stash_threshold": "64kB"}');
FETCH 1 FROM c \g /dev/null
SELECT count(*) AS batches, sum(num_rows) AS rows FROM peekstash.batch;
SELECT count(*) > 0 AS batches_were_there FROM peekstash.batch \gset
ROLLBACK;

\echo 'Then the transaction is rolled back:'
\echo
SELECT count(*) AS batches FROM peekstash.batch;
SELECT count(*) = 0 AS stash_is_empty FROM peekstash.batch \gset

\if :stash_is_right
\else
	\echo 'The stashed answer, or its statistics, are wrong.'
	SELECT 1/0;
\endif
\if :batches_were_there
\else
	\echo 'Nothing was stashed, so the rollback shows nothing.'
	SELECT 1/0;
\endif
\if :stash_is_empty
	\echo 'The stashed answer is that of plain SQL, and the rollback left nothing.'
\else
	\echo 'The rollback left batches.'
	SELECT 1/0;
\endif
