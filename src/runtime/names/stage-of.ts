import type { Clock } from '../../lib/clock.ts';

interface Aged {
  readonly status: { readonly state: { readonly kind: string }; readonly createdAtWallMs: number };
}

/** At which stage the object is that has a name, and for how long it has been there: `creating, for 12 s`. */
export function stageOf(clock: Pick<Clock, 'wallMs'>, record: Aged | undefined): string | undefined {
  if (record === undefined) return undefined;
  const { state, createdAtWallMs } = record.status;
  return `${state.kind}, for ${String(Math.max(0, Math.round((clock.wallMs() - createdAtWallMs) / 1000)))} s`;
}
