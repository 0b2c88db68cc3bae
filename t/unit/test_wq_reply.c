
/*
 * unit tests: replies, good and hostile.
 *
 * The reader below stops the program where the decoder asks a node for what
 * the node is not, or for an element that it does not have.
 */


#include <assert.h>

#include "unit.h"
#include "wq_reply.h"


typedef struct node_s  node_t;

struct node_s {
    wq_reply_type_e    type;
    int64_t            integer;
    wq_str_t           string;
    size_t             elements;
    const node_t     **element;
    size_t             real;        /* what is behind this reads as NULL */
};


static wq_reply_type_e
node_type(const void *p)
{
    assert(p != NULL);

    return ((const node_t *) p)->type;
}


static int64_t
node_integer(const void *p)
{
    const node_t  *node = p;

    assert(node != NULL && node->type == WQ_REPLY_INTEGER);

    return node->integer;
}


static wq_str_t
node_string(const void *p)
{
    const node_t  *node = p;

    assert(node != NULL);
    assert(node->type == WQ_REPLY_STRING || node->type == WQ_REPLY_ERROR);

    return node->string;
}


static size_t
node_elements(const void *p)
{
    const node_t  *node = p;

    assert(node != NULL && node->type == WQ_REPLY_ARRAY);

    return node->elements;
}


static const void *
node_element(const void *p, size_t i)
{
    const node_t  *node = p;

    assert(node != NULL && node->type == WQ_REPLY_ARRAY);
    assert(i < node->elements);

    return i < node->real ? node->element[i] : NULL;
}


static const wq_reply_reader_t  reader = {
    node_type, node_integer, node_string, node_elements, node_element
};


static wq_reply_t
reply(const node_t *node)
{
    wq_reply_t  out;

    out.reader = &reader;
    out.node = node;

    return out;
}


static node_t
simple(wq_reply_type_e type)
{
    node_t  node;

    memset(&node, 0, sizeof(node));
    node.type = type;

    return node;
}


static node_t
integer(int64_t value)
{
    node_t  node;

    node = simple(WQ_REPLY_INTEGER);
    node.integer = value;

    return node;
}


static node_t
string(const char *text)
{
    node_t  node;

    node = simple(WQ_REPLY_STRING);
    node.string.data = (u_char *) text;
    node.string.len = strlen(text);

    return node;
}


static node_t
array(const node_t **element, size_t n)
{
    node_t  node;

    node = simple(WQ_REPLY_ARRAY);
    node.element = element;
    node.elements = n;
    node.real = n;

    return node;
}


typedef struct {
    u_char      before[16];
    int64_t     rank;
    wq_str_t    token;
    wq_reply_t  gone;
    int64_t     total;
    u_char      after[16];
} out_t;


static const wq_field_t  fields[] = {
    { "rank", WQ_FIELD_INTEGER, 0, 0, 1000, offsetof(out_t, rank) },
    { "token", WQ_FIELD_STRING, 1, 2, 8, offsetof(out_t, token) },
    { "gone", WQ_FIELD_ARRAY, 1, 0, 3, offsetof(out_t, gone) },
    { "total", WQ_FIELD_INTEGER, 1, -5, INT64_MAX, offsetof(out_t, total) }
};


static int
guards(const out_t *out)
{
    size_t  i;

    for (i = 0; i < sizeof(out->before); i++) {
        if (out->before[i] != 0xee || out->after[i] != 0xee) {
            return 0;
        }
    }

    return 1;
}


static void
test_decode(void)
{
    node_t         rank, token, gone, total, all, more;
    out_t          out;
    wq_rc_t        rc;
    const char    *bad;
    const node_t  *list[5], *ids[2];

    rank = integer(16);
    token = string("secret");
    total = string("420");
    more = simple(WQ_REPLY_ERROR);

    ids[0] = &rank;
    ids[1] = &total;
    gone = array(ids, 2);

    list[0] = &rank;
    list[1] = &token;
    list[2] = &gone;
    list[3] = &total;
    list[4] = &more;
    all = array(list, 4);

    memset(&out, 0xee, sizeof(out));
    bad = NULL;
    rc = wq_reply_decode(reply(&all), fields, 4, &out, &bad);

    unit_ok(rc == WQ_OK && bad == NULL, "a good reply");
    unit_ok(out.rank == 16, "an integer");
    unit_ok(out.total == 420, "an integer in a string");
    unit_ok(out.token.len == 6 && out.token.data == token.string.data,
            "a string, borrowed");
    unit_ok(out.gone.node == &gone && out.gone.reader == &reader, "an array");
    unit_ok(wq_reply_elements(out.gone) == 2
            && wq_reply_type(wq_reply_element(out.gone, 0))
               == WQ_REPLY_INTEGER
            && wq_reply_type(wq_reply_element(out.gone, 1)) == WQ_REPLY_STRING
            && wq_reply_string(wq_reply_element(out.gone, 1)).len == 3,
            "the array can be walked");
    unit_ok(guards(&out), "nothing else is written");

    all = array(list, 5);
    unit_ok(wq_reply_decode(reply(&all), fields, 4, &out, &bad) == WQ_OK,
            "further elements are not read");

    unit_ok(wq_reply_decode(reply(&all), fields, 0, &out, &bad) == WQ_OK,
            "no fields are found in any array");

    unit_ok(wq_reply_decode(reply(&all), fields, 4, &out, NULL) == WQ_OK,
            "a good reply needs no place for a name");
}


static void
test_nil(void)
{
    node_t         rank, nil, all;
    out_t          out;
    wq_rc_t        rc;
    const char    *bad;
    const node_t  *list[4];

    rank = integer(1);
    nil = simple(WQ_REPLY_NIL);

    list[0] = &rank;
    list[1] = &nil;
    list[2] = NULL;
    list[3] = &nil;
    all = array(list, 4);

    memset(&out, 0xee, sizeof(out));
    rc = wq_reply_decode(reply(&all), fields, 4, &out, &bad);

    unit_ok(rc == WQ_OK && guards(&out), "nil where it is allowed");
    unit_ok(out.token.len == 0 && out.token.data == NULL, "a nil string");
    unit_ok(out.gone.node == NULL, "a nil array");
    unit_ok(wq_reply_elements(out.gone) == 0
            && wq_reply_element(out.gone, 0).node == NULL,
            "a nil array can be walked");
    unit_ok(out.total == WQ_FIELD_NIL_INTEGER, "a nil integer");

    list[0] = &nil;
    rc = wq_reply_decode(reply(&all), fields, 4, &out, &bad);
    unit_ok(rc == WQ_MISSING && strcmp(bad, "rank") == 0,
            "nil where it is not allowed");

    list[0] = NULL;
    rc = wq_reply_decode(reply(&all), fields, 4, &out, &bad);
    unit_ok(rc == WQ_MISSING && strcmp(bad, "rank") == 0,
            "an element that is NULL reads as nil");
}


static void
test_no_array(void)
{
    size_t       i;
    node_t       node;
    out_t        out;
    wq_rc_t      rc;
    const char  *bad;

    static const struct {
        wq_reply_type_e   type;
        wq_rc_t           rc;
        const char       *name;
    } rows[] = {
        { WQ_REPLY_NIL, WQ_MISSING, "nil" },
        { WQ_REPLY_INTEGER, WQ_BAD_TYPE, "an integer" },
        { WQ_REPLY_STRING, WQ_BAD_TYPE, "a string" },
        { WQ_REPLY_ERROR, WQ_BAD_TYPE, "an error" },
        { WQ_REPLY_UNKNOWN, WQ_BAD_TYPE, "something unknown" },
        { (wq_reply_type_e) 77, WQ_BAD_TYPE, "a type that does not exist" }
    };

    for (i = 0; i < unit_nitems(rows); i++) {
        node = simple(rows[i].type);
        bad = NULL;

        rc = wq_reply_decode(reply(&node), fields, 4, &out, &bad);

        unit_ok(rc == rows[i].rc && bad != NULL && strcmp(bad, "reply") == 0,
                "%s in place of the array", rows[i].name);

        rc = wq_reply_decode(reply(&node), fields, 0, &out, NULL);

        unit_ok(rc == rows[i].rc, "%s, where nothing is asked", rows[i].name);
    }

    bad = NULL;
    rc = wq_reply_decode(reply(NULL), fields, 4, &out, &bad);
    unit_ok(rc == WQ_MISSING && strcmp(bad, "reply") == 0,
            "no reply at all");
}


static void
test_short(void)
{
    size_t         n;
    node_t         rank, token, gone, all;
    out_t          out;
    wq_rc_t        rc;
    const char    *bad;
    const node_t  *list[4];

    rank = integer(1);
    token = string("ab");
    gone = array(NULL, 0);

    list[0] = &rank;
    list[1] = &token;
    list[2] = &gone;
    list[3] = &rank;

    for (n = 0; n < 4; n++) {
        all = array(list, n);
        rc = wq_reply_decode(reply(&all), fields, 4, &out, &bad);

        unit_ok(rc == WQ_MISSING && strcmp(bad, fields[n].name) == 0,
                "a reply cut after %zu of 4", n);
    }

    all = array(list, 4);
    unit_ok(wq_reply_decode(reply(&all), fields, 4, &out, &bad) == WQ_OK,
            "the whole of it");

    /* the first that is wrong is named */

    rank = integer(-1);
    all = array(list, 1);
    rc = wq_reply_decode(reply(&all), fields, 4, &out, &bad);
    unit_ok(rc == WQ_BAD_RANGE && strcmp(bad, "rank") == 0,
            "a wrong field comes before a missing one");
}


static void
test_wrong_type(void)
{
    size_t         i, j;
    node_t         nodes[6], all, good[4];
    out_t          out;
    wq_rc_t        rc;
    const char    *bad;
    const node_t  *list[4];

    static const char *const  types[] = {
        "an integer", "a string of letters", "an array", "an error",
        "something unknown", "a type that does not exist"
    };

    /* which of these is no wrong type for the field */

    static const int  right[] = { 0, 1, 2, 0 };

    nodes[0] = integer(7);
    nodes[1] = string("abc");
    nodes[2] = array(NULL, 0);
    nodes[3] = string("5");
    nodes[3].type = WQ_REPLY_ERROR;
    nodes[4] = simple(WQ_REPLY_UNKNOWN);
    nodes[5] = simple((wq_reply_type_e) -1);

    good[0] = integer(1);
    good[1] = string("ab");
    good[2] = array(NULL, 0);
    good[3] = integer(1);

    for (i = 0; i < 4; i++) {
        for (j = 0; j < 6; j++) {
            list[0] = &good[0];
            list[1] = &good[1];
            list[2] = &good[2];
            list[3] = &good[3];
            list[i] = &nodes[j];
            all = array(list, 4);
            bad = NULL;

            rc = wq_reply_decode(reply(&all), fields, 4, &out, &bad);

            if ((int) j == right[i]) {
                unit_ok(rc == WQ_OK, "%s as %s", types[j], fields[i].name);
                continue;
            }

            unit_ok(rc == WQ_BAD_TYPE && bad != NULL
                    && strcmp(bad, fields[i].name) == 0,
                    "%s as %s", types[j], fields[i].name);
        }
    }
}


static void
test_integer_text(void)
{
    u_char      *copy;
    size_t       i;
    node_t       node;
    int64_t      value;
    wq_rc_t      rc;
    wq_field_t   field;

    static const struct {
        const char  *text;
        wq_rc_t      rc;
        int64_t      value;
    } rows[] = {
        { "0", WQ_OK, 0 },
        { "1", WQ_OK, 1 },
        { "-1", WQ_OK, -1 },
        { "10", WQ_OK, 10 },
        { "1234567890", WQ_OK, 1234567890 },
        { "4294967296", WQ_OK, 4294967296 },
        { "9223372036854775806", WQ_OK, INT64_MAX - 1 },
        { "9223372036854775807", WQ_OK, INT64_MAX },
        { "-9223372036854775807", WQ_OK, INT64_MIN + 1 },
        { "-9223372036854775808", WQ_OK, INT64_MIN },
        { "9223372036854775808", WQ_BAD_RANGE, 0 },
        { "-9223372036854775809", WQ_BAD_RANGE, 0 },
        { "9223372036854775810", WQ_BAD_RANGE, 0 },
        { "18446744073709551616", WQ_BAD_RANGE, 0 },
        { "18446744073709551617", WQ_BAD_RANGE, 0 },
        { "99999999999999999999", WQ_BAD_RANGE, 0 },
        { "-99999999999999999999999999999999", WQ_BAD_RANGE, 0 },
        { "", WQ_BAD_TYPE, 0 },
        { "-", WQ_BAD_TYPE, 0 },
        { "--1", WQ_BAD_TYPE, 0 },
        { "+1", WQ_BAD_TYPE, 0 },
        { "-0", WQ_BAD_TYPE, 0 },
        { "00", WQ_BAD_TYPE, 0 },
        { "01", WQ_BAD_TYPE, 0 },
        { "-01", WQ_BAD_TYPE, 0 },
        { "0x10", WQ_BAD_TYPE, 0 },
        { " 1", WQ_BAD_TYPE, 0 },
        { "1 ", WQ_BAD_TYPE, 0 },
        { "1\n", WQ_BAD_TYPE, 0 },
        { "1.0", WQ_BAD_TYPE, 0 },
        { "1e3", WQ_BAD_TYPE, 0 },
        { "1,000", WQ_BAD_TYPE, 0 },
        { "1/", WQ_BAD_TYPE, 0 },
        { "1:", WQ_BAD_TYPE, 0 },
        { "nan", WQ_BAD_TYPE, 0 },
        { "inf", WQ_BAD_TYPE, 0 },
        { "true", WQ_BAD_TYPE, 0 },
        { "\xd9\xa1", WQ_BAD_TYPE, 0 }
    };

    memset(&field, 0, sizeof(field));
    field.name = "n";
    field.type = WQ_FIELD_INTEGER;
    field.min = INT64_MIN;
    field.max = INT64_MAX;

    for (i = 0; i < unit_nitems(rows); i++) {
        node = string(rows[i].text);
        copy = unit_copy(rows[i].text, node.string.len);
        node.string.data = copy;
        value = 99;

        rc = wq_reply_decode_value(reply(&node), &field, &value);

        unit_ok(rc == rows[i].rc && (rc != WQ_OK || value == rows[i].value),
                "\"%s\" as an integer", rows[i].text);

        free(copy);
    }

    node = string("1");
    node.string.len = 2;
    unit_ok(wq_reply_decode_value(reply(&node), &field, &value) == WQ_BAD_TYPE,
            "a zero behind a digit");

    node.string.data = NULL;
    unit_ok(wq_reply_decode_value(reply(&node), &field, &value) == WQ_BAD_TYPE,
            "a string without data");

    copy = unit_copy("99999999999999999999", 20);
    node.string.data = copy;
    node.string.len = SIZE_MAX;
    unit_ok(wq_reply_decode_value(reply(&node), &field, &value)
            == WQ_BAD_RANGE,
            "of a huge string only the first digits are read");
    free(copy);
}


static void
test_integer_range(void)
{
    size_t      i;
    node_t      node;
    char        text[32];
    int64_t     value;
    wq_rc_t     rc;
    wq_field_t  field;

    static const struct {
        int64_t  min, max, value;
        wq_rc_t  rc;
    } rows[] = {
        { 0, 10, 0, WQ_OK },
        { 0, 10, 10, WQ_OK },
        { 0, 10, -1, WQ_BAD_RANGE },
        { 0, 10, 11, WQ_BAD_RANGE },
        { -3, -2, -3, WQ_OK },
        { -3, -2, -1, WQ_BAD_RANGE },
        { -3, -2, -4, WQ_BAD_RANGE },
        { 5, 5, 5, WQ_OK },
        { 5, 4, 5, WQ_BAD_RANGE },
        { 0, INT64_MAX, INT64_MAX, WQ_OK },
        { 0, INT64_MAX, INT64_MIN, WQ_BAD_RANGE },
        { INT64_MIN, INT64_MAX, INT64_MIN, WQ_OK },
        { INT64_MIN, 0, INT64_MAX, WQ_BAD_RANGE }
    };

    memset(&field, 0, sizeof(field));
    field.name = "n";
    field.type = WQ_FIELD_INTEGER;

    for (i = 0; i < unit_nitems(rows); i++) {
        field.min = rows[i].min;
        field.max = rows[i].max;

        node = integer(rows[i].value);
        value = 99;
        rc = wq_reply_decode_value(reply(&node), &field, &value);

        unit_ok(rc == rows[i].rc && (rc != WQ_OK || value == rows[i].value),
                "%lld between %lld and %lld", (long long) rows[i].value,
                (long long) rows[i].min, (long long) rows[i].max);

        snprintf(text, sizeof(text), "%lld", (long long) rows[i].value);
        node = string(text);
        rc = wq_reply_decode_value(reply(&node), &field, &value);

        unit_ok(rc == rows[i].rc && (rc != WQ_OK || value == rows[i].value),
                "the same as a string");
    }
}


static void
test_size_range(void)
{
    size_t      i;
    node_t      node;
    wq_str_t    s;
    wq_reply_t  r;
    wq_field_t  field;

    static const struct {
        int64_t  min, max;
        size_t   size;
        wq_rc_t  rc;
    } rows[] = {
        { 2, 8, 1, WQ_BAD_RANGE },
        { 2, 8, 2, WQ_OK },
        { 2, 8, 8, WQ_OK },
        { 2, 8, 9, WQ_BAD_RANGE },
        { 0, 0, 0, WQ_OK },
        { 0, 0, 1, WQ_BAD_RANGE },
        { 1, 8, 0, WQ_BAD_RANGE },
        { -1, 8, 0, WQ_OK },
        { -9, -1, 0, WQ_BAD_RANGE },
        { 0, 512 * 1024 * 1024, 512 * 1024 * 1024, WQ_OK },
        { 0, UINT32_MAX, (size_t) UINT32_MAX + 1, WQ_BAD_RANGE },
        { 0, INT64_MAX, INT64_MAX, WQ_OK },
        { 0, INT64_MAX, (size_t) INT64_MAX + 1, WQ_BAD_RANGE },
        { INT64_MIN, INT64_MAX, (size_t) INT64_MAX + 1, WQ_BAD_RANGE },
        { INT64_MIN, INT64_MAX, SIZE_MAX, WQ_BAD_RANGE },
        { -1, -1, SIZE_MAX, WQ_BAD_RANGE }
    };

    memset(&field, 0, sizeof(field));
    field.name = "s";

    for (i = 0; i < unit_nitems(rows); i++) {
        field.min = rows[i].min;
        field.max = rows[i].max;

        field.type = WQ_FIELD_STRING;
        node = string("x");
        node.string.len = rows[i].size;

        unit_ok(wq_reply_decode_value(reply(&node), &field, &s) == rows[i].rc
                && (rows[i].rc != WQ_OK || s.len == rows[i].size),
                "a string of %zu between %lld and %lld", rows[i].size,
                (long long) rows[i].min, (long long) rows[i].max);

        field.type = WQ_FIELD_ARRAY;
        node = array(NULL, rows[i].size);
        node.real = 0;

        unit_ok(wq_reply_decode_value(reply(&node), &field, &r) == rows[i].rc
                && (rows[i].rc != WQ_OK || r.node == &node),
                "an array of %zu between %lld and %lld", rows[i].size,
                (long long) rows[i].min, (long long) rows[i].max);
    }
}


static void
test_strings(void)
{
    node_t      node;
    wq_str_t    s;
    wq_field_t  field;

    memset(&field, 0, sizeof(field));
    field.name = "s";
    field.type = WQ_FIELD_STRING;
    field.nil_allowed = 1;
    field.max = 100;

    node = string("");
    unit_ok(wq_reply_decode_value(reply(&node), &field, &s) == WQ_OK
            && s.len == 0 && s.data != NULL,
            "an empty string is not nil");

    node.string.data = NULL;
    unit_ok(wq_reply_decode_value(reply(&node), &field, &s) == WQ_OK
            && s.len == 0 && s.data != NULL,
            "not even if it has no data");

    node.string.len = 5;
    unit_ok(wq_reply_decode_value(reply(&node), &field, &s) == WQ_BAD_TYPE,
            "a length without data is refused");
    unit_ok(wq_reply_string(reply(&node)).len == 0,
            "and reads as empty");

    node = string("OOM no");
    node.type = WQ_REPLY_ERROR;
    unit_ok(wq_reply_string(reply(&node)).len == 6, "the text of an error");

    node = integer(5);
    s = wq_reply_string(reply(&node));
    unit_ok(s.len == 0 && s.data == NULL, "an integer has no string");

    s = wq_reply_string(reply(NULL));
    unit_ok(s.len == 0 && s.data == NULL, "nil has no string");
}


static void
test_walk(void)
{
    size_t         i;
    node_t         node, one, outer;
    wq_reply_t     r;
    const node_t  *list[2];

    static const wq_reply_type_e  types[] = {
        WQ_REPLY_NIL, WQ_REPLY_INTEGER, WQ_REPLY_STRING, WQ_REPLY_ERROR,
        WQ_REPLY_UNKNOWN
    };

    for (i = 0; i < unit_nitems(types); i++) {
        node = simple(types[i]);

        unit_ok(wq_reply_type(reply(&node)) == types[i]
                && wq_reply_elements(reply(&node)) == 0
                && wq_reply_element(reply(&node), 0).node == NULL,
                "type %u has no elements", (unsigned) types[i]);
    }

    node = simple((wq_reply_type_e) 1000);
    unit_ok(wq_reply_type(reply(&node)) == WQ_REPLY_UNKNOWN,
            "a type that does not exist is unknown");

    memset(&r, 0, sizeof(r));
    unit_ok(wq_reply_type(r) == WQ_REPLY_NIL && wq_reply_elements(r) == 0
            && wq_reply_element(r, 3).node == NULL,
            "a reply of zeros is nil");

    one = integer(1);
    list[0] = &one;
    list[1] = NULL;
    node = array(list, 2);

    unit_ok(wq_reply_element(reply(&node), 0).node == &one,
            "the first element");
    unit_ok(wq_reply_type(wq_reply_element(reply(&node), 1)) == WQ_REPLY_NIL,
            "an element that is NULL");
    unit_ok(wq_reply_element(reply(&node), 2).node == NULL
            && wq_reply_element(reply(&node), SIZE_MAX).node == NULL,
            "an element that is not there");

    list[1] = &node;
    outer = array(list, 2);
    r = reply(&outer);

    /* node's second element is node itself: as deep as anyone likes to look */

    for (i = 0; i < 1000; i++) {
        r = wq_reply_element(r, 1);
    }

    unit_ok(r.node == &node && wq_reply_elements(r) == 2,
            "a nested reply is walked no deeper than asked");
}


static void
test_nested(void)
{
    int            good;
    size_t         i;
    node_t         idx[3], rows[3], all;
    out_t          out;
    wq_rc_t        rc;
    const char    *bad;
    const node_t  *cells[3][1], *list[3];

    static const wq_field_t  outer = {
        "rows", WQ_FIELD_ARRAY, 0, 0, 10, offsetof(out_t, gone)
    };

    good = 1;

    for (i = 0; i < 3; i++) {
        idx[i] = integer((int64_t) i * 10);
        cells[i][0] = &idx[i];
        rows[i] = array(cells[i], 1);
        list[i] = &rows[i];
    }

    all = array(list, 3);

    unit_ok(wq_reply_decode_value(reply(&all), &outer, &out) == WQ_OK,
            "an array outside an array");

    for (i = 0; i < 3; i++) {
        rc = wq_reply_decode(wq_reply_element(out.gone, i), fields, 1, &out,
                             &bad);
        good &= rc == WQ_OK && out.rank == (int64_t) i * 10;
    }

    unit_ok(good, "its elements are decoded in turn");

    rc = wq_reply_decode(wq_reply_element(out.gone, 3), fields, 1, &out, &bad);
    unit_ok(rc == WQ_MISSING && strcmp(bad, "reply") == 0,
            "one element too far");

    rc = wq_reply_decode(reply(&all), fields, 1, &out, &bad);
    unit_ok(rc == WQ_BAD_TYPE && strcmp(bad, "rank") == 0,
            "an array where an integer is expected");
}


static void
test_no_field_type(void)
{
    node_t      node;
    int64_t     value;
    wq_field_t  field;

    memset(&field, 0, sizeof(field));
    field.name = "x";
    field.type = (wq_field_type_e) 9;
    field.max = 9;

    node = integer(1);
    unit_ok(wq_reply_decode_value(reply(&node), &field, &value) == WQ_BAD_TYPE,
            "a field of a type that does not exist");
}


int
main(void)
{
    test_decode();
    test_nil();
    test_no_array();
    test_short();
    test_wrong_type();
    test_integer_text();
    test_integer_range();
    test_size_range();
    test_strings();
    test_walk();
    test_nested();
    test_no_field_type();

    return unit_done();
}
