
/* redis: the Lua scripts, embedded at build time from lua/ */


#define NGX_HTTP_WQ_SCRIPT_BODIES  1

#include "ngx_http_wq_script.h"


const ngx_http_wq_script_t  ngx_http_wq_scripts[NGX_HTTP_WQ_SCRIPT_MAX] = {

#define WQ_X(name, sha1, length)                                              \
    { ngx_string(#name), ngx_string(sha1),                                    \
      { length, ngx_http_wq_lua_##name } },

    NGX_HTTP_WQ_SCRIPTS(WQ_X)

#undef WQ_X
};
