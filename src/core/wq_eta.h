
/*
 * core: how long the line takes.
 *
 * With a rate that is known beforehand.  Without one by what was seen: how many
 * were let in from the line of late, and how many in it gave up, for whoever
 * stands behind them moves up too.  Where too little was seen there is no
 * answer, rather than one that is made up.
 */


#ifndef WQ_ETA_H_INCLUDED_
#define WQ_ETA_H_INCLUDED_


#include "wq_rate.h"


/*
 * What was seen of one line, over several spans of time, in each of which it
 * decays as time passes.  The shorter ones know more of what happens now, the
 * longer ones have seen more: each counts as far as enough has happened in it.
 * Plain data, for shared memory; all zeros is a line of which nothing was seen.
 */

#define WQ_FLOW_SPANS         3

/* let in, or given up: a span that saw so many counts as much as the longer */
#define WQ_FLOW_ENOUGH        50

/* in the longest span: fewer, or in less time, are no basis */
#define WQ_FLOW_LET_IN_MIN    5
#define WQ_FLOW_SECONDS_MIN   10

/*
 * A line in which nobody was let in for so many seconds, and for so many times
 * as long as it usually takes, is not known any more.
 */

#define WQ_FLOW_IDLE          600
#define WQ_FLOW_IDLE_TIMES    5

/* ms: a clock that goes back by no more than this was not set back */
#define WQ_FLOW_SKEW          10000

/* ms: more from one look to the next are not counted */
#define WQ_FLOW_PAUSE         300000

/* ms: a last look longer ago than this is no basis */
#define WQ_FLOW_AGE           60000

typedef struct {
    double     seconds;         /* in which somebody waited */
    double     let_in;          /* in them */
    double     gave_up;
    double     waited;          /* users * seconds */
} wq_flow_span_t;

typedef struct {
    wq_flow_span_t   spans[WQ_FLOW_SPANS];
    double           idle;      /* seconds of the line since one was let in */

    uint64_t         time_ms;   /* of the last look */
    uint64_t         promoted;  /* at it */
    uint64_t         gave_up;
    uint64_t         waiting;   /* 0 if the line was halted */
} wq_flow_t;


/* a look at the line: counters since its beginning, and who waits now */

typedef struct {
    uint64_t   promoted;
    uint64_t   gave_up;
    uint64_t   waiting;
    unsigned   halted;          /* nobody is let in, by the operator's word */
} wq_look_t;


/*
 * Looks may come at any distance, from processes that have looked at the clock
 * at different moments.  A counter that has fallen is a line whose data were
 * lost, and a clock that was set back far, or a pause of several minutes, a
 * beginning: what was seen before stays, what is between is not counted.  Time
 * in which nobody waits, or the line is halted, is no time of the line: a look
 * counts what is since the one before it if somebody waited then and the line
 * was halted neither then nor now.
 *
 * Who knows that slots are free may call the line halted here: as long as they
 * are being filled it is faster than it is going to be.
 */

void wq_flow_look(wq_flow_t *flow, uint64_t now_ms, const wq_look_t *look);


/* how fast the line moves; a speed of all zeros is not known */

typedef struct {
    double     let_in;          /* users per second */
    double     gave_up;         /* of each who waits, per second */
} wq_speed_t;

/* the speed, as far as it is known; not by looks that are too long ago */

void wq_flow_speed(const wq_flow_t *flow, uint64_t now_ms, wq_speed_t *speed);


/* all that a waiting time is made of */

typedef struct {
    wq_rate_t    rate;
    wq_speed_t   speed;
    unsigned     halted:1;
    unsigned     crowded:1;     /* no slot is free: a rate is not all */
} wq_pace_t;


/*
 * Seconds until the one at this position (from 1) is let in, rounded up;
 * WQ_ETA_UNKNOWN if that is not known: the line is halted, or nothing was seen
 * of it and there is no rate.  With a rate it is ceil(position / users) *
 * period; where no slot is free and what was seen says that it takes longer, it
 * is that.  Never more than WQ_ETA_MAX: beyond it nothing is known.
 */

#define WQ_ETA_UNKNOWN  (-1)
#define WQ_ETA_MAX      (7 * 86400)

int64_t wq_eta(const wq_pace_t *pace, uint64_t position);


#endif /* WQ_ETA_H_INCLUDED_ */
