# `waiting_queue_redis` is the one line every operator must get right.  What is
# right must lead to a connection that is really used as written, and what is
# wrong must stop nginx with a message that names the directive and the reason,
# and never tells a password.

use WaitingQueue::Test;
use WaitingQueue::Live;

use JSON::PP;

my $workers = $ENV{WQ_WORKERS} || 1;

# of each of them
my @links = qw(commands reader router);

# a Redis at the default port, on a loopback address that is nobody else's
my $default_host = join '.', 127, map { 1 + int rand 254 } 1 .. 3;
my $default_pid;

$ENV{TEST_NGINX_DEFAULT_HOST} = $default_host;


# [ what is wrong, the arguments, what nginx says ]

my $says = '"waiting_queue_redis" directive: ';
my $address = $says . 'invalid address: ';
my $escape = $address . 'bad percent escape in user or password';
my $database = $address . 'database must be a number between 0 and 65535';
my $port = $address . 'port must be between 1 and 65535';

my @bad = (
    [ 'no argument', '',
      'invalid number of arguments in "waiting_queue_redis" directive' ],
    [ 'an empty address', '""', $address . 'address is empty' ],

    [ 'no scheme', '127.0.0.1:6379',
      $address . 'address must start with redis:// or unix:' ],
    [ 'an unknown scheme', 'http://127.0.0.1',
      $address . 'address must start with redis:// or unix:' ],
    [ 'a scheme in capitals', 'REDIS://127.0.0.1',
      $address . 'address must start with redis:// or unix:' ],
    [ 'TLS', 'rediss://127.0.0.1',
      $address . 'TLS to Redis (rediss://) is not supported' ],

    [ 'port 0', 'redis://127.0.0.1:0', $port ],
    [ 'port 65536', 'redis://127.0.0.1:65536', $port ],
    [ 'a port of letters', 'redis://127.0.0.1:abc', $port ],
    [ 'an empty port', 'redis://127.0.0.1:', $port ],
    [ 'a negative port', 'redis://127.0.0.1:-1', $port ],

    [ 'no host', 'redis://', $address . 'host is missing' ],
    [ 'a port without a host', 'redis://:6379', $address . 'host is missing' ],
    [ 'a database without a host', 'redis:///1', $address . 'host is missing' ],
    [ 'a host with a bad character', 'redis://a$b',
      $address . 'bad character in the host' ],
    [ 'a host that is too long', 'redis://' . 'a' x 254,
      $address . 'host is too long' ],
    [ 'a host that does not resolve', 'redis://no-such-host.invalid:6390',
      $says . 'host not found in "no-such-host.invalid:6390"' ],
    [ 'an IPv6 address without brackets', 'redis://::1',
      $address . 'an IPv6 address must be in brackets' ],
    [ 'an IPv6 address without the second bracket', '"redis://[::1"',
      $address . '"]" is missing after the IPv6 address' ],
    [ 'no IPv6 address in brackets', '"redis://[127.0.0.1]"',
      $address . 'no IPv6 address in the brackets' ],
    [ 'something after the brackets', '"redis://[::1]6379"',
      $address . '":" or "/" must follow the IPv6 address' ],
    [ 'an impossible IPv6 address', '"redis://[1::2::3]:6379"',
      $says . 'invalid IPv6 address in "[1::2::3]:6379"' ],

    [ 'half a percent escape', 'redis://u:hunter2%4@127.0.0.1', $escape ],
    [ 'a percent escape that is none', 'redis://u:hunter2%zz@127.0.0.1',
      $escape ],
    [ 'a zero byte in the password', 'redis://u:hunter2%00@127.0.0.1',
      $address . '%00 is not allowed in user or password' ],
    [ 'a user without a password', 'redis://hunter2@127.0.0.1',
      $address . 'user without a password: write user:password@ or '
      . ':password@' ],
    [ 'a user with an empty password', 'redis://u:@127.0.0.1',
      $address . 'password is empty' ],
    [ 'a slash in the password', 'redis://u:hunter2/x@127.0.0.1',
      $address . '"@" is not allowed after "/" (a "/" in the password is '
      . 'written %2F)' ],
    [ 'a hash sign in the password', 'redis://u:hunter2#x@127.0.0.1',
      $address . 'a fragment is not supported (a "#" in the password is '
      . 'written %23)' ],

    [ 'a database that is no number', 'redis://127.0.0.1/one', $database ],
    [ 'a negative database', 'redis://127.0.0.1/-1', $database ],
    [ 'a database that is too large', 'redis://127.0.0.1/65536', $database ],
    [ 'two databases', 'redis://127.0.0.1/1/2', $database ],
    [ 'a query string', 'redis://127.0.0.1/1?timeout=1s',
      $address . 'a query string is not supported (a "?" in the password is '
      . 'written %3F)' ],

    [ 'a space', '"redis://127.0.0.1 /1"',
      $address . 'spaces and control characters are not allowed' ],
    [ 'a tab', '"redis://127.0.0.1\t"',
      $address . 'spaces and control characters are not allowed' ],
    [ 'a control character', qq{"redis://127.0.0.1\x01"},
      $address . 'spaces and control characters are not allowed' ],
    [ 'a delete', qq{"redis://127.0.0.1\x7f"},
      $address . 'spaces and control characters are not allowed' ],

    [ 'no path', 'unix:', $address . 'path of the unix socket is missing' ],
    [ 'a relative path', 'unix:redis.sock',
      $address . 'path of the unix socket must be absolute' ],
    [ 'a path of 107 bytes', 'unix:/' . 'a' x 106,
      $address . 'path of the unix socket must be shorter than 107 bytes' ],

    [ 'an unknown option', 'redis://127.0.0.1 colour=red',
      $says . 'invalid parameter "colour"' ],
    [ 'an option that begins like one', 'redis://127.0.0.1 dbs=1',
      $says . 'invalid parameter "dbs"' ],
    [ 'a password under a wrong name', 'redis://127.0.0.1 pasword=hunter2',
      $says . 'invalid parameter "pasword"' ],
    [ 'a password as a word of its own', 'redis://127.0.0.1 password hunter2',
      $says . 'invalid parameter "password"' ],
    [ 'an option without a value', 'redis://127.0.0.1 timeout=',
      $says . 'invalid parameter "timeout"' ],
    [ 'a password without a value', 'redis://127.0.0.1 password=',
      $says . 'invalid parameter "password"' ],
    [ 'an option without "="', 'redis://127.0.0.1 timeout',
      $says . 'invalid parameter "timeout"' ],

    (map { [ "timeout=$_", "redis://127.0.0.1 timeout=$_",
             $says . "invalid timeout \"$_\", must be 1ms to 60s" ] }
         qw(0 0ms 61s 60001ms abc -1)),
    (map { [ "in_flight=$_", "redis://127.0.0.1 in_flight=$_",
             $says . "invalid in_flight \"$_\", must be 1 to 1000000" ] }
         qw(0 abc -1 1k 1000001 10000001)),
    (map { [ "db=$_", "redis://127.0.0.1 db=$_",
             $says . 'invalid or repeated "db"' ] }
         qw(abc -1 65536)),

    [ 'the database twice, in the address and as an option',
      'redis://127.0.0.1/1 db=1', $says . 'invalid or repeated "db"' ],
    [ 'the database twice, as options', 'redis://127.0.0.1 db=1 db=1',
      $says . 'invalid or repeated "db"' ],
    [ 'the user twice, in the address and as an option',
      'redis://u:hunter2@127.0.0.1 user=v',
      $says . 'invalid or repeated "user"' ],
    [ 'the user twice, as options',
      'redis://127.0.0.1 user=u user=v password=hunter2',
      $says . 'invalid or repeated "user"' ],
    [ 'the password twice, in the address and as an option',
      'redis://:hunter1@127.0.0.1 password=hunter2',
      $says . 'invalid or repeated "password"' ],
    [ 'the password twice, as options',
      'redis://127.0.0.1 password=hunter1 password=hunter2',
      $says . 'invalid or repeated "password"' ],
    [ 'the option user= alone', 'redis://127.0.0.1 user=u',
      $says . 'user without a password' ],
);


# [ context, the whole of http{}, what nginx says ]

my $line = 'waiting_queue_redis redis://:hunter2@127.0.0.1;';

my @misplaced = (
    [ 'twice', "$line $line", '"waiting_queue_redis" directive is duplicate' ],
    [ 'in server{}', "server { $line }",
      '"waiting_queue_redis" directive is not allowed here' ],
    [ 'in location{}', "server { location / { $line } }",
      '"waiting_queue_redis" directive is not allowed here' ],
);


# values at the very edge of what is right; nginx -t connects to nothing

my @edge = (
    'redis://127.0.0.1:1',
    'redis://127.0.0.1:65535/',
    'redis://127.0.0.1/65535',
    'redis://127.0.0.1 db=65535',
    'redis://127.0.0.1 db=0 timeout=1ms in_flight=1',
    'redis://127.0.0.1 timeout=60s in_flight=1000000',
    'unix:/' . 'a' x 105,
);


plan tests => 2 * @bad + 2 * @misplaced + @edge
              + repeat_each() * (blocks() * 4 + 4) + 1;

for my $case (@bad) {
    my ($name, $arguments, $message) = @$case;
    refused($name, "waiting_queue_redis $arguments;", $message);
}

for my $case (@misplaced) {
    my ($name, $http, $message) = @$case;
    refused($name, $http, $message);
}

for my $arguments (@edge) {
    my ($ok, $output) = nginx_t("waiting_queue_redis $arguments;");
    ok($ok, "accepted: $arguments") or diag($output);
}

# "--- before" runs before nginx starts, "--- check" after the request, as one
# test

add_block_preprocessor(sub {
    my $block = shift;

    $block->set_value('config', '    location = /status {
        waiting_queue_status;
    }') if !defined $block->config;

    $block->set_value('request', 'GET /status') if !defined $block->must_die;

    if (defined $block->before) {
        eval $block->before;
        die $@ if $@;
    }
});

add_response_body_check(sub {
    my $block = shift;

    Test::More::subtest($block->name => sub {
        eval $block->check . '; 1' or Test::More::fail("died: $@");
    });
});

redis('FLUSHALL');
redis('ACL', 'SETUSER', 'wq-reader', 'on', '>plain-hunter2', '~*', '+@all');
redis('ACL', 'SETUSER', 'wq@home', 'on', '>p:a@s/s?w#o%rd', '~*', '+@all');
redis('ACL', 'SETUSER', 'wq-literal', 'on', '>lit%41 hunter2', '~*', '+@all');
start_default_redis();

run_tests();

# first nginx, so that it finds its user to the last
stop_nginx();
is(redis('ACL', 'DELUSER', 'wq-reader', 'wq@home', 'wq-literal'), 3,
   'the users are removed');
redis('CONFIG', 'SET', 'bind', '127.0.0.1');


# refused(): a configuration that nginx must not take; two tests

sub refused {
    my ($name, $http, $message) = @_;

    my ($ok, $output) = nginx_t($http);
    my @emerg = grep { /\[emerg\]/ } split /\n/, $output;

    ok(!$ok && @emerg == 1 && index($emerg[0], "$message") >= 0,
       "$name: $message")
        or diag($output);
    unlike($output, qr/hunter/, "$name: tells no password");
}


sub start_default_redis {
    $default_pid = fork;

    if ($default_pid == 0) {
        open STDOUT, '>', '/dev/null';
        exec 'redis-server', '--bind', $default_host, '--port', 6379,
             '--save', '', '--appendonly', 'no', '--protected-mode', 'no';
    }

    await('Redis at the default port', sub {
        `redis-cli -h $default_host ping 2>/dev/null` =~ /PONG/;
    });
}


END {
    if ($default_pid) {
        local $?;
        kill 'TERM', $default_pid;
        waitpid $default_pid, 0;
    }
}


# in_use(status, CLIENT LIST, field => value ...): each link of each worker is
# one client of Redis, by its name, with all these fields

sub in_use {
    my ($status, $list, %fields) = @_;

    my %clients;

    for my $line (split /\n/, $list) {
        my %client = map { split /=/, $_, 2 } split ' ', $line;
        push @{$clients{$client{name}}}, \%client;
    }

    for my $process (@{$status->{processes}}) {
        for my $link (@links) {
            my $found = $clients{"$process->{instance}:$link"} || [];
            is(scalar @$found, 1, "one client named INSTANCE:$link");

            for my $field (sort keys %fields) {
                my $want = $fields{$field};
                my $got = $found->[0]{$field};
                ref $want ? like($got, $want, "$link: $field")
                          : is($got, $want, "$link: $field");
            }
        }
    }
}

__DATA__

=== TEST 1: host and port
--- http_config
    waiting_queue_redis redis://127.0.0.1:$TEST_NGINX_REDIS_PORT;
    waiting_queue_prefix t001-1:;
--- check
    my $status = ready();
    is_deeply($status->{redis},
              { address => "127.0.0.1:$ENV{WQ_REDIS_PORT}", db => 0,
                timeoutMs => 2000, maxInFlight => 8192 },
              'the defaults');
    in_use($status, redis('CLIENT', 'LIST'), db => 0, user => 'default',
           laddr => "127.0.0.1:$ENV{WQ_REDIS_PORT}");
    is(redis('ZCARD', 't001-1:WAITING_INSTANCES'), $workers, 'it is used');



=== TEST 2: host only, at the default port
--- http_config
    waiting_queue_redis redis://$TEST_NGINX_DEFAULT_HOST;
--- check
    my $status = ready();
    is($status->{redis}{address}, "$default_host:6379", 'port 6379');
    in_use($status, redis('-h', $default_host, 'CLIENT', 'LIST'), db => 0,
           user => 'default', laddr => "$default_host:6379");



=== TEST 3: a password without a user, percent-encoded
--- before
    redis('-h', $default_host, 'CONFIG', 'SET', 'requirepass', 'hunter2 @:/');
--- http_config
    waiting_queue_redis redis://:hunter2%20%40%3a%2F@$TEST_NGINX_DEFAULT_HOST:6379/;
--- log_level: debug
--- check
    my $status = ready();
    local $ENV{REDISCLI_AUTH} = 'hunter2 @:/';
    in_use($status, redis('-h', $default_host, 'CLIENT', 'LIST'), db => 0,
           user => 'default');
    unlike(error_log(), qr/hunter2/, 'the log tells no password');



=== TEST 4: the same as an option
--- http_config
    waiting_queue_redis redis://$TEST_NGINX_DEFAULT_HOST "password=hunter2 @:/";
--- log_level: debug
--- check
    my $status = ready();
    local $ENV{REDISCLI_AUTH} = 'hunter2 @:/';
    in_use($status, redis('-h', $default_host, 'CLIENT', 'LIST'), db => 0,
           user => 'default');
    unlike(error_log(), qr/hunter2/, 'the log tells no password');



=== TEST 5: no password where Redis wants one
--- http_config
    waiting_queue_redis redis://$TEST_NGINX_DEFAULT_HOST;
--- check
    my $status = await('no_auth', sub {
        my $status = status();
        my @all = links($status);
        @all == @links * $workers
            && !(grep { ($_->{trouble} || '') ne 'no_auth' } @all)
            && $status;
    });
    is((grep { $_->{heartbeats} } @{$status->{processes}}), 0, 'no heartbeat');
--- error_log
link is down: no_auth (



=== TEST 6: database in the address
--- http_config
    waiting_queue_redis redis://127.0.0.1:$TEST_NGINX_REDIS_PORT/7;
    waiting_queue_prefix t001-6:;
--- check
    my $status = ready();
    is($status->{redis}{db}, 7, 'the status tells the database');
    in_use($status, redis('CLIENT', 'LIST'), db => 7);
    is(redis('-n', 7, 'ZCARD', 't001-6:WAITING_INSTANCES'), $workers,
       'it is used');
    is(redis('EXISTS', 't001-6:WAITING_INSTANCES'), 0, 'and no other');



=== TEST 7: database as an option
--- http_config
    waiting_queue_redis redis://127.0.0.1:$TEST_NGINX_REDIS_PORT db=8;
    waiting_queue_prefix t001-7:;
--- check
    my $status = ready();
    in_use($status, redis('CLIENT', 'LIST'), db => 8);
    is(redis('-n', 8, 'ZCARD', 't001-7:WAITING_INSTANCES'), $workers,
       'it is used');



=== TEST 8: a database that Redis does not have
--- http_config
    waiting_queue_redis redis://127.0.0.1:$TEST_NGINX_REDIS_PORT/65535;
--- check
    ok(await('trouble on every link', sub {
        my @all = links(status());
        @all == @links * $workers && !(grep { !$_->{trouble} } @all);
    }), 'not ready, and says so');
--- error_log
DB index is out of range



=== TEST 9: user and password in the address
--- http_config
    waiting_queue_redis redis://wq-reader:plain-hunter2@127.0.0.1:$TEST_NGINX_REDIS_PORT/2;
    waiting_queue_prefix t001-9:;
--- log_level: debug
--- check
    my $status = ready();
    in_use($status, redis('CLIENT', 'LIST'), db => 2, user => 'wq-reader');
    unlike(error_log(), qr/hunter2/, 'the log tells no password');
    unlike(JSON::PP->new->encode($status), qr/hunter2/, 'nor does the status');



=== TEST 10: user and password percent-encoded
--- http_config
    waiting_queue_redis redis://wq%40home:p%3Aa%40s%2fs%3Fw%23o%25rd@127.0.0.1:$TEST_NGINX_REDIS_PORT/2;
    waiting_queue_prefix t001-10:;
--- log_level: debug
--- check
    in_use(ready(), redis('CLIENT', 'LIST'), db => 2, user => 'wq@home');
    unlike(error_log(), qr/o%rd|o%25rd/, 'the log tells no password');



=== TEST 11: options are taken to the letter, not percent-decoded
--- http_config
    waiting_queue_redis redis://127.0.0.1:$TEST_NGINX_REDIS_PORT user=wq-literal "password=lit%41 hunter2" db=3;
    waiting_queue_prefix t001-11:;
--- log_level: debug
--- check
    in_use(ready(), redis('CLIENT', 'LIST'), db => 3, user => 'wq-literal');
    unlike(error_log(), qr/hunter2/, 'the log tells no password');



=== TEST 12: a wrong password
--- http_config
    waiting_queue_redis redis://wq-reader:wrong-hunter2@127.0.0.1:$TEST_NGINX_REDIS_PORT;
--- log_level: debug
--- check
    await('wrong_password', sub {
        my @all = links(status());
        @all == @links * $workers
            && !(grep { ($_->{trouble} || '') ne 'wrong_password' } @all);
    });
    unlike(error_log(), qr/hunter2/, 'the log tells no password');
--- error_log
link is down: wrong_password (



=== TEST 13: an IPv6 address
--- before
    redis('CONFIG', 'SET', 'bind', '127.0.0.1 ::1');
--- http_config
    waiting_queue_redis redis://[::1]:$TEST_NGINX_REDIS_PORT/4;
    waiting_queue_prefix t001-13:;
--- check
    my $status = ready();
    is($status->{redis}{address}, "[::1]:$ENV{WQ_REDIS_PORT}", 'address');
    in_use($status, redis('CLIENT', 'LIST'), db => 4,
           laddr => "[::1]:$ENV{WQ_REDIS_PORT}");



=== TEST 14: a name
--- http_config
    waiting_queue_redis redis://localhost:$TEST_NGINX_REDIS_PORT/5;
    waiting_queue_prefix t001-14:;
--- check
    my $status = ready();
    like($status->{redis}{address}, qr/^localhost\b/, 'address');
    in_use($status, redis('CLIENT', 'LIST'), db => 5,
           laddr => qr/^(127\.0\.0\.1|\[::1\]):$ENV{WQ_REDIS_PORT}$/);



=== TEST 15: a unix socket
--- http_config
    waiting_queue_redis unix:$TEST_NGINX_REDIS_SOCKET;
    waiting_queue_prefix t001-15:;
--- check
    my $status = ready();
    is($status->{redis}{address}, "unix:$ENV{WQ_REDIS_SOCKET}", 'address');
    in_use($status, redis('CLIENT', 'LIST'), db => 0, user => 'default',
           addr => "$ENV{WQ_REDIS_SOCKET}:0");



=== TEST 16: a unix socket with all options
--- http_config
    waiting_queue_redis unix:$TEST_NGINX_REDIS_SOCKET password=plain-hunter2
                        in_flight=100 user=wq-reader timeout=1500ms db=6;
    waiting_queue_prefix t001-16:;
--- log_level: debug
--- check
    my $status = ready();
    is_deeply($status->{redis},
              { address => "unix:$ENV{WQ_REDIS_SOCKET}", db => 6,
                timeoutMs => 1500, maxInFlight => 100 },
              'the status tells the options');
    in_use($status, redis('CLIENT', 'LIST'), db => 6, user => 'wq-reader',
           addr => "$ENV{WQ_REDIS_SOCKET}:0");
    unlike(error_log(), qr/hunter2/, 'the log tells no password');



=== TEST 17: the timeout counts
--- http_config
    waiting_queue_redis redis://127.0.0.1:$TEST_NGINX_REDIS_PORT timeout=200ms;
    waiting_queue_prefix t001-17:;
--- check
    ready();
    redis('CLIENT', 'PAUSE', '20000', 'WRITE');
    await('a command timed out on every worker', sub {
        !grep { !$_->{links}{commands}{timedOut} } @{status()->{processes}};
    });
    redis('CLIENT', 'UNPAUSE');
    ok(ready(), 'ready again');
    my $status = status();
    is((grep { $_->{links}{commands}{reconnects} < 1 }
             @{$status->{processes}}), 0, 'after a reconnect');
--- error_log
redis commands link is down: command_timeout (127.0.0.1:



=== TEST 18: nginx does not start either
--- http_config
    waiting_queue_redis redis://:hunter2@127.0.0.1:0;
--- must_die
--- error_log
"waiting_queue_redis" directive: invalid address: port must be between 1 and 65535
[emerg]
--- no_error_log
hunter2
