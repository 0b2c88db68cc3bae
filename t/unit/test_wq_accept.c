
/* unit tests: which answer an Accept header asks for */


#include "unit.h"
#include "wq_accept.h"


#define JSON    WQ_ACCEPT_JSON
#define HTML    WQ_ACCEPT_HTML
#define EVENTS  WQ_ACCEPT_EVENT_STREAM


typedef struct {
    const char   *header;
    wq_accept_e   want;
} row_t;


static wq_accept_e
accept_of(const char *header, size_t len)
{
    u_char       *copy;
    wq_accept_e   answer;

    copy = unit_copy(header, len);
    answer = wq_accept(copy, len);
    free(copy);

    return answer;
}


static void
check(const row_t *rows, size_t n)
{
    size_t       i;
    wq_accept_e  got;

    static const char *const  words[] = { "JSON", "HTML", "an event stream" };

    for (i = 0; i < n; i++) {
        got = accept_of(rows[i].header, strlen(rows[i].header));

        unit_ok(got == rows[i].want, "\"%s\" asks for %s, not %s",
                rows[i].header, words[rows[i].want], words[got]);
    }
}


static void
test_clients(void)
{
    static const row_t  rows[] = {

        /* EventSource, and fetch() of a library that imitates it */

        { "text/event-stream", EVENTS },
        { "text/event-stream, */*", EVENTS },
        { "text/event-stream, application/json", EVENTS },
        { "application/json, text/event-stream", EVENTS },

        /* navigation: Chrome, Firefox of two ages, Safari, Internet Explorer */

        { "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,"
          "image/webp,image/apng,*/*;q=0.8,"
          "application/signed-exchange;v=b3;q=0.7", HTML },
        { "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,"
          "image/webp,image/png,image/svg+xml,*/*;q=0.8", HTML },
        { "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
          HTML },
        { "text/html, application/xhtml+xml, image/jxr, */*", HTML },
        { "text/html, application/xhtml+xml, */*", HTML },

        /* lynx, w3m, java.net */

        { "text/html, text/plain, text/sgml, text/css, application/xhtml+xml,"
          " */*;q=0.01", HTML },
        { "text/html, text/*;q=0.5, image/*", HTML },
        { "text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2", HTML },

        /* fetch(), curl, axios, jQuery, images, styles, scripts, workers */

        { "*/*", JSON },
        { "application/json, text/plain, */*", JSON },
        { "application/json, text/javascript, */*; q=0.01", JSON },
        { "image/avif,image/webp,*/*;q=0.8", JSON },
        { "image/avif,image/webp,image/apng,image/svg+xml,image/*,*/*;q=0.8",
          JSON },
        { "text/css,*/*;q=0.1", JSON },
        { "application/json", JSON },
        { "application/json; charset=utf-8", JSON },
        { "text/html; charset=utf-8", HTML }
    };

    check(rows, unit_nitems(rows));
}


static void
test_none(void)
{
    static const row_t  rows[] = {
        { "", JSON },
        { " ", JSON },
        { ",", JSON },
        { "text/plain", JSON },
        { "image/*", JSON },
        { "image/png, image/jpeg;q=0.5", JSON },
        { "application/xml", JSON },
        { "application/vnd.api+json", JSON },
        { "*", JSON },
        { "text", JSON },
        { "text/", JSON },
        { "/html", JSON },
        { "html", JSON },
        { "texthtml", JSON },
        { "text//html", JSON },
        { "text/html/", JSON },
        { "text/html5", JSON },
        { "text/htm", JSON },
        { "xtext/html", JSON },
        { "text/event-streams", JSON },
        { "text/event-strea", JSON },
        { "*/html", JSON },
        { "*/event-stream", JSON },
        { "text/**", JSON },
        { "application/xhtml", JSON },
        { "application/xhtml+xm", JSON },
        { "text/xhtml+xml", JSON },
        { "application/html", JSON },
        { "application/event-stream", JSON }
    };

    check(rows, unit_nitems(rows));

    unit_ok(wq_accept(NULL, 0) == JSON, "no header at all");
}


static void
test_names(void)
{
    static const row_t  rows[] = {
        { "text/html", HTML },
        { "TEXT/HTML", HTML },
        { "Text/Html", HTML },
        { "application/xhtml+xml", HTML },
        { "Application/XHTML+XML", HTML },
        { "text/*", HTML },
        { "TEXT/*", HTML },
        { "Text/Event-Stream", EVENTS },
        { "TEXT/EVENT-STREAM;Q=0.001", EVENTS },
        { "APPLICATION/JSON, text/html", JSON },
        { "APPLICATION/*, text/html", JSON },
        { "  text/html  ", HTML },
        { "\ttext/html\t", HTML },
        { ",,text/html,,", HTML },
        { "text/plain , text/html", HTML }
    };

    check(rows, unit_nitems(rows));
}


static void
test_qualities(void)
{
    static const row_t  rows[] = {
        { "application/json, text/html;q=0.9", JSON },
        { "text/html;q=0.9, application/json", JSON },
        { "text/html, application/json;q=0.9", HTML },
        { "application/json;q=0.9, text/html", HTML },
        { "text/html;q=0.001, application/json;q=0.002", JSON },
        { "application/json;q=0.001, text/html;q=0.002", HTML },
        { "text/html;level=1;q=0.4, application/json;q=0.7", JSON },
        { "text/html;level=1;q=0.7, application/json;q=0.4", HTML },
        { "text/html;q=0.7;level=1, application/json;q=0.8", JSON },
        { "text/html ; q=0.4 , application/json ; q=0.7", JSON },
        { "text/html;Q=0.4, application/json;q=0.7", JSON },

        { "text/event-stream;q=0.9, text/html", HTML },
        { "text/event-stream;q=0.9, application/json", JSON },
        { "text/event-stream;q=0.9, */*", JSON },
        { "text/event-stream;q=0.5, text/html;q=0.4, application/json;q=0.3",
          EVENTS },
        { "text/event-stream;q=0.4, text/html;q=0.5, application/json;q=0.3",
          HTML },
        { "text/event-stream;q=0.4, text/html;q=0.3, application/json;q=0.5",
          JSON },
        { "text/event-stream;q=0.001", EVENTS },

        /* the wildcard of all types counts for JSON by its own quality */

        { "text/html;q=0.5, */*;q=0.6", JSON },
        { "text/html;q=0.5, */*;q=0.4", HTML },
        { "text/*;q=0.5, */*;q=0.6", JSON },
        { "text/*;q=0.5, */*;q=0.4", HTML }
    };

    check(rows, unit_nitems(rows));
}


static void
test_excluded(void)
{
    static const row_t  rows[] = {
        { "text/html;q=0, */*", JSON },
        { "text/html;q=0", JSON },
        { "text/html;q=0.000", JSON },
        { "text/event-stream;q=0", JSON },
        { "text/event-stream;q=0, */*", JSON },
        { "text/event-stream;q=0, text/*", HTML },
        { "text/event-stream;q=0.0, text/html;q=0.1", HTML },
        { "text/html;q=0, text/*", JSON },
        { "text/*, text/html;q=0", JSON },
        { "text/*;q=0, text/html", HTML },
        { "application/json;q=0, text/html;q=0.1", HTML },
        { "application/json;q=0, */*, text/html;q=0.1", HTML },
        { "*/*;q=0, text/html;q=0.1", HTML },
        { "*/*;q=0", JSON },
        { "*/*;q=0, text/html;q=0, text/event-stream;q=0", JSON },
        { "application/json;q=0", JSON },
        { "text/html;q=0, application/json;q=0", JSON }
    };

    check(rows, unit_nitems(rows));
}


static void
test_specific(void)
{
    static const row_t  rows[] = {

        /* HTML: its own quality is below that of JSON, the wildcard's above */

        { "text/html;q=0.3, text/*;q=0.9, application/json;q=0.5", JSON },
        { "text/*;q=0.9, text/html;q=0.3, application/json;q=0.5", JSON },
        { "text/html;q=0.9, text/*;q=0.3, application/json;q=0.5", HTML },
        { "text/*;q=0.3, text/html;q=0.9, application/json;q=0.5", HTML },

        /* JSON, in three steps */

        { "application/json;q=0.9, */*;q=0.1, text/html;q=0.5", JSON },
        { "*/*;q=0.1, application/json;q=0.9, text/html;q=0.5", JSON },
        { "application/json;q=0.1, */*;q=0.9, text/html;q=0.5", HTML },
        { "*/*;q=0.9, application/json;q=0.1, text/html;q=0.5", HTML },
        { "application/*;q=0.1, */*;q=0.9, text/html;q=0.5", HTML },
        { "*/*;q=0.9, application/*;q=0.1, text/html;q=0.5", HTML },
        { "application/*;q=0.9, application/json;q=0.1, text/html;q=0.5",
          HTML },
        { "application/json;q=0.1, application/*;q=0.9, text/html;q=0.5",
          HTML },
        { "application/json;q=0.9, application/*;q=0.1, text/html;q=0.5",
          JSON },

        /* neither text nor everything is an event stream */

        { "text/event-stream;q=0.1, text/*;q=0.9", HTML },
        { "text/event-stream;q=0.1, */*;q=0.9", JSON },

        /* the two types of HTML have a quality each */

        { "application/xhtml+xml;q=0, text/*, application/json;q=0.5", HTML },
        { "application/xhtml+xml;q=0, text/html", HTML },
        { "application/xhtml+xml;q=0.1, text/html;q=0.9,"
          " application/json;q=0.5", HTML },
        { "application/xhtml+xml;q=0.9, text/html;q=0.1,"
          " application/json;q=0.5", HTML },
        { "application/xhtml+xml;q=0.4, text/html;q=0.3,"
          " application/json;q=0.5", JSON },
        { "application/xhtml+xml;q=0, application/*", JSON },

        /* of the same range the highest */

        { "text/html;q=0.1, text/html;q=0.9, application/json;q=0.5", HTML },
        { "text/html;q=0.9, text/html;q=0.1, application/json;q=0.5", HTML },
        { "text/html;level=1, text/html;level=2;q=0.4,"
          " application/json;q=0.7", HTML }
    };

    check(rows, unit_nitems(rows));
}


static void
test_ties(void)
{
    static const row_t  rows[] = {
        { "text/html, application/json", HTML },
        { "application/json, text/html", JSON },
        { "text/html;q=0.5, application/json;q=0.5", HTML },
        { "application/json;q=0.5, text/html;q=0.50", JSON },
        { "application/xhtml+xml, application/json, text/html", HTML },
        { "text/html, application/json, application/xhtml+xml", HTML },
        { "application/json, application/xhtml+xml, text/html", JSON },
        { "application/json, text/html, application/xhtml+xml", JSON },

        /* a wildcard of a group names it */

        { "text/*, application/*", HTML },
        { "application/*, text/*", JSON },
        { "application/*, text/html", JSON },
        { "text/*, application/json", HTML },

        /* that of all types does not, wherever it stands */

        { "*/*, text/html", HTML },
        { "text/html, */*", HTML },
        { "*/*, text/*", HTML },
        { "*/*, application/xhtml+xml", HTML },
        { "*/*;q=0.5, text/html;q=0.5", HTML },
        { "*/*, application/json, text/html", JSON },
        { "*/*, text/html, application/json", HTML },

        /* the range that decides is the one whose place counts */

        { "text/*;q=0.1, application/json, text/html", JSON },
        { "application/*;q=0.1, text/html, application/json", HTML },
        { "text/html;q=0.1, application/json, text/html", JSON },
        { "text/html, application/json, text/html", HTML },

        { "text/html, text/event-stream", EVENTS },
        { "application/json, text/html, text/event-stream", EVENTS },
        { "*/*, text/*, text/event-stream", EVENTS },
        { "text/html;q=0.5, text/event-stream;q=0.5", EVENTS }
    };

    check(rows, unit_nitems(rows));
}


static void
test_malformed(void)
{
    static const row_t  rows[] = {

        /* no range, as if it were not there */

        { "text/html;q=2, application/json;q=0.1", JSON },
        { "text/html;q=x, */*;q=0.1", JSON },
        { "text/html;q=, */*;q=0.1", JSON },
        { "text/html;q=\"1\"", JSON },
        { "text/html;q=0.5555", JSON },
        { "text/html q=0.5", JSON },
        { "text/html text/html", JSON },
        { "text / html", JSON },
        { "text/ html", JSON },
        { "text/event-stream;q=1.1, text/html;q=0.1", HTML },
        { "text/html;q=nan, text/event-stream;q=0.1", EVENTS },
        { "(comment), text/html", HTML },
        { "text/html;level, application/json;q=0.5", HTML },
        { "\xff\xfe, text/html", HTML },

        /* commas that are none */

        { "text/plain;x=\",text/html,\"", JSON },
        { "text/plain;x=\",text/event-stream,\", text/html;q=0.1", HTML },
        { "text/html;x=\"a,b\";q=0.3, application/json;q=0.2", HTML },
        { "text/html;x=\"a,b\";q=0.3, application/json;q=0.4", JSON },
        { "text/html;x=\"\\\",application/json,\\\"\";q=0.3", HTML },
        { "text/plain;x=\"\\\\\", text/html", HTML },
        { "text/plain;x=\"\\\", text/html", JSON },
        { "text/html, text/plain;x=\", application/json", HTML },
        { "\", text/html", JSON },
        { "\"text/html\", application/xhtml+xml;q=0.1", HTML },
        { "text/html;x=\"", JSON }
    };

    check(rows, unit_nitems(rows));

    unit_ok(accept_of("text/html\0", 10) == JSON, "a zero behind a name");
    unit_ok(accept_of("\0, text/html", 12) == HTML, "a zero before it");
    unit_ok(accept_of("text/html, a", 9) == HTML, "the length counts");
    unit_ok(accept_of("text/html;q=0.5, */*", 11) == JSON, "cut in its q");
    unit_ok(accept_of("text/html", 8) == JSON, "cut in its name");
}


/* huge, and linear: else these would take minutes */

static void
test_long(void)
{
    int       good;
    char     *text;
    size_t    i, n, len;
    uint32_t  random;

    static const row_t  rows[] = {
        { "text/html,", HTML },
        { "application/json,", JSON },
        { "text/event-stream,", EVENTS },
        { "text/html;q=0.1,application/json;q=0.2,", JSON },
        { "text/html;x=\",\" y,", JSON },
        { "image/png,", JSON },
        { "text/html", JSON },
        { "text/html ", JSON },
        { "text/html;", JSON },
        { ";x=y", JSON },
        { "\"", JSON },
        { "\\\"", JSON },
        { ",", JSON }
    };

    for (i = 0; i < unit_nitems(rows); i++) {
        len = strlen(rows[i].header);
        text = malloc(100000 * len);

        for (n = 0; n < 100000; n++) {
            memcpy(text + n * len, rows[i].header, len);
        }

        unit_ok(accept_of(text, 100000 * len) == rows[i].want,
                "100000 times \"%s\"", rows[i].header);

        free(text);
    }

    text = malloc(9 + 100000 * 4);
    memcpy(text, "text/html", 9);

    for (n = 0; n < 100000; n++) {
        memcpy(text + 9 + n * 4, n < 99999 ? ";x=y" : ";q=1", 4);
    }

    unit_ok(accept_of(text, 9 + 100000 * 4) == HTML, "100000 parameters");

    free(text);

    /* garbage: whatever stands in it, the answer is one of three */

    good = 1;
    random = 1;
    text = malloc(4096);

    for (i = 0; i < 1000; i++) {
        for (n = 0; n < 4096; n++) {
            random = random * 1103515245 + 12345;
            text[n] = (char) (random >> 16);
        }

        good &= accept_of(text, 4096) <= EVENTS;

        memcpy(text, "text/event-stream,", 18);
        good &= accept_of(text, 4096) == EVENTS;
    }

    unit_ok(good, "garbage, and garbage behind a range");

    free(text);
}


int
main(void)
{
    test_clients();
    test_none();
    test_names();
    test_qualities();
    test_excluded();
    test_specific();
    test_ties();
    test_malformed();
    test_long();

    return unit_done();
}
