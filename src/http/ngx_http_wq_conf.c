
/* http: the directives of a location, and what they make of an event */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_wq_conf.h"

#include "wq_capacity.h"


#define NGX_HTTP_WQ_DEFAULT_CAPACITY  50
#define NGX_HTTP_WQ_DEFAULT_FIELD     "seatCount"
#define NGX_HTTP_WQ_DEFAULT_TTL       300000
#define NGX_HTTP_WQ_DEFAULT_CLAIM     60000

#define NGX_HTTP_WQ_TIME_MAX          ((ngx_msec_t) 365 * 24 * 3600 * 1000)
#define NGX_HTTP_WQ_MAX_WAITING_MAX   1000000000
#define NGX_HTTP_WQ_MAX_STREAMS_MAX   1000000


static char *ngx_http_wq_conf_capacity_uri(ngx_conf_t *cf,
    ngx_http_wq_loc_conf_t *lcf);
static char *ngx_http_wq_conf_default_event(ngx_conf_t *cf,
    ngx_http_wq_loc_conf_t *lcf);
static char *ngx_http_wq_conf_rules(ngx_conf_t *cf,
    ngx_http_wq_loc_conf_t *lcf);


#define NGX_HTTP_WQ_CONF_TIME                                                 \
    "must be a time of 1ms to 365d"


void
ngx_http_wq_conf_init(ngx_http_wq_loc_conf_t *lcf)
{
    /*
     * set by ngx_pcalloc():
     *
     *     lcf->event = NULL;
     *     lcf->user = NULL;
     *     lcf->capacity_uri = NULL;
     *     lcf->capacity_field = { 0, NULL };
     *     lcf->rate = { 0, 0 };
     *     lcf->concurrent = 0;
     *     lcf->has_rate = 0;
     *     lcf->rules = { 0 };
     *     lcf->seat = NULL;
     *     lcf->seat_wait = 0;
     *     lcf->seat_lease = 0;
     */

    lcf->capacity = NGX_CONF_UNSET;
    lcf->ttl = NGX_CONF_UNSET_MSEC;
    lcf->ttl_max = NGX_CONF_UNSET_MSEC;
    lcf->claim = NGX_CONF_UNSET_MSEC;
    lcf->grace = NGX_CONF_UNSET_MSEC;
    lcf->release = NGX_CONF_UNSET_UINT;
    lcf->max_waiting = NGX_CONF_UNSET;

    ngx_http_wq_gate_conf_init(lcf);
}


char *
ngx_http_wq_conf_merge(ngx_conf_t *cf, ngx_http_wq_loc_conf_t *prev,
    ngx_http_wq_loc_conf_t *conf)
{
    if (conf->event == NULL) {
        conf->event = prev->event;
    }

    if (conf->event == NULL
        && ngx_http_wq_conf_default_event(cf, conf) != NGX_CONF_OK)
    {
        return NGX_CONF_ERROR;
    }

    if (conf->user == NULL) {
        conf->user = prev->user;
    }

    if (conf->capacity == NGX_CONF_UNSET && conf->capacity_uri == NULL) {
        conf->capacity = prev->capacity;
        conf->capacity_uri = prev->capacity_uri;
        conf->capacity_field = prev->capacity_field;
    }

    if (conf->capacity == NGX_CONF_UNSET && conf->capacity_uri == NULL) {
        conf->capacity = NGX_HTTP_WQ_DEFAULT_CAPACITY;
    }

    if (!conf->has_rate) {
        conf->rate = prev->rate;
        conf->concurrent = prev->concurrent;
    }

    if (conf->ttl == NGX_CONF_UNSET_MSEC) {
        conf->ttl = prev->ttl;
        conf->ttl_max = prev->ttl_max;
        conf->claim = prev->claim;
    }

    if (conf->ttl == NGX_CONF_UNSET_MSEC) {
        conf->ttl = NGX_HTTP_WQ_DEFAULT_TTL;
        conf->ttl_max = 0;
        conf->claim = NGX_HTTP_WQ_DEFAULT_CLAIM;
    }

    ngx_conf_merge_msec_value(conf->grace, prev->grace,
                              NGX_HTTP_WQ_DEFAULT_GRACE);
    ngx_conf_merge_uint_value(conf->release, prev->release, 0);
    ngx_conf_merge_value(conf->max_waiting, prev->max_waiting, 0);

    if (ngx_http_wq_gate_conf_merge(cf, prev, conf) != NGX_CONF_OK) {
        return NGX_CONF_ERROR;
    }

    ngx_http_wq_seat_lock_merge(cf, prev, conf);

    return ngx_http_wq_conf_rules(cf, conf);
}


static char *
ngx_http_wq_conf_default_event(ngx_conf_t *cf, ngx_http_wq_loc_conf_t *lcf)
{
    ngx_str_t                          host = ngx_string("$host");
    ngx_http_compile_complex_value_t   ccv;

    lcf->event = ngx_palloc(cf->pool, sizeof(ngx_http_complex_value_t));
    if (lcf->event == NULL) {
        return NGX_CONF_ERROR;
    }

    ngx_memzero(&ccv, sizeof(ngx_http_compile_complex_value_t));

    ccv.cf = cf;
    ccv.value = &host;
    ccv.complex_value = lcf->event;

    if (ngx_http_compile_complex_value(&ccv) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


/* the settings as every join tells them to Redis */

static char *
ngx_http_wq_conf_rules(ngx_conf_t *cf, ngx_http_wq_loc_conf_t *lcf)
{
    size_t                len;
    u_char               *p;
    ngx_http_wq_rules_t  *rules;

    rules = &lcf->rules;

    len = sizeof("capacity= ttl= ttl_max= claim= max_waiting= grace= "
                 "poll_timeout= release= rate=/ms concurrent=")
          + 11 * NGX_INT64_LEN;

    p = ngx_pnalloc(cf->pool, len);
    if (p == NULL) {
        return NGX_CONF_ERROR;
    }

    rules->settings.data = p;

    if (lcf->capacity_uri == NULL) {
        p = ngx_sprintf(p, "capacity=%i ", lcf->capacity);
    }

    p = ngx_sprintf(p, "ttl=%M ttl_max=%M claim=%M max_waiting=%i grace=%M "
                    "poll_timeout=%M release=%ui",
                    lcf->ttl, lcf->ttl_max, lcf->claim, lcf->max_waiting,
                    lcf->grace, lcf->poll_timeout, lcf->release);

    if (lcf->rate.period_ms) {
        p = ngx_sprintf(p, " rate=%uD/%uDms", lcf->rate.users,
                        lcf->rate.period_ms);
    }

    if (lcf->concurrent) {
        p = ngx_sprintf(p, " concurrent=%uL", lcf->concurrent);
    }

    rules->settings.len = p - rules->settings.data;
    rules->grace = lcf->grace;
    rules->release = lcf->release;

    return NGX_CONF_OK;
}


char *
ngx_http_waiting_queue_event(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_wq_loc_conf_t *lcf = conf;

    return ngx_http_wq_conf_value(cf, cmd, &lcf->event);
}


char *
ngx_http_waiting_queue_user(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_wq_loc_conf_t *lcf = conf;

    return ngx_http_wq_conf_value(cf, cmd, &lcf->user);
}


char *
ngx_http_wq_conf_value(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_http_complex_value_t **value)
{
    ngx_str_t                         *args;
    ngx_http_compile_complex_value_t   ccv;

    if (*value) {
        return "is duplicate";
    }

    args = cf->args->elts;

    *value = ngx_palloc(cf->pool, sizeof(ngx_http_complex_value_t));
    if (*value == NULL) {
        return NGX_CONF_ERROR;
    }

    ngx_memzero(&ccv, sizeof(ngx_http_compile_complex_value_t));

    ccv.cf = cf;
    ccv.value = &args[1];
    ccv.complex_value = *value;

    if (ngx_http_compile_complex_value(&ccv) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    /* what can be known now is not left to every request to find out */

    if ((*value)->lengths == NULL
        && wq_id_check(args[1].data, args[1].len) != WQ_OK)
    {
        return ngx_http_wq_conf_invalid(cf, (char *) cmd->name.data, "id",
                                        &args[1],
                                        "must be 1 to 128 of "
                                        "A-Z a-z 0-9 . _ ~ @ : -");
    }

    return NGX_CONF_OK;
}


char *
ngx_http_waiting_queue_capacity(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_wq_loc_conf_t *lcf = conf;

    ngx_str_t  *value;

    if (lcf->capacity != NGX_CONF_UNSET || lcf->capacity_uri) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (ngx_strncmp(value[1].data, "uri=", 4) == 0) {
        return ngx_http_wq_conf_capacity_uri(cf, lcf);
    }

    if (cf->args->nelts == 3) {
        return ngx_http_wq_conf_invalid(cf, "waiting_queue_capacity",
                                        "parameter", &value[2],
                                        "can only follow \"uri=\"");
    }

    lcf->capacity = ngx_atoi(value[1].data, value[1].len);

    if (lcf->capacity == NGX_ERROR || lcf->capacity > WQ_CAPACITY_MAX) {
        return ngx_http_wq_conf_invalid(cf, "waiting_queue_capacity",
                                        "number", &value[1],
                                        "must be 0 to 1000000000, or "
                                        "\"uri=\" and where to ask");
    }

    return NGX_CONF_OK;
}


static char *
ngx_http_wq_conf_capacity_uri(ngx_conf_t *cf, ngx_http_wq_loc_conf_t *lcf)
{
    ngx_str_t                          uri, *value;
    ngx_http_compile_complex_value_t   ccv;

    value = cf->args->elts;

    uri.data = value[1].data + 4;
    uri.len = value[1].len - 4;

    if (uri.len == 0 || (uri.data[0] != '/' && uri.data[0] != '$')) {
        return ngx_http_wq_conf_invalid(cf, "waiting_queue_capacity", "uri",
                                        &uri, "must begin with \"/\"");
    }

    ngx_str_set(&lcf->capacity_field, NGX_HTTP_WQ_DEFAULT_FIELD);

    if (cf->args->nelts == 3) {

        if (ngx_strncmp(value[2].data, "field=", 6) != 0) {
            return ngx_http_wq_conf_invalid(cf, "waiting_queue_capacity",
                                            "parameter", &value[2],
                                            "must be \"field=\"");
        }

        lcf->capacity_field.data = value[2].data + 6;
        lcf->capacity_field.len = value[2].len - 6;

        if (wq_capacity_check_field(lcf->capacity_field.data,
                                    lcf->capacity_field.len)
            != WQ_OK)
        {
            return ngx_http_wq_conf_invalid(cf, "waiting_queue_capacity",
                                            "field", &lcf->capacity_field,
                                            "must be a name, or names joined "
                                            "by dots, of at most 128 "
                                            "characters");
        }
    }

    lcf->capacity_uri = ngx_palloc(cf->pool, sizeof(ngx_http_complex_value_t));
    if (lcf->capacity_uri == NULL) {
        return NGX_CONF_ERROR;
    }

    ngx_memzero(&ccv, sizeof(ngx_http_compile_complex_value_t));

    ccv.cf = cf;
    ccv.value = &uri;
    ccv.complex_value = lcf->capacity_uri;

    if (ngx_http_compile_complex_value(&ccv) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


char *
ngx_http_waiting_queue_ttl(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_wq_loc_conf_t *lcf = conf;

    ngx_str_t    time, *value;
    ngx_uint_t   i;
    ngx_msec_t  *ms;

    if (lcf->ttl != NGX_CONF_UNSET_MSEC) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (ngx_http_wq_conf_time(&value[1], 1, &lcf->ttl) != NGX_OK) {
        return ngx_http_wq_conf_invalid(cf, "waiting_queue_ttl", "time",
                                        &value[1], NGX_HTTP_WQ_CONF_TIME);
    }

    for (i = 2; i < cf->args->nelts; i++) {

        if (ngx_strncmp(value[i].data, "max=", 4) == 0) {
            ms = &lcf->ttl_max;
            time.data = value[i].data + 4;
            time.len = value[i].len - 4;

        } else if (ngx_strncmp(value[i].data, "claim=", 6) == 0) {
            ms = &lcf->claim;
            time.data = value[i].data + 6;
            time.len = value[i].len - 6;

        } else {
            return ngx_http_wq_conf_invalid(cf, "waiting_queue_ttl",
                                            "parameter", &value[i],
                                            "must be \"max=\" or \"claim=\"");
        }

        if (*ms != NGX_CONF_UNSET_MSEC) {
            return ngx_http_wq_conf_invalid(cf, "waiting_queue_ttl",
                                            "parameter", &value[i],
                                            "is duplicate");
        }

        if (ngx_http_wq_conf_time(&time, 1, ms) != NGX_OK) {
            return ngx_http_wq_conf_invalid(cf, "waiting_queue_ttl",
                                            "parameter", &value[i],
                                            NGX_HTTP_WQ_CONF_TIME);
        }
    }

    if (lcf->ttl_max == NGX_CONF_UNSET_MSEC) {
        lcf->ttl_max = 0;

    } else if (lcf->ttl_max < lcf->ttl) {
        return "has a \"max\" that is less than the time itself";
    }

    if (lcf->claim == NGX_CONF_UNSET_MSEC) {
        lcf->claim = ngx_min(NGX_HTTP_WQ_DEFAULT_CLAIM, lcf->ttl);

    } else if (lcf->claim > lcf->ttl) {
        return "has a \"claim\" that is more than the time itself";
    }

    return NGX_CONF_OK;
}


char *
ngx_http_waiting_queue_release(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_wq_loc_conf_t *lcf = conf;

    ngx_str_t  *value;

    if (lcf->release != NGX_CONF_UNSET_UINT) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (ngx_strcmp(value[1].data, "expiry") == 0) {
        lcf->release = 0;

    } else if (ngx_strcmp(value[1].data, "disconnect") == 0) {
        lcf->release = 1;

    } else {
        return ngx_http_wq_conf_invalid(cf, "waiting_queue_release", "value",
                                        &value[1], "must be \"expiry\" or "
                                        "\"disconnect\"");
    }

    return NGX_CONF_OK;
}


char *
ngx_http_waiting_queue_grace(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_wq_loc_conf_t *lcf = conf;

    ngx_str_t  *value;

    if (lcf->grace != NGX_CONF_UNSET_MSEC) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (ngx_http_wq_conf_time(&value[1], 0, &lcf->grace) != NGX_OK) {
        return ngx_http_wq_conf_invalid(cf, "waiting_queue_grace", "time",
                                        &value[1],
                                        "must be a time of 0 to 365d");
    }

    return NGX_CONF_OK;
}


char *
ngx_http_waiting_queue_max_waiting(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf)
{
    ngx_http_wq_loc_conf_t *lcf = conf;

    ngx_str_t  *value;

    if (lcf->max_waiting != NGX_CONF_UNSET) {
        return "is duplicate";
    }

    value = cf->args->elts;

    lcf->max_waiting = ngx_atoi(value[1].data, value[1].len);

    if (lcf->max_waiting == NGX_ERROR
        || lcf->max_waiting > NGX_HTTP_WQ_MAX_WAITING_MAX)
    {
        return ngx_http_wq_conf_invalid(cf, "waiting_queue_max_waiting",
                                        "number", &value[1],
                                        "must be 0 to 1000000000");
    }

    return NGX_CONF_OK;
}


char *
ngx_http_waiting_queue_max_streams(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf)
{
    ngx_http_wq_main_conf_t *mcf = conf;

    ngx_int_t   n;
    ngx_str_t  *value;

    if (mcf->queue.max_streams != NGX_CONF_UNSET_UINT) {
        return "is duplicate";
    }

    value = cf->args->elts;

    n = ngx_atoi(value[1].data, value[1].len);

    if (n == NGX_ERROR || n > NGX_HTTP_WQ_MAX_STREAMS_MAX) {
        return ngx_http_wq_conf_invalid(cf, "waiting_queue_max_streams",
                                        "number", &value[1],
                                        "must be 0 to 1000000");
    }

    mcf->queue.max_streams = (ngx_uint_t) n;

    return NGX_CONF_OK;
}


/* of the http block; cmd->offset is that of a ngx_msec_t */

char *
ngx_http_waiting_queue_interval(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    char *p = conf;

    ngx_str_t   *value;
    ngx_msec_t  *ms;

    ms = (ngx_msec_t *) (p + cmd->offset);

    if (*ms != NGX_CONF_UNSET_MSEC) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (ngx_http_wq_conf_time(&value[1], NGX_HTTP_WQ_INTERVAL_MIN, ms)
        != NGX_OK
        || *ms > NGX_HTTP_WQ_INTERVAL_MAX)
    {
        return ngx_http_wq_conf_invalid(cf, (char *) cmd->name.data, "time",
                                        &value[1],
                                        "must be a time of 20ms to 60s");
    }

    return NGX_CONF_OK;
}


char *
ngx_http_waiting_queue_drain(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_wq_main_conf_t *mcf = conf;

    ngx_str_t  *value;

    if (mcf->queue.drain != NGX_CONF_UNSET_MSEC) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (ngx_http_wq_conf_time(&value[1], 0, &mcf->queue.drain) != NGX_OK
        || mcf->queue.drain > NGX_HTTP_WQ_DRAIN_MAX)
    {
        return ngx_http_wq_conf_invalid(cf, "waiting_queue_drain", "time",
                                        &value[1],
                                        "must be a time of at most 1h");
    }

    return NGX_CONF_OK;
}


ngx_int_t
ngx_http_wq_conf_time(ngx_str_t *text, ngx_msec_t min, ngx_msec_t *ms)
{
    ngx_int_t  time;

    time = ngx_parse_time(text, 0);

    if (time == NGX_ERROR || (ngx_msec_t) time < min
        || (ngx_msec_t) time > NGX_HTTP_WQ_TIME_MAX)
    {
        return NGX_ERROR;
    }

    *ms = (ngx_msec_t) time;

    return NGX_OK;
}


char *
ngx_http_wq_conf_invalid(ngx_conf_t *cf, const char *directive,
    const char *what, ngx_str_t *value, const char *must)
{
    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "\"%s\" directive: invalid %s \"%V\", %s", directive,
                       what, value, must);

    return NGX_CONF_ERROR;
}
