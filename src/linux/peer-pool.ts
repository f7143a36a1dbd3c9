import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import type { Op } from '../lib/abort.ts';
import type { Clock, Timer } from '../lib/clock.ts';
import { canceled, unavailable } from '../lib/errors.ts';
import { faultGate } from '../lib/fault-gate.ts';
import { NO_FAULTS, type FaultPoints } from '../lib/fault-points.ts';
import { fromPlainError, type PeerReply, type PeerRequest } from './peer-protocol.ts';

/** A thread or process that answers requests. */
export interface Peer {
  post(request: PeerRequest): void;
  kill(): void;
  /** Whether it keeps this process alive. */
  setRef(ref: boolean): void;
}

export type StartPeer = (onReply: (reply: PeerReply) => void, onEnd: () => void) => Peer;

export interface PeerPoolOptions {
  readonly clock: Clock;
  /** For error messages. */
  readonly what: string;
  readonly start: StartPeer;
  /** A peer with nothing to do for this long is ended. */
  readonly idleMs: number;
  readonly maxPeers: number;
  /** How many requests one peer works on at once. */
  readonly callsPerPeer: number;
  /**
   * A peer with a call that was given up gets no more calls until it has answered that one. `kill`: it is also killed
   * as soon as nobody waits for anything from it. Only a process can be killed while it hangs in the kernel.
   */
  readonly onGivenUp: 'kill' | 'leave';
  /** Peers that may hang at a time: each keeps its memory, and one that hangs in the kernel (state D) does not even die of SIGKILL. */
  readonly maxHung: number;
  /** A noun, for error messages, the same for the same: `stat /mnt/share`. */
  readonly describe: (request: never) => string;
}

interface Call {
  readonly seq: number;
  readonly request: unknown;
  readonly result: PromiseWithResolvers<unknown>;
  readonly what: string;
  givenUpAtMs: number | undefined;
}

interface Member {
  readonly peer: Peer;
  readonly calls: Map<number, Call>;
  idle: Timer | undefined;
}

/** Killed or told to stop, a peer takes this long to be gone, or to have noticed: it does not count as hung. */
const GRACE_MS = 5_000;
/** What hangs is asked for anew after this long, four times as long with each one more that hangs with it: its disk may be another by then. */
const ASK_AGAIN_MS = 5 * 60_000;

/** Helper threads or processes, started when needed and ended when idle, for calls that must not run on the main thread. */
export class PeerPool {
  readonly #options: PeerPoolOptions;
  readonly #members = new Set<Member>();
  /** Killed and still there, with what they hang in. */
  readonly #undead = new Map<Member, readonly Call[]>();
  readonly #waiting: Call[] = [];
  #seq = 0;

  constructor(options: PeerPoolOptions) {
    this.#options = options;
  }

  /**
   * Rejects with the signal's reason as soon as it fires, whatever the peer does. Unavailable, naming what hangs, when the same hangs
   * already or too much does.
   */
  call(op: Op, request: unknown): Promise<unknown> {
    if (op.signal.aborted) return Promise.reject(reasonOf(op.signal));
    const what = this.#options.describe(request as never);
    const hangs = this.#sameThatHangs(what);
    if (hangs !== undefined) return Promise.reject(hangs);
    const result = Promise.withResolvers<unknown>();
    const call: Call = { seq: ++this.#seq, request, result, what, givenUpAtMs: undefined };
    const onAbort = (): void => {
      this.#giveUp(call, reasonOf(op.signal));
    };
    op.signal.addEventListener('abort', onAbort, { once: true });
    this.#waiting.push(call);
    this.#dispatch();
    return call.result.promise.finally(() => {
      op.signal.removeEventListener('abort', onAbort);
    });
  }

  close(): void {
    for (const member of this.#members) this.#end(member, `${this.#options.what} is closed`);
    for (const call of this.#waiting.splice(0)) call.result.reject(unavailable(`${this.#options.what} is closed`));
  }

  get size(): number {
    return this.#members.size;
  }

  #dispatch(): void {
    while (this.#waiting.length > 0) {
      const member = this.#free();
      if (member === 'too many hang') {
        const words = [...this.#hung()].map(({ what }) => what).join(', ');
        const error = unavailable(`${this.#options.what}: not asked, as too much hangs already: ${words}`);
        for (const call of this.#waiting.splice(0)) call.result.reject(error);
        return;
      }
      if (member === undefined) return;
      const call = this.#waiting.shift();
      if (call === undefined) return;
      member.idle?.cancel();
      member.idle = undefined;
      if (member.calls.size === 0) member.peer.setRef(true);
      member.calls.set(call.seq, call);
      try {
        member.peer.post({ seq: call.seq, request: call.request });
      } catch (error) {
        member.calls.delete(call.seq);
        call.result.reject(error);
      }
    }
  }

  #free(): Member | 'too many hang' | undefined {
    let inService = 0;
    let hung = this.#undead.size;
    for (const member of this.#members) {
      if ([...member.calls.values()].some(isGivenUp)) {
        hung++;
        continue;
      }
      inService++;
      if (member.calls.size < this.#options.callsPerPeer) return member;
    }
    if (inService >= this.#options.maxPeers) return undefined;
    if (hung < this.#options.maxHung) return this.#start();
    return inService > 0 ? undefined : 'too many hang';
  }

  *#hung(): Generator<Call> {
    for (const calls of this.#undead.values()) yield* calls;
    for (const { calls } of this.#members) yield* [...calls.values()].filter(isGivenUp);
  }

  /** A dead disk that is asked for again and again must not take a peer each time. */
  #sameThatHangs(what: string): Error | undefined {
    const ages = [...this.#hung()]
      .filter((call) => call.what === what)
      .map(({ givenUpAtMs = 0 }) => this.#options.clock.monotonicMs() - givenUpAtMs)
      .filter((ageMs) => ageMs >= GRACE_MS);
    if (ages.length === 0 || Math.min(...ages) >= ASK_AGAIN_MS * 4 ** (ages.length - 1)) return undefined;
    const seconds = String(Math.round(Math.max(...ages) / 1000));
    return unavailable(`${what}: asked for before and given up ${seconds} s ago, it still hangs in the kernel`);
  }

  #start(): Member {
    const peer = this.#options.start(
      (reply) => {
        this.#settle(member, reply);
      },
      () => {
        this.#undead.delete(member);
        this.#end(member, `${this.#options.what} has ended unexpectedly`);
        this.#dispatch();
      },
    );
    const member: Member = { peer, calls: new Map(), idle: undefined };
    this.#members.add(member);
    return member;
  }

  #settle(member: Member, reply: PeerReply): void {
    const call = member.calls.get(reply.seq);
    if (call === undefined) return;
    member.calls.delete(reply.seq);
    if (reply.ok) call.result.resolve(reply.value);
    else call.result.reject(fromPlainError(reply.error));
    if (member.calls.size === 0) {
      member.peer.setRef(false);
      member.idle = this.#options.clock.after(this.#options.idleMs, () => {
        this.#end(member, 'idle');
      });
    }
    this.#dispatch();
    this.#killIfHopeless(member);
  }

  #giveUp(call: Call, reason: Error): void {
    call.result.reject(reason);
    const waiting = this.#waiting.indexOf(call);
    if (waiting >= 0) {
      this.#waiting.splice(waiting, 1);
      return;
    }
    for (const member of this.#members) {
      if (member.calls.get(call.seq) !== call) continue;
      call.givenUpAtMs = this.#options.clock.monotonicMs();
      this.#killIfHopeless(member);
    }
    this.#dispatch();
  }

  #killIfHopeless(member: Member): void {
    if (this.#options.onGivenUp !== 'kill' || member.calls.size === 0) return;
    const calls = [...member.calls.values()];
    if (!calls.every(isGivenUp)) return;
    this.#undead.set(member, calls);
    this.#end(member, 'given up');
  }

  #end(member: Member, why: string): void {
    if (!this.#members.delete(member)) return;
    member.idle?.cancel();
    member.peer.setRef(false);
    member.peer.kill();
    for (const call of member.calls.values()) call.result.reject(unavailable(why));
    member.calls.clear();
  }
}

function isGivenUp({ givenUpAtMs }: Call): boolean {
  return givenUpAtMs !== undefined;
}

function reasonOf(signal: AbortSignal): Error {
  const reason: unknown = signal.reason;
  return reason instanceof Error ? reason : canceled('canceled');
}

/** A worker thread as a peer. */
export function threadPeer(url: URL, name: string, faults: FaultPoints = NO_FAULTS): StartPeer {
  return (onReply, onEnd) => {
    // A small young generation: these threads make little garbage, and each would else cost the daemon megabytes.
    const worker = new Worker(url, {
      name,
      resourceLimits: { maxYoungGenerationSizeMb: 4 },
      ...faultGate(faults),
    });
    worker.unref();
    worker.on('message', onReply);
    worker.on('error', onEnd);
    worker.on('exit', onEnd);
    return {
      post: (request) => {
        worker.postMessage(request);
      },
      kill: () => {
        void worker.terminate();
      },
      setRef: (ref) => {
        if (ref) worker.ref();
        else worker.unref();
      },
    };
  };
}

/** A process as a peer: it can be killed while a call of it hangs in the kernel. */
export function processPeer(url: URL, threads: number): StartPeer {
  return (onReply, onEnd) => {
    const child = fork(fileURLToPath(url), [], {
      cwd: '/',
      // A group of its own: a ^C meant for the daemon must not end an unmount half-way.
      detached: true,
      env: { PATH: process.env['PATH'] ?? '', UV_THREADPOOL_SIZE: String(threads) },
      execArgv: ['--max-semi-space-size=1'],
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    });
    child.on('message', (reply) => {
      onReply(reply as unknown as PeerReply);
    });
    child.on('error', onEnd);
    child.on('exit', onEnd);
    const setRef = (ref: boolean): void => {
      if (ref) {
        child.ref();
        child.channel?.ref();
      } else {
        child.unref();
        child.channel?.unref();
      }
    };
    setRef(false);
    return {
      post: (request) => {
        child.send(request, (error) => {
          if (error !== null) onEnd();
        });
      },
      kill: () => {
        child.kill('SIGKILL');
      },
      setRef,
    };
  };
}
