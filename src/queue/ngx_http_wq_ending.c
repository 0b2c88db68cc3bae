
/*
 * queue: visits that are over, by the word of the backend.
 *
 * The slot is to be free again, or a seat is sold: neither may be lost because
 * Redis is away for a moment, or because the request that said it is over.  So
 * it is said until Redis has heard it.  The token names the lease: one that was
 * ended already, because an answer was lost, is not ended twice.
 */


#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_http_wq_worker.h"


/*
 * Between two tries, in ms, and how often: half an hour in all, or half a
 * minute by a worker that quits.
 */
#define NGX_HTTP_WQ_ENDING_RETRY       1000
#define NGX_HTTP_WQ_ENDING_TRIES       1800
#define NGX_HTTP_WQ_ENDING_LAST_TRIES  30

/* more than so many are not kept: the leases lapse by themselves */
#define NGX_HTTP_WQ_ENDINGS_MAX        10000


typedef struct {
    ngx_queue_t                queue;
    ngx_http_wq_event_t       *event;       /* held */
    ngx_http_wq_release_e      why;
    ngx_uint_t                 tries;
    unsigned                   under_way:1;

    size_t                     user_len;
    u_char                     token[WQ_TOKEN_LEN];
    u_char                     user[WQ_ID_MAX];
} ngx_http_wq_ending_t;


static void ngx_http_wq_ending_say(ngx_http_wq_worker_t *worker,
    ngx_http_wq_ending_t *ending);
static void ngx_http_wq_ending_heard(void *data,
    ngx_http_wq_result_t *result);
static void ngx_http_wq_ending_tick(ngx_event_t *ev);
static void ngx_http_wq_ending_drop(ngx_http_wq_worker_t *worker,
    ngx_http_wq_ending_t *ending, const char *why);
static void ngx_http_wq_ending_free(ngx_http_wq_worker_t *worker,
    ngx_http_wq_ending_t *ending);


void
ngx_http_wq_endings_init(ngx_http_wq_worker_t *worker)
{
    ngx_queue_init(&worker->endings.queue);

    ngx_http_wq_timer_init(&worker->endings.timer, ngx_http_wq_ending_tick,
                           worker, 1, worker->log);
}


void
ngx_http_wq_endings_stop(ngx_http_wq_worker_t *worker)
{
    ngx_http_wq_timer_stop(&worker->endings.timer);
}


/* the links are gone, and nobody is called back */

void
ngx_http_wq_endings_destroy(ngx_http_wq_worker_t *worker)
{
    ngx_queue_t           *q;
    ngx_http_wq_ending_t  *ending;

    ngx_http_wq_endings_stop(worker);

    while (!ngx_queue_empty(&worker->endings.queue)) {
        q = ngx_queue_head(&worker->endings.queue);
        ending = ngx_queue_data(q, ngx_http_wq_ending_t, queue);

        ngx_http_wq_ending_drop(worker, ending, "the worker ends");
    }
}


void
ngx_http_wq_ending_add(ngx_http_wq_worker_t *worker, const ngx_str_t *event,
    const ngx_str_t *user, const ngx_str_t *token, ngx_http_wq_release_e why)
{
    ngx_http_wq_ending_t  *ending;

    if (worker->endings.count >= NGX_HTTP_WQ_ENDINGS_MAX) {
        ngx_log_error(NGX_LOG_ALERT, worker->log, 0,
                      "waiting_queue: too many visits have ended while Redis "
                      "is away, that of \"%V\" in \"%V\" is not told", user,
                      event);
        return;
    }

    ending = ngx_calloc(sizeof(ngx_http_wq_ending_t), worker->log);
    if (ending == NULL) {
        return;
    }

    ending->event = ngx_http_wq_event_get(worker, event);
    if (ending->event == NULL) {
        /* which is logged, as that above is */
        ngx_free(ending);
        return;
    }

    ending->why = why;
    ending->user_len = ngx_min(user->len, WQ_ID_MAX);
    ngx_memcpy(ending->user, user->data, ending->user_len);
    ngx_memcpy(ending->token, token->data, WQ_TOKEN_LEN);

    ngx_queue_insert_tail(&worker->endings.queue, &ending->queue);
    worker->endings.count++;

    ngx_http_wq_ending_say(worker, ending);
}


static void
ngx_http_wq_ending_say(ngx_http_wq_worker_t *worker,
    ngx_http_wq_ending_t *ending)
{
    ngx_str_t               user, token;
    ngx_http_wq_reply_to_t  to;

    if (++ending->tries > (worker->draining ? NGX_HTTP_WQ_ENDING_LAST_TRIES
                                            : NGX_HTTP_WQ_ENDING_TRIES))
    {
        ngx_http_wq_ending_drop(worker, ending, "Redis was away for too long");
        return;
    }

    user.len = ending->user_len;
    user.data = ending->user;
    token.len = WQ_TOKEN_LEN;
    token.data = ending->token;

    to.handler = ngx_http_wq_ending_heard;
    to.data = ending;
    to.operation = NULL;

    if (ngx_http_wq_call_release(worker->links[NGX_HTTP_WQ_COMMANDS],
                                 &ending->event->keys, &user, ending->why,
                                 NULL, &token, &to)
        == NGX_OK)
    {
        ending->under_way = 1;
        return;
    }

    if (!worker->endings.timer.event.timer_set) {
        ngx_http_wq_timer_set(&worker->endings.timer,
                              NGX_HTTP_WQ_ENDING_RETRY);
    }
}


static void
ngx_http_wq_ending_heard(void *data, ngx_http_wq_result_t *result)
{
    ngx_http_wq_ending_t *ending = data;

    ngx_http_wq_worker_t         *worker;
    wq_process_counters_t        *counters;
    ngx_http_wq_release_reply_t   reply;

    worker = ending->event->worker;
    counters = &worker->slot->counters;
    ending->under_way = 0;

    if (ngx_http_wq_decode_release(worker->links[NGX_HTTP_WQ_COMMANDS], result,
                                   &reply)
        == NGX_OK)
    {
        if (ending->why == NGX_HTTP_WQ_RELEASE_SOLD) {
            wq_counter_add(counters->visits_sold, reply.released);

        } else {
            wq_counter_add(counters->visits_done, reply.released);
        }

        ngx_http_wq_promoter_opens(ending->event, reply.opens_ms);
        ngx_http_wq_ending_free(worker, ending);
        return;
    }

    if (!worker->endings.timer.event.timer_set) {
        ngx_http_wq_timer_set(&worker->endings.timer,
                              NGX_HTTP_WQ_ENDING_RETRY);
    }
}


static void
ngx_http_wq_ending_tick(ngx_event_t *ev)
{
    ngx_queue_t           *q, *next;
    ngx_http_wq_ending_t  *ending;
    ngx_http_wq_worker_t  *worker;

    worker = ngx_http_wq_timer_data(ev);

    for (q = ngx_queue_head(&worker->endings.queue);
         q != ngx_queue_sentinel(&worker->endings.queue);
         q = next)
    {
        next = ngx_queue_next(q);
        ending = ngx_queue_data(q, ngx_http_wq_ending_t, queue);

        if (!ending->under_way) {
            ngx_http_wq_ending_say(worker, ending);
        }
    }
}


static void
ngx_http_wq_ending_drop(ngx_http_wq_worker_t *worker,
    ngx_http_wq_ending_t *ending, const char *why)
{
    ngx_str_t  user;

    user.len = ending->user_len;
    user.data = ending->user;

    ngx_log_error(NGX_LOG_ERR, worker->log, 0,
                  "waiting_queue: Redis was not told that the visit of \"%V\" "
                  "in \"%V\" is over (%s): %s", &user,
                  &ending->event->id.str,
                  ending->why == NGX_HTTP_WQ_RELEASE_SOLD ? "sold" : "done",
                  why);

    ngx_http_wq_ending_free(worker, ending);
}


static void
ngx_http_wq_ending_free(ngx_http_wq_worker_t *worker,
    ngx_http_wq_ending_t *ending)
{
    ngx_queue_remove(&ending->queue);
    worker->endings.count--;

    ngx_http_wq_event_release(ending->event);
    ngx_free(ending);
}
