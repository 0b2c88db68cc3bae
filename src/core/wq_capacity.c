
/* core: the capacity of an event, as its service tells it */


#include <string.h>

#include <cjson/cJSON.h>

#include "wq_capacity.h"


static wq_rc_t wq_capacity_find(const cJSON *object, const wq_str_t *field,
    const cJSON **number);
static unsigned wq_capacity_text(const u_char *p, const u_char *last);
static unsigned wq_capacity_blank(const u_char *p, const u_char *last);


wq_rc_t
wq_capacity_check_field(const u_char *field, size_t len)
{
    size_t  i, start;

    if (len > WQ_CAPACITY_FIELD_MAX) {
        return WQ_TOO_LONG;
    }

    start = 0;

    for (i = 0; i <= len; i++) {
        if (i == len || field[i] == '.') {

            if (i == start) {
                return WQ_EMPTY;
            }

            start = i + 1;
        }
    }

    return WQ_OK;
}


wq_rc_t
wq_capacity_parse(const u_char *text, size_t len, const wq_str_t *field,
    uint32_t *capacity)
{
    cJSON        *root;
    double        value;
    wq_rc_t       rc;
    const char   *end;
    const cJSON  *number;

    if (len == 0 || !wq_capacity_text(text, text + len)) {
        return WQ_BAD_CHARACTER;
    }

    root = cJSON_ParseWithLengthOpts((const char *) text, len, &end, 0);
    if (root == NULL) {
        return WQ_BAD_CHARACTER;
    }

    if (!wq_capacity_blank((const u_char *) end, text + len)) {
        rc = WQ_BAD_CHARACTER;
        goto done;
    }

    rc = wq_capacity_find(root, field, &number);
    if (rc != WQ_OK) {
        goto done;
    }

    value = number->valuedouble;

    /* written so that what is not a number at all is refused too */

    if (!(value >= 0 && value <= WQ_CAPACITY_MAX)
        || (double) (uint32_t) value != value)
    {
        rc = WQ_BAD_RANGE;
        goto done;
    }

    *capacity = (uint32_t) value;

done:

    cJSON_Delete(root);

    return rc;
}


static wq_rc_t
wq_capacity_find(const cJSON *object, const wq_str_t *field,
    const cJSON **number)
{
    char    name[WQ_CAPACITY_FIELD_MAX + 1];
    size_t  i, start;

    start = 0;

    for (i = 0; i <= field->len; i++) {

        if (i < field->len && field->data[i] != '.') {
            continue;
        }

        if (i - start > WQ_CAPACITY_FIELD_MAX) {
            return WQ_MISSING;
        }

        memcpy(name, field->data + start, i - start);
        name[i - start] = '\0';

        if (!cJSON_IsObject(object)) {
            return WQ_MISSING;
        }

        object = cJSON_GetObjectItemCaseSensitive(object, name);
        if (object == NULL) {
            return WQ_MISSING;
        }

        start = i + 1;
    }

    if (!cJSON_IsNumber(object)) {
        return WQ_BAD_TYPE;
    }

    *number = object;

    return WQ_OK;
}


/* cJSON takes every control character for a blank, even a zero */

static unsigned
wq_capacity_text(const u_char *p, const u_char *last)
{
    while (p < last) {
        if (*p < 0x20 && *p != '\t' && *p != '\r' && *p != '\n') {
            return 0;
        }

        p++;
    }

    return 1;
}


static unsigned
wq_capacity_blank(const u_char *p, const u_char *last)
{
    while (p < last) {
        if (*p != ' ' && *p != '\t' && *p != '\r' && *p != '\n') {
            return 0;
        }

        p++;
    }

    return 1;
}
