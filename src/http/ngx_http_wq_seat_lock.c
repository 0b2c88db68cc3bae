
/*
 * http: the lock of a seat, `waiting_queue_seat_lock`.
 *
 * In the phase before content, after the gate.  The request is read to its end,
 * for who sends it slowly must not have the lock meanwhile, waits until it has
 * it, goes on with it, and gives it back when the answer is complete, whatever
 * it is, or when it ends in any other way.
 *
 * What is known of it is in the pool of the request and found by a cleanup of
 * that pool: an internal redirect clears the contexts of all modules, but who
 * holds a lock goes on holding it.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_wq_conf.h"


#define NGX_HTTP_WQ_SEAT_DEFAULT_WAIT   3000
#define NGX_HTTP_WQ_SEAT_WAIT_MAX       60000

#define NGX_HTTP_WQ_SEAT_DEFAULT_LEASE  5000
#define NGX_HTTP_WQ_SEAT_LEASE_MIN      100
#define NGX_HTTP_WQ_SEAT_LEASE_MAX      600000


typedef enum {
    NGX_HTTP_WQ_SEAT_LOCK_NONE = 0,
    NGX_HTTP_WQ_SEAT_LOCK_ASKING,
    NGX_HTTP_WQ_SEAT_LOCK_HELD,
    NGX_HTTP_WQ_SEAT_LOCK_LAPSED,
    NGX_HTTP_WQ_SEAT_LOCK_TAKEN,
    NGX_HTTP_WQ_SEAT_LOCK_FAILED,
    NGX_HTTP_WQ_SEAT_LOCK_BAD_ID
} ngx_http_wq_seat_lock_state_e;


typedef struct {
    ngx_http_request_t             *request;
    ngx_http_wq_seat_t             *seat;   /* NULL: neither asked nor held */
    ngx_http_wq_seat_lock_state_e   state;
    ngx_str_t                       event;
    ngx_str_t                       name;   /* of the seat */
    ngx_uint_t                      told;   /* unsigned  told:1; */
} ngx_http_wq_seat_lock_t;


static ngx_int_t ngx_http_wq_seat_lock_handler(ngx_http_request_t *r);
static void ngx_http_wq_seat_lock_has_body(ngx_http_request_t *r);
static ngx_int_t ngx_http_wq_seat_lock_ask(ngx_http_wq_seat_lock_t *lock);
static ngx_int_t ngx_http_wq_seat_lock_decide(ngx_http_wq_seat_lock_t *lock);
static void ngx_http_wq_seat_lock_told(void *data, ngx_http_wq_seat_e outcome);
static ngx_int_t ngx_http_wq_seat_lock_answer(ngx_http_request_t *r);
static ngx_http_wq_seat_lock_t *ngx_http_wq_seat_lock_get(
    ngx_http_request_t *r);
static ngx_http_wq_seat_lock_t *ngx_http_wq_seat_lock_create(
    ngx_http_request_t *r);
static void ngx_http_wq_seat_lock_tag(void *data);
static void ngx_http_wq_seat_lock_cleanup(void *data);
static void ngx_http_wq_seat_lock_done(ngx_http_request_t *r);
static ngx_int_t ngx_http_wq_seat_lock_header_filter(ngx_http_request_t *r);
static ngx_int_t ngx_http_wq_seat_lock_body_filter(ngx_http_request_t *r,
    ngx_chain_t *in);


static ngx_http_output_header_filter_pt  ngx_http_next_header_filter;
static ngx_http_output_body_filter_pt    ngx_http_next_body_filter;


ngx_int_t
ngx_http_wq_seat_lock_init(ngx_conf_t *cf)
{
    ngx_http_handler_pt        *h;
    ngx_http_core_main_conf_t  *cmcf;

    cmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module);

    h = ngx_array_push(&cmcf->phases[NGX_HTTP_PRECONTENT_PHASE].handlers);
    if (h == NULL) {
        return NGX_ERROR;
    }

    *h = ngx_http_wq_seat_lock_handler;

    ngx_http_next_header_filter = ngx_http_top_header_filter;
    ngx_http_top_header_filter = ngx_http_wq_seat_lock_header_filter;

    ngx_http_next_body_filter = ngx_http_top_body_filter;
    ngx_http_top_body_filter = ngx_http_wq_seat_lock_body_filter;

    return NGX_OK;
}


static ngx_int_t
ngx_http_wq_seat_lock_handler(ngx_http_request_t *r)
{
    ngx_int_t                 rc;
    ngx_str_t                 event, name;
    ngx_http_wq_loc_conf_t   *lcf;
    ngx_http_wq_seat_lock_t  *lock;

    if (r != r->main) {
        return NGX_DECLINED;
    }

    if (ngx_http_wq_is_endpoint(r)) {
        /* no backend: a stream may last for hours */
        ngx_http_wq_seat_lock_done(r);
        return NGX_DECLINED;
    }

    lcf = ngx_http_get_module_loc_conf(r, ngx_http_waiting_queue_module);

    if (lcf->seat == NULL) {
        return NGX_DECLINED;
    }

    lock = ngx_http_wq_seat_lock_get(r);

    if (lock == NULL) {
        lock = ngx_http_wq_seat_lock_create(r);
        if (lock == NULL) {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }
    }

    if (lock->state == NGX_HTTP_WQ_SEAT_LOCK_ASKING) {
        return NGX_AGAIN;
    }

    if (lock->told) {
        lock->told = 0;
        return ngx_http_wq_seat_lock_decide(lock);
    }

    rc = ngx_http_wq_find_event(r, &event);

    if (rc == NGX_ERROR
        || ngx_http_complex_value(r, lcf->seat, &name) != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    if (lock->state == NGX_HTTP_WQ_SEAT_LOCK_HELD
        && lock->event.len == event.len && lock->name.len == name.len
        && ngx_memcmp(lock->event.data, event.data, event.len) == 0
        && ngx_memcmp(lock->name.data, name.data, name.len) == 0)
    {
        /* sent on to another location, or to this one again */
        return NGX_DECLINED;
    }

    /* one at a time: who holds one and waits for another can wait for ever */

    ngx_http_wq_seat_lock_cleanup(lock);

    lock->event = event;
    lock->name = name;

    if (rc != NGX_OK || wq_id_check(name.data, name.len) != WQ_OK) {
        lock->state = NGX_HTTP_WQ_SEAT_LOCK_BAD_ID;
        return ngx_http_wq_seat_lock_decide(lock);
    }

    if (r->request_body == NULL
        && (r->headers_in.content_length_n > 0 || r->headers_in.chunked))
    {
        rc = ngx_http_read_client_request_body(r,
                                               ngx_http_wq_seat_lock_has_body);

        if (rc >= NGX_HTTP_SPECIAL_RESPONSE) {
            return rc;
        }

        ngx_http_finalize_request(r, NGX_DONE);
        return NGX_DONE;
    }

    return ngx_http_wq_seat_lock_ask(lock);
}


/* the phase is run again, perhaps before the handler returns */

static void
ngx_http_wq_seat_lock_has_body(ngx_http_request_t *r)
{
    r->write_event_handler = ngx_http_core_run_phases;

    ngx_http_core_run_phases(r);
}


static ngx_int_t
ngx_http_wq_seat_lock_ask(ngx_http_wq_seat_lock_t *lock)
{
    ngx_http_wq_loc_conf_t  *lcf;
    ngx_http_wq_seat_wish_t  wish;

    lcf = ngx_http_get_module_loc_conf(lock->request,
                                       ngx_http_waiting_queue_module);

    wish.event = lock->event;
    wish.seat = lock->name;
    wish.wait = lcf->seat_wait;
    wish.lease = lcf->seat_lease;
    wish.handler = ngx_http_wq_seat_lock_told;
    wish.data = lock;

    if (ngx_http_wq_worker == NULL
        || ngx_http_wq_seat_ask(ngx_http_wq_worker, &wish, &lock->seat)
           != NGX_OK)
    {
        lock->state = NGX_HTTP_WQ_SEAT_LOCK_FAILED;
        return ngx_http_wq_seat_lock_decide(lock);
    }

    lock->state = NGX_HTTP_WQ_SEAT_LOCK_ASKING;

    ngx_http_wq_park(lock->request);

    return NGX_AGAIN;
}


/* what the phase returns */

static ngx_int_t
ngx_http_wq_seat_lock_decide(ngx_http_wq_seat_lock_t *lock)
{
    if (lock->state == NGX_HTTP_WQ_SEAT_LOCK_HELD) {
        return NGX_DECLINED;
    }

    lock->request->content_handler = ngx_http_wq_seat_lock_answer;

    return NGX_OK;
}


static void
ngx_http_wq_seat_lock_told(void *data, ngx_http_wq_seat_e outcome)
{
    ngx_http_wq_seat_lock_t *lock = data;

    ngx_http_request_t  *r;

    r = lock->request;

    switch (outcome) {

    case NGX_HTTP_WQ_SEAT_HELD:
        lock->state = NGX_HTTP_WQ_SEAT_LOCK_HELD;
        break;

    case NGX_HTTP_WQ_SEAT_TAKEN:
        lock->seat = NULL;
        lock->state = NGX_HTTP_WQ_SEAT_LOCK_TAKEN;
        break;

    case NGX_HTTP_WQ_SEAT_NO_REDIS:
        lock->seat = NULL;
        lock->state = NGX_HTTP_WQ_SEAT_LOCK_FAILED;
        break;

    case NGX_HTTP_WQ_SEAT_LAPSED:
        lock->state = NGX_HTTP_WQ_SEAT_LOCK_LAPSED;

        ngx_log_error(NGX_LOG_WARN, r->connection->log, 0,
                      "waiting_queue: the lease of the lock of seat \"%V\" "
                      "of event \"%V\" is over", &lock->name, &lock->event);
        return;

    default: /* NGX_HTTP_WQ_SEAT_LOST */
        lock->seat = NULL;

        if (lock->state != NGX_HTTP_WQ_SEAT_LOCK_ASKING) {
            return;
        }

        lock->state = NGX_HTTP_WQ_SEAT_LOCK_FAILED;
        lock->told = 1;
        ngx_http_wq_resume_later(r);
        return;
    }

    lock->told = 1;
    ngx_http_wq_resume(r);
}


/* a content handler, for who does not get the lock */

static ngx_int_t
ngx_http_wq_seat_lock_answer(ngx_http_request_t *r)
{
    ngx_http_wq_seat_lock_t  *lock;

    lock = ngx_http_wq_seat_lock_get(r);

    switch (lock->state) {

    case NGX_HTTP_WQ_SEAT_LOCK_TAKEN:
        return ngx_http_wq_send_error(r, NGX_HTTP_CONFLICT, "seat_taken",
                                      "somebody else is at this seat, try "
                                      "again or take another");

    case NGX_HTTP_WQ_SEAT_LOCK_BAD_ID:
        if (wq_id_check(lock->event.data, lock->event.len) != WQ_OK) {
            return ngx_http_wq_send_bad_event(r, NGX_ABORT);
        }

        return ngx_http_wq_send_error(r, NGX_HTTP_BAD_REQUEST, "bad_seat_id",
                                      "a seat id is 1 to 128 of "
                                      "A-Z a-z 0-9 . _ ~ @ : -");

    default:
        return ngx_http_wq_send_redis_unavailable(r);
    }
}


static ngx_http_wq_seat_lock_t *
ngx_http_wq_seat_lock_get(ngx_http_request_t *r)
{
    ngx_pool_cleanup_t  *cln;

    for (cln = r->pool->cleanup; cln; cln = cln->next) {
        if (cln->handler == ngx_http_wq_seat_lock_tag) {
            return cln->data;
        }
    }

    return NULL;
}


static ngx_http_wq_seat_lock_t *
ngx_http_wq_seat_lock_create(ngx_http_request_t *r)
{
    ngx_pool_cleanup_t       *tag;
    ngx_http_cleanup_t       *cln;
    ngx_http_wq_seat_lock_t  *lock;

    cln = ngx_http_cleanup_add(r, 0);
    if (cln == NULL) {
        return NULL;
    }

    tag = ngx_pool_cleanup_add(r->pool, sizeof(ngx_http_wq_seat_lock_t));
    if (tag == NULL) {
        return NULL;
    }

    lock = tag->data;
    ngx_memzero(lock, sizeof(ngx_http_wq_seat_lock_t));

    lock->request = r;

    tag->handler = ngx_http_wq_seat_lock_tag;

    cln->handler = ngx_http_wq_seat_lock_cleanup;
    cln->data = lock;

    return lock;
}


/* nothing to do: it is what the lock is found by */

static void
ngx_http_wq_seat_lock_tag(void *data)
{
}


/* the request ends, is answered, or wants another seat; may be called again */

static void
ngx_http_wq_seat_lock_cleanup(void *data)
{
    ngx_http_wq_seat_lock_t *lock = data;

    if (lock->seat) {
        ngx_http_wq_seat_leave(lock->seat);
        lock->seat = NULL;
    }

    lock->state = NGX_HTTP_WQ_SEAT_LOCK_NONE;
}


/*
 * The answer is complete: however slowly the client takes it, and however long
 * its connection lingers, the next need not wait for that.
 */

static void
ngx_http_wq_seat_lock_done(ngx_http_request_t *r)
{
    ngx_http_wq_seat_lock_t  *lock;

    lock = ngx_http_wq_seat_lock_get(r);

    if (lock && lock->seat) {
        ngx_http_wq_seat_lock_cleanup(lock);
    }
}


static ngx_int_t
ngx_http_wq_seat_lock_header_filter(ngx_http_request_t *r)
{
    ngx_int_t  rc;

    rc = ngx_http_next_header_filter(r);

    /* which is known only now */

    if (r == r->main && r->header_only) {
        ngx_http_wq_seat_lock_done(r);
    }

    return rc;
}


static ngx_int_t
ngx_http_wq_seat_lock_body_filter(ngx_http_request_t *r, ngx_chain_t *in)
{
    ngx_int_t     rc;
    ngx_uint_t    last;
    ngx_chain_t  *cl;

    last = 0;

    if (r == r->main) {
        for (cl = in; cl; cl = cl->next) {
            if (cl->buf->last_buf) {
                last = 1;
                break;
            }
        }
    }

    rc = ngx_http_next_body_filter(r, in);

    if (last) {
        ngx_http_wq_seat_lock_done(r);
    }

    return rc;
}


/*
 * Of a location alone: where its value would have no meaning, in a location
 * within it, it is not inherited.  But `if` and `limit_except` are a part of
 * their location.
 */

void
ngx_http_wq_seat_lock_merge(ngx_conf_t *cf, ngx_http_wq_loc_conf_t *prev,
    ngx_http_wq_loc_conf_t *conf)
{
    ngx_http_core_loc_conf_t  *clcf;

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

    if (clcf->noname && conf->seat == NULL) {
        conf->seat = prev->seat;
        conf->seat_wait = prev->seat_wait;
        conf->seat_lease = prev->seat_lease;
    }
}


char *
ngx_http_waiting_queue_seat_lock(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf)
{
    ngx_http_wq_loc_conf_t *lcf = conf;

    char                     *rc;
    ngx_str_t                 time, *value;
    ngx_uint_t                i, seen, bit;
    ngx_msec_t               *ms, min, max;
    const char               *must;
    ngx_http_wq_main_conf_t  *mcf;

    rc = ngx_http_wq_conf_value(cf, cmd, &lcf->seat);

    if (rc != NGX_CONF_OK) {
        return rc;
    }

    lcf->seat_wait = NGX_HTTP_WQ_SEAT_DEFAULT_WAIT;
    lcf->seat_lease = NGX_HTTP_WQ_SEAT_DEFAULT_LEASE;

    value = cf->args->elts;
    seen = 0;

    for (i = 2; i < cf->args->nelts; i++) {

        time = value[i];

        if (ngx_strncmp(value[i].data, "wait=", 5) == 0) {
            ms = &lcf->seat_wait;
            min = 0;
            max = NGX_HTTP_WQ_SEAT_WAIT_MAX;
            must = "must be a time of 0 to 60s";
            bit = 1;
            time.data += 5;
            time.len -= 5;

        } else if (ngx_strncmp(value[i].data, "lease=", 6) == 0) {
            ms = &lcf->seat_lease;
            min = NGX_HTTP_WQ_SEAT_LEASE_MIN;
            max = NGX_HTTP_WQ_SEAT_LEASE_MAX;
            must = "must be a time of 100ms to 10m";
            bit = 2;
            time.data += 6;
            time.len -= 6;

        } else {
            return ngx_http_wq_conf_invalid(cf, "waiting_queue_seat_lock",
                                            "parameter", &value[i],
                                            "must be \"wait=\" or \"lease=\"");
        }

        if (seen & bit) {
            return ngx_http_wq_conf_invalid(cf, "waiting_queue_seat_lock",
                                            "parameter", &value[i],
                                            "is duplicate");
        }

        seen |= bit;

        if (ngx_http_wq_conf_time(&time, min, ms) != NGX_OK || *ms > max) {
            return ngx_http_wq_conf_invalid(cf, "waiting_queue_seat_lock",
                                            "parameter", &value[i], must);
        }
    }

    mcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_waiting_queue_module);
    mcf->queue.used = 1;
    mcf->seat_lock = 1;

    return NGX_CONF_OK;
}
