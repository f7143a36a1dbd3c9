import { PassThrough } from 'node:stream';
import { FakeSpdyClient } from '../../src/runtime/streaming/fake-spdy-client.ts';
import { dataHead, goAway, ping, rstStream, settings, windowUpdate } from '../../src/lib/spdy/frames.ts';
import type { Random } from '../soak/random.ts';
import { bytesOf } from './random-message.ts';

const STREAM_TYPES = ['error', 'stdin', 'stdout', 'stderr', 'resize', 'data', 'constructor', ''] as const;
/** The numbers at which something changes. */
const EDGES = [0, 1, 2, 3, 5, 255, 256, 65_535, 65_536, 0x7fff_fffe, 0x7fff_ffff, 0xffff_ffff] as const;

/** Frames that a SPDY client could send, should not, or cannot, in any order. The first ones are most often what opens a session. */
export async function hostileFrames(random: Random, count: number): Promise<Buffer> {
  const client = new FakeSpdyClient(new PassThrough());
  const frames: Buffer[] = [];
  let nextId = 1;
  const opening = random.chance(0.7) ? ['error', 'stdin', 'stdout', 'data'] : [];
  for (const streamtype of opening) {
    frames.push(await client.synStream(nextId, { streamtype, port: '80', requestid: '1' }));
    nextId += 2;
  }
  const someId = (): number => (random.chance(0.8) ? 1 + 2 * random.between(0, 4) : random.pick(EDGES));
  for (let index = 0; index < count; index += 1) {
    switch (random.between(0, 12)) {
      case 0:
        frames.push(
          await client.synStream(random.chance(0.8) ? nextId : someId(), someHeaders(random), random.between(0, 3)),
        );
        nextId += 2;
        break;
      case 1:
        frames.push(dataHead(someId(), random.pick([0, 10, 0xff_ffff]), random.chance(0.3)), bytesOf(10, random));
        break;
      case 2: {
        const bytes = random.between(1, 100_000);
        frames.push(dataHead(someId(), bytes, random.chance(0.1)), Buffer.alloc(bytes, '{"Width":1,"Height":1}'));
        break;
      }
      case 3:
        frames.push(rstStream(someId(), 5));
        break;
      case 4:
        frames.push(settings(random.pick(EDGES)));
        break;
      case 5:
        frames.push(Buffer.concat(Array.from({ length: random.between(1, 3_000) }, () => ping(someId()))));
        break;
      case 6:
        if (random.chance(0.2)) frames.push(goAway(0, 0));
        break;
      case 7:
        frames.push(windowUpdate(random.chance(0.5) ? 0 : someId(), random.pick(EDGES)));
        break;
      case 8:
        frames.push(await bomb(client, nextId));
        nextId += 2;
        break;
      case 9: {
        // A control frame of any type, with flags, a length and a body that have nothing to do with one another.
        const head = Buffer.from([
          0x80,
          3,
          0,
          random.between(0, 12),
          random.between(0, 255),
          0,
          0,
          random.between(0, 40),
        ]);
        frames.push(head, bytesOf(random.between(0, 40), random));
        break;
      }
      case 10:
        // Many small pieces cost more than their bytes.
        frames.push(
          ...Array.from({ length: random.between(1, 2_000) }, () =>
            Buffer.concat([dataHead(3, 1, false), Buffer.of(1)]),
          ),
        );
        break;
      case 11:
        frames.push(bytesOf(random.between(1, 100), random));
        break;
      default:
        frames.push(await client.synStream(nextId, { streamtype: random.pick(STREAM_TYPES) }, 1));
        nextId += 2;
    }
  }
  client.socket.destroy();
  return Buffer.concat(frames);
}

/** WebSocket messages as clients send them, with and without what belongs to them. */
export function hostileMessages(random: Random, count: number, inner: () => Buffer): Buffer {
  const messages: Buffer[] = [];
  for (let index = 0; index < count; index += 1) {
    const body = random.chance(0.5) ? inner() : bytesOf(random.between(0, 300), random);
    const payload = Buffer.concat([Buffer.of(random.pick([0, 0, 1, 4, 9, 48, 255])), body]);
    messages.push(message(payload, random.pick([2, 2, 2, 1, 0, 8, 9, 10, 3]), random));
  }
  return Buffer.concat(messages);
}

function someHeaders(random: Random): Record<string, string> {
  const headers: Record<string, string> = {};
  if (random.chance(0.9)) headers['streamtype'] = random.pick(STREAM_TYPES);
  if (random.chance(0.7)) headers['port'] = random.pick(['80', '0', '-1', '99999', 'x', '']);
  if (random.chance(0.7)) headers['requestid'] = random.pick(['1', '2', '', '__proto__', 'x'.repeat(1_000)]);
  for (let index = random.pick([0, 0, 0, 100]); index > 0; index -= 1) headers[`h${index}`] = '';
  return headers;
}

async function bomb(client: FakeSpdyClient, id: number): Promise<Buffer> {
  const block = await client.compress(Buffer.alloc(1_000_000));
  const head = Buffer.alloc(18);
  head.writeUInt32BE(0x8003_0001, 0);
  head.writeUInt32BE(10 + block.length, 4);
  head.writeUInt32BE(id, 8);
  return Buffer.concat([head, block]);
}

function message(payload: Buffer, opcode: number, random: Random): Buffer {
  const fin = random.chance(0.9) ? 0x80 : 0;
  const reserved = random.chance(0.05) ? 0x40 : 0;
  const masked = random.chance(0.95);
  const head = Buffer.alloc(8);
  head[0] = fin | reserved | opcode;
  head[1] = (masked ? 0x80 : 0) | 126;
  head.writeUInt16BE(random.chance(0.95) ? payload.length & 0xffff : random.between(0, 65_535), 2);
  // A mask of zeros changes nothing.
  return Buffer.concat([head, payload.subarray(0, 65_535)]);
}
