-- reap.lua: those in line whose instance is dead leave, some of them a call.
--
-- KEYS     of the event, see lib/event.lua
-- ARGV[2]  the dead instance
-- ARGV[3]  where the last call stopped, "0" at first
-- ARGV[4]  about so many records are looked at
-- returns  { where to go on, "0" when it is done; how many left }
-- cost     O(records looked at * log n)

-- @include event
-- @include line

local scan = redis.call('HSCAN', key.record, ARGV[3], 'COUNT', ARGV[4])
local left = 0

for i = 1, #scan[2], 2 do
    local user = scan[2][i]

    if line.instance(user) == ARGV[2] then
        local idx = line.take(user)

        if idx then
            line.note(idx, 'idx')
            event.count('left', 1)
            left = left + 1
        end
    end
end

return { scan[1], left }
