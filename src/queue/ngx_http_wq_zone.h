
/*
 * queue: what the processes of one nginx share.
 *
 * Each process counts in a slot of its own, alone.  When it is gone, its
 * counters are added to those of its worker number, so that a counter never
 * falls, over reloads and crashes.  The state of the line is not here: that is
 * in Redis.
 */


#ifndef NGX_HTTP_WQ_ZONE_H_INCLUDED_
#define NGX_HTTP_WQ_ZONE_H_INCLUDED_


#include "ngx_http_wq_link.h"

#include "wq_id.h"


#define NGX_HTTP_WQ_ZONE_DEFAULT_SIZE  (1024 * 1024)
#define NGX_HTTP_WQ_ZONE_MIN_SIZE      (256 * 1024)


typedef enum {
    NGX_HTTP_WQ_COMMANDS = 0,
    NGX_HTTP_WQ_READER,
    NGX_HTTP_WQ_LINKS
} ngx_http_wq_link_class_e;


/* counters alone, as they outlive a process */

typedef struct {
    wq_link_counters_t         links[NGX_HTTP_WQ_LINKS];
    wq_process_counters_t      process;
} ngx_http_wq_totals_t;


typedef struct {
    ngx_pid_t                  pid;         /* 0: the slot is free */
    ngx_uint_t                 worker;
    wq_counter_t               draining;

    size_t                     instance_len;
    u_char                     instance[WQ_ID_MAX];

    ngx_http_wq_link_slot_t    links[NGX_HTTP_WQ_LINKS];
    wq_process_counters_t      counters;
} ngx_http_wq_slot_t;


typedef struct ngx_http_wq_zone_s  ngx_http_wq_zone_t;


/* a copy of everything, for the status */

typedef struct {
    ngx_http_wq_slot_t        *slots;       /* of the living */
    ngx_uint_t                 nslots;
    ngx_http_wq_totals_t      *workers;     /* by number, with the dead */
    ngx_uint_t                 nworkers;
} ngx_http_wq_snapshot_t;


/* adds the zone to the configuration; NULL on error, which is logged */

ngx_http_wq_zone_t *ngx_http_wq_zone_add(ngx_conf_t *cf, size_t size,
    void *tag);

/*
 * A slot for this process.  Never NULL but for want of memory: if there is no
 * free slot the process gets a private one, which no status shows.
 */

ngx_http_wq_slot_t *ngx_http_wq_zone_claim(ngx_http_wq_zone_t *zone,
    const ngx_str_t *instance, ngx_log_t *log);

/* the process leaves; slot is not to be used any more */

void ngx_http_wq_zone_release(ngx_http_wq_zone_t *zone,
    ngx_http_wq_slot_t *slot);

ngx_int_t ngx_http_wq_zone_snapshot(ngx_http_wq_zone_t *zone,
    ngx_pool_t *pool, ngx_http_wq_snapshot_t *snapshot);

const char *ngx_http_wq_link_class_name(ngx_uint_t link);


#endif /* NGX_HTTP_WQ_ZONE_H_INCLUDED_ */
