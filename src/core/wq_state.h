
/* core: what a user is told, as JSON and as an event of a stream */


#ifndef WQ_STATE_H_INCLUDED_
#define WQ_STATE_H_INCLUDED_


#include "wq_core.h"
#include "wq_id.h"


/* X(constant, word in the JSON) */

#define WQ_STATUSES(X)                                                        \
    X(NONE,     "none")                                                       \
    X(WAITING,  "waiting")                                                    \
    X(READY,    "ready")                                                      \
    X(ENTERED,  "entered")                                                    \
    X(SOLD_OUT, "sold_out")                                                   \
    X(CLOSED,   "closed")                                                     \
    X(FULL,     "full")

typedef enum {
#define WQ_X(constant, word)  WQ_STATUS_##constant,
    WQ_STATUSES(WQ_X)
#undef WQ_X
    WQ_STATUS_MAX
} wq_status_e;


/*
 * X(constant, name of the event, what stands before it).  After some a stream
 * is over, and so is the matter: they have an id, with which an EventSource
 * that connects again by itself can be told not to.
 */

#define WQ_SSE_OVER  "over"

#define WQ_SSE_EVENTS(X)                                                      \
    X(POSITION,  "position",  "")                                             \
    X(PROMOTED,  "promoted",  "")                                             \
    X(EXPIRED,   "expired",   "id: " WQ_SSE_OVER "\n")                        \
    X(SOLD_OUT,  "sold_out",  "id: " WQ_SSE_OVER "\n")                        \
    X(CLOSED,    "closed",    "id: " WQ_SSE_OVER "\n")                        \
    X(REPLACED,  "replaced",  "id: " WQ_SSE_OVER "\n")                        \
    X(RECONNECT, "reconnect", "")

typedef enum {
#define WQ_X(constant, name, before)  WQ_SSE_##constant,
    WQ_SSE_EVENTS(WQ_X)
#undef WQ_X
    WQ_SSE_MAX
} wq_sse_event_e;


#define WQ_STATE_UNKNOWN  (-1)      /* written as null */

#define WQ_TOKEN_LEN      40


typedef struct {
    wq_status_e   status;
    wq_str_t      event;
    wq_str_t      user;
    int64_t       rank;             /* from 0; WQ_STATE_UNKNOWN: not in line */
    int64_t       total;            /* in line */
    int64_t       eta;              /* s */
    wq_str_t      token;            /* len 0: none */
    int64_t       expires;          /* ms since 1970 */
} wq_state_t;


/*
 * The word of the JSON ("none" for a status that does not exist), and back;
 * WQ_STATUS_MAX for any other.
 */

const char *wq_status_word(wq_status_e status);
wq_status_e wq_status_parse(const u_char *word, size_t len);


/*
 * The JSON that everything is told by, without a newline:
 *
 *   {"status":"waiting","eventId":"e1","userId":"u1","rank":16,
 *    "waitingPosition":17,"aheadCount":16,"total":420,"etaSeconds":10,
 *    "token":null,"expiresAt":null}
 *
 * in this order, on one line.  rank, waitingPosition and aheadCount are null
 * together; any negative number is null.  The short form leaves out what cannot
 * change while one waits: eventId, userId, token, expiresAt.  Ids and token are
 * such that they need no escaping; longer ones than WQ_ID_MAX and WQ_TOKEN_LEN
 * are cut.  Writes at most WQ_STATE_SIZE bytes and returns the end.
 */

#define WQ_STATE_SIZE  (256 + 2 * WQ_ID_MAX + WQ_TOKEN_LEN + 6 * 20)

u_char *wq_state_json(u_char *p, const wq_state_t *state, unsigned brief);


/*
 * One event: "event: NAME\ndata: JSON\n\n".  Before it stands "retry: MS\n" if
 * retry_ms is not 0, then "id: over\n" if nothing follows it.  Writes at most
 * WQ_SSE_SIZE bytes, none for an event that does not exist.
 */

#define WQ_SSE_SIZE  (WQ_STATE_SIZE + 64)

u_char *wq_sse_event(u_char *p, wq_sse_event_e event, uint32_t retry_ms,
    const wq_state_t *state, unsigned brief);


/*
 * The same as a chunk of HTTP/1.1, written at most at WQ_SSE_CHUNK_SIZE bytes:
 * returns where it begins (at or after buf), and its end in *end.
 */

#define WQ_SSE_CHUNK_SIZE  (WQ_SSE_SIZE + 8 + 2)

u_char *wq_sse_chunk(u_char *buf, u_char **end, wq_sse_event_e event,
    uint32_t retry_ms, const wq_state_t *state, unsigned brief);


/* what keeps a quiet stream alive, plain and as a chunk */

extern const wq_str_t  wq_sse_comment;
extern const wq_str_t  wq_sse_comment_chunk;


#endif /* WQ_STATE_H_INCLUDED_ */
