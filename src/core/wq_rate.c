
/* core: how many may go in, in how long: as an operator says it */


#include "wq_rate.h"


#define WQ_DECIMAL_WHOLE     9
#define WQ_DECIMAL_FRACTION  3

/* users in a period from which on it is not too short for a rate */
#define WQ_RATE_ENOUGH       10

/* so that three times a rest of the division has room */
#define WQ_RATE_DIVISOR_MAX  ((uint64_t) 1 << 62)


static wq_rc_t wq_rate_ratio(uint64_t a, uint64_t b, uint64_t divisor,
    uint64_t *ratio);
static wq_rc_t wq_rate_handy(uint64_t tps, uint64_t per_visit,
    wq_rate_t *rate);


wq_rc_t
wq_decimal_parse(const u_char *text, size_t len, uint64_t *number)
{
    size_t    i, digits, most;
    uint64_t  n, unit;

    n = 0;
    unit = WQ_DECIMAL_ONE;
    digits = 0;
    most = WQ_DECIMAL_WHOLE;

    for (i = 0; i < len; i++) {

        if (text[i] == '.' && most == WQ_DECIMAL_WHOLE) {

            if (digits == 0) {
                return WQ_EMPTY;
            }

            digits = 0;
            most = WQ_DECIMAL_FRACTION;
            continue;
        }

        if (text[i] < '0' || text[i] > '9') {
            return WQ_BAD_CHARACTER;
        }

        if (digits == most) {
            return WQ_TOO_LONG;
        }

        digits++;
        n = n * 10 + (text[i] - '0');

        if (most == WQ_DECIMAL_FRACTION) {
            unit /= 10;
        }
    }

    if (digits == 0) {
        return WQ_EMPTY;
    }

    *number = n * unit;

    return WQ_OK;
}


wq_rc_t
wq_rate_plan(const wq_backend_t *backend, wq_plan_t *plan)
{
    uint64_t   per_visit;
    wq_plan_t  p;

    if (backend->tps == 0 || backend->tps > WQ_DECIMAL_MAX
        || backend->calls == 0 || backend->calls > WQ_DECIMAL_MAX
        || backend->failure > WQ_DECIMAL_MAX
        || backend->load == 0 || backend->load > WQ_DECIMAL_ONE
        || backend->session_ms == 0)
    {
        return WQ_BAD_RANGE;
    }

    /*
     * Requests of one visit with those made again, in units of
     * 1/WQ_DECIMAL_ONE^2.  With more than this it is less than a visit per
     * minute even of the largest number of requests.
     */

    per_visit = WQ_DECIMAL_ONE + backend->failure;

    if (backend->calls > WQ_RATE_DIVISOR_MAX / per_visit) {
        return WQ_BAD_RANGE;
    }

    per_visit *= backend->calls;

    /* units of 1/1000 both above, requests and ms, are those below */

    if (wq_rate_ratio(backend->tps, backend->session_ms, per_visit,
                      &p.concurrent)
        != WQ_OK
        || wq_rate_ratio(backend->session_ms, WQ_DECIMAL_ONE, backend->load,
                         &p.cycle_ms)
           != WQ_OK
        || wq_rate_ratio(backend->tps, p.cycle_ms, per_visit, &p.per_cycle)
           != WQ_OK
        || wq_rate_handy(backend->tps, per_visit, &p.rate) != WQ_OK)
    {
        return WQ_BAD_RANGE;
    }

    *plan = p;

    return WQ_OK;
}


/*
 * a * b / divisor, rounded down, by the bits of a as on paper, for the product
 * may need twice as many as there are.  WQ_BAD_RANGE if the ratio does too.
 */

static wq_rc_t
wq_rate_ratio(uint64_t a, uint64_t b, uint64_t divisor, uint64_t *ratio)
{
    int       bit;
    uint64_t  n, rest, whole, part, more;

    whole = b / divisor;
    part = b % divisor;
    n = 0;
    rest = 0;

    for (bit = 63; bit >= 0; bit--) {

        if (n > UINT64_MAX / 2) {
            return WQ_BAD_RANGE;
        }

        n *= 2;
        rest *= 2;
        more = 0;

        if (a >> bit & 1) {
            more = whole;
            rest += part;
        }

        while (rest >= divisor) {
            rest -= divisor;
            more++;
        }

        if (n > UINT64_MAX - more) {
            return WQ_BAD_RANGE;
        }

        n += more;
    }

    *ratio = n;

    return WQ_OK;
}


static wq_rc_t
wq_rate_handy(uint64_t tps, uint64_t per_visit, wq_rate_t *rate)
{
    size_t    i;
    uint64_t  users, unit;

    static const uint32_t  periods[] = { 10000, 20000, 30000, 60000 };

    users = 0;

    for (i = 0; i < sizeof(periods) / sizeof(periods[0]); i++) {
        users = tps * periods[i] / per_visit;
        rate->period_ms = periods[i];

        if (users >= WQ_RATE_ENOUGH) {
            break;
        }
    }

    for (unit = 1; users / unit >= 100; unit *= 10) {
        /* void */
    }

    users -= users % unit;

    if (users == 0 || users > WQ_RATE_USERS_MAX) {
        return WQ_BAD_RANGE;
    }

    rate->users = (uint32_t) users;

    return WQ_OK;
}
