import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { SecurityProfile_ProfileType } from '../../../src/cri/gen/api.ts';
import { isKind } from '../../../src/lib/errors.ts';
import { container, op, pod, RuntimeFixture } from './runtime-fixture.ts';

const skip = process.getuid?.() !== 0 && 'needs root';
const APPARMOR = '/sys/module/apparmor/parameters/enabled';
const hasAppArmor = existsSync(APPARMOR) && readFileSync(APPARMOR, 'utf8').startsWith('Y');
const hasSeLinux = existsSync('/sys/fs/selinux/enforce');

test('confinement that cannot be given is refused or said, never left out in silence', { skip }, async () => {
  await using f = await RuntimeFixture.make();
  const config = pod(f.root, 'confined');
  const sandboxId = await f.runSandbox(config);
  const apparmor = { profileType: SecurityProfile_ProfileType.Localhost, localhostRef: 'gantry-test-not-loaded' };
  const strict = container('strict', ['true'], { linux: { securityContext: { apparmor } } });
  // With AppArmor it is the OCI runtime that finds no such profile.
  await assert.rejects(f.runContainer(sandboxId, config, strict), (error) =>
    hasAppArmor
      ? /apparmor/i.test(String(error))
      : isKind(error, 'FailedPrecondition') && /AppArmor/.test(String(error)),
  );

  const securityContext = { selinuxOptions: { user: '', role: '', type: 'spc_t', level: 's0' } };
  const labelled = container('labelled', ['true'], { linux: { securityContext } });
  const created = f.createContainer(sandboxId, config, labelled);
  if (hasSeLinux) await assert.rejects(created, (error) => isKind(error, 'NotImplemented'));
  else {
    await created;
    const { entries } = await f.runtime.inspector.explain(op, { subject: { podName: 'confined' } });
    const notes = entries.filter(({ what }) => what === 'container.not-given');
    assert.match(notes.map(({ message }) => message).join('\n'), /spc_t/);
  }
  await f.endPod(sandboxId);
});
