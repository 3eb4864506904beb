#-------------------------------------------------------------------------
#
# Session.pm
#	  A session of the bench: one psql, one backend, statement by statement.
#
# psql is told to print a mark after each statement, so whoever waits for the
# mark knows that the server is done.  Between two statements nothing runs.
#
# Copyright (c) 2026, the peekstash authors
#
#-------------------------------------------------------------------------
package Session;

use strict;
use warnings;

use IPC::Open2;
use POSIX ();
use Time::HiRes qw(time usleep);

my $mark = '--done--';

sub new
{
	my ($class) = @_;
	my $self = bless {}, $class;

	$self->{pid} = open2($self->{out}, $self->{in}, 'psql', '-X', '-q', '-A',
		'-t', '-v', 'ON_ERROR_STOP=1');
	$self->run('SET client_min_messages = warning');
	($self->{backend}) = $self->run('SELECT pg_backend_pid()');
	return $self;
}

sub send_statement
{
	my ($self, $sql) = @_;

	print { $self->{in} } "$sql;\n\\echo $mark\n";
	$self->{in}->flush;
}

# The lines that the statement printed.
sub wait_for_end
{
	my ($self) = @_;
	my $out = $self->{out};
	my @lines;

	while (my $line = <$out>)
	{
		chomp $line;
		return @lines if $line eq $mark;
		push @lines, $line;
	}
	die "a statement of the bench has failed\n";
}

# Runs statements; returns the lines they printed.
sub run
{
	my ($self, @statements) = @_;

	$self->send_statement(join ";\n", @statements);
	return $self->wait_for_end;
}

# The seconds that the backend has been on a processor.
sub cpu
{
	my ($self) = @_;

	open my $sched, '<', "/proc/$self->{backend}/schedstat"
		or die "the kernel counts no processor time: $!\n";
	my ($nanoseconds) = split ' ', <$sched>;
	return $nanoseconds / 1e9;
}

# The seconds that a function took, and those of them that the backend was on a
# processor.
sub seconds_of
{
	my ($self, $function) = @_;
	my $cpu = $self->cpu;
	my $start = time;

	$function->();
	return { seconds => time - $start, cpu => $self->cpu - $cpu };
}

# The same of statements.  What they return is thrown away.
sub seconds
{
	my ($self, @statements) = @_;

	return $self->seconds_of(
		sub { $self->run(map { "$_ \\g /dev/null\n" } @statements) });
}

# Fields of /proc/PID/stat, from the third on: what comes before them is the
# name of the program, in which there may be anything.
sub proc_stat
{
	my ($pid) = @_;

	open my $file, '<', "/proc/$pid/stat" or return;
	return split ' ', (<$file> // '') =~ s/.*\) //r;
}

sub postmaster
{
	my ($self) = @_;

	return (proc_stat($self->{backend}))[1];
}

# The seconds that background workers have been on a processor, in hundredths:
# those of all processes of the server that have ended.  Waits for the end of
# the workers that walk; what they did last is counted as well.
sub workers_cpu
{
	my ($self) = @_;
	my $postmaster = $self->postmaster;

	usleep 5_000 while grep { $self->is_worker($_) } glob '/proc/[0-9]*';

	my @stat = proc_stat($postmaster);
	return ($stat[13] + $stat[14]) / POSIX::sysconf(POSIX::_SC_CLK_TCK());
}

# Is this folder of /proc one of a worker that walks, or of a process of the
# server that is ending?  Such a one has no command line any more, and is not
# counted yet; it takes a while to give up shared memory.
sub is_worker
{
	my ($self, $folder) = @_;
	my @stat = proc_stat($folder =~ s{.*/}{}r);

	return 0 if !@stat || $stat[1] != $self->postmaster;
	open my $file, '<', "$folder/cmdline" or return 0;
	return (<$file> // '') =~ /^$|peekstash walk/;
}

# The memory that is the backend's own (not shared, of no file), in kB.
sub memory
{
	my ($self) = @_;

	open my $status, '<', "/proc/$self->{backend}/status" or return 0;
	while (<$status>)
	{
		return $1 if /^RssAnon:\s+(\d+) kB/;
	}
	return 0;
}

# Runs a statement; returns the most memory it took above what the backend had
# before it, in kB, and the seconds.
sub peak_memory
{
	my ($self, $sql) = @_;
	my $idle = $self->memory;
	my $start = time;
	my $watcher = open(my $watched, '-|') // die "fork: $!";

	if ($watcher == 0)
	{
		my $peak = 0;
		my $ended = 0;

		local $SIG{TERM} = sub { $ended = 1 };
		until ($ended)
		{
			my $now = $self->memory;

			$peak = $now if $now > $peak;
			usleep 20_000;
		}
		print "$peak\n";
		close STDOUT;
		# no destructor of the parent's may run here
		POSIX::_exit(0);
	}

	$self->run("$sql \\g /dev/null\n");
	my $seconds = time - $start;
	kill 'TERM', $watcher;
	my $peak = <$watched>;
	close $watched;
	return ($peak - $idle, $seconds);
}

sub end
{
	my ($self) = @_;

	close $self->{in};
	close $self->{out};
	waitpid $self->{pid}, 0;
}

1;
