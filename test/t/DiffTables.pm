#-------------------------------------------------------------------------
#
# DiffTables.pm
#	  Random tables, indexes and rows of the differential test.
#
# The test knows every row, so that it can ask for what is there.
#
# A table has a name, columns in order, rows (raw values by column name), and
# the name of its primary key if there is one.  A column has a name, an
# expression that reads it, a type (see DiffValues.pm), a collation, and what
# computes it from a row.  An index has a name, a table, its predicate, the
# rows that it covers, and its keys: columns with a direction and a place of
# nulls, some with an expression or a collation of their own.
#
# Copyright (c) 2026, the peekstash authors
#
#-------------------------------------------------------------------------
package DiffTables;

use strict;
use warnings;

use Exporter 'import';

use DiffValues;

our @EXPORT = qw(
  $ddl
  @indexes
  @projections
  add_index
  column
  copy_rows
  create_table
  key_column
  make_tables
  named
  operand_of_key
  random_row
);

our $ddl = '';
our @indexes;

# Composite types that take some columns of a table: name, table, columns.
our @projections;

sub column
{
	my ($name, $type, $collation) = @_;

	return {
		name => $name,
		expr => $name,
		type => $type,
		collation => $collation,
		own_collation => $collation || '',
		value => sub { $_[0]->{$name} },
	};
}

sub column_sql
{
	my ($column) = @_;

	return "$column->{name} $type{$column->{type}}->{sql}"
	  . ($column->{collation} ? " COLLATE $column->{collation}" : '');
}

# The columns of a table that have these names.
sub named
{
	my ($table, @names) = @_;
	my %by_name = map { $_->{name} => $_ } @{ $table->{columns} };

	return @by_name{@names};
}

sub random_row
{
	my ($table, $nulls) = @_;

	return {
		map {
			$_->{name} => chance($nulls) ? undef : stored_value($_->{type})
		} @{ $table->{columns} }
	};
}

sub copy_rows
{
	my ($table_name, $names, @rows) = @_;

	return "COPY $table_name (" . join(', ', @$names) . ") FROM stdin;\n"
	  . join('', map { copy_line(@{$_}{@$names}) } @rows) . "\\.\n";
}

# constraints and extra columns (which hold no raw values) are SQL.
sub create_table
{
	my ($table, @more) = @_;

	$ddl .= "CREATE TABLE $table->{name} ("
	  . join(', ', (map { column_sql($_) } @{ $table->{columns} }), @more)
	  . ") WITH (autovacuum_enabled = off);\n";
	return;
}

# A column as the key of an index.
sub key_column
{
	my ($column, %how) = @_;

	return {
		%$column,
		desc => chance(0.5),
		nulls_first => chance(0.5),
		other_collation => defined $how{collation}
		  && $how{collation} ne ($column->{collation} || ''),
		%how
	};
}

sub operand_of_key
{
	my ($key) = @_;

	return $key->{expr}
	  . ($key->{collation} ? " COLLATE $key->{collation}" : '');
}

sub key_sql
{
	my ($key) = @_;

	return operand_of_key($key)
	  . ($key->{pattern} ? ' text_pattern_ops' : '')
	  . ($key->{desc} ? ' DESC' : ' ASC')
	  . ($key->{nulls_first} ? ' NULLS FIRST' : ' NULLS LAST');
}

# An index that a constraint has already made is only noted.
sub add_index
{
	my ($table, $name, $keys, %how) = @_;
	my @with;

	push @indexes,
	  {
		name => $name,
		table => $table,
		keys => $keys,
		predicate => $how{predicate},
		rows => [
			grep { !$how{covers} || $how{covers}->($_) } @{ $table->{rows} }
		],
	  };
	return if $how{constraint};

	# Few entries a page, so that a walk meets many pages; and posting lists
	# as well as none.
	push @with, 'fillfactor = 10' if chance(0.5);
	push @with, 'deduplicate_items = off' if chance(0.3);
	$ddl .= "CREATE INDEX $name ON $table->{name} ("
	  . join(', ', map { key_sql($_) } @$keys) . ')'
	  . ($how{include} ? " INCLUDE ($how{include})" : '')
	  . (@with ? ' WITH (' . join(', ', @with) . ')' : '')
	  . ($how{predicate} ? " WHERE $how{predicate}" : '') . ";\n";
	return;
}

# One to four columns in any order and direction, sometimes not with the
# column's own collation.
sub add_random_indexes
{
	my ($table, @numbers) = @_;

	foreach my $number (@numbers)
	{
		my @columns = shuffled(@{ $table->{columns} });
		my $width = pick(1, 2, 2, 3, 3, 4);
		my @keys;

		$#columns = $width - 1 if @columns > $width;
		foreach my $column (@columns)
		{
			my %how;

			$how{collation} = pick('"C"', 'diff_icu', 'diff_ci')
			  if $textual{ $column->{type} } && chance(0.15);
			push @keys, key_column($column, %how);
		}
		add_index($table, "$table->{name}_random_$number", \@keys);
	}
	return;
}

sub add_projections
{
	my ($table) = @_;

	foreach my $number (1 .. 4)
	{
		my $name = "$table->{name}_projection_$number";
		my @columns = shuffled(@{ $table->{columns} });

		$#columns = below(scalar @columns);
		$ddl .= "CREATE TYPE $name AS ("
		  . join(', ', map { column_sql($_) } @columns) . ");\n";
		push @projections,
		  { name => $name, table => $table, columns => \@columns };
	}
	return;
}

# Every type, no primary key, many equal rows.
sub make_wide
{
	my $table = {
		name => 'diff_wide',
		columns => [
			column('i', 'int4'),
			column('b', 'int8'),
			column('s', 'int2'),
			column('n', 'numeric'),
			column('m', 'numeric82'),
			column('x', 'float8'),
			column('tc', 'text', '"C"'),
			column('tu', 'text', 'diff_icu'),
			column('ti', 'text', 'diff_ci'),
			column('v', 'varchar', '"C"'),
			column('bp', 'bpchar', '"C"'),
			column('ts', 'timestamptz'),
			column('d', 'date'),
			column('u', 'uuid'),
			column('f', 'bool'),
			column('e', 'enum'),
			column('y', 'bytea'),
			column('q', 'dom'),
			column('nm', 'name', '"C"'),
			column('iv', 'interval'),
			column('ar', 'array'),
			column('ra', 'range'),
			column('js', 'jsonb'),
		],
		extra => [ 'pad text', 'note text' ],
	};
	my @names = ((map { $_->{name} } @{ $table->{columns} }), 'pad', 'note');
	my @rows = map { { %{ random_row($table, 0.25) }, note => '' } } 1 .. 420;

	# Long values, some of them too long to stay in the row.
	$_->{pad} = join('', map { sprintf '%08x', below(2**32) } 1 .. 600)
	  foreach @rows[ map { below(420) } 1 .. 8 ];
	$_->{pad} = 'abc' x 1500 foreach @rows[ map { below(420) } 1 .. 8 ];
	push @rows, map { pick(@rows) } 1 .. 160;
	$table->{rows} = [ shuffled(@rows) ];

	create_table($table, @{ $table->{extra} });
	add_random_indexes($table, 1 .. 16);

	# Dead rows, and chains of versions that the indexes know nothing of.
	$ddl .= copy_rows($table->{name}, \@names,
		(map { { %{ random_row($table, 0.25) }, note => 'dead' } } 1 .. 80),
		@{ $table->{rows} });
	$ddl .= "DELETE FROM diff_wide WHERE note = 'dead';\n";
	$ddl .= "UPDATE diff_wide SET note = 'x' WHERE i % 3 = 0;\n" x 2;
	$ddl .= "UPDATE diff_wide SET note = '';\n";

	add_random_indexes($table, 17 .. 32);
	make_special_indexes($table);
	add_projections($table);
	return;
}

# Expressions, predicates, columns that are not keys, and keys that are not
# compared as the column is.
sub make_special_indexes
{
	my ($table) = @_;
	my ($i, $n, $tc, $tu) = named($table, qw(i n tc tu));
	my $lower_tc = {
		expr => '(lower(tc))',
		type => 'text',
		collation => '"C"',
		value => sub {
			my $text = $_[0]->{tc};
			$text =~ tr/A-Z/a-z/ if defined $text;
			return $text;
		},
	};
	my $i_mod = {
		expr => '(i % 5)',
		type => 'int4',
		value => sub {
			my $value = $_[0]->{i};
			return unless defined $value;
			return $value < 0 ? -(-$value % 5) : $value % 5;
		},
	};
	my $b_or_0 = {
		expr => '(coalesce(b, 0))',
		type => 'int8',
		value => sub { defined $_[0]->{b} ? $_[0]->{b} : 0 },
	};

	add_index($table, 'diff_wide_expression',
		[ key_column($lower_tc), key_column($i_mod) ]);
	add_index(
		$table,
		'diff_wide_partial',
		[ key_column($i), key_column($n) ],
		predicate => 'f',
		covers => sub { defined $_[0]->{f} && $_[0]->{f} eq 't' });
	add_index(
		$table,
		'diff_wide_partial_expression',
		[ key_column($b_or_0), key_column($tu) ],
		predicate => 'i > 0 AND tc IS NOT NULL',
		covers => sub {
			my ($row) = @_;
			return defined $row->{i} && $row->{i} > 0 && defined $row->{tc};
		});
	add_index(
		$table,
		'diff_wide_include',
		[ key_column($i), key_column($tc) ],
		include => 'n, u');
	add_index(
		$table,
		'diff_wide_collations',
		[
			key_column($tc, collation => 'diff_icu'),
			key_column($tu, collation => '"C"'),
			key_column($tc, collation => 'diff_ci'),
		]);
	add_index($table, 'diff_wide_pattern',
		[ key_column($tu, pattern => 1), key_column($i) ]);
	return;
}

# A primary key over what has no nulls.
sub make_keyed
{
	my $table = {
		name => 'diff_keyed',
		columns => [
			column('i', 'int4'),
			column('tu', 'text', 'diff_icu'),
			column('b', 'int8'),
			column('n', 'numeric'),
			column('ts', 'timestamptz'),
			column('f', 'bool'),
		],
		primary_key => 'diff_keyed_pkey',
	};
	my %seen;

	foreach (1 .. 600)
	{
		my $row = random_row($table, 0.25);

		$row->{i} = pick(@{ $type{int4}->{values} });
		$row->{tu} = pick(@{ $type{text}->{values} });
		push @{ $table->{rows} }, $row
		  unless $seen{ $row->{i} }{ $row->{tu} }++;
	}
	create_table($table, 'PRIMARY KEY (i, tu)');
	$ddl .= copy_rows($table->{name},
		[ map { $_->{name} } @{ $table->{columns} } ],
		@{ $table->{rows} });
	add_index(
		$table,
		'diff_keyed_pkey',
		[
			map { key_column($_, desc => 0, nulls_first => 0) }
			  named($table, 'i', 'tu')
		],
		constraint => 1);
	add_random_indexes($table, 1 .. 3);
	add_projections($table);
	return;
}

# Columns dropped, added again with another type, and added with a default
# that the older rows have only in the catalogue.
sub make_altered
{
	my $table = {
		name => 'diff_altered',
		columns => [
			column('id', 'int4'),
			column('tc', 'text', '"C"'),
			column('d', 'date'),
			column('late', 'int8'),
			column('n', 'numeric'),
			column('gone', 'text', 'diff_icu'),
		],
		primary_key => 'diff_altered_pkey',
	};
	my @old = map { random_row($table, 0.25) } 1 .. 120;
	my @new = map { random_row($table, 0.25) } 1 .. 120;
	my $id = 0;

	$_->{id} = ++$id foreach @old, @new;
	@{$_}{qw(late n gone)} = (2, '1.50', undef) foreach @old;
	$table->{rows} = [ @old, @new ];

	$ddl .= <<'EOT';
CREATE TABLE diff_altered (dead1 bigint, id int PRIMARY KEY, gone int,
	tc text COLLATE "C", d date) WITH (autovacuum_enabled = off);
EOT
	$ddl .= copy_rows(
		$table->{name},
		[qw(dead1 id gone tc d)],
		map { { %$_, dead1 => 1, gone => 2 } } @old);
	$ddl .= <<'EOT';
ALTER TABLE diff_altered DROP COLUMN gone, DROP COLUMN dead1;
ALTER TABLE diff_altered ADD late bigint DEFAULT 2,
	ADD dead2 text DEFAULT 'dead', ADD n numeric DEFAULT 1.50;
ALTER TABLE diff_altered ADD gone text COLLATE diff_icu, DROP COLUMN dead2;
EOT
	$ddl .= copy_rows($table->{name},
		[ map { $_->{name} } @{ $table->{columns} } ], @new);

	add_index(
		$table,
		'diff_altered_pkey',
		[ key_column(named($table, 'id'), desc => 0, nulls_first => 0) ],
		constraint => 1);
	add_index($table, 'diff_altered_late',
		[ map { key_column($_) } named($table, qw(late n gone)) ]);
	add_random_indexes($table, 1 .. 3);
	add_projections($table);
	return;
}

# Little but copies.
sub make_narrow
{
	my $table = {
		name => 'diff_narrow',
		columns => [ column('s', 'int2'), column('f', 'bool') ],
	};

	$table->{rows} = [ map { random_row($table, 0.1) } 1 .. 600 ];
	create_table($table);
	$ddl .= copy_rows($table->{name}, [ 's', 'f' ], @{ $table->{rows} });
	add_random_indexes($table, 1 .. 2);
	return;
}

sub make_empty
{
	my $table = {
		name => 'diff_empty',
		columns => [ column('i', 'int4'), column('tc', 'text', '"C"') ],
		rows => [],
	};

	create_table($table);
	add_random_indexes($table, 1);
	return;
}

sub make_tables
{
	make_wide();
	make_keyed();
	make_altered();
	make_narrow();
	make_empty();
	$ddl .= "ANALYZE;\n";
	return;
}

1;
