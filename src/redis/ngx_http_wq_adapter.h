
/*
 * redis: hiredis' async context on nginx' event loop.
 *
 * hiredis owns the socket and closes it; nginx owns the connection slot.  Both
 * directions are level-triggered, because hiredis reads 16 kB a turn and would
 * leave the rest of a long answer behind an edge.
 */


#ifndef NGX_HTTP_WQ_ADAPTER_H_INCLUDED_
#define NGX_HTTP_WQ_ADAPTER_H_INCLUDED_


#include "ngx_http_wq_hiredis.h"


/* why the adapter asks its owner to give the connection up */

typedef enum {
    NGX_HTTP_WQ_ADAPTER_SHUTDOWN = 0,   /* nginx closes all connections */
    NGX_HTTP_WQ_ADAPTER_UNASKED,        /* bytes that answer no command */
    NGX_HTTP_WQ_ADAPTER_TOO_LARGE       /* an answer beyond all bounds */
} ngx_http_wq_adapter_fault_e;


typedef struct {
    /*
     * The owner must end the connection with ngx_http_wq_adapter_close()
     * before it returns.  Never called from inside hiredis.
     */
    void  (*fault)(void *data, ngx_http_wq_adapter_fault_e fault);

    /*
     * The context is about to be freed, by whatever road, and must not be used
     * any more; its err and errstr can still be read.  Called once, before or
     * after the callbacks of pending commands; may be called from inside
     * hiredis.
     */
    void  (*closed)(void *data);
} ngx_http_wq_adapter_owner_t;


/*
 * Puts ac on the event loop, and bounds what it takes for an answer.  On
 * success the adapter lives as long as ac.  On NGX_ERROR the caller still owns
 * ac, and owner->closed() is not called.
 */

ngx_int_t ngx_http_wq_adapter_attach(redisAsyncContext *ac,
    const ngx_http_wq_adapter_owner_t *owner, void *data, ngx_log_t *log);


/*
 * Frees ac: runs the callbacks of all pending commands with a NULL reply, then
 * owner->closed().  From inside a reply callback all this happens after the
 * callback has returned.  Not from inside the connect callback.
 */

void ngx_http_wq_adapter_close(redisAsyncContext *ac);


/*
 * To be called at the end of each reply callback.  True if no command is
 * pending but unparsed bytes are: hiredis would abort the process on them, so
 * the caller must close the connection before it returns to hiredis.
 */

ngx_uint_t ngx_http_wq_adapter_out_of_step(redisAsyncContext *ac);


/* true if bytes have arrived that hiredis has not read yet */

ngx_uint_t ngx_http_wq_adapter_has_input(redisAsyncContext *ac);


#endif /* NGX_HTTP_WQ_ADAPTER_H_INCLUDED_ */
