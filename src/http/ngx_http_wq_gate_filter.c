
/*
 * http: what goes back through the gate.
 *
 * The backend's word, `X-Waiting-Queue: done` or `sold`, ends the visit and is
 * not for the client to see.  And the cookies: whatever answers the request,
 * and after however many redirects, they go with it.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_wq_gate.h"


static ngx_int_t ngx_http_wq_gate_header_filter(ngx_http_request_t *r);
static void ngx_http_wq_gate_hear(ngx_http_wq_gate_t *gate,
    const ngx_str_t *word);
static ngx_int_t ngx_http_wq_gate_set_cookies(ngx_http_wq_gate_t *gate);


static ngx_http_output_header_filter_pt  ngx_http_next_header_filter;


static const ngx_str_t  ngx_http_wq_gate_word = ngx_string("x-waiting-queue");


void
ngx_http_wq_gate_filter_init(void)
{
    ngx_http_next_header_filter = ngx_http_top_header_filter;
    ngx_http_top_header_filter = ngx_http_wq_gate_header_filter;
}


static ngx_int_t
ngx_http_wq_gate_header_filter(ngx_http_request_t *r)
{
    ngx_table_elt_t         *header;
    ngx_http_wq_gate_t      *gate;
    ngx_http_wq_loc_conf_t  *lcf;

    if (r != r->main) {
        return ngx_http_next_header_filter(r);
    }

    gate = ngx_http_wq_gate_get(r);
    lcf = ngx_http_get_module_loc_conf(r, ngx_http_waiting_queue_module);

    if (gate == NULL && !lcf->gate) {
        return ngx_http_next_header_filter(r);
    }

    while ((header = ngx_http_wq_find_header(&r->headers_out.headers,
                                             &ngx_http_wq_gate_word)))
    {
        header->hash = 0;

        if (gate) {
            ngx_http_wq_gate_hear(gate, &header->value);
        }
    }

    if (gate && ngx_http_wq_gate_set_cookies(gate) != NGX_OK) {
        return NGX_ERROR;
    }

    return ngx_http_next_header_filter(r);
}


ngx_int_t
ngx_http_wq_gate_redirected(ngx_http_request_t *r)
{
    ngx_table_elt_t     *header;
    ngx_http_wq_gate_t  *gate;

    if (!r->internal || r != r->main || r->upstream == NULL
        || r->upstream->headers_in.headers.part.elts == NULL)
    {
        return NGX_DECLINED;
    }

    gate = ngx_http_wq_gate_get(r);

    if (gate == NULL) {
        return NGX_DECLINED;
    }

    while ((header = ngx_http_wq_find_header(&r->upstream->headers_in.headers,
                                             &ngx_http_wq_gate_word)))
    {
        /* once: there may be another redirect, and another gate behind it */
        header->hash = 0;

        ngx_http_wq_gate_hear(gate, &header->value);
    }

    return NGX_DECLINED;
}


/* only who has a lease can end it, and only once */

static void
ngx_http_wq_gate_hear(ngx_http_wq_gate_t *gate, const ngx_str_t *word)
{
    ngx_str_t               token;
    ngx_http_wq_release_e   why;

    if (word->len == 4 && ngx_strncasecmp(word->data, (u_char *) "done", 4)
                          == 0)
    {
        why = NGX_HTTP_WQ_RELEASE_DONE;

    } else if (word->len == 4
               && ngx_strncasecmp(word->data, (u_char *) "sold", 4) == 0)
    {
        why = NGX_HTTP_WQ_RELEASE_SOLD;

    } else {

        /* one answer may have a thousand of them */

        if (!gate->nonsense) {
            gate->nonsense = 1;
            ngx_log_error(NGX_LOG_WARN, gate->request->connection->log, 0,
                          "waiting_queue: the backend sent \"X-Waiting-Queue: "
                          "%V\", which is neither \"done\" nor \"sold\"",
                          word);
        }

        return;
    }

    if (!gate->has_lease || gate->is_over || ngx_http_wq_worker == NULL) {
        return;
    }

    gate->is_over = 1;

    token.len = WQ_TOKEN_LEN;
    token.data = gate->lease.token;

    ngx_http_wq_zone_token_end(ngx_http_wq_worker->conf->zone, &gate->event,
                               &gate->user, &gate->lease, gate->lease_ends);
    ngx_http_wq_ending_add(ngx_http_wq_worker, &gate->event, &gate->user,
                           &token, why);
}


static ngx_int_t
ngx_http_wq_gate_set_cookies(ngx_http_wq_gate_t *gate)
{
    ngx_str_t            token;
    ngx_http_request_t  *r;

    r = gate->request;

    if (gate->new_user
        && ngx_http_wq_cookie_set_user(r, &gate->user) != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (!gate->has_lease) {

        if (!gate->bad_token) {
            return NGX_OK;
        }

        /* else it would be asked for with every request */
        ngx_str_null(&token);

        return ngx_http_wq_cookie_set_token(r, &gate->event, &token);
    }

    token.data = gate->lease.token;
    token.len = gate->is_over ? 0 : WQ_TOKEN_LEN;

    if (token.len == gate->shown.len
        && ngx_strncmp(token.data, gate->shown.data, token.len) == 0)
    {
        /* the client has it */
        return NGX_OK;
    }

    return ngx_http_wq_cookie_set_token(r, &gate->event, &token);
}
