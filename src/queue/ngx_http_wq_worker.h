
/*
 * queue: one worker's part in the line, from its start to its end.
 *
 * There is one per process, made when a worker (or the single process) starts;
 * the master, the helpers and `nginx -t` have none and open no socket.
 */


#ifndef NGX_HTTP_WQ_WORKER_H_INCLUDED_
#define NGX_HTTP_WQ_WORKER_H_INCLUDED_


#include "ngx_http_wq_commands.h"
#include "ngx_http_wq_zone.h"


typedef struct {
    ngx_http_wq_redis_conf_t   redis;
    ngx_str_t                  prefix;      /* of all keys */
    ngx_str_t                  node;        /* first part of the instance */

    size_t                     zone_size;
    ngx_http_wq_zone_t        *zone;

    /* some directive asks for the module: else it stays asleep */
    ngx_uint_t                 used;        /* unsigned  used:1; */
} ngx_http_wq_queue_conf_t;


typedef struct {
    ngx_http_wq_timer_t        timer;
    unsigned                   under_way:1;
} ngx_http_wq_heartbeat_t;


typedef struct {
    ngx_http_wq_timer_t        timer;       /* after an error */

    /* the next read begins after this id; ">": what nobody has read yet */
    ngx_str_t                  after;
    u_char                     after_data[NGX_HTTP_WQ_STREAM_ID_MAX];

    ngx_msec_t                 started;     /* the read under way */
    ngx_msec_t                 complained;

    unsigned                   reading:1;   /* a read is under way */
    unsigned                   again:1;     /* some was read and not removed */
} ngx_http_wq_dispatcher_t;


typedef struct {
    const ngx_http_wq_queue_conf_t  *conf;
    ngx_log_t                       *log;

    ngx_str_t                        instance;
    wq_keyspace_t                    keyspace;
    ngx_http_wq_slot_t              *slot;

    ngx_http_wq_link_t              *links[NGX_HTTP_WQ_LINKS];
    ngx_str_t                        client_names[NGX_HTTP_WQ_LINKS];

    ngx_http_wq_heartbeat_t          heartbeat;
    ngx_http_wq_dispatcher_t         dispatcher;

    /* tells by its `idle` that nginx wants this worker to quit */
    ngx_connection_t                *watcher;
    ngx_http_wq_timer_t              quit;

    unsigned                         draining:1;

    u_char                           instance_data[WQ_ID_MAX];
    u_char                           client_name_data[NGX_HTTP_WQ_LINKS]
                                         [WQ_ID_MAX + sizeof(":commands")];
} ngx_http_wq_worker_t;


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


/* dispatcher: what this worker must tell its own clients */

void ngx_http_wq_dispatcher_init(ngx_http_wq_worker_t *worker);
void ngx_http_wq_dispatcher_start(ngx_http_wq_worker_t *worker);
void ngx_http_wq_dispatcher_stop(ngx_http_wq_worker_t *worker);


#endif /* NGX_HTTP_WQ_WORKER_H_INCLUDED_ */
