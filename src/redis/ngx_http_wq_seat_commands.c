
/* redis: the scripts of a seat's lock, one call each, and their answers */


#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_http_wq_seat_commands.h"
#include "ngx_http_wq_script.h"


#define NGX_HTTP_WQ_SEAT_KEYS  3
#define NGX_HTTP_WQ_SEAT_ARGV  (NGX_HTTP_WQ_SEAT_KEYS + 6)


/* the words of both scripts, and what they stand in */

typedef struct {
    ngx_str_t   argv[NGX_HTTP_WQ_SEAT_ARGV];
    u_char      keys[NGX_HTTP_WQ_SEAT_KEYS][NGX_HTTP_WQ_KEY_MAX];
    u_char      numbers[3][NGX_INT64_LEN];
} ngx_http_wq_seat_words_t;


static void ngx_http_wq_seat_words(ngx_http_wq_seat_words_t *words,
    const wq_keyspace_t *keyspace, const ngx_http_wq_seat_call_t *seat);


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
    ngx_http_wq_seat_words_t  words;

    ngx_http_wq_seat_words(&words, keyspace, seat);

    return ngx_http_wq_send_script(link, NGX_HTTP_WQ_SCRIPT_seat_lock,
                                   words.argv, NGX_HTTP_WQ_SEAT_KEYS,
                                   NGX_HTTP_WQ_SEAT_ARGV, to);
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
    ngx_http_wq_seat_words_t  words;

    ngx_http_wq_seat_words(&words, keyspace, seat);

    return ngx_http_wq_send_vital_script(link, NGX_HTTP_WQ_SCRIPT_seat_unlock,
                                         words.argv, NGX_HTTP_WQ_SEAT_KEYS,
                                         NGX_HTTP_WQ_SEAT_ARGV, to);
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


static void
ngx_http_wq_seat_words(ngx_http_wq_seat_words_t *words,
    const wq_keyspace_t *keyspace, const ngx_http_wq_seat_call_t *seat)
{
    u_char     *p;
    ngx_str_t  *argv;

    argv = words->argv;

    argv[0] = ngx_http_wq_key(words->keys[0], keyspace, WQ_KEY_SEAT_LOCK,
                              &seat->event, &seat->seat);
    argv[1] = ngx_http_wq_key(words->keys[1], keyspace, WQ_KEY_SEAT_LINE,
                              &seat->event, &seat->seat);
    argv[2] = ngx_http_wq_key(words->keys[2], keyspace, WQ_KEY_ENTRY,
                              &seat->event, NULL);

    argv[3] = seat->event;
    argv[4] = seat->seat;
    argv[5] = seat->instance;

    p = words->numbers[0];
    argv[6].data = p;
    argv[6].len = ngx_sprintf(p, "%uL", seat->number) - p;

    p = words->numbers[1];
    argv[7].data = p;
    argv[7].len = ngx_sprintf(p, "%M", seat->wait) - p;

    p = words->numbers[2];
    argv[8].data = p;
    argv[8].len = ngx_sprintf(p, "%M", seat->lease) - p;
}
