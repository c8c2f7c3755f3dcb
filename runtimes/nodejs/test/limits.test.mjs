import assert from 'node:assert/strict';
import { once } from 'node:events';
import http from 'node:http';
import net from 'node:net';
import { test } from 'node:test';
import { send, startReady, until } from './running.mjs';

/** Opens a connection and sends text on it; all that comes back is in received. */
async function connect(t, url, text) {
  const { port, hostname } = new URL(url);
  const socket = net.connect(Number(port), hostname);
  t.after(() => socket.destroy());
  socket.on('error', () => {});
  await once(socket, 'connect');
  socket.write(text);
  return socket;
}

/** Gives all that comes until the end. A reset is an end: the server need not read what it refuses. */
async function received(socket) {
  let text = '';
  try {
    for await (const chunk of socket) text += chunk;
  } catch (error) {
    if (error.code !== 'ECONNRESET' && error.code !== 'EPIPE') throw error;
  }
  return text;
}

test('work is told to stop', async (t) => {
  const { url } = await startReady(t, 'commonjs.js', { FUNC_TIMEOUT: '0.3' });
  await t.test('after FUNC_TIMEOUT', async () => {
    assert.equal((await send(`${url}/endless`)).status, 408);
    assert.equal((await send(`${url}/aborted`)).text, 'TimeoutError');
  });
  await t.test('when the caller has gone', async (t) => {
    const socket = await connect(t, url, 'GET /endless HTTP/1.1\r\nHost: x\r\n\r\n');
    await until(async () => /^http_server_active_requests 1$/m.test((await send(`${url}/metrics`)).text));
    socket.destroy();
    await until(async () => (await send(`${url}/aborted`)).text === 'AbortError');
  });
  await t.test('a stream whose reader has gone is closed', async (t) => {
    const socket = await connect(t, url, 'GET /endless-stream HTTP/1.1\r\nHost: x\r\n\r\n');
    await once(socket, 'data');
    socket.destroy();
    await until(async () => (await send(`${url}/aborted`)).text === 'stream closed');
  });
});

test('slow clients are cut off', async (t) => {
  const { url } = await startReady(t, 'commonjs.js', { FUNC_TIMEOUT: '0.3' });
  await t.test('a body that does not come is 408', async (t) => {
    const socket = await connect(t, url, 'POST /string HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nab');
    assert.match(await received(socket), /^HTTP\/1\.1 408 /);
  });
  await t.test('an answer that nobody reads is given up', async (t) => {
    const socket = await connect(t, url, 'GET /large HTTP/1.1\r\nHost: x\r\n\r\n');
    socket.pause();
    await until(async () => /^http_server_active_requests 1$/m.test((await send(`${url}/metrics`)).text));
    await until(async () => /^http_server_active_requests 0$/m.test((await send(`${url}/metrics`)).text));
  });
});

test('header bombs are refused, and the server goes on', async (t) => {
  const { url } = await startReady(t, 'commonjs.js');
  const rows = [
    { name: 'one large header', text: `GET / HTTP/1.1\r\nHost: x\r\nX-A: ${'a'.repeat(70_000)}\r\n\r\n` },
    { name: 'many headers', text: `GET / HTTP/1.1\r\nHost: x\r\n${'X-A: a\r\n'.repeat(9_000)}\r\n` },
    { name: 'a large path', text: `GET /${'a'.repeat(70_000)} HTTP/1.1\r\nHost: x\r\n\r\n` },
  ];
  for (const { name, text } of rows) {
    await t.test(name, async (t) => {
      assert.match(await received(await connect(t, url, text)), /^HTTP\/1\.1 431 |^$/);
      assert.equal((await send(`${url}/string`)).text, 'text');
    });
  }
});

test('1,000 connections at once are served', async (t) => {
  const { url } = await startReady(t, 'commonjs.js');
  const agent = new http.Agent({ keepAlive: true, maxSockets: 1000 });
  t.after(() => agent.destroy());
  const answers = await Promise.all(Array.from({ length: 1000 }, () => send(`${url}/slow?ms=500`, { agent })));
  assert.equal(answers.filter(({ status, text }) => status === 200 && text === 'slow').length, 1000);
});

test('what nobody catches is 500 for its own request alone', async (t) => {
  const { url, lines } = await startReady(t, 'commonjs.js', { FUNC_NAME: 'orders', FUNC_TIMEOUT: '30' });
  for (const [path, message] of [['uncaught-pending', 'uncaught exception'], ['rejected', 'unhandled rejection']]) {
    await t.test(message, async () => {
      const beside = send(`${url}/slow?ms=200`);
      const answer = await send(`${url}/${path}`, { headers: { 'X-Request-Id': `id-${path}`, traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01' } });
      assert.equal(answer.status, 500);
      assert.equal(answer.text, 'Internal server error');
      assert.equal(answer.headers['x-request-id'], `id-${path}`);
      assert.equal((await beside).text, 'slow');
      await until(() => lines.some((line) => line.includes(message)));
      const { level, requestId, traceId, function: name, error } = JSON.parse(lines.find((line) => line.includes(message)));
      assert.deepEqual({ level, requestId, traceId, name }, {
        level: 'error', requestId: `id-${path}`, traceId: '0af7651916cd43dd8448eb211c80319c', name: 'orders',
      });
      assert.match(error, /by nobody in particular/);
    });
  }
});

test('the log is text on request', async (t) => {
  const { url, lines } = await startReady(t, 'commonjs.js', { LOG_FORMAT: 'text', FUNC_NAME: 'orders' });
  const { headers } = await send(`${url}/throws`);
  await until(() => lines.some((line) => line.includes('handler failed')));
  const line = lines.find((text) => text.includes('handler failed'));
  assert.match(line, /^\d{4}-\d\d-\d\dT\S+ ERROR handler failed function="orders" requestId="/);
  assert.ok(line.includes(headers['x-request-id']));
});
