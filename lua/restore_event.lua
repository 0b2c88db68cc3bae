-- restore_event.lua: what a node knows of an event, after Redis has lost data or
-- was replaced.  The seats that were sold take their slots along; and a capacity
-- that came from the event service need not be asked for again.
--
-- KEYS     of the event, see lib/event.lua
-- ARGV[2]  capacity; 0: the event service is to be asked again
-- ARGV[3]  sold, before that
-- ARGV[4]  seats left, before that; negative: nobody counts them
-- returns  { 1 if anything was put back }
-- cost     O(1)

-- @include time
-- @include event
-- @include origin
-- @include settings

local capacity, sold = tonumber(ARGV[2]), tonumber(ARGV[3])
local seats = tonumber(ARGV[4])
local now = now_ms()
local _, since = origin.read()
local values = setting.read()
local changed = false

if origin.left(now) == 0 then
    return { 0 }
end

-- What was sold meanwhile comes on top.
local anew = event.sold_anew(since)

if anew > 0 then
    event.set_sold_anew(since, anew)
end

if sold + anew > event.counter('sold') then
    event.set_stat('sold', string.format('%.0f', sold + anew))
    changed = true
end

if seats >= 0
    and redis.call('SET', key.seats,
                   string.format('%.0f', math.max(seats - anew, 0)), 'NX')
then
    changed = true
end

if capacity > 0 and not values.capacity and not event.stat('capacity') then
    redis.call('HSET', key.conf, 'service_capacity', ARGV[2])
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
