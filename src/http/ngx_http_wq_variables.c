
/*
 * http: $waiting_queue_event and $waiting_queue_user.
 *
 * Who asks, and for which event, by the directives of the location that the
 * visitor asked for: in a subrequest they are the same as in its request.  An
 * id that would be refused is as if there was none, so that nothing else than
 * an id gets from here into an address, a header or a log.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_wq_http.h"


static ngx_int_t ngx_http_wq_variable_event(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_wq_variable_user(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static void ngx_http_wq_variable_set(ngx_http_variable_value_t *v,
    const ngx_str_t *id);


/* not cacheable: the location may not be the last one */

static ngx_http_variable_t  ngx_http_wq_variables[] = {

    { ngx_string("waiting_queue_event"), NULL, ngx_http_wq_variable_event, 0,
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("waiting_queue_user"), NULL, ngx_http_wq_variable_user, 0,
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

      ngx_http_null_variable
};


ngx_int_t
ngx_http_wq_variables_add(ngx_conf_t *cf)
{
    ngx_http_variable_t  *var, *v;

    for (v = ngx_http_wq_variables; v->name.len; v++) {

        var = ngx_http_add_variable(cf, &v->name, v->flags);
        if (var == NULL) {
            return NGX_ERROR;
        }

        var->get_handler = v->get_handler;
        var->data = v->data;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_wq_variable_event(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    ngx_str_t                event;
    ngx_http_wq_loc_conf_t  *lcf;

    lcf = ngx_http_get_module_loc_conf(r->main, ngx_http_waiting_queue_module);

    if (ngx_http_complex_value(r->main, lcf->event, &event) != NGX_OK) {
        return NGX_ERROR;
    }

    ngx_http_wq_variable_set(v, &event);

    return NGX_OK;
}


static ngx_int_t
ngx_http_wq_variable_user(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    ngx_str_t                user;
    ngx_http_wq_loc_conf_t  *lcf;

    lcf = ngx_http_get_module_loc_conf(r->main, ngx_http_waiting_queue_module);

    if (lcf->user == NULL) {

        if (ngx_http_wq_get_cookie_user(r->main, &user) != NGX_OK) {
            ngx_str_null(&user);
        }

    } else if (ngx_http_complex_value(r->main, lcf->user, &user) != NGX_OK) {
        return NGX_ERROR;
    }

    ngx_http_wq_variable_set(v, &user);

    return NGX_OK;
}


static void
ngx_http_wq_variable_set(ngx_http_variable_value_t *v, const ngx_str_t *id)
{
    if (wq_id_check(id->data, id->len) != WQ_OK) {
        v->not_found = 1;
        return;
    }

    v->len = id->len;
    v->data = id->data;

    v->valid = 1;
    v->no_cacheable = 0;
    v->not_found = 0;
}
