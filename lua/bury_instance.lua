-- bury_instance.lua: removes the traces of a dead instance, once another has
-- taken over the messages of ENTRY that it had read and not routed.
--
-- KEYS[1]  WAITING_INSTANCES
-- KEYS[2]  DISPATCH:{instance}
-- KEYS[3]  ENTRY
-- ARGV[1]  the instance
-- ARGV[2]  the consumer group of ENTRY
-- ARGV[3]  the heartbeat, in ms, after which it was taken for dead; empty: it
--          goes by itself
-- returns  { 1 }, or { 0 } while it still has such messages, or if it is back,
--          or was buried by another: nothing is changed
-- cost     O(log n) of the pending messages; the stream is freed aside

local heartbeat = tonumber(redis.call('ZSCORE', KEYS[1], ARGV[1]) or '')

if heartbeat and heartbeat > (tonumber(ARGV[3]) or math.huge)
    or not heartbeat and ARGV[3] ~= ''
then
    return { 0 }
end

local pending = redis.pcall('XPENDING', KEYS[3], ARGV[2], '-', '+', 1, ARGV[1])

if not pending.err then
    if #pending > 0 then
        return { 0 }
    end

    redis.call('XGROUP', 'DELCONSUMER', KEYS[3], ARGV[2], ARGV[1])

elseif not pending.err:find('NOGROUP', 1, true)
    and not pending.err:find('WRONGTYPE', 1, true)
then
    -- not to know is not to have none
    return pending
end

redis.call('ZREM', KEYS[1], ARGV[1])
redis.call('UNLINK', KEYS[2])

return { 1 }
