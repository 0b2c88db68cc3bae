
/*
 * fuzz: a template that is taken consists of its texts and of placeholders that
 * are well-formed, to the last byte, and is as long as was said with any
 * values; one that is refused is good up to what is told of it.
 */


#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wq_page.h"


#define UNTOUCHED  12345


int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);


static const char *const  names[] = {
    "lang", "status", "position", "ahead", "behind", "total", "eta", "event",
    "refresh", "method", "state"
};


static void
require(int condition)
{
    if (!condition) {
        abort();
    }
}


/* the first "{{", or NULL */

static const u_char *
braces(const u_char *p, size_t len)
{
    for ( /* void */ ; len >= 2; p++, len--) {
        if (p[0] == '{' && p[1] == '{') {
            return p;
        }
    }

    return NULL;
}


static const u_char *
blanks(const u_char *p, const u_char *last)
{
    while (p < last && (*p == ' ' || *p == '\t')) {
        p++;
    }

    return p;
}


/* one placeholder of this value at p; returns its end */

static const u_char *
placeholder(const u_char *p, const u_char *last, wq_page_value_e value)
{
    size_t  len;

    require(last - p >= 2 && memcmp(p, "{{", 2) == 0);
    p = blanks(p + 2, last);

    len = strlen(names[value]);

    require((size_t) (last - p) >= len && memcmp(p, names[value], len) == 0);
    p = blanks(p + len, last);

    require(last - p >= 2 && memcmp(p, "}}", 2) == 0);

    return p + 2;
}


static void
check_parts(const u_char *text, size_t len, const wq_page_part_t *parts,
    size_t n)
{
    size_t         i;
    const u_char  *p, *last;

    p = text;
    last = text + len;

    for (i = 0; i < n; i++) {
        require(parts[i].text.data == p);
        require(parts[i].text.len <= (size_t) (last - p));
        require(braces(p, parts[i].text.len) == NULL);

        p += parts[i].text.len;

        if (parts[i].value == WQ_PAGE_VALUES) {
            require(i == n - 1 && parts[i].text.len > 0);
            break;
        }

        require(parts[i].value < WQ_PAGE_VALUES);
        p = placeholder(p, last, parts[i].value);
    }

    require(p == last);
}


/*
 * Every value is its own placeholder, without blanks: what is written is then
 * a template again, and the same one.
 */

static void
check_again(const wq_page_part_t *parts, size_t n)
{
    size_t           i, size, count;
    u_char          *page, *other;
    char             texts[WQ_PAGE_VALUES][16];
    wq_str_t         values[WQ_PAGE_VALUES], wrong;
    wq_page_part_t  *again;

    for (i = 0; i < WQ_PAGE_VALUES; i++) {
        values[i].len = (size_t) sprintf(texts[i], "{{%s}}", names[i]);
        values[i].data = (u_char *) texts[i];
    }

    size = wq_page_size(parts, n, values);
    page = malloc(size);
    require(wq_page_write(page, parts, n, values) == page + size);

    require(wq_page_count(page, size, &count, &wrong) == WQ_OK);
    require(count == n);

    again = malloc(n * sizeof(wq_page_part_t));
    wq_page_parse(page, size, again);

    for (i = 0; i < n; i++) {
        require(again[i].value == parts[i].value);
        require(again[i].text.len == parts[i].text.len);
        require(again[i].text.len == 0
                || memcmp(again[i].text.data, parts[i].text.data,
                          again[i].text.len) == 0);
    }

    other = malloc(size);
    require(wq_page_size(again, n, values) == size);
    require(wq_page_write(other, again, n, values) == other + size);
    require(size == 0 || memcmp(page, other, size) == 0);

    free(other);
    free(again);
    free(page);
}


static void
check_empty_values(const wq_page_part_t *parts, size_t n)
{
    size_t     i, size;
    u_char    *page;
    wq_str_t   values[WQ_PAGE_VALUES];

    memset(values, 0, sizeof(values));

    size = 0;

    for (i = 0; i < n; i++) {
        size += parts[i].text.len;
    }

    require(wq_page_size(parts, n, values) == size);

    page = malloc(size);
    require(wq_page_write(page, parts, n, values) == page + size);
    free(page);
}


static void
check_wrong(const u_char *text, size_t len, wq_rc_t rc, const wq_str_t *wrong)
{
    size_t         before, parts;
    wq_str_t       none;
    const u_char  *p, *last;

    require(rc == WQ_MISSING || rc == WQ_BAD_CHARACTER);

    require(wrong->data >= text && wrong->len >= 2
            && wrong->len <= WQ_PAGE_WRONG_MAX);

    before = (size_t) (wrong->data - text);
    require(before + wrong->len <= len);

    require(memcmp(wrong->data, "{{", 2) == 0);
    require(memchr(wrong->data, '\n', wrong->len) == NULL);
    require(memchr(wrong->data, '\r', wrong->len) == NULL);

    require(wq_page_count(text, before, &parts, &none) == WQ_OK);

    /* is it closed on its line? */

    last = text + len;

    for (p = wrong->data + 2; p < last && *p != '\n' && *p != '\r'; p++) {
        if (last - p >= 2 && p[0] == '}' && p[1] == '}') {
            require(rc == WQ_MISSING);
            require(wrong->len == WQ_PAGE_WRONG_MAX
                    || wrong->data + wrong->len == p + 2);
            return;
        }
    }

    require(rc == WQ_BAD_CHARACTER);
    require(wrong->len == WQ_PAGE_WRONG_MAX
            || wrong->data + wrong->len == p);
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t           n;
    u_char          *text;
    wq_rc_t          rc;
    wq_str_t         wrong;
    wq_page_part_t  *parts;

    text = malloc(size);

    if (size > 0) {
        memcpy(text, data, size);
    }

    n = UNTOUCHED;
    wrong.len = UNTOUCHED;
    wrong.data = NULL;

    rc = wq_page_count(text, size, &n, &wrong);

    if (rc != WQ_OK) {
        require(n == UNTOUCHED);
        check_wrong(text, size, rc, &wrong);
        free(text);
        return 0;
    }

    require(wrong.len == UNTOUCHED && wrong.data == NULL);
    require(n <= size && (n > 0) == (size > 0));
    require(n <= 1 || braces(text, size) != NULL);

    /* exactly as many as were counted: what is written behind them is found */

    parts = malloc(n * sizeof(wq_page_part_t));
    wq_page_parse(text, size, parts);

    check_parts(text, size, parts, n);
    check_empty_values(parts, n);
    check_again(parts, n);

    free(parts);
    free(text);

    return 0;
}
