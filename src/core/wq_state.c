
/* core: what a user is told, as JSON and as an event of a stream */


#include <string.h>

#include "wq_state.h"


/* of a constant length, so that the compiler makes a few moves of it */

#define wq_state_literal(p, literal)                                          \
    ((u_char *) memcpy(p, literal, sizeof(literal) - 1)                       \
     + sizeof(literal) - 1)

/* what stands in front of a chunk: the length in hexadecimal, CR, LF */

#define WQ_SSE_CHUNK_HEAD  8


static u_char *wq_state_string(u_char *p, const wq_str_t *s, size_t max);
static u_char *wq_state_number(u_char *p, int64_t n);
static u_char *wq_state_digits(u_char *p, uint64_t n);
static size_t wq_state_length(uint64_t n);


#define WQ_X(constant, word)  wq_string(word),
static const wq_str_t  wq_status_words[] = {
    WQ_STATUSES(WQ_X)
};
#undef WQ_X


#define WQ_X(constant, word)  wq_string("{\"status\":\"" word "\""),
static const wq_str_t  wq_state_heads[] = {
    WQ_STATUSES(WQ_X)
};
#undef WQ_X


#define WQ_X(constant, name, before)                                          \
    wq_string(before "event: " name "\ndata: "),
static const wq_str_t  wq_sse_heads[] = {
    WQ_SSE_EVENTS(WQ_X)
};
#undef WQ_X


/* two digits for each division */

static const u_char  wq_state_pairs[] =
    "00010203040506070809"
    "10111213141516171819"
    "20212223242526272829"
    "30313233343536373839"
    "40414243444546474849"
    "50515253545556575859"
    "60616263646566676869"
    "70717273747576777879"
    "80818283848586878889"
    "90919293949596979899";


const wq_str_t  wq_sse_comment = wq_string(": \n\n");
const wq_str_t  wq_sse_comment_chunk = wq_string("4\r\n: \n\n\r\n");


const char *
wq_status_word(wq_status_e status)
{
    if ((unsigned) status >= WQ_STATUS_MAX) {
        status = WQ_STATUS_NONE;
    }

    return (const char *) wq_status_words[status].data;
}


wq_status_e
wq_status_parse(const u_char *word, size_t len)
{
    unsigned  i;

    for (i = 0; i < WQ_STATUS_MAX; i++) {
        if (wq_status_words[i].len == len
            && memcmp(wq_status_words[i].data, word, len) == 0)
        {
            break;
        }
    }

    return (wq_status_e) i;
}


u_char *
wq_state_json(u_char *p, const wq_state_t *state, unsigned brief)
{
    size_t           len;
    u_char          *rank;
    unsigned         status;
    const wq_str_t  *head;

    status = (unsigned) state->status;
    head = &wq_state_heads[status < WQ_STATUS_MAX ? status : WQ_STATUS_NONE];

    memcpy(p, head->data, head->len);
    p += head->len;

    if (!brief) {
        p = wq_state_literal(p, ",\"eventId\":\"");
        p = wq_state_string(p, &state->event, WQ_ID_MAX);
        p = wq_state_literal(p, "\",\"userId\":\"");
        p = wq_state_string(p, &state->user, WQ_ID_MAX);
        p = wq_state_literal(p, "\"");
    }

    if (state->rank >= 0) {
        p = wq_state_literal(p, ",\"rank\":");
        rank = p;
        p = wq_state_digits(p, (uint64_t) state->rank);
        len = (size_t) (p - rank);

        p = wq_state_literal(p, ",\"waitingPosition\":");
        p = wq_state_digits(p, (uint64_t) state->rank + 1);

        p = wq_state_literal(p, ",\"aheadCount\":");
        memcpy(p, rank, len);
        p += len;

    } else {
        p = wq_state_literal(p, ",\"rank\":null,\"waitingPosition\":null,"
                                "\"aheadCount\":null");
    }

    p = wq_state_literal(p, ",\"total\":");
    p = wq_state_number(p, state->total);

    p = wq_state_literal(p, ",\"etaSeconds\":");
    p = wq_state_number(p, state->eta);

    if (!brief) {

        if (state->token.len > 0) {
            p = wq_state_literal(p, ",\"token\":\"");
            p = wq_state_string(p, &state->token, WQ_TOKEN_LEN);
            p = wq_state_literal(p, "\",\"expiresAt\":");

        } else {
            p = wq_state_literal(p, ",\"token\":null,\"expiresAt\":");
        }

        p = wq_state_number(p, state->expires);
    }

    return wq_state_literal(p, "}");
}


u_char *
wq_sse_event(u_char *p, wq_sse_event_e event, uint32_t retry_ms,
    const wq_state_t *state, unsigned brief)
{
    const wq_str_t  *head;

    if ((unsigned) event >= WQ_SSE_MAX) {
        return p;
    }

    if (retry_ms > 0) {
        p = wq_state_literal(p, "retry: ");
        p = wq_state_digits(p, retry_ms);
        p = wq_state_literal(p, "\n");
    }

    head = &wq_sse_heads[event];

    memcpy(p, head->data, head->len);
    p += head->len;

    p = wq_state_json(p, state, brief);

    return wq_state_literal(p, "\n\n");
}


u_char *
wq_sse_chunk(u_char *buf, u_char **end, wq_sse_event_e event,
    uint32_t retry_ms, const wq_state_t *state, unsigned brief)
{
    size_t   len;
    u_char  *p, *start;

    static const u_char  hex[] = "0123456789abcdef";

    /* the event first: its length is not known before it is written */

    start = buf + WQ_SSE_CHUNK_HEAD;
    p = wq_sse_event(start, event, retry_ms, state, brief);
    len = (size_t) (p - start);

    if (len == 0) {

        /* a chunk of no length would end the stream */

        *end = start;

        return start;
    }

    *end = wq_state_literal(p, "\r\n");

    *--start = '\n';
    *--start = '\r';

    do {
        *--start = hex[len & 0xf];
        len >>= 4;
    } while (len > 0);

    return start;
}


/* the bound is the buffer's: whoever gives more must not write past it */

static u_char *
wq_state_string(u_char *p, const wq_str_t *s, size_t max)
{
    size_t  len;

    len = s->len < max ? s->len : max;

    /* an empty string may have no data, and memcpy() takes no NULL */

    if (len > 0) {
        memcpy(p, s->data, len);
    }

    return p + len;
}


static u_char *
wq_state_number(u_char *p, int64_t n)
{
    if (n < 0) {
        return wq_state_literal(p, "null");
    }

    return wq_state_digits(p, (uint64_t) n);
}


static u_char *
wq_state_digits(u_char *p, uint64_t n)
{
    u_char        *end;
    const u_char  *pair;

    end = p + wq_state_length(n);
    p = end;

    while (n > 9) {
        pair = &wq_state_pairs[2 * (n % 100)];
        n /= 100;

        *--p = pair[1];
        *--p = pair[0];
    }

    /* an even number of digits is all in pairs, unless it is 0 alone */

    if (n > 0 || p == end) {
        *--p = (u_char) ('0' + n);
    }

    return end;
}


static size_t
wq_state_length(uint64_t n)
{
    size_t  length;

    length = 1;

    /* four at a time: most numbers take one division or none */

    while (n > 9999) {
        n /= 10000;
        length += 4;
    }

    return length + (n > 9) + (n > 99) + (n > 999);
}
