
/*
 * http: a stream leaves the filters, and if it can its request.
 *
 * What follows the head is written to the socket of an HTTP/1.x connection as
 * it is.  The request, ten times as large as what is needed for that, is given
 * back to nginx if nothing else hangs on it.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#if (NGX_LINUX)
#include <netinet/tcp.h>
#endif

#include "ngx_http_wq_gate.h"
#include "ngx_http_wq_stream.h"


/*
 * What the kernel keeps for a client that does not read: a hundred positions,
 * and no more.
 */
#define NGX_HTTP_WQ_DETACH_SNDBUF  8192


static void ngx_http_wq_detach_set_socket(ngx_http_wq_stream_t *stream);
static ngx_uint_t ngx_http_wq_detach_allowed(ngx_http_wq_stream_t *stream);
static ngx_uint_t ngx_http_wq_detach_is_realip(ngx_http_request_t *r,
    void *data);
static void ngx_http_wq_detach_request(ngx_http_wq_stream_t *stream);
static void ngx_http_wq_detach_free_buffers(ngx_connection_t *c,
    ngx_http_connection_t *hc);


void
ngx_http_wq_detach(ngx_http_wq_stream_t *stream)
{
    ngx_connection_t    *c;
    ngx_http_request_t  *r;

    r = stream->request;
    c = stream->connection;

    ngx_http_wq_detach_set_socket(stream);

    if (r->http_version >= NGX_HTTP_VERSION_20 || stream->stalled) {
        return;
    }

    stream->direct = 1;

#if (NGX_HTTP_SSL)
    if (c->ssl) {
        /* what could not be written is kept, but not where it was */
        SSL_set_mode(c->ssl->connection, SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    }
#endif

    r->read_event_handler = ngx_http_wq_transport_read_request;

    if (ngx_http_wq_detach_allowed(stream)) {
        ngx_http_wq_detach_request(stream);
    }

    if (ngx_http_wq_transport_watch(stream) != NGX_OK) {
        ngx_http_wq_transport_break(stream);
    }

    c->log->action = "streaming positions";
}


/*
 * An error here costs nothing but what the option is for: the socket may be
 * one of another kind.
 */

static void
ngx_http_wq_detach_set_socket(ngx_http_wq_stream_t *stream)
{
    ngx_connection_t          *c;
    ngx_http_request_t        *r;
    ngx_http_core_loc_conf_t  *clcf;

#if (NGX_LINUX)
    int                        value;
#endif

    r = stream->request;
    c = stream->connection;
    clcf = ngx_http_get_module_loc_conf(r, ngx_http_core_module);

#if (NGX_LINUX)

    /*
     * A peer that has vanished is given up after the same time as one that
     * does not read: the kernel makes no difference between the two.
     */

    value = (int) ngx_min(clcf->send_timeout, NGX_MAX_INT32_VALUE);

    (void) setsockopt(c->fd, IPPROTO_TCP, TCP_USER_TIMEOUT,
                      (const void *) &value, sizeof(int));

#endif

    if (r->http_version >= NGX_HTTP_VERSION_20) {
        /* it is the socket of all streams of the connection */
        return;
    }

#if (NGX_LINUX)

    value = NGX_HTTP_WQ_DETACH_SNDBUF;

    (void) setsockopt(c->fd, SOL_SOCKET, SO_SNDBUF, (const void *) &value,
                      sizeof(int));

#endif

    if (clcf->tcp_nodelay) {
        (void) ngx_tcp_nodelay(c);
    }
}


/* whether nobody has tied anything to the life of the request */

static ngx_uint_t
ngx_http_wq_detach_allowed(ngx_http_wq_stream_t *stream)
{
    ngx_pool_cleanup_t  *pool_cln;
    ngx_http_cleanup_t  *cln;
    ngx_http_request_t  *r;

    r = stream->request;

    if (r->count != 1 || r->posted_requests || r->discard_body || r->blocked) {
        return 0;
    }

    for (pool_cln = r->pool->cleanup; pool_cln; pool_cln = pool_cln->next) {
        if (pool_cln->handler
            && !ngx_http_wq_gate_is_cleanup(pool_cln)
            && !ngx_http_wq_detach_is_realip(r, pool_cln->data))
        {
            return 0;
        }
    }

    for (cln = r->cleanup; cln; cln = cln->next) {
        if (cln != stream->cleanup && cln->handler) {
            return 0;
        }
    }

    return 1;
}


/*
 * The realip module gives the connection its own address back when the request
 * ends, which may be now as well as later; else no stream behind a load
 * balancer could leave its request.  Its cleanup is known by its data, the
 * context of the module.
 */

static ngx_uint_t
ngx_http_wq_detach_is_realip(ngx_http_request_t *r, void *data)
{
    ngx_uint_t     i;
    ngx_module_t  *module;

    for (i = 0; ngx_cycle->modules[i]; i++) {
        module = ngx_cycle->modules[i];

        if (ngx_strcmp(module->name, "ngx_http_realip_module") == 0) {
            return data && r->ctx[module->ctx_index] == data;
        }
    }

    return 0;
}


/*
 * Gives the request back, as nginx does when a connection is kept alive: it is
 * logged now, and its memory is freed.  The connection is ours from here on.
 * c->destroyed stays set, which keeps whoever is on the way back from the
 * handlers of the request from looking for further ones.
 */

static void
ngx_http_wq_detach_request(ngx_http_wq_stream_t *stream)
{
    ngx_connection_t       *c;
    ngx_http_request_t     *r;
    ngx_http_connection_t  *hc;

    r = stream->request;
    c = stream->connection;
    hc = r->http_connection;

    stream->cleanup->handler = NULL;
    stream->cleanup = NULL;
    stream->request = NULL;

    ngx_http_free_request(r, 0);
    ngx_http_wq_detach_free_buffers(c, hc);

    c->data = stream;
    c->read->handler = ngx_http_wq_transport_read_event;
    c->write->handler = ngx_http_wq_transport_write_event;

    if (c->read->timer_set) {
        ngx_del_timer(c->read);
    }

    if (c->write->timer_set) {
        ngx_del_timer(c->write);
    }
}


/* of the request, which nobody needs any more */

static void
ngx_http_wq_detach_free_buffers(ngx_connection_t *c,
    ngx_http_connection_t *hc)
{
    ngx_uint_t    i;
    ngx_chain_t  *cl, *next, **lists[2];

    if (c->buffer && c->buffer->start
        && ngx_pfree(c->pool, c->buffer->start) == NGX_OK)
    {
        c->buffer->start = NULL;
        c->buffer->pos = NULL;
    }

    lists[0] = &hc->free;
    lists[1] = &hc->busy;

    for (i = 0; i < 2; i++) {

        for (cl = *lists[i]; cl; cl = next) {
            next = cl->next;

            ngx_pfree(c->pool, cl->buf->start);
            ngx_free_chain(c->pool, cl);
        }

        *lists[i] = NULL;
    }

    hc->nbusy = 0;

#if (NGX_HTTP_SSL)
    if (c->ssl) {
        /* 16 kB of what the filters wrote; from here on it is written past */
        ngx_ssl_free_buffer(c);
    }
#endif
}
