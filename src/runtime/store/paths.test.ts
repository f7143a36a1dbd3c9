import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RuntimePaths } from './paths.ts';

test('an OCI runtime is told by its state folder, and nothing else is taken for one', () => {
  const paths = new RuntimePaths('/root', '/state');
  assert.equal(paths.ociRuntimeOf(paths.ociState('crun')), 'crun');
  for (const path of ['/state/oci-', '/state/exec', '/elsewhere/oci-crun', '/state/oci-crun/id']) {
    assert.equal(paths.ociRuntimeOf(path), undefined, path);
  }
});
