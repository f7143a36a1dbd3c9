import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type ClientHttp2Session, type ClientHttp2Stream, type OutgoingHttpHeaders } from 'node:http2';
import net, { type AddressInfo, type Socket } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { after, before, beforeEach, describe, test } from 'node:test';
import fc from 'fast-check';
import { systemClock } from '../../lib/clock.ts';
import { silentLog } from '../../lib/log.ts';
import { Http2Connection } from './connection.ts';
import { FrameReader } from './frame-reader.ts';
import type { Field } from './header-table.ts';
import { headerBlock } from './hpack.ts';
import type { ServerStream } from './server-stream.ts';
import { CODE, FLAG, FRAME, frameOf, numbers, PREFACE, settings, SETTING, type Frame } from './wire.ts';

const OK = headerBlock([[':status', '200']]);
const END = headerBlock([['grpc-status', '0']]);
const REQUEST = headerBlock([
  [':method', 'POST'],
  [':path', '/'],
]);
const SETTINGS = frameOf(FRAME.settings, 0, 0, settings([]));
const GREETING = Buffer.concat([PREFACE, SETTINGS]);
const headers = (id: number, flags: number, block = REQUEST): Buffer => frameOf(FRAME.headers, flags, id, block);

/** In megabytes; by itself it gives up at ten. */
const NODE_HOLDS_MORE = { maxSessionMemory: 100 };

type OnRequest = (stream: ServerStream, fields: readonly Field[]) => void;

/** Sends back what it has got, when it has all. */
const echo: OnRequest = (stream) => {
  stream.header(OK);
  const pieces: Buffer[] = [];
  stream.body = {
    piece: (bytes) => pieces.push(Buffer.from(bytes)),
    end: () => {
      stream.write(Buffer.concat(pieces));
      stream.end(END);
      stream.settled();
    },
    gone: () => stream.settled(),
  };
};

describe("HTTP/2, the server's half", () => {
  let server: net.Server;
  let port: number;
  let onRequest: OnRequest;
  let connections: Http2Connection[];
  let sockets: Socket[];

  before(async () => {
    server = net.createServer((socket) => {
      sockets.push(socket);
      const deps = {
        log: silentLog,
        clock: systemClock,
        onRequest: (stream: ServerStream, fields: readonly Field[]) => onRequest(stream, fields),
      };
      connections.push(new Http2Connection(socket, deps));
    });
    await once(server.listen(0, '127.0.0.1'), 'listening');
    ({ port } = server.address() as AddressInfo);
  });
  beforeEach(() => {
    [connections, sockets, onRequest] = [[], [], echo];
  });
  after(() => server.close());

  /** Node's own client, whatever it sends. */
  async function withClient(work: (session: ClientHttp2Session) => Promise<void>, options = {}): Promise<void> {
    const session = connect(`http://127.0.0.1:${String(port)}`, options);
    session.on('error', () => undefined);
    try {
      await work(session);
    } finally {
      session.destroy();
    }
  }

  function post(session: ClientHttp2Session, more: OutgoingHttpHeaders = {}): ClientHttp2Stream {
    return session.request({ ':method': 'POST', ':path': '/x', ...more });
  }

  /** All that the server says to these bytes before it closes the connection, or before `enough`. */
  async function answerTo(bytes: Buffer, enough: (frame: Frame) => boolean = () => false): Promise<Frame[]> {
    const socket = net.connect(port, '127.0.0.1');
    socket.on('error', () => undefined);
    const frames: Frame[] = [];
    const reader = new FrameReader();
    // It expects what a client says first.
    assert.deepEqual([...reader.read(PREFACE)], []);
    socket.write(bytes);
    try {
      for await (const chunk of socket as AsyncIterable<Buffer>) {
        for (const frame of reader.read(chunk)) frames.push({ ...frame, payload: Buffer.from(frame.payload) });
        if (frames.some(enough)) break;
      }
    } catch {
      // Reset: what has been read counts.
    }
    socket.destroy();
    return frames;
  }

  test('what fields mean is heard, however a client writes them', async () => {
    const name = fc.stringMatching(/^[a-z][a-z0-9-]{0,12}$/).map((text) => `x-${text}`);
    const character = fc.integer({ min: 0x21, max: 0xff }).filter((code) => code < 0x7f || code >= 0xa0);
    const value = fc.array(character, { maxLength: 60 }).map((codes) => String.fromCharCode(...codes));
    const heard: (readonly Field[])[] = [];
    onRequest = (stream, fields) => {
      heard.push(fields);
      stream.header(OK, true);
      stream.settled();
    };
    await withClient(async (session) => {
      await fc.assert(
        fc.asyncProperty(fc.dictionary(name, value, { maxKeys: 8 }), async (said) => {
          const stream = post(session, said);
          stream.end();
          await buffer(stream);
          const fields = new Map(heard.at(-1));
          assert.equal(fields.get(':path'), '/x');
          for (const [key, text] of Object.entries(said)) assert.equal(fields.get(key), text);
        }),
        { seed: 7, numRuns: 200 },
      );
    });
  });

  test('three megabytes each way, through windows of 64 KiB, several at a time', async () => {
    await withClient(async (session) => {
      const turns = [1, 2, 3].map(async (seed) => {
        const sent = Buffer.alloc(3_000_000, `${String(seed)} and more `);
        const stream = post(session);
        stream.end(sent);
        assert.ok((await buffer(stream)).equals(sent));
      });
      await Promise.all(turns);
    }, NODE_HOLDS_MORE);
  });

  test('a client that does not read holds up whoever writes, and gets everything when it does', async () => {
    let written = 0;
    let stopped = false;
    onRequest = (stream) => {
      stream.header(OK);
      const more = (): void => {
        while (written < 400) {
          written++;
          if (!stream.write(Buffer.alloc(100_000, 1))) {
            stopped = true;
            stream.once('drain', more);
            return;
          }
        }
        stream.end(END);
        stream.settled();
      };
      stream.body = { piece: () => undefined, end: more, gone: () => undefined };
    };
    await withClient(
      async (session) => {
        const stream = post(session);
        stream.end();
        await once(stream, 'response');
        await systemClock.sleep(50);
        assert.ok(stopped && written < 200, String(written));
        assert.equal((await buffer(stream)).length, 40_000_000);
      },
      { ...NODE_HOLDS_MORE, settings: { initialWindowSize: 1 << 20 } },
    );
  });

  test('a client that gives up is heard of, and what is sent to it is nothing', async () => {
    const gone = Promise.withResolvers<ServerStream>();
    onRequest = (stream) => {
      stream.body = { piece: () => undefined, end: () => undefined, gone: () => gone.resolve(stream) };
    };
    await withClient(async (session) => {
      const stream = post(session);
      stream.on('error', () => undefined);
      stream.end();
      await once(session, 'remoteSettings');
      stream.close(8);
      const ours = await gone.promise;
      assert.equal(ours.isOpen, false);
      ours.header(OK);
      assert.equal(ours.write(Buffer.alloc(1_000_000)), true);
      ours.end(END);
    });
  });

  test('a request that is answered before its end is told so', async () => {
    onRequest = (stream) => {
      stream.header(OK, true);
      stream.settled();
    };
    await withClient(async (session) => {
      const stream = post(session);
      stream.write('the beginning');
      const [said] = (await once(stream, 'response')) as [Record<string, unknown>];
      assert.equal(said[':status'], 200);
      stream.resume();
      await once(stream, 'close');
      assert.equal(stream.rstCode, 0);
    });
  });

  test('it leaves when what is running has been answered', async () => {
    let answer: (() => void) | undefined;
    onRequest = (stream) => {
      stream.header(OK);
      answer = () => {
        stream.end(END);
        stream.settled();
      };
    };
    await withClient(async (session) => {
      const stream = post(session);
      stream.end();
      await once(stream, 'response');
      connections[0]?.leave();
      await once(session, 'goaway');
      answer?.();
      await buffer(stream);
      await connections[0]?.closed;
    });
  });

  const block = (bytes: string): Buffer => Buffer.from(bytes, 'hex');
  const open = headers(1, FLAG.endHeaders);
  const large = (): Buffer => Buffer.alloc(16_384, 1);
  const BROKEN: readonly (readonly [what: string, code: number, bytes: Buffer])[] = [
    ['another protocol', CODE.protocolError, Buffer.from('GET / HTTP/1.1\r\nHost: x\r\n\r\n')],
    ['no SETTINGS at first', CODE.protocolError, Buffer.concat([PREFACE, open])],
    ['a frame that is too large', CODE.frameSizeError, frameOf(FRAME.data, 0, 1, Buffer.alloc(16_385))],
    ['DATA of the connection', CODE.protocolError, frameOf(FRAME.data, 0, 0, Buffer.alloc(1))],
    ['DATA of a stream that is not open', CODE.protocolError, frameOf(FRAME.data, 0, 1, Buffer.alloc(1))],
    ['padding without a frame', CODE.protocolError, Buffer.concat([open, frameOf(FRAME.data, 8, 1, Buffer.of(1))])],
    ['HEADERS of the connection', CODE.protocolError, headers(0, FLAG.endHeaders)],
    ["HEADERS of a server's stream", CODE.protocolError, headers(2, FLAG.endHeaders)],
    ['HEADERS without their priority', CODE.frameSizeError, headers(1, FLAG.priority, block('00'))],
    ['a header block of nonsense', CODE.compressionError, headers(1, FLAG.endHeaders, block('80'))],
    ['a header block that is interrupted', CODE.protocolError, Buffer.concat([headers(1, 0), SETTINGS])],
    ['CONTINUATION of nothing', CODE.protocolError, frameOf(FRAME.continuation, 4, 1, block('82'))],
    [
      "another stream's CONTINUATION",
      CODE.protocolError,
      Buffer.concat([headers(1, 0), frameOf(FRAME.continuation, 4, 3, block('82'))]),
    ],
    [
      'a header block without an end',
      CODE.enhanceYourCalm,
      Buffer.concat([headers(1, 0), ...Array.from({ length: 9 }, () => frameOf(FRAME.continuation, 0, 1, large()))]),
    ],
    [
      'CONTINUATION without content, again and again',
      CODE.enhanceYourCalm,
      Buffer.concat([headers(1, 0), ...Array.from({ length: 9 }, () => frameOf(FRAME.continuation, 0, 1, block('')))]),
    ],
    ['PRIORITY of the connection', CODE.protocolError, frameOf(FRAME.priority, 0, 0, Buffer.alloc(5))],
    ['PRIORITY that is cut', CODE.frameSizeError, frameOf(FRAME.priority, 0, 1, Buffer.alloc(4))],
    ['RST_STREAM of nothing', CODE.protocolError, frameOf(FRAME.rstStream, 0, 1, numbers(8))],
    ['RST_STREAM that is cut', CODE.frameSizeError, Buffer.concat([open, frameOf(FRAME.rstStream, 0, 1, block('00'))])],
    ['SETTINGS of a stream', CODE.protocolError, frameOf(FRAME.settings, 0, 1, block(''))],
    ['SETTINGS that are cut', CODE.frameSizeError, frameOf(FRAME.settings, 0, 0, block('0004'))],
    ['an answer to SETTINGS that says something', CODE.frameSizeError, frameOf(FRAME.settings, 1, 0, Buffer.alloc(6))],
    [
      'a window that is too large',
      CODE.flowControlError,
      frameOf(FRAME.settings, 0, 0, settings([[SETTING.initialWindow, 0x8000_0000]])),
    ],
    ['PUSH_PROMISE', CODE.protocolError, frameOf(FRAME.pushPromise, 4, 1, numbers(2))],
    ['PING of a stream', CODE.protocolError, frameOf(FRAME.ping, 0, 1, Buffer.alloc(8))],
    ['PING that is cut', CODE.frameSizeError, frameOf(FRAME.ping, 0, 0, Buffer.alloc(7))],
    [
      'frames smaller than any client takes',
      CODE.protocolError,
      frameOf(FRAME.settings, 0, 0, settings([[SETTING.maxFrameSize, 1]])),
    ],
    ['GOAWAY of a stream', CODE.protocolError, frameOf(FRAME.goAway, 0, 1, numbers(0, 0))],
    ['WINDOW_UPDATE by nothing', CODE.protocolError, frameOf(FRAME.windowUpdate, 0, 0, numbers(0))],
    ['WINDOW_UPDATE beyond all', CODE.flowControlError, frameOf(FRAME.windowUpdate, 0, 0, numbers(0x7fff_ffff))],
    ['WINDOW_UPDATE of nothing', CODE.protocolError, frameOf(FRAME.windowUpdate, 0, 1, numbers(1))],
  ];
  for (const [what, code, bytes] of BROKEN) {
    test(`${what} ends the connection, with a word`, { timeout: 20_000 }, async () => {
      const greeted = bytes.subarray(0, 3).equals(PREFACE.subarray(0, 3)) || bytes[0] === 0x47;
      const frames = await answerTo(greeted ? bytes : Buffer.concat([GREETING, bytes]));
      const last = frames.at(-1);
      assert.deepEqual([last?.type, last?.payload.readUInt32BE(4)], [FRAME.goAway, code]);
    });
  }

  const RESET: readonly (readonly [what: string, code: number, bytes: Buffer])[] = [
    [
      'DATA behind the end',
      CODE.streamClosed,
      Buffer.concat([headers(1, FLAG.endHeaders | FLAG.endStream), frameOf(FRAME.data, 0, 1, Buffer.alloc(1))]),
    ],
    ['trailers that are not the end', CODE.protocolError, Buffer.concat([open, headers(1, FLAG.endHeaders)])],
    [
      "a stream's WINDOW_UPDATE by nothing",
      CODE.protocolError,
      Buffer.concat([open, frameOf(FRAME.windowUpdate, 0, 1, numbers(0))]),
    ],
    [
      "a stream's WINDOW_UPDATE beyond all",
      CODE.flowControlError,
      Buffer.concat([open, frameOf(FRAME.windowUpdate, 0, 1, numbers(0x7fff_ffff))]),
    ],
  ];
  for (const [what, code, bytes] of RESET) {
    test(`${what} ends that stream, and it is heard of`, { timeout: 20_000 }, async () => {
      const gone = Promise.withResolvers<unknown>();
      onRequest = (stream) => {
        stream.body = { piece: () => undefined, end: () => undefined, gone: () => gone.resolve(undefined) };
      };
      const frames = await answerTo(Buffer.concat([GREETING, bytes]), ({ type }) => type === FRAME.rstStream);
      const last = frames.find(({ type }) => type === FRAME.rstStream);
      assert.deepEqual([last?.streamId, last?.payload.readUInt32BE(0)], [1, code]);
      await gone.promise;
    });
  }

  test('frames of a kind that nobody knows, priorities and padding are nothing', async () => {
    const bytes = Buffer.concat([
      GREETING,
      frameOf(0x77, 0xff, 5, Buffer.from('whatever')),
      frameOf(FRAME.priority, 0, 9, Buffer.alloc(5)),
      headers(
        1,
        FLAG.endHeaders | FLAG.padded | FLAG.priority,
        Buffer.concat([Buffer.of(2), Buffer.alloc(5), REQUEST, Buffer.alloc(2)]),
      ),
      frameOf(FRAME.data, FLAG.padded, 1, Buffer.from('\x03hello\0\0\0')),
      frameOf(FRAME.data, FLAG.endStream, 1, Buffer.alloc(0)),
    ]);
    const frames = await answerTo(bytes, ({ flags, type }) => type === FRAME.headers && (flags & FLAG.endStream) !== 0);
    const body = frames.filter(({ type }) => type === FRAME.data).map(({ payload }) => payload);
    assert.equal(Buffer.concat(body).toString(), 'hello');
  });

  test('what comes behind the end of a connection is not even looked at', async () => {
    const socket = net.connect(port, '127.0.0.1');
    socket.on('error', () => undefined);
    await once(socket, 'data');
    const [theirs] = sockets;
    assert.ok(theirs);
    theirs.emit('data', Buffer.from('GET / HTTP/1.1\r\n\r\n'));
    const before = theirs.listenerCount('close');
    for (let i = 0; i < 3; i++) theirs.emit('data', Buffer.from('more of it'));
    assert.equal(theirs.listenerCount('close'), before);
    socket.destroy();
  });

  test('so many requests at a time are answered, and what is too much is refused', { timeout: 60_000 }, async () => {
    let begun = 0;
    onRequest = () => {
      begun++;
    };
    const flags = FLAG.endHeaders | FLAG.endStream;
    const requests = Array.from({ length: 1001 }, (_none, index) => headers(2 * index + 1, flags));
    const frames = await answerTo(Buffer.concat([GREETING, ...requests]), ({ type }) => type === FRAME.rstStream);
    assert.equal(begun, 1000);
    const last = frames.find(({ type }) => type === FRAME.rstStream);
    assert.deepEqual([last?.streamId, last?.payload.readUInt32BE(0)], [2001, CODE.refusedStream]);
  });

  test('requests that are given up as soon as they are made do not pile up', { timeout: 60_000 }, async () => {
    let begun = 0;
    // Whoever works for them does not hear that.
    onRequest = () => {
      begun++;
    };
    const flags = FLAG.endHeaders | FLAG.endStream;
    const pairs = Array.from({ length: 10_001 }, (_none, index) => {
      return Buffer.concat([headers(2 * index + 1, flags), frameOf(FRAME.rstStream, 0, 2 * index + 1, numbers(8))]);
    });
    await answerTo(Buffer.concat([GREETING, ...pairs]), ({ type }) => type === FRAME.rstStream);
    assert.equal(begun, 10_000);
  });

  test('a client that asks and does not read is cut off', { timeout: 60_000 }, async () => {
    const socket = net.connect(port, '127.0.0.1');
    socket.on('error', () => undefined);
    socket.write(GREETING);
    const pings = Buffer.concat(Array.from({ length: 10_000 }, () => frameOf(FRAME.ping, 0, 0, Buffer.alloc(8))));
    for (let turn = 0; turn < 2_000 && !socket.destroyed; turn++) {
      if (!socket.write(pings)) await Promise.race([once(socket, 'drain'), once(socket, 'close')]).catch(() => 0);
    }
    assert.ok(socket.destroyed);
    assert.ok((sockets[0]?.writableLength ?? 0) < 4_000_000, String(sockets[0]?.writableLength));
  });
});
