import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdir, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { isKind } from '../../../src/lib/errors.ts';
import { OnePod } from './one-pod.ts';
import { op, type RuntimeFixture } from './runtime-fixture.ts';

const root = process.getuid?.() !== 0 && 'needs root';
let scene: OnePod;
let f: RuntimeFixture;

before(async () => {
  if (root !== false) return;
  scene = await OnePod.make('devices', {
    more: { privileged: true },
    prepare: ({ cdiSpecDir }) => mkdir(cdiSpecDir),
  });
  f = scene.fixture;
});

after(async () => {
  if (root === false) await scene[Symbol.asyncDispose]();
});

async function run(more: object, script: string): Promise<string> {
  const id = await scene.run(more);
  const { stdout, stderr } = await f.exec(id, 'sh', '-c', script);
  await f.cri.removeContainer(op, { containerId: id });
  return stdout + stderr;
}

test('devices of the host: by a link, a folder of them, and with what may be done', { skip: root }, async () => {
  const link = join(f.root.dir, 'zero-link');
  await symlink('/dev/zero', link);
  const folder = join(f.root.dir, 'nodes');
  await mkdir(join(folder, 'deep'), { recursive: true });
  execFileSync('mknod', [join(folder, 'deep/full'), 'c', '1', '7']);
  const devices = [
    { hostPath: link, containerPath: '/dev/only/read', permissions: 'r' },
    { hostPath: '/dev/zero', containerPath: '/dev/all', permissions: '' },
    { hostPath: folder, containerPath: '/dev/folder', permissions: 'rw' },
  ];
  const read = 'head -c 3 /dev/all | wc -c';
  const said = await run({ devices }, `${read}; (echo x > /dev/all) && echo written; echo x > /dev/folder/deep/full`);
  assert.match(said, /^3\nwritten\n.*[Nn]o space left/);
  // Rules of one number are one: the container's own /dev/zero may be written to.
  assert.match(await run({ devices: devices.slice(0, 1) }, 'ls -l /dev/only/read'), /^c.* 1, +5 .*\/dev\/only\/read/);
  for (const hostPath of ['/dev/no-such-device', '/proc/self/status']) {
    const asked = { devices: [{ hostPath, containerPath: '/dev/x', permissions: 'r' }] };
    await assert.rejects(scene.create(asked), new RegExp(`device ${hostPath}`), 'at the creation');
  }
});

test('a privileged container has the devices that the host has now', { skip: root }, async () => {
  const linux = { securityContext: { privileged: true } };
  const seen = (await run({ linux }, 'find /dev -type c -o -type b | wc -l')).trim();
  const plain = (await run({}, 'find /dev -type c -o -type b | wc -l')).trim();
  assert.ok(Number(seen) > Number(plain), `${seen} and ${plain}`);
});

test('CDI: devices by field and by annotation, as the files are at that moment', { skip: root }, async () => {
  const spec = join(f.root.cdiSpecDir, 'test.yaml');
  const shared = join(f.root.dir, 'shared');
  await mkdir(shared);
  await writeFile(join(shared, 'file'), 'of the vendor');
  const asked = { CDIDevices: [{ name: 'test.org/thing=one' }], annotations: { 'cdi.k8s.io/x': 'test.org/thing=two' } };
  await assert.rejects(
    scene.create(asked),
    (error) => isKind(error, 'FailedPrecondition') && /test.org\/thing=one, test.org\/thing=two/.test(String(error)),
  );
  await writeFile(
    spec,
    `
cdiVersion: 0.6.0
kind: test.org/thing
containerEdits: {env: [THING=all]}
devices:
- name: one
  containerEdits:
    deviceNodes: [{path: /dev/vendor/one, hostPath: /dev/full, permissions: rw}]
    mounts: [{hostPath: ${shared}, containerPath: /vendor, options: [ro, nosuid, bind]}]
- name: two
  containerEdits:
    env: [TWO=2]
    hooks: [{hookName: createRuntime, path: /bin/touch, args: [touch, ${join(shared, 'hooked')}]}]
`,
  );
  const script = 'echo $THING $TWO; cat /vendor/file; ls /vendor; echo x > /dev/vendor/one';
  const said = await run({ ...asked }, script);
  assert.match(said, /^all 2\nof the vendorfile\nhooked\n/);
  assert.match(said, /[Nn]o space left/, 'the host’s /dev/full under another name');
  await writeFile(spec, 'kind: nonsense');
  await assert.rejects(scene.create(asked), new RegExp(`CDI file ${spec}: cdiVersion`));
  await rm(spec);
});
