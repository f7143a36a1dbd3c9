import type { RuntimeService } from '../../src/cri/services.ts';
import { FakeSpdyClient } from '../../src/runtime/streaming/fake-spdy-client.ts';
import type { Random } from '../soak/random.ts';
import { op } from '../support/gantryd.ts';
import { damaged, recordClient, throwAt, type Target } from './hostile-bytes.ts';
import { bytesOf } from './random-message.ts';

interface Pod {
  readonly podSandboxId: string;
  readonly containerId: string;
}

const PROTOCOL = 'v4.channel.k8s.io';
const WEB_SOCKET_KEY = 'dGhlIHNhbXBsZSBub25jZQ==';
/** Ends when its standard input does: a session that was cut off leaves it to the runtime to end it. */
const COMMAND = ['/bin/cat'];
const STREAM_TYPES = ['error', 'stdin', 'stdout'] as const;
const PORT = 9;

/** Clients of exec, attach and port-forward that send what no client should. */
export class HostileStreams {
  readonly #runtime: Required<RuntimeService>;
  readonly #pod: Pod;
  readonly #random: Random;
  /** All that an honest client sends in a session of exec over SPDY, but for its URL's path. */
  #recording: Buffer = Buffer.alloc(0);

  constructor(runtime: Required<RuntimeService>, pod: Pod, random: Random) {
    this.#runtime = runtime;
    this.#pod = pod;
    this.#random = random;
  }

  /** To be called before {@link throwOne}. */
  async record(): Promise<void> {
    const url = new URL(await this.#execUrl());
    const bytes = await recordClient(targetOf(url), 0, async (port) => {
      url.port = String(port);
      await converse(url.href);
    });
    const head = bytes.indexOf('\r\n');
    if (head < 0) throw new Error('nothing was recorded');
    this.#recording = bytes.subarray(head);
  }

  /** A whole session; returns what the command says. */
  async converse(): Promise<string> {
    return await converse(await this.#execUrl());
  }

  /** One connection, with a URL that is good, used up or made up. */
  async throwOne(): Promise<void> {
    const random = this.#random;
    const url = new URL(await this.#anyUrl());
    const path = random.chance(0.8)
      ? url.pathname
      : random.pick([`${url.pathname}x`, '/', '/exec/', '*', `/${'a'.repeat(9000)}`]);
    const data = random.pick([
      () => bytesOf(random.pick([0, 1, 100, 5000]), random),
      () => damaged(Buffer.concat([Buffer.from(`POST ${path} HTTP/1.1`), this.#recording]), random),
      () => damaged(Buffer.concat([Buffer.from(`POST ${path} HTTP/1.1`), this.#recording]), random),
      () => Buffer.concat([upgradeTo('SPDY/3.1', path), this.#spdyFrames()]),
      () => Buffer.concat([upgradeTo('websocket', path), this.#webSocketFrames()]),
    ])();
    await throwAt(targetOf(url), data, random);
  }

  async #anyUrl(): Promise<string> {
    const { podSandboxId, containerId } = this.#pod;
    switch (this.#random.between(0, 3)) {
      case 0: {
        const streams = { stdin: false, stdout: true, stderr: true, tty: false };
        return (await this.#runtime.attach(op, { containerId, ...streams })).url;
      }
      case 1:
        return (await this.#runtime.portForward(op, { podSandboxId, port: [PORT] })).url;
      default:
        return await this.#execUrl();
    }
  }

  async #execUrl(): Promise<string> {
    const { containerId } = this.#pod;
    const streams = { stdin: true, stdout: true, stderr: false, tty: false };
    return (await this.#runtime.exec(op, { containerId, cmd: COMMAND, ...streams })).url;
  }

  /** Control and data frames with plausible heads: types, flags, stream ids and lengths that fit, and some that do not. */
  #spdyFrames(): Buffer {
    const random = this.#random;
    const frames = Array.from({ length: random.between(1, 6) }, () => {
      const payload = bytesOf(random.pick([0, 4, 8, 10, 200]), random);
      const head = Buffer.alloc(8);
      const isControl = random.chance(0.7);
      if (isControl) {
        head.writeUInt16BE(0x8000 | random.pick([3, 3, 3, 2, 0x7fff]), 0);
        head.writeUInt16BE(random.between(0, 11), 2);
      } else {
        head.writeUInt32BE(random.pick([0, 1, 2, 3, 5, 0x7fffffff]), 0);
      }
      head.writeUInt8(random.pick([0, 1, 2, 255]), 4);
      head.writeUIntBE(random.chance(0.8) ? payload.length : random.pick([0, 1, 0xffffff]), 5, 3);
      return Buffer.concat([head, payload]);
    });
    return Buffer.concat(frames);
  }

  #webSocketFrames(): Buffer {
    const random = this.#random;
    const frames = Array.from({ length: random.between(1, 6) }, () => {
      const payload = bytesOf(random.pick([0, 1, 5, 100]), random);
      const first = random.pick([0x82, 0x81, 0x02, 0x80, 0x88, 0x89, 0xff, random.between(0, 255)]);
      const length = random.chance(0.8) ? payload.length : random.pick([126, 127]);
      const isMasked = random.chance(0.9);
      const mask = isMasked ? Buffer.alloc(4) : Buffer.alloc(0);
      return Buffer.concat([Buffer.from([first, (isMasked ? 0x80 : 0) | length]), mask, payload]);
    });
    return Buffer.concat(frames);
  }
}

async function converse(url: string): Promise<string> {
  const client = await FakeSpdyClient.connect(url, PROTOCOL);
  const [, stdin, stdout] = await Promise.all(STREAM_TYPES.map((streamType) => client.open({ streamType })));
  await stdin?.write('as ever\n');
  await stdin?.end();
  const text = await stdout?.text();
  client.socket.destroy();
  return text ?? '';
}

function targetOf(url: URL): Target {
  return { host: url.hostname, port: Number(url.port) };
}

function upgradeTo(wire: 'SPDY/3.1' | 'websocket', path: string): Buffer {
  const own =
    wire === 'websocket'
      ? [
          `Sec-WebSocket-Key: ${WEB_SOCKET_KEY}`,
          'Sec-WebSocket-Version: 13',
          'Sec-WebSocket-Protocol: v5.channel.k8s.io',
        ]
      : [`X-Stream-Protocol-Version: ${PROTOCOL}`];
  const method = wire === 'websocket' ? 'GET' : 'POST';
  const lines = [`${method} ${path} HTTP/1.1`, 'Host: x', 'Connection: Upgrade', `Upgrade: ${wire}`, ...own, '', ''];
  return Buffer.from(lines.join('\r\n'));
}
