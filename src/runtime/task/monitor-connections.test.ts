import assert from 'node:assert/strict';
import { test } from 'node:test';
import { GantryError, notFound } from '../../lib/errors.ts';
import type { PacketListener } from '../../linux/packet-sockets.ts';
import { MonitorConnections, type Packets } from './monitor-connections.ts';

const MOST_UNTAKEN = 1_000;

interface FakeConnection {
  readonly path: string;
  readonly mostUntakenBytes: number;
  /** As the kernel tells it. */
  readonly wire: PacketListener;
  readonly done: string[];
}

/** The kernel's side, by connection. */
class FakePackets implements Packets {
  readonly made: FakeConnection[] = [];

  connect: Packets['connect'] = (path, wire, { mostUntakenBytes }) => {
    const done: string[] = [];
    this.made.push({ path, wire, mostUntakenBytes, done });
    return {
      send: (packet) => {
        done.push(`sent ${Buffer.from(packet).toString()}`);
        return Promise.resolve();
      },
      endSending: () => void done.push('ended sending'),
      close: () => void done.push('closed'),
    };
  };
}

function listener(): PacketListener & { readonly heard: string[] } {
  const heard: string[] = [];
  return {
    heard,
    onPacket: (packet, taken) => {
      heard.push(packet.toString());
      taken();
    },
    onEnd: (error) => void heard.push(error === undefined ? 'end' : error.message),
  };
}

test('a client hears its monitor and can speak to it, until it leaves', async () => {
  const packets = new FakePackets();
  const connections = new MonitorConnections(packets);
  const client = listener();
  const connection = connections.open('task', '/monitor', client, MOST_UNTAKEN);
  const [made] = packets.made;
  assert.deepEqual([made?.path, made?.mostUntakenBytes], ['/monitor', MOST_UNTAKEN]);
  made?.wire.onPacket(Buffer.from('hello'), () => undefined);
  await connection.send(Buffer.from('you'));
  connection.endSending();
  connection.leave({ keep: false });
  let taken = 0;
  made?.wire.onPacket(Buffer.from('for nobody'), () => taken++);
  made?.wire.onEnd(undefined);
  assert.deepEqual(made?.done, ['sent you', 'ended sending', 'closed']);
  assert.deepEqual([client.heard, taken], [['hello'], 1]);
});

test('a connection that is kept serves the next client of its task, and no other task', () => {
  const packets = new FakePackets();
  const connections = new MonitorConnections(packets);
  const [first, next, other] = [listener(), listener(), listener()];
  connections.open('task', '/monitor', first, MOST_UNTAKEN).leave({ keep: true });
  connections.open('other', '/other', other, MOST_UNTAKEN);
  connections.open('task', '/monitor', next, MOST_UNTAKEN);
  assert.deepEqual(
    packets.made.map(({ path, done }) => [path, done]),
    [
      ['/monitor', []],
      ['/other', []],
    ],
  );
  packets.made[0]?.wire.onPacket(Buffer.from('again'), () => undefined);
  assert.deepEqual([first.heard, next.heard, other.heard], [[], ['again'], []]);
  // It is taken: whoever comes now gets one of his own.
  connections.open('task', '/monitor', listener(), MOST_UNTAKEN);
  assert.equal(packets.made.length, 3);
});

test('one that is over is not kept, and one that ends while it is kept is forgotten', () => {
  const packets = new FakePackets();
  const connections = new MonitorConnections(packets);
  const client = listener();
  const connection = connections.open('task', '/monitor', client, MOST_UNTAKEN);
  packets.made[0]?.wire.onEnd(new GantryError('ResourceExhausted', 'too far behind'));
  connection.leave({ keep: true });
  assert.deepEqual(client.heard, ['too far behind']);
  assert.deepEqual(packets.made[0]?.done, ['closed']);

  for (const kept of [1, 2]) {
    const each = connections.open('task', '/monitor', listener(), MOST_UNTAKEN);
    const another = connections.open('task', '/monitor', listener(), MOST_UNTAKEN);
    for (const leaving of [each, another].slice(0, kept)) leaving.leave({ keep: true });
    for (const { wire } of packets.made) wire.onEnd(undefined);
    const before = packets.made.length;
    connections.open('task', '/monitor', listener(), MOST_UNTAKEN);
    assert.equal(packets.made.length, before + 1);
  }
});

test('a monitor that does not answer is unavailable; another failure stays what it is', () => {
  const failing = (error: Error): MonitorConnections =>
    new MonitorConnections({
      connect: () => {
        throw error;
      },
    });
  const open = (connections: MonitorConnections) => () =>
    connections.open('task', '/monitor', listener(), MOST_UNTAKEN);
  assert.throws(open(failing(notFound('no such socket'))), {
    kind: 'Unavailable',
    message: /task task does not answer/,
  });
  assert.throws(open(failing(new GantryError('ResourceExhausted', 'no descriptor'))), { kind: 'ResourceExhausted' });
});
