
/*
 * queue: visits that are over, by the word of the backend.
 *
 * The slot is to be free again, or a seat is sold: neither may be lost because
 * Redis is away for a moment, or because the request or the worker that said it
 * is over.  So it is in the zone until Redis has heard it, and what one worker
 * cannot say now is said by whichever worker of the node has a link that works.
 * The token names the lease: one that was ended already, because an answer was
 * lost, is not ended twice.
 */


#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_http_wq_worker.h"


/* for so long it is said again, in ms */
#define NGX_HTTP_WQ_ENDING_TIME   (30 * 60 * 1000)

/* for so long a worker that quits does so if no other does, in ms */
#define NGX_HTTP_WQ_ENDING_LAST   30000

/* between two looks at those in the zone, in ms */
#define NGX_HTTP_WQ_ENDING_RETRY  1000

/* that one worker takes from there in a turn, and has under way at once */
#define NGX_HTTP_WQ_ENDING_SLICE  64


typedef struct {
    ngx_queue_t                 queue;
    ngx_http_wq_event_t        *event;      /* held */
    ngx_http_wq_known_ending_t  known;
} ngx_http_wq_ending_t;


static void ngx_http_wq_endings_take(ngx_http_wq_worker_t *worker);
static void ngx_http_wq_ending_say(ngx_http_wq_worker_t *worker,
    ngx_http_wq_known_ending_t *known);
static ngx_http_wq_ending_t *ngx_http_wq_ending_create(
    ngx_http_wq_worker_t *worker, const ngx_http_wq_known_ending_t *known);
static void ngx_http_wq_ending_heard(void *data,
    ngx_http_wq_result_t *result);
static void ngx_http_wq_ending_keep(ngx_http_wq_worker_t *worker,
    ngx_http_wq_known_ending_t *known);
static void ngx_http_wq_ending_lost(ngx_http_wq_worker_t *worker,
    const ngx_http_wq_known_ending_t *known, const char *why);
static void ngx_http_wq_ending_free(ngx_http_wq_worker_t *worker,
    ngx_http_wq_ending_t *ending);


void
ngx_http_wq_endings_init(ngx_http_wq_worker_t *worker)
{
    ngx_queue_init(&worker->endings.queue);
    worker->endings.next = ngx_current_msec;
}


void
ngx_http_wq_endings_drain(ngx_http_wq_worker_t *worker)
{
    worker->endings.last = ngx_current_msec + NGX_HTTP_WQ_ENDING_LAST;
}


ngx_uint_t
ngx_http_wq_endings_busy(ngx_http_wq_worker_t *worker)
{
    ngx_http_wq_endings_look(worker);

    return worker->endings.count
           || (ngx_http_wq_zone_endings(worker->conf->zone)
               && (ngx_msec_int_t) (worker->endings.last - ngx_current_msec)
                  > 0);
}


/* the links are gone, and nobody is called back */

void
ngx_http_wq_endings_destroy(ngx_http_wq_worker_t *worker)
{
    ngx_uint_t             n;
    ngx_queue_t           *q;
    ngx_http_wq_ending_t  *ending;

    while (!ngx_queue_empty(&worker->endings.queue)) {
        q = ngx_queue_head(&worker->endings.queue);
        ending = ngx_queue_data(q, ngx_http_wq_ending_t, queue);

        ngx_http_wq_ending_keep(worker, &ending->known);
        ngx_http_wq_ending_free(worker, ending);
    }

    n = ngx_http_wq_zone_endings(worker->conf->zone);

    if (n) {
        ngx_log_error(NGX_LOG_ERR, worker->log, 0,
                      "waiting_queue: this worker ends, and Redis was not told "
                      "of %ui visits that are over: that is left to the other "
                      "workers, if there are any", n);
    }
}


void
ngx_http_wq_ending_add(ngx_http_wq_worker_t *worker, const ngx_str_t *event,
    const ngx_str_t *user, const ngx_str_t *token, ngx_http_wq_release_e why)
{
    ngx_http_wq_known_ending_t  known;

    known.why = why;
    known.until = ngx_current_msec + NGX_HTTP_WQ_ENDING_TIME;
    known.event = *event;
    known.user = *user;
    ngx_memcpy(known.token, token->data, WQ_TOKEN_LEN);

    /* where there is no room for it, it is said once all the same */
    (void) ngx_http_wq_zone_ending_put(worker->conf->zone, &known);

    ngx_http_wq_ending_say(worker, &known);
}


void
ngx_http_wq_endings_look(ngx_http_wq_worker_t *worker)
{
    if ((ngx_msec_int_t) (worker->endings.next - ngx_current_msec) > 0) {
        return;
    }

    worker->endings.next = ngx_current_msec + NGX_HTTP_WQ_ENDING_RETRY;
    worker->endings.failed = 0;

    ngx_http_wq_zone_endings_reclaim(worker->conf->zone);
    ngx_http_wq_endings_take(worker);
}


static void
ngx_http_wq_endings_take(ngx_http_wq_worker_t *worker)
{
    ngx_uint_t                  n;
    ngx_http_wq_zone_t         *zone;
    ngx_http_wq_known_ending_t  known;

    zone = worker->conf->zone;

    /* some of them may come back at once: not more than there are now */

    n = ngx_min(ngx_http_wq_zone_endings(zone), NGX_HTTP_WQ_ENDING_SLICE);

    for ( /* void */ ; n; n--) {

        if (worker->links[NGX_HTTP_WQ_COMMANDS]->state
                != NGX_HTTP_WQ_LINK_READY
            || worker->endings.count >= NGX_HTTP_WQ_ENDING_SLICE
            || ngx_http_wq_zone_ending_take(zone, &known) != NGX_OK)
        {
            return;
        }

        if ((ngx_msec_int_t) (known.until - ngx_current_msec) <= 0) {
            ngx_http_wq_ending_lost(worker, &known,
                                    "Redis was away for too long");
            ngx_http_wq_zone_ending_end(zone, &known);
            continue;
        }

        ngx_http_wq_ending_say(worker, &known);
    }
}


static void
ngx_http_wq_ending_say(ngx_http_wq_worker_t *worker,
    ngx_http_wq_known_ending_t *known)
{
    ngx_str_t                token;
    ngx_http_wq_ending_t    *ending;
    ngx_http_wq_reply_to_t   to;

    ending = ngx_http_wq_ending_create(worker, known);

    if (ending == NULL) {
        ngx_http_wq_ending_keep(worker, known);
        return;
    }

    token.len = WQ_TOKEN_LEN;
    token.data = ending->known.token;

    to.handler = ngx_http_wq_ending_heard;
    to.data = ending;
    to.operation = NULL;

    if (ngx_http_wq_call_release(worker->links[NGX_HTTP_WQ_COMMANDS],
                                 &ending->event->keys, &ending->known.user,
                                 ending->known.why, NULL, &token, &to)
        != NGX_OK)
    {
        ngx_http_wq_ending_keep(worker, &ending->known);
        ngx_http_wq_ending_free(worker, ending);
    }
}


/* a copy of it, which owns its ids; NULL for want of memory */

static ngx_http_wq_ending_t *
ngx_http_wq_ending_create(ngx_http_wq_worker_t *worker,
    const ngx_http_wq_known_ending_t *known)
{
    u_char                      *p;
    ngx_http_wq_ending_t        *ending;
    ngx_http_wq_known_ending_t  *copy;

    ending = ngx_alloc(sizeof(ngx_http_wq_ending_t), worker->log);
    if (ending == NULL) {
        return NULL;
    }

    ending->event = ngx_http_wq_event_get(worker, &known->event);
    if (ending->event == NULL) {
        ngx_free(ending);
        return NULL;
    }

    copy = &ending->known;

    copy->kept = known->kept;
    copy->why = known->why;
    copy->until = known->until;
    ngx_memcpy(copy->token, known->token, WQ_TOKEN_LEN);

    p = ngx_cpymem(copy->ids, known->event.data, known->event.len);
    ngx_memcpy(p, known->user.data, known->user.len);

    copy->event.len = known->event.len;
    copy->event.data = copy->ids;
    copy->user.len = known->user.len;
    copy->user.data = p;

    ngx_queue_insert_tail(&worker->endings.queue, &ending->queue);
    worker->endings.count++;

    return ending;
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

    if (ngx_http_wq_decode_release(worker->links[NGX_HTTP_WQ_COMMANDS], result,
                                   &reply)
        != NGX_OK)
    {
        ngx_http_wq_ending_keep(worker, &ending->known);
        ngx_http_wq_ending_free(worker, ending);
        return;
    }

    if (ending->known.why == NGX_HTTP_WQ_RELEASE_SOLD) {
        wq_counter_add(counters->visits_sold, reply.released);

    } else {
        wq_counter_add(counters->visits_done, reply.released);
    }

    if (ending->known.kept) {
        ngx_http_wq_zone_ending_end(worker->conf->zone, &ending->known);
    }

    ngx_http_wq_zone_report(worker->conf->zone, &ending->known.event,
                            &reply.figures);
    ngx_http_wq_promoter_opens(ending->event, reply.opens_ms);
    ngx_http_wq_ending_free(worker, ending);

    /* they go on in the same pace, but what fails waits for the next look */

    if (!worker->endings.failed) {
        ngx_http_wq_endings_take(worker);
    }
}


/* it could not be said now: whoever has a link that works says it again */

static void
ngx_http_wq_ending_keep(ngx_http_wq_worker_t *worker,
    ngx_http_wq_known_ending_t *known)
{
    worker->endings.failed = 1;

    if (known->kept == NULL
        && ngx_http_wq_zone_ending_put(worker->conf->zone, known) != NGX_OK)
    {
        ngx_http_wq_ending_lost(worker, known, "the zone has no room");
        return;
    }

    ngx_http_wq_zone_ending_back(worker->conf->zone, known);
}


static void
ngx_http_wq_ending_lost(ngx_http_wq_worker_t *worker,
    const ngx_http_wq_known_ending_t *known, const char *why)
{
    ngx_log_error(NGX_LOG_ERR, worker->log, 0,
                  "waiting_queue: Redis was not told that the visit of \"%V\" "
                  "in \"%V\" is over (%s): %s", &known->user, &known->event,
                  known->why == NGX_HTTP_WQ_RELEASE_SOLD ? "sold" : "done",
                  why);
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
