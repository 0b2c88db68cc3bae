-- heartbeat.lua: this instance is alive.
--
-- KEYS[1]  WAITING_INSTANCES
-- ARGV[1]  the instance
-- returns  { now in ms, number of known instances }
-- cost     O(log n) of the instances

-- @include time

local now = now_ms()

redis.call('ZADD', KEYS[1], now, ARGV[1])

return { now, redis.call('ZCARD', KEYS[1]) }
