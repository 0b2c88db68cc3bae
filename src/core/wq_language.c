
/* core: which of some languages an Accept-Language header prefers */


#include <string.h>

#include "wq_language.h"
#include "wq_quality.h"


typedef struct {
    unsigned   quality;
    size_t     order;
} wq_language_wish_t;


static size_t wq_language_find(const wq_str_t *range,
    const wq_str_t *supported, size_t n);


static const wq_str_t  wq_language_any = wq_string("*");


size_t
wq_language(const u_char *data, size_t len, const wq_str_t *supported,
    size_t n)
{
    size_t               i, best, order;
    unsigned             default_named;
    wq_str_t             rest;
    wq_quality_t         range;
    wq_language_wish_t   any, named, *wish;

    memset(&any, 0, sizeof(any));
    memset(&named, 0, sizeof(named));

    best = 0;
    default_named = 0;

    rest.len = len;
    rest.data = (u_char *) data;

    for (order = 0; wq_quality_next(&rest, &range); order++) {

        i = wq_language_find(&range.name, supported, n);

        if (i < n) {
            wish = &named;
            default_named |= i == 0;

        } else if (wq_quality_same(&range.name, &wq_language_any)) {
            wish = &any;

        } else {
            continue;
        }

        if (range.quality <= wish->quality) {
            continue;
        }

        wish->quality = range.quality;
        wish->order = order;

        if (wish == &named) {
            best = i;
        }
    }

    /* only now: a range of the default's own may come after the "*" */

    if (!default_named
        && (any.quality > named.quality
            || (any.quality == named.quality && any.order < named.order)))
    {
        return 0;
    }

    return best;
}


/* n if it is none of them */

static size_t
wq_language_find(const wq_str_t *range, const wq_str_t *supported, size_t n)
{
    size_t     i;
    u_char    *hyphen;
    wq_str_t   primary;

    primary = *range;
    hyphen = memchr(primary.data, '-', primary.len);

    if (hyphen != NULL) {
        primary.len = (size_t) (hyphen - primary.data);
    }

    for (i = 0; i < n; i++) {
        if (wq_quality_same(&primary, &supported[i])) {
            break;
        }
    }

    return i;
}
