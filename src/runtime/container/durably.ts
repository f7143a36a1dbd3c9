import { isKind } from '../../lib/errors.ts';
import type { RuntimeContext } from '../context.ts';
import type { ContainerStatus } from './state.ts';

/**
 * On disk before anybody is told, or anything is done; but a full disk must keep nothing from ending: then it is told first.
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
    if (!isKind(error, 'ResourceExhausted', 'Unavailable')) throw error;
    const status = rt.containers.publishFirst(id, change);
    if (status === undefined) throw error;
    return status;
  }
}
