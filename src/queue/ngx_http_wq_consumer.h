
/*
 * queue: one who reads a stream of Redis as a member of its group.
 *
 * It reads with a blocking command on a link of its own.  A message is
 * acknowledged and removed when it has been dealt with; one that makes no sense
 * is logged, counted and removed too, so that it cannot come back for ever.
 * What could not be removed is read again: first of all when the link is up
 * again, and then now and then.
 */


#ifndef NGX_HTTP_WQ_CONSUMER_H_INCLUDED_
#define NGX_HTTP_WQ_CONSUMER_H_INCLUDED_


#include "ngx_http_wq_client.h"


typedef struct ngx_http_wq_consumer_s  ngx_http_wq_consumer_t;
typedef struct ngx_http_wq_batch_s     ngx_http_wq_batch_t;


typedef struct {
    u_char                     id_data[NGX_HTTP_WQ_STREAM_ID_MAX];
    u_char                     id_len;
    unsigned                   dealt_with:1;
    ngx_http_wq_batch_t       *batch;
} ngx_http_wq_batch_item_t;


/* the messages of one answer */

struct ngx_http_wq_batch_s {
    ngx_http_wq_consumer_t    *consumer;
    ngx_uint_t                 n;
    ngx_uint_t                 pending;     /* not yet settled */
    ngx_http_wq_batch_item_t   items[NGX_HTTP_WQ_STREAM_COUNT];
};


/*
 * Deals with one message.  NGX_OK: done; NGX_AGAIN: will be, by
 * ngx_http_wq_consumer_settle(); NGX_ERROR: not now, it is read again later.
 */

typedef ngx_int_t (*ngx_http_wq_consumer_handler_pt)(
    ngx_http_wq_consumer_t *consumer, const ngx_http_wq_notice_t *notice,
    ngx_http_wq_batch_item_t *item);


struct ngx_http_wq_consumer_s {
    ngx_http_wq_worker_t            *worker;
    ngx_http_wq_link_t              *link;
    ngx_http_wq_consumer_handler_pt  handler;
    ngx_str_t                        key;
    u_char                           key_data[NGX_HTTP_WQ_KEY_MAX];

    wq_counter_t                    *messages;
    wq_counter_t                    *garbage;
    wq_counter_t                    *claimed;   /* NULL: it claims nothing */
    wq_counter_t                    *lag;

    ngx_http_wq_timer_t              timer;     /* after an error */
    ngx_http_wq_batch_t             *batch;     /* being dealt with, or NULL */

    /* the next read begins after this id; ">": what nobody has read yet */
    ngx_str_t                        after;
    u_char                           after_data[NGX_HTTP_WQ_STREAM_ID_MAX];

    ngx_msec_t                       started;   /* the read under way */
    ngx_msec_t                       claimed_at;
    ngx_msec_t                       tried_at;  /* with those of before */
    ngx_msec_t                       complained;

    unsigned                         reading:1; /* a read is under way */
    unsigned                         claiming:1;    /* and it is a claim */
    unsigned                         again:1;   /* some was not removed */
    unsigned                         finishing:1;
};


/* opens nothing; the fields from handler to lag are the caller's to set */

void ngx_http_wq_consumer_init(ngx_http_wq_consumer_t *consumer,
    ngx_http_wq_worker_t *worker, const ngx_str_t *instance);

/* the link is up, perhaps again */

void ngx_http_wq_consumer_start(ngx_http_wq_consumer_t *consumer);
void ngx_http_wq_consumer_stop(ngx_http_wq_consumer_t *consumer);

/*
 * Leaves the stream to others: takes nothing more, but deals with what it has
 * been given already, over this link; its own is closed.  busy() is whether it
 * is at that.
 */

void ngx_http_wq_consumer_finish(ngx_http_wq_consumer_t *consumer,
    ngx_http_wq_link_t *link);
ngx_uint_t ngx_http_wq_consumer_busy(ngx_http_wq_consumer_t *consumer);

/* the end of the process: frees what is under way */

void ngx_http_wq_consumer_destroy(ngx_http_wq_consumer_t *consumer);

/* a message that was NGX_AGAIN; ok: it is dealt with, else it comes again */

void ngx_http_wq_consumer_settle(ngx_http_wq_batch_item_t *item,
    ngx_uint_t ok);


#endif /* NGX_HTTP_WQ_CONSUMER_H_INCLUDED_ */
