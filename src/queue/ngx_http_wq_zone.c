
/* queue: what the processes of one nginx share: the zone and its slots */


#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_http_wq_zone_internal.h"


static ngx_int_t ngx_http_wq_zone_init(ngx_shm_zone_t *shm_zone, void *data);
static void ngx_http_wq_zone_bury(ngx_http_wq_shared_t *shared,
    ngx_http_wq_slot_t *slot);


static const char  *ngx_http_wq_link_class_names[] = {
    "commands",
    "reader",
    "router"
};


const char *
ngx_http_wq_link_class_name(ngx_uint_t link)
{
    return ngx_http_wq_link_class_names[link];
}


ngx_http_wq_zone_t *
ngx_http_wq_zone_add(ngx_conf_t *cf, size_t size, void *tag)
{
    ngx_str_t            name;
    ngx_shm_zone_t      *shm_zone;
    ngx_http_wq_zone_t  *zone;

    zone = ngx_pcalloc(cf->pool, sizeof(ngx_http_wq_zone_t));
    if (zone == NULL) {
        return NULL;
    }

    ngx_str_set(&name, "waiting_queue");

    shm_zone = ngx_shared_memory_add(cf, &name, size, tag);
    if (shm_zone == NULL) {
        return NULL;
    }

    shm_zone->init = ngx_http_wq_zone_init;
    shm_zone->data = zone;

    return zone;
}


static ngx_int_t
ngx_http_wq_zone_init(ngx_shm_zone_t *shm_zone, void *data)
{
    ngx_http_wq_zone_t *ozone = data;

    size_t               len;
    ngx_http_wq_zone_t  *zone;

    zone = shm_zone->data;

    if (ozone) {
        zone->shared = ozone->shared;
        zone->shpool = ozone->shpool;
        return NGX_OK;
    }

    zone->shpool = (ngx_slab_pool_t *) shm_zone->shm.addr;

    if (shm_zone->shm.exists) {
        zone->shared = zone->shpool->data;
        return NGX_OK;
    }

    zone->shared = ngx_slab_calloc(zone->shpool, sizeof(ngx_http_wq_shared_t));
    if (zone->shared == NULL) {
        return NGX_ERROR;
    }

    ngx_http_wq_zone_events_init(&zone->shared->events);
    ngx_http_wq_zone_endings_init(&zone->shared->endings);
    ngx_http_wq_zone_tokens_init(&zone->shared->tokens,
                                 zone->shpool->pfree * ngx_pagesize);

    zone->shpool->data = zone->shared;

    len = sizeof(" in waiting_queue zone \"\"") + shm_zone->shm.name.len;

    zone->shpool->log_ctx = ngx_slab_alloc(zone->shpool, len);
    if (zone->shpool->log_ctx == NULL) {
        return NGX_ERROR;
    }

    ngx_sprintf(zone->shpool->log_ctx, " in waiting_queue zone \"%V\"%Z",
                &shm_zone->shm.name);

    zone->shpool->log_nomem = 0;

    return NGX_OK;
}


int64_t
ngx_http_wq_zone_origin(ngx_http_wq_zone_t *zone)
{
    int64_t  origin;

    ngx_shmtx_lock(&zone->shpool->mutex);

    origin = zone->shared->origin;

    ngx_shmtx_unlock(&zone->shpool->mutex);

    return origin;
}


ngx_uint_t
ngx_http_wq_zone_set_origin(ngx_http_wq_zone_t *zone, int64_t origin)
{
    int64_t  before;

    ngx_shmtx_lock(&zone->shpool->mutex);

    before = zone->shared->origin;
    zone->shared->origin = origin;

    if (before != origin) {
        ngx_http_wq_zone_events_lost(&zone->shared->events);
    }

    ngx_shmtx_unlock(&zone->shpool->mutex);

    return before && before != origin;
}


ngx_http_wq_slot_t *
ngx_http_wq_zone_claim(ngx_http_wq_zone_t *zone, const ngx_str_t *instance,
    ngx_log_t *log)
{
    ngx_uint_t           i;
    ngx_http_wq_slot_t  *slot;

    ngx_shmtx_lock(&zone->shpool->mutex);

    ngx_http_wq_zone_bury_dead(zone->shared);
    ngx_http_wq_zone_endings_bury(&zone->shared->endings, 0);

    for (i = 0; i < NGX_HTTP_WQ_ZONE_SLOTS; i++) {
        slot = &zone->shared->processes.slots[i];

        if (slot->pid == ngx_pid) {
            /* of a dead process whose number we have got */
            ngx_http_wq_zone_bury(zone->shared, slot);
        }

        if (slot->pid == 0) {
            break;
        }
    }

    if (i < NGX_HTTP_WQ_ZONE_SLOTS) {
        slot = &zone->shared->processes.slots[i];
        ngx_memzero(slot, sizeof(ngx_http_wq_slot_t));

        slot->worker = ngx_worker;
        slot->instance_len = ngx_min(instance->len, WQ_ID_MAX);
        ngx_memcpy(slot->instance, instance->data, slot->instance_len);

        /* last: this is what makes it a slot in use */
        slot->pid = ngx_pid;

    } else {
        slot = NULL;
    }

    ngx_shmtx_unlock(&zone->shpool->mutex);

    if (slot) {
        return slot;
    }

    ngx_log_error(NGX_LOG_WARN, log, 0,
                  "waiting_queue: more than %d processes share one zone, "
                  "the status does not show this one",
                  NGX_HTTP_WQ_ZONE_SLOTS);

    return ngx_calloc(sizeof(ngx_http_wq_slot_t), log);
}


void
ngx_http_wq_zone_release(ngx_http_wq_zone_t *zone, ngx_http_wq_slot_t *slot)
{
    if (slot->pid == 0) {
        /* a private one */
        ngx_free(slot);
        return;
    }

    ngx_shmtx_lock(&zone->shpool->mutex);

    ngx_http_wq_zone_bury(zone->shared, slot);

    ngx_shmtx_unlock(&zone->shpool->mutex);
}


void
ngx_http_wq_zone_bury_dead(ngx_http_wq_shared_t *shared)
{
    ngx_uint_t           i;
    ngx_http_wq_slot_t  *slot;

    for (i = 0; i < NGX_HTTP_WQ_ZONE_SLOTS; i++) {
        slot = &shared->processes.slots[i];

        if (slot->pid && slot->pid != ngx_pid
            && kill(slot->pid, 0) == -1 && ngx_errno == NGX_ESRCH)
        {
            ngx_http_wq_zone_bury(shared, slot);
        }
    }
}


static void
ngx_http_wq_zone_bury(ngx_http_wq_shared_t *shared, ngx_http_wq_slot_t *slot)
{
    ngx_uint_t  worker;

    /* first, as it may be done twice, should we be killed in between */
    ngx_http_wq_zone_events_bury(&shared->events,
                                 slot - shared->processes.slots);

    worker = ngx_min(slot->worker, NGX_HTTP_WQ_ZONE_SLOTS - 1);

    ngx_http_wq_zone_add_totals(&shared->processes.gone[worker], slot);

    slot->pid = 0;
}


void
ngx_http_wq_zone_add_totals(ngx_http_wq_totals_t *totals,
    ngx_http_wq_slot_t *slot)
{
    ngx_uint_t  i;

    for (i = 0; i < NGX_HTTP_WQ_LINKS; i++) {
        wq_counters_sum(&totals->links[i], &slot->links[i].counters,
                        sizeof(wq_link_counters_t));
    }

    wq_counters_sum(&totals->process, &slot->counters,
                    sizeof(wq_process_counters_t));
}
