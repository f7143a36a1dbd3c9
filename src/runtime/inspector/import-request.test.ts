import assert from 'node:assert/strict';
import { test } from 'node:test';
import { importRequest } from './import-request.ts';

test('an archive, a layout, a root filesystem with all its settings', () => {
  assert.deepEqual(importRequest({ path: '/a', source: 'archive' }), { kind: 'archive', path: '/a' });
  assert.deepEqual(importRequest({ path: '/a', source: 'layout', name: 'x:1' }), {
    ...{ kind: 'archive', path: '/a', name: 'x:1' },
  });
  const settings = { entrypoint: ['/bin/sh'], cmd: ['-c'], env: ['A=1'], user: '7' };
  assert.deepEqual(importRequest({ path: '/r', source: 'rootfs', name: 'x:1', workingDir: '/w', ...settings }), {
    ...{ kind: 'rootfs', path: '/r', name: 'x:1' },
    settings: { ...settings, workdir: '/w' },
  });
});
