
/*
 * queue: the events of this node, in the zone.
 *
 * What Redis has said of an event, how many streams each process has open for
 * it, who asks for its capacity, and how many have passed while Redis is away.
 * Nothing here is the truth: an entry that is lost, for want of room or with
 * the zone, comes back with the next report.  Only one whose ration would be
 * full again by that is not given up.
 */


#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_http_wq_zone_internal.h"


/* an event that nobody has used for so long is forgotten */
#define NGX_HTTP_WQ_EVENT_KEEP      (10 * 60 * 1000)

/* at most so many are looked at to make room for another */
#define NGX_HTTP_WQ_EVENT_LOOK      16

/* a report that says less than the one before is believed after so long */
#define NGX_HTTP_WQ_REPORT_STALE    2000

#define NGX_HTTP_WQ_ASK_MIN         1000
#define NGX_HTTP_WQ_ASK_MAX         30000


static void ngx_http_wq_zone_look(ngx_http_wq_zone_event_t *event);
static ngx_http_wq_zone_event_t *ngx_http_wq_zone_event_get(
    ngx_http_wq_zone_t *zone, const ngx_str_t *id);
static ngx_http_wq_zone_event_t *ngx_http_wq_zone_event_find(
    ngx_http_wq_events_t *events, uint32_t hash, const ngx_str_t *id);
static void ngx_http_wq_zone_event_insert(ngx_rbtree_node_t *temp,
    ngx_rbtree_node_t *node, ngx_rbtree_node_t *sentinel);
static void ngx_http_wq_zone_event_remove(ngx_http_wq_zone_t *zone,
    ngx_http_wq_zone_event_t *event);
static ngx_int_t ngx_http_wq_zone_event_evict(ngx_http_wq_zone_t *zone);
static void ngx_http_wq_zone_event_use(ngx_http_wq_events_t *events,
    ngx_http_wq_zone_event_t *event);
static void ngx_http_wq_zone_event_set_streams(ngx_http_wq_events_t *events,
    ngx_http_wq_zone_event_t *event, ngx_uint_t slot, uint32_t streams);
static ngx_uint_t ngx_http_wq_zone_event_kept(ngx_http_wq_events_t *events,
    ngx_http_wq_zone_event_t *event);
static ngx_uint_t ngx_http_wq_zone_event_asked(
    ngx_http_wq_zone_event_t *event);
static ngx_uint_t ngx_http_wq_zone_event_rationed(
    ngx_http_wq_zone_event_t *event);


/* users let in; neither is negative, so that the sum fits */

#define ngx_http_wq_figures_entered(figures)                                  \
    ((uint64_t) (figures)->direct + (uint64_t) (figures)->promoted)

#define ngx_http_wq_id_valid(id)                                              \
    ((id)->len > 0 && (id)->len <= WQ_ID_MAX)


void
ngx_http_wq_zone_events_init(ngx_http_wq_events_t *events)
{
    ngx_rbtree_init(&events->rbtree, &events->sentinel,
                    ngx_http_wq_zone_event_insert);
    ngx_queue_init(&events->idle);
}


void
ngx_http_wq_zone_report(ngx_http_wq_zone_t *zone, const ngx_str_t *event,
    const ngx_http_wq_figures_t *figures)
{
    uint64_t                   entered;
    ngx_http_wq_zone_event_t  *e;

    entered = ngx_http_wq_figures_entered(figures);

    ngx_shmtx_lock(&zone->shpool->mutex);

    if (figures->hold_ms) {
        /* what was known before is what can be put back */

        e = ngx_http_wq_zone_event_find(&zone->shared->events,
                                        ngx_crc32_short(event->data,
                                                        event->len), event);

        if (e && figures->origin == zone->shared->origin
            && figures->sold >= e->held_sold)
        {
            e->held_sold = figures->sold;
            e->held_seats = figures->seats;
        }

        goto done;
    }

    e = ngx_http_wq_zone_event_get(zone, event);

    if (e == NULL) {
        goto done;
    }

    if (e->known
        && (entered < ngx_http_wq_figures_entered(&e->figures)
            || figures->joined < e->figures.joined
            || figures->sold < e->figures.sold))
    {

        /*
         * Either another process has asked Redis later and reported sooner,
         * or Redis has lost data.  The latter is still so in a while.
         */

        if ((ngx_msec_int_t) (ngx_current_msec - e->reported)
            < NGX_HTTP_WQ_REPORT_STALE)
        {
            goto done;
        }
    }

    e->figures = *figures;
    e->reported = ngx_current_msec;
    e->known = 1;

    ngx_http_wq_zone_look(e);
    ngx_http_wq_zone_event_use(&zone->shared->events, e);

done:

    ngx_shmtx_unlock(&zone->shpool->mutex);
}


void
ngx_http_wq_zone_events_lost(ngx_http_wq_events_t *events)
{
    ngx_rbtree_node_t         *node;
    ngx_http_wq_zone_event_t  *e;

    if (events->rbtree.root == &events->sentinel) {
        return;
    }

    for (node = ngx_rbtree_min(events->rbtree.root, &events->sentinel);
         node;
         node = ngx_rbtree_next(&events->rbtree, node))
    {
        e = (ngx_http_wq_zone_event_t *) node;

        if (e->held_sold > e->figures.sold) {
            e->figures.sold = e->held_sold;
            e->figures.seats = e->held_seats;
        }

        e->held_sold = 0;
    }
}


/* by what was reported; one that has fallen begins anew */

static void
ngx_http_wq_zone_look(ngx_http_wq_zone_event_t *event)
{
    int64_t                 gave_up;
    wq_look_t               look;
    ngx_http_wq_figures_t  *figures;

    figures = &event->figures;

    wq_throughput_look(&event->throughput, ngx_current_msec,
                       ngx_http_wq_figures_entered(figures));

    /* who came to the line, and neither is in it nor was let in from it */
    gave_up = figures->joined - figures->direct - figures->promoted
              - figures->waiting;

    look.promoted = figures->promoted;
    look.gave_up = ngx_max(gave_up, 0);
    look.waiting = figures->waiting;

    /* as long as free slots are being filled it is faster than it will be */
    look.halted = (figures->halted || figures->free_slots > 0);

    wq_flow_look(&event->flow, ngx_current_msec, &look);
}


void
ngx_http_wq_zone_speed(ngx_http_wq_zone_t *zone, const ngx_str_t *event,
    wq_speed_t *speed)
{
    uint32_t                   hash;
    ngx_http_wq_zone_event_t  *e;

    ngx_memzero(speed, sizeof(wq_speed_t));

    hash = ngx_crc32_short(event->data, event->len);

    ngx_shmtx_lock(&zone->shpool->mutex);

    e = ngx_http_wq_zone_event_find(&zone->shared->events, hash, event);

    if (e) {
        wq_flow_speed(&e->flow, ngx_current_msec, speed);
    }

    ngx_shmtx_unlock(&zone->shpool->mutex);
}


void
ngx_http_wq_zone_report_streams(ngx_http_wq_zone_t *zone,
    ngx_http_wq_slot_t *slot, const ngx_str_t *event, ngx_uint_t streams)
{
    uint32_t                   hash;
    ngx_http_wq_events_t      *events;
    ngx_http_wq_zone_event_t  *e;

    if (slot->pid == 0) {
        /* a private slot: there is no place to count in */
        return;
    }

    events = &zone->shared->events;

    ngx_shmtx_lock(&zone->shpool->mutex);

    if (streams) {
        e = ngx_http_wq_zone_event_get(zone, event);

    } else {
        hash = ngx_crc32_short(event->data, event->len);
        e = ngx_http_wq_zone_event_find(events, hash, event);
    }

    if (e) {
        ngx_http_wq_zone_event_set_streams(events, e,
                                       slot - zone->shared->processes.slots,
                                       (uint32_t) ngx_min(streams, 0xffffffff));
    }

    ngx_shmtx_unlock(&zone->shpool->mutex);
}


ngx_http_wq_ask_e
ngx_http_wq_zone_ask_begin(ngx_http_wq_zone_t *zone, const ngx_str_t *event,
    ngx_msec_t looked, ngx_msec_t timeout)
{
    ngx_msec_int_t             left;
    ngx_http_wq_ask_e          rc;
    ngx_http_wq_zone_event_t  *e;

    rc = NGX_HTTP_WQ_ASK_YOU;

    ngx_shmtx_lock(&zone->shpool->mutex);

    e = ngx_http_wq_zone_event_get(zone, event);

    if (e == NULL) {
        goto done;
    }

    /* not to be forgotten with its backoff while it is asked for in vain */
    ngx_http_wq_zone_event_use(&zone->shared->events, e);

    if (ngx_http_wq_zone_event_asked(e)) {
        rc = NGX_HTTP_WQ_ASK_OTHER;
        goto done;
    }

    if (e->told && (ngx_msec_int_t) (e->answered - looked) >= 0) {
        rc = NGX_HTTP_WQ_ASK_REDIS;
        goto done;
    }

    left = (ngx_msec_int_t) (e->ask_after - ngx_current_msec);

    if (e->backoff.last_ms && left > 0) {
        rc = NGX_HTTP_WQ_ASK_LATER;
        goto done;
    }

    e->ask_until = ngx_current_msec + timeout;
    e->asking = ngx_pid;

done:

    ngx_shmtx_unlock(&zone->shpool->mutex);

    return rc;
}


void
ngx_http_wq_zone_ask_end(ngx_http_wq_zone_t *zone, const ngx_str_t *event,
    ngx_int_t rc)
{
    uint32_t                   hash;
    ngx_http_wq_zone_event_t  *e;

    hash = ngx_crc32_short(event->data, event->len);

    if (rc == NGX_OK) {

        /*
         * Others compare it with when they have asked Redis: it must not be of
         * the beginning of this turn of the event loop, but of now.
         */

        ngx_time_update();
    }

    ngx_shmtx_lock(&zone->shpool->mutex);

    e = ngx_http_wq_zone_event_find(&zone->shared->events, hash, event);

    if (e == NULL) {
        goto done;
    }

    /* a success counts whoever had it, a failure only if we are still asking */

    if (rc == NGX_OK) {
        wq_backoff_reset(&e->backoff);
        e->answered = ngx_current_msec;
        e->told = 1;

    } else if (rc == NGX_ERROR && e->asking == ngx_pid) {
        e->ask_after = ngx_current_msec
                       + wq_backoff_next(&e->backoff,
                                         (uint32_t) ngx_random() << 1);
    }

    if (e->asking == ngx_pid) {
        e->asking = 0;
    }

done:

    ngx_shmtx_unlock(&zone->shpool->mutex);
}


ngx_int_t
ngx_http_wq_zone_ration(ngx_http_wq_zone_t *zone, const ngx_str_t *event,
    const wq_rate_t *rate)
{
    ngx_int_t                  rc;
    ngx_msec_t                 until;
    ngx_http_wq_zone_event_t  *e;

    rc = NGX_DECLINED;

    ngx_shmtx_lock(&zone->shpool->mutex);

    e = ngx_http_wq_zone_event_get(zone, event);

    if (e == NULL || wq_bucket_take(&e->ration, rate, ngx_current_msec)
                     != WQ_OK)
    {
        goto done;
    }

    rc = NGX_OK;

    /* whatever has passed, after one period without another it is full again */

    until = ngx_current_msec + rate->period_ms;

    if (!e->rationed || (ngx_msec_int_t) (until - e->ration_until) > 0) {
        e->ration_until = until;
        e->rationed = 1;
    }

    ngx_http_wq_zone_event_use(&zone->shared->events, e);

done:

    ngx_shmtx_unlock(&zone->shpool->mutex);

    return rc;
}


/* the entry of an event, made if need be; NULL if there is no room */

static ngx_http_wq_zone_event_t *
ngx_http_wq_zone_event_get(ngx_http_wq_zone_t *zone, const ngx_str_t *id)
{
    uint32_t                   hash;
    ngx_http_wq_events_t      *events;
    ngx_http_wq_zone_event_t  *event;

    if (!ngx_http_wq_id_valid(id)) {
        return NULL;
    }

    events = &zone->shared->events;
    hash = ngx_crc32_short(id->data, id->len);

    event = ngx_http_wq_zone_event_find(events, hash, id);

    if (event) {
        return event;
    }

    /* two out for each one in: what is quiet goes away without a walk */

    ngx_http_wq_zone_events_expire(zone, 2);

    event = ngx_slab_calloc_locked(zone->shpool,
                                   sizeof(ngx_http_wq_zone_event_t));

    if (event == NULL && ngx_http_wq_zone_event_evict(zone) == NGX_OK) {
        event = ngx_slab_calloc_locked(zone->shpool,
                                       sizeof(ngx_http_wq_zone_event_t));
    }

    if (event == NULL) {
        return NULL;
    }

    event->node.key = hash;
    event->id_len = (u_char) id->len;
    ngx_memcpy(event->id, id->data, id->len);

    wq_backoff_init(&event->backoff, NGX_HTTP_WQ_ASK_MIN, NGX_HTTP_WQ_ASK_MAX);

    event->used = ngx_current_msec;
    event->idle = 1;

    ngx_rbtree_insert(&events->rbtree, &event->node);
    ngx_queue_insert_head(&events->idle, &event->queue);
    events->count++;

    return event;
}


static ngx_http_wq_zone_event_t *
ngx_http_wq_zone_event_find(ngx_http_wq_events_t *events, uint32_t hash,
    const ngx_str_t *id)
{
    ngx_int_t                  rc;
    ngx_rbtree_node_t         *node, *sentinel;
    ngx_http_wq_zone_event_t  *event;

    node = events->rbtree.root;
    sentinel = events->rbtree.sentinel;

    while (node != sentinel) {

        if (hash != node->key) {
            node = (hash < node->key) ? node->left : node->right;
            continue;
        }

        event = (ngx_http_wq_zone_event_t *) node;

        rc = ngx_memn2cmp(id->data, event->id, id->len, event->id_len);

        if (rc == 0) {
            return event;
        }

        node = (rc < 0) ? node->left : node->right;
    }

    return NULL;
}


static void
ngx_http_wq_zone_event_insert(ngx_rbtree_node_t *temp, ngx_rbtree_node_t *node,
    ngx_rbtree_node_t *sentinel)
{
    ngx_rbtree_node_t         **p;
    ngx_http_wq_zone_event_t   *event, *other;

    event = (ngx_http_wq_zone_event_t *) node;

    for ( ;; ) {

        if (node->key != temp->key) {
            p = (node->key < temp->key) ? &temp->left : &temp->right;

        } else {
            other = (ngx_http_wq_zone_event_t *) temp;
            p = (ngx_memn2cmp(event->id, other->id, event->id_len,
                              other->id_len) < 0)
                ? &temp->left : &temp->right;
        }

        if (*p == sentinel) {
            break;
        }

        temp = *p;
    }

    *p = node;
    node->parent = temp;
    node->left = sentinel;
    node->right = sentinel;
    ngx_rbt_red(node);
}


/* of an idle one */

static void
ngx_http_wq_zone_event_remove(ngx_http_wq_zone_t *zone,
    ngx_http_wq_zone_event_t *event)
{
    ngx_http_wq_events_t  *events;

    events = &zone->shared->events;

    ngx_queue_remove(&event->queue);
    ngx_rbtree_delete(&events->rbtree, &event->node);
    events->count--;

    ngx_slab_free_locked(zone->shpool, event);
}


/*
 * Removes the one longest unused.  One whose capacity is asked for stays, and
 * has been used just now: there are few of them among the last; and so does one
 * whose ration is not full again.
 */

static ngx_int_t
ngx_http_wq_zone_event_evict(ngx_http_wq_zone_t *zone)
{
    ngx_uint_t                 i;
    ngx_queue_t               *q, *prev;
    ngx_http_wq_events_t      *events;
    ngx_http_wq_zone_event_t  *event;

    events = &zone->shared->events;
    q = ngx_queue_last(&events->idle);

    for (i = 0; i < NGX_HTTP_WQ_EVENT_LOOK; i++) {

        if (q == ngx_queue_sentinel(&events->idle)) {
            break;
        }

        prev = ngx_queue_prev(q);

        event = ngx_queue_data(q, ngx_http_wq_zone_event_t, queue);

        if (!ngx_http_wq_zone_event_kept(events, event)) {
            ngx_http_wq_zone_event_remove(zone, event);
            return NGX_OK;
        }

        q = prev;
    }

    return NGX_DECLINED;
}


void
ngx_http_wq_zone_events_expire(ngx_http_wq_zone_t *zone, ngx_uint_t n)
{
    ngx_queue_t               *q, *prev;
    ngx_msec_int_t             unused;
    ngx_http_wq_events_t      *events;
    ngx_http_wq_zone_event_t  *event;

    events = &zone->shared->events;

    for (q = ngx_queue_last(&events->idle);
         n > 0 && q != ngx_queue_sentinel(&events->idle);
         q = prev, n--)
    {
        prev = ngx_queue_prev(q);

        event = ngx_queue_data(q, ngx_http_wq_zone_event_t, queue);

        unused = (ngx_msec_int_t) (ngx_current_msec - event->used);

        if (unused < NGX_HTTP_WQ_EVENT_KEEP) {
            return;
        }

        if (!ngx_http_wq_zone_event_kept(events, event)) {
            ngx_http_wq_zone_event_remove(zone, event);
        }
    }
}


static void
ngx_http_wq_zone_event_use(ngx_http_wq_events_t *events,
    ngx_http_wq_zone_event_t *event)
{
    event->used = ngx_current_msec;

    if (event->idle) {
        ngx_queue_remove(&event->queue);
        ngx_queue_insert_head(&events->idle, &event->queue);
    }
}


/*
 * The sum is always made anew: one that was kept would be wrong for ever if a
 * process were killed in the middle of this.
 */

static void
ngx_http_wq_zone_event_set_streams(ngx_http_wq_events_t *events,
    ngx_http_wq_zone_event_t *event, ngx_uint_t slot, uint32_t streams)
{
    ngx_uint_t  idle;

    event->streams[slot] = streams;

    idle = (ngx_http_wq_zone_event_streams(event) == 0);

    if (idle == event->idle) {
        return;
    }

    event->idle = idle;

    if (idle) {
        event->used = ngx_current_msec;
        ngx_queue_insert_head(&events->idle, &event->queue);

    } else {
        ngx_queue_remove(&event->queue);
    }
}


uint64_t
ngx_http_wq_zone_event_streams(ngx_http_wq_zone_event_t *event)
{
    uint64_t    sum;
    ngx_uint_t  i;

    sum = 0;

    for (i = 0; i < NGX_HTTP_WQ_ZONE_SLOTS; i++) {
        sum += event->streams[i];
    }

    return sum;
}


void
ngx_http_wq_zone_events_bury(ngx_http_wq_events_t *events, ngx_uint_t slot)
{
    ngx_rbtree_node_t         *node;
    ngx_http_wq_zone_event_t  *event;

    if (events->rbtree.root == &events->sentinel) {
        return;
    }

    for (node = ngx_rbtree_min(events->rbtree.root, &events->sentinel);
         node;
         node = ngx_rbtree_next(&events->rbtree, node))
    {
        event = (ngx_http_wq_zone_event_t *) node;

        if (event->streams[slot]) {
            ngx_http_wq_zone_event_set_streams(events, event, slot, 0);
        }
    }
}


/*
 * An idle one that must stay.  One with a ration may have to for long, and goes
 * to the head, so that those behind it are found.
 */

static ngx_uint_t
ngx_http_wq_zone_event_kept(ngx_http_wq_events_t *events,
    ngx_http_wq_zone_event_t *event)
{
    if (ngx_http_wq_zone_event_rationed(event)) {
        ngx_http_wq_zone_event_use(events, event);
        return 1;
    }

    return ngx_http_wq_zone_event_asked(event);
}


static ngx_uint_t
ngx_http_wq_zone_event_rationed(ngx_http_wq_zone_event_t *event)
{
    if (event->rationed
        && (ngx_msec_int_t) (event->ration_until - ngx_current_msec) <= 0)
    {
        event->rationed = 0;
    }

    return event->rationed;
}


/* a claim ends with its time, and with its process */

static ngx_uint_t
ngx_http_wq_zone_event_asked(ngx_http_wq_zone_event_t *event)
{
    if (event->asking == 0
        || (ngx_msec_int_t) (event->ask_until - ngx_current_msec) <= 0)
    {
        return 0;
    }

    return event->asking == ngx_pid
           || kill(event->asking, 0) == 0 || ngx_errno != NGX_ESRCH;
}
