-- restore_event.lua: what a node knows of an event, after Redis has lost data or
-- was replaced.  The seats that were sold take their slots along; and a capacity
-- that came from the event service need not be asked for again.
--
-- KEYS     of the event, see lib/event.lua
-- ARGV[2]  capacity
-- ARGV[3]  sold
-- ARGV[4]  seats left, negative: nobody counts them
-- returns  { 1 if anything was put back }
-- cost     O(1)

-- @include time
-- @include event
-- @include origin
-- @include settings

local capacity, sold = ARGV[2], tonumber(ARGV[3])
local now = now_ms()
local values = setting.read()
local changed = false

if origin.left(now) == 0 then
    return { 0 }
end

if sold > event.counter('sold') then
    event.set_stat('sold', ARGV[3])
    changed = true
end

if tonumber(ARGV[4]) >= 0
    and redis.call('SET', key.seats, ARGV[4], 'NX')
then
    changed = true
end

if not values.capacity and not event.stat('capacity') then
    redis.call('HSET', key.conf, 'service_capacity', capacity)
    values = setting.read()
    changed = true
end

if not changed then
    return { 0 }
end

origin.extend(now)
setting.apply_capacity(values.capacity)
event.publish_slots()

return { 1 }
