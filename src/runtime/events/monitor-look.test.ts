import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ID, oneContainer, TASK } from '../fake-one-container.ts';
import { MonitorLook } from './monitor-look.ts';

test('a monitor that ends before its container is in the story, once; one that ends with it is not', async () => {
  const { rt, clock, world, journal } = await oneContainer();
  const gone = new Set<number>();
  world.alive = (pid) => Promise.resolve(!gone.has(pid));
  const look = new MonitorLook(rt);
  look.start();
  await clock.advance(60_000);
  assert.equal(journal.length, 0);
  gone.add(TASK.conmonPid).add(TASK.pid);
  await clock.advance(60_000);
  assert.equal(journal.length, 0);
  gone.delete(TASK.pid);
  await clock.advance(10_000);
  assert.equal(journal.length, 1);
  assert.equal(journal[0]?.what, 'container.monitor-lost');
  assert.equal(journal[0].subject.containerId, ID);
  assert.match(journal[0].message, /output is lost.*exit code may be/);
  await clock.advance(60_000);
  assert.equal(journal.length, 1);
  look.close();
});

test('a look that fails is no loss, and another one follows', async () => {
  const { rt, clock, world, journal } = await oneContainer();
  world.alive = () => Promise.reject(new Error('out of descriptors'));
  const look = new MonitorLook(rt);
  look.start();
  await clock.advance(20_000);
  assert.equal(journal.length, 0);
  world.alive = (pid) => Promise.resolve(pid !== TASK.conmonPid);
  await clock.advance(10_000);
  assert.equal(journal.length, 1);
  look.close();
});
