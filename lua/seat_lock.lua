-- seat_lock.lua: a request wants the lock of a seat.  Called again it changes
-- nothing but what time has: who holds the lock holds it, who is in line stays
-- there.
--
-- KEYS[1]  lock:seat:{e}:s
-- KEYS[2]  lock:seat:{e}:s/waiting, those in line
-- KEYS[3]  ENTRY
-- ARGV[1]  the event
-- ARGV[2]  the seat
-- ARGV[3]  the instance
-- ARGV[4]  its number for the request
-- ARGV[5]  how long it waits, in ms from the first call on; 0: not at all
-- ARGV[6]  how long it may hold the lock, in ms
-- returns  { 1 if it holds the lock, ms until that of the holder is over or nil
--          for one that has no end, how many are before it in line or nil if it
--          is not there }
-- cost     O(log n) of those in line

-- @include time
-- @include seat

local me = seat.owner(ARGV[3], ARGV[4])
local member = seat.member(ARGV[3], ARGV[4], ARGV[5], ARGV[6])
local wait, lease = tonumber(ARGV[5]), tonumber(ARGV[6])
local holder = redis.call('GET', key.lock)
local ms, us = now_ms()

if not holder then
    local head, more = seat.head(us)

    if head and head.member ~= member then
        -- the lock has lapsed, and nobody was there to hand it on
        seat.hand_over(head, ms)
    elseif not more then
        if head then
            redis.call('ZREM', key.line, member)
        end

        redis.call('SET', key.lock, me, 'PX', lease)

        return { 1, lease, false }
    end
end

local left = redis.call('PTTL', key.lock)

-- by the operator, say
left = left >= 0 and left

if holder == me then
    return { 1, left, false }
end

if wait == 0 then
    return { 0, left, false }
end

if not redis.call('ZSCORE', key.line, member) then
    local last = redis.call('ZREVRANGE', key.line, 0, 0, 'WITHSCORES')
    local arrival = math.max(us, (tonumber(last[2]) or 0) + 1)

    redis.call('ZADD', key.line, string.format('%.0f', arrival), member)

    -- by then the wait of all who are in it is over
    redis.call('PEXPIRE', key.line,
               math.max(wait + 1000, redis.call('PTTL', key.line)))
end

return { 0, left, redis.call('ZRANK', key.line, member) }
