package WaitingQueue::Shop;

# A shop behind the gate, for the tests with a browser:
#
#     my $shop = WaitingQueue::Shop->new(
#         locations => { one => 'waiting_queue_capacity 1;' });
#
#     my $line = $shop->line('concert');
#     my ($inside, @crowd) = $shop->come('one', 'concert', 4);
#
#     $tab->open($shop->url('one', 'concert'));       number 4
#     $shop->leave('one', 'concert', $inside);        number 3
#
# A location is a set of directives; /LOCATION/EVENT/ is one event at it.  What
# is behind the gate is another server of the same nginx:
#
#     /LOCATION/EVENT/          "Welcome to the shop", with a link to buy
#     /LOCATION/EVENT/buy       says sold
#     /LOCATION/EVENT/done      says done
#     /LOCATION/EVENT/order     shows what was posted
#
# and outside of the gate are
#
#     /form?to=ADDRESS          a form that posts there
#     /login?as=NAME            sets the cookie "login"
#
# The crowd are programs that ask for JSON, once: whoever polls keeps its place
# for ten minutes here.

use strict;
use warnings;

use HTTP::Tiny;
use JSON::PP ();
use WaitingQueue::Fault;
use WaitingQueue::Line;
use WaitingQueue::Redis;

my $crowd = 0;


# new(
#     locations => { name => directives },
#     http => text,                 in http{}
#     workers => 2,
# )

sub new {
    my ($class, %o) = @_;

    my $self = bless { http => '', workers => 2, %o }, $class;

    $self->{redis} = start_redis();
    $self->{asked} = WaitingQueue::Redis->new(port => $self->{redis}->port);

    my $backend = free_port();

    $self->{nginx} = start_nginx(
        workers => $self->{workers},
        http => 'waiting_queue_redis ' . $self->{redis}->url
                . " timeout=1s;\n" . <<"END",
    waiting_queue_interval 200ms;
    waiting_queue_promote_interval 200ms;
    waiting_queue_grace 2m;
    waiting_queue_poll_timeout 10m;
    waiting_queue_ttl 10m claim=5m;
    default_type text/html;
    charset utf-8;
    $self->{http}
${\ _backend($backend)}
END
        server => join('', map { <<"END" }
        location ~ ^/$_/(?<wq_event>[^/]+)/ {
            waiting_queue on;
            waiting_queue_event \$wq_event;
            $self->{locations}{$_}
            proxy_pass http://127.0.0.1:$backend;
        }
END
                       sort keys %{$self->{locations}}) . <<'END',
        location = /form {
            return 200 '<!DOCTYPE html><link rel="icon" href="data:,">
                <form method="post" action="$arg_to">
                <input name="seat" value="A-17"><button>Order</button></form>';
        }
        location = /login {
            add_header Set-Cookie "login=$arg_as; Path=/";
            return 200 '<!DOCTYPE html><link rel="icon" href="data:,">
                Hello, $arg_as';
        }
END
        timeout => 15,
    );

    $self->{nginx}->wait_ready;
    $self->{http_client} = HTTP::Tiny->new(timeout => 20, proxy => undef,
                                           http_proxy => undef);

    return $self;
}


# what is posted is read for the sake of whom it is passed on to

sub _backend {
    my $port = shift;

    my $page = '<!DOCTYPE html><html lang="en"><title>Shop</title>'
               . '<link rel="icon" href="data:,">'
               . '<body style="font: 1.5rem sans-serif; padding: 2rem">';

    return <<"END";
    server {
        listen 127.0.0.1:$port;

        location / {
            return 200 '$page<h1>Welcome to the shop</h1>
                <p><a id="buy" href="buy">Buy a ticket</a>';
        }
        location ~ /buy\$ {
            add_header X-Waiting-Queue sold;
            return 200 '$page<h1>The ticket is yours</h1>';
        }
        location ~ /done\$ {
            add_header X-Waiting-Queue done;
            return 200 '$page<h1>Goodbye</h1>';
        }
        location ~ /order\$ {
            rewrite ^ /shown break;
            proxy_pass http://127.0.0.1:$port;
            proxy_set_header X-Posted "\$request_method \$request_body";
        }
        location = /shown {
            return 200 '$page<h1>The order has come</h1>
                <p>\$http_x_posted';
        }
    }
END
}


sub nginx { return $_[0]{nginx} }
sub redis { return $_[0]{redis} }


# call(command): an answer of Redis

sub call {
    my ($self, @words) = @_;
    return $self->{asked}->call(@words);
}


# url(location, event, host): a host that ends in .test is no secure context

sub url {
    my ($self, $location, $event, $host) = @_;

    $host = '127.0.0.1' if !defined $host;
    return "http://$host:" . $self->{nginx}->port . "/$location/$event/";
}


# address(path): of what is outside of the gate

sub address {
    my ($self, $path) = @_;
    return 'http://127.0.0.1:' . $self->{nginx}->port . $path;
}


sub line {
    my ($self, $event) = @_;
    return WaitingQueue::Line->new(event => $event, redis => $self->{asked});
}


# ask(url, user): a request of a program; its status and JSON

sub ask {
    my ($self, $url, $user) = @_;

    my $answer = $self->{http_client}->get(
        $url, { headers => { Accept => 'application/json',
                             Cookie => "wq_uid=$user" } });

    return ($answer->{status},
            eval { JSON::PP::decode_json($answer->{content}) });
}


# come(location, event, n): so many, one after the other; their ids

sub come {
    my ($self, $location, $event, $n) = @_;

    my @users = map { sprintf '%032x', ++$crowd } 1 .. $n;

    for my $user (@users) {
        my ($status) = $self->ask($self->url($location, $event), $user);
        die "status $status\n" if $status != 200 && $status != 503;
    }

    return @users;
}


# leave(location, event, user): one who is inside has done what it came for

sub leave {
    my ($self, $location, $event, $user) = @_;

    my ($status) = $self->ask($self->url($location, $event) . 'done', $user);

    die "status $status\n" if $status != 200;
}


# how many streams there are, and how many there have been

sub streams { return $_[0]{nginx}->sum('streams') }
sub opened { return $_[0]{nginx}->sum('streamsOpened') }


# stop(), start(): the whole server, as in a restart

sub stop {
    my $self = shift;
    $self->{nginx}->stop;
}


sub start {
    my $self = shift;

    my $nginx = $self->{nginx};

    $nginx->{stopped} = 0;
    $nginx->{known} = [];
    delete @$nginx{qw(pid child exit)};
    $nginx->start;
}


1;
