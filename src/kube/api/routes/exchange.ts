import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import type { Op } from '../../../lib/abort.ts';
import { isKind, messageOf } from '../../../lib/errors.ts';
import { UNCHANGED_HEADER } from '../../gantry-extensions.ts';
import { apiError, statusOf } from '../../status-error.ts';
import type { WriteResult } from '../registry.ts';

/** A connection that its client wants to use for another protocol, with what came behind the request. */
export interface Upgrade {
  readonly socket: Duplex;
  readonly head: Buffer;
}

/** One request on its way through the routes. */
export interface Exchange {
  readonly op: Op;
  readonly method: string;
  /** Path segments, decoded. */
  readonly path: readonly string[];
  readonly query: URLSearchParams;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** The client wants another protocol than HTTP from here on, where there may be one. */
  readonly upgrade?: Upgrade;
}

export function sendJson(
  exchange: Exchange,
  code: number,
  body: unknown,
  { warnings = [], unchanged = false }: Pick<Partial<WriteResult>, 'warnings' | 'unchanged'> = {},
): void {
  const text = Buffer.from(`${JSON.stringify(body)}\n`);
  const headers: Record<string, string | number | string[]> = {
    'content-type': 'application/json',
    'content-length': text.byteLength,
    'cache-control': 'no-cache, private',
  };
  if (unchanged) headers[UNCHANGED_HEADER] = 'true';
  if (warnings.length > 0) headers['warning'] = warnings.slice(0, MAX_WARNINGS).map(warningHeader);
  exchange.response.writeHead(code, headers);
  exchange.response.end(exchange.method === 'HEAD' ? undefined : text);
}

export function sendText(exchange: Exchange, text: string): void {
  exchange.response.writeHead(200, { 'content-type': 'text/plain; charset=utf-8' });
  exchange.response.end(exchange.method === 'HEAD' ? undefined : text);
}

/** Answers with the Status that the error comes to; if the answer has begun already, cuts it off. */
export function sendError(exchange: Exchange, error: unknown): void {
  const status = statusOf(error);
  const code = status.code ?? 500;
  if (code >= 500 && !isKind(error, 'NotImplemented', 'Unavailable')) {
    exchange.op.log.error(
      { method: exchange.method, path: exchange.request.url, error: messageOf(error) },
      'request failed',
    );
  }
  if (exchange.response.headersSent) exchange.response.destroy();
  else sendJson(exchange, code, status);
}

/** Headers have a limit of size; so many warnings nobody reads anyway. */
const MAX_WARNINGS = 30;
const MAX_WARNING_LENGTH = 256;

/** `299 - "text"`, in what a header may carry. */
function warningHeader(text: string): string {
  const plain = text.replaceAll(/[^\x20-\x7e]/g, '?').slice(0, MAX_WARNING_LENGTH);
  return `299 - "${plain.replaceAll(/["\\]/g, (char) => `\\${char}`)}"`;
}

/** Sends a stream as it comes, as fast as the client takes it. Fails before the first byte if the source does. */
export async function sendStream(
  exchange: Exchange,
  contentType: string,
  source: AsyncIterable<Uint8Array>,
): Promise<void> {
  const { response, op } = exchange;
  const iterator = source[Symbol.asyncIterator]();
  try {
    let next = await iterator.next();
    response.writeHead(200, { 'content-type': contentType, 'cache-control': 'no-cache, private' });
    response.flushHeaders();
    while (next.done !== true && !op.signal.aborted) {
      if (!response.write(next.value)) await drained(exchange);
      next = await iterator.next();
    }
    response.end();
  } finally {
    await iterator.return?.();
  }
}

async function drained({ response, op }: Exchange): Promise<void> {
  if (op.signal.aborted) return;
  await new Promise<void>((resolve) => {
    const done = (): void => {
      response.off('drain', done);
      op.signal.removeEventListener('abort', done);
      resolve();
    };
    response.on('drain', done);
    op.signal.addEventListener('abort', done, { once: true });
  });
}

/** A boolean query parameter: `1`, `true`, or present without a value. */
export function flagOf(query: URLSearchParams, name: string): boolean {
  const value = query.get(name);
  return value !== null && value !== '0' && value !== 'false';
}

/** A whole number of at least `min`, or undefined if it is not given. */
export function numberOf(query: URLSearchParams, name: string, min = 0): number | undefined {
  const text = query.get(name);
  if (text === null || text === '') return undefined;
  const value = Number(text);
  if (!/^-?[0-9]{1,15}$/.test(text) || value < min) {
    throw apiError('BadRequest', `${name} must be an integer of at least ${min}, not ${JSON.stringify(text)}`);
  }
  return value;
}

export function methodNotAllowed(exchange: Exchange): Error {
  return apiError('MethodNotAllowed', `the server does not allow ${exchange.method} on /${exchange.path.join('/')}`);
}

export function noSuchPath(exchange: Exchange): Error {
  return apiError('NotFound', `the server could not find the requested resource (/${exchange.path.join('/')})`);
}
