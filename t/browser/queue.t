# Proves what the waiting room is for: a visitor waits, sees the position fall,
# is let in and buys; the next one waits on, and gets in when somebody leaves;
# when the last ticket is bought there is nothing left to wait for.

use strict;
use warnings;

use Test::More;
use WaitingQueue::Browser;
use WaitingQueue::Fault qw(wait_until);
use WaitingQueue::Shop;


my $shop = WaitingQueue::Shop->new(
    locations => { two => 'waiting_queue_capacity 2;' });
my @at = ('two', 'concert');
my $url = $shop->url(@at);
my $line = $shop->line('concert');


# two tickets, two at the counter, three in line

$shop->call('SET', 'seat:count:{concert}', 2);

my ($first, $second, @crowd) = $shop->come(@at, 5);

is(join(' ', @{$line->waiting}), "@crowd", 'there is a line already');


# the visitors

my $ann = start_browser(name => 'Ann');
my $here = $ann->tab->open($url);

$here->shows(qr/You are number 4 in line/, qr/Ahead of you 3/, qr/\bLive\b/,
             'Ann is told her number');

my $ann_id = $ann->cookies($url)->{wq_uid};

like($ann_id, qr/^[0-9a-f]{32}$/, 'she has got an id');
is($line->rank($ann_id), 3, 'it is the place that she has');
ok($here->run('return document.cookie') eq '', 'no script sees it');
like($here->title, qr/^4 /, 'the title says it too');
is($shop->streams, 1, 'the page has a stream');

my $ben = start_browser(name => 'Ben');
my $there = $ben->tab->open($url);

$there->shows(qr/You are number 5 in line/, qr/Ahead of you 4/,
              qr/Behind you 0/, 'Ben is behind her');

my $ben_id = $ben->cookies($url)->{wq_uid};

is(join(' ', @{$line->waiting}), "@crowd $ann_id $ben_id",
   'that is the line');
$here->screenshot('queue-waiting');


# the position falls; what is seen meanwhile is remembered

$here->run(<<'END');
const seen = window.seen = [];
const look = () => {
    const n = document.querySelector('h1[lang=en] b').innerText;
    if (n !== seen[seen.length - 1]) seen.push(n);
};
look();
new MutationObserver(look).observe(document.body,
    { attributes: true, subtree: true, childList: true });
END

for my $n (3, 2, 1) {
    $shop->leave(@at, $n == 3 ? $first : $crowd[2 - $n]);
    $here->shows(qr/You are number $n in line/, "Ann is number $n");
    $there->shows(qr/You are number ${\ ($n + 1)} in line/,
                  'and Ben behind her');
}

is(join(' ', @{$here->run('return seen')}), '4 3 2 1',
   'she has seen it fall, one by one');
$here->shows(qr/Ahead of you 0/, 'nobody is ahead of her');
like($here->title, qr/^1 /, 'the title has followed');
is($here->run(q(return document.getElementById('bar').ariaValueNow)), 80,
   'and so has the bar');
$here->screenshot('queue-first');


# let in

$shop->leave(@at, $crowd[2]);
$here->shows(qr/Welcome to the shop/, 'Ann is let in, by herself');
is($here->url, $url, 'at the same address');
is(join(' ', @{$line->inside}), join(' ', sort $second, $ann_id),
   'she is inside');
is(join(' ', @{$line->waiting}), $ben_id, 'Ben is alone in line');
is(scalar keys %{$ann->cookies($url)}, 2, 'she has got a token');
$there->shows(qr/You are number 1 in line/, qr/\bLive\b/, 'Ben waits on');


# she buys: a ticket less, and no slot for the next

$here->click('#buy');
$here->shows(qr/The ticket is yours/, 'Ann buys');
wait_until { $line->stat('sold') == 1 } 30, 'it is sold';
is($shop->call('GET', 'seat:count:{concert}'), 1, 'one ticket is left');
is(join(' ', @{$line->inside}), $second, 'her visit is over');
is_deeply([ $line->wrong ], [], 'slots and people are in order');
is(scalar keys %{$ann->cookies($url)}, 1, 'her token is gone');
$there->shows(qr/You are number 1 in line/, qr/\bLive\b/,
              'Ben waits: that ticket was not for him');


# the next one

$shop->leave(@at, $second);
$there->shows(qr/Welcome to the shop/, 'the next one gets in');
is(join(' ', @{$line->inside}), $ben_id, 'it is Ben');


# the last ticket; somebody is in line

$here->open($url);
$here->shows(qr/You are number 1 in line/, qr/\bLive\b/,
             'Ann wants one more');
$there->screenshot('queue-inside');
$there->click('#buy');
$there->shows(qr/The ticket is yours/, 'Ben buys the last one');
$here->shows(qr/^Sold out/, 'Ann is told that there is none left');
$here->screenshot('queue-sold-out');
wait_until { !@{$line->waiting} && !@{$line->inside} } 30,
           'nobody waits for nothing';
is($shop->call('GET', 'seat:count:{concert}'), 0, 'no ticket is left');
is($line->stat('sold'), 2, 'two were sold');
wait_until { $shop->streams == 0 } 30, 'no stream is left';

$there->open($url);
$there->shows(qr/^Sold out/, 'and so it is for whoever comes');

finish();
