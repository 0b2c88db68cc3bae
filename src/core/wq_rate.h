
/* core: how many may go in, in how long: as an operator says it */


#ifndef WQ_RATE_H_INCLUDED_
#define WQ_RATE_H_INCLUDED_


#include "wq_core.h"


#define WQ_RATE_USERS_MAX   100000000
#define WQ_RATE_PERIOD_MAX  86400000        /* ms: a day */

/* of a number with a point: 12.5 is 12500 */
#define WQ_DECIMAL_ONE      1000

/* the largest that is read: 999999999.999 */
#define WQ_DECIMAL_MAX      999999999999


typedef struct {
    uint32_t   users;           /* in each period */
    uint32_t   period_ms;       /* 0: there is no rate */
} wq_rate_t;


/* what a backend can do; numbers in units of 1/WQ_DECIMAL_ONE */

typedef struct {
    uint64_t   tps;             /* requests per second, at most */
    uint64_t   calls;           /* requests of one visit */
    uint64_t   failure;         /* part of them that is made again */
    uint64_t   load;            /* part of what is possible to aim at */
    uint64_t   session_ms;      /* of one visit */
} wq_backend_t;


/* and what follows from that, rounded down */

typedef struct {
    uint64_t   concurrent;      /* tps * session / (calls * (1 + failure)) */
    uint64_t   cycle_ms;        /* session / load */
    uint64_t   per_cycle;       /* tps * cycle / (calls * (1 + failure)) */
    wq_rate_t  rate;            /* per_cycle / cycle, in a handy period */
} wq_plan_t;


/*
 * A number of at most 9 digits, and of a point and at most 3 more if it has
 * them: "6", "0.15".  WQ_OK, or what is wrong first, from the left:
 *
 *   WQ_EMPTY          there is nothing, or nothing on one side of the point
 *   WQ_BAD_CHARACTER  neither a digit nor the one point
 *   WQ_TOO_LONG       more digits
 */

wq_rc_t wq_decimal_parse(const u_char *text, size_t len, uint64_t *number);


/*
 * The rate is that of the shortest period of 10, 20, 30 and 60 s in which at
 * least 10 go in, or else of 60 s; from 100 users on only its first two digits
 * are not 0, so that it is what one would say: 1400 in 10 s, not 1449.  It is
 * taken from the numbers themselves, not from those that are rounded already.
 *
 * WQ_OK, or WQ_BAD_RANGE, and no plan: a number of the backend is 0 (but
 * failure may be) or above WQ_DECIMAL_MAX, a load is above 1, the rate is less
 * than 1 or more than WQ_RATE_USERS_MAX, or a number of the plan has no room.
 */

wq_rc_t wq_rate_plan(const wq_backend_t *backend, wq_plan_t *plan);


#endif /* WQ_RATE_H_INCLUDED_ */
