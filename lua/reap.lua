-- reap.lua: what a dead instance held is given up when the grace time is over,
-- some of it a call: those in line leave, and where a lease ends with the
-- connection it is taken back.  Who came back elsewhere is not touched.
--
-- KEYS     of the event, see lib/event.lua
-- ARGV[2]  the dead instance
-- ARGV[3]  where the last call stopped, empty at first
-- ARGV[4]  about so many users are looked at
-- ARGV[5]  the heartbeat, in ms, after which it was taken for dead
-- returns  { where to go on, empty when it is done; how many left the line; how
--            many leases were taken back; ms still to wait, in which nothing
--            is done: of the grace time, or because the instance is back }
-- cost     O(users looked at * log n)

-- @include time
-- @include event
-- @include settings
-- @include line
-- @include lease

local values = setting.read()
local silent_since = tonumber(ARGV[5]) or 0
local heartbeat = tonumber(redis.call('ZSCORE', key.instances, ARGV[2]) or '')
local is_back = heartbeat and heartbeat > silent_since
local wait = math.ceil((is_back and heartbeat or silent_since) + values.grace
                       - now_ms())

if wait > 0 or is_back then
    return { '', 0, 0, math.max(wait, 1) }
end

-- What was reaped here stays listed as long as another event has more grace; it
-- is not looked for in every round until then.  "instance=heartbeat ..."
local mark = ARGV[2] .. '=' .. string.format('%.0f', silent_since)
local reaped = redis.call('HGET', key.stats, 'reaped') or ''

if (' ' .. reaped .. ' '):find(' ' .. mark .. ' ', 1, true) then
    return { '', 0, 0, 0 }
end

-- Should it come back after this, its next heartbeat tells it that places were
-- given up.  The time stays known: in another event there may be more grace.
if heartbeat and heartbeat > 0 then
    redis.call('ZADD', key.instances, string.format('%.0f', -heartbeat),
               ARGV[2])
end

-- Which of the two hashes, and the cursor of its scan; what is neither begins
-- anew.
local where, cursor = ARGV[3]:match('^(l%l+):(%d+)$')

if where == 'lease' and values.release ~= 1 then
    return { '', 0, 0, 0 }
elseif where ~= 'lease' then
    where, cursor = 'line', where == 'line' and cursor or '0'
end

local left, released = 0, 0
local oldest = now_ms() - values.poll_timeout

local function give_up(user)
    if where == 'lease' then
        local l = lease.find(user, now_ms(), mark)

        if l and lease.finish(user, l, now_ms()) or lease.take_back(user) then
            released = released + 1
        end

        return
    end

    local idx = line.idx(user)

    if idx and line.abandon(user, idx, oldest) then
        left = left + 1
    elseif not idx then
        line.take(user)
    end
end

local scan = redis.call('HSCAN', where == 'line' and key.record or key.lease,
                        cursor, 'COUNT', ARGV[4])

for i = 1, #scan[2], 2 do
    local user, record = scan[2][i], scan[2][i + 1]

    if record:match('"instanceId":"([^"]*)"') == ARGV[2] then
        give_up(user)
    end
end

if left + released > 0 then
    event.count('left', left + released)
end

if released > 0 then
    event.publish_slots()
end

if scan[1] ~= '0' then
    cursor = where .. ':' .. scan[1]
elseif where == 'line' and values.release == 1 then
    cursor = 'lease:0'
else
    cursor = ''

    for other, since in reaped:gmatch('(%S+)=(%d+)') do
        if redis.call('ZSCORE', key.instances, other) then
            mark = mark .. ' ' .. other .. '=' .. since
        end
    end

    -- one that is not listed is not asked for again
    if heartbeat then
        redis.call('HSET', key.stats, 'reaped', mark)
    end
end

return { cursor, left, released, 0 }
