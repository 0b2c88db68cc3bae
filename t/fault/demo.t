# Proves that the demo of `make run` does what it shows: a taken port is said,
# a visitor is let in, buys a seat and is out again, the next in line gets the
# place of who leaves, the operator sees it; and that nothing is left of it,
# whichever way it is ended.

use strict;
use warnings;

use Cwd ();
use File::Temp ();
use IO::Socket::INET;
use JSON::PP ();
use POSIX ();
use Test::More;
use WaitingQueue::Fault;

plan skip_all => 'the demo runs with the installed nginx'
    if ($ENV{WQ_TEST_FLAVOUR} || 'plain') ne 'plain';

my $owner = $$;
my $root = Cwd::getcwd();
my $tmp = File::Temp::tempdir('wq-demo.XXXXXX', TMPDIR => 1, CLEANUP => 1);
my ($demo, $url);

END {
    local $?;

    if ($demo && $$ == $owner) {
        kill TERM => $demo;
        waitpid $demo, 0;
    }
}


# setsid: a group of its own, as a terminal makes one

sub start_demo {
    my $port = shift;

    my $output = "$tmp/output";
    unlink $output;

    $demo = WaitingQueue::Fault::_spawn($output, { TMPDIR => $tmp },
                                        '/usr/bin/setsid', 'util/run.sh',
                                        $port);

    wait_until { slurp($output) =~ /^Ctrl-C stops everything/m } 40,
               'the demo is there'
        or die slurp($output);

    ($url) = slurp($output) =~ m{(http://127\.0\.0\.1:\d+)/$}m;

    return slurp($output);
}


# all processes of the demo: nginx and Redis are children of the script

sub family {
    my @all = ($demo);

    for (my $i = 0; $i < @all; $i++) {
        push @all, children($all[$i]);
    }

    return @all;
}


sub end_demo {
    my ($signal, $whom, $what) = @_;

    my $run = "$root/build/run.$demo";
    my @family = family();

    ok(@family >= 5 && -d $run,
       'there are a script, Redis, nginx, its workers, and a directory');

    kill $signal => $whom;

    my $status = WaitingQueue::Fault::_reap($demo, patience(20));

    is($status, 0, "$what: it ends in order");
    undef $demo if defined $status;

    is(scalar(grep { alive($_) } @family), 0, "$what: no process is left");
    ok(!-e $run, "$what: nor its directory");
    is_deeply([glob "$tmp/wq.*"], [], "$what: nor that of its sockets");
}


# ask(path, curl's options): { status, head, body }

sub ask {
    my ($path, @options) = @_;

    open my $curl, '-|', 'curl', '-si', '-m', patience(10), @options,
         $url . $path
        or die "curl: $!\n";
    local $/;
    my $answer = <$curl>;
    close $curl;

    my ($head, $body) = split /\r\n\r\n/, defined $answer ? $answer : '', 2;
    my ($status) = defined $head ? $head =~ m{^HTTP/1\.1 (\d+)} : ();

    return { status => $status || 0, head => $head, body => $body };
}


sub buy {
    my ($visitor, $seat, @options) = @_;
    return ask("$visitor/seats/$seat/", '-X', 'MKCOL', @options);
}


sub figures {
    my $status = JSON::PP::decode_json(ask('/status')->{body});
    my ($event) = grep { $_->{event} eq 'concert' } @{ $status->{events} };
    my %figures = (active => 0, direct => 0, promoted => 0,
                   $event ? %$event : ());

    for my $row (@{ $status->{processes} }) {
        $figures{$_} += $row->{$_} for qw(visitsSold visitsDone);
    }

    return \%figures;
}


# the port is taken

my $taken = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 1)
            || die "listen: $!\n";
my $port = $taken->sockport;
my $said = start_demo($port);
my ($other) = $url =~ /:(\d+)$/;

isnt($other, $port, 'a port that is taken is not taken');
like($said, qr/^Port $port is taken, using $other\.$/m, '... which is said');
close $taken;


# the operator's page

like(ask('/')->{body}, qr/visitors\.js/, 'the page of the operator is there');
is(ask('/visitors.js')->{status}, 200, '... and its visitors');


# a person gets in at once while nobody waits, and has a minute; nine others
# take all the places that are left

my @person = ('-b', "$tmp/cookies", '-c', "$tmp/cookies",
              '-H', 'Accept: text/html');
my @sold = @{ JSON::PP::decode_json(ask('/sim/s1/seats/')->{body}) };

is(scalar @sold, 30, 'ten seats are left');
like(ask('/shop/', @person)->{body}, qr/The Patient Few/,
     'who comes first is let in');
is(ask('/shop/seats.html', @person)->{status}, 200, '... and stays in');
is(ask("/sim/s$_/")->{status}, 200, "visitor $_ is let in") for 1 .. 9;

my $answer = ask('/sim/next/');
is($answer->{status}, 202, 'the next one waits');
is(JSON::PP::decode_json($answer->{body})->{waitingPosition}, 1,
   '... in the first place');

$answer = ask('/shop/', '-H', 'Accept: text/html');
is($answer->{status}, 503, 'another person gets the waiting page');
like($answer->{head}, qr{^Content-Type: text/html}m, '... in HTML');


# a seat is sold once, and takes its place along

is(buy('/sim/next', 'A2')->{status}, 202, 'who waits cannot buy');
is(buy('/shop', 'A1', @person)->{status}, 409,
   'a seat that is sold is not sold again');
$answer = buy('/shop', 'A2', @person);
is($answer->{status}, 201, 'a seat that is free is');
unlike($answer->{head}, qr/^X-Waiting-Queue:/mi,
       "the shop's word is not for the visitor");
is(buy('/sim/s1', 'A2')->{status}, 409, 'nobody else gets it');

wait_until { figures()->{visitsSold} == 1 } 20, 'the sale is counted';
wait_until { figures()->{active} == 9 } 20, 'nine are in';
is(ask('/sim/next/')->{status}, 202, 'nobody is let in for who has bought');


# who leaves makes room

is(ask('/sim/s1/bye.html')->{status}, 200, 'one leaves');
is(ask('/shop/shop.css')->{status}, 200, '... the style needs no place');
wait_until { ask('/sim/next/')->{status} == 200 } 20, 'the next one is let in';
wait_until {
    my $f = figures();
    $f->{active} == 9 && $f->{direct} + $f->{promoted} == 11
        && $f->{freeSlots} == 0 && $f->{visitsDone} == 1;
} 20, 'the operator sees it';

is(ask('/shop/', @person)->{status}, 503, 'who has bought is at the end again');

my @complaints = grep { !/mkdir\(\) .* failed \(17: File exists\)/ }
                 split /^/, slurp("$root/build/run.$demo/error.log");
is("@complaints", '', 'nginx complains of nothing');

end_demo(INT => -$demo, 'Ctrl-C');


# the other ends

start_demo(free_port());
end_demo(TERM => $demo, 'TERM');

start_demo(free_port());
end_demo(HUP => $demo, 'the terminal closes');

finish();
