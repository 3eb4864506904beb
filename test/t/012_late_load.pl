# Life without shared_preload_libraries, and the life of the extension.
#
# The library is then loaded by the first call of one of its functions.  All
# of what is tested here must hold until then, across it, and after it:
# settings that came first, the extension in a schema of its own, its end, its
# dump, statements prepared before.

use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin;

use PeekTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = peek_start('late', preload => 0);
$node->safe_psql('postgres', q{
	CREATE TABLE t (k int PRIMARY KEY, v text);
	INSERT INTO t SELECT i, 'value ' || i FROM generate_series(1, 5000) AS i;
	CREATE INDEX t_v ON t (v, k);
	CREATE ROLE ordinary LOGIN;
	GRANT SELECT ON t TO ordinary;
	GRANT CREATE ON SCHEMA public TO ordinary;
	VACUUM ANALYZE t;
});

# One psql, that is, one fresh session: output and errors.
sub fresh
{
	my ($query, %opts) = @_;
	my ($ret, $out, $err) = $node->psql($opts{dbname} || 'postgres', $query,
		on_error_stop => 0,
		extra_params => [ '-U', $opts{user} || 'postgres' ]);

	return ($out, $err);
}

# Everything of a database that an extension could leave in it.
my $inventory = q{
	SELECT 'class', relname::text, relnamespace::regnamespace::text FROM pg_class WHERE oid >= 16384
	UNION ALL SELECT 'proc', oid::regprocedure::text, '' FROM pg_proc WHERE oid >= 16384
	UNION ALL SELECT 'type', typname, typnamespace::regnamespace::text FROM pg_type WHERE oid >= 16384
	UNION ALL SELECT 'namespace', nspname, '' FROM pg_namespace WHERE nspname !~ '^pg_(toast_)?temp'
	UNION ALL SELECT 'extension', extname, '' FROM pg_extension
	UNION ALL SELECT 'depend', count(*)::text, '' FROM pg_depend
	UNION ALL SELECT 'shdepend', count(*)::text, '' FROM pg_shdepend
	UNION ALL SELECT 'init_privs', count(*)::text, '' FROM pg_init_privs
	UNION ALL SELECT 'description', count(*)::text, '' FROM pg_description
	UNION ALL SELECT 'rewrite', rulename || ' ' || ev_class::regclass, '' FROM pg_rewrite WHERE oid >= 16384
	UNION ALL SELECT 'cast', count(*)::text, '' FROM pg_cast
	UNION ALL SELECT 'operator', count(*)::text, '' FROM pg_operator
	UNION ALL SELECT 'trigger', tgname || ' ' || tgrelid::regclass, '' FROM pg_trigger
	UNION ALL SELECT 'event trigger', evtname, '' FROM pg_event_trigger
	UNION ALL SELECT 'default acl', count(*)::text, '' FROM pg_default_acl
	ORDER BY 1, 2, 3};


# All of it works

{
	my $session = peek_session($node);

	is($session->query('SHOW shared_preload_libraries'), '',
		'peekstash is not preloaded');
	is( $session->query('SELECT count(*), sum(k), min(v) FROM peek(NULL::t)'),
		'5000|12502500|value 1', 'a table is walked');
	is( $session->query(q{SELECT count(*), sum(k) FROM peek(NULL::t, options =>
			'{"stash_threshold": 0, "stash_batch_size": 100}')}),
		'5000|12502500', 'an answer leaves memory');
	is( $session->query(q{
			BEGIN READ ONLY;
			SELECT count(*), sum(k) FROM peek(NULL::t, options =>
				'{"stash_threshold": 0, "stash_batch_size": 100}');
			COMMIT}),
		'5000|12502500', 'also in a read-only transaction');
	is( $session->query(q{SELECT string_agg(k::text, ' ') FROM peek_record('t_v', '{k}',
			lower => 'value 9', filter => 'k % 2 = 0', order_by => 'k DESC', row_limit => 3)
			AS (k int)}),
		'998 996 994', 'bounds, filter, order and limit hold');
	my ($out, $err) = $session->query(q{SELECT peek(NULL::t,
			options => '{"row_iteration_limit": 10}')});
	like($err, qr/row iteration limit of 10/, 'limits hold');
	is( $session->query('SELECT scope, walks_inline, answers_failed FROM peekstash.stat'),
		'session|5|1', 'the counters are those of the session');

	my $other = peek_session($node);
	is($other->query('SELECT scope, walks_inline FROM peekstash.stat'),
		'session|0', 'another session has its own');
	$other->query('SELECT peek(NULL::t, key => 1)');
	is($other->query('SELECT walks_inline FROM peekstash.stat'), '1',
		'which count');
	is($session->query('SELECT walks_inline FROM peekstash.stat'), '5',
		'and do not mix');
	$session->query('SELECT peekstash_stat_reset()');
	is($session->query('SELECT walks_inline FROM peekstash.stat'), '0',
		'a reset empties one');
	is($other->query('SELECT walks_inline FROM peekstash.stat'), '1',
		'and not the other');
	$_->quit for $session, $other;
	no_leftovers($node);
}


# Settings given before the library is there

{
	my ($out, $err) = fresh(q{
		SET peekstash.row_iteration_limit = 10;
		SHOW peekstash.row_iteration_limit;
		SELECT count(*) FROM peek(NULL::t, upper => 10);
		SELECT count(*) FROM peek(NULL::t, upper => 11);
		SHOW peekstash.row_iteration_limit});
	is($out, "10\n10\n10", 'a setting is accepted before the first peek');
	is($err =~ /row iteration limit of 10/ ? 1 : $err, 1, 'and holds from the first one on');

	($out, $err) = fresh(q{
		SET peekstash.max_result_size = '2MB';
		SELECT count(*) FROM peek(NULL::t, key => 1);
		SHOW peekstash.max_result_size;
		SELECT setting, unit, context, source FROM pg_settings WHERE name = 'peekstash.max_result_size'});
	is("$out $err", "1\n2MB\n2048|kB|superuser|session ", 'units are understood in hindsight');

	($out, $err) = fresh(q{
		SET peekstash.stash_threshold = 'much';
		SELECT count(*) FROM peek(NULL::t, key => 1);
		SHOW peekstash.stash_threshold});
	is($out, "1\n1MB", 'a value that is none gives way to the default');
	like($err, qr/WARNING:  invalid value for parameter "peekstash.stash_threshold": "much"/,
		'with a warning');

	($out, $err) = fresh(q{
		SET peekstash.nonsense = 1;
		SELECT count(*) FROM peek(NULL::t, key => 1);
		SHOW peekstash.nonsense});
	is($out, '1', 'a setting that does not exist is forgotten');
	like($err, qr/WARNING:  invalid configuration parameter name "peekstash.nonsense", removing it/,
		'with a warning');
	like($err, qr/ERROR:  unrecognized configuration parameter "peekstash.nonsense"/,
		'and does not exist');

	($out, $err) = fresh(q{
		BEGIN;
		SET LOCAL peekstash.row_iteration_limit = 10;
		SELECT count(*) FROM peek(NULL::t, upper => 9);
		SHOW peekstash.row_iteration_limit;
		COMMIT;
		SHOW peekstash.row_iteration_limit;
		SELECT count(*) FROM peek(NULL::t, upper => 11)});
	is("$out $err", "9\n10\n0\n11 ", 'SET LOCAL ends with its transaction, loaded or not');

	($out, $err) = fresh(q{
		BEGIN;
		SET peekstash.row_iteration_limit = 10;
		SAVEPOINT s;
		SELECT count(*) FROM peek(NULL::t, upper => 11);
		ROLLBACK TO s;
		SHOW peekstash.row_iteration_limit;
		ROLLBACK;
		SHOW peekstash.row_iteration_limit});
	is($out, "10\n0", 'so does one whose library came in a subtransaction that failed');

	($out, $err) = fresh(q{
		LOAD 'peekstash';
		SET peekstash.nonsense = 1;
		SHOW peekstash.yield_granularity});
	is($out, '10000', 'LOAD brings the settings');
	like($err, qr/invalid configuration parameter name "peekstash.nonsense"/,
		'and their names');

	# what was set elsewhere
	$node->append_conf('postgresql.conf', "peekstash.max_result_size = '64kB'");
	$node->reload;
	$node->safe_psql('postgres', q{
		ALTER DATABASE postgres SET peekstash.row_iteration_limit = 4000;
		ALTER ROLE ordinary SET peekstash.row_iteration_limit = 3000});
	$node->poll_query_until('postgres',
		q{SELECT current_setting('peekstash.max_result_size', true) = '64kB'})
	  or die 'the configuration is not read again';

	($out, $err) = fresh(q{
		SELECT count(*) FROM peek(NULL::t, key => 1);
		SHOW peekstash.max_result_size;
		SHOW peekstash.row_iteration_limit});
	is("$out $err", "1\n64kB\n4000 ", 'settings of the server and the database hold');
	($out, $err) = fresh(q{
		SELECT count(*) FROM peek(NULL::t, upper => 3001, row_offset => 3000);
		SELECT count(*) FROM peek(NULL::t, upper => 3000, row_offset => 2999);
		SELECT count(*) FROM peek(NULL::t, upper => 2999)}, user => 'ordinary');
	is($out, '1', 'and those of a role');
	like($err, qr/limit of 3000.*exceeds max size of 64 kB/s, 'each of its own');

	# A guard is no guard if it can be lifted before the library is there.
	($out, $err) = fresh(q{
		SET peekstash.max_result_size = -1;
		SET peekstash.row_iteration_limit = 0;
		SELECT count(*) FROM peek(NULL::t, key => 1);
		SHOW peekstash.max_result_size;
		SHOW peekstash.row_iteration_limit;
		SELECT count(*) FROM peek(NULL::t, upper => 2999);
		SELECT count(*) FROM peek(NULL::t, row_offset => 4999)}, user => 'ordinary');
	is($out, "1\n64kB\n3000", 'an ordinary role cannot lift a limit in advance');
	like($err, qr/WARNING:  permission denied to set parameter "peekstash.max_result_size"/,
		'and is told so');
	like($err, qr/exceeds max size of 64 kB.*limit of 3000/s, 'the limits hold');

	($out, $err) = fresh(q{
		SELECT count(*) FROM peek(NULL::t, key => 1);
		SET peekstash.max_result_size = -1;
		SELECT count(*) FROM peek(NULL::t, upper => 2999)}, user => 'ordinary');
	like($err, qr/ERROR:  permission denied to set parameter "peekstash.max_result_size".*exceeds max size of 64 kB/s,
		'nor afterwards');

	$node->append_conf('postgresql.conf', "peekstash.max_result_size = '1GB'");
	$node->reload;
	$node->safe_psql('postgres', q{
		ALTER DATABASE postgres RESET peekstash.row_iteration_limit;
		ALTER ROLE ordinary RESET peekstash.row_iteration_limit});
	$node->poll_query_until('postgres',
		q{SELECT current_setting('peekstash.max_result_size', true) = '1GB'})
	  or die 'the configuration is not read again';
}


# Where the extension is created

$node->safe_psql('postgres', 'CREATE DATABASE life');
{
	my $before = $node->safe_psql('life', $inventory);

	my ($out, $err) = fresh('CREATE EXTENSION peekstash', dbname => 'life', user => 'ordinary');
	like($err, qr/ERROR:  permission denied to create extension "peekstash"/,
		'an ordinary role cannot create the extension');

	($out, $err) = fresh(q{
		\set VERBOSITY verbose
		BEGIN;
		CREATE SCHEMA peekstash;
		CREATE EXTENSION peekstash SCHEMA peekstash}, dbname => 'life');
	like($err, qr/ERROR:  3F000: extension "peekstash" cannot be created in schema "peekstash"/,
		'schema peekstash is refused');
	like($err, qr/HINT:  That schema is for its tables and views; choose another one/,
		'with a reason');
	is($node->safe_psql('life', $inventory), $before, 'and nothing is left of the attempt');

	($out, $err) = fresh(q{
		CREATE SCHEMA peekstash;
		CREATE EXTENSION peekstash;
		DROP SCHEMA peekstash}, dbname => 'life');
	like($err, qr/ERROR:  schema "peekstash" already exists/,
		'nor is a schema of that name taken over');

	# a schema of its own, not in the search path
	$node->safe_psql('life', q{
		CREATE SCHEMA "Tools";
		CREATE EXTENSION peekstash SCHEMA "Tools";
		CREATE TABLE t (k int PRIMARY KEY, v text);
		INSERT INTO t SELECT i, 'v' || i FROM generate_series(1, 100) AS i});
	($out, $err) = fresh(q{
		SELECT count(*) FROM "Tools".peek(NULL::t, options => '{"stash_threshold": 0}');
		SELECT count(*) FROM "Tools".peek_record('t', '{v}', key => 7, filter => 'v = ''v7''') AS (v text);
		SELECT scope, walks_inline FROM peekstash.stat;
		SELECT count(*) FROM peek(NULL::t)}, dbname => 'life');
	is($out, "100\n1\nsession|2", 'the extension works in a schema of its own');
	like($err, qr/function peek\(t\) does not exist/, 'and only there');
	$node->safe_psql('life', 'CREATE DATABASE life_copy TEMPLATE life');
	is($node->safe_psql('life_copy', 'SELECT count(*) FROM "Tools".peek(NULL::t)'),
		'100', 'a database made from this one has it, too');

	($out, $err) = fresh('ALTER EXTENSION peekstash SET SCHEMA public', dbname => 'life');
	like($err, qr/extension "peekstash" does not support SET SCHEMA/,
		'it does not move');
	($out, $err) = fresh('ALTER EXTENSION peekstash UPDATE', dbname => 'life');
	like($err, qr/NOTICE:  version "1.0" of extension "peekstash" is already installed/,
		'there is nothing to update');
	is($node->safe_psql('life', q{
			SELECT count(*) FROM pg_proc AS p
			WHERE pronamespace = '"Tools"'::regnamespace AND NOT EXISTS (
				SELECT FROM pg_depend
				WHERE classid = 'pg_proc'::regclass AND objid = p.oid AND deptype = 'e')}),
		'0', 'each of its functions belongs to the extension');

	# its end
	$node->safe_psql('life', 'CREATE VIEW v AS SELECT * FROM "Tools".peek(NULL::t)');
	($out, $err) = fresh('DROP EXTENSION peekstash', dbname => 'life');
	like($err, qr/cannot drop extension peekstash because other objects depend on it.*view v/s,
		'it is not dropped from under a view');
	$node->safe_psql('life', q{
		DROP VIEW v;
		DROP TABLE t;
		SELECT count(*) FROM peekstash.stat;
		DROP EXTENSION peekstash;
		DROP SCHEMA "Tools"});
	is($node->safe_psql('life', $inventory), $before, 'dropped, it leaves nothing');
	$node->safe_psql('life', 'CREATE EXTENSION peekstash; DROP EXTENSION peekstash');
	is($node->safe_psql('life', $inventory), $before, 'the second time, too');
}


# Statements that outlive the extension

foreach my $how ('its own session', 'another session')
{
	my $session = peek_session($node);
	my $dropper = $how eq 'another session' ? peek_session($node) : $session;
	my $calls = 'EXECUTE p; SELECT in_function(); SELECT count(*) FROM peekstash.stat';

	$session->query(q{
		CREATE OR REPLACE FUNCTION in_function() RETURNS bigint LANGUAGE plpgsql AS $$
		BEGIN
			RETURN (SELECT count(*) FROM peek(NULL::t, upper => 10));
		END $$;
		PREPARE p AS SELECT count(*) FROM peek(NULL::t, upper => 10)});
	is($session->query($calls), "10\n10\n1", "$how: a statement is prepared");
	$dropper->query('DROP EXTENSION peekstash');
	my ($out, $err) = $session->query($calls);
	is($out, '', "$how: it fails without the extension");
	is(scalar(() = $err =~ /ERROR:  (?:function peek\(t, upper => integer\)|relation "peekstash.stat") does not exist/g),
		3, "$how: with a clear error");
	($out, $err) = $session->query('SHOW peekstash.yield_granularity');
	is($out, '10000', "$how: the settings stay, as the library does");
	$dropper->query('CREATE EXTENSION peekstash');
	is($session->query($calls), "10\n10\n1", "$how: it works again with a new one");
	$_->quit for $session, $dropper;
}

# ... and a walk that is under way.
{
	my $session = peek_session($node);
	my $guard = arm_stop($node, 'walk-end', 'wait');

	$session->send(q{SELECT count(*) FROM (SELECT peek(NULL::t,
		options => '{"stash_threshold": 0}')) AS q} =~ s/^/BEGIN READ ONLY; /r);
	wait_for_stop($node, 'walk-end');
	$node->safe_psql('postgres', 'DROP EXTENSION peekstash');
	$guard->release;
	is(($session->result)[0], '5000',
		'a walk goes on although the extension is dropped');
	$session->query('ROLLBACK');
	my ($out, $err) = $session->query('SELECT count(*) FROM peek(NULL::t)');
	like($err, qr/does not exist/, 'but no other one begins');
	$session->quit;
	$node->safe_psql('postgres', 'CREATE EXTENSION peekstash');

	# a database that goes
	# (a stop point would not do: whoever arms it in there is ended, too)
	$node->safe_psql('life_copy', q{CREATE FUNCTION nap(int) RETURNS bool STABLE
		LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(600); RETURN true; END'});
	$session = peek_session($node, dbname => 'life_copy');
	$session->send(q{SELECT count(*) FROM "Tools".peek(NULL::t, filter => 'nap(k)')});
	$node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_activity
		WHERE datname = 'life_copy' AND wait_event = 'PgSleep'});
	$node->safe_psql('postgres', 'DROP DATABASE life_copy WITH (FORCE)');
	($out, $err) = $session->result;
	like($err, qr/terminating connection due to administrator command/,
		'DROP DATABASE WITH (FORCE) ends a walk');
	$session->disconnect;
	no_leftovers($node);
}


# Dump and restore

{
	$node->safe_psql('postgres', q{CREATE DATABASE source});
	$node->safe_psql('source', q{
		CREATE SCHEMA tools;
		CREATE EXTENSION peekstash SCHEMA tools;
		CREATE TABLE t (k int PRIMARY KEY, v text);
		INSERT INTO t SELECT i, 'v' || i FROM generate_series(1, 100) AS i;
		CREATE INDEX t_v ON t (v);
		CREATE VIEW by_table AS SELECT * FROM tools.peek(NULL::t, filter => 'v ~ ''7''');
		CREATE VIEW by_name AS
			SELECT * FROM tools.peek(NULL::t, 't_v'::text::regclass, lower => 'v9'::text);
		CREATE VIEW by_index AS SELECT * FROM tools.peek(NULL::t, 't_v', lower => 'v9'::text);
		CREATE VIEW by_record AS
			SELECT * FROM tools.peek_record('t'::text::regclass, '{v}', keys => ARRAY[5, 3]) AS (v text);
		CREATE FUNCTION f() RETURNS SETOF t LANGUAGE sql
			AS 'SELECT * FROM tools.peek(NULL::public.t, ''public.t_v'', row_limit => 3)';
		REVOKE EXECUTE ON FUNCTION tools.peek FROM PUBLIC;
		GRANT EXECUTE ON FUNCTION tools.peek, tools.peekstash_stat_reset TO ordinary;
		ALTER DATABASE source SET peekstash.row_iteration_limit = 150;

		-- what is there at the time of the dump
		SELECT count(*) FROM tools.peek(NULL::t, options => '{"stash_threshold": 0}')});
	my $look = q{
		TABLE by_table; TABLE by_name; TABLE by_index; TABLE by_record; SELECT * FROM f();
		SELECT extname, extversion, extnamespace::regnamespace FROM pg_extension ORDER BY 1;
		SELECT has_function_privilege('ordinary', oid, 'execute'),
			   has_function_privilege('public', oid, 'execute'), proname
		FROM pg_proc WHERE proname ~ '^peek' ORDER BY proname;
		SELECT nspname, nspacl FROM pg_namespace WHERE nspname ~ '^[a-oq-z]|^peek' ORDER BY 1;
		SELECT count(*) FROM pg_depend WHERE deptype = 'e'};
	my $dir = PostgreSQL::Test::Utils::tempdir();
	my @connect = ('-h', $node->host, '-p', $node->port, '-U', 'postgres');
	my $wanted = $node->safe_psql('source', $look);

	foreach my $format ('plain', 'custom')
	{
		command_ok([ 'pg_dump', @connect, '--format', $format,
				'-f', "$dir/$format", 'source' ], "$format: the database is dumped");
		$node->safe_psql('postgres', "CREATE DATABASE target_$format");
		command_ok($format eq 'plain' ?
			  [ 'psql', @connect, '-X', '-q', '-v', 'ON_ERROR_STOP=1',
				'-d', "target_$format", '-f', "$dir/$format" ] :
			  [ 'pg_restore', @connect, '--exit-on-error',
				'-d', "target_$format", "$dir/$format" ],
			"$format: and restored without an error");
		is($node->safe_psql("target_$format", $look), $wanted,
			"$format: the copy is as its original");
		command_ok([ 'pg_dump', @connect, '-f', "$dir/again_$format", "target_$format" ],
			"$format: the copy is dumped");
		is(slurp_file("$dir/again_$format") =~ s/^\\(un)?restrict .*//mgr,
			slurp_file("$dir/plain") =~ s/^\\(un)?restrict .*//mgr,
			"$format: both dumps are the same");
	}
	unlike(slurp_file("$dir/plain"), qr/(CREATE|COPY|INSERT INTO)[^;]* peekstash\./,
		'a dump has nothing of what the extension makes by itself');
}

unlike(slurp_file($node->logfile),
	qr/WARNING:  (?!invalid|permission denied|terminating)|TRAP:|PANIC:/,
	'the server had nothing else to warn of');

done_testing();
