-- The leases of those who are in: a slot, a token, and a time at which both
-- lapse.
local lease = {}

function lease.new_token(user, idx, seed)
    return redis.sha1hex(seed .. ':' .. user .. ':'
                         .. string.format('%.0f', idx))
end

-- nil if the user has none; one that has lapsed but was not yet taken back is
-- none too
function lease.find(user, now, seed)
    local ends = tonumber(redis.call('ZSCORE', key.active, user) or '')

    if not ends or ends <= now then
        return nil
    end

    local record = redis.call('HGET', key.lease, user) or ''
    local idx = tonumber(record:match('"idx":(%d+)') or '') or 0

    return {
        ends = ends, idx = idx,
        token = redis.call('GET', key.token .. user)
                or lease.new_token(user, idx, seed),
        instance = record:match('"instanceId":"([^"]*)"') or '',
        state = record:match('"state":"entered"') and 'entered' or 'ready',
        since = tonumber(record:match('"since":(%d+)') or '') or now,
    }
end

function lease.write(user, l)
    local ends = string.format('%.0f', l.ends)

    redis.call('ZADD', key.active, ends, user)
    redis.call('SET', key.token .. user, l.token, 'PXAT', ends)
    redis.call('HSET', key.lease, user,
               '{"userId":"' .. user .. '","eventId":"' .. event.id
               .. '","idx":' .. string.format('%.0f', l.idx)
               .. ',"instanceId":"' .. l.instance .. '","state":"' .. l.state
               .. '","since":' .. string.format('%.0f', l.since) .. '}')
    redis.call('SADD', key.events, event.id)
end

-- Takes a slot: the caller has seen that there is one.
function lease.give(user, idx, instance, state, now, ms, seed)
    local l = {
        ends = now + ms, idx = idx, instance = instance, state = state,
        since = now, token = lease.new_token(user, idx, seed),
    }

    lease.write(user, l)

    return l
end

-- Ends a lease.  The one thing that decides is this ZREM; true if there was
-- one.
function lease.take_back(user)
    if redis.call('ZREM', key.active, user) == 0 then
        return false
    end

    redis.call('HDEL', key.lease, user)
    redis.call('DEL', key.token .. user)

    return true
end

-- Takes back what has lapsed, at most so many; how many there were.
function lease.reap(now, limit)
    local lapsed = redis.call('ZRANGEBYSCORE', key.active, '-inf', now,
                              'LIMIT', 0, limit)

    for _, user in ipairs(lapsed) do
        local record = redis.call('HGET', key.lease, user) or ''

        lease.take_back(user)
        event.count('expired', 1)
        event.announce('expired', user,
                       record:match('"instanceId":"([^"]*)"') or '')
    end

    return #lapsed
end
