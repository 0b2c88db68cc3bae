
/* redis: one connection to Redis, kept up */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

#include "ngx_http_wq_link.h"
#include "ngx_http_wq_operation.h"


#define NGX_HTTP_WQ_LINK_BACKOFF_MIN  50
#define NGX_HTTP_WQ_LINK_BACKOFF_MAX  2000


static void ngx_http_wq_link_retry_handler(ngx_event_t *ev);
static void ngx_http_wq_link_deadline_handler(ngx_event_t *ev);
static ngx_msec_t ngx_http_wq_link_backoff(ngx_http_wq_link_t *link);


static const char  *ngx_http_wq_link_state_names[] = {
#define WQ_X(constant, name)  name,
    NGX_HTTP_WQ_LINK_STATES(WQ_X)
#undef WQ_X
};


const char *
ngx_http_wq_link_state_name(ngx_uint_t state)
{
    return state < NGX_HTTP_WQ_LINK_STATE_MAX
           ? ngx_http_wq_link_state_names[state] : "unknown";
}


ngx_http_wq_link_t *
ngx_http_wq_link_create(ngx_http_wq_link_options_t *options, ngx_log_t *log)
{
    ngx_http_wq_link_t  *link;

    link = ngx_calloc(sizeof(ngx_http_wq_link_t), log);
    if (link == NULL) {
        return NULL;
    }

    /*
     * set by ngx_calloc():
     *
     *     link->ac = NULL;
     *     link->state = NGX_HTTP_WQ_LINK_IDLE;
     *     link->pool = NULL;
     *     link->resolving = NULL;
     *     link->trouble = NGX_HTTP_WQ_TROUBLE_NONE;
     */

    link->name = options->name;
    link->client_name = options->client_name;
    link->conf = options->conf;
    link->slot = options->slot;
    link->ready = options->ready;
    link->data = options->data;
    link->blocking = options->blocking;
    link->log = log;
    link->addresses = options->conf->addresses;
    link->trouble_script = NGX_HTTP_WQ_NO_SCRIPT;

    ngx_queue_init(&link->operations);

    wq_backoff_init(&link->backoff, NGX_HTTP_WQ_LINK_BACKOFF_MIN,
                    NGX_HTTP_WQ_LINK_BACKOFF_MAX);

    /* clients wait for commands to be answered or given up; nobody waits for
     * a blocking read */

    ngx_http_wq_timer_init(&link->deadline, ngx_http_wq_link_deadline_handler,
                           link, link->blocking, log);
    ngx_http_wq_timer_init(&link->retry, ngx_http_wq_link_retry_handler,
                           link, 1, log);

    ngx_http_wq_link_set_state(link, NGX_HTTP_WQ_LINK_IDLE);

    return link;
}


void
ngx_http_wq_link_start(ngx_http_wq_link_t *link)
{
    /* not at once: a worker is not to fail, or to be slow, while it starts */
    ngx_http_wq_timer_set(&link->retry, 1);
}


void
ngx_http_wq_link_drain(ngx_http_wq_link_t *link)
{
    ngx_uint_t  wait;

    link->stopped = 1;

    ngx_http_wq_timer_stop(&link->retry);

    if (link->state == NGX_HTTP_WQ_LINK_IDLE) {
        return;
    }

    wait = (link->state == NGX_HTTP_WQ_LINK_READY
            && link->in_flight && !link->blocking);

    ngx_http_wq_link_set_state(link, NGX_HTTP_WQ_LINK_DRAINING);

    if (!wait) {
        ngx_http_wq_link_fail(link, NGX_HTTP_WQ_TROUBLE_SHUTDOWN, NULL);
    }
}


void
ngx_http_wq_link_destroy(ngx_http_wq_link_t *link)
{
    ngx_queue_t              *q;
    ngx_http_wq_operation_t  *operation;

    link->stopped = 1;

    for (q = ngx_queue_head(&link->operations);
         q != ngx_queue_sentinel(&link->operations);
         q = ngx_queue_next(q))
    {
        operation = ngx_queue_data(q, ngx_http_wq_operation_t, queue);
        ngx_http_wq_operation_detach(operation);
    }

    ngx_http_wq_link_fail(link, NGX_HTTP_WQ_TROUBLE_SHUTDOWN, NULL);
    ngx_http_wq_operation_abandon(link);

    ngx_http_wq_timer_stop(&link->deadline);
    ngx_http_wq_timer_stop(&link->retry);

    if (link->pool) {
        ngx_destroy_pool(link->pool);
    }

    ngx_free(link);
}


static void
ngx_http_wq_link_retry_handler(ngx_event_t *ev)
{
    ngx_http_wq_link_t  *link;

    link = ngx_http_wq_timer_data(ev);

    if (link->stopped || ngx_terminate) {
        return;
    }

    if (link->state == NGX_HTTP_WQ_LINK_IDLE) {
        ngx_http_wq_connect_try(link);
        return;
    }

    /* NGX_HTTP_WQ_LINK_LOADING */

    if (link->in_flight) {
        /* answers of the round that was broken off are still to come */
        ngx_http_wq_timer_set(&link->retry, NGX_HTTP_WQ_LINK_BACKOFF_MIN);
        return;
    }

    ngx_http_wq_handshake_load_scripts(link);
}


static void
ngx_http_wq_link_deadline_handler(ngx_event_t *ev)
{
    ngx_http_wq_link_t  *link;

    link = ngx_http_wq_timer_data(ev);

    if (link->state == NGX_HTTP_WQ_LINK_CONNECTING) {
        ngx_http_wq_link_fail(link, NGX_HTTP_WQ_TROUBLE_CONNECT_TIMEOUT, NULL);
        return;
    }

    ngx_http_wq_operation_expire(link);
}


void
ngx_http_wq_link_set_state(ngx_http_wq_link_t *link,
    ngx_http_wq_link_state_e state)
{
    ngx_time_t  *tp;

    ngx_log_debug3(NGX_LOG_DEBUG_CORE, link->log, 0,
                   "waiting_queue: redis %s link: %s -> %s", link->name,
                   ngx_http_wq_link_state_name(link->state),
                   ngx_http_wq_link_state_name(state));

    tp = ngx_timeofday();

    link->state = state;

    wq_counter_set(link->slot->state, state);
    wq_counter_set(link->slot->since, (uint64_t) tp->sec * 1000 + tp->msec);
}


void
ngx_http_wq_link_set_ready(ngx_http_wq_link_t *link)
{
    if (link->fresh) {
        wq_counter_add(link->slot->counters.connects, 1);

        if (link->was_ready) {
            wq_counter_add(link->slot->counters.reconnects, 1);
        }
    }

    link->fresh = 0;
    link->was_ready = 1;

    ngx_http_wq_link_set_state(link, NGX_HTTP_WQ_LINK_READY);

    link->ready(link, link->data);
}


void
ngx_http_wq_link_fail(ngx_http_wq_link_t *link, ngx_uint_t trouble,
    const ngx_str_t *text)
{
    redisAsyncContext  *ac;

    ac = link->ac;

    ngx_http_wq_link_down(link, trouble, text);

    if (ac) {
        ngx_http_wq_adapter_close(ac);
    }
}


void
ngx_http_wq_link_lost(ngx_http_wq_link_t *link, redisAsyncContext *ac)
{
    ngx_str_t         text;
    ngx_uint_t        trouble;
    wq_redis_error_e  error;

    if (link->ac != ac) {
        return;
    }

    text.data = (u_char *) (ac->err ? ac->errstr : "");
    text.len = ngx_strlen(text.data);

    trouble = NGX_HTTP_WQ_TROUBLE_CLOSED;

    switch (ac->err) {

    case REDIS_ERR_PROTOCOL:
    case REDIS_ERR_OOM:
        /* the second is how the adapter refuses an answer beyond all bounds */
        trouble = NGX_HTTP_WQ_TROUBLE_PROTOCOL;
        break;

    case REDIS_ERR_OTHER:
        /* "max number of clients reached" comes unasked */
        error = wq_redis_error_classify(text.data, text.len);

        if (error != WQ_REDIS_ERROR_OTHER) {
            trouble = NGX_HTTP_WQ_TROUBLE_REDIS + error;
        }

        break;
    }

    ngx_http_wq_link_down(link, trouble, &text);
}


void
ngx_http_wq_link_down(ngx_http_wq_link_t *link, ngx_uint_t trouble,
    const ngx_str_t *text)
{
    ngx_msec_t                delay;
    ngx_http_wq_link_state_e  was;

    was = link->state;

    if (was == NGX_HTTP_WQ_LINK_IDLE) {
        return;
    }

    if (link->resolving) {
        ngx_resolve_name_done(link->resolving);
        link->resolving = NULL;
    }

    link->ac = NULL;
    link->loading = 0;
    link->broken = 0;
    link->trouble_script = NGX_HTTP_WQ_NO_SCRIPT;

    ngx_http_wq_timer_stop(&link->deadline);
    ngx_http_wq_timer_stop(&link->retry);

    ngx_http_wq_link_set_state(link, NGX_HTTP_WQ_LINK_IDLE);
    ngx_http_wq_trouble_begin(link, trouble, text, "is down");

    if (was != NGX_HTTP_WQ_LINK_READY && was != NGX_HTTP_WQ_LINK_DRAINING) {
        wq_counter_add(link->slot->counters.connect_failures, 1);
    }

    if (link->stopped) {
        return;
    }

    /* a host may have several addresses: each has its turn before a delay */

    link->address++;
    link->tried++;

    if (link->tried < link->addresses.nelts) {
        delay = 1;

    } else {
        link->tried = 0;
        delay = ngx_http_wq_link_backoff(link);
    }

    ngx_http_wq_timer_set(&link->retry, delay);
}


void
ngx_http_wq_link_wait(ngx_http_wq_link_t *link, ngx_uint_t trouble,
    const ngx_str_t *text)
{
    if (link->state == NGX_HTTP_WQ_LINK_DRAINING) {
        return;
    }

    link->loading = 0;
    link->trouble_script = NGX_HTTP_WQ_NO_SCRIPT;

    ngx_http_wq_trouble_begin(link, trouble, text, "waits");
    ngx_http_wq_link_set_state(link, NGX_HTTP_WQ_LINK_LOADING);

    if (!link->stopped && !link->retry.event.timer_set) {
        ngx_http_wq_timer_set(&link->retry, ngx_http_wq_link_backoff(link));
    }
}


void
ngx_http_wq_link_emptied(ngx_http_wq_link_t *link)
{
    if (link->state == NGX_HTTP_WQ_LINK_DRAINING) {
        ngx_http_wq_link_fail(link, NGX_HTTP_WQ_TROUBLE_SHUTDOWN, NULL);
    }
}


static ngx_msec_t
ngx_http_wq_link_backoff(ngx_http_wq_link_t *link)
{
    ngx_msec_t  delay;

    /* random() gives 31 bits, and the upper half would never be reached */
    delay = wq_backoff_next(&link->backoff, (uint32_t) ngx_random() << 1);

    ngx_log_debug2(NGX_LOG_DEBUG_CORE, link->log, 0,
                   "waiting_queue: redis %s link: next try in %M ms",
                   link->name, delay);

    return delay;
}
