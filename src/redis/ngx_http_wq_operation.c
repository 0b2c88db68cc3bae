
/* redis: one command on its way */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

#include "ngx_http_wq_operation.h"
#include "ngx_http_wq_script.h"

#include "wq_resp.h"


#define NGX_HTTP_WQ_OPERATION_REPRIEVE  100


static ngx_http_wq_operation_t *ngx_http_wq_operation_create(
    ngx_http_wq_link_t *link, const ngx_http_wq_call_t *call);
static void ngx_http_wq_operation_reply(redisAsyncContext *ac, void *reply,
    void *data);
static void ngx_http_wq_operation_error(ngx_http_wq_operation_t *operation,
    ngx_http_wq_result_t *result, redisReply *reply);
static ngx_int_t ngx_http_wq_operation_resend(
    ngx_http_wq_operation_t *operation);
static void ngx_http_wq_operation_finish(ngx_http_wq_operation_t *operation,
    ngx_http_wq_result_t *result);
static void ngx_http_wq_operation_arm(ngx_http_wq_operation_t *operation);

static wq_reply_type_e ngx_http_wq_reply_type(const void *node);
static int64_t ngx_http_wq_reply_integer(const void *node);
static wq_str_t ngx_http_wq_reply_string(const void *node);
static size_t ngx_http_wq_reply_elements(const void *node);
static const void *ngx_http_wq_reply_element(const void *node, size_t i);


static const ngx_str_t  ngx_http_wq_evalsha = ngx_string("EVALSHA");
static const ngx_str_t  ngx_http_wq_eval = ngx_string("EVAL");


static const wq_reply_reader_t  ngx_http_wq_reply_reader = {
    ngx_http_wq_reply_type,
    ngx_http_wq_reply_integer,
    ngx_http_wq_reply_string,
    ngx_http_wq_reply_elements,
    ngx_http_wq_reply_element
};


ngx_int_t
ngx_http_wq_operation_send(ngx_http_wq_link_t *link,
    const ngx_http_wq_call_t *call, ngx_http_wq_operation_t **operation)
{
    ngx_http_wq_operation_t  *op;

    if (link->ac == NULL
        || (link->state != NGX_HTTP_WQ_LINK_READY && !call->internal))
    {
        wq_counter_add(link->slot->counters.refused, 1);
        return NGX_DECLINED;
    }

    if (link->in_flight >= link->conf->in_flight
        && !call->internal && !call->vital)
    {
        wq_counter_add(link->slot->counters.refused, 1);
        return NGX_BUSY;
    }

    op = ngx_http_wq_operation_create(link, call);
    if (op == NULL) {
        return NGX_ERROR;
    }

    if (redisAsyncFormattedCommand(link->ac, ngx_http_wq_operation_reply, op,
                                   (char *) op->command, op->len)
        != REDIS_OK)
    {
        /* hiredis is about to end the context and takes no more */
        ngx_free(op);
        wq_counter_add(link->slot->counters.refused, 1);
        return NGX_DECLINED;
    }

    ngx_http_wq_operation_arm(op);

    link->in_flight++;

    wq_counter_set(link->slot->in_flight, link->in_flight);
    wq_counter_add(link->slot->counters.sent, 1);

    if (operation) {
        *operation = op;
    }

    return NGX_OK;
}


void
ngx_http_wq_operation_abandon(ngx_http_wq_link_t *link)
{
    ngx_queue_t              *q;
    ngx_http_wq_result_t      result;
    ngx_http_wq_operation_t  *op;

    ngx_memzero(&result, sizeof(ngx_http_wq_result_t));

    result.outcome = NGX_HTTP_WQ_LOST;

    while (!ngx_queue_empty(&link->operations)) {
        q = ngx_queue_head(&link->operations);
        op = ngx_queue_data(q, ngx_http_wq_operation_t, queue);

        wq_counter_add(link->slot->counters.lost, 1);
        ngx_http_wq_operation_finish(op, &result);
    }
}


void
ngx_http_wq_operation_detach(ngx_http_wq_operation_t *operation)
{
    operation->handler = NULL;
    operation->data = NULL;
}


/*
 * Only the oldest operation is timed: Redis answers in order, so none can be
 * answered before it.  If it is too old the connection is given up, and with
 * it all that stand behind.
 */

void
ngx_http_wq_operation_expire(ngx_http_wq_link_t *link)
{
    ngx_queue_t              *q;
    ngx_msec_int_t            left;
    ngx_http_wq_operation_t  *op;

    if (link->broken) {
        /* a step of the handshake could not even be sent */
        ngx_http_wq_link_fail(link, NGX_HTTP_WQ_TROUBLE_NO_RESOURCES, NULL);
        return;
    }

    if (ngx_queue_empty(&link->operations)) {
        return;
    }

    q = ngx_queue_head(&link->operations);
    op = ngx_queue_data(q, ngx_http_wq_operation_t, queue);

    left = (ngx_msec_int_t) (op->deadline - ngx_current_msec);

    if (left > 0) {
        ngx_http_wq_timer_set(&link->deadline, (ngx_msec_t) left);
        return;
    }

    if (!op->reprieved && ngx_http_wq_adapter_has_input(link->ac)) {

        /* it was we who slept: the answer lies there, but timers come first */

        op->reprieved = 1;
        op->deadline = ngx_current_msec + NGX_HTTP_WQ_OPERATION_REPRIEVE;
        ngx_http_wq_timer_set(&link->deadline, NGX_HTTP_WQ_OPERATION_REPRIEVE);
        return;
    }

    op->timed_out = 1;

    ngx_http_wq_link_fail(link, NGX_HTTP_WQ_TROUBLE_COMMAND_TIMEOUT, NULL);
}


static ngx_http_wq_operation_t *
ngx_http_wq_operation_create(ngx_http_wq_link_t *link,
    const ngx_http_wq_call_t *call)
{
    size_t                       len, tail;
    u_char                      *p, nkeys[NGX_INT_T_LEN];
    ngx_uint_t                   i, argc, nkeys_len;
    ngx_http_wq_operation_t     *op;
    const ngx_http_wq_script_t  *script;

    script = NULL;
    argc = call->argc;
    len = 0;
    nkeys_len = 0;

    if (call->script != NGX_HTTP_WQ_NO_SCRIPT) {
        script = &ngx_http_wq_scripts[call->script];
        argc += 3;

        nkeys_len = ngx_sprintf(nkeys, "%ui", call->nkeys) - nkeys;

        len += wq_resp_bulk_size(ngx_http_wq_evalsha.len)
               + wq_resp_bulk_size(script->sha1.len)
               + wq_resp_bulk_size(nkeys_len);
    }

    len += wq_resp_array_size(argc);

    for (i = 0; i < call->argc; i++) {
        len += wq_resp_bulk_size(call->argv[i].len);
    }

    op = ngx_alloc(offsetof(ngx_http_wq_operation_t, command) + len + 1,
                   link->log);
    if (op == NULL) {
        return NULL;
    }

    ngx_memzero(op, offsetof(ngx_http_wq_operation_t, command));

    p = wq_resp_array(op->command, argc);
    tail = p - op->command;

    if (script) {
        p = wq_resp_bulk(p, ngx_http_wq_evalsha.data, ngx_http_wq_evalsha.len);
        p = wq_resp_bulk(p, script->sha1.data, script->sha1.len);
        tail = p - op->command;
        p = wq_resp_bulk(p, nkeys, nkeys_len);
    }

    for (i = 0; i < call->argc; i++) {
        p = wq_resp_bulk(p, call->argv[i].data, call->argv[i].len);
    }

    /* hiredis looks one byte beyond a command of a single word */
    *p = '\0';

    op->link = link;
    op->handler = call->handler;
    op->data = call->data;
    op->script = call->script;
    op->internal = call->internal;
    op->blocking = (call->block_ms != 0);
    op->timeout = link->conf->timeout + call->block_ms;
    op->tail = tail;
    op->len = p - op->command;

    return op;
}


/* puts an operation that was just sent in line to be timed */

static void
ngx_http_wq_operation_arm(ngx_http_wq_operation_t *operation)
{
    ngx_msec_t                start;
    ngx_queue_t              *q;
    ngx_http_wq_link_t       *link;
    ngx_http_wq_operation_t  *last;

    link = operation->link;
    start = ngx_current_msec;

    if (!ngx_queue_empty(&link->operations)) {
        q = ngx_queue_last(&link->operations);
        last = ngx_queue_data(q, ngx_http_wq_operation_t, queue);

        if (last->blocking) {
            /* its own time begins when the blocking one is over */
            start = last->deadline;
        }
    }

    operation->deadline = start + operation->timeout;
    operation->sent_us = ngx_http_wq_clock_us();

    ngx_queue_insert_tail(&link->operations, &operation->queue);

    /* a timer that is set belongs to an older one, and moves on by itself */

    if (!link->deadline.event.timer_set) {
        ngx_http_wq_timer_set(&link->deadline, operation->timeout);
    }
}


/*
 * hiredis' callback for each command: with its reply, or with NULL when the
 * context goes away.  The request that asked may long be gone.
 */

static void
ngx_http_wq_operation_reply(redisAsyncContext *ac, void *reply, void *data)
{
    ngx_http_wq_operation_t *operation = data;

    uint64_t               us;
    redisReply            *rr;
    ngx_http_wq_link_t    *link;
    ngx_http_wq_result_t   result;

    static const ngx_str_t  unasked = ngx_string("answer to no command");

    rr = reply;
    link = operation->link;

    ngx_memzero(&result, sizeof(ngx_http_wq_result_t));

    result.reply.reader = &ngx_http_wq_reply_reader;
    result.reply.node = rr;

    if (rr == NULL) {

        /* handlers that send again must find the link down */
        ngx_http_wq_link_lost(link, ac);

        if (operation->timed_out) {
            result.outcome = NGX_HTTP_WQ_TIMED_OUT;
            wq_counter_add(link->slot->counters.timed_out, 1);

        } else {
            result.outcome = NGX_HTTP_WQ_LOST;
            wq_counter_add(link->slot->counters.lost, 1);
        }

        ngx_http_wq_operation_finish(operation, &result);
        return;
    }

    if (!operation->blocking) {
        us = ngx_http_wq_clock_us() - operation->sent_us;

        wq_counter_add(link->slot->counters.round_trip_us, us);
        wq_counter_add(link->slot->counters
                       .round_trip[wq_histogram_bucket(us)], 1);
    }

    if (rr->type == REDIS_REPLY_ERROR) {

        result.outcome = NGX_HTTP_WQ_FAILED;
        result.error = wq_redis_error_classify((u_char *) rr->str, rr->len);

        if (result.error == WQ_REDIS_ERROR_NOSCRIPT
            && ngx_http_wq_operation_resend(operation) == NGX_OK)
        {
            return;
        }

        if (result.error != WQ_REDIS_ERROR_BUSYGROUP) {
            /* that one says that a group is there: no failure of anything */
            wq_counter_add(link->slot->counters.failed, 1);
        }

        if (!operation->internal) {
            ngx_http_wq_operation_error(operation, &result, rr);
        }

    } else if (!operation->internal) {
        ngx_http_wq_trouble_end(link, operation->script);
    }

    ngx_http_wq_operation_finish(operation, &result);

    if (link->ac == ac && ngx_http_wq_adapter_out_of_step(ac)) {
        ngx_http_wq_link_fail(link, NGX_HTTP_WQ_TROUBLE_PROTOCOL, &unasked);
    }
}


/*
 * What an error reply means for the link.  The operation is not finished yet,
 * so a link that fails here must not answer it as lost: hiredis has already
 * taken it off its own list, and will not call back for it again.
 */

static void
ngx_http_wq_operation_error(ngx_http_wq_operation_t *operation,
    ngx_http_wq_result_t *result, redisReply *reply)
{
    ngx_str_t            text;
    ngx_uint_t           trouble;
    ngx_http_wq_link_t  *link;

    link = operation->link;
    text.data = (u_char *) reply->str;
    text.len = reply->len;
    trouble = NGX_HTTP_WQ_TROUBLE_REDIS + result->error;

    switch (wq_redis_error_action(result->error)) {

    case WQ_REDIS_RECONNECT:
        ngx_http_wq_link_fail(link, trouble, &text);
        break;

    case WQ_REDIS_WAIT:
        ngx_http_wq_link_wait(link, trouble, &text);
        break;

    default: /* WQ_REDIS_FAIL */
        ngx_http_wq_trouble_complain(link, result->error, operation->script,
                                     &text);
    }
}


/*
 * Redis does not know the script (it was restarted, failed over or flushed):
 * sends it whole, once, with the same keys and arguments.  NGX_OK: the
 * operation is on its way again; otherwise it is to be answered with the
 * error.
 */

static ngx_int_t
ngx_http_wq_operation_resend(ngx_http_wq_operation_t *operation)
{
    int                          rc;
    u_char                      *p, *command;
    size_t                       len, head;
    ngx_http_wq_link_t          *link;
    const ngx_http_wq_script_t  *script;

    link = operation->link;

    if (operation->script == NGX_HTTP_WQ_NO_SCRIPT || operation->resent
        || link->ac == NULL)
    {
        return NGX_DECLINED;
    }

    script = &ngx_http_wq_scripts[operation->script];

    /* the array header stays: EVALSHA and EVAL have as many words */

    head = operation->tail - wq_resp_bulk_size(ngx_http_wq_evalsha.len)
           - wq_resp_bulk_size(script->sha1.len);

    len = head + wq_resp_bulk_size(ngx_http_wq_eval.len)
          + wq_resp_bulk_size(script->body.len)
          + operation->len - operation->tail;

    command = ngx_alloc(len, link->log);
    if (command == NULL) {
        return NGX_ERROR;
    }

    p = ngx_cpymem(command, operation->command, head);
    p = wq_resp_bulk(p, ngx_http_wq_eval.data, ngx_http_wq_eval.len);
    p = wq_resp_bulk(p, script->body.data, script->body.len);
    ngx_memcpy(p, operation->command + operation->tail,
               operation->len - operation->tail);

    rc = redisAsyncFormattedCommand(link->ac, ngx_http_wq_operation_reply,
                                    operation, (char *) command, len);

    ngx_free(command);

    if (rc != REDIS_OK) {
        return NGX_DECLINED;
    }

    operation->resent = 1;
    wq_counter_add(link->slot->counters.script_misses, 1);

    /* it stands last in Redis' line now, and must in the line that is timed */

    ngx_queue_remove(&operation->queue);
    ngx_http_wq_operation_arm(operation);

    return NGX_OK;
}


static void
ngx_http_wq_operation_finish(ngx_http_wq_operation_t *operation,
    ngx_http_wq_result_t *result)
{
    ngx_http_wq_link_t  *link;

    link = operation->link;

    ngx_queue_remove(&operation->queue);

    link->in_flight--;
    wq_counter_set(link->slot->in_flight, link->in_flight);

    if (link->in_flight == 0) {
        /* before the handler, which may set it anew */
        ngx_http_wq_timer_stop(&link->deadline);
    }

    if (operation->handler) {
        operation->handler(operation->data, result);
    }

    ngx_free(operation);

    if (link->in_flight == 0) {
        ngx_http_wq_link_emptied(link);
    }
}


uint64_t
ngx_http_wq_clock_us(void)
{
    struct timespec  ts;

    (void) clock_gettime(CLOCK_MONOTONIC, &ts);

    return (uint64_t) ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}


static wq_reply_type_e
ngx_http_wq_reply_type(const void *node)
{
    const redisReply *reply = node;

    if (ngx_http_wq_hiredis_is_text(reply->type)) {
        return WQ_REPLY_STRING;
    }

    switch (reply->type) {

    case REDIS_REPLY_NIL:
        return WQ_REPLY_NIL;

    case REDIS_REPLY_INTEGER:
        return WQ_REPLY_INTEGER;

    case REDIS_REPLY_ARRAY:
        return WQ_REPLY_ARRAY;

    case REDIS_REPLY_ERROR:
        return WQ_REPLY_ERROR;

    default:
        return WQ_REPLY_UNKNOWN;
    }
}


static int64_t
ngx_http_wq_reply_integer(const void *node)
{
    const redisReply *reply = node;

    return reply->integer;
}


static wq_str_t
ngx_http_wq_reply_string(const void *node)
{
    const redisReply *reply = node;

    wq_str_t  string;

    string.len = reply->len;
    string.data = (u_char *) reply->str;

    return string;
}


static size_t
ngx_http_wq_reply_elements(const void *node)
{
    const redisReply *reply = node;

    return reply->elements;
}


static const void *
ngx_http_wq_reply_element(const void *node, size_t i)
{
    const redisReply *reply = node;

    return reply->element[i];
}
