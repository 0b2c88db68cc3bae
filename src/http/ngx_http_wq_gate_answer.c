
/*
 * http: what a visitor gets who is not let in: the page or, for who does not
 * ask for HTML, the JSON.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_wq_gate.h"

#include "wq_poll.h"


static ngx_uint_t ngx_http_wq_gate_code(ngx_http_wq_gate_t *gate,
    ngx_http_wq_loc_conf_t *lcf);
static ngx_uint_t ngx_http_wq_gate_again(ngx_http_wq_gate_t *gate,
    ngx_http_wq_loc_conf_t *lcf);


ngx_int_t
ngx_http_wq_gate_answer(ngx_http_request_t *r)
{
    ngx_int_t                rc;
    ngx_uint_t               code, again;
    wq_state_t               state;
    const char              *status;
    ngx_http_wq_gate_t      *gate;
    ngx_http_wq_loc_conf_t  *lcf;

    gate = ngx_http_wq_gate_get(r);
    lcf = ngx_http_get_module_loc_conf(r, ngx_http_waiting_queue_module);

    if (ngx_http_wq_worker) {
        wq_counter_add(ngx_http_wq_worker->slot->counters.gate_kept_back, 1);
    }

    rc = ngx_http_discard_request_body(r);

    if (rc != NGX_OK) {
        return rc;
    }

    /* it is no version of what is behind the gate */
    r->disable_not_modified = 1;

    /* the page asks once more by itself, and then the cookies are sent */

    if (gate->accept != WQ_ACCEPT_HTML) {

        if (gate->withheld) {
            return ngx_http_wq_send_cross_site(r);
        }

        if (gate->reason == NGX_HTTP_WQ_GATE_NO_CAPACITY) {
            return ngx_http_wq_send_capacity_unavailable(r);
        }

        if (gate->reason != NGX_HTTP_WQ_GATE_BY_STATE) {
            return ngx_http_wq_send_redis_unavailable(r);
        }
    }

    code = ngx_http_wq_gate_code(gate, lcf);
    again = ngx_http_wq_gate_again(gate, lcf);

    ngx_http_wq_gate_state(gate, &state);

    if (gate->accept != WQ_ACCEPT_HTML) {
        return ngx_http_wq_send_state(r, code, &state, again);
    }

    status = gate->reason == NGX_HTTP_WQ_GATE_BY_STATE
             ? wq_status_word(gate->status) : "unavailable";

    if (ngx_http_wq_add_retry_after(r, again) != NGX_OK
        || ngx_http_wq_add_header(r, "Vary", "Accept, Accept-Language")
           != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    return ngx_http_wq_page_send(r, code, lcf->page, &state, status, again);
}


static ngx_uint_t
ngx_http_wq_gate_code(ngx_http_wq_gate_t *gate, ngx_http_wq_loc_conf_t *lcf)
{
    if (gate->reason != NGX_HTTP_WQ_GATE_BY_STATE) {
        return NGX_HTTP_SERVICE_UNAVAILABLE;
    }

    switch (gate->status) {

    case WQ_STATUS_SOLD_OUT:
    case WQ_STATUS_CLOSED:
        return NGX_HTTP_WQ_GONE;

    case WQ_STATUS_FULL:
        return NGX_HTTP_TOO_MANY_REQUESTS;

    default:
        return lcf->code;
    }
}


/*
 * In how many seconds to ask again: the further behind the later, as it changes
 * less there; but well before the place is given up for silence.
 */

static ngx_uint_t
ngx_http_wq_gate_again(ngx_http_wq_gate_t *gate, ngx_http_wq_loc_conf_t *lcf)
{
    if (gate->reason != NGX_HTTP_WQ_GATE_BY_STATE) {
        return ngx_http_wq_retry_after();
    }

    switch (gate->status) {

    case WQ_STATUS_NONE:
        /* to come back with the cookie */
        return 1;

    case WQ_STATUS_WAITING:
        return wq_poll_ms(gate->rank, lcf->poll_timeout) / 1000;

    case WQ_STATUS_FULL:
        return NGX_HTTP_WQ_RETRY_MAX;

    default:
        return 60;
    }
}
