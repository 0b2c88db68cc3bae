
/*
 * floor: the cheapest server of events that can be.
 *
 * Holds connections and once in an interval writes an event of 60 bytes to
 * each: what the kernel alone costs.  One process, one byte for a connection.
 * The request is not looked at, and taken to come in one piece.
 *
 * Usage: floor PORT CONNECTIONS [INTERVAL_MS]
 */

#define _GNU_SOURCE

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>


static uint8_t  *live;      /* by descriptor */
static int       limit;
static int       top;
static int       epoll;


static uint64_t
clock_us(void)
{
    struct timespec  t;

    clock_gettime(CLOCK_MONOTONIC, &t);

    return (uint64_t) t.tv_sec * 1000000 + (uint64_t) t.tv_nsec / 1000;
}


static void
tick(uint64_t now)
{
    int   fd, n;
    char  buf[128];

    for (fd = 0; fd <= top; fd++) {

        if (!live[fd]) {
            continue;
        }

        n = sprintf(buf, "event: position\n"
                         "data: {\"t\":%llu,\"position\":%d}\n\n",
                    (unsigned long long) now, fd);

        if (write(fd, buf, (size_t) n) < 0) {
            /* it does not read, or has gone: its event tells */
            continue;
        }
    }
}


static void
take(int listening)
{
    int                 c, i, one;
    struct epoll_event  event;

    one = 1;

    for (i = 0; i < 256; i++) {
        c = accept4(listening, NULL, NULL, SOCK_NONBLOCK);

        if (c < 0) {
            return;
        }

        if (c >= limit) {
            close(c);
            continue;
        }

        setsockopt(c, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));

        event.events = EPOLLIN|EPOLLRDHUP|EPOLLET;
        event.data.fd = c;
        epoll_ctl(epoll, EPOLL_CTL_ADD, c, &event);

        if (c > top) {
            top = c;
        }
    }
}


static void
receive(int fd, uint32_t events)
{
    char     buf[4096];
    ssize_t  n;

    static const char  head[] = "HTTP/1.1 200 OK\r\n"
                                "Content-Type: text/event-stream\r\n"
                                "Cache-Control: no-cache\r\n"
                                "Connection: close\r\n\r\n";

    n = read(fd, buf, sizeof(buf));

    if (n <= 0 || (events & EPOLLRDHUP)) {
        live[fd] = 0;
        close(fd);
        return;
    }

    if (!live[fd] && write(fd, head, sizeof(head) - 1) > 0) {
        live[fd] = 1;
    }
}


int
main(int argc, char **argv)
{
    int                  listening, i, n, one;
    uint64_t             now, next, interval;
    struct epoll_event   event, events[512];
    struct sockaddr_in   address;

    if (argc < 3) {
        fputs("usage: floor PORT CONNECTIONS [INTERVAL_MS]\n", stderr);
        return 2;
    }

    limit = atoi(argv[2]) + 64;
    interval = argc > 3 ? (uint64_t) atoi(argv[3]) * 1000 : 1000000;
    one = 1;

    signal(SIGPIPE, SIG_IGN);

    memset(&address, 0, sizeof(address));
    address.sin_family = AF_INET;
    address.sin_port = htons((uint16_t) atoi(argv[1]));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);

    live = calloc((size_t) limit, 1);
    epoll = epoll_create1(0);
    listening = socket(AF_INET, SOCK_STREAM|SOCK_NONBLOCK, 0);

    setsockopt(listening, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));

    /* several may share the port */
    setsockopt(listening, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one));

    if (live == NULL || epoll < 0
        || bind(listening, (struct sockaddr *) &address, sizeof(address)) < 0
        || listen(listening, 65535) < 0)
    {
        perror("floor");
        return 1;
    }

    event.events = EPOLLIN;
    event.data.fd = listening;
    epoll_ctl(epoll, EPOLL_CTL_ADD, listening, &event);

    next = clock_us() + interval;

    for ( ;; ) {
        now = clock_us();

        if (now >= next) {
            tick(now);
            next += interval;
            continue;
        }

        n = epoll_wait(epoll, events, 512, (int) ((next - now) / 1000) + 1);

        for (i = 0; i < n; i++) {

            if (events[i].data.fd == listening) {
                take(listening);

            } else {
                receive(events[i].data.fd, events[i].events);
            }
        }
    }
}
