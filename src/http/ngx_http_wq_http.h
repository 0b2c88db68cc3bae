
/* http: what the endpoints share: configuration, answers */


#ifndef NGX_HTTP_WQ_HTTP_H_INCLUDED_
#define NGX_HTTP_WQ_HTTP_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_wq_worker.h"

#include "wq_page.h"


#define NGX_HTTP_WQ_VERSION    "0.1.0"

/* s, of an answer that a client may try again, spread */
#define NGX_HTTP_WQ_RETRY_MIN  1
#define NGX_HTTP_WQ_RETRY_MAX  5

/* nginx has no name for it */
#define NGX_HTTP_WQ_GONE       410


typedef enum {
    NGX_HTTP_WQ_STATUS_JSON = 0,
    NGX_HTTP_WQ_STATUS_PROMETHEUS
} ngx_http_wq_status_e;


/* the waiting page, as it was when the configuration was read */

typedef struct {
    wq_page_part_t            *parts;
    size_t                     nparts;

    /* of what stands in it by itself: Content-Security-Policy; or empty */
    ngx_str_t                  policy;
} ngx_http_wq_page_t;


typedef struct {
    ngx_http_wq_queue_conf_t   queue;
    ngx_http_wq_page_t        *page;        /* the one that is built in */

    /* some location locks seats */
    ngx_uint_t                 seat_lock;   /* unsigned  seat_lock:1; */
} ngx_http_wq_main_conf_t;


typedef struct {
    ngx_uint_t                 status;      /* ngx_http_wq_status_e */

    /* the gate */
    ngx_flag_t                 gate;
    ngx_flag_t                 dry_run;
    ngx_uint_t                 pass_on_error;
    wq_rate_t                  ration;      /* of those; none: as they come */
    ngx_uint_t                 code;
    ngx_array_t               *bypass;      /* of ngx_http_complex_value_t */
    ngx_http_wq_page_t        *page;

    ngx_http_complex_value_t  *event;
    ngx_http_complex_value_t  *user;        /* NULL: the module's cookie */

    /* either a number, or where to ask and what to read in the answer */
    ngx_int_t                  capacity;
    ngx_http_complex_value_t  *capacity_uri;
    ngx_str_t                  capacity_field;

    wq_rate_t                  rate;
    uint64_t                   concurrent;  /* 0: not known */
    ngx_uint_t                 has_rate;    /* unsigned  has_rate:1; */

    ngx_msec_t                 ttl;
    ngx_msec_t                 ttl_max;     /* 0: none */
    ngx_msec_t                 claim;
    ngx_msec_t                 grace;
    ngx_msec_t                 poll_timeout;
    ngx_uint_t                 release;     /* 1: with the stream */
    ngx_int_t                  max_waiting;

    ngx_http_wq_rules_t        rules;       /* made of the above */

    /* the lock of a seat */
    ngx_http_complex_value_t  *seat;        /* NULL: none */
    ngx_msec_t                 seat_wait;
    ngx_msec_t                 seat_lease;
} ngx_http_wq_loc_conf_t;


extern ngx_module_t  ngx_http_waiting_queue_module;


/*
 * They finish an answer and return what a content handler returns.  send()
 * takes b as the whole body.  error() gives {"error":"...","message":"..."}
 * with the given status; the two texts are literals that need no escaping.
 */

ngx_int_t ngx_http_wq_send(ngx_http_request_t *r, ngx_uint_t status,
    const ngx_str_t *content_type, ngx_buf_t *b);
ngx_int_t ngx_http_wq_send_error(ngx_http_request_t *r, ngx_uint_t status,
    const char *error, const char *message);


/* the JSON of a user's state, and Retry-After if that is not 0 */

ngx_int_t ngx_http_wq_send_state(ngx_http_request_t *r, ngx_uint_t status,
    const wq_state_t *state, ngx_uint_t retry_after);

/*
 * The same with `pollAfterMs`, null if it is 0, and a Retry-After that says the
 * same to who is not in.
 */

ngx_int_t ngx_http_wq_send_poll_state(ngx_http_request_t *r,
    ngx_uint_t status, const wq_state_t *state, uint32_t poll_ms);

/* 204 */

ngx_int_t ngx_http_wq_send_empty(ngx_http_request_t *r);

/* a stream that ends at once: of this text, or of one event */

ngx_int_t ngx_http_wq_send_stream(ngx_http_request_t *r, ngx_buf_t *b);
ngx_int_t ngx_http_wq_send_event(ngx_http_request_t *r, wq_sse_event_e event,
    const wq_state_t *state);

/*
 * The head of a stream, which nothing compresses, caches or slows down; NGX_OK
 * or NGX_ERROR.
 */

ngx_int_t ngx_http_wq_send_stream_head(ngx_http_request_t *r);

/* its retry, spread so that a thousand do not come again at once */

uint32_t ngx_http_wq_stream_retry(wq_sse_event_e event);

/*
 * 503 with a Retry-After: Redis is away, no capacity is known, or this worker
 * has as many streams as it may
 */

ngx_int_t ngx_http_wq_send_redis_unavailable(ngx_http_request_t *r);
ngx_int_t ngx_http_wq_send_capacity_unavailable(ngx_http_request_t *r);
ngx_int_t ngx_http_wq_send_too_many_streams(ngx_http_request_t *r);

/* s, spread */

ngx_uint_t ngx_http_wq_retry_after(void);
ngx_int_t ngx_http_wq_add_retry_after(ngx_http_request_t *r, ngx_uint_t s);

/* name is a literal, value lives as long as the request */

ngx_int_t ngx_http_wq_add_header(ngx_http_request_t *r, const char *name,
    const char *value);

/* the first header of that name that is not hidden, or NULL */

ngx_table_elt_t *ngx_http_wq_find_header(ngx_list_t *headers,
    const ngx_str_t *lowcase_name);

/* the next one; a walk begins with the first part of a list, and 0 */

ngx_table_elt_t *ngx_http_wq_next_header(ngx_list_part_t **part,
    ngx_uint_t *i, const ngx_str_t *lowcase_name);

/* finishes a request, from outside its own events */

void ngx_http_wq_finalize(ngx_http_request_t *r, ngx_int_t rc);


/*
 * Who asks, and for which event: NGX_OK; NGX_DECLINED if nobody is named (no
 * cookie of ours, an empty id of a user); NGX_ABORT if it is no id; NGX_ERROR
 * for want of memory.
 */

ngx_int_t ngx_http_wq_find_event(ngx_http_request_t *r, ngx_str_t *event);
ngx_int_t ngx_http_wq_find_user(ngx_http_request_t *r, ngx_str_t *user);

/* the answer to what they return besides NGX_OK and, for a cookie, DECLINED */

ngx_int_t ngx_http_wq_send_bad_event(ngx_http_request_t *r, ngx_int_t rc);
ngx_int_t ngx_http_wq_send_bad_user(ngx_http_request_t *r, ngx_int_t rc);


/*
 * Cookies.  The user's: found, or a new one made, which lives as long as the
 * request; NGX_OK, or NGX_DECLINED if there is none of ours, or NGX_ERROR.
 * The token's: of an event, found; len 0 if there is none that could be one.
 * The set functions add a Set-Cookie to the answer; an empty token removes it.
 */

ngx_int_t ngx_http_wq_cookie_user(ngx_http_request_t *r, ngx_str_t *user);
ngx_int_t ngx_http_wq_cookie_new_user(ngx_http_request_t *r, ngx_str_t *user);
ngx_int_t ngx_http_wq_cookie_set_user(ngx_http_request_t *r,
    const ngx_str_t *user);

void ngx_http_wq_cookie_token(ngx_http_request_t *r, const ngx_str_t *event,
    ngx_str_t *token);
ngx_int_t ngx_http_wq_cookie_set_token(ngx_http_request_t *r,
    const ngx_str_t *event, const ngx_str_t *token);

/*
 * Whether a browser keeps our cookies back from this request, as a page of
 * another site has made it.  Who comes without one may well have one: nobody
 * new, and nothing is done.  The set functions set nothing then, as it would
 * replace what the browser has; cross_site() is the answer, 403.
 */

ngx_uint_t ngx_http_wq_cookie_is_withheld(ngx_http_request_t *r);
ngx_int_t ngx_http_wq_send_cross_site(ngx_http_request_t *r);


/* 405 with the given Allow header, a literal */

ngx_int_t ngx_http_wq_send_not_allowed(ngx_http_request_t *r,
    const char *allow);


ngx_int_t ngx_http_wq_stream_handler(ngx_http_request_t *r);
ngx_int_t ngx_http_wq_api_handler(ngx_http_request_t *r);
ngx_int_t ngx_http_wq_status_handler(ngx_http_request_t *r);

/* what has a content handler of this module is no backend */

#define ngx_http_wq_is_endpoint(r)                                            \
    ((r)->content_handler == ngx_http_wq_status_handler                       \
     || (r)->content_handler == ngx_http_wq_stream_handler                    \
     || (r)->content_handler == ngx_http_wq_api_handler)


/*
 * A request waits in the phase that it is in.  park(): its handler returns
 * NGX_AGAIN, and the client is watched.  resume(): the handler is called again,
 * and the phases go on; the request may be gone when this returns.
 * resume_later() does it from an event of its own, if there is a next turn.
 */

void ngx_http_wq_park(ngx_http_request_t *r);
void ngx_http_wq_resume(ngx_http_request_t *r);
void ngx_http_wq_resume_later(ngx_http_request_t *r);


/* the gate: its phases and its filter, of all locations */

ngx_int_t ngx_http_wq_gate_init(ngx_conf_t *cf);


/*
 * The lock of a seat: its phase and its filters.  To be called before the
 * gate's: of one phase the handler that was added last comes first.
 */

ngx_int_t ngx_http_wq_seat_lock_init(ngx_conf_t *cf);


/*
 * page: reads the file, or takes the one that is built in if file is NULL; NULL
 * on error, which is logged.  send() renders it, and is what a content handler
 * returns; of the values those of the state are filled in by it.
 */

ngx_http_wq_page_t *ngx_http_wq_page_create(ngx_conf_t *cf, ngx_str_t *file);
ngx_int_t ngx_http_wq_page_send(ngx_http_request_t *r, ngx_uint_t code,
    ngx_http_wq_page_t *page, const wq_state_t *state, const char *status,
    ngx_uint_t refresh);


/* $waiting_queue_event and the like; before any directive is read */

ngx_int_t ngx_http_wq_variables_add(ngx_conf_t *cf);


/* of the process, besides the queue's own */

void ngx_http_wq_wheel_init(ngx_log_t *log);


/* both return NULL for want of memory */

ngx_buf_t *ngx_http_wq_status_json(ngx_http_request_t *r,
    const ngx_http_wq_queue_conf_t *conf, ngx_http_wq_snapshot_t *snapshot);
ngx_buf_t *ngx_http_wq_status_prometheus(ngx_http_request_t *r,
    const ngx_http_wq_queue_conf_t *conf, ngx_http_wq_snapshot_t *snapshot);


/* their part about the events, and an upper bound of how long that is */

size_t ngx_http_wq_status_events_json_size(ngx_http_wq_snapshot_t *snapshot);
u_char *ngx_http_wq_status_events_json(u_char *p, u_char *last,
    ngx_http_wq_snapshot_t *snapshot);

size_t ngx_http_wq_status_events_prometheus_size(
    ngx_http_wq_snapshot_t *snapshot);
u_char *ngx_http_wq_status_events_prometheus(u_char *p, u_char *last,
    ngx_http_wq_snapshot_t *snapshot);


#endif /* NGX_HTTP_WQ_HTTP_H_INCLUDED_ */
