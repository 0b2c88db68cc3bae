
/* unit tests: the rank of everybody who waits */


#include <time.h>

#include "unit.h"
#include "wq_sweep.h"


#define HALF  ((uint64_t) 1 << 63)


static uint64_t
draw(uint64_t *state)
{
    /* any generator will do, if it is the same in every run */

    *state = *state * 6364136223846793005u + 1442695040888963407u;

    return *state >> 33;
}


static wq_moment_t
moment(uint64_t promoted, uint64_t gone)
{
    wq_moment_t  m;

    m.promoted = promoted;
    m.gone = gone;

    return m;
}


/* the lists on the heap and of their exact size, for the sanitizer */

typedef struct {
    wq_sweep_t   sweep;
    wq_gone_t   *entries;
    wq_gone_t   *sorted;
    wq_rc_t      rc;
} prepared_t;


static void
prepare(prepared_t *p, wq_moment_t from, wq_moment_t to,
    const wq_gone_t *entries, size_t n)
{
    p->entries = NULL;
    p->sorted = NULL;

    if (n > 0) {
        p->entries = (wq_gone_t *) unit_copy(entries, n * sizeof(wq_gone_t));
        p->sorted = malloc(n * sizeof(wq_gone_t));
        memset(p->sorted, 0xa5, n * sizeof(wq_gone_t));
    }

    memset(&p->sweep, 0xa5, sizeof(p->sweep));

    p->rc = wq_sweep_init(&p->sweep, from, to, p->entries, n, p->sorted);
}


static void
finish(prepared_t *p)
{
    free(p->entries);
    free(p->sorted);
}


static void
test_init(void)
{
    size_t      i;
    prepared_t  p;

    static const wq_gone_t  list[] = { 5, -3, 9 };

    static const struct {
        wq_moment_t  from, to;
        size_t       n;
        wq_rc_t      rc;
        const char  *name;
    } rows[] = {
        { { 0, 0 }, { 0, 0 }, 0, WQ_OK, "nothing happened" },
        { { 7, 4 }, { 7, 4 }, 0, WQ_OK, "nothing happened since" },
        { { 7, 4 }, { 9, 4 }, 0, WQ_OK, "promotions alone" },
        { { 7, 4 }, { 7, 7 }, 3, WQ_OK, "three entries" },
        { { 7, 4 }, { 6, 4 }, 0, WQ_BAD_RANGE, "promoted goes back" },
        { { 7, 4 }, { 6, 7 }, 3, WQ_BAD_RANGE, "promoted goes back, gone on" },
        { { 7, 4 }, { 9, 3 }, 0, WQ_BAD_RANGE, "gone goes back" },
        { { 7, 4 }, { 9, 3 }, 1, WQ_BAD_RANGE, "gone goes back by n" },
        { { 7, 4 }, { 9, 1 }, 3, WQ_BAD_RANGE, "gone goes back by three" },
        { { 7, 4 }, { 7, 7 }, 2, WQ_BAD_RANGE, "one entry is missing" },
        { { 7, 4 }, { 7, 6 }, 3, WQ_BAD_RANGE, "one entry too many" },
        { { 7, 4 }, { 7, 7 }, 0, WQ_BAD_RANGE, "all entries are missing" },
        { { 7, 4 }, { 7, 4 }, 1, WQ_BAD_RANGE, "an entry of no number" },
        { { 0, 0 }, { UINT64_MAX, 3 }, 3, WQ_OK, "as many as can be" },
        { { UINT64_MAX, UINT64_MAX - 3 }, { UINT64_MAX, UINT64_MAX }, 3, WQ_OK,
          "at the end of the numbers" },
        { { 0, UINT64_MAX }, { 0, 2 }, 3, WQ_BAD_RANGE, "gone wraps round" },
        { { 0, 0 }, { 0, UINT64_MAX }, 3, WQ_BAD_RANGE, "a huge distance" },
        { { 0, 0 }, { 0, ((uint64_t) 1 << 32) + 3 }, 3, WQ_BAD_RANGE,
          "a distance that is n in 32 bits" }
    };

    for (i = 0; i < unit_nitems(rows); i++) {
        prepare(&p, rows[i].from, rows[i].to, list, rows[i].n);
        unit_ok(p.rc == rows[i].rc, "init: %s", rows[i].name);
        finish(&p);
    }
}


static void
test_zero_entry(void)
{
    size_t      i;
    wq_gone_t   list[3];
    prepared_t  p;

    for (i = 0; i < 3; i++) {
        list[0] = 1;
        list[1] = 2;
        list[2] = -3;
        list[i] = 0;

        prepare(&p, moment(0, 0), moment(0, 3), list, 3);
        unit_ok(p.rc == WQ_BAD_RANGE, "an entry of 0 at %zu is refused", i);
        finish(&p);
    }
}


#define MAX_ENTRIES  6

typedef struct {
    const char   *name;
    wq_moment_t   from, to;
    wq_gone_t     entries[MAX_ENTRIES];
    size_t        n;
    uint64_t      idx, rank;
    wq_moment_t   at;
    wq_rc_t       rc;
    uint64_t      want;
} row_t;


static const row_t  rows[] = {

    /* the three terms */

    { "nothing happened", { 3, 2 }, { 3, 2 }, { 0 }, 0,
      10, 4, { 3, 2 }, WQ_OK, 4 },
    { "those let in stood in front", { 3, 2 }, { 6, 2 }, { 0 }, 0,
      10, 4, { 3, 2 }, WQ_OK, 1 },
    { "one in front left", { 3, 2 }, { 3, 3 }, { 9 }, 1,
      10, 4, { 3, 2 }, WQ_OK, 3 },
    { "one behind left", { 3, 2 }, { 3, 3 }, { 11 }, 1,
      10, 4, { 3, 2 }, WQ_OK, 4 },
    { "one in front is back", { 3, 2 }, { 3, 3 }, { -9 }, 1,
      10, 4, { 3, 2 }, WQ_OK, 5 },
    { "one behind is back", { 3, 2 }, { 3, 3 }, { -11 }, 1,
      10, 4, { 3, 2 }, WQ_OK, 4 },
    { "one's own leaving does not count", { 3, 2 }, { 3, 3 }, { 10 }, 1,
      10, 4, { 3, 2 }, WQ_OK, 4 },
    { "nor does one's own coming back", { 3, 2 }, { 3, 3 }, { -10 }, 1,
      10, 4, { 3, 2 }, WQ_OK, 4 },
    { "all three at once", { 3, 2 }, { 5, 8 }, { 9, -2, 30, 4, -40, 5 }, 6,
      10, 20, { 3, 2 }, WQ_OK, 16 },

    /* duplicates */

    { "left, back and left again is left", { 0, 0 }, { 0, 3 }, { 5, -5, 5 }, 3,
      10, 4, { 0, 0 }, WQ_OK, 3 },
    { "left and back is as before", { 0, 0 }, { 0, 2 }, { 5, -5 }, 2,
      10, 4, { 0, 0 }, WQ_OK, 4 },
    { "back, left and back is back", { 0, 0 }, { 0, 3 }, { -5, 5, -5 }, 3,
      10, 4, { 0, 0 }, WQ_OK, 5 },
    { "duplicates behind do not count", { 0, 0 }, { 0, 3 }, { 15, -15, 15 }, 3,
      10, 4, { 0, 0 }, WQ_OK, 4 },
    { "duplicates of one's own do not count", { 0, 0 }, { 0, 3 },
      { 10, -10, 10 }, 3, 10, 4, { 0, 0 }, WQ_OK, 4 },

    /* the edge of zero */

    { "to the head", { 0, 0 }, { 4, 0 }, { 0 }, 0,
      10, 4, { 0, 0 }, WQ_OK, 0 },
    { "beyond the head by a promotion", { 0, 0 }, { 5, 0 }, { 0 }, 0,
      10, 4, { 0, 0 }, WQ_BAD_RANGE, 0 },
    { "to the head by both", { 0, 0 }, { 3, 1 }, { 1 }, 1,
      10, 4, { 0, 0 }, WQ_OK, 0 },
    { "beyond the head by both", { 0, 0 }, { 4, 1 }, { 1 }, 1,
      10, 4, { 0, 0 }, WQ_BAD_RANGE, 0 },
    { "beyond the head by one who left", { 0, 0 }, { 0, 1 }, { 1 }, 1,
      10, 0, { 0, 0 }, WQ_BAD_RANGE, 0 },
    { "who came back in front was let in", { 0, 0 }, { 2, 1 }, { -1 }, 1,
      10, 1, { 0, 0 }, WQ_OK, 0 },
    { "two back, one of them let in", { 0, 0 }, { 1, 2 }, { -1, -2 }, 2,
      10, 0, { 0, 0 }, WQ_OK, 1 },
    { "one back, two let in, nobody was there", { 0, 0 }, { 2, 1 }, { -1 }, 1,
      10, 0, { 0, 0 }, WQ_BAD_RANGE, 0 },

    /* idx 0 has nobody in front */

    { "idx 0 and entries", { 0, 0 }, { 0, 3 }, { 1, -1, INT64_MIN }, 3,
      0, 7, { 0, 0 }, WQ_OK, 7 },
    { "idx 0 and a promotion", { 0, 0 }, { 1, 0 }, { 0 }, 0,
      0, 0, { 0, 0 }, WQ_BAD_RANGE, 0 },

    /* moments */

    { "one entry after the rank's moment", { 3, 2 }, { 5, 5 }, { 1, 2, 3 }, 3,
      10, 20, { 4, 4 }, WQ_OK, 18 },
    { "a moment within, its entries are left out", { 3, 2 }, { 3, 5 },
      { 1, -2, -3 }, 3, 10, 20, { 3, 3 }, WQ_OK, 22 },
    { "a moment within, one's own entries do not count", { 3, 2 }, { 3, 6 },
      { 1, 10, -10, 10 }, 4, 10, 20, { 3, 3 }, WQ_OK, 20 },
    { "within by promoted alone", { 3, 2 }, { 9, 3 }, { 1 }, 1,
      10, 20, { 5, 2 }, WQ_OK, 15 },
    { "within by gone alone", { 3, 2 }, { 9, 3 }, { 1 }, 1,
      10, 20, { 3, 3 }, WQ_OK, 14 },
    { "all promoted, an entry to come", { 3, 2 }, { 9, 4 }, { 1, 2 }, 2,
      10, 20, { 9, 3 }, WQ_OK, 19 },
    { "the moment of the end", { 3, 2 }, { 9, 4 }, { 1, 2 }, 2,
      10, 20, { 9, 4 }, WQ_OK, 20 },
    { "after the end by promoted", { 3, 2 }, { 9, 4 }, { 1, 2 }, 2,
      10, 20, { 10, 4 }, WQ_OK, 20 },
    { "after the end by gone", { 3, 2 }, { 9, 4 }, { 1, 2 }, 2,
      10, 20, { 9, 5 }, WQ_OK, 20 },
    { "after the end by both", { 3, 2 }, { 9, 4 }, { 1, 2 }, 2,
      10, 20, { UINT64_MAX, UINT64_MAX }, WQ_OK, 20 },
    { "before by promoted", { 3, 2 }, { 9, 4 }, { 1, 2 }, 2,
      10, 20, { 2, 2 }, WQ_BAD_RANGE, 0 },
    { "before by gone", { 3, 2 }, { 9, 4 }, { 1, 2 }, 2,
      10, 20, { 3, 1 }, WQ_BAD_RANGE, 0 },
    { "before by both", { 3, 2 }, { 9, 4 }, { 1, 2 }, 2,
      10, 20, { 0, 0 }, WQ_BAD_RANGE, 0 },
    { "before by promoted, within by gone", { 3, 2 }, { 9, 4 }, { 1, 2 }, 2,
      10, 20, { 2, 3 }, WQ_BAD_RANGE, 0 },
    { "within by promoted, before by gone", { 3, 2 }, { 9, 4 }, { 1, 2 }, 2,
      10, 20, { 4, 1 }, WQ_BAD_RANGE, 0 },
    { "after by promoted, before by gone", { 3, 2 }, { 9, 4 }, { 1, 2 }, 2,
      10, 20, { 99, 0 }, WQ_BAD_RANGE, 0 },
    { "after by gone, before by promoted", { 3, 2 }, { 9, 4 }, { 1, 2 }, 2,
      10, 20, { 0, 99 }, WQ_BAD_RANGE, 0 },
    { "after by promoted, within by gone", { 3, 2 }, { 9, 4 }, { 1, 2 }, 2,
      10, 20, { 10, 3 }, WQ_BAD_RANGE, 0 },
    { "after by gone, within by promoted", { 3, 2 }, { 9, 4 }, { 1, 2 }, 2,
      10, 20, { 8, 5 }, WQ_BAD_RANGE, 0 },
    { "after by promoted, within by gone, the longest line", { 3, 2 }, { 9, 4 },
      { 11, 12 }, 2, 10, UINT64_MAX, { 10, 3 }, WQ_BAD_RANGE, 0 },
    { "an empty sweep, a moment before", { 3, 2 }, { 3, 2 }, { 0 }, 0,
      10, 20, { 3, 1 }, WQ_BAD_RANGE, 0 },
    { "an empty sweep, a moment after", { 3, 2 }, { 3, 2 }, { 0 }, 0,
      10, 20, { 3, 3 }, WQ_OK, 20 },

    /* huge numbers */

    { "the largest idx of an entry", { 0, 0 }, { 0, 2 },
      { INT64_MAX, INT64_MAX - 1 }, 2,
      INT64_MAX, 9, { 0, 0 }, WQ_OK, 8 },
    { "an idx beyond all entries", { 0, 0 }, { 0, 2 },
      { INT64_MAX, INT64_MAX - 1 }, 2,
      HALF, 9, { 0, 0 }, WQ_OK, 7 },
    { "the least entry is idx 2^63", { 0, 0 }, { 0, 1 }, { INT64_MIN }, 1,
      HALF, 9, { 0, 0 }, WQ_OK, 9 },
    { "the least entry is back", { 0, 0 }, { 0, 1 }, { INT64_MIN }, 1,
      HALF + 1, 9, { 0, 0 }, WQ_OK, 10 },
    { "the least entry within", { 0, 0 }, { 0, 2 }, { 1, INT64_MIN }, 2,
      UINT64_MAX, 9, { 0, 1 }, WQ_OK, 10 },
    { "the largest of all", { 0, 0 }, { 0, 6 },
      { INT64_MAX, INT64_MIN, -INT64_MAX, 1, -1, 2 }, 6,
      UINT64_MAX, 9, { 0, 0 }, WQ_OK, 9 },
    { "a rank of 2^64 - 1", { 0, 0 }, { 1, 0 }, { 0 }, 0,
      10, UINT64_MAX, { 0, 0 }, WQ_OK, UINT64_MAX - 1 },
    { "a rank beyond 2^64 - 1", { 0, 0 }, { 0, 1 }, { -1 }, 1,
      10, UINT64_MAX, { 0, 0 }, WQ_BAD_RANGE, 0 },
    { "a rank of 2^64 - 1 by one back", { 0, 0 }, { 0, 1 }, { -1 }, 1,
      10, UINT64_MAX - 1, { 0, 0 }, WQ_OK, UINT64_MAX },
    { "back and let in at 2^64 - 1", { 0, 0 }, { 1, 1 }, { -1 }, 1,
      10, UINT64_MAX, { 0, 0 }, WQ_OK, UINT64_MAX },
    { "everybody let in", { 0, 0 }, { UINT64_MAX, 0 }, { 0 }, 0,
      10, UINT64_MAX, { 0, 0 }, WQ_OK, 0 },
    { "everybody let in and one more left", { 0, 0 }, { UINT64_MAX, 1 },
      { 1 }, 1, 10, UINT64_MAX, { 0, 0 }, WQ_BAD_RANGE, 0 },
    { "a sum that would wrap to a small one", { 0, 0 }, { UINT64_MAX, 2 },
      { 1, 2 }, 2, 10, 5, { 0, 0 }, WQ_BAD_RANGE, 0 },
    { "2^63 let in", { 0, 0 }, { HALF, 1 }, { 1 }, 1,
      10, HALF + 2, { 0, 0 }, WQ_OK, 1 },
    { "2^63 let in, too many", { 0, 0 }, { HALF, 1 }, { 1 }, 1,
      10, HALF, { 0, 0 }, WQ_BAD_RANGE, 0 },
    { "numbers of entries at their end",
      { 0, UINT64_MAX - 2 }, { 0, UINT64_MAX }, { 3, 4 }, 2,
      10, 9, { 0, UINT64_MAX - 1 }, WQ_OK, 8 }
};


static void
check(prepared_t *p, const row_t *row, const char *how)
{
    int          kept;
    wq_rc_t      rc;
    uint64_t     rank;
    wq_moment_t  at, want;

    rank = row->rank;
    at = row->at;

    rc = wq_sweep_rank(&p->sweep, row->idx, &rank, &at);

    kept = rc != WQ_OK
           || (row->at.promoted >= row->to.promoted
               && row->at.gone >= row->to.gone);

    want = kept ? row->at : row->to;

    unit_ok(rc == row->rc
            && rank == (rc == WQ_OK ? row->want : row->rank)
            && at.promoted == want.promoted && at.gone == want.gone,
            "%s%s", row->name, how);
}


/* the entries a sweep has gone past already must not change its answers */

static void
test_rows(void)
{
    size_t       i, j;
    uint64_t     rank;
    prepared_t   p;
    wq_moment_t  at;

    static const uint64_t  before[] = { UINT64_MAX, 0, 10, 9, 11, HALF };

    for (i = 0; i < unit_nitems(rows); i++) {
        prepare(&p, rows[i].from, rows[i].to, rows[i].entries, rows[i].n);
        unit_ok(p.rc == WQ_OK, "%s: init", rows[i].name);

        check(&p, &rows[i], "");
        check(&p, &rows[i], ", again");

        for (j = 0; j < unit_nitems(before); j++) {
            rank = 1000;
            at = rows[i].from;
            (void) wq_sweep_rank(&p.sweep, before[j], &rank, &at);
        }

        check(&p, &rows[i], ", after others");

        rank = 0;
        at = rows[i].from;
        (void) wq_sweep_rank(&p.sweep, UINT64_MAX, &rank, &at);

        check(&p, &rows[i], ", after one far behind");

        unit_ok(rows[i].n == 0
                || memcmp(p.entries, rows[i].entries,
                          rows[i].n * sizeof(wq_gone_t)) == 0,
                "%s: the list is left alone", rows[i].name);

        finish(&p);
    }
}


/* a rank that was swept is of the next sweep's first moment */

static void
test_chain(void)
{
    uint64_t     rank;
    prepared_t   p;
    wq_moment_t  at;

    static const wq_gone_t  first[] = { 4, 12, 2 };
    static const wq_gone_t  second[] = { -4, 6 };

    rank = 9;
    at = moment(100, 7);

    prepare(&p, moment(100, 7), moment(103, 10), first, 3);
    unit_ok(wq_sweep_rank(&p.sweep, 10, &rank, &at) == WQ_OK && rank == 4,
            "the first sweep");
    unit_ok(wq_sweep_rank(&p.sweep, 10, &rank, &at) == WQ_OK && rank == 4,
            "the same sweep once more changes nothing");
    finish(&p);

    prepare(&p, moment(103, 10), moment(104, 12), second, 2);
    unit_ok(wq_sweep_rank(&p.sweep, 10, &rank, &at) == WQ_OK && rank == 3
            && at.promoted == 104 && at.gone == 12,
            "the second goes on where the first ended");
    finish(&p);

    prepare(&p, moment(105, 12), moment(105, 12), NULL, 0);
    unit_ok(wq_sweep_rank(&p.sweep, 10, &rank, &at) == WQ_BAD_RANGE
            && rank == 3 && at.promoted == 104 && at.gone == 12,
            "a sweep with a gap before it refuses");
    finish(&p);
}


/*
 * A line as it is: everything that happens to it, and what it looks like after
 * each step.  epoch tells the stays of one idx apart, as a rank lives only as
 * long as its owner stays.
 */

#define STEPS      300
#define PEOPLE     400
#define OBSERVERS  120


typedef struct {
    uint64_t     idx;
    unsigned     epoch;
} place_t;


typedef struct {
    wq_moment_t  moment;
    size_t       n;
    place_t      line[PEOPLE];
} picture_t;


typedef struct {
    place_t      who;
    uint64_t     rank;
    wq_moment_t  moment;
    unsigned     dropped;
} observer_t;


typedef struct {
    const char  *name;
    unsigned     join, promote, leave, back;    /* weights */
    uint64_t     first_idx;
    uint64_t     first_promoted;
    uint64_t     first_gone;
} scene_t;


static picture_t  history[STEPS + 1];
static wq_gone_t  list[STEPS];
static size_t     list_n;


static void
take_out(picture_t *now, size_t i)
{
    now->n--;
    memmove(&now->line[i], &now->line[i + 1],
            (now->n - i) * sizeof(place_t));
}


static void
put_in(picture_t *now, uint64_t idx, unsigned epoch)
{
    size_t  i;

    i = now->n;

    while (i > 0 && now->line[i - 1].idx > idx) {
        now->line[i] = now->line[i - 1];
        i--;
    }

    now->line[i].idx = idx;
    now->line[i].epoch = epoch;
    now->n++;
}


static int
stands(const picture_t *now, uint64_t idx)
{
    size_t  i;

    for (i = 0; i < now->n; i++) {
        if (now->line[i].idx == idx) {
            return 1;
        }
    }

    return 0;
}


/* the rank by counting, or -1 for who is no longer there */

static int64_t
naive(const picture_t *now, const place_t *who)
{
    size_t  i;

    for (i = 0; i < now->n; i++) {
        if (now->line[i].idx == who->idx) {
            return now->line[i].epoch == who->epoch ? (int64_t) i : -1;
        }
    }

    return -1;
}


static void
live(const scene_t *scene, uint64_t *state)
{
    size_t      i, step;
    uint64_t    next, idx, what;
    unsigned    total;
    picture_t  *now;

    memset(history, 0, sizeof(history));
    list_n = 0;
    next = scene->first_idx;
    total = scene->join + scene->promote + scene->leave + scene->back;

    history[0].moment = moment(scene->first_promoted, scene->first_gone);

    for (i = 0; i < 60; i++) {
        put_in(&history[0], next++, 0);
    }

    for (step = 1; step <= STEPS; step++) {
        now = &history[step];
        *now = history[step - 1];
        what = draw(state) % total;

        if (what < scene->join) {
            put_in(now, next++, (unsigned) step);
            continue;
        }

        what -= scene->join;

        if (what < scene->promote) {

            /* several in one breath, as the script does it */

            for (i = 1 + draw(state) % 4; i > 0 && now->n > 0; i--) {
                take_out(now, 0);
                now->moment.promoted++;
            }

            continue;
        }

        what -= scene->promote;

        if (what < scene->leave) {
            if (now->n > 0) {
                i = draw(state) % now->n;
                list[list_n++] = (wq_gone_t) now->line[i].idx;
                now->moment.gone++;
                take_out(now, i);
            }

            continue;
        }

        /* of those who once stood there: who left, or was let in */

        idx = scene->first_idx + draw(state) % (next - scene->first_idx);

        if (!stands(now, idx)) {
            list[list_n++] = -(wq_gone_t) idx;
            now->moment.gone++;
            put_in(now, idx, (unsigned) step);
        }
    }
}


static int
by_idx(const void *one, const void *two)
{
    const observer_t  *a = one, *b = two;

    return a->who.idx < b->who.idx ? -1 : a->who.idx > b->who.idx;
}


static void
shuffle(observer_t *o, size_t n, uint64_t *state)
{
    size_t      i, j;
    observer_t  tmp;

    for (i = n; i > 1; i--) {
        j = draw(state) % i;
        tmp = o[i - 1];
        o[i - 1] = o[j];
        o[j] = tmp;
    }
}


static void
begin(prepared_t *p, size_t from, size_t to)
{
    size_t  first;

    first = history[from].moment.gone - history[0].moment.gone;

    prepare(p, history[from].moment, history[to].moment, list + first,
            history[to].moment.gone - history[from].moment.gone);
}


static int
before(wq_moment_t a, wq_moment_t b)
{
    return a.promoted < b.promoted || a.gone < b.gone;
}


/* one observer through one sweep; counts what was compared */

static int
see(prepared_t *p, size_t from, size_t to, observer_t *o, unsigned *seen,
    unsigned *refused)
{
    wq_rc_t      rc;
    int64_t      want;
    observer_t   was;
    wq_moment_t  end;

    was = *o;
    end = history[to].moment;
    want = naive(&history[to], &o->who);
    rc = wq_sweep_rank(&p->sweep, o->who.idx, &o->rank, &o->moment);

    if (!before(was.moment, end)) {
        return rc == WQ_OK && o->rank == was.rank
               && o->moment.promoted == was.moment.promoted
               && o->moment.gone == was.moment.gone;
    }

    if (before(was.moment, history[from].moment)) {
        (*refused)++;

        return rc == WQ_BAD_RANGE && o->rank == was.rank
               && o->moment.promoted == was.moment.promoted
               && o->moment.gone == was.moment.gone;
    }

    if (want < 0) {

        /* let in or left: whatever the answer, nobody is there to hear it */

        o->dropped = 1;

        return 1;
    }

    (*seen)++;

    return rc == WQ_OK && o->rank == (uint64_t) want
           && o->moment.promoted == end.promoted
           && o->moment.gone == end.gone;
}


typedef enum {
    ORDER_IDX = 0,
    ORDER_RANDOM,
    ORDER_REVERSE,
    ORDER_MAX
} order_e;


static const char *const  order_names[] = {
    "in the order of idx", "in random order", "in reverse order"
};


static void
arrange(observer_t *o, size_t n, order_e order, uint64_t *state)
{
    size_t      i;
    observer_t  tmp;

    shuffle(o, n, state);

    if (order == ORDER_RANDOM) {
        return;
    }

    qsort(o, n, sizeof(observer_t), by_idx);

    if (order == ORDER_REVERSE) {
        for (i = 0; i < n / 2; i++) {
            tmp = o[i];
            o[i] = o[n - 1 - i];
            o[n - 1 - i] = tmp;
        }
    }
}


/* observers of the steps first ... last */

static size_t
observe(observer_t *o, size_t n, size_t first, size_t last, uint64_t *state)
{
    size_t      i, at, count;
    picture_t  *then;

    count = 0;

    for (i = 0; i < n; i++) {
        at = first + draw(state) % (last - first + 1);
        then = &history[at];

        if (then->n == 0) {
            continue;
        }

        o[count].rank = draw(state) % then->n;
        o[count].who = then->line[o[count].rank];
        o[count].moment = then->moment;
        o[count].dropped = 0;
        count++;
    }

    return count;
}


static size_t
drop(observer_t *o, size_t n)
{
    size_t  i, left;

    left = 0;

    for (i = 0; i < n; i++) {
        if (!o[i].dropped) {
            o[left++] = o[i];
        }
    }

    return left;
}


/* one life, one chain of sweeps through it, new observers on the way */

static int
follow(order_e order, unsigned pause, uint64_t *state, unsigned *seen,
    unsigned *refused)
{
    int                 good;
    size_t              i, n, from, to, ahead;
    int64_t             rank;
    prepared_t          p;
    static observer_t   o[4 * OBSERVERS];

    good = 1;
    n = observe(o, OBSERVERS, 0, 0, state);

    for (from = 0; from < STEPS; from = to) {
        to = from + 1 + draw(state) % pause;

        if (to > STEPS) {
            to = STEPS;
        }

        /* some come during the tick, some after its end */

        ahead = to + 3 < STEPS ? to + 3 : STEPS;

        if (n < 2 * OBSERVERS) {
            n += observe(o + n, OBSERVERS / 2, from, ahead, state);
        }

        arrange(o, n, order, state);
        begin(&p, from, to);
        good &= p.rc == WQ_OK;

        for (i = 0; i < n; i++) {

            /* one in fifty is forgotten, and must be refused the next time */

            if (draw(state) % 50 == 0) {
                continue;
            }

            good &= see(&p, from, to, &o[i], seen, refused);
        }

        finish(&p);

        n = drop(o, n);

        /* who was refused asks, or is gone */

        for (i = 0; i < n; i++) {
            if (before(o[i].moment, history[from].moment)) {
                rank = naive(&history[to], &o[i].who);
                o[i].dropped = rank < 0;
                o[i].rank = (uint64_t) rank;
                o[i].moment = history[to].moment;
            }
        }

        n = drop(o, n);
    }

    return good;
}


/* the whole life in one sweep, in turns with a second one over a part */

static int
leap(order_e order, uint64_t *state, unsigned *seen, unsigned *refused)
{
    int                 good;
    size_t              i, n, from, to;
    prepared_t          all, part;
    observer_t          twin;
    static observer_t   o[OBSERVERS];

    from = draw(state) % STEPS;
    to = from + draw(state) % (STEPS - from + 1);

    n = observe(o, OBSERVERS, 0, STEPS, state);
    arrange(o, n, order, state);

    begin(&all, 0, STEPS);
    begin(&part, from, to);

    good = all.rc == WQ_OK && part.rc == WQ_OK;

    for (i = 0; i < n; i++) {
        twin = o[i];
        good &= see(&all, 0, STEPS, &o[i], seen, refused);
        good &= see(&part, from, to, &twin, seen, refused);
    }

    finish(&all);
    finish(&part);

    return good;
}


static void
test_model(void)
{
    int       good;
    size_t    i, order, round;
    uint64_t  state;
    unsigned  seen, refused;

    static const scene_t  scenes[] = {
        { "a lively line", 6, 3, 4, 2, 1, 0, 0 },
        { "many leave", 4, 1, 8, 1, 1, 10, 20 },
        { "many come back", 3, 4, 4, 6, 1, 10, 20 },
        { "nobody leaves", 3, 1, 0, 0, 1, 0, 0 },
        { "nobody is let in", 3, 0, 3, 2, 1, 0, 0 },
        { "the line runs dry", 2, 4, 2, 2, 1, 0, 0 },
        { "idx from 0 on, nobody leaves", 3, 1, 0, 0, 0, 0, 0 },
        { "numbers near 2^63", 6, 3, 4, 2, INT64_MAX - 1000,
          INT64_MAX - 100, INT64_MAX - 50 },
        { "numbers near 2^64", 6, 3, 4, 2, INT64_MAX - 1000,
          UINT64_MAX - 4 * STEPS, UINT64_MAX - STEPS }
    };

    state = 20;

    for (i = 0; i < unit_nitems(scenes); i++) {
        for (order = 0; order < ORDER_MAX; order++) {
            good = 1;
            seen = 0;
            refused = 0;

            for (round = 0; round < 12; round++) {
                live(&scenes[i], &state);

                good &= follow((order_e) order, 1 + 10 * (round % 4), &state,
                               &seen, &refused);
                good &= leap((order_e) order, &state, &seen, &refused);
            }

            unit_ok(good, "%s, %s: every rank as counted", scenes[i].name,
                    order_names[order]);

            unit_ok(seen > 1000 && refused > 20,
                    "%s, %s: enough to tell (%u seen, %u refused)",
                    scenes[i].name, order_names[order], seen, refused);
        }
    }
}


#define RANKS    100000
#define ENTRIES  10000


static double
seconds(clock_t start)
{
    /* of this process: what else runs on the machine does not count */

    return (double) (clock() - start) / CLOCKS_PER_SEC;
}


/*
 * 1 ... RANKS stand in line, every tenth leaves, 7 are let in; swaps brings
 * disorder into the order of the sweep.
 */

static void
sweep_all(unsigned swaps, const char *name)
{
    int                good;
    size_t             i;
    double             took;
    clock_t            start;
    uint64_t           idx, rank;
    prepared_t         p;
    wq_moment_t        at;
    static wq_gone_t   entries[ENTRIES];

    for (i = 0; i < ENTRIES; i++) {

        /* in an order of their own: 3331 and 10000 share no divisor */

        entries[i] = (wq_gone_t) (10 * ((i * 3331) % ENTRIES) + 10);
    }

    start = clock();
    good = 1;

    prepare(&p, moment(50, 5), moment(57, 5 + ENTRIES), entries, ENTRIES);

    for (i = 0; i < RANKS; i++) {
        idx = (swaps ? (i ^ 1) : i) + 1;
        rank = idx - 1;
        at = moment(50, 5);

        if (idx <= 7) {
            good &= wq_sweep_rank(&p.sweep, idx, &rank, &at) == WQ_BAD_RANGE;
            continue;
        }

        good &= wq_sweep_rank(&p.sweep, idx, &rank, &at) == WQ_OK;
        good &= rank == idx - 1 - 7 - (idx - 1) / 10;
    }

    finish(&p);
    took = seconds(start);

    unit_ok(good, "%s: %u ranks are right", name, RANKS);
    unit_ok(took < 0.5, "%s: %u ranks, %u entries, %.3f s", name, RANKS,
            ENTRIES, took);
}


/* no order of the list makes the preparation slow */

static void
sort_all(const char *name, wq_gone_t a, wq_gone_t b, unsigned mix)
{
    int          good;
    size_t       i, n;
    double       took;
    clock_t      start;
    int64_t      want;
    uint64_t     rank, idx;
    wq_gone_t   *entries;
    prepared_t   p;
    wq_moment_t  at;

    n = 20 * ENTRIES;
    entries = malloc(n * sizeof(wq_gone_t));

    for (i = 0; i < n; i++) {
        entries[i] = a * (wq_gone_t) i + b;

        if (mix && i % 3 == 0) {
            entries[i] = -entries[i];
        }
    }

    start = clock();
    prepare(&p, moment(0, 0), moment(0, n), entries, n);
    took = seconds(start);

    good = p.rc == WQ_OK;

    for (idx = 0; idx < 3 * n; idx += n / 3) {
        want = 0;

        for (i = 0; i < n; i++) {
            if ((uint64_t) llabs(entries[i]) < idx) {
                want += entries[i] < 0 ? 1 : -1;
            }
        }

        rank = 4 * n;
        at = moment(0, 0);
        good &= wq_sweep_rank(&p.sweep, idx, &rank, &at) == WQ_OK;
        good &= rank == 4 * n + (uint64_t) want;
    }

    finish(&p);
    free(entries);

    unit_ok(good, "%s: ranks are right", name);
    unit_ok(took < 1, "%s: %zu entries prepared in %.3f s", name, n, took);
}


static void
test_cost(void)
{
    wq_gone_t  n;

    n = 20 * ENTRIES;

    sweep_all(0, "in order");
    sweep_all(1, "each two swapped");

    sort_all("a list in order", 1, 1, 0);
    sort_all("a list in reverse", -1, n, 0);
    sort_all("a list of one idx", 0, 5, 0);
    sort_all("a list in order, some back", 1, 1, 1);
    sort_all("a list in reverse, some back", -1, n, 1);
    sort_all("a list of one idx, some back", 0, 5, 1);
}


int
main(void)
{
    test_init();
    test_zero_entry();
    test_rows();
    test_chain();
    test_model();
    test_cost();

    return unit_done();
}
