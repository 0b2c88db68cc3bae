
/* core: the rank of everybody who waits, kept exact without asking for it */


#include "wq_sweep.h"


static wq_rc_t wq_sweep_apply(uint64_t *rank, uint64_t promoted, int64_t sum);
static void wq_sweep_sort(wq_gone_t *sorted, size_t n);
static void wq_sweep_sift(wq_gone_t *sorted, size_t root, size_t n);
static uint64_t wq_sweep_idx(wq_gone_t entry);
static int64_t wq_sweep_step(wq_gone_t entry);


wq_rc_t
wq_sweep_init(wq_sweep_t *sweep, wq_moment_t from, wq_moment_t to,
    const wq_gone_t *entries, size_t n, wq_gone_t *sorted)
{
    size_t  i;

    if (to.promoted < from.promoted
        || to.gone < from.gone
        || to.gone - from.gone != n)
    {
        return WQ_BAD_RANGE;
    }

    for (i = 0; i < n; i++) {

        /* with no sign it says neither that one left nor that one is back */

        if (entries[i] == 0) {
            return WQ_BAD_RANGE;
        }

        sorted[i] = entries[i];
    }

    wq_sweep_sort(sorted, n);

    sweep->from = from;
    sweep->to = to;
    sweep->entries = entries;
    sweep->n = n;
    sweep->sorted = sorted;
    sweep->passed = 0;
    sweep->sum = 0;
    sweep->last_idx = 0;

    return WQ_OK;
}


wq_rc_t
wq_sweep_rank(wq_sweep_t *sweep, uint64_t idx, uint64_t *rank,
    wq_moment_t *moment)
{
    size_t   i;
    int64_t  sum;

    if (moment->promoted >= sweep->to.promoted
        && moment->gone >= sweep->to.gone)
    {
        return WQ_OK;
    }

    /*
     * Both numbers only grow.  Where one is within and the other is not, they
     * are not of one moment, and nothing can be said of the rank.
     */

    if (moment->promoted < sweep->from.promoted
        || moment->promoted > sweep->to.promoted
        || moment->gone < sweep->from.gone
        || moment->gone > sweep->to.gone)
    {
        return WQ_BAD_RANGE;
    }

    if (moment->gone == sweep->from.gone) {

        /* both ways, so that a little disorder costs a few steps only */

        if (idx < sweep->last_idx) {

            while (sweep->passed > 0
                   && wq_sweep_idx(sweep->sorted[sweep->passed - 1]) >= idx)
            {
                sweep->passed--;
                sweep->sum -= wq_sweep_step(sweep->sorted[sweep->passed]);
            }

        } else {

            while (sweep->passed < sweep->n
                   && wq_sweep_idx(sweep->sorted[sweep->passed]) < idx)
            {
                sweep->sum += wq_sweep_step(sweep->sorted[sweep->passed]);
                sweep->passed++;
            }
        }

        sweep->last_idx = idx;
        sum = sweep->sum;

    } else {

        /* few are: those who came, or were asked for, during the tick */

        sum = 0;

        for (i = (size_t) (moment->gone - sweep->from.gone); i < sweep->n; i++)
        {
            if (wq_sweep_idx(sweep->entries[i]) < idx) {
                sum += wq_sweep_step(sweep->entries[i]);
            }
        }
    }

    if (wq_sweep_apply(rank, sweep->to.promoted - moment->promoted, sum)
        != WQ_OK)
    {
        return WQ_BAD_RANGE;
    }

    *moment = sweep->to;

    return WQ_OK;
}


/*
 * Only the end counts: who was in front may have come back before being let
 * in, so that the rank less the promoted alone can be below zero on the way.
 * No sum is built that could pass 64 bits.
 */

static wq_rc_t
wq_sweep_apply(uint64_t *rank, uint64_t promoted, int64_t sum)
{
    uint64_t  back, left;

    back = sum > 0 ? (uint64_t) sum : 0;
    left = sum < 0 ? (uint64_t) -sum : 0;

    if (back > promoted) {
        back -= promoted;

        if (*rank > UINT64_MAX - back) {
            return WQ_BAD_RANGE;
        }

        *rank += back;

        return WQ_OK;
    }

    promoted -= back;

    if (*rank < promoted || *rank - promoted < left) {
        return WQ_BAD_RANGE;
    }

    *rank -= promoted + left;

    return WQ_OK;
}


/*
 * A heapsort: it needs no room, where qsort() of the C library may allocate,
 * and no order of the list, whoever chose it, makes it slow.
 */

static void
wq_sweep_sort(wq_gone_t *sorted, size_t n)
{
    size_t     i;
    wq_gone_t  entry;

    for (i = n / 2; i > 0; i--) {
        wq_sweep_sift(sorted, i - 1, n);
    }

    for (i = n; i > 1; i--) {
        entry = sorted[0];
        sorted[0] = sorted[i - 1];
        sorted[i - 1] = entry;

        wq_sweep_sift(sorted, 0, i - 1);
    }
}


static void
wq_sweep_sift(wq_gone_t *sorted, size_t root, size_t n)
{
    size_t     child;
    uint64_t   idx;
    wq_gone_t  entry;

    entry = sorted[root];
    idx = wq_sweep_idx(entry);

    for ( ;; ) {
        child = 2 * root + 1;

        if (child >= n) {
            break;
        }

        if (child + 1 < n
            && wq_sweep_idx(sorted[child + 1]) > wq_sweep_idx(sorted[child]))
        {
            child++;
        }

        if (wq_sweep_idx(sorted[child]) <= idx) {
            break;
        }

        sorted[root] = sorted[child];
        root = child;
    }

    sorted[root] = entry;
}


static uint64_t
wq_sweep_idx(wq_gone_t entry)
{
    /* not llabs(): the least number has no positive counterpart */

    return entry < 0 ? 0 - (uint64_t) entry : (uint64_t) entry;
}


static int64_t
wq_sweep_step(wq_gone_t entry)
{
    return entry < 0 ? 1 : -1;
}
