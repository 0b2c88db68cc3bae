#!/usr/bin/perl
#
# Usage: simulate-sale.pl SHAPE > t/unit/flows/SHAPE.txt
#        simulate-sale.pl --all
#
# Simulates a sale behind a waiting room, second by second, and writes what one
# sees of its line: the material of t/unit/test_wq_eta_replay.c.  --all writes
# the files of all shapes, and is how those of t/unit/flows were made.  The
# numbers are drawn from a generator with a seed of its own for each shape
# (drand48, which is part of Perl): the same files come out everywhere.
#
# The sale: so many slots.  Once a second whoever is first in the line goes in,
# as long as slots are free.  Some never come: their slot is free again after
# the time to claim it.  The others stay for a session, lognormal with the mean
# and the sigma of the shape.  People come in a burst, its rate falling to an
# e-th within the given seconds, and in an even tail besides; who waits gives
# up with the same probability in each second, or never.
#
# The lines of a file, by time:
#
#   L SECONDS PROMOTED GAVE_UP WAITING    a look at the counters
#   H SECONDS PROMOTED GAVE_UP WAITING    the same, of a line that is halted
#   A SECONDS POSITION LET_IN             somebody asks who stands at POSITION,
#                                         and is let in at LET_IN
#
# Who asks: at random moments, one of those who wait then, drawn evenly.  Those
# who gave up later are left out, for nobody knows how long they would have
# waited.

use strict;
use warnings;
use FindBin;

my %common = (
    slots     => 500,       # at once
    session   => 240,       # s, on average
    sigma     => 0.7,       # of its logarithm
    no_show   => 0.10,      # part of those let in
    claim     => 60,        # s until the slot of one of them is free
    patience  => 0,         # s, mean time until one gives up; 0: never
    burst     => 9000,      # people
    burst_s   => 120,
    opens     => 0,         # s after the first have come
    tail      => 0.5,       # people per second
    tail_s    => 3600,
    look      => 5,         # s from look to look
    asks      => 900,
);

my %shapes = (
    'give-up'  => { seed => 1, patience => 900, burst => 24000, tail => 2 },
    'patient'  => { seed => 2 },
    'short'    => { seed => 3, slots => 2000, session => 120, burst => 12000,
                    tail => 6, tail_s => 1200, patience => 3600, look => 2 },
    'small'    => { seed => 4, slots => 10, session => 180, burst => 250,
                    burst_s => 300, tail => 0.03, tail_s => 7200,
                    patience => 5400, look => 10 },
    'opened'   => { seed => 7, opens => 300, patience => 3600 },
    'doubled'  => { seed => 5, patience => 3600, burst => 14000,
                    double => 2400 },
    'stalled'  => { seed => 6, patience => 3600, burst => 12000,
                    stall => [ 1800, 60 ] },
);

if (@ARGV != 1 || ($ARGV[0] ne '--all' && !$shapes{$ARGV[0]})) {
    die "usage: simulate-sale.pl --all | ",
        join(' | ', sort keys %shapes), "\n";
}

if ($ARGV[0] ne '--all') {
    print simulate($ARGV[0]);
    exit 0;
}

for my $shape (sort keys %shapes) {
    my $file = "$FindBin::Bin/../t/unit/flows/$shape.txt";

    open my $out, '>', $file or die "$file: $!\n";
    print $out simulate($shape);
    close $out or die "$file: $!\n";
}


sub normal {
    return sqrt(-2 * log(1 - rand)) * cos(2 * 3.14159265358979 * rand);
}


# how many come in a second in which so many are expected

sub poisson {
    my $mean = shift;

    # by parts, for exp() of a large number would be 0
    my $n = 0;

    while ($mean > 0) {
        my $part = $mean > 20 ? 20 : $mean;
        my $limit = exp(-$part);

        for (my $p = rand; $p > $limit; $p *= rand) {
            $n++;
        }

        $mean -= $part;
    }

    return $n;
}


sub simulate {
    my $shape = shift;
    my %is = (%common, %{ $shapes{$shape} });

    srand $is{seed};

    my (@line, $head, %leaves);     # who waits: number => until then
    my (%ends, @let_in, @asked, @looks);
    my ($promoted, $gave_up, $waiting, $taken) = (0, 0, 0, 0);

    $head = 0;

    for (my $now = 1; ; $now++) {
        last if $now > $is{tail_s} && $waiting == 0;

        # who gives up

        for my $who (@{ delete $leaves{$now} || [] }) {
            next if !$line[$who];

            $line[$who] = 0;
            $gave_up++;
            $waiting--;
        }

        # who comes

        my $mean = $now > $is{tail_s} ? 0
                   : $is{burst} / $is{burst_s} * exp(-$now / $is{burst_s})
                     + $is{tail};

        for (1 .. poisson($mean)) {
            push @line, 1;
            $waiting++;

            if ($is{patience}) {
                my $until = $now + 1 + int(-log(1 - rand) * $is{patience});
                push @{ $leaves{$until} }, $#line;
            }
        }

        # whose slot is free again; when the backend stalls it answers nobody,
        # and all who wait for it are through when it is back

        my $stalls = $is{stall} && $now >= $is{stall}[0]
                     && $now < $is{stall}[0] + $is{stall}[1];

        if ($stalls) {
            $ends{$now + 1} = ($ends{$now + 1} || 0)
                              + (delete $ends{$now} || 0);
        }

        $taken -= delete $ends{$now} || 0;

        # who goes in

        my $slots = $now < $is{opens} ? 0 : $is{slots};
        $slots *= 2 if $is{double} && $now >= $is{double};

        while ($waiting > 0 && $taken < $slots) {
            $head++ while !$line[$head];

            $line[$head] = 0;
            $let_in[$head] = $now;
            $promoted++;
            $waiting--;
            $taken++;

            my $stay = $is{claim};

            if (rand >= $is{no_show}) {
                my $mu = log($is{session}) - $is{sigma} ** 2 / 2;
                $stay = exp($mu + $is{sigma} * normal());
            }

            $ends{$now + 1 + int($stay)}++;
        }

        # who asks, and who looks

        if ($waiting > 0 && $now >= $is{opens} && rand() < 0.5) {
            my $who;

            do {
                $who = $head + int rand(@line - $head);
            } while (!$line[$who]);

            my $position = grep { $_ } @line[$head .. $who];
            push @asked, [ $now, $position, $who ];
        }

        if ($now % $is{look} == 0) {
            my $kind = $now < $is{opens} ? 'H' : 'L';
            push @looks, [ $kind, $now, $promoted, $gave_up, $waiting ];
        }
    }

    # as many as the file is to hold, of those who were let in

    @asked = grep { $let_in[$_->[2]] } @asked;

    my $every = @asked / $is{asks};
    my $next = 0;
    my $i = 0;
    my $text = "# a sale of the shape \"$shape\": util/simulate-sale.pl\n";

    for my $ask (@asked) {
        next if $i++ < $next;

        $next += $every;

        while (@looks && $looks[0][1] <= $ask->[0]) {
            $text .= join(' ', @{ shift @looks }) . "\n";
        }

        $text .= "A $ask->[0] $ask->[1] $let_in[$ask->[2]]\n";
    }

    $text .= join(' ', @$_) . "\n" for @looks;

    return $text;
}
