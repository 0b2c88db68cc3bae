-- ranks.lua: where some users stand, all at one moment.
--
-- KEYS     of the event, see lib/event.lua
-- ARGV[2]  the instance that holds their connections
-- ARGV[3+] users, at most 500
-- returns  { total, promoted, gone, joined, epoch or empty, ranks: from 0, or
--            -1 for who is not in line, or is held by another instance; one for
--            each user }
-- cost     O(users * log n) of those in line; writes nothing

-- @include event
-- @include line

local ranks = {}
local records = {}

if #ARGV > 2 then
    records = redis.call('HMGET', key.record, unpack(ARGV, 3))
end

for i, record in ipairs(records) do
    ranks[i] = line.holder(record or '') == ARGV[2] and line.rank(ARGV[i + 2])
               or -1
end

return {
    redis.call('ZCARD', key.waiting), event.counter('promoted'),
    event.counter('gone'), event.counter('joined'), event.epoch(), ranks,
}
