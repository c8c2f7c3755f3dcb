// One JSON object a line; errors go to stderr, the rest to stdout.

export const log = {
  info: (message, fields) => write(process.stdout, 'info', message, fields),
  error: (message, fields) => write(process.stderr, 'error', message, fields),
};

function write(stream, level, message, fields = {}) {
  const line = { time: new Date().toISOString(), level, message, ...fields };
  if ('error' in line) line.error = describe(line.error);
  stream.write(`${JSON.stringify(line)}\n`);
}

function describe(error) {
  return error instanceof Error ? (error.stack ?? String(error)) : String(error);
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
