import type { IncomingMessage } from 'node:http';
import { connect } from 'node:net';
import type { Duplex } from 'node:stream';
import { withLimit, type Op } from '../../lib/abort.ts';
import type { Clock } from '../../lib/clock.ts';
import { canceled, GantryError, messageOf } from '../../lib/errors.ts';
import { http } from '../../lib/node-http.ts';
import { apiError } from '../status-error.ts';

/** A client's request to change the protocol, and its connection with what it has sent behind the request. */
export interface UpgradeRequest {
  readonly request: IncomingMessage;
  readonly client: Duplex;
  readonly head: Buffer;
}

interface Upstream {
  readonly socket: Duplex;
  readonly head: Buffer;
  readonly answer: IncomingMessage;
}

/** It serves on this machine, and says yes before it starts anything. */
const HANDSHAKE_LIMIT_MS = 30_000;
/** What may be told of an answer that is no yes. */
const MAX_REFUSAL_BYTES = 4096;

/**
 * Hands the request on to the server behind `url` and, if that agrees, from then on every byte both ways, with the back-pressure
 * and the half close of either side and without a look into them. `take` is called once it has agreed: only then is the client's
 * connection no longer HTTP, until then an error can be answered. Resolves when both sides are at their end; both are cut off
 * when the op's signal fires.
 *
 * @throws the Status that the server's refusal comes to
 */
export async function proxyUpgrade(
  op: Op,
  clock: Clock,
  url: URL,
  { request, client, head }: UpgradeRequest,
  take: () => void,
): Promise<void> {
  const upstream = await withLimit(op, clock, HANDSHAKE_LIMIT_MS, 'streaming server', (limited) =>
    upgraded(limited, url, request),
  );
  take();
  client.write(headOf(upstream.answer));
  if (upstream.head.byteLength > 0) client.write(upstream.head);
  if (head.byteLength > 0) upstream.socket.write(head);
  await spliced(op, client, upstream.socket);
}

async function upgraded(op: Op, url: URL, request: IncomingMessage): Promise<Upstream> {
  if (url.protocol !== 'http:') throw apiError('NotImplemented', `streams are not fetched over ${url.protocol}`);
  return await new Promise<Upstream>((resolve, reject) => {
    const outgoing = http.request({
      method: request.method,
      path: url.pathname + url.search,
      headers: ['Host', url.host, ...handedOn(request.rawHeaders)],
      // Either side may close its half and go on reading.
      createConnection: () => connect({ ...tcpAddress(url), allowHalfOpen: true, noDelay: true }),
      signal: op.signal,
    });
    outgoing.on('upgrade', (answer, socket, head) => {
      resolve({ socket, head, answer });
    });
    outgoing.on('response', (answer) => {
      refusal(answer).then(reject, reject);
    });
    outgoing.on('error', (error) => {
      const { reason } = op.signal as { reason: unknown };
      const cannot = `the runtime's streaming server at ${url.host} cannot be reached: ${messageOf(error)}`;
      reject(reason instanceof GantryError ? reason : apiError('InternalError', cannot));
    });
    outgoing.end();
  });
}

function tcpAddress(url: URL): { host: string; port: number } {
  return { host: url.hostname.replaceAll(/[[\]]/g, ''), port: Number(url.port || 80) };
}

/** What is between the client and the API alone, and not for whom it is handed on to. */
const NOT_HANDED_ON: readonly string[] = ['host', 'authorization', 'cookie', 'origin'];

function handedOn(rawHeaders: readonly string[]): string[] {
  const headers: string[] = [];
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const [name = '', value = ''] = rawHeaders.slice(at, at + 2);
    if (!NOT_HANDED_ON.includes(name.toLowerCase())) headers.push(name, value);
  }
  return headers;
}

function headOf({ statusCode = 101, statusMessage = '', rawHeaders }: IncomingMessage): string {
  const lines = [`HTTP/1.1 ${statusCode} ${statusMessage}`];
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) lines.push(`${rawHeaders[at]}: ${rawHeaders[at + 1]}`);
  return `${lines.join('\r\n')}\r\n\r\n`;
}

async function refusal(answer: IncomingMessage): Promise<Error> {
  let text = '';
  for await (const chunk of answer.setEncoding('utf8') as AsyncIterable<string>) {
    text += chunk;
    if (text.length > MAX_REFUSAL_BYTES) break;
  }
  const said = text.trim().slice(0, MAX_REFUSAL_BYTES) || `${answer.statusCode} ${answer.statusMessage}`;
  const reason = (answer.statusCode ?? 500) < 500 ? 'BadRequest' : 'InternalError';
  return apiError(reason, `unable to upgrade connection: ${said}`);
}

/** Resolves when both are closed. */
async function spliced({ signal }: Op, one: Duplex, other: Duplex): Promise<void> {
  const cut = (): void => {
    one.destroy();
    other.destroy();
  };
  const closed = Promise.all([follow(one, other), follow(other, one)]);
  if (signal.aborted) cut();
  else signal.addEventListener('abort', cut, { once: true });
  await closed;
  signal.removeEventListener('abort', cut);
}

/** Sends on what `from` reads; once `from` is closed, `to` is, too, when it has sent what it has. */
async function follow(from: Duplex, to: Duplex): Promise<void> {
  from.on('error', () => undefined);
  from.pipe(to);
  await new Promise<void>((resolve) => {
    from.once('close', resolve);
    if (from.destroyed) resolve();
  });
  if (!from.readableEnded) to.destroy(canceled('the other side of the stream broke off'));
  else if (to.writableFinished) to.destroy();
  else to.once('finish', () => to.destroy());
}
