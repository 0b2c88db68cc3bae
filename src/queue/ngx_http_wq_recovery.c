
/*
 * queue: recovery.
 *
 * Redis has lost data: it was restarted without them, a replica that was behind
 * has taken over, somebody has emptied it.  For a while it lets nobody in
 * (lua/lib/origin.lua), and in this time everybody puts back what he knows: a
 * worker its clients, those with a stream by a resync, those in their grace
 * time here; and one worker of each node what the zone knows of events and
 * leases.
 *
 * It goes on by a timer, some calls in one turn.  All of them may be made
 * again, and are, from the beginning, if one has failed.
 */


#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_http_wq_worker.h"


/* calls in one turn, and the time between two turns in ms */
#define NGX_HTTP_WQ_RECOVERY_SLICE  64
#define NGX_HTTP_WQ_RECOVERY_TICK   20

/* before another try, in ms */
#define NGX_HTTP_WQ_RECOVERY_RETRY  500

/* longer than Redis waits for anybody, see lua/lib/origin.lua */
#define NGX_HTTP_WQ_RECOVERY_MOST   60000


static void ngx_http_wq_recovery_begin(ngx_http_wq_worker_t *worker);
static void ngx_http_wq_recovery_clients(ngx_http_wq_event_t *event);
static void ngx_http_wq_recovery_begin_node(ngx_http_wq_worker_t *worker);
static void ngx_http_wq_recovery_end_node(ngx_http_wq_worker_t *worker);
static void ngx_http_wq_recovery_tick(ngx_event_t *ev);
static ngx_uint_t ngx_http_wq_recovery_places(ngx_http_wq_worker_t *worker,
    ngx_uint_t n);
static ngx_uint_t ngx_http_wq_recovery_events(ngx_http_wq_worker_t *worker,
    ngx_uint_t n);
static ngx_uint_t ngx_http_wq_recovery_leases(ngx_http_wq_worker_t *worker,
    ngx_uint_t n);
static ngx_int_t ngx_http_wq_recovery_lease(ngx_http_wq_worker_t *worker,
    const ngx_http_wq_known_lease_t *known);
static void ngx_http_wq_recovery_place_handler(void *data,
    ngx_http_wq_result_t *result);
static void ngx_http_wq_recovery_event_handler(void *data,
    ngx_http_wq_result_t *result);
static void ngx_http_wq_recovery_lease_handler(void *data,
    ngx_http_wq_result_t *result);
static void ngx_http_wq_recovery_answered(ngx_http_wq_event_t *event,
    ngx_int_t rc);
static void ngx_http_wq_recovery_fail(ngx_http_wq_worker_t *worker);


void
ngx_http_wq_recovery_init(ngx_http_wq_worker_t *worker)
{
    ngx_queue_init(&worker->recovery.missing);

    ngx_http_wq_timer_init(&worker->recovery.timer, ngx_http_wq_recovery_tick,
                           worker, 1, worker->log);
}


void
ngx_http_wq_recovery_stop(ngx_http_wq_worker_t *worker)
{
    ngx_http_wq_timer_stop(&worker->recovery.timer);
    ngx_http_wq_recovery_end_node(worker);
}


void
ngx_http_wq_recovery_check(ngx_http_wq_worker_t *worker, int64_t origin,
    int64_t hold_ms)
{
    ngx_uint_t               is_first, is_new;
    ngx_http_wq_recovery_t  *recovery;

    recovery = &worker->recovery;

    if (origin == 0 || origin == recovery->origin || worker->draining) {
        return;
    }

    is_first = ngx_http_wq_zone_set_origin(worker->conf->zone, origin);

    /* the one who was first is perhaps gone, and was not ready with it */
    is_new = (recovery->origin == 0 && hold_ms > 0);

    if (recovery->origin || is_first || is_new) {
        recovery->until = ngx_current_msec + NGX_HTTP_WQ_RECOVERY_MOST;
        recovery->node = is_first || is_new;

        ngx_http_wq_recovery_begin(worker);
    }

    if (is_first) {
        ngx_log_error(NGX_LOG_WARN, worker->log, 0,
                      "waiting_queue: Redis has lost its data, or is another "
                      "process than before: who is known to this node is put "
                      "back, and nobody is let in for a moment");
    }

    recovery->origin = origin;
}


ngx_uint_t
ngx_http_wq_recovery_under_way(const ngx_http_wq_worker_t *worker)
{
    return (ngx_msec_int_t) (worker->recovery.until - ngx_current_msec) > 0;
}


ngx_uint_t
ngx_http_wq_recovery_busy(const ngx_http_wq_worker_t *worker)
{
    const ngx_http_wq_recovery_t  *recovery;

    recovery = &worker->recovery;

    return ngx_http_wq_recovery_under_way(worker)
           && worker->links[NGX_HTTP_WQ_COMMANDS]->state
              == NGX_HTTP_WQ_LINK_READY
           && (recovery->node || !ngx_queue_empty(&recovery->missing));
}


/* from the beginning, perhaps again */

static void
ngx_http_wq_recovery_begin(ngx_http_wq_worker_t *worker)
{
    ngx_rbtree_node_t       *node;
    ngx_http_wq_recovery_t  *recovery;

    recovery = &worker->recovery;
    recovery->failed = 0;

    ngx_http_wq_broadcaster_resync(worker);

    if (worker->events.root != worker->events.sentinel) {

        for (node = ngx_rbtree_min(worker->events.root,
                                   worker->events.sentinel);
             node;
             node = ngx_rbtree_next(&worker->events, node))
        {
            ngx_http_wq_recovery_clients((ngx_http_wq_event_t *) node);
        }
    }

    ngx_http_wq_recovery_end_node(worker);

    if (recovery->node) {
        ngx_http_wq_recovery_begin_node(worker);
    }

    ngx_http_wq_timer_set(&recovery->timer, 1);
}


/*
 * Those who wait in their grace time are asked about one after another; who has
 * just left, leaves again.
 */

static void
ngx_http_wq_recovery_clients(ngx_http_wq_event_t *event)
{
    ngx_rbtree_node_t     *node;
    ngx_http_wq_client_t  *client;

    if (event->users.root == event->users.sentinel) {
        return;
    }

    /* that of before the loss: whoever comes first ends it */

    event->lost_epoch.len = event->epoch.len;
    ngx_memcpy(event->lost_data, event->epoch_data, event->epoch.len);

    for (node = ngx_rbtree_min(event->users.root, event->users.sentinel);
         node;
         node = ngx_rbtree_next(&event->users, node))
    {
        client = (ngx_http_wq_client_t *) node;

        if (client->stream || client->missing
            || client->state != NGX_HTTP_WQ_WAITING || client->idx == 0)
        {
            continue;
        }

        if (client->given_up) {
            client->given_up = 0;
            ngx_http_wq_grace_add(client, 0);
            continue;
        }

        client->missing = 1;
        ngx_queue_insert_tail(&event->worker->recovery.missing,
                              &client->queue);
    }
}


/*
 * Its stream has ended before the resync came to it, perhaps; Redis does
 * nothing for one that is not missing.
 */

void
ngx_http_wq_recovery_add(ngx_http_wq_client_t *client)
{
    ngx_http_wq_worker_t  *worker;

    worker = client->event->worker;

    if (!ngx_http_wq_recovery_under_way(worker) || client->missing
        || client->state != NGX_HTTP_WQ_WAITING || client->idx == 0)
    {
        return;
    }

    client->missing = 1;
    ngx_queue_insert_tail(&worker->recovery.missing, &client->queue);

    if (!worker->recovery.timer.event.timer_set) {
        ngx_http_wq_timer_set(&worker->recovery.timer, 1);
    }
}


void
ngx_http_wq_recovery_drop(ngx_http_wq_client_t *client)
{
    if (client->missing) {
        client->missing = 0;
        ngx_queue_remove(&client->queue);
    }
}


static void
ngx_http_wq_recovery_begin_node(ngx_http_wq_worker_t *worker)
{
    ngx_http_wq_recovery_t  *recovery;

    recovery = &worker->recovery;

    recovery->pool = ngx_create_pool(4096, worker->log);

    if (recovery->pool == NULL
        || ngx_http_wq_zone_snapshot(worker->conf->zone, recovery->pool,
                                     &recovery->snapshot)
           != NGX_OK)
    {
        /* the leases are worth more */
        recovery->snapshot.nevents = 0;
    }

    recovery->next = 0;
    recovery->walking = 0;
}


static void
ngx_http_wq_recovery_end_node(ngx_http_wq_worker_t *worker)
{
    if (worker->recovery.pool) {
        ngx_destroy_pool(worker->recovery.pool);
        worker->recovery.pool = NULL;
    }
}


static void
ngx_http_wq_recovery_tick(ngx_event_t *ev)
{
    ngx_uint_t               n;
    ngx_http_wq_worker_t    *worker;
    ngx_http_wq_recovery_t  *recovery;

    worker = ngx_http_wq_timer_data(ev);
    recovery = &worker->recovery;

    if (!ngx_http_wq_recovery_under_way(worker)) {
        ngx_http_wq_recovery_end_node(worker);
        return;
    }

    n = ngx_http_wq_recovery_places(worker, NGX_HTTP_WQ_RECOVERY_SLICE);

    if (recovery->node) {
        n = ngx_http_wq_recovery_events(worker, n);
        n = ngx_http_wq_recovery_leases(worker, n);
    }

    if (n == 0 || recovery->asked) {
        ngx_http_wq_timer_set(&recovery->timer, NGX_HTTP_WQ_RECOVERY_TICK);
        return;
    }

    if (recovery->failed) {
        ngx_http_wq_recovery_begin(worker);
        ngx_http_wq_timer_set(&recovery->timer, NGX_HTTP_WQ_RECOVERY_RETRY);
        return;
    }

    ngx_http_wq_recovery_end_node(worker);

    if (recovery->node) {
        recovery->node = 0;
        ngx_log_error(NGX_LOG_NOTICE, worker->log, 0,
                      "waiting_queue: leases put back: %ui",
                      recovery->restored);
        recovery->restored = 0;
    }
}


/*
 * Each of these makes up to n calls: how many are left of n when there is
 * nothing more to ask, else 0.
 */

static ngx_uint_t
ngx_http_wq_recovery_places(ngx_http_wq_worker_t *worker, ngx_uint_t n)
{
    ngx_queue_t           *q;
    ngx_http_wq_client_t  *client;

    while (n && !ngx_queue_empty(&worker->recovery.missing)) {
        q = ngx_queue_head(&worker->recovery.missing);
        client = ngx_queue_data(q, ngx_http_wq_client_t, queue);

        if (client->operation == NULL && client->absent
            && ngx_http_wq_client_restore(client, client->idx,
                                          ngx_http_wq_recovery_place_handler)
               != NGX_OK)
        {
            return 0;
        }

        ngx_http_wq_recovery_drop(client);
        n--;
    }

    return n;
}


/* it may have come back meanwhile, or be about to leave; then it is freed */

static void
ngx_http_wq_recovery_place_handler(void *data, ngx_http_wq_result_t *result)
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
        ngx_http_wq_recovery_fail(worker);
    }
}


static ngx_uint_t
ngx_http_wq_recovery_events(ngx_http_wq_worker_t *worker, ngx_uint_t n)
{
    ngx_str_t                 id;
    ngx_http_wq_event_t      *event;
    ngx_http_wq_reply_to_t    to;
    ngx_http_wq_recovery_t   *recovery;
    ngx_http_wq_event_row_t  *row;

    recovery = &worker->recovery;

    for ( /* void */ ; n && recovery->next < recovery->snapshot.nevents; n--) {

        row = &recovery->snapshot.events[recovery->next];

        if (row->figures.origin == recovery->origin) {
            /* was there after the loss: what was sold since is in it */
            recovery->next++;
            continue;
        }

        id.len = row->id_len;
        id.data = row->id;

        event = ngx_http_wq_event_get(worker, &id);
        if (event == NULL) {
            return 0;
        }

        to.handler = ngx_http_wq_recovery_event_handler;
        to.data = event;
        to.operation = NULL;

        if (ngx_http_wq_call_restore_event(worker->links[NGX_HTTP_WQ_COMMANDS],
                                           &event->keys, &row->figures, &to)
            != NGX_OK)
        {
            ngx_http_wq_event_release(event);
            return 0;
        }

        recovery->asked++;
        recovery->next++;
    }

    return n;
}


static void
ngx_http_wq_recovery_event_handler(void *data, ngx_http_wq_result_t *result)
{
    ngx_http_wq_event_t *event = data;

    ngx_http_wq_link_t                 *link;
    ngx_http_wq_restore_event_reply_t   reply;

    link = event->worker->links[NGX_HTTP_WQ_COMMANDS];

    ngx_http_wq_recovery_answered(event,
                    ngx_http_wq_decode_restore_event(link, result, &reply));
}


static ngx_uint_t
ngx_http_wq_recovery_leases(ngx_http_wq_worker_t *worker, ngx_uint_t n)
{
    ngx_uint_t                  i, found;
    ngx_http_wq_recovery_t     *recovery;
    ngx_http_wq_known_lease_t   leases[NGX_HTTP_WQ_RECOVERY_SLICE];

    recovery = &worker->recovery;

    if (n == 0) {
        return 0;
    }

    found = ngx_http_wq_zone_tokens_walk(worker->conf->zone,
                                         recovery->walking ? &recovery->last
                                                           : NULL,
                                         leases, n);

    for (i = 0; i < found; i++) {

        if (ngx_http_wq_recovery_lease(worker, &leases[i]) != NGX_OK) {
            return 0;
        }

        recovery->walking = 1;
        recovery->last = leases[i];
        recovery->last.event.data = recovery->last.ids;
        recovery->last.user.data = recovery->last.ids
                                   + recovery->last.event.len;
    }

    return n - found;
}


static ngx_int_t
ngx_http_wq_recovery_lease(ngx_http_wq_worker_t *worker,
    const ngx_http_wq_known_lease_t *known)
{
    ngx_int_t                rc;
    ngx_http_wq_event_t     *event;
    ngx_http_wq_lease_t      lease;
    ngx_http_wq_reply_to_t   to;

    event = ngx_http_wq_event_get(worker, &known->event);
    if (event == NULL) {
        return NGX_ERROR;
    }

    lease.user = known->user;
    ngx_http_wq_zone_lease(&known->token, &lease);

    to.handler = ngx_http_wq_recovery_lease_handler;
    to.data = event;
    to.operation = NULL;

    rc = ngx_http_wq_call_restore_lease(worker->links[NGX_HTTP_WQ_COMMANDS],
                                        &event->keys, &lease, &to);

    if (rc != NGX_OK) {
        ngx_http_wq_event_release(event);
        return rc;
    }

    worker->recovery.asked++;

    return NGX_OK;
}


static void
ngx_http_wq_recovery_lease_handler(void *data, ngx_http_wq_result_t *result)
{
    ngx_http_wq_event_t *event = data;

    ngx_int_t                           rc;
    ngx_http_wq_worker_t               *worker;
    ngx_http_wq_restore_lease_reply_t   reply;

    worker = event->worker;

    rc = ngx_http_wq_decode_restore_lease(worker->links[NGX_HTTP_WQ_COMMANDS],
                                          result, &reply);

    if (rc == NGX_OK) {
        worker->recovery.restored += reply.restored;
        wq_counter_add(worker->slot->counters.leases_restored, reply.restored);
    }

    ngx_http_wq_recovery_answered(event, rc);
}


/* the event was held by the call */

static void
ngx_http_wq_recovery_answered(ngx_http_wq_event_t *event, ngx_int_t rc)
{
    ngx_http_wq_recovery_t  *recovery;

    recovery = &event->worker->recovery;
    recovery->asked--;

    if (rc != NGX_OK) {
        ngx_http_wq_recovery_fail(event->worker);
    }

    ngx_http_wq_event_release(event);
}


/* when all that is under way has been answered it begins again */

static void
ngx_http_wq_recovery_fail(ngx_http_wq_worker_t *worker)
{
    worker->recovery.failed = 1;

    if (!worker->recovery.timer.event.timer_set && !worker->draining) {
        ngx_http_wq_timer_set(&worker->recovery.timer,
                              NGX_HTTP_WQ_RECOVERY_RETRY);
    }
}
