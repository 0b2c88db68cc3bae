
/* redis: hiredis' async context on nginx' event loop */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

#include "ngx_http_wq_adapter.h"


/*
 * What an answer may be: ours have some thousand short elements, three deep.
 * hiredis itself would take 13 bytes for an array of two thousand million, and
 * 1.2 any depth, which it then frees by recursion.
 */
#define NGX_HTTP_WQ_ADAPTER_MAX_BYTES     (64 * 1024 * 1024)
#define NGX_HTTP_WQ_ADAPTER_MAX_ELEMENTS  100000
#define NGX_HTTP_WQ_ADAPTER_MAX_DEPTH     8


typedef struct {
    ngx_connection_t                   *connection;
    redisAsyncContext                  *ac;

    const ngx_http_wq_adapter_owner_t  *owner;
    void                               *data;

    ngx_event_t                         flush;
    unsigned                            flushing:1;

    size_t                              elements;   /* of the answer so far */
} ngx_http_wq_adapter_t;


static void ngx_http_wq_adapter_read_handler(ngx_event_t *rev);
static void ngx_http_wq_adapter_write_handler(ngx_event_t *wev);
static void ngx_http_wq_adapter_flush_handler(ngx_event_t *ev);
static ngx_int_t ngx_http_wq_adapter_check(ngx_http_wq_adapter_t *adapter);

static void ngx_http_wq_adapter_add_read(void *data);
static void ngx_http_wq_adapter_del_read(void *data);
static void ngx_http_wq_adapter_add_write(void *data);
static void ngx_http_wq_adapter_del_write(void *data);
static void ngx_http_wq_adapter_cleanup(void *data);

static void *ngx_http_wq_adapter_create_array(const redisReadTask *task,
    ngx_http_wq_hiredis_elements_t elements);


/* hiredis' own functions, and the same with the bounds above */

static redisReplyObjectFunctions  ngx_http_wq_adapter_original;
static redisReplyObjectFunctions  ngx_http_wq_adapter_bounded;


ngx_int_t
ngx_http_wq_adapter_attach(redisAsyncContext *ac,
    const ngx_http_wq_adapter_owner_t *owner, void *data, ngx_log_t *log)
{
    ngx_connection_t       *c;
    ngx_http_wq_adapter_t  *adapter;

    adapter = ngx_calloc(sizeof(ngx_http_wq_adapter_t), log);
    if (adapter == NULL) {
        return NGX_ERROR;
    }

    c = ngx_get_connection(ac->c.fd, log);
    if (c == NULL) {
        ngx_free(adapter);
        return NGX_ERROR;
    }

    c->data = adapter;
    c->number = ngx_atomic_fetch_add(ngx_connection_counter, 1);

    c->read->handler = ngx_http_wq_adapter_read_handler;
    c->read->log = log;
    c->write->handler = ngx_http_wq_adapter_write_handler;
    c->write->log = log;

    adapter->connection = c;
    adapter->ac = ac;
    adapter->owner = owner;
    adapter->data = data;

    adapter->flush.data = c;
    adapter->flush.handler = ngx_http_wq_adapter_flush_handler;
    adapter->flush.log = log;

    ac->ev.data = adapter;
    ac->ev.addRead = ngx_http_wq_adapter_add_read;
    ac->ev.delRead = ngx_http_wq_adapter_del_read;
    ac->ev.addWrite = ngx_http_wq_adapter_add_write;
    ac->ev.delWrite = ngx_http_wq_adapter_del_write;
    ac->ev.cleanup = ngx_http_wq_adapter_cleanup;

    ngx_http_wq_adapter_original = *ac->c.reader->fn;
    ngx_http_wq_adapter_bounded = ngx_http_wq_adapter_original;
    ngx_http_wq_adapter_bounded.createArray = ngx_http_wq_adapter_create_array;

    ac->c.reader->fn = &ngx_http_wq_adapter_bounded;
    ac->c.reader->privdata = adapter;

    return NGX_OK;
}


/* NULL makes hiredis end the connection, with REDIS_ERR_OOM */

static void *
ngx_http_wq_adapter_create_array(const redisReadTask *task,
    ngx_http_wq_hiredis_elements_t elements)
{
    ngx_uint_t              depth;
    const redisReadTask    *parent;
    ngx_http_wq_adapter_t  *adapter;

    adapter = task->privdata;

    if (task->parent == NULL) {
        adapter->elements = 0;
    }

    adapter->elements += (size_t) elements;

    if (adapter->elements > NGX_HTTP_WQ_ADAPTER_MAX_ELEMENTS) {
        return NULL;
    }

    depth = 0;

    for (parent = task->parent; parent; parent = parent->parent) {
        if (++depth >= NGX_HTTP_WQ_ADAPTER_MAX_DEPTH) {
            return NULL;
        }
    }

    return ngx_http_wq_adapter_original.createArray(task, elements);
}


void
ngx_http_wq_adapter_close(redisAsyncContext *ac)
{
    redisAsyncFree(ac);
}


ngx_uint_t
ngx_http_wq_adapter_out_of_step(redisAsyncContext *ac)
{
    return ac->replies.head == NULL && ngx_http_wq_hiredis_unparsed(ac) > 0;
}


ngx_uint_t
ngx_http_wq_adapter_has_input(redisAsyncContext *ac)
{
    u_char  byte;

    return recv(ac->c.fd, &byte, 1, MSG_PEEK) == 1;
}


static void
ngx_http_wq_adapter_read_handler(ngx_event_t *rev)
{
    ngx_connection_t       *c;
    ngx_http_wq_adapter_t  *adapter;

    c = rev->data;
    adapter = c->data;

    if (ngx_http_wq_adapter_check(adapter) != NGX_OK) {
        return;
    }

    redisAsyncHandleRead(adapter->ac);

    /* neither adapter nor c may be touched: either may be gone */
}


static void
ngx_http_wq_adapter_write_handler(ngx_event_t *wev)
{
    ngx_connection_t       *c;
    ngx_http_wq_adapter_t  *adapter;

    c = wev->data;
    adapter = c->data;

    redisAsyncHandleWrite(adapter->ac);
}


/*
 * Writes all commands of one turn of the event loop at once, when the turn is
 * over: one write() for many commands, no epoll_ctl() as long as the socket
 * takes them, and no turn to wait for.
 */

static void
ngx_http_wq_adapter_flush_handler(ngx_event_t *ev)
{
    ngx_connection_t       *c;
    ngx_http_wq_adapter_t  *adapter;

    c = ev->data;
    adapter = c->data;

    /* taken back by whichever of add_write() and del_write() hiredis calls */
    adapter->flushing = 1;

    redisAsyncHandleWrite(adapter->ac);
}


/*
 * What must be looked at before hiredis sees the bytes.  NGX_OK: hiredis may
 * read; NGX_AGAIN: there is nothing to read; NGX_DONE: the owner was told to
 * close, and the adapter is gone.
 */

static ngx_int_t
ngx_http_wq_adapter_check(ngx_http_wq_adapter_t *adapter)
{
    u_char                        byte;
    ssize_t                       n;
    redisAsyncContext            *ac;
    ngx_http_wq_adapter_fault_e   fault;

    ac = adapter->ac;

    if (adapter->connection->close) {
        fault = NGX_HTTP_WQ_ADAPTER_SHUTDOWN;
        goto fault;
    }

    if (ngx_http_wq_hiredis_unparsed(ac) > NGX_HTTP_WQ_ADAPTER_MAX_BYTES) {
        fault = NGX_HTTP_WQ_ADAPTER_TOO_LARGE;
        goto fault;
    }

    if ((ac->c.flags & REDIS_CONNECTED) && ac->replies.head == NULL) {

        /*
         * Nobody waits for an answer.  The end of the connection is hiredis'
         * affair, but an answer out of nowhere runs into an assert() there,
         * which would end the worker.
         */

        n = recv(adapter->connection->fd, &byte, 1, MSG_PEEK);

        if (n == -1 && ngx_socket_errno == NGX_EAGAIN) {
            return NGX_AGAIN;
        }

        /* an unasked error ("max number of clients reached") is known to it */

        if (n == 1 && byte != '-') {
            fault = NGX_HTTP_WQ_ADAPTER_UNASKED;
            goto fault;
        }
    }

    return NGX_OK;

fault:

    adapter->owner->fault(adapter->data, fault);

    return NGX_DONE;
}


static void
ngx_http_wq_adapter_add_read(void *data)
{
    ngx_http_wq_adapter_t *adapter = data;

    ngx_event_t  *rev;

    rev = adapter->connection->read;

    if (!rev->active) {
        /* on failure the command timeout ends the connection */
        (void) ngx_add_event(rev, NGX_READ_EVENT, NGX_LEVEL_EVENT);
    }
}


static void
ngx_http_wq_adapter_del_read(void *data)
{
    ngx_http_wq_adapter_t *adapter = data;

    ngx_event_t  *rev;

    rev = adapter->connection->read;

    if (rev->active) {
        (void) ngx_del_event(rev, NGX_READ_EVENT, NGX_LEVEL_EVENT);
    }
}


/*
 * hiredis has something to write, or waits for the connection to be made.
 */

static void
ngx_http_wq_adapter_add_write(void *data)
{
    ngx_http_wq_adapter_t *adapter = data;

    ngx_event_t  *wev;

    wev = adapter->connection->write;

    if (wev->active || adapter->flush.posted) {
        return;
    }

    /*
     * Before the connection is made, 0.14 takes any call for the sign that it
     * is; and once the socket did not take all, only the event tells when it
     * will take more.
     */

    if ((adapter->ac->c.flags & REDIS_CONNECTED) && !adapter->flushing) {
        ngx_post_event(&adapter->flush, &ngx_posted_events);
        return;
    }

    adapter->flushing = 0;

    (void) ngx_add_event(wev, NGX_WRITE_EVENT, NGX_LEVEL_EVENT);
}


static void
ngx_http_wq_adapter_del_write(void *data)
{
    ngx_http_wq_adapter_t *adapter = data;

    ngx_event_t  *wev;

    adapter->flushing = 0;

    wev = adapter->connection->write;

    if (wev->active) {
        (void) ngx_del_event(wev, NGX_WRITE_EVENT, NGX_LEVEL_EVENT);
    }
}


/*
 * The one way out for every context.  The descriptor is still open here: both
 * events leave the event method before hiredis closes it.
 */

static void
ngx_http_wq_adapter_cleanup(void *data)
{
    ngx_http_wq_adapter_t *adapter = data;

    ngx_connection_t  *c;

    c = adapter->connection;

    ngx_http_wq_adapter_del_read(adapter);
    ngx_http_wq_adapter_del_write(adapter);

    if (c->read->posted) {
        ngx_delete_posted_event(c->read);
    }

    if (c->write->posted) {
        ngx_delete_posted_event(c->write);
    }

    if (adapter->flush.posted) {
        ngx_delete_posted_event(&adapter->flush);
    }

    ngx_free_connection(c);

    /* an event of this turn that is still in the kernel's list is dropped */
    c->fd = (ngx_socket_t) -1;

    adapter->owner->closed(adapter->data);

    ngx_free(adapter);
}
