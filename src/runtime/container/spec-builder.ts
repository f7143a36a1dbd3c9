import { NamespaceMode, type PodSandboxConfig } from '../../cri/gen/api.ts';
import type { Op } from '../../lib/abort.ts';
import { failedPrecondition, invalidArgument } from '../../lib/errors.ts';
import type { HostFiles } from '../../linux/host-files.ts';
import type { CdiDevices } from '../cdi/cdi-devices.ts';
import type { ContainerEdits } from '../cdi/container-edits.ts';
import { requestedDevices } from '../cdi/device-name.ts';
import type { AppArmor } from '../oci/apparmor.ts';
import { buildContainerSpec } from '../oci/build-container-spec.ts';
import type { DeviceInput, HostFacts, ResolvedUser, ResourcesInput } from '../oci/container-spec-input.ts';
import { devicesAt } from '../oci/devices.ts';
import { hostDevices } from '../oci/host-devices.ts';
import type { OciRuntimeLocation } from '../oci/oci-runtime.ts';
import type { OciFeatures } from '../oci/runtime-features.ts';
import type { SeccompProfiles } from '../oci/seccomp.ts';
import type { OciSeccomp } from '../oci/spec.ts';
import { clampOomScoreAdj } from '../oci/resources.ts';
import { readUserFiles, resolveUser } from '../oci/user.ts';
import type { Limits } from '../parts.ts';
import type { ContainerMeta, ContainerRecord } from '../store/container-record.ts';
import type { RuntimePaths } from '../store/paths.ts';
import type { SandboxMeta, SandboxRecord } from '../store/sandbox-record.ts';
import type { TaskRemains } from '../task/task-service.ts';
import type { CreateTaskRequest } from '../task/task.ts';
import { applyCdiEdits } from './cdi-edits.ts';
import { appArmorChoiceOf, demandNoLabel, notGiven } from './confinement.ts';
import { checkMountSources, mountSources } from './mount-sources.ts';
import { limitsOf, resourcesInput, resourcesOf } from './resources.ts';
import { seccompChoiceOf, type SeccompChoice } from './seccomp-choice.ts';
import { specInputOf, type SpecFacts } from './spec-input.ts';
import type { ContainerUser } from './state.ts';
import { checkUser, userRequestOf } from './user-request.ts';

export interface SpecBuilderDeps {
  readonly paths: RuntimePaths;
  readonly host: HostFacts;
  /** The OCI runtime that a sandbox was made with. */
  runtimeOf(sandboxId: string): OciRuntimeLocation;
  featuresOf(runtime: OciRuntimeLocation): OciFeatures;
  readonly seccomp: SeccompProfiles;
  readonly appArmor: Pick<AppArmor, 'defaultProfile' | 'demand'>;
  readonly cdi: Pick<CdiDevices, 'editsFor'>;
  /** For what a configuration names on the host: it may be on a share that is dead. */
  readonly hostFiles: Pick<HostFiles, 'stat' | 'list' | 'mkdir' | 'realpath' | 'readFile'>;
  /** For CRI's TARGET mode: the sandbox of a container, and its process while it runs. By an id or the beginning of one. */
  targetOf(containerId: string): { readonly sandboxId: string; readonly pid?: number } | undefined;
}

/** Placeholder for checking a configuration before there is a root file system. */
const NOBODY_YET: ResolvedUser = { uid: 0, gid: 0, additionalGids: [] };

/** What the runtime's verbs call. */
export type Specs = Pick<SpecBuilder, keyof SpecBuilder>;

/** Turns records into what the task service needs: gathers what the pure builders ask for. */
export class SpecBuilder {
  readonly #deps: SpecBuilderDeps;

  constructor(deps: SpecBuilderDeps) {
    this.#deps = deps;
  }

  /**
   * Finds what is wrong with a configuration without touching anything. Returns what is asked for and will not be given, in words. Throws
   * InvalidArgument, NotFound, NotImplemented, FailedPrecondition.
   */
  async check(op: Op, meta: ContainerMeta, sandbox: SandboxMeta): Promise<readonly string[]> {
    checkUser(userRequestOf(meta));
    await this.#cdiEdits(meta);
    await this.#devices(op, meta);
    this.#targetPid(meta);
    await this.#appArmor(op, meta);
    await this.#seccomp(op, seccompChoiceOf(meta.config.linux?.securityContext), []);
    buildContainerSpec(
      specInputOf(meta, sandbox, {
        host: this.#deps.host,
        features: this.#featuresFor(sandbox.id),
        rootfs: '/',
        sandboxPaths: this.#deps.paths.sandbox(sandbox.id),
        user: NOBODY_YET,
        devices: [],
        podPidNamespace: '/proc/self/ns/pid',
        targetPidNamespace: '/proc/self/ns/pid',
      }),
    );
    this.limits(resourcesInput(meta.config.linux?.resources), {});
    await checkMountSources(op, this.#deps, meta);
    return notGiven(meta.config, this.#deps.host);
  }

  /** As {@link check}, of a sandbox's configuration. Throws NotImplemented, FailedPrecondition. */
  checkSandbox({ linux }: PodSandboxConfig): void {
    demandNoLabel(linux?.securityContext?.selinuxOptions, this.#deps.host);
  }

  /** Resources that a container is to have, as limits of its cgroup. Throws InvalidArgument and FailedPrecondition for what cannot be here. */
  limits(resources: ResourcesInput, now: ResourcesInput): Limits {
    return limitsOf(this.#deps.host, resources, now);
  }

  /** What a command that is executed in the container is to have of its resources by itself: all others are its cgroup's. */
  execLimits(container: Pick<ContainerRecord, 'meta' | 'status'>): { readonly oomScoreAdj?: number } {
    const oomScoreAdj = clampOomScoreAdj(this.#deps.host, resourcesOf(container).oomScoreAdj);
    return oomScoreAdj === undefined ? {} : { oomScoreAdj };
  }

  /** The container's task. Its root file system is mounted. */
  async task(
    op: Op,
    { meta, status }: Pick<ContainerRecord, 'meta' | 'status'>,
    sandbox: SandboxRecord,
  ): Promise<{ request: CreateTaskRequest; user: ContainerUser }> {
    const { bundle, rootfs } = this.#deps.paths.container(meta.id);
    const { config } = meta;
    const privileged = config.linux?.securityContext?.privileged === true;
    const [devicesOfHost, mounts, files, devices] = await Promise.all([
      privileged ? hostDevices() : [],
      mountSources(op, this.#deps, meta),
      readUserFiles(rootfs),
      this.#devices(op, meta),
    ]);
    const user = resolveUser(files, userRequestOf(meta));
    const apparmorProfile = await this.#appArmor(op, meta);
    const world: SpecFacts = {
      host: this.#deps.host,
      features: this.#featuresFor(sandbox.meta.id),
      rootfs,
      sandboxPaths: this.#deps.paths.sandbox(sandbox.meta.id),
      user,
      devices,
      hostDevices: devicesOfHost,
      mountSources: mounts,
      ...(apparmorProfile === undefined ? {} : { apparmorProfile }),
      resources: resourcesOf({ meta, status }),
      ...pidNamespaceOf('podPidNamespace', sandbox.status.infra?.pid),
      ...pidNamespaceOf('targetPidNamespace', this.#targetPid(meta)),
    };
    const input = specInputOf(meta, sandbox.meta, world);
    const unconfined = buildContainerSpec(input);
    const seccomp = await this.#seccomp(
      op,
      seccompChoiceOf(config.linux?.securityContext),
      unconfined.process.capabilities?.bounding ?? [],
    );
    const confined = seccomp === undefined ? unconfined : buildContainerSpec({ ...input, seccomp });
    const oci = await applyCdiEdits(op, this.#deps.hostFiles, confined, await this.#cdiEdits(meta));
    const request: CreateTaskRequest = {
      id: meta.id,
      bundleDir: bundle,
      ...(meta.facts.logPath === undefined ? {} : { logPath: meta.facts.logPath }),
      terminal: config.tty,
      stdin: config.stdin,
      stdinOnce: config.stdinOnce,
      cgroupPath: meta.facts.cgroupPath,
      runtime: this.#deps.runtimeOf(sandbox.meta.id),
      oci,
    };
    return { request, user: { uid: user.uid, gid: user.gid, additionalGids: user.additionalGids } };
  }

  /** What will be left of the task's creation if it is cut off: enough to delete it. */
  taskTraces(meta: {
    readonly id: string;
    readonly facts: Pick<ContainerMeta['facts'], 'cgroupPath' | 'sandboxId'>;
  }): TaskRemains {
    return {
      id: meta.id,
      bundleDir: this.#deps.paths.container(meta.id).bundle,
      cgroupPath: meta.facts.cgroupPath,
      runtime: this.#deps.runtimeOf(meta.facts.sandboxId),
    };
  }

  #featuresFor(sandboxId: string): OciFeatures {
    return this.#deps.featuresOf(this.#deps.runtimeOf(sandboxId));
  }

  async #seccomp(op: Op, choice: SeccompChoice, capabilities: readonly string[]): Promise<OciSeccomp | undefined> {
    switch (choice.kind) {
      case 'unconfined':
        return undefined;
      case 'default':
        return this.#deps.seccomp.forCapabilities(capabilities);
      case 'file':
        return await this.#deps.seccomp.fromFile(op, this.#deps.hostFiles, choice.path, capabilities);
    }
  }

  async #cdiEdits({ config }: ContainerMeta): Promise<ContainerEdits[]> {
    const fields = config.CDIDevices.map(({ name }) => name);
    return await this.#deps.cdi.editsFor(requestedDevices(fields, config.annotations));
  }

  async #devices(op: Op, meta: ContainerMeta): Promise<DeviceInput[]> {
    const found = await Promise.all(
      meta.config.devices.map(({ hostPath, containerPath, permissions }) =>
        devicesAt(
          op,
          this.#deps.hostFiles,
          hostPath,
          containerPath === '' ? hostPath : containerPath,
          permissions === '' ? 'rwm' : permissions,
        ),
      ),
    );
    return found.flat();
  }

  async #appArmor(op: Op, { config }: ContainerMeta): Promise<string | undefined> {
    const choice = appArmorChoiceOf(config.linux?.securityContext);
    switch (choice.kind) {
      case 'unconfined':
        return undefined;
      case 'default':
        return await this.#deps.appArmor.defaultProfile(op);
      case 'named':
        await this.#deps.appArmor.demand(choice.name);
        return choice.name;
    }
  }

  /** Of the container whose PID namespace is to be joined; it must be of the same pod and run. Undefined when there is no such wish. */
  #targetPid({ config, facts }: ContainerMeta): number | undefined {
    const { pid: mode, targetId = '' } = config.linux?.securityContext?.namespaceOptions ?? {};
    if (mode !== NamespaceMode.TARGET) return undefined;
    if (targetId === '') throw invalidArgument('PID namespace TARGET: there is no target_id');
    const target = this.#deps.targetOf(targetId);
    if (target?.sandboxId !== facts.sandboxId) {
      throw invalidArgument(`PID namespace TARGET: container ${targetId} is none of sandbox ${facts.sandboxId}`);
    }
    if (target.pid === undefined) throw failedPrecondition(`PID namespace TARGET: container ${targetId} does not run`);
    return target.pid;
  }
}

function pidNamespaceOf<Key extends string>(key: Key, pid: number | undefined): Partial<Record<Key, string>> {
  return pid === undefined ? {} : ({ [key]: `/proc/${String(pid)}/ns/pid` } as Record<Key, string>);
}
