
/*
 * core: every key the module has in Redis, in one table.
 *
 * Braces stand literally in the key: a Redis Cluster hash tag, so that all
 * keys of one event live in one slot.
 */


#ifndef WQ_KEY_H_INCLUDED_
#define WQ_KEY_H_INCLUDED_


#include "wq_core.h"


/*
 * X(constant, name on a single Redis, name on Redis Cluster)
 * %e: the event; %u: the user, the seat or the instance
 */

#define WQ_KEYS(X)                                                            \
    X(WAITING,       "WAITING:{%e}",       "WAITING:{%e}")                    \
    X(INDEX_RECORD,  "WAITING_QUEUE_INDEX_RECORD:{%e}",                       \
                     "WAITING_QUEUE_INDEX_RECORD:{%e}")                       \
    X(USER_IDS,      "WAITING_USER_IDS:{%e}",                                 \
                     "WAITING_USER_IDS:{%e}")                                 \
    X(IDX,           "WAITING_QUEUE_IDX",  "WAITING_QUEUE_IDX:{%e}")          \
    X(SLOTS,         "ENTRY_QUEUE_SLOTS",  "ENTRY_QUEUE_SLOTS:{%e}")          \
    X(ENTRY,         "ENTRY",              "ENTRY:{%e}")                      \
    X(DISPATCH,      "DISPATCH:{%u}",      "DISPATCH:{%u}")                   \
    X(TOKEN,         "ENTRY_TOKEN:{%e}:%u", "ENTRY_TOKEN:{%e}:%u")            \
    X(ACTIVE,        "ENTRY_ACTIVE:{%e}",  "ENTRY_ACTIVE:{%e}")               \
    X(LEASE,         "ENTRY_LEASE:{%e}",   "ENTRY_LEASE:{%e}")                \
    X(SEEN,          "WAITING_SEEN:{%e}",  "WAITING_SEEN:{%e}")               \
    X(GONE,          "WAITING_GONE:{%e}",  "WAITING_GONE:{%e}")               \
    X(STATS,         "WAITING_STATS:{%e}", "WAITING_STATS:{%e}")              \
    X(CONF,          "WAITING_QUEUE_CONF:{%e}",                               \
                     "WAITING_QUEUE_CONF:{%e}")                               \
    X(OVERRIDE,      "WAITING_QUEUE_OVERRIDE:{%e}",                           \
                     "WAITING_QUEUE_OVERRIDE:{%e}")                           \
    X(EVENTS,        "WAITING_EVENTS",     "WAITING_EVENTS")                  \
    X(INSTANCES,     "WAITING_INSTANCES",  "WAITING_INSTANCES")               \
    X(ORIGIN,        "WAITING_ORIGIN",     "WAITING_ORIGIN")                  \
    X(TASK_LIST,     "PROMOTION_TASK_LIST", "PROMOTION_TASK_LIST")            \
    X(PROMOTER,      "PROMOTION_LEASE",    "PROMOTION_LEASE")                 \
    X(ROUND,         "PROMOTION_ROUND",    "PROMOTION_ROUND")                 \
    X(SEAT_COUNT,    "seat:count:{%e}",    "seat:count:{%e}")                 \
    X(SEAT_LOCK,     "lock:seat:{%e}:%u",  "lock:seat:{%e}:%u")               \
    X(SEAT_LINE,     "lock:seat:{%e}:%u/waiting",                             \
                     "lock:seat:{%e}:%u/waiting")


typedef enum {
#define WQ_X(constant, single, cluster)  WQ_KEY_##constant,
    WQ_KEYS(WQ_X)
#undef WQ_X
    WQ_KEY_MAX
} wq_key_e;


typedef struct {
    wq_str_t   prefix;      /* stands before every key; may be empty */
    unsigned   cluster;
} wq_keyspace_t;


/*
 * The exact length of a key, and the key itself (not terminated by a zero,
 * returns the end).  event and user are ids that were checked; one that the
 * key does not hold may be NULL, one that it holds and that is NULL reads as
 * empty (that gives the prefix of the per-user keys, for scripts).
 */

size_t wq_key_size(const wq_keyspace_t *keyspace, wq_key_e key,
    const wq_str_t *event, const wq_str_t *user);
u_char *wq_key_write(u_char *p, const wq_keyspace_t *keyspace, wq_key_e key,
    const wq_str_t *event, const wq_str_t *user);


#endif /* WQ_KEY_H_INCLUDED_ */
