
/*
 * redis: hiredis, and the one place that knows its versions apart.
 *
 * The code is written to the rules of 0.14, which are the strict ones:
 *
 *  - the connect callback may neither free nor disconnect the context;
 *  - a context that goes away runs the callbacks of all its commands with a
 *    NULL reply, runs ev.cleanup (0.14: after them; 1.2, when the connection
 *    broke: before), and onDisconnect only if it was connected: so the last is
 *    not used, and a callback with NULL must not use the context;
 *  - there are no timeouts in the async API: the link has its own.
 */


#ifndef NGX_HTTP_WQ_HIREDIS_H_INCLUDED_
#define NGX_HTTP_WQ_HIREDIS_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>

#include <hiredis/hiredis.h>
#include <hiredis/async.h>


#if !defined(HIREDIS_MAJOR) || (HIREDIS_MAJOR == 0 && HIREDIS_MINOR < 14)
#error hiredis 0.14 or newer is required
#endif


/* what hiredis still holds unparsed of the bytes it has read */

#define ngx_http_wq_hiredis_unparsed(ac)                                      \
    ((ac)->c.reader->len - (ac)->c.reader->pos)


/* how many elements an array has, for createArray() of the reader */

#if (HIREDIS_MAJOR >= 1)
typedef size_t  ngx_http_wq_hiredis_elements_t;
#else
typedef int     ngx_http_wq_hiredis_elements_t;
#endif


#if (HIREDIS_MAJOR >= 1)

/*
 * RESP3 types cannot come as long as nobody says HELLO 3; those that carry
 * text are read as text all the same, the rest stays unknown to the decoder.
 */

#define ngx_http_wq_hiredis_is_text(type)                                     \
    ((type) == REDIS_REPLY_STRING || (type) == REDIS_REPLY_STATUS             \
     || (type) == REDIS_REPLY_VERB || (type) == REDIS_REPLY_BIGNUM)

#else

#define ngx_http_wq_hiredis_is_text(type)                                     \
    ((type) == REDIS_REPLY_STRING || (type) == REDIS_REPLY_STATUS)

#endif


#endif /* NGX_HTTP_WQ_HIREDIS_H_INCLUDED_ */
