import type { Pod, PodSpec } from '../../kube/objects.ts';
import { toNodePod, type NodePod } from './node-pod.ts';

/** A small valid pod for tests. */
export function testPod(spec: Partial<PodSpec> = {}, metadata: Partial<Pod['metadata']> = {}): NodePod {
  return toNodePod({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      name: 'web',
      namespace: 'default',
      uid: '8c6bd6e0-0000-4000-8000-000000000001',
      resourceVersion: '1',
      creationTimestamp: '2026-01-01T00:00:00Z',
      ...metadata,
    },
    spec: {
      containers: [{ name: 'main', image: 'example.test/app:1' }],
      restartPolicy: 'Always',
      terminationGracePeriodSeconds: 30,
      ...spec,
    },
  });
}
