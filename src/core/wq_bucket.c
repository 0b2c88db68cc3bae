
/* core: how many may pass in how long: a bucket of tokens */


#include "wq_bucket.h"


/*
 * Parts of a token.  The most that can be missing, WQ_RATE_USERS_MAX of them,
 * fits in 64 bits, and so does the rest of a division by the longest period;
 * at one token a day a millisecond still gives a thousand parts.
 */

#define WQ_BUCKET_TOKEN  100000000000


static void wq_bucket_fill(wq_bucket_t *bucket, const wq_rate_t *rate,
    uint64_t now_ms);


wq_rc_t
wq_bucket_take(wq_bucket_t *bucket, const wq_rate_t *rate, uint64_t now_ms)
{
    wq_bucket_fill(bucket, rate, now_ms);

    if (bucket->missing > (rate->users - UINT64_C(1)) * WQ_BUCKET_TOKEN) {
        return WQ_EMPTY;
    }

    bucket->missing += WQ_BUCKET_TOKEN;

    return WQ_OK;
}


static void
wq_bucket_fill(wq_bucket_t *bucket, const wq_rate_t *rate, uint64_t now_ms)
{
    uint64_t  passed, tokens, parts;

    if (bucket->missing == 0) {

        /* full since whenever */

        if (now_ms > bucket->filled_ms) {
            bucket->filled_ms = now_ms;
        }

        return;
    }

    if (now_ms <= bucket->filled_ms) {
        return;
    }

    passed = now_ms - bucket->filled_ms;
    bucket->filled_ms = now_ms;

    if (passed > WQ_RATE_PERIOD_MAX) {
        /* so that the product has room */
        passed = WQ_RATE_PERIOD_MAX;
    }

    passed *= rate->users;
    tokens = passed / rate->period_ms;

    if (tokens > bucket->missing / WQ_BUCKET_TOKEN) {
        bucket->missing = 0;
        return;
    }

    parts = tokens * WQ_BUCKET_TOKEN
            + passed % rate->period_ms * WQ_BUCKET_TOKEN / rate->period_ms;

    bucket->missing -= parts < bucket->missing ? parts : bucket->missing;
}
