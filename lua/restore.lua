-- restore.lua: puts a connected user back with the old idx after Redis has lost
-- data.  Who is known, in line or in, stays there and is held by the caller,
-- unless another instance that is alive does so with a newer connection: who
-- stands further behind, as one who has come anew, gets the old idx, and that
-- instance is told.
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
--          is known is left as it is, but that the place is this instance's to
--          give up where an older connection held it
-- ARGV[10] serial of the connection, see join.lua; 0: of one that is made now
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

if ARGV[10] ~= '0' then
    serial = tonumber(ARGV[10])
end

local call = { seed = seed, changed = changed, serial = serial, now = now,
               values = values or setting.read() }

-- Somebody is missing: the first to see it ends the epoch, by which all others
-- see it.
local function end_epoch()
    if event.epoch(seed) == ARGV[7] then
        event.set_stat('epoch', seed)
    end

    event.count('restored', 1)
end

line.raise_idx(math.max(idx, tonumber(ARGV[5])))

local absent = ARGV[9] == 'absent'

-- The caller has missed that the user has gone elsewhere.  Or the user has come
-- from there, and it is Redis that has lost that.
local function held_by_another(holder, its_serial)
    local heartbeat = redis.call('ZSCORE', key.instances, holder)

    return holder ~= instance and (tonumber(heartbeat or '') or 0) > 0
           and not (its_serial and its_serial < serial)
end

local l, lapsed = lease.find(user, now, seed)

if l then
    if absent then
        return answer(call, l.state, { lease = l })
    end

    if held_by_another(l.instance, l.serial) then
        return answer(call, 'replaced', { lease = l })
    end

    local previous = lease.hold(user, l, instance, serial)

    return answer(call, l.state, { lease = l, previous = previous })
end

local known = line.idx(user)

-- Who has come anew before this could be said stands where he stood.
if known and known > idx then
    local holder, since, its_serial = line.record(user)

    line.note(known, 'idx')
    line.note(idx, 'back')
    line.put(user, idx, holder, since, its_serial)
    end_epoch()

    if origin.left(now) > 0 then
        origin.extend(now)
    end

    if holder ~= instance then
        event.announce('moved', user, holder, idx)
    end

    known = idx
end

if known then
    local holder, since, its_serial = line.record(user)

    if absent then
        -- one that has come from there is this instance's to look after
        if holder ~= instance and its_serial and its_serial < serial
            and ARGV[10] ~= '0'
        then
            line.write(user, known, instance, since, serial)
        end

        return answer(call, 'waiting', { idx = known, rank = line.rank(user) })
    end

    if held_by_another(holder, its_serial) then
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
line.put(user, idx, instance, now, serial)
end_epoch()
origin.extend(now)

return answer(call, 'waiting', { idx = idx, rank = line.rank(user) })
