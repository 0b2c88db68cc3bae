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
--            that are dead (for the one who leads; 10 at most, in turn), each
--            followed by its last heartbeat in ms }
-- cost     O(events)

-- @include time

-- What was put there by hand in place of one of these is taken away: else there
-- would be no round any more, in no event.
local function mend(key, type)
    local found = redis.call('TYPE', key).ok

    if found ~= type and found ~= 'none' then
        redis.call('DEL', key)
    end
end

local function tasks()
    mend(KEYS[1], 'list')
    return redis.call('LLEN', KEYS[1])
end

if redis.call('PTTL', KEYS[3]) == -1 then
    -- nobody leads for ever
    redis.call('DEL', KEYS[3])
end

if not redis.call('SET', KEYS[3], ARGV[1], 'NX', 'PX', ARGV[2]) then
    return { 0, tasks(), {} }
end

mend(KEYS[2], 'set')
mend(KEYS[5], 'hash')

-- What was put there by hand and names no event, or no instance, is taken out:
-- nobody else ever would.
local function is_id(name)
    return #name <= 128 and name:match('^[%w._~@:-]+$')
end

local function known_events()
    local events = {}

    for _, event in ipairs(redis.call('SMEMBERS', KEYS[2])) do
        if is_id(event) then
            events[#events + 1] = event
        else
            redis.call('SREM', KEYS[2], event)
        end
    end

    return events
end

if tasks() == 0 then
    local events = known_events()

    for first = 1, #events, 1000 do
        redis.call('LPUSH', KEYS[1],
                   unpack(events, first, math.min(first + 999, #events)))
    end
end

-- When Redis itself was away, all others look dead to the first who is back.
-- Only silence in a time of unbroken rounds counts; a hiccup is no break, short
-- as the rounds may be.

local now, round = now_ms(), tonumber(ARGV[2])
local times = redis.call('HMGET', KEYS[5], 'since', 'last', 'turn')
local since = tonumber(times[1] or '') or now

if since > now or since ~= since then
    -- a clock was set back, or it is nonsense
    since = now
end

if now - (tonumber(times[2] or '') or 0) > math.max(3 * round, 3000) then
    since = now
end

redis.call('HSET', KEYS[5], 'since', since, 'last', now)

local silent, dead = {}, {}

if now - since >= tonumber(ARGV[3]) then
    local count = redis.call('ZCOUNT', KEYS[4], '-inf', now - ARGV[3])
    local first = 0

    -- All in turn: those for whom a long grace time is waited must not keep
    -- others from being looked at.
    if count > 10 then
        local turn = tonumber(times[3] or '') or 0

        first = turn >= 0 and turn < 2 ^ 53
                and (math.floor(turn) + 10) % count or 0
        redis.call('HSET', KEYS[5], 'turn', first)
    end

    silent = redis.call('ZRANGEBYSCORE', KEYS[4], '-inf', now - ARGV[3],
                        'WITHSCORES', 'LIMIT', first, 10)
end

for i = 1, #silent, 2 do
    if is_id(silent[i]) then
        -- negative when it is being reaped; whatever was written there by hand,
        -- it is a whole number
        local heartbeat = math.abs(tonumber(silent[i + 1]))

        dead[#dead + 1] = silent[i]
        dead[#dead + 1] = string.format('%.0f', heartbeat < 2 ^ 53
                                                and math.floor(heartbeat) or 0)
    else
        redis.call('ZREM', KEYS[4], silent[i])
    end
end

return { 1, tasks(), dead }
