package WaitingQueue::Chance;

# Choices that a seed repeats:
#
#     use WaitingQueue::Chance;
#
#     my $chance = chance($seed, $number);
#     my $do = choose($chance, 46 => 'wait', 20 => 'hang_up');
#     sleep 0.5 + $chance->();
#
# Who has a number has a sequence of his own, so that what he does depends on
# the seed and on what has happened to him, and not on others.

use strict;
use warnings;

use Exporter 'import';

our @EXPORT = qw(chance choose);


# chance(seed, number): a function that gives numbers from 0 to below 1

sub chance {
    my ($seed, $number) = @_;

    my $state = ($seed * 7919 + $number * 104729) % 2147483646 + 1;

    return sub {
        $state = $state * 48271 % 2147483647;
        return $state / 2147483647;
    };
}


# choose(chance, weight => what, ...)

sub choose {
    my ($chance, @choices) = @_;

    my $sum = 0;
    my @what;

    while (my ($weight, $what) = splice @choices, 0, 2) {
        $sum += $weight;
        push @what, [ $sum, $what ];
    }

    my $point = $chance->() * $sum;

    for (@what) {
        return $_->[1] if $point < $_->[0];
    }

    return $what[-1][1];
}


1;
