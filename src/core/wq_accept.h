
/* core: which answer an Accept header asks for */


#ifndef WQ_ACCEPT_H_INCLUDED_
#define WQ_ACCEPT_H_INCLUDED_


#include "wq_core.h"


typedef enum {
    WQ_ACCEPT_JSON = 0,
    WQ_ACCEPT_HTML,
    WQ_ACCEPT_EVENT_STREAM
} wq_accept_e;


/*
 * The answer of the highest quality.  They are asked for by
 *
 *   event stream  text/event-stream, and by no wildcard: a client that did not
 *                 name it would wait for the end of it
 *   HTML          text/html, application/xhtml+xml, the wildcard of text
 *   JSON          application/json, the wildcard of application, and the one
 *                 of all types
 *
 * The most specific range decides the quality of a type, the highest if there
 * are several; parameters make a range no more specific.  What has a quality of
 * 0 is not asked for.  Where two are equal, the event stream is before both
 * others, HTML before JSON if only the wildcard of all types asks for that, and
 * else the one whose range is first.  JSON is also the answer to an empty
 * header and to one that asks for none of the three.
 */

wq_accept_e wq_accept(const u_char *data, size_t len);


#endif /* WQ_ACCEPT_H_INCLUDED_ */
