
/*
 * http: the operator's figures, `waiting_queue_status`.
 *
 * Everything comes from shared memory, so the answer is there whatever state
 * Redis is in.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_wq_http.h"


static const ngx_str_t  ngx_http_wq_status_json_type =
    ngx_string("application/json");

static const ngx_str_t  ngx_http_wq_status_prometheus_type =
    ngx_string("text/plain; version=0.0.4; charset=utf-8");


ngx_int_t
ngx_http_wq_status_handler(ngx_http_request_t *r)
{
    ngx_int_t                 rc;
    ngx_buf_t                *b;
    const ngx_str_t          *type;
    ngx_http_wq_snapshot_t    snapshot;
    ngx_http_wq_loc_conf_t   *lcf;
    ngx_http_wq_main_conf_t  *mcf;

    if (!(r->method & (NGX_HTTP_GET|NGX_HTTP_HEAD))) {
        return ngx_http_wq_send_not_allowed(r, "GET, HEAD");
    }

    rc = ngx_http_discard_request_body(r);

    if (rc != NGX_OK) {
        return rc;
    }

    lcf = ngx_http_get_module_loc_conf(r, ngx_http_waiting_queue_module);
    mcf = ngx_http_get_module_main_conf(r, ngx_http_waiting_queue_module);

    if (ngx_http_wq_zone_snapshot(mcf->queue.zone, r->pool, &snapshot)
        != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    if (lcf->status == NGX_HTTP_WQ_STATUS_PROMETHEUS) {
        type = &ngx_http_wq_status_prometheus_type;
        b = ngx_http_wq_status_prometheus(r, &mcf->queue, &snapshot);

    } else {
        type = &ngx_http_wq_status_json_type;
        b = ngx_http_wq_status_json(r, &mcf->queue, &snapshot);
    }

    if (b == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    return ngx_http_wq_send(r, NGX_HTTP_OK, type, b);
}
