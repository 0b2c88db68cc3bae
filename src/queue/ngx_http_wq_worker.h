
/*
 * queue: one worker's part in the line, from its start to its end.
 *
 * There is one per process, made when a worker (or the single process) starts;
 * the master, the helpers and `nginx -t` have none and open no socket.
 */


#ifndef NGX_HTTP_WQ_WORKER_H_INCLUDED_
#define NGX_HTTP_WQ_WORKER_H_INCLUDED_


#include "ngx_http_wq_client.h"
#include "ngx_http_wq_consumer.h"
#include "ngx_http_wq_seat.h"
#include "ngx_http_wq_visit.h"
#include "ngx_http_wq_zone.h"


typedef struct {
    ngx_http_wq_redis_conf_t   redis;
    ngx_str_t                  prefix;      /* of all keys */
    ngx_str_t                  node;        /* first part of the instance */

    ngx_msec_t                 interval;    /* of positions */
    ngx_msec_t                 promote_interval;
    ngx_msec_t                 drain;       /* streams end within this time */
    ngx_uint_t                 max_streams; /* of a worker; 0: any number */

    size_t                     zone_size;
    ngx_http_wq_zone_t        *zone;

    /* some directive asks for the module: else it stays asleep */
    ngx_uint_t                 used;        /* unsigned  used:1; */
} ngx_http_wq_queue_conf_t;


typedef struct {
    ngx_http_wq_timer_t        timer;
    unsigned                   under_way:1;
    unsigned                   known:1;     /* to Redis, for all we know */
} ngx_http_wq_heartbeat_t;


typedef struct {
    ngx_http_wq_timer_t        timer;
    ngx_uint_t                 running;     /* events being promoted */
    ngx_queue_t                opening;     /* events, by their rate */
    unsigned                   under_way:1; /* a question for tasks */
} ngx_http_wq_promoter_t;


typedef struct {
    ngx_http_wq_timer_t        timer;
    ngx_event_t                slice;       /* posted while there are sweeps */
    ngx_connection_t           connection;  /* of slice, never opened */
    ngx_queue_t                sweeps;      /* events */
} ngx_http_wq_broadcaster_t;


typedef struct ngx_http_wq_reaping_s  ngx_http_wq_reaping_t;


typedef struct {
    ngx_rbtree_t               deadlines;   /* of the absent */
    ngx_rbtree_node_t          sentinel;
    ngx_http_wq_timer_t        timer;
} ngx_http_wq_grace_t;


typedef struct {
    ngx_queue_t                queue;       /* Redis is being told of them */
    ngx_uint_t                 count;
    ngx_msec_t                 next;        /* look at those in the zone */
    ngx_msec_t                 last;        /* of a worker that quits */
    ngx_uint_t                 failed;      /* one, since the last look */
} ngx_http_wq_endings_t;


typedef struct {
    ngx_rbtree_t               tree;        /* by their numbers */
    ngx_rbtree_node_t          sentinel;
    ngx_uint_t                 number;      /* the last one given */
    ngx_uint_t                 count;
} ngx_http_wq_seats_t;


typedef struct {
    ngx_http_wq_timer_t        timer;
    int64_t                    origin;      /* of the data that are known */
    ngx_msec_t                 until;       /* when it is given up */
    ngx_queue_t                missing;     /* clients without a stream */

    /* of the node: its events, and then its leases */
    ngx_pool_t                *pool;        /* of the events */
    ngx_http_wq_snapshot_t     snapshot;
    ngx_uint_t                 next;        /* of the events */
    ngx_http_wq_known_lease_t  last;        /* of the leases */
    ngx_uint_t                 asked;       /* calls under way */
    ngx_uint_t                 restored;    /* leases */

    unsigned                   node:1;      /* it is for this worker to do */
    unsigned                   walking:1;   /* there is a last lease */
    unsigned                   failed:1;    /* to be done again */
} ngx_http_wq_recovery_t;


struct ngx_http_wq_worker_s {
    const ngx_http_wq_queue_conf_t  *conf;
    ngx_log_t                       *log;

    ngx_str_t                        instance;
    wq_keyspace_t                    keyspace;
    ngx_http_wq_slot_t              *slot;

    ngx_http_wq_link_t              *links[NGX_HTTP_WQ_LINKS];
    ngx_str_t                        client_names[NGX_HTTP_WQ_LINKS];

    ngx_http_wq_heartbeat_t          heartbeat;
    ngx_http_wq_promoter_t           promoter;
    ngx_http_wq_broadcaster_t        broadcaster;
    ngx_http_wq_consumer_t           dispatcher;
    ngx_http_wq_consumer_t           router;
    ngx_http_wq_grace_t              grace;
    ngx_http_wq_reaping_t           *reaping;   /* NULL: nothing to reap */
    ngx_http_wq_recovery_t           recovery;

    ngx_rbtree_t                     events;
    ngx_rbtree_node_t                events_sentinel;
    ngx_queue_t                      joining;   /* clients */
    ngx_queue_t                      streams;   /* clients, by age */
    ngx_uint_t                       connecting;    /* those with a stream */

    ngx_queue_t                      visits;    /* that are open */
    ngx_uint_t                       admitted;  /* requests, not over */
    ngx_http_wq_endings_t            endings;
    ngx_http_wq_seats_t              seats;     /* locks, asked for or held */

    /* Redis' clock, in ms, minus ngx_current_msec */
    int64_t                          clock;

    /* tells by its `idle` that nginx wants this worker to quit */
    ngx_connection_t                *watcher;
    ngx_http_wq_timer_t              quit;
    ngx_msec_t                       drained;   /* when it is to be */

    ngx_msec_t                       complained;    /* of settings */

    /*
     * First a worker is leaving: it takes no streams, and gives up its own one
     * by one, to which it tells all there is until then.  Then, with nobody
     * left, it drains: it waits for what is under way.
     */
    unsigned                         leaving:1;
    unsigned                         draining:1;
    unsigned                         indebted:1;    /* had clients to the end */

    u_char                           instance_data[WQ_ID_MAX];
    u_char                           client_name_data[NGX_HTTP_WQ_LINKS]
                                         [WQ_ID_MAX + sizeof(":commands")];
};


/*
 * In so many ms whoever was told to connect again has done so: it is the
 * longest retry: of a stream (ngx_http_wq_stream_retry()), and the way.  So
 * long a place is kept, be the grace time what it will.
 */

#define ngx_http_wq_come_again(worker)                                        \
    ((ngx_msec_t) ((worker)->conf->drain ? 3000 : 8000))


/* NULL where the module is not at work */
extern ngx_http_wq_worker_t  *ngx_http_wq_worker;


/*
 * The start and the end of the process.  A start that fails does so for want
 * of memory or of worker_connections, and is logged; the worker then serves
 * all other locations.
 */

void ngx_http_wq_worker_start(const ngx_http_wq_queue_conf_t *conf,
    ngx_log_t *log);
void ngx_http_wq_worker_stop(void);


/* heartbeat: once a second this instance says that it is alive */

void ngx_http_wq_heartbeat_init(ngx_http_wq_worker_t *worker);
void ngx_http_wq_heartbeat_start(ngx_http_wq_worker_t *worker);
void ngx_http_wq_heartbeat_stop(ngx_http_wq_worker_t *worker);
void ngx_http_wq_heartbeat_last(ngx_http_wq_worker_t *worker);


/* promoter: rounds of promotion, and this worker's part in them */

void ngx_http_wq_promoter_init(ngx_http_wq_worker_t *worker);
void ngx_http_wq_promoter_start(ngx_http_wq_worker_t *worker);
void ngx_http_wq_promoter_stop(ngx_http_wq_worker_t *worker);

/* of an event that was just made */

void ngx_http_wq_promoter_event_init(ngx_http_wq_event_t *event);

/* an answer says that the rate lets in those who wait in so many ms; 0: no */

void ngx_http_wq_promoter_opens(ngx_http_wq_event_t *event, int64_t ms);


/* reaper: what dead instances have left; NGX_BUSY: is at it already */

ngx_int_t ngx_http_wq_reaper_start(ngx_http_wq_worker_t *worker,
    const ngx_http_wq_tasks_reply_t *tasks);
void ngx_http_wq_reaper_stop(ngx_http_wq_worker_t *worker);


/*
 * pace: how long the line takes.  learn() is told what an answer says; eta() is
 * for somebody of this rank, in s, or WQ_ETA_UNKNOWN.  is_news() is whether it
 * is so different from what was told to all in the line last that those must
 * hear it who have not moved.
 */

void ngx_http_wq_pace_learn(ngx_http_wq_event_t *event, int64_t users,
    int64_t ms, int64_t halted, ngx_uint_t crowded);
int64_t ngx_http_wq_pace_eta(const ngx_http_wq_event_t *event, uint64_t rank);
ngx_uint_t ngx_http_wq_pace_is_news(const ngx_http_wq_event_t *event);


/* broadcaster: positions, to those whose position has changed */

void ngx_http_wq_broadcaster_init(ngx_http_wq_worker_t *worker);
void ngx_http_wq_broadcaster_start(ngx_http_wq_worker_t *worker);
void ngx_http_wq_broadcaster_stop(ngx_http_wq_worker_t *worker);

/* the ranks of all events are not to be trusted any more */

void ngx_http_wq_broadcaster_resync(ngx_http_wq_worker_t *worker);

/* the event has no more references; drops what it has of a tick */

void ngx_http_wq_broadcaster_forget(ngx_http_wq_event_t *event);

/* the tick of the event is over */

void ngx_http_wq_broadcaster_done(ngx_http_wq_event_t *event);


/* resync: all ranks of an event anew, and back in line who is missing */

void ngx_http_wq_resync_start(ngx_http_wq_event_t *event);


/* a rank of this moment has come into the line */

void ngx_http_wq_resync_note(ngx_http_wq_event_t *event, wq_moment_t moment);


/* grace: those whose stream has ended */

void ngx_http_wq_grace_init(ngx_http_wq_worker_t *worker);
void ngx_http_wq_grace_stop(ngx_http_wq_worker_t *worker);

/* the client becomes absent, or its time is set anew */

void ngx_http_wq_grace_add(ngx_http_wq_client_t *client, ngx_msec_t delay);
void ngx_http_wq_grace_remove(ngx_http_wq_client_t *client);


/*
 * recovery: what is known here is put back when Redis has lost data.  check()
 * is told with each heartbeat since when the data are there, and for how long
 * nobody is let in; add() is for a client that has just become absent, drop()
 * for one that is about to be freed.  under_way() is as long as Redis may wait
 * for somebody, and busy() as long as this worker can put somebody back.
 */

void ngx_http_wq_recovery_init(ngx_http_wq_worker_t *worker);
void ngx_http_wq_recovery_stop(ngx_http_wq_worker_t *worker);
void ngx_http_wq_recovery_check(ngx_http_wq_worker_t *worker, int64_t origin,
    int64_t hold_ms);
void ngx_http_wq_recovery_add(ngx_http_wq_client_t *client);
void ngx_http_wq_recovery_drop(ngx_http_wq_client_t *client);
ngx_uint_t ngx_http_wq_recovery_under_way(const ngx_http_wq_worker_t *worker);
ngx_uint_t ngx_http_wq_recovery_busy(const ngx_http_wq_worker_t *worker);


/* router: from ENTRY to the stream of the instance that must know */

void ngx_http_wq_router_init(ngx_http_wq_worker_t *worker);


/* dispatcher: what this worker must tell its own clients */

void ngx_http_wq_dispatcher_init(ngx_http_wq_worker_t *worker);


#endif /* NGX_HTTP_WQ_WORKER_H_INCLUDED_ */
