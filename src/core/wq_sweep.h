
/*
 * core: the rank of everybody who waits, kept exact without asking for it.
 *
 * Redis tells two things: how many were ever let in from the head of the line,
 * and, as a numbered list, who left it from the middle (or, after a loss of
 * data, came back to it).  Whoever knows a rank and the two numbers of that
 * moment can compute the rank of any later moment:
 *
 *     rank -= let in since, as all of them stood in front
 *     rank -= left since with a lower idx
 *     rank += back since with a lower idx
 */


#ifndef WQ_SWEEP_H_INCLUDED_
#define WQ_SWEEP_H_INCLUDED_


#include "wq_core.h"


/* the moment of which a rank is true */

typedef struct {
    uint64_t            promoted;   /* let in from the line, in total */
    uint64_t            gone;       /* number of the last entry in the list */
} wq_moment_t;


/* an entry of the list: positive for one who left, negative for one who is
 * back; the absolute value is the idx */

typedef int64_t  wq_gone_t;


typedef struct {
    wq_moment_t         from;
    wq_moment_t         to;

    const wq_gone_t    *entries;    /* from.gone + 1 ... to.gone, in order */
    size_t              n;

    wq_gone_t          *sorted;     /* the same by idx */

    /* in a sweep in the order of idx: the entries with a lower one so far */
    size_t              passed;
    int64_t             sum;
    uint64_t            last_idx;
} wq_sweep_t;


/*
 * Prepares a sweep from one moment to a later one.  sorted is room for n
 * entries; it and entries are the caller's and must live as long as the sweep.
 * WQ_OK, or WQ_BAD_RANGE if the moments are not in order, n is not their
 * distance, or an entry is 0, which says nothing of anybody.
 */

wq_rc_t wq_sweep_init(wq_sweep_t *sweep, wq_moment_t from, wq_moment_t to,
    const wq_gone_t *entries, size_t n, wq_gone_t *sorted);


/*
 * Brings one rank from its own moment to sweep->to, and the moment with it.
 * Fast for ranks of the moment sweep->from that come in the order of their idx
 * (O(1) on average), right for all: a rank of a moment after sweep->to stays as
 * it is, one of a moment within takes the entries after it alone.
 *
 * WQ_OK, or WQ_BAD_RANGE for a moment before sweep->from, for one that cannot
 * be (one number past sweep->to, the other before it), or if the rank would
 * become negative or pass 64 bits; all mean that the rank must be asked for,
 * and leave it and its moment as they were.
 */

wq_rc_t wq_sweep_rank(wq_sweep_t *sweep, uint64_t idx, uint64_t *rank,
    wq_moment_t *moment);


#endif /* WQ_SWEEP_H_INCLUDED_ */
