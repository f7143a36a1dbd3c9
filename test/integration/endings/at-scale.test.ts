import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { PodSandboxConfig } from '../../../src/cri/gen/api.ts';
import { LeakCheck } from '../../support/leak-check.ts';
import { scaled } from '../../support/scale.ts';
import { container, pod } from '../runtime/runtime-fixture.ts';
import { CriDaemon } from './cri-daemon.ts';

const skip = process.getuid?.() !== 0 && 'needs root';
const TRUES = scaled({ small: 40, whole: 500 });
const OUT_OF_MEMORY = scaled({ small: 4, whole: 50 });
const LOGS = scaled({ small: 6, whole: 200 });
const LOG_BYTES = 1 << 20;
/** That many logs are written at a time. */
const LOGS_AT_ONCE = 10;
/** Rather often than exactly: nothing is measured here. */
const ASK_EVERY_MS = 100;

let daemon: CriDaemon;
let leaks: LeakCheck;
let sandboxId: string;
const config = (): PodSandboxConfig => pod(daemon.root, 'many');

before(async () => {
  if (skip !== false) return;
  daemon = await CriDaemon.start();
  leaks = await LeakCheck.begin(daemon.root.leakRoots());
  sandboxId = await daemon.runSandbox(config());
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

const numbers = (count: number): number[] => Array.from({ length: count }, (_, index) => index);
const run = (name: string, command: readonly string[], more: object = {}): Promise<string> =>
  daemon.run(sandboxId, config(), container(name, command, more));

test('true in many containers at once: each ends with 0', { skip }, async (t) => {
  t.diagnostic(`${String(TRUES)} at once`);
  const ends = await Promise.all(
    numbers(TRUES).map(async (index) => {
      const id = await run(`true-${String(index)}`, ['true']);
      const { exitCode, reason, message, startedAt, finishedAt } = await daemon.exited(id, ASK_EVERY_MS);
      await daemon.remove(id);
      return `${String(exitCode)} ${reason} ${message} ${finishedAt >= startedAt ? 'in order' : 'ended before its start'}`;
    }),
  );
  assert.deepEqual(
    ends.filter((end) => end !== '0 Completed  in order'),
    [],
  );
});

test('out of memory again and again, in init and in a child: the reason is right every time', { skip }, async (t) => {
  t.diagnostic(`${String(OUT_OF_MEMORY)} rounds of each`);
  const resources = { memoryLimitInBytes: BigInt(16 << 20), memorySwapLimitInBytes: BigInt(16 << 20) };
  const eat = 'tail /dev/zero';
  for (const round of numbers(OUT_OF_MEMORY)) {
    const scripts = { init: `exec ${eat}`, child: `${eat}; exit 6` };
    const [init, child] = await Promise.all(
      Object.entries(scripts).map(async ([name, script]) => {
        const id = await run(`${name}-${String(round)}`, ['sh', '-c', script], { linux: { resources } });
        const { exitCode, reason, message } = await daemon.exited(id, ASK_EVERY_MS);
        await daemon.remove(id);
        return [exitCode, reason, message];
      }),
    );
    assert.deepEqual(init, [137, 'OOMKilled', ''], `init, round ${String(round)}`);
    assert.deepEqual(child, [6, 'Error', 'a child process was OOM-killed'], `child, round ${String(round)}`);
  }
});

/** The output in a CRI log: each line has a time, the stream, and whether it ends a line (F) or is a part of one (P). */
function outputIn(log: Buffer): Buffer {
  const parts: Buffer[] = [];
  for (let from = 0; from < log.length;) {
    const end = log.indexOf(10, from);
    const line = log.subarray(from, end < 0 ? log.length : end);
    const [head = '', tag] = /^\S+ stdout ([FP]) /.exec(line.toString('latin1', 0, 80)) ?? [];
    assert.ok(tag, `no line of a log: ${line.toString('latin1', 0, 80)}`);
    parts.push(line.subarray(head.length));
    if (tag === 'F') parts.push(Buffer.from('\n'));
    from += line.length + 1;
  }
  return Buffer.concat(parts);
}

test(
  'a megabyte of output without a newline at its end: every byte is in the log when the exit is seen',
  { skip },
  async (t) => {
    t.diagnostic(`${String(LOGS)} logs`);
    // Noise, so that nothing can be left out unseen: half of them in lines, half of them as one.
    const script = (wrap: number): string =>
      `head -c ${String(LOG_BYTES)} /dev/urandom | base64 -w ${String(wrap)} | head -c ${String(LOG_BYTES)} | tee /tmp/out; exit 7`;
    let right = 0;
    const rest = numbers(LOGS).values();
    const one = async (): Promise<void> => {
      for (const index of rest) {
        const name = `log-${String(index)}`;
        const id = await run(name, ['sh', '-c', script(index % 2 === 0 ? 76 : 0)]);
        const { exitCode, message } = await daemon.exited(id, ASK_EVERY_MS);
        // Read at once: an exit that can be seen has its whole log.
        const output = outputIn(await readFile(join(daemon.root.logRoot, 'many', name, '0.log')));
        assert.deepEqual([exitCode, message, output.length], [7, '', LOG_BYTES], name);
        const upper = join(daemon.root.data, 'snapshots', id, 'upper/tmp/out');
        const digest = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex');
        assert.equal(digest(output), digest(await readFile(upper)), name);
        right++;
        await daemon.remove(id);
      }
    };
    await Promise.all(Array.from({ length: LOGS_AT_ONCE }, one));
    assert.equal(right, LOGS);
  },
);
