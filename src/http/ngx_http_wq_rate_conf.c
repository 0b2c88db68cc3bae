
/* http: waiting_queue_rate, said as a rate or by what the backend can do */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_wq_conf.h"


#define NGX_HTTP_WQ_RATE_PERIOD_MIN       10
#define NGX_HTTP_WQ_RATE_DEFAULT_LOAD     800
#define NGX_HTTP_WQ_RATE_DEFAULT_SESSION  300000

/* what has not been said */
#define NGX_HTTP_WQ_RATE_UNSET            ((uint64_t) -1)


typedef struct {
    ngx_str_t   name;       /* with its "=" */
    size_t      offset;     /* in wq_backend_t */
} ngx_http_wq_rate_number_t;


static char *ngx_http_wq_rate_plain(ngx_conf_t *cf,
    ngx_http_wq_loc_conf_t *lcf, ngx_str_t *value);
static char *ngx_http_wq_rate_backend(ngx_conf_t *cf,
    ngx_http_wq_loc_conf_t *lcf);
static ngx_int_t ngx_http_wq_rate_parameter(ngx_str_t *parameter,
    wq_backend_t *backend);


static const ngx_http_wq_rate_number_t  ngx_http_wq_rate_numbers[] = {
    { ngx_string("tps="), offsetof(wq_backend_t, tps) },
    { ngx_string("calls="), offsetof(wq_backend_t, calls) },
    { ngx_string("failure="), offsetof(wq_backend_t, failure) },
    { ngx_string("load="), offsetof(wq_backend_t, load) },
    { ngx_string("session="), offsetof(wq_backend_t, session_ms) },
    { ngx_null_string, 0 }
};


char *
ngx_http_waiting_queue_rate(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_wq_loc_conf_t *lcf = conf;

    ngx_str_t  *value;

    if (lcf->has_rate) {
        return "is duplicate";
    }

    lcf->has_rate = 1;

    value = cf->args->elts;

    if (ngx_strlchr(value[1].data, value[1].data + value[1].len, '=')) {
        return ngx_http_wq_rate_backend(cf, lcf);
    }

    if (cf->args->nelts > 2) {
        return ngx_http_wq_conf_invalid(cf, "waiting_queue_rate", "parameter",
                                        &value[2],
                                        "can only stand with \"tps=\"");
    }

    if (ngx_strcmp(value[1].data, "off") == 0) {
        return NGX_CONF_OK;
    }

    return ngx_http_wq_rate_plain(cf, lcf, &value[1]);
}


/* so many in so long: "1400/10s" */

static char *
ngx_http_wq_rate_plain(ngx_conf_t *cf, ngx_http_wq_loc_conf_t *lcf,
    ngx_str_t *value)
{
    if (ngx_http_wq_conf_rate(value, &lcf->rate) == NGX_OK) {
        return NGX_CONF_OK;
    }

    return ngx_http_wq_conf_invalid(cf, "waiting_queue_rate", "rate", value,
                                    "must be users and a time, as \"1400/10s\""
                                    ", of 1 to 100000000 and 10ms to 1d, or "
                                    "\"off\", or begin with \"tps=\"");
}


ngx_int_t
ngx_http_wq_conf_rate(ngx_str_t *text, wq_rate_t *rate)
{
    u_char      *slash;
    ngx_int_t    users;
    ngx_str_t    time;
    ngx_msec_t   ms;

    slash = ngx_strlchr(text->data, text->data + text->len, '/');

    if (slash == NULL) {
        return NGX_ERROR;
    }

    time.data = slash + 1;
    time.len = text->data + text->len - time.data;

    users = ngx_atoi(text->data, slash - text->data);

    if (users < 1 || users > WQ_RATE_USERS_MAX
        || ngx_http_wq_conf_time(&time, NGX_HTTP_WQ_RATE_PERIOD_MIN, &ms)
           != NGX_OK
        || ms > WQ_RATE_PERIOD_MAX)
    {
        return NGX_ERROR;
    }

    rate->users = (uint32_t) users;
    rate->period_ms = (uint32_t) ms;

    return NGX_OK;
}


/* from the throughput of the backend; what follows is said at notice */

static char *
ngx_http_wq_rate_backend(ngx_conf_t *cf, ngx_http_wq_loc_conf_t *lcf)
{
    ngx_int_t      rc;
    ngx_str_t     *value;
    wq_plan_t      plan;
    ngx_uint_t     i;
    wq_backend_t   backend;

    value = cf->args->elts;

    backend.tps = NGX_HTTP_WQ_RATE_UNSET;
    backend.calls = NGX_HTTP_WQ_RATE_UNSET;
    backend.failure = NGX_HTTP_WQ_RATE_UNSET;
    backend.load = NGX_HTTP_WQ_RATE_UNSET;
    backend.session_ms = NGX_HTTP_WQ_RATE_UNSET;

    for (i = 1; i < cf->args->nelts; i++) {

        rc = ngx_http_wq_rate_parameter(&value[i], &backend);

        if (rc == NGX_OK) {
            continue;
        }

        return ngx_http_wq_conf_invalid(cf, "waiting_queue_rate", "parameter",
                                        &value[i],
                                        rc == NGX_BUSY ? "is duplicate"
                                        : rc == NGX_DECLINED
                                        ? "must be \"tps=\", \"calls=\", "
                                          "\"failure=\", \"session=\" or "
                                          "\"load=\""
                                        : "must be a number as 12 or 0.15, or "
                                          "of session a time");
    }

    if (backend.tps == NGX_HTTP_WQ_RATE_UNSET
        || backend.calls == NGX_HTTP_WQ_RATE_UNSET)
    {
        return "needs both \"tps=\" and \"calls=\"";
    }

    if (backend.failure == NGX_HTTP_WQ_RATE_UNSET) {
        backend.failure = 0;
    }

    if (backend.load == NGX_HTTP_WQ_RATE_UNSET) {
        backend.load = NGX_HTTP_WQ_RATE_DEFAULT_LOAD;
    }

    if (backend.session_ms == NGX_HTTP_WQ_RATE_UNSET) {
        backend.session_ms = NGX_HTTP_WQ_RATE_DEFAULT_SESSION;
    }

    if (wq_rate_plan(&backend, &plan) != WQ_OK) {
        return "has numbers that give no rate: none but \"failure=\" can be 0, "
               "\"load=\" is at most 1, and at least one user a minute must "
               "come of them";
    }

    lcf->rate = plan.rate;
    lcf->concurrent = plan.concurrent;

    ngx_conf_log_error(NGX_LOG_NOTICE, cf, 0,
                       "\"waiting_queue_rate\" is %uD in %uDms, with %uL "
                       "inside at once; %uL in %uLms by the formulas",
                       plan.rate.users, plan.rate.period_ms, plan.concurrent,
                       plan.per_cycle, plan.cycle_ms);

    return NGX_CONF_OK;
}


/*
 * NGX_OK; NGX_DECLINED: there is no such parameter; NGX_BUSY: it was said
 * already; NGX_ERROR: its value is none.
 */

static ngx_int_t
ngx_http_wq_rate_parameter(ngx_str_t *parameter, wq_backend_t *backend)
{
    uint64_t                         *number;
    ngx_str_t                         text;
    ngx_msec_t                        ms;
    const ngx_http_wq_rate_number_t  *n;

    for (n = ngx_http_wq_rate_numbers; n->name.len; n++) {
        if (parameter->len >= n->name.len
            && ngx_strncmp(parameter->data, n->name.data, n->name.len) == 0)
        {
            break;
        }
    }

    if (n->name.len == 0) {
        return NGX_DECLINED;
    }

    number = (uint64_t *) ((u_char *) backend + n->offset);

    if (*number != NGX_HTTP_WQ_RATE_UNSET) {
        return NGX_BUSY;
    }

    text.data = parameter->data + n->name.len;
    text.len = parameter->len - n->name.len;

    if (number != &backend->session_ms) {
        return wq_decimal_parse(text.data, text.len, number) == WQ_OK
               ? NGX_OK : NGX_ERROR;
    }

    if (ngx_http_wq_conf_time(&text, 1, &ms) != NGX_OK) {
        return NGX_ERROR;
    }

    *number = ms;

    return NGX_OK;
}
