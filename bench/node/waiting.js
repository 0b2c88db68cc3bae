// What the module is compared with: a waiting room as most would build it,
// broker and dispatcher in one process, all state in Redis.
//   PORT=7003 REDIS=redis.sock EVENT=e1 node waiting.js
'use strict';
const http = require('http');
const crypto = require('crypto');
const Redis = require('ioredis');

const PORT = +process.env.PORT || 7003;
const SOCK = process.env.REDIS || 'redis.sock';
const EVENT = process.env.EVENT || 'e1';
const ID = process.env.INSTANCE || 'i1';
const redis = new Redis(SOCK);
const entryConn = new Redis(SOCK), dispatchConn = new Redis(SOCK);
const waiting = new Map();                          // userId -> response
const nowUs = () => process.hrtime.bigint() / 1000n; // CLOCK_MONOTONIC

// Promote up to slots users: ZRANGE, XADD each, clean up, take the slots.
redis.defineCommand('promote', { numberOfKeys: 5, lua: `
  local slots = tonumber(redis.call('HGET', KEYS[5], ARGV[1]) or '0')
  if slots <= 0 then return 0 end
  local m = redis.call('ZRANGE', KEYS[1], 0, slots - 1)
  for i = 1, #m do
    local user = cjson.decode(m[i]).userId
    local rec = redis.call('HGET', KEYS[3], user)
    redis.call('XADD', KEYS[2], '*', 'userId', user, 'eventId', ARGV[1],
               'rec', rec or '')
    redis.call('ZREM', KEYS[1], m[i])
    redis.call('HDEL', KEYS[3], user)
    redis.call('HDEL', KEYS[4], user)
  end
  if #m > 0 then redis.call('HINCRBY', KEYS[5], ARGV[1], -#m) end
  return #m` });

const member = (user) => JSON.stringify({ userId: user });

// Join: four round trips, as the classic service does them.
async function join(user) {
  if (await redis.hsetnx('WAITING_USER_IDS', user, EVENT)) {
    const idx = await redis.hincrby('WAITING_QUEUE_IDX', EVENT, 1);
    await redis.zadd(`WAITING:${EVENT}`, idx, member(user));
    await redis.hset('WAITING_QUEUE_INDEX_RECORD', user,
                     JSON.stringify({ idx, instance: ID }));
  }
}

http.createServer(async (req, res) => {
  const user = req.headers['x-user-id'];
  if (req.url !== `/events/${EVENT}/tickets/waiting` || !user) {
    return res.writeHead(404).end();
  }
  try {
    await join(user);
  } catch (e) { return res.writeHead(503).end(); }
  res.writeHead(200, { 'Content-Type': 'text/event-stream',
                       'Cache-Control': 'no-cache' });
  res.write(': joined\n\n');
  waiting.set(user, res);
  res.on('close', () => {
    if (waiting.get(user) === res) waiting.delete(user);
  });
}).listen(PORT, '127.0.0.1', 4096);

// Every second: ask the rank of every waiting user (pipelined), write it.
const tick = { n: 0, ms: 0, users: 0 };
async function broadcast() {
  const start = performance.now(), users = [...waiting.keys()];
  for (let a = 0; a < users.length; a += 5000) {
    const part = users.slice(a, a + 5000), p = redis.pipeline();
    for (const u of part) p.zrank(`WAITING:${EVENT}`, member(u));
    const ranks = await p.exec();
    const t = nowUs();
    part.forEach((u, i) => {
      const res = waiting.get(u);
      if (res && ranks[i][1] !== null) {
        res.write('event: position\n'
                  + `data: {"t":${t},"position":${ranks[i][1] + 1}}\n\n`);
      }
    });
  }
  tick.n++; tick.ms += performance.now() - start; tick.users = users.length;
}

async function group(stream, name) {
  try { await redis.xgroup('CREATE', stream, name, '$', 'MKSTREAM'); }
  catch (e) { if (!/BUSYGROUP/.test(e.message)) throw e; }
}

async function consume(conn, stream, name, handle) {
  await group(stream, name);
  for (;;) {
    const r = await conn.xreadgroup('GROUP', name, ID, 'COUNT', 500,
                                    'BLOCK', 1000, 'STREAMS', stream, '>');
    if (!r) continue;
    const p = redis.pipeline(), after = [];
    for (const [id, f] of r[0][1]) {
      const o = {};
      for (let i = 0; i < f.length; i += 2) o[f[i]] = f[i + 1];
      after.push(handle(p, o));
      p.xack(stream, name, id);
    }
    await p.exec();
    after.forEach((fn) => fn && fn());
  }
}

// Dispatcher: ENTRY -> the instance that holds the user's stream.
consume(entryConn, 'ENTRY', 'dispatcher', (p, o) => {
  const { instance } = JSON.parse(o.rec || '{}');
  p.xadd(`DISPATCH:${instance || ID}`, 'MAXLEN', '~', 100000, '*',
         'userId', o.userId, 'eventId', o.eventId);
});

// Broker: own DISPATCH stream -> token and SSE event.
consume(dispatchConn, `DISPATCH:${ID}`, 'broker', (p, o) => {
  const token = crypto.randomBytes(16).toString('hex');
  p.set(`ENTRY_TOKEN:${o.userId}`, token, 'EX', 300);
  return () => {
    const res = waiting.get(o.userId);
    waiting.delete(o.userId);
    if (res) res.write(`event: promoted\ndata: {"token":"${token}"}\n\n`);
  };
});

function every(ms, fn) {           // fixed rate, but never two at once
  let busy = false;
  setInterval(async () => {
    if (busy) return;
    busy = true;
    try { await fn(); } catch (e) { console.error(e.message); }
    busy = false;
  }, ms);
}
every(1000, broadcast);
every(1000, () => redis.promote(`WAITING:${EVENT}`, 'ENTRY',
  'WAITING_QUEUE_INDEX_RECORD', 'WAITING_USER_IDS', 'ENTRY_QUEUE_SLOTS',
  EVENT));
process.on('SIGTERM', () => {
  console.log(JSON.stringify(tick));
  process.exit(0);
});
