
/* core: every key the module has in Redis, in one table */


#include <string.h>

#include "wq_key.h"


static size_t wq_key_build(u_char *p, const wq_keyspace_t *keyspace,
    wq_key_e key, const wq_str_t *event, const wq_str_t *user);
static size_t wq_key_append(u_char *p, size_t n, const u_char *data,
    size_t len);


/* [1] on Redis Cluster */

#define WQ_X(constant, single, cluster)  { single, cluster },
static const char *const  wq_key_names[][2] = {
    WQ_KEYS(WQ_X)
};
#undef WQ_X


size_t
wq_key_size(const wq_keyspace_t *keyspace, wq_key_e key, const wq_str_t *event,
    const wq_str_t *user)
{
    return wq_key_build(NULL, keyspace, key, event, user);
}


u_char *
wq_key_write(u_char *p, const wq_keyspace_t *keyspace, wq_key_e key,
    const wq_str_t *event, const wq_str_t *user)
{
    return p + wq_key_build(p, keyspace, key, event, user);
}


/* one walk for the length and for the bytes, so that they cannot disagree */

static size_t
wq_key_build(u_char *p, const wq_keyspace_t *keyspace, wq_key_e key,
    const wq_str_t *event, const wq_str_t *user)
{
    size_t           n;
    const char      *name;
    const wq_str_t  *id;

    if ((unsigned) key >= WQ_KEY_MAX) {
        return 0;
    }

    n = wq_key_append(p, 0, keyspace->prefix.data, keyspace->prefix.len);

    for (name = wq_key_names[key][keyspace->cluster != 0]; *name; name++) {

        if (*name != '%') {
            n = wq_key_append(p, n, (const u_char *) name, 1);
            continue;
        }

        name++;

        id = (*name == 'e') ? event : user;

        if (id != NULL) {
            n = wq_key_append(p, n, id->data, id->len);
        }
    }

    return n;
}


static size_t
wq_key_append(u_char *p, size_t n, const u_char *data, size_t len)
{
    if (p != NULL && len > 0) {
        memcpy(p + n, data, len);
    }

    return n + len;
}
