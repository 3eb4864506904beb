# Pages behind PgBouncer with the drivers that people use, each with its
# ordinary parameters: the programs of test/drivers all print the same, but for
# what needs a cast.
#
# PEEKSTASH_DRIVERS names them; "make drivers" asks for all.

use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin;

use IPC::Run qw(run timeout);
use PeekPooler;
use PeekTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $drivers = $ENV{PEEKSTASH_DRIVERS} || 'psycopg2 psycopg';
my $programs = "$FindBin::Bin/../drivers";
my %command = (
	psycopg2 => [ '/usr/bin/python3', "$programs/pages.py", 'psycopg2' ],
	psycopg => [ '/usr/bin/python3', "$programs/pages.py", 'psycopg' ],
	node => [ 'node', "$programs/pages.js" ],
	jdbc => [ 'java', '-cp', $ENV{CLASSPATH} || '', "$programs/Pages.java" ]);

# What every one of them prints
my $printed = <<'EOF';
page: 10 rows of 4000, k 1001 to 1010, pos 0 to 9
fetch: 10 rows, k 1011 to 1020
json: 10 rows, k 1011, next 20 of 4000
pages: 4000 rows, sum 12002000, 2 backends
resumed: 4000 rows, sum 12002000
error unknown: 42704
error expired: 42704 has expired
error other type: 42804
error too large: 53400
error option: 22023
error row number: 22023
error read only: 25006
read only fetch: none
released: True
EOF

# Where a parameter without a cast is an error.  "any" takes no parameter whose
# type is left open: psycopg leaves it open for texts, node-postgres always.
# JDBC gives every string a type, and no function of that type is there.
my %cast = (
	psycopg2 => {},
	psycopg => { map { $_ => '42P18' }
		  ('text as key', 'texts as keys', 'two columns as key') },
	node => { map { $_ => '42P18' }
		  ('number as key', 'text as key', 'numbers as keys',
			'texts as keys', 'two columns as key') },
	jdbc => { map { $_ => '42883' } qw(options handle interval role) });
my @parameters = (
	'number as key', 'text as key', 'numbers as keys', 'texts as keys',
	'two columns as key', 'arrangement', 'args', 'columns', 'options',
	'handle', 'interval', 'role');

plan skip_all => 'needs PgBouncer' unless pooler_is_there();

my $node = peek_start('drivers');
$node->safe_psql('postgres', q{
	CREATE TABLE item (k int PRIMARY KEY, name text NOT NULL);
	INSERT INTO item SELECT i, 'n' || i FROM generate_series(1, 5000) AS i;
	CREATE INDEX item_name ON item (name);
	CREATE INDEX item_both ON item (name, k);
	CREATE TABLE other (k text);
});
my $pooler = pooler_start($node, tcp => $drivers =~ /jdbc/);

foreach my $driver (split / /, $drivers)
{
	my ($out, $err) = ('', '');

	local %ENV = %ENV;
	$ENV{PGHOST} = $driver eq 'jdbc' ? '127.0.0.1' : $pooler->host;
	$ENV{PGPORT} = $pooler->port;
	$ENV{PGUSER} = getpwuid $<;
	$ENV{PGDATABASE} = 'postgres';
	my $ok = eval {
		run($command{$driver}, '<', \undef, '>', \$out, '2>', \$err, timeout(120));
	};
	ok($ok, "$driver: the program ran");
	diag $err || $@ || '' unless $ok;

	my %found = $out =~ /^cast ([^:]*): (.*)\n/mg;
	note $out;
	$out =~ s/^cast .*\n//mg;
	is($out, $printed, "$driver: pages and errors");
	is_deeply(\%found,
		{ map { $_ => $cast{$driver}->{$_} || 'none' } @parameters },
		"$driver: what needs a cast");
}
pooler_end($pooler);
$node->safe_psql('postgres', 'SELECT peek_release(handle) FROM peekstash.peeks');
no_leftovers($node);
done_testing();
