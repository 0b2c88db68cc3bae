
/* unit tests: the ids of events, users, seats and nodes */


#include "unit.h"
#include "wq_id.h"


static wq_rc_t
check(const void *data, size_t len)
{
    u_char   *copy;
    wq_rc_t   rc;

    copy = unit_copy(data, len);
    rc = wq_id_check(copy, len);
    free(copy);

    return rc;
}


static void
test_examples(void)
{
    size_t  i;

    static const struct {
        const char  *id;
        wq_rc_t      rc;
    } rows[] = {
        { "a", WQ_OK },
        { "0", WQ_OK },
        { "concert-2024.seoul_1~x", WQ_OK },
        { "user@example.com", WQ_OK },
        { "urn:uuid:6ba7b810-9dad-11d1-80b4-00c04fd430c8", WQ_OK },
        { ".", WQ_OK },
        { "-", WQ_OK },
        { "", WQ_EMPTY },
        { " ", WQ_BAD_CHARACTER },
        { "a b", WQ_BAD_CHARACTER },
        { "a ", WQ_BAD_CHARACTER },
        { " a", WQ_BAD_CHARACTER },
        { "a}b", WQ_BAD_CHARACTER },
        { "{a}", WQ_BAD_CHARACTER },
        { "a\"b", WQ_BAD_CHARACTER },
        { "a\\b", WQ_BAD_CHARACTER },
        { "a/b", WQ_BAD_CHARACTER },
        { "a\r\nb", WQ_BAD_CHARACTER },
        { "a%41", WQ_BAD_CHARACTER },
        { "a+b", WQ_BAD_CHARACTER },
        { "a,b", WQ_BAD_CHARACTER },
        { "a*", WQ_BAD_CHARACTER },
        { "\xed\x95\x9c", WQ_BAD_CHARACTER },
        { "\xc3\xa9", WQ_BAD_CHARACTER }
    };

    for (i = 0; i < unit_nitems(rows); i++) {
        unit_ok(check(rows[i].id, strlen(rows[i].id)) == rows[i].rc,
                "id \"%s\"", rows[i].id);
    }

    unit_ok(check("ab\0cd", 5) == WQ_BAD_CHARACTER, "a zero inside an id");
    unit_ok(check("\0", 1) == WQ_BAD_CHARACTER, "a zero as an id");
    unit_ok(wq_id_check(NULL, 0) == WQ_EMPTY, "NULL is empty");
}


static void
test_alphabet(void)
{
    int          c, good;
    u_char       id[3];
    unsigned     accepted;
    const char  *alphabet;

    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
               "0123456789._~@:-";

    good = 1;
    accepted = 0;

    for (c = 0; c < 256; c++) {
        id[0] = 'x';
        id[1] = (u_char) c;
        id[2] = 'x';

        if (c != 0 && strchr(alphabet, c) != NULL) {
            accepted++;
            good &= check(&id[1], 1) == WQ_OK;
            good &= check(id, 3) == WQ_OK;

        } else {
            good &= check(&id[1], 1) == WQ_BAD_CHARACTER;
            good &= check(id, 3) == WQ_BAD_CHARACTER;
            good &= check(id, 2) == WQ_BAD_CHARACTER;
            good &= check(&id[1], 2) == WQ_BAD_CHARACTER;
        }
    }

    unit_ok(good, "every one of the 256 bytes, alone and inside");
    unit_ok(accepted == 68, "68 bytes are allowed");
}


static void
test_length(void)
{
    int     good;
    u_char  id[4 * WQ_ID_MAX];
    size_t  len;

    memset(id, 'a', sizeof(id));
    good = 1;

    for (len = 1; len <= WQ_ID_MAX; len++) {
        good &= check(id, len) == WQ_OK;
    }

    unit_ok(good, "every length from 1 to 128");
    good = 1;

    for (len = WQ_ID_MAX + 1; len <= sizeof(id); len++) {
        good &= check(id, len) == WQ_TOO_LONG;
    }

    unit_ok(good, "every length from 129 to 512 is too long");

    id[WQ_ID_MAX - 1] = '/';
    unit_ok(check(id, WQ_ID_MAX) == WQ_BAD_CHARACTER, "the last byte counts");

    id[WQ_ID_MAX - 1] = 'a';
    id[WQ_ID_MAX] = '/';
    unit_ok(check(id, WQ_ID_MAX) == WQ_OK, "the byte behind does not count");

    unit_ok(wq_id_check(id, SIZE_MAX) == WQ_TOO_LONG,
            "a length of SIZE_MAX is refused without a look");
}


int
main(void)
{
    test_examples();
    test_alphabet();
    test_length();

    return unit_done();
}
