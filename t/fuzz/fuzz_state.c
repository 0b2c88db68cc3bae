
/*
 * fuzz: what is written is what printf() would write, keeps its bounds, and is
 * read back by a parser of JSON that knows nothing of it; an event, whatever
 * ids are good enough to be in it, by a reader of streams as a browser has one.
 */


#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "wq_state.h"


#define GUARD  16


int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);


#define WQ_X(constant, word)  word,
static const char *const  words[] = {
    WQ_STATUSES(WQ_X)
};
#undef WQ_X


#define WQ_X(constant, name, before)  name,
static const char *const  names[] = {
    WQ_SSE_EVENTS(WQ_X)
};
#undef WQ_X


/* after these nothing follows */

static int
is_last(unsigned event)
{
    return event == WQ_SSE_EXPIRED || event == WQ_SSE_SOLD_OUT
           || event == WQ_SSE_CLOSED || event == WQ_SSE_REPLACED;
}


static void
require(int condition)
{
    if (!condition) {
        abort();
    }
}


static u_char *
guarded(size_t size)
{
    u_char  *p;

    p = malloc(size + 2 * GUARD);
    memset(p, 0x3c, size + 2 * GUARD);

    return p + GUARD;
}


static void
release(u_char *p, size_t size)
{
    size_t  i;

    for (i = 1; i <= GUARD; i++) {
        require(p[-(ptrdiff_t) i] == 0x3c && p[size + i - 1] == 0x3c);
    }

    free(p - GUARD);
}


static const char *
text_of(char *text, int64_t n, uint64_t more)
{
    if (n < 0) {
        return "null";
    }

    snprintf(text, 32, "%" PRIu64, (uint64_t) n + more);

    return text;
}


/* the ids may hold any byte, so that lengths are given everywhere */

static size_t
expected(char *p, size_t size, const wq_state_t *state, unsigned brief)
{
    char         rank[32], position[32], total[32], eta[32], expires[32];
    size_t       n;
    wq_str_t     event, user, token;
    const char  *quote;

    event = state->event;
    user = state->user;
    token = state->token;

    event.len = event.len > WQ_ID_MAX ? WQ_ID_MAX : event.len;
    user.len = user.len > WQ_ID_MAX ? WQ_ID_MAX : user.len;
    token.len = token.len > WQ_TOKEN_LEN ? WQ_TOKEN_LEN : token.len;

    n = (size_t) snprintf(p, size, "{\"status\":\"%s\"",
                          words[(unsigned) state->status < WQ_STATUS_MAX
                                ? state->status : WQ_STATUS_NONE]);

    if (!brief) {
        n += (size_t) snprintf(p + n, size - n, ",\"eventId\":\"");

        if (event.len > 0) {
            memcpy(p + n, event.data, event.len);
            n += event.len;
        }

        n += (size_t) snprintf(p + n, size - n, "\",\"userId\":\"");

        if (user.len > 0) {
            memcpy(p + n, user.data, user.len);
            n += user.len;
        }

        p[n++] = '"';
    }

    n += (size_t) snprintf(p + n, size - n,
                           ",\"rank\":%s,\"waitingPosition\":%s,"
                           "\"aheadCount\":%s,\"total\":%s,\"etaSeconds\":%s",
                           text_of(rank, state->rank, 0),
                           text_of(position, state->rank, 1),
                           text_of(rank, state->rank, 0),
                           text_of(total, state->total, 0),
                           text_of(eta, state->eta, 0));

    if (!brief) {
        quote = token.len > 0 ? "\"" : "";
        n += (size_t) snprintf(p + n, size - n, ",\"token\":%s",
                               token.len > 0 ? quote : "null");

        if (token.len > 0) {
            memcpy(p + n, token.data, token.len);
            n += token.len;
        }

        n += (size_t) snprintf(p + n, size - n, "%s,\"expiresAt\":%s", quote,
                               text_of(expires, state->expires, 0));
    }

    p[n++] = '}';

    return n;
}


static void
check_string(const cJSON *json, const char *name, const wq_str_t *want)
{
    const cJSON  *item;

    item = cJSON_GetObjectItemCaseSensitive(json, name);

    require(cJSON_IsString(item));
    require(strlen(item->valuestring) == want->len);
    require(want->len == 0
            || memcmp(item->valuestring, want->data, want->len) == 0);
}


static void
check_number(const cJSON *json, const char *name, int64_t n, double more)
{
    const cJSON  *item;

    item = cJSON_GetObjectItemCaseSensitive(json, name);

    if (n < 0) {
        require(cJSON_IsNull(item));
        return;
    }

    require(cJSON_IsNumber(item));

    /* a double holds these exactly; larger ones are compared as text */

    if (n < ((int64_t) 1 << 52)) {
        require(item->valuedouble == (double) n + more);
    }
}


static void
check_parsed(const u_char *p, size_t len, const wq_state_t *state,
    unsigned brief)
{
    cJSON       *json;
    const char  *end;

    end = NULL;
    json = cJSON_ParseWithLengthOpts((const char *) p, len, &end, 0);

    require(json != NULL && end == (const char *) p + len);
    require(cJSON_GetArraySize(json) == (brief ? 6 : 10));

    check_number(json, "rank", state->rank, 0);
    check_number(json, "waitingPosition", state->rank, 1);
    check_number(json, "aheadCount", state->rank, 0);
    check_number(json, "total", state->total, 0);
    check_number(json, "etaSeconds", state->eta, 0);

    if (!brief) {
        check_string(json, "eventId", &state->event);
        check_string(json, "userId", &state->user);
        check_number(json, "expiresAt", state->expires, 0);

        if (state->token.len > 0) {
            check_string(json, "token", &state->token);

        } else {
            check_number(json, "token", -1, 0);
        }
    }

    cJSON_Delete(json);
}


static int
is_id(const wq_str_t *s, size_t max)
{
    return s->len == 0
           || (s->len <= max && wq_id_check(s->data, s->len) == WQ_OK);
}


static int
has_good_ids(const wq_state_t *state)
{
    return is_id(&state->event, WQ_ID_MAX) && is_id(&state->user, WQ_ID_MAX)
           && is_id(&state->token, WQ_TOKEN_LEN);
}


static size_t
check_json(char *want, size_t size, const wq_state_t *state, unsigned brief)
{
    u_char  *p, *end;
    size_t   n;

    n = expected(want, size, state, brief);

    p = guarded(WQ_STATE_SIZE);
    end = wq_state_json(p, state, brief);

    require(end == p + n);
    require(memcmp(p, want, n) == 0);

    if (has_good_ids(state)) {
        check_parsed(p, n, state, brief);
    }

    release(p, WQ_STATE_SIZE);

    return n;
}


/* the end of the line, and in *next where another begins; any of three */

static const u_char *
read_line(const u_char *p, const u_char *end, const u_char **next)
{
    while (p < end && *p != '\n' && *p != '\r') {
        p++;
    }

    /* the last one has an end too */
    require(p < end);

    *next = p + 1;

    if (*p == '\r' && *next < end && **next == '\n') {
        (*next)++;
    }

    return p;
}


/* the value, if the line is a field of that name; as HTML says it is read */

static const u_char *
read_field(const u_char *p, const u_char *end, const char *name)
{
    size_t  len;

    len = strlen(name);

    if ((size_t) (end - p) <= len || memcmp(p, name, len) != 0
        || p[len] != ':')
    {
        return NULL;
    }

    p += len + 1;

    return p < end && *p == ' ' ? p + 1 : p;
}


static int
is_value(const u_char *p, const u_char *end, const char *value, size_t len)
{
    return (size_t) (end - p) == len && memcmp(p, value, len) == 0;
}


/* one event and no more, each of its fields once, and these only */

static void
check_read(const u_char *p, size_t size, unsigned event, uint32_t retry,
    const char *json, size_t len)
{
    char           text[16];
    unsigned       type, data, id, again;
    const u_char  *end, *line, *next, *value;

    end = p + size;
    type = data = id = again = 0;

    for ( ;; ) {
        line = read_line(p, end, &next);

        if (line == p) {
            break;
        }

        if ((value = read_field(p, line, "event"))) {
            require(is_value(value, line, names[event], strlen(names[event])));
            type++;

        } else if ((value = read_field(p, line, "data"))) {
            require(is_value(value, line, json, len));
            data++;

        } else if ((value = read_field(p, line, "id"))) {
            require(is_value(value, line, "over", 4));
            id++;

        } else {
            value = read_field(p, line, "retry");
            require(value != NULL);
            snprintf(text, sizeof(text), "%" PRIu32, retry);
            require(is_value(value, line, text, strlen(text)));
            again++;
        }

        p = next;
    }

    require(next == end);
    require(type == 1 && data == 1);
    require(id == (unsigned) is_last(event) && again == (retry > 0));
}


static void
check_sse(const wq_state_t *state, unsigned brief, unsigned event,
    uint32_t retry)
{
    int      len;
    char     want[WQ_SSE_SIZE + 64], json[WQ_STATE_SIZE + 64], head[32];
    size_t   n, m;
    u_char  *p, *start, *end;

    m = check_json(json, sizeof(json), state, brief);
    n = 0;

    if (event < WQ_SSE_MAX) {
        if (retry > 0) {
            n = (size_t) snprintf(want, sizeof(want), "retry: %" PRIu32 "\n",
                                  retry);
        }

        n += (size_t) snprintf(want + n, sizeof(want) - n,
                               "%sevent: %s\ndata: ",
                               is_last(event) ? "id: over\n" : "",
                               names[event]);
        memcpy(want + n, json, m);
        n += m;
        memcpy(want + n, "\n\n", 2);
        n += 2;
    }

    p = guarded(WQ_SSE_SIZE);
    end = wq_sse_event(p, (wq_sse_event_e) event, retry, state, brief);

    require(end == p + n);
    require(memcmp(p, want, n) == 0);

    if (n > 0 && has_good_ids(state)) {
        check_read(p, n, event, retry, json, m);
    }

    release(p, WQ_SSE_SIZE);

    p = guarded(WQ_SSE_CHUNK_SIZE);
    end = NULL;
    start = wq_sse_chunk(p, &end, (wq_sse_event_e) event, retry, state, brief);

    require(start >= p && end >= start && end <= p + WQ_SSE_CHUNK_SIZE);

    if (n == 0) {
        require(start == end);

    } else {
        len = snprintf(head, sizeof(head), "%zx\r\n", n);

        require((size_t) (end - start) == (size_t) len + n + 2);
        require(memcmp(start, head, (size_t) len) == 0);
        require(memcmp(start + len, want, n) == 0);
        require(memcmp(end - 2, "\r\n", 2) == 0);
    }

    release(p, WQ_SSE_CHUNK_SIZE);
}


static void
check_parse(const uint8_t *data, size_t size)
{
    unsigned  i;

    for (i = 0; i < WQ_STATUS_MAX; i++) {
        if (strlen(words[i]) == size && memcmp(words[i], data, size) == 0) {
            break;
        }
    }

    require(wq_status_parse(data, size) == (wq_status_e) i);

    if (i < WQ_STATUS_MAX) {
        require(strcmp(wq_status_word((wq_status_e) i), words[i]) == 0);
    }
}


static wq_str_t
take(const uint8_t **data, size_t *size, size_t len)
{
    wq_str_t  s;

    if (len > *size) {
        len = *size;
    }

    s.len = len;
    s.data = len > 0 ? (u_char *) *data : NULL;

    *data += len;
    *size -= len;

    return s;
}


/* shifted, so that numbers of every length come equally often */

static int64_t
number(const uint8_t *p, uint8_t shift)
{
    int64_t  n;

    memcpy(&n, p, sizeof(n));

    return n >> (shift & 63);
}


/*
 * The input: as a whole a word; and status, event, flags, four shifts, the
 * lengths of event, user and token, each one byte; four numbers, the retry;
 * then the bytes of the three.
 */

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t     head[10 + 4 * 8 + 4];
    uint32_t    retry;
    unsigned    event;
    wq_state_t  state;

    check_parse(data, size);

    if (size < sizeof(head)) {
        return 0;
    }

    memcpy(head, data, sizeof(head));
    data += sizeof(head);
    size -= sizeof(head);

    memset(&state, 0, sizeof(state));

    state.status = (wq_status_e) (head[0] % (WQ_STATUS_MAX + 1));
    event = head[1] % (WQ_SSE_MAX + 1);
    state.rank = number(head + 10, head[3]);
    state.total = number(head + 18, head[4]);
    state.eta = number(head + 26, head[5]);
    state.expires = number(head + 34, head[6]);
    memcpy(&retry, head + 42, sizeof(retry));
    retry >>= head[2] >> 3;

    state.event = take(&data, &size, head[7]);
    state.user = take(&data, &size, head[8]);
    state.token = take(&data, &size, head[9]);

    check_sse(&state, head[2] & 1, event, (head[2] & 2) ? retry : 0);

    return 0;
}
