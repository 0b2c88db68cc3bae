# Proves that the harness sees what it must see: every kind of problem that
# finish() looks for is brought about here once, and must be found.  A fault
# test whose checks cannot fail proves nothing.

use strict;
use warnings;

use Test::More;
use WaitingQueue::Fault;


my $redis = start_redis();
my $http = 'waiting_queue_redis ' . $redis->url . ' timeout=300ms;';


# problems_of { ... } nginx options: what is found after the block has done its
# deed; those of a crash are then forgiven

sub problems_of(&@) {
    my ($deed, @options) = @_;

    my $nginx = start_nginx(http => $http, @options);

    $deed->($nginx);
    $nginx->stop;

    my @problems = $nginx->problems;

    $nginx->forget;

    return @problems;
}


sub append {
    my ($nginx, $line) = @_;

    open my $log, '>>', $nginx->{log} or die "$nginx->{log}: $!\n";
    print $log "2030/01/01 00:00:00 $line\n";
    close $log;
}


# a worker that is killed, and the one that comes in its place

sub kill_worker {
    my ($nginx, $signal) = @_;

    $nginx->wait_ready;

    my ($victim) = $nginx->workers;
    kill $signal => $victim;

    wait_until { !alive($victim) && $nginx->workers == 2 } 5,
               "after $signal another worker is there";
}


is_deeply([problems_of { $_[0]->wait_ready }], [],
          'an nginx that was left in peace has no problems');


# crashes

my @problems = problems_of { kill_worker($_[0], 'SEGV') };

if (sanitized()) {
    ok(scalar(grep { /^sanitizer: .*AddressSanitizer/s } @problems),
       'SIGSEGV: the report of the sanitizer is found');
    ok(scalar(grep { /exited with code 1/ } @problems),
       'SIGSEGV: the exit code of the sanitizer is found');

} else {
    ok(scalar(grep { /exited on signal 11/ } @problems),
       'SIGSEGV of a worker is found');
}

@problems = problems_of { kill_worker($_[0], 'KILL') };
is(scalar(grep { /exited on signal 9/ } @problems), 1,
   'SIGKILL of a worker is found');

@problems = problems_of {
    my $nginx = shift;
    $nginx->wait_ready;
    # new workers that cannot start, each with exit(2)
    $nginx->configure(main => 'working_directory /nonexistent;');
    $nginx->signal('HUP');
    wait_until { $nginx->log_lines(0, qr/exited with/) } 5, 'a worker left';
};
ok(scalar(grep { /exited with fatal code 2/ } @problems),
   'a worker that exits with 2 is found');
ok(scalar(grep { /\[alert\].*chdir/ } @problems),
   'an alert of nginx itself is found');


# lines, one by one: none is found because of another

for my $line ('[alert] 1#1: open socket #3 left in connection 4',
              '[emerg] 1#1: bind() to 127.0.0.1:1 failed',
              '[notice] 1#1: worker process 2 exited with code 1',
              '[notice] 1#1: worker process 2 exited with code 10',
              '[notice] 1#1: worker process 2 exited on signal 6',
              '==12==ERROR: AddressSanitizer: heap-use-after-free on 0x1',
              'src/x.c:1:2: runtime error: signed integer overflow')
{
    @problems = problems_of { append($_[0], $line) } workers => 1;
    is(scalar(@problems), 1, "found once: $line");
}

for my $line ('[notice] 1#1: worker process 2 exited with code 0',
              '[error] 1#1: waiting_queue: redis commands link is down',
              '[error] 1#1: waiting_queue: redis said " [alert] " of itself')
{
    is_deeply([problems_of { append($_[0], $line) } workers => 1], [],
              "no problem: $line");
}

@problems = problems_of {
    my $nginx = shift;
    append($nginx, "[alert] 1#1: $_") for qw(provoked unasked);
    $nginx->forgive(qr/provoked/);
} workers => 1;
is(scalar(grep { /unasked/ } @problems), 1, 'what is not forgiven is found');
is(scalar(@problems), 1, 'what is forgiven is not');


# a report without a word in the log

@problems = problems_of {
    spew("$_[0]{reports}/report.1", "==1==ERROR: AddressSanitizer: fake\n");
} workers => 1;
is(scalar(grep { /^sanitizer: .*fake/ } @problems), 1,
   'a report of a sanitizer is found');

if (sanitized()) {
    @problems = problems_of {
        my $nginx = shift;
        my ($worker) = $nginx->workers;
        kill FPE => $worker;
        wait_until { glob "$nginx->{reports}/*" } 5,
                   'a worker can write a report where it is looked for';
    } workers => 1;
    ok(scalar(grep { /^sanitizer/ } @problems), 'and it is found');
}


# the end

@problems = problems_of {
    my $nginx = shift;
    $nginx->wait_ready;
    $nginx->{timeout} = 0.5;
    freeze($nginx->workers);
} workers => 1;
ok(scalar(grep { /had to be killed/ } @problems),
   'an nginx that does not quit is found');

@problems = problems_of {
    my $nginx = shift;
    kill KILL => $nginx->pid;
    $nginx->wait_gone(patience(0.5));
    # its workers do not notice
    kill TERM => $_ for $nginx->workers, @{ $nginx->{known} };
} workers => 1;
ok(scalar(grep { /the master ended with status 9/ } @problems),
   'the exit status of the master is seen');

# a deadline that passes is a failure, of which the test is told

my $passed = do {
    my $builder = Test::More->builder;
    my $todo = 'the harness must see that this does not happen';
    local our $TODO = $todo;
    wait_until { 0 } 0.1, 'never';
};
ok(!$passed, 'wait_until() says when the time was up');

finish();
