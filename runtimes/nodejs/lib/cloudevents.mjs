import { createRequire } from 'node:module';
import { mediaType } from './body.mjs';

const require = createRequire(import.meta.url);
const structured = 'application/cloudevents+json';
const attributes = ['type', 'source', 'eventtypeversion', 'specversion', 'id', 'time', 'datacontenttype'];

/**
 * Gives the event members of a CloudEvent ("data" and those beginning with "ce-") from a
 * request whose body has been read, in structured or binary mode; undefined for others.
 */
export function readCloudEvent(req) {
  const { headers, body } = req;
  if (mediaType(req) === structured) {
    if (body === null || typeof body !== 'object') return undefined;
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

/** Posts a structured CloudEvent to address; resolves to the axios response. */
export async function emitCloudEvent(address, type, source, data, extra = {}) {
  const { CloudEvent, HTTP } = require('cloudevents');
  const event = new CloudEvent({ datacontenttype: contentTypeOf(data), ...extra, type, source, data });
  const { headers, body } = HTTP.structured(event);
  return require('axios').post(address, body, { headers });
}

/** Posts object as it is, as a structured CloudEvent; resolves to the axios response. */
export async function publishCloudEvent(address, object) {
  return require('axios').post(address, object, { headers: { 'Content-Type': structured } });
}
