-- restore_lease.lua: puts back the lease of somebody who is inside, as a node
-- knows it, after Redis has lost data or was replaced.  Not one that has ended
-- since: while people are let in again, nothing is put back any more.
--
-- KEYS     of the event, see lib/event.lua
-- ARGV[2]  the user
-- ARGV[3]  the token
-- ARGV[4]  the idx
-- ARGV[5]  the lease's end in ms
-- ARGV[6]  ready or entered
-- ARGV[7]  when it was given, or used first, in ms
-- ARGV[8]  how long the user had waited, in ms
-- returns  as touch.lua: good if the user holds a lease of this token now; and 1
--          besides if it was put back
-- cost     O(log n) of those in line and of those inside

-- @include time
-- @include event
-- @include origin
-- @include settings
-- @include line
-- @include lease

local user, token, idx = ARGV[2], ARGV[3], tonumber(ARGV[4])
local ends, state, since = tonumber(ARGV[5]), ARGV[6], tonumber(ARGV[7])
local now = now_ms()
local left = origin.left(now)
local l = lease.find(user, now)

local function answer(good, restored)
    return { good and 1 or 0, string.format('%.0f', good and l.ends or 0),
             good and l.waited or 0, left,
             string.format('%.0f', good and l.idx or 0),
             string.format('%.0f', good and l.since or 0),
             restored and 1 or 0 }
end

-- where the token alone is lost, the place says whether it is the same lease
local same = l and (l.token == token or not l.token and l.idx == idx)

if l and not same or left == 0 or ends <= now or lease.is_over(user, token) then
    return answer(l and l.token == token)
end

local restored = not l

if l then
    -- of a time before it was used first, or last
    local older = l.state == 'entered' and state == 'ready'
                  or l.state == state and l.ends >= ends

    if older and l.token then
        return answer(true)
    elseif not older then
        l.ends, l.state, l.since = ends, state, since
    end

    l.token = token
else
    -- Let in by what was lost, the user stands in line again, or has come anew.
    local instance, _, serial = line.record(user)

    l = { idx = idx, instance = instance, serial = serial, token = token,
          ends = ends, state = state, since = since,
          waited = tonumber(ARGV[8]) }

    if line.leave(user) then
        event.count('left', 1)
    end

    event.count('restored', 1)
    origin.extend(now)
end

-- who gets in after this comes after
line.raise_idx(l.idx)
lease.write(user, l)

if restored then
    event.announce('promoted', user, l.instance, l.idx, l)
end

setting.apply_capacity(setting.read().capacity)
event.publish_slots()

return answer(true, restored)
