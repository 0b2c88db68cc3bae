-- The line of those who wait.  Who is in it is decided by WAITING alone; the
-- records follow it.
local line = {}

function line.member(user)
    return '{"userId":"' .. user .. '"}'
end

function line.user_of(member)
    return member:match('^{"userId":"([^"]+)"}$')
end

-- nil for who is not in line
function line.idx(user)
    return tonumber(redis.call('ZSCORE', key.waiting, line.member(user)) or '')
end

function line.rank(user)
    return redis.call('ZRANK', key.waiting, line.member(user))
end

-- The instance in a record, empty where there is none.
function line.holder(record)
    return record:match('"instanceId":"([^"]*)"') or ''
end

-- The instance that holds the user's connection, empty for who has none; when
-- the user came, in ms; and the serial of the connection: as far as the record
-- tells.
function line.record(user)
    local record = redis.call('HGET', key.record, user) or ''

    return line.holder(record), tonumber(record:match('"since":(%d+)') or ''),
           tonumber(record:match('"serial":(%d+)') or '')
end

function line.write(user, idx, instance, since, serial)
    redis.call('HSET', key.record, user,
               '{"userId":"' .. user .. '","eventId":"' .. event.id
               .. '","idx":' .. string.format('%.0f', idx)
               .. ',"instanceId":"' .. instance .. '","since":'
               .. string.format('%.0f', since or 0)
               .. (serial and ',"serial":' .. string.format('%.0f', serial)
                   or '') .. '}')
    redis.call('HSET', key.user_ids, user, 'true')
    redis.call('SADD', key.events, event.id)
end

-- The instance holds the user's connection from now on, and the one that did
-- before is told.  Which one that was.
function line.hold(user, idx, instance, serial)
    local previous, since = line.record(user)

    line.write(user, idx, instance, since, serial)
    redis.call('ZREM', key.seen, user)
    event.replace(user, previous, instance, idx, nil, serial)

    return previous
end

function line.put(user, idx, instance, since, serial)
    redis.call('ZADD', key.waiting, idx, line.member(user))
    line.write(user, idx, instance, since, serial)
end

-- The user has asked without a stream: a place that nobody is connected for is
-- kept by that.
function line.see(user, now)
    redis.call('ZADD', key.seen, now, user)
end

-- An idx from this on was put there by hand, and stands behind all that are
-- given: nobody could count on from there.
line.most = 2 ^ 52

local function is_idx(n)
    return type(n) == 'number' and n > 0 and n < line.most
end

-- The idx of a newcomer: behind everybody, whatever became of the counter.
-- After a loss of data nobody knows all that was given: those who come then
-- stand far behind all that the caller knew, and not before the least, so that
-- there is room for everybody who comes back.
function line.next_idx(known, least)
    local given = redis.pcall('HINCRBY', key.idx, event.id, 1)
    local counted = is_idx(given)
    local idx = math.max(counted and given or 1, least)

    if is_idx(known) and idx <= known then
        idx = known + 1000001
    end

    local bound = string.format('(%.0f', line.most)

    if redis.call('ZCOUNT', key.waiting, idx, bound) > 0 then
        local last = redis.call('ZRANGE', key.waiting, bound, idx, 'BYSCORE',
                                'REV', 'LIMIT', 0, 1, 'WITHSCORES')

        idx = math.floor(tonumber(last[2])) + 1
    end

    if not counted or idx ~= given then
        redis.call('HSET', key.idx, event.id, string.format('%.0f', idx))
    end

    return idx
end

-- the same for a caller who brings an idx
function line.raise_idx(known)
    local idx = tonumber(redis.call('HGET', key.idx, event.id) or '')

    if is_idx(known) and (not is_idx(idx) or idx < known) then
        redis.call('HSET', key.idx, event.id,
                   string.format('%.0f', known + 1000000))
    end
end

-- The one thing that decides whether somebody was in line is this ZREM; the idx
-- if so, else nil.
function line.take(user)
    local idx = line.idx(user)

    if idx then
        redis.call('ZREM', key.waiting, line.member(user))
    end

    redis.call('HDEL', key.record, user)
    redis.call('HDEL', key.user_ids, user)
    redis.call('ZREM', key.seen, user)

    return idx
end

-- Those behind are told by this stream that one in front of them is gone (or,
-- after a loss of data, back).  The id of an entry is its number, and the
-- counter `gone` that of the last.
function line.note(idx, sign)
    local id = string.format('%.0f-0', event.count('gone', 1))
    local entry = { 'XADD', key.gone, 'MAXLEN', '~', 10000, id, sign,
                    string.format('%.0f', idx) }
    local added = redis.pcall(unpack(entry))

    if type(added) == 'table' and added.err then
        -- numbers that are not of this counter: whoever reads must resync
        redis.call('DEL', key.gone)
        redis.call(unpack(entry))
    end
end

-- The user leaves.  True if there was a place; the caller counts it.
function line.leave(user)
    local idx = line.take(user)

    if idx then
        line.note(idx, 'idx')
    end

    return idx ~= nil
end

-- Whether the user asks without a stream, and has since that time.
function line.asks(user, oldest)
    local seen = tonumber(redis.call('ZSCORE', key.seen, user) or '')

    return seen ~= nil and seen > oldest
end

-- The connection that held the place is no more, and has not come back in time.
-- Who asks without a stream has the place all the same, and is waited for as
-- long as any other who does.  True if the user has left.
function line.abandon(user, idx, oldest)
    if line.asks(user, oldest) then
        local _, since = line.record(user)

        line.write(user, idx, '', since)
        return false
    end

    return line.leave(user)
end

-- Those who asked without a stream, and have not since that time, leave; at
-- most so many.  How many were looked at, and how many left.
function line.reap(oldest, limit)
    local silent = redis.call('ZRANGEBYSCORE', key.seen, '-inf', oldest,
                              'LIMIT', 0, limit)
    local left = 0

    for _, user in ipairs(silent) do
        if line.record(user) ~= '' then
            -- somebody is connected, and that is what counts
            redis.call('ZREM', key.seen, user)
        elseif line.leave(user) then
            left = left + 1
        end
    end

    return #silent, left
end
