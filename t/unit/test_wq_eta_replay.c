
/*
 * unit tests: how far the waiting times told in a sale are from those that
 * came true.
 *
 * Replays the flows of t/unit/flows (util/simulate-sale.pl describes them) and
 * asks at each of their moments.  The error is |told - true| / true; that
 * nothing is told is an error of 100 %.  Another guess, the position by the
 * average since the beginning, is measured with it: a replay that finds the
 * two the same would measure nothing.
 *
 * The errors are in the output: build/unit/test_wq_eta_replay, run in the root
 * of the repository.
 */


#include <inttypes.h>
#include <math.h>

#include "unit.h"
#include "wq_eta.h"


#define DIRECTORY  "t/unit/flows/"

/* the goal, of the median */
#define GOAL       15.0

/* ms; any: nothing may depend on when nginx was started */
#define START      ((uint64_t) 1234567)

#define MAX_ASKED  10000


typedef struct {
    double    told[MAX_ASKED];      /* errors in percent */
    double    naive[MAX_ASKED];
    size_t    n;
    size_t    unknown;
    size_t    early;                /* told less than was true */
} errors_t;


typedef struct {
    uint64_t  time;                 /* of the look that was last */
    uint64_t  promoted;
    int       halted;
} last_t;


static const struct {
    const char  *name;
    double       goal;
    int          worse;             /* the naive guess, by more than a half */
} flows[] = {
    { "give-up", GOAL, 1 },
    { "opened", GOAL, 1 },
    { "patient", GOAL, 1 },
    { "short", GOAL, 1 },
    { "stalled", GOAL, 1 },

    /*
     * Ten slots: whoever knew the true speed from the first moment on would be
     * wrong by 11 % already.  The speed is the same from the beginning to the
     * end, so that there is nothing better than the average of all of it.
     */

    { "small", GOAL, 0 },

    /*
     * Two thirds of those who ask do so before the capacity is doubled, and
     * many of them wait beyond that moment, which nobody can foresee.
     */

    { "doubled", 20.0, 1 }
};


static errors_t  all;


static int
compare(const void *one, const void *two)
{
    double  a, b;

    a = *(const double *) one;
    b = *(const double *) two;

    return (a > b) - (a < b);
}


/* of a sorted list */

static double
part(const double *errors, size_t n, double which)
{
    return n ? errors[(size_t) ((double) (n - 1) * which)] : 100;
}


static double
error(double told, double real)
{
    return fabs(told - real) / real * 100;
}


static int
ask(errors_t *errors, const wq_flow_t *flow, const last_t *last,
    const uint64_t *numbers)
{
    double     real, naive;
    int64_t    told;
    wq_pace_t  pace;

    if (errors->n == MAX_ASKED || numbers[2] <= numbers[0]
        || numbers[1] == 0)
    {
        return 0;
    }

    memset(&pace, 0, sizeof(pace));
    pace.halted = last->halted;
    pace.crowded = 1;

    wq_flow_speed(flow, START + numbers[0] * 1000, &pace.speed);

    told = wq_eta(&pace, numbers[1]);
    real = (double) (numbers[2] - numbers[0]);

    errors->told[errors->n] = 100;
    errors->naive[errors->n] = 100;

    if (told == WQ_ETA_UNKNOWN) {
        errors->unknown++;

    } else {
        errors->told[errors->n] = error((double) told, real);
        errors->early += (double) told < real;
    }

    if (last->promoted > 0) {
        naive = (double) numbers[1] * (double) last->time
                / (double) last->promoted;
        errors->naive[errors->n] = error(naive, real);
    }

    errors->n++;

    return 1;
}


static int
replay(FILE *in, errors_t *errors)
{
    char       line[256];
    int        n;
    last_t     last;
    uint64_t   numbers[4], time;
    wq_flow_t  flow;
    wq_look_t  look;

    memset(&flow, 0, sizeof(flow));
    memset(&last, 0, sizeof(last));
    memset(&look, 0, sizeof(look));
    time = 0;

    while (fgets(line, sizeof(line), in)) {

        if (line[0] == '#') {
            continue;
        }

        n = sscanf(line + 1, "%" SCNu64 "%" SCNu64 "%" SCNu64 "%" SCNu64,
                   &numbers[0], &numbers[1], &numbers[2], &numbers[3]);

        if (n < 3 || numbers[0] < time) {
            return 0;
        }

        time = numbers[0];

        if (line[0] == 'A' && n == 3) {

            if (!ask(errors, &flow, &last, numbers)) {
                return 0;
            }

            continue;
        }

        if ((line[0] != 'L' && line[0] != 'H') || n != 4) {
            return 0;
        }

        look.promoted = numbers[1];
        look.gave_up = numbers[2];
        look.waiting = numbers[3];
        look.halted = line[0] == 'H';

        wq_flow_look(&flow, START + time * 1000, &look);

        last.time = time;
        last.promoted = look.promoted;
        last.halted = look.halted;
    }

    return errors->n > 0;
}


/* the medians are left in the two */

static void
state(const char *name, errors_t *errors, double *told, double *naive)
{
    size_t  n;

    n = errors->n;

    qsort(errors->told, n, sizeof(double), compare);
    qsort(errors->naive, n, sizeof(double), compare);

    *told = part(errors->told, n, 0.5);
    *naive = part(errors->naive, n, 0.5);

    printf("# %-8s %5zu asked: median error %5.1f %%, of nine in ten at most"
           " %5.1f %%;\n", name, n, *told, part(errors->told, n, 0.9));
    printf("#          too early %2zu %%, nothing told %2zu;"
           " naive: median %5.1f %%, at most %5.1f %%\n",
           n ? 100 * errors->early / n : 0, errors->unknown, *naive,
           part(errors->naive, n, 0.9));
}


static void
test_flow(size_t which)
{
    int        good;
    char       path[256];
    FILE      *in;
    size_t     i;
    double     told, naive;
    errors_t  *errors;

    errors = calloc(1, sizeof(errors_t));

    snprintf(path, sizeof(path), DIRECTORY "%s.txt", flows[which].name);

    in = fopen(path, "r");
    good = in && replay(in, errors);

    if (in) {
        fclose(in);
    }

    unit_ok(good, "%s is read", path);
    unit_ok(errors->n >= 300, "%s: enough were asked", flows[which].name);

    for (i = 0; i < errors->n && all.n < MAX_ASKED; i++) {
        all.told[all.n] = errors->told[i];
        all.naive[all.n] = errors->naive[i];
        all.n++;
    }

    all.unknown += errors->unknown;
    all.early += errors->early;

    state(flows[which].name, errors, &told, &naive);

    unit_ok(told < flows[which].goal, "%s: the median is below %.0f percent",
            flows[which].name, flows[which].goal);

    unit_ok(errors->unknown * 20 < errors->n,
            "%s: less than one in twenty is told nothing", flows[which].name);

    if (flows[which].worse) {
        unit_ok(naive > told * 1.5, "%s: a naive guess is worse",
                flows[which].name);
    }

    free(errors);
}


int
main(void)
{
    size_t  i;
    double  told, naive;

    for (i = 0; i < unit_nitems(flows); i++) {
        test_flow(i);
    }

    state("all", &all, &told, &naive);

    unit_ok(told < GOAL, "all together: the median is below the goal");
    unit_ok(told < 7.5, "and below half of it: nothing was lost");
    unit_ok(naive > told * 2, "a naive guess is worse by twice at least");

    return unit_done();
}
