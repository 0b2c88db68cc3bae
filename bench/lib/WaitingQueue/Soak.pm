package WaitingQueue::Soak;

# What a soak is made of: the sale, those who come and go, and what is looked
# at.
#
#     my $room = start_sale(streams => 5000);
#     my $load = start_churn(port => $room->port, streams => 5000);
#
#     while (my $churn = $load->next) {       every 5 s
#         my $sample = $room->sample;
#         ...
#     }
#
#     thirds(@values)             median of the first third, and of the last
#     slope([time, value], ...)   a minute
#
# All processes are WaitingQueue::Fault's, and end with the script.

use strict;
use warnings;

use Exporter 'import';
use WaitingQueue::Bench;

our @EXPORT = qw(start_sale start_churn thirds slope);


sub start_sale { return WaitingQueue::Soak::Sale->new(@_) }

sub start_churn {
    my $load = WaitingQueue::Soak::Churn->new(@_);
    return WaitingQueue::Fault::_started($load);
}


sub thirds {
    my @values = @_;

    my $third = POSIX::ceil(@values / 3);
    return (median(@values[0 .. $third - 1]), median(@values[-$third .. -1]));
}


# of the straight line that is nearest to them

sub slope {
    my @points = @_;

    my ($n, $t, $v, $tt, $tv) = (scalar @points, 0, 0, 0, 0);

    for my $point (@points) {
        $t += $point->[0] / $n;
        $v += $point->[1] / $n;
    }

    for my $point (@points) {
        $tt += ($point->[0] - $t) ** 2;
        $tv += ($point->[0] - $t) * ($point->[1] - $v);
    }

    return $tt ? 60 * $tv / $tt : 0;
}


# One nginx as it is installed, one Redis.  Events hallN go on all the time, and
# people come to briefN in turn, so that most of these are idle.

package WaitingQueue::Soak::Sale;

use WaitingQueue::Fault;
use WaitingQueue::Line;
use WaitingQueue::Redis;

# from where the load comes, in /proc/net/tcp
my $load_address = '0200007F';


sub new {
    my ($class, %o) = @_;

    my $self = bless {
        workers => 2, halls => 2, briefs => 8, capacity => 200, %o,
        ttl => 40, changed => 0,
    }, $class;

    $self->{backend} = free_port();
    $self->{redis_server} = start_redis(socket => 1);
    $self->{redis} = WaitingQueue::Redis->new(
        port => $self->{redis_server}->port);

    $self->{nginx} = WaitingQueue::Bench::_start(
        'Nginx', workers => $self->{workers}, connections => 12_000,
        timeout => 30, $self->_configuration);
    $self->{nginx}->wait_ready;

    $self->{lines} = [ map { WaitingQueue::Line->new(event => $_,
                                                     redis => $self->{redis}) }
                           $self->events ];

    return $self;
}


sub events {
    my $self = shift;

    return ((map { "hall$_" } 0 .. $self->{halls} - 1),
            (map { "brief$_" } 0 .. $self->{briefs} - 1));
}


# the options of start_nginx().  A rule is another after each change, so that
# there is something that a reload must take over.

sub _configuration {
    my $self = shift;

    my $ttl = $self->{ttl} + $self->{changed} % 2;
    my $server = '';

    for (['hall', $self->{capacity}], ['brief', $self->{capacity} / 10]) {
        my ($kind, $capacity) = @$_;

        my $rules = "
            waiting_queue_event \$${kind};
            waiting_queue_user \$arg_user;
            waiting_queue_capacity $capacity;
            waiting_queue_ttl ${ttl}s claim=30s;
            waiting_queue_grace 30s;
            waiting_queue_poll_timeout 30s;";

        $server .= "
        location ~ ^/stream/(?<$kind>$kind\\d+)\$ {
            waiting_queue_stream;$rules
        }
        location ~ ^/token/(?<$kind>$kind\\d+)\$ {
            waiting_queue_api;$rules
        }
        location ~ ^/shop/(?<$kind>$kind\\d+)\$ {
            waiting_queue on;$rules
            proxy_pass http://127.0.0.1:$self->{backend};
        }";
    }

    return (
        server => $server,
        http => '
            waiting_queue_redis unix:' . $self->{redis_server}->path . ";
            client_header_timeout 1h;

            server {
                listen 127.0.0.1:$self->{backend};
                add_header X-Waiting-Queue \$arg_say;
                location / { return 200 in; }
            }");
}


sub port { return $_[0]{nginx}->port }
sub redis { return $_[0]{redis} }
sub nginx { return $_[0]{nginx} }
sub lines { return @{$_[0]{lines}} }
sub ttl { return $_[0]{ttl} + 1 }
sub grace { return 30 }


# HUP with what there was, and with another rule in turns

sub reload {
    my $self = shift;

    $self->{old} = { map { $_ => 1 } $self->{nginx}->workers };

    if ($self->{reloads}++ % 2) {
        $self->{changed}++;
        $self->{nginx}->configure($self->_configuration);
        my ($status, $output) = $self->{nginx}->run('-s', 'reload');
        die "reload: $output\n" if $status;

    } else {
        $self->{nginx}->signal('HUP');
    }
}


# those that a reload should have ended

sub old_workers {
    my $self = shift;
    return grep { alive($_) } keys %{$self->{old} || {}};
}


sub workers {
    my $self = shift;
    return grep { !$self->{old}{$_} } $self->{nginx}->workers;
}


# what is so now

sub sample {
    my $self = shift;

    my @workers = $self->workers;
    my @all = ($self->{nginx}->pid, children($self->{nginx}->pid));
    my $sample = {
        workers => scalar @workers, old => scalar $self->old_workers,
        fds => $self->_fds(@workers), worker_kb => 0, all_kb => 0,
        master_kb => rss_kb($self->{nginx}->pid),
    };

    $sample->{worker_kb} += _own_kb($_) for @workers;
    $sample->{all_kb} += _own_kb($_) for @all;

    # These are kept to about 10,000 entries, however many leave, and it takes a
    # while until there are so many.
    my $gone = 0;
    $gone += $self->{redis}->call('MEMORY', 'USAGE', $_, 'SAMPLES', 0) || 0
        for map { $_->key('WAITING_GONE') } $self->lines;

    # and these are what a burst of answers was, some time ago
    my $memory = $self->{redis}->call('INFO', 'memory');
    my ($used) = $memory =~ /^used_memory:(\d+)/m;
    my ($clients) = $memory =~ /^mem_clients_normal:(\d+)/m;

    $sample->{gone_kb} = $gone / 1024;
    $sample->{clients_kb} = $clients / 1024;
    $sample->{redis_kb} = ($used - $gone - $clients) / 1024;

    # but for those that go by themselves: tokens, and what was one
    my ($keys, $expire) = $self->{redis}->call('INFO', 'keyspace')
                          =~ /keys=(\d+),expires=(\d+)/;

    $sample->{keys} = ($keys || 0) - ($expire || 0);
    $sample->{busy} = $self->{redis}->call('SMEMBERS', 'WAITING_EVENTS');

    return $sample;
}


# memory but for the zone, of which a worker has what it has touched

sub _own_kb {
    my $pid = shift;

    my ($shared) = slurp("/proc/$pid/status") =~ /^RssShmem:\s+(\d+)/m;
    return rss_kb($pid) - ($shared || 0);
}


# Descriptors that are no connection of the load's or to the backend.  A
# connection that comes or goes meanwhile is not in both of the two looks.

sub _fds {
    my ($self, @workers) = @_;

    my @before = map { _links($_) } @workers;
    my $served = $self->_served;
    my %after = map { $_ => 1 } map { _links($_) } @workers;

    return scalar grep { !/^socket:/ || ($after{$_} && !$served->{$_}) }
                       @before;
}


sub _links {
    my $pid = shift;

    opendir my $dir, "/proc/$pid/fd" or return;
    return map { readlink("/proc/$pid/fd/$_") // () }
           grep { /^\d/ } readdir $dir;
}


sub _served {
    my $self = shift;

    my ($port, $backend) = map { sprintf '%04X', $_ }
                           $self->port, $self->{backend};
    my %served;

    open my $table, '<', '/proc/net/tcp' or die "/proc/net/tcp: $!\n";

    while (my $row = <$table>) {
        my (undef, $local, $remote, $state, @rest) = split ' ', $row;

        next if $state ne '01';
        next if !($local =~ /:$port$/ && $remote =~ /^$load_address:/)
                && $local !~ /:$backend$/ && $remote !~ /:$backend$/;

        $served{"socket:[$rest[5]]"} = 1;
    }

    return \%served;
}


# what is there of users and of workers that are gone

sub leftovers {
    my $self = shift;

    my @left = map { my $line = $_;
                     map { $line->event . ": $_" } $line->leftovers }
               $self->lines;

    my $living = join ' ', sort map { $_->{instance} } $self->{nginx}->rows;
    my %shared = map { $_ => 1 }
                 qw(WAITING_QUEUE_IDX ENTRY_QUEUE_SLOTS ENTRY WAITING_INSTANCES
                    WAITING_ORIGIN PROMOTION_LEASE PROMOTION_ROUND);

    for my $key (@{$self->{redis}->call('KEYS', '*')}) {
        next if $shared{$key} || $key =~ /\{(?:hall|brief)\d+\}/;
        push @left, $key
            if $key !~ /^DISPATCH:\{(.*)\}$/ || index($living, $1) < 0;
    }

    my $known = join ' ', sort @{$self->{redis}->call(
                    'ZRANGE', 'WAITING_INSTANCES', 0, -1)};

    push @left, "instances: $known, living: $living" if $known ne $living;

    return @left;
}


# The load: users who come and go.

package WaitingQueue::Soak::Churn;

use JSON::PP ();
use WaitingQueue::Fault;


sub new {
    my ($class, %o) = @_;
    return bless { %o }, $class;
}


sub start {
    my $self = shift;

    my @command = ("$ENV{WQ_BUILD}/bench/churn",
                   map { ("--$_", $self->{$_}) } sort keys %$self);

    $self->{pid} = open $self->{out}, '-|', @command or die "churn: $!\n";

    return $self;
}


# the next report, when it is time; undef after the last

sub next {
    my $self = shift;

    my $line = readline $self->{out};
    return defined $line ? JSON::PP::decode_json($line) : undef;
}


# everybody leaves: the last report

sub leave {
    my $self = shift;

    my $last;
    kill TERM => $self->{pid};

    while (my $report = $self->next) {
        $last = $report;
    }

    close $self->{out};
    delete $self->{pid};

    return $last;
}


sub stop {
    my $self = shift;
    $self->leave if $self->{pid};
}


1;
