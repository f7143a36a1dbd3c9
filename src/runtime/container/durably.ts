import { isKind, type ErrorKind } from '../../lib/errors.ts';
import type { RecordStore } from '../store/record-store.ts';

/** Full, failing, and read-only: which a file system becomes by itself when it finds an error. */
const DISK_TAKES_NOTHING: readonly ErrorKind[] = ['ResourceExhausted', 'Unavailable', 'PermissionDenied'];

/**
 * On disk before anybody is told, or anything is done; but a disk that takes nothing must keep nothing from ending: then it is told first.
 * Throws NotFound when the object is gone, and what `change` throws.
 */
export async function durably<Meta extends { readonly id: string }, Status>(
  store: RecordStore<Meta, Status>,
  id: string,
  change: (status: Status) => Status,
): Promise<Status> {
  try {
    return await store.update(id, change);
  } catch (error) {
    if (!isKind(error, ...DISK_TAKES_NOTHING)) throw error;
    const status = store.publishFirst(id, change);
    if (status === undefined) throw error;
    return status;
  }
}
