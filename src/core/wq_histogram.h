
/* core: the buckets of a histogram of durations */


#ifndef WQ_HISTOGRAM_H_INCLUDED_
#define WQ_HISTOGRAM_H_INCLUDED_


#include "wq_core.h"


/* X(upper bound in us, the same in seconds as Prometheus writes it) */

#define WQ_HISTOGRAM_BOUNDS(X)                                                \
    X(100,     "0.0001")                                                      \
    X(250,     "0.00025")                                                     \
    X(500,     "0.0005")                                                      \
    X(1000,    "0.001")                                                       \
    X(2500,    "0.0025")                                                      \
    X(5000,    "0.005")                                                       \
    X(10000,   "0.01")                                                        \
    X(25000,   "0.025")                                                       \
    X(50000,   "0.05")                                                        \
    X(100000,  "0.1")                                                         \
    X(250000,  "0.25")                                                        \
    X(500000,  "0.5")                                                         \
    X(1000000, "1")                                                           \
    X(2500000, "2.5")


#define WQ_X(us, text)  + 1
enum {
    WQ_HISTOGRAM_BUCKETS = 0 WQ_HISTOGRAM_BOUNDS(WQ_X) + 1  /* last: +Inf */
};
#undef WQ_X


/* the one bucket a duration falls into; a bound belongs to its bucket (le) */

size_t wq_histogram_bucket(uint64_t us);

/* "0.0001" ... "+Inf" */

const char *wq_histogram_bound(size_t bucket);


#endif /* WQ_HISTOGRAM_H_INCLUDED_ */
