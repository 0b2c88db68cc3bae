
/* core: how long the line takes */


#include <math.h>

#include "wq_eta.h"


/* give-ups as rare as this change nothing, and would be lost in rounding */
#define WQ_ETA_GIVE_UP_MIN  1e-15


static void wq_flow_decay(wq_flow_t *flow, double passed);
static void wq_flow_count(wq_flow_t *flow, double passed,
    const wq_look_t *look);
static double wq_flow_blend(double amount, double basis, double before);
static int64_t wq_eta_of_rate(const wq_rate_t *rate, uint64_t position);
static unsigned wq_eta_is_speed(const wq_speed_t *speed);
static int64_t wq_eta_of_speed(const wq_speed_t *speed, uint64_t position);


/*
 * Seconds, in which what was seen falls to an e-th.  The first is what follows
 * a change, the last is what a small line needs to have a speed at all.
 */

static const double  wq_flow_spans[WQ_FLOW_SPANS] = { 60, 300, 1800 };


void
wq_flow_look(wq_flow_t *flow, uint64_t now_ms, const wq_look_t *look)
{
    unsigned  counts;
    uint64_t  passed;

    /* at the first look nobody has waited yet, and so nothing is counted */

    passed = 0;
    counts = look->promoted >= flow->promoted
             && look->gave_up >= flow->gave_up;

    if (now_ms >= flow->time_ms) {
        passed = now_ms - flow->time_ms;
        flow->time_ms = now_ms;

    } else if (flow->time_ms - now_ms > WQ_FLOW_SKEW) {
        counts = 0;
        flow->time_ms = now_ms;
    }

    wq_flow_decay(flow, (double) passed / 1000);

    if (counts && passed <= WQ_FLOW_PAUSE && flow->waiting > 0
        && !look->halted)
    {
        wq_flow_count(flow, (double) passed / 1000, look);
    }

    if (counts && look->promoted > flow->promoted) {
        flow->idle = 0;
    }

    flow->promoted = look->promoted;
    flow->gave_up = look->gave_up;

    /* who waits in a line that is halted waits for that to end */

    flow->waiting = look->halted ? 0 : look->waiting;
}


static void
wq_flow_decay(wq_flow_t *flow, double passed)
{
    size_t           i;
    double           kept;
    wq_flow_span_t  *span;

    for (i = 0; i < WQ_FLOW_SPANS; i++) {
        span = &flow->spans[i];
        kept = exp(-passed / wq_flow_spans[i]);

        span->seconds *= kept;
        span->let_in *= kept;
        span->gave_up *= kept;
        span->waited *= kept;
    }
}


static void
wq_flow_count(wq_flow_t *flow, double passed, const wq_look_t *look)
{
    size_t           i;
    double           part, waited, let_in, gave_up;
    wq_flow_span_t  *span;

    let_in = (double) (look->promoted - flow->promoted);
    gave_up = (double) (look->gave_up - flow->gave_up);
    waited = ((double) flow->waiting + (double) look->waiting) / 2 * passed;

    flow->idle += passed;

    for (i = 0; i < WQ_FLOW_SPANS; i++) {
        span = &flow->spans[i];

        /* it came evenly, and the older half of it has decayed more */

        part = 1;

        if (passed > 0) {
            part = -expm1(-passed / wq_flow_spans[i]) * wq_flow_spans[i]
                   / passed;
        }

        span->seconds += part * passed;
        span->let_in += part * let_in;
        span->gave_up += part * gave_up;
        span->waited += part * waited;
    }
}


void
wq_flow_speed(const wq_flow_t *flow, uint64_t now_ms, wq_speed_t *speed)
{
    size_t                 i;
    double                 let_in, gave_up;
    const wq_flow_span_t  *span;

    speed->let_in = 0;
    speed->gave_up = 0;

    if (now_ms > flow->time_ms && now_ms - flow->time_ms > WQ_FLOW_AGE) {
        return;
    }

    span = &flow->spans[WQ_FLOW_SPANS - 1];

    if (span->let_in < WQ_FLOW_LET_IN_MIN
        || span->seconds < WQ_FLOW_SECONDS_MIN)
    {
        return;
    }

    let_in = span->let_in / span->seconds;
    gave_up = span->waited > 0 ? span->gave_up / span->waited : 0;

    /* nothing for so long that it does not look like chance */

    if (flow->idle > WQ_FLOW_IDLE
        && flow->idle > WQ_FLOW_IDLE_TIMES / let_in)
    {
        return;
    }

    for (i = WQ_FLOW_SPANS - 1; i > 0; i--) {
        span = &flow->spans[i - 1];

        let_in = wq_flow_blend(span->let_in, span->seconds, let_in);
        gave_up = wq_flow_blend(span->gave_up, span->waited, gave_up);
    }

    speed->let_in = let_in;
    speed->gave_up = gave_up;
}


/*
 * What a shorter span says of a rate, for which the longer ones stand with the
 * weight of WQ_FLOW_ENOUGH.  To take either the one or the other instead, by
 * whether enough was seen, would let the speed jump, and make it rise when
 * nobody is let in any more and the shorter span runs out.
 */

static double
wq_flow_blend(double amount, double basis, double before)
{
    if (!(before > 0)) {
        return 0;
    }

    return (amount + WQ_FLOW_ENOUGH) / (basis + WQ_FLOW_ENOUGH / before);
}


int64_t
wq_eta(const wq_pace_t *pace, uint64_t position)
{
    int64_t  seconds, seen;

    if (pace->halted) {
        return WQ_ETA_UNKNOWN;
    }

    if (pace->rate.period_ms == 0) {
        return wq_eta_of_speed(&pace->speed, position);
    }

    seconds = wq_eta_of_rate(&pace->rate, position);

    if (seconds == WQ_ETA_UNKNOWN || !pace->crowded
        || !wq_eta_is_speed(&pace->speed))
    {
        return seconds;
    }

    /* here not known is more than WQ_ETA_MAX */

    seen = wq_eta_of_speed(&pace->speed, position);

    return (seen == WQ_ETA_UNKNOWN || seen > seconds) ? seen : seconds;
}


static int64_t
wq_eta_of_rate(const wq_rate_t *rate, uint64_t position)
{
    uint64_t  periods;

    if (rate->users == 0) {
        return WQ_ETA_UNKNOWN;
    }

    periods = position / rate->users + (position % rate->users != 0);

    if (periods > (uint64_t) WQ_ETA_MAX * 1000 / rate->period_ms) {
        return WQ_ETA_UNKNOWN;
    }

    return (int64_t) ((periods * rate->period_ms + 999) / 1000);
}


static unsigned
wq_eta_is_speed(const wq_speed_t *speed)
{
    return isfinite(speed->let_in) && speed->let_in > 0
           && isfinite(speed->gave_up) && speed->gave_up >= 0;
}


/* the position falls by let_in + gave_up * position in each second */

static int64_t
wq_eta_of_speed(const wq_speed_t *speed, uint64_t position)
{
    double   time;
    int64_t  seconds;

    if (!wq_eta_is_speed(speed)) {
        return WQ_ETA_UNKNOWN;
    }

    time = (double) position / speed->let_in;

    if (speed->gave_up > WQ_ETA_GIVE_UP_MIN) {
        time = log1p(speed->gave_up * time) / speed->gave_up;
    }

    /* written so that what is not a number at all is not known */

    if (!(time <= WQ_ETA_MAX)) {
        return WQ_ETA_UNKNOWN;
    }

    seconds = (int64_t) time;

    return ((double) seconds < time) ? seconds + 1 : seconds;
}
