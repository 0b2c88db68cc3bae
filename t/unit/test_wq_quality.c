
/* unit tests: the ranges of a header such as Accept, with their qualities */


#include "unit.h"
#include "wq_quality.h"


/* all ranges of a header as "name quality|name quality" */

static char *
ranges(const char *header, size_t len)
{
    char          *p;
    u_char        *copy;
    size_t         before;
    wq_str_t       rest;
    wq_quality_t   range;
    static char    list[1024];

    p = list;
    *p = '\0';

    copy = unit_copy(header, len);

    rest.len = len;
    rest.data = copy;

    for ( ;; ) {
        before = rest.len;

        if (!wq_quality_next(&rest, &range)) {
            break;
        }

        if (rest.len >= before || rest.data + rest.len != copy + len
            || range.name.len == 0 || range.name.data < copy
            || range.name.data + range.name.len > rest.data)
        {
            strcpy(list, "beyond its header");
            break;
        }

        p += sprintf(p, "%s%.*s %u", p > list ? "|" : "",
                     (int) range.name.len, (const char *) range.name.data,
                     range.quality);
    }

    free(copy);

    return list;
}


static void
check(const char *header, const char *want)
{
    const char  *got;

    got = ranges(header, strlen(header));

    unit_ok(strcmp(got, want) == 0, "\"%s\" is %s, not %s", header, want, got);
}


static void
test_lists(void)
{
    size_t  i;

    static const struct {
        const char  *header;
        const char  *want;
    } rows[] = {
        { "", "" },
        { "a", "a 1000" },
        { "a,b", "a 1000|b 1000" },
        { "text/html", "text/html 1000" },
        { "Text/HTML", "Text/HTML 1000" },
        { "*/*,*", "*/* 1000|* 1000" },
        { "ko-KR,ko;q=0.9", "ko-KR 1000|ko 900" },
        { "!#$%&'*+-.^_`|~09azAZ", "!#$%&'*+-.^_`|~09azAZ 1000" },

        /* white space wherever RFC 9110 has it */

        { "  a  ", "a 1000" },
        { "\ta\t,\tb\t", "a 1000|b 1000" },
        { " a ; q=0.5 , b\t;\tq=0.4\t", "a 500|b 400" },

        /* a list may have empty elements, and must not be empty because of
         * them */

        { ",", "" },
        { " , ,\t", "" },
        { ",a", "a 1000" },
        { "a,", "a 1000" },
        { " ,, a ,, b ,, ", "a 1000|b 1000" }
    };

    for (i = 0; i < unit_nitems(rows); i++) {
        check(rows[i].header, rows[i].want);
    }

    unit_ok(strcmp(ranges(NULL, 0), "") == 0, "no header at all");
}


static void
test_qualities(void)
{
    char      header[64], want[64];
    size_t    i;
    unsigned  quality;

    static const struct {
        const char  *text;
        unsigned     quality;
    } good[] = {
        { "0", 0 }, { "0.", 0 }, { "0.0", 0 }, { "0.00", 0 }, { "0.000", 0 },
        { "1", 1000 }, { "1.", 1000 }, { "1.0", 1000 }, { "1.00", 1000 },
        { "1.000", 1000 }, { "0.1", 100 }, { "0.01", 10 }, { "0.001", 1 },
        { "0.8", 800 }, { "0.80", 800 }, { "0.800", 800 }, { "0.85", 850 },
        { "0.999", 999 }, { "0.123", 123 }
    };

    static const char *const  bad[] = {
        "", "\"\"", "\"1\"", "\"0.5\"", "2", "9", "-1", "+1", "-0", "a", "q",
        ".5", ".", "1.1", "1.01", "1.001", "1.5", "1.9", "2.0", "0.0000",
        "0.1234", "1.0000", "00", "01", "10", "00.5", "0,5", "0.5.", "0..5",
        "0.a", "0.-1", "0.5a", "0x1", "1e0", "0.5e1", "0 .5", "0. 5", "0.5 5",
        "nan", "inf", "=0.5", "0.5=", "0.5/", "\"0.5", "0.5\"", "0.5\"\"",
        "99999999999999999999", "0.99999999999999999999",
        "0.\xd9\xa5", "\xef\xbc\x91"
    };

    for (i = 0; i < unit_nitems(good); i++) {
        sprintf(header, "x,a;q=%s,y", good[i].text);
        sprintf(want, "x 1000|a %u|y 1000", good[i].quality);
        check(header, want);

        sprintf(header, "a ;Q=%s", good[i].text);
        sprintf(want, "a %u", good[i].quality);
        check(header, want);
    }

    for (quality = 0; quality < 1000; quality++) {
        sprintf(header, "a;q=0.%03u", quality);
        sprintf(want, "a %u", quality);

        if (strcmp(ranges(header, strlen(header)), want) != 0) {
            break;
        }
    }

    unit_ok(quality == 1000, "every quality of three digits");

    for (i = 0; i < unit_nitems(bad); i++) {
        sprintf(header, "x;q=0.3, a;q=%s", bad[i]);

        if (strcmp(bad[i], "0,5") == 0) {
            check(header, "x 300|a 0|5 1000");
            continue;
        }

        check(header, "x 300");
    }
}


static void
test_parameters(void)
{
    size_t  i;

    static const struct {
        const char  *header;
        const char  *want;
    } rows[] = {
        { "a;b=c", "a 1000" },
        { "a;b=c;q=0.5", "a 500" },
        { "a;q=0.5;b=c", "a 500" },
        { "a;b=c;d=e;f=g;q=0.5;h=i", "a 500" },
        { "a;qq=0.5", "a 1000" },
        { "a;xq=0.5;Qx=0.4", "a 1000" },
        { "a;level=q=0.5", "" },
        { "a;q=0.5;q=0.25", "a 250" },
        { "a;q=0.5;q=2", "" },

        /* without a value, or nothing at all */

        { "a;b", "a 1000" },
        { "a;b;q=0.5", "a 500" },
        { "a;q=0.5;b", "a 500" },
        { "a;", "a 1000" },
        { "a;;;", "a 1000" },
        { "a ; ; ;q=0.5; ;", "a 500" },
        { "a;,b;", "a 1000|b 1000" },

        { "a;q", "" },
        { "a;q;b=c", "" },
        { "a;q ,b", "b 1000" },
        { "a;b=", "" },
        { "a;b=;q=0.5", "" },
        { "a;=b", "" },
        { "a;=", "" },
        { "a;=\",b\",c", "c 1000" },
        { "a;b =c", "" },
        { "a;b= c", "" },
        { "a;q =0.5", "" },
        { "a;q= 0.5", "" },
        { "a;b/c=d", "" },
        { "a;b=c/d", "" },
        { "a;b=c d", "" },
        { "a;b=(c)", "" },

        /* in quotes a comma and a semicolon are like any other character */

        { "a;b=\"c\"", "a 1000" },
        { "a;b=\"\";q=0.5", "a 500" },
        { "a;b=\"c,d;q=0.1\";q=0.5,e", "a 500|e 1000" },
        { "a;b=\"c\\\",d;q=0.1\\\\\";q=0.5,e", "a 500|e 1000" },
        { "a;b=\"\\,\\q\\;\" ; q=0.5", "a 500" },
        { "a;b=\"\xec\xa2\x8c\t\";q=0.5", "a 500" },
        { "a;b=\"c\"d", "" },
        { "a;b=\"c\"d,e", "e 1000" },
        { "a;b=\"c\"\"d,\",e", "e 1000" },
        { "a;b=c\"d,e\",f", "f 1000" },
        { "a;\"b\"=c,d", "d 1000" },

        /* never closed */

        { "x,a;b=\"", "x 1000" },
        { "x,a;b=\"c", "x 1000" },
        { "x,a;b=\"c,d", "x 1000" },
        { "x,a;b=\"c\\", "x 1000" },
        { "x,a;b=\"c\\\"", "x 1000" },
        { "x,a;b=\"c\\\",d", "x 1000" },
        { "x,a;b=\"c\",d;e=\",f", "x 1000|a 1000" }
    };

    for (i = 0; i < unit_nitems(rows); i++) {
        check(rows[i].header, rows[i].want);
    }
}


/* each costs itself, and none of those around it */

static void
test_malformed(void)
{
    int     good, c;
    char    header[64];
    size_t  i;

    static const char *const  rows[] = {
        ";", ";q=0.5", "; q=0.5", "=", "a b", "a b;q=0.5", "a q=0.5", "a=b",
        "a:q=0.5", "(a)", "<a>", "a@b", "[a]", "{a}", "a\\", "\\", "a?",
        "\"a\"", "\"a,b\"", "a\"b,c\"", "\"a\\\",b\"", "\xec\x95\x84",
        "a\xff", "\x01", "a\x7f", "a;q=0.5 b", "a;b c", "a;b;c d",
        "a;q=0.5 ;q=x", "a;b=\"c\" d"
    };

    for (i = 0; i < unit_nitems(rows); i++) {
        sprintf(header, "x;q=0.2,%s,y;q=0.3", rows[i]);
        check(header, "x 200|y 300");

        sprintf(header, "x;q=0.2 , %s ,y;q=0.3", rows[i]);
        check(header, "x 200|y 300");

        sprintf(header, "%s, x;q=0.2", rows[i]);
        check(header, "x 200");

        sprintf(header, "x;q=0.2, %s", rows[i]);
        check(header, "x 200");
    }

    /* every byte: of a name, of a parameter, in quotes */

    for (c = 0; c < 256; c++) {
        good = c != '\0'
               && strchr("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz"
                         "ABCDEFGHIJKLMNOPQRSTUVWXYZ", c) != NULL;

        memcpy(header, "a_b,c", 5);
        header[1] = (char) c;

        if (c == ',') {
            unit_ok(strcmp(ranges(header, 5), "a 1000|b 1000|c 1000") == 0,
                    "a comma in a name ends it");

        } else if (c == '"') {
            unit_ok(strcmp(ranges(header, 5), "") == 0,
                    "a quote in a name begins a string");

        } else if (c == ';') {
            unit_ok(strcmp(ranges(header, 5), "a 1000|c 1000") == 0,
                    "a semicolon in a name begins a parameter");

        } else {
            unit_ok((strstr(ranges(header, 5), "b 1000") != NULL)
                    == (good || c == '/')
                    && strstr(ranges(header, 5), "c 1000") != NULL,
                    "the byte %02x in a name", (unsigned) c);
        }

        memcpy(header, "a;b=x_y;q=0.5", 13);
        header[5] = (char) c;

        if (c == ',' || c == ';') {
            continue;
        }

        unit_ok((strcmp(ranges(header, 13), "a 500") == 0) == good,
                "the byte %02x in a value", (unsigned) c);

        memcpy(header, "a;b=\"_,\";q=0.5", 14);
        header[5] = (char) c;

        unit_ok((strcmp(ranges(header, 14), "a 500") == 0)
                == (c != '"'), "the byte %02x in quotes", (unsigned) c);
    }
}


/* cut off anywhere: no byte behind the end is read, and the first stays */

static void
test_cut(void)
{
    int     good;
    size_t  len;

    static const char  header[] = "a , b ; c=\"d\\\",e\" ;q=0.25;f , g;q=1.00";

    good = 1;

    for (len = 1; len < sizeof(header); len++) {
        good &= strncmp(ranges(header, len), "a 1000", 6) == 0;
    }

    unit_ok(good, "the first range is there however short the header is cut");
    check(header, "a 1000|b 250|g 1000");
}


/* these would take minutes if anything were gone through twice */

static void
test_long(void)
{
    char          *text;
    size_t         i, n, len;
    wq_str_t       rest;
    wq_quality_t   range;

    static const struct {
        const char  *unit;
        size_t       ranges;        /* of each unit */
    } rows[] = {
        { "a,", 1 },
        { ",", 0 },
        { " ", 0 },
        { "a;b=\"c\" d,", 0 },
        { "a;b=\"c,\",", 1 },
        { "a\",\",", 0 },
        { "(,", 0 }
    };

    for (i = 0; i < unit_nitems(rows); i++) {
        len = strlen(rows[i].unit);
        text = malloc(200000 * len);

        for (n = 0; n < 200000; n++) {
            memcpy(text + n * len, rows[i].unit, len);
        }

        rest.len = 200000 * len;
        rest.data = (u_char *) text;

        for (n = 0; wq_quality_next(&rest, &range); n++) { /* void */ }

        unit_ok(n == 200000 * rows[i].ranges && rest.len == 0,
                "200000 times \"%s\"", rows[i].unit);

        free(text);
    }

    /* every other quote is escaped, and none is closed */

    text = malloc(1000001);
    memset(text, '\\', 1000001);
    text[0] = '"';

    rest.len = 1000001;
    rest.data = (u_char *) text;

    unit_ok(!wq_quality_next(&rest, &range) && rest.len == 0,
            "a million backslashes in a quote");

    memset(text, 'a', 1000001);

    rest.len = 1000001;
    rest.data = (u_char *) text;

    unit_ok(wq_quality_next(&rest, &range) && range.name.len == 1000001
            && rest.len == 0, "a name of a million letters");

    free(text);
}


static void
test_same(void)
{
    int       good, c, other;
    u_char    one[1], two[1];
    size_t    i;
    wq_str_t  name, lower;

    static const struct {
        const char  *name;
        const char  *lower;
        unsigned     same;
    } rows[] = {
        { "", "", 1 },
        { "a", "a", 1 },
        { "A", "a", 1 },
        { "Text/HTML", "text/html", 1 },
        { "TEXT/HTML", "text/html", 1 },
        { "text/htm", "text/html", 0 },
        { "text/html5", "text/html", 0 },
        { "text/htmx", "text/html", 0 },
        { "", "a", 0 },
        { "a", "", 0 }
    };

    for (i = 0; i < unit_nitems(rows); i++) {
        name.len = strlen(rows[i].name);
        name.data = unit_copy(rows[i].name, name.len);
        lower.len = strlen(rows[i].lower);
        lower.data = unit_copy(rows[i].lower, lower.len);

        unit_ok(wq_quality_same(&name, &lower) == rows[i].same,
                "\"%s\" and \"%s\"", rows[i].name, rows[i].lower);

        free(name.data);
        free(lower.data);
    }

    /* "@" and "`", "[" and "{" differ by the bit that the letters do */

    good = 1;
    name.len = lower.len = 1;
    name.data = one;
    lower.data = two;

    for (c = 0; c < 256; c++) {
        for (other = 0; other < 256; other++) {

            if (other >= 'A' && other <= 'Z') {
                continue;
            }

            one[0] = (u_char) c;
            two[0] = (u_char) other;

            good &= wq_quality_same(&name, &lower)
                    == (c == other || (c >= 'A' && c <= 'Z'
                                       && c - 'A' + 'a' == other));
        }
    }

    unit_ok(good, "only letters have a case");
}


int
main(void)
{
    test_lists();
    test_qualities();
    test_parameters();
    test_malformed();
    test_cut();
    test_long();
    test_same();

    return unit_done();
}
