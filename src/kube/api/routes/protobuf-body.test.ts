import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { GantryError } from '../../../lib/errors.ts';
import { decodeProtobuf } from './protobuf-body.ts';

/** As Kubernetes' own Go library writes them (k8s.io/api, runtime/serializer/protobuf). */
const CONFIG_MAP =
  'azhzAAoPCgJ2MRIJQ29uZmlnTWFwEl8KNgoIc2V0dGluZ3MSABoHZGVmYXVsdCIAKgAyADgAQgBaCgoDYXBwEgN3ZWJaCQoFZW1wdHkSABIMCgRtb2RlEgRmYXN0EggKBG5vbmUSABoLCgR6ZXJvEgMAAQIgARoAIgA=';
const SECRET = 'azhzAAoMCgJ2MRIGU2VjcmV0Ei8KFAoAEgRrZXktGgAiACoAMgA4AEIAEg8KBXRva2VuEgZzM2NyZXQaBk9wYXF1ZRoAIgA=';
const NAMESPACE =
  'azhzAAoPCgJ2MRIJTmFtZXNwYWNlEj8KNwoEdGVhbRIAGgAiACoAMgA4AEIAYggKA2EvYhIBY2oSCgROb2RlGgFuIgF1KgJ2MTABcgN4L3kSABoCCgAaACIA';
const DELETE_OPTIONS = 'azhzAAoTCgJ2MRINRGVsZXRlT3B0aW9ucxIOCAASBQoDdS0xKgNBbGwaACIA';
const POD =
  'azhzAAoJCgJ2MRIDUG9kEmIKEQoBcBIAGgAiACoAMgA4AEIAEjgSGgoBYRIBYioAQgBqAHIAgAEAiAEAkAEAogEAGgAyAEIASgBSAFgAYABoAIIBAIoBAJoBAMIBABoTCgAaACIAKgAyAEoAWgByAIgBABoAIgA=';

const bytesOf = (base64: string): Buffer => Buffer.from(base64, 'base64');

test('a ConfigMap: empty fields are left out, empty values are kept', () => {
  assert.deepEqual(decodeProtobuf(bytesOf(CONFIG_MAP)), {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { name: 'settings', namespace: 'default', labels: { app: 'web', empty: '' } },
    data: { mode: 'fast', none: '' },
    binaryData: { zero: 'AAEC' },
    immutable: true,
  });
});

test('a Secret', () => {
  assert.deepEqual(decodeProtobuf(bytesOf(SECRET)), {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { generateName: 'key-' },
    data: { token: Buffer.from('s3cret').toString('base64') },
    type: 'Opaque',
  });
});

test('a Namespace', () => {
  assert.deepEqual(decodeProtobuf(bytesOf(NAMESPACE)), {
    apiVersion: 'v1',
    kind: 'Namespace',
    metadata: {
      name: 'team',
      annotations: { 'a/b': 'c' },
      ownerReferences: [{ apiVersion: 'v1', kind: 'Node', name: 'n', uid: 'u', controller: true }],
      finalizers: ['x/y'],
    },
  });
});

test('options of a deletion: a grace of 0 is one', () => {
  assert.deepEqual(decodeProtobuf(bytesOf(DELETE_OPTIONS)), {
    apiVersion: 'v1',
    kind: 'DeleteOptions',
    gracePeriodSeconds: 0,
    preconditions: { uid: 'u-1' },
    dryRun: ['All'],
  });
});

test('another kind is refused, with what to do', () => {
  assert.throws(() => decodeProtobuf(bytesOf(POD)), {
    message:
      'a Pod is read as JSON or YAML here, and not as protobuf: use kubectl apply -f, or the content type application/json (as protobuf: ConfigMap, Secret, Namespace, DeleteOptions)',
  });
});

test('a field that is not known is not dropped silently', () => {
  // The ConfigMap with a field 9 at its end, which is a text of one letter.
  const known = bytesOf(CONFIG_MAP);
  const at = known.indexOf(Buffer.from([0x12, 0x5f])) + 1;
  const more = Buffer.concat([known.subarray(0, at), Buffer.from([0x62]), known.subarray(at + 1, at + 1 + 0x5f)]);
  const bytes = Buffer.concat([more, Buffer.from([0x4a, 1, 0x78])]);
  assert.throws(() => decodeProtobuf(bytes), /^GantryError: ConfigMap: unknown field number 9/);
});

test('garbage is a bad request, and never anything else', () => {
  const refused = (bytes: Uint8Array): void => {
    try {
      decodeProtobuf(bytes);
    } catch (error) {
      assert.ok(error instanceof GantryError && error.kind === 'InvalidArgument', String(error));
    }
  };
  assert.throws(
    () => decodeProtobuf(Buffer.from('{"kind":"ConfigMap"}')),
    /does not begin as Kubernetes' protobuf does/,
  );
  const good = bytesOf(CONFIG_MAP);
  for (let length = 0; length < good.length; length++) refused(good.subarray(0, length));
  fc.assert(fc.property(fc.uint8Array(), (bytes) => refused(Buffer.concat([good.subarray(0, 4), bytes]))));
  fc.assert(
    fc.property(fc.nat(good.length - 1), fc.nat(255), (at, byte) => {
      const bent = Buffer.from(good);
      bent[at] = byte;
      refused(bent);
    }),
  );
});
