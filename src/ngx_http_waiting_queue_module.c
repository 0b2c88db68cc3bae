
/*
 * ngx_http_waiting_queue_module: a virtual waiting room inside nginx.
 *
 * Directives, configurations and hooks; no logic.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_wq_conf.h"


/* with the pid and the time it makes an instance, which is an id */
#define NGX_HTTP_WAITING_QUEUE_NODE_MAX    64

#define NGX_HTTP_WAITING_QUEUE_PREFIX_MAX  64

/*
 * Of worker_connections, besides the streams: the links to Redis, listening
 * sockets, and those who ask for the page, for JSON, and for what is behind the
 * gate.
 */
#define NGX_HTTP_WAITING_QUEUE_RESERVE     64


static void *ngx_http_waiting_queue_create_main_conf(ngx_conf_t *cf);
static char *ngx_http_waiting_queue_init_main_conf(ngx_conf_t *cf, void *conf);
static void *ngx_http_waiting_queue_create_loc_conf(ngx_conf_t *cf);
static char *ngx_http_waiting_queue_merge_loc_conf(ngx_conf_t *cf,
    void *parent, void *child);
static char *ngx_http_waiting_queue_redis(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
static char *ngx_http_waiting_queue_instance(ngx_conf_t *cf,
    ngx_command_t *cmd, void *conf);
static char *ngx_http_waiting_queue_prefix(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
static char *ngx_http_waiting_queue_zone(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
static char *ngx_http_waiting_queue_status(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
static char *ngx_http_waiting_queue_endpoint(ngx_conf_t *cf,
    ngx_command_t *cmd, void *conf);
static ngx_int_t ngx_http_waiting_queue_default_node(ngx_conf_t *cf,
    ngx_str_t *node);
static ngx_int_t ngx_http_waiting_queue_init(ngx_conf_t *cf);
static ngx_int_t ngx_http_waiting_queue_init_module(ngx_cycle_t *cycle);
static ngx_int_t ngx_http_waiting_queue_init_process(ngx_cycle_t *cycle);
static void ngx_http_waiting_queue_exit_process(ngx_cycle_t *cycle);


static ngx_command_t  ngx_http_waiting_queue_commands[] = {

    { ngx_string("waiting_queue_redis"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_1MORE,
      ngx_http_waiting_queue_redis,
      NGX_HTTP_MAIN_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("waiting_queue_instance"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE1,
      ngx_http_waiting_queue_instance,
      NGX_HTTP_MAIN_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("waiting_queue_prefix"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE1,
      ngx_http_waiting_queue_prefix,
      NGX_HTTP_MAIN_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("waiting_queue_zone"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE1,
      ngx_http_waiting_queue_zone,
      NGX_HTTP_MAIN_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("waiting_queue_interval"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE1,
      ngx_http_waiting_queue_interval,
      NGX_HTTP_MAIN_CONF_OFFSET,
      offsetof(ngx_http_wq_main_conf_t, queue.interval),
      NULL },

    { ngx_string("waiting_queue_promote_interval"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE1,
      ngx_http_waiting_queue_interval,
      NGX_HTTP_MAIN_CONF_OFFSET,
      offsetof(ngx_http_wq_main_conf_t, queue.promote_interval),
      NULL },

    { ngx_string("waiting_queue_drain"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE1,
      ngx_http_waiting_queue_drain,
      NGX_HTTP_MAIN_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("waiting_queue_max_streams"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE1,
      ngx_http_waiting_queue_max_streams,
      NGX_HTTP_MAIN_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("waiting_queue"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF
                        |NGX_CONF_FLAG,
      ngx_http_waiting_queue_gate,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_wq_loc_conf_t, gate),
      NULL },

    { ngx_string("waiting_queue_page"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF
                        |NGX_CONF_TAKE1,
      ngx_http_waiting_queue_page,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("waiting_queue_code"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF
                        |NGX_CONF_TAKE1,
      ngx_http_waiting_queue_code,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("waiting_queue_on_error"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF
                        |NGX_CONF_TAKE1,
      ngx_http_waiting_queue_on_error,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("waiting_queue_bypass"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF
                        |NGX_CONF_1MORE,
      ngx_http_set_predicate_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_wq_loc_conf_t, bypass),
      NULL },

    { ngx_string("waiting_queue_dry_run"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF
                        |NGX_CONF_FLAG,
      ngx_conf_set_flag_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_wq_loc_conf_t, dry_run),
      NULL },

    { ngx_string("waiting_queue_poll_timeout"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF
                        |NGX_CONF_TAKE1,
      ngx_http_waiting_queue_poll_timeout,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("waiting_queue_seat_lock"),
      NGX_HTTP_LOC_CONF|NGX_CONF_TAKE123,
      ngx_http_waiting_queue_seat_lock,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("waiting_queue_stream"),
      NGX_HTTP_LOC_CONF|NGX_CONF_NOARGS,
      ngx_http_waiting_queue_endpoint,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      ngx_http_wq_stream_handler },

    { ngx_string("waiting_queue_api"),
      NGX_HTTP_LOC_CONF|NGX_CONF_NOARGS,
      ngx_http_waiting_queue_endpoint,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      ngx_http_wq_api_handler },

    { ngx_string("waiting_queue_event"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF
                        |NGX_CONF_TAKE1,
      ngx_http_waiting_queue_event,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("waiting_queue_user"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF
                        |NGX_CONF_TAKE1,
      ngx_http_waiting_queue_user,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("waiting_queue_capacity"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF
                        |NGX_CONF_TAKE12,
      ngx_http_waiting_queue_capacity,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("waiting_queue_rate"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF
                        |NGX_CONF_1MORE,
      ngx_http_waiting_queue_rate,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("waiting_queue_ttl"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF
                        |NGX_CONF_TAKE123,
      ngx_http_waiting_queue_ttl,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("waiting_queue_release"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF
                        |NGX_CONF_TAKE1,
      ngx_http_waiting_queue_release,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("waiting_queue_grace"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF
                        |NGX_CONF_TAKE1,
      ngx_http_waiting_queue_grace,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("waiting_queue_max_waiting"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF
                        |NGX_CONF_TAKE1,
      ngx_http_waiting_queue_max_waiting,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("waiting_queue_status"),
      NGX_HTTP_LOC_CONF|NGX_CONF_NOARGS|NGX_CONF_TAKE1,
      ngx_http_waiting_queue_status,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

      ngx_null_command
};


static ngx_http_module_t  ngx_http_waiting_queue_module_ctx = {
    ngx_http_wq_variables_add,               /* preconfiguration */
    ngx_http_waiting_queue_init,             /* postconfiguration */

    ngx_http_waiting_queue_create_main_conf, /* create main configuration */
    ngx_http_waiting_queue_init_main_conf,   /* init main configuration */

    NULL,                                    /* create server configuration */
    NULL,                                    /* merge server configuration */

    ngx_http_waiting_queue_create_loc_conf,  /* create location configuration */
    ngx_http_waiting_queue_merge_loc_conf    /* merge location configuration */
};


ngx_module_t  ngx_http_waiting_queue_module = {
    NGX_MODULE_V1,
    &ngx_http_waiting_queue_module_ctx,      /* module context */
    ngx_http_waiting_queue_commands,         /* module directives */
    NGX_HTTP_MODULE,                         /* module type */
    NULL,                                    /* init master */
    ngx_http_waiting_queue_init_module,      /* init module */
    ngx_http_waiting_queue_init_process,     /* init process */
    NULL,                                    /* init thread */
    NULL,                                    /* exit thread */
    ngx_http_waiting_queue_exit_process,     /* exit process */
    NULL,                                    /* exit master */
    NGX_MODULE_V1_PADDING
};


static void *
ngx_http_waiting_queue_create_main_conf(ngx_conf_t *cf)
{
    ngx_http_wq_main_conf_t  *mcf;

    mcf = ngx_pcalloc(cf->pool, sizeof(ngx_http_wq_main_conf_t));
    if (mcf == NULL) {
        return NULL;
    }

    /*
     * set by ngx_pcalloc():
     *
     *     mcf->queue.redis.set = 0;
     *     mcf->queue.prefix = { 0, NULL };
     *     mcf->queue.node = { 0, NULL };
     *     mcf->queue.zone = NULL;
     *     mcf->queue.used = 0;
     *     mcf->page = NULL;
     *     mcf->seat_lock = 0;
     */

    mcf->queue.zone_size = NGX_CONF_UNSET_SIZE;
    mcf->queue.interval = NGX_CONF_UNSET_MSEC;
    mcf->queue.promote_interval = NGX_CONF_UNSET_MSEC;
    mcf->queue.drain = NGX_CONF_UNSET_MSEC;
    mcf->queue.max_streams = NGX_CONF_UNSET_UINT;

    return mcf;
}


static char *
ngx_http_waiting_queue_init_main_conf(ngx_conf_t *cf, void *conf)
{
    ngx_http_wq_main_conf_t *mcf = conf;

    static ngx_str_t  words[] = {
        ngx_string("waiting_queue_redis"),
        ngx_string(NGX_HTTP_WQ_DEFAULT_REDIS)
    };

    ngx_conf_init_size_value(mcf->queue.zone_size,
                             NGX_HTTP_WQ_ZONE_DEFAULT_SIZE);
    ngx_conf_init_msec_value(mcf->queue.interval,
                             NGX_HTTP_WQ_DEFAULT_INTERVAL);
    ngx_conf_init_msec_value(mcf->queue.promote_interval,
                             NGX_HTTP_WQ_DEFAULT_INTERVAL);
    ngx_conf_init_msec_value(mcf->queue.drain, NGX_HTTP_WQ_DEFAULT_DRAIN);
    ngx_conf_init_uint_value(mcf->queue.max_streams, 0);

    if (mcf->queue.node.len == 0
        && ngx_http_waiting_queue_default_node(cf, &mcf->queue.node) != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    if (!mcf->queue.redis.set) {
        return ngx_http_wq_redis_conf_parse(cf, &mcf->queue.redis, words, 2);
    }

    return NGX_CONF_OK;
}


static void *
ngx_http_waiting_queue_create_loc_conf(ngx_conf_t *cf)
{
    ngx_http_wq_loc_conf_t  *lcf;

    lcf = ngx_pcalloc(cf->pool, sizeof(ngx_http_wq_loc_conf_t));
    if (lcf == NULL) {
        return NULL;
    }

    lcf->status = NGX_CONF_UNSET_UINT;

    ngx_http_wq_conf_init(lcf);

    return lcf;
}


static char *
ngx_http_waiting_queue_merge_loc_conf(ngx_conf_t *cf, void *parent,
    void *child)
{
    ngx_http_wq_loc_conf_t *prev = parent;
    ngx_http_wq_loc_conf_t *conf = child;

    /* for the sake of `if`, which inherits the handler of its location too */
    ngx_conf_merge_uint_value(conf->status, prev->status,
                              NGX_HTTP_WQ_STATUS_JSON);

    return ngx_http_wq_conf_merge(cf, prev, conf);
}


static char *
ngx_http_waiting_queue_redis(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_wq_main_conf_t *mcf = conf;

    mcf->queue.used = 1;

    return ngx_http_wq_redis_conf_parse(cf, &mcf->queue.redis, cf->args->elts,
                                        cf->args->nelts);
}


static char *
ngx_http_waiting_queue_instance(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_wq_main_conf_t *mcf = conf;

    ngx_str_t  *value;

    if (mcf->queue.node.len) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (value[1].len > NGX_HTTP_WAITING_QUEUE_NODE_MAX
        || wq_id_check(value[1].data, value[1].len) != WQ_OK)
    {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"waiting_queue_instance\" directive: invalid "
                           "name \"%V\", must be 1 to %d of "
                           "A-Z a-z 0-9 . _ ~ @ : -", &value[1],
                           NGX_HTTP_WAITING_QUEUE_NODE_MAX);
        return NGX_CONF_ERROR;
    }

    mcf->queue.node = value[1];

    return NGX_CONF_OK;
}


/*
 * A prefix has the characters of an id: above all no brace, which would be
 * taken for the beginning of a Redis Cluster hash tag.
 */

static char *
ngx_http_waiting_queue_prefix(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_wq_main_conf_t *mcf = conf;

    ngx_str_t  *value;

    if (mcf->queue.prefix.data) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (value[1].len > NGX_HTTP_WAITING_QUEUE_PREFIX_MAX
        || (value[1].len
            && wq_id_check(value[1].data, value[1].len) != WQ_OK))
    {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"waiting_queue_prefix\" directive: invalid "
                           "prefix \"%V\", must be at most %d of "
                           "A-Z a-z 0-9 . _ ~ @ : -", &value[1],
                           NGX_HTTP_WAITING_QUEUE_PREFIX_MAX);
        return NGX_CONF_ERROR;
    }

    mcf->queue.prefix = value[1];

    return NGX_CONF_OK;
}


static char *
ngx_http_waiting_queue_zone(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_wq_main_conf_t *mcf = conf;

    ssize_t     size;
    ngx_str_t  *value;

    if (mcf->queue.zone_size != NGX_CONF_UNSET_SIZE) {
        return "is duplicate";
    }

    value = cf->args->elts;

    size = ngx_parse_size(&value[1]);

    if (size == NGX_ERROR || size < NGX_HTTP_WQ_ZONE_MIN_SIZE) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"waiting_queue_zone\" directive: invalid size "
                           "\"%V\", must be a number with \"k\" or \"m\", "
                           "at least %dk", &value[1],
                           NGX_HTTP_WQ_ZONE_MIN_SIZE / 1024);
        return NGX_CONF_ERROR;
    }

    mcf->queue.zone_size = size;

    return NGX_CONF_OK;
}


static char *
ngx_http_waiting_queue_status(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_wq_loc_conf_t *lcf = conf;

    ngx_str_t                 *value;
    ngx_http_core_loc_conf_t  *clcf;
    ngx_http_wq_main_conf_t   *mcf;

    if (lcf->status != NGX_CONF_UNSET_UINT) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (cf->args->nelts == 1 || ngx_strcmp(value[1].data, "json") == 0) {
        lcf->status = NGX_HTTP_WQ_STATUS_JSON;

    } else if (ngx_strcmp(value[1].data, "prometheus") == 0) {
        lcf->status = NGX_HTTP_WQ_STATUS_PROMETHEUS;

    } else {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"waiting_queue_status\" directive: invalid "
                           "format \"%V\", must be \"json\" or "
                           "\"prometheus\"", &value[1]);
        return NGX_CONF_ERROR;
    }

    mcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_waiting_queue_module);
    mcf->queue.used = 1;

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);
    clcf->handler = ngx_http_wq_status_handler;

    return NGX_CONF_OK;
}


/* of a directive without a word, whose handler is in cmd->post */

static char *
ngx_http_waiting_queue_endpoint(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_core_loc_conf_t  *clcf;
    ngx_http_wq_main_conf_t   *mcf;

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

    if (clcf->handler == (ngx_http_handler_pt) cmd->post) {
        return "is duplicate";
    }

    mcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_waiting_queue_module);
    mcf->queue.used = 1;

    clcf->handler = (ngx_http_handler_pt) cmd->post;

    return NGX_CONF_OK;
}


/* the host's name, with whatever an id does not have replaced by a dash */

static ngx_int_t
ngx_http_waiting_queue_default_node(ngx_conf_t *cf, ngx_str_t *node)
{
    size_t  i;

    node->len = ngx_min(cf->cycle->hostname.len,
                        NGX_HTTP_WAITING_QUEUE_NODE_MAX);

    if (node->len == 0) {
        ngx_str_set(node, "nginx");
        return NGX_OK;
    }

    node->data = ngx_pnalloc(cf->pool, node->len);
    if (node->data == NULL) {
        return NGX_ERROR;
    }

    for (i = 0; i < node->len; i++) {
        node->data[i] = cf->cycle->hostname.data[i];

        if (wq_id_check(&node->data[i], 1) != WQ_OK) {
            node->data[i] = '-';
        }
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_waiting_queue_init(ngx_conf_t *cf)
{
    ngx_http_wq_main_conf_t   *mcf;
    ngx_http_core_loc_conf_t  *clcf;

    mcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_waiting_queue_module);

    if (!mcf->queue.used) {
        return NGX_OK;
    }

    if (mcf->seat_lock && ngx_http_wq_seat_lock_init(cf) != NGX_OK) {
        return NGX_ERROR;
    }

    if (ngx_http_wq_gate_init(cf) != NGX_OK) {
        return NGX_ERROR;
    }

    mcf->queue.zone = ngx_http_wq_zone_add(cf, mcf->queue.zone_size,
                                           &ngx_http_waiting_queue_module);
    if (mcf->queue.zone == NULL) {
        return NGX_ERROR;
    }

    /* of the http{} block itself; without `resolver` it has no servers */

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

    if (clcf->resolver && clcf->resolver->connections.nelts) {
        mcf->queue.redis.resolver = clcf->resolver;
        mcf->queue.redis.resolver_timeout =
            (clcf->resolver_timeout == NGX_CONF_UNSET_MSEC)
            ? 30000 : clcf->resolver_timeout;
    }

    return NGX_OK;
}


/*
 * A new configuration.  Only a single process (`master_process off`) can have
 * a worker here; nginx starts none anew for it, but frees what the old one
 * uses.
 */

static ngx_int_t
ngx_http_waiting_queue_init_module(ngx_cycle_t *cycle)
{
    ngx_uint_t                needed;
    ngx_http_wq_main_conf_t  *mcf;

    ngx_http_wq_worker_stop();

    mcf = ngx_http_cycle_get_module_main_conf(cycle,
                                              ngx_http_waiting_queue_module);

    if (mcf && mcf->queue.used && mcf->queue.max_streams) {
        needed = mcf->queue.max_streams + NGX_HTTP_WAITING_QUEUE_RESERVE;

        /* not known before, as events{} may stand behind http{} */

        if (cycle->connection_n < needed) {
            ngx_log_error(NGX_LOG_WARN, cycle->log, 0,
                          "\"waiting_queue_max_streams\" is %ui, for which at "
                          "least %ui \"worker_connections\" are needed, but "
                          "there are %ui", mcf->queue.max_streams, needed,
                          cycle->connection_n);
        }
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_waiting_queue_init_process(ngx_cycle_t *cycle)
{
    ngx_http_wq_main_conf_t  *mcf;

    if (ngx_process != NGX_PROCESS_WORKER
        && ngx_process != NGX_PROCESS_SINGLE)
    {
        return NGX_OK;
    }

    mcf = ngx_http_cycle_get_module_main_conf(cycle,
                                              ngx_http_waiting_queue_module);

    if (mcf && mcf->queue.used) {
        ngx_http_wq_wheel_init(cycle->log);
        ngx_http_wq_worker_start(&mcf->queue, cycle->log);
    }

    return NGX_OK;
}


static void
ngx_http_waiting_queue_exit_process(ngx_cycle_t *cycle)
{
    ngx_http_wq_worker_stop();
}
