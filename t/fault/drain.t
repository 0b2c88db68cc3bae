# A reload in the middle of a sale: nobody loses the place, nobody is let in
# twice or too late, the reconnects come spread, and of the old workers nothing
# is left, in Redis or elsewhere.

use strict;
use warnings;

use List::Util qw(max min);
use Test::More;
use WaitingQueue::Nodes;

my $drain = sanitized() ? 6 : 3;

my $nodes = WaitingQueue::Nodes->new(
    nodes => 1, workers => 2,
    http => "waiting_queue_drain ${drain}s; waiting_queue_interval 50ms;"
            . 'waiting_queue_promote_interval 100ms;',
    locations => {
        sale => 'waiting_queue_capacity 0; waiting_queue_grace 30s;',
        brief => 'waiting_queue_capacity 0; waiting_queue_grace 1s;',
        longer => "waiting_queue_capacity 0; waiting_queue_grace ${drain}s;",
    });
my $node = $nodes->node(0);


# what the streams were told at last, and in how long they come back

sub ends { return map { $_->ended_at } @_ }


# as its EventSource: the stream that is open now, or the one that was told to
# come again after a while

sub come_back {
    my ($line, $streams, $due) = @_;

    for my $user (keys %$streams) {
        my $s = $streams->{$user};

        next if !defined $s->ended || $s->token;
        $due->{$user} ||= $s->ended_at + $s->last->{retry} / 1000;
        next if time < $due->{$user};

        delete $due->{$user};
        $streams->{$user} = $line->open($user, $nodes->at(0));
    }
}


# whether the other side of a connection has not taken all that was sent

sub unread {
    my ($socket) = @_;

    my $ports = sprintf '0100007F:%04X 0100007F:%04X', $socket->peerport,
                        $socket->sockport;
    # there may be a hundred thousand of them
    open my $table, '<', '/proc/net/tcp' or die "/proc/net/tcp: $!\n";

    while (my $line = <$table>) {
        return hex((split ' ', $line)[4] =~ s/.*://r)
            if index($line, $ports) >= 0;
    }

    return 1;
}


# a signal, all the way: the clients come back as they are told

sub leave {
    my ($line, $streams, $signal, $what, $look) = @_;

    my @old = $node->workers;
    my %old = map { $_ => 1 } @old;
    my %first = %$streams;
    my %due;
    my $start = time;

    $signal->();

    my $done = $nodes->run_until(sub {
        $look->() if $look;
        come_back($line, $streams, \%due);
        !grep { alive($_) } @old;
    }, $drain + 15, "$what: the old workers leave");
    my $took = time - $start;

    $nodes->run_until(sub {
        come_back($line, $streams, \%due);
        !grep { !$_->token && (!$_->is_open || !$_->events) }
              values %$streams;
    }, 15, "$what: all streams are back");

    return ([ values %first ], $took);
}


# two thirds of these are let in while the workers leave

my $line = $nodes->line('sale', 'e1');
my %s = map { $_->{user} => $_ } $line->joins(map { "u$_" } 1 .. 60);
my %idx = map { $_ => $line->idx($_) } keys %s;
my @former = map { $_->{instance} } $node->rows;

$nodes->run_until(sub { $nodes->exact($line, values %s) }, 10, 'all wait');

my ($before, $took) = leave($line, \%s, sub {
    $node->signal('HUP');
    $nodes->run_until(sub { 15 < grep { $_->ended } values %s }, 10,
                      'reload: streams end, but not all');
    $line->set(capacity => 40);
}, 'reload');

my @told = grep { $_->token } @$before;
my @ended = sort { $a <=> $b } ends(grep { !$_->token } @$before);

is(scalar(grep { !$_->token && $_->last->{event} ne 'reconnect' } @$before), 0,
   'reload: who waits is told to connect again');
is(scalar(grep { $_->ended ne 'clean' } grep { defined $_->ended } @$before),
   0, 'reload: every stream has ended as it should');
is(scalar(grep { my $r = $_->last->{retry} || 0; $r < 500 || $r > 1000 }
          grep { $_->last->{event} eq 'reconnect' } @$before), 0,
   'reload: soon');
cmp_ok($ended[-1] - $ended[0], '>', 0.6 * $drain,
       'reload: the streams end one after another');
my $most = max(map { my $from = $_;
                     scalar grep { $_ >= $from && $_ < $from + $drain / 6 }
                            @ended } @ended);
cmp_ok($most, '<', 25, "reload: evenly ($most in a sixth of the time)");
ok($took < patience($drain + 3), sprintf 'reload: in time, %.1f s', $took);
cmp_ok(scalar @told, '>', 0, 'reload: some were let in by the old workers');

my %token = map { $_->{user} => $_->token } grep { $_->token } values %s;
is(join(' ', sort keys %token), join(' ', sort map { "u$_" } 1 .. 40),
   'reload: the first forty are in');
is(scalar(grep { $line->token($_->{user}) ne $_->token } @told), 0,
   'reload: each with one token');
delete @s{keys %token};
is_deeply({ map { $_ => $line->idx($_) } keys %s },
          { map { $_ => $idx{$_} } keys %s }, 'reload: all have their places');
$nodes->run_until(sub { $nodes->exact($line, values %s) }, 10,
                  'reload: and all ranks are exact');
is_deeply([ $line->wrong ], [], 'reload: the books are right');

# who was let in by the old ones and not yet told of it by the new
my %left = map { $_ => 1 } @former;
$nodes->run_until(sub {
    my %instances = map { $_ => 1 }
                    @{$nodes->call('ZRANGE', 'WAITING_INSTANCES', 0, -1)};
    !grep { $instances{$_} } @former;
}, 45, 'reload: the old instances are gone');
is_deeply([ grep { my $key = $_; grep { $key =~ /\Q$_\E/ } @former }
            @{$nodes->call('KEYS', '*')} ], [], 'reload: and their keys');
$nodes->run_until(sub { !$nodes->busy }, 10, 'reload: nothing is pending');


# who does not come back

my $brief = $nodes->line('brief', 'b1');
my $longer = $nodes->line('longer', 'l1');
my @gone = ($brief->joins(map { "g$_" } 1 .. 5),
            $longer->joins(map { "g$_" } 1 .. 5));
my @old = $node->workers;
my $start = time;

$node->signal('HUP');
my $left_at;
$nodes->run_until(sub {
    $left_at ||= time if !grep { alive($_) } @old;
    !@{$brief->waiting} && !@{$longer->waiting} && $left_at;
}, 2 * $drain + 10, 'who does not come back is out');
ok(time - $left_at < patience($drain + 4),
   'after the grace time, and not only when the worker is missed');
$nodes->run_until(sub { !map { $_->leftovers } $brief, $longer }, 10,
                  'nothing is left');


# one that was accepted just before

my @workers = $node->workers;
my $path = '/sale/e4?user=late';
my %late = map { $_ => $node->connect_to($_) } @workers;
my $quiet = $nodes->line('sale', 'e4');
my @stay = $quiet->joins(map { "s$_" } 1 .. 6);

syswrite $_, "GET $path HTTP/1.1\r\nHost: localhost\r\n" for values %late;
wait_until { !grep { unread($_) } values %late } 5,
           'late: the requests have begun';
$node->signal('HUP');
$nodes->run_until(sub {
    my %leaving = map { $_->{pid} => $_->{draining} }
                  @{$node->status->{processes}};
    !grep { alive($_) && !$leaving{$_} } @workers;
}, 10, 'late: the workers leave');
syswrite $_, "\r\n" for values %late;

for my $pid (@workers) {
    next if !alive($pid);
    my ($answer, $deadline) = ('', time + patience(5));
    while (time < $deadline && $answer !~ /0\r\n\r\n\z/) {
        sysread $late{$pid}, $answer, 4096, length $answer or last;
    }
    like($answer, qr/^HTTP\/1\.1 200 .*event: reconnect\n.*"status":"none"/s,
         'late: a stream that comes late is sent to the others');
}

is($quiet->idx('late'), undef, 'late: and takes no place');
$nodes->run_until(sub { !grep { alive($_) } @workers }, $drain + 15,
                  'late: the workers are gone');
$_->close for values %s, @stay;


# another binary takes over

my $upgrade = WaitingQueue::Nodes->new(
    nodes => 1, workers => 2, redis => start_redis(), daemon => 1,
    http => "waiting_queue_drain ${drain}s; waiting_queue_interval 50ms;",
    locations => { sale => 'waiting_queue_capacity 0;' });
($nodes, $node) = ($upgrade, $upgrade->node(0));

my $sale = $nodes->line('sale', 'e2');
my %u = map { $_->{user} => $_ } $sale->joins(map { "u$_" } 1 .. 20);
my @order = @{$sale->waiting};
my $master = $node->pid;

$node->forgive(qr/exited on signal/);
$node->signal('USR2');

my $new = wait_until {
    my ($pid) = slurp($node->{pid_file}) =~ /^(\d+)\n/;
    $pid && $pid != $master && alive($pid) ? $pid : 0;
} 10, 'upgrade: there is another master';

leave($sale, \%u, sub {
    kill QUIT => $master;
}, 'upgrade');
is_deeply($sale->waiting, \@order, 'upgrade: the line is as it was');
$node->adopt($new);
$node->wait_ready('upgrade: the new workers are ready');
$nodes->run_until(sub { $nodes->exact($sale, values %u) }, 10,
                  'upgrade: all ranks are exact');
$_->close for values %u;


# at once

my $now = WaitingQueue::Nodes->new(
    nodes => 1, workers => 2, redis => start_redis(),
    http => 'waiting_queue_drain 0;',
    locations => { sale => 'waiting_queue_capacity 0;' });
my @s = $now->line('sale', 'e3')->joins(map { "u$_" } 1 .. 30);

$now->node(0)->signal('HUP');
$now->run_until(sub { 30 == grep { $_->ended } @s }, 10,
                'drain 0: all streams end');
my @at = ends(@s);
cmp_ok(max(@at) - min(@at), '<', patience(1), 'drain 0: at once');
is(scalar(grep { my $r = $_->last->{retry}; $r < 3000 || $r > 6000 } @s), 0,
   'drain 0: to come back spread');


# who is told to come back is waited for, be the grace time what it will

for my $time ("${drain}s", 0) {
    my $what = "no grace, drain $time";

    $nodes = WaitingQueue::Nodes->new(
        nodes => 1, workers => 2, redis => start_redis(),
        http => "waiting_queue_drain $time; waiting_queue_interval 50ms;"
                . 'waiting_queue_promote_interval 100ms;'
                . 'waiting_queue_grace 0;',
        locations => {
            sale => 'waiting_queue_capacity 0;',
            open => 'waiting_queue_capacity 9; waiting_queue_release '
                    . 'disconnect;',
        });
    $node = $nodes->node(0);

    # the first who come are the first to be given up
    my $inside = $nodes->line('open', 'e5');
    my @in = $inside->joins('in', 'in.2', 'in.3');
    my $hasty = $nodes->line('sale', 'e4');
    my %h = map { $_->{user} => $_ } $hasty->joins(map { "u$_" } 1 .. 20);
    my @in_line = @{$hasty->waiting};

    # as if it was so for long: whoever is dead is found at once
    $nodes->call('HSET', 'PROMOTION_ROUND', since => 1);

    # as long as its stream may take to come again; the drain may take longer
    my $there = 0;
    leave($hasty, \%h, sub { $node->signal('HUP') }, $what,
          sub { $there = time if @{$inside->inside} == 3 });

    my $again = max(map { $_->ended_at + $_->last->{retry} / 1000 } @in);

    is_deeply($hasty->waiting, \@in_line, "$what: all have their places");
    ok($there >= $again || @{$inside->inside} == 3,
       "$what: a lease is waited for too");
    $nodes->run_until(sub { !@{$inside->inside} }, 20,
                      "$what: but not for ever");
    $_->close for values %h;
}

$now->finish;
