
/* redis: the streams ENTRY and DISPATCH, and what their messages say */


#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_http_wq_commands.h"
#include "ngx_http_wq_script.h"


/*
 * A stream of an instance that reads nothing any more must not grow until the
 * instance is taken for dead.
 */
#define NGX_HTTP_WQ_DISPATCH_MAXLEN  "100000"


ngx_str_t
ngx_http_wq_stream_key(u_char *buf, const wq_keyspace_t *keyspace,
    const ngx_str_t *instance)
{
    return ngx_http_wq_key(buf, keyspace,
                           instance ? WQ_KEY_DISPATCH : WQ_KEY_ENTRY, NULL,
                           instance);
}


ngx_int_t
ngx_http_wq_call_stream_open(ngx_http_wq_link_t *link, const ngx_str_t *key,
    const ngx_http_wq_reply_to_t *to)
{
    ngx_str_t  argv[6];

    ngx_str_set(&argv[0], "XGROUP");
    ngx_str_set(&argv[1], "CREATE");
    argv[2] = *key;
    ngx_str_set(&argv[3], NGX_HTTP_WQ_STREAM_GROUP);
    ngx_str_set(&argv[4], "0");
    ngx_str_set(&argv[5], "MKSTREAM");

    return ngx_http_wq_send_command(link, argv, 6, 0, to);
}


ngx_int_t
ngx_http_wq_call_stream_read(ngx_http_wq_link_t *link, const ngx_str_t *key,
    const ngx_str_t *instance, const ngx_str_t *after, ngx_msec_t block_ms,
    const ngx_http_wq_reply_to_t *to)
{
    u_char     count[NGX_INT_T_LEN], block[NGX_INT_T_LEN];
    ngx_str_t  argv[11];

    ngx_str_set(&argv[0], "XREADGROUP");
    ngx_str_set(&argv[1], "GROUP");
    ngx_str_set(&argv[2], NGX_HTTP_WQ_STREAM_GROUP);
    argv[3] = *instance;
    ngx_str_set(&argv[4], "COUNT");
    argv[5].data = count;
    argv[5].len = ngx_sprintf(count, "%d", NGX_HTTP_WQ_STREAM_COUNT) - count;
    ngx_str_set(&argv[6], "BLOCK");
    argv[7].data = block;
    argv[7].len = ngx_sprintf(block, "%M", block_ms) - block;
    ngx_str_set(&argv[8], "STREAMS");
    argv[9] = *key;
    argv[10] = *after;

    return ngx_http_wq_send_command(link, argv, 11, block_ms, to);
}


ngx_int_t
ngx_http_wq_call_stream_claim(ngx_http_wq_link_t *link, const ngx_str_t *key,
    const ngx_str_t *instance, const ngx_http_wq_reply_to_t *to)
{
    u_char     count[NGX_INT_T_LEN], idle[NGX_INT_T_LEN];
    ngx_str_t  argv[8];

    ngx_str_set(&argv[0], "XAUTOCLAIM");
    argv[1] = *key;
    ngx_str_set(&argv[2], NGX_HTTP_WQ_STREAM_GROUP);
    argv[3] = *instance;
    argv[4].data = idle;
    argv[4].len = ngx_sprintf(idle, "%d", NGX_HTTP_WQ_STREAM_IDLE) - idle;
    ngx_str_set(&argv[5], "0-0");
    ngx_str_set(&argv[6], "COUNT");
    argv[7].data = count;
    argv[7].len = ngx_sprintf(count, "%d", NGX_HTTP_WQ_STREAM_COUNT) - count;

    return ngx_http_wq_send_command(link, argv, 8, 0, to);
}


ngx_int_t
ngx_http_wq_call_stream_discard(ngx_http_wq_link_t *link,
    const ngx_str_t *key, const ngx_str_t *ids, ngx_uint_t n,
    const ngx_http_wq_reply_to_t *to)
{
    ngx_str_t  argv[2 + NGX_HTTP_WQ_STREAM_COUNT];

    argv[0] = *key;
    ngx_str_set(&argv[1], NGX_HTTP_WQ_STREAM_GROUP);
    ngx_memcpy(&argv[2], ids, n * sizeof(ngx_str_t));

    return ngx_http_wq_send_script(link, NGX_HTTP_WQ_SCRIPT_discard_messages,
                                   argv, 1, 2 + n, to);
}


wq_reply_t
ngx_http_wq_decode_read(ngx_http_wq_result_t *result)
{
    /* [[stream, [[id, [name, value, ...]], ...]]] */

    return wq_reply_element(wq_reply_element(result->reply, 0), 1);
}


wq_reply_t
ngx_http_wq_decode_claimed(ngx_http_wq_result_t *result)
{
    /* [cursor, [[id, [name, value, ...]], ...], ...] */

    return wq_reply_element(result->reply, 1);
}


ngx_int_t
ngx_http_wq_decode_stream_message(wq_reply_t messages, ngx_uint_t i,
    ngx_http_wq_stream_message_t *message)
{
    wq_reply_t  entry;

    if (i >= wq_reply_elements(messages)) {
        return NGX_DONE;
    }

    entry = wq_reply_element(messages, i);

    message->id = wq_reply_string(wq_reply_element(entry, 0));
    message->fields = wq_reply_element(entry, 1);

    return message->id.len && message->id.len <= NGX_HTTP_WQ_STREAM_ID_MAX
           ? NGX_OK : NGX_DECLINED;
}


ngx_int_t
ngx_http_wq_decode_notice(const ngx_http_wq_stream_message_t *message,
    ngx_http_wq_notice_t *notice)
{
    wq_notice_t  said;

    if (wq_notice_decode(message->fields, &said) != WQ_OK) {
        return NGX_DECLINED;
    }

    notice->type = said.type;
    notice->event.len = said.event.len;
    notice->event.data = said.event.data;
    notice->user.len = said.user.len;
    notice->user.data = said.user.data;
    notice->instance.len = said.instance.len;
    notice->instance.data = said.instance.data;
    notice->token.len = said.token.len;
    notice->token.data = said.token.data;
    notice->idx = (uint64_t) said.idx;
    notice->expires = said.expires;
    notice->serial = said.serial;

    return NGX_OK;
}


ngx_int_t
ngx_http_wq_call_dispatch(ngx_http_wq_link_t *link,
    const wq_keyspace_t *keyspace, const ngx_http_wq_notice_t *notice,
    const ngx_http_wq_reply_to_t *to)
{
    u_char      key[NGX_HTTP_WQ_KEY_MAX];
    u_char      idx[NGX_INT64_LEN], expires[NGX_INT64_LEN];
    u_char      serial[NGX_INT64_LEN];
    ngx_str_t   argv[23];

    ngx_str_set(&argv[0], "XADD");
    argv[1] = ngx_http_wq_stream_key(key, keyspace, &notice->instance);
    ngx_str_set(&argv[2], "NOMKSTREAM");
    ngx_str_set(&argv[3], "MAXLEN");
    ngx_str_set(&argv[4], "~");
    ngx_str_set(&argv[5], NGX_HTTP_WQ_DISPATCH_MAXLEN);
    ngx_str_set(&argv[6], "*");

    ngx_str_set(&argv[7], "type");
    argv[8].data = (u_char *) wq_notice_word(notice->type);
    argv[8].len = ngx_strlen(argv[8].data);
    ngx_str_set(&argv[9], "userId");
    argv[10] = notice->user;
    ngx_str_set(&argv[11], "eventId");
    argv[12] = notice->event;
    ngx_str_set(&argv[13], "instanceId");
    argv[14] = notice->instance;
    ngx_str_set(&argv[15], "idx");
    argv[16].data = idx;
    argv[16].len = ngx_sprintf(idx, "%uL", notice->idx) - idx;
    ngx_str_set(&argv[17], "token");
    argv[18] = notice->token;
    ngx_str_set(&argv[19], "expiresAt");
    argv[20].data = expires;
    argv[20].len = ngx_sprintf(expires, "%L", notice->expires) - expires;
    ngx_str_set(&argv[21], "serial");
    argv[22].data = serial;
    argv[22].len = ngx_sprintf(serial, "%L", notice->serial) - serial;

    return ngx_http_wq_send_command(link, argv, 23, 0, to);
}
