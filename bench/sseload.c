
/*
 * sseload: opens many Server-Sent Events streams and tells what arrives.
 *
 * --procs processes share the connections, because a process may have only so
 * many descriptors.  Each has one epoll set, edge triggered, and no buffer per
 * connection: the response is parsed as it comes, and only the beginning of the
 * line at hand is kept.  Counters are in shared memory; the parent adds them.
 *
 * On standard output, a line each:
 *
 *   READY n              all response heads have arrived, n streams are open
 *   COUNT us events      on SIGUSR1: the time, and the events so far
 *   EVENT us id          with --report NAME: an event of that name was read;
 *                        the stream counts no gaps from here on
 *   { ... }              at the end, after --duration or SIGTERM
 *
 * Times are CLOCK_MONOTONIC in microseconds, as any process of the machine has
 * them.  In --path and --header, "%d" is the number of the connection.
 *
 * Limits: lines end in LF or CRLF; the request fits the socket's send buffer;
 * no TLS, no redirects.
 */

#define _GNU_SOURCE

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>


#ifndef IP_BIND_ADDRESS_NO_PORT
#define IP_BIND_ADDRESS_NO_PORT  24
#endif

#define LINE_KEPT    96         /* bytes of a line that are looked at */
#define NAME_KEPT    23         /* of an event's name */
#define NAMES        16         /* different names that are counted */
#define HEADERS      24
#define PROCS        64
#define BATCH        256        /* epoll events of one wait */

/* connections from one source address: it has so many ports */
#define PER_SOURCE   15000


/*
 * A histogram of microseconds with 64 steps for each power of two: the error is
 * less than 1.6 %.
 */

#define STEPS        64
#define SLOTS        (STEPS * 40)

typedef struct {
    uint64_t   n;
    uint64_t   max;
    uint32_t   slot[SLOTS];
} histogram_t;


typedef enum {
    CLOSED = 0,
    CONNECTING,
    HEAD,
    BODY
} state_e;


typedef enum {
    NOT_CHUNKED = 0,
    SIZE,
    EXTENSION,
    DATA,
    AFTER_DATA,
    TRAILER
} chunk_e;


typedef struct {
    int        fd;
    uint64_t   connected;       /* when connect() was called */
    uint64_t   event;           /* when the last one was read, 0: none yet */
    uint64_t   left;            /* bytes of the chunk at hand */
    uint16_t   status;
    uint8_t    state;
    uint8_t    chunk;
    uint8_t    line_len;
    uint8_t    name_len;
    uint8_t    has_data;
    uint8_t    first_line;
    uint8_t    reported;
    char       name[NAME_KEPT + 1];
    char       line[LINE_KEPT];
} connection_t;


#define COUNTERS(X)                                                           \
    X(opened) X(responses) X(open) X(failed) X(bad_heads) X(ended)            \
    X(events) X(comments) X(bytes)

#define HISTOGRAMS(X)                                                         \
    X(head_ms) X(first_ms) X(gap_ms)

typedef struct {
#define X(name)  uint64_t  name;
    COUNTERS(X)
#undef X

#define X(name)  histogram_t  name;
    HISTOGRAMS(X)
#undef X

    uint64_t            status[600];

    struct {
        char            name[NAME_KEPT + 1];
        uint64_t        n;
    } names[NAMES];

    volatile uint64_t   ramped;     /* when all its heads had arrived */
    double              cpu;
} result_t;


static struct {
    const char  *path;
    const char  *report;
    const char  *headers[HEADERS];
    int          nheaders;
    int          port;
    int          n;
    int          procs;
    int          first;
    int          inflight;
    double       duration;
    double       ramp;
} options = {
    .path = "/", .port = 8080, .n = 1000, .procs = 1, .inflight = 1000,
    .duration = 10, .ramp = 120
};


static struct {
    volatile uint64_t   ready;      /* when all processes were */
    result_t            results[];
} *shared;


static result_t               *result;         /* of this process */
static connection_t           *connections;    /* of this process */
static int                     nconnections;
static int                     base;           /* number of the first */
static int                     pending;        /* have no response head yet */
static int                     epoll;
static uint64_t                started;
static uint64_t                now;
static struct sockaddr_in      server;
static volatile sig_atomic_t   stopped;
static volatile sig_atomic_t   asked;


static void connection_request(connection_t *c);
static void body(connection_t *c, const char *p, size_t len);


static uint64_t
clock_us(void)
{
    struct timespec  t;

    clock_gettime(CLOCK_MONOTONIC, &t);

    return (uint64_t) t.tv_sec * 1000000 + (uint64_t) t.tv_nsec / 1000;
}


static void
die(const char *format, ...)
{
    va_list  args;

    va_start(args, format);
    fputs("sseload: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);

    exit(2);
}


static void
on_signal(int signo)
{
    if (signo == SIGUSR1) {
        asked = 1;

    } else {
        stopped = 1;
    }
}


static void
histogram_add(histogram_t *h, uint64_t us)
{
    unsigned  shift, i;

    if (us < STEPS) {
        i = (unsigned) us;

    } else {
        shift = 63 - (unsigned) __builtin_clzll(us) - 6;
        i = (shift + 1) * STEPS + (unsigned) ((us >> shift) - STEPS);
    }

    h->slot[i < SLOTS ? i : SLOTS - 1]++;
    h->n++;

    if (us > h->max) {
        h->max = us;
    }
}


static uint64_t
histogram_percentile(const histogram_t *h, double percent)
{
    unsigned  i, shift;
    uint64_t  wanted, seen, upper;

    wanted = (uint64_t) (percent / 100 * (double) h->n + 0.5);
    seen = 0;

    for (i = 0; i < SLOTS; i++) {
        seen += h->slot[i];

        if (seen > 0 && seen >= wanted) {
            break;
        }
    }

    upper = i;

    if (i >= STEPS) {
        shift = i / STEPS - 1;
        upper = (((uint64_t) (i % STEPS) + STEPS + 1) << shift) - 1;
    }

    return upper < h->max ? upper : h->max;
}


static size_t
expand(char *buf, size_t len, size_t size, const char *template, int id)
{
    for (; *template && len + 12 < size; template++) {

        if (template[0] == '%' && template[1] == 'd') {
            len += (size_t) sprintf(buf + len, "%d", id);
            template++;

        } else {
            buf[len++] = *template;
        }
    }

    return len;
}


static void
connection_close(connection_t *c)
{
    struct linger  linger = { 1, 0 };

    if (c->state == CONNECTING || c->state == HEAD) {
        pending--;
    }

    if (c->state == HEAD || c->state == BODY) {
        result->open--;
    }

    c->state = CLOSED;

    if (c->fd >= 0) {
        /* leaves no TIME_WAIT behind */
        setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
        close(c->fd);
        c->fd = -1;
    }
}


static void
connection_fail(connection_t *c)
{
    if (result->failed++ == 0) {
        fprintf(stderr, "sseload: %s\n", strerror(errno));
    }

    connection_close(c);
}


static void
connection_open(connection_t *c)
{
    int                  id, one;
    struct epoll_event   event;
    struct sockaddr_in   source;

    id = base + (int) (c - connections);

    c->first_line = 1;
    c->connected = clock_us();
    result->opened++;

    c->fd = socket(AF_INET, SOCK_STREAM|SOCK_NONBLOCK|SOCK_CLOEXEC, 0);

    if (c->fd < 0) {
        connection_fail(c);
        return;
    }

    if (id >= PER_SOURCE) {
        one = 1;
        setsockopt(c->fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one,
                   sizeof(one));

        memset(&source, 0, sizeof(source));
        source.sin_family = AF_INET;
        source.sin_addr.s_addr = htonl(INADDR_LOOPBACK
                                       + (uint32_t) (id / PER_SOURCE));

        if (bind(c->fd, (struct sockaddr *) &source, sizeof(source)) < 0) {
            connection_fail(c);
            return;
        }
    }

    if (connect(c->fd, (struct sockaddr *) &server, sizeof(server)) < 0
        && errno != EINPROGRESS)
    {
        connection_fail(c);
        return;
    }

    c->state = CONNECTING;
    pending++;

    event.events = EPOLLIN|EPOLLOUT|EPOLLRDHUP|EPOLLET;
    event.data.u32 = (uint32_t) (c - connections);

    /* the loopback has mostly connected it by now */

    connection_request(c);

    if (c->fd >= 0 && epoll_ctl(epoll, EPOLL_CTL_ADD, c->fd, &event) < 0) {
        connection_fail(c);
    }
}


/* sends the request, or leaves it to the event that the socket is connected */

static void
connection_request(connection_t *c)
{
    int      id, i;
    char     buf[8192];
    size_t   len;
    ssize_t  n;

    id = options.first + base + (int) (c - connections);

    len = expand(buf, 0, sizeof(buf), "GET ", id);
    len = expand(buf, len, sizeof(buf), options.path, id);
    len = expand(buf, len, sizeof(buf), " HTTP/1.1\r\nHost: localhost\r\n"
                 "Accept: text/event-stream\r\n", id);

    for (i = 0; i < options.nheaders; i++) {
        len = expand(buf, len, sizeof(buf), options.headers[i], id);
        len = expand(buf, len, sizeof(buf), "\r\n", id);
    }

    len = expand(buf, len, sizeof(buf), "\r\n", id);

    n = send(c->fd, buf, len, MSG_NOSIGNAL);

    if (n < 0 && errno == EAGAIN) {
        return;
    }

    if (n != (ssize_t) len) {
        connection_fail(c);
        return;
    }

    c->state = HEAD;
    result->open++;
}


static void
count_name(result_t *r, const char *name, size_t len, uint64_t n)
{
    int  i;

    for (i = 0; i < NAMES; i++) {

        if (r->names[i].n == 0) {
            memcpy(r->names[i].name, name, len);
            break;
        }

        if (memcmp(r->names[i].name, name, len) == 0
            && r->names[i].name[len] == '\0')
        {
            break;
        }
    }

    if (i < NAMES) {
        r->names[i].n += n;
    }
}


/* the time without an event, since all are there */

static void
count_gap(connection_t *c)
{
    uint64_t  since;

    if (shared->ready == 0 || c->reported) {
        return;
    }

    since = c->event > shared->ready ? c->event : shared->ready;
    histogram_add(&result->gap_ms, now > since ? now - since : 0);
}


static void
sse_event(connection_t *c)
{
    result->events++;

    if (c->event == 0) {
        histogram_add(&result->first_ms, now - c->connected);
    }

    count_gap(c);
    c->event = now;

    if (c->name_len == 0) {
        count_name(result, "message", 7, 1);
        return;
    }

    count_name(result, c->name, c->name_len, 1);

    if (options.report
        && strlen(options.report) == c->name_len
        && memcmp(options.report, c->name, c->name_len) == 0)
    {
        dprintf(STDOUT_FILENO, "EVENT %llu %d\n", (unsigned long long) now,
                options.first + base + (int) (c - connections));
        c->reported = 1;
    }
}


static void
sse_line(connection_t *c, const char *s, size_t len)
{
    if (len == 0) {
        if (c->has_data) {
            sse_event(c);
        }

        c->has_data = 0;
        c->name_len = 0;

    } else if (s[0] == ':') {
        result->comments++;

    } else if (len >= 6 && memcmp(s, "event:", 6) == 0) {
        s += 6;
        len -= 6;

        if (len && *s == ' ') {
            s++;
            len--;
        }

        c->name_len = (uint8_t) (len < NAME_KEPT ? len : NAME_KEPT);
        memcpy(c->name, s, c->name_len);

    } else if (len >= 5 && memcmp(s, "data:", 5) == 0) {
        c->has_data = 1;
    }
}


/*
 * Takes bytes up to the end of a line: how many; *line is NULL if the line has
 * not ended.  One that is whole is not copied.
 */

static size_t
take_line(connection_t *c, const char *p, size_t len, const char **line,
    size_t *n)
{
    size_t       part, k;
    const char  *end;

    end = memchr(p, '\n', len);
    part = end ? (size_t) (end - p) : len;

    if (end && c->line_len == 0) {
        *line = p;
        *n = part < LINE_KEPT ? part : LINE_KEPT;

    } else {
        k = LINE_KEPT - c->line_len;
        k = part < k ? part : k;

        memcpy(c->line + c->line_len, p, k);
        c->line_len = (uint8_t) (c->line_len + k);

        *line = c->line;
        *n = c->line_len;
    }

    if (end == NULL) {
        *line = NULL;
        return part;
    }

    c->line_len = 0;

    if (*n && (*line)[*n - 1] == '\r') {
        (*n)--;
    }

    return part + 1;
}


/* the head of the response; how many bytes it took */

static size_t
head(connection_t *c, const char *p, size_t len)
{
    size_t       n, used;
    const char  *line;

    used = 0;

    while (used < len && c->state == HEAD) {
        used += take_line(c, p + used, len - used, &line, &n);

        if (line == NULL) {
            break;
        }

        if (c->first_line) {
            c->first_line = 0;

            if (n >= 12 && memcmp(line, "HTTP/1.", 7) == 0) {
                c->status = (uint16_t) atoi(line + 9);
            }

            if (c->status < 100 || c->status > 599) {
                result->bad_heads++;
                c->status = 0;
            }

        } else if (n == 0) {
            result->status[c->status]++;
            result->responses++;
            pending--;
            histogram_add(&result->head_ms, now - c->connected);
            c->state = BODY;

        } else if (n >= 26
                   && strncasecmp(line, "transfer-encoding:", 18) == 0
                   && memmem(line, n, "chunked", 7))
        {
            c->chunk = SIZE;
        }
    }

    return used;
}


static void
body(connection_t *c, const char *p, size_t len)
{
    size_t       n, used;
    const char  *line;

    while (len) {
        used = take_line(c, p, len, &line, &n);

        if (line) {
            sse_line(c, line, n);
        }

        p += used;
        len -= used;
    }
}


/* takes the payload out of its chunks; -1: that was the last */

static int
dechunk(connection_t *c, const char *p, size_t len)
{
    char    ch;
    size_t  n;

    while (len) {
        ch = *p;

        if (c->chunk == DATA) {
            n = len < c->left ? len : (size_t) c->left;
            body(c, p, n);
            p += n;
            len -= n;
            c->left -= n;

            if (c->left == 0) {
                c->chunk = AFTER_DATA;
            }

            continue;
        }

        p++;
        len--;

        switch (c->chunk) {

        case SIZE:
            if (ch >= '0' && ch <= '9') {
                c->left = c->left * 16 + (uint64_t) (ch - '0');
                break;
            }

            if ((ch | 32) >= 'a' && (ch | 32) <= 'f') {
                c->left = c->left * 16 + (uint64_t) ((ch | 32) - 'a' + 10);
                break;
            }

            /* fall through */

        case EXTENSION:
            c->chunk = ch != '\n' ? EXTENSION : c->left ? DATA : TRAILER;
            break;

        case AFTER_DATA:
            if (ch == '\n') {
                c->chunk = SIZE;
            }

            break;

        default:
            return -1;
        }
    }

    return c->chunk == TRAILER ? -1 : 0;
}


static void
connection_read(connection_t *c, uint32_t events)
{
    size_t   used;
    ssize_t  n;

    static char  buf[65536];

    for ( ;; ) {
        n = recv(c->fd, buf, sizeof(buf), 0);

        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            return;
        }

        if (n <= 0) {
            result->ended++;
            connection_close(c);
            return;
        }

        now = clock_us();
        result->bytes += (uint64_t) n;

        used = c->state == HEAD ? head(c, buf, (size_t) n) : 0;

        if (c->state == BODY) {

            if (c->chunk == NOT_CHUNKED) {
                body(c, buf + used, (size_t) n - used);

            } else if (dechunk(c, buf + used, (size_t) n - used) < 0) {
                result->ended++;
                connection_close(c);
                return;
            }
        }

        /* a short read has emptied the socket, unless its end is waiting */

        if ((size_t) n < sizeof(buf)
            && !(events & (EPOLLRDHUP|EPOLLHUP|EPOLLERR)))
        {
            return;
        }
    }
}


/* one process, with its share of the connections */

static void
run(void)
{
    int                  i, n, next, inflight;
    connection_t        *c;
    struct rusage        usage;
    struct epoll_event   events[BATCH];

    epoll = epoll_create1(EPOLL_CLOEXEC);
    connections = calloc((size_t) nconnections, sizeof(connection_t));

    if (epoll < 0 || connections == NULL) {
        die("out of resources");
    }

    for (i = 0; i < nconnections; i++) {
        connections[i].fd = -1;
    }

    inflight = (options.inflight + options.procs - 1) / options.procs;
    next = 0;

    while (!stopped) {
        now = clock_us();

        while (next < nconnections && pending < inflight) {
            connection_open(&connections[next++]);
        }

        if (result->ramped == 0
            && ((next == nconnections && pending == 0)
                || (double) (now - started) / 1e6 > options.ramp))
        {
            result->ramped = now;
        }

        if (shared->ready
            && (double) (now - shared->ready) / 1e6 >= options.duration)
        {
            break;
        }

        n = epoll_wait(epoll, events, BATCH, 20);

        for (i = 0; i < n; i++) {
            c = &connections[events[i].data.u32];

            if (c->state == CONNECTING) {
                connection_request(c);
            }

            if (c->fd >= 0 && c->state != CONNECTING
                && (events[i].events & ~(uint32_t) EPOLLOUT))
            {
                connection_read(c, events[i].events);
            }
        }
    }

    if (result->ramped == 0) {
        result->ramped = clock_us();
    }

    /* a stream on which there was nothing has had the longest gap */

    now = clock_us();

    for (i = 0; i < nconnections; i++) {
        if (connections[i].state == BODY) {
            count_gap(&connections[i]);
        }
    }

    getrusage(RUSAGE_SELF, &usage);
    result->cpu = (double) (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec)
                  + (double) (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec)
                    / 1e6;
}


static void
add(result_t *to, const result_t *r)
{
    int  i;

#define X(name)  to->name += r->name;
    COUNTERS(X)
#undef X

#define X(name)                                                               \
    to->name.n += r->name.n;                                                  \
    to->name.max = r->name.max > to->name.max ? r->name.max : to->name.max;   \
    for (i = 0; i < SLOTS; i++) {                                             \
        to->name.slot[i] += r->name.slot[i];                                  \
    }
    HISTOGRAMS(X)
#undef X

    for (i = 0; i < 600; i++) {
        to->status[i] += r->status[i];
    }

    for (i = 0; i < NAMES && r->names[i].n; i++) {
        count_name(to, r->names[i].name, strlen(r->names[i].name),
                   r->names[i].n);
    }

    if (r->ramped > to->ramped) {
        to->ramped = r->ramped;
    }

    to->cpu += r->cpu;
}


static void
print_histogram(const char *name, const histogram_t *h)
{
    printf(",\"%s\":{\"n\":%llu,\"p50\":%.3f,\"p99\":%.3f,\"max\":%.3f}",
           name, (unsigned long long) h->n,
           (double) histogram_percentile(h, 50) / 1e3,
           (double) histogram_percentile(h, 99) / 1e3,
           (double) h->max / 1e3);
}


static void
print_result(const result_t *r)
{
    int          i;
    const char  *comma;

    printf("{\"ramp_s\":%.6f,\"cpu_s\":%.3f",
           (double) (r->ramped - started) / 1e6, r->cpu);

#define X(name)  printf(",\"%s\":%llu", #name, (unsigned long long) r->name);
    COUNTERS(X)
#undef X

#define X(name)  print_histogram(#name, &r->name);
    HISTOGRAMS(X)
#undef X

    printf(",\"status\":{");
    comma = "";

    for (i = 0; i < 600; i++) {
        if (r->status[i]) {
            printf("%s\"%d\":%llu", comma, i,
                   (unsigned long long) r->status[i]);
            comma = ",";
        }
    }

    printf("},\"names\":{");

    for (i = 0; i < NAMES && r->names[i].n; i++) {
        printf("%s\"%s\":%llu", i ? "," : "", r->names[i].name,
               (unsigned long long) r->names[i].n);
    }

    printf("}}\n");
}


static void
parse(int argc, char **argv)
{
    int  option;

    static const struct option  names[] = {
        { "port", 1, NULL, 'p' },
        { "path", 1, NULL, 'u' },
        { "header", 1, NULL, 'H' },
        { "connections", 1, NULL, 'n' },
        { "procs", 1, NULL, 'P' },
        { "first", 1, NULL, 'f' },
        { "inflight", 1, NULL, 'i' },
        { "duration", 1, NULL, 'd' },
        { "report", 1, NULL, 'r' },
        { NULL, 0, NULL, 0 }
    };

    static const char  usage[] =
        "usage: sseload [options]\n"
        "  -p, --port PORT        of 127.0.0.1 (8080)\n"
        "  -u, --path TEMPLATE    of the request, %d: the number (/)\n"
        "  -H, --header TEMPLATE  another header; may be repeated\n"
        "  -n, --connections N    (1000)\n"
        "  -P, --procs N          processes that share them (1)\n"
        "  -f, --first N          the first number (0)\n"
        "  -i, --inflight N       without a response at a time (1000)\n"
        "  -d, --duration S       after all have their response (10)\n"
        "  -r, --report NAME      print a line for each event NAME\n";

    while ((option = getopt_long(argc, argv, "p:u:H:n:P:f:i:d:r:", names,
                                 NULL))
           != -1)
    {
        switch (option) {

        case 'p':
            options.port = atoi(optarg);
            break;

        case 'u':
            options.path = optarg;
            break;

        case 'H':
            if (options.nheaders == HEADERS) {
                die("too many headers");
            }

            options.headers[options.nheaders++] = optarg;
            break;

        case 'n':
            options.n = atoi(optarg);
            break;

        case 'P':
            options.procs = atoi(optarg);
            break;

        case 'f':
            options.first = atoi(optarg);
            break;

        case 'i':
            options.inflight = atoi(optarg);
            break;

        case 'd':
            options.duration = atof(optarg);
            break;

        case 'r':
            options.report = optarg;
            break;

        default:
            fputs(usage, stderr);
            exit(2);
        }
    }

    if (options.n < 1 || options.inflight < 1 || options.procs < 1
        || options.procs > PROCS || options.procs > options.n)
    {
        die("bad number");
    }

    server.sin_family = AF_INET;
    server.sin_port = htons((uint16_t) options.port);
    server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
}


static void
answer(void)
{
    int       i;
    uint64_t  events;

    events = 0;

    for (i = 0; i < options.procs; i++) {
        events += *(volatile uint64_t *) &shared->results[i].events;
    }

    dprintf(STDOUT_FILENO, "COUNT %llu %llu\n",
            (unsigned long long) clock_us(), (unsigned long long) events);
}


int
main(int argc, char **argv)
{
    int                i, left, ramped, status, failed;
    pid_t              children[PROCS];
    uint64_t           open;
    struct rlimit      limit;
    struct sigaction   action;

    static result_t  sum;

    parse(argc, argv);

    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);

    shared = mmap(NULL, sizeof(*shared)
                        + (size_t) options.procs * sizeof(result_t),
                  PROT_READ|PROT_WRITE, MAP_SHARED|MAP_ANONYMOUS, -1, 0);

    if (shared == MAP_FAILED) {
        die("out of memory");
    }

    memset(&action, 0, sizeof(action));
    action.sa_handler = on_signal;
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);

    started = clock_us();

    for (i = 0; i < options.procs; i++) {
        base = (int) ((int64_t) options.n * i / options.procs);
        nconnections = (int) ((int64_t) options.n * (i + 1) / options.procs)
                       - base;
        result = &shared->results[i];

        children[i] = fork();

        if (children[i] < 0) {
            die("fork: %s", strerror(errno));
        }

        if (children[i] == 0) {
            run();
            _exit(0);
        }
    }

    failed = 0;

    for (left = options.procs; left > 0; /* void */) {
        ramped = 0;
        open = 0;

        for (i = 0; i < options.procs; i++) {
            ramped += shared->results[i].ramped != 0;
            open += shared->results[i].open;

            if (stopped && children[i] > 0) {
                kill(children[i], SIGTERM);
            }

            if (children[i] > 0
                && waitpid(children[i], &status, WNOHANG) > 0)
            {
                failed |= status;
                children[i] = 0;
                left--;
            }
        }

        if (ramped == options.procs && shared->ready == 0) {
            shared->ready = clock_us();
            dprintf(STDOUT_FILENO, "READY %llu\n", (unsigned long long) open);
        }

        if (asked) {
            asked = 0;
            answer();
        }

        /* a signal ends the sleep */
        usleep(2000);
    }

    for (i = 0; i < options.procs; i++) {
        add(&sum, &shared->results[i]);
    }

    print_result(&sum);

    return failed || sum.failed || sum.bad_heads ? 1 : 0;
}
