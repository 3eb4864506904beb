# PeekGet.pm
#	Runs peekget, and psql as what it is compared with.
#
#	use PeekGet;
#
#	my $run = peekget($node, '--index', 'item', '--format', 'csv');
#	is($run->{status}, 0, 'it works');
#	is($run->{out}, copy_out($node, 'SELECT * FROM item ORDER BY k', 'FORMAT csv'));
#
# Both see the caller's environment, but for the place of the server.

package PeekGet;

use strict;
use warnings;

use Exporter 'import';
use IPC::Run qw(run start timeout);
use POSIX ();
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

our @EXPORT = qw(
  peekget
  peekget_start
  peekget_result
  peekget_ends
  copy_out
  slurp
  spit
  state_of
  kept_answers
);

# Ends with the test that forgot it.
my $patience = 60;

sub environment
{
	my ($node) = @_;

	return (
		PGHOST => $node->host,
		PGPORT => $node->port,
		PGDATABASE => 'postgres');
}

# Runs to the end; returns { status, out, err }.  Of a program that was killed
# by a signal the status is 1000 and the signal.
sub peekget
{
	my ($node, @args) = @_;

	return peekget_result(peekget_start($node, @args));
}

# Starts it, and returns what peekget_result takes.
sub peekget_start
{
	my ($node, @args) = @_;
	my $run = { out => '', err => '' };

	local %ENV = (%ENV, environment($node));
	$run->{harness} = start([ 'peekget', @args ], '<', \undef,
		'>', \$run->{out}, '2>', \$run->{err}, timeout($patience));
	$run->{pid} = $run->{harness}->{KIDS}->[0]->{PID};
	return $run;
}

sub peekget_result
{
	my ($run) = @_;

	$run->{harness}->finish;
	my $result = $run->{harness}->full_result(0);
	$run->{status} = $result & 127 ? 1000 + ($result & 127) : $result >> 8;
	return $run;
}

# A test point: peekget ends with this status, and what it says matches.
# Returns the run.
sub peekget_ends
{
	my ($node, $status, $says, $test_name, @args) = @_;
	my $run = peekget($node, @args);

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	ok($run->{status} == $status && $run->{err} =~ $says, $test_name)
	  or diag "status $run->{status} and not $status, or it does not say "
	  . "$says:\n$run->{err}";
	return $run;
}

# What psql gets from COPY, byte for byte.
sub copy_out
{
	my ($node, $query, $options) = @_;
	my ($out, $err) = ('', '');

	local %ENV = (%ENV, environment($node));
	run([ 'psql', '-X', '-q', '-c', "COPY ($query) TO STDOUT ($options)" ],
		'<', \undef, '>', \$out, '2>', \$err)
	  or die "COPY has failed: $err";
	return $out;
}

sub slurp
{
	my ($file) = @_;

	open my $in, '<:raw', $file or die "$file: $!";
	local $/;
	return scalar <$in>;
}

sub spit
{
	my ($file, $content) = @_;

	open my $out, '>:raw', $file or die "$file: $!";
	print $out $content;
	close $out or die "$file: $!";
	return;
}

# The state file of an output as a hash, lists left out; undef if it is not
# there.
sub state_of
{
	my ($file) = @_;

	return undef unless -e "$file.peekget";
	return { map { /^(\S+) (.*)$/ ? ($1 => $2) : () }
		  split /\n/, slurp("$file.peekget") };
}

sub kept_answers
{
	my ($node, $dbname) = @_;

	return $node->safe_psql($dbname || 'postgres',
		'SELECT count(*) FROM peekstash.peeks');
}

1;
