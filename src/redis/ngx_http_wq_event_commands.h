
/*
 * redis: the scripts of one event, one function each.
 *
 * As in ngx_http_wq_commands.h a call builds its arguments and sends one
 * script, and its decode function turns the answer into a struct.  The keys of
 * an event are the same for all of its scripts, so they are built once.
 */


#ifndef NGX_HTTP_WQ_EVENT_COMMANDS_H_INCLUDED_
#define NGX_HTTP_WQ_EVENT_COMMANDS_H_INCLUDED_


#include "ngx_http_wq_commands.h"

#include "wq_state.h"


#define NGX_HTTP_WQ_EVENT_KEYS  18

/* 256 random bits in hexadecimal: what a script makes its tokens of */
#define NGX_HTTP_WQ_SEED_LEN    64

/* a name of the data of an event; a seed, or whatever stands there */
#define NGX_HTTP_WQ_EPOCH_MAX   64


typedef struct {
    ngx_str_t                 event;
    ngx_str_t                 names[NGX_HTTP_WQ_EVENT_KEYS];
    u_char                   *data;     /* of them all; from ngx_alloc() */
} ngx_http_wq_event_keys_t;


/*
 * event must live as long as the keys, which are freed by destroy().  NGX_OK
 * or NGX_ERROR.
 */

ngx_int_t ngx_http_wq_event_keys_create(ngx_http_wq_event_keys_t *keys,
    const wq_keyspace_t *keyspace, const ngx_str_t *event, ngx_log_t *log);
void ngx_http_wq_event_keys_destroy(ngx_http_wq_event_keys_t *keys);


/* lua/lib/figures.lua: what an operator wants to know of an event */

typedef struct {
    int64_t                   waiting;
    int64_t                   active;
    int64_t                   free_slots;   /* negative: owed */
    int64_t                   capacity;
    int64_t                   sold;
    int64_t                   seats;        /* negative: nobody counts them */
    int64_t                   joined;
    int64_t                   direct;       /* let in without waiting */
    int64_t                   promoted;     /* from the line */
    int64_t                   entered;
    int64_t                   left;
    int64_t                   expired;
    int64_t                   done;
    int64_t                   drift;        /* 0, or the books are wrong */
    int64_t                   rate_users;
    int64_t                   rate_ms;      /* 0: there is no rate */
    int64_t                   concurrent;   /* 0: no rate of a throughput */
    int64_t                   halted;
    int64_t                   hold_ms;      /* data were lost, see origin.lua */
    int64_t                   origin;       /* since when these are there */
} ngx_http_wq_figures_t;


/*
 * join.lua: a user comes, or comes back.  restore.lua: a connected user is put
 * back with the old idx after Redis has lost data; status.lua: somebody without
 * a stream asks how things stand.  The answer is the same.
 */

typedef enum {
    NGX_HTTP_WQ_JOIN_STREAM = 0,    /* who is told when it is let in */
    NGX_HTTP_WQ_JOIN_ENTER,         /* who enters at once, if it can */
    NGX_HTTP_WQ_JOIN_VISIT          /* who takes no place in line */
} ngx_http_wq_join_e;


typedef struct {
    ngx_http_wq_join_e        mode;     /* join only */
    ngx_str_t                 user;
    ngx_str_t                 instance; /* len 0: nobody is connected */
    ngx_str_t                 settings; /* "name=value ..." */
    int64_t                   capacity; /* of the service; negative: unknown */
    uint64_t                  highest;  /* idx that the caller knows */

    /* restore only */
    uint64_t                  idx;
    ngx_str_t                 epoch;
    int64_t                   serial;   /* 0: of a connection made now */
    ngx_uint_t                absent;   /* unsigned  absent:1; */
} ngx_http_wq_join_t;


/* statuses of an answer, besides those that a user is told */

#define NGX_HTTP_WQ_JOIN_UNKNOWN   WQ_STATUS_MAX        /* no capacity known */
#define NGX_HTTP_WQ_JOIN_REPLACED  (WQ_STATUS_MAX + 1)  /* restore only */


typedef struct {
    ngx_uint_t                status;
    int64_t                   idx;      /* negative: not in line */
    int64_t                   rank;     /* negative: not in line */
    int64_t                   total;
    int64_t                   promoted;
    int64_t                   gone;
    int64_t                   joined;
    wq_str_t                  token;    /* len 0: none */
    int64_t                   expires;  /* ms since 1970; negative: none */
    wq_str_t                  previous;
    int64_t                   changed;  /* settings differ from the last ones */
    wq_str_t                  epoch;
    int64_t                   serial;   /* of this connection of the user */
    int64_t                   waited;   /* ms, by who is in */
    int64_t                   rate_users;   /* 0, if rate_ms is */
    int64_t                   rate_ms;      /* 0: there is no rate */
    int64_t                   halted;   /* nobody is let in for now */
    int64_t                   crowded;  /* no slot is free; of who waits */
    int64_t                   opens_ms; /* see ngx_http_wq_promote_reply_t */
    int64_t                   since;    /* ms: of the lease */
    int64_t                   hold_ms;  /* of who knows more than Redis, see
                                           lua/lib/origin.lua */

    wq_str_t                  word;     /* status as it came */
} ngx_http_wq_join_reply_t;

ngx_int_t ngx_http_wq_call_join(ngx_http_wq_link_t *link,
    const ngx_http_wq_event_keys_t *keys, const ngx_http_wq_join_t *join,
    const ngx_http_wq_reply_to_t *to);
ngx_int_t ngx_http_wq_call_restore(ngx_http_wq_link_t *link,
    const ngx_http_wq_event_keys_t *keys, const ngx_http_wq_join_t *join,
    const ngx_http_wq_reply_to_t *to);
ngx_int_t ngx_http_wq_call_status(ngx_http_wq_link_t *link,
    const ngx_http_wq_event_keys_t *keys, const ngx_str_t *user,
    const ngx_str_t *settings, const ngx_http_wq_reply_to_t *to);
ngx_int_t ngx_http_wq_decode_join(ngx_http_wq_link_t *link,
    ngx_http_wq_result_t *result, ngx_http_wq_join_reply_t *reply);


/*
 * leave.lua: a user leaves the line, if instance still holds the place, and it
 * is the one of this idx; 0 for any.
 */

typedef struct {
    int64_t                   left;
} ngx_http_wq_leave_reply_t;

ngx_int_t ngx_http_wq_call_leave(ngx_http_wq_link_t *link,
    const ngx_http_wq_event_keys_t *keys, const ngx_str_t *user,
    const ngx_str_t *instance, uint64_t idx, const ngx_http_wq_reply_to_t *to);
ngx_int_t ngx_http_wq_decode_leave(ngx_http_wq_link_t *link,
    ngx_http_wq_result_t *result, ngx_http_wq_leave_reply_t *reply);


/* quit.lua: a user says that he goes, out of the line or with the lease */

typedef struct {
    int64_t                   had;      /* a place or a lease */
    int64_t                   promoted;
    int64_t                   opens_ms; /* see ngx_http_wq_promote_reply_t */
    int64_t                   hold_ms;  /* it may have been lost */
} ngx_http_wq_quit_reply_t;

ngx_int_t ngx_http_wq_call_quit(ngx_http_wq_link_t *link,
    const ngx_http_wq_event_keys_t *keys, const ngx_str_t *user,
    const ngx_http_wq_reply_to_t *to);
ngx_int_t ngx_http_wq_decode_quit(ngx_http_wq_link_t *link,
    ngx_http_wq_result_t *result, ngx_http_wq_quit_reply_t *reply);


/*
 * release.lua: a lease ends, if it has this token and instance still holds it;
 * NULL for any.  The slot goes to the next in line, unless the seat is sold.
 */

typedef enum {
    NGX_HTTP_WQ_RELEASE_LEFT = 0,   /* nobody is connected any more */
    NGX_HTTP_WQ_RELEASE_UNTOLD,     /* nor was, and it was not used either */
    NGX_HTTP_WQ_RELEASE_DONE,
    NGX_HTTP_WQ_RELEASE_SOLD
} ngx_http_wq_release_e;

typedef struct {
    int64_t                   released;
    int64_t                   promoted;
    int64_t                   opens_ms; /* see ngx_http_wq_promote_reply_t */
    wq_reply_t                array;
    ngx_http_wq_figures_t     figures;  /* what array says */
} ngx_http_wq_release_reply_t;

ngx_int_t ngx_http_wq_call_release(ngx_http_wq_link_t *link,
    const ngx_http_wq_event_keys_t *keys, const ngx_str_t *user,
    ngx_http_wq_release_e why, const ngx_str_t *instance,
    const ngx_str_t *token, const ngx_http_wq_reply_to_t *to);
ngx_int_t ngx_http_wq_decode_release(ngx_http_wq_link_t *link,
    ngx_http_wq_result_t *result, ngx_http_wq_release_reply_t *reply);


/* touch.lua: a token is used, by whom it was given to if it is good */

typedef struct {
    int64_t                   good;
    int64_t                   expires;  /* ms since 1970 */
    int64_t                   waited;   /* ms */
    int64_t                   hold_ms;  /* where it is not good */
    int64_t                   idx;
    int64_t                   since;    /* ms since 1970 */
} ngx_http_wq_touch_reply_t;

ngx_int_t ngx_http_wq_call_touch(ngx_http_wq_link_t *link,
    const ngx_http_wq_event_keys_t *keys, const ngx_str_t *user,
    const ngx_str_t *token, const ngx_http_wq_reply_to_t *to);
ngx_int_t ngx_http_wq_decode_touch(ngx_http_wq_link_t *link,
    ngx_http_wq_result_t *result, ngx_http_wq_touch_reply_t *reply);


/*
 * restore_lease.lua: a lease that the node knows is put back, after Redis has
 * lost data; it answers as touch.lua does.  restore_event.lua: what the node
 * knows of an event.
 */

typedef struct {
    ngx_str_t                 user;
    ngx_str_t                 token;
    int64_t                   idx;
    int64_t                   expires;  /* ms since 1970 */
    int64_t                   since;    /* the same */
    int64_t                   waited;   /* ms */
    ngx_uint_t                entered;  /* unsigned  entered:1; */
} ngx_http_wq_lease_t;

typedef struct {
    int64_t                   restored;
} ngx_http_wq_restore_event_reply_t;

typedef struct {
    ngx_http_wq_touch_reply_t touch;
    int64_t                   restored; /* it was missing */
} ngx_http_wq_restore_lease_reply_t;

ngx_int_t ngx_http_wq_call_restore_lease(ngx_http_wq_link_t *link,
    const ngx_http_wq_event_keys_t *keys, const ngx_http_wq_lease_t *lease,
    const ngx_http_wq_reply_to_t *to);
ngx_int_t ngx_http_wq_decode_restore_lease(ngx_http_wq_link_t *link,
    ngx_http_wq_result_t *result, ngx_http_wq_restore_lease_reply_t *reply);
ngx_int_t ngx_http_wq_call_restore_event(ngx_http_wq_link_t *link,
    const ngx_http_wq_event_keys_t *keys,
    const ngx_http_wq_figures_t *figures, const ngx_http_wq_reply_to_t *to);
ngx_int_t ngx_http_wq_decode_restore_event(ngx_http_wq_link_t *link,
    ngx_http_wq_result_t *result, ngx_http_wq_restore_event_reply_t *reply);


/* promote_all_waiting_for_event.lua */

#define NGX_HTTP_WQ_PROMOTE_BATCH  1000

typedef struct {
    int64_t                   promoted;
    int64_t                   expired;
    int64_t                   more;     /* to be called again at once */
    int64_t                   opens_ms; /* to be called again then, if not 0 */
    wq_reply_t                array;

    ngx_http_wq_figures_t     figures;  /* what array says */
} ngx_http_wq_promote_reply_t;

ngx_int_t ngx_http_wq_call_promote(ngx_http_wq_link_t *link,
    const ngx_http_wq_event_keys_t *keys, const ngx_http_wq_reply_to_t *to);
ngx_int_t ngx_http_wq_decode_promote(ngx_http_wq_link_t *link,
    ngx_http_wq_result_t *result, ngx_http_wq_promote_reply_t *reply);


/* positions.lua: one tick's news */

#define NGX_HTTP_WQ_POSITIONS_BATCH  1000

typedef enum {
    NGX_HTTP_WQ_EVENT_OPEN = 0,
    NGX_HTTP_WQ_EVENT_CLOSED,
    NGX_HTTP_WQ_EVENT_SOLD_OUT
} ngx_http_wq_event_state_e;

typedef struct {
    int64_t                   reached;  /* number of the last entry */
    wq_str_t                  epoch;
    int64_t                   resync;   /* the entries do not follow on */
    int64_t                   more;     /* entries */
    wq_reply_t                entries;
    wq_str_t                  word;
    wq_reply_t                array;

    ngx_http_wq_event_state_e state;    /* what word says */
    ngx_http_wq_figures_t     figures;  /* what array says */
} ngx_http_wq_positions_reply_t;

ngx_int_t ngx_http_wq_call_positions(ngx_http_wq_link_t *link,
    const ngx_http_wq_event_keys_t *keys, uint64_t known,
    const ngx_http_wq_reply_to_t *to);
ngx_int_t ngx_http_wq_decode_positions(ngx_http_wq_link_t *link,
    ngx_http_wq_result_t *result, ngx_http_wq_positions_reply_t *reply);

/* the i-th entry: NGX_OK, or NGX_ERROR for what is none */

ngx_int_t ngx_http_wq_decode_positions_entry(
    const ngx_http_wq_positions_reply_t *reply, ngx_uint_t i, int64_t *entry);


/* ranks.lua: where all of these stand, at one moment */

#define NGX_HTTP_WQ_RANKS_BATCH  200

typedef struct {
    int64_t                   total;
    int64_t                   promoted;
    int64_t                   gone;
    int64_t                   joined;
    wq_str_t                  epoch;
    wq_reply_t                ranks;
} ngx_http_wq_ranks_reply_t;

ngx_int_t ngx_http_wq_call_ranks(ngx_http_wq_link_t *link,
    const ngx_http_wq_event_keys_t *keys, const ngx_str_t *instance,
    const ngx_str_t *users, ngx_uint_t n, const ngx_http_wq_reply_to_t *to);
ngx_int_t ngx_http_wq_decode_ranks(ngx_http_wq_link_t *link,
    ngx_http_wq_result_t *result, ngx_http_wq_ranks_reply_t *reply);

/* of the i-th user; negative: not in line */

ngx_int_t ngx_http_wq_decode_rank(const ngx_http_wq_ranks_reply_t *reply,
    ngx_uint_t i, int64_t *rank);


/*
 * reap.lua: what a dead instance held.  cursor is empty at first, then what the
 * last answer said, until that is empty.
 */

#define NGX_HTTP_WQ_REAP_BATCH   1000
#define NGX_HTTP_WQ_CURSOR_MAX   64

typedef struct {
    wq_str_t                  cursor;
    int64_t                   left;
    int64_t                   released;
    int64_t                   wait_ms;  /* grace still to pass */
} ngx_http_wq_reap_reply_t;

ngx_int_t ngx_http_wq_call_reap(ngx_http_wq_link_t *link,
    const ngx_http_wq_event_keys_t *keys, const ngx_str_t *instance,
    const ngx_str_t *cursor, int64_t heartbeat,
    const ngx_http_wq_reply_to_t *to);
ngx_int_t ngx_http_wq_decode_reap(ngx_http_wq_link_t *link,
    ngx_http_wq_result_t *result, ngx_http_wq_reap_reply_t *reply);


#endif /* NGX_HTTP_WQ_EVENT_COMMANDS_H_INCLUDED_ */
