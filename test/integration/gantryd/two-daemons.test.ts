import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';
import { execFile } from '../../../src/linux/exec.ts';
import { silentLog } from '../../../src/lib/log.ts';
import { Gantryd, podOf } from '../../support/gantryd.ts';
import { look } from '../../support/leak-probes.ts';
import { LeakCheck } from '../../support/leak-check.ts';
import { TempRoot } from '../../support/temp-root.ts';

const skip = process.getuid?.() !== 0 && 'needs root';
const DAEMON = new URL('../../../bin/gantryd', import.meta.url).pathname;
/** For a daemon that serves instead of refusing; it refuses at once. */
const PATIENCE_MS = 180_000;

describe('what one Gantry has to itself', { skip }, () => {
  let first: Gantryd;
  let second: TempRoot;
  let clean: LeakCheck;

  before(async () => {
    second = await TempRoot.make();
    first = await Gantryd.withImage();
    clean = await LeakCheck.begin(first.root.leakRoots());
    await first.apply(podOf('kept', [{}]), '--wait');
  });
  after(async () => {
    await first[Symbol.asyncDispose]();
    await second[Symbol.asyncDispose]();
  });

  const things = (): readonly (readonly [flag: string, value: string])[] => {
    const { data, state, podsDir, instance, cgroupParent } = first.root;
    return [
      ['--root', data],
      ['--state', state],
      ['--pods-dir', podsDir],
      ['--instance', instance],
      ['--cgroup-parent', cgroupParent],
      // Folders of the one are none for anything of the other.
      ['--state', data],
      ['--pods-dir', state],
    ];
  };

  async function refused(flag: string, value: string, words: RegExp): Promise<void> {
    const op = { signal: AbortSignal.timeout(PATIENCE_MS), log: silentLog };
    const flags = [...second.flags(), `--netns-dir=${first.root.netnsDir}`, '--log-level=error', `${flag}=${value}`];
    const { code, stderr } = await execFile(op, DAEMON, flags);
    assert.equal(code, 1, `${flag}: ${stderr}`);
    assert.match(stderr, words);
    assert.match(stderr, /^gantryd: [^\n]+\n$/, 'one line');
    assert.ok(stderr.includes(flag), stderr);
  }

  /** Of the first one's pod: processes, mounts, namespace, address, cgroups, files. */
  async function held(): Promise<string> {
    const own = (line: string): boolean => !/gantryd|sleep 1$|-worker/.test(line);
    const found = [...(await look(first.root.leakRoots()))].map(([probe, lines]) => [probe, lines.filter(own)]);
    return JSON.stringify([found, (await readdir(first.root.state)).filter((name) => name.endsWith('exits'))]);
  }

  test('is refused to a second one that runs beside it, before that has touched anything', async () => {
    const before = await held();
    const pids = await first.pids('kept');
    for (const [flag, value] of things()) await refused(flag, value, /another gantryd|is in use by the gantryd of/);
    for (const [flag, socket] of [
      ['--cri-listen', first.root.criSocket],
      ['--api-listen', first.root.apiSocket],
    ] as const) {
      await refused(flag, `unix://${socket}`, /is in use by the gantryd of/);
    }
    assert.equal(await held(), before);
    assert.deepEqual(await first.pids('kept'), pids);
    assert.equal(await first.gantry('exec', 'kept', '--', 'echo', 'well'), 'well\n');
  });

  test('is refused while it is away and its pods run on, and is its own when it comes back', async () => {
    const pids = await first.pids('kept');
    await first.restart('SIGKILL', async () => {
      const before = await held();
      for (const [flag, value] of things().slice(1)) await refused(flag, value, /belongs to the Gantry of --root \//);
      assert.equal(await held(), before);
    });
    assert.deepEqual(await first.pids('kept'), pids);
    await first.restart('SIGTERM', () =>
      refused('--instance', first.root.instance, /belongs to the Gantry of --root .* remove /),
    );
    assert.deepEqual(await first.pids('kept'), pids);
  });

  test("is anybody's when nothing of it is left", async () => {
    await first.gantry('delete', 'pod', 'kept');
    await clean.assertNone();
    assert.equal(await first.end('SIGTERM'), 0);
    assert.deepEqual((await look(first.root.leakRoots())).get('claims'), []);
    const { instance, cgroupParent, state } = first.root;
    const flags = ['--runtime-only', `--instance=${instance}`, `--cgroup-parent=${cgroupParent}`, `--state=${state}`];
    await using other = await Gantryd.make({ root: second, flags });
    await other.start({ agent: false });
    assert.equal(await other.end('SIGTERM'), 0);
  });
});
