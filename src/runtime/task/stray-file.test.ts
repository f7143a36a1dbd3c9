import assert from 'node:assert/strict';
import { test } from 'node:test';
import { scene } from './fake-exits.ts';

const said = (message: RegExp, texts: readonly string[]): number => texts.filter((text) => message.test(text)).length;

test('a file beside a process that lives is not its exit, nor when it has ended: that is the one that replaces it', () =>
  scene(async ({ folder, clock, told, statuses, said: texts, corrected, exit, start }) => {
    await start();
    folder.files.set('a', { code: 0, writtenAtWallMs: 1 });
    folder.watches[0]?.onName('a');
    await clock.advance(60_000);
    assert.deepEqual(told, []);
    assert.equal(said(/not believed/, texts), 1, 'said once');
    exit('a', 9);
    folder.watches[0]?.onName('a');
    await clock.advance(0);
    assert.deepEqual(
      statuses.map((status) => status.kind === 'exited' && status.code),
      [9],
    );
    await clock.advance(10_000);
    assert.deepEqual([told, corrected], [['a'], []]);
  }));

test('nobody replaces it: the end is told without a file, and that one corrects nothing', () =>
  scene(async ({ folder, clock, gone, statuses, corrected, start }) => {
    folder.files.set('a', { code: 0, writtenAtWallMs: 1 });
    await start();
    await clock.advance(5_000);
    gone.add(100);
    await clock.advance(1_500);
    assert.deepEqual(statuses, [], 'its monitor may still say');
    await clock.advance(5_000);
    assert.deepEqual(
      statuses.map(({ kind }) => kind),
      ['unknown'],
    );
    gone.add(99);
    await clock.advance(60_000);
    assert.deepEqual(corrected, []);
  }));

test("a file beside a stranger that has the process's number by now is its exit", () =>
  scene(async ({ clock, processes, exit, statuses, start }) => {
    await start();
    exit('a', 3);
    processes.answer = () => Promise.resolve({ pid: 100, startTimeTicks: 8, state: 'S', ppid: 1 });
    await clock.advance(1_000);
    assert.equal(statuses[0]?.kind === 'exited' && statuses[0].code, 3);
  }));

test('a process table that hangs or fails holds no exit up', () =>
  scene(async ({ folder, clock, processes, exit, told, start }) => {
    await start();
    processes.answer = () => Promise.withResolvers<undefined>().promise;
    exit('a');
    folder.watches[0]?.onName('a');
    await clock.advance(500);
    assert.deepEqual(told, ['a']);
    processes.answer = () => Promise.reject(new Error('too many open files'));
    exit('b');
    folder.watches[0]?.onName('b');
    await clock.advance(0);
    assert.deepEqual(told, ['a', 'b']);
  }));
