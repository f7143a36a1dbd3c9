import assert from 'node:assert/strict';
import { rename } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test, type TestContext } from 'node:test';
import { LeakCheck } from '../../support/leak-check.ts';
import { container, op, pod } from '../runtime/runtime-fixture.ts';
import { CriDaemon, timed } from './cri-daemon.ts';

const skip = process.getuid?.() !== 0 && 'needs root';
/** Hears the signal and goes on. */
const DEAF = ['sh', '-c', 'trap "" TERM; touch /tmp/ready; while :; do sleep 0.05; done'];
/** How much slower than without the stop a call may be: machines differ, and have other work. */
const SLACK_MS = 500;
const ROUNDS = 5;

let daemon: CriDaemon;
let leaks: LeakCheck;
let sandboxId: string;

before(async () => {
  if (skip !== false) return;
  daemon = await CriDaemon.start();
  leaks = await LeakCheck.begin(daemon.root.leakRoots());
  sandboxId = await daemon.runSandbox(pod(daemon.root, 'stops'));
});

after(async () => {
  if (skip !== false) return;
  try {
    await daemon.endPod(sandboxId);
    await leaks.assertNone();
  } finally {
    await daemon[Symbol.asyncDispose]();
  }
});

const exec = (containerId: string, ...cmd: string[]): ReturnType<CriDaemon['cri']['execSync']> =>
  daemon.cri.execSync(op, { containerId, cmd, timeout: 60n });

const isThere = async (containerId: string, path: string): Promise<boolean> =>
  (await exec(containerId, 'stat', path)).exitCode === 0;

async function isStopping(containerId: string): Promise<boolean> {
  const { info } = await daemon.cri.containerStatus(op, { containerId, verbose: true });
  return (JSON.parse(info['info'] ?? '{}') as { stop?: object }).stop !== undefined;
}

/** Returns when its trap is set. */
async function runDeaf(name: string): Promise<string> {
  const id = await daemon.run(sandboxId, pod(daemon.root, 'stops'), container(name, DEAF));
  while (!(await isThere(id, '/tmp/ready')));
  return id;
}

interface Times {
  readonly exec: number;
  readonly reopen: number;
  readonly status: number;
}

const median = (values: readonly number[]): number => [...values].sort((a, b) => a - b)[values.length >> 1] ?? 0;

/** Each several times, the median. */
async function measure(id: string, name: string): Promise<Times> {
  const log = join(daemon.root.logRoot, 'stops', name, '0.log');
  const times: Times[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    await rename(log, `${log}.${String(performance.now())}`);
    times.push({
      exec: await timed(() => exec(id, 'true')),
      reopen: await timed(() => daemon.cri.reopenContainerLog(op, { containerId: id })),
      status: await timed(() => daemon.status(id)),
    });
  }
  const of = (what: keyof Times): number => median(times.map((one) => one[what]));
  return { exec: of('exec'), reopen: of('reopen'), status: of('status') };
}

function tell(t: TestContext, words: string, times: Record<string, number>): void {
  const figures = Object.entries(times).map(([what, ms]) => `${what} ${ms.toFixed(1)} ms`);
  t.diagnostic(`${words}: ${figures.join(', ')}`);
}

test('during Stop(300) all is served as promptly as before, and Stop(1) takes one second', { skip }, async (t) => {
  const id = await runDeaf('patient');
  const before = await measure(id, 'patient');
  const long = daemon.stop(id, 300);
  while (!(await isStopping(id)));
  const during = await measure(id, 'patient');
  const reference = await runDeaf('reference');
  const alone = await timed(() => daemon.stop(reference, 1));
  const short = await timed(() => daemon.stop(id, 1));
  // Who asked for 300 s has its answer in the same moment.
  const rest = await timed(() => long);
  assert.equal((await daemon.status(id)).exitCode, 137);
  tell(t, 'without a stop', { ...before });
  tell(t, 'during Stop(300)', { ...during });
  tell(t, 'Stop(1)', { alone, during: short, 'the longer one after that': rest });
  for (const what of ['exec', 'reopen', 'status'] as const) {
    assert.ok(during[what] <= 3 * before[what] + SLACK_MS, `${what}: ${String(during[what])} ms`);
  }
  assert.ok(short >= 950, `${String(short)} ms: it had its second`);
  assert.ok(short <= 3 * (alone - 1000) + 1000 + SLACK_MS, `${String(short)} ms, and ${String(alone)} ms alone`);
  assert.ok(rest <= SLACK_MS, `${String(rest)} ms`);
});

test('a longer deadline that is asked for later never wins', { skip }, async (t) => {
  const reference = await runDeaf('short-alone');
  const alone = await timed(() => daemon.stop(reference, 2));
  const id = await runDeaf('short-first');
  const took = timed(() => daemon.stop(id, 2));
  while (!(await isStopping(id)));
  const later = timed(() => daemon.stop(id, 600));
  const [short, long] = await Promise.all([took, later]);
  tell(t, 'Stop(2)', { alone, 'with Stop(600) after it': short, 'the Stop(600)': long });
  assert.equal((await daemon.status(id)).exitCode, 137);
  assert.ok(short >= 1_950 && long <= short, `${String(short)} and ${String(long)} ms`);
  assert.ok(short <= 3 * (alone - 2000) + 2000 + SLACK_MS, `${String(short)} ms, and ${String(alone)} ms alone`);
});
