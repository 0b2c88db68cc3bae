
/* queue: one who reads a stream of Redis as a member of its group */


#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_http_wq_worker.h"


#define NGX_HTTP_WQ_CONSUMER_BLOCK  5000

/* the pace of tries while Redis answers reads with errors */
#define NGX_HTTP_WQ_CONSUMER_PAUSE  1000

/* and of those with messages that could not be dealt with */
#define NGX_HTTP_WQ_CONSUMER_AGAIN  2000


static void ngx_http_wq_consumer_tick(ngx_event_t *ev);
static void ngx_http_wq_consumer_open_handler(void *data,
    ngx_http_wq_result_t *result);
static void ngx_http_wq_consumer_read(ngx_http_wq_consumer_t *consumer);
static void ngx_http_wq_consumer_read_handler(void *data,
    ngx_http_wq_result_t *result);
static void ngx_http_wq_consumer_next(ngx_http_wq_consumer_t *consumer,
    ngx_uint_t n);
static ngx_uint_t ngx_http_wq_consumer_try_again(
    ngx_http_wq_consumer_t *consumer);
static void ngx_http_wq_consumer_claim(ngx_http_wq_consumer_t *consumer);
static void ngx_http_wq_consumer_pause(ngx_http_wq_consumer_t *consumer);
static ngx_int_t ngx_http_wq_consumer_messages(
    ngx_http_wq_consumer_t *consumer, wq_reply_t messages);
static void ngx_http_wq_consumer_garbage(ngx_http_wq_consumer_t *consumer,
    ngx_uint_t n, const wq_str_t *id);
static void ngx_http_wq_consumer_lag(ngx_http_wq_consumer_t *consumer,
    const wq_str_t *id);
static void ngx_http_wq_consumer_settled(ngx_http_wq_consumer_t *consumer);
static void ngx_http_wq_consumer_discard_handler(void *data,
    ngx_http_wq_result_t *result);
static void ngx_http_wq_consumer_set_after(ngx_http_wq_consumer_t *consumer,
    const u_char *id, size_t len);


void
ngx_http_wq_consumer_init(ngx_http_wq_consumer_t *consumer,
    ngx_http_wq_worker_t *worker, const ngx_str_t *instance)
{
    consumer->worker = worker;
    consumer->key = ngx_http_wq_stream_key(consumer->key_data,
                                           &worker->keyspace, instance);

    ngx_http_wq_timer_init(&consumer->timer, ngx_http_wq_consumer_tick,
                           consumer, 1, worker->log);
}


void
ngx_http_wq_consumer_start(ngx_http_wq_consumer_t *consumer)
{
    ngx_http_wq_reply_to_t  to;

    if (consumer->worker->draining || consumer->finishing
        || consumer->reading || consumer->batch
        || consumer->link->state != NGX_HTTP_WQ_LINK_READY)
    {
        return;
    }

    consumer->again = 0;
    consumer->tried_at = ngx_current_msec;
    consumer->claiming = 0;
    ngx_http_wq_consumer_set_after(consumer, (u_char *) "0", 1);

    to.handler = ngx_http_wq_consumer_open_handler;
    to.data = consumer;
    to.operation = NULL;

    if (ngx_http_wq_call_stream_open(consumer->link, &consumer->key, &to)
        == NGX_OK)
    {
        consumer->reading = 1;
        return;
    }

    ngx_http_wq_consumer_pause(consumer);
}


void
ngx_http_wq_consumer_stop(ngx_http_wq_consumer_t *consumer)
{
    ngx_http_wq_timer_stop(&consumer->timer);
}


/*
 * Redis may have given it messages that never came, on a connection that is
 * closed now.  They are pending, and so is what could not be dealt with before:
 * both are asked for, from the first on, until there are no more.
 */

void
ngx_http_wq_consumer_finish(ngx_http_wq_consumer_t *consumer,
    ngx_http_wq_link_t *link)
{
    consumer->finishing = 1;

    ngx_http_wq_consumer_stop(consumer);
    ngx_http_wq_link_drain(consumer->link);

    consumer->link = link;
    consumer->claiming = 0;
    ngx_http_wq_consumer_set_after(consumer, (u_char *) "0", 1);

    if (consumer->batch == NULL && !consumer->reading) {
        ngx_http_wq_consumer_read(consumer);
    }
}


ngx_uint_t
ngx_http_wq_consumer_busy(ngx_http_wq_consumer_t *consumer)
{
    return consumer->finishing && (consumer->reading || consumer->batch);
}


void
ngx_http_wq_consumer_destroy(ngx_http_wq_consumer_t *consumer)
{
    ngx_http_wq_consumer_stop(consumer);

    if (consumer->batch) {
        ngx_free(consumer->batch);
        consumer->batch = NULL;
    }
}


static void
ngx_http_wq_consumer_tick(ngx_event_t *ev)
{
    ngx_http_wq_consumer_start(ngx_http_wq_timer_data(ev));
}


static void
ngx_http_wq_consumer_open_handler(void *data, ngx_http_wq_result_t *result)
{
    ngx_http_wq_consumer_t *consumer = data;

    consumer->reading = 0;

    if (result->outcome == NGX_HTTP_WQ_ANSWERED
        || result->error == WQ_REDIS_ERROR_BUSYGROUP)
    {
        ngx_http_wq_consumer_read(consumer);
        return;
    }

    ngx_http_wq_consumer_pause(consumer);
}


static void
ngx_http_wq_consumer_read(ngx_http_wq_consumer_t *consumer)
{
    ngx_int_t                rc;
    ngx_http_wq_worker_t    *worker;
    ngx_http_wq_reply_to_t   to;

    worker = consumer->worker;

    if (worker->draining) {
        return;
    }

    to.handler = ngx_http_wq_consumer_read_handler;
    to.data = consumer;
    to.operation = NULL;

    if (consumer->claiming) {
        consumer->claimed_at = ngx_current_msec;
        rc = ngx_http_wq_call_stream_claim(consumer->link, &consumer->key,
                                           &worker->instance, &to);

    } else {
        rc = ngx_http_wq_call_stream_read(consumer->link, &consumer->key,
                                          &worker->instance,
                                          &consumer->after,
                                          consumer->finishing
                                          ? 1 : NGX_HTTP_WQ_CONSUMER_BLOCK,
                                          &to);
    }

    if (rc == NGX_OK) {
        consumer->started = ngx_current_msec;
        consumer->reading = 1;
        return;
    }

    ngx_http_wq_consumer_pause(consumer);
}


static void
ngx_http_wq_consumer_read_handler(void *data, ngx_http_wq_result_t *result)
{
    ngx_http_wq_consumer_t *consumer = data;

    ngx_int_t   n;
    wq_reply_t  messages;

    consumer->reading = 0;

    if (result->outcome != NGX_HTTP_WQ_ANSWERED) {

        /* the stream was removed or Redis lost its data: made anew; a link
         * that is down starts the consumer again when it is up */

        ngx_http_wq_consumer_pause(consumer);
        return;
    }

    messages = consumer->claiming ? ngx_http_wq_decode_claimed(result)
                                  : ngx_http_wq_decode_read(result);

    n = ngx_http_wq_consumer_messages(consumer, messages);

    if (n == NGX_ERROR) {
        ngx_http_wq_consumer_pause(consumer);
        return;
    }

    if (consumer->batch == NULL) {
        ngx_http_wq_consumer_next(consumer, n);
    }
}


/*
 * What comes after n messages.  Those of a former life and those that failed
 * come first, then what others have left, then what is new.
 */

static void
ngx_http_wq_consumer_next(ngx_http_wq_consumer_t *consumer, ngx_uint_t n)
{
    if (consumer->finishing) {

        if (n > 0) {
            ngx_http_wq_consumer_read(consumer);
        }

        return;
    }

    if (consumer->claiming) {

        if (n < NGX_HTTP_WQ_STREAM_COUNT) {
            consumer->claiming = 0;
        }

        ngx_http_wq_consumer_read(consumer);
        return;
    }

    if (n > 0) {

        if (consumer->after.data[0] == '>'
            && !ngx_http_wq_consumer_try_again(consumer))
        {
            ngx_http_wq_consumer_claim(consumer);
        }

        ngx_http_wq_consumer_read(consumer);
        return;
    }

    if (consumer->after.data[0] == '>'
        && ngx_current_msec - consumer->started
           < NGX_HTTP_WQ_CONSUMER_BLOCK / 2)
    {
        /* a Redis, or something before it, that does not wait as told */
        ngx_http_wq_consumer_pause(consumer);
        return;
    }

    if (consumer->after.data[0] != '>'
        || !ngx_http_wq_consumer_try_again(consumer))
    {
        ngx_http_wq_consumer_set_after(consumer, (u_char *) ">", 1);
        ngx_http_wq_consumer_claim(consumer);
    }

    ngx_http_wq_consumer_read(consumer);
}


/*
 * What could not be dealt with, or not be removed, is read again: not at once,
 * but however much that is new comes meanwhile.
 */

static ngx_uint_t
ngx_http_wq_consumer_try_again(ngx_http_wq_consumer_t *consumer)
{
    if (!consumer->again
        || ngx_current_msec - consumer->tried_at < NGX_HTTP_WQ_CONSUMER_AGAIN)
    {
        return 0;
    }

    consumer->again = 0;
    consumer->tried_at = ngx_current_msec;
    ngx_http_wq_consumer_set_after(consumer, (u_char *) "0", 1);

    return 1;
}


/* now and then, before what is new, comes what others have left */

static void
ngx_http_wq_consumer_claim(ngx_http_wq_consumer_t *consumer)
{
    if (consumer->claimed
        && (consumer->claimed_at == 0
            || ngx_current_msec - consumer->claimed_at
               >= NGX_HTTP_WQ_STREAM_IDLE / 2))
    {
        consumer->claiming = 1;
    }
}


static void
ngx_http_wq_consumer_pause(ngx_http_wq_consumer_t *consumer)
{
    if (!consumer->worker->draining && !consumer->finishing) {
        ngx_http_wq_timer_set(&consumer->timer, NGX_HTTP_WQ_CONSUMER_PAUSE);
    }
}


/*
 * Deals with all messages of an answer, which is gone when this returns: how
 * many there were, or NGX_ERROR for want of memory.
 */

static ngx_int_t
ngx_http_wq_consumer_messages(ngx_http_wq_consumer_t *consumer,
    wq_reply_t messages)
{
    wq_str_t                       first;
    ngx_int_t                      rc;
    ngx_uint_t                     i, garbage;
    ngx_http_wq_batch_t           *batch;
    ngx_http_wq_notice_t           notice;
    ngx_http_wq_batch_item_t      *item;
    ngx_http_wq_stream_message_t   message;

    if (wq_reply_elements(messages) == 0) {
        return 0;
    }

    batch = ngx_alloc(sizeof(ngx_http_wq_batch_t), consumer->worker->log);
    if (batch == NULL) {
        return NGX_ERROR;
    }

    batch->consumer = consumer;
    batch->n = 0;
    batch->pending = 1;
    consumer->batch = batch;

    garbage = 0;
    first.len = 0;
    first.data = NULL;

    for (i = 0; batch->n < NGX_HTTP_WQ_STREAM_COUNT; i++) {

        rc = ngx_http_wq_decode_stream_message(messages, i, &message);

        if (rc == NGX_DONE) {
            break;
        }

        if (rc != NGX_OK) {
            continue;
        }

        item = &batch->items[batch->n++];
        item->batch = batch;
        item->dealt_with = 0;
        item->id_len = (u_char) message.id.len;
        ngx_memcpy(item->id_data, message.id.data, message.id.len);

        if (ngx_http_wq_decode_notice(&message, &notice) != NGX_OK) {

            if (garbage++ == 0) {
                first = message.id;
            }

            item->dealt_with = 1;
            continue;
        }

        ngx_http_wq_consumer_lag(consumer, &message.id);

        rc = consumer->handler(consumer, &notice, item);

        if (rc == NGX_OK) {
            item->dealt_with = 1;

        } else if (rc == NGX_AGAIN) {
            batch->pending++;

        } else {
            consumer->again = 1;
        }
    }

    wq_counter_add(*consumer->messages, batch->n);

    if (consumer->claiming) {
        wq_counter_add(*consumer->claimed, batch->n);

    } else if (consumer->after.data[0] != '>' && batch->n) {
        item = &batch->items[batch->n - 1];
        ngx_http_wq_consumer_set_after(consumer, item->id_data, item->id_len);
    }

    if (garbage) {
        ngx_http_wq_consumer_garbage(consumer, garbage, &first);
    }

    i = batch->n;

    batch->pending--;

    if (batch->pending == 0) {
        ngx_http_wq_consumer_settled(consumer);
    }

    return i;
}


static void
ngx_http_wq_consumer_garbage(ngx_http_wq_consumer_t *consumer, ngx_uint_t n,
    const wq_str_t *id)
{
    ngx_str_t  first;

    wq_counter_add(*consumer->garbage, n);

    if (ngx_http_wq_may_complain(&consumer->complained)) {
        first.len = id->len;
        first.data = id->data;

        ngx_log_error(NGX_LOG_WARN, consumer->worker->log, 0,
                      "waiting_queue: what was put into the stream \"%V\" "
                      "makes no sense and is removed: %ui from \"%V\" on "
                      "(more within %d s is not logged)",
                      &consumer->key, n, &first, NGX_HTTP_WQ_COMPLAIN / 1000);
    }
}


/* the id of a message begins with the time at which it was written */

static void
ngx_http_wq_consumer_lag(ngx_http_wq_consumer_t *consumer, const wq_str_t *id)
{
    size_t    n;
    int64_t   written, now;

    written = 0;

    for (n = 0; n < id->len && id->data[n] >= '0' && id->data[n] <= '9'; n++) {

        if (n == 15) {
            /* nothing that a clock says */
            return;
        }

        written = written * 10 + (id->data[n] - '0');
    }

    now = (int64_t) ngx_current_msec + consumer->worker->clock;

    wq_counter_set(*consumer->lag,
                   consumer->worker->clock && now > written
                   ? (wq_counter_t) (now - written) : 0);
}


void
ngx_http_wq_consumer_settle(ngx_http_wq_batch_item_t *item, ngx_uint_t ok)
{
    ngx_uint_t               n;
    ngx_http_wq_batch_t     *batch;
    ngx_http_wq_consumer_t  *consumer;

    batch = item->batch;
    consumer = batch->consumer;

    if (ok) {
        item->dealt_with = 1;

    } else {
        consumer->again = 1;
    }

    batch->pending--;

    if (batch->pending) {
        return;
    }

    n = batch->n;

    ngx_http_wq_consumer_settled(consumer);

    if (consumer->link->state == NGX_HTTP_WQ_LINK_READY) {
        ngx_http_wq_consumer_next(consumer, n);
    }
}


/* all of a batch are settled: those that were dealt with are removed */

static void
ngx_http_wq_consumer_settled(ngx_http_wq_consumer_t *consumer)
{
    ngx_str_t                  ids[NGX_HTTP_WQ_STREAM_COUNT];
    ngx_uint_t                 i, n;
    ngx_http_wq_batch_t       *batch;
    ngx_http_wq_worker_t      *worker;
    ngx_http_wq_reply_to_t     to;
    ngx_http_wq_batch_item_t  *item;

    worker = consumer->worker;
    batch = consumer->batch;
    n = 0;

    for (i = 0; i < batch->n; i++) {
        item = &batch->items[i];

        if (item->dealt_with) {
            ids[n].data = item->id_data;
            ids[n].len = item->id_len;
            n++;
        }
    }

    to.handler = ngx_http_wq_consumer_discard_handler;
    to.data = consumer;
    to.operation = NULL;

    if (n > 0
        && ngx_http_wq_call_stream_discard(worker->links[NGX_HTTP_WQ_COMMANDS],
                                           &consumer->key, ids, n, &to)
           != NGX_OK)
    {
        consumer->again = 1;
    }

    consumer->batch = NULL;
    ngx_free(batch);
}


static void
ngx_http_wq_consumer_discard_handler(void *data, ngx_http_wq_result_t *result)
{
    ngx_http_wq_consumer_t *consumer = data;

    if (result->outcome != NGX_HTTP_WQ_ANSWERED) {
        consumer->again = 1;
    }
}


static void
ngx_http_wq_consumer_set_after(ngx_http_wq_consumer_t *consumer,
    const u_char *id, size_t len)
{
    ngx_memcpy(consumer->after_data, id, len);

    consumer->after.data = consumer->after_data;
    consumer->after.len = len;
}
