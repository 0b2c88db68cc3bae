package WaitingQueue::Backend;

# What stands behind the gate, where a test must see what comes through:
#
#     my $backend = WaitingQueue::Backend->new;       listens at once
#     $ENV{TEST_NGINX_BACKEND_PORT} = $backend->port;
#     $ENV{TEST_NGINX_FASTCGI_PORT} = $backend->fastcgi_port;
#     ...
#     my @seen = $backend->requests;      { method, uri, head, body } each
#     $backend->forget;                   and holds all anew
#     $backend->let_go('a');
#
# Arguments of a request say how it is answered:
#
#     say=done            X-Waiting-Queue: done; may be given several times
#     status=500          of the answer
#     accel=/uri          X-Accel-Redirect
#     age=60              Cache-Control: max-age
#     hold=a              not before let_go('a')
#     size=100000         of the answer, in bytes
#     login=kim           X-Login: kim
#     junk=N              bytes that are no answer, one of four kinds; then the
#                         connection is closed
#
# A request with "Upgrade: websocket" is answered with the handshake, and then
# everything is sent back as it comes.  The FastCGI side answers with the
# parameters it got, and the length of the body.
#
# A process listens, and each connection has one more; they end with the test.

use strict;
use warnings;

use Digest::SHA ();
use File::Temp ();
use IO::Select;
use IO::Socket::INET;
use JSON::PP ();
use MIME::Base64 ();
use POSIX ();
use Time::HiRes ();

my @all;

# nothing at all; noise; a header without an end; words that mean nothing
my @junk = ('', "HTTP/1.1 200 OK\r\n\0"
                . join('', map { chr 255 - $_ % 256 } 1 .. 3000) . "\r\n\r\n",
            "HTTP/1.1 200 OK\r\nX-Waiting-Queue: " . 'd' x 60000,
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n"
            . "X-Waiting-Queue: DONE, sold\r\n" x 50
            . "X-Waiting-Queue: \r\n\r\nabc");


sub new {
    my $class = shift;

    my $self = bless { dir => File::Temp->newdir, owner => $$ }, $class;

    for my $kind (qw(http fastcgi)) {
        $self->{$kind} = IO::Socket::INET->new(LocalAddr => '127.0.0.1',
                                               Listen => 511)
            or die "listen: $!\n";
    }

    my $pid = fork;
    die "fork: $!\n" if !defined $pid;

    if ($pid == 0) {
        setpgrp;
        $self->_serve;
        POSIX::_exit(0);
    }

    $self->{pid} = $pid;
    $self->{ports} = { map { $_ => $self->{$_}->sockport } qw(http fastcgi) };
    close $self->{$_} for qw(http fastcgi);
    push @all, $self;

    return $self;
}


sub port { return $_[0]{ports}{http} }
sub fastcgi_port { return $_[0]{ports}{fastcgi} }


sub stop {
    my $self = shift;

    return if !$self->{pid} || $self->{owner} != $$;

    # its own group: the one that listens, and those of the connections
    kill 'KILL', -$self->{pid} or kill 'KILL', $self->{pid};
    waitpid $self->{pid}, 0;
    delete $self->{pid};
}

END {
    my $status = $?;
    $_->stop for @all;
    $? = $status;
}


# requests(kind): those that have come; of kind "part" the pieces of bodies, as
# they came

sub requests {
    my ($self, $kind) = @_;

    my @noted;

    if (open my $log, '<', "$self->{dir}/log") {
        @noted = grep { $_->{kind} eq ($kind || 'request') }
                 map { JSON::PP::decode_json($_) } <$log>;
    }

    return @noted;
}


sub forget {
    my $self = shift;
    unlink "$self->{dir}/log", glob "$self->{dir}/go-*";
}


sub let_go {
    my ($self, $name) = @_;

    open my $file, '>', "$self->{dir}/go-$name" or die "go: $!\n";
}


sub _note {
    my ($self, %what) = @_;

    open my $log, '>>', "$self->{dir}/log" or return;
    syswrite $log, JSON::PP::encode_json(\%what) . "\n";
}


sub _serve {
    my $self = shift;

    $SIG{CHLD} = 'IGNORE';
    $SIG{$_} = 'DEFAULT' for qw(HUP INT TERM ALRM);

    my $select = IO::Select->new(@$self{qw(http fastcgi)});

    while (getppid == $self->{owner}) {
        for my $listening ($select->can_read(1)) {
            my $socket = $listening->accept or next;
            my $pid = fork;

            if (defined $pid && $pid == 0) {
                alarm 120;
                eval {
                    $listening == $self->{http} ? $self->_http($socket)
                                                : $self->_fastcgi($socket);
                };
                POSIX::_exit(0);
            }
        }
    }

    kill 'KILL', -$$;
}


# HTTP

sub _http {
    my ($self, $socket) = @_;

    my $in = '';
    my $more = sub { sysread $socket, $in, 65536, length $in };

    while (1) {
        while ($in !~ /\r\n\r\n/) {
            $more->() or return;
        }

        $in =~ s/^(.*?\r\n)\r\n//s;
        my $head = $1;
        my ($method, $uri) = $head =~ /^(\S+) (\S+)/;
        my ($path, $args) = split /\?/, $uri, 2;
        my (%arg, @say);

        for my $pair (split /&/, defined $args ? $args : '') {
            my ($name, $value) = split /=/, $pair, 2;
            $arg{$name} = $value;
            push @say, $value if $name eq 'say';
        }

        if ($head =~ /^Upgrade: websocket\r$/mi) {
            $self->_note(kind => 'request', method => $method, uri => $uri,
                         head => $head, body => '');
            return _echo($socket, $head, $in, @say);
        }

        my $body = $self->_body($head, \$in, $more, $arg{hold});

        $self->_note(kind => 'request', method => $method, uri => $uri,
                     head => $head,
                     body => length $body > 4096
                             ? Digest::SHA::sha1_hex($body) : $body,
                     length => length $body);

        if (defined $arg{hold}) {
            Time::HiRes::sleep(0.02) while !-e "$self->{dir}/go-$arg{hold}";
        }

        if (defined $arg{junk}) {
            syswrite $socket, $junk[$arg{junk} % @junk];
            return;
        }

        my $text = $arg{size} ? 'x' x $arg{size} : "backend $method $path\n";
        my $status = $arg{status} || 200;

        print $socket "HTTP/1.1 $status Said\r\nContent-Type: text/plain\r\n",
            'Content-Length: ', length $text, "\r\n",
            map({ "X-Waiting-Queue: $_\r\n" } @say),
            defined $arg{accel} ? "X-Accel-Redirect: $arg{accel}\r\n" : '',
            $arg{login} ? "X-Login: $arg{login}\r\n" : '',
            defined $arg{age} ? "Cache-Control: max-age=$arg{age}\r\n" : '',
            $head =~ m{^\S+ \S+ HTTP/1\.0} ? "Connection: close\r\n" : '',
            "\r\n", $method eq 'HEAD' ? '' : $text;
        $socket->flush;

        return if $head =~ m{^\S+ \S+ HTTP/1\.0}
                  || $head =~ /^Connection: close\r$/mi;
    }
}


sub _body {
    my ($self, $head, $in, $more, $hold) = @_;

    my $note = sub {
        $self->_note(kind => 'part', length => length $$in);
    };

    if ($head =~ /^Content-Length: (\d+)\r$/mi) {
        $note->() if length $$in;
        while (length $$in < $1) {
            $more->() or die "half a body\n";
            $note->();
        }
        return substr $$in, 0, $1, '';
    }

    return '' if $head !~ /^Transfer-Encoding: chunked\r$/mi;

    my $body = '';

    while (1) {
        while ($$in !~ /^[0-9a-f]+\r\n/i) {
            $more->() or die "half a body\n";
        }
        $$in =~ s/^([0-9a-f]+)\r\n//i;
        my $length = hex $1;

        while (length $$in < $length + 2) {
            $more->() or die "half a body\n";
        }
        $body .= substr $$in, 0, $length, '';
        substr $$in, 0, 2, '';
        $self->_note(kind => 'part', length => length $body);
        return $body if $length == 0;
    }
}


sub _echo {
    my ($socket, $head, $in, @say) = @_;

    my ($key) = $head =~ /^Sec-WebSocket-Key: (\S+)\r$/mi;
    my $accept = MIME::Base64::encode_base64(
        Digest::SHA::sha1("${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11"), '');

    print $socket "HTTP/1.1 101 Switching Protocols\r\n",
        "Upgrade: websocket\r\nConnection: Upgrade\r\n",
        "Sec-WebSocket-Accept: $accept\r\n",
        map({ "X-Waiting-Queue: $_\r\n" } @say), "\r\n";
    $socket->flush;

    do {
        syswrite $socket, $in;
    } while (sysread $socket, $in, 65536);
}


# FastCGI: one request at a time, as a responder

sub _fastcgi {
    my ($self, $socket) = @_;

    my ($params, $body, $id) = ('', '');

    my $take = sub {
        my ($n) = @_;
        my $bytes = '';
        while (length $bytes < $n) {
            sysread $socket, $bytes, $n - length $bytes, length $bytes
                or die "half a record\n";
        }
        return $bytes;
    };

    while (1) {
        my ($version, $type, $length, $padding);
        ($version, $type, $id, $length, $padding)
            = unpack 'CCnnC', $take->(8);
        my $content = $take->($length);
        $take->($padding);

        last if $type == 5 && $length == 0;
        $params .= $content if $type == 4;
        $body .= $content if $type == 5;
    }

    my %param;

    while (length $params) {
        my @length;
        for (1, 2) {
            my $n = unpack 'C', $params;
            if ($n & 128) {
                $n = unpack('N', substr $params, 0, 4, '') & 0x7fffffff;
            } else {
                substr $params, 0, 1, '';
            }
            push @length, $n;
        }
        my $name = substr $params, 0, $length[0], '';
        $param{$name} = substr $params, 0, $length[1], '';
    }

    $self->_note(kind => 'request', method => $param{REQUEST_METHOD},
                 uri => $param{REQUEST_URI}, params => \%param,
                 body => $body, length => length $body);

    my @say = ($param{QUERY_STRING} || '') =~ /(?:^|&)say=([^&]*)/g;
    my $out = "Content-Type: text/plain\r\n"
              . join('', map { "X-Waiting-Queue: $_\r\n" } @say)
              . "\r\nfastcgi $param{REQUEST_METHOD} $param{REQUEST_URI} "
              . length($body) . "\n";

    syswrite $socket, pack('CCnnCC', 1, 6, $id, length $out, 0, 0) . $out
                      . pack('CCnnCC', 1, 6, $id, 0, 0, 0)
                      . pack('CCnnCC', 1, 3, $id, 8, 0, 0)
                      . pack('NC4', 0, 0, 0, 0, 0);
}


1;
