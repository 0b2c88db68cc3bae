
/* unit tests: the buckets of a histogram of durations */


#include "unit.h"
#include "wq_histogram.h"


static const struct {
    uint64_t     us;
    const char  *text;
} bounds[] = {
    { 100, "0.0001" },
    { 250, "0.00025" },
    { 500, "0.0005" },
    { 1000, "0.001" },
    { 2500, "0.0025" },
    { 5000, "0.005" },
    { 10000, "0.01" },
    { 25000, "0.025" },
    { 50000, "0.05" },
    { 100000, "0.1" },
    { 250000, "0.25" },
    { 500000, "0.5" },
    { 1000000, "1" },
    { 2500000, "2.5" }
};


static void
test_bounds(void)
{
    size_t  i;

    for (i = 0; i < unit_nitems(bounds); i++) {
        unit_ok(wq_histogram_bucket(bounds[i].us) == i,
                "%s s is in its own bucket", bounds[i].text);

        unit_ok(wq_histogram_bucket(bounds[i].us - 1) == i,
                "1 us below %s s is in the same", bounds[i].text);

        unit_ok(wq_histogram_bucket(bounds[i].us + 1) == i + 1,
                "1 us above %s s is in the next", bounds[i].text);

        unit_ok(strcmp(wq_histogram_bound(i), bounds[i].text) == 0,
                "bound %s", bounds[i].text);

        unit_ok((uint64_t) (strtod(wq_histogram_bound(i), NULL) * 1e6 + 0.5)
                == bounds[i].us,
                "bound %s is what the bucket says", bounds[i].text);
    }
}


static void
test_ends(void)
{
    unit_ok(WQ_HISTOGRAM_BUCKETS == unit_nitems(bounds) + 1,
            "one bucket for each bound and one for the rest");

    unit_ok(wq_histogram_bucket(0) == 0, "0 us is in the first bucket");

    unit_ok(wq_histogram_bucket(UINT64_MAX) == WQ_HISTOGRAM_BUCKETS - 1,
            "the longest duration is in the last bucket");

    unit_ok(wq_histogram_bucket((uint64_t) UINT32_MAX + 1)
            == WQ_HISTOGRAM_BUCKETS - 1,
            "a duration beyond 32 bits is in the last bucket");

    unit_ok(strcmp(wq_histogram_bound(WQ_HISTOGRAM_BUCKETS - 1), "+Inf") == 0,
            "the last bound");

    unit_ok(strcmp(wq_histogram_bound(WQ_HISTOGRAM_BUCKETS), "+Inf") == 0
            && strcmp(wq_histogram_bound(SIZE_MAX), "+Inf") == 0,
            "a bucket that does not exist reads as the last");
}


static void
test_order(void)
{
    int       good;
    size_t    bucket, last;
    uint64_t  us;

    good = 1;
    last = 0;

    for (us = 0; us < 3000000; us += 7) {
        bucket = wq_histogram_bucket(us);

        good &= bucket < WQ_HISTOGRAM_BUCKETS;
        good &= bucket == last || bucket == last + 1;

        last = bucket;
    }

    unit_ok(good && last == WQ_HISTOGRAM_BUCKETS - 1,
            "longer is never in a lower bucket, and no bucket is left out");
}


int
main(void)
{
    test_bounds();
    test_ends();
    test_order();

    return unit_done();
}
