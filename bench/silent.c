
/*
 * silent: opens many connections and says nothing on them, or half a request.
 *
 * --procs processes share the connections, because a process may have only so
 * many descriptors.  How old they are when the other side closes them is what
 * is measured; with --again they are opened once more then.
 *
 * On standard output, a line each:
 *
 *   READY n              all have been opened, n are open
 *   COUNT open closed    on SIGUSR1
 *   { ... }              at the end, by SIGTERM
 *
 * The source addresses are 127.0.1.1 and following, one for each 15,000, so
 * that others have the ports of 127.0.0.1.
 */

#define _GNU_SOURCE

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

#define PROCS       64
#define BATCH       256         /* epoll events of one wait */
#define INFLIGHT    200         /* of a process: not yet connected */

/* connections from one source address: it has so many ports */
#define PER_SOURCE  15000


typedef struct {
    int        fd;
    int        connected;
    uint64_t   opened;
} connection_t;


typedef struct {
    volatile uint64_t   ramped;         /* all have been tried */
    volatile uint64_t   open;
    volatile uint64_t   closed;         /* by the other side */
    volatile uint64_t   failed;
    volatile uint64_t   youngest;       /* us, of those closed */
    volatile uint64_t   oldest;
    volatile uint64_t   sum;
} result_t;


static struct {
    const char  *say;
    int          port;
    int          n;
    int          procs;
    int          again;
} options = { .say = "", .port = 8080, .n = 1000, .procs = 1 };


static result_t               *results;        /* shared */
static result_t               *result;         /* of this process */
static connection_t           *connections;
static int                     nconnections;
static int                     base;           /* number of the first */
static int                     pending;
static int                     epoll;
static volatile sig_atomic_t   stopped;
static volatile sig_atomic_t   asked;


static uint64_t
clock_us(void)
{
    struct timespec  t;

    clock_gettime(CLOCK_MONOTONIC, &t);

    return (uint64_t) t.tv_sec * 1000000 + (uint64_t) t.tv_nsec / 1000;
}


static void
die(const char *what)
{
    fprintf(stderr, "silent: %s: %s\n", what, strerror(errno));
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
connection_fail(connection_t *c)
{
    if (result->failed++ == 0) {
        fprintf(stderr, "silent: %s\n", strerror(errno));
    }

    if (c->fd >= 0) {
        close(c->fd);
        c->fd = -1;
    }
}


static void
connection_open(connection_t *c)
{
    int                  one;
    struct epoll_event   event;
    struct sockaddr_in   address;

    one = 1;
    c->opened = clock_us();
    c->fd = socket(AF_INET, SOCK_STREAM|SOCK_NONBLOCK|SOCK_CLOEXEC, 0);

    if (c->fd < 0) {
        connection_fail(c);
        return;
    }

    setsockopt(c->fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof(one));

    memset(&address, 0, sizeof(address));
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 256
                                    + (uint32_t) ((base + (c - connections))
                                                  / PER_SOURCE));

    if (bind(c->fd, (struct sockaddr *) &address, sizeof(address)) < 0) {
        connection_fail(c);
        return;
    }

    address.sin_port = htons((uint16_t) options.port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);

    if (connect(c->fd, (struct sockaddr *) &address, sizeof(address)) < 0
        && errno != EINPROGRESS)
    {
        connection_fail(c);
        return;
    }

    event.events = EPOLLIN|EPOLLOUT|EPOLLRDHUP|EPOLLET;
    event.data.u32 = (uint32_t) (c - connections);

    if (epoll_ctl(epoll, EPOLL_CTL_ADD, c->fd, &event) < 0) {
        connection_fail(c);
        return;
    }

    pending++;
}


static void
connection_event(connection_t *c, uint32_t events)
{
    char      buf[4096];
    ssize_t   n;
    uint64_t  age;

    if (c->fd < 0) {
        return;
    }

    if (!c->connected) {
        pending--;

        if (events & (EPOLLERR|EPOLLHUP)) {
            errno = ECONNREFUSED;
            connection_fail(c);
            return;
        }

        c->connected = 1;
        result->open++;

        if (*options.say) {
            (void) send(c->fd, options.say, strlen(options.say), MSG_NOSIGNAL);
        }
    }

    do {
        n = recv(c->fd, buf, sizeof(buf), 0);
    } while (n > 0);

    if (n < 0 && errno == EAGAIN) {
        return;
    }

    age = clock_us() - c->opened;

    if (result->closed == 0 || age < result->youngest) {
        result->youngest = age;
    }

    if (age > result->oldest) {
        result->oldest = age;
    }

    result->sum += age;
    result->closed++;
    result->open--;

    close(c->fd);
    c->fd = -1;
    c->connected = 0;
}


/* one process, with its share of the connections */

static void
run(void)
{
    int                  i, n, next, look;
    struct epoll_event   events[BATCH];

    epoll = epoll_create1(EPOLL_CLOEXEC);
    connections = calloc((size_t) nconnections, sizeof(connection_t));

    if (epoll < 0 || connections == NULL) {
        die("out of resources");
    }

    next = 0;
    look = 0;

    while (!stopped) {

        while (next < nconnections && pending < INFLIGHT) {
            connection_open(&connections[next++]);
        }

        if (next == nconnections && pending == 0) {
            result->ramped = 1;
        }

        /* some of them at a time, as there may be very many */

        for (i = 0; i < BATCH && options.again && result->ramped; i++) {
            look = (look + 1) % nconnections;

            if (connections[look].fd < 0 && pending < INFLIGHT) {
                connection_open(&connections[look]);
            }
        }

        n = epoll_wait(epoll, events, BATCH, 20);

        for (i = 0; i < n; i++) {
            connection_event(&connections[events[i].data.u32],
                             events[i].events);
        }
    }
}


static void
add(result_t *sum)
{
    int        i;
    result_t  *r;

    memset(sum, 0, sizeof(result_t));

    for (i = 0; i < options.procs; i++) {
        r = &results[i];

        if (r->closed
            && (sum->closed == 0 || r->youngest < sum->youngest))
        {
            sum->youngest = r->youngest;
        }

        if (r->oldest > sum->oldest) {
            sum->oldest = r->oldest;
        }

        sum->ramped += r->ramped;
        sum->open += r->open;
        sum->closed += r->closed;
        sum->failed += r->failed;
        sum->sum += r->sum;
    }
}


static void
parse(int argc, char **argv)
{
    int  option;

    static const struct option  names[] = {
        { "port", 1, NULL, 'p' },
        { "connections", 1, NULL, 'n' },
        { "procs", 1, NULL, 'P' },
        { "say", 1, NULL, 's' },
        { "again", 0, NULL, 'a' },
        { NULL, 0, NULL, 0 }
    };

    static const char  usage[] =
        "usage: silent [options]\n"
        "  -p, --port PORT        of 127.0.0.1 (8080)\n"
        "  -n, --connections N    (1000)\n"
        "  -P, --procs N          processes that share them (1)\n"
        "  -s, --say TEXT         once, on each (nothing)\n"
        "  -a, --again            open anew what was closed\n";

    while ((option = getopt_long(argc, argv, "p:n:P:s:a", names, NULL)) != -1)
    {

        switch (option) {

        case 'p':
            options.port = atoi(optarg);
            break;

        case 'n':
            options.n = atoi(optarg);
            break;

        case 'P':
            options.procs = atoi(optarg);
            break;

        case 's':
            options.say = optarg;
            break;

        case 'a':
            options.again = 1;
            break;

        default:
            fputs(usage, stderr);
            exit(2);
        }
    }

    if (options.n < 1 || options.procs < 1 || options.procs > PROCS
        || options.procs > options.n)
    {
        fputs(usage, stderr);
        exit(2);
    }
}


int
main(int argc, char **argv)
{
    int                i, ready;
    pid_t              children[PROCS];
    result_t           sum;
    struct rlimit      limit;
    struct sigaction   action;

    parse(argc, argv);

    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);

    results = mmap(NULL, (size_t) options.procs * sizeof(result_t),
                   PROT_READ|PROT_WRITE, MAP_SHARED|MAP_ANONYMOUS, -1, 0);

    if (results == MAP_FAILED) {
        die("mmap");
    }

    memset(&action, 0, sizeof(action));
    action.sa_handler = on_signal;
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);

    for (i = 0; i < options.procs; i++) {
        base = (int) ((int64_t) options.n * i / options.procs);
        nconnections = (int) ((int64_t) options.n * (i + 1) / options.procs)
                       - base;
        result = &results[i];

        children[i] = fork();

        if (children[i] < 0) {
            die("fork");
        }

        if (children[i] == 0) {
            run();
            _exit(0);
        }
    }

    ready = 0;

    while (!stopped) {
        add(&sum);

        if (sum.ramped == (uint64_t) options.procs && !ready) {
            ready = 1;
            dprintf(STDOUT_FILENO, "READY %llu\n",
                    (unsigned long long) sum.open);
        }

        if (asked) {
            asked = 0;
            dprintf(STDOUT_FILENO, "COUNT %llu %llu\n",
                    (unsigned long long) sum.open,
                    (unsigned long long) sum.closed);
        }

        /* a signal ends the sleep */
        usleep(5000);
    }

    for (i = 0; i < options.procs; i++) {
        kill(children[i], SIGTERM);
        waitpid(children[i], NULL, 0);
    }

    add(&sum);

    printf("{\"open\":%llu,\"closed\":%llu,\"failed\":%llu,"
           "\"youngest_s\":%.3f,\"mean_s\":%.3f,\"oldest_s\":%.3f}\n",
           (unsigned long long) sum.open, (unsigned long long) sum.closed,
           (unsigned long long) sum.failed, (double) sum.youngest / 1e6,
           sum.closed ? (double) sum.sum / (double) sum.closed / 1e6 : 0,
           (double) sum.oldest / 1e6);

    return 0;
}
