
/* unit tests: what a user is told, as JSON and as an event of a stream */


#include <inttypes.h>

#include "unit.h"
#include "wq_state.h"


#define GUARD       64
#define MAX_FIELDS  16


/* the words and names stand here once more, as the design has them */

static const char *const  words[] = {
    "none", "waiting", "ready", "entered", "sold_out", "closed", "full"
};

static const char *const  names[] = {
    "position", "promoted", "expired", "sold_out", "closed", "replaced",
    "reconnect"
};

/* what stands before them: nothing follows those with an id */

static const char *const  lines[] = {
    "", "", "id: over\n", "id: over\n", "id: over\n", "id: over\n", ""
};

static const char *const  fields[] = {
    "status", "eventId", "userId", "rank", "waitingPosition", "aheadCount",
    "total", "etaSeconds", "token", "expiresAt"
};

static const char *const  brief_fields[] = {
    "status", "rank", "waitingPosition", "aheadCount", "total", "etaSeconds"
};


static const char  token[] = "0123456789abcdef0123456789abcdef01234567";


static wq_str_t
str(const char *s)
{
    wq_str_t  out;

    out.len = strlen(s);
    out.data = (u_char *) s;

    return out;
}


/* the example of the header */

static wq_state_t
example(void)
{
    wq_state_t  state;

    memset(&state, 0, sizeof(state));

    state.status = WQ_STATUS_WAITING;
    state.event = str("e1");
    state.user = str("u1");
    state.rank = 16;
    state.total = 420;
    state.eta = 10;
    state.expires = WQ_STATE_UNKNOWN;

    return state;
}


/*
 * Each writer in a buffer of the size its bound says, between guards; the
 * result as a C string, or "" where anything but the text is not as promised.
 */

typedef enum {
    JSON = 0,
    EVENT,
    CHUNK
} writer_e;


static const char *
written(writer_e writer, wq_sse_event_e event, uint32_t retry,
    const wq_state_t *state, unsigned brief)
{
    size_t        i, size, len;
    u_char       *buf, *room, *p, *end;
    static char   text[2 * WQ_SSE_CHUNK_SIZE];

    static const size_t  sizes[] = {
        WQ_STATE_SIZE, WQ_SSE_SIZE, WQ_SSE_CHUNK_SIZE
    };

    size = sizes[writer];
    buf = malloc(size + 2 * GUARD);
    memset(buf, 0x5a, size + 2 * GUARD);
    room = buf + GUARD;
    end = NULL;

    switch (writer) {

    case JSON:
        p = room;
        end = wq_state_json(p, state, brief);
        break;

    case EVENT:
        p = room;
        end = wq_sse_event(p, event, retry, state, brief);
        break;

    default: /* CHUNK */
        p = wq_sse_chunk(room, &end, event, retry, state, brief);
        break;
    }

    text[0] = '\0';

    if (p < room || end < p || end > room + size) {
        free(buf);
        return "";
    }

    len = (size_t) (end - p);
    memcpy(text, p, len);
    text[len] = '\0';

    /* no zero in it, which would hide a rest */

    if (strlen(text) != len) {
        text[0] = '\0';
    }

    for (i = 0; i < GUARD; i++) {
        if (buf[i] != 0x5a || room[size + i] != 0x5a) {
            text[0] = '\0';
        }
    }

    free(buf);

    return text;
}


static const char *
json(const wq_state_t *state, unsigned brief)
{
    return written(JSON, WQ_SSE_MAX, 0, state, brief);
}


/*
 * A reader that knows only the format: one flat object of strings without
 * escapes, whole numbers without leading zeros, and null; no blanks.
 */

typedef struct {
    unsigned     n;
    wq_str_t     name[MAX_FIELDS];
    wq_str_t     value[MAX_FIELDS];     /* as written, with its quotes */
} object_t;


static const char *
read_string(const char *p, wq_str_t *s)
{
    if (*p != '"') {
        return NULL;
    }

    s->data = (u_char *) p++;

    while (*p != '"') {
        if ((u_char) *p < 0x20 || *p == '\\') {
            return NULL;
        }

        p++;
    }

    p++;
    s->len = (size_t) (p - (const char *) s->data);

    return p;
}


static const char *
read_value(const char *p, wq_str_t *s)
{
    if (*p == '"') {
        return read_string(p, s);
    }

    s->data = (u_char *) p;

    if (strncmp(p, "null", 4) == 0) {
        p += 4;

    } else if (*p == '0') {
        p++;

    } else if (*p >= '1' && *p <= '9') {
        while (*p >= '0' && *p <= '9') {
            p++;
        }

    } else {
        return NULL;
    }

    s->len = (size_t) (p - (const char *) s->data);

    return p;
}


static int
read_object(const char *p, object_t *object)
{
    object->n = 0;

    if (*p++ != '{') {
        return 0;
    }

    for ( ;; ) {
        if (object->n == MAX_FIELDS) {
            return 0;
        }

        p = read_string(p, &object->name[object->n]);

        if (p == NULL || *p++ != ':') {
            return 0;
        }

        p = read_value(p, &object->value[object->n]);

        if (p == NULL) {
            return 0;
        }

        object->n++;

        if (*p != ',') {
            break;
        }

        p++;
    }

    return p[0] == '}' && p[1] == '\0';
}


static int
is_string(const wq_str_t *s, const char *text, size_t len)
{
    return s->len == len + 2
           && s->data[0] == '"'
           && (len == 0 || memcmp(s->data + 1, text, len) == 0)
           && s->data[len + 1] == '"';
}


static int
is_number(const wq_str_t *s, int64_t n, uint64_t more)
{
    char  text[32];

    if (n < 0) {
        return s->len == 4 && memcmp(s->data, "null", 4) == 0;
    }

    snprintf(text, sizeof(text), "%" PRIu64, (uint64_t) n + more);

    return s->len == strlen(text) && memcmp(s->data, text, s->len) == 0;
}


/* the text is JSON, has the documented fields in order, and says the state */

static int
says(const char *text, const wq_state_t *state, unsigned brief)
{
    int        good;
    unsigned   i, n;
    object_t   o;
    wq_str_t  *value;

    if (!read_object(text, &o)) {
        return 0;
    }

    n = brief ? unit_nitems(brief_fields) : unit_nitems(fields);

    if (o.n != n) {
        return 0;
    }

    for (i = 0; i < n; i++) {
        if (!is_string(&o.name[i], brief ? brief_fields[i] : fields[i],
                       strlen(brief ? brief_fields[i] : fields[i])))
        {
            return 0;
        }
    }

    value = o.value;

    good = is_string(value, words[state->status],
                     strlen(words[state->status]));
    value++;

    if (!brief) {
        good &= is_string(value++, (char *) state->event.data,
                          state->event.len);
        good &= is_string(value++, (char *) state->user.data,
                          state->user.len);
    }

    good &= is_number(value++, state->rank, 0);
    good &= is_number(value++, state->rank, 1);
    good &= is_number(value++, state->rank, 0);
    good &= is_number(value++, state->total, 0);
    good &= is_number(value++, state->eta, 0);

    if (!brief) {
        good &= state->token.len > 0
                ? is_string(value, (char *) state->token.data,
                            state->token.len)
                : is_number(value, -1, 0);
        value++;

        good &= is_number(value++, state->expires, 0);
    }

    return good;
}


static void
test_reader(void)
{
    size_t    i;
    object_t  o;

    static const struct {
        const char  *text;
        int          good;
    } rows[] = {
        { "{\"a\":1}", 1 },
        { "{\"a\":0,\"b\":null,\"c\":\"x\",\"d\":\"\"}", 1 },
        { "", 0 }, { "{", 0 }, { "{}", 0 }, { "{\"a\":1", 0 },
        { "{\"a\":1}\n", 0 }, { "{\"a\":1,}", 0 }, { "{\"a\":01}", 0 },
        { "{\"a\":-1}", 0 }, { "{\"a\":}", 0 }, { "{\"a\"1}", 0 },
        { "{a:1}", 0 }, { "{\"a\":nul}", 0 }, { "{\"a\":nullx}", 0 },
        { "{\"a\":\"x}", 0 }, { "{\"a\":\"\n\"}", 0 }, { "{\"a\": 1}", 0 },
        { "{\"a\":1\"b\":2}", 0 }, { "{\"a\":\"x\"y\"}", 0 }
    };

    for (i = 0; i < unit_nitems(rows); i++) {
        unit_ok(read_object(rows[i].text, &o) == rows[i].good,
                "the test's own reader: %s", rows[i].text);
    }
}


static void
test_words(void)
{
    int     good;
    char    word[32];
    size_t  i, j, len;

    unit_ok(unit_nitems(words) == WQ_STATUS_MAX, "every status is here");
    unit_ok(unit_nitems(names) == WQ_SSE_MAX
            && unit_nitems(lines) == WQ_SSE_MAX, "every event is here");

    for (i = 0; i < unit_nitems(words); i++) {
        len = strlen(words[i]);

        unit_ok(strcmp(wq_status_word((wq_status_e) i), words[i]) == 0,
                "the word %s", words[i]);

        unit_ok(wq_status_parse((u_char *) words[i], len) == (wq_status_e) i,
                "%s is parsed", words[i]);

        good = 1;

        for (j = 0; j < len; j++) {
            good &= wq_status_parse((u_char *) words[i], j) == WQ_STATUS_MAX;
            good &= wq_status_parse((u_char *) words[i] + j + 1, len - j - 1)
                    == WQ_STATUS_MAX;
        }

        unit_ok(good, "%s: no part of it is a status", words[i]);

        good = 1;

        for (j = 0; j < len; j++) {
            strcpy(word, words[i]);
            word[j] ^= 0x20;
            good &= wq_status_parse((u_char *) word, len) == WQ_STATUS_MAX;

            word[j] = '\0';
            good &= wq_status_parse((u_char *) word, len) == WQ_STATUS_MAX;
        }

        unit_ok(good, "%s: not in another case, not with a zero", words[i]);

        snprintf(word, sizeof(word), "%s ", words[i]);
        good = wq_status_parse((u_char *) word, len + 1) == WQ_STATUS_MAX;
        snprintf(word, sizeof(word), " %s", words[i]);
        good &= wq_status_parse((u_char *) word, len + 1) == WQ_STATUS_MAX;
        snprintf(word, sizeof(word), "%ss", words[i]);
        good &= wq_status_parse((u_char *) word, len + 1) == WQ_STATUS_MAX;
        snprintf(word, sizeof(word), "%s", words[i]);
        good &= wq_status_parse((u_char *) word, len + 1) == WQ_STATUS_MAX;
        snprintf(word, sizeof(word), "%s%s", words[i], words[i]);
        good &= wq_status_parse((u_char *) word, 2 * len) == WQ_STATUS_MAX;
        snprintf(word, sizeof(word), "\"%s\"", words[i]);
        good &= wq_status_parse((u_char *) word, len + 2) == WQ_STATUS_MAX;

        unit_ok(good, "%s: nothing longer is a status", words[i]);
    }

    unit_ok(wq_status_parse(NULL, 0) == WQ_STATUS_MAX
            && wq_status_parse((u_char *) "", 0) == WQ_STATUS_MAX,
            "nothing is no status");

    unit_ok(wq_status_parse((u_char *) "sold-out", 8) == WQ_STATUS_MAX
            && wq_status_parse((u_char *) "soldout", 7) == WQ_STATUS_MAX
            && wq_status_parse((u_char *) "null", 4) == WQ_STATUS_MAX,
            "words that are close");

    unit_ok(strcmp(wq_status_word(WQ_STATUS_MAX), "none") == 0
            && strcmp(wq_status_word((wq_status_e) -1), "none") == 0
            && strcmp(wq_status_word((wq_status_e) INT32_MAX), "none") == 0,
            "a status that does not exist is none");
}


static void
test_parse_ends(void)
{
    int      good;
    size_t   i, len;
    u_char  *p;

    /* in a buffer that ends with the word, for the sanitizer */

    good = 1;

    for (i = 0; i < unit_nitems(words); i++) {
        len = strlen(words[i]);
        p = unit_copy(words[i], len);
        good &= wq_status_parse(p, len) == (wq_status_e) i;
        free(p);
    }

    unit_ok(good, "a word needs no zero at its end");
}


static void
test_example(void)
{
    wq_state_t  state;

    state = example();

    unit_ok(strcmp(json(&state, 0),
                   "{\"status\":\"waiting\",\"eventId\":\"e1\","
                   "\"userId\":\"u1\",\"rank\":16,\"waitingPosition\":17,"
                   "\"aheadCount\":16,\"total\":420,\"etaSeconds\":10,"
                   "\"token\":null,\"expiresAt\":null}") == 0,
            "the example of the header");

    unit_ok(strcmp(json(&state, 1),
                   "{\"status\":\"waiting\",\"rank\":16,"
                   "\"waitingPosition\":17,\"aheadCount\":16,\"total\":420,"
                   "\"etaSeconds\":10}") == 0,
            "its short form");

    unit_ok(strcmp(json(&state, 0x100),
                   "{\"status\":\"waiting\",\"rank\":16,"
                   "\"waitingPosition\":17,\"aheadCount\":16,\"total\":420,"
                   "\"etaSeconds\":10}") == 0,
            "any brief but 0 is one");

    state.status = WQ_STATUS_READY;
    state.rank = WQ_STATE_UNKNOWN;
    state.eta = 0;
    state.token = str(token);
    state.expires = 1700000060000;

    unit_ok(strcmp(json(&state, 0),
                   "{\"status\":\"ready\",\"eventId\":\"e1\","
                   "\"userId\":\"u1\",\"rank\":null,\"waitingPosition\":null,"
                   "\"aheadCount\":null,\"total\":420,\"etaSeconds\":0,"
                   "\"token\":\"0123456789abcdef0123456789abcdef01234567\","
                   "\"expiresAt\":1700000060000}") == 0,
            "a token and its end");

    unit_ok(strcmp(json(&state, 1),
                   "{\"status\":\"ready\",\"rank\":null,"
                   "\"waitingPosition\":null,\"aheadCount\":null,"
                   "\"total\":420,\"etaSeconds\":0}") == 0,
            "the short form never has a token");

    state = example();
    state.rank = 0;
    state.total = 1;
    state.eta = WQ_STATE_UNKNOWN;

    unit_ok(strcmp(json(&state, 1),
                   "{\"status\":\"waiting\",\"rank\":0,"
                   "\"waitingPosition\":1,\"aheadCount\":0,\"total\":1,"
                   "\"etaSeconds\":null}") == 0,
            "the head of the line");
}


static void
test_statuses(void)
{
    char        want[512];
    size_t      i;
    wq_state_t  state;

    for (i = 0; i < unit_nitems(words); i++) {
        state = example();
        state.status = (wq_status_e) i;
        state.rank = WQ_STATE_UNKNOWN;
        state.total = WQ_STATE_UNKNOWN;
        state.eta = WQ_STATE_UNKNOWN;

        snprintf(want, sizeof(want),
                 "{\"status\":\"%s\",\"eventId\":\"e1\",\"userId\":\"u1\","
                 "\"rank\":null,\"waitingPosition\":null,\"aheadCount\":null,"
                 "\"total\":null,\"etaSeconds\":null,\"token\":null,"
                 "\"expiresAt\":null}", words[i]);

        unit_ok(strcmp(json(&state, 0), want) == 0, "%s", want);

        snprintf(want, sizeof(want),
                 "{\"status\":\"%s\",\"rank\":null,\"waitingPosition\":null,"
                 "\"aheadCount\":null,\"total\":null,\"etaSeconds\":null}",
                 words[i]);

        unit_ok(strcmp(json(&state, 1), want) == 0, "%s", want);
    }

    state = example();
    state.status = WQ_STATUS_MAX;

    unit_ok(strncmp(json(&state, 0), "{\"status\":\"none\",\"eventId\"", 26)
            == 0,
            "a status that does not exist is written as none");

    state.status = (wq_status_e) -1;

    unit_ok(strncmp(json(&state, 1), "{\"status\":\"none\",\"rank\"", 23) == 0,
            "so is a negative one");
}


/* every mix of known and unknown, in every status, long and short */

static void
test_mixes(void)
{
    int         good;
    size_t      i;
    unsigned    mix, brief;
    wq_state_t  state;

    for (i = 0; i < unit_nitems(words); i++) {
        good = 1;

        for (mix = 0; mix < 128; mix++) {
            state = example();
            state.status = (wq_status_e) i;
            state.rank = (mix & 1) ? 1234567 : WQ_STATE_UNKNOWN;
            state.total = (mix & 2) ? 99 : WQ_STATE_UNKNOWN;
            state.eta = (mix & 4) ? 3600 : WQ_STATE_UNKNOWN;
            state.expires = (mix & 8) ? 1700000000000 : WQ_STATE_UNKNOWN;
            state.token = str((mix & 16) ? token : "");
            state.event = str((mix & 32) ? "A-z.0_9~@:" : "e");

            if (mix & 64) {
                state.user.len = 0;
                state.user.data = NULL;
            }

            for (brief = 0; brief < 2; brief++) {
                good &= says(json(&state, brief), &state, brief);
            }
        }

        unit_ok(good, "%s: each field by itself known or unknown", words[i]);
    }

    state = example();
    state.token.len = 0;
    state.token.data = NULL;
    unit_ok(says(json(&state, 0), &state, 0), "no token has no data");
}


static int
number_good(int64_t n)
{
    char        want[512];
    wq_state_t  state;

    state = example();
    state.rank = n;
    state.total = n;
    state.eta = n;
    state.expires = n;

    snprintf(want, sizeof(want),
             "{\"status\":\"waiting\",\"eventId\":\"e1\",\"userId\":\"u1\","
             "\"rank\":%" PRId64 ",\"waitingPosition\":%" PRIu64
             ",\"aheadCount\":%" PRId64 ",\"total\":%" PRId64
             ",\"etaSeconds\":%" PRId64 ",\"token\":null,\"expiresAt\":%"
             PRId64 "}", n, (uint64_t) n + 1, n, n, n, n);

    return strcmp(json(&state, 0), want) == 0
           && says(json(&state, 0), &state, 0)
           && says(json(&state, 1), &state, 1);
}


static void
test_numbers(void)
{
    int         good;
    int64_t     n, power;
    uint64_t    random;
    unsigned    i, brief;
    wq_state_t  state;

    static const int64_t  negative[] = {
        -1, -2, -9, -10, -1000000, INT32_MIN, INT64_MIN + 1, INT64_MIN
    };

    good = 1;

    for (n = 0; n < 20000; n++) {
        good &= number_good(n);
    }

    unit_ok(good, "all numbers below 20000");

    for (power = 10; power <= INT64_MAX / 10; power *= 10) {
        good = number_good(power - 2) && number_good(power - 1)
               && number_good(power) && number_good(power + 1)
               && number_good(2 * power) && number_good(power * 9 + 9)
               && number_good(power + power / 10);

        unit_ok(good, "around %" PRId64, power);
    }

    unit_ok(number_good(power - 1) && number_good(power)
            && number_good(power + 1),
            "around %" PRId64, power);

    good = 1;

    for (i = 1; i < 63; i++) {
        n = (int64_t) 1 << i;
        good &= number_good(n - 1) && number_good(n) && number_good(n + 1);
    }

    unit_ok(good, "around the powers of two");

    good = 1;
    random = 5;

    for (i = 0; i < 10000; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        good &= number_good((int64_t) (random >> (1 + i % 62)));
    }

    unit_ok(good, "random numbers of all lengths");

    unit_ok(number_good(INT64_MAX) && number_good(INT64_MAX - 1),
            "the largest");

    state = example();
    state.rank = INT64_MAX;
    unit_ok(strstr(json(&state, 1), "\"rank\":9223372036854775807,"
                   "\"waitingPosition\":9223372036854775808,"
                   "\"aheadCount\":9223372036854775807,") != NULL,
            "the position after the largest rank does not wrap");

    for (i = 0; i < unit_nitems(negative); i++) {
        state = example();
        state.rank = negative[i];
        state.total = negative[i];
        state.eta = negative[i];
        state.expires = negative[i];

        good = 1;

        for (brief = 0; brief < 2; brief++) {
            good &= says(json(&state, brief), &state, brief);
        }

        unit_ok(good, "%" PRId64 " is unknown", negative[i]);
    }
}


/* the largest of everything: as long as it can become */

static wq_state_t
largest(void)
{
    wq_state_t   state;
    static char  event[4 * WQ_ID_MAX], user[4 * WQ_ID_MAX];

    memset(event, 'e', sizeof(event));
    memset(user, 'u', sizeof(user));

    state.status = WQ_STATUS_SOLD_OUT;
    state.event.len = WQ_ID_MAX;
    state.event.data = (u_char *) event;
    state.user.len = WQ_ID_MAX;
    state.user.data = (u_char *) user;
    state.rank = INT64_MAX;
    state.total = INT64_MAX;
    state.eta = INT64_MAX;
    state.token = str(token);
    state.expires = INT64_MAX;

    return state;
}


static void
test_bounds(void)
{
    char        text[WQ_STATE_SIZE + 1];
    size_t      i, j;
    wq_state_t  state, more;

    state = largest();

    for (i = 0; i < unit_nitems(words); i++) {
        state.status = (wq_status_e) i;
        unit_ok(says(json(&state, 0), &state, 0),
                "%s: the largest state fits", words[i]);

        for (j = 0; j < unit_nitems(names); j++) {
            unit_ok(written(EVENT, (wq_sse_event_e) j, UINT32_MAX, &state, 0)[0]
                    && written(CHUNK, (wq_sse_event_e) j, UINT32_MAX, &state,
                               0)[0],
                    "%s, %s: and so do its event and its chunk", words[i],
                    names[j]);
        }
    }

    /* longer than any caller may send it, and still within the bound */

    state = largest();
    more = state;
    more.event.len = 4 * WQ_ID_MAX;
    more.user.len = WQ_ID_MAX + 1;
    strcpy(text, json(&state, 0));
    unit_ok(text[0] && strcmp(json(&more, 0), text) == 0,
            "longer ids are cut");

    more.token.len = WQ_TOKEN_LEN * 2;
    more.token.data = (u_char *) "0123456789abcdef0123456789abcdef01234567"
                                 "0123456789abcdef0123456789abcdef01234567";
    unit_ok(strcmp(json(&more, 0), text) == 0, "a longer token is cut");

    more = state;
    more.token.len = 1;
    unit_ok(says(json(&more, 0), &more, 0), "a token ends by its length");
}


/* ids and token on the heap without a zero, for the sanitizer */

static void
test_ends(void)
{
    u_char     *event, *user, *key;
    wq_state_t  state;

    event = unit_copy("concert-1", 9);
    user = unit_copy("u", 1);
    key = unit_copy(token, WQ_TOKEN_LEN);

    state = example();
    state.event.data = event;
    state.event.len = 9;
    state.user.data = user;
    state.user.len = 1;
    state.token.data = key;
    state.token.len = WQ_TOKEN_LEN;

    unit_ok(says(json(&state, 0), &state, 0), "strings end by their length");

    free(event);
    free(user);
    free(key);
}


static void
test_events(void)
{
    char        want[1200], plain[1024];
    size_t      i, j;
    unsigned    brief;
    wq_state_t  state;

    static const uint32_t  retries[] = {
        1, 9, 10, 99, 100, 3000, 5999, 12345, 123456, 1234567, 12345678,
        999999999, 1000000000, 2147483648u, UINT32_MAX
    };

    state = example();

    unit_ok(strcmp(written(EVENT, WQ_SSE_POSITION, 0, &state, 1),
                   "event: position\n"
                   "data: {\"status\":\"waiting\",\"rank\":16,"
                   "\"waitingPosition\":17,\"aheadCount\":16,\"total\":420,"
                   "\"etaSeconds\":10}\n"
                   "\n") == 0,
            "an event, byte for byte");

    unit_ok(strcmp(written(EVENT, WQ_SSE_POSITION, 4321, &state, 1),
                   "retry: 4321\n"
                   "event: position\n"
                   "data: {\"status\":\"waiting\",\"rank\":16,"
                   "\"waitingPosition\":17,\"aheadCount\":16,\"total\":420,"
                   "\"etaSeconds\":10}\n"
                   "\n") == 0,
            "the line of retry comes first");

    unit_ok(strcmp(written(EVENT, WQ_SSE_REPLACED, 4321, &state, 1),
                   "retry: 4321\n"
                   "id: over\n"
                   "event: replaced\n"
                   "data: {\"status\":\"waiting\",\"rank\":16,"
                   "\"waitingPosition\":17,\"aheadCount\":16,\"total\":420,"
                   "\"etaSeconds\":10}\n"
                   "\n") == 0,
            "then the id of an event that nothing follows");

    unit_ok(strcmp(written(CHUNK, WQ_SSE_POSITION, 0, &state, 1),
                   "77\r\n"
                   "event: position\n"
                   "data: {\"status\":\"waiting\",\"rank\":16,"
                   "\"waitingPosition\":17,\"aheadCount\":16,\"total\":420,"
                   "\"etaSeconds\":10}\n"
                   "\n\r\n") == 0,
            "a chunk, byte for byte");

    for (i = 0; i < unit_nitems(names); i++) {
        for (brief = 0; brief < 2; brief++) {
            snprintf(plain, sizeof(plain), "%sevent: %s\ndata: %s\n\n",
                     lines[i], names[i], json(&state, brief));

            unit_ok(strcmp(written(EVENT, (wq_sse_event_e) i, 0, &state,
                                   brief), plain) == 0,
                    "%s%s", names[i], brief ? ", short" : "");

            snprintf(want, sizeof(want), "retry: 3000\n%s", plain);

            unit_ok(strcmp(written(EVENT, (wq_sse_event_e) i, 3000, &state,
                                   brief), want) == 0,
                    "%s%s, with retry", names[i], brief ? ", short" : "");
        }
    }

    snprintf(plain, sizeof(plain), "event: promoted\ndata: %s\n\n",
             json(&state, 0));

    for (j = 0; j < unit_nitems(retries); j++) {
        snprintf(want, sizeof(want), "retry: %" PRIu32 "\n%s", retries[j],
                 plain);

        unit_ok(strcmp(written(EVENT, WQ_SSE_PROMOTED, retries[j], &state, 0),
                       want) == 0,
                "retry: %" PRIu32, retries[j]);
    }
}


static void
test_no_event(void)
{
    size_t      i;
    u_char      buf[WQ_SSE_CHUNK_SIZE], *p, *end;
    wq_state_t  state;

    static const int  none[] = { WQ_SSE_MAX, -1, INT32_MAX };

    state = example();

    for (i = 0; i < unit_nitems(none); i++) {
        memset(buf, 7, sizeof(buf));

        p = wq_sse_event(buf, (wq_sse_event_e) none[i], 3000, &state, 0);
        unit_ok(p == buf && buf[0] == 7,
                "event %d, which is not in the table, is nothing", none[i]);

        end = NULL;
        p = wq_sse_chunk(buf, &end, (wq_sse_event_e) none[i], 3000, &state, 0);
        unit_ok(p == end && p >= buf && p <= buf + sizeof(buf),
                "chunk %d is nothing, not the last chunk", none[i]);
    }
}


/* a number of one digit more than n */

static int64_t
digits(size_t n)
{
    int64_t  number;

    for (number = 7; n > 0; n--) {
        number *= 10;
    }

    return number;
}


static void
test_chunks(void)
{
    int             good;
    char            want[1200], plain[1024];
    size_t          i, len, least, most, a, b, c;
    uint32_t        retry;
    wq_state_t      state;
    static u_char   seen[WQ_SSE_SIZE + 1];

    good = 1;
    least = SIZE_MAX;
    most = 0;

    /* every length from the shortest event to the longest */

    for (a = 0; a <= WQ_ID_MAX; a++) {
        for (b = 0; b <= WQ_ID_MAX; b += WQ_ID_MAX / 2) {
            for (c = 0; c < 4; c++) {
                state = largest();
                state.status = (c & 1) ? WQ_STATUS_SOLD_OUT : WQ_STATUS_NONE;
                state.event.len = a;
                state.user.len = b;

                if (!(c & 2)) {
                    state.token.len = 0;
                    state.rank = 0;
                    state.total = 0;
                    state.eta = 0;
                    state.expires = 0;
                }

                snprintf(plain, sizeof(plain), "%s",
                         written(EVENT, WQ_SSE_RECONNECT, c & 1, &state, 0));

                len = strlen(plain);
                snprintf(want, sizeof(want), "%zx\r\n%s\r\n", len, plain);

                good &= len > 0;
                good &= strcmp(written(CHUNK, WQ_SSE_RECONNECT, c & 1, &state,
                                       0), want) == 0;

                seen[len] = 1;
                least = len < least ? len : least;
                most = len > most ? len : most;
            }
        }
    }

    unit_ok(good, "the length in front of a chunk is the event's");

    for (i = least; i <= most; i++) {
        good &= seen[i];
    }

    unit_ok(good && least < 0xff && most > 0x200,
            "seen with every length from %zu to %zu", least, most);

    /* the short form: from two digits up to the third */

    good = 1;
    least = SIZE_MAX;
    most = 0;
    state = largest();

    for (a = 0; a < 19; a++) {
        for (b = 0; b < 19; b++) {
            state.rank = digits(a);
            state.total = digits(b);
            state.eta = (a & 1) ? INT64_MAX : 0;
            retry = (b & 1) ? UINT32_MAX : 0;

            snprintf(plain, sizeof(plain), "%s",
                     written(EVENT, WQ_SSE_EXPIRED, retry, &state, 1));

            len = strlen(plain);
            snprintf(want, sizeof(want), "%zx\r\n%s\r\n", len, plain);

            good &= len > 0;
            good &= strcmp(written(CHUNK, WQ_SSE_EXPIRED, retry, &state, 1),
                           want) == 0;

            least = len < least ? len : least;
            most = len > most ? len : most;
        }
    }

    unit_ok(good, "chunks of the short form, %zu to %zu", least, most);
}


static void
test_comment(void)
{
    char  want[32];

    unit_ok(wq_sse_comment.len == 4
            && memcmp(wq_sse_comment.data, ": \n\n", 4) == 0,
            "the comment");

    unit_ok(wq_sse_comment_chunk.len == 9
            && memcmp(wq_sse_comment_chunk.data, "4\r\n: \n\n\r\n", 9) == 0,
            "the comment as a chunk");

    snprintf(want, sizeof(want), "%zx\r\n%.*s\r\n", wq_sse_comment.len,
             (int) wq_sse_comment.len, (char *) wq_sse_comment.data);

    unit_ok(strlen(want) == wq_sse_comment_chunk.len
            && memcmp(wq_sse_comment_chunk.data, want,
                      wq_sse_comment_chunk.len) == 0,
            "the one is in the other");
}


int
main(void)
{
    test_reader();
    test_words();
    test_parse_ends();
    test_example();
    test_statuses();
    test_mixes();
    test_numbers();
    test_bounds();
    test_ends();
    test_events();
    test_no_event();
    test_chunks();
    test_comment();

    return unit_done();
}
