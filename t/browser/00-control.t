# Proves that the tests with a browser would notice: an error of a script, what
# the page's policy forbids, what could not be loaded, what is there but not
# seen; and that no process stays, also when a test dies.

use strict;
use warnings;
use utf8;

use Test::More;
use WaitingQueue::Browser;
use WaitingQueue::Fault qw(wait_until alive slurp);
use WaitingQueue::Shop;


# a test that dies, with its browser open; the process that runs it is this
# file too

if (@ARGV) {
    my $browser = start_browser();

    print "profile $browser->{profile}\n";
    printf "pids %s\n", join ' ', sort $browser->processes;
    die "as it is meant to\n";
}

my $output = `$^X -It/lib $0 dies 2>&1`;
my ($profile) = $output =~ /^profile (.+)$/m;
my ($pids) = $output =~ /^pids ([\d ]+)$/m;

like($output, qr/^as it is meant to$/m, 'a test dies');
cmp_ok(scalar(my @pids = split ' ', $pids || ''), '>', 2,
       'its browser has processes');
is(join(' ', grep { alive($_) && slurp("/proc/$_/cmdline") =~ /\Q$profile/ }
             @pids), '', 'none of them is left');
ok(-d $profile, 'its directory is');
File::Path::remove_tree($profile =~ s{/[^/]+$}{}r) if $profile;


my $shop = WaitingQueue::Shop->new(
    locations => { one => 'waiting_queue_capacity 1;' });
my $browser = start_browser();
my $tab = $browser->tab;
my $url = $shop->url('one', 'concert');

$shop->come('one', 'concert', 1);


# sees(script, pattern, what): what a script in the page does is an error

sub sees {
    my ($script, $pattern, $what) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    $tab->open($url);
    $tab->shows(qr/\bLive\b.*You are number 1 in line/, "$what: a page");
    is(join("\n", $browser->errors), '', "$what: no error so far");
    $tab->run($script);
    wait_until { join("\n", $browser->errors) =~ $pattern } 30, "$what: seen";
    $browser->expect($pattern);
}

sees(q(setTimeout(() => { throw new Error('as it is meant to'); })),
     qr/as it is meant to/, 'a script that fails');
sees(<<'END', qr/Content Security Policy.*script-src/, 'an inline script');
const script = document.createElement('script');
script.textContent = 'document.title = "no"';
document.body.append(script);
END
sees(<<'END', qr/Content Security Policy.*img-src/, 'a picture from elsewhere');
document.body.append(Object.assign(new Image(), { src: '/ok' }));
END
sees(q(fetch('/nothing')), qr/nothing - .* status of 404/,
     'something that is not there');

unlike($tab->title, qr/no/, 'the inline script has not run');


# what is hidden is not seen

unlike($tab->text, qr/Sold out|대기|Reconnecting/, 'what is hidden is no text');
ok($tab->visible('#alarm') && !$tab->visible('#here'), 'nor visible');
ok(!eval { $tab->click('#here'); 1 }, 'nor can it be clicked at');


# no other machine

$browser->expect(qr/example\.com/);
$tab->open('about:blank');
eval { $tab->open('http://example.com/') };
like($@, qr/ERR_NAME_NOT_RESOLVED/, 'no other machine has an address');

cmp_ok($tab->screenshot('control'), '>', 1000, 'there is a screenshot');

finish();
