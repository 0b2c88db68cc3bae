
/*
 * http: the variables $waiting_queue_*.
 *
 * Who asks, and for which event, by the directives of the location that the
 * visitor asked for: in a subrequest they are the same as in its request.  An
 * id that would be refused is as if there was none, so that nothing else than
 * an id gets from here into an address, a header or a log.  And what the gate
 * has found of the visitor; empty where there is no gate.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_wq_gate.h"


/* what is asked of the gate */

typedef enum {
    NGX_HTTP_WQ_VARIABLE_STATE = 0,
    NGX_HTTP_WQ_VARIABLE_POSITION,
    NGX_HTTP_WQ_VARIABLE_TOTAL,
    NGX_HTTP_WQ_VARIABLE_ETA,
    NGX_HTTP_WQ_VARIABLE_TOKEN,
    NGX_HTTP_WQ_VARIABLE_WAIT
} ngx_http_wq_variable_e;


static ngx_int_t ngx_http_wq_variable_event(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_wq_variable_user(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_wq_variable_id(ngx_http_variable_value_t *v,
    const ngx_str_t *id, ngx_int_t rc);
static ngx_int_t ngx_http_wq_variable_gate(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static const char *ngx_http_wq_variable_word(ngx_http_wq_gate_t *gate);
static void ngx_http_wq_variable_set(ngx_http_variable_value_t *v,
    u_char *data, size_t len);


/* not cacheable: the location may not be the last one */

static ngx_http_variable_t  ngx_http_wq_variables[] = {

    { ngx_string("waiting_queue_event"), NULL, ngx_http_wq_variable_event, 0,
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("waiting_queue_user"), NULL, ngx_http_wq_variable_user, 0,
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("waiting_queue_state"), NULL, ngx_http_wq_variable_gate,
      NGX_HTTP_WQ_VARIABLE_STATE, NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("waiting_queue_position"), NULL, ngx_http_wq_variable_gate,
      NGX_HTTP_WQ_VARIABLE_POSITION, NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("waiting_queue_total"), NULL, ngx_http_wq_variable_gate,
      NGX_HTTP_WQ_VARIABLE_TOTAL, NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("waiting_queue_eta"), NULL, ngx_http_wq_variable_gate,
      NGX_HTTP_WQ_VARIABLE_ETA, NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("waiting_queue_token"), NULL, ngx_http_wq_variable_gate,
      NGX_HTTP_WQ_VARIABLE_TOKEN, NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("waiting_queue_wait"), NULL, ngx_http_wq_variable_gate,
      NGX_HTTP_WQ_VARIABLE_WAIT, NGX_HTTP_VAR_NOCACHEABLE, 0 },

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
    ngx_int_t  rc;
    ngx_str_t  event;

    rc = ngx_http_wq_find_event(r->main, &event);

    return ngx_http_wq_variable_id(v, &event, rc);
}


static ngx_int_t
ngx_http_wq_variable_user(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    ngx_int_t            rc;
    ngx_str_t            user;
    ngx_http_wq_gate_t  *gate;

    gate = ngx_http_wq_gate_get(r);

    if (gate && gate->new_user) {
        /* who has no cookie yet has just got one */
        return ngx_http_wq_variable_id(v, &gate->user, NGX_OK);
    }

    rc = ngx_http_wq_find_user(r->main, &user);

    return ngx_http_wq_variable_id(v, &user, rc);
}


/* rc is what was returned by who looked for the id */

static ngx_int_t
ngx_http_wq_variable_id(ngx_http_variable_value_t *v, const ngx_str_t *id,
    ngx_int_t rc)
{
    if (rc == NGX_ERROR) {
        return NGX_ERROR;
    }

    if (rc == NGX_OK) {
        ngx_http_wq_variable_set(v, id->data, id->len);

    } else {
        v->not_found = 1;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_wq_variable_gate(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    u_char              *p;
    const char          *word;
    ngx_http_wq_gate_t  *gate;

    gate = ngx_http_wq_gate_get(r);

    v->not_found = 1;

    if (gate == NULL || gate->verdict == NGX_HTTP_WQ_GATE_ASKING) {
        return NGX_OK;
    }

    switch ((ngx_http_wq_variable_e) data) {

    case NGX_HTTP_WQ_VARIABLE_STATE:
        word = ngx_http_wq_variable_word(gate);

        if (word) {
            ngx_http_wq_variable_set(v, (u_char *) word, ngx_strlen(word));
        }

        return NGX_OK;

    case NGX_HTTP_WQ_VARIABLE_TOKEN:
        if (gate->has_lease) {
            ngx_http_wq_variable_set(v, gate->lease.token, WQ_TOKEN_LEN);
        }

        return NGX_OK;

    default:
        break;
    }

    p = ngx_pnalloc(r->pool, NGX_INT64_LEN + sizeof(".000"));
    if (p == NULL) {
        return NGX_ERROR;
    }

    if (data == NGX_HTTP_WQ_VARIABLE_POSITION && gate->rank >= 0) {
        ngx_http_wq_variable_set(v, p, ngx_sprintf(p, "%L", gate->rank + 1)
                                       - p);

    } else if (data == NGX_HTTP_WQ_VARIABLE_ETA && gate->eta >= 0) {
        ngx_http_wq_variable_set(v, p, ngx_sprintf(p, "%L", gate->eta) - p);

    } else if (data == NGX_HTTP_WQ_VARIABLE_TOTAL
               && gate->reason == NGX_HTTP_WQ_GATE_BY_STATE
               && !gate->has_lease)
    {
        ngx_http_wq_variable_set(v, p, ngx_sprintf(p, "%L", gate->total) - p);

    } else if (data == NGX_HTTP_WQ_VARIABLE_WAIT && gate->has_lease) {
        ngx_http_wq_variable_set(v, p, ngx_sprintf(p, "%L.%03L",
                                                   gate->lease.waited / 1000,
                                                   gate->lease.waited % 1000)
                                       - p);
    }

    return NGX_OK;
}


/* NULL: a stream tells it itself, as it changes */

static const char *
ngx_http_wq_variable_word(ngx_http_wq_gate_t *gate)
{
    if (gate->verdict == NGX_HTTP_WQ_GATE_STREAM) {
        return NULL;
    }

    if (gate->reason != NGX_HTTP_WQ_GATE_BY_STATE) {
        return "unavailable";
    }

    return wq_status_word(gate->status);
}


static void
ngx_http_wq_variable_set(ngx_http_variable_value_t *v, u_char *data,
    size_t len)
{
    v->len = len;
    v->data = data;

    v->valid = 1;
    v->no_cacheable = 0;
    v->not_found = 0;
}
