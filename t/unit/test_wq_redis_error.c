
/*
 * unit tests: Redis' error replies.
 *
 * The texts are those of redis-server 7.0.15, and of 6.2 and 5.0 where these
 * differ.
 */


#include "unit.h"
#include "wq_redis_error.h"


#define RUN_6_2                                                               \
    "ERR Error running script (call to "                                      \
    "f_df29fefeda182142c682a93cf04ced984a3b3225): @user_script:3: "

#define RUN_7_0                                                               \
    " script: df29fefeda182142c682a93cf04ced984a3b3225, on @user_script:1."


static wq_redis_error_e
classify(const char *text, size_t len)
{
    u_char            *copy;
    wq_redis_error_e   error;

    copy = unit_copy(text, len);
    error = wq_redis_error_classify(copy, len);
    free(copy);

    return error;
}


static const struct {
    const char        *text;
    wq_redis_error_e   error;
} plain[] = {
    { "LOADING Redis is loading the dataset in memory",
      WQ_REDIS_ERROR_LOADING },

    { "BUSY Redis is busy running a script. You can only call SCRIPT KILL or "
      "SHUTDOWN NOSAVE.",
      WQ_REDIS_ERROR_BUSY },

    { "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set "
      "to 'no'.",
      WQ_REDIS_ERROR_MASTERDOWN },

    { "CLUSTERDOWN Hash slot not served", WQ_REDIS_ERROR_CLUSTERDOWN },
    { "CLUSTERDOWN The cluster is down", WQ_REDIS_ERROR_CLUSTERDOWN },

    { "READONLY You can't write against a read only replica.",
      WQ_REDIS_ERROR_READONLY },

    { "NOAUTH Authentication required.", WQ_REDIS_ERROR_NOAUTH },

    { "WRONGPASS invalid username-password pair or user is disabled.",
      WQ_REDIS_ERROR_WRONGPASS },

    { "ERR invalid password", WQ_REDIS_ERROR_WRONGPASS },

    { "ERR The user executing the script can't run this command or "
      "subcommand script: 9bbb, on @user_script:1.", WQ_REDIS_ERROR_NOPERM },

    { "ERR Error running script (call to f_1a): @user_script:1: "
      "@user_script: 1: -NOPERM this user has no permissions to run the "
      "'set' command", WQ_REDIS_ERROR_NOPERM },

    { "ERR max number of clients reached", WQ_REDIS_ERROR_MAXCLIENTS },

    { "ERR DB index is out of range", WQ_REDIS_ERROR_DBINDEX },

    { "ERR max number of clients + cluster connections reached",
      WQ_REDIS_ERROR_MAXCLIENTS },

    { "UNBLOCKED client unblocked via CLIENT UNBLOCK",
      WQ_REDIS_ERROR_UNBLOCKED },

    { "UNBLOCKED force unblock from blocking operation, instance state changed"
      " (master -> replica?)",
      WQ_REDIS_ERROR_UNBLOCKED },

    { "NOPERM this user has no permissions to run the 'set' command",
      WQ_REDIS_ERROR_NOPERM },

    { "NOSCRIPT No matching script. Please use EVAL.",
      WQ_REDIS_ERROR_NOSCRIPT },

    { "OOM command not allowed when used memory > 'maxmemory'.",
      WQ_REDIS_ERROR_OOM },

    { "MISCONF Redis is configured to save RDB snapshots, but it's currently "
      "unable to persist to disk.",
      WQ_REDIS_ERROR_MISCONF },

    { "NOREPLICAS Not enough good replicas to write.",
      WQ_REDIS_ERROR_NOREPLICAS },

    { "NOGROUP No such key 'nos' or consumer group 'g' in XREADGROUP with GROUP"
      " option",
      WQ_REDIS_ERROR_NOGROUP },

    { "WRONGTYPE Operation against a key holding the wrong kind of value",
      WQ_REDIS_ERROR_WRONGTYPE },

    { "MOVED 3999 127.0.0.1:6381", WQ_REDIS_ERROR_MOVED },

    { "CROSSSLOT Keys in request don't hash to the same slot",
      WQ_REDIS_ERROR_CROSSSLOT },

    { "ERR AUTH <password> called without any password configured for the "
      "default user. Are you sure your configuration is correct?",
      WQ_REDIS_ERROR_OTHER },

    { "ERR Client sent AUTH, but no password is set", WQ_REDIS_ERROR_OTHER },
    { "ERR unknown command 'FOO', with args beginning with: ",
      WQ_REDIS_ERROR_OTHER },
    { "BUSYGROUP Consumer Group name already exists",
      WQ_REDIS_ERROR_BUSYGROUP },
    { "BUSYKEY Target key name already exists.", WQ_REDIS_ERROR_OTHER },
    { "TRYAGAIN Multiple keys request during rehashing of slot",
      WQ_REDIS_ERROR_OTHER },
    { "ASK 3999 127.0.0.1:6381", WQ_REDIS_ERROR_OTHER },
    { "NOTBUSY No scripts in execution right now.", WQ_REDIS_ERROR_OTHER },
    { "ERR", WQ_REDIS_ERROR_OTHER },
    { "ERR ", WQ_REDIS_ERROR_OTHER },
    { "", WQ_REDIS_ERROR_OTHER },
    { " ", WQ_REDIS_ERROR_OTHER },
    { "-", WQ_REDIS_ERROR_OTHER },
    { " OOM with a space before", WQ_REDIS_ERROR_OTHER },
    { "oom in small letters", WQ_REDIS_ERROR_OTHER },
    { "ERR something OOM in the middle", WQ_REDIS_ERROR_OTHER },
    { "ERR something: -OOM in the middle", WQ_REDIS_ERROR_OTHER },
    { "ERR OOM", WQ_REDIS_ERROR_OTHER },
    { "ERR max number of clientsX", WQ_REDIS_ERROR_OTHER },
    { "ERR max number of", WQ_REDIS_ERROR_OTHER },
    { "ERR invalid passwords", WQ_REDIS_ERROR_OTHER },
    { "ERR invalid", WQ_REDIS_ERROR_OTHER },
    { "MY own error", WQ_REDIS_ERROR_OTHER }
};


static const struct {
    const char        *text;
    wq_redis_error_e   error;
} wrapped[] = {
    { RUN_6_2 "WRONGTYPE Operation against a key holding the wrong kind of "
      "value",
      WQ_REDIS_ERROR_WRONGTYPE },

    { RUN_6_2 "@user_script: 3: -OOM command not allowed when used memory > "
      "'maxmemory'.",
      WQ_REDIS_ERROR_OOM },

    { RUN_6_2 "@user_script: 3: -READONLY You can't write against a read only "
      "replica.",
      WQ_REDIS_ERROR_READONLY },

    { RUN_6_2 "@user_script: 3: -NOREPLICAS Not enough good replicas to write.",
      WQ_REDIS_ERROR_NOREPLICAS },

    { RUN_6_2 "-OOM command not allowed", WQ_REDIS_ERROR_OOM },
    { RUN_6_2 "-OOM", WQ_REDIS_ERROR_OOM },
    { RUN_6_2 "OOM", WQ_REDIS_ERROR_OOM },

    { "@user_script: 12: -OOM command not allowed when used memory > "
      "'maxmemory'.",
      WQ_REDIS_ERROR_OOM },

    { "@user_script:12: -MISCONF Redis is configured to save",
      WQ_REDIS_ERROR_MISCONF },

    { "OOM command not allowed when used memory > 'maxmemory'." RUN_7_0,
      WQ_REDIS_ERROR_OOM },

    { "WRONGTYPE Operation against a key holding the wrong kind of value"
      RUN_7_0,
      WQ_REDIS_ERROR_WRONGTYPE },

    { "ERR user_script:1: WRONGTYPE Operation against a key holding the wrong "
      "kind of value" RUN_7_0,
      WQ_REDIS_ERROR_WRONGTYPE },

    { "ERR Script attempted to access a non local key in a cluster node"
      RUN_7_0,
      WQ_REDIS_ERROR_OTHER },

    { "ERR user_script:1: Script attempted to access nonexistent global "
      "variable 'foo'" RUN_7_0,
      WQ_REDIS_ERROR_OTHER },

    { "ERR Error compiling script (new function): user_script:1: unexpected "
      "symbol near '<eof>'",
      WQ_REDIS_ERROR_OTHER },

    { RUN_6_2 "Script attempted to access nonexistent global variable 'foo'",
      WQ_REDIS_ERROR_OTHER },

    { RUN_6_2 "BUSYGROUP Consumer Group name already exists",
      WQ_REDIS_ERROR_BUSYGROUP },

    { RUN_6_2 "BUSYKEY Target key name already exists.",
      WQ_REDIS_ERROR_OTHER },

    { RUN_6_2, WQ_REDIS_ERROR_OTHER },
    { RUN_6_2 "--OOM two dashes", WQ_REDIS_ERROR_OTHER },
    { RUN_6_2 "my text with OOM inside", WQ_REDIS_ERROR_OTHER },
    { "ERR Error running script (no end: OOM", WQ_REDIS_ERROR_OTHER },
    { "ERR Error running scripts (x): OOM", WQ_REDIS_ERROR_OTHER },
    { "ERR Error running script (x):OOM", WQ_REDIS_ERROR_OTHER },
    { "ERR Error running script (", WQ_REDIS_ERROR_OTHER },
    { "@user_script: -OOM no line", WQ_REDIS_ERROR_OTHER },
    { "@user_script:  3: -OOM two spaces", WQ_REDIS_ERROR_OTHER },
    { "@user_script:3 -OOM no colon", WQ_REDIS_ERROR_OTHER },
    { "@user_script:3:-OOM no space", WQ_REDIS_ERROR_OTHER },
    { "@user_script:3x: OOM", WQ_REDIS_ERROR_OTHER },
    { "@other_script:3: OOM", WQ_REDIS_ERROR_OTHER }
};


static const struct {
    wq_redis_error_e    error;
    const char         *code;
    const char         *name;
    wq_redis_action_e   action;
} errors[] = {
    { WQ_REDIS_ERROR_LOADING, "LOADING", "loading", WQ_REDIS_WAIT },
    { WQ_REDIS_ERROR_BUSY, "BUSY", "busy_script", WQ_REDIS_WAIT },
    { WQ_REDIS_ERROR_MASTERDOWN, "MASTERDOWN", "master_down", WQ_REDIS_WAIT },
    { WQ_REDIS_ERROR_CLUSTERDOWN, "CLUSTERDOWN", "cluster_down",
      WQ_REDIS_WAIT },
    { WQ_REDIS_ERROR_READONLY, "READONLY", "read_only", WQ_REDIS_RECONNECT },
    { WQ_REDIS_ERROR_NOAUTH, "NOAUTH", "no_auth", WQ_REDIS_RECONNECT },
    { WQ_REDIS_ERROR_WRONGPASS, "WRONGPASS", "wrong_password",
      WQ_REDIS_RECONNECT },
    { WQ_REDIS_ERROR_MAXCLIENTS, "ERR max number of clients", "max_clients",
      WQ_REDIS_RECONNECT },
    { WQ_REDIS_ERROR_DBINDEX, "ERR DB index", "no_such_database",
      WQ_REDIS_RECONNECT },
    { WQ_REDIS_ERROR_UNBLOCKED, "UNBLOCKED", "unblocked", WQ_REDIS_FAIL },
    { WQ_REDIS_ERROR_NOPERM, "NOPERM", "no_permission", WQ_REDIS_FAIL },
    { WQ_REDIS_ERROR_NOSCRIPT, "NOSCRIPT", "no_script", WQ_REDIS_FAIL },
    { WQ_REDIS_ERROR_OOM, "OOM", "out_of_memory", WQ_REDIS_FAIL },
    { WQ_REDIS_ERROR_MISCONF, "MISCONF", "cannot_persist", WQ_REDIS_FAIL },
    { WQ_REDIS_ERROR_NOREPLICAS, "NOREPLICAS", "too_few_replicas",
      WQ_REDIS_FAIL },
    { WQ_REDIS_ERROR_NOGROUP, "NOGROUP", "no_group", WQ_REDIS_FAIL },
    { WQ_REDIS_ERROR_BUSYGROUP, "BUSYGROUP", "group_exists", WQ_REDIS_FAIL },
    { WQ_REDIS_ERROR_WRONGTYPE, "WRONGTYPE", "wrong_type", WQ_REDIS_FAIL },
    { WQ_REDIS_ERROR_MOVED, "MOVED", "cluster_moved", WQ_REDIS_FAIL },
    { WQ_REDIS_ERROR_CROSSSLOT, "CROSSSLOT", "cluster_cross_slot",
      WQ_REDIS_FAIL },
    { WQ_REDIS_ERROR_NONE, NULL, "none", WQ_REDIS_FAIL },
    { WQ_REDIS_ERROR_OTHER, NULL, "other", WQ_REDIS_FAIL },
    { WQ_REDIS_ERROR_MAX, NULL, "other", WQ_REDIS_FAIL }
};


static void
test_texts(void)
{
    size_t  i;

    for (i = 0; i < unit_nitems(plain); i++) {
        unit_ok(classify(plain[i].text, strlen(plain[i].text))
                == plain[i].error,
                "\"%s\" is %s", plain[i].text,
                wq_redis_error_name(plain[i].error));
    }

    for (i = 0; i < unit_nitems(wrapped); i++) {
        unit_ok(classify(wrapped[i].text, strlen(wrapped[i].text))
                == wrapped[i].error,
                "\"%s\" is %s", wrapped[i].text,
                wq_redis_error_name(wrapped[i].error));
    }

    unit_ok(wq_redis_error_classify(NULL, 0) == WQ_REDIS_ERROR_OTHER,
            "NULL is another error");
    unit_ok(classify("OOM\0x", 5) == WQ_REDIS_ERROR_OTHER,
            "a zero is part of the word");
}


static void
test_table(void)
{
    char    text[64];
    size_t  i;

    unit_ok(unit_nitems(errors) == WQ_REDIS_ERROR_MAX + 1,
            "the table knows every error");

    for (i = 0; i < unit_nitems(errors); i++) {
        unit_ok(strcmp(wq_redis_error_name(errors[i].error), errors[i].name)
                == 0,
                "name %s", errors[i].name);

        unit_ok(wq_redis_error_action(errors[i].error) == errors[i].action,
                "action of %s", errors[i].name);

        if (errors[i].code == NULL) {
            continue;
        }

        unit_ok(classify(errors[i].code, strlen(errors[i].code))
                == errors[i].error,
                "%s alone", errors[i].code);

        snprintf(text, sizeof(text), "%sX and more", errors[i].code);
        unit_ok(classify(text, strlen(text)) == WQ_REDIS_ERROR_OTHER,
                "%s", text);

        snprintf(text, sizeof(text), "X%s and more", errors[i].code);
        unit_ok(classify(text, strlen(text)) == WQ_REDIS_ERROR_OTHER,
                "%s", text);
    }
}


/* cut anywhere, a text gives its error or an unknown one, and nothing is read
 * behind the cut */

static void
test_truncated(void)
{
    int               good;
    size_t            i, len, word;
    wq_redis_error_e  error;

    for (i = 0; i < unit_nitems(wrapped); i++) {
        good = 1;

        for (len = 0; len <= strlen(wrapped[i].text); len++) {
            error = classify(wrapped[i].text, len);

            good &= error > WQ_REDIS_ERROR_NONE
                    && error < WQ_REDIS_ERROR_MAX;

            /* a "BUSYGROUP" or "BUSYKEY" cut short is a "BUSY" */

            good &= error == wrapped[i].error
                    || error == WQ_REDIS_ERROR_OTHER
                    || (error == WQ_REDIS_ERROR_BUSY
                        && memcmp(&wrapped[i].text[len - 4], "BUSY", 4) == 0);
        }

        unit_ok(good, "cut at every length: \"%s\"", wrapped[i].text);
    }

    for (i = 0; i < unit_nitems(plain); i++) {

        if (plain[i].error == WQ_REDIS_ERROR_OTHER
            || strncmp(plain[i].text, "ERR", 3) == 0)
        {
            continue;
        }

        word = strcspn(plain[i].text, " ");
        good = 1;

        for (len = 0; len <= strlen(plain[i].text); len++) {
            error = classify(plain[i].text, len);

            if (len >= word) {
                good &= error == plain[i].error;

            } else if (len == 4 && memcmp(plain[i].text, "BUSY", 4) == 0) {
                good &= error == WQ_REDIS_ERROR_BUSY;

            } else {
                good &= error == WQ_REDIS_ERROR_OTHER;
            }
        }

        unit_ok(good, "from the whole word on: \"%s\"", plain[i].text);
    }
}


static void
test_long(void)
{
    char    *text, *p;
    size_t   i, len;

    len = 4 * 1024 * 1024;
    text = malloc(len);

    memset(text, 'x', len);
    memcpy(text, "ERR Error running script (", 26);
    unit_ok(classify(text, len) == WQ_REDIS_ERROR_OTHER,
            "4 MB without an end of the wrapping");

    for (p = text, i = 0; i < len / 16; i++, p += 16) {
        memcpy(p, "@user_script:3: ", 16);
    }

    unit_ok(classify(text, len) == WQ_REDIS_ERROR_OTHER, "4 MB of wrapping");

    memcpy(text + len - 16, "NOAUTH needed...", 16);
    unit_ok(classify(text, len) == WQ_REDIS_ERROR_NOAUTH,
            "4 MB of wrapping with a code inside");

    free(text);
}


int
main(void)
{
    test_texts();
    test_table();
    test_truncated();
    test_long();

    return unit_done();
}
