
/*
 * queue: dispatcher.
 *
 * Reads DISPATCH:{instance}, the stream of what this worker must tell its own
 * clients, with a blocking read on the reader link.  A message is acknowledged
 * and removed when it has been dealt with; one that makes no sense is logged,
 * counted and removed too, so that it cannot come back for ever.  What could
 * not be removed is read again: first of all when the link is up again, and
 * when there is nothing new.
 */


#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_http_wq_worker.h"


#define NGX_HTTP_WQ_DISPATCHER_BLOCK  5000

/* the pace of tries while Redis answers reads with errors */
#define NGX_HTTP_WQ_DISPATCHER_PAUSE  1000


static void ngx_http_wq_dispatcher_tick(ngx_event_t *ev);
static void ngx_http_wq_dispatcher_open(ngx_http_wq_worker_t *worker);
static void ngx_http_wq_dispatcher_open_handler(void *data,
    ngx_http_wq_result_t *result);
static void ngx_http_wq_dispatcher_read(ngx_http_wq_worker_t *worker);
static void ngx_http_wq_dispatcher_read_handler(void *data,
    ngx_http_wq_result_t *result);
static void ngx_http_wq_dispatcher_pause(ngx_http_wq_worker_t *worker);
static ngx_uint_t ngx_http_wq_dispatcher_messages(
    ngx_http_wq_worker_t *worker, ngx_http_wq_result_t *result);
static void ngx_http_wq_dispatcher_discard_handler(void *data,
    ngx_http_wq_result_t *result);
static void ngx_http_wq_dispatcher_set_after(
    ngx_http_wq_dispatcher_t *dispatcher, const u_char *id, size_t len);


void
ngx_http_wq_dispatcher_init(ngx_http_wq_worker_t *worker)
{
    ngx_http_wq_timer_init(&worker->dispatcher.timer,
                           ngx_http_wq_dispatcher_tick, worker, 1,
                           worker->log);
}


void
ngx_http_wq_dispatcher_start(ngx_http_wq_worker_t *worker)
{
    ngx_http_wq_dispatcher_open(worker);
}


void
ngx_http_wq_dispatcher_stop(ngx_http_wq_worker_t *worker)
{
    ngx_http_wq_timer_stop(&worker->dispatcher.timer);
}


static void
ngx_http_wq_dispatcher_tick(ngx_event_t *ev)
{
    ngx_http_wq_dispatcher_open(ngx_http_wq_timer_data(ev));
}


static void
ngx_http_wq_dispatcher_open(ngx_http_wq_worker_t *worker)
{
    ngx_http_wq_link_t      *link;
    ngx_http_wq_reply_to_t   to;

    link = worker->links[NGX_HTTP_WQ_READER];

    if (worker->draining || worker->dispatcher.reading
        || link->state != NGX_HTTP_WQ_LINK_READY)
    {
        return;
    }

    worker->dispatcher.again = 0;
    ngx_http_wq_dispatcher_set_after(&worker->dispatcher, (u_char *) "0", 1);

    to.handler = ngx_http_wq_dispatcher_open_handler;
    to.data = worker;
    to.operation = NULL;

    if (ngx_http_wq_call_dispatch_open(link, &worker->keyspace,
                                       &worker->instance, &to)
        == NGX_OK)
    {
        worker->dispatcher.reading = 1;
        return;
    }

    ngx_http_wq_dispatcher_pause(worker);
}


static void
ngx_http_wq_dispatcher_open_handler(void *data, ngx_http_wq_result_t *result)
{
    ngx_http_wq_worker_t *worker = data;

    worker->dispatcher.reading = 0;

    if (result->outcome == NGX_HTTP_WQ_ANSWERED
        || result->error == WQ_REDIS_ERROR_BUSYGROUP)
    {
        ngx_http_wq_dispatcher_read(worker);
        return;
    }

    ngx_http_wq_dispatcher_pause(worker);
}


static void
ngx_http_wq_dispatcher_read(ngx_http_wq_worker_t *worker)
{
    ngx_http_wq_link_t      *link;
    ngx_http_wq_reply_to_t   to;

    link = worker->links[NGX_HTTP_WQ_READER];

    if (worker->draining) {
        return;
    }

    to.handler = ngx_http_wq_dispatcher_read_handler;
    to.data = worker;
    to.operation = NULL;

    if (ngx_http_wq_call_dispatch_read(link, &worker->keyspace,
                                       &worker->instance,
                                       &worker->dispatcher.after,
                                       NGX_HTTP_WQ_DISPATCHER_BLOCK, &to)
        == NGX_OK)
    {
        worker->dispatcher.started = ngx_current_msec;
        worker->dispatcher.reading = 1;
        return;
    }

    ngx_http_wq_dispatcher_pause(worker);
}


static void
ngx_http_wq_dispatcher_read_handler(void *data, ngx_http_wq_result_t *result)
{
    ngx_http_wq_worker_t *worker = data;

    ngx_uint_t                 n;
    ngx_http_wq_dispatcher_t  *dispatcher;

    dispatcher = &worker->dispatcher;
    dispatcher->reading = 0;

    if (result->outcome != NGX_HTTP_WQ_ANSWERED) {

        /* the stream was removed or Redis lost its data: made anew; a link
         * that is down starts the dispatcher again when it is up */

        ngx_http_wq_dispatcher_pause(worker);
        return;
    }

    n = ngx_http_wq_dispatcher_messages(worker, result);

    if (n == 0 && dispatcher->after.data[0] == '>'
        && ngx_current_msec - dispatcher->started
           < NGX_HTTP_WQ_DISPATCHER_BLOCK / 2)
    {
        /* a Redis, or something before it, that does not wait as told */
        ngx_http_wq_dispatcher_pause(worker);
        return;
    }

    if (n == 0 && dispatcher->after.data[0] == '>' && dispatcher->again) {
        dispatcher->again = 0;
        ngx_http_wq_dispatcher_set_after(dispatcher, (u_char *) "0", 1);

    } else if (n == 0) {
        /* also when some could not be removed again: a read that waits must
         * come between two tries */
        ngx_http_wq_dispatcher_set_after(dispatcher, (u_char *) ">", 1);
    }

    ngx_http_wq_dispatcher_read(worker);
}


static void
ngx_http_wq_dispatcher_pause(ngx_http_wq_worker_t *worker)
{
    if (!worker->draining) {
        ngx_http_wq_timer_set(&worker->dispatcher.timer,
                              NGX_HTTP_WQ_DISPATCHER_PAUSE);
    }
}


/* returns how many there were; the reply is gone when this returns */

static ngx_uint_t
ngx_http_wq_dispatcher_messages(ngx_http_wq_worker_t *worker,
    ngx_http_wq_result_t *result)
{
    ngx_int_t                      rc;
    ngx_str_t                      ids[NGX_HTTP_WQ_DISPATCH_COUNT];
    ngx_uint_t                     i, n;
    ngx_http_wq_reply_to_t         to;
    ngx_http_wq_dispatcher_t      *dispatcher;
    ngx_http_wq_stream_message_t   message;

    dispatcher = &worker->dispatcher;
    n = 0;

    for (i = 0; n < NGX_HTTP_WQ_DISPATCH_COUNT; i++) {

        rc = ngx_http_wq_decode_stream_message(result, i, &message);

        if (rc == NGX_DONE) {
            break;
        }

        if (rc == NGX_OK) {
            ids[n].len = message.id.len;
            ids[n].data = message.id.data;
            n++;
        }
    }

    if (n == 0) {
        return 0;
    }

    wq_counter_add(worker->slot->counters.dispatched, n);
    wq_counter_add(worker->slot->counters.dispatch_garbage, n);

    if (ngx_http_wq_may_complain(&dispatcher->complained)) {
        ngx_log_error(NGX_LOG_WARN, worker->log, 0,
                      "waiting_queue: what was put into the dispatch stream of "
                      "\"%V\" makes no sense and is removed: %ui from \"%V\" "
                      "on (more within %d s is not logged)",
                      &worker->instance, n, &ids[0],
                      NGX_HTTP_WQ_COMPLAIN / 1000);
    }

    if (dispatcher->after.data[0] != '>') {
        ngx_http_wq_dispatcher_set_after(dispatcher, ids[n - 1].data,
                                         ids[n - 1].len);
    }

    to.handler = ngx_http_wq_dispatcher_discard_handler;
    to.data = worker;
    to.operation = NULL;

    if (ngx_http_wq_call_dispatch_discard(worker->links[NGX_HTTP_WQ_COMMANDS],
                                          &worker->keyspace, &worker->instance,
                                          ids, n, &to)
        != NGX_OK)
    {
        dispatcher->again = 1;
    }

    return n;
}


static void
ngx_http_wq_dispatcher_discard_handler(void *data,
    ngx_http_wq_result_t *result)
{
    ngx_http_wq_worker_t *worker = data;

    if (result->outcome != NGX_HTTP_WQ_ANSWERED) {
        worker->dispatcher.again = 1;
    }
}


static void
ngx_http_wq_dispatcher_set_after(ngx_http_wq_dispatcher_t *dispatcher,
    const u_char *id, size_t len)
{
    ngx_memcpy(dispatcher->after_data, id, len);

    dispatcher->after.data = dispatcher->after_data;
    dispatcher->after.len = len;
}
