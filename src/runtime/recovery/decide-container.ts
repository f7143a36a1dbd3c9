import { hasCommandRun, type TaskFound } from '../container/start-outcome.ts';
import { bootOf, type ContainerStatus } from '../container/state.ts';
import { combineExit, type ExitRecord, type ExitStatus } from '../task/exit-status.ts';

/** What a look at the world told about one container. */
export interface ContainerFound extends TaskFound {
  /** The task was made in this boot: otherwise nothing of it can be alive. */
  readonly sameBoot: boolean;
  /** Wall time at which that process began, where it is alive. */
  readonly processStartedAtWallMs?: number;
  readonly exit?: ExitRecord;
  readonly bootedAtWallMs: number;
}

export type ContainerDecision =
  /** Nothing was lost. */
  | { readonly kind: 'keep' }
  /** A create that was cut short: everything of it is released, its name is free at once. */
  | { readonly kind: 'roll-back' }
  /** A start that was cut short before the command ran: released, back to a clean CREATED. */
  | { readonly kind: 'undo-start' }
  /** A start that was cut short after the command had been let go. */
  | { readonly kind: 'adopt'; readonly startedAtWallMs: number }
  /** The exit monitor is armed; it tells at once what has happened meanwhile. */
  | { readonly kind: 'watch' }
  | { readonly kind: 'exited'; readonly exit: ExitStatus }
  /** Told as unknown by an earlier process; its exit file came after all. */
  | { readonly kind: 'correct'; readonly exit: ExitStatus }
  | { readonly kind: 'lose-sight'; readonly why: string }
  /** Whether its command ran is not known yet: nothing is done before it is. */
  | { readonly kind: 'look-again'; readonly why: string };

/**
 * What becomes of a container that an earlier process left (BEHAVIOUR.md 66, corrected by T1 to T5, T16, T17). Pure. Nothing
 * is killed because a question failed, and no exit is made up.
 */
export function decideContainer(status: ContainerStatus, found: ContainerFound): ContainerDecision {
  const { state, start } = status;
  switch (state.kind) {
    case 'creating':
      return { kind: 'roll-back' };
    case 'exited':
      return state.cause.kind === 'ended' && state.cause.exit.kind === 'unknown' && found.exit !== undefined
        ? { kind: 'correct', exit: combineExit(found.exit, undefined) }
        : { kind: 'keep' };
    case 'created':
      return start === undefined ? { kind: 'keep' } : decideStart(start.phase, start.sinceWallMs, found);
    case 'running':
    case 'unknown':
      if (!found.sameBoot) return { kind: 'exited', exit: exitOfEarlierBoot(found) };
      // The look failed: what was known stays known, and is looked at again.
      if (found.process === 'unverifiable' && found.exit === undefined) {
        return { kind: 'lose-sight', why: 'the process table could not be asked whether it is alive' };
      }
      return { kind: 'watch' };
  }
}

function decideStart(
  phase: 'preparing' | 'made' | 'released',
  sinceWallMs: number,
  found: ContainerFound,
): ContainerDecision {
  // Before the command was let go it cannot have run, whatever the half-made process left behind.
  if (phase !== 'released') return { kind: 'undo-start' };
  if (!found.sameBoot) return { kind: 'exited', exit: exitOfEarlierBoot(found) };
  const ran = hasCommandRun(found);
  if (ran === undefined) return { kind: 'look-again', why: 'whether its start was carried out could not be found out' };
  if (!ran) return { kind: 'undo-start' };
  // Gone: the monitor that is armed then reads the exit file, or says that nobody can tell.
  return { kind: 'adopt', startedAtWallMs: found.processStartedAtWallMs ?? sinceWallMs };
}

function exitOfEarlierBoot({ exit, bootedAtWallMs }: ContainerFound): ExitStatus {
  if (exit !== undefined) return { kind: 'exited', code: exit.code, finishedAtWallMs: exit.writtenAtWallMs };
  return {
    kind: 'unknown',
    reason: 'the machine was restarted while it ran, and it left no exit status',
    finishedAtWallMs: bootedAtWallMs,
  };
}

/** Whether what there may be of the container can have been made in this boot. False: it was made in another, and nothing of it runs. */
export function isOfBoot(status: ContainerStatus, bootId: string): boolean {
  const boot = bootOf(status);
  return boot === undefined || boot === bootId;
}
