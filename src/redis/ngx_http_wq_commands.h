
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

#include "wq_id.h"
#include "wq_key.h"
#include "wq_notice.h"


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
    int64_t                            unknown;     /* it was not listed */
    int64_t                            origin;      /* of the data, us */
    int64_t                            hold_ms;     /* nobody is let in */
} ngx_http_wq_heartbeat_reply_t;

/* origin as it was heard last, or 0; leaves: see heartbeat.lua, or 0 */

ngx_int_t ngx_http_wq_call_heartbeat(ngx_http_wq_link_t *link,
    const wq_keyspace_t *keyspace, const ngx_str_t *instance,
    int64_t origin, ngx_msec_t leaves, const ngx_http_wq_reply_to_t *to);
ngx_int_t ngx_http_wq_decode_heartbeat(ngx_http_wq_link_t *link,
    ngx_http_wq_result_t *result, ngx_http_wq_heartbeat_reply_t *reply);


/*
 * bury_instance.lua: an instance that is gone, or goes, is taken off the list,
 * and its stream is removed; not while it has messages of ENTRY that another
 * must claim first, nor if it has given another heartbeat than this since; NULL
 * for any.  to may be NULL too.
 */

typedef struct {
    int64_t                            buried;
} ngx_http_wq_bury_reply_t;

ngx_int_t ngx_http_wq_call_bury_instance(ngx_http_wq_link_t *link,
    const wq_keyspace_t *keyspace, const ngx_str_t *instance,
    const int64_t *heartbeat, const ngx_http_wq_reply_to_t *to);
ngx_int_t ngx_http_wq_decode_bury(ngx_http_wq_link_t *link,
    ngx_http_wq_result_t *result, ngx_http_wq_bury_reply_t *reply);


/* fill_promotion_tasks.lua: begins a round of promotion, if it is time */

#define NGX_HTTP_WQ_DEAD_MAX  10

typedef struct {
    int64_t                            leads;
    int64_t                            tasks;
    wq_reply_t                         dead;    /* instance, heartbeat, ... */
} ngx_http_wq_tasks_reply_t;

ngx_int_t ngx_http_wq_call_fill_tasks(ngx_http_wq_link_t *link,
    const wq_keyspace_t *keyspace, const ngx_str_t *instance,
    ngx_msec_t round, ngx_msec_t dead_after, const ngx_http_wq_reply_to_t *to);
ngx_int_t ngx_http_wq_decode_tasks(ngx_http_wq_link_t *link,
    ngx_http_wq_result_t *result, ngx_http_wq_tasks_reply_t *reply);

/*
 * The i-th dead instance.  NGX_OK; NGX_DONE: there are no more; NGX_DECLINED:
 * this one cannot be an instance of ours.
 */

ngx_int_t ngx_http_wq_decode_dead(const ngx_http_wq_tasks_reply_t *reply,
    ngx_uint_t i, ngx_str_t *instance, int64_t *heartbeat);


/*
 * Some of the events of this round, n at most; all events there are.  Both
 * answer with an array of ids, or nil.
 */

ngx_int_t ngx_http_wq_call_pop_tasks(ngx_http_wq_link_t *link,
    const wq_keyspace_t *keyspace, ngx_uint_t n,
    const ngx_http_wq_reply_to_t *to);
ngx_int_t ngx_http_wq_call_events(ngx_http_wq_link_t *link,
    const wq_keyspace_t *keyspace, const ngx_http_wq_reply_to_t *to);

/* as ngx_http_wq_decode_dead() */

ngx_int_t ngx_http_wq_decode_event_id(ngx_http_wq_result_t *result,
    ngx_uint_t i, ngx_str_t *event);


/*
 * The streams ENTRY and DISPATCH:{instance}, by their keys; every instance is a
 * consumer of the one group that each has.  open() makes the stream and its
 * group; an answer of BUSYGROUP means that both are there.  read() gives up to
 * NGX_HTTP_WQ_STREAM_COUNT messages: after ">" it waits on a blocking link for
 * up to block_ms for new ones, and its answer is nil when none came; after an
 * id it gives at once those that this instance has read before and not
 * discarded.  claim() takes over as many that another consumer has read and
 * not discarded for NGX_HTTP_WQ_STREAM_IDLE ms.  discard_messages.lua
 * acknowledges and removes messages, at most as many.
 */

#define NGX_HTTP_WQ_STREAM_GROUP    "waiting_queue"
#define NGX_HTTP_WQ_STREAM_COUNT    100
#define NGX_HTTP_WQ_STREAM_IDLE     10000

/*
 * DISPATCH of the instance, or ENTRY where instance is NULL; buf has room for
 * NGX_HTTP_WQ_KEY_MAX bytes
 */

ngx_str_t ngx_http_wq_stream_key(u_char *buf, const wq_keyspace_t *keyspace,
    const ngx_str_t *instance);

ngx_int_t ngx_http_wq_call_stream_open(ngx_http_wq_link_t *link,
    const ngx_str_t *key, const ngx_http_wq_reply_to_t *to);
ngx_int_t ngx_http_wq_call_stream_read(ngx_http_wq_link_t *link,
    const ngx_str_t *key, const ngx_str_t *instance, const ngx_str_t *after,
    ngx_msec_t block_ms, const ngx_http_wq_reply_to_t *to);
ngx_int_t ngx_http_wq_call_stream_claim(ngx_http_wq_link_t *link,
    const ngx_str_t *key, const ngx_str_t *instance,
    const ngx_http_wq_reply_to_t *to);
ngx_int_t ngx_http_wq_call_stream_discard(ngx_http_wq_link_t *link,
    const ngx_str_t *key, const ngx_str_t *ids, ngx_uint_t n,
    const ngx_http_wq_reply_to_t *to);


/* 18446744073709551615-18446744073709551615 */
#define NGX_HTTP_WQ_STREAM_ID_MAX  41

typedef struct {
    wq_str_t                           id;
    wq_reply_t                         fields;  /* name, value, name ... */
} ngx_http_wq_stream_message_t;

/* the array of messages in an answer to read() and to claim() */

wq_reply_t ngx_http_wq_decode_read(ngx_http_wq_result_t *result);
wq_reply_t ngx_http_wq_decode_claimed(ngx_http_wq_result_t *result);

/*
 * The i-th of them.  NGX_DONE: there are no more; NGX_DECLINED: this one is not
 * a message.
 */

ngx_int_t ngx_http_wq_decode_stream_message(wq_reply_t messages,
    ngx_uint_t i, ngx_http_wq_stream_message_t *message);


/* what a message says, as wq_notice_t has it */

typedef struct {
    wq_notice_e                        type;
    ngx_str_t                          event;
    ngx_str_t                          user;
    ngx_str_t                          instance;
    ngx_str_t                          token;
    uint64_t                           idx;
    int64_t                            expires;
    int64_t                            serial;
} ngx_http_wq_notice_t;

/* NGX_OK, or NGX_DECLINED for what makes no sense; borrows from the reply */

ngx_int_t ngx_http_wq_decode_notice(
    const ngx_http_wq_stream_message_t *message, ngx_http_wq_notice_t *notice);

/*
 * Puts a notice into the stream of its instance.  The answer is nil where there
 * is no such stream, that is, no such instance any more.
 */

ngx_int_t ngx_http_wq_call_dispatch(ngx_http_wq_link_t *link,
    const wq_keyspace_t *keyspace, const ngx_http_wq_notice_t *notice,
    const ngx_http_wq_reply_to_t *to);


/* for the other files of this layer; to may be NULL: nobody waits */

ngx_int_t ngx_http_wq_send_command(ngx_http_wq_link_t *link,
    const ngx_str_t *argv, ngx_uint_t argc, ngx_msec_t block_ms,
    const ngx_http_wq_reply_to_t *to);
ngx_int_t ngx_http_wq_send_script(ngx_http_wq_link_t *link,
    ngx_uint_t script, const ngx_str_t *argv, ngx_uint_t nkeys,
    ngx_uint_t argc, const ngx_http_wq_reply_to_t *to);
ngx_int_t ngx_http_wq_send_vital_script(ngx_http_wq_link_t *link,
    ngx_uint_t script, const ngx_str_t *argv, ngx_uint_t nkeys,
    ngx_uint_t argc, const ngx_http_wq_reply_to_t *to);

/*
 * NGX_OK, or NGX_ERROR for an answer that no script of ours gives: it is
 * counted and logged, and to be treated as if there were none.
 */

ngx_int_t ngx_http_wq_decode_reply(ngx_http_wq_link_t *link,
    ngx_http_wq_result_t *result, const char *what, const wq_field_t *fields,
    size_t n, void *reply);

/* buf has room for NGX_HTTP_WQ_KEY_MAX bytes; the ids were checked */

/* prefix, longest name, braces, event and user */
#define NGX_HTTP_WQ_KEY_MAX  (64 + 64 + 2 * WQ_ID_MAX)

ngx_str_t ngx_http_wq_key(u_char *buf, const wq_keyspace_t *keyspace,
    wq_key_e key, const ngx_str_t *event, const ngx_str_t *user);


#endif /* NGX_HTTP_WQ_COMMANDS_H_INCLUDED_ */
