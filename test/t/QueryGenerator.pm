#-------------------------------------------------------------------------
#
# QueryGenerator.pm
#	  Queries for the differential test of peek_query.
#
# A query is made twice from the same chances: as peek_query gets it, with
# parameters, and as plain SQL, with the same values as literals.  It is made
# of typed expressions over the columns in sight, so that nearly all of it can
# run; where it throws, both must throw the same.
#
# A query whose order is open is compared as a multiset of rows.  An ordered
# one is ordered by all of its columns in the end, so that there is only one
# right sequence.
#
# Copyright (c) 2026, the peekstash authors
#
#-------------------------------------------------------------------------
package QueryGenerator;

use strict;
use warnings;

use Exporter 'import';

our @EXPORT = qw($query_tables new_query);

sub below { return int rand $_[0] }
sub chance { return rand() < $_[0] }
sub pick { return $_[ below(scalar @_) ] }

# Columns of the tables: names and types.
my %table = (
	q_one => [
		id => 'int', a => 'int', b => 'text', c => 'numeric', d => 'date',
		at => 'timestamptz', f => 'float8', yes => 'bool', j => 'jsonb',
		ar => 'int[]', e => 'q_mood', u => 'uuid', span => 'interval',
		raw => 'bytea', v => 'varchar(12)', big => 'bigint' ],
	q_two => [ id => 'int', one => 'int', b => 'text', c => 'numeric',
		p => 'q_pair' ],
	q_parts => [ id => 'int', b => 'text', d => 'date', r => 'int4range' ],
	q_view => [ id => 'int', one => 'int', b => 'text', total => 'numeric' ],
	q_wide => [ id => 'int', b => 'text', raw => 'bytea' ]);

our $query_tables = <<'EOT';
CREATE TYPE q_mood AS ENUM ('sad', 'ok', 'happy');
CREATE TYPE q_pair AS (x int, y text);
CREATE TABLE q_one (id int PRIMARY KEY, a int, b text, c numeric, d date,
	at timestamptz, f float8, yes bool, j jsonb, ar int[], e q_mood, u uuid,
	span interval, raw bytea, v varchar(12), gone int, big bigint);
ALTER TABLE q_one DROP gone;
INSERT INTO q_one SELECT i, nullif(i % 9, 8), nullif('t' || i % 13, 't5'),
	nullif(i % 11, 7) / 4.0, date '2024-01-01' + i % 17,
	timestamptz '2024-01-01 UTC' + i % 19 * interval '7 hours',
	nullif(i % 5, 4) / 8.0, nullif(i % 3, 2)::bool,
	jsonb_build_object('k', i % 4, 't', 'x' || i % 2), ARRAY[i % 3, NULL, i],
	(enum_range(NULL::q_mood))[1 + i % 4], md5((i % 6)::text)::uuid,
	i % 8 * interval '1 day 3 hours', decode(lpad(to_hex(i), 4, '0'), 'hex'),
	left(md5(i::text), i % 12), i::bigint * 1000000007
	FROM generate_series(1, 60) i;
CREATE TABLE q_two (id int, one int, b text, c numeric(8, 2), p q_pair);
INSERT INTO q_two SELECT i, i % 25, 't' || i % 13, i / 3.0,
	CASE WHEN i % 4 > 0 THEN (i % 5, 'y' || i % 2)::q_pair END
	FROM generate_series(1, 80) i;
CREATE INDEX ON q_two (one);
CREATE TABLE q_parts (id int, b text, d date, r int4range)
	PARTITION BY RANGE (id);
CREATE TABLE q_part_1 PARTITION OF q_parts FOR VALUES FROM (0) TO (20);
CREATE TABLE q_part_2 (r int4range, gone int, d date, b text, id int);
ALTER TABLE q_part_2 DROP gone;
ALTER TABLE q_parts ATTACH PARTITION q_part_2 FOR VALUES FROM (20) TO (100);
INSERT INTO q_parts SELECT i, 't' || i % 13, date '2024-01-01' + i % 5,
	int4range(i % 7, i % 7 + i % 3) FROM generate_series(1, 50) i;
CREATE VIEW q_view AS
	SELECT o.id, t.one, o.b, sum(t.c) AS total
	FROM q_one o LEFT JOIN q_two t ON t.one = o.id GROUP BY 1, 2, 3;
CREATE TABLE q_wide (id int, b text, raw bytea);
ALTER TABLE q_wide ALTER raw SET STORAGE EXTERNAL;
INSERT INTO q_wide SELECT i, repeat('t' || i, i * 700),
	convert_to(repeat(md5(i::text), i * 60), 'UTF8')
	FROM generate_series(1, 6) i;
ANALYZE;
EOT

# Of one query: parameters [type, value], features, unique names.
my (@params, %features, $names);

sub quoted { my ($s) = @_; $s =~ s/'/''/g; return "'$s'" }

my %value = (
	'int' => sub { below(30) - 3 },
	'bigint' => sub { (below(60) - 3) * 1000000007 },
	'text' => sub { pick('t' . below(13), "it's", '', 'x%', "\xc3\xa4") },
	'numeric' => sub { below(50) / 4 },
	'date' => sub { sprintf '2024-01-%02d', 1 + below(20) },
	'timestamptz' => sub { sprintf '2024-01-%02d 0%d:00:00+00', 1 + below(9), below(9) },
	'float8' => sub { below(9) / 8 },
	'bool' => sub { pick('t', 'f', 'true', 'off') },
	'jsonb' => sub { pick('{"k": 1}', '[1, "a"]', 'null', '{"k": 3, "t": "x1"}') },
	'int[]' => sub { pick('{}', '{1,2}', '{NULL,3}') },
	'q_mood' => sub { pick('sad', 'ok', 'happy') },
	'uuid' => sub { sprintf '00000000-0000-4000-8000-%012d', below(9) },
	'interval' => sub { pick('1 day', '3 hours', '-2 days 5 min') },
	'bytea' => sub { pick('\\x00ff', '\\x', '\\x0001') },
	'q_pair' => sub { pick('(1,y1)', '(,)', '(3,"a b")') },
	'int4range' => sub { pick('[1,5)', 'empty', '(,3]') },
	'varchar(12)' => sub { pick('ab', 'c') });
my @types = sort keys %value;

sub literal
{
	my ($type, $raw) = @_;

	$type =~ s/_small$//;
	return defined $raw ? quoted($raw) . "::$type" : "NULL::$type";
}

# A value: a literal, or a parameter.  $context says that the parser can tell
# the type without a cast.
sub constant
{
	my ($type, $context) = @_;
	my $raw = chance(0.06) ? undef : $value{$type}->();

	if (chance(0.4) && @params < 12)
	{
		push @params, [ $type, $raw ];
		$features{params} = $features{"param $type"} = 1;
		return "\@" . scalar(@params) . ($context && chance(0.7) ? 'n' : 'c') . "\@";
	}
	return literal($type, $raw);
}

sub columns_of
{
	my ($type, @scope) = @_;

	return map { $_->[0] }
	  grep { $_->[1] eq $type || $type eq 'text' && $_->[1] =~ /^varchar/ } @scope;
}

# An expression of a type over the columns of the scope.
sub expr
{
	my ($type, $depth, @scope) = @_;
	my @columns = columns_of($type, @scope);
	my $e = sub { expr($_[0], $depth - 1, @scope) };

	return pick(@columns) if @columns && chance($depth > 0 ? 0.5 : 0.85);
	return constant($type) if $depth <= 0;

	return "coalesce(" . $e->($type) . ", " . $e->($type) . ")" if chance(0.1);
	return "CASE WHEN " . $e->('bool') . " THEN " . $e->($type) . " ELSE " . $e->($type) . " END"
	  if chance(0.12);
	if ($type eq 'int')
	{
		return pick(
			sub { '(' . $e->('int') . pick(' + ', ' - ') . $e->('int') . ')' },
			sub { '(' . $e->('int') . ' % ' . (2 + below(7)) . ')' },
			sub { '(' . $e->('int') . ' / (' . (1 + below(3)) . '))' },
			sub { 'length(' . $e->('text') . ')' },
			sub { 'extract(day FROM ' . $e->('date') . ')::int' },
			sub { '(' . $e->('int[]') . ')[1]' },
			sub { $features{subquery} = 1; '(SELECT count(*)::int FROM q_two s WHERE s.one = ' . $e->('int') . ')' })->();
	}
	if ($type eq 'bool')
	{
		return pick(
			sub { my $t = pick('int', 'text', 'date', 'numeric', 'timestamptz', 'bigint', 'interval', 'q_mood', 'uuid', 'bytea', 'jsonb', 'int[]');
				my @c = columns_of($t, @scope);
				'(' . (@c ? pick(@c) : $e->($t)) . pick(' = ', ' < ', ' >= ', ' <> ', ' IS DISTINCT FROM ') . (@c ? constant($t, 1) : $e->($t)) . ')' },
			sub { '(' . $e->('text') . ' LIKE ' . pick("'t%'", "'%1'", "'_'") . ')' },
			sub { '(' . $e->(pick(@types)) . ' IS ' . pick('', 'NOT ') . 'NULL)' },
			sub { '(' . $e->('int') . ' IN (1, 2, ' . $e->('int') . '))' },
			sub { '(' . $e->('int') . ' = ANY (' . $e->('int[]') . '))' },
			sub { '(' . $e->('bool') . pick(' AND ', ' OR ') . $e->('bool') . ')' },
			sub { '(NOT ' . $e->('bool') . ')' },
			sub { '(' . $e->('jsonb') . ' @> ' . $e->('jsonb') . ')' },
			sub { $features{subquery} = 1; '(' . pick('', 'NOT ') . 'EXISTS (SELECT FROM q_two s WHERE s.one = ' . $e->('int') . '))' })->();
	}
	if ($type eq 'text')
	{
		return pick(
			sub { 'upper(' . $e->('text') . ')' },
			sub { '(' . $e->('text') . ' || ' . $e->('text') . ')' },
			sub { 'left(' . $e->('text') . ', 3)' },
			sub { '(' . $e->(pick('int', 'date', 'numeric', 'uuid', 'q_mood')) . ')::text' },
			sub { '(' . $e->('jsonb') . " ->> 't')" },
			sub { 'to_char(' . $e->('date') . ", 'YYYY-MM')" },
			sub { "format('%s-%s', " . $e->('int') . ', ' . $e->('text') . ')' })->();
	}
	return pick(sub { 'round(' . $e->('numeric') . ', 1)' },
		sub { '(' . $e->('numeric') . ' + ' . $e->('int') . ')' })->() if $type eq 'numeric';
	return '(' . $e->('date') . ' + ' . below(5) . ')' if $type eq 'date';
	return '(' . $e->('timestamptz') . ' + ' . $e->('interval') . ')' if $type eq 'timestamptz';
	return '(' . $e->('float8') . ' * 2)' if $type eq 'float8';
	return "jsonb_build_object('a', " . $e->('int') . ", 'b', " . $e->('text') . ')' if $type eq 'jsonb';
	return pick(sub { 'ARRAY[' . $e->('int') . ', ' . $e->('int') . ']' },
		sub { '(' . $e->('int[]') . ' || ' . $e->('int') . ')' })->() if $type eq 'int[]';
	return 'ROW(' . $e->('int') . ', ' . $e->('text') . ')::q_pair' if $type eq 'q_pair';
	return '(' . $e->('interval') . ' * 2)' if $type eq 'interval';
	return '(' . $e->('bytea') . ' || ' . $e->('bytea') . ')' if $type eq 'bytea';
	return '(' . $e->('int') . ')::bigint' if $type eq 'bigint';
	return @columns ? pick(@columns) : constant($type);
}

# A table, or what stands for one: (text, columns as [name, type]...).
sub source
{
	my ($depth, @outer) = @_;
	my $alias = 's' . ++$names;
	my $kind = below(20);

	if ($kind < 13 || $depth <= 0)
	{
		my $name = pick(sort keys %table);
		$name = 'q_one' if chance(0.3);
		my @columns = @{ $table{$name} };
		my @scope;

		$features{$name} = 1;
		push @scope, [ "$alias." . shift @columns, shift @columns ] while @columns;
		return ("$name $alias", @scope);
	}
	if ($kind < 16)
	{
		my ($query, @columns) = select_part($depth - 1, @outer);
		my @as = map { "c$_" } 1 .. @columns;

		$features{subquery} = 1;
		return ("($query) AS $alias(" . join(', ', @as) . ')',
			map { [ "$alias.$as[$_]", $columns[$_] ] } 0 .. $#columns);
	}
	if ($kind == 16)
	{
		$features{function} = 1;
		return ('generate_series(1, ' . (1 + below(40)) . ") AS $alias(n)", [ "$alias.n", 'int' ]);
	}
	if ($kind == 17)
	{
		$features{values} = 1;
		return ("(VALUES (1, 'one'), (2, NULL), (2, 'two')) AS $alias(n, t)", [ "$alias.n", 'int' ], [ "$alias.t", 'text' ]);
	}
	$features{function} = 1;
	return ("unnest(ARRAY[3, 1, NULL, 1], ARRAY['x', 'y']) WITH ORDINALITY AS $alias(n, t, o)",
		[ "$alias.n", 'int' ], [ "$alias.t", 'text' ], [ "$alias.o", 'bigint' ]);
}

# FROM: one source or a join.
sub from
{
	my ($depth, @outer) = @_;
	my ($text, @scope) = source($depth, @outer);

	while (chance(0.35) && @scope < 40)
	{
		if (chance(0.25))
		{
			my ($query, @columns) = select_part(0, @scope);
			my $alias = 'l' . ++$names;

			$features{lateral} = 1;
			$text .= pick(' CROSS JOIN LATERAL ', ', LATERAL ') . "($query LIMIT 3) AS $alias("
			  . join(', ', map { "c$_" } 1 .. @columns) . ')'
			  if columns_ordered(\$query, scalar @columns);
			push @scope, map { [ "$alias.c" . ($_ + 1), $columns[$_] ] } 0 .. $#columns;
			last;
		}
		my ($right, @right) = source($depth, @outer);
		my @left = columns_of('int', @scope);
		my @mine = columns_of('int', @right);

		last if !@left || !@mine;
		$features{join} = 1;
		$text .= ' ' . pick('JOIN', 'JOIN', 'LEFT JOIN', 'RIGHT JOIN', 'FULL JOIN') . " $right ON " . pick(@left) . ' = ' . pick(@mine);
		push @scope, @right;
	}
	return ($text, @scope);
}

# A query that ORDER BY can be written behind.  That of the query that has the
# ROLLUP itself is not enough: PostgreSQL before 18 leaves a key of it out of
# the sort if the key is constant, or equal to another one, in the rows that are
# grouped.  It forgets that ROLLUP makes NULL of it.  Then rows that differ in
# nothing else come in the order in which the plan happens to find them.  For
# a query around it they are rows like any other.
sub orderable
{
	my ($query) = @_;

	return $query =~ / GROUP BY ROLLUP \([\d, ]+\)( HAVING count\(\*\) > \d+)?$/
	  ? "SELECT * FROM ($query) AS r"
	  : $query;
}

# Order a query by all of its columns, so that LIMIT leaves nothing open.
sub columns_ordered
{
	my ($query, $count) = @_;

	$$query = orderable($$query) . ' ORDER BY ' . join(', ', 1 .. $count) if $count > 0;
	return 1;
}

# A SELECT without ORDER BY: (text, types of its columns).
sub select_part
{
	my ($depth, @outer) = @_;
	my ($from, @scope) = from($depth, @outer);
	my @all = (@scope, @outer);
	my $where = chance(0.6) ? ' WHERE ' . expr('bool', 2, @all) : '';
	my (@targets, @columns);
	my $target = sub {
		my ($text, $type) = @_;
		$text .= pick('', '', ' AS n' . @targets, ' AS "Some name"', ' AS same');
		push @targets, $text;
		push @columns, $type;
	};
	my $kind = below(20);

	if ($kind < 4)
	{
		# groups
		my @keys = map { my $t = pick('int', 'text', 'bool', 'date', 'q_mood'); [ expr($t, 1, @scope), $t ] } 1 .. below(3);
		my @by = map { $_ + 1 } 0 .. $#keys;

		$features{group} = 1;
		$target->(@$_) foreach @keys;
		foreach (0 .. below(3))
		{
			$target->(@{ pick(
				[ 'count(*)', 'bigint' ],
				[ 'count(DISTINCT ' . expr('text', 1, @scope) . ')', 'bigint' ],
				[ 'sum(' . expr('int', 1, @scope) . ')', 'bigint' ],
				[ 'max(' . expr('text', 1, @scope) . ')', 'text' ],
				[ 'min(' . expr('date', 1, @scope) . ')', 'date' ],
				[ 'avg(' . expr('numeric', 1, @scope) . ')', 'numeric' ],
				[ 'bool_or(' . expr('bool', 1, @scope) . ') FILTER (WHERE ' . expr('bool', 1, @scope) . ')', 'bool' ]) });
			if (chance(0.2))
			{
				my $e = expr('int', 1, @scope);
				$target->("array_agg($e ORDER BY 1, $e)", 'int[]');
			}
		}
		my $having = chance(0.3) ? ' HAVING count(*) > ' . below(4) : '';
		my $group = !@by ? '' : ' GROUP BY ' . (chance(0.2) ? 'ROLLUP (' . join(', ', @by) . ')' : join(', ', @by));

		return ('SELECT ' . join(', ', @targets) . " FROM $from$where$group$having", @columns);
	}

	foreach (1 .. 1 + below(5))
	{
		my $type = pick(@types, 'int', 'text', 'int', 'text');

		$target->(expr($type, 2, @all), $type);
	}
	if ($kind < 7)
	{
		my $e = expr('int', 1, @scope);

		$features{window} = 1;
		$target->(@{ pick(
			[ "rank() OVER (ORDER BY $e)", 'bigint' ],
			[ "count(*) OVER (PARTITION BY $e)", 'bigint' ],
			[ "sum($e) OVER (PARTITION BY " . expr('bool', 1, @scope) . ')', 'bigint' ],
			[ "max($e) OVER (ORDER BY $e RANGE BETWEEN 2 PRECEDING AND CURRENT ROW)", 'int' ]) });
	}
	elsif ($kind == 7 && $depth > 0)
	{
		$features{srf} = 1;
		$target->('generate_series(1, ' . below(4) . ')', 'int');
	}
	my $distinct = chance(0.15) ? 'DISTINCT ' : '';

	$features{distinct} = 1 if $distinct;
	return ("SELECT $distinct" . join(', ', @targets) . " FROM $from$where", @columns);
}

# One query: its text with $n, its arguments, the same with literals, whether
# it is ordered, its features.
sub new_query
{
	@params = ();
	%features = ();
	$names = 0;

	my ($query, @columns) = select_part(2);
	my $kind = below(20);
	my $ordered = chance(0.6);

	if ($kind < 3)
	{
		my $operator = pick('UNION', 'UNION ALL', 'INTERSECT', 'EXCEPT', 'EXCEPT ALL');
		my ($other) = sub {
			my ($from, @scope) = from(1);
			return 'SELECT ' . join(', ', map { '(' . expr($_, 1, @scope) . ")::$_" } @columns) . " FROM $from";
		}->();

		$features{setop} = 1;
		$query = "SELECT * FROM ($query) AS x(" . join(', ', map { "c$_" } 1 .. @columns) . ") $operator $other";
	}
	elsif ($kind < 5)
	{
		my $materialized = pick('', 'MATERIALIZED ', 'NOT MATERIALIZED ');

		$features{cte} = 1;
		$query = 'WITH w(' . join(', ', map { "c$_" } 1 .. @columns) . ") AS $materialized($query) "
		  . (chance(0.5) ? 'SELECT * FROM w' : 'SELECT w.* FROM w WHERE w.c1 IS NOT NULL');
	}
	elsif ($kind == 5)
	{
		$features{recursive} = 1;
		$query = 'WITH RECURSIVE w(n, t) AS (SELECT ' . below(5) . ", 'a' UNION ALL SELECT n + 1, t || 'b' FROM w WHERE n < "
		  . below(40) . ") SELECT n, t, n * 2 AS twice FROM w";
		@params = ();
		@columns = ('int', 'text', 'int');
	}
	elsif ($kind == 6)
	{
		$features{values} = 1;
		@params = ();
		$query = 'VALUES ' . join ', ', map { '(' . join(', ', constant('int'), constant('text'), constant('date')) . ')' } 1 .. 1 + below(5);
		@columns = ('int', 'text', 'date');
	}

	if ($ordered)
	{
		my $count = @columns;
		my @by = map { $_ . pick('', '', ' DESC', ' NULLS FIRST') } 1 .. $count;

		$features{order} = 1;
		$query = orderable($query) . ' ORDER BY ' . join ', ', @by;
		if (chance(0.4))
		{
			$features{limit} = 1;
			$query .= chance(0.5) ? ' LIMIT ' . below(30) : ' LIMIT ' . constant('bigint_small');
			$query .= ' OFFSET ' . below(20) if chance(0.4);
		}
	}

	# the parameters that were really used, in their order
	my (@args, %number);
	my $plain = $query;
	my $param = sub {
		my ($n, $how) = @_;
		my ($type, $raw) = @{ $params[ $n - 1 ] };

		if (!exists $number{$n})
		{
			push @args, $raw;
			$number{$n} = @args;
		}
		return "\$$number{$n}" . ($how eq 'c' && $type ne 'bigint_small' ? "::$type" : '');
	};
	$plain =~ s/\@(\d+)[nc]\@/literal(@{ $params[ $1 - 1 ] })/ge;
	$query =~ s/\@(\d+)([nc])\@/$param->($1, $2)/ge;
	return ($query, \@args, $plain, $ordered, [ sort keys %features ]);
}

$value{bigint_small} = sub { below(30) };

1;
