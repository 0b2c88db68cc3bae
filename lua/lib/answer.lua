-- What join and its kin answer, see join.lua.  The call has seed, changed,
-- serial, now, and the values of the settings; the place what is known of: idx, rank,
-- total, lease, previous; opens, see rate.opens.
local function answer(call, status, place)
    if event.slots_changed then
        event.publish_slots()
    end

    place = place or {}

    local l = place.lease or {}
    local limit = call.values.rate

    return {
        status, place.idx or l.idx or false, place.rank or false,
        place.total or redis.call('ZCARD', key.waiting),
        event.counter('promoted'), event.counter('gone'),
        event.counter('joined'),
        l.token or false, l.ends or false, place.previous or false,
        call.changed and 1 or 0, event.epoch(call.seed),
        string.format('%.0f', call.serial), l.waited or 0,
        limit and limit.users or 0, limit and limit.ms or 0,
        rate.halted(call.values) and 1 or 0,
        limit and status == 'waiting' and event.free_slots() <= 0 and 1 or 0,
        place.opens or 0, string.format('%.0f', l.since or 0),
        origin.left(call.now),
    }
end

-- The same for somebody in line who asks without a stream, which keeps the
-- place: unless nobody waits any more.  Who is connected is told by the worker.
local function answer_in_line(call, user, idx, now)
    local why = event.over(call.values)

    if why then
        line.leave(user)
        event.count('left', 1)

        return answer(call, why)
    end

    line.see(user, now)

    return answer(call, 'waiting', { idx = idx, rank = line.rank(user) })
end
