import assert from 'node:assert/strict';
import { test } from 'node:test';
import { send, startPeer, startReady, until } from './running.mjs';

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
    { path: 'buffer', text: Buffer.from([0, 1, 255]).toString(), type: 'application/octet-stream' },
    { path: 'typed-array', text: 'BC', type: 'application/octet-stream' },
    { path: 'array-buffer', text: 'AB', type: 'application/octet-stream' },
    { path: 'bigint', text: '12', type: undefined },
    { path: 'date', text: '"1970-01-01T00:00:00.000Z"', type: json },
    { path: 'stream', text: 'abc', type: undefined },
    { path: 'stream-typed', status: 206, text: '1,2\n3,4\n', type: 'text/csv; charset=utf-8' },
    { path: 'stream-async', text: 'later' },
    { path: 'stream-breaks-at-once', status: 500, text: 'Internal server error' },
    { path: 'generator', text: 'one {"two":2}\n' },
    { path: 'async-generator', text: 'one two' },
    { path: 'async-iterable', text: '[1]\n[2]\n' },
    { path: 'web-stream', text: 'web' },
    { path: 'blob', text: '<p>', type: 'text/html' },
    { path: 'response', status: 201, text: '<b>', type: 'text/html', headers: { 'x-made': 'yes', 'set-cookie': ['a=1', 'b=2'] } },
    { path: 'response-json', text: '{"a":1}', type: 'application/json' },
    { path: 'response-empty', status: 204, text: '' },
    { path: 'returned-error', status: 500, text: 'Internal server error' },
    { path: 'throws-nothing', status: 500, text: 'Internal server error' },
  ];
  for (const { path, status = 200, text, headers = {}, ...row } of rows) {
    await t.test(path, async () => {
      const answer = await send(`${url}/${path}`);
      assert.equal(answer.text, text);
      assert.equal(answer.status, status);
      assert.equal(answer.headers['access-control-allow-origin'], '*');
      if ('type' in row) assert.equal(answer.headers['content-type'], row.type);
      for (const [name, value] of Object.entries(headers)) assert.deepEqual(answer.headers[name], value);
    });
  }
});

test('every method reaches the handler, and HEAD has no body', async (t) => {
  const { url } = await startReady(t, 'commonjs.js');
  for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE']) {
    assert.equal((await send(`${url}/method`, { method })).text, method);
  }
  for (const path of ['string', 'object', 'buffer', 'stream', 'async-generator', 'response', 'endless-stream']) {
    await t.test(`HEAD of ${path}`, async () => {
      const answer = await send(`${url}/${path}`, { method: 'HEAD' });
      assert.equal(answer.status, path === 'response' ? 201 : 200);
      assert.equal(answer.text, '');
    });
  }
});

test('a stream that breaks later cuts the answer off', async (t) => {
  const { url, lines } = await startReady(t, 'commonjs.js');
  await assert.rejects(send(`${url}/stream-breaks-later`), /aborted|ECONNRESET/);
  await until(() => lines.some((line) => line.includes('handler failed')));
  assert.equal((await send(`${url}/string`)).text, 'text');
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
  await t.test('batch mode', async () => {
    const batch = [{ id: '1', type: 'a', source: 'shop', specversion: '1.0' }, { id: '2', type: 'b', source: 'shop', specversion: '1.0' }];
    const headers = { 'Content-Type': 'application/cloudevents-batch+json; charset=utf-8' };
    assert.deepEqual(await post('/event', headers, JSON.stringify(batch)), { data: batch });
  });
  await t.test('structured mode with base64', async () => {
    const body = { id: '1', type: 'a', source: 'shop', specversion: '1.0', data_base64: 'AP8=' };
    const event = await post('/event', { 'Content-Type': 'application/cloudevents+json' }, JSON.stringify(body));
    assert.deepEqual(event.data, { type: 'Buffer', data: [0, 255] });
  });
  await t.test('buildResponseCloudEvent takes over the source', async () => {
    const headers = { 'ce-type': 'a', 'ce-source': 'shop', 'ce-specversion': '1.0', 'Content-Type': 'text/plain' };
    assert.deepEqual(await post('/build-response', headers, 'x'), {
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

test('an event is sent again after what may pass, and no other', async (t) => {
  const rows = [
    { name: 'busy, then well', statuses: [503, 429, 200], want: '{"status":200}', sent: 3 },
    { name: 'busy for good', statuses: [503, 503, 503], status: 500, sent: 3 },
    { name: 'refused', statuses: [400], status: 500, sent: 1 },
    { name: 'no answer, then well', statuses: [0, 200], want: '{"status":200}', sent: 2 },
  ];
  for (const { name, statuses, want = 'Internal server error', status = 200, sent } of rows) {
    await t.test(name, async (t) => {
      const peer = await startPeer(t, statuses);
      const { url } = await startReady(t, 'commonjs.js', { PUBLISHER_PROXY_ADDRESS: peer.url, PUBLISHER_TIMEOUT: '0.5' });
      const answer = await send(`${url}/emit`);
      assert.equal(answer.text, want);
      assert.equal(answer.status, status);
      assert.equal(peer.seen.length, sent);
      assert.equal(new Set(peer.seen.map(({ body }) => JSON.parse(body).id)).size, 1);
    });
  }
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
    assert.match(text, /^http_server_active_requests 0$/m);
    assert.match(text, /^http_server_request_duration_seconds_bucket\{http_request_method="GET",http_response_status_code="500",url_scheme="http",le="\+Inf"\} 1$/m);
    assert.match(text, /^http_server_request_duration_seconds_count\{http_request_method="GET",http_response_status_code="200",url_scheme="http"\} 1$/m);
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
