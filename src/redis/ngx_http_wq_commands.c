
/* redis: every call the queue makes, one function each */


#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_http_wq_commands.h"
#include "ngx_http_wq_script.h"

#include "wq_id.h"


/* prefix, longest name, braces, event and user */
#define NGX_HTTP_WQ_KEY_MAX         (64 + 64 + 2 * WQ_ID_MAX)

#define NGX_HTTP_WQ_DISPATCH_GROUP  "waiting_queue"


static ngx_str_t ngx_http_wq_key(u_char *buf, const wq_keyspace_t *keyspace,
    wq_key_e key, const ngx_str_t *event, const ngx_str_t *user);
static ngx_int_t ngx_http_wq_send_command(ngx_http_wq_link_t *link,
    const ngx_str_t *argv, ngx_uint_t argc, ngx_msec_t block_ms,
    const ngx_http_wq_reply_to_t *to);
static ngx_int_t ngx_http_wq_send_script(ngx_http_wq_link_t *link,
    ngx_http_wq_script_e script, const ngx_str_t *argv, ngx_uint_t nkeys,
    ngx_uint_t argc, const ngx_http_wq_reply_to_t *to);
static ngx_int_t ngx_http_wq_send_call(ngx_http_wq_link_t *link,
    ngx_http_wq_call_t *call, const ngx_http_wq_reply_to_t *to);
static ngx_int_t ngx_http_wq_decode(ngx_http_wq_link_t *link,
    ngx_http_wq_result_t *result, const char *what, const wq_field_t *fields,
    size_t n, void *reply);


static const wq_field_t  ngx_http_wq_heartbeat_fields[] = {

    { "now", WQ_FIELD_INTEGER, 0, 1, INT64_MAX,
      offsetof(ngx_http_wq_heartbeat_reply_t, now) },

    { "instances", WQ_FIELD_INTEGER, 0, 1, INT64_MAX,
      offsetof(ngx_http_wq_heartbeat_reply_t, instances) }
};


ngx_int_t
ngx_http_wq_call_heartbeat(ngx_http_wq_link_t *link,
    const wq_keyspace_t *keyspace, const ngx_str_t *instance,
    const ngx_http_wq_reply_to_t *to)
{
    u_char              buf[NGX_HTTP_WQ_KEY_MAX];
    ngx_str_t           argv[2];
    ngx_http_wq_call_t  call;

    argv[0] = ngx_http_wq_key(buf, keyspace, WQ_KEY_INSTANCES, NULL, NULL);
    argv[1] = *instance;

    ngx_memzero(&call, sizeof(ngx_http_wq_call_t));

    call.script = NGX_HTTP_WQ_SCRIPT_heartbeat;
    call.nkeys = 1;
    call.argv = argv;
    call.argc = 2;

    /* a worker that has too much to do must not be taken for dead */
    call.vital = 1;

    return ngx_http_wq_send_call(link, &call, to);
}


ngx_int_t
ngx_http_wq_decode_heartbeat(ngx_http_wq_link_t *link,
    ngx_http_wq_result_t *result, ngx_http_wq_heartbeat_reply_t *reply)
{
    return ngx_http_wq_decode(link, result, "heartbeat",
                              ngx_http_wq_heartbeat_fields,
                              sizeof(ngx_http_wq_heartbeat_fields)
                              / sizeof(wq_field_t), reply);
}


/* two commands: on Redis Cluster the two keys live in different slots */

ngx_int_t
ngx_http_wq_call_retire(ngx_http_wq_link_t *link,
    const wq_keyspace_t *keyspace, const ngx_str_t *instance)
{
    u_char              buf[NGX_HTTP_WQ_KEY_MAX];
    ngx_int_t           rc;
    ngx_str_t           argv[3];
    ngx_http_wq_call_t  call;

    ngx_str_set(&argv[0], "ZREM");
    argv[1] = ngx_http_wq_key(buf, keyspace, WQ_KEY_INSTANCES, NULL, NULL);
    argv[2] = *instance;

    ngx_memzero(&call, sizeof(ngx_http_wq_call_t));

    call.script = NGX_HTTP_WQ_NO_SCRIPT;
    call.argv = argv;
    call.argc = 3;

    /* there is no later for it */
    call.vital = 1;

    rc = ngx_http_wq_send_call(link, &call, NULL);
    if (rc != NGX_OK) {
        return rc;
    }

    ngx_str_set(&argv[0], "DEL");
    argv[1] = ngx_http_wq_key(buf, keyspace, WQ_KEY_DISPATCH, NULL, instance);

    call.argc = 2;

    return ngx_http_wq_send_call(link, &call, NULL);
}


ngx_int_t
ngx_http_wq_call_dispatch_open(ngx_http_wq_link_t *link,
    const wq_keyspace_t *keyspace, const ngx_str_t *instance,
    const ngx_http_wq_reply_to_t *to)
{
    u_char     buf[NGX_HTTP_WQ_KEY_MAX];
    ngx_str_t  argv[6];

    ngx_str_set(&argv[0], "XGROUP");
    ngx_str_set(&argv[1], "CREATE");
    argv[2] = ngx_http_wq_key(buf, keyspace, WQ_KEY_DISPATCH, NULL, instance);
    ngx_str_set(&argv[3], NGX_HTTP_WQ_DISPATCH_GROUP);
    ngx_str_set(&argv[4], "0");
    ngx_str_set(&argv[5], "MKSTREAM");

    return ngx_http_wq_send_command(link, argv, 6, 0, to);
}


ngx_int_t
ngx_http_wq_call_dispatch_read(ngx_http_wq_link_t *link,
    const wq_keyspace_t *keyspace, const ngx_str_t *instance,
    const ngx_str_t *after, ngx_msec_t block_ms,
    const ngx_http_wq_reply_to_t *to)
{
    u_char     buf[NGX_HTTP_WQ_KEY_MAX];
    u_char     count[NGX_INT_T_LEN], block[NGX_INT_T_LEN];
    ngx_str_t  argv[11];

    ngx_str_set(&argv[0], "XREADGROUP");
    ngx_str_set(&argv[1], "GROUP");
    ngx_str_set(&argv[2], NGX_HTTP_WQ_DISPATCH_GROUP);
    argv[3] = *instance;
    ngx_str_set(&argv[4], "COUNT");
    argv[5].data = count;
    argv[5].len = ngx_sprintf(count, "%d", NGX_HTTP_WQ_DISPATCH_COUNT) - count;
    ngx_str_set(&argv[6], "BLOCK");
    argv[7].data = block;
    argv[7].len = ngx_sprintf(block, "%M", block_ms) - block;
    ngx_str_set(&argv[8], "STREAMS");
    argv[9] = ngx_http_wq_key(buf, keyspace, WQ_KEY_DISPATCH, NULL, instance);
    argv[10] = *after;

    return ngx_http_wq_send_command(link, argv, 11, block_ms, to);
}


ngx_int_t
ngx_http_wq_call_dispatch_discard(ngx_http_wq_link_t *link,
    const wq_keyspace_t *keyspace, const ngx_str_t *instance,
    const ngx_str_t *ids, ngx_uint_t n, const ngx_http_wq_reply_to_t *to)
{
    u_char     buf[NGX_HTTP_WQ_KEY_MAX];
    ngx_str_t  argv[2 + NGX_HTTP_WQ_DISPATCH_COUNT];

    argv[0] = ngx_http_wq_key(buf, keyspace, WQ_KEY_DISPATCH, NULL, instance);
    ngx_str_set(&argv[1], NGX_HTTP_WQ_DISPATCH_GROUP);
    ngx_memcpy(&argv[2], ids, n * sizeof(ngx_str_t));

    return ngx_http_wq_send_script(link, NGX_HTTP_WQ_SCRIPT_dispatch_discard,
                                   argv, 1, 2 + n, to);
}


ngx_int_t
ngx_http_wq_decode_stream_message(ngx_http_wq_result_t *result, ngx_uint_t i,
    ngx_http_wq_stream_message_t *message)
{
    wq_reply_t  stream, messages, entry;

    /* [[stream, [[id, [name, value, ...]], ...]]] */

    stream = wq_reply_element(result->reply, 0);
    messages = wq_reply_element(stream, 1);

    if (i >= wq_reply_elements(messages)) {
        return NGX_DONE;
    }

    entry = wq_reply_element(messages, i);

    message->id = wq_reply_string(wq_reply_element(entry, 0));
    message->fields = wq_reply_element(entry, 1);

    return message->id.len && message->id.len <= NGX_HTTP_WQ_STREAM_ID_MAX
           ? NGX_OK : NGX_DECLINED;
}


/* buf has room for NGX_HTTP_WQ_KEY_MAX bytes; the ids were checked */

static ngx_str_t
ngx_http_wq_key(u_char *buf, const wq_keyspace_t *keyspace, wq_key_e key,
    const ngx_str_t *event, const ngx_str_t *user)
{
    wq_str_t   e, u;
    ngx_str_t  name;

    if (event) {
        e.len = event->len;
        e.data = event->data;
    }

    if (user) {
        u.len = user->len;
        u.data = user->data;
    }

    name.data = buf;
    name.len = wq_key_write(buf, keyspace, key, event ? &e : NULL,
                            user ? &u : NULL)
               - buf;

    return name;
}


static ngx_int_t
ngx_http_wq_send_command(ngx_http_wq_link_t *link, const ngx_str_t *argv,
    ngx_uint_t argc, ngx_msec_t block_ms, const ngx_http_wq_reply_to_t *to)
{
    ngx_http_wq_call_t  call;

    ngx_memzero(&call, sizeof(ngx_http_wq_call_t));

    call.script = NGX_HTTP_WQ_NO_SCRIPT;
    call.argv = argv;
    call.argc = argc;
    call.block_ms = block_ms;

    return ngx_http_wq_send_call(link, &call, to);
}


static ngx_int_t
ngx_http_wq_send_script(ngx_http_wq_link_t *link, ngx_http_wq_script_e script,
    const ngx_str_t *argv, ngx_uint_t nkeys, ngx_uint_t argc,
    const ngx_http_wq_reply_to_t *to)
{
    ngx_http_wq_call_t  call;

    ngx_memzero(&call, sizeof(ngx_http_wq_call_t));

    call.script = script;
    call.nkeys = nkeys;
    call.argv = argv;
    call.argc = argc;

    return ngx_http_wq_send_call(link, &call, to);
}


/* to may be NULL: nobody waits for the answer */

static ngx_int_t
ngx_http_wq_send_call(ngx_http_wq_link_t *link, ngx_http_wq_call_t *call,
    const ngx_http_wq_reply_to_t *to)
{
    if (to == NULL) {
        return ngx_http_wq_operation_send(link, call, NULL);
    }

    call->handler = to->handler;
    call->data = to->data;

    return ngx_http_wq_operation_send(link, call, to->operation);
}


/*
 * NGX_OK, or NGX_ERROR for an answer that no script of ours gives: it is
 * counted and logged, and to be treated as if there were none.
 */

static ngx_int_t
ngx_http_wq_decode(ngx_http_wq_link_t *link, ngx_http_wq_result_t *result,
    const char *what, const wq_field_t *fields, size_t n, void *reply)
{
    wq_rc_t      rc;
    const char  *bad;

    static const ngx_str_t  foreign = ngx_string("answer of another command");

    if (result->outcome != NGX_HTTP_WQ_ANSWERED) {
        return NGX_ERROR;
    }

    rc = wq_reply_decode(result->reply, fields, n, reply, &bad);

    if (rc == WQ_OK) {
        return NGX_OK;
    }

    ngx_http_wq_trouble_bad_reply(link, what, bad);

    if (wq_reply_elements(result->reply) < n) {

        /*
         * Bad content comes from a key that somebody has meddled with.  But
         * this is not even the answer of this script: the answers are out of
         * step with the questions, and all that follow would be too.
         */

        ngx_http_wq_link_fail(link, NGX_HTTP_WQ_TROUBLE_PROTOCOL, &foreign);
    }

    return NGX_ERROR;
}
