import type { WaitStatus } from '../../src/linux/pidfd.ts';
import type { ProcessKey } from '../../src/linux/procfs.ts';
import type { ProcessView } from '../../src/runtime/task/process-table.ts';
import { SIGKILL } from '../../src/linux/signals.ts';
import type { Random } from '../soak/random.ts';
import { isIn, Resources } from './resources.ts';
import type { Life, Schedule } from './schedule.ts';
import type { Temper } from './troubles.ts';

export interface Process extends ProcessKey {
  readonly kind: 'init' | 'monitor' | 'stranger';
  readonly cgroup: string;
  alive: boolean;
  /** Dead, and its parent has not asked yet. */
  zombie: boolean;
  frozen: boolean;
  /** Stopped by a signal (SIGSTOP). */
  stopped: boolean;
  wait: WaitStatus | undefined;
  /** Sent and not acted on yet. */
  readonly pending: Set<number>;
}

/** What the OCI runtime, conmon and the kernel have of one container. */
export interface Body {
  readonly id: string;
  readonly cgroup: string;
  init: Process | undefined;
  monitor: Process | undefined;
  state: 'creating' | 'created' | 'running' | 'stopped';
}

/** What truly happened to a container's first process, whoever knows it. */
export interface Truth {
  /** The OCI runtime was asked to let its command go: before that nothing is an exit of the command. */
  startAsked: boolean;
  /** It was let go. */
  ran: boolean;
  diedAtMs: number | undefined;
  code: number | undefined;
  /** Since when its exit file is there. */
  fileSinceMs: number | undefined;
}

interface Watcher {
  readonly life: Life;
  readonly key: ProcessKey;
  readonly onExit: (status: WaitStatus | undefined) => void;
}

const SIGTERM = 15;
const SIGSTOP = 19;

/** A machine: processes and their monitors, and what they leave. Every method takes effect at once. */
export class World extends Resources {
  readonly #random: Random;
  readonly #schedule: Schedule;
  readonly #temperOf: (id: string) => Temper;
  readonly #watchers = new Set<Watcher>();
  readonly processes = new Map<number, Process>();
  readonly bodies = new Map<string, Body>();
  readonly truths = new Map<string, Truth>();
  /** Told of each exit file's name; a watch that is lost is told nothing. */
  onExitFile: (name: string) => void = () => undefined;
  /** Told before a signal takes effect on a first process. */
  onSignal: (id: string, signal: number) => void = () => undefined;
  /** Told before a monitor is killed that would have written the exit file of what it has reaped. */
  onWitnessKilled: (id: string) => void = () => undefined;
  boot = 1;
  #nextPid = 1000;
  #ticks = 1;

  constructor(schedule: Schedule, random: Random, temperOf: (id: string) => Temper) {
    super();
    this.#schedule = schedule;
    this.#random = random;
    this.#temperOf = temperOf;
  }

  get bootId(): string {
    return `boot-${String(this.boot)}`;
  }

  truthOf(id: string): Truth {
    let truth = this.truths.get(id);
    if (truth === undefined)
      this.truths.set(
        id,
        (truth = { startAsked: false, ran: false, diedAtMs: undefined, code: undefined, fileSinceMs: undefined }),
      );
    return truth;
  }

  spawn(kind: Process['kind'], cgroup: string, pid = this.#nextPid++): Process {
    const process: Process = {
      pid,
      startTimeTicks: ++this.#ticks,
      kind,
      cgroup,
      alive: true,
      zombie: false,
      frozen: false,
      stopped: false,
      wait: undefined,
      pending: new Set(),
    };
    this.processes.set(pid, process);
    return process;
  }

  /** conmon and the OCI runtime begin to make a container. */
  beginCreate(id: string, cgroup: string): void {
    this.cgroups.add(cgroup);
    this.truths.delete(id);
    this.bodies.set(id, { id, cgroup, init: undefined, monitor: this.spawn('monitor', ''), state: 'creating' });
  }

  finishCreate(id: string): Body {
    const body = this.bodies.get(id);
    if (body?.monitor?.alive !== true) throw new Error(`${id}: its maker was killed`);
    body.init = this.spawn('init', body.cgroup);
    body.state = 'created';
    return body;
  }

  /** The container's own command runs. */
  start(id: string): void {
    const body = this.bodies.get(id);
    if (body?.state !== 'created' || body.init?.alive !== true) throw new Error(`cannot start container ${id}`);
    body.state = 'running';
    this.truthOf(id).ran = true;
    const { init } = body;
    const { endsAfterMs, code } = this.#temperOf(id);
    if (endsAfterMs === undefined) return;
    this.#schedule.after(endsAfterMs, () => {
      if (init.alive && !init.frozen) this.#die(body, init, { kind: 'exited', code });
    });
  }

  view(pid: number): ProcessView | undefined {
    const process = this.processes.get(pid);
    if (process === undefined) return undefined;
    const { startTimeTicks, zombie, wait, pending } = process;
    const base = { pid, startTimeTicks, ppid: 1 };
    if (zombie) return { ...base, state: 'Z', ...(wait === undefined ? {} : { exitCode: rawStatus(wait) }) };
    return { ...base, state: pending.has(SIGKILL) ? 'D' : process.stopped ? 'T' : 'S' };
  }

  isAlive({ pid, startTimeTicks }: ProcessKey): boolean {
    const process = this.processes.get(pid);
    return process !== undefined && process.startTimeTicks === startTimeTicks && process.alive;
  }

  /** False: there is no such process any more. */
  signal(key: ProcessKey, signal: number): boolean {
    const process = this.processes.get(key.pid);
    if (process?.startTimeTicks !== key.startTimeTicks || process.zombie) return false;
    if (process.kind === 'monitor') {
      if (signal === SIGKILL) {
        const body = [...this.bodies.values()].find(({ monitor }) => monitor === process);
        if (body?.init?.alive === false && !process.stopped) this.onWitnessKilled(body.id);
        this.#endMonitor(process);
      } else if (signal === SIGSTOP) process.stopped = true;
      return true;
    }
    const body = this.#bodyOf(process);
    if (body !== undefined) this.#signalInit(body, process, signal);
    return true;
  }

  #signalInit(body: Body, init: Process, signal: number): void {
    this.onSignal(body.id, signal);
    if (signal === SIGKILL && (this.#temperOf(body.id).undying || init.frozen)) init.pending.add(signal);
    else if (signal === SIGKILL) this.#die(body, init, { kind: 'signaled', signal, coreDumped: false });
    else if (init.frozen) init.pending.add(signal);
    else if (signal === SIGTERM) this.#askToEnd(body, init);
  }

  #askToEnd(body: Body, init: Process): void {
    const { obeysAfterMs, code } = this.#temperOf(body.id);
    if (obeysAfterMs === undefined || body.state !== 'running') return;
    this.#schedule.after(obeysAfterMs, () => {
      if (!init.alive || init.frozen) return;
      const wait: WaitStatus =
        code % 2 === 0 ? { kind: 'exited', code } : { kind: 'signaled', signal: SIGTERM, coreDumped: false };
      this.#die(body, init, wait);
    });
  }

  freeze(id: string): void {
    const init = this.bodies.get(id)?.init;
    if (init?.alive === true) init.frozen = true;
  }

  thaw(cgroup: string): void {
    for (const body of this.bodies.values()) {
      const { init } = body;
      if (body.cgroup !== cgroup || init === undefined) continue;
      init.frozen = false;
      this.#deliver(body, init);
    }
  }

  /** What kept a process from dying is over. */
  release(id: string): void {
    const body = this.bodies.get(id);
    if (body?.init !== undefined) this.#deliver(body, body.init);
  }

  #deliver(body: Body, init: Process): void {
    if (init.frozen) return;
    for (const signal of [...init.pending]) {
      init.pending.delete(signal);
      if (init.alive) this.#signalInit(body, init, signal);
    }
  }

  killAll(cgroup: string): void {
    for (const body of [...this.bodies.values()]) {
      const { init } = body;
      if (init?.alive !== true || !isIn(body.cgroup, cgroup)) continue;
      init.frozen = false;
      this.#signalInit(body, init, SIGKILL);
    }
  }

  procs(cgroup: string): number[] {
    return [...this.processes.values()]
      .filter((process) => process.alive && isIn(process.cgroup, cgroup))
      .map(({ pid }) => pid);
  }

  #die(body: Body, init: Process, wait: WaitStatus): void {
    init.alive = false;
    init.wait = wait;
    body.state = 'stopped';
    const truth = this.truthOf(body.id);
    truth.diedAtMs ??= this.#schedule.nowMs;
    truth.code ??= wait.kind === 'exited' ? wait.code : 128 + wait.signal;
    const { monitor } = body;
    if (monitor?.alive === true && monitor.stopped) init.zombie = true;
    else this.#reap(init);
    const { kernelTells } = this.#temperOf(body.id);
    for (const watcher of [...this.#watchers]) {
      if (watcher.key.pid !== init.pid || watcher.key.startTimeTicks !== init.startTimeTicks) continue;
      this.#tell(watcher, init.zombie || !kernelTells ? undefined : wait);
    }
    this.#writeExitFile(body, init, wait);
  }

  /** The pid is free, and may be somebody else's at once. */
  #reap(process: Process): void {
    process.zombie = false;
    if (this.processes.get(process.pid) === process) this.processes.delete(process.pid);
    if (process.kind !== 'stranger' && this.#random.chance(0.2)) this.spawn('stranger', '/others', process.pid);
  }

  #writeExitFile(body: Body, init: Process, wait: WaitStatus): void {
    const { monitor } = body;
    const { fileAfterMs } = this.#temperOf(body.id);
    const write = (): void => {
      if (monitor?.alive !== true || monitor.stopped || this.bodies.get(body.id) !== body) return;
      if (init.zombie) this.#reap(init);
      const code = wait.kind === 'exited' ? wait.code : 128 + wait.signal;
      this.exitFiles.set(body.id, { code, writtenAtWallMs: this.#schedule.wallMs() });
      this.truthOf(body.id).fileSinceMs = this.#schedule.nowMs;
      this.onExitFile(body.id);
      this.#endMonitor(monitor);
    };
    this.#schedule.after(fileAfterMs, write);
  }

  #endMonitor(monitor: Process): void {
    monitor.alive = false;
    this.#reap(monitor);
    // Its container's first process is init's child now, which reaps it.
    for (const { monitor: one, init } of this.bodies.values()) {
      if (one === monitor && init?.zombie === true) this.#reap(init);
    }
  }

  stopMonitor(id: string): void {
    const monitor = this.bodies.get(id)?.monitor;
    if (monitor?.alive === true) monitor.stopped = true;
  }

  killMonitor(id: string): void {
    const monitor = this.bodies.get(id)?.monitor;
    if (monitor?.alive === true) this.#endMonitor(monitor);
  }

  continueMonitor(id: string): void {
    const body = this.bodies.get(id);
    if (body?.monitor?.alive !== true || !body.monitor.stopped) return;
    body.monitor.stopped = false;
    if (body.init?.alive === false && body.init.wait !== undefined)
      this.#writeExitFile(body, body.init, body.init.wait);
  }

  /** Throws when there are no descriptors left. */
  watch(life: Life, key: ProcessKey, onExit: (status: WaitStatus | undefined) => void): Disposable {
    const process = this.processes.get(key.pid);
    const body = process === undefined ? undefined : this.#bodyOf(process);
    if (body !== undefined && !this.#temperOf(body.id).watchable) throw new Error('EMFILE: too many open files');
    const watcher: Watcher = { life, key, onExit };
    this.#watchers.add(watcher);
    if (!this.isAlive(key)) this.#tell(watcher, undefined);
    return { [Symbol.dispose]: () => this.#watchers.delete(watcher) };
  }

  #tell(watcher: Watcher, status: WaitStatus | undefined): void {
    void this.#schedule.ask(watcher.life, { what: 'pidfd', subject: '', withinMs: 20 }, () => {
      if (this.#watchers.delete(watcher)) watcher.onExit(status);
    });
  }

  /** The OCI runtime forgets a container. */
  forget(id: string): void {
    const body = this.bodies.get(id);
    if (body === undefined) return;
    if (body.init?.alive === true) throw new Error(`container ${id} is running`);
    if (body.monitor?.alive === true) throw new Error(`the monitor of ${id} is running`);
    if (body.init?.zombie === true) this.#reap(body.init);
    this.bodies.delete(id);
  }

  override removeCgroup(path: string): void {
    if (this.procs(path).length > 0) throw new Error(`${path} has processes`);
    super.removeCgroup(path);
  }

  /** The power goes: what is on disk stays. */
  override reboot(volatileFolder: string): void {
    super.reboot(volatileFolder);
    this.boot++;
    for (const body of this.bodies.values()) {
      // Killed by nobody, seen by nobody.
      this.truthOf(body.id).diedAtMs ??= this.#schedule.nowMs;
    }
    this.bodies.clear();
    this.processes.clear();
    this.#watchers.clear();
  }

  #bodyOf(process: Process): Body | undefined {
    return [...this.bodies.values()].find(({ init }) => init === process);
  }
}

function rawStatus(wait: WaitStatus): number {
  return wait.kind === 'exited' ? wait.code << 8 : wait.signal;
}
