import type { ObjectState } from '../../lib/object-state.ts';
import { shownExit, shownReason } from '../container/exit-reason.ts';
import { describe } from '../container/state.ts';
import type { RuntimeContext } from '../context.ts';
import type { ContainerRecord } from '../store/container-record.ts';
import { sandboxSubject, type SandboxRecord } from '../store/sandbox-record.ts';

type Records = Pick<RuntimeContext, 'containers' | 'sandboxes'>;

/** Every sandbox and container that there is, oldest first. */
export function objectStates(rt: Records): ObjectState[] {
  const states = [
    ...rt.sandboxes.list().map(sandboxState),
    ...rt.containers.list().map((record) => containerState(rt, record)),
  ];
  return states.sort((a, b) => a.createdAtWallMs - b.createdAtWallMs);
}

function sandboxState({ meta, status }: SandboxRecord): ObjectState {
  const { state } = status;
  const flags = [
    ...(status.stopping === undefined || status.stopped === true ? [] : ['stopping']),
    ...(status.removing === undefined ? [] : ['removing']),
  ];
  return {
    kind: 'sandbox',
    id: meta.id,
    name: meta.config.metadata?.name ?? '',
    ...podOf(meta),
    state: [state.kind, ...flags].join(', '),
    attempt: meta.config.metadata?.attempt ?? 0,
    ...(state.kind === 'notready' ? { message: state.why, finishedAtWallMs: state.sinceWallMs } : {}),
    createdAtWallMs: status.createdAtWallMs,
  };
}

function containerState(rt: Records, { meta, status }: ContainerRecord): ObjectState {
  const sandbox = rt.sandboxes.get(meta.facts.sandboxId);
  const { state } = status;
  const exit = state.kind === 'exited' ? shownExit(state) : undefined;
  const { reason, message } = exit ?? shownReason(status);
  const isKnown = state.kind === 'exited' && !(state.cause.kind === 'ended' && state.cause.exit.kind === 'unknown');
  const started =
    state.kind === 'unknown'
      ? state.was.startedAtWallMs
      : 'startedAtWallMs' in state
        ? state.startedAtWallMs
        : undefined;
  return {
    kind: 'container',
    id: meta.id,
    name: meta.config.metadata?.name ?? '',
    ...(sandbox === undefined ? {} : podOf(sandbox.meta)),
    state: describe(status),
    attempt: meta.config.metadata?.attempt ?? 0,
    ...(exit !== undefined && isKnown ? { exitCode: exit.exitCode } : {}),
    ...(reason === '' ? {} : { reason }),
    ...(message === '' ? {} : { message }),
    createdAtWallMs: status.createdAtWallMs,
    ...(started === undefined ? {} : { startedAtWallMs: started }),
    ...(state.kind === 'exited' ? { finishedAtWallMs: state.finishedAtWallMs } : {}),
  };
}

function podOf(meta: SandboxRecord['meta']): Pick<ObjectState, 'podName' | 'podNamespace' | 'podUid'> {
  const { podName, podNamespace, podUid } = sandboxSubject(meta);
  return {
    ...(podName === undefined ? {} : { podName }),
    ...(podNamespace === undefined ? {} : { podNamespace }),
    ...(podUid === undefined ? {} : { podUid }),
  };
}
