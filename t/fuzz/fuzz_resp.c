
/* fuzz: what is written is read back by a reader that knows only the format */


#include <stdlib.h>
#include <string.h>

#include "wq_resp.h"


#define MAX_ARGS  64


int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);


static void
require(int condition)
{
    if (!condition) {
        abort();
    }
}


/* type, decimal without leading zeros, CR, LF */

static const u_char *
read_header(const u_char *p, const u_char *end, u_char type, size_t *n)
{
    size_t         value;
    const u_char  *start;

    require(p < end && *p == type);
    start = ++p;
    value = 0;

    while (p < end && *p >= '0' && *p <= '9') {
        require(value <= (SIZE_MAX - (size_t) (*p - '0')) / 10);
        value = value * 10 + (size_t) (*p - '0');
        p++;
    }

    require(p > start);
    require(*start != '0' || p == start + 1);
    require(end - p >= 2 && p[0] == '\r' && p[1] == '\n');

    *n = value;

    return p + 2;
}


static void
check_number(size_t number)
{
    u_char  *p;
    size_t   size, n;

    size = wq_resp_array_size(number);
    p = malloc(size);

    require(wq_resp_array(p, number) == p + size);
    require(read_header(p, p + size, '*', &n) == p + size);
    require(n == number);

    /* strings as long as this cannot be made here, their size can be asked */

    if (number < SIZE_MAX / 2) {
        require(wq_resp_bulk_size(number) == size + number + 2);
    }

    free(p);
}


/*
 * The input: 8 bytes for a number, then arguments, each after two bytes for
 * its length.
 */

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    u_char        *buf, *p;
    size_t         i, n, len, total;
    uint64_t       number;
    wq_str_t       args[MAX_ARGS];
    const u_char  *q, *end;

    if (size < 8) {
        return 0;
    }

    memcpy(&number, data, 8);
    check_number((size_t) number);
    check_number((size_t) (number >> (number & 63)));

    data += 8;
    size -= 8;
    n = 0;

    while (size >= 2 && n < MAX_ARGS) {
        len = (size_t) (data[0] + 256 * (data[1] & 15));
        data += 2;
        size -= 2;

        if (len > size) {
            len = size;
        }

        args[n].len = len;
        args[n].data = len > 0 ? (u_char *) data : NULL;
        n++;

        data += len;
        size -= len;
    }

    total = wq_resp_array_size(n);

    for (i = 0; i < n; i++) {
        total += wq_resp_bulk_size(args[i].len);
    }

    buf = malloc(total);
    p = wq_resp_array(buf, n);

    for (i = 0; i < n; i++) {
        p = wq_resp_bulk(p, args[i].data, args[i].len);
    }

    require(p == buf + total);

    end = buf + total;
    q = read_header(buf, end, '*', &len);
    require(len == n);

    for (i = 0; i < n; i++) {
        q = read_header(q, end, '$', &len);

        require(len == args[i].len);
        require((size_t) (end - q) >= len + 2);
        require(len == 0 || memcmp(q, args[i].data, len) == 0);
        require(q[len] == '\r' && q[len + 1] == '\n');

        q += len + 2;
    }

    require(q == end);

    free(buf);

    return 0;
}
