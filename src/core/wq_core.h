
/*
 * core: what every file of the pure layer shares.
 *
 * The core knows nothing of nginx, hiredis or sockets.  It builds with a plain
 * C compiler, allocates nothing and keeps no state of its own, so that it can
 * be tested and fuzzed alone.
 */


#ifndef WQ_CORE_H_INCLUDED_
#define WQ_CORE_H_INCLUDED_


#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>


typedef enum {
    WQ_OK = 0,
    WQ_EMPTY,
    WQ_TOO_LONG,
    WQ_BAD_CHARACTER,
    WQ_BAD_TYPE,
    WQ_BAD_RANGE,
    WQ_MISSING
} wq_rc_t;


/* borrowed bytes, not terminated by a zero; laid out as nginx' ngx_str_t */

typedef struct {
    size_t   len;
    u_char  *data;
} wq_str_t;


#define wq_string(literal)  { sizeof(literal) - 1, (u_char *) literal }


#endif /* WQ_CORE_H_INCLUDED_ */
