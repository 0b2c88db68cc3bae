-- Which data these are.  When Redis has lost them, or another process serves
-- them than before, some of what was known may be missing: nobody is let in for
-- a while, so that all workers can put back whom they know, and nobody goes in
-- over the heads of those who are inside or before those who came earlier.
--
-- `run` is the process of Redis, `since` when it was first seen, in us, and
-- `until` when people are let in again, in ms.
local origin = {}

-- ms: in so long every worker has connected again, and put back whom it knows
-- first; each one who is put back adds to it, up to the most
origin.hold = 5000
origin.more = 2000
origin.most = 60000

-- Asked for once in a call, and then as it was written.
local stored

-- The fields, false for those that are not there, `since` as a number.  One of
-- nonsense, put there by hand, is none: else every heartbeat would fail by it.
function origin.read()
    if not stored then
        stored = redis.pcall('HMGET', key.origin, 'run', 'since', 'until')

        if stored.err then
            -- put there by hand
            redis.call('DEL', key.origin)
            stored = { false, false, false }
        end

        local since = tonumber(stored[2] or '')

        stored[2] = since and since >= 1 and since < 2 ^ 53
                    and math.floor(since) == since and since
    end

    return stored[1], stored[2], stored[3]
end

function origin.write(...)
    redis.call('HSET', key.origin, ...)
    stored = nil
end

-- In how many ms people are let in; 0: they are.  Where no worker has seen the
-- data yet, there was no time to put anybody back.
function origin.left(now)
    local _, since, till = origin.read()
    local left = (tonumber(till or '') or 0) - now

    if not since then
        return origin.hold
    end

    -- more than ever was said: a clock was set back
    return left > 0 and left <= origin.most and math.ceil(left) or 0
end

-- The least idx of one who comes now.  As long as somebody may be put back it is
-- the time since when the data are there, in us: behind all that was given
-- before, even where nobody who is asked knows of it, and before all that will
-- be given after another loss.
function origin.least_idx(now, us)
    if origin.left(now) == 0 then
        return 0
    end

    local _, since = origin.read()

    return since or us
end

-- Somebody was put back: there may be more of them.
function origin.extend(now)
    local _, since, till = origin.read()
    local last = math.floor((since or 0) / 1000) + origin.most
    local new = math.min(now + origin.more, last)

    if since and new > (tonumber(till or '') or 0) then
        origin.write('until', string.format('%.0f', new))
    end
end
