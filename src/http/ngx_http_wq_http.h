
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


/* 405 with the given Allow header, a literal */

ngx_int_t ngx_http_wq_send_not_allowed(ngx_http_request_t *r,
    const char *allow);


ngx_int_t ngx_http_wq_status_handler(ngx_http_request_t *r);

/* both return NULL for want of memory */

ngx_buf_t *ngx_http_wq_status_json(ngx_http_request_t *r,
    const ngx_http_wq_queue_conf_t *conf, ngx_http_wq_snapshot_t *snapshot);
ngx_buf_t *ngx_http_wq_status_prometheus(ngx_http_request_t *r,
    const ngx_http_wq_queue_conf_t *conf, ngx_http_wq_snapshot_t *snapshot);


#endif /* NGX_HTTP_WQ_HTTP_H_INCLUDED_ */
