-- heartbeat.lua: this instance is alive.
--
-- KEYS[1]  WAITING_INSTANCES
-- ARGV[1]  the instance
-- returns  { now in ms, number of known instances, 1 if this one was not known:
--            it is new, or was taken for dead and places were given up }
-- cost     O(log n) of the instances

-- @include time

local now = now_ms()
local before = tonumber(redis.call('ZSCORE', KEYS[1], ARGV[1]) or 0)

redis.call('ZADD', KEYS[1], now, ARGV[1])

return { now, redis.call('ZCARD', KEYS[1]), before > 0 and 0 or 1 }
