import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { MASKED_PATHS, namespaceEntry, READONLY_PATHS } from './build-container-spec.ts';
import { cgroupAnnotations, cgroupsPath, taskLimit } from './cgroups-path.ts';
import type { HostFacts, NamespaceChoice } from './container-spec-input.ts';
import { clampOomScoreAdj, containerResources } from './resources.ts';
import { OCI_VERSION, type OciSeccomp, type OciSpec } from './spec.ts';

export interface InfraSpecInput {
  readonly host: HostFacts;
  /** A folder that {@link prepareInfraRootfs} made. */
  readonly rootfs: string;
  /** Path of catatonit on the host. */
  readonly catatonit: string;
  /** The pod's, pinned. The PID namespace is always a new one: holding it is what the process is for. */
  readonly namespaces: Readonly<Record<'ipc' | 'uts' | 'network', NamespaceChoice>>;
  /** Pin of the pod's user namespace, where it has one. */
  readonly userNamespace?: string;
  readonly cgroupPath: string;
  readonly systemdCgroup?: boolean;
  readonly seccomp?: OciSeccomp;
  readonly annotations?: Readonly<Record<string, string>>;
}

const INIT_PATH = '/catatonit';
/** Nobody, as the field numbers him: the process needs no right but to reap. */
const NOBODY = 65535;
/** Guaranteed pods' own value: the last to be killed, because the whole pod dies with it. */
const OOM_SCORE_ADJ = -998;

/** The process that holds a pod's shared PID namespace and reaps in it. Pure. */
export function buildInfraSpec(input: InfraSpecInput): OciSpec {
  const oomScoreAdj = clampOomScoreAdj(input.host, OOM_SCORE_ADJ);
  const none = { bounding: [], effective: [], permitted: [], inheritable: [], ambient: [] };
  return {
    ociVersion: OCI_VERSION,
    process: {
      terminal: false,
      user: { uid: NOBODY, gid: NOBODY, additionalGids: [NOBODY] },
      args: [INIT_PATH, '-P'],
      env: ['PATH=/'],
      cwd: '/',
      capabilities: none,
      noNewPrivileges: true,
      ...(oomScoreAdj === undefined ? {} : { oomScoreAdj }),
    },
    root: { path: input.rootfs, readonly: true },
    mounts: [
      { destination: '/proc', type: 'proc', source: 'proc', options: ['nosuid', 'noexec', 'nodev'] },
      {
        destination: '/dev',
        type: 'tmpfs',
        source: 'tmpfs',
        options: ['nosuid', 'strictatime', 'mode=755', 'size=64k'],
      },
      { destination: INIT_PATH, type: 'bind', source: input.catatonit, options: ['bind', 'rprivate', 'ro'] },
    ],
    annotations: { ...input.annotations, ...cgroupAnnotations(input) },
    linux: {
      namespaces: [
        { type: 'pid' },
        { type: 'mount' },
        ...namespaceEntry('ipc', input.namespaces.ipc),
        ...namespaceEntry('uts', input.namespaces.uts),
        ...namespaceEntry('network', input.namespaces.network),
        ...(input.userNamespace === undefined
          ? []
          : namespaceEntry('user', { kind: 'path', path: input.userNamespace })),
      ],
      cgroupsPath: cgroupsPath(input),
      resources: { ...taskLimit(input), ...containerResources(input.host, {}, [{ allow: false, access: 'rwm' }]) },
      ...(input.seccomp === undefined ? {} : { seccomp: input.seccomp }),
      maskedPaths: MASKED_PATHS,
      readonlyPaths: READONLY_PATHS,
    },
  };
}

/** Makes the empty root file system, if need be: one serves every pod, as it is mounted read-only. */
export async function prepareInfraRootfs(rootfs: string): Promise<void> {
  for (const name of ['proc', 'dev', 'sys']) await mkdir(join(rootfs, name), { recursive: true, mode: 0o755 });
  await writeFile(join(rootfs, INIT_PATH), '', { flag: 'a', mode: 0o755 });
}
