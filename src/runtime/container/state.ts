import { failedPrecondition } from '../../lib/errors.ts';
import type { LimitsIntent } from '../limits/limits-intent.ts';
import type { ResourcesInput } from '../oci/container-spec-input.ts';
import type { ExitStatus } from '../task/exit-status.ts';
import type { Task } from '../task/task.ts';

/**
 *     creating --> CREATED --start--> RUNNING --exit--> EXITED --remove--> (none)
 *        |           |  |              ^   |               ^
 *        |           |  |     verified |   | lost sight    |
 *        |           |  |              |   v               |
 *        |           |  |            UNKNOWN --------------+
 *        v           |  +--- start failed, or the process ended before start returned ---^
 *      (none) <------+ remove
 *
 * `creating` is seen by nobody: a create that does not end is rolled back. UNKNOWN keeps all that RUNNING knew. What is on its
 * way (a start, a stop, a removal) are flags beside the state, so that a process that dies with one of them set never
 * leaves a container in a state of its own that nothing leads out of (FAILURES.md rows 20, 21).
 */
export type ContainerState =
  { readonly kind: 'creating' } | { readonly kind: 'created' } | RunningState | ExitedState | UnknownState;

export interface RunningState {
  readonly kind: 'running';
  readonly task: Task;
  readonly bootId: string;
  readonly startedAtWallMs: number;
}

export interface ExitedState {
  readonly kind: 'exited';
  readonly cause: ExitCause;
  /** Absent: it never ran. */
  readonly startedAtWallMs?: number;
  /** Never before the start, however the wall clock was set meanwhile (FAILURES.md row 19). */
  readonly finishedAtWallMs: number;
}

export type ExitCause =
  | { readonly kind: 'ended'; readonly exit: ExitStatus }
  /** The OCI runtime could not make or start it; in its words. */
  | { readonly kind: 'start-failed'; readonly message: string };

export interface UnknownState {
  readonly kind: 'unknown';
  /** A question failed or a time limit passed; heals when pid and start time prove the process alive. */
  readonly why: string;
  readonly sinceWallMs: number;
  readonly was: RunningState;
}

/** Set before the OCI runtime is asked for anything: tells a start that was cut short from a clean CREATED. */
export interface StartIntent {
  /** `made`: the runtime's create is done and `task` known. `released`: its start was called, the command may have run. */
  readonly phase: 'preparing' | 'made' | 'released';
  readonly bootId: string;
  readonly sinceWallMs: number;
  readonly task?: Task;
}

/** What StopContainer wants. Durable: neither a client that leaves nor a restart ends it. Only ever shortened. */
export interface StopIntent {
  /** CLOCK_BOOTTIME; means something within `bootId` only. */
  readonly deadlineBoottimeMs: number;
  readonly bootId: string;
  /** Number of the stop signal. */
  readonly signal: number;
  readonly reason: string;
  readonly requestedAtWallMs: number;
  readonly signalSentBoottimeMs?: number;
  /** The stop signal could not be sent. */
  readonly signalFailedBoottimeMs?: number;
  readonly lastKillBoottimeMs?: number;
  readonly kills: number;
  /** Why SIGKILL has not ended it yet: pid, state and wait channel of what is left. */
  readonly blocked?: string | undefined;
}

export interface ContainerUser {
  readonly uid: number;
  readonly gid: number;
  readonly additionalGids: readonly number[];
}

export interface ContainerStatus {
  readonly state: ContainerState;
  readonly createdAtWallMs: number;
  readonly start?: StartIntent;
  /** Its start was asked for, and nobody has been told yet what became of it. */
  readonly startUntold?: true | undefined;
  /** Its start was cut short by a restart of ours and undone, and not asked for again since: it does not stay CREATED for ever. */
  readonly startUndone?: true | undefined;
  readonly stop?: StopIntent;
  readonly removing?: { readonly sinceWallMs: number };
  /** Whom it runs as, known from its first start on. */
  readonly user?: ContainerUser;
  /** Since they were updated; absent: those that it was made with. */
  readonly resources?: ResourcesInput;
  /** An update of them that is being carried out, or was when the daemon died. */
  readonly limitsIntent?: LimitsIntent<ResourcesInput> | undefined;
}

export function newContainerStatus(createdAtWallMs: number): ContainerStatus {
  return { state: { kind: 'creating' }, createdAtWallMs };
}

export type ContainerEvent =
  | { readonly kind: 'created' }
  | { readonly kind: 'start-intended'; readonly intent: StartIntent }
  | { readonly kind: 'task-made'; readonly task: Task; readonly user: ContainerUser }
  | { readonly kind: 'task-released' }
  | { readonly kind: 'started'; readonly startedAtWallMs: number }
  /** It was found that the command had not run: whatever the undoing leaves behind from now on is no exit. */
  | { readonly kind: 'start-undoing' }
  /** The start was cut short and everything of it is undone. */
  | { readonly kind: 'start-undone' }
  | { readonly kind: 'start-failed'; readonly message: string; readonly atWallMs: number }
  /** Whoever asked for the start has been told what became of it. */
  | { readonly kind: 'start-told' }
  | { readonly kind: 'exited'; readonly exit: ExitStatus }
  /** The exit file came after the exit had to be told without it. */
  | { readonly kind: 'exit-corrected'; readonly exit: ExitStatus }
  | { readonly kind: 'lost-sight'; readonly why: string; readonly atWallMs: number }
  | { readonly kind: 'verified' }
  | { readonly kind: 'limits-intended'; readonly intent: LimitsIntent<ResourcesInput> }
  /** With resources: they are what it has from now on. Without: the update came to nothing. */
  | { readonly kind: 'limits-settled'; readonly resources?: ResourcesInput }
  | { readonly kind: 'stop-changed'; readonly stop: StopIntent }
  | { readonly kind: 'removal-wanted'; readonly atWallMs: number };

export function canStart(status: ContainerStatus): boolean {
  return status.state.kind === 'created' && status.start === undefined && status.removing === undefined;
}

/** Whether there may be a process: running, out of sight, or on its way. */
export function mayHaveProcess(status: ContainerStatus): boolean {
  return status.state.kind === 'running' || status.state.kind === 'unknown' || status.start !== undefined;
}

/** It ended, and nobody could tell how (yet). */
export function isExitUnknown(status: ContainerStatus | undefined): boolean {
  const state = status?.state;
  return state?.kind === 'exited' && state.cause.kind === 'ended' && state.cause.exit.kind === 'unknown';
}

export function canExec(status: ContainerStatus): boolean {
  return status.state.kind === 'running';
}

/** The task of a container that runs, ran out of sight, or is being started. */
export function taskOf(status: ContainerStatus): Task | undefined {
  switch (status.state.kind) {
    case 'running':
      return status.state.task;
    case 'unknown':
      return status.state.was.task;
    case 'creating':
    case 'created':
      return status.start?.task;
    case 'exited':
      return undefined;
  }
}

/** The boot in which that task was made. */
export function bootOf(status: ContainerStatus): string | undefined {
  switch (status.state.kind) {
    case 'running':
      return status.state.bootId;
    case 'unknown':
      return status.state.was.bootId;
    case 'creating':
    case 'created':
      return status.start?.bootId;
    case 'exited':
      return undefined;
  }
}

/**
 * The status after an event. The same object when the event changes nothing (an exit told twice, a stop of what has ended).
 * Throws FailedPrecondition for an event that the state does not allow.
 */
export function transition(status: ContainerStatus, event: ContainerEvent): ContainerStatus {
  const { state } = status;
  switch (event.kind) {
    case 'created':
      if (state.kind !== 'creating') throw illegal(status, event);
      return { ...status, state: { kind: 'created' } };
    case 'start-intended':
      if (!canStart(status)) throw illegal(status, event);
      return { ...status, start: event.intent, startUntold: true, startUndone: undefined };
    case 'task-made':
      if (state.kind !== 'created' || status.start?.phase !== 'preparing') throw illegal(status, event);
      return { ...status, user: event.user, start: { ...status.start, phase: 'made', task: event.task } };
    case 'task-released':
      if (state.kind !== 'created' || status.start?.phase !== 'made') throw illegal(status, event);
      return { ...status, start: { ...status.start, phase: 'released' } };
    case 'started':
      return started(status, event.startedAtWallMs);
    case 'start-undoing':
      if (state.kind !== 'created' || status.start === undefined) throw illegal(status, event);
      return status.start.phase === 'released' ? { ...status, start: { ...status.start, phase: 'made' } } : status;
    case 'start-undone':
      if (state.kind !== 'created') throw illegal(status, event);
      return { ...status, start: undefined, startUntold: undefined, startUndone: true };
    case 'start-told':
      return status.startUntold === undefined ? status : { ...status, startUntold: undefined };
    case 'start-failed': {
      if (state.kind === 'exited') return status;
      if (state.kind !== 'created') throw illegal(status, event);
      return ended(status, { kind: 'start-failed', message: event.message }, undefined, event.atWallMs);
    }
    case 'exited':
      return exited(status, event.exit);
    case 'exit-corrected':
      if (state.kind !== 'exited' || state.cause.kind !== 'ended' || event.exit.kind !== 'exited') return status;
      return ended(status, { kind: 'ended', exit: event.exit }, state.startedAtWallMs, event.exit.finishedAtWallMs);
    case 'lost-sight':
      if (state.kind !== 'running') return status;
      return { ...status, state: { kind: 'unknown', why: event.why, sinceWallMs: event.atWallMs, was: state } };
    case 'verified':
      return state.kind === 'unknown' ? { ...status, state: state.was } : status;
    case 'limits-intended':
      if (state.kind !== 'running') throw illegal(status, event);
      return { ...status, limitsIntent: event.intent };
    case 'limits-settled':
      return {
        ...status,
        limitsIntent: undefined,
        ...(event.resources === undefined ? {} : { resources: event.resources }),
      };
    case 'stop-changed':
      return state.kind === 'exited' ? status : { ...status, stop: event.stop };
    case 'removal-wanted':
      return status.removing === undefined ? { ...status, removing: { sinceWallMs: event.atWallMs } } : status;
  }
}

function started(status: ContainerStatus, startedAtWallMs: number): ContainerStatus {
  if (status.state.kind === 'exited') return status;
  const task = status.start?.task;
  if (status.state.kind !== 'created' || status.start === undefined || task === undefined) {
    throw illegal(status, { kind: 'started', startedAtWallMs });
  }
  const { bootId } = status.start;
  return { ...status, start: undefined, state: { kind: 'running', task, bootId, startedAtWallMs } };
}

function exited(status: ContainerStatus, exit: ExitStatus): ContainerStatus {
  const { state } = status;
  const cause: ExitCause = { kind: 'ended', exit };
  switch (state.kind) {
    case 'creating':
      throw illegal(status, { kind: 'exited', exit });
    case 'created': {
      if (status.start === undefined) throw illegal(status, { kind: 'exited', exit });
      // Ended before its command was let go: that is a start that failed, whatever number the half-made process left.
      if (status.start.phase !== 'released') {
        const message = 'the container ended before its command was started';
        return ended(status, { kind: 'start-failed', message }, undefined, exit.finishedAtWallMs);
      }
      return ended(status, cause, status.start.sinceWallMs, exit.finishedAtWallMs);
    }
    case 'running':
      return ended(status, cause, state.startedAtWallMs, exit.finishedAtWallMs);
    case 'unknown':
      return ended(status, cause, state.was.startedAtWallMs, exit.finishedAtWallMs);
    case 'exited':
      // The first word stands, except that a true exit replaces one that nobody could tell (BEHAVIOUR.md T13).
      if (state.cause.kind !== 'ended' || state.cause.exit.kind === 'exited' || exit.kind !== 'exited') return status;
      return ended(status, cause, state.startedAtWallMs, exit.finishedAtWallMs);
  }
}

function ended(
  status: ContainerStatus,
  cause: ExitCause,
  startedAtWallMs: number | undefined,
  finishedAtWallMs: number,
): ContainerStatus {
  const base = { kind: 'exited', cause } as const;
  const state: ExitedState =
    startedAtWallMs === undefined
      ? { ...base, finishedAtWallMs }
      : { ...base, startedAtWallMs, finishedAtWallMs: Math.max(finishedAtWallMs, startedAtWallMs) };
  return { ...status, start: undefined, startUndone: undefined, limitsIntent: undefined, state };
}

function illegal(status: ContainerStatus, event: ContainerEvent): Error {
  return failedPrecondition(`container is ${describe(status)}: not possible now (${event.kind})`);
}

/** The state and what is on its way, in words. */
export function describe(status: ContainerStatus): string {
  const flags = [
    ...(status.start === undefined ? [] : ['starting']),
    ...(status.stop === undefined || status.state.kind === 'exited' ? [] : ['stopping']),
    ...(status.removing === undefined ? [] : ['removing']),
  ];
  return [status.state.kind, ...flags].join(', ');
}
