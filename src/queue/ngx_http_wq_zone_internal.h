
/*
 * queue: how the zone is laid out, for the files of the zone alone.
 *
 * All of it is in shared memory.  A slot is written by its process without a
 * lock; everything else is touched under the mutex of the slab pool only, and
 * briefly: a worker may be killed at any instruction.
 */


#ifndef NGX_HTTP_WQ_ZONE_INTERNAL_H_INCLUDED_
#define NGX_HTTP_WQ_ZONE_INTERNAL_H_INCLUDED_


#include "ngx_http_wq_zone.h"

#include "wq_backoff.h"
#include "wq_bucket.h"
#include "wq_throughput.h"


/*
 * Room for the old and the new workers of several reloads at once: a worker
 * may take its time to drain.
 */
#define NGX_HTTP_WQ_ZONE_SLOTS  128


typedef struct {
    ngx_http_wq_slot_t         slots[NGX_HTTP_WQ_ZONE_SLOTS];

    /* of processes that are gone, by worker number; the last takes the rest */
    ngx_http_wq_totals_t       gone[NGX_HTTP_WQ_ZONE_SLOTS];
} ngx_http_wq_processes_t;


/*
 * All times are ngx_current_msec, which is the same clock in all processes,
 * but a cached one: another process may have written a later time than ours.
 *
 * Two KB when the slab has rounded it up.
 */

typedef struct {
    ngx_rbtree_node_t          node;        /* first, see the casts */
    ngx_queue_t                queue;       /* of the idle */
    ngx_msec_t                 used;

    ngx_http_wq_figures_t      figures;
    ngx_msec_t                 reported;

    /* reported while lost data are put back: not to be added to once more */
    int64_t                    held_sold;
    int64_t                    held_seats;

    wq_throughput_t            throughput;  /* of users let in */
    wq_flow_t                  flow;        /* of those in line */

    ngx_pid_t                  asking;      /* 0: nobody */
    ngx_msec_t                 ask_until;
    ngx_msec_t                 ask_after;   /* if the backoff has begun */
    ngx_msec_t                 answered;    /* when, if it was */
    wq_backoff_t               backoff;

    wq_bucket_t                ration;
    ngx_msec_t                 ration_until;    /* if rationed */

    uint32_t                   streams[NGX_HTTP_WQ_ZONE_SLOTS];

    unsigned                   idle:1;      /* is in the queue */
    unsigned                   known:1;     /* there are figures */
    unsigned                   told:1;      /* the capacity, to Redis */
    unsigned                   rationed:1;  /* not to be forgotten yet */

    u_char                     id_len;
    u_char                     id[WQ_ID_MAX];
} ngx_http_wq_zone_event_t;


typedef struct {
    ngx_rbtree_t               rbtree;      /* by hash, then by id */
    ngx_rbtree_node_t          sentinel;

    /* those without streams on this node, the one last used first */
    ngx_queue_t                idle;

    ngx_uint_t                 count;
} ngx_http_wq_events_t;


/* what a token of usual ids takes when the slab has rounded it up */
#define NGX_HTTP_WQ_TOKEN_BYTES  256


/* a token of a user of an event; times as those of an event above */

typedef struct {
    ngx_rbtree_node_t          node;        /* first, see the casts */
    ngx_queue_t                queue;
    ngx_msec_t                 checked;
    ngx_msec_t                 ends;
    int64_t                    expires;     /* the same by Redis' clock */
    int64_t                    waited;
    int64_t                    since;
    int64_t                    idx;

    u_char                     token[WQ_TOKEN_LEN];
    u_char                     event_len;
    u_char                     user_len;
    u_char                     is_over;     /* the token is good no more */
    u_char                     entered;
    u_char                     ids[1];      /* event, user */
} ngx_http_wq_zone_token_t;


typedef struct {
    ngx_rbtree_t               rbtree;      /* by hash, then by ids */
    ngx_rbtree_node_t          sentinel;
    ngx_queue_t                queue;       /* the one last used first */

    ngx_uint_t                 count;
    ngx_uint_t                 max;
    uint64_t                   evicted;     /* before they lapsed */
} ngx_http_wq_tokens_t;


/* a visit that is over, and of which Redis has not heard */

struct ngx_http_wq_zone_ending_s {
    ngx_queue_t                queue;
    ngx_msec_t                 until;
    ngx_pid_t                  pid;         /* says it, while it is said */
    u_char                     token[WQ_TOKEN_LEN];
    u_char                     sold;        /* with a seat */
    u_char                     event_len;
    u_char                     user_len;
    u_char                     ids[1];      /* event, user */
};


typedef struct {
    ngx_queue_t                left;        /* nobody says them now */
    ngx_uint_t                 count;       /* of those */
    ngx_queue_t                said;        /* Redis is being told of them */
} ngx_http_wq_endings_left_t;


typedef struct {
    ngx_http_wq_processes_t    processes;
    ngx_http_wq_events_t       events;
    ngx_http_wq_tokens_t       tokens;
    ngx_http_wq_endings_left_t endings;
    int64_t                    origin;
} ngx_http_wq_shared_t;


struct ngx_http_wq_zone_s {
    ngx_http_wq_shared_t      *shared;
    ngx_slab_pool_t           *shpool;
};


/* of slots; for a caller that holds the mutex */

void ngx_http_wq_zone_bury_dead(ngx_http_wq_shared_t *shared);
void ngx_http_wq_zone_add_totals(ngx_http_wq_totals_t *totals,
    ngx_http_wq_slot_t *slot);


void ngx_http_wq_zone_events_init(ngx_http_wq_events_t *events);

/* for a caller that holds the mutex: the data were lost, perhaps once more */

void ngx_http_wq_zone_events_lost(ngx_http_wq_events_t *events);

void ngx_http_wq_zone_endings_init(ngx_http_wq_endings_left_t *endings);

/*
 * For a caller that holds the mutex: what the dead were saying is left.  self
 * is 0 for a process that has just begun, whose number a dead one may have had.
 */

void ngx_http_wq_zone_endings_bury(ngx_http_wq_endings_left_t *endings,
    ngx_pid_t self);

/* bytes that are free */

void ngx_http_wq_zone_tokens_init(ngx_http_wq_tokens_t *tokens, size_t bytes);


/* for a caller that holds the mutex: n of those longest not used go */

void ngx_http_wq_zone_tokens_evict(ngx_http_wq_zone_t *zone, ngx_uint_t n,
    ngx_uint_t lapsed_only);


/* for a caller that holds the mutex: the streams of that slot are no more */

void ngx_http_wq_zone_events_bury(ngx_http_wq_events_t *events,
    ngx_uint_t slot);


/* the same: looks at n at most, and removes who is idle and out of date */

void ngx_http_wq_zone_events_expire(ngx_http_wq_zone_t *zone, ngx_uint_t n);


/* the same: the streams of all processes */

uint64_t ngx_http_wq_zone_event_streams(ngx_http_wq_zone_event_t *event);


#endif /* NGX_HTTP_WQ_ZONE_INTERNAL_H_INCLUDED_ */
