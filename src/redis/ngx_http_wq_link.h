
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


/* ready, again or for the first time: commands are taken */

typedef void (*ngx_http_wq_link_ready_pt)(ngx_http_wq_link_t *link,
    void *data);


struct ngx_http_wq_link_s {
    const char                      *name;
    ngx_str_t                        client_name;
    const ngx_http_wq_redis_conf_t  *conf;
    ngx_http_wq_link_slot_t         *slot;
    ngx_log_t                       *log;

    ngx_http_wq_link_ready_pt        ready;
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
    ngx_uint_t                       tried;     /* in this round of them */
    ngx_resolver_ctx_t              *resolving;

    ngx_uint_t                       trouble;
    ngx_uint_t                       trouble_script;
    ngx_msec_t                       trouble_start;
    uint64_t                         logged;    /* troubles, a bit each */
    ngx_uint_t                       attempts;
    ngx_msec_t                       complained;

    ngx_uint_t                       loading;   /* scripts not yet answered */

    unsigned                         blocking:1;
    unsigned                         fresh:1;   /* connected, never ready */
    unsigned                         was_ready:1;
    unsigned                         stopped:1;     /* no further try */
    unsigned                         broken:1;  /* to be ended by the timer */
};


typedef struct {
    const char                      *name;
    ngx_str_t                        client_name;
    const ngx_http_wq_redis_conf_t  *conf;
    ngx_http_wq_link_slot_t         *slot;
    ngx_http_wq_link_ready_pt        ready;
    void                            *data;
    ngx_uint_t                       blocking;  /* unsigned  blocking:1; */
} ngx_http_wq_link_options_t;


/* opens nothing yet; all that the options point to must outlive the link */

ngx_http_wq_link_t *ngx_http_wq_link_create(
    ngx_http_wq_link_options_t *options, ngx_log_t *log);

/* begins to connect, on the next turn of the event loop */

void ngx_http_wq_link_start(ngx_http_wq_link_t *link);

/*
 * Takes no more commands, waits for the answers to those in flight (a blocking
 * link does not wait) and closes.  As long as a command is in flight its
 * deadline keeps the process alive; then nothing of the link does.
 */

void ngx_http_wq_link_drain(ngx_http_wq_link_t *link);

/*
 * For the end of the process: closes and frees everything at once.  No handler
 * of an operation is called: whoever waited is being destroyed too.
 */

void ngx_http_wq_link_destroy(ngx_http_wq_link_t *link);

const char *ngx_http_wq_link_state_name(ngx_uint_t state);
const char *ngx_http_wq_trouble_name(ngx_uint_t trouble);


/*
 * Whether an error that may come with every request is to be logged now: once
 * in NGX_HTTP_WQ_COMPLAIN ms.  last is when that was, 0 for never.
 */

#define NGX_HTTP_WQ_COMPLAIN  10000

ngx_uint_t ngx_http_wq_may_complain(ngx_msec_t *last);


/*
 * For the other files of this layer.  text is what Redis or hiredis said, and
 * may be NULL; it is logged with care, as it may hold anything.
 */

/*
 * Gives the connection up and arms the next try.  Operations in flight are
 * answered with "lost" before this returns or, from inside a reply callback,
 * soon after.
 */

void ngx_http_wq_link_fail(ngx_http_wq_link_t *link, ngx_uint_t trouble,
    const ngx_str_t *text);

/*
 * The link's own side of the end of a connection: afterwards the link is idle,
 * knows no context and has its next try armed.  Does not touch the context:
 * for those who know that hiredis frees it, or free it themselves.
 */

void ngx_http_wq_link_down(ngx_http_wq_link_t *link, ngx_uint_t trouble,
    const ngx_str_t *text);

/* the context goes away by itself; safe to call more than once for one ac */

void ngx_http_wq_link_lost(ngx_http_wq_link_t *link, redisAsyncContext *ac);

/* Redis cannot serve now: back to loading scripts, later, same connection */

void ngx_http_wq_link_wait(ngx_http_wq_link_t *link, ngx_uint_t trouble,
    const ngx_str_t *text);

void ngx_http_wq_link_set_state(ngx_http_wq_link_t *link,
    ngx_http_wq_link_state_e state);
void ngx_http_wq_link_set_ready(ngx_http_wq_link_t *link);

/* to be called when in_flight has become 0 and the handler has returned */

void ngx_http_wq_link_emptied(ngx_http_wq_link_t *link);


/* connect: one try, from the beginning */

void ngx_http_wq_connect_try(ngx_http_wq_link_t *link);

/* what is tried, or in use, as it stands in the configuration or in DNS */

const ngx_http_wq_address_t *ngx_http_wq_connect_address(
    ngx_http_wq_link_t *link);


/* handshake: from a fresh connection to one that takes commands */

void ngx_http_wq_handshake_start(ngx_http_wq_link_t *link);
void ngx_http_wq_handshake_load_scripts(ngx_http_wq_link_t *link);


/* trouble: what is wrong, for the status, and once for the log */

void ngx_http_wq_trouble_begin(ngx_http_wq_link_t *link, ngx_uint_t trouble,
    const ngx_str_t *text, const char *what);

/*
 * A command of this script (or of none) failed, for a reason that may concern
 * all commands and then is noted until the same script works, or this one
 * alone.
 */

void ngx_http_wq_trouble_complain(ngx_http_wq_link_t *link,
    wq_redis_error_e error, ngx_uint_t script, const ngx_str_t *text);

/* an answer is not what the call gives; counted, and logged now and then */

void ngx_http_wq_trouble_bad_reply(ngx_http_wq_link_t *link, const char *call,
    const char *field);

/* a command worked, which is what ends trouble */

void ngx_http_wq_trouble_end(ngx_http_wq_link_t *link, ngx_uint_t script);


#endif /* NGX_HTTP_WQ_LINK_H_INCLUDED_ */
