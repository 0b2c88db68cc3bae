-- The settings of the event: what the operator says at run time wins over what
-- nginx.conf said, and for the capacity that over what the event service said.
-- Only whole numbers count; a word that is none is as if it was not said.
local setting = {
    names = { 'capacity', 'ttl', 'claim', 'max_waiting', 'paused', 'closed' },
    defaults = { ttl = 300000, claim = 60000, max_waiting = 0, paused = 0,
                 closed = 0 },
}

function setting.whole(text)
    if text and #text <= 12 and text:match('^%d+$') then
        return tonumber(text)
    end
end

function setting.read()
    local said = redis.call('HMGET', key.override, unpack(setting.names))
    local configured = redis.call('HMGET', key.conf, unpack(setting.names))
    local values = {}

    for i, name in ipairs(setting.names) do
        values[name] = setting.whole(said[i]) or setting.whole(configured[i])
                       or setting.defaults[name]
    end

    if not values.capacity then
        values.capacity = setting.whole(redis.call('HGET', key.conf,
                                                   'service_capacity'))
    end

    return values
end

-- nginx.conf's settings come with each join, as "name=value ..."; they are
-- written only when they differ from the last ones.  True if they did, and
-- there were any before.
function setting.write(text)
    local known = redis.call('HGET', key.conf, 'text')

    if known == text then
        return false
    end

    local service = redis.call('HGET', key.conf, 'service_capacity')
    local fields = { 'text', text }

    for name, value in text:gmatch('([%w_]+)=(%S+)') do
        fields[#fields + 1] = name
        fields[#fields + 1] = value
    end

    -- what is not said any more is gone
    redis.call('DEL', key.conf)
    redis.call('HSET', key.conf, unpack(fields))

    if service then
        redis.call('HSET', key.conf, 'service_capacity', service)
    end

    return known ~= false
end

-- The first word of the event service counts, if it is one.
function setting.write_service_capacity(text)
    if setting.whole(text) then
        redis.call('HSETNX', key.conf, 'service_capacity', text)
    end
end

-- False while no capacity is known.
function setting.apply_capacity(capacity)
    if capacity then
        redis.call('HSET', key.stats, 'capacity', capacity)
        return true
    end

    return redis.call('HEXISTS', key.stats, 'capacity') == 1
end
