-- For wrk: each request is of another user.  Arguments: the method, and how many
-- users there are.

local threads = 0
local method, users, next_user, step


function setup(thread)
    thread:set('number', threads)
    threads = threads + 1
end


function init(arguments)
    method, users = arguments[1], tonumber(arguments[2])
    next_user, step = number, 2
end


function request()
    local user = (method == 'POST' and 0 or 100) + next_user % users
    next_user = next_user + step
    return wrk.format(method, string.format('/token?user=u%d', user))
end
