package WaitingQueue::Gate;

# What a test of the gate needs: visitors, who return their cookies as a browser
# does, and a look at the counters; for use with WaitingQueue::Test and Live.
#
#     my $v = visitor(path => '/shop/');
#     my $a = $v->get;
#     is($a->status, 503);
#
#     my $pending = $v->send('POST', '/shop/', body => 'x');
#     is($pending->answer->status, 200);
#
# An answer:
#
#     status, head, body              head is the raw text
#     header(name), headers(name)     the value; all values, in their order
#     cookies                         the Set-Cookie headers
#     json                            of the body, or undef
#
# WaitingQueue::Backend is what stands behind the gate.

use strict;
use warnings;

use Compress::Zlib ();
use Exporter 'import';
use IO::Select;
use Test::More ();
use Test::Nginx::Util ();
use Time::HiRes ();
use WaitingQueue::Live;

our @EXPORT = qw(
    visitor sum reaches log_lines token_cookie stop_redis wake_redis talk many
    reload
);

my $redis_pid;


sub visitor { return WaitingQueue::Gate::Visitor->new(@_) }


# the name of the cookie with the token of an event

sub token_cookie { return sprintf 'wq_%08x', Compress::Zlib::crc32($_[0]) }


# sum(counter): of all processes

sub sum {
    my ($counter) = @_;

    my $sum = 0;
    $sum += $_->{$counter} for @{status()->{processes}};
    return $sum;
}


# reaches(counter, number, what): some are counted after the answer is out

sub reaches {
    my ($counter, $number, $what) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    $what = "$counter is $number" if !defined $what;

    my $reached = eval {
        await($what, sub { sum($counter) == $number });
    };
    Test::More::ok($reached, $what)
        or Test::More::diag("$counter: " . sum($counter));
}


# log_lines(file): of an access log

sub log_lines {
    my ($file) = @_;

    open my $log, '<', Test::Nginx::Util::server_root() . "/logs/$file"
        or return;
    chomp(my @lines = <$log>);

    return @lines;
}


# a Redis that does not answer, and that does again

sub stop_redis {
    ($redis_pid) = redis('INFO', 'server') =~ /^process_id:(\d+)/m;
    kill 'STOP', $redis_pid or die "kill: $!\n";
}

sub wake_redis {
    kill 'CONT', $redis_pid if $redis_pid;
    undef $redis_pid;
}

END {
    # it would not take the signal that ends it
    wake_redis();
}


# talk(bytes): all that comes back for them, to the end of the connection

sub talk {
    my ($bytes, %options) = @_;

    return WaitingQueue::Gate::Pending->new($bytes, %options)->answer;
}


# many(heads): requests without a body, each a text up to the blank line, on a
# few connections that are kept; the answers, in no order

sub many {
    my (@heads) = @_;

    my (@answers, %on);
    my $select = IO::Select->new;
    my $end = Time::HiRes::time() + 120;

    my $next = sub {
        my ($pending) = @_;

        if (@heads) {
            $pending->{in} = '';
            $pending->write(shift(@heads) . "\r\n");
        } else {
            $select->remove($pending->{socket});
            $pending->close;
        }
    };

    for (1 .. (@heads < 20 ? scalar @heads : 20)) {
        my $pending = WaitingQueue::Gate::Pending->new('');

        $on{fileno $pending->{socket}} = $pending;
        $select->add($pending->{socket});
        $next->($pending);
    }

    while ($select->count) {
        die scalar(@answers) . " answers, and no more\n"
            if Time::HiRes::time() > $end;

        for my $socket ($select->can_read(1)) {
            my $pending = $on{fileno $socket};

            $pending->_read or die "a connection is not kept\n";

            my ($length) = $pending->{in}
                           =~ /\A.*?^Content-Length: (\d+)\r\n/msi or next;
            my $head = index $pending->{in}, "\r\n\r\n";

            next if $head < 0 || length $pending->{in} < $head + 4 + $length;

            push @answers, WaitingQueue::Gate::Answer->new($pending->{in});
            $next->($pending);
        }
    }

    return @answers;
}


# nginx reads its configuration again; needs a master

sub reload {
    open my $in, '<', Test::Nginx::Util::server_root() . '/logs/nginx.pid'
        or die "nginx.pid: $!\n";
    chomp(my $pid = <$in>);

    kill 'HUP', $pid or die "kill: $!\n";
}


package WaitingQueue::Gate::Visitor;

# new(path => '/', port => , headers => { name => value or [ values ] },
#     jar => 0 for one who does not return cookies)

sub new {
    my ($class, %options) = @_;

    return bless { path => '/', headers => {}, jar => 1, cookies => {},
                   %options }, $class;
}


sub cookies { return $_[0]{cookies} }
sub id { return $_[0]{cookies}{wq_uid} }
sub token { return $_[0]{cookies}{WaitingQueue::Gate::token_cookie($_[1])} }


sub get {
    my ($self, $path, %options) = @_;
    return $self->ask('GET', $path, %options);
}


sub post {
    my ($self, $path, $body, %options) = @_;
    return $self->ask('POST', $path, body => $body, %options);
}


sub ask {
    my ($self, @request) = @_;
    return $self->send(@request)->answer;
}


# cookie(): the header, as it would be sent now

sub cookie {
    my $self = shift;
    return join '; ', map { "$_=$self->{cookies}{$_}" }
                          sort keys %{$self->{cookies}};
}


sub send {
    my ($self, $method, $path, %o) = @_;

    $path = $self->{path} if !defined $path;

    my %headers = (Host => 'localhost', Connection => 'close',
                   %{$self->{headers}}, %{$o{headers} || {}});

    $headers{Cookie} = $self->cookie
        if !exists $headers{Cookie} && $self->{jar} && %{$self->{cookies}};
    $headers{'Content-Length'} = length $o{body}
        if defined $o{body} && !exists $headers{'Content-Length'}
           && !exists $headers{'Transfer-Encoding'};

    my $bytes = "$method $path HTTP/1.1\r\n";

    for my $name (sort keys %headers) {
        my $value = $headers{$name};
        next if !defined $value;
        $bytes .= "$name: $_\r\n" for ref $value ? @$value : $value;
    }

    $bytes .= "\r\n" . (defined $o{body} ? $o{body} : '');

    return WaitingQueue::Gate::Pending->new(
        $bytes, visitor => $self, head_only => $method eq 'HEAD',
        port => $o{port} || $self->{port});
}


# the cookies of an answer, as a browser takes them

sub _take {
    my ($self, $answer) = @_;

    return if !$self->{jar};

    for my $cookie ($answer->cookies) {
        my ($name, $value) = $cookie =~ /^([^=]+)=([^;]*)/ or next;

        if ($cookie =~ /; Max-Age=0(?:;|$)/) {
            delete $self->{cookies}{$name};
        } else {
            $self->{cookies}{$name} = $value;
        }
    }
}


package WaitingQueue::Gate::Pending;

# A request that was sent, all of it or a part.

use Errno qw(EAGAIN EINTR);
use IO::Select;
use IO::Socket::INET;
use Time::HiRes ();

my $patience = 40;


sub new {
    my ($class, $bytes, %options) = @_;

    local $SIG{PIPE} = 'IGNORE';

    my $socket = IO::Socket::INET->new(
        PeerAddr => '127.0.0.1',
        PeerPort => $options{port} || Test::Nginx::Util::server_port())
        or die "connect: $!\n";

    my $self = bless { %options, socket => $socket, in => '' }, $class;

    $self->write($bytes);

    return $self;
}


# what is left when the other side does not take it is not an error: it may
# have answered already

sub write {
    my ($self, $bytes) = @_;

    local $SIG{PIPE} = 'IGNORE';

    while (length $bytes) {
        my $n = syswrite $self->{socket}, $bytes;
        return 0 if !defined $n;
        substr $bytes, 0, $n, '';
    }

    return 1;
}


# until(pattern): what has come, once it matches; dies if it never does

sub until {
    my ($self, $pattern) = @_;

    my $end = Time::HiRes::time() + $patience;

    while ($self->{in} !~ $pattern) {
        die "no $pattern in: $self->{in}\n"
            if Time::HiRes::time() > $end || !$self->_read;
    }

    return $self->{in};
}


# false at the end

sub _read {
    my $self = shift;

    return 1 if !IO::Select->new($self->{socket})->can_read(0.2);

    my $n = sysread $self->{socket}, $self->{in}, 65536, length $self->{in};

    return 1 if !defined $n && ($! == EAGAIN || $! == EINTR);
    return $n;
}


sub answer {
    my $self = shift;

    my $end = Time::HiRes::time() + $patience;

    while ($self->_read) {
        die "no end of the answer: $self->{in}\n"
            if Time::HiRes::time() > $end;
    }

    CORE::close($self->{socket});

    my $answer = WaitingQueue::Gate::Answer->new($self->{in});

    $self->{visitor}->_take($answer) if $self->{visitor};

    return $answer;
}


sub close {
    my $self = shift;
    CORE::close($self->{socket});
}


package WaitingQueue::Gate::Answer;

use JSON::PP ();


sub new {
    my ($class, $bytes) = @_;

    my ($head, $body) = split /\r\n\r\n/, $bytes, 2;

    $head = '' if !defined $head;
    $body = '' if !defined $body;

    if ($head =~ /^Transfer-Encoding: chunked\r?$/mi) {
        my $plain = '';
        while ($body =~ s/^([0-9a-f]+)\r\n//i && hex $1) {
            $plain .= substr $body, 0, hex $1, '';
            $body =~ s/^\r\n//;
        }
        $body = $plain;
    }

    return bless { head => $head, body => $body, raw => $bytes }, $class;
}


sub raw { return $_[0]{raw} }
sub head { return $_[0]{head} }
sub body { return $_[0]{body} }

sub status {
    my ($status) = $_[0]{head} =~ m{^HTTP/1\.\d (\d+)};
    return defined $status ? $status : 'none';
}

sub headers {
    my ($self, $name) = @_;
    my @values = $self->{head} =~ /^\Q$name\E: ?([^\r\n]*)\r?$/mgi;
    return @values;
}

sub header {
    my ($self, $name) = @_;
    my @values = $self->headers($name);
    return @values ? join(', ', @values) : undef;
}

sub cookies { return $_[0]->headers('Set-Cookie') }

sub json { return eval { JSON::PP::decode_json($_[0]{body}) } }

# the names of all headers, in their order

sub names {
    my $self = shift;
    return join ' ', $self->{head} =~ /^([^:\r\n]+):/mg;
}


1;
