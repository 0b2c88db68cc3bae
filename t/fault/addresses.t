# A host name may stand for several addresses, and they need not be in the same
# state: a master and its replica, a new server and an old one.  Trying them in
# turn must neither become a storm of connections nor a flood of log lines.

use strict;
use warnings;

use Test::More;
use WaitingQueue::Fault;

my $port = free_port();
my $dns = start_dns();

my $master = start_redis(port => $port, bind => '127.0.0.2');
my $replica = start_redis(port => $port, bind => '127.0.0.3');

# nobody is at the address that nginx finds when it starts
my $nginx = start_nginx(
    workers => 1,
    http => "waiting_queue_redis redis://localhost:$port timeout=500ms;"
            . 'resolver 127.0.0.1:' . $dns->port . ' valid=1s ipv6=off;');

$dns->answer('127.0.0.2', '127.0.0.3');
$nginx->wait_ready('one of the two is taken', 15);


# both let everybody in and take no command

$_->cli('REPLICAOF', '127.0.0.1', '1') for $master, $replica;

# in between the other one may still have been good for a moment
my $mark = $nginx->mark;

wait_until { $nginx->has_trouble('read_only') } 10,
           'both refuse: the status tells why';

my @before = ($nginx->sum('connects', 'commands'), time);

wait_until { $nginx->sum('connects', 'commands') >= $before[0] + 8 } 30,
           'both refuse: tries go on';

# 8 connections are 4 rounds of both addresses, and after each there is a pause
# of 50 ms or more
cmp_ok(time - $before[1], '>=', 0.15, 'both refuse: with pauses');

my $down = qr/commands link is down: read_only/;
cmp_ok(scalar($nginx->log_lines(0, $down)), '>=', 1,
       'both refuse: it is logged');
cmp_ok(scalar($nginx->log_lines($mark, $down)), '<=', 1,
       'both refuse: one line, not one for each try');


# one refuses commands, the other connections

$mark = $nginx->mark;
my $failures = $nginx->sum('connectFailures', 'commands');

$replica->kill9;

wait_until { $nginx->sum('connectFailures', 'commands') >= $failures + 4 } 30,
           'different troubles: tries go on';

# closed_by_redis may be one of them, if it died in the middle of a handshake
my %lines;
$lines{$_}++ for map { /commands link is down: (\w+)/ }
                 $nginx->log_lines($mark, qr/commands link is down/);
is_deeply([ grep { $lines{$_} > 1 } keys %lines ], [],
          'different troubles: a line for each kind, not for each turn');


# and one is good again

$master->cli('REPLICAOF', 'NO', 'ONE');
$nginx->wait_ready('one is good again', 15);
is(scalar(grep { $_->{name} } $master->clients), scalar link_names(),
   'and has all links');
$nginx->unharmed('all along');

finish();
