-- What one would write instead of the gate: the token of the cookie against the
-- key in Redis, asked for each request, or remembered for a second.  It renews
-- no lease, and whom it does not let in is merely refused.
--
-- Debian has no client of Redis for nginx: these few lines are one.

local check = {}

local event, address, token_cookie


function check.init(name, redis)
    event = name
    address = redis
    token_cookie = 'cookie_wq_' .. string.format('%08x', ngx.crc32_short(name))
end


local function fetch(key)
    local socket = ngx.socket.tcp()

    socket:settimeout(1000)

    if not socket:connect(address)
        or not socket:send({ '*2\r\n$3\r\nGET\r\n$', #key, '\r\n', key,
                             '\r\n' })
    then
        return nil
    end

    local length = tonumber((socket:receive() or ''):match('^%$(%d+)$'))

    if not length then
        socket:close()
        return nil
    end

    local value = socket:receive(length + 2)

    socket:setkeepalive(60000, 64)

    return value and value:sub(1, length)
end


function check.ask()
    local user = ngx.var.cookie_wq_uid
    local token = ngx.var[token_cookie]

    if not user or not token
        or fetch('ENTRY_TOKEN:{' .. event .. '}:' .. user) ~= token
    then
        return ngx.exit(503)
    end
end


function check.remember()
    local user = ngx.var.cookie_wq_uid
    local token = ngx.var[token_cookie]

    if not user or not token then
        return ngx.exit(503)
    end

    local known = ngx.shared.tokens:get(user)

    if not known then
        known = fetch('ENTRY_TOKEN:{' .. event .. '}:' .. user)

        if known then
            ngx.shared.tokens:set(user, known, 1)
        end
    end

    if known ~= token then
        return ngx.exit(503)
    end
end


return check
