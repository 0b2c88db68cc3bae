-- ranks.lua: where some users stand, all at one moment.
--
-- KEYS     of the event, see lib/event.lua
-- ARGV[2+] users, at most 500
-- returns  { total, promoted, gone, joined, epoch or empty, ranks: from 0, or
--            -1 for who is not in line, one for each user }
-- cost     O(users * log n) of those in line; writes nothing

-- @include event
-- @include line

local ranks = {}

for i = 2, #ARGV do
    ranks[i - 1] = line.rank(ARGV[i]) or -1
end

return {
    redis.call('ZCARD', key.waiting), event.counter('promoted'),
    event.counter('gone'), event.counter('joined'), event.epoch(), ranks,
}
