// What the token API is compared with: a queue service as most would build it,
// all state in Redis, a call for each question.
//   PORT=7003 REDIS=redis.sock node polling.js
'use strict';
const http = require('http');
const crypto = require('crypto');
const Redis = require('ioredis');

const PORT = +process.env.PORT || 7003;
const SOCK = process.env.REDIS || 'redis.sock';
const CAPACITY = 50, TTL_MS = 300000;
const redis = new Redis(SOCK);

const token = (id, user) => redis.get(`queue:user-schedule:${user}:${id}`);

// the token of the user, made if there is none; active while there is room
async function issue(id, user) {
  const known = await token(id, user);
  if (known) return state(id, user, known);
  const made = crypto.randomUUID(), now = Date.now();
  await redis.set(`queue:user-schedule:${user}:${id}`, made);
  await redis.hset(`queue:token:${made}`, { user, id });
  if (await redis.zcard(`queue:active:${id}`) < CAPACITY) {
    await redis.zadd(`queue:active:${id}`, now + TTL_MS, made);
  } else {
    await redis.zadd(`queue:waiting:${id}`, now, made);
  }
  return state(id, user, made);
}

async function state(id, user, known) {
  const ends = await redis.zscore(`queue:active:${id}`, known);
  if (ends !== null) {
    return { token: known, status: 'ACTIVE', scheduleId: id, userId: user,
             waitingPosition: null, expiresAt: +ends };
  }
  const rank = await redis.zrank(`queue:waiting:${id}`, known);
  return { token: known, status: 'WAITING', scheduleId: id, userId: user,
           waitingPosition: rank === null ? null : rank + 1, expiresAt: null };
}

http.createServer(async (req, res) => {
  const url = new URL(req.url, 'http://localhost');
  const user = url.searchParams.get('user');
  if (url.pathname !== '/token' || !user) return res.writeHead(404).end();
  try {
    const known = req.method === 'POST' ? null : await token('e1', user);
    const answer = req.method === 'POST' ? await issue('e1', user)
                   : known && await state('e1', user, known);
    if (!answer) return res.writeHead(404).end();
    const body = JSON.stringify(answer);
    res.writeHead(answer.status === 'WAITING' && req.method === 'POST'
                  ? 202 : 200, { 'Content-Type': 'application/json',
                                 'Content-Length': Buffer.byteLength(body) });
    res.end(body);
  } catch (e) { res.writeHead(503).end(); }
}).listen(PORT, '127.0.0.1', 4096);
process.on('SIGTERM', () => process.exit(0));
