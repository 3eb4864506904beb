# PeekTest.pm
#	What the TAP tests share: a server with peekstash, sessions that go on
#	while the test does something else, stop points, and the look for what a
#	peek left behind.
#
#	use FindBin;
#	use lib $FindBin::Bin;
#	use PeekTest;
#
#	my $node = peek_start('main');
#	my $guard = arm_stop($node, 'scan-step', 'wait');
#	my $session = peek_session($node);
#	$session->send("SELECT count(*) FROM peek(NULL::t)");
#	my $pid = wait_for_stop($node, 'scan-step');
#	$node->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");
#	my ($out, $err) = $session->result;
#	like($err, qr/canceling statement/, 'a waiting peek can be cancelled');
#	$guard->release;
#	no_leftovers($node, 'postgres', 'after a cancel');
#
# PostgreSQL::Test::Cluster stops the servers at the end of the test file.

package PeekTest;

use strict;
use warnings;

use Exporter 'import';
use File::Basename qw(dirname);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

our @EXPORT = qw(
  peek_start
  peek_session
  arm_stop
  wait_for_stop
  no_leftovers
);

my $test_dir = dirname(__FILE__) . '/..';

# The first key of the advisory lock that arms a stop point says what happens
# there; the second is the hash of its name.  See src/stop.c.
my %stop_class = (
	error => 1886545771,
	wait  => 1886545772,
	fatal => 1886545773,
	kill  => 1886545774,
	skip  => 1886545775);

# Seconds until what must go away by itself has gone: a backend that was
# killed, or whose client has left, ends after the test sees the end of the
# session.
my $patience = 15;

# Starts a server and returns the PostgreSQL::Test::Cluster object.
#
#	preload		peekstash in shared_preload_libraries; default 1
#	conf		more lines of postgresql.conf
#	streaming	the server can have standbys; default 0
#	start		default 1; with 0 the caller starts it, and creates the
#				extension
#
# The extension is created in the database "postgres".  The server comes back
# by itself after a crash, which Cluster's own default prevents.
sub peek_start
{
	my ($name, %opts) = @_;
	%opts = (preload => 1, conf => '', streaming => 0, start => 1, %opts);

	my $node = PostgreSQL::Test::Cluster->new($name);
	$node->init(
		allows_streaming => $opts{streaming},
		extra => [ '--locale=C', '--encoding=UTF8' ]);
	$node->append_conf('postgresql.conf',
		slurp_file("$test_dir/peekstash.conf"));
	$node->append_conf('postgresql.conf',
		slurp_file("$test_dir/peekstash_late.conf"))
	  unless $opts{preload};
	$node->append_conf('postgresql.conf', "restart_after_crash = on");
	$node->append_conf('postgresql.conf', $opts{conf});

	if ($opts{start})
	{
		$node->start;
		$node->safe_psql('postgres', 'CREATE EXTENSION peekstash');
	}
	return $node;
}

# Opens a session that lives on between queries; see PeekTest::Session below.
#
#	dbname	default "postgres"
#	user	role to log in as; default the superuser
#	options	settings as in PGOPTIONS, like "-c work_mem=64kB"
sub peek_session
{
	my ($node, %opts) = @_;

	return PeekTest::Session->new($node, %opts);
}

# Arms a stop point: every process of the database that reaches it throws
# ("error"), waits ("wait"), ends ("fatal") or is killed ("kill"), until
# release is called on the returned guard or the guard goes out of scope.
# Waiting processes go on then.  With "skip" the point is the name of a
# protection that is left out so long.
#
#	session	hold the lock in this session, and leave that open; default a
#			session of its own, with options as in peek_session
sub arm_stop
{
	my ($node, $point, $action, %opts) = @_;

	die "unknown action \"$action\"" unless exists $stop_class{$action};
	return PeekTest::Guard->new($node, $stop_class{$action}, $point, %opts);
}

# Waits until a process waits at a stop point, and returns its process id; with
# count => n, until so many do, and returns all of them.
sub wait_for_stop
{
	my ($node, $point, %opts) = @_;
	my $dbname = $opts{dbname} || 'postgres';
	my $query = qq{
		SELECT string_agg(l.pid::text, ' ' ORDER BY l.pid) FROM pg_locks l
		  JOIN pg_database d ON d.oid = l.database
		WHERE d.datname = current_database()
		  AND l.locktype = 'advisory' AND NOT l.granted
		  AND l.classid = $stop_class{wait} AND l.objsubid = 2
		  AND l.objid::bigint = hashtext('$point')::bigint & 4294967295};

	foreach (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		my @pids = split / /, $node->safe_psql($dbname, $query);
		return wantarray ? @pids : $pids[0] if @pids >= ($opts{count} || 1);
		usleep(100_000);
	}
	die "no process came to stop point \"$point\"";
}

# What no peek may leave behind.  Each look returns text, one line for each
# thing found; a new kind of leftover is a new line here.
my @looks = (
	sub {
		return query_look(@_, q{
			SELECT format('process %s (%s) holds %s on %s', l.pid,
						  a.backend_type, l.mode, l.relation::regclass)
			FROM pg_locks l JOIN pg_stat_activity a USING (pid)
			WHERE l.relation IS NOT NULL AND l.pid <> pg_backend_pid()
			  AND a.backend_type NOT LIKE 'autovacuum%'});
	},
	sub { return table_look(@_, 'peekstash.batch') },
	sub { return table_look(@_, 'peekstash.outcome') },
	sub { return table_look(@_, 'peekstash.handle') },
	\&temp_file_look,);

sub query_look
{
	my ($node, $dbname, $query) = @_;

	return $node->safe_psql($dbname, $query);
}

sub table_look
{
	my ($node, $dbname, $table) = @_;

	return ''
	  if $node->safe_psql($dbname,
		"SELECT to_regclass('$table') IS NULL") eq 't';
	return $node->safe_psql($dbname,
			"SELECT format('%s rows in $table', count(*)) "
		  . "FROM $table HAVING count(*) > 0");
}

sub temp_file_look
{
	my ($node) = @_;
	my $data_dir = $node->data_dir;

	return join "\n", map { "temporary file $_" }
	  glob "$data_dir/base/pgsql_tmp/* $data_dir/pg_tblspc/*/*/pgsql_tmp/*";
}

# A test point: nothing is left behind by the other sessions of a database.
# Sessions that the test still has open may be idle, but not hold anything.
sub no_leftovers
{
	my ($node, $dbname, $test_name) = @_;
	my $found;
	$dbname    = 'postgres'          unless defined $dbname;
	$test_name = 'nothing left over' unless defined $test_name;

	local $Test::Builder::Level = $Test::Builder::Level + 1;

	foreach (1 .. 10 * $patience)
	{
		$found = join "\n", grep { $_ ne '' }
		  map { $_->($node, $dbname) } @looks;
		last if $found eq '';
		usleep(100_000);
	}
	return is($found, '', $test_name);
}


# A psql in the background.  PostgreSQL::Test::BackgroundPsql starts it; its
# own query functions are not used because they cannot let a query run on,
# keep an error for all later queries, and fail when the server ends the
# session.
package PeekTest::Session;

use strict;
use warnings;

use Time::HiRes qw(usleep);

sub new
{
	my ($class, $node, %opts) = @_;

	local %ENV = %ENV;
	$ENV{PGUSER}    = $opts{user}    if defined $opts{user};
	$ENV{PGOPTIONS} = $opts{options} if defined $opts{options};

	my $psql = $node->background_psql($opts{dbname} || 'postgres',
		on_error_stop => 0);
	my $self = bless {
		psql  => $psql,
		count => 0,
		ended => 0 }, $class;
	$self->{pid} = $self->query('SELECT pg_backend_pid()');
	return $self;
}

# The process id of the session's backend.
sub pid
{
	my ($self) = @_;

	return $self->{pid};
}

# Sends a query (or several, or psql's commands) and does not wait.
sub send
{
	my ($self, $query) = @_;
	my $psql = $self->{psql};

	die "the session has ended" if $self->{ended};
	$psql->{timeout}->start;

	# The last statement may do without its semicolon; a backslash command at
	# the end has none.
	$query .= ';' unless $query =~ /;\s*\z/ || $query =~ /^\s*\\.*\z/m;

	# The mark comes out, on both streams, after what the query has printed.
	my $mark = 'peek_session: end of query ' . ++$self->{count};
	$psql->{stdin} .= "$query\n\\echo '$mark'\n\\warn '$mark'\n";

	# pump would wait for output, too; a query longer than a pipe takes is
	# read in several turns.
	while ($psql->{stdin} ne '' && eval { $psql->{run}->pump_nb; 1 })
	{
		die "timed out waiting for psql to read a query"
		  if $psql->{timeout}->is_expired;
		usleep(1000) if $psql->{stdin} ne '';
	}
	return;
}

# Waits for the end of what was sent last, and returns (output, errors):
# what psql printed to stdout and stderr, without the last newline.
# "Errors" has notices, too.  The session may have ended with it.
sub result
{
	my ($self) = @_;
	my $psql   = $self->{psql};
	my $mark   = "peek_session: end of query $self->{count}";
	my @result;

	$self->_pump_until(
		sub {
			# with its end of line, which may come later
			$psql->{stdout} =~ /^\Q$mark\E\n/m
			  && $psql->{stderr} =~ /^\Q$mark\E\n/m;
		},
		'the end of a query');
	foreach my $stream (qw(stdout stderr))
	{
		$psql->{$stream} =~ s/^\Q$mark\E\n//m;
		chomp $psql->{$stream};
		push @result, $psql->{$stream};
		$psql->{$stream} = '';
	}
	return @result;
}

# Sends a query and waits for its end.  In list context as result; in scalar
# context the output alone, and an error is the end of the test.
sub query
{
	my ($self, $query) = @_;

	$self->send($query);
	my ($out, $err) = $self->result;
	return ($out, $err) if wantarray;
	die "query failed: $query\n$err\n"
	  if $self->{ended} || $err =~ /(?:ERROR|FATAL|PANIC):  /;
	return $out;
}

# Sends a query and waits until its output matches, while it goes on.
# Returns the output until then; result returns all of it.
sub query_until
{
	my ($self, $until, $query) = @_;
	my $psql = $self->{psql};

	$self->send($query);
	$self->_pump_until(sub { $psql->{stdout} =~ $until }, "$until");
	die "the session ended before its output matched $until:\n"
	  . "$psql->{stdout}\n$psql->{stderr}\n"
	  if $self->{ended} && $psql->{stdout} !~ $until;
	return $psql->{stdout};
}

# Has the server, or quit, ended the session?
sub ended
{
	my ($self) = @_;

	return $self->{ended};
}

# Closes the session as a client does.
sub quit
{
	my ($self) = @_;

	return if $self->{ended};
	$self->{ended} = 1;
	eval { $self->{psql}->quit };
	return;
}

# Breaks the connection off: psql is killed and says no good-bye.
sub disconnect
{
	my ($self) = @_;

	return if $self->{ended};
	$self->{ended} = 1;
	$self->{psql}->{run}->kill_kill(grace => 0);
	return;
}

# Exchanges data with psql until the condition holds or psql has ended.
sub _pump_until
{
	my ($self, $condition, $what) = @_;
	my $psql = $self->{psql};
	my $run  = $psql->{run};

	until ($condition->())
	{
		# Writing to a psql that has just ended fails; what it printed
		# before is still to be read.
		if (!$run->pumpable || !eval { $run->pump; 1 })
		{
			die "timed out waiting for $what" if $psql->{timeout}->is_expired;
			eval { $run->finish };
			$self->{ended} = 1;
			last;
		}
	}
	return;
}


# Holds the advisory lock that arms a stop point, in a session of its own.
package PeekTest::Guard;

use strict;
use warnings;

sub new
{
	my ($class, $node, $stop_class, $point, %opts) = @_;
	my $session = $opts{session} || PeekTest::Session->new($node, %opts);
	my $lock = "$stop_class, hashtext('$point')";

	$session->query("SELECT pg_advisory_lock($lock)");
	return bless {
		session => $session,
		lock => $lock,
		lent => defined $opts{session},
		held => 1 }, $class;
}

# Disarms the stop point.  Harmless if a crash of the server has done it.
sub release
{
	my ($self) = @_;
	my $session = $self->{session};

	# Not by quit alone: the backend gives its locks back some time after it.
	eval { $session->query("SELECT pg_advisory_unlock($self->{lock})") }
	  if $self->{held} && !$session->ended;
	$self->{held} = 0;
	$session->quit unless $self->{lent};
	return;
}

sub DESTROY
{
	my ($self) = @_;

	# At the end of the program the servers are stopped anyway.
	return if ${^GLOBAL_PHASE} eq 'DESTRUCT';
	local ($@, $!, $?);
	$self->release;
	return;
}

1;
