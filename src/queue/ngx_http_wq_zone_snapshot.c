
/*
 * queue: a copy of the zone, for the status.
 *
 * Memory is taken and the copy is put in order outside the lock: workers wait
 * for no longer than the copying takes.
 */


#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_http_wq_zone_internal.h"


/* events that may come while room is made for those that are there */
#define NGX_HTTP_WQ_SNAPSHOT_SPARE  16


static ngx_int_t ngx_http_wq_zone_events_snapshot(ngx_http_wq_zone_t *zone,
    ngx_pool_t *pool, ngx_http_wq_snapshot_t *snapshot);
static ngx_uint_t ngx_http_wq_zone_events_copy(ngx_http_wq_events_t *events,
    ngx_http_wq_event_row_t *rows, ngx_uint_t n);
static int64_t ngx_http_wq_zone_event_eta(ngx_http_wq_zone_event_t *event);
static int ngx_libc_cdecl ngx_http_wq_zone_events_compare(const void *one,
    const void *two);


ngx_int_t
ngx_http_wq_zone_snapshot(ngx_http_wq_zone_t *zone, ngx_pool_t *pool,
    ngx_http_wq_snapshot_t *snapshot)
{
    ngx_uint_t                i, worker;
    ngx_http_wq_slot_t       *slot;
    ngx_http_wq_processes_t  *copy;

    copy = ngx_palloc(pool, sizeof(ngx_http_wq_processes_t));
    if (copy == NULL) {
        return NGX_ERROR;
    }

    ngx_shmtx_lock(&zone->shpool->mutex);

    ngx_http_wq_zone_bury_dead(zone->shared);
    ngx_memcpy(copy, &zone->shared->processes,
               sizeof(ngx_http_wq_processes_t));

    ngx_shmtx_unlock(&zone->shpool->mutex);

    snapshot->slots = copy->slots;
    snapshot->nslots = 0;
    snapshot->workers = copy->gone;
    snapshot->nworkers = 0;

    for (i = 0; i < NGX_HTTP_WQ_ZONE_SLOTS; i++) {
        slot = &copy->slots[i];

        if (slot->pid == 0) {
            continue;
        }

        worker = ngx_min(slot->worker, NGX_HTTP_WQ_ZONE_SLOTS - 1);
        ngx_http_wq_zone_add_totals(&copy->gone[worker], slot);

        if (i != snapshot->nslots) {
            copy->slots[snapshot->nslots] = *slot;
        }

        snapshot->nslots++;
    }

    /* worker numbers are dense: up to the last that ever sent anything */

    for (i = 0; i < NGX_HTTP_WQ_ZONE_SLOTS; i++) {
        if (copy->gone[i].links[NGX_HTTP_WQ_COMMANDS].connects
            || copy->gone[i].links[NGX_HTTP_WQ_COMMANDS].connect_failures)
        {
            snapshot->nworkers = i + 1;
        }
    }

    return ngx_http_wq_zone_events_snapshot(zone, pool, snapshot);
}


static ngx_int_t
ngx_http_wq_zone_events_snapshot(ngx_http_wq_zone_t *zone, ngx_pool_t *pool,
    ngx_http_wq_snapshot_t *snapshot)
{
    ngx_uint_t             n;
    ngx_http_wq_events_t  *events;

    events = &zone->shared->events;

    snapshot->events = NULL;
    snapshot->nevents = 0;

    ngx_shmtx_lock(&zone->shpool->mutex);

    ngx_http_wq_zone_events_expire(zone, events->count);
    n = events->count;

    snapshot->tokens = zone->shared->tokens.count;
    snapshot->tokens_max = zone->shared->tokens.max;
    snapshot->tokens_evicted = zone->shared->tokens.evicted;
    snapshot->endings = zone->shared->endings.count;

    ngx_shmtx_unlock(&zone->shpool->mutex);

    if (n == 0) {
        return NGX_OK;
    }

    n += NGX_HTTP_WQ_SNAPSHOT_SPARE;

    snapshot->events = ngx_palloc(pool, n * sizeof(ngx_http_wq_event_row_t));
    if (snapshot->events == NULL) {
        return NGX_ERROR;
    }

    ngx_shmtx_lock(&zone->shpool->mutex);

    snapshot->nevents = ngx_http_wq_zone_events_copy(events, snapshot->events,
                                                     n);

    ngx_shmtx_unlock(&zone->shpool->mutex);

    ngx_qsort(snapshot->events, snapshot->nevents,
              sizeof(ngx_http_wq_event_row_t),
              ngx_http_wq_zone_events_compare);

    return NGX_OK;
}


/* at most n; those that nobody has reported yet are not among them */

static ngx_uint_t
ngx_http_wq_zone_events_copy(ngx_http_wq_events_t *events,
    ngx_http_wq_event_row_t *rows, ngx_uint_t n)
{
    ngx_uint_t                 i;
    ngx_msec_int_t             age;
    ngx_rbtree_node_t         *node;
    ngx_http_wq_event_row_t   *row;
    ngx_http_wq_zone_event_t  *event;

    if (events->rbtree.root == &events->sentinel) {
        return 0;
    }

    i = 0;

    for (node = ngx_rbtree_min(events->rbtree.root, &events->sentinel);
         node && i < n;
         node = ngx_rbtree_next(&events->rbtree, node))
    {
        event = (ngx_http_wq_zone_event_t *) node;

        if (!event->known) {
            continue;
        }

        row = &rows[i++];

        row->id_len = event->id_len;
        ngx_memcpy(row->id, event->id, event->id_len);

        row->figures = event->figures;
        row->eta = ngx_http_wq_zone_event_eta(event);
        row->streams = ngx_http_wq_zone_event_streams(event);
        row->per_minute = wq_throughput_per_minute(&event->throughput,
                                                   ngx_current_msec);

        age = (ngx_msec_int_t) (ngx_current_msec - event->reported);
        row->age = ngx_max(age, 0);
    }

    return i;
}


/* of whoever comes now */

static int64_t
ngx_http_wq_zone_event_eta(ngx_http_wq_zone_event_t *event)
{
    wq_pace_t               pace;
    ngx_http_wq_figures_t  *figures;

    figures = &event->figures;

    ngx_memzero(&pace, sizeof(wq_pace_t));

    pace.rate.users = (uint32_t) figures->rate_users;
    pace.rate.period_ms = (uint32_t) figures->rate_ms;
    pace.halted = (figures->halted != 0);
    pace.crowded = (figures->free_slots <= 0);

    wq_flow_speed(&event->flow, ngx_current_msec, &pace.speed);

    return wq_eta(&pace, (uint64_t) figures->waiting + 1);
}


static int ngx_libc_cdecl
ngx_http_wq_zone_events_compare(const void *one, const void *two)
{
    const ngx_http_wq_event_row_t *first = one;
    const ngx_http_wq_event_row_t *second = two;

    return (int) ngx_memn2cmp((u_char *) first->id, (u_char *) second->id,
                              first->id_len, second->id_len);
}
