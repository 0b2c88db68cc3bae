
/* unit tests: how long to wait before the next try */


#include "unit.h"
#include "wq_backoff.h"


static uint32_t
draw(uint64_t *state)
{
    /* any generator will do, if it is the same in every run */

    *state = *state * 6364136223846793005u + 1442695040888963407u;

    return (uint32_t) (*state >> 32);
}


static void
test_init(void)
{
    size_t        i;
    wq_backoff_t  b;

    static const struct {
        uint32_t  min, max, want_min, want_max;
    } rows[] = {
        { 100, 30000, 100, 30000 },
        { 0, 30000, 1, 30000 },
        { 0, 0, 1, 1 },
        { 1, 0, 1, 1 },
        { 500, 100, 500, 500 },
        { 100, 100, 100, 100 },
        { UINT32_MAX, 0, UINT32_MAX, UINT32_MAX },
        { UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX },
        { 0, UINT32_MAX, 1, UINT32_MAX }
    };

    for (i = 0; i < unit_nitems(rows); i++) {
        memset(&b, 0xff, sizeof(b));
        wq_backoff_init(&b, rows[i].min, rows[i].max);

        unit_ok(b.min_ms == rows[i].want_min && b.max_ms == rows[i].want_max
                && b.last_ms == 0,
                "init %u %u", rows[i].min, rows[i].max);
    }
}


static void
test_range(void)
{
    wq_backoff_t  b;

    wq_backoff_init(&b, 100, 30000);
    unit_ok(wq_backoff_next(&b, 0) == 100, "the first delay is at least min");

    wq_backoff_reset(&b);
    unit_ok(wq_backoff_next(&b, UINT32_MAX) == 300,
            "the first delay is at most 3 * min");

    unit_ok(wq_backoff_next(&b, UINT32_MAX) == 900,
            "the second is at most 3 * the first");
    unit_ok(b.last_ms == 900, "the last delay is kept");

    unit_ok(wq_backoff_next(&b, 0) == 100,
            "the least is min, however long it has failed");
    unit_ok(wq_backoff_next(&b, UINT32_MAX) == 300,
            "the most follows the last delay, not the number of failures");

    wq_backoff_reset(&b);
    unit_ok(wq_backoff_next(&b, 0x80000000u) == 200,
            "half of the random range is half of the way");
}


static void
test_cap_and_reset(void)
{
    int           i, good, capped;
    wq_backoff_t  b;

    wq_backoff_init(&b, 100, 5000);
    good = 1;
    capped = 0;

    for (i = 0; i < 100; i++) {
        good &= wq_backoff_next(&b, UINT32_MAX) <= 5000;
        capped += b.last_ms == 5000;
    }

    unit_ok(good, "never above max");
    unit_ok(capped == 97, "100 * 3^4 is above 5000: max from the fourth on");

    wq_backoff_reset(&b);
    unit_ok(wq_backoff_next(&b, UINT32_MAX) == 300,
            "after a reset it begins anew");

    wq_backoff_reset(&b);
    wq_backoff_reset(&b);
    unit_ok(b.min_ms == 100 && b.max_ms == 5000,
            "a reset leaves the settings");
}


static void
test_fixed(void)
{
    int           i, good;
    uint64_t      state;
    wq_backoff_t  b;

    wq_backoff_init(&b, 700, 700);
    state = 1;
    good = 1;

    for (i = 0; i < 1000; i++) {
        good &= wq_backoff_next(&b, draw(&state)) == 700;
    }

    unit_ok(good, "min = max gives always the same");
}


static void
test_bounds(void)
{
    int           good;
    size_t        i, j, k;
    uint32_t      next, random;
    uint64_t      state, last, upper;
    wq_backoff_t  b;

    static const uint32_t  values[] = {
        0, 1, 2, 3, 100, 1000, 30000, 0x55555555, 0x55555556, 0x7fffffff,
        0x80000000u, UINT32_MAX - 1, UINT32_MAX
    };

    state = 42;

    for (i = 0; i < unit_nitems(values); i++) {
        for (j = 0; j < unit_nitems(values); j++) {

            wq_backoff_init(&b, values[i], values[j]);
            last = b.min_ms;
            good = 1;

            for (k = 0; k < 2000; k++) {
                random = draw(&state);

                if (k % 4 == 0) {
                    random = (k % 8 == 0) ? 0 : UINT32_MAX;
                }

                upper = last * 3 > b.max_ms ? b.max_ms : last * 3;
                next = wq_backoff_next(&b, random);

                good &= next >= b.min_ms && next >= 1;
                good &= next <= upper;
                good &= random != 0 || next == b.min_ms;
                good &= random != UINT32_MAX || next == upper;

                last = next;
            }

            unit_ok(good, "bounds hold with min %u, max %u", values[i],
                    values[j]);
        }
    }
}


/* a thousand workers that lose one Redis in one moment */

static void
test_spread(void)
{
    int           good;
    size_t        worker, round;
    uint64_t      state;
    unsigned      tenths[10], capped, i;
    wq_backoff_t  b;

    state = 7;
    capped = 0;
    memset(tenths, 0, sizeof(tenths));

    for (worker = 0; worker < 10000; worker++) {
        wq_backoff_init(&b, 100, 1099);

        for (round = 0; round < 12; round++) {
            wq_backoff_next(&b, draw(&state));
        }

        tenths[(b.last_ms - 100) / 100]++;
        capped += b.last_ms == 1099;
    }

    good = 1;

    for (i = 0; i < 10; i++) {
        good &= tenths[i] > 300 && tenths[i] < 3000;
    }

    unit_ok(good, "late delays are spread over the whole range");
    unit_ok(capped < 100, "they do not gather at max (%u of 10000)", capped);

    memset(tenths, 0, sizeof(tenths));

    for (worker = 0; worker < 10000; worker++) {
        wq_backoff_init(&b, 100, 30000);
        tenths[(wq_backoff_next(&b, draw(&state)) - 100) / 21]++;
    }

    good = 1;

    for (i = 0; i < 9; i++) {
        good &= tenths[i] > 850 && tenths[i] < 1250;
    }

    unit_ok(good, "the first delay is even between min and 3 * min");
}


/* small ranges must reach both ends, and each value about as often */

static void
test_even(void)
{
    unsigned      seen[3];
    uint32_t      i;
    wq_backoff_t  b;

    memset(seen, 0, sizeof(seen));
    wq_backoff_init(&b, 1, 1000);

    for (i = 0; i < 65536; i++) {
        wq_backoff_reset(&b);
        seen[wq_backoff_next(&b, i << 16) - 1]++;
    }

    unit_ok(seen[0] + seen[1] + seen[2] == 65536
            && seen[0] - 21840 < 10 && seen[1] - 21840 < 10
            && seen[2] - 21840 < 10,
            "1, 2 and 3 ms come equally often");
}


int
main(void)
{
    test_init();
    test_range();
    test_cap_and_reset();
    test_fixed();
    test_bounds();
    test_spread();
    test_even();

    return unit_done();
}
