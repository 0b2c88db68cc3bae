
/* core: Redis' error replies by name, and what each asks of the link */


#ifndef WQ_REDIS_ERROR_H_INCLUDED_
#define WQ_REDIS_ERROR_H_INCLUDED_


#include "wq_core.h"


typedef enum {
    /* the command failed, the link is as good as before */
    WQ_REDIS_FAIL = 0,

    /* the connection is good but Redis cannot serve now: ask again later, on
     * the same connection */
    WQ_REDIS_WAIT,

    /* this is not, or no longer, the Redis to talk to */
    WQ_REDIS_RECONNECT
} wq_redis_action_e;


/* X(constant, code as Redis writes it, name in logs and status, action) */

#define WQ_REDIS_ERRORS(X)                                                    \
    X(LOADING,     "LOADING",     "loading",            WQ_REDIS_WAIT)        \
    X(BUSY,        "BUSY",        "busy_script",        WQ_REDIS_WAIT)        \
    X(MASTERDOWN,  "MASTERDOWN",  "master_down",        WQ_REDIS_WAIT)        \
    X(CLUSTERDOWN, "CLUSTERDOWN", "cluster_down",       WQ_REDIS_WAIT)        \
    X(READONLY,    "READONLY",    "read_only",          WQ_REDIS_RECONNECT)   \
    X(NOAUTH,      "NOAUTH",      "no_auth",            WQ_REDIS_RECONNECT)   \
    X(WRONGPASS,   "WRONGPASS",   "wrong_password",     WQ_REDIS_RECONNECT)   \
    X(MAXCLIENTS,  "ERR max number of clients", "max_clients",                \
                                                        WQ_REDIS_RECONNECT)   \
    X(DBINDEX,     "ERR DB index", "no_such_database",                        \
                                                        WQ_REDIS_RECONNECT)   \
    X(UNBLOCKED,   "UNBLOCKED",   "unblocked",          WQ_REDIS_FAIL)        \
    X(NOPERM,      "NOPERM",      "no_permission",      WQ_REDIS_FAIL)        \
    X(NOSCRIPT,    "NOSCRIPT",    "no_script",          WQ_REDIS_FAIL)        \
    X(OOM,         "OOM",         "out_of_memory",      WQ_REDIS_FAIL)        \
    X(MISCONF,     "MISCONF",     "cannot_persist",     WQ_REDIS_FAIL)        \
    X(NOREPLICAS,  "NOREPLICAS",  "too_few_replicas",   WQ_REDIS_FAIL)        \
    X(NOGROUP,     "NOGROUP",     "no_group",           WQ_REDIS_FAIL)        \
    X(BUSYGROUP,   "BUSYGROUP",   "group_exists",       WQ_REDIS_FAIL)        \
    X(WRONGTYPE,   "WRONGTYPE",   "wrong_type",         WQ_REDIS_FAIL)        \
    X(MOVED,       "MOVED",       "cluster_moved",      WQ_REDIS_FAIL)        \
    X(CROSSSLOT,   "CROSSSLOT",   "cluster_cross_slot", WQ_REDIS_FAIL)


typedef enum {
    WQ_REDIS_ERROR_NONE = 0,
#define WQ_X(constant, code, name, action)  WQ_REDIS_ERROR_##constant,
    WQ_REDIS_ERRORS(WQ_X)
#undef WQ_X
    WQ_REDIS_ERROR_OTHER,
    WQ_REDIS_ERROR_MAX
} wq_redis_error_e;


/*
 * Classifies the text of an error reply (without the leading '-').  Sees
 * through the wrapping that Redis before 7.0 puts round an error raised by a
 * command of a script ("ERR Error running script (...): @user_script:3: -OOM
 * ...", and the same as a table's err), and knows the older words for a wrong
 * password ("ERR invalid password").  A code counts only as a whole word:
 * "BUSYGROUP" is not "BUSY".  Never returns WQ_REDIS_ERROR_NONE.
 */

wq_redis_error_e wq_redis_error_classify(const u_char *text, size_t len);

const char *wq_redis_error_name(wq_redis_error_e error);
wq_redis_action_e wq_redis_error_action(wq_redis_error_e error);


#endif /* WQ_REDIS_ERROR_H_INCLUDED_ */
