import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pageSizeName } from './huge-pages.ts';

test("sizes of huge pages in the kernel's words", () => {
  const folders = ['hugepages-64kB', 'hugepages-2048kB', 'hugepages-1048576kB', 'hugepages-x', 'other'];
  assert.deepEqual(folders.map(pageSizeName), ['64KB', '2MB', '1GB', undefined, undefined]);
});
