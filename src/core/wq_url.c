
/* core: where Redis is, as an operator writes it */


#include <string.h>

#include "wq_url.h"


/* the longest name that DNS knows; the longest text of an IPv6 address */
#define WQ_URL_MAX_HOST  253
#define WQ_URL_MAX_IPV6  45

/*
 * sizeof(sun_path) is 108 with the zero, and hiredis does not write the zero
 * behind a path of 107; this layer includes no sockets
 */
#define WQ_URL_MAX_PATH  106


static const char *wq_url_characters(wq_str_t text);
static const char *wq_url_unix(wq_url_t *url, wq_str_t path);
static const char *wq_url_redis(wq_url_t *url, wq_str_t text, u_char *buf);
static const char *wq_url_credentials(wq_url_t *url, wq_str_t text,
    u_char *buf);
static const char *wq_url_address(wq_url_t *url, wq_str_t text);
static const char *wq_url_ipv6(wq_str_t host);
static const char *wq_url_host(wq_str_t host);
static const char *wq_url_decode(wq_str_t *out, wq_str_t text, u_char **buf);
static int wq_url_number(wq_str_t text, unsigned max, unsigned *value);
static int wq_url_hex(u_char c);
static int wq_url_digit(u_char c);
static int wq_url_letter(u_char c);
static int wq_url_scheme(wq_str_t *text, const char *scheme);
static size_t wq_url_find(wq_str_t text, u_char c);
static size_t wq_url_find_last(wq_str_t text, u_char c);
static wq_str_t wq_url_part(wq_str_t text, size_t from, size_t to);


const char *
wq_url_parse(wq_url_t *url, const u_char *data, size_t len, u_char *buf)
{
    wq_str_t     text;
    const char  *error;

    memset(url, 0, sizeof(wq_url_t));

    if (len == 0) {
        return "address is empty";
    }

    text.len = len;
    text.data = (u_char *) data;

    error = wq_url_characters(text);

    if (error == NULL) {

        if (wq_url_scheme(&text, "redis://")) {
            error = wq_url_redis(url, text, buf);

        } else if (wq_url_scheme(&text, "unix:")) {
            error = wq_url_unix(url, text);

        } else if (wq_url_scheme(&text, "rediss://")) {
            error = "TLS to Redis (rediss://) is not supported";

        } else {
            error = "address must start with redis:// or unix:";
        }
    }

    if (error != NULL) {

        /* half an address is worse than none */

        memset(url, 0, sizeof(wq_url_t));
    }

    return error;
}


static const char *
wq_url_characters(wq_str_t text)
{
    size_t  i;

    for (i = 0; i < text.len; i++) {

        if (text.data[i] <= 0x20 || text.data[i] == 0x7f) {
            return "spaces and control characters are not allowed";
        }

        if (text.data[i] == '?') {
            return "a query string is not supported (a \"?\" in the password"
                   " is written %3F)";
        }

        if (text.data[i] == '#') {
            return "a fragment is not supported (a \"#\" in the password is"
                   " written %23)";
        }
    }

    return NULL;
}


static const char *
wq_url_unix(wq_url_t *url, wq_str_t path)
{
    if (path.len == 0) {
        return "path of the unix socket is missing";
    }

    if (path.data[0] != '/') {
        return "path of the unix socket must be absolute";
    }

    if (path.len > WQ_URL_MAX_PATH) {
        return "path of the unix socket must be shorter than 107 bytes";
    }

    url->path = path;
    url->unix_socket = 1;

    return NULL;
}


static const char *
wq_url_redis(wq_url_t *url, wq_str_t text, u_char *buf)
{
    size_t       slash, at;
    wq_str_t     authority, db;
    const char  *error;

    slash = wq_url_find(text, '/');

    authority = wq_url_part(text, 0, slash);
    db = wq_url_part(text, slash, text.len);

    if (wq_url_find(db, '@') != db.len) {
        return "\"@\" is not allowed after \"/\" (a \"/\" in the password is"
               " written %2F)";
    }

    at = wq_url_find_last(authority, '@');

    if (at != authority.len) {
        error = wq_url_credentials(url, wq_url_part(authority, 0, at), buf);

        if (error != NULL) {
            return error;
        }

        authority = wq_url_part(authority, at + 1, authority.len);
    }

    error = wq_url_address(url, authority);

    if (error != NULL) {
        return error;
    }

    /* "redis://host/" names no database */

    if (db.len > 1) {
        db = wq_url_part(db, 1, db.len);

        if (!wq_url_number(db, WQ_URL_MAX_DB, &url->db)) {
            return "database must be a number between 0 and 65535";
        }

        url->has_db = 1;
    }

    return NULL;
}


static const char *
wq_url_credentials(wq_url_t *url, wq_str_t text, u_char *buf)
{
    size_t       colon;
    wq_str_t     user, password;
    const char  *error;

    colon = wq_url_find(text, ':');

    if (colon == text.len) {
        return "user without a password: write user:password@ or :password@";
    }

    user = wq_url_part(text, 0, colon);
    password = wq_url_part(text, colon + 1, text.len);

    /*
     * An empty password would read as "no AUTH".  It is rather a template
     * whose variable was not set, and must not pass in silence.
     */

    if (password.len == 0) {
        return "password is empty";
    }

    error = wq_url_decode(&url->user, user, &buf);

    if (error != NULL) {
        return error;
    }

    return wq_url_decode(&url->password, password, &buf);
}


static const char *
wq_url_address(wq_url_t *url, wq_str_t text)
{
    size_t       end;
    wq_str_t     host;
    const char  *error;

    if (text.len > 0 && text.data[0] == '[') {
        end = wq_url_find(text, ']');

        if (end == text.len) {
            return "\"]\" is missing after the IPv6 address";
        }

        host = wq_url_part(text, 1, end);
        error = wq_url_ipv6(host);
        end++;

        url->ipv6 = 1;

    } else {
        end = wq_url_find(text, ':');

        if (wq_url_find_last(text, ':') != end) {
            return "an IPv6 address must be in brackets";
        }

        host = wq_url_part(text, 0, end);
        error = wq_url_host(host);
    }

    if (error != NULL) {
        return error;
    }

    url->host = host;
    url->port = WQ_URL_DEFAULT_PORT;

    if (end == text.len) {
        return NULL;
    }

    if (text.data[end] != ':') {
        return "\":\" or \"/\" must follow the IPv6 address";
    }

    text = wq_url_part(text, end + 1, text.len);

    if (!wq_url_number(text, 65535, &url->port) || url->port == 0) {
        return "port must be between 1 and 65535";
    }

    return NULL;
}


/* not the whole grammar: the resolver knows it; this keeps junk from it */

static const char *
wq_url_ipv6(wq_str_t host)
{
    size_t  i, colons;

    colons = 0;

    for (i = 0; i < host.len; i++) {

        if (host.data[i] == '%') {
            return "a scope in an IPv6 address is not supported";
        }

        if (host.data[i] == ':') {
            colons++;
            continue;
        }

        if (wq_url_hex(host.data[i]) < 0 && host.data[i] != '.') {
            return "bad character in the IPv6 address";
        }
    }

    if (colons < 2 || host.len > WQ_URL_MAX_IPV6) {
        return "no IPv6 address in the brackets";
    }

    return NULL;
}


static const char *
wq_url_host(wq_str_t host)
{
    u_char  c;
    size_t  i;

    if (host.len == 0) {
        return "host is missing";
    }

    if (host.len > WQ_URL_MAX_HOST) {
        return "host is too long";
    }

    for (i = 0; i < host.len; i++) {
        c = host.data[i];

        if (!wq_url_letter(c) && !wq_url_digit(c)
            && c != '.' && c != '-' && c != '_')
        {
            return "bad character in the host";
        }
    }

    return NULL;
}


/*
 * Leaves *buf behind what it wrote.  Decoding never lengthens, so user and
 * password together fit where the text fits.
 */

static const char *
wq_url_decode(wq_str_t *out, wq_str_t text, u_char **buf)
{
    int      high, low;
    size_t   i;
    u_char  *p;

    if (wq_url_find(text, '%') == text.len) {
        *out = text;
        return NULL;
    }

    p = *buf;

    for (i = 0; i < text.len; i++) {

        if (text.data[i] != '%') {
            *p++ = text.data[i];
            continue;
        }

        if (text.len - i < 3) {
            return "bad percent escape in user or password";
        }

        high = wq_url_hex(text.data[i + 1]);
        low = wq_url_hex(text.data[i + 2]);

        if (high < 0 || low < 0) {
            return "bad percent escape in user or password";
        }

        if (high == 0 && low == 0) {
            return "%00 is not allowed in user or password";
        }

        *p++ = (u_char) (high * 16 + low);
        i += 2;
    }

    out->data = *buf;
    out->len = (size_t) (p - *buf);

    *buf = p;

    return NULL;
}


static int
wq_url_number(wq_str_t text, unsigned max, unsigned *value)
{
    size_t    i;
    unsigned  n;

    if (text.len == 0) {
        return 0;
    }

    n = 0;

    for (i = 0; i < text.len; i++) {

        if (!wq_url_digit(text.data[i])) {
            return 0;
        }

        n = n * 10 + (unsigned) (text.data[i] - '0');

        /* at every digit, so that n cannot wrap round */

        if (n > max) {
            return 0;
        }
    }

    *value = n;

    return 1;
}


static int
wq_url_hex(u_char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }

    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }

    if (c >= 'A' && c <= 'F') {
        return c - 'A' + 10;
    }

    return -1;
}


static int
wq_url_digit(u_char c)
{
    return c >= '0' && c <= '9';
}


static int
wq_url_letter(u_char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}


static int
wq_url_scheme(wq_str_t *text, const char *scheme)
{
    size_t  len;

    len = strlen(scheme);

    if (text->len < len || memcmp(text->data, scheme, len) != 0) {
        return 0;
    }

    *text = wq_url_part(*text, len, text->len);

    return 1;
}


/* both return text.len where there is none */

static size_t
wq_url_find(wq_str_t text, u_char c)
{
    size_t  i;

    for (i = 0; i < text.len; i++) {
        if (text.data[i] == c) {
            break;
        }
    }

    return i;
}


static size_t
wq_url_find_last(wq_str_t text, u_char c)
{
    size_t  i;

    for (i = text.len; i > 0; i--) {
        if (text.data[i - 1] == c) {
            return i - 1;
        }
    }

    return text.len;
}


static wq_str_t
wq_url_part(wq_str_t text, size_t from, size_t to)
{
    text.data += from;
    text.len = to - from;

    return text;
}
