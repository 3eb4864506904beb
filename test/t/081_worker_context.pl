# What a worker is: it walks as the submitter, with his rights, settings and
# snapshot, and as nobody else.  And what may happen around it: locks, DDL,
# dropped roles and databases, a server that stops or has no workers.

use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin;

use PeekTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

my $node = peek_start('context');

# gate() waits on a lock that is held in here, where it is told to; lock_it()
# waits as any function does.
my $tables = q{
	CREATE TABLE t (k int PRIMARY KEY, v text);
	INSERT INTO t SELECT i, 'row ' || i FROM generate_series(1, 2000) i;
	CREATE FUNCTION gate(int) RETURNS bool LANGUAGE plpgsql
	STABLE PARALLEL SAFE SET lock_timeout = 0 AS $$
	BEGIN
		IF $1 = 1500 THEN
			PERFORM pg_advisory_xact_lock_shared(20);
		END IF;
		RETURN true;
	END $$;
};
$node->safe_psql('postgres', $tables . q{
	CREATE FUNCTION lock_it(int) RETURNS bool LANGUAGE plpgsql
	STABLE PARALLEL SAFE AS $$
	BEGIN
		PERFORM pg_advisory_xact_lock_shared($1);
		RETURN true;
	END $$;
	GRANT SELECT ON t TO PUBLIC;
	CREATE ROLE ctx_login LOGIN NOINHERIT;
	CREATE ROLE ctx_nologin NOLOGIN ROLE ctx_login;
	CREATE ROLE ctx_definer NOLOGIN;
	CREATE ROLE ctx_other NOLOGIN ROLE ctx_login;
	CREATE ROLE ctx_gone NOLOGIN;
	CREATE TABLE secret AS TABLE t;
	ALTER TABLE secret ADD PRIMARY KEY (k);
	GRANT SELECT ON secret TO ctx_definer, ctx_nologin;
});

# Waits until a query says "t".
sub wait_until
{
	my ($query, %opts) = @_;
	my $server = $opts{node} || $node;
	my $start = time;

	while ($server->safe_psql($opts{dbname} || 'postgres', $query) ne 't')
	{
		return 0 if time > $start + 120;
		usleep(50_000);
	}
	return 1;
}

# Slots that this test itself keeps for a while, see below
my $held_slots = 0;

sub settled_ok
{
	my ($name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return ok(
		wait_until(qq{SELECT slots_in_use = $held_slots
			AND permits_in_use = 0 AND permit_queue_depth = 0
			FROM peekstash.stat}),
		"$name: slots and permits are given back");
}

# A submit in the background, and what becomes of it.  Arguments as in SQL.
sub submit
{
	my ($session, $arguments, %options) = @_;
	my $table = delete $options{table} || 't';
	my $json = join ', ', '"background": true',
	  map { "\"$_\": $options{$_}" } sort keys %options;

	$arguments = ", $arguments" if $arguments ne '';
	return $session->query(
		"SELECT peek_submit('$table'$arguments, options => '{$json}')");
}

# The statement for one that is handed over if that can be
sub submit_either
{
	my ($arrangement) = @_;

	return "SELECT peek_submit('$arrangement', "
	  . q{options => '{"enable_offload": true, "inline_budget": 1}')};
}

sub wait_for
{
	my ($session, $handle) = @_;

	return $session->query("SELECT peek_wait('$handle', '120 s')");
}

sub status
{
	my ($session, $handle, $columns) = @_;

	return $session->query("SELECT $columns FROM peek_status('$handle')");
}

sub fetch
{
	my ($session, $handle) = @_;

	return $session->query("SELECT count(*), sum(k)
		FROM peek_fetch_record('$handle') AS r(k int, v text)");
}

# The SQLSTATE of an error, and its text.
sub error_of
{
	my ($session, $query) = @_;
	my (undef, $err) = $session->query("\\set VERBOSITY verbose\n$query");

	$session->query('\set VERBOSITY default');
	return $err =~ /^.*?ERROR:  (\w{5}: .*)$/m ? $1 : "no error: $err";
}

my $all = '2000|2001000';
my $super = peek_session($node);
my $guard = peek_session($node);    # who holds the gate

# The first submit sweeps.
$super->query(q{SELECT peek_release(peek_submit('t'))});

sub shut { return $guard->query('SELECT pg_advisory_lock(20)') }
sub unlock { return $guard->query('SELECT pg_advisory_unlock_all()') }

# Waits for a worker at the gate, and returns its process id.
sub at_gate
{
	my (%opts) = @_;
	my $query = q{FROM pg_locks JOIN pg_stat_activity USING (pid)
		WHERE locktype = 'advisory' AND objid = 20 AND NOT granted
		AND backend_type = 'peekstash walk'};

	wait_until("SELECT EXISTS (SELECT $query)", %opts)
	  || die "no worker came to the gate";
	return ($opts{node} || $node)
	  ->safe_psql($opts{dbname} || 'postgres', "SELECT min(pid) $query");
}

# A session that waits for a lock
sub blocked_ok
{
	my ($pid, $name, %opts) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return ok(
		wait_until(
			"SELECT cardinality(pg_blocking_pids($pid)) > 0", %opts),
		$name);
}


# A function of the filter that locks what the submitter holds: it must end by
# itself.  With a lock_timeout of the submitter's that is soon; without one
# after some time, so that is looked at at the end of all.

my $holder = peek_session($node);
my $late;
{
	$holder->query('SELECT pg_advisory_lock(30)');
	$late = submit($holder, q{lower => 30, filter => 'lock_it(k)'});

	my $session = peek_session($node);
	$session->query(q{BEGIN; SELECT pg_advisory_xact_lock(40);
		SET LOCAL lock_timeout = '100ms'});
	my $handle = submit($session, q{lower => 40, filter => 'lock_it(k)'});
	is(wait_for($session, $handle), 'failed', 'a lock of the submitter');
	is(status($session, $handle, 'sqlstate, driver'), '55P03|offloaded',
		'a lock of the submitter ends by lock_timeout');
	like(
		error_of($session, "SELECT * FROM peek_fetch(NULL::t, '$handle')"),
		qr/^55P03: canceling statement due to lock timeout/,
		'and the fetch says so');
	$session->query('ROLLBACK');
	$session->quit;
}


# The same with a catalog: a worker that starts reads it before it could say
# that it cannot walk.  That, too, ends after some time, and is looked at then.

my $reader;
my $catalog_locker;
{
	my $other = 'context_catalog';
	$super->query("CREATE DATABASE $other");
	$node->safe_psql($other, 'CREATE EXTENSION peekstash');
	$node->safe_psql($other, $tables);
	$node->safe_psql($other, q{SELECT peek_release(peek_submit('t'))});
	$reader         = peek_session($node, dbname => $other);
	$catalog_locker = peek_session($node, dbname => $other);

	# once before, so that what it needs is in its cache
	$reader->query(q{SET peekstash.enable_offload = on;
		SET peekstash.inline_budget = 1});
	$reader->query(q{SELECT peek_wait(peek_submit('t'), '120 s')});
	wait_until(q{SELECT slots_in_use = 1 FROM peekstash.stat});
	$reader->query('BEGIN; SELECT count(*) FROM pg_class');
	$catalog_locker->send(
		q{BEGIN; LOCK TABLE pg_class; SELECT 'locked'; COMMIT});
	# looked at from another database: this one's catalog is locked
	blocked_ok($catalog_locker->pid, 'a lock on a catalog is waited for');
	$reader->send(
		q{SELECT inline_reason, num_rows FROM peek_status(peek_submit('t'))});
	$held_slots = 1;    # until its transaction ends
}


# Whom a worker walks as

{
	my $session = peek_session($node, user => 'ctx_login');
	my $filter = q{filter => $$current_user = 'ctx_nologin'
		AND session_user = 'ctx_login'
		AND current_setting('role') = 'ctx_nologin'
		AND current_setting('is_superuser') = 'off'$$};

	$session->query('SET ROLE ctx_nologin');
	my $handle = submit($session, $filter, table => 'secret',
		stash_threshold => 0);
	is(wait_for($session, $handle), 'done', 'a role that cannot log in');
	is( status(
			$session, $handle, 'owner, charged_to, driver, kind, num_rows'),
		'ctx_nologin|ctx_login|offloaded|stashed|2000',
		'its walk is its own, and charged to the session user');
	is(fetch($session, $handle), $all, 'and it fetches');
	$session->query('RESET ROLE');

	# a definer of a function that submits
	$super->query(q{
		CREATE FUNCTION submit_secret() RETURNS uuid LANGUAGE sql
		SECURITY DEFINER SET search_path = public AS $$
			SELECT peek_submit('secret',
				filter => $f$current_user = 'ctx_definer'
					AND session_user = 'ctx_login'
					AND current_setting('search_path') = 'public'$f$,
				options => '{"background": true}')
		$$;
		ALTER FUNCTION submit_secret() OWNER TO ctx_definer});
	like(
		error_of($session, q{SELECT peek_submit('secret',
			options => '{"background": true}')}),
		qr/^42501: permission denied for table secret/,
		'a table that its caller may not read');
	$handle = $session->query('SELECT submit_secret()');
	is(wait_for($super, $handle), 'done', 'submitted by its definer');
	is( status(
			$super, $handle, 'owner, charged_to, driver, num_rows'),
		'ctx_definer|ctx_login|offloaded|2000',
		'the walk is the definer\'s, and charged to the session user');
	like(
		error_of(
			$session, "SELECT * FROM peek_fetch(NULL::secret, '$handle')"),
		qr/^42704: peek "$handle" does not exist/,
		'its caller cannot fetch');
	$session->quit;
}

# Attempts to become somebody else.  The function tells what it has met in an
# error of its own, or is stopped by the first.
{
	my $session = peek_session($node, user => 'ctx_login');

	$super->query(q{
		CREATE FUNCTION attempt(command text) RETURNS text
		LANGUAGE plpgsql AS $$
		BEGIN
			EXECUTE command;
			RETURN 'done';
		EXCEPTION WHEN OTHERS THEN
			RETURN SQLSTATE;
		END $$;
		CREATE FUNCTION tell(text) RETURNS bool LANGUAGE plpgsql
		STABLE PARALLEL SAFE AS $$
		DECLARE
			met text := attempt($1);
		BEGIN
			RAISE '%, is % of %', met, current_user, session_user;
		END $$;
		CREATE FUNCTION plainly(command text) RETURNS text
		LANGUAGE plpgsql AS 'BEGIN EXECUTE command; RETURN current_user; END';
		CREATE FUNCTION plainly(text, text) RETURNS bool LANGUAGE plpgsql
		STABLE PARALLEL SAFE AS 'BEGIN RETURN plainly($1) = $2; END';
		CREATE FUNCTION set_clause(int) RETURNS bool LANGUAGE plpgsql
		STABLE PARALLEL SAFE SET role = 'ctx_other' AS
			$$BEGIN RETURN current_user = 'ctx_other'; END$$;
		CREATE FUNCTION by_definer(int) RETURNS text LANGUAGE plpgsql
		STABLE PARALLEL SAFE SECURITY DEFINER AS
			'BEGIN RETURN current_user; END';
		ALTER FUNCTION by_definer(int) OWNER TO ctx_definer;
	});
	$session->query('SET ROLE ctx_nologin');
	foreach my $command (
		'RESET ROLE',
		'SET ROLE ctx_other',
		'SET ROLE postgres',
		'SET LOCAL ROLE NONE',
		'RESET SESSION AUTHORIZATION',
		'SET SESSION AUTHORIZATION DEFAULT',
		'SET SESSION AUTHORIZATION postgres',
		q{SELECT set_config('role', 'none', false)},
		q{SELECT set_config('session_authorization', 'postgres', true)})
	{
		my $quoted = $command =~ s/'/''/gr;
		my $handle = submit($session,
			qq{filter => 'tell(\$1)', args => ARRAY['$quoted']});

		is(wait_for($session, $handle), 'failed', $command);
		is( status($session, $handle, 'sqlstate, error'),
			'P0001|42501, is ctx_nologin of ctx_login',
			"$command: not allowed, and nobody else");
		$handle = submit($session,
			qq{filter => 'plainly(\$1, current_user)',
				args => ARRAY['$quoted']});
		is(wait_for($session, $handle), 'failed', "$command, plainly");
		like(
			status($session, $handle, 'sqlstate, error'),
			qr/^42501\|cannot set parameter "(role|session_authorization)" within security-(restricted operation|definer function)$/,
			"$command, plainly: not allowed");
	}
	my $handle = submit($session, q{filter => 'set_clause(k)'});
	is(wait_for($session, $handle), 'failed', 'a function that sets a role');
	like(status($session, $handle, 'sqlstate, error'),
		qr/^42501\|cannot set parameter "role"/, 'is not allowed to');

	# RESET ALL is harmless: it changes no role
	$handle = submit($session,
		q{filter => $$plainly($1, 'ctx_nologin')$$, args => '{RESET ALL}'});
	is(wait_for($session, $handle), 'done', 'RESET ALL');
	is(status($session, $handle, 'driver, num_rows'),
		'offloaded|2000', 'RESET ALL changes no role');

	$handle = submit($session, q{filter => $$by_definer(k) = 'ctx_definer'
		AND current_user = 'ctx_nologin'$$});
	is(wait_for($session, $handle), 'done', 'a function with a definer');
	is(status($session, $handle, 'driver, num_rows'),
		'offloaded|2000', 'and back again');
	$session->quit;
}
settled_ok('roles');


# Settings: of the database, the role, the session, the function

{
	my $other = 'context_settings';
	$super->query(qq{CREATE DATABASE $other});
	$super->query(qq{ALTER DATABASE $other SET $_})
	  foreach (
		'default_transaction_read_only = on',
		q{default_transaction_isolation = 'serializable'},
		'default_transaction_deferrable = on',
		q{DateStyle = 'German'},
		q{lock_timeout = '1h'},
		q{statement_timeout = '1h'});
	$super->query(
		qq{ALTER ROLE ctx_login IN DATABASE $other SET TimeZone = 'Asia/Kolkata'});
	$super->query(q{ALTER ROLE ctx_login SET search_path = 'ctx', 'public'});

	my $owner = peek_session($node, dbname => $other);
	$owner->query(q{SET default_transaction_read_only = off;
		SET default_transaction_isolation = 'read committed'});
	$owner->query('CREATE EXTENSION peekstash');
	$owner->query($tables);
	$owner->query(q{CREATE SCHEMA ctx; GRANT USAGE ON SCHEMA ctx TO PUBLIC;
		CREATE FUNCTION ctx.found() RETURNS text LANGUAGE sql
		STABLE PARALLEL SAFE AS $$SELECT 'in ctx'::text$$;
		CREATE FUNCTION seen(int) RETURNS text LANGUAGE plpgsql
		STABLE PARALLEL SAFE AS $$
		BEGIN
			RETURN concat_ws(', ', found(), current_setting('TimeZone'),
				current_setting('DateStyle'), current_setting('work_mem'),
				current_setting('ctx.mine'));
		END $$;
		GRANT SELECT ON t TO PUBLIC});
	$owner->query(q{SELECT peek_release(peek_submit('t'))});

	my $session = peek_session($node, dbname => $other, user => 'ctx_login');
	$session->query(q{SET work_mem = '777kB'; SET ctx.mine = 'of the session'});
	$session->query('BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE');
	my $handle = submit(
		$session,
		q{filter => 'seen(k) = $1', args => ARRAY[
			'in ctx, Asia/Kolkata, German, DMY, 777kB, of the session']},
		stash_threshold => 0);
	is(wait_for($session, $handle), 'done',
		'a database that is read only and serializable by default');
	is( status($session, $handle, 'driver, kind, num_rows, error'),
		'offloaded|stashed|2000|',
		'the worker writes, and has the settings of all levels');
	is(fetch($session, $handle), $all, 'and its submitter reads them');
	$session->query('COMMIT');
	$session->quit;
	$owner->quit;
	$super->query("DROP DATABASE $other WITH (FORCE)");
	$super->query('ALTER ROLE ctx_login RESET search_path');
}


# Snapshots: the walk sees what its submit saw, whatever is deleted and
# vacuumed meanwhile, and whoever has left

{
	my $session = peek_session($node);

	shut();
	my $gone = submit($session, q{filter => 'gate(k)'},
		yield_granularity => 100);
	$session->quit;
	at_gate();
	$super->query(q{DELETE FROM t; INSERT INTO t VALUES (0, 'new')});
	$super->query('VACUUM t');
	is($super->query('SELECT count(*) FROM t'), '1', 'all is deleted');
	unlock();
	is(wait_for($super, $gone), 'done', 'the submitter has left');
	is(fetch($super, $gone), $all, 'the walk has all rows');
	$super->query(q{TRUNCATE t;
		INSERT INTO t SELECT i, 'row ' || i FROM generate_series(1, 2000) i});

	# REPEATABLE READ
	$session = peek_session($node);
	$session->query('BEGIN ISOLATION LEVEL REPEATABLE READ');
	is($session->query('SELECT count(*) FROM t'), '2000', 'a snapshot');
	$super->query(q{DELETE FROM t WHERE k <= 1000;
		INSERT INTO t VALUES (3000, 'new'); VACUUM t});
	my $old = submit($session, '', stash_threshold => 0);
	is(wait_for($session, $old), 'done', 'REPEATABLE READ');
	is(status($session, $old, 'driver'), 'offloaded', 'is handed over');
	is(fetch($session, $old), $all, 'REPEATABLE READ: the rows of then');
	$session->query('COMMIT');
	is(fetch($session, $old), $all, 'also after the commit');
	$session->quit;
	$super->query(q{TRUNCATE t;
		INSERT INTO t SELECT i, 'row ' || i FROM generate_series(1, 2000) i});
}


# Between the submit and the worker.  The submitter waits at "handover".

sub between
{
	my ($name, $session, $query, $what, $reason) = @_;
	my $stop = arm_stop($node, 'handover', 'wait');

	$session->send($query);
	wait_for_stop($node, 'handover');
	$what->();
	$stop->release;
	my ($out, $err) = $session->result;
	if ($query =~ /background/)
	{
		like($err, qr/ERROR:  cannot walk in the background\nDETAIL:  $reason/,
			"$name: refused");
		return;
	}
	is($err, '', "$name: no error");
	is(wait_for($session, $out), 'done', "$name: done");
	is(status($session, $out, 'driver, inline_reason, num_rows'),
		"inline|$reason|2000", "$name: stays");
	return;
}

# An exclusive lock is waited for: a worker that waited behind it while its
# submitter waits for the worker would be a deadlock that nobody sees.
foreach my $relation ('t', 'peekstash.batch', 'peekstash.outcome')
{
	my $session = peek_session($node);
	my $locker = peek_session($node);
	my $lock = sub {
		$locker->send("BEGIN; LOCK TABLE $relation; SELECT 'locked'; COMMIT");
		blocked_ok($locker->pid, "LOCK $relation: is waited for");
	};

	between("LOCK $relation", $session, submit_either('t'),
		$lock, 'lock');
	is(($locker->result)[0], 'locked', "LOCK $relation: is had then");
	between(
		"LOCK $relation, background",
		$session,
		q{SELECT peek_submit('t', options => '{"background": true}')},
		$lock,
		'A lock that another session holds');
	is(($locker->result)[0], 'locked', "LOCK $relation: is had then, too");
	$_->quit foreach $session, $locker;
}

# Rights are looked at again
{
	# these roles may not switch it on themselves
	$super->query('ALTER SYSTEM SET peekstash.enable_offload = on');
	$super->query('SELECT pg_reload_conf()');
	wait_until(q{SELECT current_setting('peekstash.enable_offload') = 'on'});

	my $session = peek_session($node, user => 'ctx_login');
	$session->query('SET ROLE ctx_nologin; SET peekstash.inline_budget = 1');
	between('SELECT revoked', $session, q{SELECT peek_submit('secret')},
		sub { $super->query('REVOKE SELECT ON secret FROM ctx_nologin') },
		'worker');
	$super->query('GRANT SELECT ON secret TO ctx_nologin');

	# one that walks already goes on
	shut();
	my $handle = submit($session, q{filter => 'gate(k)'}, table => 'secret');
	at_gate();
	$super->query('REVOKE SELECT ON secret FROM ctx_nologin');
	unlock();
	is(wait_for($session, $handle), 'done', 'SELECT revoked from a walk');
	is(fetch($session, $handle), $all, 'has all rows');
	$session->quit;

	# a role that is dropped: before the worker starts, and while it walks
	$session = peek_session($node);
	$session->query('SET ROLE ctx_gone; SET peekstash.inline_budget = 1');
	my $stop = arm_stop($node, 'handover', 'wait');
	$session->send(q{SELECT peek_submit('t')});
	wait_for_stop($node, 'handover');
	$super->query('DROP ROLE ctx_gone');
	$stop->release;
	my ($gone, $err) = $session->result;
	is($err, '', 'a dropped role: no error');
	is(wait_for($super, $gone), 'done', 'a dropped role: done');
	is(status($super, $gone, 'driver, inline_reason, num_rows'),
		'inline|worker|2000', 'a dropped role: stays');
	$session->quit;

	$super->query('CREATE ROLE ctx_gone');
	$session = peek_session($node);
	$session->query('SET ROLE ctx_gone');
	shut();
	$gone = submit($session, q{filter => 'gate(k)'}, stash_threshold => 0);
	at_gate();
	$super->query('DROP ROLE ctx_gone');
	unlock();
	is(wait_for($super, $gone), 'done', 'a role dropped from a walk: done');
	like(
		status($super, $gone, 'owner, driver, num_rows'),
		qr/^unknown \(OID=\d+\)\|offloaded\|2000$/,
		'a role dropped from a walk');
	$session->quit;
	$super->query('ALTER SYSTEM RESET peekstash.enable_offload');
	$super->query('SELECT pg_reload_conf()');
}

# Relations of the submitter's own transaction
{
	my $session = peek_session($node);
	my $skip = arm_stop($node, 'own-rows-gate', 'skip');

	$session->query(q{BEGIN; CREATE TABLE made (k int PRIMARY KEY);
		INSERT INTO made SELECT generate_series(1, 2000)});
	my $handle = $session->query(submit_either('made'));
	is(status($session, $handle, 'inline_reason, num_rows'),
		'new_relation|2000', 'a table of this transaction');
	$session->query('ROLLBACK; BEGIN; CREATE INDEX made_v ON t (v)');
	$handle = $session->query(submit_either('made_v'));
	is(status($session, $handle, 'inline_reason, num_rows'),
		'new_relation|2000', 'an index of this transaction');
	$session->query('ROLLBACK; BEGIN; ALTER TABLE t ALTER v TYPE varchar(99)');
	$handle = $session->query(submit_either('t'));
	is(status($session, $handle, 'inline_reason, num_rows'),
		'new_relation|2000', 'a table rewritten in this transaction');
	$session->query(q{ROLLBACK; BEGIN;
		ALTER TABLE peekstash.batch SET LOGGED});
	$handle = $session->query(submit_either('t'));
	is(status($session, $handle, 'inline_reason, num_rows'),
		'new_relation|2000', 'a stash rewritten in this transaction');
	$session->query('ROLLBACK');
	$skip->release;
	$session->quit;
}
settled_ok('what comes between');


# DDL while a worker walks: it waits, the walk has all rows, and both end

foreach my $ddl (
	'DROP TABLE t',
	'VACUUM FULL t',
	'TRUNCATE t',
	'REINDEX INDEX CONCURRENTLY t_pkey',
	'REINDEX TABLE t',
	'DROP INDEX t_pkey_2',
	'ALTER TABLE t ADD w int DEFAULT 5')
{
	my $session = peek_session($node);
	my $changer = peek_session($node);

	$super->query('CREATE UNIQUE INDEX t_pkey_2 ON t (k)');
	shut();
	my $handle = submit($session, q{filter => 'gate(k)'},
		table => $ddl =~ /t_pkey_2/ ? 't_pkey_2' : 't',
		stash_threshold => 0);
	$session->quit;
	at_gate();
	$changer->send($ddl);
	blocked_ok($changer->pid, "$ddl: waits for the walk");
	unlock();
	is(wait_for($super, $handle), 'done', "$ddl: the walk ends");
	is(fetch($super, $handle), $all, "$ddl: the walk has all rows");
	is(($changer->result)[1], '', "$ddl: is done then");
	$changer->quit;
	$super->query("DROP TABLE IF EXISTS t");
	$super->query(q{
		CREATE TABLE t (k int PRIMARY KEY, v text);
		INSERT INTO t SELECT i, 'row ' || i FROM generate_series(1, 2000) i;
		GRANT SELECT ON t TO PUBLIC});
}

# DROP EXTENSION and DROP DATABASE
{
	my $other = 'context_drop';
	$super->query("CREATE DATABASE $other");
	$node->safe_psql($other, 'CREATE EXTENSION peekstash');
	$node->safe_psql($other, $tables);
	my $gate = peek_session($node, dbname => $other);
	my $session = peek_session($node, dbname => $other);
	my $dropper = peek_session($node, dbname => $other);

	# A worker that has failed, and needs a catalog to write that down.  It is
	# looked at from another database until the catalog can be read again.
	$session->query(q{SELECT peek_release(peek_submit('t'))});
	$gate->query('SELECT pg_advisory_unlock_all()');
	$gate->query('SELECT pg_advisory_lock(20)');
	$session->query(q{BEGIN; SET LOCAL lock_timeout = '200ms';
		SELECT count(*) FROM pg_class});
	my $handle = submit($session,
		q{filter => 'gate(k) AND 1 / (k - 1500) < 9'});
	my $worker = at_gate(dbname => $other);
	$dropper->send('BEGIN; LOCK TABLE pg_class; COMMIT');
	blocked_ok($dropper->pid, 'a lock on a catalog beside a walk');
	$gate->query('SELECT pg_advisory_unlock_all()');
	ok( wait_until(
			"SELECT NOT EXISTS (SELECT FROM pg_stat_activity
				WHERE pid = $worker)"),
		'a worker that has failed does not wait for it for ever');
	$session->query('COMMIT');
	$dropper->result;
	ok( wait_until(
			"SELECT EXISTS (SELECT FROM peekstash.outcome
				WHERE handle = '$handle')",
			dbname => $other),
		'its outcome is written then');
	is(status($session, $handle, 'state, sqlstate'),
		'failed|22012', 'and says how it has failed');
	settled_ok('a lock on a catalog');

	$gate->query('SELECT pg_advisory_lock(20)');
	$handle = submit($session, q{filter => 'gate(k)'},
		stash_threshold => 0);
	at_gate(dbname => $other);
	$dropper->send('DROP EXTENSION peekstash');
	blocked_ok($dropper->pid, 'DROP EXTENSION waits for the walk');
	$gate->query('SELECT pg_advisory_unlock_all()');
	is(($dropper->result)[1], '', 'DROP EXTENSION is done then');
	settled_ok('DROP EXTENSION');
	$dropper->query('CREATE EXTENSION peekstash');
	is($dropper->query(q{SELECT count(*) FROM peekstash.batch}),
		'0', 'nothing is left of the walk');

	$session->query(q{SELECT peek_release(peek_submit('t'))});
	$gate->query('SELECT pg_advisory_lock(20)');
	submit($session, q{filter => 'gate(k)'}, stash_threshold => 0);
	submit($session, q{filter => 'k > 0'});
	$session->query('BEGIN');
	submit($session, q{filter => 'gate(k)'}, stash_threshold => 0);
	at_gate(dbname => $other);
	$super->query("DROP DATABASE $other WITH (FORCE)");
	is( $super->query(
			"SELECT count(*) FROM pg_database WHERE datname = '$other'"),
		'0', 'DROP DATABASE ends the walk');
	eval { $_->query('SELECT 1'); $_->quit } foreach $gate, $session, $dropper;
	settled_ok('DROP DATABASE');
}


# A worker that is ended

{
	my $session = peek_session($node);

	shut();
	$session->query('BEGIN');
	my $handle = submit($session, q{filter => 'gate(k)'},
		stash_threshold => 0);
	my $worker = at_gate();
	$super->query("SELECT pg_terminate_backend($worker)");
	is(wait_for($session, $handle), 'failed', 'a worker is ended');
	like(
		error_of($session, "SELECT * FROM peek_fetch(NULL::t, '$handle')"),
		qr/^57P01: /, 'its fetch is an error');
	$session->query('ROLLBACK; BEGIN');
	unlock();
	shut();
	$handle = submit($session, q{filter => 'gate(k)'},
		stash_threshold => 0);
	$worker = at_gate();
	$super->query("SELECT pg_terminate_backend($worker)");
	is(wait_for($session, $handle), 'failed', 'another worker is ended');
	$session->query('COMMIT');
	ok( wait_until(
			"SELECT EXISTS (SELECT FROM peekstash.outcome
				WHERE handle = '$handle')"),
		'its outcome is written after the commit');
	is(status($session, $handle, 'state, sqlstate, driver'),
		'failed|57P01|offloaded', 'and says so');
	like(
		error_of($session, "SELECT * FROM peek_fetch(NULL::t, '$handle')"),
		qr/^57P01: a worker of the peek ended before its walk/, 'its fetch, too');
	unlock();
	ok($session->query("SELECT peek_release('$handle')"), 'it is released');
	$session->quit;
	settled_ok('ended workers');
}


# A worker that has failed writes that down.  If the table is locked then, it
# does not wait for ever, and reclaim writes what it could not.

{
	my $session = peek_session($node);
	my $locker = peek_session($node);

	shut();
	$session->query(q{SET lock_timeout = '200ms'});
	my $before = $session->query(
		'SELECT answers_failed, answers_cancelled FROM peekstash.stat');
	my $handle = submit($session,
		q{filter => 'gate(k) AND 1 / (k - 1500) < 9'});
	my $worker = at_gate();
	$locker->send('BEGIN; LOCK TABLE peekstash.outcome');
	blocked_ok($locker->pid, 'a lock that waits for the walk');
	unlock();
	$locker->result;
	ok( wait_until(
			"SELECT NOT EXISTS (SELECT FROM pg_stat_activity
				WHERE pid = $worker)"),
		'a worker that cannot write how it has failed ends');
	is( $locker->query('SELECT slots_in_use FROM peekstash.stat'),
		$held_slots + 1, 'its slot knows');
	$locker->query('COMMIT');
	ok( wait_until(
			"SELECT EXISTS (SELECT FROM peekstash.outcome
				WHERE handle = '$handle')"),
		'its outcome is written when that can be');
	is(status($session, $handle, 'state, sqlstate, error'),
		'failed|22012|division by zero', 'and says how it has failed');
	my ($failed, $cancelled) = split /\|/, $before;
	is( $session->query(
			'SELECT answers_failed, answers_cancelled FROM peekstash.stat'),
		($failed + 1) . "|$cancelled",
		'it is counted as failed');
	$_->quit foreach $session, $locker;
	settled_ok('an outcome that could not be written');
}


# Of two that are wanted one cannot: the other walks alone

{
	my $session = peek_session($node);
	my $stop = arm_stop($node, 'worker-ready', 'wait');

	$session->send(q{SELECT peek_submit('t', options =>
		'{"background": true, "workers": 2, "stash_threshold": 0}')});
	my @workers = wait_for_stop($node, 'worker-ready', count => 2);
	$super->query("SELECT pg_cancel_backend($workers[0])");
	$stop->release;
	my ($handle, $err) = $session->result;
	is($err, '', 'one of two workers is enough');
	is(wait_for($session, $handle), 'done', 'one of two workers: done');
	is(status($session, $handle, 'driver, workers, num_rows'),
		'offloaded|1|2000', 'one of two workers walks');
	is(fetch($session, $handle), $all, 'one of two workers: all rows');
	$session->quit;
}


# Notifications: one for each end, from whoever brings it about

{
	my $listener = peek_session($node);
	my $session = peek_session($node);
	my %ends;

	$listener->query('LISTEN peekstash');
	$ends{ submit($session, '', notify => 'true') } = 'done';
	$ends{ $session->query(
		q{SELECT peek_submit('t', options => '{"notify": true}')}) } = 'done';
	$ends{ submit($session, q{filter => '1 / (k - 1000) < 9'},
			notify => 'true') } = 'failed';
	shut();
	my $handle = submit($session, q{filter => 'gate(k)'}, notify => 'true');
	at_gate();
	$session->query("SELECT peek_cancel('$handle')");
	$ends{$handle} = 'cancelled';
	unlock();
	my $silent = submit($session, '');
	is(wait_for($session, $_), $ends{$_}, "an end: $ends{$_}")
	  foreach sort keys %ends;
	is(wait_for($session, $silent), 'done', 'an end without notification');

	# psql shows them after a query
	my %heard;
	my $start = time;
	while (keys %heard < keys %ends && time < $start + 120)
	{
		my $out = $listener->query('SELECT 1');
		$heard{$1} .= $2
		  while $out =~ /notification "peekstash" with payload "([0-9a-f-]+) (\w+)"/g;
		usleep(50_000);
	}
	is_deeply(\%heard, \%ends, 'each end is told once');
	$_->quit foreach $listener, $session;
}


# No worker to be had, no slot to be had.  Segments of shared memory are files
# here, which can be counted.

{
	my $small = peek_start('few_workers', conf => qq{
		max_worker_processes = 2
		max_logical_replication_workers = 0
		peekstash.slots = 2
		dynamic_shared_memory_type = mmap
	});
	my $segments = sub {
		my @files = glob $small->data_dir . '/pg_dynshmem/*';
		return scalar @files;
	};
	my $session = peek_session($small);
	my $gate = peek_session($small);
	my $walker = peek_session($small);
	my $base;
	my $handle;

	$session->query($tables);
	$session->query(q{SELECT peek_release(peek_submit('t'))});
	$session->query(q{
		CREATE PROCEDURE submit_all(n int, wait bool) LANGUAGE plpgsql AS $$
		DECLARE
			h uuid;
			reasons text[];
			reason text;
			state text;
		BEGIN
			FOR i IN 1 .. n LOOP
				h := peek_submit('t', options =>
					'{"enable_offload": true, "inline_budget": 1}');
				COMMIT;
				IF wait THEN
					PERFORM peek_wait(h);
				END IF;
				SELECT coalesce(s.inline_reason, s.driver) INTO reason
				FROM peek_status(h) s;
				IF reason <> ALL (coalesce(reasons, '{}')) THEN
					reasons := reasons || reason;
				END IF;
				PERFORM peek_release(h);
				COMMIT;
				-- so that the slot, and the worker, are free again
				WHILE wait AND EXISTS (SELECT FROM pg_stat_activity
					WHERE backend_type = 'peekstash walk') LOOP
					PERFORM pg_sleep(0.002);
				END LOOP;
			END LOOP;
			RAISE INFO '%', reasons;
		END $$});
	$base = $segments->();

	# a sweeper of the launcher's may have the worker for a moment
	$gate->query('SELECT pg_advisory_lock(20)');
	foreach (1 .. 600)
	{
		($handle) = $walker->query(q{SELECT peek_submit('t',
			filter => 'gate(k)', options => '{"background": true}')});
		last if $handle ne '';
		usleep(100_000);
	}
	at_gate(node => $small);
	like(
		($session->query('CALL submit_all(200, false)'))[1],
		qr/INFO:  \{worker_slot\}/,
		'200 submits without a worker stay');
	is($segments->(), $base + 1,
		'no segment of shared memory is left but that of the walk');
	is($session->query('SELECT slots_in_use FROM peekstash.stat'),
		'1', 'nor a slot');
	like(
		error_of($session,
			q{SELECT peek_submit('t', options => '{"background": true}')}),
		qr/^55000: cannot walk in the background/,
		'in the background there must be one');
	like(
		($session->query(
			q{SELECT peek_submit('t', options => '{"background": true}')}))[1],
		qr/DETAIL:  No background worker is free; see "max_worker_processes"/,
		'and it is said why');

	# the second slot is taken by another
	$walker->query(q{BEGIN; SELECT peek_submit('t')});
	like(
		($session->query('CALL submit_all(1, false)'))[1],
		qr/INFO:  \{slot\}/, 'without a slot it stays');
	like(
		($session->query(
			q{SELECT peek_submit('t', options => '{"background": true}')}))[1],
		qr/DETAIL:  No slot for a submitted peek is free/,
		'in the background there must be one');
	$walker->query('COMMIT');

	$gate->query('SELECT pg_advisory_unlock_all()');
	is(wait_for($walker, $handle), 'done', 'the walk ends');
	ok( wait_until(
			'SELECT slots_in_use = 0 FROM peekstash.stat', node => $small),
		'its slot is given back');
	like(
		($session->query('CALL submit_all(30, true)'))[1],
		qr/INFO:  \{.*offloaded.*\}/,
		'then submits are handed over');
	ok( wait_until(
			q{SELECT NOT EXISTS (SELECT FROM pg_stat_activity
				WHERE backend_type = 'peekstash walk')},
			node => $small),
		'workers end');
	is($segments->(), $base, 'no segment of shared memory is left');
	$_->quit foreach $session, $gate, $walker;
	$small->stop;
}


# The lock that the submitter held, without a lock_timeout

is(wait_for($super, $late), 'failed',
	'a lock of the submitter, without lock_timeout');
is(status($super, $late, 'sqlstate'), '55P03', 'has one all the same');
$holder->quit;
is(($reader->result)[0], 'lock|2000',
	'a lock on a catalog that keeps the worker out');
$reader->query('COMMIT');
$held_slots = 0;
is(($catalog_locker->result)[0], 'locked', 'it is had then');
$_->quit foreach $reader, $catalog_locker;
$super->query('DROP DATABASE context_catalog WITH (FORCE)');


# The server stops while the submitter's transaction is open, and its worker
# has committed: the tables outlive a clean stop, and what is in them then
# leads nowhere

{
	my $session = peek_session($node);

	$super->query('SELECT count(peek_release(handle)) FROM peekstash.peeks');
	settled_ok('before the stop');
	$session->query('BEGIN');
	my $handle = submit($session, '', stash_threshold => 0,
		stash_batch_size => 1000);
	is(wait_for($session, $handle), 'done', 'a worker has committed');
	is( $super->query(
			"SELECT count(*) > 10 FROM peekstash.batch
			WHERE handle = '$handle'"),
		't', 'its batches are there');
	$node->stop('fast');
	$_->quit foreach $session, $super, $guard;
	$node->start;
	my $new = $node->safe_psql('postgres', q{SELECT peek_submit('t')});
	ok( wait_until(
			"SELECT NOT EXISTS (SELECT FROM peekstash.batch
				WHERE handle = '$handle')
			AND NOT EXISTS (SELECT FROM peekstash.outcome
				WHERE handle = '$handle')"),
		'after the start, and a submit, nothing is left');
	is( $node->safe_psql('postgres', "SELECT count(*)
			FROM peek_fetch(NULL::t, '$new')"),
		'2000', 'but what was submitted then');
	is( $node->safe_psql(
			'postgres', q{SELECT stash_bytes
				= (SELECT sum(stored_bytes) FROM peekstash.outcome)
			FROM peekstash.stat}),
		't', 'and counted');
	$node->safe_psql('postgres', "SELECT peek_release('$new')");
}

no_leftovers($node, 'postgres', 'at the end');

done_testing();
