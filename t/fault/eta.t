# Two small sales on a real nginx and a real Redis, with users who come, wait,
# give up, and stay as long as it takes them: what each of them is told of the
# waiting time, each time, against what it then was.
#
# Without a rate it is a forecast: its error is stated, and the median is
# bounded.  With one it is a promise.
#
# WQ_SEED repeats the choices of a run.

use strict;
use warnings;

use POSIX qw(ceil);
use Test::More;
use WaitingQueue::Nodes;

WaitingQueue::Nodes::need_descriptors(2048);

my $seed = $ENV{WQ_SEED} || 1 + (time ^ $$) % 1000000000;

diag("WQ_SEED=$seed");
srand $seed;

my %sales = (
    # About six a second: twenty stay for three seconds or so.  At first nobody
    # leaves, and the line takes longer than it will: this is in the forecast.
    forecast => { first => 200, later => 100, each => 0.2, visit => [1, 5.5],
                  give_up => 0.15,
                  rules => 'waiting_queue_capacity 20;' },
    # six a second, whoever stays how long
    promise => { first => 100, later => 20, each => 0.5, visit => [0.3, 1],
                 give_up => 0,
                 rules => 'waiting_queue_capacity 500; '
                          . 'waiting_queue_rate 12/2s;' },
);

my $nodes = WaitingQueue::Nodes->new(
    workers => 2,
    http => 'waiting_queue_interval 100ms; waiting_queue_promote_interval '
            . '100ms;',
    locations => { map { $_ => $sales{$_}{rules} . ' waiting_queue_grace 0;' }
                       keys %sales });
my $sse = $nodes->sse;


# users: each has a time to come, to give up if it takes that long, to stay

my @users;

for my $name (sort keys %sales) {
    my $sale = $sales{$name};
    my $line = $nodes->line($name, $name);
    my ($least, $most) = @{$sale->{visit}};

    for my $n (1 .. $sale->{first} + $sale->{later}) {
        my $late = $n - $sale->{first};

        push @users, {
            sale => $sale, line => $line, name => "u$n", told => [],
            comes => $late > 0 ? 2 + $sale->{each} * $late : rand 2,
            # the sum of two, so that most are in the middle
            stays => $least + ($most - $least) * (rand() + rand) / 2,
            patience => rand() < $sale->{give_up} ? rand 40 : 1e6,
        };
    }
}


# the sales

my $begin = time;
my $end = $begin + patience(75);
my @outside = sort { $a->{comes} <=> $b->{comes} } @users;
my @there;

while (time < $end && (@outside || @there)) {
    $sse->turn(0.01);

    my $now = time;

    while (@outside && $now >= $begin + $outside[0]{comes}) {
        my $user = shift @outside;

        $user->{stream} = $user->{line}->open($user->{name});
        $user->{came} = $now;
        push @there, $user;
    }

    for my $user (@there) {
        my $stream = $user->{stream};

        for my $event ($stream->news) {
            if ($event->{event} eq 'position') {
                push @{$user->{told}}, [ $event->{at}, $event->{data} ];
            } elsif ($event->{event} eq 'promoted') {
                $user->{in} = $event->{at};
            }
        }

        if (defined $user->{in}) {
            next if $now < $user->{in} + $user->{stays};
            $user->{line}->release($user->{name});
            $user->{done} = 1;

        } elsif ($now > $user->{came} + $user->{patience}) {
            $user->{gave_up} = 1;

        } else {
            next;
        }

        $stream->close;
        $user->{gone} = 1;
    }

    @there = grep { !$_->{gone} } @there;
}

is(@outside + @there, 0, sprintf 'all have come and gone, in %.0f s',
                                 time - $begin);


# what was told, and what was: [ told, real ] of each time

sub pairs {
    my ($sale) = @_;

    my @pairs;

    for my $user (grep { $_->{sale} == $sale && defined $_->{in} } @users) {
        for my $told (@{$user->{told}}) {
            push @pairs, [ $told->[1]{etaSeconds}, $user->{in} - $told->[0],
                           $told->[0] - $begin ];
        }
    }

    return @pairs;
}


# the value of which that part of all is less

sub part {
    my ($part, @values) = @_;
    return @values ? (sort { $a <=> $b } @values)[$part * $#values] : 1e6;
}


{
    my $sale = $sales{forecast};
    my @sale = grep { $_->{sale} == $sale } @users;
    my @waits = map { $_->{in} - $_->{came} }
                grep { defined $_->{in} && @{$_->{told}} } @sale;
    my $gave_up = grep { $_->{gave_up} } @sale;

    cmp_ok($gave_up, '>', 10, "$gave_up have given up");
    cmp_ok(part(0.9, @waits), '>', 20,
           sprintf 'the others have waited %.0f s, and up to %.0f s',
                   part(0.5, @waits), part(1, @waits));

    my @pairs = pairs($sale);
    my @known = grep { defined $_->[0] } @pairs;
    my $since = part(0, map { $_->[2] } @known);

    cmp_ok($since, '>', 5, sprintf 'nothing is said in the first %.1f s',
                                   $since);
    cmp_ok($since, '<', patience(20), 'then there is a basis');
    is(scalar(grep { !defined $_->[0] && $_->[2] > $since + 1 } @pairs), 0,
       'and from then on everybody is told');

    # What is told are whole seconds, rounded up, and so must be what they are
    # compared with.  Of the last few of them one is much, and says nothing of
    # the forecast: those with 5 s and more to go are looked at.
    my @far = grep { $_->[1] >= 5 } @known;
    my @signed = map { ($_->[0] - ceil($_->[1])) / ceil($_->[1]) } @far;
    my @errors = map { abs } @signed;

    cmp_ok(scalar @far, '>', 1000, @far . ' forecasts of 5 s and more');
    cmp_ok(part(0.5, @errors), '<', 0.15,
           sprintf 'the median error is %.1f %%', 100 * part(0.5, @errors));
    note(sprintf 'of seconds that are not rounded it is %.1f %%',
         100 * part(0.5, map { abs($_->[0] - $_->[1]) / $_->[1] } @far));
    cmp_ok(part(0.9, @errors), '<', 0.4,
           sprintf 'that of nine in ten is below %.1f %%',
                   100 * part(0.9, @errors));
    cmp_ok(abs(part(0.5, @signed)), '<', 0.15,
           sprintf 'as a rule it is %+.1f %%', 100 * part(0.5, @signed));

    my @near = map { abs($_->[0] - $_->[1]) } grep { $_->[1] < 5 } @known;
    cmp_ok(part(0.9, @near), '<', 2.5,
           sprintf 'of the last 5 s nine in ten are %.1f s off at most',
                   part(0.9, @near));
}


{
    my $sale = $sales{promise};
    my @pairs = pairs($sale);

    is(scalar(grep { !defined $_->[0] } @pairs), 0,
       'with a rate everybody is told, from the beginning');
    cmp_ok(scalar @pairs, '>', 300, @pairs . ' times');

    # within the period that was told of
    my @early = map { $_->[0] - $_->[1] } @pairs;

    cmp_ok(part(1, @early), '<', 2.5,
           sprintf 'nobody goes in more than a period earlier: %.2f s',
                   part(1, @early));
    cmp_ok(part(0, @early), '>', -patience(1.5),
           sprintf 'nor later, as far as the machine has time: %.2f s',
                   -part(0, @early));
    cmp_ok(part(0.25, @early), '>', -0.1,
           sprintf 'three in four are on time: %.2f s', -part(0.25, @early));
}

$nodes->finish;
