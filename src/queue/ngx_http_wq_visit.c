
/* queue: a request at the gate or the API, and what it asks Redis */


#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_http_wq_worker.h"


static void ngx_http_wq_visit_touched(void *data,
    ngx_http_wq_result_t *result);
static void ngx_http_wq_visit_joined(void *data,
    ngx_http_wq_result_t *result);
static void ngx_http_wq_visit_restored(void *data,
    ngx_http_wq_result_t *result);
static void ngx_http_wq_visit_has_quit(void *data,
    ngx_http_wq_result_t *result);
static void ngx_http_wq_visit_set_lease(ngx_http_wq_worker_t *worker,
    ngx_http_wq_visit_answer_t *answer, int64_t expires, int64_t waited);
static void ngx_http_wq_visit_remember(ngx_http_wq_visit_t *visit,
    const ngx_http_wq_visit_answer_t *answer, int64_t idx, int64_t since);


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

    to.handler = ngx_http_wq_visit_touched;
    to.data = visit;
    to.operation = &visit->operation;

    return ngx_http_wq_call_touch(worker->links[NGX_HTTP_WQ_COMMANDS],
                                  &visit->event->keys, &visit->user,
                                  &visit->token, &to);
}


ngx_int_t
ngx_http_wq_visit_restore(ngx_http_wq_visit_t *visit,
    const ngx_http_wq_known_token_t *known)
{
    ngx_http_wq_lease_t      lease;
    ngx_http_wq_worker_t    *worker;
    ngx_http_wq_reply_to_t   to;

    worker = visit->event->worker;

    lease.user = visit->user;
    ngx_http_wq_zone_lease(known, &lease);

    to.handler = ngx_http_wq_visit_restored;
    to.data = visit;
    to.operation = &visit->operation;

    return ngx_http_wq_call_restore_lease(worker->links[NGX_HTTP_WQ_COMMANDS],
                                          &visit->event->keys, &lease, &to);
}


ngx_int_t
ngx_http_wq_visit_join(ngx_http_wq_visit_t *visit, int64_t capacity)
{
    ngx_http_wq_join_t       join;
    ngx_http_wq_event_t     *event;
    ngx_http_wq_worker_t    *worker;
    ngx_http_wq_reply_to_t   to;

    event = visit->event;
    worker = event->worker;

    ngx_memzero(&join, sizeof(ngx_http_wq_join_t));

    /* no instance: nobody is connected, the place is kept by asking again */

    join.mode = visit->mode;
    join.user = visit->user;
    join.settings = visit->rules->settings;
    join.capacity = capacity;
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
        ngx_http_wq_visit_remember(visit, &answer, reply.idx, reply.since);

    } else {
        answer.held = (reply.hold_ms != 0);
    }

    visit->handler(visit, &answer);
}


/* as it was before; by this use a lease that was not used yet is entered */

static void
ngx_http_wq_visit_restored(void *data, ngx_http_wq_result_t *result)
{
    ngx_http_wq_visit_t *visit = data;

    ngx_http_wq_link_t         *link;
    ngx_http_wq_touch_reply_t   reply;

    link = visit->event->worker->links[NGX_HTTP_WQ_COMMANDS];
    visit->operation = NULL;

    if (ngx_http_wq_decode_touch(link, result, &reply) == NGX_OK
        && reply.good
        && ngx_http_wq_visit_touch(visit) == NGX_OK)
    {
        return;
    }

    ngx_http_wq_visit_touched(data, result);
}


static void
ngx_http_wq_visit_joined(void *data, ngx_http_wq_result_t *result)
{
    ngx_http_wq_visit_t *visit = data;

    ngx_http_wq_event_t         *event;
    ngx_http_wq_worker_t        *worker;
    ngx_http_wq_join_reply_t     reply;
    ngx_http_wq_visit_answer_t   answer;

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

        answer.held = (reply.hold_ms != 0);
        ngx_http_wq_visit_remember(visit, &answer, reply.idx, reply.since);
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

    worker = visit->event->worker;
    visit->operation = NULL;

    ngx_memzero(&answer, sizeof(ngx_http_wq_visit_answer_t));

    if (ngx_http_wq_decode_quit(worker->links[NGX_HTTP_WQ_COMMANDS], result,
                                &reply)
        != NGX_OK)
    {
        answer.outcome = NGX_HTTP_WQ_VISIT_NO_REDIS;

    } else {
        ngx_http_wq_promoter_opens(visit->event, reply.opens_ms);

        answer.had = (reply.had != 0);
        answer.rank = -1;
        answer.eta = WQ_ETA_UNKNOWN;
    }

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
    const ngx_http_wq_visit_answer_t *answer, int64_t idx, int64_t since)
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

        if (!answer->held) {
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
