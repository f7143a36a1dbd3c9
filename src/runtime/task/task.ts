import type { OciRuntimeLocation } from '../oci/oci-runtime.ts';
import type { OciSpec } from '../oci/spec.ts';

/**
 * A container's first process and its monitor, as plain data that is kept in the store: all that stopping and deleting
 * it needs, even after the configuration has changed (FAILURES.md row 31). A pid means nothing without its start time:
 * it may be a stranger's by now; and neither means anything after a reboot.
 */
export interface Task {
  readonly id: string;
  /** The container's first process, seen from the host. */
  readonly pid: number;
  readonly startTimeTicks: number;
  readonly conmonPid: number;
  readonly conmonStartTimeTicks: number;
  readonly bundleDir: string;
  /** Path below the cgroup mounts. */
  readonly cgroupPath: string;
  /** Absent: output is thrown away. */
  readonly logPath?: string;
  readonly terminal: boolean;
  /** Which OCI runtime made it. Its commands work only with the same program and state folder. */
  readonly runtime: OciRuntimeLocation;
}

export interface CreateTaskRequest {
  readonly id: string;
  /** Absolute, exists; `config.json` and the monitor's small files are written there. */
  readonly bundleDir: string;
  /** File in CRI log format. Absent: output is thrown away. */
  readonly logPath?: string;
  readonly terminal: boolean;
  readonly stdin: boolean;
  /** Close the container's stdin when the first attached client leaves. */
  readonly stdinOnce: boolean;
  readonly cgroupPath: string;
  /** Which OCI runtime is to make it. */
  readonly runtime: Task['runtime'];
  readonly oci: OciSpec;
}

export interface ExecRequest {
  readonly argv: readonly string[];
  /** Wall time for the whole command; 0 or absent: none. */
  readonly timeoutMs?: number;
  /** Added to the container's own environment (`NAME=value`). */
  readonly env?: readonly string[];
  /** What the container has by now; it may have been started with another one. */
  readonly oomScoreAdj?: number;
}

/** A command whose streams are a client's. */
export interface StreamedExec {
  readonly argv: readonly string[];
  /** With a terminal of its own. */
  readonly terminal: boolean;
  /** What the container has by now; it may have been started with another one. */
  readonly oomScoreAdj?: number;
}

/** What becomes of a container's stdin when an attached client closes its own. */
export interface AttachRequest {
  /** `closes`: the container's is closed, for good. `stays`: it is open for the next client, and this one is done. `none`: there is none. */
  readonly stdin: 'closes' | 'stays' | 'none';
}

export interface ExecOutcome {
  readonly exitCode: number;
  readonly stdout: Uint8Array;
  readonly stderr: Uint8Array;
  /** More than the cap was written: the rest was thrown away. */
  readonly truncated: boolean;
}
