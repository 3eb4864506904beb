# What a peek takes of its backend, and that it gives all of it back.
#
# An answer that grows past the threshold leaves memory while it is walked, so
# a backend stays small whatever the size of the answer.  Measured is RssAnon:
# the pages of the process that are neither shared buffers nor files.  It is
# read where it is largest, at the end of the walk (stop point "walk-end") and
# in the middle of reading, and by sampling from outside all the time.  The
# same answer held in memory serves as the counter-proof: it must show.
#
# The transactions are READ ONLY where the answer shall go to the spool, a
# temporary file: nothing may be stashed there.

use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin;

use PeekTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

plan skip_all => 'needs /proc' unless -r "/proc/$$/status";

my $MB = 1024;    # in kB, as /proc speaks
my $node = peek_start('memory', conf => qq{
	work_mem = 4MB
	log_temp_files = 0
});
$node->safe_psql('postgres', q{
	CREATE EXTENSION pg_buffercache;

	-- 64 MB, in rows that are neither compressed nor stored out of line
	CREATE UNLOGGED TABLE big (k int, v text);
	INSERT INTO big SELECT i, repeat(md5(i::text), 32)
	FROM generate_series(1, 65536) AS i;
	ALTER TABLE big ADD PRIMARY KEY (k);

	-- as much by the number of rows
	CREATE UNLOGGED TABLE narrow (k int);
	INSERT INTO narrow SELECT generate_series(1, 800000);
	CREATE INDEX narrow_k ON narrow (k);

	-- equal rows, which fold into one
	CREATE UNLOGGED TABLE same (k int);
	INSERT INTO same SELECT 1 FROM generate_series(1, 300000);
	CREATE INDEX same_k ON same (k);

	CREATE VIEW own_context_bytes AS
		SELECT sum(total_bytes) AS bytes FROM pg_backend_memory_contexts;
	CREATE VIEW own_locks AS
		SELECT locktype, relation::regclass, mode FROM pg_locks
		WHERE pid = pg_backend_pid()
		  AND relation IN (SELECT oid FROM pg_class
						   WHERE relname ~ '^(big|narrow|same)');
	CREATE VIEW pins AS
		SELECT relfilenode, pinning_backends FROM pg_buffercache
		WHERE pinning_backends > 0
		  AND relfilenode IN (SELECT relfilenode FROM pg_class
							  WHERE relname ~ '^(big|narrow|same)');
	VACUUM ANALYZE;
});

# The size of a process in kB.
sub rss_anon
{
	my ($pid) = @_;

	return slurp_file("/proc/$pid/status") =~ /^RssAnon:\s+(\d+) kB/m
	  ? $1
	  : die "no RssAnon of process $pid";
}

# Lets a session run a query, and returns the largest size seen meanwhile.
sub peak_of
{
	my ($session, $query) = @_;
	my $file = PostgreSQL::Test::Utils::tempdir() . '/samples';
	my $pid = $session->pid;

	# A process of its own reads the size a thousand times a second.
	my $sampler = fork;
	die "fork: $!" unless defined $sampler;
	if ($sampler == 0)
	{
		my $stop = 0;
		my $peak = 0;
		local $SIG{TERM} = sub { $stop = 1 };
		until ($stop)
		{
			my $size = eval { rss_anon($pid) } || last;
			$peak = $size if $size > $peak;
			usleep(1000);
		}
		open my $out, '>', $file;
		print $out $peak;
		close $out;
		require POSIX;
		POSIX::_exit(0);
	}

	my ($out, $err) = $session->query($query);
	kill 'TERM', $sampler;
	waitpid $sampler, 0;
	die "$query: $err" if $err =~ /ERROR|FATAL/;
	return slurp_file($file);
}

# A session that has read and peeked before, and its size at rest.
sub warm_session
{
	my $session = peek_session($node);

	$session->query('SET default_transaction_read_only = on');
	$session->query("SELECT count(*) FROM $_") for qw(big narrow same pins);
	$session->query(
		"SELECT count(*) FROM peek(NULL::$_->[0], '$_->[1]',"
		  . " upper => 10, filter => 'k % 2 < 2', order_by => 'k', row_limit => 10,"
		  . " options => '{\"stash_threshold\": 0}')")
	  for ([ 'big', 'big_pkey' ], [ 'narrow', 'narrow_k' ],
		[ 'same', 'same_k' ]);
	$session->query("COPY (SELECT peek(NULL::big, lower => 65500)) TO '/dev/null'");
	$session->query('SELECT bytes FROM own_context_bytes');
	$session->query('TABLE own_locks');
	return ($session, rss_anon($session->pid));
}

sub small
{
	my ($size, $idle, $allowed, $test_name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $grown = $size - $idle;
	note "$test_name: grown by $grown kB from $idle kB";
	return cmp_ok($grown, '<=', $allowed, $test_name);
}

my $NO_CAP = q{'{"max_result_size": -1}'};
my $ALL = "peek(NULL::big, options => $NO_CAP)";
my $SOME = 'peek(NULL::big, upper => 16000)';    # four times work_mem
my $BOUND = 8 * $MB + 4 * $MB;


# Size while an answer of 64 MB is walked and read

{
	my ($session, $idle) = warm_session();
	my $bytes = $session->query('SELECT bytes FROM own_context_bytes');

	# Reading goes on in a select list, so that nothing but peek holds rows,
	# and COPY writes where they take no memory either.
	my $peak = peak_of($session, "COPY (SELECT $ALL) TO '/dev/null'");
	small($peak, $idle, $BOUND, 'an answer of 64 MB: peak of the backend');

	$peak = peak_of($session,
		"COPY (SELECT peek(NULL::narrow, 'narrow_k', options => $NO_CAP)) TO '/dev/null'");
	small($peak, $idle, $BOUND, '800,000 narrow rows: peak of the backend');

	$peak = peak_of($session,
		"COPY (SELECT peek(NULL::same, 'same_k', options => $NO_CAP)) TO '/dev/null'");
	small($peak, $idle, 2 * $MB, '300,000 equal rows: peak of the backend');

	# The sort, and the spool behind it, have work_mem each.
	$peak = peak_of($session,
		"COPY (SELECT peek(NULL::big, order_by => 'v', options => $NO_CAP)) TO '/dev/null'");
	small($peak, $idle, $BOUND + 4 * $MB, '64 MB sorted: peak of the backend');

	# PostgreSQL's own store of a function in FROM has work_mem, too.
	$peak = peak_of($session,
		"SELECT count(*) FROM peek(NULL::big, options => $NO_CAP)");
	small($peak, $idle, $BOUND + 4 * $MB, '64 MB in FROM: peak of the backend');

	# The end of the walk and the middle of the answer, without luck.
	my $guard = arm_stop($node, 'walk-end', 'wait');
	$session->query('BEGIN');
	$session->query("DECLARE c NO SCROLL CURSOR FOR SELECT $ALL");
	$session->send('FETCH 1 FROM c');
	my $pid = wait_for_stop($node, 'walk-end');
	small(rss_anon($pid), $idle, $BOUND, '64 MB: at the end of the walk');
	$guard->release;
	my ($out, $err) = $session->result;
	like($out, qr/^\(1,/, 'the first row comes out of the spool');
	$session->query('MOVE 40000 FROM c');
	like($session->query('FETCH 1 FROM c'), qr/^\(40002,/, 'so do many more');
	small(rss_anon($pid), $idle, $BOUND, '64 MB: in the middle of reading');
	cmp_ok(
		$session->query('SELECT coalesce(sum(size), 0) / 1024 FROM pg_ls_tmpdir()'),
		'>', 60 * $MB, 'the answer is in a temporary file');
	$session->query('COMMIT');
	is($session->query('SELECT bytes FROM own_context_bytes'),
		$bytes, 'all of it is given back after the cursor');

	# The counter-proof.
	$peak = peak_of($session,
		"COPY (SELECT peek(NULL::big, options => '{\"max_result_size\": -1,"
		  . " \"stash_threshold\": \"512MB\"}')) TO '/dev/null'");
	cmp_ok($peak - $idle, '>', 60 * $MB,
		'the same answer, held, would have been seen');
	is($session->query('SELECT bytes FROM own_context_bytes'),
		$bytes, 'even that is given back afterwards');
	small(rss_anon($pid), $idle, $BOUND,
		'the process is small again after all this');
	$session->quit;
}


# An error in the middle

my %error = (
	'the cap' => q{peek(NULL::big, options => '{"max_result_size": "32MB"}')},
	'the row iteration limit' =>
	  q{peek(NULL::big, options => '{"row_iteration_limit": 40000}')},
	'the filter' => q{peek(NULL::big, filter => '1 / (40000 - k) < 2')},
	'the filter under a sort' =>
	  q{peek(NULL::big, filter => '1 / (40000 - k) < 2', order_by => 'v')});

foreach my $what (sort keys %error)
{
	my ($session, $idle) = warm_session();
	my $bytes = $session->query('SELECT bytes FROM own_context_bytes');

	my ($out, $err) = $session->query("SELECT $error{$what}");
	is($out, '', "no row comes before an error ($what)");
	like($err, qr/ERROR:  (result exceeds max size of 32 MB|peek exceeded the row iteration limit of 40000|division by zero)/,
		"$what fails in the middle of the walk");

	# What the server caches for itself on the way is no leak.
	cmp_ok($session->query('SELECT bytes FROM own_context_bytes') - $bytes,
		'<=', 64 * 1024, "memory contexts are back after an error ($what)");
	small(rss_anon($session->pid), $idle, 4 * $MB,
		"memory is back after an error ($what)");
	is($session->query('SELECT count(*) FROM pg_ls_tmpdir()'),
		'0', "no temporary file after an error ($what)");
	is($session->query('SELECT count(*) FROM pins'),
		'0', "no pinned buffer after an error ($what)");
	$session->quit;
}


# 200 errors in one transaction, each swallowed by a PL/pgSQL block

{
	my ($session, $idle) = warm_session();
	my $guard;

	# For each kind of error, the state after 20 and after 200 of them.
	$session->query(q{
		SET default_transaction_read_only = off;
		CREATE FUNCTION swallow(call text, times int) RETURNS text
		LANGUAGE plpgsql AS $$
		DECLARE
			caught int := 0;
		BEGIN
			FOR i IN 1 .. times LOOP
				BEGIN
					EXECUTE call;
				EXCEPTION WHEN configuration_limit_exceeded
							OR division_by_zero OR internal_error THEN
					caught := caught + 1;
				END;
			END LOOP;
			RETURN format('%s of %s caught', caught, times);
		END $$;
		SET default_transaction_read_only = on;
		SET work_mem = '64kB'});

	my $small = q{"stash_threshold": 0, "stash_batch_size": 1000};
	foreach my $case (
		[ 'the cap', qq{PERFORM peek(NULL::big, row_limit => 300,
			options => '{"max_result_size": 200, $small}')} ],
		[ 'the row iteration limit', qq{PERFORM peek(NULL::big,
			options => '{"row_iteration_limit": 200, $small}')} ],
		[ 'the filter', qq{PERFORM peek(NULL::big,
			filter => '1 / (200 - k) < 2', options => '{$small}')} ],
		[ 'the filter under a sort', qq{PERFORM peek(NULL::big, upper => 300,
			filter => '1 / (200 - k) < 2', order_by => 'v',
			options => '{$small}')} ],
		[ 'a list of keys', qq{PERFORM peek(NULL::big,
			keys => ARRAY(SELECT generate_series(1, 300)),
			options => '{"row_iteration_limit": 200, $small}')} ],
		[ 'an error while the answer is read', qq{PERFORM 1 / (200 - (p).k)
			FROM (SELECT peek(NULL::big, upper => 300,
							  options => '{$small}') AS p) AS q} ],
		[ 'a stop point in the walk', qq{PERFORM peek(NULL::big,
			upper => 300, options => '{$small}')}, 'walk-end' ])
	{
		my ($what, $call, $point) = @$case;
		$call =~ s/PERFORM/SELECT/;
		$guard = arm_stop($node, $point, 'error') if $point;

		my $offset = -s $node->logfile;
		$session->query('BEGIN');
		my $run = sub {
			my ($times) = @_;
			return $session->query(qq{SELECT swallow(\$call\$$call\$call\$, $times)});
		};
		$run->(20);
		my $bytes = $session->query('SELECT bytes FROM own_context_bytes');
		is($run->(200), '200 of 200 caught', "200 errors are caught ($what)");
		cmp_ok(
			$session->query('SELECT bytes FROM own_context_bytes') - $bytes,
			'<=', 16 * 1024, "200 errors leak no memory ($what)");
		# one by one: a query over all buffers has a file of its own
		is( join(', ',
				map { $session->query("SELECT count(*) FROM $_") . " $_" }
				  qw(own_locks pg_ls_tmpdir() pins)),
			'0 own_locks, 0 pg_ls_tmpdir(), 0 pins',
			"200 errors leave nothing in the transaction ($what)");
		cmp_ok(
			scalar(() = slurp_file($node->logfile, $offset) =~
				  /LOG:  temporary file: .*\n.*CONTEXT:  PL.pgSQL function swallow/g),
			'>=', 220, "each of them had a temporary file ($what)");
		$session->query('COMMIT');
		$guard->release if $guard;
		undef $guard;
	}
	is($session->query('SELECT count(*) FROM peek(NULL::big, upper => 9)'),
		'9', 'the session goes on peeking');
	small(rss_anon($session->pid), $idle, 4 * $MB, 'and is as small as before');
	$session->quit;
}


# The end of reading comes early

{
	my ($session) = warm_session();
	my $offset = -s $node->logfile;
	my $files = 'SELECT count(*) FROM pg_ls_tmpdir()';

	# in a transaction that goes on
	$session->query('BEGIN');
	$session->query("DECLARE c CURSOR FOR SELECT $SOME");
	$session->query('FETCH 1 FROM c');
	is($session->query($files), '1', 'a cursor has its temporary file');
	$session->query('CLOSE c');
	is($session->query($files), '0', 'it is gone when the cursor is closed');
	is($session->query('SELECT count(*) FROM pins'),
		'0', 'no buffer stays pinned');

	$session->query("DECLARE c CURSOR FOR SELECT $SOME");
	$session->query('FETCH 1 FROM c');
	$session->query('COMMIT');
	is($session->query($files), '0', 'and when the transaction ends');

	$session->query('BEGIN');
	$session->query("DECLARE c CURSOR FOR SELECT $SOME");
	$session->query('FETCH 1 FROM c');
	$session->query('ROLLBACK');
	is($session->query($files), '0', 'and when it is rolled back');

	$session->query('BEGIN');
	$session->query('SAVEPOINT s');
	$session->query("DECLARE c CURSOR FOR SELECT $SOME");
	$session->query('FETCH 1 FROM c');
	$session->query('ROLLBACK TO s');
	is($session->query($files), '0', 'and with its savepoint');
	$session->query('COMMIT');

	# one open before the savepoint, first read after it
	$session->query('BEGIN');
	$session->query("DECLARE c CURSOR FOR SELECT $SOME");
	$session->query('SAVEPOINT s');
	$session->query('FETCH 1 FROM c');
	$session->query('RELEASE s');
	like($session->query('FETCH 1 FROM c'), qr/^\(2,/,
		'a cursor survives the release of the savepoint it was first read in');
	$session->query('COMMIT');
	is($session->query($files), '0', 'and leaves nothing');

	$session->query('BEGIN');
	foreach my $early (
		[ "SELECT (p).k FROM (SELECT $SOME AS p LIMIT 1) AS q", '1', 'LIMIT 1' ],
		[ "SELECT k FROM $SOME LIMIT 1", '1', 'LIMIT 1 over FROM' ],
		[ "SELECT EXISTS (SELECT $SOME)", 't', 'EXISTS' ],
		[ "SELECT count(*) FROM generate_series(1, 3) AS i,"
			. " LATERAL (SELECT peek(NULL::big, lower => i, upper => 16000) AS p LIMIT 1) AS q",
			'3', 'LIMIT in a LATERAL subquery' ],
		[ "SELECT count(*) FROM generate_series(1, 3) AS i,"
			. " LATERAL (SELECT * FROM peek(NULL::big, lower => i, upper => 16000) LIMIT 1) AS q",
			'3', 'LIMIT over FROM in a LATERAL subquery' ],
		[ "SELECT (SELECT (p).k FROM (SELECT peek(NULL::big, lower => i, upper => 16000) AS p"
			. " OFFSET 5 LIMIT 1) AS q) FROM generate_series(7, 7) AS i",
			'12', 'a scalar subquery' ])
	{
		my ($query, $wanted, $what) = @$early;

		is($session->query($query), $wanted, "$what ends an answer early");
		is( $session->query($files) . ' '
			  . $session->query('SELECT count(*) FROM pins'),
			'0 0', "$what leaves neither file nor pin");
	}
	is( $session->query(q{
			DO $$
			DECLARE
				r record;
			BEGIN
				FOR r IN SELECT peek(NULL::big, upper => 16000) LOOP
					EXIT;
				END LOOP;
			END $$;
			SELECT count(*) FROM pg_ls_tmpdir()}),
		'0', 'EXIT from a loop over a peek leaves nothing');
	my ($out, $err) = $session->query(
		"SELECT 1 / (5000 - (p).k) FROM (SELECT $SOME AS p) AS q OFFSET 4000");
	like($err, qr/division by zero/, 'an error ends the reading of an answer');
	$session->query('ROLLBACK');
	is($session->query($files), '0', 'and leaves nothing');

	# a held cursor reads everything at commit
	$session->query('SET default_transaction_read_only = off');
	$session->query('BEGIN READ ONLY');
	$session->query(
		"DECLARE h CURSOR WITH HOLD FOR SELECT peek(NULL::big, upper => 3000)");
	$session->query('COMMIT');
	$session->query('MOVE 2999 FROM h');
	like($session->query('FETCH ALL FROM h'), qr/^\(3000,\w+\)$/,
		'a held cursor outlives the transaction');
	$session->query('CLOSE h');
	is($session->query($files), '0', 'and leaves nothing when it is closed');
	$session->quit;

	my $log = slurp_file($node->logfile, $offset);
	unlike($log, qr/WARNING/, 'the server warns of no leak');
}

# Nor does a session that goes away leave anything.
{
	my ($session) = warm_session();

	$session->query('BEGIN');
	$session->query("DECLARE c CURSOR FOR SELECT $SOME");
	$session->query('FETCH 1 FROM c');
	$session->disconnect;
	no_leftovers($node, 'postgres', 'after a client that left its cursor open');

	($session) = warm_session();
	$session->query('BEGIN');
	$session->query("DECLARE c CURSOR FOR SELECT $SOME");
	$session->query('FETCH 1 FROM c');
	$node->safe_psql('postgres', 'SELECT pg_terminate_backend(' . $session->pid . ')');
	$session->disconnect;
	no_leftovers($node, 'postgres', 'after a backend ended with its cursor open');

	# temp_file_limit reached while the answer leaves memory
	($session) = warm_session();
	my ($out, $err) =
	  $session->query("SET temp_file_limit = '8MB'; SELECT $ALL");
	like($err, qr/temporary file size exceeds temp_file_limit/,
		'temp_file_limit holds for an answer');
	is($out, '', 'no row comes before that error');
	is($session->query('SELECT count(*) FROM pg_ls_tmpdir()'),
		'0', 'nothing is left of what was written');
	$session->quit;
}

unlike(slurp_file($node->logfile), qr/WARNING|was terminated by signal|TRAP/,
	'no warning in the whole log');
no_leftovers($node);

done_testing();
