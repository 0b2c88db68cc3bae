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

local user, token, ends = ARGV[2], ARGV[3], tonumber(ARGV[5])
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

if l and l.token ~= token or left == 0 or ends <= now
    or lease.is_over(user, token)
then
    return answer(l and l.token == token)
end

local instance = ''

if l then
    -- of a time before it was used last
    if l.ends >= ends and (l.state == 'entered' or ARGV[6] == 'ready') then
        return answer(true)
    end

    instance = l.instance
else
    -- Let in by what was lost, the user stands in line again, or has come anew.
    instance = line.record(user)

    if line.leave(user) then
        event.count('left', 1)
    end

    event.count('restored', 1)
    origin.extend(now)
end

local restored = not l

l = {
    idx = tonumber(ARGV[4]), instance = instance, token = token,
    ends = math.max(ends, l and l.ends or 0), state = ARGV[6],
    since = tonumber(ARGV[7]), waited = tonumber(ARGV[8]),
}

-- who gets in after this comes after
line.raise_idx(l.idx)
lease.write(user, l)

if restored and instance ~= '' then
    event.announce('promoted', user, instance, l.idx, l)
end

setting.apply_capacity(setting.read().capacity)
event.publish_slots()

return answer(true, restored)
