import assert from 'node:assert/strict';
import { readdir, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { eventually, freePort, Gantryd, IMAGE, podOf } from '../../support/gantryd.ts';
import { look } from '../../support/leak-probes.ts';
import { LeakCheck } from '../../support/leak-check.ts';

const skip = process.getuid?.() !== 0 && 'needs root';
const GONE = ['processes', 'mounts', 'network namespaces', 'CNI addresses', 'links', 'iptables rules', 'cgroups'];

test(
  'records that are gone: it is said what was lost, and what they named is released, addresses too',
  { skip },
  async () => {
    await using daemon = await Gantryd.make();
    const { root } = daemon;
    const stranger = join(root.cniDataDir, `net-${root.instance}`, '10.99.70.200');
    await root.writeCniConfig('10.99.70.0/24');
    await daemon.start();
    await daemon.importImage();
    // What the bridge is made of stays; the pods' own things are what is looked for.
    await daemon.apply(podOf('first', [{}]), '--wait');
    await daemon.gantry('delete', 'pod', 'first');
    const leaks = await LeakCheck.begin(root.leakRoots());
    const hostPort = await freePort();
    await daemon.apply(podOf('kept', [{ ports: [{ containerPort: 80, hostPort }] }, {}]), '--wait');
    await writeFile(stranger, 'somebody\r\neth0');

    await daemon.restart('SIGKILL', async () => {
      for (const name of await readdir(root.data)) {
        // The objects too: the agent would make the pod anew.
        if (/^(runtime|api)\.db/.test(name)) await rename(join(root.data, name), join(root.dir, name));
      }
    });
    const log = await daemon.log();
    const [line = '{}'] = log.split('\n').filter((text) => /"level":"error".*runtime\.db/.test(text));
    const { msg } = JSON.parse(line) as { msg: string };
    assert.match(msg, /runtime\.db is not there any more/);
    assert.match(msg, /1 sandbox, 2 containers and 1 image layer /);
    const addresses = async (): Promise<readonly string[]> => (await look(root.leakRoots())).get('CNI addresses') ?? [];
    await eventually(addresses, (left) => left.length === 1, "nobody's address but the stranger's");
    assert.match((await addresses())[0] ?? '', /10\.99\.70\.200: somebody eth0/);
    await writeFile(stranger, '');
    await rename(stranger, join(root.dir, 'stranger'));
    await leaks.assertNone({ only: GONE });

    // The journal knows which pod it was.
    assert.match(await daemon.gantry('explain', 'pod', 'kept'), /its record is gone/);
    assert.doesNotMatch(await daemon.gantry('image', 'list'), new RegExp(IMAGE));
    const before = log.split('\n').length;
    await daemon.restart('SIGTERM');
    const again = (await daemon.log()).split('\n').slice(before);
    assert.deepEqual(
      again.filter((text) => text.includes('"level":"error"')),
      [],
      'said once',
    );
    await daemon.end('SIGTERM');
  },
);
