
/*
 * fuzz: any text and any field.  A number is given only for JSON from its first
 * byte to its last, and is the one that strtod() reads; what stands around it,
 * and how deep it stands, changes nothing.
 */


#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wq_capacity.h"


#define UNTOUCHED  0xfeedface

#define BLANKS     " \t\r\n"


int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);


static void
require(int condition)
{
    if (!condition) {
        abort();
    }
}


/* each in memory of its own size */

static wq_rc_t
parse(const char *before, const uint8_t *text, size_t len, const char *after,
    size_t after_len, const wq_str_t *field, uint32_t *capacity)
{
    u_char   *p;
    size_t    n;
    wq_rc_t   rc;
    wq_str_t  name;

    n = strlen(before);
    p = malloc(n + len + after_len);
    memcpy(p, before, n);

    if (len > 0) {
        memcpy(p + n, text, len);
    }

    memcpy(p + n + len, after, after_len);

    name.len = field->len;
    name.data = malloc(field->len);

    if (field->len > 0) {
        memcpy(name.data, field->data, field->len);
    }

    *capacity = UNTOUCHED;
    rc = wq_capacity_parse(p, n + len + after_len, &name, capacity);

    free(name.data);
    free(p);

    switch (rc) {

    case WQ_OK:
        require(*capacity <= WQ_CAPACITY_MAX);
        break;

    case WQ_BAD_CHARACTER:
    case WQ_MISSING:
    case WQ_BAD_TYPE:
    case WQ_BAD_RANGE:
        require(*capacity == UNTOUCHED);
        break;

    default:
        abort();
    }

    return rc;
}


static void
check_field(const wq_str_t *field)
{
    size_t   i;
    u_char  *copy;
    wq_rc_t  want;

    want = WQ_OK;

    if (field->len == 0 || field->data[0] == '.'
        || field->data[field->len - 1] == '.')
    {
        want = WQ_EMPTY;
    }

    for (i = 1; i < field->len; i++) {
        if (field->data[i - 1] == '.' && field->data[i] == '.') {
            want = WQ_EMPTY;
        }
    }

    if (field->len > WQ_CAPACITY_FIELD_MAX) {
        want = WQ_TOO_LONG;
    }

    copy = malloc(field->len);

    if (field->len > 0) {
        memcpy(copy, field->data, field->len);
    }

    require(wq_capacity_check_field(copy, field->len) == want);

    free(copy);
}


/* the same text in other surroundings */

static void
check_text(const uint8_t *text, size_t len, const wq_str_t *field)
{
    int        control;
    size_t     i;
    u_char     name[2 + 2 * WQ_CAPACITY_FIELD_MAX];
    wq_rc_t    rc, again;
    uint32_t   capacity, other;
    wq_str_t   deeper;

    control = 0;

    for (i = 0; i < len; i++) {
        control |= text[i] < 0x20 && memchr("\t\r\n", text[i], 3) == NULL;
    }

    rc = parse("", text, len, "", 0, field, &capacity);

    require(!control || rc == WQ_BAD_CHARACTER);
    require(len > 0 || rc == WQ_BAD_CHARACTER);
    require(parse("", text, len, "\0", 1, field, &other) == WQ_BAD_CHARACTER);

    if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
        /* a mark of the byte order is allowed at the very beginning only */
        return;
    }

    again = parse(BLANKS, text, len, BLANKS, 4, field, &other);
    require(again == rc && other == capacity);

    if (rc == WQ_BAD_CHARACTER) {
        return;
    }

    require(parse("", text, len, "x", 1, field, &other) == WQ_BAD_CHARACTER);
    require(parse("", text, len, "{}", 2, field, &other) == WQ_BAD_CHARACTER);
    require(parse("x", text, len, "", 0, field, &other) == WQ_BAD_CHARACTER);

    /* or it is too deep by one now */

    again = parse("[", text, len, "]", 1, field, &other);
    require(again == WQ_MISSING || again == WQ_BAD_CHARACTER);

    if (field->len > WQ_CAPACITY_FIELD_MAX) {
        return;
    }

    name[0] = 'w';
    name[1] = '.';

    if (field->len > 0) {
        memcpy(name + 2, field->data, field->len);
    }

    deeper.data = name;
    deeper.len = 2 + field->len;

    again = parse("{\"v\":0,\"w\":", text, len, ",\"w\":1}", 7, &deeper,
                  &other);
    require(again == WQ_BAD_CHARACTER || (again == rc && other == capacity));

    deeper.len = 1;

    again = parse("{\"v\":0,\"w\":", text, len, ",\"w\":1}", 7, &deeper,
                  &other);
    require(again != WQ_MISSING);
}


/* -? (0 | [1-9][0-9]*) (\.[0-9]+)? ([eE][+-]?[0-9]+)? */

static size_t
digits(const char *p)
{
    return strspn(p, "0123456789");
}


static int
is_number(const char *p)
{
    size_t  n;

    p += *p == '-';
    n = digits(p);

    if (n == 0 || (n > 1 && *p == '0')) {
        return 0;
    }

    p += n;

    if (*p == '.') {
        n = digits(p + 1);

        if (n == 0) {
            return 0;
        }

        p += 1 + n;
    }

    if (*p == 'e' || *p == 'E') {
        p++;
        p += *p == '+' || *p == '-';
        n = digits(p);

        if (n == 0) {
            return 0;
        }

        p += n;
    }

    return *p == '\0';
}


static void
check_number(const uint8_t *data, size_t size)
{
    char       text[64];
    double     value;
    wq_rc_t    rc;
    wq_str_t   field;
    uint32_t   capacity;

    if (size >= sizeof(text)) {
        return;
    }

    memcpy(text, data, size);
    text[size] = '\0';

    if (strlen(text) != size || !is_number(text)) {
        return;
    }

    field.len = 9;
    field.data = (u_char *) "seatCount";

    rc = parse("{\"seatCount\":", data, size, "}", 1, &field, &capacity);
    value = strtod(text, NULL);

    if (value < 0 || value > WQ_CAPACITY_MAX
        || value != (double) (int64_t) value)
    {
        require(rc == WQ_BAD_RANGE);
        return;
    }

    require(rc == WQ_OK && capacity == (uint32_t) value);
}


/* the input: a field, up to the first newline, then a text; and a number */

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    wq_str_t        field;
    const uint8_t  *line;

    check_number(data, size);

    field.data = (u_char *) data;
    field.len = size;

    line = size > 0 ? memchr(data, '\n', size) : NULL;

    if (line) {
        field.len = (size_t) (line - data);
        check_field(&field);

        data += field.len + 1;
        size -= field.len + 1;

        /* a zero would end a name, and is in no configuration */

        if (field.len == 0 || memchr(field.data, '\0', field.len) == NULL) {
            check_text(data, size, &field);
        }

        return 0;
    }

    check_field(&field);

    field.len = 9;
    field.data = (u_char *) "seatCount";

    check_text(data, size, &field);

    return 0;
}
