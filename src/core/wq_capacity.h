
/*
 * core: the capacity of an event, as its service tells it.
 *
 * The one file that uses cJSON, which takes its memory from malloc() and gives
 * all of it back before a function here returns.
 */


#ifndef WQ_CAPACITY_H_INCLUDED_
#define WQ_CAPACITY_H_INCLUDED_


#include "wq_core.h"


#define WQ_CAPACITY_MAX        1000000000

#define WQ_CAPACITY_FIELD_MAX  128


/*
 * field is a name, or names joined by dots for a number that stands deeper:
 * "seatCount", "data.seats.free".  WQ_OK, WQ_EMPTY (also for an empty name
 * between dots) or WQ_TOO_LONG.
 */

wq_rc_t wq_capacity_check_field(const u_char *field, size_t len);


/*
 * The number in an object of JSON.  WQ_OK, or
 *
 *   WQ_BAD_CHARACTER  it is not JSON, or something follows it
 *   WQ_MISSING        there is no such field
 *   WQ_BAD_TYPE       it is not a number
 *   WQ_BAD_RANGE      it is not whole, negative, or above WQ_CAPACITY_MAX
 */

wq_rc_t wq_capacity_parse(const u_char *text, size_t len,
    const wq_str_t *field, uint32_t *capacity);


#endif /* WQ_CAPACITY_H_INCLUDED_ */
