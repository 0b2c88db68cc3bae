#!/usr/bin/perl
#
# Usage: rights.pl ROOT
#
# Checks that the user of Redis in docs/operations.md may do all that the
# scripts and the sources do, and nothing else.

use strict;
use warnings;

my $root = shift or die "usage: rights.pl ROOT\n";
my (%granted, %used);


sub text {
    my $path = shift;

    open my $file, '<', $path or die "$path: $!\n";
    local $/;
    return scalar <$file>;
}


for (grep { /^ACL SETUSER \w+ reset / } split /\n/,
     text("$root/docs/operations.md"))
{
    $granted{$1} = 1 while /\+(\w+)/g;
}

for my $path (glob("$root/lua/*.lua $root/lua/lib/*.lua")) {
    my $text = text($path);

    $used{lc $1} ||= $path while $text =~ /redis\.p?call\(\s*['"](\w+)/g;
    # and those that are put together first
    $used{lc $1} ||= $path while $text =~ /\{ '([A-Z]+)'/g;
}

for my $path (glob("$root/src/redis/*.c")) {
    my $text = text($path);

    $used{lc $1} ||= $path while $text =~ /argv\[0\], "(\w+)"/g;
}

# needs no right; and what script.c calls the scripts by
delete $used{auth};
$used{$_} = 'src/redis' for qw(eval evalsha);

my @wrong = ((map { "$used{$_}: $_ is not granted in docs/operations.md" }
              grep { !$granted{$_} } sort keys %used),
             (map { "docs/operations.md: $_ is granted, and not used" }
              grep { !$used{$_} } sort keys %granted));

print map { s{^\Q$root\E/}{}r . "\n" } @wrong;
exit(@wrong ? 1 : 0);
