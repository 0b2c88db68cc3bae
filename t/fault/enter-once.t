# Proves that whoever asks twice at the same moment, of two workers or of two
# nodes, has entered once: one slot, one token, one more in the counters; that
# of many who want one slot one gets it; and that what is given back is given
# back once.

use strict;
use warnings;

use JSON::PP ();
use List::Util qw(shuffle uniq);
use Test::More;
use WaitingQueue::Nodes;


my $users = 100;
my $rounds = 100;

my $nodes = WaitingQueue::Nodes->new(
    nodes => 2, workers => 2,
    http => 'waiting_queue_promote_interval 50ms; keepalive_requests 100000;',
    locations => { none => 'waiting_queue_capacity 0;',
                   one => 'waiting_queue_capacity 1;' });

# two to each worker of each node
my @connections = map {
    my $node = $_;
    map { my $pid = $_; map { $node->connect_to($pid) } 1, 2 } $node->pids;
} $nodes->nodes;

is(scalar(@connections), 8, 'two connections to each of four workers');


# at_once(method, path, ...): each on a connection of its own, all of them sent
# before any is answered; { status, json } each, in the order of the requests

sub at_once {
    my @requests = @_;

    my @on = shuffle @connections;
    my @sockets = splice @on, 0, @requests / 2;

    for my $socket (@sockets) {
        my ($method, $path) = splice @requests, 0, 2;
        syswrite $socket, "$method $path HTTP/1.1\r\nHost: localhost\r\n\r\n"
            or die "write: $!\n";
    }

    return map { _answer($_) } @sockets;
}


sub _answer {
    my $socket = shift;

    my $in = '';
    my $deadline = time + patience(10);
    my $select = IO::Select->new($socket);

    while (time < $deadline) {
        next if !$select->can_read(0.5);
        sysread $socket, $in, 65536, length $in or die "no answer: $in\n";

        my ($head, $body) = split /\r\n\r\n/, $in, 2;
        next if !defined $body;

        my ($status) = $head =~ m{^HTTP/1\.1 (\d+)};
        my ($length) = $head =~ /^Content-Length: (\d+)/mi;

        next if length $body < ($length || 0);
        return { status => $status,
                 json => $length ? JSON::PP::decode_json($body) : {} };
    }

    die "no end of an answer: $in\n";
}


# the same request of one user, eight times

sub eightfold {
    my ($method, $location, $event, $user) = @_;
    return at_once(map { ($method, "/api/$location/$event?user=$user") }
                       @connections);
}


sub all_that { return join ' ', uniq map { $_->{status} } @_ }

sub tokens { return uniq map { $_->{json}{token} // 'none' } @_ }


# who is ready, and has not been told

{
    my $line = $nodes->line('none', 'ready');
    my @wrong;

    for my $n (1 .. $users) {
        my @answers = eightfold('POST', 'none', 'ready', "u$n");
        push @wrong, "u$n: " . all_that(@answers)
            if grep { $_->{status} != 202
                      || $_->{json}{rank} != $n - 1 } @answers;
    }
    is_deeply(\@wrong, [], 'eight times at once: one place');
    is($line->stat('joined'), $users, 'each has joined once');

    $line->set(capacity => $users);
    wait_until { @{$line->inside} == $users } 10, 'all are let in';
    is($line->stat('entered'), 0, 'and nobody has entered');

    for my $n (shuffle 1 .. $users) {
        my $token = $line->token("u$n");
        my @answers = eightfold('POST', 'none', 'ready', "u$n");
        push @wrong, "u$n: " . all_that(@answers) . ', ' . join ' ',
                     tokens(@answers)
            if grep { $_->{status} != 200 || $_->{json}{status} ne 'entered'
                      || $_->{json}{token} ne $token } @answers;
    }
    is_deeply(\@wrong, [], 'ready, eight times at once: the same token');
    is($line->stat('entered'), $users, 'each has entered once');
    is($line->stat('promoted'), $users, 'and was let in once');
    is(scalar(@{$line->inside}), $users, 'by one slot');
    is($line->slots, 0, 'and there is none more');
    is_deeply([ $line->wrong ], [], 'all is well in Redis');
}


# who is nobody, with one slot that is free

{
    my $line = $nodes->line('one', 'nobody');
    my (@wrong, %seen);

    for my $n (1 .. $rounds) {
        my @answers = eightfold('POST', 'one', 'nobody', 'u');
        my ($token, @more) = tokens(@answers);

        push @wrong, "$n: " . all_that(@answers) if all_that(@answers) ne '200';
        push @wrong, "$n: @more besides $token" if @more;
        push @wrong, "$n: the token of another visit" if $seen{$token}++;
        push @wrong, "$n: it is not that of Redis"
            if $token ne ($line->token('u') // '');
        push @wrong, "$n: entered " . $line->stat('entered')
            if $line->stat('entered') != $n;

        my @gone = map { $_->{status} } eightfold('DELETE', 'one', 'nobody',
                                                  'u');
        push @wrong, "$n: gone by @gone"
            if join(' ', sort @gone) ne '204' . ' 404' x 7;
    }

    is_deeply(\@wrong, [], 'nobody, eight times at once: in once, out once');
    is($line->stat($_), $rounds, "$_ as often as there were visits")
        for qw(joined direct entered left);
    is($line->slots, 1, 'the slot is free');
    is_deeply([ $line->wrong ], [], 'all is well in Redis');
}


# eight who want one slot

{
    my $line = $nodes->line('one', 'rivals');
    my @wrong;

    for my $n (1 .. $rounds) {
        my @answers = at_once(map { ('POST', "/api/one/rivals?user=r$_") }
                                  1 .. 8);
        my @ranks = sort map { $_->{json}{rank} }
                         grep { $_->{status} == 202 } @answers;

        push @wrong, "$n: " . join ' ', map { $_->{status} } @answers
            if 1 != grep { $_->{status} == 200 } @answers;
        push @wrong, "$n: @ranks" if "@ranks" ne '0 1 2 3 4 5 6';
        push @wrong, "$n: $_" for $line->wrong;

        # all go; whoever was let in by that, too
        @answers = at_once(map { ('DELETE', "/api/one/rivals?user=r$_") }
                               1 .. 8);
        push @wrong, "$n: gone by " . all_that(@answers)
            if all_that(@answers) ne '204';
    }

    is_deeply(\@wrong, [], 'one slot, eight at once: one is in');
    is($line->stat('joined'), 8 * $rounds, 'all have joined');
    is($line->stat('direct'), $rounds, 'one of each eight went straight in');
    is($line->stat('entered'), $rounds, 'and entered');
    is($line->stat('left'), 8 * $rounds, 'all have left');
    is_deeply([ $line->inside, $line->waiting, $line->slots ], [ [], [], 1 ],
              'and nobody is there');
    is_deeply([ $line->wrong ], [], 'all is well in Redis');
}


# one user comes, asks and goes in the same moment

{
    my $line = $nodes->line('one', 'undecided');
    my ($came, $went, @wrong) = (0, 0);

    for my $n (1 .. $rounds) {
        my @answers = at_once(
            map { ($_, '/api/one/undecided?user=u') }
                shuffle qw(POST POST POST GET GET DELETE DELETE DELETE));

        $went += grep { $_->{status} == 204 } @answers;
        push @wrong, "$n: " . all_that(@answers)
            if grep { $_->{status} !~ /^20[04]$/ && $_->{status} != 404 }
                    @answers;
        push @wrong, "$n: $_" for $line->wrong;
    }

    $came = $line->stat('joined');
    is_deeply(\@wrong, [], 'undecided: each gets an answer');
    is($line->stat('left'), $went, 'as often gone as was said');
    is($came - $went, scalar @{$line->inside}, 'and come as often, or is in');
    is($line->stat('entered'), $came, 'each time that it came it entered');
    cmp_ok($went, '>=', $rounds / 4, "gone $went times");
}


$nodes->finish;
