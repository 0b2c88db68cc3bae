
/* unit tests: commands as Redis reads them (RESP2) */


#include "unit.h"
#include "wq_resp.h"


#define GUARD  16


/* writes into a buffer of the exact size, so that one byte more is seen */

static int
array_is(size_t n, const char *want)
{
    int      good;
    u_char  *p, *end;
    size_t   size;

    size = wq_resp_array_size(n);
    p = malloc(size);
    end = wq_resp_array(p, n);

    good = size == strlen(want)
           && (size_t) (end - p) == size
           && memcmp(p, want, size) == 0;

    free(p);

    return good;
}


static int
bulk_is(const void *data, size_t len, const void *want, size_t want_len)
{
    int      good;
    u_char  *p, *end;
    size_t   size;

    size = wq_resp_bulk_size(len);
    p = malloc(size);
    end = wq_resp_bulk(p, data, len);

    good = size == want_len
           && (size_t) (end - p) == size
           && memcmp(p, want, size) == 0;

    free(p);

    return good;
}


static void
test_array(void)
{
    size_t  i;
    char    want[64];

    static const size_t  numbers[] = {
        0, 1, 9, 10, 11, 99, 100, 101, 999, 1000, 65535, 99999, 100000,
        4294967295u, SIZE_MAX / 2, SIZE_MAX - 1, SIZE_MAX
    };

    for (i = 0; i < unit_nitems(numbers); i++) {
        snprintf(want, sizeof(want), "*%zu\r\n", numbers[i]);
        unit_ok(array_is(numbers[i], want), "array of %zu", numbers[i]);
    }
}


static void
test_bulk(void)
{
    static const char  zeros[] = "$5\r\na\0\r\nb\r\n";

    unit_ok(bulk_is("PING", 4, "$4\r\nPING\r\n", 10), "PING");
    unit_ok(bulk_is("", 0, "$0\r\n\r\n", 6), "an empty string");
    unit_ok(bulk_is(NULL, 0, "$0\r\n\r\n", 6), "an empty string without data");
    unit_ok(bulk_is("\xff", 1, "$1\r\n\xff\r\n", 7), "a byte above 127");

    unit_ok(bulk_is("a\0\r\nb", 5, zeros, sizeof(zeros) - 1),
            "zeros and line ends are data");

    unit_ok(bulk_is("$3\r\nGET\r\n", 9, "$9\r\n$3\r\nGET\r\n\r\n", 15),
            "a command inside an argument stays an argument");

    unit_ok(wq_resp_bulk_size(999) == 1 + 3 + 2 + 999 + 2
            && wq_resp_bulk_size(1000) == 1 + 4 + 2 + 1000 + 2,
            "sizes round a power of ten");

    unit_ok(wq_resp_bulk_size((size_t) 1 << 32)
            == ((size_t) 1 << 32) + 1 + 10 + 2 + 2,
            "the size of a string of 4 GB");
}


static void
test_lengths(void)
{
    int      good;
    char     header[32];
    u_char  *data, *p, *end;
    size_t   len, size, n;

    data = malloc(2100);
    memset(data, 'x', 2100);
    good = 1;

    for (len = 0; len < 2100; len++) {
        size = wq_resp_bulk_size(len);
        p = malloc(size + 2 * GUARD);
        memset(p, 0xa5, size + 2 * GUARD);

        end = wq_resp_bulk(p + GUARD, data, len);
        n = (size_t) snprintf(header, sizeof(header), "$%zu\r\n", len);

        good &= end == p + GUARD + size;
        good &= size == n + len + 2;
        good &= memcmp(p + GUARD, header, n) == 0;
        good &= memcmp(p + GUARD + n, data, len) == 0;
        good &= end[-2] == '\r' && end[-1] == '\n';

        for (n = 0; n < GUARD; n++) {
            good &= p[n] == 0xa5 && end[n] == 0xa5;
        }

        free(p);
    }

    free(data);

    unit_ok(good, "every length below 2100, with guards on both sides");
}


static void
test_command(void)
{
    u_char      *p, *end;
    size_t       size;
    const char  *want;

    want = "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$0\r\n\r\n";

    size = wq_resp_array_size(3) + wq_resp_bulk_size(3) + wq_resp_bulk_size(1)
           + wq_resp_bulk_size(0);

    p = malloc(size);

    end = wq_resp_array(p, 3);
    end = wq_resp_bulk(end, (const u_char *) "SET", 3);
    end = wq_resp_bulk(end, (const u_char *) "k", 1);
    end = wq_resp_bulk(end, (const u_char *) "", 0);

    unit_ok(size == strlen(want) && end == p + size
            && memcmp(p, want, size) == 0,
            "a whole command in one buffer");

    free(p);
}


int
main(void)
{
    test_array();
    test_bulk();
    test_lengths();
    test_command();

    return unit_done();
}
