
/* queue: one user of one event on this worker */


#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_http_wq_worker.h"


static ngx_uint_t ngx_http_wq_client_streams(ngx_http_wq_event_t *event,
    const ngx_str_t *user);
static void ngx_http_wq_client_cut(ngx_http_wq_client_t *client);
static ngx_int_t ngx_http_wq_client_ask(ngx_http_wq_client_t *client,
    int64_t capacity);
static void ngx_http_wq_client_joined(void *data,
    ngx_http_wq_result_t *result);
static ngx_int_t ngx_http_wq_client_come_back(ngx_http_wq_client_t *client,
    const ngx_http_wq_join_reply_t *reply);
static void ngx_http_wq_client_lost(ngx_http_wq_client_t *client,
    ngx_uint_t perhaps);
static void ngx_http_wq_client_learn(ngx_http_wq_client_t *client,
    const ngx_http_wq_join_reply_t *reply);
static void ngx_http_wq_client_settle(ngx_http_wq_client_t *client,
    const ngx_http_wq_join_reply_t *reply);
static void ngx_http_wq_client_take_over(ngx_http_wq_client_t *client,
    ngx_http_wq_client_t *old);
static ngx_int_t ngx_http_wq_client_known(ngx_http_wq_client_t *client,
    int64_t since, int64_t waited, ngx_http_wq_known_token_t *known,
    ngx_msec_t *ends);


void
ngx_http_wq_clients_init(ngx_http_wq_worker_t *worker)
{
    ngx_queue_init(&worker->joining);
    ngx_queue_init(&worker->streams);
    ngx_http_wq_events_init(worker);
}


ngx_uint_t
ngx_http_wq_client_has_room(ngx_http_wq_worker_t *worker,
    const ngx_str_t *event, const ngx_str_t *user)
{
    ngx_uint_t            max;
    ngx_http_wq_event_t  *e;

    max = worker->conf->max_streams;

    if (max == 0
        || ngx_http_wq_clients_connected(worker) + worker->connecting < max)
    {
        return 1;
    }

    e = ngx_http_wq_event_find(worker, event);

    return e && ngx_http_wq_client_streams(e, user) == 1;
}


/* of one user here, open or being joined; 2 stands for any more */

static ngx_uint_t
ngx_http_wq_client_streams(ngx_http_wq_event_t *event, const ngx_str_t *user)
{
    ngx_uint_t             n;
    ngx_queue_t           *q;
    ngx_http_wq_client_t  *client;

    client = ngx_http_wq_event_user(event, user);
    n = (client && client->stream) ? 1 : 0;

    if (!ngx_http_wq_event_has_joiner(event, user)) {
        return n;
    }

    for (q = ngx_queue_head(&event->worker->joining);
         n < 2 && q != ngx_queue_sentinel(&event->worker->joining);
         q = ngx_queue_next(q))
    {
        client = ngx_queue_data(q, ngx_http_wq_client_t, queue);

        if (client->stream && client->event == event
            && client->user.str.len == user->len
            && ngx_memcmp(client->user.str.data, user->data, user->len) == 0)
        {
            n++;
        }
    }

    return n;
}


/* one that is joining has no stream any more, if it had */

static void
ngx_http_wq_client_cut(ngx_http_wq_client_t *client)
{
    if (client->stream) {
        client->stream = NULL;
        client->event->worker->connecting--;
    }
}


ngx_http_wq_client_t *
ngx_http_wq_client_join(ngx_http_wq_worker_t *worker, const ngx_str_t *event,
    const ngx_str_t *user, const ngx_http_wq_rules_t *rules, void *stream)
{
    ngx_http_wq_client_t  *client;

    if (worker->leaving) {
        return NULL;
    }

    client = ngx_http_wq_client_create(worker, event, user, rules);
    if (client == NULL) {
        return NULL;
    }

    client->stream = stream;
    worker->connecting++;

    ngx_http_wq_event_add_joiner(client);

    if (ngx_http_wq_client_ask(client, -1) != NGX_OK) {
        ngx_http_wq_client_cut(client);
        ngx_http_wq_client_forget(client);
        return NULL;
    }

    return client;
}


ngx_int_t
ngx_http_wq_client_rejoin(ngx_http_wq_client_t *client, int64_t capacity)
{
    if (!client->event->worker->draining
        && ngx_http_wq_client_ask(client, capacity) == NGX_OK)
    {
        return NGX_OK;
    }

    ngx_http_wq_client_cut(client);
    ngx_http_wq_client_forget(client);

    return NGX_ERROR;
}


ngx_http_wq_client_t *
ngx_http_wq_client_create(ngx_http_wq_worker_t *worker,
    const ngx_str_t *event, const ngx_str_t *user,
    const ngx_http_wq_rules_t *rules)
{
    size_t                 size;
    ngx_http_wq_client_t  *client;

    size = offsetof(ngx_http_wq_client_t, user_data) + user->len;

    client = ngx_alloc(size, worker->log);
    if (client == NULL) {
        return NULL;
    }

    ngx_memzero(client, offsetof(ngx_http_wq_client_t, user_data));

    client->event = ngx_http_wq_event_get(worker, event);
    if (client->event == NULL) {
        ngx_free(client);
        return NULL;
    }

    client->rules = rules;
    client->state = NGX_HTTP_WQ_JOINING;

    client->user.str.data = client->user_data;
    client->user.str.len = user->len;
    ngx_memcpy(client->user_data, user->data, user->len);

    return client;
}


static ngx_int_t
ngx_http_wq_client_ask(ngx_http_wq_client_t *client, int64_t capacity)
{
    ngx_http_wq_join_t       join;
    ngx_http_wq_event_t     *event;
    ngx_http_wq_worker_t    *worker;
    ngx_http_wq_reply_to_t   to;

    event = client->event;
    worker = event->worker;

    ngx_memzero(&join, sizeof(ngx_http_wq_join_t));

    join.user = client->user.str;
    join.instance = worker->instance;
    join.settings = client->rules->settings;
    join.capacity = capacity;
    join.highest = event->highest;

    to.handler = ngx_http_wq_client_joined;
    to.data = client;
    to.operation = &client->operation;

    return ngx_http_wq_call_join(worker->links[NGX_HTTP_WQ_COMMANDS],
                                 &event->keys, &join, &to);
}


/*
 * The stream may have ended meanwhile: then the place that Redis has given is
 * kept for the grace time all the same.
 */

static void
ngx_http_wq_client_joined(void *data, ngx_http_wq_result_t *result)
{
    ngx_http_wq_client_t *client = data;

    ngx_http_wq_worker_t      *worker;
    ngx_http_wq_join_reply_t   reply;

    worker = client->event->worker;
    client->operation = NULL;

    if (ngx_http_wq_decode_join(worker->links[NGX_HTTP_WQ_COMMANDS], result,
                                &reply)
        != NGX_OK)
    {
        ngx_http_wq_client_lost(client,
                                result->outcome == NGX_HTTP_WQ_TIMED_OUT
                                || result->outcome == NGX_HTTP_WQ_LOST);
        return;
    }

    switch (reply.status) {

    case WQ_STATUS_WAITING:
    case WQ_STATUS_READY:
    case WQ_STATUS_ENTERED:

        if (worker->draining) {
            ngx_http_wq_client_lost(client, 0);
            return;
        }

        ngx_http_wq_client_learn(client, &reply);

        if (ngx_http_wq_client_come_back(client, &reply) != NGX_AGAIN) {
            ngx_http_wq_client_settle(client, &reply);
        }

        return;

    case NGX_HTTP_WQ_JOIN_REPLACED:

        if (client->earlier) {
            /* and gone elsewhere meanwhile */
            ngx_http_wq_client_lost(client, 0);
            return;
        }

        /* fall through */

    case WQ_STATUS_NONE:
        /* no answers to the join of a stream */
        ngx_http_wq_trouble_bad_reply(worker->links[NGX_HTTP_WQ_COMMANDS],
                                      "join", "status");
        ngx_http_wq_client_lost(client, 0);
        return;

    default:

        if (client->stream == NULL) {
            break;
        }

        if (reply.status == NGX_HTTP_WQ_JOIN_UNKNOWN) {
            ngx_http_wq_client_ops.capacity(client);
            return;
        }

        client->event->total = reply.total;

        ngx_http_wq_client_ops.refuse(client, NGX_HTTP_WQ_REFUSED_STATUS,
                                      reply.status);
        ngx_http_wq_client_cut(client);
    }

    ngx_http_wq_client_forget(client);
}


/*
 * Redis has lost data, and knows the user for a newcomer, who had a place here:
 * that is asked for before anything is told.  NGX_AGAIN: the answer comes.
 */

static ngx_int_t
ngx_http_wq_client_come_back(ngx_http_wq_client_t *client,
    const ngx_http_wq_join_reply_t *reply)
{
    ngx_http_wq_client_t  *old;

    if (reply->hold_ms == 0 || reply->status != WQ_STATUS_WAITING
        || client->earlier)
    {
        return NGX_OK;
    }

    old = ngx_http_wq_event_user(client->event, &client->user.str);

    /* by now there may be a newer connection elsewhere */
    client->serial = reply->serial;

    if (old == NULL || old->state != NGX_HTTP_WQ_WAITING || old->given_up
        || old->idx == 0 || old->idx >= (uint64_t) reply->idx
        || ngx_http_wq_client_restore(client, old->idx,
                                      ngx_http_wq_client_joined)
           != NGX_OK)
    {
        return NGX_OK;
    }

    client->earlier = 1;

    return NGX_AGAIN;
}


/*
 * There was no answer.  Perhaps the script has run, and the user has a place
 * that nobody holds: it is given up like any other, unless the user comes
 * again.
 */

static void
ngx_http_wq_client_lost(ngx_http_wq_client_t *client, ngx_uint_t perhaps)
{
    if (client->stream) {
        ngx_http_wq_client_ops.refuse(client, NGX_HTTP_WQ_REFUSED_REDIS,
                                      WQ_STATUS_NONE);
        ngx_http_wq_client_cut(client);
        client->disconnected = ngx_current_msec;
    }

    if (!perhaps
        || ngx_http_wq_event_user(client->event, &client->user.str))
    {
        ngx_http_wq_client_forget(client);
        return;
    }

    ngx_http_wq_event_remove_joiner(client);
    client->state = NGX_HTTP_WQ_WAITING;

    ngx_http_wq_event_add_user(client);
    ngx_http_wq_client_absent(client, 0);
}


/* what an answer says of the event */

static void
ngx_http_wq_client_learn(ngx_http_wq_client_t *client,
    const ngx_http_wq_join_reply_t *reply)
{
    ngx_http_wq_event_t  *event;

    event = client->event;

    event->rules = client->rules;
    event->total = reply->total;

    ngx_http_wq_event_complain(event, client->rules, reply->changed);

    /* slots are looked at for those who wait */
    ngx_http_wq_pace_learn(event, reply->rate_users, reply->rate_ms,
                           reply->halted,
                           reply->status == WQ_STATUS_WAITING
                           ? reply->crowded != 0 : event->pace.crowded);
    ngx_http_wq_promoter_opens(event, reply->opens_ms);

    if (event->waiting == 0 && !event->ticking) {
        ngx_http_wq_event_set_epoch(event, &reply->epoch);

    } else if (ngx_http_wq_event_lost(event, reply->joined, &reply->epoch)) {
        event->resync = 1;
    }

    event->joined = reply->joined;
}


/* the user has a place or a lease, and this client is the one who is told */

static void
ngx_http_wq_client_settle(ngx_http_wq_client_t *client,
    const ngx_http_wq_join_reply_t *reply)
{
    ngx_http_wq_event_t   *event;
    ngx_http_wq_client_t  *old;
    ngx_http_wq_worker_t  *worker;

    event = client->event;
    worker = event->worker;

    ngx_http_wq_event_remove_joiner(client);

    client->serial = reply->serial;

    if (reply->status == WQ_STATUS_WAITING) {
        client->state = NGX_HTTP_WQ_WAITING;
        ngx_http_wq_client_set_place(client, reply);

    } else {
        ngx_http_wq_client_set_lease(client, reply->status, reply->token.data,
                                     reply->expires);

        client->idx = reply->idx > 0 ? (uint64_t) reply->idx : 0;
        ngx_http_wq_client_remember(client, reply->since, reply->waited);
    }

    old = ngx_http_wq_event_user(event, &client->user.str);

    if (old) {
        ngx_http_wq_client_take_over(client, old);
    }

    ngx_http_wq_event_add_user(client);

    if (client->stream == NULL) {
        ngx_http_wq_client_absent(client, 0);
        return;
    }

    event->streams++;
    worker->connecting--;
    ngx_queue_insert_tail(&worker->streams, &client->queue);

    wq_counter_add(worker->slot->gauges.streams, 1);
    wq_counter_add(worker->slot->counters.streams_opened, 1);

    if (client->state == NGX_HTTP_WQ_WAITING) {
        ngx_http_wq_line_add(client);

        if (ngx_http_wq_pace_is_news(event)) {
            /* of what is about to be told the others know nothing */
            event->retell = 1;
        }
    }

    ngx_http_wq_client_ops.accept(client);
}


/*
 * The same user was here before.  The message of a promotion may have come
 * before the answer to a join that was carried out first: then the old client
 * knows better.
 */

static void
ngx_http_wq_client_take_over(ngx_http_wq_client_t *client,
    ngx_http_wq_client_t *old)
{
    if (client->state == NGX_HTTP_WQ_WAITING
        && old->state == NGX_HTTP_WQ_READY
        && old->idx == client->idx)
    {
        ngx_http_wq_client_set_lease(client, old->status, old->token,
                                     old->expires);

    } else if (client->state == NGX_HTTP_WQ_WAITING
               && old->state == NGX_HTTP_WQ_READY)
    {
        /* a lease that is over, or of a place to which it has been moved */
        client->event->resync = 1;
    }

    ngx_http_wq_client_replaced(old);
}


void
ngx_http_wq_client_replaced(ngx_http_wq_client_t *client)
{
    ngx_http_wq_worker_t  *worker;

    worker = client->event->worker;

    if (client->stream) {
        wq_counter_add(worker->slot->counters.streams_replaced, 1);
        ngx_http_wq_client_end(client, WQ_SSE_REPLACED);
    }

    ngx_http_wq_client_forget(client);
}


void
ngx_http_wq_client_set_lease(ngx_http_wq_client_t *client, wq_status_e status,
    const u_char *token, int64_t expires)
{
    client->state = NGX_HTTP_WQ_READY;
    client->status = status;
    client->expires = expires;

    ngx_memcpy(client->token, token, WQ_TOKEN_LEN);
}


/*
 * While Redis is away who was let in can come in, and should it lose the lease,
 * it is put back.  since may be 0: by the clock of this node it is now.
 */

void
ngx_http_wq_client_remember(ngx_http_wq_client_t *client, int64_t since,
    int64_t waited)
{
    ngx_msec_t                  ends;
    ngx_http_wq_worker_t       *worker;
    ngx_http_wq_known_token_t   known;

    worker = client->event->worker;

    if (ngx_http_wq_client_known(client, since, waited, &known, &ends)
        == NGX_OK)
    {
        ngx_http_wq_zone_token_store(worker->conf->zone,
                                     &client->event->id.str,
                                     &client->user.str, &known, ends);
    }
}


/* and one that has ended before its time is not */

void
ngx_http_wq_client_unremember(ngx_http_wq_client_t *client)
{
    ngx_msec_t                  ends;
    ngx_http_wq_worker_t       *worker;
    ngx_http_wq_known_token_t   known;

    worker = client->event->worker;

    if (ngx_http_wq_client_known(client, 0, 0, &known, &ends) == NGX_OK) {
        ngx_http_wq_zone_token_end(worker->conf->zone, &client->event->id.str,
                                   &client->user.str, &known, ends);
    }
}


/* what is known of the lease; NGX_DECLINED: it is over, for all we know */

static ngx_int_t
ngx_http_wq_client_known(ngx_http_wq_client_t *client, int64_t since,
    int64_t waited, ngx_http_wq_known_token_t *known, ngx_msec_t *ends)
{
    int64_t                now, left;
    ngx_http_wq_worker_t  *worker;

    worker = client->event->worker;

    if (worker->clock == 0) {
        return NGX_DECLINED;
    }

    now = worker->clock + (int64_t) ngx_current_msec;
    left = ngx_min(client->expires - now, NGX_HTTP_WQ_LEASE_MAX);

    if (left <= 0) {
        return NGX_DECLINED;
    }

    /* the gate is to ask: with its first use a lease becomes another */

    known->checked = ngx_current_msec - NGX_HTTP_WQ_TOKEN_UNUSED;
    known->entered = (client->status == WQ_STATUS_ENTERED);
    known->expires = client->expires;
    known->waited = waited;
    known->since = since ? since : now;
    known->idx = (int64_t) client->idx;
    ngx_memcpy(known->token, client->token, WQ_TOKEN_LEN);

    *ends = ngx_current_msec + (ngx_msec_t) left;

    return NGX_OK;
}


void
ngx_http_wq_client_set_place(ngx_http_wq_client_t *client,
    const ngx_http_wq_join_reply_t *reply)
{
    client->idx = (uint64_t) reply->idx;
    client->rank = (uint64_t) reply->rank;
    client->total = reply->total;
    client->moment.promoted = (uint64_t) reply->promoted;
    client->moment.gone = (uint64_t) reply->gone;
    client->overdue = 0;

    if (client->event->highest < client->idx) {
        client->event->highest = client->idx;
    }
}


/* the stream gets its last event; the client is as if it had none */

void
ngx_http_wq_client_end(ngx_http_wq_client_t *client, wq_sse_event_e event)
{
    ngx_http_wq_client_ops.end(client, event);
    ngx_http_wq_client_disconnect(client);
}


void
ngx_http_wq_client_disconnect(ngx_http_wq_client_t *client)
{
    ngx_http_wq_worker_t  *worker;

    worker = client->event->worker;

    client->stream = NULL;
    client->disconnected = ngx_current_msec;

    ngx_http_wq_line_remove(client);
    ngx_queue_remove(&client->queue);

    client->event->streams--;

    wq_counter_add(worker->slot->gauges.streams, -1);
    wq_counter_add(worker->slot->counters.streams_closed, 1);
}


void
ngx_http_wq_client_gone(ngx_http_wq_client_t *client)
{
    if (client->state == NGX_HTTP_WQ_JOINING) {
        ngx_http_wq_client_cut(client);
        client->disconnected = ngx_current_msec;

        if (client->operation == NULL) {
            /* it waited for a capacity, and Redis knows nothing of it */
            ngx_http_wq_client_forget(client);
        }

        return;
    }

    ngx_http_wq_client_disconnect(client);
    ngx_http_wq_client_absent(client, 1);
}


/*
 * Nobody is connected.  A place is kept for the grace time, and so is a lease
 * that nobody was told of, or one that is to end with the stream.
 */

void
ngx_http_wq_client_absent(ngx_http_wq_client_t *client, ngx_uint_t told)
{
    ngx_msec_t             passed, grace;
    ngx_http_wq_worker_t  *worker;

    worker = client->event->worker;

    if (worker->draining
        || (client->state == NGX_HTTP_WQ_READY && told
            && !client->rules->release))
    {
        ngx_http_wq_client_forget(client);
        return;
    }

    passed = ngx_current_msec - client->disconnected;
    grace = client->rules->grace;

    if (worker->leaving) {
        grace = ngx_max(grace, ngx_http_wq_come_again(worker));
    }

    ngx_http_wq_grace_add(client, passed < grace ? grace - passed : 0);
    ngx_http_wq_recovery_add(client);
}


void
ngx_http_wq_client_dismiss(ngx_http_wq_client_t *client, wq_sse_event_e event)
{
    ngx_http_wq_client_end(client, event);

    /* the place is nothing worth any more */
    ngx_http_wq_grace_add(client, 0);
}


void
ngx_http_wq_client_forget(ngx_http_wq_client_t *client)
{
    ngx_http_wq_event_t  *event;

    event = client->event;

    if (client->operation) {
        ngx_http_wq_operation_detach(client->operation);
    }

    if (client->state == NGX_HTTP_WQ_JOINING) {
        ngx_http_wq_event_remove_joiner(client);
    }

    ngx_http_wq_recovery_drop(client);
    ngx_http_wq_grace_remove(client);
    ngx_http_wq_line_remove(client);
    ngx_http_wq_event_remove_user(client);

    ngx_free(client);

    ngx_http_wq_event_release(event);
}
