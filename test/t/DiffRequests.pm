#-------------------------------------------------------------------------
#
# DiffRequests.pm
#	  Random requests, as calls of peek and as plain SQL.
#
# Each request is written twice, as a call of peek or peek_record and as a
# query over the table, by code that shares nothing but the values: neither
# text is derived from the other.
#
# Copyright (c) 2026, the peekstash authors
#
#-------------------------------------------------------------------------
package DiffRequests;

use strict;
use warnings;

use Exporter 'import';

use DiffFilters;
use DiffTables;
use DiffValues;

our @EXPORT = qw(
  new_request
  order_of
);

my $MAX_BIGINT = '9223372036854775807';

my %pattern_operator =
  ('<' => '~<~', '<=' => '~<=~', '>' => '~>~', '>=' => '~>=~', '=' => '=');

# Plain SQL: a key column against a value, as the index compares them.
sub compare
{
	my ($key, $operator, $value) = @_;

	$operator = $pattern_operator{$operator} if $key->{pattern};
	return '(' . operand_of_key($key) . ") $operator $value";
}

# Plain SQL: leading columns are equal to these values.
sub equal_to
{
	my ($keys, $values) = @_;

	return 'false' if grep { !defined } @$values;
	return '('
	  . join(' AND ',
		map { compare($keys->[$_], '=', $values->[$_]) } 0 .. $#$values)
	  . ')';
}

# Plain SQL: one bound, which is a row comparison.  Operators that rows do not
# know are spelled out column by column.
sub beyond
{
	my ($keys, $operator, $values) = @_;
	my ($key, @keys) = @$keys;
	my ($value, @values) = @$values;
	my $strict = substr($operator, 0, 1);

	return 'false' if grep { !defined } @$values;
	return compare($key, $operator, $value) if @values == 0;
	return
		'ROW('
	  . join(', ', map { operand_of_key($_) } @$keys)
	  . ") $operator ROW("
	  . join(', ', @$values) . ')'
	  unless grep { $_->{pattern} } @$keys;
	return
		'('
	  . compare($key, $strict, $value) . ' OR '
	  . compare($key, '=', $value) . ' AND '
	  . beyond(\@keys, $operator, \@values) . ')';
}

# Plain SQL: the order of an index.
sub order_of
{
	my ($keys, $backward) = @_;
	my @items;

	foreach my $key (@$keys)
	{
		my $desc = ($key->{desc} xor $backward);
		my $first = ($key->{nulls_first} xor $backward);
		my $direction =
			$key->{pattern} ? ($desc ? 'USING ~>~' : 'USING ~<~')
		  : $desc           ? 'DESC'
		  :                   'ASC';

		push @items,
		  operand_of_key($key)
		  . " $direction NULLS "
		  . ($first ? 'FIRST' : 'LAST');
	}
	return join ', ', @items;
}

# Raw values for some keys, mostly those of a row if one is given.
sub values_for
{
	my ($keys, $row) = @_;

	return map {
		my $raw = $row && chance(0.92) ? $_->{value}->($row) : undef;
		defined $raw || chance(0.04) ? $raw : asked_value($_->{type});
	} @$keys;
}

sub arguments_for
{
	my ($keys, @raw) = @_;

	return map { argument($keys->[$_]->{type}, $raw[$_]) } 0 .. $#raw;
}

sub row_text
{
	return 'ROW(' . join(', ', map { $_->[0] } @_) . ')';
}

# One value or a row of them, as the parameter of a call.
sub row_or_value
{
	my (@arguments) = @_;

	return $arguments[0]->[0] if @arguments == 1 && chance(0.75);
	return row_text(@arguments);
}

# A request while it is made: the parameters of the call, the conditions of
# plain SQL, and names of what it has, for the look at how diverse they are.

sub add_key
{
	my ($request, $row, @keys) = @_;
	my @arguments = arguments_for(\@keys, values_for(\@keys, $row));

	push @{ $request->{call} }, 'key => ' . row_or_value(@arguments);
	push @{ $request->{where} },
	  equal_to(\@keys, [ map { $_->[1] } @arguments ]);
	return;
}

# The elements of an array have one type and are written alike.
sub scalar_array
{
	my ($key, @raw) = @_;
	my $t = $type{ $key->{type} };
	my ($element, $operand) = ($t->{cast}, $t->{cast});
	my $how = rand();
	my $other = $how < 0.5 && pick(@{ $t->{others} });
	my $text;

	if ($how < 0.25)
	{
		$element = 'text';
	}
	elsif ($other && !grep { defined && !$other->[1]->($_) } @raw)
	{
		$element = $operand = $other->[0];
	}
	$text =
	  chance(0.6) || !@raw
	  ? quoted(array_text(@raw))
	  : 'ARRAY[' . join(', ', map { quoted($_) } @raw) . ']';
	$text .= "::$element\[]"
	  unless $text =~ /^'/ && $operand eq $t->{cast} && chance(0.3);
	return ($text,
		map { defined $_ ? quoted($_) . "::$operand" : undef } @raw);
}

# Rows of keys.  The values that they have for one column become values of one
# type: the column's own, which texts can become, or a wider one, which they
# cannot.
sub key_rows
{
	my ($keys, @lists) = @_;
	my @rows = map { [] } @lists;

	foreach my $number (0 .. $#$keys)
	{
		my $name = $keys->[$number]{type};
		my $wider = @{ $type{$name}->{wider} } && chance(0.4);

		foreach my $i (0 .. $#lists)
		{
			my $argument;

			do
			{
				$argument = argument($name, $lists[$i][$number], !$wider);
			} while ($wider && $argument->[0] =~ /::text$/);
			$rows[$i][$number] = $argument;
		}
	}
	return @rows;
}

sub add_keys
{
	my ($request, $row, $rows, @keys) = @_;
	my @rows = ($row, map { pick(@$rows) } 1 .. below(4));
	my (@lists, @equals, $array);

	# keys of rows, other keys, and some of them again
	@lists = map { [ values_for(\@keys, $_) ] } @rows, (undef) x below(5);
	push @lists, pick(@lists) foreach 1 .. below(3);
	@lists = shuffled(@lists);

	# No rows would not tell after how many columns bounds begin.
	@lists = () if chance(0.05) && @keys == 1;
	$request->{features}{null_in_keys} = 1
	  if grep {
		grep { !defined } @$_
	  } @lists;

	if (@keys == 1 && chance(0.75) && !$type{ $keys[0]{type} }->{in_rows})
	{
		($array, my @operands) =
		  scalar_array($keys[0], map { $_->[0] } @lists);
		@equals = map { equal_to(\@keys, [$_]) } @operands;
		if (chance(0.03))
		{
			$array = pick('NULL', "NULL::$type{$keys[0]{type}}->{cast}\[]");
			@equals = ();
		}
	}
	else
	{
		my @texts;

		foreach my $list (key_rows(\@keys, @lists))
		{
			push @texts, row_text(@$list);
			push @equals, equal_to(\@keys, [ map { $_->[1] } @$list ]);
		}
		push @texts, 'NULL' if @texts && chance(0.1);
		$array = 'ARRAY[' . join(', ', @texts) . ']';
		$array .= '::record[]' if !@texts;
	}
	push @{ $request->{call} }, "keys => $array";
	push @{ $request->{where} },
	  @equals ? '(' . join(' OR ', @equals) . ')' : 'false';
	return;
}

# Bounds about the values of two rows, of which both, one or none are given.
sub add_bounds
{
	my ($request, $row, $other, @keys) = @_;
	my $bounds = pick('[]', '[)', '(]', '()');
	my %operator = (
		lower => $bounds =~ /^\[/ ? '>=' : '>',
		upper => $bounds =~ /\]$/ ? '<=' : '<');
	my @sides =
	  @{ pick(([ 'lower', 'upper' ]) x 3, ['lower'], ['upper']) };
	my @first = map { (values_for([ $keys[0] ], $_))[0] } $row, $other;
	my %first;

	# Nearly always the right way around, or equal, so that further columns
	# decide.
	@first = ordered($keys[0]->{type}, @first)
	  if chance(0.95) && !grep { !defined } @first;
	$first[1] = $first[0] if chance(0.25);
	@first{ 'lower', 'upper' } = @first;

	foreach my $side (@sides)
	{
		my @used = @keys[ 0 .. below(scalar @keys) ];
		my @raw = values_for(\@used, $side eq 'lower' ? $row : $other);
		my @arguments;

		$raw[0] = $first{$side};
		@arguments = arguments_for(\@used, @raw);
		push @{ $request->{call} }, "$side => " . row_or_value(@arguments);
		push @{ $request->{where} },
		  beyond(\@used, $operator{$side}, [ map { $_->[1] } @arguments ]);
		$request->{features}{row_bounds} = 1 if @used > 1;
		$request->{features}{null_in_bounds} = 1 if grep { !defined } @raw;
	}
	if ($bounds ne '[]' || chance(0.2))
	{
		push @{ $request->{call} }, "bounds => '$bounds'";
	}
	elsif (chance(0.1))
	{
		push @{ $request->{call} }, 'bounds => NULL';
	}
	return;
}

sub add_filter
{
	my ($request, $index, $row) = @_;
	my ($filter, $plain, @args) = make_filter($index, $row);

	push @{ $request->{call} }, 'filter => ' . quoted($filter);
	push @{ $request->{where} }, "($plain)";
	$request->{features}{filter} = 1;
	if (@args)
	{
		push @{ $request->{call} },
		  'args => '
		  . (
			chance(0.5)
			? 'ARRAY[' . join(', ', map { quoted($_) } @args) . ']::text[]'
			: quoted(array_text(@args)));
		$request->{features}{args} = 1;
	}
	return;
}

# Conditions of one kind.  Returns its name.
sub add_conditions
{
	my ($request, $index) = @_;
	my @keys = @{ $index->{keys} };
	my $kind = pick(
		'no condition',
		('filter') x 4,
		('key') x 3,
		('keys') x 3,
		('bounds') x 4,
		('key and bounds') x 2,
		'keys and bounds');
	my $length = 1 + below(scalar @keys);
	my @leading = @keys[ 0 .. $length - 1 ];
	my @rest = @keys[ $length .. $#keys ];
	my ($row, $other);

	# Rows to ask for, rather not with nulls, which match nothing.
	if (@{ $index->{rows} } && chance(0.9))
	{
		foreach (1 .. 3)
		{
			($row, $other) = map { pick(@{ $index->{rows} }) } 1, 2;
			last
			  unless grep { !defined } map { $keys[0]{value}->($_) } $row,
			  $other;
		}
	}
	$kind = 'bounds' if $kind =~ /^keys? and bounds$/ && !@rest;

	if ($kind eq 'key')
	{
		add_key($request, $row, @leading);
		$kind = 'key of several columns' if $length > 1;
	}
	elsif ($kind eq 'keys')
	{
		add_keys($request, $row, $index->{rows}, @leading);
		$kind = 'keys of several columns' if $length > 1;
	}
	elsif ($kind eq 'bounds')
	{
		add_bounds($request, $row, $other, @keys);
	}
	elsif ($kind eq 'key and bounds')
	{
		add_key($request, $row, @leading);
		add_bounds($request, $row, $other, @rest);
	}
	elsif ($kind eq 'keys and bounds')
	{
		add_keys($request, $row, $index->{rows}, @leading);
		add_bounds($request, $row, $other, @rest);
	}
	elsif ($kind eq 'filter')
	{
		add_filter($request, $index, $row);
	}
	if ($kind !~ /^(no condition|filter)$/ && chance(0.3))
	{
		add_filter($request, $index, $row);
		$kind .= ', with a filter';
	}
	return $kind;
}

# Parameters that are not given may be said not to be.
sub add_defaults
{
	my ($request) = @_;
	my @given = @{ $request->{call} };
	my %default = (
		key => 'ROW()',
		keys => 'ROW()',
		lower => 'ROW()',
		upper => 'ROW()',
		filter => 'NULL',
		args => 'NULL',
		order_by => 'NULL',
		row_limit => 'NULL',
		row_offset => 'NULL',
		backward => 'NULL',);

	foreach my $name (sort keys %default)
	{
		push @{ $request->{call} }, "$name => $default{$name}"
		  if chance(0.03) && !grep { /^\Q$name\E => / } @given;
	}
	return;
}

# Calls the function for a table's rows or some columns of them.  Returns the
# call without its request, the columns, and what declares them; for a call
# of peek that is undef.
sub choose_shape
{
	my ($request, $index) = @_;
	my $table = $index->{table};
	my $features = $request->{features};
	my @types = grep { $_->{table} == $table } @projections;
	my @columns = @{ $table->{columns} };
	my $arrangement = quoted($index->{name});
	my $shape = pick(('table') x 5, ('projection') x 2, ('record') x 3);
	my @call;

	$shape = 'table' if $shape eq 'projection' && !@types;
	if (defined $table->{primary_key}
		&& $table->{primary_key} eq $index->{name})
	{
		my $how = rand();

		$features->{table_as_arrangement} = 1 if $how < 0.6;
		$arrangement = quoted($table->{name}) if $how < 0.6;
		$arrangement = 'NULL' if $how < 0.3 && $shape eq 'table';
	}
	$arrangement .= '::regclass' if chance(0.3);
	@call = ("arrangement => $arrangement");
	@call = () if $arrangement eq 'NULL';

	if ($shape eq 'table')
	{
		return ("peek(NULL::$table->{name}", \@call, undef, undef);
	}
	if ($shape eq 'projection')
	{
		my $projection = pick(@types);

		$features->{projection} = 1;
		return ("peek(NULL::$projection->{name}",
			\@call, $projection->{columns}, undef);
	}

	$features->{record} = 1;
	if (chance(0.8))
	{
		my @names;

		@columns = shuffled(@columns);
		$#columns = below(scalar @columns);
		push @columns, $columns[0] if chance(0.1);
		@names = map { $_->{name} } @columns;
		push @call, 'columns => '
		  . (
			chance(0.5)
			? 'ARRAY[' . join(', ', map { quoted($_) } @names) . ']'
			: quoted(array_text(@names)));
		return ('peek_record(', \@call, \@columns, declared(@columns));
	}
	push @call, 'columns => NULL' if chance(0.3);
	return ('peek_record(', \@call, undef,
		join(', ', declared(@columns), @{ $table->{extra} || [] }));
}

# A column definition list.  Its names are the caller's own.
sub declared
{
	my $number = 0;

	return join ', ',
	  map { 'c' . ++$number . " $type{$_->{type}}->{sql}" } @_;
}

# Returns the fields of a line of diff_request, but for its number.
sub new_request
{
	my $index =
	  pick(@indexes, @indexes, grep { $_->{name} !~ /random/ } @indexes);
	my $table = $index->{table};
	my $request = { call => [], where => [], features => {} };
	my ($call, $where, $features) = @{$request}{qw(call where features)};
	my $backward = chance(0.3);
	my $order = order_of($index->{keys}, $backward);
	my ($limit, $offset) = (undef, 0);
	my ($kind, $function, $leading, $columns, $declared, $rows, $query,
		$oracle);

	$kind = add_conditions($request, $index);
	push @$where, $index->{predicate} if defined $index->{predicate};

	if ($backward)
	{
		push @$call, 'backward => true';
		$features->{backward} = 1;
	}
	if (chance(0.22))
	{
		$order = sort_list($table);
		push @$call, 'order_by => ' . quoted($order);
		$features->{order_by} = 1;
	}

	# the top N of an order is what most can go wrong with
	if (chance($features->{order_by} ? 0.6 : 0.4))
	{
		$limit = pick(0, 1, 2, 3, 4, 7, 20, 100, 300, $MAX_BIGINT);
		push @$call, "row_limit => $limit";
		$features->{limit} = 1;
	}
	if (chance(0.3))
	{
		$offset = pick(0, 1, 1, 2, 3, 4, 5, 17, 100, $MAX_BIGINT);
		push @$call, "row_offset => $offset";
		$features->{offset} = 1 if $offset;
	}
	add_defaults($request);

	($function, $leading, $columns, $declared) =
	  choose_shape($request, $index);
	$query = $function;
	$query .= ', ' unless $query =~ /\($/;
	$query .=
	  join(', ', @$leading, shuffled(@$call), 'options => @OPTIONS@') . ')';
	if (defined $declared)
	{
		$query = "FROM $query AS p($declared)";
	}
	elsif (chance(0.3))
	{
		$query = "FROM (SELECT $query AS p) AS s";
		$features->{select_list} = 1;
	}
	else
	{
		$query = "FROM $query AS p";
	}

	$rows =
	  $columns
	  ? 'ROW(' . join(', ', map { $_->{name} } @$columns) . ')'
	  : $table->{name};
	$oracle =
		'SELECT array_agg(g ORDER BY g), array_agg(r ORDER BY g) '
	  . "FROM (SELECT dense_rank() OVER (ORDER BY $order)::int AS g, "
	  . "record_send($rows) AS r FROM $table->{name}"
	  . (@$where ? ' WHERE ' . join(' AND ', @$where) : '')
	  . ') AS s';

	return (
		$kind, array_text(sort(keys %$features), $index->{name}),
		"SELECT array_agg(record_send(p)) $query",
		$oracle, $limit, $offset);
}

1;
