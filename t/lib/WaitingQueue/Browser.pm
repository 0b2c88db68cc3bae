package WaitingQueue::Browser;

# Chromium without a screen, for tests of what a visitor sees:
#
#     use WaitingQueue::Fault;
#     use WaitingQueue::Browser;
#
#     my $browser = start_browser(languages => 'ko');
#     my $tab = $browser->tab;
#
#     $tab->open($url);
#     $tab->shows(qr/You are number 3 in line/, 'it waits');
#     $tab->click('#here');
#     $tab->screenshot('waiting');
#
#     finish();
#
# It speaks WebDriver (https://www.w3.org/TR/webdriver2/) with a chromedriver of
# this test.  A browser has a profile of its own and so is a visitor of its own;
# its tabs share their cookies.  Texts are characters, not bytes.
#
# Nothing gets out of this machine: no name has an address but those that end
# in .test, which are 127.0.0.1.  At such an address a page has no secure
# context, as it has at http://127.0.0.1.
#
# finish() is that of WaitingQueue::Fault, and asserts besides for each browser
# that its console has no error: none of a script, of the page's policy, of what
# could not be loaded.  That a page which the test has opened came with 410, 429
# or 503 is none; expect() names others.
#
# Profiles and chromedriver's log are in the test's directory, and gone with it;
# screenshots are WQ_BUILD/browser/NAME.png and stay.  Processes are ended by
# their ids, also when a test dies.

use strict;
use warnings;

use Exporter 'import';
use File::Basename ();
use File::Path ();
use HTTP::Tiny;
use JSON::PP ();
use MIME::Base64 ();
use POSIX ();
use Test::More;
use Time::HiRes qw(sleep time);
use WaitingQueue::Fault ();

our @EXPORT = qw(start_browser finish);

# s in which what is expected must be seen: several browsers, an nginx and
# a Redis may have to share a small machine with other tests
my $patience = 30;

my $pictures = ($ENV{WQ_BUILD} || 'build') . '/browser';
my $failed = 'failed-' . File::Basename::basename($0, '.t');

my $json = JSON::PP->new->utf8;
my $serial = 0;
my ($driver, @browsers);

for my $handle (Test::More->builder->output,
                Test::More->builder->failure_output,
                Test::More->builder->todo_output)
{
    binmode $handle, ':encoding(UTF-8)';
}


# start_browser(
#     languages => 'en',            what it likes, the best first
#     javascript => 1,
#     size => [ 520, 900 ],         of its window
# )

sub start_browser {
    $driver ||= WaitingQueue::Fault::_started(
                    WaitingQueue::Browser::Driver->new);

    my $self = WaitingQueue::Browser->new(@_);

    push @browsers, $self;

    return WaitingQueue::Fault::_started($self);
}


sub finish {
    local $Test::Builder::Level = $Test::Builder::Level + 1;

    for my $browser (@browsers) {
        $browser->stop;

        my @errors = $browser->errors;

        ok(!@errors, "the console of $browser->{name} has no error")
            or diag(join "\n", @errors);
    }

    WaitingQueue::Fault::finish();
}


sub new {
    my ($class, %o) = @_;

    my $self = bless {
        languages => 'en', javascript => 1, size => [ 520, 900 ],
        console => [], expected => [], tabs => [], %o,
    }, $class;

    $self->{name} ||= 'browser ' . ++$serial;
    $self->{profile} = WaitingQueue::Fault::_directory('profile');

    return $self;
}


sub start {
    my $self = shift;

    my @arguments = (
        qw(--headless=new --no-sandbox --disable-gpu --no-first-run
           --disable-background-networking --disable-component-update
           --disable-sync --disable-quic --disable-dev-shm-usage
           --disable-breakpad --no-proxy-server),
        '--host-resolver-rules=MAP *.test 127.0.0.1, MAP * ~NOTFOUND, '
        . 'EXCLUDE 127.0.0.1',
        '--window-size=' . join(',', @{$self->{size}}),
        "--user-data-dir=$self->{profile}",
    );

    my %preferences = ('intl.accept_languages' => $self->{languages});

    if (!$self->{javascript}) {
        my $setting = 'profile.managed_default_content_settings.javascript';
        $preferences{$setting} = 2;
    }

    my $answer = $driver->call(POST => '/session', {
        capabilities => { alwaysMatch => {
            'goog:loggingPrefs' => { browser => 'ALL' },
            'goog:chromeOptions' => {
                binary => _program('chromium'), args => \@arguments,
                prefs => \%preferences,
            },
        } },
    });

    $self->{session} = $answer->{sessionId};

    my $handle = $self->call(GET => '/window');

    $self->{current} = $handle;
    $self->{first} = WaitingQueue::Browser::Tab->new($self, $handle);

    return $self;
}


sub _program {
    my $name = shift;

    for my $directory (split /:/, $ENV{PATH}) {
        return "$directory/$name" if -x "$directory/$name";
    }

    die "no $name: run util/setup.sh browser\n";
}


# call(method, path, body): of WebDriver, in this session

sub call {
    my ($self, $method, $path, $body) = @_;

    die "$self->{name} has ended\n" if !defined $self->{session};
    return $driver->call($method, "/session/$self->{session}$path", $body);
}


# tab(): a new one, or the one there is from the beginning

sub tab {
    my $self = shift;

    return delete $self->{first} if $self->{first};

    my $window = $self->call(POST => '/window/new', { type => 'tab' });

    return WaitingQueue::Browser::Tab->new($self, $window->{handle});
}


sub _select {
    my ($self, $handle) = @_;

    return if defined $self->{current} && $self->{current} eq $handle;

    $self->call(POST => '/window', { handle => $handle });
    $self->{current} = $handle;
}


# { name => value } of the cookies that a page at this address gets, HttpOnly or
# not

sub cookies {
    my ($self, $url) = @_;

    my $answer = $self->call(
        POST => '/goog/cdp/execute',
        { cmd => 'Network.getCookies', params => { urls => [ $url ] } });

    return { map { $_->{name} => $_->{value} } @{$answer->{cookies}} };
}


# all lines of the console so far: { level, message, source }

sub console {
    my $self = shift;

    push @{$self->{console}},
         @{$self->call(POST => '/se/log', { type => 'browser' })}
        if defined $self->{session};

    return @{$self->{console}};
}


# expect(patterns): of errors that the test provokes

sub expect {
    my ($self, @patterns) = @_;
    push @{$self->{expected}}, @patterns;
}


sub errors {
    my $self = shift;

    my @errors;

    for my $line ($self->console) {
        my $message = $line->{message};

        next if $line->{level} ne 'SEVERE';
        next if grep { $message =~ $_ } @{$self->{expected}};
        next if $message =~ /^(\S+) - .* with a status of (?:410|429|503) /
                && $self->{opened}{$1};

        push @errors, "$line->{source}: $message";
    }

    return @errors;
}


# its processes that live: nobody else has this profile

sub processes {
    my $self = shift;
    return _with_argument($self->{profile});
}


sub _with_argument {
    my $text = shift;

    opendir my $proc, '/proc' or die "/proc: $!\n";

    return grep {
        index(WaitingQueue::Fault::slurp("/proc/$_/cmdline"), $text) >= 0
            && WaitingQueue::Fault::alive($_)
    } grep { /^\d+$/ && $_ != $$ } readdir $proc;
}


# what is left of the processes that a block lists is killed

sub _end {
    my ($list, $seconds) = @_;

    my $deadline = time + $seconds;

    while (my @pids = $list->()) {
        kill KILL => @pids if time > $deadline;
        last if time > $deadline + 10;
        sleep 0.05;
    }
}


sub stop {
    my $self = shift;

    return if $self->{stopped}++;

    if (defined $self->{session}) {
        eval {
            $self->console;
            $self->call(DELETE => '');
            1;
        } or diag("$self->{name}: $@");

        delete $self->{session};
    }

    _end(sub { $self->processes }, 2);
}


# One chromedriver for all browsers of a test.

package WaitingQueue::Browser::Driver;

use Time::HiRes qw(sleep time);


sub new {
    my $class = shift;

    my $self = bless {
        dir => WaitingQueue::Fault::_directory('driver'),
        temporary => WaitingQueue::Fault::_socket_path('chromium'),
    }, $class;

    # a proxy of the environment is for others
    $self->{http} = HTTP::Tiny->new(timeout => 60, proxy => undef,
                                    http_proxy => undef, https_proxy => undef);

    return $self;
}


# Chromium has a socket where temporary files are, and its path is limited

sub start {
    my $self = shift;

    # of the last time
    unlink glob "$pictures/$failed-*";

    mkdir $self->{temporary} or die "$self->{temporary}: $!\n";

    my $output = "$self->{dir}/chromedriver.out";

    $self->{pid} = WaitingQueue::Fault::_spawn(
        $output,
        { HOME => $self->{dir}, XDG_CONFIG_HOME => $self->{dir},
          XDG_CACHE_HOME => $self->{dir}, TMPDIR => $self->{temporary} },
        WaitingQueue::Browser::_program('chromedriver'), '--port=0',
        "--log-path=$self->{dir}/chromedriver.log");

    my $deadline = time + $patience;

    until (defined $self->{port}) {
        die "chromedriver does not start:\n"
            . WaitingQueue::Fault::slurp($output)
            if time > $deadline || !WaitingQueue::Fault::alive($self->{pid});

        ($self->{port}) = WaitingQueue::Fault::slurp($output)
                          =~ /started successfully on port (\d+)/;
        sleep 0.02;
    }

    return $self;
}


sub call {
    my ($self, $method, $path, $body) = @_;

    my $answer = $self->{http}->request(
        $method, "http://127.0.0.1:$self->{port}$path",
        { headers => { 'Content-Type' => 'application/json' },
          $method eq 'POST' ? (content => $json->encode($body || {})) : () });

    # the parser would take its time with a picture
    return $1 if $answer->{content} =~ m{^\{"value":"([A-Za-z0-9+/=]+)"\}$};

    die "chromedriver: $answer->{content}\n" if $answer->{status} == 599;

    my $value = $json->decode($answer->{content})->{value};

    die "$value->{error}: $value->{message}\n" if $answer->{status} != 200;
    return $value;
}


sub stop {
    my $self = shift;

    return if !$self->{pid};

    kill TERM => $self->{pid};

    if (!defined WaitingQueue::Fault::_reap($self->{pid}, 5)) {
        kill KILL => $self->{pid};
        waitpid $self->{pid}, 0;
    }

    delete $self->{pid};

    # a browser whose start was cut short
    WaitingQueue::Browser::_end(
        sub { WaitingQueue::Browser::_with_argument($self->{dir}) }, 2);
}


package WaitingQueue::Browser::Tab;

use Test::More;


sub new {
    my ($class, $browser, $handle) = @_;
    return bless { browser => $browser, handle => $handle }, $class;
}


sub call {
    my ($self, $method, $path, $body) = @_;

    $self->{browser}->_select($self->{handle});
    return $self->{browser}->call($method, $path, $body);
}


sub open {
    my ($self, $url) = @_;

    $self->{browser}{opened}{$url} = 1;
    $self->call(POST => '/url', { url => $url });

    return $self;
}


sub reload { $_[0]->call(POST => '/refresh') }
sub url { return $_[0]->call(GET => '/url') }
sub title { return $_[0]->call(GET => '/title') }


sub close {
    my $self = shift;

    $self->call(DELETE => '/window');
    undef $self->{browser}{current};
}


# run(text, arguments): what this function returns in the page

sub run {
    my ($self, $text, @arguments) = @_;
    return $self->call(POST => '/execute/sync',
                       { script => $text, args => \@arguments });
}


# what is seen, in one line: not what is hidden, nor what only a screen reader
# says

my $text = <<'END';
return (document.querySelector('main') || document.body).innerText;
END

sub text {
    my $self = shift;

    my $seen = $self->run($text);

    return defined $seen ? join(' ', split ' ', $seen) : '';
}


# visible(selector): whether there is one that is seen

sub visible {
    my ($self, $selector) = @_;

    return $self->run(<<'END', $selector);
return [...document.querySelectorAll(arguments[0])].some(
    e => e.checkVisibility({ visibilityProperty: true }));
END
}


# click(selector): the first that is seen, as with a finger; text shows where

sub click {
    my ($self, $selector) = @_;

    my $element = $self->run(<<'END', $selector)
return [...document.querySelectorAll(arguments[0])].find(
    e => e.checkVisibility({ visibilityProperty: true }));
END
        or die "nothing to click at: $selector\n";

    my ($id) = values %$element;

    $self->call(POST => "/element/$id/click");
}


# shows(patterns, what): asserts that all of them are seen, before long

sub shows {
    my ($self, @patterns) = @_;

    my $what = pop @patterns;
    my $seen = '';

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my $found = WaitingQueue::Fault::wait_until(sub {
        $seen = $self->text;
        !grep { $seen !~ $_ } @patterns;
    }, $patience, $what);

    if (!$found) {
        diag("seen: $seen");
        eval { $self->screenshot("$failed-$what" =~ s/[^\w-]+/-/gr) };
    }

    return $found;
}


# screenshot(name): of what is in the window, in WQ_BUILD/browser

sub screenshot {
    my ($self, $name) = @_;

    File::Path::make_path($pictures);

    # the tab that is in front is the one that is painted
    $self->call(POST => '/goog/cdp/execute',
                { cmd => 'Page.bringToFront', params => {} });

    my $picture = MIME::Base64::decode($self->call(GET => '/screenshot'));

    WaitingQueue::Fault::spew("$pictures/$name.png", $picture);

    return length $picture;
}


1;
