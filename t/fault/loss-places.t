# After Redis has lost its data the places are put back while nobody is let in:
# however seldom positions are told, and whoever goes away meanwhile.

use strict;
use warnings;

use Test::More;
use WaitingQueue::Nodes;

my $nodes = WaitingQueue::Nodes->new(
    nodes => 1, workers => 1, http => 'waiting_queue_interval 30s;',
    locations => {
        sale => 'waiting_queue_capacity 0;',
        brief => 'waiting_queue_capacity 0; waiting_queue_grace 100ms;',
    });


# all is lost just behind a heartbeat: it takes a second until one tells

sub lose {
    $nodes->rounds(1, 'heartbeats');
    $nodes->call('FLUSHALL');
}


my $line = $nodes->line('brief', 'e1');
my @s = $line->joins(qw(a b));

lose();
$nodes->run_until(sub { "@{ $line->waiting }" eq 'a b' }, 10,
                  'a long interval: the places are put back');
cmp_ok($nodes->call('HGET', 'WAITING_ORIGIN', 'until'), '>', 1000 * time,
       'a long interval: in time');
is_deeply([ $line->wrong ], [], 'a long interval: the books are right');

$_->close for @s;


# one goes away when the loss is known, and before anybody has asked for him

my $away = $nodes->line('sale', 'e2');
my ($stays, $goes) = $away->joins(qw(c d));
my $absent = sub { (grep { $_->{absent} } $nodes->node(0)->rows) > 0 };

$nodes->run_until(sub { !$absent->() }, 10, 'away: nobody was before');
$nodes->call('ACL', 'SETUSER', 'default', '-zrank');
lose();
$nodes->run_until(sub {
    ($nodes->call('HGET', 'WAITING_ORIGIN', 'until') || 0) > 0;
}, 10, 'away: the loss is seen');
$nodes->rounds(1, 'heartbeats');
$goes->close;
$nodes->run_until($absent, 10, 'away: one has gone');
$nodes->call('ACL', 'SETUSER', 'default', '+zrank');
$nodes->run_until(sub { "@{ $away->waiting }" eq 'c d' }, 10,
                  'away: and has his place all the same');
$nodes->run_until(sub { !$away->wrong }, 10, 'away: the books are right');
$stays->close;

$nodes->finish;
