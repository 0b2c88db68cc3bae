
/*
 * queue: the end of all clients, in good order or not.
 *
 * A worker that quits tells its streams to connect again; the places are kept
 * for whoever takes the users in.  A process that ends at once just closes
 * them.
 */


#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_http_wq_worker.h"


ngx_uint_t
ngx_http_wq_clients_drain(ngx_http_wq_worker_t *worker, ngx_uint_t n)
{
    ngx_uint_t             ended;
    ngx_rbtree_node_t     *node, *next;
    ngx_http_wq_event_t   *event;
    ngx_http_wq_client_t  *client;

    ended = 0;

    while (worker->events.root != worker->events.sentinel) {

        node = ngx_rbtree_min(worker->events.root, worker->events.sentinel);

        /* those who still wait for an answer get it, and then go */

        for (event = (ngx_http_wq_event_t *) node;
             event && event->users.root == event->users.sentinel;
             event = (ngx_http_wq_event_t *) next)
        {
            next = ngx_rbtree_next(&worker->events, &event->id.node);
        }

        if (event == NULL) {
            break;
        }

        node = ngx_rbtree_min(event->users.root, event->users.sentinel);
        client = (ngx_http_wq_client_t *) node;

        if (client->stream) {

            if (ended == n) {
                break;
            }

            ngx_http_wq_client_end(client, WQ_SSE_RECONNECT);
            ended++;
        }

        ngx_http_wq_client_forget(client);
    }

    return ended;
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
        client = ngx_queue_data(q, ngx_http_wq_client_t, joining);

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
