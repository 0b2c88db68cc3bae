
/* core: how many may pass in how long: a bucket of tokens */


#ifndef WQ_BUCKET_H_INCLUDED_
#define WQ_BUCKET_H_INCLUDED_


#include "wq_rate.h"


/*
 * It holds the tokens of one period and is filled evenly, so that after a rest
 * so many may pass at once, and from then on one after the other: in any
 * stretch of time at most the users of one period, and those that the rate
 * gives for that time.
 *
 * What is kept is how much is missing, in parts of a token, so that the same
 * bucket may be asked with different rates.  All zeros is a full one.
 */

typedef struct {
    uint64_t   missing;
    uint64_t   filled_ms;       /* when, last */
} wq_bucket_t;


/*
 * Takes a token: WQ_OK, or WQ_EMPTY if there is none.  The rate must be one,
 * within the bounds of wq_rate.h.  What is filled in is rounded down.
 *
 * Time goes back a little now and then, as each process has read the clock at
 * another moment: that is no time passed, and is not counted twice.
 */

wq_rc_t wq_bucket_take(wq_bucket_t *bucket, const wq_rate_t *rate,
    uint64_t now_ms);


#endif /* WQ_BUCKET_H_INCLUDED_ */
