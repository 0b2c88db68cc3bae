
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
    X(streams_opened, "streamsOpened", "streams_opened",                      \
      "Streams that were answered with a place or a token.")                  \
    X(streams_closed, "streamsClosed", "streams_closed",                      \
      "Streams that have ended, by whichever side.")                          \
    X(streams_replaced, "streamsReplaced", "streams_replaced",                \
      "Streams ended because the same user connected elsewhere.")             \
    X(streams_stalled, "streamsStalled", "streams_stalled",                   \
      "Times that a client did not take what was sent.")                      \
    X(streams_timed_out, "streamsTimedOut", "streams_timed_out",              \
      "Streams ended because the client took nothing for send_timeout.")      \
    X(streams_refused, "streamsRefused", "streams_refused",                   \
      "Streams refused with 503: waiting_queue_max_streams are open.")        \
    X(joins_refused, "joinsRefused", "joins_refused",                         \
      "Streams refused with 503: Redis or the capacity was not there.")       \
    X(positions_sent, "positionsSent", "positions_sent",                      \
      "Positions written to streams.")                                        \
    X(promotions_told, "promotionsTold", "promotions_told",                   \
      "Tokens written to streams.")                                           \
    X(comments_sent, "commentsSent", "comments_sent",                         \
      "Comments written to keep quiet streams alive.")                        \
    X(capacity_asked, "capacityAsked", "capacity_requests",                   \
      "Times that the event service was asked for a capacity.")               \
    X(capacity_failed, "capacityFailed", "capacity_failures",                 \
      "Times that it gave none.")                                             \
    X(gate_passed, "gatePassed", "gate_passed",                               \
      "Requests that the gate let through to the backend.")                   \
    X(gate_remembered, "gateRemembered", "gate_remembered",                   \
      "Those of them whose token the node knew, without asking Redis.")       \
    X(gate_passed_on_error, "gatePassedOnError", "gate_passed_on_error",      \
      "Those of them that waiting_queue_on_error let through.")               \
    X(gate_rationed, "gateRationed", "gate_rationed",                         \
      "Requests over the ration of waiting_queue_on_error.")                  \
    X(gate_kept_back, "gateKeptBack", "gate_kept_back",                       \
      "Requests that the gate answered with the page or the JSON.")           \
    X(gate_bypassed, "gateBypassed", "gate_bypassed",                         \
      "Requests that waiting_queue_bypass let through.")                      \
    X(gate_dry_run, "gateDryRun", "gate_dry_run",                             \
      "Requests let through that would have been kept back.")                 \
    X(api_joins, "apiJoins", "api_joins",                                     \
      "POST requests of the token API.")                                      \
    X(api_polls, "apiPolls", "api_polls",                                     \
      "GET and HEAD requests of the token API.")                              \
    X(api_quits, "apiQuits", "api_quits",                                     \
      "DELETE requests of the token API.")                                    \
    X(api_unavailable, "apiUnavailable", "api_unavailable",                   \
      "Requests of the token API answered with 503.")                         \
    X(tokens_refused, "tokensRefused", "tokens_refused",                      \
      "Tokens that were not good: forged, lapsed, of somebody else.")         \
    X(visits_done, "visitsDone", "visits_done",                               \
      "Leases ended by the backend with done.")                               \
    X(visits_sold, "visitsSold", "visits_sold",                               \
      "Leases ended by the backend with sold.")                               \
    X(seats_locked, "seatsLocked", "seats_locked",                            \
      "Requests that got the lock of their seat.")                            \
    X(seats_waited, "seatsWaited", "seats_waited",                            \
      "Requests that had to wait in line for it.")                            \
    X(seats_refused, "seatsRefused", "seats_refused",                         \
      "Requests answered with 409: the wait for it was over.")                \
    X(seats_lapsed, "seatsLapsed", "seats_lapsed",                            \
      "Locks whose lease was over while the request was at the backend.")     \
    X(seats_failed, "seatsFailed", "seats_failed",                            \
      "Requests answered with 503: Redis could not be asked for it.")         \
    X(seats_passed_on, "seatsPassedOn", "seats_passed_on",                    \
      "Locks handed to a request that was gone, and given on at once.")       \
    X(leaves, "leaves", "leaves",                                             \
      "Places given up after the grace time.")                                \
    X(releases, "releases", "releases",                                       \
      "Leases given back because nobody was connected.")                      \
    X(promote_rounds, "promoteRounds", "promote_rounds",                      \
      "Rounds of promotion this process led.")                                \
    X(promote_calls, "promoteCalls", "promote_calls",                         \
      "Calls of the promote script.")                                         \
    X(promote_us, "promoteUs", "promote_microseconds",                        \
      "Time from sending the promote script to its answer, summed up.")       \
    X(promoted, "promoted", "promotions",                                     \
      "Users let in by this process' calls of the promote script.")           \
    X(lapsed, "lapsed", "lapses",                                             \
      "Leases taken back by this process' calls of the promote script.")      \
    X(broadcasts, "broadcasts", "broadcasts",                                 \
      "Sweeps over the clients of one event.")                                \
    X(broadcast_us, "broadcastUs", "broadcast_microseconds",                  \
      "Time from asking for the positions to the end of the sweep, "          \
      "summed up.")                                                           \
    X(late_ticks, "lateTicks", "late_ticks",                                  \
      "Ticks of an event skipped because the one before was under way.")      \
    X(resyncs, "resyncs", "resyncs",                                          \
      "Times that all ranks of an event were asked for anew.")                \
    X(restored, "restored", "restored",                                       \
      "Clients put back in line after Redis had lost them.")                  \
    X(leases_restored, "leasesRestored", "leases_restored",                   \
      "Leases put back after Redis had lost them.")                           \
    X(routed, "routed", "routed_messages",                                    \
      "Messages taken from ENTRY and handed to a worker's stream.")           \
    X(unroutable, "unroutable", "unroutable_messages",                        \
      "Messages of ENTRY for a worker that is gone.")                         \
    X(router_garbage, "routerGarbage", "router_garbage",                      \
      "Messages of ENTRY that nobody could make sense of.")                   \
    X(claimed, "claimed", "claimed_messages",                                 \
      "Messages of ENTRY taken over from another worker.")                    \
    X(reaped, "reaped", "reaped",                                             \
      "Places and leases of dead instances taken back.")                      \
    X(buried, "buried", "buried_instances",                                   \
      "Dead instances whose traces were removed.")                            \
    X(dispatched, "dispatched", "dispatch_messages",                          \
      "Messages read from this worker's DISPATCH stream.")                    \
    X(dispatch_garbage, "dispatchGarbage", "dispatch_garbage",                \
      "Messages of the DISPATCH stream that nobody could make sense of.")


/* what is so now, and ends with the process */

#define WQ_PROCESS_GAUGES(X)                                                  \
    X(streams, "streams", "streams",                                          \
      "Streams open.")                                                        \
    X(absent, "absent", "absent_clients",                                     \
      "Clients whose stream has ended and whose grace time has not.")         \
    X(seats_held, "seatsHeld", "seats_held",                                  \
      "Requests that hold the lock of a seat.")                               \
    X(seats_waiting, "seatsWaiting", "seats_waiting",                         \
      "Requests that wait for one.")                                          \
    X(router_lag_ms, "routerLagMs", "router_lag_milliseconds",                \
      "Age of the last message that the router has read.")                    \
    X(dispatcher_lag_ms, "dispatcherLagMs", "dispatcher_lag_milliseconds",    \
      "Age of the last message that the dispatcher has read.")                \
    X(broadcast_last_us, "broadcastLastUs", "broadcast_last_microseconds",    \
      "How long the last sweep took, with its question to Redis.")


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


typedef struct {
#define WQ_X(field, json, prometheus, help)  wq_counter_t  field;
    WQ_PROCESS_GAUGES(WQ_X)
#undef WQ_X
} wq_process_gauges_t;


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
