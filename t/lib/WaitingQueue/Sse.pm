package WaitingQueue::Sse;

# Clients of the stream, as many as there are descriptors, in one process:
#
#     use WaitingQueue::Sse;
#
#     my $sse = WaitingQueue::Sse->new(port => $port);
#     my $s = $sse->open(path => '/events/e1/tickets/waiting?user=u1');
#
#     $sse->run_until(sub { $s->last('promoted') }, 5, 'promoted');
#     is_deeply([ $sse->violations ], [], 'what was sent is well-formed');
#
# Nothing is read but in run_until(), run_for() and turn().  What a stream may
# not contain is noted as it comes in: violations() has all of it, of all
# streams that ever were.  t/000-sse-client.t shows that it sees them.
#
# A stream:
#
#     status, version, headers        undef until the head is there; names of
#                                     headers are in lower case
#     events                          { event, data, id, retry, at, raw } each;
#                                     data is the decoded JSON
#     last(name), first(name)         of that name; without: of any
#     news                            those since the last call of this
#     count(name), names              how many; all names in one string
#     rank, token                     as last told
#     comments                        how many
#     body, json                      of an answer that is no stream
#     ended                           undef while it is open, "clean" after the
#                                     last chunk (or all of the body), "eof",
#                                     "reset", "local" after close() or reset(),
#                                     "failed" if there was no connection
#     close, reset                    FIN and RST
#     stop_reading, resume            a client that stalls

use strict;
use warnings;

use Errno qw(EINPROGRESS);
use Fcntl qw(F_GETFL F_SETFL O_NONBLOCK);
use IO::Poll ();
use Socket qw(AF_INET IPPROTO_TCP SOCK_STREAM SOL_SOCKET SO_RCVBUF TCP_NODELAY
              inet_aton pack_sockaddr_in);
use Test::More ();
use Time::HiRes ();

my $slow = ($ENV{WQ_TEST_FLAVOUR} || 'plain') =~ /^asan/ ? 3 : 1;


# new(port => number, host => address): where streams go that do not say it

sub new {
    my ($class, %options) = @_;

    return bless {
        host => '127.0.0.1',
        %options,
        streams => {},
        violations => [],
        seen => 0,
    }, $class;
}


# open(path => , port => , host => , http => '1.1', method => 'GET',
#      headers => { name => value }, body => , source => address,
#      rcvbuf => bytes, raw => the whole request, name => for messages)

sub open {
    my ($self, %o) = @_;

    %o = (host => $self->{host}, port => $self->{port}, http => '1.1',
          method => 'GET', headers => {}, %o);

    my $s = WaitingQueue::Sse::Stream->_new($self, \%o);

    $self->{seen}++;

    socket my $socket, AF_INET, SOCK_STREAM, 0 or die "socket: $!\n";
    _nonblocking($socket);

    setsockopt $socket, SOL_SOCKET, SO_RCVBUF, pack 'i', $o{rcvbuf}
        or die "SO_RCVBUF: $!\n" if $o{rcvbuf};

    bind $socket, pack_sockaddr_in(0, inet_aton($o{source}))
        or die "bind: $!\n" if $o{source};

    $s->{out} = defined $o{raw} ? $o{raw} : _request(\%o);
    $s->{socket} = $socket;

    if (!connect $socket, pack_sockaddr_in($o{port}, inet_aton($o{host}))
        and $! != EINPROGRESS)
    {
        $s->_end('failed');
        return $s;
    }

    setsockopt $socket, IPPROTO_TCP, TCP_NODELAY, 1;

    $self->_watch($s);

    return $s;
}


# curl(url, arguments): a stream that curl reads, for what this client does not
# speak; TLS and HTTP/2 it does

sub curl {
    my ($self, $url, @arguments) = @_;

    my ($http) = "@arguments" =~ /--http(1\.[01])/;
    my $s = WaitingQueue::Sse::Stream->_new(
                $self, { path => $url, name => "curl $url", curl => 1,
                         method => 'GET', http => $http });

    # chunks as they are
    my $pid = CORE::open my $pipe, '-|', 'curl', '-sikN', '-g', '--raw',
                         '-H', 'Accept: text/event-stream', @arguments, $url;
    die "curl: $!\n" if !$pid;

    _nonblocking($pipe);

    $self->{seen}++;
    $s->{pid} = $pid;
    $s->{out} = '';
    $s->{socket} = $pipe;

    $self->_watch($s);

    return $s;
}


sub _nonblocking {
    my ($handle) = @_;

    my $flags = fcntl $handle, F_GETFL, 0 or die "fcntl: $!\n";
    fcntl $handle, F_SETFL, $flags | O_NONBLOCK or die "fcntl: $!\n";
}


sub _request {
    my ($o) = @_;

    my %headers = (Host => 'localhost', Accept => 'text/event-stream',
                   %{$o->{headers}});

    $headers{'Content-Length'} = length $o->{body}
        if defined $o->{body} && !exists $headers{'Transfer-Encoding'};

    return join '', "$o->{method} $o->{path} HTTP/$o->{http}\r\n",
                    map({ defined $headers{$_} ? "$_: $headers{$_}\r\n" : () }
                        sort keys %headers),
                    "\r\n", defined $o->{body} ? $o->{body} : '';
}


# those that have not ended

sub streams { return values %{$_[0]{streams}} }


# what was wrong, each with the name of its stream

sub violations { return @{$_[0]{violations}} }


sub close_all {
    my $self = shift;
    $_->close for $self->streams;
}


# run_until(code, seconds, what): what code returned as soon as that is true.
# Without "what" it is no test, and undef is the answer when time is over.

sub run_until {
    my ($self, $code, $seconds, $what) = @_;

    my $start = Time::HiRes::time();
    my $deadline = $start + $slow * $seconds;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    while (1) {
        # the last look is after the deadline: the test may have been held up
        my $last = Time::HiRes::time() > $deadline;
        my $value = eval { $code->() };

        if ($value) {
            Test::More::pass($what) if defined $what;
            return $value;
        }

        last if $last;
        $self->turn(0.02);
    }

    my $error = $@;

    if (defined $what) {
        Test::More::fail($what);
        Test::More::diag(sprintf "not within %.1f s%s\n%s",
                                 Time::HiRes::time() - $start,
                                 $error ? ": $error" : '', $self->describe);
    }

    return;
}


# for what must not happen, there is no event to wait for

sub run_for {
    my ($self, $seconds) = @_;

    my $end = Time::HiRes::time() + $seconds;

    while ((my $left = $end - Time::HiRes::time()) > 0) {
        $self->turn($left < 0.02 ? $left : 0.02);
    }
}


# one look at all streams, which waits at most so long for any to have news

sub turn {
    my ($self, $seconds) = @_;

    $self->{pairs} ||= [ map { ($_, $self->{streams}{$_}->_mask) }
                             keys %{$self->{streams}} ];

    # IO::Poll's own poll() looks every descriptor up in a hash, each time
    my @pairs = @{$self->{pairs}};

    if (!@pairs) {
        Time::HiRes::sleep($seconds);
        return;
    }

    my $n = IO::Poll::_poll(int(1000 * $seconds + 0.5), @pairs);

    return if $n <= 0;

    my $now = Time::HiRes::time();

    while (my ($fd, $events) = splice @pairs, 0, 2) {
        next if !$events;
        my $s = $self->{streams}{$fd} or next;
        $s->_ready($events, $now);
    }
}


sub describe {
    my $self = shift;

    my @lines = map { $_->describe }
                sort { $a->{number} <=> $b->{number} } $self->streams;
    splice @lines, 10, @lines - 10, '...' if @lines > 10;

    return join "\n", scalar(keys %{$self->{streams}}) . ' streams are open',
                      @lines, $self->violations;
}


sub _watch {
    my ($self, $s) = @_;

    $self->{streams}{fileno $s->{socket}} = $s;
    delete $self->{pairs};
}


sub _unwatch {
    my ($self, $s) = @_;

    delete $self->{streams}{fileno $s->{socket}};
    delete $self->{pairs};
}


package WaitingQueue::Sse::Stream;

use Errno qw(EAGAIN ECONNRESET EINTR EPIPE);
use IO::Poll qw(POLLERR POLLHUP POLLIN POLLOUT);
use Socket qw(SOL_SOCKET SO_LINGER);

my $number = 0;


sub _new {
    my ($class, $sse, $o) = @_;

    my $self = bless {
        sse => $sse,
        number => ++$number,
        name => defined $o->{name} ? $o->{name}
                                   : "$o->{method} " . ($o->{path} || 'raw'),
        reading => 1,
        opened => Time::HiRes::time(),
    }, $class;

    my $name = $self->{name};
    my $list = $sse->{violations};

    $self->{parser} = WaitingQueue::Sse::Parser->new(
        method => $o->{method},
        http => $o->{http} || '1.1',
        curl => $o->{curl},
        complain => sub { push @$list, "$name: $_[0]" },
    );

    return $self;
}


sub name { return $_[0]{name} }
sub opened { return $_[0]{opened} }
sub status { return $_[0]{parser}{status} }
sub version { return $_[0]{parser}{version} }
sub headers { return $_[0]{parser}{headers} }
sub header { return ($_[0]{parser}{headers} || {})->{lc $_[1]} }
sub events { return @{$_[0]{parser}{events}} }
sub comments { return $_[0]{parser}{comments} }
sub body { return $_[0]{parser}{body} }
sub ended { return $_[0]{ended} }
sub bytes { return $_[0]{parser}{bytes} }


# a stream that was answered as one

sub is_open { return !defined $_[0]{ended} && $_[0]{parser}{sse} }


sub json {
    my $self = shift;

    require JSON::PP;
    return eval { JSON::PP::decode_json($self->body) };
}


sub first {
    my ($self, $name) = @_;

    for my $event ($self->events) {
        return $event if !defined $name || $event->{event} eq $name;
    }

    return;
}


sub last {
    my ($self, $name) = @_;
    return $self->{parser}{latest}{defined $name ? $name : ''};
}


sub news {
    my $self = shift;

    my $events = $self->{parser}{events};
    my $known = $self->{known} || 0;

    $self->{known} = @$events;

    return @$events[$known .. $#$events];
}


sub count {
    my ($self, $name) = @_;
    return scalar grep { $_->{event} eq $name } $self->events;
}


sub names { return join ' ', map { $_->{event} } $_[0]->events }


sub rank {
    my $last = $_[0]->last('position');
    return $last && $last->{data}{rank};
}


sub token {
    my $last = $_[0]->last('promoted');
    return $last && $last->{data}{token};
}


sub describe {
    my $self = shift;

    return join ' ', $self->{name}, defined $self->status ? $self->status : '-',
                     defined $self->{ended} ? "($self->{ended})" : '',
                     $self->names, defined $self->rank ? $self->rank : '',
                     substr $self->body, 0, 200;
}


sub close {
    my $self = shift;

    return if defined $self->{ended};
    $self->_end('local');
}


sub reset {
    my $self = shift;

    return if defined $self->{ended};

    setsockopt $self->{socket}, SOL_SOCKET, SO_LINGER, pack('ii', 1, 0)
        if !$self->{pid};
    $self->_end('local');
}


sub stop_reading { $_[0]->_reading(0) }
sub resume { $_[0]->_reading(1) }


sub _reading {
    my ($self, $reading) = @_;

    $self->{reading} = $reading;
    delete $self->{sse}{pairs};
}


sub _mask {
    my $self = shift;
    return ($self->{reading} ? POLLIN : 0)
           | (length $self->{out} ? POLLOUT : 0);
}


sub _ready {
    my ($self, $events, $now) = @_;

    if ($events & POLLOUT && length $self->{out}) {
        my $n = syswrite $self->{socket}, $self->{out};

        if (!defined $n) {
            return if $! == EAGAIN || $! == EINTR;
            return $self->_end('failed') if $! != EPIPE && $! != ECONNRESET;

            # there may be an answer to what it did not take
            $self->{out} = '';
            delete $self->{sse}{pairs};

        } else {
            substr $self->{out}, 0, $n, '';
            delete $self->{sse}{pairs} if $self->{out} eq '';
        }
    }

    # a client that does not read does not see the end either, but a reset

    if (!$self->{reading}) {
        $self->_end('reset') if $events & POLLERR;
        return;
    }

    return if !($events & (POLLIN | POLLERR | POLLHUP));

    my $n = sysread $self->{socket}, my $bytes, 65536;

    if (!defined $n) {
        return if $! == EAGAIN || $! == EINTR;
        return $self->_end($self->{parser}{bytes} || $! == ECONNRESET
                           ? 'reset' : 'failed');
    }

    if ($n == 0) {
        return $self->_end('eof');
    }

    $self->{parser}->feed($bytes, $now);
    $self->_end('clean') if $self->{parser}{done};
}


sub _end {
    my ($self, $how) = @_;

    $self->{sse}->_unwatch($self);

    if ($self->{pid}) {
        # curl knows how it ended
        kill 'KILL', $self->{pid} if $how eq 'local';
        CORE::close $self->{socket};
        $how = $? == 0 ? 'clean' : 'eof' if $how eq 'eof';

    } else {
        CORE::close $self->{socket};
    }

    $self->{ended} = $how;
    $self->{ended_at} = Time::HiRes::time();
    $self->{parser}->finish($how) if $how ne 'local';
}


sub ended_at { return $_[0]{ended_at} }


# What a server may send, byte by byte: feed(bytes, time) takes them in pieces
# of any length, finish(how) is the end.

package WaitingQueue::Sse::Parser;

my %terminal = map { $_ => 1 } qw(expired sold_out closed replaced);
my %known = (%terminal, map { $_ => 1 } qw(position promoted reconnect));

my %status_of = (
    position => qr/^waiting$/,
    promoted => qr/^(?:ready|entered)$/,
    sold_out => qr/^sold_out$/,
    closed => qr/^closed$/,
);

# so exact that whatever matches is JSON
my $n = qr/null|0|[1-9][0-9]{0,15}/;
my $id = qr/[A-Za-z0-9._~\@:-]{1,128}/;
my $status = qr/none|waiting|ready|entered|sold_out|closed|full/;
my $place = qr/"rank":($n),"waitingPosition":($n),"aheadCount":($n)/;
my $rest = qr/"total":($n),"etaSeconds":($n)/;
my $token = qr/null|"[0-9a-f]{40}"/;
my $brief = qr/\A\{"status":"($status)",$place,$rest\}\z/;
my $full = qr/\A\{"status":"($status)","eventId":"($id)","userId":"($id)"
              ,$place,$rest,"token":($token),"expiresAt":($n)\}\z/x;


sub new {
    my ($class, %options) = @_;

    return bless {
        method => 'GET',
        http => '1.1',
        complain => sub { },
        %options,
        in => '',                   # bytes not yet understood
        text => '',                 # of the stream, not yet a whole line
        body => '',
        bytes => 0,
        events => [],
        latest => {},               # by name, and under '' the last of all
        comments => 0,
        lines => 0,
        event => {},
    }, $class;
}


sub complain {
    my ($self, $what) = @_;
    $self->{complain}->($what);
}


sub feed {
    my ($self, $bytes, $now) = @_;

    $self->{bytes} += length $bytes;
    $self->{now} = $now || 0;
    $self->{in} .= $bytes;

    if (!defined $self->{status}) {
        my $end = index $self->{in}, "\r\n\r\n";

        if ($end < 0) {
            if (length $self->{in} > 65536) {
                $self->complain('a head without an end');
                $self->{in} = '';
            }
            return;
        }

        my $head = substr $self->{in}, 0, $end + 4, '';
        $self->_head(substr $head, 0, $end);
    }

    $self->_body if !$self->{done};

    $self->complain('bytes after the end: ' . _quote($self->{in}))
        if $self->{done} && length $self->{in};
}


# finish(how): what was left over

sub finish {
    my ($self, $how) = @_;

    if (!defined $self->{status}) {
        $self->complain('a head without an end: ' . _quote($self->{in}))
            if length $self->{in};
        return;
    }

    return if $self->{done};

    # a chunked answer that just ends was cut off; whether that is wrong is
    # for the test to say, for it may have killed the worker

    return if $self->{framing} eq 'chunked';

    $self->complain("$self->{left} bytes of the body are missing")
        if $self->{framing} eq 'length' && $how ne 'reset';
    $self->_text_end if $self->{framing} eq 'close' && $how ne 'reset';
}


sub _head {
    my ($self, $head) = @_;

    my ($first, @lines) = split /\r\n/, $head, -1;

    if ($first !~ m{^HTTP/(1\.[01]|2) ([1-5][0-9][0-9])(?: |$)}) {
        $self->complain('no status line: ' . _quote($first));
        $self->{status} = 0;
        $self->{headers} = {};
        $self->{framing} = 'close';
        return;
    }

    my ($version, $status) = ($1, $2);
    my %headers;

    for my $line (@lines) {
        if ($line !~ /^([A-Za-z0-9-]+):[ ]?(.*?)[ ]*$/ || $line =~ /[\r\n\0]/) {
            $self->complain('no header: ' . _quote($line));
            next;
        }

        my ($name, $value) = (lc $1, $2);

        $self->complain("header $name twice") if exists $headers{$name};
        $headers{$name} = $value;
    }

    $self->{version} = $version;
    $self->{status} = $status;
    $self->{headers} = \%headers;
    $self->{sse} = ($headers{'content-type'} || '') =~ m{^text/event-stream};

    my $chunked = $headers{'transfer-encoding'};
    my $length = $headers{'content-length'};

    $self->complain("transfer-encoding: $chunked")
        if defined $chunked && $chunked ne 'chunked';
    $self->complain('chunked and with a length')
        if defined $chunked && defined $length;
    $self->complain("content-length: $length")
        if defined $length && $length !~ /^\d+$/;
    $self->complain("chunked in HTTP/$version")
        if defined $chunked && ($version ne '1.1' || $self->{http} eq '1.0');

    if ($self->{sse}) {
        $self->complain("a stream with status $status") if $status != 200;
        $self->complain("content-type: $headers{'content-type'}")
            if $headers{'content-type'} ne 'text/event-stream';
        $self->complain('a stream with a length') if defined $length;
        $self->complain('a stream that may be cached')
            if ($headers{'cache-control'} || '') ne 'no-store';
        $self->complain('a stream that may be buffered')
            if ($headers{'x-accel-buffering'} || '') ne 'no';
        $self->complain('a stream that is encoded')
            if exists $headers{'content-encoding'};
        # a server says its own version, whatever that of the request
        $self->complain('a stream that is not chunked')
            if $version eq '1.1' && $self->{http} ne '1.0'
               && !defined $chunked;
        $self->complain("$_ of a stream")
            for grep { exists $headers{$_} } qw(etag last-modified expires
                                                accept-ranges);
    }

    if ($self->{method} eq 'HEAD' || $status == 204 || $status == 304) {
        $self->complain("status $status with a length")
            if $status == 204 && (defined $chunked || defined $length);
        $self->{framing} = 'none';
        $self->{done} = 1;

    } elsif (defined $chunked) {
        $self->{framing} = 'chunked';

    } elsif (defined $length && !$self->{curl}) {
        $self->{framing} = 'length';
        $self->{left} = $length =~ /^\d+$/ ? $length : 0;
        $self->{done} = 1 if $self->{left} == 0;

    } else {
        $self->{framing} = 'close';
    }
}


sub _body {
    my $self = shift;

    if ($self->{framing} eq 'close') {
        my $all = $self->{in};
        $self->{in} = '';
        $self->_text($all);
        return;
    }

    if ($self->{framing} eq 'length') {
        my $some = substr $self->{in}, 0, $self->{left}, '';
        $self->{left} -= length $some;
        $self->_text($some);

        if ($self->{left} == 0) {
            $self->{done} = 1;
            $self->_text_end;
        }
        return;
    }

    # chunks

    while (length $self->{in}) {

        if (!defined $self->{chunk}) {
            my $end = index $self->{in}, "\r\n";

            if ($end < 0 ? length $self->{in} > 17 : $end > 16) {
                return $self->_broken('a chunk without a size');
            }

            return if $end < 0;

            my $size = substr $self->{in}, 0, $end + 2, '';
            substr $size, -2, 2, '';

            return $self->_broken('size of a chunk: ' . _quote($size))
                if $size !~ /^(?:0|[1-9a-f][0-9a-f]{0,7})$/;

            $self->{chunk} = hex $size;
        }

        if ($self->{chunk} == 0) {
            return if length $self->{in} < 2;

            my $tail = substr $self->{in}, 0, 2, '';

            $self->complain('after the last chunk: ' . _quote($tail))
                if $tail ne "\r\n";
            $self->{done} = 1;
            $self->_text_end;
            return;
        }

        # piece by piece: a stalled stream may be cut anywhere

        if ($self->{chunk} > 0) {
            my $some = substr $self->{in}, 0, $self->{chunk}, '';
            $self->{chunk} -= length $some;
            $self->{chunk} = -1 if $self->{chunk} == 0;
            $self->_text($some);
        }

        if ($self->{chunk} == -1) {
            return if length $self->{in} < 2;

            my $tail = substr $self->{in}, 0, 2, '';

            return $self->_broken('after a chunk: ' . _quote($tail))
                if $tail ne "\r\n";
            delete $self->{chunk};
        }
    }
}


# nothing that follows could be understood

sub _broken {
    my ($self, $what) = @_;

    $self->complain($what);
    $self->{in} = '';
    $self->{done} = 1;
}


# the payload

sub _text {
    my ($self, $text) = @_;

    if (!$self->{sse}) {
        $self->{body} .= $text;
        return;
    }

    $self->{text} .= $text;

    while ((my $end = index $self->{text}, "\n") >= 0) {
        my $line = substr $self->{text}, 0, $end + 1, '';
        chop $line;
        $self->_line($line);
    }

    $self->complain('a line without an end') && ($self->{text} = '')
        if length $self->{text} > 65536;
}


sub _text_end {
    my $self = shift;

    return if !$self->{sse};

    $self->complain('it ends in a line: ' . _quote($self->{text}))
        if length $self->{text};
    $self->complain('it ends in an event')
        if %{$self->{event}} || $self->{comment};
    $self->complain('it ends without an event') if !@{$self->{events}}
                                                   && !$self->{told};
    $self->complain('it ends without a last word')
        if $self->{framing} ne 'close' && $self->{told} && !$self->{over};
}


sub _line {
    my ($self, $line) = @_;

    my $event = $self->{event};
    my $first = $self->{lines}++ == 0;

    if ($first && $line !~ /^retry: /) {
        $self->complain('the first line is no retry: ' . _quote($line));
    }

    if ($self->{comment}) {
        # a comment is alone
        delete $self->{comment};
        return if $line eq '';
        $self->complain('after a comment: ' . _quote($line));
    }

    if ($line eq '') {
        if (%$event) {
            $self->{event} = {};
            $self->_event($event);
        } else {
            $self->complain('a blank line too many');
        }

    } elsif ($line eq ': ') {
        $self->complain('a comment in an event') if %$event;
        $self->complain('a comment after the end') if $self->{over};
        $self->{comments}++;
        $self->{comment} = 1;

    } elsif ($line =~ /^retry: ([0-9]+)$/) {
        $self->complain('retry twice') if exists $event->{retry};
        $self->complain('retry in an event') if exists $event->{event};
        $event->{retry} = $1;

    } elsif ($line eq 'id: over') {
        $self->complain('id twice') if exists $event->{id};
        $self->complain('id after event') if exists $event->{event};
        $event->{id} = 'over';

    } elsif ($line =~ /^event: ([a-z_]+)$/) {
        $self->complain('event twice') if exists $event->{event};
        $self->complain("event $1") if !$known{$1};
        $event->{event} = $1;

    } elsif ($line =~ /^data: (.*)$/s) {
        $self->complain('data twice') if exists $event->{raw};
        $self->complain('data before event') if !exists $event->{event};
        $event->{raw} = $1;

    } else {
        $self->complain('what line is this: ' . _quote($line));
    }
}


sub _event {
    my ($self, $event) = @_;

    $event->{at} = $self->{now};

    my $name = $event->{event};
    my $raw = $event->{raw};

    if (!defined $name || !defined $raw) {
        $self->complain('an event without '
                        . (defined $name ? 'data' : 'name'));
        return;
    }

    $self->complain("$name after the end") if $self->{over};

    $self->_retry($name, $event->{retry}, !$self->{told});

    if ($terminal{$name}) {
        $self->complain("$name without id") if !exists $event->{id};
    } else {
        $self->complain("$name with id") if exists $event->{id};
    }

    my $data = $event->{data} = $self->_data($name, $raw);
    my $first = !$self->{told}++;

    # the whole of it at first, then only what may change

    if ($data) {
        my $is_full = exists $data->{eventId};

        $self->complain("$name is brief")
            if !$is_full && ($first || $name eq 'promoted');
        $self->complain("$name is not brief")
            if $is_full && !$first && $name eq 'position';

        if ($is_full) {
            my $who = "$data->{eventId} $data->{userId}";

            $self->complain("$name of somebody else: $who")
                if defined $self->{who} && $self->{who} ne $who;
            $self->{who} = $who;
        }
    }

    if ($name eq 'position') {
        $self->complain('position after promoted') if $self->{in_already};
        $self->complain("position $data->{rank} again")
            if $data && defined $data->{rank} && defined $self->{rank}
               && $data->{rank} == $self->{rank}
               && _shown($data->{etaSeconds}) eq _shown($self->{eta});
        $self->{rank} = $data && $data->{rank};
        $self->{eta} = $data && $data->{etaSeconds};

    } elsif ($name eq 'promoted') {
        $self->{in_already} = 1;
    }

    $self->{over} = 1 if $terminal{$name} || $name eq 'reconnect';

    push @{$self->{events}}, $event;
    $self->{latest}{$name} = $self->{latest}{''} = $event;
}


# at first, and when the worker leaves: then it is shorter where the streams of a
# worker end one after another

sub _retry {
    my ($self, $name, $retry, $first) = @_;

    if ($name eq 'reconnect') {
        $self->complain("$name without retry") if !defined $retry;
    } elsif (!$first) {
        $self->complain('retry in the middle') if defined $retry;
    }

    return if !defined $retry;

    my $least = $name eq 'reconnect' ? 500 : 3000;
    $self->complain("retry: $retry") if $retry < $least || $retry > 6000;
}


sub _data {
    my ($self, $name, $raw) = @_;

    my %data;

    if ($raw =~ $brief) {
        @data{qw(status rank waitingPosition aheadCount total etaSeconds)}
            = ($1, $2, $3, $4, $5, $6);

    } elsif ($raw =~ $full) {
        @data{qw(status eventId userId rank waitingPosition aheadCount total
                 etaSeconds token expiresAt)}
            = ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10);

    } else {
        $self->complain("data of $name: " . _quote($raw));
        return;
    }

    for my $value (values %data) {
        $value = $value eq 'null' ? undef
                 : $value =~ /^"(.*)"$/ ? $1
                 : $value =~ /^[0-9]+$/ ? 0 + $value : $value;
    }

    # an id may look like a number, or like no value
    @data{qw(eventId userId)} = ($2, $3) if $raw =~ $full;

    my $places = grep { defined } @data{qw(rank waitingPosition aheadCount)};

    if ($places == 3) {
        $self->complain("position and rank differ: $raw")
            if $data{waitingPosition} != $data{rank} + 1
               || $data{aheadCount} != $data{rank};
        $self->complain("total is too small: $raw")
            if !defined $data{total} || $data{total} < $data{waitingPosition};

    } elsif ($places > 0) {
        $self->complain("half a place: $raw");
    }

    $self->complain("$name is $data{status}")
        if $status_of{$name} && $data{status} !~ $status_of{$name};

    if ($name eq 'position') {
        $self->complain("position without a place: $raw") if $places == 0;
        $self->complain("position with a token: $raw")
            if defined $data{token} || defined $data{expiresAt};
    }

    $self->complain("promoted without a token: $raw")
        if $name eq 'promoted'
           && (!defined $data{token} || !defined $data{expiresAt}
               || $data{expiresAt} < 1e12);

    return \%data;
}


sub _shown { return defined $_[0] ? $_[0] : 'null' }


sub _quote {
    my $text = substr shift, 0, 200;
    $text =~ s/([^ -~])/sprintf '\\x%02x', ord $1/ge;
    return qq("$text");
}


1;
