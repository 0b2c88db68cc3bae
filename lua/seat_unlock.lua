-- seat_unlock.lua: a request wants the lock of a seat no more, whether it holds
-- it or is in line.  The lock goes to the next at once; only its owner can give
-- it away.
--
-- KEYS, ARGV  those of seat_lock
-- returns  { 1 if it held the lock, 1 if another has it now }
-- cost     O(log n) of those in line

-- @include time
-- @include seat

local me = seat.owner(ARGV[3], ARGV[4])
local holder = redis.call('GET', key.lock)
local ms, us = now_ms()

redis.pcall('ZREM', key.line,
            seat.member(ARGV[3], ARGV[4], ARGV[5], ARGV[6]))

if holder and holder ~= me then
    return { 0, 0 }
end

local head = seat.head(us)

if head then
    seat.hand_over(head, ms)
elseif holder then
    redis.call('DEL', key.lock)
end

return { holder and 1 or 0, head and 1 or 0 }
