-- quit.lua: a user says that he goes: out of the line, or with the lease, whose
-- slot goes to the next in line at once.  A stream of his is told by "expired".
--
-- KEYS     of the event, see lib/event.lua
-- ARGV[2]  the user
-- ARGV[3]  random seed for tokens
-- returns  { 1 if there was a place or a lease, else 0; promoted; ms after which
--            the rate lets in the next (0: that is not what they wait for); for
--            how many ms nobody is let in, because data were lost: perhaps what
--            the user had, too }
-- cost     O(log n) of those in line

-- @include time
-- @include event
-- @include origin
-- @include settings
-- @include line
-- @include lease
-- @include rate
-- @include promote

local user, seed = ARGV[2], ARGV[3]
local now = now_ms()
local idx = line.idx(user)

if idx then
    local instance = line.record(user)

    line.leave(user)
    event.count('left', 1)
    event.announce('expired', user, instance, idx)

    return { 1, 0, 0, 0 }
end

local l = lease.find(user, now, seed)

if not l then
    return { 0, 0, 0, origin.left(now) }
end

lease.finish(user, l, now)
event.count('left', 1)
event.announce('expired', user, l.instance, l.idx, l)

local values = setting.read()

setting.apply_capacity(values.capacity)

local promoted = promote(values, now, seed, 1000)

event.publish_slots()

return { 1, promoted, rate.opens(values, now), 0 }
