
/*
 * queue: the end of all clients, in good order or not.
 *
 * A worker that quits tells its streams to connect again, one after another,
 * and the places are kept for whoever takes the users in.  A process that ends
 * at once just closes them.
 */


#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_http_wq_worker.h"


ngx_uint_t
ngx_http_wq_clients_connected(ngx_http_wq_worker_t *worker)
{
    return (ngx_uint_t) wq_counter_read(worker->slot->gauges.streams);
}


void
ngx_http_wq_clients_leave(ngx_http_wq_worker_t *worker, ngx_uint_t n)
{
    ngx_queue_t           *q;
    ngx_http_wq_client_t  *client;

    while (n-- && !ngx_queue_empty(&worker->streams)) {
        q = ngx_queue_head(&worker->streams);
        client = ngx_queue_data(q, ngx_http_wq_client_t, queue);

        ngx_http_wq_client_end(client, WQ_SSE_RECONNECT);
        ngx_http_wq_client_absent(client, 1);
    }
}


void
ngx_http_wq_clients_drain(ngx_http_wq_worker_t *worker)
{
    ngx_rbtree_node_t    *node, *next;
    ngx_http_wq_event_t  *event;

    if (worker->events.root == worker->events.sentinel) {
        return;
    }

    for (node = ngx_rbtree_min(worker->events.root, worker->events.sentinel);
         node;
         node = next)
    {
        event = (ngx_http_wq_event_t *) node;

        /* which goes with the last of those who are forgotten, if not held */

        ngx_http_wq_event_hold(event);

        while (event->users.root != event->users.sentinel) {
            node = ngx_rbtree_min(event->users.root, event->users.sentinel);
            ngx_http_wq_client_forget((ngx_http_wq_client_t *) node);
        }

        next = ngx_rbtree_next(&worker->events, &event->id.node);
        ngx_http_wq_event_release(event);
    }
}


ngx_uint_t
ngx_http_wq_clients_any(ngx_http_wq_worker_t *worker)
{
    return worker->events.root != worker->events.sentinel;
}


void
ngx_http_wq_clients_destroy(ngx_http_wq_worker_t *worker)
{
    ngx_queue_t           *q;
    ngx_rbtree_node_t     *node;
    ngx_http_wq_event_t   *event;
    ngx_http_wq_client_t  *client;

    while (!ngx_queue_empty(&worker->joining)) {
        q = ngx_queue_head(&worker->joining);
        client = ngx_queue_data(q, ngx_http_wq_client_t, queue);

        client->operation = NULL;

        if (client->stream) {
            ngx_http_wq_client_ops.close(client);
            client->stream = NULL;
        }

        ngx_http_wq_client_forget(client);
    }

    while (worker->events.root != worker->events.sentinel) {

        node = ngx_rbtree_min(worker->events.root, worker->events.sentinel);
        event = (ngx_http_wq_event_t *) node;

        /* calls under way are not answered any more */
        event->refs = 1;

        while (event->users.root != event->users.sentinel) {
            node = ngx_rbtree_min(event->users.root, event->users.sentinel);
            client = (ngx_http_wq_client_t *) node;

            client->operation = NULL;
            event->refs++;

            if (client->stream) {
                ngx_http_wq_client_ops.close(client);
                ngx_http_wq_client_disconnect(client);
            }

            ngx_http_wq_client_forget(client);
        }

        ngx_http_wq_event_release(event);
    }
}
