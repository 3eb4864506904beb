#-------------------------------------------------------------------------
#
# DiffValues.pm
#	  Chance, quoting, and the values of the differential test.
#
# Chance is perl's rand alone, so that srand repeats a run; nothing may depend
# on the order in which a hash gives its keys.
#
# Copyright (c) 2026, the peekstash authors
#
#-------------------------------------------------------------------------
package DiffValues;

use strict;
use warnings;

use Exporter 'import';

our @EXPORT = qw(
  below
  chance
  pick
  shuffled
  quoted
  array_text
  copy_line
  stored_value
  asked_value
  typed_value
  argument
  ordered
  %type
  %textual
);

sub below { return int(rand(shift)); }
sub chance { return rand() < shift; }
sub pick { return $_[ below(scalar @_) ]; }

sub shuffled
{
	my @in = @_;
	my @out;
	push @out, splice(@in, below(scalar @in), 1) while @in;
	return @out;
}

sub quoted
{
	my $text = shift;
	return 'NULL' unless defined $text;
	$text =~ s/'/''/g;
	return "'$text'";
}

# An array literal's text; every element quoted, so that 'NULL' is a string.
sub array_text
{
	return '{' . join(
		',',
		map {
			my $text = $_;
			defined $text ? do { $text =~ s/(["\\])/\\$1/g; qq("$text") } : 'NULL';
		} @_) . '}';
}

sub copy_line
{
	return join(
		"\t",
		map {
			my $text = $_;
			if (defined $text)
			{
				$text =~ s/\\/\\\\/g;
				$text =~ s/\n/\\n/g;
				$text =~ s/\t/\\t/g;
			}
			defined $text ? $text : '\N';
		} @_) . "\n";
}


# sql		how a column is declared
# cast		how a value is cast; without a type modifier, as operators see it
# values	raw values in about ascending order
# hot		the few of them that most rows have
# absent	values that no row has, for requests
# others	other types whose values the index's operators, or one implicit
#			coercion, can compare with the column: name and which raw values
# wider		those of them that the operators must compare, because no implicit
#			coercion leads to the column's type
# more		values that only a wider type has
# in_rows	a list of values is a list of rows, as an array has no array type

my $INT2 = [ 'smallint', sub { $_[0] =~ /^-?\d+$/ && abs($_[0]) < 32768 } ];
my $INT4 = [ 'int', sub { $_[0] =~ /^-?\d+$/ && abs($_[0]) < 2147483648 } ];
my $INT8 = [ 'bigint', sub { $_[0] =~ /^-?\d+$/ } ];
my $BIGDOM = [ 'diff_dom', sub { $_[0] =~ /^-?\d+$/ && $_[0] > -1000 } ];
my $DAY = [ 'date', sub { $_[0] =~ /^\d+-\d+-\d+$|infinity/ } ];
my $TIME = [ 'timestamp', sub { $_[0] !~ /[+]/ } ];
my $TIMETZ = [ 'timestamptz', sub { 1 } ];

my @texts = (
	'', ' ', 'A', 'Ab', 'B', 'NULL', 'a', 'a b', 'ab', 'b', "o'b", 'a\\b',
	'{x,"y"}', 'z', "\xc3\xa9", "\xc3\x9f", 'x' x 300);
my @days = (
	'-infinity', '1999-12-31', '2020-01-01', '2020-01-02', '2020-02-29',
	'2024-02-29', 'infinity');
my @ids = map { sprintf '%08x-0000-4000-8000-%012x', $_, 7 * $_ }
  (0, 1, 2, 3, 10, 255, 0xffffffff);

our %type = (
	int2 => {
		sql => 'smallint',
		values => [ -32768, -3, 0, 1, 2, 3, 7, 32767 ],
		hot => [ 1, 2, 3 ],
		absent => [ 4, 5 ],
		others => [ $INT4, $INT8 ],
		wider => [ $INT4, $INT8 ],
		more => [ 40000, -3000000000 ],
	},
	int4 => {
		sql => 'int',
		values =>
		  [ -2147483648, -7, -1, 0, 1, 2, 3, 4, 5, 8, 13, 2147483647 ],
		hot => [ 0, 1, 2, 3, 4, 5 ],
		absent => [ 6, 100, -100 ],
		others => [ $INT2, $INT8, $BIGDOM ],
		wider => [ $INT8, $BIGDOM ],
		more => [ 3000000000, -3000000000 ],
	},
	int8 => {
		sql => 'bigint',
		values => [
			'-9223372036854775807', -1, 0, 1, 2, 3, 4, 1099511627776,
			'9223372036854775807'
		],
		hot => [ 1, 2, 3 ],
		absent => [ 5, -5 ],
		others => [ $INT2, $INT4 ],
	},
	dom => {
		sql => 'diff_dom',
		cast => 'bigint',
		values => [ -999, -1, 0, 1, 2, 3, 5000000000 ],
		hot => [ 0, 1, 2 ],
		absent => [4],
		others => [ $INT2, $INT4, $INT8, $BIGDOM ],
	},
	numeric => {
		sql => 'numeric',
		values => [
			'-Infinity', -1, 0, '0.00', 1, '1.5', '1.50', 3, '3.000',
			'10000000000', 'Infinity', 'NaN'
		],
		hot => [ 0, '0.00', 1, '1.5', '1.50', 3, '3.000' ],
		absent => [ 2, '2.5' ],
		others => [ $INT2, $INT4, $INT8 ],
	},
	numeric82 => {
		sql => 'numeric(8,2)',
		cast => 'numeric',
		values => [ '-1.00', '0.00', '1.50', '1.55', '1.56', '3.00', 'NaN' ],
		hot => [ '1.50', '1.55', '1.56' ],
		absent => [ '1.555', '2' ],
		others => [ $INT2, $INT4 ],
	},
	float8 => {
		sql => 'float8',
		values => [
			'-Infinity', '-1.5', '-0', 0, 1, '1.5', 3, '1e300', 'Infinity',
			'NaN'
		],
		hot => [ '-0', 0, 1, '1.5' ],
		absent => [ 2, '2.5' ],
		others => [
			$INT4, $INT8,
			[ 'float4', sub { $_[0] ne '1e300' } ],
			[ 'numeric', sub { 1 } ]
		],
	},
	text => {
		sql => 'text',
		values => \@texts,
		hot => [ '', 'A', 'a', 'ab', 'b', "\xc3\xa9" ],
		absent => [ 'aa', 'C', "\xc3\xa9a" ],
		others => [ [ 'varchar', sub { 1 } ], [ 'bpchar', sub { 1 } ] ],
	},
	varchar => {
		sql => 'varchar(10)',
		cast => 'varchar',
		values => [ '', 'A', 'Ab', 'a', 'ab', 'b', 'z' ],
		hot => [ 'A', 'a', 'ab' ],
		absent => ['aa'],
		others => [ [ 'text', sub { 1 } ], [ 'name', sub { 1 } ] ],
	},
	name => {
		sql => 'name',
		values => [ '', 'A', 'Ab', 'a', 'ab', 'b', 'z' ],
		hot => [ 'A', 'a', 'ab' ],
		absent => ['aa'],
		others => [ [ 'text', sub { 1 } ], [ 'varchar', sub { 1 } ] ],
	},
	bpchar => {
		sql => 'char(4)',
		cast => 'bpchar',
		values => [ 'A', 'Ab', 'a', 'ab', 'b', 'zz' ],
		hot => [ 'A', 'a', 'ab' ],
		absent => ['aa'],
		others => [],
	},
	timestamptz => {
		sql => 'timestamptz',
		values => [
			'-infinity', '1999-12-31 23:00:00+00', '2020-01-01',
			'2020-01-01 12:00', '2020-01-01 12:00:00.000001',
			'2020-06-01 12:00+02', '2020-06-01', 'infinity'
		],
		hot => [ '2020-01-01', '2020-01-01 12:00', '2020-06-01 12:00+02' ],
		absent => [ '2020-01-02', '2020-01-01 12:00+09' ],
		others => [ $DAY, $TIME ],
	},
	date => {
		sql => 'date',
		values => \@days,
		hot => [ '2020-01-01', '2020-01-02', '2024-02-29' ],
		absent => ['2020-01-03'],
		others => [ $TIME, $TIMETZ ],
		wider => [ $TIME, $TIMETZ ],
	},
	uuid => {
		sql => 'uuid',
		values => \@ids,
		hot => [ @ids[ 1, 2, 3 ] ],
		absent => ['00000004-0000-4000-8000-000000000000'],
		others => [],
	},
	bool => {
		sql => 'bool',
		values => [ 'f', 't' ],
		hot => [ 'f', 't' ],
		absent => [],
		others => [],
	},
	enum => {
		sql => 'diff_mood',
		values => [qw(awful sad ok happy)],
		hot => [qw(sad ok happy)],
		absent => [],
		others => [],
	},
	bytea => {
		sql => 'bytea',
		values => [ '\x', '\x00', '\x0000', '\x00ff', '\x61', '\xff' ],
		hot => [ '\x', '\x00', '\x61' ],
		absent => ['\x62'],
		others => [],
	},
	interval => {
		sql => 'interval',
		values => [
			'-1 day', '0', '23:59:59', '1 day', '24 hours', '1 mon',
			'30 days', '720 hours'
		],
		hot => [ '1 day', '24 hours', '1 mon', '30 days' ],
		absent => [ '36 hours', '1440 minutes' ],
		others => [],
	},
	array => {
		sql => 'int[]',
		values => [ '{}', '{0}', '{1}', '{1,1}', '{1,2}', '{1,NULL}', '{2}' ],
		hot => [ '{1}', '{1,2}', '{1,NULL}' ],
		absent => ['{3}'],
		others => [],
		in_rows => 1,
	},
	range => {
		sql => 'int4range',
		values => [ 'empty', '(,2)', '[1,2)', '[1,3)', '[1,)', '[2,3)' ],
		hot => [ 'empty', '[1,2)', '[1,3)' ],
		absent => ['[5,6)'],
		others => [],
	},
	jsonb => {
		sql => 'jsonb',
		values => [
			'null', '"a"', '1', '1.0', '2', 'true', '[]', '[1, "a"]', '{}',
			'{"a": 1}'
		],
		hot => [ '1', '1.0', '"a"', '{"a": 1}' ],
		absent => [ '3', '1.00' ],
		others => [],
	},);

foreach my $t (values %type)
{
	$t->{cast} = $t->{sql} unless defined $t->{cast};
	foreach my $list (qw(wider more))
	{
		$t->{$list} = [] unless defined $t->{$list};
	}
}

our %textual = map { $_ => 1 } qw(text varchar bpchar name);

sub stored_value
{
	my $t = $type{ $_[0] };
	return chance(0.75) ? pick(@{ $t->{hot} }) : pick(@{ $t->{values} });
}

sub asked_value
{
	my $t = $type{ $_[0] };
	return pick(@{ $t->{absent} }) if @{ $t->{absent} } && chance(0.15);
	return chance(0.6) ? pick(@{ $t->{hot} }) : pick(@{ $t->{values} });
}

# A value with its type written out, as an expression that means the same in
# a call and in a query; with $narrow, not of a wider type.
sub typed_value
{
	my ($name, $raw, $narrow) = @_;
	my $t = $type{$name};
	my @others = grep { $_->[1]->($raw) } @{ $t->{others} };

	@others = grep { my $other = $_; !grep { $_ == $other } @{ $t->{wider} } }
	  @others
	  if $narrow;
	return quoted($raw) . '::' . pick(@others)->[0] if @others && chance(0.5);
	return $raw
	  if $raw =~ /^-?\d{1,10}$/
	  && $name =~ /^(int[248]|dom|numeric|float)/
	  && !($narrow && $name eq 'int2')
	  && chance(0.6);
	return quoted($raw) . "::$t->{cast}";
}

# A value as an argument of a call, and as an operand of plain SQL.  NULL has
# no operand: undef says that the condition is never true.
sub argument
{
	my ($name, $raw, $narrow) = @_;
	my $t = $type{$name};
	my $operand = quoted($raw) . "::$t->{cast}";
	my $how = rand();

	return [ pick('NULL', $operand), undef ] if !defined $raw;
	if (@{ $t->{more} } && !$narrow && chance(0.05))
	{
		my $more = quoted(pick(@{ $t->{more} })) . '::bigint';

		return [ $more, $more ];
	}
	return [ quoted($raw), $operand ] if $how < 0.35;
	return [ quoted($raw) . '::text', $operand ] if $how < 0.45;
	return [ "(SELECT $operand)", $operand ] if $how < 0.5;
	$operand = typed_value($name, $raw, $narrow);
	return [ $operand, $operand ];
}

# Two values in about the order of their type.
sub ordered
{
	my ($name, @raw) = @_;
	my $place = 0;
	my %place = map { $_ => ++$place } @{ $type{$name}->{values} };
	return sort { ($place{$a} || 0) <=> ($place{$b} || 0) } @raw;
}

1;
