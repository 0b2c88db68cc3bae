#!/bin/sh
#
# Usage: fault.sh [plain|asan]
#
# Plays every fault of t/lib/WaitingQueue/SaleFaults.pm alone in a sale, then
# FAULT_MIXES (20) schedules of chance with FAULT_MIX (5) of them at once, two
# sales beside each other.  FAULT_SEED (1) is the first seed; what fails can be
# had again, alone, by the line that is printed.

set -eu
cd "$(dirname "$0")/.."

flavour=${1:-plain}
seed=${FAULT_SEED:-1}
mixes=${FAULT_MIXES:-20}
mix=${FAULT_MIX:-5}
logs=build/fault

rm -rf "$logs"
mkdir -p "$logs"

# play NAME ASSIGNMENT...: one sale, and a line about it

cat > "$logs/play" <<'END'
log=build/fault/$2.log
name=$2
flavour=$1
shift 2
start=$(date +%s)
if env WQ_WORKERS=1 "$@" util/test.sh "$flavour" t/fault/sale.t > "$log" 2>&1
then
    echo "ok     $name ($(($(date +%s) - start)) s)"
    rm "$log"
else
    echo "not ok $name: $* util/test.sh $flavour t/fault/sale.t; see $log"
    exit 1
fi
END

{
    perl -It/lib -MWaitingQueue::SaleFaults \
         -e 'print "$_ WQ_SEED='"$seed"' WQ_FAULTS=$_\n"
                 for WaitingQueue::SaleFaults->names' 2> /dev/null

    n=0
    while [ "$n" -lt "$mixes" ]; do
        echo "mix-$((seed + n)) WQ_SEED=$((seed + n)) WQ_FAULTS=all WQ_MIX=$mix"
        n=$((n + 1))
    done
} | xargs -P 2 -L 1 sh "$logs/play" "$flavour"

echo "every fault alone, and $mixes schedules of $mix at once: all is well"
