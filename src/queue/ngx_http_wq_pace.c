
/*
 * queue: how long the line of an event takes, as this worker tells it.
 *
 * The rate and whether anybody is let in come with every answer of a script;
 * how fast the line has moved of late is what the zone has seen.
 */


#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_http_wq_worker.h"


/* the zone is not asked again sooner than in so many ms */
#define NGX_HTTP_WQ_PACE_FRESH   200

/*
 * Who has not moved is told a new time if it differs by a fourth of the old
 * one, and by so many s.
 */
#define NGX_HTTP_WQ_PACE_STEP    10


void
ngx_http_wq_pace_learn(ngx_http_wq_event_t *event, int64_t users, int64_t ms,
    int64_t halted, ngx_uint_t crowded)
{
    wq_pace_t             *pace;
    ngx_http_wq_worker_t  *worker;

    worker = event->worker;
    pace = &event->pace;

    pace->rate.users = (uint32_t) users;
    pace->rate.period_ms = (uint32_t) ms;
    pace->halted = (halted != 0);
    pace->crowded = (crowded != 0);

    if (!event->has_pace
        || ngx_current_msec - event->paced >= NGX_HTTP_WQ_PACE_FRESH)
    {
        event->has_pace = 1;
        event->paced = ngx_current_msec;

        ngx_http_wq_zone_speed(worker->conf->zone, &event->id.str,
                               &pace->speed);
    }
}


int64_t
ngx_http_wq_pace_eta(const ngx_http_wq_event_t *event, uint64_t rank)
{
    return wq_eta(&event->pace, rank + 1);
}


ngx_uint_t
ngx_http_wq_pace_is_news(const ngx_http_wq_event_t *event)
{
    int64_t   now, then, difference;
    uint64_t  last;

    last = (uint64_t) ngx_max(event->sweep_total, 1);

    now = wq_eta(&event->pace, last);
    then = wq_eta(&event->told, last);

    if (now == WQ_ETA_UNKNOWN || then == WQ_ETA_UNKNOWN) {
        return now != then;
    }

    difference = now > then ? now - then : then - now;

    return difference >= NGX_HTTP_WQ_PACE_STEP && 4 * difference >= then;
}
