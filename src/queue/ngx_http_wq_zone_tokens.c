
/*
 * queue: the tokens that this node has seen to be good, in the zone.
 *
 * A page has thirty pictures, and Redis is asked once: what it has said holds
 * for a second.  And while Redis is away, who was let in goes on, to the end of
 * the lease.  Nothing here is the truth: an entry that is lost, for want of
 * room or with the zone, costs one question.
 */


#include <ngx_config.h>
#include <ngx_core.h>

#include <openssl/crypto.h>

#include "ngx_http_wq_zone_internal.h"


/* the rest of the zone is left to the events */
#define NGX_HTTP_WQ_TOKENS_SHARE(bytes)  ((bytes) / 4 * 3)


static void ngx_http_wq_zone_token_set(ngx_http_wq_zone_token_t *t,
    const ngx_http_wq_known_token_t *known, ngx_msec_t ends,
    ngx_uint_t is_over);
static void ngx_http_wq_zone_token_read(const ngx_http_wq_zone_token_t *t,
    ngx_http_wq_known_token_t *known);
static ngx_rbtree_node_t *ngx_http_wq_zone_token_after(ngx_rbtree_t *tree,
    const ngx_http_wq_known_lease_t *last);
static ngx_http_wq_zone_token_t *ngx_http_wq_zone_token_get(
    ngx_http_wq_zone_t *zone, const ngx_str_t *event, const ngx_str_t *user);
static uint32_t ngx_http_wq_zone_token_hash(const ngx_str_t *event,
    const ngx_str_t *user);
static ngx_http_wq_zone_token_t *ngx_http_wq_zone_token_look(
    ngx_http_wq_tokens_t *tokens, const ngx_str_t *event,
    const ngx_str_t *user);
static ngx_int_t ngx_http_wq_zone_token_compare(const ngx_str_t *event,
    const ngx_str_t *user, ngx_http_wq_zone_token_t *token);
static void ngx_http_wq_zone_token_insert(ngx_rbtree_node_t *temp,
    ngx_rbtree_node_t *node, ngx_rbtree_node_t *sentinel);
static void ngx_http_wq_zone_token_remove(ngx_http_wq_zone_t *zone,
    ngx_http_wq_zone_token_t *token);


void
ngx_http_wq_zone_tokens_init(ngx_http_wq_tokens_t *tokens, size_t bytes)
{
    ngx_rbtree_init(&tokens->rbtree, &tokens->sentinel,
                    ngx_http_wq_zone_token_insert);
    ngx_queue_init(&tokens->queue);

    tokens->max = NGX_HTTP_WQ_TOKENS_SHARE(bytes) / NGX_HTTP_WQ_TOKEN_BYTES;
}


ngx_int_t
ngx_http_wq_zone_token_find(ngx_http_wq_zone_t *zone, const ngx_str_t *event,
    const ngx_str_t *user, const ngx_str_t *token,
    ngx_http_wq_known_token_t *known, ngx_msec_t *ends)
{
    ngx_int_t                  rc;
    ngx_http_wq_tokens_t      *tokens;
    ngx_http_wq_zone_token_t  *t;

    rc = NGX_DECLINED;
    tokens = &zone->shared->tokens;

    ngx_shmtx_lock(&zone->shpool->mutex);

    t = ngx_http_wq_zone_token_look(tokens, event, user);

    if (t == NULL) {
        goto done;
    }

    if ((ngx_msec_int_t) (t->ends - ngx_current_msec) <= 0) {
        ngx_http_wq_zone_token_remove(zone, t);
        goto done;
    }

    if (t->is_over) {
        goto done;
    }

    if (token->len
        && (token->len != WQ_TOKEN_LEN
            || CRYPTO_memcmp(token->data, t->token, WQ_TOKEN_LEN) != 0))
    {
        goto done;
    }

    ngx_queue_remove(&t->queue);
    ngx_queue_insert_head(&tokens->queue, &t->queue);

    ngx_http_wq_zone_token_read(t, known);
    *ends = t->ends;

    rc = NGX_OK;

done:

    ngx_shmtx_unlock(&zone->shpool->mutex);

    return rc;
}


void
ngx_http_wq_zone_token_store(ngx_http_wq_zone_t *zone, const ngx_str_t *event,
    const ngx_str_t *user, const ngx_http_wq_known_token_t *known,
    ngx_msec_t ends)
{
    ngx_http_wq_zone_token_t  *t;

    ngx_shmtx_lock(&zone->shpool->mutex);

    t = ngx_http_wq_zone_token_get(zone, event, user);

    if (t && !((t->is_over || (t->entered && !known->entered))
               && ngx_memcmp(t->token, known->token, WQ_TOKEN_LEN) == 0))
    {
        ngx_http_wq_zone_token_set(t, known, ends, 0);
    }

    ngx_shmtx_unlock(&zone->shpool->mutex);
}


void
ngx_http_wq_zone_token_end(ngx_http_wq_zone_t *zone, const ngx_str_t *event,
    const ngx_str_t *user, const ngx_http_wq_known_token_t *known,
    ngx_msec_t ends)
{
    ngx_http_wq_zone_token_t  *t;

    ngx_shmtx_lock(&zone->shpool->mutex);

    t = ngx_http_wq_zone_token_look(&zone->shared->tokens, event, user);

    /* the user may have a newer one */

    if (t == NULL
        || ngx_memcmp(t->token, known->token, WQ_TOKEN_LEN) == 0)
    {
        t = ngx_http_wq_zone_token_get(zone, event, user);

        if (t) {
            ngx_http_wq_zone_token_set(t, known, ends, 1);
        }
    }

    ngx_shmtx_unlock(&zone->shpool->mutex);
}


void
ngx_http_wq_zone_token_forget(ngx_http_wq_zone_t *zone,
    const ngx_str_t *event, const ngx_str_t *user, const ngx_str_t *token)
{
    ngx_http_wq_zone_token_t  *t;

    ngx_shmtx_lock(&zone->shpool->mutex);

    t = ngx_http_wq_zone_token_look(&zone->shared->tokens, event, user);

    if (t && !t->is_over
        && (token->len == 0
            || (token->len == WQ_TOKEN_LEN
                && CRYPTO_memcmp(token->data, t->token, WQ_TOKEN_LEN) == 0)))
    {
        ngx_http_wq_zone_token_remove(zone, t);
    }

    ngx_shmtx_unlock(&zone->shpool->mutex);
}


static void
ngx_http_wq_zone_token_set(ngx_http_wq_zone_token_t *t,
    const ngx_http_wq_known_token_t *known, ngx_msec_t ends,
    ngx_uint_t is_over)
{
    t->checked = known->checked;
    t->expires = known->expires;
    t->waited = known->waited;
    t->since = known->since;
    t->idx = known->idx;
    t->entered = (u_char) known->entered;
    t->ends = ends;
    t->is_over = (u_char) is_over;
    ngx_memcpy(t->token, known->token, WQ_TOKEN_LEN);
}


static void
ngx_http_wq_zone_token_read(const ngx_http_wq_zone_token_t *t,
    ngx_http_wq_known_token_t *known)
{
    known->checked = t->checked;
    known->expires = t->expires;
    known->waited = t->waited;
    known->since = t->since;
    known->idx = t->idx;
    known->entered = t->entered;
    ngx_memcpy(known->token, t->token, WQ_TOKEN_LEN);
}


void
ngx_http_wq_zone_lease(const ngx_http_wq_known_token_t *known,
    ngx_http_wq_lease_t *lease)
{
    lease->token.len = WQ_TOKEN_LEN;
    lease->token.data = (u_char *) known->token;
    lease->idx = known->idx;
    lease->expires = known->expires;
    lease->since = known->since;
    lease->waited = known->waited;
    lease->entered = known->entered;
}


ngx_uint_t
ngx_http_wq_zone_tokens_walk(ngx_http_wq_zone_t *zone,
    const ngx_http_wq_known_lease_t *last, ngx_http_wq_known_lease_t *leases,
    ngx_uint_t n)
{
    ngx_uint_t                  i;
    ngx_rbtree_t               *tree;
    ngx_rbtree_node_t          *node;
    ngx_http_wq_zone_token_t   *t;
    ngx_http_wq_known_lease_t  *lease;

    tree = &zone->shared->tokens.rbtree;
    i = 0;

    ngx_shmtx_lock(&zone->shpool->mutex);

    node = ngx_http_wq_zone_token_after(tree, last);

    while (node && i < n) {
        t = (ngx_http_wq_zone_token_t *) node;
        node = ngx_rbtree_next(tree, node);

        if (t->is_over || (ngx_msec_int_t) (t->ends - ngx_current_msec) <= 0) {
            continue;
        }

        lease = &leases[i++];

        ngx_http_wq_zone_token_read(t, &lease->token);
        ngx_memcpy(lease->ids, t->ids, t->event_len + t->user_len);

        lease->event.len = t->event_len;
        lease->event.data = lease->ids;
        lease->user.len = t->user_len;
        lease->user.data = lease->ids + t->event_len;
    }

    ngx_shmtx_unlock(&zone->shpool->mutex);

    return i;
}


/* the first one behind it in the tree, whether it is still there or not */

static ngx_rbtree_node_t *
ngx_http_wq_zone_token_after(ngx_rbtree_t *tree,
    const ngx_http_wq_known_lease_t *last)
{
    uint32_t            hash;
    ngx_uint_t          is_behind;
    ngx_rbtree_node_t  *node, *found;

    node = tree->root;

    if (node == tree->sentinel) {
        return NULL;
    }

    if (last == NULL) {
        return ngx_rbtree_min(node, tree->sentinel);
    }

    hash = ngx_http_wq_zone_token_hash(&last->event, &last->user);
    found = NULL;

    while (node != tree->sentinel) {

        is_behind = node->key != hash
                    ? hash < node->key
                    : ngx_http_wq_zone_token_compare(&last->event, &last->user,
                                           (ngx_http_wq_zone_token_t *) node)
                      < 0;

        if (is_behind) {
            found = node;
            node = node->left;

        } else {
            node = node->right;
        }
    }

    return found;
}


/* the entry of a user, made if need be; NULL if there is no room */

static ngx_http_wq_zone_token_t *
ngx_http_wq_zone_token_get(ngx_http_wq_zone_t *zone, const ngx_str_t *event,
    const ngx_str_t *user)
{
    size_t                     size;
    ngx_http_wq_tokens_t      *tokens;
    ngx_http_wq_zone_token_t  *t;

    tokens = &zone->shared->tokens;

    t = ngx_http_wq_zone_token_look(tokens, event, user);

    if (t == NULL) {

        /* two out for each one in: what has lapsed goes away without a walk */

        ngx_http_wq_zone_tokens_evict(zone, 2, 1);

        if (tokens->count >= tokens->max) {
            ngx_http_wq_zone_tokens_evict(zone, 1, 0);
        }

        size = offsetof(ngx_http_wq_zone_token_t, ids) + event->len
               + user->len;

        t = ngx_slab_alloc_locked(zone->shpool, size);

        if (t == NULL) {
            ngx_http_wq_zone_tokens_evict(zone, 1, 0);
            t = ngx_slab_alloc_locked(zone->shpool, size);
        }

        if (t == NULL) {
            return NULL;
        }

        t->is_over = 0;
        t->entered = 0;
        t->node.key = ngx_http_wq_zone_token_hash(event, user);
        t->event_len = (u_char) event->len;
        t->user_len = (u_char) user->len;
        ngx_memcpy(ngx_cpymem(t->ids, event->data, event->len), user->data,
                   user->len);

        ngx_rbtree_insert(&tokens->rbtree, &t->node);
        tokens->count++;

    } else {
        ngx_queue_remove(&t->queue);
    }

    ngx_queue_insert_head(&tokens->queue, &t->queue);

    return t;
}


static uint32_t
ngx_http_wq_zone_token_hash(const ngx_str_t *event, const ngx_str_t *user)
{
    uint32_t  hash;

    ngx_crc32_init(hash);
    ngx_crc32_update(&hash, event->data, event->len);
    ngx_crc32_update(&hash, user->data, user->len);
    ngx_crc32_final(hash);

    return hash;
}


static ngx_http_wq_zone_token_t *
ngx_http_wq_zone_token_look(ngx_http_wq_tokens_t *tokens,
    const ngx_str_t *event, const ngx_str_t *user)
{
    uint32_t                   hash;
    ngx_int_t                  order;
    ngx_rbtree_node_t         *node, *sentinel;
    ngx_http_wq_zone_token_t  *t;

    hash = ngx_http_wq_zone_token_hash(event, user);

    node = tokens->rbtree.root;
    sentinel = tokens->rbtree.sentinel;

    while (node != sentinel) {

        if (hash != node->key) {
            node = hash < node->key ? node->left : node->right;
            continue;
        }

        t = (ngx_http_wq_zone_token_t *) node;
        order = ngx_http_wq_zone_token_compare(event, user, t);

        if (order == 0) {
            return t;
        }

        node = order < 0 ? node->left : node->right;
    }

    return NULL;
}


static ngx_int_t
ngx_http_wq_zone_token_compare(const ngx_str_t *event, const ngx_str_t *user,
    ngx_http_wq_zone_token_t *token)
{
    ngx_int_t  order;

    order = ngx_memn2cmp(event->data, token->ids, event->len,
                         token->event_len);

    if (order) {
        return order;
    }

    return ngx_memn2cmp(user->data, token->ids + token->event_len, user->len,
                        token->user_len);
}


static void
ngx_http_wq_zone_token_insert(ngx_rbtree_node_t *temp,
    ngx_rbtree_node_t *node, ngx_rbtree_node_t *sentinel)
{
    ngx_str_t                  event, user;
    ngx_rbtree_node_t        **p;
    ngx_http_wq_zone_token_t  *token;

    token = (ngx_http_wq_zone_token_t *) node;

    event.data = token->ids;
    event.len = token->event_len;
    user.data = token->ids + token->event_len;
    user.len = token->user_len;

    for ( ;; ) {

        if (node->key != temp->key) {
            p = node->key < temp->key ? &temp->left : &temp->right;

        } else {
            p = ngx_http_wq_zone_token_compare(&event, &user,
                                          (ngx_http_wq_zone_token_t *) temp)
                < 0 ? &temp->left : &temp->right;
        }

        if (*p == sentinel) {
            break;
        }

        temp = *p;
    }

    *p = node;
    node->parent = temp;
    node->left = sentinel;
    node->right = sentinel;
    ngx_rbt_red(node);
}


static void
ngx_http_wq_zone_token_remove(ngx_http_wq_zone_t *zone,
    ngx_http_wq_zone_token_t *token)
{
    ngx_http_wq_tokens_t  *tokens;

    tokens = &zone->shared->tokens;

    ngx_queue_remove(&token->queue);
    ngx_rbtree_delete(&tokens->rbtree, &token->node);
    tokens->count--;

    ngx_slab_free_locked(zone->shpool, token);
}


void
ngx_http_wq_zone_tokens_evict(ngx_http_wq_zone_t *zone, ngx_uint_t n,
    ngx_uint_t lapsed_only)
{
    ngx_queue_t               *q;
    ngx_http_wq_tokens_t      *tokens;
    ngx_http_wq_zone_token_t  *t;

    tokens = &zone->shared->tokens;

    while (n-- && !ngx_queue_empty(&tokens->queue)) {
        q = ngx_queue_last(&tokens->queue);
        t = ngx_queue_data(q, ngx_http_wq_zone_token_t, queue);

        if ((ngx_msec_int_t) (t->ends - ngx_current_msec) > 0) {

            if (lapsed_only) {
                return;
            }

            tokens->evicted++;
        }

        ngx_http_wq_zone_token_remove(zone, t);
    }
}
