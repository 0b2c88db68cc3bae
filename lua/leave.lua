-- leave.lua: a user leaves the line.
--
-- KEYS     of the event, see lib/event.lua
-- ARGV[2]  the user
-- ARGV[3]  only if the record names this instance; empty: in any case
-- ARGV[4]  only from the place of this idx, so that a repeated call does not
--          end a new place; empty: from any
-- returns  { 1 if the user was in line, else 0 }
-- cost     O(log n) of those in line

-- @include event
-- @include line

local user, instance = ARGV[2], ARGV[3]
local idx = line.idx(user)

if not idx
    or (ARGV[4] ~= '' and idx ~= tonumber(ARGV[4]))
    or (instance ~= '' and line.instance(user) ~= instance)
then
    return { 0 }
end

line.note(idx, 'idx')
event.count('left', 1)
line.take(user)

return { 1 }
