
/* http: what the endpoints share: configuration, answers */


#ifndef NGX_HTTP_WQ_HTTP_H_INCLUDED_
#define NGX_HTTP_WQ_HTTP_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_wq_worker.h"


#define NGX_HTTP_WQ_VERSION  "0.1.0"


typedef enum {
    NGX_HTTP_WQ_STATUS_JSON = 0,
    NGX_HTTP_WQ_STATUS_PROMETHEUS
} ngx_http_wq_status_e;


typedef struct {
    ngx_http_wq_queue_conf_t   queue;
} ngx_http_wq_main_conf_t;


typedef struct {
    ngx_uint_t                 status;      /* ngx_http_wq_status_e */

    ngx_http_complex_value_t  *event;
    ngx_http_complex_value_t  *user;        /* NULL: the module's cookie */

    /* either a number, or where to ask and what to read in the answer */
    ngx_int_t                  capacity;
    ngx_http_complex_value_t  *capacity_uri;
    ngx_str_t                  capacity_field;

    ngx_msec_t                 ttl;
    ngx_msec_t                 ttl_max;     /* 0: none */
    ngx_msec_t                 claim;
    ngx_msec_t                 grace;
    ngx_uint_t                 release;     /* 1: with the stream */
    ngx_int_t                  max_waiting;

    ngx_http_wq_rules_t        rules;       /* made of the above */
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

uint32_t ngx_http_wq_stream_retry(void);

/* 503 with a Retry-After of min to max s, spread */

ngx_int_t ngx_http_wq_send_unavailable(ngx_http_request_t *r,
    const char *error, const char *message, ngx_uint_t min, ngx_uint_t max);

/* name is a literal, value lives as long as the request */

ngx_int_t ngx_http_wq_add_header(ngx_http_request_t *r, const char *name,
    const char *value);


/*
 * Who asks, and for which event: NGX_OK, or NGX_DECLINED and in *rc what the
 * content handler returns, as the answer has been given.
 */

ngx_int_t ngx_http_wq_get_event(ngx_http_request_t *r, ngx_str_t *event,
    ngx_int_t *rc);
ngx_int_t ngx_http_wq_get_user(ngx_http_request_t *r, ngx_str_t *user,
    ngx_int_t *rc);

/* NGX_OK, or NGX_DECLINED if there is no cookie of ours */

ngx_int_t ngx_http_wq_get_cookie_user(ngx_http_request_t *r, ngx_str_t *user);


/* 405 with the given Allow header, a literal */

ngx_int_t ngx_http_wq_send_not_allowed(ngx_http_request_t *r,
    const char *allow);


ngx_int_t ngx_http_wq_stream_handler(ngx_http_request_t *r);
ngx_int_t ngx_http_wq_status_handler(ngx_http_request_t *r);


/* $waiting_queue_event, $waiting_queue_user; before any directive is read */

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
