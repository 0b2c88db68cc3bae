
/*
 * queue: router.
 *
 * Reads ENTRY, which all workers of all nodes share, and hands each message to
 * the stream of the instance that must know.  Whichever worker reads it: what
 * one has read and not handed on, because it died, another claims.
 */


#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_http_wq_worker.h"


static ngx_int_t ngx_http_wq_router_handler(ngx_http_wq_consumer_t *consumer,
    const ngx_http_wq_notice_t *notice, ngx_http_wq_batch_item_t *item);
static void ngx_http_wq_router_dispatched(void *data,
    ngx_http_wq_result_t *result);


void
ngx_http_wq_router_init(ngx_http_wq_worker_t *worker)
{
    ngx_http_wq_consumer_t  *router;

    router = &worker->router;

    ngx_http_wq_consumer_init(router, worker, NULL);

    router->handler = ngx_http_wq_router_handler;
    router->messages = &worker->slot->counters.routed;
    router->garbage = &worker->slot->counters.router_garbage;
    router->claimed = &worker->slot->counters.claimed;
    router->lag = &worker->slot->gauges.router_lag_ms;
}


static ngx_int_t
ngx_http_wq_router_handler(ngx_http_wq_consumer_t *consumer,
    const ngx_http_wq_notice_t *notice, ngx_http_wq_batch_item_t *item)
{
    ngx_http_wq_worker_t    *worker;
    ngx_http_wq_reply_to_t   to;

    worker = consumer->worker;

    to.handler = ngx_http_wq_router_dispatched;
    to.data = item;
    to.operation = NULL;

    if (ngx_http_wq_call_dispatch(worker->links[NGX_HTTP_WQ_COMMANDS],
                                  &worker->keyspace, notice, &to)
        == NGX_OK)
    {
        return NGX_AGAIN;
    }

    return NGX_ERROR;
}


static void
ngx_http_wq_router_dispatched(void *data, ngx_http_wq_result_t *result)
{
    ngx_http_wq_batch_item_t *item = data;

    ngx_uint_t             ok;
    ngx_http_wq_worker_t  *worker;

    worker = item->batch->consumer->worker;
    ok = (result->outcome == NGX_HTTP_WQ_ANSWERED);

    if (ok && wq_reply_type(result->reply) == WQ_REPLY_NIL) {

        /* no such instance any more: the user will be told by the next join */

        wq_counter_add(worker->slot->counters.unroutable, 1);
    }

    ngx_http_wq_consumer_settle(item, ok);
}
