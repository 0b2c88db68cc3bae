
/*
 * queue: a request at the gate, or of the API.
 *
 * A visit asks Redis about one user of one event, one question at a time, on
 * behalf of a request that may end at any moment: it lives with the request,
 * and is closed with it.  The end of a visit, which the backend says, is a
 * thing of its own: it outlives the request.
 */


#ifndef NGX_HTTP_WQ_VISIT_H_INCLUDED_
#define NGX_HTTP_WQ_VISIT_H_INCLUDED_


#include "ngx_http_wq_client.h"
#include "ngx_http_wq_zone.h"


typedef struct ngx_http_wq_visit_s  ngx_http_wq_visit_t;


typedef enum {
    NGX_HTTP_WQ_VISIT_ANSWERED = 0,
    NGX_HTTP_WQ_VISIT_NO_CAPACITY,  /* none is known: find it, join again */
    NGX_HTTP_WQ_VISIT_NO_REDIS      /* no answer, or none that makes sense */
} ngx_http_wq_visit_e;


typedef struct {
    ngx_http_wq_visit_e         outcome;

    /* of an answer; after touch() entered, or none for a token that is bad */
    wq_status_e                 status;
    int64_t                     rank;       /* negative: not in line */
    int64_t                     total;
    int64_t                     eta;        /* s; negative: not known */
    int64_t                     expires;    /* ms since 1970, if in */
    int64_t                     waited;     /* ms, if in */
    ngx_msec_t                  ends;       /* expires, as ngx_current_msec */
    const u_char               *token;      /* of WQ_TOKEN_LEN, if in */
    ngx_uint_t                  had;        /* after quit() alone */
} ngx_http_wq_visit_answer_t;


/* called once for each question that was taken; not after close() */

typedef void (*ngx_http_wq_visit_handler_pt)(ngx_http_wq_visit_t *visit,
    const ngx_http_wq_visit_answer_t *answer);


typedef ngx_int_t (*ngx_http_wq_visit_ask_pt)(ngx_http_wq_visit_t *visit);


/* the worker is gone, with all that hangs on the event; nothing is answered */

typedef void (*ngx_http_wq_visit_lost_pt)(ngx_http_wq_visit_t *visit);


struct ngx_http_wq_visit_s {
    ngx_queue_t                    queue;       /* of the worker's */
    ngx_http_wq_event_t           *event;       /* held; NULL: not open */
    ngx_http_wq_operation_t       *operation;

    /* the question, for asking it again when a lost lease was put back */
    ngx_http_wq_visit_ask_pt       ask;
    int64_t                        capacity;    /* of join() */
    ngx_uint_t                     restored;    /* or tried to */

    /* of whoever opens it, and as long-lived */
    ngx_str_t                      user;
    ngx_str_t                      token;
    const ngx_http_wq_rules_t     *rules;
    ngx_http_wq_join_e             mode;
    ngx_http_wq_visit_handler_pt   handler;
    ngx_http_wq_visit_lost_pt      lost;
    void                          *data;
};


/* NGX_OK, or NGX_ERROR for want of memory */

ngx_int_t ngx_http_wq_visit_open(ngx_http_wq_worker_t *worker,
    ngx_http_wq_visit_t *visit, const ngx_str_t *event);

/* may be called at any time, and again: nothing is answered after this */

void ngx_http_wq_visit_close(ngx_http_wq_visit_t *visit);

/*
 * The questions: whether the token is good; whether the user can come in, with
 * the capacity that the service said, or negative; how the user stands; and
 * whether there was a place or a lease that the user, who goes, had.  A lease
 * that this node knows and Redis may have lost is put back first.  NGX_OK: the handler will be called, not before this returns. NGX_BUSY: too
 * much is asked already; any other: Redis cannot be asked.
 *
 * What the answer says of a lease is known to the node by then.
 */

ngx_int_t ngx_http_wq_visit_touch(ngx_http_wq_visit_t *visit);
ngx_int_t ngx_http_wq_visit_join(ngx_http_wq_visit_t *visit,
    int64_t capacity);
ngx_int_t ngx_http_wq_visit_status(ngx_http_wq_visit_t *visit);
ngx_int_t ngx_http_wq_visit_quit(ngx_http_wq_visit_t *visit);


/*
 * The backend has said that the visit is over: the lease ends, and the slot
 * goes to the next in line, or with the seat that was sold.  Said again while
 * Redis does not answer, for half an hour, by any worker of this node; all is
 * copied.
 */

void ngx_http_wq_ending_add(ngx_http_wq_worker_t *worker,
    const ngx_str_t *event, const ngx_str_t *user, const ngx_str_t *token,
    ngx_http_wq_release_e why);


/*
 * A request that was let in may still say the end of its visit: a worker that
 * quits waits for it with its link to Redis.
 */

void ngx_http_wq_visits_admit(ngx_http_wq_worker_t *worker);
void ngx_http_wq_visits_dismiss(ngx_http_wq_worker_t *worker);


/* of a worker; destroy() leaves the visits closed, having told them by lost */

void ngx_http_wq_visits_init(ngx_http_wq_worker_t *worker);
void ngx_http_wq_visits_destroy(ngx_http_wq_worker_t *worker);
void ngx_http_wq_endings_init(ngx_http_wq_worker_t *worker);
void ngx_http_wq_endings_destroy(ngx_http_wq_worker_t *worker);


/*
 * look() says what others could not, if it is time to try.  drain() is the
 * beginning of the time for which a worker that quits is busy() as long as
 * there is anything that nobody could say.
 */

void ngx_http_wq_endings_look(ngx_http_wq_worker_t *worker);
void ngx_http_wq_endings_drain(ngx_http_wq_worker_t *worker);
ngx_uint_t ngx_http_wq_endings_busy(ngx_http_wq_worker_t *worker);


#endif /* NGX_HTTP_WQ_VISIT_H_INCLUDED_ */
