-- status.lua: somebody without a stream asks how things stand.  Who is in line
-- keeps the place by it, who has entered gets another while; who is neither gets
-- nothing by it, and leaves nothing behind.
--
-- KEYS     of the event, see lib/event.lua
-- ARGV[2]  the user
-- ARGV[3]  random seed for a token
-- ARGV[4]  nginx.conf's settings as "name=value ..."
-- returns  as join.lua, but never unknown or full; none for who is neither in
--          line nor in
-- cost     O(log n) of those in line

-- @include time
-- @include event
-- @include origin
-- @include settings
-- @include line
-- @include lease
-- @include rate
-- @include answer

local user, seed = ARGV[2], ARGV[3]
local now, serial = now_ms()
local l = lease.find(user, now, seed)
local idx = not l and line.idx(user)

if not l and not idx then
    local values = setting.read()
    local call = { serial = serial, now = now, values = values }

    return answer(call, event.over(values) or 'none')
end

local values, changed = setting.take(ARGV[4], '')
local call = { seed = seed, changed = changed, serial = serial, now = now,
               values = values or setting.read() }

if idx then
    return answer_in_line(call, user, idx, now)
end

-- To look is not to enter: who is let in and does not come makes room.
if l.state == 'entered' then
    lease.use(l, call.values, now)
end

-- but is not one who was not told
l.told = true
lease.write(user, l)

return answer(call, l.state, { lease = l })
