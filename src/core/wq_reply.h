
/*
 * core: a script's reply, checked against what the caller expects.
 *
 * A script answers with a flat array.  The caller describes it by a table of
 * fields and gets a filled struct or a named refusal; it never looks into a
 * reply by hand, so nothing that Redis can send (wrong type, nil, too short,
 * nested, huge) reaches the logic.
 *
 * The reply itself is seen through a reader, so that this file needs no
 * hiredis and the tests can build any tree they like.
 */


#ifndef WQ_REPLY_H_INCLUDED_
#define WQ_REPLY_H_INCLUDED_


#include "wq_core.h"


typedef enum {
    WQ_REPLY_NIL = 0,
    WQ_REPLY_INTEGER,
    WQ_REPLY_STRING,        /* bulk and status (simple) strings */
    WQ_REPLY_ARRAY,
    WQ_REPLY_ERROR,
    WQ_REPLY_UNKNOWN        /* RESP3 types and whatever may come */
} wq_reply_type_e;


typedef struct {
    wq_reply_type_e   (*type)(const void *node);
    int64_t           (*integer)(const void *node);

    /* for WQ_REPLY_STRING and WQ_REPLY_ERROR */
    wq_str_t          (*string)(const void *node);

    /* for WQ_REPLY_ARRAY; element() may return NULL, which reads as nil */
    size_t            (*elements)(const void *node);
    const void       *(*element)(const void *node, size_t i);
} wq_reply_reader_t;


typedef struct {
    const wq_reply_reader_t  *reader;
    const void               *node;     /* NULL reads as nil */
} wq_reply_t;


typedef enum {
    /* int64_t; a decimal string is taken too, because HGET gives strings.
     * min and max bound the value */
    WQ_FIELD_INTEGER = 0,

    /* wq_str_t, borrowed from the reply.  min and max bound the length */
    WQ_FIELD_STRING,

    /* wq_reply_t of an array, to be walked or decoded in turn.  min and max
     * bound the number of elements */
    WQ_FIELD_ARRAY
} wq_field_type_e;


/* what a nil integer field is set to, where nil is allowed */
#define WQ_FIELD_NIL_INTEGER  INT64_MIN


typedef struct {
    const char       *name;         /* for the log */
    wq_field_type_e   type;
    unsigned          nil_allowed;  /* string: {0, NULL}; array: node NULL */
    int64_t           min;
    int64_t           max;
    size_t            offset;       /* in the struct that is filled */
} wq_field_t;


/* nil where there is no such element or reply is not an array */

wq_reply_t wq_reply_element(wq_reply_t reply, size_t i);
wq_reply_type_e wq_reply_type(wq_reply_t reply);
size_t wq_reply_elements(wq_reply_t reply);
wq_str_t wq_reply_string(wq_reply_t reply);


/*
 * Fills out from the first n elements of an array reply; further elements are
 * left unread, so that a script may grow.  Returns WQ_OK, or WQ_BAD_TYPE,
 * WQ_MISSING (too few elements, or nil where it is not allowed), WQ_BAD_RANGE;
 * *bad is then the name of the field, or "reply" where it is no array at all.
 * After an error the content of out is not to be used.
 */

wq_rc_t wq_reply_decode(wq_reply_t reply, const wq_field_t *fields, size_t n,
    void *out, const char **bad);


/* one value, outside an array; name and offset of the field are used alike */

wq_rc_t wq_reply_decode_value(wq_reply_t reply, const wq_field_t *field,
    void *out);


#endif /* WQ_REPLY_H_INCLUDED_ */
