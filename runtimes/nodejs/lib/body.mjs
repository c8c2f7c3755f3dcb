import { expressParsers } from './express.mjs';

/** True when a body follows the headers of req. */
export function hasBody(req) {
  const { 'content-length': length, 'transfer-encoding': encoding } = req.headers;
  return (length !== undefined && length !== '0') || encoding !== undefined;
}

/** The media type in lower case, without parameters; empty when the request names none. */
export function mediaType(req) {
  const value = req.headers['content-type'] ?? '';
  const end = value.indexOf(';');
  return (end < 0 ? value : value.slice(0, end)).trim().toLowerCase();
}

/**
 * Gives a function (req, res, done) which reads the body into req.body by its media type and
 * calls done(error). Multipart bodies stay unread: the handler may stream them.
 */
export function bodyReader(limitMB) {
  const settings = { limit: Math.floor(limitMB * 1024 * 1024), type: () => true };
  let parsers;
  const load = () => {
    const { json, raw, text, urlencoded } = expressParsers();
    return {
      json: json({ ...settings, strict: false }),
      text: text(settings),
      urlencoded: urlencoded({ ...settings, extended: true }),
      raw: raw(settings),
    };
  };
  return (req, res, done) => {
    const type = mediaType(req);
    if (type.startsWith('multipart/')) return done();
    parsers ??= load();
    parsers[parserFor(type)](req, res, done);
  };
}

function parserFor(type) {
  switch (type) {
    case 'application/json':
    case 'application/cloudevents+json':
    case 'application/cloudevents-batch+json':
      return 'json';
    case 'application/x-www-form-urlencoded':
      return 'urlencoded';
    default:
      return type.startsWith('text/') ? 'text' : 'raw';
  }
}
