
/* redis: what `waiting_queue_redis` says */


#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_http_wq_redis_conf.h"
#include "wq_url.h"


static char *ngx_http_wq_redis_conf_option(ngx_conf_t *cf,
    ngx_http_wq_redis_conf_t *rc, wq_url_t *url, ngx_str_t *word);
static char *ngx_http_wq_redis_conf_unix(ngx_conf_t *cf,
    ngx_http_wq_redis_conf_t *rc, wq_url_t *url);
static char *ngx_http_wq_redis_conf_tcp(ngx_conf_t *cf,
    ngx_http_wq_redis_conf_t *rc, wq_url_t *url);


char *
ngx_http_wq_redis_conf_parse(ngx_conf_t *cf, ngx_http_wq_redis_conf_t *rc,
    ngx_str_t *words, ngx_uint_t n)
{
    char        *rv;
    u_char      *buf;
    wq_url_t     url;
    ngx_uint_t   i;
    const char  *error;

    if (rc->set) {
        return "is duplicate";
    }

    rc->set = 1;
    rc->timeout = NGX_HTTP_WQ_DEFAULT_TIMEOUT;
    rc->in_flight = NGX_HTTP_WQ_DEFAULT_IN_FLIGHT;

    buf = ngx_pnalloc(cf->pool, words[1].len + 1);
    if (buf == NULL) {
        return NGX_CONF_ERROR;
    }

    error = wq_url_parse(&url, words[1].data, words[1].len, buf);

    if (error != NULL) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"%V\" directive: invalid address: %s",
                           &words[0], error);
        return NGX_CONF_ERROR;
    }

    for (i = 2; i < n; i++) {
        rv = ngx_http_wq_redis_conf_option(cf, rc, &url, &words[i]);
        if (rv != NGX_CONF_OK) {
            return rv;
        }
    }

    if (url.user.len && url.password.len == 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"%V\" directive: user without a password",
                           &words[0]);
        return NGX_CONF_ERROR;
    }

    rc->user.len = url.user.len;
    rc->user.data = url.user.data;
    rc->password.len = url.password.len;
    rc->password.data = url.password.data;
    rc->db = url.db;

    if (ngx_array_init(&rc->addresses, cf->pool, 2,
                       sizeof(ngx_http_wq_address_t))
        != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    return url.unix_socket ? ngx_http_wq_redis_conf_unix(cf, rc, &url)
                           : ngx_http_wq_redis_conf_tcp(cf, rc, &url);
}


/*
 * user=, password= and db= are there for unix sockets, whose address has no
 * room for them, and are taken for redis:// too unless the URL has said it.
 */

static char *
ngx_http_wq_redis_conf_option(ngx_conf_t *cf, ngx_http_wq_redis_conf_t *rc,
    wq_url_t *url, ngx_str_t *word)
{
    u_char     *equals;
    ngx_int_t   number;
    ngx_str_t   name, value;

    name = *word;

    equals = ngx_strlchr(word->data, word->data + word->len, '=');

    if (equals == NULL) {
        goto invalid;
    }

    name.len = equals - word->data;
    value.data = equals + 1;
    value.len = word->data + word->len - value.data;

    if (value.len == 0) {
        goto invalid;
    }

#define ngx_http_wq_option_is(literal)                                        \
    (name.len == sizeof(literal) - 1                                          \
     && ngx_strncmp(name.data, literal, sizeof(literal) - 1) == 0)

    if (ngx_http_wq_option_is("timeout")) {

        number = ngx_parse_time(&value, 0);

        if (number == NGX_ERROR || number < 1 || number > 60000) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "\"waiting_queue_redis\" directive: invalid "
                               "timeout \"%V\", must be 1ms to 60s", &value);
            return NGX_CONF_ERROR;
        }

        rc->timeout = (ngx_msec_t) number;

        return NGX_CONF_OK;
    }

    if (ngx_http_wq_option_is("in_flight")) {

        number = ngx_atoi(value.data, value.len);

        if (number == NGX_ERROR || number < 1 || number > 1000000) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "\"waiting_queue_redis\" directive: invalid "
                               "in_flight \"%V\", must be 1 to 1000000",
                               &value);
            return NGX_CONF_ERROR;
        }

        rc->in_flight = number;

        return NGX_CONF_OK;
    }

    if (ngx_http_wq_option_is("db")) {

        number = ngx_atoi(value.data, value.len);

        if (number == NGX_ERROR || number > WQ_URL_MAX_DB || url->has_db) {
            goto refused;
        }

        url->db = (unsigned) number;
        url->has_db = 1;

        return NGX_CONF_OK;
    }

    if (ngx_http_wq_option_is("user")) {

        if (url->user.len) {
            goto refused;
        }

        url->user.len = value.len;
        url->user.data = value.data;

        return NGX_CONF_OK;
    }

    if (ngx_http_wq_option_is("password")) {

        if (url->password.len) {
            goto refused;
        }

        url->password.len = value.len;
        url->password.data = value.data;

        return NGX_CONF_OK;
    }

#undef ngx_http_wq_option_is

invalid:

    /* no value is shown: it may be a password under a wrong name */

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "\"waiting_queue_redis\" directive: invalid parameter "
                       "\"%V\"", &name);
    return NGX_CONF_ERROR;

refused:

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "\"waiting_queue_redis\" directive: invalid or "
                       "repeated \"%V\"", &name);
    return NGX_CONF_ERROR;
}


static char *
ngx_http_wq_redis_conf_unix(ngx_conf_t *cf, ngx_http_wq_redis_conf_t *rc,
    wq_url_t *url)
{
    ngx_http_wq_address_t  *address;

    address = ngx_array_push(&rc->addresses);
    if (address == NULL) {
        return NGX_CONF_ERROR;
    }

    ngx_memzero(address, sizeof(ngx_http_wq_address_t));

    /* hiredis wants it terminated */
    address->host = ngx_pnalloc(cf->pool, url->path.len + 1);
    if (address->host == NULL) {
        return NGX_CONF_ERROR;
    }

    ngx_cpystrn(address->host, url->path.data, url->path.len + 1);

    address->unix_socket = 1;

    address->text.len = sizeof("unix:") - 1 + url->path.len;
    address->text.data = ngx_pnalloc(cf->pool, address->text.len);
    if (address->text.data == NULL) {
        return NGX_CONF_ERROR;
    }

    ngx_sprintf(address->text.data, "unix:%*s", url->path.len, url->path.data);

    return NGX_CONF_OK;
}


static char *
ngx_http_wq_redis_conf_tcp(ngx_conf_t *cf, ngx_http_wq_redis_conf_t *rc,
    wq_url_t *url)
{
    u_char                 *p;
    ngx_url_t               u;
    ngx_uint_t              i;
    ngx_http_wq_address_t  *address;

    ngx_memzero(&u, sizeof(ngx_url_t));

    u.url.data = ngx_pnalloc(cf->pool, url->host.len + sizeof("[]:65535"));
    if (u.url.data == NULL) {
        return NGX_CONF_ERROR;
    }

    p = ngx_sprintf(u.url.data, url->ipv6 ? "[%*s]:%ui" : "%*s:%ui",
                    url->host.len, url->host.data, (ngx_uint_t) url->port);
    u.url.len = p - u.url.data;

    if (ngx_parse_url(cf->pool, &u) != NGX_OK) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"waiting_queue_redis\" directive: %s in \"%V\"",
                           u.err ? u.err : "invalid address", &u.url);
        return NGX_CONF_ERROR;
    }

    for (i = 0; i < u.naddrs; i++) {

        address = ngx_array_push(&rc->addresses);
        if (address == NULL) {
            return NGX_CONF_ERROR;
        }

        ngx_memzero(address, sizeof(ngx_http_wq_address_t));

        address->host = ngx_pcalloc(cf->pool, NGX_SOCKADDR_STRLEN + 1);
        if (address->host == NULL) {
            return NGX_CONF_ERROR;
        }

        (void) ngx_sock_ntop(u.addrs[i].sockaddr, u.addrs[i].socklen,
                             address->host, NGX_SOCKADDR_STRLEN, 0);

        address->port = (in_port_t) url->port;
        address->text = u.addrs[i].name;
    }

    rc->port = (in_port_t) url->port;

    if (!url->ipv6
        && ngx_inet_addr(url->host.data, url->host.len) == INADDR_NONE)
    {
        /* a name, which a resolver may look up again at run time */

        rc->name.len = url->host.len;
        rc->name.data = url->host.data;
    }

    return NGX_CONF_OK;
}
