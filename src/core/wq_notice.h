
/* core: what a message of ENTRY or DISPATCH says */


#ifndef WQ_NOTICE_H_INCLUDED_
#define WQ_NOTICE_H_INCLUDED_


#include "wq_core.h"
#include "wq_reply.h"


/* X(constant, word in the message) */

#define WQ_NOTICES(X)                                                         \
    X(PROMOTED, "promoted")                                                   \
    X(EXPIRED,  "expired")                                                    \
    X(REPLACED, "replaced")                                                   \
    X(MOVED,    "moved")        /* the place has another idx */               \
    X(SEAT,     "seat")         /* user: the seat; idx: of the waiter */

typedef enum {
#define WQ_X(constant, word)  WQ_NOTICE_##constant,
    WQ_NOTICES(WQ_X)
#undef WQ_X
    WQ_NOTICE_MAX
} wq_notice_e;


/* something happened to a user whom an instance holds */

typedef struct {
    wq_notice_e   type;
    wq_str_t      event;
    wq_str_t      user;
    wq_str_t      instance;
    wq_str_t      token;        /* len 0: none */
    int64_t       idx;          /* of the place or the lease */
    int64_t       expires;      /* ms since 1970 */
    int64_t       serial;       /* of who replaces */
} wq_notice_t;


/* the word; "" for a notice that does not exist */

const char *wq_notice_word(wq_notice_e type);


/*
 * fields is an array of name, value, name ..., in any order and with others
 * among them; of a name that comes twice the first counts.  WQ_OK, borrowed
 * from the reply; WQ_MISSING, WQ_BAD_TYPE or WQ_BAD_RANGE for what makes no
 * sense.
 */

wq_rc_t wq_notice_decode(wq_reply_t fields, wq_notice_t *notice);


#endif /* WQ_NOTICE_H_INCLUDED_ */
