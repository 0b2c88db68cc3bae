# The tests of the stream are as good as the client they are made with: it has to
# understand what is right, however the bytes are cut, and to notice whatever is
# wrong.  Both are shown here without nginx.

use strict;
use warnings;

use IO::Socket::INET;
use Test::More;
use WaitingQueue::Sse;

my $token = '0123456789abcdef' x 2 . '01234567';

my $head = "HTTP/1.1 200 OK\r\nServer: nginx\r\n"
           . "Content-Type: text/event-stream\r\n"
           . "Transfer-Encoding: chunked\r\nConnection: keep-alive\r\n"
           . "Cache-Control: no-store\r\nX-Accel-Buffering: no\r\n\r\n";

my $whole = '{"status":"waiting","eventId":"e1","userId":"u1","rank":16,'
            . '"waitingPosition":17,"aheadCount":16,"total":420,'
            . '"etaSeconds":null,"token":null,"expiresAt":null}';
my $brief = '{"status":"waiting","rank":3,"waitingPosition":4,"aheadCount":3,'
            . '"total":400,"etaSeconds":10}';
my $ready = '{"status":"ready","eventId":"e1","userId":"u1","rank":null,'
            . '"waitingPosition":null,"aheadCount":null,"total":400,'
            . qq("etaSeconds":null,"token":"$token","expiresAt":1800000000000});
my $gone = '{"status":"none","eventId":"e1","userId":"u1","rank":null,'
           . '"waitingPosition":null,"aheadCount":null,"total":400,'
           . '"etaSeconds":null,"token":null,"expiresAt":null}';

my @texts = (
    "retry: 4321\nevent: position\ndata: $whole\n\n",
    ": \n\n",
    "event: position\ndata: $brief\n\n",
    "event: promoted\ndata: $ready\n\n",
    "id: over\nevent: expired\ndata: $gone\n\n",
);


sub chunk { return map { sprintf "%x\r\n%s\r\n", length $_, $_ } @_ }


# parsed(pieces): a parser that was fed with them, and what it complained of

sub parsed {
    my ($options, $how, @pieces) = @_;

    my @complaints;
    my $parser = WaitingQueue::Sse::Parser->new(
        %$options, complain => sub { push @complaints, $_[0] });

    $parser->feed($_, 1) for @pieces;
    $parser->finish($how) if !$parser->{done};

    return ($parser, @complaints);
}


# what a right stream must have become

sub told {
    my $parser = shift;

    return join ' ', $parser->{status}, $parser->{comments},
                     map { join ':', $_->{event}, map { defined $_ ? $_ : '-' }
                                                  $_->{data}{rank},
                                                  $_->{data}{token}, $_->{id},
                                                  $_->{retry} }
                         @{$parser->{events}};
}

my $told = "200 1 position:16:-:-:4321 position:3:-:-:-"
           . " promoted:-:$token:-:- expired:-:-:over:-";


# right, cut at every place

my $right = join '', $head, chunk(@texts), "0\r\n\r\n";

{
    my ($parser, @complaints) = parsed({}, 'eof', $right);

    is_deeply(\@complaints, [], 'nothing is wrong with a right stream');
    is(told($parser), $told, 'and all of it is understood');
    ok($parser->{done}, 'to its end');
    is($parser->{events}[0]{data}{total}, 420, 'with its numbers');
    is($parser->{events}[0]{data}{etaSeconds}, undef, 'and what has no value');
    is($parser->{events}[2]{data}{expiresAt}, 1800000000000, 'however large');
}

my @differ;

for my $at (1 .. length($right) - 1) {
    my ($parser, @complaints) = parsed({}, 'eof', substr($right, 0, $at),
                                       substr($right, $at));
    push @differ, $at if @complaints || told($parser) ne $told;
}

is_deeply(\@differ, [], 'cut into two, at every place');

{
    my ($parser, @complaints) = parsed({}, 'eof', split //, $right);
    is_deeply([ told($parser), @complaints ], [ $told ], 'byte by byte');

    ($parser, @complaints) = parsed({}, 'eof', $head,
                                    chunk(split //, join '', @texts),
                                    "0\r\n\r\n");
    is_deeply([ told($parser), @complaints ], [ $told ], 'a byte a chunk');

    ($parser, @complaints) = parsed({}, 'eof', $head,
                                    chunk(join '', @texts), "0\r\n\r\n");
    is_deeply([ told($parser), @complaints ], [ $told ], 'all in one chunk');

    my $old = $head =~ s{HTTP/1.1}{HTTP/1.0}r
                    =~ s/Transfer-Encoding: chunked\r\n//r;

    ($parser, @complaints) = parsed({}, 'eof', $old, @texts);
    is_deeply([ told($parser), @complaints ], [ $told ], 'without chunks');

    ($parser, @complaints) = parsed({}, 'eof', $head,
                                    chunk(@texts[0 .. 2], "retry: 700\n"
                                          . "event: reconnect\n"
                                          . "data: $whole\n\n"), "0\r\n\r\n");
    is_deeply(\@complaints, [], 'reconnect is a last word');

    ($parser, @complaints) = parsed({}, 'eof', $head, chunk($texts[0]));
    is_deeply([ $parser->{done}, @complaints ], [ undef ],
              'an end without the last chunk is no clean one');

    my $numeric = $whole =~ s/"u1"/"17"/r =~ s/"e1"/"null"/r;
    ($parser, @complaints) = parsed({}, 'eof', $head,
        chunk("retry: 3000\nevent: position\ndata: $numeric\n\n"));
    is_deeply([ @{$parser->{events}[0]{data}}{qw(eventId userId)},
                @complaints ], [ 'null', '17' ], 'ids are strings');
}


# wrong: [ what, what is complained of, bytes ]

sub stream_of { return join '', $head, chunk(@_), "0\r\n\r\n" }
sub head_with { return $_[0] . join '', chunk(@texts), "0\r\n\r\n" }

my $last = $texts[4];

sub first_data {
    return stream_of("retry: 4000\nevent: position\ndata: $_[0]\n\n", $last);
}

my @wrong = (
    [ 'no HTTP', qr/status line/, "ICY 200 OK\r\n\r\n" ],
    [ 'a header without a colon', qr/no header/,
      head_with($head =~ s/Server: /Server /r) ],
    [ 'a header twice', qr/twice/,
      head_with($head =~ s/Server/Connection/r) ],
    [ 'a length', qr/with a length/,
      head_with($head =~ s/Server: nginx/Content-Length: 5/r) ],
    [ 'may be cached', qr/cached/,
      head_with($head =~ s/Cache-Control: no-store\r\n//r) ],
    [ 'may be buffered', qr/buffered/,
      head_with($head =~ s/X-Accel-Buffering: no\r\n//r) ],
    [ 'gzip', qr/encoded/,
      head_with($head =~ s/Server: nginx/Content-Encoding: gzip/r) ],
    [ 'an etag', qr/etag/, head_with($head =~ s/Server: nginx/ETag: "1"/r) ],
    [ 'a charset', qr/content-type/,
      head_with($head =~ s/event-stream/event-stream; charset=utf-8/r) ],
    [ 'not chunked', qr/not chunked/,
      $head =~ s/Transfer-Encoding: chunked\r\n//r . join '', @texts ],
    [ 'chunked for 1.0', qr/chunked in/,
      head_with($head =~ s{HTTP/1.1}{HTTP/1.0}r) ],
    [ 'another encoding', qr/transfer-encoding/,
      head_with($head =~ s/chunked/gzip, chunked/r) ],
    [ 'status 201', qr/status 201/, head_with($head =~ s/200 OK/201 OK/r) ],

    [ 'a size that is none', qr/size of a chunk/,
      $head . "xyz\r\n$texts[0]\r\n" ],
    [ 'a size with a zero in front', qr/size of a chunk/,
      $head . "0a\r\nretry: 400\n\r\n" ],
    [ 'a size with an extension', qr/size of a chunk/,
      $head . "a;x=y\r\nretry: 400\n\r\n" ],
    [ 'a size without an end', qr/without a size/, $head . 'a' x 40 ],
    [ 'a chunk that is longer', qr/after a chunk/,
      join '', $head, map { s/\n\r\n$/\n!\r\n/r } chunk($texts[0]) ],
    [ 'a chunk that is shorter', qr/after a chunk|what line/,
      join '', $head, map({ s/retry: //r } chunk($texts[0])), chunk(@texts) ],
    [ 'something after the last chunk', qr/bytes after the end/,
      stream_of(@texts) . 'x' ],
    [ 'something instead of the end', qr/after the last chunk/,
      stream_of(@texts) =~ s/\r\n$/xy/r ],

    [ 'no retry', qr/no retry/, stream_of($texts[0] =~ s/^.*\n//r, $last) ],
    [ 'retry too short', qr/retry: 2999/,
      stream_of($texts[0] =~ s/4321/2999/r, $last) ],
    [ 'retry too long', qr/retry: 6001/,
      stream_of($texts[0] =~ s/4321/6001/r, $last) ],
    [ 'retry later', qr/in the middle/,
      stream_of($texts[0], "retry: 4000\n$last") ],
    [ 'an unknown event', qr/event moved/,
      stream_of($texts[0], $last =~ s/expired/moved/r) ],
    [ 'an unknown line', qr/what line/,
      stream_of($texts[0], "foo: bar\n$last") ],
    [ 'CRLF', qr/what line|no retry/, stream_of($texts[0] =~ s/\n/\r\n/gr) ],
    [ 'a comment with words', qr/what line/,
      stream_of($texts[0], ": hello\n\n", $last) ],
    [ 'a comment in an event', qr/comment in an event/,
      stream_of("retry: 4000\n: \n\n", $last) ],
    [ 'a comment without a blank line', qr/after a comment/,
      stream_of($texts[0], ": \n", $last) ],
    [ 'a blank line too many', qr/blank line/,
      stream_of($texts[0], "\n", $last) ],
    [ 'an id that is not "over"', qr/what line/,
      stream_of($texts[0], $last =~ s/id: over/id: 1/r) ],
    [ 'an id of a position', qr/position with id/,
      stream_of($texts[0], "id: over\n$texts[2]", $last) ],
    [ 'no id of an end', qr/expired without id/,
      stream_of($texts[0], $last =~ s/id: over\n//r) ],
    [ 'two data', qr/data twice/,
      stream_of($texts[0] =~ s/\n\n/\ndata: $whole\n\n/r, $last) ],
    [ 'data without event', qr/without name/,
      stream_of($texts[0], "data: $brief\n\n", $last) ],
    [ 'event without data', qr/without data/,
      stream_of($texts[0], "event: position\n\n", $last) ],
    [ 'something after the end', qr/after the end/,
      stream_of($texts[0], $last, $texts[2]) ],
    [ 'a comment after the end', qr/after the end/,
      stream_of($texts[0], $last, $texts[1]) ],
    [ 'an end in an event', qr/ends in an event/,
      stream_of($texts[0], $last, "event: position\n") ],
    [ 'an end in a line', qr/ends in a line/,
      stream_of($texts[0], $last, 'event: pos') ],
    [ 'an end without a last word', qr/last word/, stream_of($texts[0]) ],
    [ 'an end without an event', qr/without an event/,
      stream_of() ],

    [ 'a brief one first', qr/is brief/, first_data($brief) ],
    [ 'a whole one later', qr/not brief/,
      stream_of($texts[0], $texts[2] =~ s/data: .*/data: @{[
                $whole =~ s{16}{15}gr =~ s{17}{16}r ]}/r, $last) ],
    [ 'a position twice', qr/again/,
      stream_of($texts[0], $texts[2], $texts[2], $last) ],
    [ 'a position of one who is in', qr/after promoted/,
      stream_of($texts[0], $texts[3], $texts[2], $last) ],
    [ 'somebody else', qr/somebody else/,
      stream_of($texts[0], $texts[3] =~ s/u1/u2/r, $last) ],
    [ 'no JSON', qr/data of/, first_data('{"status":"waiting"') ],
    [ 'a field missing', qr/data of/,
      first_data($whole =~ s/,"total":420//r) ],
    [ 'a field more', qr/data of/,
      first_data($whole =~ s/\}/,"a":1}/r) ],
    [ 'another order', qr/data of/,
      first_data($whole =~ s/"rank":16,(.*?)("total":420,)/$2"rank":16,$1/r) ],
    [ 'a number as a string', qr/data of/,
      first_data($whole =~ s/"rank":16/"rank":"16"/r) ],
    [ 'a negative number', qr/data of/,
      first_data($whole =~ s/"rank":16/"rank":-1/r) ],
    [ 'an unknown status', qr/data of/,
      first_data($whole =~ s/waiting"/asleep"/r) ],
    [ 'a status of another event', qr/position is ready/,
      first_data($whole =~ s/waiting"/ready"/r) ],
    [ 'rank and position differ', qr/differ/,
      first_data($whole =~ s/17/18/r) ],
    [ 'rank and ahead differ', qr/differ/,
      first_data($whole =~ s/"aheadCount":16/"aheadCount":15/r) ],
    [ 'half a place', qr/half a place/,
      first_data($whole =~ s/"aheadCount":16/"aheadCount":null/r) ],
    [ 'no place', qr/without a place/, first_data($gone =~ s/none/waiting/r) ],
    [ 'more in front than there are', qr/total/,
      first_data($whole =~ s/420/16/r) ],
    [ 'a token for one who waits', qr/with a token/,
      first_data($whole =~ s/"token":null/"token":"$token"/r) ],
    [ 'no token for one who is in', qr/without a token/,
      stream_of($texts[0], $texts[3] =~ s/"$token"/null/r, $last) ],
    [ 'a lease in seconds', qr/without a token/,
      stream_of($texts[0], $texts[3] =~ s/18000*/1800000000/r, $last) ],
    [ 'a short token', qr/data of/,
      stream_of($texts[0], $texts[3] =~ s/0123/012/r, $last) ],
);

for my $case (@wrong) {
    my ($what, $complaint, $bytes) = @$case;

    my ($parser, @complaints) = parsed({}, 'eof', $bytes);
    my (undef, @single) = parsed({}, 'eof', split //, $bytes);

    ok((grep { $_ =~ $complaint } @complaints)
       && (grep { $_ =~ $complaint } @single), "$what is noticed")
        or diag(join "\n", @complaints, '--', @single);
}

{
    my $old = $head =~ s{HTTP/1.1}{HTTP/1.0}r
                    =~ s/Transfer-Encoding: chunked\r\n//r;
    my (undef, @complaints) = parsed({}, 'eof', $old, substr $texts[0], 0, 60);
    like("@complaints", qr/ends in a/, 'cut off, without chunks');

    (undef, @complaints) = parsed({}, 'eof',
        "HTTP/1.1 503 x\r\nContent-Length: 10\r\n\r\n{}");
    like("@complaints", qr/8 bytes of the body are missing/, 'a short body');
}


# over a socket

my $listener = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 100)
    or die "listen: $!\n";
my $sse = WaitingQueue::Sse->new(port => $listener->sockport);

sub serve {
    my $stream = $sse->open(path => '/x', @_);
    my $server = $listener->accept;
    my $request = '';

    $server->blocking(0);
    $sse->run_until(sub {
        my $n = sysread $server, my $some, 4096;
        $request .= $some if $n;
        $request =~ /\r\n\r\n/;
    }, 5);
    $server->blocking(1);

    return ($stream, $server, $request);
}

{
    my ($s, $server, $request) = serve(headers => { 'X-A' => 'b' });

    like($request, qr{^GET /x HTTP/1\.1\r\n}, 'a request');
    like($request, qr/^X-A: b\r\n/m, 'with a header');
    is($s->status, undef, 'no answer yet');

    print $server $head;
    $server->flush;
    $sse->run_until(sub { $s->status }, 5, 'a head');
    ok($s->is_open, 'which is that of a stream');

    for my $text (@texts[0 .. 3]) {
        print $server chunk($text);
        $server->flush;
    }

    $sse->run_until(sub { $s->last('promoted') }, 5, 'events come in');
    is($s->names, 'position position promoted', 'all of them');
    is($s->rank, 3, 'the rank');
    is($s->token, $token, 'the token');
    is($s->comments, 1, 'a comment');
    is($s->ended, undef, 'it is open');

    print $server chunk($last), "0\r\n\r\n";
    $server->flush;
    $sse->run_until(sub { $s->ended }, 5, 'the end');
    is($s->ended, 'clean', 'a clean one');
    is_deeply([ $sse->violations ], [], 'nothing was wrong');
    is(scalar($sse->streams), 0, 'none is open');
}

{
    my ($s, $server) = serve();
    print $server $head, chunk($texts[0]);
    close $server;
    $sse->run_until(sub { $s->ended }, 5);
    is($s->ended, 'eof', 'the server is gone');

    ($s, $server) = serve();
    print $server $head;
    $server->flush;
    $sse->run_until(sub { $s->status }, 5);
    setsockopt $server, Socket::SOL_SOCKET(), Socket::SO_LINGER(),
               pack('ii', 1, 0);
    close $server;
    $sse->run_until(sub { $s->ended }, 5);
    is($s->ended, 'reset', 'the server is gone with a reset');

    ($s, $server) = serve();
    $s->close;
    is(sysread($server, my $none, 1), 0, 'close is a FIN');
    is($s->ended, 'local', 'of our own');

    ($s, $server) = serve();
    $s->reset;
    is(sysread($server, $none, 1), undef, 'reset is a RST');

    ($s, $server) = serve();
    $s->stop_reading;
    print $server $head;
    $server->flush;
    $sse->run_for(0.1);
    is($s->status, undef, 'who does not read sees nothing');
    $s->resume;
    $sse->run_until(sub { $s->status }, 5, 'until it reads again');
    $s->close;

    ($s, $server) = serve(method => 'POST', body => 'abc');
    print $server "HTTP/1.1 405 Not Allowed\r\nAllow: GET\r\n"
                  . "Content-Length: 13\r\n\r\n{\"error\":\"x\"}";
    $server->flush;
    $sse->run_until(sub { $s->ended }, 5, 'another answer');
    is_deeply([ $s->status, $s->header('Allow'), $s->json, $s->ended ],
              [ 405, 'GET', { error => 'x' }, 'clean' ], 'is understood');

    $s = $sse->open(port => 1, path => '/');
    $sse->run_until(sub { $s->ended }, 5);
    is($s->ended, 'failed', 'nobody listens');

    my $many = WaitingQueue::Sse->new(port => $listener->sockport);
    ok(!defined $many->run_until(sub { 0 }, 0.1), 'a wait that is in vain');

    ($s, $server) = serve();
    print $server "nonsense\r\n\r\n";
    $server->flush;
    $sse->run_until(sub { $sse->violations }, 5, 'nonsense is noticed');
    like(($sse->violations)[0], qr{^GET /x: no status line}, 'with the name');
    $sse->close_all;
}

done_testing();
