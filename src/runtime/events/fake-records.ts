import { ContainerConfig, PodSandboxConfig } from '../../cri/gen/api.ts';
import { FakeClock } from '../../lib/fake-clock.ts';
import { silentLog } from '../../lib/log.ts';
import type { Database } from '../../lib/store/store-thread.ts';
import { newContainerStatus, transition, type ContainerEvent as Change } from '../container/state.ts';
import { newSandboxStatus, transition as sandboxTransition } from '../sandbox/state.ts';
import { CONTAINER_CODEC, type ContainerStore } from '../store/container-record.ts';
import { RecordStore } from '../store/record-store.ts';
import { SANDBOX_CODEC, type SandboxStore } from '../store/sandbox-record.ts';
import type { Task } from '../task/task.ts';
import { ContainerEvents } from './container-events.ts';

const DISK: Database = {
  write: () => Promise.resolve(),
  read: () => Promise.resolve([]),
  close: () => Promise.resolve(),
};

export const EXITED: Change = { kind: 'exited', exit: { kind: 'exited', code: 3, finishedAtWallMs: 50 } };

/** For tests: the two stores without a disk and the events read off them; sandboxes and containers that are only written down. */
export class FakeRecords {
  readonly clock: FakeClock;
  readonly sandboxes: SandboxStore;
  readonly containers: ContainerStore;
  readonly events: ContainerEvents;

  private constructor(clock: FakeClock, sandboxes: SandboxStore, containers: ContainerStore, kept?: number) {
    this.clock = clock;
    this.sandboxes = sandboxes;
    this.containers = containers;
    this.events = new ContainerEvents({ sandboxes, containers, clock }, kept);
  }

  /** `kept`: how many events a reader may be behind. */
  static async open(kept?: number): Promise<FakeRecords> {
    const clock = new FakeClock();
    const deps = { db: DISK, clock, log: silentLog };
    const sandboxes = await RecordStore.open(deps, SANDBOX_CODEC);
    return new FakeRecords(clock, sandboxes, await RecordStore.open(deps, CONTAINER_CODEC), kept);
  }

  /** A sandbox that is READY. */
  async sandbox(id: string, labels: Readonly<Record<string, string>> = {}): Promise<void> {
    const metadata = { name: 'web', namespace: 'default', uid: `uid-${id}`, attempt: 0 };
    const config = PodSandboxConfig.fromPartial({ metadata, labels });
    const namespaces = { network: 'pod', uts: 'pod', ipc: 'pod', pid: 'own' } as const;
    const facts = { name: id, runtimeHandler: '', namespaces, hostname: 'web', cgroupPath: '/g' };
    await this.sandboxes.insert({ id, config, facts }, newSandboxStatus(1, 'b'));
    await this.sandboxes.update(id, (status) => sandboxTransition(status, { kind: 'connected', ips: ['10.0.0.2'] }));
    await this.sandboxes.update(id, (status) => sandboxTransition(status, { kind: 'ready' }));
  }

  /** A container that is being created. */
  async container(id: string, sandboxId: string): Promise<void> {
    const config = ContainerConfig.fromPartial({ metadata: { name: id, attempt: 0 } });
    const image = { id: 'sha256:1', shown: 'app:1', ref: 'sha256:1', diffIds: [] };
    const facts = { name: id, sandboxId, image, stopSignal: 15, cgroupPath: '/g/c' };
    await this.containers.insert({ id, config, facts }, newContainerStatus(1));
  }

  async change(id: string, ...steps: readonly Change[]): Promise<void> {
    for (const step of steps) await this.containers.update(id, (status) => transition(status, step));
  }

  /** A whole life: four events. */
  async live(id: string, sandboxId: string): Promise<void> {
    await this.container(id, sandboxId);
    await this.change(id, { kind: 'created' }, ...startSteps(id), EXITED);
    await this.containers.remove(id);
  }
}

/** From created to running. */
export function startSteps(id: string): Change[] {
  return [
    { kind: 'start-intended', intent: { phase: 'preparing', bootId: 'b', sinceWallMs: 10 } },
    { kind: 'task-made', task: task(id), user: { uid: 0, gid: 0, additionalGids: [] } },
    { kind: 'task-released' },
    { kind: 'started', startedAtWallMs: 20 },
  ];
}

function task(id: string): Task {
  const runtime = { name: 'crun', path: '/usr/bin/crun', root: '/r' } as const;
  const processes = { pid: 100, startTimeTicks: 5, conmonPid: 99, conmonStartTimeTicks: 4 };
  return { id, ...processes, bundleDir: '/b', cgroupPath: '/g', terminal: false, runtime };
}
