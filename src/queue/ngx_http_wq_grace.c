
/*
 * queue: those whose stream has ended.
 *
 * A phone sleeps, a tunnel comes, a page is loaded again: the place is kept for
 * the grace time.  Who does not come back, to this worker or any other, leaves
 * the line; a lease that nobody has taken goes to the next.
 */


#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_http_wq_worker.h"


/* before what could not be said to Redis is said again */
#define NGX_HTTP_WQ_GRACE_RETRY   1000

/*
 * Who was not in line any more has most likely just been let in: the message
 * is on its way, and finds somebody who knows what to do with the lease.  And
 * who has left may have to do so again: should Redis lose it, the place would
 * be nobody's.
 */
#define NGX_HTTP_WQ_GRACE_LINGER  5000

/* at most so many at once: a worker may have lost ten thousand in one moment */
#define NGX_HTTP_WQ_GRACE_SLICE   256


static void ngx_http_wq_grace_tick(ngx_event_t *ev);
static void ngx_http_wq_grace_over(ngx_http_wq_client_t *client);
static void ngx_http_wq_grace_left(void *data, ngx_http_wq_result_t *result);
static void ngx_http_wq_grace_released(void *data,
    ngx_http_wq_result_t *result);


void
ngx_http_wq_grace_init(ngx_http_wq_worker_t *worker)
{
    ngx_rbtree_init(&worker->grace.deadlines, &worker->grace.sentinel,
                    ngx_rbtree_insert_timer_value);

    ngx_http_wq_timer_init(&worker->grace.timer, ngx_http_wq_grace_tick,
                           worker, 1, worker->log);
}


void
ngx_http_wq_grace_stop(ngx_http_wq_worker_t *worker)
{
    ngx_http_wq_timer_stop(&worker->grace.timer);
}


void
ngx_http_wq_grace_add(ngx_http_wq_client_t *client, ngx_msec_t delay)
{
    ngx_rbtree_node_t     *first;
    ngx_http_wq_grace_t   *grace;
    ngx_http_wq_worker_t  *worker;

    worker = client->event->worker;
    grace = &worker->grace;

    ngx_http_wq_grace_remove(client);

    client->by_deadline.key = ngx_current_msec + delay;
    client->absent = 1;

    ngx_rbtree_insert(&grace->deadlines, &client->by_deadline);

    if (!client->given_up) {
        client->counted = 1;
        wq_counter_add(worker->slot->gauges.absent, 1);
    }

    first = ngx_rbtree_min(grace->deadlines.root, grace->deadlines.sentinel);

    if (first == &client->by_deadline || !grace->timer.event.timer_set) {
        /* at least 1 ms: whoever calls is not to be called back */
        ngx_http_wq_timer_set(&grace->timer, ngx_max(delay, 1));
    }
}


void
ngx_http_wq_grace_remove(ngx_http_wq_client_t *client)
{
    ngx_http_wq_worker_t  *worker;

    if (client->absent) {
        worker = client->event->worker;

        client->absent = 0;
        ngx_rbtree_delete(&worker->grace.deadlines, &client->by_deadline);

        if (client->counted) {
            client->counted = 0;
            wq_counter_add(worker->slot->gauges.absent, -1);
        }
    }
}


static void
ngx_http_wq_grace_tick(ngx_event_t *ev)
{
    ngx_uint_t             n;
    ngx_msec_int_t         left;
    ngx_rbtree_node_t     *node;
    ngx_http_wq_grace_t   *grace;
    ngx_http_wq_client_t  *client;
    ngx_http_wq_worker_t  *worker;

    worker = ngx_http_wq_timer_data(ev);
    grace = &worker->grace;

    for (n = 0; grace->deadlines.root != grace->deadlines.sentinel; n++) {

        node = ngx_rbtree_min(grace->deadlines.root,
                              grace->deadlines.sentinel);

        left = (ngx_msec_int_t) (node->key - ngx_current_msec);

        if (left > 0 || n == NGX_HTTP_WQ_GRACE_SLICE) {
            ngx_http_wq_timer_set(&grace->timer, ngx_max(left, 1));
            return;
        }

        client = ngx_rbtree_data(node, ngx_http_wq_client_t, by_deadline);

        ngx_http_wq_grace_remove(client);
        ngx_http_wq_grace_over(client);
    }
}


static void
ngx_http_wq_grace_over(ngx_http_wq_client_t *client)
{
    ngx_int_t                rc;
    ngx_str_t                token;
    ngx_http_wq_link_t      *link;
    ngx_http_wq_worker_t    *worker;
    ngx_http_wq_reply_to_t   to;

    worker = client->event->worker;
    link = worker->links[NGX_HTTP_WQ_COMMANDS];

    if (client->operation
        || ngx_http_wq_event_has_joiner(client->event, &client->user.str))
    {
        /*
         * What was asked before the stream ended is not yet answered.  Or the
         * user is just coming back: Redis would carry out the join first, and
         * then take away what it has given.
         */
        ngx_http_wq_grace_add(client, NGX_HTTP_WQ_GRACE_RETRY);
        return;
    }

    to.data = client;
    to.operation = &client->operation;

    if (client->state == NGX_HTTP_WQ_READY) {
        token.data = client->token;
        token.len = WQ_TOKEN_LEN;

        /*
         * Where a lease does not end with the stream, the user may have come
         * in without one, and stays.
         */

        to.handler = ngx_http_wq_grace_released;
        rc = ngx_http_wq_call_release(link, &client->event->keys,
                                      &client->user.str,
                                      client->rules->release
                                      ? NGX_HTTP_WQ_RELEASE_LEFT
                                      : NGX_HTTP_WQ_RELEASE_UNTOLD,
                                      &worker->instance, &token, &to);

    } else if (client->given_up) {
        ngx_http_wq_client_forget(client);
        return;

    } else {
        to.handler = ngx_http_wq_grace_left;
        rc = ngx_http_wq_call_leave(link, &client->event->keys,
                                    &client->user.str, &worker->instance,
                                    client->idx, &to);
    }

    if (rc != NGX_OK) {
        ngx_http_wq_grace_add(client, NGX_HTTP_WQ_GRACE_RETRY);
    }
}


static void
ngx_http_wq_grace_left(void *data, ngx_http_wq_result_t *result)
{
    ngx_http_wq_client_t *client = data;

    ngx_http_wq_worker_t       *worker;
    ngx_http_wq_leave_reply_t   reply;

    worker = client->event->worker;
    client->operation = NULL;

    if (worker->draining) {
        ngx_http_wq_client_forget(client);
        return;
    }

    if (ngx_http_wq_decode_leave(worker->links[NGX_HTTP_WQ_COMMANDS], result,
                                 &reply)
        != NGX_OK)
    {
        ngx_http_wq_grace_add(client, NGX_HTTP_WQ_GRACE_RETRY);
        return;
    }

    wq_counter_add(worker->slot->counters.leaves, reply.left);

    client->given_up = 1;

    ngx_http_wq_grace_add(client, client->state == NGX_HTTP_WQ_READY
                                  ? 0 : NGX_HTTP_WQ_GRACE_LINGER);
}


static void
ngx_http_wq_grace_released(void *data, ngx_http_wq_result_t *result)
{
    ngx_http_wq_client_t *client = data;

    ngx_http_wq_worker_t         *worker;
    ngx_http_wq_release_reply_t   reply;

    worker = client->event->worker;
    client->operation = NULL;

    if (!worker->draining
        && ngx_http_wq_decode_release(worker->links[NGX_HTTP_WQ_COMMANDS],
                                      result, &reply)
           != NGX_OK)
    {
        ngx_http_wq_grace_add(client, NGX_HTTP_WQ_GRACE_RETRY);
        return;
    }

    if (!worker->draining) {
        if (reply.released) {
            ngx_http_wq_client_unremember(client);
        }

        wq_counter_add(worker->slot->counters.releases, reply.released);
        ngx_http_wq_promoter_opens(client->event, reply.opens_ms);
    }

    ngx_http_wq_client_forget(client);
}
