
/* http: how bytes come to the client of a stream */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_wq_stream.h"


/* what a client sends on its stream is thrown away, so much in one turn */
#define NGX_HTTP_WQ_TRANSPORT_DISCARD  4096


static void ngx_http_wq_transport_send(ngx_http_wq_stream_t *stream,
    u_char *p, size_t len, ngx_uint_t last);
static void ngx_http_wq_transport_send_direct(ngx_http_wq_stream_t *stream,
    u_char *p, size_t len);
static ngx_int_t ngx_http_wq_transport_keep(ngx_http_wq_stream_t *stream,
    u_char *p, size_t len);
static void ngx_http_wq_transport_send_filtered(ngx_http_wq_stream_t *stream,
    u_char *p, size_t len, ngx_uint_t last);
static void ngx_http_wq_transport_stall(ngx_http_wq_stream_t *stream);
static void ngx_http_wq_transport_flushed(ngx_http_wq_stream_t *stream);
static void ngx_http_wq_transport_finish(ngx_http_wq_stream_t *stream);

static void ngx_http_wq_transport_write_request(ngx_http_request_t *r);
static void ngx_http_wq_transport_read(ngx_http_wq_stream_t *stream);
static void ngx_http_wq_transport_timed_out(ngx_http_wq_stream_t *stream);
static void ngx_http_wq_transport_flush(ngx_http_wq_stream_t *stream);


void
ngx_http_wq_transport_open(ngx_http_wq_stream_t *stream, wq_sse_event_e event,
    const wq_state_t *state)
{
    u_char                    *p, frame[WQ_SSE_SIZE];
    ngx_connection_t          *c;
    ngx_http_request_t        *r;
    ngx_http_core_loc_conf_t  *clcf;

    r = stream->request;
    c = r->connection;

    ngx_http_set_log_request(c->log, r);

    /* the first event may be the one that the client does not take */

    clcf = ngx_http_get_module_loc_conf(r, ngx_http_core_module);
    stream->send_timeout = clcf->send_timeout;

    /* from here on the stream may break */
    r->write_event_handler = ngx_http_wq_transport_write_request;

    if (ngx_http_wq_send_stream_head(r) != NGX_OK) {
        ngx_http_wq_transport_break(stream);
        return;
    }

    stream->chunked = r->chunked;

    p = wq_sse_event(frame, event, ngx_http_wq_stream_retry(event), state, 0);

    ngx_http_wq_transport_send_filtered(stream, frame, p - frame, 0);

    if (!stream->broken) {
        ngx_http_wq_wheel_add(stream);
        ngx_http_wq_detach(stream);
    }
}


ngx_int_t
ngx_http_wq_transport_watch(ngx_http_wq_stream_t *stream)
{
    ngx_event_t  *rev;

    rev = stream->connection->read;

    if (rev->ready) {
        ngx_post_event(rev, &ngx_posted_events);
        return NGX_OK;
    }

    return ngx_handle_read_event(rev, 0);
}


void
ngx_http_wq_transport_write(ngx_http_wq_stream_t *stream, wq_sse_event_e event,
    const wq_state_t *state, ngx_uint_t brief)
{
    u_char  *p, *end, frame[WQ_SSE_CHUNK_SIZE];

    if (stream->broken) {
        return;
    }

    if (stream->stalled) {
        stream->stale = 1;
        return;
    }

    if (stream->direct && stream->chunked) {
        p = wq_sse_chunk(frame, &end, event, 0, state, brief);

    } else {
        p = frame;
        end = wq_sse_event(frame, event, 0, state, brief);
    }

    ngx_http_wq_transport_send(stream, p, end - p, 0);
}


void
ngx_http_wq_transport_comment(ngx_http_wq_stream_t *stream)
{
    const wq_str_t  *comment;

    if (stream->broken || stream->stalled) {
        return;
    }

    comment = stream->direct && stream->chunked ? &wq_sse_comment_chunk
                                                : &wq_sse_comment;

    ngx_http_wq_transport_send(stream, comment->data, comment->len, 0);
}


void
ngx_http_wq_transport_end(ngx_http_wq_stream_t *stream, wq_sse_event_e event,
    const wq_state_t *state)
{
    u_char    *p, *end, frame[WQ_SSE_CHUNK_SIZE + sizeof("0\r\n\r\n")];
    uint32_t   retry;

    ngx_http_wq_wheel_remove(stream);

    if (stream->broken) {
        /* its event is on the way */
        return;
    }

    retry = event == WQ_SSE_RECONNECT ? ngx_http_wq_stream_retry(event) : 0;

    if (stream->direct && stream->chunked) {
        p = wq_sse_chunk(frame, &end, event, retry, state, 0);
        end = ngx_cpymem(end, "0\r\n\r\n", sizeof("0\r\n\r\n") - 1);

    } else {
        p = frame;
        end = wq_sse_event(frame, event, retry, state, 0);
    }

    stream->ending = 1;

    if (!stream->stalled) {
        ngx_http_wq_transport_send(stream, p, end - p, 1);

    } else if (stream->direct) {

        /* behind the one event that the client has not yet taken */

        if (ngx_http_wq_transport_keep(stream, p, end - p) != NGX_OK) {
            ngx_http_wq_transport_break(stream);
        }

    } else {
        ngx_http_wq_transport_send_filtered(stream, p, end - p, 1);
    }

    if (!stream->broken && !stream->stalled) {
        ngx_http_wq_transport_finish(stream);
    }
}


static void
ngx_http_wq_transport_send(ngx_http_wq_stream_t *stream, u_char *p,
    size_t len, ngx_uint_t last)
{
    stream->written = ngx_current_msec;

    if (stream->direct) {
        ngx_http_wq_transport_send_direct(stream, p, len);

    } else {
        ngx_http_wq_transport_send_filtered(stream, p, len, last);
    }
}


static void
ngx_http_wq_transport_send_direct(ngx_http_wq_stream_t *stream, u_char *p,
    size_t len)
{
    ssize_t            n;
    ngx_connection_t  *c;

    c = stream->connection;

    n = c->send(c, p, len);

    if (n == (ssize_t) len) {
        return;
    }

    if (n == NGX_ERROR) {
        ngx_http_wq_transport_break(stream);
        return;
    }

    if (n == NGX_AGAIN) {
        n = 0;
    }

    if (ngx_http_wq_transport_keep(stream, p + n, len - n) != NGX_OK) {
        ngx_http_wq_transport_break(stream);
        return;
    }

    ngx_http_wq_transport_stall(stream);
}


/* adds to what is to be written when the client reads again */

static ngx_int_t
ngx_http_wq_transport_keep(ngx_http_wq_stream_t *stream, u_char *p,
    size_t len)
{
    size_t   left;
    u_char  *rest;

    left = stream->rest_last - stream->rest_pos;

    rest = ngx_alloc(left + len, stream->connection->log);
    if (rest == NULL) {
        return NGX_ERROR;
    }

    if (stream->rest) {
        ngx_memcpy(rest, stream->rest_pos, left);
        ngx_free(stream->rest);
    }

    ngx_memcpy(rest + left, p, len);

    stream->rest = rest;
    stream->rest_pos = rest;
    stream->rest_last = rest + left + len;

    return NGX_OK;
}


/*
 * By the filters of the request.  They take nothing but what lives until it is
 * written, so the bytes are copied to its pool: into one and the same buffer,
 * because as long as it is in use nothing is sent.  Only an end may come then,
 * which is the last.
 */

static void
ngx_http_wq_transport_send_filtered(ngx_http_wq_stream_t *stream, u_char *p,
    size_t len, ngx_uint_t last)
{
    ngx_buf_t           *b;
    ngx_int_t            rc;
    ngx_chain_t          out;
    ngx_connection_t    *c;
    ngx_http_request_t  *r;

    r = stream->request;
    c = stream->connection;

    b = stream->buffer;

    if (b == NULL || stream->stalled) {
        b = ngx_create_temp_buf(r->pool, WQ_SSE_SIZE);
        if (b == NULL) {
            ngx_http_wq_transport_break(stream);
            return;
        }

        b->tag = (ngx_buf_tag_t) &ngx_http_waiting_queue_module;
        b->flush = 1;

        stream->buffer = b;
    }

    b->pos = b->start;
    b->last = ngx_cpymem(b->start, p, len);
    b->last_buf = last;
    b->last_in_chain = last;

    out.buf = b;
    out.next = NULL;

    ngx_http_set_log_request(c->log, r);

    rc = ngx_http_output_filter(r, &out);

    if (rc == NGX_ERROR || c->error) {
        ngx_http_wq_transport_break(stream);
        return;
    }

    if (r->buffered || r->postponed || c->buffered) {
        ngx_http_wq_transport_stall(stream);
    }
}


/* the client does not read; its write event tells when it does */

static void
ngx_http_wq_transport_stall(ngx_http_wq_stream_t *stream)
{
    ngx_event_t  *wev;

    wev = stream->connection->write;

    if (!stream->stalled) {
        stream->stalled = 1;
        wq_counter_add(ngx_http_wq_worker->slot->counters.streams_stalled, 1);
    }

    if (!wev->timer_set) {
        ngx_add_timer(wev, stream->send_timeout);
    }

    if (ngx_handle_write_event(wev, 0) != NGX_OK) {
        ngx_http_wq_transport_break(stream);
    }
}


/*
 * Whoever writes stands in the middle of something, and must not lose its
 * client under its feet: the stream is closed by its own event.
 */

void
ngx_http_wq_transport_break(ngx_http_wq_stream_t *stream)
{
    stream->broken = 1;

    ngx_post_event(stream->connection->write, &ngx_posted_events);
}


/* all is with the kernel, or with the HTTP/2 connection */

static void
ngx_http_wq_transport_flushed(ngx_http_wq_stream_t *stream)
{
    ngx_event_t  *wev;

    wev = stream->connection->write;

    if (wev->timer_set) {
        ngx_del_timer(wev);
    }

    stream->stalled = 0;

    if (stream->ending) {
        ngx_http_wq_transport_finish(stream);
        return;
    }

    if (stream->stale) {
        stream->stale = 0;
        ngx_http_wq_stream_tell(stream);
    }
}


/* the last byte is out; the stream is gone when this returns */

static void
ngx_http_wq_transport_finish(ngx_http_wq_stream_t *stream)
{
    if (stream->request == NULL) {
        ngx_http_wq_transport_close(stream);
        return;
    }

    /* not NGX_HTTP_CLOSE, which is for a client that is given up */

    ngx_http_wq_finalize(stream->request, NGX_OK);
}


void
ngx_http_wq_transport_close(ngx_http_wq_stream_t *stream)
{
    ngx_connection_t    *c;
    ngx_http_request_t  *r;

    r = stream->request;
    c = stream->connection;

    if (r) {
        /* frees the stream by the cleanup */
        ngx_http_wq_finalize(r, NGX_HTTP_CLOSE);
        return;
    }

    ngx_http_wq_stream_free(stream);
    ngx_http_close_connection(c);
}


void
ngx_http_wq_transport_read_event(ngx_event_t *rev)
{
    ngx_connection_t  *c;

    c = rev->data;

    ngx_http_wq_transport_read(c->data);
}


void
ngx_http_wq_transport_write_event(ngx_event_t *wev)
{
    ngx_connection_t  *c;

    c = wev->data;

    ngx_http_wq_transport_flush(c->data);
}


void
ngx_http_wq_transport_read_request(ngx_http_request_t *r)
{
    ngx_http_wq_transport_read(ngx_http_get_module_ctx(r,
                                              ngx_http_waiting_queue_module));
}


static void
ngx_http_wq_transport_write_request(ngx_http_request_t *r)
{
    ngx_http_wq_stream_t  *stream;

    stream = ngx_http_get_module_ctx(r, ngx_http_waiting_queue_module);

    if (stream == NULL) {
        /* a filter has sent an answer of its own, which clears all contexts */
        ngx_http_wq_finalize(r, NGX_ERROR);
        return;
    }

    ngx_http_wq_transport_flush(stream);
}


/*
 * A client has nothing to say on its stream: what comes is thrown away, so that
 * it cannot hide the end.
 */

static void
ngx_http_wq_transport_read(ngx_http_wq_stream_t *stream)
{
    int                err;
    u_char             buf[NGX_HTTP_WQ_TRANSPORT_DISCARD];
    ssize_t            n;
    socklen_t          len;
    ngx_connection_t  *c;

    c = stream->connection;

    if (c->close) {
        /* nginx wants the connection */
        ngx_http_wq_transport_close(stream);
        return;
    }

    err = 0;
    len = sizeof(int);

    if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, (void *) &err, &len) == 0
        && err == NGX_ETIMEDOUT)
    {
        /* the kernel has given up, by TCP_USER_TIMEOUT */
        ngx_http_wq_transport_timed_out(stream);
        return;
    }

    n = c->recv(c, buf, sizeof(buf));

    if (n == 0 || n == NGX_ERROR) {
        ngx_log_error(NGX_LOG_INFO, c->log, 0,
                      "client closed its stream of positions");
        ngx_http_wq_transport_close(stream);
        return;
    }

    if (ngx_http_wq_transport_watch(stream) != NGX_OK) {
        ngx_http_wq_transport_close(stream);
    }
}


static void
ngx_http_wq_transport_timed_out(ngx_http_wq_stream_t *stream)
{
    ngx_connection_t  *c;

    c = stream->connection;

    ngx_log_error(NGX_LOG_INFO, c->log, NGX_ETIMEDOUT,
                  "client does not read its stream of positions");

    wq_counter_add(ngx_http_wq_worker->slot->counters.streams_timed_out, 1);

    c->timedout = 1;
    ngx_http_wq_transport_close(stream);
}


static void
ngx_http_wq_transport_flush(ngx_http_wq_stream_t *stream)
{
    ssize_t              n;
    ngx_event_t         *wev;
    ngx_connection_t    *c;
    ngx_http_request_t  *r;

    r = stream->request;
    c = stream->connection;
    wev = c->write;

    if (stream->broken || c->error) {
        ngx_http_wq_transport_close(stream);
        return;
    }

    if (wev->timedout) {
        ngx_http_wq_transport_timed_out(stream);
        return;
    }

    if (!stream->stalled) {
        return;
    }

    if (!stream->direct) {

        if (ngx_http_output_filter(r, NULL) == NGX_ERROR) {
            ngx_http_wq_transport_close(stream);
            return;
        }

        if (r->buffered || r->postponed || c->buffered) {
            ngx_http_wq_transport_stall(stream);
            return;
        }

        ngx_http_wq_transport_flushed(stream);
        return;
    }

    n = c->send(c, stream->rest_pos, stream->rest_last - stream->rest_pos);

    if (n == NGX_ERROR) {
        ngx_http_wq_transport_close(stream);
        return;
    }

    if (n > 0) {
        stream->rest_pos += n;

        /* it reads, if slowly */
        if (wev->timer_set) {
            ngx_del_timer(wev);
        }
    }

    if (stream->rest_pos < stream->rest_last) {
        ngx_http_wq_transport_stall(stream);
        return;
    }

    ngx_free(stream->rest);
    stream->rest = NULL;
    stream->rest_pos = NULL;
    stream->rest_last = NULL;

    ngx_http_wq_transport_flushed(stream);
}
