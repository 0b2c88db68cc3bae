package WaitingQueue::Http2;

# One HTTP/2 connection without TLS and its streams, for what curl cannot do:
# cancel one of several streams, close its window.
#
#     my $h2 = WaitingQueue::Http2->new($sse, $port);
#     my $s = $h2->open('/events/e/tickets/waiting?user=u', 'name');
#
#     my $t = $h2->open('/api?user=u', 'name', method => 'POST', body => 1);
#     $t->send('a part'); $t->send('the rest', 1);
#
#     my $c = $h2->open('/stream', 'name', headers => { cookie => 'a=b' });
#
# A stream has what one of WaitingQueue::Sse has, in the same run_until().  Only
# what a server like nginx sends is understood; headers but for the status are
# not looked at.

use strict;
use warnings;

use Time::HiRes ();
use WaitingQueue::Sse;

our @ISA = qw(WaitingQueue::Sse::Stream);

my ($DATA, $HEADERS, $RST_STREAM, $SETTINGS, $PING, $GOAWAY, $WINDOW_UPDATE,
    $CONTINUATION) = (0, 1, 3, 4, 6, 7, 8, 9);


# the connection is a stream of the client, whose bytes are frames

sub new {
    my ($class, $sse, $port) = @_;

    my $self = $sse->open(
        port => $port, name => "HTTP/2 connection to $port",
        raw => "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
               . _frame($SETTINGS, 0, 0, '')
               . _frame($WINDOW_UPDATE, 0, 0, pack 'N', 1 << 24));

    bless $self, $class;

    $self->{frames} = '';
    $self->{h2} = {};
    $self->{next} = 1;
    # what the client feeds is not HTTP/1
    $self->{parser} = $self->{head} = bless { bytes => 0, of => $self,
                                              events => [], latest => {},
                                              comments => 0,
                                              body => '' },
                                            'WaitingQueue::Http2::Frames';

    return $self;
}


sub _frame {
    my ($type, $flags, $id, $payload) = @_;
    my $length = length $payload;

    return pack('CnCCN', $length >> 16, $length & 0xffff, $type, $flags, $id)
           . $payload;
}


sub _send {
    my ($self, @frame) = @_;

    return if defined $self->{ended};
    $self->{out} .= _frame(@frame);
    delete $self->{sse}{pairs};
}


# a literal field that is not indexed, without Huffman

sub _field {
    my ($name, $value) = @_;
    my $length = sub { $_[0] < 127 ? chr $_[0]
                       : $_[0] < 255 ? chr(127) . chr($_[0] - 127)
                       : die "too long\n" };

    return "\0" . $length->(length $name) . $name
           . $length->(length $value) . $value;
}


sub open {
    my ($self, $path, $name, %options) = @_;

    my $id = $self->{next};
    $self->{next} += 2;

    my $s = bless WaitingQueue::Sse::Stream->_new(
                $self->{sse}, { name => $name, method => 'GET', curl => 1 }),
                'WaitingQueue::Http2::Stream';

    @$s{qw(connection id)} = ($self, $id);
    $self->{h2}{$id} = $s;

    # SETTINGS_INITIAL_WINDOW_SIZE is of the streams to come
    $self->_send($SETTINGS, 0, 0, pack 'nN', 4,
                 $options{no_window} ? 0 : 65535);
    $self->_send($HEADERS, $options{body} ? 0x4 : 0x5, $id,
                 join '', map { _field(@$_) }
                              [ ':method', $options{method} || 'GET' ],
                              [ ':scheme', 'http' ], [ ':path', $path ],
                              [ ':authority', 'localhost' ],
                              [ 'accept', 'text/event-stream' ],
                              map { [ $_, $options{headers}{$_} ] }
                                  sort keys %{$options{headers} || {}});

    return $s;
}


sub _frames {
    my ($self, $bytes, $now) = @_;

    $self->{frames} .= $bytes;

    while (length $self->{frames} >= 9) {
        my ($high, $low, $type, $flags, $id)
            = unpack 'CnCCN', substr $self->{frames}, 0, 9;
        my $length = $high << 16 | $low;

        last if length $self->{frames} < 9 + $length;

        my $payload = substr $self->{frames}, 9, $length;
        substr $self->{frames}, 0, 9 + $length, '';

        $self->_got($type, $flags, $id & 0x7fffffff, $payload, $now);
    }
}


sub _got {
    my ($self, $type, $flags, $id, $payload, $now) = @_;

    my $s = $self->{h2}{$id};

    if ($type == $SETTINGS) {
        $self->_send($SETTINGS, 1, 0, '') if !($flags & 1);

    } elsif ($type == $PING) {
        $self->_send($PING, 1, 0, $payload) if !($flags & 1);

    } elsif ($type == $HEADERS && $s) {
        # an indexed :status is the first field nginx sends; of others it is a
        # literal with an indexed name
        my $first = ord $payload;
        my %known = (0x88 => 200, 0x89 => 204, 0x8c => 400, 0x8d => 404,
                     0x8e => 500);
        my ($other) = $payload =~ /\A[\x08\x48]\x03(\d{3})/;
        my $status = $known{$first} || $other || 599;

        # what is not 200 is no stream
        $s->{parser}->feed(join("\r\n", "HTTP/2 $status",
                                $status == 200 ? (
                                    'content-type: text/event-stream',
                                    'cache-control: no-store',
                                    'x-accel-buffering: no') : (),
                                '', ''), $now);
        $s->_over('clean') if $flags & 1;

    } elsif ($type == $DATA && $s) {
        if ($flags & 8) {
            my $pad = ord $payload;
            $payload = substr $payload, 1, length($payload) - 1 - $pad;
        }

        $s->{parser}->feed($payload, $now) if length $payload;
        $s->_over('clean') if $flags & 1;

    } elsif ($type == $RST_STREAM && $s) {
        $s->_over('reset');

    } elsif ($type == $GOAWAY) {
        $self->{goaway} = 1;
    }
}


# how the connection ended, its streams did

sub _end {
    my ($self, $how) = @_;

    $self->SUPER::_end($how);
    $_->_over($how) for values %{$self->{h2}};
}


package WaitingQueue::Http2::Frames;

sub feed {
    my ($self, $bytes, $now) = @_;

    $self->{bytes} += length $bytes;
    $self->{of}->_frames($bytes, $now);
}

sub finish { }


package WaitingQueue::Http2::Stream;

our @ISA = qw(WaitingQueue::Sse::Stream);


# CANCEL

sub reset {
    my $self = shift;

    return if defined $self->{ended};
    $self->{connection}->_send(3, 0, $self->{id}, pack 'N', 8);
    $self->_over('local');
}


sub close { $_[0]->reset }


# of the body; a server may have ended the stream without it

sub send {
    my ($self, $bytes, $last) = @_;
    $self->{connection}->_send(0, $last ? 1 : 0, $self->{id}, $bytes);
}


sub window {
    my ($self, $bytes) = @_;
    $self->{connection}->_send(8, 0, $self->{id}, pack 'N', $bytes);
}


sub _over {
    my ($self, $how) = @_;

    return if defined $self->{ended};

    $self->{ended} = $how;
    $self->{ended_at} = Time::HiRes::time();
    delete $self->{connection}{h2}{$self->{id}};
    $self->{parser}->finish('eof') if $how eq 'clean';
}


1;
