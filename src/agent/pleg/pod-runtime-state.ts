/** What the runtime says about one pod, as plain data for the deciding functions. */
export interface PodRuntimeState {
  readonly uid: string;
  /** Newest first. */
  readonly sandboxes: readonly RuntimeSandbox[];
  /** Newest first. */
  readonly containers: readonly RuntimeContainer[];
}

export interface RuntimeSandbox {
  readonly id: string;
  readonly attempt: number;
  readonly ready: boolean;
  readonly createdAtMs: number;
  /** Primary first. Empty on the host's network, or when the sandbox is not ready. */
  readonly ips: readonly string[];
}

export interface RuntimeContainer {
  readonly id: string;
  readonly name: string;
  readonly sandboxId: string;
  /** The restart count: 0 for the first run. */
  readonly attempt: number;
  readonly image: string;
  readonly imageId: string;
  readonly hash: string;
  /** {@link ANNOTATION_CRASHES} */
  readonly crashes: number;
  /** {@link ANNOTATION_BOOT}; empty: made by a version that did not note it. */
  readonly bootId: string;
  readonly createdAtMs: number;
  /** As they were made. */
  readonly mounts: readonly RuntimeMount[];
  /** Whose its first process was when it started. */
  readonly user?: RuntimeUser;
  readonly state: RuntimeContainerState;
}

export interface RuntimeUser {
  readonly uid: number;
  readonly gid: number;
  readonly supplementalGroups: readonly number[];
}

export interface RuntimeMount {
  readonly containerPath: string;
  readonly readOnly: boolean;
  readonly recursiveReadOnly: boolean;
  /** Of an image as a volume: which one. */
  readonly imageRef?: string;
}

export type RuntimeContainerState =
  | { readonly kind: 'created' }
  | { readonly kind: 'running'; readonly startedAtMs: number }
  | ExitedState
  /** The runtime has lost sight of the process: it may be alive. */
  | { readonly kind: 'unknown'; readonly reason: string; readonly message: string };

export interface ExitedState {
  readonly kind: 'exited';
  /** 255 with reason `Unknown` when nobody learnt it. */
  readonly exitCode: number;
  readonly reason: string;
  readonly message: string;
  /** Absent when the process never started. */
  readonly startedAtMs?: number;
  readonly finishedAtMs: number;
}

/** A process of this container may exist: nothing that it uses may be taken away. */
export function mayBeAlive(container: RuntimeContainer): boolean {
  return container.state.kind === 'running' || container.state.kind === 'unknown';
}

/**
 * The run of a container that counts: the newest one that may be alive, else the newest one. After a call that was broken off
 * there may be a newer one that never ran, and starting that would be a second copy.
 */
export function latestOf(state: PodRuntimeState, name: string): RuntimeContainer | undefined {
  let latest: RuntimeContainer | undefined;
  for (const container of state.containers) {
    if (container.name === name && (latest === undefined || isAfter(container, latest))) latest = container;
  }
  return latest;
}

function isAfter(one: RuntimeContainer, other: RuntimeContainer): boolean {
  if (mayBeAlive(one) !== mayBeAlive(other)) return mayBeAlive(one);
  // By attempt and not by time: the wall clock may have stepped back between two runs (FAILURES.md row 19).
  return one.attempt > other.attempt;
}

/** The newest run that has ended, other than `except`. */
export function lastExitedOf(
  state: PodRuntimeState,
  name: string,
  except?: RuntimeContainer,
): (RuntimeContainer & { readonly state: ExitedState }) | undefined {
  let last: (RuntimeContainer & { readonly state: ExitedState }) | undefined;
  for (const container of state.containers) {
    if (container.name !== name || container.id === except?.id || !hasExited(container)) continue;
    if (last === undefined || container.attempt > last.attempt) last = container;
  }
  return last;
}

export function hasExited(
  container: RuntimeContainer,
): container is RuntimeContainer & { readonly state: ExitedState } {
  return container.state.kind === 'exited';
}
