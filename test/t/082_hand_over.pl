# 082_hand_over.pl
#	A walk that is handed over in its midst gives the rows of one that is not.
#
# Writers insert, delete and update rows, split pages, and vacuum, all the
# while.  Each run is a REPEATABLE READ transaction: a walk in the session, one
# that is handed over after a random number of positions, and a comparison of
# the two, which see the same rows.  With one worker the order is the same, too;
# backward, rows of equal keys can come in another order in any two walks.
#
# PEEKSTASH_SEED repeats the requests of a run.  PEEKSTASH_RUNS changes their
# number.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;

use IPC::Run;
use PeekOffload;
use PeekTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $seed = $ENV{PEEKSTASH_SEED} || time;
my $runs = $ENV{PEEKSTASH_RUNS} || 500;
srand $seed;
note "seed $seed";

my $node = peek_start('handover', conf => q{
	max_worker_processes = 32
	peekstash.permits = 16
	peekstash.slots = 64
});

$node->safe_psql('postgres', q{
	CREATE TABLE t (a int, b text, c int, d int NOT NULL, pad text);
	INSERT INTO t SELECT nullif(i % 50, 7), chr(97 + i % 26) || i % 300,
		nullif(i % 3, 1), i, repeat('x', i % 40) FROM generate_series(1, 5000) i;
	CREATE INDEX t_dup ON t (a);
	CREATE INDEX t_plain ON t (a) WITH (deduplicate_items = off);
	CREATE INDEX t_desc ON t (a DESC);
	CREATE INDEX t_first ON t (a NULLS FIRST, b DESC NULLS LAST);
	CREATE INDEX t_three ON t (c DESC, a, d DESC);
	CREATE INDEX t_text ON t (b text_pattern_ops);
	CREATE INDEX t_expr ON t (lower(b), (d / 100));
	CREATE INDEX t_part ON t (d) WHERE a > 20;
	CREATE INDEX t_incl ON t (c) INCLUDE (b, d);
	CREATE INDEX t_d ON t (d);
	VACUUM ANALYZE t;
});

# The first answer after a start sweeps, in READ COMMITTED only.
$node->safe_psql('postgres', q{SELECT peek_release(peek_submit('t_d', key => 1))});

# What each index is ordered by, as a list of expressions.
my %order = (
	t_dup => 'a', t_plain => 'a', t_desc => 'a', t_first => 'a, b',
	t_three => 'c, a, d', t_text => 'b', t_expr => 'lower(b), d / 100',
	t_part => 'd', t_incl => 'c', t_d => 'd');

# Bounds, keys and filters: what bounds the walk, what becomes a test on index
# tuples, and what waits for the row.
my %more = (
	t_dup => [ 'lower => 10', 'upper => 30', q{keys => '{3,40,12,900,5}'::int[]},
		q{filter => 'd % 3 = 0'}, q{filter => 'a IS NULL'} ],
	t_plain => [ 'lower => 10, upper => 45', 'key => 11', q{filter => 'b < ''k'''} ],
	t_desc => [ q{lower => 5, bounds => '()'}, q{filter => 'a BETWEEN 3 AND 33'} ],
	t_first => [ 'key => 9', q{filter => 'b > ''m'''}, q{filter => 'a IS NULL'},
		q{filter => 'a IN (1, 17, 30, 49)'} ],
	t_three => [ 'key => 2', q{key => 0, lower => 10}, q{filter => 'd < 2500'},
		q{filter => 'a > 10'} ],
	t_text => [ q{filter => 'b ~~ ''c%'''}, q{filter => 'd > 1000'} ],
	t_expr => [ q{lower => ROW('c'), upper => ROW('r')}, q{filter => 'd / 100 > 20'} ],
	t_part => [ 'upper => 4000', q{filter => 'a < 40'} ],
	t_incl => [ 'key => 2', q{filter => 'c = 0'}, q{filter => 'b > ''f'''} ],
	t_d => [ 'lower => 500, upper => 4500',
		'keys => ARRAY(SELECT generate_series(1, 6000, 2))',
		q{order_by => 'b, a'}, q{order_by => 'a DESC, d', row_limit => 700},
		q{order_by => 'lower(b) DESC', row_offset => 50} ]);

sub any { return $_[ int rand @_ ] }

# The statements of one run.
sub run_statements
{
	my ($number) = @_;
	my $index = any(sort keys %order);
	my $backward = rand() < 0.4;
	my $workers = any(1, 1, 2, 3);
	my $more = rand() < 0.6 ? any(@{ $more{$index} }) : '';
	my $limited = '';
	my @options = ('"enable_offload": true', '"workers": ' . $workers,
		'"inline_budget": ' . (1 + int rand any(30, 300, 3000)),
		'"yield_granularity": ' . any(1, 7, 100, 10000),
		'"stash_threshold": ' . any(0, 3000, 30000, 1048576),
		'"stash_batch_size": ' . any(500, 8192, 65536));
	my $request;
	my $order;
	my $sequence;

	# which rows a limit leaves is told only by an order without ties
	if ($more !~ /order_by/ && $workers == 1 && !$backward && rand() < 0.4)
	{
		$limited = ', row_offset => ' . int(rand 200);
		$limited .= ', row_limit => ' . int(rand 4000) if rand() < 0.5;
	}
	$backward = 0 if $more =~ /order_by/;
	$workers = 1 if $more =~ /order_by|keys/;
	$request = join ', ', grep { $_ ne '' } $more,
	  $backward ? 'backward => true' : '';
	$request = ", $request" if $request ne '';
	$request .= $limited;

	# forward the rows, backward only the keys have one order
	$order = $backward ? "row($order{$index})" : 'x';
	$sequence = $workers == 1 ? "md5(string_agg($order\::text, ','))" : q{''};
	my $digests = "count(*) AS n, coalesce($sequence, '') AS seq, "
	  . q{coalesce(md5(string_agg(x::text, ',' ORDER BY x::text)), '') AS set};
	my $definition = 'x (a int, b text, c int, d int, pad text)';
	my $options = join ', ', @options;

	return qq{
\\echo run $number $index $workers $request $options
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT $digests FROM peek_record('$index', NULL$request, options => '{"enable_stash": false}') $definition \\gset r_
SELECT peek_submit('$index', NULL$request, options => '{$options}') AS h \\gset
SELECT peek_wait(:'h', NULL) AS state \\gset
SELECT $digests FROM peek_fetch_record(:'h') $definition \\gset g_
SELECT driver, workers FROM peek_status(:'h') \\gset
SELECT peek_release(:'h') AS released \\gset
SELECT concat_ws('|', 'result', $number, :'state', :'driver', :workers,
	CASE WHEN :r_n = :g_n AND :'r_set' = :'g_set' THEN 'same rows' ELSE format('%s rows, wanted %s', :g_n, :r_n) END,
	CASE WHEN :'r_seq' = :'g_seq' THEN 'same order' ELSE 'other order' END);
COMMIT;
};
}

# A psql that runs them, and what it says.
sub start_runs
{
	my ($first, $count) = @_;
	my %psql = (out => '', err => '');
	my $script = join '', map { run_statements($_) } $first .. $first + $count - 1;

	$psql{run} = IPC::Run::start(
		[ 'psql', '-XAtq', '-d', $node->connstr('postgres') ],
		'<', \$script, '>', \$psql{out}, '2>', \$psql{err});
	return \%psql;
}

# Writers, until they are stopped.
my $dir = PostgreSQL::Test::Utils::tempdir();
append_to_file("$dir/churn.sql", q{
\set i random(1, 8000)
\set j random(1, 8000)
BEGIN;
DELETE FROM t WHERE d = :i;
INSERT INTO t SELECT nullif(:j % 50, 7), chr(97 + :j % 26) || :j % 300, nullif(:j % 3, 1), :j, repeat('y', :j % 60);
UPDATE t SET pad = pad || 'z' WHERE d = :j AND length(pad) < 90;
UPDATE t SET a = (a + 1) % 50, c = NULL WHERE d BETWEEN :i + 1 AND :i + 3;
COMMIT;
\sleep 3 ms
});
append_to_file("$dir/vacuum.sql", q{
VACUUM (INDEX_CLEANUP ON) t;
\sleep 20 ms
});
my $writers = IPC::Run::start(
	[ 'pgbench', '-n', '-c', '2', '-T', '3600', '-f', "$dir/churn.sql\@20",
		'-f', "$dir/vacuum.sql\@1", '-d', 'postgres', '-h', $node->host,
		'-p', $node->port ],
	'<', \undef, '>', \my $ignored, '2>', \my $complaints);

my @psqls = (start_runs(1, int($runs / 2)),
	start_runs(1 + int($runs / 2), $runs - int($runs / 2)));
$_->{run}->finish foreach @psqls;
$writers->kill_kill;

my %count;
my @wrong;
foreach my $psql (@psqls)
{
	my $request = '';

	is($psql->{err}, '', 'no run has failed');
	foreach (split /\n/, $psql->{out})
	{
		$request = $_ if /^run /;
		next unless /^result\|/;
		my (undef, $number, $state, $driver, $workers, $rows, $order) = split /\|/;

		$count{runs}++;
		$count{$driver}++;
		$count{"$workers workers"}++;
		push @wrong, "$_ ($request)"
		  if $state ne 'done' || $rows ne 'same rows' || $order ne 'same order';
	}
}
is($count{runs}, $runs, "$runs runs");
is(join("\n", @wrong), '', 'each gives the rows of the walk in the session');
cmp_ok($count{offloaded} || 0, '>=', 0.6 * $runs,
	'most of them have been handed over');
cmp_ok($count{'2 workers'} || 0, '>', $runs / 20, 'some to two workers');
cmp_ok($count{'3 workers'} || 0, '>', $runs / 20, 'some to three');
note join ', ', map { "$_: $count{$_}" } sort keys %count;

# Positions are counted once.  Nobody writes now, and nothing dead is left that
# one walk could remove for the next.
$node->safe_psql('postgres', 'VACUUM (INDEX_CLEANUP ON, FREEZE) t');
my $script = '';
foreach my $index (sort keys %order)
{
	foreach my $more ('', @{ $more{$index} })
	{
		foreach my $workers (1, 3)
		{
			my $request = $more eq '' ? '' : ", $more";
			my $budget = 1 + int rand 1500;

			$script .= qq{
SELECT peek_submit('$index', NULL$request, options => '{"enable_offload": false}') AS i \\gset
SELECT peek_submit('$index', NULL$request, options => '{"enable_offload": true, "inline_budget": $budget, "workers": $workers}') AS o \\gset
SELECT peek_wait(:'o', NULL) AS w \\gset
SELECT concat_ws('|', i.positions = o.positions, i.num_rows = o.num_rows,
	o.workers > 1 OR i.answer_bytes = o.answer_bytes, o.driver, \$q\$$index$request\$q\$, $workers, $budget, i.positions, o.positions)
	FROM peek_status(:'i') i, peek_status(:'o') o;
SELECT peek_release(:'i') AS w, peek_release(:'o') AS x \\gset
};
		}
	}
}
my ($out, $err);
IPC::Run::run([ 'psql', '-XAtq', '-d', $node->connstr('postgres') ],
	'<', \$script, '>', \$out, '2>', \$err);
is($err, '', 'no walk has failed');
is(join("\n", grep { !/^t\|t\|t\|/ } split /\n/, $out), '',
	'positions, rows and sizes are those of the walk in the session');
cmp_ok(scalar(grep { /\|offloaded\|/ } split /\n/, $out), '>', 20,
	'some of these have been handed over');

PeekOffload->new($node)->settled('after all');
no_leftovers($node);
$node->stop;
done_testing();
