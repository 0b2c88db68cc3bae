
/*
 * queue: the events and the users that this worker has to do with.
 *
 * A client is one user of one event on this worker: one with a stream, or one
 * whose stream has ended and whose place is kept for a while (absent).  Of one
 * user there is never more than one, besides those whose join is under way.
 *
 *   joining --> waiting --> ready      connected or absent
 *
 * What a stream is, only http knows; it hands in a set of functions.  The truth
 * about a user is in Redis: what is here is who must be told.
 */


#ifndef NGX_HTTP_WQ_CLIENT_H_INCLUDED_
#define NGX_HTTP_WQ_CLIENT_H_INCLUDED_


#include "ngx_http_wq_event_commands.h"

#include "wq_eta.h"
#include "wq_sweep.h"


typedef struct ngx_http_wq_worker_s   ngx_http_wq_worker_t;
typedef struct ngx_http_wq_event_s    ngx_http_wq_event_t;
typedef struct ngx_http_wq_client_s   ngx_http_wq_client_t;


#define NGX_HTTP_WQ_DEFAULT_GRACE  30000

/* ms: no setting of a time is longer */
#define NGX_HTTP_WQ_LEASE_MAX      ((int64_t) 365 * 24 * 3600 * 1000)


/* what a location says of its events; lives as long as the configuration */

typedef struct {
    ngx_str_t                    settings;      /* for Redis, see join.lua */
    ngx_msec_t                   grace;

    /* the end of the stream is the end of the lease too */
    ngx_uint_t                   release;       /* unsigned  release:1; */
} ngx_http_wq_rules_t;


typedef enum {
    NGX_HTTP_WQ_JOINING = 0,
    NGX_HTTP_WQ_WAITING,
    NGX_HTTP_WQ_READY           /* holds a lease, entered or not */
} ngx_http_wq_client_state_e;


struct ngx_http_wq_client_s {
    ngx_str_node_t               user;          /* of users or joiners */
    ngx_rbtree_node_t            by_idx;        /* of the event's line */
    ngx_rbtree_node_t            by_deadline;   /* of the absent */

    /* of the worker's: those who join, have a stream, or may be missing */
    ngx_queue_t                  queue;

    ngx_http_wq_event_t         *event;
    const ngx_http_wq_rules_t   *rules;
    void                        *stream;        /* NULL: not connected */

    /* the call under way for this client, if any */
    ngx_http_wq_operation_t     *operation;

    uint64_t                     idx;           /* of the place, the lease */
    uint64_t                     rank;
    int64_t                      total;         /* in line with it */
    wq_moment_t                  moment;        /* of both */
    int64_t                      serial;        /* of the connection */
    int64_t                      expires;
    ngx_msec_t                   disconnected;  /* when */
    ngx_msec_t                   missed;        /* since when it is overdue */

    ngx_http_wq_client_state_e   state;
    wq_status_e                  status;        /* of the lease */
    int32_t                      eta;           /* as told last */

    unsigned                     known:1;       /* among the users */
    unsigned                     in_line:1;     /* in by_idx */
    unsigned                     absent:1;      /* in by_deadline */
    unsigned                     counted:1;     /* of the absent */
    unsigned                     given_up:1;    /* said to have left */
    unsigned                     overdue:1;     /* let in, and not told */
    unsigned                     missing:1;     /* perhaps, in Redis */
    unsigned                     earlier:1;     /* it has an older place */

    u_char                       token[WQ_TOKEN_LEN];
    u_char                       user_data[1];
};


struct ngx_http_wq_event_s {
    ngx_str_node_t               id;            /* of the worker's events */
    ngx_http_wq_worker_t        *worker;
    ngx_http_wq_event_keys_t     keys;
    ngx_uint_t                   refs;          /* clients, calls under way */

    ngx_rbtree_t                 users;
    ngx_rbtree_node_t            users_sentinel;
    ngx_rbtree_t                 joiners;       /* whose join is under way */
    ngx_rbtree_node_t            joiners_sentinel;
    ngx_rbtree_t                 line;          /* connected and waiting */
    ngx_rbtree_node_t            line_sentinel;

    ngx_uint_t                   streams;
    ngx_uint_t                   waiting;       /* in the line, here */

    const ngx_http_wq_rules_t   *rules;         /* of the last who came */

    /* what Redis has said */
    uint64_t                     highest;       /* idx */
    int64_t                      joined;
    int64_t                      total;
    ngx_str_t                    epoch;

    /* broadcaster: all ranks in the line are of this moment or a later one */
    wq_moment_t                  known;
    wq_moment_t                  from;          /* of the tick under way */
    wq_gone_t                   *entries;       /* of it, and as many sorted */
    size_t                       nentries;
    size_t                       allocated;
    wq_sweep_t                   sweep;
    int64_t                      sweep_total;   /* at the moment it goes to */
    uint64_t                     swept;         /* the idx it has come to */
    uint64_t                     started_us;

    ngx_queue_t                  sweeping;      /* in the worker's list */

    /* resync: who was asked for, by idx */
    uint64_t                    *asked;
    ngx_uint_t                   nasking;       /* by the call under way */
    ngx_uint_t                   nasked;        /* by those before */
    wq_moment_t                  resynced;      /* the earliest since */
    ngx_str_t                    lost_epoch;

    /* promoter */
    uint64_t                     promote_us;    /* when it was called */
    ngx_http_wq_timer_t          opens;         /* the period of the rate */
    ngx_queue_t                  opening;       /* in the worker's list */

    /* how long it takes */
    wq_pace_t                    pace;
    ngx_msec_t                   paced;         /* when the speed was asked */
    wq_pace_t                    told;          /* to all in the line */

    /* http: those who wait for the capacity */
    void                        *capacity;

    ngx_http_wq_event_state_e    state;

    unsigned                     ticking:1;     /* a tick is under way */
    unsigned                     in_sweep:1;    /* in the worker's list */
    unsigned                     resync:1;      /* needed */
    unsigned                     overdue:1;     /* some client is */
    unsigned                     promoting:1;
    unsigned                     has_pace:1;
    unsigned                     news:1;        /* for who has not moved too */
    unsigned                     retell:1;      /* some were told others */

    u_char                       lost_data[NGX_HTTP_WQ_EPOCH_MAX];

    u_char                       epoch_data[NGX_HTTP_WQ_EPOCH_MAX];
    u_char                       id_data[WQ_ID_MAX];
};


/* why a join has led to no stream */

typedef enum {
    NGX_HTTP_WQ_REFUSED_REDIS = 0,  /* no answer, or none that makes sense */
    NGX_HTTP_WQ_REFUSED_STATUS      /* full, closed, sold out */
} ngx_http_wq_refusal_e;


/*
 * What http does with a stream.  None of these frees the client or calls back
 * into the registry; a stream that breaks is reported later, from an event of
 * its own.  The client of an end()ed or refuse()d stream may be gone when they
 * return: they must forget it.
 */

typedef struct {
    /* the join was answered: the client waits, or is ready */
    void   (*accept)(ngx_http_wq_client_t *client);

    void   (*refuse)(ngx_http_wq_client_t *client,
               ngx_http_wq_refusal_e refusal, wq_status_e status);

    /* Redis knows no capacity: find it, then ngx_http_wq_client_rejoin() */
    void   (*capacity)(ngx_http_wq_client_t *client);

    /* the rank has changed */
    void   (*position)(ngx_http_wq_client_t *client);

    /* the client has become ready */
    void   (*promoted)(ngx_http_wq_client_t *client);

    /* this event is the last; then the stream ends */
    void   (*end)(ngx_http_wq_client_t *client, wq_sse_event_e event);

    /* the process ends: no event, at once */
    void   (*close)(ngx_http_wq_client_t *client);
} ngx_http_wq_client_ops_t;


/* the one set there is; defined by http */

extern const ngx_http_wq_client_ops_t  ngx_http_wq_client_ops;


void ngx_http_wq_clients_init(ngx_http_wq_worker_t *worker);


/*
 * Whether this worker may have one stream more, of this user: fewer are open or
 * being joined than max_streams, or it is instead of one that the user has here
 * already.  Of one user there is at most one more than that, until the join is
 * answered.
 */

ngx_uint_t ngx_http_wq_client_has_room(ngx_http_wq_worker_t *worker,
    const ngx_str_t *event, const ngx_str_t *user);


/*
 * A user opens a stream.  The ids were checked.  NULL if Redis cannot be asked
 * or there is no memory; else one of accept(), refuse() or capacity() will be
 * called, never before this returns, unless ngx_http_wq_client_gone() is first.
 */

ngx_http_wq_client_t *ngx_http_wq_client_join(ngx_http_wq_worker_t *worker,
    const ngx_str_t *event, const ngx_str_t *user,
    const ngx_http_wq_rules_t *rules, void *stream);


/*
 * The same again, after capacity(); NGX_ERROR if Redis cannot be asked or the
 * worker is about to leave: the client is then freed.  capacity is what the
 * service said, or negative.
 */

ngx_int_t ngx_http_wq_client_rejoin(ngx_http_wq_client_t *client,
    int64_t capacity);


/* the stream has ended, by whatever reason; client is not to be used again */

void ngx_http_wq_client_gone(ngx_http_wq_client_t *client);


/*
 * What a message of the dispatch stream says.  NGX_OK, or NGX_ERROR if it must
 * come again later.
 */

ngx_int_t ngx_http_wq_client_notice(ngx_http_wq_worker_t *worker,
    const ngx_http_wq_notice_t *notice);


/*
 * The worker is about to leave: ends up to n streams with `reconnect`, those
 * that were opened first.  The places are kept, as those of whoever has lost
 * the connection.  connected() is how many there are.
 */

ngx_uint_t ngx_http_wq_clients_connected(ngx_http_wq_worker_t *worker);
void ngx_http_wq_clients_leave(ngx_http_wq_worker_t *worker, ngx_uint_t n);

/* all streams have ended; who is absent is left to others */

void ngx_http_wq_clients_drain(ngx_http_wq_worker_t *worker);


/* an answer says that the settings are not those of the last join, or not */

void ngx_http_wq_event_complain(ngx_http_wq_event_t *event,
    const ngx_http_wq_rules_t *rules, int64_t changed);


/* whether Redis may still have something in the name of this instance */

ngx_uint_t ngx_http_wq_clients_any(ngx_http_wq_worker_t *worker);


/* the end of the process: closes all streams and frees everything */

void ngx_http_wq_clients_destroy(ngx_http_wq_worker_t *worker);


/*
 * For the other files of this layer.
 */

/* an event; get() makes it if need be and holds it, and is NULL for want of
 * memory; an event is freed with its last reference */

void ngx_http_wq_events_init(ngx_http_wq_worker_t *worker);
ngx_http_wq_event_t *ngx_http_wq_event_find(ngx_http_wq_worker_t *worker,
    const ngx_str_t *id);
ngx_http_wq_event_t *ngx_http_wq_event_get(ngx_http_wq_worker_t *worker,
    const ngx_str_t *id);
void ngx_http_wq_event_hold(ngx_http_wq_event_t *event);
void ngx_http_wq_event_release(ngx_http_wq_event_t *event);

void ngx_http_wq_event_report_streams(ngx_http_wq_event_t *event);
void ngx_http_wq_event_set_epoch(ngx_http_wq_event_t *event,
    const wq_str_t *epoch);

/* whether Redis has lost data since the last answer, by what it says now */

ngx_uint_t ngx_http_wq_event_lost(ngx_http_wq_event_t *event, int64_t joined,
    const wq_str_t *epoch);


/* its users */

ngx_http_wq_client_t *ngx_http_wq_event_user(ngx_http_wq_event_t *event,
    const ngx_str_t *user);
void ngx_http_wq_event_add_user(ngx_http_wq_client_t *client);
void ngx_http_wq_event_remove_user(ngx_http_wq_client_t *client);


/*
 * Those whose join is under way, of whom one user may have several: whether
 * there is any of this user.
 */

void ngx_http_wq_event_add_joiner(ngx_http_wq_client_t *client);
void ngx_http_wq_event_remove_joiner(ngx_http_wq_client_t *client);
ngx_uint_t ngx_http_wq_event_has_joiner(ngx_http_wq_event_t *event,
    const ngx_str_t *user);


/*
 * Its line: those who are connected and wait, by idx.  after(): the first with
 * a greater idx; NULL: none.
 */

void ngx_http_wq_line_add(ngx_http_wq_client_t *client);
void ngx_http_wq_line_remove(ngx_http_wq_client_t *client);
ngx_http_wq_client_t *ngx_http_wq_line_after(ngx_http_wq_event_t *event,
    uint64_t idx);
ngx_http_wq_client_t *ngx_http_wq_line_find(ngx_http_wq_event_t *event,
    uint64_t idx);

#define ngx_http_wq_line_client(node)                                         \
    ngx_rbtree_data(node, ngx_http_wq_client_t, by_idx)


/*
 * A client that was made is in none of its lists yet; NULL for want of memory.
 * What it has got by set_lease() the node is to remember when its idx is set,
 * and to unremember when it has been given back.
 * end() gives the stream its last event, disconnect() is for one that is gone
 * already: the client then has none.  absent() is called after either, unless
 * the client is forgotten; told: of the lease that it may have.
 */

ngx_http_wq_client_t *ngx_http_wq_client_create(ngx_http_wq_worker_t *worker,
    const ngx_str_t *event, const ngx_str_t *user,
    const ngx_http_wq_rules_t *rules);
void ngx_http_wq_client_set_lease(ngx_http_wq_client_t *client,
    wq_status_e status, const u_char *token, int64_t expires);
void ngx_http_wq_client_remember(ngx_http_wq_client_t *client, int64_t since,
    int64_t waited);
void ngx_http_wq_client_unremember(ngx_http_wq_client_t *client);
void ngx_http_wq_client_set_place(ngx_http_wq_client_t *client,
    const ngx_http_wq_join_reply_t *reply);
void ngx_http_wq_client_end(ngx_http_wq_client_t *client,
    wq_sse_event_e event);
void ngx_http_wq_client_disconnect(ngx_http_wq_client_t *client);
void ngx_http_wq_client_absent(ngx_http_wq_client_t *client, ngx_uint_t told);


/*
 * A client that Redis does not know any more is put back, to this idx:
 * restore() asks, NGX_OK if it could; the handler, whose data is the client,
 * calls restored() with the answer, or with NULL if there was none.
 */

ngx_int_t ngx_http_wq_client_restore(ngx_http_wq_client_t *client,
    uint64_t idx, ngx_http_wq_operation_handler_pt handler);
void ngx_http_wq_client_restored(ngx_http_wq_client_t *client,
    const ngx_http_wq_join_reply_t *reply);


/* the user has connected elsewhere: told, and forgotten */

void ngx_http_wq_client_replaced(ngx_http_wq_client_t *client);


/* the event is over for those who wait: told, and out of the line */

void ngx_http_wq_client_dismiss(ngx_http_wq_client_t *client,
    wq_sse_event_e event);


/* nothing is known of the client any more */

void ngx_http_wq_client_forget(ngx_http_wq_client_t *client);


#endif /* NGX_HTTP_WQ_CLIENT_H_INCLUDED_ */
