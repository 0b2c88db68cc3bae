
/* core: one cookie in a Cookie header, and whether it can be one of ours */


#include <string.h>

#include "wq_cookie.h"


static const u_char *wq_cookie_next(const u_char *p, const u_char *end, int c);
static int wq_cookie_is_named(const u_char *p, const u_char *end,
    const wq_str_t *name);


wq_rc_t
wq_cookie_find(const u_char *header, size_t len, const wq_str_t *name,
    wq_str_t *value)
{
    const u_char  *p, *end, *start, *comma, *semicolon;

    if (len == 0) {
        return WQ_MISSING;
    }

    p = header;
    end = header + len;

    /*
     * Asked with every request, and other cookies are long: by memchr(), which
     * goes over each byte once.
     */

    comma = wq_cookie_next(p, end, ',');
    semicolon = wq_cookie_next(p, end, ';');

    while (p < end) {

        if (*p == ' ') {
            p++;
            continue;
        }

        if (wq_cookie_is_named(p, end, name)) {

            start = p + name->len;

            while (start < end && *start == ' ') {
                start++;
            }

            /* else it is a longer name, or one without a value */

            if (start < end && *start == '=') {

                do {
                    start++;
                } while (start < end && *start == ' ');

                value->data = (u_char *) start;
                value->len = (size_t) (wq_cookie_next(start, end, ';')
                                       - start);

                return WQ_OK;
            }
        }

        if (comma < p) {
            comma = wq_cookie_next(p, end, ',');
        }

        if (semicolon < p) {
            semicolon = wq_cookie_next(p, end, ';');
        }

        p = comma < semicolon ? comma : semicolon;

        if (p < end) {
            p++;
        }
    }

    return WQ_MISSING;
}


/* where it is, or the end */

static const u_char *
wq_cookie_next(const u_char *p, const u_char *end, int c)
{
    const u_char  *found;

    found = memchr(p, c, (size_t) (end - p));

    return found ? found : end;
}


static int
wq_cookie_is_named(const u_char *p, const u_char *end, const wq_str_t *name)
{
    size_t  i;
    u_char  c;

    if ((size_t) (end - p) < name->len) {
        return 0;
    }

    for (i = 0; i < name->len; i++) {

        c = p[i];

        if (c >= 'A' && c <= 'Z') {
            c |= 0x20;
        }

        if (c != name->data[i]) {
            return 0;
        }
    }

    return 1;
}


int
wq_cookie_is_hex(const u_char *value, size_t len, size_t wanted)
{
    size_t  i;

    if (len != wanted) {
        return 0;
    }

    for (i = 0; i < len; i++) {
        if ((value[i] < '0' || value[i] > '9')
            && (value[i] < 'a' || value[i] > 'f'))
        {
            return 0;
        }
    }

    return 1;
}
