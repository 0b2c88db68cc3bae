# The worker that puts back what its node knows, after Redis has lost its data,
# goes away before it is ready: by a reload, killed, or with its node.

use strict;
use warnings;

use Test::More;
use WaitingQueue::Nodes;

my $users = 2000;

my $nodes = WaitingQueue::Nodes->new(
    nodes => 1, workers => 1,
    http => 'waiting_queue_zone 4m; waiting_queue_drain 0;',
    locations => { sale => "waiting_queue_capacity $users;" },
    server => 'location = /gate { waiting_queue on; waiting_queue_event e1;'
              . " waiting_queue_capacity $users;"
              . ' waiting_queue_user $arg_user;'
              . ' proxy_pass http://127.0.0.1:$server_port/behind; }'
              . 'location = /behind { return 200 behind; }');
my $node = $nodes->node(0);
my $line = $nodes->line('sale', 'e1');


# all is lost just behind a heartbeat, and some of it is put back

sub lose {
    my $what = shift;

    $nodes->rounds(1, 'heartbeats');
    $nodes->call('FLUSHALL');
    $nodes->run_until(sub { @{ $line->inside } }, 10, "$what: it has begun");
}


sub all_inside {
    my $what = shift;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    $nodes->run_until(sub { @{ $line->inside } == $users }, 10,
                      "$what: all leases are put back");
    is_deeply([ $line->wrong ], [], "$what: the books are right");
}


http_get($node->port, "/gate?user=u$_") for 1 .. $users;
is(scalar @{ $line->inside }, $users, 'all are inside');

lose('killed');
$node->kill_worker(($node->workers)[0]);
all_inside('killed');

lose('reload');
$node->signal('HUP');
all_inside('reload');

lose('quit');
$node->stop;
all_inside('quit');

$nodes->finish;
