# The decoder of batches trusts nothing.  Payloads of real answers are damaged
# 100,000 times, and then 100,000 times more with the checksum made right again
# after the damage.  Without that, every damage is found; with it, the checks
# behind the checksum are on their own: what they cannot see is only a value in
# a row, and nothing makes the server crash or read beyond the payload.
#
# PEEKSTASH_SEED repeats a run.

use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin;

use PeekTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $MUTATIONS = 100_000;

my $seed = $ENV{PEEKSTASH_SEED};
$seed = (time ^ ($$ << 8)) % 1_000_000 if !defined $seed || $seed eq '';
diag "PEEKSTASH_SEED=$seed";

my $node = peek_start('format');
$node->safe_psql('postgres', q{
	CREATE FUNCTION batch_probe_mutate(payload bytea, columns int,
		mutations int, seed bigint, mend bool,
		OUT refused bigint, OUT read bigint)
	AS '$libdir/peekstash' LANGUAGE C STRICT;

	CREATE TABLE narrow (k int PRIMARY KEY);
	INSERT INTO narrow SELECT generate_series(1, 1000);

	CREATE TABLE wide (k int PRIMARY KEY, v text);
	ALTER TABLE wide ALTER COLUMN v SET STORAGE EXTERNAL;
	INSERT INTO wide SELECT i, (SELECT string_agg(md5(format('%s %s', i, j)), '')
								FROM generate_series(1, 100) AS j)
	FROM generate_series(1, 5) AS i;

	CREATE TABLE nulls (k int, a text, b bigint, c numeric, d date, e text,
		f bool, g int[], h jsonb);
	CREATE INDEX nulls_k ON nulls (k);
	INSERT INTO nulls SELECT i,
		CASE WHEN i % 2 = 0 THEN 'text ' || i END, CASE WHEN i % 3 = 0 THEN i END,
		CASE WHEN i % 4 = 0 THEN i / 7.0 END,
		CASE WHEN i % 5 = 0 THEN date '2024-01-01' + i END, NULL,
		CASE WHEN i % 6 = 0 THEN true END, CASE WHEN i % 7 = 0 THEN ARRAY[i, NULL] END,
		CASE WHEN i % 8 = 0 THEN jsonb_build_object('i', i) END
	FROM generate_series(1, 300) AS i;

	CREATE TABLE copies (k int, v text);
	CREATE INDEX copies_k ON copies (k);
	INSERT INTO copies SELECT i / 300, 'copy ' || i / 300
	FROM generate_series(0, 8999) AS i;

	CREATE TABLE lone (k int);
	CREATE INDEX lone_k ON lone (k);
	INSERT INTO lone SELECT 1 FROM generate_series(1, 500);
	CREATE TYPE nothing AS ();

	DO $$ BEGIN
		EXECUTE (SELECT format('CREATE TABLE many (%s)',
							   string_agg(format('c%s int', i), ', '))
				 FROM generate_series(1, 200) AS i);
		EXECUTE (SELECT format('INSERT INTO many SELECT %s FROM generate_series(1, 20) AS i',
							   string_agg(format('nullif(i * %s %% 3, 0)', j), ', '))
				 FROM generate_series(1, 200) AS j);
	END $$;
	CREATE INDEX many_c1 ON many (c1);
	CREATE TABLE payload (shape text, codec text, columns int, payload bytea);
});

# name, type and index, number of columns
my @shapes = (
	[ 'narrow', 'narrow',  'narrow_pkey', 1 ],
	[ 'wide',   'wide',    'wide_pkey',   2 ],
	[ 'nulls',  'nulls',   'nulls_k',     9 ],
	[ 'copies', 'copies',  'copies_k',    2 ],
	[ 'empty',  'nothing', 'lone_k',      0 ],
	[ 'one',    'lone',    'lone_k',      1 ],
	[ 'many',   'many',    'many_c1',     200 ]);
my @codecs = split /,/, $node->safe_psql('postgres', q{
	SELECT array_to_string(enumvals, ',') FROM pg_settings
	WHERE name = 'peekstash.stash_compression'
} =~ s/^/LOAD 'peekstash';/r);

# The last batch of an answer is the largest.
foreach my $codec (@codecs)
{
	foreach my $shape (@shapes)
	{
		my ($name, $type, $index, $columns) = @$shape;

		$node->safe_psql('postgres', qq{
			BEGIN;
			DECLARE c CURSOR FOR SELECT peek(NULL::$type, '$index',
				options => '{"stash_threshold": 0, "stash_compression": "$codec"}');
			MOVE 1 FROM c;
			INSERT INTO payload SELECT '$name', '$codec', $columns, payload
			FROM peekstash.batch ORDER BY first_row DESC LIMIT 1;
			COMMIT});
	}
}
note $node->safe_psql('postgres',
	'SELECT shape, codec, octet_length(payload) FROM payload');

my $session = peek_session($node);
my $each = int($MUTATIONS / (@shapes * @codecs)) + 1;
my $read = 0;

foreach my $codec (@codecs)
{
	foreach my $shape (@shapes)
	{
		my ($name) = @$shape;
		my $call = "SELECT r.refused, r.read FROM payload,
			LATERAL batch_probe_mutate(payload, columns, $each, \@SEED\@, \@MEND\@) AS r
			WHERE shape = '$name' AND codec = '$codec'";

		is($session->query($call =~ s/\@SEED\@/++$seed/er =~ s/\@MEND\@/false/r),
			"$each|0", "$name, $codec: all damage is refused");

		my $result =
		  $session->query($call =~ s/\@SEED\@/++$seed/er =~ s/\@MEND\@/true/r);
		my ($refused, $passed) = split /\|/, $result;
		is($refused + $passed, $each, "$name, $codec: no crash without a checksum");

		# Truncation and the head alone are two fifths of the kinds of damage.
		cmp_ok($refused, '>', $each * 0.3,
			"$name, $codec: the other checks find much of it");
		note "$name, $codec, mended: $refused refused, $passed read";
		$read += $passed;
	}
}
cmp_ok($read, '>', 0, 'some damage goes as deep as the values of rows');

# What is not damaged is read, but not as rows of another width.
my ($out, $err) = $session->query(q{
	SELECT batch_probe_mutate(payload, columns + 1, 1, 1, false) FROM payload});
like($err, qr/ERROR:  the undamaged payload has a wrong number of columns/,
	'rows of another width are refused');
($out, $err) = $session->query(q{
	SELECT batch_probe_mutate('', 1, 1, 1, false)});
like($err, qr/ERROR:  the undamaged payload is truncated/,
	'an empty payload is refused');

# Mended damage that is read back through the stash: an error or rows, and the
# session goes on.  Only numbers are read, so that no value is a length.
my %outcome;
$session->query(q{
	CREATE FUNCTION read_back(damage int, way int) RETURNS text LANGUAGE plpgsql AS $$
	DECLARE
		c refcursor;
		r record;
		num_rows int := 0;
	BEGIN
		OPEN c FOR SELECT peek(NULL::narrow, options =>
			'{"stash_threshold": 0, "stash_batch_size": 1000, "read_batch_size": 1}');
		FETCH c INTO r;
		UPDATE peekstash.batch SET payload = set_byte(payload, damage,
				get_byte(payload, damage) # way)
		WHERE first_row = 501;
		LOOP
			num_rows := num_rows + 1;
			FETCH c INTO r;
			EXIT WHEN NOT FOUND;
		END LOOP;
		RETURN 'rows: ' || num_rows;
	EXCEPTION WHEN data_corrupted THEN
		RETURN 'refused';
	END $$});
$outcome{ $session->query("SELECT read_back($_, " . (1 + $_ * 7 % 255) . ')') }++
  foreach 0 .. 99;
is_deeply(\%outcome, { refused => 100 }, 'any byte of a batch in the stash counts');

$session->quit;
unlike(slurp_file($node->logfile), qr/TRAP|PANIC|terminated by signal/,
	'the server is well');
no_leftovers($node, 'postgres', 'nothing left over');
$node->stop;
done_testing();
