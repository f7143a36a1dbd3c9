import { invalidArgument, type GantryError } from '../../../lib/errors.ts';
import type { ContentSource } from '../content-source.ts';
import type { ImageRecord } from '../image-record.ts';
import type { NewImage } from '../image-records.ts';
import type { IngestDirectory } from '../ingest.ts';
import type { Platform } from '../platform.ts';

export interface ImportedImage {
  readonly image: ImageRecord;
  /** The names that it was given. None if the archive had none: then only its id finds it. */
  readonly names: readonly string[];
}

export interface ImportDeps {
  readonly ingest: IngestDirectory;
  readonly platform: Platform;
  /** Unpacks the layers and records the image. */
  readonly bringIn: (source: ContentSource, image: NewImage, names: readonly string[]) => Promise<ImageRecord>;
}

export function notAnImage(path: string, why: string): GantryError {
  return invalidArgument(`${path}: not an image: ${why}`, { details: { reason: 'not-an-image' } });
}
