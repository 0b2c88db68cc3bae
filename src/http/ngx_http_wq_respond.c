
/* http: whole answers, and errors in JSON */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_wq_http.h"


/*
 * retry: of an EventSource, in ms; up to twice as much.  A stream that a worker
 * gives up in its turn can come back sooner: the turns are what spreads them.
 */
#define NGX_HTTP_WQ_RETRY       3000
#define NGX_HTTP_WQ_RETRY_TURN  500


static size_t ngx_http_wq_type_len(const ngx_str_t *content_type);
static ngx_int_t ngx_http_wq_send_unavailable(ngx_http_request_t *r,
    const char *error, const char *message);


static const ngx_str_t  ngx_http_wq_json_type =
    ngx_string("application/json");

static const ngx_str_t  ngx_http_wq_event_type =
    ngx_string("text/event-stream");


ngx_int_t
ngx_http_wq_send(ngx_http_request_t *r, ngx_uint_t status,
    const ngx_str_t *content_type, ngx_buf_t *b)
{
    ngx_int_t    rc;
    ngx_chain_t  out;

    r->headers_out.status = status;
    r->headers_out.content_type = *content_type;
    r->headers_out.content_type_len = ngx_http_wq_type_len(content_type);
    r->headers_out.content_type_lowcase = NULL;
    r->headers_out.content_length_n = b->last - b->pos;

    /* what was asked for is done by now, whatever version of it is known */
    r->disable_not_modified = 1;

    /* figures and states of this moment, never to be shown later */

    if (ngx_http_wq_add_header(r, "Cache-Control", "no-store") != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    rc = ngx_http_send_header(r);

    if (rc == NGX_ERROR || rc > NGX_OK || r->header_only) {
        return rc;
    }

    b->last_buf = (r == r->main) ? 1 : 0;
    b->last_in_chain = 1;

    out.buf = b;
    out.next = NULL;

    return ngx_http_output_filter(r, &out);
}


ngx_int_t
ngx_http_wq_send_error(ngx_http_request_t *r, ngx_uint_t status,
    const char *error, const char *message)
{
    size_t      len;
    ngx_int_t   rc;
    ngx_buf_t  *b;

    rc = ngx_http_discard_request_body(r);

    if (rc != NGX_OK) {
        return rc;
    }

    len = sizeof("{\"error\":\"\",\"message\":\"\"}\n") - 1
          + ngx_strlen(error) + ngx_strlen(message);

    b = ngx_create_temp_buf(r->pool, len);
    if (b == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    b->last = ngx_sprintf(b->last, "{\"error\":\"%s\",\"message\":\"%s\"}\n",
                          error, message);

    return ngx_http_wq_send(r, status, &ngx_http_wq_json_type, b);
}


ngx_int_t
ngx_http_wq_send_state(ngx_http_request_t *r, ngx_uint_t status,
    const wq_state_t *state, ngx_uint_t retry_after)
{
    ngx_buf_t  *b;

    if (retry_after && ngx_http_wq_add_retry_after(r, retry_after) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    b = ngx_create_temp_buf(r->pool, WQ_STATE_SIZE + 1);
    if (b == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    b->last = wq_state_json(b->last, state, 0);
    *b->last++ = '\n';

    return ngx_http_wq_send(r, status, &ngx_http_wq_json_type, b);
}


ngx_int_t
ngx_http_wq_send_poll_state(ngx_http_request_t *r, ngx_uint_t status,
    const wq_state_t *state, uint32_t poll_ms)
{
    ngx_buf_t  *b;

    if (poll_ms && state->token.len == 0
        && ngx_http_wq_add_retry_after(r, (poll_ms + 999) / 1000) != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    b = ngx_create_temp_buf(r->pool, WQ_STATE_SIZE + NGX_INT64_LEN
                                     + sizeof(",\"pollAfterMs\":}\n"));
    if (b == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    /* within the braces, as the last */

    b->last = wq_state_json(b->last, state, 0) - 1;

    if (poll_ms) {
        b->last = ngx_sprintf(b->last, ",\"pollAfterMs\":%uD}\n", poll_ms);

    } else {
        b->last = ngx_sprintf(b->last, ",\"pollAfterMs\":null}\n");
    }

    return ngx_http_wq_send(r, status, &ngx_http_wq_json_type, b);
}


ngx_int_t
ngx_http_wq_send_empty(ngx_http_request_t *r)
{
    r->headers_out.status = NGX_HTTP_NO_CONTENT;
    r->header_only = 1;

    if (ngx_http_wq_add_header(r, "Cache-Control", "no-store") != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    return ngx_http_send_header(r);
}


ngx_int_t
ngx_http_wq_send_event(ngx_http_request_t *r, wq_sse_event_e event,
    const wq_state_t *state)
{
    ngx_buf_t  *b;

    b = ngx_create_temp_buf(r->pool, WQ_SSE_SIZE);
    if (b == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    b->last = wq_sse_event(b->last, event, ngx_http_wq_stream_retry(event),
                           state, 0);

    return ngx_http_wq_send_stream(r, b);
}


ngx_int_t
ngx_http_wq_send_stream(ngx_http_request_t *r, ngx_buf_t *b)
{
    ngx_chain_t  out;

    if (ngx_http_wq_send_stream_head(r) != NGX_OK) {
        return NGX_ERROR;
    }

    b->last_buf = 1;
    b->last_in_chain = 1;

    out.buf = b;
    out.next = NULL;

    return ngx_http_output_filter(r, &out);
}


ngx_int_t
ngx_http_wq_send_stream_head(ngx_http_request_t *r)
{
    ngx_int_t  rc;

    r->headers_out.status = NGX_HTTP_OK;
    r->headers_out.content_type = ngx_http_wq_event_type;
    r->headers_out.content_type_len = ngx_http_wq_event_type.len;
    r->headers_out.content_type_lowcase = NULL;
    ngx_http_clear_content_length(r);

    if (ngx_http_wq_add_header(r, "Cache-Control", "no-store") != NGX_OK
        || ngx_http_wq_add_header(r, "X-Accel-Buffering", "no") != NGX_OK)
    {
        return NGX_ERROR;
    }

    /* it is no version of anything: neither unchanged nor to be matched */
    r->disable_not_modified = 1;

    /* there is no next request on it */
    r->keepalive = 0;

    /* a compressor would keep back what is to be seen now, and 256 kB */
    r->gzip_tested = 1;
    r->gzip_ok = 0;

    r->limit_rate = 0;
    r->limit_rate_set = 1;

    rc = ngx_http_send_header(r);

    /* NGX_AGAIN: HTTP/2 has queued it, and what follows comes behind it */

    return (rc == NGX_ERROR || rc > NGX_OK) ? NGX_ERROR : NGX_OK;
}


uint32_t
ngx_http_wq_stream_retry(wq_sse_event_e event)
{
    uint32_t  least;

    least = (event == WQ_SSE_RECONNECT && ngx_http_wq_worker->conf->drain)
            ? NGX_HTTP_WQ_RETRY_TURN : NGX_HTTP_WQ_RETRY;

    return least + (uint32_t) ngx_random() % (least + 1);
}


ngx_uint_t
ngx_http_wq_retry_after(void)
{
    return NGX_HTTP_WQ_RETRY_MIN
           + (ngx_uint_t) ngx_random()
             % (NGX_HTTP_WQ_RETRY_MAX - NGX_HTTP_WQ_RETRY_MIN + 1);
}


ngx_int_t
ngx_http_wq_send_redis_unavailable(ngx_http_request_t *r)
{
    return ngx_http_wq_send_unavailable(r, "redis_unavailable",
                                        "the waiting room is not available "
                                        "now, try again later");
}


ngx_int_t
ngx_http_wq_send_capacity_unavailable(ngx_http_request_t *r)
{
    return ngx_http_wq_send_unavailable(r, "capacity_unavailable",
                                        "the capacity of this event is not "
                                        "known now, try again later");
}


ngx_int_t
ngx_http_wq_send_too_many_streams(ngx_http_request_t *r)
{
    return ngx_http_wq_send_unavailable(r, "too_many_streams",
                                        "there are too many streams now, ask "
                                        "for JSON or try again later");
}


static ngx_int_t
ngx_http_wq_send_unavailable(ngx_http_request_t *r, const char *error,
    const char *message)
{
    if (ngx_http_wq_add_retry_after(r, ngx_http_wq_retry_after()) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    return ngx_http_wq_send_error(r, NGX_HTTP_SERVICE_UNAVAILABLE, error,
                                  message);
}


ngx_int_t
ngx_http_wq_add_retry_after(ngx_http_request_t *r, ngx_uint_t s)
{
    u_char  *value;

    value = ngx_pnalloc(r->pool, NGX_INT_T_LEN + 1);
    if (value == NULL) {
        return NGX_ERROR;
    }

    (void) ngx_sprintf(value, "%ui%Z", s);

    return ngx_http_wq_add_header(r, "Retry-After", (char *) value);
}


ngx_int_t
ngx_http_wq_send_not_allowed(ngx_http_request_t *r, const char *allow)
{
    if (ngx_http_wq_add_header(r, "Allow", allow) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    return ngx_http_wq_send_error(r, NGX_HTTP_NOT_ALLOWED,
                                  "method_not_allowed",
                                  "this address does not have this method");
}


/* without parameters: what gzip_types and the like compare */

static size_t
ngx_http_wq_type_len(const ngx_str_t *content_type)
{
    u_char  *semicolon;

    semicolon = ngx_strlchr(content_type->data,
                            content_type->data + content_type->len, ';');

    return semicolon ? (size_t) (semicolon - content_type->data)
                     : content_type->len;
}


ngx_int_t
ngx_http_wq_add_header(ngx_http_request_t *r, const char *name,
    const char *value)
{
    ngx_table_elt_t  *h;

    h = ngx_list_push(&r->headers_out.headers);
    if (h == NULL) {
        return NGX_ERROR;
    }

    h->hash = 1;
    h->key.data = (u_char *) name;
    h->key.len = ngx_strlen(name);
    h->value.data = (u_char *) value;
    h->value.len = ngx_strlen(value);
#if (nginx_version >= 1023000)
    h->next = NULL;
#endif

    return NGX_OK;
}


ngx_table_elt_t *
ngx_http_wq_find_header(ngx_list_t *headers, const ngx_str_t *lowcase_name)
{
    ngx_uint_t        i;
    ngx_list_part_t  *part;

    part = &headers->part;
    i = 0;

    return ngx_http_wq_next_header(&part, &i, lowcase_name);
}


ngx_table_elt_t *
ngx_http_wq_next_header(ngx_list_part_t **part, ngx_uint_t *i,
    const ngx_str_t *lowcase_name)
{
    ngx_table_elt_t  *header;

    for ( ;; ) {

        if (*i >= (*part)->nelts) {
            if ((*part)->next == NULL) {
                return NULL;
            }

            *part = (*part)->next;
            *i = 0;
            continue;
        }

        header = (ngx_table_elt_t *) (*part)->elts + (*i)++;

        if (header->hash
            && header->key.len == lowcase_name->len
            && ngx_strncasecmp(header->key.data, lowcase_name->data,
                               lowcase_name->len)
               == 0)
        {
            return header;
        }
    }
}


void
ngx_http_wq_finalize(ngx_http_request_t *r, ngx_int_t rc)
{
    ngx_connection_t  *c;

    c = r->connection;

    ngx_http_set_log_request(c->log, r);

    ngx_http_finalize_request(r, rc);
    ngx_http_run_posted_requests(c);
}
