-- positions.lua: one tick's news of one event.
--
-- KEYS     of the event, see lib/event.lua
-- ARGV[2]  the number of the last entry of WAITING_GONE that the caller knows
-- ARGV[3]  at most so many entries
-- returns  { number of the last entry returned, epoch, 1 if the caller must ask
--            for ranks anew, 1 if there are more entries, entries: idx of one
--            who is gone, or minus idx of one who is back, oldest first; state:
--            open, closed or sold_out; figures }
--          While there are more, the caller collects them all before it
--          computes a rank.
-- cost     O(entries); does not depend on how many wait; writes nothing

-- @include time
-- @include event
-- @include origin
-- @include settings
-- @include rate
-- @include figures

local known, limit = tonumber(ARGV[2]), tonumber(ARGV[3])
local last = event.counter('gone')
local entries = {}
local resync = 0

if known ~= last then
    local news = redis.call('XRANGE', key.gone,
                            string.format('%.0f-0', known + 1), '+',
                            'COUNT', limit)

    if known > last or not news[1]
        or tonumber(news[1][1]:match('^%d+')) ~= known + 1
    then
        -- the stream was trimmed, or Redis has lost its data
        resync = 1
    else
        for i, entry in ipairs(news) do
            local sign, idx = entry[2][1], tonumber(entry[2][2]) or 0

            entries[i] = sign == 'back' and -idx or idx
        end
    end
end

local reached = resync == 1 and last or known + #entries
local values = setting.read()

return {
    reached, event.epoch(), resync, reached < last and 1 or 0, entries,
    event.over(values) or 'open',
    figures.all(values, figures.drift(), now_ms()),
}
