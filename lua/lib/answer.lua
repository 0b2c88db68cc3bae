-- What join and its kin answer, see join.lua.  The call has seed, changed and
-- serial; the place what is known of: idx, rank, total, lease, previous.
local function answer(call, status, place)
    if event.slots_changed then
        event.publish_slots()
    end

    place = place or {}

    local l = place.lease or {}

    return {
        status, place.idx or l.idx or false, place.rank or false,
        place.total or redis.call('ZCARD', key.waiting),
        event.counter('promoted'), event.counter('gone'),
        event.counter('joined'),
        l.token or false, l.ends or false, place.previous or false,
        call.changed and 1 or 0, event.epoch(call.seed),
        string.format('%.0f', call.serial), l.waited or 0,
    }
end
