-- The rate: how many go in in one period.  The first period begins with the
-- first entry, and from then on they follow each other without a gap, whether
-- anybody goes in or not: what counts is the one that now belongs to.
local rate = {}

local function begin(ms)
    event.set_stat('period', string.format('%.0f', ms))
end

-- When it has begun, in ms, and how many have gone in in it.
local function current_period(limit, now)
    local began, used = event.counter('period'), event.counter('used')

    if began == 0 then
        return now, 0
    elseif began > now then
        -- Redis' clock was set back: those who went in count once more, in a
        -- period that has to end even if nobody may go in in it
        begin(now)

        return now, used
    end

    local passed = math.floor((now - began) / limit.ms)

    if passed > 0 then
        return began + passed * limit.ms, 0
    end

    return began, used
end

-- How many may go in now; if nobody may, in how many ms somebody may again, or
-- 0 if that is never.
function rate.left(values, now)
    local limit = values.rate

    if not limit then
        return math.huge, 0
    end

    local began, used = current_period(limit, now)

    if used < limit.users then
        return limit.users - used, 0
    end

    return 0, limit.users > 0 and began + limit.ms - now or 0
end

-- In how many ms a period begins that lets in those for whom there are slots;
-- 0 if that is not what they wait for.
function rate.opens(values, now)
    if not values.rate or values.paused == 1 or event.free_slots() <= 0
        or redis.call('ZCARD', key.waiting) == 0 or event.over(values)
    then
        return 0
    end

    local _, ms = rate.left(values, now)

    return ms
end

-- So many have gone in.
function rate.spend(values, now, n)
    if not values.rate or n == 0 then
        return
    end

    local began, used = current_period(values.rate, now)

    begin(began)
    event.set_stat('used', used + n)
end

-- Whether the operator lets nobody in for now: there is no telling when that
-- ends.
function rate.halted(values)
    return values.paused == 1
           or values.rate and values.rate.users == 0 or false
end
