# Proves that a visitor whose browser runs no script waits and gets in just as
# well: the page loads itself again, and that keeps the place.

use strict;
use warnings;

use Test::More;
use WaitingQueue::Browser;
use WaitingQueue::Fault qw(wait_until);
use WaitingQueue::Shop;


my $shop = WaitingQueue::Shop->new(
    locations => { one => 'waiting_queue_capacity 1;' });
my @at = ('one', 'concert');
my $url = $shop->url(@at);
my $line = $shop->line('concert');
my ($inside, @crowd) = $shop->come(@at, 2);

my $browser = start_browser(javascript => 0);
my $tab = $browser->tab->open($url);

$tab->shows(qr/You are number 2 in line Ahead of you 1 Behind you 0 Time left/,
            'there is a place, after a while');

my $id = $browser->cookies($url)->{wq_uid};
my $idx = $line->idx($id);

is($line->rank($id), 1, 'it is in line');
like($tab->text, qr/This page refreshes every \d+ seconds\./,
     'the page says that it refreshes');
ok($tab->visible('noscript'), 'no script runs');
ok(!$tab->visible('#link, #bar, #alarm'), 'what needs one is not shown');
ok(!$tab->visible('#cookies'), 'nor is there a word of cookies');
is($shop->opened, 0, 'there was never a stream');
$tab->screenshot('plain-waiting');

$shop->leave(@at, $inside);
$tab->shows(qr/You are number 1 in line/, 'the number falls, by itself');
is($line->idx($id), $idx, 'the same place');

# by hand, as the page offers
$tab->click('noscript a');
$tab->shows(qr/You are number 1 in line/, 'also by hand');
is($line->idx($id), $idx, 'the same place still');

$shop->leave(@at, $crowd[0]);
$tab->shows(qr/Welcome to the shop/, 'let in, by itself');
is(join(' ', @{$line->inside}), $id, 'it is inside');

$tab->click('#buy');
$tab->shows(qr/The ticket is yours/, 'and buys');
wait_until { $line->stat('sold') == 1 } 30, 'it is sold';

$shop->call('SET', 'seat:count:{concert}', 0);
$tab->open($url);
$tab->shows(qr/^Sold out/, 'sold out is shown too');

finish();
