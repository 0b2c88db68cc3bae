
/* core: how long somebody without a stream waits before asking again */


#include "wq_poll.h"


uint32_t
wq_poll_ms(int64_t rank, uint64_t timeout_ms)
{
    uint64_t  ms;

    if (rank < 0 || rank >= 100) {
        ms = WQ_POLL_MAX;

    } else {
        ms = (rank < 10) ? 2000 : 5000;
    }

    if (ms > timeout_ms / 3) {
        ms = timeout_ms / 3;
    }

    return (uint32_t) (ms < WQ_POLL_MIN ? WQ_POLL_MIN : ms);
}


uint32_t
wq_poll_spread(uint32_t ms, uint32_t random)
{
    return ms - ms / 2 + random % (ms / 2 + 1);
}
