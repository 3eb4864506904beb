# A storm: several sessions peek, and whatever can end a peek early does so at
# random moments: statement_timeout, pg_cancel_backend, pg_terminate_backend, a
# client that is gone, ROLLBACK TO SAVEPOINT, errors that a PL/pgSQL block
# catches.  Afterwards nothing is left.
#
# PEEKSTASH_SEED repeats the same statements; when what hits them is a matter
# of time.  PEEKSTASH_FULL=1 makes it twenty times as long.

use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin;

use PeekTest;
use POSIX ();
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

my $ABORTS = $ENV{PEEKSTASH_FULL} ? 20_000 : 1_000;
my $WORKERS = 4;
my $NUM_ROWS = 20_000;

my $seed = $ENV{PEEKSTASH_SEED};
$seed = (time ^ ($$ << 8)) % 1_000_000 if !defined $seed || $seed eq '';
diag "PEEKSTASH_SEED=$seed";

my $node = peek_start('storm', conf => qq{
	work_mem = 256kB
	log_min_messages = info
	log_error_verbosity = terse
	deadlock_timeout = 100ms
});
$node->safe_psql('postgres', qq{
	CREATE EXTENSION pg_buffercache;
	CREATE EXTENSION amcheck;
	CREATE TABLE t (k int PRIMARY KEY, v text);
	INSERT INTO t SELECT i, lpad(i::text, 60, 'x')
	FROM generate_series(1, $NUM_ROWS) AS i;
	VACUUM ANALYZE t;
	CREATE TABLE over (i int);

	-- as often as it is told, each time in a subtransaction of its own
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

	CREATE PROCEDURE hunt(seed float) LANGUAGE plpgsql AS \$\$
	DECLARE
		victim int;
	BEGIN
		PERFORM setseed(seed);
		WHILE NOT EXISTS (SELECT FROM over) LOOP
			PERFORM pg_sleep(random() * 0.03);
			PERFORM pg_stat_clear_snapshot();
			SELECT pid INTO victim FROM pg_stat_activity
			WHERE application_name = 'storm' AND state = 'active'
			ORDER BY random() LIMIT 1;
			IF random() < 0.3 THEN
				PERFORM pg_terminate_backend(victim);
			ELSE
				PERFORM pg_cancel_backend(victim);
			END IF;
			COMMIT;
		END LOOP;
	END \$\$;
});

sub below { return int rand $_[0] }
sub pick { return $_[ rand @_ ] }

# A query of one peek.
sub peek_query
{
	my $from = below($NUM_ROWS * 1.3);
	my @call = ('NULL::t', "lower => $from");
	my %options = (
		stash_threshold => pick(0, below(2000), below(300_000)),
		stash_batch_size => pick(500 + below(2000), below(100_000) + 1),
		read_batch_size => pick(1, 1000, 100_000, 1_000_000),
		yield_granularity => pick(1, 100, 10_000),
		enable_stash => pick(qw(true true true true false)));

	push @call, 'backward => true' if below(4) == 0;
	push @call, "order_by => 'k % 100'" if below(5) == 0;
	push @call, 'row_limit => ' . below($NUM_ROWS) if below(3) == 0;
	push @call, 'filter => ' . pick(
		"'k % 3 > 0'",
		"'1 / (k - " . below($NUM_ROWS) . ") < 2'") if below(4) == 0;
	$options{max_result_size} = 10 + below(1500) if below(5) == 0;
	push @call, "options => '{"
	  . join(', ', map { qq("$_": $options{$_}) } sort keys %options) . "}'";

	my $peek = 'peek(' . join(', ', @call) . ')';
	return pick(
		"SELECT count(*) FROM (SELECT $peek) AS q",
		"SELECT count(*) FROM $peek",
		"SELECT count(p) FROM (SELECT $peek AS p LIMIT " . (1 + below(50)) . ') AS q',
		"SELECT count(1 / ((p).k - " . below($NUM_ROWS)
		  . ")) FROM (SELECT $peek AS p OFFSET 0) AS q",
		"SELECT EXISTS (SELECT $peek)");
}

sub cursor_queries
{
	my ($name) = @_;
	my $query = peek_query();

	$query =~ s/^SELECT (?:count|EXISTS).*?(peek\(.*\}'\)).*/SELECT $1/s;
	return ("DECLARE $name CURSOR FOR $query",
		"MOVE " . (1 + below(1000)) . " FROM $name");
}

# Some statements, and where something is rolled back, psql says so.
sub script
{
	my @lines;

	foreach (1 .. 6)
	{
		push @lines, 'SET statement_timeout = ' . (1 + below(50))
		  if below(3) > 0;
		push @lines, pick(
			sub { return peek_query() },
			sub {
				return ('BEGIN', peek_query(), 'SAVEPOINT a', peek_query(),
					'ROLLBACK TO a', '\echo savepoint', peek_query(),
					'COMMIT');
			},
			sub {
				return ('BEGIN', cursor_queries('c'), 'SAVEPOINT a',
					'MOVE ' . below(3000) . ' FROM c', cursor_queries('d'),
					pick('RELEASE a', 'MOVE FORWARD ALL FROM c'), 'SAVEPOINT b',
					'MOVE FORWARD ALL FROM ' . pick(qw(c d)),
					'ROLLBACK TO ' . pick(qw(a b)), '\echo savepoint',
					pick('SELECT 1', 'CLOSE ALL', 'MOVE 100 FROM c'),
					pick('COMMIT', 'COMMIT', 'ROLLBACK'));
			},
			sub {
				return 'SELECT swallow($q$' . peek_query() . '$q$, '
				  . (1 + below(4)) . ')';
			})->();
		push @lines, 'RESET statement_timeout';
	}
	return join('', map { /^\\/ ? "$_\n" : "$_;\n" } @lines);
}

my $dir = PostgreSQL::Test::Utils::tempdir();
my $connstr = $node->connstr('postgres');
my $psql = $node->installed_command('psql');

# Starts psql with a file of SQL; what it says is in the file's name .out.
sub start_psql
{
	my ($name, $appname, $sql) = @_;

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
		  "$connstr application_name=$appname"
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
	[ savepoint => qr/^savepoint$/ ]);

# One of the sessions, again and again, until there were so many aborts.
sub worker
{
	my ($number) = @_;
	my %count;
	my $total = 0;

	srand $seed + $number;
	while ($total < $ABORTS / $WORKERS)
	{
		my $leave = below(5) == 0;
		my $pid = start_psql("w$number", 'storm', script());

		if ($leave)
		{
			usleep(1000 * (10 + below(60)));
			kill 'KILL', $pid;
		}
		waitpid $pid, 0;
		if ($leave && ($? & 127) != 0)
		{
			$count{disconnect}++;
			$total++;
		}
		foreach my $line (split /\n/, slurp_file("$dir/w$number.out"))
		{
			foreach my $kind (grep { $line =~ $_->[1] } @kinds)
			{
				$count{ $kind->[0] }++;
				$total++;
			}
		}
	}
	open my $out, '>', "$dir/w$number.count" or die;
	print $out map { "$_ $count{$_}\n" } keys %count;
	close $out;
	return;
}

my $started = time;
my $hunter = start_psql('hunter', 'hunter', 'CALL hunt(' . $seed / 1_000_000 . ');');
my %pids;
foreach my $number (1 .. $WORKERS)
{
	my $pid = fork;
	die "fork: $!" unless defined $pid;
	if ($pid == 0)
	{
		my $failed = !eval { worker($number); 1 };
		warn $@ if $failed;
		POSIX::_exit($failed);
	}
	$pids{$pid} = $number;
}
foreach my $pid (sort keys %pids)
{
	waitpid $pid, 0;
	is($?, 0, "worker $pids{$pid}");
}
$node->safe_psql('postgres', 'INSERT INTO over VALUES (1)');
waitpid $hunter, 0;
is($?, 0, 'the hunter');

my %total;
my $total = 0;
foreach my $number (1 .. $WORKERS)
{
	foreach (split /\n/, slurp_file("$dir/w$number.count"))
	{
		my ($kind, $count) = split / /;
		$total{$kind} += $count;
		$total += $count;
	}
}
diag sprintf '%d aborts in %.0f seconds: %s', $total, time - $started,
  join(', ', map { "$total{$_} by $_" } sort keys %total);
cmp_ok($total, '>=', $ABORTS, 'there were as many aborts');
cmp_ok($total{$_} || 0, '>=', $ABORTS / 100, "enough of them by $_")
  foreach (map { $_->[0] } @kinds), 'disconnect';


# What is left

no_leftovers($node, 'postgres', 'nothing left over');
is($node->safe_psql('postgres', 'SELECT count(*) FROM peekstash.batch'),
	'0', 'no batch');
is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_ls_tmpdir()'),
	'0', 'no temporary file');

# Autovacuum may come by, and goes again.
ok( $node->poll_query_until('postgres', q{
		SELECT count(*) = 0 FROM pg_buffercache
		WHERE pinning_backends > 0 AND reldatabase =
			(SELECT oid FROM pg_database WHERE datname = current_database())}),
	'no pinned buffer');
ok( $node->poll_query_until('postgres', q{
		SELECT count(*) = 0 FROM pg_stat_activity
		WHERE application_name IN ('storm', 'hunter')}),
	'no session');
is($node->safe_psql('postgres',
		q{SELECT bt_index_check('peekstash.batch_pkey', true)}),
	'', 'the index of the stash is sound');
is($node->safe_psql('postgres', q{
		SELECT walks_inline = answers_memory + answers_stashed + answers_failed,
			answers_memory > 0, answers_stashed > 0, answers_failed > 0,
			answers_cancelled > 0
		FROM peekstash.stat}),
	't|t|t|t|t', 'the statistics add up');
is( $node->safe_psql('postgres', q{
		SELECT count(*), sum((p).k) FROM
			(SELECT peek(NULL::t, options => '{"stash_threshold": 0}') AS p) AS q}),
	$NUM_ROWS . '|' . $NUM_ROWS * ($NUM_ROWS + 1) / 2, 'peeks go on');

# Whatever else was said was not foreseen: a leak, a defect, a crash.
my @foreseen = (
	qr/canceling statement due to (?:statement timeout|user request)/,
	qr/terminating connection due to administrator command/,
	qr/connection to client lost/,
	qr/division by zero/,
	qr/result exceeds max size of/,
	qr/current transaction is aborted/,
	qr/the rows of this peek were rolled back/,
	qr/cursor "." does not exist/,
	qr/portal "." cannot be run/,
	qr/savepoint "." does not exist/,
	qr/(?:ROLLBACK TO SAVEPOINT|RELEASE SAVEPOINT|SAVEPOINT|DECLARE CURSOR) can only be used in transaction blocks/,
	qr/cursor "." already exists/,
	qr/there is no transaction in progress/,
	qr/PID \d+ is not a PostgreSQL (?:server|backend) process/);
my @unforeseen = grep {
	my $line = $_;
	$line =~ /(?:WARNING|ERROR|FATAL|PANIC|TRAP|terminated by signal)/
	  && !grep { $line =~ $_ } @foreseen
} split /\n/, slurp_file($node->logfile);
is(join("\n", @unforeseen[ 0 .. ($#unforeseen < 20 ? $#unforeseen : 20) ]),
	'', 'nothing unforeseen in the log');

$node->stop;
done_testing();
