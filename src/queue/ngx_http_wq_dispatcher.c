
/*
 * queue: dispatcher.
 *
 * Reads DISPATCH:{instance}, the stream of what this worker must tell its own
 * clients.
 */


#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_http_wq_worker.h"


static ngx_int_t ngx_http_wq_dispatcher_handler(
    ngx_http_wq_consumer_t *consumer, const ngx_http_wq_notice_t *notice,
    ngx_http_wq_batch_item_t *item);


void
ngx_http_wq_dispatcher_init(ngx_http_wq_worker_t *worker)
{
    ngx_http_wq_consumer_t  *dispatcher;

    dispatcher = &worker->dispatcher;

    ngx_http_wq_consumer_init(dispatcher, worker, &worker->instance);

    dispatcher->handler = ngx_http_wq_dispatcher_handler;
    dispatcher->messages = &worker->slot->counters.dispatched;
    dispatcher->garbage = &worker->slot->counters.dispatch_garbage;
    dispatcher->lag = &worker->slot->gauges.dispatcher_lag_ms;
}


/*
 * A message may come more than once, and later than what the user has been told
 * by other ways: whoever is told must look at what it says.
 */

static ngx_int_t
ngx_http_wq_dispatcher_handler(ngx_http_wq_consumer_t *consumer,
    const ngx_http_wq_notice_t *notice, ngx_http_wq_batch_item_t *item)
{
    if (notice->type == WQ_NOTICE_SEAT) {
        ngx_http_wq_seat_notice(consumer->worker, notice);
        return NGX_OK;
    }

    return ngx_http_wq_client_notice(consumer->worker, notice);
}
