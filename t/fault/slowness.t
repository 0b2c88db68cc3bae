# Proves that a Redis that is there but slow, busy or not ready yet holds up
# nobody: commands time out, the status says why, and what can be waited for is
# waited for on the connection that is there.

use strict;
use warnings;

use Test::More;
use WaitingQueue::Fault;


sub nginx_of {
    my ($redis, $timeout) = @_;
    return start_nginx(http => 'waiting_queue_redis ' . $redis->url
                               . " timeout=$timeout;");
}


sub ids { return join ' ', sort map { $_->{id} } grep { $_->{name} } @_ }


# each has a Redis of its own, so that the long waits run side by side

my $frozen = start_redis();
my $asleep = start_redis();
my $busy = start_redis(options => ['lua-time-limit' => 50]);
my $loading = start_redis();

my ($at_frozen, $at_asleep, $at_busy)
    = map { nginx_of($_, '300ms') } $frozen, $asleep, $busy;

# a Redis that loads looks at its connections but now and then, on a machine
# with much to do several times a second
my $at_loading = nginx_of($loading, '5s');

$_->wait_ready for $at_frozen, $at_asleep, $at_busy, $at_loading;


# SIGSTOP for longer than any timeout: looked at again at the end

my $stopped = time;
$frozen->signal('STOP');
wait_until { $at_frozen->has_trouble('command_timeout', 'commands') } 5,
           'SIGSTOP: the commands link says command_timeout';
ok(time - $stopped < patience(2),
   'SIGSTOP: which takes a heartbeat and the timeout');
ok($at_frozen->sum('timedOut', 'commands') >= 2,
   'SIGSTOP: the command is counted as timed out');
$at_frozen->unharmed('while Redis is stopped');


# DEBUG SLEEP, first one that is shorter than the timeout

my $session = $asleep->session;
my $heartbeats = $at_asleep->sum('heartbeats');

is($asleep->ask($session, 'DEBUG SLEEP 0.1'), '+OK', 'a short sleep is over');
wait_until { $at_asleep->sum('heartbeats') >= $heartbeats + 2 } 5,
           'short sleep: heartbeats go on';
is($at_asleep->sum($_, 'commands'), 0, "short sleep: no $_")
    for qw(reconnects timedOut lost);

print $session "DEBUG SLEEP 2\r\n";
$session->flush;
wait_until { $at_asleep->has_trouble('command_timeout', 'commands') } 5,
           'long sleep: command_timeout';
$at_asleep->unharmed('while Redis sleeps');
$at_asleep->wait_ready('long sleep: ready when it is over');
ok($at_asleep->sum('timedOut', 'commands') >= 2, 'long sleep: counted');
ok($at_asleep->sum('reconnects', 'commands') >= 2,
   'long sleep: on a new connection');


# a script of somebody else that does not end; a read that should end while
# Redis is busy cannot, so that it is the commands that are looked at

sub commands { return grep { $_->{name} =~ /:commands$/ } @_ }

my $mark = $at_busy->mark;
my $before = ids(commands($busy->clients));
$session = $busy->session;
print $session "EVAL \"while true do end\" 0\r\n";
$session->flush;
wait_until { $at_busy->has_trouble('busy_script', 'commands') } 5,
           'busy script: named';
ok($at_busy->has_state('loading_scripts', 'commands'),
   'busy script: the link waits');
my $sent = $at_busy->sum('sent', 'commands');
wait_until { $at_busy->sum('sent', 'commands') > $sent } 8,
           'busy script: and asks again';
$at_busy->unharmed('while Redis is busy');
is(scalar($at_busy->log_lines($mark, qr/commands link waits: busy_script/)), 2,
   'busy script: one line for each worker');
is($busy->cli('SCRIPT', 'KILL'), 'OK', 'busy script: killed');
$at_busy->wait_ready('busy script: ready when it is over');
is(ids(commands($busy->clients)), $before,
   'busy script: on the same connections');


# a Redis that loads its data

is($loading->cli('DEBUG', 'POPULATE', 3000), 'OK',
   'there is something to load');
is($loading->cli('SAVE'), 'OK', 'and it is saved');
$loading->kill9;
$loading->{options} = ['key-load-delay' => 1000,
                       'loading-process-events-interval-bytes' => 1024];
$loading->{wait} = 0;
$mark = $at_loading->mark;
$loading->start;
wait_until { $at_loading->has_trouble('loading')
             && $at_loading->has_state('loading_scripts') } 5,
           'loading: every link says so and waits';
$at_loading->unharmed('while Redis loads');
$before = ids($loading->clients);
my $failures = $at_loading->sum('connectFailures', 'commands');
$at_loading->wait_ready('loading: ready when it is over', 15);
is(ids($loading->clients), $before, 'loading: on the same connections');
is($at_loading->sum('connectFailures', 'commands'), $failures,
   'loading: without another try to connect');
is(scalar($at_loading->log_lines($mark, qr/link waits: loading/)),
   2 * link_names(),
   'loading: one line for each link');


# SIGSTOP again: a read that blocks for 5 s has been given up too by now

wait_until { $at_frozen->has_trouble('command_timeout') } 8,
           'SIGSTOP: the others say command_timeout';
$frozen->signal('CONT');
$at_frozen->wait_ready('SIGSTOP: ready when Redis goes on');
$at_frozen->unharmed('all along');

finish();
