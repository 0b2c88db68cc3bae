
/*
 * queue: what a client is told by others.
 *
 * A message of the dispatch stream, or, after a loss of data, the answer to the
 * question where the client stands.  Either may come late, or twice: what it
 * says is compared with what the client knows.
 */


#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_http_wq_worker.h"


static void ngx_http_wq_client_promoted(ngx_http_wq_worker_t *worker,
    ngx_http_wq_client_t *client, const ngx_http_wq_notice_t *notice);
static void ngx_http_wq_client_moved(ngx_http_wq_client_t *client,
    uint64_t idx);


ngx_int_t
ngx_http_wq_client_notice(ngx_http_wq_worker_t *worker,
    const ngx_http_wq_notice_t *notice)
{
    ngx_http_wq_event_t   *event;
    ngx_http_wq_client_t  *client;

    event = ngx_http_wq_event_find(worker, &notice->event);
    client = event ? ngx_http_wq_event_user(event, &notice->user) : NULL;

    switch (notice->type) {

    case WQ_NOTICE_PROMOTED:
        ngx_http_wq_client_promoted(worker, client, notice);
        break;

    case WQ_NOTICE_EXPIRED:
        /* a lease has lapsed, or the user has gone, by the API */

        if (client == NULL || client->idx != notice->idx) {
            break;
        }

        if (client->stream) {
            ngx_http_wq_client_end(client, WQ_SSE_EXPIRED);
        }

        if (client->state == NGX_HTTP_WQ_WAITING) {
            /* should a resync have put the place back before this came */
            ngx_http_wq_grace_add(client, 0);
            break;
        }

        ngx_http_wq_client_unremember(client);
        ngx_http_wq_client_forget(client);
        break;

    case WQ_NOTICE_REPLACED:
        if (client == NULL) {
            /* the one who is replaced may still wait for its own answer */
            return event && ngx_http_wq_event_has_joiner(event, &notice->user)
                   ? NGX_ERROR : NGX_OK;
        }

        if (client->serial >= notice->serial) {
            break;
        }

        ngx_http_wq_client_replaced(client);
        break;

    case WQ_NOTICE_MOVED:
        if (client == NULL) {
            /* as above: its own answer has the place of before */
            return event && ngx_http_wq_event_has_joiner(event, &notice->user)
                   ? NGX_ERROR : NGX_OK;
        }

        if (client->state == NGX_HTTP_WQ_WAITING) {
            ngx_http_wq_client_moved(client, notice->idx);
        }

        break;

    default:
        /* WQ_NOTICE_SEAT: is about no client */
        break;
    }

    return NGX_OK;
}


/* client may be NULL: then the lease waits for the user to come back */

static void
ngx_http_wq_client_promoted(ngx_http_wq_worker_t *worker,
    ngx_http_wq_client_t *client, const ngx_http_wq_notice_t *notice)
{
    ngx_http_wq_event_t  *event;

    static const ngx_http_wq_rules_t  unknown = {
        ngx_null_string, NGX_HTTP_WQ_DEFAULT_GRACE, 0
    };

    if (client == NULL) {

        client = ngx_http_wq_client_create(worker, &notice->event,
                                           &notice->user, &unknown);
        if (client == NULL) {
            /* the claim time will end the lease */
            return;
        }

        event = client->event;

        if (event->rules) {
            client->rules = event->rules;
        }

        client->idx = notice->idx;
        client->disconnected = ngx_current_msec;

        ngx_http_wq_client_set_lease(client, WQ_STATUS_READY,
                                     notice->token.data, notice->expires);
        ngx_http_wq_client_remember(client, 0, 0);
        ngx_http_wq_event_add_user(client);
        ngx_http_wq_client_absent(client, 0);
        return;
    }

    if (client->state == NGX_HTTP_WQ_WAITING && notice->idx < client->idx) {
        /* of a place that is no more, or to which it has been moved */
        client->event->resync = 1;
        return;
    }

    /* one that was told already, or of a place that is no more */

    if (client->state == NGX_HTTP_WQ_WAITING
        ? (client->idx != 0 && client->idx != notice->idx)
        : client->idx >= notice->idx)
    {
        return;
    }

    ngx_http_wq_line_remove(client);

    client->idx = notice->idx;
    ngx_http_wq_client_set_lease(client, WQ_STATUS_READY, notice->token.data,
                                 notice->expires);
    ngx_http_wq_client_remember(client, 0, 0);

    if (client->stream) {
        ngx_http_wq_client_ops.promoted(client);
        return;
    }

    if (client->given_up) {
        /* the grace time is over */
        ngx_http_wq_grace_add(client, 0);
    }
}


/* after a loss of data another worker knew the user's place of before */

static void
ngx_http_wq_client_moved(ngx_http_wq_client_t *client, uint64_t idx)
{
    if (!client->in_line) {
        client->idx = idx;
        return;
    }

    ngx_http_wq_line_remove(client);
    client->idx = idx;
    ngx_http_wq_line_add(client);

    /* the rank follows from nothing that is known here */
    client->event->resync = 1;
}


ngx_int_t
ngx_http_wq_client_restore(ngx_http_wq_client_t *client, uint64_t idx,
    ngx_http_wq_operation_handler_pt handler)
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
    join.highest = event->highest;
    join.idx = idx;
    join.epoch = event->lost_epoch;
    join.serial = client->serial;
    join.absent = (client->state == NGX_HTTP_WQ_WAITING && !client->stream);

    to.handler = handler;
    to.data = client;
    to.operation = &client->operation;

    return ngx_http_wq_call_restore(worker->links[NGX_HTTP_WQ_COMMANDS],
                                    &event->keys, &join, &to);
}


void
ngx_http_wq_client_restored(ngx_http_wq_client_t *client,
    const ngx_http_wq_join_reply_t *reply)
{
    uint64_t  rank;

    client->operation = NULL;

    if (reply == NULL || !client->in_line) {
        return;
    }

    if (reply->status == NGX_HTTP_WQ_JOIN_REPLACED) {
        ngx_http_wq_client_replaced(client);
        return;
    }

    wq_counter_add(client->event->worker->slot->counters.restored, 1);

    client->serial = reply->serial;
    client->event->total = reply->total;
    ngx_http_wq_event_set_epoch(client->event, &reply->epoch);

    if (reply->status == WQ_STATUS_WAITING) {
        rank = client->rank;

        ngx_http_wq_line_remove(client);
        ngx_http_wq_client_set_place(client, reply);
        ngx_http_wq_line_add(client);

        if (client->rank != rank) {
            ngx_http_wq_client_ops.position(client);
        }

        return;
    }

    if (reply->status == WQ_STATUS_READY
        || reply->status == WQ_STATUS_ENTERED)
    {
        ngx_http_wq_line_remove(client);
        ngx_http_wq_client_set_lease(client, reply->status, reply->token.data,
                                     reply->expires);

        /* of the lease, by which its end is told: it may be a later one */
        client->idx = reply->idx > 0 ? (uint64_t) reply->idx : 0;
        ngx_http_wq_client_remember(client, reply->since, reply->waited);

        ngx_http_wq_client_ops.promoted(client);
    }
}
