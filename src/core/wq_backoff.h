
/* core: how long to wait before the next try */


#ifndef WQ_BACKOFF_H_INCLUDED_
#define WQ_BACKOFF_H_INCLUDED_


#include "wq_core.h"


typedef struct {
    uint32_t   min_ms;
    uint32_t   max_ms;
    uint32_t   last_ms;     /* 0: no failure since the last reset */
} wq_backoff_t;


/* min_ms is at least 1, max_ms at least min_ms; other values are raised */

void wq_backoff_init(wq_backoff_t *backoff, uint32_t min_ms, uint32_t max_ms);


/*
 * The delay in ms before the next try: decorrelated jitter, evenly between
 * min_ms and three times the last delay, never above max_ms, so that a
 * thousand workers that lost one Redis in one moment do not come back in one
 * moment.  random is any 32 random bits.
 */

uint32_t wq_backoff_next(wq_backoff_t *backoff, uint32_t random);


/* to be called after a command worked, not after a mere connect: a Redis that
 * accepts and then fails must not be asked at full speed */

void wq_backoff_reset(wq_backoff_t *backoff);


#endif /* WQ_BACKOFF_H_INCLUDED_ */
