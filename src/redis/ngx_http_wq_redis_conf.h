
/* redis: what `waiting_queue_redis` says */


#ifndef NGX_HTTP_WQ_REDIS_CONF_H_INCLUDED_
#define NGX_HTTP_WQ_REDIS_CONF_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


#define NGX_HTTP_WQ_DEFAULT_REDIS      "redis://127.0.0.1:6379"
#define NGX_HTTP_WQ_DEFAULT_TIMEOUT    2000
#define NGX_HTTP_WQ_DEFAULT_IN_FLIGHT  8192


/* one place to connect to, in the form hiredis takes */

typedef struct {
    u_char                      *host;      /* numeric, or a socket's path */
    in_port_t                    port;
    unsigned                     unix_socket:1;
    ngx_str_t                    text;      /* for logs */
} ngx_http_wq_address_t;


typedef struct {
    ngx_array_t                  addresses; /* of ngx_http_wq_address_t */

    ngx_str_t                    name;      /* len 0: nothing to resolve */
    in_port_t                    port;

    ngx_str_t                    user;
    ngx_str_t                    password;
    ngx_uint_t                   db;

    ngx_msec_t                   timeout;   /* of a connect, of a command */
    ngx_uint_t                   in_flight; /* commands, per connection */

    /* of the http{} block; NULL: names are resolved when nginx starts */
    ngx_resolver_t              *resolver;
    ngx_msec_t                   resolver_timeout;

    ngx_uint_t                   set;       /* unsigned  set:1; */
} ngx_http_wq_redis_conf_t;


/*
 * Parses the words of the directive, the first of which is its name.  Host
 * names are resolved here, where waiting is allowed.  Errors are logged with
 * the directive's name; a password is never logged.
 */

char *ngx_http_wq_redis_conf_parse(ngx_conf_t *cf, ngx_http_wq_redis_conf_t *rc,
    ngx_str_t *words, ngx_uint_t n);


#endif /* NGX_HTTP_WQ_REDIS_CONF_H_INCLUDED_ */
