import { readCloudEvent, contentTypeOf, emitCloudEvent, publishCloudEvent } from './cloudevents.mjs';
import { adopt } from './express.mjs';
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

/**
 * Gives the event of one request. Its methods are closures, so that a handler may take them
 * off the event; whatever is costly is a getter.
 */
export function createEvent(req, res, { publisherAddress }) {
  const event = {
    extensions: {
      get request() {
        adopt(req, res);
        return req;
      },
      get response() {
        adopt(req, res);
        return res;
      },
    },
    get tracer() {
      return tracer();
    },
    setResponseHeader: (name, value) => void res.setHeader(name, value),
    setResponseContentType: (type) => {
      adopt(req, res);
      res.type(type);
    },
    setResponseStatus: (status) => {
      res.statusCode = Number(status);
    },
    emitCloudEvent: (type, source, data, attributes) =>
      emitCloudEvent(publisherAddress, type, source, data, attributes),
    publishCloudEvent: (object) => publishCloudEvent(publisherAddress, object),
    buildResponseCloudEvent: (id, type, data) => ({
      type,
      source: event['ce-source'],
      eventtypeversion: event['ce-eventtypeversion'],
      specversion: event['ce-specversion'],
      id,
      data,
      datacontenttype: contentTypeOf(data),
    }),
  };
  if (req.body !== undefined) Object.assign(event, readCloudEvent(req) ?? { data: req.body });
  return event;
}
