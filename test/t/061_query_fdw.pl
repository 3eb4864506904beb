# Queries over other servers: a table whose partitions are on two of them by
# postgres_fdw, and a join across them.  The rows are those of the query run
# plainly, one cap holds over all servers, and an error of one of them leaves
# nothing, here or there.

use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin;

use PeekTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = peek_start('query_fdw');
my @far = map { peek_start("far_$_", preload => 0, start => 0) } 1, 2;

sub ask
{
	my ($query) = @_;

	return $node->safe_psql('postgres', $query);
}

# What psql says to a query that fails.
sub error_of
{
	my ($query) = @_;
	my ($code, $out, $err) = $node->psql('postgres',
		"\\set VERBOSITY verbose\n$query");

	return $err =~ /ERROR:  (\w+): ([^\n]*)/ ? "$1: $2" : "none: $out";
}

ask('CREATE EXTENSION postgres_fdw;
	CREATE TABLE parts (id int, v text, other int) PARTITION BY RANGE (id);
	CREATE TABLE part_0 PARTITION OF parts FOR VALUES FROM (0) TO (1000)');
foreach my $number (1, 2)
{
	my $far = $far[ $number - 1 ];
	my ($from, $to) = ($number * 1000, $number * 1000 + 1000);

	$far->start;
	$far->safe_psql('postgres', qq{
		CREATE TABLE part (id int, v text, other int);
		CREATE TABLE names (other int, name text);
		INSERT INTO part SELECT i, 'far $number: ' || i, i % 20
		FROM generate_series($from, $to - 1) i;
		INSERT INTO names SELECT i, 'name $number.' || i
		FROM generate_series(0, 19) i;
		ANALYZE;
		CREATE VIEW fails AS SELECT id, 1 / (id - ($to - 10)) AS v FROM part});
	ask(sprintf(q{
		CREATE SERVER far_%1$s FOREIGN DATA WRAPPER postgres_fdw
			OPTIONS (host '%2$s', port '%3$s', dbname 'postgres');
		CREATE USER MAPPING FOR PUBLIC SERVER far_%1$s
			OPTIONS (user '%4$s');
		CREATE FOREIGN TABLE part_%1$s PARTITION OF parts
			FOR VALUES FROM (%5$s) TO (%6$s) SERVER far_%1$s
			OPTIONS (table_name 'part');
		CREATE FOREIGN TABLE names_%1$s (other int, name text)
			SERVER far_%1$s OPTIONS (table_name 'names');
		CREATE FOREIGN TABLE fails_%1$s (id int, v int)
			SERVER far_%1$s OPTIONS (table_name 'fails')},
		$number, $far->host, $far->port,
		getpwuid($<) || 'postgres', $from, $to));
}
ask(q{INSERT INTO parts SELECT i, 'here: ' || i, i % 20
	FROM generate_series(0, 999) i; ANALYZE});


# The same rows

my %queries = (
	'a partitioned table' => 'SELECT * FROM parts ORDER BY id',
	'some of its partitions' =>
	  'SELECT id, v FROM parts WHERE id BETWEEN 990 AND 1500 ORDER BY id DESC',
	'an aggregate over all of them' =>
	  'SELECT other, count(*), sum(id), max(v) FROM parts GROUP BY other ORDER BY other',
	'a join across both servers' =>
	  'SELECT a.name, b.name, p.id FROM parts p JOIN names_1 a USING (other)
		JOIN names_2 b USING (other) ORDER BY p.id',
	'a join that one server can do' =>
	  'SELECT p.id, n.name FROM part_1 p JOIN names_1 n USING (other) ORDER BY id');
foreach my $what (sort keys %queries)
{
	my $query = $queries{$what};
	my $plain = ask("SELECT md5(string_agg(q::text, ' ')), count(*) FROM ($query) q");

	foreach my $options ('{"stash_threshold": "100MB"}',
		'{"stash_threshold": 0, "stash_batch_size": 300}',
		'{"stash_threshold": 5000, "yield_granularity": 7}')
	{
		my $handle = ask("SELECT peek_query(\$q\$$query\$q\$, NULL, '$options')");
		my $definitions = ask("SELECT string_agg(format('c%s %s', ordinal,
				format_type(type, typmod)), ', ' ORDER BY ordinal)
			FROM peek_columns('$handle')");

		is( ask("SELECT md5(string_agg(q::text, ' ')), count(*)
				FROM peek_fetch_record('$handle') q ($definitions)"),
			$plain,
			"same rows: $what, $options");
		ask("SELECT peek_release('$handle')");
	}
}


# One cap: the rows of one part alone are far from it

my $size = ask('SELECT answer_bytes FROM peek_status(peek_query($$SELECT * FROM parts$$))');
my $part = ask('SELECT max(answer_bytes) FROM (VALUES ($$part_0$$), ($$part_1$$), ($$part_2$$)) p(name),
	LATERAL peek_status(peek_query($$SELECT * FROM $$ || name))');
my $cap = int($size / 1024);

ask('SELECT count(peek_release(handle)) FROM peekstash.peeks');
cmp_ok($part, '<', $cap * 1024 / 2, 'one cap: a part alone is far from it');
foreach my $threshold ('100MB', '0')
{
	is( error_of(qq{SELECT peek_query('SELECT * FROM parts', NULL,
			'{"max_result_size": $cap, "stash_threshold": "$threshold"}')}),
		'53400: result exceeds max size of ' . ask("SELECT pg_size_pretty($cap * 1024::bigint)"),
		"one cap: over all servers, threshold $threshold");
}
is(ask(qq{SELECT num_rows FROM peek_status(peek_query('SELECT * FROM parts', NULL,
		'{"max_result_size": @{[ $cap + 1 ]}}'))}),
	3000, 'one cap: it is exact');
ask('SELECT count(peek_release(handle)) FROM peekstash.peeks');


# Errors of one server

sub nothing_left
{
	my ($what) = @_;

	no_leftovers($node, 'postgres', "$what: nothing is left here");
	foreach my $far (@far)
	{
		next if !$far->{started};
		ok( $far->poll_query_until('postgres', q{
				SELECT count(*) = 0 FROM pg_stat_activity
				WHERE application_name = 'postgres_fdw' AND state = 'active'}),
			"$what: nothing runs there");
	}
	return;
}
$_->{started} = 1 foreach @far;

my $failing = 'SELECT id, v FROM part_1 UNION ALL SELECT id, v::text FROM fails_2';
is(error_of(qq{SELECT peek_query('$failing', NULL,
		'{"stash_threshold": 0, "stash_batch_size": 500}')}),
	'22012: division by zero', 'an error there keeps its SQLSTATE');
nothing_left('an error there');

is( ask(qq{DO \$\$
		BEGIN
			FOR i IN 1 .. 20 LOOP
				BEGIN
					PERFORM peek_query('$failing', NULL,
						'{"stash_threshold": 0, "stash_batch_size": 500}');
				EXCEPTION WHEN division_by_zero THEN
				END;
			END LOOP;
		END \$\$;
		SELECT count(*) FROM peekstash.peeks}),
	'0', 'twenty errors there, each caught');
nothing_left('errors caught');

# A cancel in the middle, while rows come from there
{
	my $session = peek_session($node);

	$session->send(q{SELECT peek_query('SELECT a.id FROM parts a, parts b, parts c',
		NULL, '{"stash_threshold": 0, "max_result_size": -1}')});
	ok( $node->poll_query_until('postgres',
			'SELECT stored_bytes > 0 FROM peekstash.peeks'),
		'a query is seen in flight');
	is(ask('SELECT state, phase, positions, num_rows > 0 FROM peekstash.peeks'),
		'running|stashing||t', 'what is seen of it');
	is(ask('SELECT peek_cancel(handle) FROM peekstash.peeks'), 't',
		'it is cancelled by its handle');
	like(($session->result)[1], qr/canceling/, 'it says so');
	$session->quit;
	nothing_left('cancelled');
}

# A query that has no row for long, so that no step ends
{
	my $session = peek_session($node);

	$session->send(q{SELECT peek_query('SELECT count(*) FROM parts a, parts b, parts c, parts d')});
	ok( $node->poll_query_until('postgres',
			"SELECT count(*) = 1 FROM peekstash.peeks WHERE phase = 'walking'"),
		'a query that counts is seen in flight');
	is(ask('SELECT peek_cancel(handle) FROM peekstash.peeks'), 't',
		'it is cancelled by its handle, too');
	like(($session->result)[1], qr/canceling/, 'without waiting for a row');
	is($session->query('SELECT 1'), '1', 'the session goes on');
	$session->quit;
	nothing_left('cancelled before the first row');
}

# A server that is gone
$far[1]->stop('immediate');
$far[1]->{started} = 0;
like(error_of(q{SELECT peek_query('SELECT * FROM parts', NULL,
		'{"stash_threshold": 0}')}),
	qr/^08\w\w\w: /, 'a server that is gone is an error of its class');
nothing_left('a server is gone');
is(ask(q{SELECT num_rows FROM peek_status(peek_query('SELECT * FROM parts WHERE id < 2000'))}),
	2000, 'what is not on it can be read');

$node->stop;
$far[0]->stop;
done_testing();
