-- One event: its keys, in the order in which every script of an event gets
-- them, and its counters.  ARGV[1] is the event in all of them.
local event = { id = ARGV[1] }

local key = {
    waiting = KEYS[1], record = KEYS[2], user_ids = KEYS[3], idx = KEYS[4],
    slots = KEYS[5], entry = KEYS[6], token = KEYS[7], active = KEYS[8],
    lease = KEYS[9], seen = KEYS[10], gone = KEYS[11], stats = KEYS[12],
    conf = KEYS[13], override = KEYS[14], events = KEYS[15],
    seats = KEYS[16],
}

function event.count(name, n)
    return redis.call('HINCRBY', key.stats, name, n)
end

function event.counter(name)
    return tonumber(redis.call('HGET', key.stats, name) or 0) or 0
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
end

-- A name for the data as they are: it changes when Redis has lost some, so that
-- every worker looks after its own clients.
function event.epoch(seed)
    redis.call('HSETNX', key.stats, 'epoch', seed)
    return redis.call('HGET', key.stats, 'epoch')
end

-- The worker that holds the user's stream is told; the router finds it.
function event.announce(kind, user, instance, l)
    redis.call('XADD', key.entry, '*', 'type', kind, 'userId', user,
               'eventId', event.id, 'instanceId', instance,
               'token', l and l.token or '', 'expiresAt', l and l.ends or 0)
end
