
/* http: the operator's figures in JSON, a row for each process and event */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_wq_http.h"


/* upper bounds: a number has 20 digits, a name less than 24 characters */

#define NGX_HTTP_WQ_JSON_FIELD  (24 + NGX_INT64_LEN + sizeof("\"\":,"))

#define WQ_X(field, json, prometheus, help)  + 1
enum {
    NGX_HTTP_WQ_JSON_LINK = (0 WQ_LINK_COUNTERS(WQ_X) + WQ_HISTOGRAM_BUCKETS
                             + 12)
                            * NGX_HTTP_WQ_JSON_FIELD,
    NGX_HTTP_WQ_JSON_PROCESS = (0 WQ_PROCESS_COUNTERS(WQ_X)
                                WQ_PROCESS_GAUGES(WQ_X) + 12)
                               * NGX_HTTP_WQ_JSON_FIELD
                               + WQ_ID_MAX
                               + NGX_HTTP_WQ_LINKS * NGX_HTTP_WQ_JSON_LINK,
    NGX_HTTP_WQ_JSON_HEAD = 1024
};
#undef WQ_X


static u_char *ngx_http_wq_json_redis(u_char *p, u_char *last,
    const ngx_http_wq_redis_conf_t *rc);
static u_char *ngx_http_wq_json_slot(u_char *p, u_char *last,
    ngx_http_wq_slot_t *slot);
static u_char *ngx_http_wq_json_link(u_char *p, u_char *last,
    ngx_http_wq_link_slot_t *link);
static u_char *ngx_http_wq_json_string(u_char *p, u_char *last,
    const ngx_str_t *string);


ngx_buf_t *
ngx_http_wq_status_json(ngx_http_request_t *r,
    const ngx_http_wq_queue_conf_t *conf, ngx_http_wq_snapshot_t *snapshot)
{
    u_char      *p, *last;
    ngx_buf_t   *b;
    ngx_uint_t   i;

    b = ngx_create_temp_buf(r->pool, NGX_HTTP_WQ_JSON_HEAD
                            + conf->prefix.len * 6
                            + snapshot->nslots * NGX_HTTP_WQ_JSON_PROCESS
                            + ngx_http_wq_status_events_json_size(snapshot));
    if (b == NULL) {
        return NULL;
    }

    p = b->last;
    last = b->end;

    p = ngx_slprintf(p, last, "{\"version\":\"%s\",\"node\":",
                     NGX_HTTP_WQ_VERSION);
    p = ngx_http_wq_json_string(p, last, &conf->node);
    p = ngx_slprintf(p, last, ",\"prefix\":");
    p = ngx_http_wq_json_string(p, last, &conf->prefix);
    p = ngx_slprintf(p, last, ",\"redis\":");
    p = ngx_http_wq_json_redis(p, last, &conf->redis);
    p = ngx_slprintf(p, last, ",\"tokens\":{\"known\":%ui,\"room\":%ui,"
                     "\"evicted\":%uL},\"endings\":%ui,\"processes\":[",
                     snapshot->tokens, snapshot->tokens_max,
                     snapshot->tokens_evicted, snapshot->endings);

    for (i = 0; i < snapshot->nslots; i++) {
        p = ngx_slprintf(p, last, i ? ",\n" : "\n");
        p = ngx_http_wq_json_slot(p, last, &snapshot->slots[i]);
    }

    p = ngx_slprintf(p, last, "],\"events\":[");
    p = ngx_http_wq_status_events_json(p, last, snapshot);

    b->last = ngx_slprintf(p, last, "]}\n");

    return b;
}


static u_char *
ngx_http_wq_json_redis(u_char *p, u_char *last,
    const ngx_http_wq_redis_conf_t *rc)
{
    ngx_http_wq_address_t  *address;

    address = rc->addresses.elts;

    p = ngx_slprintf(p, last, "{\"address\":");

    if (rc->name.len) {
        /* a host's name needs no escaping */
        p = ngx_slprintf(p, last, "\"%V:%ui\"", &rc->name,
                         (ngx_uint_t) rc->port);
    } else {
        p = ngx_http_wq_json_string(p, last, &address[0].text);
    }

    return ngx_slprintf(p, last, ",\"db\":%ui,\"timeoutMs\":%M,"
                        "\"maxInFlight\":%ui}",
                        rc->db, rc->timeout, rc->in_flight);
}


static u_char *
ngx_http_wq_json_slot(u_char *p, u_char *last, ngx_http_wq_slot_t *slot)
{
    ngx_str_t   instance;
    ngx_uint_t  i;

    instance.len = slot->instance_len;
    instance.data = slot->instance;

    p = ngx_slprintf(p, last, "{\"worker\":%ui,\"pid\":%P,\"instance\":",
                     slot->worker, slot->pid);
    p = ngx_http_wq_json_string(p, last, &instance);
    p = ngx_slprintf(p, last, ",\"draining\":%s",
                     slot->draining ? "true" : "false");

#define WQ_X(field, json, prometheus, help)                                   \
    p = ngx_slprintf(p, last, ",\"" json "\":%uL", slot->counters.field);

    WQ_PROCESS_COUNTERS(WQ_X)

#undef WQ_X

#define WQ_X(field, json, prometheus, help)                                   \
    p = ngx_slprintf(p, last, ",\"" json "\":%uL", slot->gauges.field);

    WQ_PROCESS_GAUGES(WQ_X)

#undef WQ_X

    p = ngx_slprintf(p, last, ",\"links\":{");

    for (i = 0; i < NGX_HTTP_WQ_LINKS; i++) {
        p = ngx_slprintf(p, last, "%s\"%s\":", i ? "," : "",
                         ngx_http_wq_link_class_name(i));
        p = ngx_http_wq_json_link(p, last, &slot->links[i]);
    }

    return ngx_slprintf(p, last, "}}");
}


static u_char *
ngx_http_wq_json_link(u_char *p, u_char *last, ngx_http_wq_link_slot_t *link)
{
    uint64_t    count;
    ngx_uint_t  i;

    p = ngx_slprintf(p, last, "{\"state\":\"%s\"",
                     ngx_http_wq_link_state_name(link->state));

    if (link->trouble == NGX_HTTP_WQ_TROUBLE_NONE) {
        p = ngx_slprintf(p, last, ",\"trouble\":null");

    } else {
        p = ngx_slprintf(p, last, ",\"trouble\":\"%s\"",
                         ngx_http_wq_trouble_name(link->trouble));
    }

    p = ngx_slprintf(p, last, ",\"since\":%uL,\"inFlight\":%uL",
                     link->since, link->in_flight);

#define WQ_X(field, json, prometheus, help)                                   \
    p = ngx_slprintf(p, last, ",\"" json "\":%uL", link->counters.field);

    WQ_LINK_COUNTERS(WQ_X)

#undef WQ_X

    p = ngx_slprintf(p, last, ",\"roundTrip\":{");

    count = 0;

    for (i = 0; i < WQ_HISTOGRAM_BUCKETS; i++) {
        count += link->counters.round_trip[i];
        p = ngx_slprintf(p, last, "\"%s\":%uL,", wq_histogram_bound(i), count);
    }

    return ngx_slprintf(p, last, "\"count\":%uL,\"sumUs\":%uL}}", count,
                        link->counters.round_trip_us);
}


static u_char *
ngx_http_wq_json_string(u_char *p, u_char *last, const ngx_str_t *string)
{
    size_t  len;

    len = string->len
          + ngx_escape_json(NULL, string->data, string->len);

    if ((size_t) (last - p) < len + 2) {
        return p;
    }

    *p++ = '"';
    p = (u_char *) ngx_escape_json(p, string->data, string->len);
    *p++ = '"';

    return p;
}
