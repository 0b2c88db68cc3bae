
/*
 * http: the cookies of a visitor.
 *
 *   wq_uid             who it is, where no `waiting_queue_user` says it: 128
 *                      random bits, which nobody else can know
 *   wq_<crc32(event)>  the token of an event, good only with its user
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include <openssl/rand.h>

#include "ngx_http_wq_http.h"

#include "wq_cookie.h"


#define NGX_HTTP_WQ_COOKIE_USER        "wq_uid"
#define NGX_HTTP_WQ_COOKIE_USER_LEN    32       /* in hexadecimal */

/* wq_xxxxxxxx */
#define NGX_HTTP_WQ_COOKIE_TOKEN_NAME  11

#define NGX_HTTP_WQ_COOKIE_ATTRIBUTES  "; Path=/; HttpOnly; SameSite=Lax"


static ngx_int_t ngx_http_wq_cookie_find(ngx_http_request_t *r,
    const ngx_str_t *name, size_t len, ngx_str_t *value);
static ngx_int_t ngx_http_wq_cookie_set(ngx_http_request_t *r,
    const ngx_str_t *name, const ngx_str_t *value);
static ngx_str_t ngx_http_wq_cookie_token_name(u_char *buf,
    const ngx_str_t *event);
static ngx_int_t ngx_http_wq_cookie_fetched(ngx_http_request_t *r,
    const char *name, const char *word);


ngx_int_t
ngx_http_wq_cookie_user(ngx_http_request_t *r, ngx_str_t *user)
{
    ngx_str_t  name = ngx_string(NGX_HTTP_WQ_COOKIE_USER);

    return ngx_http_wq_cookie_find(r, &name, NGX_HTTP_WQ_COOKIE_USER_LEN,
                                   user);
}


ngx_int_t
ngx_http_wq_cookie_new_user(ngx_http_request_t *r, ngx_str_t *user)
{
    u_char  random[NGX_HTTP_WQ_COOKIE_USER_LEN / 2];

    if (RAND_bytes(random, sizeof(random)) != 1) {
        return NGX_ERROR;
    }

    user->len = NGX_HTTP_WQ_COOKIE_USER_LEN;
    user->data = ngx_pnalloc(r->pool, user->len);

    if (user->data == NULL) {
        return NGX_ERROR;
    }

    ngx_hex_dump(user->data, random, sizeof(random));

    return NGX_OK;
}


ngx_int_t
ngx_http_wq_cookie_set_user(ngx_http_request_t *r, const ngx_str_t *user)
{
    ngx_str_t  name = ngx_string(NGX_HTTP_WQ_COOKIE_USER);

    return ngx_http_wq_cookie_set(r, &name, user);
}


void
ngx_http_wq_cookie_token(ngx_http_request_t *r, const ngx_str_t *event,
    ngx_str_t *token)
{
    u_char     buf[NGX_HTTP_WQ_COOKIE_TOKEN_NAME];
    ngx_str_t  name;

    name = ngx_http_wq_cookie_token_name(buf, event);

    if (ngx_http_wq_cookie_find(r, &name, WQ_TOKEN_LEN, token) != NGX_OK) {
        ngx_str_null(token);
    }
}


ngx_int_t
ngx_http_wq_cookie_set_token(ngx_http_request_t *r, const ngx_str_t *event,
    const ngx_str_t *token)
{
    u_char     buf[NGX_HTTP_WQ_COOKIE_TOKEN_NAME];
    ngx_str_t  name;

    name = ngx_http_wq_cookie_token_name(buf, event);

    return ngx_http_wq_cookie_set(r, &name, token);
}


/*
 * NGX_OK, or NGX_DECLINED if the first of that name, in however many headers,
 * is not hexadecimal of that length, or there is none.
 */

static ngx_int_t
ngx_http_wq_cookie_find(ngx_http_request_t *r, const ngx_str_t *name,
    size_t len, ngx_str_t *value)
{
    wq_str_t          wanted, found;
    ngx_uint_t        i;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *header;

    static const ngx_str_t  cookie = ngx_string("cookie");

    wanted.len = name->len;
    wanted.data = name->data;

    part = &r->headers_in.headers.part;
    i = 0;

    while ((header = ngx_http_wq_next_header(&part, &i, &cookie))) {

        if (wq_cookie_find(header->value.data, header->value.len, &wanted,
                           &found)
            != WQ_OK)
        {
            continue;
        }

        value->len = found.len;
        value->data = found.data;

        return wq_cookie_is_hex(found.data, found.len, len) ? NGX_OK
                                                            : NGX_DECLINED;
    }

    return NGX_DECLINED;
}


/* an empty value removes the cookie */

static ngx_int_t
ngx_http_wq_cookie_set(ngx_http_request_t *r, const ngx_str_t *name,
    const ngx_str_t *value)
{
    size_t       len;
    u_char      *cookie;
    ngx_uint_t   secure;

#if (NGX_HTTP_SSL)
    secure = (r->connection->ssl != NULL);
#else
    secure = 0;
#endif

    if (ngx_http_wq_cookie_is_withheld(r)) {
        /* it would take the place of the one that was kept back */
        return NGX_OK;
    }

    len = name->len + value->len
          + sizeof("=; Max-Age=0" NGX_HTTP_WQ_COOKIE_ATTRIBUTES "; Secure");

    cookie = ngx_pnalloc(r->pool, len);
    if (cookie == NULL) {
        return NGX_ERROR;
    }

    (void) ngx_sprintf(cookie, "%V=%V%s%s%s%Z", name, value,
                       value->len ? "" : "; Max-Age=0",
                       NGX_HTTP_WQ_COOKIE_ATTRIBUTES,
                       secure ? "; Secure" : "");

    return ngx_http_wq_add_header(r, "Set-Cookie", (char *) cookie);
}


/* the events of one site have their tokens side by side */

static ngx_str_t
ngx_http_wq_cookie_token_name(u_char *buf, const ngx_str_t *event)
{
    ngx_str_t  name;

    name.data = buf;
    name.len = ngx_sprintf(buf, "wq_%08xD",
                           ngx_crc32_short(event->data, event->len))
               - buf;

    return name;
}


/*
 * SameSite=Lax: with a request that a page of another site has made go no
 * cookies, unless it leads the whole window there, and by a safe method.  No
 * page can make these headers; a browser that does not know them sends none,
 * nor does any without TLS.
 */

ngx_uint_t
ngx_http_wq_cookie_is_withheld(ngx_http_request_t *r)
{
    if (ngx_http_wq_cookie_fetched(r, "sec-fetch-site", "cross-site")
        != NGX_OK)
    {
        return 0;
    }

    return !(r->method & (NGX_HTTP_GET|NGX_HTTP_HEAD))
           || ngx_http_wq_cookie_fetched(r, "sec-fetch-mode", "navigate")
              == NGX_ABORT
           || ngx_http_wq_cookie_fetched(r, "sec-fetch-dest", "document")
              == NGX_ABORT;
}


/* NGX_OK: the header says this word, NGX_ABORT: another; or NGX_DECLINED */

static ngx_int_t
ngx_http_wq_cookie_fetched(ngx_http_request_t *r, const char *name,
    const char *word)
{
    ngx_str_t         lowcase;
    ngx_table_elt_t  *header;

    lowcase.len = ngx_strlen(name);
    lowcase.data = (u_char *) name;

    header = ngx_http_wq_find_header(&r->headers_in.headers, &lowcase);

    if (header == NULL) {
        return NGX_DECLINED;
    }

    return header->value.len == ngx_strlen(word)
           && ngx_strncmp(header->value.data, word, header->value.len) == 0
           ? NGX_OK : NGX_ABORT;
}
