// Each path of a request is a case; the tests name them.
import {
  emitCloudEvent, getBodySizeLimit, getCloudEvent, getFunctionName, getNamespace, getRuntime, getSignal, getTimeout, getTracer,
} from 'sdk';

const cases = {
  '/express': (req, res) => res.status(201).json({ q: req.query.q, body: req.body }),
  '/event': (req, res) => {
    const event = getCloudEvent(req);
    res.json(event && (Array.isArray(event) ? event.length : { type: event.type, data: event.data }));
  },
  '/emit': async (req, res) => res.json((await emitCloudEvent('order.made', 'shop', { id: 7 })).status),
  '/facts': (req, res) =>
    res.json([getFunctionName(), getNamespace(), getRuntime(), getTimeout(), getBodySizeLimit(), typeof getTracer().startSpan, getSignal(req).aborted]),
  '/later': async (req, res) => {
    await new Promise((resolve) => setImmediate(resolve));
    res.end('later');
    return 'ignored';
  },
  '/rejects': async () => {
    throw new Error('secret');
  },
  '/throws': () => {
    throw new Error('secret');
  },
  '/never': () => {},
};

export const main = (req, res) => cases[req.path](req, res);
