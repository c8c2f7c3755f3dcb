import assert from 'node:assert/strict';
import { test } from 'node:test';
import { send, startPeer, startReady, until } from './running.mjs';

const trace = '0af7651916cd43dd8448eb211c80319c';
const caller = 'b7ad6b7169203331';

const spansOf = ({ seen }) =>
  seen.flatMap(({ body }) => JSON.parse(body).resourceSpans.flatMap((resource) => resource.scopeSpans.flatMap(({ spans }) => spans)));

const attribute = (span, key) => Object.values(span.attributes.find((each) => each.key === key)?.value ?? {})[0];

test('calls are recorded and sent to the collector', async (t) => {
  const collector = await startPeer(t);
  const peer = await startPeer(t);
  const { url, child, ended, lines } = await startReady(t, 'commonjs.js', {
    TRACE_COLLECTOR_ENDPOINT: `${collector.url}v1/traces`, PEER: peer.url, FUNC_NAME: 'orders', PUBLISHER_PROXY_ADDRESS: peer.url,
  });
  await t.test('a call, its own span and its requests are one trace', async () => {
    assert.equal((await send(`${url}/span?q=1`, { headers: { traceparent: `00-${trace}-${caller}-01`, tracestate: 'a=b' } })).status, 200);
    await until(() => spansOf(collector).length >= 4);
    const spans = spansOf(collector);
    const [server] = spans.filter(({ kind }) => kind === 2);
    const work = spans.find(({ name }) => name === 'work');
    const clients = spans.filter(({ kind }) => kind === 3);
    assert.ok(spans.every(({ traceId }) => traceId === trace));
    assert.equal(server.parentSpanId, caller);
    assert.equal(work.parentSpanId, server.spanId);
    assert.deepEqual(clients.map(({ parentSpanId }) => parentSpanId), [work.spanId, work.spanId]);
    assert.deepEqual(peer.seen.map(({ headers }) => headers['x-b3-spanid']).sort(), clients.map(({ spanId }) => spanId).sort());
    assert.deepEqual(peer.seen.map(({ headers }) => headers.tracestate), ['a=b', 'a=b']);
    assert.equal(attribute(server, 'url.path'), '/span');
    assert.equal(Number(attribute(server, 'http.response.status_code')), 200);
    assert.equal(collector.seen[0].url, '/v1/traces');
    const { resource } = JSON.parse(collector.seen[0].body).resourceSpans[0];
    assert.equal(attribute(resource, 'service.name'), 'orders');
  });
  await t.test('the context of B3 headers is taken', async () => {
    const sent = spansOf(collector).length;
    await send(`${url}/string`, { headers: { 'x-b3-traceid': trace, 'x-b3-spanid': caller, 'x-b3-sampled': '1' } });
    await until(() => spansOf(collector).length > sent);
    assert.equal(spansOf(collector).at(-1).parentSpanId, caller);
  });
  await t.test('an error marks the span and names the trace in the log', async () => {
    const sent = spansOf(collector).length;
    await send(`${url}/throws`);
    await until(() => spansOf(collector).length > sent);
    const span = spansOf(collector).at(-1);
    assert.equal(span.status.code, 2);
    assert.equal(span.events[0].name, 'exception');
    assert.equal(JSON.parse(lines.find((line) => line.includes('handler failed'))).traceId, span.traceId);
  });
  await t.test('health is not recorded, nor what the caller does not sample; a stop sends the rest', async () => {
    const sent = spansOf(collector).length;
    await send(`${url}/healthz`);
    await send(`${url}/emit`, { headers: { traceparent: `00-${trace}-${caller}-00` } });
    assert.match(peer.seen.at(-1).headers.traceparent, new RegExp(`^00-${trace}-[0-9a-f]{16}-00$`));
    await send(`${url}/string`);
    child.kill('SIGTERM');
    assert.deepEqual(await ended, [0, null]);
    assert.equal(spansOf(collector).length, sent + 1);
  });
});

test('a collector that is away costs no answer', async (t) => {
  const { url, child, ended } = await startReady(t, 'commonjs.js', { TRACE_COLLECTOR_ENDPOINT: 'http://127.0.0.1:1/v1/traces' });
  assert.equal((await send(`${url}/string`)).text, 'text');
  child.kill('SIGTERM');
  assert.deepEqual(await ended, [0, null]);
});
