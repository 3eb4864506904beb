#-------------------------------------------------------------------------
#
# measure.pl
#	  Measures peekstash against what one would use without it.
#
# Usage: measure.pl FILE [SECTION...]
#		 measure.pl --sections
#
# PGHOST, PGPORT, PGUSER and PGDATABASE name a server that has nothing else to
# do, and in it the tables of tables.sql.  FILE gets the report, in Markdown,
# or the sections named of it.  --sections prints their names.
#
# Machines are noisy, so no two times are compared that were not taken side by
# side: each round measures everything once, one after the other, and a ratio
# is one of two times of the same round.  Reported are the median of the rounds
# and their range.  The first round warms up and does not count.
#
# Beside the time by the clock stands the time that the backend was on a
# processor.  What is measured here hardly waits for anything but a processor,
# so on a quiet machine the two are the same; on a busy one the second is the
# better measure.
#
# Copyright (c) 2026, the peekstash authors
#
#-------------------------------------------------------------------------
use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin;

use File::Temp qw(tempdir);
use IO::Handle;
use POSIX qw(WNOHANG);
use Session;
use Time::HiRes qw(time usleep);

my $ROUNDS = 7;

my $MB = 1024 * 1024;
my $BATCHES = 'peekstash.batch';

my @report;

STDOUT->autoflush;
$SIG{PIPE} = 'IGNORE';


# Numbers

sub median
{
	my @sorted = sort { $a <=> $b } @_;

	return ($sorted[$#sorted / 2] + $sorted[@sorted / 2]) / 2;
}

# "median (least to most)"
sub summary
{
	my ($format, @values) = @_;
	my @sorted = sort { $a <=> $b } @values;

	return sprintf "$format ($format to $format)", median(@values),
		$sorted[0], $sorted[-1];
}

# The ratios of two lists of numbers, round by round.
sub ratios
{
	my ($mine, $other) = @_;

	return map { $mine->[$_] / $other->[$_] } 0 .. $#$mine;
}

# One field of a list of measurements.
sub field
{
	my ($name, $values) = @_;

	return map { $_->{$name} } @$values;
}

# The ratios of a field of two lists of measurements, round by round.
sub field_ratios
{
	my ($name, $mine, $other) = @_;

	return ratios([ field($name, $mine) ], [ field($name, $other) ]);
}

sub verdict
{
	my ($value, $wanted) = @_;

	return $value <= $wanted ? 'yes' : 'no';
}


# The report

sub say_line
{
	push @report, "@_\n";
}

sub say_section
{
	my ($title, @text) = @_;

	say_line("\n## $title\n");
	say_line(@text);
}

# A table whose first row is its head.
sub say_table
{
	my (@rows) = @_;
	my $head = shift @rows;

	say_line('');
	say_line('| ' . join(' | ', @$head) . ' |');
	say_line('| ' . join(' | ', '---', map { '---:' } 2 .. @$head) . ' |');
	say_line('| ' . join(' | ', @$_) . ' |') foreach @rows;
}

# What was run, under the name that tables give it.
sub say_statements
{
	my (@pairs) = @_;

	say_line('');
	while (my ($name, $statement) = splice @pairs, 0, 2)
	{
		say_line("* $name: `$statement`");
	}
}

sub say_plan
{
	my ($session, $query) = @_;

	say_line("\nThe plan of `$query` is");
	say_line("\n```");
	say_line($_) foreach $session->run("EXPLAIN (COSTS off) $query");
	say_line('```');
}


# Rounds

# Calls each function once a round, in an order that changes, and returns the
# values of each as a list.
sub rounds
{
	my ($rounds, %what) = @_;
	my @names = sort keys %what;
	my %values;

	foreach my $round (0 .. $rounds)
	{
		push @names, shift @names;
		foreach my $name (@names)
		{
			my $value = $what{$name}->();

			push @{ $values{$name} }, $value if $round > 0;
		}
	}
	return %values;
}


# The machine

sub describe_machine
{
	my ($session) = @_;
	my $cores = grep { /^processor\s*:/ } read_lines('/proc/cpuinfo');
	my ($kb) = map { /^MemTotal:\s+(\d+)/ } read_lines('/proc/meminfo');
	my ($version) = $session->run('SHOW server_version');
	my ($load) = read_lines('/proc/loadavg');

	$version =~ s/ .*//;
	$load =~ s/ .*//s;
	say_line('# What peekstash costs');
	say_line("\nPrinted by `make bench`; `sh test/bench/run --write` puts it here.",
		"Each figure\nis the median of $ROUNDS rounds, unless the section says",
		"otherwise, and, in parentheses, their\nrange; each ratio is one of two",
		"times of the same round.  \"CPU\" is the time that the backend was\non a",
		"processor: on a busy machine it is the better measure.");
	say_line("\nThe machine: $cores cores, " . int($kb / 1024 / 1024 + 0.5) .
		" GB of memory, Linux, one-minute load at the start $load.",
		"PostgreSQL $version with");
	say_line("\n```");
	say_line($_)
		foreach $session->run(q{
			SELECT name || ' = ' || current_setting(name)
			FROM unnest(ARRAY['shared_buffers', 'work_mem', 'fsync',
				'synchronous_commit', 'max_wal_size', 'autovacuum', 'jit',
				'max_parallel_workers_per_gather', 'peekstash.stash_threshold',
				'peekstash.stash_batch_size', 'peekstash.stash_compression',
				'peekstash.read_batch_size']) AS name
		});
	say_line('```');

	my ($rows, $bytes) = split /\|/, ($session->run(
		q{SELECT count(*), round(avg(pg_column_size(rows))) FROM rows}))[0];
	say_line("\nTable `rows`: $rows rows of $bytes bytes on average, the",
		"demo's packages under new numbers\n(test/bench/tables.sql), stored in",
		"the order of their primary key.  It is in shared buffers\nthroughout.");
}

sub read_lines
{
	my ($file) = @_;

	open my $in, '<', $file or die "$file: $!\n";
	return <$in>;
}


# 1. The walk and the stash

sub stat_now
{
	my ($session) = @_;
	my @columns =
		qw(walk_seconds write_seconds answer_bytes stored_bytes answers_stashed);
	my %stat;

	@stat{@columns} = split /\|/, ($session->run(
		'SELECT ' . join(', ', @columns) . ' FROM peekstash.stat'))[0];
	return \%stat;
}

# An answer that is stashed, from the call to the last push; LIMIT 1 leaves out
# the reading.  The processor time is that of the whole statement.
sub stash
{
	my ($session, $statement, $clean) = @_;

	$session->run($clean);
	$session->run('CHECKPOINT');

	my $before = stat_now($session);
	$session->run('BEGIN');
	my $stat = $session->seconds($statement);
	$session->run('COMMIT');
	my $after = stat_now($session);

	$stat->{$_} = $after->{$_} - $before->{$_} foreach keys %$after;
	die "not stashed: $statement\n" if $stat->{answers_stashed} != 1;
	$stat->{seconds} = $stat->{walk_seconds} + $stat->{write_seconds};
	($stat->{disk_bytes}) =
		$session->run("SELECT pg_total_relation_size('$BATCHES')");
	return $stat;
}

sub cursor
{
	my ($session, $query) = @_;

	$session->run('CHECKPOINT', 'BEGIN');
	my $seconds = $session->seconds(
		"DECLARE c CURSOR WITH HOLD FOR $query", 'COMMIT');
	$session->run('CLOSE c');
	return $seconds;
}

my $heap_bytes;

sub table
{
	my ($session, $query) = @_;

	$session->run('CHECKPOINT');
	my $seconds = $session->seconds("CREATE UNLOGGED TABLE x AS $query");
	($heap_bytes) = $session->run("SELECT pg_relation_size('x')");
	$session->run('DROP TABLE x');
	return $seconds;
}

sub peek_limit_1
{
	my ($index, $codec) = @_;

	return "SELECT peek(NULL::rows, '$index', "
		. qq{options => '{"stash_compression": "$codec"}') LIMIT 1};
}

sub walk_table
{
	my ($values, @names) = @_;
	my $cursor = $values->{cursor};
	my @rows = ([ '', 'seconds', 'of them walking, writing',
		'to the cursor', 'to the table', 'CPU seconds', 'to the cursor',
		'to the table', '0.75 of the cursor' ]);

	foreach (@names, [ 'cursor', 'cursor' ], [ 'table', 'table' ])
	{
		my ($key, $name) = @$_;
		my $mine = $values->{$key};
		my @walk = field('walk_seconds', $mine);
		my @write = field('write_seconds', $mine);
		my @row = ($name);

		foreach my $field (qw(seconds cpu))
		{
			push @row, summary('%.3f', field($field, $mine));
			push @row, defined $walk[0] ?
				sprintf('%.3f, %.3f', median(@walk), median(@write)) : ''
				if $field eq 'seconds';
			foreach my $other (qw(cursor table))
			{
				push @row, $other eq $key ? '1' : summary('%.2f',
					field_ratios($field, $mine, $values->{$other}));
			}
		}

		# met only if both clocks say so
		push @row, defined $walk[0] ?
			verdict((sort { $b <=> $a }
				map { median(field_ratios($_, $mine, $cursor)) }
					qw(seconds cpu))[0], 0.75) : '';
		push @rows, \@row;
	}
	say_table(@rows);
}

sub measure_walk
{
	my ($session) = @_;
	my $query = 'SELECT * FROM rows ORDER BY id';
	my %first;
	my %values = rounds($ROUNDS,
		# one after the other: what the first leaves, the second uses again
		(map {
			my $codec = $_;
			my $statement = peek_limit_1('rows_pkey', $codec);

			$codec => sub {
				$first{$codec} = stash($session, $statement,
					"TRUNCATE $BATCHES");
				return {
					first => $first{$codec},
					again => stash($session, $statement, "VACUUM $BATCHES")
				};
			}
		} qw(none lz4)),
		cursor => sub { cursor($session, $query) },
		table => sub { table($session, $query) });

	foreach my $codec (qw(none lz4))
	{
		$values{"$codec first"} = [ map { $_->{first} } @{ $values{$codec} } ];
		$values{"$codec again"} = [ map { $_->{again} } @{ $values{$codec} } ];
	}

	say_section('Walk and stash of a million rows',
		"Seconds from the call to the last batch written, as `peekstash.stat`",
		"has them\n(`walk_seconds + write_seconds`); LIMIT 1 leaves out the",
		"reading.  \"Empty\" is a stash without\nfiles yet, which have to grow;",
		"\"used\" is one that finds the space of an earlier answer\nagain, after",
		"a vacuum.");
	say_statements(
		'lz4, none' => peek_limit_1('rows_pkey', 'lz4'),
		'cursor' => "DECLARE c CURSOR WITH HOLD FOR $query; COMMIT",
		'table' => "CREATE UNLOGGED TABLE x AS $query");
	walk_table(\%values, [ 'lz4 first', 'lz4, empty' ],
		[ 'lz4 again', 'lz4, used' ], [ 'none first', 'none, empty' ],
		[ 'none again', 'none, used' ]);
	say_plan($session, $query);

	say_section('Space of a million rows',
		"Stored bytes (`stored_bytes` of `peekstash.stat`) of the answers above,",
		"and the disk that the\nstash takes for them with TOAST and indexes,",
		"against the heap of table `x` (`pg_relation_size`),\n$heap_bytes bytes.");
	say_table([ '', 'stored bytes', 'ratio to the heap', 'disk bytes',
			'ratio to the heap', 'at most 0.4' ],
		map {
			my $stat = $first{$_};

			[ $_, $stat->{stored_bytes},
				sprintf('%.3f', $stat->{stored_bytes} / $heap_bytes),
				$stat->{disk_bytes},
				sprintf('%.3f', $stat->{disk_bytes} / $heap_bytes),
				$_ eq 'lz4' ?
					verdict($stat->{stored_bytes} / $heap_bytes, 0.4) : '' ]
		} qw(lz4 none));

	$query = 'SELECT * FROM rows ORDER BY hashint8(id)';
	%values = rounds($ROUNDS,
		lz4 => sub { stash($session, peek_limit_1('rows_scattered', 'lz4'),
			"VACUUM $BATCHES") },
		cursor => sub { cursor($session, $query) },
		table => sub { table($session, $query) });

	say_section('The same through an index whose order is not the table\'s',
		"Each position leads to another page.");
	say_statements(
		'lz4' => peek_limit_1('rows_scattered', 'lz4'),
		'cursor' => "DECLARE c CURSOR WITH HOLD FOR $query; COMMIT",
		'table' => "CREATE UNLOGGED TABLE x AS $query");
	walk_table(\%values, [ 'lz4', 'lz4, used' ]);
	say_plan($session, $query);
}


# 2. Whole answers

sub measure_drain
{
	my ($session) = @_;
	my %statements = (
		from => "COPY (SELECT * FROM peek(NULL::rows, 'rows_pkey')) TO STDOUT",
		columns => 'COPY (SELECT * FROM rows ORDER BY id) TO STDOUT',
		list => "COPY (SELECT peek(NULL::rows, 'rows_pkey')) TO STDOUT",
		values => 'COPY (SELECT rows FROM rows ORDER BY id) TO STDOUT');
	my %values = rounds($ROUNDS, map {
		my $statement = $statements{$_};

		$_ => sub {
			$session->run("VACUUM $BATCHES", 'CHECKPOINT');
			return $session->seconds($statement);
		}
	} keys %statements);

	say_section('A stashed answer, fetched whole',
		"Seconds until a client has the last of a million rows, stashed on the",
		"way and deleted\nafterwards.  psql throws them away",
		"(`\\g /dev/null`).  In FROM, PostgreSQL puts the rows into a\ntuplestore",
		"of its own, too; a select list streams.");
	say_table([ '', 'seconds', 'to the plain one', 'CPU seconds',
			'to the plain one' ],
		map {
			my ($mine, $other) = @$_;

			([ "`$statements{$mine}`",
				map {
					(summary('%.2f', field($_, $values{$mine})),
						summary('%.2f', field_ratios($_, $values{$mine},
							$values{$other})))
				} qw(seconds cpu) ],
				[ "`$statements{$other}`",
				map { (summary('%.2f', field($_, $values{$other})), '1') }
					qw(seconds cpu) ])
		} [ 'from', 'columns' ], [ 'list', 'values' ]);
}


# 3. Small answers

# Writes a script of pgbench.
sub write_script
{
	my ($file, @lines) = @_;

	open my $out, '>', $file or die "$file: $!\n";
	print $out map { "$_\n" } @lines;
	close $out;
}

# The milliseconds of one run of a statement, by pgbench.
sub pgbench
{
	my ($file, $mode, $runs) = @_;
	my $output = `pgbench -n -M $mode -f '$file' -t $runs 2>&1`;

	return $1 if $? == 0 && $output =~ /^latency average = ([\d.]+) ms$/m;
	die "pgbench has failed:\n$output";
}

sub measure_small
{
	my $dir = tempdir(CLEANUP => 1);
	# title, further rows, runs, options
	my @sizes = (
		[ '1 row', 0, 3000, '' ],
		[ '100 rows', 99, 1000, '' ],
		[ '10,000 rows, in memory', 9999, 20,
			q{, options => '{"stash_threshold": "4MB"}'} ],
		[ '10,000 rows, stashed', 9999, 20, '' ]);
	my @table = ([ '', 'ms', 'ms, plain', 'ratio' ]);
	my @statements;

	foreach my $size (@sizes)
	{
		my ($title, $more, $runs, $options) = @$size;
		my $condition = $more == 0 ? 'id = :id' :
			"id BETWEEN :id AND :id + $more ORDER BY id";
		my $request = $more == 0 ? 'key => :id::bigint' :
			"lower => :id::bigint, upper => :id::bigint + $more";
		my $call = "peek(NULL::rows, 'rows_pkey', $request$options)";
		my %statements = (
			from => "SELECT * FROM $call",
			columns => "SELECT * FROM rows WHERE $condition",
			list => "SELECT $call",
			values => "SELECT rows FROM rows WHERE $condition");
		my %what;

		foreach my $key (keys %statements)
		{
			my $file = "$dir/$key";

			write_script($file, '\set id random(1, 990000)',
				"$statements{$key};");
			foreach my $mode (qw(simple prepared))
			{
				$what{"$key $mode"} = sub { pgbench($file, $mode, $runs) };
			}
		}

		my %values = rounds($ROUNDS, %what);

		foreach my $pair ([ 'from', 'columns', 'FROM' ],
			[ 'list', 'values', 'select list' ])
		{
			my ($mine, $other, $form) = @$pair;

			push @statements, "$title, $form" => $statements{$mine},
				'plain' => $statements{$other};
			foreach my $mode (qw(simple prepared))
			{
				my @mine = @{ $values{"$mine $mode"} };
				my @other = @{ $values{"$other $mode"} };

				push @table, [ "$title, $form, $mode",
					summary('%.3f', @mine), summary('%.3f', @other),
					summary('%.2f', ratios(\@mine, \@other)) ];
			}
		}
	}

	say_section('Small answers',
		"Milliseconds of a statement, as pgbench with one client sees them;",
		"\"simple\" and \"prepared\"\nare its query modes.  `:id` is",
		"`random(1, 990000)`.  10,000 rows are over `stash_threshold`,\nif an",
		"option does not say otherwise.  Beside a select list the plain",
		"statement returns the\nrow as one value, too.");
	say_statements(@statements);
	say_table(@table);
}


# 4. A very large answer

sub measure_memory
{
	my $options = q{options => '{"max_result_size": -1}'};
	my @rows = ([ '', 'answer', 'peak memory', 'temporary files', 'stored',
		'seconds', 'at most 16 MB' ]);

	my $handle = '';
	my $submit = "SELECT peek_submit('wide_pkey', $options)";

	foreach my $statement (
		"COPY (SELECT peek_fetch(NULL::wide, 'handle')) TO STDOUT",
		"COPY (SELECT peek(NULL::wide, 'wide_pkey', $options)) TO STDOUT",
		"COPY (SELECT * FROM peek(NULL::wide, 'wide_pkey', $options)) TO STDOUT",
		q{SELECT peek_query('SELECT * FROM wide ORDER BY id', NULL, '{"max_result_size": -1}')},
		'COPY (SELECT * FROM wide ORDER BY id) TO STDOUT')
	{
		my $session = Session->new;
		my $watcher = Session->new;
		my $temp_bytes = sub {
			$session->run('SELECT pg_stat_force_next_flush()');
			return ($watcher->run(q{SELECT temp_bytes FROM pg_stat_database
				WHERE datname = current_database()}))[0];
		};
		my $before = $temp_bytes->();

		# other sessions clean up and count: the measured one starts with nothing
		my $old = stat_now($watcher);
		($handle) = $watcher->run($submit) if $statement =~ /peek_fetch/;
		$watcher->run("VACUUM $BATCHES", 'CHECKPOINT');
		my ($memory, $seconds) =
			$session->peak_memory($statement =~ s/'handle'/'$handle'/r);
		my $new = stat_now($watcher);
		my $temp = $temp_bytes->() - $before;
		my $answer = $new->{answer_bytes} - $old->{answer_bytes};
		my $stored = $new->{stored_bytes} - $old->{stored_bytes};
		my $mine = $answer > 0;

		push @rows, [ "`$statement`",
			$mine ? sprintf('%.0f MB', $answer / $MB) : '',
			sprintf('%.1f MB', $memory / 1024),
			sprintf('%.0f MB', $temp / $MB),
			$mine ? sprintf('%.0f MB', $stored / $MB) : '',
			sprintf('%.1f', $seconds),
			$mine ? verdict($memory / 1024, 16) : '' ];
		release_all($watcher) if $statement =~ /peek_fetch|peek_query/;
		$session->end;
		$watcher->end;
	}

	say_section('Memory of an answer of a gigabyte',
		"The most memory that the backend had of its own (RssAnon, looked at",
		"every 20 ms) above\nwhat it had before; the bytes of temporary files",
		"(`temp_bytes` of `pg_stat_database`).  One\nrun of each, by a",
		"superuser, who may raise `max_result_size`.  What\npeek_fetch reads was kept",
		"by another session.");
	say_statements('the kept answer' => $submit);
	say_table(@rows);
}


# 5. Pages by handle

# The processor time of one run of a statement in milliseconds: of a prepared
# one whose rows go to the client, and of one in a loop of PL/pgSQL.
sub page_cpu
{
	my ($session, $name, $statement, $runs) = @_;
	my $looped = $statement =~ s/^SELECT/PERFORM/r;
	my $loop = "DO \$\$ BEGIN FOR i IN 1..$runs LOOP $looped; END LOOP; END \$\$";

	return (
		cpu => $session->seconds(("EXECUTE $name") x $runs)->{cpu} * 1000 / $runs,
		inside => $session->seconds($loop)->{cpu} * 1000 / $runs);
}

# Buffers that a statement looks at, planning left out.
sub buffers
{
	my ($session, $statement) = @_;

	# the first run fills caches
	foreach (1, 2)
	{
		my @plan = $session->run(
			"EXPLAIN (ANALYZE, BUFFERS, COSTS off) $statement");
		my ($line) = grep { /^ *(Buffers: |Planning:)/ } @plan;

		next if $_ == 1;
		return 0 if $line !~ /Buffers: shared(.*)/;
		my $sum = 0;
		my $shared = $1 =~ s/,.*//r;
		$sum += $1 while $shared =~ /(?:hit|read)=(\d+)/g;
		return $sum;
	}
}

sub submit_rows
{
	my ($codec) = @_;

	return "SELECT peek_submit('rows_pkey', "
		. qq{options => '{"stash_compression": "$codec"}')};
}

sub measure_pages
{
	my ($session) = @_;
	my $dir = tempdir(CLEANUP => 1);
	my $runs = 150;
	my $places = [ [ '0', 0 ], [ '10 %', 100_000 ], [ '50 %', 500_000 ],
		[ '99.99 %', 999_900 ] ];
	my %handle = map { $_ => $session->run(submit_rows($_)) } qw(lz4 none);
	my %statement = (
		'keyset, columns' => 'SELECT * FROM rows WHERE id > %d ORDER BY id LIMIT 100',
		'keyset, row' => 'SELECT rows FROM rows WHERE id > %d ORDER BY id LIMIT 100',
		(map {
			("$_, FROM" =>
				"SELECT * FROM peek_fetch(NULL::rows, '$handle{$_}', %d, 100)",
			"$_, select list" =>
				"SELECT peek_fetch(NULL::rows, '$handle{$_}', %d, 100)")
		} qw(lz4 none)));
	my $offset = 'SELECT * FROM rows ORDER BY id OFFSET 900000 LIMIT 100';
	my $number = 0;
	my (%what, %buffers);

	# one that does nothing but fetch pages
	my $reader = Session->new;

	foreach my $key (keys %statement)
	{
		foreach (@$places)
		{
			my ($place, $row) = @$_;
			my $sql = sprintf $statement{$key}, $row;
			my $name = 'page' . $number++;

			write_script("$dir/$name", "$sql;");
			$buffers{"$key, $place"} = buffers($reader, $sql);
			$reader->run("PREPARE $name AS $sql");
			$what{"$key, $place"} = sub {
				return { client => pgbench("$dir/$name", 'prepared', $runs),
					page_cpu($reader, $name, $sql, $runs) };
			};
		}
	}
	foreach (qw(lz4 none))
	{
		my $file = "$dir/$_";

		write_script($file, sprintf("$statement{\"$_, FROM\"};", 900_000));
		$what{"$_ at 90 %"} = sub { pgbench($file, 'prepared', $runs) };
	}
	write_script("$dir/offset", "$offset;");
	$what{offset} = sub { pgbench("$dir/offset", 'prepared', 3) };

	my %values = rounds($ROUNDS, %what);
	my @table = ([ '', 'ms', 'to keyset', 'CPU ms', 'to keyset', 'at most 2',
		'CPU ms inside', 'to keyset', 'buffers' ]);
	my @spread = ([ '', 'ms', 'CPU ms', 'CPU ms inside', 'at most 1.3' ]);
	my @fields = qw(client cpu inside);

	foreach my $key ('lz4, FROM', 'none, FROM', 'keyset, columns',
		'lz4, select list', 'none, select list', 'keyset, row')
	{
		my $other = $key =~ /FROM|columns/ ? 'keyset, columns' : 'keyset, row';
		my (%medians, %spread);

		foreach (@$places)
		{
			my ($place) = @$_;
			my $mine = $values{"$key, $place"};
			my $plain = $values{"$other, $place"};
			my @line = ("$key, $place");
			my $worst = 0;

			foreach my $field (@fields)
			{
				my @ratios = field_ratios($field, $mine, $plain);

				push @{ $medians{$field} }, median(field($field, $mine));
				push @line, summary('%.3f', field($field, $mine)),
					$key eq $other ? '1' : summary('%.2f', @ratios);
				$worst = median(@ratios)
					if $field ne 'inside' && median(@ratios) > $worst;

				# met only if both clocks say so
				push @line, $key eq $other ? '' : verdict($worst, 2)
					if $field eq 'cpu';
			}
			push @table, [ @line, $buffers{"$key, $place"} ];
		}
		foreach my $field (@fields)
		{
			my @sorted = sort { $a <=> $b } @{ $medians{$field} };

			$spread{$field} = $sorted[-1] / $sorted[0];
		}
		push @spread, [ $key, map({ sprintf '%.2f', $spread{$_} } @fields),
			$key =~ /keyset/ ? '' : verdict($spread{cpu}, 1.3) ];
	}

	say_section('A page of a kept answer',
		"100 rows by handle of the answer to all of `rows`, from row 0, 100000,",
		"500000 and 999900\n(0, 10, 50, 99.99 %).  \"ms\" is what pgbench with",
		"one client sees in its query mode\n\"prepared\"; \"CPU ms\" is the",
		"processor time of the backend for an `EXECUTE` of the same\nstatement.",
		"Both send the rows to the client.  \"CPU ms inside\" is that of the same",
		"in a loop of\nPL/pgSQL (`PERFORM`), which sends nothing.  The backends do",
		"nothing but fetch pages.  Buffers\nare those of `EXPLAIN (ANALYZE,",
		"BUFFERS)`, hit and read, planning left out.  Each ratio is one\nto the",
		"keyset page of the same place that returns the same.");
	say_statements(
		(map { ("the answer, $_" => submit_rows($_)) } qw(lz4 none)),
		'FROM' => 'SELECT * FROM peek_fetch(NULL::rows, handle, from_row, 100)',
		'keyset, columns' => 'SELECT * FROM rows WHERE id > from_row ORDER BY id LIMIT 100',
		'select list' => 'SELECT peek_fetch(NULL::rows, handle, from_row, 100)',
		'keyset, row' => 'SELECT rows FROM rows WHERE id > from_row ORDER BY id LIMIT 100');
	say_table(@table);
	say_line("\nThe slowest of the four places to the fastest, by the medians; the",
		"verdict goes by \"CPU ms\":");
	say_table(@spread);

	say_line("\nThe same page at 90 % (from row 900000, FROM), and by OFFSET, in",
		"the query mode \"prepared\":");
	say_statements('OFFSET' => $offset);
	say_table([ '', 'ms', 'OFFSET, ms', 'times slower', 'at least 100' ],
		map {
			my @mine = @{ $values{"$_ at 90 %"} };
			my @ratios = ratios($values{offset}, \@mine);

			[ $_, summary('%.3f', @mine),
				summary('%.1f', @{ $values{offset} }), summary('%.0f', @ratios),
				median(@ratios) >= 100 ? 'yes' : 'no' ]
		} qw(lz4 none));

	$reader->end;
	release_all($session);
}

# Nothing is kept any more.
sub release_all
{
	my ($session) = @_;

	$session->run('SELECT peek_release(handle) FROM peekstash.peeks',
		'VACUUM peekstash.handle, peekstash.outcome, ' . $BATCHES);
}


# 6. Submitting

sub submit
{
	my ($session, $statement, $empty) = @_;

	$session->run("TRUNCATE $BATCHES") if $empty;
	$session->run('CHECKPOINT');
	my $seconds = $session->seconds($statement);
	release_all($session);
	return $seconds;
}

# Keeping an answer, by the statement that a function makes for a codec,
# against the cursor and the table of the same query.
sub measure_kept
{
	my ($session, $title, $make) = @_;
	my $query = 'SELECT * FROM rows ORDER BY id';
	my @answers = map { ([ $_, 'empty' ], [ $_, 'used' ]) } qw(lz4 none);
	my %values = rounds($ROUNDS,
		# one after the other: what the first leaves, the second uses again
		(map {
			my $statement = $make->($_);

			$_ => sub {
				my $empty = submit($session, $statement, 1);

				return { empty => $empty,
					used => submit($session, $statement, 0) };
			}
		} qw(lz4 none)),
		cursor => sub { cursor($session, $query) },
		table => sub { table($session, $query) });
	my @rows = ([ '', 'seconds', 'to the cursor', 'to the table',
		'CPU seconds', 'to the cursor', 'to the table', 'at most 0.75',
		'at most 0.6' ]);

	foreach my $codec (qw(lz4 none))
	{
		foreach my $state (qw(empty used))
		{
			$values{"$codec, $state"} =
				[ map { $_->{$state} } @{ $values{$codec} } ];
		}
	}
	foreach my $key ('lz4, empty', 'lz4, used', 'none, empty', 'none, used',
		'cursor', 'table')
	{
		my $mine = $values{$key};
		my @row = ($key);
		my $worst = 0;

		foreach my $field (qw(seconds cpu))
		{
			push @row, summary('%.3f', field($field, $mine));
			foreach my $other (qw(cursor table))
			{
				my @ratios = field_ratios($field, $mine, $values{$other});

				push @row, $other eq $key ? '1' : summary('%.2f', @ratios);
				$worst = median(@ratios)
					if $other eq 'cursor' && median(@ratios) > $worst;
			}
		}
		# met only if both clocks say so
		push @row, $key =~ /,/ ?
			(verdict($worst, 0.75), verdict($worst, 0.6)) : ('', '');
		push @rows, \@row;
	}

	say_section($title,
		"Seconds of the statement, its commit included, until the client has",
		"the handle.  \"Empty\" and\n\"used\" as above.");
	say_statements(
		'lz4' => $make->('lz4'),
		'none' => $make->('none'),
		'cursor' => "DECLARE c CURSOR WITH HOLD FOR $query; COMMIT",
		'table' => "CREATE UNLOGGED TABLE x AS $query");
	say_table(@rows);
}


sub measure_submit
{
	my ($session) = @_;

	measure_kept($session, 'A million rows, kept', \&submit_rows);
}


# 7. Queries

sub query_rows
{
	my ($codec) = @_;

	return q{SELECT peek_query('SELECT * FROM rows ORDER BY id', NULL, }
		. qq{'{"stash_compression": "$codec"}')};
}

sub measure_query
{
	my ($session) = @_;

	measure_kept($session, 'A million rows of a query, kept', \&query_rows);
}


# 8. The download client

# A gigabyte each time.
my $DOWNLOAD_ROUNDS = 3;

# Runs a program to its end, with its output in a file; returns the seconds and
# the most memory it had, in kB.
sub program
{
	my ($file, @command) = @_;
	my $start = time;
	my $peak = 0;
	my $pid = fork // die "fork: $!\n";

	if ($pid == 0)
	{
		open STDOUT, '>', $file or die "$file: $!\n";
		exec @command or die "$command[0]: $!\n";
	}
	while (waitpid($pid, WNOHANG) == 0)
	{
		# the program may just have ended
		if (open my $status, '<', "/proc/$pid/status")
		{
			while (<$status>)
			{
				$peak = $1 if /^VmHWM:\s+(\d+) kB/ && $1 > $peak;
			}
		}
		usleep(5_000);
	}
	die "$command[0] has failed\n" if $? != 0;
	return { seconds => time - $start, memory => $peak };
}

sub measure_download
{
	my ($session) = @_;
	my $query = 'SELECT * FROM wide ORDER BY id';
	my $submit = q{SELECT peek_submit('wide_pkey', }
		. q{options => '{"max_result_size": -1}')};
	my $dir = tempdir(CLEANUP => 1);
	my $file = "$dir/file";
	my $handle;
	my @psql = ('psql', '-X', '-q', '-c', "COPY ($query) TO STDOUT");
	my @get = ('peekget', '--quiet');

	my %submits = rounds($DOWNLOAD_ROUNDS, submit => sub {
		release_all($session);
		$session->run('CHECKPOINT');
		my $start = time;

		($handle) = $session->run($submit);
		return { seconds => time - $start };
	});
	my ($bytes) = $session->run(
		"SELECT answer_bytes FROM peek_status('$handle')");
	push @get, '--handle', $handle;

	my %what = (psql => \@psql, map { ("-j $_" => [ @get, '-j', $_ ]) } 1, 2, 4);
	my %values = rounds($DOWNLOAD_ROUNDS, map {
		my $name = $_;
		("$name, nowhere" => sub { program('/dev/null', @{ $what{$name} }) },
		"$name, file" => sub {
			unlink $file;
			return program($name eq 'psql' ? ($file, @psql) :
				('/dev/null', @{ $what{$name} }, '-o', $file));
		})
	} keys %what);
	my @table = ([ '', 'seconds', 'to psql', 'memory', 'under 32 MB',
		'at most 1.5' ]);

	foreach my $place ('nowhere', 'file')
	{
		foreach my $name ('psql', '-j 1', '-j 2', '-j 4')
		{
			my $mine = $values{"$name, $place"};
			my @ratios = field_ratios('seconds', $mine,
				$values{"psql, $place"});
			my ($peak) = sort { $b <=> $a } field('memory', $mine);

			push @table, [ "$name, $place", summary('%.2f', field('seconds', $mine)),
				$name eq 'psql' ? '1' : summary('%.2f', @ratios),
				sprintf('%.1f MB', $peak / 1024),
				$name eq 'psql' ? '' : verdict($peak / 1024, 32),
				$name eq '-j 1' ? verdict(median(@ratios), 1.5) : '' ];
		}
	}

	say_section('Downloading a gigabyte',
		sprintf('An answer of %.0f MB by the ruler, a million rows,', $bytes / $MB),
		"fetched by peekget over one, two\nand four connections, and the plain",
		"query by psql, as text; to /dev/null (\"nowhere\") and to a\nfile.",
		"peekget makes its file durable before it ends; psql does not.  Keeping",
		"the answer took\n" . summary('%.2f', field('seconds', $submits{submit}))
		. " seconds before.  Memory is the most that the program had in all",
		"(VmHWM),\nlibraries included.  Each figure is of $DOWNLOAD_ROUNDS rounds.");
	say_statements('the answer' => $submit, 'psql' => "COPY ($query) TO STDOUT",
		'peekget' => 'peekget --quiet --handle HANDLE -j N [-o FILE]');
	say_table(@table);
	release_all($session);
}


# 9. Walks in the background

my $CORES = grep { /^processor\s*:/ } read_lines('/proc/cpuinfo');

# Long walks, and the figures of others beside them, are taken less often.
my $LONG_ROUNDS = 3;
my $SHORT_ROUNDS = 5;

# Looked up so often a round, so often a second.
my $LOOKUPS = 200;
my $LOOKUPS_PER_SECOND = 100;

my $OFFLOAD = q{options => '{"enable_offload": true}'};
my $INLINE = q{options => '{"enable_offload": false}'};

# Submits, and waits for the end: what it took until peek_submit was back, and
# until the answer was complete.  The processor time of the latter is that of the
# workers as well.  Dies if the walk was not where it should have been.
sub submit_and_wait
{
	my ($session, $statement, $workers) = @_;
	my $handle;

	$session->run('CHECKPOINT');
	my $before = $session->workers_cpu;
	my $returned = $session->seconds_of(
		sub { ($handle) = $session->run($statement) });
	my $waited = $session->seconds_of(
		sub { $session->run("SELECT peek_wait('$handle', NULL)") });
	my $after = $session->workers_cpu;

	my ($how) = $session->run("SELECT state, driver, workers, inline_reason
		FROM peekstash.peeks WHERE handle = '$handle'");
	die "$statement: $how\n"
		if $how !~ ($workers == 0 ? qr/^done\|inline\|/ :
			qr/^done\|offloaded\|$workers\|/);
	release_all($session);
	return {
		returned => $returned->{seconds},
		returned_cpu => $returned->{cpu},
		seconds => $returned->{seconds} + $waited->{seconds},
		cpu => $returned->{cpu} + $waited->{cpu} + $after - $before
	};
}

# A row of a table: each field, and its ratios to the other measurements named.
sub compare_row
{
	my ($values, $key, $title, $fields, @others) = @_;
	my @row = ($title);

	foreach my $field (@$fields)
	{
		push @row, summary('%.3f', field($field, $values->{$key}));
		foreach (@others)
		{
			my @ratios = field_ratios($field, $values->{$key}, $values->{$_});

			push @row, $_ eq $key ? '1' :
				summary(median(@ratios) < 0.1 ? '%.4f' : '%.2f', @ratios);
		}
	}
	return \@row;
}

sub measure_offload
{
	my ($session) = @_;
	my $sql = "$FindBin::Bin/many.sql";

	system('psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', $sql) == 0
		or die "$sql has failed\n";

	my ($rows, $bytes) = split /\|/, ($session->run(
		q{SELECT count(*), round(avg(pg_column_size(many))) FROM many}))[0];

	say_section('Walks in the background',
		"Table `many`: $rows rows of $bytes bytes on average, names and versions",
		"of `rows` under new\nnumbers (test/bench/many.sql).  It is in shared",
		"buffers throughout.  Medians are those of\n$LONG_ROUNDS rounds where",
		"`many` is walked, else of $SHORT_ROUNDS.  There are as many permits as",
		"cores, $CORES.\n\"CPU\" of a whole walk is that of the backend and of",
		"its workers, from their start to their\nend.");
	measure_hand_over($session);
	measure_descriptor($session);
	measure_sharing($session);
	measure_lookups($session);
	$session->run('DROP TABLE many');
}

# Until the submitter is free, and until the answer is there.
sub measure_hand_over
{
	my ($session) = @_;
	my @return = ([ '', 'seconds until it returns', 'to inline',
		'to the cursor', 'CPU seconds', 'to inline', 'to the cursor' ]);
	my @total = ([ '', 'seconds until done', 'to inline', 'to the table',
		'CPU seconds', 'to inline', 'to the table' ]);

	foreach (
		[ 'rows', '1,000,000 rows', $SHORT_ROUNDS ],
		[ 'many', '5,000,000 rows', $LONG_ROUNDS ])
	{
		my ($table, $title, $rounds) = @$_;
		my $query = "SELECT * FROM $table ORDER BY id";

		# what returns when it is done
		my $plain = sub {
			my ($seconds) = @_;

			return { %$seconds, returned => $seconds->{seconds},
				returned_cpu => $seconds->{cpu} };
		};
		my %values = rounds($rounds,
			offload => sub { submit_and_wait($session,
				"SELECT peek_submit('${table}_pkey', $OFFLOAD)", 1) },
			inline => sub { submit_and_wait($session,
				"SELECT peek_submit('${table}_pkey', $INLINE)", 0) },
			cursor => sub { $plain->(cursor($session, $query)) },
			table => sub { $plain->(table($session, $query)) });

		push @return, map {
			compare_row(\%values, $_, "$title, $_",
				[qw(returned returned_cpu)], qw(inline cursor))
		} qw(offload inline cursor);
		push @total, map {
			compare_row(\%values, $_, "$title, $_",
				[qw(seconds cpu)], qw(inline table))
		} qw(offload inline table);
	}

	say_line("\nHow long the submitter has to wait.  The CPU seconds are those",
		"of its backend alone.");
	say_statements(
		'offload' => "SELECT peek_submit('many_pkey', $OFFLOAD)",
		'inline' => "SELECT peek_submit('many_pkey', $INLINE)",
		'cursor' => 'DECLARE c CURSOR WITH HOLD FOR '
			. 'SELECT * FROM many ORDER BY id; COMMIT',
		'table' => 'CREATE UNLOGGED TABLE x AS '
			. 'SELECT * FROM many ORDER BY id');
	say_table(@return);
	say_line("\nThe same until the answer is complete: offloaded, until",
		"`peek_wait` returns.  A worker begins with\nempty caches, and each page",
		"of shared buffers that it touches is a page fault for a new process.");
	say_table(@total);
}

# What walks that are not handed over pay for being able to be.
sub measure_descriptor
{
	my ($session) = @_;
	my %point = map { $_ => Session->new } qw(on off);
	my $lookup = q{SELECT peek_submit('rows_pkey', key => $1)};
	my $walk = q{SELECT peek_submit('rows_pkey', }
		. q{options => '{"inline_budget": 2147483647}')};
	my $runs = 200;
	my %what;

	foreach my $state (qw(on off))
	{
		my $lookups = $point{$state};

		$lookups->run("SET peekstash.enable_offload = $state",
			"PREPARE lookup (bigint) AS $lookup");
		$what{"lookup $state"} = sub {
			my $seconds = $lookups->seconds(
				map { "EXECUTE lookup(" . $_ * 4999 . ")" } 1 .. $runs);

			release_all($session);
			return { map { $_ => $seconds->{$_} * 1000 / $runs } keys %$seconds };
		};
		$what{"walk $state"} = sub {
			$session->run("SET peekstash.enable_offload = $state");
			my $seconds = submit_and_wait($session, $walk, 0);
			$session->run('RESET peekstash.enable_offload');
			$seconds->{$_} *= 1000 foreach qw(seconds cpu);
			return $seconds;
		};
	}

	my %values = rounds($SHORT_ROUNDS, %what);
	$_->end foreach values %point;

	say_line("\nWhat it costs that a walk could be handed over, where it is not.",
		"The lookups are prepared,\nand the handles go to the client.");
	say_statements(
		'1 row' => $lookup =~ s/\$1/id/r,
		'1,000,000 rows' => $walk);
	say_table(
		[ '', 'ms, on', 'ms, off', 'ratio', 'CPU ms, on', 'CPU ms, off',
			'ratio', 'at most 1.05' ],
		map {
			my ($key, $title) = @$_;
			my ($on, $off) = map { $values{"$key $_"} } qw(on off);
			my @row = ("`enable_offload`, $title");

			foreach my $field (qw(seconds cpu))
			{
				push @row, (map { summary('%.3f', field($field, $_)) } $on, $off),
					summary('%.2f', field_ratios($field, $on, $off));
			}
			# the clock says more about the machine
			[ @row, verdict(median(field_ratios('cpu', $on, $off)), 1.05) ]
		} [ 'lookup', '1 row' ], [ 'walk', '1,000,000 rows' ]);
}

# A walk whose filter is what costs.
sub measure_sharing
{
	my ($session) = @_;
	my $request = q{'rows_pkey', upper => 500000, }
		. q{filter => 'version ~ ''([0-9]+)[.]\\1[.]\\1'''};
	my %statement = (
		inline => "SELECT peek_submit($request, $INLINE)",
		map {
			$_ => "SELECT peek_submit($request, options => "
				. qq{'{"background": true, "workers": $_}')}
		} 1, 2);
	my %values = rounds($SHORT_ROUNDS,
		map {
			my $key = $_;

			$key => sub { submit_and_wait($session, $statement{$key},
				$key eq 'inline' ? 0 : $key) }
		} keys %statement);

	say_line("\nHalf a million rows under a filter that takes longer than all",
		"the rest, and keeps few of them.");
	say_statements(
		'inline' => $statement{inline},
		'1 worker' => $statement{1},
		'2 workers' => $statement{2});
	say_table(
		[ '', 'seconds until done', 'to inline', 'CPU seconds', 'to inline' ],
		map { compare_row(\%values, $_->[0], $_->[1], [qw(seconds cpu)],
			'inline') }
			[ inline => 'inline' ], [ 1 => '1 worker' ], [ 2 => '2 workers' ]);
}

# The milliseconds of lookups, sorted, as pgbench has logged them.  Each begins
# at a moment chosen before.  That pgbench itself began late does not count.
sub lookup_times
{
	my ($dir) = @_;
	my $output = `pgbench -n -M prepared -f '$dir/lookup' -t $LOOKUPS \\
		-R $LOOKUPS_PER_SECOND -l --log-prefix='$dir/log' 2>&1`;
	my ($log) = glob "$dir/log.*";

	die "pgbench has failed:\n$output" if $? != 0 || !defined $log;
	my @times = sort { $a <=> $b }
		map { my @field = split ' '; ($field[2] - $field[6]) / 1000 }
			read_lines($log);
	unlink $log;
	die "lookups are missing:\n$output" if @times != $LOOKUPS;
	return @times;
}

# Clients that do nothing but submit a walk, wait for it, and release it.
sub walkers_start
{
	my ($dir, $clients, $offload) = @_;
	my $pid = fork // die "fork: $!\n";

	if ($pid == 0)
	{
		$ENV{PGOPTIONS} = "-c peekstash.enable_offload=$offload";
		$ENV{PGAPPNAME} = 'walkers';
		open STDOUT, '>', "$dir/walkers.out";
		open STDERR, '>&', \*STDOUT;
		exec 'pgbench', '-n', '-f', "$dir/walk", '-c', $clients, '-T', 600
			or POSIX::_exit(1);
	}
	return $pid;
}

# Ends them and their walks.
sub walkers_stop
{
	my ($session, $dir, $pid) = @_;

	die "walkers have ended:\n", read_lines("$dir/walkers.out")
		if waitpid($pid, WNOHANG) != 0;
	kill 'TERM', $pid;
	waitpid $pid, 0;

	# what they had sent is still begun
	while (($session->run(q{
			SELECT count(*) FROM pg_stat_activity
			WHERE application_name = 'walkers'
				OR backend_type = 'peekstash walk'}))[0] > 0)
	{
		$session->run(q{SELECT peek_cancel(handle) FROM peekstash.peeks
			WHERE state IN ('running', 'queued')});
		usleep 20_000;
	}
	release_all($session);
}

# What a session that looks up single rows notices of the walks of others.
sub measure_lookups
{
	my ($session) = @_;
	my $dir = tempdir(CLEANUP => 1);
	my $clients = 2 * $CORES;
	my $lookup = q{SELECT * FROM peek(NULL::rows, 'rows_pkey', key => :id::bigint)};
	my $walk =
		q{SELECT peek_submit('many_pkey', filter => 'length(name) > 1000')};
	my @cases = (
		[ 'nobody walks', 0 ],
		[ 'offload off', $clients, 'off', 0 ],
		[ "offload on, $CORES permits", $clients, 'on', 0 ],
		[ 'offload on, 1 permit', $clients, 'on', 1 ]);

	write_script("$dir/lookup", '\set id random(1, 990000)', "$lookup;");
	write_script("$dir/walk",
		$walk =~ s/SELECT (.*)/SELECT quote_literal($1) AS h \\gset/r,
		'SELECT peek_wait(:h, NULL);', 'SELECT peek_release(:h);');

	my %values = rounds($LONG_ROUNDS,
		map {
			my ($title, $walkers, $offload, $permits) = @$_;

			$title => sub {
				my $pid;

				if ($walkers > 0)
				{
					$session->run(
						"ALTER SYSTEM SET peekstash.permits = $permits",
						'SELECT pg_reload_conf()');
					$pid = walkers_start($dir, $walkers, $offload);
					usleep 500_000;
				}
				my @times = lookup_times($dir);
				my ($offloaded) = $session->run(q{SELECT count(*)
					FROM peekstash.peeks
					WHERE driver = 'offloaded' AND state IN ('running', 'queued')});
				walkers_stop($session, $dir, $pid) if $walkers > 0;
				die "$title: $offloaded walks are in the background\n"
					if ($offloaded > 0) != ($walkers > 0 && $offload eq 'on');
				return { median => median(@times),
					p95 => $times[$#times * 0.95] };
			}
		} @cases);

	$session->run('ALTER SYSTEM RESET peekstash.permits',
		'SELECT pg_reload_conf()');

	say_line("\nMilliseconds of a lookup in one session, while $clients others,",
		"twice the cores, walk one after the\nother through all of `many`, and",
		"keep nothing.  Without offload all of them walk at once, with it\nas many",
		"as there are permits.  In each round are $LOOKUPS lookups, about",
		"$LOOKUPS_PER_SECOND a second, by pgbench in its\nquery mode \"prepared\";",
		"\"95 %\" is what 95 of 100 stay below.");
	say_statements('lookup' => $lookup, 'walk' => $walk);
	say_table(
		[ '', 'ms, median', 'to offload off', 'ms, 95 %', 'to offload off' ],
		map { compare_row(\%values, $_->[0], $_->[0], [qw(median p95)],
			'offload off') } @cases);
}


# name, what it is called on the way, function
my @sections = (
	[ 'walk', 'walk and stash', \&measure_walk ],
	[ 'drain', 'whole answers', \&measure_drain ],
	[ 'pages', 'pages of a kept answer', \&measure_pages ],
	[ 'submit', 'keeping an answer', \&measure_submit ],
	[ 'query', 'keeping the answer of a query', \&measure_query ],
	[ 'download', 'downloading', \&measure_download ],
	[ 'small', 'small answers', \&measure_small ],
	[ 'offload', 'walks in the background', \&measure_offload ],
	[ 'memory', 'memory', \&measure_memory ]);

if ("@ARGV" eq '--sections')
{
	print "$_->[0]\n" foreach @sections;
	exit;
}
die "usage: $0 FILE [SECTION...]\n" if @ARGV == 0;

my ($file, @wanted) = @ARGV;
my $session = Session->new;

describe_machine($session);
foreach (@sections)
{
	my ($name, $title, $function) = @$_;

	next if @wanted && !grep { $_ eq $name } @wanted;
	print "   $title\n";
	$function->($session);
}
$session->end;

open my $out, '>', $file or die "$file: $!\n";
print $out @report;
close $out or die "$file: $!\n";
