
/* redis: the Lua scripts, embedded at build time from lua/ */


#ifndef NGX_HTTP_WQ_SCRIPT_H_INCLUDED_
#define NGX_HTTP_WQ_SCRIPT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_http_wq_scripts_generated.h"


typedef struct {
    ngx_str_t   name;       /* of the file, without .lua */
    ngx_str_t   sha1;       /* 40 hex digits, computed when this was built */
    ngx_str_t   body;
} ngx_http_wq_script_t;


/* NGX_HTTP_WQ_SCRIPT_heartbeat is lua/heartbeat.lua, and so on */

typedef enum {
#define WQ_X(name, sha1, length)  NGX_HTTP_WQ_SCRIPT_##name,
    NGX_HTTP_WQ_SCRIPTS(WQ_X)
#undef WQ_X
    NGX_HTTP_WQ_SCRIPT_MAX
} ngx_http_wq_script_e;


extern const ngx_http_wq_script_t
    ngx_http_wq_scripts[NGX_HTTP_WQ_SCRIPT_MAX];


#endif /* NGX_HTTP_WQ_SCRIPT_H_INCLUDED_ */
