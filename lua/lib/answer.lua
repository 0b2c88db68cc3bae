-- What join and its kin answer, see join.lua.
local function answer(seed, status, changed, idx, rank, l, previous)
    event.publish_slots()

    return {
        status, idx or false, rank or false,
        redis.call('ZCARD', key.waiting), event.counter('promoted'),
        event.counter('gone'), event.counter('joined'),
        l and l.token or false, l and l.ends or false, previous or false,
        changed and 1 or 0, event.epoch(seed),
    }
end
