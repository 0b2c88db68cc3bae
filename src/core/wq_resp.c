
/* core: commands as Redis reads them (RESP2) */


#include <string.h>

#include "wq_resp.h"


#define WQ_RESP_CRLF  (sizeof("\r\n") - 1)


static size_t wq_resp_header_size(size_t n);
static u_char *wq_resp_header(u_char *p, u_char type, size_t n);


size_t
wq_resp_array_size(size_t n)
{
    return wq_resp_header_size(n);
}


size_t
wq_resp_bulk_size(size_t len)
{
    return wq_resp_header_size(len) + len + WQ_RESP_CRLF;
}


u_char *
wq_resp_array(u_char *p, size_t n)
{
    return wq_resp_header(p, '*', n);
}


u_char *
wq_resp_bulk(u_char *p, const u_char *data, size_t len)
{
    p = wq_resp_header(p, '$', len);

    /* an empty string may have no data, and memcpy() takes no NULL */

    if (len > 0) {
        memcpy(p, data, len);
        p += len;
    }

    *p++ = '\r';
    *p++ = '\n';

    return p;
}


static size_t
wq_resp_header_size(size_t n)
{
    size_t  digits;

    digits = 1;

    while (n > 9) {
        n /= 10;
        digits++;
    }

    return 1 + digits + WQ_RESP_CRLF;
}


static u_char *
wq_resp_header(u_char *p, u_char type, size_t n)
{
    u_char  *end, *digit;

    end = p + wq_resp_header_size(n);

    *p = type;

    digit = end - WQ_RESP_CRLF;

    do {
        *--digit = (u_char) ('0' + n % 10);
        n /= 10;
    } while (n > 0);

    end[-2] = '\r';
    end[-1] = '\n';

    return end;
}
