
/*
 * queue: resync.
 *
 * When the news of an event do not follow on what is known here (too many have
 * left since, or Redis has lost data), the ranks of all clients are asked for,
 * some a call.  Who is not in line any more although nobody has said so is put
 * back with the old idx; or told, if the truth is that he was let in.
 *
 * It takes the place of a tick: there is no other for the event until it is
 * done.
 */


#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_http_wq_worker.h"


static void ngx_http_wq_resync_next(ngx_http_wq_event_t *event);
static void ngx_http_wq_resync_fail(ngx_http_wq_event_t *event);
static void ngx_http_wq_resync_handler(void *data,
    ngx_http_wq_result_t *result);
static void ngx_http_wq_resync_client(ngx_http_wq_event_t *event,
    ngx_http_wq_client_t *client, int64_t rank, wq_moment_t moment);
static void ngx_http_wq_resync_restored(void *data,
    ngx_http_wq_result_t *result);


/* a tick of the event is under way and holds it */

void
ngx_http_wq_resync_start(ngx_http_wq_event_t *event)
{
    ngx_http_wq_worker_t  *worker;

    worker = event->worker;

    wq_counter_add(worker->slot->counters.resyncs, 1);

    if (event->asked == NULL) {
        event->asked = ngx_alloc(NGX_HTTP_WQ_RANKS_BATCH * sizeof(uint64_t),
                                 worker->log);
        if (event->asked == NULL) {
            ngx_http_wq_resync_fail(event);
            return;
        }
    }

    event->resync = 0;
    event->swept = 0;
    event->nasked = 0;

    ngx_memset(&event->resynced, 0xff, sizeof(wq_moment_t));

    event->lost_epoch.len = event->epoch.len;
    ngx_memcpy(event->lost_data, event->epoch_data, event->epoch.len);

    ngx_http_wq_resync_next(event);
}


/*
 * Whoever comes during a resync was perhaps not asked for, and has a rank of a
 * moment before that of the ranks: the next tick begins with the earliest.
 */

void
ngx_http_wq_resync_note(ngx_http_wq_event_t *event, wq_moment_t moment)
{
    if (moment.promoted <= event->resynced.promoted
        && moment.gone <= event->resynced.gone)
    {
        event->resynced = moment;
    }
}


static void
ngx_http_wq_resync_next(ngx_http_wq_event_t *event)
{
    ngx_str_t                users[NGX_HTTP_WQ_RANKS_BATCH];
    ngx_uint_t               n;
    ngx_rbtree_node_t       *node;
    ngx_http_wq_client_t    *client;
    ngx_http_wq_worker_t    *worker;
    ngx_http_wq_reply_to_t   to;

    worker = event->worker;
    client = ngx_http_wq_line_after(event, event->swept);

    for (n = 0; client && n < NGX_HTTP_WQ_RANKS_BATCH; n++) {
        users[n] = client->user.str;
        event->asked[n] = client->idx;
        event->swept = client->idx;

        node = ngx_rbtree_next(&event->line, &client->by_idx);
        client = node ? ngx_http_wq_line_client(node) : NULL;
    }

    if (n == 0) {

        if (event->nasked) {
            event->known = event->resynced;
        }

        ngx_http_wq_broadcaster_done(event);
        return;
    }

    event->nasking = n;

    to.handler = ngx_http_wq_resync_handler;
    to.data = event;
    to.operation = NULL;

    if (ngx_http_wq_call_ranks(worker->links[NGX_HTTP_WQ_COMMANDS],
                               &event->keys, &worker->instance, users, n,
                               &to)
        != NGX_OK)
    {
        ngx_http_wq_resync_fail(event);
    }
}


static void
ngx_http_wq_resync_fail(ngx_http_wq_event_t *event)
{
    /* with the next tick, from the beginning */

    event->resync = 1;
    ngx_http_wq_broadcaster_done(event);
}


static void
ngx_http_wq_resync_handler(void *data, ngx_http_wq_result_t *result)
{
    ngx_http_wq_event_t *event = data;

    int64_t                     rank;
    ngx_uint_t                  i, n;
    wq_moment_t                 moment;
    ngx_http_wq_client_t       *client;
    ngx_http_wq_worker_t       *worker;
    ngx_http_wq_ranks_reply_t   reply;

    worker = event->worker;

    if (ngx_http_wq_decode_ranks(worker->links[NGX_HTTP_WQ_COMMANDS], result,
                                 &reply)
        != NGX_OK)
    {
        ngx_http_wq_resync_fail(event);
        return;
    }

    n = wq_reply_elements(reply.ranks);

    if (n != event->nasking) {
        /* not what was asked for; not to be asked for ever */
        ngx_http_wq_resync_fail(event);
        return;
    }

    moment.promoted = (uint64_t) reply.promoted;
    moment.gone = (uint64_t) reply.gone;

    ngx_http_wq_resync_note(event, moment);

    event->total = reply.total;
    event->joined = reply.joined;
    ngx_http_wq_event_set_epoch(event, &reply.epoch);

    for (i = 0; i < n; i++) {
        client = ngx_http_wq_line_find(event, event->asked[i]);

        /* one may have gone meanwhile */

        if (client && ngx_http_wq_decode_rank(&reply, i, &rank) == NGX_OK) {
            ngx_http_wq_resync_client(event, client, rank, moment);
        }
    }

    event->nasked += n;

    ngx_http_wq_resync_next(event);
}


static void
ngx_http_wq_resync_client(ngx_http_wq_event_t *event,
    ngx_http_wq_client_t *client, int64_t rank, wq_moment_t moment)
{
    uint64_t  known;

    if (rank < 0) {

        if (client->operation == NULL
            && ngx_http_wq_client_restore(client, client->idx,
                                          ngx_http_wq_resync_restored)
               != NGX_OK)
        {
            event->resync = 1;
        }

        return;
    }

    known = client->rank;

    client->rank = (uint64_t) rank;
    client->total = event->total;
    client->moment = moment;
    client->overdue = 0;

    if (client->rank != known) {
        ngx_http_wq_client_ops.position(client);
    }
}


static void
ngx_http_wq_resync_restored(void *data, ngx_http_wq_result_t *result)
{
    ngx_http_wq_client_t *client = data;

    ngx_http_wq_worker_t      *worker;
    ngx_http_wq_join_reply_t   reply;

    worker = client->event->worker;

    if (ngx_http_wq_decode_join(worker->links[NGX_HTTP_WQ_COMMANDS], result,
                                &reply)
        == NGX_OK)
    {
        ngx_http_wq_client_restored(client, &reply);
        return;
    }

    client->event->resync = 1;
    ngx_http_wq_client_restored(client, NULL);
}
