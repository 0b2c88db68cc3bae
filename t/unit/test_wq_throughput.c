
/* unit tests: how fast a counter grows, from looks at it now and then */


#include <inttypes.h>

#include "unit.h"
#include "wq_throughput.h"


#define SECOND  ((uint64_t) 1000)

/* any: nothing may depend on when nginx was started */
#define START   ((uint64_t) 1234567)


/* looks at a counter that grows by a number, once in so many ms */

static void
run(wq_throughput_t *t, uint64_t *now, uint64_t *count, uint64_t looks,
    uint64_t every, uint64_t by)
{
    while (looks--) {
        *now += every;
        *count += by;
        wq_throughput_look(t, *now, *count);
    }
}


static void
test_no_basis(void)
{
    wq_throughput_t  t;

    memset(&t, 0, sizeof(t));

    unit_ok(wq_throughput_per_minute(&t, START) == 0, "nobody has looked");
    unit_ok(wq_throughput_per_minute(&t, 0) == 0, "nor at the beginning");
    unit_ok(wq_throughput_per_minute(&t, UINT64_MAX) == 0, "nor at the end");

    wq_throughput_look(&t, START, 1000);
    unit_ok(wq_throughput_per_minute(&t, START) == 0,
            "what was counted before the first look says nothing");

    wq_throughput_look(&t, START, 2000);
    unit_ok(wq_throughput_per_minute(&t, START) == 0,
            "nor does more at the same moment");

    wq_throughput_look(&t, START + 9999, 3000);
    unit_ok(wq_throughput_per_minute(&t, START + 9999) == 0,
            "less than 10 s is no basis");

    wq_throughput_look(&t, START + 10000, 3000);
    unit_ok(wq_throughput_per_minute(&t, START + 10000) == 2000 * 6,
            "10 s are one");
}


static void
test_steady(void)
{
    int              good;
    uint64_t         now, count, i;
    wq_throughput_t  t;

    static const struct {
        uint64_t  every;
        uint64_t  by;
        uint64_t  per_minute;
    } rows[] = {
        { 1000, 1, 60 },
        { 1000, 0, 0 },
        { 1000, 1400, 84000 },
        { 100, 1, 600 },
        { 1, 1, 60000 },
        { 5000, 1, 12 },
        { 10000, 1, 6 },
        { 15000, 1, 4 },
        { 20000, 7, 21 },
        { 30000, 1, 2 },
        { 60000, 1, 1 },
        { 60000, 1000000, 1000000 }
    };

    for (i = 0; i < unit_nitems(rows); i++) {
        memset(&t, 0, sizeof(t));
        now = START;
        count = 77;

        run(&t, &now, &count, 1 + 10000 / rows[i].every, rows[i].every,
            rows[i].by);

        good = 1;

        while (now < START + 600 * SECOND) {
            run(&t, &now, &count, 1, rows[i].every, rows[i].by);
            good &= wq_throughput_per_minute(&t, now) == rows[i].per_minute;
        }

        unit_ok(good, "%" PRIu64 " in %" PRIu64 " ms", rows[i].by,
                rows[i].every);
    }
}


static void
test_rounding(void)
{
    size_t           i;
    wq_throughput_t  t;

    static const struct {
        uint64_t  ms;
        uint64_t  grown;
        uint64_t  per_minute;
    } rows[] = {
        { 10000, 1, 6 },
        { 11000, 1, 5 },
        { 12000, 1, 5 },
        { 12001, 1, 4 },
        { 59999, 1, 1 },
        { 60000, 1, 1 },
        { 59999, 0, 0 },
        { 60000, 59, 59 },
        { 59999, 59, 59 },
        { 30001, 1, 1 }
    };

    for (i = 0; i < unit_nitems(rows); i++) {
        memset(&t, 0, sizeof(t));
        wq_throughput_look(&t, START, 5);
        wq_throughput_look(&t, START + rows[i].ms, 5 + rows[i].grown);

        unit_ok(wq_throughput_per_minute(&t, START + rows[i].ms)
                == rows[i].per_minute,
                "%" PRIu64 " in %" PRIu64 " ms", rows[i].grown, rows[i].ms);
    }
}


/* it stops, and it begins: neither is seen too long, nor too little */

static void
test_change(void)
{
    int              falls, rises;
    uint64_t         now, count, start, last, rate;
    wq_throughput_t  t;

    memset(&t, 0, sizeof(t));
    now = START;
    count = 0;

    run(&t, &now, &count, 200, SECOND, 10);
    unit_ok(wq_throughput_per_minute(&t, now) == 600, "600 a minute");

    falls = 1;
    start = now;
    last = 600;

    while (now < start + 60 * SECOND) {
        run(&t, &now, &count, 1, SECOND, 0);
        rate = wq_throughput_per_minute(&t, now);

        /* of the last 50 to 60 s, in which there were so many */

        falls &= rate <= last + 60
                 && rate <= 600 * (60 * SECOND - (now - start))
                            / (50 * SECOND) + 1
                 && (now - start >= 50 * SECOND || rate > 0);
        last = rate;
    }

    unit_ok(falls, "it falls when nothing comes any more");
    unit_ok(wq_throughput_per_minute(&t, now) == 0, "to 0 within a minute");

    rises = 1;
    start = now;
    last = 0;

    while (now < start + 60 * SECOND) {
        run(&t, &now, &count, 1, SECOND, 10);
        rate = wq_throughput_per_minute(&t, now);
        rises &= rate + 60 >= last && rate <= 600;
        last = rate;
    }

    unit_ok(rises, "it rises when something comes again");
    unit_ok(wq_throughput_per_minute(&t, now) == 600,
            "to all of it within a minute");
}


static void
test_age(void)
{
    uint64_t         now, count;
    wq_throughput_t  t;

    memset(&t, 0, sizeof(t));
    now = START;
    count = 0;

    run(&t, &now, &count, 30, SECOND, 1);

    unit_ok(wq_throughput_per_minute(&t, now) == 60, "just looked at");
    unit_ok(wq_throughput_per_minute(&t, now + 60 * SECOND) == 60,
            "looked at a minute ago");
    unit_ok(wq_throughput_per_minute(&t, now + 60 * SECOND + 1) == 0,
            "longer ago is out of date");
    unit_ok(wq_throughput_per_minute(&t, UINT64_MAX) == 0,
            "for ever");

    /* asked by a process whose clock is a moment behind */

    unit_ok(wq_throughput_per_minute(&t, now - 1) == 60, "before the look");
    unit_ok(wq_throughput_per_minute(&t, now - 100 * SECOND) == 60,
            "long before");
    unit_ok(wq_throughput_per_minute(&t, 0) == 60, "even at 0");

    unit_ok(wq_throughput_per_minute(&t, now) == 60,
            "to ask changes nothing");
}


static void
test_fallen(void)
{
    uint64_t         now, count;
    wq_throughput_t  t;

    memset(&t, 0, sizeof(t));
    now = START;
    count = 1000;

    run(&t, &now, &count, 100, SECOND, 10);

    /* Redis has lost its data */

    count = 0;
    run(&t, &now, &count, 1, SECOND, 0);
    unit_ok(wq_throughput_per_minute(&t, now) == 0,
            "a counter that has fallen begins anew");

    run(&t, &now, &count, 9, SECOND, 1);
    unit_ok(wq_throughput_per_minute(&t, now) == 0, "without a basis");

    run(&t, &now, &count, 1, SECOND, 1);
    unit_ok(wq_throughput_per_minute(&t, now) == 60,
            "and has one after 10 s");

    run(&t, &now, &count, 100, SECOND, 1);
    unit_ok(wq_throughput_per_minute(&t, now) == 60,
            "of which nothing is left later");

    /* by 1, by which it cannot fall */

    count -= 2;
    run(&t, &now, &count, 1, SECOND, 1);
    unit_ok(wq_throughput_per_minute(&t, now) == 0, "by one too");

    /* again and again */

    run(&t, &now, &count, 20, SECOND, (uint64_t) -1);
    unit_ok(wq_throughput_per_minute(&t, now) == 0, "one that always falls");
}


static void
test_clock(void)
{
    int              good;
    uint64_t         now, count, i, back;
    wq_throughput_t  t;

    /* each process has read the clock at another moment */

    memset(&t, 0, sizeof(t));
    now = START;
    count = 0;
    good = 1;

    for (i = 0; i < 300; i++) {
        now += SECOND;
        count += 5;
        back = (i * 2654435761u) % 9000;

        wq_throughput_look(&t, now, count);
        wq_throughput_look(&t, now - back, count);

        good &= i < 11 || wq_throughput_per_minute(&t, now) == 300;
    }

    unit_ok(good, "a little back is no time passed");

    wq_throughput_look(&t, now - 10 * SECOND, count);
    unit_ok(wq_throughput_per_minute(&t, now) == 300, "10 s are a little");

    wq_throughput_look(&t, now - 10 * SECOND - 1, count);
    unit_ok(wq_throughput_per_minute(&t, now) == 0,
            "more is a clock that was set back");

    now -= 10 * SECOND + 1;
    run(&t, &now, &count, 10, SECOND, 2);
    unit_ok(wq_throughput_per_minute(&t, now) == 120,
            "from then on it is measured");

    /* to the very beginning */

    wq_throughput_look(&t, 0, count);
    unit_ok(wq_throughput_per_minute(&t, 0) == 0, "set back to 0");

    now = 0;
    run(&t, &now, &count, 10, SECOND, 2);
    unit_ok(wq_throughput_per_minute(&t, now) == 120, "and measured");

    /* the counter grows while the clock is behind */

    memset(&t, 0, sizeof(t));
    wq_throughput_look(&t, START, 0);
    wq_throughput_look(&t, START + 20 * SECOND, 20);
    wq_throughput_look(&t, START + 15 * SECOND, 40);
    unit_ok(wq_throughput_per_minute(&t, START + 20 * SECOND) == 120,
            "what is counted a little back counts");
}


static void
test_pauses(void)
{
    size_t           i;
    uint64_t         now, count;
    wq_throughput_t  t;

    static const uint64_t  pauses[] = {
        60001, 61000, 100000, 3600000, 86400000, (uint64_t) 1 << 40
    };

    for (i = 0; i < unit_nitems(pauses); i++) {
        memset(&t, 0, sizeof(t));
        now = START;
        count = 0;

        run(&t, &now, &count, 70, SECOND, 1);

        now += pauses[i];
        count += 1000000;
        wq_throughput_look(&t, now, count);

        unit_ok(wq_throughput_per_minute(&t, now) == 0,
                "nothing is known after a pause of %" PRIu64 " ms",
                pauses[i]);

        run(&t, &now, &count, 9, SECOND, 3);
        unit_ok(wq_throughput_per_minute(&t, now) == 0,
                "nor for 10 s after %" PRIu64 " ms", pauses[i]);

        run(&t, &now, &count, 1, SECOND, 3);
        unit_ok(wq_throughput_per_minute(&t, now) == 180,
                "then what came since, after %" PRIu64 " ms", pauses[i]);
    }

    /* a pause that is short enough to be part of it */

    memset(&t, 0, sizeof(t));
    wq_throughput_look(&t, START, 0);
    wq_throughput_look(&t, START + 60 * SECOND, 17);
    unit_ok(wq_throughput_per_minute(&t, START + 60 * SECOND) == 17,
            "60 s are part of it");
}


static void
test_large(void)
{
    wq_throughput_t  t;

    memset(&t, 0, sizeof(t));
    wq_throughput_look(&t, START, 0);
    wq_throughput_look(&t, START + 10 * SECOND, UINT64_MAX);

    unit_ok(wq_throughput_per_minute(&t, START + 10 * SECOND)
            == UINT64_MAX / 60000 * 60000 / 10000,
            "all that can be counted");

    memset(&t, 0, sizeof(t));
    wq_throughput_look(&t, START, 0);
    wq_throughput_look(&t, START + 10 * SECOND, UINT64_MAX / 60000 + 1);

    unit_ok(wq_throughput_per_minute(&t, START + 10 * SECOND)
            == UINT64_MAX / 60000 * 60000 / 10000,
            "one more than can be computed does not wrap");

    memset(&t, 0, sizeof(t));
    wq_throughput_look(&t, START, UINT64_MAX - 60);
    wq_throughput_look(&t, START + 60 * SECOND, UINT64_MAX);

    unit_ok(wq_throughput_per_minute(&t, START + 60 * SECOND) == 60,
            "a counter at its end");

    memset(&t, 0, sizeof(t));
    wq_throughput_look(&t, START, UINT64_MAX / 60000);
    wq_throughput_look(&t, START + 60 * SECOND, 2 * (UINT64_MAX / 60000));

    unit_ok(wq_throughput_per_minute(&t, START + 60 * SECOND)
            == UINT64_MAX / 60000, "the most that is exact");
}


/*
 * Any looks, against all that was ever seen: one is remembered if 10 s have
 * passed since the last that was.
 */

#define MAX_SEEN  20000

typedef struct {
    uint64_t  time[MAX_SEEN];
    uint64_t  count[MAX_SEEN];
    size_t    n;
    uint64_t  last_time;
    uint64_t  last_count;
} seen_t;


static void
seen_look(seen_t *seen, uint64_t now, uint64_t count)
{
    if (count < seen->last_count || now + 10000 < seen->last_time) {
        seen->n = 0;
    }

    if (seen->n > 0 && now < seen->last_time) {
        now = seen->last_time;
    }

    seen->last_time = now;
    seen->last_count = count;

    if (seen->n == 0 || now >= seen->time[seen->n - 1] + 10000) {
        seen->time[seen->n] = now;
        seen->count[seen->n] = count;
        seen->n++;
    }
}


static uint64_t
seen_per_minute(const seen_t *seen, uint64_t now)
{
    size_t  i;

    if (seen->n == 0 || now > seen->last_time + 60000) {
        return 0;
    }

    /* the oldest of the last minute, if there is one of 10 s ago */

    for (i = seen->n > 6 ? seen->n - 6 : 0; i < seen->n; i++) {
        if (seen->last_time - seen->time[i] <= 60000) {
            break;
        }
    }

    if (i == seen->n || seen->last_time - seen->time[i] < 10000) {
        return 0;
    }

    return (seen->last_count - seen->count[i]) * 60000
           / (seen->last_time - seen->time[i]);
}


static void
test_any(void)
{
    int              good;
    seen_t          *seen;
    unsigned         seed, i;
    uint64_t         now, count, random;
    wq_throughput_t  t;

    seen = malloc(sizeof(seen_t));

    for (seed = 1; seed <= 20; seed++) {
        memset(&t, 0, sizeof(t));
        memset(seen, 0, sizeof(seen_t));
        now = START + seed;
        count = 0;
        good = 1;
        random = seed;

        for (i = 0; i < MAX_SEEN; i++) {
            random = random * 6364136223846793005u + 1442695040888963407u;

            switch ((random >> 33) % 1000) {

            case 0:
                count = 0;
                break;

            case 1:
                now -= (random >> 40) % 20000;
                break;

            case 2:
                now += (random >> 40) % 200000;
                break;

            default:
                now += (random >> 40) % (100 * (1 + seed * seed));
                count += (random >> 50) % 10;
            }

            wq_throughput_look(&t, now, count);
            seen_look(seen, now, count);

            good &= wq_throughput_per_minute(&t, now)
                    == seen_per_minute(seen, now);
            good &= wq_throughput_per_minute(&t, now + 30000)
                    == seen_per_minute(seen, now + 30000);
        }

        unit_ok(good, "any looks, seed %u", seed);
    }

    free(seen);
}


int
main(void)
{
    test_no_basis();
    test_steady();
    test_rounding();
    test_change();
    test_age();
    test_fallen();
    test_clock();
    test_pauses();
    test_large();
    test_any();

    return unit_done();
}
