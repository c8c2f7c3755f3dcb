import assert from 'node:assert/strict';
import { test } from 'node:test';
import { send, startPeer, startReady } from './running.mjs';

const json = 'application/json; charset=utf-8';

test('what a handler returns becomes the answer', async (t) => {
  const { url } = await startReady(t, 'commonjs.js');
  const rows = [
    { path: 'string', text: 'text', type: undefined },
    { path: 'object', text: '{"a":1}', type: json },
    { path: 'array', text: '[1,"b"]', type: json },
    { path: 'number', text: '42', type: undefined },
    { path: 'true', text: 'true', type: undefined },
    { path: 'zero', text: '' },
    { path: 'false', text: '' },
    { path: 'null', text: '' },
    { path: 'empty', text: '' },
    { path: 'undefined', text: '' },
    { path: 'promise', text: '{"later":true}', type: json },
    { path: 'promise-number', text: '7' },
    { path: 'thenable', text: 'from a thenable' },
    { path: 'throws', status: 500, text: 'Internal server error' },
    { path: 'throws-string', status: 500, text: 'out of stock' },
    { path: 'rejects', status: 500, text: 'Internal server error' },
    { path: 'rejects-string', status: 500, text: 'sold out' },
    { path: 'circular', status: 500, text: 'Internal server error' },
    { path: 'status', status: 201, text: 'made', type: 'text/css; charset=utf-8', headers: { 'x-made': 'yes' } },
    { path: 'express?q=1', status: 202, text: '{"q":"1","path":"/express","host":true}', type: json },
    { path: 'express-status', status: 418, text: '{"short":true}', type: json },
    { path: 'piped', text: 'abc' },
    { path: 'callback', status: 203, text: 'called', headers: { 'x-by': 'callback' } },
    { path: 'callback-status', status: 404, text: 'Not Found' },
    { path: 'tracer', text: 'function' },
    { path: 'libraries', text: '["function","function","object","object"]' },
    { path: 'uncaught', text: 'fine' },
  ];
  for (const { path, status = 200, text, headers = {}, ...row } of rows) {
    await t.test(path, async () => {
      const answer = await send(`${url}/${path}`);
      assert.equal(answer.text, text);
      assert.equal(answer.status, status);
      assert.equal(answer.headers['access-control-allow-origin'], '*');
      if ('type' in row) assert.equal(answer.headers['content-type'], row.type);
      for (const [name, value] of Object.entries(headers)) assert.equal(answer.headers[name], value);
    });
  }
});

test('a body is parsed by its content type', async (t) => {
  const { url } = await startReady(t, 'commonjs.js');
  const rows = [
    { name: 'JSON object', type: 'application/json', body: '{"a":[1]}', want: { type: 'object', data: { a: [1] } } },
    { name: 'JSON primitive', type: 'application/json; charset=utf-8', body: '5', want: { type: 'number', data: 5 } },
    { name: 'text', type: 'text/plain', body: 'hällo', want: { type: 'string', data: 'hällo' } },
    { name: 'form', type: 'application/x-www-form-urlencoded', body: 'a[b]=1&c=2', want: { type: 'object', data: { a: { b: '1' }, c: '2' } } },
    { name: 'bytes', type: 'application/octet-stream', body: Buffer.from([1, 255]), want: { type: 'buffer', data: '01ff' } },
    { name: 'no type', body: 'x', want: { type: 'buffer', data: '78' } },
    { name: 'empty', type: 'application/json', body: '', want: { type: 'undefined' } },
  ];
  for (const { name, type, body, want } of rows) {
    await t.test(name, async () => {
      const headers = { 'Content-Length': Buffer.byteLength(body), ...(type && { 'Content-Type': type }) };
      const answer = await send(`${url}/data`, { method: 'POST', headers, body });
      assert.equal(answer.status, 200, answer.text);
      assert.deepEqual(JSON.parse(answer.text), { body: want.type !== 'undefined', ...want });
    });
  }
  await t.test('multipart is left to the handler', async () => {
    const headers = { 'Content-Type': 'multipart/form-data; boundary=b' };
    const answer = await send(`${url}/multipart`, { method: 'POST', headers, body: '--b\r\n\r\nx\r\n--b--' });
    assert.deepEqual(JSON.parse(answer.text), { size: 15, data: true });
  });
  await t.test('bad JSON is 400', async () => {
    const answer = await send(`${url}/data`, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: '{' });
    assert.equal(answer.status, 400);
  });
});

test('a body over REQ_MB_LIMIT is 413', async (t) => {
  const { url } = await startReady(t, 'commonjs.js', { REQ_MB_LIMIT: '2' });
  const post = (size, headers) => send(`${url}/string`, { method: 'POST', headers, body: Buffer.alloc(size, 'a') });
  assert.equal((await post(2 * 1024 * 1024, { 'Content-Type': 'text/plain' })).status, 200);
  assert.equal((await post(2 * 1024 * 1024 + 1, { 'Content-Type': 'text/plain' })).status, 413);
  assert.equal((await post(3 * 1024 * 1024, { 'Transfer-Encoding': 'chunked' })).status, 413);
});

test('CloudEvents fill the event', async (t) => {
  const { url } = await startReady(t, 'commonjs.js');
  const want = {
    data: { b: 1 },
    'ce-type': 'order.made',
    'ce-source': 'shop',
    'ce-eventtypeversion': 'v1',
    'ce-specversion': '1.0',
    'ce-id': '7',
    'ce-time': '2026-01-02T03:04:05Z',
    'ce-datacontenttype': 'application/json',
  };
  const post = async (path, headers, body) => JSON.parse((await send(url + path, { method: 'POST', headers, body })).text);
  await t.test('structured mode', async () => {
    const { data, ...rest } = want;
    const body = { data, ...Object.fromEntries(Object.entries(rest).map(([key, value]) => [key.slice(3), value])) };
    assert.deepEqual(await post('/event', { 'Content-Type': 'application/cloudevents+json' }, JSON.stringify(body)), want);
  });
  await t.test('binary mode', async () => {
    const { data, 'ce-datacontenttype': type, ...headers } = want;
    assert.deepEqual(await post('/event', { ...headers, 'Content-Type': type }, JSON.stringify(data)), want);
  });
  await t.test('neither', async () => {
    assert.deepEqual(await post('/event', { 'Content-Type': 'application/json', 'ce-type': 'x' }, '1'), { data: 1 });
  });
  await t.test('buildResponseCloudEvent takes over the source', async () => {
    const headers = { 'ce-type': 'a', 'ce-source': 'shop', 'ce-specversion': '1.0', 'Content-Type': 'text/plain' };
    assert.deepEqual(await post('/response', headers, 'x'), {
      type: 'made', source: 'shop', specversion: '1.0', id: '1', data: { b: 2 }, datacontenttype: 'application/json',
    });
  });
});

test('events are sent to the publisher', async (t) => {
  const peer = await startPeer(t);
  const { url } = await startReady(t, 'commonjs.js', { PUBLISHER_PROXY_ADDRESS: peer.url });
  assert.equal((await send(`${url}/emit`)).text, '{"status":200}');
  assert.equal((await send(`${url}/emitText`)).text, 'ok');
  assert.equal((await send(`${url}/publish`)).text, '200');
  const [made, text, published] = peer.seen.map(({ body }) => JSON.parse(body));
  assert.match(peer.seen[0].headers['content-type'], /^application\/cloudevents\+json/);
  const { id, time, ...rest } = made;
  assert.ok(id && time);
  assert.deepEqual(rest, {
    type: 'order.made', source: 'shop', specversion: '1.0', eventtypeversion: 'v1', datacontenttype: 'application/json', data: { id: 7 },
  });
  assert.equal(text.datacontenttype, 'text/plain');
  assert.deepEqual(published, { id: 'x' });
});

test('trace headers go on to outgoing requests', async (t) => {
  const peer = await startPeer(t);
  const { url } = await startReady(t, 'commonjs.js', { PEER: peer.url, PUBLISHER_PROXY_ADDRESS: peer.url });
  const trace = '0af7651916cd43dd8448eb211c80319c';
  const span = 'b7ad6b7169203331';
  for (const path of ['httpget', 'fetch', 'emit']) {
    for (const headers of [
      { traceparent: `00-${trace}-${span}-01`, tracestate: 'a=b' },
      { 'x-b3-traceid': trace, 'x-b3-spanid': span, 'x-b3-sampled': '1' },
      { b3: `${trace}-${span}-1` },
    ]) {
      await t.test(`${path} with ${Object.keys(headers)[0]}`, async () => {
        await send(`${url}/${path}`, { headers });
        const sent = peer.seen.at(-1).headers;
        assert.equal(sent.traceparent, `00-${trace}-${span}-01`);
        assert.equal(sent['x-b3-traceid'], trace);
        assert.equal(sent['x-b3-spanid'], span);
        assert.equal(sent['x-b3-sampled'], '1');
        assert.equal(sent.tracestate, headers.tracestate);
      });
    }
    await t.test(`${path} begins a trace when there is none`, async () => {
      await send(`${url}/${path}`);
      assert.match(peer.seen.at(-1).headers.traceparent, /^00-[0-9a-f]{32}-[0-9a-f]{16}-01$/);
    });
  }
});

test('CORS, health, metrics and context', async (t) => {
  const { url, lines } = await startReady(t, 'commonjs.js', {
    FUNC_NAME: 'orders', SERVICE_NAMESPACE: 'shop', FUNC_RUNTIME: 'nodejs22', FUNC_TIMEOUT: '9', KYMA_INTERNAL_LOGGER_ENABLED: 'true',
  });
  await t.test('preflight is answered without the handler', async () => {
    const headers = { 'Access-Control-Request-Method': 'PATCH', 'Access-Control-Request-Headers': 'x-a' };
    const answer = await send(`${url}/throws`, { method: 'OPTIONS', headers });
    assert.equal(answer.status, 200);
    assert.equal(answer.headers['access-control-allow-origin'], '*');
    assert.equal(answer.headers['access-control-allow-methods'], 'PATCH');
    assert.equal(answer.headers['access-control-allow-headers'], 'x-a');
  });
  await t.test('plain OPTIONS', async () => assert.equal((await send(`${url}/`, { method: 'OPTIONS' })).status, 200));
  await t.test('health', async () => assert.equal((await send(`${url}/healthz?x`)).text, 'OK'));
  await t.test('icon', async () => assert.equal((await send(`${url}/favicon.ico`)).status, 204));
  await t.test('context', async () => {
    assert.deepEqual(JSON.parse((await send(`${url}/context`)).text), {
      'function-name': 'orders', runtime: 'nodejs22', namespace: 'shop', timeout: 9, 'body-size-limit': 1,
    });
  });
  await t.test('metrics', async () => {
    await send(`${url}/throws`);
    const { text } = await send(`${url}/metrics`);
    assert.match(text, /^function_calls_total 2$/m);
    assert.match(text, /^function_failures_total 1$/m);
    assert.match(text, /^function_duration_miliseconds_bucket\{le="\+Inf"\} 2$/m);
    assert.match(text, /^function_duration_miliseconds_count 2$/m);
  });
  await t.test('access log', () => {
    assert.ok(lines.some((line) => /^127\.0\.0\.1 - - \[.* \+0000\] "GET \/context HTTP\/1\.1" 200 \d+ "-" "-"$/.test(line)), lines.join('\n'));
  });
  await t.test('an error is one JSON line', () => {
    const line = lines.map((text) => (text.startsWith('{') ? JSON.parse(text) : {})).find(({ message }) => message === 'handler failed');
    assert.match(line.error, /Error: secret\n/);
  });
});

test('FUNC_TIMEOUT answers 408', async (t) => {
  const { url } = await startReady(t, 'commonjs.js', { FUNC_TIMEOUT: '0.2' });
  assert.equal((await send(`${url}/never`)).status, 408);
  assert.equal((await send(`${url}/string`)).status, 200);
});
