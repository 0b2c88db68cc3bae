
/*
 * redis: one command on its way.
 *
 * An operation belongs to its link, from the call until the answer, and
 * outlives whoever asked: a request that dies detaches itself and forgets the
 * pointer.
 */


#ifndef NGX_HTTP_WQ_OPERATION_H_INCLUDED_
#define NGX_HTTP_WQ_OPERATION_H_INCLUDED_


#include "ngx_http_wq_link.h"

#include "wq_reply.h"


typedef struct ngx_http_wq_operation_s  ngx_http_wq_operation_t;


typedef enum {
    NGX_HTTP_WQ_ANSWERED = 0,
    NGX_HTTP_WQ_FAILED,         /* an error reply; see error */
    NGX_HTTP_WQ_TIMED_OUT,      /* may or may not have been carried out */
    NGX_HTTP_WQ_LOST            /* likewise */
} ngx_http_wq_outcome_e;


typedef struct {
    ngx_http_wq_outcome_e   outcome;
    wq_redis_error_e        error;
    wq_reply_t              reply;  /* valid until the handler returns */
} ngx_http_wq_result_t;


/*
 * Called exactly once for each operation that was taken and not detached,
 * never before the call that sent it has returned.  May send new operations,
 * to the same link too.
 */

typedef void (*ngx_http_wq_operation_handler_pt)(void *data,
    ngx_http_wq_result_t *result);


struct ngx_http_wq_operation_s {
    ngx_queue_t                        queue;
    ngx_http_wq_link_t                *link;

    ngx_http_wq_operation_handler_pt   handler;     /* NULL: detached */
    void                              *data;

    ngx_uint_t                         script;
    ngx_msec_t                         timeout;
    ngx_msec_t                         deadline;
    uint64_t                           sent_us;

    unsigned                           internal:1;  /* of the handshake */
    unsigned                           blocking:1;
    unsigned                           resent:1;
    unsigned                           timed_out:1;
    unsigned                           reprieved:1;

    size_t                             tail;    /* keys and arguments */
    size_t                             len;
    u_char                             command[1];
};


#define NGX_HTTP_WQ_NO_SCRIPT  ((ngx_uint_t) -1)


/* what to send; all strings are copied before the call returns */

typedef struct {
    ngx_uint_t                         script;  /* or NGX_HTTP_WQ_NO_SCRIPT */
    ngx_uint_t                         nkeys;   /* of a script */
    const ngx_str_t                   *argv;    /* keys first */
    ngx_uint_t                         argc;

    /* how long Redis itself may wait before it answers; blocking links only */
    ngx_msec_t                         block_ms;

    ngx_http_wq_operation_handler_pt   handler;
    void                              *data;

    unsigned                           internal:1;  /* of the handshake */
    unsigned                           vital:1; /* whatever is in flight */
} ngx_http_wq_call_t;


/*
 * NGX_OK: sent, the handler will be called.  NGX_DECLINED: not sent, because
 * the link is not ready; NGX_BUSY: because too much is in flight; NGX_ERROR:
 * because there is no memory.  In the last three the handler is never called.
 * If operation is not NULL it gets the handle to detach by.
 */

ngx_int_t ngx_http_wq_operation_send(ngx_http_wq_link_t *link,
    const ngx_http_wq_call_t *call, ngx_http_wq_operation_t **operation);


/* the answer will be read and thrown away; the handler is not called */

void ngx_http_wq_operation_detach(ngx_http_wq_operation_t *operation);


/*
 * Answers with "lost" whatever is left when there is no context: hiredis 0.14
 * forgets a command if it has no memory to remember it.
 */

void ngx_http_wq_operation_abandon(ngx_http_wq_link_t *link);


/* the timer of the link: the oldest operation may be too old */

void ngx_http_wq_operation_expire(ngx_http_wq_link_t *link);


/* a clock in us, for durations; nginx' own has ms and is as of this turn */

uint64_t ngx_http_wq_clock_us(void);


#endif /* NGX_HTTP_WQ_OPERATION_H_INCLUDED_ */
