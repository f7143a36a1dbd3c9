import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import { test } from 'node:test';
import { FakeClock } from '../lib/fake-clock.ts';
import { processIdentity } from './procfs.ts';
import { PidfdWatcher } from './pidfd-watcher.ts';

test('a thread that fails ends neither the process nor the watch: another one follows', async () => {
  const clock = new FakeClock();
  const threads: EventEmitter[] = [];
  const startThread = (): EventEmitter => {
    const thread = new EventEmitter();
    threads.push(thread);
    return thread;
  };
  const watcher = new PidfdWatcher({ clock, startThread });
  assert.equal(threads.length, 0, 'none before there is anybody to wait for');
  const self = await processIdentity(process.pid);
  assert.ok(self !== undefined);
  watcher.watch(self, () => undefined);
  threads[0]?.emit('error', new Error('epoll_wait: out of memory'));
  threads[0]?.emit('exit');
  await clock.advance(1_000);
  assert.equal(threads.length, 2);
  threads[1]?.emit('error', new Error('again'));
  threads[1]?.emit('exit');
  watcher.close();
  await clock.advance(10_000);
  assert.equal(threads.length, 2, 'none once it is closed');
  assert.equal(clock.pendingTimers, 0);
});
