-- For wrk: each request is of another visitor.  The argument is a file with the
-- value of the header Cookie of one in each line.

local threads = 0
local requests = {}
local last = 0


function setup(thread)
    thread:set('number', threads)
    threads = threads + 1
end


function init(arguments)
    for cookie in io.lines(arguments[1]) do
        requests[#requests + 1] = wrk.format(nil, nil, { Cookie = cookie })
    end

    -- not all threads with the same visitors at the same time
    last = math.floor(#requests * number / 2)
end


function request()
    last = last % #requests + 1
    return requests[last]
end
