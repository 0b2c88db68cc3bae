-- touch.lua: a token is used.
--
-- KEYS     of the event, see lib/event.lua
-- ARGV[2]  the user
-- ARGV[3]  the token
-- returns  { 1 if it is the token of a lease that this user holds, else 0; the
--            lease's end in ms; how long the user has waited in ms; for how many
--            ms nobody is let in, because data were lost: perhaps this lease too;
--            idx; when it was used first, in ms }
--          Whoever uses it has entered, and has it for another while.
-- cost     O(log n) of those inside

-- @include time
-- @include event
-- @include origin
-- @include settings
-- @include lease

local user = ARGV[2]
local now = now_ms()
local ends = tonumber(redis.call('ZSCORE', key.active, user) or '')

if not ends or ends <= now then
    return { 0, 0, 0, origin.left(now), 0, 0 }
end

local l = lease.read(user)

-- Lua compares strings by their address: how alike the two are does not show in
-- the time that it takes.
if l.token ~= ARGV[3] then
    return { 0, 0, 0, origin.left(now), 0, 0 }
end

l.since = l.since or now
lease.use(l, setting.read(), now)
lease.write(user, l)

return { 1, string.format('%.0f', l.ends), l.waited, 0,
         string.format('%.0f', l.idx), string.format('%.0f', l.since) }
