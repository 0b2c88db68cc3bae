
/*
 * queue: reaper.
 *
 * Whoever leads a round of promotion looks after the instances that have fallen
 * silent: a worker that was killed, a node without power.  Their users leave
 * the line after the grace time, unless they have come back elsewhere; when
 * that is done in all events, the traces of the instance are removed.
 */


#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_http_wq_worker.h"


typedef struct {
    int64_t                 heartbeat;
    ngx_str_t               name;
    u_char                  name_data[WQ_ID_MAX];
} ngx_http_wq_dead_t;


struct ngx_http_wq_reaping_s {
    ngx_http_wq_worker_t   *worker;

    ngx_http_wq_dead_t      dead[NGX_HTTP_WQ_DEAD_MAX];
    ngx_uint_t              ndead;
    ngx_uint_t              current;    /* of them */

    ngx_array_t             events;     /* ngx_str_t */
    ngx_pool_t             *pool;
    ngx_uint_t              next;       /* of the events */
    ngx_http_wq_event_t    *event;      /* held while it is asked */

    ngx_str_t               cursor;
    u_char                  cursor_data[NGX_HTTP_WQ_CURSOR_MAX];

    unsigned                early:1;    /* some grace time is not over */
};


static void ngx_http_wq_reaper_events_handler(void *data,
    ngx_http_wq_result_t *result);
static void ngx_http_wq_reaper_next(ngx_http_wq_reaping_t *reaping);
static ngx_int_t ngx_http_wq_reaper_reap(ngx_http_wq_reaping_t *reaping);
static void ngx_http_wq_reaper_reap_handler(void *data,
    ngx_http_wq_result_t *result);
static void ngx_http_wq_reaper_bury(ngx_http_wq_reaping_t *reaping);
static void ngx_http_wq_reaper_bury_handler(void *data,
    ngx_http_wq_result_t *result);
static void ngx_http_wq_reaper_free(ngx_http_wq_reaping_t *reaping);


ngx_int_t
ngx_http_wq_reaper_start(ngx_http_wq_worker_t *worker,
    const ngx_http_wq_tasks_reply_t *tasks)
{
    int64_t                  heartbeat;
    ngx_int_t                rc;
    ngx_str_t                name;
    ngx_uint_t               i;
    ngx_http_wq_dead_t      *dead;
    ngx_http_wq_reaping_t   *reaping;
    ngx_http_wq_reply_to_t   to;

    if (worker->reaping || wq_reply_elements(tasks->dead) == 0) {
        return NGX_BUSY;
    }

    reaping = ngx_calloc(sizeof(ngx_http_wq_reaping_t), worker->log);
    if (reaping == NULL) {
        return NGX_ERROR;
    }

    reaping->worker = worker;
    reaping->cursor.data = reaping->cursor_data;
    worker->reaping = reaping;

    for (i = 0; i < NGX_HTTP_WQ_DEAD_MAX; i++) {

        rc = ngx_http_wq_decode_dead(tasks, i, &name, &heartbeat);

        if (rc == NGX_DONE) {
            break;
        }

        if (rc != NGX_OK
            || (name.len == worker->instance.len
                && ngx_memcmp(name.data, worker->instance.data, name.len)
                   == 0))
        {
            continue;
        }

        dead = &reaping->dead[reaping->ndead++];

        dead->heartbeat = heartbeat;
        dead->name.data = dead->name_data;
        dead->name.len = name.len;
        ngx_memcpy(dead->name_data, name.data, name.len);
    }

    to.handler = ngx_http_wq_reaper_events_handler;
    to.data = reaping;
    to.operation = NULL;

    if (reaping->ndead == 0
        || ngx_http_wq_call_events(worker->links[NGX_HTTP_WQ_COMMANDS],
                                   &worker->keyspace, &to)
           != NGX_OK)
    {
        ngx_http_wq_reaper_free(reaping);
        return NGX_DECLINED;
    }

    return NGX_OK;
}


/* the end of the process: no answer will come */

void
ngx_http_wq_reaper_stop(ngx_http_wq_worker_t *worker)
{
    if (worker->reaping) {
        worker->reaping->event = NULL;
        ngx_http_wq_reaper_free(worker->reaping);
    }
}


static void
ngx_http_wq_reaper_events_handler(void *data, ngx_http_wq_result_t *result)
{
    ngx_http_wq_reaping_t *reaping = data;

    ngx_int_t              rc;
    ngx_str_t              id, *event;
    ngx_uint_t             i;
    ngx_http_wq_worker_t  *worker;

    worker = reaping->worker;

    if (result->outcome != NGX_HTTP_WQ_ANSWERED || worker->draining) {
        goto failed;
    }

    reaping->pool = ngx_create_pool(4096, worker->log);
    if (reaping->pool == NULL) {
        goto failed;
    }

    if (ngx_array_init(&reaping->events, reaping->pool, 16, sizeof(ngx_str_t))
        != NGX_OK)
    {
        goto failed;
    }

    for (i = 0; /* void */ ; i++) {

        rc = ngx_http_wq_decode_event_id(result, i, &id);

        if (rc == NGX_DONE) {
            break;
        }

        if (rc != NGX_OK) {
            continue;
        }

        event = ngx_array_push(&reaping->events);
        if (event == NULL) {
            goto failed;
        }

        event->len = id.len;
        event->data = ngx_pstrdup(reaping->pool, &id);
        if (event->data == NULL) {
            goto failed;
        }
    }

    ngx_http_wq_reaper_next(reaping);

    return;

failed:

    ngx_http_wq_reaper_free(reaping);
}


/* the next event of the current instance, or what comes after the last */

static void
ngx_http_wq_reaper_next(ngx_http_wq_reaping_t *reaping)
{
    ngx_str_t  *ids;

    ids = reaping->events.elts;

    if (reaping->current == reaping->ndead) {
        ngx_http_wq_reaper_free(reaping);
        return;
    }

    if (reaping->next == reaping->events.nelts) {

        if (!reaping->early) {
            ngx_http_wq_reaper_bury(reaping);
            return;
        }

        reaping->current++;
        reaping->next = 0;
        reaping->early = 0;

        ngx_http_wq_reaper_next(reaping);
        return;
    }

    reaping->event = ngx_http_wq_event_get(reaping->worker,
                                           &ids[reaping->next]);
    reaping->cursor.len = 0;

    if (reaping->event == NULL || ngx_http_wq_reaper_reap(reaping) != NGX_OK) {
        ngx_http_wq_reaper_free(reaping);
    }
}


static ngx_int_t
ngx_http_wq_reaper_reap(ngx_http_wq_reaping_t *reaping)
{
    ngx_http_wq_dead_t      *dead;
    ngx_http_wq_worker_t    *worker;
    ngx_http_wq_reply_to_t   to;

    worker = reaping->worker;
    dead = &reaping->dead[reaping->current];

    to.handler = ngx_http_wq_reaper_reap_handler;
    to.data = reaping;
    to.operation = NULL;

    return ngx_http_wq_call_reap(worker->links[NGX_HTTP_WQ_COMMANDS],
                                 &reaping->event->keys, &dead->name,
                                 &reaping->cursor, dead->heartbeat, &to);
}


static void
ngx_http_wq_reaper_reap_handler(void *data, ngx_http_wq_result_t *result)
{
    ngx_http_wq_reaping_t *reaping = data;

    ngx_http_wq_worker_t      *worker;
    ngx_http_wq_reap_reply_t   reply;

    worker = reaping->worker;

    if (ngx_http_wq_decode_reap(worker->links[NGX_HTTP_WQ_COMMANDS], result,
                                &reply)
        != NGX_OK
        || worker->draining)
    {
        ngx_http_wq_reaper_free(reaping);
        return;
    }

    wq_counter_add(worker->slot->counters.reaped, reply.left);
    wq_counter_add(worker->slot->counters.reaped, reply.released);

    if (reply.wait_ms) {
        reaping->early = 1;
    }

    if (reply.cursor.len) {
        reaping->cursor.len = reply.cursor.len;
        ngx_memcpy(reaping->cursor_data, reply.cursor.data, reply.cursor.len);

        if (ngx_http_wq_reaper_reap(reaping) != NGX_OK) {
            ngx_http_wq_reaper_free(reaping);
        }

        return;
    }

    ngx_http_wq_event_release(reaping->event);
    reaping->event = NULL;
    reaping->next++;

    ngx_http_wq_reaper_next(reaping);
}


static void
ngx_http_wq_reaper_bury(ngx_http_wq_reaping_t *reaping)
{
    ngx_http_wq_dead_t      *dead;
    ngx_http_wq_worker_t    *worker;
    ngx_http_wq_reply_to_t   to;

    worker = reaping->worker;
    dead = &reaping->dead[reaping->current];

    to.handler = ngx_http_wq_reaper_bury_handler;
    to.data = reaping;
    to.operation = NULL;

    if (ngx_http_wq_call_bury_instance(worker->links[NGX_HTTP_WQ_COMMANDS],
                                       &worker->keyspace, &dead->name,
                                       &dead->heartbeat, &to)
        != NGX_OK)
    {
        ngx_http_wq_reaper_free(reaping);
    }
}


static void
ngx_http_wq_reaper_bury_handler(void *data, ngx_http_wq_result_t *result)
{
    ngx_http_wq_reaping_t *reaping = data;

    ngx_http_wq_dead_t        *dead;
    ngx_http_wq_worker_t      *worker;
    ngx_http_wq_bury_reply_t   reply;

    worker = reaping->worker;
    dead = &reaping->dead[reaping->current];

    if (ngx_http_wq_decode_bury(worker->links[NGX_HTTP_WQ_COMMANDS], result,
                                &reply)
        != NGX_OK
        || worker->draining)
    {
        ngx_http_wq_reaper_free(reaping);
        return;
    }

    if (reply.buried) {
        wq_counter_add(worker->slot->counters.buried, 1);
        ngx_log_error(NGX_LOG_NOTICE, worker->log, 0,
                      "waiting_queue: instance \"%V\" has fallen silent, "
                      "its places are given up", &dead->name);
    }

    reaping->current++;
    reaping->next = 0;

    ngx_http_wq_reaper_next(reaping);
}


static void
ngx_http_wq_reaper_free(ngx_http_wq_reaping_t *reaping)
{
    reaping->worker->reaping = NULL;

    if (reaping->event) {
        ngx_http_wq_event_release(reaping->event);
    }

    if (reaping->pool) {
        ngx_destroy_pool(reaping->pool);
    }

    ngx_free(reaping);
}
