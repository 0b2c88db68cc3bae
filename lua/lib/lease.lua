-- The leases of those who are in: a slot, a token, and a time at which both
-- lapse.
local lease = {}

function lease.new_token(user, idx, seed)
    return redis.sha1hex(seed .. ':' .. user .. ':'
                         .. string.format('%.0f', idx))
end

-- What is stored of a lease, as far as it can be read: the token is gone when
-- its time is over.
function lease.read(user)
    local record = redis.call('HGET', key.lease, user) or ''

    return {
        idx = tonumber(record:match('"idx":(%d+)') or '') or 0,
        token = redis.call('GET', key.token .. user) or nil,
        instance = record:match('"instanceId":"([^"]*)"') or '',
        serial = tonumber(record:match('"serial":(%d+)') or ''),
        state = record:match('"state":"entered"') and 'entered' or 'ready',
        since = tonumber(record:match('"since":(%d+)') or ''),
        waited = tonumber(record:match('"waited":(%d+)') or '') or 0,
        told = record:match('"told":true') ~= nil,
    }
end

-- Nil if the user has none; one that has lapsed but was not yet taken back is
-- none too, but said by a second value of true.  Where its token is lost another
-- is made, if there is a seed.
function lease.find(user, now, seed)
    local ends = tonumber(redis.call('ZSCORE', key.active, user) or '')

    if not ends or ends <= now then
        return nil, ends ~= nil
    end

    local l = lease.read(user)

    l.ends = ends
    l.token = l.token or seed and lease.new_token(user, l.idx, seed)
    l.since = l.since or now

    return l
end

function lease.write(user, l)
    local ends = string.format('%.0f', l.ends)

    redis.call('ZADD', key.active, ends, user)
    redis.call('SET', key.token .. user, l.token, 'PXAT', ends)
    redis.call('HSET', key.lease, user,
               '{"userId":"' .. user .. '","eventId":"' .. event.id
               .. '","idx":' .. string.format('%.0f', l.idx)
               .. ',"instanceId":"' .. l.instance .. '","state":"' .. l.state
               .. '","since":' .. string.format('%.0f', l.since)
               .. ',"waited":' .. string.format('%.0f', l.waited)
               .. (l.serial and ',"serial":'
                   .. string.format('%.0f', l.serial) or '')
               .. (l.told and ',"told":true}' or '}'))
    redis.call('SADD', key.events, event.id)
end

-- Takes a slot, for so many ms: the caller has seen that there is one, and says
-- of the lease what is known by then: idx, instance, serial, state; came, when
-- the user did; told, of who knows, or will, without a stream.
function lease.give(user, l, now, ms, seed)
    l.ends, l.since = now + ms, now
    l.token = lease.new_token(user, l.idx, seed)
    l.waited = math.max(now - (l.came or now), 0)

    lease.write(user, l)
    event.slots_changed = true

    return l
end

-- The instance holds the user's connection from now on, and the one that did
-- before is told.  Which one that was.
function lease.hold(user, l, instance, serial)
    local previous = l.instance

    l.instance, l.serial = instance, serial
    lease.write(user, l)
    event.replace(user, previous, instance, l.idx, l, serial)

    return previous
end

-- The first use of a lease enters; every use gives it another while, up to the
-- hard cap.  The caller writes it.
function lease.use(l, values, now)
    if l.state == 'ready' then
        l.state = 'entered'
        l.since = now
        event.count('entered', 1)
    end

    l.ends = now + values.ttl

    if values.ttl_max > 0 then
        l.ends = math.min(l.ends, l.since + values.ttl_max)
    end
end

-- Ends a lease.  The one thing that decides is this ZREM; true if there was
-- one.
function lease.take_back(user)
    if redis.call('ZREM', key.active, user) == 0 then
        return false
    end

    redis.call('HDEL', key.lease, user)
    redis.call('DEL', key.token .. user)
    event.slots_changed = true

    return true
end

-- Where it is known that a lease has ended, or has sold its seat: no id has this
-- character.
function lease.mark(user, token)
    return key.token .. user .. '/' .. token
end

-- Whether it has ended before its time: what a node knows of it is out of date.
function lease.is_over(user, token)
    return redis.call('EXISTS', lease.mark(user, token)) == 1
end

-- Ends one before its time.  Who still takes it for good learns otherwise until
-- that time.  True if there was one.
function lease.finish(user, l, now)
    if not lease.take_back(user) then
        return false
    end

    redis.call('SET', lease.mark(user, l.token), 'over', 'NX',
               'PX', math.ceil(math.max(l.ends - now, 1)))

    return true
end

-- Takes back a lease that has lapsed, and tells the one who held it.
function lease.lapse(user)
    local l = lease.read(user)

    if lease.take_back(user) then
        event.count('expired', 1)
        event.announce('expired', user, l.instance, l.idx, l)
    end
end

-- Takes back what has lapsed, at most so many; how many there were.
function lease.reap(now, limit)
    local lapsed = redis.call('ZRANGEBYSCORE', key.active, '-inf', now,
                              'LIMIT', 0, limit)

    for _, user in ipairs(lapsed) do
        lease.lapse(user)
    end

    return #lapsed
end
