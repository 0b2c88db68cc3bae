
/*
 * fuzz: any header is answered with one of the three, whatever is written
 * around its ranges; and a header that is made of known ranges, decorated as
 * RFC 9110 allows, is answered as the rules say that stand here once more.
 */


#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wq_accept.h"


#define MAX_RANGES  16


int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);


static void
require(int condition)
{
    if (!condition) {
        abort();
    }
}


/* in memory of its own size */

static wq_accept_e
ask(const char *before, const uint8_t *data, size_t size, const char *after)
{
    u_char       *p;
    size_t        n, m;
    wq_accept_e   answer;

    n = strlen(before);
    m = strlen(after);
    p = malloc(n + size + m);

    memcpy(p, before, n);

    if (size > 0) {
        memcpy(p + n, data, size);
    }

    memcpy(p + n + size, after, m);

    answer = wq_accept(p, n + size + m);
    require(answer == WQ_ACCEPT_JSON || answer == WQ_ACCEPT_HTML
            || answer == WQ_ACCEPT_EVENT_STREAM);

    free(p);

    return answer;
}


static int
contains(const char *text, const char *name)
{
    return strstr(text, name) != NULL;
}


static void
check_any(const uint8_t *data, size_t size)
{
    char         *text;
    size_t        i;
    wq_accept_e   answer;

    answer = ask("", data, size, "");

    require(ask(" \t", data, size, "") == answer);
    require(ask(",, ,", data, size, ",\t,") == answer);
    require(ask("x/y;z=\"\\\",text/html,\";q=0.9 , ", data, size, "")
            == answer);
    require(ask("text/html;q=7,application/json;q=.1,(,", data, size, "")
            == answer);

    require(ask("text/event-stream,", data, size, "")
            == WQ_ACCEPT_EVENT_STREAM);

    if (answer == WQ_ACCEPT_JSON) {
        require(ask("", data, size, ",application/xml") == WQ_ACCEPT_JSON);
    }

    /* letters have no case; as a string, with every zero made a space */

    text = malloc(size + 1);

    for (i = 0; i < size; i++) {
        text[i] = (char) data[i];

        if (text[i] >= 'a' && text[i] <= 'z') {
            text[i] -= 'a' - 'A';
        }
    }

    require(ask("", (uint8_t *) text, size, "") == answer);

    for (i = 0; i < size; i++) {

        if (text[i] >= 'A' && text[i] <= 'Z') {
            text[i] += 'a' - 'A';
        }
    }

    require(ask("", (uint8_t *) text, size, "") == answer);

    for (i = 0; i < size; i++) {
        text[i] = text[i] == '\0' ? ' ' : text[i];
    }

    text[size] = '\0';

    switch (answer) {

    case WQ_ACCEPT_EVENT_STREAM:
        require(contains(text, "text/event-stream"));
        break;

    case WQ_ACCEPT_HTML:
        require(contains(text, "text/html") || contains(text, "text/*")
                || contains(text, "application/xhtml+xml"));
        break;

    default:
        break;
    }

    free(text);
}


typedef struct {
    unsigned   name;
    unsigned   quality;
} range_t;


static const char *const  names[] = {
    "text/event-stream", "text/html", "text/*", "application/xhtml+xml",
    "application/json", "application/*", "*/*", "image/png"
};

enum { EVENTS = 0, HTML, TEXT, XHTML, JSON, APPLICATION, ANYTHING };


/* the index of the best range of this name, n if there is none */

static size_t
best(const range_t *ranges, size_t n, unsigned name)
{
    size_t  i, found;

    found = n;

    for (i = 0; i < n; i++) {
        if (ranges[i].name == name
            && (found == n || ranges[i].quality > ranges[found].quality))
        {
            found = i;
        }
    }

    return found;
}


/* the one that is there, of names by falling specificity */

static size_t
decisive(const range_t *ranges, size_t n, const unsigned *order, size_t m)
{
    size_t  i, found;

    for (i = 0; i < m; i++) {
        found = best(ranges, n, order[i]);

        if (found < n) {
            return found;
        }
    }

    return n;
}


static wq_accept_e
expected(const range_t *ranges, size_t n)
{
    size_t    events, html, xhtml, json;
    unsigned  events_quality, html_quality, xhtml_quality, json_quality;

    static const unsigned  events_names[] = { EVENTS };
    static const unsigned  html_names[] = { HTML, TEXT };
    static const unsigned  xhtml_names[] = { XHTML };
    static const unsigned  json_names[] = { JSON, APPLICATION, ANYTHING };

    events = decisive(ranges, n, events_names, 1);
    html = decisive(ranges, n, html_names, 2);
    xhtml = decisive(ranges, n, xhtml_names, 1);
    json = decisive(ranges, n, json_names, 3);

    events_quality = events < n ? ranges[events].quality : 0;
    html_quality = html < n ? ranges[html].quality : 0;
    xhtml_quality = xhtml < n ? ranges[xhtml].quality : 0;
    json_quality = json < n ? ranges[json].quality : 0;

    if (xhtml_quality > html_quality
        || (xhtml_quality == html_quality && xhtml < html))
    {
        html = xhtml;
        html_quality = xhtml_quality;
    }

    if (events_quality > 0 && events_quality >= html_quality
        && events_quality >= json_quality)
    {
        return WQ_ACCEPT_EVENT_STREAM;
    }

    if (html_quality == 0 || html_quality < json_quality) {
        return WQ_ACCEPT_JSON;
    }

    if (html_quality > json_quality || ranges[json].name == ANYTHING) {
        return WQ_ACCEPT_HTML;
    }

    return html < json ? WQ_ACCEPT_HTML : WQ_ACCEPT_JSON;
}


/* three bytes for each range: its name, its quality, what is around them */

static void
check_known(const uint8_t *data, size_t size)
{
    char     text[MAX_RANGES * 128], *p;
    size_t   n;
    range_t  ranges[MAX_RANGES];

    static const char *const  before[] = { "", " ", "\t ", ",", " , (x), " };
    static const char *const  middle[] = { "", ";", " ;a", ";a=b", ";a=\",\"",
                                           "; a=\"\\\",\" ; c=d" };
    static const char *const  equal[] = { ";q=", " ; q=", ";Q=", ";;\tq=" };
    static const char *const  after[] = { "", ";a=b", " ;a=\";q=0\"", " ; " };

    /* few qualities, so that many are equal */

    static const unsigned  qualities[] = { 0, 1, 500, 501, 999, 1000 };

    p = text;

    for (n = 0; n < MAX_RANGES && size >= 3; n++) {
        ranges[n].name = data[0] % 8;
        ranges[n].quality = qualities[data[1] % 6];

        p += sprintf(p, "%s%s%s%s", n > 0 ? "," : "", before[data[0] / 8 % 5],
                     names[ranges[n].name], middle[data[2] % 6]);

        if (ranges[n].quality < 1000 || data[1] >= 128) {
            p += sprintf(p, "%s%u.%03u", equal[data[2] / 6 % 4],
                         ranges[n].quality / 1000, ranges[n].quality % 1000);
        }

        p += sprintf(p, "%s", after[data[2] / 24 % 4]);

        data += 3;
        size -= 3;
    }

    require(ask("", (uint8_t *) text, (size_t) (p - text), "")
            == expected(ranges, n));
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    check_any(data, size);
    check_known(data, size);

    return 0;
}
