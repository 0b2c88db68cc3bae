
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


#include "ngx_http_wq_event_commands.h"

#include "wq_eta.h"
#include "wq_id.h"
#include "wq_rate.h"


#define NGX_HTTP_WQ_ZONE_DEFAULT_SIZE  (1024 * 1024)
#define NGX_HTTP_WQ_ZONE_MIN_SIZE      (512 * 1024)


typedef enum {
    NGX_HTTP_WQ_COMMANDS = 0,
    NGX_HTTP_WQ_READER,         /* of the dispatcher */
    NGX_HTTP_WQ_ROUTER,
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
    wq_process_gauges_t        gauges;
} ngx_http_wq_slot_t;


typedef enum {
    NGX_HTTP_WQ_ASK_YOU = 0,        /* the caller is to ask, and says the end */
    NGX_HTTP_WQ_ASK_OTHER,          /* another process of this node does */
    NGX_HTTP_WQ_ASK_REDIS,          /* it was told since you asked Redis */
    NGX_HTTP_WQ_ASK_LATER           /* it has just failed */
} ngx_http_wq_ask_e;


typedef struct ngx_http_wq_zone_s  ngx_http_wq_zone_t;


/* an event as the status shows it */

typedef struct {
    size_t                     id_len;
    u_char                     id[WQ_ID_MAX];

    ngx_http_wq_figures_t      figures;     /* what Redis has last said */
    int64_t                    eta;         /* s, of who comes now */
    uint64_t                   streams;     /* of all processes here */
    uint64_t                   per_minute;  /* users let in */
    ngx_msec_t                 age;         /* of the figures */
} ngx_http_wq_event_row_t;


/* a token that was good when it was looked at */

typedef struct {
    ngx_msec_t                 checked;     /* when Redis has said so */
    int64_t                    expires;     /* ms since 1970 */
    int64_t                    waited;      /* ms, before it was given */
    int64_t                    since;       /* used first, ms since 1970 */
    int64_t                    idx;
    ngx_uint_t                 entered;     /* unsigned  entered:1; */
    u_char                     token[WQ_TOKEN_LEN];
} ngx_http_wq_known_token_t;


/* of one that is to be used first: so long ago was it checked, in ms */
#define NGX_HTTP_WQ_TOKEN_UNUSED  3600000


/* one of them and whose it is, a copy */

typedef struct {
    ngx_http_wq_known_token_t  token;
    ngx_str_t                  event;
    ngx_str_t                  user;
    u_char                     ids[2 * WQ_ID_MAX];
} ngx_http_wq_known_lease_t;


/* a visit that is over, and of which Redis has not heard */

typedef struct ngx_http_wq_zone_ending_s  ngx_http_wq_zone_ending_t;

typedef struct {
    ngx_http_wq_zone_ending_t *kept;        /* in the zone; NULL: is not */
    ngx_http_wq_release_e      why;         /* done or sold */
    ngx_msec_t                 until;       /* it is said again */
    ngx_str_t                  event;
    ngx_str_t                  user;
    u_char                     token[WQ_TOKEN_LEN];
    u_char                     ids[2 * WQ_ID_MAX];  /* where take() puts them */
} ngx_http_wq_known_ending_t;


/* a copy of everything, for the status */

typedef struct {
    ngx_http_wq_slot_t        *slots;       /* of the living */
    ngx_uint_t                 nslots;
    ngx_http_wq_totals_t      *workers;     /* by number, with the dead */
    ngx_uint_t                 nworkers;
    ngx_http_wq_event_row_t   *events;      /* by id */
    ngx_uint_t                 nevents;
    ngx_uint_t                 tokens;      /* known to the node */
    ngx_uint_t                 tokens_max;
    uint64_t                   tokens_evicted;
    ngx_uint_t                 endings;     /* of visits, Redis is to hear */
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


/*
 * The events of this node, for the status.  All calls look the event up by its
 * id, as another process may remove it at any time: it is when it has been
 * quiet for a while, or when room is needed.  Where there is no room at all a
 * report is lost, and nothing else; and so is one of a time when data were lost
 * and not all is put back.
 */

void ngx_http_wq_zone_report(ngx_http_wq_zone_t *zone,
    const ngx_str_t *event, const ngx_http_wq_figures_t *figures);

/* how fast its line moves, by the reports of this node; zeros: unknown */

void ngx_http_wq_zone_speed(ngx_http_wq_zone_t *zone, const ngx_str_t *event,
    wq_speed_t *speed);

/* streams of this process that are open for the event */

void ngx_http_wq_zone_report_streams(ngx_http_wq_zone_t *zone,
    ngx_http_wq_slot_t *slot, const ngx_str_t *event, ngx_uint_t streams);


/*
 * One process of the node asks the event service for a capacity.  looked is the
 * ngx_current_msec at which the caller has asked Redis, which did not know it.
 * Whoever gets NGX_HTTP_WQ_ASK_YOU must call ask_end() within timeout ms, else
 * (or if it dies) another may ask.
 *
 * rc is NGX_OK when there was an answer and Redis was told, if it could be;
 * NGX_ERROR after a failure; NGX_DECLINED if nobody wants to know any more.
 * After a failure the next try waits for a jittered delay that grows, up to
 * 30 s; a success ends that.  Where there is no room in the zone everybody may
 * ask.
 */

ngx_http_wq_ask_e ngx_http_wq_zone_ask_begin(ngx_http_wq_zone_t *zone,
    const ngx_str_t *event, ngx_msec_t looked, ngx_msec_t timeout);
void ngx_http_wq_zone_ask_end(ngx_http_wq_zone_t *zone,
    const ngx_str_t *event, ngx_int_t rc);


/*
 * One more passes of the ration of this event, which all processes of the node
 * share: NGX_OK; NGX_DECLINED if it is used up, or there is no room in the zone
 * to count it.  An event whose ration is not full again stays in the zone.
 */

ngx_int_t ngx_http_wq_zone_ration(ngx_http_wq_zone_t *zone,
    const ngx_str_t *event, const wq_rate_t *rate);


/*
 * Tokens of this node, of all its processes.  find() gives the one of a user
 * whose lease has not ended, if it is this one, or, where token is empty,
 * whichever it is: NGX_OK, or NGX_DECLINED.  store() replaces an older one;
 * what is known of a token that was used is not forgotten for that it was
 * given.  After end() the token is not good any more, and cannot be stored
 * again: an answer that Redis has given before may still be on its way.  ends
 * is in ngx_current_msec.  Where there is no room the one that was not used for
 * the longest time goes.
 */

ngx_int_t ngx_http_wq_zone_token_find(ngx_http_wq_zone_t *zone,
    const ngx_str_t *event, const ngx_str_t *user, const ngx_str_t *token,
    ngx_http_wq_known_token_t *known, ngx_msec_t *ends);
void ngx_http_wq_zone_token_store(ngx_http_wq_zone_t *zone,
    const ngx_str_t *event, const ngx_str_t *user,
    const ngx_http_wq_known_token_t *known, ngx_msec_t ends);

/*
 * All whose leases have not ended, one after another in some order: up to n,
 * those after the last one, or from the first on if that is NULL; how many
 * there were.  lease() makes of one, which must outlive it, what is put back.
 */

void ngx_http_wq_zone_lease(const ngx_http_wq_known_token_t *known,
    ngx_http_wq_lease_t *lease);
ngx_uint_t ngx_http_wq_zone_tokens_walk(ngx_http_wq_zone_t *zone,
    const ngx_http_wq_known_lease_t *last, ngx_http_wq_known_lease_t *leases,
    ngx_uint_t n);

/* Redis does not know it any more: this token, or if it is empty any */

void ngx_http_wq_zone_token_forget(ngx_http_wq_zone_t *zone,
    const ngx_str_t *event, const ngx_str_t *user, const ngx_str_t *token);

void ngx_http_wq_zone_token_end(ngx_http_wq_zone_t *zone,
    const ngx_str_t *event, const ngx_str_t *user,
    const ngx_http_wq_known_token_t *known, ngx_msec_t ends);


/*
 * Visits that are over and of which Redis has not heard.  put() keeps one that
 * this process is about to tell Redis, and sets `kept`, or is NGX_ERROR where
 * there is no room even with a token less.  back() is for one that it could not
 * tell: any process of this node may take() it, the one that is there for the
 * longest time, or get NGX_DECLINED.  end() is for one that is told, or given
 * up.  What a process was telling when it died is left for others by the next
 * reclaim() of any.
 */

ngx_int_t ngx_http_wq_zone_ending_put(ngx_http_wq_zone_t *zone,
    ngx_http_wq_known_ending_t *known);
ngx_int_t ngx_http_wq_zone_ending_take(ngx_http_wq_zone_t *zone,
    ngx_http_wq_known_ending_t *known);
void ngx_http_wq_zone_ending_back(ngx_http_wq_zone_t *zone,
    const ngx_http_wq_known_ending_t *known);
void ngx_http_wq_zone_ending_end(ngx_http_wq_zone_t *zone,
    const ngx_http_wq_known_ending_t *known);
void ngx_http_wq_zone_endings_reclaim(ngx_http_wq_zone_t *zone);

/* how many nobody tells now, at a look */

ngx_uint_t ngx_http_wq_zone_endings(ngx_http_wq_zone_t *zone);


/*
 * Since when the data in Redis are there, as this node has heard it last; 0: it
 * has not yet.  set() is 1 for the one process that says so first, if it was
 * another time before: what the node knows is to be put back.
 */

int64_t ngx_http_wq_zone_origin(ngx_http_wq_zone_t *zone);
ngx_uint_t ngx_http_wq_zone_set_origin(ngx_http_wq_zone_t *zone,
    int64_t origin);


#endif /* NGX_HTTP_WQ_ZONE_H_INCLUDED_ */
