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

# Conditions that all bound the walk: equality on leading columns, by key, keys
# or filter, then a list or a range.  Values are of the columns' own types;
# what other types mean is looked at above.
sub position_line
{
	my ($id, $index) = @_;
	my $table = $index->{table}{name};
	my @keys = @{ $index->{keys} };
	my ($row, $other) = map { pick(@{ $index->{rows} }) } 1, 2;
	my $equal = below(1 + @keys);
	my $next = $keys[$equal];
	my $range = $next ? pick(0, 1, 1, 2, 2, 3) : 0;
	my $by = $equal > 0 ? pick('key', 'filter', 'filter') : 'bounds';
	my $backward = chance(0.3);
	my $plain = "SELECT count(*) FROM (SELECT FROM $table";
	my $order = '';
	my (@call, @where, @filter);

	# A value of a row, or if it has none, any.
	my $value = sub {
		my ($key, $from) = @_;
		my $raw = $key->{value}->($from);

		$raw = asked_value($key->{type}) if !defined $raw;
		return quoted($raw) . "::$type{$key->{type}}->{cast}";
	};
	my $array = sub {
		my ($key) = @_;
		my @raw = map { $key->{value}->(pick(@{ $index->{rows} })) } 1 .. 4;

		@raw = (asked_value($key->{type}), grep { defined } @raw);
		return quoted(array_text(@raw)) . "::$type{$key->{type}}->{cast}\[]";
	};

	@where =
	  map { "$_->{expr} = " . $value->($_, $row) } @keys[ 0 .. $equal - 1 ];
	if ($equal == 1 && chance(0.3))
	{
		my $list = $array->($keys[0]);

		@where = ("$keys[0]{expr} = ANY ($list)");
		@call = ("keys => $list");
		$by = 'keys';
	}
	elsif ($by eq 'key')
	{
		@call = ('key => ROW('
			  . join(', ', map { s/^\w+ = //r } @where) . ')');
	}
	elsif ($by eq 'filter' && chance(0.3))
	{
		my $number = below($equal);

		$where[$number] = "$keys[$number]{expr} IS NULL";
	}

	if ($by eq 'filter' && $next && chance(0.3))
	{
		# Behind other keys the plain scan has no use for a list: it is
		# asked for one value after the other.
		my $list = $array->($next);

		push @filter, "$next->{expr} = ANY ($list)";
		push @where, "$next->{expr} = wanted";
		$plain = 'SELECT sum(found) FROM (SELECT DISTINCT wanted '
		  . "FROM unnest($list) AS wanted) AS l, "
		  . "LATERAL (SELECT count(*) AS found FROM $table";
	}
	elsif ($next)
	{
		# Rows bound a walk if all their columns run one way.
		my $one_way = !grep { $_->{desc} != $keys[0]{desc} } @keys;
		my @used = $by eq 'bounds' && $one_way && chance(0.4) ? @keys : $next;
		my @sides = ([ 1, 'lower', '>=', $row ], [ 2, 'upper', '<=', $other ]);

		foreach my $side (grep { $range & $_->[0] } @sides)
		{
			my (undef, $name, $operator, $from) = @$side;
			my $left = join ', ', map { $_->{expr} } @used;
			my $right = join ', ', map { $value->($_, $from) } @used;

			push @where,
			  @used > 1
			  ? "ROW($left) $operator ROW($right)"
			  : "$left $operator $right";
			push @call, "$name => ROW($right)" if $by ne 'filter';
		}
	}

	if ($by eq 'filter')
	{
		push @filter, grep { !/wanted/ } @where;
		@call = ('filter => ' . quoted(join ' AND ', shuffled(@filter)));
	}
	push @call, 'backward => true' if $backward;

	# Without a condition it is the order that makes a plain scan use the
	# index.  It has no order with a list.
	$order = ' ORDER BY ' . order_of(\@keys, $backward)
	  if !@where || "@where @filter" !~ /ANY/ && chance(0.3);
	if ($order ne '' && chance(0.8))
	{
		my ($limit, $offset) = (1 + below(30), below(10));

		push @call, "row_limit => $limit", "row_offset => $offset";
		$order .= " LIMIT $limit OFFSET $offset";
	}
	return copy_line(
		$id,
		$index->{name},
		"SELECT count(*) FROM peek("
		  . join(', ', "NULL::$table", quoted($index->{name}), @call) . ')',
		$plain
		  . (@where ? ' WHERE ' . join(' AND ', @where) : '')
		  . "$order) AS s");
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
	  FROM (SELECT row_number() OVER w AS n, bytes, size,
				   lag(bytes) OVER w AS previous
			FROM (SELECT * FROM
				  (SELECT i, record_send($row) AS bytes,
						  pg_column_size($row) - 24 + 8 + 8 AS size
				   FROM diff_cap_rows OFFSET 0) AS sizes
				  ORDER BY i OFFSET $offset) AS wanted
			WINDOW w AS (ORDER BY i)) AS numbered) AS totals
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


# Paths
#
# With a threshold of 0 every answer with rows is stashed, with 700 bytes some
# are; nothing else is.

my ($stashed, $batches) = split /\|/, ask(
	'SELECT answers_stashed, batches_written FROM peekstash.stat');
my $not_empty = ask('SELECT count(*) FROM diff_result WHERE num_rows > 0');
my $at_once = ask(q{SELECT count(*) FROM diff_setting WHERE path = 'stashed'});

cmp_ok($stashed - $at_once * $not_empty,
	'>=', int(0.2 * $NUM_REQUESTS), 'paths: answers cross the threshold');
cmp_ok($stashed - $at_once * $not_empty,
	'<=', $not_empty - int(0.1 * $NUM_REQUESTS), 'paths: not all of them do');
cmp_ok($batches, '>=', 3 * $stashed, 'paths: answers have several batches');
is(ask('SELECT count(*) FROM peekstash.batch'), '0', 'paths: nothing is left');


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
# parts of all requests, low enough for any seed.
my @diversity = (
	[ 0.5, 'rows', 'num_rows > 0' ],
	[ 0.05, 'no rows', 'num_rows = 0' ],
	[ 0.1, 'many rows', 'num_rows > 100' ],
	[ 0.3, 'several keys', 'groups > 1' ],
	[ 0.2, 'several rows of a key', 'num_rows > groups' ],
	[ 0.08, 'a key of which some rows are cut off', 'cut_group' ],
	[ 0.15, 'fully equal rows', 'has_copies' ],
	[ 0.15, 'a filter, and rows', "'filter' = ANY (features) AND num_rows > 0" ],
	[ 0.08, 'args, and rows', "'args' = ANY (features) AND num_rows > 0" ],
	[ 0.08, 'bounds of rows, and rows',
		"'row_bounds' = ANY (features) AND num_rows > 0" ],
	[ 0.003, 'a null in bounds', "'null_in_bounds' = ANY (features)" ],
	[ 0.008, 'a null in keys, and rows',
		"'null_in_keys' = ANY (features) AND num_rows > 0" ],
	[ 0.12, 'backward, and rows',
		"'backward' = ANY (features) AND num_rows > 1" ],
	[ 0.08, 'order_by, and rows',
		"'order_by' = ANY (features) AND num_rows > 1" ],
	[ 0.05, 'order_by and limit, and rows',
		"'{order_by,limit}' <@ features AND num_rows > 0" ],
	[ 0.15, 'a limit, and rows', "'limit' = ANY (features) AND num_rows > 0" ],
	[ 0.1, 'an offset, and rows',
		"'offset' = ANY (features) AND num_rows > 0" ],
	[ 0.08, 'a composite type, and rows',
		"'projection' = ANY (features) AND num_rows > 0" ],
	[ 0.12, 'peek_record, and rows',
		"'record' = ANY (features) AND num_rows > 0" ],
	[ 0.08, 'a select list, and rows',
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
	WHERE indexrelid IN (SELECT index FROM diff_position)};
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

no_leftovers($node, 'postgres', 'nothing is left behind');

$node->stop;
done_testing();
