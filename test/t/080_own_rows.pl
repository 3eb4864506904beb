# What the submitter has written and not committed, and what a worker does to
# it.  A worker that takes the submitter's transaction for aborted writes that
# down in the rows that it sees, in any table, and they are lost when the
# submitter commits.  Two protections are in the way: a transaction that has
# written is not handed over, and the worker's snapshot lists the submitter's
# transaction ids as in progress.  The second is tried with the first left out,
# and to show that these tests can fail, both are left out at last.

use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin;

use PeekTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = peek_start('own_rows', conf => qq{
	autovacuum = off
});

# look() reads another table, as a function of a filter may.
$node->safe_psql('postgres', q{
	CREATE TABLE walked (k int PRIMARY KEY, v int);
	CREATE TABLE other (k int PRIMARY KEY, v int);
	CREATE FUNCTION look(int) RETURNS bool LANGUAGE plpgsql
	STABLE PARALLEL SAFE AS $$
	BEGIN
		PERFORM count(*), sum(v) FROM other;
		RETURN true;
	END $$;
	-- writes as one does in a loop with an exception block: each round is a
	-- subtransaction
	CREATE PROCEDURE write_much(tab regclass, rounds int) LANGUAGE plpgsql AS $$
	BEGIN
		FOR i IN 1 .. rounds LOOP
			BEGIN
				EXECUTE format('INSERT INTO %s VALUES (%s, 0)', tab, -i);
			EXCEPTION WHEN unique_violation THEN
				NULL;
			END;
		END LOOP;
	END $$;
});

# The first submit sweeps, and a transaction that has written does not; before
# that nothing is handed over.
$node->safe_psql('postgres', q{SELECT peek_release(peek_submit('walked'))});

# 500 rows of which 100 are changed, 100 are deleted, and 200 are added
my $before = '500|125250';
my $after  = '600|320300';
my %write = (
	insert => 'INSERT INTO %s SELECT i, i FROM generate_series(501, 700) i',
	update => 'UPDATE %s SET v = v + 1000 WHERE k <= 100',
	delete => 'DELETE FROM %s WHERE k BETWEEN 201 AND 300');

sub content
{
	my ($session, $table) = @_;

	return $session->query(
		"SELECT count(*), sum(v) FROM $table WHERE k > 0");
}

# One transaction that writes, submits, waits for the end of the walk, and
# commits.  Afterwards the table holds what was written, or (lost) does not.
#
#	table		what it writes to; "other" is read by the filter alone
#	begin		how the transaction begins
#	before		what it does before it writes
#	nested		each statement in a savepoint: "released", or "open"
#	skip		protections that are left out
#	driver		who walks
#	reason		why it stays
#	lost		1 = what was written is destroyed
sub try_it
{
	my ($name, %opts) = @_;
	my $table = $opts{table};
	my $writer = peek_session($node);
	my @guards;

	$node->safe_psql('postgres', qq{
		TRUNCATE walked, other;
		INSERT INTO walked SELECT i, i FROM generate_series(1, 500) i;
		INSERT INTO other SELECT i, i FROM generate_series(1, 500) i;});
	$node->safe_psql('postgres', 'VACUUM ANALYZE walked, other');
	is(content($writer, $table), $before, "$name: before");

	$writer->query($opts{begin} || 'BEGIN');
	$writer->query($opts{before}) if $opts{before};
	foreach my $kind (qw(insert update delete))
	{
		$writer->query("SAVEPOINT $kind") if $opts{nested};
		$writer->query(sprintf $write{$kind}, $table);
		$writer->query("RELEASE $kind")
		  if $opts{nested} && $opts{nested} eq 'released';
	}

	# An id that is newer than all of these and has ended: only then is ours
	# older than the end of the snapshot, where nobody asks any more.
	$node->safe_psql('postgres', 'SELECT txid_current()');

	push @guards, arm_stop($node, $_, 'skip') foreach @{ $opts{skip} || [] };
	my $handle = $writer->query(q{
		SELECT peek_submit('walked', filter => 'look(k)',
			options => '{"enable_offload": true, "inline_budget": 1}')});
	is($writer->query("SELECT peek_wait('$handle')"), 'done', "$name: done");
	is( $writer->query(
			"SELECT driver, inline_reason FROM peek_status('$handle')"),
		$opts{driver} . '|' . ($opts{reason} || ''),
		"$name: who walks");
	$_->release foreach @guards;

	# the walk itself
	my $rows = $writer->query(qq{SELECT count(*), sum(v)
		FROM peek_fetch(NULL::walked, '$handle') WHERE k > 0});
	is($rows, $table eq 'walked' ? $after : $before,
		"$name: the answer has the rows of its own transaction")
	  if $opts{driver} eq 'inline';

	is(content($writer, $table), $after, "$name: before the commit")
	  unless $opts{lost};
	$writer->query('COMMIT');
	if ($opts{lost})
	{
		isnt(content($writer, $table), $after, "$name: rows are lost");
		is( $writer->query(
				"SELECT count(*) FROM $table WHERE k BETWEEN 501 AND 700"),
			'0',
			"$name: what was inserted is gone");
	}
	else
	{
		is(content($writer, $table), $after, "$name: after the commit");
		$writer->query('SET enable_seqscan = off; SET enable_bitmapscan = off');
		is(content($writer, $table), $after, "$name: by index");
		$node->safe_psql('postgres', "VACUUM $table");
		is(content($writer, $table), $after, "$name: after a vacuum");
	}
	$writer->query("SELECT peek_release('$handle')");
	$writer->quit;
	return;
}

foreach my $table (qw(walked other))
{
	# as it is
	try_it("$table, nothing left out", table => $table,
		driver => 'inline', reason => 'transaction_id');

	# with the snapshot alone
	my %snapshot = (table => $table, skip => ['own-rows-gate'],
		driver => 'offloaded');
	try_it("$table, by snapshot", %snapshot);
	try_it("$table, by snapshot, REPEATABLE READ", %snapshot,
		begin => 'BEGIN ISOLATION LEVEL REPEATABLE READ');
	try_it("$table, by snapshot, savepoints released", %snapshot,
		nested => 'released');
	try_it("$table, by snapshot, savepoints open", %snapshot,
		nested => 'open');

	# with none
	my %none = (%snapshot, lost => 1,
		skip => [ 'own-rows-gate', 'own-rows-snapshot' ]);
	try_it("$table, without protection", %none);
	try_it("$table, without protection, savepoints released", %none,
		nested => 'released');
}

# Ids of subtransactions that are not all known any more, of ourselves: it
# stays, whatever the first gate says
try_it('subtransactions', table => 'other', skip => ['own-rows-gate'],
	before => q{CALL write_much('other', 70)},
	driver => 'inline', reason => 'subtransactions');
try_it('some subtransactions', table => 'other', skip => ['own-rows-gate'],
	before => q{CALL write_much('other', 50)}, nested => 'released',
	driver => 'offloaded');

# ... and of somebody else: the snapshot names nobody's any more
{
	my $busy = peek_session($node);

	$node->safe_psql('postgres', 'CREATE TABLE third (k int, v int)');
	$busy->query('BEGIN');
	$busy->query(q{CALL write_much('third', 70)});
	foreach my $table (qw(walked other))
	{
		try_it("$table, another overflows", table => $table,
			skip => ['own-rows-gate'], nested => 'released',
			driver => 'offloaded');
	}
	$busy->query('COMMIT');
	$busy->quit;
}

no_leftovers($node, 'postgres', 'at the end');

done_testing();
