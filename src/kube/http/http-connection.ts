import type { IncomingMessage } from 'node:http';
import { connect, type Socket } from 'node:net';
import type { Op } from '../../lib/abort.ts';
import { canceled, errnoOf, GantryError, invalidArgument, messageOf, unavailable } from '../../lib/errors.ts';
import { http } from '../../lib/node-http.ts';
import type { Status } from '../objects.ts';
import { UNCHANGED_HEADER } from '../gantry-extensions.ts';
import { errorOfStatus, isStatus } from '../status-error.ts';

type QueryRecord = Readonly<Record<string, string | number | boolean | undefined>>;
/** With URLSearchParams a name may be there more than once. */
type Query = URLSearchParams | QueryRecord;

export interface HttpRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** Segments, not encoded. */
  readonly path: readonly string[];
  /** What is undefined or empty is left out of a record. */
  readonly query?: QueryRecord;
  readonly body?: unknown;
  readonly contentType?: string;
}

export interface HttpAnswer<T> {
  readonly body: T;
  /** Texts of the Warning headers. */
  readonly warnings: readonly string[];
  /** 201: what was sent is a new object. */
  readonly created: boolean;
  /** {@link UNCHANGED_HEADER} is there. */
  readonly unchanged: boolean;
}

/** Where a protocol begins that begins as a request of HTTP, and what its failures mean. */
export interface UpgradeTarget {
  /** Path and query. */
  readonly path: string;
  /** Over a unix socket, where nobody is in between. */
  readonly direct: boolean;
  connect(): Socket;
  /** The error that an answer other than the wanted one stands for. */
  refused(op: Op, answer: IncomingMessage): Promise<Error>;
  /** What went wrong with the connection, in words. */
  failed(op: Op, error: unknown): Error;
}

/** An answer that says more than this is not one of ours. Lists may be long. */
const MAX_ANSWER_BYTES = 512 * 1024 * 1024;

/**
 * One API server, over a unix socket or plain HTTP. Each request has a connection of its own, which costs next to nothing on one machine:
 * a kept one may be closed by the server in the moment in which it is used again, and whether a request was carried out is not known then.
 */
export class HttpConnection {
  readonly #address: string;
  readonly #target: { readonly path: string } | { readonly host: string; readonly port: number };
  readonly #basePath: string;
  readonly #open = new Set<Socket>();

  /** @throws InvalidArgument for an address that is neither `unix:///PATH` nor `http://HOST:PORT` */
  constructor(address: string) {
    this.#address = address;
    if (address.startsWith('unix://')) {
      this.#target = { path: address.slice('unix://'.length) };
      this.#basePath = '';
      return;
    }
    const url = URL.canParse(address) ? new URL(address) : undefined;
    if (url?.protocol !== 'http:') {
      throw invalidArgument(
        `${JSON.stringify(address)} is no address of an API: it must be unix:///PATH or http://HOST:PORT`,
      );
    }
    this.#target = { host: url.hostname.replaceAll(/[[\]]/g, ''), port: Number(url.port || 80) };
    this.#basePath = url.pathname.replace(/\/$/, '');
  }

  /** Asks and reads the whole answer. Throws the error that a Status stands for. */
  async ask<T>(op: Op, request: HttpRequest): Promise<HttpAnswer<T>> {
    const response = await this.#send(op, request);
    const text = await this.#readAll(op, response);
    let body: unknown;
    try {
      body = JSON.parse(text);
    } catch (error) {
      throw unavailable(`the API at ${this.#address} gave an answer that is not JSON`, { cause: error });
    }
    const { statusCode, headers } = response;
    const [created, unchanged] = [statusCode === 201, headers[UNCHANGED_HEADER] !== undefined];
    return { body: body as T, warnings: warningsOf(response), created, unchanged };
  }

  /** Asks and hands the answer on as it comes. Throws before the first chunk if the API says no. */
  async *stream(op: Op, request: HttpRequest): AsyncGenerator<Buffer, void, undefined> {
    const response = await this.#send(op, request);
    try {
      for await (const chunk of response as AsyncIterable<Buffer>) yield chunk;
    } catch (error) {
      throw this.#explained(op, error);
    } finally {
      response.destroy();
    }
  }

  /** For a request after which the connection is no longer HTTP. */
  upgrade(request: Pick<HttpRequest, 'path'> & { readonly query?: Query }): UpgradeTarget {
    return {
      path: this.#basePath + pathOf(request),
      direct: 'path' in this.#target,
      connect: () => connect(this.#target),
      refused: async (op, answer) => errorOf(answer.statusCode ?? 0, await this.#readAll(op, answer), this.#address),
      failed: (op, error) => this.#explained(op, error),
    };
  }

  close(): void {
    for (const socket of this.#open) socket.destroy();
  }

  /** Not an agent's affair, which keeps nothing here and has a name for TLS looked at first, with expressions that take 7 ms to compile. */
  #connect(): Socket {
    const socket = connect(this.#target);
    this.#open.add(socket);
    return socket.once('close', () => this.#open.delete(socket));
  }

  async #send(op: Op, request: HttpRequest): Promise<IncomingMessage> {
    const { body } = request;
    const payload = body === undefined ? undefined : Buffer.from(JSON.stringify(body));
    op.signal.throwIfAborted();
    const response = await new Promise<IncomingMessage>((resolve, reject) => {
      const sent = http.request({
        createConnection: () => this.#connect(),
        method: request.method,
        path: this.#basePath + pathOf(request),
        signal: op.signal,
        // Over a unix socket there is no host to name.
        ...('path' in this.#target ? { host: 'localhost' } : this.#target),
        headers: {
          accept: 'application/json',
          'user-agent': 'gantry',
          ...(payload === undefined
            ? {}
            : { 'content-type': request.contentType ?? 'application/json', 'content-length': payload.byteLength }),
        },
      });
      sent.once('response', resolve);
      sent.on('error', (error) => reject(this.#explained(op, error)));
      sent.end(payload);
    });
    const code = response.statusCode ?? 0;
    if (code >= 200 && code < 300) return response;
    throw errorOf(code, await this.#readAll(op, response), this.#address);
  }

  async #readAll(op: Op, response: IncomingMessage): Promise<string> {
    const chunks: Buffer[] = [];
    let size = 0;
    try {
      for await (const chunk of response as AsyncIterable<Buffer>) {
        size += chunk.byteLength;
        if (size > MAX_ANSWER_BYTES) throw unavailable(`the answer of the API at ${this.#address} is too long`);
        chunks.push(chunk);
      }
    } catch (error) {
      throw this.#explained(op, error);
    }
    return Buffer.concat(chunks).toString('utf8');
  }

  #explained(op: Op, error: unknown): Error {
    if (op.signal.aborted) {
      const reason: unknown = op.signal.reason;
      return reason instanceof GantryError ? reason : canceled('canceled', { cause: error });
    }
    if (error instanceof GantryError) return error;
    const errno = errnoOf(error);
    if (errno === 'EACCES' || errno === 'EPERM') {
      return new GantryError('PermissionDenied', `no permission to use the API at ${this.#address}: it is root's`, {
        cause: error,
      });
    }
    if (errno === 'ENOENT' || errno === 'ECONNREFUSED') {
      return unavailable(`nobody answers at ${this.#address}: is gantryd running?`, { cause: error });
    }
    return unavailable(`the connection to the API at ${this.#address} broke: ${messageOf(error)}`, { cause: error });
  }
}

function searchOf(query: Query): URLSearchParams {
  if (query instanceof URLSearchParams) return query;
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== '') search.append(name, String(value));
  }
  return search;
}

function pathOf({ path, query = {} }: Pick<HttpRequest, 'path'> & { readonly query?: Query }): string {
  const text = searchOf(query).toString();
  return `/${path.map(encodeURIComponent).join('/')}${text === '' ? '' : `?${text}`}`;
}

function errorOf(code: number, text: string, address: string): Error {
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    body = undefined;
  }
  if (isStatus(body)) return errorOfStatus(body);
  const status: Status = { kind: 'Status', apiVersion: 'v1', status: 'Failure', code };
  return errorOfStatus({ ...status, message: `the API at ${address} answered ${code} without saying why` });
}

function warningsOf(response: IncomingMessage): string[] {
  const texts: string[] = [];
  for (const header of response.headersDistinct['warning'] ?? []) {
    for (const [, text = ''] of header.matchAll(/299 \S+ "((?:[^"\\]|\\.)*)"/g))
      texts.push(text.replaceAll(/\\(.)/g, '$1'));
  }
  return texts;
}
