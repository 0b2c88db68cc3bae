# Proves that a client that means harm hurts nobody but himself: whatever he
# sends, however often, and whatever he does not read, the others stand where
# they stood and hear of it in time, nothing of what he makes up gets into Redis
# or into a header, and neither the worker nor Redis grows by it.
#
# Other things that such a client may do are elsewhere: 011 and 016 (tokens and
# cookies that are forged, or of somebody else; forms of another site), 014
# (requests hidden in requests, floods without a cookie), 007 (who reads
# slowly), 020 and 021 (more than a worker, or an address, may have),
# same-user.t and sale.t (the same in the middle of a sale).
#
# WQ_SEED chooses what is made up.

use strict;
use warnings;

use IO::Socket::INET;
use Socket qw(SOL_SOCKET SO_LINGER SO_RCVBUF);
use Test::More;
use WaitingQueue::Chance;
use WaitingQueue::Nodes;

my ($away, $alone);


# In a network of its own a peer can vanish without a word; where that cannot be
# had the rest is tested all the same.

BEGIN {
    $away = '10.99.99.99';
    $alone = $ENV{WQ_ALONE};

    if (!defined $alone) {
        my $can = system('unshare -n sh -c "ip link set lo up && ip address '
                         . "add $away/32 dev lo\" >/dev/null 2>&1") == 0;

        $ENV{WQ_ALONE} = $can ? 1 : 0;
        $alone = $can;

        exec 'unshare', '-n', 'sh', '-c',
             "ip link set lo up && ip address add $away/32 dev lo "
             . '&& exec "$@"', 'sh', $^X, (map { "-I$_" } grep { !ref } @INC),
             $0, @ARGV
            if $can;
    }
}

my $seed = $ENV{WQ_SEED} || 1;
my $chance = chance($seed, 1);

sub any { return $_[int @_ * $chance->()] }

# a connection is reset when it is closed with something unread
$SIG{PIPE} = 'IGNORE';
diag("WQ_SEED=$seed") if $ENV{WQ_SEED};


my $backend = free_port();
my $nodes = WaitingQueue::Nodes->new(
    nodes => 1, workers => 2, connections => 4096,
    http => "
    waiting_queue_interval 50ms;
    waiting_queue_promote_interval 100ms;
    send_timeout 4s;
    client_max_body_size 0;
    server {
        listen 127.0.0.1:$backend;
        location / { return 200 'inside \$http_x_user'; }
    }",
    locations => {
        none => 'waiting_queue_capacity 0; waiting_queue_grace 5s;',
    },
    server => "
        # a name must not become another one on its way
        merge_slashes off;

        # by cookies
        location = /cookie/shop {
            waiting_queue on;
            waiting_queue_event cookie;
            waiting_queue_capacity 0;
            proxy_pass http://127.0.0.1:$backend/;
        }
        location = /cookie/stream {
            waiting_queue_stream;
            waiting_queue_event cookie;
            waiting_queue_capacity 0;
        }

        # whatever the client says is an id, of all that there are
        location /shop/ {
            waiting_queue on;
            waiting_queue_event \$arg_event;
            waiting_queue_user \$arg_user;
            proxy_pass http://127.0.0.1:$backend/;
        }
        location ~ '(?s)^/said/(?<said_event>.*)/(?<said_user>[^/]*)\$' {
            waiting_queue_api;
            waiting_queue_event \$said_event;
            waiting_queue_user \$said_user;
        }
        location ~ '(?s)^/heard/(?<heard_event>.*)/(?<heard_user>[^/]*)\$' {
            waiting_queue_stream;
            waiting_queue_event \$heard_event;
            waiting_queue_user \$heard_user;
        }
        location = /header {
            waiting_queue_api;
            waiting_queue_event \$http_x_event;
            waiting_queue_user \$http_x_user;
        }
        location = /cookie/name {
            waiting_queue_stream;
            waiting_queue_event \$cookie_event;
            waiting_queue_user \$cookie_user;
        }
    ");
my $sse = $nodes->sse;
my $node = $nodes->node(0);
my $port = $node->workers_port;
my @pids = $node->pids;


# answered(streams): all of them have ended, or have an event

sub answered {
    my ($what, @streams) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;
    return $nodes->run_until(
        sub { !grep { !$_->events && !$_->ended } @streams }, 20, $what);
}


# those who have done nothing: crowd(line, n) and calm(line, what, crowd)

sub crowd {
    my ($line, $name, $n) = @_;

    my @crowd = map { $line->join("$name$_") } 1 .. $n;
    $_->{was} = [ $line->idx($_->{user}), scalar $_->events ] for @crowd;

    return @crowd;
}

sub calm {
    my ($line, $what, @crowd) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    is(scalar(grep { !$_->is_open } @crowd), 0, "$what: no stream has ended");
    is(join(' ', map { $line->idx($_->{user}) // '-' } @crowd),
       join(' ', map { $_->{was}[0] } @crowd), "$what: all have their places");
    $nodes->run_until(sub { $nodes->exact($line, @crowd) }, 10,
                      "$what: and are told so");
    is_deeply([ $line->wrong ], [], "$what: all is well in Redis");
}


# rose(crowd): those who were told a higher rank after a lower one

sub rose {
    my @rose;

    for my $s (@_) {
        my @ranks = map { $_->{data}{rank} } grep { $_->{event} eq 'position' }
                                                  $s->events;
        push @rose, "$s->{user} @ranks"
            if grep { $ranks[$_] > $ranks[$_ - 1] } 1 .. $#ranks;
    }

    return @rose;
}


# rest(what): what was on its way has come there

sub rest {
    my $what = shift;

    local $Test::Builder::Level = $Test::Builder::Level + 1;
    $nodes->run_until(sub { !$nodes->busy }, 15, "$what: nothing is left over")
        or diag(join ', ', $nodes->busy);
}


# memory(code, kB, what): how much the workers grow by it

sub memory {
    my ($code, $kb, $what) = @_;

    my $sum = sub { my $n = 0; $n += rss_kb($_) for @pids; return $n };
    my $before = $sum->();

    $code->();

    my $grown = $sum->() - $before;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    SKIP: {
        skip "$what: a sanitizer keeps what is freed", 1 if sanitized();
        cmp_ok($grown, '<', $kb, "$what: the workers have grown by $grown kB");
    }
}


# one user, two hundred streams at once

{
    my $what = 'two hundred tabs';
    my $line = $nodes->line('none', 'tabs');
    my @before = crowd($line, 'b', 20);
    my $first = $line->join('u');
    my @behind = crowd($line, 'c', 20);
    my $idx = $line->idx('u');
    my $joined = $line->stat('joined');
    my @tabs = map { $line->open('u') } 1 .. 200;

    $nodes->run_until(
        sub { 1 == grep { !$_->ended } $first, @tabs }, 20,
        "$what: all but one are gone");
    my ($last) = grep { !$_->ended } $first, @tabs;
    is($last->rank, 20, "$what: which has the place");
    is($line->idx('u'), $idx, "$what: the same");
    is($line->stat('joined'), $joined, "$what: and it is no second one");
    is(scalar(grep { $_->events && $_->last->{event} ne 'replaced' }
              grep { $_->ended } @tabs), 0, "$what: the others know why");
    calm($line, $what, @before, @behind);
    is_deeply([ rose(@before, @behind) ], [], "$what: nobody is pushed back");
    rest($what);
    $_->close for @before, @behind, $last;
}


# many names, and one cookie

{
    my $what = 'one cookie';
    my $line = $nodes->line('none', 'cookie');
    my $mine = '0123456789abcdef' x 2;
    my @asked = map {
        $sse->open($nodes->at(0),
                   path => ($_ % 2 ? '/cookie/shop' : '/cookie/stream')
                           . "?user=u$_&wq_uid=" . 'f' x 32,
                   headers => { Accept => 'application/json',
                                'X-User' => "u$_", 'X-Forwarded-For' => "::$_",
                                Cookie => "user=u$_; wq_uid=$mine" })
    } 1 .. 200;

    answered("$what: all are answered", @asked);
    is_deeply($line->waiting, [ $mine ], "$what: one place, by whatever name");
    is($line->stat('joined'), 1, "$what: taken once");

    # who makes up an id is one more, and behind all; the id of another is 128
    # random bits, which one has to know
    my @guesses = map {
        join '', map { sprintf '%02x', int 256 * $chance->() } 1 .. 16
    } 1 .. 100;
    my $idx = $line->idx($mine);

    @asked = map {
        $sse->open($nodes->at(0), path => '/cookie/shop', headers => {
            Accept => 'application/json', Cookie => "wq_uid=$_" })
    } @guesses;
    answered("$what: guesses", @asked);
    is($line->idx($mine), $idx, "$what: which none of them was");
    is($line->rank($mine), 0, "$what: the one who is there is in front");
    is(scalar(grep { $_->body =~ /$mine/ } @asked), 0,
       "$what: and nobody is told who that is");
    rest($what);
}


# names that are none, by every way that there is

my @bad = ('{e}', '*', '"', "'", '\\', '/', ' ', "\n", "\r\n", "\0", "\t",
           "\x7f", "\xff", "\xc3\xa9", '%', '%00', '$', ';', ',', '=', '[a]',
           "a\r\nX-Injected: 1", "a\nX-Injected: 1\n\n<script>", "a\0b",
           '{"userId":"a"}', "','x')redis.call('FLUSHALL')--", '}:{',
           "*1\r\n\$8\r\nFLUSHALL\r\n", '../..', '${jndi:ldap://a}',
           'WAITING:{tabs}', 'a' x 129, 'b' x 5000);

# those that a name may have, and some that it may not
push @bad, map { join('', map { any('a', '.', '-', ':', '~') }
                              1 .. 1 + 5 * $chance->())
                 . any("\r\n", "\n", "\0", '{', '}', '"', '*', ' ', '/', "\\",
                       chr 128 + 127 * $chance->())
                 . any('', 'a', ':', "\r\nX-Injected: 1") } 1 .. 40;

# what of it can stand in a header, without ending it or being trimmed

sub header {
    my $text = shift;
    return $text =~ s/[\r\n\0].*//sr =~ s/^ +| +$//gr;
}

{
    my $what = 'names';
    my %keys = map { $_ => 1 } @{$nodes->call('KEYS', '*')};
    my $line = $nodes->line('none', 'witness');
    my @crowd = crowd($line, 'w', 5);
    my $escaped = sub {
        return $_[0] =~ s/([^A-Za-z0-9])/sprintf '%%%02X', ord $1/ger;
    };
    my (@asked, @raw);

    for my $bad (@bad) {
        my $id = $escaped->($bad);

        # a path is read; arguments are taken as they are
        push @asked,
            map({ my $path = $_;
                  map { $sse->open($nodes->at(0), path => $path,
                                   method => $_, body => '') }
                      $path =~ /heard/ ? 'GET' : qw(GET POST DELETE) }
                "/said/$id/u", "/said/e/$id", "/heard/$id/u", "/heard/e/$id"),
            map({ my $accept = $_;
                  map { $sse->open($nodes->at(0), path => $_,
                                   headers => { Accept => $accept }) }
                      "/shop/?event=$id&user=u", "/shop/?event=e&user=$id" }
                'application/json', 'text/html', 'text/event-stream');

        # and headers too, if they can be sent at all
        my $said = header($bad);
        next if $said =~ /^[A-Za-z0-9._~\@:-]{0,128}$/;

        push @raw,
            map { $sse->open($nodes->at(0), raw => "$_\r\n") }
                "POST /header HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
                . "Content-Length: 0\r\nX-Event: $said\r\nX-User: u\r\n",
                "POST /header HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
                . "Content-Length: 0\r\nX-Event: e\r\nX-User: $said\r\n",
                "GET /cookie/name HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
                . "Cookie: event=$said; user=u\r\n";

        if (@asked > 500) {
            answered("$what: answered", @asked, @raw);
        }
    }

    answered("$what: all are answered", @asked, @raw);

    my @odd = grep { ($_->status || 0) != 400
                     || !$_->json
                     || ($_->json->{error} || '') !~ /^bad_(?:event|user)_id$/ }
              @asked;

    # some of them nginx itself takes for no path, or for none at all
    @odd = grep { ($_->status || 0) !~ /^(?:400|401|404|405|414)$/
                  || $_->body =~ /"status":"(?!none)/ } @odd;
    is(scalar @odd, 0, "$what: each of " . @asked . ' is refused')
        or diag(map { $_->describe . ' ' . $_->body . "\n" }
                    @odd > 5 ? @odd[0 .. 4] : @odd);

    is(scalar(grep { ($_->status || 0) < 400 } @raw), 0,
       "$what: and each of " . @raw . ' headers')
        or diag(map { $_->{out} . $_->describe . ' ' . $_->body . "\n" }
                    grep { ($_->status || 0) < 400 } @raw);
    is(scalar(grep { defined $_->header('x-injected') } @asked, @raw), 0,
       "$what: no header is injected");
    is_deeply([ sort grep { !$keys{$_} && !/\{witness\}/
                            && !/^(?:DISPATCH:|PROMOTION_|WAITING_[A-Z_]+\z)/ }
                          @{$nodes->call('KEYS', '*')} ],
              [], "$what: nothing is in Redis");
    is_deeply([ grep { $_ ne 'tabs' && $_ ne 'cookie' && $_ ne 'witness' }
                     @{$nodes->call('HKEYS', 'WAITING_QUEUE_IDX')} ], [],
              "$what: not even a number");
    calm($line, $what, @crowd);
    $_->close for @crowd;
    is(scalar(grep { /[\x00-\x08\x0b-\x1f\x7f]/ } $node->log_lines(0)), 0,
       "$what: no line of the log is broken by them");
}


# tokens that are none

{
    my $what = 'tokens';
    my $line = $nodes->line('none', 'e');
    my @asked = map {
        $sse->open($nodes->at(0), raw =>
            "GET /shop/?event=e&user=u HTTP/1.1\r\nHost: a\r\n"
            . "Connection: close\r\nAccept: application/json\r\n"
            . "X-Waiting-Queue-Token: " . header($_) . "\r\n\r\n")
    } @bad;

    answered("$what: all are answered", @asked);
    # one that is too long for nginx as well
    is(scalar(grep { $_->status !~ /^(?:503|200|400)$/ } @asked), 0,
       "$what: as one without");
    is(scalar(grep { defined $_->header('x-injected') } @asked), 0,
       "$what: no header is injected");
    is($node->sum('tokensRefused'), 0, "$what: and Redis was not asked");
    is_deeply([ $line->wrong ], [], "$what: all is well in Redis");
}


# heads that are too large

{
    my $what = 'large heads';

    for my $case ([ 'an address', 414, 'GET /shop/?event=e&user='
                    . 'u' x 40_000 . " HTTP/1.1\r\nHost: a\r\n" ],
                  [ 'a header', 400, "GET /shop/?event=e&user=u HTTP/1.1\r\n"
                    . 'Host: a' . "\r\nCookie: wq_uid=" . 'f' x 40_000
                    . "\r\n" ],
                  [ 'many headers', 400, "GET /shop/?event=e&user=u HTTP/1.1"
                    . "\r\nHost: a\r\n" . join '', map { "X-$_: "
                    . 'x' x 1000 . "\r\n" } 1 .. 50 ],
                  [ 'a token', 400, "GET /shop/?event=e&user=u HTTP/1.1\r\n"
                    . "Host: a\r\nX-Waiting-Queue-Token: " . '0' x 40_000
                    . "\r\n" ])
    {
        my ($name, $code, $head) = @$case;

        memory(sub {
            my @asked = map { $sse->open($nodes->at(0),
                                         raw => "$head\r\n") } 1 .. 50;
            answered("$what: $name", @asked);
            is(scalar(grep { ($_->status // $code) != $code } @asked), 0,
               "$what: $name is $code");
        }, 8_000, "$what: $name");
    }
}


# bodies of 10 MB, which nobody has asked for; 20 at once

sub bodies {
    my ($head, $framed) = @_;

    my $size = 65536;
    my $piece = 'x' x $size;
    my @sockets = map {
        IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port)
            || die "connect: $!\n"
    } 1 .. 20;

    syswrite $_, $head . "\r\n" for @sockets;
    $piece = sprintf("%x\r\n", $size) . $piece . "\r\n" if $framed;

    for (1 .. 160) {
        for my $socket (@sockets) {
            my $rest = $piece;
            while (length $rest) {
                my $n = syswrite $socket, $rest;
                last if !defined $n;
                substr $rest, 0, $n, '';
            }
        }
    }

    syswrite $_, "0\r\n\r\n" for $framed ? @sockets : ();

    # the connection goes on, and what follows is the next request
    my @answers;

    for my $socket (@sockets) {
        my $answer = '';
        syswrite $socket, "GET /ok HTTP/1.1\r\nHost: a\r\n"
                          . "Connection: close\r\n\r\n";
        while (sysread $socket, $answer, 65536, length $answer) { }
        push @answers, join ' ', $answer =~ m{^HTTP/1\.1 (\d+)}mg;
    }

    return @answers;
}

{
    my $what = 'large bodies';
    my $line = $nodes->line('none', 'bodies');
    my @crowd = crowd($line, 'w', 10);
    my @ends = ([ 'Content-Length: ' . 160 * 65536, 0 ],
                [ 'Transfer-Encoding: chunked', 1 ]);

    memory(sub {
        for (map { my $path = $_; map { [ $path, @$_ ] } @ends }
                 '/api/none/bodies?user=fat', '/cookie/shop',
                 '/shop/?event=%00&user=u')
        {
            my ($path, $length, $framed) = @$_;
            my %answers = map { $_ => 1 }
                              bodies("POST $path HTTP/1.1\r\nHost: a\r\n"
                                     . "$length\r\n", $framed);
            my $code = $path =~ /api/ ? 202 : $path =~ /cookie/ ? 503 : 400;
            is_deeply([ keys %answers ], [ "$code 200" ],
                      "$what: thrown away, at $path, $length");
        }
    }, 4_000, $what);
    calm($line, $what, @crowd);
    $_->close for @crowd;
    opendir my $dir, "$node->{dir}/client_body" or die "client_body: $!\n";
    is(scalar(grep { !/^\./ } readdir $dir), 0, "$what: not kept in a file");
}


# one user, a thousand times a second

{
    my $what = 'again and again';
    my $line = $nodes->line('none', 'restless');
    my @front = crowd($line, 'f', 25);
    my $first = $line->join('restless');
    my @behind = crowd($line, 'r', 25);
    my $idx = $line->idx('restless');
    my ($n, $longest, %moved, @open) = (0, 0);
    # those of promotions come and go
    my $keys = sub { [ sort grep { /\{restless\}/ || !/\{|^PROMOTION_/ }
                                 @{$nodes->call('KEYS', '*')} ] };
    my $before = $keys->();
    my $seconds = sanitized() ? 4 : 3;
    my $start = time;
    my $end = $start + $seconds;
    my $looked = 0;

    while (time < $end) {
        for (1 .. 10) {
            push @open, $line->open('restless');
            $n++;
        }

        # half of them before the answer, with FIN or RST
        for (splice @open, 0, any(5, 10, 15)) {
            $chance->() < 0.5 ? $_->close : $_->reset;
        }

        $sse->turn(0.001);

        my $late = $start + $n / 1000 - time;
        sleep $late if $late > 0;

        next if time < $looked + 0.25;
        $looked = time;

        my $now = $line->idx('restless');
        $moved{$now // 'gone'}++ if !defined $now || $now != $idx;

        for my $key ('ENTRY', $line->key('WAITING_GONE'),
                     @{$nodes->call('KEYS', 'DISPATCH:*')})
        {
            my $len = $nodes->call('XLEN', $key);
            $longest = $len if $len > $longest;
        }
    }

    my $rate = int $n / (time - $start);
    note("$what: $rate a second, the longest stream was $longest");
    cmp_ok($n, '>', sanitized() ? 200 : 1500, "$what: $n times");
    is_deeply(\%moved, {}, "$what: one place, all the time");
    cmp_ok($longest, '<=', 1000, "$what: no stream of Redis gets long");
    calm($line, $what, @front, @behind);
    is_deeply([ rose(@front, @behind) ], [], "$what: nobody is pushed back");
    is_deeply($keys->(), $before, "$what: no key more than before");
    $_->close for @open;
    rest($what);
    $nodes->run_until(sub { !defined $line->idx('restless') }, 20,
                      "$what: who stays away is out");
    $_->close for @front, @behind;
    is($node->sum('badReplies', 'commands'), 0, "$what: no answer was odd");
}


# who reads nothing

sub orphans {
    my $hex = sprintf '%04X', $port;

    # of this server, closed by it, and not by the other side
    return scalar grep { /^\s*\d+: \S+:$hex \S+ (?:04|05|0B) / }
                  split /\n/, slurp('/proc/net/tcp');
}

sub ahead {
    my ($line, $n) = @_;

    my $settings = $line->call('HGET', $line->key('WAITING_QUEUE_CONF'),
                               'text');
    $line->script('join', "p$_", 'elsewhere-1-1', 'stream', "seed$_",
                  $settings, '', 0) for 1 .. $n;
}

{
    my $what = 'who reads nothing';
    my $line = $nodes->line('none', 'deaf');
    my $any = $line->join('p0');
    my $people = 1500;

    ahead($line, $people);

    my @deaf = map { $line->open("d$_", rcvbuf => 1) } 1 .. 100;
    my @slow;
    answered("$what: they are in line", @deaf);

    my @crowd = crowd($line, 'w', 10);
    my $ended = $node->sum('streamsTimedOut');

    memory(sub {
        $_->stop_reading for @deaf;

        my $deadline = time + patience(40);

        while ($node->sum('streamsTimedOut') < $ended + @deaf
               && time < $deadline)
        {
            for (1 .. 25) {
                # all move up, as somebody in front leaves
                $line->script('leave', 'p' . $people--, '', '') if $people;
                $sse->turn(0.02);
            }
        }

        is($node->sum('streamsTimedOut') - $ended, scalar @deaf,
           "$what: their streams are ended");
    }, 4_000, $what);
    $nodes->run_until(sub { orphans() == 0 }, 20,
                      "$what: and the kernel keeps nothing for them")
        or diag(orphans());
    $nodes->run_until(sub { $node->sum('absent') == 0 }, 20,
                      "$what: they lose their places by silence");
    is(scalar(grep { /^d\d/ } @{$line->waiting}), 0, "$what: all of them");
    $nodes->run_until(sub { $nodes->exact($line, @crowd) }, 10,
                      "$what: the others are told the truth");
    is(scalar(grep { !$_->is_open } @crowd), 0, "$what: and stay");
    is_deeply([ rose(@crowd) ], [], "$what: nobody is pushed back");
    $_->close for @deaf, @crowd, $any;
}


# who vanishes, and sends neither FIN nor RST

SKIP: {
    skip 'no network of its own', 8 if !$alone;

    my $what = 'who vanishes';
    my $line = $nodes->line('none', 'gone');
    my $people = 300;
    my $any = $line->join('p0');

    ahead($line, $people);

    my @gone = map { $line->open("g$_", source => $away) } 1 .. 50;
    answered("$what: they are in line", @gone);

    my @crowd = crowd($line, 'w', 10);
    my $streams = $node->sum('streams');

    is(system("ip address del $away/32 dev lo"), 0, "$what: the network ends");

    my $start = time;

    $nodes->run_until(sub {
        $line->script('leave', 'p' . $people--, '', '') if $people;
        $sse->turn(0.02);
        $node->sum('streams') == $streams - @gone;
    }, 20, "$what: their streams end");
    cmp_ok(time - $start, '>', 3, "$what: not at once");
    $nodes->run_until(sub { !grep { /^g\d/ } @{$line->waiting} }, 20,
                      "$what: and their places are given up");
    $nodes->run_until(sub { $nodes->exact($line, @crowd) }, 10,
                      "$what: the others have moved up");
    is(scalar(grep { !$_->is_open } @crowd), 0, "$what: and stay");
    is_deeply([ rose(@crowd) ], [], "$what: nobody is pushed back");

    # nothing that they close now comes to anybody
    $_->close for @gone, @crowd, $any;
}

is_deeply([ sort { $a <=> $b } $node->pids ], [ sort { $a <=> $b } @pids ],
          'the workers are those of the beginning');
$nodes->finish;
