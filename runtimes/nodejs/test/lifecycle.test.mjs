import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import http from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { runToEnd, send, start, startReady, until } from './running.mjs';

test('handlers of every module kind are loaded', async (t) => {
  for (const [file, text] of [['module.mjs', 'esm'], ['default.mjs', 'default object'], ['default-function.mjs', 'default function']]) {
    await t.test(file, async (t) => {
      const { url } = await startReady(t, file);
      assert.equal((await send(url)).text, text);
    });
  }
});

test('a handler that cannot be loaded ends the process, and says why', async (t) => {
  const rows = [
    { file: 'absent.js', why: /Cannot find module .*absent\.js/ },
    { file: 'nomain.js', why: /does not export a function "main"/ },
    { file: 'syntax.js', why: /SyntaxError/ },
    { file: 'throws.js', why: /no database today/ },
  ];
  for (const { file, why } of rows) {
    await t.test(file, async (t) => {
      const terminationLog = path.join(mkdtempSync(path.join(tmpdir(), 'gitfn-')), 'termination-log');
      t.after(() => rmSync(path.dirname(terminationLog), { recursive: true }));
      const { code, lines } = await runToEnd(t, file, { TERMINATION_LOG: terminationLog });
      assert.equal(code, 1);
      const errors = lines.filter((line) => line.includes('"level":"error"'));
      assert.equal(errors.length, 1);
      assert.match(JSON.parse(errors[0]).error, why);
      assert.match(readFileSync(terminationLog, 'utf8'), why);
    });
  }
});

test('while the handler loads, the server listens and is not healthy', async (t) => {
  const { url } = await start(t, 'late.mjs');
  assert.equal((await send(`${url}/healthz`)).status, 503);
  const early = await send(url);
  assert.equal(early.status, 500);
  assert.match(early.text, /not loaded/);
  await until(async () => (await send(`${url}/healthz`)).status === 200);
  assert.equal((await send(url)).text, 'late');
});

test('SIGTERM under load loses no request', async (t) => {
  const { url, child, ended } = await startReady(t, 'commonjs.js', { SHUTDOWN_DELAY: '0.3' });
  let answered = 0;
  // Each client goes on until it is told to close, as a proxy does.
  const clients = Array.from({ length: 16 }, async (_, i) => {
    const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
    for (;;) {
      const answer = await send(`${url}/slow?ms=${i % 8}`, { agent });
      assert.equal(answer.text, 'slow');
      answered++;
      if (answer.headers.connection === 'close') return;
    }
  });
  await until(() => answered > 200);
  const long = send(`${url}/slow?ms=1500`, { agent: new http.Agent({ keepAlive: true }) });
  const soon = answered + 50;
  await until(() => answered > soon);
  child.kill('SIGTERM');
  await Promise.all(clients);
  const last = await long;
  assert.equal(last.text, 'slow');
  assert.equal(last.headers.connection, 'close');
  assert.deepEqual(await ended, [0, null]);
});

test('a stopping server drops idle connections and refuses new ones', async (t) => {
  const { url, child, ended } = await startReady(t, 'commonjs.js');
  const agent = new http.Agent({ keepAlive: true });
  assert.equal((await send(`${url}/string`, { agent })).headers.connection, 'keep-alive');
  const long = send(`${url}/slow?ms=400`);
  await until(async () => {
    const { text } = await send(`${url}/metrics`);
    return /^function_calls_total 2$/m.test(text);
  });
  child.kill('SIGTERM');
  await until(() => send(`${url}/string`).then(() => false, (error) => error.code === 'ECONNREFUSED'));
  assert.equal((await long).text, 'slow');
  assert.deepEqual(await ended, [0, null]);
});
