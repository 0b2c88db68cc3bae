
/*
 * http: the waiting page, `waiting_queue_page`.
 *
 * A template (core/wq_page.h), read with the configuration: a visitor never
 * waits for a disk, and what is wrong with it is found by nginx -t.  The page
 * that is built in comes from conf/waiting.html.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include <openssl/evp.h>

#include "ngx_http_wq_http.h"
#include "ngx_http_wq_page_generated.h"

#include "wq_language.h"


#define NGX_HTTP_WQ_PAGE_MAX      (1024 * 1024)

/* of a SHA-256, in base64 */
#define NGX_HTTP_WQ_PAGE_SHA_LEN  44


static ngx_int_t ngx_http_wq_page_read(ngx_conf_t *cf, ngx_str_t *file,
    ngx_str_t *text);
static ngx_int_t ngx_http_wq_page_policy(ngx_conf_t *cf,
    const ngx_str_t *text, ngx_str_t *policy);
static ngx_int_t ngx_http_wq_page_hash(const ngx_str_t *text,
    const char *open, const char *close, u_char *hash);
static u_char *ngx_http_wq_page_number(u_char *p, wq_str_t *value, int64_t n);


static const ngx_str_t  ngx_http_wq_page_type =
    ngx_string("text/html; charset=utf-8");


static const wq_str_t  ngx_http_wq_page_languages[] = {
    { 2, (u_char *) "en" },
    { 2, (u_char *) "ko" },
    { 2, (u_char *) "ja" }
};


ngx_http_wq_page_t *
ngx_http_wq_page_create(ngx_conf_t *cf, ngx_str_t *file)
{
    ngx_str_t            text, name;
    wq_str_t             wrong;
    ngx_http_wq_page_t  *page;

    page = ngx_pcalloc(cf->pool, sizeof(ngx_http_wq_page_t));
    if (page == NULL) {
        return NULL;
    }

    if (file) {
        if (ngx_http_wq_page_read(cf, file, &text) != NGX_OK) {
            return NULL;
        }

    } else {
        text.data = ngx_http_wq_page_text;
        text.len = sizeof(ngx_http_wq_page_text);

        if (ngx_http_wq_page_policy(cf, &text, &page->policy) != NGX_OK) {
            return NULL;
        }
    }

    if (wq_page_count(text.data, text.len, &page->nparts, &wrong) != WQ_OK) {
        name.len = wrong.len;
        name.data = (u_char *) wrong.data;

        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"waiting_queue_page\" directive: there is no "
                           "value \"%V\"", &name);
        return NULL;
    }

    page->parts = ngx_palloc(cf->pool,
                             (page->nparts + 1) * sizeof(wq_page_part_t));
    if (page->parts == NULL) {
        return NULL;
    }

    wq_page_parse(text.data, text.len, page->parts);

    return page;
}


static ngx_int_t
ngx_http_wq_page_read(ngx_conf_t *cf, ngx_str_t *file, ngx_str_t *text)
{
    off_t             size;
    ssize_t           n;
    ngx_file_t        f;
    ngx_file_info_t   info;

    if (ngx_conf_full_name(cf->cycle, file, 1) != NGX_OK) {
        return NGX_ERROR;
    }

    ngx_memzero(&f, sizeof(ngx_file_t));

    f.name = *file;
    f.log = cf->log;
    f.fd = ngx_open_file(file->data, NGX_FILE_RDONLY, NGX_FILE_OPEN, 0);

    if (f.fd == NGX_INVALID_FILE) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, ngx_errno,
                           "\"waiting_queue_page\" directive: cannot open "
                           "\"%V\"", file);
        return NGX_ERROR;
    }

    n = NGX_ERROR;

    if (ngx_fd_info(f.fd, &info) == NGX_FILE_ERROR || !ngx_is_file(&info)) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"waiting_queue_page\" directive: \"%V\" is not a "
                           "file", file);
        goto done;
    }

    size = ngx_file_size(&info);

    if (size == 0 || size > NGX_HTTP_WQ_PAGE_MAX) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"waiting_queue_page\" directive: \"%V\" is empty "
                           "or larger than 1m", file);
        goto done;
    }

    text->len = (size_t) size;
    text->data = ngx_pnalloc(cf->pool, text->len);

    if (text->data == NULL) {
        goto done;
    }

    n = ngx_read_file(&f, text->data, text->len, 0);

    if (n != (ssize_t) text->len) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"waiting_queue_page\" directive: cannot read "
                           "\"%V\"", file);
        n = NGX_ERROR;
    }

done:

    if (ngx_close_file(f.fd) == NGX_FILE_ERROR) {
        ngx_log_error(NGX_LOG_ALERT, cf->log, ngx_errno,
                      ngx_close_file_n " \"%V\" failed", file);
    }

    return n == NGX_ERROR ? NGX_ERROR : NGX_OK;
}


/*
 * The page has one script and one style, and needs nothing else; so nothing
 * else is allowed, whoever may have got something into it.  To load a page
 * again that was posted to is to send a form.
 */

static ngx_int_t
ngx_http_wq_page_policy(ngx_conf_t *cf, const ngx_str_t *text,
    ngx_str_t *policy)
{
    u_char  *p;
    u_char   script[NGX_HTTP_WQ_PAGE_SHA_LEN + 1];
    u_char   style[NGX_HTTP_WQ_PAGE_SHA_LEN + 1];

    if (ngx_http_wq_page_hash(text, "<script>", "</script>", script) != NGX_OK
        || ngx_http_wq_page_hash(text, "<style>", "</style>", style) != NGX_OK)
    {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "waiting_queue: the page that is built in has no script "
                      "or no style");
        return NGX_ERROR;
    }

    policy->data = ngx_pnalloc(cf->pool, 512);
    if (policy->data == NULL) {
        return NGX_ERROR;
    }

    p = ngx_slprintf(policy->data, policy->data + 512,
                     "default-src 'none'; script-src 'sha256-%s'; "
                     "style-src 'sha256-%s'; connect-src 'self'; "
                     "img-src data:; base-uri 'none'; form-action 'self'; "
                     "frame-ancestors 'self'%Z", script, style);

    policy->len = p - policy->data - 1;

    return NGX_OK;
}


/* hash has room for NGX_HTTP_WQ_PAGE_SHA_LEN and a NUL */

static ngx_int_t
ngx_http_wq_page_hash(const ngx_str_t *text, const char *open,
    const char *close, u_char *hash)
{
    u_char     *begin, *end, *last;
    u_char      digest[EVP_MAX_MD_SIZE];
    unsigned    len;
    ngx_str_t   raw, encoded;

    last = text->data + text->len;

    begin = ngx_strlcasestrn(text->data, last, (u_char *) open,
                             ngx_strlen(open) - 1);
    if (begin == NULL) {
        return NGX_ERROR;
    }

    begin += ngx_strlen(open);
    end = ngx_strlcasestrn(begin, last, (u_char *) close,
                           ngx_strlen(close) - 1);

    if (end == NULL
        || EVP_Digest(begin, end - begin, digest, &len, EVP_sha256(), NULL)
           != 1)
    {
        return NGX_ERROR;
    }

    raw.data = digest;
    raw.len = len;
    encoded.data = hash;

    ngx_encode_base64(&encoded, &raw);
    hash[encoded.len] = '\0';

    return NGX_OK;
}


ngx_int_t
ngx_http_wq_page_send(ngx_http_request_t *r, ngx_uint_t code,
    ngx_http_wq_page_t *page, const wq_state_t *state, const char *status,
    ngx_uint_t refresh)
{
    u_char           *p;
    u_char            numbers[7 * NGX_INT64_LEN], json[WQ_STATE_SIZE];
    wq_str_t          values[WQ_PAGE_VALUES];
    ngx_buf_t        *b;
    ngx_uint_t        language;
    ngx_table_elt_t  *header;

    static const ngx_str_t  accept_language = ngx_string("accept-language");

    header = ngx_http_wq_find_header(&r->headers_in.headers,
                                     &accept_language);

    language = header ? wq_language(header->value.data, header->value.len,
                                    ngx_http_wq_page_languages,
                                    sizeof(ngx_http_wq_page_languages)
                                    / sizeof(wq_str_t))
                      : 0;

    ngx_memzero(values, sizeof(values));

    values[WQ_PAGE_LANG] = ngx_http_wq_page_languages[language];
    values[WQ_PAGE_STATUS].data = (u_char *) status;
    values[WQ_PAGE_STATUS].len = ngx_strlen(status);
    values[WQ_PAGE_EVENT] = state->event;
    values[WQ_PAGE_METHOD].data = r->method_name.data;
    values[WQ_PAGE_METHOD].len = r->method_name.len;

    p = numbers;

    if (state->rank >= 0) {
        p = ngx_http_wq_page_number(p, &values[WQ_PAGE_POSITION],
                                    state->rank + 1);
        p = ngx_http_wq_page_number(p, &values[WQ_PAGE_AHEAD], state->rank);
        p = ngx_http_wq_page_number(p, &values[WQ_PAGE_BEHIND],
                                    ngx_max(state->total - state->rank - 1,
                                            0));
    }

    p = ngx_http_wq_page_number(p, &values[WQ_PAGE_TOTAL], state->total);
    p = ngx_http_wq_page_number(p, &values[WQ_PAGE_REFRESH],
                                (int64_t) refresh);

    if (state->eta >= 0) {
        (void) ngx_http_wq_page_number(p, &values[WQ_PAGE_ETA], state->eta);
    }

    values[WQ_PAGE_STATE].data = json;
    values[WQ_PAGE_STATE].len = wq_state_json(json, state, 0) - json;

    b = ngx_create_temp_buf(r->pool, wq_page_size(page->parts, page->nparts,
                                                  values));
    if (b == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    b->last = wq_page_write(b->last, page->parts, page->nparts, values);

    if (page->policy.len
        && ngx_http_wq_add_header(r, "Content-Security-Policy",
                                  (char *) page->policy.data)
           != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    return ngx_http_wq_send(r, code, &ngx_http_wq_page_type, b);
}


static u_char *
ngx_http_wq_page_number(u_char *p, wq_str_t *value, int64_t n)
{
    u_char  *last;

    last = ngx_sprintf(p, "%L", n);

    value->data = p;
    value->len = last - p;

    return last;
}
