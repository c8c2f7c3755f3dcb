import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { send, until } from './running.mjs';

const program = fileURLToPath(new URL('../server.mjs', import.meta.url));

test('with a path as argument the server starts again when a file changes', async (t) => {
  const dir = mkdtempSync(path.join(tmpdir(), 'gitfn-'));
  t.after(() => rmSync(dir, { recursive: true }));
  const handler = path.join(dir, 'handler.mjs');
  writeFileSync(path.join(dir, 'word.mjs'), "export default 'one';\n");
  writeFileSync(handler, "import word from './word.mjs';\nexport const main = () => word;\n");
  // A debugger that asks for a port of the system's choice gets one of the process that serves.
  const child = spawn(process.execPath, ['--inspect=127.0.0.1:0', program, handler], {
    env: { PATH: process.env.PATH, SERVER_PORT: '0', SERVER_HOST: '127.0.0.1' },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const ended = new Promise((resolve) => child.once('exit', resolve));
  t.after(() => child.kill('SIGKILL'));
  let port;
  let debuggers = 0;
  for (const stream of [child.stdout, child.stderr]) {
    createInterface({ input: stream }).on('line', (line) => {
      if (line.includes('Debugger listening on')) debuggers++;
      if (line.includes('"message":"listening"')) port = JSON.parse(line).port;
    });
  }
  const answers = (text) => async () => port && (await send(`http://127.0.0.1:${port}/`).catch(() => ({}))).text === text;
  await until(answers('one'));
  assert.ok(debuggers >= 2);
  writeFileSync(path.join(dir, 'word.mjs'), "export default 'two';\n");
  await until(answers('two'));
  child.kill('SIGTERM');
  await ended;
});
