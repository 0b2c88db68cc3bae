
/* fuzz: an id is good exactly where a plain look at its characters says so */


#include <stdlib.h>
#include <string.h>

#include "wq_id.h"


int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);


static void
require(int condition)
{
    if (!condition) {
        abort();
    }
}


static wq_rc_t
expected(const uint8_t *data, size_t size)
{
    size_t  i;

    static const char  alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._~@:-";

    if (size == 0) {
        return WQ_EMPTY;
    }

    if (size > 128) {
        return WQ_TOO_LONG;
    }

    for (i = 0; i < size; i++) {
        if (memchr(alphabet, data[i], sizeof(alphabet) - 1) == NULL) {
            return WQ_BAD_CHARACTER;
        }
    }

    return WQ_OK;
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t   i;
    wq_rc_t  rc;

    rc = wq_id_check(data, size);

    require(rc == expected(data, size));

    /* no part of a good id is bad */

    if (rc == WQ_OK) {
        for (i = 1; i < size; i++) {
            require(wq_id_check(data, i) == WQ_OK);
            require(wq_id_check(data + i, size - i) == WQ_OK);
        }
    }

    return 0;
}
