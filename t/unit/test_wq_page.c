
/* unit tests: the template of the waiting page */


#include "unit.h"
#include "wq_page.h"


#define UNTOUCHED  12345


static const char *const  names[] = {
    "lang", "status", "position", "ahead", "behind", "total", "eta", "event",
    "refresh", "method", "state"
};


/* the value of a placeholder is its name in angle brackets */

static void
make_values(wq_str_t *values)
{
    size_t  i;

    static char  texts[WQ_PAGE_VALUES][16];

    for (i = 0; i < WQ_PAGE_VALUES; i++) {
        values[i].len = (size_t) sprintf(texts[i], "<%s>", names[i]);
        values[i].data = (u_char *) texts[i];
    }
}


/* everything in memory of its own size; NULL if it is no good */

static char *
render(const char *text, size_t len, size_t *parts)
{
    u_char          *copy, *page, *end;
    size_t           i, size;
    wq_str_t         values[WQ_PAGE_VALUES], wrong;
    wq_page_part_t  *part;
    static char      out[4096];

    *parts = UNTOUCHED;
    wrong.len = UNTOUCHED;
    wrong.data = NULL;

    copy = unit_copy(text, len);

    if (wq_page_count(copy, len, parts, &wrong) != WQ_OK
        || wrong.len != UNTOUCHED || wrong.data != NULL)
    {
        free(copy);
        return NULL;
    }

    part = malloc(*parts * sizeof(wq_page_part_t));
    wq_page_parse(copy, len, part);

    for (i = 0; i < *parts; i++) {
        if (part[i].text.data < copy
            || part[i].text.data + part[i].text.len > copy + len)
        {
            free(part);
            free(copy);
            return NULL;
        }
    }

    make_values(values);
    size = wq_page_size(part, *parts, values);
    page = malloc(size);
    end = wq_page_write(page, part, *parts, values);

    if (end != page + size || size >= sizeof(out)) {
        strcpy(out, "another size than was said");

    } else {
        memcpy(out, page, size);
        out[size] = '\0';
    }

    free(page);
    free(part);
    free(copy);

    return out;
}


static void
test_good(void)
{
    char    *page;
    size_t   i, parts;

    static const struct {
        const char  *text;
        size_t       parts;
        const char  *page;
    } rows[] = {
        { "", 0, "" },
        { "x", 1, "x" },
        { "\n", 1, "\n" },
        { "{{position}}", 1, "<position>" },
        { "a{{position}}", 1, "a<position>" },
        { "{{position}}b", 2, "<position>b" },
        { "a{{position}}b", 2, "a<position>b" },
        { "{{position}}{{total}}", 2, "<position><total>" },
        { "{{position}} {{total}}", 2, "<position> <total>" },
        { "{{eta}}{{eta}}{{eta}}", 3, "<eta><eta><eta>" },
        { "a{{ahead}}b{{behind}}c", 3, "a<ahead>b<behind>c" },

        { "<html lang=\"{{lang}}\">\n<p>{{position}} / {{total}}</p>\n"
          "<script>var s = {{state}};</script>\n</html>\n", 5,
          "<html lang=\"<lang>\">\n<p><position> / <total></p>\n"
          "<script>var s = <state>;</script>\n</html>\n" },

        /* spaces inside the braces */

        { "{{ position }}", 1, "<position>" },
        { "{{ position}}", 1, "<position>" },
        { "{{position }}", 1, "<position>" },
        { "{{\tposition\t}}", 1, "<position>" },
        { "{{      position \t  }}", 1, "<position>" },

        /* braces that are text */

        { "{", 1, "{" },
        { "}", 1, "}" },
        { "}}", 1, "}}" },
        { "}}}}", 1, "}}}}" },
        { "{}", 1, "{}" },
        { "{position}", 1, "{position}" },
        { "{ {position} }", 1, "{ {position} }" },
        { "{ {", 1, "{ {" },
        { "{\n{", 1, "{\n{" },
        { "{}{}{}", 1, "{}{}{}" },
        { "body { margin: 0 }\n@media print { p { color: red } }\n", 1,
          "body { margin: 0 }\n@media print { p { color: red } }\n" },
        { "if (a) { f({b: 1}); }}", 1, "if (a) { f({b: 1}); }}" },
        { "{ {{position}} }", 2, "{ <position> }" },
        { "{{position}}}", 2, "<position>}" },
        { "{{position}}}}", 2, "<position>}}" },
        { "{{position}}{", 2, "<position>{" },
        { "}}{{position}}", 1, "}}<position>" },
        { "{a: {{position}}}", 2, "{a: <position>}" },
        { "{\"a\":{}}{{position}}", 1, "{\"a\":{}}<position>" },

        /* a value is not read again, and a byte is a byte */

        { "\xec\x88\x9c\xeb\xb2\x88 {{position}}\xeb\xb2\x88", 2,
          "\xec\x88\x9c\xeb\xb2\x88 <position>\xeb\xb2\x88" },
        { "%s{{position}}%n$1\\", 2, "%s<position>%n$1\\" },
        { "\r\n{{position}}\r\n", 2, "\r\n<position>\r\n" }
    };

    for (i = 0; i < unit_nitems(rows); i++) {
        page = render(rows[i].text, strlen(rows[i].text), &parts);

        unit_ok(page != NULL && parts == rows[i].parts
                && strcmp(page, rows[i].page) == 0,
                "\"%s\": %zu parts, \"%s\"", rows[i].text, parts,
                page != NULL ? page : "");
    }

    page = render(NULL, 0, &parts);
    unit_ok(page != NULL && parts == 0 && *page == '\0', "no text at all");

    page = render("a\0{{eta}}", 9, &parts);
    unit_ok(page != NULL && parts == 1 && memcmp(page, "a\0<eta>", 8) == 0,
            "a zero is text");
}


static void
test_names(void)
{
    char             text[64], want[64], *page;
    size_t           i, parts;
    wq_page_part_t   part;

    unit_ok(unit_nitems(names) == WQ_PAGE_VALUES, "all names are tested");
    unit_ok(WQ_PAGE_LANG == 0 && WQ_PAGE_STATE == WQ_PAGE_VALUES - 1
            && WQ_PAGE_POSITION == 2 && WQ_PAGE_ETA == 6,
            "their order is that of the values");

    for (i = 0; i < unit_nitems(names); i++) {
        sprintf(text, "a{{ %s }}b", names[i]);
        sprintf(want, "a<%s>b", names[i]);

        page = render(text, strlen(text), &parts);
        unit_ok(page != NULL && strcmp(page, want) == 0, "%s", names[i]);

        sprintf(text, "{{%s}}", names[i]);
        wq_page_parse((u_char *) text, strlen(text), &part);
        unit_ok(part.value == i && part.text.len == 0, "%s alone", names[i]);
    }
}


static void
test_parts(void)
{
    wq_page_part_t  parts[4];

    static const u_char  text[] = "ab{{total}}{{eta}}cd{{ event }}ef";

    wq_page_parse(text, sizeof(text) - 1, parts);

    unit_ok(parts[0].text.data == text && parts[0].text.len == 2
            && parts[0].value == WQ_PAGE_TOTAL, "text and a value");
    unit_ok(parts[1].text.len == 0 && parts[1].value == WQ_PAGE_ETA,
            "a value without a text");
    unit_ok(parts[2].text.data == text + 18 && parts[2].text.len == 2
            && parts[2].value == WQ_PAGE_EVENT, "another text and a value");
    unit_ok(parts[3].text.data == text + 31 && parts[3].text.len == 2
            && parts[3].value == WQ_PAGE_VALUES, "a text without a value");
}


/* alone, and behind something good, and before something worse */

static void
check_wrong(const char *text, wq_rc_t want, const char *wrong_want)
{
    int        good;
    char       whole[512];
    size_t     i, len, parts;
    u_char    *copy;
    wq_rc_t    rc;
    wq_str_t   wrong;

    static const char *const  around[][2] = {
        { "", "" },
        { "a { b } {{ position }}\n{{total}} ", "" },
        { "", "\n{{worse}}" },
        { "{{eta}}", "\r\n{{" }
    };

    good = 1;

    for (i = 0; i < unit_nitems(around); i++) {
        len = (size_t) sprintf(whole, "%s%s%s", around[i][0], text,
                               around[i][1]);

        copy = unit_copy(whole, len);
        parts = UNTOUCHED;
        wrong.len = UNTOUCHED;
        wrong.data = NULL;

        rc = wq_page_count(copy, len, &parts, &wrong);

        good &= rc == want && parts == UNTOUCHED
                && wrong.len == strlen(wrong_want)
                && memcmp(wrong.data, wrong_want, wrong.len) == 0;

        good &= wrong.data == copy + strlen(around[i][0])
                              + (strstr(text, "{{") - text);

        free(copy);
    }

    unit_ok(good, "\"%s\" is wrong in \"%s\"", text, wrong_want);
}


static void
test_wrong(void)
{
    size_t  i;

    static const struct {
        const char  *text;
        wq_rc_t      rc;
        const char  *wrong;
    } rows[] = {

        /* no such value */

        { "{{positon}}", WQ_MISSING, "{{positon}}" },
        { "a{{positon}}b", WQ_MISSING, "{{positon}}" },
        { "{{ positon }} {{position}}", WQ_MISSING, "{{ positon }}" },
        { "{{positions}}", WQ_MISSING, "{{positions}}" },
        { "{{positio}}", WQ_MISSING, "{{positio}}" },
        { "{{Position}}", WQ_MISSING, "{{Position}}" },
        { "{{POSITION}}", WQ_MISSING, "{{POSITION}}" },
        { "{{posi tion}}", WQ_MISSING, "{{posi tion}}" },
        { "{{position total}}", WQ_MISSING, "{{position total}}" },
        { "{{position|safe}}", WQ_MISSING, "{{position|safe}}" },
        { "{{.position}}", WQ_MISSING, "{{.position}}" },
        { "{{$position}}", WQ_MISSING, "{{$position}}" },
        { "{{- position -}}", WQ_MISSING, "{{- position -}}" },
        { "{{\xc2\xa0position}}", WQ_MISSING, "{{\xc2\xa0position}}" },
        { "{{position\v}}", WQ_MISSING, "{{position\v}}" },
        { "{{values}}", WQ_MISSING, "{{values}}" },
        { "{{}}", WQ_MISSING, "{{}}" },
        { "{{ }}", WQ_MISSING, "{{ }}" },
        { "{{}}}", WQ_MISSING, "{{}}" },

        /* three braces are two and one */

        { "{{{position}}}", WQ_MISSING, "{{{position}}" },
        { "{{{{position}}}}", WQ_MISSING, "{{{{position}}" },
        { "{{position {{total}}", WQ_MISSING, "{{position {{total}}" },
        { "{{position}x}}", WQ_MISSING, "{{position}x}}" },
        { "{{position} }}", WQ_MISSING, "{{position} }}" },
        { "a={{b:1},{c:{d:2}}", WQ_MISSING, "{{b:1},{c:{d:2}}" },

        /* not closed */

        { "{{", WQ_BAD_CHARACTER, "{{" },
        { "a{{", WQ_BAD_CHARACTER, "{{" },
        { "{{{", WQ_BAD_CHARACTER, "{{{" },
        { "{{ ", WQ_BAD_CHARACTER, "{{ " },
        { "{{position", WQ_BAD_CHARACTER, "{{position" },
        { "{{position}", WQ_BAD_CHARACTER, "{{position}" },
        { "{{position} }", WQ_BAD_CHARACTER, "{{position} }" },
        { "{{position\n}}", WQ_BAD_CHARACTER, "{{position" },
        { "{{\nposition}}", WQ_BAD_CHARACTER, "{{" },
        { "{{position}\n}", WQ_BAD_CHARACTER, "{{position}" },
        { "{{position\r\n}}", WQ_BAD_CHARACTER, "{{position" },
        { "{{position\n{{position}}", WQ_BAD_CHARACTER, "{{position" }
    };

    for (i = 0; i < unit_nitems(rows); i++) {
        check_wrong(rows[i].text, rows[i].rc, rows[i].wrong);
    }
}


/* what is told of a long one is enough to find it */

static void
test_wrong_long(void)
{
    char    text[256], want[WQ_PAGE_WRONG_MAX + 1];
    size_t  len;

    memset(want, 'x', sizeof(want));
    memcpy(want, "{{", 2);
    want[WQ_PAGE_WRONG_MAX] = '\0';

    unit_ok(WQ_PAGE_WRONG_MAX == 64, "64 bytes of it");

    for (len = 63; len < 70; len++) {
        memset(text, 'x', len);
        memcpy(text, "{{", 2);
        text[len] = '\0';

        if (len < WQ_PAGE_WRONG_MAX) {
            check_wrong(text, WQ_BAD_CHARACTER, text);
        } else {
            check_wrong(text, WQ_BAD_CHARACTER, want);
        }
    }

    memset(text, 'x', 200);
    memcpy(text, "{{", 2);
    strcpy(text + 200, "}}");
    check_wrong(text, WQ_MISSING, want);

    /* closed at the very end of the 64 bytes, and one byte later */

    memset(text, 'x', 62);
    memcpy(text, "{{", 2);
    strcpy(text + 62, "}}");
    check_wrong(text, WQ_MISSING, text);

    memset(text, 'x', 63);
    memcpy(text, "{{", 2);
    strcpy(text + 63, "}}");
    want[63] = '}';
    check_wrong(text, WQ_MISSING, want);
}


/* cut off anywhere: a part is taken for good only outside a placeholder */

static void
test_cut(void)
{
    int        good;
    size_t     len, parts;
    u_char    *copy;
    wq_rc_t    rc;
    wq_str_t   wrong;

    static const char  text[] = "a { {{ position }} } b {{total}}{{eta}} }}";

    good = 1;

    for (len = 0; len < sizeof(text); len++) {
        copy = unit_copy(text, len);
        rc = wq_page_count(copy, len, &parts, &wrong);

        if ((len >= 6 && len < 18) || (len >= 25 && len < 32)
            || (len >= 34 && len < 39))
        {
            good &= rc == WQ_BAD_CHARACTER
                    && wrong.data + wrong.len == copy + len;
        } else {
            good &= rc == WQ_OK;
        }

        free(copy);
    }

    unit_ok(good, "cut in a placeholder, and outside");
}


static void
test_values(void)
{
    size_t           i, size;
    u_char          *page;
    wq_str_t         values[WQ_PAGE_VALUES];
    wq_page_part_t   parts[4];

    static const u_char  text[] = "{{eta}}a{{event}}{{eta}}b";

    wq_page_parse(text, sizeof(text) - 1, parts);

    /* empty ones, without data */

    memset(values, 0, sizeof(values));

    size = wq_page_size(parts, 4, values);
    page = malloc(size);

    unit_ok(size == 2 && wq_page_write(page, parts, 4, values) == page + 2
            && memcmp(page, "ab", 2) == 0, "values that are empty");

    free(page);

    /* only those that are named are looked at */

    for (i = 0; i < WQ_PAGE_VALUES; i++) {
        values[i].len = (size_t) 1 << 40;
    }

    values[WQ_PAGE_ETA].len = 9;
    values[WQ_PAGE_ETA].data = (u_char *) "{{total}}";
    values[WQ_PAGE_EVENT].len = 3;
    values[WQ_PAGE_EVENT].data = (u_char *) "\0<\xff";

    size = wq_page_size(parts, 4, values);
    page = malloc(size);

    unit_ok(size == 23 && wq_page_write(page, parts, 4, values) == page + 23
            && memcmp(page, "{{total}}a\0<\xff{{total}}b", 23) == 0,
            "values as they are, even if they look like placeholders");

    free(page);

    unit_ok(wq_page_size(NULL, 0, values) == 0
            && wq_page_write(NULL, NULL, 0, values) == NULL,
            "a page of no parts");
}


/* huge, and linear: else these would take minutes */

static void
test_long(void)
{
    char            *text;
    size_t           i, n, len, parts;
    wq_str_t         wrong, values[WQ_PAGE_VALUES];
    wq_page_part_t  *part;

    static const struct {
        const char  *unit;
        size_t       parts;         /* of 100000 */
        size_t       size;
    } rows[] = {
        { "x", 1, 100000 },
        { "{ ", 1, 200000 },
        { "}", 1, 100000 },
        { "\n{}\n", 1, 400000 },
        { "{{eta}}", 100000, 500000 },
        { "a{{ eta }}b", 100001, 700000 }
    };

    make_values(values);

    for (i = 0; i < unit_nitems(rows); i++) {
        len = strlen(rows[i].unit);
        text = malloc(100000 * len);

        for (n = 0; n < 100000; n++) {
            memcpy(text + n * len, rows[i].unit, len);
        }

        parts = 0;
        len *= 100000;

        if (wq_page_count((u_char *) text, len, &parts, &wrong) != WQ_OK) {
            parts = 0;
        }

        part = malloc(parts * sizeof(wq_page_part_t));

        if (parts > 0) {
            wq_page_parse((u_char *) text, len, part);
        }

        unit_ok(parts == rows[i].parts
                && wq_page_size(part, parts, values) == rows[i].size,
                "100000 times \"%s\"", rows[i].unit);

        free(part);
        free(text);
    }

    text = malloc(1000000);
    memset(text, '{', 1000000);

    unit_ok(wq_page_count((u_char *) text, 1000000, &parts, &wrong)
            == WQ_BAD_CHARACTER && wrong.len == WQ_PAGE_WRONG_MAX
            && wrong.data == (u_char *) text, "a million braces");

    free(text);
}


int
main(void)
{
    test_good();
    test_names();
    test_parts();
    test_wrong();
    test_wrong_long();
    test_cut();
    test_values();
    test_long();

    return unit_done();
}
