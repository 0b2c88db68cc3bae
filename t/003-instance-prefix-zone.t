# The names a worker has in Redis are a contract: with the other workers, with
# operators who look into Redis, and with whoever shares it.  And what a worker
# leaves behind, nobody would ever clean up.

use WaitingQueue::Test;
use WaitingQueue::Live;

use Sys::Hostname ();

my $workers = $ENV{WQ_WORKERS} || 1;

my $letters = 'A-Z a-z 0-9 . _ ~ @ : -';
my $long = 'a' x 65;


# [ what is wrong, the whole of http{}, what nginx says ]

my @bad = (
    (map { [ "instance $_", "waiting_queue_instance $_;",
             '"waiting_queue_instance" directive: invalid name "'
             . unquote($_) . "\", must be 1 to 64 of $letters" ] }
         '""', '"a b"', '"a{b}"', 'a/b', 'a+b', 'a,b', '"a\tb"', 'a%20b',
         "caf\xc3\xa9", $long),

    (map { [ "prefix $_", "waiting_queue_prefix $_;",
             '"waiting_queue_prefix" directive: invalid prefix "'
             . unquote($_) . "\", must be at most 64 of $letters" ] }
         '"a b"', '"{a}"', '"a{"', 'a}b', 'a/b', 'a*', '"a\nb"', "\xc3\xa9",
         $long),

    (map { [ "zone $_", "waiting_queue_zone $_;",
             '"waiting_queue_zone" directive: invalid size "'
             . unquote($_)
             . '", must be a number with "k" or "m", at least 512k' ] }
         qw(0 1 1k 511k 524287 abc -1 1g 1m2 ""), '"1 m"', '"512 k"'),

    (map { [ "$_ without a value", "$_;",
             "invalid number of arguments in \"$_\" directive" ],
           [ "$_ with two values", "$_ 1m 1m;",
             "invalid number of arguments in \"$_\" directive" ],
           [ "$_ twice", "$_ 1m; $_ 1m;", "\"$_\" directive is duplicate" ],
           [ "$_ in server{}", "server { $_ 1m; }",
             "\"$_\" directive is not allowed here" ],
           [ "$_ in location{}", "server { location / { $_ 1m; } }",
             "\"$_\" directive is not allowed here" ] }
         qw(waiting_queue_instance waiting_queue_prefix waiting_queue_zone)),

    [ 'waiting_queue_prefix twice, first empty',
      'waiting_queue_prefix ""; waiting_queue_prefix a;',
      '"waiting_queue_prefix" directive is duplicate' ],
);

my @good = (
    'waiting_queue_instance ABCXYZabcxyz0189._~@:-;',
    'waiting_queue_prefix ABCXYZabcxyz0189._~@:-;',
    'waiting_queue_instance ' . 'a' x 64 . ';',
    'waiting_queue_prefix "";',
    'waiting_queue_prefix ' . 'a' x 64 . ';',
    'waiting_queue_zone 512k;',
    'waiting_queue_zone 524288;',
    'waiting_queue_zone 1m;',
    'waiting_queue_zone 16M;',
);


# "--- master" runs nginx with a master process whatever the number of workers,
# "--- before" runs before nginx starts, "--- check" after the request, as one
# test

add_block_preprocessor(sub {
    my $block = shift;

    $block->set_value('config', '    location = /status {
        waiting_queue_status;
    }');
    $block->set_value('request', 'GET /status');

    $workers > 1 || defined $block->master ? master_on() : master_off();

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

plan tests => @bad + @good + repeat_each() * (blocks() * 4);

for my $case (@bad) {
    my ($name, $http, $message) = @$case;
    my ($ok, $output) = nginx_t("waiting_queue_redis redis://127.0.0.1; $http");

    my ($emerg) = $output =~ /\[emerg\] (.*?) in \S+nginx\.conf:\d+$/ms;

    ok(!$ok && $emerg eq $message, "$name: $message") or diag($output);
}

for my $http (@good) {
    my ($ok, $output) = nginx_t("waiting_queue_redis redis://127.0.0.1; $http");
    ok($ok, "accepted: $http") or diag($output);
}

redis('FLUSHALL');

run_tests();


# unquote(word): what nginx makes of a word of the configuration

sub unquote {
    my %escapes = (t => "\t", n => "\n");

    return $_[0] =~ s/^"(.*)"$/$1/r =~ s/\\([tn])/$escapes{$1}/gr;
}


# keys_of(prefix, database): the names that begin with it, in order, but that
# of the lease of a round, which comes and goes

sub keys_of {
    my ($prefix, $database) = @_;

    return [ sort grep { $_ ne "${prefix}PROMOTION_LEASE" }
                       split /\n/, redis('-n', $database || 0,
                                         'KEYS', "$prefix*") ];
}


# led(prefix, database): a round of promotion has been led, and what that leaves
# is there

sub led {
    my ($prefix, $database) = @_;

    await('a round', sub {
        redis('-n', $database || 0, 'EXISTS', "${prefix}PROMOTION_ROUND");
    });
}


# named(prefix, node): what is in Redis, to the letter

sub named {
    my ($prefix, $node) = @_;

    my $status = ready();
    is($status->{prefix}, $prefix, 'the status tells the prefix');
    is($status->{node}, $node, 'and the node');

    my @instances = sort map { $_->{instance} } @{$status->{processes}};

    led($prefix);

    is_deeply(keys_of($prefix),
              [ sort "${prefix}WAITING_INSTANCES", "${prefix}ENTRY",
                     "${prefix}PROMOTION_ROUND", "${prefix}WAITING_ORIGIN",
                     map { "${prefix}DISPATCH:{$_}" } @instances ],
              'the keys');

    my $leader = redis('GET', "${prefix}PROMOTION_LEASE");
    my $left = redis('PTTL', "${prefix}PROMOTION_LEASE");
    ok($leader eq '' || (grep { $_ eq $leader } @instances),
       'one of the instances leads the round, or none now');
    ok($left == -2 || ($left >= 0 && $left <= 1000),
       'and not for longer than a round');

    is(redis('TYPE', "${prefix}ENTRY"), 'stream', 'a STREAM');
    like(redis('XINFO', 'GROUPS', "${prefix}ENTRY"),
         qr/^name\nwaiting_queue\n/, 'with a group');
    is_deeply([ consumers("${prefix}ENTRY") ], \@instances,
              'that all instances read');

    is(redis('TYPE', "${prefix}WAITING_INSTANCES"), 'zset', 'a ZSET');
    is_deeply([ sort split /\n/,
                     redis('ZRANGE', "${prefix}WAITING_INSTANCES", 0, -1) ],
              \@instances, 'of the instances');

    my ($s, $us) = split /\n/, redis('TIME');
    my $now = $s * 1000 + int($us / 1000);

    for my $process (@{$status->{processes}}) {
        my $instance = $process->{instance};

        like($instance, qr/^\Q$node\E-$process->{pid}-\d{13}$/,
             '<node>-<pid>-<start ms>');
        my ($start) = $instance =~ /-(\d+)$/;
        ok($start <= $now && $start > $now - 60000, 'started a moment ago');

        my $beat = redis('ZSCORE', "${prefix}WAITING_INSTANCES", $instance);
        ok($beat <= $now + 2000 && $beat > $now - 5000, 'alive now');

        is(redis('TYPE', "${prefix}DISPATCH:{$instance}"), 'stream',
           'a STREAM');
        like(redis('XINFO', 'GROUPS', "${prefix}DISPATCH:{$instance}"),
             qr/^name\nwaiting_queue\n/, 'with a group');
        is_deeply([ consumers("${prefix}DISPATCH:{$instance}") ],
                  [ $instance ], 'that it alone reads');
    }
}


# consumers(stream): of its group, in order

sub consumers {
    my ($stream) = @_;

    my $answer = redis('XINFO', 'CONSUMERS', $stream, 'waiting_queue');
    return sort $answer =~ /^name\n(.*)$/mg;
}

__DATA__

=== TEST 1: by default there is no prefix and the node is the host's name
--- before
    redis('FLUSHALL');
--- http_config
    waiting_queue_redis unix:$TEST_NGINX_REDIS_SOCKET db=9;
--- check
    # nginx has it in lower case
    my $host = substr lc Sys::Hostname::hostname(), 0, 64;
    $host =~ s/[^a-z0-9._~\@:-]/-/g;

    my $status = ready();
    is($status->{node}, $host, 'node');
    is($status->{prefix}, '', 'prefix');

    my $process = $status->{processes}[0];
    like($process->{instance}, qr/^\Q$host\E-$process->{pid}-\d{13}$/,
         'instance');

    led('', 9);

    is_deeply(keys_of('', 9),
              [ sort 'WAITING_INSTANCES', 'WAITING_ORIGIN', 'ENTRY',
                     'PROMOTION_ROUND',
                     map { "DISPATCH:{$_->{instance}}" }
                         @{$status->{processes}} ],
              'the keys, without a prefix');



=== TEST 2: instance and prefix
--- http_config
    waiting_queue_redis unix:$TEST_NGINX_REDIS_SOCKET;
    waiting_queue_instance web-1.example;
    waiting_queue_prefix t003-2:;
--- check
    named('t003-2:', 'web-1.example');



=== TEST 3: instance and prefix of all characters
--- http_config
    waiting_queue_redis unix:$TEST_NGINX_REDIS_SOCKET;
    waiting_queue_instance AZaz09._~@:-;
    waiting_queue_prefix t003-3.AZaz09._~@:-;
--- check
    named('t003-3.AZaz09._~@:-', 'AZaz09._~@:-');



=== TEST 4: instance and prefix as long as they may be
--- http_config eval
"    waiting_queue_redis unix:\$TEST_NGINX_REDIS_SOCKET;
    waiting_queue_instance " . 'n' x 64 . ";
    waiting_queue_prefix " . 'p' x 64 . ";\n"
--- check
    named('p' x 64, 'n' x 64);

    # the names of the connections are not cut
    my $list = redis('CLIENT', 'LIST');
    for my $process (@{status()->{processes}}) {
        like($list, qr/ name=\Q$process->{instance}\E:$_ /, $_)
            for qw(commands reader router);
    }



=== TEST 5: an empty prefix is none
--- http_config
    waiting_queue_redis unix:$TEST_NGINX_REDIS_SOCKET db=10;
    waiting_queue_prefix "";
--- check
    is(ready()->{prefix}, '', 'the status says so');
    is(redis('-n', 10, 'EXISTS', 'WAITING_INSTANCES'), 1, 'and the key');



=== TEST 6: the smallest zone is enough
--- http_config
    waiting_queue_redis unix:$TEST_NGINX_REDIS_SOCKET;
    waiting_queue_prefix t003-6:;
    waiting_queue_instance node;
    waiting_queue_zone 512k;
--- check
    named('t003-6:', 'node');



=== TEST 7: a zone of another size
--- http_config
    waiting_queue_zone 2m;
    waiting_queue_redis unix:$TEST_NGINX_REDIS_SOCKET;
    waiting_queue_prefix t003-7:;
    waiting_queue_instance node;
--- check
    named('t003-7:', 'node');



=== TEST 8: a graceful stop leaves nothing of the instance in Redis
--- master
--- http_config
    waiting_queue_redis unix:$TEST_NGINX_REDIS_SOCKET;
    waiting_queue_prefix t003-8:;
    waiting_queue_instance node;
--- check
    my $status = ready();

    # alive for an hour, whatever this machine does meanwhile
    redis('ZADD', 't003-8:WAITING_INSTANCES',
          (redis('TIME') =~ /^(\d+)/)[0] * 1000 + 3600000, 'another-1-1');
    redis('XADD', 't003-8:DISPATCH:{another-1-1}', '*', 'a', 'b');
    redis('XGROUP', 'CREATECONSUMER', 't003-8:ENTRY', 'waiting_queue',
          'another-1-1');

    is(scalar @{keys_of('t003-8:DISPATCH:')}, $workers + 1, 'all there');
    led('t003-8:');

    stop_nginx();

    is_deeply(keys_of('t003-8:'),
              [ 't003-8:DISPATCH:{another-1-1}', 't003-8:ENTRY',
                't003-8:PROMOTION_ROUND', 't003-8:WAITING_INSTANCES',
                't003-8:WAITING_ORIGIN' ],
              'no stream is left');
    is(redis('ZRANGE', 't003-8:WAITING_INSTANCES', 0, -1), 'another-1-1',
       'nor a heartbeat, but those of others');
    is_deeply([ consumers('t003-8:ENTRY') ], [ 'another-1-1' ],
              'nor a consumer');

    my $list = redis('CLIENT', 'LIST');
    unlike($list, qr/\Q$_->{instance}\E/, 'nor a connection')
        for @{$status->{processes}};



=== TEST 9: the last to stop leaves what all share, however little is allowed
--- master
--- http_config
    waiting_queue_redis unix:$TEST_NGINX_REDIS_SOCKET in_flight=1;
    waiting_queue_prefix t003-9:;
--- check
    ready();
    led('t003-9:');
    stop_nginx();

    is_deeply(keys_of('t003-9:'),
              [ map { "t003-9:$_" } qw(ENTRY PROMOTION_ROUND WAITING_ORIGIN) ],
              'nothing else');
    is(redis('XLEN', 't003-9:ENTRY'), 0, 'which is empty');
    is_deeply([ consumers('t003-9:ENTRY') ], [], 'and nobody reads');

    ok(await('the end of the lease', sub {
        !redis('EXISTS', 't003-9:PROMOTION_LEASE');
    }), 'nobody leads');



=== TEST 10: after a reload there is only what the new workers have
--- master
--- http_config
    waiting_queue_redis unix:$TEST_NGINX_REDIS_SOCKET;
    waiting_queue_prefix t003-10:;
--- check
    my $old = ready();
    my %old = map { $_->{instance} => 1 } @{$old->{processes}};

    open my $in, '<', server_root() . '/logs/nginx.pid' or die "pid: $!";
    chomp(my $pid = <$in>);
    kill 'HUP', $pid;

    await('the old workers to leave', sub {
        !grep { $old{$_->{instance}} } @{status()->{processes}};
    });
    my $new = ready();

    led('t003-10:');

    is_deeply(keys_of('t003-10:'),
              [ sort 't003-10:WAITING_INSTANCES', 't003-10:ENTRY',
                     't003-10:PROMOTION_ROUND', 't003-10:WAITING_ORIGIN',
                     map { "t003-10:DISPATCH:{$_->{instance}}" }
                         @{$new->{processes}} ],
              'the keys are those of the new workers');
    is_deeply([ consumers('t003-10:ENTRY') ],
              [ sort map { $_->{instance} } @{$new->{processes}} ],
              'and so are the readers of ENTRY');
