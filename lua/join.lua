-- join.lua: a user comes, or comes back.
--
-- KEYS     of the event, see lib/event.lua
-- ARGV[2]  the user
-- ARGV[3]  the instance that holds the user's connection
-- ARGV[4]  "stream": whoever gets in is told, and enters with the token later;
--          "enter": whoever is or gets in enters at once
-- ARGV[5]  random seed for a token
-- ARGV[6]  nginx.conf's settings as "name=value ..."
-- ARGV[7]  the capacity, where the event service has told it; else empty
-- ARGV[8]  the highest idx that the caller knows, 0 for none
-- returns  { status, idx, rank, total, promoted, gone, joined, token, lease's
--            end in ms, instance that held the connection before, 1 if the
--            settings of this event have changed, epoch }
--          status is waiting, ready, entered, sold_out, closed, full, or
--          unknown while no capacity is known; token and lease are nil for
--          those who wait, idx and rank for those who do not
-- cost     O(log n) of those in line

-- @include time
-- @include event
-- @include settings
-- @include line
-- @include lease
-- @include answer

local user, instance, seed = ARGV[2], ARGV[3], ARGV[5]
local enters = ARGV[4] == 'enter'
local now = now_ms()
local changed = setting.write(ARGV[6])

setting.write_service_capacity(ARGV[7])

local values = setting.read()

if not setting.apply_capacity(values.capacity) then
    return { 'unknown', false, false, 0, 0, 0, 0, false, false, false,
             changed and 1 or 0, '' }
end

-- in already

local l = lease.find(user, now, seed)

if l then
    local previous = l.instance

    l.instance = instance

    if enters and l.state == 'ready' then
        l.state = 'entered'
        l.since = now
        l.ends = now + values.ttl
        event.count('entered', 1)
    end

    lease.write(user, l)

    return answer(seed, l.state, changed, nil, nil, l, previous)
end

-- in line already

local idx = line.idx(user)

if idx then
    local previous = line.instance(user)

    line.write(user, idx, instance)
    redis.call('ZREM', key.seen, user)

    return answer(seed, 'waiting', changed, idx, line.rank(user), nil,
                  previous)
end

-- new

if values.closed == 1 then
    return answer(seed, 'closed', changed)
end

local seats = tonumber(redis.call('GET', key.seats) or '')

if seats and seats <= 0 then
    return answer(seed, 'sold_out', changed)
end

-- a lease of this user's own that has lapsed is in the way
if lease.take_back(user) then
    event.count('expired', 1)
end

local total = redis.call('ZCARD', key.waiting)
local direct = total == 0 and values.paused ~= 1

if direct and event.free_slots() <= 0 then
    -- nobody waits, so nobody else will take back what has lapsed for a while
    lease.reap(now, 10)
end

direct = direct and event.free_slots() > 0

if not direct and values.max_waiting > 0 and total >= values.max_waiting then
    return answer(seed, 'full', changed)
end

line.raise_idx(tonumber(ARGV[8]))
idx = line.next_idx()
event.count('joined', 1)

if not direct then
    line.put(user, idx, instance)

    return answer(seed, 'waiting', changed, idx, line.rank(user))
end

l = lease.give(user, idx, instance, enters and 'entered' or 'ready', now,
               enters and values.ttl or values.claim, seed)
event.count('direct', 1)

if enters then
    event.count('entered', 1)
end

return answer(seed, l.state, changed, nil, nil, l)
