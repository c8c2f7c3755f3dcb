// Starts the real server as a process of its own.
import { spawn } from 'node:child_process';
import http from 'node:http';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const program = fileURLToPath(new URL('../server.mjs', import.meta.url));
const handlers = fileURLToPath(new URL('./handlers/', import.meta.url));

/** Starts the server with a file of handlers/; ends it with the test t. */
export async function start(t, handler, env = {}) {
  const child = spawn(process.execPath, [program], {
    env: { PATH: process.env.PATH, SERVER_PORT: '0', SERVER_HOST: '127.0.0.1', SHUTDOWN_DELAY: '0', HANDLER_PATH: handlers + handler, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  t.after(() => child.kill('SIGKILL'));
  const lines = [];
  const listening = new Promise((resolve, reject) => {
    for (const stream of [child.stdout, child.stderr]) {
      createInterface({ input: stream }).on('line', (line) => {
        lines.push(line);
        const found = /(?:"message":"| INFO )listening\b.*\bport"?[:=](\d+)/.exec(line);
        if (found) resolve(Number(found[1]));
      });
    }
    child.once('exit', (code) => reject(new Error(`server ended with ${code}: ${lines.join('\n')}`)));
  });
  const url = `http://127.0.0.1:${await listening}`;
  return { child, lines, url, ended: once(child, 'exit') };
}

/** Runs the server to its end. */
export async function runToEnd(t, handler, env = {}) {
  const child = spawn(process.execPath, [program], {
    env: { PATH: process.env.PATH, SERVER_PORT: '0', SERVER_HOST: '127.0.0.1', HANDLER_PATH: handlers + handler, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  t.after(() => child.kill('SIGKILL'));
  const lines = [];
  for (const stream of [child.stdout, child.stderr]) {
    createInterface({ input: stream }).on('line', (line) => lines.push(line));
  }
  const [code] = await once(child, 'close');
  return { code, lines };
}

/** Starts the server and waits until it is healthy. */
export async function startReady(t, handler, env) {
  const server = await start(t, handler, env);
  await until(async () => (await fetch(`${server.url}/healthz`)).ok);
  return server;
}

/** Serves one recorder of requests on loopback. Statuses are its answers in turn, 0 for none; then 200. */
export async function startPeer(t, statuses = []) {
  const seen = [];
  const peer = http.createServer(async (req, res) => {
    const chunks = await req.toArray();
    seen.push({ url: req.url, headers: req.headers, body: Buffer.concat(chunks).toString() });
    const status = statuses[seen.length - 1] ?? 200;
    if (status === 0) return;
    res.statusCode = status;
    res.end('ok');
  });
  peer.listen(0, '127.0.0.1');
  await once(peer, 'listening');
  t.after(() => {
    peer.closeAllConnections();
    peer.close();
  });
  return { seen, url: `http://127.0.0.1:${peer.address().port}/` };
}

/** Asks until the answer is true; a test's own limit ends it otherwise. */
export async function until(ask) {
  while (!(await ask())) await new Promise((resolve) => setTimeout(resolve, 10));
}

/** Sends one request with headers exactly as given; fetch would add some. */
export function send(url, { method = 'GET', headers = {}, body, agent } = {}) {
  return new Promise((resolve, reject) => {
    const req = http.request(url, { method, headers, agent }, async (res) => {
      try {
        const text = Buffer.concat(await res.toArray()).toString();
        resolve({ status: res.statusCode, headers: res.headers, text });
      } catch (error) {
        reject(error);
      }
    });
    req.on('error', reject);
    req.end(body);
  });
}
