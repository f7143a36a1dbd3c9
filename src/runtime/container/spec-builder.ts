import { mkdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { MountPropagation, type Mount } from '../../cri/gen/api.ts';
import { raceSignal, type Op } from '../../lib/abort.ts';
import { errnoOf, failedPrecondition, invalidArgument } from '../../lib/errors.ts';
import { mountOf, readMountinfo } from '../../linux/mountinfo.ts';
import { buildContainerSpec } from '../oci/build-container-spec.ts';
import type { DeviceInput, HostFacts, ResolvedUser } from '../oci/container-spec-input.ts';
import { devicesAt } from '../oci/devices.ts';
import type { OciRuntimeLocation } from '../oci/oci-runtime.ts';
import type { OciSeccomp, OciSpec } from '../oci/spec.ts';
import type { ContainerMeta } from '../store/container-record.ts';
import type { RuntimePaths, SandboxPaths } from '../store/paths.ts';
import type { SandboxMeta, SandboxRecord } from '../store/sandbox-record.ts';
import type { TaskRemains } from '../task/task-service.ts';
import type { CreateTaskRequest } from '../task/task.ts';
import { seccompChoiceOf, specInputOf, type SeccompChoice, type SpecFacts } from './spec-input.ts';
import type { ContainerUser } from './state.ts';

/** Whom a container is to run as, in CRI's words and the image's. */
export interface UserRequest {
  readonly rootfs: string;
  /** The image's `user[:group]`. */
  readonly imageUser?: string;
  readonly runAsUser?: number;
  readonly runAsUsername?: string;
  readonly runAsGroup?: number;
  readonly supplementalGroups: readonly number[];
  /** `merge`: the groups of the image's /etc/group count, too. */
  readonly supplementalGroupsPolicy: 'merge' | 'strict';
}

export interface SpecBuilderDeps {
  readonly paths: RuntimePaths;
  readonly host: HostFacts;
  readonly runtime: OciRuntimeLocation;
  /** Reads passwd and group below the root file system, without ever leaving it. */
  resolveUser(op: Op, request: UserRequest): Promise<ResolvedUser>;
  /** Resolved against the capabilities that the container gets; undefined: unconfined. */
  seccomp(choice: SeccompChoice, capabilities: readonly string[]): Promise<OciSeccomp | undefined>;
  infraSpec(request: InfraSpecRequest): OciSpec;
  /** Task of a running container, for CRI's TARGET mode. */
  pidOf(containerId: string): number | undefined;
}

export interface InfraSpecRequest {
  readonly rootfs: string;
  readonly hostname: string;
  readonly cgroupPath: string;
  readonly netns?: string;
  readonly ipc?: string;
  readonly uts?: string;
}

/** Placeholder for checking a configuration before there is a root file system. */
const NOBODY_YET: ResolvedUser = { uid: 0, gid: 0, additionalGids: [] };

/** Turns records into what the task service needs: gathers what the pure builders ask for. */
export class SpecBuilder {
  readonly #deps: SpecBuilderDeps;

  constructor(deps: SpecBuilderDeps) {
    this.#deps = deps;
  }

  /** Names that RunPodSandbox may give as `runtime_handler`. */
  get runtimeHandlers(): readonly string[] {
    return [this.#deps.runtime.name];
  }

  /** Finds what is wrong with a configuration without touching anything. Throws InvalidArgument, NotFound, NotImplemented. */
  async check(meta: ContainerMeta, sandbox: SandboxMeta): Promise<void> {
    checkUser(userRequestOf(meta, '/'));
    await this.#deps.seccomp(seccompChoiceOf(meta.config), []);
    buildContainerSpec(
      specInputOf(meta, sandbox, {
        host: this.#deps.host,
        rootfs: '/',
        sandboxPaths: this.#deps.paths.sandbox(sandbox.id),
        user: NOBODY_YET,
        devices: [],
        podPidNamespace: '/proc/self/ns/pid',
        targetPidNamespace: '/proc/self/ns/pid',
      }),
    );
  }

  /** The container's task. Its root file system is mounted. */
  async task(
    op: Op,
    meta: ContainerMeta,
    sandbox: SandboxRecord,
  ): Promise<{ request: CreateTaskRequest; user: ContainerUser }> {
    const { bundle, rootfs } = this.#deps.paths.container(meta.id);
    const { config } = meta;
    await this.#prepareMountSources(op, config.mounts);
    const [user, devices] = await Promise.all([
      this.#deps.resolveUser(op, userRequestOf(meta, rootfs)),
      this.#devices(meta),
    ]);
    const world: SpecFacts = {
      host: this.#deps.host,
      rootfs,
      sandboxPaths: this.#deps.paths.sandbox(sandbox.meta.id),
      user,
      devices,
      ...pidNamespaceOf('podPidNamespace', sandbox.status.infra?.pid),
      ...pidNamespaceOf('targetPidNamespace', this.#targetPid(meta)),
    };
    const input = specInputOf(meta, sandbox.meta, world);
    const unconfined = buildContainerSpec(input);
    const seccomp = await this.#deps.seccomp(seccompChoiceOf(config), unconfined.process.capabilities?.bounding ?? []);
    const oci = seccomp === undefined ? unconfined : buildContainerSpec({ ...input, seccomp });
    const request: CreateTaskRequest = {
      id: meta.id,
      bundleDir: bundle,
      ...(meta.facts.logPath === undefined ? {} : { logPath: meta.facts.logPath }),
      terminal: config.tty,
      stdin: config.stdin,
      stdinOnce: config.stdinOnce,
      cgroupPath: meta.facts.cgroupPath,
      oci,
    };
    return { request, user: { uid: user.uid, gid: user.gid, additionalGids: user.additionalGids } };
  }

  /** What will be left of the task's creation if it is cut off: enough to delete it. */
  taskTraces(meta: ContainerMeta): TaskRemains {
    return {
      id: meta.id,
      bundleDir: this.#deps.paths.container(meta.id).bundle,
      cgroupPath: meta.facts.cgroupPath,
      runtime: this.#deps.runtime,
    };
  }

  infraTaskTraces(meta: SandboxMeta, paths: SandboxPaths): TaskRemains & Record<string, unknown> {
    return {
      id: meta.id,
      bundleDir: paths.infraBundle,
      cgroupPath: join(meta.facts.cgroupPath, meta.id),
      runtime: this.#deps.runtime,
    };
  }

  /** The process that holds the pod's PID namespace. */
  infraTask(meta: SandboxMeta, paths: SandboxPaths): CreateTaskRequest {
    const { bundleDir, cgroupPath } = this.infraTaskTraces(meta, paths);
    const { facts } = meta;
    return {
      id: meta.id,
      bundleDir,
      terminal: false,
      stdin: false,
      stdinOnce: false,
      cgroupPath,
      oci: this.#deps.infraSpec({
        rootfs: join(paths.infraBundle, 'rootfs'),
        hostname: facts.hostname,
        cgroupPath,
        ...(facts.netnsPath === undefined ? {} : { netns: facts.netnsPath }),
        ...(facts.namespaces.ipc === 'pod' ? { ipc: paths.ipc } : {}),
        ...(facts.namespaces.uts === 'pod' ? { uts: paths.uts } : {}),
      }),
    };
  }

  async #devices(meta: ContainerMeta): Promise<DeviceInput[]> {
    const found = await Promise.all(
      meta.config.devices.map(({ hostPath, containerPath, permissions }) =>
        devicesAt(hostPath, containerPath === '' ? hostPath : containerPath, permissions === '' ? 'rwm' : permissions),
      ),
    );
    return found.flat();
  }

  #targetPid(meta: ContainerMeta): number | undefined {
    const target = meta.config.linux?.securityContext?.namespaceOptions?.targetId ?? '';
    return target === '' ? undefined : this.#deps.pidOf(target);
  }

  /** A source that is missing is made, as the field's runtimes do; propagation needs a source that takes part in it. */
  async #prepareMountSources(op: Op, mounts: readonly Mount[]): Promise<void> {
    for (const { hostPath } of mounts) await raceSignal(makeIfMissing(hostPath), op.signal);
    const propagating = mounts.filter(({ propagation }) => propagation !== MountPropagation.PROPAGATION_PRIVATE);
    if (propagating.length === 0) return;
    const infos = await readMountinfo();
    for (const { hostPath, propagation } of propagating) {
      const info = mountOf(infos, hostPath);
      const shared = info?.shared !== undefined;
      const both = propagation === MountPropagation.PROPAGATION_BIDIRECTIONAL;
      if (shared || (!both && info?.master !== undefined)) continue;
      const wanted = both ? 'shared' : 'shared or slave';
      throw failedPrecondition(
        `mount ${hostPath}: it is on ${info?.mountPoint ?? '/'}, which is not a ${wanted} mount`,
      );
    }
  }
}

function pidNamespaceOf<Key extends string>(key: Key, pid: number | undefined): Partial<Record<Key, string>> {
  return pid === undefined ? {} : ({ [key]: `/proc/${String(pid)}/ns/pid` } as Record<Key, string>);
}

async function makeIfMissing(path: string): Promise<void> {
  try {
    await stat(path);
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT') throw error;
    await mkdir(path, { recursive: true, mode: 0o755 });
  }
}

function userRequestOf({ config, facts }: ContainerMeta, rootfs: string): UserRequest {
  const security = config.linux?.securityContext;
  const number = (value: { value: bigint } | undefined): number | undefined =>
    value === undefined ? undefined : Number(value.value);
  const runAsUser = number(security?.runAsUser);
  const runAsGroup = number(security?.runAsGroup);
  const runAsUsername = security?.runAsUsername ?? '';
  return {
    rootfs,
    ...(facts.image.user === undefined ? {} : { imageUser: facts.image.user }),
    ...(runAsUser === undefined ? {} : { runAsUser }),
    ...(runAsUsername === '' ? {} : { runAsUsername }),
    ...(runAsGroup === undefined ? {} : { runAsGroup }),
    supplementalGroups: (security?.supplementalGroups ?? []).map(Number),
    supplementalGroupsPolicy: security?.supplementalGroupsPolicy === 1 ? 'strict' : 'merge',
  };
}

function checkUser(request: UserRequest): void {
  // CRI: "run_as_group should only be specified when run_as_user or run_as_username is specified".
  if (request.runAsGroup !== undefined && request.runAsUser === undefined && request.runAsUsername === undefined) {
    throw invalidArgument('run_as_group is set, but neither run_as_user nor run_as_username is');
  }
  for (const id of [request.runAsUser, request.runAsGroup, ...request.supplementalGroups]) {
    if (id !== undefined && (id < 0 || id > 0xffff_fffe)) throw invalidArgument(`${String(id)} is no user or group id`);
  }
}
