
/*
 * http: the stream endpoint, `waiting_queue_stream`.
 *
 * From the request to the stream, and from what the queue has to tell to the
 * event on the wire.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_wq_stream.h"


/* to a client that has just got its cookie */
#define NGX_HTTP_WQ_STREAM_COOKIE                                             \
    "retry: 1000\n: come again with the cookie\n\n"


static ngx_int_t ngx_http_wq_stream_send_cookie(ngx_http_request_t *r);
static ngx_int_t ngx_http_wq_stream_refused(ngx_http_request_t *r);
static ngx_uint_t ngx_http_wq_stream_is_over(ngx_http_request_t *r);
static ngx_int_t ngx_http_wq_stream_start(ngx_http_request_t *r,
    const ngx_str_t *event, const ngx_str_t *user);
static ngx_int_t ngx_http_wq_stream_leaving(ngx_http_request_t *r,
    const ngx_str_t *event, const ngx_str_t *user);
static ngx_int_t ngx_http_wq_stream_unavailable(ngx_http_request_t *r);
static void ngx_http_wq_stream_cleanup(void *data);
static void ngx_http_wq_stream_state(ngx_http_wq_client_t *client,
    wq_state_t *state);
static int64_t ngx_http_wq_stream_eta(ngx_http_wq_client_t *client);

static void ngx_http_wq_stream_accept(ngx_http_wq_client_t *client);
static void ngx_http_wq_stream_refuse(ngx_http_wq_client_t *client,
    ngx_http_wq_refusal_e refusal, wq_status_e status);
static void ngx_http_wq_stream_capacity(ngx_http_wq_client_t *client);
static ngx_int_t ngx_http_wq_stream_rejoin(ngx_http_wq_asker_t *asker,
    int64_t capacity);
static void ngx_http_wq_stream_refuse_capacity(ngx_http_wq_asker_t *asker);
static void ngx_http_wq_stream_position(ngx_http_wq_client_t *client);
static void ngx_http_wq_stream_promoted(ngx_http_wq_client_t *client);
static void ngx_http_wq_stream_end(ngx_http_wq_client_t *client,
    wq_sse_event_e event);
static void ngx_http_wq_stream_close(ngx_http_wq_client_t *client);


const ngx_http_wq_client_ops_t  ngx_http_wq_client_ops = {
    ngx_http_wq_stream_accept,
    ngx_http_wq_stream_refuse,
    ngx_http_wq_stream_capacity,
    ngx_http_wq_stream_position,
    ngx_http_wq_stream_promoted,
    ngx_http_wq_stream_end,
    ngx_http_wq_stream_close
};


static const ngx_http_wq_asker_ops_t  ngx_http_wq_stream_asker_ops = {
    ngx_http_wq_stream_rejoin,
    ngx_http_wq_stream_refuse_capacity
};


ngx_int_t
ngx_http_wq_stream_handler(ngx_http_request_t *r)
{
    ngx_int_t                rc;
    ngx_str_t                event, user;
    ngx_http_wq_loc_conf_t  *lcf;

    rc = ngx_http_wq_stream_refused(r);

    if (rc != NGX_DECLINED) {
        return rc;
    }

    rc = ngx_http_discard_request_body(r);

    if (rc != NGX_OK) {
        return rc;
    }

    if (ngx_http_wq_stream_is_over(r)) {
        /* which tells an EventSource not to come again; nobody else's */
        return ngx_http_wq_send_empty(r);
    }

    rc = ngx_http_wq_find_event(r, &event);

    if (rc != NGX_OK) {
        return ngx_http_wq_send_bad_event(r, rc);
    }

    rc = ngx_http_wq_find_user(r, &user);

    if (rc == NGX_OK) {
        return ngx_http_wq_stream_start(r, &event, &user);
    }

    lcf = ngx_http_get_module_loc_conf(r, ngx_http_waiting_queue_module);

    if (rc == NGX_DECLINED && lcf->user == NULL) {
        return ngx_http_wq_stream_send_cookie(r);
    }

    return ngx_http_wq_send_bad_user(r, rc);
}


/*
 * Who does not return the cookie never takes a place: it is issued on a stream
 * that ends at once, and an EventSource comes again with it.
 */

static ngx_int_t
ngx_http_wq_stream_send_cookie(ngx_http_request_t *r)
{
    ngx_str_t   user;
    ngx_buf_t  *b;

    if (ngx_http_wq_cookie_is_withheld(r)) {
        /* it would come again and again */
        return ngx_http_wq_send_cross_site(r);
    }

    if (ngx_http_wq_cookie_new_user(r, &user) != NGX_OK
        || ngx_http_wq_cookie_set_user(r, &user) != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    b = ngx_create_temp_buf(r->pool, sizeof(NGX_HTTP_WQ_STREAM_COOKIE) - 1);
    if (b == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    b->last = ngx_cpymem(b->last, NGX_HTTP_WQ_STREAM_COOKIE,
                         sizeof(NGX_HTTP_WQ_STREAM_COOKIE) - 1);

    return ngx_http_wq_send_stream(r, b);
}


/* NGX_DECLINED: it is a request that there can be a stream for */

static ngx_int_t
ngx_http_wq_stream_refused(ngx_http_request_t *r)
{
    ngx_http_core_loc_conf_t  *clcf;

    clcf = ngx_http_get_module_loc_conf(r, ngx_http_core_module);

    if (clcf->post_action.data) {
        /* it goes on with the request after the end that a stream sees */
        ngx_log_error(NGX_LOG_ERR, r->connection->log, 0,
                      "waiting_queue: a stream cannot have a post_action");
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    if (r != r->main) {
        /* whoever made the subrequest would wait for its end for ever */
        ngx_log_error(NGX_LOG_ERR, r->connection->log, 0,
                      "waiting_queue: a stream cannot be a subrequest");
        return NGX_HTTP_FORBIDDEN;
    }

    if (r->method != NGX_HTTP_GET) {
        return ngx_http_wq_send_not_allowed(r, "GET");
    }

    if (r->headers_in.content_length_n > 0 || r->headers_in.chunked) {
        return ngx_http_wq_send_error(r, NGX_HTTP_BAD_REQUEST,
                                      "unexpected_body",
                                      "a stream is asked for without a body");
    }

    return NGX_DECLINED;
}


static ngx_uint_t
ngx_http_wq_stream_is_over(ngx_http_request_t *r)
{
    ngx_table_elt_t  *header;

    static const ngx_str_t  name = ngx_string("last-event-id");
    static const ngx_str_t  over = ngx_string(WQ_SSE_OVER);

    header = ngx_http_wq_find_header(&r->headers_in.headers, &name);

    return header && header->value.len == over.len
           && ngx_strncmp(header->value.data, over.data, over.len) == 0;
}


static ngx_int_t
ngx_http_wq_stream_start(ngx_http_request_t *r, const ngx_str_t *event,
    const ngx_str_t *user)
{
    ngx_event_t             *rev;
    ngx_http_cleanup_t      *cln;
    ngx_http_wq_stream_t    *stream;
    ngx_http_wq_loc_conf_t  *lcf;

    if (ngx_http_wq_worker == NULL) {
        return ngx_http_wq_stream_unavailable(r);
    }

    rev = r->connection->read;

    if (rev->pending_eof) {

        /*
         * The client has gone already, perhaps to another worker: a join would
         * replace the stream that it has there.
         */

        return NGX_HTTP_CLIENT_CLOSED_REQUEST;
    }

    if (ngx_http_wq_worker->leaving) {
        return ngx_http_wq_stream_leaving(r, event, user);
    }

    if (!ngx_http_wq_client_has_room(ngx_http_wq_worker, event, user)) {
        wq_counter_add(ngx_http_wq_worker->slot->counters.streams_refused, 1);
        return ngx_http_wq_send_too_many_streams(r);
    }

    lcf = ngx_http_get_module_loc_conf(r, ngx_http_waiting_queue_module);

    cln = ngx_http_cleanup_add(r, 0);
    if (cln == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    stream = ngx_calloc(sizeof(ngx_http_wq_stream_t), r->connection->log);
    if (stream == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    stream->request = r;
    stream->connection = r->connection;
    stream->cleanup = cln;

    stream->asker.ops = &ngx_http_wq_stream_asker_ops;
    stream->asker.data = stream;
    stream->asker.request = r;
    stream->asker.joined = ngx_current_msec;

    cln->handler = ngx_http_wq_stream_cleanup;
    cln->data = stream;

    ngx_http_set_ctx(r, stream, ngx_http_waiting_queue_module);

    stream->client = ngx_http_wq_client_join(ngx_http_wq_worker, event, user,
                                             &lcf->rules, stream);
    if (stream->client == NULL) {
        return ngx_http_wq_stream_unavailable(r);
    }

    r->main->count++;

    r->read_event_handler = ngx_http_test_reading;
    r->write_event_handler = ngx_http_request_empty_handler;

    if (rev->ready) {
        ngx_post_event(rev, &ngx_posted_events);

    } else if (ngx_handle_read_event(rev, 0) != NGX_OK) {
        ngx_http_finalize_request(r, NGX_ERROR);
    }

    return NGX_DONE;
}


/*
 * One that was accepted just before: the worker that has come instead is for
 * it, and an EventSource goes there by itself.
 */

static ngx_int_t
ngx_http_wq_stream_leaving(ngx_http_request_t *r, const ngx_str_t *event,
    const ngx_str_t *user)
{
    wq_state_t  state;

    ngx_memzero(&state, sizeof(wq_state_t));

    state.status = WQ_STATUS_NONE;
    state.event.len = event->len;
    state.event.data = event->data;
    state.user.len = user->len;
    state.user.data = user->data;
    state.rank = WQ_STATE_UNKNOWN;
    state.eta = WQ_STATE_UNKNOWN;
    state.expires = WQ_STATE_UNKNOWN;

    return ngx_http_wq_send_event(r, WQ_SSE_RECONNECT, &state);
}


/* 503: Redis is away, nothing was stored; what a content handler returns */

static ngx_int_t
ngx_http_wq_stream_unavailable(ngx_http_request_t *r)
{
    if (ngx_http_wq_worker) {
        wq_counter_add(ngx_http_wq_worker->slot->counters.joins_refused, 1);
    }

    return ngx_http_wq_send_redis_unavailable(r);
}


/*
 * The request ends, by whichever side: the last thing that a stream with a
 * request sees.
 */

static void
ngx_http_wq_stream_cleanup(void *data)
{
    ngx_http_wq_stream_t *stream = data;

    stream->request = NULL;

    ngx_http_wq_stream_free(stream);
}


void
ngx_http_wq_stream_free(ngx_http_wq_stream_t *stream)
{
    ngx_http_wq_client_t  *client;

    client = stream->client;

    ngx_http_wq_wheel_remove(stream);
    ngx_http_wq_capacity_forget(&stream->asker);
    ngx_http_wq_capacity_stored(&stream->asker);

    if (stream->rest) {
        ngx_free(stream->rest);
    }

    ngx_free(stream);

    if (client) {
        ngx_http_wq_client_gone(client);
    }
}


static void
ngx_http_wq_stream_state(ngx_http_wq_client_t *client, wq_state_t *state)
{
    ngx_memzero(state, sizeof(wq_state_t));

    state->event.len = client->event->id.str.len;
    state->event.data = client->event->id.str.data;
    state->user.len = client->user.str.len;
    state->user.data = client->user.str.data;

    state->total = client->event->total;
    state->rank = WQ_STATE_UNKNOWN;
    state->eta = WQ_STATE_UNKNOWN;
    state->expires = WQ_STATE_UNKNOWN;

    switch (client->state) {

    case NGX_HTTP_WQ_WAITING:
        state->status = WQ_STATUS_WAITING;
        state->rank = (int64_t) client->rank;
        state->total = client->total;
        state->eta = ngx_http_wq_stream_eta(client);
        break;

    case NGX_HTTP_WQ_READY:
        state->status = client->status;
        state->token.len = WQ_TOKEN_LEN;
        state->token.data = client->token;
        state->expires = client->expires;
        break;

    default:
        state->status = WQ_STATUS_NONE;
    }
}


/* what is told now, and compared with what might be told next */

static int64_t
ngx_http_wq_stream_eta(ngx_http_wq_client_t *client)
{
    int64_t  eta;

    eta = ngx_http_wq_pace_eta(client->event, client->rank);
    client->eta = (int32_t) eta;

    return eta;
}


static void
ngx_http_wq_stream_accept(ngx_http_wq_client_t *client)
{
    wq_state_t              state;
    ngx_http_wq_stream_t   *stream;
    wq_process_counters_t  *counters;

    stream = client->stream;
    counters = &client->event->worker->slot->counters;

    ngx_http_wq_capacity_stored(&stream->asker);
    ngx_http_wq_stream_state(client, &state);

    if (client->state == NGX_HTTP_WQ_READY) {
        wq_counter_add(counters->promotions_told, 1);
        ngx_http_wq_transport_open(stream, WQ_SSE_PROMOTED, &state);

    } else {
        wq_counter_add(counters->positions_sent, 1);
        ngx_http_wq_transport_open(stream, WQ_SSE_POSITION, &state);
    }
}


static void
ngx_http_wq_stream_refuse(ngx_http_wq_client_t *client,
    ngx_http_wq_refusal_e refusal, wq_status_e status)
{
    ngx_int_t              rc;
    wq_state_t             state;
    ngx_http_request_t    *r;
    ngx_http_wq_stream_t  *stream;

    stream = client->stream;
    stream->client = NULL;
    r = stream->request;

    ngx_http_set_log_request(r->connection->log, r);

    ngx_http_wq_stream_state(client, &state);
    state.status = status;

    if (refusal == NGX_HTTP_WQ_REFUSED_REDIS) {
        rc = ngx_http_wq_stream_unavailable(r);

    } else if (status == WQ_STATUS_FULL) {
        rc = ngx_http_wq_send_state(r, NGX_HTTP_TOO_MANY_REQUESTS, &state,
                                    NGX_HTTP_WQ_RETRY_MAX);

    } else {
        /* an EventSource shows its page nothing of any other answer */
        rc = ngx_http_wq_send_event(r, status == WQ_STATUS_CLOSED
                                       ? WQ_SSE_CLOSED : WQ_SSE_SOLD_OUT,
                                    &state);
    }

    ngx_http_wq_finalize(r, rc);
}


static void
ngx_http_wq_stream_capacity(ngx_http_wq_client_t *client)
{
    ngx_http_wq_stream_t  *stream;

    stream = client->stream;
    stream->asker.event = client->event;

    ngx_http_wq_capacity_stored(&stream->asker);
    ngx_http_wq_capacity_find(&stream->asker);
}


static ngx_int_t
ngx_http_wq_stream_rejoin(ngx_http_wq_asker_t *asker, int64_t capacity)
{
    ngx_http_request_t    *r;
    ngx_http_wq_stream_t  *stream;

    stream = asker->data;

    if (ngx_http_wq_client_rejoin(stream->client, capacity) == NGX_OK) {
        return NGX_OK;
    }

    r = stream->request;
    stream->client = NULL;

    ngx_http_wq_finalize(r, ngx_http_wq_stream_unavailable(r));

    return NGX_ERROR;
}


static void
ngx_http_wq_stream_refuse_capacity(ngx_http_wq_asker_t *asker)
{
    ngx_int_t              rc;
    ngx_http_request_t    *r;
    ngx_http_wq_client_t  *client;
    ngx_http_wq_stream_t  *stream;

    stream = asker->data;
    r = stream->request;
    client = stream->client;
    stream->client = NULL;

    ngx_http_set_log_request(r->connection->log, r);

    wq_counter_add(ngx_http_wq_worker->slot->counters.joins_refused, 1);

    rc = ngx_http_wq_send_capacity_unavailable(r);

    ngx_http_wq_client_gone(client);
    ngx_http_wq_finalize(r, rc);
}


static void
ngx_http_wq_stream_position(ngx_http_wq_client_t *client)
{
    wq_state_t             state;
    ngx_http_wq_stream_t  *stream;

    stream = client->stream;

    if (stream->stalled) {
        stream->stale = 1;
        return;
    }

    /* the hot path: nothing but what a brief event holds */

    state.status = WQ_STATUS_WAITING;
    state.rank = (int64_t) client->rank;
    state.total = client->total;
    state.eta = ngx_http_wq_stream_eta(client);

    wq_counter_add(client->event->worker->slot->counters.positions_sent, 1);

    ngx_http_wq_transport_write(stream, WQ_SSE_POSITION, &state, 1);
}


static void
ngx_http_wq_stream_promoted(ngx_http_wq_client_t *client)
{
    wq_state_t             state;
    ngx_http_wq_stream_t  *stream;

    stream = client->stream;

    if (stream->stalled) {
        stream->stale = 1;
        return;
    }

    ngx_http_wq_stream_state(client, &state);

    wq_counter_add(client->event->worker->slot->counters.promotions_told, 1);

    ngx_http_wq_transport_write(stream, WQ_SSE_PROMOTED, &state, 0);
}


void
ngx_http_wq_stream_tell(ngx_http_wq_stream_t *stream)
{
    if (stream->client->state == NGX_HTTP_WQ_READY) {
        ngx_http_wq_stream_promoted(stream->client);

    } else {
        ngx_http_wq_stream_position(stream->client);
    }
}


static void
ngx_http_wq_stream_end(ngx_http_wq_client_t *client, wq_sse_event_e event)
{
    wq_state_t             state;
    ngx_http_wq_stream_t  *stream;

    stream = client->stream;
    stream->client = NULL;

    ngx_http_wq_stream_state(client, &state);

    switch (event) {

    case WQ_SSE_EXPIRED:
        state.status = WQ_STATUS_NONE;
        state.token.len = 0;
        break;

    case WQ_SSE_CLOSED:
        state.status = WQ_STATUS_CLOSED;
        break;

    case WQ_SSE_SOLD_OUT:
        state.status = WQ_STATUS_SOLD_OUT;
        break;

    default:
        break;
    }

    if (state.status != WQ_STATUS_WAITING) {
        state.rank = WQ_STATE_UNKNOWN;
        state.eta = WQ_STATE_UNKNOWN;
    }

    ngx_http_wq_transport_end(stream, event, &state);
}


static void
ngx_http_wq_stream_close(ngx_http_wq_client_t *client)
{
    ngx_http_wq_stream_t  *stream;

    stream = client->stream;
    stream->client = NULL;

    ngx_http_wq_transport_close(stream);
}
