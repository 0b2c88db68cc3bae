
/* core: how fast a counter grows, from looks at it now and then */


#include "wq_throughput.h"


void
wq_throughput_look(wq_throughput_t *throughput, uint64_t now_ms,
    uint64_t count)
{
    size_t  last;

    if (count < throughput->count
        || now_ms + WQ_THROUGHPUT_MIN < throughput->time_ms)
    {
        throughput->taken = 0;
    }

    if (throughput->taken && now_ms < throughput->time_ms) {
        now_ms = throughput->time_ms;
    }

    throughput->time_ms = now_ms;
    throughput->count = count;

    if (throughput->taken) {
        last = (throughput->taken - 1) % WQ_THROUGHPUT_SAMPLES;

        if (now_ms - throughput->samples[last].time_ms < WQ_THROUGHPUT_MIN) {
            return;
        }
    }

    last = throughput->taken % WQ_THROUGHPUT_SAMPLES;

    throughput->samples[last].time_ms = now_ms;
    throughput->samples[last].count = count;

    throughput->taken++;
}


uint64_t
wq_throughput_per_minute(const wq_throughput_t *throughput, uint64_t now_ms)
{
    size_t    n;
    uint64_t  i, passed, grown;

    if (throughput->taken == 0) {
        return 0;
    }

    if (now_ms > throughput->time_ms
        && now_ms - throughput->time_ms > WQ_THROUGHPUT_MAX)
    {
        return 0;
    }

    /* from the oldest on */

    i = (throughput->taken > WQ_THROUGHPUT_SAMPLES)
        ? throughput->taken - WQ_THROUGHPUT_SAMPLES : 0;

    for ( /* void */ ; i < throughput->taken; i++) {
        n = i % WQ_THROUGHPUT_SAMPLES;

        passed = throughput->time_ms - throughput->samples[n].time_ms;

        if (passed > WQ_THROUGHPUT_MAX) {
            continue;
        }

        if (passed < WQ_THROUGHPUT_MIN) {
            break;
        }

        grown = throughput->count - throughput->samples[n].count;

        /* of whatever is said to have been counted: no overflow */

        if (grown > UINT64_MAX / 60000) {
            grown = UINT64_MAX / 60000;
        }

        return grown * 60000 / passed;
    }

    return 0;
}
