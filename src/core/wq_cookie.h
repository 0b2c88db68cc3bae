
/* core: one cookie in a Cookie header, and whether it can be one of ours */


#ifndef WQ_COOKIE_H_INCLUDED_
#define WQ_COOKIE_H_INCLUDED_


#include "wq_core.h"


/*
 * The value of the first cookie of that name in a header, borrowed from it;
 * WQ_MISSING if there is none.
 *
 * The name is given in lower case and compared without regard to it.  Cookies
 * stand apart by semicolons; one is found behind a comma too, as nginx' own
 * variables of cookies have it, but no comma ends a value.  Spaces before a
 * name and around "=" are passed over, others and quotes belong to the value.
 */

wq_rc_t wq_cookie_find(const u_char *header, size_t len, const wq_str_t *name,
    wq_str_t *value);


/* whether all of it is hexadecimal in lower case, of exactly that length */

int wq_cookie_is_hex(const u_char *value, size_t len, size_t wanted);


#endif /* WQ_COOKIE_H_INCLUDED_ */
