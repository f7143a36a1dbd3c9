import type { Op } from '../../lib/abort.ts';
import { isKind } from '../../lib/errors.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { ConfigMap, Secret } from '../../kube/objects.ts';
import { References, type Reference } from './env.ts';

/** Looks up ConfigMaps and Secrets, each once. Those that do not exist are simply not in the answer. */
export async function readReferences(
  op: Op,
  kube: Pick<KubeClient, 'get'>,
  namespace: string,
  references: readonly Reference[],
): Promise<References> {
  const found = new Map<string, ConfigMap | Secret>();
  await Promise.all(
    references.map(async (reference) => {
      try {
        found.set(References.keyOf(reference), await kube.get(op, reference.kind, { namespace, name: reference.name }));
      } catch (error) {
        if (!isKind(error, 'NotFound')) throw error;
      }
    }),
  );
  return new References(found);
}
