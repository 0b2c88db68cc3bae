
/* queue: the events that this worker has to do with, and their lines */


#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_http_wq_worker.h"


void
ngx_http_wq_events_init(ngx_http_wq_worker_t *worker)
{
    ngx_rbtree_init(&worker->events, &worker->events_sentinel,
                    ngx_str_rbtree_insert_value);
}


ngx_http_wq_event_t *
ngx_http_wq_event_find(ngx_http_wq_worker_t *worker, const ngx_str_t *id)
{
    ngx_str_node_t  *node;

    node = ngx_str_rbtree_lookup(&worker->events, (ngx_str_t *) id,
                                 ngx_crc32_short(id->data, id->len));

    return (ngx_http_wq_event_t *) node;
}


ngx_http_wq_event_t *
ngx_http_wq_event_get(ngx_http_wq_worker_t *worker, const ngx_str_t *id)
{
    ngx_http_wq_event_t  *event;

    event = ngx_http_wq_event_find(worker, id);

    if (event) {
        event->refs++;
        return event;
    }

    event = ngx_calloc(sizeof(ngx_http_wq_event_t), worker->log);
    if (event == NULL) {
        return NULL;
    }

    event->worker = worker;
    event->refs = 1;

    event->id.str.data = event->id_data;
    event->id.str.len = ngx_min(id->len, WQ_ID_MAX);
    ngx_memcpy(event->id_data, id->data, event->id.str.len);

    if (ngx_http_wq_event_keys_create(&event->keys, &worker->keyspace,
                                      &event->id.str, worker->log)
        != NGX_OK)
    {
        ngx_free(event);
        return NULL;
    }

    event->epoch.data = event->epoch_data;
    event->lost_epoch.data = event->lost_data;

    ngx_rbtree_init(&event->users, &event->users_sentinel,
                    ngx_str_rbtree_insert_value);
    ngx_rbtree_init(&event->joiners, &event->joiners_sentinel,
                    ngx_str_rbtree_insert_value);
    ngx_rbtree_init(&event->line, &event->line_sentinel,
                    ngx_rbtree_insert_value);

    ngx_http_wq_promoter_event_init(event);

    event->id.node.key = ngx_crc32_short(id->data, id->len);
    ngx_rbtree_insert(&worker->events, &event->id.node);

    return event;
}


void
ngx_http_wq_event_hold(ngx_http_wq_event_t *event)
{
    event->refs++;
}


void
ngx_http_wq_event_release(ngx_http_wq_event_t *event)
{
    ngx_http_wq_worker_t  *worker;

    worker = event->worker;

    if (--event->refs) {
        return;
    }

    ngx_http_wq_broadcaster_forget(event);
    ngx_http_wq_event_report_streams(event);

    ngx_rbtree_delete(&worker->events, &event->id.node);
    ngx_http_wq_event_keys_destroy(&event->keys);
    ngx_free(event);
}


void
ngx_http_wq_event_report_streams(ngx_http_wq_event_t *event)
{
    ngx_http_wq_worker_t  *worker;

    worker = event->worker;

    ngx_http_wq_zone_report_streams(worker->conf->zone, worker->slot,
                                    &event->id.str, event->streams);
}


void
ngx_http_wq_event_complain(ngx_http_wq_event_t *event,
    const ngx_http_wq_rules_t *rules, int64_t changed)
{
    ngx_http_wq_worker_t  *worker;

    worker = event->worker;

    if (changed && ngx_http_wq_may_complain(&worker->complained)) {
        ngx_log_error(NGX_LOG_WARN, worker->log, 0,
                      "waiting_queue: event \"%V\" has new settings, \"%V\": "
                      "the configuration has changed, or two locations or "
                      "nodes disagree; the latest join wins",
                      &event->id.str, &rules->settings);
    }
}


void
ngx_http_wq_event_set_epoch(ngx_http_wq_event_t *event, const wq_str_t *epoch)
{
    event->epoch.len = ngx_min(epoch->len, NGX_HTTP_WQ_EPOCH_MAX);
    ngx_memcpy(event->epoch_data, epoch->data, event->epoch.len);
}


ngx_uint_t
ngx_http_wq_event_lost(ngx_http_wq_event_t *event, int64_t joined,
    const wq_str_t *epoch)
{
    return joined < event->joined
           || epoch->len != event->epoch.len
           || ngx_memcmp(epoch->data, event->epoch.data, epoch->len) != 0;
}


ngx_http_wq_client_t *
ngx_http_wq_event_user(ngx_http_wq_event_t *event, const ngx_str_t *user)
{
    ngx_str_node_t  *node;

    node = ngx_str_rbtree_lookup(&event->users, (ngx_str_t *) user,
                                 ngx_crc32_short(user->data, user->len));

    return (ngx_http_wq_client_t *) node;
}


void
ngx_http_wq_event_add_user(ngx_http_wq_client_t *client)
{
    client->user.node.key = ngx_crc32_short(client->user.str.data,
                                            client->user.str.len);
    client->known = 1;

    ngx_rbtree_insert(&client->event->users, &client->user.node);
}


void
ngx_http_wq_event_remove_user(ngx_http_wq_client_t *client)
{
    if (client->known) {
        client->known = 0;
        ngx_rbtree_delete(&client->event->users, &client->user.node);
    }
}


void
ngx_http_wq_event_add_joiner(ngx_http_wq_client_t *client)
{
    ngx_http_wq_event_t  *event;

    event = client->event;

    client->user.node.key = ngx_crc32_short(client->user.str.data,
                                            client->user.str.len);

    ngx_rbtree_insert(&event->joiners, &client->user.node);
    ngx_queue_insert_tail(&event->worker->joining, &client->queue);
}


void
ngx_http_wq_event_remove_joiner(ngx_http_wq_client_t *client)
{
    ngx_rbtree_delete(&client->event->joiners, &client->user.node);
    ngx_queue_remove(&client->queue);
}


ngx_uint_t
ngx_http_wq_event_has_joiner(ngx_http_wq_event_t *event,
    const ngx_str_t *user)
{
    return ngx_str_rbtree_lookup(&event->joiners, (ngx_str_t *) user,
                                 ngx_crc32_short(user->data, user->len))
           != NULL;
}


void
ngx_http_wq_line_add(ngx_http_wq_client_t *client)
{
    ngx_http_wq_event_t  *event;

    event = client->event;

    if (event->waiting == 0 && !event->ticking) {
        event->known = client->moment;
    }

    ngx_http_wq_resync_note(event, client->moment);

    client->by_idx.key = client->idx;
    client->in_line = 1;
    event->waiting++;

    ngx_rbtree_insert(&event->line, &client->by_idx);
}


void
ngx_http_wq_line_remove(ngx_http_wq_client_t *client)
{
    if (client->in_line) {
        client->in_line = 0;
        client->event->waiting--;
        ngx_rbtree_delete(&client->event->line, &client->by_idx);
    }
}


ngx_http_wq_client_t *
ngx_http_wq_line_after(ngx_http_wq_event_t *event, uint64_t idx)
{
    ngx_rbtree_node_t  *node, *sentinel, *found;

    node = event->line.root;
    sentinel = event->line.sentinel;
    found = NULL;

    while (node != sentinel) {

        if (node->key > idx) {
            found = node;
            node = node->left;

        } else {
            node = node->right;
        }
    }

    return found ? ngx_http_wq_line_client(found) : NULL;
}


ngx_http_wq_client_t *
ngx_http_wq_line_find(ngx_http_wq_event_t *event, uint64_t idx)
{
    ngx_rbtree_node_t  *node, *sentinel;

    node = event->line.root;
    sentinel = event->line.sentinel;

    while (node != sentinel) {

        if (node->key == idx) {
            return ngx_http_wq_line_client(node);
        }

        node = idx < node->key ? node->left : node->right;
    }

    return NULL;
}
