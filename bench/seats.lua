-- What one would write instead of the lock: SET NX, tried again every 50 ms, and
-- given back by its owner when the answer is out.  Nobody stands in line.

local seats = {}

local address, pause
local unlock = "if redis.call('GET', KEYS[1]) == ARGV[1] then "
               .. "return redis.call('DEL', KEYS[1]) end return 0"


function seats.init(redis, seconds)
    address = redis
    pause = seconds
end


local function call(...)
    local socket = ngx.socket.tcp()
    local words = { ... }
    local out = { '*' .. #words .. '\r\n' }

    for _, word in ipairs(words) do
        out[#out + 1] = '$' .. #word .. '\r\n' .. word .. '\r\n'
    end

    socket:settimeout(1000)

    if not socket:connect(address) or not socket:send(out) then
        return nil
    end

    local line = socket:receive()

    socket:setkeepalive(60000, 256)

    return line
end


function seats.lock()
    local key = 'poll:' .. ngx.var.arg_seat
    local owner = ngx.worker.pid() .. ':' .. ngx.var.connection .. ':'
                  .. ngx.var.connection_requests

    while call('SET', key, owner, 'NX', 'PX', '5000') ~= '+OK' do
        ngx.sleep(pause)
    end

    ngx.ctx.key = key
    ngx.ctx.owner = owner
end


function seats.unlock()
    local key, owner = ngx.ctx.key, ngx.ctx.owner

    -- no socket can be used here
    ngx.timer.at(0, function()
        call('EVAL', unlock, '1', key, owner)
    end)
end


return seats
