
/* core: what a message of ENTRY or DISPATCH says */


#include <string.h>

#include "wq_id.h"
#include "wq_notice.h"
#include "wq_state.h"


static wq_reply_t wq_notice_field(wq_reply_t fields, const char *name);
static wq_notice_e wq_notice_parse(const wq_str_t *word);
static wq_rc_t wq_notice_id(wq_reply_t fields, const char *name, wq_str_t *id);
static wq_rc_t wq_notice_number(wq_reply_t fields, const char *name,
    int64_t *n);


#define WQ_X(constant, word)  word,
static const char *const  wq_notice_words[] = {
    WQ_NOTICES(WQ_X)
};
#undef WQ_X


static const wq_field_t  wq_notice_number_field =
    { "number", WQ_FIELD_INTEGER, 0, 0, INT64_MAX, 0 };


const char *
wq_notice_word(wq_notice_e type)
{
    return (unsigned) type < WQ_NOTICE_MAX ? wq_notice_words[type] : "";
}


wq_rc_t
wq_notice_decode(wq_reply_t fields, wq_notice_t *notice)
{
    wq_str_t  word;

    word = wq_reply_string(wq_notice_field(fields, "type"));
    notice->type = wq_notice_parse(&word);

    if (notice->type == WQ_NOTICE_MAX) {
        return WQ_BAD_TYPE;
    }

    if (wq_notice_id(fields, "eventId", &notice->event) != WQ_OK
        || wq_notice_id(fields, "userId", &notice->user) != WQ_OK
        || wq_notice_id(fields, "instanceId", &notice->instance) != WQ_OK
        || wq_notice_number(fields, "idx", &notice->idx) != WQ_OK
        || wq_notice_number(fields, "expiresAt", &notice->expires) != WQ_OK
        || wq_notice_number(fields, "serial", &notice->serial) != WQ_OK)
    {
        return WQ_BAD_RANGE;
    }

    notice->token = wq_reply_string(wq_notice_field(fields, "token"));

    if (notice->token.len == 0) {
        return notice->type == WQ_NOTICE_PROMOTED ? WQ_MISSING : WQ_OK;
    }

    return notice->token.len == WQ_TOKEN_LEN
           && wq_id_check(notice->token.data, notice->token.len) == WQ_OK
           ? WQ_OK : WQ_BAD_RANGE;
}


/* the value of the first field of this name; nil if there is none */

static wq_reply_t
wq_notice_field(wq_reply_t fields, const char *name)
{
    size_t    i, n, len;
    wq_str_t  s;

    len = strlen(name);
    n = wq_reply_elements(fields);

    for (i = 0; i + 1 < n; i += 2) {
        s = wq_reply_string(wq_reply_element(fields, i));

        if (s.len == len && memcmp(s.data, name, len) == 0) {
            break;
        }
    }

    return wq_reply_element(fields, i + 1);
}


static wq_notice_e
wq_notice_parse(const wq_str_t *word)
{
    unsigned  i;

    for (i = 0; i < WQ_NOTICE_MAX; i++) {
        if (word->len == strlen(wq_notice_words[i])
            && memcmp(word->data, wq_notice_words[i], word->len) == 0)
        {
            break;
        }
    }

    return (wq_notice_e) i;
}


static wq_rc_t
wq_notice_id(wq_reply_t fields, const char *name, wq_str_t *id)
{
    *id = wq_reply_string(wq_notice_field(fields, name));

    return wq_id_check(id->data, id->len);
}


static wq_rc_t
wq_notice_number(wq_reply_t fields, const char *name, int64_t *n)
{
    return wq_reply_decode_value(wq_notice_field(fields, name),
                                 &wq_notice_number_field, n);
}
