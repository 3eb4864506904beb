# Answers of peek_query and of the query run plainly are equal: 10,000
# generated queries.
#
# Queries come from one seeded generator (QueryGenerator.pm): PEEKSTASH_SEED
# repeats a run exactly, PEEKSTASH_REQUESTS asks for more.  Each query is run
# plainly once, with its parameters as literals, and twice by peek_query: its
# answer from memory, and stashed as a whole or in part.  Rows are compared by
# their bytes (record_send): in their order where the query has one, as a
# multiset else.  Every fourth query is also read as pages of JSON.
#
# What the columns are called and of what types they are, psql asks the server
# about the plain queries (\gdesc), which knows nothing of peekstash.

use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin;

use IPC::Run ();
use PeekTest;
use PostgreSQL::Test::Utils;
use QueryGenerator;
use Test::More;

my $NUM_REQUESTS = $ENV{PEEKSTASH_REQUESTS} || 10_000;
my $CONNECTIONS = 2;

my $seed = $ENV{PEEKSTASH_SEED};
$seed = (time ^ ($$ << 8)) % 1_000_000 if !defined $seed || $seed eq '';
diag "PEEKSTASH_SEED=$seed";

# A field of COPY.
sub copied
{
	my ($text) = @_;

	return '\N' if !defined $text;
	$text =~ s/([\\\t\n])/{ '\\' => '\\\\', "\t" => '\t', "\n" => '\n' }->{$1}/ge;
	return $text;
}

# An array of texts, any of which may be missing.
sub array_text
{
	return '{' . join(
		',',
		map {
			my $text = $_;
			defined $text
			  ? do { $text =~ s/(["\\])/\\$1/g; "\"$text\"" }
			  : 'NULL';
		} @_) . '}';
}

srand $seed;
my ($load, $describe) = ('', '');
foreach my $id (1 .. $NUM_REQUESTS)
{
	my ($query, $args, $plain, $ordered, $features) = new_query();

	$load .= join("\t",
		$id, copied($query), @$args ? copied(array_text(@$args)) : '\N',
		copied($plain), $ordered ? 't' : 'f', array_text(@$features)) . "\n";
	$describe .= "\\echo #$id\n$plain \\gdesc\n";
}

# For a look at what is generated, without a server.
if ($ENV{PEEKSTASH_DUMP})
{
	open my $out, '>', $ENV{PEEKSTASH_DUMP} or die;
	print $out $load;
	close $out;
	exit;
}


# The part that runs in the server

my $server_sql = <<'EOT';
CREATE TABLE q_request (
	id int PRIMARY KEY,
	query text NOT NULL,
	args text[],
	plain text NOT NULL,
	ordered bool NOT NULL,
	features text[] NOT NULL
);
CREATE TABLE q_result (
	id int PRIMARY KEY,
	num_rows int,
	columns text,					/* name|type, a line each */
	sqlstate text,					/* of the plain query, if it throws */
	problem text					/* NULL if all is well */
);

/* The rows of an answer, read as what its columns are. */
CREATE FUNCTION q_fetched(h uuid, page int) RETURNS bytea[]
LANGUAGE plpgsql AS $$
DECLARE
	definitions text := (
		SELECT string_agg(format('c%s %s', ordinal,
								 format_type(type, typmod)), ', '
						  ORDER BY ordinal) FROM peek_columns(h));
	total bigint := (SELECT num_rows FROM peek_status(h));
	got bytea[];
	part bytea[];
BEGIN
	FOR start IN 0 .. total BY page LOOP
		EXECUTE format('SELECT array_agg(record_send(q)) '
			'FROM peek_fetch_record($1, $2, $3) q (%s)', definitions)
			INTO part USING h, start, page;
		got := got || part;
	END LOOP;
	RETURN coalesce(got, '{}');
END
$$;

CREATE FUNCTION q_sorted(list bytea[]) RETURNS bytea[] LANGUAGE sql AS $$
	SELECT coalesce(array_agg(l ORDER BY l), '{}') FROM unnest(list) l
$$;

CREATE FUNCTION q_judged(r q_request, setting jsonb, wanted bytea[], page int,
						 OUT problem text, OUT columns text)
LANGUAGE plpgsql AS $$
DECLARE
	h uuid;
	got bytea[];
	status record;
BEGIN
	h := peek_query(r.query, r.args, setting);
	status := peek_status(h);
	got := q_fetched(h, page);
	IF setting ->> 'stash_threshold' <> '0' THEN
		SELECT string_agg(c.name || '|' || format_type(c.type, c.typmod),
						  E'\n' ORDER BY c.ordinal)
		INTO columns FROM peek_columns(h) c;
	END IF;
	PERFORM peek_release(h);
	IF status.num_rows <> cardinality(wanted) THEN
		problem := format('%s rows instead of %s', status.num_rows,
						  cardinality(wanted));
	ELSIF (CASE WHEN r.ordered THEN got ELSE q_sorted(got) END) <> wanted THEN
		problem := 'other rows, or in another order';
	ELSIF status.kind = 'memory' AND setting ->> 'stash_threshold' = '0' AND
		cardinality(wanted) > 0
	THEN
		problem := 'not stashed';
	END IF;
END
$$;

/* The first page as JSON, and the next ones. */
CREATE FUNCTION q_pages(r q_request, setting jsonb, page int)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	wanted jsonb[];
	got jsonb[];
	h uuid;
	total bigint;
	pos bigint;
BEGIN
	EXECUTE format('SELECT coalesce(array_agg(row_to_json(q)::jsonb), %L) '
		'FROM (%s) q', '{}', r.plain) INTO wanted;
	SELECT coalesce(array_agg(p.r ORDER BY p.pos), '{}'), min(p.handle::text),
		coalesce(max(p.num_rows), 0), coalesce(max(p.pos), -1)
	INTO got, h, total, pos
	FROM peek_query_page(r.query, r.args, page, setting) p;
	IF total <> cardinality(wanted) OR pos + 1 <> cardinality(got) THEN
		RETURN format('page: %s of %s rows, wanted %s', pos + 1, total,
					  cardinality(wanted));
	END IF;
	FOR start IN page .. total BY page LOOP
		EXIT WHEN h IS NULL;
		got := got || ARRAY(SELECT jsonb_array_elements(
			peek_fetch_json(h, start, page) -> 'rows'));
	END LOOP;
	PERFORM peek_release(h) WHERE h IS NOT NULL;
	IF NOT r.ordered THEN
		got := ARRAY(SELECT g FROM unnest(got) g ORDER BY g);
		wanted := ARRAY(SELECT w FROM unnest(wanted) w ORDER BY w);
	END IF;
	IF got <> wanted THEN
		RETURN 'page: other rows, or in another order';
	END IF;
	RETURN NULL;
END
$$;

CREATE PROCEDURE q_run(part int, parts int) LANGUAGE plpgsql AS $$
DECLARE
	r q_request;
	wanted bytea[];
	result q_result;
	stage text;
	settings jsonb[] := ARRAY[
		'{"yield_granularity": 3, "stash_threshold": "100MB"}',
		'{"stash_threshold": 0, "yield_granularity": 1}',
		'{"stash_threshold": 0, "stash_batch_size": 100}',
		'{"stash_threshold": 300, "stash_batch_size": 200,
			"read_batch_size": 500, "stash_compression": "none"}'];
BEGIN
	FOR r IN SELECT * FROM q_request WHERE id % parts = part ORDER BY id LOOP
		result := NULL;
		result.id := r.id;
		BEGIN
			stage := 'plain';
			EXECUTE format('SELECT coalesce(array_agg(record_send(q)), %L) '
				'FROM (%s) q', '{}', r.plain) INTO wanted;
			IF NOT r.ordered THEN
				wanted := q_sorted(wanted);
			END IF;
			result.num_rows := cardinality(wanted);
			stage := 'peek';
			SELECT * INTO result.problem, result.columns
			FROM q_judged(r, settings[1], wanted, 1000000);
			result.problem := concat_ws('; ', result.problem,
				(SELECT q.problem
				 FROM q_judged(r, settings[2 + r.id / parts % 3], wanted,
							   CASE WHEN r.id / parts % 2 = 0 THEN 1000000
							   ELSE greatest(result.num_rows / 3, 1) END) q));
			IF r.id / parts % 4 = 0 THEN
				stage := 'page';
				BEGIN
					result.problem := concat_ws('; ', result.problem,
						q_pages(r, settings[1 + r.id / parts / 4 % 4],
								1 + r.id % 37));
				EXCEPTION WHEN duplicate_column THEN
					/* which it must be */
					IF (SELECT count(*) = count(DISTINCT split_part(l, '|', 1))
						FROM regexp_split_to_table(result.columns, E'\n') l)
					THEN
						RAISE;
					END IF;
				END;
			END IF;
			result.problem := nullif(result.problem, '');
		EXCEPTION WHEN OTHERS THEN
			IF stage = 'plain' THEN
				result.sqlstate := SQLSTATE;
			ELSE
				result.problem := format('%s: %s: %s', stage, SQLSTATE,
										 SQLERRM);
			END IF;
		END;

		/* what throws must throw the same */
		IF result.sqlstate IS NOT NULL THEN
			BEGIN
				PERFORM peek_query(r.query, r.args);
				result.problem := 'throws only if it is run plainly';
			EXCEPTION WHEN OTHERS THEN
				IF SQLSTATE <> result.sqlstate THEN
					result.problem := SQLSTATE || ': ' || SQLERRM;
				END IF;
			END;
		END IF;
		INSERT INTO q_result SELECT result.*;
		IF r.id / parts % 200 = 0 THEN
			PERFORM peek_release(handle) FROM peekstash.peeks;
			COMMIT;
		END IF;
	END LOOP;
	PERFORM peek_release(handle) FROM peekstash.peeks;
END
$$;
EOT


# Run

my $node = peek_start('query_differential', conf => "peekstash.max_role_peeks = 0\n");
my $started = time;

$node->safe_psql('postgres', $query_tables . $server_sql
	. "COPY q_request FROM stdin;\n$load\\.\nVACUUM ANALYZE;\n");

my @runs;
my $start = sub {
	my ($in, @args) = @_;
	my $run = { out => '', err => '' };

	$run->{handle} = IPC::Run::start(
		[
			$node->installed_command('psql'), '-XAtq',
			'-d', $node->connstr('postgres'), @args
		],
		'<', \$in,
		'>', \$run->{out},
		'2>', \$run->{err});
	push @runs, $run;
	return $run;
};
$start->('', '-c', "CALL q_run($_, $CONNECTIONS)") foreach 0 .. $CONNECTIONS - 1;
my $described = $start->($describe, '-F', '|');
foreach my $run (@runs)
{
	$run->{handle}->finish;
	is($run->{err}, '', 'all queries of a connection were made');
}
diag sprintf '%s queries in %s seconds', $NUM_REQUESTS, time - $started;

sub ask
{
	my ($query) = @_;

	return $node->safe_psql('postgres', $query);
}


# Answers

is(ask('SELECT count(*) FROM q_result'), $NUM_REQUESTS,
	'every query was made');
foreach my $ordered ('ordered', 'NOT ordered')
{
	is( ask("SELECT format(E'query %s: %s\\n%s\\n%s\\n%s\\n', id, problem, query,
				args, plain)
			FROM q_request JOIN q_result USING (id)
			WHERE $ordered AND problem IS NOT NULL ORDER BY id LIMIT 10"),
		'',
		"same answers: $ordered");
}

my %columns;
foreach my $line (split /^#/m, $described->{out})
{
	my ($id, $columns) = split /\n/, $line, 2;

	next if !defined $id || $id eq '';
	chomp $columns;
	$columns{$id} = $columns;
}
my ($same, @others) = (0);
foreach my $line (split /\x{1}/, ask("SELECT string_agg(id || E'\\x02' || columns, E'\\x01')
		FROM q_result WHERE columns IS NOT NULL"))
{
	my ($id, $columns) = split /\x{2}/, $line;

	if ($columns eq ($columns{$id} || ''))
	{
		$same++;
		next;
	}
	push @others, "query $id:\n$columns\nwanted:\n" . ($columns{$id} || '');
}
is(join("\n", grep { defined } @others[ 0 .. 4 ]),
	'', 'the columns have the same names and types');
cmp_ok($same, '>=', 0.9 * $NUM_REQUESTS, 'nearly all queries have columns');


# A generator that asks for nothing would find nothing wrong.  The numbers are
# parts of all queries, low enough for any seed.

my @diversity = (
	[ 0.7, 'rows', 'num_rows > 0' ],
	[ 0.03, 'no rows', 'num_rows = 0' ],
	[ 0.015, 'many rows', 'num_rows > 100' ],
	[ 0.4, 'parameters', "'params' = ANY (features)" ],
	[ 0.1, 'a join, and rows', "'join' = ANY (features) AND num_rows > 0" ],
	[ 0.1, 'groups', "'group' = ANY (features)" ],
	[ 0.05, 'windows', "'window' = ANY (features)" ],
	[ 0.05, 'LATERAL, and rows', "'lateral' = ANY (features) AND num_rows > 0" ],
	[ 0.05, 'set operations', "'setop' = ANY (features)" ],
	[ 0.04, 'WITH', "'cte' = ANY (features)" ],
	[ 0.02, 'WITH RECURSIVE', "'recursive' = ANY (features)" ],
	[ 0.1, 'subqueries', "'subquery' = ANY (features)" ],
	[ 0.01, 'set-returning functions', "'srf' = ANY (features)" ],
	[ 0.05, 'DISTINCT', "'distinct' = ANY (features)" ],
	[ 0.4, 'ORDER BY', "'order' = ANY (features)" ],
	[ 0.1, 'LIMIT', "'limit' = ANY (features)" ],
	[ 0.05, 'partitions', "'q_parts' = ANY (features)" ],
	[ 0.05, 'a view', "'q_view' = ANY (features)" ],
	[ 0.05, 'wide values', "'q_wide' = ANY (features)" ]);
foreach my $line (@diversity)
{
	my ($part, $what, $condition) = @$line;

	cmp_ok(
		ask("SELECT count(*) FROM q_request JOIN q_result USING (id)
			WHERE $condition"),
		'>=',
		int($part * $NUM_REQUESTS),
		"the answers are diverse: $what");
}
cmp_ok(ask('SELECT count(*) FROM q_result WHERE sqlstate IS NOT NULL'),
	'<=', 0.05 * $NUM_REQUESTS, 'few queries throw');
cmp_ok(
	ask("SELECT count(DISTINCT f) FROM q_request, unnest(features) f
		WHERE f LIKE 'param %'"),
	'>=', 14, 'parameters are of many types');

no_leftovers($node, 'postgres', 'nothing is left behind');

$node->stop;
done_testing();
