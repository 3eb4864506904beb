#-------------------------------------------------------------------------
#
# DiffServer.pm
#	  The part of the differential test that runs in the server: types, and
#	  procedures that compare the answers of peek with plain SQL.
#
# It runs there because twenty thousand answers are too many to carry through
# psql.  The generated half (tables, indexes, rows and requests) is loaded
# after this SQL.
#
# Copyright (c) 2026, the peekstash authors
#
#-------------------------------------------------------------------------
package DiffServer;

use strict;
use warnings;

use Exporter 'import';

our @EXPORT = qw($server_sql);

our $server_sql = do { local $/; <DATA> };
close DATA;

1;

__DATA__

/*
 * Without ICU the names must still exist.  A request then meets the same
 * collation under three names, which is less of a test but not a wrong one.
 */
DO $$
BEGIN
	CREATE COLLATION diff_icu (provider = icu, locale = 'und');
	CREATE COLLATION diff_ci (provider = icu, locale = 'und-u-ks-level2',
							  deterministic = false);
EXCEPTION WHEN feature_not_supported THEN
	CREATE COLLATION diff_icu (provider = libc, locale = 'C');
	CREATE COLLATION diff_ci (provider = libc, locale = 'C');
END
$$;

/* The order of the labels is not the order of their oids. */
CREATE TYPE diff_mood AS ENUM ('sad', 'happy');
ALTER TYPE diff_mood ADD VALUE 'ok' BEFORE 'happy';
ALTER TYPE diff_mood ADD VALUE 'awful' BEFORE 'sad';

CREATE DOMAIN diff_dom AS bigint CHECK (VALUE > -1000);

/*
 * One line is one request, asked once for each of the settings below.
 *
 * call		a query of one bytea[]: the rows of the answer in its order; the
 *			place of the options is marked @OPTIONS@
 * oracle	a query of int[] and bytea[]: all rows that the conditions allow,
 *			in the wanted order, and for each the number of its group: rows of
 *			one group are peers in that order
 */
CREATE TABLE diff_request (
	id int PRIMARY KEY,
	kind text NOT NULL,
	features text[] NOT NULL,
	call text NOT NULL,
	oracle text NOT NULL,
	row_limit bigint,
	row_offset bigint NOT NULL
);

/*
 * The paths of an answer: held in memory; stashed from its first row on, in
 * few or many batches; leaving memory on the way; and spooled, where the stash
 * may not be used.
 */
CREATE TABLE diff_setting (
	id int PRIMARY KEY,
	path text NOT NULL,
	work_mem text NOT NULL,
	options jsonb NOT NULL
);
INSERT INTO diff_setting VALUES
	(1, 'memory', '4MB', '{"yield_granularity": 1}'),
	(2, 'stashed', '64kB', '{"yield_granularity": 2, "stash_threshold": 0}'),
	(3, 'crossing', '64kB', '{"yield_granularity": 7, "stash_threshold": 700,
		"stash_batch_size": 300, "read_batch_size": 500}'),
	(4, 'spooled', '4MB', '{"yield_granularity": 1000, "enable_stash": false,
		"stash_threshold": 300, "stash_batch_size": 100}'),
	(5, 'stashed', '4MB', '{"yield_granularity": 1000000, "stash_threshold": 0,
		"stash_batch_size": 100, "read_batch_size": 1}');

CREATE TABLE diff_result (
	id int PRIMARY KEY,
	calls int NOT NULL,				/* single calls of peek that were made */
	num_rows int,					/* in the answer */
	groups int,						/* of equal keys in the answer */
	cut_group bool,					/* limit or offset divide a group */
	has_copies bool,				/* the answer has fully equal rows */
	problem text					/* NULL if all is well */
);

/*
 * Judges one answer.  Where the order leaves open which of several rows comes
 * first, any of them may; so each row must be found in the group that the
 * oracle has at its place.  As the number of rows is right, this makes the
 * groups that are not cut equal.
 */
CREATE FUNCTION diff_judge(got bytea[], groups int[], wanted bytea[],
						   start int, num_rows int)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	bad record;
BEGIN
	IF cardinality(got) <> num_rows THEN
		RETURN format('%s rows instead of %s', cardinality(got), num_rows);
	END IF;

	SELECT min(g) AS g, count(*) AS n INTO bad
	FROM (SELECT g, r
		  FROM unnest(groups[start + 1 : start + num_rows], got) AS a(g, r)
		  EXCEPT ALL
		  SELECT g, r FROM unnest(groups, wanted) AS o(g, r)) AS d;
	IF bad.n > 0 THEN
		RETURN format('%s of %s rows are misplaced, the first in group %s at row %s',
					  bad.n, num_rows, bad.g,
					  greatest(array_position(groups, bad.g) - 1 - start, 0));
	END IF;
	RETURN NULL;
END
$$;

/* Runs every parts-th request. */
CREATE PROCEDURE diff_run(part int, parts int) LANGUAGE plpgsql AS $$
DECLARE
	request diff_request;
	setting diff_setting;
	stage text;
	groups int[];
	wanted bytea[];
	got bytea[];
	first bytea[];
	start int;
	num_rows int;
	result diff_result;
BEGIN
	FOR request IN
		SELECT * FROM diff_request WHERE id % parts = part ORDER BY id
	LOOP
		result := NULL;
		result.id := request.id;
		result.calls := 0;
		BEGIN
			stage := 'plain SQL';
			EXECUTE request.oracle INTO groups, wanted;
			groups := coalesce(groups, '{}');
			wanted := coalesce(wanted, '{}');
			start := least(request.row_offset, cardinality(groups));
			num_rows := least(request.row_limit, cardinality(groups) - start);
			result.num_rows := num_rows;
			result.groups := (
				SELECT count(DISTINCT g)
				FROM unnest(groups[start + 1 : start + num_rows]) AS a(g));
			result.cut_group := num_rows > 0 AND
				(groups[start] = groups[start + 1] OR
				 groups[start + num_rows] = groups[start + num_rows + 1])
				IS TRUE;

			FOR setting IN SELECT * FROM diff_setting ORDER BY id LOOP
				stage := setting.options::text;
				PERFORM set_config('work_mem', setting.work_mem, true);
				result.calls := result.calls + 1;
				EXECUTE replace(request.call, '@OPTIONS@',
								quote_literal(setting.options))
					INTO got;
				got := coalesce(got, '{}');
				IF result.calls = 1 THEN
					first := got;
					result.problem :=
						diff_judge(got, groups, wanted, start, num_rows);
					result.has_copies := (
						SELECT count(*) > count(DISTINCT r)
						FROM unnest(got) AS a(r));
				ELSIF got <> first THEN
					result.problem := concat_ws('; ', result.problem,
						format('another answer with %s: %s', stage,
							   coalesce(diff_judge(got, groups, wanted,
												   start, num_rows),
										'right, but in another order')));
				END IF;
			END LOOP;
		EXCEPTION WHEN OTHERS THEN
			result.problem := concat_ws('; ', result.problem,
				format('%s: %s: %s', stage, SQLSTATE, SQLERRM));
		END;
		INSERT INTO diff_result SELECT result.*;
		IF request.id / parts % 100 = 0 THEN
			COMMIT;
		END IF;
	END LOOP;
END
$$;

/*
 * Positions: what btree returned to the walk, so for a request whose
 * conditions all bound the walk the same number that a plain scan of the same
 * index counts.
 *
 * The growth of pg_stat_all_indexes.idx_tup_read is read where it arises, in
 * this backend's counters that were not sent to the shared ones yet; the
 * caller compares the sums with the view itself.
 */
CREATE TABLE diff_position (
	id int PRIMARY KEY,
	index regclass NOT NULL,
	call text NOT NULL,
	plain text NOT NULL,
	positions bigint,
	plain_reads bigint,
	peek_reads bigint,
	plan text
);

CREATE FUNCTION diff_reads(index regclass) RETURNS bigint
LANGUAGE sql VOLATILE AS $$
	SELECT coalesce(pg_stat_get_xact_tuples_returned(index), 0)
$$;

CREATE PROCEDURE diff_positions() LANGUAGE plpgsql
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_indexonlyscan = off
SET enable_sort = off
AS $$
DECLARE
	line diff_position;
	before bigint;
	reads bigint;
	plan_line text;
BEGIN
	FOR line IN SELECT * FROM diff_position ORDER BY id LOOP
		line.plan := '';
		FOR plan_line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || line.plain LOOP
			line.plan := line.plan || plan_line || E'\n';
		END LOOP;

		reads := diff_reads(line.index);
		EXECUTE line.plain;
		line.plain_reads := diff_reads(line.index) - reads;

		SELECT positions INTO before FROM peekstash.stat;
		reads := diff_reads(line.index);
		EXECUTE line.call;
		line.peek_reads := diff_reads(line.index) - reads;
		SELECT positions - before INTO line.positions FROM peekstash.stat;

		UPDATE diff_position AS p
		SET (positions, plain_reads, peek_reads, plan) =
			(line.positions, line.plain_reads, line.peek_reads, line.plan)
		WHERE p.id = line.id;
	END LOOP;
END
$$;

/*
 * The cap.  For each request of rows in walk order the smallest row_limit at
 * which the answer is refused, found by trying those around the right one; the
 * SQLSTATE; and the positions counted by the refused peek without a limit.
 *
 * call has the place of a limit marked @LIMIT@, and @OPTIONS@ as above.
 * fails_at is what the ruler says, computed without peekstash.
 */
CREATE TABLE diff_cap (
	id serial PRIMARY KEY,
	cap_kb int NOT NULL,
	call text NOT NULL,
	row_offset int NOT NULL,
	fails_at int NOT NULL
);

CREATE TABLE diff_cap_result (
	id int,
	options jsonb,
	fails_at int,
	sqlstates text[],
	messages text[],
	not_monotonic int,				/* answers given beyond fails_at */
	positions bigint
);

CREATE PROCEDURE diff_caps() LANGUAGE plpgsql AS $$
DECLARE
	line diff_cap;
	setting diff_setting;
	options text;
	result diff_cap_result;
	before bigint;
	by_option bool;
BEGIN
	FOR line IN SELECT * FROM diff_cap ORDER BY id LOOP
		FOR setting IN SELECT * FROM diff_setting ORDER BY id LOOP
			result := NULL;
			result.id := line.id;
			result.not_monotonic := 0;

			/* Half of them set the cap, the others give it with the call. */
			by_option := (line.id + setting.id) % 2 = 0;
			result.options := setting.options;
			IF by_option THEN
				result.options := result.options ||
					jsonb_build_object('max_result_size', line.cap_kb);
			END IF;
			PERFORM set_config('peekstash.max_result_size',
				CASE WHEN by_option THEN '1GB' ELSE line.cap_kb || 'kB' END,
				true);
			options := quote_literal(result.options);

			FOR n IN line.fails_at - 5 .. line.fails_at + 5 LOOP
				BEGIN
					EXECUTE replace(replace(line.call, '@LIMIT@', n::text),
									'@OPTIONS@', options);
					IF result.fails_at IS NOT NULL THEN
						result.not_monotonic := result.not_monotonic + 1;
					END IF;
				EXCEPTION WHEN OTHERS THEN
					result.fails_at := coalesce(result.fails_at, n);
					IF SQLSTATE <> ALL (coalesce(result.sqlstates, '{}')) THEN
						result.sqlstates := result.sqlstates || SQLSTATE;
					END IF;
					IF SQLERRM <> ALL (coalesce(result.messages, '{}')) THEN
						result.messages := result.messages || SQLERRM;
					END IF;
				END;
			END LOOP;

			SELECT positions INTO before FROM peekstash.stat;
			BEGIN
				EXECUTE replace(replace(line.call, '@LIMIT@', 'NULL'),
								'@OPTIONS@', options);
			EXCEPTION WHEN OTHERS THEN
				NULL;
			END;
			SELECT positions - before INTO result.positions
			FROM peekstash.stat;
			INSERT INTO diff_cap_result SELECT result.*;
		END LOOP;
	END LOOP;
	PERFORM set_config('peekstash.max_result_size', '1GB', true);
END
$$;
