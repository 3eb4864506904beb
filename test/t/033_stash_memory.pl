# A backend stays small while its answer of 64 MB goes to the stash and comes
# back: it holds what has not been cut yet, one payload, and what the reader
# has decoded, whatever the size of the answer.  In a select list that takes no
# temporary file either.  The same answer held in memory is the counter-proof:
# it must show.

use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin;

use PeekMemory;
use PeekTest;
use PostgreSQL::Test::Utils;
use Test::More;

plan skip_all => 'needs /proc' unless memory_is_known();

my $MB = 1024;    # in kB, as /proc speaks
my $BOUND = 16 * $MB;

my $node = peek_start('memory', conf => qq{
	work_mem = 4MB
	log_temp_files = 0
	max_wal_size = 1GB
});
$node->safe_psql('postgres', q{
	-- 64 MB, in rows that are neither compressed nor stored out of line
	CREATE UNLOGGED TABLE big (k int, v text);
	INSERT INTO big SELECT i, repeat(md5(i::text), 32)
	FROM generate_series(1, 65536) AS i;
	ALTER TABLE big ADD PRIMARY KEY (k);

	-- a million rows, 20 bytes each by the ruler
	CREATE UNLOGGED TABLE narrow (k int);
	INSERT INTO narrow SELECT generate_series(1, 1000000);
	CREATE INDEX narrow_k ON narrow (k);

	-- 64 MB in rows of 1 MB, out of line
	CREATE UNLOGGED TABLE wide (k int PRIMARY KEY, v text);
	ALTER TABLE wide ALTER COLUMN v SET STORAGE EXTERNAL;
	INSERT INTO wide SELECT i, repeat(md5(i::text), 32768)
	FROM generate_series(1, 64) AS i;
	VACUUM ANALYZE;

	CREATE VIEW own_context_bytes AS
		SELECT sum(total_bytes) AS bytes FROM pg_backend_memory_contexts;
});

# A session that has done all of this before on a small scale, and its size.
sub warm_session
{
	my $session = peek_session($node);

	$session->query('SET peekstash.max_result_size = -1');
	$session->query("COPY (SELECT peek(NULL::$_->[0], '$_->[1]', upper => 1,"
		  . " order_by => 'k', options => '{\"stash_threshold\": 0}'))"
		  . " TO '/dev/null'")
	  for ([ 'big', 'big_pkey' ], [ 'narrow', 'narrow_k' ], [ 'wide', 'wide_pkey' ]);
	$session->query($_)
	  for 'SELECT bytes FROM own_context_bytes',
	  'SELECT answers_stashed FROM peekstash.stat',
	  'SELECT count(*) FROM peekstash.batch';
	return ($session, memory_of($session->pid));
}

sub temp_files
{
	my ($offset) = @_;

	return () = slurp_file($node->logfile, $offset) =~ /LOG:  temporary file: /g;
}

# The limits as they are, and all of them sixteen times smaller, and with a
# payload for the whole of what is held.
my %limits = (
	'default limits' => '',
	'small limits' =>
	  '"stash_threshold": "64kB", "stash_batch_size": "8kB", "read_batch_size": "64kB"',
	'stashed at once' => '"stash_threshold": 0',
	'large batches' =>
	  '"stash_threshold": "2MB", "stash_batch_size": "2MB", "read_batch_size": "2MB"',
	'without compression' => '"stash_compression": "none"');

foreach my $name (sort keys %limits)
{
	foreach my $table (
		$name eq 'default limits'
		? ([ 'big', 'big_pkey' ], [ 'narrow', 'narrow_k' ], [ 'wide', 'wide_pkey' ])
		: ([ 'big', 'big_pkey' ]))
	{
		my ($type, $index) = @$table;
		my ($session, $idle) = warm_session();
		my $bytes = $session->query('SELECT bytes FROM own_context_bytes');
		my $offset = -s $node->logfile;
		my $stashed = $session->query('SELECT answers_stashed FROM peekstash.stat');

		my $grown = memory_peak($session,
			"COPY (SELECT peek(NULL::$type, '$index', options => '{$limits{$name}}'))"
			  . " TO '/dev/null'") - $idle;
		cmp_ok($grown, '<=', $BOUND, "$type, $name: peak");
		note "grown by $grown kB from $idle kB";
		is(temp_files($offset), 0, "$type, $name: no temporary file");
		is( $session->query('SELECT answers_stashed FROM peekstash.stat') - $stashed,
			1, "$type, $name: it was stashed");
		is($session->query('SELECT bytes FROM own_context_bytes'),
			$bytes, "$type, $name: memory is given back");
		is($session->query('SELECT count(*) FROM peekstash.batch'),
			'0', "$type, $name: so is the stash");
		$session->quit;
	}
}

# The ways in which others add work_mem, and temporary files
{
	my ($session, $idle) = warm_session();
	my $offset = -s $node->logfile;

	my $grown = memory_peak($session,
		"COPY (SELECT peek(NULL::big, order_by => 'v')) TO '/dev/null'") - $idle;
	cmp_ok($grown, '<=', $BOUND + 4 * $MB, '64 MB sorted: peak');
	note "grown by $grown kB";
	cmp_ok(temp_files($offset), '>', 0, '64 MB sorted: the sort has a file');

	$offset = -s $node->logfile;
	$grown = memory_peak($session, 'SELECT count(*) FROM peek(NULL::big)') - $idle;
	cmp_ok($grown, '<=', $BOUND + 4 * $MB, '64 MB in FROM: peak');
	note "grown by $grown kB";
	cmp_ok(temp_files($offset), '>', 0,
		"64 MB in FROM: PostgreSQL's own store has a file");
	$session->quit;
}

# Before the first row, and in the middle of reading
{
	my ($session, $idle) = warm_session();
	my $guard = arm_stop($node, 'upload-finish', 'wait');
	my $grown;

	$session->query('BEGIN; DECLARE c NO SCROLL CURSOR FOR SELECT peek(NULL::big)');
	$session->send('FETCH 1 FROM c');
	my $pid = wait_for_stop($node, 'upload-finish');
	$grown = memory_of($pid) - $idle;
	cmp_ok($grown, '<=', $BOUND, '64 MB: when all of it is written');
	$guard->release;
	my ($out, $err) = $session->result;
	like($out, qr/^\(1,/, 'the first row comes out of the stash');
	cmp_ok(
		$session->query('SELECT sum(answer_bytes) / 1024 FROM peekstash.batch'),
		'>', 63 * $MB, 'the answer is in the stash');
	$session->query('MOVE 40000 FROM c');
	like($session->query('FETCH 1 FROM c'), qr/^\(40002,/, 'so do many more');
	cmp_ok(memory_of($pid) - $idle, '<=', $BOUND, '64 MB: in the middle of reading');
	$session->query('COMMIT');
	is($session->query('SELECT count(*) FROM peekstash.batch'),
		'0', 'nothing is left of it');
	$session->quit;
}

# An error near the end
{
	my ($session, $idle) = warm_session();
	my $bytes = $session->query('SELECT bytes FROM own_context_bytes');
	my ($out, $err) = $session->query(
		"SELECT peek(NULL::big, filter => '1 / (65000 - k) < 2')");

	like($err, qr/ERROR:  division by zero/, 'an error near the end');
	is($out, '', 'no row comes before it');
	cmp_ok(memory_of($session->pid) - $idle, '<=', 4 * $MB,
		'memory is given back after it');
	cmp_ok($session->query('SELECT bytes FROM own_context_bytes') - $bytes,
		'<=', 64 * 1024, 'so are the contexts');
	$session->quit;
}

# Thousands of answers in one transaction: what is remembered of each until the
# commit is forgotten when its batches are deleted.  PostgreSQL itself takes 8 to
# 16 bytes for each row that one transaction both writes and deletes.
{
	my ($session, $idle) = warm_session();
	my $remembered = q{SELECT used_bytes FROM pg_backend_memory_contexts
		WHERE name = 'TopTransactionContext'};
	my $many = sub {
		my ($times) = @_;
		return "DO \$\$ BEGIN FOR i IN 1 .. $times LOOP PERFORM peek(NULL::narrow,"
		  . " 'narrow_k', key => i, options => '{\"stash_threshold\": 0}');"
		  . ' END LOOP; END $$';
	};

	$session->query('BEGIN');
	$session->query($many->(100));
	my $bytes = $session->query($remembered);
	$session->query($many->(3000));
	cmp_ok($session->query($remembered) - $bytes,
		'<=', 64 * 1024, '3,000 answers in one transaction leave no memory behind');
	$session->query('COMMIT');
	$session->quit;
}

# The counter-proof
{
	my ($session, $idle) = warm_session();

	cmp_ok(
		memory_peak($session,
			"COPY (SELECT peek(NULL::big, options => '{\"stash_threshold\": \"512MB\"}'))"
			  . " TO '/dev/null'") - $idle,
		'>', 60 * $MB, 'the same answer, held, would have been seen');
	$session->quit;
}

no_leftovers($node, 'postgres', 'nothing left over');
$node->stop;
done_testing();
