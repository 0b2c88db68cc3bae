-- restore.lua: puts a connected user back with the old idx after Redis has lost
-- data.  Who is known, in line or in, stays there and is held by the caller.
--
-- KEYS     of the event, see lib/event.lua
-- ARGV[2]  the user
-- ARGV[3]  the instance that holds the user's connection
-- ARGV[4]  the idx
-- ARGV[5]  the highest idx that the caller knows
-- ARGV[6]  nginx.conf's settings as "name=value ..."
-- ARGV[7]  the epoch in which the caller knew the user
-- ARGV[8]  random seed
-- returns  as join.lua
-- cost     O(log n) of those in line

-- @include time
-- @include event
-- @include settings
-- @include line
-- @include lease
-- @include answer

local user, instance, seed = ARGV[2], ARGV[3], ARGV[8]
local idx = tonumber(ARGV[4])
local changed = setting.write(ARGV[6])

setting.apply_capacity(setting.read().capacity)

-- the first to see the loss ends the epoch, by which all others see it
if event.epoch(seed) == ARGV[7] then
    redis.call('HSET', key.stats, 'epoch', seed)
end

line.raise_idx(math.max(idx, tonumber(ARGV[5])))

local l = lease.find(user, now_ms(), seed)

if l then
    local previous = l.instance

    l.instance = instance
    lease.write(user, l)

    return answer(seed, l.state, changed, nil, nil, l, previous)
end

local known = line.idx(user)

if known then
    local previous = line.instance(user)

    line.write(user, known, instance)

    return answer(seed, 'waiting', changed, known, line.rank(user), nil,
                  previous)
end

-- a lease that has lapsed is over
if lease.take_back(user) then
    event.count('expired', 1)
end

line.note(idx, 'back')
line.put(user, idx, instance)
event.count('restored', 1)

return answer(seed, 'waiting', changed, idx, line.rank(user))
