# A peek that stashes is made to fail at every place where it can: by an error,
# by a cancel while it waits there, and by the end of its process; outside of
# everything, in a savepoint, and in a PL/pgSQL block that catches.  Then the
# server is stopped and killed under it.  Each time nothing is left, other
# answers of the same transaction are whole, the statistics add up, and the
# session goes on.
#
# Also here because it needs settings or programs of its own: prepared
# transactions, and what pg_dump takes along.

use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin;

use PeekTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $NUM_ROWS = 2000;
my $node = peek_start('stops', conf => "work_mem = 64kB\n");

# 200 kB: larger than work_mem, so that a spool has a file
$node->safe_psql('postgres', qq{
	CREATE TABLE t (k int PRIMARY KEY, v text);
	INSERT INTO t SELECT i, lpad(i::text, 80, 'x')
	FROM generate_series(1, $NUM_ROWS) AS i;
	CREATE TABLE marks (mark text);

	CREATE FUNCTION swallow(query text) RETURNS text LANGUAGE plpgsql AS \$\$
	BEGIN
		EXECUTE query;
		RETURN 'no error';
	EXCEPTION WHEN query_canceled OR OTHERS THEN
		RETURN SQLSTATE;
	END \$\$;
});

my $OPTIONS =
  q{'{"stash_threshold": 3000, "stash_batch_size": 10000, "read_batch_size": 1}'};
my $PEEK = "peek(NULL::t, options => $OPTIONS)";
my $READ_ALL = "SELECT count(*), sum((p).k) FROM (SELECT $PEEK AS p) AS q";
my $ALL_READ = $NUM_ROWS . '|' . $NUM_ROWS * ($NUM_ROWS + 1) / 2;
my $READ_ONE = "SELECT (p).k FROM (SELECT $PEEK AS p LIMIT 1) AS q";

# Where the walk has not ended, it counts as failed or cancelled; later, its
# answer is there and counts as such.
my @points = (
	{ name => 'scan-start',         in_walk => 1 },
	{ name => 'upload-open',        in_walk => 1 },
	{ name => 'upload-before-push', in_walk => 1 },
	{ name => 'upload-after-push',  in_walk => 1 },
	{ name => 'walk-end',           in_walk => 1 },
	{ name => 'upload-finish',      in_walk => 1 },
	{ name => 'spool-push',         in_walk => 1, spooled => 1 },
	{ name => 'reader-fetch' },
	{ name => 'stash-delete' },
	{ name => 'pre-commit', at_commit => 1 });

my @counters =
  qw(walks_inline answers_memory answers_stashed answers_failed answers_cancelled);

sub counts
{
	my %counts;

	@counts{@counters} = split /\|/,
	  $node->safe_psql('postgres',
		'SELECT ' . join(', ', @counters) . ' FROM peekstash.stat');
	return \%counts;
}

# A test point: so many of each kind since the first counts were taken.
sub counted
{
	my ($before, $wanted, $test_name) = @_;
	my $after = counts();
	my %grown = map { $_ => $after->{$_} - $before->{$_} } @counters;
	my %wanted = (
		answers_memory => 0,
		answers_stashed => 0,
		answers_failed => 0,
		answers_cancelled => 0,
		%$wanted);

	$wanted{walks_inline} = $wanted{answers_memory} +
	  $wanted{answers_stashed} + $wanted{answers_failed};
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return is_deeply(\%grown, \%wanted, $test_name);
}

# Runs a query that comes to a stop point, and ends it there.  Returns what
# the session prints.
sub run_stopped
{
	my ($session, $point, $action, $query) = @_;

	return $session->query($query) if $action ne 'wait';
	$session->send($query);
	my $pid = wait_for_stop($node, $point->{name});
	$node->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");
	return $session->result;
}

my %message = (
	error => qr/ERROR:  stop point "[a-z-]+" threw/,
	wait  => qr/ERROR:  canceling statement due to user request/,
	fatal => qr/FATAL:  stop point "[a-z-]+" ended the process/);
my %caught = (error => 'XX000', wait => '57014');


# Errors and cancels

foreach my $action ('error', 'wait')
{
	foreach my $point (@points)
	{
		my $name = $point->{name} . ($action eq 'wait' ? ', cancelled' : ', error');
		my $session = peek_session($node);
		my $before = counts();
		my ($query, $guard, $out, $err);

		# An answer of the same transaction, half read before all this.
		$session->query("SET client_min_messages = error;
			BEGIN;
			INSERT INTO marks VALUES ('$name');
			DECLARE c CURSOR FOR SELECT (p).k FROM (SELECT $PEEK AS p) AS q;
			MOVE 500 FROM c;
			SAVEPOINT s");
		$session->query('SET peekstash.enable_stash = off')
		  if $point->{spooled};

		if ($point->{at_commit})
		{
			# Other early ends, one of them in a block.
			is($session->query($READ_ONE), '1', "$name: an early end");
			is($session->query("SELECT swallow(\$\$$READ_ONE\$\$)"),
				'no error', "$name: an early end in a block");
			$session->query('RELEASE s');
			$guard = arm_stop($node, $point->{name}, $action);
			($out, $err) = run_stopped($session, $point, $action, 'COMMIT');
			like($err, $message{$action}, "$name: at COMMIT");
			is($session->query("SELECT count(*) FROM marks WHERE mark = '$name'"),
				'0', "$name: the transaction is rolled back");

			($out, $err) =
			  run_stopped($session, $point, $action, $READ_ONE);
			like($err, $message{$action}, "$name: outside of a transaction");
			$guard->release;
			counted($before, { answers_stashed => 4 }, "$name: counted");
		}
		else
		{
			$guard = arm_stop($node, $point->{name}, $action);
			($out, $err) = run_stopped($session, $point, $action, $READ_ALL);
			like($err, $message{$action}, "$name: in a savepoint");
			is($out, '', "$name: no row in a savepoint");
			$session->query('ROLLBACK TO s');
			$session->query('SET peekstash.enable_stash = off')
			  if $point->{spooled};
			($out, $err) = run_stopped($session, $point, $action,
				"SELECT swallow(\$\$$READ_ALL\$\$)");
			is($out, $caught{$action}, "$name: in a block that catches");
			$guard->release;

			# The batches are those of the other answer alone, and it is whole.
			is($session->query('SELECT count(DISTINCT handle) FROM peekstash.batch'),
				'1', "$name: nothing left in the transaction");
			is($session->query("SELECT coalesce(string_agg(mode, ', '), '')
					FROM pg_locks WHERE pid = pg_backend_pid()
					  AND locktype = 'advisory'"),
				'', "$name: no lock of the stop point");
			is($session->query('MOVE FORWARD ALL FROM c; COMMIT'),
				'', "$name: the other answer");
			is($session->query("SELECT count(*) FROM marks WHERE mark = '$name'"),
				'1', "$name: the transaction commits");

			$guard = arm_stop($node, $point->{name}, $action);
			($out, $err) = run_stopped($session, $point, $action, $READ_ALL);
			like($err, $message{$action}, "$name: outside of a transaction");
			is($out, '', "$name: no row outside of a transaction");
			$guard->release;

			my $ended = !$point->{in_walk} ? 'answers_stashed'
			  : $action eq 'wait' ? 'answers_cancelled'
			  :                     'answers_failed';
			my %wanted = (answers_stashed => 1);
			$wanted{$ended} += 3;
			counted($before, \%wanted, "$name: counted");
		}

		is($session->query($READ_ALL), $ALL_READ, "$name: the session goes on");
		no_leftovers($node, 'postgres', "$name: nothing left");
		$session->quit;
	}
}

# The other answer's rows, after an error beside it.
{
	my $session = peek_session($node);
	my $guard;

	$session->query("BEGIN;
		DECLARE c CURSOR FOR SELECT (p).k FROM (SELECT $PEEK AS p) AS q;
		MOVE 500 FROM c");
	$guard = arm_stop($node, 'upload-after-push', 'error');
	is($session->query("SELECT swallow(\$\$$READ_ALL\$\$)"),
		'XX000', 'an error beside an answer');
	$guard->release;
	is( $session->query('FETCH ALL FROM c'),
		join("\n", 501 .. $NUM_ROWS), 'the answer has all of its rows');
	$session->query('COMMIT');
	$session->quit;
}


# The end of the process

foreach my $point (@points)
{
	my $name = "$point->{name}, end of the process";
	my $query = $point->{at_commit} ? $READ_ONE : $READ_ALL;
	my $guard = arm_stop($node, $point->{name}, 'fatal');
	my $before = counts();
	my @sessions;

	foreach my $text (
		$query,
		"BEGIN; INSERT INTO marks VALUES ('lost'); SAVEPOINT s; $query; "
		. 'RELEASE s; COMMIT',
		"SELECT swallow(\$\$$query\$\$)")
	{
		my $session = peek_session($node);

		$session->query('SET peekstash.enable_stash = off')
		  if $point->{spooled};
		my ($out, $err) = $session->query($text);
		like($err, $message{fatal}, $name);
		ok($session->ended, "$name: the session is over");
		push @sessions, $session;
	}
	$guard->release;
	no_leftovers($node, 'postgres', "$name: nothing left");
	$node->poll_query_until('postgres', 'SELECT count(*) = 0
		FROM pg_stat_activity WHERE pid IN ('
		  . join(', ', map { $_->pid } @sessions) . ')')
	  or die 'a process does not end';
	counted($before,
		{ ($point->{in_walk} ? 'answers_cancelled' : 'answers_stashed') => 3 },
		"$name: counted");
}
is($node->safe_psql('postgres', "SELECT count(*) FROM marks WHERE mark = 'lost'"),
	'0', 'end of the process: the transactions are rolled back');

# From outside, and by the client's leaving.
foreach my $point ('upload-after-push', 'reader-fetch', 'stash-delete')
{
	my $guard = arm_stop($node, $point, 'wait');
	my $before = counts();

	my $session = peek_session($node);
	$session->send("BEGIN; SAVEPOINT s; $READ_ALL");
	my $pid = wait_for_stop($node, $point);
	$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
	my ($out, $err) = $session->result;
	like($err, qr/FATAL:  terminating connection/, "$point: terminated");

	$session = peek_session($node);
	$session->send("BEGIN; $READ_ALL");
	$pid = wait_for_stop($node, $point);
	$session->disconnect;
	$guard->release;
	no_leftovers($node, 'postgres', "$point: terminated, disconnected, nothing left");
	$node->poll_query_until('postgres',
		"SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $pid");

	# A client that has left is noticed when it is written to: its walk ends.
	counted(
		$before,
		$point eq 'upload-after-push'
		? { answers_cancelled => 1, answers_stashed => 1 }
		: { answers_stashed => 2 },
		"$point: terminated, disconnected, counted");
}
{
	my $session = peek_session($node);

	$session->query("BEGIN; DECLARE c CURSOR FOR SELECT $PEEK; FETCH 1 FROM c");
	$session->disconnect;
	no_leftovers($node, 'postgres', 'the client leaves in the middle of reading');
}


# Transactions that have nothing in common but the stash do not conflict

{
	$node->safe_psql('postgres', q{
		CREATE TABLE a (k int PRIMARY KEY);
		CREATE TABLE b (k int PRIMARY KEY);
		INSERT INTO a SELECT generate_series(1, 100);
		INSERT INTO b SELECT generate_series(1, 100)});
	my %session = map { $_ => peek_session($node) } 'a', 'b';
	my $round = sub {
		return join ', ', map {
			my ($out, $err) = $session{$_}->query("SELECT count(*) FROM
				(SELECT peek(NULL::$_, options => '{\"stash_threshold\": 0}')) AS q");
			$err =~ /^(ERROR: .*)/m ? $1 : $out;
		} 'a', 'b';
	};

	foreach my $level ('READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE')
	{
		$session{$_}->query("BEGIN ISOLATION LEVEL $level") for 'a', 'b';
		is($round->(), '100, 100', "$level: two transactions peek");
		is($round->(), '100, 100', "$level: and again");
		my @ends = map { ($session{$_}->query('COMMIT'))[1] } 'a', 'b';
		is("@ends", ' ', "$level: both commit");
	}
	no_leftovers($node, 'postgres', 'isolation levels: nothing left');
	$_->quit foreach values %session;
}


# Prepared transactions

{
	my $session = peek_session($node);
	my ($out, $err, $guard);

	# WITH HOLD cursors cannot be prepared, others end.
	$session->query("BEGIN;
		SAVEPOINT s;
		$READ_ONE;
		RELEASE s;
		DECLARE c CURSOR FOR SELECT $PEEK;
		FETCH 1 FROM c;
		INSERT INTO marks VALUES ('prepared');
		PREPARE TRANSACTION 'peek'");
	is($session->query('SELECT gid FROM pg_prepared_xacts'),
		'peek', 'a transaction with early ends is prepared');
	is($session->query($READ_ALL), $ALL_READ, 'the session goes on');
	$session->query("COMMIT PREPARED 'peek'");
	is($session->query("SELECT count(*) FROM marks WHERE mark = 'prepared'"),
		'1', 'and committed');
	no_leftovers($node, 'postgres', 'a committed prepared transaction');

	$session->query("BEGIN; $READ_ONE; PREPARE TRANSACTION 'peek'");
	$session->query("ROLLBACK PREPARED 'peek'");
	no_leftovers($node, 'postgres', 'a prepared transaction, rolled back');

	# The failure comes while it can still be rolled back.
	foreach my $point ('pre-commit', 'stash-delete')
	{
		$session->query("BEGIN; $READ_ONE");
		$guard = arm_stop($node, $point, 'error');
		($out, $err) = $session->query("PREPARE TRANSACTION 'peek'");
		like($err, $message{error}, "$point: at PREPARE TRANSACTION");
		$guard->release;
		is($session->query('SELECT count(*) FROM pg_prepared_xacts'),
			'0', "$point: nothing is prepared");
		no_leftovers($node, 'postgres', "$point: at PREPARE TRANSACTION, nothing left");
	}
	$session->quit;
}


# A stop of the server, and a crash

# Sessions that have stashed, that do, and that have a spool file.
sub busy_sessions
{
	my @sessions = map { peek_session($node) } 1 .. 4;

	$sessions[0]->query(
		"BEGIN; $READ_ONE; DECLARE c CURSOR FOR SELECT $PEEK; MOVE 500 FROM c");
	$sessions[1]->query(
		"BEGIN READ ONLY; DECLARE c CURSOR FOR SELECT $PEEK; MOVE 500 FROM c");
	$sessions[2]->query(
		"BEGIN; $READ_ONE; INSERT INTO marks VALUES ('survives'); "
		  . "PREPARE TRANSACTION 'peek'");
	cmp_ok($node->safe_psql('postgres', 'SELECT count(*) FROM pg_ls_tmpdir()'),
		'>', 0, 'there is a temporary file');
	cmp_ok($node->safe_psql('postgres', "SELECT pg_table_size('peekstash.batch')"),
		'>', 100 * 1024, 'there is something in the stash');
	return @sessions;
}

sub as_new
{
	my ($what) = @_;

	is($node->safe_psql('postgres', "COMMIT PREPARED 'peek';
			SELECT count(*) FROM marks WHERE mark = 'survives';
			DELETE FROM marks"),
		'1', "$what: a prepared transaction survives");
	no_leftovers($node, 'postgres', "$what: nothing left");
	is($node->safe_psql('postgres', "SELECT count(*) FROM pg_ls_tmpdir()"),
		'0', "$what: no temporary file");
	is($node->safe_psql('postgres', "SELECT pg_table_size('peekstash.batch') <= 16384"),
		't', "$what: the stash is empty");
	is($node->safe_psql('postgres', $READ_ALL), $ALL_READ, "$what: peeks work");
	counted({ map { $_ => 0 } @counters },
		{ answers_stashed => 1 }, "$what: the statistics begin anew");
	return;
}

{
	my @sessions = busy_sessions();
	my $guard = arm_stop($node, 'upload-after-push', 'wait');

	$sessions[3]->send($READ_ALL);
	wait_for_stop($node, 'upload-after-push');
	$node->stop('immediate');
	$node->start;
	as_new('an immediate stop');
}

{
	my @sessions = busy_sessions();
	my $guard = arm_stop($node, 'upload-after-push', 'kill');

	my ($out, $err) = $sessions[3]->query($READ_ALL);
	ok($sessions[3]->ended, 'SIGKILL: the session is over');

	# until the postmaster has noticed, old sessions answer
	$node->poll_query_until('postgres',
		'SELECT pg_postmaster_start_time() IS NOT NULL AND NOT EXISTS
			(SELECT FROM pg_stat_activity WHERE pid IN ('
		  . join(', ', map { $_->pid } @sessions) . '))')
	  or die 'the server does not come back';
	as_new('SIGKILL');
	like(
		slurp_file($node->logfile),
		qr/was terminated by signal 9/,
		'SIGKILL: there was one');
}


# A dump has the extension, and nothing of what it holds

{
	# Answers of direct peeks are never committed, so a row is made up.
	$node->safe_psql('postgres', q{
		INSERT INTO peekstash.batch
		VALUES (gen_random_uuid(), 0, 0, 1, 16, '\xdeadbeefdeadbeef')});
	my $dump = $node->basedir . '/dump.sql';
	$node->command_ok([ 'pg_dump', '-f', $dump, '-d', $node->connstr('postgres') ],
		'pg_dump');
	my $text = slurp_file($dump);
	unlike($text, qr/deadbeef/, 'a dump holds no payload');
	unlike($text, qr/peekstash\.batch/, 'a dump does not mention the stash');
	like($text, qr/^CREATE EXTENSION .*peekstash/m, 'a dump has the extension');

	$node->safe_psql('postgres', 'CREATE DATABASE copy');
	$node->command_ok(
		[ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-o', '/dev/null',
			'-f', $dump, '-d', $node->connstr('copy') ],
		'a dump can be restored');
	is($node->safe_psql('copy', $READ_ALL), $ALL_READ, 'peeks work there');
	no_leftovers($node, 'copy', 'the stash is empty there');
	$node->safe_psql('postgres', 'DELETE FROM peekstash.batch');
}

$node->stop;
done_testing();
