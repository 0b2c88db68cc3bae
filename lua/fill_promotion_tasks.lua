-- fill_promotion_tasks.lua: begins a round of promotion, if it is time and the
-- last one is over: rounds never pile up.
--
-- KEYS[1]  PROMOTION_TASK_LIST
-- KEYS[2]  WAITING_EVENTS
-- KEYS[3]  PROMOTION_LEASE
-- KEYS[4]  WAITING_INSTANCES
-- KEYS[5]  PROMOTION_ROUND
-- ARGV[1]  the instance
-- ARGV[2]  length of a round in ms
-- ARGV[3]  an instance silent for so many ms is dead
-- returns  { 1 if the caller leads this round, tasks in the list, instances
--            that are dead (for the one who leads; at most 10) }
-- cost     O(events)

-- @include time

local function tasks()
    return redis.call('LLEN', KEYS[1])
end

if not redis.call('SET', KEYS[3], ARGV[1], 'NX', 'PX', ARGV[2]) then
    return { 0, tasks(), {} }
end

if tasks() == 0 then
    local events = redis.call('SMEMBERS', KEYS[2])

    for first = 1, #events, 1000 do
        redis.call('LPUSH', KEYS[1],
                   unpack(events, first, math.min(first + 999, #events)))
    end
end

-- When Redis itself was away, all others look dead to the first who is back.
-- Only silence in a time of unbroken rounds counts.

local now, round = now_ms(), tonumber(ARGV[2])
local times = redis.call('HMGET', KEYS[5], 'since', 'last')
local since = tonumber(times[1] or '') or now

if now - (tonumber(times[2] or '') or 0) > 3 * round then
    since = now
end

redis.call('HSET', KEYS[5], 'since', since, 'last', now)

local dead = {}

if now - since >= tonumber(ARGV[3]) then
    dead = redis.call('ZRANGEBYSCORE', KEYS[4], '-inf', now - ARGV[3],
                      'LIMIT', 0, 10)
end

return { 1, tasks(), dead }
