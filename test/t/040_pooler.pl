# What handles are for: a client behind a real transaction pooler reads a large
# answer page by page, each page in whatever backend the pooler chooses.  A
# cursor cannot do that, and the test shows it.  Readers share an answer, and
# one that lost its connection goes on where it was.

use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin;

use PeekPooler;
use PeekTest;
use PostgreSQL::Test::Utils;
use Test::More;

plan skip_all => 'needs PgBouncer' unless pooler_is_there();

my $ROWS = 50_000;
my $node = peek_start('pooler');
$node->safe_psql('postgres', qq{
	CREATE TABLE item (k int PRIMARY KEY, v text);
	INSERT INTO item SELECT i, repeat(md5(i::text), 4)
	FROM generate_series(1, $ROWS) AS i;
	VACUUM ANALYZE item;
});
my $pooler = pooler_start($node);

# One query a transaction, each a line "pid|..."; returns the rest and counts
# the backends.
my %backends;

sub pooled
{
	my ($session, $query) = @_;
	my ($pid, $rest) = split /\|/, $session->query($query), 2;

	$backends{$pid}++;
	return $rest;
}


# Submit on one connection, fetch over others

my $one = peek_session($pooler);
my $handle = pooled($one,
	q{SELECT pg_backend_pid(), peek_submit('item_pkey')});
like($handle, qr/^[0-9a-f-]{36}$/, 'a peek is submitted through the pooler');
my ($submitter) = keys %backends;
$one->quit;

%backends = ();
my $two = peek_session($pooler);
my ($found, $wrong) = (0, 0);
for (my $from = 0; $from < $ROWS; $from += 1000)
{
	my ($count, $first, $last, $sound) = split /\|/, pooled($two,
		"SELECT pg_backend_pid(), count(*), min(k), max(k),
			bool_and(v = repeat(md5(k::text), 4))
		 FROM peek_fetch(NULL::item, '$handle', $from, 1000)");

	$found += $count;
	$wrong++ unless $count == 1000 && $first == $from + 1
	  && $last == $from + 1000 && $sound eq 't';
}
is("$found $wrong", "$ROWS 0", 'each page has its rows');
is(scalar keys %backends, 2, 'the pages came from two backends');
is((scalar grep { $_ != $submitter } keys %backends),
	1, 'one of them is not where the peek was submitted');
note 'pages per backend: ', join ', ', values %backends;

# peek_page: the first page is already there when the handle is.
%backends = ();
my $page = pooled($two, q{SELECT pg_backend_pid(), handle, num_rows, count(*)
	FROM peek_page(NULL::item, 'item_pkey', lower => 101, page_rows => 10)
	GROUP BY 2, 3});
my ($page_handle, $rest) = split /\|/, $page, 2;
is($rest, $ROWS - 100 . '|10', 'a first page and the handle of the rest');
is(pooled($two, "SELECT pg_backend_pid(), min(k), max(k)
	FROM peek_fetch(NULL::item, '$page_handle', 10, 10)"),
	'111|120', 'the second page');
is(scalar keys %backends, 2, 'comes from another backend');


# The same with cursors

my ($out, $err) = $two->query(
	"DECLARE c CURSOR WITH HOLD FOR SELECT * FROM item ORDER BY k;\n"
	  . "FETCH 10 FROM c;\n");
like($err, qr/ERROR:  cursor "c" does not exist/,
	'the next page of a WITH HOLD cursor is in a backend that does not know it');
($out, $err) = $two->query(
	"BEGIN; DECLARE d CURSOR FOR SELECT * FROM item ORDER BY k; COMMIT;\n"
	  . "FETCH 10 FROM d;\n");
like($err, qr/ERROR:  cursor "d" does not exist/,
	'and a cursor without HOLD is gone with its transaction');
$two->quit;


# Four readers of one answer

my @readers = map { peek_session($pooler) } 0 .. 3;
my $share = $ROWS / 4;
$readers[$_]->send("COPY (SELECT (peek_fetch(NULL::item, '$handle', "
	  . $_ * $share . ", $share)).k) TO STDOUT")
  foreach 0 .. 3;
my (%seen, @counts);
foreach my $reader (@readers)
{
	my ($out, $err) = $reader->result;
	my @keys = split /\n/, $out;

	push @counts, scalar @keys;
	$seen{$_}++ foreach @keys;
	is($err, '', 'a reader met no error');
	$reader->quit;
}
is("@counts", join(' ', ($share) x 4), 'four readers got a quarter each');
is(scalar keys %seen, $ROWS, 'together all rows');
is((scalar grep { $_ != 1 } values %seen), 0, 'and each of them once');


# A connection that is lost in the middle of a download

# Downloads from row $from on; at row $stop the server sleeps so that there is
# a middle.  Returns the session and what has come until then.
sub download_until
{
	my ($from, $stop) = @_;
	my $session = peek_session($pooler);
	my $until = $stop - 5000;

	return ($session, $session->query_until(qr/^$until\t/m,
		"COPY (SELECT (r).k, CASE WHEN (r).k = $stop THEN pg_sleep(600) END
		 FROM (SELECT peek_fetch(NULL::item, '$handle', $from) AS r OFFSET 0) q)
		 TO STDOUT"));
}

my $asleep = q{FROM pg_stat_activity WHERE wait_event = 'PgSleep'};

# The numbers of the rows that are complete.
sub keys_of
{
	return $_[0] =~ /^(\d+)\t.*\n/mg;
}

my ($download) = download_until(0, 20_000);
$node->poll_query_until('postgres', "SELECT count(*) = 1 $asleep");
$node->safe_psql('postgres', "SELECT pg_terminate_backend(pid) $asleep");
($out, $err) = $download->result;
isnt($err, '', 'the backend of a download is terminated');
my @got = keys_of($out);
cmp_ok(scalar @got, '>=', 15_000, 'many rows have come until then');
cmp_ok(scalar @got, '<', 20_000, 'but not all');
$download->quit;

($download, $out) = download_until(scalar @got, 40_000);
$download->disconnect;
my @more = keys_of($out);
is($more[0], $got[-1] + 1, 'the next connection begins with the next row');
cmp_ok(scalar @more, '>', 10_000, 'and is broken off by its client');
push @got, @more;
$node->safe_psql('postgres', "SELECT pg_terminate_backend(pid) $asleep");

$download = peek_session($pooler);
push @got, split /\n/, $download->query(
	"COPY (SELECT (peek_fetch(NULL::item, '$handle', " . @got
	  . ')).k) TO STDOUT');
is(join(' ', @got), join(' ', 1 .. $ROWS),
	'the third one brings the rest: each row once, in order');
$download->quit;


# Nothing is left once it is released

is($pooler->safe_psql('postgres',
		"SELECT peek_release('$handle'), peek_release('$page_handle')"),
	't|t', 'the answers are released');
pooler_end($pooler);
no_leftovers($node);
is($node->safe_psql('postgres', 'SELECT stash_bytes FROM peekstash.stat'),
	'0', 'nothing is counted any more');
done_testing();
