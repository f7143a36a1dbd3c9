import { isKind, type ErrorKind } from '../../lib/errors.ts';
import type { RuntimeContext } from '../context.ts';
import type { ContainerStatus } from './state.ts';

/** Full, failing, and read-only: which a file system becomes by itself when it finds an error. */
const DISK_TAKES_NOTHING: readonly ErrorKind[] = ['ResourceExhausted', 'Unavailable', 'PermissionDenied'];

/**
 * On disk before anybody is told, or anything is done; but a disk that takes nothing must keep nothing from ending: then it is told first.
 * Throws NotFound when the container is gone, and what `change` throws.
 */
export async function durably(
  rt: Pick<RuntimeContext, 'containers'>,
  id: string,
  change: (status: ContainerStatus) => ContainerStatus,
): Promise<ContainerStatus> {
  try {
    return await rt.containers.update(id, change);
  } catch (error) {
    if (!isKind(error, ...DISK_TAKES_NOTHING)) throw error;
    const status = rt.containers.publishFirst(id, change);
    if (status === undefined) throw error;
    return status;
  }
}
