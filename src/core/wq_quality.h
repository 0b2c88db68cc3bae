
/*
 * core: the ranges of a header such as Accept or Accept-Language (RFC 9110,
 * 12.5), with their qualities.
 *
 * A malformed range is passed over, so that it costs no other its effect.  It
 * ends at its comma; one in a quoted string is none, and a quote that is never
 * closed takes in the rest of the header.
 */


#ifndef WQ_QUALITY_H_INCLUDED_
#define WQ_QUALITY_H_INCLUDED_


#include "wq_core.h"


#define WQ_QUALITY_MAX  1000


typedef struct {
    wq_str_t   name;        /* as it is written: "Text/HTML", "ko-KR", "*" */
    unsigned   quality;     /* thousandths; WQ_QUALITY_MAX if none is given */
} wq_quality_t;


/*
 * Takes the next well-formed range from the rest of a header and points into
 * it; 0 when there is none.  rest begins as the whole header; all the calls for
 * it go through it once, whatever it contains.
 *
 * The quality is the parameter "q", wherever it stands; of several the last
 * counts.  Other parameters are read and left alone.  They may lack a value,
 * as the extensions of RFC 7231 did.
 */

unsigned wq_quality_next(wq_str_t *rest, wq_quality_t *range);


/* the same but for the case of ASCII letters; lower has none in upper case */

unsigned wq_quality_same(const wq_str_t *name, const wq_str_t *lower);


#endif /* WQ_QUALITY_H_INCLUDED_ */
