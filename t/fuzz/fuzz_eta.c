
/*
 * fuzz: whatever is seen of a line, its speed is a number; who stands further
 * behind waits no less, a faster line takes no longer, and a waiting time is
 * never negative, nor beyond what can be known.
 */


#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "wq_eta.h"


int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);


static void
require(int condition)
{
    if (!condition) {
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


static uint64_t
bytes(const uint8_t **data, size_t *size, unsigned n)
{
    uint64_t  value;

    value = 0;

    while (n--) {
        value = value << 8 | byte(data, size);
    }

    return value;
}


/* a small number, a larger one, or any */

static uint64_t
number(const uint8_t **data, size_t *size)
{
    uint8_t  first;

    first = byte(data, size);

    if (first < 0xe0) {
        return first;
    }

    return bytes(data, size, 1 + first % 8);
}


/* what is not known is later than all that is */

static int64_t
order(int64_t eta)
{
    return eta == WQ_ETA_UNKNOWN ? INT64_MAX : eta;
}


static int64_t
eta(const wq_pace_t *pace, uint64_t position)
{
    int64_t  seconds;

    seconds = wq_eta(pace, position);

    require(seconds == WQ_ETA_UNKNOWN
            || (seconds >= 0 && seconds <= WQ_ETA_MAX));
    require(position > 0 || seconds <= 0);
    require(!pace->halted || seconds == WQ_ETA_UNKNOWN);

    return order(seconds);
}


/* for speeds that are measured, and for any there are */

static void
check_pace(const wq_pace_t *given, uint64_t position, uint64_t further)
{
    int         known;
    double      time;
    int64_t     seconds, other;
    wq_pace_t   pace;

    pace = *given;

    seconds = eta(&pace, position);
    require(eta(&pace, position + further) >= seconds
            || position + further < position);

    known = isfinite(pace.speed.let_in) && pace.speed.let_in > 0
            && isfinite(pace.speed.gave_up) && pace.speed.gave_up >= 0;

    if (pace.halted || (pace.rate.period_ms > 0 && pace.rate.users == 0)
        || (pace.rate.period_ms == 0 && !known))
    {
        require(seconds == INT64_MAX);
        return;
    }

    if (pace.rate.period_ms > 0) {

        /* the rate alone, and the later of the two */

        pace.crowded = 0;
        other = eta(&pace, position);
        require(seconds >= other);
        require(seconds == other || (given->crowded && known));

        pace.crowded = given->crowded;
        pace.rate.period_ms = 0;

        if (pace.crowded && known) {
            seconds = eta(&pace, position);
            require(eta(given, position)
                    == (seconds > other ? seconds : other));
        }

        return;
    }

    require(position == 0 || seconds > 0 || pace.speed.let_in > 1e100);

    /* no longer than if nobody gave up, or more were let in */

    time = (double) position / pace.speed.let_in;

    if (!isfinite(pace.speed.gave_up * time * 2)) {
        /* what can be computed ends here */
        return;
    }

    require(!(time <= WQ_ETA_MAX) || (double) seconds < time + 1.001);

    pace.speed.let_in *= 2;

    if (isfinite(pace.speed.let_in)) {
        require(eta(&pace, position) <= seconds);
    }

    pace = *given;
    pace.speed.gave_up *= 2;

    if (isfinite(pace.speed.gave_up)) {
        require(eta(&pace, position) <= seconds);
    }
}


static void
check_flow(const wq_flow_t *flow, uint64_t now)
{
    size_t      i;
    wq_flow_t   same;
    wq_speed_t  speed, later;

    static const double  spans[] = { 60, 300, 1800 };

    for (i = 0; i < WQ_FLOW_SPANS; i++) {
        require(flow->spans[i].seconds >= 0
                && flow->spans[i].seconds <= spans[i] * 1.000001);
        require(isfinite(flow->spans[i].let_in)
                && flow->spans[i].let_in >= 0);
        require(isfinite(flow->spans[i].gave_up)
                && flow->spans[i].gave_up >= 0);
        require(isfinite(flow->spans[i].waited)
                && flow->spans[i].waited >= 0);
    }

    require(isfinite(flow->idle) && flow->idle >= 0);

    same = *flow;

    memset(&speed, 0xff, sizeof(speed));
    wq_flow_speed(flow, now, &speed);

    require(memcmp(&same, flow, sizeof(same)) == 0);
    require(isfinite(speed.let_in) && speed.let_in >= 0);
    require(isfinite(speed.gave_up) && speed.gave_up >= 0);
    require(speed.let_in > 0 || speed.gave_up == 0);

    /* the same, or out of date */

    wq_flow_speed(flow, now + WQ_FLOW_AGE / 2, &later);
    require(memcmp(&later, &speed, sizeof(speed)) == 0
            || (later.let_in == 0 && later.gave_up == 0));
}


/*
 * While nobody is let in, a speed that is known falls with each look, and is
 * not known for ever.
 */

static void
check_stall(const wq_flow_t *given, const wq_look_t *last, uint64_t now)
{
    unsigned    i;
    wq_flow_t   flow;
    wq_look_t   look;
    wq_speed_t  speed, before;

    if (now > UINT64_MAX / 2) {
        return;
    }

    flow = *given;
    look = *last;
    look.halted = 0;
    look.waiting = 1;

    wq_flow_look(&flow, now, &look);
    now = flow.time_ms;
    wq_flow_speed(&flow, now, &before);

    for (i = 0; i < 200; i++) {
        now += 1 + i * 100;
        wq_flow_look(&flow, now, &look);
        wq_flow_speed(&flow, now, &speed);

        /* before, it was perhaps not seen for long enough */

        require(before.let_in == 0
                || speed.let_in <= before.let_in * 1.000000001);
        before = speed;
    }

    for (i = 0; i < 10000 && speed.let_in > 0; i++) {
        now += 60000;
        wq_flow_look(&flow, now, &look);
        wq_flow_speed(&flow, now, &speed);
    }

    require(speed.let_in == 0 && speed.gave_up == 0);
}


/*
 * The input: a rate, flags, two positions, a speed of any bits; then looks,
 * each a byte that says of what kind it is, and what has changed.
 */

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t     kind;
    uint64_t    now, position, further, bits;
    wq_flow_t   flow;
    wq_look_t   look;
    wq_pace_t   pace;

    memset(&flow, 0, sizeof(flow));
    memset(&look, 0, sizeof(look));
    memset(&pace, 0, sizeof(pace));

    kind = byte(&data, &size);
    pace.halted = (kind & 1) && (kind & 2);
    pace.crowded = kind >> 2 & 1;

    if (kind & 8) {
        pace.rate.users = (uint32_t) number(&data, &size);
        pace.rate.period_ms = (uint32_t) number(&data, &size);
    }

    position = number(&data, &size);
    further = number(&data, &size);

    bits = bytes(&data, &size, 8);
    memcpy(&pace.speed.let_in, &bits, sizeof(bits));
    bits = bytes(&data, &size, 8);
    memcpy(&pace.speed.gave_up, &bits, sizeof(bits));

    check_pace(&pace, position, further);

    now = 0;

    while (size > 0) {
        kind = byte(&data, &size);

        look.halted = (kind & 7) == 0;
        look.promoted += kind & 8 ? number(&data, &size) : 0;
        look.gave_up += kind & 16 ? number(&data, &size) : 0;

        if (kind & 32) {
            look.waiting = number(&data, &size);
        }

        if ((kind & 0xc0) == 0xc0) {
            now = number(&data, &size);

        } else if ((kind & 0xc0) == 0x80) {
            now -= number(&data, &size) * 100;

        } else {
            now += number(&data, &size) * 100;
        }

        wq_flow_look(&flow, now, &look);
        check_flow(&flow, now);
    }

    wq_flow_speed(&flow, now, &pace.speed);
    check_pace(&pace, position, further);
    check_stall(&flow, &look, now);

    return 0;
}
