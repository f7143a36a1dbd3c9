import type { ErrorKind } from '../../../lib/errors.ts';
import type { IdMappings } from '../../../linux/id-mappings.ts';
import type { LayerMarker } from '../layer-marker.ts';
import type { UnpackLimits } from '../unpack/unpack-limits.ts';

/** What the snapshot thread can do: everything of this room that waits for a disk. */
export interface Jobs {
  /** A blob or a directory becomes `<layers>/<hex>`, or nothing. */
  layer: { readonly job: LayerJob; readonly result: LayerJobResult };
  /** What a directory tree takes. */
  usage: { readonly job: { readonly directory: string }; readonly result: TreeUsage };
  /** A new archive of a directory. Yields its length. */
  archive: { readonly job: ArchiveJob; readonly result: { readonly bytes: number } };
  /** Makes the implied directories of the layers above look as the layers below describe them. */
  'repair-implied': { readonly job: RepairImpliedJob; readonly result: { readonly repaired: number } };
}

export interface LayerJob {
  readonly source: { readonly kind: 'archive' | 'directory'; readonly path: string };
  /** The directory of all layers. */
  readonly layers: string;
  /** A name in it for the unfinished layer; the caller removes it when the job fails. */
  readonly staging: string;
  /** The diffId that it must come to; undefined when whatever it is shall be. */
  readonly expected?: string;
  readonly limits: UnpackLimits;
  /** On the disk before it gets its name. */
  readonly durable: boolean;
}

export interface LayerJobResult {
  readonly marker: LayerMarker;
  /** False when such a layer was there already: staging has been left for the caller to remove. */
  readonly placed: boolean;
}

export interface TreeUsage {
  /** Allocated on the disk; a file with several names counts once. */
  readonly bytes: number;
  readonly inodes: number;
}

export interface ArchiveJob {
  /** `changes`: an overlay's upper directory, as a layer. */
  readonly what: 'directory' | 'changes';
  readonly directory: string;
  /** Must not exist; nothing of it is left when the job fails. */
  readonly file: string;
}

export interface RepairImpliedJob {
  /** Where the directories are made: an upper directory that nothing uses yet. */
  readonly upper: string;
  /** Whose ids the directories are to have. */
  readonly idMappings: IdMappings;
  /** Top first: the files of each layer, and which of its directories it only implies. */
  readonly layers: readonly { readonly files: string; readonly implied: readonly string[] }[];
}

export type JobKind = keyof Jobs;

export type ToWorker =
  | { readonly kind: 'run'; readonly seq: number; readonly jobKind: JobKind; readonly job: Jobs[JobKind]['job'] }
  | { readonly kind: 'cancel'; readonly seq: number };

export type FromWorker =
  | { readonly kind: 'progress'; readonly seq: number; readonly bytes: number }
  | { readonly kind: 'done'; readonly seq: number; readonly result: Jobs[JobKind]['result'] }
  | { readonly kind: 'failed'; readonly seq: number; readonly error: ErrorOnTheWire };

export interface ErrorOnTheWire {
  readonly errorKind: ErrorKind;
  readonly message: string;
  readonly details: Readonly<Record<string, unknown>>;
}
