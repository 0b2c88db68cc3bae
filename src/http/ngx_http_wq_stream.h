
/*
 * http: one stream, the connection on which a client is told where it stands.
 *
 * Its state is outside r->pool.  An HTTP/1.x stream is written to the socket as
 * it is, without the filters, once its head is out; and if nothing else hangs
 * on the request, that is given back to nginx, as keep-alive does, because it
 * is ten times as large as what is needed to tell positions.  So a stream is
 * one of three:
 *
 *   filtered   by the output filters of its request: HTTP/2, and whatever a
 *              filter or a slow socket held back from the beginning
 *   held       written directly, while the request stays, for its cleanups
 *   detached   written directly, and without a request
 */


#ifndef NGX_HTTP_WQ_STREAM_H_INCLUDED_
#define NGX_HTTP_WQ_STREAM_H_INCLUDED_


#include "ngx_http_wq_capacity.h"


typedef struct ngx_http_wq_stream_s  ngx_http_wq_stream_t;


struct ngx_http_wq_stream_s {
    ngx_http_wq_client_t    *client;        /* NULL: nobody to report to */
    ngx_http_request_t      *request;       /* NULL: detached */
    ngx_connection_t        *connection;
    ngx_http_cleanup_t      *cleanup;       /* of the request */

    ngx_msec_t               send_timeout;

    /* bytes the client did not take; from ngx_alloc() */
    u_char                  *rest;
    u_char                  *rest_pos;
    u_char                  *rest_last;

    ngx_queue_t              queue;         /* of a slot of the wheel */
    ngx_msec_t               written;       /* when, last */

    ngx_buf_t               *buffer;        /* of a filtered one */

    ngx_http_wq_asker_t      asker;         /* of the capacity */

    unsigned                 direct:1;
    unsigned                 chunked:1;
    unsigned                 in_wheel:1;
    unsigned                 stalled:1;     /* the client does not read */
    unsigned                 stale:1;       /* and there is news */
    unsigned                 ending:1;      /* when the rest is out */
    unsigned                 broken:1;      /* to be closed by its event */
};


/*
 * transport: how bytes come to the client.  open() sends the head and the first
 * event; write() one more; both leave a stream that fails to be closed by its
 * own event, soon.  A client that does not read gets nothing further (stale)
 * until it does.
 */

void ngx_http_wq_transport_open(ngx_http_wq_stream_t *stream,
    wq_sse_event_e event, const wq_state_t *state);
void ngx_http_wq_transport_write(ngx_http_wq_stream_t *stream,
    wq_sse_event_e event, const wq_state_t *state, ngx_uint_t brief);
void ngx_http_wq_transport_comment(ngx_http_wq_stream_t *stream);

/*
 * The last event, then the end.  The stream has no client any more and may be
 * gone when this returns.
 */

void ngx_http_wq_transport_end(ngx_http_wq_stream_t *stream,
    wq_sse_event_e event, const wq_state_t *state);

/* closes at once; the stream is gone when this returns */

void ngx_http_wq_transport_close(ngx_http_wq_stream_t *stream);


/*
 * Its handlers of events, of a connection that has no request and of one that
 * has; watch() looks for the end of the connection; break() leaves a stream to
 * be closed by its write event, soon.
 */

void ngx_http_wq_transport_read_event(ngx_event_t *rev);
void ngx_http_wq_transport_write_event(ngx_event_t *wev);
void ngx_http_wq_transport_read_request(ngx_http_request_t *r);
ngx_int_t ngx_http_wq_transport_watch(ngx_http_wq_stream_t *stream);
void ngx_http_wq_transport_break(ngx_http_wq_stream_t *stream);


/*
 * detach: the head and the first event are with the filters, and may have
 * stalled there; decides how all that follows is written
 */

void ngx_http_wq_detach(ngx_http_wq_stream_t *stream);


/* stream: the client reads again, and is told how things stand */

void ngx_http_wq_stream_tell(ngx_http_wq_stream_t *stream);

/* frees the stream, and reports the client gone if there is one */

void ngx_http_wq_stream_free(ngx_http_wq_stream_t *stream);

/* wheel: comments that keep quiet streams alive */

void ngx_http_wq_wheel_add(ngx_http_wq_stream_t *stream);
void ngx_http_wq_wheel_remove(ngx_http_wq_stream_t *stream);


#endif /* NGX_HTTP_WQ_STREAM_H_INCLUDED_ */
