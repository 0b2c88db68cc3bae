# What a node puts back after Redis has lost its data: what it knew before, and
# nothing that had ended by then.

use strict;
use warnings;

use IO::Socket::INET;
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
    },
    server => 'location = /gate { waiting_queue on; waiting_queue_event e1;'
              . ' waiting_queue_user $arg_user; waiting_queue_capacity 5;'
              . ' proxy_pass http://127.0.0.1:$server_port/behind; }'
              . 'location = /behind { return 200 behind; }');
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


# one of them comes in when it is lost, before that is seen

lose();

my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1',
                                   PeerPort => $node->port);
print $socket "GET /gate?user=c HTTP/1.0\r\n"
              . 'X-Waiting-Queue-Token: ' . $c->token . "\r\n\r\n";
like(join('', <$socket>), qr/^HTTP\S* 200 .*behind/s,
     'gate: who is known to the node comes in');
is($sale->lease('c')->{state}, 'entered', 'gate: and has entered by that');
$c->close;
$nodes->run_until(sub {
    my $until = $nodes->call('HGET', 'WAITING_ORIGIN', 'until');
    $until && $until < 1000 * time;
}, 15, 'gate: people are let in again');



# whoever asks by the API before it is seen has what he had

sub let_in_again {
    my $what = shift;

    $nodes->run_until(sub {
        my $until = $nodes->call('HGET', 'WAITING_ORIGIN', 'until');
        $until && $until < 1000 * time;
    }, 15, "$what: people are let in again");
}

sub api {
    my ($method, $user) = @_;

    my $answer = $nodes->sse->open($nodes->at(0), method => $method,
                                   path => "/api/sale/e5?user=$user");
    $nodes->run_until(sub { defined $answer->ended }, 10,
                      "$method of $user is answered");
    return $answer;
}

my $asks = $nodes->line('sale', 'e5');
my %token = map { $_ => api('POST', $_)->json->{token} } qw(a b c);

for my $case ([ GET => 'a' ], [ POST => 'b' ], [ DELETE => 'c' ]) {
    my ($method, $user) = @$case;

    lose();
    my $answer = api($method, $user);

    if ($method eq 'DELETE') {
        is($answer->status, 204, 'DELETE: the lease is given back');
        ok(!(grep { $_ eq $user } @{ $asks->inside }), 'DELETE: he is out');
    } else {
        is_deeply([ $answer->status, @{ $answer->json }{qw(status token)} ],
                  [ 200, 'entered', $token{$user} ], "$method: still in");
    }

    is_deeply($asks->waiting, [], "$method: nobody is in line");
    let_in_again($method);
    is_deeply([ $asks->wrong ], [], "$method: the books are right");
}

is_deeply([ sort @{ $asks->inside } ], [ qw(a b) ], 'API: who did not go is in');


# a seat that was sold since the last report

{
    my $seldom = WaitingQueue::Nodes->new(
        nodes => 1, workers => 1, redis => $nodes->redis, prefix => 'seldom:',
        # nobody waits, and nothing is reported of the event by itself
        http => 'waiting_queue_promote_interval 60s;',
        locations => { sale => 'waiting_queue_capacity 5;' },
        server => <<'END');
        location = /gate {
            waiting_queue on;
            waiting_queue_event e6;
            waiting_queue_user $arg_user;
            waiting_queue_capacity 5;
            proxy_pass http://127.0.0.1:$server_port/shop$is_args$args;
        }
        location = /shop { add_header X-Waiting-Queue $arg_say; return 200; }
END
    my $its = $seldom->node(0);
    my $line = $seldom->line('sale', 'e6');
    my $shows = sub {
        my ($event) = grep { $_->{event} eq 'e6' } @{ $its->status->{events} };
        return $event ? "$event->{sold} " . ($event->{seats} // 'none') : '';
    };

    $line->call('SET', $line->key('seat:count'), 5);
    is($its->get("/gate?user=$_")->{status}, 200, "$_ is in") for qw(a b c);
    is($its->get("/gate?user=$_&say=sold")->{status}, 200, "$_ buys")
        for qw(a b);
    $seldom->run_until(sub { $its->sum('visitsSold') == 2 }, 10,
                       'report: two are sold');
    is($shows->(), '2 3', 'report: the node knows of it at once');

    $seldom->call('FLUSHALL');
    $seldom->run_until(sub { $line->stat('sold') == 2 }, 10,
                       'report: and puts it back');
    is($line->call('GET', $line->key('seat:count')), 3, 'report: both seats');

    # another one while nobody is let in, and then all is lost once more
    is($its->get('/gate?user=c&say=sold')->{status}, 200, 'c buys');
    $seldom->run_until(sub { $line->stat('sold') == 3 }, 10,
                       'report: the third is sold');
    $seldom->rounds(1, 'heartbeats');
    cmp_ok($seldom->call('HGET', 'seldom:WAITING_ORIGIN', 'until'), '>',
           1000 * time, 'report: nobody is let in yet');
    $seldom->call('FLUSHALL');
    $seldom->run_until(sub { $line->stat('sold') == 3 }, 10,
                       'report: all three are put back');
    $seldom->rounds(2, 'heartbeats');
    is_deeply([ $line->stat('sold'),
                $line->call('GET', $line->key('seat:count')) ], [ 3, 2 ],
              'report: and no more than that');
    $its->stop;
    let_in_again('report');
}


# leases that were given back are not put back: of one who was not told, of one
# whose stream has ended, and of one who has gone by the API of another node

my $untold = $nodes->line('untold', 'e2');
my $leave = $nodes->line('leave', 'e3');
my $other = $nodes->line('sale', 'e4');

$untold->join('a')->close;
$untold->set(capacity => 1);
$nodes->run_until(sub { @{ $untold->inside } }, 10, 'untold: is let in');
my $kept = $leave->join('kept');
$leave->join('b')->close;
my $quit = $other->join('quit');
$nodes->run_until(sub { !grep { @$_ != 1 } $leave->inside, $other->inside }, 10,
                  'over: the lease of a stream that has ended');
$nodes->run_until(sub { !@{ $untold->inside } }, 10,
                  'over: one that was not told');
$other->script('quit', 'quit', 'e' x 64);
$nodes->run_until(sub { $quit->ended }, 10, 'over: one that was said to be');

lose();
$nodes->run_until(sub { "@{ $leave->inside }" eq 'kept' }, 10,
                  'over: one that is not, is put back');
$nodes->rounds(2, 'heartbeats');
is_deeply([ map { @{ $_->inside } } $untold, $leave, $other ], [ 'kept' ],
          'over: and no other');
is_deeply([ map { $_->wrong } $untold, $leave, $other ], [],
          'over: the books are right');
$kept->close;

$nodes->finish;
