-- release.lua: ends a lease, and lets the next in line in at once.
--
-- KEYS     of the event, see lib/event.lua
-- ARGV[2]  the user
-- ARGV[3]  "return": the slot is free again; "sold": the seat is gone, and the
--          slot with it, even if the lease has just lapsed
-- ARGV[4]  random seed for a token
-- ARGV[5]  only if the lease is held by this instance; empty: in any case
-- ARGV[6]  only the lease of this token, so that a repeated call does not end a
--          new one; empty: any
-- ARGV[7]  the counter of the reason: done, sold, left, expired
-- returns  { 1 if there was a lease, promoted }
-- cost     O(log n) of those in line

-- @include time
-- @include event
-- @include settings
-- @include line
-- @include lease
-- @include promote

local user, sold, seed = ARGV[2], ARGV[3] == 'sold', ARGV[4]
local now = now_ms()
local l = lease.find(user, sold and 0 or now, seed)

if not l
    or (ARGV[5] ~= '' and l.instance ~= ARGV[5])
    or (ARGV[6] ~= '' and l.token ~= ARGV[6])
then
    return { 0, 0 }
end

event.count(sold and 'sold' or ARGV[7], 1)
lease.take_back(user)

-- where nobody counts seats, one less than unknown is not sold out
if sold and redis.call('EXISTS', key.seats) == 1 then
    redis.call('DECR', key.seats)
end

local values = setting.read()

setting.apply_capacity(values.capacity)

local promoted = promote(values, now, seed, 1000)

event.publish_slots()

return { 1, promoted }
