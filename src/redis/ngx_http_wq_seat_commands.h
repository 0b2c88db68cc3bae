
/*
 * redis: the scripts of a seat's lock.
 *
 * As in ngx_http_wq_commands.h a call builds its arguments and sends one
 * script, and its decode function turns the answer into a struct.
 */


#ifndef NGX_HTTP_WQ_SEAT_COMMANDS_H_INCLUDED_
#define NGX_HTTP_WQ_SEAT_COMMANDS_H_INCLUDED_


#include "ngx_http_wq_commands.h"


/* one who wants a lock: the number is that of the request in its instance */

typedef struct {
    ngx_str_t                 event;
    ngx_str_t                 seat;
    ngx_str_t                 instance;
    uint64_t                  number;
    ngx_msec_t                wait;     /* 0: not at all */
    ngx_msec_t                lease;    /* how long it may hold the lock */
} ngx_http_wq_seat_call_t;


/*
 * seat_lock.lua: takes the lock, or a place in line.  May be called again with
 * the same words, which tells how things stand now.
 */

typedef struct {
    int64_t                   held;     /* by the caller */
    int64_t                   left;     /* ms of the holder; negative: no end */
    int64_t                   before;   /* negative: not in line */
} ngx_http_wq_seat_lock_reply_t;

ngx_int_t ngx_http_wq_call_seat_lock(ngx_http_wq_link_t *link,
    const wq_keyspace_t *keyspace, const ngx_http_wq_seat_call_t *seat,
    const ngx_http_wq_reply_to_t *to);
ngx_int_t ngx_http_wq_decode_seat_lock(ngx_http_wq_link_t *link,
    ngx_http_wq_result_t *result, ngx_http_wq_seat_lock_reply_t *reply);


/*
 * seat_unlock.lua: gives the lock to the next, if the caller has it, and the
 * place in line up.  It goes out however much is in flight.  to may be NULL.
 */

typedef struct {
    int64_t                   held;     /* by the caller, until now */
    int64_t                   handed;   /* to the next */
} ngx_http_wq_seat_unlock_reply_t;

ngx_int_t ngx_http_wq_call_seat_unlock(ngx_http_wq_link_t *link,
    const wq_keyspace_t *keyspace, const ngx_http_wq_seat_call_t *seat,
    const ngx_http_wq_reply_to_t *to);
ngx_int_t ngx_http_wq_decode_seat_unlock(ngx_http_wq_link_t *link,
    ngx_http_wq_result_t *result, ngx_http_wq_seat_unlock_reply_t *reply);


#endif /* NGX_HTTP_WQ_SEAT_COMMANDS_H_INCLUDED_ */
