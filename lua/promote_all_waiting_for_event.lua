-- promote_all_waiting_for_event.lua: takes back what has lapsed, and the places
-- of those who asked without a stream and do so no more; then lets in from the
-- head of the line as many as there are free slots.
--
-- KEYS     of the event, see lib/event.lua
-- ARGV[2]  random seed for tokens
-- ARGV[3]  at most so many users in one call
-- returns  { promoted, expired, 1 if there is more to do at once, ms after
--            which the rate lets in those for whom there are slots (0: that is
--            not what they wait for), figures }
-- cost     O(k log n) for k users of n

-- @include time
-- @include event
-- @include origin
-- @include settings
-- @include line
-- @include lease
-- @include rate
-- @include promote
-- @include figures

local seed, limit = ARGV[2], tonumber(ARGV[3])
local now = now_ms()
local drift = figures.drift()
local values = setting.read()
local known = setting.apply_capacity(values.capacity)
local expired = lease.reap(now, limit)
local silent, left = line.reap(now - values.poll_timeout, limit)

if left > 0 then
    event.count('left', left)
end

local promoted, looked_at = promote(values, now, seed, limit)
local total = redis.call('ZCARD', key.waiting)
local inside = redis.call('ZCARD', key.active)

-- any word may stand in the list of tasks: one that is no event stays none
if known or expired + total + inside > 0 then
    event.publish_slots()
end

if total == 0 and inside == 0 then
    -- a quiet event keeps its counters and settings, and nothing else
    redis.call('SREM', key.events, event.id)
    redis.call('DEL', key.gone)
end

return {
    promoted, expired,
    (looked_at == limit or expired == limit or silent == limit) and 1 or 0,
    rate.opens(values, now), figures.all(values, drift, now),
}
