#!/usr/bin/perl
#
# Usage: layers.pl ROOT
#
# Checks that dependencies in ROOT/src point one way, core <- redis <- queue <-
# http <- module, and that what belongs to one layer is nowhere else: hiredis to
# redis, the end of a request to http, Redis key names to core/wq_key.

use strict;
use warnings;
use File::Find;

my $root = shift or die "usage: layers.pl ROOT\n";
my %level = (core => 0, redis => 1, queue => 2, http => 3, module => 4);
my $failed = 0;

sub complain {
    my ($file, $line, $text) = @_;
    $file =~ s{^\Q$root\E/}{};
    print "$file:$line: $text\n";
    $failed = 1;
}

sub layer {
    my $file = shift;
    return $file =~ m{^\Q$root\E/src/(core|redis|queue|http)/} ? $1 : 'module';
}

my @files;
find({ no_chdir => 1,
       wanted => sub { push @files, $_ if /\.[ch]$/ } }, "$root/src");
@files = sort @files;

my %home;
for my $file (@files) {
    $home{$1} = layer($file) if $file =~ m{([^/]+\.h)$};
}


# the names of keys are the literals of wq_key.*, without what varies

my %keys;
for my $file (grep { m{/core/wq_key\.[ch]$} } @files) {
    for my $literal (read_file($file) =~ /"((?:[^"\\\n]|\\.)*)"/g) {
        next if $literal =~ /\.h$/;
        $literal =~ s/:?\{.*//;
        $keys{$literal} = 1 if $literal =~ /^\w[\w:]+$/;
    }
}

for my $file (@files) {
    my $own = layer($file);
    my $text = read_file($file);

    $text =~ s{(/\*.*?\*/)}{ (my $c = $1) =~ s/[^\n]/ /g; $c }gse;

    my $number = 0;
    for my $line (split /\n/, $text) {
        $number++;

        if ($line =~ /^\s*#\s*include\s*[<"]([^>"]+)[>"]/) {
            my $header = $1;
            (my $base = $header) =~ s{.*/}{};

            if (defined $home{$base} && $level{$home{$base}} > $level{$own}) {
                complain($file, $number,
                         "$own includes $header of $home{$base}");
            }

            if ($own eq 'core' && $base =~ /^ngx_/) {
                complain($file, $number, "core includes $header of nginx");
            }

            if ($own ne 'redis' && $header =~ /hiredis/
                && !defined $home{$base})
            {
                complain($file, $number, "$own includes $header:"
                                         . " only redis knows hiredis");
            }

            next;
        }

        if ($own ne 'http'
            && $line =~ /\b(ngx_http_(?:finalize_request|send_header
                                        |output_filter))\s*\(/x)
        {
            complain($file, $number, "$own calls $1: only http ends requests");
        }

        next if $file =~ m{/core/wq_key\.[ch]$};

        for my $literal ($line =~ /"((?:[^"\\]|\\.)*)"/g) {
            for my $key (sort keys %keys) {
                # a single word may be a word: only "WORD:" is surely a key
                my $pattern = $key =~ /[_:]/ ? qr/(?<!\w)\Q$key\E(?!\w)/
                                             : qr/(?<!\w)\Q$key\E:/;

                if ($literal =~ $pattern) {
                    complain($file, $number, "Redis key \"$key\":"
                                             . " names of keys are in wq_key");
                }
            }
        }
    }
}

exit $failed;


sub read_file {
    my $file = shift;
    open my $in, '<', $file or die "$file: $!\n";
    local $/;
    return scalar <$in>;
}
