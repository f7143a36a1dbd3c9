import type { Op } from '../../lib/abort.ts';
import type { DoctorReport } from '../../lib/doctor.ts';
import type { ImageImport } from '../../lib/image-import.ts';
import type { ObjectState } from '../../lib/object-state.ts';

/**
 * Gantry's own questions, beside CRI on the same socket (`gantry.v1.Inspector`), so that `explain` and `doctor` work with
 * any agent above the runtime. The shapes are those of the journal's and the ledger's entries.
 */
export interface Inspector {
  /** Who answers. */
  version(op: Op): Promise<InspectorVersion>;
  /** The life so far of what the subject names, and what is still to be done for it. Empty when nothing is known. */
  explain(op: Op, question: ExplainQuestion): Promise<Explanation>;
  /** What the daemon still has to do or to release; with a subject, only for that. */
  pendingWork(op: Op, subject?: InspectorSubject): Promise<readonly PendingItem[]>;
  /** What of this Gantry's is on the machine without an owner, or has one and is missing; with `fix`, puts that right. */
  doctor(op: Op, request: DoctorRequest): Promise<DoctorReport>;
  /** Takes images from a file or a folder of the daemon's machine. Throws InvalidArgument for what is none, NotFound for what is not there. */
  importImages(op: Op, request: ImageImport): Promise<readonly ImportedImage[]>;
}

export interface ImportedImage {
  readonly id: string;
  readonly tags: readonly string[];
  readonly digests: readonly string[];
  readonly sizeBytes: number;
}

export interface DoctorRequest {
  readonly fix: boolean;
}

/** As many as are known; every one that is given must match. */
export interface InspectorSubject {
  readonly podUid?: string;
  readonly podNamespace?: string;
  readonly podName?: string;
  readonly sandboxId?: string;
  readonly containerId?: string;
  readonly containerName?: string;
  readonly image?: string;
}

export interface InspectorVersion {
  readonly version: string;
  readonly instanceId: string;
  readonly pid: number;
  readonly startedAtWallMs: number;
  readonly bootId: string;
  readonly nodeVersion: string;
  /** Name and path of the OCI runtime that was chosen: `crun (/usr/bin/crun)`. */
  readonly ociRuntime: string;
  /** The folder that survives a reboot, and the one that does not. */
  readonly root: string;
  readonly state: string;
}

export interface ExplainQuestion {
  readonly subject: InspectorSubject;
  /**
   * A container as people name it: the beginning of an id, NAME or POD/NAME in the subject's namespace. NotFound when there is
   * none, FailedPrecondition when there are several.
   */
  readonly container?: string;
  /** The newest so many entries; the server's own limit by default. */
  readonly limit?: number;
}

export interface Explanation {
  /** Oldest first. */
  readonly entries: readonly ExplainedEntry[];
  readonly pending: readonly PendingItem[];
  /** The sandboxes and containers that there are of it, oldest first. */
  readonly objects: readonly ObjectState[];
}

/** One entry of the journal. */
export interface ExplainedEntry {
  readonly seq: number;
  readonly wallMs: number;
  readonly bootId: string;
  readonly subject: InspectorSubject;
  readonly what: string;
  readonly message: string;
  readonly why?: string;
  readonly outcome?: 'ok' | 'failed' | 'blocked';
  readonly durationMs?: number;
  readonly data?: Readonly<Record<string, unknown>>;
}

export interface PendingItem {
  readonly subject: InspectorSubject;
  /** `cleanup`, `stop`, `release`, `teardown` … */
  readonly kind: string;
  /** What it is about: a path, an id, an address. */
  readonly key: string;
  /** One sentence for a person. */
  readonly message: string;
  readonly sinceWallMs: number;
  readonly attempts: number;
  readonly lastError?: string;
  readonly nextAttemptWallMs?: number;
  readonly blockers: readonly PendingBlocker[];
}

/** What stands in the way of a teardown (linux/safe-remove says the same of a tree). */
export interface PendingBlocker {
  readonly path: string;
  readonly reason: string;
  readonly source?: string;
  readonly fsType?: string;
  readonly holders?: readonly { readonly pid: number; readonly comm?: string }[];
  readonly message: string;
}
