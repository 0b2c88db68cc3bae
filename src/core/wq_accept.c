
/* core: which answer an Accept header asks for */


#include <string.h>

#include "wq_accept.h"
#include "wq_quality.h"


/* HTML has two types: a range that refuses one says nothing of the other */

typedef enum {
    WQ_ACCEPT_TYPE_EVENT_STREAM = 0,
    WQ_ACCEPT_TYPE_HTML,
    WQ_ACCEPT_TYPE_XHTML,
    WQ_ACCEPT_TYPE_JSON,
    WQ_ACCEPT_TYPES
} wq_accept_type_e;


/* how specific a range is */

typedef enum {
    WQ_ACCEPT_UNMENTIONED = 0,
    WQ_ACCEPT_ANYTHING,
    WQ_ACCEPT_GROUP,
    WQ_ACCEPT_EXACT
} wq_accept_specificity_e;


typedef struct {
    wq_str_t                  name;
    wq_accept_type_e          type;
    wq_accept_specificity_e   specificity;
} wq_accept_range_t;


/* of the range that decides about a type */

typedef struct {
    wq_accept_specificity_e   specificity;
    unsigned                  quality;
    size_t                    order;
} wq_accept_wish_t;


static void wq_accept_weigh(wq_accept_wish_t *wishes,
    const wq_quality_t *range, size_t order);
static unsigned wq_accept_before(const wq_accept_wish_t *one,
    const wq_accept_wish_t *other);


static const wq_accept_range_t  wq_accept_ranges[] = {

    { wq_string("text/event-stream"),
      WQ_ACCEPT_TYPE_EVENT_STREAM, WQ_ACCEPT_EXACT },

    { wq_string("text/html"),
      WQ_ACCEPT_TYPE_HTML, WQ_ACCEPT_EXACT },

    { wq_string("text/*"),
      WQ_ACCEPT_TYPE_HTML, WQ_ACCEPT_GROUP },

    { wq_string("application/xhtml+xml"),
      WQ_ACCEPT_TYPE_XHTML, WQ_ACCEPT_EXACT },

    { wq_string("application/json"),
      WQ_ACCEPT_TYPE_JSON, WQ_ACCEPT_EXACT },

    { wq_string("application/*"),
      WQ_ACCEPT_TYPE_JSON, WQ_ACCEPT_GROUP },

    { wq_string("*/*"),
      WQ_ACCEPT_TYPE_JSON, WQ_ACCEPT_ANYTHING }
};


wq_accept_e
wq_accept(const u_char *data, size_t len)
{
    size_t             order;
    wq_str_t           rest;
    wq_quality_t       range;
    wq_accept_wish_t   wishes[WQ_ACCEPT_TYPES], *events, *html, *json;

    memset(wishes, 0, sizeof(wishes));

    rest.len = len;
    rest.data = (u_char *) data;

    for (order = 0; wq_quality_next(&rest, &range); order++) {
        wq_accept_weigh(wishes, &range, order);
    }

    events = &wishes[WQ_ACCEPT_TYPE_EVENT_STREAM];
    html = &wishes[WQ_ACCEPT_TYPE_HTML];
    json = &wishes[WQ_ACCEPT_TYPE_JSON];

    if (wq_accept_before(&wishes[WQ_ACCEPT_TYPE_XHTML], html)) {
        html = &wishes[WQ_ACCEPT_TYPE_XHTML];
    }

    if (events->quality > 0
        && events->quality >= html->quality
        && events->quality >= json->quality)
    {
        return WQ_ACCEPT_EVENT_STREAM;
    }

    if (html->quality > 0 && wq_accept_before(html, json)) {
        return WQ_ACCEPT_HTML;
    }

    return WQ_ACCEPT_JSON;
}


static void
wq_accept_weigh(wq_accept_wish_t *wishes, const wq_quality_t *range,
    size_t order)
{
    size_t                    i, n;
    wq_accept_wish_t         *wish;
    const wq_accept_range_t  *known;

    n = sizeof(wq_accept_ranges) / sizeof(wq_accept_ranges[0]);

    for (i = 0; i < n; i++) {
        if (wq_quality_same(&range->name, &wq_accept_ranges[i].name)) {
            break;
        }
    }

    if (i == n) {
        return;
    }

    known = &wq_accept_ranges[i];
    wish = &wishes[known->type];

    if (known->specificity < wish->specificity
        || (known->specificity == wish->specificity
            && range->quality <= wish->quality))
    {
        return;
    }

    wish->specificity = known->specificity;
    wish->quality = range->quality;
    wish->order = order;
}


static unsigned
wq_accept_before(const wq_accept_wish_t *one, const wq_accept_wish_t *other)
{
    if (one->quality != other->quality) {
        return one->quality > other->quality;
    }

    return other->specificity == WQ_ACCEPT_ANYTHING
           || one->order < other->order;
}
