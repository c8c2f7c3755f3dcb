import assert from 'node:assert/strict';
import { test } from 'node:test';
import { send, startPeer, startReady } from './running.mjs';

test('main(req, res) answers by itself, with the package sdk', async (t) => {
  const peer = await startPeer(t);
  const { url } = await startReady(t, 'sdk.mjs', {
    FUNC_RUNTIME: 'nodejs26', FUNC_NAME: 'orders', SERVICE_NAMESPACE: 'shop', FUNC_TIMEOUT: '4', FUNC_BODY_MB_LIMIT: '2',
    PUBLISHER_PROXY_ADDRESS: peer.url,
  });
  const ce = { 'ce-id': '1', 'ce-type': 'made', 'ce-source': 'shop', 'ce-specversion': '1.0', 'Content-Type': 'application/json' };
  const batch = '[{"id":"1","type":"a","source":"s","specversion":"1.0"},{"id":"2","type":"a","source":"s","specversion":"1.0"}]';
  const rows = [
    { name: 'Express', path: '/express?q=1', status: 201, text: '{"q":"1"}' },
    { name: 'a body', path: '/express', headers: { 'Content-Type': 'application/json' }, body: '[1]', status: 201, text: '{"body":[1]}' },
    { name: 'a binary event', path: '/event', headers: ce, body: '{"a":1}', text: '{"type":"made","data":{"a":1}}' },
    { name: 'a structured event', path: '/event', headers: { 'Content-Type': 'application/cloudevents+json' },
      body: '{"id":"1","type":"made","source":"shop","specversion":"1.0","data":5}', text: '{"type":"made","data":5}' },
    { name: 'a batch', path: '/event', headers: { 'Content-Type': 'application/cloudevents-batch+json' }, body: batch, text: '2' },
    { name: 'no event', path: '/event', headers: { 'Content-Type': 'application/json' }, body: '{}', text: 'null' },
    { name: 'an invalid event', path: '/event', headers: { 'Content-Type': 'application/cloudevents+json' }, body: '{"id":"1"}', text: 'null' },
    { name: 'an event out', path: '/emit', text: '200' },
    { name: 'facts', path: '/facts', text: '["orders","shop","nodejs26",4,2,"function",false]' },
    { name: 'a returned value is ignored', path: '/later', text: 'later' },
    { name: 'a rejection', path: '/rejects', status: 500, text: 'Internal server error' },
    { name: 'an exception', path: '/throws', status: 500, text: 'Internal server error' },
    { name: 'no answer', path: '/never', status: 408, text: 'no answer in 4 s' },
  ];
  for (const { name, path, headers, body, status = 200, text } of rows) {
    await t.test(name, async () => {
      const answer = await send(url + path, { method: body ? 'POST' : 'GET', headers, body });
      assert.equal(answer.text, text);
      assert.equal(answer.status, status);
    });
  }
  await t.test('OPTIONS is answered by the server', async () => {
    assert.equal((await send(`${url}/throws`, { method: 'OPTIONS' })).status, 200);
  });
});
