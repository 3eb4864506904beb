# A peek inside transactions of every kind, and what cuts it off.
#
# A peek is a read: it assigns no transaction id, needs no SPI, works where
# nothing may be written, and fits into whatever surrounds it.  If it is cut
# off, it is seen in time, counted once and at its right place, and nothing is
# left.
#
# Transactions are READ ONLY where an answer shall go to the spool, the
# temporary file of answers that may not be stashed.

use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin;

use PeekTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

my $node = peek_start('transactions', streaming => 1, conf => qq{
	wal_level = replica
	max_standby_streaming_delay = -1
	work_mem = 64kB
	client_connection_check_interval = 100ms
});
$node->safe_psql('postgres', q{
	CREATE TABLE t (k int PRIMARY KEY, v text);
	INSERT INTO t SELECT i, 'value ' || i FROM generate_series(1, 100000) AS i;
	VACUUM ANALYZE t;

	-- Cancels its own backend, or another one, without a look at interrupts
	-- on the way, as PL/pgSQL and SQL would take.  The label is a lie that
	-- lets it into a filter.
	CREATE FUNCTION quiet_cancel(int) RETURNS boolean
		LANGUAGE internal STABLE STRICT AS 'pg_cancel_backend';
	CREATE FUNCTION raise_at(k int, place int, code text) RETURNS boolean
	LANGUAGE plpgsql STABLE AS $$
	BEGIN
		IF k = place THEN
			RAISE EXCEPTION 'raised at %', k USING ERRCODE = code;
		END IF;
		RETURN true;
	END $$;
});

my $OUT = q{"stash_threshold": 0, "stash_batch_size": 1000};    # of memory

# Work that does not look for interrupts by itself, about 10 seconds of it.
my $LONG = q{peek(NULL::t, filter => 'length(md5(repeat(v, 3000))) = 32')};

sub stats
{
	my ($where) = @_;
	my %stat;

	@stat{qw(inline memory stashed failed cancelled positions rows bytes)} = split /\|/,
	  ($where || $node)->safe_psql('postgres', q{
		SELECT walks_inline, answers_memory, answers_stashed, answers_failed,
			   answers_cancelled, positions, rows, answer_bytes
		FROM peekstash.stat});
	return \%stat;
}

my %nothing = map { $_ => 0 } qw(inline memory stashed failed cancelled);

# What has been counted since.
sub counted
{
	my ($before, $where) = @_;
	my $now = stats($where);

	return join ' ', map { "$_=" . ($now->{$_} - $before->{$_}) }
	  grep { $now->{$_} != $before->{$_} } qw(inline memory stashed failed cancelled);
}

# Waits until the process computes in a query.
sub wait_active
{
	my ($pid) = @_;

	$node->poll_query_until('postgres', qq{
		SELECT state = 'active' AND wait_event IS NULL AND query ~ 'peek'
		FROM pg_stat_activity WHERE pid = $pid})
	  or die "process $pid does not run";
	usleep(100_000);
	return;
}


# Nothing is written

{
	my $session = peek_session($node);
	my $xid = 'SELECT pg_current_xact_id_if_assigned() IS NULL';

	foreach my $level ('READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE',
		'READ COMMITTED READ ONLY', 'SERIALIZABLE READ ONLY DEFERRABLE')
	{
		$session->query("BEGIN ISOLATION LEVEL $level");
		is($session->query('SELECT count(*), sum(k) FROM peek(NULL::t, upper => 1000)'),
			'1000|500500', "$level: an answer from memory");
		is($session->query($xid), 't', "$level: it assigns no transaction id");
		if ($level =~ /READ ONLY/)
		{
			is( $session->query(
					"SELECT count(*), sum(k) FROM peek(NULL::t, upper => 20000, options => '{$OUT}')"),
				'20000|200010000', "$level: an answer from the spool");
			is($session->query($xid), 't', "$level: no transaction id either");
		}
		$session->query('COMMIT');
	}

	# ... where no transaction block was begun, and the next one.
	my $next = $node->safe_psql('postgres',
		'SELECT pg_snapshot_xmax(pg_current_snapshot())');
	$session->query('SELECT count(*) FROM peek(NULL::t, upper => 1000)') for 1 .. 5;
	is($node->safe_psql('postgres',
			'SELECT pg_snapshot_xmax(pg_current_snapshot())'),
		$next, 'five peeks use up no transaction id');
	$session->quit;
}


# No SPI: seen at each stop point from the memory contexts of the process

{
	my $session = peek_session($node);
	my $pid = $session->pid;

	$session->query('SET default_transaction_read_only = on');
	my $spi = q{SELECT count(*) FROM pg_backend_memory_contexts
				WHERE name ~ '^(SPI|CachedPlan)'};
	foreach my $case (
		[ 'scan-start', '{}' ],
		[ 'walk-end',   '{}' ],
		[ 'spool-push', "{$OUT}" ],
		[ 'walk-end',   "{$OUT}" ],
		[ 'walk-end', '{}', 'called from PL/pgSQL' ])
	{
		my ($point, $options, $plpgsql) = @$case;
		my $guard = arm_stop($node, $point, 'wait');
		my $offset = -s $node->logfile;
		my $query = "SELECT count(*) FROM "
		  . "(SELECT peek(NULL::t, upper => 5000, options => '$options')) AS q";

		$session->send($plpgsql ?
			  "DO \$\$ BEGIN PERFORM ($query); END \$\$; SELECT 5000" : $query);
		is(wait_for_stop($node, $point), $pid, "a peek comes to $point");
		$node->safe_psql('postgres', "SELECT pg_log_backend_memory_contexts($pid)");
		$node->wait_for_log(qr/\[$pid\] .*Grand total/, $offset);
		my $log = slurp_file($node->logfile, $offset);
		like($log, qr/\[$pid\] .*LOG: +level: \d+; ExecutorState/,
			"$point: the log shows the memory contexts");
		if ($plpgsql)
		{
			like($log, qr/\[$pid\] .*level: \d+; SPI/, "SPI is seen where it is");
		}
		else
		{
			unlike($log, qr/\[$pid\] .*level: \d+; (SPI|CachedPlan)/,
				"$point, $options: none of them is SPI's");
		}
		$guard->release;
		my ($out, $err) = $session->result;
		is($out, '5000', "$point: released, the peek goes on");
		is($session->query($spi), '0', "$point, $options: no plan is kept afterwards")
		  unless $plpgsql;
	}
	$session->quit;
}


# Surroundings

{
	my $session = peek_session($node);

	$session->query(q{
		CREATE FUNCTION in_sql(int) RETURNS SETOF t LANGUAGE sql VOLATILE
			AS 'SELECT * FROM peek(NULL::t, upper => $1)';
		CREATE FUNCTION in_sql_stable(int) RETURNS bigint LANGUAGE sql STABLE
			AS 'SELECT count(*) FROM peek(NULL::t, upper => $1)';
		CREATE FUNCTION in_plpgsql(int) RETURNS SETOF t LANGUAGE plpgsql AS $$
		DECLARE
			r t;
		BEGIN
			FOR r IN SELECT * FROM peek(NULL::t, upper => $1) LOOP
				RETURN NEXT r;
			END LOOP;
			RETURN QUERY SELECT * FROM peek(NULL::t, key => $1);
		END $$;
		CREATE FUNCTION in_definer(int) RETURNS bigint LANGUAGE sql
			SECURITY DEFINER SET search_path = public
			SET peekstash.row_iteration_limit = 5
			AS 'SELECT count(*) FROM peek(NULL::t, upper => $1)';
		CREATE PROCEDURE in_procedure(INOUT n bigint) LANGUAGE plpgsql AS $$
		DECLARE
			r record;
		BEGIN
			n := 0;
			-- the loop's cursor is held over the commits
			FOR r IN SELECT peek(NULL::t, upper => 10) AS p LOOP
				n := n + (r.p).k;
				COMMIT;
			END LOOP;
			ROLLBACK;
			n := n + (SELECT count(*) FROM peek(NULL::t, upper => 100));
		END $$});
	is($session->query('SELECT count(*) FROM in_sql(70)'), '70',
		'inside an SQL function');
	is($session->query('SELECT in_sql_stable(70)'), '70',
		'inside a stable SQL function');
	is($session->query('SELECT count(*), sum(k) FROM in_plpgsql(70)'), '71|2555',
		'inside PL/pgSQL, as a loop and as RETURN QUERY');
	is($session->query('SELECT in_definer(5)'), '5',
		'inside a SECURITY DEFINER function with settings of its own');
	my ($out, $err) = $session->query('SELECT in_definer(6)');
	like($err, qr/row iteration limit of 5/, 'and those settings hold there');
	is($session->query('SELECT count(*) FROM peek(NULL::t, upper => 6)'), '6',
		'but not after it');
	is($session->query('CALL in_procedure(NULL)'), '155',
		'inside a procedure that commits');

	$session->query('BEGIN');
	$session->query('SET LOCAL peekstash.row_iteration_limit = 9');
	is($session->query('SELECT count(*) FROM peek(NULL::t, upper => 9)'), '9',
		'SET LOCAL holds for the peeks after it');
	$session->query('SAVEPOINT s');
	($out, $err) = $session->query('SELECT count(*) FROM peek(NULL::t, upper => 10)');
	like($err, qr/row iteration limit of 9/, 'and is a limit there');
	$session->query('ROLLBACK TO s');
	$session->query('SET LOCAL peekstash.row_iteration_limit = 0');
	is($session->query('SELECT count(*) FROM peek(NULL::t, upper => 10)'), '10',
		'until it is set again');
	$session->query('ROLLBACK');

	$session->query('SET peekstash.yield_granularity = 1');
	$session->query('BEGIN');
	$session->query('SET peekstash.row_iteration_limit = 9');
	$session->query('ROLLBACK');
	is($session->query('SELECT count(*) FROM peek(NULL::t, upper => 10)'), '10',
		'a setting that was rolled back does not hold');

	# a peek is a query: the transaction's snapshot is taken
	$session->query('BEGIN');
	$session->query('SELECT count(*) FROM peek(NULL::t, upper => 10)');
	($out, $err) = $session->query('SET TRANSACTION ISOLATION LEVEL SERIALIZABLE');
	like($err, qr/must be called before any query/,
		'a peek counts as the first query of its transaction');
	$session->query('ROLLBACK');

	# its own transaction's changes, command by command
	is( $session->query(q{
			BEGIN;
			DELETE FROM t WHERE k <= 5;
			INSERT INTO t VALUES (0, 'own');
			WITH w AS (INSERT INTO t VALUES (-1, 'same command') RETURNING k)
			SELECT (SELECT count(*) FROM w), count(*), min(k)
			FROM peek(NULL::t, upper => 10);
			SELECT count(*), min(k) FROM peek(NULL::t, upper => 10);
			ROLLBACK}),
		"1|6|0\n7|-1",
		'a peek sees what earlier commands of its transaction did, and no more');

	# two peeks of one statement, woven into each other
	is( $session->query(q{
			SELECT count(*), count(DISTINCT b) FROM (
				SELECT peek(NULL::t, upper => 30) AS a,
					   peek(NULL::t, upper => 30, backward => true,
							options => '{"stash_threshold": 0}') AS b) AS q
			WHERE (a).k + (b).k = 31}),
		'30|30', 'two peeks in one select list step side by side');
	is( $session->query(q{
			SELECT count(*) FROM peek(NULL::t, upper => 20) AS a,
				LATERAL peek(NULL::t, upper => a.k) AS b}),
		'210', 'a peek for each row of a peek');
	$session->quit;
}

# Prepared transactions: nothing of a peek stands in the way.
is( $node->safe_psql('postgres', q{
		BEGIN;
		INSERT INTO t VALUES (0, 'prepared');
		SELECT count(*) FROM peek(NULL::t, upper => 10);
		PREPARE TRANSACTION 'p';
		ROLLBACK PREPARED 'p';
		SELECT count(*) FROM peek(NULL::t, upper => 10)}),
	"11\n10", 'a transaction with a peek can be prepared');


# Settings, and options that do not exist

{
	my ($ret, $out, $err) =
	  $node->psql('postgres', 'SET peekstash.nonsense = 1');
	like($err, qr/invalid configuration parameter name "peekstash.nonsense"/,
		'an unknown setting is an error');
	($ret, $out, $err) = $node->psql('postgres',
		q{\set VERBOSITY sqlstate
		  SELECT peek(NULL::t, options => '{"nonsense": 1}')});
	like($err, qr/22023/, 'so is an unknown option');
}


# Errors of the walk, on each path

my %path = (
	'from memory'      => q{options => '{}'},
	'out of memory'    => qq{options => '{$OUT}'},
	'step by step'     => q{options => '{"yield_granularity": 1}'},
	'sorted'           => q{order_by => 'v DESC'},
	'sorted and out'   => qq{order_by => 'v DESC', options => '{$OUT}'},
	'backward'         => q{backward => true},
	'by keys'          => q{keys => ARRAY(SELECT generate_series(1, 3000))});
foreach my $path (sort keys %path)
{
	my $before = stats();

	foreach my $error (
		[ '1 / (1500 - k) < 2', '22012' ],
		[ q{raise_at(k, 1500, 'XY123')}, 'XY123' ])
	{
		my ($filter, $code) = @$error;
		my ($ret, $out, $err) = $node->psql('postgres', qq{
			\\set VERBOSITY sqlstate
			BEGIN READ ONLY;
			COPY (SELECT peek(NULL::t, filter => 'k <= 3000 AND } . ($filter =~ s/'/''/gr) . qq{', $path{$path})) TO STDOUT});
		is($err =~ s/\s+\z//r =~ s/.*ERROR:  //sr, $code,
			"$path: an error in the filter keeps its SQLSTATE $code");
		is($out, '', "$path: no row comes before it");
	}
	is(counted($before), 'inline=2 failed=2', "$path: both walks are counted as failed");
}


# Errors, and worse, at each stop point

foreach my $point ('scan-start', 'spool-push', 'walk-end')
{
	my $session = peek_session($node);
	my $peek = "SELECT count(*) FROM (SELECT peek(NULL::t, upper => 5000, options => '{$OUT}')) AS q";
	my $before = stats();

	$session->query('SET default_transaction_read_only = on');
	my $guard = arm_stop($node, $point, 'error');
	my ($out, $err) = $session->query($peek);
	like($err, qr/ERROR:  stop point "$point" threw/, "$point: an error is thrown");
	$guard->release;
	is(counted($before), 'inline=1 failed=1', "$point: the walk has failed");
	is($session->query($peek), '5000', "$point: the next peek works");
	no_leftovers($node, 'postgres', "$point: nothing left after an error");

	# in a subtransaction
	$guard = arm_stop($node, $point, 'error');
	$session->query('BEGIN; SAVEPOINT s');
	() = $session->query($peek);
	$guard->release;
	$session->query('ROLLBACK TO s');
	is($session->query($peek), '5000', "$point: the next peek of the transaction works");
	$session->query('COMMIT');

	$before = stats();
	$guard = arm_stop($node, $point, 'wait');
	$session->send($peek);
	my $pid = wait_for_stop($node, $point);
	$node->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");
	($out, $err) = $session->result;
	like($err, qr/ERROR:  canceling statement due to user request/,
		"$point: a peek that waits there can be cancelled");
	is(counted($before), 'cancelled=1', "$point: it is counted as cancelled");
	$guard->release;
	is($session->query($peek), '5000', "$point: the next peek after it works");

	$before = stats();
	$guard = arm_stop($node, $point, 'fatal');
	($out, $err) = $session->query($peek);
	like($err, qr/FATAL:  stop point "$point" ended the process/,
		"$point: the process ends");
	$guard->release;
	no_leftovers($node, 'postgres', "$point: nothing left after the end of the process");
	is(counted($before), 'cancelled=1', "$point: its walk is counted as cancelled");
	$session->disconnect;
}

# A killed process takes the server down with it, for a moment.
foreach my $point ('spool-push', 'walk-end')
{
	my $session = peek_session($node);

	$session->query('SET default_transaction_read_only = on');
	my $guard = arm_stop($node, $point, 'kill');
	my ($out, $err) = $session->query(
		"SELECT count(*) FROM peek(NULL::t, options => '{$OUT}')");
	like($err, qr/server closed the connection|terminating connection/,
		"$point: the process is killed");
	$session->disconnect;
	eval { $guard->release };
	$node->poll_query_until('postgres', 'SELECT true')
	  or die 'the server does not come back';
	no_leftovers($node, 'postgres', "$point: nothing left after a crash");
	is($node->safe_psql('postgres', 'SELECT count(*) FROM peek(NULL::t, upper => 9)'),
		'9', "$point: peeks work after a crash");
	is(counted(\%nothing), 'inline=1 memory=1', "$point: the counters began anew");
}


# Cut off in the middle of a long walk

# Exactly how late: the filter cancels its own backend at the 100th row.
foreach my $granularity (1, 7, 100)
{
	my $before = stats();
	my ($ret, $out, $err) = $node->psql('postgres', qq{
		SELECT count(*) FROM peek(NULL::t,
			filter => 'k <> 100 OR quiet_cancel(pg_backend_pid())',
			options => '{"yield_granularity": $granularity}')});
	like($err, qr/canceling statement due to user request/,
		"yield_granularity $granularity: a cancel is seen");
	my $late = stats()->{positions} - $before->{positions} - 100;
	cmp_ok($late, '>=', 0, "yield_granularity $granularity: not before it was sent");
	cmp_ok($late, '<=', $granularity,
		"yield_granularity $granularity: within so many positions");
	is(counted($before), 'cancelled=1',
		"yield_granularity $granularity: counted as cancelled");
}

# Each way to cut off: seen soon, counted, nothing left.
my @cut_off = (
	[ 'pg_cancel_backend', qr/canceling statement due to user request/,
		sub { $node->safe_psql('postgres', "SELECT pg_cancel_backend($_[1])") } ],
	[ 'statement_timeout', qr/canceling statement due to statement timeout/ ],
	[ 'pg_terminate_backend', qr/terminating connection due to administrator command/,
		sub { $node->safe_psql('postgres', "SELECT pg_terminate_backend($_[1])") } ],
	[ 'a closed socket', undef, sub { $_[0]->disconnect } ]);
foreach my $how (@cut_off)
{
	my ($name, $message, $cut) = @$how;

	foreach my $options ('{}', "{$OUT}", '{"yield_granularity": 1000000}')
	{
		my $session = peek_session($node);
		my $before = stats();
		my $pid = $session->pid;
		my $query = $LONG =~ s/\)\z/, options => '$options')/r;
		my $start;

		$session->query('SET default_transaction_read_only = on');
		$session->query("SET statement_timeout = '300ms'") unless $cut;
		$session->send("SELECT count(*) FROM $query");
		wait_active($pid) if $cut;
		$start = time;
		$cut->($session, $pid) if $cut;
		if ($message)
		{
			my ($out, $err) = $session->result;
			like($err, $message, "$name, $options: the walk is cut off");
		}
		$node->poll_query_until('postgres', qq{
			SELECT NOT EXISTS (SELECT FROM pg_stat_activity
							   WHERE pid = $pid AND state = 'active')});
		cmp_ok(time - $start, '<', 4, "$name, $options: soon");
		is(counted($before), 'cancelled=1', "$name, $options: counted as cancelled");
		$session->query('SET statement_timeout = 0')
		  if !$session->ended && !$cut;
		is($session->query('SELECT count(*) FROM peek(NULL::t, upper => 9)'),
			'9', "$name, $options: the session goes on")
		  if $name eq 'pg_cancel_backend' || !$cut;
		no_leftovers($node, 'postgres', "$name, $options: nothing left");
		$session->disconnect;
	}
}

# A timeout can hit anywhere: before, in and after the walk.
{
	my $session = peek_session($node);
	my $before = stats();
	my ($tries, $whole, $wrong) = (100, 0, 0);

	srand(15);
	$session->query('SET default_transaction_read_only = on');
	foreach (1 .. $tries)
	{
		my $timeout = 1 + int rand 50;

		$session->query("SET statement_timeout = $timeout");
		my ($out, $err) = $session->query(qq{
			SELECT count(*) FROM peek(NULL::t, upper => 40000,
				options => '{$OUT}')});

		# The statement that ends the timeout is still under it.
		1 until ($session->query('SET statement_timeout = 0'))[1] eq '';

		if ($err =~ /canceling statement due to statement timeout/) { $wrong++ if $out ne '' }
		elsif ($out eq '40000') { $whole++ }
		else { $wrong++ }
	}
	is($wrong, 0, "$tries random timeouts: the whole answer, or the timeout's error");
	my $now = stats();
	my %n = map { $_ => $now->{$_} - $before->{$_} } keys %$now;
	note "$whole answers, $n{memory} counted, $n{cancelled} cancelled";
	ok( $n{failed} == 0 && $n{inline} == $n{memory} && $n{memory} >= $whole
		  && $n{memory} + $n{cancelled} <= $tries,
		'each walk among them was counted once, and none as failed');
	$session->quit;
	no_leftovers($node, 'postgres', 'random timeouts leave nothing');
}

# A session idle in the middle of an answer
{
	my $session = peek_session($node);

	$session->query(q{BEGIN READ ONLY});
	$session->query("DECLARE c CURSOR FOR SELECT peek(NULL::t, options => '{$OUT}')");
	is($session->query('FETCH 1 FROM c'), '(1,"value 1")', 'an answer is being read');
	my $before = stats();
	$session->query("SET idle_in_transaction_session_timeout = '100ms'");
	no_leftovers($node, 'postgres', 'an idle timeout leaves nothing of it');
	is(counted($before), '', 'its walk had ended and is not counted again');
	$session->disconnect;
}

# A client that goes while rows are being sent to it
{
	my $session = peek_session($node);
	my $before = stats();
	my $pid = $session->pid;

	# psql fetches a row at a time, so the last one is far away
	$session->query('SET default_transaction_read_only = on');
	$session->query('\set FETCH_COUNT 1');
	$session->query_until(qr/value 1"/, "SELECT peek(NULL::t, options => '{$OUT}');");
	$session->disconnect;
	no_leftovers($node, 'postgres', 'a client that goes while reading leaves nothing');
	is(counted($before), 'inline=1 memory=1', 'and its walk had ended');
}

# The books balance.
{
	my $stat = stats();

	is($stat->{inline}, $stat->{memory} + $stat->{stashed} + $stat->{failed},
		'walks that ended = answers + failures');
	$node->safe_psql('postgres', 'SELECT peekstash_stat_reset()');
	is(join(' ', map { stats()->{$_} } qw(inline memory stashed failed cancelled positions rows bytes)),
		'0 0 0 0 0 0 0 0', 'the counters can be reset');
	$node->safe_psql('postgres', 'SELECT count(*) FROM peek(NULL::t, upper => 10)');
	$node->restart;
	is(stats()->{inline}, 0, 'and begin anew with the server');
}


# Hot standby

{
	$node->backup('copy');
	my $standby = PostgreSQL::Test::Cluster->new('standby');
	$standby->init_from_backup($node, 'copy', has_streaming => 1);
	$standby->start;
	$node->wait_for_catchup($standby);

	is($standby->safe_psql('postgres', 'SELECT pg_is_in_recovery()'), 't',
		'the standby is one');
	foreach my $level ('READ COMMITTED', 'REPEATABLE READ')
	{
		is( $standby->safe_psql('postgres', qq{
				BEGIN ISOLATION LEVEL $level;
				SELECT count(*), sum(k) FROM peek(NULL::t, upper => 1000);
				SELECT count(*), sum(k) FROM peek(NULL::t, options => '{$OUT}');
				SELECT count(*) FROM peek(NULL::t, 't_pkey', order_by => 'v', row_limit => 7);
				SELECT count(*) FROM peek_record('t', '{v}', keys => ARRAY[1, 2, -1]) AS (v text);
				COMMIT}),
			"1000|500500\n100000|5000050000\n7\n2",
			"$level: a standby answers from memory and from the spool");
	}
	is(counted(\%nothing, $standby), 'inline=8 memory=8',
		'a standby has counters of its own');

	# a snapshot held on the standby, changes on the primary
	my $reader = peek_session($standby);
	$reader->query('BEGIN ISOLATION LEVEL REPEATABLE READ');
	$reader->query('SELECT count(*) FROM t');
	# all in one: the second command would clean up after the first, and recovery
	# would have to wait for the reader
	$node->safe_psql('postgres', q{
		BEGIN;
		UPDATE t SET v = 'changed' WHERE k = 1;
		DELETE FROM t WHERE k = 2;
		INSERT INTO t VALUES (100001, 'added');
		COMMIT});
	$node->wait_for_catchup($standby);
	is( $reader->query(q{SELECT count(*), count(*) FILTER (WHERE v ~ '^value'), max(k) FROM peek(NULL::t)}),
		'100000|100000|100000', 'a snapshot of the standby stays as it is');
	$reader->query('COMMIT');
	is( $reader->query(q{SELECT count(*), count(*) FILTER (WHERE v ~ '^value'), max(k) FROM peek(NULL::t)}),
		'100000|99998|100001', 'the next one has the changes');

	# a walk cut off on the standby
	my $guard = arm_stop($standby, 'walk-end', 'wait');
	$reader->send("SELECT count(*) FROM peek(NULL::t, options => '{$OUT}')");
	my $pid = wait_for_stop($standby, 'walk-end');
	$standby->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");
	my ($out, $err) = $reader->result;
	like($err, qr/canceling statement due to user request/,
		'a peek on a standby can be cancelled');

	# recovery needs the lock that a peek has
	$standby->append_conf('postgresql.conf', "max_standby_streaming_delay = 0");
	$standby->reload;
	$reader->send("SELECT count(*) FROM peek(NULL::t, options => '{$OUT}')");
	wait_for_stop($standby, 'walk-end');
	$node->safe_psql('postgres', 'ALTER TABLE t ADD COLUMN w int');
	($out, $err) = $reader->result;
	like($err, qr/conflict with recovery/, 'a peek in the way of recovery yields');
	$guard->release;
	$node->wait_for_catchup($standby);
	is($reader->query('SELECT count(*), count(w) FROM peek(NULL::t)'), '100000|0',
		'the next one reads what recovery has made');
	$reader->quit;
	# no_leftovers would look into the stash, which cannot be read here
	is( $standby->safe_psql('postgres', q{
			SELECT count(*) FROM pg_locks
			WHERE relation IS NOT NULL AND pid <> pg_backend_pid();
			SELECT count(*) FROM pg_ls_tmpdir()}),
		"0\n0", 'no lock and no file is left on the standby');

	$standby->promote;
	is($standby->safe_psql('postgres', q{
			INSERT INTO t VALUES (0, 'promoted');
			SELECT (p).v FROM (SELECT peek(NULL::t, key => 0) AS p) AS q}),
		'promoted', 'a promoted standby goes on peeking');
	$standby->stop;
}

unlike(slurp_file($node->logfile), qr/WARNING:  (?!terminating connection)|TRAP:|PANIC:/,
	'the server had nothing to warn of');

done_testing();
