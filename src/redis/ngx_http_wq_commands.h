
/*
 * redis: every call the queue makes, one function each.
 *
 * A call builds its keys and arguments, and sends one script or command; its
 * decode function turns the answer into a struct.  All of them return what
 * ngx_http_wq_operation_send() returns.
 */


#ifndef NGX_HTTP_WQ_COMMANDS_H_INCLUDED_
#define NGX_HTTP_WQ_COMMANDS_H_INCLUDED_


#include "ngx_http_wq_operation.h"

#include "wq_key.h"


/* where an answer goes, and the handle to detach by; operation may be NULL */

typedef struct {
    ngx_http_wq_operation_handler_pt   handler;
    void                              *data;
    ngx_http_wq_operation_t          **operation;
} ngx_http_wq_reply_to_t;


/* heartbeat.lua: this instance is alive */

typedef struct {
    int64_t                            now;         /* Redis' clock, ms */
    int64_t                            instances;
} ngx_http_wq_heartbeat_reply_t;

ngx_int_t ngx_http_wq_call_heartbeat(ngx_http_wq_link_t *link,
    const wq_keyspace_t *keyspace, const ngx_str_t *instance,
    const ngx_http_wq_reply_to_t *to);
ngx_int_t ngx_http_wq_decode_heartbeat(ngx_http_wq_link_t *link,
    ngx_http_wq_result_t *result, ngx_http_wq_heartbeat_reply_t *reply);


/* this instance leaves for good: off the list, its stream removed */

ngx_int_t ngx_http_wq_call_retire(ngx_http_wq_link_t *link,
    const wq_keyspace_t *keyspace, const ngx_str_t *instance);


/*
 * The stream DISPATCH:{instance}.  open() makes the stream and its consumer
 * group; an answer of BUSYGROUP means that both are there.  read() gives up to
 * NGX_HTTP_WQ_DISPATCH_COUNT messages: after ">" it waits on the reader link
 * for up to block_ms for new ones, and its answer is nil when none came; after
 * an id it gives at once those that this instance has read before and not
 * discarded.  dispatch_discard.lua acknowledges and removes messages, at most
 * as many.
 */

#define NGX_HTTP_WQ_DISPATCH_COUNT  100

ngx_int_t ngx_http_wq_call_dispatch_open(ngx_http_wq_link_t *link,
    const wq_keyspace_t *keyspace, const ngx_str_t *instance,
    const ngx_http_wq_reply_to_t *to);
ngx_int_t ngx_http_wq_call_dispatch_read(ngx_http_wq_link_t *link,
    const wq_keyspace_t *keyspace, const ngx_str_t *instance,
    const ngx_str_t *after, ngx_msec_t block_ms,
    const ngx_http_wq_reply_to_t *to);
ngx_int_t ngx_http_wq_call_dispatch_discard(ngx_http_wq_link_t *link,
    const wq_keyspace_t *keyspace, const ngx_str_t *instance,
    const ngx_str_t *ids, ngx_uint_t n, const ngx_http_wq_reply_to_t *to);


/* 18446744073709551615-18446744073709551615 */
#define NGX_HTTP_WQ_STREAM_ID_MAX  41

typedef struct {
    wq_str_t                           id;
    wq_reply_t                         fields;  /* name, value, name ... */
} ngx_http_wq_stream_message_t;

/*
 * The i-th message of an answer to XREADGROUP of one stream.  NGX_DONE: there
 * are no more; NGX_DECLINED: this one is not a message.
 */

ngx_int_t ngx_http_wq_decode_stream_message(ngx_http_wq_result_t *result,
    ngx_uint_t i, ngx_http_wq_stream_message_t *message);


#endif /* NGX_HTTP_WQ_COMMANDS_H_INCLUDED_ */
