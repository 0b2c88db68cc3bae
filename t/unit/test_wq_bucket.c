
/* unit tests: how many may pass in how long */


#include "unit.h"
#include "wq_bucket.h"


/* at a time at which nothing wraps around or is 0 by chance */
#define T0  UINT64_C(1000000)


/* how many of n who come at once get through */

static unsigned
take(wq_bucket_t *b, uint32_t users, uint32_t period, uint64_t now, unsigned n)
{
    unsigned   got;
    wq_rate_t  rate;

    rate.users = users;
    rate.period_ms = period;
    got = 0;

    while (n--) {
        got += wq_bucket_take(b, &rate, now) == WQ_OK;
    }

    return got;
}


static void
test_full(void)
{
    size_t       i;
    wq_bucket_t  b;

    static const uint32_t  users[] = { 1, 2, 3, 7, 20, 1000 };
    static const uint64_t  times[] = {
        0, 1, 999, 1000, T0, UINT64_MAX / 2, UINT64_MAX
    };

    for (i = 0; i < unit_nitems(users); i++) {
        memset(&b, 0, sizeof(b));
        unit_ok(take(&b, users[i], 1000, T0, 5000) == users[i],
                "%u at once, and no more", users[i]);
        unit_ok(take(&b, users[i], 1000, T0, 5000) == 0,
                "nor again at the same time");
    }

    for (i = 0; i < unit_nitems(times); i++) {
        memset(&b, 0, sizeof(b));
        unit_ok(take(&b, 5, 1000, times[i], 9) == 5, "it begins full at %llu",
                (unsigned long long) times[i]);
    }
}


static void
test_fill(void)
{
    uint64_t     t;
    unsigned     got;
    wq_bucket_t  b;

    /* 4 in a second: one each 250 ms, neither sooner nor later */

    memset(&b, 0, sizeof(b));
    take(&b, 4, 1000, T0, 4);

    unit_ok(take(&b, 4, 1000, T0 + 249, 1) == 0, "249 ms: none yet");
    unit_ok(take(&b, 4, 1000, T0 + 250, 2) == 1, "250 ms: one");
    unit_ok(take(&b, 4, 1000, T0 + 499, 2) == 0, "499 ms: none");
    unit_ok(take(&b, 4, 1000, T0 + 1000, 9) == 3, "1 s: three more");
    unit_ok(take(&b, 4, 1000, T0 + 1999, 9) == 3, "1999 ms: three");
    unit_ok(take(&b, 4, 1000, T0 + 2000, 9) == 1, "and the fourth");
    unit_ok(take(&b, 4, 1000, T0 + 60000, 99) == 4,
            "after a minute four, not 240");
    unit_ok(take(&b, 4, 1000, T0 + 60000 + 400 * UINT64_C(86400000), 99) == 4,
            "nor after a year");

    /* asked in every ms it gives the same as asked once */

    memset(&b, 0, sizeof(b));
    got = take(&b, 7, 1000, T0, 99);

    for (t = 1; t <= 10000; t++) {
        got += take(&b, 7, 1000, T0 + t, 3);
    }

    /* a part of 10^-11 is lost each time; the last may come a ms late */
    unit_ok(got == 76 || got == 77, "7/s in 10 s: 7 and 70 (%u)", got);
    got += take(&b, 7, 1000, T0 + 10001, 3);
    unit_ok(got == 77, "and none is lost (%u)", got);
}


static void
test_clock(void)
{
    int          i;
    unsigned     got;
    wq_bucket_t  b;

    memset(&b, 0, sizeof(b));
    take(&b, 10, 1000, T0, 10);

    unit_ok(take(&b, 10, 1000, T0 - 5, 5) == 0, "back by 5 ms: nothing");
    unit_ok(take(&b, 10, 1000, T0 + 99, 5) == 0,
            "and the 5 ms do not count twice");
    unit_ok(take(&b, 10, 1000, T0 + 100, 5) == 1, "100 ms: one");

    /* two processes, one 3 ms behind the other, for 10 s */

    memset(&b, 0, sizeof(b));
    got = take(&b, 10, 1000, T0, 99);

    for (i = 1; i <= 10000; i++) {
        got += take(&b, 10, 1000, T0 + i, 1);
        got += take(&b, 10, 1000, T0 + i - 3, 1);
    }

    unit_ok(got == 110, "two clocks: 10 and 100 (%u)", got);

    /* a full one, looked at by the one that is behind */

    memset(&b, 0, sizeof(b));
    take(&b, 1, 1000, T0, 1);
    take(&b, 1, 1000, T0 + 1000, 1);
    unit_ok(take(&b, 1, 1000, T0 + 1999, 1) == 0, "just before");
    unit_ok(take(&b, 1, 1000, T0 + 2000, 1) == 1, "and then");
    unit_ok(take(&b, 1, 1000, T0, 1) == 0, "long before: nothing");
}


/* two locations, one budget: each goes by its own number */

static void
test_rates(void)
{
    wq_bucket_t  b;

    memset(&b, 0, sizeof(b));
    unit_ok(take(&b, 20, 1000, T0, 8) == 8, "8 of 20");
    unit_ok(take(&b, 5, 1000, T0, 5) == 0, "nothing is left of 5");
    unit_ok(take(&b, 10, 1000, T0, 5) == 2, "but 2 of 10");
    unit_ok(take(&b, 20, 1000, T0, 50) == 10, "and 10 of 20");
    unit_ok(take(&b, 20, 60000, T0, 50) == 0, "in a minute too");
    unit_ok(take(&b, 20, 60000, T0 + 3000, 50) == 1, "which fills slower");
    unit_ok(take(&b, 20, 1000, T0 + 3050, 50) == 1, "or faster");

    memset(&b, 0, sizeof(b));
    take(&b, WQ_RATE_USERS_MAX, 10, T0, 1000);
    unit_ok(take(&b, 1, WQ_RATE_PERIOD_MAX, T0, 1) == 0,
            "a large one leaves nothing to a small one");
}


/* nothing overflows: what is missing never grows by waiting */

static void
test_bounds(void)
{
    int          good;
    size_t       i, j, k;
    uint64_t     before;
    wq_rate_t    rate;
    wq_bucket_t  b;

    static const uint32_t  users[] = {
        1, 2, 3, 999, 1000000, WQ_RATE_USERS_MAX - 1, WQ_RATE_USERS_MAX
    };
    static const uint32_t  periods[] = {
        1, 10, 11, 1000, 60000, WQ_RATE_PERIOD_MAX - 1, WQ_RATE_PERIOD_MAX
    };
    static const uint64_t  waits[] = {
        0, 1, 10, 999, 86399999, 86400000, 86400001, UINT64_MAX / 4
    };

    for (i = 0; i < unit_nitems(users); i++) {
        for (j = 0; j < unit_nitems(periods); j++) {
            rate.users = users[i];
            rate.period_ms = periods[j];
            good = 1;

            for (k = 0; k < unit_nitems(waits); k++) {

                /* as empty as it can be */
                b.missing = users[i] * UINT64_C(100000000000);
                b.filled_ms = T0;
                before = b.missing;

                good &= wq_bucket_take(&b, &rate, T0) == WQ_EMPTY;
                good &= b.missing == before;

                if (wq_bucket_take(&b, &rate, T0 + waits[k]) == WQ_OK) {
                    /* a token has been filled in */
                    good &= waits[k] * users[i] >= periods[j]
                            || waits[k] > WQ_RATE_PERIOD_MAX;
                } else {
                    good &= waits[k] < periods[j];
                }

                good &= b.missing <= before;
            }

            unit_ok(good, "%u in %u ms", users[i], periods[j]);
        }
    }

    /* the slowest of all, asked all the time: a day, and 0.1% at most */

    memset(&b, 0, sizeof(b));
    take(&b, 1, WQ_RATE_PERIOD_MAX, T0, 1);

    for (before = 1; before < 100000; before++) {
        take(&b, 1, WQ_RATE_PERIOD_MAX, T0 + before, 1);
    }

    before = 100000000000 - b.missing;
    unit_ok(before > 99900 * UINT64_C(100000000000) / WQ_RATE_PERIOD_MAX
            && before < UINT64_C(100000) * 100000000000 / WQ_RATE_PERIOD_MAX,
            "one a day, asked each ms, fills as it should");
}


int
main(void)
{
    test_full();
    test_fill();
    test_clock();
    test_rates();
    test_bounds();

    return unit_done();
}
