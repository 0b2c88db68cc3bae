
/*
 * fuzz: a rank is what its definition says, computed here anew for each with
 * numbers that cannot overflow, whatever was swept before it.
 */


#include <stdlib.h>
#include <string.h>

#include "wq_sweep.h"


#define MAX_ENTRIES  256


int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);


__extension__ typedef __int128  wide_t;


static void
require(int condition)
{
    if (!condition) {
        abort();
    }
}


static uint8_t
byte(const uint8_t **data, size_t *size)
{
    if (*size == 0) {
        return 0;
    }

    (*size)--;

    return *(*data)++;
}


/* one byte for a small number, more for any */

static uint64_t
number(const uint8_t **data, size_t *size)
{
    uint8_t   i, first;
    uint64_t  n;

    first = byte(data, size);

    if (first < 0xf0) {
        return first;
    }

    /* near 0, 2^63, 2^64, which eight drawn bytes would not hit */

    if (first < 0xf4) {
        return 0 - (uint64_t) byte(data, size);
    }

    if (first < 0xf8) {
        return ((uint64_t) 1 << 63) - 128 + byte(data, size);
    }

    n = 0;

    for (i = 0; i < 8; i++) {
        n = n << 8 | byte(data, size);
    }

    return n;
}


/* a number at, or a little before or after, another */

static uint64_t
near(const uint8_t **data, size_t *size, uint64_t base)
{
    uint8_t  first;

    first = byte(data, size);

    if (first == 0xff) {
        return number(data, size);
    }

    return base + first - 32;
}


static wq_rc_t
expected(wq_moment_t from, wq_moment_t to, const wq_gone_t *entries,
    uint64_t idx, uint64_t *rank, wq_moment_t *moment)
{
    wide_t    want, entry;
    uint64_t  i;

    if (moment->promoted >= to.promoted && moment->gone >= to.gone) {
        return WQ_OK;
    }

    if (moment->promoted < from.promoted || moment->gone < from.gone
        || moment->promoted > to.promoted || moment->gone > to.gone)
    {
        return WQ_BAD_RANGE;
    }

    want = *rank;
    want -= to.promoted;
    want += moment->promoted;

    for (i = moment->gone - from.gone; i < to.gone - from.gone; i++) {
        entry = entries[i];

        if (entry > 0 && entry < idx) {
            want--;

        } else if (entry < 0 && -entry < idx) {
            want++;
        }
    }

    if (want < 0 || want > UINT64_MAX) {
        return WQ_BAD_RANGE;
    }

    *rank = (uint64_t) want;
    *moment = to;

    return WQ_OK;
}


static void
check_ranks(wq_sweep_t *sweep, wq_moment_t from, wq_moment_t to,
    const wq_gone_t *entries, const uint8_t *data, size_t size)
{
    wq_rc_t      rc;
    uint64_t     idx, rank, want;
    wq_moment_t  moment, at;

    while (size > 0) {
        idx = number(&data, &size);
        rank = number(&data, &size);
        moment.promoted = near(&data, &size, from.promoted);
        moment.gone = near(&data, &size, from.gone);

        want = rank;
        at = moment;
        rc = expected(from, to, entries, idx, &want, &at);

        require(wq_sweep_rank(sweep, idx, &rank, &moment) == rc);
        require(rank == want);
        require(moment.promoted == at.promoted && moment.gone == at.gone);
    }
}


/*
 * The input: the moments, with the end of the list as far from its entries as
 * a byte says; the entries after their number; then ranks to its end.
 */

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int          good;
    size_t       i, n;
    wq_gone_t   *entries, *sorted, *kept;
    wq_sweep_t   sweep;
    wq_moment_t  from, to;

    from.promoted = number(&data, &size);
    to.promoted = near(&data, &size, from.promoted);
    from.gone = number(&data, &size);
    n = byte(&data, &size);
    to.gone = near(&data, &size, from.gone + n);

    /* of the exact size; none at all for an empty list */

    entries = n ? malloc(n * sizeof(wq_gone_t)) : NULL;
    sorted = n ? malloc(n * sizeof(wq_gone_t)) : NULL;
    kept = malloc(MAX_ENTRIES * sizeof(wq_gone_t));

    good = to.promoted >= from.promoted && to.gone >= from.gone
           && to.gone - from.gone == n;

    for (i = 0; i < n; i++) {
        entries[i] = (wq_gone_t) number(&data, &size);

        /* small ones of both kinds: 1 ... 120 left, 121 ... 239 back */

        if (entries[i] > 120 && entries[i] < 240) {
            entries[i] = 120 - entries[i];
        }

        good = good && entries[i] != 0;
        kept[i] = entries[i];
    }

    require(wq_sweep_init(&sweep, from, to, entries, n, sorted)
            == (good ? WQ_OK : WQ_BAD_RANGE));

    if (good) {
        check_ranks(&sweep, from, to, kept, data, size);
    }

    require(n == 0 || memcmp(entries, kept, n * sizeof(wq_gone_t)) == 0);

    free(entries);
    free(sorted);
    free(kept);

    return 0;
}
