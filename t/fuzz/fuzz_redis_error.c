
/*
 * fuzz: a code is seen exactly where it stands as a whole word, with and
 * without the wrapping of a script.
 */


#include <stdlib.h>
#include <string.h>

#include "wq_redis_error.h"


#define MAX  2048
#define RUN  "ERR Error running script (call to f_0a1b): @user_script:3: "


int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);


#define WQ_X(constant, code, name, action)  code,
static const char *const  codes[] = {
    "",
    WQ_REDIS_ERRORS(WQ_X)
};
#undef WQ_X


static void
require(int condition)
{
    if (!condition) {
        abort();
    }
}


/* between two others, in a buffer that ends where the text ends */

static wq_redis_error_e
between(const char *before, const uint8_t *data, size_t size,
    const char *after)
{
    size_t             n, m;
    u_char            *p;
    wq_redis_error_e   error;

    n = strlen(before);
    m = strlen(after);
    p = malloc(n + size + m);

    memcpy(p, before, n);

    if (size > 0) {
        memcpy(p + n, data, size);
    }

    memcpy(p + n + size, after, m);

    error = wq_redis_error_classify(p, n + size + m);

    free(p);

    return error;
}


static const struct {
    const char        *text;
    wq_redis_error_e   error;
} phrases[] = {
    { "ERR invalid password", WQ_REDIS_ERROR_WRONGPASS },
    { "The user executing the script can't run this command or subcommand",
      WQ_REDIS_ERROR_NOPERM },
    { "ERR The user executing the script can't run this command or subcommand",
      WQ_REDIS_ERROR_NOPERM },
    { "The user executing the script can't access", WQ_REDIS_ERROR_NOPERM },
    { "ERR The user executing the script can't access", WQ_REDIS_ERROR_NOPERM }
};


/* what a text is that has no wrapping at all */

static wq_redis_error_e
expected(const uint8_t *data, size_t size)
{
    size_t    len;
    unsigned  i;

    for (i = 1; i < WQ_REDIS_ERROR_OTHER; i++) {
        len = strlen(codes[i]);

        if (size >= len && memcmp(data, codes[i], len) == 0
            && (size == len || data[len] == ' '))
        {
            return (wq_redis_error_e) i;
        }
    }

    for (i = 0; i < sizeof(phrases) / sizeof(phrases[0]); i++) {
        len = strlen(phrases[i].text);

        if (size >= len && memcmp(data, phrases[i].text, len) == 0
            && (size == len || data[len] == ' '))
        {
            return phrases[i].error;
        }
    }

    return WQ_REDIS_ERROR_OTHER;
}


static int
contains(const uint8_t *data, size_t size, const char *word)
{
    size_t  i, len;

    len = strlen(word);

    for (i = 0; i + len <= size; i++) {
        if (memcmp(data + i, word, len) == 0) {
            return 1;
        }
    }

    return 0;
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t             i;
    wq_redis_error_e   error;
    const char        *name;

    static const char *const  wrappings[] = {
        RUN,
        (RUN "@user_script: 12: "),
        "@user_script: 7: ",
        "@user_script:7: ",
        "ERR user_script:1: "
    };

    static const char *const  dashed[] = {
        (RUN "@user_script: 12: -"),
        "@user_script: 7: -",
        "ERR user_script:1: -"
    };

    if (size > MAX) {
        return 0;
    }

    error = wq_redis_error_classify(data, size);
    require(error > WQ_REDIS_ERROR_NONE && error < WQ_REDIS_ERROR_MAX);

    name = wq_redis_error_name(error);
    require(name != NULL && name[0] != '\0');
    require(wq_redis_error_action(error) <= WQ_REDIS_RECONNECT);

    /* nothing is seen that is not there */

    if (error != WQ_REDIS_ERROR_OTHER) {
        require(contains(data, size, codes[error])
                || (error == WQ_REDIS_ERROR_WRONGPASS
                    && contains(data, size, "ERR invalid password"))
                || (error == WQ_REDIS_ERROR_NOPERM
                    && contains(data, size, "user executing the script")));
    }

    if (!contains(data, size, "user_script:")
        && !contains(data, size, "ERR Error running script (")
        && (size == 0 || data[0] != '-'))
    {
        require(error == expected(data, size));

        for (i = 0; i < sizeof(dashed) / sizeof(dashed[0]); i++) {
            require(between(dashed[i], data, size, "") == error);
        }
    }

    for (i = 0; i < sizeof(wrappings) / sizeof(wrappings[0]); i++) {
        require(between(wrappings[i], data, size, "") == error);
    }

    require(between("", data, size, " script: 0a1b, on @user_script:1.")
            == error);

    return 0;
}
