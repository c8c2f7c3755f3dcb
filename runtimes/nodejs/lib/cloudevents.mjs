import { createRequire } from 'node:module';
import { setTimeout as delay } from 'node:timers/promises';
import { mediaType } from './body.mjs';

const require = createRequire(import.meta.url);
const structured = 'application/cloudevents+json';
const batched = 'application/cloudevents-batch+json';
const attributes = ['type', 'source', 'eventtypeversion', 'specversion', 'id', 'time', 'datacontenttype'];

/**
 * Gives the event members of a CloudEvent ("data" and those beginning with "ce-") from a
 * request whose body has been read, in structured or binary mode; undefined for others, so that
 * the data of a batch is its array.
 */
export function readCloudEvent(req) {
  const { headers, body } = req;
  if (mediaType(req) === structured) {
    if (body === null || typeof body !== 'object' || Array.isArray(body)) return undefined;
    const data = body.data_base64 === undefined ? body.data : Buffer.from(body.data_base64, 'base64');
    return { data, ...members((name) => body[name]) };
  }
  if (!headers['ce-type'] || !headers['ce-source']) return undefined;
  return {
    data: body,
    ...members((name) => headers[name === 'datacontenttype' ? 'content-type' : `ce-${name}`]),
  };
}

function members(valueOf) {
  const found = {};
  for (const name of attributes) {
    const value = valueOf(name);
    if (value !== undefined) found[`ce-${name}`] = value;
  }
  return found;
}

/** The content type that data travels with when its sender names none. */
export function contentTypeOf(data) {
  return typeof data === 'string' ? 'text/plain' : 'application/json';
}

/**
 * Gives the CloudEvents SDK's event of a request whose body has been read, an array of them for a
 * batch, null if it carries none or an invalid one.
 */
export function toCloudEvent({ headers, body }) {
  const { HTTP } = require('cloudevents');
  try {
    // The SDK takes single events parsed, but batches only as text.
    const event = HTTP.toEvent({ headers, body: mediaType({ headers }) === batched ? JSON.stringify(body) : body });
    for (const each of [event].flat()) each.validate();
    return event;
  } catch {
    return null;
  }
}

/** Posts a structured CloudEvent to the publisher; resolves to the axios response. */
export async function emitCloudEvent(publisher, type, source, data, extra = {}) {
  const { CloudEvent, HTTP } = require('cloudevents');
  const event = new CloudEvent({ datacontenttype: contentTypeOf(data), ...extra, type, source, data });
  const { headers, body } = HTTP.structured(event);
  return post(publisher, body, headers);
}

/** Posts object as it is, as a structured CloudEvent; resolves to the axios response. */
export async function publishCloudEvent(publisher, object) {
  return post(publisher, object, { 'Content-Type': structured });
}

/**
 * Posts, and again after what may pass: no answer, or one that says so. The event keeps its id, so
 * whoever gets it twice can tell. Rejects with the last error of axios.
 */
async function post({ address, timeoutSeconds, attempts }, body, headers) {
  if (!address) throw new Error('send event: PUBLISHER_PROXY_ADDRESS is not set');
  const axios = require('axios');
  for (let attempt = 1; ; attempt++) {
    try {
      return await axios.post(address, body, { headers, timeout: timeoutSeconds * 1000 });
    } catch (error) {
      if (attempt >= attempts || !mayPass(error)) throw error;
      await delay(pause(attempt, error.response?.headers['retry-after']));
    }
  }
}

function mayPass({ response, code }) {
  return response ? [408, 429, 502, 503, 504].includes(response.status) : !['ERR_INVALID_URL', 'ERR_BAD_OPTION'].includes(code);
}

/** Milliseconds: what the publisher asks for, at most 5 s; else 0.1 s doubled each time, and up to half more. */
function pause(attempt, retryAfter) {
  const asked = Number(retryAfter) * 1000;
  return asked > 0 ? Math.min(asked, 5000) : 100 * 2 ** (attempt - 1) * (1 + Math.random() / 2);
}
