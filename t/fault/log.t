# Proves that an outage is a few lines in the log and not a flood: one line for
# each link of each worker when it begins and one when it is over, whatever the
# number of tries and requests in between.

use strict;
use warnings;

use Test::More;
use WaitingQueue::Fault;


sub nginx_at {
    my $port = shift;
    return start_nginx(
        http => "waiting_queue_redis redis://127.0.0.1:$port timeout=200ms;");
}

my $down = qr/link (?:is down|waits|is refused commands):/;
my $well = qr/link is well again/;


# by worker, link and kind

sub tally {
    my ($nginx, $mark, $pattern) = @_;

    my %tally;

    for my $line ($nginx->log_lines($mark, $pattern)) {
        my ($pid, $link) = $line =~ / (\d+)#\d+: .* (\w+) link /;
        $tally{"$pid $link"}++;
    }

    return \%tally;
}


sub once {
    my $nginx = shift;
    return { map { my $pid = $_; map { ("$pid $_" => 1) } link_names() }
             $nginx->workers };
}


# three outages side by side, for 5 s: nobody listens, nobody answers, and
# somebody who is never the same

my $dead = start_redis();
my $mute = start_redis();
my $turn = 0;
my $moody = start_fake(modes => { moods => { accept => sub {
    my $say = shift;
    $say->("-ERR mood\r\n") if $turn % 3 == 1;
    $say->("nonsense\r\n") if $turn % 3 == 2;
    $say->() if $turn++ % 3 == 0;
} } });

my $at_dead = nginx_at($dead->port);
my $at_mute = nginx_at($mute->port);
my $at_moody = nginx_at($moody->port);

$_->wait_ready for $at_dead, $at_mute, $at_moody;

for my $nginx ($at_dead, $at_mute, $at_moody) {
    is_deeply(tally($nginx, 0, qr/link is up/), once($nginx),
              'a first connection is one line for each link');
}

my %mark = map { $_->port => $_->mark } $at_dead, $at_mute, $at_moody;
my %tries = map { $_->port => $_->sum('connectFailures', 'commands') }
            $at_dead, $at_mute, $at_moody;
my $end = time + 5;
my $requests = 0;

$dead->kill9;
$mute->signal('STOP');
$moody->mode('moods');

while (time < $end) {
    for my $nginx ($at_dead, $at_mute, $at_moody) {
        $requests++ if $nginx->ok && $nginx->get('/status');
    }
}

ok($requests > 30, "$requests requests were served during the outage");

# the longest of all: a read that blocks for 5 s
wait_until { $at_mute->has_trouble('command_timeout') } 8,
           'the outage is known to all';

for my $nginx ($at_dead, $at_mute, $at_moody) {
    my $count = $nginx->sum('connectFailures', 'commands')
                - $tries{ $nginx->port };
    ok($count >= 6, "there were $count tries");
}

$dead->start;
$mute->signal('CONT');
$moody->mode('good');
$_->wait_ready for $at_dead, $at_mute, $at_moody;

# an end of the connection, and then another reason why there is no other
my $lines = $at_dead->log_lines($mark{ $at_dead->port }, $down);
ok($lines <= 4 * link_names(),
   "dead: $lines lines when it begins, two for each link at most");
is_deeply(tally($at_dead, $mark{ $at_dead->port }, $well), once($at_dead),
          'dead: one for each link when it is over');

is_deeply(tally($at_mute, $mark{ $at_mute->port }, $down), once($at_mute),
          'mute: one line for each link when it begins');
is_deeply(tally($at_mute, $mark{ $at_mute->port }, $well), once($at_mute),
          'mute: one for each link when it is over');

$lines = $at_moody->log_lines($mark{ $at_moody->port }, $down);
ok($lines <= 8 * link_names(),
   "moody: $lines lines, a few for each link and not one a try");
is_deeply(tally($at_moody, $mark{ $at_moody->port }, $well), once($at_moody),
          'moody: one for each link when it is over');

finish();
