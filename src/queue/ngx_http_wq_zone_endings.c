
/*
 * queue: visits that are over and of which Redis has not heard, in the zone.
 *
 * They are for whichever process of the node can tell it: a worker may be gone
 * before Redis is back, or at any moment.  So a visit is here from before it is
 * told until Redis has answered; whoever tells it has its number on it.
 */


#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_http_wq_zone_internal.h"


static void ngx_http_wq_zone_ending_leave(ngx_http_wq_endings_left_t *endings,
    ngx_http_wq_zone_ending_t *ending);


void
ngx_http_wq_zone_endings_init(ngx_http_wq_endings_left_t *endings)
{
    ngx_queue_init(&endings->left);
    ngx_queue_init(&endings->said);
}


ngx_int_t
ngx_http_wq_zone_ending_put(ngx_http_wq_zone_t *zone,
    ngx_http_wq_known_ending_t *known)
{
    size_t                      size;
    ngx_http_wq_zone_ending_t  *ending;

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
        ending->pid = ngx_pid;
        ending->sold = (known->why == NGX_HTTP_WQ_RELEASE_SOLD);
        ending->event_len = (u_char) known->event.len;
        ending->user_len = (u_char) known->user.len;
        ngx_memcpy(ending->token, known->token, WQ_TOKEN_LEN);
        ngx_memcpy(ngx_cpymem(ending->ids, known->event.data,
                              known->event.len),
                   known->user.data, known->user.len);

        /* killed in between, it is a list that one can walk all the same */
        ending->queue.next = &zone->shared->endings.said;
        ngx_memory_barrier();

        ngx_queue_insert_tail(&zone->shared->endings.said, &ending->queue);
    }

    ngx_shmtx_unlock(&zone->shpool->mutex);

    known->kept = ending;

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

    if (ngx_queue_empty(&endings->left)) {
        endings->count = 0;
        ngx_shmtx_unlock(&zone->shpool->mutex);
        return NGX_DECLINED;
    }

    q = ngx_queue_head(&endings->left);
    ending = ngx_queue_data(q, ngx_http_wq_zone_ending_t, queue);

    ending->pid = ngx_pid;

    ngx_queue_remove(&ending->queue);
    endings->count--;
    ngx_queue_insert_tail(&endings->said, &ending->queue);

    known->kept = ending;
    known->until = ending->until;
    known->why = ending->sold ? NGX_HTTP_WQ_RELEASE_SOLD
                              : NGX_HTTP_WQ_RELEASE_DONE;
    ngx_memcpy(known->token, ending->token, WQ_TOKEN_LEN);
    ngx_memcpy(known->ids, ending->ids, ending->event_len + ending->user_len);

    known->event.len = ending->event_len;
    known->event.data = known->ids;
    known->user.len = ending->user_len;
    known->user.data = known->ids + ending->event_len;

    ngx_shmtx_unlock(&zone->shpool->mutex);

    return NGX_OK;
}


void
ngx_http_wq_zone_ending_back(ngx_http_wq_zone_t *zone,
    const ngx_http_wq_known_ending_t *known)
{
    ngx_shmtx_lock(&zone->shpool->mutex);

    ngx_http_wq_zone_ending_leave(&zone->shared->endings, known->kept);

    ngx_shmtx_unlock(&zone->shpool->mutex);
}


void
ngx_http_wq_zone_ending_end(ngx_http_wq_zone_t *zone,
    const ngx_http_wq_known_ending_t *known)
{
    ngx_shmtx_lock(&zone->shpool->mutex);

    ngx_queue_remove(&known->kept->queue);
    ngx_slab_free_locked(zone->shpool, known->kept);

    ngx_shmtx_unlock(&zone->shpool->mutex);
}


void
ngx_http_wq_zone_endings_reclaim(ngx_http_wq_zone_t *zone)
{
    if (ngx_queue_empty(&zone->shared->endings.said)) {
        return;
    }

    ngx_shmtx_lock(&zone->shpool->mutex);

    ngx_http_wq_zone_endings_bury(&zone->shared->endings, ngx_pid);

    ngx_shmtx_unlock(&zone->shpool->mutex);
}


void
ngx_http_wq_zone_endings_bury(ngx_http_wq_endings_left_t *endings,
    ngx_pid_t self)
{
    ngx_pid_t                   alive;
    ngx_queue_t                *q, *next;
    ngx_http_wq_zone_ending_t  *ending;

    alive = self;

    for (q = ngx_queue_head(&endings->said);
         q != ngx_queue_sentinel(&endings->said);
         q = next)
    {
        next = ngx_queue_next(q);
        ending = ngx_queue_data(q, ngx_http_wq_zone_ending_t, queue);

        if (ending->pid == alive || ending->pid == self) {
            continue;
        }

        if (ending->pid == ngx_pid
            || (kill(ending->pid, 0) == -1 && ngx_errno == NGX_ESRCH))
        {
            ngx_http_wq_zone_ending_leave(endings, ending);

        } else {
            alive = ending->pid;
        }
    }
}


static void
ngx_http_wq_zone_ending_leave(ngx_http_wq_endings_left_t *endings,
    ngx_http_wq_zone_ending_t *ending)
{
    ngx_queue_remove(&ending->queue);

    /* killed in between, there is one too many to look for */
    endings->count++;
    ngx_queue_insert_tail(&endings->left, &ending->queue);
}


ngx_uint_t
ngx_http_wq_zone_endings(ngx_http_wq_zone_t *zone)
{
    return zone->shared->endings.count;
}
