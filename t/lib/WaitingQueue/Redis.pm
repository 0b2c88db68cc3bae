package WaitingQueue::Redis;

# A connection to Redis, for tests that ask too often to start redis-cli:
#
#     my $redis = WaitingQueue::Redis->new;               of the run
#     my $redis = WaitingQueue::Redis->new(port => $port,
#                                          password => $password);
#     my $users = $redis->call('HKEYS', $key);
#
# An error reply is died of.  A connection that has ended is made again by the
# next call.

use strict;
use warnings;

use IO::Socket::INET;
use IO::Socket::UNIX;


sub new {
    my ($class, %options) = @_;
    return bless { %options, sha1 => {} }, $class;
}


sub _connect {
    my $self = shift;

    $self->{socket} = $self->{port}
        ? IO::Socket::INET->new(PeerAddr => '127.0.0.1',
                                PeerPort => $self->{port}, Timeout => 5)
        : IO::Socket::UNIX->new(Peer => $ENV{WQ_REDIS_SOCKET});

    die "no Redis: $!\n" if !$self->{socket};

    $self->{sha1} = {};
    $self->{in} = '';

    $self->call('AUTH', $self->{password}) if defined $self->{password};
}


sub call {
    my ($self, @words) = @_;

    local $SIG{PIPE} = 'IGNORE';

    $self->_connect if !$self->{socket};

    my $socket = $self->{socket};

    print $socket join '', '*' . @words . "\r\n",
                           map { '$' . length($_) . "\r\n$_\r\n" } @words;

    if (!$socket->flush) {
        delete $self->{socket};
        die "Redis has gone: $!\n";
    }

    my $error = [];
    my $answer = $self->_read($error);

    die "$error->[0]\n" if @$error;
    return $answer;
}


sub _read {
    my ($self, $error) = @_;

    my $line = readline $self->{socket};

    if (!defined $line) {
        delete $self->{socket};
        die "Redis has gone\n";
    }

    my ($type, $value) = $line =~ /^(.)(.*)\r\n$/;

    return $value if $type eq '+' || $type eq ':';

    if ($type eq '-') {
        # the rest of an answer is read all the same
        push @$error, $value;
        return;
    }

    return undef if $value < 0;

    if ($type eq '$') {
        read $self->{socket}, my $bulk, $value + 2;
        return substr $bulk, 0, $value;
    }

    return [ map { scalar $self->_read($error) } 1 .. $value ];
}


# eval(text, keys, arguments): a script, which is sent once, and again if Redis
# has forgotten it

sub eval {
    my ($self, $text, $keys, @arguments) = @_;

    my @rest = (scalar @$keys, @$keys, @arguments);

    $self->_connect if !$self->{socket};
    $self->{sha1}{$text} ||= $self->call('SCRIPT', 'LOAD', $text);

    my $answer = eval { $self->call('EVALSHA', $self->{sha1}{$text}, @rest) };

    return $answer if !$@;
    return $self->call('EVAL', $text, @rest) if $@ =~ /^NOSCRIPT/;
    die $@;
}


1;
