# After Redis has lost its data the places are put back while nobody is let in:
# however seldom positions are told, and whoever goes away meanwhile.

use strict;
use warnings;

use Test::More;
use WaitingQueue::Nodes;

my $nodes = WaitingQueue::Nodes->new(
    nodes => 1, workers => 1, http => 'waiting_queue_interval 30s;',
    locations => { sale => 'waiting_queue_capacity 0;' });


# all is lost just behind a heartbeat: it takes a second until one tells

sub lose {
    $nodes->rounds(1, 'heartbeats');
    $nodes->call('FLUSHALL');
}


my $line = $nodes->line('sale', 'e1');
my @s = $line->joins(qw(a b));

lose();
$nodes->run_until(sub { "@{ $line->waiting }" eq 'a b' }, 10,
                  'a long interval: the places are put back');
cmp_ok($nodes->call('HGET', 'WAITING_ORIGIN', 'until'), '>', 1000 * time,
       'a long interval: in time');
is_deeply([ $line->wrong ], [], 'a long interval: the books are right');

$nodes->finish;
