import { closeSync, fsyncSync, openSync, unlinkSync, writeSync } from 'node:fs';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { canceled } from '../../../lib/errors.ts';
import { fromNodeError } from '../../../linux/errno.ts';
import { packChanges, packDirectory } from '../unpack/pack-directory.ts';
import type { JobContext } from './layer-job.ts';
import type { ArchiveJob } from './protocol.ts';

/** How much is packed in one go before other jobs of the thread, and a cancel, get their turn. */
const TURN_BYTES = 1 << 20;

/** On the disk when it is done; nothing is left of one that fails. */
export async function runArchiveJob(
  { what, directory, file }: ArchiveJob,
  { sys, signal, progress }: JobContext,
): Promise<{ bytes: number }> {
  let fd: number;
  try {
    fd = openSync(file, 'wx', 0o600);
  } catch (error) {
    throw fromNodeError(error, `archive ${file}`);
  }
  try {
    let bytes = 0;
    let turnEnds = TURN_BYTES;
    for (const piece of what === 'changes' ? packChanges(sys, directory) : packDirectory(sys, directory)) {
      for (let written = 0; written < piece.length;) written += writeSync(fd, piece, written);
      bytes += piece.length;
      if (bytes < turnEnds) continue;
      turnEnds = bytes + TURN_BYTES;
      progress(bytes);
      await nextTurn();
      if (signal.aborted) throw canceled('writing the archive was canceled');
    }
    fsyncSync(fd);
    return { bytes };
  } catch (error) {
    unlinkSync(file);
    throw error;
  } finally {
    closeSync(fd);
  }
}
