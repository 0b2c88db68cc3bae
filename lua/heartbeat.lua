-- heartbeat.lua: this instance is alive.
--
-- KEYS[1]  WAITING_INSTANCES
-- KEYS[2]  WAITING_ORIGIN
-- ARGV[1]  the instance
-- ARGV[2]  since when the data are there, as its node has heard it last; 0: it
--          has not
-- ARGV[3]  empty; or it is about to leave, and others are to look after what it
--          held: its clients come again within so many ms, for which the grace
--          time is not counted
-- returns  { now in ms, number of known instances, 1 if this one was not known:
--            it is new, or was taken for dead and places were given up; since
--            when the data are there, see lib/origin.lua: what a worker knows
--            of others is to be put back; for how many ms nobody is let in }
-- cost     O(log n) of the instances

local key = { instances = KEYS[1], origin = KEYS[2] }

-- @include time
-- @include origin

local now, us = now_ms()
local score = redis.pcall('ZSCORE', key.instances, ARGV[1])

if type(score) == 'table' and score.err:find('WRONGTYPE', 1, true) then
    -- put there by hand: nobody would be alive any more, and nobody dead
    redis.call('DEL', key.instances)
    score = nil
end

local before = tonumber(score or 0)

local leaves = tonumber(ARGV[3])

redis.call('ZADD', key.instances, leaves and -now - leaves or now, ARGV[1])

-- Another process than before has perhaps not all that the other had: a replica
-- that was behind, a file that was not written.  Where an ACL forbids to ask,
-- only an empty Redis is found out.
local info = redis.pcall('INFO', 'server')
local run = type(info) == 'string' and info:match('run_id:(%w+)')

local known_run, since, till = origin.read()
local known = tonumber(ARGV[2])

if run and known_run == '' then
    origin.write('run', run)
end

if not since or run and known_run ~= '' and known_run ~= run then
    -- where they are new to all there is nobody to be put back
    till = (since or known > 0) and now + origin.hold or 0
    since = us
    origin.write('run', run or '', 'since', string.format('%.0f', since),
                 'until', string.format('%.0f', till))

elseif known > 0 and known ~= since and till == '0' then
    -- who has come first did not know that there were others
    till = math.floor(since / 1000) + origin.hold
    origin.write('until', string.format('%.0f', till))
end

return { now, redis.call('ZCARD', key.instances), before > 0 and 0 or 1,
         string.format('%.0f', since), origin.left(now) }
