# Proves that nothing a Redis, or whatever listens on its port, may send ends or
# blocks a worker: what is no answer is a named trouble, a wrong answer is
# counted, and the link is well again as soon as the other side is.

use strict;
use warnings;

use Test::More;
use WaitingQueue::Fault;


# answers of a kind that no command of ours has

my %types = (
    integer => ":1\r\n",
    nil => "\$-1\r\n",
    no_array => "*-1\r\n",
    empty => "*0\r\n",
    status => "+OK\r\n",
    text => "\$3\r\nabc\r\n",
    nested => "*2\r\n*1\r\n*1\r\n:1\r\n*2\r\n\$-1\r\n:-1\r\n",
    errors => "*2\r\n-ERR one\r\n-ERR two\r\n",
);

sub messages {
    return "*1\r\n*2\r\n\$1\r\ns\r\n*" . scalar(@_) . "\r\n" . join '', @_;
}

sub bulk { return sprintf "\$%d\r\n%s\r\n", length $_[0], $_[0] }

# of each stream once as given, then as a Redis that is in order has it
sub first_read {
    my $answer = shift;
    my %said;
    return sub {
        my $words = shift;
        return $answer if !$said{ $words->[-2] }++;
        return $words->[-1] eq '>' ? undef : messages();
    };
}

my $escape = "\e[31mred\e[0m\a\b\0\x7f";
my $forged = "a\n2030/01/01 00:00:00 [alert] 1#1: forged";

my $protocol = qr/commands link is down: protocol_error/;
my $timeout = qr/commands link is down: command_timeout/;
my $bad = qr/redis gave "heartbeat" a bad answer/;
my $error = qr/redis answered with an error/;
my $other = qr/commands link is down: other/;

# the answers to one script after the other are one stream of bytes
my $halved;

# [name, what is noticed, mode]; noticed is one of: a line in the log, which is
# not there before because the link was well; a counter that rises, where such a
# line comes but once in 10 s.  The versions of hiredis draw the line between
# bad protocol and bad answer in different places.

my @modes = (
    # bytes that nobody has asked for, while nothing is pending
    (map { my ($name, $bytes) = @$_;
           ["unasked $name", $protocol, { idle => sub { $_[0]->($bytes) } }] }
         ['status', "+OK\r\n"], ['integer', ":1\r\n"], ['array', "*0\r\n"],
         ['push', ">2\r\n+a\r\n+b\r\n"], ['nil', "\$-1\r\n"],
         ['zeros', "\0\0\0\0"], ['half an array', "*2\r\n:1"]),
    ['unasked error', qr/commands link is down: closed_by_redis.*unasked/,
     { idle => sub { $_[0]->("-ERR unasked\r\n") } }],
    ['unasked error and more', qr/commands link is down: closed_by_redis.*one/,
     { idle => sub { $_[0]->("-ERR one\r\n+OK\r\n:1\r\n") } }],
    ['unasked minus', $protocol, { idle => sub { $_[0]->('-') } }],

    # more answers than questions, in one packet
    ['two answers', $protocol,
     { EVALSHA => sub { WaitingQueue::Fault::Fake::good($_[0]) . "+OK\r\n" } }],
    ['two answers and a half', $protocol,
     { EVALSHA => sub { WaitingQueue::Fault::Fake::good($_[0]) . "*2\r\n:" } }],
    ['two answers in the handshake', $protocol,
     { SETNAME => "+OK\r\n+OK\r\n" }],
    ['an answer before the question', $protocol,
     { accept => sub { $_[0]->("+OK\r\n") } }],

    # no protocol at all
    ['garbage', $protocol, { EVALSHA => "garbage\r\n" }],
    ['HTTP', $protocol,
     { SETNAME => "HTTP/1.1 400 Bad Request\r\nServer: x\r\n\r\n<html>" }],
    ['TLS alert', $protocol, { SETNAME => "\x15\x03\x01\x00\x02\x02\x46" }],
    ['zeros', $protocol, { EVALSHA => "\0" x 100 }],
    ['not a number', $protocol, { EVALSHA => "*x\r\n" }],
    ['nested 100 deep', [$protocol, 'badReplies'],
     { EVALSHA => "*1\r\n" x 100 . ":1\r\n" }],
    (map { my $elements = $_;
           ["$elements elements", $protocol, { EVALSHA => "*$elements\r\n" }] }
         4294967296, 2147483648, 2147483647, 1000000),
    ['many arrays of many elements', $protocol,
     { EVALSHA => "*90000\r\n" . "*90000\r\n" x 5 }],
    ['less than none', $protocol, { EVALSHA => "*-2\r\n" }],
    ['a length below none', $protocol, { EVALSHA => "\$-2\r\nab\r\n" }],

    # what will never be whole
    ['2^62 bytes', $timeout, { EVALSHA => "\$4611686018427387904\r\nabc" }],
    ['2^63 - 1 bytes', [$timeout, $protocol],
     { EVALSHA => "\$9223372036854775807\r\nabc" }],
    ['half an answer', $timeout, { EVALSHA => "*2\r\n:17" }],
    ['half a SHA-1', $timeout,
     { LOAD => sub { $halved++ ? undef : "\$40\r\nabc" } }],
    ['half a handshake', $timeout, { SETNAME => '+O' }],
    ['no handshake', $timeout, { AUTH => undef }],
    (map { my $link = $_;
           (["no PING, $link", qr/$link link is down: command_timeout/,
             { PING => undef }],
            ["half of a read, $link", qr/$link link is down: command_timeout/,
             { XGROUP => '+O' }]) }
         qw(reader router)),

    # another script than ours
    ['another SHA-1', $protocol, { LOAD => bulk('0' x 40) }],
    ['a SHA-1 too long', $protocol, { LOAD => bulk('0' x 41) }],

    # errors in the handshake
    (map { my $step = $_;
           my $link = $step eq 'PING' ? 'reader' : 'commands';
           ["an error to $step", qr/$link link is down: other.*nonsense/,
            { $step => "-ERR nonsense\r\n" }] }
         qw(SELECT SETNAME LOAD PING)),
    ['an error to AUTH that quotes it', $other,
     { AUTH => "-ERR unknown command 'AUTH', with args: 'secret'\r\n" }],
    ['too many clients', qr/commands link is down: max_clients/,
     { accept => sub { $_[0]->("-ERR max number of clients reached\r\n");
                       $_[0]->() } }],
    ['read only', qr/commands link is down: read_only/,
     { EVALSHA => "-READONLY no\r\n" }],
    ['loading for ever', qr/commands link waits: loading/,
     { LOAD => "-LOADING wait\r\n" }],
    ['masterdown', qr/commands link waits: master_down/,
     { EVALSHA => "-MASTERDOWN wait\r\n" }],

    # errors to a script
    ['no script, ever', 'failed',
     { EVALSHA => "-NOSCRIPT no\r\n", EVAL => "-NOSCRIPT no\r\n" }],
    ['an empty error', 'failed', { EVALSHA => "-\r\n" }],
    ['a long error', 'failed', { EVALSHA => '-ERR ' . 'x' x 60000 . "\r\n" }],
    ['an error in colour', 'failed', { EVALSHA => "-ERR $escape\r\n" }],
    ['an error of two lines', ['failed', $protocol],
     { EVALSHA => "-ERR $forged\r\n" }],
    ['a long error in the handshake', $other,
     { SETNAME => '-ERR ' . 'y' x 60000 . "\r\n" }],
    ['colour in the handshake', $other,
     { SETNAME => "-ERR $escape\r\n" }],
    ['two lines in the handshake', [$other, $protocol],
     { SETNAME => "-ERR $forged\r\n" }],
    ['a long error unasked', qr/commands link is down: closed_by_redis/,
     { idle => sub { $_[0]->('-ERR ' . 'z' x 60000 . "\r\n") } }],

    # wrong types
    (map { ["LOAD answered with $_", $protocol, { LOAD => $types{$_} }] }
         sort keys %types),
    (map { my $script = $_;
           map { ["$script answered with $_", 'badReplies',
                  { $script => $types{$_} }] }
               sort keys %types }
         qw(heartbeat fill_promotion_tasks)),
    (map { my ($name, $answer) = @$_;
           ["heartbeat answered with $name", 'badReplies',
            { heartbeat => $answer }] }
         ['a negative time', "*3\r\n:-5\r\n:1\r\n:0\r\n"],
         ['two fields', "*2\r\n:1\r\n:1\r\n"],
         ['words', "*3\r\n\$3\r\nabc\r\n\$0\r\n\r\n:0\r\n"],
         ['a number too large',
          "*3\r\n\$20\r\n99999999999999999999\r\n:1\r\n:0\r\n"]),
    (map { my ($name, $answer) = @$_;
           ["fill_promotion_tasks answered with $name", 'badReplies',
            { fill_promotion_tasks => $answer }] }
         ['a negative number', "*3\r\n:1\r\n:-1\r\n*0\r\n"],
         ['two fields', "*2\r\n:1\r\n:0\r\n"],
         ['no list', "*3\r\n:1\r\n:0\r\n:0\r\n"]),
);

# those after which nothing is wrong; heartbeats and reads go on

my @harmless = (
    (map { ["handshake answered with $_",
            { AUTH => $types{$_}, SELECT => $types{$_}, SETNAME => $types{$_},
              PING => $types{$_} }] }
         sort keys %types),
    (map { ["XGROUP answered with $_", { XGROUP => $types{$_} }] }
         sort keys %types),
    (map { ["a read answered with $_",
            { XREADGROUP => first_read($types{$_}) }] }
         sort keys %types),
    ['messages without fields',
     { XREADGROUP => first_read(messages("*2\r\n\$3\r\n1-1\r\n*-1\r\n",
                                         "*1\r\n\$3\r\n1-2\r\n",
                                         "*0\r\n", ":3\r\n", "\$-1\r\n",
                                         "*2\r\n:5\r\n*0\r\n")) }],
    ['a message with a long id',
     { XREADGROUP => first_read(messages("*2\r\n" . bulk('9' x 60000)
                                         . "*0\r\n")) }],
    ['a message with an id in colour',
     { XREADGROUP => first_read(messages("*2\r\n" . bulk($escape) . "*0\r\n",
                                         "*2\r\n" . bulk($forged)
                                         . "*0\r\n")) }],
    ['more messages than asked for',
     { XREADGROUP => first_read(messages(map { "*2\r\n" . bulk("$_-1")
                                               . "*0\r\n" } 1 .. 1000)) }],
    (map { ["XAUTOCLAIM answered with $_", { XAUTOCLAIM => $types{$_} }] }
         sort keys %types),
    ['an error to XAUTOCLAIM', { XAUTOCLAIM => "-ERR nonsense\r\n" }],
    ['an error to XGROUP', { XGROUP => "-ERR nonsense\r\n" }],
    ['an error to a read', { XREADGROUP => "-ERR nonsense\r\n" }],
    # all scripts are loaded at once, and each has the same time
    ['a byte at a time', { drip => 0.00005 }],
);

my $serial = 0;
my %table = map { ++$serial . " $_->[0]" => $_->[-1] } @modes, @harmless;

$table{'never waits'} = { XREADGROUP => "*-1\r\n" };

my $fake = start_fake(modes => \%table);
my $nginx = start_nginx(
    workers => 1,
    http => 'waiting_queue_redis redis://:secret@127.0.0.1:' . $fake->port
            . '/2 timeout=500ms;');

$nginx->wait_ready('a fake Redis in good order is taken for one');

my ($worker) = $nginx->workers;
my $fds = fds($worker);
$serial = 0;


# well(what): the link is ready and takes heartbeats

sub well {
    my ($what, $mode) = @_;

    $fake->mode($mode);

    my $heartbeats = $nginx->sum('heartbeats');

    local $Test::Builder::Level = $Test::Builder::Level + 1;
    return wait_until { $nginx->has_state('ready')
                        && $nginx->sum('heartbeats') > $heartbeats } 8, $what;
}


for my $case (@modes) {
    my ($name, $noticed, undef) = @$case;

    my @noticed = ref $noticed eq 'ARRAY' ? @$noticed : $noticed;
    my $mark = $nginx->mark;
    my %before = map { $_ => $nginx->sum($_, 'commands') }
                 grep { !ref } @noticed;

    $fake->mode(++$serial . " $name");

    wait_until {
        grep { ref $_ ? scalar $nginx->log_lines($mark, $_)
                      : $nginx->sum($_, 'commands') > $before{$_} } @noticed;
    } 8, "$name: noticed";

    $nginx->unharmed("after $name");
    $fake->mode('good');
    $nginx->wait_ready("$name: well again");
}

for my $case (@harmless) {
    my ($name) = @$case;

    well("$name: heartbeats go on", ++$serial . " $name");
    $nginx->unharmed("after $name");
}

# a read that should wait for 5 s and is answered at once must not become a loop

my %reads = map { $_ => $nginx->sum('sent', $_) } qw(reader router);
well('reads that do not wait: heartbeats go on', 'never waits');
cmp_ok($nginx->sum('sent', $_) - $reads{$_}, '<', 50,
       "reads that do not wait: the $_ does not send at full speed")
    for sort keys %reads;

my @lines = $nginx->log_lines(0);
is(scalar(grep { $_ !~ m{^\d{4}/\d\d/\d\d } } @lines), 0,
   'every line of the log begins as a line does');
is(scalar(grep { /^2030/ } @lines), 0, 'no line of the log is forged');
is(scalar(grep { /[\x00-\x08\x0b-\x1f\x7f]/ } @lines), 0,
   'no control characters in the log');
is(scalar(grep { /secret/ } @lines), 0, 'no password in the log');
ok(!(grep { length > 2100 } @lines), 'no line of the log is endless');
ok(scalar(grep { $_ =~ $error } @lines), 'an error is logged');

$fake->stop;
my $redis = start_redis(port => $fake->port,
                        options => [requirepass => 'secret'],
                        password => 'secret');
$nginx->wait_ready('well with a real Redis on the same port');
is_deeply([$nginx->workers], [$worker], 'by the worker of the beginning');
is(fds($worker), $fds, 'which has as many descriptors as then');


# an answer without end, where the timeout is not there to cut it short

my $flood = start_fake(modes => {
    endless => {
        EVALSHA => sub {
            my ($words, $say) = @_;
            $say->("\$1073741824\r\n");
            $say->('x' x 1048576) for 1 .. 100;
            return;
        },
    },
    numbers => {
        EVALSHA => sub {
            my ($words, $say) = @_;
            $say->("*1000000000\r\n");
            $say->(":1\r\n" x 262144) for 1 .. 100;
            return;
        },
    },
    deep => { EVALSHA => "*1\r\n" x 1000000 . ":1\r\n" },
    wrong => { EVALSHA => $types{integer} },
});
my $patient = start_nginx(
    workers => 1,
    http => 'waiting_queue_redis redis://127.0.0.1:' . $flood->port
            . ' timeout=20s;');

$patient->wait_ready('endless: well before');
($worker) = $patient->workers;
my $mark = $patient->mark;
$flood->mode('endless');
wait_until { $patient->log_lines($mark, qr/protocol_error.*answer too large/) }
           15, 'endless: given up by its size';
$patient->unharmed('after an answer without end');
$flood->mode('good');
$patient->wait_ready('endless: well again');

for my $mode (qw(numbers deep)) {
    $mark = $patient->mark;
    $flood->mode($mode);
    wait_until { $patient->log_lines($mark, $protocol) } 15,
               "endless $mode: given up";
    $patient->unharmed("after endless $mode");
    $flood->mode('good');
    $patient->wait_ready("endless $mode: well again");
}


$flood->mode('wrong');
wait_until { $patient->log_lines($mark, $bad) } 5,
           'a bad answer is logged, with the name of the script';

my ($peak) = slurp("/proc/$worker/status") =~ /^VmHWM:\s+(\d+)/m;
SKIP: {
    skip 'a sanitizer keeps what is freed', 1 if sanitized();
    ok($peak < 250 * 1024, "endless: $peak kB at most in the worker");
}

finish();
