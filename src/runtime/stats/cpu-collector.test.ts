import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../../lib/fake-clock.ts';
import { silentLog } from '../../lib/log.ts';
import { COLLECT_MS, CpuCollector } from './cpu-collector.ts';
import { CpuWindows } from './cpu-windows.ts';

const OLD_MS = 1_000_000;

function make(running: () => readonly string[], totalNs: (path: string) => Promise<bigint | undefined>) {
  const clock = new FakeClock();
  const windows = new CpuWindows(clock);
  const collector = new CpuCollector({ clock, log: silentLog, windows, running, totalNs });
  return { clock, windows, collector };
}

test('whoever asks for the first time is told a rate over a window that has passed', async () => {
  const { clock, windows, collector } = make(
    () => ['a'],
    () => Promise.resolve(BigInt(clock.monotonicMs()) * 500_000n),
  );
  collector.start();
  await clock.advance(4 * COLLECT_MS);
  assert.equal(windows.rate('a', BigInt(clock.monotonicMs()) * 500_000n, OLD_MS), 500_000_000n);
  collector.close();
});

test('only what runs is looked at', async () => {
  let running = ['a', 'b'];
  const looks: string[] = [];
  const { clock, collector } = make(
    () => running,
    (path) => {
      looks.push(path);
      return Promise.resolve(1n);
    },
  );
  collector.start();
  await clock.advance(1);
  running = ['b'];
  await clock.advance(COLLECT_MS);
  assert.deepEqual(looks, ['a', 'b', 'b']);
  collector.close();
  await clock.advance(3 * COLLECT_MS);
  assert.equal(looks.length, 3, 'nothing after the end');
});

test('a round that fails is not the last one', async () => {
  let rounds = 0;
  const { clock, collector } = make(
    () => ['a'],
    () => Promise.reject(new Error(`round ${String(++rounds)}`)),
  );
  collector.start();
  await clock.advance(2 * COLLECT_MS + 1);
  assert.equal(rounds, 3);
  collector.close();
});
