
/* core: the ids of events, users, seats and nodes */


#ifndef WQ_ID_H_INCLUDED_
#define WQ_ID_H_INCLUDED_


#include "wq_core.h"


#define WQ_ID_MAX  128


/*
 * An id is 1 to 128 of A-Z a-z 0-9 . _ ~ @ : - and nothing else, so that it
 * can stand in a Redis key, in JSON, in a header and in a log without
 * escaping.  Returns WQ_OK, WQ_EMPTY, WQ_TOO_LONG or WQ_BAD_CHARACTER.
 */

wq_rc_t wq_id_check(const u_char *data, size_t len);


#endif /* WQ_ID_H_INCLUDED_ */
