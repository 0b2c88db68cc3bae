
/* http: a request that waits in one of its phases, and then goes on */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_wq_http.h"


/*
 * The body stays where it is: nothing is read but the end of the connection,
 * which ends the request.
 */

void
ngx_http_wq_park(ngx_http_request_t *r)
{
    ngx_event_t  *rev;

    rev = r->connection->read;

    r->read_event_handler = ngx_http_test_reading;
    r->write_event_handler = ngx_http_request_empty_handler;

    if (rev->ready) {
        ngx_post_event(rev, &ngx_posted_events);

    } else if (ngx_handle_read_event(rev, 0) != NGX_OK) {

        /* only the end of the connection would not be seen before the answer */

        ngx_log_error(NGX_LOG_ERR, r->connection->log, 0,
                      "waiting_queue: a client that waits is not watched");
    }
}


void
ngx_http_wq_resume(ngx_http_request_t *r)
{
    ngx_connection_t  *c;

    c = r->connection;

    ngx_http_set_log_request(c->log, r);

    r->read_event_handler = ngx_http_block_reading;
    r->write_event_handler = ngx_http_core_run_phases;

    ngx_http_core_run_phases(r);
    ngx_http_run_posted_requests(c);
}


void
ngx_http_wq_resume_later(ngx_http_request_t *r)
{
    ngx_event_t  *wev;

    wev = r->connection->write;

    r->read_event_handler = ngx_http_block_reading;
    r->write_event_handler = ngx_http_core_run_phases;

    ngx_post_event(wev, &ngx_posted_events);
}
