-- One event: its keys, in the order in which every script of an event gets
-- them, and its counters.  ARGV[1] is the event in all of them.
local event = { id = ARGV[1] }

local key = {
    waiting = KEYS[1], record = KEYS[2], user_ids = KEYS[3], idx = KEYS[4],
    slots = KEYS[5], entry = KEYS[6], token = KEYS[7], active = KEYS[8],
    lease = KEYS[9], seen = KEYS[10], gone = KEYS[11], stats = KEYS[12],
    conf = KEYS[13], override = KEYS[14], events = KEYS[15],
    seats = KEYS[16], instances = KEYS[17], origin = KEYS[18],
}

-- What most scripts need of WAITING_STATS: asked for once in a call, and kept
-- as it changes.
local stats

function event.stat(name)
    if not stats then
        local values = redis.call('HMGET', key.stats, 'capacity', 'sold',
                                  'joined', 'promoted', 'gone', 'epoch',
                                  'period', 'used')

        stats = {
            capacity = values[1], sold = values[2], joined = values[3],
            promoted = values[4], gone = values[5], epoch = values[6],
            period = values[7], used = values[8],
        }
    end

    return stats[name]
end

function event.set_stat(name, value)
    redis.call('HSET', key.stats, name, value)

    if stats then
        stats[name] = value
    end
end

function event.count(name, n)
    local value = redis.pcall('HINCRBY', key.stats, name, n)

    if type(value) == 'table' then
        -- no number was there, written by hand: it begins anew
        value = n
        redis.call('HSET', key.stats, name, value)
    end

    if stats then
        stats[name] = value
    end

    return value
end

-- Whatever was written there by hand: a whole number that one can count to.
local function sane(value)
    local number = tonumber(value or 0) or 0

    return number > 0 and number < 2 ^ 53 and math.floor(number) or 0
end

-- The value of the counter of this name, one of those above.
function event.counter(name)
    return sane(event.stat(name))
end

-- The values of the counters of these names, any of them, in their order.
function event.counters(...)
    local values = redis.call('HMGET', key.stats, ...)

    for i, value in ipairs(values) do
        values[i] = sane(value)
    end

    return unpack(values)
end

-- Computed, never added up: whatever happens to the counter of free slots, it
-- cannot drift.
function event.free_slots()
    return event.counter('capacity') - event.counter('sold')
           - redis.call('ZCARD', key.active)
end

-- The counter, for all who read it; at the end of each script that may have
-- changed it.
function event.publish_slots()
    redis.call('HSET', key.slots, event.id, event.free_slots())
    event.slots_changed = false
end

-- Seats that were sold since the data are there, as far as nobody was let in
-- meanwhile: those that no node has counted before.  Where no worker has seen
-- the data yet they are counted for the time that is to come.
function event.sold_anew(since)
    local sold_anew = redis.call('HGET', key.stats, 'sold_anew') or ''
    local of, n = sold_anew:match('^(%d+) (%d+)$')

    return (of == '0' or of == string.format('%.0f', since or 0))
           and sane(n) or 0
end

function event.set_sold_anew(since, n)
    redis.call('HSET', key.stats, 'sold_anew',
               string.format('%.0f %.0f', since or 0, n))
end

-- Seats left, nil where nobody counts them.
function event.seats()
    return tonumber(redis.call('GET', key.seats) or '')
end

-- Why nobody is let in any more and nobody waits, or nil.  Where nobody counts
-- seats, none is sold out.
function event.over(values)
    if values.closed == 1 then
        return 'closed'
    end

    local seats = event.seats()

    return seats and seats <= 0 and 'sold_out' or nil
end

-- A name for the data as they are: it changes when Redis has lost some, so that
-- every worker looks after its own clients.  Empty if there is none and no seed
-- to make one of.
function event.epoch(seed)
    local epoch = event.stat('epoch')

    if not epoch and seed then
        event.set_stat('epoch', seed)
        epoch = seed
    end

    return epoch or ''
end

-- The worker that holds the user's stream is told, if there is one; the router
-- finds it.  The idx says which place or lease is meant: by the time that the
-- message is read the user may have a new one.
function event.announce(kind, user, instance, idx, l, serial)
    if instance == '' then
        return
    end

    redis.call('XADD', key.entry, '*', 'type', kind, 'userId', user,
               'eventId', event.id, 'instanceId', instance,
               'idx', string.format('%.0f', idx),
               'token', l and l.token or '',
               'expiresAt', string.format('%.0f', l and l.ends or 0),
               'serial', string.format('%.0f', serial or 0))
end

-- The user has come back to another instance: the one that held the connection
-- before ends it, unless it has itself a newer one by then.
function event.replace(user, previous, instance, idx, l, serial)
    if previous ~= instance then
        event.announce('replaced', user, previous, idx, l, serial)
    end
end
