import { PodSandboxConfig } from '../../src/cri/gen/api.ts';
import { Ledger } from '../../src/lib/ledger.ts';
import { silentLog } from '../../src/lib/log.ts';
import type { Database } from '../../src/lib/store/store-thread.ts';
import { newSandboxStatus, transition } from '../../src/runtime/sandbox/state.ts';
import { sandboxOwner } from '../../src/runtime/store/owners.ts';
import { RuntimePaths } from '../../src/runtime/store/paths.ts';
import { RecordStore } from '../../src/runtime/store/record-store.ts';
import { SANDBOX_CODEC } from '../../src/runtime/store/sandbox-record.ts';
import { SIM_SETTINGS } from './daemon.ts';
import type { Schedule } from './schedule.ts';
import type { SimDisk } from './sim-disk.ts';
import type { World } from './world.ts';

/** A sandbox that is READY, as RunPodSandbox leaves it. */
export async function makeSandbox(
  world: World,
  schedule: Schedule,
  durableDisk: SimDisk,
  volatileDisk: SimDisk,
  id: string,
): Promise<void> {
  const clock = schedule.clockOf({ number: 0, dead: false });
  const at = (disk: SimDisk): Database => ({
    write: (...statements) => {
      disk.write(...statements);
      return Promise.resolve();
    },
    read: <Row>(sql: string) => Promise.resolve(disk.read<Row>(sql)),
    close: () => Promise.resolve(),
  });
  const paths = new RuntimePaths(SIM_SETTINGS.root, SIM_SETTINGS.state).sandbox(id);
  const cgroupPath = `${SIM_SETTINGS.cgroupParent}/pod${id}`;
  const durable = at(durableDisk);
  const sandboxes = await RecordStore.open({ db: durable, clock, log: silentLog }, SANDBOX_CODEC);
  const ledger = await Ledger.open(clock, durable, at(volatileDisk));
  const owner = sandboxOwner(id);
  const pins = [{ kind: 'ipc' as const, path: paths.ipc, inode: '1' }];
  await ledger.intend(
    owner,
    { kind: 'cgroup', key: cgroupPath, volatile: true },
    { kind: 'directory', key: paths.dir, data: { root: `${SIM_SETTINGS.state}/sandboxes` }, volatile: false },
    { kind: 'tmpfs', key: paths.shm, volatile: true },
    { kind: 'pin', key: paths.ipc, volatile: true },
    { kind: 'cni', key: id, data: { plan: { id } }, volatile: false },
  );
  const status = [{ kind: 'pinned' as const, pins }, { kind: 'ready' as const }].reduce(
    transition,
    newSandboxStatus(clock.wallMs(), world.bootId),
  );
  const metadata = { name: `pod-${id.slice(0, 1)}`, namespace: 'default', uid: `uid-${id.slice(0, 1)}`, attempt: 0 };
  await sandboxes.insert(
    {
      id,
      config: PodSandboxConfig.fromPartial({ metadata }),
      facts: {
        name: `default/${metadata.name}/0`,
        runtimeHandler: '',
        namespaces: { network: 'host', uts: 'host', ipc: 'pod', pid: 'own' },
        hostname: 'sim',
        cgroupPath,
      },
    },
    status,
  );
  world.cgroups.add(cgroupPath);
  world.folders.add(paths.dir);
  world.mounts.add(paths.shm);
  world.pins.set(paths.ipc, '1');
  world.addresses.add(id);
}
