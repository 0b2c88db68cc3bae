
/* redis: what the queue calls that concerns no single event */


#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_http_wq_commands.h"
#include "ngx_http_wq_script.h"


static ngx_int_t ngx_http_wq_send_call(ngx_http_wq_link_t *link,
    ngx_http_wq_call_t *call, const ngx_http_wq_reply_to_t *to);


static const wq_field_t  ngx_http_wq_heartbeat_fields[] = {

    { "now", WQ_FIELD_INTEGER, 0, 1, INT64_MAX,
      offsetof(ngx_http_wq_heartbeat_reply_t, now) },

    { "instances", WQ_FIELD_INTEGER, 0, 1, INT64_MAX,
      offsetof(ngx_http_wq_heartbeat_reply_t, instances) },

    { "unknown", WQ_FIELD_INTEGER, 0, 0, 1,
      offsetof(ngx_http_wq_heartbeat_reply_t, unknown) },

    { "origin", WQ_FIELD_INTEGER, 0, 0, INT64_MAX,
      offsetof(ngx_http_wq_heartbeat_reply_t, origin) },

    { "hold", WQ_FIELD_INTEGER, 0, 0, INT64_MAX,
      offsetof(ngx_http_wq_heartbeat_reply_t, hold_ms) }
};


static const wq_field_t  ngx_http_wq_bury_fields[] = {

    { "buried", WQ_FIELD_INTEGER, 0, 0, 1,
      offsetof(ngx_http_wq_bury_reply_t, buried) }
};


static const wq_field_t  ngx_http_wq_tasks_fields[] = {

    { "leads", WQ_FIELD_INTEGER, 0, 0, 1,
      offsetof(ngx_http_wq_tasks_reply_t, leads) },

    { "tasks", WQ_FIELD_INTEGER, 0, 0, INT64_MAX,
      offsetof(ngx_http_wq_tasks_reply_t, tasks) },

    { "dead", WQ_FIELD_ARRAY, 0, 0, 2 * NGX_HTTP_WQ_DEAD_MAX,
      offsetof(ngx_http_wq_tasks_reply_t, dead) }
};


static const wq_field_t  ngx_http_wq_dead_field =
    { "heartbeat", WQ_FIELD_INTEGER, 0, 0, INT64_MAX, 0 };


ngx_int_t
ngx_http_wq_call_heartbeat(ngx_http_wq_link_t *link,
    const wq_keyspace_t *keyspace, const ngx_str_t *instance,
    int64_t origin, ngx_msec_t leaves, const ngx_http_wq_reply_to_t *to)
{
    u_char     instances[NGX_HTTP_WQ_KEY_MAX], data[NGX_HTTP_WQ_KEY_MAX];
    u_char     since[NGX_INT64_LEN], last[NGX_INT64_LEN];
    ngx_str_t  argv[5];

    argv[0] = ngx_http_wq_key(instances, keyspace, WQ_KEY_INSTANCES, NULL,
                              NULL);
    argv[1] = ngx_http_wq_key(data, keyspace, WQ_KEY_ORIGIN, NULL, NULL);
    argv[2] = *instance;
    argv[3].data = since;
    argv[3].len = ngx_sprintf(since, "%L", origin) - since;
    argv[4].data = last;
    argv[4].len = leaves ? ngx_sprintf(last, "%M", leaves) - last : 0;

    /* a worker that has too much to do must not be taken for dead */

    return ngx_http_wq_send_vital_script(link, NGX_HTTP_WQ_SCRIPT_heartbeat,
                                         argv, 2, 5, to);
}


ngx_int_t
ngx_http_wq_decode_heartbeat(ngx_http_wq_link_t *link,
    ngx_http_wq_result_t *result, ngx_http_wq_heartbeat_reply_t *reply)
{
    return ngx_http_wq_decode_reply(link, result, "heartbeat",
                                    ngx_http_wq_heartbeat_fields,
                                    sizeof(ngx_http_wq_heartbeat_fields)
                                    / sizeof(wq_field_t), reply);
}


ngx_int_t
ngx_http_wq_call_bury_instance(ngx_http_wq_link_t *link,
    const wq_keyspace_t *keyspace, const ngx_str_t *instance,
    const int64_t *heartbeat, const ngx_http_wq_reply_to_t *to)
{
    u_char     instances[NGX_HTTP_WQ_KEY_MAX], dispatch[NGX_HTTP_WQ_KEY_MAX];
    u_char     entry[NGX_HTTP_WQ_KEY_MAX], last[NGX_INT64_LEN];
    ngx_str_t  argv[6];

    argv[0] = ngx_http_wq_key(instances, keyspace, WQ_KEY_INSTANCES, NULL,
                              NULL);
    argv[1] = ngx_http_wq_key(dispatch, keyspace, WQ_KEY_DISPATCH, NULL,
                              instance);
    argv[2] = ngx_http_wq_key(entry, keyspace, WQ_KEY_ENTRY, NULL, NULL);
    argv[3] = *instance;
    ngx_str_set(&argv[4], NGX_HTTP_WQ_STREAM_GROUP);
    argv[5].data = last;
    argv[5].len = heartbeat ? ngx_sprintf(last, "%L", *heartbeat) - last : 0;

    /* for an instance that goes there is no later */

    return ngx_http_wq_send_vital_script(link,
                                         NGX_HTTP_WQ_SCRIPT_bury_instance,
                                         argv, 3, 6, to);
}


ngx_int_t
ngx_http_wq_decode_bury(ngx_http_wq_link_t *link,
    ngx_http_wq_result_t *result, ngx_http_wq_bury_reply_t *reply)
{
    return ngx_http_wq_decode_reply(link, result, "bury",
                                    ngx_http_wq_bury_fields,
                                    sizeof(ngx_http_wq_bury_fields)
                                    / sizeof(wq_field_t), reply);
}


ngx_int_t
ngx_http_wq_call_fill_tasks(ngx_http_wq_link_t *link,
    const wq_keyspace_t *keyspace, const ngx_str_t *instance,
    ngx_msec_t round, ngx_msec_t dead_after, const ngx_http_wq_reply_to_t *to)
{
    u_char      keys[5][NGX_HTTP_WQ_KEY_MAX];
    u_char      round_text[NGX_INT_T_LEN], dead_text[NGX_INT_T_LEN];
    ngx_str_t   argv[8];
    ngx_uint_t  i;

    static const wq_key_e  names[] = {
        WQ_KEY_TASK_LIST,
        WQ_KEY_EVENTS,
        WQ_KEY_PROMOTER,
        WQ_KEY_INSTANCES,
        WQ_KEY_ROUND
    };

    for (i = 0; i < 5; i++) {
        argv[i] = ngx_http_wq_key(keys[i], keyspace, names[i], NULL, NULL);
    }

    argv[5] = *instance;
    argv[6].data = round_text;
    argv[6].len = ngx_sprintf(round_text, "%M", round) - round_text;
    argv[7].data = dead_text;
    argv[7].len = ngx_sprintf(dead_text, "%M", dead_after) - dead_text;

    return ngx_http_wq_send_script(link,
                                   NGX_HTTP_WQ_SCRIPT_fill_promotion_tasks,
                                   argv, 5, 8, to);
}


ngx_int_t
ngx_http_wq_decode_tasks(ngx_http_wq_link_t *link,
    ngx_http_wq_result_t *result, ngx_http_wq_tasks_reply_t *reply)
{
    return ngx_http_wq_decode_reply(link, result, "promotion tasks",
                                    ngx_http_wq_tasks_fields,
                                    sizeof(ngx_http_wq_tasks_fields)
                                    / sizeof(wq_field_t), reply);
}


ngx_int_t
ngx_http_wq_decode_dead(const ngx_http_wq_tasks_reply_t *reply, ngx_uint_t i,
    ngx_str_t *instance, int64_t *heartbeat)
{
    wq_str_t  name;

    if (2 * i + 1 >= wq_reply_elements(reply->dead)) {
        return NGX_DONE;
    }

    name = wq_reply_string(wq_reply_element(reply->dead, 2 * i));

    instance->len = name.len;
    instance->data = name.data;

    if (wq_id_check(name.data, name.len) != WQ_OK
        || wq_reply_decode_value(wq_reply_element(reply->dead, 2 * i + 1),
                                 &ngx_http_wq_dead_field, heartbeat)
           != WQ_OK)
    {
        return NGX_DECLINED;
    }

    return NGX_OK;
}


ngx_int_t
ngx_http_wq_call_pop_tasks(ngx_http_wq_link_t *link,
    const wq_keyspace_t *keyspace, ngx_uint_t n,
    const ngx_http_wq_reply_to_t *to)
{
    u_char     buf[NGX_HTTP_WQ_KEY_MAX], count[NGX_INT_T_LEN];
    ngx_str_t  argv[3];

    ngx_str_set(&argv[0], "RPOP");
    argv[1] = ngx_http_wq_key(buf, keyspace, WQ_KEY_TASK_LIST, NULL, NULL);
    argv[2].data = count;
    argv[2].len = ngx_sprintf(count, "%ui", n) - count;

    return ngx_http_wq_send_command(link, argv, 3, 0, to);
}


ngx_int_t
ngx_http_wq_call_events(ngx_http_wq_link_t *link,
    const wq_keyspace_t *keyspace, const ngx_http_wq_reply_to_t *to)
{
    u_char     buf[NGX_HTTP_WQ_KEY_MAX];
    ngx_str_t  argv[2];

    ngx_str_set(&argv[0], "SMEMBERS");
    argv[1] = ngx_http_wq_key(buf, keyspace, WQ_KEY_EVENTS, NULL, NULL);

    return ngx_http_wq_send_command(link, argv, 2, 0, to);
}


ngx_int_t
ngx_http_wq_decode_event_id(ngx_http_wq_result_t *result, ngx_uint_t i,
    ngx_str_t *event)
{
    wq_str_t  id;

    if (i >= wq_reply_elements(result->reply)) {
        return NGX_DONE;
    }

    id = wq_reply_string(wq_reply_element(result->reply, i));

    event->len = id.len;
    event->data = id.data;

    return wq_id_check(id.data, id.len) == WQ_OK ? NGX_OK : NGX_DECLINED;
}


ngx_str_t
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


ngx_int_t
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


ngx_int_t
ngx_http_wq_send_script(ngx_http_wq_link_t *link, ngx_uint_t script,
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


ngx_int_t
ngx_http_wq_send_vital_script(ngx_http_wq_link_t *link, ngx_uint_t script,
    const ngx_str_t *argv, ngx_uint_t nkeys, ngx_uint_t argc,
    const ngx_http_wq_reply_to_t *to)
{
    ngx_http_wq_call_t  call;

    ngx_memzero(&call, sizeof(ngx_http_wq_call_t));

    call.script = script;
    call.nkeys = nkeys;
    call.argv = argv;
    call.argc = argc;
    call.vital = 1;

    return ngx_http_wq_send_call(link, &call, to);
}


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


ngx_int_t
ngx_http_wq_decode_reply(ngx_http_wq_link_t *link, ngx_http_wq_result_t *result,
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
