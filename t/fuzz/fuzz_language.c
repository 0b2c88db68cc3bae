
/*
 * fuzz: any header is answered with one of the languages, whatever is written
 * around its ranges; and a header that is made of known ranges is answered as
 * the rules say that stand here once more.
 */


#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wq_language.h"


#define MAX_RANGES  16

#define LANGUAGES   3


int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);


static const wq_str_t  supported[] = {
    wq_string("en"), wq_string("ko"), wq_string("ja")
};


static void
require(int condition)
{
    if (!condition) {
        abort();
    }
}


/* in memory of its own size */

static size_t
ask(const char *before, const uint8_t *data, size_t size, const char *after,
    size_t languages)
{
    size_t   n, m, i;
    u_char  *p;

    n = strlen(before);
    m = strlen(after);
    p = malloc(n + size + m);

    memcpy(p, before, n);

    if (size > 0) {
        memcpy(p + n, data, size);
    }

    memcpy(p + n + size, after, m);

    i = wq_language(p, n + size + m, supported, languages);
    require(i < languages);

    free(p);

    return i;
}


static void
check_any(const uint8_t *data, size_t size)
{
    u_char  *text;
    size_t   i, best;

    best = ask("", data, size, "", LANGUAGES);

    require(ask(" \t", data, size, "", LANGUAGES) == best);
    require(ask(",, ,", data, size, ",\t,", LANGUAGES) == best);
    require(ask("de;x=\"\\\",ja,\", fr;q=0.5 ,", data, size, "", LANGUAGES)
            == best);
    require(ask("ja;q=7,ko;q=.1,(,", data, size, "", LANGUAGES) == best);

    require(ask("ja-JP,", data, size, "", LANGUAGES) == 2);
    require(ask("ko,", data, size, "", LANGUAGES) == 1);
    require(ask("EN,", data, size, "", LANGUAGES) == 0);

    /* one that is not supported takes nothing from the others */

    require(ask("", data, size, "", 1) == 0);
    require(best == 2 || ask("", data, size, "", 2) == best);

    /* letters have no case, and one that is preferred is named */

    text = malloc(size + 1);

    for (i = 0; i < size; i++) {
        text[i] = data[i];

        if (text[i] >= 'A' && text[i] <= 'Z') {
            text[i] += 'a' - 'A';
        }
    }

    require(ask("", text, size, "", LANGUAGES) == best);

    for (i = 0; i < size; i++) {
        text[i] = text[i] == '\0' ? ' ' : text[i];
    }

    text[size] = '\0';

    require(best == 0
            || strstr((char *) text, (char *) supported[best].data) != NULL);

    free(text);
}


typedef struct {
    unsigned   name;
    unsigned   quality;
} range_t;


/* the language of each name; ANY and OTHER are none of those supported */

enum { ANY = LANGUAGES, OTHER };

static const struct {
    const char  *text;
    unsigned     language;
} names[] = {
    { "en", 0 }, { "en-US", 0 }, { "ko", 1 }, { "KO-Kore-KR", 1 },
    { "ja", 2 }, { "Ja-x", 2 }, { "*", ANY }, { "eng", OTHER }
};


static size_t
expected(const range_t *ranges, size_t n)
{
    size_t    i, best;
    unsigned  language, default_named;

    default_named = 0;

    for (i = 0; i < n; i++) {
        default_named |= names[ranges[i].name].language == 0;
    }

    best = n;

    for (i = 0; i < n; i++) {
        language = names[ranges[i].name].language;

        if (language == OTHER || (language == ANY && default_named)) {
            continue;
        }

        if (ranges[i].quality > 0
            && (best == n || ranges[i].quality > ranges[best].quality))
        {
            best = i;
        }
    }

    if (best == n || names[ranges[best].name].language == ANY) {
        return 0;
    }

    return names[ranges[best].name].language;
}


/* two bytes for each range: its name and what is around it, its quality */

static void
check_known(const uint8_t *data, size_t size)
{
    char     text[MAX_RANGES * 64], *p;
    size_t   n;
    range_t  ranges[MAX_RANGES];

    static const char *const  before[] = { "", " ", "\t ", ",", " , k o, " };
    static const char *const  equal[] = { ";q=", " ; q=", ";Q=",
                                          ";a=\",ko,\";q=" };

    /* few qualities, so that many are equal */

    static const unsigned  qualities[] = { 0, 1, 500, 501, 999, 1000 };

    p = text;

    for (n = 0; n < MAX_RANGES && size >= 2; n++) {
        ranges[n].name = data[0] % 8;
        ranges[n].quality = qualities[data[1] % 6];

        p += sprintf(p, "%s%s%s", n > 0 ? "," : "", before[data[0] / 8 % 5],
                     names[ranges[n].name].text);

        if (ranges[n].quality < 1000 || data[1] >= 128) {
            p += sprintf(p, "%s%u.%03u", equal[data[1] / 6 % 4],
                         ranges[n].quality / 1000, ranges[n].quality % 1000);
        }

        data += 2;
        size -= 2;
    }

    require(ask("", (uint8_t *) text, (size_t) (p - text), "", LANGUAGES)
            == expected(ranges, n));
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    check_any(data, size);
    check_known(data, size);

    return 0;
}
