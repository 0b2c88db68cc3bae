package WaitingQueue::Periods;

# What must be so of a rate, of so many users in so many ms, by what has
# happened in Redis, in order:
#
#     my $periods = WaitingQueue::Periods->new(users => 20, ms => 250);
#
#     $periods->entry($at);               somebody has gone in
#     $periods->began($at, $begin);       a period was written down
#     $periods->could($at, $n);           so many could go in, but for the rate
#     $periods->asked($at);               all were to be let in who could
#
# Each returns what is wrong, or undef.  The first period begins with the first
# entry, and each next one where the last ends; times are Redis' own, in ms.
#
# A backlog is where somebody could go in from the first moment of a period to
# the last: then as many went in as the rate says, or nobody has asked in it.
#
#     $periods->backlogs                  how many such periods there were
#     $periods->unasked                   those without anybody who asked, as
#                                         [ begin, end, how many went in ]
#     $periods->counts                    how many went in in each, one by one

use strict;
use warnings;

# ms: the time of a call is known no better
my $tick = 3;


sub new {
    my ($class, %o) = @_;
    return bless { %o, first => undef, now => undef, counts => {}, asked => {},
                   could => 0, idle => {} }, $class;
}


sub counts {
    my $self = shift;
    return map { $self->{counts}{$_} || 0 }
               0 .. (defined $self->{now} ? $self->{now} : -1);
}


sub entry {
    my ($self, $at) = @_;

    $self->{first} = $at if !defined $self->{first};

    my $period = $self->_reach($at);
    my $n = ++$self->{counts}{$period};

    return "the ${n}th of $self->{users} in period $period"
        if $n > $self->{users};
    return;
}


sub began {
    my ($self, $at, $begin) = @_;

    my $first = defined $self->{first} ? $self->{first} : $begin;

    return "a period begins at $begin, the first at $first"
        if ($begin - $first) % $self->{ms};
    return "a period begins at $begin, but it is $at"
        if $at < $begin - $tick || $at > $begin + $self->{ms} + $tick;
    return;
}


sub could {
    my ($self, $at, $n) = @_;

    $self->_reach($at) if defined $self->{first};

    $self->{could} = $n > 0 ? $n : 0;
    $self->{idle}{$self->{now}} = 1 if defined $self->{now} && $n <= 0;
    return;
}


sub asked {
    my ($self, $at) = @_;

    return if !defined $self->{first};

    my $period = $self->_reach($at);

    # who has asked a moment before has asked in the last one
    return if ($at - $self->{first}) % $self->{ms} < $tick;

    $self->{asked}{$period} = 1;

    my $n = $self->{counts}{$period} || 0;

    return "$n of $self->{users} in period $period, $self->{could} could go in"
        if $n < $self->{users} && $self->{could} > 0;
    return;
}


# the period of that time; those before are over

sub _reach {
    my ($self, $at) = @_;

    my $period = int(($at - $self->{first}) / $self->{ms});

    $period = 0 if $period < 0;
    $self->{now} = $period if !defined $self->{now};

    while ($self->{now} < $period) {
        $self->{now}++;
        $self->{idle}{$self->{now}} = 1 if !$self->{could};
    }

    return $period;
}


sub _backlogs {
    my $self = shift;

    # the last is not over
    return grep { !$self->{idle}{$_} }
                0 .. (defined $self->{now} ? $self->{now} : 0) - 1;
}


sub backlogs { return scalar $_[0]->_backlogs }


sub unasked {
    my $self = shift;

    return map { my $begin = $self->{first} + $_ * $self->{ms};
                 [ $begin, $begin + $self->{ms}, $self->{counts}{$_} || 0 ] }
           grep { !$self->{asked}{$_}
                  && ($self->{counts}{$_} || 0) < $self->{users} }
                $self->_backlogs;
}


1;
