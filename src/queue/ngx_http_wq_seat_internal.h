
/* queue: what the files of the seats' locks share */


#ifndef NGX_HTTP_WQ_SEAT_INTERNAL_H_INCLUDED_
#define NGX_HTTP_WQ_SEAT_INTERNAL_H_INCLUDED_


#include "ngx_http_wq_worker.h"


typedef enum {
    NGX_HTTP_WQ_SEAT_WANTED = 0,
    NGX_HTTP_WQ_SEAT_OURS,
    NGX_HTTP_WQ_SEAT_OVER,          /* lapsed, and not left yet */
    NGX_HTTP_WQ_SEAT_LEFT           /* the request has gone */
} ngx_http_wq_seat_state_e;


struct ngx_http_wq_seat_s {
    ngx_rbtree_node_t             node;     /* its key is the number */
    ngx_http_wq_worker_t         *worker;
    ngx_http_wq_seat_wish_t       wish;
    ngx_http_wq_seat_state_e      state;

    /* of the wait, then of the lease; the next question, or try */
    ngx_http_wq_timer_t           deadline;
    ngx_http_wq_timer_t           again;

    ngx_msec_t                    asked;
    ngx_msec_t                    ends;     /* when the lock lapses, at most */
    ngx_uint_t                    tries;
    ngx_msec_t                    deaf_since;   /* if deaf */

    unsigned                      under_way:1;  /* a question, or a try */
    unsigned                      known:1;  /* to Redis, for all we know */
    unsigned                      in_line:1;
    unsigned                      deaf:1;   /* the last was not answered */
    unsigned                      late:1;   /* the wait was over before */

    u_char                        ids[1];
};


/* a new one, which is asked for nothing yet, or NULL; all is copied */

ngx_http_wq_seat_t *ngx_http_wq_seat_create(ngx_http_wq_worker_t *worker,
    const ngx_http_wq_seat_wish_t *wish);
void ngx_http_wq_seat_free(ngx_http_wq_seat_t *seat);


/* it is ours for so many ms: tells who asked, and may be left then */

void ngx_http_wq_seat_hold(ngx_http_wq_seat_t *seat, ngx_msec_t left);


/* handlers of its timers */

void ngx_http_wq_seat_deadline_handler(ngx_event_t *ev);
void ngx_http_wq_seat_again_handler(ngx_event_t *ev);


#endif /* NGX_HTTP_WQ_SEAT_INTERNAL_H_INCLUDED_ */
