
/* redis: the scripts of a seat's lock, one call each, and their answers */


#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_http_wq_seat_commands.h"
#include "ngx_http_wq_script.h"


#define NGX_HTTP_WQ_SEAT_KEYS  3
#define NGX_HTTP_WQ_SEAT_ARGV  (NGX_HTTP_WQ_SEAT_KEYS + 6)


static ngx_int_t ngx_http_wq_seat_script(ngx_http_wq_link_t *link,
    ngx_http_wq_script_e script, const wq_keyspace_t *keyspace,
    const ngx_http_wq_seat_call_t *seat, const ngx_http_wq_reply_to_t *to);


static const wq_field_t  ngx_http_wq_seat_lock_fields[] = {

    { "held", WQ_FIELD_INTEGER, 0, 0, 1,
      offsetof(ngx_http_wq_seat_lock_reply_t, held) },

    { "left", WQ_FIELD_INTEGER, 1, 0, INT64_MAX,
      offsetof(ngx_http_wq_seat_lock_reply_t, left) },

    { "before", WQ_FIELD_INTEGER, 1, 0, INT64_MAX,
      offsetof(ngx_http_wq_seat_lock_reply_t, before) }
};


static const wq_field_t  ngx_http_wq_seat_unlock_fields[] = {

    { "held", WQ_FIELD_INTEGER, 0, 0, 1,
      offsetof(ngx_http_wq_seat_unlock_reply_t, held) },

    { "handed", WQ_FIELD_INTEGER, 0, 0, 1,
      offsetof(ngx_http_wq_seat_unlock_reply_t, handed) }
};


ngx_int_t
ngx_http_wq_call_seat_lock(ngx_http_wq_link_t *link,
    const wq_keyspace_t *keyspace, const ngx_http_wq_seat_call_t *seat,
    const ngx_http_wq_reply_to_t *to)
{
    return ngx_http_wq_seat_script(link, NGX_HTTP_WQ_SCRIPT_seat_lock,
                                   keyspace, seat, to);
}


ngx_int_t
ngx_http_wq_decode_seat_lock(ngx_http_wq_link_t *link,
    ngx_http_wq_result_t *result, ngx_http_wq_seat_lock_reply_t *reply)
{
    return ngx_http_wq_decode_reply(link, result, "seat_lock",
                                    ngx_http_wq_seat_lock_fields,
                                    sizeof(ngx_http_wq_seat_lock_fields)
                                    / sizeof(wq_field_t), reply);
}


ngx_int_t
ngx_http_wq_call_seat_unlock(ngx_http_wq_link_t *link,
    const wq_keyspace_t *keyspace, const ngx_http_wq_seat_call_t *seat,
    const ngx_http_wq_reply_to_t *to)
{
    return ngx_http_wq_seat_script(link, NGX_HTTP_WQ_SCRIPT_seat_unlock,
                                   keyspace, seat, to);
}


ngx_int_t
ngx_http_wq_decode_seat_unlock(ngx_http_wq_link_t *link,
    ngx_http_wq_result_t *result, ngx_http_wq_seat_unlock_reply_t *reply)
{
    return ngx_http_wq_decode_reply(link, result, "seat_unlock",
                                    ngx_http_wq_seat_unlock_fields,
                                    sizeof(ngx_http_wq_seat_unlock_fields)
                                    / sizeof(wq_field_t), reply);
}


/* both have the same words */

static ngx_int_t
ngx_http_wq_seat_script(ngx_http_wq_link_t *link, ngx_http_wq_script_e script,
    const wq_keyspace_t *keyspace, const ngx_http_wq_seat_call_t *seat,
    const ngx_http_wq_reply_to_t *to)
{
    u_char     lock[NGX_HTTP_WQ_KEY_MAX], line[NGX_HTTP_WQ_KEY_MAX];
    u_char     entry[NGX_HTTP_WQ_KEY_MAX], number[NGX_INT64_LEN];
    u_char     wait[NGX_INT64_LEN], lease[NGX_INT64_LEN];
    ngx_str_t  argv[NGX_HTTP_WQ_SEAT_ARGV];

    argv[0] = ngx_http_wq_key(lock, keyspace, WQ_KEY_SEAT_LOCK, &seat->event,
                              &seat->seat);
    argv[1] = ngx_http_wq_key(line, keyspace, WQ_KEY_SEAT_LINE, &seat->event,
                              &seat->seat);
    argv[2] = ngx_http_wq_key(entry, keyspace, WQ_KEY_ENTRY, &seat->event,
                              NULL);
    argv[3] = seat->event;
    argv[4] = seat->seat;
    argv[5] = seat->instance;
    argv[6].data = number;
    argv[6].len = ngx_sprintf(number, "%uL", seat->number) - number;
    argv[7].data = wait;
    argv[7].len = ngx_sprintf(wait, "%M", seat->wait) - wait;
    argv[8].data = lease;
    argv[8].len = ngx_sprintf(lease, "%M", seat->lease) - lease;

    if (script == NGX_HTTP_WQ_SCRIPT_seat_unlock) {
        return ngx_http_wq_send_vital_script(link, script, argv,
                                             NGX_HTTP_WQ_SEAT_KEYS,
                                             NGX_HTTP_WQ_SEAT_ARGV, to);
    }

    return ngx_http_wq_send_script(link, script, argv, NGX_HTTP_WQ_SEAT_KEYS,
                                   NGX_HTTP_WQ_SEAT_ARGV, to);
}
