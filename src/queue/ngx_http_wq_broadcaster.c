
/*
 * queue: broadcaster.
 *
 * Once per interval, for each event that has clients in line here, one call
 * tells how many were let in and who left from the middle.  From that the rank
 * of every client follows (core/wq_sweep.h): what Redis has to do does not
 * depend on how many wait.  The sweep over the clients goes in slices, so that
 * requests are answered in between, and those whose rank has changed are told.
 *
 * An event has one tick under way at most.  While it has, further ticks are
 * skipped and counted.
 */


#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_http_wq_worker.h"


/*
 * Clients in one turn of the event loop: whoever is let in is told after two
 * turns, and each may have to wait for a slice.
 */
#define NGX_HTTP_WQ_BROADCASTER_SLICE    32

/* entries of one tick; beyond it all ranks are asked for */
#define NGX_HTTP_WQ_BROADCASTER_ENTRIES  65536

/* the longest time between two ticks while places may be missing, in ms */
#define NGX_HTTP_WQ_BROADCASTER_RECOVERY  1000

/* for so long the message of a promotion may be on its way */
#define NGX_HTTP_WQ_BROADCASTER_OVERDUE  2000


static void ngx_http_wq_broadcaster_tick(ngx_event_t *ev);
static void ngx_http_wq_broadcaster_begin(ngx_http_wq_event_t *event);
static ngx_int_t ngx_http_wq_broadcaster_ask(ngx_http_wq_event_t *event,
    uint64_t known);
static void ngx_http_wq_broadcaster_handler(void *data,
    ngx_http_wq_result_t *result);
static void ngx_http_wq_broadcaster_report(ngx_http_wq_event_t *event,
    const ngx_http_wq_positions_reply_t *reply);
static ngx_int_t ngx_http_wq_broadcaster_collect(ngx_http_wq_event_t *event,
    const ngx_http_wq_positions_reply_t *reply);
static void ngx_http_wq_broadcaster_sweep(ngx_http_wq_event_t *event,
    wq_moment_t to);
static void ngx_http_wq_broadcaster_slice(ngx_event_t *ev);
static ngx_uint_t ngx_http_wq_broadcaster_clients(ngx_http_wq_event_t *event,
    ngx_uint_t n);
static void ngx_http_wq_broadcaster_client(ngx_http_wq_client_t *client);
static void ngx_http_wq_broadcaster_overdue(ngx_http_wq_client_t *client);


void
ngx_http_wq_broadcaster_init(ngx_http_wq_worker_t *worker)
{
    ngx_http_wq_broadcaster_t  *broadcaster;

    broadcaster = &worker->broadcaster;

    ngx_http_wq_timer_init(&broadcaster->timer, ngx_http_wq_broadcaster_tick,
                           worker, 1, worker->log);

    ngx_queue_init(&broadcaster->sweeps);

    broadcaster->connection.fd = (ngx_socket_t) -1;
    broadcaster->connection.data = worker;

    broadcaster->slice.data = &broadcaster->connection;
    broadcaster->slice.handler = ngx_http_wq_broadcaster_slice;
    broadcaster->slice.log = worker->log;
}


void
ngx_http_wq_broadcaster_start(ngx_http_wq_worker_t *worker)
{
    if (!worker->broadcaster.timer.event.timer_set) {
        ngx_http_wq_timer_set(&worker->broadcaster.timer,
                              worker->conf->interval);
    }
}


void
ngx_http_wq_broadcaster_stop(ngx_http_wq_worker_t *worker)
{
    ngx_http_wq_timer_stop(&worker->broadcaster.timer);

    if (worker->broadcaster.slice.posted) {
        ngx_delete_posted_event(&worker->broadcaster.slice);
    }
}


void
ngx_http_wq_broadcaster_resync(ngx_http_wq_worker_t *worker)
{
    ngx_rbtree_node_t  *node;

    if (worker->events.root == worker->events.sentinel) {
        return;
    }

    for (node = ngx_rbtree_min(worker->events.root, worker->events.sentinel);
         node;
         node = ngx_rbtree_next(&worker->events, node))
    {
        ((ngx_http_wq_event_t *) node)->resync = 1;
    }

    /* whatever the interval: people are let in again before it may be over */

    if (worker->broadcaster.timer.event.timer_set) {
        ngx_http_wq_timer_set(&worker->broadcaster.timer, 1);
    }
}


void
ngx_http_wq_broadcaster_forget(ngx_http_wq_event_t *event)
{
    if (event->in_sweep) {
        ngx_queue_remove(&event->sweeping);
    }

    if (event->entries) {
        ngx_free(event->entries);
    }

    if (event->asked) {
        ngx_free(event->asked);
    }
}


static void
ngx_http_wq_broadcaster_tick(ngx_event_t *ev)
{
    ngx_msec_t             interval;
    ngx_rbtree_node_t     *node;
    ngx_http_wq_event_t   *event;
    ngx_http_wq_worker_t  *worker;

    worker = ngx_http_wq_timer_data(ev);
    interval = worker->conf->interval;

    if (ngx_http_wq_recovery_under_way(worker)) {
        interval = ngx_min(interval, NGX_HTTP_WQ_BROADCASTER_RECOVERY);
    }

    ngx_http_wq_timer_set(&worker->broadcaster.timer, interval);

    if (worker->events.root == worker->events.sentinel) {
        return;
    }

    for (node = ngx_rbtree_min(worker->events.root, worker->events.sentinel);
         node;
         node = ngx_rbtree_next(&worker->events, node))
    {
        event = (ngx_http_wq_event_t *) node;

        ngx_http_wq_event_report_streams(event);

        if (event->waiting == 0) {
            continue;
        }

        if (event->ticking) {
            wq_counter_add(worker->slot->counters.late_ticks, 1);
            continue;
        }

        ngx_http_wq_broadcaster_begin(event);
    }
}


static void
ngx_http_wq_broadcaster_begin(ngx_http_wq_event_t *event)
{
    event->started_us = ngx_http_wq_clock_us();
    event->from = event->known;
    event->nentries = 0;

    event->ticking = 1;
    ngx_http_wq_event_hold(event);

    if (event->resync) {
        ngx_http_wq_resync_start(event);
        return;
    }

    if (ngx_http_wq_broadcaster_ask(event, event->from.gone) != NGX_OK) {
        /* the line stands still as long as Redis does */
        ngx_http_wq_broadcaster_done(event);
    }
}


static ngx_int_t
ngx_http_wq_broadcaster_ask(ngx_http_wq_event_t *event, uint64_t known)
{
    ngx_http_wq_worker_t    *worker;
    ngx_http_wq_reply_to_t   to;

    worker = event->worker;

    to.handler = ngx_http_wq_broadcaster_handler;
    to.data = event;
    to.operation = NULL;

    return ngx_http_wq_call_positions(worker->links[NGX_HTTP_WQ_COMMANDS],
                                      &event->keys, known, &to);
}


/* the clients may all have gone meanwhile, but the event is held by the tick */

static void
ngx_http_wq_broadcaster_handler(void *data, ngx_http_wq_result_t *result)
{
    ngx_http_wq_event_t *event = data;

    wq_moment_t                     to;
    ngx_http_wq_worker_t           *worker;
    ngx_http_wq_positions_reply_t   reply;

    worker = event->worker;

    if (ngx_http_wq_decode_positions(worker->links[NGX_HTTP_WQ_COMMANDS],
                                     result, &reply)
        != NGX_OK)
    {
        ngx_http_wq_broadcaster_done(event);
        return;
    }

    ngx_http_wq_broadcaster_report(event, &reply);

    if (reply.resync
        || ngx_http_wq_event_lost(event, reply.figures.joined, &reply.epoch)
        || ngx_http_wq_broadcaster_collect(event, &reply) != NGX_OK)
    {
        ngx_http_wq_resync_start(event);
        return;
    }

    event->joined = reply.figures.joined;

    if (reply.more) {
        if (ngx_http_wq_broadcaster_ask(event, (uint64_t) reply.reached)
            != NGX_OK)
        {
            ngx_http_wq_broadcaster_done(event);
        }

        return;
    }

    event->total = reply.figures.waiting;
    event->sweep_total = reply.figures.waiting;
    event->state = reply.state;

    to.promoted = (uint64_t) reply.figures.promoted;
    to.gone = (uint64_t) reply.reached;

    ngx_http_wq_broadcaster_sweep(event, to);
}


static void
ngx_http_wq_broadcaster_report(ngx_http_wq_event_t *event,
    const ngx_http_wq_positions_reply_t *reply)
{
    const ngx_http_wq_figures_t  *figures;

    figures = &reply->figures;

    ngx_http_wq_zone_report(event->worker->conf->zone, &event->id.str,
                            figures);

    ngx_http_wq_pace_learn(event, figures->rate_users, figures->rate_ms,
                           figures->halted, figures->free_slots <= 0);
}


/* NGX_OK, or NGX_ERROR: all ranks must be asked for */

static ngx_int_t
ngx_http_wq_broadcaster_collect(ngx_http_wq_event_t *event,
    const ngx_http_wq_positions_reply_t *reply)
{
    size_t       i, n, size;
    wq_gone_t   *entries;

    n = wq_reply_elements(reply->entries);

    if (event->nentries + n > NGX_HTTP_WQ_BROADCASTER_ENTRIES) {
        return NGX_ERROR;
    }

    if (event->nentries + n > event->allocated) {
        size = ngx_max(2 * event->allocated,
                       event->nentries + NGX_HTTP_WQ_POSITIONS_BATCH);

        /* as many again, for them in order */

        entries = ngx_alloc(2 * size * sizeof(wq_gone_t), event->worker->log);
        if (entries == NULL) {
            return NGX_ERROR;
        }

        if (event->entries) {
            ngx_memcpy(entries, event->entries,
                       event->nentries * sizeof(wq_gone_t));
            ngx_free(event->entries);
        }

        event->entries = entries;
        event->allocated = size;
    }

    for (i = 0; i < n; i++) {

        if (ngx_http_wq_decode_positions_entry(reply, i,
                                    &event->entries[event->nentries + i])
            != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    event->nentries += n;

    return NGX_OK;
}


static void
ngx_http_wq_broadcaster_sweep(ngx_http_wq_event_t *event, wq_moment_t to)
{
    ngx_http_wq_broadcaster_t  *broadcaster;

    broadcaster = &event->worker->broadcaster;

    event->news = event->retell || ngx_http_wq_pace_is_news(event);

    if (to.promoted == event->from.promoted && to.gone == event->from.gone
        && event->state == NGX_HTTP_WQ_EVENT_OPEN && !event->overdue
        && !event->news)
    {
        /* nobody has moved */
        ngx_http_wq_broadcaster_done(event);
        return;
    }

    if (wq_sweep_init(&event->sweep, event->from, to, event->entries,
                      event->nentries, event->entries + event->allocated)
        != WQ_OK)
    {
        ngx_http_wq_resync_start(event);
        return;
    }

    if (event->news || to.promoted != event->from.promoted) {
        /* all move, if anybody is let in */
        event->told = event->pace;
    }

    event->swept = 0;
    event->in_sweep = 1;
    event->overdue = 0;
    event->retell = 0;

    ngx_queue_insert_tail(&broadcaster->sweeps, &event->sweeping);

    if (!broadcaster->slice.posted) {
        ngx_post_event(&broadcaster->slice, &ngx_posted_next_events);
    }
}


static void
ngx_http_wq_broadcaster_slice(ngx_event_t *ev)
{
    ngx_uint_t                  n;
    ngx_queue_t                *q;
    ngx_http_wq_event_t        *event;
    ngx_http_wq_worker_t       *worker;
    ngx_http_wq_broadcaster_t  *broadcaster;

    worker = ngx_http_wq_timer_data(ev);
    broadcaster = &worker->broadcaster;
    n = NGX_HTTP_WQ_BROADCASTER_SLICE;

    while (n > 0 && !ngx_queue_empty(&broadcaster->sweeps)) {
        q = ngx_queue_head(&broadcaster->sweeps);
        event = ngx_queue_data(q, ngx_http_wq_event_t, sweeping);

        n = ngx_http_wq_broadcaster_clients(event, n);

        if (n > 0) {
            ngx_queue_remove(&event->sweeping);
            event->in_sweep = 0;
            event->known = event->sweep.to;

            ngx_http_wq_broadcaster_done(event);
        }
    }

    if (!ngx_queue_empty(&broadcaster->sweeps)) {
        ngx_post_event(&broadcaster->slice, &ngx_posted_next_events);
    }
}


/*
 * At most n clients, from where the last slice has stopped: how many are left
 * of n, 0 if there may be more clients.  Others may have come or gone since;
 * the idx is what is remembered.
 */

static ngx_uint_t
ngx_http_wq_broadcaster_clients(ngx_http_wq_event_t *event, ngx_uint_t n)
{
    ngx_rbtree_node_t     *node;
    ngx_http_wq_client_t  *client;

    client = ngx_http_wq_line_after(event, event->swept);

    while (client && n > 0) {
        event->swept = client->idx;
        n--;

        node = ngx_rbtree_next(&event->line, &client->by_idx);

        ngx_http_wq_broadcaster_client(client);

        client = node ? ngx_http_wq_line_client(node) : NULL;
    }

    return n;
}


static void
ngx_http_wq_broadcaster_client(ngx_http_wq_client_t *client)
{
    uint64_t              rank;
    ngx_http_wq_event_t  *event;

    event = client->event;

    switch (event->state) {

    case NGX_HTTP_WQ_EVENT_CLOSED:
        ngx_http_wq_client_dismiss(client, WQ_SSE_CLOSED);
        return;

    case NGX_HTTP_WQ_EVENT_SOLD_OUT:
        ngx_http_wq_client_dismiss(client, WQ_SSE_SOLD_OUT);
        return;

    default:
        break;
    }

    rank = client->rank;

    if (wq_sweep_rank(&event->sweep, client->idx, &client->rank,
                      &client->moment)
        != WQ_OK)
    {
        ngx_http_wq_broadcaster_overdue(client);
        return;
    }

    if (client->rank != rank
        || (event->news
            && client->eta != ngx_http_wq_pace_eta(event, client->rank)))
    {
        /* not that of the event: somebody may have joined since */
        client->total = event->sweep_total;
        ngx_http_wq_client_ops.position(client);
    }
}


/*
 * More were let in than stood in front: this one is among them, and the message
 * is on its way.  That is so after every other promotion, and no reason to ask
 * for all ranks; if the message does not come there is one.
 */

static void
ngx_http_wq_broadcaster_overdue(ngx_http_wq_client_t *client)
{
    client->event->overdue = 1;

    if (!client->overdue) {
        client->overdue = 1;
        client->missed = ngx_current_msec;
        return;
    }

    if (ngx_current_msec - client->missed >= NGX_HTTP_WQ_BROADCASTER_OVERDUE) {
        client->event->resync = 1;
    }
}


void
ngx_http_wq_broadcaster_done(ngx_http_wq_event_t *event)
{
    uint64_t               us;
    ngx_http_wq_worker_t  *worker;

    worker = event->worker;
    us = ngx_http_wq_clock_us() - event->started_us;

    wq_counter_add(worker->slot->counters.broadcasts, 1);
    wq_counter_add(worker->slot->counters.broadcast_us, us);
    wq_counter_set(worker->slot->gauges.broadcast_last_us, us);

    event->ticking = 0;
    ngx_http_wq_event_release(event);
}
