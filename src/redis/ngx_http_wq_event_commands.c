
/* redis: the scripts of one event, one call each */


#include <ngx_config.h>
#include <ngx_core.h>

#include <openssl/rand.h>

#include "ngx_http_wq_event_commands.h"
#include "ngx_http_wq_script.h"

#include "wq_id.h"


/* the keys, the event, and what else a call may have: ranks.lua has most */
#define NGX_HTTP_WQ_EVENT_ARGV  (NGX_HTTP_WQ_EVENT_KEYS + 1                   \
                                 + 1 + NGX_HTTP_WQ_RANKS_BATCH)


typedef struct {
    ngx_str_t     argv[NGX_HTTP_WQ_EVENT_ARGV];
    ngx_uint_t    argc;
} ngx_http_wq_event_call_t;


static void ngx_http_wq_event_call_init(ngx_http_wq_event_call_t *call,
    const ngx_http_wq_event_keys_t *keys);
static void ngx_http_wq_event_call_add(ngx_http_wq_event_call_t *call,
    const ngx_str_t *word);
static void ngx_http_wq_event_call_add_literal(ngx_http_wq_event_call_t *call,
    const char *word);
static void ngx_http_wq_event_call_add_number(ngx_http_wq_event_call_t *call,
    u_char *buf, uint64_t n);
static ngx_int_t ngx_http_wq_event_call_add_seed(
    ngx_http_wq_event_call_t *call, u_char *seed);
static ngx_int_t ngx_http_wq_event_call_send(ngx_http_wq_link_t *link,
    ngx_http_wq_script_e script, ngx_http_wq_event_call_t *call,
    const ngx_http_wq_reply_to_t *to);


/* in the order of lua/lib/event.lua */

static const wq_key_e  ngx_http_wq_event_keys[NGX_HTTP_WQ_EVENT_KEYS] = {
    WQ_KEY_WAITING,
    WQ_KEY_INDEX_RECORD,
    WQ_KEY_USER_IDS,
    WQ_KEY_IDX,
    WQ_KEY_SLOTS,
    WQ_KEY_ENTRY,
    WQ_KEY_TOKEN,
    WQ_KEY_ACTIVE,
    WQ_KEY_LEASE,
    WQ_KEY_SEEN,
    WQ_KEY_GONE,
    WQ_KEY_STATS,
    WQ_KEY_CONF,
    WQ_KEY_OVERRIDE,
    WQ_KEY_EVENTS,
    WQ_KEY_SEAT_COUNT,
    WQ_KEY_INSTANCES,
    WQ_KEY_ORIGIN
};


ngx_int_t
ngx_http_wq_event_keys_create(ngx_http_wq_event_keys_t *keys,
    const wq_keyspace_t *keyspace, const ngx_str_t *event, ngx_log_t *log)
{
    size_t       size;
    u_char      *p;
    wq_str_t     id;
    ngx_uint_t   i;

    id.len = event->len;
    id.data = event->data;
    size = 0;

    for (i = 0; i < NGX_HTTP_WQ_EVENT_KEYS; i++) {
        size += wq_key_size(keyspace, ngx_http_wq_event_keys[i], &id, NULL);
    }

    keys->data = ngx_alloc(size, log);
    if (keys->data == NULL) {
        return NGX_ERROR;
    }

    keys->event = *event;
    p = keys->data;

    for (i = 0; i < NGX_HTTP_WQ_EVENT_KEYS; i++) {
        keys->names[i].data = p;
        p = wq_key_write(p, keyspace, ngx_http_wq_event_keys[i], &id, NULL);
        keys->names[i].len = p - keys->names[i].data;
    }

    return NGX_OK;
}


void
ngx_http_wq_event_keys_destroy(ngx_http_wq_event_keys_t *keys)
{
    if (keys->data) {
        ngx_free(keys->data);
        keys->data = NULL;
    }
}


ngx_int_t
ngx_http_wq_call_join(ngx_http_wq_link_t *link,
    const ngx_http_wq_event_keys_t *keys, const ngx_http_wq_join_t *join,
    const ngx_http_wq_reply_to_t *to)
{
    u_char                    seed[NGX_HTTP_WQ_SEED_LEN];
    u_char                    capacity[NGX_INT64_LEN], highest[NGX_INT64_LEN];
    ngx_http_wq_event_call_t  call;

    static const char  *modes[] = { "stream", "enter", "visit" };

    ngx_http_wq_event_call_init(&call, keys);
    ngx_http_wq_event_call_add(&call, &join->user);
    ngx_http_wq_event_call_add(&call, &join->instance);
    ngx_http_wq_event_call_add_literal(&call, modes[join->mode]);

    if (ngx_http_wq_event_call_add_seed(&call, seed) != NGX_OK) {
        return NGX_ERROR;
    }

    ngx_http_wq_event_call_add(&call, &join->settings);

    if (join->capacity < 0) {
        ngx_http_wq_event_call_add_literal(&call, "");

    } else {
        ngx_http_wq_event_call_add_number(&call, capacity,
                                          (uint64_t) join->capacity);
    }

    ngx_http_wq_event_call_add_number(&call, highest, join->highest);

    return ngx_http_wq_event_call_send(link, NGX_HTTP_WQ_SCRIPT_join, &call,
                                       to);
}


ngx_int_t
ngx_http_wq_call_restore(ngx_http_wq_link_t *link,
    const ngx_http_wq_event_keys_t *keys, const ngx_http_wq_join_t *join,
    const ngx_http_wq_reply_to_t *to)
{
    u_char                    seed[NGX_HTTP_WQ_SEED_LEN];
    u_char                    idx[NGX_INT64_LEN], highest[NGX_INT64_LEN];
    u_char                    serial[NGX_INT64_LEN];
    ngx_http_wq_event_call_t  call;

    ngx_http_wq_event_call_init(&call, keys);
    ngx_http_wq_event_call_add(&call, &join->user);
    ngx_http_wq_event_call_add(&call, &join->instance);
    ngx_http_wq_event_call_add_number(&call, idx, join->idx);
    ngx_http_wq_event_call_add_number(&call, highest, join->highest);
    ngx_http_wq_event_call_add(&call, &join->settings);
    ngx_http_wq_event_call_add(&call, &join->epoch);

    if (ngx_http_wq_event_call_add_seed(&call, seed) != NGX_OK) {
        return NGX_ERROR;
    }

    ngx_http_wq_event_call_add_literal(&call, join->absent ? "absent" : "");
    ngx_http_wq_event_call_add_number(&call, serial, (uint64_t) join->serial);

    return ngx_http_wq_event_call_send(link, NGX_HTTP_WQ_SCRIPT_restore,
                                       &call, to);
}


ngx_int_t
ngx_http_wq_call_status(ngx_http_wq_link_t *link,
    const ngx_http_wq_event_keys_t *keys, const ngx_str_t *user,
    const ngx_str_t *settings, const ngx_http_wq_reply_to_t *to)
{
    u_char                    seed[NGX_HTTP_WQ_SEED_LEN];
    ngx_http_wq_event_call_t  call;

    ngx_http_wq_event_call_init(&call, keys);
    ngx_http_wq_event_call_add(&call, user);

    if (ngx_http_wq_event_call_add_seed(&call, seed) != NGX_OK) {
        return NGX_ERROR;
    }

    ngx_http_wq_event_call_add(&call, settings);

    return ngx_http_wq_event_call_send(link, NGX_HTTP_WQ_SCRIPT_status, &call,
                                       to);
}


ngx_int_t
ngx_http_wq_call_quit(ngx_http_wq_link_t *link,
    const ngx_http_wq_event_keys_t *keys, const ngx_str_t *user,
    const ngx_http_wq_reply_to_t *to)
{
    u_char                    seed[NGX_HTTP_WQ_SEED_LEN];
    ngx_http_wq_event_call_t  call;

    ngx_http_wq_event_call_init(&call, keys);
    ngx_http_wq_event_call_add(&call, user);

    if (ngx_http_wq_event_call_add_seed(&call, seed) != NGX_OK) {
        return NGX_ERROR;
    }

    return ngx_http_wq_event_call_send(link, NGX_HTTP_WQ_SCRIPT_quit, &call,
                                       to);
}


ngx_int_t
ngx_http_wq_call_leave(ngx_http_wq_link_t *link,
    const ngx_http_wq_event_keys_t *keys, const ngx_str_t *user,
    const ngx_str_t *instance, uint64_t idx, const ngx_http_wq_reply_to_t *to)
{
    u_char                    buf[NGX_INT64_LEN];
    ngx_http_wq_event_call_t  call;

    ngx_http_wq_event_call_init(&call, keys);
    ngx_http_wq_event_call_add(&call, user);
    ngx_http_wq_event_call_add(&call, instance);

    if (idx) {
        ngx_http_wq_event_call_add_number(&call, buf, idx);

    } else {
        ngx_http_wq_event_call_add_literal(&call, "");
    }

    return ngx_http_wq_event_call_send(link, NGX_HTTP_WQ_SCRIPT_leave, &call,
                                       to);
}


ngx_int_t
ngx_http_wq_call_release(ngx_http_wq_link_t *link,
    const ngx_http_wq_event_keys_t *keys, const ngx_str_t *user,
    ngx_http_wq_release_e why, const ngx_str_t *instance,
    const ngx_str_t *token, const ngx_http_wq_reply_to_t *to)
{
    u_char                    seed[NGX_HTTP_WQ_SEED_LEN];
    ngx_http_wq_event_call_t  call;

    static const char  *hows[] = { "return", "untold", "return", "sold" };
    static const char  *counters[] = { "left", "left", "done", "sold" };

    ngx_http_wq_event_call_init(&call, keys);
    ngx_http_wq_event_call_add(&call, user);
    ngx_http_wq_event_call_add_literal(&call, hows[why]);

    if (ngx_http_wq_event_call_add_seed(&call, seed) != NGX_OK) {
        return NGX_ERROR;
    }

    if (instance) {
        ngx_http_wq_event_call_add(&call, instance);

    } else {
        ngx_http_wq_event_call_add_literal(&call, "");
    }

    ngx_http_wq_event_call_add(&call, token);
    ngx_http_wq_event_call_add_literal(&call, counters[why]);

    return ngx_http_wq_event_call_send(link, NGX_HTTP_WQ_SCRIPT_release, &call,
                                       to);
}


ngx_int_t
ngx_http_wq_call_touch(ngx_http_wq_link_t *link,
    const ngx_http_wq_event_keys_t *keys, const ngx_str_t *user,
    const ngx_str_t *token, const ngx_http_wq_reply_to_t *to)
{
    ngx_http_wq_event_call_t  call;

    ngx_http_wq_event_call_init(&call, keys);
    ngx_http_wq_event_call_add(&call, user);
    ngx_http_wq_event_call_add(&call, token);

    return ngx_http_wq_event_call_send(link, NGX_HTTP_WQ_SCRIPT_touch, &call,
                                       to);
}


ngx_int_t
ngx_http_wq_call_restore_lease(ngx_http_wq_link_t *link,
    const ngx_http_wq_event_keys_t *keys, const ngx_http_wq_lease_t *lease,
    const ngx_http_wq_reply_to_t *to)
{
    u_char                    idx[NGX_INT64_LEN], expires[NGX_INT64_LEN];
    u_char                    since[NGX_INT64_LEN], waited[NGX_INT64_LEN];
    ngx_http_wq_event_call_t  call;

    ngx_http_wq_event_call_init(&call, keys);
    ngx_http_wq_event_call_add(&call, &lease->user);
    ngx_http_wq_event_call_add(&call, &lease->token);
    ngx_http_wq_event_call_add_number(&call, idx, (uint64_t) lease->idx);
    ngx_http_wq_event_call_add_number(&call, expires,
                                      (uint64_t) lease->expires);
    ngx_http_wq_event_call_add_literal(&call, lease->entered ? "entered"
                                                             : "ready");
    ngx_http_wq_event_call_add_number(&call, since, (uint64_t) lease->since);
    ngx_http_wq_event_call_add_number(&call, waited, (uint64_t) lease->waited);

    return ngx_http_wq_event_call_send(link, NGX_HTTP_WQ_SCRIPT_restore_lease,
                                       &call, to);
}


ngx_int_t
ngx_http_wq_call_restore_event(ngx_http_wq_link_t *link,
    const ngx_http_wq_event_keys_t *keys,
    const ngx_http_wq_figures_t *figures, const ngx_http_wq_reply_to_t *to)
{
    u_char                    capacity[NGX_INT64_LEN], sold[NGX_INT64_LEN];
    u_char                    seats[NGX_INT64_LEN];
    ngx_http_wq_event_call_t  call;

    ngx_http_wq_event_call_init(&call, keys);
    ngx_http_wq_event_call_add_number(&call, capacity,
                                      (uint64_t) figures->capacity);
    ngx_http_wq_event_call_add_number(&call, sold, (uint64_t) figures->sold);

    if (figures->seats < 0) {
        ngx_http_wq_event_call_add_literal(&call, "-1");

    } else {
        ngx_http_wq_event_call_add_number(&call, seats,
                                          (uint64_t) figures->seats);
    }

    return ngx_http_wq_event_call_send(link, NGX_HTTP_WQ_SCRIPT_restore_event,
                                       &call, to);
}


ngx_int_t
ngx_http_wq_call_promote(ngx_http_wq_link_t *link,
    const ngx_http_wq_event_keys_t *keys, const ngx_http_wq_reply_to_t *to)
{
    u_char                    seed[NGX_HTTP_WQ_SEED_LEN], buf[NGX_INT64_LEN];
    ngx_http_wq_event_call_t  call;

    ngx_http_wq_event_call_init(&call, keys);

    if (ngx_http_wq_event_call_add_seed(&call, seed) != NGX_OK) {
        return NGX_ERROR;
    }

    ngx_http_wq_event_call_add_number(&call, buf, NGX_HTTP_WQ_PROMOTE_BATCH);

    return ngx_http_wq_event_call_send(link,
                           NGX_HTTP_WQ_SCRIPT_promote_all_waiting_for_event,
                           &call, to);
}


ngx_int_t
ngx_http_wq_call_positions(ngx_http_wq_link_t *link,
    const ngx_http_wq_event_keys_t *keys, uint64_t known,
    const ngx_http_wq_reply_to_t *to)
{
    u_char                    from[NGX_INT64_LEN], limit[NGX_INT64_LEN];
    ngx_http_wq_event_call_t  call;

    ngx_http_wq_event_call_init(&call, keys);
    ngx_http_wq_event_call_add_number(&call, from, known);
    ngx_http_wq_event_call_add_number(&call, limit,
                                      NGX_HTTP_WQ_POSITIONS_BATCH);

    return ngx_http_wq_event_call_send(link, NGX_HTTP_WQ_SCRIPT_positions,
                                       &call, to);
}


ngx_int_t
ngx_http_wq_call_ranks(ngx_http_wq_link_t *link,
    const ngx_http_wq_event_keys_t *keys, const ngx_str_t *instance,
    const ngx_str_t *users, ngx_uint_t n, const ngx_http_wq_reply_to_t *to)
{
    ngx_uint_t                i;
    ngx_http_wq_event_call_t  call;

    ngx_http_wq_event_call_init(&call, keys);
    ngx_http_wq_event_call_add(&call, instance);

    for (i = 0; i < n; i++) {
        ngx_http_wq_event_call_add(&call, &users[i]);
    }

    return ngx_http_wq_event_call_send(link, NGX_HTTP_WQ_SCRIPT_ranks, &call,
                                       to);
}


ngx_int_t
ngx_http_wq_call_reap(ngx_http_wq_link_t *link,
    const ngx_http_wq_event_keys_t *keys, const ngx_str_t *instance,
    const ngx_str_t *cursor, int64_t heartbeat,
    const ngx_http_wq_reply_to_t *to)
{
    u_char                    count[NGX_INT64_LEN], since[NGX_INT64_LEN];
    ngx_http_wq_event_call_t  call;

    ngx_http_wq_event_call_init(&call, keys);
    ngx_http_wq_event_call_add(&call, instance);
    ngx_http_wq_event_call_add(&call, cursor);
    ngx_http_wq_event_call_add_number(&call, count, NGX_HTTP_WQ_REAP_BATCH);
    ngx_http_wq_event_call_add_number(&call, since, (uint64_t) heartbeat);

    return ngx_http_wq_event_call_send(link, NGX_HTTP_WQ_SCRIPT_reap, &call,
                                       to);
}


static void
ngx_http_wq_event_call_init(ngx_http_wq_event_call_t *call,
    const ngx_http_wq_event_keys_t *keys)
{
    ngx_memcpy(call->argv, keys->names, sizeof(keys->names));

    call->argv[NGX_HTTP_WQ_EVENT_KEYS] = keys->event;
    call->argc = NGX_HTTP_WQ_EVENT_KEYS + 1;
}


static void
ngx_http_wq_event_call_add(ngx_http_wq_event_call_t *call,
    const ngx_str_t *word)
{
    call->argv[call->argc++] = *word;
}


static void
ngx_http_wq_event_call_add_literal(ngx_http_wq_event_call_t *call,
    const char *word)
{
    call->argv[call->argc].data = (u_char *) word;
    call->argv[call->argc].len = ngx_strlen(word);
    call->argc++;
}


/* buf has room for NGX_INT64_LEN bytes, and lives until the call is sent */

static void
ngx_http_wq_event_call_add_number(ngx_http_wq_event_call_t *call, u_char *buf,
    uint64_t n)
{
    call->argv[call->argc].data = buf;
    call->argv[call->argc].len = ngx_sprintf(buf, "%uL", n) - buf;
    call->argc++;
}


/*
 * Tokens are made of this: it must come from where keys come from.  seed has
 * room for NGX_HTTP_WQ_SEED_LEN bytes.
 */

static ngx_int_t
ngx_http_wq_event_call_add_seed(ngx_http_wq_event_call_t *call, u_char *seed)
{
    u_char  random[NGX_HTTP_WQ_SEED_LEN / 2];

    if (RAND_bytes(random, sizeof(random)) != 1) {
        return NGX_ERROR;
    }

    ngx_hex_dump(seed, random, sizeof(random));

    call->argv[call->argc].data = seed;
    call->argv[call->argc].len = NGX_HTTP_WQ_SEED_LEN;
    call->argc++;

    return NGX_OK;
}


static ngx_int_t
ngx_http_wq_event_call_send(ngx_http_wq_link_t *link,
    ngx_http_wq_script_e script, ngx_http_wq_event_call_t *call,
    const ngx_http_wq_reply_to_t *to)
{
    return ngx_http_wq_send_script(link, script, call->argv,
                                   NGX_HTTP_WQ_EVENT_KEYS, call->argc, to);
}
