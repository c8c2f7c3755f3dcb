// One JSON object a line, or one line of text on request; errors go to stderr, the rest to stdout.
// What is logged while a request is served says which request and which trace.
import { currentRequest, requestIdOf, traceIdOf } from './tracing.mjs';

let about = {};
let format = asJSON;

export const log = {
  info: (message, fields) => write(process.stdout, 'info', message, fields),
  warn: (message, fields) => write(process.stderr, 'warn', message, fields),
  error: (message, fields) => write(process.stderr, 'error', message, fields),
};

/** Says how to write, and of which Function. */
export function configureLog({ functionName, namespace, logFormat }) {
  about = { function: functionName, namespace };
  format = logFormat === 'text' ? asText : asJSON;
}

function write(stream, level, message, fields = {}) {
  const line = { time: new Date().toISOString(), level, message, ...about };
  const req = currentRequest();
  if (req) {
    line.requestId = requestIdOf(req);
    line.traceId = traceIdOf(req);
  }
  Object.assign(line, fields);
  if ('error' in line) line.error = describe(line.error);
  stream.write(`${format(line)}\n`);
}

function asJSON(line) {
  return JSON.stringify(line);
}

function asText({ time, level, message, ...rest }) {
  const pairs = Object.entries(rest).filter(([, value]) => value !== undefined);
  return [time, level.toUpperCase(), message, ...pairs.map(([name, value]) => `${name}=${JSON.stringify(value)}`)].join(' ');
}

function describe(error) {
  if (!(error instanceof Error)) return String(error);
  const { stack, cause } = error;
  return cause === undefined ? (stack ?? String(error)) : `${stack ?? error}\ncaused by: ${cause?.stack ?? cause}`;
}

/** Writes one answered request in Apache's combined format, which the contract asks for. */
export function logAccess(req, res) {
  const { remoteAddress } = req.socket;
  res.once('finish', () => {
    const { referer = '-', 'user-agent': agent = '-' } = req.headers;
    const size = res.getHeader('content-length') ?? '-';
    process.stdout.write(
      `${remoteAddress} - - [${apacheDate(new Date())}] "${req.method} ${req.originalUrl ?? req.url} ` +
        `HTTP/${req.httpVersion}" ${res.statusCode} ${size} "${quote(referer)}" "${quote(agent)}"\n`,
    );
  });
}

const months = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];

function apacheDate(date) {
  const two = (n) => String(n).padStart(2, '0');
  const day = `${two(date.getUTCDate())}/${months[date.getUTCMonth()]}/${date.getUTCFullYear()}`;
  const time = [date.getUTCHours(), date.getUTCMinutes(), date.getUTCSeconds()].map(two).join(':');
  return `${day}:${time} +0000`;
}

const quote = (text) => text.replace(/["\\]/g, '\\$&');
