
/*
 * fuzz: in any header that cookie is found, or none, which a plain reading of
 * the contract finds; and one put in front, or behind what has none, is found.
 */


#include <stdlib.h>
#include <string.h>

#include "wq_cookie.h"


int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);


static const wq_str_t  names[] = {
    wq_string("wq_uid"), wq_string("wq_1a2b3c4d"), wq_string("a")
};


static void
require(int condition)
{
    if (!condition) {
        abort();
    }
}


static int
lower(int c)
{
    return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c;
}


static size_t
skip_spaces(const uint8_t *data, size_t size, size_t i)
{
    while (i < size && data[i] == ' ') {
        i++;
    }

    return i;
}


/* whether a name begins here: at the start, or after a separator and spaces */

static int
begins(const uint8_t *data, size_t i)
{
    while (i > 0 && data[i - 1] == ' ') {
        i--;
    }

    return i == 0 || data[i - 1] == ';' || data[i - 1] == ',';
}


static wq_rc_t
expected(const uint8_t *data, size_t size, const wq_str_t *name,
    size_t *start, size_t *len)
{
    size_t  i, j;

    for (i = 0; i < size; i++) {

        if (!begins(data, i) || size - i < name->len) {
            continue;
        }

        for (j = 0; j < name->len; j++) {
            if (lower(data[i + j]) != name->data[j]) {
                break;
            }
        }

        if (j < name->len) {
            continue;
        }

        j = skip_spaces(data, size, i + j);

        if (j == size || data[j] != '=') {
            continue;
        }

        *start = j = skip_spaces(data, size, j + 1);

        while (j < size && data[j] != ';') {
            j++;
        }

        *len = j - *start;

        return WQ_OK;
    }

    return WQ_MISSING;
}


static void
check_hex(const uint8_t *data, size_t size)
{
    size_t  i, good;

    static const char  digits[] = "0123456789abcdef";

    for (good = 1, i = 0; i < size; i++) {
        good &= memchr(digits, data[i], 16) != NULL;
    }

    require(wq_cookie_is_hex(data, size, size) == (int) good);
    require(!wq_cookie_is_hex(data, size, size + 1));
    require(size == 0 || !wq_cookie_is_hex(data, size, size - 1));
}


/* in memory of its own size */

static wq_rc_t
ask(const char *before, const uint8_t *data, size_t size, const char *after,
    const wq_str_t *name, size_t *start, size_t *len)
{
    size_t     n, m;
    u_char    *p;
    wq_rc_t    rc;
    wq_str_t   value;

    n = strlen(before);
    m = strlen(after);
    p = malloc(n + size + m);

    memcpy(p, before, n);

    if (size > 0) {
        memcpy(p + n, data, size);
    }

    memcpy(p + n + size, after, m);

    rc = wq_cookie_find(p, n + size + m, name, &value);

    if (rc == WQ_OK) {
        require(value.data >= p && value.data + value.len <= p + n + size + m);

        *start = (size_t) (value.data - p);
        *len = value.len;
        check_hex(value.data, value.len);

    } else {
        require(rc == WQ_MISSING);
    }

    free(p);

    return rc;
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t           i, start, len, want_start, want_len;
    wq_rc_t          rc;
    const wq_str_t  *name;

    for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        name = &names[i];

        rc = ask("", data, size, "", name, &start, &len);
        require(rc == expected(data, size, name, &want_start, &want_len));

        if (rc == WQ_OK) {
            require(start == want_start && len == want_len);
        }
    }

    require(ask(" wq_UID =x;", data, size, "", &names[0], &start, &len)
            == WQ_OK);
    require(start == 9 && len == 1);

    rc = ask("", data, size, "", &names[0], &want_start, &want_len);

    require(ask("", data, size, "; wq_uid=yz", &names[0], &start, &len)
            == WQ_OK);
    require(rc == WQ_OK ? start == want_start && len == want_len
                        : start == size + 9 && len == 2);

    return 0;
}
