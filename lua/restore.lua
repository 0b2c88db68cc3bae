-- restore.lua: puts a connected user back with the old idx after Redis has lost
-- data.  Who is known, in line or in, stays there and is held by the caller,
-- unless another instance that is alive does so: who stands further behind, as
-- one who has come anew, gets the old idx, and that instance is told.
--
-- KEYS     of the event, see lib/event.lua
-- ARGV[2]  the user
-- ARGV[3]  the instance that holds the user's connection
-- ARGV[4]  the idx
-- ARGV[5]  the highest idx that the caller knows
-- ARGV[6]  nginx.conf's settings as "name=value ..."
-- ARGV[7]  the epoch in which the caller knew the user
-- ARGV[8]  random seed
-- ARGV[9]  "absent": nobody is connected, and the place is kept for a while: who
--          is known is left as it is
-- returns  as join.lua, but never unknown: a place is kept without a capacity;
--          and replaced if the user has a newer connection elsewhere
-- cost     O(log n) of those in line

-- @include time
-- @include event
-- @include origin
-- @include settings
-- @include line
-- @include lease
-- @include rate
-- @include answer

local user, instance, seed = ARGV[2], ARGV[3], ARGV[8]
local idx = tonumber(ARGV[4])
local now, serial = now_ms()
local values, changed = setting.take(ARGV[6], '')
local call = { seed = seed, changed = changed, serial = serial, now = now,
               values = values or setting.read() }

-- the first to see the loss ends the epoch, by which all others see it
if event.epoch(seed) == ARGV[7] then
    event.set_stat('epoch', seed)
end

line.raise_idx(math.max(idx, tonumber(ARGV[5])))

local absent = ARGV[9] == 'absent'

-- The caller has missed that the user has gone elsewhere: whoever joined there
-- is the newer of the two.
local function held_by_another(holder)
    local heartbeat = redis.call('ZSCORE', key.instances, holder)

    return holder ~= instance and (tonumber(heartbeat or '') or 0) > 0
end

local l, lapsed = lease.find(user, now, seed)

if l then
    if absent then
        return answer(call, l.state, { lease = l })
    end

    if held_by_another(l.instance) then
        return answer(call, 'replaced', { lease = l })
    end

    local previous = lease.hold(user, l, instance, serial)

    return answer(call, l.state, { lease = l, previous = previous })
end

local known = line.idx(user)

-- Who has come anew before this could be said stands where he stood.
if known and known > idx then
    local holder, since = line.record(user)

    line.note(known, 'idx')
    line.note(idx, 'back')
    line.put(user, idx, holder, since)
    event.count('restored', 1)
    origin.extend(now)

    if holder ~= instance then
        event.announce('moved', user, holder, idx)
    end

    known = idx
end

if known then
    if absent then
        return answer(call, 'waiting', { idx = known, rank = line.rank(user) })
    end

    if held_by_another((line.record(user))) then
        return answer(call, 'replaced', { idx = known })
    end

    local previous = line.hold(user, known, instance, serial)

    return answer(call, 'waiting', { idx = known, rank = line.rank(user),
                                     previous = previous })
end

-- a lease that has lapsed is over
if lapsed then
    lease.lapse(user)
end

line.note(idx, 'back')
line.put(user, idx, instance, now)
event.count('restored', 1)
origin.extend(now)

return answer(call, 'waiting', { idx = idx, rank = line.rank(user) })
