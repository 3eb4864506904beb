# Answers of peek and of plain SQL are equal: 20,000 generated calls.
#
# Tables, indexes, rows and requests come from one seeded generator:
# PEEKSTASH_SEED repeats a run exactly, PEEKSTASH_REQUESTS asks for more.  Each
# request is asked once for every line of diff_setting (DiffServer.pm); they
# differ in where the walk is suspended and in what leaves memory on the way,
# and all must give the same rows in the same sequence.
#
# Answers are compared by groups of equal keys: the groups in their order, the
# rows of a group as a multiset of their bytes (record_send).  The order inside
# a group is open in SQL, so any will do, but it must be one for all settings.
#
# Two smaller parts follow: positions against what the index itself counts, and
# the cap against the ruler computed anew in SQL.

use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin;

use DiffRequests;
use DiffServer;
use DiffTables;
use DiffValues;
use IPC::Run ();
use PeekTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $NUM_REQUESTS = $ENV{PEEKSTASH_REQUESTS} || 4000;
my $NUM_POSITIONS = 300;
my $CONNECTIONS = 2;

my $seed = $ENV{PEEKSTASH_SEED};
$seed = (time ^ ($$ << 8)) % 1_000_000 if !defined $seed || $seed eq '';
diag "PEEKSTASH_SEED=$seed";


# What is generated

sub make_requests
{
	my $lines = '';

	$lines .= copy_line($_, new_request()) foreach 1 .. $NUM_REQUESTS;
	return "COPY diff_request FROM stdin;\n$lines\\.\n";
}

# Tables with one index, so that the plain scan has no choice.  They are never
# analyzed: with a histogram the planner reads the ends of the index, and the
# index counts that, too.
sub make_position_tables
{
	my @shapes = (
		[ ['i'], [0] ],
		[ [ 'i', 'tc' ], [ 1, 0 ] ],
		[ [ 'tu', 'n' ], [ 0, 1 ] ],
		[ [ 'ts', 'd', 'i' ], [ 0, 0, 0 ] ],
		[ [ 'e', 'b' ], [ 1, 1 ] ]);
	my $number = 0;

	foreach my $shape (@shapes)
	{
		my ($names, $desc) = @$shape;
		my $table = {
			name => 'diff_position_' . ++$number,
			columns => [
				column('i', 'int4'), column('b', 'int8'),
				column('n', 'numeric'), column('tc', 'text', '"C"'),
				column('tu', 'text', 'diff_icu'),
				column('ts', 'timestamptz'), column('d', 'date'),
				column('e', 'enum'), column('f', 'bool'),
			],
		};
		my @columns = named($table, @$names);

		$table->{rows} = [ map { random_row($table, 0.2) } 1 .. 700 ];
		create_table($table);
		$ddl .= copy_rows($table->{name},
			[ map { $_->{name} } @{ $table->{columns} } ],
			@{ $table->{rows} });
		$ddl .= "DELETE FROM $table->{name} WHERE f;\n";
		add_index($table, "$table->{name}_index",
			[ map { key_column($columns[$_], desc => $desc->[$_]) }
				  0 .. $#columns ]);
		$ddl .= "DELETE FROM $table->{name} WHERE f IS NULL;\n";
	}
	return;
}

# Conditions that all bound the walk: equal leading columns, by key, keys or
# filter, then a range.  Values are of the columns' own types; what other types
# mean is looked at above.
sub position_line
{
	my ($id, $index) = @_;
	my $table = $index->{table}{name};
	my @keys = @{ $index->{keys} };
	my ($row, $other) = map { pick(@{ $index->{rows} }) } 1, 2;
	my $equal = below(1 + @keys);
	my $range = $equal < @keys ? pick(1, 1, 2, 2, 3) : 0;
	my $backward = chance(0.3);
	my $how = rand();
	my $order = '';
	my (@call, @where);

	# A raw value of the key, as an argument and as an operand.
	my $value = sub {
		my ($key, $from) = @_;
		my $raw = $key->{value}->($from);
		$raw = asked_value($key->{type}) if !defined $raw;
		return (quoted($raw), quoted($raw) . "::$type{$key->{type}}->{cast}");
	};

	if ($equal == 1 && $how < 0.4)
	{
		my $type = $keys[0]{type};
		my $array = quoted(
			array_text(
				asked_value($type),
				grep { defined }
				  map { $keys[0]{value}->(pick(@{ $index->{rows} })) } 1 .. 4))
		  . "::$type{$type}->{cast}\[]";

		push @call, "keys => $array";
		push @where, "$keys[0]{expr} = ANY ($array)";
		$range = 0;
	}
	elsif ($equal == 1 && $how < 0.5)
	{
		push @call, "filter => '$keys[0]{expr} IS NULL'";
		push @where, "$keys[0]{expr} IS NULL";
		$range = 0;
	}
	elsif ($equal > 0)
	{
		my @pairs = map { [ $value->($_, $row) ] } @keys[ 0 .. $equal - 1 ];
		my @equals = map { "$keys[$_]{expr} = $pairs[$_][1]" } 0 .. $#pairs;

		push @where, @equals;
		if ($how < 0.7)
		{
			push @call, 'filter => ' . quoted(join ' AND ', @equals);
			$range = 0;
		}
		else
		{
			push @call,
			  'key => ROW(' . join(', ', map { $_->[0] } @pairs) . ')';
		}
	}
	if ($range & 1)
	{
		my ($argument, $operand) = $value->($keys[$equal], $row);

		push @call, "lower => $argument";
		push @where, "$keys[$equal]{expr} >= $operand";
	}
	if ($range & 2)
	{
		my ($argument, $operand) = $value->($keys[$equal], $other);

		push @call, "upper => $argument";
		push @where, "$keys[$equal]{expr} <= $operand";
	}

	push @call, 'backward => true' if $backward;
	if ($call[0] !~ /^keys/ && chance(0.3))
	{
		my ($limit, $offset) = (1 + below(30), below(10));

		push @call, "row_limit => $limit", "row_offset => $offset";
		$order = ' ORDER BY '
		  . order_of(\@keys, $backward)
		  . " LIMIT $limit OFFSET $offset";
	}
	return copy_line(
		$id,
		$index->{name},
		"SELECT count(*) FROM peek(NULL::$table, "
		  . join(', ', quoted($index->{name}), @call) . ')',
		"SELECT count(*) FROM (SELECT FROM $table WHERE "
		  . join(' AND ', @where) . "$order) AS s");
}

sub make_positions
{
	my @all = splice @indexes;
	my $lines = '';

	make_position_tables();
	$lines .= position_line($_, pick(@indexes)) foreach 1 .. $NUM_POSITIONS;
	@indexes = @all;
	return "COPY diff_position (id, index, call, plain) FROM stdin;\n"
	  . "$lines\\.\nVACUUM;\n";
}

# Rows without nulls, of which the data is what follows a header of 24 bytes;
# and equal neighbours, which the ruler counts once.
sub make_caps
{
	my ($sql, @rows) = ('');

	foreach my $i (1 .. 500)
	{
		my $row = { i => $i, t => 'x' x below(60), b => below(3) };

		push @rows, ($row) x pick(1, 1, 1, 2, 5);
	}
	$ddl .= 'CREATE TABLE diff_cap_rows '
	  . "(i int NOT NULL, t text NOT NULL, b bigint NOT NULL);\n"
	  . "CREATE INDEX diff_cap_rows_i ON diff_cap_rows (i);\n";
	$ddl .= copy_rows('diff_cap_rows', [ 'i', 't', 'b' ], @rows);

	foreach my $cap (1, 2, 3, 5, 8, 13)
	{
		foreach my $columns ([], [ 't', 'b' ], [ 'b', 't', 'i' ])
		{
			my $offset = pick(0, below(50));
			my %sql_type = (i => 'int', t => 'text', b => 'bigint');
			my $rest = "row_offset => $offset, row_limit => \@LIMIT\@, "
			  . 'options => @OPTIONS@)';
			my $row = 'diff_cap_rows';
			my $call = "peek(NULL::diff_cap_rows, 'diff_cap_rows_i', $rest";

			if (@$columns)
			{
				my $names = join(', ', @$columns);

				$row = "ROW($names)";
				$call = "peek_record('diff_cap_rows_i', '{$names}', $rest AS p("
				  . join(', ', map { "$_ $sql_type{$_}" } @$columns) . ')';
			}
			$call = quoted("SELECT count(*) FROM $call");
			$sql .= <<EOT;
INSERT INTO diff_cap (cap_kb, call, row_offset, fails_at)
SELECT $cap, $call, $offset, min(n)
FROM (SELECT n, sum(CASE WHEN bytes = previous THEN 0 ELSE size END)
				OVER (ORDER BY n) AS total
	  FROM (SELECT row_number() OVER w AS n, record_send($row) AS bytes,
				   lag(record_send($row)) OVER w AS previous,
				   pg_column_size($row) - 24 + 8 + 8 AS size
			FROM (SELECT * FROM diff_cap_rows ORDER BY i
				  OFFSET $offset) AS diff_cap_rows
			WINDOW w AS (ORDER BY i)) AS sizes) AS totals
WHERE total > $cap * 1024;
EOT
		}
	}
	return $sql;
}

# Nothing else may draw from the generator's chances.
srand $seed;
make_tables();
my $load = make_requests() . make_positions() . make_caps();
$load = "SET client_min_messages = warning;\n$server_sql$ddl$load";

# For a look at what is generated, without a server.
if ($ENV{PEEKSTASH_DUMP})
{
	open my $out, '>', $ENV{PEEKSTASH_DUMP} or die;
	print $out $load;
	close $out;
	exit;
}


# Run

my $node = peek_start('differential');
my $started = time;

$node->safe_psql('postgres', $load);

my @runs;
foreach my $part (0 .. $CONNECTIONS - 1)
{
	my $run = { out => '', err => '' };

	$run->{handle} = IPC::Run::start(
		[
			$node->installed_command('psql'), '-XAtq',
			'-d', $node->connstr('postgres'),
			'-c', "CALL diff_run($part, $CONNECTIONS)"
		],
		'<', \undef,
		'>', \$run->{out},
		'2>', \$run->{err});
	push @runs, $run;
}
foreach my $run (@runs)
{
	$run->{handle}->finish;
	is($run->{err}, '', 'all requests of a connection were made');
}

# One value.
sub ask
{
	my ($query) = @_;

	return $node->safe_psql('postgres', $query);
}

# Passes if a query has no result, and shows it if it has one.
sub finds_nothing
{
	my ($query, $test_name) = @_;
	my $found = ask($query);

	local $Test::Builder::Level = $Test::Builder::Level + 1;

	ok($found eq '', $test_name) or diag $found;
	return;
}

diag sprintf '%s calls in %s seconds',
  ask('SELECT sum(calls) FROM diff_result'), time - $started;


# Answers

cmp_ok(ask('SELECT sum(calls) FROM diff_result'),
	'>=', 5 * $NUM_REQUESTS, 'every request was made with every setting');

foreach my $kind (split /\n/,
	ask('SELECT DISTINCT kind FROM diff_request ORDER BY kind'))
{
	finds_nothing(
		"SELECT format(E'request %s: %s\\n%s\\n%s\\n', id, problem, call,
				oracle)
		FROM diff_request LEFT JOIN diff_result USING (id)
		WHERE kind = '$kind' AND (problem IS NOT NULL OR num_rows IS NULL)
		ORDER BY id LIMIT 10",
		"same answers: $kind");
}

# A generator that asks for nothing would find nothing wrong.  The numbers are
# parts of all requests.
my @diversity = (
	[ 0.6, 'rows', 'num_rows > 0' ],
	[ 0.05, 'no rows', 'num_rows = 0' ],
	[ 0.1, 'many rows', 'num_rows > 100' ],
	[ 0.3, 'several keys', 'groups > 1' ],
	[ 0.2, 'several rows of a key', 'num_rows > groups' ],
	[ 0.08, 'a key of which some rows are cut off', 'cut_group' ],
	[ 0.15, 'fully equal rows', 'has_copies' ],
	[ 0.2, 'a filter, and rows', "'filter' = ANY (features) AND num_rows > 0" ],
	[ 0.08, 'args, and rows', "'args' = ANY (features) AND num_rows > 0" ],
	[ 0.08, 'bounds of rows, and rows',
		"'row_bounds' = ANY (features) AND num_rows > 0" ],
	[ 0.005, 'a null in bounds', "'null_in_bounds' = ANY (features)" ],
	[ 0.01, 'a null in keys, and rows',
		"'null_in_keys' = ANY (features) AND num_rows > 0" ],
	[ 0.15, 'backward, and rows',
		"'backward' = ANY (features) AND num_rows > 1" ],
	[ 0.1, 'order_by, and rows',
		"'order_by' = ANY (features) AND num_rows > 1" ],
	[ 0.05, 'order_by and limit, and rows',
		"'{order_by,limit}' <@ features AND num_rows > 0" ],
	[ 0.15, 'a limit, and rows', "'limit' = ANY (features) AND num_rows > 0" ],
	[ 0.1, 'an offset, and rows',
		"'offset' = ANY (features) AND num_rows > 0" ],
	[ 0.1, 'a composite type, and rows',
		"'projection' = ANY (features) AND num_rows > 0" ],
	[ 0.15, 'peek_record, and rows',
		"'record' = ANY (features) AND num_rows > 0" ],
	[ 0.1, 'a select list, and rows',
		"'select_list' = ANY (features) AND num_rows > 0" ],
	[ 0.01, 'a table as arrangement, and rows',
		"'table_as_arrangement' = ANY (features) AND num_rows > 0" ]);

foreach my $line (@diversity)
{
	my ($part, $what, $condition) = @$line;

	cmp_ok(
		ask("SELECT count(*) FROM diff_request JOIN diff_result USING (id)
			WHERE $condition"),
		'>=',
		int($part * $NUM_REQUESTS),
		"the answers are diverse: $what");
}
is( ask("SELECT count(DISTINCT f) FROM diff_request, unnest(features) AS f
		WHERE f LIKE 'diff_%'"),
	scalar @indexes,
	'the requests are diverse: every index');


# Positions

my $index_reads = q{
	SELECT sum(idx_tup_read) FROM pg_stat_all_indexes
	WHERE indexrelname LIKE 'diff_position_%'};
my $reads = ask("SELECT pg_stat_force_next_flush(); $index_reads");
$reads =~ s/\s//g;
$node->safe_psql('postgres',
	'CALL diff_positions(); SELECT pg_stat_force_next_flush()');

finds_nothing(
	"SELECT format(E'%s\\n%s\\n', plain, plan) FROM diff_position
	WHERE plan !~ 'Index Scan' OR plan ~ 'Filter' ORDER BY id LIMIT 10",
	'positions: plain scans use the index for the whole condition');
finds_nothing(
	"SELECT format(E'%s instead of %s positions\\n%s\\n%s\\n', positions,
		plain_reads, call, plain)
	FROM diff_position WHERE positions <> plain_reads ORDER BY id LIMIT 10",
	'positions: as many as a plain scan reads');
finds_nothing(
	"SELECT format(E'%s positions, %s read\\n%s\\n', positions, peek_reads,
		call)
	FROM diff_position WHERE positions <> peek_reads ORDER BY id LIMIT 10",
	'positions: as many as the index counts for the peek');
cmp_ok(
	ask('SELECT count(*) FROM diff_position WHERE plain_reads > 0'),
	'>=', 100, 'positions: enough requests read something');
is( ask($index_reads) - $reads,
	ask('SELECT sum(plain_reads + peek_reads) FROM diff_position'),
	'positions: pg_stat_all_indexes says the same');


# The cap

ask('CALL diff_caps()');
my $caps = 'FROM diff_cap JOIN diff_cap_result AS r USING (id)';

cmp_ok(ask("SELECT count(*) $caps"), '>=', 90, 'cap: enough requests');
finds_nothing(
	"SELECT format(E'%s with %s\\n%s\\n', sqlstates, options, call) $caps
	WHERE sqlstates IS DISTINCT FROM '{53400}' ORDER BY id LIMIT 10",
	'cap: the error is configuration_limit_exceeded');
finds_nothing(
	"SELECT format(E'%s with %s\\n%s\\n', messages, options, call) $caps
	WHERE messages IS DISTINCT FROM ARRAY['result exceeds max size of '
		|| pg_size_pretty(cap_kb * 1024::bigint)]
	ORDER BY id LIMIT 10",
	'cap: the message names the size');
finds_nothing(
	"SELECT format(E'row %s instead of %s with %s (%s pass beyond)\\n%s\\n',
		r.fails_at, diff_cap.fails_at, options, not_monotonic, call)
	$caps WHERE r.fails_at <> diff_cap.fails_at OR not_monotonic > 0
	ORDER BY id LIMIT 10",
	'cap: reached at the row where the ruler says, with every setting');
finds_nothing(
	"SELECT format(E'%s instead of %s positions with %s\\n%s\\n', positions,
		diff_cap.fails_at + row_offset, options, call)
	$caps WHERE positions <> diff_cap.fails_at + row_offset
	ORDER BY id LIMIT 10",
	'cap: the walk ends at that row');

$node->stop;
done_testing();
