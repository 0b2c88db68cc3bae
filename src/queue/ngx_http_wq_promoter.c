
/*
 * queue: promoter.
 *
 * One worker of all nodes wins a short lease and fills the list of tasks with
 * the events there are, if it is empty: rounds never pile up.  Every worker
 * takes events from the list and runs the promote script for them, a few at
 * once.  An event that is lost with its worker comes back in the next round.
 *
 * Where there is a rate, who has heard that somebody waits for the next period
 * calls again when it begins: the workers' ticks fall as they may.
 */


#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_http_wq_worker.h"


/* events being promoted by one worker at once */
#define NGX_HTTP_WQ_PROMOTER_RUNNING     8

/* an instance without heartbeat for so long is dead */
#define NGX_HTTP_WQ_PROMOTER_DEAD_AFTER  10000


static void ngx_http_wq_promoter_tick(ngx_event_t *ev);
static void ngx_http_wq_promoter_round(ngx_http_wq_worker_t *worker);
static void ngx_http_wq_promoter_round_handler(void *data,
    ngx_http_wq_result_t *result);
static void ngx_http_wq_promoter_pop(ngx_http_wq_worker_t *worker);
static void ngx_http_wq_promoter_pop_handler(void *data,
    ngx_http_wq_result_t *result);
static ngx_int_t ngx_http_wq_promoter_run(ngx_http_wq_event_t *event);
static void ngx_http_wq_promoter_run_handler(void *data,
    ngx_http_wq_result_t *result);
static void ngx_http_wq_promoter_opened(ngx_event_t *ev);
static void ngx_http_wq_promoter_done(ngx_http_wq_event_t *event);


void
ngx_http_wq_promoter_init(ngx_http_wq_worker_t *worker)
{
    ngx_http_wq_timer_init(&worker->promoter.timer, ngx_http_wq_promoter_tick,
                           worker, 1, worker->log);

    ngx_queue_init(&worker->promoter.opening);
}


void
ngx_http_wq_promoter_event_init(ngx_http_wq_event_t *event)
{
    ngx_http_wq_timer_init(&event->opens, ngx_http_wq_promoter_opened, event,
                           1, event->worker->log);
}


void
ngx_http_wq_promoter_start(ngx_http_wq_worker_t *worker)
{
    ngx_msec_t  interval;

    if (!worker->promoter.timer.event.timer_set && !worker->leaving) {

        /* workers that were started together spread over the interval */

        interval = worker->conf->promote_interval;
        ngx_http_wq_timer_set(&worker->promoter.timer,
                              1 + (ngx_msec_t) ngx_random() % interval);
    }
}


void
ngx_http_wq_promoter_stop(ngx_http_wq_worker_t *worker)
{
    ngx_queue_t          *q;
    ngx_http_wq_event_t  *event;

    ngx_http_wq_timer_stop(&worker->promoter.timer);

    while (!ngx_queue_empty(&worker->promoter.opening)) {
        q = ngx_queue_head(&worker->promoter.opening);
        event = ngx_queue_data(q, ngx_http_wq_event_t, opening);

        ngx_queue_remove(q);
        ngx_http_wq_timer_stop(&event->opens);
        ngx_http_wq_event_release(event);
    }
}


static void
ngx_http_wq_promoter_tick(ngx_event_t *ev)
{
    ngx_http_wq_worker_t  *worker;

    worker = ngx_http_wq_timer_data(ev);

    ngx_http_wq_timer_set(&worker->promoter.timer,
                          worker->conf->promote_interval);

    ngx_http_wq_promoter_round(worker);
}


static void
ngx_http_wq_promoter_round(ngx_http_wq_worker_t *worker)
{
    ngx_msec_t               round;
    ngx_http_wq_reply_to_t   to;

    if (worker->promoter.under_way || worker->promoter.running) {
        /* still at the last one */
        return;
    }

    to.handler = ngx_http_wq_promoter_round_handler;
    to.data = worker;
    to.operation = NULL;

    /* a little less, or a timer that is a moment early would miss a round */

    round = worker->conf->promote_interval;
    round -= round / 10;

    if (ngx_http_wq_call_fill_tasks(worker->links[NGX_HTTP_WQ_COMMANDS],
                                    &worker->keyspace, &worker->instance,
                                    round, NGX_HTTP_WQ_PROMOTER_DEAD_AFTER,
                                    &to)
        == NGX_OK)
    {
        worker->promoter.under_way = 1;
    }
}


static void
ngx_http_wq_promoter_round_handler(void *data, ngx_http_wq_result_t *result)
{
    ngx_http_wq_worker_t *worker = data;

    ngx_http_wq_tasks_reply_t  reply;

    worker->promoter.under_way = 0;

    if (ngx_http_wq_decode_tasks(worker->links[NGX_HTTP_WQ_COMMANDS], result,
                                 &reply)
        != NGX_OK
        || worker->leaving)
    {
        return;
    }

    if (reply.leads) {
        wq_counter_add(worker->slot->counters.promote_rounds, 1);
        ngx_http_wq_reaper_start(worker, &reply);
    }

    if (reply.tasks) {
        ngx_http_wq_promoter_pop(worker);
    }
}


static void
ngx_http_wq_promoter_pop(ngx_http_wq_worker_t *worker)
{
    ngx_http_wq_reply_to_t  to;

    if (worker->leaving) {
        return;
    }

    to.handler = ngx_http_wq_promoter_pop_handler;
    to.data = worker;
    to.operation = NULL;

    if (ngx_http_wq_call_pop_tasks(worker->links[NGX_HTTP_WQ_COMMANDS],
                                   &worker->keyspace,
                                   NGX_HTTP_WQ_PROMOTER_RUNNING, &to)
        == NGX_OK)
    {
        worker->promoter.under_way = 1;
    }
}


static void
ngx_http_wq_promoter_pop_handler(void *data, ngx_http_wq_result_t *result)
{
    ngx_http_wq_worker_t *worker = data;

    ngx_int_t             rc;
    ngx_str_t             id;
    ngx_uint_t            i;
    ngx_http_wq_event_t  *event;

    worker->promoter.under_way = 0;

    if (result->outcome != NGX_HTTP_WQ_ANSWERED) {
        return;
    }

    for (i = 0; i < NGX_HTTP_WQ_PROMOTER_RUNNING; i++) {

        rc = ngx_http_wq_decode_event_id(result, i, &id);

        if (rc == NGX_DONE) {
            break;
        }

        if (rc != NGX_OK) {
            /* put there by hand: no event has such a name */
            continue;
        }

        event = ngx_http_wq_event_get(worker, &id);
        if (event == NULL) {
            continue;
        }

        if (event->promoting || ngx_http_wq_promoter_run(event) != NGX_OK) {
            ngx_http_wq_event_release(event);
            continue;
        }

        event->promoting = 1;
        worker->promoter.running++;
    }
}


static ngx_int_t
ngx_http_wq_promoter_run(ngx_http_wq_event_t *event)
{
    ngx_http_wq_worker_t    *worker;
    ngx_http_wq_reply_to_t   to;

    worker = event->worker;

    to.handler = ngx_http_wq_promoter_run_handler;
    to.data = event;
    to.operation = NULL;

    event->promote_us = ngx_http_wq_clock_us();

    return ngx_http_wq_call_promote(worker->links[NGX_HTTP_WQ_COMMANDS],
                                    &event->keys, &to);
}


static void
ngx_http_wq_promoter_run_handler(void *data, ngx_http_wq_result_t *result)
{
    ngx_http_wq_event_t *event = data;

    ngx_http_wq_worker_t         *worker;
    ngx_http_wq_promote_reply_t   reply;

    worker = event->worker;

    if (ngx_http_wq_decode_promote(worker->links[NGX_HTTP_WQ_COMMANDS],
                                   result, &reply)
        != NGX_OK)
    {
        ngx_http_wq_promoter_done(event);
        return;
    }

    wq_counter_add(worker->slot->counters.promote_calls, 1);
    wq_counter_add(worker->slot->counters.promote_us,
                   ngx_http_wq_clock_us() - event->promote_us);
    wq_counter_add(worker->slot->counters.promoted, reply.promoted);
    wq_counter_add(worker->slot->counters.lapsed, reply.expired);

    ngx_http_wq_zone_report(worker->conf->zone, &event->id.str,
                            &reply.figures);

    if (reply.more && !worker->leaving
        && ngx_http_wq_promoter_run(event) == NGX_OK)
    {
        return;
    }

    ngx_http_wq_promoter_opens(event, reply.opens_ms);
    ngx_http_wq_promoter_done(event);
}


/*
 * The next period of the rate is waited for, where it begins before the next
 * round would find that it has: who goes in first goes in on time.
 */

void
ngx_http_wq_promoter_opens(ngx_http_wq_event_t *event, int64_t ms)
{
    ngx_http_wq_worker_t  *worker;

    worker = event->worker;

    if (ms == 0 || worker->leaving
        || ms > 2 * (int64_t) worker->conf->promote_interval)
    {
        return;
    }

    if (!event->opens.event.timer_set) {
        ngx_queue_insert_tail(&worker->promoter.opening, &event->opening);
        ngx_http_wq_event_hold(event);
    }

    ngx_http_wq_timer_set(&event->opens, (ngx_msec_t) ms);
}


static void
ngx_http_wq_promoter_opened(ngx_event_t *ev)
{
    ngx_http_wq_event_t  *event;

    event = ngx_http_wq_timer_data(ev);

    ngx_queue_remove(&event->opening);

    /* what holds it from now on is the call, if there is one */

    if (event->promoting || ngx_http_wq_promoter_run(event) != NGX_OK) {
        ngx_http_wq_event_release(event);
        return;
    }

    event->promoting = 1;
    event->worker->promoter.running++;
}


static void
ngx_http_wq_promoter_done(ngx_http_wq_event_t *event)
{
    ngx_http_wq_worker_t  *worker;

    worker = event->worker;

    event->promoting = 0;
    ngx_http_wq_event_release(event);

    worker->promoter.running--;

    if (worker->promoter.running == 0 && !worker->promoter.under_way) {
        ngx_http_wq_promoter_pop(worker);
    }
}
