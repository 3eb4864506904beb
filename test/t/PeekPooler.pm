# PeekPooler.pm
#	A PgBouncer in front of a server.
#
#	use PeekPooler;
#
#	plan skip_all => 'needs PgBouncer' unless pooler_is_there();
#	my $pooler = pooler_start($node);
#	$pooler->safe_psql('postgres', 'SELECT 1');
#	my $session = peek_session($pooler);
#
# What pooler_start returns is the server's object once more, at the pooler's
# port: everything that connects with it connects through the pooler.

package PeekPooler;

use strict;
use warnings;

use Exporter 'import';
use POSIX ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Time::HiRes qw(usleep);

our @EXPORT = qw(
  pooler_is_there
  pooler_start
  pooler_stop
  pooler_again
  pooler_end);

my $program = '/usr/sbin/pgbouncer';
my %pids;

sub pooler_is_there
{
	return -x $program;
}

sub slurp_random
{
	my ($length) = @_;

	open my $random, '<:raw', '/dev/urandom' or die "/dev/urandom: $!";
	read $random, my $bytes, $length or die "/dev/urandom: $!";
	return $bytes;
}

# Starts PgBouncer with transaction pooling.  Each transaction gets the server
# connection that was idle longest (server_round_robin), so that with two or
# more of them no two transactions in a row run in the same backend.  These
# connections are made before this returns, and stay.
#
#	connections		how many; default 2
#	tcp				listen on 127.0.0.1, too, for clients that know no other
#					sockets; default 0.  Others of the machine get there as
#					well, so PGPASSWORD is set to a password that is asked for.
sub pooler_start
{
	my ($node, %opts) = @_;
	%opts = (connections => 2, tcp => 0, %opts);

	my $port = PostgreSQL::Test::Cluster::get_free_port();
	my $pooler = bless { %$node, _port => $port }, ref $node;
	my $dir = $pooler->{_pooler_dir} = PostgreSQL::Test::Utils::tempdir();
	my ($host, $server_port, $user) =
	  ($node->host, $node->port, scalar getpwuid $<);

	my $listen = '';
	my $auth = 'any';

	if ($opts{tcp})
	{
		my $password = unpack 'H*', slurp_random(16);

		open my $users, '>', "$dir/users.txt" or die "users.txt: $!";
		print $users qq{"$user" "$password"\n};
		close $users;
		$ENV{PGPASSWORD} = $password;
		$listen = '127.0.0.1';
		$auth = "md5\nauth_file = $dir/users.txt";
	}

	open my $ini, '>', "$dir/pgbouncer.ini" or die "pgbouncer.ini: $!";
	print $ini qq{
[databases]
* = host=$host port=$server_port user=$user

[pgbouncer]
listen_addr = $listen
listen_port = $port
unix_socket_dir = $host
auth_type = $auth
pool_mode = transaction
server_round_robin = 1
ignore_startup_parameters = extra_float_digits
default_pool_size = $opts{connections}
server_idle_timeout = 0
server_lifetime = 86400
logfile = $dir/pgbouncer.log
};
	close $ini;
	pooler_again($pooler);

	# As many transactions at once as there shall be connections.
	my @sessions = map { $pooler->background_psql('postgres') }
	  1 .. $opts{connections};
	$_->query_safe('BEGIN; SELECT 1') foreach @sessions;
	$_->query_safe('COMMIT') foreach @sessions;
	$_->quit foreach @sessions;
	return $pooler;
}

# Starts the program, for the first time or after pooler_stop.
sub pooler_again
{
	my ($pooler) = @_;
	my ($host, $port) = ($pooler->host, $pooler->port);
	my $dir = $pooler->{_pooler_dir};

	my $pid = fork;
	die "fork: $!" unless defined $pid;
	if ($pid == 0)
	{
		open STDIN,  '<', '/dev/null';
		open STDOUT, '>', "$dir/pgbouncer.out";
		open STDERR, '>&', \*STDOUT;
		exec $program, '-q', "$dir/pgbouncer.ini" or POSIX::_exit(127);
	}
	$pids{$port} = $pid;

	until (-S "$host/.s.PGSQL.$port")
	{
		die 'PgBouncer did not start: ' . slurp_file("$dir/pgbouncer.out")
		  if waitpid($pid, POSIX::WNOHANG()) != 0;
		usleep(50_000);
	}
	return;
}

# Ends it at once, with all connections.
sub pooler_stop
{
	my ($pooler) = @_;
	my $pid = delete $pids{ $pooler->port };

	kill 'TERM', $pid;
	waitpid $pid, 0;
	return;
}

sub pooler_end
{
	my ($pooler) = @_;
	my $pid = delete $pids{ $pooler->port };

	kill 'INT', $pid;
	waitpid $pid, 0;
	return;
}

# It does not end by itself.
END
{
	local ($?, $!);
	foreach my $pid (values %pids)
	{
		kill 'INT', $pid;
		waitpid $pid, 0;
	}
}

1;
