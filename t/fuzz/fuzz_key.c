
/*
 * fuzz: a key is its name with the ids put in, its size is exact, and Redis
 * Cluster finds the id in its hash tag.
 */


#include <stdlib.h>
#include <string.h>

#include "wq_id.h"
#include "wq_key.h"


#define GUARD  8


int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);


#define WQ_X(constant, single, cluster)  { single, cluster },
static const char *const  names[][2] = {
    WQ_KEYS(WQ_X)
};
#undef WQ_X


static void
require(int condition)
{
    if (!condition) {
        abort();
    }
}


static size_t
put(u_char *p, size_t n, const void *data, size_t len)
{
    if (len > 0) {
        memcpy(p + n, data, len);
    }

    return n + len;
}


/* by search and replace: a name holds each of %e and %u at most once */

static size_t
expected(u_char *p, const wq_keyspace_t *keyspace, unsigned key,
    const wq_str_t *event, const wq_str_t *user)
{
    size_t           n, rest;
    const char      *name, *mark, *e, *u;
    const wq_str_t  *id;

    name = names[key][keyspace->cluster ? 1 : 0];
    n = put(p, 0, keyspace->prefix.data, keyspace->prefix.len);

    for ( ;; ) {
        e = strstr(name, "%e");
        u = strstr(name, "%u");

        if (e == NULL && u == NULL) {
            break;
        }

        mark = (e != NULL && (u == NULL || e < u)) ? e : u;
        id = (mark == e) ? event : user;

        n = put(p, n, name, (size_t) (mark - name));

        if (id != NULL) {
            n = put(p, n, id->data, id->len);
        }

        name = mark + 2;
    }

    rest = strlen(name);

    return put(p, n, name, rest);
}


/* the rule of Redis Cluster: from the first "{" to the first "}" after it */

static void
check_tag(const u_char *p, size_t n, const wq_str_t *id)
{
    const u_char  *open, *close;

    open = memchr(p, '{', n);
    require(open != NULL);

    close = memchr(open, '}', n - (size_t) (open - p));
    require(close != NULL);

    require((size_t) (close - open) - 1 == id->len);
    require(memcmp(open + 1, id->data, id->len) == 0);
}


static wq_str_t
take(const uint8_t **data, size_t *size, size_t len)
{
    wq_str_t  s;

    if (len > *size) {
        len = *size;
    }

    s.len = len;
    s.data = len > 0 ? (u_char *) *data : NULL;

    *data += len;
    *size -= len;

    return s;
}


/*
 * The input: the key, flags, and the lengths of prefix, event and user, each
 * one byte; then the bytes of the three.
 */

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    u_char          *p, *want;
    size_t           n, i;
    uint8_t          head[5];
    unsigned         key;
    wq_str_t         event_id, user_id;
    const char      *name;
    wq_keyspace_t    keyspace;
    const wq_str_t  *event, *user;

    if (size < sizeof(head)) {
        return 0;
    }

    memcpy(head, data, sizeof(head));
    data += sizeof(head);
    size -= sizeof(head);

    key = head[0] % (WQ_KEY_MAX + 1);
    keyspace.cluster = head[1] & 3;
    keyspace.prefix = take(&data, &size, head[2]);
    event_id = take(&data, &size, head[3]);
    user_id = take(&data, &size, head[4]);

    event = (head[1] & 4) ? NULL : &event_id;
    user = (head[1] & 8) ? NULL : &user_id;

    n = wq_key_size(&keyspace, (wq_key_e) key, event, user);
    p = malloc(n + 2 * GUARD);
    memset(p, 0x3c, n + 2 * GUARD);

    require(wq_key_write(p + GUARD, &keyspace, (wq_key_e) key, event, user)
            == p + GUARD + n);

    for (i = 0; i < GUARD; i++) {
        require(p[i] == 0x3c && p[GUARD + n + i] == 0x3c);
    }

    if (key == WQ_KEY_MAX) {
        require(n == 0);
        free(p);
        return 0;
    }

    want = malloc(4 * 256);
    require(expected(want, &keyspace, key, event, user) == n);
    require(memcmp(p + GUARD, want, n) == 0);
    free(want);

    if ((keyspace.prefix.len == 0
         || memchr(keyspace.prefix.data, '{', keyspace.prefix.len) == NULL)
        && wq_id_check(event_id.data, event_id.len) == WQ_OK
        && wq_id_check(user_id.data, user_id.len) == WQ_OK)
    {
        name = names[key][keyspace.cluster ? 1 : 0];

        if (event != NULL && strstr(name, "%e") != NULL) {
            check_tag(p + GUARD, n, event);

        } else if (user != NULL && strstr(name, "{%u}") != NULL) {
            check_tag(p + GUARD, n, user);
        }
    }

    free(p);

    return 0;
}
