import type { Clock } from '../../src/lib/clock.ts';
import { unavailable } from '../../src/lib/errors.ts';
import type { Specs } from '../../src/runtime/container/spec-builder.ts';
import type { RuntimeParts } from '../../src/runtime/assemble-runtime.ts';
import type { FoundImage } from '../../src/runtime/parts.ts';
import type { RuntimePaths } from '../../src/runtime/store/paths.ts';
import { NO_FEATURES } from '../../src/runtime/oci/runtime-features.ts';
import type { Handlers } from '../../src/runtime/oci/runtime-handlers.ts';
import type { OciSpec } from '../../src/runtime/oci/spec.ts';
import type { InfraTasks } from '../../src/runtime/sandbox/infra-task.ts';
import type { Life, Schedule } from './schedule.ts';
import { SIM_RUNTIME } from './simulated-tasks.ts';
import type { World } from './world.ts';

export interface PartsDeps {
  readonly world: World;
  readonly schedule: Schedule;
  readonly life: Life;
  readonly clock: Clock;
  readonly paths: RuntimePaths;
}

type OutsideParts = Pick<
  RuntimeParts,
  | 'images'
  | 'snapshots'
  | 'networks'
  | 'namespaces'
  | 'podSockets'
  | 'mounts'
  | 'cgroups'
  | 'folders'
  | 'trees'
  | 'processes'
  | 'exitSources'
  | 'specs'
  | 'handlers'
  | 'infra'
>;

const ID = /[0-9a-f]{64}/g;

/** The last id in a path: a container's folder or cgroup is its own, not its sandbox's. */
function ownerOf(path: string): string {
  return path.match(ID)?.at(-1) ?? '';
}

/** Everything else that the runtime reaches for outside its process, over the simulated machine. */
export function simulatedParts(deps: PartsDeps): OutsideParts {
  const { world, schedule, life } = deps;
  const ask = <T>(what: string, subject: string, signal: AbortSignal | undefined, effect: () => T): Promise<T> =>
    schedule.ask(life, signal === undefined ? { what, subject } : { what, subject, signal }, effect);
  return {
    images: { find: () => IMAGE },
    specs: simulatedSpecs(deps),
    infra: simulatedInfra(),
    handlers: simulatedHandlers(),
    snapshots: {
      prepare: (op, id) => ask('snapshot', id, op.signal, () => void world.snapshots.add(id)),
      mount: (op, id, target) =>
        ask('mount', id, op.signal, () => {
          if (!world.snapshots.has(id)) throw unavailable(`no snapshot ${id}`);
          world.mounts.add(target);
        }),
      unmount: (op, target) => ask('unmount', ownerOf(target), op.signal, () => void world.mounts.delete(target)),
      saveChanges: () => Promise.reject(unavailable('nothing is archived here')),
      pack: () => Promise.reject(unavailable('nothing is archived here')),
      remove: (op, id) => ask('remove snapshot', id, op.signal, () => void world.snapshots.delete(id)),
    },
    networks: {
      plan: () => Promise.resolve({}),
      planAgain: (_op, { sandboxId }) => Promise.resolve({ id: sandboxId }),
      connect: () => Promise.reject(unavailable('no pod is connected here')),
      disconnect: (op, plan) =>
        ask('network del', String(plan['id']), op.signal, () => void world.addresses.delete(String(plan['id']))),
      status: () => Promise.resolve({ ready: true, reason: '', message: '' }),
    },
    podSockets: { open: () => Promise.reject(unavailable('nothing is connected here')) },
    namespaces: {
      pin: () => Promise.reject(unavailable('nothing is pinned here')),
      unpin: (op, path) => ask('unpin', ownerOf(path), op.signal, () => void world.pins.delete(path)),
      inodeOf: (path) => ask('look', '', undefined, () => world.pins.get(path)),
    },
    mounts: {
      tmpfs: () => Promise.reject(unavailable('nothing is mounted here')),
      unmount: (op, target) => ask('unmount', ownerOf(target), op.signal, () => void world.mounts.delete(target)),
    },
    cgroups: {
      exists: (path) => ask('look', '', undefined, () => world.cgroups.has(path)),
      create: (op, path) => ask('cgroup', ownerOf(path), op.signal, () => void world.cgroups.add(path)),
      procs: (path) => ask('look', '', undefined, () => world.procs(path)),
      killAll: (op, path) => ask('kill all', ownerOf(path), op.signal, () => world.killAll(path)),
      thaw: (op, path) => ask('thaw', ownerOf(path), op.signal, () => world.thaw(path)),
      remove: (op, path) => ask('delete: cgroup', ownerOf(path), op.signal, () => world.removeCgroup(path)),
      children: (path) => ask('look', '', undefined, () => world.children(path)),
      hostSets: () => Promise.resolve({ cpus: '0', mems: '0' }),
      planLimits: () => Promise.resolve([]),
      applyLimits: () => Promise.resolve(),
      takeLimitsBack: () => Promise.resolve(),
    },
    folders: {
      make: (path) => ask('folder', ownerOf(path), undefined, () => void world.folders.add(path)),
      names: (path) =>
        ask('list folder', '', undefined, () =>
          path === deps.paths.exits.kept ? [...world.exitFiles.keys()] : world.names(path),
        ),
    },
    trees: {
      remove: (op, _root, path) => ask('remove folder', ownerOf(path), op.signal, () => world.removeFolder(path)),
    },
    processes: {
      alive: (pid, startTimeTicks) =>
        ask('alive', subjectOf(world, pid), undefined, () => world.isAlive({ pid, startTimeTicks })),
      describe: (pids) => ask('look', '', undefined, () => `pid ${pids.join(', ')}`),
    },
    exitSources: {
      processes: {
        view: (pid) => ask('view', subjectOf(world, pid), undefined, () => world.view(pid)),
        signal: (key, signal) => ask('signal', '', undefined, () => world.signal(key, signal)),
        watch: (key, onExit) => world.watch(life, key, onExit),
      },
      exits: {
        read: (id) => ask('read exit', id, undefined, () => world.exitFiles.get(id)),
        readKept: (id) => ask('read kept exit', id, undefined, () => world.exitFiles.get(id)),
        ensure: () => ask('look', '', undefined, () => true),
        watch: (onName) => {
          const tell = (name: string): void => {
            void schedule.ask(life, { what: 'exit file', subject: '', withinMs: 20 }, () => onName(name));
          };
          world.onExitFile = tell;
          return {
            [Symbol.dispose]: () => {
              if (world.onExitFile === tell) world.onExitFile = () => undefined;
            },
          };
        },
      },
    },
  };
}

function subjectOf(world: World, pid: number): string {
  for (const { id, init, monitor } of world.bodies.values()) if (init?.pid === pid || monitor?.pid === pid) return id;
  return '';
}

const IMAGE: FoundImage = { id: 'image', repoTags: ['image:1'], repoDigests: [], diffIds: [] };

function tracesOf(id: string, bundleDir: string, cgroupPath: string) {
  return { id, bundleDir, cgroupPath, runtime: SIM_RUNTIME };
}

function simulatedSpecs({ paths }: PartsDeps): Specs {
  return {
    check: () => Promise.resolve([]),
    checkSandbox: () => undefined,
    limits: () => ({}),
    execLimits: () => ({}),
    task: (_op, { meta: { id, facts } }) =>
      Promise.resolve({
        request: {
          id,
          bundleDir: paths.container(id).bundle,
          terminal: false,
          stdin: false,
          stdinOnce: false,
          cgroupPath: facts.cgroupPath,
          runtime: SIM_RUNTIME,
          // Nobody reads it here.
          oci: {} as OciSpec,
        },
        user: { uid: 0, gid: 0, additionalGids: [] },
      }),
    taskTraces: ({ id, facts }) => tracesOf(id, paths.container(id).bundle, facts.cgroupPath),
  };
}

function simulatedHandlers(): Handlers {
  const only = { runtime: SIM_RUNTIME, version: 'simulated', features: NO_FEATURES };
  return {
    unready: undefined,
    default: only,
    working: [only],
    refused: [],
    choose: () => only,
    featuresOf: () => NO_FEATURES,
  };
}

function simulatedInfra(): InfraTasks {
  return {
    taskTraces: ({ id, facts }, { infraBundle }) => tracesOf(id, infraBundle, `${facts.cgroupPath}/${id}`),
    task: () => Promise.reject(unavailable('no pod shares its PID namespace here')),
  };
}
