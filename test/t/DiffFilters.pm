#-------------------------------------------------------------------------
#
# DiffFilters.pm
#	  Random filters and sort lists of the differential test.
#
# A filter is made as a pair of texts, for the call (with parameters) and for
# plain SQL (with the parameters' values as literals without a type, which the
# parser treats alike), joined from smaller pairs.  Nothing in it may fail at
# run time: SQL promises no order of evaluation.
#
# Copyright (c) 2026, the peekstash authors
#
#-------------------------------------------------------------------------
package DiffFilters;

use strict;
use warnings;

use Exporter 'import';

use DiffTables;
use DiffValues;

our @EXPORT = qw(
  make_filter
  sort_list
);

my @comparisons = ('=', '=', '<', '<=', '>', '>=', '<>');
my %mirrored = ('<' => '>', '>' => '<', '<=' => '>=', '>=' => '<=');

# What only some types can be asked.  %c is the column.
my %functions = (
	int2 => [ '%c % 3 = 1', "%c::text < '3'", '-%c::int > -3' ],
	int4 => [
		'%c % 3 = 1',
		'coalesce(%c, 2) >= 2',
		'%c::numeric + 1 > 3',
		'%c > 1.5',
		'%c = 2.0::float8',
		'%c IS NOT DISTINCT FROM 2',
		'%c IS DISTINCT FROM NULL',
	],
	int8 => [
		'%c % 3 = 1',
		'coalesce(%c, 0) < 3',
		'nullif(%c, 2) IS NULL',
		'%c = ANY (ARRAY[2, %c % 4])',
	],
	dom => [ '%c % 2 = 0', "%c::text LIKE '1%'" ],
	numeric => [ '%c * 2 > 3', 'round(%c) = 2', '%c > 1.4::float8' ],
	numeric82 => [ '%c + 1 >= 2.5', 'trunc(%c) = 1' ],
	float8 => [ '%c / 2 > 1', '%c = 1.5::float4', '%c < 2::numeric' ],
	text => [
		'length(%c) > 1',
		"lower(%c) = 'a'",
		"%c || 'x' < 'bx'",
		"left(%c, 1) IN ('a', 'A')",
		q(%c COLLATE "C" > 'A'),
		"%c COLLATE diff_icu <= 'a'",
		"%c COLLATE diff_ci = 'a'",
		"%c ~>=~ 'a'",
		"%c ~<~ 'b'",
		q(%c COLLATE "C" LIKE 'a%'),
	],
	varchar => [ "upper(%c) = 'A'", "%c LIKE 'a%'", "%c::text > 'a'" ],
	bpchar => [ "rtrim(%c) > 'a'", "%c::text = 'ab'" ],
	timestamptz => [
		"date_part('year', %c) = 2020",
		"%c >= '2020-01-01'::date",
		"%c < '2020-06-01'::timestamp",
		"%c::date = '2020-01-01'",
	],
	date => [
		"%c + 1 > '2020-01-02'",
		"%c < '2020-01-02'::timestamptz",
		"date_part('year', %c) = 2020",
	],
	uuid => ["%c::text LIKE '0000000%'"],
	bool => [
		'%c', 'NOT %c',
		'%c IS TRUE', '%c IS NOT TRUE',
		'%c IS FALSE', '%c IS UNKNOWN',
		'%c IS NOT UNKNOWN', '%c::int = 1',
	],
	enum => [ "%c::text = 'ok'", '%c = enum_last(%c)' ],
	bytea => [ 'length(%c) > 1', q(%c || '\x00' > '\x00') ],
	name => [ "%c::text > 'a'", 'length(%c) > 1' ],
	interval => [ "%c * 2 > '2 days'", "justify_hours(%c) = '1 day'" ],
	array => [ 'cardinality(%c) > 1', "%c @> '{1}'", '%c[1] = 1' ],
	range => [ 'lower(%c) = 1', "%c && '[1,3)'", 'isempty(%c)' ],
	jsonb => [ "jsonb_typeof(%c) = 'number'", "%c @> '1'" ],);

my %sort_functions = (
	int4 => [ '%c % 3', 'coalesce(%c, 2)' ],
	numeric => ['round(%c)'],
	text => [
		'length(%c)', 'lower(%c)', '%c COLLATE "C"', '%c COLLATE diff_icu',
		'%c COLLATE diff_ci'
	],
	bool => [ 'NOT %c', '%c IS NULL' ],
	date => ['%c + 1'],);

# The values of the parameters of the filter that is being made.
my @args;

sub parameter
{
	my ($raw) = @_;

	push @args, $raw;
	return [ '$' . scalar @args, quoted($raw) ];
}

# Joins texts and pairs to one pair.
sub both
{
	my ($call, $plain) = ('', '');

	foreach my $part (@_)
	{
		$call .= ref $part ? $part->[0] : $part;
		$plain .= ref $part ? $part->[1] : $part;
	}
	return [ $call, $plain ];
}

sub listed
{
	my ($separator, @parts) = @_;

	return both(map { $_ ? ($separator, $parts[$_]) : $parts[$_] }
		  0 .. $#parts);
}

# A value to compare with a column of the type; a random one if none is given.
sub operand
{
	my ($type, $raw) = @_;
	my $text;

	$raw = asked_value($type) unless defined $raw;
	return parameter(chance(0.04) ? undef : $raw) if chance(0.35);
	return both('NULL') if chance(0.02);
	return both(chance(0.5) ? quoted($raw) : typed_value($type, $raw));
}

sub function_atom
{
	my ($column) = @_;
	my @texts = @{ $functions{ $column->{type} } };
	my $text;

	# Where different strings can be equal, plain SQL is no judge of these:
	# PostgreSQL 15 takes c ~>=~ 'a' for implied by c = 'b', which 'B' is, too.
	@texts = grep { !/~/ } @texts
	  if defined $column->{own_collation}
	  && $column->{own_collation} eq 'diff_ci';

	$text = pick(@texts);
	$text =~ s/%c/$column->{expr}/g;
	return both($text);
}

# A condition that may bound a walk over the column.  If $raw is given, the
# condition is likely to hold for that value.
sub plain_atom
{
	my ($column, $kind, $raw) = @_;
	my $type = $column->{type};
	my $expr = $column->{expr};
	my @known = defined $raw ? ($raw) : ();

	$kind = 'in' if $kind eq 'any' && $type{$type}->{in_rows};

	# An index with another collation than the column's serves only those
	# who name it.
	$expr = operand_of_key($column)
	  if $column->{other_collation} && chance(0.5);

	if ($kind eq '=')
	{
		return both($expr, ' = ', operand($type, $raw)) if chance(0.8);
		return both(operand($type, $raw), ' = ', $expr);
	}
	if ($kind eq 'range')
	{
		my $operator = pick('<', '<=', '>', '>=');

		return both($expr, " $operator ", operand($type, $raw))
		  if chance(0.8);
		return both(operand($type, $raw), " $mirrored{$operator} ", $expr);
	}
	if ($kind eq 'between')
	{
		my ($low, $high) = ordered($type, asked_value($type),
			@known ? $raw : asked_value($type));

		return both(
			$expr, pick(' BETWEEN ', ' BETWEEN ', ' NOT BETWEEN '),
			operand($type, $low), ' AND ', operand($type, $high));
	}
	if ($kind eq 'in')
	{
		my @values =
		  shuffled(@known, map { asked_value($type) } 0 .. below(4));

		return both(
			$expr, chance(0.9) ? ' IN (' : ' NOT IN (',
			listed(', ', map { operand($type, $_) } @values), ')');
	}
	if ($kind eq 'any')
	{
		my @values =
		  shuffled(@known, map { asked_value($type) } 1 .. below(5));
		my $array;

		push @values, undef if chance(0.15);
		push @values, pick(@values) if @values && chance(0.4);
		$array = array_text(@values);
		$array = chance(0.4) ? parameter($array) : quoted($array);
		return both($expr, pick((' = ANY (') x 6, ' <> ALL (', ' < ANY ('),
			$array, ')');
	}
	return both("$expr IS NULL") if $kind eq 'null';
	return both("$expr IS NOT NULL");
}

# A comparison of rows, over the first columns of an index.
sub row_atom
{
	my ($index) = @_;
	my @keys = @{ $index->{keys} }[ 0, 1 ];
	my $left = '(' . join(', ', map { $_->{expr} } @keys) . ')';
	my $count = chance(0.25) ? 2 : 1;
	my @right = map {
		both('(', listed(', ', map { operand($_->{type}) } @keys), ')')
	} 1 .. $count;

	return both($left, ' IN (', listed(', ', @right), ')') if $count > 1;
	return both($left, ' ' . pick(@comparisons) . ' ', $right[0]);
}

sub random_atom
{
	my ($index, $row) = @_;
	my @columns = @{ $index->{table}{columns} };
	my @numbers = grep { $_->{type} =~ /^(int[248]|numeric|float)/ } @columns;
	my $how = rand();
	my $column;

	return row_atom($index) if $how < 0.06 && @{ $index->{keys} } > 1;
	return both(pick('true', 'false', 'NULL::bool', '1 = 1', "'t'"))
	  if $how < 0.08;
	return both(pick(@numbers)->{expr}, ' ' . pick(@comparisons) . ' ',
		pick(@numbers)->{expr})
	  if $how < 0.14 && @numbers;

	$column = chance(0.6) ? pick(@{ $index->{keys} }) : pick(@columns);
	return function_atom($column) if chance(0.25);
	return plain_atom($column,
		pick('=', 'range', 'range', 'between', 'in', 'any', 'null', 'some'),
		$row && chance(0.6) ? $column->{value}->($row) : undef);
}

# If $row is given, the filter is likely to let it through.
sub random_filter
{
	my ($index, $row, $depth) = @_;
	my $how = $depth > 0 ? rand() : 1;

	return both('(', random_filter($index, $row, $depth - 1), ' OR ',
		random_filter($index, $row, $depth - 1), ')')
	  if $how < 0.2;
	return both('(', random_filter($index, $row, $depth - 1), ' AND ',
		random_filter($index, $row, $depth - 1), ')')
	  if $how < 0.3;
	return both('NOT (', random_filter($index, undef, $depth - 1), ')')
	  if $how < 0.36;
	return both(
		'CASE WHEN ',
		random_filter($index, $row, $depth - 1),
		' THEN ', random_atom($index, $row),
		' ELSE ', random_atom($index, $row), ' END')
	  if $how < 0.4;
	return random_atom($index, $row);
}

# Conjuncts of which some bound the walk: equality on leading columns, then a
# list or a range; in any order, and with others between them.
sub bounding_filter
{
	my ($index, $row) = @_;
	my @keys = @{ $index->{keys} };
	my @conjuncts;

	$#keys = below(scalar @keys);
	foreach my $key (@keys)
	{
		my $raw = $row ? $key->{value}->($row) : asked_value($key->{type});

		if (!defined $raw)
		{
			push @conjuncts, plain_atom($key, 'null');
			next;
		}
		push @conjuncts,
		  plain_atom($key,
			pick('=', '=', '=', 'range', 'between', 'in', 'any'), $raw);
		push @conjuncts, plain_atom($key, pick('range', 'some', 'any'), $raw)
		  if chance(0.15);
		push @conjuncts, function_atom($key) if chance(0.1);
	}
	push @conjuncts, random_filter($index, $row, 2) if chance(0.3);
	return listed(' AND ', shuffled(@conjuncts));
}

# Returns the two texts and the values of the parameters.
sub make_filter
{
	my ($index, $row) = @_;
	my $pair;

	@args = ();
	$pair =
	  chance(0.5)
	  ? bounding_filter($index, $row)
	  : random_filter($index, $row, 2);
	return (@$pair, @args);
}

# What follows ORDER BY.
sub sort_list
{
	my ($table) = @_;
	my @items;

	foreach (1 .. pick(1, 1, 2, 3))
	{
		my $column = pick(@{ $table->{columns} });
		my $functions = $sort_functions{ $column->{type} };
		my $item = $functions && chance(0.3) ? pick(@$functions) : '%c';

		$item =~ s/%c/$column->{expr}/g;
		$item .= pick(
			'', '', ' ASC', ' DESC',
			' DESC NULLS LAST',
			' NULLS FIRST', ' DESC NULLS FIRST');
		$item = "$column->{expr} USING >"
		  if $column->{type} eq 'int4' && chance(0.2);
		push @items, $item;
	}
	return join ', ', @items;
}

1;
