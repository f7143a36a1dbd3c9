import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { FakePacketServer } from './fake-packet-server.ts';
import { PacketSockets, type PacketListener } from './packet-sockets.ts';

const PLENTY = { mostUntakenBytes: 1024 * 1024 };

/** What a connection has told. */
class Heard implements PacketListener {
  readonly packets: string[] = [];
  readonly ends: (Error | undefined)[] = [];
  readonly takes: (() => void)[] = [];
  readonly #takesAtOnce: boolean;
  #changed = Promise.withResolvers<undefined>();

  constructor(takesAtOnce = true) {
    this.#takesAtOnce = takesAtOnce;
  }

  onPacket(packet: Buffer, taken: () => void): void {
    this.packets.push(packet.toString());
    if (this.#takesAtOnce) taken();
    else this.takes.push(taken);
    this.#changed.resolve(undefined);
  }

  onEnd(error: Error | undefined): void {
    this.ends.push(error);
    this.#changed.resolve(undefined);
  }

  async until(holds: () => boolean): Promise<void> {
    while (!holds()) {
      this.#changed = Promise.withResolvers();
      await this.#changed.promise;
    }
  }
}

let folder: string;
let sockets: PacketSockets;
let server: FakePacketServer;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'gantry-packets-'));
  sockets = new PacketSockets();
  server = new FakePacketServer(join(folder, 'server'));
});

afterEach(() => {
  sockets.close();
  server.close();
  rmSync(folder, { recursive: true });
});

test('packets arrive one by one and in order, of each connection its own', async () => {
  const [one, other] = [new Heard(), new Heard()];
  const socket = sockets.connect(server.path, one, PLENTY);
  const peer = server.accept();
  sockets.connect(server.path, other, PLENTY);
  const otherPeer = server.accept();
  const sent = Array.from({ length: 200 }, (_, i) => `packet ${String(i)}`);
  for (const text of sent) peer.send(text);
  otherPeer.send('other');
  await one.until(() => one.packets.length === sent.length);
  await other.until(() => other.packets.length === 1);
  assert.deepEqual([one.packets, other.packets], [sent, ['other']]);
  await socket.send(Buffer.from('to '));
  await socket.send(Buffer.from('you'));
  assert.deepEqual([peer.receive()?.toString(), peer.receive()?.toString(), peer.receive()], ['to ', 'you', undefined]);
  for (const each of [peer, otherPeer]) each.close();
});

test('the end of what is sent is told; the other side may go on', async () => {
  const heard = new Heard();
  const socket = sockets.connect(server.path, heard, PLENTY);
  const peer = server.accept();
  socket.endSending();
  assert.equal(peer.receive()?.length, 0);
  peer.send('still here');
  peer.close();
  await heard.until(() => heard.ends.length > 0);
  assert.deepEqual([heard.packets, heard.ends], [['still here'], [undefined]]);
});

test('an end is told once, whoever makes it; afterwards nothing can be sent', async () => {
  const [byPeer, byUs] = [new Heard(), new Heard()];
  const first = sockets.connect(server.path, byPeer, PLENTY);
  const peer = server.accept();
  await first.send(Buffer.from('not read by the peer'));
  peer.close();
  await byPeer.until(() => byPeer.ends.length > 0);
  first.close();
  const second = sockets.connect(server.path, byUs, PLENTY);
  const secondPeer = server.accept();
  second.close();
  second.close();
  assert.equal(secondPeer.receive()?.length, 0);
  secondPeer.close();
  assert.deepEqual([byPeer.ends, byUs.ends], [[undefined], [undefined]]);
  for (const socket of [first, second]) await assert.rejects(socket.send(Buffer.of(1)), { kind: 'Unavailable' });
  assert.equal(sockets.size, 0);
});

test('a listener that takes keeps the connection however much comes; one that does not loses it', async () => {
  const [keeping, taking] = [new Heard(false), new Heard()];
  sockets.connect(server.path, keeping, { mostUntakenBytes: 10 });
  const peer = server.accept();
  sockets.connect(server.path, taking, { mostUntakenBytes: 10 });
  const takenPeer = server.accept();
  peer.send('12345');
  await keeping.until(() => keeping.packets.length === 1);
  const [taken] = keeping.takes;
  // A second time counts for nothing.
  taken?.();
  taken?.();
  peer.send('1234567890');
  await keeping.until(() => keeping.packets.length === 2);
  assert.deepEqual(keeping.ends, []);
  peer.send('1');
  await keeping.until(() => keeping.ends.length > 0);
  assert.match(String(keeping.ends[0]), /more than 10 bytes were not taken/);
  assert.deepEqual(keeping.packets, ['12345', '1234567890']);
  for (let i = 0; i < 20; i++) takenPeer.send('123456');
  await taking.until(() => taking.packets.length === 20);
  for (const each of [peer, takenPeer]) each.close();
});

test('sending waits while the other side does not read, keeps the order, and is refused when it is gone', async () => {
  const socket = sockets.connect(server.path, new Heard(), PLENTY);
  const peer = server.accept();
  let sent = 0;
  const big = Buffer.alloc(16_384);
  const sending = Array.from({ length: 100 }, async (_, i) => {
    big.writeUInt32LE(i);
    await socket.send(Buffer.from(big));
    sent++;
  });
  await new Promise((resolve) => setImmediate(resolve));
  assert.ok(sent < 100, `${String(sent)} packets of 16 KiB fit where nobody reads`);
  const order: number[] = [];
  while (order.length < 100) {
    const packet = peer.receive();
    if (packet === undefined) await new Promise((resolve) => setImmediate(resolve));
    else order.push(packet.readUInt32LE());
  }
  await Promise.all(sending);
  assert.deepEqual(order, [...order.keys()]);
  const refused = Promise.allSettled(Array.from({ length: 100 }, () => socket.send(big)));
  peer.close();
  assert.equal((await refused).at(-1)?.status, 'rejected');
});

test('where nobody listens, or nobody accepts, no connection is made', () => {
  const heard = new Heard();
  assert.throws(() => sockets.connect(join(folder, 'nobody'), heard, PLENTY), { kind: 'NotFound' });
  const busy = new FakePacketServer(join(folder, 'busy'), 0);
  sockets.connect(busy.path, heard, PLENTY);
  assert.throws(() => sockets.connect(busy.path, heard, PLENTY), { kind: 'Unavailable' });
  busy.close();
  assert.deepEqual(heard.packets, []);
});

test('closing ends them all, and none is made afterwards', async () => {
  const heard = new Heard();
  const socket = sockets.connect(server.path, heard, PLENTY);
  const peer = server.accept();
  sockets.close();
  assert.deepEqual([heard.ends, sockets.size], [[undefined], 0]);
  assert.equal(peer.receive()?.length, 0);
  peer.close();
  await assert.rejects(socket.send(Buffer.of(1)), { kind: 'Unavailable' });
  assert.throws(() => sockets.connect(server.path, heard, PLENTY), { kind: 'Unavailable' });
});
