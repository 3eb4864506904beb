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
	CREATE FUNCTION held(k int) RETURNS bool LANGUAGE plpgsql STABLE PARALLEL SAFE AS '
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

$session->quit;
$watch->settled('after all');
no_leftovers($node);
$node->stop;
done_testing();
