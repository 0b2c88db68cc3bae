// The simulated visitors, in a worker: the timers of a page sleep when it is
// hidden, and the visitors would lose their places.
//
// Each is a user of its own to the gate (see /sim/ in nginx.conf), and does
// what a browser without JavaScript does: it asks for the shop, again when the
// answer says so (Retry-After), until it is let in, looks around, and buys or
// leaves.

const wish = {on: false, crowd: 0, buyers: 0};    // see index.html
const visitors = [];
const done = {bought: 0, left: 0};
const session = Math.random().toString(36).slice(2, 8);
const seats = [...'ABCDE'].flatMap(row =>
  [1, 2, 3, 4, 5, 6, 7, 8].map(number => row + number));

let asking = 0;        // how many of them: a browser has 6 connections at most
let comes = 0;         // when the next one may come
let count = 0;

const between = (low, high) => low + Math.random() * (high - low);

onmessage = message => Object.assign(wish, message.data);

setInterval(() => {
  const now = Date.now();

  if (wish.on && visitors.length < wish.crowd && now > comes) {
    comes = now + between(0, 10000 / wish.crowd);
    visitors.push({id: `${session}x${++count}`, step: line, next: now});
  }

  for (const visitor of visitors.filter(v => v.next <= now)
                                .sort((a, b) => a.next - b.next)) {
    if (asking === 2) break;
    take(visitor);
  }
}, 100);

async function take(visitor) {
  visitor.next = Infinity;
  asking++;
  try {
    visitor.next = Date.now() + 1000 * await visitor.step(visitor);
  } catch {
    visitor.next = Date.now() + between(2000, 4000);   // nginx does not answer
  }
  asking--;

  if (visitor.step === home) visitors.splice(visitors.indexOf(visitor), 1);
  const inLine = visitors.filter(v => v.step === line).length;
  postMessage({inLine, inside: visitors.length - inLine, ...done});
}

function ask(visitor, page, method = 'GET') {
  // the cookies are those of the person who looks at the page
  return fetch(`/sim/${visitor.id}/${page}`, {
    method, headers: {Accept: 'application/json'}, credentials: 'omit',
    cache: 'no-store',
  });
}

// The steps: each says what the next one is, and in how many seconds.

async function line(visitor) {
  const answer = await ask(visitor, '');

  if (answer.status === 200) {
    visitor.step = Math.random() * 100 < wish.buyers ? buy : leave;
    return between(5, 15);
  }
  if (answer.status === 410 || wish.over) {             // sold out
    visitor.step = home;
    return 0;
  }
  return Number(answer.headers.get('Retry-After') || 3) * between(0.8, 1.2);
}

async function buy(visitor) {
  const answer = await ask(visitor, 'seats/');

  if (answer.status !== 200) {                          // the time was over
    visitor.step = line;
    return 1;
  }

  const sold = new Set((await answer.json()).map(entry => entry.name));
  const free = seats.filter(seat => !sold.has(seat));
  const seat = free[Math.floor(Math.random() * free.length)];

  if (!seat) return leave(visitor);
  if ((await ask(visitor, `seats/${seat}/`, 'MKCOL')).status !== 201)
    return between(1, 3);                               // somebody was faster
  done.bought++;
  visitor.step = home;
  return 0;
}

async function leave(visitor) {
  await ask(visitor, 'bye.html');
  done.left++;
  visitor.step = home;
  return 0;
}

function home() {}
