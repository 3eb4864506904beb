# An offloaded walk is ended at every place where it can be: by an error, by a
# cancel while it waits there, by the end of the process, and by a submitter
# that aborts meanwhile; with one worker and with two.  And nothing is ended,
# but the submitter commits meanwhile.  Each time it is clear what has become
# of the peek, it is counted once, and nothing is left that should not be.
#
# Then what needs two sessions at the right moments: workers that go while the
# submitter decides, releases of peeks that workers are about to complete.  And
# processes are killed at some of the places.

use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin;

use PeekOffload;
use PeekTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $NUM_ROWS = 3000;
my $node = peek_start('stops', conf => qq{
	peekstash.max_workers = 4
	peekstash.permits = 4
});
$node->safe_psql('postgres', qq{
	CREATE TABLE t (k int PRIMARY KEY, v text);
	INSERT INTO t SELECT i, lpad(i::text, 80, 'x')
	FROM generate_series(1, $NUM_ROWS) AS i;
	VACUUM ANALYZE t;

	CREATE FUNCTION sqlstate_of(query text) RETURNS text
	LANGUAGE plpgsql AS \$\$
	BEGIN
		EXECUTE query;
		RETURN 'no error';
	EXCEPTION WHEN query_canceled OR OTHERS THEN
		RETURN SQLSTATE;
	END \$\$;

	-- waits at the row 5 while a test has this lock
	CREATE FUNCTION hold(k int) RETURNS boolean
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS \$\$
	BEGIN
		IF k = 5 THEN
			PERFORM pg_advisory_xact_lock_shared(5);
		END IF;
		RETURN true;
	END \$\$;
});
my $ALL = $NUM_ROWS . '|' . $NUM_ROWS * ($NUM_ROWS + 1) / 2;

my $watch = PeekOffload->new($node);
my $keeper = peek_session($node);
my $session = peek_session($node);

# In the background or not at all; or (inline) the submitter walks a part of
# it.  fails: at the row 2500.  handle: the client's own.
sub submit
{
	my ($workers, %opts) = @_;
	my %options = (
		workers => $workers,
		stash_threshold => 3000,
		stash_batch_size => 10000,
		yield_granularity => 100);
	my $filter = $opts{fails} ? '1 / (k - 2500) < 2' : $opts{filter} || 'true';

	%options = (%options, $opts{inline}
		? (enable_offload => 'true', inline_budget => 1000)
		: (background => 'true'));
	$options{handle} = qq("$opts{handle}") if $opts{handle};
	return "SELECT peek_submit('t_pkey', filter => '$filter', options => '{"
	  . join(', ', map { qq("$_": $options{$_}) } sort keys %options) . "}')";
}

sub stop
{
	my ($point, $action) = @_;

	return arm_stop($node, $point, $action, session => $keeper);
}

# A test point: what is known of a peek.
sub has_become
{
	my ($handle, $state, $sqlstate, $test_name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return is($watch->query("SELECT state, sqlstate, sqlstate_of(format(
				'SELECT count(*) FROM peek_fetch(NULL::t, %L)', handle))
			FROM peekstash.peeks WHERE handle = '$handle'"),
		join('|', $state, $sqlstate, $sqlstate || 'no error'), $test_name);
}

# The answer is there and whole, and goes.
sub is_whole
{
	my ($handle, $test_name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is($session->query("SELECT peek_wait('$handle')"), 'done',
		"$test_name: done");
	is($session->query("SELECT count(*), sum(k) FROM peek_fetch(NULL::t, '$handle')"),
		$ALL, "$test_name: the answer is whole");
	return;
}

# All is released, and nothing is left.
sub clear
{
	my ($test_name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$watch->settled("$test_name: settled");
	$session->query('SELECT peek_release(handle) FROM peekstash.handle');
	is($watch->query('SELECT (SELECT count(*) FROM peekstash.batch),
			(SELECT count(*) FROM peekstash.outcome),
			(SELECT count(*) FROM peekstash.handle), stash_bytes
			FROM peekstash.stat'),
		'0|0|0|0', "$test_name: nothing left");
	return;
}

sub other_session
{
	$session->quit;
	$session = peek_session($node);
	return;
}

# A test point: one walk has been counted, as failed or as cancelled.
sub counted_as_ended
{
	my ($before, $test_name) = @_;
	my $grown = $watch->grown($before);

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is($grown->{answers_failed} + $grown->{answers_cancelled}, 1, $test_name);
	is( $grown->{walks_inline} + $grown->{walks_offloaded},
		$grown->{answers_memory} + $grown->{answers_stashed}
		  + $grown->{answers_failed}, "$test_name: walks");
	return;
}

# Sends a submit that comes to a stop point in its workers, and waits until
# they are there.  The scan starts in the submitter, too, before that.
sub send_to_stop
{
	my ($point, $action, $query) = @_;
	my $hold;

	if ($point->{name} eq 'scan-start')
	{
		$hold = stop('worker-ready', 'wait');
		$session->send($query);
		wait_for_stop($node, 'worker-ready');
	}
	my $guard = stop($point->{name}, $action);
	$session->send($query) unless $hold;
	$hold->release if $hold;
	return $guard;
}


# Of the workers

my @points = (
	{ name => 'worker-ready', before_go => 1 },
	{ name => 'permit-wait' },
	{ name => 'scan-start' },
	{ name => 'upload-open', one_comes => 1 },
	{ name => 'upload-before-push', one_comes => 1 },
	{ name => 'upload-after-push', one_comes => 1 },
	{ name => 'walk-end' },
	{ name => 'upload-finish', one_comes => 1 },
	{ name => 'share-commit', shared => 1, one_comes => 1 },
	{ name => 'finisher-commit', shared => 1, one_comes => 1 },
	{ name => 'outcome-insert', one_comes => 1 },
	{ name => 'worker-commit', one_comes => 1 },
	{ name => 'failure-insert', one_comes => 1, fails => 1 });

foreach my $workers (1, 2)
{
	foreach my $point (@points)
	{
		next if $point->{shared} && $workers == 1;
		my $submit = submit($workers, fails => $point->{fails});
		my $name = "$point->{name}, $workers workers";
		my $number = $point->{one_comes} ? 1 : $workers;

		# an error, and the end of the process
		foreach my $action ('error', 'fatal')
		{
			my $case = "$name, $action";
			my $before = $watch->counts;
			my $guard = send_to_stop($point, $action, $submit);
			my ($out, $err) = $session->result;

			if ($point->{before_go})
			{
				like($err, qr/ERROR:  cannot walk in the background/,
					"$case: refused");
				$watch->settled("$case: nothing in flight", $keeper->pid);
				$watch->counted($before,
					{ answers_failed => 1, walks_inline => 1 }, "$case: counted");
				my $handle = $session->query(submit($workers, inline => 1));
				$guard->release;
				is_whole($handle, $case);
				is($session->query("SELECT driver, inline_reason
						FROM peekstash.peeks WHERE handle = '$handle'"),
					'inline|worker', "$case: it says why it stayed");
			}
			else
			{
				is($session->query("SELECT peek_wait('$out')"), 'failed',
					"$case: failed");
				$watch->settled("$case: nothing in flight", $keeper->pid);
				$guard->release;
				has_become($out, 'failed',
					$point->{fails} ? '22012'
					: $action eq 'error' ? 'XX000'
					: '57P01',
					"$case: it says how");
				counted_as_ended($before, "$case: counted");
			}
			clear($case);
		}

		# a cancel
		{
			my $case = "$name, cancelled";
			my $before = $watch->counts;
			my $guard = send_to_stop($point, 'wait', $submit);
			my @pids = wait_for_stop($node, $point->{name}, count => $number);

			$watch->query("SELECT pg_cancel_backend($_)") foreach @pids;
			my ($out, $err) = $session->result;
			if ($point->{before_go})
			{
				like($err, qr/ERROR:  cannot walk in the background/,
					"$case: refused");
				$watch->settled("$case: nothing in flight", $keeper->pid);
				$guard->release;
				$watch->counted($before,
					{ answers_failed => 1, walks_inline => 1 }, "$case: counted");
			}
			elsif ($point->{fails})
			{
				is($session->query("SELECT peek_wait('$out', '0.2 s')"),
					'running', "$case: it is too late for that");
				$guard->release;
				is($session->query("SELECT peek_wait('$out')"), 'failed',
					"$case: failed");
				has_become($out, 'failed', '22012', "$case: it says how");
				counted_as_ended($before, "$case: counted");
			}
			else
			{
				is($session->query("SELECT peek_wait('$out')"), 'cancelled',
					"$case: cancelled");
				$watch->settled("$case: nothing in flight", $keeper->pid);
				$guard->release;
				has_become($out, 'cancelled', '57014', "$case: it says how");
				$watch->counted($before, { answers_cancelled => 1 },
					"$case: counted");
			}
			clear($case);
		}

		# the submitter aborts
		foreach my $end ('ROLLBACK', 'ROLLBACK TO', 'cancel', 'terminate')
		{
			my $case = "$name, submitter: $end";
			my $before = $watch->counts;
			my $rolls_back = $end =~ /^ROLLBACK/;

			# where the submitter waits for the worker, nothing else is possible,
			# and where it does not, there is little between the two
			next if $point->{before_go} && $rolls_back;
			next if !$point->{before_go} && $end eq 'cancel';
			next if !$point->{before_go} && !$point->{shared}
			  && $end eq 'terminate' && $point->{name} ne 'upload-after-push';

			$session->query('BEGIN; SAVEPOINT s');
			my $guard = send_to_stop($point, 'wait', $submit);
			wait_for_stop($node, $point->{name}, count => $number);
			$session->result unless $point->{before_go};
			if ($rolls_back)
			{
				$session->query($end eq 'ROLLBACK' ? $end : 'ROLLBACK TO s');
			}
			else
			{
				$watch->query("SELECT pg_${end}_backend(" . $session->pid . ')');
				my ($out, $err) =
				  $point->{before_go} ? $session->result : $session->query('SELECT 1');
				like($err, $end eq 'cancel' ? qr/ERROR:  canceling statement/
					: qr/FATAL:  terminating|server closed the connection/,
					"$case: it ends");
			}
			$guard->release if $point->{fails};
			$watch->settled("$case: nothing in flight", $keeper->pid);
			is($watch->query('SELECT count(*) FROM peekstash.handle'),
				'0', "$case: no handle");
			$guard->release;
			if ($point->{fails})
			{
				counted_as_ended($before, "$case: counted");
			}
			else
			{
				$watch->counted($before, { answers_cancelled => 1 },
					"$case: counted");
			}
			other_session() if !$rolls_back;
			$session->query('ROLLBACK') if $end eq 'ROLLBACK TO';
			clear($case);
		}

		# the submitter commits
		{
			my $case = "$name, submitter commits";
			my $before = $watch->counts;

			$session->query('BEGIN');
			my $guard = send_to_stop($point, 'wait', $submit);
			wait_for_stop($node, $point->{name}, count => $number);
			$guard->release if $point->{before_go};
			my ($handle) = $session->result;
			$session->query('COMMIT');
			$guard->release;
			if ($point->{fails})
			{
				is($session->query("SELECT peek_wait('$handle')"), 'failed',
					"$case: failed");
				has_become($handle, 'failed', '22012', "$case: it says how");
				counted_as_ended($before, "$case: counted");
			}
			else
			{
				is_whole($handle, $case);
				has_become($handle, 'done', '', "$case: done");
				$watch->settled("$case: nothing in flight");
				$watch->counted($before, { answers_stashed => 1 },
					"$case: counted");
			}
			clear($case);
		}
	}
}


# Of the submitter

foreach my $workers (1, 2)
{
	foreach my $point ('handover', 'handover-decide')
	{
		foreach my $action ('error', 'fatal', 'cancel', 'terminate', 'commit')
		{
			foreach my $inline (0, 1)
			{
				my $case = "$point, $workers workers, $action"
				  . ($inline ? ', after a part inline' : '');
				my $before = $watch->counts;
				my $waits = $action !~ /error|fatal/;
				my $guard = stop($point, $waits ? 'wait' : $action);

				$session->send(submit($workers, inline => $inline));
				wait_for_stop($node, $point) if $waits;
				$watch->query("SELECT pg_${action}_backend(" . $session->pid . ')')
				  if $action =~ /cancel|terminate/;
				$guard->release if $action eq 'commit';
				my ($out, $err) = $session->result;
				if ($action eq 'commit')
				{
					is_whole($out, $case);
					$watch->settled("$case: nothing in flight");
					$watch->counted($before, { answers_stashed => 1 },
						"$case: counted");
				}
				else
				{
					like($err, {
							error => qr/ERROR:  stop point ".*" threw/,
							fatal => qr/FATAL:  stop point ".*" ended/,
							cancel => qr/ERROR:  canceling statement/,
							terminate => qr/FATAL:  terminating/ }->{$action},
						"$case: it ends");
					$watch->settled("$case: nothing in flight", $keeper->pid);
					is($watch->query('SELECT count(*) FROM peekstash.handle'),
						'0', "$case: no handle");
					$watch->counted($before,
						$action eq 'error'
						? { answers_failed => 1, walks_inline => 1 }
						: { answers_cancelled => 1 }, "$case: counted");
				}
				$guard->release;
				other_session() if $session->ended;
				clear($case);
			}
		}
	}
}


# Workers go while the submitter decides

foreach my $workers (1, 2)
{
	foreach my $how ('cancel', 'terminate')
	{
		foreach my $which ($workers > 1 ? ('first', 'last') : (), 'all')
		{
			my $case = "$which of $workers workers: $how while the submitter decides";
			my $before = $watch->counts;
			my $guard = stop('handover-decide', 'wait');

			$session->send(submit($workers, inline => 1));
			wait_for_stop($node, 'handover-decide');
			my @pids = split /\n/, $watch->query(
				"SELECT pid FROM pg_stat_activity
				WHERE backend_type = 'peekstash walk' ORDER BY pid");
			is(scalar(@pids), $workers, "$case: so many are there");
			@pids = $pids[ $which eq 'first' ? 0 : -1 ] if $which ne 'all';
			my $pids = join ',', @pids;
			$watch->query("SELECT pg_${how}_backend(pid)
				FROM unnest('{$pids}'::int[]) AS pid");
			$watch->wait_until("SELECT count(*) = 0 FROM pg_stat_activity
				WHERE pid IN ($pids)");
			$guard->release;
			my ($out, $err) = $session->result;
			is_whole($out, $case);
			is( $watch->query("SELECT driver, workers, inline_reason
					FROM peekstash.peeks WHERE handle = '$out'"),
				@pids < $workers ? 'offloaded|1|' : 'inline|0|worker',
				"$case: who walked");
			$watch->settled("$case: nothing in flight");
			$watch->counted($before,
				{ answers_stashed => 1, walks_inline => @pids < $workers ? 0 : 1 },
				"$case: counted");
			clear($case);
		}
	}
}

# ... or just after it has decided.
foreach my $how ('cancel', 'terminate')
{
	my $case = "one of two workers: $how after the others have been told";
	my $before = $watch->counts;
	my $guard = stop('permit-wait', 'wait');

	my ($out) = $session->query(submit(2));
	my @pids = wait_for_stop($node, 'permit-wait', count => 2);
	$watch->query("SELECT pg_${how}_backend($pids[-1])");
	$watch->wait_until(
		"SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $pids[-1]");
	$guard->release;
	is($session->query("SELECT peek_wait('$out')"),
		$how eq 'cancel' ? 'cancelled' : 'failed', "$case: it ends");
	$watch->settled("$case: nothing in flight");
	has_become($out,
		$how eq 'cancel' ? ('cancelled', '57014') : ('failed', '57P01'),
		"$case: it says how");
	counted_as_ended($before, "$case: counted");
	clear($case);
}


# While one worker walks the peek can be cancelled, though the other has ended

{
	my $case = 'one of two workers is at the end';
	my $before = $watch->counts;

	$keeper->query('SELECT pg_advisory_lock(5)');
	my $handle = $session->query(submit(2, filter => 'hold(k)'));
	$watch->wait_until(q{
		SELECT array_agg(wait_event ORDER BY wait_event) = '{Extension,advisory}'
		FROM pg_stat_activity WHERE backend_type = 'peekstash walk'});
	isnt($watch->query("SELECT phase FROM peekstash.peeks WHERE handle = '$handle'"),
		'finishing', "$case: the phase");
	is($watch->query("SELECT peek_cancel('$handle')"), 't', "$case: a cancel");
	is($session->query("SELECT peek_wait('$handle')"), 'cancelled',
		"$case: cancelled");
	$keeper->query('SELECT pg_advisory_unlock(5)');
	$watch->settled("$case: nothing in flight");
	$watch->counted($before, { answers_cancelled => 1 }, "$case: counted");
	clear($case);
}


# A peek is released while its workers are about to complete it

foreach my $workers (1, 2)
{
	foreach my $point ('walk-end', $workers > 1 ? 'share-commit' : (),
		'outcome-insert', 'worker-commit')
	{
		# the worker commits before the release does, or would after it
		foreach my $order ('first', 'after', 'savepoint', 'rollback')
		{
			my $case = "$point, $workers workers, released: worker $order";
			my $before = $watch->counts;
			my $guard = stop($point, 'wait');
			my $other = peek_session($node);
			my ($handle) = $session->query(submit($workers));

			wait_for_stop($node, $point);
			$other->query('BEGIN; SAVEPOINT s');
			is($other->query("SELECT peek_release('$handle')"), 't', $case);
			if ($order eq 'after')
			{
				$other->query('COMMIT');
				$watch->settled("$case: nothing in flight", $keeper->pid);
				$guard->release;
			}
			else
			{
				$guard->release;
				$watch->wait_until(q{SELECT count(*) = 0 FROM pg_stat_activity
					WHERE backend_type = 'peekstash walk'});
				$other->query($order eq 'first' ? 'COMMIT'
					: $order eq 'savepoint' ? 'ROLLBACK TO s; COMMIT'
					: 'ROLLBACK');
			}
			$watch->settled("$case: settled");
			if ($order eq 'first' || $order eq 'after')
			{
				is($watch->query('SELECT count(*) FROM peekstash.handle'),
					'0', "$case: it is gone");
			}
			else
			{
				is_whole($handle, $case);
			}
			$watch->counted($before,
				{ ($order eq 'after' ? 'answers_cancelled' : 'answers_stashed') => 1 },
				"$case: counted");
			$other->quit;
			clear($case);
		}
	}
}

# The same in the transaction that submits it, and under the handle again.
{
	my $handle = '01234567-89ab-7def-8123-456789abcdef';
	my $guard = stop('worker-commit', 'wait');

	$session->query('BEGIN');
	$session->query(submit(1, handle => $handle));
	wait_for_stop($node, 'worker-commit');
	is($session->query("SELECT peek_release('$handle')"), 't',
		'released by its submitter');
	like(($session->query("SELECT peek_wait('$handle', '0 s')"))[1],
		qr/does not exist/, 'released by its submitter: it is not there');
	$session->query('ROLLBACK');
	$watch->settled('released by its submitter, rolled back', $keeper->pid);

	$session->query('BEGIN');
	$session->query(submit(1, handle => $handle));
	wait_for_stop($node, 'worker-commit');
	$session->query("SELECT peek_release('$handle')");
	$session->query('COMMIT');
	$watch->settled('released by its submitter, committed', $keeper->pid);
	$guard->release;
	foreach my $end ('ROLLBACK', 'COMMIT')
	{
		$session->query("BEGIN; SAVEPOINT s; " . submit(1, handle => $handle)
			  . "; SELECT peek_wait('$handle'); ROLLBACK TO s");
		is($session->query(submit(2, handle => $handle, inline => 1)),
			$handle, "the handle again after a savepoint, $end");
		is_whole($handle, "the handle again after a savepoint, $end");
		$session->query($end);
		clear("the handle again after a savepoint, $end");
	}
}


# What reclaim does can fail in every way

foreach my $action ('error', 'fatal', 'cancel', 'terminate')
{
	my $case = "reclaim, $action";
	my $waits = $action !~ /error|fatal/;
	my $guard = stop('reclaim', $waits ? 'wait' : $action);

	# one of nobody's, and one that did not end by itself
	my $fatal = stop('walk-end', 'fatal');
	my ($handle) = $session->query(submit(1));
	is($session->query("SELECT peek_wait('$handle')"), 'failed',
		"$case: what a dead worker has left is known at once");
	is($session->query("SELECT sqlstate_of('SELECT peek_fetch(NULL::t, ''$handle'')')"),
		'57P01', "$case: a fetch says so");
	$fatal->release;
	$session->query('BEGIN; ' . submit(1) . " AS h \\gset\nSELECT peek_wait(:'h')");
	$session->query('ROLLBACK');

	foreach (1 .. 2)
	{
		if ($waits)
		{
			my $pid = wait_for_stop($node, 'reclaim');
			$watch->query("SELECT pg_${action}_backend($pid)");
		}
		else
		{
			my $line = $action eq 'error' ? 'threw' : 'ended the process';
			my $from = -s $node->logfile;
			ok($node->wait_for_log(qr/stop point "reclaim" $line/, $from),
				"$case: it happens, and again");
		}
	}
	is($watch->query('SELECT slots_in_use FROM peekstash.stat'),
		'2', "$case: the slots wait");
	$guard->release;
	$watch->settled("$case: settled");
	has_become($handle, 'failed', '57P01', "$case: it says how");
	clear($case);
}
cmp_ok($watch->query('SELECT reclaim_failures FROM peekstash.stat'), '>=', 2,
	'failures of reclaim are counted');


# Processes are killed: everything is new

foreach my $point ('handover-decide', 'permit-wait', 'upload-after-push',
	'share-commit', 'outcome-insert', 'worker-commit', 'reclaim')
{
	$watch->ready(submit(1));
	my $guard = stop($point, 'kill');
	my ($out, $err) = $session->query(
		$point eq 'reclaim'
		? 'BEGIN; ' . submit(1) . " AS h \\gset\nSELECT peek_wait(:'h'); ROLLBACK"
		: submit($point eq 'share-commit' ? 2 : 1));

	$watch->wait_until('SELECT pg_postmaster_start_time() IS NOT NULL
		AND NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = '
		  . $keeper->pid . ')');
	$keeper->quit;
	$keeper = peek_session($node);
	other_session();
	is($watch->query('SELECT count(*) FROM peekstash.handle'),
		'0', "SIGKILL, $point: the stash is empty");
	clear("SIGKILL, $point");
	is(join(',', values %{ $watch->counts }), '0,0,0,0,0,0',
		"SIGKILL, $point: the statistics begin anew");
}

$session->quit;
$keeper->quit;
no_leftovers($node);

my @lines = grep { /(?:WARNING|PANIC|TRAP)/ }
  grep { !/terminating connection because of crash|PID \d+ is not a/ }
  split /\n/, slurp_file($node->logfile);
is(join("\n", @lines), '', 'no warning in the log');

$node->stop;
done_testing();
