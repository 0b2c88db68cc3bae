
/*
 * fuzz: a text is a number if it has the form of one, and then the one it says;
 * a plan is what its formulas say, computed here with numbers of twice as many
 * bits.
 */


#include <stdlib.h>
#include <string.h>

#include "wq_rate.h"


#define UNTOUCHED  0xfeedfacecafe


int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);


__extension__ typedef unsigned __int128  wide_t;


static void
require(int condition)
{
    if (!condition) {
        abort();
    }
}


static size_t
digits(const uint8_t *p, size_t len)
{
    size_t  n;

    for (n = 0; n < len && p[n] >= '0' && p[n] <= '9'; n++) {
        /* void */
    }

    return n;
}


static void
check_text(const uint8_t *data, size_t size)
{
    u_char    *p;
    size_t     i, whole, fraction;
    wq_rc_t    rc;
    uint64_t   number, want;

    p = malloc(size);

    if (size > 0) {
        memcpy(p, data, size);
    }

    number = UNTOUCHED;
    rc = wq_decimal_parse(p, size, &number);

    free(p);

    whole = digits(data, size);
    fraction = 0;

    if (whole < size && data[whole] == '.') {
        fraction = digits(data + whole + 1, size - whole - 1);
    }

    if (whole >= 1 && whole <= 9
        && (whole == size
            || (fraction >= 1 && fraction <= 3
                && whole + 1 + fraction == size)))
    {
        want = 0;

        for (i = 0; i < whole; i++) {
            want += data[i] - '0';
            want *= 10;
        }

        want *= 100;

        for (i = 0; i < fraction; i++) {
            want += (uint64_t) (data[whole + 1 + i] - '0')
                    * (i == 0 ? 100 : i == 1 ? 10 : 1);
        }

        require(rc == WQ_OK && number == want && number <= WQ_DECIMAL_MAX);
        return;
    }

    require(number == UNTOUCHED);

    switch (rc) {

    case WQ_EMPTY:
        require(whole == 0 || (data[whole] == '.' && fraction == 0));
        break;

    case WQ_TOO_LONG:
        require(whole > 9 || fraction > 3);
        break;

    case WQ_BAD_CHARACTER:
        require(whole < size && whole <= 9 && fraction <= 3);
        break;

    default:
        abort();
    }
}


static uint8_t
byte(const uint8_t **data, size_t *size)
{
    if (*size == 0) {
        return 0;
    }

    (*size)--;

    return *(*data)++;
}


/* as many bytes as the first says, of which the last is the lowest */

static uint64_t
number(const uint8_t **data, size_t *size)
{
    uint8_t   n;
    uint64_t  value;

    value = 0;

    for (n = byte(data, size) % 9; n > 0; n--) {
        value = value << 8 | byte(data, size);
    }

    return value;
}


/* the two first digits, found in another way */

static wide_t
handy(wide_t users)
{
    if (users < 100) {
        return users;
    }

    return handy(users / 10) * 10;
}


static wq_rc_t
expected(const wq_backend_t *backend, wq_plan_t *plan)
{
    size_t  i;
    wide_t  per_visit, concurrent, cycle, per_cycle, users;

    static const uint32_t  periods[] = { 10, 20, 30, 60 };

    if (backend->tps == 0 || backend->calls == 0 || backend->load == 0
        || backend->session_ms == 0 || backend->load > 1000
        || backend->tps > WQ_DECIMAL_MAX || backend->calls > WQ_DECIMAL_MAX
        || backend->failure > WQ_DECIMAL_MAX)
    {
        return WQ_BAD_RANGE;
    }

    per_visit = (wide_t) backend->calls * (1000 + backend->failure);
    concurrent = (wide_t) backend->tps * backend->session_ms / per_visit;
    cycle = (wide_t) backend->session_ms * 1000 / backend->load;

    if (concurrent > UINT64_MAX || cycle > UINT64_MAX) {
        return WQ_BAD_RANGE;
    }

    per_cycle = (wide_t) backend->tps * cycle / per_visit;

    for (i = 0; i < 4; i++) {
        users = (wide_t) backend->tps * periods[i] * 1000 / per_visit;

        if (users >= 10 || i == 3) {
            break;
        }
    }

    users = handy(users);

    if (per_cycle > UINT64_MAX || users == 0 || users > WQ_RATE_USERS_MAX) {
        return WQ_BAD_RANGE;
    }

    plan->concurrent = (uint64_t) concurrent;
    plan->cycle_ms = (uint64_t) cycle;
    plan->per_cycle = (uint64_t) per_cycle;
    plan->rate.users = (uint32_t) users;
    plan->rate.period_ms = periods[i] * 1000;

    return WQ_OK;
}


static void
check_plan(const uint8_t *data, size_t size)
{
    wq_rc_t       rc;
    wq_plan_t     plan, want;
    wq_backend_t  backend;

    backend.tps = number(&data, &size);
    backend.calls = number(&data, &size);
    backend.failure = number(&data, &size);
    backend.load = number(&data, &size);
    backend.session_ms = number(&data, &size);

    memset(&plan, 0x5a, sizeof(plan));
    memset(&want, 0x5a, sizeof(want));

    rc = wq_rate_plan(&backend, &plan);

    require(rc == expected(&backend, &want));
    require(memcmp(&plan, &want, sizeof(plan)) == 0);
}


/* the input: a text, and the numbers of a backend, each of any length */

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    check_text(data, size);
    check_plan(data, size);

    return 0;
}
