# Proves that who gets no stream, as waiting_queue_max_streams are open, waits
# with the same page as well: it asks for the position now and then, keeps the
# place, takes the stream when there is one, and gets in in any case; and the
# same where it is limit_conn that refuses the stream.

use strict;
use warnings;

use Test::More;
use WaitingQueue::Browser;
use WaitingQueue::Fault qw(wait_until);
use WaitingQueue::Shop;


# one worker, which has room for one; who is silent for 20 s is not kept

my $shop = WaitingQueue::Shop->new(
    workers => 1,
    http => 'waiting_queue_max_streams 1;',
    locations => { one => 'waiting_queue_capacity 1; '
                          . 'waiting_queue_poll_timeout 20s;' });
my $nginx = $shop->nginx;
my @at = ('one', 'concert');
my $url = $shop->url(@at);
my $line = $shop->line('concert');
my ($inside) = $shop->come(@at, 1);

my $ann = start_browser(name => 'Ann');
my $here = $ann->tab->open($url);

$here->shows(qr/\bLive\b.*You are number 1 in line/, 'Ann has the stream');

my $ann_id = $ann->cookies($url)->{wq_uid};


# Ben is refused, and polls

my $ben = start_browser(name => 'Ben');
my $there = $ben->tab->open($url);

# a stream that was refused, and the JSON
$ben->expect(qr/^\Q$url\E - .* with a status of 503 /);

$there->shows(qr/Updated every few seconds.*You are number 2 in line/,
              'Ben is told his number without a stream');
$there->screenshot('polls-waiting');
ok(!$there->visible('.live, .lost'), 'and nothing that is not so');
cmp_ok($nginx->sum('streamsRefused'), '>=', 1, 'a stream was refused');
is($shop->streams, 1, 'one is open');

my $ben_id = $ben->cookies($url)->{wq_uid};
my $idx = $line->idx($ben_id);

is(join(' ', @{$line->waiting}), "$ann_id $ben_id", 'that is the line');


# the number falls; nobody loads the page anew

$there->run('window.same = 1');
$shop->leave(@at, $inside);
$here->shows(qr/Welcome to the shop/, 'Ann is let in');
$there->shows(qr/You are number 1 in line/, 'Ben is told that he is the first');
is($line->idx($ben_id), $idx, 'in the same place');


# Ann's stream has ended: there is room

$there->shows(qr/\bLive\b.*You are number 1 in line/, 'Ben gets a stream');
is($there->run('return window.same'), 1, 'on the same page');
is($there->run('return polling'), 0, 'and polls no more');
is($shop->streams, 1, 'it is the one there may be');
is($line->idx($ben_id), $idx, 'with the place he had');


# and Carl, who never gets one: he is kept for longer than who says nothing,
# and gets in by asking

my $carl = start_browser(name => 'Carl');
my $third = $carl->tab->open($url);

$carl->expect(qr/^\Q$url\E - .* with a status of 503 /);
$third->shows(qr/Updated every few seconds.*You are number 2 in line/,
              'Carl polls');

my $carl_id = $carl->cookies($url)->{wq_uid};

$idx = $line->idx($carl_id);

# what is so after 25 s cannot be seen before
my $asked = $nginx->sum('gateKeptBack');
my $until = time + 25;

wait_until { time > $until && $nginx->sum('gateKeptBack') >= $asked + 5 } 60,
           'he asks for longer than silence is allowed';
is($line->idx($carl_id), $idx, 'and has the place still');

# a stream that never opens, so that it is not by the room that Ben leaves
$third->run(<<'END');
closeStream();
window.EventSource = function () {
    return { readyState: 2, close() {}, addEventListener() {} };
};
EventSource.OPEN = 1;
check();
END
$shop->leave(@at, $ann_id);
$there->shows(qr/Welcome to the shop/, 'Ben is let in');
$shop->leave(@at, $ben_id);
$third->shows(qr/Welcome to the shop/, 'Carl is let in, by asking');
is(join(' ', @{$line->inside}), $carl_id, 'it is Carl');
is($nginx->sum('streamsOpened'), 2, 'who has never had a stream');
is($line->stat('joined'), 4, 'nobody has come twice');
is_deeply([ $line->wrong ], [], 'slots and people are in order');


# the same where nginx refuses the stream: an address has as many as it may

my $narrow = WaitingQueue::Shop->new(
    workers => 1,
    http => 'map $http_accept $stream_of {
                 default "";
                 ~*text/event-stream $remote_addr;
             }
             limit_conn_zone $stream_of zone=streams:1m;
             limit_conn_status 429;',
    locations => { one => 'waiting_queue_capacity 1; '
                          . 'limit_conn streams 1;' });

$url = $narrow->url(@at);
$line = $narrow->line('concert');
($inside) = $narrow->come(@at, 1);
$here = $ann->tab->open($url);
$here->shows(qr/\bLive\b.*You are number 1 in line/, 'limit: Ann has it');

$ben->expect(qr/^\Q$url\E - .* with a status of (?:429|503) /);
$there = $ben->tab->open($url);
$there->shows(qr/Updated every few seconds.*You are number 2 in line/,
              'limit: Ben polls');
$ben_id = $ben->cookies($url)->{wq_uid};
$idx = $line->idx($ben_id);
$narrow->leave(@at, $inside);
$here->shows(qr/Welcome to the shop/, 'limit: Ann is let in');
$there->shows(qr/\bLive\b.*You are number 1 in line/,
              'limit: Ben gets a stream');
is($line->idx($ben_id), $idx, 'limit: with the place he had');

finish();
