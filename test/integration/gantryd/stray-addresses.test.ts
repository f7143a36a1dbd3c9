import assert from 'node:assert/strict';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { newSandboxId } from '../../../src/lib/ids.ts';
import { eventually, Gantryd, podOf } from '../../support/gantryd.ts';
import { LeakCheck } from '../../support/leak-check.ts';

const skip = process.getuid?.() !== 0 && 'needs root';

describe('addresses that no sandbox owns', { skip }, () => {
  let daemon: Gantryd;
  let leaks: LeakCheck;

  before(async () => {
    daemon = await Gantryd.withImage();
    leaks = await LeakCheck.begin(daemon.root.leakRoots());
  });
  after(() => daemon[Symbol.asyncDispose]());

  test('are given back at the next start; those of pods, and all that is not a sandbox of ours, stay', async () => {
    await daemon.apply(podOf('well', [{}]), '--wait');
    const ip = (await daemon.pod('well'))?.status?.podIP ?? '';
    const ipam = join(daemon.root.data, 'cni', 'ipam');
    const ours = join(ipam, `gantry-${daemon.root.instance}`);
    const others = join(ipam, 'somebody');
    await mkdir(others);
    await daemon.restart('SIGKILL', async () => {
      for (const address of ['10.99.99.1', '10.99.99.2', 'fd00::99']) {
        await writeFile(join(ours, address), `${newSandboxId()}\r\neth0`);
      }
      await writeFile(join(ours, '10.99.99.3'), 'by-hand\r\neth0');
      await writeFile(join(others, '10.99.98.1'), `${newSandboxId()}\r\neth0`);
    });
    const addresses = async (folder: string): Promise<string[]> =>
      (await readdir(folder)).filter((name) => /^[0-9a-f.:]+$/.test(name)).sort();
    const wanted = [ip, '10.99.99.3'].sort();
    await eventually(
      () => addresses(ours),
      (left) => JSON.stringify(left) === JSON.stringify(wanted),
      'the addresses of nobody given back',
    );
    assert.deepEqual(await addresses(others), ['10.99.98.1']);
    assert.match(await daemon.log(), /address without an owner was given back/);
    assert.equal(await readFile(join(ours, '10.99.99.3'), 'utf8'), 'by-hand\r\neth0');

    // What is left is in a folder of ours: a person decides.
    await daemon.gantry('doctor', '--fix');
    assert.deepEqual(await addresses(ours), [ip]);
    assert.deepEqual(await addresses(others), []);
    await daemon.ready('well');
    await daemon.gantry('delete', 'pod', 'well');
    await leaks.assertNone();
  });
});
