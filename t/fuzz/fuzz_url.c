
/*
 * fuzz: an address that is taken holds only what the contract allows, and the
 * same address printed in full, with as many and with as few escapes as can be,
 * is taken again and means the same.
 */


#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wq_url.h"


#define MAX  1024


int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);


static void
require(int condition)
{
    if (!condition) {
        abort();
    }
}


static int
inside(wq_str_t s, const u_char *base, size_t len)
{
    return s.data >= base && s.len <= len
           && (size_t) (s.data - base) <= len - s.len;
}


static int
equal(wq_str_t a, wq_str_t b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}


/* every byte, or only those that cannot stand there as they are */

static char *
escape(char *p, wq_str_t s, const char *special)
{
    u_char  c;
    size_t  i;

    for (i = 0; i < s.len; i++) {
        c = s.data[i];

        if (special != NULL && c > ' ' && c != 0x7f
            && memchr(special, c, strlen(special)) == NULL)
        {
            *p++ = (char) c;
            continue;
        }

        p += sprintf(p, "%%%02x", c);
    }

    return p;
}


static void
check_host(const wq_url_t *url)
{
    size_t       i;
    const char  *alphabet;

    alphabet = url->ipv6 ? "0123456789abcdefABCDEF:."
                         : "abcdefghijklmnopqrstuvwxyz"
                           "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";

    require(url->host.len >= 1 && url->host.len <= 253);

    for (i = 0; i < url->host.len; i++) {
        require(memchr(alphabet, url->host.data[i], strlen(alphabet)) != NULL);
    }
}


static void
check_text(const uint8_t *data, size_t size)
{
    size_t  i;

    require((size > 8 && memcmp(data, "redis://", 8) == 0)
            || (size > 5 && memcmp(data, "unix:", 5) == 0));

    for (i = 0; i < size; i++) {
        require(data[i] > ' ' && data[i] != 0x7f);
        require(data[i] != '?' && data[i] != '#');
    }
}


static void
check_error(const wq_url_t *url, const char *error)
{
    size_t    i;
    wq_url_t  zero;

    memset(&zero, 0, sizeof(zero));
    require(memcmp(url, &zero, sizeof(zero)) == 0);

    require(strlen(error) >= 10 && strlen(error) <= 100);

    for (i = 0; error[i]; i++) {
        require(error[i] >= 0x20 && error[i] < 0x7f);
    }
}


static void
check_again(const wq_url_t *url, int escape_all)
{
    char         *p;
    size_t        len;
    u_char       *copy, *buf;
    wq_url_t      again;
    static char   text[4 * MAX + 64];

    p = text;

    if (url->unix_socket) {
        p += sprintf(p, "unix:");
        memcpy(p, url->path.data, url->path.len);
        p += url->path.len;

    } else {
        p += sprintf(p, "redis://");

        if (url->password.len > 0) {
            p = escape(p, url->user, escape_all ? NULL : "%/?#:");
            *p++ = ':';
            p = escape(p, url->password, escape_all ? NULL : "%/?#");
            *p++ = '@';
        }

        p += sprintf(p, url->ipv6 ? "[%.*s]:%u" : "%.*s:%u",
                     (int) url->host.len, (const char *) url->host.data,
                     url->port);

        if (url->has_db) {
            p += sprintf(p, "/%u", url->db);
        }
    }

    len = (size_t) (p - text);
    copy = malloc(len);
    buf = malloc(len);
    memcpy(copy, text, len);

    require(wq_url_parse(&again, copy, len, buf) == NULL);

    require(equal(again.host, url->host));
    require(equal(again.path, url->path));
    require(equal(again.user, url->user));
    require(equal(again.password, url->password));
    require(again.port == url->port);
    require(again.db == url->db);
    require(again.unix_socket == url->unix_socket);
    require(again.ipv6 == url->ipv6);
    require(again.has_db == url->has_db);

    free(copy);
    free(buf);
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t       i;
    u_char      *buf;
    wq_url_t     url;
    const char  *error;

    if (size > MAX) {
        return 0;
    }

    /* exactly len bytes: what is written behind them is found */

    buf = malloc(size);
    memset(&url, 0xa5, sizeof(url));

    error = wq_url_parse(&url, data, size, buf);

    if (error != NULL) {
        check_error(&url, error);
        free(buf);
        return 0;
    }

    check_text(data, size);

    if (url.unix_socket) {
        require(inside(url.path, data, size));
        require(url.path.len >= 1 && url.path.len < 107);
        require(url.path.data[0] == '/');
        require(url.path.data + url.path.len == data + size);
        require(url.host.len == 0 && url.user.len == 0);
        require(url.password.len == 0 && url.has_db == 0 && url.ipv6 == 0);

    } else {
        require(inside(url.host, data, size));
        require(url.path.len == 0);
        require(url.port >= 1 && url.port <= 65535);
        check_host(&url);

        require(url.user.len == 0 || inside(url.user, data, size)
                || inside(url.user, buf, size));
        require(url.password.len == 0 || inside(url.password, data, size)
                || inside(url.password, buf, size));

        /* a user without a password would be an AUTH that cannot be sent */

        require(url.user.len == 0 || url.password.len > 0);
        require((url.password.len > 0) == (memchr(data, '@', size) != NULL));

        for (i = 0; i < url.user.len; i++) {
            require(url.user.data[i] != 0);
        }

        for (i = 0; i < url.password.len; i++) {
            require(url.password.data[i] != 0);
        }
    }

    require(url.db <= 65535 && (url.has_db || url.db == 0));

    check_again(&url, 1);
    check_again(&url, 0);

    free(buf);

    return 0;
}
