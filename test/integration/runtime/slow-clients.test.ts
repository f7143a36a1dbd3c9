import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import type { Socket } from 'node:net';
import { Duplex } from 'node:stream';
import { after, before, test } from 'node:test';
import { WebSocket } from 'ws';
import { ExecRequest, NamespaceMode } from '../../../src/cri/gen/api.ts';
import { FakeSpdyClient, upgrade, type FakeStream } from '../../../src/runtime/streaming/fake-spdy-client.ts';
import { LeakCheck } from '../../support/leak-check.ts';
import { eventually } from './daemon-process.ts';
import { ImageDaemon } from './image-daemon.ts';
import { container, op, pod } from './runtime-fixture.ts';

const skip = process.getuid?.() !== 0 && 'needs root';
const MIB = 1024 * 1024;
/** Many times what all buffers on the way take together. */
const SENT_MIB = 40;
const SENT_BYTES = SENT_MIB * MIB;
/** What the daemon may keep of what a client does not read. */
const MOST_KEPT_BYTES = 16 * MIB;
const STILL_MS = 1_000;
/** It looks at a file of its own now and then. */
const LITTLE_BYTES = 16 * 1024;

const DD = ['dd', 'if=/dev/zero', `bs=${String(MIB)}`, `count=${String(SENT_MIB)}`];

let daemon: ImageDaemon;
let leaks: LeakCheck;
let sandboxId: string;
let id: string;

before(async () => {
  if (skip !== false) return;
  daemon = await ImageDaemon.make();
  leaks = await LeakCheck.begin(daemon.root.leakRoots());
  const config = pod(daemon.root, 'slow', { network: NamespaceMode.POD });
  sandboxId = await daemon.runPod(config);
  const writer = `read go; ${DD.join(' ')}; touch /written; sleep 600`;
  id = await daemon.run(sandboxId, config, container('a', ['sh', '-c', writer], { stdin: true }));
  // What is loaded with the first stream is not what a client makes the daemon keep.
  await (await SlowSpdy.exec(['true'])).read();
  await (await SlowWebSocket.exec(['true'])).read();
});

after(async () => {
  if (skip !== false) return;
  try {
    await daemon.endPod(sandboxId);
    await leaks.assertNone();
  } finally {
    await daemon[Symbol.asyncDispose]();
  }
});

/** A client that reads nothing until it is told to. */
interface SlowClient {
  /** Reads on; resolves with how many bytes of output there were, once there are no more. */
  read(): Promise<number>;
}

/** A connection that can be left unread. */
class HeldSocket extends Duplex {
  readonly #socket: Socket;

  constructor(socket: Socket) {
    super();
    this.#socket = socket;
    socket.on('data', (chunk) => this.push(chunk));
    socket.on('error', () => undefined);
    socket.on('close', () => this.destroy());
  }

  hold(): void {
    this.#socket.pause();
  }

  release(): void {
    this.#socket.resume();
  }

  override _read(): void {
    // What has come is handed on at once.
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: () => void): void {
    this.#socket.write(chunk, () => done());
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#socket.destroy();
    done(error);
  }
}

class SlowSpdy implements SlowClient {
  readonly client: FakeSpdyClient;
  readonly #socket: HeldSocket;
  #output: FakeStream | undefined;

  private constructor(socket: Socket) {
    this.#socket = new HeldSocket(socket);
    this.client = new FakeSpdyClient(this.#socket);
  }

  static async open(url: string, protocol: string): Promise<SlowSpdy> {
    const { socket } = await upgrade(url, { Upgrade: 'SPDY/3.1', 'X-Stream-Protocol-Version': protocol });
    return new SlowSpdy(socket);
  }

  static async command(url: string): Promise<SlowSpdy> {
    const slow = await SlowSpdy.open(url, 'v4.channel.k8s.io');
    await slow.client.open({ streamtype: 'error' });
    slow.hold(await slow.client.open({ streamtype: 'stdout' }));
    return slow;
  }

  static async exec(cmd: string[]): Promise<SlowSpdy> {
    return await SlowSpdy.command(await execUrl(cmd));
  }

  hold(output: FakeStream): void {
    this.#output = output;
    this.#socket.hold();
    output.onData = () => undefined;
  }

  async read(): Promise<number> {
    this.#socket.release();
    await this.#output?.ended.promise;
    this.#socket.destroy();
    return this.#output?.bytes ?? 0;
  }
}

class SlowWebSocket implements SlowClient {
  readonly #webSocket: WebSocket;
  #bytes = 0;

  private constructor(webSocket: WebSocket) {
    this.#webSocket = webSocket;
    webSocket.on('message', (data: Buffer) => {
      if (data[0] === 1) this.#bytes += data.length - 1;
    });
  }

  static async exec(cmd: string[]): Promise<SlowWebSocket> {
    const webSocket = new WebSocket((await execUrl(cmd)).replace('http:', 'ws:'), ['v5.channel.k8s.io']);
    await once(webSocket, 'open');
    webSocket.pause();
    return new SlowWebSocket(webSocket);
  }

  async read(): Promise<number> {
    const closed = once(this.#webSocket, 'close');
    this.#webSocket.resume();
    await closed;
    return this.#bytes;
  }
}

async function execUrl(cmd: string[]): Promise<string> {
  const answer = await daemon.runtime.exec?.(op, ExecRequest.fromPartial({ containerId: id, cmd, stdout: true }));
  return answer?.url ?? '';
}

async function attachUrl(to: 'stdin' | 'stdout'): Promise<string> {
  const streams = { stdin: to === 'stdin', stdout: to === 'stdout', stderr: false, tty: false };
  return (await daemon.runtime.attach?.(op, { containerId: id, ...streams }))?.url ?? '';
}

/** Resolves when the daemon reads no output any more, whatever there is. */
async function daemonIsStill(): Promise<void> {
  const readSoFar = async (): Promise<number> =>
    Number(/^rchar: (\d+)/.exec(await readFile(`/proc/${String(daemon.pid)}/io`, 'utf8'))?.[1]);
  for (let last = 0, now = await readSoFar(); now - last > LITTLE_BYTES;) {
    last = now;
    await new Promise((next) => setTimeout(next, STILL_MS));
    now = await readSoFar();
  }
}

async function assertKeepsLittle(begin: () => Promise<SlowClient>): Promise<SlowClient> {
  const before = await daemon.usedMemoryBytes();
  const client = await begin();
  await daemonIsStill();
  const kept = (await daemon.usedMemoryBytes()) - before;
  assert.ok(kept < MOST_KEPT_BYTES, `${String(Math.round(kept / MIB))} MiB are kept for a client that does not read`);
  return client;
}

for (const [name, exec] of [
  ['SPDY', (cmd: string[]) => SlowSpdy.exec(cmd)],
  ['WebSocket', (cmd: string[]) => SlowWebSocket.exec(cmd)],
] as const) {
  test(
    `exec over ${name}: a client that does not read holds the command up, and gets all of it`,
    { skip },
    async () => {
      const client = await assertKeepsLittle(() => exec(DD));
      assert.match(await daemon.execSync(id, 'ps', '-o', 'args'), /^dd /m);
      assert.equal(await client.read(), SENT_BYTES);
    },
  );
}

test('port-forward: a client that does not read holds the port up, and gets all of it', { skip }, async () => {
  await daemon.execSync(id, 'sh', '-c', `mkdir /big; ${DD.join(' ')} of=/big/file; httpd -p 8080 -h /big`);
  const client = await assertKeepsLittle(async () => {
    const { url } = (await daemon.runtime.portForward?.(op, { podSandboxId: sandboxId, port: [] })) ?? { url: '' };
    const slow = await SlowSpdy.open(url, 'portforward.k8s.io');
    const error = await slow.client.open({ streamtype: 'error', port: '8080', requestid: '0' });
    await error.end();
    const data = await slow.client.open({ streamtype: 'data', port: '8080', requestid: '0' });
    slow.hold(data);
    await data.write('GET /file HTTP/1.0\r\n\r\n');
    return slow;
  });
  assert.ok((await client.read()) > SENT_BYTES);
});

test('attach: a client that does not read holds nothing up', { skip }, async () => {
  const client = await assertKeepsLittle(async () => {
    const slow = await SlowSpdy.command(await attachUrl('stdout'));
    const typist = await FakeSpdyClient.connect(await attachUrl('stdin'), 'v4.channel.k8s.io');
    await typist.open({ streamtype: 'error' });
    await (await typist.open({ streamtype: 'stdin' })).write('go\n');
    await eventually(
      () => daemon.execSync(id, 'ls', '/'),
      (files) => files.includes('written'),
      'all of it is written',
    );
    typist.socket.destroy();
    return slow;
  });
  assert.ok((await client.read()) < SENT_BYTES);
});
