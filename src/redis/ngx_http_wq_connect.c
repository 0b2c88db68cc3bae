
/* redis: from nothing to a connection, by way of DNS where there is one */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

#include "ngx_http_wq_link.h"
#include "ngx_http_wq_operation.h"


static ngx_int_t ngx_http_wq_connect_resolve(ngx_http_wq_link_t *link);
static void ngx_http_wq_connect_resolve_handler(ngx_resolver_ctx_t *ctx);
static ngx_int_t ngx_http_wq_connect_take_addresses(ngx_http_wq_link_t *link,
    ngx_resolver_ctx_t *ctx);
static void ngx_http_wq_connect_open(ngx_http_wq_link_t *link);
static void ngx_http_wq_connect_handler(const redisAsyncContext *ac,
    int status);

static void ngx_http_wq_connect_fault_handler(void *data,
    ngx_http_wq_adapter_fault_e fault);
static void ngx_http_wq_connect_closed_handler(void *data);


static const ngx_http_wq_adapter_owner_t  ngx_http_wq_connect_owner = {
    ngx_http_wq_connect_fault_handler,
    ngx_http_wq_connect_closed_handler
};


void
ngx_http_wq_connect_try(ngx_http_wq_link_t *link)
{
    link->attempts++;

    if (link->conf->resolver && link->conf->name.len && link->tried == 0
        && link->attempts > 1)
    {
        /* the first try takes the addresses nginx has found when it started */

        if (ngx_http_wq_connect_resolve(link) == NGX_AGAIN) {
            return;
        }
    }

    ngx_http_wq_connect_open(link);
}


const ngx_http_wq_address_t *
ngx_http_wq_connect_address(ngx_http_wq_link_t *link)
{
    ngx_http_wq_address_t  *addresses;

    addresses = link->addresses.elts;

    return &addresses[link->address % link->addresses.nelts];
}


/*
 * NGX_AGAIN: the resolver will call back, or already has; in both cases the
 * try goes on from there.
 */

static ngx_int_t
ngx_http_wq_connect_resolve(ngx_http_wq_link_t *link)
{
    ngx_resolver_ctx_t  *ctx;

    ctx = ngx_resolve_start(link->conf->resolver, NULL);

    if (ctx == NULL || ctx == NGX_NO_RESOLVER) {
        return NGX_DECLINED;
    }

    ctx->name = link->conf->name;
    ctx->handler = ngx_http_wq_connect_resolve_handler;
    ctx->data = link;

    /* a name server that is gone must not stand between us and Redis */

    ctx->timeout = link->conf->timeout;

    if (link->conf->resolver_timeout
        && link->conf->resolver_timeout < ctx->timeout)
    {
        ctx->timeout = link->conf->resolver_timeout;
    }

    link->resolving = ctx;
    ngx_http_wq_link_set_state(link, NGX_HTTP_WQ_LINK_RESOLVING);

    if (ngx_resolve_name(ctx) != NGX_OK) {
        /* the context was freed */
        link->resolving = NULL;
        return NGX_DECLINED;
    }

    return NGX_AGAIN;
}


static void
ngx_http_wq_connect_resolve_handler(ngx_resolver_ctx_t *ctx)
{
    ngx_http_wq_link_t  *link;

    link = ctx->data;
    link->resolving = NULL;

    if (ctx->state != NGX_OK
        || ngx_http_wq_connect_take_addresses(link, ctx) != NGX_OK)
    {
        /* the addresses known so far are as good as any */

        ngx_log_error(NGX_LOG_INFO, link->log, 0,
                      "waiting_queue: redis host \"%V\" could not be "
                      "resolved (%i: %s), trying the last known addresses",
                      &ctx->name, ctx->state,
                      ngx_resolver_strerror(ctx->state));
    }

    ngx_resolve_name_done(ctx);

    ngx_http_wq_connect_open(link);
}


static ngx_int_t
ngx_http_wq_connect_take_addresses(ngx_http_wq_link_t *link,
    ngx_resolver_ctx_t *ctx)
{
    u_char                 *p;
    ngx_uint_t              i;
    ngx_pool_t             *pool;
    ngx_array_t             addresses;
    ngx_http_wq_address_t  *address;

    pool = ngx_create_pool(1024, link->log);
    if (pool == NULL) {
        return NGX_ERROR;
    }

    if (ngx_array_init(&addresses, pool, ctx->naddrs,
                       sizeof(ngx_http_wq_address_t))
        != NGX_OK)
    {
        goto failed;
    }

    for (i = 0; i < ctx->naddrs; i++) {

        address = ngx_array_push(&addresses);
        if (address == NULL) {
            goto failed;
        }

        ngx_memzero(address, sizeof(ngx_http_wq_address_t));

        address->host = ngx_pcalloc(pool, NGX_SOCKADDR_STRLEN + 1);
        p = ngx_pnalloc(pool, NGX_SOCKADDR_STRLEN);

        if (address->host == NULL || p == NULL) {
            goto failed;
        }

        (void) ngx_sock_ntop(ctx->addrs[i].sockaddr, ctx->addrs[i].socklen,
                             address->host, NGX_SOCKADDR_STRLEN, 0);

        address->port = link->conf->port;

        address->text.data = p;
        p = ngx_snprintf(p, NGX_SOCKADDR_STRLEN,
                         ctx->addrs[i].sockaddr->sa_family == AF_INET
                         ? "%s:%ui" : "[%s]:%ui",
                         address->host, (ngx_uint_t) address->port);
        address->text.len = p - address->text.data;
    }

    if (link->pool) {
        ngx_destroy_pool(link->pool);
    }

    link->pool = pool;
    link->addresses = addresses;
    link->address = 0;

    return NGX_OK;

failed:

    ngx_destroy_pool(pool);

    return NGX_ERROR;
}


static void
ngx_http_wq_connect_open(ngx_http_wq_link_t *link)
{
    ngx_str_t                     text;
    redisAsyncContext            *ac;
    const ngx_http_wq_address_t  *address;

    ngx_http_wq_operation_abandon(link);

    address = ngx_http_wq_connect_address(link);

    ngx_http_wq_link_set_state(link, NGX_HTTP_WQ_LINK_CONNECTING);

    ac = address->unix_socket
         ? redisAsyncConnectUnix((char *) address->host)
         : redisAsyncConnect((char *) address->host, address->port);

    if (ac == NULL) {
        ngx_http_wq_link_down(link, NGX_HTTP_WQ_TROUBLE_NO_RESOURCES, NULL);
        return;
    }

    if (ac->err) {
        text.data = (u_char *) ac->errstr;
        text.len = ngx_strlen(text.data);

        ngx_http_wq_link_down(link, NGX_HTTP_WQ_TROUBLE_CONNECT_FAILED, &text);
        redisAsyncFree(ac);
        return;
    }

    if (ngx_http_wq_adapter_attach(ac, &ngx_http_wq_connect_owner, link,
                                   link->log)
        != NGX_OK)
    {
        ngx_http_wq_link_down(link, NGX_HTTP_WQ_TROUBLE_NO_RESOURCES, NULL);
        redisAsyncFree(ac);
        return;
    }

    ac->data = link;
    link->ac = ac;
    link->fresh = 1;

    ngx_http_wq_timer_set(&link->deadline, link->conf->timeout);

    /* asks for the write event that says that the connection is made */
    (void) redisAsyncSetConnectCallback(ac, ngx_http_wq_connect_handler);
}


/*
 * hiredis' word on the connect.  It frees the context itself if that failed,
 * and in 0.14 must not be told to, in either case.
 */

static void
ngx_http_wq_connect_handler(const redisAsyncContext *ac, int status)
{
    ngx_str_t            text;
    ngx_http_wq_link_t  *link;

    link = ac->data;

    if (link->ac != ac) {
        return;
    }

    if (status != REDIS_OK) {
        text.data = (u_char *) ac->c.errstr;
        text.len = ngx_strlen(text.data);

        ngx_http_wq_link_down(link, NGX_HTTP_WQ_TROUBLE_CONNECT_FAILED, &text);
        return;
    }

    ngx_http_wq_timer_stop(&link->deadline);

    ngx_http_wq_handshake_start(link);
}


static void
ngx_http_wq_connect_fault_handler(void *data,
    ngx_http_wq_adapter_fault_e fault)
{
    ngx_http_wq_link_t *link = data;

    static const ngx_str_t  unasked = ngx_string("answer to no command");
    static const ngx_str_t  too_large = ngx_string("answer too large");

    switch (fault) {

    case NGX_HTTP_WQ_ADAPTER_SHUTDOWN:
        /* worker_shutdown_timeout is over: no client is served any more */
        link->stopped = 1;
        ngx_http_wq_link_fail(link, NGX_HTTP_WQ_TROUBLE_SHUTDOWN, NULL);
        break;

    case NGX_HTTP_WQ_ADAPTER_UNASKED:
        ngx_http_wq_link_fail(link, NGX_HTTP_WQ_TROUBLE_PROTOCOL, &unasked);
        break;

    case NGX_HTTP_WQ_ADAPTER_TOO_LARGE:
        ngx_http_wq_link_fail(link, NGX_HTTP_WQ_TROUBLE_PROTOCOL, &too_large);
        break;
    }
}


static void
ngx_http_wq_connect_closed_handler(void *data)
{
    ngx_http_wq_link_t *link = data;

    if (link->ac) {
        ngx_http_wq_link_lost(link, link->ac);
    }
}
