import assert from 'node:assert/strict';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { execFile } from '../../../src/linux/exec.ts';
import { eventually, Gantryd, isReady, op, podOf } from '../../support/gantryd.ts';
import { look, type Findings } from '../../support/leak-probes.ts';
import { LeakCheck } from '../../support/leak-check.ts';
import { TempRoot } from '../../support/temp-root.ts';

const skip = process.getuid?.() !== 0 && 'needs root';
const SIZE = '48m';

async function run(program: string, ...args: readonly string[]): Promise<void> {
  const { code, stderr } = await execFile(op, program, args);
  assert.equal(code, 0, `${program} ${args.join(' ')}: ${stderr}`);
}

describe('what is not ours stays untouched', { skip }, () => {
  let theirs: Gantryd;
  let ours: Gantryd;

  before(async () => {
    theirs = await Gantryd.withImage();
    // Both in the same folders for namespaces and network configuration, as on a machine that is shared.
    const { netnsDir, cniConfDir } = theirs.root;
    ours = await Gantryd.withImage({ flags: [`--netns-dir=${netnsDir}`, `--cni-conf-dir=${cniConfDir}`] });
  });
  after(async () => {
    await ours[Symbol.asyncDispose]();
    await theirs[Symbol.asyncDispose]();
  });

  const foreign = async (): Promise<Findings> => {
    const found = new Map(await look(theirs.root.leakRoots()));
    found.delete('files and folders');
    // Our own pods' pins are in the same folder.
    const own = (line: string): boolean => line.includes(ours.root.instance);
    for (const [probe, lines] of found)
      found.set(
        probe,
        lines.filter((line) => !own(line) && !/sleep 1$/.test(line)),
      );
    return found;
  };

  test("a second Gantry's pod, a foreign namespace, an address and a link, while ours starts, is killed, recovers and deletes", async () => {
    await theirs.apply(podOf('theirs', [{}]), '--wait');
    const { netnsDir, instance } = theirs.root;
    const stranger = join(netnsDir, 'stranger');
    const link = `x${instance}`;
    await writeFile(stranger, '');
    await run('unshare', '--net=' + stranger, 'true');
    await run('ip', 'link', 'add', link, 'type', 'bridge');
    const reservation = join(ours.root.data, 'cni/ipam/somebody/10.9.8.7');
    await mkdir(join(ours.root.data, 'cni/ipam/somebody'), { recursive: true });
    await writeFile(reservation, 'not-ours\neth0');
    const before = await foreign();
    const pids = await theirs.pids('theirs');

    await ours.apply(podOf('ours', [{}]), '--wait');
    await ours.restart('SIGKILL');
    await ours.ready('ours');
    await ours.gantry('delete', 'pod', 'ours');
    assert.equal(await ours.end('SIGTERM'), 0);

    await eventually(foreign, (now) => JSON.stringify([...now]) === JSON.stringify([...before]), 'all as it was');
    assert.deepEqual(await theirs.pids('theirs'), pids);
    assert.ok(isReady(await theirs.ready('theirs')));
    assert.equal(await theirs.gantry('exec', 'theirs', '--', 'echo', 'well'), 'well\n');
    assert.equal(await readFile(reservation, 'utf8'), 'not-ours\neth0');
    await run('umount', stranger);
    await run('ip', 'link', 'delete', link);
    await theirs.gantry('delete', 'pod', 'theirs');
  });
});

describe('a disk that is full', { skip }, () => {
  test('is said, the daemon survives it, and all goes on when there is room again', async () => {
    await using root = await TempRoot.make();
    await run('mount', '-t', 'tmpfs', '-o', `size=${SIZE}`, 'test-disk', root.data);
    await mkdir(root.podsDir);
    await using daemon = await Gantryd.make({ root });
    await daemon.start();
    await daemon.importImage();
    const leaks = await LeakCheck.begin(root.leakRoots([{ path: root.logRoot }]));
    const { pid } = daemon;
    await daemon.apply(podOf('before', [{}]), '--wait');
    const ballast = join(root.data, 'ballast');
    // Until nothing fits any more: dd says so and ends with an error.
    const { code } = await execFile(op, 'dd', ['if=/dev/zero', `of=${ballast}`, 'bs=64k']);
    assert.notEqual(code, 0);

    const refused = await daemon.cli(['apply', '-f', '-'], JSON.stringify(podOf('full', [{}])));
    if (refused.code !== 0) assert.match(refused.stderr, /full|space|ENOSPC/i);
    else {
      await eventually(
        () => daemon.gantry('explain', 'pod', 'full'),
        (text) => /full|space|ENOSPC/i.test(text),
        'the reason',
      );
    }
    const big = await daemon.cli(['image', 'import', '--rootfs', join(root.dir, 'busybox.tar'), 'localhost/big:1']);
    if (big.code !== 0) assert.match(big.stderr, /full|space|ENOSPC/i);
    assert.equal(daemon.pid, pid);
    assert.equal(await daemon.gantry('exec', 'before', '--', 'echo', 'alive'), 'alive\n');
    assert.match(await daemon.gantry('get', 'pods'), /before/);

    await execFile(op, 'rm', [ballast]);
    if (refused.code !== 0) await daemon.apply(podOf('full', [{}]), '--wait', '--timeout', '300s');
    await daemon.ready('full');
    await daemon.gantry('delete', 'pods', '--all');
    assert.equal(daemon.pid, pid);
    await leaks.assertNone({
      only: ['processes', 'mounts', 'network namespaces', 'CNI addresses', 'links', 'cgroups'],
    });
    await daemon.end('SIGTERM');
  });
});
