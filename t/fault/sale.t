# A sale goes on while something goes wrong: each fault has a part here that
# says what a user sees of it, and after each everybody is where he was, the
# order is the same, no slot is lost and none given twice (WaitingQueue::Sale
# says what is looked at).
#
# WQ_FAULTS names the faults, or "all"; of `make test` it is a selection, of
# `make fault` each one alone.  WQ_MIX=5 takes so many of them at once, at
# moments of chance; WQ_SEED repeats the choices of a run.

use strict;
use warnings;

use Test::More;
use WaitingQueue::Chance;
use WaitingQueue::Fault;
use WaitingQueue::Sale;

my $seed = $ENV{WQ_SEED} || 1 + (time ^ $$) % 1000000000;
my $selection = $ENV{WQ_FAULTS}
                || 'reload worker_killed redis_frozen flushed failover';
my @faults = $selection eq 'all' ? WaitingQueue::SaleFaults->names
                                 : split ' ', $selection;

diag("WQ_SEED=$seed WQ_FAULTS=\"$selection\"");

my $sale = WaitingQueue::Sale->new(seed => $seed);

if ($ENV{WQ_MIX}) {
    my $chance = chance($seed, 1000000);

    @faults = map { $faults[$chance->() * @faults] } 1 .. $ENV{WQ_MIX};
    alarm 120 + 60 * @faults;
    diag("at once: @faults");
    $sale->open;
    $sale->suffer_many(@faults);

} else {
    alarm patience(120 + 40 * @faults);
    $sale->open;
    $sale->suffer($_) for @faults;
}

$sale->close;
