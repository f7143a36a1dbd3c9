import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Mount, MountPropagation } from '../../cri/gen/api.ts';
import type { MountInput } from '../oci/container-spec-input.ts';
import { mountInputs } from './mount-inputs.ts';

const { PROPAGATION_BIDIRECTIONAL, PROPAGATION_HOST_TO_CONTAINER } = MountPropagation;
const base = { containerPath: '/c', hostPath: '/h' };
const able = { recursiveReadOnlyMounts: true, userNamespaces: false };

function input(partial: Parameters<typeof Mount.fromPartial>[0], features = able): MountInput | undefined {
  return mountInputs({ mounts: [Mount.fromPartial({ ...base, ...partial })] }, features)[0];
}

test('mounts of the host', () => {
  const plain = { ...base, hostPath: '/h', readOnly: false, propagation: 'private' };
  assert.deepEqual(input({}), plain);
  assert.deepEqual(input({ readonly: true }), { ...plain, readOnly: true });
  assert.deepEqual(input({ propagation: PROPAGATION_HOST_TO_CONTAINER }), { ...plain, propagation: 'rslave' });
  assert.deepEqual(input({ propagation: PROPAGATION_BIDIRECTIONAL }), { ...plain, propagation: 'rshared' });
  const [real] = mountInputs({ mounts: [Mount.fromPartial(base)] }, able, ['/real']);
  assert.equal(real?.hostPath, '/real', 'where the links of the path lead');
  for (const wrong of [{ containerPath: '' }, { hostPath: 'h' }, { hostPath: '' }, { imageSubPath: 'x' }]) {
    assert.throws(() => input(wrong), { kind: 'InvalidArgument' }, JSON.stringify(wrong));
  }
});

test('recursive read-only: with readonly, without propagation, and where there is such a thing', () => {
  const wanted = { readonly: true, recursiveReadOnly: true };
  assert.equal(input(wanted)?.recursiveReadOnly, true);
  assert.equal(input({ readonly: true })?.recursiveReadOnly, undefined);
  for (const wrong of [
    { recursiveReadOnly: true },
    { ...wanted, propagation: PROPAGATION_BIDIRECTIONAL },
    { ...wanted, propagation: PROPAGATION_HOST_TO_CONTAINER },
  ]) {
    assert.throws(() => input(wrong), { kind: 'InvalidArgument' }, JSON.stringify(wrong));
  }
  const unable = { recursiveReadOnlyMounts: false, userNamespaces: false };
  assert.throws(() => input(wanted, unable), { kind: 'FailedPrecondition', message: /^RROUnsupported: / });
  // With ids, as kubelet gives them to every mount of a pod with a user namespace.
  const ids = [{ containerId: 0, hostId: 65_536, length: 65_536 }];
  const image = { ...wanted, hostPath: '', image: { image: 'data' }, uidMappings: ids, gidMappings: ids };
  assert.deepEqual(input(image, unable), {
    containerPath: '/c',
    hostPath: '/',
    readOnly: true,
    propagation: 'private',
  });
});
