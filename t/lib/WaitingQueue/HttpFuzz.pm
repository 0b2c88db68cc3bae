package WaitingQueue::HttpFuzz;

# Clients that send everything but what they should, many at once:
#
#     my $fuzz = WaitingQueue::HttpFuzz->new(
#         sse => $sse, port => $port, http2_port => $h2, seed => 7);
#
#     while (time < $end) {
#         $fuzz->turn;
#         $sse->turn(0.005);
#     }
#     $fuzz->end;
#
#     is_deeply([ $fuzz->wrong ], []);
#     $fuzz->connections; $fuzz->requests; $fuzz->statuses;
#
# A client is a stream of WaitingQueue::Sse whose bytes are judged by
# WaitingQueue::HttpAnswers when it is over.  What it sends, and when, depends
# on the seed and on its number alone; but for what was answered to others, and
# is shown again at times, changed a little.  What it was is told with what was
# wrong; "first" is the number to begin with.
#
# The addresses are those of t/fault/http-fuzz.t.

use strict;
use warnings;

use Socket qw(SHUT_WR);
use Time::HiRes ();
use WaitingQueue::Chance;
use WaitingQueue::HttpAnswers;

my @events = map { "f$_" } 1, 1, 2, 2, 3, 3, 4;
my @users = map { "v$_" } 1 .. 20;
my @seats = map { "s$_" } 1 .. 3;

# in an address they stand as they are
my @odd = ('', 'a' x 128, 'b' x 129, 'c' x 3000, 'a%00b', '%00', "a\0b",
           '%0d%0aX-Injected:%20yes', '%0a%0adata:%20x', '{f1}', 'f1}',
           '%7Bf1%7D', '%7d', "\xff\xfe", '%ff%fe', '%ed%95%9c', '"', '%22',
           "'", '..', '../..', '%2e%2e%2f', 'a/b', '%2f', 'a%2fb', 'a%20b',
           'a+b', '*', '%', '%zz', '%25', '<b>', "\1", "\x7f", '$arg_e',
           '-1', '0', 'null', '@', '~', ':', 'f1:v1', 'ENTRY', '%09', '\\',
           '[', 'v1,v2', 'v1%3bv2', '%u0041');

my @methods = qw(GET GET GET GET HEAD POST POST PUT DELETE DELETE OPTIONS PATCH
                 TRACE CONNECT PROPFIND MKCOL get Post BREW G_ET - GET/1
                 M-SEARCH PRI);
push @methods, 'X' x 100, "G\0T", "GE\tT", '';

my @versions = (('HTTP/1.1') x 12, 'HTTP/1.0', 'HTTP/1.0', 'HTTP/1.2',
                'HTTP/2.0', 'HTTP/0.9', 'HTTP/1.', 'HTTP/11', 'http/1.1',
                'HTTP/1.1 x', "HTTP/1.1\t", 'HTTP/99999999999.1', 'HTTQ/1.1');

# [ address, its weight ]; %e, %u, %s are ids, %w a word for the backend to say
my @addresses = (
    14 => '/gate?e=%e&u=%u%w',
    4 => '/gate/a/b.css?e=%e&u=%u',
    8 => '/shop%w',
    10 => '/stream?e=%e&u=%u',
    4 => '/cookie-stream',
    14 => '/api?e=%e&u=%u',
    6 => '/cookie-api',
    8 => '/seat?e=%e&u=%u&s=%s',
    4 => '/gate-seat?e=%e&u=%u&s=%s%w',
    2 => '/served/api?e=%e&u=%u',
    2 => '/served/stream?e=%e&u=%u',
    2 => '/served/gate?e=%e&u=%u',
    4 => '/decoded/api/%e/%u',
    4 => '/decoded/stream/%e/%u',
    4 => '/decoded/gate/%e/%u',
    4 => '/decoded/seat/%e/%s',
    1 => '/status',
    1 => '/metrics',
    1 => '/ok',
    1 => '/nowhere',
);

my @words = ('', '', '', '', '&say=done', '&say=sold', '&say=nonsense',
             '&say=done&say=sold', '&say=', '&say=%0d%0aX-Injected:%20yes',
             '&say=DONE', '&say=' . 'd' x 2000);

my @accepts = ('text/event-stream', 'text/html', 'application/json', '*/*',
               'text/html,application/xhtml+xml,*/*;q=0.8', '', ',,,', ';q=',
               'text/event-stream;q=0', 'text/event-stream;q=9', '*',
               'a/b;c="', "text/html\xff", 'text/html;q=0.' . '1' x 200,
               join ',', map { "a/b$_;q=0.1" } 1 .. 200);

my @encodings = ('chunked', 'Chunked', 'identity', 'gzip', 'chunked, chunked',
                 'xchunked', 'chunked;', "\x0bchunked", '', 'gzip, chunked');

my @lengths = (0, 1, 5, 100, '', '-1', '+1', '1 ', '1,1', '0x1', 'a',
               '999999999999', '9223372036854775807', '99999999999999999999',
               '00005', '1.5');

my @chunked = ("0\r\n\r\n", "1\r\na\r\n0\r\n\r\n", "5\r\nab", "x\r\n",
               "-1\r\na\r\n0\r\n\r\n", "ffffffffffffffff\r\na", "1;a=b\r\nc\r\n"
               . "0\r\n\r\n", "0\r\nX-Injected: yes\r\n\r\n", "1\na\n0\n\n",
               "1\r\nab\r\n0\r\n\r\n", "\r\n", '7fffffffffffffff', "1\r\n",
               "00000000000000000000001\r\na\r\n0\r\n\r\n", "0 \r\n\r\n",
               "5\r\nabcde\r\n" x 50 . "0\r\n\r\n");


# new(sse => , port => , http2_port => , seed => , at_once => 80, first => 1)

sub new {
    my ($class, %options) = @_;

    return bless {
        at_once => 80,
        first => 1,
        %options,
        next => $options{first} || 1,
        open => {},                 # clients, by their number
        shown => [],                # what was answered: ids and tokens
        wrong => [],
        connections => 0,
        requests => 0,
        statuses => {},
    }, $class;
}


sub wrong { return @{$_[0]{wrong}} }
sub connections { return $_[0]{connections} }
sub requests { return $_[0]{requests} }
sub statuses { return $_[0]{statuses} }


# as many as may be are there, and each does what it is time for

sub turn {
    my $self = shift;

    my $now = Time::HiRes::time();

    $self->_open($now) while keys %{$self->{open}} < $self->{at_once};

    for my $client (values %{$self->{open}}) {
        $self->_go_on($client, $now) if !defined $client->{stream}->ended;
        $self->_over($client) if defined $client->{stream}->ended;
    }
}


# those that are there go, each in its way

sub end {
    my $self = shift;

    for my $client (values %{$self->{open}}) {
        $client->{number} % 2 ? $client->{stream}->close
                              : $client->{stream}->reset;
        $self->_over($client);
    }
}


sub _open {
    my ($self, $now) = @_;

    my $number = $self->{next}++;
    my $c = chance($self->{seed}, $number);

    my $kind = choose($c, 76 => 'requests', 10 => 'http2', 4 => 'noise',
                          4 => 'many', 6 => 'endless');
    my $make = "_$kind";
    my ($bytes, $count) = $self->$make($c);

    my $client = {
        number => $number, kind => $kind, sent => '', now => $now,
        steps => _steps($c, $bytes), half => 0,
    };

    my $answers = bless { bytes => 0, events => [], latest => {},
                          comments => 0, in => '', body => '' },
                        'WaitingQueue::HttpFuzz::Answers';

    $client->{stream} = $self->{sse}->open(
        port => $kind eq 'http2' || ($kind eq 'noise' && $c->() < 0.5)
                ? $self->{http2_port} : $self->{port},
        raw => '', name => "client $number");
    $client->{stream}{parser} = $client->{answers} = $answers;

    $self->{open}{$number} = $client;
    $self->{connections}++;
    $self->{requests} += $count;

    $self->_go_on($client, $now);
}


# [ when, what, bytes ]: in one piece, in two, or drop by drop; and the end

sub _steps {
    my ($c, $bytes) = @_;

    my @steps;
    my $at = 0;
    my $way = choose($c, 60 => 'whole', 14 => 'pieces', 6 => 'drops',
                         20 => 'half');

    # not more than there may be drops
    $way = 'whole' if $way eq 'drops' && length $bytes > 3000;

    if ($way eq 'pieces') {
        for (1 .. 1 + int 4 * $c->()) {
            my $n = int $c->() * length $bytes;
            push @steps, [$at, 'send', substr $bytes, 0, $n, ''];
            $at += 0.05 * $c->();
        }
        push @steps, [$at, 'send', $bytes];

    } elsif ($way eq 'drops') {
        while (length $bytes) {
            push @steps, [$at, 'send',
                          substr $bytes, 0, 1 + int 9 * $c->(), ''];
            $at += 0.004;
        }

    } elsif ($way eq 'half') {
        push @steps, [0, 'send', substr $bytes, 0, $c->() * length $bytes];
        $at = 0.2 * $c->() * $c->();

    } else {
        push @steps, [0, 'send', $bytes];
    }

    push @steps, choose($c, 10 => [$at, 'half'], 60 => [$at, 'wait'],
                            10 => [$at, 'close'], 10 => [$at, 'reset']);

    # nobody stays for ever; most do until they are answered
    $at += choose($c, 50 => 3, 50 => $c->());

    return [@steps, [$at, choose($c, 50 => 'close', 50 => 'reset')]];
}


sub _go_on {
    my ($self, $client, $now) = @_;

    my $stream = $client->{stream};
    my $steps = $client->{steps};

    while (@$steps && $now >= $client->{now} + $steps->[0][0]) {

        # what is to be sent goes before the end of it
        last if $steps->[0][1] eq 'half' && length $stream->{out};

        my (undef, $what, $bytes) = @{shift @$steps};

        if ($what eq 'send') {
            $client->{sent} .= $bytes;
            $stream->{out} .= $bytes;
            delete $self->{sse}{pairs};

        } elsif ($what eq 'half') {
            $client->{half} = 1;
            shutdown $stream->{socket}, SHUT_WR;

        } elsif ($what ne 'wait') {
            $stream->$what;
            return;
        }
    }
}


sub _over {
    my ($self, $client) = @_;

    delete $self->{open}{$client->{number}};

    # who has said that it is going need not be told everything
    my $how = $client->{stream}->ended;
    $how = 'local' if $client->{half};

    my $judge = $client->{kind} eq 'http2'
                || $client->{answers}{in} =~ /\A\0\0[^H]\x04/
                ? \&judge_frames : \&judge;
    my $judged = $judge->($client->{sent}, $client->{answers}{in}, $how);

    $self->{statuses}{$_}++ for @{$judged->{statuses}};

    $self->_keep($_) for @{$judged->{bodies}}, @{$judged->{cookies}};

    push @{$self->{wrong}},
         "client $client->{number} ($client->{kind}, $how): "
         . join('; ', @{$judged->{wrong}}) . "\n    sent "
         . quote($client->{sent}) . "\n    received "
         . quote($client->{answers}{in})
        if @{$judged->{wrong}};
}


# a token is of an event and a user

sub _keep {
    my ($self, $text) = @_;

    my $shown = $self->{shown};

    push @$shown, { e => $1, u => $2, token => $3 }
        if $text =~ /"eventId":"([^"]*)","userId":"([^"]*)".*
                     "token":"([0-9a-f]+)"/x;
    push @$shown, { cookie => $1 } if $text =~ /^(wq_\w+=\w+)/;

    shift @$shown while @$shown > 50;
}


sub _one {
    my ($c, @list) = @_;
    return $list[int $c->() * @list];
}


# what they send: bytes, and how many requests are in them

sub _requests {
    my ($self, $c) = @_;

    my $n = choose($c, 80 => 1, 12 => 2, 8 => 1 + int 6 * $c->());
    my $bytes = join '', map { $self->_request($c, $_ == $n) } 1 .. $n;

    $bytes = _bite($c, $bytes) if $c->() < 0.12;

    return ($bytes, $n);
}


# a request with so many of something that it does not fit

sub _many {
    my ($self, $c) = @_;

    my ($line, @headers) = $self->_parts($c);

    push @headers, choose($c,
        10 => [map { "X-$_: 1" } 1 .. 500],
        10 => [map { 'Cookie: a=' . 'x' x 500 } 1 .. 70],
        10 => [map { "Cookie: wq_uid=$_" } 1 .. 200],
        10 => ['Cookie: ' . 'a=b; ' x 1600],
        10 => ['Cookie: ' . ',' x 8000],
        10 => ['X-Waiting-Queue-Token: ' . '0' x 7900],
        10 => ['Accept: ' . 'text/html,' x 800],
        10 => ['Accept-Language: ' . 'ko;q=0.1,' x 800],
        10 => ['Last-Event-ID: ' . 'over' x 2000],
        10 => ['X: ' . 'y' x 40000],
        10 => [map { 'Accept: text/html' } 1 .. 100])->@*;

    return (join("\r\n", $line, @headers, '', ''), 1);
}


# a body of which there is always more to come, to a slow end

sub _endless {
    my ($self, $c) = @_;

    my ($line, @headers) = $self->_parts($c);
    $line =~ s/^\S+/_one($c, qw(POST PUT DELETE GET))/e;

    my $chunked = $c->() < 0.5;

    push @headers, $chunked ? 'Transfer-Encoding: chunked'
                            : 'Content-Length: 900000';
    push @headers, 'Expect: 100-continue' if $c->() < 0.2;

    return (join("\r\n", $line, @headers, '', '')
            . ($chunked ? "400\r\n" . 'x' x 1024 . "\r\n" : 'x' x 1000)
              x int(200 * $c->()), 1);
}


sub _noise {
    my ($self, $c) = @_;

    my $bytes = choose($c,
        20 => join('', map { chr int 256 * $c->() } 1 .. 1 + 400 * $c->()),
        10 => "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" . 'x' x 500,
        10 => "\0" x 100,
        10 => "\r\n" x 200 . "GET /ok HTTP/1.1\r\nHost: x\r\n\r\n",
        10 => ' ' x 9000,
        10 => "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        10 => "GET /api?e=f1&u=v1\r\n",
        10 => "GET /stream?e=f1&u=v1\n",
        10 => "*1\r\n\$4\r\nPING\r\n",
        10 => "PROXY TCP4 1.1.1.1 2.2.2.2 1 2\r\nGET / HTTP/1.1\r\n\r\n");

    return ($bytes, 0);
}


# a request line and its headers, without their ends

sub _parts {
    my ($self, $c) = @_;

    # one of three is as it should be, to be where the others do not get
    my $mutate = $c->() < 0.65;
    my $shown = $c->() < 0.5 && @{$self->{shown}} ? _one($c, @{$self->{shown}})
                                                  : {};
    my $odd = sub { $mutate && $c->() < 0.2 };

    my $address = choose($c, @addresses);
    my %id = (
        e => defined $shown->{e} ? $shown->{e} : _one($c, @events),
        u => defined $shown->{u} ? $shown->{u} : _one($c, @users),
        s => _one($c, @seats), w => _one($c, @words),
    );

    for my $name (qw(e u s)) {
        $id{$name} = _one($c, @odd) if $odd->();
    }

    $address =~ s/%([eusw])/$id{$1}/g;
    # a word may be the first argument
    $address =~ s{^(/shop)&}{$1?};
    $address = _address($c, $address) if $odd->();

    my $method = $mutate && $c->() < 0.4 ? _one($c, @methods)
                 : $address =~ m{api} ? _one($c, qw(POST POST GET DELETE HEAD
                                                    OPTIONS))
                 : 'GET';

    my @headers = ('Host: localhost');

    push @headers, 'Accept: ' . ($odd->() ? _one($c, @accepts)
                                          : _one($c, @accepts[0 .. 4]))
        if $c->() < 0.8;
    push @headers, $self->_cookie($c, $shown) if $c->() < 0.6;
    push @headers, 'X-Waiting-Queue-Token: ' . _token($c, $shown->{token})
        if $c->() < (defined $shown->{token} ? 0.8 : 0.1);

    if ($mutate) {
        push @headers, _header($c) while $c->() < 0.4;
        # in another order
        @headers = map { $_->[1] } sort { $a->[0] <=> $b->[0] }
                   map { [$c->(), $_] } @headers;
    }

    my $version = $odd->() ? _one($c, @versions) : 'HTTP/1.1';

    return ("$method $address $version", @headers);
}


sub _request {
    my ($self, $c, $last) = @_;

    my ($line, @headers) = $self->_parts($c);
    my $body = '';

    if ($c->() < 0.25) {
        my ($header, $text) = choose($c,
            30 => ['Content-Length: 5', 'abcde'],
            10 => ['Content-Length: 0', ''],
            10 => ['Content-Length: 50', 'abcde'],
            10 => ['Content-Length: 2', 'abcde'],
            10 => ['Content-Length: 20000', 'x' x 20000],
            20 => ['Content-Length: ' . _one($c, @lengths), 'abcde'],
            10 => ["Content-Length: 5\r\nContent-Length: 6", 'abcdef'],
            10 => ["Content-Length: 5\r\nTransfer-Encoding: chunked",
                   "5\r\nabcde\r\n0\r\n\r\n"],
            40 => ['Transfer-Encoding: chunked', _one($c, @chunked)],
            10 => ['Transfer-Encoding: ' . _one($c, @encodings),
                   _one($c, @chunked)])->@*;

        push @headers, $header;
        $body = $text;
    }

    push @headers, 'Connection: close' if $last && $c->() < 0.85;

    return join("\r\n", $line, @headers, '', '') . $body;
}


sub _address {
    my ($c, $address) = @_;

    return choose($c,
        10 => "$address%00",
        10 => "$address%0d%0aX-Injected:%20yes",
        10 => $address =~ s{^/}{/./}r,
        10 => $address =~ s{^/}{/x/../}r,
        10 => $address =~ s{^/}{//}r,
        10 => $address =~ s{^/}{/%2e%2e/}r,
        10 => $address =~ s{^/}{/..%2f}r,
        10 => $address =~ s{\?}{%3f}r,
        10 => $address =~ s{([a-z])}{sprintf '%%%02x', ord $1}ger,
        10 => "$address\xc3\x28",
        10 => "$address&" . 'x' x 7000,
        10 => "$address&" . 'x' x 9000,
        10 => '/' x 5000,
        10 => "$address#fragment",
        10 => "$address&e=f2&u=v2&e=&u=",
        10 => "http://elsewhere$address",
        10 => "http://localhost:99999$address",
        5 => 'http://[::1', 5 => '*', 5 => '', 5 => '?', 5 => 'x',
        5 => "$address\t", 5 => "$address x", 5 => "$address\r", 5 => '/%');
}


sub _token {
    my ($c, $token) = @_;

    $token = '0123456789abcdef' x 2 . '01234567' if !defined $token;

    return choose($c,
        60 => $token, 10 => uc $token, 10 => _bite($c, $token),
        10 => substr($token, 0, 39), 10 => "${token}0", 5 => '', 5 => '0' x 40,
        5 => "\"$token\"", 5 => "$token,$token", 5 => "\xff" x 40);
}


sub _cookie {
    my ($self, $c, $shown) = @_;

    my $uid = sprintf 'wq_uid=%032x', 1 + int 20 * $c->();
    my $cookie = defined $shown->{cookie} ? $shown->{cookie} : $uid;

    return choose($c,
        60 => "Cookie: $cookie",
        30 => "Cookie: $uid; $cookie",
        10 => "Cookie: $uid\r\nCookie: $cookie",
        10 => "cookie: a=b;$cookie;$uid; a",
        10 => "Cookie: $uid; wq_" . 'f' x 8 . '=' . _token($c),
        5 => 'Cookie: ' . _bite($c, "$cookie; $uid"),
        5 => "Cookie: wq_uid=\"$cookie\"",
        5 => 'Cookie: wq_uid',
        5 => 'Cookie: wq_uid=' . '0' x 33,
        5 => 'Cookie:',
        5 => 'Cookie: ;;;===,,,',
        5 => "Cookie: wq_uid=\xff\xfe; wq_uid=" . '0' x 32,
        5 => 'COOKIE: WQ_UID=' . 'A' x 32);
}


sub _header {
    my ($c) = @_;

    return choose($c,
        5 => 'Host: other', 5 => 'Host:', 5 => 'Host: a b', 2 => "Host: \0",
        5 => 'Host: ' . 'h' x 500,
        8 => 'Last-Event-ID: ' . _one($c, 'over', '', '0', 'OVER', "over\xff"),
        8 => 'Expect: ' . _one($c, '100-continue', '200-ok', ''),
        8 => 'X-Waiting-Queue: ' . _one($c, 'done', 'sold', ''),
        5 => 'X-Waiting-Queue-Token: ' . _token($c),
        5 => 'Accept: ' . _one($c, @accepts),
        5 => 'Transfer-Encoding: ' . _one($c, @encodings),
        5 => 'Content-Length: ' . _one($c, @lengths),
        5 => 'Connection: ' . _one($c, 'close', 'keep-alive', 'upgrade', '',
                                   'close, keep-alive', 'X-Waiting-Queue'),
        5 => "Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\n"
             . 'HTTP2-Settings: AAMAAABkAAQAAP__',
        5 => "Upgrade: websocket\r\nConnection: Upgrade",
        5 => 'Range: ' . _one($c, 'bytes=0-1', 'bytes=-1', 'bytes=9-1', 'x'),
        5 => 'If-None-Match: *', 5 => 'If-Match: "x"',
        5 => 'If-Modified-Since: Thu, 01 Jan 2099 00:00:00 GMT',
        5 => 'Accept-Encoding: gzip, deflate, br',
        5 => 'Accept-Language: ' . _one($c, 'ko', 'ja,en;q=0.5', '*', ';;',
                                       "\xff", 'x' x 1000),
        3 => 'Content-Type: ' . _one($c, 'application/json', '', 'x' x 1000),
        3 => 'X Y: z', 3 => ': z', 3 => 'no colon', 3 => " folded: x",
        3 => "X-\0: z", 3 => "X-Z: a\0b", 3 => "X-Bare: a\rX-Injected: yes",
        3 => "X-Bare: a\nX-Injected: yes", 3 => "X-\xff: \xff",
        3 => 'X_Underscore: 1', 3 => 'X-Accel-Redirect: /status',
        3 => 'Authorization: Basic ' . 'QQ' x 100, 3 => 'Max-Forwards: 0',
        3 => 'Content-Length : 5', 3 => "Trailer: X-Injected\r\nTE: trailers");
}


# a few bytes become others

sub _bite {
    my ($c, $bytes) = @_;

    for (1 .. 1 + int 4 * $c->()) {
        my $at = int $c->() * length $bytes;
        my $what = choose($c, 40 => 'set', 20 => 'cut', 20 => 'add',
                              10 => 'end', 10 => 'again');

        if ($what eq 'set') {
            substr $bytes, $at, 1, chr int 256 * $c->() if length $bytes;
        } elsif ($what eq 'cut') {
            substr $bytes, $at, 1 + int 8 * $c->(), '';
        } elsif ($what eq 'add') {
            substr $bytes, $at, 0, _one($c, "\0", "\r", "\n", "\r\n", ' ', ':',
                                        "\xff", '%', '"', "\r\n\r\n", ';');
        } elsif ($what eq 'end') {
            $bytes = substr $bytes, 0, $at;
        } else {
            substr $bytes, $at, 0, substr $bytes, $at, 1 + int 30 * $c->();
        }
    }

    return $bytes;
}


# frames, of which some are none

sub _http2 {
    my ($self, $c) = @_;

    my $bytes = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    my $count = 0;
    my $id = 1;

    $bytes .= _frame(4, 0, 0, '') if $c->() < 0.9;

    for (1 .. 1 + int 8 * $c->()) {
        my $any = choose($c, 70 => $id, 10 => 0, 10 => 2, 5 => 0x7fffffff,
                             5 => 1);
        my $flags = choose($c, 60 => 0x5, 20 => 0x4, 20 => int 256 * $c->());

        my $frame = choose($c, 50 => 'headers', 10 => 'data', 5 => 'priority',
                               8 => 'reset', 8 => 'settings', 4 => 'ping',
                               8 => 'window', 2 => 'goaway', 3 => 'promise',
                               3 => 'continuation', 4 => 'unknown');

        if ($frame eq 'headers') {
            $count++;
            $bytes .= _frame(1, $flags, $any, $self->_fields($c));
            $id += 2 if $any == $id;
        } elsif ($frame eq 'data') {
            $bytes .= _frame(0, $flags & 0x9, $id > 2 ? $id - 2 : $any,
                             'x' x int 300 * $c->());
        } elsif ($frame eq 'priority') {
            $bytes .= _frame(2, 0, $any, pack 'NC', $any, 255);
        } elsif ($frame eq 'reset') {
            $bytes .= _frame(3, 0, $id > 2 ? $id - 2 : $any, pack 'N', 8);
        } elsif ($frame eq 'settings') {
            $bytes .= _frame(4, $flags & 1, 0, $c->() < 0.7
                ? pack('nN', 1 + int 7 * $c->(),
                       _one($c, 0, 1, 65535, 0x7fffffff, 0xffffffff))
                : 'x' x int 20 * $c->());
        } elsif ($frame eq 'ping') {
            $bytes .= _frame(6, $flags & 1, 0, 'x' x _one($c, 8, 8, 7, 0));
        } elsif ($frame eq 'window') {
            $bytes .= _frame(8, 0, $any == $id && $id > 2 ? $id - 2 : $any,
                             pack 'N', _one($c, 0, 1, 65535, 0x7fffffff));
        } else {
            my %type = (goaway => 7, promise => 5, continuation => 9,
                        unknown => 10 + int 240 * $c->());
            $bytes .= _frame($type{$frame}, $flags, $any,
                             join '', map { chr int 256 * $c->() }
                                          1 .. 20 * $c->());
        }
    }

    $bytes = _bite($c, $bytes) if $c->() < 0.25;

    return ($bytes, $count);
}


sub _frame {
    my ($type, $flags, $id, $payload) = @_;
    my $length = length $payload;

    return pack('CnCCN', $length >> 16, $length & 0xffff, $type, $flags, $id)
           . $payload;
}


# the fields of a request as HTTP/1 has it, in literals without an index

sub _fields {
    my ($self, $c) = @_;

    my ($line, @headers) = $self->_parts($c);
    my ($method, $path) = split / /, $line;

    my @fields = ([':method', $method], [':scheme', 'http'],
                  [':path', defined $path ? $path : '/'],
                  [':authority', 'localhost']);

    for my $header (@headers) {
        my ($name, $value) = split /:\s*/, $header, 2;
        next if lc $name eq 'host' || !defined $value;

        # one field for each, as a browser has it
        push @fields, map { [lc $name, $_] }
                      lc $name eq 'cookie' ? split /; /, $value : $value;
    }

    if ($c->() < 0.3) {
        push @fields, choose($c,
            10 => [':path', '/ok'], 10 => ['X-Upper', 'a'],
            10 => ['x-injected', "a\r\nX-Injected: yes"],
            10 => ["x\r\ny", 'a'], 10 => ['', ''], 10 => [':unknown', 'x'],
            10 => ['connection', 'close'], 10 => ['te', 'gzip'],
            10 => ['transfer-encoding', 'chunked'],
            10 => ['content-length', _one($c, @lengths)],
            10 => ['cookie', "wq_uid=a\0b"], 10 => ['x', 'y' x 8000],
            10 => [':status', '200']);
    }

    @fields = reverse @fields if $c->() < 0.05;
    splice @fields, $c->() * @fields, 1 if $c->() < 0.1;

    my $bytes = join '', map { "\0" . _text($_->[0]) . _text($_->[1]) } @fields;

    # a number of the table, and one that is not there
    $bytes .= _one($c, "\x82", "\xbf", "\xff\xff\xff\xff\xff\x0f",
                   "\x3f\xe1\xff", "\x80") if $c->() < 0.1;
    $bytes = _bite($c, $bytes) if $c->() < 0.1;

    # that is all that fits into a frame
    return substr $bytes, 0, 16384;
}


sub _text {
    my ($text) = @_;

    my $length = length $text;

    return chr($length) . $text if $length < 127;

    my $number = chr 127;

    for ($length -= 127; $length >= 128; $length >>= 7) {
        $number .= chr($length & 127 | 128);
    }

    return $number . chr($length) . $text;
}


# what comes back is kept, and judged in the end

package WaitingQueue::HttpFuzz::Answers;

sub feed {
    my ($self, $bytes) = @_;

    $self->{bytes} += length $bytes;
    $self->{in} .= $bytes;
}

sub finish { }


1;
