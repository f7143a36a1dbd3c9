import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { PodSandboxConfig, SecurityProfile_ProfileType } from '../../../src/cri/gen/api.ts';
import { isKind } from '../../../src/lib/errors.ts';
import { container, op, pod, RuntimeFixture } from './runtime-fixture.ts';

const skip = process.getuid?.() !== 0 && 'needs root';
const APPARMOR = '/sys/module/apparmor/parameters/enabled';
const hasAppArmor = existsSync(APPARMOR) && readFileSync(APPARMOR, 'utf8').startsWith('Y');
const hasParser = hasAppArmor && existsSync('/usr/sbin/apparmor_parser');
const hasSeLinux = existsSync('/sys/fs/selinux/enforce');

test('confinement that cannot be given is refused or said, never left out in silence', { skip }, async () => {
  await using f = await RuntimeFixture.make();
  const config = pod(f.root, 'confined');
  const sandboxId = await f.runSandbox(config);
  const apparmor = { profileType: SecurityProfile_ProfileType.Localhost, localhostRef: 'gantry-test-not-loaded' };
  const strict = container('strict', ['true'], { linux: { securityContext: { apparmor } } });
  const words = hasAppArmor ? /gantry-test-not-loaded is not loaded/ : /this host has no AppArmor/;
  await assert.rejects(
    f.createContainer(sandboxId, config, strict),
    (error) => isKind(error, 'FailedPrecondition') && words.test(String(error)),
  );
  const plain = await f.runContainer(sandboxId, config, container('plain', ['sleep', '600']));
  const own = (await f.exec(plain, 'cat', '/proc/1/attr/current')).stdout;
  if (hasParser) assert.match(own, /^gantry-default \(enforce\)/);
  else assert.doesNotMatch(own, /gantry/);

  const securityContext = { selinuxOptions: { user: '', role: '', type: 'spc_t', level: 's0' } };
  const labelled = container('labelled', ['true'], { linux: { securityContext } });
  const unlabelled = (error: unknown): boolean =>
    isKind(error, hasSeLinux ? 'NotImplemented' : 'FailedPrecondition') && /spc_t/.test(String(error));
  await assert.rejects(f.createContainer(sandboxId, config, labelled), unlabelled);
  const labelledPod = pod(f.root, 'labelled');
  await assert.rejects(
    f.runSandbox({ ...labelledPod, linux: PodSandboxConfig.fromPartial({ linux: { securityContext } }).linux }),
    unlabelled,
  );

  const mounts = [{ hostPath: f.root.dir, containerPath: '/m', selinuxRelabel: true }];
  await f.createContainer(sandboxId, config, container('relabelled', ['true'], { mounts }));
  const { entries } = await f.runtime.inspector.explain(op, { subject: { podName: 'confined' } });
  const notes = entries.filter(({ what }) => what === 'container.not-given');
  assert.match(notes.map(({ message }) => message).join('\n'), /selinux_relabel/);
  await f.endPod(sandboxId);
});
