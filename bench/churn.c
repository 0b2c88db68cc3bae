/*
 * churn: users of a sale who come and go, for as long as it is told to run.
 *
 * It keeps so many users in line by a stream, and so many by the token API.
 * Every user is a new one, lives for a random time, and does what users do:
 * loses the stream and comes back, goes away without a word (FIN or RST), gives
 * the place back, is let in and goes through the gate, where the backend says
 * "done" to most of them; some who are let in never come.  After an end that
 * the server made a user comes back when retry: or Retry-After says so.
 *
 * It knows what each answer may be, and counts the others as wrong: a place
 * that is further back than it was before is one of them.
 *
 * Every --every seconds a line of JSON: counters since the beginning, and what
 * is so now.  On SIGTERM everybody leaves at once, without a word, and a last
 * line is written.  What was wrong is on standard error, the first of it.
 *
 * One process, one epoll set, one connection a user at a time.  Connections are
 * from 127.0.0.2, so that whoever counts can tell them from others.
 */

#define _GNU_SOURCE

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>


#define KEPT       2048         /* bytes of an answer, or of a line */
#define BATCH      256          /* epoll events of one wait */
#define INFLIGHT   200          /* streams that wait for their first event */
#define TOLD       20           /* wrong answers that are printed */
#define SECOND     1000000u

#define ANSWER_US  (10 * SECOND)    /* no request may take longer */

#define BRIEF_US   (15 * SECOND)    /* so long people come to a brief one */


/* what a user is about */

typedef enum {
    FREE = 0,
    LISTENING,                  /* in line, has a stream or opens one */
    AWAY,                       /* in line, comes back when it is due */
    SLEEPING,                   /* let in, listens and does not come */
    POLLING,                    /* in line, asks when it is due */
    VISITING,                   /* inside, the next request when it is due */
    QUITTING                    /* gives back what it has */
} step_e;

/* what the connection of a user is for */

typedef enum {
    NOTHING = 0,
    STREAM,
    JOIN,
    POLL,
    QUIT,
    VISIT
} call_e;

typedef enum {
    HEAD = 0,
    SIZE,                       /* of a chunk; those that follow are chunked */
    DATA,
    AFTER_DATA,
    LAST
} part_e;


typedef struct {
    int         fd;
    uint8_t     step;
    uint8_t     call;
    uint8_t     part;
    uint8_t     connected;
    uint8_t     again;          /* the call has been tried before */
    uint8_t     returned;       /* ended the last stream itself */
    uint8_t     told;           /* the stream has had its first event */
    uint8_t     farewell;       /* the stream has had its last one */
    uint8_t     hits;           /* requests left of the visit */
    uint8_t     inside;         /* the gate has let it through */
    uint8_t     event;
    uint32_t    number;
    uint32_t    retry;          /* ms, what the server said */
    uint32_t    position;       /* the last one told, 0: none */
    uint64_t    due;
    uint64_t    end;            /* of the time that it is willing to wait */
    uint64_t    lost;           /* when the stream ended */
    uint64_t    sent;
    uint64_t    left;           /* bytes of the chunk at hand */
    uint32_t    next;           /* in the list of the free ones */
    char        token[41];
    char        name[16];       /* of the event at hand */
    uint16_t    len;
    char        in[KEPT];
} user_t;


#define COUNTERS(X)                                                           \
    X(users) X(opened) X(reconnects) X(returns) X(positions) X(promoted)      \
    X(admitted) X(visits) X(done) X(joins) X(polls) X(quits) X(vanished)      \
    X(lapsed) X(refused) X(unanswered) X(wrong)

static struct {
#define X(name)  uint64_t  name;
    COUNTERS(X)
#undef X
} counters;


static struct {
    int       port;
    int       streams;
    int       polls;
    int       halls;
    int       briefs;
    double    every;
    double    life;
    unsigned  seed;
} options = {
    .port = 8080, .streams = 5000, .polls = 600, .halls = 2, .briefs = 8,
    .every = 5, .life = 200, .seed = 1
};


static user_t                 *users;
static uint32_t                nusers, free_users;
static int                     streaming, polling, opening, epoll;
static uint64_t                now, started, random_state, serial;
static uint64_t                longest_gap, busiest;
static struct sockaddr_in      server;
static volatile sig_atomic_t   stopped;


static void
on_signal(int signo)
{
    (void) signo;
    stopped = 1;
}


static uint64_t
clock_us(void)
{
    struct timespec  t;

    clock_gettime(CLOCK_MONOTONIC, &t);

    return (uint64_t) t.tv_sec * SECOND + (uint64_t) t.tv_nsec / 1000;
}


static void
die(const char *what)
{
    fprintf(stderr, "churn: %s: %s\n", what, strerror(errno));
    exit(2);
}


static double
chance(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;

    return (double) (random_state >> 11) / 9007199254740992.0;
}


static uint64_t
between(double from, double to)
{
    return (uint64_t) ((from + chance() * (to - from)) * SECOND);
}


static void
wrong(user_t *u, const char *format, ...)
{
    va_list  args;

    static const char  *calls[] = { "-", "stream", "POST", "GET", "DELETE",
                                    "gate" };

    if (counters.wrong++ < TOLD) {
        fprintf(stderr, "churn: %.1f s, u%u, %s: ",
                (double) (now - started) / SECOND, u->number, calls[u->call]);
        va_start(args, format);
        vfprintf(stderr, format, args);
        va_end(args);
        fputc('\n', stderr);
    }
}


/* ends the connection of a user, if there is one; by RST or as it should be */

static void
hang_up(user_t *u, int reset)
{
    struct linger  linger = { 1, 0 };

    if (u->fd < 0) {
        return;
    }

    if (u->call == STREAM && !u->told) {
        opening--;
    }

    if (reset) {
        setsockopt(u->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
    }

    close(u->fd);
    u->fd = -1;
    u->call = NOTHING;
}


static void
request(user_t *u)
{
    int      n;
    char     buf[512], event[16];
    ssize_t  sent;

    snprintf(event, sizeof(event), u->event < options.halls ? "hall%d"
                                                            : "brief%d",
             u->event < options.halls ? u->event : u->event - options.halls);

    static const char  *methods[] = { "", "GET", "POST", "GET", "DELETE",
                                      "GET" };
    static const char  *paths[] = { "", "stream", "token", "token", "token",
                                    "shop" };

    n = snprintf(buf, sizeof(buf), "%s /%s/%s?user=u%u%s HTTP/1.1\r\n"
                 "Host: localhost\r\nAccept: %s\r\n%s%s%s%s\r\n",
                 methods[u->call], paths[u->call], event, u->number,
                 u->call == VISIT && u->hits == 1 ? "&say=done" : "",
                 u->call == STREAM ? "text/event-stream" : "application/json",
                 u->call == STREAM ? "" : "Connection: close\r\n",
                 u->call == VISIT && u->token[0]
                     ? "X-Waiting-Queue-Token: " : "",
                 u->call == VISIT ? u->token : "",
                 u->call == VISIT && u->token[0] ? "\r\n" : "");

    sent = send(u->fd, buf, (size_t) n, MSG_NOSIGNAL);

    if (sent < 0 && (errno == EAGAIN || errno == ENOTCONN)) {
        return;
    }

    /* what is not sent is seen by the end of the connection */
    u->connected = 1;
}


static void
call(user_t *u, call_e what)
{
    int                  one = 1;
    struct epoll_event   event;
    struct sockaddr_in   source;

    u->call = what;
    u->part = HEAD;
    u->len = 0;
    u->left = 0;
    u->connected = 0;
    u->told = 0;
    u->farewell = 0;
    u->name[0] = '\0';
    u->sent = now;

    u->fd = socket(AF_INET, SOCK_STREAM|SOCK_NONBLOCK|SOCK_CLOEXEC, 0);

    if (u->fd < 0) {
        die("socket");
    }

    memset(&source, 0, sizeof(source));
    source.sin_family = AF_INET;
    source.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
    setsockopt(u->fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof(one));

    if (bind(u->fd, (struct sockaddr *) &source, sizeof(source)) < 0) {
        die("bind");
    }

    if (connect(u->fd, (struct sockaddr *) &server, sizeof(server)) < 0
        && errno != EINPROGRESS)
    {
        die("connect");
    }

    if (what == STREAM) {
        opening++;
        counters.opened++;
    }

    event.events = EPOLLIN|EPOLLOUT|EPOLLRDHUP|EPOLLET;
    event.data.u32 = (uint32_t) (u - users);

    if (epoll_ctl(epoll, EPOLL_CTL_ADD, u->fd, &event) < 0) {
        die("epoll_ctl");
    }

    request(u);
}


/* the user is about something else from now on */

static void
turn(user_t *u, step_e step, uint64_t due)
{
    int  was, is;

    was = u->step == LISTENING || u->step == AWAY;
    is = step == LISTENING || step == AWAY;
    streaming += is - was;
    polling += (step == POLLING) - (u->step == POLLING);

    u->step = (uint8_t) step;
    u->due = due;
}


static void
user_free(user_t *u)
{
    hang_up(u, 1);
    turn(u, FREE, 0);
    u->next = free_users;
    free_users = (uint32_t) (u - users);
}


static void
user_come(int streams)
{
    user_t  *u;

    if (free_users == nusers) {
        return;
    }

    u = &users[free_users];
    free_users = u->next;

    memset(u, 0, offsetof(user_t, in));
    u->fd = -1;
    u->number = (uint32_t) ++serial;
    u->retry = 3000;
    u->end = now + (uint64_t) (-log(1 - chance()) * options.life * SECOND);
    u->event = (uint8_t) (serial % (uint64_t) options.halls);

    /* not the crowd of the beginning */

    if (options.briefs && chance() < 0.12
        && serial > (uint64_t) (options.streams + options.polls))
    {
        u->event = (uint8_t) (options.halls + (now - started) / BRIEF_US
                                              % (uint64_t) options.briefs);
        u->end = now + (u->end - now) / 6;
    }

    counters.users++;

    if (streams) {
        turn(u, LISTENING, 0);
        call(u, STREAM);

    } else {
        turn(u, POLLING, 0);
        counters.joins++;
        call(u, JOIN);
    }
}


static void
enter(user_t *u)
{
    counters.promoted++;
    u->position = 0;
    u->again = 0;
    u->hits = (uint8_t) (1 + chance() * 4);
    turn(u, VISITING, now + between(0, 0.5));
}


/* what the user does when its time comes */

static void
act(user_t *u)
{
    if (u->call && !u->told && now - u->sent > ANSWER_US) {
        wrong(u, "no answer");
        user_free(u);
        return;
    }

    switch (u->step) {

    case LISTENING:
        if (!u->told || now < u->end) {
            break;
        }

        /* the patience is over, or the train has entered a tunnel */

        if (chance() < 0.35) {
            hang_up(u, chance() < 0.5);
            counters.returns++;
            u->returned = 1;
            u->end = now + between(10, options.life);
            turn(u, AWAY, now + between(0, 5));

        } else if (chance() < 0.3) {
            hang_up(u, 0);
            turn(u, QUITTING, 0);

        } else {
            hang_up(u, chance() < 0.5);
            counters.vanished++;
            user_free(u);
        }

        break;

    case AWAY:
        if (now >= u->due && opening < INFLIGHT) {
            turn(u, LISTENING, 0);
            call(u, STREAM);
        }

        break;

    case POLLING:
        if (u->call || now < u->due) {
            break;
        }

        if (now >= u->end && u->position) {
            if (chance() < 0.5) {
                turn(u, QUITTING, 0);

            } else {
                counters.vanished++;
                user_free(u);
            }

            break;
        }

        counters.polls++;
        call(u, u->number % 2 || u->position == 0 ? JOIN : POLL);
        break;

    case VISITING:
        if (u->call || now < u->due) {
            break;
        }

        /* the last one: done, or DELETE, or not a word */

        if (u->hits == 1 && !u->again && chance() < 0.15) {
            if (chance() < 0.5) {
                turn(u, QUITTING, 0);

            } else {
                counters.vanished++;
                user_free(u);
            }

            break;
        }

        call(u, VISIT);
        break;

    case QUITTING:
        if (!u->call && now >= u->due) {
            counters.quits++;
            call(u, QUIT);
        }

        break;
    }
}


static uint32_t
number_after(const char *text, const char *name)
{
    text = strstr(text, name);

    return text ? (uint32_t) strtoul(text + strlen(name), NULL, 10) : 0;
}


static void
place(user_t *u, const char *text)
{
    uint32_t  position;

    position = number_after(text, "\"waitingPosition\":");

    if (position == 0) {
        wrong(u, "no position: %s", text);

    } else if (u->position && position > u->position) {
        wrong(u, "was at %u, is told: %s", u->position, text);
    }

    u->position = position;
}


static void
keep_token(user_t *u, const char *text)
{
    text = strstr(text, "\"token\":\"");

    if (text == NULL || strlen(text) < 9 + 40) {
        wrong(u, "no token");
        return;
    }

    memcpy(u->token, text + 9, 40);
    u->token[40] = '\0';
}


/* an event of the stream: 0 if it goes on */

static int
on_event(user_t *u, const char *data)
{
    if (!u->told) {
        u->told = 1;
        opening--;
        u->again = 0;
    }

    /* a worker that is about to leave may say nothing but that */

    if (strcmp(u->name, "reconnect") != 0) {

        if (u->lost && !u->returned && now - u->lost > longest_gap) {
            longest_gap = now - u->lost;
        }

        u->lost = 0;
        u->returned = 0;
    }

    if (strcmp(u->name, "position") == 0 && u->step == LISTENING) {
        counters.positions++;
        place(u, data);

    } else if (strcmp(u->name, "promoted") == 0 && u->step == LISTENING) {
        keep_token(u, data);

        if (chance() < 0.04) {
            counters.promoted++;
            turn(u, SLEEPING, 0);
            return 0;
        }

        hang_up(u, chance() < 0.5);
        enter(u);
        return 1;

    } else if (strcmp(u->name, "reconnect") == 0) {
        counters.reconnects++;
        u->farewell = 1;

    } else if (strcmp(u->name, "expired") == 0 && u->step == SLEEPING) {
        counters.lapsed++;
        user_free(u);
        return 1;

    } else {
        wrong(u, "event %s: %s", u->name, data);
        user_free(u);
        return 1;
    }

    return 0;
}


/* a line of the stream */

static int
on_line(user_t *u)
{
    char  *s = u->in;

    u->in[u->len] = '\0';

    if (u->len && u->in[u->len - 1] == '\r') {
        u->in[u->len - 1] = '\0';
    }

    u->len = 0;

    if (strncmp(s, "retry: ", 7) == 0) {
        u->retry = (uint32_t) atoi(s + 7);

    } else if (strncmp(s, "event: ", 7) == 0) {
        snprintf(u->name, sizeof(u->name), "%s", s + 7);

    } else if (strncmp(s, "data: ", 6) == 0) {
        return on_event(u, s + 6);

    } else if (*s && *s != ':' && strncmp(s, "id: ", 4) != 0) {
        wrong(u, "line %s", s);
    }

    return 0;
}


/* bytes of a stream: 1 if it is over, and dealt with */

static int
on_stream(user_t *u, const char *p, size_t n)
{
    char  ch;

    for (/* void */; n; p++, n--) {
        ch = *p;

        switch (u->part) {

        case SIZE:
            if (ch == '\n') {
                u->part = u->left ? DATA : LAST;

            } else if (ch != '\r') {
                u->left = u->left * 16
                          + (uint64_t) (ch <= '9' ? ch - '0'
                                                  : (ch | 32) - 'a' + 10);
            }

            break;

        case DATA:
            if (--u->left == 0) {
                u->part = AFTER_DATA;
            }

            if (ch != '\n') {
                if (u->len < KEPT - 1) {
                    u->in[u->len++] = ch;
                }

            } else if (on_line(u)) {
                return 1;
            }

            break;

        case AFTER_DATA:
            if (ch == '\n') {
                u->part = SIZE;
            }

            break;
        }
    }

    return 0;
}


/* an answer is here, whole; in[] is its text, body what follows the head */

static void
on_answer(user_t *u, int status, const char *body)
{
    uint8_t      again;
    call_e       what = u->call;
    const char  *after;

    after = strcasestr(u->in, "\nRetry-After: ");

    if (status == 503 && after && strstr(body, "\"redis_unavailable\"")) {
        /* a worker that is about to leave */
        counters.refused++;
        hang_up(u, 1);
        u->again = 1;
        turn(u, what == STREAM ? AWAY : u->step,
             now + (uint64_t) atoi(after + 14) * SECOND + between(0, 1));
        return;
    }

    again = u->again;
    u->again = 0;

    if ((what == JOIN && status == 202) || (what == POLL && status == 200)) {

        if (strstr(body, "\"status\":\"waiting\"")) {
            place(u, body);
            hang_up(u, 1);
            turn(u, POLLING, now + 1000 * (uint64_t)
                             number_after(body, "\"pollAfterMs\":"));
            return;
        }

        if (what == POLL && strstr(body, "\"status\":\"ready\"")) {
            u->position = 0;
            hang_up(u, 1);
            turn(u, POLLING, now);
            return;
        }

    } else if (what == JOIN && status == 200
               && strstr(body, "\"status\":\"entered\""))
    {
        keep_token(u, body);
        hang_up(u, 1);
        enter(u);
        return;

    } else if (what == QUIT && (status == 204 || (status == 404 && again))) {
        user_free(u);
        return;

    } else if (what == VISIT && status == 200) {
        counters.visits++;

        if (!u->inside) {
            u->inside = 1;
            counters.admitted++;
        }

        hang_up(u, 1);

        if (--u->hits == 0) {
            counters.done++;
            user_free(u);

        } else {
            /* the lease is found by the user, too */
            u->token[0] = '\0';
            u->due = now + between(0.5, 2.5);
        }

        return;
    }

    wrong(u, "%d %s", status, body);
    user_free(u);
}


/* how many the server has told to come back in the same second, at most */

static void
expect(uint64_t due)
{
    uint64_t  second = due / SECOND;

    static struct {
        uint64_t  second;
        uint64_t  n;
    } expected[64];

    if (expected[second % 64].second != second) {
        expected[second % 64].second = second;
        expected[second % 64].n = 0;
    }

    if (++expected[second % 64].n > busiest) {
        busiest = expected[second % 64].n;
    }
}


/* the server has ended the connection */

static void
on_end(user_t *u)
{
    call_e  what = u->call;

    if (what == STREAM && u->told) {

        if (u->part != LAST || !u->farewell) {
            wrong(u, "the stream has ended %s, after %s",
                  u->part == LAST ? "without a word" : "in the middle",
                  u->name);
        }

        hang_up(u, 1);

        if (u->step == SLEEPING) {
            user_free(u);
            return;
        }

        u->lost = u->lost ? u->lost : now;
        turn(u, AWAY, now + 1000 * (uint64_t) u->retry);
        expect(u->due);
        return;
    }

    if (u->len) {
        wrong(u, "half an answer: %.*s", (int) u->len, u->in);
    }

    /* when it reloads nginx closes connections on which nothing has come yet */

    counters.unanswered++;
    hang_up(u, 1);
    u->again = 1;
    turn(u, what == STREAM ? AWAY : u->step, now + between(0.05, 0.2));
}


/* bytes of an answer: 1 if that was all, and is dealt with */

static int
on_bytes(user_t *u, const char *p, size_t n)
{
    int      status;
    char    *body, *length;
    size_t   k, rest;

    if (u->part != HEAD) {
        return on_stream(u, p, n);
    }

    k = n < (size_t) (KEPT - 1 - u->len) ? n : (size_t) (KEPT - 1 - u->len);
    memcpy(u->in + u->len, p, k);
    u->len = (uint16_t) (u->len + k);
    u->in[u->len] = '\0';

    body = strstr(u->in, "\r\n\r\n");

    if (body == NULL) {
        return 0;
    }

    body += 4;
    status = atoi(u->in + 9);

    if (u->call == STREAM && status == 200) {

        if (!strcasestr(u->in, "\nContent-Type: text/event-stream")
            || !strcasestr(u->in, "\nTransfer-Encoding: chunked"))
        {
            wrong(u, "%s", u->in);
        }

        rest = (size_t) (u->in + u->len - body);
        u->len = 0;
        u->part = SIZE;
        return on_stream(u, p + n - rest, rest);
    }

    length = strcasestr(u->in, "\nContent-Length: ");

    if (status != 204
        && (length == NULL
            || (size_t) (u->in + u->len - body) < (size_t) atoi(length + 17)))
    {
        return 0;
    }

    on_answer(u, status, body);
    return 1;
}


static void
receive(user_t *u)
{
    int      fd = u->fd;
    ssize_t  n;

    static char  buf[16384];

    for ( ;; ) {
        n = recv(fd, buf, sizeof(buf), 0);

        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            return;
        }

        if (n <= 0) {
            on_end(u);
            return;
        }

        if (on_bytes(u, buf, (size_t) n)) {
            return;
        }
    }
}


static void
report(void)
{
    uint32_t  i;
    uint64_t  open, gap, inside;

    open = 0;
    inside = 0;
    gap = longest_gap;

    for (i = 0; i < nusers; i++) {
        open += users[i].call == STREAM && users[i].told;
        inside += users[i].step == VISITING || users[i].step == SLEEPING;

        /* who is not back yet counts too */
        if (users[i].lost && !users[i].returned
            && now - users[i].lost > gap && users[i].step != FREE)
        {
            gap = now - users[i].lost;
        }
    }

    printf("{\"seconds\":%.3f,\"streams\":%llu,\"inLine\":%d,\"inside\":%llu,"
           "\"gapMs\":%llu,\"busiestSecond\":%llu",
           (double) (now - started) / SECOND, (unsigned long long) open,
           streaming + polling, (unsigned long long) inside,
           (unsigned long long) gap / 1000, (unsigned long long) busiest);

#define X(name)  printf(",\"%s\":%llu", #name,                                \
                        (unsigned long long) counters.name);
    COUNTERS(X)
#undef X

    printf("}\n");
    fflush(stdout);
}


static void
parse(int argc, char **argv)
{
    int  option;

    static const struct option  names[] = {
        { "port", 1, NULL, 'p' },
        { "streams", 1, NULL, 's' },
        { "polls", 1, NULL, 'a' },
        { "halls", 1, NULL, 'h' },
        { "briefs", 1, NULL, 'b' },
        { "every", 1, NULL, 'e' },
        { "life", 1, NULL, 'l' },
        { "seed", 1, NULL, 'r' },
        { NULL, 0, NULL, 0 }
    };

    static const char  usage[] =
        "usage: churn [options]\n"
        "  -p, --port PORT   of 127.0.0.1 (8080)\n"
        "  -s, --streams N   users in line by a stream (5000)\n"
        "  -a, --polls N     users in line by the token API (600)\n"
        "  -h, --halls N     events that go on all the time, hall0 ... (2)\n"
        "  -b, --briefs N    events in turn, brief0 ... (8)\n"
        "  -e, --every S     between two reports (5)\n"
        "  -l, --life S      how long one waits, on average (200)\n"
        "  -r, --seed N      of the random numbers (1)\n";

    while ((option = getopt_long(argc, argv, "p:s:a:h:b:e:l:r:", names, NULL))
           != -1)
    {
        switch (option) {

        case 'p':
            options.port = atoi(optarg);
            break;

        case 's':
            options.streams = atoi(optarg);
            break;

        case 'a':
            options.polls = atoi(optarg);
            break;

        case 'h':
            options.halls = atoi(optarg);
            break;

        case 'b':
            options.briefs = atoi(optarg);
            break;

        case 'e':
            options.every = atof(optarg);
            break;

        case 'l':
            options.life = atof(optarg);
            break;

        case 'r':
            options.seed = (unsigned) atoi(optarg);
            break;

        default:
            fputs(usage, stderr);
            exit(2);
        }
    }

    server.sin_family = AF_INET;
    server.sin_port = htons((uint16_t) options.port);
    server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
}


int
main(int argc, char **argv)
{
    int                  i, n;
    user_t              *u;
    uint32_t             k;
    uint64_t             acted, reported;
    struct rlimit        limit;
    struct sigaction     action;
    struct epoll_event   events[BATCH];

    parse(argc, argv);

    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);

    memset(&action, 0, sizeof(action));
    action.sa_handler = on_signal;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);

    /* those who are inside are not counted as streams or polls */
    nusers = (uint32_t) (options.streams + options.polls) * 2 + 1000;
    users = calloc(nusers, sizeof(user_t));
    epoll = epoll_create1(EPOLL_CLOEXEC);

    if (users == NULL || epoll < 0) {
        die("out of resources");
    }

    for (k = 0; k < nusers; k++) {
        users[k].fd = -1;
        users[k].next = k + 1;
    }

    random_state = 88172645463325252ull ^ ((uint64_t) options.seed << 20);
    started = reported = now = clock_us();
    acted = 0;

    while (!stopped) {
        now = clock_us();

        if (now - acted >= 10000) {
            acted = now;

            for (k = 0; k < nusers; k++) {
                if (users[k].step != FREE) {
                    act(&users[k]);
                }
            }

            while (streaming < options.streams && opening < INFLIGHT
                   && free_users != nusers)
            {
                user_come(1);
            }

            for (i = 0; i < 20 && polling < options.polls
                        && free_users != nusers; i++)
            {
                user_come(0);
            }
        }

        if ((double) (now - reported) >= options.every * SECOND) {
            reported += (uint64_t) (options.every * SECOND);
            report();
        }

        n = epoll_wait(epoll, events, BATCH, 10);
        now = clock_us();

        for (i = 0; i < n; i++) {
            u = &users[events[i].data.u32];

            /* a connection that was closed meanwhile has no more events, but
             * those of this batch, which the next one does not mind */

            if (u->fd >= 0 && !u->connected) {
                request(u);
            }

            if (u->fd >= 0 && (events[i].events & ~(uint32_t) EPOLLOUT)) {
                receive(u);
            }
        }
    }

    for (k = 0; k < nusers; k++) {
        hang_up(&users[k], 1);
    }

    report();

    return 0;
}
