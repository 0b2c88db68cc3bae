
/*
 * http: who asks, and for which event.
 *
 * The ids come from variables (`waiting_queue_event`, `waiting_queue_user`) or,
 * for the user, from a cookie that the module issues.  Whatever they are, they
 * are checked before anything else sees them.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_wq_http.h"


static ngx_int_t ngx_http_wq_check_id(const ngx_str_t *id);


ngx_int_t
ngx_http_wq_find_event(ngx_http_request_t *r, ngx_str_t *event)
{
    ngx_http_wq_loc_conf_t  *lcf;

    lcf = ngx_http_get_module_loc_conf(r, ngx_http_waiting_queue_module);

    if (ngx_http_complex_value(r, lcf->event, event) != NGX_OK) {
        return NGX_ERROR;
    }

    return ngx_http_wq_check_id(event);
}


ngx_int_t
ngx_http_wq_find_user(ngx_http_request_t *r, ngx_str_t *user)
{
    ngx_http_wq_loc_conf_t  *lcf;

    lcf = ngx_http_get_module_loc_conf(r, ngx_http_waiting_queue_module);

    if (lcf->user == NULL) {
        return ngx_http_wq_cookie_user(r, user);
    }

    if (ngx_http_complex_value(r, lcf->user, user) != NGX_OK) {
        return NGX_ERROR;
    }

    return ngx_http_wq_check_id(user);
}


static ngx_int_t
ngx_http_wq_check_id(const ngx_str_t *id)
{
    switch (wq_id_check(id->data, id->len)) {

    case WQ_OK:
        return NGX_OK;

    case WQ_EMPTY:
        return NGX_DECLINED;

    default:
        return NGX_ABORT;
    }
}


ngx_int_t
ngx_http_wq_send_bad_event(ngx_http_request_t *r, ngx_int_t rc)
{
    if (rc == NGX_ERROR) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    return ngx_http_wq_send_error(r, NGX_HTTP_BAD_REQUEST, "bad_event_id",
                                  "an event id is 1 to 128 of "
                                  "A-Z a-z 0-9 . _ ~ @ : -");
}


ngx_int_t
ngx_http_wq_send_bad_user(ngx_http_request_t *r, ngx_int_t rc)
{
    switch (rc) {

    case NGX_ERROR:
        return NGX_HTTP_INTERNAL_SERVER_ERROR;

    case NGX_DECLINED:
        return ngx_http_wq_send_error(r, NGX_HTTP_UNAUTHORIZED,
                                      "user_required",
                                      "the waiting room does not know who "
                                      "you are");

    default:
        return ngx_http_wq_send_error(r, NGX_HTTP_BAD_REQUEST, "bad_user_id",
                                      "a user id is 1 to 128 of "
                                      "A-Z a-z 0-9 . _ ~ @ : -");
    }
}


ngx_int_t
ngx_http_wq_send_cross_site(ngx_http_request_t *r)
{
    return ngx_http_wq_send_error(r, NGX_HTTP_FORBIDDEN, "cross_site",
                                  "browsers send no cookie with a request "
                                  "from another site");
}
