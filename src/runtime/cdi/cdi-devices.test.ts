import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { CdiDevices } from './cdi-devices.ts';

const file = (devices: readonly string[], env: string, kind = 'v/c'): string =>
  JSON.stringify({
    cdiVersion: '0.6.0',
    kind,
    containerEdits: { env: [`ALL=${env}`] },
    devices: devices.map((name) => ({ name, containerEdits: { env: [`${name}=${env}`] } })),
  });

test('devices of several folders: the last wins, two files of one folder have none, a change counts at once', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'gt-cdi-'));
  const [etc, run] = [join(dir, 'etc'), join(dir, 'run')];
  try {
    const devices = new CdiDevices([etc, run]);
    const env = async (...names: string[]): Promise<string[]> =>
      (await devices.editsFor(names)).flatMap((edits) => edits.env);
    await assert.rejects(env('v/c=a'), {
      kind: 'FailedPrecondition',
      message: /unresolvable CDI devices: v\/c=a, looked/,
    });
    assert.deepEqual(await env(), []);
    await mkdir(etc);
    await writeFile(join(etc, 'one.json'), file(['a', 'b'], 'etc'));
    await writeFile(join(etc, 'other.yaml'), file(['a'], 'etc2', 'v/d'));
    await writeFile(join(etc, 'not.txt'), 'x');
    assert.deepEqual(await env('v/c=a', 'v/d=a', 'v/c=b'), ['ALL=etc', 'a=etc', 'ALL=etc2', 'a=etc2', 'b=etc']);
    await mkdir(run);
    await writeFile(join(run, 'one.yaml'), file(['a'], 'run'));
    assert.deepEqual(await env('v/c=a', 'v/c=b'), ['ALL=run', 'a=run', 'ALL=etc', 'b=etc']);
    await writeFile(join(run, 'two.json'), file(['a'], 'two'));
    await assert.rejects(env('v/c=a'), /v\/c=a \(in .*run\/one.yaml and in .*run\/two.json\)/);
    await writeFile(join(run, 'two.json'), '{ "cdiVersion": ');
    assert.deepEqual(
      await env('v/c=a'),
      ['ALL=run', 'a=run'],
      'a file that cannot be used keeps nobody from the others',
    );
    await assert.rejects(env('v/c=none'), /v\/c=none, looked .*; CDI file .*run\/two.json: /);
    await rm(join(run, 'one.yaml'));
    assert.deepEqual(await env('v/c=a'), ['ALL=etc', 'a=etc']);
  } finally {
    await rm(dir, { recursive: true });
  }
});
