
/*
 * queue: visits that are over and of which Redis has not heard, in the zone.
 *
 * They are for whichever process of the node can tell it: a worker may be gone
 * before Redis is back, and one of before a reload may not get to it any more.
 */


#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_http_wq_zone_internal.h"


void
ngx_http_wq_zone_endings_init(ngx_http_wq_endings_left_t *endings)
{
    ngx_queue_init(&endings->queue);
}


ngx_int_t
ngx_http_wq_zone_ending_put(ngx_http_wq_zone_t *zone,
    const ngx_http_wq_known_ending_t *known)
{
    size_t                       size;
    ngx_http_wq_endings_left_t  *endings;
    ngx_http_wq_zone_ending_t   *ending;

    endings = &zone->shared->endings;
    size = offsetof(ngx_http_wq_zone_ending_t, ids) + known->event.len
           + known->user.len;

    /* no less than a token, so that one fits in where the other was */
    size = ngx_max(size, NGX_HTTP_WQ_TOKEN_BYTES);

    ngx_shmtx_lock(&zone->shpool->mutex);

    ending = ngx_slab_alloc_locked(zone->shpool, size);

    if (ending == NULL) {
        /* a token that is forgotten costs a question, this costs a seat */
        ngx_http_wq_zone_tokens_evict(zone, 1, 0);
        ending = ngx_slab_alloc_locked(zone->shpool, size);
    }

    if (ending) {
        ending->until = known->until;
        ending->sold = (known->why == NGX_HTTP_WQ_RELEASE_SOLD);
        ending->event_len = (u_char) known->event.len;
        ending->user_len = (u_char) known->user.len;
        ngx_memcpy(ending->token, known->token, WQ_TOKEN_LEN);
        ngx_memcpy(ngx_cpymem(ending->ids, known->event.data,
                              known->event.len),
                   known->user.data, known->user.len);

        /* killed in between, there is one too many to look for */
        endings->count++;
        ngx_queue_insert_tail(&endings->queue, &ending->queue);
    }

    ngx_shmtx_unlock(&zone->shpool->mutex);

    return ending ? NGX_OK : NGX_ERROR;
}


ngx_int_t
ngx_http_wq_zone_ending_take(ngx_http_wq_zone_t *zone,
    ngx_http_wq_known_ending_t *known)
{
    ngx_queue_t                 *q;
    ngx_http_wq_endings_left_t  *endings;
    ngx_http_wq_zone_ending_t   *ending;

    endings = &zone->shared->endings;

    ngx_shmtx_lock(&zone->shpool->mutex);

    if (ngx_queue_empty(&endings->queue)) {
        endings->count = 0;
        ngx_shmtx_unlock(&zone->shpool->mutex);
        return NGX_DECLINED;
    }

    q = ngx_queue_head(&endings->queue);
    ending = ngx_queue_data(q, ngx_http_wq_zone_ending_t, queue);

    known->until = ending->until;
    known->why = ending->sold ? NGX_HTTP_WQ_RELEASE_SOLD
                              : NGX_HTTP_WQ_RELEASE_DONE;
    ngx_memcpy(known->token, ending->token, WQ_TOKEN_LEN);
    ngx_memcpy(known->ids, ending->ids, ending->event_len + ending->user_len);

    known->event.len = ending->event_len;
    known->event.data = known->ids;
    known->user.len = ending->user_len;
    known->user.data = known->ids + ending->event_len;

    ngx_queue_remove(&ending->queue);
    endings->count--;

    ngx_slab_free_locked(zone->shpool, ending);

    ngx_shmtx_unlock(&zone->shpool->mutex);

    return NGX_OK;
}


ngx_uint_t
ngx_http_wq_zone_endings(ngx_http_wq_zone_t *zone)
{
    return zone->shared->endings.count;
}
