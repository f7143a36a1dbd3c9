import type { JournalInput } from '../../src/journal/journal.ts';
import { isExitUnknown, type ContainerStatus } from '../../src/runtime/container/state.ts';
import { isKernelsWord } from '../../src/runtime/task/exit-status.ts';
import { SIGNAL_FAILED_WAIT_MS } from '../../src/runtime/container/stop-plan.ts';
import type { RuntimeContext } from '../../src/runtime/context.ts';
import type { ContainerRecord } from '../../src/runtime/store/container-record.ts';
import { SIGKILL } from '../../src/linux/signals.ts';
import type { Daemon, DaemonObserver } from './daemon.ts';
import { short } from './names.ts';
import type { Life, Schedule } from './schedule.ts';
import type { Troubles } from './troubles.ts';
import type { World } from './world.ts';

/** What clients have asked of one container, to be held against what was done to it. */
export interface Wishes {
  /** A start was answered with success. */
  started: boolean;
  /** It may be killed from then on: the earliest deadline of all stops. Infinity: nobody has asked. */
  killFromMs: number;
  removeAsked: boolean;
}

export interface VerdictDeps {
  readonly world: World;
  readonly schedule: Schedule;
  readonly troubles: Troubles;
  readonly daemon: () => Daemon;
}

const EDGES: Readonly<Record<string, readonly string[]>> = {
  none: ['creating'],
  creating: ['creating', 'created', 'none'],
  created: ['created', 'running', 'exited', 'none'],
  running: ['running', 'unknown', 'exited'],
  unknown: ['unknown', 'running', 'exited'],
  exited: ['exited', 'none'],
};
/** No file for 2 s, a look every second, and a few answers that take up to 50 ms each. */
const EXIT_SHOWN_MS = 4_500;
/** The daemon counts from the moment in which it asked. */
const ANSWER_MS = 100;
/** A monitor is given 2 s before it is ended. */
const CLEANED_UP_MS = 6_000;
/** So long an exit may wait for the disk before what it rests on is taken away. */
const NOTED_WAIT_MS = 5_000;
/** In one daemon's life. An exit is corrected by the file that came late, and by what a look at its log found late. */
const TOLD_AT_MOST = { 'container.exited': 1, 'container.exit-corrected': 2 } as const;
const ORDER = ['created', 'started', 'stopped', 'deleted'];

/**
 * What must hold, whatever happens in which order:
 *
 * - an exit that is shown has happened, with its own code or as unknown; one that has happened is shown, in time where
 *   nothing of that container is out of order, and its code is known where its exit file is there;
 * - each is told once, in the order created, started, stopped, deleted;
 * - nothing is taken away before the exit is shown, nor what alone could still tell how it ended, and nobody is killed whom nobody asked to end, or before the time;
 * - what hangs for one container holds up no other;
 * - in the end nothing is left, neither on the machine nor in the records.
 */
export class Verdict implements DaemonObserver {
  readonly #deps: VerdictDeps;
  readonly #wishes = new Map<string, Wishes>();
  readonly #shownAtMs = new Map<string, number>();
  /** In which process of the daemon a container was made. */
  readonly #madeIn = new Map<string, number>();
  readonly #exitsTold = new Map<string, number>();
  readonly violations: string[] = [];
  /** The disk was full or the like: nobody has to be prompt. */
  lenient = false;

  constructor(deps: VerdictDeps) {
    this.#deps = deps;
    deps.world.onSignal = (id, signal) => this.#signalled(id, signal);
    deps.world.onWitnessKilled = (id) => {
      if (isExitUnknown(deps.daemon().rt?.containers.get(id)?.status)) {
        this.failed(`${short(id)}: its monitor, who alone knows how it ended, is killed`);
      }
    };
    deps.troubles.onSignalFailed = (id) => {
      const wishes = this.wishesFor(id);
      wishes.killFromMs = Math.min(wishes.killFromMs, deps.schedule.nowMs + SIGNAL_FAILED_WAIT_MS - ANSWER_MS);
    };
  }

  wishesFor(id: string): Wishes {
    let wishes = this.#wishes.get(id);
    if (wishes === undefined) {
      this.#wishes.set(id, (wishes = { started: false, killFromMs: Infinity, removeAsked: false }));
    }
    return wishes;
  }

  failed(what: string): void {
    this.violations.push(`${String(this.#deps.schedule.nowMs)} ms: ${what}`);
  }

  opened(rt: RuntimeContext, life: Life): void {
    rt.containers.observe((before, after) => {
      if (life.dead) return;
      if (before === undefined && after !== undefined) this.#madeIn.set(after.meta.id, life.number);
      this.#changed(before, after);
    });
    const op = { signal: new AbortController().signal, log: rt.log };
    void this.#readEvents(rt.events.follow(op), life, new Map());
  }

  async #readEvents(
    events: AsyncIterable<{ kind: string; seq?: number; value?: { type: string; id: string } }>,
    life: Life,
    last: Map<string, number>,
  ): Promise<void> {
    let seq = 0;
    for await (const news of events) {
      if (life.dead) return;
      if (news.kind !== 'event' || news.value === undefined) {
        this.failed('an event was lost');
        continue;
      }
      if (news.seq !== ++seq) this.failed(`event ${String(news.seq)} follows ${String(seq - 1)}`);
      const { id, type } = news.value;
      const place = ORDER.indexOf(type);
      if (place <= (last.get(id) ?? -1))
        this.failed(`${short(id)}: ${type} was told after ${ORDER[last.get(id) ?? 0] ?? '?'}`);
      last.set(id, place);
    }
  }

  journal(life: Life, { what, subject }: JournalInput): void {
    if (what !== 'container.exited' && what !== 'container.exit-corrected') return;
    const key = `${String(life.number)} ${subject.containerId ?? ''} ${what}`;
    const count = (this.#exitsTold.get(key) ?? 0) + 1;
    this.#exitsTold.set(key, count);
    if (count > TOLD_AT_MOST[what])
      this.failed(`${short(subject.containerId ?? '')}: ${what} was written ${String(count)} times`);
  }

  /** The OCI runtime is asked to take a container away. */
  deleting(rt: RuntimeContext, id: string): void {
    const state = rt.containers.get(id)?.status.state;
    if (state?.kind === 'running' || state?.kind === 'unknown')
      this.failed(`${short(id)}: its task is deleted while it is ${state.kind}`);
    const isOnlyHere = state?.kind === 'exited' && state.cause.kind === 'ended' && isKernelsWord(state.cause.exit);
    const shownForMs = this.#deps.schedule.nowMs - (this.#shownAtMs.get(id) ?? -Infinity);
    if (isOnlyHere && !this.lenient && shownForMs < NOTED_WAIT_MS && rt.containers.unpersisted.includes(id))
      this.failed(`${short(id)}: its task is deleted while what the kernel said is in memory only`);
  }

  #changed(before: ContainerRecord | undefined, after: ContainerRecord | undefined): void {
    const id = (after ?? before)?.meta.id ?? '';
    const from = before?.status.state.kind ?? 'none';
    const to = after?.status.state.kind ?? 'none';
    if (EDGES[from]?.includes(to) !== true) this.failed(`${short(id)}: from ${from} to ${to}`);
    if (after === undefined) {
      if (from !== 'creating' && this.#isThere(id))
        this.failed(`${short(id)}: was forgotten while something of it is there`);
      return;
    }
    if (from !== 'exited' && to === 'exited') this.#exitShown(id, after.status);
    else if (from === 'exited') this.#exitCorrected(id, before?.status, after.status);
  }

  #isThere(id: string): boolean {
    const { world } = this.#deps;
    return world.bodies.has(id) || world.snapshots.has(id) || [...world.mounts].some((path) => path.includes(id));
  }

  #exitShown(id: string, { state }: ContainerStatus): void {
    if (state.kind !== 'exited') return;
    const { world, schedule } = this.#deps;
    this.#shownAtMs.set(id, schedule.nowMs);
    const truth = world.truthOf(id);
    if (state.startedAtWallMs !== undefined && state.finishedAtWallMs < state.startedAtWallMs) {
      this.failed(`${short(id)}: finished before it started`);
    }
    if (state.cause.kind === 'start-failed') {
      if (this.wishesFor(id).started)
        this.failed(`${short(id)}: its start was answered with success and then said to have failed`);
      // What a full disk does not take note of does not run on.
      if (truth.ran && !this.lenient) this.failed(`${short(id)}: it ran, and its start is said to have failed`);
      return;
    }
    const { exit } = state.cause;
    // Whether a start that was cut off had let the command go, nobody can tell once the process is gone: after a boot, or when a
    // client had it killed before it could be looked at.
    const { killFromMs, removeAsked } = this.wishesFor(id);
    const mayHaveRun = truth.startAsked || exit.kind === 'unknown' || killFromMs < Infinity || removeAsked;
    const hasEnded = truth.diedAtMs !== undefined && mayHaveRun;
    if (!hasEnded) this.failed(`${short(id)}: an exit was invented: ${JSON.stringify(exit)}`);
    else this.#checkCode(id, exit);
  }

  #exitCorrected(id: string, before: ContainerStatus | undefined, { state }: ContainerStatus): void {
    if (state.kind !== 'exited' || before?.state === state || state.cause.kind !== 'ended') return;
    this.#checkCode(id, state.cause.exit);
  }

  #checkCode(id: string, exit: { kind: string; code?: number }): void {
    const { code } = this.#deps.world.truthOf(id);
    if (exit.kind === 'exited' && exit.code !== code) {
      this.failed(`${short(id)}: ended with ${String(code)}, ${String(exit.code)} is shown`);
    }
  }

  #signalled(id: string, signal: number): void {
    const wishes = this.wishesFor(id);
    // A start that a full disk made fail has its process killed before that can be written down.
    if (!wishes.started || wishes.removeAsked || this.lenient) return;
    const { nowMs } = this.#deps.schedule;
    if (wishes.killFromMs === Infinity) this.failed(`${short(id)}: signal ${String(signal)} that nobody asked for`);
    else if (signal === SIGKILL && nowMs < wishes.killFromMs) {
      this.failed(`${short(id)}: SIGKILL ${String(wishes.killFromMs - nowMs)} ms before its grace is over`);
    }
  }

  /** Whether what has happened is shown in time. To be asked whenever the clock has moved. */
  checkTimes(): void {
    const { world, schedule, troubles } = this.#deps;
    const { rt, recoveredAtMs, number: daemonNumber } = this.#deps.daemon();
    if (rt === undefined || recoveredAtMs === undefined || this.lenient) return;
    for (const { meta, status } of rt.containers.list()) {
      const { state } = status;
      const truth = world.truthOf(meta.id);
      const temper = troubles.temperOf(meta.id);
      const sinceMs = (fromMs: number): number => schedule.nowMs - Math.max(fromMs, recoveredAtMs);
      if ((state.kind === 'running' || state.kind === 'unknown') && truth.diedAtMs !== undefined && temper.sound) {
        const lateMs = sinceMs(truth.diedAtMs);
        if (lateMs > EXIT_SHOWN_MS) {
          this.failed(`${short(meta.id)}: dead for ${String(lateMs)} ms and still ${state.kind}`);
        }
      }
      const shownMs = this.#shownAtMs.get(meta.id);
      if (state.kind === 'exited' && shownMs !== undefined && temper.sound && world.bodies.has(meta.id)) {
        const lateMs = sinceMs(shownMs);
        if (lateMs > CLEANED_UP_MS)
          this.failed(`${short(meta.id)}: ended ${String(lateMs)} ms ago, its task is still there`);
      }
      if (state.kind === 'creating' && temper.sound && (this.#madeIn.get(meta.id) ?? 0) < daemonNumber) {
        const lateMs = sinceMs(0);
        if (lateMs > CLEANED_UP_MS)
          this.failed(`${short(meta.id)}: half-made by an earlier process, ${String(lateMs)} ms after recovery`);
      }
      const isUnknown = state.kind === 'exited' && state.cause.kind === 'ended' && state.cause.exit.kind === 'unknown';
      if (isUnknown && truth.fileSinceMs !== undefined && temper.trouble.size === 0) {
        const lateMs = sinceMs(truth.fileSinceMs);
        if (lateMs > EXIT_SHOWN_MS && world.exitFiles.has(meta.id)) {
          this.failed(`${short(meta.id)}: unknown, though its exit file is there for ${String(lateMs)} ms`);
        }
      }
    }
  }

  /** What is still there. Empty: everything has come to its end. */
  leftovers(tables: () => readonly string[]): string[] {
    const { world } = this.#deps;
    const { rt } = this.#deps.daemon();
    const ours = [...world.processes.values()].filter(({ kind, alive }) => kind !== 'stranger' && alive);
    return [
      ...ours.map(({ kind, pid }) => `process ${String(pid)} (${kind})`),
      ...[...world.bodies.keys()].map((id) => `task ${short(id)}`),
      ...[...world.mounts].map((path) => `mount ${path}`),
      ...[...world.snapshots].map((id) => `snapshot ${short(id)}`),
      ...[...world.exitFiles.keys()].map((id) => `exit file ${short(id)}`),
      ...[...world.cgroups].filter((path) => path.includes('/pod')).map((path) => `cgroup ${path}`),
      ...[...world.pins.keys()].map((path) => `pin ${path}`),
      ...[...world.addresses].map((id) => `address of ${short(id)}`),
      ...[...world.folders].filter((path) => /[0-9a-f]{64}/.test(path)).map((path) => `folder ${path}`),
      ...tables(),
      ...(rt?.retries.view() ?? []).map(
        ({ id, events, lastError }) => `in back-off: ${short(id)} ${events.join()} ${lastError}`,
      ),
    ];
  }
}
