
/*
 * fuzz: a tree of replies is built from the input, with lengths that lie, and
 * decoded with several tables.  The result must be what a second, plain reading
 * of the contract says.
 *
 * The reader stops the program where it is asked for what a node is not.
 */


#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wq_reply.h"


#define MAX_NODES     256
#define MAX_ELEMENTS  16
#define MAX_DEPTH     6


int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);


typedef struct node_s  node_t;

struct node_s {
    int         type;
    int64_t     integer;
    wq_str_t    string;
    u_char     *memory;         /* of the string, exactly as long as it is */
    unsigned    lies;           /* the length is more than the memory */
    size_t      elements;
    size_t      real;
    node_t     *element[MAX_ELEMENTS];
};


typedef struct {
    const uint8_t  *data;
    size_t          size;
} input_t;


typedef struct {
    u_char      before[8];
    int64_t     a;
    wq_str_t    b;
    wq_reply_t  c;
    int64_t     d;
    wq_str_t    e;
    u_char      after[8];
} out_t;


static node_t  nodes[MAX_NODES];
static size_t  used;


static void
require(int condition)
{
    if (!condition) {
        abort();
    }
}


static wq_reply_type_e
node_type(const void *p)
{
    require(p != NULL);

    return (wq_reply_type_e) ((const node_t *) p)->type;
}


static int64_t
node_integer(const void *p)
{
    const node_t  *node = p;

    require(node != NULL && node->type == WQ_REPLY_INTEGER);

    return node->integer;
}


static wq_str_t
node_string(const void *p)
{
    const node_t  *node = p;

    require(node != NULL);
    require(node->type == WQ_REPLY_STRING || node->type == WQ_REPLY_ERROR);

    return node->string;
}


static size_t
node_elements(const void *p)
{
    const node_t  *node = p;

    require(node != NULL && node->type == WQ_REPLY_ARRAY);

    return node->elements;
}


static const void *
node_element(const void *p, size_t i)
{
    const node_t  *node = p;

    require(node != NULL && node->type == WQ_REPLY_ARRAY);
    require(i < node->elements);

    return i < node->real ? node->element[i] : NULL;
}


static const wq_reply_reader_t  reader = {
    node_type, node_integer, node_string, node_elements, node_element
};


static unsigned
byte(input_t *in)
{
    if (in->size == 0) {
        return 0;
    }

    in->size--;

    return *in->data++;
}


static uint64_t
word(input_t *in)
{
    int       i;
    uint64_t  n;

    static const uint64_t  special[] = {
        0, 1, INT64_MAX, (uint64_t) INT64_MAX + 1, UINT64_MAX, UINT32_MAX,
        (uint64_t) UINT32_MAX + 1, (uint64_t) INT64_MAX - 1
    };

    i = (int) byte(in);

    if (i < 128) {
        return special[i % 8];
    }

    for (n = 0, i = i % 8 + 1; i > 0; i--) {
        n = n << 8 | byte(in);
    }

    return n;
}


static void
build_string(input_t *in, node_t *node)
{
    size_t    i;
    unsigned  kind;
    char      text[32];

    kind = byte(in);

    switch (kind % 4) {

    case 0:
        /* any bytes */

        node->string.len = byte(in) % 40;
        node->memory = malloc(node->string.len);

        for (i = 0; i < node->string.len; i++) {
            node->memory[i] = (u_char) byte(in);
        }

        break;

    case 1:
        /* a number, perhaps with one byte changed */

        node->string.len = (size_t) snprintf(text, sizeof(text),
                               (kind & 8) ? "%lld" : "%llu",
                               (unsigned long long) word(in));
        node->memory = malloc(node->string.len);
        memcpy(node->memory, text, node->string.len);

        if (kind & 16) {
            i = byte(in) % node->string.len;
            node->memory[i] = (u_char) byte(in);
        }

        break;

    case 2:
        /* digits, and a length that lies: no more than these may be read */

        node->memory = malloc(21);
        memset(node->memory, '9', 21);

        if (kind & 8) {
            node->memory[0] = '-';
        }

        node->string.len = (size_t) word(in) | ((size_t) 1 << 32);
        node->lies = 1;
        break;

    default:
        /* no data */

        node->string.len = (kind & 8) ? (size_t) word(in) : 0;
        break;
    }

    node->string.data = node->memory;
}


static node_t *
build(input_t *in, unsigned depth)
{
    size_t     i;
    node_t    *node;
    unsigned   kind;

    kind = byte(in);

    if (used == MAX_NODES || kind % 8 == 7) {
        return NULL;
    }

    node = &nodes[used++];
    memset(node, 0, sizeof(node_t));
    node->type = (int) (kind % 8);

    switch (node->type) {

    case WQ_REPLY_INTEGER:
        node->integer = (int64_t) word(in);
        break;

    case WQ_REPLY_STRING:
    case WQ_REPLY_ERROR:
        build_string(in, node);
        break;

    case WQ_REPLY_ARRAY:

        if (depth < MAX_DEPTH) {
            node->real = byte(in) % MAX_ELEMENTS;
        }

        node->elements = node->real;

        for (i = 0; i < node->real; i++) {
            node->element[i] = build(in, depth + 1);
        }

        if (kind & 64) {
            node->elements = (size_t) word(in);

            if (node->elements < node->real) {
                node->real = node->elements;
            }
        }

        break;

    case 6:
        node->type = (int) byte(in) - 128;

        if (node->type >= 0 && node->type < WQ_REPLY_UNKNOWN) {
            node->type = -1;
        }

        break;
    }

    return node;
}


/* a number has one form: the one that the C library prints */

static wq_rc_t
expected_integer(const node_t *node, int64_t *value)
{
    char       text[24], again[24], *end;
    size_t     i;
    long long  n;

    if (node->type == WQ_REPLY_INTEGER) {
        *value = node->integer;
        return WQ_OK;
    }

    if (node->type != WQ_REPLY_STRING || node->string.data == NULL) {
        return WQ_BAD_TYPE;
    }

    if (node->lies) {
        return WQ_BAD_RANGE;
    }

    if (node->string.len < sizeof(text)) {
        memcpy(text, node->string.data, node->string.len);
        text[node->string.len] = '\0';

        n = strtoll(text, &end, 10);
        snprintf(again, sizeof(again), "%lld", n);

        if (strlen(again) == node->string.len
            && memcmp(text, again, node->string.len) == 0)
        {
            *value = n;
            return WQ_OK;
        }
    }

    /* the right form but too large; or which of both errors is not asked */

    for (i = 0; i < node->string.len; i++) {
        if ((node->string.data[i] < '0' || node->string.data[i] > '9')
            && (i > 0 || node->string.data[i] != '-'))
        {
            return node->string.len > 18 ? WQ_MISSING : WQ_BAD_TYPE;
        }
    }

    i = (node->string.len > 0 && node->string.data[0] == '-');

    if (i == node->string.len || node->string.data[i] == '0') {
        return WQ_BAD_TYPE;
    }

    return WQ_BAD_RANGE;
}


static int
fits(const wq_field_t *field, size_t size)
{
    __int128  n = size;

    return n >= field->min && n <= field->max;
}


static wq_rc_t
expected_value(const node_t *node, const wq_field_t *field, const out_t *out,
    wq_rc_t rc)
{
    int64_t        value, got;
    wq_rc_t        want;
    wq_str_t       s;
    wq_reply_t     r;
    const u_char  *p;

    p = (const u_char *) out + field->offset;
    memcpy(&got, p, sizeof(got));
    memcpy(&s, p, sizeof(s));

    if (node == NULL || node->type == WQ_REPLY_NIL) {

        if (!field->nil_allowed) {
            return WQ_MISSING;
        }

        if (field->type == WQ_FIELD_INTEGER) {
            require(rc != WQ_OK || got == WQ_FIELD_NIL_INTEGER);

        } else if (field->type == WQ_FIELD_STRING) {
            require(rc != WQ_OK || (s.len == 0 && s.data == NULL));

        } else {
            memcpy(&r, p, sizeof(r));
            require(rc != WQ_OK || r.node == NULL);
        }

        return WQ_OK;
    }

    switch (field->type) {

    case WQ_FIELD_INTEGER:
        want = expected_integer(node, &value);

        if (want == WQ_MISSING) {

            /* wrong and too long: either word will do */

            require(rc == WQ_BAD_TYPE || rc == WQ_BAD_RANGE);
            return rc;
        }

        if (want == WQ_OK) {

            if (value < field->min || value > field->max) {
                return WQ_BAD_RANGE;
            }

            require(rc != WQ_OK || got == value);
        }

        return want;

    case WQ_FIELD_STRING:

        if (node->type != WQ_REPLY_STRING
            || (node->string.data == NULL && node->string.len > 0))
        {
            return WQ_BAD_TYPE;
        }

        if (!fits(field, node->string.len)) {
            return WQ_BAD_RANGE;
        }

        require(rc != WQ_OK || (s.len == node->string.len && s.data != NULL));
        require(rc != WQ_OK || s.len == 0 || s.data == node->string.data);

        return WQ_OK;

    default:

        if (node->type != WQ_REPLY_ARRAY) {
            return WQ_BAD_TYPE;
        }

        if (!fits(field, node->elements)) {
            return WQ_BAD_RANGE;
        }

        memcpy(&r, p, sizeof(r));
        require(rc != WQ_OK || (r.node == node && r.reader == &reader));

        return WQ_OK;
    }
}


/*
 * Fields before the one that failed must have been good, so each is decoded
 * alone and compared; the whole must then fail with the first of them.
 */

static void
check_decode(const node_t *node, const wq_field_t *fields, size_t n)
{
    out_t        out, alone;
    size_t       i;
    wq_rc_t      rc, want, one;
    wq_reply_t   reply, element;
    const char  *bad, *want_bad;

    reply.reader = &reader;
    reply.node = node;
    bad = "untouched";
    want_bad = "untouched";

    memset(&out, 0x77, sizeof(out));
    rc = wq_reply_decode(reply, fields, n, &out, &bad);

    for (i = 0; i < 8; i++) {
        require(out.before[i] == 0x77 && out.after[i] == 0x77);
    }

    if (node == NULL || node->type != WQ_REPLY_ARRAY) {
        require(rc == ((node == NULL || node->type == WQ_REPLY_NIL)
                       ? WQ_MISSING : WQ_BAD_TYPE));
        require(strcmp(bad, "reply") == 0);
        return;
    }

    want = WQ_OK;

    for (i = 0; i < n && want == WQ_OK; i++) {

        if (i >= node->elements) {
            want = WQ_MISSING;
            want_bad = fields[i].name;
            break;
        }

        element = wq_reply_element(reply, i);
        require(element.node == (i < node->real ? node->element[i] : NULL));

        memset(&alone, 0x77, sizeof(alone));
        one = wq_reply_decode_value(element, &fields[i], &alone);
        want = expected_value(element.node, &fields[i], &alone, one);
        require(one == want);

        if (want != WQ_OK) {
            want_bad = fields[i].name;
            break;
        }

        require(expected_value(element.node, &fields[i], &out, WQ_OK)
                == WQ_OK);
    }

    require(rc == want);
    require(strcmp(bad, want_bad) == 0);
}


static void
walk(const node_t *node)
{
    size_t      i;
    wq_str_t    s;
    wq_reply_t  reply, element;

    reply.reader = &reader;
    reply.node = node;

    s = wq_reply_string(reply);
    require(s.data != NULL || s.len == 0);

    if (node == NULL) {
        require(wq_reply_type(reply) == WQ_REPLY_NIL);
        require(wq_reply_elements(reply) == 0);
        require(s.data == NULL);
        return;
    }

    require(wq_reply_type(reply) <= WQ_REPLY_UNKNOWN);

    if (node->type != WQ_REPLY_STRING && node->type != WQ_REPLY_ERROR) {
        require(s.data == NULL);
    }

    if (node->type != WQ_REPLY_ARRAY) {
        require(wq_reply_elements(reply) == 0);
        require(wq_reply_element(reply, 0).node == NULL);
        return;
    }

    require(wq_reply_elements(reply) == node->elements);
    require(wq_reply_element(reply, node->elements).node == NULL);
    require(wq_reply_element(reply, SIZE_MAX).node == NULL);

    for (i = 0; i < node->real; i++) {
        element = wq_reply_element(reply, i);
        require(element.node == node->element[i]);
        walk(element.node);
    }
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t       i, n, table;
    node_t      *root;
    input_t      in;
    wq_field_t   made[5];

    static const size_t  offsets[] = {
        offsetof(out_t, a), offsetof(out_t, b), offsetof(out_t, c),
        offsetof(out_t, d), offsetof(out_t, e)
    };

    static const char *const  names[] = { "a", "b", "c", "d", "e" };

    static const wq_field_type_e  types[] = {
        WQ_FIELD_INTEGER, WQ_FIELD_STRING, WQ_FIELD_ARRAY, WQ_FIELD_INTEGER,
        WQ_FIELD_STRING
    };

    static const wq_field_t  tables[][5] = {
        {
            { "a", WQ_FIELD_INTEGER, 0, 0, INT64_MAX, offsetof(out_t, a) },
            { "b", WQ_FIELD_STRING, 0, 1, 128, offsetof(out_t, b) },
            { "c", WQ_FIELD_ARRAY, 0, 0, 1000, offsetof(out_t, c) },
            { "d", WQ_FIELD_INTEGER, 0, -1, 100, offsetof(out_t, d) },
            { "e", WQ_FIELD_STRING, 0, 0, INT64_MAX, offsetof(out_t, e) }
        },
        {
            { "a", WQ_FIELD_INTEGER, 1, INT64_MIN, INT64_MAX,
              offsetof(out_t, a) },
            { "b", WQ_FIELD_STRING, 1, INT64_MIN, INT64_MAX,
              offsetof(out_t, b) },
            { "c", WQ_FIELD_ARRAY, 1, INT64_MIN, INT64_MAX,
              offsetof(out_t, c) },
            { "d", WQ_FIELD_INTEGER, 1, INT64_MIN, -1, offsetof(out_t, d) },
            { "e", WQ_FIELD_STRING, 1, 3, 3, offsetof(out_t, e) }
        }
    };

    in.data = data;
    in.size = size;

    /* a table of the input's own choice, and how many fields are asked for */

    n = byte(&in) % 6;
    table = byte(&in);

    for (i = 0; i < 5; i++) {
        made[i].name = names[i];
        made[i].type = types[i];
        made[i].nil_allowed = (table >> i) & 1;
        made[i].min = (table & 32) ? (int64_t) word(&in) : 0;
        made[i].max = (table & 64) ? (int64_t) word(&in) : INT64_MAX;
        made[i].offset = offsets[i];
    }

    used = 0;
    root = build(&in, 0);

    check_decode(root, tables[0], n);
    check_decode(root, tables[1], n);
    check_decode(root, made, n);

    /* every node in turn as if it were the whole reply */

    for (i = 0; i < used; i++) {
        check_decode(&nodes[i], tables[0], 5);
        check_decode(&nodes[i], tables[1], 5);
        check_decode(&nodes[i], made, 5);
    }

    walk(root);

    for (i = 0; i < used; i++) {
        free(nodes[i].memory);
        nodes[i].memory = NULL;
    }

    return 0;
}
