import { failedPrecondition } from '../../lib/errors.ts';
import type { LimitsIntent } from '../limits/limits-intent.ts';
import type { PodResources } from '../limits/pod-resources.ts';
import type { Task } from '../task/task.ts';

/**
 *     starting --> READY --stop, pin lost, infra process gone, reboot--> NOTREADY --remove--> (none)
 *        |                                                                  ^
 *        +--> (none): rolled back; what could not be undone ----------------+
 *
 * A sandbox has no process unless its containers share a PID namespace: it is READY while its pinned namespaces are the
 * ones that were recorded, by inode, in this boot.
 */
export type SandboxState =
  | { readonly kind: 'starting' }
  | { readonly kind: 'ready' }
  | { readonly kind: 'notready'; readonly why: string; readonly sinceWallMs: number };

export type PinKind = 'net' | 'ipc' | 'uts' | 'user';

/** A namespace kept alive by a bind mount of its file. */
export interface Pin {
  readonly kind: PinKind;
  readonly path: string;
  /** Of the namespace's file; a decimal number. */
  readonly inode: string;
}

export interface SandboxStatus {
  readonly state: SandboxState;
  readonly createdAtWallMs: number;
  /** The boot in which it was made. */
  readonly bootId: string;
  readonly pins: readonly Pin[];
  /** Pod addresses, the primary one first; empty where the pod has the host's network. */
  readonly ips: readonly string[];
  /** The process that holds a shared PID namespace. */
  readonly infra?: Task;
  /** A stop was asked for: no container can be made or started here any more. */
  readonly stopping?: { readonly sinceWallMs: number };
  /** Everything that Stop releases is released. */
  readonly stopped?: boolean;
  readonly removing?: { readonly sinceWallMs: number };
  /** Since they were updated; absent: those that it was made with. */
  readonly resources?: PodResources;
  /** An update of them that is being carried out, or was when the daemon died. */
  readonly limitsIntent?: LimitsIntent<PodResources> | undefined;
}

export function newSandboxStatus(createdAtWallMs: number, bootId: string): SandboxStatus {
  return { state: { kind: 'starting' }, createdAtWallMs, bootId, pins: [], ips: [] };
}

export type SandboxEvent =
  | { readonly kind: 'pinned'; readonly pins: readonly Pin[] }
  | { readonly kind: 'connected'; readonly ips: readonly string[] }
  | { readonly kind: 'infra-started'; readonly task: Task }
  | { readonly kind: 'ready' }
  | { readonly kind: 'not-ready'; readonly why: string; readonly atWallMs: number }
  | { readonly kind: 'limits-intended'; readonly intent: LimitsIntent<PodResources> }
  /** With resources: they are what the pod has from now on. Without: the update came to nothing. */
  | { readonly kind: 'limits-settled'; readonly resources?: PodResources }
  | { readonly kind: 'stop-wanted'; readonly atWallMs: number }
  | { readonly kind: 'stopped'; readonly atWallMs: number }
  | { readonly kind: 'removal-wanted'; readonly atWallMs: number };

export function isReady(status: SandboxStatus): boolean {
  return status.state.kind === 'ready';
}

/** Whether containers may be made and started in it. */
export function takesContainers(status: SandboxStatus): boolean {
  return status.state.kind === 'ready' && status.stopping === undefined && status.removing === undefined;
}

/** The status after an event; the same object when it changes nothing. Throws FailedPrecondition for what cannot be. */
export function transition(status: SandboxStatus, event: SandboxEvent): SandboxStatus {
  const { state } = status;
  switch (event.kind) {
    case 'pinned':
      mustBeStarting(status, event);
      return { ...status, pins: event.pins };
    case 'connected':
      mustBeStarting(status, event);
      return { ...status, ips: event.ips };
    case 'infra-started':
      mustBeStarting(status, event);
      return { ...status, infra: event.task };
    case 'ready':
      mustBeStarting(status, event);
      return { ...status, state: { kind: 'ready' } };
    case 'not-ready':
      if (state.kind === 'notready') return status;
      return { ...status, state: { kind: 'notready', why: event.why, sinceWallMs: event.atWallMs } };
    case 'limits-intended':
      return { ...status, limitsIntent: event.intent };
    case 'limits-settled':
      return {
        ...status,
        limitsIntent: undefined,
        ...(event.resources === undefined ? {} : { resources: event.resources }),
      };
    case 'stop-wanted':
      return status.stopping === undefined ? { ...status, stopping: { sinceWallMs: event.atWallMs } } : status;
    case 'stopped': {
      if (status.stopped === true) return status;
      const next: SandboxState =
        state.kind === 'notready' ? state : { kind: 'notready', why: 'stopped', sinceWallMs: event.atWallMs };
      return { ...status, infra: undefined, pins: [], ips: [], limitsIntent: undefined, stopped: true, state: next };
    }
    case 'removal-wanted':
      return status.removing === undefined ? { ...status, removing: { sinceWallMs: event.atWallMs } } : status;
  }
}

function mustBeStarting(status: SandboxStatus, event: SandboxEvent): void {
  if (status.state.kind !== 'starting') {
    throw failedPrecondition(`sandbox is ${status.state.kind}: not possible now (${event.kind})`);
  }
}
