#!/usr/bin/perl
#
# Usage: style.pl FILE...
#
# Checks C files for the form nginx has; prints file:line and what is wrong.

use strict;
use warnings;

# macros of nginx that are several statements: after an if without braces only
# the first of them would be conditional
my $macros = qr/ngx_(?:delete_posted_event|post_event|queue_remove
                    |queue_insert_\w+|queue_(?:split|add))\b/x;

my $failed = 0;

sub complain {
    my ($file, $line, $text) = @_;
    print "$file:$line: $text\n";
    $failed = 1;
}

for my $file (@ARGV) {
    open my $in, '<', $file or die "$file: $!\n";
    my $text = do { local $/; <$in> };
    close $in;

    check_lines($file, $text);

    my $code = blank_out($file, $text);

    check_braces($file, $code);
    check_functions($file, $code);
}

exit $failed;


sub check_lines {
    my ($file, $text) = @_;

    complain($file, 1, "the file is empty") if $text eq '';

    if ($text !~ /[^\n]\n\z/) {
        complain($file, ($text =~ tr/\n//) || 1,
                 "the file does not end with exactly one newline");
    }

    my $number = 0;
    for my $line (split /\n/, $text, -1) {
        $number++;
        complain($file, $number, "tab") if $line =~ /\t/;
        complain($file, $number, "space at the end") if $line =~ /\s$/;
        complain($file, $number, "longer than 80 columns")
            if length $line > 80;
    }
}


# comments, literals and preprocessor lines become spaces; lines stay in place

sub blank_out {
    my ($file, $text) = @_;

    $text =~ s{
        ( /\* .*? \*/ | //[^\n]* | "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*' )
    }{
        my ($found, $at) = ($1, $-[1]);

        if ($found =~ m{^//}) {
            complain($file, 1 + (substr($text, 0, $at) =~ tr/\n//),
                     "// comment");
        }

        if ($found =~ /^["']/) {
            my $quote = substr $found, 0, 1;
            $quote . ('_' x (length($found) - 2)) . $quote;
        } else {
            $found =~ s/[^\n]/ /g;
            $found;
        }
    }gsex;

    $text =~ s{^([ ]*\#(?:[^\n]*\\\n)*[^\n]*)}{
        my $found = $1;
        $found =~ s/[^\n]/ /g;
        $found;
    }gmex;

    return $text;
}


sub check_braces {
    my ($file, $code) = @_;

    my $parens;
    $parens = qr/\((?:[^()]++|(??{$parens}))*\)/;

    while ($code =~ /\b(if|else|for|while|do|switch)\b/g) {
        my ($word, $at, $after) = ($1, $-[1], pos $code);
        my $rest = substr $code, $after;

        if ($word eq 'else' || $word eq 'do') {
            $rest =~ s/^\s+//;
            next if $word eq 'else' && $rest =~ /^if\b/;

        } else {
            $rest =~ s/^\s*$parens\s*// or next;

            # the end of do { } while ();
            next if $word eq 'while' && $rest =~ /^;/
                    && substr($code, 0, $at) =~ /\}\s*$/;
        }

        next if $rest =~ /^\{/;

        my $line = 1 + (substr($code, 0, $at) =~ tr/\n//);

        if ($rest =~ /^($macros)/) {
            complain($file, $line, "$1 is several statements and needs braces"
                                   . " after \"$word\"");
        } else {
            complain($file, $line, "\"$word\" without braces");
        }
    }
}


sub check_functions {
    my ($file, $code) = @_;

    my @lines = split /\n/, $code, -1;

    for my $i (0 .. $#lines) {

        # a definition: text at the left margin, its "{" alone on a line
        if ($lines[$i] =~ /^[A-Za-z_].*\)\s*\{\s*$/
            && $lines[$i] !~ /=/)
        {
            complain($file, $i + 1, "\"{\" of a function is not on its own line");
        }

        next if $lines[$i] ne '{' && $lines[$i] ne '}';

        if ($lines[$i] eq '{') {
            my $first = $i - 1;
            $first-- while $first > 0 && $lines[$first] =~ /^\s/;

            if ($lines[$first] =~ /^\w[\w\s*]*[\s*]\w+\(/) {
                complain($file, $first + 1, "return type is not on its own line");
            }

            next;
        }

        # the source, not the code, says whether a line is blank: comments and
        # directives were blanked out, so look at what follows in the original
        my $next = next_text($file, $i + 1);

        next if !defined $next->{text} || $next->{text} =~ /^\s*#/;

        if ($next->{blank} != 2) {
            complain($file, $i + 2, "not two blank lines after a function");
        }
    }
}


{
    my %source;

    sub next_text {
        my ($file, $i) = @_;

        if (!$source{$file}) {
            open my $in, '<', $file or die "$file: $!\n";
            chomp(my @lines = <$in>);
            $source{$file} = \@lines;
        }

        my $lines = $source{$file};
        my $blank = 0;

        while ($i <= $#$lines && $lines->[$i] eq '') {
            $i++;
            $blank++;
        }

        return { blank => $blank, text => $lines->[$i] };
    }
}
