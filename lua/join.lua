-- join.lua: a user comes, or comes back.
--
-- KEYS     of the event, see lib/event.lua
-- ARGV[2]  the user
-- ARGV[3]  the instance that holds the user's connection; empty: there is none,
--          and whoever holds one already keeps it
-- ARGV[4]  "stream": whoever gets in is told, and enters with the token later;
--          "enter": whoever is or gets in enters at once;
--          "visit": a new user, who may get in if nobody waits, and is to enter
--          with the token later; takes no place in line
-- ARGV[5]  random seed for a token
-- ARGV[6]  nginx.conf's settings as "name=value ..."
-- ARGV[7]  the capacity, where the event service has told it; else empty
-- ARGV[8]  the highest idx that the caller knows, 0 for none
-- returns  { status, idx, rank, total, promoted, gone, joined, token, lease's
--            end in ms, instance that held the connection before, 1 if the
--            settings of this event have changed, epoch, serial, how long the
--            user has waited in ms, users and ms of the rate (0: there is
--            none), 1 if nobody is let in for now, 1 if there is a rate but no
--            slot for one who waits, ms after which the rate lets in the user,
--            if nobody else waits (0: that is not what the user waits for),
--            when the lease was given, or used first, in ms; for how many ms
--            nobody is let in, because data were lost }
--          status is waiting, ready, entered, sold_out, closed, full, none for
--          a visit that would have to wait, or unknown while no capacity is
--          known: in these two nothing is stored
--          rank is nil for those who do not wait, token and lease for those who
--          are not in, idx for those who are neither
--          serial is the time in us: of two connections of a user, the one with
--          the higher is the newer.  Another instance that held the connection
--          before is told it by a message "replaced".
-- cost     O(log n) of those in line

-- @include time
-- @include event
-- @include origin
-- @include settings
-- @include line
-- @include lease
-- @include rate
-- @include answer

local user, instance, seed = ARGV[2], ARGV[3], ARGV[5]
local mode = ARGV[4]
local now, serial = now_ms()
local values, changed = setting.take(ARGV[6], ARGV[7])

if not values then
    return { 'unknown', false, false, 0, 0, 0, 0, false, false, false, 0, '',
             0, 0, 0, 0, 0, 0, 0, 0, 0 }
end

local call = { seed = seed, changed = changed, serial = serial, now = now,
               values = values }

-- in already

local l, lapsed = lease.find(user, now, seed)

if l then
    local previous

    if mode == 'enter' then
        lease.use(l, values, now)
    end

    if instance == '' then
        lease.write(user, l)
    else
        previous = lease.hold(user, l, instance, serial)
    end

    return answer(call, l.state, { lease = l, previous = previous })
end

-- in line already

local idx = line.idx(user)

if idx then
    if instance == '' then
        return answer_in_line(call, user, idx, now)
    end

    local previous = line.hold(user, idx, instance, serial)

    return answer(call, 'waiting', { idx = idx, rank = line.rank(user),
                                     previous = previous })
end

-- new

local why = event.over(values)

if why then
    return answer(call, why)
end

-- a lease of this user's own that has lapsed is in the way
if lapsed then
    lease.lapse(user)
end

local total = redis.call('ZCARD', key.waiting)
local direct = total == 0 and values.paused ~= 1
               and origin.left(now) == 0 and rate.left(values, now) > 0

if direct and event.free_slots() <= 0 then
    -- nobody waits, so nobody else will take back what has lapsed for a while
    direct = lease.reap(now, 10) > 0 and event.free_slots() > 0
end

if not direct and values.max_waiting > 0 and total >= values.max_waiting then
    return answer(call, 'full')
end

if not direct and mode == 'visit' then
    return answer(call, 'none')
end

idx = line.next_idx(tonumber(ARGV[8]), origin.least_idx(now, serial))
event.count('joined', 1)

if not direct then
    line.put(user, idx, instance, now, instance ~= '' and serial)

    if instance == '' then
        line.see(user, now)
    end

    -- behind all who were there; with them somebody waits for the next period
    return answer(call, 'waiting', {
        idx = idx, rank = total, total = total + 1,
        opens = total == 0 and rate.opens(values, now) or 0,
    })
end

event.count('direct', 1)
rate.spend(values, now, 1)

if mode == 'enter' then
    event.count('entered', 1)
    l = { state = 'entered' }
else
    l = { state = 'ready' }
end

l.idx, l.instance, l.serial = idx, instance, instance ~= '' and serial
lease.give(user, l, now, l.state == 'ready' and values.claim or values.ttl,
           seed)

return answer(call, l.state, { lease = l })
