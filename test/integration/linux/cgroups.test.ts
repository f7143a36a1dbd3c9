import assert from 'node:assert/strict';
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { test, type TestContext } from 'node:test';
import { systemClock } from '../../../src/lib/clock.ts';
import { kindOf, messageOf } from '../../../src/lib/errors.ts';
import { Cgroups, detectCgroups } from '../../../src/linux/cgroups.ts';
import { needsRoot, op } from './scratch.ts';

interface Bench {
  readonly cgroups: Cgroups;
  readonly parent: string;
  readonly pod: string;
}

let count = 0;

/** Skips, and answers undefined, where cgroups cannot be used. */
async function bench(t: TestContext): Promise<Bench | undefined> {
  const host = await detectCgroups();
  if (host.unusable !== undefined) {
    t.skip(host.unusable);
    return undefined;
  }
  const cgroups = new Cgroups({ clock: systemClock, host });
  const parent = `/gantry-test-${String(process.pid)}-${String(count++)}`;
  const pod = `${parent}/pod`;
  await cgroups.ensureParent(parent);
  await cgroups.create(pod, { memoryLimitBytes: 64 << 20, cpuShares: 512 });
  t.after(async () => {
    await cgroups.thaw(pod);
    await cgroups.killAll(op, parent);
    await cgroups.remove(op, parent);
    assert.equal(await cgroups.exists(parent), false);
  });
  return { cgroups, parent, pod };
}

async function spawnIn({ cgroups }: Bench, path: string, script: string): Promise<ChildProcess> {
  const child = spawn('sh', ['-c', `read go; ${script}`], { stdio: ['pipe', 'ignore', 'ignore'] });
  await once(child, 'spawn');
  await cgroups.moveProcess(path, child.pid ?? 0);
  child.stdin.end('go\n');
  return child;
}

test('a process and its children are seen, hold the cgroup, and die with it', needsRoot, async (t) => {
  const b = await bench(t);
  if (b === undefined) return;
  const child = await spawnIn(b, b.pod, 'for i in 1 2 3 4 5; do sleep 1000 & done; wait');
  const exited = once(child, 'exit');
  while ((await b.cgroups.procs(b.parent, true)).length < 6) await systemClock.sleep(20);
  assert.deepEqual(await b.cgroups.procs(b.parent), []);
  await assert.rejects(b.cgroups.remove(op, b.parent), (error) => {
    assert.equal(kindOf(error), 'Unavailable');
    assert.match(messageOf(error), new RegExp(`pid ${String(child.pid)} \\(sh, state`));
    return true;
  });
  assert.equal(await b.cgroups.oomKillCount(b.pod), 0);
  await b.cgroups.killAll(op, b.parent);
  assert.deepEqual((await exited)[1], 'SIGKILL');
  assert.deepEqual(await b.cgroups.procs(b.parent, true), []);
});

test('a frozen process is killed, too', needsRoot, async (t) => {
  const b = await bench(t);
  if (b === undefined) return;
  const child = await spawnIn(b, b.pod, 'exec sleep 1000');
  const exited = once(child, 'exit');
  await b.cgroups.freeze(b.pod);
  assert.equal(await b.cgroups.isFrozen(b.pod), true);
  await b.cgroups.killAll(op, b.pod);
  await exited;
});

test('thawing reaches what was frozen below', needsRoot, async (t) => {
  const b = await bench(t);
  if (b === undefined) return;
  const inner = `${b.pod}/inner`;
  await b.cgroups.ensureParent(b.pod);
  await b.cgroups.create(inner);
  const child = await spawnIn(b, inner, 'exec sleep 1000');
  await b.cgroups.freeze(inner);
  await b.cgroups.freeze(b.pod);
  await b.cgroups.thaw(b.pod);
  assert.equal(await b.cgroups.isFrozen(inner), false);
  child.kill('SIGKILL');
  await once(child, 'exit');
});

test('gone is fine, paths of others are not', needsRoot, async (t) => {
  const b = await bench(t);
  if (b === undefined) return;
  await b.cgroups.remove(op, `${b.parent}/missing`);
  await b.cgroups.killAll(op, `${b.parent}/missing`);
  await assert.rejects(b.cgroups.oomKillCount(`${b.parent}/missing`), { kind: 'NotFound' });
  await assert.rejects(b.cgroups.moveProcess(`${b.parent}/missing`, process.pid), { kind: 'NotFound' });
  for (const bad of ['/', 'relative', '/a/../..', '/..']) {
    await assert.rejects(b.cgroups.remove(op, bad), { kind: 'InvalidArgument' });
  }
});

test('an OOM kill is counted', needsRoot, async (t) => {
  const b = await bench(t);
  if (b === undefined) return;
  await b.cgroups.setResources(b.pod, { memoryLimitBytes: 8 << 20 });
  const child = await spawnIn(b, b.pod, 'head -c 100000000 /dev/zero | tail -c 90000000');
  await once(child, 'exit');
  assert.ok((await b.cgroups.oomKillCount(b.pod)) > 0);
});

test('an OOM kill below is counted, and not forgotten with a part that goes', needsRoot, async (t) => {
  const b = await bench(t);
  if (b === undefined) return;
  await b.cgroups.setResources(b.pod, { memoryLimitBytes: 8 << 20 });
  const runOut = async (path: string): Promise<void> => {
    await once(await spawnIn(b, path, 'head -c 100000000 /dev/zero | tail -c 90000000'), 'exit');
  };
  const part = async (name: string, inner?: string): Promise<string> => {
    const path = `${b.pod}/${name}`;
    await b.cgroups.createBelow(path);
    if (inner !== undefined) await b.cgroups.createBelow(`${path}/${inner}`);
    await runOut(inner === undefined ? path : `${path}/${inner}`);
    return path;
  };
  const left = async (): Promise<string[]> => await b.cgroups.children(b.pod);
  const kept = b.cgroups.host.mode === 'v2' ? () => [] : (...names: string[]) => names;

  const middle = await part('part-m', 'inner');
  const last = await part('part-z');
  const before = await b.cgroups.oomKillCount(b.pod);
  assert.ok(before >= 2);
  const stranger = await part('a-stranger');
  await b.cgroups.removeBelow(op, last, 'part-');
  assert.deepEqual(await left(), ['a-stranger', 'part-m'], 'of two the one whose name is first is enough');
  await b.cgroups.removeBelow(op, middle, 'part-');
  assert.deepEqual(await left(), ['a-stranger', ...kept('part-m')], 'a stranger may go at any time');
  await b.cgroups.remove(op, stranger);
  assert.ok((await b.cgroups.oomKillCount(b.pod)) > 0);
  await b.cgroups.createBelow(`${b.pod}/part-a`);
  await b.cgroups.removeBelow(op, `${b.pod}/part-a`, 'part-');
  assert.deepEqual(await left(), kept('part-m'), 'nothing was counted in it');
  await runOut(b.pod);
  await b.cgroups.removeBelow(op, middle, 'part-');
  assert.deepEqual(await left(), [], 'its parent has counted one, too');
  assert.ok((await b.cgroups.oomKillCount(b.pod)) > 0);
});

/** Its second look at a cgroup, the one before the signals, has a pid that has left it by the third. */
class StaleList extends Cgroups {
  stranger = 0;
  #looks = 0;

  override procs(): Promise<number[]> {
    return Promise.resolve(++this.#looks <= 2 ? [this.stranger] : []);
  }
}

test('a pid that is no more in the cgroup when it is about to be killed is left alone', needsRoot, async (t) => {
  const host = await detectCgroups();
  if (host.mode === 'v2') {
    t.skip('the kernel kills the whole cgroup by itself');
    return;
  }
  const stranger = spawn('sleep', ['1000'], { stdio: 'ignore' });
  const exited = once(stranger, 'exit');
  const cgroups = new StaleList({ clock: systemClock, host });
  cgroups.stranger = stranger.pid ?? 0;
  await cgroups.killAll(op, '/gantry-test-not-there');
  stranger.kill('SIGTERM');
  assert.deepEqual((await exited)[1], 'SIGTERM');
});

test('a part of a cgroup that is gone is not made, and neither is that', needsRoot, async (t) => {
  const b = await bench(t);
  if (b === undefined) return;
  const part = `${b.pod}/container/exec`;
  assert.equal(await b.cgroups.createBelow(part), false);
  assert.equal(await b.cgroups.exists(`${b.pod}/container`), false);
  await b.cgroups.create(`${b.pod}/container`);
  assert.equal(await b.cgroups.createBelow(part), true);
  const child = await spawnIn(b, part, 'exec sleep 1000');
  assert.deepEqual(await b.cgroups.procs(part), [child.pid]);
  await b.cgroups.killAll(op, part);
});
