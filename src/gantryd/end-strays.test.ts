import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../lib/fake-clock.ts';
import { silentLog } from '../lib/log.ts';
import { endStrays, type Stray } from './end-strays.ts';

const op = { signal: new AbortController().signal, log: silentLog };

const TICK_MS = 10;

function setUp(
  comms: Map<number, string>,
  ageMs = 0,
): { clock: FakeClock; killed: number[]; run: () => Promise<number> } {
  const clock = new FakeClock();
  const startTimeTicks = (clock.boottimeMs() - ageMs) / TICK_MS;
  const killed: number[] = [];
  const cgroups = {
    procs: () => Promise.resolve([...comms.keys()]),
    killAll: () => {
      killed.push(...comms.keys());
      comms.clear();
      return Promise.resolve();
    },
  };
  const look = (pid: number): Promise<Stray | undefined> => {
    const comm = comms.get(pid);
    return Promise.resolve(comm === undefined ? undefined : { comm, startTimeTicks });
  };
  return { clock, killed, run: () => endStrays(op, { clock, cgroups, look }, '/g/daemon') };
}

test('nothing there: no wait', async () => {
  const { run, killed } = setUp(new Map());
  assert.equal(await run(), 0);
  assert.deepEqual(killed, []);
});

test('a plug-in that is at work is waited for, not cut off', async () => {
  const comms = new Map([[7, 'bridge']]);
  const { run, killed, clock } = setUp(comms);
  const done = run();
  await clock.advance(300);
  comms.set(8, 'host-local');
  comms.delete(7);
  await clock.advance(300);
  comms.clear();
  await clock.advance(300);
  assert.equal(await done, 2);
  assert.deepEqual(killed, []);
});

test('one that has hung for long is not waited for once more', async () => {
  const { run, killed } = setUp(new Map([[7, 'runc']]), 61_000);
  assert.equal(await run(), 1);
  assert.deepEqual(killed, [7]);
});

test('one that hangs is killed after a while; a monitor that nobody lets go at once', async () => {
  const hanging = setUp(new Map([[7, 'bridge']]));
  const done = hanging.run();
  await hanging.clock.advance(4_000);
  assert.deepEqual(hanging.killed, []);
  await hanging.clock.advance(2_000);
  await done;
  assert.deepEqual(hanging.killed, [7]);

  const waiting = setUp(new Map([[9, 'conmon']]));
  await waiting.run();
  assert.deepEqual(waiting.killed, [9]);
});

test('CRIU is never broken off: it is waited for, with the OCI runtime that waits for it, however long it has been at work', async () => {
  const comms = new Map([
    [7, 'runc'],
    [8, 'criu'],
  ]);
  const { run, killed, clock } = setUp(comms, 90_000);
  const done = run();
  await clock.advance(120_000);
  assert.deepEqual(killed, []);
  comms.clear();
  await clock.advance(300);
  assert.equal(await done, 2);
  assert.deepEqual(killed, []);
});

test('CRIU that hangs itself does not keep the daemon from its start for ever', async () => {
  const { run, killed } = setUp(new Map([[8, 'criu']]), 601_000);
  await run();
  assert.deepEqual(killed, [8]);
});
