# Proves that no way in which a connection to Redis cannot be made, or ends, is
# more than an outage: the worker runs on and serves, the status names what is
# wrong, and the link is ready again by itself when Redis is.

use strict;
use warnings;

use IO::Socket::INET;
use Socket ();
use Test::More;
use WaitingQueue::Fault;


sub redis_at { return "waiting_queue_redis $_[0] timeout=300ms;" }

# of the two workers
my $links = 2 * link_names();


# Redis is not there, then it is

my $redis = WaitingQueue::Fault::Redis->new;
my $nginx = start_nginx(http => redis_at($redis->url));

wait_until { $nginx->has_trouble('connect_failed') } 5,
           'refused: every link says connect_failed';
wait_until { $nginx->sum('connectFailures', 'commands') >= 6 } 10,
           'refused: the tries go on';
$nginx->unharmed('while the connection is refused');
is($nginx->sum('connects', 'commands'), 0, 'refused: no connection counted');
is(scalar($nginx->log_lines(0, qr/link is down: connect_failed/)), $links,
   'refused: one line for each link of each worker');

$redis = start_redis(port => $redis->port);
$nginx->wait_ready('refused: ready by itself when Redis is there');
is($nginx->sum('connects', 'commands'), 2, 'refused: connected once each');
is($nginx->sum('reconnects', 'commands'), 0, 'refused: which was no reconnect');


# kill -9 of Redis, and another one in its place

my $mark = $nginx->mark;
my %lost = map { $_ => $nginx->sum('lost', $_) } qw(reader router);

$redis->kill9;
wait_until { $nginx->has_trouble('closed_by_redis|connect_failed') } 5,
           'kill -9 of Redis: noticed';
$nginx->unharmed('while Redis is dead');
ok($nginx->sum('lost', $_) > $lost{$_},
   "kill -9 of Redis: the read of the $_ is counted as lost")
    for sort keys %lost;

$redis->start;
$nginx->wait_ready('kill -9 of Redis: ready with the next one');
is($nginx->sum('reconnects', $_), 2, "kill -9 of Redis: reconnects of $_")
    for link_names();
is(scalar($nginx->log_lines($mark, qr/is well again/)), $links,
   'kill -9 of Redis: one line for each link when it is over');


# CLIENT KILL, of one link and of all

for my $link (link_names()) {
    my @others = grep { $_ ne $link } link_names();
    my $before = $nginx->sum('reconnects', $link);
    my %aside = map { $_ => $nginx->sum('reconnects', $_) } @others;

    for my $client (grep { $_->{name} =~ /:$link$/ } $redis->clients) {
        $redis->cli('CLIENT', 'KILL', 'ID', $client->{id});
    }

    wait_until { $nginx->sum('reconnects', $link) == $before + 2 } 5,
               "CLIENT KILL of $link: connected again";
    $nginx->wait_ready("CLIENT KILL of $link: well again");
    is($nginx->sum('reconnects', $_), $aside{$_},
       "CLIENT KILL of $link: the $_ link does not notice") for @others;
}

sub reconnects {
    my $sum = 0;
    $sum += $nginx->sum('reconnects', $_) for link_names();
    return $sum;
}

my $before = reconnects();
$redis->cli('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
wait_until { reconnects() == $before + $links } 5,
           'CLIENT KILL TYPE normal: all connected again';
$nginx->wait_ready('CLIENT KILL TYPE normal: well again');
is(scalar($redis->clients), $links,
   'Redis knows the living connections, no more');


# a unix socket that is not there, then is

my $local = WaitingQueue::Fault::Redis->new(socket => 1);
my $unix = start_nginx(http => redis_at('unix:' . $local->path));

wait_until { $unix->has_trouble('connect_failed') } 5,
           'unix: a path that is not there is connect_failed';
$unix->unharmed('while the path is not there');
ok(scalar($unix->log_lines(0, qr/connect_failed \(unix:.*No such file/)),
   'unix: the log names the path and the reason');
start_redis(%$local);
$unix->wait_ready('unix: ready when the path appears');


# a listener that takes nobody: its backlog is full

my $silent = IO::Socket::INET->new(LocalAddr => '127.0.0.1', LocalPort => 0,
                                   Listen => 1, ReuseAddr => 1);
my $port = $silent->sockport;
my @fillers = map { IO::Socket::INET->new(PeerAddr => '127.0.0.1',
                                          PeerPort => $port, Timeout => 0.2) }
              1 .. 3;
my $full = start_nginx(http => redis_at("redis://127.0.0.1:$port"));

wait_until { $full->has_trouble('connect_timeout') } 5,
           'full backlog: every link says connect_timeout';
wait_until { !grep { $full->sum('connectFailures', $_) < 4 } link_names() } 15,
           'full backlog: the tries go on';
$full->unharmed('while nobody is let in');

close $_ for $silent, grep { defined } @fillers;
my $late = start_redis(port => $port);
$full->wait_ready('full backlog: ready when somebody listens');


# a Redis that is stopped lets in, and does not answer

$before = $full->sum('connectFailures', 'commands');
my $connects = $full->sum('connects', 'commands');
$late->signal('STOP');
wait_until { $full->has_trouble('command_timeout', 'commands') } 8,
           'stopped Redis: command_timeout';
wait_until { $full->sum('connectFailures', 'commands') >= $before + 4 } 15,
           'stopped Redis: the tries go on, each to its timeout';
$full->unharmed('while Redis is stopped');
is($full->sum('connects', 'commands'), $connects,
   'stopped Redis: a connection that does nothing is not counted as made');
$late->signal('CONT');
$full->wait_ready('stopped Redis: ready when it goes on');


# more connections than Redis takes

my $crowded = start_redis(options => [maxclients => 3]);
my $session = $crowded->session;
is($crowded->ask($session, 'PING'), '+PONG', 'maxclients: the test is in');

my $crowd = start_nginx(http => redis_at($crowded->url));

wait_until { $crowd->log_lines(0, qr/link is down: max_clients/) } 10,
           'maxclients: the log says max_clients';
wait_until { my @links = $crowd->links;
             2 == grep { $_->{state} eq 'ready' } @links } 10,
           'maxclients: as many links are ready as Redis takes';
$crowd->unharmed('while Redis takes no more clients');
is($crowded->ask($session, 'CONFIG SET maxclients 100'), '+OK',
   'maxclients: raised');
$crowd->wait_ready('maxclients: ready when there is room');


# a Redis that closes at once

my $fake = start_fake(modes => { slam => { accept => sub { $_[0]->() } } });
$fake->mode('slam');
my $slammed = start_nginx(http => redis_at('redis://127.0.0.1:' . $fake->port));

wait_until { $slammed->has_trouble('closed_by_redis') } 5,
           'closed at once: every link says closed_by_redis';
wait_until { $slammed->sum('connectFailures', 'commands') >= 6 } 10,
           'closed at once: the tries go on';
$slammed->unharmed('while every connection is closed at once');
is(scalar($slammed->log_lines(0, qr/link is down/)), $links,
   'closed at once: one line for each link of each worker');
$fake->mode('good');
$slammed->wait_ready('closed at once: ready when it does not');
$fake->stop;
my $real = start_redis(port => $fake->port);
$slammed->wait_ready('closed at once: and with a real Redis');


# a name whose address changes; the name server knows others than nginx, which
# has asked the system when it started

my $dns = start_dns();
my $shared = free_port();
my $resolving = start_nginx(
    http => redis_at("redis://localhost:$shared")
            . 'resolver 127.0.0.1:' . $dns->port . ' valid=1s ipv6=off;'
            . 'resolver_timeout 1s;');

wait_until { $resolving->log_lines(0, qr/"localhost" could not be resolved/) }
           5, 'resolver: a name that is gone is logged';
wait_until { $resolving->has_trouble('connect_failed') } 5,
           'resolver: and the known address is tried again';
$resolving->unharmed('while the name has no address');

$dns->answer('127.0.0.3', '127.0.0.2');
my $second = start_redis(port => $shared, bind => '127.0.0.2');
$resolving->wait_ready('resolver: one of two addresses is ready', 15);

$dns->answer('127.0.0.4');
my $fourth = start_redis(port => $shared, bind => '127.0.0.4');
is(scalar(grep { $_->{name} } $fourth->clients), 0,
   'resolver: a link that is ready stays where it is');
$second->kill9;
$resolving->wait_ready('resolver: the link follows the name', 15);
is(scalar(grep { $_->{name} } $fourth->clients), $links,
   'resolver: to the new address, without a reload');
ok(scalar($resolving->log_lines(0, qr/well again \(127\.0\.0\.4:$shared\)/)),
   'resolver: the log tells which');

$dns->answer('silent');
$mark = $resolving->mark;
$fourth->kill9;
wait_until { $resolving->log_lines($mark, qr/could not be resolved.*timed/) }
           8, 'resolver: a name server that is silent is logged';
$fourth->start;
$resolving->wait_ready('resolver: the last known address is used', 15);
$resolving->unharmed('all along');

finish();
