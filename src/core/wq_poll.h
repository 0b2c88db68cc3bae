
/* core: how long somebody without a stream waits before asking again */


#ifndef WQ_POLL_H_INCLUDED_
#define WQ_POLL_H_INCLUDED_


#include "wq_core.h"


/*
 * In ms, for somebody in line: 2 s among the first 10, 5 s among the first 100,
 * else 10 s, for it changes less there; but a third of the time after which the
 * place is given up at most, and at least 1 s.  A negative rank is one that is
 * not known.
 */

#define WQ_POLL_MIN  1000
#define WQ_POLL_MAX  10000

uint32_t wq_poll_ms(int64_t rank, uint64_t timeout_ms);


/* from a half of it to all of it, so that not all come at once */

uint32_t wq_poll_spread(uint32_t ms, uint32_t random);


#endif /* WQ_POLL_H_INCLUDED_ */
