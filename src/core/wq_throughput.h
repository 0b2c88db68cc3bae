
/* core: how fast a counter grows, from looks at it now and then */


#ifndef WQ_THROUGHPUT_H_INCLUDED_
#define WQ_THROUGHPUT_H_INCLUDED_


#include "wq_core.h"


/* what is measured lies so far back, in ms */
#define WQ_THROUGHPUT_MIN      10000
#define WQ_THROUGHPUT_MAX      60000

/* they are taken 10 s apart at least, so that these reach back for 60 s */
#define WQ_THROUGHPUT_SAMPLES  6


/* all zeros is a measurement that has not begun */

typedef struct {
    struct {
        uint64_t   time_ms;
        uint64_t   count;
    }              samples[WQ_THROUGHPUT_SAMPLES];

    uint64_t       taken;       /* samples since the beginning */
    uint64_t       time_ms;     /* of the last look */
    uint64_t       count;       /* at the last look */
} wq_throughput_t;


/*
 * A look at the counter.  The measurement begins anew when the count has
 * fallen, or the clock been set back.  By a little it goes back all the time,
 * as each process has read it at another moment: that is no time passed.
 */

void wq_throughput_look(wq_throughput_t *throughput, uint64_t now_ms,
    uint64_t count);


/*
 * How much the counter grows in a minute, by the looks of the last minute,
 * rounded down.  0 as long as they do not span 10 s.
 */

uint64_t wq_throughput_per_minute(const wq_throughput_t *throughput,
    uint64_t now_ms);


#endif /* WQ_THROUGHPUT_H_INCLUDED_ */
