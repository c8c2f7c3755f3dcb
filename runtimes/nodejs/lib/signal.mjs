const controller = Symbol('aborts the work for an answer');

/** Gives the AbortSignal of an answer. It is made when it is first asked for. */
export function signalOf(res) {
  if (!res[controller]) {
    res[controller] = new AbortController();
    res.once('close', () => {
      if (!res.writableFinished) abort(res, 'AbortError', 'the caller has gone');
    });
  }
  return res[controller].signal;
}

/** Tells whoever works for the answer to stop. */
export function abort(res, name, message) {
  res[controller]?.abort(new DOMException(message, name));
}
