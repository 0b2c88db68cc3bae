
/*
 * core: the template of the waiting page.
 *
 * Its text has placeholders, {{position}} or {{ position }}, each on one line.
 * Any other "{{" is an error, so that a name that is mistyped is found when the
 * configuration is read and not by a user.  A script or a style that needs two
 * braces in a row can have them with a space between: "{ {".  A single "{" and
 * any "}" are text.
 */


#ifndef WQ_PAGE_H_INCLUDED_
#define WQ_PAGE_H_INCLUDED_


#include "wq_core.h"


/* X(constant, name in the template) */

#define WQ_PAGE_NAMES(X)                                                      \
    X(LANG,     "lang")                                                       \
    X(STATUS,   "status")                                                     \
    X(POSITION, "position")                                                   \
    X(AHEAD,    "ahead")                                                      \
    X(BEHIND,   "behind")                                                     \
    X(TOTAL,    "total")                                                      \
    X(ETA,      "eta")                                                        \
    X(EVENT,    "event")                                                      \
    X(REFRESH,  "refresh")                                                    \
    X(METHOD,   "method")                                                     \
    X(STATE,    "state")

typedef enum {
#define WQ_X(constant, name)  WQ_PAGE_##constant,
    WQ_PAGE_NAMES(WQ_X)
#undef WQ_X
    WQ_PAGE_VALUES
} wq_page_value_e;


/* literal text, followed by a value; WQ_PAGE_VALUES: by none */

typedef struct {
    wq_str_t          text;
    wq_page_value_e   value;
} wq_page_part_t;


#define WQ_PAGE_WRONG_MAX  64


/*
 * How many parts the text has, 0 if it is empty.  WQ_OK, or
 *
 *   WQ_MISSING        there is no value of this name
 *   WQ_BAD_CHARACTER  the placeholder is not closed on its line
 *
 * where *wrong is the first such placeholder in the text, without the end of
 * the line, cut to WQ_PAGE_WRONG_MAX bytes; *parts is then not set.
 */

wq_rc_t wq_page_count(const u_char *text, size_t len, size_t *parts,
    wq_str_t *wrong);


/*
 * Fills that many, of a text that was found to be good.  They point into the
 * text, which has to stay.
 */

void wq_page_parse(const u_char *text, size_t len, wq_page_part_t *parts);


/*
 * How long the page is with these values, and the page itself; returns its
 * end.  Values are written as they are: nothing is escaped here.
 */

size_t wq_page_size(const wq_page_part_t *parts, size_t n,
    const wq_str_t values[WQ_PAGE_VALUES]);
u_char *wq_page_write(u_char *p, const wq_page_part_t *parts, size_t n,
    const wq_str_t values[WQ_PAGE_VALUES]);


#endif /* WQ_PAGE_H_INCLUDED_ */
