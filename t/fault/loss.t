# What a node puts back after Redis has lost its data: what it knew before, and
# nothing that had ended by then.

use strict;
use warnings;

use Test::More;
use WaitingQueue::Nodes;

my $nodes = WaitingQueue::Nodes->new(
    nodes => 1, workers => 1,
    http => 'waiting_queue_interval 50ms; waiting_queue_promote_interval 50ms;',
    locations => {
        sale => 'waiting_queue_capacity 5;',
        untold => 'waiting_queue_capacity 0; waiting_queue_grace 500ms;',
        leave => 'waiting_queue_capacity 2; waiting_queue_grace 500ms;'
                 . 'waiting_queue_release disconnect;',
    });
my $node = $nodes->node(0);


# all is lost just behind a heartbeat: it takes a second until one tells

sub lose {
    $nodes->rounds(1, 'heartbeats');
    $nodes->call('FLUSHALL');
}


# seats were sold, and for a while nobody came: the first report of the event
# is one of after the loss

my $sale = $nodes->line('sale', 'e1');

for my $user (qw(a b)) {
    my $s = $sale->join($user);
    $sale->release($user, 'sold');
    $s->close;
}

$nodes->run_until(sub {
    my ($event) = grep { $_->{event} eq 'e1' } @{ $node->status->{events} };
    $event && $event->{sold} == 2;
}, 10, 'sold: the node knows of it');
$nodes->rounds(3, 'heartbeats');

lose();
my $c = $sale->join('c');
$nodes->run_until(sub { $sale->stat('sold') == 2 }, 10,
                  'sold: it is put back');
$nodes->run_until(sub { $c->token }, 15, 'sold: and people come in');
is_deeply([ $sale->wrong ], [], 'sold: the books are right');
$c->close;


$nodes->finish;
