# What peekget writes is what COPY writes of the same query, byte for byte, in
# every format, over any number of connections; and it says clearly what it
# cannot do.

use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin;

use IPC::Run qw(run timeout);
use JSON::PP ();
use PeekGet;
use PeekTest;
use POSIX ();
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

my @FORMATS = qw(text csv binary jsonl);
my $node = peek_start('peekget', conf => "lc_monetary = 'C'");
my $dir = PostgreSQL::Test::Utils::tempdir();
my $file = "$dir/file";
my $json = JSON::PP->new->allow_nonref->utf8;

$node->safe_psql('postgres', q{
	CREATE TABLE item (k int PRIMARY KEY, v text, j json, n numeric(20,5), f float8,
		b bytea, t timestamptz, a text[], "null" text);
	INSERT INTO item SELECT i, E'line\n"quote", \\\\back\t' || chr(i % 200 + 32) || repeat(md5(i::text), i % 40),
		E'{"a":\n 1}', i / 7.0, 1.0 / i, decode(md5(i::text), 'hex'),
		timestamptz '2024-01-01' + i * interval '1 s', ARRAY['x', NULL, i::text],
		CASE i % 3 WHEN 0 THEN '' WHEN 1 THEN '\N' END
	FROM generate_series(1, 8000) AS i;
	INSERT INTO item VALUES (8001, '\.', 'null', 'NaN', 'Infinity', '', 'infinity', '{}', NULL);
	INSERT INTO item (k) VALUES (8002);

	-- equal neighbours fold into entries with copies
	CREATE TABLE again (k int, v text);
	INSERT INTO again SELECT i / 1000, 'v' || i / 1000 FROM generate_series(0, 29999) AS i;
	CREATE INDEX again_k ON again (k);

	CREATE TABLE one (v text PRIMARY KEY);
	INSERT INTO one VALUES ('\.'), (''), ('x');

	CREATE TABLE odd ("Group" int PRIMARY KEY, "a,b" int, "quo""te" int, E"tab\there" int,
		"back\slash" int, "new
line" int, "select" text, " " int, "ä" int, "r" int, "c1" int);
	INSERT INTO odd SELECT i, i, i, i, i, i, i, i, i, i, i FROM generate_series(1, 10) AS i;

	CREATE TABLE wide (k int PRIMARY KEY, v text);
	ALTER TABLE wide ALTER v SET STORAGE EXTERNAL;
	INSERT INTO wide SELECT i, repeat(md5(i::text), CASE i % 20 WHEN 0 THEN 200000 ELSE 10 END)
	FROM generate_series(1, 60) AS i;

	VACUUM ANALYZE;
} =~ s/E"tab\\there"/"tab\there"/r);

# What COPY writes in a format; for jsonl, values to be compared with.
sub wanted
{
	my ($query, $format, $header) = @_;

	return copy_out($node, $query,
		"FORMAT $format" . ($header ? ', HEADER' : ''))
	  if $format ne 'jsonl';
	# without escapes: one value of type json to a line
	return copy_out($node,
		"SELECT replace(row_to_json(q.*)::text, E'\\n', ' ') FROM ($query) AS q",
		"FORMAT csv, QUOTE E'\\x01', DELIMITER E'\\x02'");
}

sub formats_ok
{
	my ($query, $test_name, @args) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	foreach my $format (@FORMATS)
	{
		my $wanted = wanted($query, $format);

		foreach my $jobs (1, 2, 4)
		{
			my $run = peekget($node, @args, '--format', $format, '-j', $jobs,
				'--page-bytes', '64kB');

			ok($run->{status} == 0 && $run->{out} eq $wanted,
				"$test_name: $format, -j $jobs")
			  or diag "status $run->{status}, "
			  . length($run->{out}) . ' bytes and not ' . length($wanted)
			  . "\n$run->{err}";
		}
	}
}


# Formats

formats_ok('SELECT * FROM item ORDER BY k', 'all columns',
	'--index', 'item_pkey');
formats_ok('SELECT * FROM again ORDER BY k', 'copies', '--index', 'again_k');
formats_ok('SELECT * FROM wide ORDER BY k', 'wide rows', '--index', 'wide');
formats_ok('SELECT * FROM item WHERE false', 'no rows',
	'--index', 'item', '--filter', 'k < 0');
formats_ok('SELECT * FROM one ORDER BY v', 'one column', '--index', 'one');
formats_ok(
	'SELECT n, k FROM item WHERE k < 7000 AND v IS NOT NULL ORDER BY k DESC LIMIT 5000',
	'request', '--index', 'item', '--columns', 'n,k', '--backward',
	'--filter', 'k < $1 AND v <> $2', '--arg', '7000', '--arg', 'a "b" \c {d},',
	'--limit', 5000);

# every line of jsonl is JSON, with the values of the row
{
	my @lines = split /\n/, peekget($node, '--index', 'item', '--format',
		'jsonl', '--filter', 'k < 1000 OR k > 8000')->{out};
	my @rows = map { $json->decode($_) } @lines;

	is(scalar @rows, 1001, 'jsonl: each line is one value');
	is($rows[0]->{v}, "line\n\"quote\", \\back\t!" . "c4ca4238a0b923820dcc509a6f75849b",
		'jsonl: texts are as they were');
	is_deeply($rows[0]->{j}, { a => 1 }, 'jsonl: white space in json is harmless');
	is_deeply($rows[1000], { map({ $_ => undef } qw(v j n f b t a null)), k => 8002 },
		'jsonl: NULL is null');
}

# pages of any size
foreach my $bytes (1, 1000, '1MB', 67108864)
{
	my $run = peekget($node, '--index', 'item', '--limit', 300,
		'--page-bytes', $bytes, '-j', 3);

	is($run->{out}, copy_out($node, 'SELECT * FROM item ORDER BY k LIMIT 300',
			'FORMAT text'), "pages of $bytes bytes");
}

# names
foreach my $format (qw(text csv))
{
	foreach my $table (qw(odd item one))
	{
		is(peekget($node, '--index', $table, '--format', $format, '--header')->{out},
			copy_out($node, "SELECT * FROM $table ORDER BY 1", "FORMAT $format, HEADER"),
			"$format: the header of $table");
	}
	is(peekget($node, '--index', 'odd', '--limit', 0, '--format', $format, '--header')->{out},
		copy_out($node, 'SELECT * FROM odd LIMIT 0', "FORMAT $format, HEADER"),
		"$format: a header without rows");
}
is(peekget($node, '--index', 'odd', '--format', 'jsonl')->{out},
	wanted('SELECT * FROM odd ORDER BY 1', 'jsonl'), 'jsonl: odd names');

# names that are there twice, and answers without columns
{
	my $twice = $node->safe_psql('postgres',
		q{SELECT peek_submit('odd_pkey', ARRAY['r', 'c1', 'r', 'r'], upper => 2)});
	my $none = $node->safe_psql('postgres',
		q{SELECT peek_submit('odd_pkey', '{}', upper => 3)});

	is(peekget($node, '--handle', $twice, '--format', 'csv', '--header')->{out},
		"r,c1,r,r\n1,1,1,1\n2,2,2,2\n", 'two columns of one name: csv');
	is(peekget($node, '--handle', uc $twice, '--format', 'jsonl')->{out},
		qq({"r":1,"c1":1,"r_2":1,"r_3":1}\n{"r":2,"c1":2,"r_2":2,"r_3":2}\n),
		'two columns of one name: jsonl has keys of their own');
	is(peekget($node, '--handle', $none)->{out}, "\n\n\n", 'no columns: text');
	is(peekget($node, '--handle', $none, '--format', 'jsonl')->{out},
		"{}\n{}\n{}\n", 'no columns: jsonl');
	is(peekget($node, '--handle', $none, '--format', 'binary')->{out},
		copy_out($node, 'SELECT FROM generate_series(1, 3)', 'FORMAT binary'),
		'no columns: binary');
	is(peekget($node, '--handle', $none, '--format', 'csv', '--header')->{out},
		copy_out($node, 'SELECT FROM generate_series(1, 3)', 'FORMAT csv, HEADER'),
		'no columns: csv');
	is(kept_answers($node), '2', 'answers that were given by handle stay');
	$node->safe_psql('postgres', 'SELECT peek_release(handle) FROM peekstash.peeks');
}


# Outputs

{
	my $wanted = wanted('SELECT * FROM item ORDER BY k', 'csv');
	my @args = ('--index', 'item', '--format', 'csv');

	peekget_ends($node, 0, qr/^peekget: 8002 rows, /, 'to a file', @args, '-o', $file);
	is(slurp($file), $wanted, 'the file has the answer');
	ok(!-e "$file.peekget", 'and the state file is gone');
	spit($file, 'x' x 10_000_000);
	peekget_ends($node, 0, qr/^\z/, 'over an old file, and quiet', @args, '-o', $file, '--quiet');
	is(slurp($file), $wanted, 'nothing of the old file is left');
	peekget_ends($node, 0, qr/^peekget/, 'to a device', @args, '-o', '/dev/null');
	is(peekget($node, @args, '-o', '-')->{out}, $wanted, 'to "-"');
	chdir $dir;
	peekget_ends($node, 0, qr/^peekget/, 'to the folder it is in', @args, '-o', 'here');
	is(slurp('here'), $wanted, 'the file is there');

	POSIX::mkfifo("$dir/fifo", 0600) or die "mkfifo: $!";
	my $run = peekget_start($node, @args, '-o', "$dir/fifo");
	is(slurp("$dir/fifo"), $wanted, 'to a pipe with a name');
	is(peekget_result($run)->{status}, 0, 'which is left cleanly');

	# a refused request leaves an old file alone, and makes no new one
	spit($file, 'precious');
	peekget_ends($node, 1, qr/42P01: relation "nope" does not exist/, 'a refused request',
		'--index', 'nope', '-o', $file);
	is(slurp($file), 'precious', 'leaves the file alone');
	peekget_ends($node, 1, qr/42601: syntax error/, 'another one', '--index',
		'item', '--filter', 'k =', '-o', "$dir/new");
	is(join(' ', glob "$dir/new* $file.*"), '', 'and makes none');
	peekget_ends($node, 4, qr/could not open ".*": No such file/, 'no such folder',
		@args, '-o', "$dir/no/such");
	peekget_ends($node, 4, qr/could not open ".*": Is a directory/, 'a folder', @args, '-o', $dir);
}

# A closed pipe
foreach my $jobs (1, 4)
{
	my ($out, $err) = ('', '');
	local %ENV = (%ENV, PGHOST => $node->host, PGPORT => $node->port);

	run([ 'sh', '-c', "{ peekget postgres --index item -j $jobs; echo \$? >'$dir/status'; } | head -n 2 | wc -l" ],
		'>', \$out, '2>', \$err, timeout(60));
	is($out + 0, 2, "a closed pipe, -j $jobs: who reads it has what it wanted");
	is(slurp("$dir/status"), "7\n", 'the status says why');
	is($err, '', 'and nobody complains');
}
is(kept_answers($node), '0', 'nothing is kept');

# A full device
SKIP:
{
	skip 'needs /dev/full', 1 unless -w '/dev/full';
	peekget_ends($node, 4, qr/could not write to "\/dev\/full": No space left/,
		'a full device', '--index', 'item', '-o', '/dev/full');
}


# Answers of others, and how they are kept

{
	peekget_ends($node, 0, qr/the answer is kept, with the handle [0-9a-f-]{36}/, '--keep',
		'--index', 'odd', '--keep', '--label', qq(my "label"\t\\), '--ttl', '2h', '-o', $file);
	is($node->safe_psql('postgres', q{SELECT label, expires_at - finished_at, driver
			FROM peekstash.peeks}), qq(my "label"\t\\|02:00:00|inline),
		'label and ttl are as wanted');
	my $handle = $node->safe_psql('postgres', 'SELECT handle FROM peekstash.peeks');

	$node->safe_psql('postgres', qq{
		CREATE ROLE other LOGIN;
		CREATE ROLE alien LOGIN;
		SELECT peek_grant('$handle', 'other')});
	is(peekget($node, '-U', 'other', '--handle', $handle, '--format', 'csv')->{out},
		copy_out($node, 'SELECT * FROM odd ORDER BY 1', 'FORMAT csv'),
		'a role that was granted the answer has it');
	peekget_ends($node, 5, qr/42704: peek "$handle" does not exist\n.*another handle/s,
		'to others it does not exist', '-U', 'alien', '--handle', $handle);
	peekget_ends($node, 1, qr/42501: permission denied for table odd/,
		'rights are the current role\'s', '-U', 'alien', '--index', 'odd');
	$node->safe_psql('postgres', "SELECT peek_release('$handle')");
	peekget_ends($node, 5, qr/has been|was released|does not exist/, 'a released one',
		'--handle', $handle, '-o', "$dir/new");
	is(join(' ', glob "$dir/new*"), '', 'makes no file');
	peekget_ends($node, 1, qr/22023: .*ttl/, 'a wrong ttl', '--index', 'odd', '--ttl', 'soon');

	# whose submit is on its way is waited for
	my $session = peek_session($node);
	my $mine = '0190a1b2-0000-7000-8000-00000000000a';

	$session->query('BEGIN');
	$session->query(qq{SELECT peek_submit('odd_pkey', options => '{"handle": "$mine"}')});
	my $run = peekget_start($node, '--handle', $mine);
	usleep(1_300_000);
	$session->query('COMMIT');
	is(peekget_result($run)->{out}, copy_out($node, 'SELECT * FROM odd ORDER BY 1', 'FORMAT text'),
		'an answer whose transaction goes on is waited for');
	$session->query("SELECT peek_release('$mine')");
	$session->quit;
}

# An answer lives as long as it is fetched.
{
	my $reader = "$dir/slow";
	my ($out, $err) = ('', '');

	POSIX::mkfifo($reader, 0600) or die "mkfifo: $!";
	my $run = peekget_start($node, '--index', 'item', '--ttl', '2s', '--page-bytes', '16kB',
		'-o', $reader);
	open my $pipe, '<:raw', $reader or die "$reader: $!";
	my $content = '';
	my $begin = time;

	while (sysread $pipe, my $part, 65536)
	{
		$content .= $part;
		usleep(60_000) if time - $begin < 3.2;
	}
	is(peekget_result($run)->{status}, 0, 'a download that takes longer than the ttl');
	is($content, wanted('SELECT * FROM item ORDER BY k', 'text'), 'has all rows');
}


# Where the functions are, and how values look

{
	$node->safe_psql('postgres', q{
		CREATE DATABASE elsewhere;
		ALTER DATABASE elsewhere SET search_path = own, public;
		ALTER DATABASE elsewhere SET datestyle = 'German'});
	$node->safe_psql('elsewhere', q{
		CREATE SCHEMA "Odd Tools"; CREATE SCHEMA own;
		CREATE EXTENSION peekstash SCHEMA "Odd Tools";
		CREATE TYPE own.mood AS ENUM ('good', 'bad');
		CREATE TABLE own.t (k date PRIMARY KEY, m mood, r regclass, money money, l text);
		INSERT INTO t VALUES ('2024-02-01', 'good', 'own.t', 12.5, 'Grüße')});
	my @args = ('-d', 'elsewhere', '--index', 't');

	is(peekget($node, @args)->{out}, qq(01.02.2024\tgood\tt\t\$12.50\tGrüße\n),
		'an extension outside of the search path; types of the search path');
	{
		local $ENV{PGOPTIONS} = '-c datestyle=ISO';
		local $ENV{PGCLIENTENCODING} = 'LATIN1';
		is(peekget($node, @args)->{out}, qq(2024-02-01\tgood\tt\t\$12.50\tGr\xfc\xdfe\n),
			"the user's settings and encoding count");
	}
	is(kept_answers($node, 'elsewhere'), '0', 'nothing is kept there');
	peekget_ends($node, 1, qr/database "template1" does not have the extension peekstash/,
		'no extension', 'template1', '--index', 't');
}


# Connections as libpq has them

{
	my $port = $node->port;
	my $host = $node->host;
	my $wanted = copy_out($node, 'SELECT * FROM odd ORDER BY 1', 'FORMAT text');
	my $superuser = $node->safe_psql('postgres', 'SELECT current_user');

	$node->safe_psql('postgres', q{
		CREATE ROLE secretive LOGIN PASSWORD 'pass word';
		GRANT SELECT ON odd TO secretive});
	spit($node->data_dir . '/pg_hba.conf',
		"local all secretive scram-sha-256\n" . slurp($node->data_dir . '/pg_hba.conf'));
	$node->reload;

	spit("$dir/services", "[mine]\nhost=$host\nport=$port\ndbname=postgres\n");
	{
		local $ENV{PGSERVICEFILE} = "$dir/services";
		local $ENV{PGHOST};
		foreach (
			[ 'a service', "service=mine" ],
			[ 'a connection string', "host='$host' port=$port dbname=postgres" ],
			[ 'a uri', 'postgresql://' . $host =~ s{/}{%2F}gr . ":$port/postgres" ],
			[ '-d', '-d', 'postgres' ],
			[ '-U', '-U', $superuser, 'postgres' ],
			[ 'the user as second argument', 'postgres', $superuser ],
			[ '-h and -p', '-h', $host, '-p', $port, '-w' ])
		{
			my ($name, @args) = @$_;

			is(peekget($node, @args, '--index', 'odd')->{out}, $wanted, "connection: $name");
		}
	}
	peekget_ends($node, 3, qr/error: connection to server .* failed: /, 'no server',
		'-p', 1, '--index', 'odd', '-o', "$dir/new");
	is(join(' ', glob "$dir/new*"), '', 'no server: no file is made');
	peekget_ends($node, 3, qr/database "nope" does not exist/, 'no database', 'nope', '--index', 'odd');
	peekget_ends($node, 3, qr/no password supplied/, 'no password', '-U', 'secretive', '-w', '--index', 'odd');
	peekget_ends($node, 2, qr/invalid connection option "nonsense"/, 'a wrong connection string',
		'nonsense=1', '--index', 'odd');
	{
		local $ENV{PGPASSWORD} = 'wrong';
		peekget_ends($node, 3, qr/password authentication failed/, 'a wrong password',
			'-U', 'secretive', '--index', 'odd');
		$ENV{PGPASSWORD} = 'pass word';
		is(peekget($node, '-U', 'secretive', '--index', 'odd', '-j', 2)->{out},
			$wanted, 'a password of the environment');
	}
	is(peekget($node, "user=secretive password='pass word'", '--index', 'odd')->{out},
		$wanted, 'a password in the connection string');

	# it is written nowhere
	my $guard = arm_stop($node, 'walk-end', 'wait');
	my $run = peekget_start($node, "user=secretive password='pass word'", '--index', 'odd',
		'-o', "$dir/secret");
	my $pid = wait_for_stop($node, 'walk-end');
	my $state = slurp("$dir/secret.peekget");
	unlike($state, qr/pass/, 'the state file has no password in it');
	like($state, qr/^connection.user secretive$/m, 'but the user');
	is((stat "$dir/secret.peekget")[2] & 0777, 0600, 'and only its owner can read it');
	peekget_ends($node, 4, qr/another peekget is writing/, 'two at one file',
		'--index', 'odd', '-o', "$dir/secret");
	kill 'TERM', $run->{pid};
	is(peekget_result($run)->{status}, 143, 'ended by SIGTERM');
	like($run->{err}, qr/interrupted/, 'it says so');
	is($node->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity
			WHERE pid = $pid AND state = 'active' AND query ~ 'peek_submit'"),
		'0', 'the walk is cancelled on the server');
	$guard->release;
	peekget_ends($node, 0, qr/10 rows/, 'resumed, it submits again',
		'--resume', '-o', "$dir/secret", "user=secretive password='pass word'");
	is(slurp("$dir/secret"), $wanted, 'and has all rows');
}

# Interrupted without a file
foreach my $signal (qw(INT TERM HUP))
{
	my $fifo = "$dir/fifo_$signal";

	POSIX::mkfifo($fifo, 0600) or die "mkfifo: $!";
	my $run = peekget_start($node, '--index', 'item', '-o', $fifo, '-j', 2);
	open my $pipe, '<', $fifo or die "$fifo: $!";
	sysread $pipe, my $part, 1000;
	usleep(300_000);
	kill $signal, $run->{pid};
	is(peekget_result($run)->{status}, 128 + { INT => 2, TERM => 15, HUP => 1 }->{$signal},
		"SIG$signal while a pipe is full");
	is(kept_answers($node), '0', 'the answer is released');
}


# Progress

{
	my ($out, $err) = ('', '');
	my $guard = arm_stop($node, 'walk-end', 'wait');
	my $run = peekget_start($node, '--index', 'item', '-o', '/dev/null');

	wait_for_stop($node, 'walk-end');
	usleep(5_500_000);
	$guard->release;
	like(peekget_result($run)->{err},
		qr/^peekget: waiting for the answer, [5-9] s: \w+, \d+ positions, \d+ rows$/m,
		'a log has a line every few seconds');

	SKIP:
	{
		skip 'needs script', 2 if system('command -v script >/dev/null') != 0;
		local %ENV = (%ENV, PGHOST => $node->host, PGPORT => $node->port, PGDATABASE => 'postgres');
		run([ 'script', '-qec', 'stty cols 70; peekget --index item --page-bytes 4kB -o /dev/null', '/dev/null' ],
			'<', \undef, '>', \$out, '2>', \$err, timeout(60));
		my @lines = split /[\r\n]+/, $out;
		like($out, qr/\r\[#*\.*\] +\d+ %  \d+ of 8002 rows, /, 'a terminal has a bar');
		is((scalar grep { length > 69 } @lines), 0, 'that fits into a line');
	}
}


# The command line

is(peekget($node, '--version')->{out}, "peekget (peekstash) 1.0\n", '--version');
like(peekget($node, '--help')->{out}, qr/^Usage:$/m, '--help');
is(peekget($node, '-?')->{out}, peekget($node, '--help')->{out}, '-?');
foreach (
	[ qr/one of --query, --index and --handle must be given/ ],
	[ qr/one of --query, --index and --handle must be given/, '-o', $file ],
	[ qr/only one of --query, --index and --handle/, '--index', 'a', '--query', 'b' ],
	[ qr/"x" is not a uuid/, '--handle', 'x' ],
	[ qr/is not a uuid/, '--handle', '0190a1b2-0000-7000-8000-00000000000g' ],
	[ qr/is not a uuid/, '--handle', '0190a1b2+0000-7000-8000-000000000001' ],
	[ qr/--resume needs -o FILE/, '--resume' ],
	[ qr/--resume needs -o FILE/, '--resume', '-o', '-' ],
	[ qr/--force needs -o FILE/, '--index', 'a', '--force' ],
	[ qr/--resume and --force/, '--index', 'a', '--force', '--resume', '-o', $file ],
	[ qr/--verify needs --resume/, '--index', 'a', '--verify' ],
	[ qr/need --index/, '--query', 'a', '--filter', 'b' ],
	[ qr/need --index/, '--query', 'a', '--columns', 'b' ],
	[ qr/need --index/, '--query', 'a', '--backward' ],
	[ qr/need --index/, '--handle', '0190a1b2-0000-7000-8000-000000000001', '--limit', 1 ],
	[ qr/--arg needs --query or --filter/, '--index', 'a', '--arg', 1 ],
	[ qr/--label needs/, '--handle', '0190a1b2-0000-7000-8000-000000000001', '--label', 1 ],
	[ qr/--header needs/, '--index', 'a', '--header', '--format', 'binary' ],
	[ qr/--header needs/, '--index', 'a', '--header', '--format', 'jsonl' ],
	[ qr/--format must be/, '--index', 'a', '--format', 'xml' ],
	[ qr/--columns must be/, '--index', 'a', '--columns', 'a,,b' ],
	[ qr/--limit must be/, '--index', 'a', '--limit', 'x' ],
	[ qr/--limit must be/, '--index', 'a', '--limit', -1 ],
	[ qr/--limit must be/, '--index', 'a', '--limit', '99999999999999999999' ],
	[ qr/-j must be/, '--index', 'a', '-j', 0 ],
	[ qr/-j must be/, '--index', 'a', '-j', 65 ],
	[ qr/--page-bytes must be/, '--index', 'a', '--page-bytes', 0 ],
	[ qr/--page-bytes must be/, '--index', 'a', '--page-bytes', '65MB' ],
	[ qr/--page-bytes must be/, '--index', 'a', '--page-bytes', '1GB' ],
	[ qr/--retry must be/, '--index', 'a', '--retry', 'x' ],
	[ qr/--checkpoint must be/, '--index', 'a', '--checkpoint', -1 ],
	[ qr/--checkpoint must be/, '--index', 'a', '--checkpoint', '1s' ],
	[ qr/the name of the output is empty/, '--index', 'a', '-o', '' ],
	[ qr/too many arguments: "c"/, '--index', 'a', 'a', 'b', 'c' ],
	[ qr/unrecognized option/, '--nonsense' ],
	[ qr/requires an argument/, '--index' ],
	[ qr/is not a file, and cannot be resumed/, '--resume', '-o', '/dev/null' ])
{
	my ($says, @args) = @$_;

	peekget_ends($node, 2, $says, "wrong: peekget @args", @args);
}


# Queries

SKIP:
{
	skip 'the extension has no peek_query', 1
	  if $node->safe_psql('postgres', "SELECT to_regproc('peek_query') IS NULL") eq 't';

	my $query = q{SELECT k, v, f AS "F", n FROM item JOIN odd ON "Group" = k % 10
		WHERE k <= $1 AND v <> $2 ORDER BY k};
	my $plain = $query =~ s/\$1/7000/r =~ s/\$2/'it''s'/r;

	formats_ok($plain, 'a query', '--query', $query, '--arg', 7000, '--arg', "it's");
	is(peekget($node, '--query', "SELECT 1, 2, 'x' AS a, 'y' AS a", '--format', 'csv', '--header')->{out},
		"?column?,?column?,a,a\n1,2,x,y\n", 'a query: names that are there twice or not at all');
	is(peekget($node, '--query', 'SELECT 1, 2', '--format', 'jsonl')->{out},
		qq({"?column?":1,"?column?_2":2}\n), 'a query: the same as JSON');
	is(peekget($node, '--query', 'SELECT FROM odd', '--format', 'text')->{out},
		"\n" x 10, 'a query: no columns');
	peekget_ends($node, 1, qr/42P01: relation "nope" does not exist/, 'a query: refused',
		'--query', 'SELECT * FROM nope', '-o', "$dir/new");
	peekget_ends($node, 1, qr/22012: division by zero/, 'a query: fails',
		'--query', 'SELECT 1 / (k - 500) FROM item', '-o', "$dir/new");
	is(join(' ', glob "$dir/new*"), '', 'a query: no file is made');
}

is(kept_answers($node), '0', 'nothing is kept');
no_leftovers($node);
done_testing();
