import type { Duplex } from 'node:stream';
import { text } from 'node:stream/consumers';
import type { Op } from '../../lib/abort.ts';
import { systemClock } from '../../lib/clock.ts';
import { canceled } from '../../lib/errors.ts';
import { http } from '../../lib/node-http.ts';
import { SpdyConnection } from '../../lib/spdy/spdy-connection.ts';
import { apiError } from '../status-error.ts';
import type { PodPortForwardRequest, PortConnection, PortForwardSession } from '../streams/pod-streams.ts';
import { streamQuery } from '../streams/stream-query.ts';
import type { HttpConnection } from './http-connection.ts';

const PROTOCOL = 'portforward.k8s.io';
const VERSION_HEADER = 'x-stream-protocol-version';

/** Opens a session over SPDY. Rejects with the error of the API's Status if it refuses. */
export async function openPortForwardSession(
  op: Op,
  connection: HttpConnection,
  request: PodPortForwardRequest,
): Promise<PortForwardSession> {
  const transport = await upgraded(op, connection, request);
  const spdy = new SpdyConnection({
    ...{ transport, side: 'client', clock: systemClock, log: op.log },
    active: () => undefined,
  });
  const abort = (): void => spdy.destroy('it was given up');
  if (op.signal.aborted) abort();
  else op.signal.addEventListener('abort', abort, { once: true });
  spdy.gone.addEventListener('abort', () => op.signal.removeEventListener('abort', abort), { once: true });
  let requests = 0;
  return {
    open: (port) => openPort(spdy, port, requests++),
    over: spdy.gone,
    close: () => spdy.close(),
  };
}

/** Each connection has two streams, that for words about what went wrong first. */
function openPort(spdy: SpdyConnection, port: number, request: number): PortConnection {
  const headers = { port: String(port), requestid: String(request) };
  const error = spdy.open({ streamtype: 'error', ...headers }, 'input');
  const data = spdy.open({ streamtype: 'data', ...headers }, 'both');
  const failure = text(error).then(
    (words) => (words === '' ? undefined : words),
    // Refused, or broken off: then the data is, too.
    () => undefined,
  );
  return { data, failure };
}

async function upgraded(op: Op, connection: HttpConnection, request: PodPortForwardRequest): Promise<Duplex> {
  op.signal.throwIfAborted();
  const { namespace, name } = request;
  const target = connection.upgrade({
    path: ['api', 'v1', 'namespaces', namespace, 'pods', name, 'portforward'],
    query: streamQuery(request),
  });
  return await new Promise<Duplex>((resolve, reject) => {
    const sent = http.request({
      ...{ method: 'POST', path: target.path, host: 'localhost', signal: op.signal },
      createConnection: () => target.connect(),
      headers: {
        ...{ connection: 'Upgrade', upgrade: 'SPDY/3.1', [VERSION_HEADER]: PROTOCOL },
        ...{ 'user-agent': 'gantry', 'content-length': '0' },
      },
    });
    sent.once('upgrade', (answer, socket, head) => {
      if (answer.headers[VERSION_HEADER] !== PROTOCOL) {
        socket.destroy(canceled('another protocol'));
        const said = String(answer.headers[VERSION_HEADER]);
        reject(apiError('InternalError', `unable to negotiate protocol: ${PROTOCOL} is wanted, not ${said}`));
        return;
      }
      if (head.byteLength > 0) socket.unshift(head);
      resolve(socket);
    });
    sent.once('response', (answer) => {
      target.refused(op, answer).then(reject, reject);
    });
    sent.on('error', (error) => reject(target.failed(op, error)));
    sent.end();
  });
}
