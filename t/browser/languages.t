# Proves that the page is in the language of the browser, and in no other, when
# it comes and when the stream has changed it.

use strict;
use warnings;
use utf8;

use Test::More;
use WaitingQueue::Browser;
use WaitingQueue::Fault;
use WaitingQueue::Shop;


my $shop = WaitingQueue::Shop->new(
    locations => { one => 'waiting_queue_capacity 1;' });

my $korean = qr/\p{sc=Hangul}/;
my $japanese = qr/[\p{sc=Hiragana}\p{sc=Katakana}]/;
my $english = qr/[A-Za-z]{3}/;

my @languages = (
    { name => 'Korean', accepts => 'ko-KR,ko,en', lang => 'ko',
      number => qr/실시간 연결됨 현재 대기 순서는 (\d+) 번째입니다/,
      rest => qr/내 앞 1명 내 뒤 0명 예상 대기 시간 측정되는 대로 표시합니다/,
      sold => qr/^매진되었습니다/, others => qr/$japanese|$english/ },
    { name => 'English', accepts => 'en-GB,en,ko', lang => 'en',
      number => qr/\bLive You are number (\d+) in line/,
      rest => qr/Ahead of you 1 Behind you 0 Time left shown once we can/,
      sold => qr/^Sold out/, others => qr/$japanese|$korean/ },
    { name => 'Japanese', accepts => 'ja', lang => 'ja',
      number => qr/リアルタイムで更新中 現在の順番は (\d+) 番目です/,
      rest => qr/前にお待ちの方 1人 後ろにお待ちの方 0人/,
      sold => qr/^完売しました/, others => qr/$korean|$english/ },
    { name => 'French, which is not there,', accepts => 'fr', lang => 'en',
      number => qr/\bLive You are number (\d+) in line/,
      rest => qr/Ahead of you 1/, sold => qr/^Sold out/,
      others => qr/$japanese|$korean/ },
);

for my $l (@languages) {
    my $event = "concert-$l->{accepts}" =~ s/,.*//r;
    my @at = ('one', $event);
    my ($inside, @crowd) = $shop->come(@at, 2);
    my $browser = start_browser(languages => $l->{accepts},
                                name => "who likes $l->{accepts}");
    my $tab = $browser->tab->open($shop->url(@at));

    $tab->shows($l->{number}, $l->{rest}, "$l->{name}: the page");
    is(($tab->text =~ $l->{number})[0], 2, "$l->{name}: the number");
    is($tab->run('return document.documentElement.lang'), $l->{lang},
       "$l->{name}: it says which language it is");
    ok($tab->text !~ $l->{others}, "$l->{name}: no other is seen")
        or diag($tab->text);
    $tab->screenshot("languages-$l->{lang}") if $l->{accepts} ne 'fr';

    $shop->call('SET', "seat:count:{$event}", 0);
    $tab->shows($l->{sold}, "$l->{name}: what comes later");
    ok($tab->text !~ $l->{others}, "$l->{name}: no other is seen then")
        or diag($tab->text);
    like($tab->title, $l->{sold}, "$l->{name}: the title");
    $browser->stop;
}

finish();
