
/* unit tests: what a message of ENTRY or DISPATCH says */


#include "unit.h"
#include "wq_notice.h"


#define TOKEN  "0123456789abcdef0123456789abcdef01234567"


/*
 * A text is a string behind a "=", so that it is not taken for a message, whose
 * first byte is a zero; NULL is nil.
 */

typedef struct {
    char          zero;
    size_t        n;
    const char  **text;
} message_t;


static wq_reply_type_e
node_type(const void *p)
{
    return *(const char *) p == '\0' ? WQ_REPLY_ARRAY : WQ_REPLY_STRING;
}


static int64_t
node_integer(const void *p)
{
    return 0;
}


static wq_str_t
node_string(const void *p)
{
    wq_str_t  s;

    s.data = (u_char *) p + 1;
    s.len = strlen((const char *) p) - 1;

    return s;
}


static size_t
node_elements(const void *p)
{
    return ((const message_t *) p)->n;
}


static const void *
node_element(const void *p, size_t i)
{
    return ((const message_t *) p)->text[i];
}


static const wq_reply_reader_t  reader = {
    node_type, node_integer, node_string, node_elements, node_element
};


static const char  *good[] = {
    "=type", "=promoted", "=userId", "=u1", "=eventId", "=e1", "=instanceId",
    "=node-1-2", "=idx", "=5", "=token", "=" TOKEN, "=expiresAt",
    "=1700000000000", "=serial", "=7"
};


static wq_rc_t
decode(const char **text, size_t n, wq_notice_t *notice)
{
    wq_reply_t  reply;
    message_t   message;

    message.zero = '\0';
    message.n = n;
    message.text = text;

    reply.reader = &reader;
    reply.node = &message;

    return wq_notice_decode(reply, notice);
}


/* the good one, but for one text */

static wq_rc_t
changed(size_t i, const char *text, wq_notice_t *notice)
{
    const char  *copy[unit_nitems(good)];

    memcpy(copy, good, sizeof(good));
    copy[i] = text;

    return decode(copy, unit_nitems(good), notice);
}


static int
is(wq_str_t s, const char *text)
{
    return s.len == strlen(text) && memcmp(s.data, text, s.len) == 0;
}


static void
test_good(void)
{
    size_t        i;
    wq_notice_t   notice;
    const char   *more[unit_nitems(good) + 5];

    unit_ok(decode(good, unit_nitems(good), &notice) == WQ_OK, "a good one");
    unit_ok(notice.type == WQ_NOTICE_PROMOTED, "its type");
    unit_ok(is(notice.user, "u1") && is(notice.event, "e1")
            && is(notice.instance, "node-1-2") && is(notice.token, TOKEN),
            "its ids and its token");
    unit_ok(notice.idx == 5 && notice.expires == 1700000000000
            && notice.serial == 7, "its numbers");

    for (i = 0; i < WQ_NOTICE_MAX; i++) {
        char  word[32];

        snprintf(word, sizeof(word), "=%s", wq_notice_word((wq_notice_e) i));
        unit_ok(changed(1, word, &notice) == WQ_OK && notice.type == i,
                "type %s", word + 1);
    }

    unit_ok(strcmp(wq_notice_word(WQ_NOTICE_MAX), "") == 0, "no such notice");

    /* others in front, the same again and half a pair behind */

    more[0] = "=colour";
    more[1] = NULL;
    memcpy(&more[2], good, sizeof(good));
    more[unit_nitems(good) + 2] = "=userId";
    more[unit_nitems(good) + 3] = "=u2";
    more[unit_nitems(good) + 4] = "=idx";

    unit_ok(decode(more, unit_nitems(more), &notice) == WQ_OK
            && is(notice.user, "u1") && notice.idx == 5,
            "the first of a name counts");
}


static void
test_bad(void)
{
    size_t       i, j;
    wq_notice_t  notice;

    static const char *const  bad[] = {
        NULL, "=", "=a b", "=\"", "=-1", "=a\nevent: x"
    };

    for (i = 1; i < unit_nitems(good); i += 2) {
        for (j = 0; j < unit_nitems(bad); j++) {

            /* an id may well be a number below none */

            if (bad[j] && strcmp(bad[j], "=-1") == 0 && i >= 3 && i <= 7) {
                continue;
            }

            unit_ok(changed(i, bad[j], &notice) != WQ_OK, "%s is \"%s\"",
                    good[i - 1] + 1, bad[j] ? bad[j] + 1 : "nil");
        }

        unit_ok(changed(i - 1, "=x", &notice) != WQ_OK, "no %s",
                good[i - 1] + 1);
    }

    for (i = 0; i < unit_nitems(good); i++) {
        unit_ok(decode(good, i, &notice) != WQ_OK, "cut after %zu", i);
    }

    unit_ok(changed(1, "=promote", &notice) == WQ_BAD_TYPE, "half a word");
    unit_ok(changed(1, "=promotedd", &notice) == WQ_BAD_TYPE, "a longer word");
    unit_ok(changed(11, "=" TOKEN "0", &notice) != WQ_OK, "a long token");
    unit_ok(changed(9, "=9223372036854775808", &notice) != WQ_OK,
            "an idx too large");
}


/* only who is promoted has a token */

static void
test_token(void)
{
    wq_notice_t  notice;
    const char  *copy[unit_nitems(good)];

    memcpy(copy, good, sizeof(good));
    copy[1] = "=expired";
    copy[11] = "=";

    unit_ok(decode(copy, unit_nitems(good), &notice) == WQ_OK
            && notice.token.len == 0, "an end without a token");

    copy[1] = "=promoted";
    unit_ok(decode(copy, unit_nitems(good), &notice) == WQ_MISSING,
            "a promotion without one");
}


int
main(void)
{
    test_good();
    test_bad();
    test_token();

    return unit_done();
}
