# What workers have committed for a submitter that then aborts, or have not
# written because they died, is settled by reclaim, in bounded time: when it
# fails again and again, when there is no worker for it, when the stash, the
# database, the launcher or the server is gone meanwhile.  Until then it holds
# slots, so there is never more of it than slots; without a free one submits
# stay inline.  And a thousand launches leave nothing.

use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin;

use PeekOffload;
use PeekTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

my $SLOTS = 4;
my $LAUNCHES = 1000;
my $NUM_ROWS = 2000;

# Two of the worker processes are the launcher and the server's own.
my $node = peek_start('reclaim', conf => qq{
	max_worker_processes = 5
	peekstash.slots = $SLOTS
	peekstash.permits = 4
	dynamic_shared_memory_type = mmap
	max_parallel_workers_per_gather = 0
});

my $setup = qq{
	CREATE TABLE t (k int PRIMARY KEY, v text);
	INSERT INTO t SELECT i, lpad(i::text, 80, 'x')
	FROM generate_series(1, $NUM_ROWS) AS i;

	CREATE FUNCTION sqlstate_of(query text) RETURNS text
	LANGUAGE plpgsql AS \$\$
	BEGIN
		EXECUTE query;
		RETURN 'no error';
	EXCEPTION WHEN OTHERS THEN
		RETURN SQLSTATE;
	END \$\$;

	-- Submits, waits for the end of the walk and releases, until so many
	-- workers have been started.  One that has ended leaves its place some
	-- time later, so a walk may stay inline.
	CREATE PROCEDURE launch(times int) LANGUAGE plpgsql AS \$\$
	DECLARE
		h uuid;
		launched int := 0;
	BEGIN
		WHILE launched < times LOOP
			h := peek_submit('t_pkey', options => '{
				"enable_offload": true, "inline_budget": 10,
				"stash_threshold": 50000}');
			COMMIT;
			IF peek_wait(h) <> 'done' THEN
				RAISE 'peek % is %', h, peek_wait(h);
			END IF;
			SELECT launched + workers INTO STRICT launched
			FROM peekstash.peeks WHERE handle = h;
			IF NOT peek_release(h) THEN
				RAISE 'peek % is not there', h;
			END IF;
			COMMIT;
		END LOOP;
	END \$\$};
$node->safe_psql('postgres', $setup);

my $watch = PeekOffload->new($node);
my $session = peek_session($node);

sub submit
{
	my ($options) = @_;

	$options = '"background": true' unless defined $options;
	return "SELECT peek_submit('t_pkey', options => "
	  . qq('{"stash_threshold": 3000, "stash_batch_size": 10000, $options}') . ')';
}

sub all_of
{
	my ($handle) = @_;

	return $session->query(
		"SELECT count(*) FROM peek_fetch(NULL::t, '$handle')");
}

# In a transaction that is open then: workers have committed all.
sub submit_and_wait
{
	my ($in) = @_;
	my $handle = $in->query('BEGIN; ' . submit());

	$in->query("SELECT peek_wait('$handle')") eq 'done'
	  or die 'a worker does not complete the peek';
	return $handle;
}

sub slots_in_use
{
	return $watch->query('SELECT slots_in_use FROM peekstash.stat');
}

sub is_empty
{
	my ($test_name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return is($watch->query('SELECT (SELECT count(*) FROM peekstash.batch),
			(SELECT count(*) FROM peekstash.outcome),
			(SELECT count(*) FROM peekstash.handle), stash_bytes
			FROM peekstash.stat'),
		'0|0|0|0', $test_name);
}

# A test point: submits work, in the background.
sub works
{
	my ($test_name) = @_;
	my $handle;

	$watch->ready(submit());
	$handle = $session->query(submit());
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is($session->query("SELECT peek_wait('$handle')"), 'done',
		"$test_name: a submit works");
	$session->query("SELECT peek_release('$handle')");
	$watch->settled("$test_name: and is settled");
	return;
}

# Sessions end with the server, or by a test.
sub other_session
{
	$session->quit;
	$session = peek_session($node);
	return;
}

# the first in a new stash looks for orphans, and not in a savepoint
works('to begin with');


# The submitter aborts

foreach my $end ('ROLLBACK', 'an error', 'terminate', 'disconnect', 'savepoint')
{
	my $before =
	  $watch->query('SELECT reclaimed_batches FROM peekstash.stat');
	my $start = time;

	$session->query('BEGIN; SAVEPOINT s');
	my $handle = $session->query(submit());
	is($session->query("SELECT peek_wait('$handle')"), 'done',
		"$end: workers have committed");
	cmp_ok($watch->query('SELECT count(*) FROM peekstash.batch'),
		'>', 10, "$end: there are rows");
	if ($end eq 'terminate')
	{
		$watch->query('SELECT pg_terminate_backend(' . $session->pid . ')');
	}
	elsif ($end eq 'disconnect')
	{
		$session->disconnect;
	}
	else
	{
		my ($out, $err) = $session->query({
				ROLLBACK => 'ROLLBACK',
				'an error' => 'SELECT 1 / 0; COMMIT',
				savepoint => 'ROLLBACK TO s' }->{$end});
	}
	$watch->settled("$end: settled");
	is_empty("$end: nothing left");
	cmp_ok($watch->query('SELECT reclaimed_batches FROM peekstash.stat'),
		'>', $before + 10, "$end: reclaimed batches are counted");
	other_session();
}


# Reclaim fails, and what waits for it is bounded by the slots

{
	my $guard = arm_stop($node, 'reclaim', 'error');
	my $failures = 'SELECT reclaim_failures FROM peekstash.stat';

	foreach my $number (1 .. $SLOTS)
	{
		submit_and_wait($session);
		$session->query('ROLLBACK');
		is(slots_in_use(), $number, "reclaim fails: $number slots are held");
	}
	my ($out, $err) = $session->query("\\set VERBOSITY verbose\n" . submit());
	like($err, qr/ERROR:  55000: cannot walk in the background\nDETAIL:  No slot/,
		'slots are held: in the background or not at all');
	my ($handle) = $session->query(
		submit('"enable_offload": true, "inline_budget": 10'));
	is($session->query("SELECT driver, inline_reason FROM peekstash.peeks
			WHERE handle = '$handle'"),
		'inline|slot', 'slots are held: a submit stays inline, and says why');
	is(all_of($handle), $NUM_ROWS, 'slots are held: its answer');
	is($session->query("SELECT peek_release('$handle')"),
		't', 'slots are held: its release');

	my $count = $watch->query($failures);
	ok($watch->wait_until("SELECT ($failures) > $count + 2 * $SLOTS"),
		'reclaim fails: it is tried again, and counted');
	is(slots_in_use(), $SLOTS, 'reclaim fails: the slots are held');
	ok($node->log_contains(qr/ERROR:  stop point "reclaim" threw/),
		'reclaim fails: it is logged');
	is(all_of($session->query(submit('"enable_stash": true'))),
		$NUM_ROWS, 'reclaim fails: peeks work');
	$session->query('SELECT peek_release(handle) FROM peekstash.handle');

	# the launcher goes meanwhile, and comes back
	my $launcher = q{SELECT pid FROM pg_stat_activity
		WHERE backend_type = 'peekstash launcher'};
	my $pid = $watch->query($launcher);
	$watch->query("SELECT pg_terminate_backend($pid)");
	ok($watch->wait_until("SELECT NOT $pid = ANY (ARRAY($launcher))"),
		'the launcher is ended');
	$guard->release;
	ok($watch->wait_until("SELECT count(*) = 1 FROM ($launcher) AS q"),
		'the launcher comes back');
	$watch->settled('the launcher was ended: settled');
	is_empty('reclaim fails: nothing left in the end');
	works('reclaim has failed');
}


# There is no worker for it

{
	my $handle = submit_and_wait($session);
	my $guard = arm_stop($node, 'permit-wait', 'wait');
	my @others = map { peek_session($node) } 1 .. 3;
	my @held = map { ($_->query(submit()))[0] } @others;
	my ($out, $err);

	wait_for_stop($node, 'permit-wait', count => 3);
	$session->query('ROLLBACK');
	usleep(1_500_000);
	is(slots_in_use(), 4, 'no worker process: the slot is held');
	is($watch->query('SELECT count(*) > 0 FROM peekstash.batch'),
		't', 'no worker process: the rows wait');
	$guard->release;
	is($session->query("SELECT peek_wait('$_')"), 'done',
		'no worker process: others go on')
	  foreach @held;
	$watch->settled('no worker process: settled when there is one again');
	is($session->query("SELECT peek_release('$_')"), 't',
		'no worker process: others are released')
	  foreach @held;
	is_empty('no worker process: nothing left');

	# nor for a submit
	$guard = arm_stop($node, 'permit-wait', 'wait');
	@held = map { ($_->query(submit()))[0] } @others;
	wait_for_stop($node, 'permit-wait', count => 3);
	($out, $err) = $session->query("\\set VERBOSITY verbose\n" . submit());
	like($err,
		qr/ERROR:  55000: cannot walk in the background\nDETAIL:  No background worker/,
		'no worker process: in the background or not at all');
	($handle) = $session->query(
		submit('"enable_offload": true, "inline_budget": 10'));
	is($session->query("SELECT driver, inline_reason FROM peekstash.peeks
			WHERE handle = '$handle'"),
		'inline|worker_slot', 'no worker process: a submit stays inline');
	$guard->release;
	$watch->settled('no worker process: settled');
	$session->query('SELECT peek_release(handle) FROM peekstash.handle');
	is_empty('no worker process: nothing left of submits');
	$_->quit foreach @others;
}


# A worker dies after its submitter has committed

foreach my $how ('terminate', 'fatal')
{
	my $guard = arm_stop($node, 'walk-end', $how eq 'fatal' ? $how : 'wait');
	my $reclaim = arm_stop($node, 'reclaim', 'wait');
	my $handle = $session->query(submit());
	my $fetch = "SELECT sqlstate_of('SELECT peek_fetch(NULL::t, ''$handle'')')";

	$watch->query('SELECT pg_terminate_backend('
		  . wait_for_stop($node, 'walk-end') . ')')
	  if $how eq 'terminate';
	is($session->query("SELECT peek_wait('$handle')"), 'failed',
		"a dead worker, $how: known before anybody has written it");
	is($session->query($fetch), '57P01',
		"a dead worker, $how: a fetch says so");
	wait_for_stop($node, 'reclaim');
	$guard->release;
	$reclaim->release;
	$watch->settled("a dead worker, $how: settled");
	is( $session->query("SELECT state, sqlstate, num_rows, batches, stored_bytes
			FROM peekstash.peeks WHERE handle = '$handle'"),
		'failed|57P01|0|0|0', "a dead worker, $how: its outcome is written");
	is($session->query("SELECT peek_wait('$handle')"), 'failed',
		"a dead worker, $how: a wait");
	is($session->query($fetch), '57P01', "a dead worker, $how: a fetch");
	is($session->query("SELECT peek_release('$handle')"), 't',
		"a dead worker, $how: a release");
	is_empty("a dead worker, $how: nothing left");
}

# ... and it is released before that is written, or while it is.
foreach my $when ('before', 'while')
{
	my $guard = arm_stop($node, 'walk-end', 'fatal');
	my $reclaim = arm_stop($node, 'reclaim', 'wait');
	my $handle = $session->query(submit());

	is($session->query("SELECT peek_wait('$handle')"), 'failed',
		"released $when its failure is written: it failed");
	wait_for_stop($node, 'reclaim');
	$session->query('BEGIN') if $when eq 'while';
	is($session->query("SELECT peek_release('$handle')"), 't',
		"released $when its failure is written");
	$reclaim->release;
	$guard->release;
	if ($when eq 'while')
	{
		usleep(1_500_000);
		$session->query('COMMIT');
	}
	$watch->settled("released $when its failure is written: settled");
	is_empty("released $when its failure is written: nothing left");
}


# The stash is gone

{
	my $guard = arm_stop($node, 'reclaim', 'wait');

	submit_and_wait($session);
	$session->query('ROLLBACK');
	wait_for_stop($node, 'reclaim');
	$watch->query('DROP EXTENSION peekstash');
	$guard->release;
	usleep(500_000);
	$watch->query('CREATE EXTENSION peekstash');
	$watch->settled('the stash is gone: settled');
	is_empty('the stash is gone: nothing left');
	works('the stash is gone, and made again');
}


# A sweep of orphans is taken back, and what looks like an orphan is not one

{
	$watch->query('DROP EXTENSION peekstash; CREATE EXTENSION peekstash');
	my $guard = arm_stop($node, 'reclaim', 'wait');
	my $other = peek_session($node);

	# the first in a new stash sweeps
	submit_and_wait($session);
	$session->query('ROLLBACK');
	wait_for_stop($node, 'reclaim');
	is($other->query('SELECT peek_sweep()'), '0', 'the next sweep finds none');
	my ($handle) = $other->query(submit('"stash_compression": "none"'));
	is(all_of($handle), $NUM_ROWS, 'the next submit');
	$guard->release;
	$watch->settled('a sweep taken back: settled');
	$session->query("SELECT peek_release('$handle')");
	is_empty('a sweep taken back: nothing left, nothing counted');
	$other->quit;
	works('a sweep taken back');
}


# The database is gone

{
	$node->safe_psql('postgres', 'CREATE DATABASE other');
	$node->safe_psql('other', "CREATE EXTENSION peekstash; $setup");
	my $guard = arm_stop($node, 'reclaim', 'error', dbname => 'other');
	my $other = peek_session($node, dbname => 'other');

	submit_and_wait($other);
	is(slots_in_use(), 1, 'another database: it is in flight');
	$other->query('ROLLBACK');
	ok($watch->wait_until('SELECT count(*) = 0 FROM pg_stat_activity
			WHERE backend_type = \'peekstash walk\''),
		'another database: the worker is gone');
	is(slots_in_use(), 1, 'another database: the slot is held');
	$watch->query('ALTER DATABASE other ALLOW_CONNECTIONS false');
	$other->quit;
	$guard->release;
	usleep(1_500_000);
	is(slots_in_use(), 1, 'a database that lets nobody in: the slot waits');
	$watch->query('DROP DATABASE other WITH (FORCE)');
	$watch->settled('a dropped database: the slot is free');
}


# The server is stopped: what workers have committed survives, and is swept

foreach my $mode ('fast', 'immediate')
{
	my $kept = $session->query(submit());
	$session->query("SELECT peek_wait('$kept')");
	my $handle = submit_and_wait($session);
	my $bytes = "SELECT pg_relation_size(reltoastrelid) FROM pg_class
		WHERE oid = 'peekstash.batch'::regclass";

	cmp_ok($watch->query($bytes), '>', 100_000, "$mode stop: there are rows");
	$node->stop($mode);
	$node->start;
	other_session();
	is($watch->query("SELECT ($bytes) > 100000"),
		$mode eq 'fast' ? 't' : 'f', "$mode stop: whether rows survive");
	my ($new) = $session->query(submit('"stash_threshold": 1000'));
	is($watch->query("SELECT count(*) FROM peekstash.batch b
			WHERE NOT EXISTS (SELECT FROM peekstash.handle h
				WHERE h.handle = b.handle)"),
		'0', "$mode stop: swept before the first new answer");
	is($watch->query("SELECT count(*) FROM peekstash.peeks WHERE handle = '$kept'"),
		$mode eq 'fast' ? '1' : '0', "$mode stop: whether answers survive");
	like(($session->query("SELECT peek_fetch(NULL::t, '$handle')"))[1],
		qr/does not exist/, "$mode stop: what was not committed is unknown");
	$watch->settled("$mode stop: settled");
	$session->query('SELECT peek_release(handle) FROM peekstash.handle');
	is_empty("$mode stop: nothing left");
	works("$mode stop");
}

# One that had committed, and whose worker had not, is not waited for.
foreach my $mode ('fast', 'immediate')
{
	my $guard = arm_stop($node, 'worker-commit', 'wait');
	my $handle = $session->query(submit());

	wait_for_stop($node, 'worker-commit');
	$node->stop($mode);
	$node->start;
	$guard->release;
	other_session();
	like(($session->query("SELECT peek_wait('$handle')"))[1],
		qr/does not exist/, "$mode stop of a walk: it is unknown");
	works("$mode stop of a walk");
	is_empty("$mode stop of a walk: nothing left");
}


# A thousand launches

$node->append_conf('postgresql.conf',
	"max_worker_processes = 8\npeekstash.slots = 8\npeekstash.permits = 8");
$node->restart;
other_session();
works('more processes');

{
	my $memory = q{SELECT size FROM pg_shmem_allocations WHERE name IS NULL};
	my @sessions = ($session, peek_session($node));

	$_->query('CALL launch(10)') foreach @sessions;
	$watch->settled('before many launches');
	my $segments = $watch->segments;
	my $free = $watch->query($memory);
	my $start = time;

	$_->send('CALL launch(' . $LAUNCHES / 2 . ')') foreach @sessions;
	foreach (@sessions)
	{
		my ($out, $err) = $_->result;
		is($err, '', 'many launches');
	}
	diag sprintf '%d launches in %.0f seconds', $LAUNCHES, time - $start;
	$watch->settled('many launches: settled');
	is($watch->segments, $segments,
		'many launches: no segment of shared memory is left');
	is($watch->query($memory), $free, 'many launches: no shared memory is gone');
	is_empty('many launches: nothing left');

	# all worker processes are there for whoever wants them
	my $guard = arm_stop($node, 'permit-wait', 'wait');
	my @others = map { peek_session($node) } 1 .. 6;
	my @held = map { ($_->query(submit()))[0] } @others;
	wait_for_stop($node, 'permit-wait', count => 6);
	$guard->release;
	is($session->query("SELECT peek_wait('$_')"), 'done',
		'many launches: all worker processes are there')
	  foreach @held;
	$watch->settled('after many launches');
	$_->quit foreach @others;
}

my @lines = grep { /(?:WARNING|PANIC|TRAP|terminated by signal)/ }
  grep { !/terminating connection because of crash/ }
  split /\n/, slurp_file($node->logfile);
is(join("\n", @lines), '', 'no warning in the log');

$session->quit;
$node->stop;
done_testing();
