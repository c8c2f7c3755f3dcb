import { STATUS_CODES } from 'node:http';
import { Readable } from 'node:stream';
import { adopt, isPiped } from './express.mjs';

/**
 * Answers with what a handler returned. Does nothing when the handler has answered or pipes a
 * stream. Throws what cannot be sent, an Error among it; calls fail when that shows only later.
 */
export function sendValue(req, res, value, fail) {
  if (res.writableEnded || isPiped(res)) return;
  if (value && typeof value === 'object' && value !== res) {
    sendObject(req, res, value, fail);
  } else if (!value || value === res || typeof value === 'function') {
    res.end();
  } else {
    res.end(String(value));
  }
}

/** Answers as the third argument of a handler does: body, status and headers, each optional. */
export function sendCallback(req, res, body, status, headers, fail) {
  if (res.writableEnded) return;
  for (const [name, value] of Object.entries(headers ?? {})) res.setHeader(name, value);
  if (status) res.statusCode = status;
  sendValue(req, res, body || !status ? body : STATUS_CODES[status], fail);
}

/** Answers with a status and a plain text of ours, unless an answer has begun. */
export function sendText(res, status, text) {
  if (res.headersSent) {
    if (!res.writableEnded) res.destroy();
    return;
  }
  res.statusCode = status;
  for (const name of ['Content-Length', 'Content-Encoding', 'ETag']) res.removeHeader(name);
  res.setHeader('Content-Type', 'text/plain; charset=utf-8');
  res.end(text);
}

function sendObject(req, res, value, fail) {
  if (value instanceof Error) throw value;
  if (ArrayBuffer.isView(value)) return sendBytes(res, Buffer.from(value.buffer, value.byteOffset, value.byteLength));
  if (value instanceof ArrayBuffer) return sendBytes(res, Buffer.from(value));
  const source = sourceOf(res, value);
  if (source) return void sendChunks(req, res, source).catch(fail);
  if (res.headersSent) return res.end();
  adopt(req, res);
  res.json(value);
}

function sendBytes(res, bytes) {
  if (!res.headersSent && !res.hasHeader('Content-Type')) res.setHeader('Content-Type', 'application/octet-stream');
  res.end(bytes);
}

/**
 * Gives what yields the chunks of value, or undefined if value is none of those that do. The web
 * classes are told by their tags: their globals would load undici in every Function.
 */
function sourceOf(res, value) {
  switch (value[Symbol.toStringTag]) {
    case 'Response':
      if (typeof value.headers?.getSetCookie !== 'function') break;
      res.statusCode = value.status;
      value.headers.forEach((text, name) => name !== 'set-cookie' && res.setHeader(name, text));
      if (value.headers.getSetCookie().length > 0) res.setHeader('Set-Cookie', value.headers.getSetCookie());
      return value.body ? Readable.fromWeb(value.body) : [];
    case 'Blob':
    case 'File':
      if (value.type && !res.hasHeader('Content-Type')) res.setHeader('Content-Type', value.type);
      return Readable.fromWeb(value.stream());
    case 'ReadableStream':
      return Readable.fromWeb(value);
  }
  if (typeof value[Symbol.asyncIterator] === 'function') return value;
  if (typeof value.pipe === 'function' && typeof value.on === 'function') return new Readable().wrap(value);
  // A generator. Arrays and other collections are JSON.
  if (typeof value.next === 'function' && typeof value[Symbol.iterator] === 'function') return value;
  return undefined;
}

/** Sends chunk by chunk, as fast as the client reads. When the client goes, the source is closed. */
async function sendChunks(req, res, source) {
  const gone = new Promise((resolve) => res.once('close', resolve));
  if (typeof source.destroy === 'function') gone.then(() => source.destroy());
  if (req.method === 'HEAD') {
    source.destroy?.();
    source.return?.();
    return res.end();
  }
  try {
    for await (const chunk of source) {
      if (res.destroyed || res.writableEnded) return;
      if (!res.write(bytesOf(chunk))) await Promise.race([gone, new Promise((resolve) => res.once('drain', resolve))]);
    }
  } catch (error) {
    if (!res.destroyed) throw error;
    return;
  }
  res.end();
}

/** Strings and bytes go as they are, anything else as a line of JSON. */
function bytesOf(chunk) {
  if (typeof chunk === 'string' || chunk instanceof Uint8Array) return chunk;
  return `${JSON.stringify(chunk) ?? 'null'}\n`;
}
