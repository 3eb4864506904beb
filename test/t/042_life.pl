# What becomes of answers while nobody looks, and when the server, the database
# or the extension around them changes: the launcher's sweeps, databases that
# are copied and dropped, restarts and crashes, dumps, publications, replicas,
# and sessions whose settings differ from the submitter's.

use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin;

use PeekMemory;
use PeekTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

my $node = peek_start('life', streaming => 1, conf => qq{
	peekstash.sweep_interval = '1s'
	allow_in_place_tablespaces = on
	log_temp_files = 0
	log_min_messages = info
	work_mem = 4MB
	max_wal_size = 1GB
});

# A table of 4 MB that cannot be compressed, and one of 100 rows.
my $tables = q{
	CREATE TABLE item (k int PRIMARY KEY, v text);
	INSERT INTO item SELECT i, string_agg(md5(i || ' ' || j), '')
	FROM generate_series(1, 4000) AS i, generate_series(1, 32) AS j GROUP BY i;
	CREATE TABLE small (k int PRIMARY KEY);
	INSERT INTO small SELECT generate_series(1, 100);
};
$node->safe_psql('postgres', $tables);

sub submit
{
	my ($dbname, $table, $ttl) = @_;
	return $node->safe_psql($dbname,
		"SELECT peek_submit('${table}_pkey', options => '{\"ttl\": \"$ttl\"}')");
}

# Number of rows and their sum, or the error.
sub fetch_from
{
	my ($server, $dbname, $table, $handle) = @_;
	my ($ret, $out, $err) = $server->psql($dbname,
		"\\set VERBOSITY verbose\n"
		  . "SELECT count(*), sum(k) FROM peek_fetch(NULL::$table, '$handle')");

	$err =~ s/^psql:[^ ]* //;
	$err =~ s/\n.*//s;
	return $ret == 0 ? $out : $err;
}

sub fetch { return fetch_from($node, @_) }

my %rows = (item => '4000|8002000', small => '100|5050');

sub unknown
{
	return qr/^ERROR:  42704: peek "$_[0]" does not exist/;
}

# The number of rows in the tables of the stash; looking at them is no use
# that sweeps.
sub stored
{
	my ($dbname, $server) = @_;
	return ($server || $node)->safe_psql($dbname, q{
		SELECT (SELECT count(*) FROM peekstash.handle),
			(SELECT count(*) FROM peekstash.outcome),
			(SELECT count(*) FROM peekstash.batch) > 0});
}

# The shared counters against the tables.
sub counted_ok
{
	my ($dbname, $test_name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return is($node->safe_psql($dbname, q{
			SELECT stash_bytes - (SELECT coalesce(sum(stored_bytes), 0)
				FROM peekstash.outcome) FROM peekstash.stat}),
		'0', $test_name);
}

# Waits; returns the seconds that it took, or undef.
sub seconds_until
{
	my ($dbname, $query, $patience) = @_;
	my $start = time;

	while (time < $start + ($patience || 30))
	{
		return time - $start
		  if $node->safe_psql($dbname, "SELECT ($query)") eq 't';
		usleep(100_000);
	}
	return undef;
}

my $empty = q{NOT EXISTS (SELECT FROM peekstash.handle)
	AND NOT EXISTS (SELECT FROM peekstash.outcome)
	AND NOT EXISTS (SELECT FROM peekstash.batch)};
my $disk = '(SELECT stash_disk_bytes FROM peekstash.stat)';
my $launchers = q{SELECT count(*) FROM pg_stat_activity
	WHERE backend_type = 'peekstash launcher'};


# The launcher sweeps, and gives the disk back

is($node->safe_psql('postgres', $launchers), '1', 'there is one launcher');
{
	my @handles = ((map { submit('postgres', 'item', '2s') } 1 .. 3),
		submit('postgres', 'small', '2s'), submit('postgres', 'small', '1h'));
	my $swept = $node->safe_psql('postgres',
		'SELECT swept_answers FROM peekstash.stat');

	is(fetch('postgres', 'item', $handles[0]), $rows{item}, 'an answer can be read');
	counted_ok('postgres', 'stored answers are counted');
	cmp_ok($node->safe_psql('postgres', "SELECT $disk"), '>', 1024 * 1024,
		'they take disk');
	my $seconds = seconds_until('postgres',
		'(SELECT count(*) FROM peekstash.handle) = 1');
	ok(defined $seconds, 'what has expired is swept while nobody does anything');
	cmp_ok($seconds || 99, '<', 10, 'soon');
	note "after $seconds seconds" if defined $seconds;
	is($node->safe_psql('postgres',
			"SELECT swept_answers - $swept FROM peekstash.stat"),
		'4', 'four answers were swept');
	like(fetch('postgres', 'item', $handles[0]), unknown($handles[0]),
		'they are unknown then');
	is(fetch('postgres', 'small', $handles[4]), $rows{small},
		'what has not expired stays');
	counted_ok('postgres', 'and alone is counted');
	cmp_ok($node->safe_psql('postgres', "SELECT $disk"), '>', 1024 * 1024,
		'the disk is not given back for as long as an answer is there');
	is($node->safe_psql('postgres', "SELECT peek_release('$handles[4]')"),
		't', 'the last one is released');
	ok(defined seconds_until('postgres', "$disk = 0"),
		'then the tables are truncated');
}

# Whoever is at the table keeps it from being truncated, and is not disturbed.
{
	my $reader = peek_session($node);

	submit('postgres', 'item', '1s');
	$reader->query('BEGIN; LOCK peekstash.batch IN ACCESS SHARE MODE');
	ok(defined seconds_until('postgres', $empty), 'swept beside a reader');
	usleep(2_500_000);
	cmp_ok($node->safe_psql('postgres', "SELECT $disk"), '>', 1024 * 1024,
		'not truncated under a reader');
	$reader->query('COMMIT');
	ok(defined seconds_until('postgres', "$disk = 0"), 'truncated after it');

	# an answer that is not committed yet is no empty table
	$reader->query('BEGIN; CREATE TEMP TABLE mine AS '
		  . q{SELECT peek_submit('item_pkey') AS handle});
	usleep(2_500_000);
	$reader->query('COMMIT');
	is($reader->query(
			'SELECT count(*), sum(k) FROM mine, peek_fetch(NULL::item, handle)'),
		$rows{item}, 'an uncommitted answer is not truncated away');
	$reader->query('SELECT peek_release(handle) FROM mine');
	$reader->quit;
}

# Ended by somebody, it comes back.
{
	my $pid = $node->safe_psql('postgres', q{SELECT pid FROM pg_stat_activity
		WHERE backend_type = 'peekstash launcher'});

	$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
	ok(defined seconds_until('postgres', "($launchers AND pid <> $pid) = 1"),
		'a launcher that was terminated is started again');
	submit('postgres', 'item', '1s');
	ok(defined seconds_until('postgres', $empty), 'and sweeps');
}


# Other databases

$node->safe_psql('postgres', 'CREATE DATABASE second');
$node->safe_psql('second', "CREATE SCHEMA tools;
	CREATE EXTENSION peekstash SCHEMA tools;
	ALTER DATABASE second SET search_path = public, tools; $tables");
submit('second', 'item', '1s');
ok(defined seconds_until('second', "$empty AND $disk = 0"),
	'a database that got the extension later is swept, too');

# A copy brings answers that are not the copy's.
foreach my $strategy (qw(wal_log file_copy))
{
	my @handles = (submit('second', 'item', '1h'), submit('second', 'small', '1h'));

	$node->safe_psql('postgres',
		"CREATE DATABASE copy TEMPLATE second STRATEGY $strategy");
	$node->safe_psql('postgres',
		'ALTER DATABASE copy SET search_path = public, tools');
	is(stored('copy'), stored('second'), "$strategy: a copy has the rows");
	like(fetch('copy', 'item', $handles[0]), unknown($handles[0]),
		"$strategy: but they are no answers of its own");
	is($node->safe_psql('copy', "SELECT count(*) FROM peekstash.peeks"),
		'0', "$strategy: and are not shown");
	my $own = submit('copy', 'small', '1h');
	is(stored('copy'), '1|1|f', "$strategy: the first submit removes them");
	is(fetch('copy', 'small', $own), $rows{small}, "$strategy: and works");
	counted_ok('copy', "$strategy: what is counted is the copy's own");
	is(fetch('second', 'item', $handles[0]), $rows{item},
		"$strategy: the original stays");
	counted_ok('second', "$strategy: and is counted as before");

	# a session in the middle of a page does not stop anybody
	my $session = peek_session($node, dbname => 'copy');
	my $guard = arm_stop($node, 'reader-fetch', 'wait', dbname => 'copy');
	$session->query("CREATE TABLE h AS SELECT peek_submit('item_pkey') AS handle");
	$session->send('SELECT count(*) FROM h, peek_fetch(NULL::item, handle)');
	wait_for_stop($node, 'reader-fetch', dbname => 'copy');
	is(($node->psql('postgres', 'DROP DATABASE copy WITH (FORCE)'))[0],
		0, "$strategy: dropped by force under a fetch");
	my ($out, $err) = $session->result;
	like($err, qr/FATAL:  terminating connection/, "$strategy: which is ended");
	$node->safe_psql('second',
		"SELECT peek_release(h) FROM unnest('{@{[ join ',', @handles ]}}'::uuid[]) AS h");
}

# A database can be dropped at any moment: the sweeper comes and goes.
{
	my $errors = '';

	foreach my $i (1 .. 8)
	{
		$node->safe_psql('postgres', 'CREATE DATABASE third TEMPLATE second');
		$node->safe_psql('postgres',
			'ALTER DATABASE third SET search_path = public, tools');
		submit('third', 'item', '1s');
		usleep(rand 2_000_000);
		my ($ret, $out, $err) = $node->psql('postgres', 'DROP DATABASE third');
		$errors .= $err;
	}
	is($errors, '', 'DROP DATABASE is not blocked');
}

# So can the extension.
{
	my $handle = submit('second', 'item', '1h');

	$node->safe_psql('second', 'DROP EXTENSION peekstash');
	like(fetch('second', 'item', $handle), qr/^ERROR:  42883: /,
		'without the extension there are no functions');
	usleep(2_500_000);
	$node->safe_psql('second', 'CREATE EXTENSION peekstash SCHEMA tools');
	like(fetch('second', 'item', $handle), unknown($handle),
		'created again it knows nothing');
	counted_ok('second', 'and counts anew');
	$handle = submit('second', 'item', '1s');
	ok(defined seconds_until('second', $empty), 'and is swept');
	is($node->safe_psql('second',
			'BEGIN; DROP EXTENSION peekstash; ROLLBACK;' . "SELECT $disk IS NOT NULL"),
		't', 'a rolled back DROP EXTENSION changes nothing');

	# an answer submitted and the extension dropped, in one transaction
	my ($ret, $out, $err) = $node->psql('second', q{
		BEGIN; SELECT peek_submit('item_pkey'); DROP EXTENSION peekstash;
		ROLLBACK});
	is($err, '', 'submit and drop in one transaction');
	is(stored('second'), '0|0|f', 'which is rolled back');
	counted_ok('second', 'and not counted');
}


# Restarts

my @kept = (submit('postgres', 'item', '1h'), submit('postgres', 'small', '1h'));
my @others = (submit('second', 'item', '1h'));
my $expired = submit('second', 'item', '3s');
my $limit = q{SELECT peek_submit('item_pkey', options => '{"max_stash_size": %d}')};
my $bytes = $node->safe_psql('postgres', 'SELECT stash_bytes FROM peekstash.stat');

$node->stop('fast');
sleep 3;
$node->start;
is(fetch('postgres', 'item', $kept[0]), $rows{item}, 'fast restart: a stashed answer survives');
is(fetch('postgres', 'small', $kept[1]), $rows{small}, 'fast restart: one from memory, too');
is($node->safe_psql('postgres', 'SELECT stash_bytes FROM peekstash.stat'),
	$bytes, 'fast restart: they are counted');
like(($node->psql('postgres', sprintf $limit, $bytes / 1024 + 8))[2],
	qr/ERROR:  stash size limit of .* exceeded/,
	'fast restart: and leave that much less room for others');
ok(defined seconds_until('second',
		'(SELECT count(*) FROM peekstash.handle) = 1', 10),
	'fast restart: other databases are looked through at once');
is(fetch('second', 'item', $others[0]), $rows{item},
	'fast restart: where an answer survived as well');

$node->stop('immediate');
$node->start;
foreach (['postgres', 'item', $kept[0]], ['postgres', 'small', $kept[1]],
	['second', 'item', $others[0]])
{
	my ($dbname, $table, $handle) = @$_;
	like(fetch(@$_), unknown($handle), "crash: the answer in $dbname is unknown, not empty");
}
is(stored('postgres'), '0|0|f', 'crash: the tables are empty');
is($node->safe_psql('postgres', 'SELECT stash_bytes FROM peekstash.stat'),
	'0', 'crash: nothing is counted');
is(fetch('postgres', 'item', submit('postgres', 'item', '1h')), $rows{item},
	'crash: and then as ever');


# A dump has no answers in it

{
	my $handle = submit('second', 'item', '1h');
	my $file = PostgreSQL::Test::Utils::tempdir() . '/second.sql';

	$node->command_ok([ 'pg_dump', '-f', $file, '-d', $node->connstr('second') ],
		'pg_dump');
	unlike(slurp_file($file), qr/$handle|COPY peekstash\./, 'carries no answer');
	$node->safe_psql('postgres', 'CREATE DATABASE restored');
	$node->safe_psql('postgres',
		'ALTER DATABASE restored SET search_path = public, tools');
	$node->command_ok(
		[ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', $file, '-d',
			$node->connstr('restored') ], 'it can be restored');
	is(stored('restored'), '0|0|f', 'nothing is stored there');
	is(fetch('restored', 'item', submit('restored', 'item', '1h')), $rows{item},
		'and peeks work');
	$node->safe_psql('postgres', 'DROP DATABASE restored');
}


# Settings: the reader's decide how values look

{
	my $writer = peek_session($node);
	my $reader = peek_session($node);
	my $look = 'SELECT k, stamp, day, span, number, bytes, words FROM ';

	$writer->query(q{
		CREATE TABLE types (k int PRIMARY KEY, stamp timestamptz, day date,
			span interval, number float8, bytes bytea, words text);
		INSERT INTO types VALUES (1, '2024-07-01 12:00+00', '2024-02-01',
			'1 year 2 mons 3 days 04:05:06', 1.0/3, '\x00ff', 'Grüße'),
			(2, '2024-01-01 12:00+00', '2024-01-02', '-1 day', 1e-300, '', '€');
		SET TimeZone = 'Asia/Kolkata'; SET DateStyle = 'German, DMY';
		SET IntervalStyle = 'sql_standard'; SET extra_float_digits = 0;
		SET bytea_output = 'escape'; SET client_encoding = 'UTF8'});
	$reader->query(q{
		SET TimeZone = 'America/New_York'; SET DateStyle = 'SQL, MDY';
		SET IntervalStyle = 'iso_8601'; SET extra_float_digits = 3;
		SET bytea_output = 'hex'});
	my $handle = $writer->query(q{SELECT peek_submit('types_pkey')});
	is($reader->query("$look peek_fetch(NULL::types, '$handle')"),
		$reader->query("$look types ORDER BY k"),
		'values look as the reader of an answer wants them');
	is($writer->query("$look peek_fetch(NULL::types, '$handle')"),
		$writer->query("$look types ORDER BY k"), 'whoever it is');
	isnt($writer->query("$look types ORDER BY k"),
		$reader->query("$look types ORDER BY k"), 'which is not the same');
	$reader->query(q{SET client_encoding = 'LATIN9'});
	is($reader->query("$look peek_fetch(NULL::types, '$handle')"),
		$reader->query("$look types ORDER BY k"), 'in whatever encoding');

	# literals of the request are read by the submitter's settings
	$handle = $writer->query(
		q{SELECT peek_submit('types_pkey', filter => 'day = ''01.02.2024''')});
	is($reader->query("SELECT k FROM peek_fetch(NULL::types, '$handle')"), '1',
		"a literal means what it means to the submitter");
	$handle = $reader->query(
		q{SELECT peek_submit('types_pkey', filter => 'day = $1', args => '{01/02/2024}')});
	is($writer->query("SELECT k FROM peek_fetch(NULL::types, '$handle')"), '2',
		'and so do arguments');
	$_->quit foreach $writer, $reader;
}

# Bytes that are no text in any encoding
{
	$node->safe_psql('postgres', q{
		CREATE DATABASE ascii TEMPLATE template0 ENCODING 'SQL_ASCII' LOCALE 'C'});
	$node->safe_psql('ascii', q{
		CREATE EXTENSION peekstash;
		CREATE TABLE item (k int PRIMARY KEY, v text);
		INSERT INTO item SELECT i, E'\xff\xc3\x28' || chr(1 + i % 127) || E'\xfe'
		FROM generate_series(1, 500) AS i});
	foreach my $threshold (0, '1MB')
	{
		is($node->safe_psql('ascii', qq{
				CREATE TEMP TABLE h AS SELECT peek_submit('item_pkey',
					options => '{"stash_threshold": "$threshold"}') AS handle;
				SELECT count(*) FROM h, peek_fetch(NULL::item, handle)
					JOIN item USING (k, v)}),
			'500', "SQL_ASCII: bytes come back as they are, threshold $threshold");
	}
	is(($node->psql('ascii', q{
			SELECT length(peek_fetch_json(handle)::text) > 100 FROM peekstash.peeks LIMIT 1}))[1],
		't', 'SQL_ASCII: as JSON, too');
	$node->safe_psql('postgres', 'DROP DATABASE ascii');
}


# A large answer streams through a select list

SKIP:
{
	skip 'needs /proc', 4 unless memory_is_known();
	$node->safe_psql('postgres', q{
		CREATE UNLOGGED TABLE big (k int, v text);
		INSERT INTO big SELECT i, repeat(md5(i::text), 32)
		FROM generate_series(1, 65536) AS i;
		ALTER TABLE big ADD PRIMARY KEY (k)});
	my $handle = submit('postgres', 'big', '1h');
	my $tiny = $node->safe_psql('postgres', q{
		SELECT peek_submit('big_pkey', upper => 10, options => '{"stash_threshold": 0}')});
	my $session = peek_session($node);
	my $copy = q{COPY (SELECT peek_fetch(NULL::big, '%s')) TO '/dev/null'};

	$session->query(sprintf $copy, $tiny);
	my $idle = memory_of($session->pid);
	my $offset = -s $node->logfile;
	my $grown = memory_peak($session, sprintf $copy, $handle) - $idle;
	cmp_ok($grown, '<=', 16 * 1024, '64 MB in a select list: peak memory');
	note "grown by $grown kB from $idle kB";
	unlike(slurp_file($node->logfile, $offset), qr/temporary file/,
		'64 MB in a select list: no temporary file');
	$offset = -s $node->logfile;
	is($session->query("SELECT count(*), sum(k) FROM peek_fetch(NULL::big, '$handle')"),
		'65536|' . 65536 * 65537 / 2, '64 MB in FROM: all rows');
	like(slurp_file($node->logfile, $offset), qr/temporary file/,
		"64 MB in FROM: PostgreSQL's own store has a file");
	$session->quit;
	$node->safe_psql('postgres', 'DROP TABLE big');
}
$node->safe_psql('postgres', 'SELECT peek_release(handle) FROM peekstash.peeks');


# Publications, tablespaces, logged tables, replicas

$node->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'backup', has_streaming => 1);
$standby->start;

my $handle = submit('postgres', 'item', '1h');
$node->wait_for_catchup($standby, 'replay', $node->lsn('write'));
like(fetch_from($standby, 'postgres', 'item', $handle),
	qr/^ERROR:  55000: stashed answers cannot be read during recovery/,
	'standby: unlogged tables cannot be read');
is($standby->safe_psql('postgres',
		q{SELECT count(*), sum(k) FROM peek(NULL::item, options => '{"stash_threshold": 0}')}),
	$rows{item}, 'standby: a direct peek works');
is($standby->safe_psql('postgres', $launchers), '0', 'standby: no launcher');

# All tables are published; those of the stash are not logged.
$node->safe_psql('postgres', 'CREATE PUBLICATION everything FOR ALL TABLES');
submit('postgres', 'item', '1s');
ok(defined seconds_until('postgres', '(SELECT count(*) FROM peekstash.handle) = 1'),
	'publication of all tables: the sweeper deletes');
is($node->safe_psql('postgres', "SELECT peek_release('$handle')"), 't',
	'publication of all tables: release deletes');

# With answers in them the tables move, and become logged.
$handle = submit('postgres', 'item', '1h');
my $small = submit('postgres', 'small', '1h');
$node->safe_psql('postgres', q{CREATE TABLESPACE elsewhere LOCATION ''});
foreach my $table (qw(handle outcome batch))
{
	$node->safe_psql('postgres', "ALTER TABLE peekstash.$table SET TABLESPACE elsewhere");
	is(fetch('postgres', 'item', $handle), $rows{item}, "SET TABLESPACE of $table");
}
foreach my $table (qw(handle outcome batch))
{
	$node->safe_psql('postgres', "ALTER TABLE peekstash.$table SET LOGGED");
	is(fetch('postgres', 'item', $handle), $rows{item}, "SET LOGGED of $table");
}
counted_ok('postgres', 'they are counted as before');
my $logged = submit('postgres', 'item', '1h');
$node->wait_for_catchup($standby, 'replay', $node->lsn('write'));
foreach (['item', $handle], ['small', $small], ['item', $logged])
{
	is(fetch_from($standby, 'postgres', @$_), $rows{ $_->[0] },
		"standby: a logged answer of $_->[0] can be read");
}
is($standby->safe_psql('postgres',
		q{SELECT count(*) FROM peekstash.peeks WHERE state = 'done'}),
	'3', 'standby: and is shown');
like(($standby->psql('postgres', q{\set VERBOSITY verbose
		SELECT peek_submit('item_pkey')}))[2],
	qr/ERROR:  25006: cannot execute peek_submit\(\) in a read-only transaction/,
	'standby: nothing can be submitted there');
like(($standby->psql('postgres', "\\set VERBOSITY verbose
		SELECT peek_release('$small')"))[2],
	qr/ERROR:  25006: cannot execute peek_release\(\) in a read-only transaction/,
	'standby: or released');

my $gone = submit('postgres', 'item', '1s');
ok(defined seconds_until('postgres', '(SELECT count(*) FROM peekstash.handle) = 3'),
	'logged and published: the sweeper deletes');
$node->wait_for_catchup($standby, 'replay', $node->lsn('write'));
like(fetch_from($standby, 'postgres', 'item', $gone), unknown($gone),
	'standby: where it is unknown then');

$node->stop('immediate');
$node->start;
is(fetch('postgres', 'item', $handle), $rows{item}, 'crash: a logged answer survives');
is(fetch('postgres', 'small', $small), $rows{small}, 'crash: one from memory, too');
counted_ok('postgres', 'crash: they are counted');
is(fetch('postgres', 'item', submit('postgres', 'item', '1h')), $rows{item},
	'crash: and then as ever');
$node->safe_psql('postgres', 'SELECT peek_release(handle) FROM peekstash.peeks');
ok(defined seconds_until('postgres', "$disk = 0"), 'logged tables are truncated, too');
no_leftovers($node);

# The standby takes over, with what it had.
$node->stop('immediate');
$standby->promote;
is($standby->safe_psql('postgres', q{
		SELECT count(*), sum(k) FROM peek_fetch(NULL::item,
			peek_submit('item_pkey', options => '{"ttl": "1s"}'))}),
	$rows{item}, 'promoted: peeks can be submitted');
ok($standby->poll_query_until('postgres', "SELECT $empty"),
	'promoted: and are swept');


# What the servers said

foreach my $server ($node, $standby)
{
	my @foreseen = (
		qr/ERROR:  .* does not exist/,
		qr/FATAL:  database \d+ does not exist/,
		qr/ERROR:  stash size limit of /,
		qr/ERROR:  stashed answers cannot be read during recovery/,
		qr/ERROR:  cannot execute \w+\(\) in a read-only transaction/,
		qr/FATAL:  terminating (?:background worker|connection|walreceiver)/,
		qr/FATAL:  could not (?:receive data from|send .* to) WAL stream/,
		qr/FATAL:  .*connection to server/,
		qr/FATAL:  the database system is/,
		qr/WARNING:  terminating connection because of crash/,
		qr/WARNING:  wal_level is insufficient/);
	my @lines;

	foreach my $line (split /\n/, slurp_file($server->logfile))
	{
		push @lines, $line
		  if $line =~ /(?:WARNING|ERROR|FATAL|PANIC|TRAP|terminated by signal)/
		  && !grep { $line =~ $_ } @foreseen;
	}
	is(join("\n", @lines), '', 'nothing unforeseen in the log of ' . $server->name);
}
done_testing();
