
/* queue: a request at the gate or the API, and what it asks Redis */


#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_http_wq_worker.h"


static ngx_int_t ngx_http_wq_visit_ask_join(ngx_http_wq_visit_t *visit);
static void ngx_http_wq_visit_touched(void *data,
    ngx_http_wq_result_t *result);
static void ngx_http_wq_visit_joined(void *data,
    ngx_http_wq_result_t *result);
static void ngx_http_wq_visit_has_quit(void *data,
    ngx_http_wq_result_t *result);
static ngx_uint_t ngx_http_wq_visit_restore(ngx_http_wq_visit_t *visit,
    int64_t hold_ms, const ngx_str_t *token);
static void ngx_http_wq_visit_restored(void *data,
    ngx_http_wq_result_t *result);
static void ngx_http_wq_visit_unanswered(ngx_http_wq_visit_t *visit);
static void ngx_http_wq_visit_set_lease(ngx_http_wq_worker_t *worker,
    ngx_http_wq_visit_answer_t *answer, int64_t expires, int64_t waited);
static void ngx_http_wq_visit_remember(ngx_http_wq_visit_t *visit,
    const ngx_http_wq_visit_answer_t *answer, int64_t idx, int64_t since,
    int64_t hold_ms);


void
ngx_http_wq_visits_init(ngx_http_wq_worker_t *worker)
{
    ngx_queue_init(&worker->visits);
}


/*
 * The process ends, or gets another configuration, and its links are gone: no
 * operation is left.  The requests may go on for a while, without Redis.
 */

void
ngx_http_wq_visits_destroy(ngx_http_wq_worker_t *worker)
{
    ngx_queue_t          *q;
    ngx_http_wq_visit_t  *visit;

    while (!ngx_queue_empty(&worker->visits)) {
        q = ngx_queue_head(&worker->visits);
        visit = ngx_queue_data(q, ngx_http_wq_visit_t, queue);

        visit->operation = NULL;
        visit->lost(visit);
        ngx_http_wq_visit_close(visit);
    }
}


void
ngx_http_wq_visits_admit(ngx_http_wq_worker_t *worker)
{
    worker->admitted++;
}


void
ngx_http_wq_visits_dismiss(ngx_http_wq_worker_t *worker)
{
    worker->admitted--;
}


ngx_int_t
ngx_http_wq_visit_open(ngx_http_wq_worker_t *worker,
    ngx_http_wq_visit_t *visit, const ngx_str_t *event)
{
    visit->operation = NULL;
    visit->restored = 0;
    visit->event = ngx_http_wq_event_get(worker, event);

    if (visit->event == NULL) {
        return NGX_ERROR;
    }

    ngx_queue_insert_tail(&worker->visits, &visit->queue);

    return NGX_OK;
}


void
ngx_http_wq_visit_close(ngx_http_wq_visit_t *visit)
{
    ngx_http_wq_event_t  *event;

    event = visit->event;

    if (event == NULL) {
        return;
    }

    if (visit->operation) {
        ngx_http_wq_operation_detach(visit->operation);
        visit->operation = NULL;
    }

    ngx_queue_remove(&visit->queue);
    visit->event = NULL;

    ngx_http_wq_event_release(event);
}


ngx_int_t
ngx_http_wq_visit_touch(ngx_http_wq_visit_t *visit)
{
    ngx_http_wq_worker_t    *worker;
    ngx_http_wq_reply_to_t   to;

    worker = visit->event->worker;
    visit->ask = ngx_http_wq_visit_touch;

    to.handler = ngx_http_wq_visit_touched;
    to.data = visit;
    to.operation = &visit->operation;

    return ngx_http_wq_call_touch(worker->links[NGX_HTTP_WQ_COMMANDS],
                                  &visit->event->keys, &visit->user,
                                  &visit->token, &to);
}


ngx_int_t
ngx_http_wq_visit_join(ngx_http_wq_visit_t *visit, int64_t capacity)
{
    visit->capacity = capacity;

    return ngx_http_wq_visit_ask_join(visit);
}


static ngx_int_t
ngx_http_wq_visit_ask_join(ngx_http_wq_visit_t *visit)
{
    ngx_http_wq_join_t       join;
    ngx_http_wq_event_t     *event;
    ngx_http_wq_worker_t    *worker;
    ngx_http_wq_reply_to_t   to;

    event = visit->event;
    worker = event->worker;
    visit->ask = ngx_http_wq_visit_ask_join;

    ngx_memzero(&join, sizeof(ngx_http_wq_join_t));

    /* no instance: nobody is connected, the place is kept by asking again */

    join.mode = visit->mode;
    join.user = visit->user;
    join.settings = visit->rules->settings;
    join.capacity = visit->capacity;
    join.highest = event->highest;

    to.handler = ngx_http_wq_visit_joined;
    to.data = visit;
    to.operation = &visit->operation;

    return ngx_http_wq_call_join(worker->links[NGX_HTTP_WQ_COMMANDS],
                                 &event->keys, &join, &to);
}


ngx_int_t
ngx_http_wq_visit_status(ngx_http_wq_visit_t *visit)
{
    ngx_http_wq_worker_t    *worker;
    ngx_http_wq_reply_to_t   to;

    worker = visit->event->worker;
    visit->ask = ngx_http_wq_visit_status;

    to.handler = ngx_http_wq_visit_joined;
    to.data = visit;
    to.operation = &visit->operation;

    return ngx_http_wq_call_status(worker->links[NGX_HTTP_WQ_COMMANDS],
                                   &visit->event->keys, &visit->user,
                                   &visit->rules->settings, &to);
}


ngx_int_t
ngx_http_wq_visit_quit(ngx_http_wq_visit_t *visit)
{
    ngx_http_wq_worker_t    *worker;
    ngx_http_wq_reply_to_t   to;

    worker = visit->event->worker;
    visit->ask = ngx_http_wq_visit_quit;

    to.handler = ngx_http_wq_visit_has_quit;
    to.data = visit;
    to.operation = &visit->operation;

    return ngx_http_wq_call_quit(worker->links[NGX_HTTP_WQ_COMMANDS],
                                 &visit->event->keys, &visit->user, &to);
}


static void
ngx_http_wq_visit_touched(void *data, ngx_http_wq_result_t *result)
{
    ngx_http_wq_visit_t *visit = data;

    ngx_http_wq_worker_t        *worker;
    ngx_http_wq_touch_reply_t    reply;
    ngx_http_wq_visit_answer_t   answer;

    worker = visit->event->worker;
    visit->operation = NULL;

    ngx_memzero(&answer, sizeof(ngx_http_wq_visit_answer_t));

    if (ngx_http_wq_decode_touch(worker->links[NGX_HTTP_WQ_COMMANDS], result,
                                 &reply)
        != NGX_OK)
    {
        answer.outcome = NGX_HTTP_WQ_VISIT_NO_REDIS;

    } else if (reply.good) {
        answer.status = WQ_STATUS_ENTERED;
        answer.token = visit->token.data;
        answer.rank = -1;
        answer.eta = WQ_ETA_UNKNOWN;
        ngx_http_wq_visit_set_lease(worker, &answer, reply.expires,
                                    reply.waited);
        ngx_http_wq_visit_remember(visit, &answer, reply.idx, reply.since, 0);

    } else if (ngx_http_wq_visit_restore(visit, reply.hold_ms, &visit->token)) {
        return;
    }

    visit->handler(visit, &answer);
}


static void
ngx_http_wq_visit_joined(void *data, ngx_http_wq_result_t *result)
{
    ngx_http_wq_visit_t *visit = data;

    ngx_http_wq_event_t         *event;
    ngx_http_wq_worker_t        *worker;
    ngx_http_wq_join_reply_t     reply;
    ngx_http_wq_visit_answer_t   answer;

    static const ngx_str_t  any = ngx_null_string;

    event = visit->event;
    worker = event->worker;
    visit->operation = NULL;

    ngx_memzero(&answer, sizeof(ngx_http_wq_visit_answer_t));

    if (ngx_http_wq_decode_join(worker->links[NGX_HTTP_WQ_COMMANDS], result,
                                &reply)
        != NGX_OK)
    {
        answer.outcome = NGX_HTTP_WQ_VISIT_NO_REDIS;

    } else if (reply.status == NGX_HTTP_WQ_JOIN_REPLACED) {
        /* no answer to a join */
        ngx_http_wq_trouble_bad_reply(worker->links[NGX_HTTP_WQ_COMMANDS],
                                      "join", "status");
        answer.outcome = NGX_HTTP_WQ_VISIT_NO_REDIS;

    } else if (reply.status == NGX_HTTP_WQ_JOIN_UNKNOWN) {
        answer.outcome = NGX_HTTP_WQ_VISIT_NO_CAPACITY;

    } else if (reply.status != WQ_STATUS_READY
               && reply.status != WQ_STATUS_ENTERED
               && ngx_http_wq_visit_restore(visit, reply.hold_ms, &any))
    {
        return;

    } else {
        answer.status = reply.status;
        answer.rank = -1;
        answer.eta = WQ_ETA_UNKNOWN;
        answer.total = reply.total;

        ngx_http_wq_event_complain(event, visit->rules, reply.changed);

        if (reply.status == WQ_STATUS_WAITING) {
            ngx_http_wq_pace_learn(event, reply.rate_users, reply.rate_ms,
                                   reply.halted, reply.crowded);
            ngx_http_wq_promoter_opens(event, reply.opens_ms);

            answer.rank = reply.rank;
            answer.eta = ngx_http_wq_pace_eta(event, (uint64_t) reply.rank);
        }

        if (reply.status == WQ_STATUS_READY
            || reply.status == WQ_STATUS_ENTERED)
        {
            answer.token = reply.token.data;
            ngx_http_wq_visit_set_lease(worker, &answer, reply.expires,
                                        reply.waited);
        }

        ngx_http_wq_visit_remember(visit, &answer, reply.idx, reply.since,
                                   reply.hold_ms);
    }

    visit->handler(visit, &answer);
}


static void
ngx_http_wq_visit_has_quit(void *data, ngx_http_wq_result_t *result)
{
    ngx_http_wq_visit_t *visit = data;

    ngx_http_wq_worker_t        *worker;
    ngx_http_wq_quit_reply_t     reply;
    ngx_http_wq_visit_answer_t   answer;

    static const ngx_str_t  any = ngx_null_string;

    worker = visit->event->worker;
    visit->operation = NULL;

    ngx_memzero(&answer, sizeof(ngx_http_wq_visit_answer_t));

    if (ngx_http_wq_decode_quit(worker->links[NGX_HTTP_WQ_COMMANDS], result,
                                &reply)
        != NGX_OK)
    {
        answer.outcome = NGX_HTTP_WQ_VISIT_NO_REDIS;

    } else if (!reply.had
               && ngx_http_wq_visit_restore(visit, reply.hold_ms, &any))
    {
        return;

    } else {
        ngx_http_wq_promoter_opens(visit->event, reply.opens_ms);

        answer.had = (reply.had != 0);
        answer.rank = -1;
        answer.eta = WQ_ETA_UNKNOWN;
    }

    visit->handler(visit, &answer);
}


/*
 * Redis knows of no lease, and may have lost it: one that this node knows, of
 * this token or, where that is empty, of any, is put back, and then the question
 * is asked again.  1: so it is, and the handler will be called; it may have been
 * by the time that this returns.
 */

static ngx_uint_t
ngx_http_wq_visit_restore(ngx_http_wq_visit_t *visit, int64_t hold_ms,
    const ngx_str_t *token)
{
    ngx_msec_t                  ends;
    ngx_http_wq_lease_t         lease;
    ngx_http_wq_worker_t       *worker;
    ngx_http_wq_reply_to_t      to;
    ngx_http_wq_known_token_t   known;

    worker = visit->event->worker;

    if (hold_ms == 0 || visit->restored
        || visit->mode == NGX_HTTP_WQ_JOIN_VISIT
        || ngx_http_wq_zone_token_find(worker->conf->zone,
                                       &visit->event->id.str, &visit->user,
                                       token, &known, &ends)
           != NGX_OK)
    {
        return 0;
    }

    visit->restored = 1;

    lease.user = visit->user;
    ngx_http_wq_zone_lease(&known, &lease);

    to.handler = ngx_http_wq_visit_restored;
    to.data = visit;
    to.operation = &visit->operation;

    if (ngx_http_wq_call_restore_lease(worker->links[NGX_HTTP_WQ_COMMANDS],
                                       &visit->event->keys, &lease, &to)
        != NGX_OK)
    {
        ngx_http_wq_visit_unanswered(visit);
    }

    return 1;
}


/* as it was before, or not any more: that is for the question to find out */

static void
ngx_http_wq_visit_restored(void *data, ngx_http_wq_result_t *result)
{
    ngx_http_wq_visit_t *visit = data;

    ngx_http_wq_worker_t               *worker;
    ngx_http_wq_restore_lease_reply_t   reply;

    worker = visit->event->worker;
    visit->operation = NULL;

    if (ngx_http_wq_decode_restore_lease(worker->links[NGX_HTTP_WQ_COMMANDS],
                                         result, &reply)
        != NGX_OK)
    {
        ngx_http_wq_visit_unanswered(visit);
        return;
    }

    wq_counter_add(worker->slot->counters.leases_restored, reply.restored);

    if (visit->ask(visit) != NGX_OK) {
        ngx_http_wq_visit_unanswered(visit);
    }
}


/* who is known to the node is not forgotten by that */

static void
ngx_http_wq_visit_unanswered(ngx_http_wq_visit_t *visit)
{
    ngx_http_wq_visit_answer_t  answer;

    ngx_memzero(&answer, sizeof(ngx_http_wq_visit_answer_t));
    answer.outcome = NGX_HTTP_WQ_VISIT_NO_REDIS;

    visit->handler(visit, &answer);
}


/*
 * The end by the clock of this node.  Redis may say anything: what is in the
 * past is over now, and what is too far away is not believed for ever.  Before
 * the first heartbeat nothing is known of Redis' clock.
 */

static void
ngx_http_wq_visit_set_lease(ngx_http_wq_worker_t *worker,
    ngx_http_wq_visit_answer_t *answer, int64_t expires, int64_t waited)
{
    int64_t  left, most;

    most = worker->clock ? NGX_HTTP_WQ_LEASE_MAX : 1000;
    left = expires - worker->clock - (int64_t) ngx_current_msec;
    left = ngx_max(left, 0);
    left = ngx_min(left, most);

    answer->expires = expires;
    answer->waited = waited;
    answer->ends = ngx_current_msec + (ngx_msec_t) left;
}


/*
 * For a second nobody asks again whether one who has entered may; and all that
 * the node knows can be put back, should Redis lose it.
 */

static void
ngx_http_wq_visit_remember(ngx_http_wq_visit_t *visit,
    const ngx_http_wq_visit_answer_t *answer, int64_t idx, int64_t since,
    int64_t hold_ms)
{
    ngx_http_wq_zone_t         *zone;
    ngx_http_wq_known_token_t   known;

    static const ngx_str_t  any = ngx_null_string;

    zone = visit->event->worker->conf->zone;

    if (visit->mode == NGX_HTTP_WQ_JOIN_VISIT) {
        /* a user of whom nobody knows whether he comes again */
        return;
    }

    if (answer->token == NULL) {

        if (hold_ms == 0) {
            /* should Redis go away: it has said that this one is not in */
            ngx_http_wq_zone_token_forget(zone, &visit->event->id.str,
                                          &visit->user, &any);
        }

        return;
    }

    known.entered = (answer->status == WQ_STATUS_ENTERED);
    known.checked = ngx_current_msec
                    - (known.entered ? 0 : NGX_HTTP_WQ_TOKEN_UNUSED);
    known.expires = answer->expires;
    known.waited = answer->waited;
    known.since = since;
    known.idx = idx;
    ngx_memcpy(known.token, answer->token, WQ_TOKEN_LEN);

    ngx_http_wq_zone_token_store(zone, &visit->event->id.str, &visit->user,
                                 &known, answer->ends);
}
