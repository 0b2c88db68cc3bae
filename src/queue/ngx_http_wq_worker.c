
/* queue: one worker's part in the line, from its start to its end */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

#include "ngx_http_wq_worker.h"


/* streams that are ended in one turn of the event loop */
#define NGX_HTTP_WQ_WORKER_DRAIN_SLICE  512

/* and the shortest time between two of them, in ms */
#define NGX_HTTP_WQ_WORKER_DRAIN_TICK   20

/* between two looks of one that quits whether all requests are over, in ms */
#define NGX_HTTP_WQ_WORKER_LOOK         50


static ngx_int_t ngx_http_wq_worker_init(ngx_http_wq_worker_t *worker);
static void ngx_http_wq_worker_name(ngx_http_wq_worker_t *worker);
static void ngx_http_wq_worker_stop_jobs(ngx_http_wq_worker_t *worker);
static ngx_connection_t *ngx_http_wq_worker_watch(ngx_http_wq_worker_t *worker);
static void ngx_http_wq_worker_unwatch(ngx_http_wq_worker_t *worker);
static void ngx_http_wq_worker_watch_handler(ngx_event_t *ev);
static void ngx_http_wq_worker_quit_handler(ngx_event_t *ev);
static void ngx_http_wq_worker_leave(ngx_http_wq_worker_t *worker);
static ngx_int_t ngx_http_wq_worker_give_up(ngx_http_wq_worker_t *worker);
static void ngx_http_wq_worker_drain(ngx_http_wq_worker_t *worker);
static void ngx_http_wq_worker_sign_off(ngx_http_wq_worker_t *worker);

static void ngx_http_wq_worker_commands_ready(ngx_http_wq_link_t *link,
    void *data);
static void ngx_http_wq_worker_reader_ready(ngx_http_wq_link_t *link,
    void *data);
static void ngx_http_wq_worker_router_ready(ngx_http_wq_link_t *link,
    void *data);


ngx_http_wq_worker_t  *ngx_http_wq_worker;


static const ngx_http_wq_link_ready_pt
    ngx_http_wq_worker_ready[NGX_HTTP_WQ_LINKS] =
{
    ngx_http_wq_worker_commands_ready,
    ngx_http_wq_worker_reader_ready,
    ngx_http_wq_worker_router_ready
};


void
ngx_http_wq_worker_start(const ngx_http_wq_queue_conf_t *conf, ngx_log_t *log)
{
    ngx_http_wq_worker_t  *worker;

    worker = ngx_calloc(sizeof(ngx_http_wq_worker_t), log);
    if (worker == NULL) {
        return;
    }

    worker->conf = conf;
    worker->log = log;

    ngx_http_wq_worker = worker;

    if (ngx_http_wq_worker_init(worker) != NGX_OK) {
        ngx_log_error(NGX_LOG_ALERT, log, 0,
                      "waiting_queue: no memory or no connections to start, "
                      "this worker serves no waiting room");
        ngx_http_wq_worker_stop();
    }
}


static ngx_int_t
ngx_http_wq_worker_init(ngx_http_wq_worker_t *worker)
{
    ngx_uint_t                  i;
    ngx_http_wq_link_options_t  options;

    ngx_http_wq_worker_name(worker);

    worker->keyspace.prefix.len = worker->conf->prefix.len;
    worker->keyspace.prefix.data = worker->conf->prefix.data;

    worker->slot = ngx_http_wq_zone_claim(worker->conf->zone,
                                          &worker->instance, worker->log);
    if (worker->slot == NULL) {
        return NGX_ERROR;
    }

    ngx_http_wq_timer_init(&worker->quit, ngx_http_wq_worker_quit_handler,
                           worker, 0, worker->log);
    ngx_http_wq_clients_init(worker);
    ngx_http_wq_heartbeat_init(worker);
    ngx_http_wq_promoter_init(worker);
    ngx_http_wq_broadcaster_init(worker);
    ngx_http_wq_dispatcher_init(worker);
    ngx_http_wq_router_init(worker);
    ngx_http_wq_grace_init(worker);
    ngx_http_wq_recovery_init(worker);
    ngx_http_wq_visits_init(worker);
    ngx_http_wq_endings_init(worker);
    ngx_http_wq_seats_init(worker);

    worker->watcher = ngx_http_wq_worker_watch(worker);
    if (worker->watcher == NULL) {
        return NGX_ERROR;
    }

    for (i = 0; i < NGX_HTTP_WQ_LINKS; i++) {

        ngx_memzero(&options, sizeof(ngx_http_wq_link_options_t));

        options.name = ngx_http_wq_link_class_name(i);
        options.client_name = worker->client_names[i];
        options.conf = &worker->conf->redis;
        options.slot = &worker->slot->links[i];
        options.ready = ngx_http_wq_worker_ready[i];
        options.data = worker;
        options.blocking = (i != NGX_HTTP_WQ_COMMANDS);

        worker->links[i] = ngx_http_wq_link_create(&options, worker->log);
        if (worker->links[i] == NULL) {
            return NGX_ERROR;
        }
    }

    worker->dispatcher.link = worker->links[NGX_HTTP_WQ_READER];
    worker->router.link = worker->links[NGX_HTTP_WQ_ROUTER];

    for (i = 0; i < NGX_HTTP_WQ_LINKS; i++) {
        ngx_http_wq_link_start(worker->links[i]);
    }

    return NGX_OK;
}


/* <node>-<pid>-<start in ms>: never reused, and two lives can overlap */

static void
ngx_http_wq_worker_name(ngx_http_wq_worker_t *worker)
{
    u_char      *p;
    ngx_uint_t   i;
    ngx_time_t  *tp;

    tp = ngx_timeofday();

    p = ngx_snprintf(worker->instance_data, sizeof(worker->instance_data),
                     "%V-%P-%uL", &worker->conf->node, ngx_pid,
                     (uint64_t) tp->sec * 1000 + tp->msec);

    worker->instance.data = worker->instance_data;
    worker->instance.len = p - worker->instance_data;

    for (i = 0; i < NGX_HTTP_WQ_LINKS; i++) {
        worker->client_names[i].data = worker->client_name_data[i];
        p = ngx_snprintf(worker->client_name_data[i],
                         sizeof(worker->client_name_data[i]), "%V:%s",
                         &worker->instance, ngx_http_wq_link_class_name(i));
        worker->client_names[i].len = p - worker->client_name_data[i];
    }
}


/*
 * Called when the process ends, in whatever way but a crash.  There is no turn
 * of the event loop any more: nothing is sent, nobody is called back.
 */

void
ngx_http_wq_worker_stop(void)
{
    ngx_uint_t             i;
    ngx_http_wq_worker_t  *worker;

    worker = ngx_http_wq_worker;

    if (worker == NULL) {
        return;
    }

    ngx_http_wq_worker = NULL;
    worker->leaving = 1;
    worker->draining = 1;

    for (i = 0; i < NGX_HTTP_WQ_LINKS; i++) {
        if (worker->links[i]) {
            ngx_http_wq_link_destroy(worker->links[i]);
        }
    }

    ngx_http_wq_worker_unwatch(worker);

    if (worker->slot) {
        ngx_http_wq_timer_stop(&worker->quit);
        ngx_http_wq_worker_stop_jobs(worker);
        ngx_http_wq_reaper_stop(worker);
        ngx_http_wq_visits_destroy(worker);
        ngx_http_wq_endings_destroy(worker);
        ngx_http_wq_seats_destroy(worker);
        ngx_http_wq_clients_destroy(worker);
        ngx_http_wq_consumer_destroy(&worker->dispatcher);
        ngx_http_wq_consumer_destroy(&worker->router);
        ngx_http_wq_zone_release(worker->conf->zone, worker->slot);
    }

    ngx_free(worker);
}


static void
ngx_http_wq_worker_stop_jobs(ngx_http_wq_worker_t *worker)
{
    ngx_http_wq_heartbeat_stop(worker);
    ngx_http_wq_promoter_stop(worker);
    ngx_http_wq_broadcaster_stop(worker);
    ngx_http_wq_grace_stop(worker);
    ngx_http_wq_recovery_stop(worker);
    ngx_http_wq_consumer_stop(&worker->dispatcher);
    ngx_http_wq_consumer_stop(&worker->router);
}


/*
 * nginx tells its modules nothing when a worker begins to quit, but it calls
 * the read handler of every idle connection.  So there is one, of no socket.
 */

static ngx_connection_t *
ngx_http_wq_worker_watch(ngx_http_wq_worker_t *worker)
{
    ngx_connection_t  *c, *saved;

    saved = NULL;

    if (ngx_cycle->files) {
        saved = ngx_cycle->files[0];
    }

    c = ngx_get_connection(0, worker->log);

    if (ngx_cycle->files) {
        ngx_cycle->files[0] = saved;
    }

    if (c == NULL) {
        return NULL;
    }

    c->fd = (ngx_socket_t) -2;
    c->idle = 1;
    c->data = worker;

    c->read->log = worker->log;
    c->read->handler = ngx_http_wq_worker_watch_handler;
    c->write->log = worker->log;

    return c;
}


static void
ngx_http_wq_worker_unwatch(ngx_http_wq_worker_t *worker)
{
    ngx_connection_t  *c;

    c = worker->watcher;

    if (c == NULL) {
        return;
    }

    worker->watcher = NULL;

    c->fd = 0;
    ngx_free_connection(c);
    c->fd = (ngx_socket_t) -1;
}


static void
ngx_http_wq_worker_watch_handler(ngx_event_t *ev)
{
    ngx_connection_t      *c;
    ngx_http_wq_worker_t  *worker;

    c = ev->data;
    worker = c->data;

    if (!c->close) {
        return;
    }

    ngx_http_wq_worker_unwatch(worker);

    /*
     * Not here: this runs between two turns of the event loop, where an event
     * that is posted would wait for the next one to happen by chance.
     */

    ngx_http_wq_timer_set(&worker->quit, 1);
}


/*
 * A graceful quit: gives the streams up, signs off, waits for what is in
 * flight, closes.  The process lives until the last command has been answered
 * or has timed out, because the deadline timer of the commands link is not
 * cancelable, and neither is this one; then nothing holds it.
 */

static void
ngx_http_wq_worker_quit_handler(ngx_event_t *ev)
{
    ngx_http_wq_worker_t  *worker;

    worker = ngx_http_wq_timer_data(ev);

    if (!worker->leaving) {
        ngx_http_wq_worker_leave(worker);
    }

    if (!worker->draining) {

        if (ngx_http_wq_worker_give_up(worker) == NGX_AGAIN) {
            return;
        }

        if (ngx_http_wq_recovery_busy(worker)) {
            /* nobody else has taken it upon himself */
            ngx_http_wq_timer_set(&worker->quit, NGX_HTTP_WQ_WORKER_LOOK);
            return;
        }

        ngx_http_wq_worker_drain(worker);
    }

    if (worker->admitted || ngx_http_wq_endings_busy(worker)
        || worker->seats.count || !ngx_queue_empty(&worker->visits)
        || ngx_http_wq_consumer_busy(&worker->router))
    {
        /* the backend may still say that a seat is sold */
        ngx_http_wq_timer_set(&worker->quit, NGX_HTTP_WQ_WORKER_LOOK);
        return;
    }

    ngx_http_wq_worker_sign_off(worker);
}


/*
 * From now on others begin the rounds, and route what somebody must be told.
 * Its own clients hear of all there is, as long as they are here.
 */

static void
ngx_http_wq_worker_leave(ngx_http_wq_worker_t *worker)
{
    ngx_log_debug0(NGX_LOG_DEBUG_CORE, worker->log, 0,
                   "waiting_queue: worker quits");

    worker->leaving = 1;
    worker->drained = ngx_current_msec + worker->conf->drain;
    wq_counter_set(worker->slot->draining, 1);

    ngx_http_wq_promoter_stop(worker);
    ngx_http_wq_consumer_finish(&worker->router,
                                worker->links[NGX_HTTP_WQ_COMMANDS]);
}


/*
 * As many streams as it is time for, so that they end one after another until
 * the time is over: those who connect again do so in the same pace.  NGX_AGAIN:
 * there are more, and the timer is set; NGX_OK: there are none.
 */

static ngx_int_t
ngx_http_wq_worker_give_up(ngx_http_wq_worker_t *worker)
{
    ngx_msec_t      wait;
    ngx_uint_t      n, streams;
    ngx_msec_int_t  left;

    left = (ngx_msec_int_t) (worker->drained - ngx_current_msec);
    streams = ngx_http_wq_clients_connected(worker);

    if (left <= 0) {
        n = NGX_HTTP_WQ_WORKER_DRAIN_SLICE;
        wait = 1;

    } else {
        /* this moment has its share too, and so has the end */

        wait = ngx_max((ngx_msec_t) left / (streams + 1),
                       NGX_HTTP_WQ_WORKER_DRAIN_TICK);
        n = (streams * wait + left - 1) / left;
        n = ngx_min(n, NGX_HTTP_WQ_WORKER_DRAIN_SLICE);
    }

    ngx_http_wq_clients_leave(worker, n);

    if (n >= streams) {
        return NGX_OK;
    }

    ngx_http_wq_timer_set(&worker->quit, wait);

    return NGX_AGAIN;
}


static void
ngx_http_wq_worker_drain(ngx_http_wq_worker_t *worker)
{
    worker->draining = 1;

    ngx_http_wq_worker_stop_jobs(worker);

    /* the places of those who are not yet back are for others to look after */
    worker->indebted = ngx_http_wq_clients_any(worker);

    ngx_http_wq_link_drain(worker->links[NGX_HTTP_WQ_READER]);

    ngx_http_wq_seats_drain(worker);
    ngx_http_wq_endings_drain(worker);
    ngx_http_wq_clients_drain(worker);
}


static void
ngx_http_wq_worker_sign_off(ngx_http_wq_worker_t *worker)
{
    ngx_http_wq_link_t  *commands;

    commands = worker->links[NGX_HTTP_WQ_COMMANDS];

    if (commands->state == NGX_HTTP_WQ_LINK_READY) {

        if (worker->indebted) {
            ngx_http_wq_heartbeat_last(worker);

        } else {
            (void) ngx_http_wq_call_bury_instance(commands, &worker->keyspace,
                                                  &worker->instance, NULL,
                                                  NULL);
        }
    }

    ngx_http_wq_link_drain(commands);
}


static void
ngx_http_wq_worker_commands_ready(ngx_http_wq_link_t *link, void *data)
{
    ngx_http_wq_worker_t *worker = data;

    ngx_http_wq_heartbeat_start(worker);
    ngx_http_wq_promoter_start(worker);
    ngx_http_wq_broadcaster_start(worker);
}


static void
ngx_http_wq_worker_reader_ready(ngx_http_wq_link_t *link, void *data)
{
    ngx_http_wq_worker_t *worker = data;

    ngx_http_wq_consumer_start(&worker->dispatcher);
}


static void
ngx_http_wq_worker_router_ready(ngx_http_wq_link_t *link, void *data)
{
    ngx_http_wq_worker_t *worker = data;

    ngx_http_wq_consumer_start(&worker->router);
}
