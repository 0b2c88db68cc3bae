-- leave.lua: a user leaves the line.
--
-- KEYS     of the event, see lib/event.lua
-- ARGV[2]  the user
-- ARGV[3]  only if the record names this instance, and the user has not asked
--          without a stream since; empty: in any case
-- ARGV[4]  only from the place of this idx, so that a repeated call does not
--          end a new place; empty: from any
-- returns  { 1 if the user was in line and has left, else 0 }
-- cost     O(log n) of those in line

-- @include time
-- @include event
-- @include settings
-- @include line

local user, instance = ARGV[2], ARGV[3]
local idx = line.idx(user)

if not idx
    or (ARGV[4] ~= '' and idx ~= tonumber(ARGV[4]))
    or (instance ~= '' and line.record(user) ~= instance)
then
    return { 0 }
end

local left

if instance == '' then
    left = line.leave(user)
else
    left = line.abandon(user, idx, now_ms() - setting.read().poll_timeout)
end

if not left then
    return { 0 }
end

event.count('left', 1)

return { 1 }
