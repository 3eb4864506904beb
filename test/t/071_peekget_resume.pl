# A download that breaks off, whatever breaks it, goes on where it was: what is
# in the file in the end is what an undisturbed download writes, byte for byte.
# What cannot go on says so, and what is not ours any more is noticed.
#
# PEEKSTASH_SEED repeats a run.

use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin;

use PeekGet;
use PeekTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

my $KILLS = 20;
my $ROWS = 20_000;
my $seed = $ENV{PEEKSTASH_SEED} || int rand 1e9;
my $node = peek_start('resume');
my $dir = PostgreSQL::Test::Utils::tempdir();
my $file = "$dir/file";
my (%wanted, $broken_off);

srand $seed;
note "PEEKSTASH_SEED=$seed";

$node->safe_psql('postgres', qq{
	CREATE TABLE item (k int PRIMARY KEY, v text, n numeric, b bytea);
	INSERT INTO item SELECT i, E'a "b"\\n' || repeat(md5(i::text), i % 16), i / 7.0, decode(md5(i::text), 'hex')
	FROM generate_series(1, $ROWS) AS i;
	VACUUM ANALYZE item;
});
my @item = ('--index', 'item');
# small pages and many checkpoints: there are many moments
my @often = ('--page-bytes', '16kB', '--checkpoint', '0.01');
# it takes its time
my @slow = ('--page-bytes', '2kB', '--checkpoint', '0.05');

foreach my $format (qw(text csv binary jsonl))
{
	$wanted{$format} = peekget($node, @item, '--format', $format)->{out};
}

sub complete_ok
{
	my ($format, $test_name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	ok(slurp($file) eq $wanted{$format}, "$test_name: the file is as it must be")
	  or diag -s $file, ' bytes and not ', length $wanted{$format};
	ok(!-e "$file.peekget" && !-e "$file.peekget.tmp", "$test_name: no state file");
	unlink $file;
}

# Starts a download that is slow, and returns when it is in the middle.
sub start_slow
{
	my (@args) = @_;
	my $run = peekget_start($node, @item, @slow, '-o', $file, @args);

	foreach (1 .. 1000)
	{
		my $state = eval { state_of($file) };
		return $run if $state && ($state->{rows} || 0) > 100;
		usleep(10_000);
	}
	die "it does not begin: $run->{err}";
}


# Killed at any moment

foreach my $format (qw(text csv binary jsonl))
{
	foreach my $jobs (1, 4)
	{
		my ($kills, $middle) = (0, 0);
		my $run;

		do
		{
			$run = peekget_start($node, @item, @often, '--format', $format, '-j', $jobs,
				'-o', $file, '--resume', '--quiet');
			if ($kills < $KILLS)
			{
				usleep(rand 120_000);
				kill 'KILL', $run->{pid};
			}
			peekget_result($run);
			if ($run->{status} == 1009)
			{
				my $state = eval { state_of($file) };

				$kills++;
				$middle++ if $state && $state->{rows} > 0 && $state->{rows} < $ROWS;
			}
			elsif ($kills < $KILLS && $run->{status} == 0)
			{
				# it was faster: another one, for the rest of the kills
				complete_ok($format, "$format, -j $jobs, after $kills kills");
			}
			# there is nothing more to do, but the process was killed
			elsif ($run->{status} == 6 && !-e "$file.peekget")
			{
				complete_ok($format, "$format, -j $jobs, after $kills kills, at the end");
			}
			else
			{
				is($run->{status}, 0, "$format, -j $jobs: resumed after $kills kills") or diag $run->{err};
			}
		} until ($run->{status} == 0 && $kills >= $KILLS);
		complete_ok($format, "$format, -j $jobs, $kills kills");
		note "$middle of $kills in the middle";
		$broken_off += $middle;
	}
}
cmp_ok($broken_off, '>', 40, 'many of them broke off in the middle');
# who is killed before the state file is there has submitted nothing; answers
# of those killed after it are released by their successors
is(kept_answers($node), '0', 'no answer is kept');


# Signals

foreach (['INT', 130], ['TERM', 143])
{
	my ($signal, $status) = @$_;
	my $run = start_slow('-j', 2);

	kill $signal, $run->{pid};
	is(peekget_result($run)->{status}, $status, "SIG$signal: the status");
	like($run->{err}, qr/(\d+) rows are safe in "\Q$file\E"\nTo go on: peekget --resume -o \Q$file\E\n/,
		"SIG$signal: it says how to go on");
	is(kept_answers($node), '1', "SIG$signal: the answer waits");
	$run = peekget_ends($node, 0, qr/^peekget: $ROWS rows, .*; (\d+) of them in /, "SIG$signal: it goes on",
		'--resume', '-o', $file);
	my ($rest) = $run->{err} =~ /; (\d+) of them/;
	cmp_ok($rest, '<', $ROWS, "SIG$signal: with the rest");
	complete_ok('text', "SIG$signal");
}


# The server

{
	my $run = start_slow('-j', 2);

	foreach (1 .. 5)
	{
		$node->safe_psql('postgres', q{SELECT pg_terminate_backend(pid)
			FROM pg_stat_activity WHERE application_name = 'peekget'});
		usleep(100_000);
	}
	is(peekget_result($run)->{status}, 0, 'connections terminated: it goes on') or diag $run->{err};
	complete_ok('text', 'connections terminated');

	$run = start_slow('-j', 2);
	$node->restart('fast');
	is(peekget_result($run)->{status}, 0, 'fast restart: it goes on') or diag $run->{err};
	complete_ok('text', 'fast restart');

	$run = start_slow('-j', 2, '--retry', 1);
	$node->stop('fast');
	is(peekget_result($run)->{status}, 3, 'server gone: it gives up');
	like($run->{err}, qr/error: giving up after 1 seconds: .*To go on: /s, 'server gone: and says so');
	peekget_ends($node, 3, qr/error: connection to server .*To go on: /s, 'server gone: still',
		'--resume', '-o', $file);
	$node->start;
	peekget_ends($node, 0, qr/$ROWS rows/, 'server gone: resumed when it is back', '--resume', '-o', $file);
	complete_ok('text', 'server gone');
	is(kept_answers($node), '0', 'no answer is kept');

	$run = start_slow('-j', 2);
	$node->stop('immediate');
	$node->start;
	is(peekget_result($run)->{status}, 5, 'crash: the status');
	like($run->{err}, qr/42704: peek ".*" does not exist\n.*\nThe answer was lost in a crash of the server, .*\nA new submit is needed: run peekget with --force /s,
		'crash: it says that the answer is lost, and what to do');
	my $rows = state_of($file)->{rows};
	cmp_ok($rows, '>', 0, 'crash: what was fetched is still there');
	peekget_ends($node, 5, qr/lost in a crash of the server/, 'crash: resuming says the same', '--resume', '-o', $file);
	peekget_ends($node, 6, qr/is an unfinished download\nTo go on with it: --resume/,
		'an unfinished download is not overwritten', @item, '-o', $file);
	peekget_ends($node, 0, qr/$ROWS rows/, '--force begins anew', @item, '-o', $file, '--force');
	complete_ok('text', '--force');

	# killed by one of its kind: the postmaster stays, the stash does not
	$run = start_slow();
	my $backend = peek_session($node);
	kill 'KILL', $backend->pid;
	is(peekget_result($run)->{status}, 5, 'another backend killed: the status');
	like($run->{err}, qr/lost in a crash of the server/, 'another backend killed: the answer is lost');
	eval { $backend->quit };
	$node->poll_query_until('postgres', 'SELECT true');

	# expired meanwhile
	unlink $file, "$file.peekget";
	$run = start_slow('--ttl', '1s');
	kill 'TERM', $run->{pid};
	peekget_result($run);
	usleep(1_200_000);
	peekget_ends($node, 5, qr/has expired\n.*life of the answer is over.*--force/s, 'expired: it says so', '--resume', '-o', $file);
	unlink $file, "$file.peekget";
	$run = start_slow();
	kill 'TERM', $run->{pid};
	peekget_result($run);
	my $old = state_of($file)->{handle};
	peekget_ends($node, 0, qr/the answer is kept/, '--force once more', @item, '-o', $file, '--force', '--keep');
	is($node->safe_psql('postgres', "SELECT count(*) FROM peekstash.peeks WHERE handle = '$old'"),
		'0', '--force gives the old answer back');
	$node->safe_psql('postgres', 'SELECT peek_release(handle) FROM peekstash.peeks');

	# gone before its time
	unlink $file;
	$run = start_slow();
	kill 'TERM', $run->{pid};
	peekget_result($run);
	$node->safe_psql('postgres', 'SELECT peek_release(handle) FROM peekstash.peeks');
	peekget_ends($node, 5, qr/expired, was released, or was lost/, 'released by somebody', '--resume', '-o', $file);
	unlink $file, "$file.peekget";
}


# Submitting and clearing up

{
	my $guard = arm_stop($node, 'walk-end', 'wait');
	my $run = peekget_start($node, @item, '-o', $file);
	my $walks = 'SELECT walks_inline FROM peekstash.stat';

	wait_for_stop($node, 'walk-end');
	kill 'KILL', $run->{pid};
	peekget_result($run);
	is(state_of($file)->{phase}, 'submit', 'killed while it submits: the phase');
	my $before = $node->safe_psql('postgres', $walks);
	$run = peekget_start($node, '--resume', '-o', $file);
	usleep(300_000);
	$guard->release;
	is(peekget_result($run)->{status}, 0, 'killed while it submits: resumed') or diag $run->{err};
	is($node->safe_psql('postgres', $walks) - $before, 1, 'killed while it submits: one walk is enough');
	complete_ok('text', 'killed while it submits');

	# the connection is lost while it submits
	$guard = arm_stop($node, 'walk-end', 'wait');
	$run = peekget_start($node, @item, '-o', $file);
	my $pid = wait_for_stop($node, 'walk-end');
	$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
	$guard->release;
	is(peekget_result($run)->{status}, 0, 'terminated while it submits: submitted again') or diag $run->{err};
	complete_ok('text', 'terminated while it submits');

	# all rows are there, the answer is not released yet
	my $locker = peek_session($node);
	$run = start_slow('-j', 2);
	$locker->query('BEGIN; LOCK TABLE peekstash.handle, peekstash.outcome IN SHARE MODE');
	foreach (1 .. 1000)
	{
		last if state_of($file)->{phase} eq 'complete';
		usleep(10_000);
	}
	is(state_of($file)->{phase}, 'complete', 'killed while it releases: the phase');
	kill 'KILL', $run->{pid};
	peekget_result($run);
	$locker->query('COMMIT');
	$locker->quit;
	peekget_ends($node, 0, qr/^\z/, 'killed while it releases: resumed', '--resume', '-o', $file);
	complete_ok('text', 'killed while it releases');
	is(kept_answers($node), '0', 'no answer is kept');

	peekget_ends($node, 6, qr/nothing to resume/, 'nothing to resume', '--resume', '-o', $file);
	ok(!-e $file, 'nothing to resume: and no file is made');
	peekget_ends($node, 0, qr/$ROWS rows/, 'nothing to resume, but a request', @item, '--resume', '-o', $file);
	peekget_ends($node, 6, qr/nothing to resume.*complete/s, 'a complete file', @item, '--resume', '-o', $file);
	complete_ok('text', 'a complete file stays');
}


# No room

{
	my $limit = 2 * 1024 * 1024;
	local %ENV = (%ENV, PGHOST => $node->host, PGPORT => $node->port, PGDATABASE => 'postgres');
	my $command = "ulimit -f " . $limit / 512 . "; exec peekget --index item -j 2 -o $file --page-bytes 64kB";
	my ($out, $err) = ('', '');
	my $run = IPC::Run::start([ 'sh', '-c', $command ], '>', \$out, '2>', \$err);

	$run->finish;
	is($run->full_result(0) >> 8, 4, 'no room: the status');
	like($err, qr/error: could not write to "\Q$file\E": File too large\n.*rows are safe/s, 'no room: it says so');
	cmp_ok(state_of($file)->{bytes}, '>', $limit - 300_000, 'no room: what had room is kept');
	is(-s $file, state_of($file)->{bytes}, 'no room: and nothing else');
	peekget_ends($node, 0, qr/$ROWS rows/, 'no room: it goes on when there is some', '--resume', '-o', $file);
	complete_ok('text', 'no room');
}


# What is there is not what was left

{
	my $run = start_slow('--format', 'csv', '--header');
	kill 'TERM', $run->{pid};
	peekget_result($run);

	my $content = slurp($file);
	my $state = slurp("$file.peekget");
	my $bytes = state_of($file)->{bytes};
	my @resume = ('--resume', '-o', $file);

	is(length $content, $bytes, 'the file ends where the state file says');
	foreach my $place (0, int $bytes / 2, $bytes - 1)
	{
		my $other = $content;
		substr($other, $place, 1) ^= "\x01";
		spit($file, $other);
		peekget_ends($node, 6, qr/is not as it was left: its content has changed, from byte 0 on\n.*--force/s,
			"byte $place is another one", @resume);
		is(slurp($file), $other, 'nothing is written to it');
	}
	spit($file, substr $content, 0, $bytes - 1);
	peekget_ends($node, 6, qr/it has \d+ bytes, and had $bytes/, 'the file is shorter', @resume);
	unlink $file;
	peekget_ends($node, 6, qr/it has 0 bytes, and had $bytes/, 'the file is gone', @resume);
	ok(!-e $file, 'and is not made');
	spit($file, $content);

	foreach (
		[ 'damaged', qr/it is damaged/, $state =~ s/^rows \d/rows 9/mr ],
		[ 'cut off', qr/it is damaged/, substr $state, 0, 200 ],
		[ 'empty', qr/not a state file/, '' ],
		[ 'something else', qr/not a state file/, "hello\n" x 10 ])
	{
		my ($name, $says, $other) = @$_;
		spit("$file.peekget", $other);
		peekget_ends($node, 6, $says, "the state file is $name", @resume);
	}
	spit("$file.peekget", $state);

	foreach (
		[ '--query', 'SELECT 1' ], [ '--index', 'other' ], [ '--format', 'text' ],
		[ '--handle', '0190a1b2-0000-7000-8000-000000000001' ], [ @item, '--limit', 5 ],
		[ @item, '--filter', 'k = $1' ], [ @item, '--backward' ], [ @item, '--columns', 'k' ])
	{
		peekget_ends($node, 6, qr/the unfinished download has another/, "resumed as something else: @$_",
			@resume, @$_);
	}

	# what was never made durable does not count
	spit($file, $content . 'x' x 100_000);
	peekget_ends($node, 0, qr/$ROWS rows/, 'more in the file than was durable', @resume, @item,
		'--format', 'csv', '--header', '--verify');
	is(slurp($file), "k,v,n,b\n$wanted{csv}", 'it is cut off');
	unlink $file;

	# encoding and settings are those of the first run
	{
		local $ENV{PGOPTIONS} = '-c bytea_output=escape';
		local $ENV{PGCLIENTENCODING} = 'LATIN1';
		$run = start_slow();
		kill 'TERM', $run->{pid};
		peekget_result($run);
	}
	peekget_ends($node, 0, qr/$ROWS rows/, 'other settings when it is resumed', @resume);
	{
		local $ENV{PGOPTIONS} = '-c bytea_output=escape';
		is(slurp($file), copy_out($node, 'SELECT * FROM item ORDER BY k', 'FORMAT text'),
			'those of the beginning count');
	}
}

# Many segments of the checksum: a file of some size, changed in one of them
{
	unlink $file;
	$node->safe_psql('postgres', q{
		CREATE TABLE large (k int PRIMARY KEY, v text);
		INSERT INTO large SELECT i, repeat(md5(i::text), 300) FROM generate_series(1, 2500) AS i});
	my $run = peekget_start($node, '--index', 'large', '-o', $file, '--checkpoint', '0.05', '--page-bytes', '20kB', '--keep');
	usleep(20_000) until (eval { state_of($file)->{bytes} } || 0) > 9_000_000;
	kill 'KILL', $run->{pid};
	peekget_result($run);
	my $content = slurp($file);
	substr(my $other = $content, 5_000_000, 1) = "\x01";
	spit($file, $other);
	peekget_ends($node, 6, qr/from byte 4194304 on/, 'the segment that has changed is named', '--resume', '-o', $file);
	spit($file, $content);
	peekget_ends($node, 0, qr/the answer is kept/, 'as it was it can be resumed', '--resume', '-o', $file);
	is(slurp($file), copy_out($node, 'SELECT * FROM large ORDER BY k', 'FORMAT text'), 'and is complete');
	$node->safe_psql('postgres', 'SELECT peek_release(handle) FROM peekstash.peeks');
}

is(kept_answers($node), '0', 'no answer is kept');
no_leftovers($node);
done_testing();
