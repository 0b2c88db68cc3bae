
/*
 * http: the capacity of an event, from the event service.
 *
 * `waiting_queue_capacity uri=...`: the first who joins an event of which Redis
 * knows no capacity makes nginx ask, by a subrequest; all others of this node
 * who come meanwhile wait for the same answer.  The subrequest is of the
 * background kind, so that the one whose request carries it can be answered
 * without it; if that one goes, another takes its place.  While the service
 * gives no capacity, all who wait are refused, and nobody asks for a while.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_wq_capacity.h"

#include "wq_capacity.h"


/* how long the service may take, and all who wait for it */
#define NGX_HTTP_WQ_CAPACITY_TIMEOUT  3000

/* between two looks whether another process has got its answer */
#define NGX_HTTP_WQ_CAPACITY_LOOK     20


/*
 * In the pool of the request that asks: outlives the question, which must let
 * go of it before that request can end.
 */

typedef struct {
    ngx_http_wq_question_t  *question;      /* NULL: nobody wants to know */
    ngx_http_request_t      *request;       /* the subrequest */
} ngx_http_wq_asked_t;


struct ngx_http_wq_question_s {
    ngx_http_wq_event_t     *event;         /* held */
    ngx_queue_t              parked;        /* askers */
    ngx_http_wq_timer_t      timer;
    ngx_msec_t               since;
    ngx_msec_t               looked;        /* when Redis did not know */

    ngx_http_wq_asker_t     *asker;
    ngx_http_wq_asked_t     *asked;

    /* what the service has answered */
    uint32_t                 capacity;
    const char              *why;           /* NULL: there is a capacity */

    unsigned                 ours:1;        /* this process is to ask */
    unsigned                 answered:1;    /* the timer tells those parked */
    unsigned                 telling:1;     /* them, and goes on to its end */
};


static ngx_http_wq_question_t *ngx_http_wq_capacity_question(
    ngx_http_wq_event_t *event);
static void ngx_http_wq_capacity_begin(ngx_http_wq_question_t *question);
static void ngx_http_wq_capacity_ask(ngx_http_wq_question_t *question);
static void ngx_http_wq_capacity_unask(ngx_http_wq_question_t *question);
static void ngx_http_wq_capacity_cancel(ngx_http_wq_question_t *question);
static ngx_int_t ngx_http_wq_capacity_subrequest(ngx_http_request_t *r,
    ngx_http_wq_asked_t *asked);
static ngx_int_t ngx_http_wq_capacity_no_headers(ngx_http_request_t *r,
    ngx_http_request_t *sr);
static ngx_int_t ngx_http_wq_capacity_answered(ngx_http_request_t *sr,
    void *data, ngx_int_t rc);
static const char *ngx_http_wq_capacity_read(ngx_http_request_t *sr,
    ngx_int_t rc, uint32_t *capacity);
static void ngx_http_wq_capacity_timer(ngx_event_t *ev);
static void ngx_http_wq_capacity_known(ngx_http_wq_question_t *question,
    int64_t capacity);
static void ngx_http_wq_capacity_fail(ngx_http_wq_question_t *question,
    const char *why);
static void ngx_http_wq_capacity_refuse(ngx_http_wq_question_t *question);
static ngx_http_wq_asker_t *ngx_http_wq_capacity_unpark(
    ngx_http_wq_question_t *question);
static void ngx_http_wq_capacity_end(ngx_http_wq_question_t *question,
    ngx_int_t rc);


void
ngx_http_wq_capacity_find(ngx_http_wq_asker_t *asker)
{
    ngx_http_wq_event_t     *event;
    ngx_http_wq_question_t  *question;

    event = asker->event;
    question = event->capacity;

    if (question) {
        asker->question = question;
        ngx_queue_insert_tail(&question->parked, &asker->parked);
        return;
    }

    question = ngx_http_wq_capacity_question(event);

    if (question == NULL) {
        asker->ops->refuse(asker);
        return;
    }

    question->looked = asker->joined;

    asker->question = question;
    ngx_queue_insert_tail(&question->parked, &asker->parked);

    ngx_http_wq_capacity_begin(question);
}


void
ngx_http_wq_capacity_forget(ngx_http_wq_asker_t *asker)
{
    ngx_http_wq_question_t  *question;

    question = asker->question;

    if (question == NULL) {
        return;
    }

    asker->question = NULL;
    ngx_queue_remove(&asker->parked);

    if (question->asker == asker) {

        /* its subrequest goes with it */

        ngx_http_wq_capacity_unask(question);

        /* not from here: this is the end of a request */

        ngx_http_wq_timer_set(&question->timer, 1);
    }

    if (ngx_queue_empty(&question->parked) && !question->telling) {
        ngx_http_wq_capacity_end(question,
                                 question->why ? NGX_ERROR : NGX_DECLINED);
    }
}


static ngx_http_wq_question_t *
ngx_http_wq_capacity_question(ngx_http_wq_event_t *event)
{
    ngx_http_wq_question_t  *question;

    question = ngx_calloc(sizeof(ngx_http_wq_question_t), event->worker->log);
    if (question == NULL) {
        return NULL;
    }

    question->event = event;
    question->since = ngx_current_msec;
    ngx_queue_init(&question->parked);

    /* not cancelable: somebody is owed an answer */

    ngx_http_wq_timer_init(&question->timer, ngx_http_wq_capacity_timer,
                           question, 0, event->worker->log);

    event->capacity = question;
    ngx_http_wq_event_hold(event);

    return question;
}


/* the question may be gone when this returns */

static void
ngx_http_wq_capacity_begin(ngx_http_wq_question_t *question)
{
    ngx_http_wq_event_t   *event;
    ngx_http_wq_worker_t  *worker;

    event = question->event;
    worker = event->worker;

    switch (ngx_http_wq_zone_ask_begin(worker->conf->zone, &event->id.str,
                                       question->looked,
                                       NGX_HTTP_WQ_CAPACITY_TIMEOUT + 1000))
    {

    case NGX_HTTP_WQ_ASK_YOU:
        question->ours = 1;
        ngx_http_wq_capacity_ask(question);
        return;

    case NGX_HTTP_WQ_ASK_REDIS:
        ngx_http_wq_capacity_known(question, -1);
        return;

    case NGX_HTTP_WQ_ASK_OTHER:

        if (ngx_current_msec - question->since
            >= NGX_HTTP_WQ_CAPACITY_TIMEOUT)
        {
            break;
        }

        ngx_http_wq_timer_set(&question->timer, NGX_HTTP_WQ_CAPACITY_LOOK);
        return;

    default:
        break;
    }

    ngx_http_wq_capacity_refuse(question);
}


static void
ngx_http_wq_capacity_ask(ngx_http_wq_question_t *question)
{
    ngx_queue_t           *q;
    ngx_connection_t      *c;
    ngx_http_request_t    *r;
    ngx_http_wq_asked_t   *asked;
    ngx_http_wq_asker_t   *asker;
    ngx_http_wq_worker_t  *worker;

    worker = question->event->worker;

    q = ngx_queue_head(&question->parked);
    asker = ngx_queue_data(q, ngx_http_wq_asker_t, parked);

    r = asker->request;
    c = r->connection;

    ngx_http_set_log_request(c->log, r);

    asked = ngx_palloc(r->pool, sizeof(ngx_http_wq_asked_t));
    if (asked == NULL) {
        ngx_http_wq_capacity_fail(question, "no memory");
        return;
    }

    asked->question = question;
    asked->request = NULL;
    question->asked = asked;
    question->asker = asker;

    wq_counter_add(worker->slot->counters.capacity_asked, 1);
    ngx_http_wq_timer_set(&question->timer, NGX_HTTP_WQ_CAPACITY_TIMEOUT);

    if (ngx_http_wq_capacity_subrequest(r, asked) != NGX_OK) {
        ngx_http_wq_capacity_fail(question, "the subrequest could not be made");
        return;
    }

    /* a location may end the request: the question may be gone after this */

    ngx_http_run_posted_requests(c);
}


/* whatever the subrequest comes to, it is not for this question any more */

static void
ngx_http_wq_capacity_unask(ngx_http_wq_question_t *question)
{
    if (question->asked) {
        question->asked->question = NULL;
        question->asked = NULL;
    }

    question->asker = NULL;
}


/*
 * The request of the asker would have to wait for the end of its subrequest,
 * and with it the connection of a visitor who has been answered.  nginx has no
 * way to end a subrequest, but one to end what it waits for: this is how it
 * does that when a request is terminated.
 */

static void
ngx_http_wq_capacity_cancel(ngx_http_wq_question_t *question)
{
    ngx_http_request_t  *sr;

    sr = question->asked->request;

    ngx_http_wq_capacity_unask(question);

    if (sr && sr->upstream && sr->upstream->cleanup) {
        (*sr->upstream->cleanup)(sr);
    }
}


static ngx_int_t
ngx_http_wq_capacity_subrequest(ngx_http_request_t *r,
    ngx_http_wq_asked_t *asked)
{
    ngx_str_t                    uri, args;
    ngx_uint_t                   flags;
    ngx_http_request_t          *sr;
    ngx_http_wq_loc_conf_t      *lcf;
    ngx_http_post_subrequest_t  *ps;

    lcf = ngx_http_get_module_loc_conf(r, ngx_http_waiting_queue_module);

    if (lcf->capacity_uri == NULL
        || ngx_http_complex_value(r, lcf->capacity_uri, &uri) != NGX_OK)
    {
        return NGX_ERROR;
    }

    ngx_str_null(&args);
    flags = NGX_HTTP_LOG_UNSAFE;

    if (uri.len == 0 || uri.data[0] != '/'
        || ngx_http_parse_unsafe_uri(r, &uri, &args, &flags) != NGX_OK)
    {
        return NGX_ERROR;
    }

    ps = ngx_palloc(r->pool, sizeof(ngx_http_post_subrequest_t));
    if (ps == NULL) {
        return NGX_ERROR;
    }

    ps->handler = ngx_http_wq_capacity_answered;
    ps->data = asked;

    if (ngx_http_subrequest(r, &uri, &args, &sr, ps,
                            NGX_HTTP_SUBREQUEST_IN_MEMORY
                            |NGX_HTTP_SUBREQUEST_BACKGROUND)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    asked->request = sr;

    return ngx_http_wq_capacity_no_headers(r, sr);
}


/*
 * The capacity is the event's, not the visitor's: with the visitor's headers
 * (Range, If-None-Match ...) one could make the service answer with something
 * else, for everybody.
 */

static ngx_int_t
ngx_http_wq_capacity_no_headers(ngx_http_request_t *r, ngx_http_request_t *sr)
{
    ngx_memzero(&sr->headers_in, sizeof(ngx_http_headers_in_t));

    if (ngx_list_init(&sr->headers_in.headers, r->pool, 2,
                      sizeof(ngx_table_elt_t))
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    sr->headers_in.server = r->headers_in.server;
    sr->headers_in.host = r->headers_in.host;
    sr->headers_in.content_length_n = -1;
    sr->headers_in.keep_alive_n = -1;

    return NGX_OK;
}


/*
 * Called when the subrequest is over, which may be long after anybody wants to
 * know.  nginx goes on with the subrequest when this returns, so that its main
 * request, which may be one of those who wait, must not end here.
 */

static ngx_int_t
ngx_http_wq_capacity_answered(ngx_http_request_t *sr, void *data, ngx_int_t rc)
{
    ngx_http_wq_asked_t *asked = data;

    ngx_http_wq_question_t  *question;

    question = asked->question;

    if (question == NULL || rc == NGX_AGAIN) {
        /* not wanted any more, or not yet all of it */
        return rc;
    }

    ngx_http_wq_capacity_unask(question);

    /*
     * Whatever goes wrong with a subrequest, an answer too long for its buffer
     * even, nginx takes for an error of the connection.  But nothing has been
     * sent on it yet, and a client who is gone has taken its stream along.
     */

    sr->connection->error = 0;

    question->answered = 1;
    question->why = ngx_http_wq_capacity_read(sr, rc, &question->capacity);

    ngx_http_wq_timer_set(&question->timer, 1);

    /* and so it is dealt with: no page for it, no end of the connection */

    return NGX_OK;
}


/* NULL, or what is wrong with the answer */

static const char *
ngx_http_wq_capacity_read(ngx_http_request_t *sr, ngx_int_t rc,
    uint32_t *capacity)
{
    wq_str_t                 field;
    ngx_buf_t               *b;
    ngx_http_wq_loc_conf_t  *lcf;

    /* of the location of the stream, not of the one that was asked */

    lcf = ngx_http_get_module_loc_conf(sr->main,
                                       ngx_http_waiting_queue_module);

    if (rc == NGX_ERROR || rc >= NGX_HTTP_SPECIAL_RESPONSE) {
        return "it could not be asked, or answered with an error";
    }

    if (sr->headers_out.status != NGX_HTTP_OK) {
        return "its answer was not a 200";
    }

    if (sr->out == NULL || sr->out->buf == NULL) {
        return "its answer was empty";
    }

    b = sr->out->buf;

    field.len = lcf->capacity_field.len;
    field.data = lcf->capacity_field.data;

    switch (wq_capacity_parse(b->pos, b->last - b->pos, &field, capacity)) {

    case WQ_OK:
        return NULL;

    case WQ_MISSING:
        return "its answer has no such field";

    case WQ_BAD_TYPE:
        return "the field is not a number";

    case WQ_BAD_RANGE:
        return "the number is negative, not whole, or too large";

    default:
        return "its answer is not JSON";
    }
}


static void
ngx_http_wq_capacity_timer(ngx_event_t *ev)
{
    ngx_http_wq_question_t  *question;

    question = ngx_http_wq_timer_data(ev);

    if (question->answered) {

        if (question->why) {
            ngx_http_wq_capacity_fail(question, question->why);

        } else {
            ngx_http_wq_capacity_known(question, question->capacity);
        }

        return;
    }

    if (question->asker) {
        ngx_http_wq_capacity_cancel(question);
        ngx_http_wq_capacity_fail(question, "it did not answer in time");
        return;
    }

    if (question->ours) {
        /* the one who asked has gone */
        ngx_http_wq_capacity_ask(question);
        return;
    }

    ngx_http_wq_capacity_begin(question);
}


/* all who wait join again; Redis takes the capacity from the first of them */

static void
ngx_http_wq_capacity_known(ngx_http_wq_question_t *question, int64_t capacity)
{
    ngx_http_wq_asker_t  *asker;

    /* the end of one request may be that of another who waits */
    question->telling = 1;

    while (!ngx_queue_empty(&question->parked)) {
        asker = ngx_http_wq_capacity_unpark(question);
        asker->joined = ngx_current_msec;

        if (asker->ops->rejoin(asker, capacity) != NGX_OK) {
            continue;
        }

        if (question->ours) {
            /* others look again when Redis knows */
            question->ours = 0;
            asker->asks_for = question->event;
            ngx_http_wq_event_hold(question->event);
        }
    }

    /* if it is still ours Redis is away, and others need not ask to see it */
    ngx_http_wq_capacity_end(question, NGX_OK);
}


void
ngx_http_wq_capacity_stored(ngx_http_wq_asker_t *asker)
{
    ngx_http_wq_event_t  *event;

    event = asker->asks_for;

    if (event) {
        asker->asks_for = NULL;

        ngx_http_wq_zone_ask_end(event->worker->conf->zone, &event->id.str,
                                 NGX_OK);
        ngx_http_wq_event_release(event);
    }
}


static void
ngx_http_wq_capacity_fail(ngx_http_wq_question_t *question, const char *why)
{
    ngx_http_wq_worker_t  *worker;

    worker = question->event->worker;

    wq_counter_add(worker->slot->counters.capacity_failed, 1);

    ngx_log_error(NGX_LOG_ERR, worker->log, 0,
                  "waiting_queue: the event service gave no capacity for "
                  "\"%V\": %s", &question->event->id.str, why);

    ngx_http_wq_capacity_refuse(question);
}


static void
ngx_http_wq_capacity_refuse(ngx_http_wq_question_t *question)
{
    ngx_http_wq_asker_t  *asker;

    ngx_http_wq_capacity_unask(question);

    question->telling = 1;

    while (!ngx_queue_empty(&question->parked)) {
        asker = ngx_http_wq_capacity_unpark(question);
        asker->ops->refuse(asker);
    }

    ngx_http_wq_capacity_end(question, NGX_ERROR);
}


static ngx_http_wq_asker_t *
ngx_http_wq_capacity_unpark(ngx_http_wq_question_t *question)
{
    ngx_queue_t          *q;
    ngx_http_wq_asker_t  *asker;

    q = ngx_queue_head(&question->parked);
    ngx_queue_remove(q);

    asker = ngx_queue_data(q, ngx_http_wq_asker_t, parked);
    asker->question = NULL;

    return asker;
}


static void
ngx_http_wq_capacity_end(ngx_http_wq_question_t *question, ngx_int_t rc)
{
    ngx_http_wq_event_t  *event;

    event = question->event;

    ngx_http_wq_timer_stop(&question->timer);

    if (question->ours) {
        ngx_http_wq_zone_ask_end(event->worker->conf->zone, &event->id.str,
                                 rc);
    }

    event->capacity = NULL;
    ngx_free(question);

    ngx_http_wq_event_release(event);
}
