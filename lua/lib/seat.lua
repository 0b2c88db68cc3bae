-- The lock of one seat, and the line of those who wait for it.  Who stands where
-- is decided by the line alone: the score is the time of arrival in us, strictly
-- after that of the one before.
--
-- A waiter is one request of one instance, `instance/number`: the owner of the
-- lock is called so.  In the line it stands with how long it waits and how long
-- it may hold the lock, both in ms, so that a hand-over knows them: no id has
-- that character.
local seat = { event = ARGV[1], id = ARGV[2] }

local key = { lock = KEYS[1], line = KEYS[2], entry = KEYS[3] }

function seat.owner(instance, number)
    return instance .. '/' .. number
end

function seat.member(instance, number, wait, lease)
    return instance .. '/' .. number .. '/' .. wait .. '/' .. lease
end

-- The first in line who still waits, or nil.  Those whose wait is over are
-- dropped, as is what is no waiter: each once, at most so many in a call; true
-- besides if there may be more of them.
function seat.head(us)
    for _ = 1, 1000 do
        local first = redis.pcall('ZRANGE', key.line, 0, 0, 'WITHSCORES')

        if first.err then
            -- put there by hand
            redis.call('DEL', key.line)
            return nil
        end

        if not first[1] then
            return nil
        end

        local instance, number, wait, lease
            = first[1]:match('^([%w._~@:-]+)/(%d+)/(%d+)/([1-9]%d*)$')

        if instance and tonumber(first[2]) + wait * 1000 > us then
            return { member = first[1], instance = instance, number = number,
                     lease = lease }
        end

        redis.call('ZREM', key.line, first[1])
    end

    return nil, true
end

-- The head gets the lock, and its instance is told, by the same road as who is
-- let in.  The message comes first: where it cannot be left nothing changes.
function seat.hand_over(head, ms)
    redis.call('XADD', key.entry, '*', 'type', 'seat', 'userId', seat.id,
               'eventId', seat.event, 'instanceId', head.instance,
               'idx', head.number, 'token', '',
               'expiresAt', string.format('%.0f', ms + head.lease),
               'serial', '0')
    redis.call('ZREM', key.line, head.member)
    redis.call('SET', key.lock, seat.owner(head.instance, head.number),
               'PX', head.lease)
end
