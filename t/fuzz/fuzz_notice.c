
/*
 * fuzz: a message is built from the input, a list of fields of any kind; what
 * is taken of it is what a second, plain reading of the contract says, and can
 * be written anywhere without escaping.
 */


#include <stdlib.h>
#include <string.h>

#include "wq_notice.h"


#define MAX_NODES  64


int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);


typedef struct {
    wq_reply_type_e   type;
    int64_t           integer;
    size_t            len;
    u_char           *data;
} node_t;


static node_t  nodes[MAX_NODES];
static size_t  used;


/* what a script writes, so that the input need not guess it */

static const char *const  texts[] = {
    "type", "userId", "eventId", "instanceId", "idx", "token", "expiresAt",
    "serial", "promoted", "expired", "replaced", "moved", "seat", "u1", "0",
    "9223372036854775807", "0123456789abcdef0123456789abcdef01234567", "e.1"
};

#define NTEXTS  (sizeof(texts) / sizeof(texts[0]))


static void
require(int condition)
{
    if (!condition) {
        abort();
    }
}


/* the message itself is &used, a list of all nodes */

static wq_reply_type_e
node_type(const void *p)
{
    return p == &used ? WQ_REPLY_ARRAY : ((const node_t *) p)->type;
}


static int64_t
node_integer(const void *p)
{
    require(p != &used && ((const node_t *) p)->type == WQ_REPLY_INTEGER);

    return ((const node_t *) p)->integer;
}


static wq_str_t
node_string(const void *p)
{
    wq_str_t       s;
    const node_t  *node = p;

    require(p != &used && (node->type == WQ_REPLY_STRING
                           || node->type == WQ_REPLY_ERROR));

    s.len = node->len;
    s.data = node->data;

    return s;
}


static size_t
node_elements(const void *p)
{
    require(p == &used);

    return used;
}


static const void *
node_element(const void *p, size_t i)
{
    require(p == &used && i < used);

    return nodes[i].type == WQ_REPLY_NIL ? NULL : &nodes[i];
}


static const wq_reply_reader_t  reader = {
    node_type, node_integer, node_string, node_elements, node_element
};


static void
set_text(node_t *node, const void *data, size_t len)
{
    node->len = len;
    node->data = malloc(len ? len : 1);

    if (len > 0) {
        memcpy(node->data, data, len);
    }
}


/* a node: its kind, then a number of 8 bytes, or a length and a text */

static void
build(const uint8_t *data, size_t size)
{
    size_t    len;
    node_t   *node;
    unsigned  kind;

    for (used = 0; size > 0 && used < MAX_NODES; used++) {

        node = &nodes[used];
        memset(node, 0, sizeof(node_t));

        kind = *data++;
        size--;

        if (kind < NTEXTS) {
            node->type = WQ_REPLY_STRING;
            set_text(node, texts[kind], strlen(texts[kind]));
            continue;
        }

        switch (kind % 8) {

        case 0:
            node->type = WQ_REPLY_NIL;
            continue;

        case 1:
            node->type = WQ_REPLY_INTEGER;
            len = size < 8 ? size : 8;
            memcpy(&node->integer, data, len);
            break;

        default:
            node->type = kind % 8 == 2 ? WQ_REPLY_ERROR : WQ_REPLY_STRING;
            len = size ? *data : 0;

            if (size) {
                data++;
                size--;
            }

            len = len < size ? len : size;
            set_text(node, data, len);
        }

        data += len;
        size -= len;
    }
}


/* the value of the first field of that name; NULL if there is none, or nil */

static const node_t *
find(const char *name)
{
    size_t         i;
    const node_t  *node;

    for (i = 0; i + 1 < used; i += 2) {
        node = &nodes[i];

        if ((node->type == WQ_REPLY_STRING || node->type == WQ_REPLY_ERROR)
            && node->len == strlen(name)
            && memcmp(node->data, name, node->len) == 0)
        {
            return nodes[i + 1].type == WQ_REPLY_NIL ? NULL : &nodes[i + 1];
        }
    }

    return NULL;
}


static int
is_text(const node_t *node)
{
    return node && (node->type == WQ_REPLY_STRING
                    || node->type == WQ_REPLY_ERROR);
}


static int
is_id(const node_t *node, wq_str_t id)
{
    size_t  i;

    static const char  alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._~@:-";

    if (!is_text(node) || node->len == 0 || node->len > 128
        || id.len != node->len || memcmp(id.data, node->data, id.len) != 0)
    {
        return 0;
    }

    for (i = 0; i < id.len; i++) {
        if (memchr(alphabet, id.data[i], sizeof(alphabet) - 1) == NULL) {
            return 0;
        }
    }

    return 1;
}


static int
is_number(const node_t *node, int64_t n)
{
    char  text[32];

    if (node == NULL || n < 0) {
        return 0;
    }

    if (node->type == WQ_REPLY_INTEGER) {
        return node->integer == n;
    }

    if (node->type != WQ_REPLY_STRING || node->len == 0 || node->len > 19) {
        return 0;
    }

    memcpy(text, node->data, node->len);
    text[node->len] = '\0';

    return strspn(text, "0123456789") == node->len
           && (text[0] != '0' || node->len == 1)
           && strtoull(text, NULL, 10) == (unsigned long long) n;
}


/* with what was taken; where it was refused, something must be missing */

static int
is_good(const wq_notice_t *notice)
{
    const node_t  *type, *token;

    type = find("type");
    token = find("token");

    if (!is_text(type) || notice->type >= WQ_NOTICE_MAX
        || type->len != strlen(wq_notice_word(notice->type))
        || memcmp(type->data, wq_notice_word(notice->type), type->len) != 0)
    {
        return 0;
    }

    if (!is_text(token) || token->len == 0) {
        if (notice->token.len > 0 || notice->type == WQ_NOTICE_PROMOTED) {
            return 0;
        }

    } else if (token->len != 40 || !is_id(token, notice->token)) {
        return 0;
    }

    return is_id(find("eventId"), notice->event)
           && is_id(find("userId"), notice->user)
           && is_id(find("instanceId"), notice->instance)
           && is_number(find("idx"), notice->idx)
           && is_number(find("expiresAt"), notice->expires)
           && is_number(find("serial"), notice->serial);
}


/* what a plain reader takes, to be judged by the same rules */

static void
take_text(const char *name, wq_str_t *s)
{
    const node_t  *node;

    node = find(name);
    memset(s, 0, sizeof(wq_str_t));

    if (is_text(node)) {
        s->len = node->len;
        s->data = node->data;
    }
}


static void
take_number(const char *name, int64_t *n)
{
    char           text[32];
    const node_t  *node;

    node = find(name);
    *n = -1;

    if (node && node->type == WQ_REPLY_INTEGER) {
        *n = node->integer;

    } else if (node && node->type == WQ_REPLY_STRING && node->len < 20) {
        memcpy(text, node->data, node->len);
        text[node->len] = '\0';
        *n = (int64_t) strtoull(text, NULL, 10);
    }
}


static void
take(wq_notice_t *notice)
{
    unsigned  i;
    wq_str_t  word;

    take_text("type", &word);

    for (i = 0; i < WQ_NOTICE_MAX; i++) {
        if (word.len == strlen(wq_notice_word((wq_notice_e) i))
            && memcmp(word.data, wq_notice_word((wq_notice_e) i), word.len)
               == 0)
        {
            break;
        }
    }

    notice->type = (wq_notice_e) i;

    take_text("eventId", &notice->event);
    take_text("userId", &notice->user);
    take_text("instanceId", &notice->instance);
    take_text("token", &notice->token);
    take_number("idx", &notice->idx);
    take_number("expiresAt", &notice->expires);
    take_number("serial", &notice->serial);
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t       i;
    wq_reply_t   reply;
    wq_notice_t  notice, plain;

    build(data, size);

    reply.reader = &reader;
    reply.node = &used;

    memset(&notice, 0, sizeof(notice));

    if (wq_notice_decode(reply, &notice) == WQ_OK) {
        require(is_good(&notice));

    } else {
        take(&plain);
        require(!is_good(&plain));
    }

    for (i = 0; i < used; i++) {
        free(nodes[i].data);
        nodes[i].data = NULL;
    }

    return 0;
}
