import type { Op } from '../../lib/abort.ts';
import { messageOf } from '../../lib/errors.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Secret } from '../../kube/objects.ts';
import type { NodePod } from '../pods/node-pod.ts';

/** The Secrets that a pod names for its pulls. One that cannot be read is left out and said: another, or none, may do. */
export async function pullSecrets(op: Op, kube: KubeClient, pod: NodePod): Promise<Secret[]> {
  const names = (pod.spec.imagePullSecrets ?? []).flatMap(({ name }) => name ?? []);
  const found = await Promise.all(
    names.map(async (name) => {
      try {
        return [await kube.get(op, 'secrets', { namespace: pod.namespace, name })];
      } catch (error) {
        op.log.warn({ podUid: pod.uid, secret: name, error: messageOf(error) }, 'an imagePullSecret cannot be read');
        return [];
      }
    }),
  );
  return found.flat();
}
