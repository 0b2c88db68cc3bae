
/* redis: what the scripts of one event answer */


#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_http_wq_event_commands.h"

#include "wq_id.h"


/* further ones are left unread */
#define NGX_HTTP_WQ_FIGURES_MAX  64


static ngx_uint_t ngx_http_wq_join_is(const ngx_http_wq_join_reply_t *reply,
    const char *word);
static ngx_int_t ngx_http_wq_decode_figures(ngx_http_wq_link_t *link,
    const char *what, wq_reply_t array, ngx_http_wq_figures_t *figures);


static const wq_field_t  ngx_http_wq_join_fields[] = {

    { "status", WQ_FIELD_STRING, 0, 1, 32,
      offsetof(ngx_http_wq_join_reply_t, word) },

    { "idx", WQ_FIELD_INTEGER, 1, 0, INT64_MAX,
      offsetof(ngx_http_wq_join_reply_t, idx) },

    { "rank", WQ_FIELD_INTEGER, 1, 0, INT64_MAX,
      offsetof(ngx_http_wq_join_reply_t, rank) },

    { "total", WQ_FIELD_INTEGER, 0, 0, INT64_MAX,
      offsetof(ngx_http_wq_join_reply_t, total) },

    { "promoted", WQ_FIELD_INTEGER, 0, 0, INT64_MAX,
      offsetof(ngx_http_wq_join_reply_t, promoted) },

    { "gone", WQ_FIELD_INTEGER, 0, 0, INT64_MAX,
      offsetof(ngx_http_wq_join_reply_t, gone) },

    { "joined", WQ_FIELD_INTEGER, 0, 0, INT64_MAX,
      offsetof(ngx_http_wq_join_reply_t, joined) },

    { "token", WQ_FIELD_STRING, 1, 1, WQ_TOKEN_LEN,
      offsetof(ngx_http_wq_join_reply_t, token) },

    { "lease", WQ_FIELD_INTEGER, 1, 0, INT64_MAX,
      offsetof(ngx_http_wq_join_reply_t, expires) },

    { "previous instance", WQ_FIELD_STRING, 1, 0, WQ_ID_MAX,
      offsetof(ngx_http_wq_join_reply_t, previous) },

    { "changed", WQ_FIELD_INTEGER, 0, 0, 1,
      offsetof(ngx_http_wq_join_reply_t, changed) },

    { "epoch", WQ_FIELD_STRING, 0, 0, NGX_HTTP_WQ_EPOCH_MAX,
      offsetof(ngx_http_wq_join_reply_t, epoch) },

    { "serial", WQ_FIELD_INTEGER, 0, 0, INT64_MAX,
      offsetof(ngx_http_wq_join_reply_t, serial) },

    { "waited", WQ_FIELD_INTEGER, 0, 0, INT64_MAX,
      offsetof(ngx_http_wq_join_reply_t, waited) },

    { "users of the rate", WQ_FIELD_INTEGER, 0, 0, UINT32_MAX,
      offsetof(ngx_http_wq_join_reply_t, rate_users) },

    { "period of the rate", WQ_FIELD_INTEGER, 0, 0, UINT32_MAX,
      offsetof(ngx_http_wq_join_reply_t, rate_ms) },

    { "halted", WQ_FIELD_INTEGER, 0, 0, 1,
      offsetof(ngx_http_wq_join_reply_t, halted) },

    { "crowded", WQ_FIELD_INTEGER, 0, 0, 1,
      offsetof(ngx_http_wq_join_reply_t, crowded) },

    { "opens", WQ_FIELD_INTEGER, 0, 0, INT64_MAX,
      offsetof(ngx_http_wq_join_reply_t, opens_ms) },

    { "since", WQ_FIELD_INTEGER, 0, 0, INT64_MAX,
      offsetof(ngx_http_wq_join_reply_t, since) },

    { "hold", WQ_FIELD_INTEGER, 0, 0, INT64_MAX,
      offsetof(ngx_http_wq_join_reply_t, hold_ms) }
};


/*
 * In the order of lua/lib/figures.lua; only free slots can be owed.  No script
 * gives more than Lua can count to, and what is computed of them must not
 * overflow.
 */

#define NGX_HTTP_WQ_MOST  ((int64_t) 1 << 53)

#define NGX_HTTP_WQ_FIGURE(name, field, min, max)                             \
    { name, WQ_FIELD_INTEGER, 0, min, max,                                    \
      offsetof(ngx_http_wq_figures_t, field) }

static const wq_field_t  ngx_http_wq_figures_fields[] = {
    NGX_HTTP_WQ_FIGURE("waiting", waiting, 0, NGX_HTTP_WQ_MOST),
    NGX_HTTP_WQ_FIGURE("inside", active, 0, NGX_HTTP_WQ_MOST),
    NGX_HTTP_WQ_FIGURE("free slots", free_slots, -NGX_HTTP_WQ_MOST,
                       NGX_HTTP_WQ_MOST),
    NGX_HTTP_WQ_FIGURE("capacity", capacity, 0, NGX_HTTP_WQ_MOST),
    NGX_HTTP_WQ_FIGURE("sold", sold, 0, NGX_HTTP_WQ_MOST),
    NGX_HTTP_WQ_FIGURE("seats", seats, -NGX_HTTP_WQ_MOST, NGX_HTTP_WQ_MOST),
    NGX_HTTP_WQ_FIGURE("joined", joined, 0, NGX_HTTP_WQ_MOST),
    NGX_HTTP_WQ_FIGURE("direct", direct, 0, NGX_HTTP_WQ_MOST),
    NGX_HTTP_WQ_FIGURE("promoted", promoted, 0, NGX_HTTP_WQ_MOST),
    NGX_HTTP_WQ_FIGURE("entered", entered, 0, NGX_HTTP_WQ_MOST),
    NGX_HTTP_WQ_FIGURE("left", left, 0, NGX_HTTP_WQ_MOST),
    NGX_HTTP_WQ_FIGURE("expired", expired, 0, NGX_HTTP_WQ_MOST),
    NGX_HTTP_WQ_FIGURE("done", done, 0, NGX_HTTP_WQ_MOST),
    NGX_HTTP_WQ_FIGURE("drift", drift, 0, NGX_HTTP_WQ_MOST),
    NGX_HTTP_WQ_FIGURE("users of the rate", rate_users, 0, UINT32_MAX),
    NGX_HTTP_WQ_FIGURE("period of the rate", rate_ms, 0, UINT32_MAX),
    NGX_HTTP_WQ_FIGURE("concurrent", concurrent, 0, NGX_HTTP_WQ_MOST),
    NGX_HTTP_WQ_FIGURE("halted", halted, 0, 1),
    NGX_HTTP_WQ_FIGURE("hold", hold_ms, 0, NGX_HTTP_WQ_MOST),
    NGX_HTTP_WQ_FIGURE("origin", origin, 0, NGX_HTTP_WQ_MOST)
};


static const wq_field_t  ngx_http_wq_leave_fields[] = {

    { "left", WQ_FIELD_INTEGER, 0, 0, 1,
      offsetof(ngx_http_wq_leave_reply_t, left) }
};


static const wq_field_t  ngx_http_wq_release_fields[] = {

    { "released", WQ_FIELD_INTEGER, 0, 0, 1,
      offsetof(ngx_http_wq_release_reply_t, released) },

    { "promoted", WQ_FIELD_INTEGER, 0, 0, INT64_MAX,
      offsetof(ngx_http_wq_release_reply_t, promoted) },

    { "opens", WQ_FIELD_INTEGER, 0, 0, INT64_MAX,
      offsetof(ngx_http_wq_release_reply_t, opens_ms) },

    { "figures", WQ_FIELD_ARRAY, 0, 0, NGX_HTTP_WQ_FIGURES_MAX,
      offsetof(ngx_http_wq_release_reply_t, array) }
};


static const wq_field_t  ngx_http_wq_touch_fields[] = {

    { "good", WQ_FIELD_INTEGER, 0, 0, 1,
      offsetof(ngx_http_wq_touch_reply_t, good) },

    { "lease", WQ_FIELD_INTEGER, 0, 0, INT64_MAX,
      offsetof(ngx_http_wq_touch_reply_t, expires) },

    { "waited", WQ_FIELD_INTEGER, 0, 0, INT64_MAX,
      offsetof(ngx_http_wq_touch_reply_t, waited) },

    { "hold", WQ_FIELD_INTEGER, 0, 0, INT64_MAX,
      offsetof(ngx_http_wq_touch_reply_t, hold_ms) },

    { "idx", WQ_FIELD_INTEGER, 0, 0, INT64_MAX,
      offsetof(ngx_http_wq_touch_reply_t, idx) },

    { "since", WQ_FIELD_INTEGER, 0, 0, INT64_MAX,
      offsetof(ngx_http_wq_touch_reply_t, since) }
};


/* what touch answers, and behind it */

static const wq_field_t  ngx_http_wq_restored_field =
    { "restored", WQ_FIELD_INTEGER, 0, 0, 1, 0 };


static const wq_field_t  ngx_http_wq_restore_event_fields[] = {

    { "restored", WQ_FIELD_INTEGER, 0, 0, 1,
      offsetof(ngx_http_wq_restore_event_reply_t, restored) }
};


static const wq_field_t  ngx_http_wq_quit_fields[] = {

    { "had", WQ_FIELD_INTEGER, 0, 0, 1,
      offsetof(ngx_http_wq_quit_reply_t, had) },

    { "promoted", WQ_FIELD_INTEGER, 0, 0, INT64_MAX,
      offsetof(ngx_http_wq_quit_reply_t, promoted) },

    { "opens", WQ_FIELD_INTEGER, 0, 0, INT64_MAX,
      offsetof(ngx_http_wq_quit_reply_t, opens_ms) },

    { "hold", WQ_FIELD_INTEGER, 0, 0, INT64_MAX,
      offsetof(ngx_http_wq_quit_reply_t, hold_ms) }
};


static const wq_field_t  ngx_http_wq_promote_fields[] = {

    { "promoted", WQ_FIELD_INTEGER, 0, 0, NGX_HTTP_WQ_PROMOTE_BATCH,
      offsetof(ngx_http_wq_promote_reply_t, promoted) },

    { "expired", WQ_FIELD_INTEGER, 0, 0, NGX_HTTP_WQ_PROMOTE_BATCH,
      offsetof(ngx_http_wq_promote_reply_t, expired) },

    { "more", WQ_FIELD_INTEGER, 0, 0, 1,
      offsetof(ngx_http_wq_promote_reply_t, more) },

    { "opens", WQ_FIELD_INTEGER, 0, 0, INT64_MAX,
      offsetof(ngx_http_wq_promote_reply_t, opens_ms) },

    { "figures", WQ_FIELD_ARRAY, 0, 0, NGX_HTTP_WQ_FIGURES_MAX,
      offsetof(ngx_http_wq_promote_reply_t, array) }
};


static const wq_field_t  ngx_http_wq_positions_fields[] = {

    { "reached", WQ_FIELD_INTEGER, 0, 0, INT64_MAX,
      offsetof(ngx_http_wq_positions_reply_t, reached) },

    { "epoch", WQ_FIELD_STRING, 0, 0, NGX_HTTP_WQ_EPOCH_MAX,
      offsetof(ngx_http_wq_positions_reply_t, epoch) },

    { "resync", WQ_FIELD_INTEGER, 0, 0, 1,
      offsetof(ngx_http_wq_positions_reply_t, resync) },

    { "more", WQ_FIELD_INTEGER, 0, 0, 1,
      offsetof(ngx_http_wq_positions_reply_t, more) },

    { "entries", WQ_FIELD_ARRAY, 0, 0, NGX_HTTP_WQ_POSITIONS_BATCH,
      offsetof(ngx_http_wq_positions_reply_t, entries) },

    { "state", WQ_FIELD_STRING, 0, 1, 32,
      offsetof(ngx_http_wq_positions_reply_t, word) },

    { "figures", WQ_FIELD_ARRAY, 0, 0, NGX_HTTP_WQ_FIGURES_MAX,
      offsetof(ngx_http_wq_positions_reply_t, array) }
};


static const wq_field_t  ngx_http_wq_entry_field =
    { "entry", WQ_FIELD_INTEGER, 0, INT64_MIN + 1, INT64_MAX, 0 };


static const wq_field_t  ngx_http_wq_ranks_fields[] = {

    { "total", WQ_FIELD_INTEGER, 0, 0, INT64_MAX,
      offsetof(ngx_http_wq_ranks_reply_t, total) },

    { "promoted", WQ_FIELD_INTEGER, 0, 0, INT64_MAX,
      offsetof(ngx_http_wq_ranks_reply_t, promoted) },

    { "gone", WQ_FIELD_INTEGER, 0, 0, INT64_MAX,
      offsetof(ngx_http_wq_ranks_reply_t, gone) },

    { "joined", WQ_FIELD_INTEGER, 0, 0, INT64_MAX,
      offsetof(ngx_http_wq_ranks_reply_t, joined) },

    { "epoch", WQ_FIELD_STRING, 0, 0, NGX_HTTP_WQ_EPOCH_MAX,
      offsetof(ngx_http_wq_ranks_reply_t, epoch) },

    { "ranks", WQ_FIELD_ARRAY, 0, 0, NGX_HTTP_WQ_RANKS_BATCH,
      offsetof(ngx_http_wq_ranks_reply_t, ranks) }
};


static const wq_field_t  ngx_http_wq_rank_field =
    { "rank", WQ_FIELD_INTEGER, 0, -1, INT64_MAX, 0 };


static const wq_field_t  ngx_http_wq_reap_fields[] = {

    { "cursor", WQ_FIELD_STRING, 0, 0, NGX_HTTP_WQ_CURSOR_MAX,
      offsetof(ngx_http_wq_reap_reply_t, cursor) },

    { "left", WQ_FIELD_INTEGER, 0, 0, INT64_MAX,
      offsetof(ngx_http_wq_reap_reply_t, left) },

    { "released", WQ_FIELD_INTEGER, 0, 0, INT64_MAX,
      offsetof(ngx_http_wq_reap_reply_t, released) },

    { "wait", WQ_FIELD_INTEGER, 0, 0, INT64_MAX,
      offsetof(ngx_http_wq_reap_reply_t, wait_ms) }
};


ngx_int_t
ngx_http_wq_decode_join(ngx_http_wq_link_t *link,
    ngx_http_wq_result_t *result, ngx_http_wq_join_reply_t *reply)
{
    ngx_uint_t  in_line;

    if (ngx_http_wq_decode_reply(link, result, "join", ngx_http_wq_join_fields,
                                 sizeof(ngx_http_wq_join_fields)
                                 / sizeof(wq_field_t), reply)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    reply->status = wq_status_parse(reply->word.data, reply->word.len);

    /* who waits has a place, who is in has a token */

    in_line = (reply->idx >= 0 && reply->rank >= 0);

    switch (reply->status) {

    case WQ_STATUS_WAITING:
        if (in_line) {
            return NGX_OK;
        }
        break;

    case WQ_STATUS_READY:
    case WQ_STATUS_ENTERED:
        if (reply->token.len == WQ_TOKEN_LEN
            && wq_id_check(reply->token.data, reply->token.len) == WQ_OK
            && reply->expires >= 0)
        {
            return NGX_OK;
        }
        break;

    case WQ_STATUS_SOLD_OUT:
    case WQ_STATUS_CLOSED:
    case WQ_STATUS_FULL:
    case WQ_STATUS_NONE:
        return NGX_OK;

    default:
        if (ngx_http_wq_join_is(reply, "unknown")) {
            reply->status = NGX_HTTP_WQ_JOIN_UNKNOWN;
            return NGX_OK;
        }

        if (ngx_http_wq_join_is(reply, "replaced")) {
            reply->status = NGX_HTTP_WQ_JOIN_REPLACED;
            return NGX_OK;
        }
        break;
    }

    ngx_http_wq_trouble_bad_reply(link, "join", "status");

    return NGX_ERROR;
}


static ngx_uint_t
ngx_http_wq_join_is(const ngx_http_wq_join_reply_t *reply, const char *word)
{
    size_t  len;

    len = ngx_strlen(word);

    return reply->word.len == len
           && ngx_strncmp(reply->word.data, word, len) == 0;
}


ngx_int_t
ngx_http_wq_decode_leave(ngx_http_wq_link_t *link,
    ngx_http_wq_result_t *result, ngx_http_wq_leave_reply_t *reply)
{
    return ngx_http_wq_decode_reply(link, result, "leave",
                                    ngx_http_wq_leave_fields,
                                    sizeof(ngx_http_wq_leave_fields)
                                    / sizeof(wq_field_t), reply);
}


ngx_int_t
ngx_http_wq_decode_release(ngx_http_wq_link_t *link,
    ngx_http_wq_result_t *result, ngx_http_wq_release_reply_t *reply)
{
    if (ngx_http_wq_decode_reply(link, result, "release",
                                 ngx_http_wq_release_fields,
                                 sizeof(ngx_http_wq_release_fields)
                                 / sizeof(wq_field_t), reply)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    return ngx_http_wq_decode_figures(link, "release", reply->array,
                                      &reply->figures);
}


ngx_int_t
ngx_http_wq_decode_touch(ngx_http_wq_link_t *link,
    ngx_http_wq_result_t *result, ngx_http_wq_touch_reply_t *reply)
{
    return ngx_http_wq_decode_reply(link, result, "touch",
                                    ngx_http_wq_touch_fields,
                                    sizeof(ngx_http_wq_touch_fields)
                                    / sizeof(wq_field_t), reply);
}


ngx_int_t
ngx_http_wq_decode_restore_lease(ngx_http_wq_link_t *link,
    ngx_http_wq_result_t *result, ngx_http_wq_restore_lease_reply_t *reply)
{
    const size_t  n = sizeof(ngx_http_wq_touch_fields) / sizeof(wq_field_t);

    if (ngx_http_wq_decode_touch(link, result, &reply->touch) != NGX_OK) {
        return NGX_ERROR;
    }

    if (wq_reply_decode_value(wq_reply_element(result->reply, n),
                              &ngx_http_wq_restored_field, &reply->restored)
        != WQ_OK)
    {
        ngx_http_wq_trouble_bad_reply(link, "restore_lease", "restored");
        return NGX_ERROR;
    }

    return NGX_OK;
}


ngx_int_t
ngx_http_wq_decode_restore_event(ngx_http_wq_link_t *link,
    ngx_http_wq_result_t *result, ngx_http_wq_restore_event_reply_t *reply)
{
    return ngx_http_wq_decode_reply(link, result, "restore_event",
                                    ngx_http_wq_restore_event_fields,
                                    sizeof(ngx_http_wq_restore_event_fields)
                                    / sizeof(wq_field_t), reply);
}


ngx_int_t
ngx_http_wq_decode_quit(ngx_http_wq_link_t *link,
    ngx_http_wq_result_t *result, ngx_http_wq_quit_reply_t *reply)
{
    return ngx_http_wq_decode_reply(link, result, "quit",
                                    ngx_http_wq_quit_fields,
                                    sizeof(ngx_http_wq_quit_fields)
                                    / sizeof(wq_field_t), reply);
}


ngx_int_t
ngx_http_wq_decode_promote(ngx_http_wq_link_t *link,
    ngx_http_wq_result_t *result, ngx_http_wq_promote_reply_t *reply)
{
    if (ngx_http_wq_decode_reply(link, result, "promote",
                                 ngx_http_wq_promote_fields,
                                 sizeof(ngx_http_wq_promote_fields)
                                 / sizeof(wq_field_t), reply)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    return ngx_http_wq_decode_figures(link, "promote", reply->array,
                                      &reply->figures);
}


static ngx_int_t
ngx_http_wq_decode_figures(ngx_http_wq_link_t *link, const char *what,
    wq_reply_t array, ngx_http_wq_figures_t *figures)
{
    const char  *bad;

    if (wq_reply_decode(array, ngx_http_wq_figures_fields,
                        sizeof(ngx_http_wq_figures_fields)
                        / sizeof(wq_field_t), figures, &bad)
        == WQ_OK)
    {
        return NGX_OK;
    }

    ngx_http_wq_trouble_bad_reply(link, what, bad);

    return NGX_ERROR;
}


ngx_int_t
ngx_http_wq_decode_positions(ngx_http_wq_link_t *link,
    ngx_http_wq_result_t *result, ngx_http_wq_positions_reply_t *reply)
{
    if (ngx_http_wq_decode_reply(link, result, "positions",
                                 ngx_http_wq_positions_fields,
                                 sizeof(ngx_http_wq_positions_fields)
                                 / sizeof(wq_field_t), reply)
        != NGX_OK
        || ngx_http_wq_decode_figures(link, "positions", reply->array,
                                      &reply->figures)
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    switch (wq_status_parse(reply->word.data, reply->word.len)) {

    case WQ_STATUS_CLOSED:
        reply->state = NGX_HTTP_WQ_EVENT_CLOSED;
        break;

    case WQ_STATUS_SOLD_OUT:
        reply->state = NGX_HTTP_WQ_EVENT_SOLD_OUT;
        break;

    default:
        reply->state = NGX_HTTP_WQ_EVENT_OPEN;
    }

    return NGX_OK;
}


ngx_int_t
ngx_http_wq_decode_positions_entry(const ngx_http_wq_positions_reply_t *reply,
    ngx_uint_t i, int64_t *entry)
{
    return wq_reply_decode_value(wq_reply_element(reply->entries, i),
                                 &ngx_http_wq_entry_field, entry)
           == WQ_OK ? NGX_OK : NGX_ERROR;
}


ngx_int_t
ngx_http_wq_decode_ranks(ngx_http_wq_link_t *link,
    ngx_http_wq_result_t *result, ngx_http_wq_ranks_reply_t *reply)
{
    return ngx_http_wq_decode_reply(link, result, "ranks",
                                    ngx_http_wq_ranks_fields,
                                    sizeof(ngx_http_wq_ranks_fields)
                                    / sizeof(wq_field_t), reply);
}


ngx_int_t
ngx_http_wq_decode_rank(const ngx_http_wq_ranks_reply_t *reply, ngx_uint_t i,
    int64_t *rank)
{
    return wq_reply_decode_value(wq_reply_element(reply->ranks, i),
                                 &ngx_http_wq_rank_field, rank)
           == WQ_OK ? NGX_OK : NGX_ERROR;
}


ngx_int_t
ngx_http_wq_decode_reap(ngx_http_wq_link_t *link,
    ngx_http_wq_result_t *result, ngx_http_wq_reap_reply_t *reply)
{
    return ngx_http_wq_decode_reply(link, result, "reap",
                                    ngx_http_wq_reap_fields,
                                    sizeof(ngx_http_wq_reap_fields)
                                    / sizeof(wq_field_t), reply);
}
