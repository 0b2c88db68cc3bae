
/* core: the ranges of a header such as Accept, with their qualities */


#include "wq_quality.h"


static unsigned wq_quality_range(u_char **next, u_char *last,
    wq_quality_t *range);
static unsigned wq_quality_parameter(u_char **next, u_char *last,
    unsigned *quality);
static unsigned wq_quality_value(const u_char *p, const u_char *last,
    unsigned *quality);
static u_char *wq_quality_end(u_char *p, u_char *last);
static u_char *wq_quality_spaces(u_char *p, u_char *last);
static u_char *wq_quality_token(u_char *p, u_char *last);
static u_char *wq_quality_quoted(u_char *p, u_char *last);
static unsigned wq_quality_token_character(u_char c);
static u_char wq_quality_lower(u_char c);


unsigned
wq_quality_next(wq_str_t *rest, wq_quality_t *range)
{
    u_char    *p, *last;
    unsigned   good;

    while (rest->len > 0) {
        p = rest->data;
        last = p + rest->len;

        good = wq_quality_range(&p, last, range);

        p = wq_quality_end(p, last);

        rest->data = p;
        rest->len = (size_t) (last - p);

        if (good) {
            return 1;
        }
    }

    return 0;
}


unsigned
wq_quality_same(const wq_str_t *name, const wq_str_t *lower)
{
    size_t  i;

    if (name->len != lower->len) {
        return 0;
    }

    for (i = 0; i < name->len; i++) {
        if (wq_quality_lower(name->data[i]) != lower->data[i]) {
            return 0;
        }
    }

    return 1;
}


/*
 * *next is left where the range ends or stops to be one, and never within a
 * quoted string: the search for its comma goes on from there.
 */

static unsigned
wq_quality_range(u_char **next, u_char *last, wq_quality_t *range)
{
    u_char  *name;

    name = wq_quality_spaces(*next, last);
    *next = name;

    /* a type and its subtype; which names mean anything, the caller knows */

    while (*next < last
           && (wq_quality_token_character(**next) || **next == '/'))
    {
        (*next)++;
    }

    if (*next == name) {
        return 0;
    }

    range->name.data = name;
    range->name.len = (size_t) (*next - name);
    range->quality = WQ_QUALITY_MAX;

    for ( ;; ) {
        *next = wq_quality_spaces(*next, last);

        if (*next == last || **next == ',') {
            return 1;
        }

        if (**next != ';') {
            return 0;
        }

        *next = wq_quality_spaces(*next + 1, last);

        if (!wq_quality_parameter(next, last, &range->quality)) {
            return 0;
        }
    }
}


/* one may be empty, as in "text/html;;q=0.5" */

static unsigned
wq_quality_parameter(u_char **next, u_char *last, unsigned *quality)
{
    u_char    *name, *value, *end;
    unsigned   weight;

    name = *next;
    end = wq_quality_token(name, last);
    *next = end;

    weight = end - name == 1 && wq_quality_lower(*name) == 'q';

    if (end == last || *end != '=') {
        return !weight;
    }

    if (end == name) {
        return 0;
    }

    value = end + 1;

    if (value < last && *value == '"') {
        end = wq_quality_quoted(value, last);

        if (end == NULL) {
            *next = last;
            return 0;
        }

    } else {
        end = wq_quality_token(value, last);
    }

    *next = end;

    if (value == end) {
        return 0;
    }

    return !weight || wq_quality_value(value, end, quality);
}


/* ( "0" [ "." 0*3DIGIT ] ) / ( "1" [ "." 0*3("0") ] ) */

static unsigned
wq_quality_value(const u_char *p, const u_char *last, unsigned *quality)
{
    unsigned  thousandths, digit;

    if (last - p > 5 || (*p != '0' && *p != '1')) {
        return 0;
    }

    thousandths = *p == '1' ? WQ_QUALITY_MAX : 0;
    p++;

    if (p < last && *p++ != '.') {
        return 0;
    }

    for (digit = 100; p < last; digit /= 10) {

        if (*p < '0' || *p > '9') {
            return 0;
        }

        thousandths += digit * (unsigned) (*p++ - '0');
    }

    if (thousandths > WQ_QUALITY_MAX) {
        return 0;
    }

    *quality = thousandths;

    return 1;
}


/* behind the comma that ends a range */

static u_char *
wq_quality_end(u_char *p, u_char *last)
{
    while (p < last) {

        if (*p == ',') {
            return p + 1;
        }

        if (*p != '"') {
            p++;
            continue;
        }

        p = wq_quality_quoted(p, last);

        if (p == NULL) {
            return last;
        }
    }

    return p;
}


static u_char *
wq_quality_spaces(u_char *p, u_char *last)
{
    while (p < last && (*p == ' ' || *p == '\t')) {
        p++;
    }

    return p;
}


static u_char *
wq_quality_token(u_char *p, u_char *last)
{
    while (p < last && wq_quality_token_character(*p)) {
        p++;
    }

    return p;
}


/*
 * Behind the quote that closes the one at p, NULL if there is none.  Any byte
 * may stand between them: no value of a parameter is ever used.
 */

static u_char *
wq_quality_quoted(u_char *p, u_char *last)
{
    for (p++; p < last; p++) {

        if (*p == '"') {
            return p + 1;
        }

        if (*p == '\\' && ++p == last) {
            break;
        }
    }

    return NULL;
}


static unsigned
wq_quality_token_character(u_char c)
{
    u_char  lower;

    lower = wq_quality_lower(c);

    if ((lower >= 'a' && lower <= 'z') || (c >= '0' && c <= '9')) {
        return 1;
    }

    switch (c) {
    case '!':
    case '#':
    case '$':
    case '%':
    case '&':
    case '\'':
    case '*':
    case '+':
    case '-':
    case '.':
    case '^':
    case '_':
    case '`':
    case '|':
    case '~':
        return 1;

    default:
        return 0;
    }
}


static u_char
wq_quality_lower(u_char c)
{
    return c >= 'A' && c <= 'Z' ? c | 0x20 : c;
}
