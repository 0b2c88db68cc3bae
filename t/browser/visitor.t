# Proves what happens to a visitor who is not just one browser that looks at a
# page: one who has sent a form, and one who is logged in with two browsers.

use strict;
use warnings;

use Test::More;
use WaitingQueue::Browser;
use WaitingQueue::Fault qw(wait_until);
use WaitingQueue::Shop;


my $shop = WaitingQueue::Shop->new(
    locations => {
        one => 'waiting_queue_capacity 1;',
        account => 'waiting_queue_capacity 0; '
                   . 'waiting_queue_user $cookie_login;',
        brief => 'waiting_queue_capacity 1; '
                 . 'waiting_queue_ttl 10m claim=2s;',
    });
my $browser = start_browser();
my $tab = $browser->tab;


# post(location, event): a form that somebody has filled in and sent

sub post {
    my @at = @_;

    my $url = $shop->url(@at) . 'order';

    # it was not open()ed
    $browser->expect(qr/^\Q$url\E - .* with a status of 503 /);
    $tab->open($shop->address("/form?to=$url"));
    $tab->click('button');
}


# a form: it is sent again when the visitor says so, and not before

{
    my @at = ('one', 'form');
    my $line = $shop->line('form');
    my ($inside) = $shop->come(@at, 1);

    post(@at);
    $tab->shows(qr/\bLive\b.*You are number 1 in line/, 'form: it waits');

    my $kept = $shop->nginx->sum('gateKeptBack');

    $shop->leave(@at, $inside);
    $tab->shows(qr/^It is your turn/, qr/The form you sent has not arrived yet/,
                qr/Please continue by \d+:\d\d/, qr/\bContinue$/,
                'form: it is asked to continue');
    $tab->screenshot('visitor-form');
    is($line->stat('entered'), 1, 'form: it is not in yet');
    is($shop->nginx->sum('gateKeptBack'), $kept, 'form: nothing was sent');
    is(scalar @{$line->inside}, 1, 'form: a slot is held meanwhile');

    $tab->click('#continue');
    $tab->shows(qr/The order has come POST seat=A-17/,
                'form: it arrives, with what was filled in');
    wait_until { $line->stat('entered') == 2 } 30, 'form: it is in';
}


# a form, and nobody who continues

{
    my @at = ('brief', 'late');
    my $line = $shop->line('late');
    my ($inside) = $shop->come(@at, 1);

    post(@at);
    $tab->shows(qr/\bLive\b.*You are number 1 in line/, 'late: it waits');
    $shop->leave(@at, $inside);
    $tab->shows(qr/^Your turn has passed/, qr/Join the line again$/,
                'late: the turn has passed');
    wait_until { !@{$line->inside} } 30, 'late: the slot is free';
    $tab->screenshot('visitor-late');
    ($inside) = $shop->come(@at, 1);
    $tab->click('#queue');
    $tab->shows(qr/\bLive\b.*You are number 1 in line/, 'late: in line again');
}


# a form that a page of another site has sent: the browser keeps the cookies
# back, and must have the same ones afterwards

{
    my @at = ('one', 'foreign');
    my $line = $shop->line('foreign');
    my ($inside) = $shop->come(@at, 1);
    my $url = $shop->url(@at) . 'order';

    $tab->open($shop->url(@at));
    $tab->shows(qr/\bLive\b.*You are number 1 in line/, 'foreign: it waits');

    my $waiting = $line->waiting;

    $shop->come(@at, 2);
    $browser->expect(qr/^\Q$url\E - .* with a status of 503 /);
    $tab->open($shop->address("/form?to=$url") =~ s/127\.0\.0\.1/other.test/r);
    $tab->click('button');
    $tab->shows(qr/\bLive\b.*You are number 1 in line/,
                'foreign: in the same place');
    is(scalar @{$line->waiting}, 3, 'foreign: there is no other place');
    is($line->waiting->[0], $waiting->[0], 'foreign: it is the same visitor');

    $shop->leave(@at, $inside);
    $tab->shows(qr/^It is your turn/, qr/The form you sent has not arrived yet/,
                'foreign: it is asked to continue');
    $tab->click('#continue');
    $tab->shows(qr/The order has come POST seat=A-17/,
                'foreign: and the form arrives');
    is($line->inside->[0], $waiting->[0], 'foreign: that of the same visitor');
}


# a login, here and there

{
    my @at = ('account', 'login');
    my $url = $shop->url(@at);
    my $line = $shop->line('login');
    my $second = start_browser(name => 'the other device');
    my $there = $second->tab;

    $_->open($shop->address('/login?as=ann')) for $tab, $there;

    $tab->open($url);
    $tab->shows(qr/\bLive\b.*You are number 1 in line/, 'login: it waits');
    is(join(' ', @{$line->waiting}), 'ann', 'login: by the name');

    my $idx = $line->idx('ann');

    $there->open($url);
    $there->shows(qr/\bLive\b.*You are number 1 in line/,
                  'login: there is the same place');
    $tab->shows(qr/^You are waiting somewhere else/, qr/Use it here$/,
                'login: here it says where the place is');
    $tab->screenshot('visitor-replaced');
    is($shop->streams, 1, 'login: one stream');
    is(join(' ', keys %{$second->cookies($url)}), 'login',
       'login: no other id is given');

    $tab->click('#here');
    $tab->shows(qr/\bLive\b.*You are number 1 in line/,
                'login: here, by hand');
    $there->shows(qr/^You are waiting somewhere else/,
                  'login: and not there');
    wait_until { $shop->streams == 1 } 30, 'login: one stream';
    is($line->idx('ann'), $idx, 'login: the same place');
    is($line->stat('joined'), 1, 'login: came once');

    # also two tabs of one browser are one of the two
    my $more = $browser->tab->open($url);

    $more->shows(qr/\bLive\b.*You are number 1 in line/,
                 'login: one more tab here');
    $there->click('#here');
    $_->shows(qr/^You are waiting somewhere else/,
              'login: both tabs say that it is there') for $tab, $more;

    $line->set(capacity => 1);
    $there->shows(qr/Welcome to the shop/, 'login: let in there');
    $tab->click('#here');
    $_->shows(qr/Welcome to the shop/, 'login: and so here, with the name')
        for $tab, $more;
    is(join(' ', @{$line->inside}), 'ann', 'login: one lease');
}

finish();
