
/*
 * redis: from a fresh connection to one that takes commands.
 *
 * Each step sends its command and returns; the answer leads to the next step,
 * to a wait, or to the end of the connection.  The first step runs inside
 * hiredis' connect callback, where the connection must not be ended: a command
 * that cannot be sent is therefore left to the deadline timer.
 */


#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_http_wq_link.h"
#include "ngx_http_wq_operation.h"
#include "ngx_http_wq_script.h"


static void ngx_http_wq_handshake_authenticate(ngx_http_wq_link_t *link);
static void ngx_http_wq_handshake_auth_handler(void *data,
    ngx_http_wq_result_t *result);
static void ngx_http_wq_handshake_select(ngx_http_wq_link_t *link);
static void ngx_http_wq_handshake_select_handler(void *data,
    ngx_http_wq_result_t *result);
static void ngx_http_wq_handshake_name(ngx_http_wq_link_t *link);
static void ngx_http_wq_handshake_name_handler(void *data,
    ngx_http_wq_result_t *result);
static void ngx_http_wq_handshake_script_handler(void *data,
    ngx_http_wq_result_t *result);
static ngx_int_t ngx_http_wq_handshake_accept(ngx_http_wq_link_t *link,
    ngx_http_wq_result_t *result, ngx_http_wq_link_state_e state);
static void ngx_http_wq_handshake_send(ngx_http_wq_link_t *link,
    ngx_str_t *argv, ngx_uint_t argc, ngx_http_wq_operation_handler_pt handler);


void
ngx_http_wq_handshake_start(ngx_http_wq_link_t *link)
{
    if (link->conf->password.len) {
        ngx_http_wq_handshake_authenticate(link);
        return;
    }

    ngx_http_wq_handshake_select(link);
}


static void
ngx_http_wq_handshake_authenticate(ngx_http_wq_link_t *link)
{
    ngx_uint_t  n;
    ngx_str_t   argv[3];

    ngx_http_wq_link_set_state(link, NGX_HTTP_WQ_LINK_AUTHENTICATING);

    n = 0;
    ngx_str_set(&argv[n], "AUTH");
    n++;

    if (link->conf->user.len) {
        argv[n++] = link->conf->user;
    }

    argv[n++] = link->conf->password;

    ngx_http_wq_handshake_send(link, argv, n,
                               ngx_http_wq_handshake_auth_handler);
}


static void
ngx_http_wq_handshake_auth_handler(void *data, ngx_http_wq_result_t *result)
{
    ngx_http_wq_link_t *link = data;

    if (ngx_http_wq_handshake_accept(link, result,
                                     NGX_HTTP_WQ_LINK_AUTHENTICATING)
        == NGX_OK)
    {
        ngx_http_wq_handshake_select(link);
    }
}


static void
ngx_http_wq_handshake_select(ngx_http_wq_link_t *link)
{
    u_char     number[NGX_INT_T_LEN];
    ngx_str_t  argv[2];

    ngx_http_wq_link_set_state(link, NGX_HTTP_WQ_LINK_SELECTING);

    if (link->conf->db == 0) {
        ngx_http_wq_handshake_name(link);
        return;
    }

    ngx_str_set(&argv[0], "SELECT");
    argv[1].data = number;
    argv[1].len = ngx_sprintf(number, "%ui", link->conf->db) - number;

    ngx_http_wq_handshake_send(link, argv, 2,
                               ngx_http_wq_handshake_select_handler);
}


static void
ngx_http_wq_handshake_select_handler(void *data, ngx_http_wq_result_t *result)
{
    ngx_http_wq_link_t *link = data;

    if (ngx_http_wq_handshake_accept(link, result, NGX_HTTP_WQ_LINK_SELECTING)
        == NGX_OK)
    {
        ngx_http_wq_handshake_name(link);
    }
}


/* for the operator who reads CLIENT LIST; a refusal by an ACL is no trouble */

static void
ngx_http_wq_handshake_name(ngx_http_wq_link_t *link)
{
    ngx_str_t  argv[3];

    ngx_str_set(&argv[0], "CLIENT");
    ngx_str_set(&argv[1], "SETNAME");
    argv[2] = link->client_name;

    ngx_http_wq_handshake_send(link, argv, 3,
                               ngx_http_wq_handshake_name_handler);
}


static void
ngx_http_wq_handshake_name_handler(void *data, ngx_http_wq_result_t *result)
{
    ngx_http_wq_link_t *link = data;

    if (result->outcome == NGX_HTTP_WQ_FAILED
        && result->error == WQ_REDIS_ERROR_NOPERM)
    {
        result->outcome = NGX_HTTP_WQ_ANSWERED;
    }

    if (ngx_http_wq_handshake_accept(link, result, NGX_HTTP_WQ_LINK_SELECTING)
        == NGX_OK)
    {
        ngx_http_wq_handshake_load_scripts(link);
    }
}


/*
 * Also where a link comes back to when Redis cannot serve for a while.  A link
 * for blocking reads runs no scripts, and asks with a PING whether it is
 * served.
 */

void
ngx_http_wq_handshake_load_scripts(ngx_http_wq_link_t *link)
{
    ngx_str_t   argv[3];
    ngx_uint_t  i;

    ngx_http_wq_link_set_state(link, NGX_HTTP_WQ_LINK_LOADING);

    if (link->blocking) {
        ngx_str_set(&argv[0], "PING");

        link->loading = 1;
        ngx_http_wq_handshake_send(link, argv, 1,
                                   ngx_http_wq_handshake_script_handler);
        return;
    }

    ngx_str_set(&argv[0], "SCRIPT");
    ngx_str_set(&argv[1], "LOAD");

    link->loading = NGX_HTTP_WQ_SCRIPT_MAX;

    for (i = 0; i < NGX_HTTP_WQ_SCRIPT_MAX; i++) {
        argv[2] = ngx_http_wq_scripts[i].body;
        ngx_http_wq_handshake_send(link, argv, 3,
                                   ngx_http_wq_handshake_script_handler);
    }
}


static void
ngx_http_wq_handshake_script_handler(void *data, ngx_http_wq_result_t *result)
{
    ngx_http_wq_link_t *link = data;

    wq_str_t    sha1;
    ngx_uint_t  script;

    static const ngx_str_t  differs = ngx_string("SHA-1 of a script differs");

    if (link->loading == 0) {
        /* one of a round that was broken off */
        return;
    }

    if (ngx_http_wq_handshake_accept(link, result, NGX_HTTP_WQ_LINK_LOADING)
        != NGX_OK)
    {
        return;
    }

    if (!link->blocking) {

        /* answers come in the order of the questions */

        script = NGX_HTTP_WQ_SCRIPT_MAX - link->loading;
        sha1 = wq_reply_string(result->reply);

        if (sha1.len != ngx_http_wq_scripts[script].sha1.len
            || ngx_memcmp(sha1.data, ngx_http_wq_scripts[script].sha1.data,
                          sha1.len)
               != 0)
        {
            ngx_http_wq_link_fail(link, NGX_HTTP_WQ_TROUBLE_PROTOCOL,
                                  &differs);
            return;
        }
    }

    if (--link->loading == 0) {
        ngx_http_wq_link_set_ready(link);
    }
}


/*
 * NGX_OK: the step was answered well, and the link is where it was.  Otherwise
 * the link has been told what to do.
 */

static ngx_int_t
ngx_http_wq_handshake_accept(ngx_http_wq_link_t *link,
    ngx_http_wq_result_t *result, ngx_http_wq_link_state_e state)
{
    wq_str_t    string;
    ngx_str_t   text;
    ngx_uint_t  trouble;

    if (link->state != state) {
        return NGX_DECLINED;
    }

    switch (result->outcome) {

    case NGX_HTTP_WQ_ANSWERED:
        return NGX_OK;

    case NGX_HTTP_WQ_FAILED:
        break;

    default: /* NGX_HTTP_WQ_TIMED_OUT, NGX_HTTP_WQ_LOST: the link knows */
        return NGX_DECLINED;
    }

    string = wq_reply_string(result->reply);
    text.len = string.len;
    text.data = string.data;

    if (state == NGX_HTTP_WQ_LINK_AUTHENTICATING) {
        /* a server that does not know AUTH quotes the password */
        text.len = 0;
    }

    trouble = NGX_HTTP_WQ_TROUBLE_REDIS + result->error;

    if (state == NGX_HTTP_WQ_LINK_LOADING
        && wq_redis_error_action(result->error) == WQ_REDIS_WAIT)
    {
        ngx_http_wq_link_wait(link, trouble, &text);
        return NGX_DECLINED;
    }

    ngx_http_wq_link_fail(link, trouble, &text);

    return NGX_DECLINED;
}


static void
ngx_http_wq_handshake_send(ngx_http_wq_link_t *link, ngx_str_t *argv,
    ngx_uint_t argc, ngx_http_wq_operation_handler_pt handler)
{
    ngx_http_wq_call_t  call;

    ngx_memzero(&call, sizeof(ngx_http_wq_call_t));

    call.script = NGX_HTTP_WQ_NO_SCRIPT;
    call.argv = argv;
    call.argc = argc;
    call.handler = handler;
    call.data = link;
    call.internal = 1;

    if (ngx_http_wq_operation_send(link, &call, NULL) != NGX_OK) {
        link->broken = 1;
        ngx_http_wq_timer_set(&link->deadline, 1);
    }
}
