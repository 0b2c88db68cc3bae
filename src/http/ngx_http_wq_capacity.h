
/*
 * http: the capacity of an event, from the event service.
 *
 * An asker is a request whose join Redis has answered with "no capacity known":
 * it waits, with all others of this event, until the service has said one, and
 * then joins again.
 */


#ifndef NGX_HTTP_WQ_CAPACITY_H_INCLUDED_
#define NGX_HTTP_WQ_CAPACITY_H_INCLUDED_


#include "ngx_http_wq_http.h"


typedef struct ngx_http_wq_asker_s     ngx_http_wq_asker_t;
typedef struct ngx_http_wq_question_s  ngx_http_wq_question_t;


typedef struct {

    /*
     * Joins again; capacity is what the service said, or negative if Redis has
     * been told meanwhile.  NGX_OK; or NGX_ERROR, and the asker, whose request
     * has been answered, may be gone.
     */
    ngx_int_t  (*rejoin)(ngx_http_wq_asker_t *asker, int64_t capacity);

    /* there is none to be had; the asker may be gone when this returns */
    void       (*refuse)(ngx_http_wq_asker_t *asker);
} ngx_http_wq_asker_ops_t;


struct ngx_http_wq_asker_s {
    const ngx_http_wq_asker_ops_t  *ops;
    void                           *data;

    ngx_http_request_t             *request;
    ngx_http_wq_event_t            *event;      /* held by whoever asks */
    ngx_msec_t                      joined;     /* when Redis was asked, last */

    /* of those who wait for a capacity; NULL: this one does not */
    ngx_http_wq_question_t         *question;
    ngx_queue_t                     parked;

    /* the event whose capacity goes to Redis with this one's join; held */
    ngx_http_wq_event_t            *asks_for;
};


/*
 * find() takes an asker, and has it join again or refused later, perhaps before
 * it returns; forget() is for one that goes before; stored() for one whose
 * second join was answered.
 */

void ngx_http_wq_capacity_find(ngx_http_wq_asker_t *asker);
void ngx_http_wq_capacity_forget(ngx_http_wq_asker_t *asker);
void ngx_http_wq_capacity_stored(ngx_http_wq_asker_t *asker);


#endif /* NGX_HTTP_WQ_CAPACITY_H_INCLUDED_ */
