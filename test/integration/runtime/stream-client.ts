import { FakeSpdyClient, type FakeStream } from '../../../src/runtime/streaming/fake-spdy-client.ts';

/** A client of an exec or attach URL, over SPDY. */
export class CommandClient {
  readonly #client: FakeSpdyClient;
  readonly stdin: FakeStream | undefined;
  readonly stdout: FakeStream;
  readonly #error: FakeStream;
  readonly resizes: FakeStream | undefined;

  private constructor(
    client: FakeSpdyClient,
    streams: { error: FakeStream; stdin?: FakeStream; stdout: FakeStream; resizes?: FakeStream },
  ) {
    this.#client = client;
    this.#error = streams.error;
    this.stdin = streams.stdin;
    this.stdout = streams.stdout;
    this.resizes = streams.resizes;
  }

  static async open(url: string, { stdin = false, tty = false } = {}): Promise<CommandClient> {
    const client = await FakeSpdyClient.connect(url, 'v4.channel.k8s.io');
    const error = await client.open({ streamtype: 'error' });
    const input = stdin ? { stdin: await client.open({ streamtype: 'stdin' }) } : {};
    const stdout = await client.open({ streamtype: 'stdout' });
    const resizes = tty ? { resizes: await client.open({ streamtype: 'resize' }) } : {};
    return new CommandClient(client, { error, stdout, ...input, ...resizes });
  }

  get out(): string {
    return Buffer.concat(this.stdout.chunks).toString('utf8');
  }

  async shows(wanted: RegExp): Promise<void> {
    for (let round = 0; !wanted.test(this.out); round++) {
      if (round > 3_000) throw new Error(`${String(wanted)} does not come: ${this.out}`);
      await new Promise((next) => setTimeout(next, 10));
    }
  }

  /** What the server says of the command, when it has ended. */
  async verdict(): Promise<string> {
    const text = await this.#error.text();
    this.vanish();
    return text;
  }

  vanish(): void {
    this.#client.socket.destroy();
  }
}

/** A client of a port-forward URL, over SPDY. */
export class PortClient {
  readonly #client: FakeSpdyClient;
  #requests = 0;

  private constructor(client: FakeSpdyClient) {
    this.#client = client;
  }

  static async open(url: string): Promise<PortClient> {
    return new PortClient(await FakeSpdyClient.connect(url, 'portforward.k8s.io'));
  }

  /** One connection. */
  async connect(port: number): Promise<{ readonly data: FakeStream; readonly error: FakeStream }> {
    const headers = { port: String(port), requestid: String(this.#requests++) };
    const error = await this.#client.open({ streamtype: 'error', ...headers });
    await error.end();
    return { error, data: await this.#client.open({ streamtype: 'data', ...headers }) };
  }

  /** Sends that, closes its half, and returns what comes back until the port closes its own. */
  async ask(port: number, question: string): Promise<{ readonly answer: string; readonly error: string }> {
    const { data, error } = await this.connect(port);
    await data.write(question);
    await data.end();
    return { answer: await data.text(), error: await error.text() };
  }

  vanish(): void {
    this.#client.socket.destroy();
  }
}
