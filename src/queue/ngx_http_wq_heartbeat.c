
/*
 * queue: heartbeat.
 *
 * Once a second this instance says that it is alive.  Who falls silent is
 * taken for dead by the others, and its places are given up after the grace
 * time.
 */


#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_http_wq_worker.h"


#define NGX_HTTP_WQ_HEARTBEAT_INTERVAL  1000


static void ngx_http_wq_heartbeat_tick(ngx_event_t *ev);
static void ngx_http_wq_heartbeat_send(ngx_http_wq_worker_t *worker);
static void ngx_http_wq_heartbeat_handler(void *data,
    ngx_http_wq_result_t *result);


void
ngx_http_wq_heartbeat_init(ngx_http_wq_worker_t *worker)
{
    ngx_http_wq_timer_init(&worker->heartbeat.timer,
                           ngx_http_wq_heartbeat_tick, worker, 1, worker->log);
}


/* the link is ready, perhaps again: says so at once, then every second */

void
ngx_http_wq_heartbeat_start(ngx_http_wq_worker_t *worker)
{
    ngx_http_wq_timer_set(&worker->heartbeat.timer,
                          NGX_HTTP_WQ_HEARTBEAT_INTERVAL);
    ngx_http_wq_heartbeat_send(worker);
}


void
ngx_http_wq_heartbeat_stop(ngx_http_wq_worker_t *worker)
{
    ngx_http_wq_timer_stop(&worker->heartbeat.timer);
}


static void
ngx_http_wq_heartbeat_tick(ngx_event_t *ev)
{
    ngx_http_wq_worker_t  *worker;

    worker = ngx_http_wq_timer_data(ev);

    ngx_http_wq_timer_set(&worker->heartbeat.timer,
                          NGX_HTTP_WQ_HEARTBEAT_INTERVAL);

    ngx_http_wq_heartbeat_send(worker);
}


static void
ngx_http_wq_heartbeat_send(ngx_http_wq_worker_t *worker)
{
    ngx_http_wq_link_t      *link;
    ngx_http_wq_reply_to_t   to;

    link = worker->links[NGX_HTTP_WQ_COMMANDS];

    if (link->state != NGX_HTTP_WQ_LINK_READY) {
        /* there will be one when it is */
        return;
    }

    if (worker->heartbeat.under_way) {
        wq_counter_add(worker->slot->counters.late_heartbeats, 1);
        return;
    }

    to.handler = ngx_http_wq_heartbeat_handler;
    to.data = worker;
    to.operation = NULL;

    if (ngx_http_wq_call_heartbeat(link, &worker->keyspace, &worker->instance,
                                   ngx_http_wq_zone_origin(worker->conf->zone),
                                   0, &to)
        == NGX_OK)
    {
        worker->heartbeat.under_way = 1;
    }
}


static void
ngx_http_wq_heartbeat_handler(void *data, ngx_http_wq_result_t *result)
{
    ngx_http_wq_worker_t *worker = data;

    ngx_http_wq_heartbeat_reply_t  reply;

    worker->heartbeat.under_way = 0;

    if (ngx_http_wq_decode_heartbeat(worker->links[NGX_HTTP_WQ_COMMANDS],
                                     result, &reply)
        == NGX_OK)
    {
        wq_counter_add(worker->slot->counters.heartbeats, 1);
        worker->clock = reply.now - (int64_t) ngx_current_msec;

        if (reply.unknown && worker->heartbeat.known) {

            /* Redis has lost its data, or we were silent for so long that the
             * others took us for dead: who stands in line must be looked at */

            ngx_http_wq_broadcaster_resync(worker);
        }

        worker->heartbeat.known = 1;

        ngx_http_wq_recovery_check(worker, reply.origin, reply.hold_ms);
        ngx_http_wq_endings_look(worker);
    }
}


/*
 * It leaves, and the places that it holds are for others to look after, once
 * those who are about to come again have had the time.
 */

void
ngx_http_wq_heartbeat_last(ngx_http_wq_worker_t *worker)
{
    (void) ngx_http_wq_call_heartbeat(worker->links[NGX_HTTP_WQ_COMMANDS],
                                      &worker->keyspace, &worker->instance,
                                      ngx_http_wq_zone_origin(
                                          worker->conf->zone),
                                      ngx_http_wq_come_again(worker), NULL);
}
