-- What an operator wants to know of an event, in the order of
-- ngx_http_wq_figures_t.
local figures = {}

-- How far what is counted twice differs: the slots that were published from
-- those that there are, the leases from those who are inside.  0 is as it must
-- be.
function figures.drift()
    local free = event.free_slots()
    local published = redis.call('HGET', key.slots, event.id)

    return math.abs((tonumber(published or '') or free) - free)
           + math.abs(redis.call('HLEN', key.lease)
                      - redis.call('ZCARD', key.active))
end

-- Whatever was written by hand: a whole number that a caller can take.
local function bounded(number, least)
    if number ~= number then
        return 0
    end

    return math.floor(math.min(math.max(number, least), 2 ^ 53))
end

function figures.all(values, drift, now)
    local limit = values.rate or { users = 0, ms = 0 }
    local _, since = origin.read()
    local joined, direct, promoted, left, expired, entered, done, sold =
        event.counters('joined', 'direct', 'promoted', 'left', 'expired',
                       'entered', 'done', 'sold')

    local list = {
        redis.call('ZCARD', key.waiting), redis.call('ZCARD', key.active),
        event.free_slots(), event.counter('capacity'), sold,
        event.seats() or -1, joined, direct, promoted, entered, left, expired,
        done, drift, limit.users, limit.ms, values.concurrent or 0,
        rate.halted(values) and 1 or 0, origin.left(now), since or 0,
    }

    for i, number in ipairs(list) do
        -- slots may be owed, and no seats left is not none counted
        list[i] = bounded(number, i == 3 and -2 ^ 53 or i == 6 and -1 or 0)
    end

    return list
end
