
/* http: whole answers, and errors in JSON */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_wq_http.h"


static size_t ngx_http_wq_type_len(const ngx_str_t *content_type);
static ngx_int_t ngx_http_wq_add_header(ngx_http_request_t *r,
    const char *name, const char *value);


static const ngx_str_t  ngx_http_wq_json_type =
    ngx_string("application/json");


ngx_int_t
ngx_http_wq_send(ngx_http_request_t *r, ngx_uint_t status,
    const ngx_str_t *content_type, ngx_buf_t *b)
{
    ngx_int_t    rc;
    ngx_chain_t  out;

    r->headers_out.status = status;
    r->headers_out.content_type = *content_type;
    r->headers_out.content_type_len = ngx_http_wq_type_len(content_type);
    r->headers_out.content_type_lowcase = NULL;
    r->headers_out.content_length_n = b->last - b->pos;

    /* figures and states of this moment, never to be shown later */

    if (ngx_http_wq_add_header(r, "Cache-Control", "no-store") != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    rc = ngx_http_send_header(r);

    if (rc == NGX_ERROR || rc > NGX_OK || r->header_only) {
        return rc;
    }

    b->last_buf = (r == r->main) ? 1 : 0;
    b->last_in_chain = 1;

    out.buf = b;
    out.next = NULL;

    return ngx_http_output_filter(r, &out);
}


ngx_int_t
ngx_http_wq_send_error(ngx_http_request_t *r, ngx_uint_t status,
    const char *error, const char *message)
{
    size_t      len;
    ngx_buf_t  *b;

    if (ngx_http_discard_request_body(r) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    len = sizeof("{\"error\":\"\",\"message\":\"\"}\n") - 1
          + ngx_strlen(error) + ngx_strlen(message);

    b = ngx_create_temp_buf(r->pool, len);
    if (b == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    b->last = ngx_sprintf(b->last, "{\"error\":\"%s\",\"message\":\"%s\"}\n",
                          error, message);

    return ngx_http_wq_send(r, status, &ngx_http_wq_json_type, b);
}


ngx_int_t
ngx_http_wq_send_not_allowed(ngx_http_request_t *r, const char *allow)
{
    if (ngx_http_wq_add_header(r, "Allow", allow) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    return ngx_http_wq_send_error(r, NGX_HTTP_NOT_ALLOWED,
                                  "method_not_allowed",
                                  "this address does not have this method");
}


/* without parameters: what gzip_types and the like compare */

static size_t
ngx_http_wq_type_len(const ngx_str_t *content_type)
{
    u_char  *semicolon;

    semicolon = ngx_strlchr(content_type->data,
                            content_type->data + content_type->len, ';');

    return semicolon ? (size_t) (semicolon - content_type->data)
                     : content_type->len;
}


/* name and value are literals */

static ngx_int_t
ngx_http_wq_add_header(ngx_http_request_t *r, const char *name,
    const char *value)
{
    ngx_table_elt_t  *h;

    h = ngx_list_push(&r->headers_out.headers);
    if (h == NULL) {
        return NGX_ERROR;
    }

    h->hash = 1;
    h->key.data = (u_char *) name;
    h->key.len = ngx_strlen(name);
    h->value.data = (u_char *) value;
    h->value.len = ngx_strlen(value);
#if (nginx_version >= 1023000)
    h->next = NULL;
#endif

    return NGX_OK;
}
