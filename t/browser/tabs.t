# Proves that all tabs of a browser are one visitor, who has one place and one
# stream, however many tabs there are and whichever of them is closed; and that
# all of them get in when it is his turn.
#
# At http://127.0.0.1 the tabs agree by a lock.  Elsewhere a browser gives locks
# only to pages of https, and they agree by what they store.

use strict;
use warnings;

use Test::More;
use WaitingQueue::Browser;
use WaitingQueue::Fault qw(wait_until);
use WaitingQueue::Shop;


my $shop = WaitingQueue::Shop->new(
    locations => { one => 'waiting_queue_capacity 1;' });
my $browser = start_browser();
my @tabs = ($browser->tab, $browser->tab);


# everywhere(pattern, what): it is seen in all tabs

sub everywhere {
    my ($pattern, $what) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    for my $n (0 .. $#tabs) {
        $tabs[$n]->shows($pattern, "$what: tab " . ($n + 1));
    }
}


sub leaders { return grep { $_->run('return leading') } @tabs }


# one_stream(what): open now

sub one_stream {
    my $what = shift;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    wait_until { $shop->streams == 1 && leaders() == 1 } 30,
               "$what: one stream, of one of the tabs";
}


for my $kind ([ 'with locks', 'locks', '127.0.0.1', 1 ],
              [ 'without locks', 'stored', 'shop.test', 0 ])
{
    my ($what, $event, $host, $secure) = @$kind;

    my @at = ('one', $event);
    my $url = $shop->url(@at, $host);
    my $line = $shop->line($event);
    my ($inside, @crowd) = $shop->come(@at, 3);


    # two of them

    $_->open($url) for @tabs;

    everywhere(qr/You are number 3 in line/, "$what, two tabs: the same place");
    everywhere(qr/\bLive\b/, "$what, two tabs: live");

    is($tabs[0]->run('return !!navigator.locks') ? 1 : 0, $secure,
       "$what: so it is");

    my $id = $browser->cookies($url)->{wq_uid};

    is(join(' ', @{$line->waiting}), "@crowd $id", "$what: one place");
    one_stream("$what, two tabs");

    $shop->leave(@at, $inside);
    everywhere(qr/You are number 2 in line/, "$what, two tabs: both follow");


    # the one with the stream is closed

    my ($leader) = leaders();
    my ($other) = grep { $_ != $leader } @tabs;
    my $idx = $line->idx($id);
    my $opened = $shop->opened;

    $leader->close;
    @tabs = ($other);

    wait_until { $shop->opened > $opened && leaders() } 30,
               "$what, one closed: the other has a stream";
    everywhere(qr/You are number 2 in line/, "$what, one closed: its place");
    everywhere(qr/\bLive\b/, "$what, one closed: live");
    one_stream("$what, one closed");
    is($line->idx($id), $idx, "$what, one closed: the same place");


    # eight: more than a browser has connections to a server of HTTP/1.1

    my $replaced = $shop->nginx->sum('streamsReplaced');

    push @tabs, map { $browser->tab->open($url) } 2 .. 8;

    everywhere(qr/\bLive\b.*You are number 2 in line/, "$what, eight tabs");
    one_stream("$what, eight tabs");
    is(join(' ', @{$line->waiting}), "$crowd[1] $id",
       "$what, eight tabs: one place");

    $shop->leave(@at, $crowd[0]);
    everywhere(qr/\bLive\b.*You are number 1 in line/,
               "$what, eight tabs: all follow");
    is($shop->nginx->sum('streamsReplaced'), $replaced,
       "$what, eight tabs: no stream had to give way to another");


    $tabs[7]->screenshot("tabs-$event") if !$secure;


    # his turn

    $shop->leave(@at, $crowd[1]);
    everywhere(qr/Welcome to the shop/, "$what, eight tabs: let in");
    is(join(' ', @{$line->inside}), $id, "$what, eight tabs: one lease");
    is_deeply([ $line->wrong ], [], "$what: slots and people are in order");
    wait_until { $shop->streams == 0 } 30, "$what: no stream is left";

    $_->close for splice @tabs, 2;
}

finish();
