
/* unit tests: the capacity of an event, as its service tells it */


#include "unit.h"
#include "wq_capacity.h"


#define UNTOUCHED  0xdeadbeef


static wq_rc_t
parse_as(const char *text, size_t len, const char *name, uint32_t *capacity)
{
    u_char    *copy;
    wq_rc_t    rc;
    wq_str_t   field;

    *capacity = UNTOUCHED;
    copy = unit_copy(text, len);

    field.len = strlen(name);
    field.data = unit_copy(name, field.len);

    rc = wq_capacity_parse(copy, len, &field, capacity);

    free(field.data);
    free(copy);

    return rc;
}


/* it is this number */

static int
is(const char *text, const char *name, uint32_t want)
{
    uint32_t  capacity;

    return parse_as(text, strlen(text), name, &capacity) == WQ_OK
           && capacity == want;
}


/* it is refused with this, and nothing is said */

static int
fails_as(const char *text, size_t len, const char *name, wq_rc_t want)
{
    uint32_t  capacity;

    return parse_as(text, len, name, &capacity) == want
           && capacity == UNTOUCHED;
}


static int
fails(const char *text, const char *name, wq_rc_t want)
{
    return fails_as(text, strlen(text), name, want);
}


static void
test_field(void)
{
    char     name[WQ_CAPACITY_FIELD_MAX + 2];
    size_t   i, len;
    u_char  *copy;

    static const struct {
        const char  *name;
        wq_rc_t      rc;
    } rows[] = {
        { "seatCount", WQ_OK },
        { "a", WQ_OK },
        { "data.seats.free", WQ_OK },
        { "a.b.c.d.e.f", WQ_OK },
        { "with space", WQ_OK },
        { "\"", WQ_OK },
        { "\xec\xa2\x8c\xec\x84\x9d", WQ_OK },
        { "", WQ_EMPTY },
        { ".", WQ_EMPTY },
        { "..", WQ_EMPTY },
        { ".a", WQ_EMPTY },
        { "a.", WQ_EMPTY },
        { "a..b", WQ_EMPTY },
        { "a.b.", WQ_EMPTY }
    };

    for (i = 0; i < unit_nitems(rows); i++) {
        len = strlen(rows[i].name);
        copy = unit_copy(rows[i].name, len);

        unit_ok(wq_capacity_check_field(copy, len) == rows[i].rc,
                "field \"%s\"", rows[i].name);

        free(copy);
    }

    unit_ok(wq_capacity_check_field(NULL, 0) == WQ_EMPTY, "no field at all");

    memset(name, 'f', sizeof(name));

    unit_ok(wq_capacity_check_field((u_char *) name, WQ_CAPACITY_FIELD_MAX)
            == WQ_OK, "a field as long as it may be");
    unit_ok(wq_capacity_check_field((u_char *) name, WQ_CAPACITY_FIELD_MAX + 1)
            == WQ_TOO_LONG, "and one more");

    name[3] = '.';
    name[4] = '.';

    unit_ok(wq_capacity_check_field((u_char *) name, WQ_CAPACITY_FIELD_MAX + 1)
            == WQ_TOO_LONG, "too long counts before empty");
}


static void
test_numbers(void)
{
    char    text[128];
    size_t  i;

    static const struct {
        const char  *number;
        uint32_t     capacity;
    } good[] = {
        { "0", 0 },
        { "1", 1 },
        { "50", 50 },
        { "4294", 4294 },
        { "999999999", 999999999 },
        { "1000000000", WQ_CAPACITY_MAX },

        /* whole, however it is written */

        { "-0", 0 },
        { "0.0", 0 },
        { "-0.0", 0 },
        { "0e0", 0 },
        { "-0e10", 0 },
        { "5.0", 5 },
        { "1e3", 1000 },
        { "1E3", 1000 },
        { "1e+3", 1000 },
        { "1.5e3", 1500 },
        { "1e9", WQ_CAPACITY_MAX },
        { "10e-1", 1 },
        { "100000e-5", 1 },
        { "0.001e3", 1 }
    };

    static const char *const  bad[] = {

        /* negative */

        "-1", "-50", "-1e3", "-1000000000", "-4294967295", "-1e300",

        /* not whole */

        "0.5", "0.1", "1.5", "49.999", "1e-1", "15e-1", "-0.5", "1e-300",
        "999999999.5", "4.9e-324",

        /* too large; the wrap of 32 and of 64 bits */

        "1000000001", "1000000000.5", "2147483647", "2147483648",
        "4294967295", "4294967296", "4294967297", "4294967346",
        "9223372036854775807", "18446744073709551615",
        "18446744073709551616", "18446744073709551666", "1e10", "1e19",
        "1e20", "1e38", "1.7976931348623157e308", "1e309", "1e999",
        "9e99999", "-1e309"
    };

    for (i = 0; i < unit_nitems(good); i++) {
        snprintf(text, sizeof(text), "{\"seatCount\":%s}", good[i].number);
        unit_ok(is(text, "seatCount", good[i].capacity), "%s is %u",
                good[i].number, good[i].capacity);
    }

    for (i = 0; i < unit_nitems(bad); i++) {
        snprintf(text, sizeof(text), "{\"seatCount\":%s}", bad[i]);
        unit_ok(fails(text, "seatCount", WQ_BAD_RANGE), "%s is out of range",
                bad[i]);
    }
}


static void
test_types(void)
{
    size_t  i;
    char    text[128];

    static const char *const  values[] = {
        "\"50\"", "\"\"", "null", "true", "false", "[]", "[50]", "{}",
        "{\"seatCount\":50}"
    };

    for (i = 0; i < unit_nitems(values); i++) {
        snprintf(text, sizeof(text), "{\"seatCount\":%s}", values[i]);
        unit_ok(fails(text, "seatCount", WQ_BAD_TYPE), "%s is no number",
                values[i]);
    }
}


static void
test_missing(void)
{
    char    text[512], name[2 * WQ_CAPACITY_FIELD_MAX + 2];
    size_t  i;

    static const struct {
        const char  *text;
        const char  *name;
    } rows[] = {
        { "{}", "seatCount" },
        { "{\"seats\":50}", "seatCount" },
        { "{\"seatcount\":50}", "seatCount" },
        { "{\"SeatCount\":50}", "seatCount" },
        { "{\"seatCoun\":50}", "seatCount" },
        { "{\"seatCounts\":50}", "seatCount" },
        { "{\" seatCount\":50}", "seatCount" },
        { "{\"\":50}", "seatCount" },
        { "{\"data\":{\"seatCount\":50}}", "seatCount" },

        /* no object has no fields */

        { "50", "seatCount" },
        { "\"seatCount\"", "seatCount" },
        { "null", "seatCount" },
        { "true", "seatCount" },
        { "[]", "seatCount" },
        { "[50]", "seatCount" },
        { "[{\"seatCount\":50}]", "seatCount" },

        /* deeper */

        { "{\"a\":{\"b\":50}}", "a.c" },
        { "{\"a\":{\"b\":50}}", "b.a" },
        { "{\"a\":{\"b\":50}}", "a.b.c" },
        { "{\"a\":50}", "a.b" },
        { "{\"a\":null}", "a.b" },
        { "{\"a\":\"b\"}", "a.b" },
        { "{\"a\":[{\"b\":50}]}", "a.b" },
        { "{\"a\":[50]}", "a.0" },
        { "{\"a.b\":50}", "a.b" },
        { "{\"a\":{\"b.c\":50}}", "a.b.c" }
    };

    for (i = 0; i < unit_nitems(rows); i++) {
        unit_ok(fails(rows[i].text, rows[i].name, WQ_MISSING), "no %s in %s",
                rows[i].name, rows[i].text);
    }

    /* longer than any that was checked */

    memset(name, 'f', sizeof(name));
    name[sizeof(name) - 1] = '\0';
    snprintf(text, sizeof(text), "{\"%s\":50}", name);

    unit_ok(fails(text, name, WQ_MISSING), "a name that is too long");

    name[WQ_CAPACITY_FIELD_MAX + 1] = '\0';
    snprintf(text, sizeof(text), "{\"%s\":50}", name);
    unit_ok(fails(text, name, WQ_MISSING), "by one");

    name[WQ_CAPACITY_FIELD_MAX] = '\0';
    snprintf(text, sizeof(text), "{\"%s\":50}", name);
    unit_ok(is(text, name, 50), "as long as it may be");
}


static void
test_places(void)
{
    unit_ok(is("{\"data\":{\"seats\":{\"free\":7,\"sold\":8}}}",
               "data.seats.free", 7), "a field that stands deeper");
    unit_ok(is("{\"a\":1,\"b\":{\"a\":2,\"b\":{\"a\":3}}}", "b.b.a", 3),
            "and not one of the same name above");
    unit_ok(is("{\"a\":1,\"b\":{\"a\":2}}", "a", 1), "or below");

    unit_ok(is(" \t\r\n{ \"seatCount\" :\n50 , \"x\" : [ ] }\r\n \t",
               "seatCount", 50), "blanks everywhere");
    unit_ok(is("{\"id\":\"e1\",\"open\":true,\"tags\":[1,2,{\"seatCount\":3}],"
               "\"price\":12.5,\"seatCount\":50,\"more\":null}", "seatCount",
               50), "among others");

    unit_ok(is("{\"seat\\u0043ount\":50}", "seatCount", 50),
            "a name with an escape");
    unit_ok(is("{\"\xec\xa2\x8c\xec\x84\x9d\":50}",
               "\xec\xa2\x8c\xec\x84\x9d", 50), "a name in Korean");
    unit_ok(is("{\"\\uc88c\\uc11d\":50}", "\xec\xa2\x8c\xec\x84\x9d", 50),
            "also escaped");
    unit_ok(is("{\"a b\":50}", "a b", 50), "a name with a blank");
    unit_ok(is("{\"a\\\"b\":50}", "a\"b", 50), "with a quote");

    unit_ok(is("{\"seatCount\":50,\"seatCount\":60}", "seatCount", 50),
            "of two the first counts");
    unit_ok(fails("{\"seatCount\":\"x\",\"seatCount\":60}", "seatCount",
                  WQ_BAD_TYPE), "whatever it is");
    unit_ok(fails("{\"seatCount\":-1,\"seatCount\":60}", "seatCount",
                  WQ_BAD_RANGE), "also out of range");
}


static void
test_not_json(void)
{
    size_t  i;

    static const char *const  rows[] = {
        "", " ", "\r\n", "x", "seatCount", "seatCount=50", "50 60", "{",
        "}", "[", "{\"seatCount\"}", "{\"seatCount\":}", "{seatCount:50}",
        "{'seatCount':50}", "{\"seatCount\" 50}", "{\"seatCount\"=50}",
        "{\"seatCount\":50", "{\"seatCount\":50]", "{\"seatCount\":50,}",
        "{,\"seatCount\":50}", "{\"seatCount\":50 60}", "{\"seatCount\":50}}",
        "{\"seatCount\":50}{}", "{\"seatCount\":50}{\"seatCount\":60}",
        "{\"seatCount\":50} x", "{\"seatCount\":50},", "{\"seatCount\":50}\"",
        "{\"seatCount\":50}\v", "{\"seatCount\":50}\xff",
        "{\"seatCount\":+50}", "{\"seatCount\":.5}", "{\"seatCount\":-}",
        "{\"seatCount\":0x10}", "{\"seatCount\":1_000}",
        "{\"seatCount\":1,000}", "{\"seatCount\":NaN}",
        "{\"seatCount\":Infinity}", "{\"seatCount\":-Infinity}",
        "{\"seatCount\":inf}", "{\"seatCount\":5e}", "{\"seatCount\":1-1}",
        "{\"seatCount\":1.2.3}", "{\"seatCount\":fifty}",
        "{\"seatCount\":True}", "{\"seatCount\":nul}",
        "{\"seatCount\":50/**/}", "//\n{\"seatCount\":50}",
        "{\"a\":\"\\x\",\"seatCount\":50}",
        "{\"a\":\"\\u12\",\"seatCount\":50}",
        "{\"a\":\"\\ud800\",\"seatCount\":50}", "{\"a\":\"b,\"seatCount\":50}",
        "<html>503</html>", "<?xml version=\"1.0\"?><seatCount>50</seatCount>",
        "seatCount: 50", "--- {\"seatCount\":50}", ")]}',\n{\"seatCount\":50}",
        "callback({\"seatCount\":50})", "{\"seatCount\":50};"
    };

    for (i = 0; i < unit_nitems(rows); i++) {
        unit_ok(fails(rows[i], "seatCount", WQ_BAD_CHARACTER), "no JSON: %s",
                rows[i]);
    }
}


/* cut off anywhere, as by a connection that ends */

static void
test_cut(void)
{
    int     good;
    size_t  len;

    static const char  text[] = "{\"a\":[1,{\"b\":\"\\u00e9\"}],"
                                "\"data\":{\"seatCount\":12345}}";

    good = 1;

    for (len = 0; len < sizeof(text) - 1; len++) {
        good &= fails_as(text, len, "data.seatCount", WQ_BAD_CHARACTER);
    }

    unit_ok(good && len > 40, "no part of a text is taken for the whole");
    unit_ok(is(text, "data.seatCount", 12345), "but the whole is");
}


/* zeros and other control characters: in no text of JSON, wherever */

static void
test_control(void)
{
    int     good, c;
    char    text[64];
    size_t  i, len;

    static const char  plain[] = " {\"a\":\"b\", \"seatCount\" : 50 } ";

    len = sizeof(plain) - 1;

    for (c = 0; c < 0x20; c++) {

        if (c == '\t' || c == '\r' || c == '\n') {
            continue;
        }

        good = 1;

        for (i = 0; i <= len; i++) {
            memcpy(text, plain, i);
            text[i] = (char) c;
            memcpy(text + i + 1, plain + i, len - i);

            good &= fails_as(text, len + 1, "seatCount", WQ_BAD_CHARACTER);
        }

        unit_ok(good, "no JSON: %02x at any place", (unsigned) c);
    }

    unit_ok(is(plain, "seatCount", 50), "without one it is");
}


static char *
repeat(char *p, const char *text, size_t n)
{
    size_t  len;

    len = strlen(text);

    while (n--) {
        memcpy(p, text, len);
        p += len;
    }

    return p;
}


static void
test_deep(void)
{
    char      *text, *p;
    size_t     i;
    uint32_t   capacity;

    static const struct {
        const char  *open;
        const char  *close;
        size_t       depth;
        wq_rc_t      rc;
    } rows[] = {
        { "[", "]", 100, WQ_OK },
        { "{\"x\":", "}", 100, WQ_OK },
        { "[", "]", 2000, WQ_BAD_CHARACTER },
        { "{\"x\":", "}", 2000, WQ_BAD_CHARACTER },
        { "[", "]", 1000000, WQ_BAD_CHARACTER },
        { "[", "", 1000000, WQ_BAD_CHARACTER },
        { "{\"x\":", "", 1000000, WQ_BAD_CHARACTER },
        { "[{\"x\":", "}]", 1000000, WQ_BAD_CHARACTER }
    };

    for (i = 0; i < unit_nitems(rows); i++) {
        text = malloc(64 + rows[i].depth * (strlen(rows[i].open)
                                            + strlen(rows[i].close)));

        p = repeat(text, "{\"deep\":", 1);
        p = repeat(p, rows[i].open, rows[i].depth);
        p = repeat(p, "1", 1);
        p = repeat(p, rows[i].close, rows[i].depth);
        p = repeat(p, ",\"seatCount\":50}", 1);

        unit_ok(parse_as(text, (size_t) (p - text), "seatCount", &capacity)
                == rows[i].rc
                && capacity == (rows[i].rc == WQ_OK ? 50 : UNTOUCHED),
                "%zu times %s", rows[i].depth, rows[i].open);

        free(text);
    }
}


static void
test_long(void)
{
    char      *text, *p;
    uint32_t   capacity;

    text = malloc(4 * 1024 * 1024);

    p = repeat(text, "{\"s\":\"", 1);
    p = repeat(p, "x", 1024 * 1024);
    p = repeat(p, "\",\"n\":[0", 1);
    p = repeat(p, ",1", 100000);
    p = repeat(p, "],", 1);
    p = repeat(p, "\"many\":1,", 10000);
    p = repeat(p, "\"seatCount\":50}", 1);
    p = repeat(p, "\n", 1024 * 1024);

    unit_ok(parse_as(text, (size_t) (p - text), "seatCount", &capacity)
            == WQ_OK && capacity == 50, "a long text");

    *p++ = '.';

    unit_ok(fails_as(text, (size_t) (p - text), "seatCount",
                     WQ_BAD_CHARACTER), "with something at its end");

    /* many digits */

    p = repeat(text, "{\"seatCount\":", 1);
    p = repeat(p, "9", 1000);
    p = repeat(p, "}", 1);

    unit_ok(parse_as(text, (size_t) (p - text), "seatCount", &capacity)
            != WQ_OK && capacity == UNTOUCHED, "a number of 1000 digits");

    free(text);
}


int
main(void)
{
    test_field();
    test_numbers();
    test_types();
    test_missing();
    test_places();
    test_not_json();
    test_cut();
    test_control();
    test_deep();
    test_long();

    return unit_done();
}
