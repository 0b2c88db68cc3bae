
/* core: a script's reply, checked against what the caller expects */


#include <string.h>

#include "wq_reply.h"


static wq_rc_t wq_reply_get_integer(wq_reply_t reply, int64_t *value);
static wq_rc_t wq_reply_parse_integer(wq_str_t text, int64_t *value);
static wq_rc_t wq_reply_check_size(const wq_field_t *field, size_t size);


wq_reply_t
wq_reply_element(wq_reply_t reply, size_t i)
{
    wq_reply_t  element;

    element.reader = reply.reader;
    element.node = NULL;

    if (i < wq_reply_elements(reply)) {
        element.node = reply.reader->element(reply.node, i);
    }

    return element;
}


wq_reply_type_e
wq_reply_type(wq_reply_t reply)
{
    wq_reply_type_e  type;

    if (reply.node == NULL || reply.reader == NULL) {
        return WQ_REPLY_NIL;
    }

    type = reply.reader->type(reply.node);

    switch (type) {
    case WQ_REPLY_NIL:
    case WQ_REPLY_INTEGER:
    case WQ_REPLY_STRING:
    case WQ_REPLY_ARRAY:
    case WQ_REPLY_ERROR:
        return type;

    default:
        return WQ_REPLY_UNKNOWN;
    }
}


size_t
wq_reply_elements(wq_reply_t reply)
{
    if (wq_reply_type(reply) != WQ_REPLY_ARRAY) {
        return 0;
    }

    return reply.reader->elements(reply.node);
}


wq_str_t
wq_reply_string(wq_reply_t reply)
{
    wq_str_t         s;
    wq_reply_type_e  type;

    s.len = 0;
    s.data = NULL;

    type = wq_reply_type(reply);

    if (type != WQ_REPLY_STRING && type != WQ_REPLY_ERROR) {
        return s;
    }

    s = reply.reader->string(reply.node);

    if (s.data == NULL && s.len == 0) {

        /* an empty string must not look like a nil */

        s.data = (u_char *) "";
    }

    if (s.data == NULL) {
        s.len = 0;
    }

    return s;
}


wq_rc_t
wq_reply_decode(wq_reply_t reply, const wq_field_t *fields, size_t n, void *out,
    const char **bad)
{
    size_t           i, elements;
    wq_rc_t          rc;
    const char      *name;
    wq_reply_type_e  type;

    name = "reply";
    type = wq_reply_type(reply);

    if (type == WQ_REPLY_NIL) {
        rc = WQ_MISSING;
        goto failed;
    }

    if (type != WQ_REPLY_ARRAY) {
        rc = WQ_BAD_TYPE;
        goto failed;
    }

    elements = wq_reply_elements(reply);

    for (i = 0; i < n; i++) {
        name = fields[i].name;

        /* even where nil is allowed: the script says nil, it does not omit */

        if (i >= elements) {
            rc = WQ_MISSING;
            goto failed;
        }

        rc = wq_reply_decode_value(wq_reply_element(reply, i), &fields[i], out);

        if (rc != WQ_OK) {
            goto failed;
        }
    }

    return WQ_OK;

failed:

    if (bad != NULL) {
        *bad = name;
    }

    return rc;
}


wq_rc_t
wq_reply_decode_value(wq_reply_t reply, const wq_field_t *field, void *out)
{
    u_char           *p;
    int64_t           integer;
    wq_rc_t           rc;
    wq_str_t          string;
    wq_reply_type_e   type;

    p = (u_char *) out + field->offset;
    type = wq_reply_type(reply);

    if (type == WQ_REPLY_NIL && !field->nil_allowed) {
        return WQ_MISSING;
    }

    switch (field->type) {

    case WQ_FIELD_INTEGER:

        if (type == WQ_REPLY_NIL) {
            integer = WQ_FIELD_NIL_INTEGER;

        } else {
            rc = wq_reply_get_integer(reply, &integer);

            if (rc != WQ_OK) {
                return rc;
            }

            if (integer < field->min || integer > field->max) {
                return WQ_BAD_RANGE;
            }
        }

        memcpy(p, &integer, sizeof(int64_t));

        return WQ_OK;

    case WQ_FIELD_STRING:

        string.len = 0;
        string.data = NULL;

        if (type != WQ_REPLY_NIL) {

            if (type != WQ_REPLY_STRING) {
                return WQ_BAD_TYPE;
            }

            string = wq_reply_string(reply);

            if (string.data == NULL) {
                return WQ_BAD_TYPE;
            }

            rc = wq_reply_check_size(field, string.len);

            if (rc != WQ_OK) {
                return rc;
            }
        }

        memcpy(p, &string, sizeof(wq_str_t));

        return WQ_OK;

    case WQ_FIELD_ARRAY:

        if (type == WQ_REPLY_NIL) {
            reply.node = NULL;

        } else {

            if (type != WQ_REPLY_ARRAY) {
                return WQ_BAD_TYPE;
            }

            rc = wq_reply_check_size(field, wq_reply_elements(reply));

            if (rc != WQ_OK) {
                return rc;
            }
        }

        memcpy(p, &reply, sizeof(wq_reply_t));

        return WQ_OK;

    default:
        return WQ_BAD_TYPE;
    }
}


static wq_rc_t
wq_reply_get_integer(wq_reply_t reply, int64_t *value)
{
    switch (wq_reply_type(reply)) {

    case WQ_REPLY_INTEGER:
        *value = reply.reader->integer(reply.node);
        return WQ_OK;

    case WQ_REPLY_STRING:
        return wq_reply_parse_integer(wq_reply_string(reply), value);

    default:
        return WQ_BAD_TYPE;
    }
}


/*
 * Takes only what Redis itself writes for a number, so that a value has one
 * form: no plus, no spaces, no leading zeros, no minus zero.
 */

static wq_rc_t
wq_reply_parse_integer(wq_str_t text, int64_t *value)
{
    size_t    i;
    uint64_t  n, limit, digit;
    unsigned  negative;

    negative = (text.len > 0 && text.data[0] == '-');
    i = negative;

    if (i == text.len) {
        return WQ_BAD_TYPE;
    }

    if (text.data[i] == '0' && text.len > 1) {
        return WQ_BAD_TYPE;
    }

    limit = (uint64_t) INT64_MAX + negative;

    /* ends with the first digit too many, so a huge string is not read */

    for (n = 0; i < text.len; i++) {

        if (text.data[i] < '0' || text.data[i] > '9') {
            return WQ_BAD_TYPE;
        }

        digit = (uint64_t) (text.data[i] - '0');

        if (n > (limit - digit) / 10) {
            return WQ_BAD_RANGE;
        }

        n = n * 10 + digit;
    }

    /* n is not 0 where negative is set; -n would not hold INT64_MIN */

    *value = negative ? -(int64_t) (n - 1) - 1 : (int64_t) n;

    return WQ_OK;
}


static wq_rc_t
wq_reply_check_size(const wq_field_t *field, size_t size)
{
    if ((uint64_t) size > (uint64_t) INT64_MAX) {
        return WQ_BAD_RANGE;
    }

    if ((int64_t) size < field->min || (int64_t) size > field->max) {
        return WQ_BAD_RANGE;
    }

    return WQ_OK;
}
