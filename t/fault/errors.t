# Proves that what Redis answers with an error is named in the status, logged
# once and not once for each command, costs the connection only where another
# connection may help, and is over when its cause is.

use strict;
use warnings;

use Test::More;
use WaitingQueue::Fault;


sub nginx_of {
    my ($redis, $more) = @_;
    return start_nginx(http => 'waiting_queue_redis ' . $redis->url
                               . ' timeout=500ms ' . ($more || '') . ';');
}


my $redis = start_redis(options => ['enable-protected-configs' => 'yes']);
my $nginx = nginx_of($redis);

$nginx->wait_ready;


# goes_on(what): heartbeats come through, of every worker

sub goes_on {
    my $what = shift;

    my $before = $nginx->sum('heartbeats');

    local $Test::Builder::Level = $Test::Builder::Level + 1;
    wait_until { $nginx->sum('heartbeats') >= $before + 3 } 6,
               "$what: heartbeats go on";
}


# Redis forgets the scripts

my $misses = $nginx->sum('scriptMisses', 'commands');
is($redis->cli('SCRIPT', 'FLUSH'), 'OK', 'SCRIPT FLUSH');
wait_until { $nginx->sum('scriptMisses', 'commands') > $misses } 5,
           'SCRIPT FLUSH: counted';
goes_on('SCRIPT FLUSH');
is($nginx->sum('failed', 'commands'), 0, 'SCRIPT FLUSH: no command failed');
ok($nginx->ready, 'SCRIPT FLUSH: no link is in trouble');

# by each worker, that of the heartbeat and that of the rounds
ok($nginx->sum('scriptMisses', 'commands') <= $misses + 2 * 2,
   'SCRIPT FLUSH: a script is sent whole but once');


# refused(trouble, break, heal): commands fail, the link stays

sub refused {
    my ($trouble, $break, $heal) = @_;

    my $begins = qr/commands link is refused commands: $trouble/;
    my $mark = $nginx->mark;
    my $reconnects = $nginx->sum('reconnects', 'commands');
    my $failed = $nginx->sum('failed', 'commands');

    $break->();
    wait_until { $nginx->has_trouble($trouble, 'commands') } 5,
               "$trouble: the commands link says so";
    wait_until { $nginx->sum('failed', 'commands') >= $failed + 4 } 8,
               "$trouble: each failure is counted";
    ok($nginx->has_state('ready', 'commands'),
       "$trouble: the link stays ready");
    $nginx->unharmed("during $trouble");

    $heal->();
    $nginx->wait_ready("$trouble: over");
    goes_on($trouble);
    is($nginx->sum('reconnects', 'commands'), $reconnects,
       "$trouble: on the same connection");
    is(scalar($nginx->log_lines($mark, $begins)), 2,
       "$trouble: one line for each worker when it begins");
    is(scalar($nginx->log_lines($mark, qr/commands link is well again/)), 2,
       "$trouble: and one when it is over");
}

sub config { is($redis->cli('CONFIG', 'SET', @_), 'OK', "CONFIG SET @_") }

refused('out_of_memory', sub { config('maxmemory', 1) },
                         sub { config('maxmemory', 0) });

refused('too_few_replicas', sub { config('min-replicas-to-write', 1) },
                            sub { config('min-replicas-to-write', 0) });

refused('cannot_persist',
        sub {
            my $dir = "$redis->{dir}/gone";
            mkdir $dir;
            config('dir', $dir);
            rmdir $dir;
            config('save', '3600 1');
            $redis->cli('BGSAVE');
            wait_until { $redis->info('rdb_last_bgsave_status') eq 'err' } 5,
                       'Redis could not save';
        },
        sub { config('save', ''); config('dir', $redis->{dir}) });


# a key of another kind: the business of whoever uses it, not of the link

my $mark = $nginx->mark;
my $failed = $nginx->sum('failed', 'router');
my $reconnects = $nginx->sum('reconnects', 'commands');

$redis->cli('DEL', 'ENTRY');
$redis->cli('SET', 'ENTRY', 'nonsense');
wait_until { $nginx->sum('failed', 'router') >= $failed + 6 } 15,
           'wrong type: the failures are counted';
ok($nginx->has_state('ready'), 'wrong type: the links stay ready');
is(scalar($nginx->log_lines($mark, qr/answered with an error.*WRONGTYPE/)),
   2, 'wrong type: one line for each worker, not for each failure');
$nginx->unharmed('with a key of a wrong type');
$redis->cli('DEL', 'ENTRY');
goes_on('wrong type');
$nginx->wait_ready('wrong type: nothing is left of it');
is($nginx->sum('reconnects', 'commands'), $reconnects,
   'wrong type: on the same connection');

my ($instance) = map { $_->{instance} } $nginx->rows;

for my $case (['reader', "DISPATCH:{$instance}"], ['router', 'ENTRY']) {
    my ($link, $stream) = @$case;
    my $sent = $nginx->sum('sent', $link);

    is($redis->cli('TYPE', $stream), 'stream', "the stream of the $link");
    $redis->cli('SET', $stream, 'nonsense');
    $failed = $nginx->sum('failed', $link);
    wait_until { $nginx->sum('failed', $link) >= $failed + 2 } 10,
               "wrong type of the stream of the $link: counted";
    ok($nginx->sum('sent', $link) - $sent < 20,
       "wrong type of the stream of the $link: not asked at full speed");
    $redis->cli('DEL', $stream);
    wait_until { $redis->cli('TYPE', $stream) eq 'stream' } 5,
               "wrong type of the stream of the $link: it is made anew";
}


# all data gone

is($redis->cli('FLUSHALL'), 'OK', 'FLUSHALL');
wait_until { $redis->cli('ZCARD', 'WAITING_INSTANCES') eq 2
             && 3 == grep { /^DISPATCH|^ENTRY$/ }
                     split /\n/, $redis->cli('KEYS', '*') } 8,
           'FLUSHALL: instances and streams are back';
goes_on('FLUSHALL');
ok($nginx->ready, 'FLUSHALL: no link is in trouble');


# Redis becomes a replica

$mark = $nginx->mark;
my $connections = $redis->info('total_connections_received');
my $began = time;
is($redis->cli('REPLICAOF', '127.0.0.1', free_port()), 'OK', 'REPLICAOF');
wait_until { $nginx->has_trouble('read_only') } 8,
           'read only: every link says so';
$reconnects = $nginx->sum('reconnects', 'commands');

# as many as it takes for the delays to grow: the first are short
wait_until { $nginx->sum('reconnects', 'commands') >= $reconnects + 12 } 40,
           'read only: another connection is tried, again and again';
$nginx->unharmed('while Redis is a replica');
my $rate = ($redis->info('total_connections_received') - $connections)
           / (time - $began);
ok($rate < 40, 'read only: with growing delays')
    or diag("$rate connections a second");
is($redis->cli('REPLICAOF', 'NO', 'ONE'), 'OK', 'REPLICAOF NO ONE');
$nginx->wait_ready('read only: over');
goes_on('read only');
ok(scalar($nginx->log_lines($mark, qr/is down: read_only/))
   <= 4 * link_names(),
   'read only: not a line for each try')
    or diag($nginx->log_lines($mark));


# a password that is another one

my $guarded = start_redis(options => [requirepass => 'right-one'],
                          password => 'right-one');
my $session = $guarded->session;
is($guarded->ask($session, 'AUTH right-one'), '+OK', 'the test is in');
my $guessing = nginx_of($guarded, 'password=wrong-one');

wait_until { $guessing->has_trouble('wrong_password') } 5,
           'wrong password: every link says so';
wait_until { $guessing->sum('connectFailures', 'commands') >= 6 } 10,
           'wrong password: the tries go on';
$guessing->unharmed('with a wrong password');
is(scalar($guessing->log_lines(0, qr/link is down: wrong_password/)),
   2 * link_names(),
   'wrong password: one line for each link');
is(scalar($guessing->log_lines(0, qr/wrong-one/)), 0,
   'wrong password: which is not in the log');
is($guarded->ask($session, 'CONFIG SET requirepass wrong-one'), '+OK',
   'the password is changed');
$guessing->wait_ready('wrong password: ready when it is the right one');


# a password that nginx does not have

is($guarded->ask($session, 'CONFIG SET requirepass right-one'), '+OK',
   'the password is changed again');
my $ignorant = nginx_of($guarded);
wait_until { $ignorant->has_trouble('no_auth') } 5,
           'no password: every link says so';
$ignorant->unharmed('without a password');
is($guarded->ask($session, 'CONFIG SET requirepass ""'), '+OK',
   'no password is wanted any more');
$ignorant->wait_ready('no password: ready without one');


# a user with too few rights, step by step to enough of them

my $listed = start_redis();
my @user = qw(ACL SETUSER waiting on >secret ~*);
is($listed->cli(@user, qw(+@connection -client)), 'OK', 'a user of few rights');
my $humble = nginx_of($listed, 'user=waiting password=secret');

wait_until { $humble->has_trouble('no_permission', 'commands') } 5,
           'few rights: SCRIPT LOAD is refused';
wait_until { $humble->sum('connectFailures', 'commands') >= 4 } 10,
           'few rights: tried again';
$humble->unharmed('without the right to load scripts');
is($listed->cli(qw(ACL SETUSER waiting +script)), 'OK', 'scripts are allowed');
wait_until { $humble->has_state('ready')
             && $humble->has_trouble('no_permission') } 10,
           'few rights: ready, and each command is refused';
is($listed->cli(qw(ACL SETUSER waiting +evalsha +eval +@stream +@sortedset
                       +time +hmget +hset)), 'OK', 'and what a heartbeat needs');
wait_until { $humble->sum('heartbeats') >= 4
             && $humble->has_state('ready')
             && $humble->has_trouble('no_permission', 'commands')
             && !grep { $_->{trouble} } $humble->links('reader'),
                                        $humble->links('router') } 10,
           'few rights: heartbeats and reads, and the rest is refused';
is($listed->cli(qw(ACL SETUSER waiting +@hash +@list +@set +@string +del
                       +unlink +exists +type +pttl)), 'OK',
   'the rest is allowed');
$humble->wait_ready('few rights: enough, without that to give itself a name');

$failed = $humble->sum('failed', 'commands');
my $rounds = $humble->sum('promoteRounds');
wait_until { $humble->sum('promoteRounds') >= $rounds + 2 } 10,
           'few rights: rounds of promotion are led';
is($humble->sum('failed', 'commands'), $failed,
   'few rights: nothing is refused any more');
is(scalar($humble->log_lines(0, qr/commands link is refused commands/)), 2,
   'few rights: all of it was one line for each worker');

finish();
