
/*
 * redis: one connection to Redis, kept up.
 *
 * A worker has two: "commands" for everything short, and "reader" for blocking
 * reads, which would hold up whatever stands behind them.
 *
 *   idle -> resolving -> connecting -> authenticating -> selecting
 *     ^                                                      |
 *     |                                                      v
 *     +---- any trouble ---- ready <------------------ loading scripts
 *     |                        |  <- LOADING, BUSY .. ->     |
 *     +------- draining <------+
 *
 * From idle the link tries again by itself, after a jittered delay that grows
 * until a command has worked.  One line is logged when trouble begins, and one
 * when it is over.
 */


#ifndef NGX_HTTP_WQ_LINK_H_INCLUDED_
#define NGX_HTTP_WQ_LINK_H_INCLUDED_


#include "ngx_http_wq_adapter.h"
#include "ngx_http_wq_redis_conf.h"
#include "ngx_http_wq_timer.h"

#include "wq_backoff.h"
#include "wq_counters.h"
#include "wq_redis_error.h"


typedef struct ngx_http_wq_link_s  ngx_http_wq_link_t;


/* X(constant, name in logs and status) */

#define NGX_HTTP_WQ_LINK_STATES(X)                                            \
    X(IDLE,           "idle")                                                 \
    X(RESOLVING,      "resolving")                                            \
    X(CONNECTING,     "connecting")                                           \
    X(AUTHENTICATING, "authenticating")                                       \
    X(SELECTING,      "selecting")                                            \
    X(LOADING,        "loading_scripts")                                      \
    X(READY,          "ready")                                                \
    X(DRAINING,       "draining")

typedef enum {
#define WQ_X(constant, name)  NGX_HTTP_WQ_LINK_##constant,
    NGX_HTTP_WQ_LINK_STATES(WQ_X)
#undef WQ_X
    NGX_HTTP_WQ_LINK_STATE_MAX
} ngx_http_wq_link_state_e;


/*
 * What may be wrong with a link, besides the errors that Redis itself names:
 * those are NGX_HTTP_WQ_TROUBLE_REDIS + wq_redis_error_e.
 */

#define NGX_HTTP_WQ_TROUBLES(X)                                               \
    X(NONE,            "none")                                                \
    X(NO_RESOURCES,    "no_resources")                                        \
    X(CONNECT_FAILED,  "connect_failed")                                      \
    X(CONNECT_TIMEOUT, "connect_timeout")                                     \
    X(COMMAND_TIMEOUT, "command_timeout")                                     \
    X(CLOSED,          "closed_by_redis")                                     \
    X(PROTOCOL,        "protocol_error")                                      \
    X(SHUTDOWN,        "shutdown")

typedef enum {
#define WQ_X(constant, name)  NGX_HTTP_WQ_TROUBLE_##constant,
    NGX_HTTP_WQ_TROUBLES(WQ_X)
#undef WQ_X
    NGX_HTTP_WQ_TROUBLE_REDIS
} ngx_http_wq_trouble_e;


/* what other processes see of a link; lives in shared memory */

typedef struct {
    wq_counter_t                     state;
    wq_counter_t                     trouble;
    wq_counter_t                     since;     /* epoch ms, of the state */
    wq_counter_t                     in_flight;
    wq_link_counters_t               counters;
} ngx_http_wq_link_slot_t;


/* what the worker is told; either may be NULL */

typedef struct {
    /* ready, again or for the first time: commands are taken */
    void                           (*ready)(ngx_http_wq_link_t *link,
                                         void *data);

    /* a drain is over: nothing is in flight, the connection is closed */
    void                           (*drained)(ngx_http_wq_link_t *link,
                                         void *data);
} ngx_http_wq_link_owner_t;


struct ngx_http_wq_link_s {
    const char                      *name;
    ngx_str_t                        client_name;
    const ngx_http_wq_redis_conf_t  *conf;
    ngx_http_wq_link_slot_t         *slot;
    ngx_log_t                       *log;

    const ngx_http_wq_link_owner_t  *owner;
    void                            *data;

    redisAsyncContext               *ac;        /* NULL: not connected */
    ngx_http_wq_link_state_e         state;

    ngx_queue_t                      operations;    /* oldest first */
    ngx_uint_t                       in_flight;

    /* of a connect, then of the oldest operation */
    ngx_http_wq_timer_t              deadline;

    /* the next try, to connect or to be served */
    ngx_http_wq_timer_t              retry;
    wq_backoff_t                     backoff;

    ngx_array_t                      addresses; /* ngx_http_wq_address_t */
    ngx_pool_t                      *pool;      /* of resolved addresses */
    ngx_uint_t                       address;   /* the next one to try */
    ngx_uint_t                       tried;     /* since the last delay */
    ngx_resolver_ctx_t              *resolving;

    ngx_uint_t                       trouble;
    ngx_uint_t                       trouble_script;
    ngx_msec_t                       trouble_start;
    ngx_uint_t                       attempts;
    ngx_msec_t                       complained;

    ngx_uint_t                       loading;   /* scripts yet to be answered */

    unsigned                         blocking:1;
    unsigned                         was_ready:1;
    unsigned                         stopped:1;     /* no further try */
    unsigned                         broken:1;  /* to be ended by the timer */
};


typedef struct {
    const char                      *name;
    ngx_str_t                        client_name;
    const ngx_http_wq_redis_conf_t  *conf;
    ngx_http_wq_link_slot_t         *slot;
    const ngx_http_wq_link_owner_t  *owner;
    void                            *data;
    ngx_uint_t                       blocking;  /* unsigned  blocking:1; */
} ngx_http_wq_link_options_t;


/* opens nothing yet; all that the options point to must outlive the link */

ngx_http_wq_link_t *ngx_http_wq_link_create(ngx_http_wq_link_options_t *options,
    ngx_log_t *log);

/* begins to connect, on the next turn of the event loop */

void ngx_http_wq_link_start(ngx_http_wq_link_t *link);

/*
 * Takes no more commands, waits for the answers to those in flight (a blocking
 * link does not wait), closes, and calls owner->drained() once; possibly
 * before it returns.
 */

void ngx_http_wq_link_drain(ngx_http_wq_link_t *link);

/*
 * For the end of the process: closes and frees everything at once.  No handler
 * of an operation is called: whoever waited is being destroyed too.
 */

void ngx_http_wq_link_destroy(ngx_http_wq_link_t *link);

const char *ngx_http_wq_link_state_name(ngx_uint_t state);
const char *ngx_http_wq_trouble_name(ngx_uint_t trouble);


/* for the other files of this layer */

/*
 * Gives the connection up and arms the next try.  Operations in flight are
 * answered with "lost" before this returns or, from inside a reply callback,
 * soon after.
 */

void ngx_http_wq_link_fail(ngx_http_wq_link_t *link, ngx_uint_t trouble,
    const u_char *text, size_t len);

/* the context goes away by itself; safe to call more than once for one ac */

void ngx_http_wq_link_lost(ngx_http_wq_link_t *link, redisAsyncContext *ac);

/* Redis cannot serve now: back to loading scripts, later, same connection */

void ngx_http_wq_link_wait(ngx_http_wq_link_t *link, ngx_uint_t trouble,
    const u_char *text, size_t len);

/* a command of this script (or none) failed for a reason on Redis' side that
 * concerns all: noted and logged once, until the same script works */

void ngx_http_wq_link_complain(ngx_http_wq_link_t *link, ngx_uint_t trouble,
    ngx_uint_t script, const u_char *text, size_t len);

/* an answer is not what the call gives; counted, and logged now and then */

void ngx_http_wq_link_bad_reply(ngx_http_wq_link_t *link, const char *call,
    const char *field);

void ngx_http_wq_link_worked(ngx_http_wq_link_t *link, ngx_uint_t script);
void ngx_http_wq_link_set_state(ngx_http_wq_link_t *link,
    ngx_http_wq_link_state_e state);
void ngx_http_wq_link_set_ready(ngx_http_wq_link_t *link);

/* to be called when in_flight has become 0 */

void ngx_http_wq_link_emptied(ngx_http_wq_link_t *link);

void ngx_http_wq_handshake_start(ngx_http_wq_link_t *link);
void ngx_http_wq_handshake_load_scripts(ngx_http_wq_link_t *link);


#endif /* NGX_HTTP_WQ_LINK_H_INCLUDED_ */
