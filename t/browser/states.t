# Proves that a visitor is told why nobody is let in: closed, sold out, full;
# both who comes then and who waits already; and that a page of one's own
# (waiting_queue_page) is shown, filled in, and lives.

use strict;
use warnings;

use Test::More;
use WaitingQueue::Browser;
use WaitingQueue::Fault qw(wait_until spew slurp);
use WaitingQueue::Shop;


# a name in braces for each value, and a stream

my $page = WaitingQueue::Fault::_directory('page') . '/own.html';

spew($page, <<'END');
<!DOCTYPE html>
<html lang="{{lang}}">
<meta charset="utf-8">
<title>Our own page</title>
<link rel="icon" href="data:,">
<body data-state='{{state}}'>
<h1>Our own page for {{event}}</h1>
<p>You came by {{method}} and are {{status}}: <b>{{position}}</b> of
{{total}}, {{ahead}} ahead, {{behind}} behind, {{eta}} s to go.</p>
<p>Without JavaScript ask again in {{refresh}} s. Two braces: { {.</p>
<p id="live"></p>
<script>
const source = new EventSource(location.href);
source.addEventListener('position', e => {
    const n = JSON.parse(e.data).waitingPosition;
    document.getElementById('live').textContent = 'Live: ' + n;
});
source.addEventListener('promoted', () => location.reload());
</script>
END

my $shop = WaitingQueue::Shop->new(
    locations => {
        one => 'waiting_queue_capacity 1;',
        two => 'waiting_queue_capacity 1; waiting_queue_max_waiting 2;',
        own => "waiting_queue_capacity 1; waiting_queue_page $page;",
    });
my $browser = start_browser();
my ($tab, $other) = ($browser->tab, $browser->tab);


# closed by the operator

{
    my @at = ('one', 'closed');
    my $line = $shop->line('closed');

    $shop->come(@at, 1);
    $tab->open($shop->url(@at));
    $tab->shows(qr/\bLive\b.*You are number 1 in line/, 'closed: one waits');
    $line->set(closed => 1);
    $tab->shows(qr/^The line is closed The organiser has closed it\./,
                'closed: who waits is told');
    wait_until { $shop->streams == 0 } 30, 'closed: there is no stream more';
    $tab->screenshot('states-closed');

    $other->open($shop->url(@at));
    $other->shows(qr/^The line is closed/, 'closed: who comes is told');
    ok(!$other->visible('#alarm') && !$other->visible('#link'),
       'closed: nothing is promised');

    $line->set(closed => 0);
    $other->reload;
    $other->shows(qr/\bLive\b.*You are number 1 in line/,
                  'open again: there is a line');
    $tab->shows(qr/\bLive\b.*You are number 1 in line/,
                'open again: the other tab shows it by itself');
}


# no seat is left

{
    my @at = ('one', 'sold');
    my ($inside) = $shop->come(@at, 1);

    $tab->open($shop->url(@at));
    $tab->shows(qr/\bLive\b.*You are number 1 in line/, 'sold out: one waits');
    $shop->call('SET', 'seat:count:{sold}', 0);
    $tab->shows(qr/^Sold out There is nothing left to wait for/,
                'sold out: who waits is told');
    $other->open($shop->url(@at));
    $other->shows(qr/^Sold out/, 'sold out: who comes is told');

    # somebody has given a ticket back
    $shop->call('SET', 'seat:count:{sold}', 1);
    $other->reload;
    $other->shows(qr/\bLive\b.*You are number 1 in line/,
                  'one came back: there is a line again');
    $tab->shows(qr/\bLive\b.*You are number 1 in line/,
                'one came back: the other tab shows it by itself');
}


# the line is full

{
    my @at = ('two', 'full');
    my ($inside, @crowd) = $shop->come(@at, 3);

    $other->open('about:blank');
    $tab->open($shop->url(@at));
    $tab->shows(qr/^The line is full right now/, 'full: who comes is told');
    $tab->screenshot('states-full');
    is(join(' ', @{$shop->line('full')->waiting}), "@crowd",
       'full: nobody is added');

    # it asks again in 10 to 20 s
    $shop->leave(@at, $inside);
    $tab->shows(qr/\bLive\b.*You are number 2 in line/,
                'full no more: the page asks again by itself');
}


# a page of one's own

{
    my @at = ('own', 'concert');
    my ($inside, @crowd) = $shop->come(@at, 2);

    $tab->open($shop->url(@at));
    $tab->shows(qr/Our own page for concert/, qr/Live: 2/,
                'own page: it is shown, and lives');

    # the first time there was no place yet
    $tab->reload;
    $tab->shows(qr/You came by GET and are waiting: 2 of 2, 1 ahead, 0 behind/,
                qr/ask again in \d+ s\. Two braces: \{ \{\./, qr/Live: 2/,
                'own page: it is filled in');
    is($tab->run('return document.documentElement.lang'), 'en',
       'own page: with the language');
    is($tab->run('return JSON.parse(document.body.dataset.state).'
                 . 'waitingPosition'), 2, 'own page: with the JSON');
    $tab->screenshot('states-own-page');

    $shop->leave(@at, $inside);
    $tab->shows(qr/Live: 1/, 'own page: it is told the position');
    $shop->leave(@at, $crowd[0]);
    $tab->shows(qr/Welcome to the shop/, 'own page: and let in');
}

finish();
