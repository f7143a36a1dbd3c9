import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseSpecFile } from './spec-file.ts';

const NONE = { env: [], deviceNodes: [], mounts: [], hooks: [], additionalGids: [] };

test('a file with everything in it, as YAML and as JSON', () => {
  const yaml = `
cdiVersion: "0.7.0"
kind: vendor.com/gpu
annotations: {note: x}
containerEdits:
  env: [ALL=1]
devices:
- name: "0"
  annotations: {n: y}
  containerEdits:
    env: ["A=b=c"]
    deviceNodes:
    - {path: /dev/gpu0, hostPath: /dev/real0, type: c, major: 10, minor: 3, fileMode: 0660, permissions: rw, uid: 1, gid: 2}
    mounts:
    - {hostPath: /usr/lib/gpu, containerPath: /lib/gpu, options: [ro, bind], type: bind}
    hooks:
    - {hookName: createContainer, path: /bin/hook, args: [hook, a], env: [B=1], timeout: 3}
    additionalGids: [0, 44]
- name: all.of-them
  containerEdits: {}
`;
  const spec = parseSpecFile(yaml, '/etc/cdi/gpu.yaml');
  assert.equal(spec.kind, 'vendor.com/gpu');
  assert.deepEqual(spec.edits, { ...NONE, env: ['ALL=1'] });
  const node = { path: '/dev/gpu0', hostPath: '/dev/real0', type: 'c', major: 10, minor: 3, fileMode: 0o660 };
  assert.deepEqual(Object.fromEntries(spec.devices), {
    0: {
      env: ['A=b=c'],
      deviceNodes: [{ ...node, permissions: 'rw', uid: 1, gid: 2 }],
      mounts: [{ hostPath: '/usr/lib/gpu', containerPath: '/lib/gpu', options: ['ro', 'bind'], type: 'bind' }],
      hooks: [{ name: 'createContainer', path: '/bin/hook', args: ['hook', 'a'], env: ['B=1'], timeoutSeconds: 3 }],
      additionalGids: [44],
    },
    'all.of-them': NONE,
  });
  const json = { cdiVersion: '0.3.0', kind: 'v/c', devices: [{ name: 'a', containerEdits: { env: ['X=1'] } }] };
  assert.deepEqual(parseSpecFile(JSON.stringify(json), 'f').devices.get('a'), { ...NONE, env: ['X=1'] });
});

test('what is wrong is said with file and field', () => {
  const device = { name: 'a', containerEdits: {} };
  const file = { cdiVersion: '1.0.0', kind: 'v/c', devices: [device] };
  const edits = (containerEdits: object): object => ({ ...file, containerEdits });
  const wrong: readonly (readonly [unknown, RegExp])[] = [
    ['{', /./],
    [[], /the file: is no object/],
    [{ ...file, cdiVersion: '2.0.0' }, /cdiVersion "2.0.0": known are/],
    [{ ...file, cdiVersion: undefined }, /cdiVersion ""/],
    [{ ...file, kind: 'vendor' }, /kind "vendor"/],
    [{ ...file, devices: [] }, /devices: there are none/],
    [{ ...file, devices: {} }, /devices: should be a list/],
    [{ ...file, devices: [device, device] }, /devices\[1\].name a: there are two/],
    [{ ...file, devices: [{ name: '-a', containerEdits: {} }] }, /devices\[0\].name "-a"/],
    [{ ...file, devices: [{ name: 'a' }] }, /devices\[0\].containerEdits: not there/],
    [{ ...file, more: 1 }, /more: no such field/],
    [edits({ enf: [] }), /containerEdits.enf: no such field/],
    [edits({ env: ['A'] }), /no NAME=value/],
    [edits({ env: [1] }), /containerEdits.env: should be a list of texts/],
    [edits({ deviceNodes: [{ path: 'dev/x' }] }), /deviceNodes\[0\].path "dev\/x"/],
    [edits({ deviceNodes: [{ path: '/dev/x', type: 'z' }] }), /type z/],
    [edits({ deviceNodes: [{ path: '/dev/x', major: 'a' }] }), /major: should be a whole number/],
    [edits({ deviceNodes: [{ path: '/dev/x', permissions: 'rx' }] }), /permissions rx/],
    [edits({ mounts: [{ containerPath: '/x' }] }), /hostPath: not there/],
    [edits({ hooks: [{ hookName: 'before', path: '/x' }] }), /hookName before/],
    [edits({ intelRdt: { closID: 'x' } }), /intelRdt: .*not supported/],
    [edits({ netDevices: [{}] }), /netDevices: .*not supported/],
  ];
  for (const [content, words] of wrong) {
    const text = typeof content === 'string' ? content : JSON.stringify(content);
    assert.throws(() => parseSpecFile(text, '/etc/cdi/x.json'), { kind: 'InvalidArgument', message: words }, text);
    assert.throws(() => parseSpecFile(text, '/etc/cdi/x.json'), /^GantryError: CDI file \/etc\/cdi\/x.json: /);
  }
});
