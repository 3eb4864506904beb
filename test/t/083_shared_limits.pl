# 083_shared_limits.pl
#	What several workers find together is limited as if one had found it, and
#	fails as the worst of them does.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;

use PeekOffload;
use PeekTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = peek_start('limits', conf => q{
	max_worker_processes = 32
	peekstash.permits = 8
});
my $rows = 20000;

# Rows of a fixed size that differ, so that the ruler's total is known.
$node->safe_psql('postgres', qq{
	CREATE TABLE t (k int PRIMARY KEY, v text NOT NULL);
	INSERT INTO t SELECT i, lpad(i::text, 91, 'x')
		FROM generate_series(1, $rows) i;
	VACUUM ANALYZE t;
	CREATE FUNCTION held(k int) RETURNS bool LANGUAGE plpgsql STABLE PARALLEL SAFE SET lock_timeout = 0 AS '
		BEGIN
			PERFORM pg_advisory_lock_shared(77);
			PERFORM pg_advisory_unlock_shared(77);
			RETURN true;
		END';
	SELECT peek_release(peek_submit('t', key => 1));
});
my $watch = PeekOffload->new($node);
my $session = peek_session($node);

# Waits for a peek, tells how it ended, and releases it.
sub how
{
	my ($handle) = @_;
	my ($how) = $session->query(qq{
		SELECT concat_ws('|', s.state, s.driver, s.num_rows, s.sqlstate, s.error)
		FROM peek_wait('$handle', NULL) w, peek_status('$handle') s});

	if ($how =~ /^done/)
	{
		my ($once) = $session->query(qq{SELECT count(*) = count(DISTINCT k)
			FROM peek_fetch(NULL::t, '$handle')});

		$how .= '|doubles' if $once ne 't';
	}
	else
	{
		my ($none) = $session->query(
			"SELECT count(*) = 0 FROM peekstash.batch WHERE handle = '$handle'");

		$how .= '|batches' if $none ne 't';
	}
	$session->query("SELECT peek_release('$handle')");
	return $how;
}

# Submits, and tells how it ended.
sub ended
{
	my ($request, $workers, @options) = @_;
	my $options = join ', ', '"background": true', "\"workers\": $workers",
	  @options;
	my ($handle) = $session->query(
		"SELECT peek_submit('t'$request, options => '{$options}')");

	return how($handle);
}

my ($row_bytes) = $session->query(qq{SELECT answer_bytes / $rows
	FROM peek_status(peek_submit('t', options => '{"enable_offload": false}'))});
is($row_bytes, 112, 'a row of the test is 112 bytes by the ruler');
$session->query('SELECT peek_release(handle) FROM peekstash.peeks');

# 64 rows are 7 kB: the cap in kB can be met to the byte.
my $cap = 1750;
my $fit = $cap * 1024 / $row_bytes;
foreach my $workers (1, 2, 3)
{
	my $capped = "\"max_result_size\": $cap";
	my $name = "$workers workers";

	is(ended(", upper => $fit", $workers, $capped), "done|offloaded|$fit",
		"$name: an answer of the cap passes");
	is( ended(', upper => ' . ($fit + 1), $workers, $capped),
		"failed|offloaded|0|53400|result exceeds max size of $cap kB",
		"$name: one row more fails");
	is(ended(', row_limit => 1000', $workers, '"max_result_size": 112'),
		'done|offloaded|1000', "$name: rows past the limit are no size");

	is(ended(', upper => 9000', $workers, '"row_iteration_limit": 9000'),
		'done|offloaded|9000', "$name: positions of the limit pass");
	is( ended(', upper => 9001', $workers, '"row_iteration_limit": 9000'),
		'failed|offloaded|0|53400|peek exceeded the row iteration limit of 9000',
		"$name: one position more fails");

	is(ended(", row_limit => $_", $workers), "done|offloaded|$_",
		"$name: row_limit $_")
	  foreach 1, 777, $rows - 1, $rows;
	is(ended(', row_offset => 500, row_limit => 9000', $workers),
		'done|offloaded|9000', "$name: offset and limit");
	is(ended(", row_offset => $_", $workers), 'done|offloaded|' . ($rows - $_),
		"$name: row_offset $_")
	  foreach 1, $rows - 1, $rows;
	is(ended(', row_limit => 0', $workers), 'done|inline|0',
		"$name: LIMIT 0 has no walk that could be handed over");
	is( ended(', row_limit => 9223372036854775807, row_offset => 1', $workers),
		'done|offloaded|' . ($rows - 1), "$name: the largest limit");
	is( ended(q{, filter => '1 / (k - 15000) >= 0 OR k < 20000'}, $workers,
			'"stash_threshold": 1000'),
		'failed|offloaded|0|22012|division by zero',
		"$name: an error of one is that of all");
}

# Who has not come to the limit himself does not walk on for it.
{
	my ($few) = $session->query(q{
		SELECT positions < 10000 FROM (SELECT peek_submit('t', row_limit => 1000,
			options => '{"background": true, "workers": 2, "yield_granularity": 100}')
			AS h OFFSET 0) p, peek_wait(h, NULL) w, peek_status(h)});

	is($few, 't', 'a limit that is reached ends the walk for all');
	$session->query('SELECT peek_release(handle) FROM peekstash.peeks');
}

# Wherever one of two fails, all has failed, and nothing stays.
foreach my $point ('share-commit', 'finisher-commit', 'worker-commit',
	'outcome-insert', 'upload-finish', 'walk-end')
{
	my $guard = arm_stop($node, $point, 'error');

	is(ended('', 2, '"stash_threshold": 1000'),
		"failed|offloaded|0|XX000|stop point \"$point\" threw",
		"an error at $point is the end of all, and nothing of it stays");
	$guard->release;

	# the same place, but somebody asks to stop first
	$guard = arm_stop($node, $point, 'wait');
	my ($handle) = $session->query(q{SELECT peek_submit('t',
		options => '{"background": true, "workers": 2, "stash_threshold": 1000}')});
	wait_for_stop($node, $point);
	my ($asked) = $session->query("SELECT peek_cancel('$handle')");
	$guard->release;
	like(how($handle), $asked eq 't' ?
		  qr/^cancelled\|offloaded\|0\|57014\|canceling [a-z ]+ due to user request$/ :
		  qr/^done\|offloaded\|$rows$/,
		"cancelled at $point, or told that it is too late");
}

# An error is not hidden by a limit that the other worker meets: the row of the
# error is the first one, and the limit is met behind it.
is( ended(q{, filter => '1 / (k - 1) >= 0'}, 2, '"row_iteration_limit": 19000',
		'"yield_granularity": 1'),
	'failed|offloaded|0|22012|division by zero', 'an error beats a limit');

# A cancellation beats an error that would come after it.
{
	my $blocker = peek_session($node);

	$blocker->query('SELECT pg_advisory_lock(77)');
	my ($handle) = $session->query(q{SELECT peek_submit('t',
		filter => 'held(k) AND 1 / (k - 1) >= 0',
		options => '{"background": true, "workers": 2}')});
	$node->poll_query_until('postgres', q{SELECT count(*) = 2 FROM pg_locks
		WHERE locktype = 'advisory' AND NOT granted})
	  or die 'workers did not come to wait';
	$session->query("SELECT peek_cancel('$handle')");
	$blocker->query('SELECT pg_advisory_unlock(77)');
	like(how($handle), qr/^cancelled\|offloaded\|0\|57014\|/,
		'a cancellation beats an error');
	$blocker->quit;
}

# Every order of arrival.  One worker takes the first page and waits there at
# the row 5, another one waits at the row 2000, and comes to the row iteration
# limit if it goes on.  What each does when it is let go, or is interrupted
# because of the other one, is said in the filter:
#
#	wait	it is cancelled
#	go on	it goes on with the walk
#	again	it waits once more, and does what comes next
#	throw	it throws an error of its own, also when it is let go
$node->safe_psql('postgres', q{
	CREATE FUNCTION meet(k int, at int, what text[]) RETURNS boolean
	LANGUAGE plpgsql STABLE PARALLEL SAFE SET lock_timeout = 0 AS $$
	DECLARE
		step text;
	BEGIN
		IF k <> at THEN
			RETURN true;
		END IF;
		FOREACH step IN ARRAY what LOOP
			BEGIN
				PERFORM pg_advisory_lock_shared(83, at);
				PERFORM pg_advisory_unlock_shared(83, at);
				IF step = 'throw' THEN
					RAISE 'own error' USING ERRCODE = 'ZZ001';
				END IF;
				RETURN true;
			EXCEPTION WHEN query_canceled THEN
				IF step = 'throw' THEN
					RAISE 'own error' USING ERRCODE = 'ZZ001';
				ELSIF step = 'wait' THEN
					RAISE;
				ELSIF step = 'go on' THEN
					RETURN true;
				END IF;
			END;
		END LOOP;
		RETURN true;
	END $$;
});

my $keeper = peek_session($node);

# Since when a worker waits at a row; empty if none does.
sub waits_since
{
	my ($at) = @_;

	return $watch->query("SELECT waitstart FROM pg_locks
		WHERE locktype = 'advisory' AND classid = 83 AND objid = $at
		AND NOT granted AND waitstart IS NOT NULL");
}

# Lets the one at the row 2000 go, and waits until it has failed and the other
# one, who was interrupted because of that, waits again.
sub fail_first
{
	my $since = waits_since(5);

	$keeper->query('SELECT pg_advisory_unlock(83, 2000)');
	$watch->wait_until("SELECT count(*) = 1 FROM pg_locks
		WHERE locktype = 'advisory' AND classid = 83 AND objid = 5
		AND NOT granted AND waitstart > '$since'");
	return;
}

my $limit_error =
  '53400|peek exceeded the row iteration limit of 4000';
my $cancelled = '57014|canceling [a-z ]+ due to user request';
my $cancel = sub { $session->query("SELECT peek_cancel('$_[0]')") };
foreach my $order (
	[ 'a limit alone', $limit_error, ['wait'], ['wait'],
		sub { $keeper->query('SELECT pg_advisory_unlock(83, 2000)') } ],
	[ 'an error alone', 'ZZ001|own error', ['throw'], ['wait'],
		sub { $keeper->query('SELECT pg_advisory_unlock(83, 5)') } ],
	[ 'a limit, then an error', 'ZZ001|own error', ['throw'], ['wait'],
		sub { $keeper->query('SELECT pg_advisory_unlock(83, 2000)') } ],
	[ 'an error, then a limit', 'ZZ001|own error', ['throw'], ['go on'],
		sub { $keeper->query('SELECT pg_advisory_unlock(83, 5)') }, 100_000 ],
	[ 'a cancel alone', $cancelled, ['wait'], ['wait'], $cancel ],
	[ 'a cancel, then an error', $cancelled, ['throw'], ['wait'], $cancel ],
	[ 'a cancel, then errors only', $cancelled, ['throw'], ['throw'],
		$cancel ],
	[ 'a cancel, then a limit', $cancelled, ['wait'], ['go on'], $cancel,
		100_000 ],
	[ 'a limit, then a cancel', $cancelled, [ 'again', 'wait' ], ['wait'],
		sub { fail_first(); $cancel->(@_) } ],
	[ 'an error, then a cancel', $cancelled, [ 'again', 'wait' ], ['throw'],
		sub { fail_first(); $cancel->(@_) } ],
	[ 'an error, a cancel, and an error', $cancelled, [ 'again', 'throw' ],
		['throw'], sub { fail_first(); $cancel->(@_) } ])
{
	my ($name, $wanted, $first, $second, $run, $yield) = @$order;
	my $state = $wanted eq $cancelled ? 'cancelled' : 'failed';

	# which of the two is the finisher is a matter of time
	foreach my $round (1 .. 3)
	{
		my $filter = sprintf "meet(k, 5, ''{%s}'') AND meet(k, 2000, ''{%s}'')",
		  join(',', @$first), join(',', @$second);
		my $before = $watch->counts;

		$keeper->query("SELECT pg_advisory_lock(83, $_)") foreach 5, 2000;
		my ($handle) = $session->query("SELECT peek_submit('t',
			filter => '$filter', options => '{\"background\": true,
				\"workers\": 2, \"stash_threshold\": 0,
				\"stash_batch_size\": 1000, \"row_iteration_limit\": 4000,
				\"yield_granularity\": " . ($yield || 50) . "}')");
		$watch->wait_until("SELECT count(*) = 2 FROM pg_locks
			WHERE locktype = 'advisory' AND classid = 83
			AND NOT granted AND waitstart IS NOT NULL");
		$run->($handle);
		like(how($handle), qr/^$state\|offloaded\|0\|$wanted$/,
			"$name, round $round");
		$keeper->query('SELECT pg_advisory_unlock_all()');
		$watch->settled("$name, round $round: settled");
		$watch->counted($before, { "answers_$state" => 1 },
			"$name, round $round: counted");
	}
}

# One is over long before the other comes to the cap: 19999 rows are 2188 kB
# and less than one kB.
foreach my $workers (2, 3)
{
	my $cap = 2187;

	$keeper->query('SELECT pg_advisory_lock(83, 5)');
	my ($handle) = $session->query("SELECT peek_submit('t',
		filter => 'meet(k, 5, ''{wait}'')', options => '{\"background\": true,
			\"workers\": $workers, \"stash_threshold\": 0,
			\"max_result_size\": $cap}')");
	ok($watch->wait_until("SELECT num_rows > 19000 AND state = 'running'
			FROM peekstash.peeks WHERE handle = '$handle'"),
		"$workers workers: all but one have walked, below the cap");
	$keeper->query('SELECT pg_advisory_unlock(83, 5)');
	is(how($handle),
		"failed|offloaded|0|53400|result exceeds max size of $cap kB",
		"$workers workers: shares below the cap, and a sum over it");
}
$keeper->quit;

$session->quit;
$watch->settled('after all');
no_leftovers($node);
$node->stop;
done_testing();
