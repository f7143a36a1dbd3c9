import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  hugePageName,
  hugePageOfMedium,
  hugePageOfResource,
  hugePagesResource,
  isHugePagesMedium,
} from './huge-pages.ts';

await test('the sizes of huge pages in all their spellings', () => {
  for (const [bytes, size, name] of [
    [64 << 10, '64Ki', '64KB'],
    [2 << 20, '2Mi', '2MB'],
    [1 << 30, '1Gi', '1GB'],
  ] as const) {
    assert.equal(hugePageOfResource(`hugepages-${size}`), bytes);
    assert.equal(hugePageOfMedium(`HugePages-${size}`), bytes);
    assert.equal(hugePagesResource(bytes), `hugepages-${size}`);
    assert.equal(hugePageName(bytes), name);
  }
  assert.equal(hugePageOfResource('hugepages-2048Ki'), 2 << 20);
  for (const name of ['memory', 'hugepages-', 'hugepages-x', 'hugepages-0', 'hugepages--1']) {
    assert.equal(hugePageOfResource(name), undefined, name);
  }
  assert.deepEqual(
    ['', 'Memory', 'HugePages', 'HugePages-2Mi', 'HugePages-', 'HugePages-x', 'hugepages-2Mi'].map(isHugePagesMedium),
    [false, false, true, true, false, false, false],
  );
});
