
/*
 * http: the events in the operator's figures, in both formats.
 *
 * What Redis says of an event is the same on every node; the streams are those
 * of this one.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_wq_http.h"


/*
 * X(field, name in JSON, name in Prometheus without prefix, its type, help):
 * one list makes both formats.
 */

#define NGX_HTTP_WQ_EVENT_FIGURES(X)                                          \
    X(waiting, "waiting", "waiting", "gauge",                                 \
      "Users in line.")                                                       \
    X(active, "active", "active", "gauge",                                    \
      "Users who hold a slot.")                                               \
    X(free_slots, "freeSlots", "free_slots", "gauge",                         \
      "Slots that nobody holds; negative when the capacity was lowered.")     \
    X(capacity, "capacity", "capacity", "gauge",                              \
      "Slots there are, those of sold seats among them.")                     \
    X(joined, "joined", "joined_total", "counter",                            \
      "Users who have come.")                                                 \
    X(direct, "direct", "direct_total", "counter",                            \
      "Users let in without waiting.")                                        \
    X(promoted, "promoted", "promoted_total", "counter",                      \
      "Users let in from the line.")                                          \
    X(entered, "entered", "entered_total", "counter",                         \
      "Users who came in when they were let in.")                             \
    X(left, "left", "left_total", "counter",                                  \
      "Users who left the line, or gave a lease back.")                       \
    X(expired, "expired", "expired_total", "counter",                         \
      "Leases that have lapsed.")                                             \
    X(done, "done", "done_total", "counter",                                  \
      "Leases that the backend has ended.")                                   \
    X(sold, "sold", "sold_total", "counter",                                  \
      "Seats that the backend has sold, and slots with them.")                \
    X(drift, "drift", "drift", "gauge",                                       \
      "Slots and leases for which the books disagree; 0 is right.")           \
    X(rate_users, "rateUsers", "rate_users", "gauge",                         \
      "Users that the rate lets in in a period; 0 without one.")              \
    X(rate_ms, "ratePeriodMs", "rate_period_milliseconds", "gauge",           \
      "A period of the rate; 0 without one.")                                 \
    X(concurrent, "rateConcurrent", "rate_concurrent", "gauge",               \
      "Users whom the backend can serve at once, by tps=; 0 without it.")


#define NGX_HTTP_WQ_EVENT_PREFIX  "waiting_queue_event_"

/*
 * Upper bounds: a number has 20 characters, a name in JSON less than 24 and a
 * name in Prometheus, with its prefix, less than 48.
 */

#define NGX_HTTP_WQ_EVENT_FIELD                                               \
    (24 + NGX_INT64_LEN + sizeof("\"\":,"))
#define NGX_HTTP_WQ_EVENT_LINE                                                \
    (48 + WQ_ID_MAX + NGX_INT64_LEN + sizeof("{event=\"\"} .000\n"))
#define NGX_HTTP_WQ_EVENT_HEAD  256

#define WQ_X(field, json, prometheus, type, help)  + 1
enum {
    /* and seats, eta, reconciled, streams, promotedPerMinute, age */
    NGX_HTTP_WQ_EVENT_FAMILIES = 0 NGX_HTTP_WQ_EVENT_FIGURES(WQ_X) + 6,

    /* and the id, with its name and all around it */
    NGX_HTTP_WQ_EVENT_ROW = (NGX_HTTP_WQ_EVENT_FAMILIES + 1)
                            * NGX_HTTP_WQ_EVENT_FIELD + WQ_ID_MAX
};
#undef WQ_X


static u_char *ngx_http_wq_status_events_known(u_char *p, u_char *last,
    const char *name, int64_t number);
static u_char *ngx_http_wq_status_events_head(u_char *p, u_char *last,
    const char *name, const char *type, const char *help);
static u_char *ngx_http_wq_status_events_figure(u_char *p, u_char *last,
    ngx_http_wq_snapshot_t *snapshot, const char *name, size_t offset);
static u_char *ngx_http_wq_status_events_gauge(u_char *p, u_char *last,
    ngx_http_wq_snapshot_t *snapshot, const char *name, size_t offset);
static u_char *ngx_http_wq_status_events_number(u_char *p, u_char *last,
    ngx_http_wq_snapshot_t *snapshot, const char *name, size_t offset);


size_t
ngx_http_wq_status_events_json_size(ngx_http_wq_snapshot_t *snapshot)
{
    return snapshot->nevents * NGX_HTTP_WQ_EVENT_ROW;
}


u_char *
ngx_http_wq_status_events_json(u_char *p, u_char *last,
    ngx_http_wq_snapshot_t *snapshot)
{
    ngx_uint_t                i;
    ngx_http_wq_event_row_t  *row;

    for (i = 0; i < snapshot->nevents; i++) {
        row = &snapshot->events[i];

        /* an id needs no escaping */
        p = ngx_slprintf(p, last, "%s\n{\"event\":\"%*s\"", i ? "," : "",
                         row->id_len, row->id);

#define WQ_X(field, json, prometheus, type, help)                             \
        p = ngx_slprintf(p, last, ",\"" json "\":%L", row->figures.field);

        NGX_HTTP_WQ_EVENT_FIGURES(WQ_X)

#undef WQ_X

        p = ngx_slprintf(p, last, ",\"reconciled\":%s",
                         row->figures.drift ? "false" : "true");

        p = ngx_http_wq_status_events_known(p, last, ",\"seats\":",
                                            row->figures.seats);
        p = ngx_http_wq_status_events_known(p, last, ",\"etaSeconds\":",
                                            row->eta);

        p = ngx_slprintf(p, last, ",\"streams\":%uL,"
                         "\"promotedPerMinute\":%uL,\"ageMs\":%M}",
                         row->streams, row->per_minute, row->age);
    }

    return p;
}


/* null for what is not known */

static u_char *
ngx_http_wq_status_events_known(u_char *p, u_char *last, const char *name,
    int64_t number)
{
    return number < 0 ? ngx_slprintf(p, last, "%snull", name)
                      : ngx_slprintf(p, last, "%s%L", name, number);
}


size_t
ngx_http_wq_status_events_prometheus_size(ngx_http_wq_snapshot_t *snapshot)
{
    return NGX_HTTP_WQ_EVENT_FAMILIES
           * (NGX_HTTP_WQ_EVENT_HEAD
              + snapshot->nevents * NGX_HTTP_WQ_EVENT_LINE);
}


u_char *
ngx_http_wq_status_events_prometheus(u_char *p, u_char *last,
    ngx_http_wq_snapshot_t *snapshot)
{
    ngx_uint_t                i;
    ngx_http_wq_event_row_t  *row;

    if (snapshot->nevents == 0) {
        return p;
    }

#define WQ_X(field, json, prometheus, type, help)                             \
    p = ngx_http_wq_status_events_head(p, last, prometheus, type, help);      \
    p = ngx_http_wq_status_events_figure(p, last, snapshot, prometheus,       \
            offsetof(ngx_http_wq_figures_t, field));

    NGX_HTTP_WQ_EVENT_FIGURES(WQ_X)

#undef WQ_X

    p = ngx_http_wq_status_events_head(p, last, "seats", "gauge",
                                       "Seats left, where they are counted.");
    p = ngx_http_wq_status_events_gauge(p, last, snapshot, "seats",
                offsetof(ngx_http_wq_event_row_t, figures)
                + offsetof(ngx_http_wq_figures_t, seats));

    p = ngx_http_wq_status_events_head(p, last, "eta_seconds", "gauge",
                                       "How long who comes now has to wait.");
    p = ngx_http_wq_status_events_gauge(p, last, snapshot, "eta_seconds",
                                        offsetof(ngx_http_wq_event_row_t,
                                                 eta));

    p = ngx_http_wq_status_events_head(p, last, "streams", "gauge",
                                       "Streams open on this node.");
    p = ngx_http_wq_status_events_number(p, last, snapshot, "streams",
                                 offsetof(ngx_http_wq_event_row_t, streams));

    p = ngx_http_wq_status_events_head(p, last, "promoted_per_minute", "gauge",
                                       "Users let in, by the last minute.");
    p = ngx_http_wq_status_events_number(p, last, snapshot,
                                         "promoted_per_minute",
                                         offsetof(ngx_http_wq_event_row_t,
                                                  per_minute));

    p = ngx_http_wq_status_events_head(p, last, "age_seconds", "gauge",
                                       "How long ago Redis said this.");

    for (i = 0; i < snapshot->nevents; i++) {
        row = &snapshot->events[i];
        p = ngx_slprintf(p, last, NGX_HTTP_WQ_EVENT_PREFIX "age_seconds"
                         "{event=\"%*s\"} %M.%03M\n", row->id_len, row->id,
                         row->age / 1000, row->age % 1000);
    }

    return p;
}


static u_char *
ngx_http_wq_status_events_head(u_char *p, u_char *last, const char *name,
    const char *type, const char *help)
{
    return ngx_slprintf(p, last,
                        "# HELP " NGX_HTTP_WQ_EVENT_PREFIX "%s %s\n"
                        "# TYPE " NGX_HTTP_WQ_EVENT_PREFIX "%s %s\n",
                        name, help, name, type);
}


static u_char *
ngx_http_wq_status_events_figure(u_char *p, u_char *last,
    ngx_http_wq_snapshot_t *snapshot, const char *name, size_t offset)
{
    u_char                   *figures;
    ngx_uint_t                i;
    ngx_http_wq_event_row_t  *row;

    for (i = 0; i < snapshot->nevents; i++) {
        row = &snapshot->events[i];
        figures = (u_char *) &row->figures;
        p = ngx_slprintf(p, last, NGX_HTTP_WQ_EVENT_PREFIX "%s"
                         "{event=\"%*s\"} %L\n", name, row->id_len, row->id,
                         *(int64_t *) (figures + offset));
    }

    return p;
}


/* of an event of which it is not known there is no line */

static u_char *
ngx_http_wq_status_events_gauge(u_char *p, u_char *last,
    ngx_http_wq_snapshot_t *snapshot, const char *name, size_t offset)
{
    int64_t                   number;
    ngx_uint_t                i;
    ngx_http_wq_event_row_t  *row;

    for (i = 0; i < snapshot->nevents; i++) {
        row = &snapshot->events[i];
        number = *(int64_t *) ((u_char *) row + offset);

        if (number >= 0) {
            p = ngx_slprintf(p, last, NGX_HTTP_WQ_EVENT_PREFIX "%s"
                             "{event=\"%*s\"} %L\n", name, row->id_len,
                             row->id, number);
        }
    }

    return p;
}


static u_char *
ngx_http_wq_status_events_number(u_char *p, u_char *last,
    ngx_http_wq_snapshot_t *snapshot, const char *name, size_t offset)
{
    ngx_uint_t                i;
    ngx_http_wq_event_row_t  *row;

    for (i = 0; i < snapshot->nevents; i++) {
        row = &snapshot->events[i];
        p = ngx_slprintf(p, last, NGX_HTTP_WQ_EVENT_PREFIX "%s"
                         "{event=\"%*s\"} %uL\n", name, row->id_len, row->id,
                         *(uint64_t *) ((u_char *) row + offset));
    }

    return p;
}
