
/* unit tests: which of some languages an Accept-Language header prefers */


#include "unit.h"
#include "wq_language.h"


enum { EN = 0, KO, JA };


static const wq_str_t  supported[] = {
    wq_string("en"), wq_string("ko"), wq_string("ja")
};


typedef struct {
    const char  *header;
    size_t       want;
} row_t;


static size_t
language_of(const char *header, size_t len, size_t n)
{
    u_char  *copy;
    size_t   i;

    copy = unit_copy(header, len);
    i = wq_language(copy, len, supported, n);
    free(copy);

    return i;
}


static void
check(const row_t *rows, size_t n)
{
    size_t  i, got;

    for (i = 0; i < n; i++) {
        got = language_of(rows[i].header, strlen(rows[i].header), 3);

        unit_ok(got == rows[i].want, "\"%s\" prefers %s, not %zu",
                rows[i].header, (const char *) supported[rows[i].want].data,
                got);
    }
}


static void
test_clients(void)
{
    static const row_t  rows[] = {

        /* Chrome, Firefox, Safari, curl */

        { "ko-KR,ko;q=0.9,en-US;q=0.8,en;q=0.7", KO },
        { "ko-KR,ko;q=0.8,en-US;q=0.5,en;q=0.3", KO },
        { "en-US,en;q=0.9,ko;q=0.8", EN },
        { "ja,en-US;q=0.9,en;q=0.8", JA },
        { "ja-JP", JA },
        { "de-DE,de;q=0.9,ja;q=0.8,ko;q=0.7", JA },
        { "fr-CH, fr;q=0.9, en;q=0.8, de;q=0.7, *;q=0.5", EN },
        { "*", EN },
        { "", EN }
    };

    check(rows, unit_nitems(rows));

    unit_ok(wq_language(NULL, 0, supported, 3) == EN, "no header at all");
}


static void
test_names(void)
{
    static const row_t  rows[] = {
        { "ko", KO },
        { "KO", KO },
        { "Ko-kr", KO },
        { "ko-Kore-KR", KO },
        { "ja-JP-u-ca-japanese", JA },
        { " ko ", KO },
        { ",,ko,,", KO },
        { "\tko\t;\tq=0.5\t", KO },

        /* other languages */

        { "de", EN },
        { "kok", EN },
        { "kor", EN },
        { "k", EN },
        { "ko_KR", EN },
        { "ko/KR", EN },
        { "-ko", EN },
        { "x-ko", EN },
        { "*-KR", EN },
        { "i-ja", EN },
        { "de, zh-TW;q=0.9", EN }
    };

    check(rows, unit_nitems(rows));
}


static void
test_qualities(void)
{
    static const row_t  rows[] = {
        { "en;q=0.8, ko;q=0.9", KO },
        { "ko;q=0.8, en;q=0.9", EN },
        { "ko;q=0.8, en;q=0.9, ja", JA },
        { "ko;q=0.001", KO },
        { "ko;q=0.001, ja;q=0.002", JA },
        { "de, ko;q=0.1", KO },

        /* equal: the first */

        { "ko, ja", KO },
        { "ja, ko", JA },
        { "ko, ja, en", KO },
        { "ja;q=0.5, ko;q=0.50, en;q=0.500", JA },
        { "de, ja;q=0.5, ko;q=0.5", JA },

        /* the best of a language counts for it */

        { "ko-KP;q=0.1, ja;q=0.5, ko-KR;q=0.9", KO },
        { "ko-KR;q=0.9, ja;q=0.5, ko-KP;q=0.1", KO },
        { "ko-KP;q=0, ko-KR", KO },
        { "ko;q=0.1, ja, ko", JA }
    };

    check(rows, unit_nitems(rows));
}


static void
test_excluded(void)
{
    static const row_t  rows[] = {
        { "ko;q=0", EN },
        { "ko;q=0, ja;q=0.1", JA },
        { "ja;q=0.1, ko;q=0.000", JA },
        { "en;q=0, ko;q=0.1", KO },
        { "en;q=0", EN },
        { "en;q=0, ko;q=0, ja;q=0", EN },
        { "*;q=0", EN },
        { "*;q=0, ja;q=0.1", JA }
    };

    check(rows, unit_nitems(rows));
}


static void
test_any(void)
{
    static const row_t  rows[] = {
        { "*, ko", EN },
        { "ko, *", KO },
        { "*;q=0.9, ko;q=0.8", EN },
        { "ko;q=0.8, *;q=0.9", EN },
        { "ko;q=0.9, *;q=0.8", KO },
        { "*;q=0.8, ko;q=0.9", KO },
        { "de, *;q=0.5", EN },
        { "*;q=0.1, ko;q=0.5, *;q=0.9", EN },
        { "*;q=0.5, ko;q=0.5, *;q=0.5", EN },
        { "ko;q=0.5, *;q=0.1, *;q=0.5", KO },

        /* the default has a quality of its own */

        { "en;q=0.1, *;q=0.9, ko;q=0.5", KO },
        { "*;q=0.9, ko;q=0.5, en;q=0.1", KO },
        { "en-GB;q=0.1, *, ko;q=0.5", KO },
        { "en;q=0, *, ko;q=0.5", KO },
        { "*, ko;q=0.5, en;q=0", KO },
        { "en;q=0, *", EN },
        { "en;q=0.9, *;q=0.1, ko;q=0.5", EN },

        /* that of others changes nothing */

        { "ko;q=0, *;q=0.5, ja;q=0.4", EN }
    };

    check(rows, unit_nitems(rows));
}


static void
test_malformed(void)
{
    static const row_t  rows[] = {
        { "ko;q=2, ja;q=0.1", JA },
        { "ko;q=x, ja;q=0.1", JA },
        { "ko;q=.9, ja;q=0.1", JA },
        { "ko;q=, ja;q=0.1", JA },
        { "ko ja", EN },
        { "ko ja, ja;q=0.1", JA },
        { "ko=1, ja;q=0.1", JA },
        { "\xed\x95\x9c, ja;q=0.1", JA },
        { "*;q=1.1, ja;q=0.1", JA },
        { "de;x=\",ko,\", ja;q=0.1", JA },
        { "de;x=\", ja", EN },
        { ";;;", EN }
    };

    check(rows, unit_nitems(rows));

    unit_ok(language_of("ko\0", 3, 3) == EN, "a zero behind a name");
    unit_ok(language_of("ko, ja", 2, 3) == KO, "the length counts");
    unit_ok(language_of("ko;q=0.5", 5, 3) == EN, "cut in its q");
    unit_ok(language_of("ko", 1, 3) == EN, "cut in its name");
}


/* how many are supported, and which */

static void
test_supported(void)
{
    static const wq_str_t  others[] = {
        wq_string("de"), wq_string("fil"), wq_string("fi"), wq_string("de")
    };

    unit_ok(language_of("ko", 2, 1) == EN, "only the default");
    unit_ok(language_of("ko, ja", 6, 1) == EN, "only the default, of two");
    unit_ok(language_of("ja, ko", 6, 2) == KO, "not the third of two");
    unit_ok(language_of("*;q=0, en;q=0", 13, 1) == EN,
            "the default even if it is excluded");

    unit_ok(wq_language((u_char *) "fil-PH", 6, others, 4) == 1,
            "a subtag of three letters");
    unit_ok(wq_language((u_char *) "fi", 2, others, 4) == 2,
            "and the one that it begins with");
    unit_ok(wq_language((u_char *) "fi;q=0.5, de", 12, others, 4) == 0,
            "of two alike the first");
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
        { "ko,", KO },
        { "ja-JP;q=0.1,", JA },
        { "ko;q=0.1,ja;q=0.2,", JA },
        { "*,", EN },
        { "de,", EN },
        { "ko-", KO },
        { "ko", EN },
        { "\"", EN },
        { ",", EN }
    };

    for (i = 0; i < unit_nitems(rows); i++) {
        len = strlen(rows[i].header);
        text = malloc(100000 * len);

        for (n = 0; n < 100000; n++) {
            memcpy(text + n * len, rows[i].header, len);
        }

        unit_ok(language_of(text, 100000 * len, 3) == rows[i].want,
                "100000 times \"%s\"", rows[i].header);

        free(text);
    }

    good = 1;
    random = 1;
    text = malloc(4096);

    for (i = 0; i < 1000; i++) {
        for (n = 0; n < 4096; n++) {
            random = random * 1103515245 + 12345;
            text[n] = (char) (random >> 16);
        }

        good &= language_of(text, 4096, 3) <= JA;

        memcpy(text, "ja,", 3);
        good &= language_of(text, 4096, 3) == JA;
    }

    unit_ok(good, "garbage, and garbage behind a range");

    free(text);
}


int
main(void)
{
    test_clients();
    test_names();
    test_qualities();
    test_excluded();
    test_any();
    test_malformed();
    test_supported();
    test_long();

    return unit_done();
}
