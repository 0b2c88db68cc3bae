
/* http: the directives of the gate */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_wq_conf.h"


#define NGX_HTTP_WQ_DEFAULT_CODE          503
#define NGX_HTTP_WQ_DEFAULT_POLL_TIMEOUT  30000

/* nobody is told to ask again sooner than in 1 s */
#define NGX_HTTP_WQ_POLL_TIMEOUT_MIN      2000


static ngx_int_t ngx_http_wq_gate_conf_ration(ngx_str_t *text,
    wq_rate_t *ration);


void
ngx_http_wq_gate_conf_init(ngx_http_wq_loc_conf_t *lcf)
{
    /*
     * set by ngx_pcalloc():
     *
     *     lcf->page = NULL;
     *     lcf->ration = { 0, 0 };
     */

    lcf->gate = NGX_CONF_UNSET;
    lcf->dry_run = NGX_CONF_UNSET;
    lcf->pass_on_error = NGX_CONF_UNSET_UINT;
    lcf->code = NGX_CONF_UNSET_UINT;
    lcf->bypass = NGX_CONF_UNSET_PTR;
    lcf->poll_timeout = NGX_CONF_UNSET_MSEC;
}


char *
ngx_http_wq_gate_conf_merge(ngx_conf_t *cf, ngx_http_wq_loc_conf_t *prev,
    ngx_http_wq_loc_conf_t *conf)
{
    ngx_http_wq_main_conf_t  *mcf;

    ngx_conf_merge_value(conf->gate, prev->gate, 0);
    ngx_conf_merge_value(conf->dry_run, prev->dry_run, 0);

    if (conf->pass_on_error == NGX_CONF_UNSET_UINT) {
        conf->ration = prev->ration;
    }

    ngx_conf_merge_uint_value(conf->pass_on_error, prev->pass_on_error, 0);
    ngx_conf_merge_uint_value(conf->code, prev->code,
                              NGX_HTTP_WQ_DEFAULT_CODE);
    ngx_conf_merge_ptr_value(conf->bypass, prev->bypass, NULL);
    ngx_conf_merge_msec_value(conf->poll_timeout, prev->poll_timeout,
                              NGX_HTTP_WQ_DEFAULT_POLL_TIMEOUT);

    if (conf->page == NULL) {
        conf->page = prev->page;
    }

    if (!conf->gate || conf->page) {
        return NGX_CONF_OK;
    }

    /* one is enough for all who have none of their own */

    mcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_waiting_queue_module);

    if (mcf->page == NULL) {
        mcf->page = ngx_http_wq_page_create(cf, NULL);
        if (mcf->page == NULL) {
            return NGX_CONF_ERROR;
        }
    }

    conf->page = mcf->page;

    return NGX_CONF_OK;
}


char *
ngx_http_waiting_queue_gate(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    char                     *rc;
    ngx_str_t                *value;
    ngx_http_wq_main_conf_t  *mcf;

    rc = ngx_conf_set_flag_slot(cf, cmd, conf);

    if (rc != NGX_CONF_OK) {
        return rc;
    }

    value = cf->args->elts;

    if (ngx_strcasecmp(value[1].data, (u_char *) "on") == 0) {
        mcf = ngx_http_conf_get_module_main_conf(cf,
                                               ngx_http_waiting_queue_module);
        mcf->queue.used = 1;
    }

    return NGX_CONF_OK;
}


char *
ngx_http_waiting_queue_page(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_wq_loc_conf_t *lcf = conf;

    ngx_str_t  *value;

    if (lcf->page) {
        return "is duplicate";
    }

    value = cf->args->elts;

    lcf->page = ngx_http_wq_page_create(cf, &value[1]);

    return lcf->page ? NGX_CONF_OK : NGX_CONF_ERROR;
}


/* what a browser shows and a cache does not keep: 200, 202, or an error */

char *
ngx_http_waiting_queue_code(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_wq_loc_conf_t *lcf = conf;

    ngx_int_t   code;
    ngx_str_t  *value;

    if (lcf->code != NGX_CONF_UNSET_UINT) {
        return "is duplicate";
    }

    value = cf->args->elts;

    code = ngx_atoi(value[1].data, value[1].len);

    if (code != 200 && code != 202 && (code < 400 || code > 599)) {
        return ngx_http_wq_conf_invalid(cf, "waiting_queue_code", "code",
                                        &value[1],
                                        "must be 200, 202 or 400 to 599");
    }

    lcf->code = (ngx_uint_t) code;

    return NGX_CONF_OK;
}


char *
ngx_http_waiting_queue_on_error(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf)
{
    ngx_http_wq_loc_conf_t *lcf = conf;

    ngx_str_t   ration, *value;

    if (lcf->pass_on_error != NGX_CONF_UNSET_UINT) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (ngx_strcmp(value[1].data, "pass") == 0) {
        lcf->pass_on_error = 1;

    } else if (ngx_strcmp(value[1].data, "block") == 0) {
        lcf->pass_on_error = 0;

    } else if (ngx_strncmp(value[1].data, "pass=", 5) == 0) {
        lcf->pass_on_error = 1;

        ration.data = value[1].data + 5;
        ration.len = value[1].len - 5;

        if (ngx_http_wq_gate_conf_ration(&ration, &lcf->ration) != NGX_OK) {
            return ngx_http_wq_conf_invalid(cf, "waiting_queue_on_error",
                                            "ration", &ration,
                                            "must be requests and a time, as "
                                            "\"20/1s\", of 1 to 100000000 "
                                            "and 10ms to 1d");
        }

    } else {
        return ngx_http_wq_conf_invalid(cf, "waiting_queue_on_error", "value",
                                        &value[1],
                                        "must be \"pass\", \"block\", or a "
                                        "ration as \"pass=20/1s\"");
    }

    return NGX_CONF_OK;
}


/* a rate, whose time may be a unit alone: "20/s" is "20/1s" */

static ngx_int_t
ngx_http_wq_gate_conf_ration(ngx_str_t *text, wq_rate_t *ration)
{
    u_char      unit;
    ngx_str_t   one;
    /* the largest number with a slash, a digit and the unit */
    u_char      data[sizeof("100000000/1s")];

    unit = text->len > 2 ? text->data[text->len - 1] : '\0';

    if ((unit != 's' && unit != 'm' && unit != 'h' && unit != 'd')
        || text->data[text->len - 2] != '/' || text->len >= sizeof(data))
    {
        return ngx_http_wq_conf_rate(text, ration);
    }

    one.data = data;
    one.len = ngx_snprintf(data, sizeof(data), "%*s1%c", text->len - 1,
                           text->data, unit)
              - data;

    return ngx_http_wq_conf_rate(&one, ration);
}


char *
ngx_http_waiting_queue_poll_timeout(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf)
{
    ngx_http_wq_loc_conf_t *lcf = conf;

    ngx_str_t  *value;

    if (lcf->poll_timeout != NGX_CONF_UNSET_MSEC) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (ngx_http_wq_conf_time(&value[1], NGX_HTTP_WQ_POLL_TIMEOUT_MIN,
                              &lcf->poll_timeout)
        != NGX_OK)
    {
        return ngx_http_wq_conf_invalid(cf, "waiting_queue_poll_timeout",
                                        "time", &value[1],
                                        "must be a time of 2s to 365d");
    }

    return NGX_CONF_OK;
}
