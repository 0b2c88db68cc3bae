
/*
 * http: what a request at the gate asks, and what it makes of the answers.
 *
 * First the zone, which knows what Redis has said a moment ago; then Redis,
 * whether the token is good, and else whether the user can come in; and where
 * no capacity is known the event service.  Each answer leads to a verdict, with
 * which the phases of the request go on.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_wq_gate.h"


/* how long a token that Redis has found good is good without asking, in ms */
#define NGX_HTTP_WQ_GATE_FRESH  1000


static void ngx_http_wq_gate_resume(ngx_http_wq_gate_t *gate);
static void ngx_http_wq_gate_touched(ngx_http_wq_visit_t *visit,
    const ngx_http_wq_visit_answer_t *answer);
static void ngx_http_wq_gate_joined(ngx_http_wq_visit_t *visit,
    const ngx_http_wq_visit_answer_t *answer);
static void ngx_http_wq_gate_lost(ngx_http_wq_visit_t *visit);
static void ngx_http_wq_gate_learn(ngx_http_wq_gate_t *gate,
    const ngx_http_wq_visit_answer_t *answer);
static void ngx_http_wq_gate_unavailable(ngx_http_wq_gate_t *gate,
    ngx_http_wq_gate_reason_e reason);
static ngx_int_t ngx_http_wq_gate_ration(ngx_http_wq_gate_t *gate);
static ngx_int_t ngx_http_wq_gate_rejoin(ngx_http_wq_asker_t *asker,
    int64_t capacity);
static void ngx_http_wq_gate_refuse_capacity(ngx_http_wq_asker_t *asker);


static const ngx_http_wq_asker_ops_t  ngx_http_wq_gate_asker_ops = {
    ngx_http_wq_gate_rejoin,
    ngx_http_wq_gate_refuse_capacity
};


ngx_uint_t
ngx_http_wq_gate_known(ngx_http_wq_gate_t *gate, ngx_uint_t fresh)
{
    if (gate->new_user || gate->user.len == 0
        || ngx_http_wq_zone_token_find(ngx_http_wq_worker->conf->zone,
                                       &gate->event, &gate->user, &gate->shown,
                                       &gate->lease, &gate->lease_ends)
           != NGX_OK)
    {
        return 0;
    }

    if (fresh
        && (ngx_msec_int_t) (ngx_current_msec - gate->lease.checked)
           >= NGX_HTTP_WQ_GATE_FRESH)
    {
        return 0;
    }

    gate->verdict = NGX_HTTP_WQ_GATE_PASS;
    gate->status = WQ_STATUS_ENTERED;
    gate->has_lease = 1;

    return 1;
}


ngx_int_t
ngx_http_wq_gate_ask(ngx_http_wq_gate_t *gate)
{
    ngx_int_t                rc;
    ngx_http_wq_visit_t     *visit;
    ngx_http_wq_loc_conf_t  *lcf;

    lcf = ngx_http_get_module_loc_conf(gate->request,
                                       ngx_http_waiting_queue_module);
    visit = &gate->visit;

    if (ngx_http_wq_visit_open(ngx_http_wq_worker, visit, &gate->event)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    visit->user = gate->user;
    visit->token = gate->shown;
    visit->rules = &lcf->rules;
    visit->mode = gate->new_user ? NGX_HTTP_WQ_JOIN_VISIT
                                 : NGX_HTTP_WQ_JOIN_ENTER;
    visit->lost = ngx_http_wq_gate_lost;
    visit->data = gate;

    gate->asker.ops = &ngx_http_wq_gate_asker_ops;
    gate->asker.data = gate;
    gate->asker.request = gate->request;
    gate->asker.event = visit->event;
    gate->asker.joined = ngx_current_msec;

    if (gate->shown.len) {
        visit->handler = ngx_http_wq_gate_touched;
        rc = ngx_http_wq_visit_touch(visit);

    } else {
        visit->handler = ngx_http_wq_gate_joined;
        rc = ngx_http_wq_visit_join(visit, -1);
    }

    if (rc == NGX_OK) {
        ngx_http_wq_park(gate->request);

    } else {
        ngx_http_wq_visit_close(visit);
    }

    return rc;
}


/* there is a verdict; the request may be gone when this returns */

static void
ngx_http_wq_gate_resume(ngx_http_wq_gate_t *gate)
{
    ngx_http_wq_visit_close(&gate->visit);
    ngx_http_wq_resume(gate->request);
}


static void
ngx_http_wq_gate_touched(ngx_http_wq_visit_t *visit,
    const ngx_http_wq_visit_answer_t *answer)
{
    ngx_int_t                rc;
    ngx_http_wq_gate_t      *gate;
    ngx_http_wq_worker_t    *worker;
    ngx_http_wq_loc_conf_t  *lcf;

    gate = visit->data;
    worker = visit->event->worker;

    if (answer->outcome == NGX_HTTP_WQ_VISIT_NO_REDIS) {
        ngx_http_wq_gate_unavailable(gate, NGX_HTTP_WQ_GATE_NO_REDIS);
        ngx_http_wq_gate_resume(gate);
        return;
    }

    if (answer->status == WQ_STATUS_ENTERED) {
        ngx_http_wq_gate_learn(gate, answer);
        ngx_http_wq_gate_resume(gate);
        return;
    }

    /* forged, of somebody else, lapsed, taken back: a visitor without one */

    wq_counter_add(worker->slot->counters.tokens_refused, 1);

    ngx_http_wq_zone_token_forget(worker->conf->zone, &gate->event,
                                  &gate->user, &gate->shown);

    gate->bad_token = 1;
    ngx_str_null(&gate->shown);

    lcf = ngx_http_get_module_loc_conf(gate->request,
                                       ngx_http_waiting_queue_module);

    if (gate->accept == WQ_ACCEPT_EVENT_STREAM && !lcf->dry_run) {
        gate->verdict = NGX_HTTP_WQ_GATE_STREAM;
        ngx_http_wq_gate_resume(gate);
        return;
    }

    visit->handler = ngx_http_wq_gate_joined;
    gate->asker.joined = ngx_current_msec;

    rc = ngx_http_wq_visit_join(visit, -1);

    if (rc != NGX_OK) {
        ngx_http_wq_gate_not_asked(gate, rc);
        ngx_http_wq_gate_resume(gate);
    }
}


static void
ngx_http_wq_gate_joined(ngx_http_wq_visit_t *visit,
    const ngx_http_wq_visit_answer_t *answer)
{
    ngx_http_wq_gate_t  *gate;

    gate = visit->data;

    ngx_http_wq_capacity_stored(&gate->asker);

    switch (answer->outcome) {

    case NGX_HTTP_WQ_VISIT_NO_CAPACITY:
        ngx_http_wq_capacity_find(&gate->asker);
        return;

    case NGX_HTTP_WQ_VISIT_NO_REDIS:
        ngx_http_wq_gate_unavailable(gate, NGX_HTTP_WQ_GATE_NO_REDIS);
        break;

    default:
        ngx_http_wq_gate_learn(gate, answer);
        break;
    }

    ngx_http_wq_gate_resume(gate);
}


/* the request goes on from an event of its own, if there is a next turn */

static void
ngx_http_wq_gate_lost(ngx_http_wq_visit_t *visit)
{
    ngx_http_wq_gate_t  *gate;

    gate = visit->data;

    ngx_http_wq_capacity_forget(&gate->asker);
    ngx_http_wq_capacity_stored(&gate->asker);

    ngx_http_wq_gate_unavailable(gate, NGX_HTTP_WQ_GATE_NO_REDIS);

    ngx_http_wq_resume_later(gate->request);
}


/* what Redis has said of the user, and with it the verdict */

static void
ngx_http_wq_gate_learn(ngx_http_wq_gate_t *gate,
    const ngx_http_wq_visit_answer_t *answer)
{
    gate->status = answer->status;
    gate->rank = answer->rank;
    gate->total = answer->total;
    gate->eta = answer->eta;

    if (answer->token == NULL) {
        gate->verdict = NGX_HTTP_WQ_GATE_ANSWER;
        return;
    }

    gate->verdict = NGX_HTTP_WQ_GATE_PASS;
    gate->has_lease = 1;
    gate->lease.checked = ngx_current_msec;
    gate->lease.expires = answer->expires;
    gate->lease.waited = answer->waited;
    gate->lease_ends = answer->ends;
    ngx_memcpy(gate->lease.token, answer->token, WQ_TOKEN_LEN);

    /* the next use of one that is ready makes it a full one, in Redis */
}


/* rc is why: a flood that fills the link must not open the gate */

void
ngx_http_wq_gate_not_asked(ngx_http_wq_gate_t *gate, ngx_int_t rc)
{
    ngx_http_wq_gate_unavailable(gate, rc == NGX_BUSY
                                       ? NGX_HTTP_WQ_GATE_BUSY
                                       : NGX_HTTP_WQ_GATE_NO_REDIS);
}


/* nothing could be found out: who is known to the node goes on */

static void
ngx_http_wq_gate_unavailable(ngx_http_wq_gate_t *gate,
    ngx_http_wq_gate_reason_e reason)
{
    wq_process_counters_t   *counters;
    ngx_http_wq_loc_conf_t  *lcf;

    counters = ngx_http_wq_worker ? &ngx_http_wq_worker->slot->counters : NULL;
    lcf = ngx_http_get_module_loc_conf(gate->request,
                                       ngx_http_waiting_queue_module);

    gate->reason = reason;

    if (reason != NGX_HTTP_WQ_GATE_NO_CAPACITY && counters
        && ngx_http_wq_gate_known(gate, 0))
    {
        gate->reason = NGX_HTTP_WQ_GATE_BY_STATE;
        wq_counter_add(counters->gate_remembered, 1);
        return;
    }

    if (reason != NGX_HTTP_WQ_GATE_NO_REDIS || !lcf->pass_on_error) {
        gate->verdict = NGX_HTTP_WQ_GATE_ANSWER;
        return;
    }

    if (ngx_http_wq_gate_ration(gate) != NGX_OK) {
        gate->verdict = NGX_HTTP_WQ_GATE_ANSWER;

        if (counters) {
            wq_counter_add(counters->gate_rationed, 1);
        }

        return;
    }

    gate->verdict = NGX_HTTP_WQ_GATE_PASS;

    if (counters) {
        wq_counter_add(counters->gate_passed_on_error, 1);
    }
}


/* NGX_OK: one more may pass; also where this process has no worker */

static ngx_int_t
ngx_http_wq_gate_ration(ngx_http_wq_gate_t *gate)
{
    ngx_http_wq_loc_conf_t   *lcf;
    ngx_http_wq_main_conf_t  *mcf;

    lcf = ngx_http_get_module_loc_conf(gate->request,
                                       ngx_http_waiting_queue_module);

    if (lcf->ration.period_ms == 0) {
        return NGX_OK;
    }

    mcf = ngx_http_get_module_main_conf(gate->request,
                                        ngx_http_waiting_queue_module);

    return ngx_http_wq_zone_ration(mcf->queue.zone, &gate->event,
                                   &lcf->ration);
}


static ngx_int_t
ngx_http_wq_gate_rejoin(ngx_http_wq_asker_t *asker, int64_t capacity)
{
    ngx_int_t            rc;
    ngx_http_wq_gate_t  *gate;

    gate = asker->data;

    rc = ngx_http_wq_visit_join(&gate->visit, capacity);

    if (rc == NGX_OK) {
        return NGX_OK;
    }

    ngx_http_wq_gate_not_asked(gate, rc);
    ngx_http_wq_gate_resume(gate);

    return NGX_ERROR;
}


static void
ngx_http_wq_gate_refuse_capacity(ngx_http_wq_asker_t *asker)
{
    ngx_http_wq_gate_t  *gate;

    gate = asker->data;

    ngx_http_wq_gate_unavailable(gate, NGX_HTTP_WQ_GATE_NO_CAPACITY);
    ngx_http_wq_gate_resume(gate);
}
