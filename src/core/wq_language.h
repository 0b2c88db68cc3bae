
/* core: which of some languages an Accept-Language header prefers */


#ifndef WQ_LANGUAGE_H_INCLUDED_
#define WQ_LANGUAGE_H_INCLUDED_


#include "wq_core.h"


/*
 * An index into the n languages supported, which are primary subtags in lower
 * case ("en", "ko"); the first is the default, and the answer to a header that
 * prefers none of them.
 *
 * The highest quality decides, then the order in the header.  A range counts
 * for its primary subtag ("ko-KR" for "ko"), and the best one of a language
 * for the language.  "*" counts for the default, unless that has a range of
 * its own.  What has a quality of 0 is not preferred.
 */

size_t wq_language(const u_char *data, size_t len, const wq_str_t *supported,
    size_t n);


#endif /* WQ_LANGUAGE_H_INCLUDED_ */
