# A storm over queries: several sessions run peek_query and peek_query_page,
# and whatever can end them early does so at random moments: statement_timeout,
# pg_cancel_backend, pg_terminate_backend, peek_cancel, a client that is gone,
# ROLLBACK, ROLLBACK TO SAVEPOINT, errors that a PL/pgSQL block catches.
# Afterwards what was committed is complete, and of the rest nothing is left.
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

my $ABORTS = $ENV{PEEKSTASH_FULL} ? 10_000 : 500;
my $WORKERS = 3;

my $seed = $ENV{PEEKSTASH_SEED};
$seed = (time ^ ($$ << 8)) % 1_000_000 if !defined $seed || $seed eq '';
diag "PEEKSTASH_SEED=$seed";

my $node = peek_start('query_storm', conf => qq{
	work_mem = 256kB
	log_min_messages = info
	log_error_verbosity = terse
	peekstash.max_role_peeks = 0
});
$node->safe_psql('postgres', q{
	CREATE EXTENSION pg_buffercache;
	CREATE TABLE t (k int PRIMARY KEY, v text);
	INSERT INTO t SELECT i, lpad(i::text, 60, 'x') FROM generate_series(1, 20000) AS i;
	CREATE TABLE u (k int, w text);
	INSERT INTO u SELECT i % 3000, repeat('w', i % 50) FROM generate_series(1, 6000) AS i;
	VACUUM ANALYZE;
	CREATE TABLE over (i int);

	-- as often as it is told, each time in a subtransaction of its own
	CREATE FUNCTION swallow(query text, times int) RETURNS SETOF text
	LANGUAGE plpgsql AS $$
	BEGIN
		FOR i IN 1 .. times LOOP
			BEGIN
				EXECUTE query;
				RAISE EXCEPTION USING ERRCODE = 'ZZ001';
			EXCEPTION WHEN query_canceled OR OTHERS THEN
				RETURN NEXT 'block: ' || SQLSTATE;
			END;
		END LOOP;
	END $$;

	-- a savepoint for each row of a query
	CREATE FUNCTION careful(n int) RETURNS int LANGUAGE plpgsql AS $$
	BEGIN
		RETURN 10 / (n % 3);
	EXCEPTION WHEN division_by_zero THEN
		RETURN 0;
	END $$;

	CREATE PROCEDURE hunt(seed float) LANGUAGE plpgsql AS $$
	DECLARE
		victim int;
	BEGIN
		PERFORM setseed(seed);
		WHILE NOT EXISTS (SELECT FROM over) LOOP
			PERFORM pg_sleep(random() * 0.04);
			PERFORM pg_stat_clear_snapshot();
			IF random() < 0.3 THEN
				PERFORM peek_cancel(handle) FROM peekstash.peeks WHERE state = 'running';
			ELSE
				SELECT pid INTO victim FROM pg_stat_activity
				WHERE application_name = 'storm' AND state = 'active'
				ORDER BY random() LIMIT 1;
				IF random() < 0.3 THEN
					PERFORM pg_terminate_backend(victim);
				ELSE
					PERFORM pg_cancel_backend(victim);
				END IF;
			END IF;
			COMMIT;
		END LOOP;
	END $$;
});

sub below { return int rand $_[0] }
sub pick { return $_[ rand @_ ] }

# A query for peek_query, as a literal.
sub query
{
	my $from = below(26_000);
	my $query = pick(
		"SELECT * FROM t WHERE k >= $from",
		"SELECT * FROM t ORDER BY v DESC",
		"SELECT t.*, u.w FROM t JOIN u USING (k) ORDER BY u.w, t.k",
		"SELECT k % 100, count(*), array_agg(v ORDER BY k) FROM t GROUP BY 1",
		"SELECT k, careful(k), 1 / (k - $from) FROM t",
		"SELECT t.v FROM t, u WHERE u.k = t.k % 7",
		"SELECT sum(a.k) FROM t a, u b, u c",
		"WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 5000) SELECT n, repeat(n::text, 20) FROM r",
		"SELECT (peek(NULL::t, lower => $from)).*",
		"SELECT peek_query(\$i\$SELECT * FROM u WHERE k > \$i\$ || k) FROM u WHERE k < " . below(40));
	my %options = (
		stash_threshold => pick(0, below(2000), below(300_000)),
		stash_batch_size => pick(500 + below(2000), below(100_000) + 1),
		yield_granularity => pick(1, 100, 10_000),
		enable_stash => pick(qw(true true true true false)));
	my $options;

	$options{max_result_size} = 10 + below(1500) if below(5) == 0;
	$options = "'{" . join(', ', map { qq("$_": $options{$_}) } sort keys %options) . "}'";
	return pick(
		"SELECT peek_query(\$p\$$query\$p\$, NULL, $options)",
		"SELECT count(*) FROM peek_query_page(\$p\$$query\$p\$, NULL, " . (1 + below(3000)) . ", $options)",
		"SELECT r FROM peek_query_page(\$p\$$query\$p\$, NULL, 100, $options) LIMIT 3");
}

# Some statements, and where something is rolled back, psql says so.
sub script
{
	my @lines;

	foreach (1 .. 6)
	{
		push @lines, 'SET statement_timeout = ' . (1 + below(50));
		push @lines, pick(
			sub { return query() },
			sub { return ('BEGIN', query(), 'ROLLBACK', '\echo rollback') },
			sub {
				return ('BEGIN', query(), 'SAVEPOINT a', query(),
					'ROLLBACK TO a', '\echo savepoint', query(), 'COMMIT');
			},
			sub {
				return 'SELECT swallow($q$' . query() . '$q$, ' . (1 + below(4)) . ')';
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
	[ cancel => qr/ERROR:  canceling (?:statement|peek) due to user request/ ],
	[ terminate => qr/FATAL:  terminating connection due to administrator/ ],
	[ error => qr/ERROR:  (?:division by zero|result exceeds max size)/ ],
	[ block => qr/^block: / ],
	[ rollback => qr/^rollback$/ ],
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
cmp_ok($total{$_} || 0, '>=', $ABORTS / 200, "enough of them by $_")
  foreach (map { $_->[0] } @kinds), 'disconnect';


# What is left: answers that were committed, as a whole

sub ask
{
	my ($query) = @_;

	return $node->safe_psql('postgres', $query);
}

ok( $node->poll_query_until('postgres', q{
		SELECT count(*) = 0 FROM pg_stat_activity
		WHERE application_name IN ('storm', 'hunter')}),
	'no session');
cmp_ok(ask('SELECT count(*) FROM peekstash.peeks'), '>', 0,
	'some answers were kept');
is(ask(q{SELECT count(*) FROM peekstash.batch b
		WHERE NOT EXISTS (SELECT FROM peekstash.handle h WHERE h.handle = b.handle)}),
	'0', 'no batch without a handle');
is(ask('SELECT count(*) FROM peekstash.handle FULL JOIN peekstash.outcome o USING (handle)
		WHERE digest IS NULL OR o.state IS NULL'),
	'0', 'no handle without an outcome');
is(ask(q{SELECT count(*) FROM peekstash.peeks p, LATERAL
			(SELECT sum(b.num_rows) AS n, sum(b.answer_bytes) AS bytes FROM peek_batches(p.handle) b) b
		WHERE (b.n, b.bytes) IS DISTINCT FROM (p.num_rows, p.answer_bytes)}),
	'0', 'what was kept is complete');
is(ask('SELECT slots_in_use FROM peekstash.stat'), '0', 'no slot');
is(ask(q{SELECT walks_inline = answers_memory + answers_stashed + answers_failed,
			answers_memory > 0, answers_stashed > 0, answers_failed > 0, answers_cancelled > 0
		FROM peekstash.stat}),
	't|t|t|t|t', 'the statistics add up');
ask('SELECT count(peek_release(handle)) FROM peekstash.peeks');
is(ask('SELECT stash_bytes FROM peekstash.stat'), '0', 'the quota is back');
no_leftovers($node, 'postgres', 'nothing left over');
is(ask('SELECT count(*) FROM pg_ls_tmpdir()'), '0', 'no temporary file');

# Autovacuum may come by, and goes again.
ok( $node->poll_query_until('postgres', q{
		SELECT count(*) = 0 FROM pg_buffercache
		WHERE pinning_backends > 0 AND reldatabase =
			(SELECT oid FROM pg_database WHERE datname = current_database())}),
	'no pinned buffer');
is(ask(q{SELECT num_rows FROM peek_status(peek_query('SELECT * FROM t', NULL,
		'{"stash_threshold": 0}'))}), 20_000, 'queries go on');

# Whatever else was said was not foreseen: a leak, a defect, a crash.
my @foreseen = (
	qr/canceling (?:statement|peek) due to (?:statement timeout|user request)/,
	qr/terminating connection due to administrator command/,
	qr/connection to client lost/,
	qr/division by zero/,
	qr/result exceeds max size of/,
	qr/current transaction is aborted/,
	qr/there is no transaction in progress/,
	qr/(?:ROLLBACK TO SAVEPOINT|SAVEPOINT) can only be used in transaction blocks/,
	qr/savepoint "." does not exist/,
	qr/PID \d+ is not a PostgreSQL (?:server|backend) process/);
my @unforeseen = grep {
	my $line = $_;
	$line =~ /(?:WARNING|ERROR|FATAL|PANIC|TRAP|terminated by signal)/
	  && !grep { $line =~ $_ } @foreseen
} split /\n/, slurp_file($node->logfile);
is(join("\n", grep { defined } @unforeseen[ 0 .. 19 ]),
	'', 'nothing unforeseen in the log');

$node->stop;
done_testing();
