import { mkdir } from 'node:fs/promises';
import { failedPrecondition } from '../../lib/errors.ts';
import { taskCgroup, type CgroupSettings } from '../cgroup-layout.ts';
import { buildInfraSpec } from '../oci/build-infra-spec.ts';
import type { HostFacts, NamespaceChoice } from '../oci/container-spec-input.ts';
import type { OciRuntimeLocation } from '../oci/oci-runtime.ts';
import type { SeccompProfiles } from '../oci/seccomp.ts';
import type { RuntimePaths, SandboxPaths } from '../store/paths.ts';
import { cgroupDriverOf, type SandboxMeta } from '../store/sandbox-record.ts';
import type { TaskRemains } from '../task/task-service.ts';
import type { CreateTaskRequest } from '../task/task.ts';

export interface InfraTaskDeps {
  readonly paths: Pick<RuntimePaths, 'infraRootfs'>;
  readonly settings: CgroupSettings;
  readonly host: HostFacts;
  /** For a sandbox of a time before each had its own in its record. */
  fallback(): OciRuntimeLocation;
  readonly seccomp: Pick<SeccompProfiles, 'forCapabilities'>;
  /** Path of catatonit; absent: no pod can share its PID namespace. */
  readonly catatonit?: string;
}

/** What the runtime's verbs call. */
export type InfraTasks = Pick<InfraTaskBuilder, keyof InfraTaskBuilder>;

/** The process that holds a pod's PID namespace, as a task. */
export class InfraTaskBuilder {
  readonly #deps: InfraTaskDeps;

  constructor(deps: InfraTaskDeps) {
    this.#deps = deps;
  }

  /** What will be left of the task's creation if it is cut off: enough to delete it. */
  taskTraces(meta: SandboxMeta, paths: SandboxPaths): TaskRemains & Record<string, unknown> {
    return {
      id: meta.id,
      bundleDir: paths.infraBundle,
      cgroupPath: taskCgroup(meta.facts.cgroupPath, cgroupDriverOf(meta.facts), this.#deps.settings, meta.id),
      runtime: meta.facts.runtime ?? this.#deps.fallback(),
    };
  }

  /** Makes its bundle folder. Throws FailedPrecondition where there is no program for it. */
  async task(meta: SandboxMeta, paths: SandboxPaths): Promise<CreateTaskRequest> {
    const { catatonit } = this.#deps;
    if (catatonit === undefined) {
      throw failedPrecondition('a pod that shares its PID namespace needs catatonit: install that package');
    }
    const { bundleDir, cgroupPath, runtime } = this.taskTraces(meta, paths);
    const { netnsPath, namespaces } = meta.facts;
    const pinned = (mode: string, path: string): NamespaceChoice =>
      mode === 'pod' ? { kind: 'path', path } : { kind: mode === 'own' ? 'new' : 'host' };
    await mkdir(bundleDir, { recursive: true, mode: 0o700 });
    const oci = buildInfraSpec({
      host: this.#deps.host,
      rootfs: this.#deps.paths.infraRootfs,
      catatonit,
      namespaces: {
        network: pinned(namespaces.network, netnsPath ?? ''),
        ipc: pinned(namespaces.ipc, paths.ipc),
        uts: pinned(namespaces.uts, paths.uts),
      },
      ...(meta.facts.idMappings === undefined ? {} : { userNamespace: paths.user }),
      cgroupPath,
      systemdCgroup: runtime.systemdCgroup === true,
      seccomp: this.#deps.seccomp.forCapabilities([]),
    });
    return { id: meta.id, bundleDir, terminal: false, stdin: false, stdinOnce: false, cgroupPath, runtime, oci };
  }
}
