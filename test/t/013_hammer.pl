# Writers replace rows as fast as they can while peeks run on and on: each
# peek must see each key exactly once, in a state that was there.
#
# Two writers loop over transactions that DELETE two keys and INSERT them again
# with some amount moved from one to the other.  So in every snapshot each key
# is there once and the amounts add up to the same sum.  A third session
# vacuums all the time, so that index entries are removed and row positions
# used again while walks stand on them.
#
# PEEKSTASH_FULL=1 asks for 10,000 peeks instead of 2,000, PEEKSTASH_SEED for a
# run with the same choices.

use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin;

use PeekTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $PEEKS = $ENV{PEEKSTASH_FULL} ? 10_000 : 2_000;
my $READERS = 2;
my $KEYS = 400;

my $seed = $ENV{PEEKSTASH_SEED};
$seed = (time ^ ($$ << 8)) % 1_000_000 if !defined $seed || $seed eq '';
diag "PEEKSTASH_SEED=$seed";

my $node = peek_start('hammer');
$node->safe_psql('postgres', qq{
	CREATE TABLE account (k int PRIMARY KEY, amount int NOT NULL, filler text);
	CREATE INDEX account_amount ON account (amount, k DESC);
	INSERT INTO account SELECT i, 100, repeat('x', 100)
	FROM generate_series(1, $KEYS) AS i;

	-- the writers end when it is empty
	CREATE TABLE running AS SELECT true AS yes;
	CREATE TABLE written (transactions bigint);
	CREATE TABLE wrong (form text, found text);
});
$node->safe_psql('postgres', q{
	CREATE PROCEDURE write(keys int, seed float8) LANGUAGE plpgsql AS $$
	DECLARE
		a int;
		b int;
		a_amount int;
		b_amount int;
		n bigint := 0;
	BEGIN
		PERFORM setseed(seed);
		WHILE EXISTS (SELECT FROM running) LOOP
			-- in the order of keys, so that writers do not deadlock
			a := 1 + floor(random() * (keys - 1));
			b := a + 1 + floor(random() * (keys - a));
			DELETE FROM account WHERE k = a RETURNING amount INTO a_amount;
			IF FOUND THEN
				DELETE FROM account WHERE k = b RETURNING amount INTO b_amount;
			END IF;
			IF FOUND THEN
				INSERT INTO account VALUES (a, a_amount - 1, repeat('y', 100));
				INSERT INTO account VALUES (b, b_amount + 1, repeat('z', 100));
				n := n + 1;
				COMMIT;
			ELSE
				-- the other writer was at the same key
				ROLLBACK;
			END IF;
		END LOOP;
		INSERT INTO written VALUES (n);
	END $$;

	-- Each form of peek once, per number of times.  The call is a query of
	-- k and amount.
	CREATE PROCEDURE read(keys int, times int) LANGUAGE plpgsql AS $$
	DECLARE
		forms text[] := ARRAY[
			'peek(NULL::account)',
			'peek(NULL::account, backward => true)',
			'peek(NULL::account, ''account_amount'')',
			'peek(NULL::account, ''account_amount'', backward => true)',
			'peek(NULL::account, keys => ARRAY(SELECT generate_series(-5, 500)))',
			'peek(NULL::account, filter => ''amount > -1000000'')',
			'peek(NULL::account, ''account_amount'', filter => ''k > 0'')',
			'peek(NULL::account, order_by => ''amount, filler'')',
			'peek(NULL::account, ''account_amount'', options => ''{"stash_threshold": 0, "stash_batch_size": 500}'')',
			'peek(NULL::account, options => ''{"yield_granularity": 1}'')'];
		form text;
		found record;
	BEGIN
		FOR i IN 1 .. times LOOP
			form := forms[1 + i % cardinality(forms)];
			EXECUTE format('SELECT count(*), count(DISTINCT k), min(k), max(k), sum(amount) FROM %s AS p', form)
				INTO found;
			IF found <> ROW(keys::bigint, keys::bigint, 1, keys, 100::bigint * keys) THEN
				INSERT INTO wrong VALUES (form, found::text);
			END IF;

			-- with plain SQL beside it, in one snapshot
			IF i % 20 = 0 THEN
				EXECUTE format('SELECT count(*) FROM (SELECT k, amount FROM account EXCEPT ALL SELECT k, amount FROM %s) AS d', form)
					INTO found;
				IF found.count <> 0 THEN
					INSERT INTO wrong VALUES (form, 'not as plain SQL');
				END IF;
			END IF;

			-- point lookups: a key is never away
			EXECUTE 'SELECT count(*) FROM peek(NULL::account, key => $1)'
				INTO found USING 1 + i % keys;
			IF found.count <> 1 THEN
				INSERT INTO wrong VALUES ('key', found::text);
			END IF;
			COMMIT;
		END LOOP;
	END $$;
});

my @writers = map { peek_session($node) } 1 .. 2;
my @readers = map { peek_session($node) } 1 .. $READERS;
my $vacuum = peek_session($node);

my $n = 0;
$_->send("CALL write($KEYS, " . (($seed + $n++) % 1000) / 1000 . ')') foreach @writers;

# A loop over VACUUM cannot be written in PL/pgSQL; \watch has no end.
$vacuum->send("SELECT 'VACUUM account' FROM generate_series(1, 100000)\n\\gexec");
$_->send("CALL read($KEYS, " . $PEEKS / $READERS . ')') foreach @readers;

foreach my $reader (@readers)
{
	my ($out, $err) = $reader->result;
	is($err, '', 'a reader met no error');
}
$node->safe_psql('postgres', 'TRUNCATE running');
foreach my $writer (@writers)
{
	my ($out, $err) = $writer->result;
	is($err, '', 'a writer met no error');
}
$vacuum->disconnect;

is($node->safe_psql('postgres',
		'SELECT form, found, count(*) FROM wrong GROUP BY 1, 2'),
	'', "in $PEEKS peeks each key was there once, with the right sum");
my $transactions = $node->safe_psql('postgres', 'SELECT sum(transactions) FROM written');
cmp_ok($transactions, '>', 500, 'the writers were busy');
my $vacuums = $node->safe_psql('postgres',
	q{SELECT vacuum_count FROM pg_stat_user_tables WHERE relname = 'account'});
cmp_ok($vacuums, '>', 5, 'and so was VACUUM');
note "$transactions transactions, $vacuums vacuums";

my $peeks = $node->safe_psql('postgres',
	'SELECT walks_inline || \' \' || answers_failed + answers_cancelled FROM peekstash.stat');
is($peeks, (2 * $PEEKS + $PEEKS / 20) . ' 0', 'all walks were counted, none failed');

$_->quit foreach @writers, @readers;
no_leftovers($node);
unlike(slurp_file($node->logfile), qr/WARNING:  |ERROR:  (?!canceling)|TRAP:|PANIC:/,
	'the server had nothing to complain of');

done_testing();
