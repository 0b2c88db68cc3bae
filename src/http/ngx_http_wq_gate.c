
/*
 * http: the gate, `waiting_queue on`.
 *
 *   token good ----------------------------> pass, to the backend
 *   else, text/event-stream ---------------> the stream, of the same address
 *   else join: a slot is free, or a lease -> pass
 *              else -----------------------> the page, or the JSON
 *
 * In the phase before content, when the access modules have had their say.  The
 * request waits for Redis with its body unread, and then goes on as if nothing
 * had been.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_wq_gate.h"


static ngx_int_t ngx_http_wq_gate_handler(ngx_http_request_t *r);
static ngx_int_t ngx_http_wq_gate_enter(ngx_http_request_t *r,
    ngx_http_wq_gate_t *gate, const ngx_str_t *event);
static ngx_http_wq_gate_t *ngx_http_wq_gate_create(ngx_http_request_t *r);
static void ngx_http_wq_gate_tag(void *data);
static void ngx_http_wq_gate_cleanup(void *data);
static ngx_int_t ngx_http_wq_gate_identify(ngx_http_request_t *r,
    ngx_http_wq_gate_t *gate);
static ngx_int_t ngx_http_wq_gate_refuse_id(ngx_http_request_t *r,
    ngx_int_t rc);
static ngx_int_t ngx_http_wq_gate_decide(ngx_http_wq_gate_t *gate);


ngx_int_t
ngx_http_wq_gate_init(ngx_conf_t *cf)
{
    ngx_http_handler_pt        *h;
    ngx_http_core_main_conf_t  *cmcf;

    cmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module);

    h = ngx_array_push(&cmcf->phases[NGX_HTTP_PRECONTENT_PHASE].handlers);
    if (h == NULL) {
        return NGX_ERROR;
    }

    *h = ngx_http_wq_gate_handler;

    h = ngx_array_push(&cmcf->phases[NGX_HTTP_REWRITE_PHASE].handlers);
    if (h == NULL) {
        return NGX_ERROR;
    }

    *h = ngx_http_wq_gate_redirected;

    ngx_http_wq_gate_filter_init();

    return NGX_OK;
}


static ngx_int_t
ngx_http_wq_gate_handler(ngx_http_request_t *r)
{
    ngx_int_t                rc;
    ngx_str_t                event;
    ngx_http_wq_gate_t      *gate;
    ngx_http_wq_loc_conf_t  *lcf;

    lcf = ngx_http_get_module_loc_conf(r, ngx_http_waiting_queue_module);

    if (!lcf->gate || r != r->main || ngx_http_wq_is_endpoint(r)) {
        /* the module's own endpoints are not what one waits for */
        return NGX_DECLINED;
    }

    gate = ngx_http_wq_gate_get(r);

    if (gate && gate->verdict == NGX_HTTP_WQ_GATE_ASKING) {
        return NGX_AGAIN;
    }

    if (lcf->bypass
        && ngx_http_test_predicates(r, lcf->bypass) == NGX_DECLINED)
    {
        if (gate == NULL && ngx_http_wq_worker) {
            wq_counter_add(ngx_http_wq_worker->slot->counters.gate_bypassed,
                           1);
        }

        return NGX_DECLINED;
    }

    rc = ngx_http_wq_find_event(r, &event);

    if (rc == NGX_OK && gate && gate->event.len == event.len
        && ngx_strncmp(gate->event.data, event.data, event.len) == 0)
    {
        /* what was waited for has come, or it is another location */
        return ngx_http_wq_gate_decide(gate);
    }

    if (rc != NGX_OK) {

        if (lcf->dry_run) {
            ngx_log_error(NGX_LOG_INFO, r->connection->log, 0,
                          "waiting_queue: \"%V\" is no event id, dry run",
                          &event);
            return NGX_DECLINED;
        }

        ngx_http_finalize_request(r, ngx_http_wq_send_bad_event(r, rc));
        return NGX_DONE;
    }

    return ngx_http_wq_gate_enter(r, gate, &event);
}


/* to the gate of an event, for the first time, or after that of another */

static ngx_int_t
ngx_http_wq_gate_enter(ngx_http_request_t *r, ngx_http_wq_gate_t *gate,
    const ngx_str_t *event)
{
    ngx_int_t                rc;
    ngx_http_wq_loc_conf_t  *lcf;

    if (gate) {
        ngx_http_wq_gate_cleanup(gate);

        /* a stream that was refused may have given it up */
        gate->cleanup->handler = ngx_http_wq_gate_cleanup;

    } else {
        gate = ngx_http_wq_gate_create(r);
        if (gate == NULL) {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }
    }

    lcf = ngx_http_get_module_loc_conf(r, ngx_http_waiting_queue_module);

    gate->verdict = NGX_HTTP_WQ_GATE_ASKING;
    gate->reason = NGX_HTTP_WQ_GATE_BY_STATE;
    gate->event = *event;
    gate->status = WQ_STATUS_NONE;
    gate->rank = WQ_STATE_UNKNOWN;
    gate->total = 0;
    gate->eta = WQ_STATE_UNKNOWN;
    gate->has_lease = 0;
    gate->bad_token = 0;
    gate->is_over = 0;

    rc = ngx_http_wq_gate_identify(r, gate);

    if (rc != NGX_OK) {
        gate->verdict = NGX_HTTP_WQ_GATE_PASS;
        return ngx_http_wq_gate_refuse_id(r, rc);
    }

    if (gate->withheld) {
        gate->verdict = NGX_HTTP_WQ_GATE_ANSWER;
        return ngx_http_wq_gate_decide(gate);
    }

    if (gate->accept == WQ_ACCEPT_EVENT_STREAM && gate->shown.len == 0
        && !lcf->dry_run)
    {
        gate->verdict = NGX_HTTP_WQ_GATE_STREAM;
        return ngx_http_wq_gate_decide(gate);
    }

    if (ngx_http_wq_worker && ngx_http_wq_gate_known(gate, 1)) {
        wq_counter_add(ngx_http_wq_worker->slot->counters.gate_remembered, 1);
        return ngx_http_wq_gate_decide(gate);
    }

    rc = ngx_http_wq_worker ? ngx_http_wq_gate_ask(gate) : NGX_DECLINED;

    if (rc != NGX_OK) {
        ngx_http_wq_gate_not_asked(gate, rc);
        return ngx_http_wq_gate_decide(gate);
    }

    return NGX_AGAIN;
}


static ngx_http_wq_gate_t *
ngx_http_wq_gate_create(ngx_http_request_t *r)
{
    ngx_pool_cleanup_t  *tag;
    ngx_http_cleanup_t  *cln;
    ngx_http_wq_gate_t  *gate;

    cln = ngx_http_cleanup_add(r, 0);
    if (cln == NULL) {
        return NULL;
    }

    tag = ngx_pool_cleanup_add(r->pool, sizeof(ngx_http_wq_gate_t));
    if (tag == NULL) {
        return NULL;
    }

    gate = tag->data;
    ngx_memzero(gate, sizeof(ngx_http_wq_gate_t));

    gate->request = r;
    gate->cleanup = cln;

    tag->handler = ngx_http_wq_gate_tag;

    cln->handler = ngx_http_wq_gate_cleanup;
    cln->data = gate;

    return gate;
}


/* nothing to do: it is what the gate is found by */

static void
ngx_http_wq_gate_tag(void *data)
{
}


ngx_uint_t
ngx_http_wq_gate_is_cleanup(ngx_pool_cleanup_t *cln)
{
    return cln->handler == ngx_http_wq_gate_tag;
}


ngx_http_wq_gate_t *
ngx_http_wq_gate_get(ngx_http_request_t *r)
{
    ngx_pool_cleanup_t  *cln;

    for (cln = r->main->pool->cleanup; cln; cln = cln->next) {
        if (cln->handler == ngx_http_wq_gate_tag) {
            return cln->data;
        }
    }

    return NULL;
}


/*
 * The request ends, or goes on without the gate; whatever was asked is not
 * answered any more.  What is known stays, for the log.
 */

static void
ngx_http_wq_gate_cleanup(void *data)
{
    ngx_http_wq_gate_t *gate = data;

    ngx_http_wq_capacity_forget(&gate->asker);
    ngx_http_wq_capacity_stored(&gate->asker);
    ngx_http_wq_visit_close(&gate->visit);

    if (gate->admitted_by) {

        /* unless it is gone already */

        if (gate->admitted_by == ngx_http_wq_worker) {
            ngx_http_wq_visits_dismiss(gate->admitted_by);
        }

        gate->admitted_by = NULL;
    }
}


/*
 * Who is it, with which token, and what does it want to hear.  NGX_OK, or what
 * ngx_http_wq_find_user() returns for one who cannot be let in.
 */

static ngx_int_t
ngx_http_wq_gate_identify(ngx_http_request_t *r, ngx_http_wq_gate_t *gate)
{
    ngx_int_t                rc;
    ngx_table_elt_t         *header;
    ngx_http_wq_loc_conf_t  *lcf;

    static const ngx_str_t  accept = ngx_string("accept");
    static const ngx_str_t  token = ngx_string("x-waiting-queue-token");

    lcf = ngx_http_get_module_loc_conf(r, ngx_http_waiting_queue_module);

    header = ngx_http_wq_find_header(&r->headers_in.headers, &accept);

    gate->accept = header ? wq_accept(header->value.data, header->value.len)
                          : WQ_ACCEPT_JSON;
    gate->withheld = 0;

    if (gate->new_user && lcf->user == NULL) {
        /* of another event: the cookie is for both */
        ngx_str_null(&gate->shown);
        return NGX_OK;
    }

    gate->new_user = 0;

    rc = ngx_http_wq_find_user(r, &gate->user);

    if (rc == NGX_DECLINED && lcf->user == NULL) {

        /*
         * Has not yet returned a cookie, and so never takes a place.  A stream
         * gives it one by itself.
         */

        ngx_str_null(&gate->shown);

        if (ngx_http_wq_cookie_is_withheld(r)) {
            ngx_str_null(&gate->user);
            gate->withheld = 1;
            return NGX_OK;
        }

        if (gate->accept == WQ_ACCEPT_EVENT_STREAM && !lcf->dry_run) {
            ngx_str_null(&gate->user);
            return NGX_OK;
        }

        gate->new_user = 1;

        return ngx_http_wq_cookie_new_user(r, &gate->user);
    }

    if (rc != NGX_OK) {
        return rc;
    }

    header = ngx_http_wq_find_header(&r->headers_in.headers, &token);

    if (header) {
        gate->shown = header->value;

        if (gate->shown.len != WQ_TOKEN_LEN
            || wq_id_check(gate->shown.data, gate->shown.len) != WQ_OK)
        {
            ngx_str_null(&gate->shown);
        }

    } else {
        ngx_http_wq_cookie_token(r, &gate->event, &gate->shown);
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_wq_gate_refuse_id(ngx_http_request_t *r, ngx_int_t rc)
{
    ngx_http_wq_loc_conf_t  *lcf;

    lcf = ngx_http_get_module_loc_conf(r, ngx_http_waiting_queue_module);

    if (lcf->dry_run) {
        ngx_log_error(NGX_LOG_INFO, r->connection->log, 0,
                      "waiting_queue: there is no user id, dry run");
        return NGX_DECLINED;
    }

    ngx_http_finalize_request(r, ngx_http_wq_send_bad_user(r, rc));

    return NGX_DONE;
}


/* what the phase returns */

static ngx_int_t
ngx_http_wq_gate_decide(ngx_http_wq_gate_t *gate)
{
    ngx_http_request_t      *r;
    wq_process_counters_t   *counters;
    ngx_http_wq_loc_conf_t  *lcf;

    r = gate->request;
    lcf = ngx_http_get_module_loc_conf(r, ngx_http_waiting_queue_module);
    counters = ngx_http_wq_worker ? &ngx_http_wq_worker->slot->counters : NULL;

    if (gate->verdict != NGX_HTTP_WQ_GATE_PASS && lcf->dry_run) {

        ngx_log_error(NGX_LOG_INFO, r->connection->log, 0,
                      "waiting_queue: user \"%V\" of event \"%V\" would have "
                      "been kept back, %s, dry run", &gate->user, &gate->event,
                      gate->reason == NGX_HTTP_WQ_GATE_BY_STATE
                      ? wq_status_word(gate->status)
                      : gate->reason == NGX_HTTP_WQ_GATE_NO_CAPACITY
                        ? "capacity_unavailable"
                        : "redis_unavailable");

        if (counters) {
            wq_counter_add(counters->gate_dry_run, 1);
        }

        gate->verdict = NGX_HTTP_WQ_GATE_PASS;
    }

    switch (gate->verdict) {

    case NGX_HTTP_WQ_GATE_STREAM:
        /* the stream may leave its request, if nothing hangs on it */
        gate->cleanup->handler = NULL;

        r->content_handler = ngx_http_wq_stream_handler;
        return NGX_OK;

    case NGX_HTTP_WQ_GATE_ANSWER:
        r->content_handler = ngx_http_wq_gate_answer;
        return NGX_OK;

    default:
        break;
    }

    if (gate->admitted_by == NULL && ngx_http_wq_worker) {
        gate->admitted_by = ngx_http_wq_worker;
        ngx_http_wq_visits_admit(ngx_http_wq_worker);

        wq_counter_add(counters->gate_passed, 1);
    }

    return NGX_DECLINED;
}


void
ngx_http_wq_gate_state(ngx_http_wq_gate_t *gate, wq_state_t *state)
{
    ngx_memzero(state, sizeof(wq_state_t));

    state->status = gate->status;
    state->event.len = gate->event.len;
    state->event.data = gate->event.data;
    state->user.len = gate->user.len;
    state->user.data = gate->user.data;
    state->rank = gate->rank;
    state->total = gate->total;
    state->eta = gate->eta;
    state->expires = WQ_STATE_UNKNOWN;
}
