
/*
 * queue: the lock of a seat, which a request waits for and then holds.
 *
 * A seat here is one request's wish for one.  It is the worker's, outside of
 * the request, because it outlives it: the lock is given back until Redis has
 * heard it, or it has lapsed by itself.
 */


#ifndef NGX_HTTP_WQ_SEAT_H_INCLUDED_
#define NGX_HTTP_WQ_SEAT_H_INCLUDED_


#include "ngx_http_wq_client.h"
#include "ngx_http_wq_seat_commands.h"


typedef struct ngx_http_wq_seat_s  ngx_http_wq_seat_t;


typedef enum {
    NGX_HTTP_WQ_SEAT_HELD = 0,      /* until it is left, or lapses */
    NGX_HTTP_WQ_SEAT_TAKEN,         /* the wait is over */
    NGX_HTTP_WQ_SEAT_NO_REDIS,
    NGX_HTTP_WQ_SEAT_LAPSED,        /* after HELD: the lease is over */
    NGX_HTTP_WQ_SEAT_LOST           /* the worker is gone, whatever was */
} ngx_http_wq_seat_e;


/*
 * First HELD, TAKEN or NO_REDIS, and after HELD perhaps LAPSED; or LOST at any
 * time.  HELD and LAPSED leave the seat with the one who asked, who must leave
 * it; after the others it is not theirs any more.  The handler may leave it.
 */

typedef void (*ngx_http_wq_seat_handler_pt)(void *data,
    ngx_http_wq_seat_e outcome);


/* the ids are copied */

typedef struct {
    ngx_str_t                     event;
    ngx_str_t                     seat;
    ngx_msec_t                    wait;
    ngx_msec_t                    lease;
    ngx_http_wq_seat_handler_pt   handler;
    void                         *data;
} ngx_http_wq_seat_wish_t;


/*
 * NGX_OK: the handler will be called, not before this returns, unless the seat
 * is left before.  Else what ngx_http_wq_operation_send() returns: Redis cannot
 * be asked.
 */

ngx_int_t ngx_http_wq_seat_ask(ngx_http_wq_worker_t *worker,
    const ngx_http_wq_seat_wish_t *wish, ngx_http_wq_seat_t **seat);

/* the request is over, or wants it no more: nothing is answered after this */

void ngx_http_wq_seat_leave(ngx_http_wq_seat_t *seat);


/* a message: a lock was handed to a request of this worker */

void ngx_http_wq_seat_notice(ngx_http_wq_worker_t *worker,
    const ngx_http_wq_notice_t *notice);


/*
 * Of a worker.  drain(): no messages come any more.  destroy(): the links are
 * gone; all who still wait or hold are told by LOST.
 */

void ngx_http_wq_seats_init(ngx_http_wq_worker_t *worker);
void ngx_http_wq_seats_drain(ngx_http_wq_worker_t *worker);
void ngx_http_wq_seats_destroy(ngx_http_wq_worker_t *worker);


#endif /* NGX_HTTP_WQ_SEAT_H_INCLUDED_ */
