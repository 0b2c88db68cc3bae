# Proves that whoever waits keeps the place, and is told so, whatever goes away
# for a moment: the page, nginx' workers, all of nginx, Redis.

use strict;
use warnings;

use Test::More;
use WaitingQueue::Browser;
use WaitingQueue::Fault qw(wait_until freeze);
use WaitingQueue::Shop;


my $shop = WaitingQueue::Shop->new(
    locations => { one => 'waiting_queue_capacity 1;' });
my $nginx = $shop->nginx;
my @at = ('one', 'concert');
my $url = $shop->url(@at);
my $line = $shop->line('concert');
my ($inside, @crowd) = $shop->come(@at, 8);

my $browser = start_browser();
my $tab = $browser->tab->open($url);

# what the page cannot load while there is no server
$browser->expect(qr/^\Q$url\E - Failed to load resource: net::ERR_/);

$tab->shows(qr/\bLive\b.*You are number 8 in line/, 'there is a place');

my $id = $browser->cookies($url)->{wq_uid};
my $idx = $line->idx($id);
my $number = 8;


# kept(what): the place is the same, the page has its stream and is told of
# the next step forward

sub kept {
    my $what = shift;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    wait_until { $shop->streams == 1 } 30, "$what: there is a stream";
    $tab->shows(qr/\bLive\b.*You are number $number in line/,
                "$what: live, at the same number");
    is($line->idx($id), $idx, "$what: the same place");

    $shop->leave(@at, $inside);
    $inside = shift @crowd;
    $number--;
    $tab->shows(qr/\bLive\b.*You are number $number in line/,
                "$what: and it goes on");
}


# what the page says meanwhile, of which not all may be there when the test
# looks

sub watch {
    $tab->run(<<'END');
window.seen = [];
new MutationObserver(() => {
    seen.push(document.querySelector('main').innerText);
}).observe(document.body, { attributes: true });
END
}


sub told {
    my ($pattern, $what) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my $seen = join ' ', @{$tab->run('return seen')};

    ok($seen =~ $pattern, $what) or diag($seen);
}


$tab->reload;
kept('the page is loaded again');


# nginx -s reload

my %old = map { $_ => 1 } $nginx->workers;

watch();
is(($nginx->run('-s', 'reload'))[0], 0, 'nginx -s reload');
wait_until { $nginx->ready && !grep { $old{$_->{pid}} } $nginx->rows } 30,
           'there are new workers';
kept('nginx -s reload');
told(qr/Reconnecting, your place is kept/,
     'nginx -s reload: the page has said so');


# a restart

$shop->stop;
$tab->shows(qr/Reconnecting, your place is kept.*You are number $number in/,
            'nginx is stopped: the page says that the place is kept');
$tab->screenshot('lost-nginx');
$shop->start;
kept('nginx is started again');


# as if the power was cut

my @pids = ($nginx->pid, $nginx->workers);

kill KILL => @pids;
$nginx->wait_gone(10) or die "nginx survives kill -9\n";
$tab->shows(qr/Reconnecting, your place is kept.*You are number $number in/,
            'nginx is killed: the page says that the place is kept');
$shop->start;
kept('nginx was killed and is started again');


# Redis does not answer: the stream stays

freeze($shop->redis->pid);
wait_until { $nginx->has_trouble('\w+', 'commands') } 30,
           'Redis is stopped: nginx has noticed';
like($tab->text, qr/You are number $number in line/,
     'Redis is stopped: the page shows the last number');
kill CONT => $shop->redis->pid;
$nginx->wait_ready('Redis goes on', 30);
kept('Redis was stopped and goes on');


# and a page that is loaded meanwhile

freeze($shop->redis->pid);
$tab->reload;
$tab->shows(qr/One moment, please/, qr/If you have a place already, it is kept/,
            'Redis is stopped, the page loaded again: it says what is wrong');
$tab->screenshot('lost-redis');
kill CONT => $shop->redis->pid;
$nginx->wait_ready('Redis goes on again', 30);
kept('Redis was stopped, the page loaded again');


is($line->stat('joined'), 9, 'nobody has come twice');
is_deeply([ $line->wrong ], [], 'slots and people are in order');

finish();
