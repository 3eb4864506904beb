# 084_permits.pl
#	No more workers walk than there are permits, whatever ends them; who comes
#	first is admitted first; settings reach walks that run.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;

use PeekOffload;
use PeekTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $node = peek_start('permits', conf => q{
	max_worker_processes = 48
	peekstash.permits = 2
	peekstash.slots = 128
});

# A filter that waits holds a walk for as long as the test wants.
$node->safe_psql('postgres', q{
	CREATE TABLE t (k int PRIMARY KEY, v text NOT NULL);
	INSERT INTO t SELECT i, md5(i::text) FROM generate_series(1, 20000) i;
	VACUUM ANALYZE t;
	CREATE FUNCTION held(k int, at int) RETURNS bool LANGUAGE plpgsql STABLE PARALLEL SAFE SET lock_timeout = 0 AS '
		BEGIN
			IF k = at THEN
				PERFORM pg_advisory_lock_shared(77);
				PERFORM pg_advisory_unlock_shared(77);
			END IF;
			RETURN true;
		END';
	SELECT peek_release(peek_submit('t', key => 1));
});
my $watch = PeekOffload->new($node);
my $session = peek_session($node);
my $blocker = peek_session($node);

sub hold { $blocker->query('SELECT pg_advisory_lock(77)') }
sub let_go { $blocker->query('SELECT pg_advisory_unlock(77)') }

# A walk that waits at its first row, or at another one.
sub submit
{
	my ($from, %with) = @_;
	my $filter = "held(k, " . ($with{at} || 1) . ')';
	my $more = join ', ', '"background": true', @{ $with{options} || [] };
	my ($handle) = $from->query("SELECT peek_submit('t', "
		. "filter => '$filter', options => '{$more}')");

	return $handle;
}

sub set_permits
{
	my ($permits) = @_;

	$node->safe_psql('postgres', "ALTER SYSTEM SET peekstash.permits = $permits");
	$node->safe_psql('postgres', 'SELECT pg_reload_conf()');
}

# Waits for a number of permits in use and of walks that wait.
sub becomes
{
	my ($in_use, $waiting, $name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return ok($watch->wait_until(qq{SELECT permits_in_use = $in_use
		AND permit_queue_depth = $waiting FROM peekstash.stat}), $name)
	  || diag $watch->query('SELECT permits_in_use, permit_queue_depth FROM peekstash.stat');
}

sub states
{
	return join ' ', map {
		my ($state) = $session->query("SELECT state FROM peek_status('$_')");
		$state;
	} @_;
}

# How many walk, by what the server sees of them: they wait in the filter.
sub walking
{
	return $watch->query(q{SELECT count(*) FROM pg_locks l
		JOIN pg_stat_activity USING (pid)
		WHERE locktype = 'advisory' AND NOT granted
		AND backend_type = 'peekstash walk'});
}


# Never more than there are, first come, first served
{
	hold();
	my @handles = map { submit($session) } 1 .. 6;

	becomes(2, 4, 'two of six walk, the others wait');
	is(states(@handles), 'running running queued queued queued queued',
		'those who came first');
	is(walking(), 2, 'and nobody else does');

	# a permit comes free: by a cancellation, by the end of a worker, ...
	$session->query("SELECT peek_cancel('$handles[0]'), peek_wait('$handles[0]')");
	becomes(2, 3, 'the next one comes when one is cancelled');
	is(states(@handles), 'cancelled running running queued queued queued',
		'the first of those who wait');

	# the worker of that one is still there for a moment
	$watch->wait_until(q{SELECT count(*) = 5 FROM pg_stat_activity
		WHERE backend_type = 'peekstash walk'});
	my ($pid) = $watch->query(q{SELECT min(pid) FROM pg_stat_activity
		WHERE backend_type = 'peekstash walk' AND backend_start = (
			SELECT min(backend_start) FROM pg_stat_activity
			WHERE backend_type = 'peekstash walk')});
	$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
	becomes(2, 2, 'and when a worker is ended');
	is($session->query("SELECT peek_wait('$handles[1]')"), 'failed',
		'whose peek has failed');

	# lowered while walks run: nobody is interrupted
	set_permits(1);
	usleep(300_000);
	is(states(@handles[2 .. 5]), 'running running queued queued',
		'fewer permits interrupt no walk');
	$session->query("SELECT peek_cancel('$handles[2]'), peek_wait('$handles[2]')");
	becomes(1, 2, 'but the next one waits for both');
	is(states(@handles[3 .. 5]), 'running queued queued', 'as it does');

	# raised: those who wait are admitted at once
	set_permits(3);
	becomes(3, 0, 'more permits admit those who wait');
	set_permits(2);
	let_go();
	is($session->query("SELECT peek_wait('$_', NULL)"), 'done', 'it ends')
	  foreach @handles[3 .. 5];
	becomes(0, 0, 'and all permits are back');
	$session->query('SELECT peek_release(handle) FROM peekstash.peeks');
}

# Who submits and goes away gives the permit back, too
{
	hold();
	my @goers = map { peek_session($node) } 1 .. 4;
	foreach (@goers)
	{
		$_->query('BEGIN');
		submit($_);
	}
	becomes(2, 2, 'walks of four sessions');
	my ($pid) = $goers[0]->pid;
	$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
	becomes(2, 1, 'a submitter that is ended gives its permit to the next');
	$goers[1]->query('ROLLBACK');
	becomes(2, 0, 'so does one that rolls back');
	$goers[3]->query('ROLLBACK');
	becomes(1, 0, 'another one');
	let_go();
	$goers[2]->query('COMMIT');
	$_->disconnect foreach @goers;
	becomes(0, 0, 'none is lost');
	$watch->wait_until('SELECT slots_in_use = 0 FROM peekstash.stat');
	$session->query('SELECT peek_release(handle) FROM peekstash.peeks');
}

# Each worker of a shared walk takes one
{
	hold();
	my $handle = submit($session, options => ['"workers": 3'], at => 7);

	ok($watch->wait_until('SELECT permits_in_use BETWEEN 1 AND 2 FROM peekstash.stat'),
		'three workers with two permits');
	let_go();
	is($session->query("SELECT peek_wait('$handle', NULL)"), 'done',
		'share the walk all the same');
	$session->query("SELECT peek_release('$handle')");
}

# Not held while an upload is finished
foreach my $point ('upload-finish', 'worker-commit')
{
	my $guard = arm_stop($node, $point, 'wait');
	my ($handle) = $session->query(q{SELECT peek_submit('t',
		options => '{"background": true, "stash_threshold": 1000}')});

	wait_for_stop($node, $point);
	is($watch->query('SELECT permits_in_use FROM peekstash.stat'), 0,
		"no permit is held at $point");
	$guard->release;
	is($session->query("SELECT peek_wait('$handle', NULL)"), 'done', 'it ends');
	$session->query("SELECT peek_release('$handle')");
}

# Cancelled while they wait: no permit, no walk
{
	set_permits(1);
	hold();
	my $first = submit($session);
	becomes(1, 0, 'one walks');
	my $before = $watch->counts;
	my $waits = q{SELECT count FROM peekstash.stat_phase
		WHERE phase = 'queue' AND le = 'Infinity'};
	my $waits_before = $watch->query($waits);
	my $cancelled = 0;

	# eight of one session at a time: it has no more slots
	foreach my $round (1 .. 10)
	{
		my @handles = map { submit($session) } 1 .. 10;

		becomes(1, 10, "ten wait, round $round");
		$cancelled += $session->query("SELECT peek_cancel('$_')") eq 't'
		  foreach @handles;
		becomes(1, 0, 'and no one after they are cancelled');
	}
	is($cancelled, 100, 'a hundred cancelled');

	# a worker counts last of all
	$watch->wait_until(q{SELECT count(*) = 1 FROM pg_stat_activity
		WHERE backend_type = 'peekstash walk'});
	$watch->counted($before, { answers_cancelled => 100 },
		'they are counted as no walk');
	is($watch->query($waits), $waits_before, 'nor are their waits observed');
	let_go();
	is($session->query("SELECT peek_wait('$first', NULL)"), 'done', 'the walk ends');
	$session->query('SELECT peek_release(handle) FROM peekstash.peeks');
	set_permits(2);
}

# A changed limit is followed by a walk that runs, and by one that waits; it
# counts what was looked at before
foreach my $case ('runs', 'waits for a permit')
{
	set_permits(1);
	hold();
	my $other = $case eq 'runs' ? undef : submit($session);
	becomes(1, 0, 'another one walks') if $other;
	my $handle = $other ?
	  submit($session, at => 0, options => ['"yield_granularity": 100']) :
	  submit($session, at => 3000, options => ['"yield_granularity": 100']);

	becomes(1, $other ? 1 : 0, "a walk $case");
	$node->safe_psql('postgres', 'ALTER SYSTEM SET peekstash.row_iteration_limit = 2000');
	$node->safe_psql('postgres', 'SELECT pg_reload_conf()');
	usleep(500_000);
	$session->query("SELECT peek_cancel('$other')") if $other;
	let_go();
	is($session->query("SELECT peek_wait('$handle', NULL)"), 'failed',
		"a limit that is set while it $case is followed");
	is($session->query("SELECT sqlstate, error FROM peek_status('$handle')"),
		'53400|peek exceeded the row iteration limit of 2000', 'as it is named');
	is( $session->query("SELECT positions <= 3200 FROM peek_status('$handle')"),
		't', 'at the next look after what had been walked before');
	$node->safe_psql('postgres', 'ALTER SYSTEM RESET peekstash.row_iteration_limit');
	$node->safe_psql('postgres', 'SELECT pg_reload_conf()');

	# what the call has said stays
	hold();
	$handle = submit($session, at => 3000,
		options => [ '"yield_granularity": 100', '"row_iteration_limit": 15000' ]);
	becomes(1, 0, 'a walk with a limit of its own');
	$node->safe_psql('postgres', 'ALTER SYSTEM SET peekstash.row_iteration_limit = 20');
	$node->safe_psql('postgres', 'SELECT pg_reload_conf()');
	usleep(300_000);
	let_go();
	$session->query("SELECT peek_wait('$handle', NULL)");
	is($session->query("SELECT error FROM peek_status('$handle')"),
		'peek exceeded the row iteration limit of 15000', 'keeps it');
	$node->safe_psql('postgres', 'ALTER SYSTEM RESET peekstash.row_iteration_limit');
	$node->safe_psql('postgres', 'SELECT pg_reload_conf()');
	$session->query('SELECT peek_release(handle) FROM peekstash.peeks');
}

# Cancellation is seen at the next look, though no signal comes: the flag alone
# decides between two looks
{
	hold();
	my $handle = submit($session, at => 5000, options => ['"yield_granularity": 50']);

	becomes(1, 0, 'a walk');
	$session->query("SELECT peek_cancel('$handle')");
	let_go();
	is($session->query("SELECT peek_wait('$handle', NULL)"), 'cancelled',
		'it is cancelled');
	is( $session->query("SELECT positions <= 5050 FROM peek_status('$handle')"),
		't', 'within yield_granularity positions');
	$session->query("SELECT peek_release('$handle')");
}

# Settings that have been changed since the submitter looked last: it looks
# between two statements, so one may have begun long before.
$node->safe_psql('postgres', q{
	CREATE FUNCTION submit_late(filter text) RETURNS uuid LANGUAGE plpgsql AS '
		BEGIN
			PERFORM pg_advisory_xact_lock(78);
			RETURN peek_submit(''t'', filter => filter,
				options => ''{"background": true, "yield_granularity": 100}'');
		END';
});
{
	my $late = peek_session($node);

	set_permits(2);
	hold();
	my $first = submit($session);
	becomes(1, 0, 'one walks');
	$blocker->query('SELECT pg_advisory_lock(78)');
	$late->send(q{SELECT submit_late('held(k, 1)')});
	$watch->wait_until(q{SELECT count(*) = 1 FROM pg_locks
		WHERE locktype = 'advisory' AND objid = 78 AND NOT granted});
	set_permits(1);
	$watch->wait_until(q{SELECT current_setting('peekstash.permits') = '1'});
	$blocker->query('SELECT pg_advisory_unlock(78)');
	my ($second) = $late->result;
	becomes(1, 1, 'fewer permits than the submitter knew of');
	is(states($first, $second), 'running queued', 'the second one waits');
	let_go();
	is($session->query("SELECT peek_wait('$_', NULL)"), 'done', 'it ends')
	  foreach $first, $second;

	$blocker->query('SELECT pg_advisory_lock(78)');
	$late->send(q{SELECT submit_late('k > 0')});
	$watch->wait_until(q{SELECT count(*) = 1 FROM pg_locks
		WHERE locktype = 'advisory' AND objid = 78 AND NOT granted});
	$node->safe_psql('postgres',
		'ALTER SYSTEM SET peekstash.row_iteration_limit = 2000');
	$node->safe_psql('postgres', 'SELECT pg_reload_conf()');
	$watch->wait_until(
		q{SELECT current_setting('peekstash.row_iteration_limit') = '2000'});
	$blocker->query('SELECT pg_advisory_unlock(78)');
	($second) = $late->result;
	$session->query("SELECT peek_wait('$second', NULL)");
	is($session->query("SELECT error FROM peek_status('$second')"),
		'peek exceeded the row iteration limit of 2000',
		'a limit that the submitter did not know of');
	$node->safe_psql('postgres',
		'ALTER SYSTEM RESET peekstash.row_iteration_limit');
	$node->safe_psql('postgres', 'SELECT pg_reload_conf()');
	$late->quit;
	$session->query('SELECT peek_release(handle) FROM peekstash.peeks');
}

# yield_granularity, too, from the next look on: the function hears of the
# cancellation and tells nobody, so the walk has to look for itself.
$node->safe_psql('postgres', q{
	CREATE FUNCTION deaf(k int, at int[]) RETURNS bool
	LANGUAGE plpgsql STABLE PARALLEL SAFE SET lock_timeout = 0 AS '
		BEGIN
			IF k = ANY (at) THEN
				PERFORM pg_advisory_lock_shared(79, k);
				PERFORM pg_advisory_unlock_shared(79, k);
			END IF;
			RETURN true;
		EXCEPTION WHEN query_canceled THEN
			RETURN true;
		END';
});
foreach my $changed (0, 1)
{
	$blocker->query("SELECT pg_advisory_lock(79, $_)") foreach 100, 3105;
	$node->safe_psql('postgres',
		'ALTER SYSTEM SET peekstash.yield_granularity = 3000');
	$node->safe_psql('postgres', 'SELECT pg_reload_conf()');
	$watch->wait_until(
		q{SELECT current_setting('peekstash.yield_granularity') = '3000'});
	my ($handle) = $session->query(q{SELECT peek_submit('t',
		filter => 'deaf(k, ''{100,3105}'')', options => '{"background": true}')});
	my $waits = sub {
		return $watch->wait_until(qq{SELECT count(*) = 1 FROM pg_locks
			WHERE locktype = 'advisory' AND classid = 79 AND objid = $_[0]
			AND NOT granted});
	};

	ok($waits->(100), 'the walk has begun');
	if ($changed)
	{
		$node->safe_psql('postgres',
			'ALTER SYSTEM SET peekstash.yield_granularity = 10');
		$node->safe_psql('postgres', 'SELECT pg_reload_conf()');
		$watch->wait_until(
			q{SELECT current_setting('peekstash.yield_granularity') = '10'});
		usleep(300_000);
	}
	$blocker->query('SELECT pg_advisory_unlock(79, 100)');
	ok($waits->(3105), 'the walk goes on');
	$session->query("SELECT peek_cancel('$handle')");
	is($session->query("SELECT peek_wait('$handle', NULL)"), 'cancelled',
		'cancelled');
	is($session->query("SELECT positions FROM peek_status('$handle')"),
		$changed ? 3110 : 6000,
		$changed ? 'at the next look of a finer grain' : 'at the next look');
	$blocker->query('SELECT pg_advisory_unlock(79, 3105)');
	$session->query("SELECT peek_release('$handle')");
}
$node->safe_psql('postgres', 'ALTER SYSTEM RESET peekstash.yield_granularity');
$node->safe_psql('postgres', 'SELECT pg_reload_conf()');
$watch->settled('settings');

# The setting
foreach my $value (-1, 65537, 'NaN', '1.5e9')
{
	my ($code, $out, $err) = $node->psql('postgres',
		"ALTER SYSTEM SET peekstash.permits = '$value'");
	like($err, qr/peekstash\.permits/, "permits = $value is refused");
}
set_permits(0);
{
	my ($cores) = grep { $_ > 0 } `getconf _NPROCESSORS_ONLN`;
	chomp $cores;
	hold();
	my @handles = map { submit($session) } 1 .. $cores + 2;

	becomes($cores, 2, '0 is one for each core');
	let_go();
	$session->query("SELECT peek_wait('$_', NULL)") foreach @handles;
	$session->query('SELECT peek_release(handle) FROM peekstash.peeks');
}

$session->quit;
$blocker->quit;
$watch->settled('after all');
no_leftovers($node);
$node->stop;
done_testing();
