
/* unit tests: every key the module has in Redis */


#include "unit.h"
#include "wq_id.h"
#include "wq_key.h"


#define GUARD  32


static wq_str_t
str(const char *s)
{
    wq_str_t  out;

    out.len = strlen(s);
    out.data = (u_char *) s;

    return out;
}


/* the key as a C string, or "" where anything about it is not as promised */

static const char *
key(const char *prefix, unsigned cluster, wq_key_e k, const wq_str_t *event,
    const wq_str_t *user)
{
    u_char         *p, *end;
    size_t          i, size;
    wq_keyspace_t   keyspace;
    static char     text[8192];

    keyspace.prefix.len = 0;
    keyspace.prefix.data = NULL;
    keyspace.cluster = cluster;

    if (prefix != NULL) {
        keyspace.prefix = str(prefix);
    }

    text[0] = '\0';
    size = wq_key_size(&keyspace, k, event, user);

    if (size >= sizeof(text)) {
        return "";
    }

    /* once in a buffer of the exact size, for the sanitizer */

    p = malloc(size);
    end = wq_key_write(p, &keyspace, k, event, user);

    if (end != p + size) {
        free(p);
        return "";
    }

    memcpy(text, p, size);
    text[size] = '\0';
    free(p);

    /* and once between guards */

    p = malloc(size + 2 * GUARD);
    memset(p, 0x5a, size + 2 * GUARD);
    end = wq_key_write(p + GUARD, &keyspace, k, event, user);

    if (memcmp(p + GUARD, text, size) != 0) {
        text[0] = '\0';
    }

    for (i = 0; i < GUARD; i++) {
        if (p[i] != 0x5a || end[i] != 0x5a) {
            text[0] = '\0';
        }
    }

    free(p);

    return text;
}


/* the names stand here once more, as the design has them */

static const struct {
    wq_key_e     key;
    const char  *single;
    const char  *cluster;
    const char  *single_empty;      /* without event and user */
} rows[] = {
    { WQ_KEY_WAITING, "WAITING:{e1}", "WAITING:{e1}", "WAITING:{}" },

    { WQ_KEY_INDEX_RECORD, "WAITING_QUEUE_INDEX_RECORD:{e1}",
      "WAITING_QUEUE_INDEX_RECORD:{e1}", "WAITING_QUEUE_INDEX_RECORD:{}" },

    { WQ_KEY_USER_IDS, "WAITING_USER_IDS:{e1}", "WAITING_USER_IDS:{e1}",
      "WAITING_USER_IDS:{}" },

    { WQ_KEY_IDX, "WAITING_QUEUE_IDX", "WAITING_QUEUE_IDX:{e1}",
      "WAITING_QUEUE_IDX" },

    { WQ_KEY_SLOTS, "ENTRY_QUEUE_SLOTS", "ENTRY_QUEUE_SLOTS:{e1}",
      "ENTRY_QUEUE_SLOTS" },

    { WQ_KEY_ENTRY, "ENTRY", "ENTRY:{e1}", "ENTRY" },

    { WQ_KEY_DISPATCH, "DISPATCH:{u1}", "DISPATCH:{u1}", "DISPATCH:{}" },

    { WQ_KEY_TOKEN, "ENTRY_TOKEN:{e1}:u1", "ENTRY_TOKEN:{e1}:u1",
      "ENTRY_TOKEN:{}:" },

    { WQ_KEY_ACTIVE, "ENTRY_ACTIVE:{e1}", "ENTRY_ACTIVE:{e1}",
      "ENTRY_ACTIVE:{}" },

    { WQ_KEY_LEASE, "ENTRY_LEASE:{e1}", "ENTRY_LEASE:{e1}",
      "ENTRY_LEASE:{}" },

    { WQ_KEY_SEEN, "WAITING_SEEN:{e1}", "WAITING_SEEN:{e1}",
      "WAITING_SEEN:{}" },

    { WQ_KEY_GONE, "WAITING_GONE:{e1}", "WAITING_GONE:{e1}",
      "WAITING_GONE:{}" },

    { WQ_KEY_STATS, "WAITING_STATS:{e1}", "WAITING_STATS:{e1}",
      "WAITING_STATS:{}" },

    { WQ_KEY_CONF, "WAITING_QUEUE_CONF:{e1}", "WAITING_QUEUE_CONF:{e1}",
      "WAITING_QUEUE_CONF:{}" },

    { WQ_KEY_OVERRIDE, "WAITING_QUEUE_OVERRIDE:{e1}",
      "WAITING_QUEUE_OVERRIDE:{e1}", "WAITING_QUEUE_OVERRIDE:{}" },

    { WQ_KEY_EVENTS, "WAITING_EVENTS", "WAITING_EVENTS", "WAITING_EVENTS" },

    { WQ_KEY_INSTANCES, "WAITING_INSTANCES", "WAITING_INSTANCES",
      "WAITING_INSTANCES" },

    { WQ_KEY_ORIGIN, "WAITING_ORIGIN", "WAITING_ORIGIN", "WAITING_ORIGIN" },

    { WQ_KEY_TASK_LIST, "PROMOTION_TASK_LIST", "PROMOTION_TASK_LIST",
      "PROMOTION_TASK_LIST" },

    { WQ_KEY_PROMOTER, "PROMOTION_LEASE", "PROMOTION_LEASE",
      "PROMOTION_LEASE" },

    { WQ_KEY_ROUND, "PROMOTION_ROUND", "PROMOTION_ROUND",
      "PROMOTION_ROUND" },

    { WQ_KEY_SEAT_COUNT, "seat:count:{e1}", "seat:count:{e1}",
      "seat:count:{}" },

    { WQ_KEY_SEAT_LOCK, "lock:seat:{e1}:u1", "lock:seat:{e1}:u1",
      "lock:seat:{}:" },

    { WQ_KEY_SEAT_LINE, "lock:seat:{e1}:u1/waiting",
      "lock:seat:{e1}:u1/waiting", "lock:seat:{}:/waiting" }
};


static void
test_names(void)
{
    char      want[128];
    size_t    i;
    wq_str_t  event, user, empty;

    event = str("e1");
    user = str("u1");

    empty.len = 0;
    empty.data = NULL;

    unit_ok(unit_nitems(rows) == WQ_KEY_MAX, "the table knows every key");

    for (i = 0; i < unit_nitems(rows); i++) {
        unit_ok(rows[i].key == (wq_key_e) i, "row %zu is key %zu", i, i);

        unit_ok(strcmp(key(NULL, 0, rows[i].key, &event, &user),
                       rows[i].single) == 0,
                "%s", rows[i].single);

        unit_ok(strcmp(key(NULL, 1, rows[i].key, &event, &user),
                       rows[i].cluster) == 0,
                "%s on a cluster", rows[i].cluster);

        unit_ok(strcmp(key(NULL, 2, rows[i].key, &event, &user),
                       rows[i].cluster) == 0,
                "%s: any cluster but 0 is one", rows[i].cluster);

        snprintf(want, sizeof(want), "shop:%s", rows[i].single);
        unit_ok(strcmp(key("shop:", 0, rows[i].key, &event, &user), want) == 0,
                "%s", want);

        snprintf(want, sizeof(want), "shop:%s", rows[i].cluster);
        unit_ok(strcmp(key("shop:", 1, rows[i].key, &event, &user), want) == 0,
                "%s on a cluster", want);

        unit_ok(strcmp(key("", 0, rows[i].key, NULL, NULL),
                       rows[i].single_empty) == 0,
                "%s without ids", rows[i].single_empty);

        unit_ok(strcmp(key("", 0, rows[i].key, &empty, &empty),
                       rows[i].single_empty) == 0,
                "%s with empty ids", rows[i].single_empty);
    }
}


static void
test_ids(void)
{
    char      longest[WQ_ID_MAX + 1], want[512];
    wq_str_t  event, user;

    event = str("a");
    unit_ok(strcmp(key("p", 0, WQ_KEY_TOKEN, &event, NULL),
                   "pENTRY_TOKEN:{a}:") == 0,
            "the prefix of the tokens of one event");

    user = str("node-1-2");
    unit_ok(strcmp(key(NULL, 1, WQ_KEY_DISPATCH, NULL, &user),
                   "DISPATCH:{node-1-2}") == 0,
            "an instance needs no event");

    event = str("%u");
    user = str("%e");
    unit_ok(strcmp(key("%e%u%", 0, WQ_KEY_TOKEN, &event, &user),
                   "%e%u%ENTRY_TOKEN:{%u}:%e") == 0,
            "what stands in an id or in the prefix is not expanded");

    memset(longest, 'z', WQ_ID_MAX);
    longest[WQ_ID_MAX] = '\0';
    event = str(longest);
    user = str(longest);
    snprintf(want, sizeof(want), "lock:seat:{%s}:%s", longest, longest);
    unit_ok(strcmp(key(NULL, 0, WQ_KEY_SEAT_LOCK, &event, &user), want) == 0,
            "the longest ids");

    event.len = 3;
    user.len = 1;
    unit_ok(strcmp(key(NULL, 0, WQ_KEY_TOKEN, &event, &user),
                   "ENTRY_TOKEN:{zzz}:z") == 0,
            "an id ends by its length, not by a zero");
}


static void
test_no_key(void)
{
    u_char         p[4];
    wq_keyspace_t  keyspace;

    memset(p, 7, sizeof(p));
    keyspace.prefix = str("prefix");
    keyspace.cluster = 0;

    unit_ok(wq_key_size(&keyspace, WQ_KEY_MAX, NULL, NULL) == 0
            && wq_key_write(p, &keyspace, WQ_KEY_MAX, NULL, NULL) == p
            && p[0] == 7,
            "a key that is not in the table is nothing");
}


int
main(void)
{
    test_names();
    test_ids();
    test_no_key();

    return unit_done();
}
