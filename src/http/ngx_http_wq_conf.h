
/* http: the directives of a location, and what they make of an event */


#ifndef NGX_HTTP_WQ_CONF_H_INCLUDED_
#define NGX_HTTP_WQ_CONF_H_INCLUDED_


#include "ngx_http_wq_http.h"


#define NGX_HTTP_WQ_DEFAULT_INTERVAL  1000
#define NGX_HTTP_WQ_INTERVAL_MIN      20
#define NGX_HTTP_WQ_INTERVAL_MAX      60000
#define NGX_HTTP_WQ_DEFAULT_DRAIN     10000
#define NGX_HTTP_WQ_DRAIN_MAX         3600000


/* of a location: nothing is said yet; what its parent has said */

void ngx_http_wq_conf_init(ngx_http_wq_loc_conf_t *lcf);
char *ngx_http_wq_conf_merge(ngx_conf_t *cf, ngx_http_wq_loc_conf_t *prev,
    ngx_http_wq_loc_conf_t *conf);


/* the same for those of the gate */

void ngx_http_wq_gate_conf_init(ngx_http_wq_loc_conf_t *lcf);
char *ngx_http_wq_gate_conf_merge(ngx_conf_t *cf, ngx_http_wq_loc_conf_t *prev,
    ngx_http_wq_loc_conf_t *conf);


/* and for that of a seat's lock */

void ngx_http_wq_seat_lock_merge(ngx_conf_t *cf, ngx_http_wq_loc_conf_t *prev,
    ngx_http_wq_loc_conf_t *conf);


/* handlers of the directives of the same names, _gate that of waiting_queue */

char *ngx_http_waiting_queue_event(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_waiting_queue_user(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_waiting_queue_capacity(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_waiting_queue_rate(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_waiting_queue_ttl(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_waiting_queue_release(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_waiting_queue_grace(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_waiting_queue_max_waiting(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);

char *ngx_http_waiting_queue_gate(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_waiting_queue_page(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_waiting_queue_code(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_waiting_queue_on_error(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_waiting_queue_poll_timeout(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);

char *ngx_http_waiting_queue_seat_lock(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);

/* of the http block: a number of streams */

char *ngx_http_waiting_queue_max_streams(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);

/* of the http block: how long the streams of a worker that quits last */

char *ngx_http_waiting_queue_drain(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);

/* of both intervals */

char *ngx_http_waiting_queue_interval(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);


/* the first word of a directive, an id or what gives one for a request */

char *ngx_http_wq_conf_value(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_http_complex_value_t **value);

/* NGX_OK, or NGX_ERROR if it is no time from min ms to a year */

ngx_int_t ngx_http_wq_conf_time(ngx_str_t *text, ngx_msec_t min,
    ngx_msec_t *ms);

/* so many in so long, "1400/10s"; NGX_OK, or NGX_ERROR */

ngx_int_t ngx_http_wq_conf_rate(ngx_str_t *text, wq_rate_t *rate);

/* logs what is wrong with a word of a directive; NGX_CONF_ERROR */

char *ngx_http_wq_conf_invalid(ngx_conf_t *cf, const char *directive,
    const char *what, ngx_str_t *value, const char *must);


#endif /* NGX_HTTP_WQ_CONF_H_INCLUDED_ */
