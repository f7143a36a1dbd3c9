import assert from 'node:assert/strict';
import http2 from 'node:http2';
import { Duplex } from 'node:stream';
import { test } from 'node:test';
import fc from 'fast-check';
import { AuthorityRewriter } from './authority-rewrite.ts';
import { slashesToDashes } from './hpack-huffman.ts';

const SEED = 20_240_607;
const PREFACE = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');
const SOCKET = '/run/gantry/gantry.sock';
const CHANGED = SOCKET.replaceAll('/', '-');

function frame(type: number, flags: number, payload: Buffer): Buffer {
  const header = Buffer.alloc(9);
  header.writeUIntBE(payload.length, 0, 3);
  header[3] = type;
  header[4] = flags;
  header.writeUInt32BE(1, 5);
  return Buffer.concat([header, payload]);
}

/** `:authority` as a raw literal that goes into the dynamic table. */
function rawAuthority(value: string): Buffer {
  return Buffer.concat([Buffer.from([0x41, value.length]), Buffer.from(value)]);
}

/** Everything that a Node client sends for one request: nghttp2 codes header values with Huffman's code. */
async function requestBytes(headers: http2.OutgoingHttpHeaders): Promise<Buffer> {
  const sent: Buffer[] = [];
  const socket = new Duplex({
    read: () => undefined,
    write: (chunk: Buffer, _encoding, done) => {
      sent.push(chunk);
      done();
    },
  });
  const client = http2.connect('http://localhost', { createConnection: () => socket });
  client.on('error', () => undefined);
  const request = client.request(headers, { endStream: true });
  request.on('error', () => undefined);
  // The preface and the settings are less than 100 bytes.
  for (let turn = 0; turn < 1_000 && Buffer.concat(sent).length < 100; turn++) {
    await new Promise((next) => setImmediate(next));
  }
  client.destroy();
  return Buffer.concat(sent);
}

/** What Node's own server makes of these bytes. */
async function received(bytes: Buffer): Promise<http2.IncomingHttpHeaders> {
  const server = http2.createServer();
  const connection = new Duplex({
    read: () => undefined,
    write: (_chunk, _encoding, done) => done(),
  });
  try {
    return await new Promise((resolve, reject) => {
      server.on('stream', (stream, headers) => {
        stream.on('error', () => undefined);
        resolve(headers);
      });
      server.on('session', (session) => {
        session.on('frameError', reject);
        session.on('error', reject);
      });
      server.emit('connection', connection);
      connection.push(bytes);
    });
  } finally {
    connection.destroy();
  }
}

function rewrite(bytes: Buffer, cuts: readonly number[]): Buffer {
  const rewriter = new AuthorityRewriter();
  const out: Buffer[] = [];
  let from = 0;
  for (const to of [...cuts.map((cut) => cut % (bytes.length + 1)).sort((a, b) => a - b), bytes.length]) {
    out.push(Buffer.from(rewriter.push(Buffer.from(bytes.subarray(from, to)))));
    from = to;
  }
  out.push(rewriter.flush());
  return Buffer.concat(out);
}

const cuts = fc.array(fc.nat(100_000), { maxLength: 40 });

test('a socket path in Huffman code arrives as a name that Node accepts', async () => {
  const bytes = await requestBytes({
    ':authority': SOCKET,
    ':path': '/runtime.v1.RuntimeService/Version',
    'x-filler': 'x'.repeat(200),
  });
  assert.equal(bytes.includes(SOCKET), false, 'the client did not use the Huffman code');
  const headers = await received(rewrite(bytes, []));
  assert.equal(headers[':authority'], CHANGED);
  assert.equal(headers[':path'], '/runtime.v1.RuntimeService/Version');
});

test('any split of the bytes gives the same output, Huffman or raw', async () => {
  const huffman = await requestBytes({ ':authority': SOCKET, ':path': '/a/b', 'x-filler': 'x'.repeat(200) });
  const padded = Buffer.concat([Buffer.from([4]), Buffer.alloc(5), rawAuthority(SOCKET), Buffer.from([1, 2, 0x2f, 4])]);
  const stream = Buffer.concat([
    huffman,
    frame(0, 0, Buffer.from('/data/is/left/alone')),
    frame(1, 0x04, rawAuthority(SOCKET)),
    frame(1, 0x04 | 0x08 | 0x20, padded),
    frame(1, 0x04, Buffer.from([0x80 | 62, 0x20, 0x3f, 0x05])),
    frame(9, 0x04, Buffer.from('/continuation')),
  ]);
  const whole = rewrite(stream, []);
  assert.equal(whole.length, stream.length);
  assert.equal(whole.toString('latin1').split(CHANGED).length - 1, 2);
  assert.ok(whole.includes('/data/is/left/alone'));
  assert.ok(whole.includes(Buffer.from([1, 2, 0x2f, 4])), 'the padding was changed');
  fc.assert(
    fc.property(cuts, (at) => {
      assert.deepEqual(rewrite(stream, at), whole);
    }),
    { seed: SEED },
  );
  assert.deepEqual(
    rewrite(
      stream,
      Array.from(stream, (_byte, index) => index),
    ),
    whole,
  );
});

test('no bytes at all make it throw, lose anything or depend on the split', () => {
  const frames = fc
    .array(
      fc.record({
        type: fc.oneof(fc.constant(1), fc.nat(12)),
        flags: fc.nat(255),
        payload: fc.uint8Array({ maxLength: 80 }),
      }),
    )
    .map((list) => Buffer.concat([PREFACE, ...list.map((f) => frame(f.type, f.flags, Buffer.from(f.payload)))]));
  const anything = fc.oneof(
    frames,
    fc.uint8Array({ maxLength: 400 }).map((bytes) => Buffer.from(bytes)),
    fc.uint8Array({ maxLength: 200 }).map((bytes) => Buffer.concat([PREFACE, bytes])),
  );
  fc.assert(
    fc.property(anything, cuts, (bytes, at) => {
      const whole = rewrite(bytes, []);
      assert.equal(whole.length, bytes.length);
      assert.deepEqual(rewrite(bytes, at), whole);
    }),
    { seed: SEED, numRuns: 500 },
  );
});

test('a frame larger than allowed is passed on at once, to be refused there', () => {
  const rewriter = new AuthorityRewriter();
  const header = frame(1, 4, Buffer.alloc(40_000, 0x2f)).subarray(0, 5_000);
  assert.equal(rewriter.push(Buffer.concat([PREFACE, header])).length, PREFACE.length + 5_000);
});

test("the Huffman code's boundaries are those of RFC 7541", () => {
  // RFC 7541, C.4.1 and C.6.1: no slash in them, so nothing changes
  for (const hex of ['f1e3c2e5f23a6ba0ab90f4ff', 'd07abe941054d444a8200595040b8166e082a62d1bff']) {
    const bytes = Buffer.from(hex, 'hex');
    slashesToDashes(bytes);
    assert.equal(bytes.toString('hex'), hex);
  }
  // "/" and "-" with their padding of ones
  const slash = Buffer.from([0b0110_0011]);
  slashesToDashes(slash);
  assert.equal(slash[0], 0b0101_1011);
});
