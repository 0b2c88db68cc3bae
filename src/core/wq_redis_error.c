
/* core: Redis' error replies by name, and what each asks of the link */


#include <string.h>

#include "wq_redis_error.h"


typedef struct {
    wq_str_t            code;
    const char         *name;
    wq_redis_action_e   action;
} wq_redis_error_t;


static wq_str_t wq_redis_error_unwrap(wq_str_t text);
static size_t wq_redis_error_script(wq_str_t text);
static size_t wq_redis_error_line(wq_str_t text);
static int wq_redis_error_word(wq_str_t text, const wq_str_t *code);
static int wq_redis_error_starts(wq_str_t text, const wq_str_t *start);
static wq_str_t wq_redis_error_skip(wq_str_t text, size_t n);


/* in the order of wq_redis_error_e */

#define WQ_X(constant, code, name, action)                                    \
    { wq_string(code), name, action },
static const wq_redis_error_t  wq_redis_errors[WQ_REDIS_ERROR_MAX] = {
    { wq_string(""), "none", WQ_REDIS_FAIL },
    WQ_REDIS_ERRORS(WQ_X)
    { wq_string(""), "other", WQ_REDIS_FAIL }
};
#undef WQ_X


/* errors that have a name, but not where they are raised */

static const struct {
    wq_str_t           text;
    wq_redis_error_e   error;
} wq_redis_error_phrases[] = {

    /* before 6.0, which had no WRONGPASS */
    { wq_string("ERR invalid password"), WQ_REDIS_ERROR_WRONGPASS },

    /* in a script, up to 7.0 and from 7.0 on */
    { wq_string("The user executing the script can't run this command or "
                "subcommand"), WQ_REDIS_ERROR_NOPERM },
    { wq_string("ERR The user executing the script can't run this command or "
                "subcommand"), WQ_REDIS_ERROR_NOPERM },
    { wq_string("The user executing the script can't access"),
      WQ_REDIS_ERROR_NOPERM },
    { wq_string("ERR The user executing the script can't access"),
      WQ_REDIS_ERROR_NOPERM }
};


wq_redis_error_e
wq_redis_error_classify(const u_char *data, size_t len)
{
    unsigned  i;
    wq_str_t  text;

    text.len = len;
    text.data = (u_char *) data;

    text = wq_redis_error_unwrap(text);

    for (i = WQ_REDIS_ERROR_NONE + 1; i < WQ_REDIS_ERROR_OTHER; i++) {
        if (wq_redis_error_word(text, &wq_redis_errors[i].code)) {
            return (wq_redis_error_e) i;
        }
    }

    for (i = 0;
         i < sizeof(wq_redis_error_phrases) / sizeof(*wq_redis_error_phrases);
         i++)
    {
        if (wq_redis_error_word(text, &wq_redis_error_phrases[i].text)) {
            return wq_redis_error_phrases[i].error;
        }
    }

    return WQ_REDIS_ERROR_OTHER;
}


const char *
wq_redis_error_name(wq_redis_error_e error)
{
    if ((unsigned) error >= WQ_REDIS_ERROR_MAX) {
        error = WQ_REDIS_ERROR_OTHER;
    }

    return wq_redis_errors[error].name;
}


wq_redis_action_e
wq_redis_error_action(wq_redis_error_e error)
{
    if ((unsigned) error >= WQ_REDIS_ERROR_MAX) {
        error = WQ_REDIS_ERROR_OTHER;
    }

    return wq_redis_errors[error].action;
}


/*
 * The wrapping comes in layers, and which of them are there depends on the
 * version and on the way of the error through the script:
 *
 *     ERR Error running script (call to f_...): @user_script:1: WRONGTYPE ...
 *     ERR Error running script (call to f_...): @user_script:1:
 *                                               @user_script: 1: -OOM ...
 *     @user_script: 1: -OOM ...
 *     ERR user_script:1: WRONGTYPE ...
 *
 * (6.2 by call(), by a limit of Redis itself, the same by pcall(); 7.0 by
 * error() with a text).
 */

static wq_str_t
wq_redis_error_unwrap(wq_str_t text)
{
    size_t  n;

    static const wq_str_t  err = wq_string("ERR ");

    for ( ;; ) {

        n = wq_redis_error_script(text);

        if (n == 0) {
            n = wq_redis_error_line(text);
        }

        if (n == 0 && wq_redis_error_starts(text, &err)) {
            n = wq_redis_error_line(wq_redis_error_skip(text, err.len));

            if (n > 0) {
                n += err.len;
            }
        }

        if (n == 0) {
            break;
        }

        text = wq_redis_error_skip(text, n);
    }

    if (text.len > 0 && text.data[0] == '-') {
        text = wq_redis_error_skip(text, 1);
    }

    return text;
}


/* the length of "ERR Error running script (...): ", or 0 */

static size_t
wq_redis_error_script(wq_str_t text)
{
    size_t  i;

    static const wq_str_t  start = wq_string("ERR Error running script (");
    static const wq_str_t  end = wq_string("): ");

    if (!wq_redis_error_starts(text, &start)) {
        return 0;
    }

    for (i = start.len; i < text.len; i++) {
        if (wq_redis_error_starts(wq_redis_error_skip(text, i), &end)) {
            return i + end.len;
        }
    }

    return 0;
}


/* the length of "@user_script:3: ", "@user_script: 3: ", "user_script:3: " */

static size_t
wq_redis_error_line(wq_str_t text)
{
    size_t  i, digits;

    static const wq_str_t  name = wq_string("user_script:");

    i = 0;

    if (text.len > 0 && text.data[0] == '@') {
        i++;
    }

    if (!wq_redis_error_starts(wq_redis_error_skip(text, i), &name)) {
        return 0;
    }

    i += name.len;

    if (i < text.len && text.data[i] == ' ') {
        i++;
    }

    digits = i;

    while (i < text.len && text.data[i] >= '0' && text.data[i] <= '9') {
        i++;
    }

    if (i == digits || text.len - i < 2) {
        return 0;
    }

    if (text.data[i] != ':' || text.data[i + 1] != ' ') {
        return 0;
    }

    return i + 2;
}


static int
wq_redis_error_word(wq_str_t text, const wq_str_t *code)
{
    if (!wq_redis_error_starts(text, code)) {
        return 0;
    }

    return text.len == code->len || text.data[code->len] == ' ';
}


static int
wq_redis_error_starts(wq_str_t text, const wq_str_t *start)
{
    return text.len >= start->len
           && memcmp(text.data, start->data, start->len) == 0;
}


static wq_str_t
wq_redis_error_skip(wq_str_t text, size_t n)
{
    /* a NULL with an offset of 0 is not worth an undefined sum */

    if (n > 0) {
        text.data += n;
        text.len -= n;
    }

    return text;
}
