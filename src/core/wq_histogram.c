
/* core: the buckets of a histogram of durations */


#include "wq_histogram.h"


#define WQ_X(us, text)  us,
static const uint64_t  wq_histogram_us[] = {
    WQ_HISTOGRAM_BOUNDS(WQ_X)
};
#undef WQ_X


#define WQ_X(us, text)  text,
static const char *const  wq_histogram_text[] = {
    WQ_HISTOGRAM_BOUNDS(WQ_X)
    "+Inf"
};
#undef WQ_X


size_t
wq_histogram_bucket(uint64_t us)
{
    size_t  i;

    /* most durations are short: from the left this ends after a few steps */

    for (i = 0; i < WQ_HISTOGRAM_BUCKETS - 1; i++) {
        if (us <= wq_histogram_us[i]) {
            break;
        }
    }

    return i;
}


const char *
wq_histogram_bound(size_t bucket)
{
    if (bucket >= WQ_HISTOGRAM_BUCKETS) {
        bucket = WQ_HISTOGRAM_BUCKETS - 1;
    }

    return wq_histogram_text[bucket];
}
