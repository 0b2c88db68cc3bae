
/*
 * http: who asks, and for which event.
 *
 * The ids come from variables (`waiting_queue_event`, `waiting_queue_user`) or,
 * for the user, from a cookie that the module issues.  Whatever they are, they
 * are checked before anything else sees them.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include <openssl/rand.h>

#include "ngx_http_wq_http.h"


#define NGX_HTTP_WQ_UID_COOKIE  "wq_uid"
#define NGX_HTTP_WQ_UID_LEN     32          /* 128 bits in hexadecimal */

/* before a client that has just got its cookie comes again with it */
#define NGX_HTTP_WQ_UID_EVENT   "retry: 1000\n: come again with the cookie\n\n"


static ngx_int_t ngx_http_wq_find_cookie(ngx_http_request_t *r,
    ngx_str_t *value);
static ngx_int_t ngx_http_wq_issue_cookie(ngx_http_request_t *r);


ngx_int_t
ngx_http_wq_get_event(ngx_http_request_t *r, ngx_str_t *event, ngx_int_t *rc)
{
    ngx_http_wq_loc_conf_t  *lcf;

    lcf = ngx_http_get_module_loc_conf(r, ngx_http_waiting_queue_module);

    if (ngx_http_complex_value(r, lcf->event, event) != NGX_OK) {
        *rc = NGX_HTTP_INTERNAL_SERVER_ERROR;
        return NGX_DECLINED;
    }

    if (wq_id_check(event->data, event->len) == WQ_OK) {
        return NGX_OK;
    }

    *rc = ngx_http_wq_send_error(r, NGX_HTTP_BAD_REQUEST, "bad_event_id",
                                 "an event id is 1 to 128 of "
                                 "A-Z a-z 0-9 . _ ~ @ : -");
    return NGX_DECLINED;
}


ngx_int_t
ngx_http_wq_get_user(ngx_http_request_t *r, ngx_str_t *user, ngx_int_t *rc)
{
    ngx_http_wq_loc_conf_t  *lcf;

    lcf = ngx_http_get_module_loc_conf(r, ngx_http_waiting_queue_module);

    if (lcf->user == NULL) {

        if (ngx_http_wq_get_cookie_user(r, user) == NGX_OK) {
            return NGX_OK;
        }

        *rc = ngx_http_wq_issue_cookie(r);
        return NGX_DECLINED;
    }

    if (ngx_http_complex_value(r, lcf->user, user) != NGX_OK) {
        *rc = NGX_HTTP_INTERNAL_SERVER_ERROR;
        return NGX_DECLINED;
    }

    switch (wq_id_check(user->data, user->len)) {

    case WQ_OK:
        return NGX_OK;

    case WQ_EMPTY:
        *rc = ngx_http_wq_send_error(r, NGX_HTTP_UNAUTHORIZED,
                                     "user_required",
                                     "the waiting room does not know who "
                                     "you are");
        return NGX_DECLINED;

    default:
        *rc = ngx_http_wq_send_error(r, NGX_HTTP_BAD_REQUEST, "bad_user_id",
                                     "a user id is 1 to 128 of "
                                     "A-Z a-z 0-9 . _ ~ @ : -");
        return NGX_DECLINED;
    }
}


ngx_int_t
ngx_http_wq_get_cookie_user(ngx_http_request_t *r, ngx_str_t *user)
{
    size_t  i;

    if (ngx_http_wq_find_cookie(r, user) != NGX_OK
        || user->len != NGX_HTTP_WQ_UID_LEN)
    {
        return NGX_DECLINED;
    }

    for (i = 0; i < user->len; i++) {
        if ((user->data[i] < '0' || user->data[i] > '9')
            && (user->data[i] < 'a' || user->data[i] > 'f'))
        {
            return NGX_DECLINED;
        }
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_wq_find_cookie(ngx_http_request_t *r, ngx_str_t *value)
{
    ngx_str_t  name = ngx_string(NGX_HTTP_WQ_UID_COOKIE);

#if (nginx_version >= 1023000)

    return ngx_http_parse_multi_header_lines(r, r->headers_in.cookie, &name,
                                             value)
           ? NGX_OK : NGX_DECLINED;

#else

    return ngx_http_parse_multi_header_lines(&r->headers_in.cookies, &name,
                                             value)
           != NGX_DECLINED ? NGX_OK : NGX_DECLINED;

#endif
}


/*
 * Who does not return the cookie never takes a place: it is issued on a stream
 * that ends at once, and an EventSource comes again with it.
 */

static ngx_int_t
ngx_http_wq_issue_cookie(ngx_http_request_t *r)
{
    size_t       len;
    u_char      *cookie, *p;
    u_char       random[NGX_HTTP_WQ_UID_LEN / 2];
    ngx_buf_t   *b;
    ngx_uint_t   secure;

    if (RAND_bytes(random, sizeof(random)) != 1) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

#if (NGX_HTTP_SSL)
    secure = (r->connection->ssl != NULL);
#else
    secure = 0;
#endif

    len = sizeof(NGX_HTTP_WQ_UID_COOKIE "=; Path=/; HttpOnly; SameSite=Lax"
                 "; Secure")
          + NGX_HTTP_WQ_UID_LEN;

    cookie = ngx_pnalloc(r->pool, len);
    if (cookie == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    p = ngx_cpymem(cookie, NGX_HTTP_WQ_UID_COOKIE "=",
                   sizeof(NGX_HTTP_WQ_UID_COOKIE "=") - 1);
    p = ngx_hex_dump(p, random, sizeof(random));
    (void) ngx_sprintf(p, "; Path=/; HttpOnly; SameSite=Lax%s%Z",
                       secure ? "; Secure" : "");

    if (ngx_http_wq_add_header(r, "Set-Cookie", (char *) cookie) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    b = ngx_create_temp_buf(r->pool, sizeof(NGX_HTTP_WQ_UID_EVENT) - 1);
    if (b == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    b->last = ngx_cpymem(b->last, NGX_HTTP_WQ_UID_EVENT,
                         sizeof(NGX_HTTP_WQ_UID_EVENT) - 1);

    return ngx_http_wq_send_stream(r, b);
}
