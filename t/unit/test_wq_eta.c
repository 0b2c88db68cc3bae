
/*
 * unit tests: how long the line takes.  How near that comes to the truth is
 * the matter of test_wq_eta_replay.c.
 */


#include <inttypes.h>
#include <math.h>

#include "unit.h"
#include "wq_eta.h"


#define SECOND  ((uint64_t) 1000)
#define MINUTE  (60 * SECOND)

/* any: nothing may depend on when nginx was started */
#define START   ((uint64_t) 1234567)


static int
near(double value, double expected)
{
    return fabs(value - expected) <= 1e-9 * fabs(expected);
}


/* a line that goes on evenly: so much more at each look */

typedef struct {
    wq_flow_t  flow;
    uint64_t   now;
    wq_look_t  look;
} line_t;


static void
begin(line_t *line, uint64_t waiting)
{
    memset(line, 0, sizeof(line_t));
    line->now = START;
    line->look.promoted = 77;
    line->look.gave_up = 33;
    line->look.waiting = waiting;

    wq_flow_look(&line->flow, line->now, &line->look);
}


static void
run(line_t *line, uint64_t looks, uint64_t every, uint64_t let_in,
    uint64_t gave_up)
{
    while (looks--) {
        line->now += every;
        line->look.promoted += let_in;
        line->look.gave_up += gave_up;
        wq_flow_look(&line->flow, line->now, &line->look);
    }
}


static wq_speed_t
speed_at(const line_t *line, uint64_t now)
{
    wq_speed_t  speed;

    memset(&speed, 0x5a, sizeof(speed));
    wq_flow_speed(&line->flow, now, &speed);

    return speed;
}


static double
let_in(const line_t *line)
{
    return speed_at(line, line->now).let_in;
}


static double
gave_up(const line_t *line)
{
    return speed_at(line, line->now).gave_up;
}


/* all zeros, and nothing else */

static int
is_unknown(const line_t *line, uint64_t now)
{
    wq_speed_t  speed;

    speed = speed_at(line, now);

    return speed.let_in == 0 && speed.gave_up == 0;
}


static int64_t
eta_of_speed(double in, double up, uint64_t position)
{
    wq_pace_t  pace;

    memset(&pace, 0, sizeof(pace));
    pace.speed.let_in = in;
    pace.speed.gave_up = up;

    return wq_eta(&pace, position);
}


static int64_t
eta_of_rate(uint32_t users, uint32_t period_ms, uint64_t position)
{
    wq_pace_t  pace;

    memset(&pace, 0, sizeof(pace));
    pace.rate.users = users;
    pace.rate.period_ms = period_ms;

    return wq_eta(&pace, position);
}


static void
test_rate(void)
{
    size_t  i;

    static const struct {
        uint32_t  users;
        uint32_t  period_ms;
        uint64_t  position;
        int64_t   seconds;
    } rows[] = {
        { 1400, 10000, 1, 10 },
        { 1400, 10000, 1399, 10 },
        { 1400, 10000, 1400, 10 },
        { 1400, 10000, 1401, 20 },
        { 1400, 10000, 2800, 20 },
        { 1400, 10000, 2801, 30 },
        { 1400, 10000, 54347, 390 },
        { 1400, 10000, 0, 0 },
        { 1, 60000, 1, 60 },
        { 1, 60000, 2, 120 },

        /* up to whole seconds, after all periods and not in each */

        { 1, 1500, 1, 2 },
        { 1, 1500, 2, 3 },
        { 1, 1500, 3, 5 },
        { 1, 1001, 1, 2 },
        { 1, 1000, 1, 1 },
        { 1, 999, 1, 1 },
        { 1, 1, 1, 1 },
        { 1, 1, 1000, 1 },
        { 1, 1, 1001, 2 },

        /* up to a week, and no further */

        { 1, 86400000, 7, WQ_ETA_MAX },
        { 1, 86400000, 8, WQ_ETA_UNKNOWN },
        { 1, 1, 604800000, WQ_ETA_MAX },
        { 1, 1, 604800001, WQ_ETA_UNKNOWN },
        { 1000, 1, UINT64_C(604800000000), WQ_ETA_MAX },
        { 1000, 1, UINT64_C(604800000001), WQ_ETA_UNKNOWN },
        { 1, 604800000, 1, WQ_ETA_MAX },
        { 1, 604800001, 1, WQ_ETA_UNKNOWN },

        /* any numbers */

        { 1, 1, UINT64_MAX, WQ_ETA_UNKNOWN },
        { UINT32_MAX, 1, UINT64_MAX, WQ_ETA_UNKNOWN },
        { UINT32_MAX, UINT32_MAX, UINT64_MAX, WQ_ETA_UNKNOWN },
        { UINT32_MAX, UINT32_MAX, 1, WQ_ETA_UNKNOWN },
        { UINT32_MAX, 1, UINT32_MAX, 1 },
        { UINT32_MAX, 1000, (uint64_t) UINT32_MAX + 1, 2 },
        { WQ_RATE_USERS_MAX, WQ_RATE_PERIOD_MAX, WQ_RATE_USERS_MAX, 86400 },

        /* nobody in any time at all */

        { 0, 10000, 1, WQ_ETA_UNKNOWN },
        { 0, 10000, 0, WQ_ETA_UNKNOWN },
        { 0, 0, 1, WQ_ETA_UNKNOWN },
        { 10, 0, 1, WQ_ETA_UNKNOWN }
    };

    for (i = 0; i < unit_nitems(rows); i++) {
        unit_ok(eta_of_rate(rows[i].users, rows[i].period_ms,
                            rows[i].position)
                == rows[i].seconds,
                "%" PRIu32 " in %" PRIu32 " ms: at %" PRIu64 " it is %"
                PRId64, rows[i].users, rows[i].period_ms, rows[i].position,
                rows[i].seconds);
    }
}


static void
test_speed(void)
{
    size_t  i;

    static const struct {
        double    let_in;
        double    gave_up;
        uint64_t  position;
        int64_t   seconds;
    } rows[] = {
        { 2, 0, 0, 0 },
        { 2, 0, 1, 1 },
        { 2, 0, 2, 1 },
        { 2, 0, 3, 2 },
        { 2, 0, 1000, 500 },
        { 0.5, 0, 1, 2 },
        { 0.25, 0, 1000, 4000 },
        { 0.3, 0, 1, 4 },
        { 1000, 0, 1, 1 },

        /* ln(1 + g * p / L) / g */

        { 1, 0.001, 1000, 694 },
        { 1, 0.001, 1, 1 },
        { 1, 0.001, 2, 2 },
        { 2, 0.001, 1000, 406 },
        { 0.5, 0.001, 1000, 1099 },
        { 1, 0.01, 1000, 240 },
        { 1, 1, 1000000, 14 },
        { 2.25, 1.0 / 900, 20000, 2148 },

        { 1, 1e-7, 500000, 487902 },

        /* so rare that it makes no difference, however rare it is */

        { 1, 1e-12, 1000, 1000 },
        { 1, 1e-14, 604800, WQ_ETA_MAX },
        { 1, 1e-15, 604800, WQ_ETA_MAX },
        { 1, 1e-16, 1000, 1000 },
        { 1, 1e-300, 1000, 1000 },
        { 3, 5e-324, 1000, 334 },

        /* up to a week, and no further */

        { 1, 0, 604800, WQ_ETA_MAX },
        { 1, 0, 604801, WQ_ETA_UNKNOWN },
        { 1, 0.00001, 42226500, WQ_ETA_MAX },
        { 1, 0.00001, 42226600, WQ_ETA_UNKNOWN },
        { 1e-300, 0, 1, WQ_ETA_UNKNOWN },
        { 5e-324, 0, UINT64_MAX, WQ_ETA_UNKNOWN },
        { 5e-324, 1e300, UINT64_MAX, WQ_ETA_UNKNOWN },
        { 1e300, 1e300, UINT64_MAX, 1 },
        { 1, 0, UINT64_MAX, WQ_ETA_UNKNOWN },

        /* not known, and no speeds */

        { 0, 0, 1, WQ_ETA_UNKNOWN },
        { 0, 0, 0, WQ_ETA_UNKNOWN },
        { 0, 0.001, 1, WQ_ETA_UNKNOWN },
        { -1, 0, 1, WQ_ETA_UNKNOWN },
        { -1, -1, 1, WQ_ETA_UNKNOWN },
        { 1, -1, 1, WQ_ETA_UNKNOWN },
        { 1, -1e-300, 1, WQ_ETA_UNKNOWN },
        { NAN, 0, 1, WQ_ETA_UNKNOWN },
        { 1, NAN, 1, WQ_ETA_UNKNOWN },
        { INFINITY, 0, 1, WQ_ETA_UNKNOWN },
        { 1, INFINITY, 1, WQ_ETA_UNKNOWN }
    };

    for (i = 0; i < unit_nitems(rows); i++) {
        unit_ok(eta_of_speed(rows[i].let_in, rows[i].gave_up,
                             rows[i].position)
                == rows[i].seconds,
                "%g let in, %g gave up: at %" PRIu64 " it is %" PRId64,
                rows[i].let_in, rows[i].gave_up, rows[i].position,
                rows[i].seconds);
    }
}


/* the formula is what the model does, second by second */

static void
test_model(void)
{
    size_t  i;
    double  p, time;

    static const struct {
        double    let_in;
        double    gave_up;
        uint64_t  position;
    } rows[] = {
        { 2, 0, 5000 },
        { 2, 0.0005, 5000 },
        { 2, 0.005, 50000 },
        { 0.05, 0.0002, 300 },
        { 140, 0.001, 100000 }
    };

    for (i = 0; i < unit_nitems(rows); i++) {
        p = (double) rows[i].position;

        for (time = 0; p > 0; time += 0.01) {
            p -= (rows[i].let_in + rows[i].gave_up * p) * 0.01;
        }

        unit_ok(fabs((double) eta_of_speed(rows[i].let_in, rows[i].gave_up,
                                           rows[i].position)
                     - time)
                < 1.1,
                "%g let in, %g gave up: so it is", rows[i].let_in,
                rows[i].gave_up);
    }
}


static void
test_both(void)
{
    size_t     i;
    wq_pace_t  pace;

    static const struct {
        const char  *name;
        wq_pace_t    pace;
        uint64_t     position;
        int64_t      seconds;
    } rows[] = {
        { "slots are free", { { 10, 10000 }, { 0.5, 0 }, 0, 0 }, 100, 100 },
        { "crowded, and slower",
          { { 10, 10000 }, { 0.5, 0 }, 0, 1 }, 100, 200 },
        { "crowded, and slower, as some give up",
          { { 10, 10000 }, { 0.5, 0.001 }, 0, 1 }, 100, 183 },
        { "crowded, and faster", { { 10, 10000 }, { 5, 0 }, 0, 1 }, 100, 100 },
        { "crowded, and just as fast",
          { { 10, 10000 }, { 1, 0 }, 0, 1 }, 100, 100 },
        { "crowded, nothing seen",
          { { 10, 10000 }, { 0, 0 }, 0, 1 }, 100, 100 },
        { "crowded, nonsense seen",
          { { 10, 10000 }, { NAN, 0 }, 0, 1 }, 100, 100 },
        { "crowded, all give up at once",
          { { 10, 10000 }, { 1, INFINITY }, 0, 1 }, 100, 100 },
        { "crowded, and very slow",
          { { 10, 10000 }, { 1e-6, 0 }, 0, 1 }, 100, WQ_ETA_UNKNOWN },
        { "very slow if it were crowded",
          { { 10, 10000 }, { 1e-6, 0 }, 0, 0 }, 100, 100 },
        { "crowded, and a rate that is very slow",
          { { 1, 86400000 }, { 5, 0 }, 0, 1 }, 100, WQ_ETA_UNKNOWN },
        { "crowded, and nobody by the rate",
          { { 0, 10000 }, { 5, 0 }, 0, 1 }, 100, WQ_ETA_UNKNOWN },
        { "nobody by the rate",
          { { 0, 10000 }, { 5, 0 }, 0, 0 }, 100, WQ_ETA_UNKNOWN },
        { "no rate", { { 0, 0 }, { 5, 0 }, 0, 0 }, 100, 20 },
        { "no rate, though users", { { 9, 0 }, { 5, 0 }, 0, 0 }, 100, 20 },
        { "no rate, crowded", { { 0, 0 }, { 5, 0 }, 0, 1 }, 100, 20 }
    };

    for (i = 0; i < unit_nitems(rows); i++) {
        pace = rows[i].pace;

        unit_ok(wq_eta(&pace, rows[i].position) == rows[i].seconds, "%s",
                rows[i].name);

        pace.halted = 1;

        unit_ok(wq_eta(&pace, rows[i].position) == WQ_ETA_UNKNOWN,
                "%s, and halted", rows[i].name);
    }
}


static void
test_no_basis(void)
{
    line_t  line;

    unit_ok(sizeof(wq_flow_t) <= 160, "a flow is small");

    memset(&line, 0, sizeof(line));
    unit_ok(is_unknown(&line, START), "nobody has looked");
    unit_ok(is_unknown(&line, 0), "nor at the beginning");
    unit_ok(is_unknown(&line, UINT64_MAX), "nor at the end");

    begin(&line, 100);
    unit_ok(is_unknown(&line, line.now),
            "what was counted before the first look says nothing");

    run(&line, 1, 0, 1000, 0);
    unit_ok(is_unknown(&line, line.now), "nor does more at the same moment");

    begin(&line, 100);
    run(&line, 100, SECOND, 0, 1);
    unit_ok(is_unknown(&line, line.now), "nobody was let in");

    begin(&line, 100);
    run(&line, 9, SECOND, 10, 0);
    unit_ok(is_unknown(&line, line.now), "9 s are no basis");
    run(&line, 1, SECOND, 10, 0);
    unit_ok(is_unknown(&line, line.now), "nor 10, a little of which is gone");
    run(&line, 1, SECOND, 10, 0);
    unit_ok(near(let_in(&line), 10), "11 are one");

    begin(&line, 100);
    run(&line, 4, 10 * SECOND, 1, 0);
    unit_ok(is_unknown(&line, line.now), "4 let in are no basis");
    run(&line, 1, 10 * SECOND, 1, 0);
    unit_ok(is_unknown(&line, line.now), "nor 5, a little of which is gone");
    run(&line, 1, 10 * SECOND, 1, 0);
    unit_ok(near(let_in(&line), 0.1), "6 are one");
}


static void
test_steady(void)
{
    int       good, up;
    size_t    i;
    line_t    line;

    static const struct {
        uint64_t  every;
        uint64_t  let_in;
        uint64_t  gave_up;
        uint64_t  waiting;
    } rows[] = {
        { 1000, 1, 0, 10 },
        { 1000, 2, 1, 1000 },
        { 1000, 1400, 7, 100000 },
        { 100, 1, 1, 500 },
        { 1, 1, 1, 500 },
        { 5000, 1, 3, 1 },
        { 10000, 1, 0, 1 },
        { 30000, 1, 1, 20 },
        { 60000, 1, 1, 20 },
        { 300000, 2, 1, 20 }
    };

    for (i = 0; i < unit_nitems(rows); i++) {
        begin(&line, rows[i].waiting);
        run(&line, 10 + 15000 / rows[i].every, rows[i].every, rows[i].let_in,
            rows[i].gave_up);

        good = 1;
        up = 1;

        while (line.now < START + 60 * MINUTE) {
            run(&line, 1, rows[i].every, rows[i].let_in, rows[i].gave_up);

            good &= near(let_in(&line), (double) rows[i].let_in * 1000
                                        / (double) rows[i].every);
            up &= near(gave_up(&line), (double) rows[i].gave_up * 1000
                                       / (double) rows[i].every
                                       / (double) rows[i].waiting);
        }

        unit_ok(good, "%" PRIu64 " let in in %" PRIu64 " ms", rows[i].let_in,
                rows[i].every);
        unit_ok(up, "%" PRIu64 " of %" PRIu64 " gave up", rows[i].gave_up,
                rows[i].waiting);
    }

    /* in another rhythm it is the same */

    begin(&line, 100);
    good = 1;

    for (i = 0; i < 600; i++) {
        run(&line, 1, SECOND, 2, 1);
        run(&line, 1, 20 * SECOND, 40, 20);
        run(&line, 7, 500, 1, 0);
        run(&line, 1, 500, 1, 4);

        good &= near(let_in(&line), 2);
    }

    unit_ok(good, "whenever one looks");
}


/* users times seconds: in between it is taken to grow evenly */

static void
test_waited(void)
{
    line_t  line;

    begin(&line, 100);
    line.look.waiting = 300;
    run(&line, 1, 20 * SECOND, 10, 40);
    unit_ok(near(gave_up(&line), 40.0 / (200 * 20)), "100 ... 300");

    line.look.waiting = 0;
    run(&line, 1, 20 * SECOND, 10, 0);

    line.look.waiting = 1000;
    run(&line, 1, 1000 * SECOND / 10, 0, 5000);
    unit_ok(gave_up(&line) < 40.0 / (200 * 20),
            "who gives up where nobody waited does not count");

    /* nobody: it is 0, and stays 0 */

    begin(&line, 100);
    run(&line, 3600, SECOND, 1, 0);
    unit_ok(let_in(&line) > 0 && gave_up(&line) == 0, "nobody gives up");
}


static void
test_no_time_of_the_line(void)
{
    line_t      line;
    wq_speed_t  before, after;

    begin(&line, 0);
    run(&line, 100, SECOND, 10, 1);
    unit_ok(is_unknown(&line, line.now), "nobody waits");

    /* the look at which the first one waits is the first */

    line.look.waiting = 5;
    run(&line, 1, 20 * SECOND, 1000, 0);
    unit_ok(is_unknown(&line, line.now), "nobody waited at the beginning");

    line.look.waiting = 0;
    run(&line, 1, 20 * SECOND, 60, 0);
    unit_ok(near(let_in(&line), 3), "somebody did, and nobody at the end");

    before = speed_at(&line, line.now);
    run(&line, 20, SECOND, 1000, 50);
    after = speed_at(&line, line.now);
    unit_ok(after.let_in < before.let_in * 1.000001
            && after.let_in > before.let_in * 0.999999,
            "while nobody waits the speed stays");

    /* halted: not what is before it, nor while it is, nor after it */

    begin(&line, 100);
    run(&line, 60, SECOND, 2, 1);
    before = speed_at(&line, line.now);

    line.look.halted = 1;
    run(&line, 1, SECOND, 500, 100);
    run(&line, 10, SECOND, 500, 100);
    line.look.halted = 0;
    run(&line, 1, SECOND, 500, 100);
    after = speed_at(&line, line.now);

    unit_ok(near(after.let_in, before.let_in)
            && near(after.gave_up, before.gave_up),
            "halted is no time of the line");

    run(&line, 60, SECOND, 2, 1);
    unit_ok(near(let_in(&line), 2), "and then it goes on");

    line.look.halted = 1;
    run(&line, 30, MINUTE, 0, 0);
    unit_ok(near(let_in(&line), 2), "halted for half an hour");
    run(&line, 120, MINUTE, 0, 0);
    unit_ok(is_unknown(&line, line.now), "what was seen is forgotten at last");
}


static void
test_change(void)
{
    int       falls, rises;
    line_t    line;
    double    speed, last;
    uint64_t  i;

    /* the more there is to see, the sooner it is seen */

    begin(&line, 10000);
    run(&line, 3600, SECOND, 10, 0);

    rises = 1;
    last = let_in(&line);

    for (i = 0; i < 180; i++) {
        run(&line, 1, SECOND, 40, 0);
        speed = let_in(&line);
        rises &= speed > last && speed < 40;
        last = speed;
    }

    unit_ok(rises, "it rises when more are let in");
    unit_ok(last > 37, "to nearly all of it in 3 minutes");

    falls = 1;

    for (i = 0; i < 240; i++) {
        run(&line, 1, SECOND, 10, 0);
        speed = let_in(&line);
        falls &= speed < last && speed > 10;
        last = speed;
    }

    unit_ok(falls && last < 11, "it falls when less are");

    /* where there is little to see, a minute means little */

    begin(&line, 10000);
    run(&line, 360, 10 * SECOND, 1, 0);
    run(&line, 6, 10 * SECOND, 2, 0);
    unit_ok(let_in(&line) > 0.1 && let_in(&line) < 0.13,
            "6 more in a minute may be chance");

    /* and so for those who give up */

    begin(&line, 1000);
    run(&line, 3600, SECOND, 1, 1);
    run(&line, 180, SECOND, 1, 4);
    unit_ok(gave_up(&line) > 0.0033 && gave_up(&line) < 0.004,
            "more give up");

    begin(&line, 1000);
    run(&line, 360, 10 * SECOND, 1, 1);
    run(&line, 6, 10 * SECOND, 1, 2);
    unit_ok(gave_up(&line) > 0.0001 && gave_up(&line) < 0.00013,
            "6 more who do may be chance");
}


/* nobody is let in any more: slower with each look, and at last not known */

static void
test_stall(void)
{
    int         falls, later;
    line_t      line;
    double      speed, last;
    int64_t     eta, before;
    uint64_t    i;
    wq_speed_t  s;

    begin(&line, 10000);
    run(&line, 3600, SECOND, 2, 1);

    last = let_in(&line);
    before = eta_of_speed(last, gave_up(&line), 1000);
    falls = 1;
    later = 1;

    for (i = 0; i < 600; i++) {
        run(&line, 1, SECOND, 0, 1);
        s = speed_at(&line, line.now);
        speed = s.let_in;
        falls &= speed > 0 && speed < last;
        last = speed;

        eta = eta_of_speed(s.let_in, s.gave_up, 1000);
        later &= eta >= before;
        before = eta;

        if (i == 59) {
            unit_ok(speed > 0.9 && speed < 1.5, "after a minute");
        }
    }

    unit_ok(falls, "it falls all the time");
    unit_ok(later, "and it takes longer and longer");
    unit_ok(last < 0.4, "after 10 minutes");

    run(&line, 1, 1, 0, 0);
    unit_ok(is_unknown(&line, line.now), "longer is not known");
    run(&line, 3600, SECOND, 0, 0);
    unit_ok(is_unknown(&line, line.now), "nor ever");

    run(&line, 1, SECOND, 1, 0);
    unit_ok(let_in(&line) > 0, "until one is let in again");

    /* a line that always was so slow: 3 minutes for each */

    begin(&line, 100);
    run(&line, 60, 3 * MINUTE, 1, 0);

    run(&line, 4, 3 * MINUTE, 0, 0);
    unit_ok(let_in(&line) > 0, "12 minutes are not long for a slow line");

    run(&line, 5, MINUTE, 0, 0);
    unit_ok(let_in(&line) > 0 && let_in(&line) < 1.0 / 180,
            "for it is slower by that, too");

    run(&line, 60, MINUTE, 0, 0);
    unit_ok(is_unknown(&line, line.now), "but more than an hour is");

    /* a pause in which it moved; and time that is none of the line */

    begin(&line, 1000);
    run(&line, 600, SECOND, 2, 0);
    run(&line, 599, SECOND, 0, 0);
    run(&line, 1, WQ_FLOW_PAUSE + 1, 50, 0);
    run(&line, 2, SECOND, 0, 0);
    unit_ok(let_in(&line) > 0, "it moved in the pause");

    begin(&line, 1000);
    run(&line, 600, SECOND, 2, 0);
    run(&line, 599, SECOND, 0, 0);
    run(&line, 1, SECOND, (uint64_t) -1, 0);
    run(&line, 2, SECOND, 0, 0);
    unit_ok(is_unknown(&line, line.now), "a counter that falls is no move");

    begin(&line, 1000);
    run(&line, 600, SECOND, 2, 0);
    line.look.halted = 1;
    run(&line, 900, SECOND, 0, 0);
    line.look.halted = 0;
    run(&line, 10, SECOND, 0, 0);
    unit_ok(let_in(&line) > 0, "halted is not stalled");
}


static void
test_age(void)
{
    line_t  line;

    begin(&line, 100);
    run(&line, 100, SECOND, 2, 0);

    unit_ok(!is_unknown(&line, line.now), "just looked at");
    unit_ok(near(speed_at(&line, line.now + WQ_FLOW_AGE).let_in, 2),
            "looked at a minute ago");
    unit_ok(is_unknown(&line, line.now + WQ_FLOW_AGE + 1),
            "longer ago is out of date");
    unit_ok(is_unknown(&line, UINT64_MAX), "for ever");

    unit_ok(near(speed_at(&line, line.now - 1).let_in, 2), "before the look");
    unit_ok(near(speed_at(&line, 0).let_in, 2), "even at 0");
    unit_ok(near(let_in(&line), 2), "to ask changes nothing");
}


static void
test_clock(void)
{
    int       good;
    line_t    line;
    uint64_t  i, back;

    /* each process has read the clock at another moment */

    begin(&line, 100);
    good = 1;

    for (i = 0; i < 600; i++) {
        run(&line, 1, SECOND, 3, 1);

        back = (i * 2654435761u) % 10001;
        line.look.promoted += 2;
        wq_flow_look(&line.flow, line.now - back, &line.look);

        good &= i < 60 || fabs(let_in(&line) - 5) < 0.05;
    }

    unit_ok(good, "a little back is no time passed");

    unit_ok(line.flow.time_ms == line.now, "the later clock is the clock");
    wq_flow_look(&line.flow, line.now - WQ_FLOW_SKEW, &line.look);
    unit_ok(line.flow.time_ms == line.now, "10 s are a little");

    /* set back: what is between is not counted, what was before stays */

    line.now -= WQ_FLOW_SKEW + 1;
    run(&line, 1, 0, 100000, 100000);
    unit_ok(line.flow.time_ms == line.now && fabs(let_in(&line) - 5) < 0.05,
            "more is a clock that was set back");

    run(&line, 60, SECOND, 5, 1);
    unit_ok(fabs(let_in(&line) - 5) < 0.05, "from then on it is counted");

    line.now = 1;
    run(&line, 1, 0, 100000, 100000);
    run(&line, 60, SECOND, 5, 1);
    unit_ok(fabs(let_in(&line) - 5) < 0.05, "set back to the beginning");

    /* at the end of all time nothing wraps */

    memset(&line, 0, sizeof(line));
    line.look.waiting = 100;
    line.now = UINT64_MAX - 20 * SECOND;
    wq_flow_look(&line.flow, line.now, &line.look);
    run(&line, 20, SECOND, 2, 0);
    unit_ok(near(let_in(&line), 2), "up to the last moment");

    wq_flow_look(&line.flow, UINT64_MAX - 5 * SECOND, &line.look);
    unit_ok(line.flow.time_ms == UINT64_MAX, "a little back from there");
}


static void
test_pauses(void)
{
    line_t  line;

    begin(&line, 100);
    run(&line, 60, SECOND, 2, 0);
    run(&line, 1, WQ_FLOW_PAUSE, 600, 0);
    unit_ok(near(let_in(&line), 2), "5 minutes are counted");

    run(&line, 1, WQ_FLOW_PAUSE, 6000, 0);
    unit_ok(let_in(&line) > 10, "and count");

    begin(&line, 100);
    run(&line, 60, SECOND, 2, 0);
    run(&line, 1, WQ_FLOW_PAUSE + 1, 6000, 600);
    unit_ok(near(let_in(&line), 2) && gave_up(&line) == 0, "more are not");

    run(&line, 60, SECOND, 2, 0);
    unit_ok(near(let_in(&line), 2), "and then it goes on");

    run(&line, 1, 240 * MINUTE, 6000, 600);
    unit_ok(is_unknown(&line, line.now), "after hours all is forgotten");

    run(&line, 1, UINT64_MAX - line.now, 6000, 600);
    unit_ok(is_unknown(&line, line.now), "in all the time there is, too");
}


static void
test_fallen(void)
{
    line_t  line;

    begin(&line, 100);
    run(&line, 60, SECOND, 2, 1);

    /* Redis has lost its data */

    line.look.promoted = 0;
    run(&line, 1, SECOND, 0, 50);
    unit_ok(near(let_in(&line), 2) && near(gave_up(&line), 0.01),
            "fewer let in: not counted");

    line.look.gave_up = 0;
    run(&line, 1, SECOND, 50, 0);
    unit_ok(near(let_in(&line), 2) && near(gave_up(&line), 0.01),
            "fewer who gave up: not counted");

    line.look.promoted -= 3;
    run(&line, 1, SECOND, 2, 50);
    unit_ok(near(let_in(&line), 2) && near(gave_up(&line), 0.01),
            "by one too");

    run(&line, 60, SECOND, 2, 1);
    unit_ok(near(let_in(&line), 2) && near(gave_up(&line), 0.01),
            "and then it goes on");

    run(&line, 100, SECOND, (uint64_t) -1, 0);
    unit_ok(let_in(&line) < 2.000001 && let_in(&line) > 1.999999,
            "one that always falls");
}


/*
 * Any looks, against all that was ever counted: each interval remembered, and
 * what is left of it computed from its two ends.
 */

#define MAX_SEEN  4000

typedef struct {
    double  from;               /* seconds that have passed since any moment */
    double  to;
    double  let_in;
    double  gave_up;
    double  waited;
} seen_t;


static double
left(double from, double to, double now, double span)
{
    if (to - from == 0) {
        return exp((to - now) / span);
    }

    return span * (exp((to - now) / span) - exp((from - now) / span))
           / (to - from);
}


static int
agrees(const seen_t *seen, size_t n, double now, const wq_flow_t *flow)
{
    size_t  i, k;
    double  sums[4], part;

    static const double  spans[] = { 60, 300, 1800 };

    for (k = 0; k < 3; k++) {
        memset(sums, 0, sizeof(sums));

        for (i = 0; i < n; i++) {
            part = left(seen[i].from, seen[i].to, now, spans[k]);

            sums[0] += part * (seen[i].to - seen[i].from);
            sums[1] += part * seen[i].let_in;
            sums[2] += part * seen[i].gave_up;
            sums[3] += part * seen[i].waited;
        }

        if (fabs(sums[0] - flow->spans[k].seconds) > 1e-6 * (1 + sums[0])
            || fabs(sums[1] - flow->spans[k].let_in) > 1e-6 * (1 + sums[1])
            || fabs(sums[2] - flow->spans[k].gave_up) > 1e-6 * (1 + sums[2])
            || fabs(sums[3] - flow->spans[k].waited) > 1e-6 * (1 + sums[3]))
        {
            return 0;
        }
    }

    return 1;
}


static void
test_any(void)
{
    int        good, halted;
    double     passed, ms;
    seen_t    *seen;
    size_t     n;
    unsigned   seed, i;
    uint64_t   random, time, step;
    wq_flow_t  flow;
    wq_look_t  look, last;

    seen = malloc(MAX_SEEN * sizeof(seen_t));

    for (seed = 1; seed <= 20; seed++) {
        memset(&flow, 0, sizeof(flow));
        memset(&look, 0, sizeof(look));
        last = look;
        halted = 1;
        n = 0;
        time = START;
        passed = 0;
        good = 1;
        random = seed;

        for (i = 0; i < MAX_SEEN; i++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            step = (random >> 40) % (100 * (1 + seed * seed));
            ms = 0;

            look.promoted += (random >> 50) % 10;
            look.gave_up += (random >> 54) % 3;
            look.waiting = (random >> 45) % 50;
            look.halted = (random >> 33) % 10 == 0;

            switch ((random >> 33) % 500) {

            case 1:
                look.promoted /= 2;
                break;

            case 2:
                look.gave_up /= 2;
                break;

            case 3:
                step = 200000 + (random >> 40) % 200000;
                break;

            case 4:
                step = 0;
                break;

            case 5:
                step = 0 - (random >> 40) % 10001;
                break;

            case 6:
                step = 0 - 10001 - (random >> 40) % 20000;
                break;
            }

            wq_flow_look(&flow, time + step, &look);

            /* a clock that is set back far is a beginning at another time */

            if (i == 0 || (int64_t) step > 0) {
                time += step;
                ms = i ? (double) step : 0;

            } else if ((int64_t) step < -10000) {
                time += step;
                halted = 1;
            }

            if (!halted && !look.halted && last.waiting > 0
                && look.promoted >= last.promoted
                && look.gave_up >= last.gave_up && ms <= 300000)
            {
                seen[n].from = passed;
                seen[n].to = passed + ms / 1000;
                seen[n].let_in = (double) (look.promoted - last.promoted);
                seen[n].gave_up = (double) (look.gave_up - last.gave_up);
                seen[n].waited = (double) (look.waiting + last.waiting)
                                 / 2000 * ms;
                n++;
            }

            passed += ms / 1000;
            last = look;
            halted = look.halted != 0;

            if (i % 50 == 49) {
                good &= agrees(seen, n, passed, &flow);
            }
        }

        unit_ok(good && n > MAX_SEEN / 2, "any looks, seed %u", seed);
    }

    free(seen);
}


/* counters that are no counters: whatever comes of it is a number */

static void
test_garbage(void)
{
    int         good;
    size_t      k;
    int64_t     eta;
    unsigned    seed, i;
    uint64_t    random, now;
    wq_flow_t   flow;
    wq_look_t   look;
    wq_pace_t   pace;

    static const uint64_t  odd[] = {
        0, 1, UINT64_MAX, UINT64_MAX - 1, (uint64_t) 1 << 63, 1000000, 5, 60000
    };

    for (seed = 1; seed <= 10; seed++) {
        memset(&flow, 0, sizeof(flow));
        memset(&pace, 0, sizeof(pace));
        good = 1;
        random = seed;
        now = 0;

        for (i = 0; i < 20000; i++) {
            random = random * 6364136223846793005u + 1442695040888963407u;

            look.promoted = odd[(random >> 33) % 8];
            look.gave_up = odd[(random >> 37) % 8];
            look.waiting = odd[(random >> 41) % 8];
            look.halted = (random >> 45) % 16 == 0;

            now = (random >> 50) % 64 == 0 ? odd[(random >> 57) % 8]
                                           : now + (random >> 57) * 100;

            wq_flow_look(&flow, now, &look);
            wq_flow_speed(&flow, now, &pace.speed);

            good &= isfinite(pace.speed.let_in) && pace.speed.let_in >= 0
                    && isfinite(pace.speed.gave_up)
                    && pace.speed.gave_up >= 0;

            for (k = 0; k < 3; k++) {
                good &= isfinite(flow.spans[k].waited)
                        && flow.spans[k].waited >= 0
                        && flow.spans[k].seconds >= 0
                        && flow.spans[k].seconds <= 1800.001;
            }

            for (k = 0; k < 8; k++) {
                eta = wq_eta(&pace, odd[k]);
                good &= eta >= WQ_ETA_UNKNOWN && eta <= WQ_ETA_MAX;
            }
        }

        unit_ok(good, "garbage, seed %u", seed);
    }
}


int
main(void)
{
    test_rate();
    test_speed();
    test_model();
    test_both();
    test_no_basis();
    test_steady();
    test_waited();
    test_no_time_of_the_line();
    test_change();
    test_stall();
    test_age();
    test_clock();
    test_pauses();
    test_fallen();
    test_any();
    test_garbage();

    return unit_done();
}
