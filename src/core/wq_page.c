
/* core: the template of the waiting page */


#include <string.h>

#include "wq_page.h"


static wq_rc_t wq_page_next(wq_str_t *rest, wq_page_part_t *part,
    wq_str_t *wrong);
static u_char *wq_page_open(u_char *p, u_char *last);
static u_char *wq_page_close(u_char *p, u_char *last);
static wq_page_value_e wq_page_value(const u_char *p, const u_char *last);
static unsigned wq_page_space(u_char c);
static u_char *wq_page_string(u_char *p, const wq_str_t *s);


#define WQ_X(constant, name)  wq_string(name),
static const wq_str_t  wq_page_names[] = {
    WQ_PAGE_NAMES(WQ_X)
};
#undef WQ_X


wq_rc_t
wq_page_count(const u_char *text, size_t len, size_t *parts, wq_str_t *wrong)
{
    size_t           n;
    wq_rc_t          rc;
    wq_str_t         rest;
    wq_page_part_t   part;

    rest.len = len;
    rest.data = (u_char *) text;

    for (n = 0; rest.len > 0; n++) {
        rc = wq_page_next(&rest, &part, wrong);

        if (rc != WQ_OK) {
            return rc;
        }
    }

    *parts = n;

    return WQ_OK;
}


void
wq_page_parse(const u_char *text, size_t len, wq_page_part_t *parts)
{
    wq_str_t  rest, wrong;

    rest.len = len;
    rest.data = (u_char *) text;

    while (rest.len > 0 && wq_page_next(&rest, parts, &wrong) == WQ_OK) {
        parts++;
    }
}


size_t
wq_page_size(const wq_page_part_t *parts, size_t n,
    const wq_str_t values[WQ_PAGE_VALUES])
{
    size_t  i, size;

    size = 0;

    for (i = 0; i < n; i++) {
        size += parts[i].text.len;

        if (parts[i].value < WQ_PAGE_VALUES) {
            size += values[parts[i].value].len;
        }
    }

    return size;
}


u_char *
wq_page_write(u_char *p, const wq_page_part_t *parts, size_t n,
    const wq_str_t values[WQ_PAGE_VALUES])
{
    size_t  i;

    for (i = 0; i < n; i++) {
        p = wq_page_string(p, &parts[i].text);

        if (parts[i].value < WQ_PAGE_VALUES) {
            p = wq_page_string(p, &values[parts[i].value]);
        }
    }

    return p;
}


/* of a rest that is not empty */

static wq_rc_t
wq_page_next(wq_str_t *rest, wq_page_part_t *part, wq_str_t *wrong)
{
    u_char  *open, *close, *end, *last;

    last = rest->data + rest->len;
    open = wq_page_open(rest->data, last);

    part->text.data = rest->data;
    part->text.len = (size_t) (open - rest->data);
    part->value = WQ_PAGE_VALUES;

    end = open;

    if (open < last) {
        close = wq_page_close(open + 2, last);
        end = close;

        if (close < last && *close == '}') {
            part->value = wq_page_value(open + 2, close);
            end = close + 2;
        }

        if (part->value == WQ_PAGE_VALUES) {
            wrong->data = open;
            wrong->len = (size_t) (end - open);

            if (wrong->len > WQ_PAGE_WRONG_MAX) {
                wrong->len = WQ_PAGE_WRONG_MAX;
            }

            return end == close ? WQ_BAD_CHARACTER : WQ_MISSING;
        }
    }

    rest->data = end;
    rest->len = (size_t) (last - end);

    return WQ_OK;
}


/* the next "{{", or last */

static u_char *
wq_page_open(u_char *p, u_char *last)
{
    while (last - p >= 2) {
        p = memchr(p, '{', (size_t) (last - p - 1));

        if (p == NULL) {
            break;
        }

        if (p[1] == '{') {
            return p;
        }

        p++;
    }

    return last;
}


/* the next "}}", or the end of the line */

static u_char *
wq_page_close(u_char *p, u_char *last)
{
    while (p < last && *p != '\n' && *p != '\r') {

        if (*p == '}' && last - p >= 2 && p[1] == '}') {
            break;
        }

        p++;
    }

    return p;
}


static wq_page_value_e
wq_page_value(const u_char *p, const u_char *last)
{
    size_t    len;
    unsigned  i;

    while (p < last && wq_page_space(*p)) {
        p++;
    }

    while (p < last && wq_page_space(last[-1])) {
        last--;
    }

    len = (size_t) (last - p);

    for (i = 0; i < WQ_PAGE_VALUES; i++) {
        if (wq_page_names[i].len == len
            && memcmp(wq_page_names[i].data, p, len) == 0)
        {
            break;
        }
    }

    return (wq_page_value_e) i;
}


static unsigned
wq_page_space(u_char c)
{
    return c == ' ' || c == '\t';
}


static u_char *
wq_page_string(u_char *p, const wq_str_t *s)
{
    /* an empty string may have no data, and memcpy() takes no NULL */

    if (s->len > 0) {
        memcpy(p, s->data, s->len);
    }

    return p + s->len;
}
