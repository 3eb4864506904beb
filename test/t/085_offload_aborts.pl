# A storm over peeks that workers walk for: whatever can end one early does so
# at random moments, to the submitter (statement_timeout, pg_cancel_backend,
# pg_terminate_backend, a client that is gone, ROLLBACK, ROLLBACK TO SAVEPOINT,
# errors that a PL/pgSQL block catches, the end of the session in the
# transaction), to its workers (SIGTERM, SIGINT) and to the peek (peek_cancel,
# peek_release in flight).  Some handles are the clients' own, and are used
# again at once.  Afterwards nothing is in flight, every answer that is there is
# whole or says how it failed, and everything is counted right.
#
# PEEKSTASH_SEED repeats the same statements; when what hits them is a matter
# of time.  PEEKSTASH_FULL=1 makes it ten times as long, and kills processes
# and stops the server in the midst of it.

use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin;

use PeekOffload;
use PeekTest;
use POSIX ();
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

my $FULL = $ENV{PEEKSTASH_FULL};
my $ABORTS = $FULL ? 10_000 : 1_000;
my $KILLS = $FULL ? 300 : 0;		# of processes, by SIGKILL
my $STOPS = $FULL ? 20 : 0;			# of the server, immediate
my $CLIENTS = 4;
my $NUM_ROWS = 20_000;

my $seed = $ENV{PEEKSTASH_SEED};
$seed = (time ^ ($$ << 8)) % 1_000_000 if !defined $seed || $seed eq '';
diag "PEEKSTASH_SEED=$seed";

my $node = peek_start('storm', conf => qq{
	log_min_messages = info
	log_error_verbosity = terse
	max_worker_processes = 24
	deadlock_timeout = 100ms
	dynamic_shared_memory_type = mmap
	max_parallel_workers_per_gather = 0
	peekstash.max_workers = 4
	peekstash.permits = 5
	peekstash.enable_offload = on
});
$node->safe_psql('postgres', qq{
	CREATE EXTENSION amcheck;
	CREATE TABLE t (k int PRIMARY KEY, v text);
	INSERT INTO t SELECT i, lpad(i::text, 60, 'x')
	FROM generate_series(1, $NUM_ROWS) AS i;
	VACUUM ANALYZE t;
	CREATE TABLE over (i int);
	CREATE ROLE alice LOGIN;
	CREATE ROLE bob LOGIN;
	GRANT SELECT ON t TO alice, bob;

	-- a walk that takes its time: a millisecond every so many rows
	CREATE FUNCTION nap(k int) RETURNS boolean
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS \$\$
	BEGIN
		PERFORM pg_sleep(0.001);
		RETURN true;
	END \$\$;

	-- each time in a subtransaction of its own, which is rolled back
	CREATE FUNCTION swallow(query text, times int) RETURNS SETOF text
	LANGUAGE plpgsql AS \$\$
	BEGIN
		FOR i IN 1 .. times LOOP
			BEGIN
				EXECUTE query;
				RAISE EXCEPTION USING ERRCODE = 'ZZ001';
			EXCEPTION WHEN query_canceled OR OTHERS THEN
				RETURN NEXT 'block: ' || SQLSTATE;
			END;
		END LOOP;
	END \$\$;

	-- SQLSTATE and rows of what a fetch gives
	CREATE FUNCTION fetched(handle uuid) RETURNS text LANGUAGE plpgsql AS \$\$
	DECLARE
		found text;
	BEGIN
		SELECT format('%s rows, sum %s', count(*), sum(k)) INTO found
		FROM peek_fetch(NULL::t, handle);
		RETURN found;
	EXCEPTION WHEN query_canceled OR OTHERS THEN
		RETURN SQLSTATE;
	END \$\$;

	CREATE PROCEDURE hunt(seed float) LANGUAGE plpgsql AS \$\$
	DECLARE
		victim int;
		victim_handle uuid;
		is_hit boolean;
		how float;
	BEGIN
		PERFORM setseed(seed);
		WHILE NOT EXISTS (SELECT FROM over) LOOP
			PERFORM pg_sleep(random() * 0.03);

			-- every other second, so that however slow the machine is, some
			-- walks come to their end
			CONTINUE WHEN extract(epoch FROM clock_timestamp())::int % 2 = 0;
			PERFORM pg_stat_clear_snapshot();
			how := random();
			IF how < 0.4 THEN
				SELECT pid INTO victim FROM pg_stat_activity
				WHERE application_name = 'storm' AND state = 'active'
					AND backend_type = 'client backend'
				ORDER BY random() LIMIT 1;
				IF how < 0.1 THEN
					PERFORM pg_terminate_backend(victim);
				ELSE
					PERFORM pg_cancel_backend(victim);
				END IF;
			ELSIF how < 0.7 THEN
				SELECT pid INTO victim FROM pg_stat_activity
				WHERE backend_type = 'peekstash walk'
				ORDER BY random() LIMIT 1;
				IF how < 0.5 THEN
					is_hit := pg_terminate_backend(victim);
				ELSE
					is_hit := pg_cancel_backend(victim);
				END IF;
				IF is_hit THEN
					RAISE NOTICE '%', CASE WHEN how < 0.5 THEN 'worker terminate'
						ELSE 'worker cancel' END;
				END IF;
			ELSE
				SELECT handle INTO victim_handle FROM peekstash.peeks
				WHERE state IN ('queued', 'running')
				ORDER BY random() LIMIT 1;
				IF FOUND AND peek_cancel(victim_handle) THEN
					RAISE NOTICE 'peek cancel';
				END IF;
			END IF;
			COMMIT;
		END LOOP;
	END \$\$;
});

my $watch = PeekOffload->new($node);

my $submit_all =
  q{SELECT peek_submit('t_pkey', options => '{"background": true, "workers": 3}')};
$watch->ready($submit_all);
$watch->settled('to begin with');

my $segments = $watch->segments;
my $before = $watch->counts;

sub below { return int rand $_[0] }
sub pick { return $_[ rand @_ ] }

# A call of peek_submit().  The label says what is asked for, in a form that
# a query can compare with the answer.
sub submit_call
{
	my ($client) = @_;
	my $from = 1 + below($NUM_ROWS * 1.1);
	my $naps = pick(200, 1000, 1000, 5000);
	my $filter = "k % $naps > 0 OR nap(k)";
	my $limit = below(4) == 0 ? 1 + below($NUM_ROWS) : $NUM_ROWS;
	my %options = (
		workers => pick(1, 1, 3),
		stash_threshold => pick(0, below(2000), below(300_000)),
		stash_batch_size => pick(500 + below(2000), below(100_000) + 1),
		inline_budget => 1 + pick(0, below(3000)),
		yield_granularity => pick(1, 100, 1000),
		ttl => 3600,
		label => qq("$from $limit"));

	# of several workers each has other rows
	$limit = $NUM_ROWS, $options{label} = qq("$from $limit")
	  if $options{workers} > 1;
	$options{background} = 'true' if below(2) == 0;
	$options{max_result_size} = 10 + below(1500) if below(8) == 0;
	$options{handle} = sprintf '"01234567-89ab-7def-8123-%012d"',
	  10 * $client + below(3) if below(2) == 0;
	$filter = "($filter) AND 1 / (k - " . below($NUM_ROWS) . ') < 2'
	  if below(8) == 0;
	return "peek_submit('t_pkey', lower => $from, row_limit => $limit"
	  . ", filter => '$filter'"
	  . (below(6) == 0 && $options{workers} == 1 ? ', backward => true' : '')
	  . ", options => '{"
	  . join(', ', map { qq("$_": $options{$_}) } sort keys %options) . "}')";
}

# Where something is ended by the script itself, psql says so.  The handle is
# printed after "submit: ", if there is one.
sub script
{
	my ($client) = @_;
	my @lines;
	my $submit = sub {
		return 'SELECT ' . submit_call($client) . q{ AS h \gset};
	};
	my $submitted = q{\echo submit: :h};
	my $wait = sub {
		return 'SELECT ' . pick(
			'1',
			q{peek_wait(:'h', '} . below(50) . q{ ms')},
			q{peek_wait(:'h', '10 s')});
	};

	foreach (1 .. 6)
	{
		push @lines, '\set h 00000000-0000-7000-8000-000000000000';
		push @lines, 'SET statement_timeout = ' . (1 + below(50))
		  if below(3) == 0;
		push @lines, pick(
			sub {
				return ($submit->(), $submitted, 'RESET statement_timeout',
					$wait->());
			},
			sub {
				return ($submit->(), $submitted, 'RESET statement_timeout',
					q{SELECT 'cancel: ' || peek_cancel(:'h')});
			},
			sub {
				return ($submit->(), $submitted, 'RESET statement_timeout',
					pick($wait->(), 'SELECT pg_sleep(0.01)'),
					q{SELECT 'release: ' || peek_release(:'h')});
			},
			sub {
				# a release that waits for its end, or comes to nothing
				return ($submit->(), $submitted, 'RESET statement_timeout',
					'BEGIN', 'SAVEPOINT a', q{SELECT peek_release(:'h')},
					'SELECT pg_sleep(' . below(100) / 1000 . ')',
					pick('COMMIT', 'COMMIT', 'ROLLBACK', 'ROLLBACK TO a; COMMIT'));
			},
			sub {
				return ('BEGIN', $submit->(), $submitted,
					'RESET statement_timeout', $wait->(), 'ROLLBACK',
					'\echo rollback');
			},
			sub {
				return ('BEGIN', 'SAVEPOINT a', $submit->(), $submitted,
					'RESET statement_timeout', $wait->(), 'ROLLBACK TO a',
					'\echo savepoint', $submit->(), 'COMMIT');
			},
			sub {
				return 'SELECT swallow($q$SELECT ' . submit_call($client)
				  . '$q$, ' . (1 + below(3)) . ')';
			},
			sub {
				return ('BEGIN', $submit->(), $submitted, $wait->(), pick(
						'SELECT pg_terminate_backend(pg_backend_pid())',
						'\q'))
				  if below(3) == 0;
				return ('BEGIN', $submit->(), $submitted, $wait->(),
					q{SELECT peek_release(:'h')}, pick('COMMIT', 'ROLLBACK'));
			})->();
		push @lines, 'RESET statement_timeout';
	}
	push @lines, q{SELECT count(peek_release(handle)) FROM peekstash.peeks
		WHERE state IN ('done', 'failed', 'cancelled')} if below(12) == 0;
	return join('', map { /\\/ ? "$_\n" : "$_;\n" } @lines);
}

my $dir = PostgreSQL::Test::Utils::tempdir();
my $connstr = $node->connstr('postgres');
my $psql = $node->installed_command('psql');

# Starts psql with a file of SQL; what it says is in the file's name .out.
sub start_psql
{
	my ($name, $appname, $user, $sql) = @_;

	open my $file, '>', "$dir/$name.sql" or die;
	print $file $sql;
	close $file;
	my $pid = fork;
	die "fork: $!" unless defined $pid;
	if ($pid == 0)
	{
		open STDIN, '<', '/dev/null';
		open STDOUT, '>', "$dir/$name.out";
		open STDERR, '>&', \*STDOUT;
		exec $psql, '-XAtq', '-f', "$dir/$name.sql", '-d',
		  "$connstr application_name=$appname user=$user"
		  or POSIX::_exit(127);
	}
	return $pid;
}

my @kinds = (
	[ timeout => qr/ERROR:  canceling statement due to statement timeout/ ],
	[ cancel => qr/ERROR:  canceling statement due to user request/ ],
	[ terminate => qr/FATAL:  terminating connection due to administrator/ ],
	[ error => qr/ERROR:  (?:division by zero|result exceeds max size)/ ],
	[ block => qr/^block: / ],
	[ rollback => qr/^rollback$/ ],
	[ savepoint => qr/^savepoint$/ ],
	[ release => qr/^release: true/ ],
	[ 'own cancel' => qr/^cancel: true/ ],
	[ 'peek cancel' => qr/NOTICE:  peek cancel$/ ],
	[ 'worker cancel' => qr/NOTICE:  worker cancel$/ ],
	[ 'worker terminate' => qr/NOTICE:  worker terminate$/ ]);

# Adds what a psql has said to the counts; returns how many aborts it was.
sub count_kinds
{
	my ($name, $count) = @_;
	my $total = 0;

	foreach my $line (split /\n/, slurp_file("$dir/$name.out"))
	{
		foreach my $kind (grep { $line =~ $_->[1] } @kinds)
		{
			$count->{ $kind->[0] }++;
			$total++;
		}
		$count->{submits}++ if $line =~ /^submit: [^0]|^submit: 01/;
	}
	return $total;
}

# One of the clients, again and again, until there were so many aborts, and
# whoever kills has done so.
sub client
{
	my ($number) = @_;
	my %count = (calls => 0, submits => 0);
	my $total = 0;

	srand $seed + $number;
	while ($total < $ABORTS / $CLIENTS || ($KILLS && !-e "$dir/killed"))
	{
		my $leave = below(6) == 0;
		my $script = script($number);
		my $pid = start_psql("c$number", 'storm', $number % 2 ? 'alice' : 'bob',
			$script);

		my @calls = $script =~ /peek_submit\(/g;
		my @blocks = $script =~ /swallow\(/g;	# up to three times each
		$count{calls} += @calls + 2 * @blocks;
		if ($leave)
		{
			usleep(1000 * (10 + below(100)));
			kill 'KILL', $pid;
		}
		waitpid $pid, 0;
		if ($leave && ($? & 127) != 0)
		{
			$count{disconnect}++;
			$total++;
		}
		$total += count_kinds("c$number", \%count);
		usleep(100_000) if slurp_file("$dir/c$number.out") =~ /starting up|recovery/;
	}
	open my $out, '>', "$dir/c$number.count" or die;
	print $out map { "$count{$_} $_\n" } keys %count;
	close $out;
	return;
}

# Runs something in a process of its own.
sub start_process
{
	my ($main) = @_;
	my $pid = fork;

	die "fork: $!" unless defined $pid;
	return $pid if $pid;
	my $failed = !eval { $main->(); 1 };
	warn $@ if $failed;
	POSIX::_exit($failed);
}

my $started = time;
my $hunter_number = 0;
my $hunter = start_process(sub {
	my %count;

	# after a crash of the server it begins again
	do
	{
		my $name = 'hunter' . $hunter_number++;
		my $pid = start_psql($name, 'hunter', 'postgres',
			'CALL hunt(' . ($seed + $hunter_number) % 1000 / 1000 . ');');
		waitpid $pid, 0;
		count_kinds($name, \%count);
		usleep(100_000) if $KILLS;
	} while ($KILLS && !-e "$dir/over");
	open my $out, '>', "$dir/hunter.count" or die;
	print $out map { "$count{$_} $_\n" } keys %count;
	close $out;
});
my %pids = map {
	my $number = $_;
	start_process(sub { client($number) }) => $number;
} 1 .. $CLIENTS;

my $kills = 0;
my $stops = 0;
srand $seed + 100;
while (%pids)
{
	usleep($KILLS ? 1000 * (200 + below(800)) : 50_000);
	foreach my $pid (sort keys %pids)
	{
		next unless waitpid($pid, POSIX::WNOHANG) == $pid;
		is($?, 0, "client $pids{$pid}");
		delete $pids{$pid};
	}
	next unless $KILLS && %pids;
	if ($stops < $STOPS && $kills >= ($stops + 1) * $KILLS / $STOPS)
	{
		$node->stop('immediate');
		$node->start;
		$stops++;
	}
	elsif ($kills < $KILLS)
	{
		my ($ret, $out) = $node->psql('postgres', q{
			SELECT pid FROM pg_stat_activity
			WHERE backend_type IN ('client backend', 'peekstash walk',
					'peekstash sweeper', 'peekstash launcher')
				AND pid <> pg_backend_pid()
			ORDER BY random() * CASE backend_type
				WHEN 'peekstash walk' THEN 1 ELSE 3 END LIMIT 1});
		$kills += kill 'KILL', $out if defined $out && $out =~ /^\d+$/;
	}
	append_to_file("$dir/killed", '')
	  if $kills == $KILLS && $stops == $STOPS;
}
$watch->query('INSERT INTO over VALUES (1)');
append_to_file("$dir/over", '');
waitpid $hunter, 0;
is($?, 0, 'the hunter');

my %total;
my $total = 0;
foreach my $name ('hunter', map { "c$_" } 1 .. $CLIENTS)
{
	foreach (split /\n/, slurp_file("$dir/$name.count"))
	{
		my ($count, $kind) = split / /, $_, 2;
		$total{$kind} += $count;
		$total += $count unless $kind =~ /^(?:calls|submits)$/;
	}
}
diag sprintf '%d aborts in %.0f seconds, %d killed, %d stops: %s', $total,
  time - $started, $kills, $stops,
  join(', ', map { "$total{$_} $_" } sort keys %total);
cmp_ok($total, '>=', $ABORTS, 'there were as many aborts');
cmp_ok($total{$_} || 0, '>=', $ABORTS / 200, "enough of them by $_")
  foreach (grep { $_ ne 'error' } map { $_->[0] } @kinds), 'disconnect';


# What is left

$watch->settled('settled');
ok($watch->wait_until(q{SELECT count(*) = 0 FROM pg_stat_activity
		WHERE application_name IN ('storm', 'hunter')}), 'no session');
is($watch->query('SELECT count(*) FROM pg_ls_tmpdir()'), '0',
	'no temporary file');

# A done answer has the rows that were asked for, another says why it has none.
is($watch->query(q{
		SELECT state, sqlstate, label, fetched(handle) FROM peekstash.peeks p
		WHERE fetched(handle) <> CASE WHEN state <> 'done' THEN sqlstate
			ELSE (SELECT format('%s rows, sum %s', count(*), sum(k)) FROM (
				SELECT k FROM t WHERE k >= split_part(label, ' ', 1)::int
				ORDER BY CASE WHEN (request ->> 'backward')::boolean THEN -k ELSE k END
				LIMIT split_part(label, ' ', 2)::int) AS q)
			END OR sqlstate IS NULL <> (state = 'done')}),
	'', 'every answer is whole, or says how it failed');
my %ends = map { split /\|/ } split /\n/, $watch->query(
	'SELECT state || coalesce(sqlstate, \'\'), count(*) FROM peekstash.peeks GROUP BY 1');
diag 'kept: ' . join ', ', map { "$ends{$_} $_" } sort keys %ends;

# The counters of each role are those of the tables.
foreach my $role (qw(alice bob))
{
	my ($peeks, $bytes) = split /\|/, $watch->query(qq{
		SELECT count(*), coalesce(sum(stored_bytes), 0) FROM peekstash.handle
		LEFT JOIN peekstash.outcome USING (handle)
		WHERE charged_to = '$role'::regrole});
	my $submit = sub {
		my ($knob, $limit) = @_;
		my ($ret, $out, $err) = $node->psql('postgres', qq{
			\\set VERBOSITY verbose
			BEGIN;
			SELECT peek_submit('t_pkey', key => 1, options => '{"$knob": $limit}');
			ROLLBACK}, extra_params => [ '-U', $role ]);
		return $err =~ /ERROR:  (.{5})/ ? $1 : 'none';
	};
	if ($peeks > 0)
	{
		is($submit->('max_role_peeks', $peeks), '53400',
			"$role: as many peeks are counted as there are");
	}
	is($submit->('max_role_peeks', $peeks + 1), 'none', "$role: and no more");
	if ($bytes > 1024)
	{
		is($submit->('max_role_stash_size', int($bytes / 1024)), '53400',
			"$role: as many bytes are counted as there are");
	}
	is($submit->('max_role_stash_size', int($bytes / 1024) + 2), 'none',
		"$role: and no more");
}

# Each walk that began is counted once.  What clients have heard of did begin;
# what they have not heard of may not have.
if (!$KILLS)
{
	my $grown = $watch->grown($before);
	my $ended = $grown->{walks_inline} + $grown->{walks_offloaded} +
	  $grown->{answers_cancelled};

	note join ', ', map { "$grown->{$_} $_" } sort keys %$grown;
	is( $grown->{walks_inline} + $grown->{walks_offloaded},
		$grown->{answers_memory} + $grown->{answers_stashed}
		  + $grown->{answers_failed}, 'the statistics add up');
	cmp_ok($ended, '<=', $total{calls} + 6, 'no walk is counted twice');

	# each has happened; how often, the machine's load decides, because most
	# of what ends them is timed
	cmp_ok($grown->{$_}, '>', 0, "some $_")
	  foreach qw(walks_inline walks_offloaded answers_stashed answers_failed
	  answers_cancelled);
	is($watch->segments, $segments, 'no segment of shared memory is left');
}

# Nothing is left at all.
$watch->query('SELECT peek_release(handle) FROM peekstash.handle');
$watch->settled('all is released');
is($watch->query('SELECT (SELECT count(*) FROM peekstash.batch),
		(SELECT count(*) FROM peekstash.outcome),
		(SELECT count(*) FROM peekstash.handle), stash_bytes
		FROM peekstash.stat'),
	'0|0|0|0', 'nothing is left');
is($watch->query(qq{SELECT bt_index_check('peekstash.$_', true)}),
	'', "the index $_ is sound")
  foreach qw(batch_pkey outcome_pkey handle_pkey);
$watch->ready($submit_all);
my $handle = $watch->query($submit_all);
is($watch->query("SELECT peek_wait('$handle'), fetched('$handle')"),
	"done|$NUM_ROWS rows, sum " . $NUM_ROWS * ($NUM_ROWS + 1) / 2,
	'peeks go on');

# Whatever else was said was not foreseen: a leak, a defect, a crash.
my @foreseen = (
	qr/canceling statement due to (?:statement timeout|user request)/,
	qr/canceling peek due to user request/,
	qr/terminating (?:connection|background worker "[^"]*") due to administrator command/,
	qr/connection to client lost/,
	qr/could not (?:send data to|receive data from) client/,
	qr/division by zero/,
	qr/result exceeds max size of/,
	qr/current transaction is aborted/,
	qr/cannot walk in the background/,
	qr/could not import the requested snapshot/,
	qr/stash size limit of .* exceeded|limit of \d+ stored peeks exceeded/,
	qr/peek "[-0-9a-f]*" (?:does not exist|exists already|was cancelled)/,
	qr/savepoint "a" does not exist/,
	qr/(?:ROLLBACK TO SAVEPOINT|SAVEPOINT) can only be used in transaction blocks/,
	qr/there is (?:no|already a) transaction in progress/,
	qr/PID \d+ is not a PostgreSQL (?:server|backend) process/,
	qr/could not send signal to process \d+: No such process/);
push @foreseen,
  qr/was terminated by signal 9/,
  qr/terminating connection because of crash of another server process/,
  qr/terminating any other active server processes/,
  qr/the database system is (?:in recovery mode|starting up|shutting down|not yet accepting connections)/
  if $KILLS;
my @unforeseen = grep {
	my $line = $_;
	$line =~ /(?:WARNING|ERROR|FATAL|PANIC|TRAP|terminated by signal)/
	  && !grep { $line =~ $_ } @foreseen
} split /\n/, slurp_file($node->logfile);
is(join("\n", @unforeseen[ 0 .. ($#unforeseen < 20 ? $#unforeseen : 20) ]),
	'', 'nothing unforeseen in the log');

$node->stop;
done_testing();
