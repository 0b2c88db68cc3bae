
/*
 * core: the counters of one process, each named once.
 *
 * One list makes the struct, the JSON and the Prometheus text.  A counter is
 * written by its own process alone and read by any, so a plain store that
 * cannot tear is enough: no lock, no locked instruction.
 */


#ifndef WQ_COUNTERS_H_INCLUDED_
#define WQ_COUNTERS_H_INCLUDED_


#include "wq_core.h"
#include "wq_histogram.h"


/* X(field, name in JSON, name in Prometheus without prefix and _total, help) */

#define WQ_LINK_COUNTERS(X)                                                   \
    X(connects, "connects", "connects",                                       \
      "Connections to Redis that became ready.")                              \
    X(reconnects, "reconnects", "reconnects",                                 \
      "Connections to Redis that became ready again after a loss.")           \
    X(connect_failures, "connectFailures", "connect_failures",                \
      "Tries to connect that ended before the connection was ready.")         \
    X(sent, "sent", "commands_sent",                                          \
      "Commands sent to Redis.")                                              \
    X(failed, "failed", "commands_failed",                                    \
      "Commands that Redis answered with an error.")                          \
    X(timed_out, "timedOut", "commands_timed_out",                            \
      "Commands that were not answered in time.")                             \
    X(lost, "lost", "commands_lost",                                          \
      "Commands whose connection ended before the answer.")                   \
    X(refused, "refused", "commands_refused",                                 \
      "Commands not sent: link not ready, or too many in flight.")            \
    X(bad_replies, "badReplies", "bad_replies",                               \
      "Answers that were not what the command gives.")                        \
    X(script_misses, "scriptMisses", "script_misses",                         \
      "Scripts that Redis had forgotten and that were sent whole.")


/* what a process does besides its links */

#define WQ_PROCESS_COUNTERS(X)                                                \
    X(heartbeats, "heartbeats", "heartbeats",                                 \
      "Heartbeats that Redis took.")                                          \
    X(late_heartbeats, "lateHeartbeats", "late_heartbeats",                   \
      "Heartbeats skipped because the one before was still under way.")       \
    X(dispatched, "dispatched", "dispatch_messages",                          \
      "Messages read from this worker's DISPATCH stream.")                    \
    X(dispatch_garbage, "dispatchGarbage", "dispatch_garbage",                \
      "Messages of the DISPATCH stream that nobody could make sense of.")


typedef uint64_t  wq_counter_t;


typedef struct {
#define WQ_X(field, json, prometheus, help)  wq_counter_t  field;
    WQ_LINK_COUNTERS(WQ_X)
#undef WQ_X

    wq_counter_t   round_trip_us;       /* the sum */
    wq_counter_t   round_trip[WQ_HISTOGRAM_BUCKETS];
} wq_link_counters_t;


typedef struct {
#define WQ_X(field, json, prometheus, help)  wq_counter_t  field;
    WQ_PROCESS_COUNTERS(WQ_X)
#undef WQ_X
} wq_process_counters_t;


#define wq_counter_read(counter)                                              \
    __atomic_load_n(&(counter), __ATOMIC_RELAXED)

#define wq_counter_set(counter, value)                                        \
    __atomic_store_n(&(counter), (value), __ATOMIC_RELAXED)

#define wq_counter_add(counter, n)                                            \
    wq_counter_set(counter, (counter) + (n))


/* both structs are nothing but counters: sum adds from to sum, one by one */

static inline void
wq_counters_sum(void *sum, const void *from, size_t size)
{
    size_t         i;
    wq_counter_t  *to;

    const wq_counter_t  *add;

    to = sum;
    add = from;

    for (i = 0; i < size / sizeof(wq_counter_t); i++) {
        wq_counter_set(to[i], to[i] + wq_counter_read(add[i]));
    }
}


#endif /* WQ_COUNTERS_H_INCLUDED_ */
