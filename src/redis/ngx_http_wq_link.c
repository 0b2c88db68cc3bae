
/* redis: one connection to Redis, kept up */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

#include "ngx_http_wq_link.h"
#include "ngx_http_wq_operation.h"


#define NGX_HTTP_WQ_LINK_BACKOFF_MIN  50
#define NGX_HTTP_WQ_LINK_BACKOFF_MAX  2000

/* how often an error that may come with each request is logged */
#define NGX_HTTP_WQ_LINK_COMPLAIN     10000


static void ngx_http_wq_link_try(ngx_http_wq_link_t *link);
static ngx_int_t ngx_http_wq_link_resolve(ngx_http_wq_link_t *link);
static void ngx_http_wq_link_resolve_handler(ngx_resolver_ctx_t *ctx);
static ngx_int_t ngx_http_wq_link_take_addresses(ngx_http_wq_link_t *link,
    ngx_resolver_ctx_t *ctx);
static void ngx_http_wq_link_connect(ngx_http_wq_link_t *link);
static void ngx_http_wq_link_connected(const redisAsyncContext *ac, int status);
static void ngx_http_wq_link_down(ngx_http_wq_link_t *link, ngx_uint_t trouble,
    const u_char *text, size_t len);
static void ngx_http_wq_link_trouble(ngx_http_wq_link_t *link,
    ngx_uint_t trouble, const u_char *text, size_t len, const char *what);
static ngx_uint_t ngx_http_wq_link_may_complain(ngx_http_wq_link_t *link);
static void ngx_http_wq_link_drained(ngx_http_wq_link_t *link);
static const ngx_str_t *ngx_http_wq_link_address(ngx_http_wq_link_t *link);

static void ngx_http_wq_link_fault_handler(void *data,
    ngx_http_wq_adapter_fault_e fault);
static void ngx_http_wq_link_closed_handler(void *data, const char *error);
static void ngx_http_wq_link_retry_handler(ngx_event_t *ev);
static void ngx_http_wq_link_deadline_handler(ngx_event_t *ev);


static const char  *ngx_http_wq_link_state_names[] = {
#define WQ_X(constant, name)  name,
    NGX_HTTP_WQ_LINK_STATES(WQ_X)
#undef WQ_X
};


static const char  *ngx_http_wq_trouble_names[] = {
#define WQ_X(constant, name)  name,
    NGX_HTTP_WQ_TROUBLES(WQ_X)
#undef WQ_X
};


static const ngx_http_wq_adapter_owner_t  ngx_http_wq_link_adapter_owner = {
    ngx_http_wq_link_fault_handler,
    ngx_http_wq_link_closed_handler
};


const char *
ngx_http_wq_link_state_name(ngx_uint_t state)
{
    return state < NGX_HTTP_WQ_LINK_STATE_MAX
           ? ngx_http_wq_link_state_names[state] : "unknown";
}


const char *
ngx_http_wq_trouble_name(ngx_uint_t trouble)
{
    return trouble < NGX_HTTP_WQ_TROUBLE_REDIS
           ? ngx_http_wq_trouble_names[trouble]
           : wq_redis_error_name(trouble - NGX_HTTP_WQ_TROUBLE_REDIS);
}


ngx_http_wq_link_t *
ngx_http_wq_link_create(ngx_http_wq_link_options_t *options, ngx_log_t *log)
{
    ngx_http_wq_link_t  *link;

    link = ngx_calloc(sizeof(ngx_http_wq_link_t), log);
    if (link == NULL) {
        return NULL;
    }

    /*
     * set by ngx_calloc():
     *
     *     link->ac = NULL;
     *     link->state = NGX_HTTP_WQ_LINK_IDLE;
     *     link->pool = NULL;
     *     link->resolving = NULL;
     *     link->trouble = NGX_HTTP_WQ_TROUBLE_NONE;
     */

    link->name = options->name;
    link->client_name = options->client_name;
    link->conf = options->conf;
    link->slot = options->slot;
    link->owner = options->owner;
    link->data = options->data;
    link->blocking = options->blocking;
    link->log = log;
    link->addresses = options->conf->addresses;
    link->trouble_script = NGX_HTTP_WQ_NO_SCRIPT;

    ngx_queue_init(&link->operations);

    wq_backoff_init(&link->backoff, NGX_HTTP_WQ_LINK_BACKOFF_MIN,
                    NGX_HTTP_WQ_LINK_BACKOFF_MAX);

    /* clients wait for commands to be answered or given up; nobody waits for
     * a blocking read */

    ngx_http_wq_timer_init(&link->deadline, ngx_http_wq_link_deadline_handler,
                           link, link->blocking, log);
    ngx_http_wq_timer_init(&link->retry, ngx_http_wq_link_retry_handler,
                           link, 1, log);

    ngx_http_wq_link_set_state(link, NGX_HTTP_WQ_LINK_IDLE);

    return link;
}


void
ngx_http_wq_link_start(ngx_http_wq_link_t *link)
{
    /* not at once: a worker is not to fail, or to be slow, while it starts */
    ngx_http_wq_timer_set(&link->retry, 1);
}


void
ngx_http_wq_link_drain(ngx_http_wq_link_t *link)
{
    link->stopped = 1;

    ngx_http_wq_timer_stop(&link->retry);

    if (link->state == NGX_HTTP_WQ_LINK_IDLE) {
        ngx_http_wq_link_drained(link);
        return;
    }

    if (link->state == NGX_HTTP_WQ_LINK_READY && !link->blocking
        && link->in_flight)
    {
        ngx_http_wq_link_set_state(link, NGX_HTTP_WQ_LINK_DRAINING);
        return;
    }

    ngx_http_wq_link_set_state(link, NGX_HTTP_WQ_LINK_DRAINING);
    ngx_http_wq_link_fail(link, NGX_HTTP_WQ_TROUBLE_SHUTDOWN, NULL, 0);
}


void
ngx_http_wq_link_destroy(ngx_http_wq_link_t *link)
{
    ngx_queue_t              *q;
    ngx_http_wq_operation_t  *operation;

    link->stopped = 1;
    link->owner = NULL;

    for (q = ngx_queue_head(&link->operations);
         q != ngx_queue_sentinel(&link->operations);
         q = ngx_queue_next(q))
    {
        operation = ngx_queue_data(q, ngx_http_wq_operation_t, queue);
        ngx_http_wq_operation_detach(operation);
    }

    ngx_http_wq_link_fail(link, NGX_HTTP_WQ_TROUBLE_SHUTDOWN, NULL, 0);

    ngx_http_wq_timer_stop(&link->deadline);
    ngx_http_wq_timer_stop(&link->retry);

    if (link->pool) {
        ngx_destroy_pool(link->pool);
    }

    ngx_free(link);
}


static void
ngx_http_wq_link_retry_handler(ngx_event_t *ev)
{
    ngx_http_wq_link_t  *link;

    link = ngx_http_wq_timer_data(ev);

    if (link->stopped || ngx_terminate) {
        return;
    }

    if (link->state == NGX_HTTP_WQ_LINK_LOADING) {

        if (link->in_flight) {
            /* answers of the round that was broken off are still to come */
            ngx_http_wq_timer_set(&link->retry, NGX_HTTP_WQ_LINK_BACKOFF_MIN);
            return;
        }

        ngx_http_wq_handshake_load_scripts(link);
        return;
    }

    ngx_http_wq_link_try(link);
}


static void
ngx_http_wq_link_deadline_handler(ngx_event_t *ev)
{
    ngx_http_wq_link_t  *link;

    link = ngx_http_wq_timer_data(ev);

    if (link->state == NGX_HTTP_WQ_LINK_CONNECTING) {
        ngx_http_wq_link_fail(link, NGX_HTTP_WQ_TROUBLE_CONNECT_TIMEOUT,
                              NULL, 0);
        return;
    }

    ngx_http_wq_operation_expire(link);
}


/* one try to connect, from the beginning */

static void
ngx_http_wq_link_try(ngx_http_wq_link_t *link)
{
    link->attempts++;

    if (link->conf->resolver && link->conf->name.len && link->tried == 0
        && link->attempts > 1)
    {
        /* the first try takes the addresses nginx has found when it started */

        if (ngx_http_wq_link_resolve(link) == NGX_AGAIN) {
            return;
        }
    }

    ngx_http_wq_link_connect(link);
}


/*
 * NGX_AGAIN: the resolver will call back, or already has; in both cases the
 * try goes on from there.
 */

static ngx_int_t
ngx_http_wq_link_resolve(ngx_http_wq_link_t *link)
{
    ngx_resolver_ctx_t  *ctx;

    ctx = ngx_resolve_start(link->conf->resolver, NULL);

    if (ctx == NULL || ctx == NGX_NO_RESOLVER) {
        return NGX_DECLINED;
    }

    ctx->name = link->conf->name;
    ctx->handler = ngx_http_wq_link_resolve_handler;
    ctx->data = link;
    ctx->timeout = link->conf->resolver_timeout;

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
ngx_http_wq_link_resolve_handler(ngx_resolver_ctx_t *ctx)
{
    ngx_http_wq_link_t  *link;

    link = ctx->data;
    link->resolving = NULL;

    if (ctx->state != NGX_OK
        || ngx_http_wq_link_take_addresses(link, ctx) != NGX_OK)
    {
        /* the addresses known so far are as good as any */

        ngx_log_error(NGX_LOG_INFO, link->log, 0,
                      "waiting_queue: redis host \"%V\" could not be "
                      "resolved (%i: %s), trying the last known addresses",
                      &ctx->name, ctx->state,
                      ngx_resolver_strerror(ctx->state));
    }

    ngx_resolve_name_done(ctx);

    ngx_http_wq_link_connect(link);
}


static ngx_int_t
ngx_http_wq_link_take_addresses(ngx_http_wq_link_t *link,
    ngx_resolver_ctx_t *ctx)
{
    u_char                 *text;
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
        text = ngx_pnalloc(pool, NGX_SOCKADDR_STRLEN);

        if (address->host == NULL || text == NULL) {
            goto failed;
        }

        (void) ngx_sock_ntop(ctx->addrs[i].sockaddr, ctx->addrs[i].socklen,
                             address->host, NGX_SOCKADDR_STRLEN, 0);

        address->port = link->conf->port;

        address->text.data = text;
        address->text.len = ngx_snprintf(text, NGX_SOCKADDR_STRLEN, "%s:%ui",
                                         address->host,
                                         (ngx_uint_t) address->port)
                            - text;
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
ngx_http_wq_link_connect(ngx_http_wq_link_t *link)
{
    redisAsyncContext      *ac;
    ngx_http_wq_address_t  *address;

    address = link->addresses.elts;
    address += link->address % link->addresses.nelts;

    ngx_http_wq_link_set_state(link, NGX_HTTP_WQ_LINK_CONNECTING);

    ac = address->unix_socket
         ? redisAsyncConnectUnix((char *) address->host)
         : redisAsyncConnect((char *) address->host, address->port);

    if (ac == NULL) {
        ngx_http_wq_link_down(link, NGX_HTTP_WQ_TROUBLE_NO_RESOURCES, NULL, 0);
        return;
    }

    if (ac->err) {
        ngx_http_wq_link_down(link, NGX_HTTP_WQ_TROUBLE_CONNECT_FAILED,
                              (u_char *) ac->errstr, ngx_strlen(ac->errstr));
        redisAsyncFree(ac);
        return;
    }

    if (ngx_http_wq_adapter_attach(ac, &ngx_http_wq_link_adapter_owner, link,
                                   link->log)
        != NGX_OK)
    {
        ngx_http_wq_link_down(link, NGX_HTTP_WQ_TROUBLE_NO_RESOURCES, NULL, 0);
        redisAsyncFree(ac);
        return;
    }

    ac->data = link;
    link->ac = ac;

    ngx_http_wq_timer_set(&link->deadline, link->conf->timeout);

    /* asks for the write event that says that the connection is made */
    (void) redisAsyncSetConnectCallback(ac, ngx_http_wq_link_connected);
}


/*
 * hiredis' word on the connect.  It frees the context itself if that failed,
 * and in 0.14 must not be told to, in either case.
 */

static void
ngx_http_wq_link_connected(const redisAsyncContext *ac, int status)
{
    ngx_http_wq_link_t  *link;

    link = ac->data;

    if (link->ac != ac) {
        return;
    }

    if (status != REDIS_OK) {
        ngx_http_wq_link_down(link, NGX_HTTP_WQ_TROUBLE_CONNECT_FAILED,
                              (u_char *) ac->c.errstr,
                              ngx_strlen(ac->c.errstr));
        return;
    }

    ngx_http_wq_timer_stop(&link->deadline);

    ngx_http_wq_handshake_start(link);
}


void
ngx_http_wq_link_set_state(ngx_http_wq_link_t *link,
    ngx_http_wq_link_state_e state)
{
    ngx_time_t  *tp;

    ngx_log_debug3(NGX_LOG_DEBUG_CORE, link->log, 0,
                   "waiting_queue: redis %s link: %s -> %s", link->name,
                   ngx_http_wq_link_state_name(link->state),
                   ngx_http_wq_link_state_name(state));

    tp = ngx_timeofday();

    link->state = state;

    wq_counter_set(link->slot->state, state);
    wq_counter_set(link->slot->since, (uint64_t) tp->sec * 1000 + tp->msec);
}


void
ngx_http_wq_link_set_ready(ngx_http_wq_link_t *link)
{
    link->tried = 0;

    wq_counter_add(link->slot->counters.connects, 1);

    if (link->was_ready) {
        wq_counter_add(link->slot->counters.reconnects, 1);
    }

    link->was_ready = 1;

    ngx_http_wq_link_set_state(link, NGX_HTTP_WQ_LINK_READY);

    if (link->owner && link->owner->ready) {
        link->owner->ready(link, link->data);
    }
}


/*
 * The trouble is over when a command worked, not when a connection was made:
 * a Redis that lets everybody in and serves nobody would else be asked at full
 * speed, and fill the log.
 */

void
ngx_http_wq_link_worked(ngx_http_wq_link_t *link, ngx_uint_t script)
{
    wq_backoff_reset(&link->backoff);

    if (link->trouble == NGX_HTTP_WQ_TROUBLE_NONE) {

        if (link->attempts) {
            ngx_log_error(NGX_LOG_NOTICE, link->log, 0,
                          "waiting_queue: redis %s link is up (%V)",
                          link->name, ngx_http_wq_link_address(link));
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
                  link->name, ngx_http_wq_link_address(link),
                  ngx_http_wq_trouble_name(link->trouble),
                  ngx_current_msec - link->trouble_start, link->attempts);

    link->attempts = 0;
    link->trouble = NGX_HTTP_WQ_TROUBLE_NONE;
    link->trouble_script = NGX_HTTP_WQ_NO_SCRIPT;
    wq_counter_set(link->slot->trouble, NGX_HTTP_WQ_TROUBLE_NONE);
}


static void
ngx_http_wq_link_trouble(ngx_http_wq_link_t *link, ngx_uint_t trouble,
    const u_char *text, size_t len, const char *what)
{
    if (link->trouble == trouble) {
        return;
    }

    if (link->trouble == NGX_HTTP_WQ_TROUBLE_NONE) {
        link->trouble_start = ngx_current_msec;
    }

    link->trouble = trouble;
    wq_counter_set(link->slot->trouble, trouble);

    if (link->stopped) {
        return;
    }

    ngx_log_error(NGX_LOG_ERR, link->log, 0,
                  "waiting_queue: redis %s link %s: %s (%V)%s%*s",
                  link->name, what, ngx_http_wq_trouble_name(trouble),
                  ngx_http_wq_link_address(link), len ? ": " : "", len,
                  text ? text : (u_char *) "");
}


void
ngx_http_wq_link_complain(ngx_http_wq_link_t *link, ngx_uint_t trouble,
    ngx_uint_t script, const u_char *text, size_t len)
{
    ngx_uint_t  server;

    switch (trouble - NGX_HTTP_WQ_TROUBLE_REDIS) {

    case WQ_REDIS_ERROR_OOM:
    case WQ_REDIS_ERROR_MISCONF:
    case WQ_REDIS_ERROR_NOREPLICAS:
    case WQ_REDIS_ERROR_NOPERM:
        server = 1;
        break;

    case WQ_REDIS_ERROR_NOGROUP:
    case WQ_REDIS_ERROR_BUSYGROUP:
        /* this is how the reader of a stream learns what is there */
        return;

    default:
        server = 0;
    }

    if (server) {
        if (link->trouble_script == NGX_HTTP_WQ_NO_SCRIPT) {
            link->trouble_script = script;
            ngx_http_wq_link_trouble(link, trouble, text, len,
                                     "is refused commands");
        }

        return;
    }

    /* the state of one key, say: it may come with every request */

    if (ngx_http_wq_link_may_complain(link)) {
        ngx_log_error(NGX_LOG_ERR, link->log, 0,
                      "waiting_queue: redis answered with an error "
                      "(further ones within %d s are not logged): %*s",
                      NGX_HTTP_WQ_LINK_COMPLAIN / 1000, len, text);
    }
}


void
ngx_http_wq_link_bad_reply(ngx_http_wq_link_t *link, const char *call,
    const char *field)
{
    wq_counter_add(link->slot->counters.bad_replies, 1);

    if (ngx_http_wq_link_may_complain(link)) {
        ngx_log_error(NGX_LOG_ERR, link->log, 0,
                      "waiting_queue: redis gave \"%s\" a bad answer: field "
                      "\"%s\" (further ones within %d s are not logged)",
                      call, field, NGX_HTTP_WQ_LINK_COMPLAIN / 1000);
    }
}


static ngx_uint_t
ngx_http_wq_link_may_complain(ngx_http_wq_link_t *link)
{
    if (link->complained
        && ngx_current_msec - link->complained < NGX_HTTP_WQ_LINK_COMPLAIN)
    {
        return 0;
    }

    link->complained = ngx_current_msec;

    return 1;
}


void
ngx_http_wq_link_fail(ngx_http_wq_link_t *link, ngx_uint_t trouble,
    const u_char *text, size_t len)
{
    redisAsyncContext  *ac;

    ac = link->ac;

    ngx_http_wq_link_down(link, trouble, text, len);

    if (ac) {
        ngx_http_wq_adapter_close(ac);
    }
}


void
ngx_http_wq_link_lost(ngx_http_wq_link_t *link, redisAsyncContext *ac)
{
    u_char            *text;
    size_t             len;
    wq_redis_error_e   error;

    if (link->ac != ac) {
        return;
    }

    text = (u_char *) (ac->err ? ac->errstr : "");
    len = ngx_strlen(text);

    if (ac->err == REDIS_ERR_PROTOCOL) {
        ngx_http_wq_link_down(link, NGX_HTTP_WQ_TROUBLE_PROTOCOL, text, len);
        return;
    }

    /* "max number of clients reached" comes unasked, before any command */

    error = wq_redis_error_classify(text, len);

    ngx_http_wq_link_down(link,
                          ac->err == REDIS_ERR_OTHER
                          && error != WQ_REDIS_ERROR_OTHER
                          ? NGX_HTTP_WQ_TROUBLE_REDIS + error
                          : NGX_HTTP_WQ_TROUBLE_CLOSED,
                          text, len);
}


/*
 * The link's own side of the end of a connection: afterwards the link is idle,
 * knows no context and has its next try armed.  Does not touch the context.
 */

static void
ngx_http_wq_link_down(ngx_http_wq_link_t *link, ngx_uint_t trouble,
    const u_char *text, size_t len)
{
    uint32_t    delay;
    ngx_uint_t  was;

    was = link->state;

    if (link->resolving) {
        ngx_resolve_name_done(link->resolving);
        link->resolving = NULL;
    }

    link->ac = NULL;
    link->loading = 0;
    link->broken = 0;

    ngx_http_wq_timer_stop(&link->deadline);
    ngx_http_wq_timer_stop(&link->retry);

    if (was == NGX_HTTP_WQ_LINK_IDLE) {
        return;
    }

    ngx_http_wq_link_set_state(link, NGX_HTTP_WQ_LINK_IDLE);

    link->trouble_script = NGX_HTTP_WQ_NO_SCRIPT;
    ngx_http_wq_link_trouble(link, trouble, text, len, "is down");

    if (was != NGX_HTTP_WQ_LINK_READY && was != NGX_HTTP_WQ_LINK_DRAINING) {
        wq_counter_add(link->slot->counters.connect_failures, 1);
    }

    if (link->stopped) {

        if (was == NGX_HTTP_WQ_LINK_DRAINING) {
            ngx_http_wq_link_drained(link);
        }

        return;
    }

    /* a host may have several addresses: each gets its chance before a delay */

    link->address++;
    link->tried++;

    if (link->tried < link->addresses.nelts) {
        delay = 1;

    } else {
        link->tried = 0;
        delay = wq_backoff_next(&link->backoff, (uint32_t) ngx_random());
    }

    ngx_log_debug2(NGX_LOG_DEBUG_CORE, link->log, 0,
                   "waiting_queue: redis %s link: next try in %uD ms",
                   link->name, delay);

    ngx_http_wq_timer_set(&link->retry, delay);
}


void
ngx_http_wq_link_wait(ngx_http_wq_link_t *link, ngx_uint_t trouble,
    const u_char *text, size_t len)
{
    if (link->state == NGX_HTTP_WQ_LINK_DRAINING) {
        return;
    }

    link->loading = 0;
    link->trouble_script = NGX_HTTP_WQ_NO_SCRIPT;

    ngx_http_wq_link_trouble(link, trouble, text, len, "waits");
    ngx_http_wq_link_set_state(link, NGX_HTTP_WQ_LINK_LOADING);

    if (!link->stopped && !link->retry.event.timer_set) {
        ngx_http_wq_timer_set(&link->retry,
                              wq_backoff_next(&link->backoff,
                                              (uint32_t) ngx_random()));
    }
}


void
ngx_http_wq_link_emptied(ngx_http_wq_link_t *link)
{
    ngx_http_wq_timer_stop(&link->deadline);

    if (link->state == NGX_HTTP_WQ_LINK_DRAINING) {
        ngx_http_wq_link_fail(link, NGX_HTTP_WQ_TROUBLE_SHUTDOWN, NULL, 0);
    }
}


static void
ngx_http_wq_link_drained(ngx_http_wq_link_t *link)
{
    const ngx_http_wq_link_owner_t  *owner;

    /* the last word to the owner, and only once */
    owner = link->owner;
    link->owner = NULL;

    if (owner && owner->drained) {
        owner->drained(link, link->data);
    }
}


static const ngx_str_t *
ngx_http_wq_link_address(ngx_http_wq_link_t *link)
{
    ngx_http_wq_address_t  *address;

    address = link->addresses.elts;

    return &address[link->address % link->addresses.nelts].text;
}


static void
ngx_http_wq_link_fault_handler(void *data, ngx_http_wq_adapter_fault_e fault)
{
    ngx_http_wq_link_t *link = data;

    ngx_str_t                text;

    static const ngx_str_t   unasked = ngx_string("answer to no command");
    static const ngx_str_t   too_large = ngx_string("answer too large");

    if (fault == NGX_HTTP_WQ_ADAPTER_SHUTDOWN) {
        /* worker_shutdown_timeout is over: no client is served any more */
        link->stopped = 1;
        ngx_http_wq_link_fail(link, NGX_HTTP_WQ_TROUBLE_SHUTDOWN, NULL, 0);
        return;
    }

    text = (fault == NGX_HTTP_WQ_ADAPTER_UNASKED) ? unasked : too_large;

    ngx_http_wq_link_fail(link, NGX_HTTP_WQ_TROUBLE_PROTOCOL, text.data,
                          text.len);
}


static void
ngx_http_wq_link_closed_handler(void *data, const char *error)
{
    ngx_http_wq_link_t *link = data;

    if (link->ac) {
        ngx_http_wq_link_lost(link, link->ac);
    }
}
