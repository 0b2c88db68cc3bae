
/*
 * http: the operator's figures as Prometheus reads them.
 *
 * Counters are labelled with the worker's number, not with a process: they go
 * on over reloads and crashes and never fall.  Gauges belong to the processes
 * that live now.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_wq_http.h"


/* upper bounds of a line with its name and labels, and of HELP and TYPE */
#define NGX_HTTP_WQ_PROMETHEUS_LINE  160
#define NGX_HTTP_WQ_PROMETHEUS_HEAD  320

#define WQ_X(field, json, prometheus, help)  + 1
enum {
    NGX_HTTP_WQ_PROMETHEUS_FAMILIES = 0 WQ_LINK_COUNTERS(WQ_X)
                                      WQ_PROCESS_COUNTERS(WQ_X)
                                      WQ_PROCESS_GAUGES(WQ_X) + 12,

    /* of one worker number, and of one process */
    NGX_HTTP_WQ_PROMETHEUS_LINES = (0 WQ_LINK_COUNTERS(WQ_X)
                                    + WQ_HISTOGRAM_BUCKETS + 2)
                                   * NGX_HTTP_WQ_LINKS
                                   + (0 WQ_PROCESS_COUNTERS(WQ_X)),
    NGX_HTTP_WQ_PROMETHEUS_GAUGES = 4 * NGX_HTTP_WQ_LINKS + 1
                                    WQ_PROCESS_GAUGES(WQ_X)
};
#undef WQ_X


static u_char *ngx_http_wq_prometheus_gauges(u_char *p, u_char *last,
    ngx_http_wq_snapshot_t *snapshot);
static u_char *ngx_http_wq_prometheus_gauge(u_char *p, u_char *last,
    ngx_http_wq_snapshot_t *snapshot, const char *name, const char *help,
    uint64_t (*value)(ngx_http_wq_link_slot_t *link));
static u_char *ngx_http_wq_prometheus_link_counter(u_char *p, u_char *last,
    ngx_http_wq_snapshot_t *snapshot, const char *name, const char *help,
    size_t offset);
static u_char *ngx_http_wq_prometheus_process_counter(u_char *p, u_char *last,
    ngx_http_wq_snapshot_t *snapshot, const char *name, const char *help,
    size_t offset);
static u_char *ngx_http_wq_prometheus_process_gauge(u_char *p, u_char *last,
    ngx_http_wq_snapshot_t *snapshot, const char *name, const char *help,
    size_t offset);
static u_char *ngx_http_wq_prometheus_round_trips(u_char *p, u_char *last,
    ngx_http_wq_snapshot_t *snapshot);

static uint64_t ngx_http_wq_prometheus_up(ngx_http_wq_link_slot_t *link);
static uint64_t ngx_http_wq_prometheus_in_flight(
    ngx_http_wq_link_slot_t *link);


ngx_buf_t *
ngx_http_wq_status_prometheus(ngx_http_request_t *r,
    const ngx_http_wq_queue_conf_t *conf, ngx_http_wq_snapshot_t *snapshot)
{
    u_char     *p, *last;
    ngx_buf_t  *b;

    b = ngx_create_temp_buf(r->pool,
                            NGX_HTTP_WQ_PROMETHEUS_FAMILIES
                            * NGX_HTTP_WQ_PROMETHEUS_HEAD
                            + (snapshot->nworkers
                               * NGX_HTTP_WQ_PROMETHEUS_LINES
                               + snapshot->nslots
                                 * NGX_HTTP_WQ_PROMETHEUS_GAUGES)
                              * NGX_HTTP_WQ_PROMETHEUS_LINE
                            + ngx_http_wq_status_events_prometheus_size(
                                                                snapshot));
    if (b == NULL) {
        return NULL;
    }

    p = b->last;
    last = b->end;

    p = ngx_slprintf(p, last,
                     "# HELP waiting_queue_info The module's version.\n"
                     "# TYPE waiting_queue_info gauge\n"
                     "waiting_queue_info{version=\"%s\",node=\"%V\"} 1\n",
                     NGX_HTTP_WQ_VERSION, &conf->node);

    p = ngx_slprintf(p, last,
                     "# HELP waiting_queue_tokens_known "
                     "Tokens that the node has seen to be good.\n"
                     "# TYPE waiting_queue_tokens_known gauge\n"
                     "waiting_queue_tokens_known %ui\n"
                     "# HELP waiting_queue_tokens_room "
                     "How many it can know: see waiting_queue_zone.\n"
                     "# TYPE waiting_queue_tokens_room gauge\n"
                     "waiting_queue_tokens_room %ui\n"
                     "# HELP waiting_queue_tokens_evicted_total "
                     "Tokens forgotten for want of room.\n"
                     "# TYPE waiting_queue_tokens_evicted_total counter\n"
                     "waiting_queue_tokens_evicted_total %uL\n"
                     "# HELP waiting_queue_endings "
                     "Visits that are over, which Redis is still to hear.\n"
                     "# TYPE waiting_queue_endings gauge\n"
                     "waiting_queue_endings %ui\n",
                     snapshot->tokens, snapshot->tokens_max,
                     snapshot->tokens_evicted, snapshot->endings);

    p = ngx_http_wq_prometheus_gauges(p, last, snapshot);

#define WQ_X(field, json, prometheus, help)                                   \
    p = ngx_http_wq_prometheus_process_gauge(p, last, snapshot,               \
            "waiting_queue_" prometheus, help,                                \
            offsetof(wq_process_gauges_t, field));

    WQ_PROCESS_GAUGES(WQ_X)

#undef WQ_X

#define WQ_X(field, json, prometheus, help)                                   \
    p = ngx_http_wq_prometheus_link_counter(p, last, snapshot,                \
            "waiting_queue_redis_" prometheus "_total", help,                 \
            offsetof(wq_link_counters_t, field));

    WQ_LINK_COUNTERS(WQ_X)

#undef WQ_X

#define WQ_X(field, json, prometheus, help)                                   \
    p = ngx_http_wq_prometheus_process_counter(p, last, snapshot,             \
            "waiting_queue_" prometheus "_total", help,                       \
            offsetof(wq_process_counters_t, field));

    WQ_PROCESS_COUNTERS(WQ_X)

#undef WQ_X

    p = ngx_http_wq_prometheus_round_trips(p, last, snapshot);

    b->last = ngx_http_wq_status_events_prometheus(p, last, snapshot);

    return b;
}


static u_char *
ngx_http_wq_prometheus_gauges(u_char *p, u_char *last,
    ngx_http_wq_snapshot_t *snapshot)
{
    ngx_uint_t                i, link;
    ngx_http_wq_slot_t       *slot;
    ngx_http_wq_link_slot_t  *ls;

    p = ngx_slprintf(p, last,
                     "# HELP waiting_queue_worker_draining "
                     "1 while the process is about to leave.\n"
                     "# TYPE waiting_queue_worker_draining gauge\n");

    for (i = 0; i < snapshot->nslots; i++) {
        slot = &snapshot->slots[i];
        p = ngx_slprintf(p, last,
                         "waiting_queue_worker_draining"
                         "{worker=\"%ui\",pid=\"%P\"} %uL\n",
                         slot->worker, slot->pid, slot->draining);
    }

    p = ngx_http_wq_prometheus_gauge(p, last, snapshot,
                                     "waiting_queue_redis_up",
                                     "1 while the link to Redis is ready.",
                                     ngx_http_wq_prometheus_up);

    p = ngx_http_wq_prometheus_gauge(p, last, snapshot,
                                     "waiting_queue_redis_in_flight",
                                     "Commands that wait for an answer.",
                                     ngx_http_wq_prometheus_in_flight);

    p = ngx_slprintf(p, last,
                     "# HELP waiting_queue_redis_state "
                     "The state the link is in, and its trouble.\n"
                     "# TYPE waiting_queue_redis_state gauge\n");

    for (i = 0; i < snapshot->nslots; i++) {
        slot = &snapshot->slots[i];

        for (link = 0; link < NGX_HTTP_WQ_LINKS; link++) {
            ls = &slot->links[link];
            p = ngx_slprintf(p, last,
                             "waiting_queue_redis_state{worker=\"%ui\","
                             "pid=\"%P\",link=\"%s\",state=\"%s\","
                             "trouble=\"%s\"} 1\n",
                             slot->worker, slot->pid,
                             ngx_http_wq_link_class_name(link),
                             ngx_http_wq_link_state_name(ls->state),
                             ngx_http_wq_trouble_name(ls->trouble));
        }
    }

    return p;
}


static u_char *
ngx_http_wq_prometheus_gauge(u_char *p, u_char *last,
    ngx_http_wq_snapshot_t *snapshot, const char *name, const char *help,
    uint64_t (*value)(ngx_http_wq_link_slot_t *link))
{
    ngx_uint_t           i, link;
    ngx_http_wq_slot_t  *slot;

    p = ngx_slprintf(p, last, "# HELP %s %s\n# TYPE %s gauge\n",
                     name, help, name);

    for (i = 0; i < snapshot->nslots; i++) {
        slot = &snapshot->slots[i];

        for (link = 0; link < NGX_HTTP_WQ_LINKS; link++) {
            p = ngx_slprintf(p, last,
                             "%s{worker=\"%ui\",pid=\"%P\",link=\"%s\"} %uL\n",
                             name, slot->worker, slot->pid,
                             ngx_http_wq_link_class_name(link),
                             value(&slot->links[link]));
        }
    }

    return p;
}


static u_char *
ngx_http_wq_prometheus_link_counter(u_char *p, u_char *last,
    ngx_http_wq_snapshot_t *snapshot, const char *name, const char *help,
    size_t offset)
{
    u_char      *counters;
    ngx_uint_t   i, link;

    p = ngx_slprintf(p, last, "# HELP %s %s\n# TYPE %s counter\n",
                     name, help, name);

    for (i = 0; i < snapshot->nworkers; i++) {
        for (link = 0; link < NGX_HTTP_WQ_LINKS; link++) {
            counters = (u_char *) &snapshot->workers[i].links[link];
            p = ngx_slprintf(p, last, "%s{worker=\"%ui\",link=\"%s\"} %uL\n",
                             name, i, ngx_http_wq_link_class_name(link),
                             *(wq_counter_t *) (counters + offset));
        }
    }

    return p;
}


static u_char *
ngx_http_wq_prometheus_process_counter(u_char *p, u_char *last,
    ngx_http_wq_snapshot_t *snapshot, const char *name, const char *help,
    size_t offset)
{
    u_char      *counters;
    ngx_uint_t   i;

    p = ngx_slprintf(p, last, "# HELP %s %s\n# TYPE %s counter\n",
                     name, help, name);

    for (i = 0; i < snapshot->nworkers; i++) {
        counters = (u_char *) &snapshot->workers[i].process;
        p = ngx_slprintf(p, last, "%s{worker=\"%ui\"} %uL\n", name, i,
                         *(wq_counter_t *) (counters + offset));
    }

    return p;
}


static u_char *
ngx_http_wq_prometheus_process_gauge(u_char *p, u_char *last,
    ngx_http_wq_snapshot_t *snapshot, const char *name, const char *help,
    size_t offset)
{
    u_char              *gauges;
    ngx_uint_t           i;
    ngx_http_wq_slot_t  *slot;

    p = ngx_slprintf(p, last, "# HELP %s %s\n# TYPE %s gauge\n",
                     name, help, name);

    for (i = 0; i < snapshot->nslots; i++) {
        slot = &snapshot->slots[i];
        gauges = (u_char *) &slot->gauges;
        p = ngx_slprintf(p, last, "%s{worker=\"%ui\",pid=\"%P\"} %uL\n",
                         name, slot->worker, slot->pid,
                         *(wq_counter_t *) (gauges + offset));
    }

    return p;
}


static u_char *
ngx_http_wq_prometheus_round_trips(u_char *p, u_char *last,
    ngx_http_wq_snapshot_t *snapshot)
{
    uint64_t             count, us;
    ngx_uint_t           i, n, link;
    const char          *name;
    wq_link_counters_t  *counters;

    p = ngx_slprintf(p, last,
                     "# HELP waiting_queue_redis_round_trip_seconds "
                     "From sending a command to its answer.\n"
                     "# TYPE waiting_queue_redis_round_trip_seconds "
                     "histogram\n");

    for (i = 0; i < snapshot->nworkers; i++) {

        for (link = 0; link < NGX_HTTP_WQ_LINKS; link++) {
            name = ngx_http_wq_link_class_name(link);
            counters = &snapshot->workers[i].links[link];
            count = 0;

            for (n = 0; n < WQ_HISTOGRAM_BUCKETS; n++) {
                count += counters->round_trip[n];
                p = ngx_slprintf(p, last,
                                 "waiting_queue_redis_round_trip_seconds"
                                 "_bucket{worker=\"%ui\",link=\"%s\","
                                 "le=\"%s\"} %uL\n",
                                 i, name, wq_histogram_bound(n), count);
            }

            us = counters->round_trip_us;

            p = ngx_slprintf(p, last,
                             "waiting_queue_redis_round_trip_seconds_sum"
                             "{worker=\"%ui\",link=\"%s\"} %uL.%06uL\n"
                             "waiting_queue_redis_round_trip_seconds_count"
                             "{worker=\"%ui\",link=\"%s\"} %uL\n",
                             i, name, us / 1000000, us % 1000000,
                             i, name, count);
        }
    }

    return p;
}


static uint64_t
ngx_http_wq_prometheus_up(ngx_http_wq_link_slot_t *link)
{
    return link->state == NGX_HTTP_WQ_LINK_READY;
}


static uint64_t
ngx_http_wq_prometheus_in_flight(ngx_http_wq_link_slot_t *link)
{
    return link->in_flight;
}
