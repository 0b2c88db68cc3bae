
/* queue: all seats that the requests of a worker ask for or hold */


#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_http_wq_seat_internal.h"


static ngx_http_wq_seat_t *ngx_http_wq_seat_find(ngx_http_wq_worker_t *worker,
    const ngx_http_wq_notice_t *notice);
static void ngx_http_wq_seat_pass_on(ngx_http_wq_worker_t *worker,
    const ngx_http_wq_notice_t *notice);
static void ngx_http_wq_seat_passed_on(void *data,
    ngx_http_wq_result_t *result);


void
ngx_http_wq_seats_init(ngx_http_wq_worker_t *worker)
{
    ngx_rbtree_init(&worker->seats.tree, &worker->seats.sentinel,
                    ngx_rbtree_insert_value);
}


void
ngx_http_wq_seats_drain(ngx_http_wq_worker_t *worker)
{
    ngx_rbtree_t        *tree;
    ngx_rbtree_node_t   *node;
    ngx_http_wq_seat_t  *seat;

    tree = &worker->seats.tree;

    if (tree->root == tree->sentinel) {
        return;
    }

    for (node = ngx_rbtree_min(tree->root, tree->sentinel);
         node;
         node = ngx_rbtree_next(tree, node))
    {
        seat = (ngx_http_wq_seat_t *) node;

        if (seat->state == NGX_HTTP_WQ_SEAT_WANTED && !seat->under_way) {
            ngx_http_wq_timer_set(&seat->again, 1);
        }
    }
}


void
ngx_http_wq_seats_destroy(ngx_http_wq_worker_t *worker)
{
    ngx_rbtree_t        *tree;
    ngx_http_wq_seat_t  *seat;

    tree = &worker->seats.tree;

    while (tree->root != tree->sentinel) {
        seat = (ngx_http_wq_seat_t *) ngx_rbtree_min(tree->root,
                                                     tree->sentinel);

        if (seat->state != NGX_HTTP_WQ_SEAT_LEFT) {
            seat->wish.handler(seat->wish.data, NGX_HTTP_WQ_SEAT_LOST);
        }

        ngx_http_wq_seat_free(seat);
    }
}


ngx_http_wq_seat_t *
ngx_http_wq_seat_create(ngx_http_wq_worker_t *worker,
    const ngx_http_wq_seat_wish_t *wish)
{
    u_char              *p;
    ngx_http_wq_seat_t  *seat;

    seat = ngx_calloc(sizeof(ngx_http_wq_seat_t) + wish->event.len
                      + wish->seat.len, worker->log);
    if (seat == NULL) {
        return NULL;
    }

    seat->worker = worker;
    seat->wish = *wish;

    p = seat->ids;

    seat->wish.event.data = p;
    p = ngx_cpymem(p, wish->event.data, wish->event.len);
    seat->wish.seat.data = p;
    ngx_memcpy(p, wish->seat.data, wish->seat.len);

    /* somebody is owed an answer, or the seat is not free */

    ngx_http_wq_timer_init(&seat->deadline, ngx_http_wq_seat_deadline_handler,
                           seat, 0, worker->log);
    ngx_http_wq_timer_init(&seat->again, ngx_http_wq_seat_again_handler, seat,
                           0, worker->log);

    seat->node.key = ++worker->seats.number;

    ngx_rbtree_insert(&worker->seats.tree, &seat->node);
    worker->seats.count++;

    return seat;
}


void
ngx_http_wq_seat_free(ngx_http_wq_seat_t *seat)
{
    ngx_http_wq_worker_t  *worker;

    worker = seat->worker;

    ngx_http_wq_timer_stop(&seat->deadline);
    ngx_http_wq_timer_stop(&seat->again);

    ngx_rbtree_delete(&worker->seats.tree, &seat->node);
    worker->seats.count--;

    ngx_free(seat);
}


/*
 * A message may be old, and the lock another's by now: one that was under way
 * for half the lease is not believed but asked about.
 */

void
ngx_http_wq_seat_notice(ngx_http_wq_worker_t *worker,
    const ngx_http_wq_notice_t *notice)
{
    int64_t              left;
    ngx_http_wq_seat_t  *seat;

    seat = ngx_http_wq_seat_find(worker, notice);

    if (seat == NULL) {
        ngx_http_wq_seat_pass_on(worker, notice);
        return;
    }

    if (seat->state != NGX_HTTP_WQ_SEAT_WANTED) {
        /* it is known already, or given back */
        return;
    }

    left = notice->expires - worker->clock - (int64_t) ngx_current_msec;
    left = ngx_min(left, (int64_t) seat->wish.lease);

    if (worker->clock && 2 * left >= (int64_t) seat->wish.lease) {
        ngx_http_wq_seat_hold(seat, (ngx_msec_t) left);
        return;
    }

    if (!seat->under_way) {
        ngx_http_wq_timer_set(&seat->again, 0);
    }
}


/* the request that a message means; NULL if it is gone */

static ngx_http_wq_seat_t *
ngx_http_wq_seat_find(ngx_http_wq_worker_t *worker,
    const ngx_http_wq_notice_t *notice)
{
    ngx_rbtree_node_t        *node, *sentinel;
    ngx_http_wq_seat_wish_t  *wish;

    node = worker->seats.tree.root;
    sentinel = worker->seats.tree.sentinel;

    while (node != sentinel && node->key != notice->idx) {
        node = notice->idx < node->key ? node->left : node->right;
    }

    if (node == sentinel) {
        return NULL;
    }

    wish = &((ngx_http_wq_seat_t *) node)->wish;

    if (wish->event.len != notice->event.len
        || wish->seat.len != notice->user.len
        || ngx_memcmp(wish->event.data, notice->event.data, wish->event.len)
        || ngx_memcmp(wish->seat.data, notice->user.data, wish->seat.len))
    {
        return NULL;
    }

    return (ngx_http_wq_seat_t *) node;
}


/* nobody here waits for it any more: the next is not to wait for the lease */

static void
ngx_http_wq_seat_pass_on(ngx_http_wq_worker_t *worker,
    const ngx_http_wq_notice_t *notice)
{
    ngx_http_wq_reply_to_t   to;
    ngx_http_wq_seat_call_t  call;

    ngx_memzero(&call, sizeof(ngx_http_wq_seat_call_t));

    call.event = notice->event;
    call.seat = notice->user;
    call.instance = worker->instance;
    call.number = notice->idx;

    to.handler = ngx_http_wq_seat_passed_on;
    to.data = worker;
    to.operation = NULL;

    (void) ngx_http_wq_call_seat_unlock(worker->links[NGX_HTTP_WQ_COMMANDS],
                                        &worker->keyspace, &call, &to);
}


static void
ngx_http_wq_seat_passed_on(void *data, ngx_http_wq_result_t *result)
{
    ngx_http_wq_worker_t *worker = data;

    ngx_http_wq_seat_unlock_reply_t  reply;

    if (ngx_http_wq_decode_seat_unlock(worker->links[NGX_HTTP_WQ_COMMANDS],
                                       result, &reply)
        == NGX_OK)
    {
        wq_counter_add(worker->slot->counters.seats_passed_on, reply.held);
    }
}
