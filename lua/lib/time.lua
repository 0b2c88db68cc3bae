-- Redis' own clock, the one clock that all nodes share: in ms, and in us.
local function now_ms()
    local time = redis.call('TIME')
    local us = time[1] * 1000000 + time[2]

    return math.floor(us / 1000), us
end
