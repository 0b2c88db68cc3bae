
/* core: the ids of events, users, seats and nodes */


#include "wq_id.h"


static int wq_id_character(u_char c);


wq_rc_t
wq_id_check(const u_char *data, size_t len)
{
    size_t  i;

    if (len == 0) {
        return WQ_EMPTY;
    }

    /* before the characters: an id of a megabyte costs nothing to refuse */

    if (len > WQ_ID_MAX) {
        return WQ_TOO_LONG;
    }

    for (i = 0; i < len; i++) {
        if (!wq_id_character(data[i])) {
            return WQ_BAD_CHARACTER;
        }
    }

    return WQ_OK;
}


static int
wq_id_character(u_char c)
{
    /* no isalnum(): its answer depends on the locale */

    if ((c >= 'a' && c <= 'z')
        || (c >= 'A' && c <= 'Z')
        || (c >= '0' && c <= '9'))
    {
        return 1;
    }

    switch (c) {
    case '.':
    case '_':
    case '~':
    case '@':
    case ':':
    case '-':
        return 1;

    default:
        return 0;
    }
}
