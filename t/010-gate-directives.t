# The directives of the gate, and its variables.  What is wrong must stop nginx
# with a message that names the directive; what is right must do what it says,
# from whichever level of the configuration.

use WaitingQueue::Test;
use WaitingQueue::Live;

use File::Temp ();
use IO::Socket::INET;
use WaitingQueue::Gate;
use WaitingQueue::Line;
use WaitingQueue::Sse;

my $workers = $ENV{WQ_WORKERS} || 1;
my $files = File::Temp->newdir();

$ENV{TEST_NGINX_FILES} = "$files";
$ENV{TEST_NGINX_INNER_PORT} = free_port();

my %pages = (
    good => "{{status}} {{ position }}/{{total}} {{ahead}}<{{behind}} "
            . "{{event}} {{lang}} {{method}} {{refresh}} [{{eta}}]\n"
            . "{{state}}\n",
    plain => "come back later, { {not}} a value }}\n",
    wrong => "before {{positions}} after\n",
    open => "before {{position\nafter\n",
    empty => '',
    large => 'x' x (1024 * 1024 + 1),
    most => 'x' x (1024 * 1024),
);

for my $name (keys %pages) {
    open my $file, '>', "$files/$name.html" or die "$name: $!\n";
    print $file $pages{$name};
    close $file;
}

my ($sse, $prefix);
my %html = (headers => { Accept => 'text/html' });

my $code = 'must be 200, 202 or 400 to 599';
my $poll = 'must be a time of 2s to 365d';

# directives that are inherited from http{} to server{} to location{}, and a
# value that each takes
my %inherited = (
    waiting_queue => 'on',
    waiting_queue_page => "$files/good.html",
    waiting_queue_code => '503',
    waiting_queue_on_error => 'pass',
    waiting_queue_bypass => '$cookie_staff',
    waiting_queue_dry_run => 'on',
    waiting_queue_poll_timeout => '30s',
);


# [ what is wrong, the whole of http{}, what nginx says ]

my @bad = (
    (map { my $name = $_;
           map { [ "$name $_", "$name $_;",
                   'invalid value "' . unquote($_) . "\" in \"$name\" "
                   . 'directive, it must be "on" or "off"' ] }
               qw(yes 1 "" onn) }
         qw(waiting_queue waiting_queue_dry_run)),

    (map { [ "code $_", "waiting_queue_code $_;",
             '"waiting_queue_code" directive: invalid code "' . unquote($_)
             . "\", $code" ] }
         qw(0 1 99 100 199 201 203 204 206 299 301 302 304 399 600 999 -503
            +503 503.0 abc "" 5030 99999999999999999999), '" 503"'),

    (map { [ "on_error $_", "waiting_queue_on_error $_;",
             '"waiting_queue_on_error" directive: invalid value "'
             . unquote($_) . '", must be "pass", "block", or a ration as '
             . '"pass=20/1s"' ] }
         qw(on off Pass passes 0 "" Pass=1/s block=1/s 20/1s)),

    (map { [ "on_error pass=$_", "waiting_queue_on_error \"pass=$_\";",
             "\"waiting_queue_on_error\" directive: invalid ration \"$_\", "
             . 'must be requests and a time, as "20/1s", of 1 to 100000000 '
             . 'and 10ms to 1d' ] }
         '', '/', '20', '20/', '/s', '/1s', '0/s', '0/1s', '-1/s', '+1/s',
         '1.5/s', 'x/s', '1/x', '1/1x', '1/0s', '1/9ms', '1/ms', 's',
         '1/1d1s', '1/2d', '1/-1s', '1/1.5s', '1/w', '1/M', '1/y', '1//s',
         '1/s/s', '1s', '20r/s', '100000001/s', '100000001/1s',
         '99999999999999999999/s', '99999999999999999999/1s', ' 1/s', '1/ s'),

    (map { [ "poll_timeout $_", "waiting_queue_poll_timeout $_;",
             '"waiting_queue_poll_timeout" directive: invalid time "'
             . unquote($_) . "\", $poll" ] }
         qw(0 0s 1999ms -1 -1s abc 1.5s 5x off "" 366d 99999999999999999999),
         '"1 s"'),

    [ 'a page that is not there', "waiting_queue_page $files/none.html;",
      '"waiting_queue_page" directive: cannot open "' . "$files/none.html\" "
      . '(2: No such file or directory)' ],
    [ 'a page that is a directory', "waiting_queue_page $files;",
      "\"waiting_queue_page\" directive: \"$files\" is not a file" ],
    (map { [ "a page that is $_", "waiting_queue_page $files/$_.html;",
             "\"waiting_queue_page\" directive: \"$files/$_.html\" is empty or "
             . 'larger than 1m' ] } qw(empty large)),
    [ 'a page with an unknown value', "waiting_queue_page $files/wrong.html;",
      '"waiting_queue_page" directive: there is no value "{{positions}}"' ],
    [ 'a page with half a value', "waiting_queue_page $files/open.html;",
      '"waiting_queue_page" directive: there is no value "{{position"' ],

    (map { [ "zone $_", "waiting_queue_zone $_;",
             qr/"waiting_queue_zone"\ directive:\ invalid\ size\ "$_",\ must\ be
                \ a\ number\ with\ "k"\ or\ "m",\ at\ least\ \d+k/x ] }
         qw(0 1k abc -1m 1x)),

    [ 'bypass of an unknown variable', 'waiting_queue_bypass $no_such;',
      'unknown "no_such" variable' ],
    [ 'bypass of nothing', 'waiting_queue_bypass;',
      'invalid number of arguments in "waiting_queue_bypass" directive' ],

    (map { my $name = $_;
           [ "$name without a value", "$name;",
             "invalid number of arguments in \"$name\" directive" ],
           [ "$name with two", "$name on on;",
             "invalid number of arguments in \"$name\" directive" ] }
         grep { $_ ne 'waiting_queue_bypass' } sort keys %inherited),

    (map { [ "$_ twice", "$_ $inherited{$_}; $_ $inherited{$_};",
             "\"$_\" directive is duplicate" ] }
         grep { $_ ne 'waiting_queue_bypass' } sort keys %inherited),

    (map { [ "$_ in an if",
             "server { location / { if (\$host) { $_ $inherited{$_}; } } }",
             "\"$_\" directive is not allowed here" ],
           [ "$_ in an upstream", "upstream u { $_ $inherited{$_}; }",
             "\"$_\" directive is not allowed here" ] }
         sort keys %inherited),

    [ 'zone in server{}', 'server { waiting_queue_zone 1m; }',
      '"waiting_queue_zone" directive is not allowed here' ],
    [ 'zone twice', 'waiting_queue_zone 1m; waiting_queue_zone 1m;',
      '"waiting_queue_zone" directive is duplicate' ],
    (map { [ "setting \$waiting_queue_$_",
             "server { set \$waiting_queue_$_ x; }",
             "the duplicate \"waiting_queue_$_\" variable" ] }
         qw(state event user position total eta token wait)),
);

my @good = (
    (map { "$_ $inherited{$_}" } sort keys %inherited),
    'waiting_queue off', 'waiting_queue ON', 'waiting_queue_dry_run off',
    (map { "waiting_queue_code $_" } 200, 202, 400, 418, 429, 503, 599),
    'waiting_queue_on_error block',
    (map { "waiting_queue_on_error pass=$_" }
         qw(1/s 20/s 1/m 1/h 1/d 1/10ms 20/1s 20/1m30s 1/24h 1/86400 1/1d
            100000000/s 100000000/10ms 100000000/1d)),
    (map { "waiting_queue_poll_timeout $_" } qw(2s 2000ms 60 5m 365d 1h30m)),
    'waiting_queue_bypass $arg_a $http_b "$cookie_c"',
    'waiting_queue_bypass 0', "waiting_queue_page $files/plain.html",
    "waiting_queue_page $files/most.html",
    'log_format l "$waiting_queue_state $waiting_queue_event '
        . '$waiting_queue_user $waiting_queue_position $waiting_queue_total '
        . '$waiting_queue_eta $waiting_queue_token $waiting_queue_wait"',
);


# "--- check" runs after the request, as one test.

add_block_preprocessor(sub {
    my $block = shift;

    my $text = sub { my $name = shift;
                     defined $block->$name ? $block->$name : '' };

    ($prefix) = $block->name =~ /^TEST (\d+)/;
    $prefix = "t010-$prefix:";

    $block->set_value('http_config', $text->('http_config') . '
    waiting_queue_redis unix:$TEST_NGINX_REDIS_SOCKET;
    waiting_queue_prefix ' . $prefix . ';
    waiting_queue_interval 20ms;
    waiting_queue_promote_interval 50ms;
    waiting_queue_user $arg_user;
    waiting_queue_event e;
    waiting_queue_capacity 1;
    server {
        listen 127.0.0.1:$TEST_NGINX_INNER_PORT;
        access_log off;
        location / {
            return 200 "inside $request_uri [$http_x_queue]\n";
        }
        location /done {
            add_header X-Waiting-Queue done;
            return 200 "inside, done\n";
        }
    }
');
    $block->set_value('config', $text->('config') . '
    location = /status {
        waiting_queue off;
        waiting_queue_status;
        access_log off;
    }
');
    $block->set_value('request', 'GET /status');
});

add_response_body_check(sub {
    my $block = shift;

    ($prefix) = $block->name =~ /TEST (\d+)/;
    $prefix = "t010-$prefix:";

    Test::More::subtest($block->name => sub {
        $sse = WaitingQueue::Sse->new(port => server_port());
        ready();
        eval $block->check . '; 1' or Test::More::fail("died: $@");
        $sse->close_all;
        is_deeply([ $sse->violations ], [], 'every stream was well-formed');
    });
});

plan tests => @bad + 3 * (@good - 1) + 1 + repeat_each() * (blocks() * 4);

worker_connections(2048);
redis('FLUSHALL');

# first: nobody else is to take nginx' port meanwhile
run_tests();

for my $case (@bad) {
    my ($name, $http, $message) = @$case;
    my ($ok, $output) = nginx_t("waiting_queue_redis redis://127.0.0.1; $http");
    my ($emerg) = $output =~ /\[emerg\] (.*?)(?: in \S+nginx\.conf:\d+)?$/ms;

    $message = qr/^\Q$message\E$/ if !ref $message;
    ok(!$ok && defined $emerg && $emerg =~ $message, "$name: $message")
        or diag($output);
}

for my $directive (@good) {
    for my $where ('%s', 'server { %s }', 'server { location / { %s } }') {
        next if $directive =~ /^log_format/ && $where ne '%s';

        my ($ok, $output)
            = nginx_t('waiting_queue_redis redis://127.0.0.1; '
                      . sprintf $where, "$directive;");
        ok($ok, sprintf "accepted: $where", "$directive;") or diag($output);
    }
}


sub free_port {
    my $socket = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 1)
        or die "no port: $!\n";
    return $socket->sockport;
}


sub unquote { return $_[0] =~ s/^"(.*)"$/$1/r }


sub line {
    my ($event) = @_;

    return WaitingQueue::Line->new(event => $event, prefix => $prefix,
                                   sse => $sse, path => '/gate/?user=%u');
}


# at(path, user, options): an answer to GET, without cookies

sub at {
    my ($path, $user, %options) = @_;
    return visitor(jar => 0)->get("$path?user=$user", %options);
}

__DATA__

=== TEST 1: off, unless it is on; from level to level
--- config
    location / {
        proxy_pass http://127.0.0.1:$TEST_NGINX_INNER_PORT;
    }
    location /gate/ {
        waiting_queue on;
        proxy_pass http://127.0.0.1:$TEST_NGINX_INNER_PORT;
        location /gate/open/ {
            waiting_queue off;
            proxy_pass http://127.0.0.1:$TEST_NGINX_INNER_PORT;
        }
        location /gate/inner/ {
            proxy_pass http://127.0.0.1:$TEST_NGINX_INNER_PORT;
        }
    }
--- http_config
    server {
        listen 127.0.0.2:$TEST_NGINX_SERVER_PORT;
        waiting_queue on;
        waiting_queue_code 429;
        location / {
            proxy_pass http://127.0.0.1:$TEST_NGINX_INNER_PORT;
        }
        location /own/ {
            waiting_queue_code 202;
            proxy_pass http://127.0.0.1:$TEST_NGINX_INNER_PORT;
        }
        location /off/ {
            waiting_queue off;
            proxy_pass http://127.0.0.1:$TEST_NGINX_INNER_PORT;
        }
    }
--- check
    is(at('/', 'a')->status, 200, 'no gate');
    is(sum('gatePassed'), 0, 'at all');
    is(at('/gate/', 'in')->status, 200, 'one is in');
    is(at('/gate/', 'w')->status, 503, 'a gate');
    is(at('/gate/inner/', 'w')->status, 503, 'inherited');
    is(at('/gate/open/', 'w')->status, 200, 'and not');
    is(at('/', 'w')->status, 200, 'nor beside it');

    my $other = sub {
        HTTP::Tiny->new->get('http://127.0.0.2:' . server_port()
                             . "$_[0]?user=w")->{status};
    };
    is($other->('/'), 429, 'a gate of a server');
    is($other->('/own/'), 202, 'with a code of its own');
    is($other->('/off/'), 200, 'that can be off');



=== TEST 2: the code is that of who waits
--- config
    waiting_queue on;
    location /gate/ {
        proxy_pass http://127.0.0.1:$TEST_NGINX_INNER_PORT;
    }
    location /200/ {
        waiting_queue_code 200;
        proxy_pass http://127.0.0.1:$TEST_NGINX_INNER_PORT;
    }
    location /202/ {
        waiting_queue_code 202;
        proxy_pass http://127.0.0.1:$TEST_NGINX_INNER_PORT;
    }
    location /429/ {
        waiting_queue_code 429;
        proxy_pass http://127.0.0.1:$TEST_NGINX_INNER_PORT;
    }
    location /599/ {
        waiting_queue_code 599;
        proxy_pass http://127.0.0.1:$TEST_NGINX_INNER_PORT;
    }
--- check
    my $line = line('e');

    is(at('/gate/', 'in')->status, 200, 'one is in');

    for my $code (200, 202, 429, 599) {
        my $a = at("/$code/", 'w');
        is($a->status, $code, "JSON with $code");
        is($a->json->{status}, 'waiting', 'is the state');
        is($a->header('Cache-Control'), 'no-store', 'not to be cached');
        is($a->header('Retry-After'), 2, 'when to come again');

        $a = at("/$code/", 'w', %html);
        is($a->status, $code, "the page with $code");
        like($a->body, qr/data-status="waiting"/, 'is the page');
    }

    # what is over is over, whatever the code of those who wait
    $line->set(closed => 1);
    is(at('/202/', 'x')->status, 410, 'closed');



=== TEST 3: a page of one's own
--- config
    waiting_queue on;
    waiting_queue_page $TEST_NGINX_FILES/good.html;
    location /gate/ {
        proxy_pass http://127.0.0.1:$TEST_NGINX_INNER_PORT;
    }
    location /plain/ {
        waiting_queue_page $TEST_NGINX_FILES/plain.html;
        proxy_pass http://127.0.0.1:$TEST_NGINX_INNER_PORT;
    }
--- check
    at('/gate/', 'in');
    at('/gate/', "w$_") for 1 .. 3;

    my $a = visitor(jar => 0)->ask('POST', '/gate/?user=w2', body => 'x',
        headers => { Accept => 'text/html', 'Accept-Language' => 'ko' });
    is($a->body, "waiting 2/3 1<1 e ko POST 2 []\n"
       . '{"status":"waiting","eventId":"e","userId":"w2","rank":1,'
       . '"waitingPosition":2,"aheadCount":1,"total":3,"etaSeconds":null,'
       . '"token":null,"expiresAt":null}' . "\n", 'all values');
    is($a->header('Content-Type'), 'text/html; charset=utf-8', 'the type');
    is($a->header('Content-Security-Policy'), undef,
       'what it may do is for its owner to say');
    is($a->status, 503, 'the code');

    $a = at('/plain/', 'w1', %html);
    is($a->body, "come back later, { {not}} a value }}\n", 'another');

    # read with the configuration: what becomes of the file later is not seen
    rename "$files/plain.html", "$files/away.html" or die "rename: $!\n";
    is(at('/plain/', 'w1', %html)->body, $a->body, 'still there');
    rename "$files/away.html", "$files/plain.html" or die "rename: $!\n";



=== TEST 4: bypass
--- config
    location /gate/ {
        waiting_queue on;
        waiting_queue_bypass $cookie_staff $http_x_monitor $arg_b;
        proxy_pass http://127.0.0.1:$TEST_NGINX_INNER_PORT;
    }
    location /gate/done {
        waiting_queue on;
        waiting_queue_bypass $arg_b;
        proxy_pass http://127.0.0.1:$TEST_NGINX_INNER_PORT/done;
    }
    location /always/ {
        waiting_queue on;
        waiting_queue_bypass 1;
        waiting_queue_event "a b$arg_none";
        proxy_pass http://127.0.0.1:$TEST_NGINX_INNER_PORT;
    }
--- check
    my $line = line('e');

    is(at('/gate/', 'in')->status, 200, 'one is in');
    is(at('/gate/', 'w')->status, 503, 'one waits');

    my $n = 0;
    for my $headers ({ Cookie => 'staff=1' }, { Cookie => 'staff=no' },
                     { 'X-Monitor' => 'x' }, { Cookie => 'staff=00' },
                     { Cookie => 'staff=0', 'X-Monitor' => '1' })
    {
        for my $accept ('text/html', 'text/event-stream', '*/*') {
            my $a = at('/gate/', 's', headers => { %$headers,
                                                   Accept => $accept });
            is($a->status, 200, join ' ', $accept, %$headers);
            is_deeply([ $a->cookies ], [], 'and leaves no trace');
            $n++;
        }
    }
    reaches('gateBypassed', $n);

    for my $headers ({ Cookie => 'staff=0' }, { Cookie => 'staff=' },
                     { 'X-Monitor' => '0' }, {})
    {
        is(at('/gate/', 'w', headers => $headers)->status, 503,
           'no bypass: ' . join ' ', %$headers);
    }
    is_deeply([ $line->inside, $line->waiting ], [ [ 'in' ], [ 'w' ] ],
              'who passes by has no slot and no place');
    is(sum('gateBypassed'), $n, 'nor is counted');
    is(sum('gatePassed'), 1, 'as let in');

    # it is no visit that could end, but the word stays inside
    my $a = visitor(jar => 0)->get('/gate/done?user=in&b=1');
    is($a->body, "inside, done\n", 'passed by');
    is($a->header('X-Waiting-Queue'), undef, 'the word is not seen');
    is_deeply($line->inside, [ 'in' ], 'and ends nothing');

    is(at('/always/', '')->status, 200, 'whatever the ids are');



=== TEST 5: a dry run lets everybody pass, and tells who would have waited
--- config
    location /gate/ {
        waiting_queue on;
        waiting_queue_dry_run on;
        proxy_set_header X-Queue "$waiting_queue_state";
        proxy_pass http://127.0.0.1:$TEST_NGINX_INNER_PORT;
    }
    location /ids/ {
        waiting_queue on;
        waiting_queue_dry_run on;
        waiting_queue_event $arg_event;
        proxy_pass http://127.0.0.1:$TEST_NGINX_INNER_PORT;
    }
--- check
    my $line = line('e');

    is(at('/gate/', 'in')->body, "inside /gate/?user=in [entered]\n", 'in');
    reaches('gateDryRun', 0, 'who passes is no news');

    my $n = 0;
    for my $accept ('text/html', 'application/json', 'text/event-stream') {
        my $a = at('/gate/', 'w', headers => { Accept => $accept });
        is($a->body, "inside /gate/?user=w [waiting]\n", $accept);
        reaches('gateDryRun', ++$n);
    }
    is(sum('gatePassed'), $n + 1, 'all passed');
    is(sum('gateKeptBack'), 0, 'nobody was kept back');
    is_deeply($line->waiting, [ 'w' ], 'it is in line, as it would be');
    my $log = 'of event "e" would have been kept back,';
    like(error_log(), qr/waiting_queue: user "w" $log waiting, dry run/,
         'the log says so');

    $line->set(closed => 1);
    is(at('/gate/', 'x')->status, 200, 'even if it is closed');
    like(error_log(), qr/waiting_queue: user "x" $log closed, dry run/,
         'which is told');

    # ids that are none
    is(at('/gate/', '')->status, 200, 'no user');
    is(at('/gate/', 'a%20b')->status, 200, 'a bad one');
    is(visitor(jar => 0)->get('/ids/?user=u&event=a%20b')->status, 200,
       'a bad event');
    like(error_log(), qr/there is no user id, dry run/, 'told');
    like(error_log(), qr/"a%20b" is no event id, dry run/, 'told too');



=== TEST 6: the variables
--- http_config
    log_format queue '$uri state=$waiting_queue_state '
                     'event=$waiting_queue_event user=$waiting_queue_user '
                     'position=$waiting_queue_position '
                     'total=$waiting_queue_total eta=$waiting_queue_eta '
                     'token=$waiting_queue_token wait=$waiting_queue_wait';
    map "" $where {
        volatile;
        default "$place,$waiting_queue_total,$waiting_queue_eta";
    }
    map "" $how {
        volatile;
        default "$waiting_queue_token,$waiting_queue_wait";
    }
    map $waiting_queue_position $place {
        volatile;
        default $waiting_queue_position;
    }
    map $waiting_queue_state $told {
        entered  "welcome";
        waiting  "later";
        default  "nobody";
    }
--- config
    location /gate/ {
        waiting_queue on;
        access_log logs/queue.log queue;
        set $who "$waiting_queue_event,$waiting_queue_user";
        proxy_set_header X-Queue "$waiting_queue_state,$who,$where,$how";
        add_header X-State "$waiting_queue_state $place" always;
        add_header X-Told $told always;
        proxy_pass http://127.0.0.1:$TEST_NGINX_INNER_PORT;
    }
    location /open/ {
        access_log logs/queue.log queue;
        set $who "$waiting_queue_event,$waiting_queue_user";
        proxy_set_header X-Queue "$waiting_queue_state,$who,$where,$how";
        proxy_pass http://127.0.0.1:$TEST_NGINX_INNER_PORT;
    }
--- check
    my $line = line('e');

    my $a = at('/gate/in', 'a');
    my $t = $line->token('a');
    is($a->body, "inside /gate/in?user=a [entered,e,a,,,,$t,0.000]\n",
       'to the backend');
    is($a->header('X-State'), 'entered ', 'in headers');
    is($a->header('X-Told'), 'welcome', 'by map');

    at('/gate/w', 'b');
    $a = at('/gate/w', 'c');
    is($a->header('X-State'), 'waiting 2', 'of who waits');
    is($a->header('X-Told'), 'later', 'by map');

    is(at('/open/', 'b')->body, "inside /open/?user=b [,e,b,,,,,]\n",
       'where there is no gate');

    await('the log', sub { 4 == (my @lines = log_lines('queue.log')) });
    is_deeply([ log_lines('queue.log') ], [
        "/gate/in state=entered event=e user=a position=- total=- eta=- "
            . "token=$t wait=0.000",
        '/gate/w state=waiting event=e user=b position=1 total=1 eta=- '
            . 'token=- wait=-',
        '/gate/w state=waiting event=e user=c position=2 total=2 eta=- '
            . 'token=- wait=-',
        '/open/ state=- event=e user=b position=- total=- eta=- token=- '
            . 'wait=-',
    ], 'in the log');

    # how long it took, and by memory of the node too
    my $since = $line->record('b')->{since};
    $line->release('a');
    await('b is in', sub { at('/gate/in', 'b')->status == 200 });

    for (1 .. 2) {
        my ($waited) = at('/gate/in', 'b')->body =~ /,(\d+\.\d{3})\]\n\z/;
        my $lease = $line->lease('b');
        is($waited, sprintf('%d.%03d', $lease->{waited} / 1000,
                            $lease->{waited} % 1000), 'how long it waited');
        cmp_ok($waited, '>', 0, 'which was a while');
    }

    # an id that is none is not in a log or a header
    $a = at('/gate/x', 'a%0d%0aX-Evil:1');
    is($a->status, 400, 'a bad id');
    is($a->header('X-Evil'), undef, 'is nowhere');
    await('the log', sub { grep { m{^/gate/x} } log_lines('queue.log') });
    like((grep { m{^/gate/x} } log_lines('queue.log'))[0], qr/ user=- /,
         'nor in the log');



=== TEST 7: where there are names, cookies do not count
--- config
    location /gate/ {
        waiting_queue on;
        waiting_queue_event anonymous;
        waiting_queue_user $cookie_none$arg_none;
        proxy_pass http://127.0.0.1:$TEST_NGINX_INNER_PORT;
    }
--- check
    # with waiting_queue_user an empty id is a 401, whatever the cookies are
    my $a = visitor(jar => 0)->get('/gate/', headers => {
        Cookie => 'wq_uid=' . 'a' x 32 });
    is($a->status, 401, 'no cookie makes up for a name');
    is($a->json->{error}, 'user_required', 'it says so');
    is_deeply([ $a->cookies ], [], 'nor is one issued');



=== TEST 8: a small zone forgets tokens, and nothing else
--- http_config
    waiting_queue_zone 512k;
--- config
    location /gate/ {
        waiting_queue on;
        waiting_queue_capacity 100000;
        proxy_pass http://127.0.0.1:$TEST_NGINX_INNER_PORT;
    }
--- check
    my $line = line('e');
    my $room = status()->{tokens}{room};
    my $users = $room + 100;

    is(status()->{tokens}{known}, 0, "room for $room");

    my $in = grep { $_->body =~ /^inside / }
             many(map { "GET /gate/?user=u$_ HTTP/1.1\r\nHost: localhost\r\n" }
                      1 .. $users);
    is($in, $users, 'all came in');

    my $tokens = status()->{tokens};
    cmp_ok($tokens->{known}, '<=', $room, 'not more are known than fit');
    cmp_ok($tokens->{known}, '>', $room / 2, 'but many are');
    is($tokens->{known} + $tokens->{evicted}, $in,
       'for each of the others one had to go');

    # who was forgotten passes all the same
    is(at('/gate/', 'u1')->status, 200, 'the first');
    is(at('/gate/', "u$users")->status, 200, 'the last');
    is(scalar(@{$line->inside}), $in, 'nobody has two slots');
    is_deeply([ $line->wrong ], [], 'all is well in Redis');
