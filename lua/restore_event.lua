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

-- The seats that were put back in this hold, as a node has reported them, if
-- nobody but those who were let in has changed the count since.
local function seats_back(anew)
    local word = redis.call('HGET', key.stats, 'seats_back') or ''
    local of, n = word:match('^(%d+) (%d+)$')

    n = of == string.format('%.0f', since or 0) and tonumber(n)

    return n and event.seats() == math.max(n - anew, 0) and n
end

if origin.left(now) == 0 then
    return { 0 }
end

-- What was sold meanwhile comes on top.
local anew = event.sold_anew(since)

if anew > 0 then
    event.set_sold_anew(since, anew)
end

local latest = sold + anew >= event.counter('sold')

if sold + anew > event.counter('sold') then
    event.set_stat('sold', string.format('%.0f', sold + anew))
    changed = true
end

-- Of two nodes the one that has heard of the event last may come second.
if seats >= 0 then
    local back = latest and seats_back(anew)

    if redis.call('SET', key.seats,
                  string.format('%.0f', math.max(seats - anew, 0)),
                  back and seats < back and 'XX' or 'NX')
    then
        redis.call('HSET', key.stats, 'seats_back',
                   string.format('%.0f %.0f', since or 0, seats))
        changed = true
    end
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
