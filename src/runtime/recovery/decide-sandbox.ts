import type { SandboxStatus } from '../sandbox/state.ts';

export interface SandboxFound {
  readonly sameBoot: boolean;
  /** Words for the first pin that is not the recorded namespace any more; absent: all are. */
  readonly lostPin?: string;
  /** The process that holds a shared PID namespace. `none`: this sandbox has none. */
  readonly infra: 'alive' | 'gone' | 'none';
}

export type SandboxDecision =
  { readonly kind: 'keep' } | { readonly kind: 'roll-back' } | { readonly kind: 'not-ready'; readonly why: string };

/** What becomes of a sandbox that an earlier process left; the same question is asked again now and then. Pure. */
export function decideSandbox(status: SandboxStatus, found: SandboxFound): SandboxDecision {
  switch (status.state.kind) {
    case 'starting':
      return { kind: 'roll-back' };
    case 'notready':
      return { kind: 'keep' };
    case 'ready':
      if (!found.sameBoot) return { kind: 'not-ready', why: 'the machine was restarted' };
      if (found.lostPin !== undefined) return { kind: 'not-ready', why: found.lostPin };
      if (found.infra === 'gone') {
        return { kind: 'not-ready', why: 'the process that holds its PID namespace has ended' };
      }
      return { kind: 'keep' };
  }
}
