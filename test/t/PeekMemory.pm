# PeekMemory.pm
#	The size of a backend while it does something.
#
# What counts is RssAnon: the pages of the process that are neither shared
# buffers nor files.  It is sampled from outside, so a peak of less than a
# millisecond can be missed; a size that lasts is not.
#
#	use PeekMemory;
#
#	plan skip_all => 'needs /proc' unless memory_is_known();
#	my $idle = memory_of($session->pid);
#	my $peak = memory_peak($session, 'SELECT ...');

package PeekMemory;

use strict;
use warnings;

use Exporter 'import';
use POSIX ();
use PostgreSQL::Test::Utils;
use Time::HiRes qw(usleep);

our @EXPORT = qw(memory_is_known memory_of memory_peak);

sub memory_is_known
{
	return -r "/proc/$$/status" && defined eval { memory_of($$) };
}

# The size of a process now, in kB.
sub memory_of
{
	my ($pid) = @_;

	return slurp_file("/proc/$pid/status") =~ /^RssAnon:\s+(\d+) kB/m
	  ? $1
	  : die "no RssAnon of process $pid";
}

# Lets a session run a query, and returns the largest size seen meanwhile.  A
# query that fails is the end of the test.
sub memory_peak
{
	my ($session, $query) = @_;
	my $pid = $session->pid;
	my $file = PostgreSQL::Test::Utils::tempdir() . '/peak';

	my $sampler = fork;
	die "fork: $!" unless defined $sampler;
	if ($sampler == 0)
	{
		my ($stop, $peak) = (0, 0);

		$SIG{TERM} = sub { $stop = 1 };
		until ($stop)
		{
			my $size = eval { memory_of($pid) };

			last unless defined $size;
			$peak = $size if $size > $peak;
			usleep(1000);
		}
		open my $out, '>', $file or POSIX::_exit(1);
		print $out $peak;
		close $out;
		POSIX::_exit(0);
	}

	my $done = eval { $session->query($query); 1 };
	my $error = $@;
	kill 'TERM', $sampler;
	waitpid $sampler, 0;
	die $error unless $done;
	die 'the sampler has failed' if $? != 0;
	return slurp_file($file);
}

1;
