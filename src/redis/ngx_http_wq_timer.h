
/*
 * redis: a timer that belongs to no connection.
 *
 * nginx' debug log reads a descriptor through event->data, so data must be a
 * connection; and ngx_add_timer() silently ignores a new time that is less
 * than 300 ms from the old one, so a timer is always deleted before it is set.
 */


#ifndef NGX_HTTP_WQ_TIMER_H_INCLUDED_
#define NGX_HTTP_WQ_TIMER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>


typedef struct {
    ngx_event_t        event;
    ngx_connection_t   connection;      /* never opened */
} ngx_http_wq_timer_t;


#define ngx_http_wq_timer_data(ev)  (((ngx_connection_t *) (ev)->data)->data)


/*
 * A cancelable timer does not keep a quitting worker alive: right for all that
 * is done for its own sake, wrong where a client is owed an answer.
 */

static ngx_inline void
ngx_http_wq_timer_init(ngx_http_wq_timer_t *timer,
    ngx_event_handler_pt handler, void *data, ngx_uint_t cancelable,
    ngx_log_t *log)
{
    ngx_memzero(timer, sizeof(ngx_http_wq_timer_t));

    timer->connection.fd = (ngx_socket_t) -1;
    timer->connection.data = data;

    timer->event.data = &timer->connection;
    timer->event.handler = handler;
    timer->event.log = log;
    timer->event.cancelable = cancelable;
}


static ngx_inline void
ngx_http_wq_timer_stop(ngx_http_wq_timer_t *timer)
{
    if (timer->event.timer_set) {
        ngx_del_timer(&timer->event);
    }
}


static ngx_inline void
ngx_http_wq_timer_set(ngx_http_wq_timer_t *timer, ngx_msec_t ms)
{
    ngx_http_wq_timer_stop(timer);
    ngx_add_timer(&timer->event, ms);
}


#endif /* NGX_HTTP_WQ_TIMER_H_INCLUDED_ */
