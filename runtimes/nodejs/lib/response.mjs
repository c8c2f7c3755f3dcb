import { STATUS_CODES } from 'node:http';
import { adopt, isPiped } from './express.mjs';

/** Answers with what a handler returned. Does nothing when the handler has answered or pipes a stream. */
export function sendValue(req, res, value) {
  if (res.writableEnded || isPiped(res)) return;
  if (value && typeof value === 'object' && value !== res) {
    adopt(req, res);
    res.json(value);
  } else if (!value || value === res || typeof value === 'function') {
    res.end();
  } else {
    res.end(String(value));
  }
}

/** Answers as the third argument of a handler does: body, status and headers, each optional. */
export function sendCallback(req, res, body, status, headers) {
  if (res.writableEnded) return;
  for (const [name, value] of Object.entries(headers ?? {})) res.setHeader(name, value);
  if (status) res.statusCode = status;
  sendValue(req, res, body || !status ? body : STATUS_CODES[status]);
}

/** Answers with a status and a plain text of ours, unless an answer has begun. */
export function sendText(res, status, text) {
  if (res.headersSent) {
    if (!res.writableEnded) res.destroy();
    return;
  }
  res.statusCode = status;
  res.setHeader('Content-Type', 'text/plain; charset=utf-8');
  res.end(text);
}
