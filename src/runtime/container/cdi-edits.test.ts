import assert from 'node:assert/strict';
import { constants } from 'node:fs';
import { test } from 'node:test';
import { notFound } from '../../lib/errors.ts';
import { silentLog } from '../../lib/log.ts';
import type { PathStat } from '../../linux/hang-safe.ts';
import type { ContainerEdits } from '../cdi/container-edits.ts';
import type { OciSpec } from '../oci/spec.ts';
import { applyCdiEdits } from './cdi-edits.ts';

const op = { signal: new AbortController().signal, log: silentLog };
const NONE: ContainerEdits = { env: [], deviceNodes: [], mounts: [], hooks: [], additionalGids: [] };
const device: PathStat = {
  mode: constants.S_IFCHR | 0o660,
  uid: 0,
  gid: 5,
  sizeBytes: 0,
  dev: 1,
  ino: 1,
  rdev: 0x0a03,
};
const files = {
  stat: (_op: unknown, path: string): Promise<PathStat> => {
    if (path === '/dev/real') return Promise.resolve(device);
    if (path === '/etc/file') return Promise.resolve({ ...device, mode: constants.S_IFREG, rdev: 0 });
    return Promise.reject(notFound(path, { details: { errno: 'ENOENT' } }));
  },
};
const base: OciSpec = {
  ociVersion: '1.0.2',
  process: { user: { uid: 7, gid: 0, additionalGids: [0] }, args: ['x'], env: ['PATH=/bin', 'A=old'], cwd: '/' },
  root: { path: '/r' },
  mounts: [
    { destination: '/proc', type: 'proc' },
    { destination: '/lib/gpu', source: '/old' },
  ],
  linux: {
    namespaces: [],
    resources: { devices: [{ allow: false, access: 'rwm' }] },
    devices: [{ type: 'c', path: '/dev/x' }],
  },
};
const apply = (...edits: Partial<ContainerEdits>[]): Promise<OciSpec> =>
  applyCdiEdits(
    op,
    files,
    base,
    edits.map((one) => ({ ...NONE, ...one })),
  );

test('nothing asked for, nothing changed', async () => {
  assert.deepEqual(await apply(), base);
  assert.deepEqual((await apply(NONE)).process, base.process);
});

test('variables, groups, mounts and hooks are added, and take the place of what they name again', async () => {
  const hook = { name: 'createRuntime', path: '/h', args: ['h'], env: [] } as const;
  const spec = await apply(
    { env: ['A=new', 'B=1'], additionalGids: [44, 0], hooks: [hook] },
    {
      hooks: [{ ...hook, args: [], timeoutSeconds: 2 }],
      mounts: [
        { hostPath: '/new', containerPath: '/lib/gpu', options: ['ro', 'bind'] },
        { hostPath: '/top', containerPath: '/top', options: [], type: 'bind' },
      ],
    },
  );
  assert.deepEqual(spec.process.env, ['PATH=/bin', 'A=new', 'B=1']);
  assert.deepEqual(spec.process.user.additionalGids, [0, 44]);
  assert.deepEqual(spec.hooks, {
    createRuntime: [
      { path: '/h', args: ['h'] },
      { path: '/h', timeout: 2 },
    ],
  });
  assert.deepEqual(spec.mounts, [
    { destination: '/proc', type: 'proc' },
    { destination: '/top', source: '/top', type: 'bind', options: [] },
    { destination: '/lib/gpu', source: '/new', options: ['ro', 'bind'] },
  ]);
});

test('what a node does not say of itself is the host’s, its owner the process’s own', async () => {
  const { linux } = await apply({
    deviceNodes: [
      { path: '/dev/x', hostPath: '/dev/real', permissions: 'r' },
      { path: '/dev/y', type: 'b', major: 1, minor: 2, uid: 0, fileMode: 0o600 },
      { path: '/run/fifo', type: 'p' },
    ],
  });
  assert.deepEqual(linux.devices, [
    { type: 'c', path: '/dev/x', major: 10, minor: 3, uid: 7 },
    { type: 'b', path: '/dev/y', major: 1, minor: 2, uid: 0, fileMode: 0o600 },
    { type: 'p', path: '/run/fifo', uid: 7 },
  ]);
  assert.deepEqual(linux.resources?.devices?.slice(1), [
    { allow: true, type: 'c', major: 10, minor: 3, access: 'r' },
    { allow: true, type: 'b', major: 1, minor: 2, access: 'rwm' },
  ]);
  for (const node of [
    { path: '/dev/none' },
    { path: '/dev/z', hostPath: '/etc/file' },
    { path: '/dev/z', hostPath: '/dev/real', type: 'b' as const },
  ]) {
    await assert.rejects(apply({ deviceNodes: [node] }), { kind: 'FailedPrecondition' }, node.path);
  }
});
