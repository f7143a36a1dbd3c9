import { randomBytes } from 'node:crypto';
import { mkdir, mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import assert from 'node:assert/strict';
import type { Op } from '../../../src/lib/abort.ts';
import { systemClock } from '../../../src/lib/clock.ts';
import { silentLog } from '../../../src/lib/log.ts';
import { Cgroups, detectCgroups } from '../../../src/linux/cgroups.ts';
import { PacketSockets } from '../../../src/linux/packet-sockets.ts';
import { PidfdWatcher } from '../../../src/linux/pidfd-watcher.ts';
import { SafeRemove } from '../../../src/linux/safe-remove.ts';
import { treeRemover } from '../../../src/runtime/linux-parts.ts';
import { buildContainerSpec } from '../../../src/runtime/oci/build-container-spec.ts';
import type { ContainerSpecInput, HostFacts } from '../../../src/runtime/oci/container-spec-input.ts';
import { gatherHostFacts } from '../../../src/runtime/oci/host-facts.ts';
import { OciRuntime } from '../../../src/runtime/oci/oci-runtime.ts';
import { RuntimePaths } from '../../../src/runtime/store/paths.ts';
import type { ExitStatus } from '../../../src/runtime/task/exit-status.ts';
import type { ExitFolders } from '../../../src/runtime/task/exit-file.ts';
import { exitFolder } from '../../../src/runtime/task/exit-folder.ts';
import { ExitWatcher } from '../../../src/runtime/task/exit-watcher.ts';
import { linuxProcessTable, type ProcessTable } from '../../../src/runtime/task/process-table.ts';
import { linuxTaskCgroups } from '../../../src/runtime/task/task-cgroups.ts';
import { TaskService } from '../../../src/runtime/task/task-service.ts';
import type { CreateTaskRequest, Task } from '../../../src/runtime/task/task.ts';
import { makeBusyboxRootfs } from '../../../scripts/busybox-rootfs.ts';

export const needsRoot = { skip: process.getuid?.() !== 0 && 'needs root' };

export const op: Op = { signal: new AbortController().signal, log: silentLog };

export interface RunOptions {
  readonly id?: string;
  readonly argv: readonly string[];
  readonly spec?: Partial<ContainerSpecInput>;
  readonly request?: Partial<CreateTaskRequest>;
}

/** Real runc (or what GANTRY_TEST_OCI_RUNTIME names) and conmon in a folder, a cgroup and a runtime root of its own. */
export class TaskFixture implements AsyncDisposable {
  readonly dir: string;
  readonly cgroup: string;
  readonly cgroups: Cgroups;
  readonly processes: ProcessTable;
  readonly service: TaskService;
  readonly watcher: ExitWatcher;
  readonly exits = new Map<string, ExitStatus[]>();
  readonly corrections = new Map<string, ExitStatus>();
  readonly tasks: Task[] = [];
  readonly runtime: OciRuntime;
  /** What a test is about to send a SIGKILL. */
  readonly killed = new Set<string>();
  readonly exitFolders: ExitFolders;
  readonly packets = new PacketSockets();
  readonly #pidfds = new PidfdWatcher();
  readonly #remover = new SafeRemove({ clock: systemClock });
  // The clock's timers keep no process alive.
  readonly #keepAlive = setInterval(() => undefined, 1_000);
  readonly host: HostFacts;

  private constructor(dir: string, cgroup: string, cgroups: Cgroups, host: HostFacts, runtimePath: string) {
    this.dir = dir;
    this.cgroup = cgroup;
    this.cgroups = cgroups;
    this.host = host;
    this.exitFolders = { written: join(dir, 'exits'), kept: join(dir, 'kept-exits') };
    this.processes = linuxProcessTable(this.#pidfds);
    this.runtime = new OciRuntime({ name: 'runc', path: runtimePath, root: join(dir, 'oci') });
    this.service = this.#makeService();
    this.watcher = new ExitWatcher({
      clock: systemClock,
      log: silentLog,
      processes: this.processes,
      exits: exitFolder(this.exitFolders),
      oomKillCount: (path) => cgroups.oomKillCount(path),
      onExit: (id, status) => this.exits.set(id, [...(this.exits.get(id) ?? []), status]),
      onCorrection: (id, status) => this.corrections.set(id, status),
    });
  }

  static async make(): Promise<TaskFixture> {
    const dir = await mkdtemp(join(tmpdir(), 'gt-'));
    const cgroup = `/gantry-task-test-${randomBytes(4).toString('hex')}`;
    const host = await detectCgroups();
    const cgroups = new Cgroups({ clock: systemClock, host });
    await mkdir(join(dir, 'rootfs'));
    await makeBusyboxRootfs(join(dir, 'rootfs'));
    await mkdir(join(dir, 'rootfs/data'));
    await mkdir(join(dir, 'logs'));
    await cgroups.ensureParent(cgroup);
    await cgroups.create(`${cgroup}/monitors`);
    const path = process.env['GANTRY_TEST_OCI_RUNTIME'] ?? (await runtimeOf(host.mode));
    const fixture = new TaskFixture(dir, cgroup, cgroups, await gatherHostFacts(host), path);
    await fixture.watcher.start();
    return fixture;
  }

  #makeService(): TaskService {
    return new TaskService({
      clock: systemClock,
      processes: this.processes,
      cgroups: linuxTaskCgroups(this.cgroups),
      conmon: '/usr/bin/conmon',
      monitorCgroup: `${this.cgroup}/monitors`,
      cp: '/bin/cp',
      exits: this.exitFolders,
      paths: new RuntimePaths(this.dir, this.dir),
      trees: treeRemover(this.#remover),
      packets: this.packets,
    });
  }

  logOf(id: string): string {
    return join(this.dir, 'logs', `${id}.log`);
  }

  bundleOf(id: string): string {
    return join(this.dir, 'bundles', id);
  }

  specInput(id: string, options: RunOptions): ContainerSpecInput {
    return {
      host: this.host,
      rootfs: join(this.dir, 'rootfs'),
      readOnlyRootfs: true,
      image: { env: ['PATH=/bin'] },
      command: options.argv,
      user: { uid: 0, gid: 0, additionalGids: [] },
      namespaces: { pid: { kind: 'new' }, ipc: { kind: 'new' }, uts: { kind: 'new' }, network: { kind: 'new' } },
      cgroupPath: `${this.cgroup}/${id}`,
      ...options.spec,
    };
  }

  async request(options: RunOptions): Promise<CreateTaskRequest> {
    const id = options.id ?? randomBytes(32).toString('hex');
    const input = this.specInput(id, options);
    await mkdir(this.bundleOf(id), { recursive: true });
    return {
      id,
      bundleDir: this.bundleOf(id),
      logPath: this.logOf(id),
      terminal: false,
      stdin: false,
      stdinOnce: false,
      cgroupPath: input.cgroupPath,
      runtime: this.runtime.location,
      oci: buildContainerSpec(input),
      ...options.request,
    };
  }

  async create(options: RunOptions): Promise<Task> {
    return await this.createRequest(await this.request(options));
  }

  async createRequest(request: CreateTaskRequest): Promise<Task> {
    const task = await this.service.create(op, request);
    this.tasks.push(task);
    return task;
  }

  arm(task: Task): Disposable {
    return this.watcher.arm({ ...task, weSentKill: () => this.killed.has(task.id) });
  }

  /** Creates, arms and starts. */
  async run(options: RunOptions): Promise<Task> {
    const task = await this.create(options);
    this.arm(task);
    await this.service.start(op, task);
    return task;
  }

  shell(script: string, more: Omit<RunOptions, 'argv'> = {}): Promise<Task> {
    return this.run({ ...more, argv: ['sh', '-c', script] });
  }

  async exit(id: string): Promise<ExitStatus> {
    return await until('an exit', () => this.exits.get(id)?.[0]);
  }

  /** A zombie is gone: it only waits for its parent. */
  async isGone(pid: number): Promise<boolean> {
    const view = await this.processes.view(pid);
    return view === undefined || view.state === 'Z';
  }

  /** The log's own words, without time, stream and tag. */
  async log(id: string): Promise<string> {
    const text = await readFile(this.logOf(id), 'utf8');
    return text
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => /^\S+ (?:stdout|stderr) ([FP]) (.*)$/s.exec(line))
      .map((parts) => `${parts?.[2] ?? ''}${parts?.[1] === 'F' ? '\n' : ''}`)
      .join('');
  }

  /** Waits until this command runs in the container's cgroup or below. */
  async running(task: Task, command: string): Promise<number> {
    return await until(`${command} to run`, async () => {
      for (const pid of await this.cgroups.procs(task.cgroupPath, true)) {
        const cmdline = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '');
        if (cmdline === `${command.replaceAll(' ', '\0')}\0`) return pid;
      }
      return undefined;
    });
  }

  /** Everything away, and a look whether it is so. */
  async [Symbol.asyncDispose](): Promise<void> {
    for (const task of this.tasks) await this.service.delete(op, task, { force: true });
    await this.watcher.close();
    this.packets.close();
    this.#pidfds.close();
    this.#remover.close();
    try {
      await this.#leakCheck();
    } finally {
      await this.cgroups.killAll(op, this.cgroup);
      await this.cgroups.remove(op, this.cgroup);
      await rm(this.dir, { recursive: true });
      clearInterval(this.#keepAlive);
    }
  }

  async #leakCheck(): Promise<void> {
    await this.cgroups.remove(op, `${this.cgroup}/monitors`);
    for (const task of this.tasks) assert.equal(await this.cgroups.exists(task.cgroupPath), false, task.cgroupPath);
    assert.deepEqual(await this.cgroups.procs(this.cgroup, true), [], 'processes in the test cgroup');
    assert.deepEqual(await processesNaming(this.dir), [], 'processes that name the test folder');
    // An exec's folder goes after its answer.
    await until('the folders of execs to go', async () => {
      return (await readdir(join(this.dir, 'exec')).catch(() => [])).length === 0 || undefined;
    });
    for (const name of ['socks', 'oci']) {
      const left = await readdir(join(this.dir, name)).catch(() => []);
      // crun keeps compiled seccomp profiles there, for all containers.
      assert.deepEqual(
        left.filter((file) => name !== 'oci' || file !== '.cache'),
        [],
        `left in ${name}`,
      );
    }
    for (const id of await readdir(join(this.dir, 'bundles')).catch(() => [])) {
      assert.deepEqual(await readdir(this.bundleOf(id)), [], `left in the bundle of ${id}`);
    }
  }
}

/** crun refuses a hybrid layout. */
async function runtimeOf(mode: string): Promise<string> {
  for (const path of mode === 'v2'
    ? ['/usr/bin/crun', '/usr/sbin/runc', '/usr/bin/runc']
    : ['/usr/sbin/runc', '/usr/bin/runc']) {
    if ((await readFile(path).catch(() => undefined)) !== undefined) return path;
  }
  throw new Error('no OCI runtime is installed');
}

/** Looks until there is something. No upper bound on purpose tighter than a slow machine needs. */
export async function until<T>(what: string, look: () => T | undefined | Promise<T | undefined>): Promise<T> {
  for (let round = 0; round < 6_000; round++) {
    const found = await look();
    if (found !== undefined) return found;
    await systemClock.sleep(10);
  }
  throw new Error(`waited in vain for ${what}`);
}

async function processesNaming(text: string): Promise<string[]> {
  const found: string[] = [];
  for (const pid of await readdir('/proc')) {
    if (!/^\d+$/.test(pid) || Number(pid) === process.pid) continue;
    const cmdline = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '');
    if (cmdline.includes(text)) found.push(`${pid} ${cmdline.replaceAll('\0', ' ')}`);
  }
  return found;
}
