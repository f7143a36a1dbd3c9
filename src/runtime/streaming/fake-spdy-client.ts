import net from 'node:net';
import type { Duplex } from 'node:stream';
import { constants, createInflate } from 'node:zlib';
import { FakeHeaderDeflater } from '../../lib/spdy/fake-header-deflater.ts';
import { FrameReader } from '../../lib/spdy/frame-reader.ts';
import { dataHead, goAway, ping, rstStream, RST_STATUS, windowUpdate } from '../../lib/spdy/frames.ts';
import type { Frame } from '../../lib/spdy/frames.ts';
import { HEADER_DICTIONARY } from '../../lib/spdy/header-dictionary.ts';

/** The answer to an upgrade that was not granted. */
export class Refused extends Error {
  readonly code: number;
  readonly head: string;

  constructor(code: number, head: string) {
    super(`refused with ${code}`);
    this.code = code;
    this.head = head;
  }
}

export interface Upgraded {
  readonly socket: net.Socket;
  /** The answer's head, in lower case. */
  readonly head: string;
}

/** Asks for an upgrade as a client does. `allowHalfOpen`: the client does not close because the server does. */
export async function upgrade(
  url: string,
  headers: Readonly<Record<string, string>>,
  method = 'POST',
  allowHalfOpen = false,
): Promise<Upgraded> {
  const { hostname, port, host, pathname } = new URL(url);
  const socket = net.connect({ host: hostname.replace(/[[\]]/g, ''), port: Number(port), allowHalfOpen });
  const lines = Object.entries({ Host: host, Connection: 'Upgrade', ...headers }).map(
    ([name, value]) => `${name}: ${value}`,
  );
  socket.write(`${method} ${pathname} HTTP/1.1\r\n${lines.join('\r\n')}\r\nContent-Length: 0\r\n\r\n`);
  let got = Buffer.alloc(0);
  for await (const chunk of socket.iterator({ destroyOnReturn: false })) {
    got = Buffer.concat([got, chunk as Buffer]);
    if (got.includes('\r\n\r\n')) break;
  }
  const end = got.indexOf('\r\n\r\n');
  const head = got.toString('latin1', 0, end).toLowerCase();
  const code = Number(/^http\/1.1 (\d+)/.exec(head)?.[1]);
  if (code !== 101) {
    socket.destroy();
    throw new Refused(code, head);
  }
  const rest = got.subarray(end + 4);
  if (rest.length > 0) socket.unshift(rest);
  return { socket, head };
}

/** A stream as the client sees it. */
export class FakeStream {
  readonly id: number;
  readonly #client: FakeSpdyClient;
  readonly accepted = Promise.withResolvers<undefined>();
  readonly ended = Promise.withResolvers<'end' | 'reset' | 'gone'>();
  readonly chunks: Buffer[] = [];
  bytes = 0;
  /** Where the bytes go instead of `chunks`. */
  onData: ((chunk: Buffer) => void) | undefined;

  constructor(id: number, client: FakeSpdyClient) {
    this.id = id;
    this.#client = client;
    this.accepted.promise.catch(() => undefined);
  }

  receive(chunk: Buffer): void {
    this.bytes += chunk.length;
    if (this.onData === undefined) this.chunks.push(chunk);
    else this.onData(chunk);
  }

  /** Resolves when the transport has taken it. */
  async write(bytes: Buffer | string): Promise<void> {
    const payload = Buffer.from(bytes);
    await this.#client.raw(Buffer.concat([dataHead(this.id, payload.length, false), payload]));
  }

  async end(): Promise<void> {
    await this.#client.raw(dataHead(this.id, 0, true));
  }

  async reset(): Promise<void> {
    await this.#client.raw(rstStream(this.id, RST_STATUS.cancel));
  }

  /** All that it has received, once it has ended. */
  async text(): Promise<string> {
    await this.ended.promise;
    return Buffer.concat(this.chunks).toString();
  }
}

/** A SPDY client for tests. As the field's it keeps no windows, unless told to. */
export class FakeSpdyClient {
  readonly socket: Duplex;
  readonly frames: Frame[] = [];
  readonly closed = Promise.withResolvers<undefined>();
  readonly #keepsWindows: boolean;
  readonly #deflater = new FakeHeaderDeflater();
  readonly #inflate = createInflate({ dictionary: HEADER_DICTIONARY, flush: constants.Z_SYNC_FLUSH });
  readonly #streams = new Map<number, FakeStream>();
  #nextId = 1;
  /** What the server's header blocks were, decompressed. */
  readonly replies: Buffer[] = [];

  constructor(socket: Duplex, options: { readonly keepsWindows?: boolean } = {}) {
    this.socket = socket;
    this.#keepsWindows = options.keepsWindows ?? false;
    this.#inflate.on('data', (block: Buffer) => this.replies.push(block));
    void this.#read();
  }

  static async connect(
    url: string,
    protocol: string,
    options: { readonly keepsWindows?: boolean } = {},
  ): Promise<FakeSpdyClient> {
    const { socket } = await upgrade(url, { Upgrade: 'SPDY/3.1', 'X-Stream-Protocol-Version': protocol });
    return new FakeSpdyClient(socket, options);
  }

  /** Opens a stream and waits until the server accepts it; rejects when it is refused. */
  async open(headers: Readonly<Record<string, string>>): Promise<FakeStream> {
    const stream = new FakeStream(this.#nextId, this);
    this.#nextId += 2;
    this.#streams.set(stream.id, stream);
    await this.raw(await this.synStream(stream.id, headers));
    await stream.accepted.promise;
    return stream;
  }

  async synStream(id: number, headers: Readonly<Record<string, string>>, flags = 0): Promise<Buffer> {
    const block = await this.block(headers);
    const head = Buffer.alloc(18);
    head.writeUInt32BE(0x8003_0001, 0);
    head.writeUInt32BE(10 + block.length, 4);
    head[4] = flags;
    head.writeUInt32BE(id, 8);
    return Buffer.concat([head, block]);
  }

  /** Any bytes as the next block of the connection's compressed stream. */
  async compress(bytes: Buffer): Promise<Buffer> {
    return await this.#deflater.compress(bytes);
  }

  /** The headers as the next block of the connection's compressed stream. */
  async block(headers: Readonly<Record<string, string>>): Promise<Buffer> {
    return await this.#deflater.block(headers);
  }

  async raw(bytes: Buffer): Promise<void> {
    await new Promise<void>((resolve) => {
      this.socket.write(bytes, () => resolve());
    });
  }

  async ping(id: number): Promise<void> {
    await this.raw(ping(id));
  }

  /** As the field's clients do it: all streams are reset, then goodbye. */
  async leave(): Promise<void> {
    await this.raw(goAway(0, 0));
    this.socket.destroy();
  }

  async #read(): Promise<void> {
    const reader = new FrameReader();
    try {
      for await (const chunk of this.socket) {
        for (const frame of reader.read(chunk as Buffer)) this.#receive(frame);
      }
    } catch {
      // The tests see it by what is missing.
    }
    for (const stream of this.#streams.values()) {
      stream.accepted.reject(new Error('gone'));
      stream.ended.resolve('gone');
    }
    this.closed.resolve(undefined);
  }

  #receive(frame: Frame): void {
    if (frame.kind !== 'data') this.frames.push(frame);
    if (!('streamId' in frame)) {
      if (frame.kind === 'ping' && frame.id % 2 === 0) void this.ping(frame.id);
      return;
    }
    const stream = this.#streams.get(frame.streamId);
    switch (frame.kind) {
      case 'synReply':
        this.#inflate.write(frame.block);
        stream?.accepted.resolve(undefined);
        break;
      case 'rstStream':
        stream?.accepted.reject(new Error('refused'));
        stream?.ended.resolve('reset');
        break;
      case 'data':
        stream?.receive(frame.payload);
        if (this.#keepsWindows && frame.payload.length > 0) {
          void this.raw(windowUpdate(frame.streamId, frame.payload.length));
          void this.raw(windowUpdate(0, frame.payload.length));
        }
        if (frame.fin) stream?.ended.resolve('end');
        break;
      default:
        break;
    }
  }
}
