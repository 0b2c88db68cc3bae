
/*
 * queue: the lock of a seat, which a request waits for and then holds.
 *
 *   ask -> is free -----------------------------------> held -> leave
 *       -> in line -> a message: it is handed to us --> held     |
 *                  -> the wait is over -> taken ---------------> unlock
 *
 * Who is next is decided in Redis, so it is the same for all workers and nodes.
 * The message is what wakes a request; should it be lost, or the holder die,
 * the request finds out by asking again: when the holder's lease is over, and
 * about once a second before that, more often at the head of the line.
 */


#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_http_wq_seat_internal.h"


/* between two questions of the first in line, in ms; of others up to 4 times */
#define NGX_HTTP_WQ_SEAT_PAUSE       250

/* of all of them, in a worker that quits and reads no messages */
#define NGX_HTTP_WQ_SEAT_LAST_PAUSE  50

/* between two tries of one that came before Redis could be asked, in ms */
#define NGX_HTTP_WQ_SEAT_EARLY       20

/*
 * Between two tries to give a lock back, in ms: until its lease is over, but by
 * a worker that quits only so often.
 */
#define NGX_HTTP_WQ_SEAT_RETRY       1000
#define NGX_HTTP_WQ_SEAT_LAST_TRIES  30


static void ngx_http_wq_seat_describe(ngx_http_wq_seat_t *seat,
    ngx_http_wq_seat_call_t *call);
static ngx_int_t ngx_http_wq_seat_send(ngx_http_wq_seat_t *seat);
static ngx_uint_t ngx_http_wq_seat_early(ngx_http_wq_worker_t *worker);
static void ngx_http_wq_seat_answered(void *data,
    ngx_http_wq_result_t *result);
static void ngx_http_wq_seat_unanswered(ngx_http_wq_seat_t *seat,
    ngx_msec_t since);
static void ngx_http_wq_seat_wait(ngx_http_wq_seat_t *seat,
    const ngx_http_wq_seat_lock_reply_t *reply);
static void ngx_http_wq_seat_give_up(ngx_http_wq_seat_t *seat,
    ngx_http_wq_seat_e outcome);
static void ngx_http_wq_seat_unlock(ngx_http_wq_seat_t *seat);
static void ngx_http_wq_seat_unlocked(void *data,
    ngx_http_wq_result_t *result);


#define ngx_http_wq_seat_count(seat, field)                                   \
    wq_counter_add((seat)->worker->slot->counters.field, 1)

#define ngx_http_wq_seat_gauge(seat, field, n)                                \
    wq_counter_set((seat)->worker->slot->gauges.field,                        \
                   (seat)->worker->slot->gauges.field + (wq_counter_t) (n))


ngx_int_t
ngx_http_wq_seat_ask(ngx_http_wq_worker_t *worker,
    const ngx_http_wq_seat_wish_t *wish, ngx_http_wq_seat_t **seat)
{
    ngx_int_t            rc;
    ngx_http_wq_seat_t  *s;

    s = ngx_http_wq_seat_create(worker, wish);
    if (s == NULL) {
        wq_counter_add(worker->slot->counters.seats_failed, 1);
        return NGX_ERROR;
    }

    rc = ngx_http_wq_seat_send(s);

    if (rc == NGX_DECLINED && wish->wait && ngx_http_wq_seat_early(worker)) {
        s->deaf = 1;
        s->deaf_since = ngx_current_msec;
        ngx_http_wq_timer_set(&s->again, NGX_HTTP_WQ_SEAT_EARLY);

    } else if (rc != NGX_OK) {
        ngx_http_wq_seat_count(s, seats_failed);
        ngx_http_wq_seat_free(s);
        return rc;
    }

    if (s->wish.wait) {
        ngx_http_wq_timer_set(&s->deadline, s->wish.wait);
    }

    ngx_http_wq_seat_gauge(s, seats_waiting, 1);

    *seat = s;

    return NGX_OK;
}


static void
ngx_http_wq_seat_describe(ngx_http_wq_seat_t *seat,
    ngx_http_wq_seat_call_t *call)
{
    call->event = seat->wish.event;
    call->seat = seat->wish.seat;
    call->instance = seat->worker->instance;
    call->number = seat->node.key;
    call->wait = seat->wish.wait;
    call->lease = seat->wish.lease;
}


static ngx_int_t
ngx_http_wq_seat_send(ngx_http_wq_seat_t *seat)
{
    ngx_int_t                rc;
    ngx_http_wq_worker_t    *worker;
    ngx_http_wq_reply_to_t   to;
    ngx_http_wq_seat_call_t  call;

    worker = seat->worker;

    ngx_http_wq_seat_describe(seat, &call);

    to.handler = ngx_http_wq_seat_answered;
    to.data = seat;
    to.operation = NULL;

    rc = ngx_http_wq_call_seat_lock(worker->links[NGX_HTTP_WQ_COMMANDS],
                                    &worker->keyspace, &call, &to);

    if (rc == NGX_OK) {
        seat->asked = ngx_current_msec;
        seat->under_way = 1;
        seat->known = 1;
    }

    return rc;
}


/* the worker has just begun: who has time waits for its link to Redis */

static ngx_uint_t
ngx_http_wq_seat_early(ngx_http_wq_worker_t *worker)
{
    wq_link_counters_t  *counters;

    counters = &worker->slot->links[NGX_HTTP_WQ_COMMANDS].counters;

    return counters->connects == 0 && counters->connect_failures == 0;
}


static void
ngx_http_wq_seat_answered(void *data, ngx_http_wq_result_t *result)
{
    ngx_http_wq_seat_t *seat = data;

    int64_t                         left;
    ngx_int_t                       rc;
    ngx_http_wq_seat_lock_reply_t   reply;

    seat->under_way = 0;

    if (seat->state == NGX_HTTP_WQ_SEAT_LEFT) {
        ngx_http_wq_seat_unlock(seat);
        return;
    }

    if (seat->state != NGX_HTTP_WQ_SEAT_WANTED) {
        /* a message was quicker */
        return;
    }

    rc = ngx_http_wq_decode_seat_lock(
             seat->worker->links[NGX_HTTP_WQ_COMMANDS], result, &reply);

    if (rc != NGX_OK) {
        ngx_http_wq_seat_unanswered(seat, seat->asked);
        return;
    }

    seat->deaf = 0;

    if (reply.held) {

        /* counted from the question, not from the answer: rather too little */

        left = reply.left >= 0 ? reply.left : (int64_t) seat->wish.lease;
        left = ngx_min(left, (int64_t) seat->wish.lease);
        left -= (ngx_msec_int_t) (ngx_current_msec - seat->asked);

        if (left > 0) {
            ngx_http_wq_seat_hold(seat, (ngx_msec_t) left);
            return;
        }

    } else if (seat->wish.wait == 0) {
        seat->known = 0;
    }

    if (seat->wish.wait == 0 || seat->late) {
        ngx_http_wq_seat_give_up(seat, NGX_HTTP_WQ_SEAT_TAKEN);
        return;
    }

    if (!seat->in_line) {
        seat->in_line = 1;
        ngx_http_wq_seat_count(seat, seats_waited);
    }

    ngx_http_wq_seat_wait(seat, &reply);
}


/*
 * There is no answer, since then at least.  Who is in line may still get one,
 * but does not wait for a dead Redis for longer than anybody else.
 */

static void
ngx_http_wq_seat_unanswered(ngx_http_wq_seat_t *seat, ngx_msec_t since)
{
    ngx_msec_t  timeout;

    timeout = seat->worker->conf->redis.timeout;

    if (!seat->deaf) {
        seat->deaf = 1;
        seat->deaf_since = since;
    }

    if (seat->in_line && ngx_current_msec - seat->deaf_since < timeout) {
        ngx_http_wq_seat_wait(seat, NULL);
        return;
    }

    ngx_http_wq_seat_give_up(seat, NGX_HTTP_WQ_SEAT_NO_REDIS);
}


/* until it is asked for again; reply is NULL when there was none */

static void
ngx_http_wq_seat_wait(ngx_http_wq_seat_t *seat,
    const ngx_http_wq_seat_lock_reply_t *reply)
{
    int64_t  ms;

    if (seat->worker->draining) {
        ngx_http_wq_timer_set(&seat->again, NGX_HTTP_WQ_SEAT_LAST_PAUSE);
        return;
    }

    ms = NGX_HTTP_WQ_SEAT_PAUSE;

    if (reply) {

        if (reply->before > 0) {
            ms *= ngx_min(reply->before, 3) + 1;
        }

        if (reply->left >= 0 && reply->left < ms) {
            ms = reply->left + 1;
        }
    }

    /* not all at once */
    ms += (int64_t) ngx_random() % (ms / 8 + 8);

    ngx_http_wq_timer_set(&seat->again, (ngx_msec_t) ms);
}


void
ngx_http_wq_seat_hold(ngx_http_wq_seat_t *seat, ngx_msec_t left)
{
    seat->state = NGX_HTTP_WQ_SEAT_OURS;
    seat->ends = ngx_current_msec + left;

    ngx_http_wq_timer_stop(&seat->again);
    ngx_http_wq_timer_set(&seat->deadline, left);

    ngx_http_wq_seat_gauge(seat, seats_waiting, -1);
    ngx_http_wq_seat_gauge(seat, seats_held, 1);
    ngx_http_wq_seat_count(seat, seats_locked);

    seat->wish.handler(seat->wish.data, NGX_HTTP_WQ_SEAT_HELD);
}


static void
ngx_http_wq_seat_give_up(ngx_http_wq_seat_t *seat, ngx_http_wq_seat_e outcome)
{
    ngx_http_wq_seat_wish_t  wish;

    if (outcome == NGX_HTTP_WQ_SEAT_TAKEN) {
        ngx_http_wq_seat_count(seat, seats_refused);

    } else {
        ngx_http_wq_seat_count(seat, seats_failed);
    }

    wish = seat->wish;

    ngx_http_wq_seat_leave(seat);

    wish.handler(wish.data, outcome);
}


void
ngx_http_wq_seat_leave(ngx_http_wq_seat_t *seat)
{
    ngx_http_wq_timer_stop(&seat->deadline);
    ngx_http_wq_timer_stop(&seat->again);

    if (seat->state == NGX_HTTP_WQ_SEAT_WANTED) {
        ngx_http_wq_seat_gauge(seat, seats_waiting, -1);

        /* should it have been handed to us in this moment */
        seat->ends = ngx_current_msec + seat->wish.lease;

    } else {
        ngx_http_wq_seat_gauge(seat, seats_held, -1);
    }

    seat->state = NGX_HTTP_WQ_SEAT_LEFT;

    if (!seat->known) {
        ngx_http_wq_seat_free(seat);
        return;
    }

    /* a question that came after the unlock would take the lock again */

    if (!seat->under_way) {
        ngx_http_wq_seat_unlock(seat);
    }
}


/* the seat may be gone when this returns */

static void
ngx_http_wq_seat_unlock(ngx_http_wq_seat_t *seat)
{
    ngx_http_wq_worker_t     *worker;
    ngx_http_wq_reply_to_t    to;
    ngx_http_wq_seat_call_t   call;

    worker = seat->worker;

    if (seat->tries
        && ((ngx_msec_int_t) (seat->ends - ngx_current_msec) <= 0
            || (worker->draining
                && seat->tries >= NGX_HTTP_WQ_SEAT_LAST_TRIES)))
    {
        ngx_http_wq_seat_free(seat);
        return;
    }

    seat->tries++;

    ngx_http_wq_seat_describe(seat, &call);

    to.handler = ngx_http_wq_seat_unlocked;
    to.data = seat;
    to.operation = NULL;

    if (ngx_http_wq_call_seat_unlock(worker->links[NGX_HTTP_WQ_COMMANDS],
                                     &worker->keyspace, &call, &to)
        == NGX_OK)
    {
        seat->under_way = 1;
        return;
    }

    ngx_http_wq_timer_set(&seat->again, NGX_HTTP_WQ_SEAT_RETRY);
}


static void
ngx_http_wq_seat_unlocked(void *data, ngx_http_wq_result_t *result)
{
    ngx_http_wq_seat_t *seat = data;

    ngx_http_wq_seat_unlock_reply_t  reply;

    seat->under_way = 0;

    if (ngx_http_wq_decode_seat_unlock(
            seat->worker->links[NGX_HTTP_WQ_COMMANDS], result, &reply)
        == NGX_OK)
    {
        ngx_http_wq_seat_free(seat);
        return;
    }

    ngx_http_wq_timer_set(&seat->again, NGX_HTTP_WQ_SEAT_RETRY);
}


void
ngx_http_wq_seat_deadline_handler(ngx_event_t *ev)
{
    ngx_http_wq_seat_t  *seat;

    seat = ngx_http_wq_timer_data(ev);

    if (seat->state == NGX_HTTP_WQ_SEAT_OURS) {
        seat->state = NGX_HTTP_WQ_SEAT_OVER;
        ngx_http_wq_seat_count(seat, seats_lapsed);

        seat->wish.handler(seat->wish.data, NGX_HTTP_WQ_SEAT_LAPSED);
        return;
    }

    if (!seat->in_line && seat->under_way) {
        /* the first answer decides, however short the wait is */
        seat->late = 1;
        return;
    }

    ngx_http_wq_seat_give_up(seat, seat->deaf ? NGX_HTTP_WQ_SEAT_NO_REDIS
                                              : NGX_HTTP_WQ_SEAT_TAKEN);
}


void
ngx_http_wq_seat_again_handler(ngx_event_t *ev)
{
    ngx_http_wq_seat_t  *seat;

    seat = ngx_http_wq_timer_data(ev);

    if (seat->state == NGX_HTTP_WQ_SEAT_LEFT) {
        ngx_http_wq_seat_unlock(seat);
        return;
    }

    if (ngx_http_wq_seat_send(seat) == NGX_OK) {
        return;
    }

    if (!seat->in_line && ngx_http_wq_seat_early(seat->worker)) {
        ngx_http_wq_timer_set(&seat->again, NGX_HTTP_WQ_SEAT_EARLY);
        return;
    }

    ngx_http_wq_seat_unanswered(seat, ngx_current_msec);
}
