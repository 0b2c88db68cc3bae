
/* core: commands as Redis reads them (RESP2) */


#ifndef WQ_RESP_H_INCLUDED_
#define WQ_RESP_H_INCLUDED_


#include "wq_core.h"


/* exact sizes, so that one buffer can be taken for the whole command */

size_t wq_resp_array_size(size_t n);
size_t wq_resp_bulk_size(size_t len);


/* write and return the end; the caller has made room */

u_char *wq_resp_array(u_char *p, size_t n);
u_char *wq_resp_bulk(u_char *p, const u_char *data, size_t len);


#endif /* WQ_RESP_H_INCLUDED_ */
