
/*
 * unit tests: the little that every test file shares.
 *
 * Writes TAP, so that prove can run the binaries.
 */


#ifndef WQ_UNIT_H_INCLUDED_
#define WQ_UNIT_H_INCLUDED_


#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wq_core.h"


#define unit_nitems(a)  (sizeof(a) / sizeof((a)[0]))

#define unit_ok(condition, ...)                                               \
    unit_result((condition) != 0, __FILE__, __LINE__, __VA_ARGS__)


static unsigned  unit_count;
static unsigned  unit_failed;


__attribute__((unused, format(printf, 4, 5)))
static int
unit_result(int good, const char *file, int line, const char *format, ...)
{
    char     name[256], *p;
    va_list  args;

    va_start(args, format);
    vsnprintf(name, sizeof(name), format, args);
    va_end(args);

    /* a "#" would begin a directive of TAP, a newline another line */

    for (p = name; *p; p++) {
        if (*p < 0x20 || *p > 0x7e || *p == '#') {
            *p = '.';
        }
    }

    printf("%sok %u - %s\n", good ? "" : "not ", ++unit_count, name);

    if (!good) {
        unit_failed++;
        printf("#   failed at %s line %d\n", file, line);
    }

    return good;
}


/*
 * A copy of exactly len bytes on the heap, so that the sanitizer sees a read
 * past the end.
 */

__attribute__((unused))
static u_char *
unit_copy(const void *data, size_t len)
{
    u_char  *p;

    p = malloc(len);

    if (p == NULL && len > 0) {
        printf("Bail out!  no memory\n");
        exit(2);
    }

    if (len > 0) {
        memcpy(p, data, len);
    }

    return p;
}


__attribute__((unused))
static int
unit_done(void)
{
    printf("1..%u\n", unit_count);

    return unit_failed ? 1 : 0;
}


#endif /* WQ_UNIT_H_INCLUDED_ */
