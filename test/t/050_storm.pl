# Thousands of handles: eight sessions of two roles submit small and large
# answers, read pages of their own and of each other's, release some, let
# others expire, and roll back.  The stash stays as large as what is in it, the
# counters of the quotas stay right, and in the end nothing is left.
#
# PEEKSTASH_FULL=1 asks for 20,000 submits instead of 2,000, PEEKSTASH_SEED for
# a run with the same choices.

use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin;

use PeekTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

my $SUBMITS = $ENV{PEEKSTASH_FULL} ? 20_000 : 2_000;
my $SESSIONS = 8;

# Seconds between two submits of a session: a short run must last long enough
# for answers to expire, and for vacuum to come by, many times.
my $PAUSE = $ENV{PEEKSTASH_FULL} ? 0 : 0.08;
my $ROWS = 20_000;

my $seed = $ENV{PEEKSTASH_SEED};
$seed = (time ^ ($$ << 8)) % 1_000_000 if !defined $seed || $seed eq '';
diag "PEEKSTASH_SEED=$seed";

my $node = peek_start('storm', conf => qq{
	peekstash.sweep_interval = '1s'
	autovacuum_naptime = '1s'
	autovacuum_vacuum_cost_delay = 0
	max_wal_size = 1GB
});
$node->safe_psql('postgres', qq{
	CREATE TABLE item (k int PRIMARY KEY, v text);
	INSERT INTO item SELECT i, md5(i::text) || md5((-i)::text)
	FROM generate_series(1, $ROWS) AS i;
	VACUUM ANALYZE item;

	-- what is there to be read: rows number_from .. of item
	CREATE UNLOGGED TABLE live (handle uuid PRIMARY KEY, owner name,
		first_key int, num_rows int, expires timestamptz);
	CREATE TABLE happened (what text);
	CREATE TABLE wrong (what text);

	CREATE ROLE alice LOGIN;
	CREATE ROLE bob LOGIN;
	GRANT SELECT ON item TO alice, bob;
	GRANT ALL ON live, happened, wrong TO alice, bob;
});
$node->safe_psql('postgres', q{
	-- A page of an answer must have the rows that it was made of.
	CREATE FUNCTION page_is_wrong(a live, from_row int, max_rows int)
	RETURNS text LANGUAGE plpgsql AS $$
	DECLARE
		found record;
		first_key int := a.first_key + from_row;
		num_rows int := greatest(least(max_rows, a.num_rows - from_row), 0);
	BEGIN
		SELECT count(*) AS num_rows, min(k) AS first_key, max(k) AS last_key,
			bool_and(v = md5(k::text) || md5((-k)::text)) AS sound
		INTO found FROM peek_fetch(NULL::item, a.handle, from_row, max_rows);
		IF found.num_rows <> num_rows OR (num_rows > 0 AND (NOT found.sound
			OR found.first_key <> first_key
			OR found.last_key <> first_key + num_rows - 1)) THEN
			RETURN format('page %s, %s of %s: %s', from_row, max_rows, a, found);
		END IF;
		RETURN NULL;
	END $$;

	CREATE FUNCTION happened(what text) RETURNS void LANGUAGE sql AS $$
		INSERT INTO happened VALUES (what) $$;
	CREATE FUNCTION wrong(what text) RETURNS void LANGUAGE sql AS $$
		INSERT INTO wrong VALUES (what) $$;

	-- One submit and what goes with it.  A statement of its own each time: a
	-- backend tells autovacuum what it has deleted between two statements.
	CREATE PROCEDURE storm(pause float8) LANGUAGE plpgsql AS $$
	DECLARE
		answer live;
		other live;
		ttl int := CASE WHEN random() < 0.5 THEN 1 + floor(random() * 3) ELSE 3600 END;
		options jsonb := jsonb_build_object('ttl', ttl, 'stash_threshold', '16kB',
			'stash_batch_size', (ARRAY['1kB', '8kB', '64kB'])[1 + floor(random() * 3)]);
		undo boolean := random() < 0.15;
		problem text;
	BEGIN
		answer.first_key := 1 + floor(random() * 15000);
		answer.num_rows := CASE
			WHEN random() < 0.6 THEN floor(random() * 100)
			WHEN random() < 0.8 THEN floor(random() * 2000)
			ELSE 2000 + floor(random() * 3000) END;
		answer.owner := current_user;

		-- an error in the middle of the walk, caught
		IF random() < 0.1 THEN
			BEGIN
				PERFORM peek_submit('item_pkey', lower => answer.first_key,
					filter => '1 / (k - ' || answer.first_key + answer.num_rows || ') < 2',
					options => options);
				PERFORM wrong('no error was thrown');
			EXCEPTION WHEN division_by_zero THEN
				PERFORM happened('error');
			END;
		END IF;

		answer.handle := peek_submit('item_pkey', lower => answer.first_key,
			row_limit => answer.num_rows, options => options);
		answer.expires := clock_timestamp() + ttl * interval '1 s';

		-- one's own, before the commit
		IF random() < 0.3 THEN
			problem := page_is_wrong(answer, 0, 5000);
			IF problem IS NOT NULL THEN
				PERFORM wrong('own: ' || problem);
			END IF;
		END IF;
		IF random() < 0.1 THEN
			IF NOT peek_release(answer.handle) THEN
				PERFORM wrong('own: not released');
			END IF;
		ELSE
			INSERT INTO live SELECT (answer).*;
		END IF;
		IF undo THEN
			ROLLBACK;
		ELSE
			COMMIT;
		END IF;
		PERFORM happened(CASE WHEN undo THEN 'rollback' ELSE 'submit' END);

		-- somebody's, while others release it and the sweeper comes by
		FOR n IN 1 .. 2 LOOP
			IF n = 1 THEN
				SELECT * INTO other FROM live WHERE owner = current_user
				ORDER BY handle DESC OFFSET floor(random() * 30) LIMIT 1;
			ELSE
				-- or what expires next, or has just expired
				SELECT * INTO other FROM live WHERE owner = current_user
				ORDER BY expires OFFSET floor(random() * 30) LIMIT 1;
			END IF;
			CONTINUE WHEN NOT FOUND;
			BEGIN
				problem := page_is_wrong(other, floor(random() * other.num_rows)::int,
					floor(random() * 3000)::int);
				IF problem IS NOT NULL THEN
					PERFORM wrong('other: ' || problem);
				END IF;
				PERFORM happened('fetch');
			EXCEPTION WHEN undefined_object THEN
				PERFORM happened('fetch: gone');
				IF other.expires > clock_timestamp() AND EXISTS (
					SELECT FROM peekstash.peeks p WHERE p.handle = other.handle) THEN
					PERFORM wrong('it is there: ' || SQLERRM);
				END IF;
			END;
			COMMIT;
		END LOOP;

		-- the oldest of what does not expire, so that it does not pile up
		FOR other IN DELETE FROM live WHERE handle IN (
			SELECT handle FROM live WHERE owner = current_user
			AND expires > clock_timestamp() + interval '10 min'
			ORDER BY handle DESC OFFSET 40 FOR UPDATE SKIP LOCKED) RETURNING *
		LOOP
			IF NOT peek_release(other.handle) THEN
				PERFORM wrong('not there for release: ' || other);
			END IF;
			PERFORM happened('release');
		END LOOP;
		DELETE FROM live WHERE handle IN (SELECT handle FROM live
			WHERE expires < clock_timestamp() - interval '2 s'
			FOR UPDATE SKIP LOCKED);
		COMMIT;
		PERFORM pg_sleep(2 * random() * pause);
	END $$;
});

# The disk that the stash takes, indexes included.
my $size = q{SELECT sum(pg_total_relation_size(c.oid))
	FROM pg_class c WHERE relnamespace = 'peekstash'::regnamespace
	AND relkind = 'r'};
my $shared = q{SELECT stash_bytes FROM peekstash.stat};
my $summed = q{SELECT coalesce(sum(stored_bytes), 0) FROM peekstash.outcome};


my $start = time;
my @sessions = map { peek_session($node, user => $_ % 2 ? 'alice' : 'bob') }
  1 .. $SESSIONS;
foreach my $n (0 .. $SESSIONS - 1)
{
	$sessions[$n]->query('SELECT setseed(' . (($seed + $n) % 1000) / 1000 . ')');
	$sessions[$n]->send("SELECT 'CALL storm($PAUSE)' FROM generate_series(1, "
		  . $SUBMITS / $SESSIONS . ")\n\\gexec");
}

# How much of it is done, and how large the stash is then.
my @samples;
my $done = q{SELECT walks_inline FROM peekstash.stat};
my $busy = q{SELECT count(*) FROM pg_stat_activity
	WHERE query LIKE 'CALL storm%' AND now() < state_change + interval '3 s'};
while ($node->safe_psql('postgres', $busy) > 0)
{
	push @samples, [ split /\|/, $node->safe_psql('postgres',
		"SELECT ($done), ($size), ($shared)") ];
	usleep(200_000);
}
foreach my $session (@sessions)
{
	my ($out, $err) = $session->result;

	is($err, '', 'a session met no error');
	$session->quit;
}
my $seconds = time - $start;

my $walks = $samples[-1][0];
my @half = (0, 0);
foreach my $sample (@samples)
{
	my $second = $sample->[0] > $walks / 2 ? 1 : 0;
	$half[$second] = $sample->[1] if $half[$second] < $sample->[1];
}
diag sprintf '%d submits in %.0f seconds; stash at most %.1f MB in the first'
  . ' half, %.1f MB in the second', $SUBMITS, $seconds, map { $_ / 1048576 } @half;
cmp_ok($half[1], '<=', 1.25 * $half[0] + 4 * 1024 * 1024,
	'the stash grew no more in the second half');
is($node->safe_psql('postgres', 'SELECT what, count(*) FROM wrong GROUP BY 1'),
	'', 'all pages were right');
my %happened = map { split /\|/ } split /\n/, $node->safe_psql('postgres',
	'SELECT what, count(*) FROM happened GROUP BY what');
note join ', ', map { "$happened{$_} times $_" } sort keys %happened;
is($happened{submit} + $happened{rollback}, $SUBMITS, 'all were submitted');
cmp_ok($happened{$_} || 0, '>=', $SUBMITS / 100, "enough times: $_")
  foreach qw(rollback error fetch release), 'fetch: gone';
cmp_ok($node->safe_psql('postgres', 'SELECT swept_answers FROM peekstash.stat'),
	'>=', $SUBMITS / 10, 'many were swept');


# The counters

# Once the launcher has swept all that expires, nobody changes them.
ok( $node->poll_query_until('postgres', q{SELECT NOT EXISTS (
		SELECT FROM peekstash.outcome WHERE expires_at < now() + interval '1 min')}),
	'what expires is swept');
is($node->safe_psql('postgres', $shared),
	$node->safe_psql('postgres', $summed),
	'what is counted for the database is what is in the tables');
foreach my $role (qw(alice bob))
{
	my ($peeks, $bytes) = split /\|/, $node->safe_psql('postgres', qq{
		SELECT count(*), sum(stored_bytes) FROM peekstash.handle JOIN peekstash.outcome
		USING (handle) WHERE charged_to = '$role'::regrole});
	my $submit = sub {
		my ($knob, $limit) = @_;
		my ($ret, $out, $err) = $node->psql('postgres', qq{
			\\set VERBOSITY verbose
			BEGIN;
			SELECT peek_submit('item_pkey', key => 1, options => '{"$knob": $limit}');
			ROLLBACK}, extra_params => [ '-U', $role ]);
		return $err =~ /ERROR:  (.{5})/ ? $1 : 'none';
	};
	is($submit->('max_role_peeks', $peeks), '53400',
		"$role: as many peeks are counted as there are");
	is($submit->('max_role_peeks', $peeks + 1), 'none', "$role: and no more");
	is($submit->('max_role_stash_size', int($bytes / 1024)), '53400',
		"$role: as many bytes are counted as there are");

	# the answer submitted here takes some of it: a row, and the head of a tail
	is($submit->('max_role_stash_size', int($bytes / 1024) + 2), 'none',
		"$role: and no more");
}


# Nothing is left

is($node->safe_psql('postgres',
		'SELECT count(*) FILTER (WHERE NOT peek_release(handle)) FROM peekstash.peeks'),
	'0', 'all others are released');
no_leftovers($node);
is($node->safe_psql('postgres', $shared), '0', 'nothing is counted');
is($node->safe_psql('postgres', 'SELECT slots_in_use FROM peekstash.stat'),
	'0', 'no slot is in use');
ok($node->poll_query_until('postgres',
		'SELECT stash_disk_bytes = 0 FROM peekstash.stat'),
	'the disk is given back');

my @lines = grep { /(?:WARNING|ERROR|FATAL|PANIC|TRAP|terminated by signal)/ }
  grep { !/ERROR:  (?:stash size limit of|.* peeks|too many)|ERROR:  canceling autovacuum/ }
  split /\n/, slurp_file($node->logfile);
is(join("\n", @lines), '', 'nothing unforeseen in the log');
done_testing();
