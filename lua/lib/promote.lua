-- From the head of the line into the free slots, as far as the rate allows: how
-- many were let in, and how many were looked at.
local function promote(values, now, seed, limit)
    local n = math.min(event.free_slots(), rate.left(values, now), limit)

    if n <= 0 or values.paused == 1 or origin.left(now) > 0
        or event.over(values)
    then
        return 0, 0
    end

    local members = redis.call('ZRANGE', key.waiting, 0, n - 1, 'WITHSCORES')
    local promoted = 0

    for i = 1, #members, 2 do
        local user = line.user_of(members[i])
        local idx = tonumber(members[i + 1])

        if user then
            local instance, came, serial = line.record(user)
            -- should the stream be gone: the user will ask, and hear of it
            local asks = instance ~= ''
                         and line.asks(user, now - values.poll_timeout)

            event.count('promoted', 1)
            line.take(user)

            local l = lease.give(user, {
                idx = idx, instance = instance, serial = serial,
                state = 'ready', came = came, told = asks,
            }, now, values.claim, seed)

            event.announce('promoted', user, instance, idx, l)
            promoted = promoted + 1
        else
            -- put there by hand: only this one is left out
            redis.call('ZREM', key.waiting, members[i])
            line.note(math.max(idx, 0), 'idx')
            event.count('garbage', 1)
        end
    end

    rate.spend(values, now, promoted)

    return promoted, #members / 2
end
