import type { Op } from '../../../lib/abort.ts';
import { join } from 'node:path';
import { containerOfSnapshot, type RuntimePaths } from '../../store/paths.ts';
import type { Found } from '../inventory.ts';

/** What the doctor asks of the rooms that keep images and snapshots. */
export interface StorageParts {
  snapshots(): Promise<string[]>;
  /** Paths of half-made things that nobody is at work on: layers, snapshots, blobs. */
  strays(): Promise<string[]>;
  /** Layers that are there whole and that no image refers to, nor a pull that is under way. */
  unusedLayers(): readonly string[];
  removeStray(op: Op, path: string): Promise<void>;
  removeUnusedLayers(op: Op): Promise<void>;
}

export async function findStored(
  paths: Pick<RuntimePaths, 'snapshots'>,
  parts: Pick<StorageParts, 'snapshots' | 'strays' | 'unusedLayers'>,
): Promise<Found[]> {
  const snapshots = (await parts.snapshots()).flatMap((id): Found[] => {
    const owner = containerOfSnapshot(id);
    return owner === undefined ? [] : [{ kind: 'snapshot', key: id, ids: [owner], note: join(paths.snapshots, id) }];
  });
  const strays = await parts.strays();
  return [
    ...snapshots,
    ...strays.map((key): Found => ({ kind: 'staging', key, note: 'left half made' })),
    ...parts.unusedLayers().map((key): Found => ({ kind: 'layer', key, note: 'no image has it' })),
  ];
}
