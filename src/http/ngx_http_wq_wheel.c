
/*
 * http: comments that keep quiet streams alive.
 *
 * A proxy on the way forgets a connection on which nothing is said, and a peer
 * that has vanished is noticed only by writing to it.  So a comment is sent on
 * every stream to which nothing was written for a while.
 *
 * A wheel: each slot holds the streams that are looked at in one tenth of a
 * second.  Who was written to meanwhile moves on to the slot in which he would
 * be quiet for too long; nothing is to be done for the wheel when one writes.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_wq_stream.h"


#define NGX_HTTP_WQ_WHEEL_QUIET  15000
#define NGX_HTTP_WQ_WHEEL_TICK   100

/* one more than a turn, so that nobody is put into the slot at hand */
#define NGX_HTTP_WQ_WHEEL_SLOTS                                               \
    (NGX_HTTP_WQ_WHEEL_QUIET / NGX_HTTP_WQ_WHEEL_TICK + 1)


typedef struct {
    ngx_http_wq_timer_t   timer;
    ngx_queue_t           slots[NGX_HTTP_WQ_WHEEL_SLOTS];
    ngx_uint_t            current;
    ngx_msec_t            time;         /* of the current slot */
    ngx_uint_t            streams;
} ngx_http_wq_wheel_t;


static void ngx_http_wq_wheel_put(ngx_http_wq_stream_t *stream);
static void ngx_http_wq_wheel_tick(ngx_event_t *ev);
static void ngx_http_wq_wheel_turn(void);


static ngx_http_wq_wheel_t  ngx_http_wq_wheel;


void
ngx_http_wq_wheel_init(ngx_log_t *log)
{
    ngx_uint_t  i;

    ngx_http_wq_timer_init(&ngx_http_wq_wheel.timer, ngx_http_wq_wheel_tick,
                           NULL, 1, log);

    for (i = 0; i < NGX_HTTP_WQ_WHEEL_SLOTS; i++) {
        ngx_queue_init(&ngx_http_wq_wheel.slots[i]);
    }

    ngx_http_wq_wheel.current = 0;
    ngx_http_wq_wheel.streams = 0;
}


void
ngx_http_wq_wheel_add(ngx_http_wq_stream_t *stream)
{
    if (ngx_http_wq_wheel.streams++ == 0) {
        ngx_http_wq_wheel.time = ngx_current_msec;
        ngx_http_wq_timer_set(&ngx_http_wq_wheel.timer,
                              NGX_HTTP_WQ_WHEEL_TICK);
    }

    stream->in_wheel = 1;
    stream->written = ngx_current_msec;

    ngx_http_wq_wheel_put(stream);
}


void
ngx_http_wq_wheel_remove(ngx_http_wq_stream_t *stream)
{
    if (!stream->in_wheel) {
        return;
    }

    stream->in_wheel = 0;
    ngx_queue_remove(&stream->queue);

    if (--ngx_http_wq_wheel.streams == 0) {
        ngx_http_wq_timer_stop(&ngx_http_wq_wheel.timer);
    }
}


/* into the slot in which it will have been quiet for too long */

static void
ngx_http_wq_wheel_put(ngx_http_wq_stream_t *stream)
{
    ngx_uint_t      ticks, slot;
    ngx_msec_int_t  left;

    left = (ngx_msec_int_t) (stream->written + NGX_HTTP_WQ_WHEEL_QUIET
                             - ngx_http_wq_wheel.time);

    ticks = left > 0 ? (left + NGX_HTTP_WQ_WHEEL_TICK - 1)
                       / NGX_HTTP_WQ_WHEEL_TICK : 1;
    ticks = ngx_max(1, ngx_min(ticks, NGX_HTTP_WQ_WHEEL_SLOTS - 1));

    slot = (ngx_http_wq_wheel.current + ticks) % NGX_HTTP_WQ_WHEEL_SLOTS;

    ngx_queue_insert_tail(&ngx_http_wq_wheel.slots[slot], &stream->queue);
}


static void
ngx_http_wq_wheel_tick(ngx_event_t *ev)
{
    ngx_http_wq_timer_set(&ngx_http_wq_wheel.timer, NGX_HTTP_WQ_WHEEL_TICK);

    /* a slow turn of the event loop makes up for what it has missed */

    while ((ngx_msec_int_t) (ngx_current_msec - ngx_http_wq_wheel.time)
           >= NGX_HTTP_WQ_WHEEL_TICK)
    {
        ngx_http_wq_wheel.time += NGX_HTTP_WQ_WHEEL_TICK;
        ngx_http_wq_wheel_turn();
    }
}


static void
ngx_http_wq_wheel_turn(void)
{
    ngx_queue_t           *q, *slot;
    ngx_http_wq_stream_t  *stream;

    ngx_http_wq_wheel.current = (ngx_http_wq_wheel.current + 1)
                                % NGX_HTTP_WQ_WHEEL_SLOTS;
    slot = &ngx_http_wq_wheel.slots[ngx_http_wq_wheel.current];

    /* nobody is put back into this slot, nor taken out by a write */

    while (!ngx_queue_empty(slot)) {
        q = ngx_queue_head(slot);
        ngx_queue_remove(q);

        stream = ngx_queue_data(q, ngx_http_wq_stream_t, queue);

        if ((ngx_msec_int_t) (ngx_http_wq_wheel.time - stream->written)
            >= NGX_HTTP_WQ_WHEEL_QUIET)
        {
            ngx_http_wq_transport_comment(stream);
            wq_counter_add(ngx_http_wq_worker->slot->counters.comments_sent,
                           1);

            /* also one who does not read is looked at again later */
            stream->written = ngx_http_wq_wheel.time;
        }

        ngx_http_wq_wheel_put(stream);
    }
}
