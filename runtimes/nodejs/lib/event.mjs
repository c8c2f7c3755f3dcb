import { readCloudEvent, contentTypeOf, emitCloudEvent, publishCloudEvent } from './cloudevents.mjs';
import { adopt } from './express.mjs';
import { signalOf } from './signal.mjs';
import { tracer } from './tracing.mjs';

/** Gives the context object that every call shares. */
export function createContext(options) {
  return {
    'function-name': options.functionName,
    runtime: options.runtime,
    namespace: options.namespace,
    timeout: options.timeoutSeconds,
    'body-size-limit': options.bodyLimitMB,
  };
}

/** What a handler meets when it asks for Express: most do not, so only those who do pay for it. */
class Extensions {
  #req;
  #res;

  constructor(req, res) {
    this.#req = req;
    this.#res = res;
  }

  get request() {
    adopt(this.#req, this.#res);
    return this.#req;
  }

  get response() {
    adopt(this.#req, this.#res);
    return this.#res;
  }
}

/**
 * The event of one request. Its methods are closures, so that a handler may take them off the
 * event. Getters stand in classes: in an object literal they would make each event slow.
 */
export class Event {
  #res;

  constructor(req, res, { publisher }) {
    this.#res = res;
    this.extensions = new Extensions(req, res);
    this.setResponseHeader = (name, value) => void res.setHeader(name, value);
    this.setResponseContentType = (type) => {
      adopt(req, res);
      res.type(type);
    };
    this.setResponseStatus = (status) => {
      res.statusCode = Number(status);
    };
    this.emitCloudEvent = (type, source, data, attributes) =>
      emitCloudEvent(publisher, type, source, data, attributes);
    this.publishCloudEvent = (object) => publishCloudEvent(publisher, object);
    this.buildResponseCloudEvent = (id, type, data) => ({
      type,
      source: this['ce-source'],
      eventtypeversion: this['ce-eventtypeversion'],
      specversion: this['ce-specversion'],
      id,
      data,
      datacontenttype: contentTypeOf(data),
    });
    if (req.body !== undefined) Object.assign(this, readCloudEvent(req) ?? { data: req.body });
  }

  /** Aborts when the caller has gone or FUNC_TIMEOUT is over. Not in Kyma's server. */
  get signal() {
    return signalOf(this.#res);
  }

  get tracer() {
    return tracer();
  }
}
