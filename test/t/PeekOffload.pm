# PeekOffload.pm
#	What the tests of offloaded walks share: the look for what peeks, workers
#	and reclaim must not leave behind, and the statistics.
#
#	my $watch = PeekOffload->new($node);
#	my $before = $watch->counts;
#	...
#	$watch->settled('after a cancel');
#	$watch->counted($before, { answers_cancelled => 1 }, 'counted');

package PeekOffload;

use strict;
use warnings;

use PeekTest;
use Test::More;
use Time::HiRes qw(time usleep);

# Seconds until what must go away by itself has gone.
my $patience = 120;

# Nothing is in flight, nobody's rows are there, and the counters are those of
# the tables.  Answers that are kept may be there.  One line for each thing
# found.
my $looks = q{
	WITH stat AS MATERIALIZED (SELECT * FROM peekstash.stat),
	payloads AS MATERIALIZED (
		SELECT (SELECT coalesce(sum(octet_length(payload) + 4), 0)
				FROM peekstash.batch)
			+ (SELECT coalesce(sum(octet_length(tail_rows) + 4), 0)
				FROM peekstash.outcome) AS bytes),
	stored AS MATERIALIZED (
		SELECT coalesce(sum(stored_bytes), 0) AS bytes FROM peekstash.outcome)
	SELECT format('%s slots', slots_in_use) FROM stat WHERE slots_in_use > 0
	UNION ALL
	SELECT format('%s permits', permits_in_use) FROM stat
	WHERE permits_in_use > 0
	UNION ALL
	SELECT format('%s waiting', permit_queue_depth) FROM stat
	WHERE permit_queue_depth > 0
	UNION ALL
	SELECT format('worker %s: %s', pid, wait_event) FROM pg_stat_activity
	WHERE backend_type = 'peekstash walk'
	UNION ALL
	SELECT format('process %s (%s) holds %s on %s', pid, backend_type, mode,
		coalesce(relation::regclass::text, locktype))
	FROM pg_locks JOIN pg_stat_activity USING (pid)
	WHERE pid <> pg_backend_pid() AND backend_type NOT LIKE 'autovacuum%'
		AND locktype IN ('relation', 'object', 'advisory')
		AND NOT pid = ANY (LENT)
	UNION ALL
	SELECT format('%s batches without a handle', count(*))
	FROM peekstash.batch b WHERE NOT EXISTS (
		SELECT FROM peekstash.handle h WHERE h.handle = b.handle)
	HAVING count(*) > 0
	UNION ALL
	SELECT format('%s outcomes without a handle', count(*))
	FROM peekstash.outcome o WHERE NOT EXISTS (
		SELECT FROM peekstash.handle h WHERE h.handle = o.handle)
	HAVING count(*) > 0
	UNION ALL
	SELECT format('%s handles without an outcome', count(*))
	FROM peekstash.handle h WHERE NOT EXISTS (
		SELECT FROM peekstash.outcome o WHERE o.handle = h.handle)
	HAVING count(*) > 0
	UNION ALL
	SELECT format('%s bytes counted, %s in outcomes', stash_bytes, stored.bytes)
	FROM stat, stored WHERE stash_bytes <> stored.bytes
	UNION ALL
	SELECT format('%s bytes in outcomes, %s in payloads', stored.bytes,
		payloads.bytes)
	FROM stored, payloads WHERE stored.bytes <> payloads.bytes};

my @counters = qw(walks_inline walks_offloaded answers_memory answers_stashed
  answers_failed answers_cancelled);

# Looks at a database of a server; dbname as of peek_session.
sub new
{
	my ($class, $node, %opts) = @_;

	return bless {
		node => $node,
		opts => \%opts,
		session => peek_session($node, %opts) }, $class;
}

# One value, or several as psql prints them.  After a restart of the server
# the session is made anew.
sub query
{
	my ($self, $query) = @_;

	foreach (1 .. 10 * $patience)
	{
		my ($out, $err) = eval {
			$self->{session} = peek_session($self->{node}, %{ $self->{opts} })
			  if $self->{session}->ended;
			$self->{session}->query($query);
		};
		if (!$@ && !$self->{session}->ended && $err !~ /FATAL|connection/)
		{
			die "query failed: $query\n$err\n" if $err =~ /ERROR:  /;
			return $out;
		}
		$self->{session}->quit;
		usleep(100_000);
	}
	die "the server does not come back";
}

# Waits until a walk can be handed over: after a start of the server somebody
# has to look for orphans first.  Takes a query that submits one in the
# background, and releases it.
sub ready
{
	my ($self, $submit) = @_;

	foreach (1 .. 20 * $patience)
	{
		my ($out, $err) = eval {
			$self->{session} = peek_session($self->{node}, %{ $self->{opts} })
			  if $self->{session}->ended;
			$self->{session}->query($submit);
		};
		if (!$@ && !$self->{session}->ended && $err eq '')
		{
			$self->query("SELECT peek_wait('$out')");
			$self->query("SELECT peek_release('$out')");
			return;
		}
		die "submit failed: $err\n"
		  if defined $err && $err =~ /ERROR:  / && $err !~ /has not been swept yet/;
		$self->{session}->quit if defined $err && $err =~ /FATAL|connection/;
		usleep(50_000);
	}
	die "walks are not handed over";
}

# Waits until a query says "t".
sub wait_until
{
	my ($self, $query) = @_;
	my $start = time;

	while ($self->query($query) ne 't')
	{
		return 0 if time > $start + $patience;
		usleep(20_000);
	}
	return 1;
}

# What is left, after some time.  Sessions that hold an armed stop point may
# do so: lent is a list of their process ids.
sub leftovers
{
	my ($self, @lent) = @_;
	my $start = time;
	my $query = $looks;
	my $found;

	$query =~ s/LENT/"'{" . join(',', @lent) . "}'"/e;
	while (($found = $self->query($query)) ne '')
	{
		last if time > $start + $patience;
		usleep(20_000);
	}
	return $found;
}

# A test point: there are no leftovers.
sub settled
{
	my ($self, $test_name, @lent) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return is($self->leftovers(@lent), '', $test_name);
}

sub counts
{
	my ($self) = @_;
	my %counts;

	@counts{@counters} = split /\|/,
	  $self->query('SELECT ' . join(', ', @counters) . ' FROM peekstash.stat');
	return \%counts;
}

# How much has been counted since.
sub grown
{
	my ($self, $before) = @_;
	my $after = $self->counts;

	return { map { $_ => $after->{$_} - $before->{$_} } @counters };
}

# A test point: so many of each kind, and no others, since the first counts
# were taken.  Walks are those of workers unless said otherwise.
sub counted
{
	my ($self, $before, $wanted, $test_name) = @_;
	my %wanted = map { $_ => 0 } @counters;

	%wanted = (%wanted, %$wanted);
	$wanted{walks_offloaded} = $wanted{answers_memory} +
	  $wanted{answers_stashed} + $wanted{answers_failed} -
	  $wanted{walks_inline};

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return is_deeply($self->grown($before), \%wanted, $test_name);
}

# The sizes of the segments of dynamic shared memory; the server must have them
# as files (dynamic_shared_memory_type = mmap), and run no parallel queries, for
# which sessions keep one.  The server's own statistics grow by whole megabytes;
# ours are smaller in these tests.
sub segments
{
	my ($self) = @_;

	return join ' ', sort { $a <=> $b } grep { $_ < 1024 * 1024 }
	  map { -s $_ || 0 } glob $self->{node}->data_dir . '/pg_dynshmem/*';
}

1;
