
/*
 * redis: what is wrong with a link.
 *
 * Trouble begins with the first sign and ends when a command has worked, not
 * when a connection was made: a Redis that lets everybody in and serves nobody
 * would else be asked at full speed, and fill the log.  In between each kind
 * of trouble is logged once.
 */


#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_http_wq_link.h"
#include "ngx_http_wq_operation.h"


/* how much of a text of Redis' is logged */
#define NGX_HTTP_WQ_TROUBLE_TEXT  256


static ngx_str_t ngx_http_wq_trouble_text(const ngx_str_t *text, u_char *buf);


static const char  *ngx_http_wq_trouble_names[] = {
#define WQ_X(constant, name)  name,
    NGX_HTTP_WQ_TROUBLES(WQ_X)
#undef WQ_X
};


const char *
ngx_http_wq_trouble_name(ngx_uint_t trouble)
{
    return trouble < NGX_HTTP_WQ_TROUBLE_REDIS
           ? ngx_http_wq_trouble_names[trouble]
           : wq_redis_error_name(trouble - NGX_HTTP_WQ_TROUBLE_REDIS);
}


void
ngx_http_wq_trouble_begin(ngx_http_wq_link_t *link, ngx_uint_t trouble,
    const ngx_str_t *text, const char *what)
{
    u_char     buf[NGX_HTTP_WQ_TROUBLE_TEXT];
    uint64_t   bit;
    ngx_str_t  said;

    if (link->trouble == NGX_HTTP_WQ_TROUBLE_NONE) {
        link->trouble_start = ngx_current_msec;
    }

    link->trouble = trouble;
    wq_counter_set(link->slot->trouble, trouble);

    bit = (uint64_t) 1 << trouble;

    if (link->stopped || (link->logged & bit)) {
        return;
    }

    link->logged |= bit;

    said = ngx_http_wq_trouble_text(text, buf);

    ngx_log_error(NGX_LOG_ERR, link->log, 0,
                  "waiting_queue: redis %s link %s: %s (%V)%s%V",
                  link->name, what, ngx_http_wq_trouble_name(trouble),
                  &ngx_http_wq_connect_address(link)->text,
                  said.len ? ": " : "", &said);
}


void
ngx_http_wq_trouble_end(ngx_http_wq_link_t *link, ngx_uint_t script)
{
    wq_backoff_reset(&link->backoff);

    link->tried = 0;

    if (link->trouble == NGX_HTTP_WQ_TROUBLE_NONE) {

        if (link->attempts) {
            ngx_log_error(NGX_LOG_NOTICE, link->log, 0,
                          "waiting_queue: redis %s link is up (%V)",
                          link->name,
                          &ngx_http_wq_connect_address(link)->text);
            link->attempts = 0;
        }

        return;
    }

    if (link->trouble_script != NGX_HTTP_WQ_NO_SCRIPT
        && link->trouble_script != script)
    {
        return;
    }

    ngx_log_error(NGX_LOG_NOTICE, link->log, 0,
                  "waiting_queue: redis %s link is well again (%V): "
                  "\"%s\" lasted %M ms, %ui tries",
                  link->name, &ngx_http_wq_connect_address(link)->text,
                  ngx_http_wq_trouble_name(link->trouble),
                  ngx_current_msec - link->trouble_start, link->attempts);

    link->attempts = 0;
    link->logged = 0;
    link->trouble = NGX_HTTP_WQ_TROUBLE_NONE;
    link->trouble_script = NGX_HTTP_WQ_NO_SCRIPT;

    wq_counter_set(link->slot->trouble, NGX_HTTP_WQ_TROUBLE_NONE);
}


void
ngx_http_wq_trouble_complain(ngx_http_wq_link_t *link, wq_redis_error_e error,
    ngx_uint_t script, const ngx_str_t *text)
{
    u_char     buf[NGX_HTTP_WQ_TROUBLE_TEXT];
    ngx_str_t  said;

    switch (error) {

    case WQ_REDIS_ERROR_OOM:
    case WQ_REDIS_ERROR_MISCONF:
    case WQ_REDIS_ERROR_NOREPLICAS:
    case WQ_REDIS_ERROR_NOPERM:

        if (link->trouble_script == NGX_HTTP_WQ_NO_SCRIPT) {
            link->trouble_script = script;
            ngx_http_wq_trouble_begin(link, NGX_HTTP_WQ_TROUBLE_REDIS + error,
                                      text, "is refused commands");
        }

        return;

    case WQ_REDIS_ERROR_NOGROUP:
    case WQ_REDIS_ERROR_BUSYGROUP:
    case WQ_REDIS_ERROR_UNBLOCKED:
        /* this is how the reader of a stream learns what is there */
        return;

    default:
        break;
    }

    /* the state of one key, say: it may come with every request */

    if (ngx_http_wq_may_complain(&link->complained)) {

        said = ngx_http_wq_trouble_text(text, buf);

        ngx_log_error(NGX_LOG_ERR, link->log, 0,
                      "waiting_queue: redis answered with an error "
                      "(further ones within %d s are not logged): %V",
                      NGX_HTTP_WQ_COMPLAIN / 1000, &said);
    }
}


void
ngx_http_wq_trouble_bad_reply(ngx_http_wq_link_t *link, const char *call,
    const char *field)
{
    wq_counter_add(link->slot->counters.bad_replies, 1);

    if (ngx_http_wq_may_complain(&link->complained)) {
        ngx_log_error(NGX_LOG_ERR, link->log, 0,
                      "waiting_queue: redis gave \"%s\" a bad answer: field "
                      "\"%s\" (further ones within %d s are not logged)",
                      call, field, NGX_HTTP_WQ_COMPLAIN / 1000);
    }
}


ngx_uint_t
ngx_http_wq_may_complain(ngx_msec_t *last)
{
    if (*last && ngx_current_msec - *last < NGX_HTTP_WQ_COMPLAIN) {
        return 0;
    }

    *last = ngx_current_msec;

    return 1;
}


/* cut to the size of buf, and nothing in it that could forge a line */

static ngx_str_t
ngx_http_wq_trouble_text(const ngx_str_t *text, u_char *buf)
{
    size_t     i;
    ngx_str_t  said;

    said.data = buf;
    said.len = text ? ngx_min(text->len, NGX_HTTP_WQ_TROUBLE_TEXT) : 0;

    for (i = 0; i < said.len; i++) {
        buf[i] = text->data[i];

        if (buf[i] < ' ' || buf[i] > '~') {
            buf[i] = '?';
        }
    }

    return said;
}
