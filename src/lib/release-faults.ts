import type { FaultPoint, FaultPoints } from './fault-points.ts';
import type { Releaser } from './ledger.ts';

type KindOf<Point> = Point extends `release/${infer Kind}-begun` ? Kind : never;
/** The ledger's kinds whose release has points. */
export type ReleaseKind = KindOf<FaultPoint>;

/** The same table, with a point before each release, and one at which the thing is gone and its entry is not. */
export function withFaults<Kind extends ReleaseKind>(
  table: Readonly<Record<Kind, Releaser>>,
  faults: FaultPoints,
): Record<Kind, Releaser> {
  const wrap = (kind: Kind): Releaser => {
    return async (op, entry) => {
      await faults.reach(`release/${kind}-begun`);
      await table[kind](op, entry);
      await faults.reach(`release/${kind}-gone`);
    };
  };
  const kinds = Object.keys(table) as Kind[];
  return Object.fromEntries(kinds.map((kind) => [kind, wrap(kind)])) as Record<Kind, Releaser>;
}
