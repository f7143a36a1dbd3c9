import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../lib/fake-clock.ts';
import { silentLog } from '../lib/log.ts';
import { endStrays } from './end-strays.ts';

const op = { signal: new AbortController().signal, log: silentLog };

function setUp(comms: Map<number, string>): { clock: FakeClock; killed: number[]; run: () => Promise<number> } {
  const clock = new FakeClock();
  const killed: number[] = [];
  const cgroups = {
    procs: () => Promise.resolve([...comms.keys()]),
    killAll: () => {
      killed.push(...comms.keys());
      comms.clear();
      return Promise.resolve();
    },
  };
  const comm = (pid: number): Promise<string | undefined> => Promise.resolve(comms.get(pid));
  return { clock, killed, run: () => endStrays(op, { clock, cgroups, comm }, '/g/daemon') };
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
