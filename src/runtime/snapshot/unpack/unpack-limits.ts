import { GantryError } from '../../../lib/errors.ts';

/** What one layer may cost at most, so that a small download can not fill the disk or the inode table. */
export interface UnpackLimits {
  /** Sum of the files' sizes as the archive declares them: refused before the first byte of the file is written. */
  readonly maxBytes: number;
  /** Members of every kind. */
  readonly maxEntries: number;
}

/** Far beyond any real layer (the largest known, with machine-learning models, are some tens of GB). */
export const DEFAULT_UNPACK_LIMITS: UnpackLimits = { maxBytes: 256 * 2 ** 30, maxEntries: 5_000_000 };

/** Headers, padding and what follows the end of an archive count too: a stream of nothing but zeros is cut here. */
const STREAM_BYTES_PER_ENTRY = 8 << 10;

export class UnpackBudget {
  readonly #limits: UnpackLimits;
  entries = 0;
  /** Declared content of the files so far. */
  bytes = 0;
  /** Uncompressed bytes of the stream so far. */
  streamBytes = 0;

  constructor(limits: UnpackLimits) {
    this.#limits = limits;
  }

  addEntry(sizeBytes: number): void {
    const { maxBytes, maxEntries } = this.#limits;
    this.entries++;
    if (this.entries > maxEntries) throw tooBig(`more than ${String(maxEntries)} entries`);
    this.bytes += sizeBytes;
    if (this.bytes > maxBytes) throw tooBig(`more than ${String(maxBytes)} bytes of files`);
  }

  addStream(bytes: number): void {
    this.streamBytes += bytes;
    const max = this.#limits.maxBytes + this.#limits.maxEntries * STREAM_BYTES_PER_ENTRY;
    if (this.streamBytes > max) throw tooBig(`more than ${String(max)} bytes uncompressed`);
  }
}

function tooBig(what: string): GantryError {
  return new GantryError('ResourceExhausted', `the layer is too big: it has ${what}`);
}
