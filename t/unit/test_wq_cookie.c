
/* unit tests: one cookie in a Cookie header */


#include "unit.h"
#include "wq_cookie.h"


#define UID  "0123456789abcdef0123456789abcdef"


static const wq_str_t  name = wq_string("wq_uid");


/* want is NULL where there is none */

static void
check(const char *header, const char *want)
{
    size_t     len;
    u_char    *copy;
    wq_rc_t    rc;
    wq_str_t   value;

    len = strlen(header);
    copy = unit_copy(header, len);
    rc = wq_cookie_find(copy, len, &name, &value);

    if (want == NULL) {
        unit_ok(rc == WQ_MISSING, "none in \"%s\"", header);

    } else {
        unit_ok(rc == WQ_OK && value.len == strlen(want)
                && memcmp(value.data, want, value.len) == 0,
                "\"%s\" in \"%s\"", want, header);
    }

    free(copy);
}


static void
test_found(void)
{
    size_t  i;

    static const struct {
        const char  *header;
        const char  *want;
    } rows[] = {
        { "wq_uid=" UID, UID },
        { "a=b; wq_uid=" UID, UID },
        { "a=b;wq_uid=" UID, UID },
        { "wq_uid=" UID "; a=b", UID },
        { "wq_uid=" UID ";a=b", UID },
        { "a=\"b; wq_uid=" UID, UID },
        { ";;; ; wq_uid=" UID, UID },
        { "  wq_uid=" UID, UID },
        { "wq_uid=", "" },
        { "wq_uid=;", "" },
        { "wq_uid= ", "" },
        { "wq_uid = 1", "1" },
        { "wq_uid=\"1\"", "\"1\"" },
        { "wq_uid=1 ", "1 " },
        { "wq_uid==1", "=1" },
        { "wq_uid=a b", "a b" },

        /* the name in any case */

        { "WQ_UID=1", "1" },
        { "Wq_uId=1", "1" },

        /* the first one, good or not */

        { "wq_uid=1; wq_uid=2", "1" },
        { "wq_uid=; wq_uid=2", "" },

        /* a comma stands before a name, but ends no value */

        { "a=b,wq_uid=1", "1" },
        { "a=b, wq_uid=1", "1" },
        { "wq_uid=1,2", "1,2" },

        /* what is no cookie does not hide the one that follows */

        { "wq_uid; wq_uid=1", "1" },
        { "wq_uid;wq_uid=1", "1" },
        { "wq_uid ; wq_uid=1", "1" },
        { "wq_uid", NULL },
        { "wq_uidx=1; wq_uid=2", "2" },
        { "xwq_uid=1; wq_uid=2", "2" }
    };

    for (i = 0; i < unit_nitems(rows); i++) {
        check(rows[i].header, rows[i].want);
    }
}


static void
test_missing(void)
{
    size_t  i;

    static const char *const  rows[] = {
        "", " ", ";", ",", "=", "=1", "a", "a=b", "wq_ui", "wq_ui=1",
        "wq_uid", "wq_uid ", "wq_uid;", "wq_uid-=1", "wq_uidd=1", "wq-uid=1",
        "xwq_uid=1", "a=wq_uid=1", "a wq_uid=1", "\twq_uid=1", "wq_uid\t=1",
        "\"wq_uid=1\"", "wq_uid:1", "wQ?uid=1", "WQ\x7fUID=1"
    };

    for (i = 0; i < unit_nitems(rows); i++) {
        check(rows[i], NULL);
    }
}


/* letters only: what differs in the same bit is another character */

static void
test_case(void)
{
    wq_rc_t         rc;
    wq_str_t        value;
    const wq_str_t  at = wq_string("wq_`{@");

    rc = wq_cookie_find((u_char *) "WQ_`{@=1", 8, &at, &value);
    unit_ok(rc == WQ_OK && value.len == 1, "letters have no case");

    rc = wq_cookie_find((u_char *) "WQ_@[`=1", 8, &at, &value);
    unit_ok(rc == WQ_MISSING, "other characters are what they are");

    rc = wq_cookie_find(NULL, 0, &at, &value);
    unit_ok(rc == WQ_MISSING, "no header at all");

    rc = wq_cookie_find((u_char *) "wq\0uid=1;wq_`{@=\0", 17, &at, &value);
    unit_ok(rc == WQ_OK && value.len == 1 && value.data[0] == '\0',
            "a zero is a byte as any other");
}


static int
is_hex(const char *value, size_t len, size_t wanted)
{
    int      rc;
    u_char  *copy;

    copy = unit_copy(value, len);
    rc = wq_cookie_is_hex(copy, len, wanted);
    free(copy);

    return rc;
}


static void
test_hex(void)
{
    size_t  i;
    char    c;

    unit_ok(is_hex(UID, 32, 32), "32 digits");
    unit_ok(!is_hex(UID, 32, 31), "32 digits are not 31");
    unit_ok(!is_hex(UID, 32, 33), "nor 33");
    unit_ok(!is_hex("", 0, 32), "none are not 32");
    unit_ok(is_hex("", 0, 0), "none are none");
    unit_ok(!is_hex("\"0a\"", 4, 4), "quotes are no digits");
    unit_ok(!is_hex("0a\0", 3, 3), "a zero is none");

    for (i = 0; i < 256; i++) {
        c = (char) i;
        unit_ok(is_hex(&c, 1, 1)
                == (i != 0 && strchr("0123456789abcdef", (int) i) != NULL),
                "character %zu", i);
    }
}


int
main(void)
{
    test_found();
    test_missing();
    test_case();
    test_hex();

    return unit_done();
}
