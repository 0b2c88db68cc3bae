
/* core: where Redis is, as an operator writes it */


#ifndef WQ_URL_H_INCLUDED_
#define WQ_URL_H_INCLUDED_


#include "wq_core.h"


#define WQ_URL_DEFAULT_PORT  6379

/* Redis' own limit on the number of databases is INT_MAX; this one is sane */
#define WQ_URL_MAX_DB        65535


typedef struct {
    wq_str_t   host;        /* without the brackets of an IPv6 address */
    wq_str_t   path;        /* of the unix socket */
    wq_str_t   user;        /* percent-decoded; len 0: Redis' default user */
    wq_str_t   password;    /* percent-decoded; len 0: no AUTH */
    unsigned   port;
    unsigned   db;

    unsigned   unix_socket:1;
    unsigned   ipv6:1;      /* the host stood in brackets */
    unsigned   has_db:1;
} wq_url_t;


/*
 * Takes apart
 *
 *     redis://[[user]:password@]host[:port][/db]
 *     unix:/absolute/path
 *
 * All strings of *url point into text or into buf; buf is the caller's, has
 * room for len bytes, and must live as long as *url.  Returns NULL, or a
 * static sentence that says what is wrong (never quoting the text: it may hold
 * a password).
 */

const char *wq_url_parse(wq_url_t *url, const u_char *text, size_t len,
    u_char *buf);


#endif /* WQ_URL_H_INCLUDED_ */
