
/* unit tests: where Redis is, as an operator writes it */


#include "unit.h"
#include "wq_url.h"


#define X10   "xxxxxxxxxx"
#define X100  X10 X10 X10 X10 X10 X10 X10 X10 X10 X10
#define X250  X100 X100 X10 X10 X10 X10 X10


typedef struct {
    const char  *text;
    const char  *host;
    unsigned     port;
    int          db;            /* -1: none was named */
    const char  *user;
    const char  *password;
    unsigned     ipv6;
} good_row_t;


static const good_row_t  good_rows[] = {
    { "redis://localhost", "localhost", 6379, -1, "", "", 0 },
    { "redis://127.0.0.1:6380", "127.0.0.1", 6380, -1, "", "", 0 },
    { "redis://h/", "h", 6379, -1, "", "", 0 },
    { "redis://h/0", "h", 6379, 0, "", "", 0 },
    { "redis://h:1/65535", "h", 1, 65535, "", "", 0 },
    { "redis://h:65535/15", "h", 65535, 15, "", "", 0 },
    { "redis://my_redis-1.example.com:7000/3", "my_redis-1.example.com", 7000,
      3, "", "", 0 },
    { "redis://UPPER.Case", "UPPER.Case", 6379, -1, "", "", 0 },
    { "redis://[::1]", "::1", 6379, -1, "", "", 1 },
    { "redis://[::]:7000", "::", 7000, -1, "", "", 1 },
    { "redis://[2001:db8::A]/2", "2001:db8::A", 6379, 2, "", "", 1 },
    { "redis://[::ffff:10.0.0.1]:7000/2", "::ffff:10.0.0.1", 7000, 2, "", "",
      1 },
    { "redis://[ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255]",
      "ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255", 6379, -1, "", "", 1 },
    { "redis://:secret@h", "h", 6379, -1, "", "secret", 0 },
    { "redis://bob:secret@h:7000/1", "h", 7000, 1, "bob", "secret", 0 },
    { "redis://bob:secret@[::1]:7000/1", "::1", 7000, 1, "bob", "secret", 1 },
    { "redis://bob:a:b:c@h", "h", 6379, -1, "bob", "a:b:c", 0 },
    { "redis://::@h", "h", 6379, -1, "", ":", 0 },
    { "redis://bob:p@ss@h", "h", 6379, -1, "bob", "p@ss", 0 },
    { "redis://:@@h", "h", 6379, -1, "", "@", 0 },
    { "redis://b@b:p@h", "h", 6379, -1, "b@b", "p", 0 },
    { "redis://:%40%3a%2F%3f%23%25%20@h", "h", 6379, -1, "", "@:/?#% ", 0 },
    { "redis://%62ob:%73ecret@h", "h", 6379, -1, "bob", "secret", 0 },
    { "redis://b%3Ab:x@h", "h", 6379, -1, "b:b", "x", 0 },
    { "redis://bob:%0d%0A%01%ff@h", "h", 6379, -1, "bob", "\r\n\x01\xff", 0 },
    { "redis://:\xec\x95\x94@h", "h", 6379, -1, "", "\xec\x95\x94", 0 },
    { "redis://:[x]@h", "h", 6379, -1, "", "[x]", 0 },
    { "redis://:%2500@h", "h", 6379, -1, "", "%00", 0 },
    { "redis://" X250 "yyy", X250 "yyy", 6379, -1, "", "", 0 }
};


static const struct {
    const char  *text;
    const char  *error;         /* a part of the sentence */
} bad_rows[] = {
    { "", "empty" },
    { "localhost", "start with" },
    { "localhost:6379", "start with" },
    { "127.0.0.1:6379", "start with" },
    { "/tmp/redis.sock", "start with" },
    { "http://h", "start with" },
    { "redis", "start with" },
    { "redis:", "start with" },
    { "redis:/h", "start with" },
    { "redis:h", "start with" },
    { "Redis://h", "start with" },
    { "tcp://h", "start with" },
    { "unix", "start with" },
    { "rediss://h", "TLS" },
    { "rediss://:p@h:6380/0", "TLS" },

    { "redis://", "host is missing" },
    { "redis:///", "host is missing" },
    { "redis:///1", "host is missing" },
    { "redis://:6379", "host is missing" },
    { "redis://:p@", "host is missing" },
    { "redis://:p@:6379", "host is missing" },
    { "redis://:p@/1", "host is missing" },
    { "redis://h!", "character in the host" },
    { "redis://h%41", "character in the host" },
    { "redis://a,b", "character in the host" },
    { "redis://h\xc3\xa9", "character in the host" },
    { "redis://h\\", "character in the host" },
    { "redis://a]", "character in the host" },
    { "redis://h~", "character in the host" },
    { "redis://" X250 "yyyy", "host is too long" },

    { "redis://[", "\"]\" is missing" },
    { "redis://[::1", "\"]\" is missing" },
    { "redis://[::1/0", "\"]\" is missing" },
    { "redis://[]", "no IPv6" },
    { "redis://[]:6379", "no IPv6" },
    { "redis://[1.2.3.4]", "no IPv6" },
    { "redis://[abc]", "no IPv6" },
    { "redis://[:1]", "no IPv6" },
    { "redis://[ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.2555]", "no IPv6" },
    { "redis://[localhost]", "IPv6 address" },
    { "redis://[::g]", "character in the IPv6" },
    { "redis://[[::1]]", "character in the IPv6" },
    { "redis://[fe80::1%eth0]", "scope" },
    { "redis://[fe80::1%25eth0]", "scope" },
    { "redis://[::1]x", "follow the IPv6" },
    { "redis://[::1]6379", "follow the IPv6" },
    { "redis://[::1]]", "follow the IPv6" },
    { "redis://[::1]:", "port" },
    { "redis://[::1]:0", "port" },
    { "redis://[::1]::1", "port" },
    { "redis://::1", "brackets" },
    { "redis://2001:db8::1", "brackets" },
    { "redis://h:6379:1", "brackets" },

    { "redis://h:", "port must be between 1 and 65535" },
    { "redis://h:/0", "port must be between 1 and 65535" },
    { "redis://h:0", "port must be between 1 and 65535" },
    { "redis://h:65536", "port must be between 1 and 65535" },
    { "redis://h:99999", "port must be between 1 and 65535" },
    { "redis://h:4294973675", "port must be between 1 and 65535" },
    { "redis://h:18446744073709557995", "port must be between 1 and 65535" },
    { "redis://h:-1", "port must be between 1 and 65535" },
    { "redis://h:+1", "port must be between 1 and 65535" },
    { "redis://h:6379x", "port must be between 1 and 65535" },
    { "redis://h:x", "port must be between 1 and 65535" },
    { "redis://h:0x10", "port must be between 1 and 65535" },

    { "redis://h/x", "database" },
    { "redis://h/-1", "database" },
    { "redis://h/+1", "database" },
    { "redis://h/1x", "database" },
    { "redis://h/1/", "database" },
    { "redis://h//", "database" },
    { "redis://h//1", "database" },
    { "redis://h/65536", "database" },
    { "redis://h/4294967296", "database" },
    { "redis://h/99999999999999999999999", "database" },
    { "redis://h/%31", "database" },
    { "redis://h/1?x=1", "query" },
    { "redis://h?db=1", "query" },
    { "redis://:a?b@h", "query" },
    { "redis://h#x", "fragment" },
    { "redis://h/0#", "fragment" },
    { "redis://:a#b@h", "fragment" },

    { "redis://bob@h", "without a password" },
    { "redis://@h", "without a password" },
    { "redis://@", "without a password" },
    { "redis://bob:@h", "password is empty" },
    { "redis://:@h", "password is empty" },
    { "redis://:a/b@h", "%2F" },
    { "redis://bob/x:p@h", "%2F" },
    { "redis://:%@h", "percent" },
    { "redis://:%4@h", "percent" },
    { "redis://:%4g@h", "percent" },
    { "redis://:%g4@h", "percent" },
    { "redis://:%%41@h", "percent" },
    { "redis://:abc%@h", "percent" },
    { "redis://%:abc@h", "percent" },
    { "redis://%4:1abc@h", "percent" },
    { "redis://b%zz:abc@h", "percent" },
    { "redis://:%-1@h", "percent" },
    { "redis://:%00@h", "%00" },
    { "redis://:a%00b@h", "%00" },
    { "redis://%00:a@h", "%00" },

    { " redis://h", "spaces" },
    { "redis://h ", "spaces" },
    { "redis://:a b@h", "spaces" },
    { "redis://h\n", "spaces" },
    { "redis://h\r\n", "spaces" },
    { "redis://\th", "spaces" },
    { "redis://:\x7f@h", "spaces" },
    { "redis://:\x01@h", "spaces" },

    { "unix:", "path of the unix socket is missing" },
    { "unix:redis.sock", "absolute" },
    { "unix:./redis.sock", "absolute" },
    { "unix:/tmp/a b", "spaces" },
    { "unix:/tmp/a\nb", "spaces" },
    { "unix:/tmp/r.sock?db=1", "query" },
    { "unix:/tmp/r.sock#1", "fragment" },
    { "unix:/" X100 "123456", "107" },
    { "unix:/" X100 X100, "107" }
};


static int
is(wq_str_t s, const char *want)
{
    return s.len == strlen(want)
           && (s.len == 0 || memcmp(s.data, want, s.len) == 0);
}


static int
inside(wq_str_t s, const u_char *base, size_t len)
{
    return s.data >= base && s.data + s.len <= base + len;
}


static int
good_is(const good_row_t *row, wq_url_t *url)
{
    return is(url->host, row->host)
           && url->port == row->port
           && url->has_db == (row->db >= 0)
           && url->db == (unsigned) (row->db >= 0 ? row->db : 0)
           && is(url->user, row->user)
           && is(url->password, row->password)
           && url->ipv6 == row->ipv6
           && url->unix_socket == 0
           && url->path.len == 0;
}


static void
test_good(void)
{
    u_char      *text, *buf;
    size_t       i, len;
    wq_url_t     url;
    const char  *error;

    for (i = 0; i < unit_nitems(good_rows); i++) {
        len = strlen(good_rows[i].text);
        text = unit_copy(good_rows[i].text, len);
        buf = malloc(len);
        memset(&url, 0xff, sizeof(url));

        error = wq_url_parse(&url, text, len, buf);

        unit_ok(error == NULL && good_is(&good_rows[i], &url),
                "%s%s%s", good_rows[i].text, error ? ": " : "",
                error ? error : "");

        unit_ok(inside(url.host, text, len)
                && (url.user.len == 0 || inside(url.user, text, len)
                    || inside(url.user, buf, len))
                && (url.password.len == 0 || inside(url.password, text, len)
                    || inside(url.password, buf, len)),
                "its strings are in the text or in the buffer");

        free(text);
        free(buf);
    }
}


static void
test_bad(void)
{
    u_char      *text, *buf;
    size_t       i, len;
    wq_url_t     url, zero;
    const char  *error;

    memset(&zero, 0, sizeof(zero));

    for (i = 0; i < unit_nitems(bad_rows); i++) {
        len = strlen(bad_rows[i].text);
        text = unit_copy(bad_rows[i].text, len);
        buf = malloc(len);
        memset(&url, 0xff, sizeof(url));

        error = wq_url_parse(&url, text, len, buf);

        unit_ok(error != NULL && strstr(error, bad_rows[i].error) != NULL,
                "\"%s\": %s", bad_rows[i].text, error ? error : "accepted");

        unit_ok(memcmp(&url, &zero, sizeof(url)) == 0, "and nothing is left");

        free(text);
        free(buf);
    }

    unit_ok(wq_url_parse(&url, NULL, 0, NULL) != NULL, "NULL is refused");
}


static void
test_unix(void)
{
    u_char      *text, *buf;
    size_t       i, len;
    wq_url_t     url;
    const char  *error;

    static const char *const  paths[] = {
        "/", "/tmp/redis.sock", "/run/r/a:b@c", "/tmp/100%", "/tmp/%41",
        "/" X100 "12345"
    };

    for (i = 0; i < unit_nitems(paths); i++) {
        len = strlen(paths[i]) + 5;
        text = malloc(len);
        buf = malloc(len);
        memcpy(text, "unix:", 5);
        memcpy(text + 5, paths[i], len - 5);

        error = wq_url_parse(&url, text, len, buf);

        unit_ok(error == NULL && is(url.path, paths[i])
                && url.path.data == text + 5 && url.unix_socket == 1
                && url.host.len == 0 && url.user.len == 0
                && url.password.len == 0 && url.has_db == 0 && url.db == 0
                && url.ipv6 == 0,
                "unix:%s", paths[i]);

        free(text);
        free(buf);
    }
}


/* cut anywhere: no read behind the cut, and a sentence or an address */

static void
test_truncated(void)
{
    int          good;
    u_char      *text, *buf;
    size_t       i, len;
    wq_url_t     url;
    const char  *error;

    for (i = 0; i < unit_nitems(good_rows); i++) {
        good = 1;

        for (len = 0; len <= strlen(good_rows[i].text); len++) {
            text = unit_copy(good_rows[i].text, len);
            buf = malloc(len);

            error = wq_url_parse(&url, text, len, buf);

            if (error == NULL) {
                good &= url.host.len > 0 && url.port >= 1
                        && url.port <= 65535 && url.db <= WQ_URL_MAX_DB;
            }

            free(text);
            free(buf);
        }

        unit_ok(good, "cut at every length: %s", good_rows[i].text);
    }
}


/* no byte below a space, in no place; a zero is one of them */

static void
test_control(void)
{
    int          c, good;
    u_char       text[64], buf[64];
    size_t       i, len;
    wq_url_t     url;
    const char  *valid;

    valid = "redis://bob:secret@host:6379/1";
    len = strlen(valid);
    good = 1;

    for (c = 0; c <= 0x20; c++) {
        for (i = 0; i < len; i++) {
            memcpy(text, valid, len);
            text[i] = (u_char) c;
            good &= wq_url_parse(&url, text, len, buf) != NULL;
        }
    }

    unit_ok(good, "no control character passes anywhere");
}


/* every byte survives its escape, in both cases of the digits */

static void
test_escapes(void)
{
    int          c, good;
    char         text[64];
    u_char       buf[64];
    wq_url_t     url;
    const char  *error;

    good = 1;

    for (c = 1; c < 256; c++) {
        snprintf(text, sizeof(text), "redis://%%%02x:%%%02X@h", c, c);

        error = wq_url_parse(&url, (u_char *) text, strlen(text), buf);

        good &= error == NULL
                && url.user.len == 1 && url.user.data[0] == c
                && url.password.len == 1 && url.password.data[0] == c;
    }

    unit_ok(good, "every byte but zero can be escaped");
}


/* a sentence must not depend on the text: the text may hold a password */

static void
test_secret(void)
{
    int          good;
    u_char      *text, *buf;
    size_t       i, len;
    wq_url_t     url;
    const char  *error;

    static const char *const  rows[] = {
        "redis://:hunter2@h:0", "redis://hunter2@h", "redis://:hunter2%zz@h",
        "hunter2", "unix:hunter2", "redis://:hunter2@", "redis://h/hunter2"
    };

    good = 1;

    for (i = 0; i < unit_nitems(rows); i++) {
        len = strlen(rows[i]);
        text = unit_copy(rows[i], len);
        buf = malloc(len);

        error = wq_url_parse(&url, text, len, buf);

        free(text);
        free(buf);

        /* read after both are gone */

        good &= error != NULL && strstr(error, "hunter2") == NULL;
    }

    unit_ok(good, "no sentence quotes the text");
}


int
main(void)
{
    test_good();
    test_bad();
    test_unix();
    test_truncated();
    test_control();
    test_escapes();
    test_secret();

    return unit_done();
}
