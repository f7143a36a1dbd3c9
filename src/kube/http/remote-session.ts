import type { IncomingMessage } from 'node:http';
import { Readable, Writable } from 'node:stream';
import { WebSocket, type RawData } from 'ws';
import type { Op } from '../../lib/abort.ts';
import { canceled, unavailable } from '../../lib/errors.ts';
import { SendAhead } from '../../lib/send-ahead.ts';
import { isStatus, errorOfStatus } from '../status-error.ts';
import type { PodCommandRequest, RemoteSession, TerminalSize } from '../streams/pod-streams.ts';
import { streamQuery } from '../streams/stream-query.ts';
import type { HttpConnection } from './http-connection.ts';

/** Kubernetes' newest protocol of exec and attach: the first byte of each message is its channel, and a channel can be closed. */
const PROTOCOL = 'v5.channel.k8s.io';
const [STDIN, STDOUT, STDERR, OUTCOME, RESIZE, CLOSE] = [0, 1, 2, 3, 4, 255];
const NORMAL_CLOSURE = 1000;
/** Of stdin, on its way. */
const MOST_AHEAD_BYTES = 256 * 1024;

/** Opens a session over a WebSocket. Rejects with the error of the API's Status if it refuses. */
export async function openRemoteSession(
  op: Op,
  connection: HttpConnection,
  request: PodCommandRequest,
): Promise<RemoteSession> {
  op.signal.throwIfAborted();
  const { namespace, name, kind } = request;
  const target = connection.upgrade({
    path: ['api', 'v1', 'namespaces', namespace, 'pods', name, kind],
    query: streamQuery(request),
  });
  const socket = new WebSocket(`ws://localhost${target.path}`, PROTOCOL, {
    createConnection: () => target.connect(),
    perMessageDeflate: false,
    // Masks are for what lies between client and server, and may take a part for HTTP. A mask of zeros costs neither side anything.
    ...(target.direct ? { generateMask: () => undefined } : {}),
    headers: { 'user-agent': 'gantry' },
  });
  const session = new WebSocketSession(op, socket, kind);
  await new Promise<void>((resolve, reject) => {
    socket.once('open', resolve);
    socket.on('unexpected-response', (_request: unknown, answer: IncomingMessage) => {
      target.refused(op, answer).then(reject, reject);
    });
    socket.on('error', (error) => reject(target.failed(op, error)));
  });
  return session;
}

class WebSocketSession implements RemoteSession {
  readonly stdin: Writable;
  readonly stdout: Readable;
  readonly stderr: Readable;
  readonly ended: Promise<number>;
  readonly #socket: WebSocket;
  readonly #outcome = Promise.withResolvers<number>();
  /** Channels whose reader has enough for now: there is one connection for all, so it waits. */
  readonly #full = new Set<number>();

  constructor({ signal }: Op, socket: WebSocket, kind: PodCommandRequest['kind']) {
    this.#socket = socket;
    this.ended = this.#outcome.promise;
    // Who never asks how it ended is not to be told by the end of the process.
    this.ended.catch(() => undefined);
    this.stdin = this.#input();
    this.stdout = this.#output(STDOUT);
    this.stderr = this.#output(STDERR);
    const abort = (): void => {
      this.#settle(signal.reason instanceof Error ? signal.reason : canceled('canceled'));
      this.close();
    };
    signal.addEventListener('abort', abort, { once: true });
    socket.on('message', (data: RawData) => this.#receive(data as Buffer));
    socket.on('close', (code) => {
      signal.removeEventListener('abort', abort);
      const wasSaid = kind === 'attach' && code === NORMAL_CLOSURE;
      this.#settle(wasSaid ? 0 : unavailable('the connection broke off before the end of the command was told'));
    });
  }

  resize({ width, height }: TerminalSize): void {
    if (this.#socket.readyState !== WebSocket.OPEN) return;
    this.#socket.send(message(RESIZE, Buffer.from(JSON.stringify({ Width: width, Height: height }))));
  }

  close(): void {
    this.#socket.terminate();
  }

  #receive(data: Buffer): void {
    const [channel] = data;
    const payload = data.subarray(1);
    if (channel === OUTCOME) this.#settle(outcomeOf(payload));
    else if (channel === CLOSE && payload[0] === STDOUT) this.stdout.push(null);
    else if (channel === CLOSE && payload[0] === STDERR) this.stderr.push(null);
    else if (channel === STDOUT || channel === STDERR) this.#hand(channel, payload);
  }

  #hand(channel: number, payload: Buffer): void {
    // Each channel begins with a message without content.
    const stream = channel === STDOUT ? this.stdout : this.stderr;
    if (payload.byteLength === 0 || stream.destroyed || stream.readableEnded || stream.push(payload)) return;
    this.#full.add(channel);
    this.#socket.pause();
  }

  #output(channel: number): Readable {
    const wanted = (): void => {
      if (this.#full.delete(channel) && this.#full.size === 0) this.#socket.resume();
    };
    return new Readable({
      read: wanted,
      destroy: (error, done) => {
        wanted();
        done(error);
      },
    });
  }

  #input(): Writable {
    const ahead = new SendAhead(MOST_AHEAD_BYTES);
    return new Writable({
      write: (chunk: Buffer, _encoding, done) => {
        ahead.take(chunk.byteLength, (sent) => this.#send(message(STDIN, chunk), sent), done);
      },
      final: (done) => this.#send(message(CLOSE, Buffer.of(STDIN)), done),
    }).on('error', () => undefined);
  }

  /** What the command does not take any more is dropped: its end is what counts then. */
  #send(bytes: Buffer, done: () => void): void {
    if (this.#socket.readyState === WebSocket.OPEN) this.#socket.send(bytes, () => done());
    else done();
  }

  #settle(outcome: number | Error): void {
    if (typeof outcome === 'number') this.#outcome.resolve(outcome);
    else this.#outcome.reject(outcome);
    if (!this.stdout.readableEnded) this.stdout.push(null);
    if (!this.stderr.readableEnded) this.stderr.push(null);
  }
}

function message(channel: number, payload: Buffer): Buffer {
  return Buffer.concat([Buffer.of(channel), payload]);
}

/** Of the Status that is the last word on a command: its exit code, or why there is none. */
function outcomeOf(payload: Buffer): number | Error {
  let status: unknown;
  try {
    status = JSON.parse(payload.toString('utf8'));
  } catch {
    status = undefined;
  }
  // Its kind may be left out.
  const whole = typeof status === 'object' && status !== null ? { ...status, kind: 'Status' } : undefined;
  if (!isStatus(whole))
    return unavailable(`the end of the command was told in words that are no Status: ${String(payload)}`);
  if (whole.status === 'Success') return 0;
  const causes = whole.details?.causes ?? [];
  const code = Number(causes.find(({ reason }) => reason === 'ExitCode')?.message);
  return whole.reason === 'NonZeroExitCode' && Number.isInteger(code) ? code : errorOfStatus(whole);
}
