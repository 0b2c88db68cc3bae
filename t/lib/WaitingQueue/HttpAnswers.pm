package WaitingQueue::HttpAnswers;

# What nginx may answer to whatever was sent to it:
#
#     use WaitingQueue::HttpAnswers;
#
#     my $judged = judge($sent, $received, 'eof');
#     is_deeply($judged->{wrong}, [], 'well-formed, and nothing injected');
#     say for @{$judged->{statuses}};
#
# How it ended: "eof" of nginx' own, where nothing may be missing; "local" or
# "reset", where the rest may.  judge_frames() is the same for HTTP/2.
#
# Only what is allowed is known here: the headers that a location of the test
# has, the statuses that are documented or nginx' own for a bad request, and the
# forms of all bodies.  t/fault/http-fuzz.t shows that the rest is seen.

use strict;
use warnings;

use Exporter 'import';
use JSON::PP ();

our @EXPORT = qw(judge judge_frames quote);

my %status = map { $_ => 1 } qw(200 202 204 400 401 404 405 408 409 410 413 414
                                429 501 503 505);

# of what the backend answers, and not of what is of this moment
my %conditional = map { $_ => 1 } qw(206 304 412 416);

my %header = map { $_ => 1 } qw(
    accept-ranges allow cache-control connection content-length
    content-security-policy content-type date etag keep-alive last-modified
    retry-after server set-cookie transfer-encoding vary x-accel-buffering
);

my $cookie = qr{\Awq_(?:uid=[0-9a-f]{32}|[0-9a-f]{8}=(?:[0-9a-f]{40})?)
                (?:;\ Max-Age=0)?;\ Path=/;\ HttpOnly;\ SameSite=Lax\z}x;

my $label = qr/[a-z_]+="[A-Za-z0-9._~\@:\/+-]*"/;
my $metric = qr/\A(?:\#[ -~]*
                   |[a-z_]+(?:\{$label(?:,$label)*\})?\ (?:-?[0-9.e+-]+|NaN)
                   )\z/x;

# a line that asks without a version, and is answered without a head
my $old = qr{^[A-Za-z_-]+ +[^ \r\n]* *\r?$}m;


sub quote {
    my $text = shift;

    my $cut = length $text > 800;
    $text = substr $text, 0, 800;
    $text =~ s/([^ -~])/sprintf '\\x%02x', ord $1/ge;

    return qq("$text") . ($cut ? ' ...' : '');
}


# judge(sent, received, how): { wrong => [texts], statuses => [numbers],
# bodies => [texts], cookies => [texts] }

sub judge {
    my ($sent, $in, $how) = @_;

    my $judged = { wrong => [], statuses => [], bodies => [], cookies => [] };
    my $wrong = sub { push @{$judged->{wrong}}, $_[0] };
    my $cut = sub { $wrong->("cut: $_[0]") if $how eq 'eof' };

    while (length $in) {

        if ($in !~ m{\AHTTP/}) {
            last if length $in < 5 && $how ne 'eof';
            $wrong->('no answer: ' . quote($in)) if $sent !~ $old;
            last;
        }

        my $end = index $in, "\r\n\r\n";

        if ($end < 0) {
            $cut->('a head');
            last;
        }

        my $head = substr $in, 0, $end;
        substr $in, 0, $end + 4, '';

        my ($status, $headers) = _head($head, $wrong, $judged);

        last if !defined $status;
        next if $status == 100;

        push @{$judged->{statuses}}, $status;

        my $body = _body($sent, $status, $headers, \$in, $wrong);

        if (defined $body) {
            push @{$judged->{bodies}}, $body;
            _content($status, $headers, $body, 1, $wrong);
            next;
        }

        # the end of the connection ends it, or it is missing
        $cut->("the body of a $status")
            if exists $headers->{'content-length'}
               || exists $headers->{'transfer-encoding'};
        last;
    }

    return $judged;
}


sub _head {
    my ($head, $wrong, $judged) = @_;

    my ($first, @lines) = split /\r\n/, $head, -1;

    if ($first !~ m{\AHTTP/1\.1 ([1-5]\d\d)(?: [ -~]*)?\z}) {
        $wrong->('status line: ' . quote($first));
        return;
    }

    my $status = $1;
    my %headers;

    for my $line (@lines) {
        if ($line !~ /\A([A-Za-z0-9-]+): ([ -~]*)\z/) {
            $wrong->('header: ' . quote($line));
            next;
        }

        my ($name, $value) = (lc $1, $2);

        $wrong->("header " . quote($line)) if !$header{$name};
        $wrong->("header $name twice")
            if exists $headers{$name} && $name ne 'set-cookie';
        $headers{$name} = $value;

        next if $name ne 'set-cookie';

        $wrong->("cookie $value") if $value !~ $cookie;
        push @{$judged->{cookies}}, $value;
    }

    my $kept = ($headers{'cache-control'} || '') eq 'no-store';

    $wrong->("status $status")
        if !$status{$status} && !($conditional{$status} && !$kept)
           && $status != 100;
    $wrong->('chunked and with a length')
        if exists $headers{'content-length'}
           && exists $headers{'transfer-encoding'};

    return ($status, \%headers);
}


# taken off what has come, whole and without its framing; undef if it ends with
# the connection, or before its end

sub _body {
    my ($sent, $status, $headers, $in, $wrong) = @_;

    return '' if $status == 204 || $status == 304;

    # which of several requests was a HEAD is not known
    return '' if $sent =~ /HEAD / && $$in =~ m{\A(?:\z|HTTP/1)};

    if (defined(my $length = $headers->{'content-length'})) {
        if ($length !~ /^\d{1,9}$/) {
            $wrong->("length $length");
            return;
        }

        # nor what is without a head behind it
        return '' if length $$in < $length && $sent =~ /HEAD /
                     && $sent =~ $old;
        return if length $$in < $length;
        return substr $$in, 0, $length, '';
    }

    if (!exists $headers->{'transfer-encoding'}) {
        _content($status, $headers, $$in, 0, $wrong);
        return;
    }

    $wrong->("transfer-encoding $headers->{'transfer-encoding'}")
        if $headers->{'transfer-encoding'} ne 'chunked';

    my $body = '';

    while ($$in =~ s/\A([0-9a-f]{1,8})\r\n//) {
        my $length = hex $1;

        if (length $$in < $length + 2) {
            # the rest of it may never come
            $body .= substr $$in, 0, $length;
            $$in = '';
            last;
        }

        $body .= substr $$in, 0, $length, '';
        $wrong->('end of a chunk') if substr($$in, 0, 2, '') ne "\r\n";

        return $body if $length == 0;
    }

    $wrong->('chunk: ' . quote($$in)) if $$in !~ /\A[0-9a-f]{0,8}\r?\z/;
    _content($status, $headers, $body, 0, $wrong);

    return;
}


sub _content {
    my ($status, $headers, $body, $whole, $wrong) = @_;

    my $type = $headers->{'content-type'};
    $type = '' if !defined $type;

    if ($type eq 'application/json') {
        _json($body, $wrong) if $whole && length $body;

    } elsif ($type eq 'text/event-stream') {
        $wrong->("a stream with status $status") if $status != 200;
        _stream($body, $whole, $wrong);

    } elsif ($type =~ m{^text/html\b}) {
        $wrong->('HTML: ' . quote($body))
            if $whole && length $body && $body !~ m{</html>\s*\z};

    } elsif ($type =~ m{^text/plain; version=} && $whole) {
        $wrong->("metric: $_") for grep { $_ !~ $metric } split /\n/, $body;
    }
}


sub _json {
    my ($text, $wrong) = @_;

    $wrong->('JSON: ' . quote($text))
        if !eval { ref JSON::PP::decode_json($text) eq 'HASH' };
}


sub _stream {
    my ($text, $whole, $wrong) = @_;

    # the last may not have come as a whole
    $text =~ s/(?:\A|(?<=\n\n))(?:(?!\n\n).)*\z//s if !$whole;

    while (length $text) {
        if ($text !~ s/\A(?:retry:\ \d+\n)?
                         (?::\ [ -~]*\n
                          |(?:id:\ over\n)?event:\ [a-z_]+\n
                           data:\ (\{[^\r\n]*\})\n)\n//x)
        {
            $wrong->('event: ' . quote($text));
            return;
        }

        _json($1, $wrong) if defined $1;
    }
}


# HTTP/2: frames, each of a kind a server sends, to streams that a client opens;
# bodies in the same forms, without the help of a type

sub judge_frames {
    my ($sent, $in, $how) = @_;

    my $judged = { wrong => [], statuses => [], bodies => [], cookies => [] };
    my $wrong = sub { push @{$judged->{wrong}}, $_[0] };
    my %body;

    # that of the first field of a head, which nginx does not write otherwise
    my %known = (0x88 => 200, 0x89 => 204, 0x8b => 304, 0x8c => 400,
                 0x8d => 404, 0x8e => 500);

    while (length $in >= 9) {
        my ($high, $low, $type, $flags, $id)
            = unpack 'CnCCN', substr $in, 0, 9;
        my $length = $high << 16 | $low;

        if ($length > 16384 || $type > 9 || ($id && $id % 2 == 0)) {
            $wrong->("frame of type $type, stream $id, $length bytes: "
                     . quote(substr $in, 0, 64));
            last;
        }

        last if length $in < 9 + $length;

        my $payload = substr $in, 9, $length;
        substr $in, 0, 9 + $length, '';

        if ($type == 1) {
            my ($other) = $payload =~ /\A[\x08\x48]\x03(\d{3})/;
            my $status = $known{ord $payload} || $other || 0;

            # of Huffman's code the first is known of 2.., 4.. and 5.. alone
            next if !$status;
            push @{$judged->{statuses}}, $status;
            $wrong->("status $status")
                if !$status{$status} && !$conditional{$status};

        } elsif ($type == 0) {
            $body{$id} .= $payload;

            if ($flags & 1 && $body{$id} =~ /\A\{/) {
                _json($body{$id}, $wrong);
            } elsif ($body{$id} =~ /\A(?:retry|event|data): /) {
                _stream($body{$id}, $flags & 1, $wrong);
            }
        }
    }

    $wrong->('cut: ' . quote($in)) if length $in && $how eq 'eof';

    return $judged;
}


1;
