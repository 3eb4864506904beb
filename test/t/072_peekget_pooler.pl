# peekget through PgBouncer in transaction mode: four connections of the client
# share two of the server, no page finds what an earlier one left, and the head
# of the queue is never kept waiting by those behind it for long.

use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin;

use PeekGet;
use PeekPooler;
use PeekTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

plan skip_all => 'needs PgBouncer' unless pooler_is_there();

my $node = peek_start('peekget_pooler');
my $dir = PostgreSQL::Test::Utils::tempdir();
my $file = "$dir/file";

$node->safe_psql('postgres', q{
	CREATE TABLE item (k int PRIMARY KEY, v text, t timestamptz);
	INSERT INTO item SELECT i, repeat(md5(i::text), 4), timestamptz '2024-01-01' + i * interval '1 h'
	FROM generate_series(1, 50000) AS i;

	-- rows that are small when they are kept and large when they are sent
	CREATE TABLE packed (k int PRIMARY KEY, v text);
	INSERT INTO packed SELECT i, repeat(i::text, 200000 / length(i::text)) FROM generate_series(1, 400) AS i;
	VACUUM ANALYZE;
});
my %wanted = map {
	my $format = $_;
	$format => copy_out($node, 'SELECT * FROM item ORDER BY k', "FORMAT $format")
} qw(text csv binary);
my $packed = copy_out($node, 'SELECT * FROM packed ORDER BY k', 'FORMAT text');
my $pooler = pooler_start($node);

foreach my $jobs (1, 4)
{
	foreach my $format (sort keys %wanted)
	{
		my $run = peekget($pooler, '--index', 'item', '--format', $format, '-j', $jobs,
			'--page-bytes', '64kB');

		ok($run->{status} == 0 && $run->{out} eq $wanted{$format}, "$format, -j $jobs")
		  or diag "status $run->{status}\n$run->{err}";
	}
}
is($node->safe_psql('postgres', q{SELECT count(DISTINCT pid) FROM pg_stat_activity
		WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()}), '2',
	'the pooler has two connections');

# Links that may not go on have both of them, while the head waits for one.
{
	my $begin = time;
	my $run = peekget($pooler, '--index', 'packed', '-j', 4, '--page-bytes', '128kB');

	ok($run->{status} == 0 && $run->{out} eq $packed, 'rows larger than thought: all come')
	  or diag "status $run->{status}, " . length($run->{out}) . ' of ' . length($packed) . "\n$run->{err}";
	cmp_ok(time - $begin, '<', 40, 'and nobody waits for ever');
	note time - $begin;
}

# Nothing is left in the backends.
{
	my @before = map { $pooler->safe_psql('postgres', 'SHOW work_mem; SHOW search_path; SHOW bytea_output') } 1 .. 4;

	local $ENV{PGDATESTYLE} = 'German';
	my $run = peekget($pooler, '--index', 'item', '-j', 4, '--page-bytes', '1200kB');
	{
		local $ENV{PGDATESTYLE};
		is_deeply([ map { $pooler->safe_psql('postgres', 'SHOW work_mem; SHOW search_path; SHOW bytea_output') } 1 .. 4 ],
			\@before, 'no setting is left behind');
	}
	like($run->{out}, qr/^1\t[0-9a-f]+\t01\.01\.2024 01:00:00 UTC$/m, 'the settings of the client are heeded');
	unlike($run->{out}, qr/2024-/, 'on every page');
}

# What another client has left in a backend does not matter.
{
	$pooler->safe_psql('postgres', "SET IntervalStyle = 'iso_8601'; SET search_path = pg_catalog; SET work_mem = '64kB'");
	my $run = peekget($pooler, '--index', 'public.item', '-j', 2, '--page-bytes', '64kB');
	ok($run->{out} eq $wanted{text}, "settings of somebody else in one of the backends");
	$pooler->safe_psql('postgres', 'RESET ALL') foreach 1 .. 4;
}

# The pooler goes away, and comes back.
{
	my @args = ('--page-bytes', '4kB', '--checkpoint', '0.05', '-j', 4, '--retry', 30);
	my $run = peekget_start($pooler, '--index', 'item', '-o', $file, @args);

	usleep(10_000) until (eval { state_of($file)->{rows} } || 0) > 100;
	$node->safe_psql('postgres', q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()});
	usleep(200_000);
	pooler_stop($pooler);
	usleep(500_000);
	pooler_again($pooler);
	is(peekget_result($run)->{status}, 0, 'the pooler was gone for a while: it goes on') or diag $run->{err};
	ok(slurp($file) eq $wanted{text}, 'and has each row once');

	$run = peekget_start($pooler, '--index', 'item', '-o', $file, @args, '--retry', 1);
	usleep(10_000) until (eval { state_of($file)->{rows} } || 0) > 100;
	pooler_stop($pooler);
	is(peekget_result($run)->{status}, 3, 'the pooler is gone for good: it gives up');
	pooler_again($pooler);
	peekget_ends($pooler, 0, qr/50000 rows/, 'resumed when it is back', '--resume', '-o', $file);
	ok(slurp($file) eq $wanted{text}, 'and has each row once');
}

# A query
SKIP:
{
	skip 'the extension has no peek_query', 1
	  if $node->safe_psql('postgres', "SELECT to_regproc('peek_query') IS NULL") eq 't';
	is(peekget($pooler, '--query', 'SELECT k, t FROM item WHERE k % $1 = 0 ORDER BY k DESC',
			'--arg', 7, '-j', 4, '--page-bytes', '16kB')->{out},
		copy_out($node, 'SELECT k, t FROM item WHERE k % 7 = 0 ORDER BY k DESC', 'FORMAT text'), 'a query');
}

is(kept_answers($node), '0', 'no answer is kept');
pooler_end($pooler);
no_leftovers($node);
done_testing();
