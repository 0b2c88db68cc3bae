-- discard_messages.lua: messages of a stream of messages have been dealt with.
--
-- KEYS[1]  the stream: DISPATCH:{instance} or ENTRY
-- ARGV[1]  the consumer group
-- ARGV[2+] ids of messages, at most 100
-- returns  { how many were acknowledged, how many removed }
-- cost     O(n) of the ids

local ids = { unpack(ARGV, 2) }

return {
    redis.call('XACK', KEYS[1], ARGV[1], unpack(ids)),
    redis.call('XDEL', KEYS[1], unpack(ids)),
}
