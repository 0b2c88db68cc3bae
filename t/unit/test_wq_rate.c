
/* unit tests: how many may go in, in how long: as an operator says it */


#include <inttypes.h>

#include "unit.h"
#include "wq_rate.h"


#define UNTOUCHED  0xfeedfacecafe


static wq_rc_t
parse(const char *text, size_t len, uint64_t *number)
{
    u_char   *p;
    wq_rc_t   rc;

    p = unit_copy(text, len);
    *number = UNTOUCHED;

    rc = wq_decimal_parse(p, len, number);

    free(p);

    return rc;
}


static void
test_decimal(void)
{
    size_t    i;
    wq_rc_t   rc;
    uint64_t  number;

    static const struct {
        const char  *text;
        wq_rc_t      rc;
        uint64_t     number;
    } rows[] = {
        { "0", WQ_OK, 0 },
        { "1", WQ_OK, 1000 },
        { "6", WQ_OK, 6000 },
        { "9", WQ_OK, 9000 },
        { "10", WQ_OK, 10000 },
        { "007", WQ_OK, 7000 },
        { "0.15", WQ_OK, 150 },
        { "0.8", WQ_OK, 800 },
        { "12.5", WQ_OK, 12500 },
        { "12.50", WQ_OK, 12500 },
        { "12.500", WQ_OK, 12500 },
        { "0.001", WQ_OK, 1 },
        { "0.010", WQ_OK, 10 },
        { "0.000", WQ_OK, 0 },
        { "1.234", WQ_OK, 1234 },
        { "4294967.296", WQ_OK, UINT64_C(4294967296) },
        { "123456789", WQ_OK, UINT64_C(123456789000) },
        { "000000001", WQ_OK, 1000 },
        { "999999999", WQ_OK, UINT64_C(999999999000) },
        { "999999999.999", WQ_OK, WQ_DECIMAL_MAX },

        { "", WQ_EMPTY, 0 },
        { ".", WQ_EMPTY, 0 },
        { ".5", WQ_EMPTY, 0 },
        { "5.", WQ_EMPTY, 0 },
        { "123456789.", WQ_EMPTY, 0 },
        { "..", WQ_EMPTY, 0 },

        { "1..5", WQ_BAD_CHARACTER, 0 },
        { "1.5.", WQ_BAD_CHARACTER, 0 },
        { "1.5.2", WQ_BAD_CHARACTER, 0 },
        { "-1", WQ_BAD_CHARACTER, 0 },
        { "+1", WQ_BAD_CHARACTER, 0 },
        { " 1", WQ_BAD_CHARACTER, 0 },
        { "1 ", WQ_BAD_CHARACTER, 0 },
        { "1,5", WQ_BAD_CHARACTER, 0 },
        { "1/5", WQ_BAD_CHARACTER, 0 },
        { "1:5", WQ_BAD_CHARACTER, 0 },
        { "0x10", WQ_BAD_CHARACTER, 0 },
        { "1e3", WQ_BAD_CHARACTER, 0 },
        { "15%", WQ_BAD_CHARACTER, 0 },
        { "\xd9\xa1", WQ_BAD_CHARACTER, 0 },

        { "1000000000", WQ_TOO_LONG, 0 },
        { "0000000001", WQ_TOO_LONG, 0 },
        { "1.0000", WQ_TOO_LONG, 0 },
        { "0.1234", WQ_TOO_LONG, 0 },
        { "99999999999999999999999999", WQ_TOO_LONG, 0 },

        /* the first thing that is wrong */

        { "1234567890x", WQ_TOO_LONG, 0 },
        { "1234x567890", WQ_BAD_CHARACTER, 0 },
        { ".x", WQ_EMPTY, 0 },
        { "x.", WQ_BAD_CHARACTER, 0 },
        { "5.x", WQ_BAD_CHARACTER, 0 },
        { "1.2345.", WQ_TOO_LONG, 0 }
    };

    for (i = 0; i < unit_nitems(rows); i++) {
        rc = parse(rows[i].text, strlen(rows[i].text), &number);

        unit_ok(rc == rows[i].rc
                && number == (rc == WQ_OK ? rows[i].number : UNTOUCHED),
                "\"%s\" is %" PRIu64, rows[i].text, rows[i].number);
    }

    unit_ok(parse("1\0", 2, &number) == WQ_BAD_CHARACTER
            && number == UNTOUCHED, "a zero byte");
    unit_ok(parse("12345", 3, &number) == WQ_OK && number == 123000,
            "no more than the length");
}


/* every number there is, in steps */

static void
test_decimal_all(void)
{
    int       good;
    char      text[32];
    uint64_t  n, number;

    good = 1;

    for (n = 0; n <= WQ_DECIMAL_MAX; n += 1 + n / 500) {
        snprintf(text, sizeof(text), "%" PRIu64 ".%03" PRIu64, n / 1000,
                 n % 1000);

        good &= parse(text, strlen(text), &number) == WQ_OK && number == n;

        if (n % 1000 == 0) {
            snprintf(text, sizeof(text), "%" PRIu64, n / 1000);
            good &= parse(text, strlen(text), &number) == WQ_OK
                    && number == n;
        }
    }

    unit_ok(good, "what is written is read");
}


/* numbers in units of 1/1000 */

static wq_rc_t
plan_of(uint64_t tps, uint64_t calls, uint64_t failure, uint64_t load,
    uint64_t session_ms, wq_plan_t *plan)
{
    wq_backend_t  backend;

    backend.tps = tps;
    backend.calls = calls;
    backend.failure = failure;
    backend.load = load;
    backend.session_ms = session_ms;

    memset(plan, 0x5a, sizeof(wq_plan_t));

    return wq_rate_plan(&backend, plan);
}


static void
test_example(void)
{
    wq_plan_t  plan;

    unit_ok(plan_of(1000000, 6000, 150, 800, 300000, &plan) == WQ_OK,
            "1000 requests per second, 6 calls, 15 of 100 again, 5 minutes");
    unit_ok(plan.concurrent == 43478, "so many at once");
    unit_ok(plan.cycle_ms == 375000, "a cycle of 6 minutes and a quarter");
    unit_ok(plan.per_cycle == 54347, "so many in each");
    unit_ok(plan.rate.users == 1400 && plan.rate.period_ms == 10000,
            "1400 in 10 s");
}


static void
test_plan(void)
{
    size_t     i;
    wq_rc_t    rc;
    wq_plan_t  plan;

    static const struct {
        uint64_t  tps;
        uint64_t  calls;
        uint64_t  failure;
        uint64_t  load;
        uint64_t  session_ms;
        uint64_t  concurrent;
        uint64_t  cycle_ms;
        uint64_t  per_cycle;
        uint32_t  users;
        uint32_t  period_ms;
    } rows[] = {

        /* rounded down, each of them */

        { 1000, 3000, 0, 900, 1000, 0, 1111, 0, 10, 30000 },
        { 1000, 1000, 0, 1000, 999, 0, 999, 0, 10, 10000 },
        { 1000, 1000, 0, 1000, 1000, 1, 1000, 1, 10, 10000 },
        { 1000, 1000, 0, 1000, 1999, 1, 1999, 1, 10, 10000 },
        { 7000, 2000, 250, 300, 60000, 168, 200000, 560, 28, 10000 },

        /* a failure may be 0, and more than one */

        { 100000, 1000, 0, 500, 10000, 1000, 20000, 2000, 1000, 10000 },
        { 100000, 1000, 1000, 500, 10000, 500, 20000, 1000, 500, 10000 },
        { 100000, 1000, 9000, 500, 10000, 100, 20000, 200, 100, 10000 },

        /* parts of a call, and of a request per second */

        { 100000, 500, 0, 1000, 10000, 2000, 10000, 2000, 2000, 10000 },
        { 17, 1, 0, 1000, 1000, 17, 1000, 17, 170, 10000 },

        /* the smallest load */

        { 100000, 1000, 0, 1, 10000, 1000, 10000000, 1000000, 1000, 10000 },

        /* two digits from 100 on, rounded down */

        { 9900, 1000, 0, 1000, 1000, 9, 1000, 9, 99, 10000 },
        { 9999, 1000, 0, 1000, 1000, 9, 1000, 9, 99, 10000 },
        { 10000, 1000, 0, 1000, 1000, 10, 1000, 10, 100, 10000 },
        { 10900, 1000, 0, 1000, 1000, 10, 1000, 10, 100, 10000 },
        { 11000, 1000, 0, 1000, 1000, 11, 1000, 11, 110, 10000 },
        { 14400, 1000, 0, 1000, 1000, 14, 1000, 14, 140, 10000 },
        { 99900, 1000, 0, 1000, 1000, 99, 1000, 99, 990, 10000 },
        { 99999, 1000, 0, 1000, 1000, 99, 1000, 99, 990, 10000 },
        { 144900, 1000, 0, 1000, 1000, 144, 1000, 144, 1400, 10000 },
        { 149999, 1000, 0, 1000, 1000, 149, 1000, 149, 1400, 10000 },
        { 150000, 1000, 0, 1000, 1000, 150, 1000, 150, 1500, 10000 },

        /* the shortest period with 10 in it; 9 and a bit are not 10 */

        { 1000, 1000, 0, 1000, 1000, 1, 1000, 1, 10, 10000 },
        { 999, 1000, 0, 1000, 1000, 0, 1000, 0, 19, 20000 },
        { 500, 1000, 0, 1000, 1000, 0, 1000, 0, 10, 20000 },
        { 499, 1000, 0, 1000, 1000, 0, 1000, 0, 14, 30000 },
        { 334, 1000, 0, 1000, 1000, 0, 1000, 0, 10, 30000 },
        { 333, 1000, 0, 1000, 1000, 0, 1000, 0, 19, 60000 },
        { 167, 1000, 0, 1000, 1000, 0, 1000, 0, 10, 60000 },
        { 166, 1000, 0, 1000, 1000, 0, 1000, 0, 9, 60000 },
        { 17, 1000, 0, 1000, 1000, 0, 1000, 0, 1, 60000 },

        /* the rate is not of the rounded numbers: 1 ms holds nobody */

        { 100000, 1000, 0, 1000, 1, 0, 1, 0, 1000, 10000 },

        /* the largest rate, and the one that becomes it */

        { UINT64_C(10000000000), 1000, 0, 1000, 1000,
          10000000, 1000, 10000000, 100000000, 10000 },
        { UINT64_C(10999999999), 1000, 0, 1000, 1000,
          10999999, 1000, 10999999, 100000000, 10000 },

        /* the largest numbers */

        { WQ_DECIMAL_MAX, 1000000, 0, 1000, 1000,
          999999, 1000, 999999, 9900000, 10000 },
        { WQ_DECIMAL_MAX, 1000000000, 59998000, 1000, 1000,
          0, 1000, 0, 1, 60000 },
        { WQ_DECIMAL_MAX, WQ_DECIMAL_ONE, UINT64_C(59999999998), 1000, 1000,
          16, 1000, 16, 160, 10000 }
    };

    for (i = 0; i < unit_nitems(rows); i++) {
        rc = plan_of(rows[i].tps, rows[i].calls, rows[i].failure,
                     rows[i].load, rows[i].session_ms, &plan);

        unit_ok(rc == WQ_OK
                && plan.concurrent == rows[i].concurrent
                && plan.cycle_ms == rows[i].cycle_ms
                && plan.per_cycle == rows[i].per_cycle
                && plan.rate.users == rows[i].users
                && plan.rate.period_ms == rows[i].period_ms,
                "row %zu: %" PRIu32 " in %" PRIu32 " ms", i, rows[i].users,
                rows[i].period_ms);
    }
}


static void
test_wide(void)
{
    wq_plan_t  plan;

    /* a product of more than 64 bits whose ratio has fewer */

    unit_ok(plan_of(UINT64_C(100000000000), 100000000, 0, 1000,
                    UINT64_C(10000000000000), &plan) == WQ_OK
            && plan.concurrent == UINT64_C(10000000000000)
            && plan.per_cycle == plan.concurrent
            && plan.rate.users == 10000, "80 bits");

    /* 1 per second for all the ms there are */

    unit_ok(plan_of(1000, 1000, 0, 1000, UINT64_MAX, &plan) == WQ_OK
            && plan.cycle_ms == UINT64_MAX
            && plan.concurrent == UINT64_MAX / 1000
            && plan.per_cycle == UINT64_MAX / 1000, "the longest session");

    /* 1000 per second: as many as ms */

    unit_ok(plan_of(1000000, 1000, 0, 1000, UINT64_MAX, &plan) == WQ_OK
            && plan.concurrent == UINT64_MAX
            && plan.per_cycle == UINT64_MAX, "the largest ratio");
    unit_ok(plan_of(1000001, 1000, 0, 1000, UINT64_MAX, &plan)
            == WQ_BAD_RANGE, "one that is larger");
    unit_ok(plan_of(1000, 1000, 0, 999, UINT64_MAX, &plan) == WQ_BAD_RANGE,
            "a cycle that is longer than all ms");
    unit_ok(plan_of(1000000, 1000, 0, 500, UINT64_MAX / 2, &plan) == WQ_OK
            && plan.concurrent == UINT64_MAX / 2
            && plan.cycle_ms == UINT64_MAX - 1
            && plan.per_cycle == UINT64_MAX - 1, "one that just fits");
    unit_ok(plan_of(1000001, 1000, 0, 500, UINT64_MAX / 2, &plan)
            == WQ_BAD_RANGE, "more per cycle than can be counted");
}


static void
test_refused(void)
{
    size_t     i;
    wq_plan_t  plan, untouched;

    static const struct {
        const char  *name;
        uint64_t     tps;
        uint64_t     calls;
        uint64_t     failure;
        uint64_t     load;
        uint64_t     session_ms;
    } rows[] = {
        { "no requests", 0, 6000, 150, 800, 300000 },
        { "no calls", 1000000, 0, 150, 800, 300000 },
        { "no load", 1000000, 6000, 150, 0, 300000 },
        { "no session", 1000000, 6000, 150, 800, 0 },
        { "more than all of the load", 1000000, 6000, 150, 1001, 300000 },
        { "any load", 1000000, 6000, 150, UINT64_MAX, 300000 },
        { "less than 1 per minute", 16, 1000, 0, 1000, 300000 },
        { "the lowest", 1, WQ_DECIMAL_MAX, WQ_DECIMAL_MAX, 1000, 300000 },
        { "less than 1 of the most", WQ_DECIMAL_MAX, 1000000000, 59999000, 1000,
          300000 },
        { "more than the most", UINT64_C(11000000000), 1000, 0, 1000, 1000 },
        { "more than 32 bits", UINT64_C(429496729700), 1000, 0, 1000, 1000 },
        { "all at once", WQ_DECIMAL_MAX, 1, 0, 1000, 300000 },
        { "requests above", WQ_DECIMAL_MAX + 1, 1000000000, 0, 1000, 1 },
        { "calls above", WQ_DECIMAL_MAX, WQ_DECIMAL_MAX + 1, 0, 1000, 1 },
        { "failure above", WQ_DECIMAL_MAX, 1, WQ_DECIMAL_MAX + 1, 1000, 1 },
        { "any number of requests", UINT64_MAX, 1000, 0, 1000, 1000 },
        { "any number of calls", 1000000, UINT64_MAX, 0, 1000, 1000 },
        { "any failure", 1000000, 6000, UINT64_MAX, 1000, 1000 },
        { "a failure that would wrap", 1000000, 6000, UINT64_MAX - 999, 1000,
          1000 },
        { "all of it", UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX,
          UINT64_MAX }
    };

    memset(&untouched, 0x5a, sizeof(untouched));

    for (i = 0; i < unit_nitems(rows); i++) {
        unit_ok(plan_of(rows[i].tps, rows[i].calls, rows[i].failure,
                        rows[i].load, rows[i].session_ms, &plan)
                == WQ_BAD_RANGE
                && memcmp(&plan, &untouched, sizeof(plan)) == 0,
                "%s", rows[i].name);
    }

    /* with failure, a product of which only a part would be left over */

    unit_ok(plan_of(WQ_DECIMAL_MAX, UINT64_C(1) << 39,
                    (UINT64_C(1) << 39) - 1000, 1000, 1000, &plan)
            == WQ_BAD_RANGE, "2 to the 78");
}


int
main(void)
{
    test_decimal();
    test_decimal_all();
    test_example();
    test_plan();
    test_wide();
    test_refused();

    return unit_done();
}
