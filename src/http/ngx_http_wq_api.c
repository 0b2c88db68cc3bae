
/*
 * http: the token API, `waiting_queue_api`, for apps and pages that poll.
 *
 *   POST    joins, and enters where that is possible
 *   GET     how things stand; keeps a place, and renews a lease
 *   DELETE  leaves the line, or gives the lease back
 *
 * One question to Redis for each request, which waits for the answer as one at
 * the gate does.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_wq_capacity.h"

#include "wq_poll.h"


#define NGX_HTTP_WQ_API_METHODS  "POST, GET, HEAD, DELETE, OPTIONS"


/* in the pool of the request */

typedef struct {
    ngx_http_request_t     *request;

    ngx_str_t               event;
    ngx_str_t               user;

    ngx_http_wq_visit_t     visit;
    ngx_http_wq_asker_t     asker;

    unsigned                new_user:1;     /* has no cookie yet */
} ngx_http_wq_api_t;


static ngx_int_t ngx_http_wq_api_refused(ngx_http_request_t *r);
static ngx_int_t ngx_http_wq_api_options(ngx_http_request_t *r);
static ngx_int_t ngx_http_wq_api_identify(ngx_http_request_t *r,
    ngx_http_wq_api_t *api);
static ngx_int_t ngx_http_wq_api_ask(ngx_http_request_t *r,
    ngx_http_wq_api_t *api);
static void ngx_http_wq_api_cleanup(void *data);
static void ngx_http_wq_api_answered(ngx_http_wq_visit_t *visit,
    const ngx_http_wq_visit_answer_t *answer);
static void ngx_http_wq_api_forget(ngx_http_wq_api_t *api);
static ngx_int_t ngx_http_wq_api_send(ngx_http_wq_api_t *api,
    const ngx_http_wq_visit_answer_t *answer);
static ngx_uint_t ngx_http_wq_api_code(ngx_http_request_t *r,
    wq_status_e status);
static uint32_t ngx_http_wq_api_poll_ms(ngx_http_request_t *r,
    const ngx_http_wq_visit_answer_t *answer);
static void ngx_http_wq_api_lost(ngx_http_wq_visit_t *visit);
static void ngx_http_wq_api_lost_handler(ngx_http_request_t *r);
static ngx_int_t ngx_http_wq_api_rejoin(ngx_http_wq_asker_t *asker,
    int64_t capacity);
static void ngx_http_wq_api_refuse_capacity(ngx_http_wq_asker_t *asker);
static ngx_int_t ngx_http_wq_api_unavailable(ngx_http_request_t *r);


/* what is said of somebody of whom nothing is known */

static const ngx_http_wq_visit_answer_t  ngx_http_wq_api_nobody = {
    .status = WQ_STATUS_NONE,
    .rank = WQ_STATE_UNKNOWN,
    .total = WQ_STATE_UNKNOWN,
    .eta = WQ_STATE_UNKNOWN
};


static const ngx_http_wq_asker_ops_t  ngx_http_wq_api_asker_ops = {
    ngx_http_wq_api_rejoin,
    ngx_http_wq_api_refuse_capacity
};


ngx_int_t
ngx_http_wq_api_handler(ngx_http_request_t *r)
{
    ngx_int_t           rc;
    ngx_http_wq_api_t  *api;

    rc = ngx_http_wq_api_refused(r);

    if (rc != NGX_DECLINED) {
        return rc;
    }

    rc = ngx_http_discard_request_body(r);

    if (rc != NGX_OK) {
        return rc;
    }

    if (r->method == NGX_HTTP_OPTIONS) {
        return ngx_http_wq_api_options(r);
    }

    api = ngx_pcalloc(r->pool, sizeof(ngx_http_wq_api_t));
    if (api == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    api->request = r;

    rc = ngx_http_wq_api_identify(r, api);

    if (rc != NGX_DECLINED) {
        return rc;
    }

    if (api->user.len == 0) {
        /* nobody has nothing */
        return ngx_http_wq_api_send(api, &ngx_http_wq_api_nobody);
    }

    if (ngx_http_wq_worker == NULL) {
        return ngx_http_wq_api_unavailable(r);
    }

    return ngx_http_wq_api_ask(r, api);
}


/* NGX_DECLINED: it is a request that there is an answer to */

static ngx_int_t
ngx_http_wq_api_refused(ngx_http_request_t *r)
{
    if (r != r->main) {
        /* whoever waits would be let in by auth_request */
        ngx_log_error(NGX_LOG_ERR, r->connection->log, 0,
                      "waiting_queue: the token API cannot be a subrequest");
        return NGX_HTTP_FORBIDDEN;
    }

    if (!(r->method & (NGX_HTTP_POST|NGX_HTTP_GET|NGX_HTTP_HEAD
                       |NGX_HTTP_DELETE|NGX_HTTP_OPTIONS)))
    {
        return ngx_http_wq_send_not_allowed(r, NGX_HTTP_WQ_API_METHODS);
    }

    return NGX_DECLINED;
}


/* what a browser asks before a request from another site: see add_header */

static ngx_int_t
ngx_http_wq_api_options(ngx_http_request_t *r)
{
    if (ngx_http_wq_add_header(r, "Allow", NGX_HTTP_WQ_API_METHODS)
        != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    return ngx_http_wq_send_empty(r);
}


/*
 * NGX_DECLINED, and a user of no length for one who has no cookie and does not
 * need one; or what a content handler returns for one who cannot be answered.
 */

static ngx_int_t
ngx_http_wq_api_identify(ngx_http_request_t *r, ngx_http_wq_api_t *api)
{
    ngx_int_t                rc;
    ngx_http_wq_loc_conf_t  *lcf;

    rc = ngx_http_wq_find_event(r, &api->event);

    if (rc != NGX_OK) {
        return ngx_http_wq_send_bad_event(r, rc);
    }

    rc = ngx_http_wq_find_user(r, &api->user);

    if (rc == NGX_OK) {
        return NGX_DECLINED;
    }

    lcf = ngx_http_get_module_loc_conf(r, ngx_http_waiting_queue_module);

    if (rc != NGX_DECLINED || lcf->user) {
        return ngx_http_wq_send_bad_user(r, rc);
    }

    ngx_str_null(&api->user);

    if (r->method != NGX_HTTP_POST) {
        return NGX_DECLINED;
    }

    if (ngx_http_wq_cookie_is_withheld(r)) {
        return ngx_http_wq_send_cross_site(r);
    }

    /* takes no place before it has returned the cookie */

    api->new_user = 1;

    return ngx_http_wq_cookie_new_user(r, &api->user) == NGX_OK
           ? NGX_DECLINED : NGX_HTTP_INTERNAL_SERVER_ERROR;
}


/* NGX_DONE: the request waits for Redis; or what a content handler returns */

static ngx_int_t
ngx_http_wq_api_ask(ngx_http_request_t *r, ngx_http_wq_api_t *api)
{
    ngx_int_t                rc;
    ngx_http_cleanup_t      *cln;
    ngx_http_wq_visit_t     *visit;
    wq_process_counters_t   *counters;
    ngx_http_wq_loc_conf_t  *lcf;

    lcf = ngx_http_get_module_loc_conf(r, ngx_http_waiting_queue_module);
    counters = &ngx_http_wq_worker->slot->counters;
    visit = &api->visit;

    cln = ngx_http_cleanup_add(r, 0);
    if (cln == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    if (ngx_http_wq_visit_open(ngx_http_wq_worker, visit, &api->event)
        != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    cln->handler = ngx_http_wq_api_cleanup;
    cln->data = api;

    visit->user = api->user;
    visit->rules = &lcf->rules;
    visit->mode = api->new_user ? NGX_HTTP_WQ_JOIN_VISIT
                                : NGX_HTTP_WQ_JOIN_ENTER;
    visit->handler = ngx_http_wq_api_answered;
    visit->lost = ngx_http_wq_api_lost;
    visit->data = api;

    api->asker.ops = &ngx_http_wq_api_asker_ops;
    api->asker.data = api;
    api->asker.request = r;
    api->asker.event = visit->event;
    api->asker.joined = ngx_current_msec;

    switch (r->method) {

    case NGX_HTTP_POST:
        wq_counter_add(counters->api_joins, 1);
        rc = ngx_http_wq_visit_join(visit, -1);
        break;

    case NGX_HTTP_DELETE:
        wq_counter_add(counters->api_quits, 1);
        rc = ngx_http_wq_visit_quit(visit);
        break;

    default:
        wq_counter_add(counters->api_polls, 1);
        rc = ngx_http_wq_visit_status(visit);
    }

    if (rc != NGX_OK) {
        ngx_http_wq_visit_close(visit);
        return ngx_http_wq_api_unavailable(r);
    }

    r->main->count++;

    if (r->discard_body) {
        /* the rest of the body is read, and the end of the connection seen */
        r->write_event_handler = ngx_http_request_empty_handler;

    } else {
        ngx_http_wq_park(r);
    }

    return NGX_DONE;
}


/* the request ends: whatever was asked is not answered any more */

static void
ngx_http_wq_api_cleanup(void *data)
{
    ngx_http_wq_api_t *api = data;

    ngx_http_wq_capacity_forget(&api->asker);
    ngx_http_wq_capacity_stored(&api->asker);
    ngx_http_wq_visit_close(&api->visit);
}


/* the request, and the API's part of it, may be gone when this returns */

static void
ngx_http_wq_api_answered(ngx_http_wq_visit_t *visit,
    const ngx_http_wq_visit_answer_t *answer)
{
    ngx_int_t            rc;
    ngx_http_wq_api_t   *api;
    ngx_http_request_t  *r;

    api = visit->data;
    r = api->request;

    ngx_http_set_log_request(r->connection->log, r);

    ngx_http_wq_capacity_stored(&api->asker);

    if (answer->outcome == NGX_HTTP_WQ_VISIT_NO_CAPACITY
        && r->method == NGX_HTTP_POST)
    {
        ngx_http_wq_capacity_find(&api->asker);
        return;
    }

    if (answer->outcome != NGX_HTTP_WQ_VISIT_ANSWERED) {
        rc = ngx_http_wq_api_unavailable(r);

    } else if (r->method != NGX_HTTP_DELETE) {
        rc = ngx_http_wq_api_send(api, answer);

    } else {
        ngx_http_wq_api_forget(api);
        rc = answer->had ? ngx_http_wq_send_empty(r)
                         : ngx_http_wq_api_send(api, &ngx_http_wq_api_nobody);
    }

    ngx_http_wq_finalize(r, rc);
}


/* the lease was given back: the token is good no more, at once */

static void
ngx_http_wq_api_forget(ngx_http_wq_api_t *api)
{
    ngx_msec_t                  ends;
    ngx_http_wq_zone_t         *zone;
    ngx_http_wq_known_token_t   known;

    static const ngx_str_t  any = ngx_null_string;

    zone = ngx_http_wq_worker->conf->zone;

    if (ngx_http_wq_zone_token_find(zone, &api->event, &api->user, &any,
                                    &known, &ends)
        == NGX_OK)
    {
        ngx_http_wq_zone_token_end(zone, &api->event, &api->user, &known,
                                   ends);
    }
}


static ngx_int_t
ngx_http_wq_api_send(ngx_http_wq_api_t *api,
    const ngx_http_wq_visit_answer_t *answer)
{
    wq_state_t           state;
    ngx_http_request_t  *r;

    r = api->request;

    ngx_memzero(&state, sizeof(wq_state_t));

    state.status = answer->status;
    state.event.len = api->event.len;
    state.event.data = api->event.data;
    state.user.len = api->user.len;
    state.user.data = api->user.data;
    state.rank = answer->rank;
    state.total = answer->total;
    state.eta = answer->eta;
    state.expires = WQ_STATE_UNKNOWN;

    if (answer->token) {
        state.token.len = WQ_TOKEN_LEN;
        state.token.data = (u_char *) answer->token;
        state.expires = answer->expires;
    }

    if (api->new_user
        && ngx_http_wq_cookie_set_user(r, &api->user) != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    return ngx_http_wq_send_poll_state(r,
                                       ngx_http_wq_api_code(r, state.status),
                                       &state,
                                       ngx_http_wq_api_poll_ms(r, answer));
}


static ngx_uint_t
ngx_http_wq_api_code(ngx_http_request_t *r, wq_status_e status)
{
    switch (status) {

    case WQ_STATUS_READY:
    case WQ_STATUS_ENTERED:
        return NGX_HTTP_OK;

    case WQ_STATUS_WAITING:
        return r->method == NGX_HTTP_POST ? NGX_HTTP_ACCEPTED : NGX_HTTP_OK;

    case WQ_STATUS_SOLD_OUT:
    case WQ_STATUS_CLOSED:
        return NGX_HTTP_WQ_GONE;

    case WQ_STATUS_FULL:
        return NGX_HTTP_TOO_MANY_REQUESTS;

    default:
        /* who has just got a cookie is to come again with it */
        return r->method == NGX_HTTP_POST ? NGX_HTTP_ACCEPTED
                                          : NGX_HTTP_NOT_FOUND;
    }
}


/* in how many ms to ask again; 0 if there is nothing to ask any more */

static uint32_t
ngx_http_wq_api_poll_ms(ngx_http_request_t *r,
    const ngx_http_wq_visit_answer_t *answer)
{
    ngx_msec_int_t           left;
    ngx_http_wq_loc_conf_t  *lcf;

    lcf = ngx_http_get_module_loc_conf(r, ngx_http_waiting_queue_module);

    switch (answer->status) {

    case WQ_STATUS_WAITING:
        return wq_poll_spread(wq_poll_ms(answer->rank, lcf->poll_timeout),
                              (uint32_t) ngx_random());

    case WQ_STATUS_READY:
        /* to enter, at once; then to be seen to have done so */
        return WQ_POLL_MIN;

    case WQ_STATUS_ENTERED:
        left = (ngx_msec_int_t) (answer->ends - ngx_current_msec);
        return wq_poll_ms(WQ_STATE_UNKNOWN, (uint64_t) ngx_max(left, 0));

    case WQ_STATUS_FULL:
        return wq_poll_spread(WQ_POLL_MAX, (uint32_t) ngx_random());

    case WQ_STATUS_NONE:
        /* who has just got a cookie comes again with it */
        return r->method == NGX_HTTP_POST ? WQ_POLL_MIN : 0;

    default:
        return 0;
    }
}


/* the worker is gone; answered by an event of the request's own */

static void
ngx_http_wq_api_lost(ngx_http_wq_visit_t *visit)
{
    ngx_http_wq_api_t   *api;
    ngx_http_request_t  *r;

    api = visit->data;
    r = api->request;

    ngx_http_wq_capacity_forget(&api->asker);
    ngx_http_wq_capacity_stored(&api->asker);

    r->write_event_handler = ngx_http_wq_api_lost_handler;

    ngx_post_event(r->connection->write, &ngx_posted_events);
}


static void
ngx_http_wq_api_lost_handler(ngx_http_request_t *r)
{
    r->write_event_handler = ngx_http_request_empty_handler;

    ngx_http_finalize_request(r, ngx_http_wq_send_redis_unavailable(r));
}


static ngx_int_t
ngx_http_wq_api_rejoin(ngx_http_wq_asker_t *asker, int64_t capacity)
{
    ngx_http_wq_api_t   *api;
    ngx_http_request_t  *r;

    api = asker->data;

    if (ngx_http_wq_visit_join(&api->visit, capacity) == NGX_OK) {
        return NGX_OK;
    }

    r = api->request;

    ngx_http_wq_finalize(r, ngx_http_wq_api_unavailable(r));

    return NGX_ERROR;
}


static void
ngx_http_wq_api_refuse_capacity(ngx_http_wq_asker_t *asker)
{
    ngx_http_wq_api_t   *api;
    ngx_http_request_t  *r;

    api = asker->data;
    r = api->request;

    wq_counter_add(ngx_http_wq_worker->slot->counters.api_unavailable, 1);

    ngx_http_wq_finalize(r, ngx_http_wq_send_capacity_unavailable(r));
}


/* 503: nothing was stored, as far as is known; what a handler returns */

static ngx_int_t
ngx_http_wq_api_unavailable(ngx_http_request_t *r)
{
    if (ngx_http_wq_worker) {
        wq_counter_add(ngx_http_wq_worker->slot->counters.api_unavailable, 1);
    }

    return ngx_http_wq_send_redis_unavailable(r);
}
