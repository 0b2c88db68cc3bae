-- The settings of the event: what the operator says at run time wins over what
-- nginx.conf said, and for the capacity that over what the event service said.
-- Only whole numbers count; a word that is none is as if it was not said.
local setting = {
    defaults = { ttl = 300000, ttl_max = 0, claim = 60000, max_waiting = 0,
                 paused = 0, closed = 0, grace = 30000, poll_timeout = 30000,
                 release = 0 },
}

function setting.whole(text)
    if text and #text <= 12 and text:match('^%d+$') then
        return tonumber(text)
    end
end

-- "1400/10s", so many users in so long: { users = 1400, ms = 10000 }, within the
-- bounds of the directive, but that nobody is a number too.  Of all words "off"
-- is one as well, for no rate: false.  Nil for any other.
function setting.rate(word)
    if not word then
        return nil
    elseif word == 'off' then
        return false
    end

    local users, time, unit = word:match('^(%d+)/(%d+)(%a*)$')
    local ms = ({ ms = 1, [''] = 1000, s = 1000, m = 60000,
                  h = 3600000 })[unit]

    users = setting.whole(users)
    ms = ms and setting.whole(time) and ms * time

    if users and users <= 100000000 and ms and ms >= 10 and ms <= 86400000 then
        return { users = users, ms = ms }
    end
end

-- What nginx.conf said of this name, or nil.  Looked for as it is: a pattern
-- would be tried at every place of the text.
local function word_of(text, name)
    local before = ' ' .. name .. '='
    local from = text:find(before, 1, true)

    return from and text:match('^%S+', from + #before)
end

-- The rate in force, or false: the operator's word, else that of nginx.conf.
local function rate_of(said, text)
    local value = setting.rate(said.rate)

    if value == nil then
        value = setting.rate(word_of(text, 'rate'))
    end

    return value or false
end

-- What has been written of nginx.conf, as it came, and of the event service;
-- nil for what has not.
function setting.stored()
    local conf = redis.call('HMGET', key.conf, 'text', 'service_capacity')

    return conf[1] or nil, conf[2] or nil
end

-- The values by their names, of these words in place of what is stored if they
-- are given.  Each is looked up when it is asked for: few are, in one call.
function setting.read(text, service)
    if not text then
        text, service = setting.stored()
    end

    local said = {}
    local override = redis.call('HGETALL', key.override)

    for i = 1, #override, 2 do
        said[override[i]] = override[i + 1]
    end

    text = ' ' .. (text or '')

    return setmetatable({}, { __index = function(values, name)
        if name == 'rate' then
            values.rate = rate_of(said, text)
            return values.rate
        end

        local value = setting.whole(said[name])
                      or setting.whole(word_of(text, name))
                      or setting.defaults[name]

        if not value and name == 'capacity' then
            value = setting.whole(service)
        end

        values[name] = value

        return value
    end })
end

-- False while no capacity is known: then nothing is written.
function setting.apply_capacity(capacity)
    local known = event.stat('capacity')

    if capacity and tonumber(known or '') ~= capacity then
        event.set_stat('capacity', capacity)
        event.slots_changed = true
    end

    return (capacity or known) and true or false
end

-- The settings in Redis, where people and programs find them by their names.
function setting.store(text, service)
    local fields = { 'text', text }

    for name, value in text:gmatch('([%w_]+)=(%S+)') do
        fields[#fields + 1] = name
        fields[#fields + 1] = value
    end

    if service then
        fields[#fields + 1] = 'service_capacity'
        fields[#fields + 1] = service
    end

    -- what is not said any more is gone
    redis.call('DEL', key.conf)
    redis.call('HSET', key.conf, unpack(fields))
end

-- With each join come nginx.conf's settings, as "name=value ...", and the word
-- of the event service where it was asked.  They are written only when they
-- differ from the last ones, and not before a capacity is known: until then
-- anybody can name any event, and must not leave anything behind.
--
-- The values, or nil while no capacity is known; true if nginx.conf's settings
-- are not those that were known before.
function setting.take(text, service)
    local known, first_word = setting.stored()
    local changed = known ~= text
    local word = first_word

    -- the first word of the event service counts, if it is one
    if not setting.whole(word) and setting.whole(service) then
        word = service
    end

    local values = setting.read(text, word)

    if not setting.apply_capacity(values.capacity) then
        return nil, false
    end

    if changed or word ~= first_word then
        setting.store(text, word)
    end

    return values, changed and known ~= nil
end
