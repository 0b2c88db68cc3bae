
/* core: how long to wait before the next try */


#include "wq_backoff.h"


void
wq_backoff_init(wq_backoff_t *backoff, uint32_t min_ms, uint32_t max_ms)
{
    if (min_ms == 0) {
        min_ms = 1;
    }

    if (max_ms < min_ms) {
        max_ms = min_ms;
    }

    backoff->min_ms = min_ms;
    backoff->max_ms = max_ms;
    backoff->last_ms = 0;
}


uint32_t
wq_backoff_next(wq_backoff_t *backoff, uint32_t random)
{
    uint64_t  last, upper, width;

    last = backoff->last_ms;

    if (last < backoff->min_ms) {
        last = backoff->min_ms;
    }

    /*
     * The range is cut to max_ms before the draw.  Cutting the drawn delay
     * instead would let two workers of three wait exactly max_ms in a long
     * outage, and so come back together.
     */

    upper = 3 * last;

    if (upper > backoff->max_ms) {
        upper = backoff->max_ms;
    }

    /* at most 2^32, so that the product fits 64 bits; no modulo, no bias */

    width = upper - backoff->min_ms + 1;

    backoff->last_ms = backoff->min_ms
                       + (uint32_t) ((width * random) >> 32);

    return backoff->last_ms;
}


void
wq_backoff_reset(wq_backoff_t *backoff)
{
    backoff->last_ms = 0;
}
