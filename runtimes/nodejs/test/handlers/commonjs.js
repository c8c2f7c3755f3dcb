// Each path of a request is a case; the tests name them.
const { Readable } = require('node:stream');
const http = require('node:http');

const cases = {
  string: () => 'text',
  object: () => ({ a: 1 }),
  array: () => [1, 'b'],
  number: () => 42,
  true: () => true,
  zero: () => 0,
  false: () => false,
  null: () => null,
  empty: () => '',
  undefined: () => undefined,
  promise: async () => ({ later: true }),
  thenable: () => ({ then: (resolve) => resolve('from a thenable') }),
  'promise-number': async () => 7,
  throws: () => {
    throw new Error('secret');
  },
  'throws-string': () => {
    throw 'out of stock';
  },
  rejects: async () => {
    throw new Error('secret');
  },
  'rejects-string': () => Promise.reject('sold out'),
  circular: () => {
    const a = {};
    a.a = a;
    return a;
  },
  status: (event) => {
    event.setResponseStatus(201);
    event.setResponseHeader('X-Made', 'yes');
    event.setResponseContentType('text/css');
    return 'made';
  },
  express: (event) => {
    const { request, response } = event.extensions;
    response.status(202).json({ q: request.query.q, path: request.path, host: request.get('host') !== undefined });
  },
  'express-status': (event) => {
    event.extensions.response.status(418);
    return { short: true };
  },
  piped: (event) => {
    Readable.from(['a', 'b', 'c']).pipe(event.extensions.response);
  },
  callback: (event, context, callback) => callback('called', 203, { 'X-By': 'callback' }),
  'callback-status': (event, context, callback) => callback(undefined, 404),
  buffer: () => Buffer.from([0, 1, 255]),
  'typed-array': () => new Uint8Array([65, 66, 67, 68]).subarray(1, 3),
  'array-buffer': () => new Uint8Array([65, 66]).buffer,
  bigint: () => 12n,
  date: () => new Date(0),
  stream: () => Readable.from(['a', Buffer.from('b'), 'c']),
  'stream-typed': (event) => {
    event.setResponseContentType('text/csv');
    event.setResponseStatus(206);
    return Readable.from(['1,2\n', '3,4\n']);
  },
  'stream-async': async () => Readable.from(['later']),
  'stream-breaks-at-once': () => Readable.from(broken()),
  'stream-breaks-later': () => Readable.from(broken('some')),
  generator: function* () {
    yield 'one ';
    yield { two: 2 };
  },
  'async-generator': async function* () {
    yield 'one ';
    yield 'two';
  },
  'async-iterable': () => ({
    async *[Symbol.asyncIterator]() {
      yield [1];
      yield [2];
    },
  }),
  'web-stream': () => new Blob(['web']).stream(),
  blob: () => new Blob(['<p>'], { type: 'text/html' }),
  response: () => {
    const headers = new Headers({ 'Content-Type': 'text/html', 'X-Made': 'yes' });
    headers.append('Set-Cookie', 'a=1');
    headers.append('Set-Cookie', 'b=2');
    return new Response('<b>', { status: 201, headers });
  },
  'response-json': async () => Response.json({ a: 1 }),
  'response-empty': () => new Response(null, { status: 204 }),
  'returned-error': () => new Error('secret'),
  'throws-nothing': () => {
    throw undefined;
  },
  endless: (event) => {
    const { signal } = event;
    signal.addEventListener('abort', () => (process.env.aborted = signal.reason.name));
    return new Promise(() => {});
  },
  aborted: () => process.env.aborted,
  'endless-stream': () => {
    const stream = new Readable({ read() { this.push('x'.repeat(65536)); } });
    stream.once('close', () => (process.env.aborted = 'stream closed'));
    return stream;
  },
  method: (event) => event.extensions.request.method,
  rejected: () => {
    Promise.reject(new Error('rejected by nobody in particular'));
    return new Promise(() => {});
  },
  'uncaught-pending': () => {
    setImmediate(() => {
      throw new Error('thrown by nobody in particular');
    });
    return new Promise(() => {});
  },
  large: () => Buffer.alloc(64 * 1024 * 1024),
  span: async (event) => event.tracer.startActiveSpan('work', async (span) => {
    await require('axios').get(process.env.PEER);
    await fetch(process.env.PEER);
    span.end();
    return span.isRecording();
  }),
  data: ({ data }) => ({
    type: Buffer.isBuffer(data) ? 'buffer' : typeof data,
    data: Buffer.isBuffer(data) ? data.toString('hex') : data,
    body: 'data' in { data } && data !== undefined,
  }),
  event: (event) => Object.fromEntries(Object.entries(event).filter(([key]) => key.startsWith('ce-') || key === 'data')),
  'build-response': (event) => event.buildResponseCloudEvent('1', 'made', { b: 2 }),
  context: (event, context) => context,
  emit: async (event) => {
    const answer = await event.emitCloudEvent('order.made', 'shop', { id: 7 }, { eventtypeversion: 'v1' });
    return { status: answer.status };
  },
  emitText: async ({ emitCloudEvent }) => (await emitCloudEvent('order.made', 'shop', 'plain')).data,
  publish: async (event) => (await event.publishCloudEvent({ id: 'x' })).status,
  httpget: () => new Promise((resolve) => http.get(process.env.PEER, (answer) => resolve({ status: answer.statusCode }))),
  fetch: async () => (await fetch(process.env.PEER, { headers: { 'X-Mine': '1' } })).status,
  tracer: (event) => typeof event.tracer.startSpan,
  libraries: () => ['axios', 'express', 'cloudevents', '@opentelemetry/api'].map((name) => typeof require(name)),
  slow: (event) => new Promise((resolve) => setTimeout(resolve, Number(event.extensions.request.query.ms ?? 300), 'slow')),
  never: () => new Promise(() => {}),
  multipart: async (event) => {
    let size = 0;
    for await (const chunk of event.extensions.request) size += chunk.length;
    return { size, data: event.data === undefined };
  },
  uncaught: () => {
    setImmediate(() => {
      throw new Error('thrown by nobody in particular');
    });
    return 'fine';
  },
};

async function* broken(...chunks) {
  yield* chunks;
  throw new Error('secret');
}

module.exports = {
  main: (event, context, callback) => cases[event.extensions.request.path.slice(1)](event, context, callback),
};
