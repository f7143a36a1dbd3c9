import assert from 'node:assert/strict';
import { mkdtemp, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { FakeClock } from '../../lib/fake-clock.ts';
import { silentLog } from '../../lib/log.ts';
import { NetworkHealth } from './network-health.ts';
import { pluginError } from './plugin-error.ts';

const NETWORK = {
  name: 'net',
  cniVersion: '1.0.0',
  plugins: [{ type: 'bridge' }, { type: 'portmap', capabilities: { portMappings: true } }],
};
const INVALID_CONFIG = 7;

interface Bench {
  readonly clock: FakeClock;
  readonly health: NetworkHealth;
  /** The plug-ins that were asked, in order. */
  readonly asked: string[];
  readonly says: Map<string, readonly string[] | undefined>;
  readonly binDir: string;
}

async function bench(t: TestContext, hangs = false): Promise<Bench> {
  const binDir = await mkdtemp(join(tmpdir(), 'network-health-'));
  for (const type of ['bridge', 'portmap']) await writeFile(join(binDir, type), '', { mode: 0o755 });
  const clock = new FakeClock();
  const asked: string[] = [];
  const says = new Map<string, readonly string[] | undefined>([
    ['bridge', ['0.4.0', '1.0.0']],
    ['portmap', ['0.4.0', '1.0.0']],
  ]);
  const health = new NetworkHealth({
    ...{ clock, log: silentLog, binDirs: [binDir] },
    askVersions: (_op, type) => {
      asked.push(type);
      return hangs ? new Promise(() => undefined) : Promise.resolve(says.get(type));
    },
  });
  t.after(async () => {
    health.close();
    await rm(binDir, { recursive: true });
  });
  return { clock, health, asked, says, binDir };
}

/** What is known once the answers are there. */
async function problem({ health }: Bench, network = NETWORK): Promise<string | undefined> {
  await health.problem(network);
  await new Promise(setImmediate);
  return await health.problem(network);
}

const refusal = (code: number, position = 0): Error =>
  pluginError(NETWORK.plugins[position]?.type ?? '', 'ADD', { code, message: 'no' }, { position });

test('a plug-in that does not speak the version of the configuration is named; each binary is asked once', async (t) => {
  const b = await bench(t);
  assert.equal(await problem(b), undefined);
  const newer = { ...NETWORK, cniVersion: '9.0.0' };
  assert.equal(
    await problem(b, newer),
    `CNI plug-in bridge (${join(b.binDir, 'bridge')}) does not speak the cniVersion 9.0.0 of network net, but 0.4.0, 1.0.0`,
  );
  assert.deepEqual(b.asked, ['bridge', 'portmap']);
  // Another binary in its place.
  b.says.set('bridge', ['9.0.0']);
  b.says.set('portmap', ['9.0.0']);
  for (const type of ['bridge', 'portmap']) await utimes(join(b.binDir, type), 1, 1);
  assert.equal(await problem(b, newer), undefined);
  assert.deepEqual(b.asked, ['bridge', 'portmap', 'bridge', 'portmap']);
});

test('nobody waits for a plug-in that hangs, and what it does not say is no problem', async (t) => {
  const b = await bench(t, true);
  assert.equal(await problem(b), undefined);
  assert.equal(await problem(b), undefined);
  assert.deepEqual(b.asked, ['bridge', 'portmap'], 'not again while it is being asked');
  await b.clock.advance(10_000);
  assert.equal(await problem(b), undefined);
  assert.deepEqual(b.asked, ['bridge', 'portmap'], 'nor at once afterwards');
  await b.clock.advance(60_000);
  assert.equal(await problem(b), undefined);
  assert.deepEqual(b.asked, ['bridge', 'portmap', 'bridge', 'portmap']);
});

test('what has connected a pod is right, whatever a plug-in says of itself', async (t) => {
  const b = await bench(t);
  b.says.set('bridge', ['0.1.0']);
  assert.match((await problem(b)) ?? '', /bridge/);
  b.health.accepted(NETWORK);
  assert.equal(await problem(b), undefined);
});

test('a refused configuration is a problem until it or the plug-in is another, a pod is connected, or time has passed', async (t) => {
  const b = await bench(t);
  const refuse = (): Promise<void> => b.health.failed(NETWORK, refusal(INVALID_CONFIG));
  await refuse();
  assert.equal(await problem(b), 'CNI plug-in bridge failed (ADD): no');
  assert.equal(await problem(b, { ...NETWORK, name: 'other' }), undefined);
  b.health.accepted(NETWORK);
  assert.equal(await problem(b), undefined);
  await refuse();
  await utimes(join(b.binDir, 'bridge'), 1, 1);
  assert.equal(await problem(b), undefined);
  await refuse();
  assert.notEqual(await problem(b), undefined);
  await b.clock.advance(300_000);
  assert.equal(await problem(b), undefined);
});

test('a failure that may be the pod’s own says nothing of the network', async (t) => {
  const b = await bench(t);
  for (const code of [3, 4, 5, 11, 100, 999]) await b.health.failed(NETWORK, refusal(code));
  await b.health.failed(NETWORK, refusal(INVALID_CONFIG, 1));
  await b.health.failed(NETWORK, new Error('the call was cut off'));
  assert.equal(await problem(b), undefined);
});
