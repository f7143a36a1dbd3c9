import { PassThrough } from 'node:stream';
import { canceled, notImplemented } from '../../lib/errors.ts';
import type { PodCommandRequest, PodStreams, RemoteSession, TerminalSize } from '../../kube/streams/pod-streams.ts';

/** A session of which a test is the container's end. */
export class FakeSession implements RemoteSession {
  readonly stdin = new PassThrough();
  readonly stdout = new PassThrough();
  readonly stderr = new PassThrough();
  readonly sizes: TerminalSize[] = [];
  readonly ended: Promise<number>;
  closed = false;
  readonly #outcome = Promise.withResolvers<number>();

  constructor() {
    this.ended = this.#outcome.promise;
  }

  resize(size: TerminalSize): void {
    this.sizes.push(size);
  }

  /** The command ends, and its output with it. */
  end(outcome: number | Error): void {
    this.stdout.end();
    this.stderr.end();
    if (typeof outcome === 'number') this.#outcome.resolve(outcome);
    else this.#outcome.reject(outcome);
  }

  close(): void {
    this.closed = true;
  }
}

/** Streams whose sessions a test plays; what they were asked for is kept. */
export class FakeStreams implements PodStreams {
  readonly asked: PodCommandRequest[] = [];
  readonly #play: (session: FakeSession) => void;
  session = new FakeSession();

  constructor(play: (session: FakeSession) => void = () => undefined) {
    this.#play = play;
  }

  run: PodStreams['run'] = (op, request) => {
    this.asked.push(request);
    const session = (this.session = new FakeSession());
    op.signal.addEventListener('abort', () => session.end(canceled('interrupted')), { once: true });
    setImmediate(() => this.#play(session));
    return Promise.resolve(session);
  };

  forward: PodStreams['forward'] = () => Promise.reject(notImplemented('no port-forward'));
}
