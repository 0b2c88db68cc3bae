
/*
 * unit tests: when to ask again.
 *
 * Too late is a place that was given up, too often is a flood, and all at once
 * is a wave: what matters are the bounds.
 */


#include "unit.h"

#include "wq_poll.h"


typedef struct {
    int64_t    rank;
    uint64_t   timeout_ms;
    uint32_t   ms;
} poll_case_t;


static const poll_case_t  poll_cases[] = {
    { 0, 30000, 2000 },
    { 9, 30000, 2000 },
    { 10, 30000, 5000 },
    { 99, 30000, 5000 },
    { 100, 30000, 10000 },
    { 1000000, 30000, 10000 },
    { INT64_MAX, 30000, 10000 },

    /* unknown is far away */
    { -1, 30000, 10000 },
    { INT64_MIN, 30000, 10000 },

    /* three times within the time, whoever it is */
    { 0, 6000, 2000 },
    { 0, 5999, 1999 },
    { 10, 6000, 2000 },
    { 100, 15000, 5000 },
    { 100, 29999, 9999 },

    /* but not a flood */
    { 0, 3000, 1000 },
    { 0, 2999, 1000 },
    { 100, 2000, 1000 },
    { 100, 0, 1000 },
    { 100, UINT64_MAX, 10000 }
};


static void
test_poll_ms(void)
{
    size_t    i;
    uint32_t  ms;

    for (i = 0; i < unit_nitems(poll_cases); i++) {
        ms = wq_poll_ms(poll_cases[i].rank, poll_cases[i].timeout_ms);

        unit_ok(ms == poll_cases[i].ms, "rank %lld, %llu ms: %u, got %u",
                (long long) poll_cases[i].rank,
                (unsigned long long) poll_cases[i].timeout_ms,
                poll_cases[i].ms, ms);
    }
}


static void
test_poll_spread(void)
{
    uint32_t  ms, random, seen[2];

    unit_ok(wq_poll_spread(2000, 0) == 1000, "a half at least");
    unit_ok(wq_poll_spread(2000, 1000) == 2000, "all of it at most");
    unit_ok(wq_poll_spread(2000, 1001) == 1000, "and from the beginning");
    unit_ok(wq_poll_spread(2000, UINT32_MAX) >= 1000
            && wq_poll_spread(2000, UINT32_MAX) <= 2000, "the largest random");
    unit_ok(wq_poll_spread(1, 0) == 1 && wq_poll_spread(1, 7) == 1, "1 ms");
    unit_ok(wq_poll_spread(0, 7) == 0, "nothing to spread");
    unit_ok(wq_poll_spread(1999, 999) == 1999, "an odd one, whole");
    unit_ok(wq_poll_spread(1999, 0) == 1000, "an odd one, half");

    seen[0] = UINT32_MAX;
    seen[1] = 0;

    for (random = 0; random < 100000; random += 7) {
        ms = wq_poll_spread(10000, random);
        seen[0] = ms < seen[0] ? ms : seen[0];
        seen[1] = ms > seen[1] ? ms : seen[1];
    }

    unit_ok(seen[0] == 5000 && seen[1] == 10000, "all of it, and no more");
}


int
main(void)
{
    test_poll_ms();
    test_poll_spread();

    return unit_done();
}
