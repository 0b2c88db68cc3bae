
/*
 * http: the gate, `waiting_queue on`: no lease, no way to the backend.
 *
 * What is known of one request at the gate.  It is in the pool of the request,
 * and found by a cleanup of that pool: an internal redirect clears the contexts
 * of all modules, but who was let in stays so.
 */


#ifndef NGX_HTTP_WQ_GATE_H_INCLUDED_
#define NGX_HTTP_WQ_GATE_H_INCLUDED_


#include "ngx_http_wq_capacity.h"

#include "wq_accept.h"


typedef enum {
    NGX_HTTP_WQ_GATE_ASKING = 0,    /* Redis, or the event service */
    NGX_HTTP_WQ_GATE_PASS,
    NGX_HTTP_WQ_GATE_STREAM,        /* the visitor gets a stream */
    NGX_HTTP_WQ_GATE_ANSWER         /* ... the page, or the JSON */
} ngx_http_wq_verdict_e;


/* why the gate is as it is, where the state of the user does not tell */

typedef enum {
    NGX_HTTP_WQ_GATE_BY_STATE = 0,
    NGX_HTTP_WQ_GATE_NO_REDIS,
    NGX_HTTP_WQ_GATE_BUSY,          /* Redis is there, and is asked too much */
    NGX_HTTP_WQ_GATE_NO_CAPACITY
} ngx_http_wq_gate_reason_e;


typedef struct {
    ngx_http_request_t          *request;
    ngx_http_cleanup_t          *cleanup;
    ngx_http_wq_worker_t        *admitted_by;   /* NULL: is not admitted */

    ngx_http_wq_verdict_e        verdict;
    ngx_http_wq_gate_reason_e    reason;
    wq_accept_e                  accept;

    ngx_str_t                    event;
    ngx_str_t                    user;
    ngx_str_t                    shown;         /* token, of the client */

    ngx_http_wq_visit_t          visit;
    ngx_http_wq_asker_t          asker;

    /* what is known of the user */
    wq_status_e                  status;
    int64_t                      rank;
    int64_t                      total;
    int64_t                      eta;           /* s */
    ngx_http_wq_known_token_t    lease;         /* if has_lease */
    ngx_msec_t                   lease_ends;

    unsigned                     new_user:1;    /* has no cookie yet */
    unsigned                     withheld:1;    /* ... or it was kept back */
    unsigned                     has_lease:1;
    unsigned                     bad_token:1;   /* was shown */
    unsigned                     is_over:1;     /* by the backend's word */
    unsigned                     nonsense:1;    /* was said by the backend */
} ngx_http_wq_gate_t;


/* of the main request; NULL if it has not come to a gate */

ngx_http_wq_gate_t *ngx_http_wq_gate_get(ngx_http_request_t *r);

/* a stream may leave a request that has nothing else on it than this */

ngx_uint_t ngx_http_wq_gate_is_cleanup(ngx_pool_cleanup_t *cln);

/* the state of who is not let in, as the JSON and the page tell it */

void ngx_http_wq_gate_state(ngx_http_wq_gate_t *gate, wq_state_t *state);


/*
 * ask: known() is whether the node knows the lease of the user: not long ago,
 * or, while Redis is away, at all.  ask() asks Redis; NGX_OK: the request waits
 * from now on, and its phases are run again when there is a verdict.  Else
 * there is none yet, and not_asked() gives one, by what ask() has returned.
 */

ngx_uint_t ngx_http_wq_gate_known(ngx_http_wq_gate_t *gate, ngx_uint_t fresh);
ngx_int_t ngx_http_wq_gate_ask(ngx_http_wq_gate_t *gate);
void ngx_http_wq_gate_not_asked(ngx_http_wq_gate_t *gate, ngx_int_t rc);


/* answer: a content handler, for whoever is not let in */

ngx_int_t ngx_http_wq_gate_answer(ngx_http_request_t *r);


/* filter: what the backend says, and the cookies */

void ngx_http_wq_gate_filter_init(void);

/*
 * A phase of internal redirects: the word of a backend that has redirected
 * (X-Accel-Redirect) would be lost with its answer.
 */

ngx_int_t ngx_http_wq_gate_redirected(ngx_http_request_t *r);


#endif /* NGX_HTTP_WQ_GATE_H_INCLUDED_ */
