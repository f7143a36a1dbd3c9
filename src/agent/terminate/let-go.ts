import type { Op } from '../../lib/abort.ts';
import { isKind, messageOf } from '../../lib/errors.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { NodePod } from '../pods/node-pod.ts';
import type { PodPaths } from '../pods/paths.ts';
import type { TreeRemover } from '../volumes/plugin.ts';

/** Deletes the pod's logs. Something mounted among them keeps them, and nobody waits for that: it is only told. */
export async function removeLogs(
  op: Op,
  remover: TreeRemover,
  paths: PodPaths,
  pod: NodePod,
): Promise<string | undefined> {
  try {
    const outcome = await remover.remove(op, { root: paths.logRoot, path: paths.logs(pod) });
    return outcome.kind === 'blocked' ? outcome.blockers.map(({ message }) => message).join('; ') : undefined;
  } catch (error) {
    if (op.signal.aborted) throw error;
    return isKind(error, 'NotFound') ? undefined : messageOf(error);
  }
}

/**
 * The agent's last word: nothing of the pod is left, its object may go. By uid, so that it cannot hit a successor of the same
 * name; that the object is gone already is what was wanted.
 */
export async function deleteObject(op: Op, kube: Pick<KubeClient, 'delete'>, pod: NodePod): Promise<void> {
  const key = { namespace: pod.namespace, name: pod.name };
  try {
    await kube.delete(op, 'pods', key, { gracePeriodSeconds: 0, preconditions: { uid: pod.uid } });
  } catch (error) {
    // Aborted: the name belongs to another uid by now.
    if (!isKind(error, 'NotFound', 'Aborted')) throw error;
  }
}
