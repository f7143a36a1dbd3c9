import assert from 'node:assert/strict';
import { test } from 'node:test';
import { testPod } from '../../pods/test-pod.ts';
import { hugePagesFileSystem } from './empty-dir.ts';

const MiB = 1 << 20;
const pod = (...resources: string[]): ReturnType<typeof testPod> =>
  testPod({
    containers: resources.map((name) => ({
      name: 'main',
      image: 'i',
      resources: { limits: { memory: '64Mi', ...(name === '' ? {} : { [name]: '1Gi' }) } },
    })),
  });

await test('a volume of huge pages: of the pod’s only size, or of the one that is named and asked for', () => {
  const data = (medium: string, of: ReturnType<typeof testPod>, sizeLimit?: string): string =>
    hugePagesFileSystem({ medium, ...(sizeLimit === undefined ? {} : { sizeLimit }) }, of).data;
  assert.equal(data('HugePages', pod('hugepages-2Mi', '')), `pagesize=${String(2 * MiB)},mode=0777`);
  assert.equal(
    data('HugePages-1Gi', pod('hugepages-2Mi', 'hugepages-1Gi')),
    `pagesize=${String(1024 * MiB)},mode=0777`,
  );
  assert.equal(
    data('HugePages', pod('hugepages-2Mi'), '5Mi'),
    `pagesize=${String(2 * MiB)},size=${String(4 * MiB)},mode=0777`,
  );
  assert.equal(
    data('HugePages', pod('hugepages-2Mi'), '1'),
    `pagesize=${String(2 * MiB)},size=${String(2 * MiB)},mode=0777`,
  );
  assert.throws(() => data('HugePages', pod('hugepages-2Mi', 'hugepages-1Gi')), /several sizes: name one/);
  for (const [medium, of] of [
    ['HugePages', pod('')],
    ['HugePages-1Gi', pod('hugepages-2Mi')],
  ] as const) {
    assert.throws(() => data(medium, of), /no container of the pod has such huge pages/, medium);
  }
});
