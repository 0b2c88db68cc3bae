-- release.lua: ends a lease, and lets the next in line in at once.
--
-- KEYS     of the event, see lib/event.lua
-- ARGV[2]  the user
-- ARGV[3]  "return": the slot is free again; "untold": the same, but only if
--          the lease was not used yet, and its user does not ask without a
--          stream; "sold": the seat is gone, and the slot with it, even if the
--          lease is over by now
-- ARGV[4]  random seed for a token
-- ARGV[5]  only if the lease is held by this instance, or by none, as one that
--          a node has put back, and may have been told; empty: in any case
-- ARGV[6]  only the lease of this token, so that a repeated call does not end a
--          new one, nor sell a seat twice; empty: any
-- ARGV[7]  the counter of the reason: done, sold, left, expired
-- returns  { 1 if there was a lease, or a seat was sold; promoted; ms after which
--            the rate lets in the next (0: that is not what they wait for);
--            figures }
-- cost     O(log n) of those in line

-- @include time
-- @include event
-- @include origin
-- @include settings
-- @include line
-- @include lease
-- @include rate
-- @include promote
-- @include figures

local user, how, seed = ARGV[2], ARGV[3], ARGV[4]
local token = ARGV[6]
local now = now_ms()
local l = lease.find(user, now, seed)
local ours = l
             and (ARGV[5] == '' or l.instance == ARGV[5]
                  or l.instance == '' and how ~= 'untold')
             and (token == '' or l.token == token)
             and (how ~= 'untold' or l.state == 'ready' and not l.told)

-- What was sold is known to the node by the answer, not with the next report:
-- should Redis lose it, it is put back.
local function answer(released, promoted, opens, values)
    return { released, promoted, opens,
             figures.all(values or setting.read(), figures.drift(), now) }
end

if how == 'sold' and token ~= '' then
    -- By then the lease may have lapsed, and be gone: what was sold is sold.
    local mark = lease.mark(user, token)

    if redis.call('GET', mark) == 'sold' then
        return answer(0, 0, 0)
    end

    -- longer than anybody repeats it
    redis.call('SET', mark, 'sold', 'PX', 3600000)
elseif not ours and (how ~= 'sold' or not lease.find(user, 0, seed)) then
    if not l and token ~= '' and how ~= 'untold' and origin.left(now) > 0 then
        -- Perhaps lost, and about to be put back.  One that was not told may
        -- have been used, elsewhere; if not, its time is soon over.
        redis.call('SET', lease.mark(user, token), 'over', 'NX',
                   'PX', origin.most)
    end

    return answer(0, 0, 0)
end

event.count(how == 'sold' and 'sold' or ARGV[7], 1)

if how == 'sold' and origin.left(now) > 0 then
    -- one more than those which are about to be put back
    local _, since = origin.read()

    event.set_sold_anew(since, event.sold_anew(since) + 1)
end

if ours then
    lease.finish(user, l, now)
elseif how == 'sold' and not l then
    -- one that has lapsed is in nobody's way
    lease.take_back(user)
end

-- where nobody counts seats, one less than unknown is not sold out; and what was
-- written there by hand may be no number
if how == 'sold' and redis.call('EXISTS', key.seats) == 1 then
    redis.pcall('DECR', key.seats)
end

local values = setting.read()

setting.apply_capacity(values.capacity)

local promoted = promote(values, now, seed, 1000)

event.publish_slots()

return answer(1, promoted, rate.opens(values, now), values)
