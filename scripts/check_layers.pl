#!/usr/bin/perl
# Checks the layers of the source: each folder of src/ uses only those below it.
#
#   perl scripts/check_layers.pl [folder of the project]      after a build, for the calls are read from the objects
#
# base (src/*.h and src/*.c) < time < store < stream < view < worker < top: src/aion.c, the entry, and src/guc.c, the table
# of settings, which may use all.
#
# Includes alone don't tell: a function can be declared by hand, or by a header of a lower layer and defined in a higher
# one. So the object files' symbol tables are checked too. Cycles are looked for among modules (NAME.c and NAME.h are one),
# in all layers at once, because headers alone practically never form one. src/time, the codec and the destage policies must be usable
# without a server (fuzzing, sanitizers), so nothing they reach may include the server's headers.
#
# Prints TAP, one test per rule, with each breach as a comment; exits with 1 if there is one.

use strict;
use warnings;

my %RANK = (base => 0, time => 1, store => 2, stream => 3, view => 4, worker => 5, top => 6);
my $MAX_LINES = 1000;

chdir($ARGV[0] // '.') or die "cannot enter $ARGV[0]: $!\n";
my @files = sort grep { -f } glob('src/*.[ch] src/*/*.[ch]');
die "no source files below src/\n" unless @files;

my (%text, %lines);
for my $file (@files)
{
	open(my $fh, '<', $file) or die "cannot read $file: $!\n";
	my @content = <$fh>;
	$lines{$file} = @content;
	$text{$file} = join('', @content);
}

sub layer
{
	my ($file) = @_;
	return 'top' if $file =~ m{^src/(aion|guc)\.c$};
	return $file =~ m{^src/([^/]+)/} ? $1 : 'base';
}

# NAME.c and NAME.h are one module, and so is NAME_internal.h. The headers in src/ itself are base headers, also those of
# the files at the top.
sub module
{
	my ($file) = @_;
	return $file if layer($file) eq 'top';
	return $file =~ s/(_internal)?\.[ch]$//r;
}

# What a file includes: the project's own files, and all other names as they are written.
my (%own, %foreign);
for my $file (@files)
{
	my ($folder) = $file =~ m{^(.*)/};
	(my $code = $text{$file}) =~ s{/\*.*?\*/}{}gs;
	while ($code =~ /^\s*#\s*include\s*([<"])([^>"]+)[>"]/mg)
	{
		my ($quote, $name) = ($1, $2);
		my ($found) = grep { exists $text{$_} } "$folder/$name", "src/$name";
		if ($quote eq '"' && $found) { push @{ $own{$file} }, $found }
		else { push @{ $foreign{$file} }, $quote eq '"' ? qq{"$name"} : "<$name>" }
	}
}

my ($tests, $failed) = (0, 0);

sub report
{
	my ($rule, @breaches) = @_;
	$tests++;
	$failed++ if @breaches;
	print @breaches ? 'not ' : '', "ok $tests - $rule\n";
	print "#   $_\n" for @breaches;
}

# Every folder has its place in the order.
report('every folder of src is a layer',
	map { "$_: layer unknown" } grep { !exists $RANK{ layer($_) } } @files);
@files = grep { exists $RANK{ layer($_) } } @files;

# Includes go down, or stay in the layer.
my @up;
for my $file (@files)
{
	for my $header (@{ $own{$file} // [] })
	{
		push @up, "$file includes $header"
		  if ($RANK{ layer($header) } // 0) > $RANK{ layer($file) };
	}
}
report('includes go down only', @up);

# So do calls.
my (%defined_in, @undefined, @unbuilt);
for my $source (grep { /\.c$/ } @files)
{
	my $object = $source =~ s/\.c$/.o/r;
	if (!-f $object) { push @unbuilt, "$source is not built"; next }
	for my $line (split /\n/, `nm -P '$object'`)
	{
		my ($symbol, $type) = split ' ', $line;
		if ($type eq 'T') { $defined_in{$symbol} = $source }
		elsif ($type eq 'U') { push @undefined, [ $source, $symbol ] }
	}
}
my @calls_up;
for my $use (@undefined)
{
	my ($source, $symbol) = @$use;
	my $definer = $defined_in{$symbol} or next;
	push @calls_up, "$source uses $symbol() of $definer"
	  if $RANK{ layer($definer) } > $RANK{ layer($source) };
}
report('calls go down only', @unbuilt, sort @calls_up);

# No module reaches itself. Tarjan's algorithm; a component of more than one module is a cycle.
my %uses;
for my $file (@files)
{
	for my $header (@{ $own{$file} // [] })
	{
		my ($from, $to) = (module($file), module($header));
		$uses{$from}{$to} //= "$file includes $header" if $from ne $to;
	}
}
my ($counter, @stack, %index, %low, %on_stack, @cycles) = (0);

sub visit
{
	my ($node) = @_;
	$index{$node} = $low{$node} = $counter++;
	push @stack, $node;
	$on_stack{$node} = 1;
	for my $next (sort keys %{ $uses{$node} // {} })
	{
		if (!exists $index{$next})
		{
			visit($next);
			$low{$node} = $low{$next} if $low{$next} < $low{$node};
		}
		elsif ($on_stack{$next} && $index{$next} < $low{$node})
		{
			$low{$node} = $index{$next};
		}
	}
	return if $low{$node} != $index{$node};
	my @component;
	do { push @component, pop @stack; delete $on_stack{ $component[-1] } } until $component[-1] eq $node;
	return if @component == 1;
	push @cycles, join(' <-> ', sort @component);
	for my $from (sort @component)
	{
		push @cycles, map { "    $uses{$from}{$_}" } grep { $uses{$from}{$_} } sort @component;
	}
}
exists $index{$_} or visit($_) for sort map { module($_) } @files;
report('no include cycle among modules', @cycles);

# What must compile without a server.
my @bound;
for my $file (grep { m{^src/(time/|store/codec|worker/policy)} } @files)
{
	my (%seen, @queue);
	@queue = ([ $file, $file ]);
	while (my $item = shift @queue)
	{
		my ($current, $path) = @$item;
		next if $seen{$current}++;
		push @bound, "$path includes $_"
		  for grep { /^"/ || $_ eq '<postgres.h>' } @{ $foreign{$current} // [] };
		push @queue, map { [ $_, "$path -> $_" ] } @{ $own{$current} // [] };
	}
}
report('src/time, the codec and the destage policies need no server', @bound);

report("no file has more than $MAX_LINES lines",
	map { "$_ has $lines{$_} lines" } grep { $lines{$_} > $MAX_LINES } @files);

print "1..$tests\n";
exit($failed ? 1 : 0);
